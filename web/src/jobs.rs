//! Progress of the work on answers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use weighbridge::Progress;

/// The questions that are being answered, by the name that the page gives each.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<HashMap<String, Progress>>);

/// More jobs than any page has; those beyond are not followed.
const MOST: usize = 256;

/// A question that is being answered. It is forgotten when it is dropped.
pub(crate) struct Job<'j> {
    jobs: &'j Jobs,
    name: &'j str,
}

impl Jobs {
    pub(crate) fn start<'j>(&'j self, name: &'j str) -> Job<'j> {
        Job { jobs: self, name }
    }

    pub(crate) fn progress(&self, name: &str) -> Option<Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

impl Job<'_> {
    /// Notes how far the work is. A total of 0 says nothing.
    pub(crate) fn note(&self, progress: Progress) {
        if progress.total == 0 {
            return;
        }
        let mut known = self.jobs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST || known.contains_key(self.name) {
            known.insert(self.name.to_owned(), progress);
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.jobs.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.name);
    }
}
