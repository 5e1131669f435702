//! The config as `config.json`: the fields of [`ModelConfig`](crate::ModelConfig) under
//! transformers' names. The older names are used, which every version reads: `rope_theta` and
//! `rope_scaling`, not `rope_parameters`.

use super::config::flags::tensor_flags;
use super::config::{self, LayerKind, ModelConfig};
use super::family;
use super::source::SourceModel;
use super::variant::{Class, ConfigRule, Constant};
use crate::dtype::DType;
use crate::engines::transformers;
use crate::error::{Error, Result};
use crate::json::{Json, Map, Number, json};
use crate::store::Store;

/// The names of floats in `config.json`.
const FLOATS: [(&str, DType); 3] =
    [("bfloat16", DType::BF16), ("float16", DType::F16), ("float32", DType::F32)];

/// Writes a value under a key, or at a path of keys with points between them.
fn put(out: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => drop(out.insert(path.to_owned(), value)),
        Some((key, rest)) => {
            let object = out.entry(key.to_owned()).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(object) = object {
                put(object, rest, value);
            }
        }
    }
}

/// The `config.json` that the keys and tensors of a model give.
///
/// # Errors
///
/// `Unsupported` if `config.json` cannot express the model, or GGUF lacks a required number;
/// `Malformed` as for [`Model::config`](crate::Model::config).
pub(crate) fn hf_config(model: &SourceModel<'_>) -> Result<Map<String, Json>> {
    let (store, mapped) = (model.store(), model.mapped);
    let class = family::class_of(model).ok_or_else(|| {
        let fault = format!("no rules for the config.json of \"{}\"", model.architecture());
        Error::unsupported(fault).in_file(store.path())
    })?;
    let mut out = Map::new();
    out.insert("architectures".to_owned(), json!([class.class]));
    out.insert("model_type".to_owned(), class.model_type.into());
    for rule in class.rules.iter().copied().flatten() {
        match rule {
            ConfigRule::Field(field, key) => {
                alike_in_all_layers(model, field)?;
                if let Some(value) = model.derived(field) {
                    put(&mut out, key, value);
                }
            }
            ConfigRule::Needed(field, key) => {
                let value = model.derived(field).ok_or_else(|| model.missing_in_model(key))?;
                put(&mut out, key, value);
            }
            ConfigRule::Stated(key, name, usual) => {
                let value = match (model.gguf_value(key), usual) {
                    (Err(_), Some(usual)) => (*usual).into(),
                    (value, _) => value?,
                };
                put(&mut out, name, value);
            }
            ConfigRule::Fixed(key, value) => put(&mut out, key, (*value).into()),
            ConfigRule::By(rule) => rule(model, &mut out)?,
        }
    }
    without_mask(model, class.model_type, &mut out)?;
    follows_from_the_others(model, &out)?;
    let names = mapped.iter().map(|mapping| mapping.canonical.as_str());
    for flag in tensor_flags(&out, names).into_iter().filter(|flag| !flag.stated) {
        out.insert(flag.key.to_owned(), flag.tensor.is_some().into());
    }
    let defaults = transformers::defaults(class.model_type);
    for (key, default) in defaults {
        // Transformers refuses a float where its class has an integer.
        if let (Constant::Count(_), Some(value)) = (default, out.get_mut(key)) {
            let whole = value.as_number().filter(|number| number.is_float()).map(Number::as_f64);
            let whole = whole.filter(|real| real.fract() == 0.0);
            #[expect(clippy::cast_possible_truncation, reason = "counts fit")]
            whole.map(|real| real as i64).into_iter().for_each(|whole| *value = whole.into());
        }
    }
    let embedding = mapped.iter().find(|mapping| mapping.canonical == "token_embedding.weight");
    let embedding = embedding.and_then(|mapping| store.find(mapping.stored.first()?));
    let dtype = embedding.and_then(|tensor| tensor.dtype().ok());
    if let Some((name, _)) = FLOATS.iter().find(|(_, float)| Some(*float) == dtype) {
        out.insert("torch_dtype".to_owned(), (*name).into());
    }
    Ok(out)
}

/// The dtype of a model's floats, as its `config.json` states it.
pub(crate) fn stated_float(store: &Store) -> Option<DType> {
    let stated = |json: &Json| {
        let named = ["torch_dtype", "dtype"].iter().find_map(|key| json.get(key)?.as_str())?;
        FLOATS.iter().find(|(name, _)| *name == named).map(|(_, dtype)| *dtype)
    };
    let config = store.document("config.json")?;
    stated(config).or_else(|| stated(config.get("text_config")?))
}

/// States that a model has no padding token, where transformers' class has a default, which may lie
/// beyond the vocabulary.
pub(crate) fn without_padding(config: &mut Map<String, Json>) {
    let key = "pad_token_id";
    let model_type = config.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let defaults = transformers::defaults(model_type);
    if !config.contains_key(key) && defaults.iter().any(|(name, _)| *name == key) {
        config.insert(key.to_owned(), Json::Null);
    }
}

/// The class of this name.
pub(crate) fn class(name: &str) -> Option<&'static Class> {
    family::variants().flat_map(|variant| variant.classes).find(|own| own.class == name)
}

/// The class of the language model that a class of LLaVA's own code extends, as `LlavaLlamaForCausalLM` does. Its config has
/// the keys of both (`llava/model/language_model` of LLaVA 1.5 and 1.6).
pub(crate) fn class_in_llava(config: &Json) -> Option<&'static Class> {
    let text = config::class_name(config)?.strip_prefix("Llava")?;
    class(text.ends_with("ForCausalLM").then_some(text)?)
}

/// The config of the language model alone, if `config.json` is that of a model with images whose
/// text model has a class of its own in transformers.
pub(crate) fn text_alone(config: &Map<String, Json>) -> Option<Map<String, Json>> {
    if let Some(class) = class_in_llava(&Json::Object(config.clone())) {
        let mut text = config.clone();
        text.insert("architectures".to_owned(), json!([class.class]));
        text.insert("model_type".to_owned(), class.model_type.into());
        return Some(text);
    }
    let mut text = config.get("text_config")?.as_object()?.clone();
    let name = text.get("model_type").and_then(Json::as_str)?;
    let mut classes = family::variants().flat_map(|variant| variant.classes);
    let own = classes.find(|class| class.model_type == name);
    // Text models without a class of their own are written as another family's.
    let other = || match family::variants().find(|row| row.hf.contains(&name))?.classes {
        [class] => Some(class),
        _ => None,
    };
    let class = own.or_else(other)?;
    if own.is_none() || !text.contains_key("architectures") {
        text.insert("architectures".to_owned(), json!([class.class]));
    }
    text.insert("model_type".to_owned(), class.model_type.into());
    for (key, value) in config {
        let quantization = key.starts_with("quantization");
        let own = !value.is_object() && key != "model_type" && !text.contains_key(key);
        if quantization || own {
            text.insert(key.clone(), value.clone());
        }
    }
    Some(text)
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
    // Layers of linear attention, and those of a network alone, may state that they have no heads.
    let kinds = model.kinds().unwrap_or_default();
    let each = list.iter().flat_map(|list| list.value.iter().enumerate());
    let attends = |(layer, number): &(usize, &u32)| {
        let is_linear = kinds.get(*layer).copied() == Some(&LayerKind::Linear);
        let start = format!("layers.{layer}.");
        let mut parts = model.mapped.iter().filter_map(|of| of.canonical.strip_prefix(&start));
        **number > 0
            || !is_linear && (field == "ffn_dim" || parts.any(|part| !part.starts_with("ffn")))
    };
    let each: Vec<u32> = each.filter(attends).map(|(_, number)| *number).collect();
    match each.iter().all(|number| each.first() == Some(number)) {
        true => Ok(()),
        false => Err(model.inexpressible(&format!("a {what} for each layer"))),
    }
}

/// States that positions attend to later ones. Transformers 5 reads the key where it makes the mask of a decoder, whatever
/// the class; encoders have no mask, and classes of remote code do not read it.
fn without_mask(
    model: &SourceModel<'_>,
    model_type: &str,
    out: &mut Map<String, Json>,
) -> Result<()> {
    const STATED: [&str; 2] = ["is_causal", "use_bidirectional_attention"];
    let encodes = family::architecture(model.architecture(), true).is_some_and(|row| row.encodes);
    let is_causal = model.derived("causal") != Some(Json::Bool(false));
    if is_causal || encodes || STATED.iter().any(|key| out.contains_key(key)) {
        return Ok(());
    }
    if transformers::defaults(model_type).is_empty() {
        return Err(model.inexpressible("attention to later positions (attention.causal = false)"));
    }
    out.insert("is_causal".to_owned(), false.into());
    Ok(())
}

/// Checks a width of heads that is not stated: it must be `hidden_size / num_attention_heads`.
fn follows_from_the_others(model: &SourceModel<'_>, out: &Map<String, Json>) -> Result<()> {
    let states = ["head_dim", "qk_nope_head_dim", "d_kv"].iter().any(|key| out.contains_key(key));
    let ModelConfig { dim, n_heads, head_dim, .. } = &model.config;
    if states || dim.value.checked_div(n_heads.value) == Some(head_dim.value) {
        return Ok(());
    }
    let (heads, width) = (n_heads.value, head_dim.value);
    Err(model.inexpressible(&format!(
        "{heads} heads of width {width} in a model of width {}",
        dim.value
    )))
}
