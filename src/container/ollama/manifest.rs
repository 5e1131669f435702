//! Manifests: JSON documents that list the blobs of a model.

use std::path::{Path, PathBuf};

#[cfg(feature = "write")]
use super::super::writer::NewBlob;
use crate::bytes::{Access, Files, Source, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;

/// The blobs of one model.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) config: Option<Layer>,
    pub(crate) layers: Vec<Layer>,
}

/// One blob and its role in the model.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The last word of the media type: `tensor`, `model`, `license`.
    pub(crate) kind: String,
    pub(crate) digest: Digest,
    /// The size in bytes, according to the manifest.
    pub(crate) size: u64,
    /// The name of the tensor, group or file in the blob.
    pub(crate) name: String,
}

/// `sha256:` and 64 hexadecimal digits. Only these digits become part of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Digest(String);

impl Digest {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let hex = text.strip_prefix("sha256").and_then(|rest| rest.strip_prefix([':', '-']));
        let valid =
            |hex: &&str| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        match hex.filter(valid) {
            Some(hex) => Ok(Self(hex.to_owned())),
            None => {
                let shown = Text::new(text.as_bytes());
                Err(Error::malformed(format!(
                    "the digest \"{shown}\" is not sha256: and 64 hexadecimal digits"
                ))
                .advise("do not use this manifest: its digests are invalid"))
            }
        }
    }

    pub(crate) fn hex(&self) -> &str {
        &self.0
    }

    /// The path of the blob.
    pub(crate) fn path(&self, store: &Path) -> PathBuf {
        blob(store, &self.0)
    }

    /// The path of the blob in stores from before 2024.
    pub(super) fn old_path(&self, store: &Path) -> PathBuf {
        store.join(BLOBS).join(format!("sha256:{}", self.0))
    }
}

/// The folder of the blobs in a store.
pub(super) const BLOBS: &str = "blobs";

/// The path of the blob with a SHA-256 in hexadecimal.
pub(super) fn blob(store: &Path, hex: &str) -> PathBuf {
    store.join(BLOBS).join(format!("sha256-{hex}"))
}

/// Whether the JSON is a manifest or a list of manifests.
pub(super) fn is_manifest(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    text.starts_with(b"{") && has(b"\"schemaVersion\"") && (has(b"\"layers\"") || has(b"manifest"))
}

impl Manifest {
    /// Parses a manifest. Of a list, it takes the child for this machine whose blob is in the
    /// store.
    pub(crate) fn parse(
        json: &Json,
        store: &Path,
        files: &Files,
        read: &dyn Fn(&Path) -> Result<Json>,
    ) -> Result<Self> {
        let Some(children) = json.get("manifests").and_then(Json::as_array) else {
            return Self::single(json);
        };
        // On Apple silicon MLX's format is preferred, elsewhere GGUF.
        let preferred: [&str; 3] = if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
            ["mlx", "llamacpp", "ggml"]
        } else {
            ["llamacpp", "ggml", "mlx"]
        };
        for runner in preferred {
            for child in children {
                if child.get("runner").and_then(Json::as_str) != Some(runner) {
                    continue;
                }
                if child.get("layers").is_some() {
                    return Self::single(child);
                }
                let digest = child.get("digest").and_then(Json::as_str).unwrap_or_default();
                let path = Digest::parse(digest)?.path(store);
                if files.exists(&path) {
                    return Self::single(&read(&path)?);
                }
            }
        }
        Err(Error::malformed("none of the manifests in this list is in the store")
            .advise("pull the model again"))
    }

    fn single(json: &Json) -> Result<Self> {
        let Some(layers) = json.get("layers").and_then(Json::as_array) else {
            return Err(Error::malformed("the manifest has no layers"));
        };
        let config = json.get("config").filter(|config| config.is_object());
        Ok(Self {
            config: config.map(Layer::parse).transpose()?,
            layers: layers.iter().map(Layer::parse).collect::<Result<_>>()?,
        })
    }

    /// The total size of all blobs, in bytes, as `ollama list` computes it.
    pub(super) fn size(&self) -> u64 {
        self.layers.iter().chain(&self.config).map(|layer| layer.size).fold(0, u64::saturating_add)
    }
}

impl Layer {
    fn parse(json: &Json) -> Result<Self> {
        let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default();
        let media_type = text("mediaType");
        let kind = match media_type.strip_prefix("application/vnd.ollama.image.") {
            Some(kind) => kind,
            None if media_type.contains(".container.image.") => "config",
            None => media_type,
        };
        Ok(Self {
            kind: kind.to_owned(),
            digest: Digest::parse(text("digest"))?,
            size: json.get("size").and_then(Json::as_u64).unwrap_or(0),
            name: text("name").to_owned(),
        })
    }
}

/// Writes the manifest of a new model.
#[cfg(feature = "write")]
pub(super) fn new_manifest(blobs: &[NewBlob<'_>]) -> Vec<u8> {
    let layers = blobs.iter().map(|blob| Layer {
        kind: blob.role.to_owned(),
        digest: Digest(blob.digest.to_owned()),
        size: blob.size,
        name: blob.name.to_owned(),
    });
    let (config, layers): (Vec<Layer>, Vec<Layer>) = layers.partition(|l| l.kind == "config");
    Manifest { config: config.into_iter().next(), layers }.to_json()
}

/// Writes a stored manifest again with a blob in place of the layer `model`. Everything else stays,
/// including members that this program does not know.
#[cfg(feature = "write")]
pub(super) fn with_model(manifest: &Json, blob: &NewBlob<'_>) -> Vec<u8> {
    let mut manifest = manifest.clone();
    let layers = manifest.get_mut("layers").and_then(Json::as_array_mut);
    if let Some(model) = layers.into_iter().flatten().filter(|layer| is_model(layer)).last() {
        model["digest"] = format!("sha256:{}", blob.digest).into();
        model["size"] = blob.size.into();
    }
    let mut text = html_safe(&manifest.to_string());
    text.push('\n');
    text.into_bytes()
}

/// Whether a layer is a GGUF file of weights.
pub(super) fn is_model(layer: &Json) -> bool {
    let media_type = layer.get("mediaType").and_then(Json::as_str);
    media_type == Some("application/vnd.ollama.image.model")
}

impl Manifest {
    /// The manifest as Go's encoder writes it.
    fn to_json(&self) -> Vec<u8> {
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
    /// Opens a blob and checks its length against the manifest.
    pub(super) fn open(&self, store: &Path, files: &Files, access: Access) -> Result<Source> {
        let path = self.digest.path(store);
        let what = match self.name.as_str() {
            "" => format!("the {} layer", self.kind),
            name => format!("the layer \"{}\"", Text::new(name.as_bytes())),
        };
        let source = match files.open(&path, access) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                files.open(&self.digest.old_path(store), access).map_err(|_| {
                    Error::malformed(format!("the blob of {what} is missing"))
                        .in_file(&path)
                        .advise("pull the model again")
                })?
            }
            opened => opened?,
        };
        if source.len() != self.size {
            let fault =
                format!("{what} has {} bytes, but the manifest says {}", source.len(), self.size);
            return Err(Error::malformed(fault).in_file(&path).advise("pull the model again"));
        }
        Ok(source)
    }

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
pub(crate) fn quoted(text: &str) -> String {
    html_safe(&Json::from(text).to_string())
}

/// Escapes the characters that have a meaning in HTML. In JSON they occur only within strings.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
