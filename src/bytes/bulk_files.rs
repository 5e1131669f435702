//! The handles of bulk reads.

use std::fs::File;

/// A file that is opened a second and a third time for bulk reads.
#[derive(Debug)]
pub(super) struct BulkFiles {
    /// For page cache queries and reads of a few bytes, which do not start the system's read-ahead.
    pub(super) quiet: File,
    /// For reads past the page cache.
    pub(super) direct: File,
}
