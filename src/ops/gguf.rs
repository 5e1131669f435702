//! Translates a model of any container to GGUF's keys and tensors.

use super::dialect::TranslatedTensors;
use super::losses::{computed_differently, losses, unread};
use super::modules::{self, GgufModules};
use super::rankers::{self, GgufRanker};
use super::{account, file_type, mmproj, repeated, verify};
use crate::arch::config::class_name;
use crate::arch::kept::{GENERATION, PREFIX};
use crate::arch::{Architecture, Dialect, family};
use crate::bytes::Text;
use crate::container::gguf;
use crate::dtype::DType;
use crate::engines;
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value};
use crate::model::{Model, Tensor};
use crate::recipe::{FileType, llama_cpp};
use crate::store::{Encoding, Part};
use crate::translate::{self, pruned::PrunedLayers};
use crate::write::{
    Builder, Method, OutTensor, Output, PlannedModel, Precision, Producer, choose, encoded,
    requantized,
};

/// The keys and tensors of a GGUF model that is being planned.
#[derive(Debug)]
pub(super) struct GgufDraft {
    pub(super) keys: KeyValues,
    pub(super) tensors: Vec<OutTensor>,
    /// Notes for the plan.
    pub(super) notes: Vec<String>,
    /// Tensors that are left out, each with the reason.
    left_out: Vec<(String, String)>,
    /// Stored names of tensors that GGUF has no place for: poolers, heads.
    lost: Vec<String>,
    /// Other differences in llama.cpp's computation.
    losses: Vec<String>,
}

/// The last steps of a draft.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    /// Whether this library's own keys are written.
    pub(super) extra: bool,
    /// Whether a loss is an error.
    pub(super) lossless: bool,
    /// Whether a model that llama.cpp cannot load is written.
    pub(super) unloadable: bool,
    /// The layers that are removed.
    pub(super) pruned: Option<PrunedLayers>,
}

impl GgufDraft {
    /// Translates a model to GGUF's names, row order and values.
    pub(super) fn of(model: &Model, precision: Precision) -> Result<Self> {
        model.store().check_known()?;
        let (store, resolution) = (model.store(), model.resolution()?);
        resolution.check_language_model().map_err(|error| error.in_file(store.path()))?;
        let (mut keys, remarks) = translate::gguf_metadata_and_notes(model)?;
        let TranslatedTensors { tensors: mut views, mut left_out, repeated, .. } =
            model.tensors_in(Dialect::Gguf)?;
        let own = store.encoding() == Encoding::Gguf;
        let architecture = keys.get("general.architecture").and_then(|value| value.to_text());
        let architecture = architecture.map(|name| name.spelling().into_owned());
        let graph = architecture.as_deref().and_then(family::graph).filter(|_| !own);
        if graph.is_some_and(|graph| !graph.names(OUTPUT)) {
            left_out.extend(drop_copied_output(&mut views)?);
        }
        let translated = resolution.architecture.filter(|_| !own);
        let mut tensors = Vec::new();
        for (name, values) in translate::gguf_tensors(model)? {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let shape = vec![values.len() as u64];
            let producer = Producer::Bytes { bytes: bytes.into(), dtype: DType::F32, shape };
            let output = Output::new(producer, Method::Generated);
            let reason = Some("computed from the config".to_owned());
            tensors.push(OutTensor::new(name, output.with_reason(reason)));
        }
        let before = if own { 0 } else { translate::rows_before_positions(store, resolution)? };
        for view in views {
            let rows = view.shape().first().copied().unwrap_or(0);
            let view = match view.name() {
                // llama.cpp's first row is position 0.
                "position_embd.weight" if before > 0 => view.slice_rows(before..rows)?,
                _ => view,
            };
            let output = output(&view, translated, precision)?;
            let of_class = architecture.as_deref().filter(|_| !own);
            let output = with_applied_scale(&view, output, of_class, precision)?;
            tensors.push(OutTensor::new(view.name(), output));
        }
        let GgufRanker { tensor: words, note: ranker } = match own {
            true => GgufRanker::default(),
            false => rankers::in_gguf(model, &mut keys)?,
        };
        let ranks = words.is_some();
        let GgufModules { tensors: dense, losses, note: of_vectors } =
            modules::in_gguf(model, &mut keys, ranks)?;
        for view in dense {
            tensors.push(OutTensor::new(view.name(), output(&view, translated, precision)?));
        }
        if let Some(view) = words {
            tensors.push(OutTensor::new(view.name(), output(&view, translated, precision)?));
        }
        let place = |name: &str| tensors.iter().position(|tensor: &OutTensor| tensor.name == name);
        // llama.cpp does not tie the output matrix of some architectures to the embedding.
        if let (Some(graph), None, Some(embedding)) = (graph, place(OUTPUT), place(EMBEDDING))
            && graph.requires(OUTPUT)
            && let Some(embedding) = tensors.get(embedding).cloned()
        {
            let reason = Some("a copy of the embedding, which llama.cpp requires".to_owned());
            let output = embedding.output.with_reason(reason);
            tensors.push(OutTensor::new(OUTPUT, output));
        }
        let mut notes: Vec<String> = mmproj::note(model)?.into_iter().collect();
        notes.extend(remarks.into_iter().map(|note| note.text));
        notes.extend(ranker);
        notes.extend(verify::ignored_in_class(model)?);
        notes.extend(repeated::note(&repeated, "llama.cpp"));
        notes.extend(modules::notes(model, |_| false)?);
        notes.extend(of_vectors.map(str::to_owned));
        // Tensors of other models, and those that follow from the config, have another reason.
        let lost = |(name, reason): &(String, String)| (reason == NAMELESS).then(|| name.clone());
        let lost = left_out.iter().filter_map(lost).collect();
        let mut draft = Self { keys, tensors, notes, left_out, lost, losses };
        let is_contradicted =
            draft.keys.get("general.file_type").is_some() && file_type(model).is_none();
        let is_kept = own && precision.is_as_stored() && model.merged().is_empty();
        if !is_kept || is_contradicted {
            let number = draft.file_type(precision.dtype);
            draft.keys.set("general.file_type", Value::U32(number));
        }
        Ok(draft)
    }

    /// Adds the keys that GGUF has no place for, or removes them, and notes what llama.cpp will
    /// compute differently. Starts a builder with the draft's content, as one file.
    ///
    /// # Errors
    ///
    /// `Unsupported` for what llama.cpp computes differently in a lossless conversion.
    pub(super) fn finish(mut self, model: &Model, options: Finish) -> Result<Builder> {
        let Finish { extra, lossless, pruned, .. } = options;
        if !extra {
            let own =
                |key: Text<'_>| key.to_str().filter(|k| k.starts_with(PREFIX)).map(str::to_owned);
            let own: Vec<String> = self.keys.iter().filter_map(|(key, _)| own(key)).collect();
            for key in own {
                self.keys.remove(&key);
            }
        }
        if model.encoding() == Encoding::Gguf {
            self.notes.extend(unread(model)?);
            return Ok(self.builder(model));
        }
        let gguf = self.planned(model)?;
        self.notes.extend(verify::unknown_architecture(gguf.store()));
        let whole = self.lost.is_empty();
        let kept = translate::kept(model, &gguf, whole, pruned.as_ref())?.unwrap_or_default();
        let mut losses = losses(&kept, gguf.metadata());
        // The class's pooler is no part of the pooling that the directory states, mean or of one token.
        let name = gguf.metadata().str("general.architecture").unwrap_or_default();
        let pooling = gguf.metadata().u64(&format!("{name}.pooling_type"));
        let pools = pooling.is_some_and(|number| (1..=3).contains(&number));
        if !lossless && pools {
            self.lost.retain(|name| !name.split('.').any(|part| part == "pooler"));
        }
        // Embeddings are made without the head for masked words, which a class for them does not have.
        let class = model.document("config.json").and_then(class_name);
        if !lossless && (pools || class.is_some_and(|class| class.ends_with("Model"))) {
            self.lost.retain(|name| !name.starts_with("masked_words."));
        }
        if let [first, others @ ..] = self.lost.as_slice() {
            let more = match others.len() {
                0 => String::new(),
                several => format!(" and {several} more"),
            };
            losses.push(format!("it has no place for {first}{more}"));
        }
        losses.extend(other_embedding(model)?);
        losses.append(&mut self.losses);
        if !losses.is_empty() {
            let fault = computed_differently(&losses);
            if lossless {
                return Err(Error::unsupported(fault));
            }
            self.notes.push(fault);
        }
        if extra {
            let generation = translate::kept_generation(model, &gguf, &kept)?;
            generation.write_as(GENERATION, &mut self.keys);
            kept.write(&mut self.keys);
        }
        let mut builder = self.builder(model);
        account::config_in_gguf(model, &kept, extra, builder.account());
        Ok(builder)
    }

    /// The model that the draft describes so far.
    pub(super) fn planned(&self, model: &Model) -> Result<Model> {
        let Self { keys, tensors, .. } = self;
        let writer = &gguf::write::WRITER;
        PlannedModel { writer, metadata: keys, tensors, documents: &[] }.open(model.store())
    }

    /// Starts a builder with the draft's content, as one file.
    fn builder(self, model: &Model) -> Builder {
        let mut builder = Builder::with_writer(&gguf::write::WRITER);
        builder.reads(model.store());
        *builder.metadata() = self.keys;
        self.tensors.into_iter().for_each(|tensor| builder.push(tensor));
        builder.leave_out(self.left_out);
        self.notes.into_iter().for_each(|note| builder.note(note));
        builder
    }

    /// llama.cpp's file type for these dtypes: that of the quantized dtype asked for, if any tensor has it, or of the dtype
    /// with the most weights.
    fn file_type(&self, asked: Option<DType>) -> u32 {
        let mut counts: Vec<(DType, u64)> = Vec::new();
        for OutTensor { output: Output { producer, .. }, .. } in &self.tensors {
            let (Ok(dtype), [_, _, ..]) = (producer.dtype(), producer.shape()) else {
                continue;
            };
            let weights = crate::shape::elements(producer.shape()).unwrap_or(0);
            match counts.iter_mut().find(|(other, _)| *other == dtype) {
                Some((_, sum)) => *sum = sum.saturating_add(weights),
                None => counts.push((dtype, weights)),
            }
        }
        let asked = asked.filter(|dtype| dtype.is_quantized());
        let asked = counts.iter().find(|(dtype, _)| Some(*dtype) == asked);
        let most = asked.or_else(|| counts.iter().max_by_key(|(_, weights)| *weights));
        most.map_or(0, |(dtype, _)| FileType::number_of(*dtype))
    }
}

const OUTPUT: &str = "output.weight";
const EMBEDDING: &str = "token_embd.weight";

/// Removes an output matrix that equals the embedding, which llama.cpp uses in its place. Returns the stored
/// name and the reason.
fn drop_copied_output(views: &mut Vec<Tensor>) -> Result<Option<(String, String)>> {
    let place = |name: &str| views.iter().position(|view| view.name() == name);
    let (Some(output), Some(embedding)) = (place(OUTPUT), place(EMBEDDING)) else {
        return Ok(None);
    };
    let (Some(head), Some(embedding)) = (views.get(output), views.get(embedding)) else {
        return Ok(None);
    };
    if !embedding.has_values_of(head)? {
        return Ok(None);
    }
    let stored = |view: &Tensor| {
        let name = view.stored_names().next();
        name.map_or_else(String::new, |name| name.spelling().into_owned())
    };
    let entry = (stored(head), format!("equal to {}, which serves instead", stored(embedding)));
    views.remove(output);
    Ok(Some(entry))
}
/// The reason of tensors that GGUF has no place for.
const NAMELESS: &str = "gguf has no name for it";

/// The same output, or another one where llama.cpp's graph would not multiply the matrix by its scale.
fn with_applied_scale(
    view: &Tensor,
    output: Output,
    architecture: Option<&str>,
    precision: Precision,
) -> Result<Output> {
    let Some(name) = architecture.filter(|it| !engines::llama_cpp::applies_scale(it, view.name()))
    else {
        return Ok(output);
    };
    let parts = output.producer.parts()?;
    if !parts.iter().any(|part| part.part == Part::GlobalScale) {
        return Ok(output);
    }
    let why = format!("llama.cpp's graph of {name} does not multiply it by its scale");
    requantized(view, &gguf::write::WRITER, precision, why)
}

/// Chooses how a tensor is written in GGUF. `translated` is the architecture of a model of another
/// container.
fn output(
    view: &Tensor,
    translated: Option<&Architecture>,
    precision: Precision,
) -> Result<Output> {
    let stored = view.dtype();
    let integer = matches!(&stored, Ok(dtype) if dtype.is_integer());
    let is_small = |architecture: &Architecture| {
        view.shape().len() < 2 || architecture.is_small_in_gguf(view.name())
    };
    // llama.cpp's operations require F32 for these (`prepare_tensors` of its converter).
    if !integer && translated.is_some_and(is_small) {
        if stored.is_ok_and(|dtype| dtype == DType::F32) && view.packed().is_ok() {
            return Ok(Output::new(Producer::Packed(view.clone()), Method::Copied));
        }
        return encoded(view, DType::F32, None, precision);
    }
    if precision.dtype.is_none() && stored.is_ok_and(|dtype| dtype == DType::F64) {
        let why = "llama.cpp computes nothing with F64".to_owned();
        return encoded(view, DType::F32, Some(why), precision);
    }
    let spared = precision.dtype.and_then(|asked| llama_cpp::converted(view.name(), asked));
    let Some(dtype) = spared.filter(|_| !integer) else {
        return choose(view, &gguf::write::WRITER, precision);
    };
    let output = choose(view, &gguf::write::WRITER, Precision { dtype: Some(dtype), ..precision })?;
    Ok(output.with_reason(Some(format!("llama.cpp's converter writes it in {dtype}"))))
}

/// That the decoder of a model has an embedding of its own, for which GGUF has no place.
fn other_embedding(model: &Model) -> Result<Option<String>> {
    const NAMES: [&str; 2] = ["shared.weight", "decoder.embed_tokens.weight"];
    let [shared, own] = NAMES.map(|name| model.stored_tensor(name));
    let (Ok(shared), Ok(own)) = (shared, own) else { return Ok(None) };
    let said = "the decoder has another embedding than the encoder, but GGUF has one for both";
    Ok((!shared.has_values_of(&own)?).then(|| said.to_owned()))
}
