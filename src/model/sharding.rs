//! A rank's share of a model: which part of each tensor one of many processes loads.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::{Convention, Model, Tensor};
use crate::arch::size::Unit;
use crate::arch::{Cut, ModelConfig, Stage, TensorCut, pipeline_layers};
use crate::error::{Error, Result};

/// A rank's place among the processes that share a model: for each kind of parallelism, its number
/// and the number of ranks.
///
/// - Tensor parallelism divides the matrices of each layer: attention by whole heads, feed-forward
///   networks by their inner width, embeddings and output by tokens.
/// - Pipeline parallelism divides the layers into stages.
/// - Expert parallelism divides the experts of each layer. The matrices of a rank's experts are divided
///   further by tensor parallelism.
///
/// Every rank has what is small: norms, routers, the biases that are added after a sum over ranks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sharding {
    /// The rank of tensor parallelism.
    pub tensor: Rank,
    /// The stage of the pipeline.
    pub pipeline: Rank,
    /// The rank of expert parallelism.
    pub expert: Rank,
}

/// One of the ranks of one kind of parallelism. Reports have it as a pair.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "(u64, u64)"))]
pub struct Rank {
    /// The number of the rank, from 0.
    pub index: u64,
    /// The number of ranks.
    pub count: u64,
}

impl Rank {
    /// The only rank.
    pub const ONLY: Self = Self { index: 0, count: 1 };
}

impl From<Rank> for (u64, u64) {
    fn from(rank: Rank) -> Self {
        (rank.index, rank.count)
    }
}

impl Default for Sharding {
    fn default() -> Self {
        Self { tensor: Rank::ONLY, pipeline: Rank::ONLY, expert: Rank::ONLY }
    }
}

impl Sharding {
    /// The only rank, which has the whole model.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rank of tensor parallelism.
    #[must_use]
    pub fn tensor(mut self, rank: u64, of: u64) -> Self {
        self.tensor = Rank { index: rank, count: of };
        self
    }

    /// Sets the stage of the pipeline.
    #[must_use]
    pub fn pipeline(mut self, stage: u64, of: u64) -> Self {
        self.pipeline = Rank { index: stage, count: of };
        self
    }

    /// Sets the rank of expert parallelism.
    #[must_use]
    pub fn expert(mut self, rank: u64, of: u64) -> Self {
        self.expert = Rank { index: rank, count: of };
        self
    }

    /// Whether the rank is the only one.
    pub fn is_whole(&self) -> bool {
        [self.tensor, self.pipeline, self.expert].iter().all(|rank| rank.count == 1)
    }

    /// Checks that each rank is less than its number of ranks.
    ///
    /// # Errors
    ///
    /// `Mismatch` if one is not.
    pub fn check(&self) -> Result<()> {
        let named = [("tensor", self.tensor), ("pipeline", self.pipeline), ("expert", self.expert)];
        match named.iter().find(|(_, rank)| rank.index >= rank.count) {
            Some((name, Rank { index, count })) => {
                let fault =
                    format!("rank {index} of {count} in {name} parallelism: ranks count from 0");
                Err(Error::mismatch(fault))
            }
            None => Ok(()),
        }
    }
}

/// The number of ranks of each kind of parallelism.
///
/// ```
/// use weighbridge::model::Mesh;
///
/// # fn main() -> weighbridge::Result<()> {
/// let mesh: Mesh = "tp=4,pp=2".parse()?;
/// assert_eq!(mesh.ranks(), 8);
/// let sharding = mesh.rank(5)?;
/// assert_eq!((sharding.tensor.index, sharding.tensor.count), (1, 4));
/// assert_eq!((sharding.pipeline.index, sharding.pipeline.count), (1, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Mesh {
    /// Ranks of tensor parallelism.
    pub tensor: u64,
    /// Stages of the pipeline.
    pub pipeline: u64,
    /// Ranks of expert parallelism.
    pub expert: u64,
}

/// The most ranks of a mesh, which bounds the length of reports.
const RANKS: u64 = 1 << 16;

impl Mesh {
    /// The number of ranks.
    pub fn ranks(&self) -> u64 {
        self.tensor.saturating_mul(self.pipeline).saturating_mul(self.expert)
    }

    /// The place of a rank. Ranks of tensor parallelism are numbered first, then those of expert
    /// parallelism, then the stages: ranks of one stage have consecutive numbers.
    ///
    /// # Errors
    ///
    /// `Mismatch` if there are not as many ranks.
    pub fn rank(&self, rank: u64) -> Result<Sharding> {
        let all = self.ranks();
        if rank >= all {
            let fault = format!("rank {rank} of {all}: ranks count from 0");
            return Err(Error::mismatch(fault));
        }
        let rest = rank / self.tensor;
        Ok(Sharding {
            tensor: Rank { index: rank % self.tensor, count: self.tensor },
            expert: Rank { index: rest % self.expert, count: self.expert },
            pipeline: Rank { index: rest / self.expert, count: self.pipeline },
        })
    }

    /// The places of all ranks, in order.
    pub fn shardings(&self) -> impl Iterator<Item = Sharding> {
        (0..self.ranks()).filter_map(|rank| self.rank(rank).ok())
    }
}

impl FromStr for Mesh {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let misfit = || {
            Error::mismatch(format!(
                "\"{text}\" is no list of ranks: expected tp=N, pp=N and ep=N, as in tp=4,pp=2"
            ))
        };
        let mut mesh = Self { tensor: 1, pipeline: 1, expert: 1 };
        let mut seen = Vec::new();
        for item in text.split(',') {
            let (name, count) = item.split_once('=').ok_or_else(misfit)?;
            let count: u64 = count.parse().ok().filter(|count| *count > 0).ok_or_else(misfit)?;
            let place = match name {
                "tp" => &mut mesh.tensor,
                "pp" => &mut mesh.pipeline,
                "ep" => &mut mesh.expert,
                _ => return Err(misfit()),
            };
            if seen.contains(&name) {
                return Err(misfit());
            }
            seen.push(name);
            *place = count;
        }
        if mesh.ranks() > RANKS {
            let fault = format!("{} ranks, but at most {RANKS} are supported", mesh.ranks());
            return Err(Error::mismatch(fault));
        }
        Ok(mesh)
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("tp", self.tensor), ("pp", self.pipeline), ("ep", self.expert)];
        let shown = all.iter().filter(|(_, count)| *count > 1);
        let shown: Vec<String> = shown.map(|(name, count)| format!("{name}={count}")).collect();
        f.write_str(if shown.is_empty() { "tp=1" } else { "" })?;
        f.write_str(&shown.join(","))
    }
}

impl Model {
    /// The names of the tensors of which a rank has a part, in the order of [`names`](Self::names).
    ///
    /// # Errors
    ///
    /// `Unsupported` if the architecture is unknown and there is more than one rank; otherwise same
    /// as [`config`](Self::config) and [`Sharding::check`].
    pub fn names_of_rank(&self, sharding: &Sharding) -> Result<Vec<&str>> {
        let config = self.config_for(sharding)?;
        let own =
            |name: &&str| config.is_none_or(|config| self.is_in_stage(name, config, sharding));
        Ok(self.names()?.filter(own).collect())
    }

    /// A rank's part of the tensor with this canonical name. Every rank has the whole of a tensor
    /// without a canonical name.
    ///
    /// ```
    /// use weighbridge::Model;
    /// use weighbridge::model::{Convention, Sharding};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let [whole, part] = [Sharding::new(), Sharding::new().tensor(0, 2)].map(|sharding| {
    ///     model.tensor_of_rank("layers.0.ffn.gate.weight", &sharding, Convention::HuggingFace)
    /// });
    /// assert_eq!(2 * part?.shape()[0], whole?.shape()[0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `NotFound` if the tensor belongs to another stage of the pipeline; `Mismatch`, with the
    /// numbers, if the tensor cannot be divided among as many ranks; otherwise same as
    /// [`tensor_in`](Self::tensor_in) and [`names_of_rank`](Self::names_of_rank).
    pub fn tensor_of_rank(
        &self,
        name: &str,
        sharding: &Sharding,
        convention: Convention,
    ) -> Result<Tensor> {
        let tensor = self.tensor_in(name, convention)?;
        let Some(config) = self.config_for(sharding)? else { return Ok(tensor) };
        if !self.is_in_stage(name, config, sharding) {
            let Rank { index, count } = sharding.pipeline;
            let fault = format!("the tensor is not in stage {index} of {count} of the pipeline");
            return Err(Error::not_found(fault).in_tensor(name).in_file(self.path()));
        }
        let ranges = self.ranges_of_rank(name, &tensor, sharding)?;
        let part = ranges
            .into_iter()
            .try_fold(tensor, |part, AxisRanges { axis, ranges }| part.slice_axis(axis, ranges));
        part.map(Tensor::into_share).map_err(|error| error.in_tensor(name).in_file(self.path()))
    }

    /// The share of a rank in a canonical tensor: ranges along axes.
    ///
    /// # Errors
    ///
    /// `Mismatch`, with the numbers, if the tensor cannot be divided among as many ranks.
    pub(crate) fn ranges_of_rank(
        &self,
        name: &str,
        tensor: &Tensor,
        sharding: &Sharding,
    ) -> Result<Vec<AxisRanges>> {
        let config = self.config_for(sharding)?;
        let Some((cut, config)) = self.cut_of(name)?.zip(config) else { return Ok(Vec::new()) };
        ranges_of_rank(tensor.shape(), &cut, config, sharding)
            .map_err(|error| error.in_tensor(name).in_file(self.path()))
    }

    /// The axes along which a tensor is divided; `None` for a name that is not canonical.
    pub(crate) fn cut_of(&self, name: &str) -> Result<Option<TensorCut>> {
        let is_canonical = self.mapping(name)?.is_some();
        let tensor = self.resolution()?.canonical_tensor(name);
        Ok(is_canonical.then(|| TensorCut::of(name, tensor, self.config().ok())))
    }

    /// The config, if there are several ranks.
    fn config_for(&self, sharding: &Sharding) -> Result<Option<&ModelConfig>> {
        sharding.check()?;
        if sharding.is_whole() {
            return Ok(None);
        }
        if self.resolution()?.architecture.is_none() {
            let reason = &self.resolution()?.reason;
            let fault = format!("how ranks divide its tensors is unknown: {reason}");
            return Err(Error::unsupported(fault).in_file(self.path()));
        }
        let config = self.config()?;
        let (layers, stages) = (pipeline_layers(config), sharding.pipeline.count);
        if stages > layers {
            let fault = format!("{layers} layers cannot be divided into {stages} stages");
            return Err(Error::mismatch(fault).in_file(self.path()));
        }
        Ok(Some(config))
    }

    fn is_in_stage(&self, name: &str, config: &ModelConfig, sharding: &Sharding) -> bool {
        let Rank { index: stage, count: of } = sharding.pipeline;
        let Ok(Some(architecture)) = self.resolution().map(|found| found.architecture) else {
            return true;
        };
        if of == 1 || !self.has(name) {
            return true;
        }
        let layers = pipeline_layers(config);
        // Stage s has the layers from s * layers / of on.
        let is_at = |position: u64| {
            let after = u128::from(position) * u128::from(of) + u128::from(of) - 1;
            after / u128::from(layers) == u128::from(stage)
        };
        match architecture.stage(name, config) {
            Stage::Every => true,
            Stage::At(position) => is_at(position),
            Stage::Both(one, other) => is_at(one) || is_at(other),
        }
    }
}

/// The ranges along one axis of a tensor that a rank has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AxisRanges {
    pub(crate) axis: usize,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// The share of a rank in a canonical tensor with this shape: ranges along axes, in the order in
/// which they are selected.
///
/// # Errors
///
/// `Mismatch`, with the numbers, if the tensor cannot be divided among as many ranks.
fn ranges_of_rank(
    shape: &[u64],
    cut: &TensorCut,
    config: &ModelConfig,
    sharding: &Sharding,
) -> Result<Vec<AxisRanges>> {
    let mut all = Vec::new();
    if cut.experts && sharding.expert.count > 1 {
        let experts = shape.first().copied().unwrap_or(0);
        let range = equal_part(experts, sharding.expert);
        let range = range.ok_or_else(|| indivisible(experts, "experts", sharding.expert.count))?;
        all.push(AxisRanges { axis: 0, ranges: vec![range] });
    }
    if sharding.tensor.count == 1 {
        return Ok(all);
    }
    let outputs = usize::from(cut.experts);
    let inputs = shape.len().saturating_sub(1);
    let length = |axis: usize| shape.get(axis).copied().unwrap_or(0);
    let part =
        |unit: Unit, length: u64| part_of(length, unit, cut.count(unit, config)?, sharding.tensor);
    let (axis, ranges) = match cut.cut {
        Cut::Whole => return Ok(all),
        // The norm of one head.
        Cut::PerHead(_) if shape.iter().product::<u64>() <= cut.head_width(config) => {
            return Ok(all);
        }
        Cut::Outputs(unit) | Cut::PerHead(unit) => (outputs, vec![part(unit, length(outputs))?]),
        Cut::Inputs(unit) => (inputs, vec![part(unit, length(inputs))?]),
        Cut::Sections(sizes) => {
            let mut start = 0u64;
            let mut ranges = Vec::new();
            for (size, unit) in sizes.iter().filter_map(|size| Some((size, size.unit()?))) {
                let each = size.of(config, 0).ok_or_else(|| {
                    let unit = unit.name();
                    Error::mismatch(format!("the config states no length of the {unit}"))
                })?;
                let own = part(unit, each)?;
                let at = |place: u64| start.saturating_add(place);
                ranges.push(at(own.start)..at(own.end));
                start = start.saturating_add(each);
            }
            if start != length(outputs) {
                let fault = format!("{} rows, but the config says {start}", length(outputs));
                return Err(Error::mismatch(fault));
            }
            (outputs, ranges)
        }
        Cut::Equal(sections) => {
            let rows = length(outputs);
            let each = rows.checked_div(sections).filter(|_| rows.is_multiple_of(sections));
            let each = each.ok_or_else(|| {
                Error::mismatch(format!("{rows} rows in {sections} equal sections"))
            })?;
            let own = part(Unit::Element, each)?;
            let section = |number: u64| number * each + own.start..number * each + own.end;
            (outputs, (0..sections).map(section).collect())
        }
    };
    all.push(AxisRanges { axis, ranges });
    Ok(all)
}

/// One of `of` equal parts of a length, if it can be divided equally.
pub(super) fn equal_part(length: u64, Rank { index, count }: Rank) -> Option<Range<u64>> {
    let each = length.checked_div(count).filter(|_| length.is_multiple_of(count))?;
    (index < count).then(|| index * each..(index + 1) * each)
}

/// A rank's part of a length that has `count` units.
fn part_of(
    length: u64,
    unit: Unit,
    count: Option<u64>,
    Rank { index: rank, count: of }: Rank,
) -> Result<Range<u64>> {
    if unit == Unit::Token {
        // As torch.chunk divides, and DTensor with it.
        let each = length.div_ceil(of);
        let place = |rank: u64| rank.saturating_mul(each).min(length);
        return Ok(place(rank)..place(rank + 1));
    }
    let count = count.unwrap_or(length);
    let width = length.checked_div(count).filter(|_| length.is_multiple_of(count));
    let width = width.ok_or_else(|| {
        Error::mismatch(format!(
            "a length of {length}, but the config says {count} {}",
            unit.name()
        ))
    })?;
    let own = match equal_part(count, Rank { index: rank, count: of }) {
        None if unit.is_shared() && count > 0 && of.is_multiple_of(count) => {
            let number = rank / (of / count);
            number..number + 1
        }
        own => own.ok_or_else(|| indivisible(count, unit.name(), of))?,
    };
    Ok(own.start * width..own.end * width)
}

fn indivisible(count: u64, what: &str, of: u64) -> Error {
    Error::mismatch(format!("{count} {what} cannot be divided equally among {of} ranks"))
        .advise("choose a number of ranks that divides them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_mesh_have_places_of_their_own() {
        let mesh: Mesh = "tp=4,pp=2,ep=3".parse().unwrap();
        assert_eq!((mesh.ranks(), mesh.to_string().as_str()), (24, "tp=4,pp=2,ep=3"));
        assert_eq!("pp=1".parse::<Mesh>().unwrap().to_string(), "tp=1");
        let all: std::collections::HashSet<Sharding> = mesh.shardings().collect();
        assert_eq!(all.len(), 24);
        assert!(all.iter().all(|sharding| sharding.check().is_ok()));
        assert_eq!(mesh.rank(4).unwrap(), Sharding::new().tensor(0, 4).expert(1, 3).pipeline(0, 2));
        assert!(mesh.rank(24).is_err());
        for text in ["", "tp", "tp=0", "tp=-1", "tp=2,tp=2", "dp=2", "tp=70000", "tp=2,"] {
            assert!(text.parse::<Mesh>().is_err(), "{text}");
        }
        assert!("tp=1".parse::<Mesh>().unwrap().rank(0).unwrap().is_whole());
        assert!(Sharding::new().expert(2, 2).check().is_err());
    }

    #[test]
    fn parts_cover_what_is_divided() {
        for (length, unit, count, of) in [
            (96, Unit::Element, None, 4),
            (10, Unit::Token, None, 4),
            (32, Unit::Query, Some(4), 2),
            (3, Unit::Token, None, 8),
        ] {
            let mut end = 0;
            for rank in 0..of {
                let part = part_of(length, unit, count, Rank { index: rank, count: of }).unwrap();
                assert_eq!(part.start, end);
                end = part.end;
            }
            assert_eq!(end, length);
        }
        // Two key heads among four ranks: each has one.
        let key = |rank| part_of(16, Unit::Key, Some(2), Rank { index: rank, count: 4 }).unwrap();
        assert_eq!([0, 1, 2, 3].map(key), [0..8, 0..8, 8..16, 8..16]);
        let two = Rank { index: 0, count: 2 };
        let error = part_of(24, Unit::Key, Some(3), two).unwrap_err().to_string();
        assert_eq!(error, "3 key heads cannot be divided equally among 2 ranks");
        assert!(part_of(25, Unit::Query, Some(4), two).is_err());
    }
}
