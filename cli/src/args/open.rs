//! Arguments that say how a model is opened.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use weighbridge::adapter::Adapter;
use weighbridge::remote::{Network, Retry};
use weighbridge::{Model, OpenOptions, Strictness};

use crate::failure::{is_json, note, remark};
use crate::print;

/// Options of opening a model.
#[derive(Args, Clone, Debug)]
pub(crate) struct Open {
    /// Also refuse what only some readers accept: by llama.cpp's rules for GGUF, by the specification for
    /// safetensors
    #[arg(long, conflicts_with = "lenient", help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) strict: bool,
    /// Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
    #[arg(long, help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) lenient: bool,
    /// Read tensor data from the file instead of memory-mapping it
    #[arg(long, help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) no_map: bool,
    /// Include safetensors files that the index does not name
    #[arg(long, help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) all_files: bool,
    /// Contact no server: use the headers that earlier runs kept
    #[arg(long, help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) offline: bool,
}

/// Access to servers, as the environment says. Requests that are made again are reported.
pub(crate) fn network() -> Network {
    let mut network = Network::from_env();
    network.on_retry = Some(Arc::new(|retry| {
        let Retry { server, reason, attempt, attempts, wait, .. } = retry;
        let wait = wait.as_secs_f64();
        if !is_json() {
            let _ = print::stderr().clear_line();
        }
        note(&format!("{server}: {reason}; attempt {attempt} of {attempts}, again in {wait:.1} s"));
    }));
    network
}

impl Open {
    /// Access to servers.
    pub(crate) fn network(&self) -> Network {
        let mut network = network();
        network.offline |= self.offline;
        network
    }

    /// Opens a model to run it, with the adapters merged that its container attaches to it.
    pub(crate) fn runnable(&self, path: &Path) -> weighbridge::Result<Model> {
        let model = self.options().open(path)?;
        remark(&model);
        for layer in model.attachments().iter().filter(|layer| layer.kind == "adapter") {
            note(&format!("the adapter {} of Ollama's store is merged", print::shown(&layer.path)));
        }
        Adapter::with_attached(&model)
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let strictness = match (self.strict, self.lenient) {
            (true, _) => Strictness::Strict,
            (false, true) => Strictness::Lenient,
            (false, false) => Strictness::Default,
        };
        let options = OpenOptions::new().strictness(strictness).all_files(self.all_files);
        let options = options.network(self.network());
        if self.no_map { options.read() } else { options }
    }
}
