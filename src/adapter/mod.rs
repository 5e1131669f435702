//! LoRA adapters: PEFT directories, those of mlx-lm, and llama.cpp's adapters in GGUF.
//!
//! An adapter changes some matrices of a model. Each change is a product of two thin matrices times
//! a scale. An adapter may also replace whole tensors, or rows of an embedding. The names of what it
//! changes are resolved to canonical names, so an adapter fits its model in any container.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod gguf;
mod in_gguf;
mod merge;
mod mlx;
mod open;
mod pairs;
mod parameters;
mod peft;
mod tokenizer;

use std::path::Path;

use crate::arch::Dialect;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::model::{Model, Tensor};

/// The kind of most adapters.
const LORA: &str = "LoRA";

/// A LoRA adapter: low-rank changes of a model's matrices.
///
/// Opening reads headers and the adapter's config. The matrices are read when the adapter is
/// [merged](Self::merged).
#[derive(Clone, Debug)]
pub struct Adapter {
    model: Model,
    /// The dialect of the names of its targets.
    dialect: Dialect,
    alpha: Option<f64>,
    /// The factor of the products, if the adapter states it instead of alpha.
    scale: Option<f64>,
    rank_stabilized: bool,
    /// Whether an output matrix that is the embedding takes the changes of the embedding alone.
    is_tied: bool,
    kind: String,
    base: Option<String>,
    products: Vec<LowRankPair>,
    /// Tensors that it has instead of the model's.
    wholes: Vec<WholeTensor>,
    /// Weights of the model that it was trained on, under modules that it changes.
    bases: Vec<WholeTensor>,
    /// Rows that it has instead of the model's.
    rows: Vec<TokenRows>,
    /// The tokens after which it applies, if it does not apply to all (activated LoRA).
    activation: Option<Activation>,
    /// The reason why the adapter cannot be used.
    obstacle: Option<Error>,
}

/// An adapter to merge, and the factor that its changes are multiplied by.
#[derive(Clone, Debug)]
pub struct ScaledAdapter {
    /// The adapter.
    pub adapter: Adapter,
    /// The factor of its changes, in addition to the adapter's own scale.
    pub factor: f64,
}

impl From<Adapter> for ScaledAdapter {
    /// An adapter whose changes are merged as they are.
    fn from(adapter: Adapter) -> Self {
        Self { adapter, factor: 1.0 }
    }
}

/// The tokens after which an adapter applies.
#[derive(Clone, Debug)]
struct Activation {
    tokens: Vec<u32>,
    /// The reason why the adapter cannot be merged.
    obstacle: Error,
}

impl Activation {
    fn new(tokens: Vec<u32>, key: &str) -> Self {
        let fault =
            "an activated LoRA applies only after its invocation tokens, so it cannot be merged";
        let error = Error::unsupported(fault).in_key(key);
        Self {
            tokens,
            obstacle: error.advise("convert the adapter itself to GGUF, which llama.cpp applies"),
        }
    }
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
    /// The stored name of the norms that the rows of the changed matrix are scaled to (DoRA).
    magnitudes: Option<String>,
    /// The stored name of the vector that is added to the bias of the module, times the same factor.
    bias: Option<String>,
    layout: Layout,
    /// The parameters of the module of which it changes one; none if it changes the weight.
    parameters: Option<Parameters>,
    /// The factor of the product, if the caller's factor is 1.
    scale: f64,
    rank: u64,
}

impl LowRankPair {
    /// The matrices A and B, by their stored names, of a module's weight alone.
    fn of_module(
        target: String,
        (a, b): (String, String),
        layout: Layout,
        scale: f64,
        rank: u64,
    ) -> Self {
        let (magnitudes, bias, parameters) = (None, None, None);
        Self { target, a, b, magnitudes, bias, layout, parameters, scale, rank }
    }
}

/// The parameters that the product of a module may change. PEFT saves neither the name nor the place in the
/// module: the shapes say which it is.
#[derive(Clone, Debug)]
struct Parameters {
    /// The full names.
    names: Vec<String>,
    experts: u64,
    /// Whether PEFT took the axes as experts, inputs and outputs, whatever the class has.
    is_inputs_first: bool,
}

/// A tensor of a model, in an adapter.
#[derive(Clone, Debug)]
struct WholeTensor {
    /// Its name in the model, in the adapter's dialect.
    target: String,
    /// Its stored name.
    stored: String,
    /// Whether its module was trained as a copy, and not saved with the others.
    is_copy: bool,
}

/// Rows of an embedding, in an adapter.
#[derive(Clone, Debug)]
struct TokenRows {
    /// The name of the module, in the adapter's dialect.
    target: String,
    /// The stored name of the rows.
    stored: String,
    /// The numbers of the rows in the model.
    numbers: Vec<u64>,
}

/// The layout in which the two matrices of a product are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Layout {
    /// A is `[rank, inputs]`, and B `[outputs, rank]`.
    Usual,
    /// PEFT's parameters of experts: A is `[experts * rank, inputs]`, and B `[outputs, rank * experts]`, with the
    /// columns of the experts in turns.
    PeftExperts,
    /// PEFT's embeddings: A is `[rank, tokens]`, and B `[width, rank]`.
    PeftEmbedding,
    /// llama.cpp's embeddings: A is `[tokens, rank]`, and B `[width, rank]`.
    GgufEmbedding,
    /// mlx-lm's linear layers: A is `[inputs, rank]`, and B `[rank, outputs]`. Of its embeddings, A is
    /// `[tokens, rank]`, and B `[rank, width]`.
    Mlx,
}

impl Adapter {
    /// The path of the adapter.
    pub fn path(&self) -> &Path {
        self.model.path()
    }

    /// The stored tensors of the adapter.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Notes on files next to the adapter that are not merged with it.
    pub(crate) fn unread(&self) -> impl Iterator<Item = String> {
        let notes = self.model.notes().iter().filter(|note| note.names_unread);
        notes.map(|note| format!("{}: {}", Text::from_path(&note.path), note.text))
    }

    /// `peft`, `mlx` or `gguf`.
    pub fn format(&self) -> &'static str {
        match self.dialect {
            Dialect::Gguf => "gguf",
            Dialect::Mlx => "mlx",
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
    /// scaled, or by a factor that does not depend on the rank.
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

    /// The number of matrices that it changes by products.
    pub fn len(&self) -> usize {
        self.products.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.products.is_empty() && self.wholes.is_empty() && self.rows.is_empty()
    }

    /// The kinds of matrices that it changes by products: the last parts of their names, such as
    /// `q_proj` or `attn_q`, in the order of the file.
    pub fn targets(&self) -> Vec<&str> {
        kinds(self.products.iter().map(|product| product.target.as_str()))
    }

    /// The kind of adapter: `LoRA`, or what its config states instead, such as `IA3`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The reason why the adapter cannot be merged; `None` if it can.
    pub fn obstacle(&self) -> Option<&Error> {
        self.obstacle.as_ref().or(self.activation.as_ref().map(|activation| &activation.obstacle))
    }

    /// The reason why the matrices cannot be used at all, not even by the programs that activate them.
    pub(crate) fn unmergeable(&self) -> Option<&Error> {
        self.obstacle.as_ref()
    }

    /// A line for reports and notes: `rank 8, alpha 16, 14 matrices: q_proj, v_proj`.
    pub fn summary(&self) -> String {
        let counted = |count: usize, one: &str, several: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {several}"),
        };
        let mut parts = Vec::new();
        if !self.products.is_empty() {
            let ranks: Vec<String> = self.ranks().iter().map(u64::to_string).collect();
            let scale = match (self.alpha, self.scale) {
                (Some(alpha), _) => format!("alpha {alpha}"),
                (None, Some(scale)) => format!("scale {scale}"),
                (None, None) => "no alpha".to_owned(),
            };
            let stabilized = if self.rank_stabilized { " (rank-stabilized)" } else { "" };
            let has_norms = self.products.iter().any(|product| product.magnitudes.is_some());
            let norms = if has_norms { ", rows scaled to norms (DoRA)" } else { "" };
            let has_biases = self.products.iter().any(|product| product.bias.is_some());
            let biases = if has_biases { ", biases" } else { "" };
            let (matrices, targets) =
                (counted(self.len(), "matrix", "matrices"), self.targets().join(", "));
            let ranks = ranks.join(", ");
            parts.push(format!(
                "rank {ranks}, {scale}{stabilized}{norms}{biases}, {matrices}: {targets}"
            ));
        }
        if !self.wholes.is_empty() {
            let names = kinds(self.wholes.iter().map(|whole| whole.target.as_str())).join(", ");
            let tensors = counted(self.wholes.len(), "whole tensor", "whole tensors");
            parts.push(format!("{tensors}: {names}"));
        }
        for rows in &self.rows {
            let name = kinds(std::iter::once(rows.target.as_str())).join("");
            parts.push(format!("{} of {name}", counted(rows.numbers.len(), "row", "rows")));
        }
        if parts.is_empty() { "no matrix that can be merged".to_owned() } else { parts.join("; ") }
    }

    fn stored(&self, name: &str) -> Result<Tensor> {
        self.model.stored_tensor(name).map_err(|error| error.in_file(self.path()))
    }
}

/// The last parts of names, each once.
fn kinds<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut kinds: Vec<&str> = Vec::new();
    for name in names {
        let name = name.strip_suffix(".weight").unwrap_or(name);
        let kind = name.rsplit('.').next().unwrap_or(name);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}
