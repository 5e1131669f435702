//! Models on servers: files behind `https://`, repositories of the Hugging Face hub, models of
//! Ollama's registry, files of object stores. Only the parts of a file that are asked for are fetched.
//!
//! The feature `http` turns it on. Without it, such a name is an `Unsupported` error.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod ahead;
#[cfg(feature = "http")]
mod bucket;
#[cfg(feature = "http")]
mod cache;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod file;
#[cfg(feature = "http")]
mod hub;
mod network;
#[cfg(feature = "http")]
mod range;
#[cfg(feature = "http")]
mod registry;
#[cfg(feature = "http")]
mod sign;
#[cfg(feature = "http")]
mod site;
#[cfg(all(feature = "http", feature = "write"))]
mod upload;

#[cfg(feature = "http")]
pub(crate) use cache::Version;
#[cfg(feature = "http")]
pub(crate) use client::Client;
#[cfg(feature = "http")]
pub(crate) use hub::{Repository, page};
pub use network::{Network, OnRetry, Retry};
pub(crate) use network::{RemoteModel, own_cache};
#[cfg(feature = "http")]
pub(crate) use range::Located;
#[cfg(feature = "http")]
pub(crate) use registry::RegistryModel;
#[cfg(feature = "http")]
pub(crate) use site::files_at;
#[cfg(all(feature = "http", feature = "write"))]
pub(crate) use upload::{Bucket as WritableBucket, UploadedPart};

use std::path::{Path, PathBuf};
#[cfg(feature = "http")]
use std::sync::Arc;

#[cfg(not(feature = "http"))]
use crate::error::Error;
use crate::error::Result;
#[cfg(feature = "http")]
use crate::place;
use crate::place::hub::{self as hub_names, HubName};

/// Finds the model that a name with a scheme means.
///
/// # Errors
///
/// `NotFound`; `Mismatch` if the name is not complete; `Io` if the server cannot be reached.
#[cfg(feature = "http")]
pub(crate) fn locate(path: &Path, network: Option<&Network>) -> Result<RemoteModel> {
    let name = path.to_str().unwrap_or_default();
    let client = client(network);
    let found = match place::scheme(path) {
        Some("hf") => hub::locate(name, &client),
        Some("ollama") => registry::locate(name, &client),
        Some("s3" | "gs" | "az") => bucket::locate(name, &client.network),
        _ => hub::locate_page(name, &client).unwrap_or_else(|| site::locate(name, &client)),
    };
    found.map_err(|error| error.in_file(path))
}

/// Without the feature: an error.
#[cfg(not(feature = "http"))]
pub(crate) fn locate(path: &Path, _: Option<&Network>) -> Result<RemoteModel> {
    let error = Error::unsupported("this build of weighbridge does not read from servers");
    Err(error.advise("enable the cargo feature `http`").in_file(path))
}

/// The path in the hub's cache on this machine of a name `hf://…`, or of an address of the hub's pages.
/// It is asked instead of the hub only without a network.
pub(crate) fn downloaded(path: &Path, network: Option<&Network>) -> Option<PathBuf> {
    let text = path.to_str()?;
    let name = match text.strip_prefix("hf://") {
        Some(name) => HubName::parse(name),
        None => of_page(text, network),
    }?;
    let offline = network.map_or_else(|| Network::from_env().offline, |network| network.offline);
    // A file that was not downloaded may still have a header that was kept.
    if offline { hub_names::cached(&name).ok().flatten() } else { None }
}

/// The repository that an address of the hub's pages means.
#[cfg(feature = "http")]
fn of_page(address: &str, network: Option<&Network>) -> Option<HubName> {
    hub::page(address, &client(network))
}

/// Without the feature: none.
#[cfg(not(feature = "http"))]
fn of_page(_: &str, _: Option<&Network>) -> Option<HubName> {
    None
}

/// A client with these settings, or with those of the environment.
#[cfg(feature = "http")]
pub(crate) fn client(network: Option<&Network>) -> Arc<Client> {
    Arc::new(Client::new(network.cloned().unwrap_or_else(Network::from_env)))
}
