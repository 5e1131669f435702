//! Options for running a plan.

use std::fmt;

use crate::progress::{Progress, Watch};
use crate::remote::Network;
use crate::threads::Threads;

/// Options for running a plan.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions<'w> {
    pub(crate) overwrite: bool,
    pub(crate) allow_incomplete: bool,
    pub(super) allow_nonfinite: bool,
    pub(super) threads: Threads,
    pub(super) memory: Option<u64>,
    pub(super) part_bytes: Option<u64>,
    pub(super) network: Option<&'w Network>,
    pub(super) watch: Option<Watch<'w>>,
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { overwrite, threads, memory, .. } = self;
        write!(f, "WriteOptions({threads:?}, memory {memory:?}, overwrite {overwrite})")
    }
}

impl<'w> WriteOptions<'w> {
    /// The defaults: one thread for each processor, 256 MiB of memory, and an error if the target
    /// exists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces an existing target once the new one is complete.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Writes a model although it lacks tensors that its architecture requires.
    #[must_use]
    pub fn allow_incomplete(mut self, allow: bool) -> Self {
        self.allow_incomplete = allow;
        self
    }

    /// Quantizes tensors with NaN, infinities, or values beyond the range of a block's scale, which
    /// otherwise are an error. No value of such a block is kept.
    #[must_use]
    pub fn allow_nonfinite(mut self, allow: bool) -> Self {
        self.allow_nonfinite = allow;
        self
    }

    /// Sets the threads that share the work.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets the bytes of memory for buffers, in addition to the headers. Every thread needs at
    /// least one row of the tensor that it works on.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the bytes of the parts in which slices are sent to an object store: 5 MiB to 5 GiB. A file has
    /// larger parts if it would have more than 10,000. Every thread holds one part.
    #[must_use]
    pub fn part_bytes(mut self, bytes: u64) -> Self {
        self.part_bytes = Some(bytes);
        self
    }

    /// Sets how an object store is reached. The default is [`Network::from_env`].
    #[must_use]
    pub fn network(mut self, network: &'w Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets a callback that is called every few megabytes. `Break` cancels the writing, and no file
    /// is left behind.
    #[must_use]
    pub fn progress(
        mut self,
        watch: &'w (dyn Fn(Progress) -> std::ops::ControlFlow<()> + Sync),
    ) -> Self {
        self.watch = Some(watch);
        self
    }
}
