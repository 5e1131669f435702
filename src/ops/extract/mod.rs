//! LoRA adapters: from the difference of two models, and in another form.

mod in_gguf;
mod low_rank;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::arch::Dialect;
use crate::bytes::{Origin, ReadAt, Source};
use crate::dtype::DType;
use crate::engines::transformers::name_in_class;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::model::{Model, Tensor};
use crate::ops::account;
use crate::write::{Builder, ItemKind, Outcome, WritePlan};
pub use in_gguf::adapter_in_gguf;
use low_rank::{Factors, nearest};

/// The name of PEFT's file of matrices, without its ending.
const WEIGHTS: &str = "adapter_model";

/// The matrix that PEFT adapts as an embedding.
const EMBEDDING: &str = "embed_tokens.weight";

/// A LoRA adapter that is written when its plan runs.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtractedAdapter {
    /// Writes a directory of PEFT.
    pub plan: WritePlan,
    pairs: Vec<Arc<Pair>>,
}

impl ExtractedAdapter {
    /// The share of each changed matrix's difference that its two matrices hold, in squares, by the name of
    /// the matrix. Empty until the plan has run.
    pub fn kept(&self) -> Vec<(&str, f64)> {
        let kept = |pair: &Arc<Pair>| *pair.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.pairs.iter().filter_map(|pair| Some((&*pair.name, kept(pair)?))).collect()
    }
}

/// Plans a LoRA adapter in PEFT's form that makes `tuned` of `base`: for each matrix that differs, the two
/// matrices of `rank` whose product is nearest to the difference. All other tensors that differ, such as norms, biases and
/// convolutions, are stored as a whole. The models may be in any containers. A matrix is decoded when its turn comes.
///
/// # Errors
///
/// `Mismatch` for a rank of 0, models without a difference, and models whose tensors differ in name or shape;
/// `Unsupported` for a difference that no adapter holds.
pub fn extract_adapter(base: &Model, tuned: &Model, rank: u64) -> Result<ExtractedAdapter> {
    if rank == 0 {
        return Err(Error::mismatch("the rank is 0, but an adapter needs one above 0"));
    }
    let before = base.tensors_in(Dialect::HuggingFace)?.tensors;
    let mut builder = Builder::new(&crate::container::SAFETENSORS)?;
    builder.weights_name(WEIGHTS);
    // PEFT looks tensors up by the names that the model has in its class.
    let model_type =
        base.store().document("config.json").and_then(|config| config.get("model_type"));
    let model_type = model_type.and_then(Json::as_str).unwrap_or_default();
    let in_class =
        |tensor: &Tensor| tensor.clone().named(&name_in_class(model_type, tensor.name()));
    let mut changed = Vec::new();
    let after = tuned.tensors_in(Dialect::HuggingFace)?.tensors;
    if let Some(missing) = before.iter().find(|one| after.iter().all(|it| it.name() != one.name()))
    {
        let fault = format!("the model has no such tensor, which {} has", base.path().display());
        return Err(Error::mismatch(fault).in_tensor(missing.name()).in_file(tuned.path()));
    }
    for after in &after {
        let name = after.name();
        let own = before.iter().find(|tensor| tensor.name() == name);
        let path = base.path().display();
        let fault = match own {
            Some(own) if own.shape() == after.shape() => None,
            Some(own) => Some(format!(
                "shape {:?}, but {:?} in the base {path}, and an adapter changes values alone",
                after.shape(),
                own.shape()
            )),
            None => Some(format!("the base {path} has no such tensor")),
        };
        let (Some(own), None) = (own, &fault) else {
            let fault = fault.unwrap_or_default();
            return Err(Error::mismatch(fault).in_tensor(name).in_file(tuned.path()));
        };
        if own.to_vec::<f32>()? != after.to_vec::<f32>()? {
            changed.push((own.clone(), in_class(after)));
        }
    }
    if changed.is_empty() {
        return Err(Error::mismatch("the models have the same values").in_file(tuned.path()));
    }
    let stored = changed.iter().flat_map(|(_, after)| after.stored_names());
    let differing: HashSet<String> = stored.map(|name| name.spelling().into_owned()).collect();
    let all: Vec<Tensor> = after.iter().map(in_class).collect();
    let mut found = Found::of(&all, &changed);
    for (own, after) in changed {
        found.add(&mut builder, own, after, rank)?;
    }
    found.add_unchanged(&mut builder, &all)?;
    let config = found.config(rank, &base.path().to_string_lossy());
    builder.document("adapter_config.json", format!("{config:#}\n").into_bytes())?;
    account::of_part(tuned, &mut builder, |kind, name| match kind {
        ItemKind::Tensor | ItemKind::Part if differing.contains(name) => {
            (Outcome::Derived, "the matrices of the adapter")
        }
        ItemKind::Tensor | ItemKind::Part => {
            (Outcome::LeftOut, "the base model has the same values")
        }
        _ => (Outcome::LeftOut, "describes the model, not the adapter"),
    })?;
    Ok(ExtractedAdapter { plan: builder.plan()?, pairs: found.pairs })
}

/// The differences found so far.
#[derive(Default)]
struct Found {
    pairs: Vec<Arc<Pair>>,
    /// The shortest ends of the names of changed matrices that no other module has.
    targets: Vec<String>,
    /// Modules that are saved as a whole, and those of their tensors that have not been added.
    wholes: Vec<(String, Vec<String>)>,
    has_biases: bool,
    /// Modules whose rank is smaller than that of the others.
    ranks: Map<String, Json>,
}

/// The module of a tensor; `None` for a parameter that is no weight or bias.
fn module(name: &str) -> Option<&str> {
    name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias"))
}

/// Whether a tensor is the matrix of a module that PEFT adapts by products of the usual form. Names alone tell embeddings of
/// positions and the like from other matrices.
fn is_matrix(tensor: &Tensor) -> bool {
    let name = tensor.name().strip_suffix(".weight").filter(|_| tensor.shape().len() == 2);
    let kind = name.and_then(|name| name.rsplit('.').next());
    kind.is_some_and(|kind| !kind.contains("embed") || tensor.name().ends_with(EMBEDDING))
}

/// Whether a module's name is `end` or ends with it after a dot, as PEFT matches target modules.
fn is_at_end(module: &str, end: &str) -> bool {
    module.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The ends of a name, the shortest first.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').filter_map(|(dot, _)| name.get(dot.checked_add(1)?..));
    starts.chain(std::iter::once(name))
}

impl Found {
    /// The changes that PEFT makes to the modules of `all`, for the tensors that differ.
    fn of(all: &[Tensor], changed: &[(Tensor, Tensor)]) -> Self {
        let mut found = Self::default();
        let matrices: BTreeSet<&str> =
            all.iter().filter(|it| is_matrix(it)).filter_map(|it| module(it.name())).collect();
        let changed_matrices = changed.iter().filter(|(_, after)| is_matrix(after));
        let targets: BTreeSet<&str> =
            changed_matrices.filter_map(|(_, after)| module(after.name())).collect();
        // All modules that are no changed matrices, such as the list `layers.0`.
        let mut others: BTreeSet<&str> = BTreeSet::new();
        for tensor in all {
            let inner = module(tensor.name()).unwrap_or(tensor.name());
            let outer = inner.match_indices('.').filter_map(|(dot, _)| inner.get(..dot));
            others.extend(outer.chain([inner]).filter(|module| !targets.contains(module)));
        }
        for (_, after) in changed {
            let Some(module) = module(after.name()) else { continue };
            if is_matrix(after) {
                let is_clear = |end: &&str| others.iter().all(|other| !is_at_end(other, end));
                let end = ends(module).find(is_clear).unwrap_or(module);
                if found.targets.iter().all(|target| target != end) {
                    found.targets.push(end.to_owned());
                }
            } else if !matrices.contains(module)
                && found.wholes.iter().all(|(whole, _)| whole != module)
            {
                let is_part = |it: &&Tensor| self::module(it.name()) == Some(module);
                let parts = all.iter().filter(is_part).map(|it| it.name().to_owned());
                found.wholes.push((module.to_owned(), parts.collect()));
            }
        }
        // PEFT saves each module whose name ends so, with or without a dot before, and requires all of their tensors.
        let names: Vec<String> = found.wholes.iter().map(|(module, _)| module.clone()).collect();
        let is_only = |whole: &str| {
            let mut modules = matrices.iter().chain(&others);
            modules.all(|one| !one.ends_with(whole) || names.iter().any(|name| name == one))
        };
        found.wholes.retain(|(module, _)| is_only(module));
        found
    }

    /// Adds a tensor that differs.
    fn add(&mut self, builder: &mut Builder, own: Tensor, after: Tensor, rank: u64) -> Result<()> {
        let name = after.name().to_owned();
        let module = module(&name).unwrap_or(&name).to_owned();
        let (&[rows, columns], true) = (after.shape(), is_matrix(&after)) else {
            let is_target = self.targets.iter().any(|target| is_at_end(&module, target));
            let is_bias = name.ends_with(".bias") && is_target;
            self.has_biases |= is_bias;
            let name = if is_bias { format!("{module}.base_layer.bias") } else { name };
            return self.add_whole(builder, &name, &after);
        };
        let own_rank = rank.min(rows).min(columns);
        if own_rank < rank {
            self.ranks.insert(module.clone(), json!(own_rank));
        }
        // PEFT's embeddings have the tokens in the columns of A.
        let (is_embedding, module) =
            (name.ends_with(EMBEDDING), format!("base_model.model.{module}"));
        let pair = Arc::new(Pair::new(name, own, after, own_rank, is_embedding));
        let (inputs, outputs) = if is_embedding { (rows, columns) } else { (columns, rows) };
        for side in [Side::A, Side::B] {
            let shape = match side {
                Side::A => [own_rank, inputs],
                Side::B => [outputs, own_rank],
            };
            let full = match is_embedding {
                true => format!("{module}.lora_embedding_{side:?}"),
                false => format!("{module}.lora_{side:?}.weight"),
            };
            let values = Values { pair: Arc::clone(&pair), side, len: shape[0] * shape[1] * 4 };
            let source = Source::custom(&full, values);
            let tensor = Tensor::new(&full, DType::F32, &shape, source)?;
            builder.add(full, &tensor)?;
        }
        self.pairs.push(pair);
        Ok(())
    }

    /// Adds a tensor that the adapter has instead of the base's.
    fn add_whole(&mut self, builder: &mut Builder, name: &str, tensor: &Tensor) -> Result<()> {
        for (_, parts) in &mut self.wholes {
            parts.retain(|part| part != tensor.name());
        }
        builder.add(format!("base_model.model.{name}"), tensor)
    }

    /// Adds the further tensors of modules that are saved as a whole.
    fn add_unchanged(&mut self, builder: &mut Builder, all: &[Tensor]) -> Result<()> {
        let parts: Vec<String> = self.wholes.iter().flat_map(|(_, parts)| parts).cloned().collect();
        for tensor in all.iter().filter(|tensor| parts.iter().any(|part| part == tensor.name())) {
            self.add_whole(builder, tensor.name(), tensor)?;
        }
        Ok(())
    }

    /// PEFT's config. With alpha equal to the rank, the products are not scaled.
    fn config(&self, rank: u64, base: &str) -> Json {
        let alphas = self.ranks.clone();
        let wholes: Vec<&str> = self.wholes.iter().map(|(module, _)| module.as_str()).collect();
        let bias = if self.has_biases { "all" } else { "none" };
        json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
            "r": rank, "lora_alpha": rank, "lora_dropout": 0.0, "bias": bias, "use_rslora": false,
            "use_dora": false, "fan_in_fan_out": false, "inference_mode": true,
            "target_modules": self.targets, "modules_to_save": wholes,
            "rank_pattern": Json::Object(self.ranks.clone()), "alpha_pattern": Json::Object(alphas),
        })
    }
}

/// One of the two matrices of a pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    A,
    B,
}

/// A matrix that differs, and the two matrices of the difference, once they are computed.
#[derive(Debug)]
struct Pair {
    name: String,
    own: Tensor,
    after: Tensor,
    rank: u64,
    is_embedding: bool,
    made: Mutex<Option<Factors>>,
    kept: Mutex<Option<f64>>,
    read: Mutex<u64>,
}

impl Pair {
    fn new(name: String, own: Tensor, after: Tensor, rank: u64, is_embedding: bool) -> Self {
        let (made, kept, read) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { name, own, after, rank, is_embedding, made, kept, read }
    }

    /// The two matrices nearest to the difference.
    fn factors(&self) -> Result<Factors> {
        let mut difference = self.after.to_vec::<f32>()?;
        let own = self.own.to_vec::<f32>()?;
        difference.iter_mut().zip(&own).for_each(|(value, own)| *value -= own);
        drop(own);
        let columns = self.after.shape().last().copied().unwrap_or(1);
        let size = |number: u64| usize::try_from(number).map_err(|_| Error::mismatch("too large"));
        let found = nearest(&difference, size(columns)?, size(self.rank)?);
        // An embedding is stored transposed: its rows are tokens, which are the inputs.
        let found = if self.is_embedding { found.transposed() } else { found };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.kept);
        Ok(found)
    }
}

/// The bytes of one matrix of a pair.
#[derive(Debug)]
struct Values {
    pair: Arc<Pair>,
    side: Side,
    len: u64,
}

impl ReadAt for Values {
    fn size(&self) -> u64 {
        self.len
    }

    fn origin(&self, _offset: u64) -> Origin {
        Origin::Generated
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let mut made = self.pair.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.is_none() {
            let found = self.pair.factors().map_err(|error| error.in_tensor(&self.pair.name));
            *made = Some(found.map_err(std::io::Error::other)?);
        }
        let factors = made.as_ref().ok_or_else(outside)?;
        let values = if self.side == Side::A { &factors.a } else { &factors.b };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        out.copy_from_slice(bytes.get(start..end).ok_or_else(outside)?);
        let mut read = self.pair.read.lock().unwrap_or_else(PoisonError::into_inner);
        *read = read.saturating_add(out.len() as u64);
        let all = (factors.a.len() + factors.b.len()) as u64 * 4;
        if *read >= all {
            (*made, *read) = (None, 0);
        }
        Ok(())
    }
}
