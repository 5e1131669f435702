//! Ollama's MLX runner, which runs models of tensor blobs: the classes that it has, and where they read the config.

use crate::arch::config::TEXT_CONFIGS;
use crate::engines::{mlx_lm, ollama};
use crate::json::{Json, Map};

/// The fault of a model of tensor blobs whose class the runner does not have.
pub(crate) fn fault(config: &Map<String, Json>) -> Option<String> {
    let class = class_of(config);
    ollama::runner(class.unwrap_or_default()).is_none().then(|| {
        let what = match class {
            Some(class) => format!("has no class for {class}"),
            None => "finds its class by architectures in config.json, which states none".to_owned(),
        };
        format!(
            "Ollama's MLX runner, which runs models of tensor blobs, {what}: Ollama runs the model as a GGUF file \
             (`quantize` writes one, `create` takes it)"
        )
    })
}

/// Writes numbers to where the class of the runner reads them. Returns the notes on what it does not read.
pub(super) fn agree(config: &mut Map<String, Json>) -> Vec<String> {
    let mut notes: Vec<String> = fault(config).into_iter().collect();
    let class = class_of(config).unwrap_or_default().to_owned();
    let Some(runner) = ollama::runner(&class) else { return notes };
    let inner = TEXT_CONFIGS.iter().find(|name| config.get(name).is_some_and(Json::is_object));
    let text = match inner {
        Some(name) => config.get_mut(name).and_then(Json::as_object_mut),
        None => Some(config),
    };
    let Some(text) = text else { return notes };
    for (key, path) in &runner.flat {
        let mut path = path.split('.');
        let first = path.next().and_then(|name| text.get(name));
        let stated = path.try_fold(first, |at, name| Some(at?.get(name))).flatten().cloned();
        if let Some(value) = stated.filter(|value| value.is_number() && !text.contains_key(key)) {
            notes.push(format!(
                "config.json: {key} is added, where Ollama's class {class} reads it"
            ));
            text.insert((*key).to_owned(), value);
        }
    }
    let faults = mlx_lm::faults(runner.conditions.computes.iter(), text);
    let first = "Ollama will compute this model differently: its class";
    notes.extend(faults.first().map(|_| format!("{first} {class} {}", faults.join("; it "))));
    notes
}

fn class_of(config: &Map<String, Json>) -> Option<&str> {
    config.get("architectures")?.as_array()?.first()?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn agreed(config: &Json) -> (Json, Vec<String>) {
        let mut config = config.as_object().cloned().expect("an object");
        let notes = agree(&mut config);
        (Json::Object(config), notes)
    }

    #[test]
    fn numbers_are_where_the_runner_reads_them() {
        let rope = json!({ "rope_type": "default", "rope_theta": 5e5 });
        let (config, notes) =
            agreed(&json!({ "architectures": ["LlamaForCausalLM"], "rope_parameters": rope }));
        assert_eq!(config["rope_theta"], json!(5e5));
        assert_eq!(
            notes,
            ["config.json: rope_theta is added, where Ollama's class LlamaForCausalLM reads it"]
        );
        let full = json!({ "rope_type": "linear", "factor": 8.0, "rope_theta": 1e6 });
        let rope = json!({ "full_attention": full, "sliding_attention": { "rope_theta": 1e4 } });
        let text = json!({ "rope_theta": 7.0, "rope_parameters": rope });
        let class = "Gemma3ForConditionalGeneration";
        let (config, notes) = agreed(&json!({ "architectures": [class], "text_config": text }));
        assert_eq!(config["text_config"]["rope_theta"], json!(7.0));
        assert_eq!(config["text_config"]["rope_local_base_freq"], json!(1e4));
        assert!(notes[1].ends_with("does not scale positions (rope_scaling)"), "{notes:?}");
    }

    #[test]
    fn classes_without_a_runner_are_named() {
        let (_, notes) = agreed(&json!({ "architectures": ["Qwen2ForCausalLM"] }));
        assert!(notes[0].contains("has no class for Qwen2ForCausalLM"), "{notes:?}");
        let (_, notes) = agreed(&json!({}));
        assert!(notes[0].contains("which states none"), "{notes:?}");
        for class in ["LagunaForCausalLM", "Qwen3NextForCausalLM"] {
            assert_eq!(agreed(&json!({ "architectures": [class] })).1, [""; 0]);
        }
    }
}
