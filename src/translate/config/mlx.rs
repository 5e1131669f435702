//! The config as mlx-lm's classes read it: `config.json` with the keys that they require, and with
//! the numbers of rotary embeddings under the older names as well.

use crate::arch::config::TEXT_CONFIGS;
use crate::arch::factor;
use crate::arch::source::SourceModel;
use crate::arch::{Dialect, LayerKind, LayerLayout, Resolution, family, source_model};
use crate::engines::{Constant, mlx_lm, transformers};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::store::Store;

/// Adds to a `config.json` what mlx-lm's class of the model requires, or would take from a default
/// that differs from that of transformers' class.
///
/// # Errors
///
/// `Unsupported` if mlx-lm's class cannot express the model; `Malformed` as for
/// [`Model::config`](crate::Model::config).
pub(crate) fn state_for_mlx_lm(
    store: &Store,
    resolution: &Resolution,
    config: &mut Map<String, Json>,
) -> Result<()> {
    let model = source_model(store, resolution)?;
    let inner = TEXT_CONFIGS.iter().find(|name| config.get(name).is_some_and(Json::is_object));
    let text = match inner.and_then(|name| config.get_mut(name)) {
        Some(Json::Object(text)) => text,
        _ => &mut *config,
    };
    if inner.is_some() {
        // Transformers takes it from the outer config, mlx-lm from this one. The tensors decide.
        text.extend(
            model.derived("tie_embeddings").map(|tied| ("tie_word_embeddings".to_owned(), tied)),
        );
    }
    let model_type = text.get("model_type").and_then(Json::as_str).unwrap_or_default().to_owned();
    let class = mlx_lm::class(&model_type);
    // mlx-lm's classes know the fields' names alone.
    for (other, field) in transformers::other_names(&model_type) {
        if let Some(value) = text.get(other).filter(|_| !text.contains_key(field)).cloned() {
            text.insert(field.to_owned(), value);
        }
    }
    drop_unread_rope(text, &model_type);
    state_rope(text, &model_type);
    name_longrope(text);
    if resolution.dialect != Dialect::Mlx {
        factor::neutral(&model, factor::rules(resolution), text);
    }
    let newer = class.is_some_and(|class| class.reads_rope_parameters);
    if newer {
        rope_in_one_object(text);
    }
    if !newer || is_scaled(text) {
        rope_under_both_names(text);
    }
    let encodes = text.get("use_bidirectional_attention").and_then(Json::as_bool) == Some(true);
    if let Some(class) = class {
        let defaults = transformers::defaults(&model_type);
        for key in &class.stated {
            let of_class = defaults.iter().find(|(name, _)| name == key);
            // `null` is a statement only where the class has a default.
            let omitted = match text.get(key) {
                None => true,
                Some(Json::Null) => of_class.is_none(),
                Some(_) => false,
            };
            if omitted {
                let of_class = of_class.map(|(_, value): &(_, Constant)| Json::from(*value));
                let value = match of_layers(&model, key, encodes)? {
                    None => model.named(key)?.or(of_class),
                    layers => layers,
                };
                text.insert((*key).to_owned(), value.unwrap_or(Json::Null));
            }
        }
        let is_omitted = |key: &&&str| inner.is_some() && !text.contains_key(key);
        let omitted = class.sizes.iter().filter(is_omitted);
        for key in omitted.copied().collect::<Vec<_>>() {
            text.extend(model.named(key)?.map(|value| (key.to_owned(), value)));
        }
    }
    let refuses = mlx_lm::conditions(&model_type).flat_map(|one| &one.refuses);
    if let Some(fault) = mlx_lm::faults(refuses, text).first() {
        return Err(model.inexpressible_in_mlx_lm(fault));
    }
    by_family(&model, config, inner.copied().unwrap_or_default(), &model_type)
}

/// Applies the rules of the model's family: to the whole config if it is of a `model_type` of the family, otherwise to the
/// language model's, at the key `inner`.
fn by_family(
    model: &SourceModel<'_>,
    config: &mut Map<String, Json>,
    inner: &str,
    model_type: &str,
) -> Result<()> {
    let variant = |name: &str| family::variants().find(|row| row.hf.contains(&name));
    let outer = config.get("model_type").and_then(Json::as_str).and_then(variant);
    let Some(rule) = outer.or_else(|| variant(model_type)).and_then(|row| row.mlx_config) else {
        return Ok(());
    };
    match config.get_mut(inner) {
        Some(Json::Object(text)) if outer.is_none() => rule(model, text),
        _ => rule(model, config),
    }
}

/// Keys that follow from the layers. `encodes` says whether tokens see those after them, so
/// that the model is one for mlx-embeddings.
fn of_layers(model: &SourceModel<'_>, key: &str, encodes: bool) -> Result<Option<Json>> {
    let layout = model.config.layers.as_ref().map(|layers| &layers.value);
    match (key, layout) {
        ("layer_types", Some(_)) => {
            let kinds = model.kinds().unwrap_or_default();
            Ok(Some(kinds.into_iter().map(|kind| kind.name()).collect()))
        }
        ("layer_types", None) => {
            let full = std::iter::repeat_n(LayerKind::Full.name(), model.own_layers() as usize);
            Ok(Some(full.collect()))
        }
        ("qkv_bias", _) => Ok(Some(model.has_in_layers("attention.q.bias").into())),
        ("sliding_window_pattern", None) => Ok(Some(1.into())),
        ("sliding_window_pattern", Some(LayerLayout::Period(period, LayerKind::Sliding)))
        | ("full_attention_interval", Some(LayerLayout::Period(period, LayerKind::Linear))) => {
            Ok(Some(period.get().into()))
        }
        // The period is longer than the model. mlx-lm, which generates text, reads the cache of a
        // layer without a window, and fails if there is none; mlx-embeddings has no cache.
        ("sliding_window_pattern", Some(LayerLayout::Same(LayerKind::Sliding))) if encodes => {
            Ok(Some(model.own_layers().saturating_add(1).into()))
        }
        ("sliding_window_pattern" | "full_attention_interval", _) => {
            Err(model.inexpressible_in_mlx_lm("layers whose kinds do not repeat"))
        }
        _ => Ok(None),
    }
}

/// The keys that hold the numbers of rotary embeddings: the newer form, and the older one.
const ROPE: [&str; 2] = ["rope_parameters", "rope_scaling"];

fn is_stated(config: &Map<String, Json>, key: &str) -> bool {
    config.get(key).is_some_and(|value| !value.is_null())
}

/// Removes numbers of rotary embeddings that transformers' class does not read: mlx-lm's class would.
fn drop_unread_rope(config: &mut Map<String, Json>, model_type: &str) {
    let reads = |key, is_beside| transformers::reads_older(model_type, key, is_beside);
    let is_beside =
        is_stated(config, ROPE[0]) || is_stated(config, ROPE[1]) && reads(ROPE[1], false);
    for key in ["rope_theta", "partial_rotary_factor", ROPE[1]] {
        if !reads(key, is_beside) {
            config.remove(key);
        }
    }
    // The class takes the older object in place of the newer one.
    let has = |key: &&str| config.get(key).and_then(Json::as_object).is_some_and(|o| !o.is_empty());
    if ROPE.iter().all(has) {
        config.remove(ROPE[0]);
    }
}

/// States the rotary embeddings that transformers' class has by default, which mlx-lm's has not, with the numbers that
/// the config states beside them.
fn state_rope(config: &mut Map<String, Json>, model_type: &str) {
    const NUMBERS: [&str; 3] = ["rope_theta", "rope_local_base_freq", "partial_rotary_factor"];
    if ROPE.iter().any(|key| is_stated(config, key)) {
        return;
    }
    let stated: Vec<&str> = NUMBERS.into_iter().filter(|key| is_stated(config, key)).collect();
    let Some(Json::Object(mut rope)) = transformers::rope_of_class(model_type) else { return };
    // The numbers of each kind of layer have names of their own.
    if !stated.is_empty() && rope.values().any(Json::is_object) {
        return;
    }
    rope.extend(
        stated.into_iter().filter_map(|key| Some((key.to_owned(), config.get(key)?.clone()))),
    );
    config.insert(ROPE[0].to_owned(), Json::Object(rope));
}

/// Names LongRoPE by its newer name, with the length that transformers looks for beside the newer name alone.
fn name_longrope(config: &mut Map<String, Json>) {
    for key in ROPE {
        let Some(Json::Object(rope)) = config.get_mut(key) else { continue };
        let has_lists = rope.contains_key("long_factor");
        for name in ["rope_type", "type"].into_iter().filter(|_| has_lists) {
            if let Some(kind) = rope.get_mut(name).filter(|kind| **kind == "su" || **kind == "yarn")
            {
                *kind = "longrope".into();
            }
        }
    }
}

/// Gathers the numbers of rotary embeddings in `rope_parameters`, for classes that read nothing else.
fn rope_in_one_object(config: &mut Map<String, Json>) {
    if is_stated(config, ROPE[0]) {
        return;
    }
    let scaling = config.get(ROPE[1]).and_then(Json::as_object).cloned();
    let Some(base) = config.get("rope_theta") else { return };
    let mut rope = scaling.unwrap_or_default();
    let kind = rope.get("rope_type").or(rope.get("type")).cloned();
    rope.insert("rope_type".to_owned(), kind.unwrap_or_else(|| "default".into()));
    rope.insert("rope_theta".to_owned(), base.clone());
    config.insert(ROPE[0].to_owned(), Json::Object(rope));
}

/// Whether the newer form states another kind of rotary embeddings than the usual one. Some classes read the base there, and
/// the kind in the older form.
fn is_scaled(config: &Map<String, Json>) -> bool {
    let kind = config.get(ROPE[0]).and_then(|rope| rope.get("rope_type")?.as_str());
    kind.is_some_and(|kind| kind != "default")
}

/// Transformers 5 saves the numbers of rotary embeddings in `rope_parameters`; mlx-lm's classes read
/// `rope_theta`, `rope_scaling`, `partial_rotary_factor` and `rope_local_base_freq`.
fn rope_under_both_names(config: &mut Map<String, Json>) {
    let rope = config.get("rope_parameters").and_then(Json::as_object).cloned();
    let object = |rope: &Map<String, Json>, name| rope.get(name).and_then(Json::as_object).cloned();
    let full = rope.as_ref().and_then(|rope| object(rope, "full_attention"));
    let sliding = rope.as_ref().and_then(|rope| object(rope, "sliding_attention"));
    let Some(full) = full.or(rope) else { return };
    let kind = full.get("rope_type").or(full.get("type")).and_then(Json::as_str);
    let kind = kind.unwrap_or("default").to_owned();
    let local = sliding.as_ref().and_then(|sliding| sliding.get("rope_theta"));
    let scaling = (kind != "default").then(|| {
        let mut scaling = full.clone();
        for name in ["rope_type", "type"] {
            scaling.insert(name.to_owned(), kind.as_str().into());
        }
        Json::Object(scaling)
    });
    // The class takes these of the object, whatever stands beside it.
    for key in ["rope_theta", "partial_rotary_factor"] {
        config.extend(full.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    for (key, value) in [("rope_local_base_freq", local.cloned()), ("rope_scaling", scaling)] {
        let absent = config.get(key).is_none_or(Json::is_null);
        if let Some(value) = value.filter(|_| absent) {
            config.insert(key.to_owned(), value);
        }
    }
}
