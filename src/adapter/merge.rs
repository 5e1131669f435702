//! Merges adapters into a model.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::mlx;
use super::tokenizer::with_tokenizer;
use super::{Adapter, Layout, LowRankPair, ScaledAdapter, TokenRows, WholeTensor};
use crate::arch::{
    Axes, Change, Dialect, ModelConfig, RowOrder, Transform, canonical_of, tower_part,
};
use crate::bytes::Text;
use crate::engines::transformers::name_in_class;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::model::{Adaptation, EMBEDDING, Model, OUTPUT, ProductUse, Tensor};
use crate::rounding::f32_of;
use crate::store::Encoding;

/// A note on an adapter that changes the embedding or the output matrix of a model in which both are one.
const UNTIED: &str = "the model uses its embedding as output matrix, and the adapter changes one of the two: \
     the output matrix is written separately";
/// The same for an adapter whose products change the embedding.
const BOTH: &str = "its change of the embedding also changes the output matrix, which is the same tensor, as in \
     PEFT's merge; in training, the output matrix was that of the base";

/// A note on an adapter that holds another embedding or output matrix than the model's.
const BASE: &str = "it was trained on a model with another embedding or output matrix, for example for more tokens, and \
     holds that one: it takes the place of the model's";

/// A part of an adapter that changes a tensor under a name of the adapter's dialect.
trait Changes {
    /// The name of the changed tensor.
    fn name(&self, dialect: Dialect) -> Cow<'_, str>;
}

impl Changes for LowRankPair {
    fn name(&self, dialect: Dialect) -> Cow<'_, str> {
        let parameter = self.parameters.as_ref().and_then(|parameters| parameters.names.first());
        match (dialect, parameter) {
            (_, Some(name)) => Cow::Borrowed(name),
            (Dialect::Gguf, None) => Cow::Borrowed(&self.target),
            _ => Cow::Owned(format!("{}.weight", self.target)),
        }
    }
}

impl LowRankPair {
    /// The name of what it changes, and the canonical tensors; none if the model lacks them.
    pub(super) fn changed<'a>(
        &'a self,
        model: &Model,
        adapter: &Adapter,
    ) -> Result<(&'a str, Vec<Target>)> {
        match &self.parameters {
            Some(parameters) => parameters.changed(model, adapter, self),
            None => Ok((&self.target, targets(model, adapter, &self.target, ".weight")?)),
        }
    }
}

impl Changes for WholeTensor {
    fn name(&self, _: Dialect) -> Cow<'_, str> {
        Cow::Borrowed(&self.target)
    }
}

impl Adapter {
    /// Whether a part changes the canonical tensor of this name, whether or not the model stores it.
    fn is(&self, model: &Model, part: &impl Changes, canonical: &str) -> bool {
        let architecture = model.resolution().ok().and_then(|resolution| resolution.architecture);
        architecture.is_some_and(|architecture| {
            spellings(&part.name(self.dialect)).iter().any(|name| {
                let found = canonical_of(architecture, self.dialect, name);
                found.iter().any(|found| found.canonical == canonical)
            })
        })
    }

    /// The model with adapters merged. Several adapters are merged one after another. Values are computed when they are read.
    ///
    /// An adapter may have whole tensors instead of the model's. Those of the vocabulary may have more
    /// rows. The tokenizer is the one next to the adapter, if that has tokens or a chat template that the model's lacks.
    ///
    /// # Errors
    ///
    /// `NotFound`, naming the tensors, if the model lacks what an adapter changes; `Mismatch` if shapes
    /// or architectures differ; `Unsupported` for an adapter that cannot be merged: its
    /// [obstacle](Self::obstacle).
    pub fn merged(model: &Model, adapters: &[ScaledAdapter]) -> Result<Model> {
        let mut merged = model.clone();
        for ScaledAdapter { adapter, factor } in adapters {
            if let Some(obstacle) = adapter.obstacle() {
                return Err(obstacle.clone());
            }
            let within = |error: Error| error.in_file(adapter.path());
            merged = adapter.merged_into(&merged, *factor).map_err(within)?;
        }
        Ok(merged)
    }

    /// Checks that the adapter changes something, and that its products are numbers: NaN in a matrix makes all rows or columns
    /// of the merged one NaN.
    ///
    /// # Errors
    ///
    /// `Malformed` otherwise; `Io` if a matrix cannot be read.
    pub(crate) fn check_content(&self) -> Result<()> {
        if self.is_empty() {
            let fault = "the adapter changes no tensor: nothing was saved in it";
            let advice = "save it again; programs that divide parameters must gather them first";
            return Err(Error::malformed(fault).advise(advice));
        }
        for name in self.products.iter().flat_map(|product| [&product.a, &product.b]) {
            let (mut at, mut found) = (0u64, None);
            self.stored(name)?.for_each_values(|values: &[f32]| {
                let odd = values.iter().position(|value| !value.is_finite());
                if let (Some(odd), None) = (odd, found) {
                    found = values.get(odd).map(|value| (at.saturating_add(odd as u64), *value));
                }
                at = at.saturating_add(values.len() as u64);
                Ok::<_, Error>(())
            })?;
            if let Some((element, value)) = found {
                let fault = format!(
                    "element {element} is {value}, which would spoil what it is merged into"
                );
                let advice = "the training failed, or the file is damaged: take another checkpoint of the adapter";
                return Err(Error::malformed(fault).in_tensor(name).advise(advice));
            }
        }
        Ok(())
    }

    /// The embeddings and output matrices of the base that differ from those of the model. PEFT saves them if their rows were
    /// added to, or changed by a product, and loads them again.
    pub(super) fn other_bases(&self, model: &Model) -> Result<Vec<&WholeTensor>> {
        let mut others = Vec::new();
        for base in &self.bases {
            let is_output = self.is(model, base, OUTPUT);
            if !is_output && !self.is(model, base, EMBEDDING) {
                continue;
            }
            let own = match replaced(model, self, base)? {
                None if is_output && model.has(EMBEDDING) => Some(model.tensor(EMBEDDING)?),
                own => own,
            };
            let other = self.stored(&base.stored)?;
            // Of another width, it is another model's, which its products say.
            let Some(own) = own.filter(|own| own.shape().last() == other.shape().last()) else {
                continue;
            };
            // A quantized model has the rounded values of the same matrix.
            let is_rounded = own.dtype()?.is_quantized() && own.shape() == other.shape();
            if !is_rounded && !own.has_values_of(&other)? {
                others.push(base);
            }
        }
        Ok(others)
    }

    /// The model with the adapter merged, after what was merged before.
    fn merged_into(&self, model: &Model, factor: f64) -> Result<Model> {
        self.check_content()?;
        check_architecture(model, self)?;
        check_factor(self, factor)?;
        let (path, mut notes) = (Text::from_path(self.path()), model.merged().to_vec());
        notes.extend(self.unread());
        notes.extend(mlx::note(self).map(|note| format!("{path}: {note}")));
        let bases = self.other_bases(model)?;
        if !bases.is_empty() {
            notes.push(format!("{path}: {BASE}"));
        }
        let wholes: Vec<&WholeTensor> = self.wholes.iter().chain(bases).collect();
        let untied = untied(model, self, &wholes)?;
        if untied.is_some() {
            notes.push(format!("{path}: {UNTIED}"));
        }
        let model = untied.as_ref().unwrap_or(model);
        let model = with_whole_tensors(model, self, &wholes, &mut notes)?;
        let model = with_tokenizer(&model, self, &mut notes);
        let mut all = model.changes();
        add_products(&mut all, &model, self, factor)?;
        for rows in &self.rows {
            add_rows(&mut all, &model, self, rows)?;
        }
        let times = if factor == 1.0 { String::new() } else { format!(", times {factor}") };
        let of_embedding = self.products.iter().any(|product| self.is(&model, product, EMBEDDING));
        if of_embedding && !model.has(OUTPUT) && !self.is_tied {
            notes.push(format!("{path}: {BOTH}"));
        }
        notes.push(format!("merged LoRA adapter {path}: {}{times}", self.summary()));
        Ok(model.with_changes(all, notes))
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

/// The model with its embedding once more as output matrix, if both are one and the adapter changes either alone.
fn untied(model: &Model, adapter: &Adapter, wholes: &[&WholeTensor]) -> Result<Option<Model>> {
    if adapter.is_tied || model.has(OUTPUT) {
        return Ok(None);
    }
    let mut changes = adapter.products.iter().any(|product| adapter.is(model, product, OUTPUT));
    for whole in wholes {
        let other = adapter.stored(&whole.stored)?;
        if adapter.is(model, *whole, OUTPUT) {
            if is_copy_of_embedding(model, adapter, wholes, &other)? {
                return Ok(None);
            }
            changes = true;
        }
        changes |= whole.is_copy && adapter.is(model, *whole, EMBEDDING);
    }
    if changes { model.untied() } else { Ok(None) }
}

/// Adds the products of an adapter.
fn add_products(all: &mut Adaptation, model: &Model, adapter: &Adapter, factor: f64) -> Result<()> {
    // A tied output matrix has the products of the embedding.
    let is_second = |product: &&LowRankPair| {
        adapter.is_tied && !model.has(OUTPUT) && adapter.is(model, *product, OUTPUT)
    };
    let products = || adapter.products.iter().filter(|product| !is_second(product));
    let changed = products().map(|product| product.changed(model, adapter));
    let changed = changed.collect::<Result<Vec<_>>>()?;
    let lacking = changed.iter().filter(|(_, found)| found.is_empty());
    let lacking: Vec<&str> = lacking.map(|(name, _)| *name).collect();
    if let Some(first) = lacking.first() {
        return Err(lacks(model, first, lacking.len()));
    }
    let mut names = HashSet::new();
    if let Some((name, _)) = changed.iter().find(|(name, _)| !names.insert(*name)) {
        let fault = format!("the adapter changes {name} twice");
        return Err(Error::malformed(fault).in_file(adapter.path()));
    }
    for (product, (_, targets)) in products().zip(changed) {
        let scale = product.scale * factor;
        for target in targets {
            add(all, model, adapter, product, &target, scale)?;
        }
        if let Some(bias) = &product.bias {
            add_bias(all, model, adapter, (product, bias), scale)?;
        }
    }
    Ok(())
}

/// Adds the bias of a product to that of the module that it changes.
fn add_bias(
    all: &mut Adaptation,
    model: &Model,
    adapter: &Adapter,
    (product, stored): (&LowRankPair, &str),
    scale: f64,
) -> Result<()> {
    let bias = adapter.stored(stored)?;
    let found = targets(model, adapter, &product.target, ".bias")?;
    if found.is_empty() {
        let module = Text::new(product.target.as_bytes()).brief();
        let fault = format!("the adapter adds a bias to {module}, which has none in the model");
        let error = Error::unsupported(fault).in_tensor(stored).in_key("lora_bias");
        return Err(error.advise(
            "PEFT does not merge it either: run it with PEFT, or train the adapter without lora_bias",
        ));
    }
    for Target { tensor, expert, transform } in found {
        let Transform { rows, .. } = transform;
        let (axes, columns, values) = (Axes::Same, RowOrder::All, Change::None);
        if expert.is_some() || transform != (Transform { axes, rows, columns, values }) {
            let fault = "the bias of a matrix that the model has in another form";
            return Err(Error::unsupported(fault).in_tensor(stored));
        }
        let bias = bias.clone().with_shape(&[bias.elements()]);
        let bias = bias.in_canonical_rows(rows, model.config().ok())?;
        // PEFT scales in f32.
        all.add_vector(&tensor, bias, f32_of(scale))?;
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
    let targets = targets(model, adapter, &rows.target, ".weight")?;
    let [target] = targets.as_slice() else { return Err(lacks(model, &rows.target, 1)) };
    if target.expert.is_some() || target.transform.rows != RowOrder::All {
        return Err(Error::unsupported("rows of a fused matrix").in_tensor(&rows.stored));
    }
    all.replace_rows(&target.tensor, &rows.numbers, &adapter.stored(&rows.stored)?)
}

/// The model with the whole tensors of an adapter.
fn with_whole_tensors(
    model: &Model,
    adapter: &Adapter,
    wholes: &[&WholeTensor],
    notes: &mut Vec<String>,
) -> Result<Model> {
    let (mut pairs, mut names, mut is_longer) = (Vec::new(), Vec::new(), false);
    for whole in wholes {
        let other = adapter.stored(&whole.stored)?;
        let Some(own) = replaced(model, adapter, whole)? else {
            if adapter.is(model, *whole, OUTPUT)
                && (adapter.is_tied || is_copy_of_embedding(model, adapter, wholes, &other)?)
            {
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
        let number = model.store().find(own.name()).map(|stored| stored.number());
        let number = number.ok_or_else(|| lacks(model, own.name(), 1))?;
        pairs.push((number, other.stored_number()?));
        if own.is_adapted() {
            notes.push(format!(
                "{}: its {} takes the place of that which was merged before",
                Text::from_path(adapter.path()),
                Text::new(own.name().as_bytes())
            ));
        }
        names.push(own.name().to_owned());
    }
    if pairs.is_empty() {
        return Ok(model.clone());
    }
    let store = model.store().replacing(adapter.model.store(), &pairs)?;
    let merged = model.with_replaced(store, &names);
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
    let names = spellings(&whole.target);
    let Some(architecture) = model.resolution()?.architecture else {
        return stored_tensor(model, &names);
    };
    for name in &names {
        let matches = canonical_of(architecture, adapter.dialect, name);
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
    stored_tensor(model, &names)
}

/// The tensor that has one of these names in the file, in the model's class, or without what programs put into names: tensors
/// of vision and audio models, and of models without an architecture, have no canonical names.
fn stored_tensor<S: AsRef<str>>(model: &Model, names: &[S]) -> Result<Option<Tensor>> {
    let resolution = model.resolution()?;
    let model_type = model.store().document("config.json").and_then(|all| all.get("model_type"));
    let model_type = model_type.and_then(Json::as_str).unwrap_or_default();
    let has = |stored: &str| {
        let bare = resolution.bare(stored);
        let in_class = name_in_class(model_type, &bare);
        names.iter().any(|name| [&*bare, &*in_class].contains(&name.as_ref()))
    };
    let direct = names.iter().map(AsRef::as_ref).find(|name| model.store().find(name).is_some());
    let further = || {
        let others = resolution.auxiliary.iter().map(|tensor| &tensor.stored);
        others.chain(&resolution.unknown).map(String::as_str).find(|stored| has(stored))
    };
    direct.or_else(further).map(|name| model.stored_tensor(name)).transpose()
}

/// Whether an output matrix of the adapter has the values of its embedding, for a model in which both are one.
/// PEFT saves both.
fn is_copy_of_embedding(
    model: &Model,
    adapter: &Adapter,
    wholes: &[&WholeTensor],
    output: &Tensor,
) -> Result<bool> {
    let embedding = wholes.iter().find(|whole| adapter.is(model, **whole, EMBEDDING));
    let Some(embedding) = embedding.filter(|_| !model.has(OUTPUT)) else { return Ok(false) };
    adapter.stored(&embedding.stored)?.has_values_of(output)
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
            values: Change::None,
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
    if let Some(reason) = tower_part(target) {
        let fault = format!(
            "the adapter saves \"{target}\" as a whole, {reason}, which the model does not have"
        );
        return Error::unsupported(fault)
            .advise("merge it into the directory of the original model");
    }
    let fault = format!(
        "the adapter saves \"{target}\" as a whole, a tensor that the model does not have, such as the head of a classifier"
    );
    Error::unsupported(fault)
        .advise("merge it with PEFT into the class that it was trained with, or remove the tensor from the adapter")
}

/// Checks that a GGUF adapter states an architecture of the model's family.
pub(super) fn check_architecture(model: &Model, adapter: &Adapter) -> Result<()> {
    let resolution = model.resolution()?;
    let Some(architecture) = resolution.architecture else { return Ok(()) };
    let multiplied = |dialect| matches!(dialect, Dialect::Gguf | Dialect::Mlx);
    if !architecture.factors.is_empty()
        && multiplied(resolution.dialect) != multiplied(adapter.dialect)
    {
        let fault =
            "weights of one of the model and the adapter are multiplied by factors of the config";
        return Err(
            Error::unsupported(fault).advise("merge it into the model that it was trained for")
        );
    }
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
pub(super) fn targets(
    model: &Model,
    adapter: &Adapter,
    name: &str,
    end: &str,
) -> Result<Vec<Target>> {
    let resolution = model.resolution()?;
    let names: Vec<Cow<'_, str>> = match adapter.dialect {
        Dialect::Gguf => vec![Cow::Borrowed(name)],
        _ => spellings(name).into_iter().map(|name| Cow::Owned(format!("{name}{end}"))).collect(),
    };
    let stored = || Ok(stored_tensor(model, &names)?.map(Target::stored).into_iter().collect());
    let Some(architecture) = resolution.architecture else { return stored() };
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
    stored()
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
        (Layout::PeftExperts, _) => {
            let (rows, width) = a.gathered_shape();
            let a = a.in_canonical_columns(target.transform.columns, config)?;
            let experts = rows.checked_div(product.rank).unwrap_or(0);
            (
                b.in_canonical_rows(target.transform.rows, config)?,
                a.with_shape(&[experts, product.rank, width]),
            )
        }
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
    // Both programs scale in f32.
    let scale = f32_of(scale);
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
        (None, [_, _], [experts, _, _]) => {
            let experts = *experts;
            let each = whole.checked_div(experts).unwrap_or(0);
            for expert in 0..experts {
                let left = left.clone().columns_apart(expert, experts)?;
                put(expert * each..(expert + 1) * each, left, right.array(expert)?)?;
            }
            Ok(())
        }
        _ => put(0..whole, left, right),
    }
}
