//! Arguments that say how a model is opened.

use clap::Args;
use weighbridge::remote::Network;
use weighbridge::{OpenOptions, Strictness};

/// How a model is opened.
#[derive(Args, Clone, Debug)]
pub(crate) struct Open {
    /// Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the format's
    /// specification for safetensors
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

impl Open {
    /// How servers are reached, if not as the environment says.
    pub(crate) fn network(&self) -> Option<Network> {
        self.offline.then(|| {
            let mut network = Network::from_env();
            network.offline = true;
            network
        })
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let strictness = match (self.strict, self.lenient) {
            (true, _) => Strictness::Strict,
            (false, true) => Strictness::Lenient,
            (false, false) => Strictness::Default,
        };
        let mut options = OpenOptions::new().strictness(strictness).all_files(self.all_files);
        if let Some(network) = self.network() {
            options = options.network(network);
        }
        if self.no_map { options.read() } else { options }
    }
}
