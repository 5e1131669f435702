//! What a store has of a model beside its weights: its place, its manifest, its config. As Ollama
//! fb307609 (2026-08-21) writes them.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::manifest::{Digest, Layer, Manifest};
use super::name::{self, Name};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::store::{Part, document};

/// The manifest's file for a model of that name, which need not be there yet: in `store`, or where
/// Ollama of this user keeps its models.
///
/// # Errors
///
/// `Mismatch` for what is no name by Ollama's grammar; `NotFound` if nothing says where the store
/// lies; `Unsupported` if the name stands in the second tree of manifests, which would hide it.
pub fn place(name: &str, store: Option<&Path>) -> Result<PathBuf> {
    let Some(parsed) = Name::parse(name) else {
        return Err(Error::mismatch("no name that Ollama gives a model")
            .in_file(Path::new(name))
            .advise("[HOST/][NAMESPACE/]MODEL[:TAG], of letters, digits, '_', '-' and '.'"));
    };
    let store = store.map(Path::to_path_buf).or_else(name::own_store).ok_or_else(|| {
        Error::not_found("nothing says where Ollama keeps its models").advise("set OLLAMA_MODELS")
    })?;
    let path = parsed.place(&store);
    match parsed.find(&store) {
        Some(found) if found != path => {
            let fault = "a model of that name stands in the second tree, which this program reads";
            Err(Error::unsupported(fault).in_file(&found).advise("give another name"))
        }
        _ => Ok(path),
    }
}

/// The store that a [place] lies in.
pub(crate) fn store_of_place(manifest: &Path) -> Option<PathBuf> {
    let tree = manifest.ancestors().nth(4)?;
    (tree.file_name()? == name::WRITTEN).then(|| tree.parent().map(Path::to_path_buf))?
}

/// What a part of a tensor is called in a blob.
pub(crate) fn part_name(tensor: &str, part: Part) -> String {
    match part {
        Part::Weight => tensor.to_owned(),
        Part::Scale => format!("{tensor}.scale"),
        Part::Bias => format!("{tensor}.bias"),
        Part::GlobalScale => format!("{tensor}.global_scale"),
        other => format!("{tensor}.{}", other.name()),
    }
}

/// A blob that has just been written, and what the manifest calls it.
#[derive(Debug)]
pub(crate) struct NewBlob<'b> {
    pub(crate) name: &'b str,
    pub(crate) digest: &'b Digest,
    pub(crate) size: u64,
}

/// A manifest whose blobs are still to be written.
#[derive(Clone, Debug)]
pub(crate) enum NewManifest {
    /// A new model: the kind of each blob, in Ollama's words.
    Create(Vec<String>),
    /// A stored manifest in which the only blob takes the place of the layer `model`. Everything else
    /// stays, members that this program does not know included.
    ReplaceModel(Json),
}

impl NewManifest {
    /// The manifest's bytes.
    pub(crate) fn to_json(&self, blobs: &[NewBlob<'_>]) -> Vec<u8> {
        match self {
            Self::Create(kinds) => {
                let layers = kinds.iter().zip(blobs).map(|(kind, blob)| Layer {
                    kind: kind.clone(),
                    digest: blob.digest.clone(),
                    size: blob.size,
                    name: blob.name.to_owned(),
                });
                let (config, layers): (Vec<Layer>, Vec<Layer>) =
                    layers.partition(|layer| layer.kind == "config");
                Manifest { config: config.into_iter().next(), layers }.to_json()
            }
            Self::ReplaceModel(manifest) => {
                let mut manifest = manifest.clone();
                let layers = manifest.get_mut("layers").and_then(Json::as_array_mut);
                let models = layers.into_iter().flatten().filter(|layer| is_model(layer));
                if let (Some(model), Some(blob)) = (models.last(), blobs.first()) {
                    model["digest"] = format!("sha256:{}", blob.digest.hex()).into();
                    model["size"] = blob.size.into();
                }
                let mut text = html_safe(&manifest.to_string());
                text.push('\n');
                text.into_bytes()
            }
        }
    }
}

fn is_model(layer: &Json) -> bool {
    let media_type = layer.get("mediaType").and_then(Json::as_str);
    media_type == Some("application/vnd.ollama.image.model")
}

/// The manifest of a model of one GGUF blob, as far as its weights can be replaced.
///
/// # Errors
///
/// `Unsupported` for a manifest that is itself kept as a blob or stands in the second tree, and for a
/// list of manifests.
pub(crate) fn replaceable_model(path: &Path, limits: &Limits) -> Result<NewManifest> {
    let refused = |fault: &str| {
        let advice = "copy the model to a file with `weighbridge convert NAME copy.gguf --to gguf`, \
                      change the copy, and create a model from it";
        Err(Error::unsupported(fault.to_owned()).advise(advice).in_file(path))
    };
    if path.is_symlink() {
        return refused("this manifest is itself named by its digest, so it cannot be changed");
    }
    if store_of_place(path).is_none() {
        return refused("this manifest stands in the second tree, which this program only reads");
    }
    let manifest = document::read(path, "", limits)?.json;
    let layers = manifest.get("layers").and_then(Json::as_array);
    match layers.is_some_and(|layers| layers.iter().any(is_model)) {
        true => Ok(NewManifest::ReplaceModel(manifest)),
        false => refused("this manifest lists other manifests, so it cannot be changed"),
    }
}

impl Manifest {
    /// The file, as Go's encoder writes it.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let layers: Vec<String> = self.layers.iter().map(Layer::to_json).collect();
        let config = match &self.config {
            Some(config) => format!("\"config\":{},", config.to_json()),
            None => String::new(),
        };
        let text = format!(
            "{{\"schemaVersion\":2,\
             \"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\
             {config}\"layers\":[{}]}}\n",
            layers.join(",")
        );
        text.into_bytes()
    }
}

impl Layer {
    fn to_json(&self) -> String {
        let media_type = match self.kind.as_str() {
            "config" => "application/vnd.docker.container.image.v1+json".to_owned(),
            kind => format!("application/vnd.ollama.image.{kind}"),
        };
        let name = match self.name.as_str() {
            "" => String::new(),
            name => format!(",\"name\":{}", quoted(name)),
        };
        format!(
            "{{\"mediaType\":{},\"digest\":\"sha256:{}\",\"size\":{}{name}}}",
            quoted(&media_type),
            self.digest.hex(),
            self.size
        )
    }
}

/// A JSON string as Go's encoder writes it: safe within HTML.
fn quoted(text: &str) -> String {
    html_safe(&Json::from(text).to_string())
}

/// JSON in which no character has a meaning in HTML. All of them stand within strings.
fn html_safe(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// What the config blob of a model says (`ConfigV2` of types/model/config.go). What is empty is
/// left out where Ollama leaves it out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// `safetensors` or `gguf`.
    pub(crate) format: &'static str,
    pub(crate) family: String,
    /// How many weights there are, for people.
    pub(crate) model_type: String,
    /// What it is quantized to.
    pub(crate) file_type: String,
    pub(crate) renderer: &'static str,
    pub(crate) parser: &'static str,
    /// The oldest Ollama that reads it.
    pub(crate) requires: &'static str,
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) architecture: &'static str,
    pub(crate) os: &'static str,
}

impl Config {
    /// The blob's bytes but for the end of the line, which only GGUF models have.
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

/// Families that Ollama has a renderer and a parser for, by what their `architectures` or
/// `model_type` holds, in lower case: what it holds, the renderer, the parser, and what the parser
/// adds to what the model can do, as far as that was seen (x/create/client).
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
    /// That of a model of tensors, by its `config.json`.
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

    /// That of a model in one GGUF file.
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

/// A number of weights as Ollama shows it (format.HumanNumber).
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

    /// The config that Ollama's server makes in its own test (routes_create_test.go), and its digest.
    #[test]
    fn the_config_of_a_gguf_model() {
        let mut text = Config::of_gguf("test", 0, "unknown").to_json();
        text.push('\n');
        let digest = "99759ad5b91e723db0393d698ffbb448b1b7df5ff6377a108c49254583b1bc8c";
        assert_eq!(sha256_of(text.as_bytes()), digest, "{text}");
    }

    #[test]
    fn numbers_of_weights() {
        let shown: Vec<String> =
            [0, 999, 240_960, 1_344_768, 7_000_000, 7_240_000_000, 8_000_000_000]
                .map(human)
                .to_vec();
        assert_eq!(shown, ["0", "999", "241K", "1.34M", "7M", "7.2B", "8B"]);
    }

    #[test]
    fn manifests_are_safe_within_html() {
        let digest = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
        let layer = |kind: &str, name: &str| Layer {
            kind: kind.to_owned(),
            digest: digest.clone(),
            size: 3,
            name: name.to_owned(),
        };
        let manifest = Manifest {
            config: Some(layer("config", "")),
            layers: vec![layer("tensor", "a<b>&\"c")],
        };
        let text = String::from_utf8(manifest.to_json()).unwrap();
        let text = text.replace(digest.hex(), "0");
        insta::assert_snapshot!(text, @r#"{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"sha256:0","size":3},"layers":[{"mediaType":"application/vnd.ollama.image.tensor","digest":"sha256:0","size":3,"name":"a\u003cb\u003e\u0026\"c"}]}"#);
    }

    #[test]
    fn places() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        let at = |name: &str| place(name, Some(store));
        let written = store.join("manifests/registry.ollama.ai/library/Tales/int4");
        assert_eq!(at("Tales:int4").unwrap(), written);
        assert_eq!(store_of_place(&written).unwrap(), store);
        std::fs::create_dir_all(written.parent().unwrap()).unwrap();
        std::fs::write(&written, "{}").unwrap();
        // What is there is found in whatever case it is asked for.
        assert_eq!(at("tales:INT4").unwrap(), written);
        assert!(at("../x").is_err());
        let second = store.join("manifests-v2/ollama.com/library/other/latest");
        std::fs::create_dir_all(second.parent().unwrap()).unwrap();
        std::fs::write(&second, "{}").unwrap();
        assert_eq!(at("other").unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }
}
