//! The `config` verb: the numbers that an engine needs, each with its source.

use crate::arch::{ConfigValue, Dialect, Field, GenerationConfig};
use crate::error::Result;
use crate::json::{Json, Map, json};
use crate::model::Model;
use crate::store::QuantizationSummary;
use crate::tokenizer::Tokenizer;

/// A model's config, quantization, tokenizer and settings for generating text.
///
/// Each part serializes as an object of its fields. A part that cannot be read serializes as an
/// object with an `error`.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConfigReport<'m> {
    /// The fields of the [config](crate::ModelConfig), and the order in which rows of Q and K are
    /// stored.
    pub config: Vec<ReportedField>,
    /// The number of weights in each dtype.
    pub quantization: QuantizationSummary,
    /// The tokenizer's fields without its tokens; `None` if the model has no tokenizer.
    pub tokenizer: Result<Option<Vec<ReportedField>>>,
    /// The settings for generating text; `None` if the model has none.
    pub generation: Result<Option<GenerationReport>>,
    /// The config's unused keys, with their values.
    pub other: Vec<(String, ConfigValue<'m>)>,
    /// The differences in llama.cpp's computation, because it does not read what a GGUF file keeps
    /// of `config.json`.
    pub notes: Vec<String>,
}

/// A field of a report, with its source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReportedField {
    /// The group that it belongs to: `model`, `attention`, `rope`, `tokenizer`, `generation`.
    pub group: &'static str,
    /// The name of the field.
    pub name: String,
    /// The value.
    pub value: Json,
    /// The key or file that contains it, or the rule that derived it.
    pub source: String,
}

/// The settings for generating text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerationReport {
    /// The settings that [`GenerationConfig`] reads.
    pub fields: Vec<ReportedField>,
    /// The other settings, unchanged.
    pub other: Map<String, Json>,
}

/// Reports the numbers that an engine needs.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/hf")?;
/// let report = ops::config(&model)?;
/// let dim = report.config.iter().find(|field| field.name == "dim");
/// assert_eq!(dim.map(|dim| dim.source.as_str()), Some("config.json hidden_size"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`Model::config`].
pub fn config(model: &Model) -> Result<ConfigReport<'_>> {
    let (resolution, config) = (model.resolution()?, model.config()?);
    let mut fields: Vec<ReportedField> = Vec::new();
    for field in config.fields() {
        let (name, source) = (field.name.to_owned(), field.source.to_string());
        fields.push(ReportedField { group: field.group, name, value: field.value, source });
    }
    if let Some(rope) = resolution.stored_rope_layout() {
        let source = if rope.name() == "interleaved" && resolution.dialect == Dialect::Gguf {
            "rows permuted by the converter to GGUF".to_owned()
        } else {
            format!("{} names", resolution.dialect.name())
        };
        let (name, value) = ("rope_layout".to_owned(), json!(rope.name()));
        let place = fields.iter().position(|field| field.group == "rope").unwrap_or(fields.len());
        fields.insert(place, ReportedField { group: "rope", name, value, source });
    }
    // A broken tokenizer or generation config does not make the numbers wrong.
    Ok(ConfigReport {
        config: fields,
        quantization: model.quantization(),
        tokenizer: model.tokenizer().map(|found| found.as_ref().map(tokenizer)),
        generation: model.generation_config().map(|found| found.map(generation)),
        other: model.unused_config(),
        notes: super::losses::unread(model)?.into_iter().collect(),
    })
}

/// Collects the fields of one group.
struct ReportFields {
    group: &'static str,
    fields: Vec<ReportedField>,
}

impl ReportFields {
    fn of(group: &'static str) -> Self {
        Self { group, fields: Vec::new() }
    }

    fn push(&mut self, name: &str, value: Json, source: &str) {
        let (name, source) = (name.to_owned(), source.to_owned());
        self.fields.push(ReportedField { group: self.group, name, value, source });
    }

    fn field<T: Clone + Into<Json>>(&mut self, name: &str, field: Option<&Field<T>>) {
        if let Some(Field { value, source }) = field {
            self.push(name, value.clone().into(), source);
        }
    }

    /// Adds a number with as few digits as identify the `f32`.
    fn short(&mut self, name: &str, field: Option<&Field<f32>>) {
        if let Some(Field { value, source }) = field {
            let shortest = value.to_string().parse::<f64>().unwrap_or((*value).into());
            self.push(name, shortest.into(), source);
        }
    }
}

fn tokenizer(tokenizer: &Tokenizer<'_>) -> Vec<ReportedField> {
    let source = &tokenizer.kind.source;
    let merges = tokenizer.merges().count();
    let mut fields = ReportFields::of("tokenizer");
    fields.push("tokenizer", tokenizer.kind.value.name().into(), source);
    fields.field("pre_tokenizer", tokenizer.pre.as_ref());
    fields.push("n_tokens", tokenizer.len().into(), source);
    if merges > 0 {
        fields.push("n_merges", merges.into(), source);
    }
    for (name, id) in &tokenizer.special {
        fields.field(&format!("{name}_token"), Some(id));
    }
    fields.field("add_bos", tokenizer.add_bos.as_ref());
    fields.field("add_eos", tokenizer.add_eos.as_ref());
    for template in &tokenizer.chat_templates {
        let name = template.name.as_ref().map(|name| format!("_{name}")).unwrap_or_default();
        fields.field(&format!("chat_template{name}"), Some(&template.text));
    }
    fields.fields
}

fn generation(generation: GenerationConfig) -> GenerationReport {
    let mut fields = ReportFields::of("generation");
    fields.field("do_sample", generation.do_sample.as_ref());
    fields.short("temperature", generation.temperature.as_ref());
    fields.field("top_k", generation.top_k.as_ref());
    fields.short("top_p", generation.top_p.as_ref());
    fields.short("min_p", generation.min_p.as_ref());
    fields.short("repetition_penalty", generation.repetition_penalty.as_ref());
    fields.field("max_new_tokens", generation.max_new_tokens.as_ref());
    fields.field("bos_token_id", generation.bos.as_ref());
    fields.field("eos_token_id", generation.eos.as_ref());
    fields.field("pad_token_id", generation.pad.as_ref());
    fields.field("stop", generation.stop.as_ref());
    GenerationReport { fields: fields.fields, other: generation.other }
}

#[cfg(feature = "serde")]
mod serialize {
    use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

    use super::*;
    use crate::store::DTypeSummary;

    impl Serialize for ConfigReport<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut report = serializer.serialize_struct("ConfigReport", 6)?;
            report.serialize_field("config", &by_name(&self.config))?;
            report.serialize_field("quantization", &quantization(&self.quantization))?;
            let tokenizer = or_error(&self.tokenizer, |fields| by_name(fields));
            report.serialize_field("tokenizer", &tokenizer)?;
            report.serialize_field("generation", &or_error(&self.generation, generation))?;
            report.serialize_field("other", &Verbatim(&self.other))?;
            report.serialize_field("notes", &self.notes)?;
            report.end()
        }
    }

    fn by_name(fields: &[ReportedField]) -> Map<String, Json> {
        let field = |field: &ReportedField| {
            let ReportedField { name, value, source, .. } = field;
            (name.clone(), json!({"value": value, "source": source}))
        };
        fields.iter().map(field).collect()
    }

    fn generation(generation: &GenerationReport) -> Map<String, Json> {
        let mut fields = by_name(&generation.fields);
        fields.insert("other".to_owned(), generation.other.clone().into());
        fields
    }

    /// A part of the report that may be missing or unreadable.
    fn or_error<T>(
        part: &crate::Result<Option<T>>,
        report: impl Fn(&T) -> Map<String, Json>,
    ) -> Json {
        match part {
            Ok(Some(part)) => report(part).into(),
            Ok(None) => Json::Null,
            Err(error) => json!({"error": error.to_string()}),
        }
    }

    /// The values as the model's files have them.
    struct Verbatim<'a>(&'a [(String, ConfigValue<'a>)]);

    impl Serialize for Verbatim<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(self.0.len()))?;
            for (key, value) in self.0 {
                match value {
                    ConfigValue::Json(json) => map.serialize_entry(key, json)?,
                    ConfigValue::Metadata(value) => map.serialize_entry(key, value)?,
                }
            }
            map.end()
        }
    }

    fn quantization(quantization: &QuantizationSummary) -> Json {
        let line = |line: &DTypeSummary| {
            json!({
                "dtype": line.label,
                "group_size": line.group_size,
                "tensors": line.tensors,
                "weights": line.elements,
                "bytes": line.bytes,
                "bits_per_weight": line.bits_per_weight(),
            })
        };
        json!({
            "dtype": quantization.most().map(|line| &line.label),
            "bits": quantization.quant_bits(),
            "group_size": quantization.quant_group_size(),
            "mixed": quantization.is_mixed(),
            "bits_per_weight": quantization.bits_per_weight(),
            "dtypes": quantization.dtypes.iter().map(line).collect::<Vec<_>>(),
        })
    }
}
