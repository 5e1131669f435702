//! Options of opening models.

use std::sync::Arc;

use crate::bytes::{Access, FileSystem, Files};
use crate::error::Result;
use crate::limits::Limits;
use crate::remote::Network;
use crate::setters::setters;
use crate::threads::Threads;

/// The rules that a file must follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Strictness {
    /// Accept what the strictest reader accepts: llama.cpp for GGUF, whisper.cpp for its own files,
    /// the format's specification for safetensors.
    Strict,
    /// Accept everything with a single safe interpretation; for safetensors, what its reference
    /// crate accepts.
    #[default]
    Default,
    /// Also accept safetensors files that MLX accepts, with holes, shared bytes and trailing bytes,
    /// GGUF files whose tensors overlap, and files of whisper.cpp that lack tensors at the end.
    Lenient,
}

/// Options for opening a model.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) strictness: Strictness,
    pub(crate) threads: Threads,
    pub(crate) all_files: bool,
    pub(crate) partial: bool,
    pub(crate) files: Files,
    pub(crate) network: Option<Network>,
}

impl OpenOptions {
    /// The defaults: tensor data is mapped, the default [`Limits`] apply, and a thread for each
    /// processor reads headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads tensor data at its position, without any memory map. See [`Access`].
    pub fn read(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// Opens the model among `files` instead of those of this machine.
    pub fn files(mut self, files: impl FileSystem + 'static) -> Self {
        self.files = Files::Custom(Arc::new(files));
        self
    }

    setters! {
        /// Sets upper bounds on what a file may cost.
        limits: Limits;
        /// Sets how strictly files must follow their formats.
        strictness: Strictness;
        /// Sets the threads that share the reading of a sharded model's headers.
        threads: impl Into<Threads>;
        /// Sets how servers are reached; without it, as the environment says.
        network: Network;
        /// Also opens a file that ends before its tensors do, and shards without the others of their set: a
        /// note says what is missing. And a directory that has a tokenizer, but no weights. Reading a tensor
        /// that is not there is an error.
        partial: bool;
        /// Also opens safetensors files that the index does not name.
        all_files: bool;
    }
}

/// The number of files that are asked for at the same time, if they are not on this machine.
const REQUESTS: usize = 16;

/// Runs `parse` over `items` with the threads that the options allow. Results keep their order.
pub(super) fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    options: &OpenOptions,
    parse: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Requests wait for servers, not for processors.
    let threads = match options.files {
        Files::Custom(_) => Threads::new(options.threads.get().max(REQUESTS)),
        _ => options.threads,
    };
    threads.in_order(items.iter(), || (), |(), item| parse(item))
}
