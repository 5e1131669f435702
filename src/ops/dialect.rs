//! Translates a model's tensors to the names, shapes and row order of a dialect.

use std::collections::{BTreeSet, HashMap};

use super::repeated;
use crate::arch::factor;
use crate::arch::{
    Architecture, Axes, Dialect, DialectTensor, KeyedTensor, Mapping, ModelConfig, NEXT_TOKENS,
    Resolution, Transform, architecture_name, canonical_names, dialect_tensors, family,
    source_model,
};
use crate::container::safetensors::stored_unquantized;
use crate::dtype::DType;
use crate::engines::mlx_vlm;
use crate::error::{AdvisedOption, Error, Result};
use crate::json::Json;
use crate::model::Model;
use crate::model::{Convention, EMBEDDING, OUTPUT, Sharding, Tensor};
use crate::rounding::f32_of;
use crate::store::{Encoding, Store};

/// A model's tensors in a dialect.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TranslatedTensors {
    /// The tensors under the dialect's names, in the order of the files that are read.
    pub tensors: Vec<Tensor>,
    /// Stored names of the tensors that are left out, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Names of experts that are in MXFP4. Transformers transposes such tensors unless they are in
    /// MXFP4.
    pub(super) in_mxfp4: Vec<String>,
    /// Whether other experts are plain, as transformers then requires of all.
    pub(super) has_plain_experts: bool,
    /// Names of tensors that are those of another layer (see [`repeated`]).
    pub(super) repeated: Vec<String>,
}

impl Model {
    /// The tensors in a dialect: its names, shapes and row order. These are the tensors that
    /// [`convert`](crate::ops::convert) writes, before it chooses dtypes. In the Hugging Face dialect,
    /// experts of gpt-oss in MXFP4 are not transposed, while plain ones are.
    ///
    /// ```
    /// use weighbridge::{Model, arch::Dialect};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let tensors = model.tensors_in(Dialect::HuggingFace)?.tensors;
    /// let norm = tensors.iter().find(|tensor| tensor.name() == "model.norm.weight");
    /// assert_eq!(norm.unwrap().to_vec::<f32>()?.len(), 256);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` if the architecture or a tensor is unknown, or if a tensor cannot be brought into
    /// the dialect's layout; `Malformed` if tensors contradict the config.
    pub fn tensors_in(&self, dialect: Dialect) -> Result<TranslatedTensors> {
        tensors_of_rank(self, dialect, &Sharding::new())
    }

    /// The canonical name of the tensor that has this name in the Hugging Face dialect, mlx-lm's or
    /// GGUF's, whichever of them the model is stored in. `None` if there is none, or if it is part of
    /// several canonical tensors.
    ///
    /// ```
    /// use weighbridge::Model;
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let name = model.canonical_name("model.embed_tokens.weight");
    /// assert_eq!(name.as_deref(), Some("token_embedding.weight"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn canonical_name(&self, name: &str) -> Option<String> {
        let named = |dialect| {
            let tensors = self.tensors_in(dialect).ok()?.tensors;
            tensors.into_iter().find(|tensor| tensor.name() == name)
        };
        let dialects = [Dialect::HuggingFace, Dialect::Mlx, Dialect::Gguf];
        let tensor = dialects.into_iter().find_map(named)?;
        let stored: Vec<_> =
            tensor.stored_names().map(|name| name.spelling().into_owned()).collect();
        let holds = |mapping: &&Mapping| mapping.stored.iter().any(|name| stored.contains(name));
        let mut holders = self.resolution().ok()?.mapped.iter().filter(holds);
        let only = holders.next().filter(|_| holders.next().is_none());
        only.map(|mapping| mapping.canonical.clone())
    }
}

/// A rank's parts of a model's tensors in a dialect. They are the tensors of a smaller model of the same
/// architecture, with the rank's number of heads and its inner width; experts keep their numbers.
///
/// ```
/// use weighbridge::arch::Dialect;
/// use weighbridge::model::Sharding;
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let rank = Sharding::new().tensor(1, 2);
/// let tensors = ops::tensors_of_rank(&model, Dialect::HuggingFace, &rank)?.tensors;
/// let q = tensors.iter().find(|t| t.name() == "model.layers.0.self_attn.q_proj.weight");
/// assert_eq!(q.map(|q| q.shape()), Some(&[128, 256][..]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`Model::tensors_in`] and [`Model::tensor_of_rank`].
pub fn tensors_of_rank(
    model: &Model,
    dialect: Dialect,
    sharding: &Sharding,
) -> Result<TranslatedTensors> {
    tensors_of(model, dialect, sharding, false)
}

/// The same; `decodes` says that all values are decoded, so that packed experts are joined too.
pub(super) fn tensors_of(
    model: &Model,
    dialect: Dialect,
    sharding: &Sharding,
    decodes: bool,
) -> Result<TranslatedTensors> {
    let renames =
        joins_experts(model, dialect, decodes)? || unpacks_experts(model, dialect, decodes)?;
    let found = translated(model, dialect, sharding, renames).and_then(|mut found| {
        found.repeated = repeated::add(model, dialect, &mut found.tensors)?;
        multiply(model, dialect, &mut found.tensors)?;
        Ok(found)
    });
    // A number of ranks that does not divide a tensor is no fault of the model.
    found.map_err(|error| if sharding.is_whole() { error.of_model() } else { error })
}

/// Whether a GGUF file states no architecture. candle's tensor-tools write the names of the checkpoint so.
pub(super) fn keeps_names(model: &Model) -> bool {
    model.encoding() == Encoding::Gguf && model.metadata().get("general.architecture").is_none()
}

fn translated(
    model: &Model,
    dialect: Dialect,
    sharding: &Sharding,
    changes_experts: bool,
) -> Result<TranslatedTensors> {
    let (store, resolution) = (model.store(), model.resolution()?);
    let is_whole = sharding.is_whole();
    // Hugging Face's files and mlx-lm's have the same names, except where a family says otherwise.
    let same = |dialect| match (resolution.architecture, dialect) {
        (None, Dialect::Mlx) => Dialect::HuggingFace,
        (_, dialect) => dialect,
    };
    // llama.cpp no longer reads experts that are stored one by one.
    let are_apart = dialect == Dialect::Gguf && resolution.mapped.iter().any(|of| of.stacked);
    // mlx-lm knows no further prefixes.
    let is_within =
        dialect == Dialect::Mlx && resolution.is_within && resolution.unknown.is_empty();
    let is_other = are_apart || is_within || changes_experts;
    if same(resolution.dialect) == same(dialect) && is_whole && !is_other {
        let left = resolution.auxiliary.iter().filter(|tensor| tensor.is_left_out());
        let left_out: Vec<(String, String)> =
            left.map(|tensor| (tensor.stored.clone(), tensor.reason.to_owned())).collect();
        // The stored name of an embedding that is stored as the output matrix alone is not the class's.
        let is_renamed = |view: &Tensor| resolution.is_stored_under_alias(view.name());
        let is_left = |view: &Tensor| {
            left_out.iter().any(|(name, _)| name == view.name()) || is_renamed(view)
        };
        let in_class: HashMap<&str, &str> =
            resolution.renamed.iter().map(|(stored, name)| (&**stored, &**name)).collect();
        let named = |view: Tensor| match in_class.get(view.name()) {
            Some(name) => view.named(name),
            None => {
                let bare = resolution.bare(view.name()).into_owned();
                view.named(&bare)
            }
        };
        let stored = model.stored_tensors().filter(|view| !is_left(view)).map(named);
        let mut tensors: Vec<Tensor> = stored.collect();
        for (alias, stored) in &resolution.aliases {
            tensors.push(model.stored_tensor(stored)?.named(&resolution.bare(alias)));
        }
        return Ok(TranslatedTensors { tensors, left_out, ..TranslatedTensors::default() });
    }
    let Some(architecture) = resolution.architecture else {
        return Err(no_architecture(model, resolution, dialect));
    };
    if let Some(unknown) = resolution.unknown.first() {
        let error = unknown_fault(store, resolution, architecture, dialect);
        return Err(error.in_tensor(unknown).in_file(store.path()));
    }
    let translation = Translation {
        model,
        resolution,
        architecture,
        dialect,
        sharding,
        changes_experts,
        has_tower: is_whole_image_model(model, resolution, dialect),
        class: in_mlx_vlm(store),
        config: model.config().ok().map(|config| config.of_rank(sharding.tensor.count)),
    };
    let mut named = TranslatedTensors::default();
    translation.add_auxiliary(&mut named)?;
    let spelled = translation.names(&mut named)?;
    named.tensors.extend(from_keys(model, architecture)?);
    for tensor in &spelled {
        translation.add(tensor, &mut named)?;
    }
    Ok(named)
}

/// The error for a model whose names are of no known architecture.
fn no_architecture(model: &Model, resolution: &Resolution, dialect: Dialect) -> Error {
    let (name, reason) = (dialect.name(), &resolution.reason);
    let fault = format!("cannot translate the tensor names to {name}: {reason}");
    let error = Error::unsupported(fault).in_file(model.store().path());
    match keeps_names(model) && dialect == Dialect::HuggingFace {
        true => error
            .advise("give the path of a single file (.safetensors): its tensors keep their names"),
        false => error,
    }
}

/// Multiplies tensors by factors of the config, for programs that have none. An output matrix that is the embedding is
/// written if its factor is another one.
fn multiply(model: &Model, dialect: Dialect, tensors: &mut Vec<Tensor>) -> Result<()> {
    let resolution = model.resolution()?;
    let multiplied = |dialect| matches!(dialect, Dialect::Gguf | Dialect::Mlx);
    let is_source = multiplied(resolution.dialect);
    let Some(architecture) = resolution.architecture.filter(|row| !row.factors.is_empty()) else {
        return Ok(());
    };
    if resolution.dialect == dialect || !(is_source || multiplied(dialect)) {
        return Ok(());
    }
    let factors = factor::factors(model.store(), resolution)?;
    if factors.is_empty() {
        return Ok(());
    }
    if is_source {
        let fault = "config.json states factors by which mlx-lm has multiplied weights, but not all that transformers \
                     multiplies";
        return Err(Error::unsupported(fault).advise("convert the model that it was made of"));
    }
    let names = canonical_names(architecture, dialect, tensors.iter().map(Tensor::name));
    let parts_of = |canonical: &str| {
        let found = factors.iter().find(|factors| factors.are_of(canonical));
        found.map(|factors| factors.parts.as_slice())
    };
    let stored = |canonical: &str| {
        let name = names.iter().find(|(name, _)| name == canonical);
        name.and_then(|(_, stored)| tensors.iter().find(|tensor| tensor.name() == stored))
    };
    let rule = architecture.rules.iter().copied().flatten().find(|rule| rule.canonical == OUTPUT);
    let output =
        rule.map(|rule| if dialect == Dialect::Gguf { rule.gguf.name } else { rule.hf.name });
    let mut tied = None;
    if let (Some(embedding), None, Some(output)) = (stored(EMBEDDING), stored(OUTPUT), output)
        && parts_of(EMBEDDING) != parts_of(OUTPUT)
    {
        let output = embedding.clone().named(output);
        tied = Some(match parts_of(OUTPUT) {
            Some(parts) => output.times(parts)?,
            None => output,
        });
    }
    for tensor in tensors.iter_mut() {
        let canonical = names.iter().find(|(_, stored)| stored == tensor.name());
        if let Some(parts) = canonical.and_then(|(canonical, _)| parts_of(canonical)) {
            *tensor = tensor.clone().times(parts)?;
        }
    }
    tensors.extend(tied);
    Ok(())
}

/// The first of the tensors of single experts that transformers' class does not load, since it has those of a layer in
/// one tensor, and the number of them.
pub(super) fn split_experts<'m>(
    store: &Store,
    resolution: &'m Resolution,
) -> Result<Option<(&'m str, usize)>> {
    let Some(architecture) = resolution.architecture else { return Ok(None) };
    let is_joined = resolution.dialect == Dialect::HuggingFace
        && architecture.joined_experts.contains(&&*model_type(store, resolution)?);
    let split = resolution.mapped.iter().filter(|mapping| is_joined && mapping.stacked);
    let mut names = split.flat_map(|mapping| &mapping.stored);
    let first = names.next();
    Ok(first.map(|name| (name.as_str(), names.count().saturating_add(1))))
}

/// Whether the experts are joined as transformers' class has them. Packed experts that are not decoded stay as they are,
/// for other readers.
pub(super) fn joins_experts(model: &Model, dialect: Dialect, decodes: bool) -> Result<bool> {
    let resolution = model.resolution()?;
    let is_split = dialect == Dialect::HuggingFace
        && resolution.unknown.is_empty()
        && split_experts(model.store(), resolution)?.is_some();
    let split = resolution.mapped.iter().filter(|mapping| is_split && mapping.stacked);
    let mut names = split.flat_map(|mapping| &mapping.stored);
    let is_plain = |name: &String| {
        let dtype = model.stored_tensor(name).and_then(|tensor| tensor.dtype());
        dtype.is_ok_and(|dtype| !dtype.is_quantized())
    };
    Ok(is_split && (decodes || names.all(is_plain)))
}

/// Whether experts that are stored in MXFP4 are decoded. As plain tensors, transformers has them transposed.
fn unpacks_experts(model: &Model, dialect: Dialect, decodes: bool) -> Result<bool> {
    let mut mapped = model.resolution()?.mapped.iter();
    let is_packed = |name: &String| {
        model.stored_tensor(name).and_then(|it| it.dtype()).is_ok_and(|it| it == DType::HF_MXFP4)
    };
    let unpacks = decodes && dialect == Dialect::HuggingFace;
    Ok(unpacks
        && mapped.any(|mapping| {
            mapping.transform.axes == Axes::TransposedIfPlain
                && mapping.stored.iter().any(is_packed)
        }))
}

/// Whether tensors of a vision or audio model keep their names: those that ComfyUI has in a GGUF file have the names of
/// the checkpoint.
pub(super) fn keeps_towers(model: &Model, dialect: Dialect) -> bool {
    dialect == Dialect::HuggingFace && model.encoding() == Encoding::Gguf
}

/// A translation of a model's tensors to another dialect.
struct Translation<'t> {
    model: &'t Model,
    /// Whether experts are written in another form than the stored one.
    changes_experts: bool,
    resolution: &'t Resolution,
    architecture: &'static Architecture,
    dialect: Dialect,
    sharding: &'t Sharding,
    /// Whether the tensors of the vision tower are translated too.
    has_tower: bool,
    /// The class of mlx-vlm, where it has other names.
    class: Option<&'static mlx_vlm::Class>,
    config: Option<ModelConfig>,
}

impl Translation<'_> {
    /// Adds the tensors of a vision tower; lists the other auxiliary tensors as left out.
    fn add_auxiliary(&self, named: &mut TranslatedTensors) -> Result<()> {
        for auxiliary in &self.resolution.auxiliary {
            if keeps_towers(self.model, self.dialect) && auxiliary.is_of_a_tower() {
                named.tensors.push(self.model.stored_tensor(&auxiliary.stored)?);
                continue;
            }
            if !(self.has_tower && auxiliary.is_of_a_tower()) {
                named.left_out.push((auxiliary.stored.clone(), auxiliary.reason.to_owned()));
                continue;
            }
            let bare = self.resolution.bare(&auxiliary.stored);
            let name = bare.as_ref();
            let is_kept = self.architecture.mlx_keeps_tower_names
                || self.class.is_some_and(|class| class.keeps_names);
            let short = name.strip_prefix("model.").filter(|_| !is_kept);
            let in_mlx = self.dialect == Dialect::Mlx;
            let name = short.filter(|_| in_mlx).unwrap_or(name);
            let of_class = self.class.and_then(|class| class.of_vision_model(name, in_mlx));
            let name = of_class.as_deref().unwrap_or(name);
            named.tensors.push(self.model.stored_tensor(&auxiliary.stored)?.named(name));
        }
        Ok(())
    }

    /// The dialect's tensors and what they are stored from; lists canonical tensors without a name as left
    /// out.
    fn names(&self, named: &mut TranslatedTensors) -> Result<Vec<DialectTensor>> {
        let Self { model, resolution, architecture, dialect, .. } = *self;
        let (next, canonical): (Vec<&str>, Vec<&str>) = {
            let left = layers_left_out(resolution, architecture, dialect);
            let layer = |name: &str| name.strip_prefix("layers.")?.split('.').next()?.parse().ok();
            let names = model.names_of_rank(self.sharding)?;
            let is_left = |name: &&str| layer(name).is_some_and(|layer| left.contains(&layer));
            names.into_iter().partition(is_left)
        };
        let next = next.into_iter().map(|name| (name.to_owned(), NEXT_TOKENS.to_owned()));
        named.left_out.extend(next);
        let mapping = |name: &str| model.mapping(name).ok().flatten();
        let stored = |name: &str| mapping(name).map(|of| (&of.stored, of.transform));
        let one = |a: &str, b: &str| stored(a).is_some_and(|a| stored(b) == Some(a));
        let of_files = model_type(model.store(), resolution)?;
        let (mut spelled, without) =
            dialect_tensors(architecture, &of_files, dialect, &canonical, one);
        if let Some(next) = resolution.next_layers().first()
            && dialect == Dialect::HuggingFace
        {
            for tensor in &mut spelled {
                let own = architecture.unnumbered(&tensor.name, *next);
                tensor.name = own.unwrap_or_else(|| std::mem::take(&mut tensor.name));
            }
        }
        let nameless = format!("{} has no name for it", dialect.name());
        named.left_out.extend(without.into_iter().map(|name| {
            let reason =
                self.keyed(&name).map(|tensor| format!("stated by the key {}", tensor.key));
            (name, reason.unwrap_or_else(|| nameless.clone()))
        }));
        Ok(spelled)
    }

    fn keyed(&self, name: &str) -> Option<&'static KeyedTensor> {
        self.architecture.keyed.iter().find(|tensor| tensor.is(name))
    }

    /// Adds a tensor, or each expert of it.
    fn add(
        &self,
        DialectTensor { name, parts }: &DialectTensor,
        named: &mut TranslatedTensors,
    ) -> Result<()> {
        let name = &match self.has_tower {
            true => within(name, self.architecture, self.dialect, self.class),
            false => name.clone(),
        };
        // Experts that are stored as one tensor are separated.
        let apart = name.contains("{e}");
        let is_whole = self.sharding.is_whole();
        let is_turned =
            |(_, transform): &(String, Transform)| transform.axes == Axes::TransposedIfPlain;
        let turns = parts.iter().any(is_turned);
        let unchanged = match apart || !is_whole || (turns && self.changes_experts) {
            true => None,
            false => unchanged(self.model, parts)?,
        };
        if let Some(mut tensor) = unchanged {
            // In GGUF, a tensor may have more outer axes of length 1 than its class has.
            let most =
                parts.iter().filter_map(|(part, _)| self.architecture.canonical_tensor(part));
            let most =
                most.map(|of| of.most_axes()).max().filter(|_| self.dialect != Dialect::Gguf);
            while most.is_some_and(|most| tensor.shape().len() > most)
                && tensor.shape().first() == Some(&1)
            {
                tensor = tensor.squeeze(0)?;
            }
            // llama-quantize leaves out axes of length 1.
            let is_row = |part: &str| ROWS.iter().any(|end| part.ends_with(end));
            let row = self.dialect != Dialect::Gguf && parts.iter().any(|(part, _)| is_row(part));
            let tensor = if row { tensor.into_row() } else { tensor };
            // mlx-lm drops axes of length 1.
            let tensor = match parts.first().and_then(|(part, _)| self.keyed(part)) {
                Some(keyed) if tensor.shape().is_empty() => tensor.with_shape(keyed.shape),
                _ => tensor,
            };
            named.tensors.push(tensor.named(name));
            return Ok(());
        }
        // Transforms start from the Hugging Face convention, whichever convention the model serves.
        let canonical =
            |part: &String| self.model.tensor_of_rank(part, self.sharding, Convention::HuggingFace);
        let tensors = parts.iter().map(|(part, transform)| Ok((canonical(part)?, *transform)));
        let mut tensors = tensors.collect::<Result<Vec<(Tensor, Transform)>>>()?;
        if tensors.iter().all(stays_packed) {
            tensors.iter_mut().for_each(|(_, transform)| transform.axes = Axes::Same);
            named.in_mxfp4.push(name.clone());
        } else {
            named.has_plain_experts |= turns;
        }
        if apart {
            return self.add_experts(name, &tensors, named);
        }
        named.tensors.push(Tensor::stored_as(name, tensors, self.config.as_ref())?);
        Ok(())
    }

    /// Adds each expert of tensors that have all of them.
    fn add_experts(
        &self,
        name: &str,
        tensors: &[(Tensor, Transform)],
        named: &mut TranslatedTensors,
    ) -> Result<()> {
        let experts = tensors.first().and_then(|(tensor, _)| tensor.shape().first());
        let experts = experts.copied().unwrap_or(0);
        if experts == 0 {
            named.left_out.push((name.to_owned(), "the tensor has no experts".to_owned()));
        }
        // Every expert has at least one row. A shape alone could claim any number of experts.
        let rows = tensors.iter().map(|(tensor, _)| tensor.elements()).max().unwrap_or(0);
        if experts > rows.max(1) {
            let fault =
                format!("the shape claims {experts} experts, but the tensor has fewer values");
            return Err(Error::mismatch(fault).in_tensor(name).in_file(self.model.store().path()));
        }
        for expert in 0..experts {
            let number = self.sharding.expert.index.saturating_mul(experts).saturating_add(expert);
            let name = name.replace("{e}", &number.to_string());
            let parts = tensors.iter().map(|(all, transform)| Ok((all.array(expert)?, *transform)));
            let parts = parts.collect::<Result<_>>()?;
            named.tensors.push(Tensor::stored_as(&name, parts, self.config.as_ref())?);
        }
        Ok(())
    }
}

/// The frameworks that `format` in the metadata of a safetensors file may name, whose tensors have other names and layouts
/// than PyTorch's, and the argument with which transformers reads them.
const FRAMEWORKS: [(&str, &str, &str); 2] =
    [("flax", "Flax", "from_flax"), ("tf", "TensorFlow", "from_tf")];

/// The fault of a model whose file says that another framework wrote it, with tensors that the family does not have; and
/// what to do.
pub(super) fn of_another_framework(
    store: &Store,
    resolution: &Resolution,
) -> Option<(String, String)> {
    let format = store.metadata().str("format").filter(|_| !resolution.unknown.is_empty())?;
    let (_, framework, argument) = FRAMEWORKS.iter().find(|(name, ..)| *name == format)?;
    Some((
        format!(
            "a name of {framework}, which wrote the file (format is \"{format}\"): its names and layouts are not PyTorch's"
        ),
        format!(
            "save the model from transformers before version 5: from_pretrained(FOLDER, {argument}=True), then save_pretrained"
        ),
    ))
}

/// The fault of a model most of whose tensors its family does not have. Arrays of a scheme that is not decoded are no
/// tensors of another family.
pub(super) fn of_another_kind(resolution: &Resolution, class: Option<&str>) -> Option<String> {
    let family = resolution.architecture?.name;
    let undecoded = resolution.undecoded.len();
    let unknown = resolution.unknown.len().saturating_sub(undecoded);
    let mapped = resolution.mapped.len().saturating_add(undecoded);
    let (reason, others) = (&resolution.reason, unknown.saturating_sub(1));
    let class = class.map_or_else(String::new, |class| format!(" (class {class})"));
    (unknown > mapped).then(|| {
        format!(
            "not a known tensor of {family}, and neither are {others} more of {}, although {reason}{class}: the \
             model is of another kind",
            unknown.saturating_add(mapped)
        )
    })
}

/// The fault of a model with tensors that its family does not have. Where most are unknown, the model is not
/// of this family, and nothing can be left out.
fn unknown_fault(
    store: &Store,
    resolution: &Resolution,
    architecture: &Architecture,
    dialect: Dialect,
) -> Error {
    let family = architecture.name;
    let unknown = resolution.unknown.len();
    if resolution.unknown.iter().any(|name| name.contains(".lora_A.")) {
        let fault = "a matrix of a LoRA adapter inside of the model, which is not merged";
        return Error::unsupported(fault)
            .advise("merge it into the weights first, as merge_and_unload of PEFT does");
    }
    let class = store
        .document("config.json")
        .and_then(|json| json.get("architectures")?.as_array()?.first());
    let class = class.and_then(Json::as_str);
    if let Some((fault, advice)) = of_another_framework(store, resolution) {
        return Error::unsupported(fault).advise(advice);
    }
    if let Some(fault) = of_another_kind(resolution, class) {
        return Error::unsupported(fault).advise("a file of families may describe such a model");
    }
    let others = match unknown {
        0 | 1 => String::new(),
        several => format!(", and {} more", several.saturating_sub(1)),
    };
    let class = class.filter(|class| class.ends_with("Classification"));
    let class = class.map_or_else(String::new, |class| {
        format!(", but of {class}, whose head {} has no place for", dialect.name())
    });
    let it = if unknown > 1 { "them" } else { "it" };
    let globs: Vec<String> =
        resolution.unknown_globs().iter().map(|glob| format!("{{}} '{glob}'")).collect();
    let advice = format!("if the model works without {it}, leave {it} out: {}", globs.join(" "));
    let unquantized = stored_unquantized(store);
    let why = unquantized.map_or_else(String::new, |found| format!(": {}", found.fault()));
    Error::unsupported(format!("not a known tensor of {family}{class}{others}{why}"))
        .advise_option(advice, AdvisedOption::LeaveOut)
}

/// The layers that predict further tokens, unless the dialect has names for all that they consist
/// of, and for as many. Programs that read MLX directories have no place for them.
fn layers_left_out(
    resolution: &Resolution,
    architecture: &Architecture,
    dialect: Dialect,
) -> BTreeSet<u32> {
    let mut rules = architecture.rules.iter().copied().flatten();
    let in_hf = rules.any(|rule| {
        rule.canonical == "layers.{n}.nextn.projection.weight" && !rule.hf.name.is_empty()
    });
    let layers = resolution.next_layers();
    let is_one = || architecture.next_layer.is_empty() || layers.len() == 1;
    match dialect {
        Dialect::HuggingFace if in_hf && is_one() => BTreeSet::new(),
        Dialect::HuggingFace | Dialect::Mlx => layers,
        Dialect::Gguf | Dialect::Publisher => BTreeSet::new(),
    }
}

/// The `model_type` that the model has or would get in `config.json`; empty if it has none.
fn model_type(store: &Store, resolution: &Resolution) -> Result<String> {
    if store.encoding() == Encoding::Gguf
        && let Ok(model) = source_model(store, resolution)
        && let Some(class) = family::class_of(&model)
    {
        return Ok(class.model_type.to_owned());
    }
    Ok(architecture_name(store)?.map_or_else(String::new, |named| named.value))
}

/// mlx-vlm's class of a directory, if it loads the model.
fn in_mlx_vlm(store: &Store) -> Option<&'static mlx_vlm::Class> {
    let config = store.document("config.json")?.as_object()?;
    mlx_vlm::class_of(config).filter(|class| class.fault(config).is_none())
}

/// Whether the directory is written as that of a model with images, whose language model is a part:
/// for mlx-lm if `config.json` is that of such a model, and for transformers if the vision or audio
/// model is there too.
fn is_whole_image_model(model: &Model, resolution: &Resolution, dialect: Dialect) -> bool {
    let config = model.store().document("config.json");
    let nested = config.is_some_and(|config| config.get("text_config").is_some());
    let has_towers = resolution.has_towers();
    // Of these, `config.json` has the keys of the language model at its top.
    let flat = has_towers && in_mlx_vlm(model.store()).is_some_and(|class| class.is_flat);
    match dialect {
        Dialect::Mlx => nested || flat,
        Dialect::HuggingFace => nested && has_towers || flat,
        Dialect::Gguf | Dialect::Publisher => false,
    }
}

/// The name of a language model's tensor in a model with images.
fn within(
    name: &str,
    architecture: &Architecture,
    dialect: Dialect,
    class: Option<&mlx_vlm::Class>,
) -> String {
    let in_mlx = dialect == Dialect::Mlx;
    let renames = class.is_some_and(|class| class.renames_text);
    let (model, outer) = match in_mlx || architecture.outer_head {
        true if in_mlx && renames => ("language_model.", "language_model."),
        true => ("language_model.model.", "language_model."),
        false if renames => ("model.text_model.", ""),
        false => ("model.language_model.", ""),
    };
    // The published files of some have the names of a language model, and some classes have no others.
    let stays = |class: &mlx_vlm::Class| if in_mlx { class.keeps_names } else { class.is_flat };
    if class.is_some_and(stays) || name.starts_with("language_model.") {
        return name.to_owned();
    }
    match name.strip_prefix("model.") {
        Some(rest) if rest.starts_with("language_model.") => name.to_owned(),
        Some(rest) => format!("{model}{rest}"),
        None => format!("{outer}{name}"),
    }
}

/// The tensors that a GGUF file states as keys, for another dialect.
fn from_keys(model: &Model, architecture: &Architecture) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for KeyedTensor { canonical, key, shape } in architecture.keyed {
        let Some(list) = model.metadata().array(key) else { continue };
        let misfit = || Error::malformed("a list of numbers is needed").in_key(key);
        let rules = architecture.rules.iter().copied().flatten();
        let rule =
            rules.clone().find(|rule| rule.canonical == *canonical && !rule.hf.name.is_empty());
        let Some(rule) = rule else { continue };
        for (layer, value) in list.values().enumerate() {
            let value = value.to_f64().ok_or_else(misfit)?;
            let bytes = f32_of(value).to_le_bytes().to_vec();
            let name = rule.hf.name.replace("{n}", &layer.to_string());
            tensors.push(Tensor::new(&name, DType::F32, shape, bytes)?);
        }
    }
    Ok(tensors)
}

/// Canonical tensors that are matrices of one row: always, or for one label.
const ROWS: [&str; 2] = ["ffn.shared_expert.router.weight", "classifier.output.weight"];

/// Whether a tensor is written with its stored codes, and therefore in their order.
fn stays_packed((view, transform): &(Tensor, Transform)) -> bool {
    let target = DType::HF_MXFP4;
    let mxfp4 = |dtype: DType| dtype == target || dtype.repack_to(target).is_some();
    transform.axes == Axes::TransposedIfPlain && view.dtype().is_ok_and(mxfp4) && !view.is_adapted()
}

/// The stored tensor that holds these canonical tensors with these same transforms, if there is
/// one. It can then be copied unchanged.
fn unchanged(model: &Model, parts: &[(String, Transform)]) -> Result<Option<Tensor>> {
    let mut stored: Option<&String> = None;
    for (part, transform) in parts {
        let Some(Mapping { stored: names, stacked: false, transform: own, .. }) =
            model.mapping(part)?
        else {
            return Ok(None);
        };
        let [name] = names.as_slice() else { return Ok(None) };
        if own != transform || stored.is_some_and(|stored| stored != name) {
            return Ok(None);
        }
        stored = Some(name);
    }
    stored.map(|name| model.stored_tensor(name)).transpose()
}
