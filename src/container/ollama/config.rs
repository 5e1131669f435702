//! The config blob of a model, in the form that Ollama fb307609 (2026-08-21) writes.

use serde_json::Value as Json;

use super::manifest::quoted;

/// The config blob of a model (`ConfigV2` of types/model/config.go). Empty fields are omitted where
/// Ollama omits them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// `safetensors` or `gguf`.
    pub(crate) format: &'static str,
    pub(crate) family: String,
    /// The number of weights in readable form, such as `8.0B`.
    pub(crate) model_type: String,
    /// The quantization, such as `Q4_K_M`.
    pub(crate) file_type: String,
    pub(crate) renderer: &'static str,
    pub(crate) parser: &'static str,
    /// The oldest Ollama version that reads the model.
    pub(crate) requires: &'static str,
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) architecture: &'static str,
    pub(crate) os: &'static str,
}

impl Config {
    /// The blob's JSON, without the line feed that Ollama writes for GGUF models only.
    pub(crate) fn to_json(&self) -> String {
        let families = match self.family.as_str() {
            "" => "null".to_owned(),
            family => format!("[{}]", quoted(family)),
        };
        let mut text = format!(
            "{{\"model_format\":{},\"model_family\":{},\"model_families\":{families},\
             \"model_type\":{},\"file_type\":{}",
            quoted(self.format),
            quoted(&self.family),
            quoted(&self.model_type),
            quoted(&self.file_type)
        );
        let optional =
            [("renderer", self.renderer), ("parser", self.parser), ("requires", self.requires)];
        for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!(",\"{key}\":{}", quoted(value)));
        }
        if !self.capabilities.is_empty() {
            let all: Vec<String> = self.capabilities.iter().map(|name| quoted(name)).collect();
            text.push_str(&format!(",\"capabilities\":[{}]", all.join(",")));
        }
        let (architecture, os) = (quoted(self.architecture), quoted(self.os));
        text.push_str(&format!(",\"architecture\":{architecture},\"os\":{os}}}"));
        text
    }
}

/// The families for which Ollama has a renderer and a parser (x/create/client): a part of the
/// lower-case `architectures` or `model_type`, the renderer, the parser, and the capabilities that
/// the parser adds, as far as observed.
static SPEAKERS: &[(&str, &str, &str, &[&str])] = &[
    ("museglimmer", "glimmer", "glimmer", &[]),
    ("muse_glimmer", "glimmer", "glimmer", &[]),
    ("laguna", "laguna", "laguna", &[]),
    ("cohere2moe", "cohere", "cohere", &[]),
    ("cohere2_moe", "cohere", "cohere", &[]),
    ("gemma4", "gemma4", "gemma4", &[]),
    ("glm4", "glm-4.7", "glm-4.7", &[]),
    ("deepseek", "deepseek3", "deepseek3", &[]),
    ("qwen3_5", "qwen3.5", "qwen3.5", &[]),
    ("qwen3next", "qwen3.5", "qwen3.5", &[]),
    ("qwen3", "qwen3-coder", "qwen3", &["tools"]),
    ("nemotronh", "nemotron-3-nano", "nemotron-3-nano", &[]),
    ("nemotron_h", "nemotron-3-nano", "nemotron-3-nano", &[]),
];

impl Config {
    /// The config of a model of tensor blobs, derived from its `config.json`.
    pub(crate) fn of_tensors(config: &Json, file_type: &str) -> Self {
        let named = config.get("architectures").and_then(Json::as_array).into_iter().flatten();
        let named = named.chain(config.get("model_type")).filter_map(Json::as_str);
        let mut found = None;
        for name in named.map(str::to_ascii_lowercase) {
            found = found.or_else(|| SPEAKERS.iter().find(|row| name.contains(row.0)));
        }
        let (_, renderer, parser, more) = found.copied().unwrap_or_default();
        let has = |key: &str| config.get(key).is_some_and(|value| !value.is_null());
        let mut capabilities = vec!["completion"];
        capabilities.extend(has("vision_config").then_some("vision"));
        capabilities.extend(has("audio_config").then_some("audio"));
        capabilities.extend(more);
        Self {
            format: "safetensors",
            file_type: file_type.to_owned(),
            renderer,
            parser,
            // `MinOllamaVersion` of x/create/client.
            requires: "0.19.0",
            capabilities,
            ..Self::default()
        }
    }

    /// The config of a model in one GGUF file.
    pub(crate) fn of_gguf(family: &str, weights: u64, file_type: &str) -> Self {
        Self {
            format: "gguf",
            family: family.to_owned(),
            model_type: human(weights),
            file_type: file_type.to_owned(),
            architecture: "amd64",
            os: "linux",
            ..Self::default()
        }
    }
}

/// Formats a number of weights as Ollama does (format.HumanNumber).
fn human(number: u64) -> String {
    let whole = |unit: u64| number.is_multiple_of(unit);
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let of = |unit: u64| number as f64 / unit as f64;
    match number {
        1_000_000_000.. if whole(1_000_000_000) => format!("{}B", number / 1_000_000_000),
        1_000_000_000.. => format!("{:.1}B", of(1_000_000_000)),
        1_000_000.. if whole(1_000_000) => format!("{}M", number / 1_000_000),
        1_000_000.. => format!("{:.2}M", of(1_000_000)),
        1_000.. => format!("{:.0}K", of(1_000)),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256_of;

    /// The config that Ollama's server writes in its own test (routes_create_test.go), and its
    /// digest.
    #[test]
    fn the_config_of_a_gguf_model() {
        let mut text = Config::of_gguf("test", 0, "unknown").to_json();
        text.push('\n');
        let digest = "99759ad5b91e723db0393d698ffbb448b1b7df5ff6377a108c49254583b1bc8c";
        assert_eq!(sha256_of(text.as_bytes()).unwrap(), digest, "{text}");
    }

    #[test]
    fn numbers_of_weights() {
        let shown: Vec<String> =
            [0, 999, 240_960, 1_344_768, 7_000_000, 7_240_000_000, 8_000_000_000]
                .map(human)
                .to_vec();
        assert_eq!(shown, ["0", "999", "241K", "1.34M", "7M", "7.2B", "8B"]);
    }
}
