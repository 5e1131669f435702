//! A machine's worth of models: small files in the layouts of all programs that `list models` knows,
//! below a folder that stands for the home directory.
//!
//! `cargo xtask machine FOLDER [FILES]` makes them; `cli/tests/it/cmd/models.rs` uses the same code.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The files that were made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub(crate) files: usize,
    pub(crate) models: usize,
    /// Models whose file is a copy of another program's file.
    pub(crate) copies: usize,
    /// Models whose file is a hard link to another program's file.
    pub(crate) links: usize,
}

/// The layouts, in the order in which models are made.
const LAYOUTS: usize = 9;

/// Makes models until there are this many files.
pub(crate) fn make(home: &Path, files: usize) -> io::Result<Made> {
    let mut machine = Machine { home: home.to_path_buf(), made: Made::default() };
    let mut number = 0;
    while machine.made.files < files {
        machine.model(number)?;
        number += 1;
    }
    Ok(machine.made)
}

struct Machine {
    home: PathBuf,
    made: Made,
}

impl Machine {
    fn model(&mut self, number: usize) -> io::Result<()> {
        let (round, layout) = (number / LAYOUTS, number % LAYOUTS);
        self.made.models += 1;
        // Every fourth model of LM Studio is a copy of Ollama's, every fourth one of
        // text-generation-webui a link to KoboldCpp's.
        let own = gguf(number);
        match layout {
            0 => self.repository(&format!("org{}/model-{round}", round % 10), number, false),
            1 => self.repository(&format!("mlx-community/model-{round}-4bit"), number, true),
            2 => self.ollama(&format!("model-{round}"), &own),
            3 => {
                let is_copy = round.is_multiple_of(4);
                self.made.copies += usize::from(is_copy);
                let content = if is_copy { gguf(number - 1) } else { own };
                let place = format!(".lmstudio/models/publisher/model-{round}-GGUF");
                self.file(&format!("{place}/model-{round}-Q8_0.gguf"), &content)
            }
            4 => self.file(&format!(".cache/llama.cpp/org_model-{round}_Q8_0.gguf"), &own),
            5 => self.file(&format!(".local/share/nomic.ai/GPT4All/model-{round}.Q8_0.gguf"), &own),
            6 => {
                let place = format!(".local/share/Jan/data/llamacpp/models/model-{round}");
                self.file(&format!("{place}/model.yml"), b"embedding: false\n")?;
                self.file(&format!("{place}/model.gguf"), &own)
            }
            7 => self.file(&format!("koboldcpp/model-{round}.gguf"), &own),
            _ => {
                let place = format!("text-generation-webui/user_data/models/model-{round}.gguf");
                if !round.is_multiple_of(4) {
                    return self.file(&place, &own);
                }
                let path = self.home.join(&place);
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
                let _ = std::fs::remove_file(&path);
                std::fs::hard_link(self.home.join(format!("koboldcpp/model-{round}.gguf")), path)?;
                self.made.links += 1;
                self.made.files += 1;
                Ok(())
            }
        }
    }

    fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        std::fs::write(path, content)?;
        self.made.files += 1;
        Ok(())
    }

    /// A repository in the hub cache: blobs by their digests, a revision of links to them, and the
    /// name of the revision.
    fn repository(&mut self, name: &str, number: usize, is_mlx: bool) -> io::Result<()> {
        let place = format!(".cache/huggingface/hub/models--{}", name.replace('/', "--"));
        let commit = &sha256(name.as_bytes())[..40];
        self.file(&format!("{place}/refs/main"), commit.as_bytes())?;
        let config = match is_mlx {
            true => r#"{"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}}"#,
            false => r#"{"model_type": "llama"}"#,
        };
        let weights = safetensors(number, is_mlx);
        let (config_blob, weights_blob) = (&sha256(config.as_bytes())[..40], sha256(&weights));
        for (name, blob, content) in [
            ("config.json", config_blob, config.as_bytes()),
            ("model.safetensors", &weights_blob, &weights),
        ] {
            self.file(&format!("{place}/blobs/{blob}"), content)?;
            self.link(&format!("{place}/snapshots/{commit}/{name}"), blob, content)?;
        }
        Ok(())
    }

    /// A link to a blob; a copy where links need a right, as the hub's client does it.
    fn link(&mut self, path: &str, blob: &str, content: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        {
            let (path, _) = (self.home.join(path), content);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(format!("../../blobs/{blob}"), path)?;
            self.made.files += 1;
            Ok(())
        }
        #[cfg(not(unix))]
        {
            let _ = blob;
            self.file(path, content)
        }
    }

    fn ollama(&mut self, name: &str, weights: &[u8]) -> io::Result<()> {
        let config = br#"{"model_format":"gguf","model_family":"llama"}"#;
        let layer = |kind: &str, content: &[u8]| {
            let (digest, size) = (sha256(content), content.len());
            format!(
                r#"{{"mediaType":"application/vnd.{kind}","digest":"sha256:{digest}","size":{size}}}"#
            )
        };
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
            layer("docker.container.image.v1+json", config),
            layer("ollama.image.model", weights)
        );
        let store = ".ollama/models";
        let place = format!("{store}/manifests/registry.ollama.ai/library/{name}/latest");
        self.file(&place, manifest.as_bytes())?;
        for content in [&config[..], weights] {
            self.file(&format!("{store}/blobs/sha256-{}", sha256(content)), content)?;
        }
        Ok(())
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that differ from model to model.
fn noise(number: usize, len: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let step = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // No NaN, whatever the dtype.
        state.to_be_bytes()[3] & 0x3f
    };
    std::iter::repeat_with(step).take(len).collect()
}

/// A GGUF file of the family llama with one tensor of 64 x 64 weights in Q8_0.
fn gguf(number: usize) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend(1u64.to_le_bytes());
    out.extend(2u64.to_le_bytes());
    text(&mut out, "general.architecture");
    out.extend(8u32.to_le_bytes());
    text(&mut out, "llama");
    text(&mut out, "general.file_type");
    out.extend(4u32.to_le_bytes());
    out.extend(7u32.to_le_bytes());
    text(&mut out, "token_embd.weight");
    out.extend(2u32.to_le_bytes());
    out.extend(64u64.to_le_bytes());
    out.extend(64u64.to_le_bytes());
    out.extend(8u32.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(noise(number, 64 * 64 / 32 * 34));
    out
}

/// A safetensors file with one matrix of 64 x 64 weights: BF16, or packed as MLX does it.
fn safetensors(number: usize, is_mlx: bool) -> Vec<u8> {
    let (header, len) = match is_mlx {
        false => (
            r#"{"model.embed_tokens.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]}}"#,
            8192,
        ),
        true => (
            r#"{"model.embed_tokens.weight":{"dtype":"U32","shape":[64,8],"data_offsets":[0,2048]},"model.embed_tokens.scales":{"dtype":"BF16","shape":[64,1],"data_offsets":[2048,2176]},"model.embed_tokens.biases":{"dtype":"BF16","shape":[64,1],"data_offsets":[2176,2304]}}"#,
            2304,
        ),
    };
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(noise(number, len));
    out
}
