//! The config as `config.json`: the fields of [`ModelConfig`](crate::ModelConfig) under
//! transformers' names. The older names are used, which every version reads: `rope_theta` and
//! `rope_scaling`, not `rope_parameters`.

use serde_json::{Map, Value as Json, json};

use crate::arch::source::SourceModel;
use crate::arch::variant::ConfigRule;
use crate::arch::{ModelConfig, Resolution, family};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::Store;

/// The `config.json` of a model.
///
/// # Errors
///
/// `Unsupported` if `config.json` cannot express the model, or GGUF lacks a required number;
/// `Malformed` as for [`Model::config`](crate::Model::config).
pub(crate) fn hf_config(store: &Store, resolution: &Resolution) -> Result<Map<String, Json>> {
    let model = SourceModel::of(store, resolution)?;
    let fits = |when: fn(&SourceModel<'_>) -> bool| when(&model);
    let mut classes = family::classes(model.architecture());
    let class = classes.find(|class| class.when.is_none_or(fits)).ok_or_else(|| {
        let fault = format!("no rules for the config.json of \"{}\"", model.architecture());
        Error::unsupported(fault).in_file(store.path())
    })?;
    let mut out = Map::new();
    out.insert("architectures".to_owned(), json!([class.class]));
    out.insert("model_type".to_owned(), class.model_type.into());
    for rule in class.rules.iter().copied().flatten() {
        match rule {
            ConfigRule::Field(field, key) => {
                alike_in_all_layers(&model, field)?;
                if let Some(value) = model.settled(field) {
                    out.insert((*key).to_owned(), value);
                }
            }
            ConfigRule::Needed(field, key) => {
                let value = model.settled(field).ok_or_else(|| model.missing_in_model(key))?;
                out.insert((*key).to_owned(), value);
            }
            ConfigRule::Stated(key, name) => {
                out.insert((*name).to_owned(), model.gguf_value(key)?);
            }
            ConfigRule::Fixed(key, value) => {
                out.insert((*key).to_owned(), (*value).into());
            }
            ConfigRule::By(rule) => rule(&model, &mut out)?,
        }
    }
    follows_from_the_others(&model, &out)?;
    let embedding =
        resolution.mapped.iter().find(|mapping| mapping.canonical == "token_embedding.weight");
    let embedding = embedding.and_then(|mapping| store.find(mapping.stored.first()?));
    let dtype = match embedding.and_then(|tensor| tensor.dtype().ok()) {
        Some(DType::F32) => Some("float32"),
        Some(DType::F16) => Some("float16"),
        Some(DType::BF16) => Some("bfloat16"),
        _ => None,
    };
    if let Some(dtype) = dtype {
        out.insert("torch_dtype".to_owned(), dtype.into());
    }
    Ok(out)
}

/// The config in mlx-lm's form, for families that mlx-lm supports only as part of a model with
/// images.
pub(crate) fn within_in_mlx(config: &Map<String, Json>) -> Option<Map<String, Json>> {
    let name = config.get("model_type").and_then(Json::as_str);
    let mut classes = family::variants().flat_map(|variant| variant.classes);
    let outer =
        classes.find_map(|class| class.within.filter(|_| name == Some(class.model_type)))?;
    let mut out = Map::new();
    out.insert("model_type".to_owned(), outer.into());
    for key in ["architectures", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype"] {
        out.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    out.insert("text_config".to_owned(), Json::Object(config.clone()));
    Some(out)
}

/// Rejects a number that differs by layer; only some families have lists.
fn alike_in_all_layers(model: &SourceModel<'_>, field: &str) -> Result<()> {
    let config = &model.config;
    let (list, what) = match field {
        "ffn_dim" => (&config.ffn_dim_per_layer, "width of the feed-forward network"),
        "n_heads" => (&config.attention.n_heads_per_layer, "number of heads"),
        "n_kv_heads" => (&config.attention.n_kv_heads_per_layer, "number of key heads"),
        _ => return Ok(()),
    };
    let each = list.as_ref().map_or(&[][..], |list| &list.value);
    match each.iter().all(|number| each.first() == Some(number)) {
        true => Ok(()),
        false => Err(model.inexpressible(&format!("a {what} for each layer"))),
    }
}

/// Checks a width of heads that is not stated: it must be `hidden_size / num_attention_heads`.
fn follows_from_the_others(model: &SourceModel<'_>, out: &Map<String, Json>) -> Result<()> {
    let states = ["head_dim", "qk_nope_head_dim"].iter().any(|key| out.contains_key(*key));
    let ModelConfig { dim, n_heads, head_dim, .. } = &model.config;
    if states || dim.value.checked_div(n_heads.value) == Some(head_dim.value) {
        return Ok(());
    }
    let (heads, width) = (n_heads.value, head_dim.value);
    Err(model.inexpressible(&format!("{heads} heads of {width} for a width of {}", dim.value)))
}
