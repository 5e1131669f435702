//! Tensors in device memory.

use std::ops::Range;

use crate::device::kernel::BlockScales;
use crate::device::{BufferLayout, Device, LoadedPart};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::PIECE;
use crate::quant::Narrowing;
use crate::store::Part;

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
    /// The elements that share a scale, for dtypes whose files state it apart from the weights
    /// (bitsandbytes).
    pub blocks: Option<BlockScales>,
    /// The location of each part in the buffer, the weight first.
    pub parts: Vec<LoadedPart>,
    /// The dimension along which the rows of members are counted.
    pub(super) row_axis: usize,
    /// The fused tensors, in order; only the tensor itself if none were fused.
    pub members: Vec<Member>,
    /// The reason why the values were computed instead of copied from the file; `None` if they were
    /// copied.
    pub computed: Option<&'static str>,
    /// Whether the buffer is the file's own memory, which was not copied.
    pub imported: bool,
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

    /// One part of the tensor, if it has it.
    pub fn part(&self, part: Part) -> Option<&LoadedPart> {
        self.parts.iter().find(|found| found.part == part)
    }

    /// The bytes of one part, if the device's memory is host memory and the tensor has the part.
    pub fn contents<'s>(&'s self, device: &D, part: Part) -> Option<&'s [u8]> {
        let range = &self.part(part)?.range;
        let place = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        device.contents(&self.buffer)?.get(place)
    }

    /// Copies the bytes of one part from the device.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tensor has no such part; the error of [`Device::read`].
    pub fn read(&self, device: &D, part: Part) -> Result<Vec<u8>> {
        let found = self.part(part);
        let LoadedPart { range, .. } = found
            .ok_or_else(|| Error::not_found(format!("the tensor has no {} part", part.name())))?;
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = crate::bytes::try_zeroed(len)?;
        device.read(&self.buffer, range.start, &mut bytes)?;
        Ok(bytes)
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
    /// Same as [`member`](Self::member); the errors of the device.
    pub fn split(&self, device: &D, name: &str) -> Result<Self> {
        let runs = self.member(name)?;
        let member = self.members.iter().find(|member| member.name == name);
        let rows = member.map_or(0, |member| member.rows.end - member.rows.start);
        let mut shape = self.shape.clone();
        if let (Some(count), true) = (shape.get_mut(self.row_axis), self.members.len() > 1) {
            *count = rows;
        }
        let limits = device.limits();
        let (alignment, unit) = (limits.alignment.max(1), limits.unit.max(1));
        let mut parts = Vec::new();
        let mut end = 0u64;
        for (part, (_, runs)) in self.parts.iter().zip(&runs) {
            let start = end.next_multiple_of(alignment);
            end = start + runs.iter().map(|run| run.end - run.start).sum::<u64>();
            let mut shape = part.shape.clone();
            if let (Some(count), Some(_), true) =
                (shape.get_mut(self.row_axis), part.row_bytes, self.members.len() > 1)
            {
                *count = rows;
            }
            parts.push(LoadedPart { shape, range: start..end, ..part.clone() });
        }
        let mut layout = BufferLayout::new(end.next_multiple_of(unit));
        for part in &parts {
            layout = layout.part(part.range.clone(), part.row_bytes);
        }
        let mut buffer = device.allocate(&layout)?;
        // A piece is a multiple of every unit.
        let cuts = |range: &Range<u64>| {
            let end = range.end.next_multiple_of(unit);
            let starts = (range.start..end).step_by(usize::try_from(PIECE).unwrap_or(usize::MAX));
            starts.map(move |start| start..end.min(start + PIECE)).collect::<Vec<_>>()
        };
        let ranges: Vec<_> = parts.iter().flat_map(|part| cuts(&part.range)).collect();
        let places = parts.iter().zip(&runs).flat_map(|(part, (_, runs))| {
            cuts(&part.range).into_iter().map(move |to| (to, part.range.start, runs))
        });
        let regions = device.regions(&mut buffer, &ranges)?;
        for (region, (to, start, runs)) in regions.into_iter().zip(places) {
            device.fill(region, &mut |mut out| {
                // The position of each run in the new part.
                let mut at = start;
                for run in runs {
                    let (begin, end) = (at, at + (run.end - run.start));
                    at = end;
                    let (from, until) = (begin.max(to.start), end.min(to.end));
                    if from >= until {
                        continue;
                    }
                    let len = usize::try_from(until - from).unwrap_or(usize::MAX);
                    let (now, later) = out
                        .split_at_mut_checked(len)
                        .ok_or_else(|| Error::mismatch("the device's memory is too short"))?;
                    device.read(&self.buffer, run.start + (from - begin), now)?;
                    out = later;
                }
                Ok(())
            })?;
        }
        device.finish()?;
        Ok(Self {
            dtype: self.dtype,
            shape,
            group_size: self.group_size,
            blocks: self.blocks,
            parts,
            row_axis: self.row_axis,
            members: vec![Member { name: name.to_owned(), rows: 0..rows }],
            computed: self.computed,
            imported: false,
            lost: Narrowing::default(),
            buffer,
        })
    }
}
