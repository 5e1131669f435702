//! BERT and RoBERTa, whose kinds and positions GGUF tells by the tokenizer, and their classifiers.

use serde_json::{Map, Value as Json};

use super::gguf::{Keys, Known};
use crate::arch::{ModelConfig, Resolution};
use crate::error::{Error, Result};
use crate::store::{Encoding, Store};

/// Values of `model_type` that count positions from behind the padding's number.
const ROBERTA: [&str; 3] = ["roberta", "xlm-roberta", "camembert"];

/// RoBERTa is a BERT with GPT-2's tokenizer.
pub(super) fn is_roberta(known: &Known<'_>) -> bool {
    known.metadata().str("tokenizer.ggml.model") == Some("gpt2")
}

/// XLM-RoBERTa is one with SentencePiece's.
pub(super) fn is_xlm_roberta(known: &Known<'_>) -> bool {
    known.metadata().str("tokenizer.ggml.model") == Some("t5")
}

pub(super) fn has_classifier(known: &Known<'_>) -> bool {
    known.has("classifier.output.weight") || known.has("classifier.dense.weight")
}

/// The position embeddings that stand before that of the first position: none but in RoBERTa, where
/// they are those of the numbers up to the padding's. GGUF leaves them out.
pub(crate) fn rows_before_positions(store: &Store, resolution: &Resolution) -> Result<u64> {
    if resolution.architecture.is_none_or(|architecture| architecture.name != "bert") {
        return Ok(0);
    }
    let known = Known::of(store, resolution)?;
    let pad = match store.encoding() {
        Encoding::Gguf if known.config.architecture.value == "bert" => {
            if !is_roberta(&known) && !is_xlm_roberta(&known) {
                return Ok(0);
            }
            Some(padding(&known)?)
        }
        Encoding::Safetensors if ROBERTA.contains(&known.config.architecture.value.as_str()) => {
            known.count("pad_token_id")?
        }
        _ => None,
    };
    Ok(pad.map_or(0, |pad| u64::from(pad).saturating_add(1)))
}

/// The padding's number as GGUF has it.
fn padding(known: &Known<'_>) -> Result<u32> {
    let key = "tokenizer.ggml.padding_token_id";
    let pad = known.metadata().u64(key).and_then(|pad| u32::try_from(pad).ok());
    pad.ok_or_else(|| {
        let fault =
            format!("its positions start behind the padding's number, but there is no {key}");
        Error::unsupported(fault).in_file(known.path())
    })
}

/// RoBERTa counts positions from behind the padding's number.
pub(super) fn minus_pad(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let longest = known.config.max_seq_len.as_ref().map(|length| length.value);
    if let (Some(longest), Some(pad)) = (longest, known.count("pad_token_id")?) {
        keys.count("context_length", longest.saturating_sub(pad).saturating_sub(1));
    }
    Ok(())
}

/// The same the other way.
pub(super) fn plus_pad(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let pad = padding(known)?;
    let ModelConfig { max_seq_len, .. } = &known.config;
    let longest = max_seq_len.as_ref().map(|length| length.value);
    let longest = longest.ok_or_else(|| known.without("no context_length"))?;
    let all = u64::from(longest).saturating_add(u64::from(pad)).saturating_add(1);
    out.insert("max_position_embeddings".to_owned(), all.into());
    out.insert("pad_token_id".to_owned(), pad.into());
    Ok(())
}

/// Kinds of segments, which GGUF counts beside the tokens.
pub(super) fn segments(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stored = || known.shape("token_type_embedding.weight")?.first().copied();
    let said = known.metadata().u64("tokenizer.ggml.token_type_count");
    out.extend(said.or_else(stored).map(|kinds| ("type_vocab_size".to_owned(), kinds.into())));
    Ok(())
}

/// Names of what a classifier tells apart, as the converter writes them: not the two that a config
/// has by default.
pub(super) fn labels(known: &Known<'_>, keys: &mut Keys<'_>) -> Result<()> {
    let Some(Json::Object(said)) = known.said("id2label") else { return Ok(()) };
    let mut labels = Vec::new();
    for (number, label) in said {
        let label = number.parse::<u32>().ok().zip(label.as_str());
        labels.push(label.ok_or_else(|| {
            let fault = format!("\"{number}\", but numbers with names are needed");
            Error::malformed(fault).in_key("config.json id2label").in_file(known.path())
        })?);
    }
    labels.sort_unstable();
    if labels.is_empty() || labels.len() == 2 && labels.contains(&(0, "LABEL_0")) {
        return Ok(());
    }
    keys.texts("classifier.output_labels", labels.into_iter().map(|(_, label)| label));
    Ok(())
}

/// The same the other way: a name for each row of the classifier.
pub(super) fn labelled(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rows = known.shape("classifier.output.weight").and_then(|shape| shape.first().copied());
    let rows = rows.ok_or_else(|| known.without("a classifier without cls.output.weight"))?;
    let said = known.metadata().array("bert.classifier.output_labels");
    let said = said.and_then(|labels| labels.texts());
    let said: Vec<String> =
        said.into_iter().flatten().map(|label| label.spelling().into_owned()).collect();
    if !said.is_empty() && said.len() as u64 != rows {
        let fault = format!("{} names, but the classifier has {rows} rows", said.len());
        let key = "bert.classifier.output_labels";
        return Err(Error::malformed(fault).in_key(key).in_file(known.path()));
    }
    // As many as a tensor has rows: each was stored.
    let usual = (said.len() as u64..rows).map(|number| format!("LABEL_{number}"));
    let labels: Vec<String> = said.iter().cloned().chain(usual).collect();
    let numbered = || (0u64..).zip(&labels);
    let names: Map<String, Json> =
        numbered().map(|(number, label)| (number.to_string(), label.clone().into())).collect();
    let numbers = numbered().map(|(number, label)| (label.clone(), number.into())).collect();
    out.insert("id2label".to_owned(), Json::Object(names));
    out.insert("label2id".to_owned(), Json::Object(numbers));
    Ok(())
}

/// What transformers' class reads of RoBERTa's classifier: two layers.
pub(super) fn two_layers(known: &Known<'_>, out: &mut Map<String, Json>) -> Result<()> {
    match known.has("classifier.dense.weight") && known.has("classifier.output.weight") {
        true => labelled(known, out),
        false => Err(known.without("a classifier of one layer")),
    }
}

/// BERT's classifier reads a pooler, which GGUF has no tensors for.
pub(super) fn no_pooler(known: &Known<'_>, _: &mut Map<String, Json>) -> Result<()> {
    if known.has("classifier.dense.weight") && known.has("classifier.output.weight") {
        return Err(known.without("a classifier of two layers with no tokenizer of RoBERTa's"));
    }
    let fault = "its classifier reads a pooler in transformers, whose weights GGUF does not keep";
    Err(Error::unsupported(fault).in_file(known.path()))
}
