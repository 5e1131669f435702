//! Recognizes the weights of models that people mistake for whole language models: those that make images or video, and
//! draft models.

use crate::json::Json;
use crate::store::Store;

/// Values of `general.architecture` in the files of ComfyUI-GGUF and stable-diffusion.cpp.
#[rustfmt::skip]
const ARCHITECTURES: &[&str] = &[
    "aura", "cosmos", "flux", "hidream", "hyvid", "ltxv", "lumina2", "qwen_image", "sd1", "sd3", "sdxl", "wan",
];

/// The beginnings of tensors' names in checkpoints of Stable Diffusion, Flux and their relatives.
const NAMES: &[&str] = &[
    "model.diffusion_model.",
    "diffusion_model.",
    "first_stage_model.",
    "double_blocks.",
    "joint_blocks.",
    "transformer_blocks.",
    "down_blocks.",
    "up_blocks.",
];

const KIND: &str = "the weights of a diffusion model, which makes images or video, not text";

/// The kind of a model that makes images or video; `None` for language models. `architecture` is the name that its
/// files give.
pub(super) fn found(store: &Store, architecture: Option<&str>) -> Option<&'static str> {
    let config = store.document("config.json");
    let is_class = architecture.is_none()
        && config.and_then(|config| config.get("_class_name")).and_then(Json::as_str).is_some();
    let is_named = match architecture {
        Some(name) => named(name).is_some(),
        None => store.tensors().any(|tensor| {
            let name = tensor.name().spelling();
            NAMES.iter().any(|start| name.starts_with(start))
        }),
    };
    (is_class || is_named).then_some(KIND)
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
