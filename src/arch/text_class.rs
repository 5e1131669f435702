//! Recognizes a `config.json` of a class that is a language model alone. Tensors of a vision or audio model may be stored
//! next to it all the same.

use super::auxiliary::names_other_model;
use super::{Architecture, config};
use crate::engines::transformers;
use crate::json::Json;

/// Ends of names of classes with a language model and a head.
const TEXT: [&str; 6] = [
    "ForCausalLM",
    "LMHeadModel",
    "TextModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
];

/// The class of a language model alone that a `config.json` states. `None` for a class that may hold another model, and for
/// one that is not known. `row` is that of its family.
pub(super) fn text_class<'d>(document: &'d Json, row: &Architecture) -> Option<&'d str> {
    let root = document.as_object()?;
    let model_type = root.get("model_type")?.as_str()?;
    let class = root.get("architectures").and_then(|list| list.as_array()?.first()?.as_str());
    let mut values = root.iter().filter(|(key, _)| names_other_model(key));
    let holds_other = values
        .any(|(_, value)| !(value.is_null() || value.is_number() || *value == Json::Bool(false)));
    if holds_other || config::nested_configs(document).len() > 1 {
        return None;
    }
    let is_text = |class: &str| TEXT.iter().any(|end| class.ends_with(end));
    let is_text_part = model_type.ends_with("_text");
    let mut classes = row.variants.iter().flat_map(|variant| variant.classes);
    let is_own = classes.any(|own| own.model_type == model_type && Some(own.class) == class);
    // A class of remote code may hold anything.
    let is_of_transformers =
        transformers::has_causal_class(model_type) && root.get("auto_map").is_none();
    match class.filter(|class| is_text(class)) {
        Some(class) if is_own || is_of_transformers || is_text_part => Some(class),
        None if is_text_part || class.is_none() && is_of_transformers => Some(model_type),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::family;

    #[test]
    fn classes_without_other_models_are_recognized() {
        for (config, expected) in [
            (
                r#"{"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"]}"#,
                Some("Gemma3ForCausalLM"),
            ),
            (
                r#"{"model_type": "mistral", "architectures": ["MistralForCausalLM"]}"#,
                Some("MistralForCausalLM"),
            ),
            (
                r#"{"model_type": "opt", "architectures": ["OPTForCausalLM"]}"#,
                Some("OPTForCausalLM"),
            ),
            (r#"{"model_type": "qwen2"}"#, Some("qwen2")),
            (
                r#"{"model_type": "qwen2_5_vl_text", "image_token_id": 5, "vision_config": null}"#,
                Some("qwen2_5_vl_text"),
            ),
            (
                r#"{"model_type": "qwen2_vl_text", "architectures": ["Qwen2VLForConditionalGeneration"]}"#,
                Some("qwen2_vl_text"),
            ),
            // Classes that hold an image model, and those of other code.
            (
                r#"{"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]}"#,
                None,
            ),
            (r#"{"model_type": "llama", "architectures": ["SeenForConditionalGeneration"]}"#, None),
            (
                r#"{"model_type": "llama", "architectures": ["SeenForCausalLM"], "auto_map": {}}"#,
                None,
            ),
            (
                r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "mm_vision_tower": "clip"}"#,
                None,
            ),
            (
                r#"{"model_type": "gemma3_text", "text_config": {"model_type": "gemma3_text"}}"#,
                None,
            ),
        ] {
            let parsed = Json::parse(config.as_bytes()).unwrap();
            let model_type = parsed["model_type"].as_str().unwrap();
            let row = family::architecture(model_type, false).unwrap_or(&Architecture::EMPTY);
            assert_eq!(text_class(&parsed, row), expected, "{config}");
        }
    }
}
