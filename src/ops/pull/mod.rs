//! The `pull` verb: downloads models to where the programs of the field look for them: the cache of
//! the hub's client, Ollama's store, or a folder.

mod hub_cache;
mod hub_links;
mod ollama_store;
mod ollama_tag;
mod plan;
mod ranges;
mod site;
mod transfer;

use std::path::Path;

use crate::error::{Error, Result};
use crate::place::hub::HubName;
use crate::place::ollama::ModelName;
use crate::place::scheme;
use crate::remote::{Client, client, page};
pub use plan::{Choose, PullFile, PullOptions, PullPlan};

/// Plans the download of a model: `hf://org/name[@revision][:tag][/file]`, the same without `hf://`,
/// `ollama://[host/][namespace/]model[:tag]`, `model[:tag]` of Ollama's library, or the `https://`
/// address of a file, an index or a folder. Asks the server for the files, and fetches none but
/// their starts.
///
/// # Errors
///
/// `Mismatch` if it is no such name, or if files of a model in Ollama's registry are chosen;
/// `NotFound`; `Io` if access is refused or the server cannot be reached; `Malformed` if its answer is
/// not understood.
pub fn plan_pull(name: &str, options: &PullOptions) -> Result<PullPlan> {
    let client = client(Some(&options.network));
    let planned = match Source::parse(name, &client)? {
        Source::Hub(name) => hub_cache::plan(&name, options, &client),
        Source::Ollama(_) if options.choose.is_some() => {
            Err(Error::mismatch("a model of Ollama's registry is downloaded as a whole")
                .advise("choose no files of it"))
        }
        Source::Ollama(name) => ollama_store::plan(&name, options, &client),
        Source::Site => site::plan(name, options, &client),
    };
    planned.map_err(|error| error.in_file(Path::new(name)))
}

/// The server that a model is downloaded from.
enum Source {
    Hub(HubName),
    Ollama(ModelName),
    /// A plain address.
    Site,
}

impl Source {
    fn parse(name: &str, client: &Client) -> Result<Self> {
        let hub = |text: &str| HubName::parse(text).map(Self::Hub);
        let registry = |text: &str| ModelName::parse(text).map(Self::Ollama);
        let found = match (scheme(Path::new(name)), name.split_once("://")) {
            (Some("hf"), Some((_, text))) => hub(text),
            (Some("ollama"), Some((_, text))) => registry(text),
            (Some("http" | "https"), _) => Some(page(name, client).map_or(Self::Site, Self::Hub)),
            (Some(_), _) => None,
            // A name of three parts whose first is a host: hf.co/org/name.
            (None, _) => match name.split('/').collect::<Vec<_>>().as_slice() {
                [_] => registry(name),
                ["huggingface.co", ..] => hub(name),
                [host, _, _] if host.contains('.') => registry(name),
                _ => hub(name),
            },
        };
        found.ok_or_else(|| {
            Error::mismatch("not the name of a model on the hub or in Ollama's registry")
                .advise("write ORG/NAME, hf://ORG/NAME[@REVISION][:QUANTIZATION], ollama://MODEL[:TAG] or https://HOST/FILE")
                .in_file(Path::new(name))
        })
    }
}
