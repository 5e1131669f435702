//! BERT and the encoders that share its tensor names.

use super::step::{Step, Steps};
use crate::arch::ModelConfig;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::store::Encoding;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("has_classifier", Step::Fits(has_classifier)),
    ("has_no_segments", Step::Fits(has_no_segments)),
    ("is_plain", Step::Fits(is_plain)),
    ("is_roberta", Step::Fits(is_roberta)),
    ("is_xlm_roberta", Step::Fits(is_xlm_roberta)),
    ("labelled", Step::Config(labelled)),
    ("labels", Step::Keys(labels)),
    ("minus_pad", Step::Keys(minus_pad)),
    ("plus_pad", Step::Config(plus_pad)),
    ("rows_before_positions", Step::Rows(rows_before_positions)),
    ("two_layers", Step::Config(two_layers)),
    ("with_pooler", Step::Config(with_pooler)),
    ("without_tokenizer", Step::Config(without_tokenizer)),
];

/// Values of `model_type` whose positions start after the padding token's number.
const ROBERTA: &[&str] = &["roberta", "xlm-roberta", "camembert"];

/// BERT itself, with a tokenizer of words.
fn is_bert(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("bert") || is_kept(model, "bert")
}

/// RoBERTa: a BERT with GPT-2's tokenizer.
fn is_roberta(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("gpt2") || is_kept(model, "roberta")
}

/// XLM-RoBERTa: a BERT with SentencePiece's tokenizer.
fn is_xlm_roberta(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("t5") || is_kept(model, "xlm-roberta")
}

/// Whether the file keeps this `model_type`, which files without a tokenizer depend on.
fn is_kept(model: &SourceModel<'_>, model_type: &str) -> bool {
    model.kept("model_type").is_some_and(|kept| kept == model_type)
}

/// BERT, or a form that no other class reads.
fn is_plain(model: &SourceModel<'_>) -> bool {
    is_bert(model) || !model.has("classifier.dense.weight")
}

/// DistilBERT, as llama.cpp runs it.
fn has_no_segments(model: &SourceModel<'_>) -> bool {
    model.has("position_embedding.weight") && !model.has("token_type_embedding.weight")
}

fn has_classifier(model: &SourceModel<'_>) -> bool {
    model.has("classifier.output.weight") || model.has("classifier.dense.weight")
}

/// The number of rows of the position embedding before that of the first position. Only RoBERTa has
/// any: one for each number up to the padding token's. GGUF drops them.
fn rows_before_positions(model: &SourceModel<'_>) -> Result<u64> {
    let pad = match model.encoding() {
        Encoding::Gguf if model.architecture() == "bert" => {
            if !is_roberta(model) && !is_xlm_roberta(model) {
                return Ok(0);
            }
            Some(padding(model)?)
        }
        Encoding::Safetensors if ROBERTA.contains(&model.architecture()) => {
            model.count("pad_token_id")?
        }
        _ => None,
    };
    Ok(pad.map_or(0, |pad| u64::from(pad).saturating_add(1)))
}

/// The number of the padding token in GGUF.
fn padding(model: &SourceModel<'_>) -> Result<u32> {
    let key = "tokenizer.ggml.padding_token_id";
    let kept = || model.kept("pad_token_id").and_then(|pad| pad.as_u64());
    let pad = model.metadata().u64(key).or_else(kept).and_then(|pad| u32::try_from(pad).ok());
    pad.ok_or_else(|| {
        let fault = format!(
            "positions start after the padding token's number, but the key {key} is missing"
        );
        Error::unsupported(fault).in_file(model.path())
    })
}

/// RoBERTa's positions start after the padding token's number: subtracts it from the length.
fn minus_pad(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let longest = model.config.max_seq_len.as_ref().map(|length| length.value);
    if let (Some(longest), Some(pad)) = (longest, model.count("pad_token_id")?) {
        keys.count("context_length", longest.saturating_sub(pad).saturating_sub(1));
    }
    Ok(())
}

/// The inverse of [`minus_pad`].
fn plus_pad(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let pad = padding(model)?;
    let ModelConfig { max_seq_len, .. } = &model.config;
    let longest = max_seq_len.as_ref().map(|length| length.value);
    let longest = longest.ok_or_else(|| model.missing_in_model("context_length"))?;
    let all = u64::from(longest).saturating_add(u64::from(pad)).saturating_add(1);
    out.insert("max_position_embeddings".to_owned(), all.into());
    out.insert("pad_token_id".to_owned(), pad.into());
    Ok(())
}

/// Labels of a classifier, as the converter writes them. The two default labels of a config are
/// omitted, unless there is a classifier of two rows: llama.cpp takes their number from the labels.
pub(super) fn labels(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = model.rows("classifier.output.weight");
    let Some(Json::Object(stated)) = model.config_value("id2label") else {
        // transformers omits the two default labels.
        if rows == Some(2) {
            keys.texts("classifier.output_labels", ["LABEL_0", "LABEL_1"].into_iter());
        }
        return Ok(());
    };
    let mut labels = Vec::new();
    for (number, label) in stated {
        let label = number.parse::<u32>().ok().zip(label.as_str());
        labels.push(label.ok_or_else(|| {
            let fault = format!("\"{number}\", but an object of numbers and labels is needed");
            Error::malformed(fault).in_key("config.json id2label").in_file(model.path())
        })?);
    }
    labels.sort_unstable();
    let usual = labels.len() == 2 && labels.contains(&(0, "LABEL_0"));
    if labels.is_empty() || usual && rows != Some(2) {
        return Ok(());
    }
    keys.texts("classifier.output_labels", labels.into_iter().map(|(_, label)| label));
    Ok(())
}

/// The inverse of [`labels`]: a label for each row of the classifier.
pub(super) fn labelled(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rows = model.rows("classifier.output.weight");
    let rows = rows.ok_or_else(|| model.inexpressible("a classifier without cls.output.weight"))?;
    let key = format!("{}.classifier.output_labels", model.architecture());
    let stated = model.metadata().array(&key);
    let stated = stated.and_then(|labels| labels.texts());
    let stated: Vec<String> =
        stated.into_iter().flatten().map(|label| label.spelling().into_owned()).collect();
    if !stated.is_empty() && stated.len() as u64 != rows {
        let fault = format!("{} labels, but the classifier has {rows} rows", stated.len());
        return Err(Error::malformed(fault).in_key(&key).in_file(model.path()));
    }
    // Bounded by the number of rows of a stored tensor.
    let usual = (stated.len() as u64..rows).map(|number| format!("LABEL_{number}"));
    let labels: Vec<String> = stated.iter().cloned().chain(usual).collect();
    let numbered = || (0u64..).zip(&labels);
    let names: Map<String, Json> =
        numbered().map(|(number, label)| (number.to_string(), label.clone().into())).collect();
    let numbers = numbered().map(|(number, label)| (label.clone(), number.into())).collect();
    out.insert("id2label".to_owned(), Json::Object(names));
    out.insert("label2id".to_owned(), Json::Object(numbers));
    Ok(())
}

/// transformers' class for RoBERTa's classifier requires two layers.
fn two_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    match model.has("classifier.dense.weight") && model.has("classifier.output.weight") {
        true => labelled(model, out),
        false => Err(model.inexpressible("a classifier of one layer")),
    }
}

/// transformers' class for BERT's classifier requires a pooler, which files of llama.cpp's converter
/// do not have.
fn with_pooler(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if model.has("classifier.dense.weight") && model.has("classifier.output.weight") {
        return labelled(model, out);
    }
    let fault = "transformers' class for this classifier reads a pooler, which the file lacks";
    Err(Error::unsupported(fault).in_file(model.path()))
}

/// Rejects a classifier of two layers that may be BERT's or RoBERTa's: only the tokenizer tells.
fn without_tokenizer(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    Err(model.inexpressible("a classifier of two layers without a tokenizer"))
}
