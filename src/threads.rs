//! The number of threads that share work, and work on many items whose results keep the order of
//! the items.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Builder;

use crate::error::Result;

/// The most threads: each has buffers, so that a number typed wrong would take all memory.
const MOST: usize = 1024;

/// The number of threads that share work: one for each processor, unless another number is set.
///
/// ```
/// use weighbridge::{OpenOptions, Threads};
///
/// let options = OpenOptions::new().threads(Threads::one());
/// // A number is accepted too; 0 means one thread for each processor.
/// let options = options.threads(2);
/// ```
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Threads(Option<NonZeroUsize>);

impl Threads {
    /// Sets the number of threads; 0 means one for each processor. More than 1024 are taken as 1024.
    pub const fn new(threads: usize) -> Self {
        Self(NonZeroUsize::new(if threads > MOST { MOST } else { threads }))
    }

    /// Only the thread of the caller.
    pub const fn one() -> Self {
        Self::new(1)
    }

    /// This number of threads, or `most` if it is more; at least one.
    pub(crate) fn at_most(self, most: usize) -> Self {
        Self::new(self.get().min(most).max(1))
    }

    /// The number of threads, at least 1.
    pub fn get(self) -> usize {
        /// Asking the system takes longer than opening a small file.
        static PROCESSORS: OnceLock<NonZeroUsize> = OnceLock::new();
        let processors =
            || std::thread::available_parallelism().unwrap_or(const { NonZeroUsize::MIN });
        self.0.unwrap_or_else(|| *PROCESSORS.get_or_init(processors)).get()
    }

    /// Runs `work` on each item and returns the results in the order of the items. Each thread,
    /// including the caller's, takes the next item when it has finished one. It passes `work` its own
    /// state, which `start` creates once per thread. In a browser there is only the caller's thread.
    ///
    /// ```
    /// use weighbridge::Threads;
    ///
    /// let squares = Threads::default().in_order(0..4, || (), |(), n: u32| Ok(n * n))?;
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// # Ok::<(), weighbridge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the first failing item, in the order of the items. Items after it are not started.
    pub fn in_order<I: Send, S, T: Send>(
        self,
        items: impl ExactSizeIterator<Item = I> + Send,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, I) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let count = items.len();
        // The number of processors is queried only if there is work to share.
        let alone = count < 2 || cfg!(target_family = "wasm");
        let threads = if alone { 1 } else { self.get().min(count) };
        if threads == 1 {
            let mut own = start();
            return items.map(|item| work(&mut own, item)).collect();
        }
        let results: Vec<Option<Result<T>>> = (0..count).map(|_| None).collect();
        let shared = Mutex::new((items.enumerate().fuse(), results));
        run_on(threads, &|| {
            let mut own = start();
            let mut done: Option<(usize, Result<T>)> = None;
            loop {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let (queue, results) = &mut *shared;
                if let Some((number, result)) = done.take() {
                    if result.is_err() {
                        queue.for_each(drop);
                    }
                    results[number] = Some(result);
                }
                let Some((number, item)) = queue.next() else { return };
                drop(shared);
                done = Some((number, work(&mut own, item)));
            }
        });
        let (_, results) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().flatten().collect()
    }
}

impl From<usize> for Threads {
    fn from(threads: usize) -> Self {
        Self::new(threads)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(NonZeroUsize::MIN) => write!(f, "one thread"),
            Some(number) => write!(f, "{number} threads"),
            None => write!(f, "one thread for each processor"),
        }
    }
}

/// Runs `share` on some threads, the caller's among them. The same code for everything that is shared:
/// starting threads takes more of it than most work does.
fn run_on(threads: usize, share: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        // What cannot be started leaves its share to the others.
        let start = |_| Builder::new().spawn_scoped(scope, share).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        share();
        for thread in others {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    #[test]
    fn results_keep_the_order_of_the_items() {
        for threads in [1, 2, 7, 200] {
            for count in [0, 1, 2, 100] {
                let made = Threads::new(threads).in_order(0..count, || (), |(), n| Ok(n * n));
                assert_eq!(made.unwrap(), (0..count).map(|n| n * n).collect::<Vec<_>>());
            }
        }
        assert!(Threads::default().get() >= 1);
        assert_eq!((Threads::one().get(), Threads::new(0)), (1, Threads::default()));
        assert_eq!(Threads::new(usize::MAX).get(), MOST);
    }

    #[test]
    fn the_first_error_is_returned_and_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let work = |(): &mut (), n: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if n % 3 == 2 { Err(Error::mismatch(n.to_string())) } else { Ok(n) }
        };
        for threads in [1, 2, 5] {
            let error = Threads::new(threads).in_order(0..100_000, || (), work).unwrap_err();
            assert_eq!(error.to_string(), "2");
        }
        assert!(begun.into_inner() < 100_000);
    }

    #[test]
    #[should_panic(expected = "item 5")]
    fn a_panic_reaches_the_caller() {
        let work = |(): &mut (), n: i32| if n == 5 { panic!("item 5") } else { Ok(n) };
        let _ = Threads::new(3).in_order(0..9, || (), work);
    }
}
