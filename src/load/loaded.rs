//! Tensors in device memory.

use std::ops::Range;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::quant::Narrowing;
use crate::store::Part;

/// One part of a loaded tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedPart {
    /// The kind of the part.
    pub part: Part,
    /// The dtype of the part's elements.
    pub dtype: DType,
    /// The part's bytes in the buffer, little-endian. The range starts at a multiple of the
    /// device's alignment.
    pub range: Range<u64>,
    /// The part's bytes for each row; `None` if the tensor has the part only once.
    pub row_bytes: Option<u64>,
}

/// A member of a fused tensor.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Member {
    /// Its canonical name.
    pub name: String,
    /// Its rows in each matrix of the fused tensor; its elements in a fused vector.
    pub rows: Range<u64>,
}

/// A tensor in device memory, with all its parts in one buffer.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTensor<D: Device> {
    /// The dtype in which the elements are stored.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The number of elements that share a scale, for dtypes whose group size differs between
    /// tensors (MLX).
    pub group_size: Option<u32>,
    /// The location of each part in the buffer, the weight first.
    pub parts: Vec<LoadedPart>,
    /// The dimension along which the rows of members are counted.
    pub(super) row_axis: usize,
    /// The fused tensors, in order; only the tensor itself if none were fused.
    pub members: Vec<Member>,
    /// Why the values were computed instead of copied from the file; `None` if they were copied.
    pub computed: Option<&'static str>,
    /// The values that became infinite or 0 when they were rounded to this dtype.
    pub lost: Narrowing,
    /// The buffer with the bytes.
    pub buffer: D::Buffer,
}

impl<D: Device> LoadedTensor<D> {
    /// The bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.range.end - part.range.start).sum()
    }

    /// The byte ranges of one member in the buffer, part by part: one range, or one for each matrix
    /// of a tensor that has several (experts).
    ///
    /// # Errors
    ///
    /// `NotFound` if no member has this name.
    pub fn member(&self, name: &str) -> Result<Vec<(Part, Vec<Range<u64>>)>> {
        let member = self.members.iter().find(|member| member.name == name);
        let member = member
            .ok_or_else(|| Error::not_found(format!("the buffer has no member \"{name}\"")))?;
        let (arrays, rows) = crate::shape::arrays(&self.shape, self.row_axis);
        let ranges = |part: &LoadedPart| {
            let Some(each) = part.row_bytes.filter(|_| self.members.len() > 1) else {
                return vec![part.range.clone()];
            };
            let at = |array: u64, row: u64| part.range.start + (array * rows + row) * each;
            (0..arrays).map(|n| at(n, member.rows.start)..at(n, member.rows.end)).collect()
        };
        Ok(self.parts.iter().map(|part| (part.part, ranges(part))).collect())
    }

    /// Copies one member to a buffer of its own, which equals what loading it alone gives.
    ///
    /// # Errors
    ///
    /// Same as [`member`](Self::member); `Io` if the device is out of memory.
    pub fn split(&self, device: &D, name: &str) -> Result<Self> {
        let runs = self.member(name)?;
        let member = self.members.iter().find(|member| member.name == name);
        let rows = member.map_or(0, |member| member.rows.end - member.rows.start);
        let mut shape = self.shape.clone();
        if let (Some(count), true) = (shape.get_mut(self.row_axis), self.members.len() > 1) {
            *count = rows;
        }
        let mut parts = Vec::new();
        let mut end = 0u64;
        for (part, (_, runs)) in self.parts.iter().zip(&runs) {
            let start = end.next_multiple_of(device.alignment());
            end = start + runs.iter().map(|run| run.end - run.start).sum::<u64>();
            parts.push(LoadedPart { range: start..end, ..part.clone() });
        }
        let mut buffer = device.allocate(end)?;
        for (part, (_, runs)) in parts.iter().zip(&runs) {
            let mut to = part.range.start;
            for run in runs {
                let mut at = run.start;
                while at < run.end {
                    let len = (run.end - at).min(1 << 20);
                    let mut bytes = crate::bytes::try_zeroed(usize::try_from(len).unwrap_or(0))?;
                    device.read(&self.buffer, at, &mut bytes)?;
                    device.write(&mut buffer, to, &bytes)?;
                    (at, to) = (at + len, to + len);
                }
            }
        }
        Ok(Self {
            dtype: self.dtype,
            shape,
            group_size: self.group_size,
            parts,
            row_axis: self.row_axis,
            members: vec![Member { name: name.to_owned(), rows: 0..rows }],
            computed: self.computed,
            lost: Narrowing::default(),
            buffer,
        })
    }
}
