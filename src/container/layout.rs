//! What writing a file comes to once its arrays are known: a header, and a place for each array.

use crate::dtype::DType;

/// An array to be written, as a file's header tells of it.
#[derive(Clone, Debug)]
pub(crate) struct NewArray {
    pub(crate) name: String,
    /// What the header says, which is not a tensor's dtype where that has parts.
    pub(crate) dtype: DType,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
}

/// A file but for the bytes of its arrays. What lies between them is 0.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: Vec<u8>,
    /// Where each array starts, from the start of the file, in the order in which they were given.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the whole file.
    pub(crate) len: u64,
}
