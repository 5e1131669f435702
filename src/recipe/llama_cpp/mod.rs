//! The dtype that llama.cpp's llama-quantize chooses for each tensor, as of ggml 0.25.3. Tests
//! compare the choices with files that llama-quantize wrote.

mod keys;
mod options;
mod rules;
mod setting;
mod source;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::FileType;
use crate::arch::family;
use crate::arch::habits::Exceptions;
use crate::dtype::DType;
use crate::error::{AdvisedOption, Error, ErrorKind, Result};
use crate::recipe::ImportanceMatrix;
pub use options::{LlamaOptions, TensorType, target};
pub(crate) use rules::converted;
pub use rules::needs_importance;
use rules::{FALLBACKS, LOW, LOW_RULES, OUTPUT_RULES, RULES, Role, TensorPosition};
pub use setting::{MetadataSetting, SettingValue};
pub use source::{Hparams, SourceTensor};
use source::{block, by_layer, layer};

/// The dtype chosen for a tensor, and the reason.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TensorChoice<'a> {
    /// Index in the list of source tensors.
    pub source: usize,
    /// Name in the source model, by which importance is looked up.
    pub stored_name: &'a str,
    /// Name in the quantized model, which differs if earlier layers were removed.
    pub name: Cow<'a, str>,
    /// Dtype in the source model.
    pub from: DType,
    /// Dtype in the quantized model.
    pub to: DType,
    /// The reason for the choice.
    pub reason: Reason,
    /// The dtype that would have been chosen if rows were whole blocks of it.
    pub fallback_from: Option<DType>,
    /// Whether the dtype requires importance: without it, llama-quantize refuses to continue.
    pub needs_importance: bool,
}

impl TensorChoice<'_> {
    /// Whether the tensor is copied unchanged.
    pub fn is_copy(&self) -> bool {
        self.from == self.to
    }

    /// The importance of the columns of each matrix of `tensor`, the source of this choice.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the importance has another size, or is missing for a dtype that requires it.
    pub fn importance<'m>(
        &self,
        tensor: &SourceTensor<'_>,
        matrix: &'m ImportanceMatrix,
    ) -> Result<Option<&'m [f32]>> {
        let found = matrix.get(self.stored_name, tensor.columns(), tensor.matrices())?;
        if found.is_none() && self.needs_importance {
            let fault = format!(
                "{} requires importance, but the importance matrix has none for this tensor",
                self.to
            );
            return Err(Error::mismatch(fault)
                .in_file(matrix.path())
                .in_tensor(self.stored_name)
                .advise_option(
                    "choose a dtype with more bits for this tensor, with {}",
                    AdvisedOption::TensorType,
                ));
        }
        Ok(found)
    }
}

/// The reason for a tensor's dtype.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The tensor is not quantized at all.
    Kept,
    /// An option sets it.
    Option,
    /// It is the base dtype of the file type.
    Base,
    /// A rule of the file type sets it.
    Rule,
}

/// A plan for quantizing a model: its tensors in the order of the quantized file, and changes of
/// its metadata.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LlamaRecipe<'a> {
    /// The tensors to write.
    pub choices: Vec<TensorChoice<'a>>,
    /// Keys to remove, before others are set.
    pub removed: &'static [&'static str],
    /// Keys to set, in this order. Each is moved to the end of the metadata.
    pub settings: Vec<MetadataSetting>,
}

impl<'a> LlamaRecipe<'a> {
    /// Chooses a dtype for every tensor of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` where llama-quantize would stop too: rows that are not whole blocks of a dtype
    /// without a fallback, a feed-forward tensor among experts whose layer is unknown, or a dtype
    /// without a quantizer.
    pub fn new(
        model: &Hparams,
        tensors: &[SourceTensor<'a>],
        options: &LlamaOptions,
    ) -> Result<Self> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        let name = |at: usize| tensors.get(at).map_or("", |tensor| tensor.name);
        order.sort_by(|a, b| by_layer(name(*a), name(*b)));
        let mut pruning = Pruning::new(options);
        let mut kept: Vec<(usize, SourceTensor<'a>, Cow<'a, str>)> = Vec::new();
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
        let mut chooser = DTypeRules {
            model,
            exceptions: family::llama_quantize(&model.architecture),
            options,
            tied: roles.clone().all(|role| role != Role::Output),
            values: roles.filter(|role| *role == Role::Value).count() as u64,
            seen: RoleCounts::default(),
        };
        let mut choices = Vec::new();
        for (source, tensor, name) in kept {
            let found = chooser.choose(&name, &tensor).map_err(|error| error.in_tensor(&*name));
            let (to, reason, fallback_from) = found?;
            let needs_importance = reason != Reason::Kept
                && to != tensor.dtype
                && rules::role_needs_importance(options.file_type, Role::of(&name), to);
            let (stored_name, from) = (tensor.name, tensor.dtype);
            choices.push(TensorChoice {
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

    /// Checks whether llama-quantize would proceed. It refuses models that are already quantized,
    /// and dtypes that require an importance matrix if there is none.
    ///
    /// # Errors
    ///
    /// `Mismatch`, with the option that would allow it.
    pub fn check(&self, options: &LlamaOptions) -> Result<()> {
        for choice in self.choices.iter().filter(|choice| !choice.is_copy()) {
            let TensorChoice { from, to, name, .. } = choice;
            if choice.needs_importance && !options.importance {
                let fault = format!("{to} requires an importance matrix");
                return Err(Error::mismatch(fault).in_tensor(name).advise_option(
                    "give an importance matrix with {}, or choose a dtype with more bits",
                    AdvisedOption::Importance,
                ));
            }
            if from.is_quantized() && !options.allow_requantize {
                return Err(Self::already_quantized(*from, *to).in_tensor(name));
            }
        }
        Ok(())
    }

    /// The error for a tensor that would be quantized again.
    pub(crate) fn already_quantized(from: DType, to: DType) -> Error {
        let fault = format!("the tensor is already quantized as {from}, and {to} was requested");
        Error::mismatch(fault).advise_option(
            "quantize the original model, or allow a further loss with {}",
            AdvisedOption::AllowRequantize,
        )
    }
}

/// Removes layers and renumbers the others (`remap_layer`).
struct Pruning<'a> {
    options: &'a LlamaOptions,
    /// The new number of each layer seen so far.
    numbers: BTreeMap<u64, Option<u64>>,
    next: u64,
}

impl<'o> Pruning<'o> {
    fn new(options: &'o LlamaOptions) -> Self {
        Self { options, numbers: BTreeMap::new(), next: 0 }
    }

    /// The new name of a tensor; `None` if its layer is removed.
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

    /// The number of remaining layers, if any were removed.
    fn layers(&self) -> Option<u64> {
        (!self.options.pruned.is_empty()).then_some(self.next)
    }
}

/// The number of tensors seen of each role. Rules count them where they do not use layer numbers.
#[derive(Default)]
struct RoleCounts {
    values: u64,
    up: u64,
    gate: u64,
    down: u64,
}

struct DTypeRules<'a> {
    model: &'a Hparams,
    /// Exceptions for the model's architecture.
    exceptions: Exceptions,
    options: &'a LlamaOptions,
    /// Whether the embedding also serves as output matrix.
    tied: bool,
    /// Number of tensors with attention values.
    values: u64,
    seen: RoleCounts,
}

impl DTypeRules<'_> {
    /// The dtype of the next tensor, the reason, and the dtype that a fallback replaces
    /// (`llama_tensor_get_type`).
    fn choose(
        &mut self,
        name: &str,
        tensor: &SourceTensor<'_>,
    ) -> Result<(DType, Reason, Option<DType>)> {
        let kept = (tensor.dtype, Reason::Kept, None);
        let Some(base) = self.options.file_type.descriptor().base else { return Ok(kept) };
        let role = Role::of(name);
        if tensor.dims() < 2
            || !rules::is_quantized(self.exceptions, name)
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
            let (requested, reason) = match pattern {
                Some(dtype) => (dtype, Reason::Option),
                None if self.options.pure => (base, Reason::Base),
                None => self.by_rules(name, role, tensor, base)?,
            };
            let to = fitting(requested, tensor.columns())?;
            (to, reason, (to != requested).then_some(requested))
        };
        self.possible(tensor, to)?;
        Ok((to, reason, fallback_from))
    }

    /// The choice by the rules of the file type (`llama_tensor_get_type_impl`).
    fn by_rules(
        &mut self,
        name: &str,
        role: Role,
        tensor: &SourceTensor<'_>,
        base: DType,
    ) -> Result<(DType, Reason)> {
        let Self { model, exceptions, options: LlamaOptions { file_type, .. }, tied, .. } = *self;
        let eight_bit_output = exceptions.has("eight_bit_output");
        let experts_only = *file_type == FileType::MXFP4_MOE;
        if rules::needs_eight_bits(exceptions, name) {
            return Ok((DType::Q8_0, Reason::Rule));
        }
        let output = role == Role::Output || (tied && role == Role::TokenEmbedding);
        if output && let Some(dtype) = self.options.output {
            return Ok((dtype, Reason::Option));
        }
        if experts_only && !output {
            // Upstream treats any stack of matrices as experts, except in models with latent
            // attention, which has stacks too.
            let expert = !exceptions.has("experts_by_name")
                || matches!(role, Role::Up | Role::Gate | Role::Down);
            return Ok(match expert && tensor.matrices() > 1 {
                true => (base, Reason::Base),
                false => (DType::Q8_0, Reason::Rule),
            });
        }
        let low = LOW.contains(file_type);
        let (role, table, otherwise) = if output {
            let divides = tensor.columns().is_multiple_of(base.descriptor().block_len.into());
            if experts_only || eight_bit_output || !divides {
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
        let place = TensorPosition {
            index,
            of,
            sharing: model.heads.checked_div(model.kv_heads).unwrap_or(0),
            experts: model.experts,
            importance: self.options.importance,
            eight_bit_output,
        };
        let found = table.iter().find_map(|rule| rule.fits(role, *file_type, &place));
        let mut dtype = found.unwrap_or(otherwise);
        let scarce = matches!(dtype, DType::Q3_K | DType::Q4_K);
        if role == Role::Value && !low && scarce && rules::is_seventy(exceptions, model) {
            dtype = DType::Q5_K;
        }
        Ok((dtype, if dtype == base { Reason::Base } else { Reason::Rule }))
    }

    /// A tensor's index among those of its role, and their number. Feed-forward tensors of experts
    /// are counted by layer, because they are not sorted by layer.
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
                    "rules for experts depend on the layer, but the name contains no layer number \
                        below {layers}"
                );
                Err(Error::unsupported(fault)
                    .advise_option("set the dtype by name, with {}", AdvisedOption::TensorType))
            }
        }
    }

    /// Checks that a tensor can be written in a dtype.
    fn possible(&self, tensor: &SourceTensor<'_>, to: DType) -> Result<()> {
        let SourceTensor { dtype: from, .. } = *tensor;
        let plain = !from.is_quantized() && !matches!(from, DType::F32 | DType::F16 | DType::BF16);
        if plain || !options::is_target(to) {
            return Err(Error::unsupported(format!("{from} cannot be quantized to {to}")));
        }
        let columns = tensor.columns();
        if to.row_bytes(columns).is_none() {
            let len = to.descriptor().block_len;
            let fault =
                format!("rows of {columns} elements do not divide into blocks of {len} for {to}");
            return Err(Error::new(ErrorKind::Unsupported, fault).advise_option(
                "choose another dtype for this tensor, with {}",
                AdvisedOption::TensorType,
            ));
        }
        Ok(())
    }
}

/// The dtype itself if rows are whole blocks of it, else its fallback.
fn fitting(requested: DType, columns: u64) -> Result<DType> {
    let divides = |dtype: DType| columns.is_multiple_of(dtype.descriptor().block_len.into());
    if divides(requested) {
        return Ok(requested);
    }
    let row = FALLBACKS.iter().find(|(dtypes, _)| dtypes.contains(&requested));
    let len = requested.descriptor().block_len;
    match row {
        Some((_, instead)) if divides(*instead) => Ok(*instead),
        None if len > 32 => {
            let fault = format!(
                "rows of {columns} elements do not divide into blocks of {len} for {requested}"
            );
            Err(Error::unsupported(format!("{fault}, which has no fallback")).advise_option(
                "choose another dtype for this tensor, with {}",
                AdvisedOption::TensorType,
            ))
        }
        _ => Ok(DType::F16),
    }
}
