//! What the files of a model state for computing, in words that those of another container have too.

use super::config::{ConfigField, KEYS, ModelConfig};
use super::kept;
use super::resolution::Resolution;
use super::resolve::source_of_keys;
use super::{family, kept::keys_of};
use crate::dialect::Dialect;
use crate::error::Result;
use crate::json::{Json, Map};
use crate::store::{Encoding, Store};

/// Fields that name a model, or say how long its texts are, and those that tensors or others determine.
const NAMED: &[&str] = &[
    "architecture",
    "family",
    "max_seq_len",
    // GGUF states it of layers that are stored.
    "n_next_token_layers",
    "rope_partial_factor",
    "rope_sections",
    "ssm_head_dim",
    "type_vocab_size",
];

/// Whether a `config.json` has the words of Meta's `params.json`, which no class of transformers and mlx-lm reads.
pub(crate) fn is_in_words_of_meta(stated: &Map<String, Json>) -> bool {
    ["dim", "n_layers", "norm_eps"].iter().all(|key| stated.contains_key(key))
}

/// The `config.json` of a model's language model: the one beside the weights, or the one that its keys give. `None` if there
/// are no rules for it.
///
/// # Errors
///
/// Same as [`Model::config`](crate::Model::config).
pub(crate) fn stated_document(
    store: &Store,
    resolution: &Resolution,
) -> Result<Option<Map<String, Json>>> {
    let beside = store.document("config.json").filter(|_| store.encoding() != Encoding::Gguf);
    let own = beside.and_then(kept::text_of).map(|(stated, _)| stated);
    let of_publisher = resolution.dialect == Dialect::Publisher;
    match own.filter(|stated| !of_publisher && !is_in_words_of_meta(stated)) {
        Some(stated) => Ok(Some(stated)),
        None => kept::given(&source_of_keys(store, resolution)?),
    }
}

/// The field of a config that holds the value of a key of `config.json`, or of a group of keys.
pub(crate) fn field_of<'c>(config: &'c ModelConfig, name: &str) -> Option<ConfigField<'c>> {
    let own = family::own_keys(&config.architecture.value);
    let local = name.starts_with("sliding_attention.");
    let fields = config.fields();
    keys_of(name).into_iter().find_map(|key| {
        let last = key.rsplit('.').next().unwrap_or(key);
        let names = |path: &str| path == key || path.rsplit('.').next() == Some(last);
        let rows = KEYS.iter().copied().flatten();
        let mut rows = rows.filter(|row| own.and(row.name, row.json).any(names));
        rows.find_map(|row| {
            // The config has one epsilon, whatever the kind of norms.
            let name = if row.name.ends_with("_eps") { "norm_eps" } else { row.name };
            let mut found = fields.iter().filter(|field| field.name == name);
            found.find(|field| !local || field.name.contains("local")).cloned()
        })
    })
}

/// The fields of a config that another one has with another value, or lacks. `has_network` says whether the other model has
/// a dense feed-forward network.
pub(crate) fn unlike_fields<'c>(
    own: &'c ModelConfig,
    other: &'c ModelConfig,
    has_network: bool,
) -> Vec<(ConfigField<'c>, Option<ConfigField<'c>>)> {
    // A model without attention has heads in name only.
    let attends = other.n_kv_heads.source != other.n_heads.source;
    let routes = other.n_experts.value > 0;
    let has_windows = own.has_windows();
    // The quotient of the two is what counts.
    let scaling = &own.rope_scaling;
    let multipliers = [&scaling.mscale, &scaling.mscale_all_dim];
    let [one, all] = multipliers.map(|field| field.as_ref().map(|field| field.value));
    let (own, others) = (own.fields(), other.fields());
    // The factors of rotary embeddings may be a tensor in GGUF.
    let is_tensor =
        |field: &ConfigField<'_>| field.name == "rope_scaling_kind" && field.value == "tensor";
    let in_tensor = own.iter().chain(&others).any(is_tensor);
    let own = own.into_iter().filter(|field| {
        let of_attention = ["n_kv_heads", "kv_dim"].contains(&field.name);
        let of_scaling = field.name.starts_with("rope_scaling_");
        field.group != "encoder"
            && !(of_scaling && in_tensor)
            && !(of_scaling && field.name.contains("mscale") && one == all)
            && !NAMED.contains(&field.name)
            && (attends || !of_attention)
            // Of experts alone, GGUF has the width in another key too.
            && (has_network || !field.name.starts_with("ffn_dim"))
            // The tensors say which layers have attention, state spaces or experts.
            && (routes || field.group != "experts" && field.name != "n_experts")
            && (field.name != "layers" || has_windows)
    });
    let pairs = own.map(|own| {
        let other = others.iter().find(|other| other.name == own.name).cloned();
        (own, other)
    });
    let is_unlike = |(own, other): &(ConfigField<'_>, Option<ConfigField<'_>>)| {
        other.as_ref().is_none_or(|other| !kept::same(&other.value, &own.value))
    };
    pairs.filter(is_unlike).collect()
}
