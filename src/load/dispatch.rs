//! The dispatch table: for each tensor and operation, the kernel and what a call of it needs.

use super::plan::layout;
use super::{Fusion, LoadedTensor, WeightProvider};
use crate::device::kernel::{KernelTensor, Operation, Window};
use crate::device::{Device, TensorLayout};
use crate::dtype::DType;
use crate::error::Result;

/// For each tensor of a model, or each group of fused ones, and each operation: the kernel, its
/// geometry and its bindings. It is built from names and shapes: nothing is loaded, and the
/// container does not matter.
#[derive(Debug)]
#[non_exhaustive]
pub struct DispatchTable {
    /// The entries, in the order of [`WeightProvider::load_all`].
    pub entries: Vec<Dispatch>,
}

/// One entry of a [`DispatchTable`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Dispatch {
    /// The canonical names of the tensors in the buffer.
    pub members: Vec<String>,
    /// The dtype on the device.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The bytes of all parts.
    pub bytes: u64,
    /// The reason why the values are computed instead of copied from the file; `None` if they are
    /// copied.
    pub computed: Option<&'static str>,
    /// The facts that kernels need; `None` if no kernel computes with the tensor.
    pub tensor: Option<KernelTensor>,
}

/// The cost of one operation of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DispatchCost {
    /// The number of dispatches, one for each window of rows.
    pub windows: usize,
    /// The numbers of workgroups of the first dispatch.
    pub workgroups: [u32; 3],
    /// The bytes that are read of the tensor.
    pub bytes: u64,
    /// The floating-point operations.
    pub flops: u64,
}

impl DispatchTable {
    /// Builds the table for the tensors whose names `wanted` accepts, fused as
    /// [`WeightProvider::load_all`] fuses them.
    ///
    /// ```
    /// use weighbridge::WeightProvider;
    /// use weighbridge::device::Paper;
    /// use weighbridge::device::kernel::Operation;
    /// use weighbridge::load::DispatchTable;
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = weighbridge::Model::open("assets/sample/mlx-4bit")?;
    /// // A GPU with the limits that every WebGPU device has.
    /// let provider = WeightProvider::new(model, Paper::default())?;
    /// let table = DispatchTable::build(&provider, |name| name.contains(".q."), &[])?;
    /// let cost = table.entries[0].cost(Operation::MatrixVector, 1)?.expect("a kernel");
    /// assert_eq!((cost.workgroups, cost.flops), ([32, 1, 1], 2 * 256 * 256));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`WeightProvider::load_all`], except those of reading and of the device.
    pub fn build<D: Device>(
        provider: &WeightProvider<D>,
        wanted: impl Fn(&str) -> bool,
        fusions: &[&Fusion],
    ) -> Result<Self> {
        let names: Vec<&str> = provider.names()?.into_iter().filter(|name| wanted(name)).collect();
        let mut entries = Vec::new();
        for group in provider.groups(&names, fusions)? {
            let views = group.iter().map(|name| provider.tensor(name)).collect::<Result<_>>()?;
            let placed = provider.placed(views)?;
            let limits = provider.device().limits();
            let tensor = KernelTensor::new(&placed.tensor_layout(), limits);
            entries.push(Dispatch {
                members: group,
                dtype: placed.dtype,
                shape: placed.view.shape().to_vec(),
                bytes: placed.bytes(),
                computed: placed.computed,
                tensor,
            });
        }
        Ok(Self { entries })
    }
}

impl Dispatch {
    /// The cost of an operation on all rows, with `count` indices or vectors; `None` if there is no
    /// kernel.
    ///
    /// # Errors
    ///
    /// Same as [`KernelTensor::windows`].
    pub fn cost(&self, operation: Operation, count: u32) -> Result<Option<DispatchCost>> {
        let Some(tensor) = &self.tensor else { return Ok(None) };
        let windows = tensor.windows(operation, 0..tensor.rows)?;
        // Experts' matrices are the outermost dimensions.
        let of_expert = self.shape.iter().rev().nth(1).copied().unwrap_or(1);
        let groups = |window: &Window| {
            let parameters = window.parameters;
            let rows = match operation {
                Operation::ExpertVectors => u32::try_from(of_expert).unwrap_or(u32::MAX),
                _ => parameters.rows,
            };
            operation.workgroups(rows, parameters.columns, count)
        };
        let count = u64::from(count);
        let elements = tensor.rows.saturating_mul(tensor.columns);
        let (rows, flops) = match operation {
            Operation::GetRows => (count, 0),
            Operation::MatrixVector | Operation::MatrixMatrix => {
                (tensor.rows, elements.saturating_mul(2).saturating_mul(count))
            }
            Operation::ExpertVectors => {
                let rows = of_expert.saturating_mul(count);
                (rows, rows.saturating_mul(2).saturating_mul(tensor.columns))
            }
            _ => (tensor.rows, 0),
        };
        Ok(Some(DispatchCost {
            windows: windows.len(),
            workgroups: windows.first().map_or([0; 3], groups),
            bytes: tensor.bytes(rows),
            flops,
        }))
    }
}

impl<D: Device> LoadedTensor<D> {
    /// The facts that kernels need about the tensor; `None` if no kernel computes with it.
    pub fn kernel_tensor(&self, device: &D) -> Option<KernelTensor> {
        let limits = device.limits();
        let end = self.parts.iter().map(|part| part.range.end).max().unwrap_or(0);
        let layout = layout(&self.parts, end.next_multiple_of(limits.unit.max(1)));
        let tensor = TensorLayout {
            dtype: self.dtype,
            shape: &self.shape,
            group_size: self.group_size,
            blocks: self.blocks,
            parts: &self.parts,
            layout: &layout,
        };
        KernelTensor::new(&tensor, limits)
    }
}
