//! Options for running a plan.

use crate::progress::{Callback, Watch};
use crate::remote::Network;
use crate::setters::setters;
use crate::threads::Threads;

/// Options for running a plan.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions<'w> {
    pub(crate) overwrite: bool,
    pub(crate) allow_incomplete: bool,
    pub(super) allow_nonfinite: bool,
    pub(super) threads: Threads,
    pub(super) memory: Option<u64>,
    pub(super) part_bytes: Option<u64>,
    pub(super) network: Option<&'w Network>,
    pub(super) progress: Watch<'w>,
}

impl<'w> WriteOptions<'w> {
    /// The defaults: one thread for each processor, 256 MiB of memory, and an error if the target
    /// exists.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Replaces an existing target once the new one is complete.
        overwrite: bool;
        /// Writes a model although it lacks tensors that its architecture requires.
        allow_incomplete: bool;
        /// Quantizes tensors with NaN, infinities, or values beyond the range of a block's scale, which
        /// otherwise are an error. No value of such a block is kept.
        allow_nonfinite: bool;
        /// Sets the threads that share the work.
        threads: impl Into<Threads>;
        /// Sets the bytes of memory for buffers, in addition to the headers. Every thread needs at
        /// least one row of the tensor that it works on.
        memory: u64;
        /// Sets the bytes of the parts in which slices are sent to an object store: 5 MiB to 5 GiB. A file has
        /// larger parts if it would have more than 10,000. Every thread holds one part.
        part_bytes: u64;
        /// Sets how an object store is reached. The default is [`Network::from_env`].
        network: &'w Network;
        /// Sets a callback that is called every few megabytes. `Break` cancels the writing, and no file
        /// is left behind.
        progress: Callback<'w>;
    }
}
