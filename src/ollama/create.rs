//! The options of the `create` verb: what a Modelfile adds to the weights of a model.

use std::path::{Path, PathBuf};

use super::QuantType;
use super::go_template::GoTemplate;
use super::layers::{NewLayers, gguf_role};
use super::modelfile::{Instruction, Modelfile};
use crate::adapter::Adapter;
use crate::container::OLLAMA;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::recipe::FileType;
use crate::store::Encoding;

/// Options of [`create`](crate::ops::create): how tensors are quantized, and what is added to the model.
///
/// ```
/// use weighbridge::ops::{self, CreateOptions};
/// use weighbridge::Model;
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let options = CreateOptions::new().system("Be brief.").parameter("temperature", "0.2")?;
/// let plan = ops::create(&model, options)?;
/// assert_eq!(plan.files().len(), 4); // weights, system prompt, parameters, config
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct CreateOptions {
    pub(crate) quantization: Option<QuantType>,
    pub(crate) file_type: Option<FileType>,
    pub(crate) layers: NewLayers,
    /// Notes on parameters that are left out.
    pub(crate) ignored: Vec<String>,
}

impl CreateOptions {
    /// Copies the model as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Quantizes each tensor to the type that Ollama would choose for it.
    #[must_use]
    pub fn quantize(mut self, quantization: impl Into<Option<QuantType>>) -> Self {
        self.quantization = quantization.into();
        self
    }

    /// Makes one GGUF blob, quantized as by [`quantize`](crate::ops::quantize).
    #[must_use]
    pub fn file_type(mut self, file_type: impl Into<Option<FileType>>) -> Self {
        self.file_type = file_type.into();
        self
    }

    /// Quantizes the tensors of the [draft model](Self::draft).
    #[must_use]
    pub fn quantize_draft(mut self, quantization: impl Into<Option<QuantType>>) -> Self {
        self.layers.draft_quantization = quantization.into();
        self
    }

    /// Sets the prompt template, in Go's template language.
    ///
    /// # Errors
    ///
    /// `Mismatch` if its blocks are not closed.
    pub fn template(mut self, text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        GoTemplate::parse(&text)?;
        self.layers.template = Some(text);
        Ok(self)
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.layers.system = Some(text.into());
        self
    }

    /// Adds the text of a license.
    #[must_use]
    pub fn license(mut self, text: impl Into<String>) -> Self {
        self.layers.licenses.push(text.into());
        self
    }

    /// Sets a parameter of runs, such as `temperature`. `stop` may be set several times.
    ///
    /// # Errors
    ///
    /// `Mismatch` for a name that Ollama does not know, and a value of another type.
    pub fn parameter(mut self, name: &str, value: &str) -> Result<Self> {
        if !self.layers.parameters.set(name, value)? {
            self.ignored.push(format!("the parameter {name} has no effect any more: left out"));
        }
        Ok(self)
    }

    /// Adds a message that conversations begin with. The role is `system`, `user` or `assistant`.
    #[must_use]
    pub fn message(mut self, role: impl Into<String>, text: impl Into<String>) -> Self {
        self.layers.messages.push((role.into(), text.into()));
        self
    }

    /// Sets the name of the renderer that writes prompts, instead of a template.
    #[must_use]
    pub fn renderer(mut self, name: impl Into<String>) -> Self {
        self.layers.settings.renderer = Some(name.into());
        self
    }

    /// Sets the name of the parser that reads answers.
    #[must_use]
    pub fn parser(mut self, name: impl Into<String>) -> Self {
        self.layers.settings.parser = Some(name.into());
        self
    }

    /// Sets the oldest version of Ollama that runs the model: `0.14.0`.
    ///
    /// # Errors
    ///
    /// `Mismatch` unless it is a version with one to three numbers.
    pub fn requires(mut self, version: &str) -> Result<Self> {
        let version = version.strip_prefix('v').unwrap_or(version);
        if !is_version(version) {
            let fault = format!("\"{version}\" is not a version of Ollama");
            return Err(Error::mismatch(fault).advise("such as 0.14.0"));
        }
        self.layers.settings.requires = Some(version.to_owned());
        Ok(self)
    }

    /// Adds an adapter or a projector: a GGUF file, or an adapter of PEFT or mlx-lm, which is converted to GGUF for the
    /// model.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the file is neither; same as [`Model::open`].
    pub fn file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let model = Model::open(path)?;
        if model.encoding() != Encoding::Gguf {
            let adapter = Adapter::of(&model)?.filter(|adapter| !adapter.is_empty());
            let neither = || {
                let fault = "neither an adapter, in GGUF or a folder of PEFT or mlx-lm, nor a projector in GGUF";
                Error::unsupported(fault).in_file(path)
            };
            self.layers.adapters.push(adapter.ok_or_else(neither)?);
            return Ok(self);
        }
        if gguf_role(model.metadata()) == "model" {
            let fault = "neither an adapter nor a projector: a whole model";
            return Err(Error::mismatch(fault).in_file(path));
        }
        self.layers.files.push(model);
        Ok(self)
    }

    /// Adds a draft model: a GGUF file to a GGUF model, a directory to a model of tensor blobs.
    ///
    /// # Errors
    ///
    /// Same as [`Model::open`].
    pub fn draft(mut self, path: impl AsRef<Path>) -> Result<Self> {
        self.layers.draft = Some(Model::open(path)?);
        Ok(self)
    }

    /// Adds what the instructions of a Modelfile set, and returns the model that `FROM` names, or
    /// `from` in its place. Relative paths start at `folder`. If `FROM` occurs several times, one
    /// names the model, and the others its projectors or the other shards of its file.
    ///
    /// # Errors
    ///
    /// Same as the other methods; same as [`Model::open`].
    pub fn modelfile(
        mut self,
        file: &Modelfile,
        folder: &Path,
        from: Option<Model>,
    ) -> Result<(Model, Self)> {
        let is_given = from.is_some();
        let mut main = from;
        let at = |path: &str| expanded(path, folder);
        for instruction in &file.instructions {
            self = match instruction {
                Instruction::From(_) if is_given => self,
                Instruction::From(from) => {
                    let path = at(from);
                    // A name of a model in the store, unless there is such a file.
                    let is_path = path.exists() || from.starts_with('~');
                    let path = if is_path { path } else { PathBuf::from(from) };
                    let model = Model::open(&path)?;
                    let own = |other: &Model| other.files().any(|file| is_same(file, &path));
                    let is_part = model.encoding() == Encoding::Gguf
                        && model.container() != OLLAMA.name
                        && gguf_role(model.metadata()) != "model";
                    match &main {
                        _ if is_part => self.layers.files.push(model),
                        None => main = Some(model),
                        Some(main) if own(main) => {}
                        Some(main) => {
                            let fault = format!(
                                "FROM names two models; the first is {}",
                                main.path().display()
                            );
                            return Err(Error::mismatch(fault).in_file(&path));
                        }
                    }
                    self
                }
                Instruction::Adapter(path) => self.file(at(path))?,
                Instruction::Draft(path) => self.draft(at(path))?,
                Instruction::Template(text) => self.template(text)?,
                Instruction::System(text) => self.system(text),
                Instruction::License(text) => self.license(text),
                Instruction::Renderer(name) => self.renderer(name),
                Instruction::Parser(name) => self.parser(name),
                Instruction::Requires(version) => self.requires(version)?,
                Instruction::Parameter(name, value) => self.parameter(name, value)?,
                Instruction::Message(role, text) => self.message(role, text),
            };
        }
        // An adapter or a projector alone is a manifest of its own.
        let main = main.or_else(|| self.layers.files.pop());
        let missing = || Error::new(ErrorKind::NotFound, "the Modelfile has no FROM line");
        Ok((main.ok_or_else(missing)?, self))
    }
}

/// Whether a text is a version of one to three numbers, with what may follow them.
fn is_version(text: &str) -> bool {
    let (numbers, rest) = match text.find(['-', '+']) {
        Some(at) => text.split_at_checked(at).unwrap_or((text, "")),
        None => (text, ""),
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    let label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+');
    parts.len() <= 3
        && parts.iter().all(is_number)
        && (rest.is_empty() || parts.len() == 3 && rest.len() > 1 && rest.chars().all(label))
}

/// A path in a Modelfile: `~` is the user's folder.
fn expanded(path: &str, folder: &Path) -> PathBuf {
    let home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (home, std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        _ => folder.join(path),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for right in ["0.14.0", "1", "1.2", "0.33.0-rc2", "1.2.3+b"] {
            assert!(is_version(right), "{right}");
        }
        for wrong in ["", "a", "1.", "1.2.3.4", "01.2", "1.2-rc", "1.2.3-", "1.2.3-a b"] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }
}
