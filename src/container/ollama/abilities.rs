//! The capabilities of a model, and its renderer and parser among those built into Ollama.
//!
//! Ollama fb307609 (2026-08-21) decides this from `config.json` and the chat template
//! (x/create/client) for tensor blobs, and from the architecture (server/create.go) for GGUF.

use crate::engines::ollama::{self, ChatFormat, NewerFormat};
use crate::json::Json;

/// The texts that decide: the config, and the chat templates in both places where they are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources<'s> {
    pub(crate) config: Option<&'s Json>,
    /// `chat_template` of `tokenizer_config.json`; empty unless it is one string.
    pub(crate) embedded: &'s str,
    /// The content of `chat_template.jinja`; empty if there is none.
    pub(crate) standalone: &'s str,
}

impl<'s> Sources<'s> {
    /// The template that Ollama reads: the one in `tokenizer_config.json`, else the file.
    fn template(&self) -> &'s str {
        if self.embedded.is_empty() { self.standalone } else { self.embedded }
    }

    /// `architectures`, `model_type` and the model type of the language model, in lower case.
    fn names(&self) -> Vec<String> {
        let Some(config) = self.config else { return Vec::new() };
        let classes = config.get("architectures").and_then(Json::as_array).into_iter().flatten();
        let types = [config.get("model_type"), config.pointer("/llm_config/model_type")];
        let names = classes.chain(types.into_iter().flatten()).filter_map(Json::as_str);
        names.map(str::to_ascii_lowercase).collect()
    }

    /// The renderer and the parser of the model's family; empty names if it has none.
    pub(crate) fn chat_format(&self) -> ChatFormat {
        let names = self.names();
        let family =
            names.iter().find_map(|name| ollama::chat_families().find(|row| row.has(name)));
        let Some(family) = family else { return ChatFormat::default() };
        let has = |newer: &NewerFormat| {
            let within = |text: &str| newer.marks.iter().all(|mark| text.contains(mark));
            within(self.template()) || newer.in_either && within(self.standalone)
        };
        family.newer.filter(has).map_or(family.format, |newer| newer.format)
    }

    /// The capabilities of a model of tensor blobs that answers through `parser`
    /// (`inferSafetensorsCapabilities`).
    pub(crate) fn capabilities(&self, parser: &str) -> Vec<&'static str> {
        let has =
            |key: &str| self.config.and_then(|config| config.get(key)).is_some_and(Json::is_object);
        let says = |key: &str| self.config.and_then(|config| config.get(key)?.as_bool());
        let (tools, thinking) = ollama::parser_reads(parser);
        // Ollama looks at the model type of the whole model here, but not of the language model.
        let thinker = |config: &Json| {
            let classes = config.get("architectures").and_then(Json::as_array);
            let names = classes.into_iter().flatten().chain(config.get("model_type"));
            let mut names = names.filter_map(Json::as_str).map(str::to_ascii_lowercase);
            names.any(|name| ollama::chat_families().any(|row| row.thinks && row.has(&name)))
        };
        let thinking = thinking || thinks(self.template()) || self.config.is_some_and(thinker);
        let all = [
            ("completion", true),
            ("vision", has("vision_config") || says("has_vision") == Some(true)),
            ("audio", has("audio_config") || has("sound_config")),
            ("tools", tools),
            ("thinking", thinking),
        ];
        all.into_iter().filter(|(_, held)| *held).map(|(name, _)| name).collect()
    }
}

/// Whether a chat template writes thoughts (`chatTemplateHasThinkingSupport`), or at least cuts
/// those of earlier answers off.
pub(crate) fn thinks(template: &str) -> bool {
    let has = |piece: &str| template.contains(piece);
    let cuts = has("content.split('</think>')") || has("content.split(\"</think>\")");
    has("<think>") && has("</think>") || cuts && !has("reasoning_content") && !has("<SPECIAL_12>")
}

/// Whether a chat template offers tools (`chatTemplateHasToolSupport`).
pub(crate) fn offers_tools(template: &str) -> bool {
    template.contains("tools") || template.contains("tool_call")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn spoken(config: &Json, template: &str, standalone: &str) -> String {
        let sources = Sources { config: Some(config), embedded: template, standalone };
        let format = sources.chat_format();
        let capabilities = sources.capabilities(format.parser).join(" ");
        format!("{} {}: {capabilities}", format.renderer, format.parser)
    }

    #[test]
    fn families_are_ollamas() {
        let class = |name: &str| json!({"architectures": [name]});
        let told = |config: &Json| spoken(config, "", "");
        assert_eq!(told(&class("LlamaForCausalLM")), " : completion");
        assert_eq!(told(&class("Qwen3MoeForCausalLM")), "qwen3-coder qwen3: completion tools");
        assert_eq!(
            told(&class("DeepseekV3ForCausalLM")),
            "deepseek3 deepseek3: completion tools thinking"
        );
        assert_eq!(
            told(&class("Glm4MoeLiteForCausalLM")),
            "glm-4.7 glm-4.7: completion tools thinking"
        );
        assert_eq!(
            told(&class("Cohere2MoeForCausalLM")),
            "cohere cohere: completion tools thinking"
        );
        assert_eq!(
            told(&json!({"model_type": "muse_glimmer"})),
            "glimmer glimmer: completion tools thinking"
        );
        assert_eq!(told(&json!({"model_type": "my_muse_glimmer"})), " : completion");
        // An omni model names its language model inside `llm_config`.
        let omni = json!({"architectures": ["Omni"], "llm_config": {"model_type": "nemotron_h"},
            "has_vision": true, "sound_config": {}});
        assert_eq!(
            told(&omni),
            "nemotron-3-nano nemotron-3-nano: completion vision audio tools thinking"
        );
        let seeing = json!({"architectures": ["Gemma4ForConditionalGeneration"],
            "vision_config": {"a": 1}, "audio_config": null});
        assert_eq!(told(&seeing), "gemma4 gemma4: completion vision tools thinking");
    }

    #[test]
    fn templates_choose_newer_renderers() {
        let next = json!({"architectures": ["Qwen3NextForCausalLM"]});
        let both = "{{ resolved_reasoning_effort }}{{ preserve_thinking }}";
        assert_eq!(spoken(&next, both, ""), "qwen3.8 qwen3.5: completion tools thinking");
        assert_eq!(spoken(&next, "", both), "qwen3.8 qwen3.5: completion tools thinking");
        // The template in tokenizer_config.json is the one that counts here.
        assert_eq!(spoken(&next, "other", both), "qwen3.5 qwen3.5: completion tools thinking");
        let laguna = json!({"architectures": ["LagunaForCausalLM"]});
        let mark = "{# laguna_glm_thinking_v8 #}";
        let v1 = "poolside-v1 poolside-v1: completion tools thinking";
        assert_eq!(spoken(&laguna, "older", mark), v1);
        assert_eq!(spoken(&laguna, mark, ""), v1);
        assert_eq!(spoken(&laguna, "older", ""), "laguna laguna: completion tools thinking");
        let nemotron = json!({"architectures": ["NemotronHForCausalLM"]});
        let mark = "{reasoning effort: efficient}";
        let newer = "nemotron-3.5-nano nemotron-3.5-nano: completion tools thinking";
        assert_eq!(spoken(&nemotron, "older", mark), newer);
    }

    #[test]
    fn templates_that_think() {
        let llama = json!({"architectures": ["LlamaForCausalLM"]});
        let capabilities = |template: &str| spoken(&llama, template, "");
        assert_eq!(capabilities("<think>{{ thought }}</think>"), " : completion thinking");
        assert_eq!(capabilities("{{ content.split('</think>')[-1] }}"), " : completion thinking");
        assert_eq!(
            capabilities("{{ content.split('</think>') }} reasoning_content"),
            " : completion"
        );
        assert_eq!(spoken(&llama, "", "<think></think>"), " : completion thinking");
        assert_eq!(spoken(&llama, "plain", "<think></think>"), " : completion");
        assert!(offers_tools("{% if tools %}") && !offers_tools("{{ messages }}"));
    }
}
