//! Models of tensor blobs: how each tensor is written, and the documents, layers and config of the model.

use crate::adapter::Adapter;
use crate::json::{Json, Map};

use super::layers::{NewLayers, dropped_prompt, known_format, stored_layers};
use super::quantization::OllamaModel;
use super::runner;
use super::show::base_config;
use super::{QuantType, QuantTypeDescriptor};
use crate::bytes::Text;
use crate::container::OLLAMA;
use crate::container::ollama::write::{DRAFT_DOCUMENTS, DRAFT_PREFIX, json_of, tensor_config};
use crate::container::ollama::{ConfigBlob, ConfigSettings, DraftEntry};
use crate::container::writer::NewDocument;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{Model, Tensor};
use crate::store::tensor::Segment;
use crate::store::{Encoding, Part, Store};
use crate::tokenizer::chat_templates_beside;
use crate::write::{Builder, OutTensor, Output, Precision, choose, encoded, grouped, grouped_from};

/// Ollama's rules for the dtypes of a model's tensors.
#[derive(Debug)]
pub(crate) struct TensorRules {
    model: OllamaModel,
    quantization: QuantType,
    /// Whether the rules are for 8-bit floats with a scale for each block only, which are decoded.
    decodes_fp8: bool,
}

impl TensorRules {
    /// The rules of `ollama create --quantize` for a model with this `config.json`.
    pub(crate) fn quantizing(config: &Json, quantization: QuantType) -> Self {
        Self { model: OllamaModel::of(config), quantization, decodes_fp8: false }
    }

    /// The rules for a checkpoint in F8_E4M3 with blocks of 128 x 128; `None` if its `config.json`
    /// describes another one.
    pub(crate) fn decoding_fp8(config: &Json) -> Option<Self> {
        OllamaModel::has_fp8_blocks(config).then(|| Self {
            model: OllamaModel::of(config),
            quantization: QuantType::Mxfp8,
            decodes_fp8: true,
        })
    }

    /// The quantization that the model's config blob states.
    pub(crate) fn file_type(&self) -> &'static str {
        self.quantization.descriptor().name
    }

    /// The form in which a tensor is written; `None` if no rule changes it.
    pub(crate) fn output(&self, tensor: &Tensor, precision: Precision) -> Result<Option<Output>> {
        let chosen = self.model.choose(tensor.name(), tensor.shape(), self.quantization);
        let row = chosen.map(QuantType::descriptor);
        match row {
            _ if self.decodes_fp8 && !has_fp8_blocks(tensor) => Ok(None),
            row if self.decodes_fp8 => decoded_fp8(tensor, row, precision).map(Some),
            Some(row) if !has_type(tensor, row) => {
                grouped(tensor, row.dtype, row.group_size, None).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Whether a tensor is stored in a type, so that it is copied.
fn has_type(tensor: &Tensor, row: &QuantTypeDescriptor) -> bool {
    tensor.dtype().is_ok_and(|dtype| dtype == row.dtype)
        && tensor.group_size() == Some(row.group_size)
        && tensor.packed().is_ok()
}

/// Whether a tensor is in F8_E4M3 with a scale for each block of 128 x 128.
fn has_fp8_blocks(tensor: &Tensor) -> bool {
    let mut stored = tensor.stored_tensors();
    stored.all(|stored| {
        let blocks = |size: &u64| size.div_ceil(128);
        let shape = stored.shape();
        let Some((outer, [rows, columns])) = shape.split_last_chunk::<2>() else { return false };
        let scales = [outer, &[blocks(rows), blocks(columns)]].concat();
        let has = |part: Segment<'_>| part.part == Part::Scale && part.shape == scales;
        stored.dtype().is_ok_and(|dtype| dtype == DType::SCALED_F8_E4M3)
            && stored.segments().any(has)
    })
}

/// Decodes 8-bit floats to BF16, and quantizes them to mxfp8 if Ollama's rules do.
fn decoded_fp8(
    tensor: &Tensor,
    chosen: Option<&QuantTypeDescriptor>,
    precision: Precision,
) -> Result<Output> {
    let why = Some("Ollama decodes 8-bit floats with blocks of 128 x 128".to_owned());
    match chosen {
        Some(row) => {
            let output = grouped_from(tensor, DType::BF16, row.dtype, row.group_size)?;
            Ok(output.with_reason(why))
        }
        None => encoded(tensor, DType::BF16, why, precision),
    }
}

/// Tensors, each with its expert group.
type GroupedTensors = Vec<(Option<String>, Tensor)>;

/// A model of tensor blobs whose tensors are in a [`Builder`].
pub(crate) struct BlobModel<'m> {
    /// The model that is read.
    pub(crate) model: &'m Model,
    /// The documents that the store holds.
    pub(crate) documents: Vec<NewDocument>,
    /// The files next to the weights that the store does not hold.
    pub(crate) absent: Vec<(String, Vec<u8>)>,
    /// The quantization that rules chose.
    pub(crate) file_type: Option<&'static str>,
    /// The caller's requirements on the dtypes of a draft model.
    pub(crate) precision: Precision,
    /// Translates the tensors of a draft model to the names of the store.
    pub(crate) draft_tensors: &'m dyn Fn(&Model) -> Result<GroupedTensors>,
}

impl BlobModel<'_> {
    /// Makes a `config.json` agree with the class of Ollama's runner. `None` if nothing changes.
    pub(crate) fn agreed(
        config: &Map<String, Json>,
        builder: &mut Builder,
    ) -> Option<Map<String, Json>> {
        let mut keys = config.clone();
        runner::agree(&mut keys).into_iter().for_each(|note| builder.note(note));
        (keys != *config).then_some(keys)
    }

    /// Adds the documents, the layers of a stored model, `new` layers with the tensors of a draft model,
    /// and the config.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an adapter, a projector, and a draft model without `config.json`.
    pub(crate) fn finish(mut self, new: &NewLayers, builder: &mut Builder) -> Result<()> {
        // Ollama lists documents by name.
        let mut documents = std::mem::take(&mut self.documents);
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        documents.into_iter().for_each(|document| builder.push_document(document));
        let adapters = new.adapters.iter().map(Adapter::model);
        if let Some(file) = new.files.iter().chain(adapters).next() {
            let fault = "Ollama runs adapters and projectors with GGUF models only";
            return Err(Error::unsupported(fault)
                .in_file(file.path())
                .advise("convert the model to GGUF first, and do not quantize it here"));
        }
        let store = self.model.store();
        let types = builder.tensors().iter().map(|tensor| {
            let producer = &tensor.output.producer;
            let dtype = producer.dtype().map_err(|error| error.in_tensor(&tensor.name))?;
            Ok((dtype, producer.group_size()))
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        let draft =
            new.draft.as_ref().map(|draft| self.push_draft(draft, new, builder)).transpose()?;
        let template = self.absent.iter().find(|(name, _)| name == "chat_template.jinja");
        let template = template.map(|(_, bytes)| Text::new(bytes).spelling().into_owned());
        let settings = ConfigSettings {
            draft,
            base: base_config(store)?.filter(|_| self.model.encoding() == Encoding::Safetensors),
            file_type: self.file_type,
            chat_template: template.unwrap_or_default(),
            ..new.settings.clone()
        };
        let config = tensor_config(builder.documents(), types, &settings)?;
        let mut layers = layers(store, new.draft.as_ref())?;
        if settings.base.is_none() && new.template.is_none() {
            layers.extend(self.template(&config, builder)?);
        }
        let layers = new.edit(layers, &[])?;
        layers.iter().cloned().for_each(|layer| builder.push_document(layer));
        dropped_prompt(&layers, &config)?.into_iter().for_each(|note| builder.note(note));
        builder.push_document(config);
        Ok(())
    }

    /// Ollama's template for a model whose class has no renderer: without one, prompts are passed as they are.
    fn template(&self, config: &NewDocument, builder: &mut Builder) -> Result<Vec<NewDocument>> {
        let (embedded, standalone) = chat_templates_beside(self.model.store());
        let template = [standalone, embedded].into_iter().find(|text| !text.is_empty());
        let has_renderer = !ConfigBlob::parse(&json_of(config)?).renderer.is_empty();
        let Some(template) = template.filter(|_| !has_renderer) else { return Ok(Vec::new()) };
        Ok(known_format(&template, builder).unwrap_or_else(|| {
            builder.note(
                "the chat template is not used: Ollama has neither a renderer for this class nor a template that resembles \
                 it, and passes prompts as they are; a template that is given is used",
            );
            Vec::new()
        }))
    }

    /// Adds the tensors of a draft model, and returns its entry in the config.
    fn push_draft(
        &self,
        draft: &Model,
        new: &NewLayers,
        builder: &mut Builder,
    ) -> Result<DraftEntry> {
        let here = |error: Error| error.in_file(draft.path());
        let config =
            draft.document("config.json").filter(|_| draft.encoding() == Encoding::Safetensors);
        let config = config.ok_or_else(|| {
            let fault = "the draft of a model of tensor blobs is a directory with config.json";
            here(Error::unsupported(fault))
        })?;
        let numbers = OllamaModel { draft: true, ..OllamaModel::of(config) };
        if numbers.architecture.is_empty() {
            let fault = "the config.json of the draft model names no architecture";
            return Err(here(Error::malformed(fault)));
        }
        let writer = OLLAMA.writer()?;
        let tensors = (self.draft_tensors)(draft).map_err(here)?;
        builder.reads(draft.store());
        for (experts, tensor) in tensors {
            let quantization = new.draft_quantization;
            let chosen =
                quantization.and_then(|to| numbers.choose(tensor.name(), tensor.shape(), to));
            let output = match chosen.map(QuantType::descriptor) {
                Some(row) => grouped(&tensor, row.dtype, row.group_size, None),
                None => choose(&tensor, writer, self.precision),
            };
            let named = |name: &str| format!("{DRAFT_PREFIX}{name}");
            let experts = experts.as_deref().map(named);
            let tensor = OutTensor::new(named(tensor.name()), output.map_err(here)?);
            builder.push(OutTensor { experts, ..tensor });
        }
        Ok(DraftEntry {
            format: "safetensors".to_owned(),
            architecture: numbers.architecture,
            tensor_prefix: DRAFT_PREFIX.to_owned(),
            config: format!("{DRAFT_DOCUMENTS}config.json"),
        })
    }
}

/// The layers of a stored model besides its weights, with those of `draft` in place of those of a stored
/// draft model. Tensors of a draft model come first, as Ollama lists them.
fn layers(store: &Store, draft: Option<&Model>) -> Result<Vec<NewDocument>> {
    let kept = |kind: &str, name: &str| match kind {
        "tensor" => draft.is_none(),
        "json" => draft.is_none() && name.starts_with(DRAFT_DOCUMENTS),
        "draft" | "config" => false,
        _ => true,
    };
    let mut layers = Vec::new();
    if let Some(draft) = draft {
        let mut documents = draft.store().read_companions()?;
        documents.retain(|(name, _)| name.ends_with(".json"));
        documents.sort();
        let named = |(name, bytes)| NewDocument::new(format!("{DRAFT_DOCUMENTS}{name}"), bytes);
        layers.extend(documents.into_iter().map(named));
    }
    layers.extend(stored_layers(store, kept)?);
    layers.sort_by_key(|layer| layer.role != "tensor");
    Ok(layers)
}
