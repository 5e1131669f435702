//! The choice that llama.cpp's llama-quantize makes, tensor by tensor: as of ggml 0.25.3, and held
//! to the files that it writes.

mod keys;
mod options;
mod rules;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::FileType;
use crate::arch::family;
use crate::arch::habits::LlamaQuantize;
use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{KeyValues, Value};
use crate::model::Model;
use crate::recipe::ImportanceMatrix;
use crate::store::tensor::StoredTensor;
pub use keys::{Setting, SettingValue};
pub use options::{Options, TensorType, target};
use rules::{FALLBACKS, LOW, LOW_RULES, OUTPUT_RULES, Place, RULES, Role};

/// The numbers of a model that its tensors' dtypes depend on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hparams {
    /// The architecture, as GGUF names it.
    pub architecture: String,
    /// All layers, those that predict further tokens included: `block_count`.
    pub layers: u64,
    /// How many of them predict further tokens.
    pub nextn_layers: u64,
    /// Heads of queries in the first layer; 0 where it has no attention.
    pub heads: u64,
    /// Heads of keys in the first layer.
    pub kv_heads: u64,
    /// Experts of a layer; 0 in a dense model.
    pub experts: u64,
    /// `general.file_type`, where the model has one.
    pub file_type: Option<u32>,
}

impl Hparams {
    /// Reads them from the metadata of GGUF, as llama-quantize does: `overrides` count as if they
    /// stood there.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the architecture or the number of layers is not to be found.
    pub fn of(metadata: &KeyValues, overrides: &[Setting]) -> Result<Self> {
        let missing = |key: &str| {
            Error::unsupported("a model to be quantized needs this key, and it is not there")
                .in_key(key)
        };
        let architecture = overridden(metadata, overrides, "general.architecture")
            .and_then(|value| value.to_text()?.to_str())
            .ok_or_else(|| missing("general.architecture"))?;
        let number = |key: &str| {
            let key = format!("{architecture}.{key}");
            overridden(metadata, overrides, &key).and_then(first)
        };
        let heads = number("attention.head_count").unwrap_or(0);
        Ok(Self {
            architecture: architecture.to_owned(),
            layers: number("block_count")
                .ok_or_else(|| missing(&format!("{architecture}.block_count")))?,
            nextn_layers: number("nextn_predict_layers").unwrap_or(0),
            heads,
            kv_heads: number("attention.head_count_kv").unwrap_or(heads),
            experts: number("expert_count").unwrap_or(0),
            file_type: overridden(metadata, overrides, "general.file_type")
                .and_then(|value| u32::try_from(value.to_u64()?).ok()),
        })
    }
}

fn overridden<'a>(
    metadata: &'a KeyValues,
    overrides: &'a [Setting],
    key: &str,
) -> Option<Value<'a>> {
    let over = overrides.iter().rfind(|setting| setting.key == key);
    over.map(|setting| setting.value.value()).or_else(|| metadata.get(key))
}

/// A number, or the first of one for each layer.
fn first(value: Value<'_>) -> Option<u64> {
    match value.to_array() {
        Some(array) => u64::try_from(array.integers()?.next()?).ok(),
        None => value.to_u64(),
    }
}

/// A tensor before it is quantized.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its name in GGUF.
    pub name: &'a str,
    /// Its shape, outermost first.
    pub shape: &'a [u64],
    /// Its dtype.
    pub dtype: DType,
}

impl<'a> Stored<'a> {
    /// The tensors of a model that has GGUF's names.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a dtype that is not known, or a name that is not UTF-8.
    pub fn all(model: &'a Model) -> Result<Vec<Self>> {
        let store = model.store();
        let tensor = |tensor: StoredTensor<'a>| {
            let name: Text<'a> = tensor.name();
            let name = name.to_str().ok_or_else(|| {
                Error::unsupported("a name that is not UTF-8 cannot be written")
                    .in_file(store.path())
                    .in_tensor(name)
            })?;
            Ok(Self { name, shape: tensor.shape(), dtype: tensor.dtype()? })
        };
        store.tensors().map(tensor).collect()
    }

    /// Elements of a row.
    fn columns(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Dimensions, where ones at the outside do not count (`ggml_n_dims`).
    fn dims(&self) -> usize {
        self.shape.iter().skip_while(|dim| **dim == 1).count()
    }

    /// Matrices that lie one after another: the experts of a layer.
    fn matrices(&self) -> u64 {
        self.shape.iter().rev().nth(2).copied().unwrap_or(1)
    }
}

/// What becomes of a tensor, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Choice<'a> {
    /// Its place in the list that was given.
    pub source: usize,
    /// Its name there, which importance goes by.
    pub stored_name: &'a str,
    /// Its name in the quantized model: another one where layers before it were taken out.
    pub name: Cow<'a, str>,
    /// Its dtype as it is.
    pub from: DType,
    /// Its dtype in the quantized model.
    pub to: DType,
    /// Why it gets that.
    pub reason: Reason,
    /// The dtype that it would have got if its rows were whole blocks of it.
    pub fallback_from: Option<DType>,
    /// It is worth nothing without importance: llama-quantize refuses to go on.
    pub needs_importance: bool,
}

impl Choice<'_> {
    /// Whether its bytes stay as they are.
    pub fn is_copy(&self) -> bool {
        self.from == self.to
    }

    /// The importance of the columns of each matrix of `tensor`, which this choice is for.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it is of another size, or missing for a dtype that is worth nothing without.
    pub fn importance<'m>(
        &self,
        tensor: &Stored<'_>,
        matrix: &'m ImportanceMatrix,
    ) -> Result<Option<&'m [f32]>> {
        let found = matrix.get(self.stored_name, tensor.columns(), tensor.matrices())?;
        if found.is_none() && self.needs_importance {
            let fault = format!(
                "{} is worth nothing without the importance of columns, and the matrix has none",
                self.to
            );
            return Err(Error::mismatch(fault)
                .in_file(matrix.path())
                .in_tensor(self.stored_name)
                .advise("give this tensor more bits (--tensor-type)"));
        }
        Ok(found)
    }
}

/// Why a tensor gets its dtype.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It is none of those that are quantized.
    Kept,
    /// An option says so.
    Option,
    /// It is the file type's base.
    Base,
    /// A rule of the file type says so.
    Rule,
}

/// What becomes of a model: its tensors in the order of the quantized file, and its metadata.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recipe<'a> {
    /// The tensors that stay.
    pub choices: Vec<Choice<'a>>,
    /// Keys to be taken out, before others are set.
    pub removed: &'static [&'static str],
    /// Keys to be set. Each goes to the end, wherever it stood before, in this order.
    pub settings: Vec<Setting>,
}

impl<'a> Recipe<'a> {
    /// Chooses for every tensor of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` where llama-quantize would stop too: rows that are no whole blocks of a dtype
    /// that has no fallback, a feed-forward tensor of an unknown layer among experts, a dtype that
    /// nothing quantizes to.
    pub fn new(model: &Hparams, tensors: &[Stored<'a>], options: &Options) -> Result<Self> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        let name = |at: usize| tensors.get(at).map_or("", |tensor| tensor.name);
        order.sort_by(|a, b| by_layer(name(*a), name(*b)));
        let mut pruning = Pruning::new(options);
        let mut kept: Vec<(usize, Stored<'a>, Cow<'a, str>)> = Vec::new();
        for at in order {
            let Some(tensor) = tensors.get(at) else { continue };
            if let Some(name) = pruning.renamed(tensor.name) {
                kept.push((at, *tensor, name));
            }
        }
        if options.keep_split {
            kept.sort_by_key(|(at, ..)| *at);
        }
        let roles = kept.iter().map(|(.., name)| Role::of(name));
        let mut chooser = Chooser {
            model,
            habits: family::llama_quantize(&model.architecture),
            options,
            tied: roles.clone().all(|role| role != Role::Output),
            values: roles.filter(|role| *role == Role::Value).count() as u64,
            seen: Seen::default(),
        };
        let mut choices = Vec::new();
        for (source, tensor, name) in kept {
            let found = chooser.choose(&name, &tensor).map_err(|error| error.in_tensor(&*name));
            let (to, reason, fallback_from) = found?;
            let needs_importance = reason != Reason::Kept
                && to != tensor.dtype
                && rules::needs_importance(options.file_type, Role::of(&name), to);
            let (stored_name, from) = (tensor.name, tensor.dtype);
            choices.push(Choice {
                source,
                stored_name,
                name,
                from,
                to,
                reason,
                fallback_from,
                needs_importance,
            });
        }
        let settings = keys::settings(model, tensors, options, pruning.layers());
        Ok(Self { choices, removed: keys::SPLIT, settings })
    }

    /// Whether llama-quantize would go to work, which it does not for models that are quantized
    /// already, or of so few bits without importance.
    ///
    /// # Errors
    ///
    /// `Mismatch`, with the option that would let it.
    pub fn check(&self, options: &Options) -> Result<()> {
        for choice in self.choices.iter().filter(|choice| !choice.is_copy()) {
            let Choice { from, to, name, .. } = choice;
            if choice.needs_importance && !options.importance {
                let fault = format!("{to} is worth nothing without the importance of columns");
                return Err(Error::mismatch(fault)
                    .in_tensor(name)
                    .advise("give it an importance matrix (--imatrix), or more bits"));
            }
            if from.is_quantized() && !options.allow_requantize {
                let fault = format!("it is quantized already, as {from}, and was to become {to}");
                return Err(Error::mismatch(fault)
                    .in_tensor(name)
                    .advise("quantize the original, or allow to requantize at a loss"));
            }
        }
        Ok(())
    }
}

/// The layer of `blk.{n}`, as `sscanf` reads it: what follows the digits makes no difference.
fn layer(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("blk.")?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// The order of llama.cpp (`weight_name_comparer`): what is in no layer, then layer by layer, each
/// by the bytes of its names.
fn by_layer(a: &str, b: &str) -> std::cmp::Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// Takes layers out, and closes the gaps (`remap_layer`).
struct Pruning<'a> {
    options: &'a Options,
    /// The new number of each layer met so far.
    numbers: BTreeMap<u64, Option<u64>>,
    next: u64,
}

impl<'o> Pruning<'o> {
    fn new(options: &'o Options) -> Self {
        Self { options, numbers: BTreeMap::new(), next: 0 }
    }

    /// The name to go by from now on; `None` for a tensor of a layer that is taken out.
    fn renamed<'a>(&mut self, name: &'a str) -> Option<Cow<'a, str>> {
        let Some(first) = self.options.pruned.first() else { return Some(name.into()) };
        let Some((before, digits, after)) = block(name) else { return Some(name.into()) };
        let Ok(layer) = digits.parse::<u64>() else { return Some(name.into()) };
        let next = &mut self.next;
        let number = *self.numbers.entry(layer).or_insert_with(|| {
            if self.options.pruned.contains(&layer) {
                return None;
            }
            let number = if layer < *first { layer } else { *next };
            *next = number.saturating_add(1);
            Some(number)
        });
        number.map(|number| match number == layer {
            true => name.into(),
            false => format!("{before}{number}{after}").into(),
        })
    }

    /// How many layers are left, where some were taken out.
    fn layers(&self) -> Option<u64> {
        (!self.options.pruned.is_empty()).then_some(self.next)
    }
}

/// A name at the first `blk.{n}.`: what is before the number, the number, what is after it.
fn block(name: &str) -> Option<(&str, &str, &str)> {
    name.match_indices("blk.").find_map(|(at, piece)| {
        let (before, rest) = name.split_at_checked(at.checked_add(piece.len())?)?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, after) = rest.split_at_checked(end)?;
        (!digits.is_empty() && after.starts_with('.')).then_some((before, digits, after))
    })
}

/// How many tensors of a role were met: rules count them where layers are not told apart.
#[derive(Default)]
struct Seen {
    values: u64,
    up: u64,
    gate: u64,
    down: u64,
}

struct Chooser<'a> {
    model: &'a Hparams,
    /// What is otherwise for the model's architecture.
    habits: LlamaQuantize,
    options: &'a Options,
    /// The embedding is the output as well.
    tied: bool,
    /// How many tensors hold values of attention.
    values: u64,
    seen: Seen,
}

impl Chooser<'_> {
    /// The dtype of the next tensor, why, and what a fallback stands for (`llama_tensor_get_type`).
    fn choose(
        &mut self,
        name: &str,
        tensor: &Stored<'_>,
    ) -> Result<(DType, Reason, Option<DType>)> {
        let kept = (tensor.dtype, Reason::Kept, None);
        let Some(base) = self.options.file_type.descriptor().base else { return Ok(kept) };
        let role = Role::of(name);
        if tensor.dims() < 2
            || !rules::is_quantized(&self.habits, name)
            || (role == Role::Output && self.options.leave_output)
        {
            return Ok(kept);
        }
        let pattern = self.options.tensor_types.iter().find(|option| option.matches(name));
        let pattern = pattern.map(|option| option.dtype);
        let embedding = (role == Role::TokenEmbedding
            && !(name == "per_layer_token_embd.weight" && pattern.is_some()))
        .then_some(self.options.token_embedding)
        .flatten();
        let output = self.options.output.filter(|_| role == Role::Output);
        let (to, reason, fallback_from) = if let Some(dtype) = embedding.or(output) {
            (dtype, Reason::Option, None)
        } else if !base.is_quantized() {
            (base, Reason::Base, None)
        } else {
            let (wanted, reason) = match pattern {
                Some(dtype) => (dtype, Reason::Option),
                None if self.options.pure => (base, Reason::Base),
                None => self.by_rules(name, role, tensor, base)?,
            };
            let to = fitting(wanted, tensor.columns())?;
            (to, reason, (to != wanted).then_some(wanted))
        };
        self.possible(tensor, to)?;
        Ok((to, reason, fallback_from))
    }

    /// The file type's own choice (`llama_tensor_get_type_impl`).
    fn by_rules(
        &mut self,
        name: &str,
        role: Role,
        tensor: &Stored<'_>,
        base: DType,
    ) -> Result<(DType, Reason)> {
        let Self { model, habits, options: Options { file_type, .. }, tied, .. } = *self;
        let falcon = habits.falcon;
        let experts_only = *file_type == FileType::MXFP4_MOE;
        if rules::needs_eight_bits(&habits, name) {
            return Ok((DType::Q8_0, Reason::Rule));
        }
        let output = role == Role::Output || (tied && role == Role::TokenEmbedding);
        if output && let Some(dtype) = self.options.output {
            return Ok((dtype, Reason::Option));
        }
        if experts_only && !output {
            // Upstream takes any stack of matrices for experts, except where latent attention has
            // stacks too.
            let expert =
                !habits.experts_by_name || matches!(role, Role::Up | Role::Gate | Role::Down);
            return Ok(match expert && tensor.matrices() > 1 {
                true => (base, Reason::Base),
                false => (DType::Q8_0, Reason::Rule),
            });
        }
        let low = LOW.contains(file_type);
        let (role, table, otherwise) = if output {
            let divides = tensor.columns().is_multiple_of(base.descriptor().block_len.into());
            if experts_only || falcon || !divides {
                return Ok((DType::Q8_0, Reason::Rule));
            }
            let usual = if base == DType::Q8_0 { base } else { DType::Q6_K };
            (Role::Output, OUTPUT_RULES, usual)
        } else if low {
            (role, LOW_RULES, base)
        } else {
            (role, RULES, base)
        };
        let (index, of) = self.place(name, role, low)?;
        let place = Place {
            index,
            of,
            sharing: model.heads.checked_div(model.kv_heads).unwrap_or(0),
            experts: model.experts,
            importance: self.options.importance,
            falcon,
        };
        let found = table.iter().find_map(|rule| rule.fits(role, *file_type, &place));
        let mut dtype = found.unwrap_or(otherwise);
        let scarce = matches!(dtype, DType::Q3_K | DType::Q4_K);
        if role == Role::Value && !low && scarce && rules::is_seventy(&habits, model) {
            dtype = DType::Q5_K;
        }
        Ok((dtype, if dtype == base { Reason::Base } else { Reason::Rule }))
    }

    /// A tensor's number among those of its role, and how many there are. Of feed-forward tensors
    /// among experts the layer counts, since they do not lie in the order of layers.
    fn place(&mut self, name: &str, role: Role, low: bool) -> Result<(u64, u64)> {
        let layers = self.model.layers;
        let (seen, of) = match role {
            Role::Value => (&mut self.seen.values, self.values),
            Role::Up => (&mut self.seen.up, layers),
            Role::Gate => (&mut self.seen.gate, layers),
            Role::Down => (&mut self.seen.down, layers),
            _ => return Ok((0, layers)),
        };
        let index = *seen;
        *seen = seen.saturating_add(1);
        if role == Role::Value || low || self.model.experts <= 1 {
            return Ok((index, of));
        }
        match layer(name).filter(|layer| *layer < layers) {
            Some(layer) => Ok((layer, layers)),
            None => {
                let fault = format!(
                    "the choice among experts goes by layers, and the name tells none of the {layers}"
                );
                Err(Error::unsupported(fault).advise("give its dtype by name (--tensor-type)"))
            }
        }
    }

    /// Refuses what could not be written.
    fn possible(&self, tensor: &Stored<'_>, to: DType) -> Result<()> {
        let Stored { dtype: from, .. } = *tensor;
        if from == to {
            return Ok(());
        }
        let plain = !from.is_quantized() && !matches!(from, DType::F32 | DType::F16 | DType::BF16);
        if plain || !options::is_target(to) {
            return Err(Error::unsupported(format!("{from} is not quantized to {to}")));
        }
        let columns = tensor.columns();
        if to.row_bytes(columns).is_none() {
            let len = to.descriptor().block_len;
            let fault = format!("rows of {columns} elements are no whole blocks of {len} for {to}");
            return Err(Error::new(ErrorKind::Unsupported, fault)
                .advise("choose another dtype for this tensor (--tensor-type)"));
        }
        Ok(())
    }
}

/// The dtype itself where rows are whole blocks of it, else the one that stands in for it.
fn fitting(wanted: DType, columns: u64) -> Result<DType> {
    let divides = |dtype: DType| columns.is_multiple_of(dtype.descriptor().block_len.into());
    if divides(wanted) {
        return Ok(wanted);
    }
    let row = FALLBACKS.iter().find(|(dtypes, _)| dtypes.contains(&wanted));
    let len = wanted.descriptor().block_len;
    match row {
        Some((_, instead)) if divides(*instead) => Ok(*instead),
        None if len > 32 => {
            let fault =
                format!("rows of {columns} elements are no whole blocks of {len} for {wanted}");
            Err(Error::unsupported(format!("{fault}, which has no fallback"))
                .advise("choose another dtype for this tensor (--tensor-type)"))
        }
        _ => Ok(DType::F16),
    }
}
