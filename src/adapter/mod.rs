//! LoRA adapters: PEFT directories and llama.cpp's adapters in GGUF.
//!
//! An adapter changes some matrices of a model. Each change is a product of two thin matrices times
//! a scale. The names of the matrices are resolved to canonical names, so an adapter fits its model
//! in any container.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod gguf;
mod open;
mod peft;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use crate::arch::{Axes, Dialect, RowOrder, Transform, canonical_of};
use crate::error::{Error, Result};
use crate::model::{Adaptation, Model, ProductUse, Tensor};

/// A LoRA adapter: low-rank changes of a model's matrices.
///
/// Opening reads headers and the adapter's config. The matrices are read when the adapter is
/// [merged](crate::ops::ConvertOptions::adapter).
#[derive(Clone, Debug)]
pub struct Adapter {
    model: Model,
    /// The dialect of the names of its targets.
    dialect: Dialect,
    alpha: Option<f64>,
    rank_stabilized: bool,
    base: Option<String>,
    products: Vec<LowRankPair>,
    /// Why the adapter cannot be merged.
    obstacle: Option<Error>,
}

/// The two matrices that change one matrix of a model.
#[derive(Clone, Debug)]
struct LowRankPair {
    /// The name of the changed tensor or module, in the adapter's dialect.
    target: String,
    /// The stored name of A, whose rows are as many as the rank.
    a: String,
    /// The stored name of B, whose columns are as many as the rank.
    b: String,
    /// Whether the target is an embedding, of which both matrices are stored transposed.
    embedding: Embedding,
    /// What the product is multiplied by, if the caller's factor is 1.
    scale: f64,
    rank: u64,
}

/// How the matrices of an embedding are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Embedding {
    /// The target is no embedding: A is `[rank, inputs]`, and B `[outputs, rank]`.
    No,
    /// PEFT: A is `[rank, tokens]`, and B `[width, rank]`.
    Peft,
    /// llama.cpp: A is `[tokens, rank]`, and B `[width, rank]`.
    Gguf,
}

impl Adapter {
    /// The path of the adapter.
    pub fn path(&self) -> &Path {
        self.model.path()
    }

    /// `peft` or `gguf`.
    pub fn format(&self) -> &'static str {
        match self.dialect {
            Dialect::Gguf => "gguf",
            _ => "peft",
        }
    }

    /// The distinct ranks of its products, ascending.
    pub fn ranks(&self) -> Vec<u64> {
        let mut ranks: Vec<u64> = self.products.iter().map(|product| product.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The alpha that most products are scaled by: alpha divided by the rank, or by its square root
    /// if the adapter is [rank-stabilized](Self::is_rank_stabilized). `None` if the products are not
    /// scaled.
    pub fn alpha(&self) -> Option<f64> {
        self.alpha
    }

    /// Whether alpha is divided by the square root of the rank.
    pub fn is_rank_stabilized(&self) -> bool {
        self.rank_stabilized
    }

    /// The name of the model that the adapter was trained on, if the adapter states it.
    pub fn base_model(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// The number of matrices that it changes.
    pub fn len(&self) -> usize {
        self.products.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    /// The kinds of matrices that it changes: the last parts of their names, such as `q_proj` or
    /// `attn_q`, in the order of the file.
    pub fn targets(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for product in &self.products {
            let name = product.target.strip_suffix(".weight").unwrap_or(&product.target);
            let kind = name.rsplit('.').next().unwrap_or(name);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Why the adapter cannot be merged, if it cannot.
    pub fn obstacle(&self) -> Option<&Error> {
        self.obstacle.as_ref()
    }

    /// A line for reports and notes: `rank 8, alpha 16, 14 matrices: q_proj, v_proj`.
    pub fn summary(&self) -> String {
        let ranks: Vec<String> = self.ranks().iter().map(u64::to_string).collect();
        let alpha = match self.alpha {
            Some(alpha) => format!("alpha {alpha}"),
            None => "no alpha".to_owned(),
        };
        let stabilized = if self.rank_stabilized { " (rank-stabilized)" } else { "" };
        let matrices = match self.len() {
            1 => "1 matrix".to_owned(),
            several => format!("{several} matrices"),
        };
        let targets = self.targets().join(", ");
        format!("rank {}, {alpha}{stabilized}, {matrices}: {targets}", ranks.join(", "))
    }

    fn stored(&self, name: &str) -> Result<Tensor> {
        self.model.stored_tensor(name).map_err(|error| error.in_file(self.path()))
    }
}

/// Pairs the matrices of an adapter: the names of A and B of each target, in the order of A.
fn paired(found: Vec<(String, bool, String)>) -> Result<Vec<(String, String, String)>> {
    let mut pairs: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (target, is_a, stored) in found {
        let place = *places.entry(target.clone()).or_insert_with(|| {
            pairs.push((target.clone(), None, None));
            pairs.len().saturating_sub(1)
        });
        let Some((_, a, b)) = pairs.get_mut(place) else { continue };
        let side = if is_a { a } else { b };
        if let Some(other) = side.replace(stored.clone()) {
            let fault = format!("it and \"{other}\" are the same matrix of one adapter");
            return Err(Error::malformed(fault).in_tensor(stored));
        }
    }
    let whole = |(target, a, b): (String, Option<String>, Option<String>)| match (a, b) {
        (Some(a), Some(b)) => Ok((target, a, b)),
        (a, b) => {
            let side = if a.is_none() { "A" } else { "B" };
            let fault = format!("the adapter lacks matrix {side} of {target}");
            Err(Error::malformed(fault).in_tensor(a.or(b).unwrap_or_default()))
        }
    };
    pairs.into_iter().map(whole).collect()
}

/// The rank of a pair of matrices, which is the dimension that both have.
fn rank_of(model: &Model, embedding: Embedding, a: &str, b: &str) -> Result<u64> {
    let (first, second) = (model.stored_tensor(a)?, model.stored_tensor(b)?);
    let (by_a, by_b) = match (first.shape(), second.shape()) {
        ([.., _, rank], [.., _, other]) if embedding == Embedding::Gguf => (*rank, *other),
        ([.., rank, _], [.., _, other]) => (*rank, *other),
        (shape, other) => {
            let fault =
                format!("shape {shape:?}, and {b} has shape {other:?}: matrices are required");
            return Err(Error::unsupported(fault).in_tensor(a));
        }
    };
    if by_a != by_b || by_a == 0 {
        let fault = format!("rank {by_a}, but {b} has rank {by_b}: both need one rank above 0");
        return Err(Error::malformed(fault).in_tensor(a));
    }
    Ok(by_a)
}

/// A canonical tensor that a product changes, or one of its experts.
struct Target {
    tensor: Tensor,
    expert: Option<u32>,
    transform: Transform,
}

/// The changes that adapters make to a model, each adapter with a factor.
///
/// # Errors
///
/// `NotFound`, naming the tensors, if the model lacks what an adapter changes; `Mismatch` if shapes
/// or architectures differ; `Unsupported` for an adapter that is more than products of matrices.
pub(crate) fn adaptation(model: &Model, adapters: &[(Adapter, f64)]) -> Result<Adaptation> {
    let mut all = Adaptation::default();
    for (adapter, factor) in adapters {
        let within = |error: Error| error.in_file(adapter.path());
        if let Some(obstacle) = &adapter.obstacle {
            return Err(obstacle.clone());
        }
        check_architecture(model, adapter).map_err(within)?;
        let targets = adapter.products.iter().map(|product| targets(model, adapter, product));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let lacking = adapter.products.iter().zip(&targets);
        let lacking: Vec<&str> = lacking
            .filter(|(_, found)| found.is_empty())
            .map(|(product, _)| product.target.as_str())
            .collect();
        if let Some(first) = lacking.first() {
            return Err(lacks(model, first, lacking.len()).in_file(adapter.path()));
        }
        for (product, targets) in adapter.products.iter().zip(targets) {
            for target in targets {
                add(&mut all, model, adapter, product, &target, product.scale * factor)
                    .map_err(within)?;
            }
        }
    }
    Ok(all)
}

/// An error for tensors that an adapter changes and the model lacks.
fn lacks(model: &Model, first: &str, count: usize) -> Error {
    let more = match count.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more that the adapter changes"),
    };
    let fault = format!("the model has no tensor \"{first}\"{more}");
    let output = first.contains("lm_head") || first.starts_with("output.");
    let advice = match output && !model.has("output.weight") {
        true => {
            "the model uses its embedding as output matrix; the adapter was trained on a model with its own"
        }
        false => "the adapter belongs to another model",
    };
    Error::not_found(fault).advise(advice)
}

/// Checks that a GGUF adapter states an architecture of the model's family.
fn check_architecture(model: &Model, adapter: &Adapter) -> Result<()> {
    let Some(architecture) = model.resolution()?.architecture else { return Ok(()) };
    match adapter.model.metadata().str("general.architecture") {
        Some(name) if !architecture.gguf.contains(&name) => {
            let fault =
                format!("the adapter is for \"{name}\", but the model is {}", architecture.name);
            Err(Error::mismatch(fault).in_key("general.architecture"))
        }
        _ => Ok(()),
    }
}

/// The canonical tensors that a product changes; empty if the model lacks them.
fn targets(model: &Model, adapter: &Adapter, product: &LowRankPair) -> Result<Vec<Target>> {
    let resolution = model.resolution()?;
    let name = product.target.as_str();
    let names: Vec<Cow<'_, str>> = match adapter.dialect {
        Dialect::Gguf => vec![Cow::Borrowed(name)],
        _ => {
            let without = name.strip_prefix("model.").unwrap_or(name);
            let named = [name.to_owned(), without.to_owned(), format!("model.{name}")];
            named.into_iter().map(|name| Cow::Owned(format!("{name}.weight"))).collect()
        }
    };
    let Some(architecture) = resolution.architecture else {
        // Without an architecture, only the stored names are known.
        let transform = Transform {
            axes: Axes::Same,
            rows: RowOrder::All,
            columns: RowOrder::All,
            values: crate::arch::Change::None,
        };
        let stored = names.iter().find_map(|name| model.stored_tensor(name).ok());
        return Ok(stored
            .map(|tensor| Target { tensor, expert: None, transform })
            .into_iter()
            .collect());
    };
    for name in names {
        let matches = canonical_of(architecture, adapter.dialect, &name);
        let parts = matches.iter().any(|found| found.transform.rows != RowOrder::All);
        let present = matches.iter().filter(|found| model.has(&found.canonical)).count();
        // Rows of a fused matrix need all of its parts; other rows are alternatives.
        if present == 0 || (parts && present < matches.len()) {
            continue;
        }
        let found = matches.into_iter().filter(|found| model.has(&found.canonical));
        let target = |found: crate::arch::CanonicalMatch| {
            let tensor = model.tensor(&found.canonical)?;
            Ok(Target { tensor, expert: found.expert, transform: found.transform })
        };
        return found.map(target).collect();
    }
    Ok(Vec::new())
}

/// Adds a product to one of its targets.
fn add(
    all: &mut Adaptation,
    model: &Model,
    adapter: &Adapter,
    product: &LowRankPair,
    target: &Target,
    scale: f64,
) -> Result<()> {
    let config = model.config().ok();
    let (a, b) = (adapter.stored(&product.a)?, adapter.stored(&product.b)?);
    let (left, right) = match product.embedding {
        Embedding::No => (
            b.in_canonical_rows(target.transform.rows, config)?,
            a.in_canonical_columns(target.transform.columns, config)?,
        ),
        Embedding::Peft => (a.transpose()?, b.transpose()?),
        Embedding::Gguf => (a, b.transpose()?),
    };
    #[expect(clippy::cast_possible_truncation, reason = "both programs scale in f32")]
    let scale = scale as f32;
    // PEFT rounds the change of an embedding, and no other, to the dtype of the model.
    let how = ProductUse { scale, rounded: product.embedding == Embedding::Peft };
    let rows = target.tensor.matrix_rows();
    let whole = target.tensor.elements().checked_div(crate::shape::columns(target.tensor.shape()));
    let whole = whole.unwrap_or(0);
    let here = |error: Error| match error.tensor() {
        Some(_) => error,
        None => error.in_tensor(&product.target),
    };
    let mut put = |rows: Range<u64>, left, right| {
        all.add(&target.tensor, rows, (left, right), how).map_err(here)
    };
    match (target.expert, left.shape(), right.shape()) {
        (Some(expert), [_, _], [_, _]) => {
            let first = u64::from(expert).saturating_mul(rows);
            put(first..first.saturating_add(rows), left, right)
        }
        (None, [experts, _, _], [others, _, _]) if experts == others => {
            let experts = *experts;
            let each = whole.checked_div(experts).unwrap_or(0);
            for expert in 0..experts {
                let (left, right) = (left.array(expert)?, right.array(expert)?);
                put(expert * each..(expert + 1) * each, left, right)?;
            }
            Ok(())
        }
        _ => put(0..whole, left, right),
    }
}
