//! Merges adapters into a model.

use std::borrow::Cow;
use std::ops::Range;

use super::{Adapter, Layout, LowRankPair, TokenRows, WholeTensor};
use crate::arch::{Axes, Dialect, ModelConfig, RowOrder, Transform, canonical_of};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::model::{Adaptation, Model, ProductUse, Tensor};
use crate::store::{Encoding, Part};

/// The canonical names of the embedding and of the output matrix, whose rows are tokens.
pub(super) const EMBEDDING: &str = "token_embedding.weight";
pub(super) const OUTPUT: &str = "output.weight";

impl Adapter {
    /// The model with adapters merged, each with a factor that its products are multiplied by. Several
    /// adapters are merged one after another. Values are computed when they are read.
    ///
    /// An adapter may have whole tensors instead of the model's. Those of the vocabulary may have more
    /// rows; then the tokenizer is the one next to the adapter, if there is one.
    ///
    /// # Errors
    ///
    /// `NotFound`, naming the tensors, if the model lacks what an adapter changes; `Mismatch` if shapes
    /// or architectures differ; `Unsupported` for an adapter that cannot be merged: its
    /// [obstacle](Self::obstacle).
    pub fn merged(model: &Model, adapters: &[(Self, f64)]) -> Result<Model> {
        if adapters.is_empty() {
            return Ok(model.clone());
        }
        let mut merged = model.clone();
        for (adapter, factor) in adapters {
            if let Some(obstacle) = &adapter.obstacle {
                return Err(obstacle.clone());
            }
            let within = |error: Error| error.in_file(adapter.path());
            if adapter.products.is_empty() && adapter.wholes.is_empty() && adapter.rows.is_empty() {
                let fault = "the adapter changes no tensor: nothing was saved in it";
                let advice =
                    "save it again; programs that divide parameters must gather them first";
                return Err(within(Error::malformed(fault).advise(advice)));
            }
            check_architecture(model, adapter).map_err(within)?;
            check_factor(adapter, *factor).map_err(within)?;
            merged = with_whole_tensors(&merged, adapter).map_err(within)?;
        }
        let mut all = Adaptation::default();
        let mut notes = model.merged().to_vec();
        for (adapter, factor) in adapters {
            let within = |error: Error| error.in_file(adapter.path());
            add_products(&mut all, &merged, adapter, *factor)?;
            for rows in &adapter.rows {
                add_rows(&mut all, &merged, adapter, rows).map_err(within)?;
            }
            let times = if *factor == 1.0 { String::new() } else { format!(", times {factor}") };
            let path = Text::from_path(adapter.path());
            notes.push(format!("merged LoRA adapter {path}: {}{times}", adapter.summary()));
        }
        Ok(merged.with_changes(all, notes))
    }
}

/// Checks that a factor applies to all that an adapter changes.
fn check_factor(adapter: &Adapter, factor: f64) -> Result<()> {
    let norms = adapter.products.iter().find(|product| product.magnitudes.is_some());
    let stored = norms.and_then(|product| product.magnitudes.as_ref());
    let stored = stored.or(adapter.wholes.first().map(|whole| &whole.stored));
    let stored = stored.or(adapter.rows.first().map(|rows| &rows.stored));
    match stored.filter(|_| factor != 1.0) {
        Some(stored) => {
            let fault = format!("a factor of {factor}, but only products can be multiplied");
            Err(Error::unsupported(fault).in_tensor(stored))
        }
        None => Ok(()),
    }
}

/// Adds the products of an adapter.
fn add_products(all: &mut Adaptation, model: &Model, adapter: &Adapter, factor: f64) -> Result<()> {
    let targets = adapter.products.iter().map(|product| targets(model, adapter, &product.target));
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
            add(all, model, adapter, product, &target, product.scale * factor)
                .map_err(|error| error.in_file(adapter.path()))?;
        }
    }
    Ok(())
}

/// Puts rows of an adapter in place of those of an embedding.
fn add_rows(
    all: &mut Adaptation,
    model: &Model,
    adapter: &Adapter,
    rows: &TokenRows,
) -> Result<()> {
    let targets = targets(model, adapter, &rows.target)?;
    let [target] = targets.as_slice() else { return Err(lacks(model, &rows.target, 1)) };
    if target.expert.is_some() || target.transform.rows != RowOrder::All {
        return Err(Error::unsupported("rows of a fused matrix").in_tensor(&rows.stored));
    }
    all.replace_rows(&target.tensor, &rows.numbers, &adapter.stored(&rows.stored)?)
}

/// The model with the whole tensors of an adapter.
fn with_whole_tensors(model: &Model, adapter: &Adapter) -> Result<Model> {
    let (mut pairs, mut is_longer) = (Vec::new(), false);
    for whole in &adapter.wholes {
        let other = adapter.stored(&whole.stored)?;
        let Some(own) = replaced(model, adapter, whole)? else {
            if is_copy_of_embedding(model, adapter, whole, &other)? {
                continue;
            }
            return Err(added(&whole.target));
        };
        let misfit = || {
            let fault = format!(
                "the adapter saves a module as a whole, of shape {:?}, but the model's has shape {:?}",
                other.shape(),
                own.shape()
            );
            Error::unsupported(fault).in_tensor(&whole.stored)
        };
        let of_tokens = [EMBEDDING, OUTPUT].iter().any(|name| {
            let mapping = model.mapping(name).ok().flatten();
            mapping.is_some_and(|mapping| mapping.stored.first().is_some_and(|s| s == own.name()))
        });
        match (own.shape(), other.shape()) {
            (a, b) if a == b => {}
            ([_, a], [rows, b]) if a == b && of_tokens && *rows > 0 => {
                is_longer = true;
                if model.encoding() == Encoding::Gguf {
                    let fault =
                        format!("{rows} tokens, which the vocabulary of a GGUF file cannot get");
                    return Err(Error::unsupported(fault)
                        .in_tensor(&whole.stored)
                        .advise("merge the adapter into the model's original directory"));
                }
            }
            _ => return Err(misfit()),
        }
        pairs.push((own.stored_number()?, other.stored_number()?));
    }
    if pairs.is_empty() {
        return Ok(model.clone());
    }
    let store = model.store().replacing(adapter.model.store(), &pairs)?;
    let store = if is_longer { store.with_tokenizer_of(adapter.model.store()) } else { store };
    let merged = model.with_store(store);
    let rows = |name: &str| merged.tensor(name).ok()?.shape().first().copied();
    match (rows(EMBEDDING), rows(OUTPUT)) {
        (Some(tokens), Some(outputs)) if is_longer && tokens != outputs => {
            let fault =
                format!("{tokens} rows of the embedding, but {outputs} of the output matrix");
            Err(Error::mismatch(fault))
        }
        _ => Ok(merged),
    }
}

/// The stored tensor that a whole tensor takes the place of; `None` if the model lacks it.
fn replaced(model: &Model, adapter: &Adapter, whole: &WholeTensor) -> Result<Option<Tensor>> {
    let Some(architecture) = model.resolution()?.architecture else {
        let found =
            spellings(&whole.target).into_iter().find(|name| model.store().find(name).is_some());
        return found.map(|name| model.stored_tensor(&name)).transpose();
    };
    for name in spellings(&whole.target) {
        let matches = canonical_of(architecture, adapter.dialect, &name);
        let Some(found) = matches.iter().find(|found| model.has(&found.canonical)) else {
            continue;
        };
        let mapping = model.mapping(&found.canonical)?;
        let stored = mapping.map(|mapping| (mapping.stored.as_slice(), mapping.transform));
        return match (stored, found.expert, matches.len()) {
            (Some(([stored], transform)), None, 1) if transform == found.transform => {
                model.stored_tensor(stored).map(Some)
            }
            _ => {
                let fault =
                    "the adapter saves a module as a whole, which the model has in another form";
                Err(Error::unsupported(fault).in_tensor(&whole.stored))
            }
        };
    }
    Ok(None)
}

/// Whether a whole tensor is an output matrix with the values of the adapter's embedding, for a model that
/// uses its embedding as output matrix. PEFT saves both.
fn is_copy_of_embedding(
    model: &Model,
    adapter: &Adapter,
    whole: &WholeTensor,
    other: &Tensor,
) -> Result<bool> {
    let Some(architecture) = model.resolution()?.architecture else { return Ok(false) };
    let is = |target: &str, canonical: &str| {
        spellings(target).iter().any(|name| {
            let found = canonical_of(architecture, adapter.dialect, name);
            found.iter().any(|found| found.canonical == canonical)
        })
    };
    if !is(&whole.target, OUTPUT) || model.has(OUTPUT) {
        return Ok(false);
    }
    let Some(embedding) = adapter.wholes.iter().find(|whole| is(&whole.target, EMBEDDING)) else {
        return Ok(false);
    };
    let embedding = adapter.stored(&embedding.stored)?;
    let same = embedding.dtype()? == other.dtype()? && embedding.shape() == other.shape();
    Ok(same && embedding.bytes(Part::Weight)? == other.bytes(Part::Weight)?)
}

/// A canonical tensor that a product changes, or one of its experts.
pub(super) struct Target {
    pub(super) tensor: Tensor,
    pub(super) expert: Option<u32>,
    pub(super) transform: Transform,
}

impl Target {
    /// A tensor under its stored name.
    const fn stored(tensor: Tensor) -> Self {
        let transform = Transform {
            axes: Axes::Same,
            rows: RowOrder::All,
            columns: RowOrder::All,
            values: crate::arch::Change::None,
        };
        Self { tensor, expert: None, transform }
    }
}

/// An error for tensors that an adapter changes and the model lacks.
pub(super) fn lacks(model: &Model, first: &str, count: usize) -> Error {
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

/// An error for a module that an adapter saves as a whole and the model lacks.
fn added(target: &str) -> Error {
    let fault = format!(
        "the adapter saves \"{target}\" as a whole, a tensor that the model does not have, such as the head of a classifier"
    );
    Error::unsupported(fault)
        .advise("merge it with PEFT into the class that it was trained with, or remove the tensor from the adapter")
}

/// Checks that a GGUF adapter states an architecture of the model's family.
pub(super) fn check_architecture(model: &Model, adapter: &Adapter) -> Result<()> {
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

/// A name as it is, without the prefix of a language model, and with it.
fn spellings(name: &str) -> [String; 3] {
    let without = name.strip_prefix("model.").unwrap_or(name);
    [name.to_owned(), without.to_owned(), format!("model.{name}")]
}

/// The canonical tensors that an adapter changes under a name; empty if the model lacks them.
pub(super) fn targets(model: &Model, adapter: &Adapter, name: &str) -> Result<Vec<Target>> {
    let resolution = model.resolution()?;
    let names: Vec<Cow<'_, str>> = match adapter.dialect {
        Dialect::Gguf => vec![Cow::Borrowed(name)],
        _ => spellings(name).into_iter().map(|name| Cow::Owned(format!("{name}.weight"))).collect(),
    };
    // Of towers, and without an architecture, only the stored names are known.
    let stored = || names.iter().find_map(|name| model.stored_tensor(name).ok());
    let Some(architecture) = resolution.architecture else {
        return Ok(stored().map(Target::stored).into_iter().collect());
    };
    for name in &names {
        let matches = canonical_of(architecture, adapter.dialect, name);
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
    Ok(stored().map(Target::stored).into_iter().collect())
}

/// The two matrices of a product, in the rows and columns of the canonical tensor that it changes.
pub(super) fn factors(
    adapter: &Adapter,
    product: &LowRankPair,
    target: &Target,
    config: Option<&ModelConfig>,
) -> Result<(Tensor, Tensor)> {
    let (a, b) = (adapter.stored(&product.a)?, adapter.stored(&product.b)?);
    let of_embedding = target.tensor.name() == EMBEDDING;
    Ok(match (product.layout, a.shape()) {
        (Layout::PeftEmbedding, _) => (a.transpose()?, b.transpose()?),
        (Layout::GgufEmbedding, _) => (a, b.transpose()?),
        (Layout::Mlx, [_, _]) if of_embedding => (a, b),
        (layout, shape) => {
            let is_swapped = layout == Layout::Mlx && shape.len() == 2;
            let (left, right) = if is_swapped { (b.transpose()?, a.transpose()?) } else { (b, a) };
            (
                left.in_canonical_rows(target.transform.rows, config)?,
                right.in_canonical_columns(target.transform.columns, config)?,
            )
        }
    })
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
    let (left, right) = factors(adapter, product, target, config)?;
    let magnitudes = product.magnitudes.as_deref().map(|name| {
        let norms = adapter.stored(name)?;
        let norms = norms.clone().with_shape(&[norms.elements()]);
        norms.in_canonical_rows(target.transform.rows, config)
    });
    let magnitudes = magnitudes.transpose()?;
    #[expect(clippy::cast_possible_truncation, reason = "both programs scale in f32")]
    let scale = scale as f32;
    // PEFT rounds the change of an embedding, and no other, to the dtype of the model; mlx-lm each change.
    let rounded = matches!(product.layout, Layout::PeftEmbedding | Layout::Mlx);
    let how = ProductUse { scale, rounded };
    let rows = target.tensor.matrix_rows();
    let whole = target.tensor.elements().checked_div(crate::shape::columns(target.tensor.shape()));
    let whole = whole.unwrap_or(0);
    let here = |error: Error| match error.tensor() {
        Some(_) => error,
        None => error.in_tensor(&product.target),
    };
    let mut put = |rows: Range<u64>, left, right| {
        all.add(&target.tensor, rows, (left, right), how, magnitudes.clone()).map_err(here)
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
