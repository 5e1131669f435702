//! Recognizes the weights of models that people mistake for whole language models: those that make images or video, and
//! draft models.

use std::borrow::Cow;

use super::config;
use crate::error::Error;
use crate::store::Store;

/// Values of `general.architecture` in the files of ComfyUI-GGUF and stable-diffusion.cpp.
#[rustfmt::skip]
const ARCHITECTURES: &[&str] = &[
    "aura", "cosmos", "flux", "hidream", "hyvid", "ltxv", "lumina2", "qwen_image", "sd1", "sd3", "sdxl", "wan",
];

const KIND: &str = "the weights of a diffusion model, which makes images or video, not text";
const ADAPTER: &str = "a LoRA adapter of a diffusion model, which makes images or video, not text";

/// Of a GGUF file that llama.cpp's converter writes with --mmproj.
const TOWERS: &str =
    "the vision or audio model and the projector of a language model, which is a file of its own";

/// The modules that hold a diffusion model in a checkpoint with other models, which ComfyUI-GGUF's converter removes.
pub(crate) const MODULES: [&str; 2] = ["model.diffusion_model.", "diffusion_model."];

/// The beginnings of tensors' names in checkpoints of Stable Diffusion, Flux and their relatives, and in adapters of
/// kohya's scripts.
const NAMES: &[(&str, &str)] = &[
    (MODULES[0], KIND),
    (MODULES[1], KIND),
    ("first_stage_model.", KIND),
    ("double_blocks.", KIND),
    ("joint_blocks.", KIND),
    ("transformer_blocks.", KIND),
    ("down_blocks.", KIND),
    ("up_blocks.", KIND),
    ("time_embedding.", KIND),
    ("time_projection.", KIND),
    ("time_text_embed.", KIND),
    ("time_in.", KIND),
    ("cap_embedder.", KIND),
    ("noise_refiner.", KIND),
    ("t_embedder.", KIND),
    ("double_layers.", KIND),
    ("double_stream_blocks.", KIND),
    ("lora_unet_", ADAPTER),
    ("lora_te", ADAPTER),
    ("lora_transformer_", ADAPTER),
    ("unet.", ADAPTER),
    ("transformer.transformer_blocks.", ADAPTER),
    ("transformer.single_transformer_blocks.", ADAPTER),
];

/// The kind of a model that makes images or video, or of parts of a model; `None` for language models. `architecture` is the name that its
/// files give.
pub(crate) fn found(store: &Store, architecture: Option<&str>) -> Option<&'static str> {
    let is_class = architecture.is_none() && class(store).is_some();
    let kind = match architecture {
        Some("clip") => Some(TOWERS),
        Some(name) => named(name),
        None => store.tensors().find_map(|tensor| {
            let name = tensor.name().spelling();
            NAMES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, kind)| *kind)
        }),
    };
    kind.or(is_class.then_some(KIND))
}

/// The ends of the names of transformers' classes of vision and audio models without a language model.
const TOWER_CLASSES: &[&str] = &[
    "VisionModel",
    "VisionModelWithProjection",
    "VisionTransformer",
    "AudioEncoder",
    "AudioModel",
];

/// The class of a vision or audio model without a language model: `SiglipVisionModel`.
pub(crate) fn tower_alone(store: &Store) -> Option<&str> {
    let config = store.document("config.json")?;
    let class = config::class_name(config)?;
    let is_alone = config::nested_configs(config).len() == 1;
    (is_alone && TOWER_CLASSES.iter().any(|end| class.ends_with(end))).then_some(class)
}

/// The class of diffusers that a model is of.
pub(super) fn class(store: &Store) -> Option<&str> {
    store.document("config.json")?.get("_class_name")?.as_str()
}

/// The error of a request that needs a language model, for a model of this kind.
pub(crate) fn refused(kind: impl Into<Cow<'static, str>>) -> Error {
    let kind: Cow<'static, str> = kind.into();
    let programs = match kind.contains("diffusion") {
        true => {
            "convert.py of ComfyUI-GGUF, and stable-diffusion.cpp with `-M convert`, write such models as GGUF"
        }
        false => "the programs that run such models convert them",
    };
    Error::unsupported(kind)
        .advise(format!("`inspect`, `diff` and `dump` read its tensors; {programs}"))
}

/// The same for a value of `general.architecture`.
pub(crate) fn named(architecture: &str) -> Option<&'static str> {
    ARCHITECTURES.contains(&architecture).then_some(KIND)
}

const DRAFT: &str =
    "the draft model of EAGLE, which predicts tokens from the hidden states of another model";

/// The kind of a draft model: its first matrix joins the embedding of a token with one or more hidden states. It may have
/// the config of the model that it is for.
pub(crate) fn draft(store: &Store) -> Option<&'static str> {
    let joins = store.find("fc.weight").is_some_and(|tensor| {
        matches!(*tensor.shape(), [width, joined] if width > 0 && joined > width && joined % width == 0)
    });
    let mut names = store.tensors().map(|tensor| tensor.name().spelling());
    let is_of_layer = |name: &str| name.starts_with("layers.0.") || name.starts_with("midlayer.");
    (joins && names.any(|name| is_of_layer(&name))).then_some(DRAFT)
}
