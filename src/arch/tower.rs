//! Vision and audio models beside a language model, as llama.cpp reads them: a GGUF file of their own,
//! which its converter calls a multimodal projector (mmproj).
//!
//! Everything here follows from running llama.cpp's converter with `--mmproj` (`conversion/*.py`,
//! version in docs/formats/gguf.md). The tables are in
//! `arch/family/towers.rs` and `engines/llama.cpp/towers.txt`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;

use super::config::TEXT_CONFIGS;
use super::rule::{expand, pattern};
use super::runs::RowLoops;
use super::source::KeyWriter;
use crate::dtype::DType;
use crate::engines::llama_cpp;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::rounding::f32_of;
use crate::store::Store;

/// A kind of vision or audio model, and its form in GGUF.
#[derive(Debug)]
pub(crate) struct Tower {
    /// Values of `model_type` at the top of `config.json`.
    pub(crate) models: &'static [&'static str],
    /// Values of `model_type` in `vision_config`; empty if it does not matter.
    pub(crate) vision: &'static [&'static str],
    /// Starts of stored names, and what the table has instead. Each is tried once, in order.
    pub(crate) prefixes: &'static [(&'static str, &'static str)],
    /// Pieces of stored names, and what the table has instead.
    pub(crate) pieces: &'static [(&'static str, &'static str)],
    /// The name of the block with its tensors in `engines/llama.cpp/towers.txt`.
    pub(crate) rules: &'static str,
    /// Rows of the token embedding that the file has as vectors: the token's text, and the name in
    /// GGUF.
    pub(crate) tokens: &'static [(&'static str, &'static str)],
    /// Pieces of the table's names of tensors that are always `F32`.
    pub(crate) wide: &'static [&'static str],
    /// Pieces of the table's names of tensors that are always `F16`.
    pub(crate) half: &'static [&'static str],
    /// The sizes that every such model has.
    pub(crate) sizes: fn(&TowerConfig<'_>) -> Result<Sizes>,
    /// Further keys, in order.
    pub(crate) keys: fn(&TowerConfig<'_>, &mut KeyWriter<'_>) -> Result<()>,
}

/// The form in which GGUF has a stored tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TowerForm {
    /// Unchanged.
    Same,
    /// 1 is added to each value.
    PlusOne,
    /// The rows of each head are reordered from halves to pairs.
    Pairs,
    /// The first, second or last third of the rows: q, k or v.
    Third(u8),
    /// One of the two frames of a convolution over two frames.
    Frame(u8),
    /// Each row is a square of pixels, whose channels are last; they come first, as in a convolution.
    Pixels,
    /// Without the second axis, whose length is 1.
    Squeezed,
    /// With a second axis of length 1.
    Column,
    /// `ln(1 + e^x)` of each value.
    Softplus,
    /// Unchanged; the number in the name is an index into this list of `vision_config`.
    Numbered(&'static str),
    /// llama.cpp has no use for the tensor.
    LeftOut,
}

/// The sizes of a vision or audio model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Those of an image and of a patch; 0 for audio.
    pub(crate) image: u32,
    pub(crate) patch: u32,
    pub(crate) width: u32,
    pub(crate) ffn: u32,
    pub(crate) layers: u32,
    pub(crate) heads: u32,
}

/// The facts about a model's vision model, or its audio model if it has no vision model, from its files.
#[derive(Debug)]
pub(crate) struct TowerConfig<'a> {
    path: &'a Path,
    root: &'a Json,
    /// The object of `config.json`, and its name.
    section: &'static str,
    object: &'a Map<String, Json>,
    preprocessor: Map<String, Json>,
    /// The keys of `config.json` that were asked for, with the name of the language model's part before its own.
    read: RefCell<HashSet<String>>,
}

/// The documents of the image processor.
pub(crate) const PROCESSORS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];

const VISION: &str = "vision_config";
const AUDIO: &str = "audio_config";

impl<'a> TowerConfig<'a> {
    /// Reads `config.json` and the documents of the image processor. `None` for a model with neither
    /// `vision_config` nor `audio_config`.
    ///
    /// # Errors
    ///
    /// `Malformed`, `LimitExceeded` and `Io` if a document cannot be read.
    pub(crate) fn of(store: &'a Store) -> Result<Option<Self>> {
        let Some(root) = store.document("config.json") else { return Ok(None) };
        let object = |name| Some((name, root.get(name)?.as_object()?));
        let Some((section, object)) = [VISION, AUDIO].into_iter().find_map(object) else {
            return Ok(None);
        };
        let mut preprocessor = Map::new();
        // The later document has precedence, and what is nested in it.
        for (name, nested) in PROCESSORS.into_iter().zip(["media_proc_cfg", "image_processor"]) {
            let document = store.read_document(name)?.map(Cow::into_owned);
            let Some(Json::Object(document)) = document else { continue };
            let inner = document.get(nested).and_then(Json::as_object).cloned();
            preprocessor.extend(document);
            preprocessor.extend(inner.into_iter().flatten());
        }
        let read = RefCell::new(["model_type", section].map(str::to_owned).into());
        Ok(Some(Self { path: store.path(), root, section, object, preprocessor, read }))
    }

    /// The word for the part in names of keys: `vision` or `audio`. Names of tensors begin with its first letter.
    pub(crate) fn part(&self) -> &'static str {
        self.section.strip_suffix("_config").unwrap_or(self.section)
    }

    /// The name of the kind of model.
    pub(crate) fn model_type(&self) -> &str {
        self.root.get("model_type").and_then(Json::as_str).unwrap_or_default()
    }

    /// Whether the model is of this kind.
    pub(crate) fn is(&self, tower: &Tower) -> bool {
        let vision = self.text("model_type").unwrap_or_default();
        tower.models.contains(&self.model_type())
            && (tower.vision.is_empty() || tower.vision.contains(&vision))
    }

    /// A value at the top of `config.json`.
    pub(crate) fn outer(&self, key: &str) -> Option<&Json> {
        self.read.borrow_mut().insert(key.to_owned());
        self.root.get(key).filter(|value| !value.is_null())
    }

    /// A value of the language model's config.
    pub(crate) fn language(&self, key: &str) -> Option<&Json> {
        let inner = TEXT_CONFIGS.iter().find_map(|name| Some((name, self.root.get(name)?)));
        let (name, inner) = inner?;
        self.read.borrow_mut().insert(format!("{name}.{key}"));
        inner.get(key).filter(|value| !value.is_null())
    }

    /// Whether a key of `config.json` was asked for, with the name of the language model's part before its own.
    pub(crate) fn has_read(&self, key: &str) -> bool {
        self.read.borrow().contains(key)
    }

    /// A value of the image processor's documents.
    pub(crate) fn preprocessor(&self, key: &str) -> Option<&Json> {
        self.preprocessor.get(key).filter(|value| !value.is_null())
    }

    /// A value of `audio_config`, beside that of a vision model.
    pub(crate) fn audio(&self, key: &str) -> Option<&Json> {
        self.outer(AUDIO)?.get(key).filter(|value| !value.is_null())
    }

    /// A value of the model's config.
    pub(crate) fn value(&self, key: &str) -> Option<&Json> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A text of the model's config.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value(key).and_then(Json::as_str)
    }

    /// A count of the model's config, under the first of these names.
    ///
    /// # Errors
    ///
    /// `Unsupported` if no name is there; `Malformed` if it is not a count.
    pub(crate) fn count(&self, keys: &[&str]) -> Result<u32> {
        let found = keys.iter().find_map(|key| Some((*key, self.value(key)?)));
        let section = self.section;
        let Some((key, value)) = found else {
            let key = keys.first().copied().unwrap_or_default();
            return Err(self.missing(&format!("{section}.{key}"), "config.json"));
        };
        self.counted(value, &format!("config.json {section}.{key}"))
    }

    /// A count that may be absent.
    pub(crate) fn optional(&self, value: Option<&Json>, key: &str) -> Result<Option<u32>> {
        value.map(|value| self.counted(value, key)).transpose()
    }

    /// A number, or another one if it is absent.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is not a number.
    pub(crate) fn real(&self, value: Option<&Json>, key: &str, usual: f32) -> Result<f32> {
        let Some(value) = value else { return Ok(usual) };
        let real = value.as_f64().map(f32_of).filter(|real| real.is_finite());
        real.ok_or_else(|| self.invalid(value, key, "a number"))
    }

    /// A list of counts of the model's config.
    ///
    /// # Errors
    ///
    /// `Unsupported` if it is absent; `Malformed` if it is not a list of counts.
    pub(crate) fn counts(&self, key: &str) -> Result<Vec<u32>> {
        let (value, section) = (self.value(key), self.section);
        let value =
            value.ok_or_else(|| self.missing(&format!("{section}.{key}"), "config.json"))?;
        let key = format!("config.json {section}.{key}");
        let list = value.as_array().ok_or_else(|| self.invalid(value, &key, "a list of counts"))?;
        list.iter().map(|item| self.counted(item, &key)).collect()
    }

    fn counted(&self, value: &Json, key: &str) -> Result<u32> {
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        count.ok_or_else(|| self.invalid(value, key, "a count"))
    }

    /// An error for a value that the projector's file cannot express, or that is invalid.
    pub(crate) fn invalid(&self, found: &Json, key: &str, needed: &str) -> Error {
        let found = crate::bytes::Text::new(found.to_string().as_bytes()).brief();
        let fault = format!("{found}, but {needed} is needed");
        Error::malformed(fault).in_file(self.path).in_key(key)
    }

    /// An error for a value that the projector's file requires.
    pub(crate) fn missing(&self, what: &str, document: &str) -> Error {
        let fault = format!("an mmproj file requires {what}, which {document} lacks");
        Error::unsupported(fault).in_file(self.path)
    }

    /// Writes the keys of the model, in the order of llama.cpp's converter. `text` is the width of the
    /// language model.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a required value is absent; `Malformed` for an invalid one.
    pub(crate) fn keys(&self, tower: &Tower, text: u32, keys: &mut KeyWriter<'_>) -> Result<()> {
        let sizes = (tower.sizes)(self)?;
        let (part, sees) = (self.part(), self.section == VISION);
        keys.set(&format!("has_{part}_encoder"), &true.into());
        keys.count(&format!("{part}.projection_dim"), text);
        if sees {
            keys.count("vision.image_size", sizes.image);
            keys.count("vision.patch_size", sizes.patch);
        }
        keys.count(&format!("{part}.embedding_length"), sizes.width);
        keys.count(&format!("{part}.feed_forward_length"), sizes.ffn);
        keys.count(&format!("{part}.block_count"), sizes.layers);
        keys.count(&format!("{part}.attention.head_count"), sizes.heads);
        for name in ["image_mean", "image_std"].into_iter().filter(|_| sees) {
            let list = self.preprocessor(name).filter(|value| value.is_array());
            let list = list.ok_or_else(|| self.missing(name, "preprocessor_config.json"))?;
            keys.set(&format!("vision.{name}"), list);
        }
        (tower.keys)(self, keys)
    }

    /// Writes which activation the vision model has.
    ///
    /// # Errors
    ///
    /// `Malformed` for one that llama.cpp does not have.
    pub(crate) fn activation(&self, keys: &mut KeyWriter<'_>) -> Result<()> {
        match self.text("hidden_act").unwrap_or_default() {
            "silu" => keys.set("use_silu", &true.into()),
            "gelu" => keys.set("use_gelu", &true.into()),
            other => {
                let key = format!("config.json {VISION}.hidden_act");
                return Err(self.invalid(&other.into(), &key, "silu or gelu"));
            }
        }
        Ok(())
    }
}

/// The sizes under their usual names.
pub(crate) fn usual_sizes(config: &TowerConfig<'_>) -> Result<Sizes> {
    Ok(Sizes {
        image: config.count(&["image_size"])?,
        patch: config.count(&["patch_size"])?,
        width: config.count(&["hidden_size"])?,
        ffn: config.count(&["intermediate_size"])?,
        layers: config.count(&["num_hidden_layers", "depth"])?,
        heads: config.count(&["num_attention_heads", "num_heads"])?,
    })
}

/// A tensor of the projector's file.
#[derive(Debug)]
pub(crate) struct TowerTensor {
    /// Its name there.
    pub(crate) name: String,
    pub(crate) form: TowerForm,
    /// The dtype that it has in every file, if there is one.
    dtype: Option<DType>,
}

/// Ends of names. The limits are those of the values before and after a matrix.
const ENDINGS: [&str; 6] =
    [".weight", ".bias", ".input_max", ".input_min", ".output_max", ".output_min"];

impl TowerForm {
    /// Parses a form of `engines/llama.cpp/towers.txt`.
    fn parse(form: &'static str) -> Option<Self> {
        let (kind, of) = form.split_once('=').unwrap_or((form, ""));
        Some(match kind {
            "" => Self::Same,
            "plus_one" => Self::PlusOne,
            "pairs" => Self::Pairs,
            "third" => Self::Third(of.parse().ok()?),
            "frame" => Self::Frame(of.parse().ok()?),
            "pixels" => Self::Pixels,
            "squeezed" => Self::Squeezed,
            "column" => Self::Column,
            "softplus" => Self::Softplus,
            "numbered" => Self::Numbered(of),
            "left_out" => Self::LeftOut,
            _ => return None,
        })
    }
}

impl Tower {
    /// The names of each tensor in Hugging Face's files and in GGUF, and its form. `{n}` stands for the
    /// first number in a name. A name without one of [`ENDINGS`] at its end stands for all of them.
    fn rules(&self) -> impl Iterator<Item = (&'static str, &'static str, TowerForm)> {
        llama_cpp::tower(self.rules).iter().filter_map(|line| {
            let mut words = line.split(' ');
            let (stored, gguf) = (words.next()?, words.next()?);
            let gguf = if gguf == "-" { "" } else { gguf };
            Some((stored, gguf, TowerForm::parse(words.next().unwrap_or_default())?))
        })
    }

    /// The tensors that are made of a stored one; `None` for a name that the table does not have.
    ///
    /// # Errors
    ///
    /// As for [`TowerConfig::counts`].
    pub(crate) fn tensors(
        &self,
        stored: &str,
        config: &TowerConfig<'_>,
    ) -> Result<Option<Vec<TowerTensor>>> {
        let mut name = Cow::Borrowed(stored);
        for (prefix, instead) in self.prefixes {
            if let Some(rest) = name.strip_prefix(prefix) {
                name = format!("{instead}{rest}").into();
            }
        }
        for (piece, instead) in self.pieces {
            if name.contains(piece) {
                name = name.replace(piece, instead).into();
            }
        }
        let ending = ENDINGS.into_iter().find(|ending| name.ends_with(ending));
        let stem = ending.and_then(|ending| name.strip_suffix(ending)).unwrap_or(&name);
        let mut found = Vec::new();
        for (look, ending) in [(&*name, ""), (stem, ending.unwrap_or_default())] {
            let numbered = pattern(look);
            for (stored, gguf, form) in self.rules() {
                let start = stored.strip_suffix('*').is_some_and(|start| look.starts_with(start));
                if stored != numbered.layers && stored != look && !start {
                    continue;
                }
                let number = match (form, numbered.layer) {
                    (TowerForm::Numbered(list), Some(index)) => {
                        let list = config.counts(list)?;
                        usize::try_from(index).ok().and_then(|index| list.get(index).copied())
                    }
                    (_, number) => number,
                };
                let to = format!("{}{ending}", expand(gguf, number));
                let has = |pieces: &[&str]| pieces.iter().any(|piece| name.contains(piece));
                let dtype = if has(self.half) {
                    Some(DType::F16)
                } else if has(self.wide) {
                    Some(DType::F32)
                } else {
                    None
                };
                found.push(TowerTensor { name: to, form, dtype });
            }
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl TowerTensor {
    /// A vector of the file.
    pub(crate) fn vector(name: &str) -> Self {
        Self { name: name.to_owned(), form: TowerForm::Same, dtype: None }
    }

    /// The dtype in a file whose matrices have the dtype `most` (`prepare_tensors` of the
    /// converter).
    pub(crate) fn dtype(&self, shape: &[u64], most: DType) -> DType {
        let name = self.name.as_str();
        if shape.len() <= 1 || name.ends_with("_norm.weight") {
            return DType::F32;
        }
        if let Some(dtype) = self.dtype {
            return dtype;
        }
        if name.contains(".patch_embd.weight") || name.contains(".patch_merger.weight") {
            return if most == DType::F16 { DType::F16 } else { DType::F32 };
        }
        if name.contains("position_embd") || !name.ends_with(".weight") {
            return DType::F32;
        }
        let block = u64::from(most.descriptor().block_len);
        let whole = shape.last().is_some_and(|columns| columns.is_multiple_of(block.max(1)));
        if whole { most } else { DType::F16 }
    }

    /// The rows of a stored tensor with this shape that form it, and its own shape; `None` if they
    /// are all rows in order.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the shape does not fit.
    pub(crate) fn rows(&self, shape: &[u64], heads: u32) -> Result<Option<(RowLoops, Vec<u64>)>> {
        let misfit = |needed: &str| {
            Error::mismatch(format!("shape {shape:?}, but {needed}")).in_tensor(&self.name)
        };
        match (self.form, shape) {
            (TowerForm::Pairs, [rows, ..]) => {
                let heads = u64::from(heads);
                let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
                let half = width.filter(|width| width.is_multiple_of(2)).map(|width| width / 2);
                let half = half.ok_or_else(|| {
                    misfit(&format!("the config says {heads} heads of even width"))
                })?;
                let run = RowLoops { start: 0, loops: [(heads, 2 * half), (half, 1), (2, half)] };
                Ok(Some((run, shape.to_vec())))
            }
            (TowerForm::Third(part), [rows, rest @ ..]) => {
                if !rows.is_multiple_of(3) {
                    return Err(misfit("its rows are those of q, k and v"));
                }
                let third = rows / 3;
                let shape = [&[third], rest].concat();
                Ok(Some((RowLoops::of(u64::from(part) * third, third), shape)))
            }
            (TowerForm::Frame(frame), &[outputs, channels, 2, height, width]) => {
                let kernels = outputs.checked_mul(channels).ok_or_else(|| misfit("it fits"))?;
                let run =
                    RowLoops::repeated(u64::from(frame) * height, height, kernels, 2 * height);
                Ok(Some((run, vec![outputs, channels, height, width])))
            }
            (TowerForm::Pixels, &[outputs, columns]) => {
                let pixels = columns / 3;
                let side = pixels.isqrt();
                let square = side.checked_mul(side) == Some(pixels);
                if !square || !columns.is_multiple_of(3) {
                    return Err(misfit("rows of squares of pixels with 3 channels are needed"));
                }
                let loops = [(outputs, columns), (3, 1), (pixels, 3)];
                Ok(Some((RowLoops { start: 0, loops }, vec![outputs, 3, side, side])))
            }
            (TowerForm::Pixels, _) => Err(misfit("[outputs, pixels] is needed")),
            (TowerForm::Frame(_), _) => {
                Err(misfit("[outputs, channels, 2, height, width] is needed"))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::family;

    #[test]
    fn every_line_of_every_tower_is_a_rule() {
        for tower in family::towers() {
            let lines = llama_cpp::tower(tower.rules).len();
            assert!(lines > 10 && tower.rules().count() == lines, "{}", tower.rules);
        }
    }
}
