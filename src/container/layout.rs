//! The layout of a file to be written: a header, and a position for each array.

use crate::dtype::DType;

/// An array to be written, as the file's header describes it.
#[derive(Clone, Debug)]
pub(crate) struct NewArray {
    pub(crate) name: String,
    /// The dtype in the header. For a tensor with several parts, it differs from the tensor's
    /// dtype.
    pub(crate) dtype: DType,
    /// The dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
}

/// A file without the bytes of its arrays. The gaps between arrays are filled with 0.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: Vec<u8>,
    /// The offset of each array from the start of the file, in the order in which they were given.
    pub(crate) offsets: Vec<u64>,
    /// The length of the whole file, in bytes.
    pub(crate) len: u64,
}
