//! Lays out the buffer of a tensor, and divides it into regions that threads fill.

use std::ops::Range;
use std::sync::Arc;

use super::policy::{LoadedForm, NOT_COMPUTED, refused};
use super::{Fusion, LoadedPart, LoadedTensor, Member, WeightProvider};
use crate::device::kernel::BlockScales;
use crate::device::{BufferLayout, Device, DeviceLimits, HostMemory, TensorLayout};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{BufferPiece, PIECE, Tensor, plan_packed, plan_values};
use crate::progress::{Callback, Watch};
use crate::quant::Narrowing;
use crate::setters::setters;
use crate::store::Part;
use crate::threads::Threads;

/// Options for loading many tensors at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions<'w> {
    pub(super) fusions: Vec<&'w Fusion>,
    pub(super) threads: Threads,
    pub(super) progress: Watch<'w>,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self { fusions: Vec::new(), threads: Threads::new(4), progress: Watch::default() }
    }
}

impl<'w> LoadOptions<'w> {
    /// The defaults: no fusion, four threads. Two threads are enough if the files are in the page
    /// cache, whatever the number of processors; with a disk, one thread can copy while another
    /// waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fuses tensors into one buffer where they can be joined: [named](Fusion::named) fusions, or
    /// [those of the caller](Fusion::new).
    #[must_use]
    pub fn fuse(mut self, fusions: &[&'w Fusion]) -> Self {
        self.fusions = fusions.to_vec();
        self
    }

    /// The requested fusions.
    pub(crate) fn fusions(&self) -> &[&'w Fusion] {
        &self.fusions
    }

    setters! {
        /// Sets the threads that share the work; [`DeviceLimits::threads`] may allow fewer.
        threads: impl Into<Threads>;
        /// Sets a callback that is called every few megabytes; returning `Break` cancels the loading.
        progress: Callback<'w>;
    }
}

/// The bytes of the smallest part that a device imports. Drivers limit the number of imports.
const IMPORTED: u64 = 64 << 10;

/// A tensor that is being loaded.
pub(super) struct LoadJob<D: Device> {
    pub(super) placed: PlacedTensor,
    pub(super) loaded: LoadedTensor<D>,
}

/// A tensor, and where its parts will be in its buffer.
#[derive(Debug)]
pub(super) struct PlacedTensor {
    pub(super) view: Tensor,
    form: LoadedForm,
    pub(super) dtype: DType,
    pub(super) group_size: Option<u32>,
    pub(super) blocks: Option<BlockScales>,
    pub(super) parts: Vec<LoadedPart>,
    pub(super) layout: BufferLayout,
    members: Vec<Member>,
    pub(super) computed: Option<&'static str>,
}

/// The layout of a buffer with these parts.
pub(super) fn layout(parts: &[LoadedPart], bytes: u64) -> BufferLayout {
    parts.iter().fold(BufferLayout::new(bytes), |layout, part| {
        layout.part(part.range.clone(), part.row_bytes)
    })
}

/// A range of a buffer that one thread fills at once, and the pieces that fill it.
#[derive(Debug)]
pub(super) struct PlannedRegion {
    pub(super) to: Range<u64>,
    pub(super) pieces: Vec<PlannedPiece>,
}

/// A piece of a buffer.
#[derive(Debug)]
pub(super) struct PlannedPiece {
    /// Its bytes in the buffer.
    pub(super) to: Range<u64>,
    /// Its bytes as they are stored.
    pub(super) piece: BufferPiece,
    /// The floating-point dtypes from and to which it is converted on the way.
    pub(super) convert: Option<(DType, DType)>,
}

impl<D: Device> WeightProvider<D> {
    /// Computes the buffer layout of one tensor or of several fused ones.
    pub(super) fn placed(&self, views: Vec<Tensor>) -> Result<PlacedTensor> {
        let mut members = Vec::new();
        let mut row = 0;
        for view in &views {
            let end = row + view.matrix_rows();
            members.push(Member { name: view.name().to_owned(), rows: row..end });
            row = end;
        }
        let view = match <[Tensor; 1]>::try_from(views) {
            Ok([alone]) => alone,
            Err(views) => Tensor::fuse(views)?,
        };
        let (form, computed) = self.choices.form(&view, &self.device)?;
        let placed = self.placed_as(view, form, computed, members)?;
        if placed.is_values() || self.device.computes(&placed.tensor_layout()) {
            return Ok(placed);
        }
        let PlacedTensor { view, dtype, members, .. } = placed;
        let to = self.choices.instead(&self.device, dtype);
        let to = to.ok_or_else(|| refused(&view, &self.device, "its parts as they are stored"))?;
        self.placed_as(view, LoadedForm::Values(to), Some(NOT_COMPUTED), members)
    }

    /// Computes the buffer layout of a tensor in this form.
    fn placed_as(
        &self,
        view: Tensor,
        form: LoadedForm,
        computed: Option<&'static str>,
        members: Vec<Member>,
    ) -> Result<PlacedTensor> {
        let limits = self.device.limits();
        let too_large = || Error::unsupported("the parts exceed 2^64 bytes").in_tensor(view.name());
        let (parts, end) = self.layout(&view, &form, limits).ok_or_else(too_large)?;
        let bytes = end.checked_next_multiple_of(limits.unit.max(1)).ok_or_else(too_large)?;
        let is_packed = matches!(form, LoadedForm::Packed(_));
        Ok(PlacedTensor {
            dtype: match &form {
                LoadedForm::Packed(_) => view.dtype()?,
                LoadedForm::Values(dtype) => *dtype,
            },
            group_size: view.group_size().filter(|_| is_packed),
            blocks: if is_packed { view.block_scales()? } else { None },
            layout: layout(&parts, bytes),
            parts,
            members,
            computed,
            form,
            view,
        })
    }

    /// Computes the buffer layout of one tensor or of several fused ones, and allocates it.
    pub(super) fn job(&self, views: Vec<Tensor>) -> Result<LoadJob<D>> {
        let mut placed = self.placed(views)?;
        if !placed.is_values() {
            placed.view.check_groups()?;
        }
        let imported = self.import(&placed);
        let (imported, buffer) = match imported {
            Some((range, buffer)) => {
                placed.move_to(range);
                (true, Ok(buffer))
            }
            None => {
                self.cache.make_room(placed.bytes());
                (false, self.device.allocate(&placed.layout))
            }
        };
        let loaded = LoadedTensor {
            dtype: placed.dtype,
            shape: placed.view.shape().to_vec(),
            group_size: placed.group_size,
            blocks: placed.blocks,
            parts: placed.parts.clone(),
            row_axis: placed.view.row_axis(),
            members: placed.members.clone(),
            computed: placed.computed,
            imported,
            lost: Narrowing::default(),
            buffer: buffer.map_err(|error| error.in_tensor(placed.view.name()))?,
        };
        Ok(LoadJob { placed, loaded })
    }

    /// The file's own memory as the buffer, and where the part is in it, if the device imports memory and
    /// the tensor has one part, as it is stored.
    fn import(&self, placed: &PlacedTensor) -> Option<(Range<u64>, D::Buffer)> {
        let page = self.device.limits().import?;
        let LoadedForm::Packed(parts) = &placed.form else { return None };
        let [(part, dtype)] = parts.as_slice() else { return None };
        if part.dtype != *dtype || part.bytes < IMPORTED {
            return None;
        }
        let (file, range) = placed.view.file_memory(part.part)?;
        let whole = range.start / page * page..range.end.checked_next_multiple_of(page)?;
        let place = |at: u64| usize::try_from(at).ok();
        let memory = HostMemory::new(Arc::new(file), place(whole.start)?..place(whole.end)?);
        let is_whole = memory.bytes().len() as u64 == whole.end - whole.start;
        if !is_whole || !(memory.bytes().as_ptr().addr() as u64).is_multiple_of(page) {
            return None;
        }
        let buffer = self.device.import(memory)?;
        Some((range.start - whole.start..range.end - whole.start, buffer))
    }

    /// The places of a tensor's parts in its buffer, and where the last one ends. `None` if a number
    /// overflows.
    fn layout(
        &self,
        view: &Tensor,
        form: &LoadedForm,
        limits: DeviceLimits,
    ) -> Option<(Vec<LoadedPart>, u64)> {
        let alignment = limits.alignment.max(1);
        let mut parts = Vec::new();
        let mut end = 0u64;
        let mut push = |part, dtype, shape, bytes: u64, row_bytes, lead: &dyn Fn(u64) -> u64| {
            let start = match self.is_tight {
                true => end,
                false => end.checked_next_multiple_of(alignment)?,
            };
            let start = start.checked_add(lead(start))?;
            end = start.checked_add(bytes)?;
            parts.push(LoadedPart { part, dtype, shape, range: start..end, row_bytes });
            Some(())
        };
        match form {
            LoadedForm::Packed(packed) => {
                for (part, to) in packed {
                    let bytes = converted(part.bytes, part.dtype, *to)?;
                    let row = match view.part_row_bytes(part) {
                        Some(row) => Some(converted(row, part.dtype, *to)?),
                        None => None,
                    };
                    let is_direct = limits.in_place && !self.is_tight && part.dtype == *to;
                    let lead = |start| match is_direct {
                        true => lead(view, part.part, bytes, start, alignment),
                        false => 0,
                    };
                    push(part.part, *to, view.part_shape(part), bytes, row, &lead)?;
                }
            }
            LoadedForm::Values(dtype) => {
                let width = u64::from(dtype.descriptor().block_bytes);
                let bytes = view.elements().checked_mul(width)?;
                let row = crate::shape::columns(view.shape()).checked_mul(width)?;
                push(Part::Weight, *dtype, view.shape().to_vec(), bytes, Some(row), &|_| 0)?;
            }
        }
        Some((parts, end))
    }
}

impl PlacedTensor {
    /// Whether its values are stored, and not its packed parts.
    fn is_values(&self) -> bool {
        matches!(self.form, LoadedForm::Values(_))
    }

    /// The layout of the tensor, for devices and kernels.
    pub(super) fn tensor_layout(&self) -> TensorLayout<'_> {
        TensorLayout {
            dtype: self.dtype,
            shape: self.view.shape(),
            group_size: self.group_size,
            blocks: self.blocks,
            parts: &self.parts,
            layout: &self.layout,
        }
    }

    /// Sets where the only part is in its buffer.
    pub(super) fn move_to(&mut self, range: Range<u64>) {
        self.layout = BufferLayout::new(range.end);
        if let [part] = self.parts.as_mut_slice() {
            part.range = range;
            self.layout = layout(&self.parts, self.layout.bytes);
        }
    }

    /// The bytes of all parts.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.range.end - part.range.start).sum()
    }

    /// The regions of the buffer, in order. They start and end at multiples of `unit`.
    pub(super) fn plan(&self, unit: u64) -> Result<Vec<PlannedRegion>> {
        let mut regions: Vec<PlannedRegion> = Vec::new();
        let unit = unit.max(1);
        let mut add = |piece: PlannedPiece| match regions.last_mut() {
            // The device cannot transfer to the boundary between them.
            Some(last) if last.to.end > piece.to.start => {
                last.to.end = piece.to.end.next_multiple_of(unit);
                last.pieces.push(piece);
            }
            _ => {
                let to = piece.to.start / unit * unit..piece.to.end.next_multiple_of(unit);
                regions.push(PlannedRegion { to, pieces: vec![piece] });
            }
        };
        let mut planned = Vec::new();
        match &self.form {
            LoadedForm::Packed(parts) => {
                for ((part, dtype), loaded) in parts.iter().zip(&self.parts) {
                    let convert = Some((part.dtype, *dtype)).filter(|(from, to)| from != to);
                    let start = loaded.range.start;
                    plan_packed(&self.view, part, start, PIECE, unit, &mut planned);
                    for piece in planned.drain(..) {
                        let at = |stored: u64| match convert {
                            Some((from, to)) => converted(stored - start, from, to)
                                .and_then(|bytes| bytes.checked_add(start)),
                            None => Some(stored),
                        };
                        let range = at(piece.to.start).zip(at(piece.to.end));
                        let (start, end) =
                            range.ok_or_else(|| Error::mismatch("a part is not whole numbers"))?;
                        add(PlannedPiece { to: start..end, piece, convert });
                    }
                }
            }
            LoadedForm::Values(dtype) => {
                let start = self.parts.first().map_or(0, |part| part.range.start);
                plan_values(&self.view, *dtype, start, PIECE, &mut planned);
                for piece in planned {
                    add(PlannedPiece { to: piece.to.clone(), piece, convert: None });
                }
            }
        }
        Ok(regions)
    }
}

/// The bytes of numbers after their conversion to another dtype.
fn converted(bytes: u64, from: DType, to: DType) -> Option<u64> {
    if from == to {
        return Some(bytes);
    }
    let (from, to) = (from.descriptor().block_bytes, to.descriptor().block_bytes);
    bytes.checked_div(u64::from(from))?.checked_mul(u64::from(to))
}

/// The padding, in bytes, before a long part that gives it the same offset within a memory page as
/// in the file, so that it can be read directly into place. 0 if that would break the alignment.
fn lead(view: &Tensor, part: Part, bytes: u64, start: u64, alignment: u64) -> u64 {
    const PAGE: u64 = 4096;
    let mut sources = view.stored_tensors();
    let place = sources.next().and_then(|tensor| tensor.place(part)).map(|(_, offset)| offset);
    match place.filter(|offset| offset.is_multiple_of(alignment) && bytes >= 2 << 20) {
        Some(offset) => (offset + PAGE - start % PAGE) % PAGE,
        None => 0,
    }
}
