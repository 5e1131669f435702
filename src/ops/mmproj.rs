//! Plans a GGUF file with the vision or audio model of a model with images or sounds. llama.cpp reads it
//! beside the file of the language model, and calls it a multimodal projector (mmproj).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use super::account;
use super::rewrite::merge;
use crate::arch::config::class_name;
use crate::arch::tower::{PROCESSORS, Tower, TowerConfig, TowerForm, TowerTensor};
use crate::arch::transform::{PLUS_ONE, SOFTPLUS, SQUEEZED};
use crate::arch::{Auxiliary, Resolution, family, other_models};
use crate::bytes::Text;
use crate::container::gguf;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::engines::{llama_cpp, mlx_vlm};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::model::{Attachment, Model, Tensor};
use crate::recipe::FileType;
use crate::store::Encoding;
use crate::tokenizer::Tokenizer;
use crate::translate;
use crate::write::{
    Builder, ItemKind, Method, OutTensor, Outcome, Output, Precision, Producer, WritePlan, encoded,
};

/// Dtypes of the matrices of a vision model that llama.cpp's converter offers.
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::Q8_0];

/// A note on a vision model that is in another file of a store or a folder.
pub(super) const ATTACHED: &str = "the vision or audio model is a file of its own (projector), which is left out: \
     converting with mmproj copies that file";

/// A note on a vision model in a GGUF file, whose tensors are written to safetensors.
pub(super) const KEPT: &str = "the tensors of the vision or audio model keep the names that the file has; config.json \
     describes the language model alone";

/// llama.cpp's script for a vision or audio model whose form in GGUF is not known here.
fn converter(model: &Model) -> String {
    if is_of_mlx(model) {
        return "the names and the layout of convolutions may be mlx-vlm's: convert the directory that the MLX model was \
                made from"
            .to_owned();
    }
    let text_class = model.resolution().ok().and_then(|resolution| resolution.text_class.as_ref());
    if let Some(class) = text_class {
        return format!(
            "config.json has no vision_config, since {} has no vision or audio model: put the config.json of the whole model \
             in its place",
            Text::new(class.as_bytes()).brief()
        );
    }
    let config = model.document("config.json");
    let inner = config.and_then(|config| config.get("vision_config"));
    let mut classes = [inner, config].into_iter().flatten();
    let class = classes.find_map(class_name);
    match class.map_or(Some("convert_hf_to_gguf.py --mmproj"), llama_cpp::mmproj_script) {
        Some(script) => format!("llama.cpp's {script} may be able to write the file"),
        None => "llama.cpp's scripts know no vision or audio model of this class either".to_owned(),
    }
}

fn is_of_mlx(model: &Model) -> bool {
    model.resolution().is_ok_and(|resolution| resolution.dialect == Dialect::Mlx)
}

/// The name of a stored tensor in transformers' class, which MLX directories may have otherwise.
fn of_class<'n>(model: &Model, resolution: &Resolution, stored: &'n str) -> Cow<'n, str> {
    let bare = resolution.bare(stored);
    let config = model.document("config.json").filter(|_| is_of_mlx(model));
    let class = config.and_then(Json::as_object).and_then(mlx_vlm::class_of);
    let renamed = class.and_then(|class| class.of_vision_model(&bare, false));
    renamed.map_or(bare, Cow::Owned)
}

/// Whether every tensor of the vision model has a name that its form in GGUF is known for.
fn is_known(model: &Model, tower: &Tower, config: &TowerConfig<'_>) -> bool {
    let knows = |stored: &str| matches!(tower.tensors(stored, config), Ok(Some(_)));
    model.resolution().is_ok_and(|resolution| {
        of_towers(resolution).all(|tensor| knows(&of_class(model, resolution, &tensor.stored)))
    })
}

/// The file with the vision model that the container attaches to a model.
pub(super) fn attached(model: &Model) -> Option<&Attachment> {
    model.attachments().iter().find(|layer| layer.kind == "projector")
}

/// Plans a copy of an attached vision model.
///
/// # Errors
///
/// `Unsupported` if another dtype is asked for; otherwise same as [`Model::open`].
pub(super) fn copied(layer: &Attachment, precision: Precision) -> Result<WritePlan> {
    if !precision.is_as_stored() {
        let fault = "the vision model that is attached to the model is copied as it is";
        return Err(Error::unsupported(fault).in_file(&layer.path));
    }
    merge(&Model::open(&layer.path)?, None)
}

/// The vision model of a model, and what its files say about it.
fn tower(model: &Model) -> Result<(&'static Tower, TowerConfig<'_>)> {
    let store = model.store();
    if store.encoding() == Encoding::Gguf {
        let found = model.resolution().into_iter().flat_map(of_towers);
        let found: Vec<&Auxiliary> = found.collect();
        let Some(first) = found.first() else {
            let fault = "a GGUF file with a language model contains no vision model";
            return Err(Error::unsupported(fault).advise("convert the original directory (mmproj)"));
        };
        let fault = format!(
            "the file has {} tensors of a vision or audio model, such as {}, but not its config, which an mmproj file \
             requires",
            found.len(),
            Text::new(first.stored.as_bytes()).brief()
        );
        let advice = "convert the original directory (mmproj); a conversion to safetensors keeps these tensors";
        return Err(Error::unsupported(fault).advise(advice));
    }
    let config = TowerConfig::of(store)?;
    let is_stated = config.is_some();
    let Some(config) = config.filter(|_| towers(model).is_ok_and(|found| found > 0)) else {
        if let Some(outer) = outer_config(model) {
            let fault =
                format!("the vision model is part of {outer}, which is not supported (mmproj)");
            return Err(Error::unsupported(fault).advise(converter(model)));
        }
        if of_towers(model.resolution()?).next().is_some() {
            let fault = "config.json has neither vision_config nor audio_config, which the file requires (mmproj)";
            return Err(Error::unsupported(fault).advise(converter(model)));
        }
        if let Some(class) = other_models::tower_alone(store) {
            let fault = format!(
                "a vision or audio model alone ({}), without the language model for which an mmproj file is written",
                Text::new(class.as_bytes()).brief()
            );
            return Err(
                Error::unsupported(fault).advise("give the directory of the whole model (mmproj)")
            );
        }
        return Err(match is_stated {
            true => Error::unsupported(
                "config.json describes a vision or audio model, and no stored tensor is known to be of it (mmproj)",
            )
            .advise(converter(model)),
            false => Error::unsupported(
                "the model has no vision model, so that there is no mmproj file to write",
            ),
        });
    };
    let tower = family::tower(&config).ok_or_else(|| {
        let name = config.text("model_type").unwrap_or("?");
        let fault = format!(
            "no mmproj file can be written for {} model \"{name}\" of a model \"{}\"",
            if config.part() == "vision" { "a vision" } else { "an audio" },
            config.model_type()
        );
        Error::unsupported(fault).advise(converter(model))
    })?;
    Ok((tower, config))
}

/// The key of `config.json` that has the config of a vision model inside, as that of a model of several
/// models does: `thinker_config`.
fn outer_config(model: &Model) -> Option<&str> {
    let root = model.document("config.json")?.as_object()?;
    let found = root.iter().find(|(_, value)| value.get("vision_config").is_some());
    found.map(|(key, _)| key.as_str())
}

/// The number of tensors of vision and audio models.
fn towers(model: &Model) -> Result<usize> {
    Ok(of_towers(model.resolution()?).count())
}

fn of_towers(resolution: &Resolution) -> impl Iterator<Item = &Auxiliary> {
    resolution.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower())
}

/// A note for a plan that writes a language model to GGUF: where its vision model goes.
pub(super) fn note(model: &Model) -> Result<Option<String>> {
    if attached(model).is_some() {
        return Ok(Some(ATTACHED.to_owned()));
    }
    if model.encoding() == Encoding::Gguf || !model.resolution()?.has_towers() {
        return Ok(None);
    }
    let how = match tower(model) {
        Ok((tower, config)) if is_known(model, tower, &config) => {
            "converting with mmproj writes that file".to_owned()
        }
        _ => converter(model),
    };
    let what = "llama.cpp reads the vision or audio model from a file of its own (mmproj)";
    Ok(Some(format!("{what}: {how}")))
}

/// Starts a builder with the vision model.
///
/// # Errors
///
/// `Unsupported` for a model without a vision model, one whose form in GGUF is not known, and a
/// required value that the documents lack; `Malformed` and `Mismatch` if they contradict the
/// tensors.
pub(super) fn projector(model: &Model, precision: Precision) -> Result<Builder> {
    let (tower, config) = tower(model)?;
    let resolution = model.resolution()?;
    let mut builder = Builder::with_writer(&gguf::write::WRITER);
    builder.reads(model.store());
    let sizes = (tower.sizes)(&config)?;
    let most = matrices(model, precision)?;
    let ours: HashSet<&str> = of_towers(resolution).map(|tensor| tensor.stored.as_str()).collect();
    let embedding = model.mapping("token_embedding.weight")?;
    let embedding = embedding.and_then(|mapping| mapping.stored.first()).map(String::as_str);
    let blocks = if config.part() == "vision" { "v.blk." } else { "a.blk." };
    let (mut left, mut layers) = (Vec::new(), BTreeSet::new());
    for view in model.stored_tensors() {
        let stored = view.name().to_owned();
        if Some(stored.as_str()) == embedding {
            for (token, name) in tower.tokens {
                let row = row_of(&view, token_number(model, token)?)?;
                let tensor = TowerTensor::vector(name);
                builder.push(OutTensor::new(*name, output(row, &tensor, most, precision)?));
            }
        }
        if !ours.contains(stored.as_str()) {
            continue;
        }
        let here = |error: Error| {
            let error = if is_of_mlx(model) { error.advise(converter(model)) } else { error };
            error.in_tensor(&stored).in_file(model.path())
        };
        let name = of_class(model, resolution, &stored);
        let tensors = tower.tensors(&name, &config)?.ok_or_else(|| {
            let fault = format!("not a known tensor of this {} model (mmproj)", config.part());
            here(Error::unsupported(fault).advise(converter(model)))
        })?;
        for tensor in tensors {
            if tensor.form == TowerForm::LeftOut {
                left.push((stored.clone(), "llama.cpp has no use for it".to_owned()));
                continue;
            }
            let layer = tensor.name.strip_prefix(blocks).and_then(|rest| rest.split('.').next());
            layers.extend(layer.and_then(|layer| layer.parse::<u32>().ok()));
            let formed = formed(view.clone(), &tensor, sizes.heads).map_err(here)?;
            let output = output(formed, &tensor, most, precision).map_err(here)?;
            builder.push(OutTensor::new(tensor.name, output));
        }
    }
    let (stated, found) = (sizes.layers as usize, layers.len());
    if stated != found || layers.last().is_some_and(|last| *last >= sizes.layers) {
        let part = config.part();
        let fault = format!("{stated} layers, but the {part} model has {found}");
        return Err(Error::malformed(fault)
            .in_file(model.path())
            .in_key(format!("config.json {part}_config")));
    }
    let weights = builder.tensors().iter().map(|tensor| elements(&tensor.output));
    let weights = weights.fold(0, u64::saturating_add);
    *builder.metadata() =
        translate::projector_metadata(model, tower, &config, weights, FileType::number_of(most))?;
    builder.leave_out(left);
    // The width of the language model is a key of the file.
    let width = model.config()?.dim.source.to_string();
    account::of_part(model, &mut builder, |kind, name| match kind {
        ItemKind::Tensor | ItemKind::Part => (Outcome::LeftOut, "a part of the language model"),
        ItemKind::ConfigKey if config.has_read(name) || width.ends_with(&format!(" {name}")) => {
            (Outcome::Derived, account::GGUF_KEYS)
        }
        ItemKind::File if name == "config.json" => (Outcome::Derived, "see its keys"),
        ItemKind::File if PROCESSORS.contains(&name) => (Outcome::Derived, account::GGUF_KEYS),
        _ => (Outcome::LeftOut, "describes the language model"),
    })?;
    Ok(builder)
}

fn elements(output: &Output) -> u64 {
    crate::shape::elements(output.producer.shape()).unwrap_or(0)
}

/// The dtype of the matrices: the requested one, or that of the first matrix.
fn matrices(model: &Model, precision: Precision) -> Result<DType> {
    if let Some(dtype) = precision.dtype {
        if DTYPES.contains(&dtype) {
            return Ok(dtype);
        }
        let names = DTYPES.map(DType::name).join(", ");
        let fault = format!("{dtype}, but matrices of an mmproj file are written as {names}");
        return Err(Error::unsupported(fault));
    }
    for tensor in of_towers(model.resolution()?) {
        let tensor = model.stored_tensor(&tensor.stored)?;
        if tensor.shape().len() > 1 {
            let own = tensor.dtype()?;
            return Ok(if DTYPES.contains(&own) { own } else { DType::F16 });
        }
    }
    Ok(DType::F16)
}

/// The tensor of the projector that is made of a stored one.
fn formed(view: Tensor, tensor: &TowerTensor, heads: u32) -> Result<Tensor> {
    let channels = view.shape().get(1).copied();
    if view.shape().len() > 3 && tensor.name.starts_with("v.patch_embd.") && channels != Some(3) {
        let fault = format!("shape {:?}, but [outputs, 3, ..] is needed", view.shape());
        return Err(Error::mismatch(fault));
    }
    if let Some((run, shape)) = tensor.rows(view.shape(), heads)? {
        let view = if tensor.form == TowerForm::Pixels { view.by_elements() } else { view };
        return Ok(view.selected(run, shape)?.named(&tensor.name));
    }
    let as_stored =
        |view, transform| Tensor::stored_as(&tensor.name, vec![(view, transform)], None);
    match tensor.form {
        TowerForm::PlusOne => as_stored(view, PLUS_ONE),
        TowerForm::Softplus => as_stored(view, SOFTPLUS),
        TowerForm::Squeezed => as_stored(view, SQUEEZED),
        TowerForm::Column => {
            let shape = [view.shape(), &[1]].concat();
            Ok(view.with_shape(&shape).named(&tensor.name))
        }
        // GGUF has no tensors without axes.
        _ if view.shape().is_empty() => Ok(view.with_shape(&[1]).named(&tensor.name)),
        _ => Ok(view.named(&tensor.name)),
    }
}

fn output(view: Tensor, tensor: &TowerTensor, most: DType, precision: Precision) -> Result<Output> {
    view.check_known()?;
    let dtype = tensor.dtype(view.shape(), most);
    let is_own = view.dtype().is_ok_and(|own| own == dtype) && view.why_computed().is_none();
    if is_own && view.packed().is_ok() {
        return Ok(Output::new(Producer::Packed(view), Method::Copied));
    }
    encoded(&view, dtype, None, precision)
}

/// A row of the embedding, as a vector.
fn row_of(embedding: &Tensor, number: u32) -> Result<Tensor> {
    let row =
        embedding.clone().slice_rows(u64::from(number)..u64::from(number).saturating_add(1))?;
    row.array(0)
}

/// The number of a token with this text.
fn token_number(model: &Model, text: &str) -> Result<u32> {
    let known = model.read_document("tokenizer_config.json")?;
    let known = known.as_ref().and_then(|json| json.get("added_tokens_decoder")?.as_object());
    let is = |json: &Json| json.get("content").and_then(Json::as_str) == Some(text);
    let stated = known.into_iter().flatten().find(|(_, json)| is(json));
    if let Some(number) = stated.and_then(|(number, _)| number.parse().ok()) {
        return Ok(number);
    }
    let tokenizer = Tokenizer::of(model.store())?;
    let found = tokenizer.as_ref().and_then(|tokenizer| {
        tokenizer.tokens().find(|token| *token.text == *text.as_bytes()).map(|token| token.id)
    });
    found.ok_or_else(|| {
        let fault =
            format!("an mmproj file requires the token {text}, which no tokenizer file has");
        Error::unsupported(fault).in_file(model.path())
    })
}
