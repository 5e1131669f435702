//! The shares of ranks: which part of each tensor each of many processes loads.

use crate::error::{ErrorKind, Result};
use crate::model::{AxisRanges, Convention, Mesh, Model, Sharding, Tensor};
use crate::store::tensor::StoredTensor;

/// The report of [`shares`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SharesReport {
    /// Ranks of tensor parallelism.
    pub tensor_parallel: u64,
    /// Stages of the pipeline.
    pub pipeline_parallel: u64,
    /// Ranks of expert parallelism.
    pub expert_parallel: u64,
    /// Bytes of the whole model, as it is stored.
    pub bytes: u64,
    /// The ranks, in order.
    pub ranks: Vec<RankShare>,
    /// The tensors, in the order of [`Model::names`].
    pub tensors: Vec<SharedTensor>,
}

/// The share of one rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RankShare {
    /// Its number.
    pub rank: u64,
    /// Its number in tensor parallelism.
    pub tensor_rank: u64,
    /// Its stage of the pipeline.
    pub pipeline_rank: u64,
    /// Its number in expert parallelism.
    pub expert_rank: u64,
    /// The number of tensors of which it has a part.
    pub tensors: usize,
    /// Bytes of its parts.
    pub bytes: u64,
}

/// A tensor, and the part of it that each rank has.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SharedTensor {
    /// Its canonical name; its stored name if it has no canonical one.
    pub name: String,
    /// The names of its dtypes.
    pub dtype: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Bytes of the whole tensor, as it is stored.
    pub bytes: u64,
    /// The axis along which it is divided: `outputs by query heads`. Empty if every rank has the
    /// whole tensor.
    pub divided: String,
    /// The parts. Ranks of which none is listed have no part: the tensor is in another stage.
    pub parts: Vec<TensorShare>,
}

/// One rank's part of a tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorShare {
    /// The number of the rank.
    pub rank: u64,
    /// Dimensions of the part, outermost first.
    pub shape: Vec<u64>,
    /// Bytes of the part, as it is stored.
    pub bytes: u64,
    /// The ranges of the tensor that the rank has. Along an axis without a range it has everything.
    pub ranges: Vec<SharedRange>,
}

/// A range along an axis of a tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SharedRange {
    /// The axis, the outermost is 0.
    pub axis: usize,
    /// The first index.
    pub start: u64,
    /// The index after the last.
    pub end: u64,
}

/// Divides a model among ranks, and reports what each loads. Reads no tensor data.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let report = ops::shares(&model, &"tp=2".parse()?)?;
/// let [first, second] = &report.ranks[..] else { unreachable!() };
/// assert_eq!(first.bytes, second.bytes);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`Model::tensor_of_rank`], but for tensors of other stages.
pub fn shares(model: &Model, mesh: &Mesh) -> Result<SharesReport> {
    let rank = |(rank, sharding): (u64, Sharding)| RankShare {
        rank,
        tensor_rank: sharding.tensor.index,
        pipeline_rank: sharding.pipeline.index,
        expert_rank: sharding.expert.index,
        tensors: 0,
        bytes: 0,
    };
    let mut ranks: Vec<RankShare> = (0..).zip(mesh.shardings()).map(rank).collect();
    let mut tensors: Vec<SharedTensor> = Vec::new();
    for name in model.names()? {
        let tensor = model.tensor(name)?;
        tensors.push(SharedTensor {
            name: name.to_owned(),
            dtype: tensor.dtype_label(),
            shape: tensor.shape().to_vec(),
            bytes: kept_bytes(&tensor)?,
            divided: model.cut_of(name)?.map(|cut| cut.describe()).unwrap_or_default(),
            parts: Vec::new(),
        });
    }
    for (own, sharding) in ranks.iter_mut().zip(mesh.shardings()) {
        // Both lists have the order of the model's names.
        let mut places = tensors.iter_mut();
        for name in model.names_of_rank(&sharding)? {
            let Some(shared) = places.by_ref().find(|shared| shared.name == name) else { break };
            let whole = model.tensor(name)?;
            let ranges = model.ranges_of_rank(name, &whole, &sharding)?;
            let part = model.tensor_of_rank(name, &sharding, Convention::default())?;
            let share = TensorShare {
                rank: own.rank,
                shape: part.shape().to_vec(),
                bytes: kept_bytes(&part)?,
                ranges: ranges.into_iter().flat_map(along).collect(),
            };
            own.tensors += 1;
            own.bytes = own.bytes.saturating_add(share.bytes);
            shared.parts.push(share);
        }
    }
    Ok(SharesReport {
        tensor_parallel: mesh.tensor,
        pipeline_parallel: mesh.pipeline,
        expert_parallel: mesh.expert,
        bytes: tensors.iter().map(|tensor| tensor.bytes).fold(0, u64::saturating_add),
        ranks,
        tensors,
    })
}

fn along(AxisRanges { axis, ranges }: AxisRanges) -> impl Iterator<Item = SharedRange> {
    let range =
        move |range: std::ops::Range<u64>| SharedRange { axis, start: range.start, end: range.end };
    ranges.into_iter().map(range)
}

/// Bytes of a tensor that engines keep as it is stored: those of its packed parts; its part of the stored bytes, where a
/// scheme packs across rows or a block is divided; those of its values, where these are computed.
fn kept_bytes(tensor: &Tensor) -> Result<u64> {
    match tensor.packed() {
        Ok(parts) => Ok(parts.iter().map(|part| part.bytes).sum()),
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        Err(_) if tensor.why_computed().is_some() => {
            let width = u64::from(tensor.values_dtype().descriptor().block_bytes);
            Ok(tensor.elements().saturating_mul(width))
        }
        Err(_) => {
            let stored = |(bytes, elements): (u64, u64), tensor: StoredTensor<'_>| {
                let bytes = bytes.saturating_add(tensor.stored_bytes());
                (bytes, elements.saturating_add(tensor.elements()))
            };
            let (bytes, elements) = tensor.stored_tensors().fold((0, 0), stored);
            let share = u128::from(bytes) * u128::from(tensor.elements());
            let share = share.div_ceil(u128::from(elements.max(1)));
            Ok(u64::try_from(share).unwrap_or(u64::MAX))
        }
    }
}
