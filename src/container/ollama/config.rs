//! The config blob of a model, in the form that Ollama fb307609 (2026-08-21) writes.

use super::abilities::Sources;
use super::manifest::quoted;
use crate::engines::ollama::{ChatFormat, chat_of_architecture};
use crate::json::Json;

/// The config blob of a model (`ConfigV2` of types/model/config.go). Empty fields are omitted where
/// Ollama omits them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ConfigBlob {
    /// `safetensors` or `gguf`.
    pub(crate) format: String,
    pub(crate) family: String,
    /// The number of weights in readable form, such as `8.0B`.
    pub(crate) model_type: String,
    /// The quantization, such as `Q4_K_M`.
    pub(crate) file_type: String,
    pub(crate) renderer: String,
    pub(crate) parser: String,
    /// The oldest Ollama version that reads the model.
    pub(crate) requires: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) draft: Option<DraftEntry>,
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// The draft model in a config blob.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct DraftEntry {
    pub(crate) format: String,
    pub(crate) architecture: String,
    /// The prefix of its tensors' names; empty for a draft in GGUF.
    pub(crate) tensor_prefix: String,
    /// The name of its `config.json`.
    pub(crate) config: String,
}

/// The settings of a config blob that the tensors and documents do not give.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigSettings {
    pub(crate) renderer: Option<String>,
    pub(crate) parser: Option<String>,
    pub(crate) requires: Option<String>,
    pub(crate) draft: Option<DraftEntry>,
    /// The config of the stored model that the new one is made from. Its renderer, parser and
    /// capabilities stay, since its chat template need not be in the store.
    pub(crate) base: Option<Json>,
    /// The quantization; `None` for the one that all quantized tensors have.
    pub(crate) file_type: Option<&'static str>,
    /// The content of `chat_template.jinja`, which the store does not hold and the capabilities
    /// depend on.
    pub(crate) chat_template: String,
}

/// The oldest Ollama version that reads models of tensor blobs (`MinOllamaVersion` of
/// x/create/client).
pub(crate) const MIN_VERSION: &str = "0.19.0";

/// A setting of the Modelfile, else that of the base, else the one that was found.
fn chosen(set: &Option<String>, base: Option<&String>, found: &str) -> String {
    let set = set.as_ref().or(base.filter(|text| !text.is_empty()));
    set.map_or(found, String::as_str).to_owned()
}

impl ConfigBlob {
    /// The blob's JSON, without the line feed that Ollama writes for GGUF models only.
    pub(crate) fn to_json(&self) -> String {
        let families = match self.family.as_str() {
            "" => "null".to_owned(),
            family => format!("[{}]", quoted(family)),
        };
        let mut text = format!(
            "{{\"model_format\":{},\"model_family\":{},\"model_families\":{families},\
             \"model_type\":{},\"file_type\":{}",
            quoted(&self.format),
            quoted(&self.family),
            quoted(&self.model_type),
            quoted(&self.file_type)
        );
        let optional =
            [("renderer", &self.renderer), ("parser", &self.parser), ("requires", &self.requires)];
        push_fields(&mut text, &optional);
        if !self.capabilities.is_empty() {
            let all: Vec<String> = self.capabilities.iter().map(|name| quoted(name)).collect();
            text.push_str(&format!(",\"capabilities\":[{}]", all.join(",")));
        }
        if let Some(draft) = &self.draft {
            let mut fields = String::new();
            let all = [
                ("model_format", &draft.format),
                ("architecture", &draft.architecture),
                ("tensor_prefix", &draft.tensor_prefix),
                ("config", &draft.config),
            ];
            push_fields(&mut fields, &all);
            text.push_str(&format!(",\"draft\":{{{}}}", fields.trim_start_matches(',')));
        }
        let (architecture, os) = (quoted(&self.architecture), quoted(&self.os));
        text.push_str(&format!(",\"architecture\":{architecture},\"os\":{os}}}"));
        text
    }

    /// Reads a config blob. Fields that are missing or of another type are empty.
    pub(crate) fn parse(json: &Json) -> Self {
        let text = |json: &Json, key: &str| {
            json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
        };
        let capabilities = json.get("capabilities").and_then(Json::as_array);
        let capabilities = capabilities.into_iter().flatten().filter_map(Json::as_str);
        let draft = json.get("draft").filter(|draft| draft.is_object());
        Self {
            format: text(json, "model_format"),
            family: text(json, "model_family"),
            model_type: text(json, "model_type"),
            file_type: text(json, "file_type"),
            renderer: text(json, "renderer"),
            parser: text(json, "parser"),
            requires: text(json, "requires"),
            capabilities: capabilities.map(str::to_owned).collect(),
            draft: draft.map(|draft| DraftEntry {
                format: text(draft, "model_format"),
                architecture: text(draft, "architecture"),
                tensor_prefix: text(draft, "tensor_prefix"),
                config: text(draft, "config"),
            }),
            architecture: text(json, "architecture"),
            os: text(json, "os"),
        }
    }

    /// The config of a model of tensor blobs.
    pub(crate) fn of_tensors(
        sources: &Sources<'_>,
        file_type: &str,
        settings: &ConfigSettings,
    ) -> Self {
        let base = settings.base.as_ref().map(Self::parse);
        let base = base.as_ref();
        let found = if base.is_some() { ChatFormat::default() } else { sources.chat_format() };
        let parser = chosen(&settings.parser, base.map(|base| &base.parser), found.parser);
        let capabilities = match base {
            Some(base) if settings.parser.is_none() => base.capabilities.clone(),
            _ => sources.capabilities(&parser).into_iter().map(str::to_owned).collect(),
        };
        Self {
            format: "safetensors".to_owned(),
            file_type: file_type.to_owned(),
            renderer: chosen(&settings.renderer, base.map(|base| &base.renderer), found.renderer),
            parser,
            requires: settings.requires.clone().unwrap_or_else(|| MIN_VERSION.to_owned()),
            capabilities,
            draft: settings.draft.clone().or_else(|| base?.draft.clone()),
            ..Self::default()
        }
    }

    /// The config of a model in one GGUF file.
    pub(crate) fn of_gguf(
        family: &str,
        weights: u64,
        file_type: &str,
        settings: &ConfigSettings,
    ) -> Self {
        let (found, _) = chat_of_architecture(family);
        let base = settings.base.as_ref().map(Self::parse);
        let base = base.as_ref();
        Self {
            format: "gguf".to_owned(),
            family: family.to_owned(),
            model_type: human(weights),
            file_type: file_type.to_owned(),
            renderer: chosen(&settings.renderer, base.map(|base| &base.renderer), found.renderer),
            parser: chosen(&settings.parser, base.map(|base| &base.parser), found.parser),
            requires: chosen(&settings.requires, base.map(|base| &base.requires), ""),
            capabilities: base.map(|base| base.capabilities.clone()).unwrap_or_default(),
            draft: settings.draft.clone().or_else(|| base?.draft.clone()),
            ..Self::of_nothing()
        }
    }

    /// The config of a manifest without weights: of an adapter or a projector alone.
    pub(crate) fn of_nothing() -> Self {
        Self { architecture: "amd64".to_owned(), os: "linux".to_owned(), ..Self::default() }
    }
}

/// Appends the fields that are not empty, each after a comma.
fn push_fields(text: &mut String, fields: &[(&str, &String)]) {
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!(",\"{key}\":{}", quoted(value)));
    }
}

/// Formats a number of weights as Ollama does (format.HumanNumber).
pub(crate) fn human(number: u64) -> String {
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
        let config = ConfigBlob::of_gguf("test", 0, "unknown", &ConfigSettings::default());
        let mut text = config.to_json();
        text.push('\n');
        let digest = "99759ad5b91e723db0393d698ffbb448b1b7df5ff6377a108c49254583b1bc8c";
        assert_eq!(sha256_of(text.as_bytes()).unwrap(), digest, "{text}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let draft = DraftEntry {
            format: "safetensors".to_owned(),
            architecture: "Assistant".to_owned(),
            tensor_prefix: "draft.".to_owned(),
            config: "draft/config.json".to_owned(),
        };
        let base = ConfigBlob { draft: Some(draft), ..ConfigBlob::default() };
        let settings = ConfigSettings {
            renderer: Some("r<1>".to_owned()),
            parser: Some("harmony".to_owned()),
            requires: Some("0.30.0".to_owned()),
            draft: None,
            base: Some(Json::parse(base.to_json().as_bytes()).unwrap()),
            ..ConfigSettings::default()
        };
        let config = ConfigBlob::of_tensors(&Sources::default(), "int4", &settings);
        let text = config.to_json();
        insta::assert_snapshot!(text, @r#"{"model_format":"safetensors","model_family":"","model_families":null,"model_type":"","file_type":"int4","renderer":"r\u003c1\u003e","parser":"harmony","requires":"0.30.0","capabilities":["completion","tools","thinking"],"draft":{"model_format":"safetensors","architecture":"Assistant","tensor_prefix":"draft.","config":"draft/config.json"},"architecture":"","os":""}"#);
        assert_eq!(ConfigBlob::parse(&Json::parse(text.as_bytes()).unwrap()), config);
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
