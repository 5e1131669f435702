//! The meaning of a `config.json` for computing, with the defaults of transformers' classes filled
//! in: two documents that say the same in other words are equal here.

use std::collections::BTreeMap;

use crate::arch::{LayerKind, config, family};
use crate::engines::transformers;
use crate::json::{Json, Map, json};

/// The values that the class of a `model_type` has for keys that a document leaves out; null if it
/// derives the value from others. `None` if transformers has no class.
pub(super) fn defaults(model_type: &str) -> Option<Map<String, Json>> {
    let class = transformers::class(model_type)?;
    let stated = class.defaults.iter().map(|(key, value)| (*key, Json::from(*value)));
    let derived = class.derived.iter().map(|key| (*key, Json::Null));
    let all = stated.chain(derived).filter(|(key, _)| !INERT.contains(key));
    Some(all.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Keys that do not change what a model computes: of lengths, of the order of sums, of padding, of training alone, and
/// those that are compared elsewhere.
const INERT: &[&str] = &[
    "attention_probs_dropout_prob",
    "attention_softmax_in_fp32",
    "chunk_size",
    "embedding_fraction",
    "hidden_dropout_prob",
    "input_jitter_noise",
    "learned_pos_emb",
    "mamba_chunk_size",
    "max_position_embeddings",
    "moe_jitter_eps",
    "moe_loss_weight",
    "n_positions",
    "num_logits_to_keep",
    "pad_token_id",
    "residual_in_fp32",
    "rope_parameters",
    "scale_attention_softmax_in_fp32",
    "slow_but_exact",
    "tie_word_embeddings",
    "time_step_init_scheme",
    "z_loss_coefficient",
];

/// Keys that state rotary embeddings, in older and newer documents.
const ROPE: &[&str] = &[
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "rotary_pct",
    "rope_local_base_freq",
    "rope_global_base_freq",
    "original_max_position_embeddings",
];

/// Keys that state which layers attend to a window, and its length.
const WINDOW: &[&str] = &[
    "sliding_window",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "prefix_dense_sliding_window_pattern",
    "layer_types",
    "use_sliding_window",
    "max_window_layers",
    "full_attn_idxs",
];

/// Keys that state groups of experts.
const EXPERT_GROUPS: &[&str] = &["n_group", "topk_group"];

/// Keys that state which layers have experts.
const EXPERT_LAYERS: &[&str] = &[
    "decoder_sparse_step",
    "first_k_dense_replace",
    "mlp_layer_types",
    "mlp_only_layers",
    "moe_layer_end_index",
    "moe_layer_interval",
    "moe_layer_start_index",
];

/// Keys that state which layers have rotary embeddings.
const ROTATED_LAYERS: &[&str] = &["no_rope_layers", "no_rope_layer_interval"];

/// Keys that state the width of the feed-forward network.
const FFN: &[&str] = &[
    "intermediate_size",
    "block_ff_dim",
    "ffn_hidden_size",
    "block_auto_adjust_ff_dim",
    "block_ffn_dim_multiplier",
    "block_multiple_of",
];

/// The name of the group of [`WINDOW`].
pub(super) const WINDOWS: &str = "sliding windows";

/// Keys that state one thing together.
const GROUPS: &[(&str, &[&str])] = &[
    ("rotary embeddings", ROPE),
    (WINDOWS, WINDOW),
    ("width of the network", FFN),
    ("groups of experts", EXPERT_GROUPS),
    ("layers with experts", EXPERT_LAYERS),
    ("layers with rotary embeddings", ROTATED_LAYERS),
];

/// The name of the group of keys that state one thing together.
pub(super) fn group(key: &str) -> &str {
    GROUPS.iter().find(|(_, keys)| keys.contains(&key)).map_or(key, |(name, _)| name)
}

/// The keys of the group with this name; `None` for a key.
pub(super) fn keys_of_group(name: &str) -> Option<&'static [&'static str]> {
    GROUPS.iter().find(|(group, _)| *group == name).map(|(_, keys)| *keys)
}

/// Whether this is the name of a group of keys, and not a key.
pub(super) fn is_group(name: &str) -> bool {
    keys_of_group(name).is_some()
}

/// A value, or the count of each layer if all layers have the same.
fn of_all_layers(value: &Json, layers: u32) -> Json {
    let each =
        value.as_array().filter(|each| layers > 1 && u32::try_from(each.len()) == Ok(layers));
    let one = each.and_then(|each| {
        let one = each.first().filter(|one| one.as_u64().is_some())?;
        each.iter().all(|other| other == one).then_some(one)
    });
    one.unwrap_or(value).clone()
}

/// The meaning of a document, by group of keys. `layers` is the number of layers.
pub(super) fn meaning(document: &Map<String, Json>, layers: u32) -> BTreeMap<String, Json> {
    let model_type = document.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let class = defaults(model_type);
    let mut document = document.clone();
    for (other, field) in transformers::other_names(model_type) {
        if let Some(value) = document.remove(other) {
            document.entry(field).or_insert(value);
        }
    }
    let reader = Reader { document: &document, class: class.as_ref(), model_type };
    let mut out = BTreeMap::new();
    for key in document.keys().chain(class.iter().flat_map(Map::keys)) {
        if group(key) == key {
            // Layers that all have the usual base need no list of bases.
            let usual = |bases: &&Json| {
                let base = reader.get("rope_theta");
                let mut bases = bases.as_array().into_iter().flatten();
                key == "layer_rope_theta"
                    && bases.all(|own| base.is_some_and(|base| same(own, base)))
            };
            let said = reader.get(key).filter(|said| !usual(said));
            let mut said = said.map_or(Json::Null, |said| of_all_layers(said, layers));
            if let Json::Object(parts) = &mut said {
                // Each object that transformers saves has what every config has.
                let any = transformers::class("PreTrainedConfig");
                let is_of_any = |part: &str| any.is_some_and(|class| class.has(part));
                let is_own = |part: &str| !is_of_any(part) && !INERT.contains(&part);
                parts.retain(|part, value| is_own(part) && !value.is_null());
            }
            out.insert(key.clone(), said);
        }
    }
    out.insert(group("rope_theta").to_owned(), reader.rope());
    out.insert(group("sliding_window").to_owned(), reader.windows(layers));
    out.insert(group("n_group").to_owned(), reader.expert_groups());
    out.insert(group("mlp_only_layers").to_owned(), reader.expert_layers(layers));
    out.insert(group("intermediate_size").to_owned(), reader.ffn());
    out.insert(group("no_rope_layers").to_owned(), reader.rotated_layers(layers));
    out
}

/// Whether two values of a key mean the same. A missing value is the same as `false` and as none.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            // GGUF stores 32-bit floats.
            (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => a.keys().chain(b.keys()).all(|key| {
            let of = |map: &Map<String, Json>| map.get(key).cloned().unwrap_or(Json::Null);
            same(&of(a), &of(b))
        }),
        (Json::Null | Json::Bool(false), Json::Null | Json::Bool(false)) => true,
        (Json::Array(list), Json::Null) | (Json::Null, Json::Array(list)) => list.is_empty(),
        _ => a == b,
    }
}

/// The kind that an object of rotary embeddings states, by its newer name. Phi 3's class takes one with lists for LongRoPE,
/// whatever its name.
fn kind_of_rope(stated: &Map<String, Json>) -> Option<&str> {
    let named = |key: &str| stated.get(key)?.as_str();
    match named("rope_type").or_else(|| named("type"))? {
        "su" => Some("longrope"),
        "yarn" if stated.contains_key("long_factor") => Some("longrope"),
        kind => Some(kind),
    }
}

/// A document and the defaults of its class.
struct Reader<'a> {
    document: &'a Map<String, Json>,
    class: Option<&'a Map<String, Json>>,
    model_type: &'a str,
}

impl Reader<'_> {
    fn get(&self, key: &str) -> Option<&Json> {
        self.document.get(key).or_else(|| self.class?.get(key)).filter(|value| !value.is_null())
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(Json::as_u64)
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(Json::as_bool) == Some(true)
    }

    /// Rotary embeddings, for each kind of layer if the kinds differ.
    fn rope(&self) -> Json {
        let of_class = transformers::rope_of_class(self.model_type);
        let stated =
            self.rope_object("rope_scaling").or_else(|| self.rope_object("rope_parameters"));
        // Stated numbers take precedence over the class's.
        let own = |key: &str| stated.is_none().then(|| self.outer(key)).flatten();
        let own = (own("rope_theta"), own("partial_rotary_factor"));
        let stated = stated.or_else(|| of_class.as_ref()?.as_object());
        let kinds = ["full_attention", "sliding_attention"];
        let nested = stated.filter(|stated| kinds.iter().any(|kind| stated.contains_key(kind)));
        if let Some(nested) = nested {
            let each = kinds.into_iter().filter_map(|kind| {
                let mut own = nested.get(kind)?.as_object().cloned();
                // Transformers 5.24 looks for it outside alone.
                if let Some(own) = &mut own {
                    own.remove("truncate");
                    own.extend(
                        nested.get("truncate").map(|value| ("truncate".to_owned(), value.clone())),
                    );
                }
                Some((kind.to_owned(), self.scaling(own.as_ref(), (None, None))))
            });
            return Json::Object(each.collect());
        }
        let whole = self.scaling(stated, own);
        let usual = family::defaults(self.model_type).value("rope_local_theta");
        let local = self.get("rope_local_base_freq").or(usual.as_ref()).and_then(Json::as_f64);
        match local {
            Some(local) => json!({
                "full_attention": whole,
                "sliding_attention": self.scaling(None, (Some(local), None)),
            }),
            None => whole,
        }
    }

    /// One set of rotary embeddings: the base, the rotated part, and the numbers of its scaling.
    fn scaling(
        &self,
        stated: Option<&Map<String, Json>>,
        (theta, part): (Option<f64>, Option<f64>),
    ) -> Json {
        let of =
            |key: &str| stated.and_then(|stated| stated.get(key)).filter(|value| !value.is_null());
        let real = |key: &str| of(key).and_then(Json::as_f64);
        let theta = theta.or_else(|| real("rope_theta"));
        let theta = theta.or_else(|| self.outer("rope_theta"));
        if let Some(alpha) = real("alpha")
            && let Some(width) = self.head_width()
        {
            let stretched = theta.unwrap_or(10_000.0) * alpha.powf(width / (width - 2.0));
            return json!({ "rope_theta": stretched, "partial_rotary_factor": 1.0 });
        }
        let part = part.or_else(|| real("partial_rotary_factor"));
        let part = part.or_else(|| self.outer("partial_rotary_factor"));
        let part = part.or_else(|| self.rotated_elements());
        let kind = stated.and_then(kind_of_rope);
        // Without a factor, nothing is scaled.
        let kind =
            kind.filter(|kind| !matches!(*kind, "linear" | "dynamic") || real("factor").is_some());
        let whole =
            matches!(kind, None | Some("default")) && transformers::rotates_whole(self.model_type);
        let part = part.filter(|_| !whole);
        let mut out = Map::new();
        out.insert("rope_theta".to_owned(), theta.unwrap_or(10_000.0).into());
        out.insert("partial_rotary_factor".to_owned(), part.unwrap_or(1.0).into());
        let numbers: &[(&str, Option<f64>)] = match kind.unwrap_or("default") {
            "linear" | "dynamic" => &[("factor", None)],
            "yarn" => &[
                ("factor", None),
                ("beta_fast", Some(32.0)),
                ("beta_slow", Some(1.0)),
                ("attention_factor", None),
                ("mscale", None),
                ("mscale_all_dim", None),
                ("llama_4_scaling_beta", None),
                ("extrapolation_factor", Some(1.0)),
            ],
            "llama3" => &[("factor", None), ("low_freq_factor", None), ("high_freq_factor", None)],
            "longrope" => &[("short_mscale", None), ("long_mscale", None)],
            "default" | "mrope" => return Json::Object(out),
            _ => &[("factor", None)],
        };
        // Other classes than those with latent attention ask for both.
        let latent = || self.class.is_some_and(|class| class.contains_key("kv_lora_rank"));
        let both = ["mscale", "mscale_all_dim"];
        let is_scaled = both.iter().all(|key| real(key).is_some()) || latent();
        let kind = kind.unwrap_or("default");
        out.insert("rope_type".to_owned(), kind.into());
        for (key, usual) in numbers {
            let number = real(key).filter(|_| is_scaled || !both.contains(key)).or(*usual);
            out.extend(number.map(|number| ((*key).to_owned(), number.into())));
        }
        for key in ["long_factor", "short_factor"] {
            out.extend(of(key).map(|list| (key.to_owned(), list.clone())));
        }
        if !matches!(kind, "linear" | "dynamic") {
            let trained = "original_max_position_embeddings";
            let length = self.get(trained).or_else(|| of(trained));
            let longest = self.get("max_position_embeddings");
            let length = length.or(longest);
            let lengths = longest.and_then(Json::as_f64).zip(length.and_then(Json::as_f64));
            if let (false, "yarn", Some((longest, trained))) =
                (out.contains_key("factor"), kind, lengths)
            {
                out.insert("factor".to_owned(), (longest / trained).into());
            }
            out.extend(length.map(|length| (trained.to_owned(), length.clone())));
        }
        // Whether the bounds of YaRN's ramp are rounded, unless stated otherwise.
        if kind == "yarn" {
            let rounded = of("truncate").and_then(Json::as_bool).unwrap_or(true);
            out.insert("truncate".to_owned(), rounded.into());
        }
        Json::Object(out)
    }

    /// An object of rotary embeddings, if the class reads it.
    fn rope_object(&self, key: &str) -> Option<&Map<String, Json>> {
        let object = self.get(key)?.as_object()?;
        let reads = || transformers::reads_older(self.model_type, key, false);
        (key != "rope_scaling" || reads()).then_some(object)
    }

    /// A number of rotary embeddings outside of an object, if the class reads it.
    fn outer(&self, key: &str) -> Option<f64> {
        let objects = ["rope_scaling", "rope_parameters"];
        let is_beside = objects.iter().any(|key| self.rope_object(key).is_some());
        let named = config::key(key).map_or(&[][..], |key| key.json);
        let within = || named.iter().filter(|name| name.contains('.')).find_map(|n| self.real(n));
        match transformers::reads_older(self.model_type, key, is_beside) {
            true => self.real(key).or_else(|| named.iter().find_map(|name| self.real(name))),
            // The class of DBRX reads the objects that have it, but for this one number.
            false => within().or_else(|| self.class?.get(key).and_then(Json::as_f64)),
        }
    }

    /// The part of a head that MiniMax M2 states as a number of elements. A class that has a default for it means
    /// something else.
    fn rotated_elements(&self) -> Option<f64> {
        let key = "rotary_dim";
        let is_field = self.class.is_some_and(|class| class.contains_key(key));
        let stated = self.document.get(key).filter(|_| !is_field)?.as_f64()?;
        Some(stated / self.head_width()?)
    }

    fn head_width(&self) -> Option<f64> {
        let derived = || Some(self.real("hidden_size")? / self.real("num_attention_heads")?);
        self.real("head_dim").or_else(derived)
    }

    /// The key may be a path of two, with a point between them.
    fn real(&self, key: &str) -> Option<f64> {
        let found = match key.split_once('.') {
            Some((object, key)) => self.get(object)?.get(key),
            None => self.get(key),
        };
        found.and_then(Json::as_f64)
    }

    /// The length of each layer's window; null if no layer has one.
    fn windows(&self, layers: u32) -> Json {
        let kinds = self.listed_kinds().or_else(|| self.attention_layers(layers));
        let kinds = kinds.as_ref();
        let other =
            |kind: &Json| !matches!(kind.as_str(), Some("full_attention" | "sliding_attention"));
        // Layers with linear attention are told by their tensors.
        let mixed = kinds.is_some_and(|kinds| kinds.iter().any(other));
        if kinds.is_none() && self.count("attention_chunk_size").is_some() {
            return self.chunks(layers);
        }
        let Some(window) = self.count("sliding_window") else {
            return if mixed { json!(kinds) } else { Json::Null };
        };
        let unused = self.document.contains_key("use_sliding_window")
            || self.class.is_some_and(|class| class.contains_key("use_sliding_window"));
        let lists = kinds.is_some_and(|kinds| kinds.contains(&LayerKind::Sliding.name().into()));
        if unused && !lists && !self.flag("use_sliding_window") {
            return Json::Null;
        }
        let period = ["sliding_window_pattern", "_sliding_window_pattern"];
        // Keys from which a class derives the kinds.
        let others = ["global_attn_every_n_layers", "first_k_dense_replace"];
        let is_stated = |key: &&str| self.document.contains_key(key);
        let derives = self.count("max_window_layers").is_some()
            || period.iter().chain(&others).any(is_stated);
        let of_class = || transformers::kinds_of_layers(self.model_type, layers as usize);
        let of_class = if unused || derives { None } else { of_class() };
        let kinds = kinds.or_else(|| of_class.as_ref()?.as_array());
        let period = period.iter().find_map(|key| self.count(key));
        let usual = family::defaults(self.model_type).value("layer_pattern");
        let period = period.or(usual.as_ref().and_then(Json::as_u64));
        let rotated = self.rotated_layers(layers);
        let slides = |layer: u32| {
            if let Some(kinds) = kinds {
                let kind = kinds.get(layer as usize).and_then(Json::as_str);
                return kind == Some("sliding_attention");
            }
            if let Some(from) = self.count("max_window_layers") {
                return u64::from(layer) >= from;
            }
            if unused {
                // Some classes have windows in the layers without rotary embeddings alone.
                let rotates = rotated.as_array().and_then(|each| each.get(layer as usize));
                let is_unrotated = rotates.is_some_and(|rotates| rotates.as_bool() == Some(false));
                return is_unrotated || ROTATED_LAYERS.iter().all(|key| self.get(key).is_none());
            }
            let next = u64::from(layer).saturating_add(1);
            period.is_none_or(|period| next.checked_rem(period).is_some_and(|rest| rest != 0))
        };
        let each: Vec<u64> =
            (0..layers).map(|layer| if slides(layer) { window } else { 0 }).collect();
        if each.iter().all(|window| *window == 0) { Json::Null } else { json!(each) }
    }

    /// The kind of each layer as the model lists it, in one spelling.
    fn listed_kinds(&self) -> Option<Vec<Json>> {
        let other = family::defaults(self.model_type).value("without_attention");
        let kinds = self.get("layer_types")?.as_array()?;
        let spelt = |kind: &Json| match kind.as_str().map(LayerKind::named) {
            Some(LayerKind::Linear) => {
                other.clone().unwrap_or_else(|| LayerKind::Linear.name().into())
            }
            Some(kind) => kind.name().into(),
            None => kind.clone(),
        };
        Some(kinds.iter().map(spelt).collect())
    }

    /// The kind of each layer, of a model that lists those with attention by number.
    fn attention_layers(&self, layers: u32) -> Option<Vec<Json>> {
        let listed = self.get("full_attn_idxs")?.as_array()?;
        let other = family::defaults(self.model_type).value("without_attention")?;
        let kind = |layer: u32| match listed.contains(&json!(layer)) {
            true => LayerKind::Full.name().into(),
            false => other.clone(),
        };
        Some((0..layers).map(kind).collect())
    }

    /// The kind of each layer of a model that attends within chunks where it rotates.
    fn chunks(&self, layers: u32) -> Json {
        let rotates = self.rotated_layers(layers);
        let rotated = |layer: u32| rotates.as_array()?.get(layer as usize)?.as_bool();
        let kind = |layer: u32| match rotated(layer) {
            Some(false) => LayerKind::Full.name(),
            _ => LayerKind::Chunked.name(),
        };
        json!((0..layers).map(kind).collect::<Vec<&str>>())
    }

    /// The width of the feed-forward network, as LFM2 derives it if it is to be adjusted.
    fn ffn(&self) -> Json {
        let mut keys = ["block_ff_dim", "intermediate_size", "ffn_hidden_size"].into_iter();
        let stated = keys.find_map(|key| self.get(key));
        let Some(width) =
            stated.and_then(Json::as_u64).filter(|_| self.flag("block_auto_adjust_ff_dim"))
        else {
            return stated.cloned().unwrap_or(Json::Null);
        };
        let factor = self.real("block_ffn_dim_multiplier").unwrap_or(1.0);
        let scaled = ((2.0 * width as f64 / 3.0).floor() * factor).floor();
        let multiple = self.real("block_multiple_of").filter(|of| *of > 0.0).unwrap_or(1.0);
        json!((scaled / multiple).ceil() * multiple)
    }

    /// The number of groups of experts, and of those that are used; null if all experts compete.
    fn expert_groups(&self) -> Json {
        let greedy = self.get("topk_method").and_then(Json::as_str) == Some("greedy");
        match self.count("n_group").filter(|groups| *groups > 1 && !greedy) {
            Some(groups) => json!([groups, self.count("topk_group")]),
            None => Json::Null,
        }
    }

    /// The layers that have experts; null for a document of a class where all layers are alike.
    fn expert_layers(&self, layers: u32) -> Json {
        let dense = self.get("mlp_only_layers").and_then(Json::as_array);
        // Other classes do not read them.
        let own = |key: &str| {
            self.class.filter(|class| class.contains_key(key)).and_then(|_| self.get(key))
        };
        let kinds = own("mlp_layer_types").and_then(Json::as_array);
        let own_count = |key: &str| own(key).and_then(Json::as_u64);
        let period = self.count("decoder_sparse_step").or_else(|| own_count("moe_layer_interval"));
        let leading = own_count("first_k_dense_replace");
        let leading = leading.or_else(|| own_count("moe_layer_start_index")).unwrap_or(0);
        // -1 stands for the last layer.
        let last = own_count("moe_layer_end_index");
        let sparse = |layer: u32| {
            let kind = kinds.and_then(|kinds| kinds.get(usize::try_from(layer).ok()?)?.as_str());
            if let Some(kind) = kind {
                return kind != "dense";
            }
            let listed = dense.is_some_and(|dense| dense.contains(&json!(layer)));
            let is_outside = last.is_some_and(|last| u64::from(layer) > last);
            let listed = listed || u64::from(layer) < leading || is_outside;
            let next = u64::from(layer).saturating_add(1);
            !listed && period.is_none_or(|period| next.checked_rem(period) == Some(0))
        };
        let each: Vec<bool> = (0..layers).map(sparse).collect();
        if each.iter().all(|sparse| *sparse) { Json::Null } else { json!(each) }
    }

    /// The layers that have rotary embeddings; null if all have.
    fn rotated_layers(&self, layers: u32) -> Json {
        let listed = self.get("no_rope_layers").and_then(Json::as_array);
        let period = self.count("no_rope_layer_interval");
        let each: Vec<bool> = match (listed, period) {
            (Some(listed), _) => listed.iter().map(|flag| flag.as_u64() == Some(1)).collect(),
            (None, Some(period)) => {
                let rotated = |layer: u64| layer.checked_rem(period).is_none_or(|rest| rest != 0);
                (1..=u64::from(layers)).map(rotated).collect()
            }
            (None, None) => Vec::new(),
        };
        // A model without such layers may have fewer than the period.
        if each.iter().all(|rotated| *rotated) { Json::Null } else { json!(each) }
    }
}
