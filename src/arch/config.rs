//! One config struct, whatever file the numbers stand in.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Resolution, named};
use crate::error::{Error, Result};
use crate::store::WeightStore;

/// A number of the config, and where it was found or how it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<T> {
    /// The value.
    pub value: T,
    /// The metadata key, the path in `config.json`, or the rule that gave it.
    pub source: Cow<'static, str>,
}

/// The numbers that an engine needs to run a model. Lengths count elements.
///
/// Every field was checked: `dim`, `n_layers`, the heads and their width are not zero, and all fit
/// in 32 bits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The family, as the file names it: `general.architecture` or `model_type`.
    pub architecture: Field<String>,
    /// Width of the residual stream (`embedding_length`, `hidden_size`).
    pub dim: Field<u32>,
    /// Transformer layers (`block_count`, `num_hidden_layers`).
    pub n_layers: Field<u32>,
    /// Query heads.
    pub n_heads: Field<u32>,
    /// Key and value heads; as many as query heads where the file does not say.
    pub n_kv_heads: Field<u32>,
    /// Width of a head: stored, or `dim / n_heads`.
    pub head_dim: Field<u32>,
    /// `n_heads * head_dim`.
    pub q_dim: Field<u32>,
    /// `n_kv_heads * head_dim`.
    pub kv_dim: Field<u32>,
    /// Inner width of the dense feed-forward network.
    pub ffn_dim: Option<Field<u32>>,
    /// Rows of the stored embedding, else as the file says.
    pub vocab_size: Option<Field<u32>>,
    /// Positions that the model was made for.
    pub max_seq_len: Option<Field<u32>>,
    /// Epsilon of the norms.
    pub norm_eps: Option<Field<f32>>,
    /// Base of the rotary embeddings; 10,000 where the file does not say.
    pub rope_theta: Field<f32>,
    /// Whether the embedding serves as output matrix: when no output tensor is stored.
    pub tie_embeddings: Option<Field<bool>>,
    /// Experts of a layer; 0 for a dense model.
    pub n_experts: Field<u32>,
    /// More about rotary embeddings.
    pub rope: RopeConfig,
    /// Linear attention.
    pub ssm: SsmConfig,
}

/// More about rotary embeddings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RopeConfig {
    /// Elements of a head that are rotated.
    pub dimension_count: Option<Field<u32>>,
}

/// Linear attention.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SsmConfig {
    /// Value heads together.
    pub inner_size: Option<Field<u32>>,
    /// Width of a key head.
    pub state_size: Option<Field<u32>>,
    /// Value heads.
    pub time_step_rank: Option<Field<u32>>,
    /// Key heads.
    pub group_count: Option<Field<u32>>,
}

/// Where a config nests the language model's own numbers, outermost first.
pub(super) const TEXT_CONFIGS: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// The names of one number: the GGUF key behind `{architecture}.`, and the names in `config.json`
/// or `params.json`, of which the first found wins.
struct Key {
    gguf: &'static str,
    json: &'static [&'static str],
}

#[rustfmt::skip]
mod keys {
    use super::Key;
    pub(super) const DIM: Key = Key { gguf: "embedding_length", json: &["hidden_size", "n_embd", "d_model", "dim"] };
    pub(super) const LAYERS: Key = Key { gguf: "block_count", json: &["num_hidden_layers", "n_layers", "n_layer", "num_layers"] };
    pub(super) const HEADS: Key = Key { gguf: "attention.head_count", json: &["num_attention_heads", "n_head", "n_heads"] };
    pub(super) const KV_HEADS: Key = Key { gguf: "attention.head_count_kv", json: &["num_key_value_heads", "n_kv_heads", "num_kv_heads"] };
    pub(super) const HEAD_DIM: Key = Key { gguf: "attention.key_length", json: &["head_dim"] };
    pub(super) const FFN_DIM: Key = Key { gguf: "feed_forward_length", json: &["intermediate_size", "n_inner", "hidden_dim", "ffn_dim"] };
    pub(super) const VOCAB: Key = Key { gguf: "vocab_size", json: &["vocab_size"] };
    pub(super) const CONTEXT: Key = Key { gguf: "context_length", json: &["max_position_embeddings", "n_ctx", "n_positions", "max_sequence_length", "max_seq_len"] };
    pub(super) const RMS_EPS: Key = Key { gguf: "attention.layer_norm_rms_epsilon", json: &["rms_norm_eps", "norm_eps"] };
    pub(super) const NORM_EPS: Key = Key { gguf: "attention.layer_norm_epsilon", json: &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"] };
    pub(super) const THETA: Key = Key { gguf: "rope.freq_base", json: &["rope_theta", "rope_parameters.full_attention.rope_theta", "rope_parameters.rope_theta", "rotary_emb_base"] };
    pub(super) const NOPE: Key = Key { gguf: "", json: &["qk_nope_head_dim"] };
    pub(super) const LATENT: Key = Key { gguf: "attention.key_length_mla", json: &[] };
    pub(super) const ROTATED: Key = Key { gguf: "rope.dimension_count", json: &["qk_rope_head_dim"] };
    pub(super) const INNER: Key = Key { gguf: "ssm.inner_size", json: &[] };
    pub(super) const VALUE_WIDTH: Key = Key { gguf: "", json: &["linear_value_head_dim"] };
    pub(super) const STATE: Key = Key { gguf: "ssm.state_size", json: &["linear_key_head_dim"] };
    pub(super) const STEPS: Key = Key { gguf: "ssm.time_step_rank", json: &["linear_num_value_heads"] };
    pub(super) const GROUPS: Key = Key { gguf: "ssm.group_count", json: &["linear_num_key_heads"] };
    pub(super) const EXPERTS: Key = Key { gguf: "expert_count", json: &["num_local_experts", "num_experts", "n_routed_experts"] };
}

/// Reads numbers from whichever of a model's files hold them.
struct Reader<'a> {
    store: &'a WeightStore,
    /// The prefix of GGUF keys.
    prefix: String,
}

/// A number as found, before it is checked.
enum Found<'a> {
    Gguf(crate::metadata::Value<'a>),
    Json(&'a Json),
}

impl<'a> Reader<'a> {
    fn find(&self, key: &Key) -> Option<(Found<'a>, String)> {
        let metadata = self.store.metadata();
        // Some files leave the prefix out.
        for name in [format!("{}.{}", self.prefix, key.gguf), key.gguf.to_owned()] {
            if let Some(value) = metadata.get(&name) {
                return Some((Found::Gguf(value), name));
            }
        }
        for document in ["config.json", "params.json"] {
            let Some(root) = self.store.document(document) else { continue };
            let inner = TEXT_CONFIGS.iter().filter_map(|name| Some((*name, root.get(name)?)));
            for (at, config) in inner.chain([("", root)]) {
                for path in key.json {
                    let found = path.split('.').try_fold(config, |json, name| json.get(name));
                    if let Some(json) = found.filter(|json| !json.is_null()) {
                        let dot = if at.is_empty() { "" } else { "." };
                        return Some((Found::Json(json), format!("{document} {at}{dot}{path}")));
                    }
                }
            }
        }
        None
    }

    fn wrong(&self, source: &str, fault: impl Into<Cow<'static, str>>) -> Error {
        Error::malformed(fault).in_file(self.store.path()).in_key(source)
    }

    /// A count. Where a layer has one of its own, the largest.
    fn count(&self, key: &Key) -> Result<Option<Field<u32>>> {
        let Some((found, source)) = self.find(key) else { return Ok(None) };
        let mut source = source;
        let number = match found {
            Found::Gguf(value) => match value.to_array().and_then(|array| array.integers()) {
                Some(each) => {
                    source.push_str(" (the largest of all layers)");
                    each.max()
                }
                None => value.to_i128(),
            },
            Found::Json(json) => json.as_u64().map(i128::from).or(json.as_i64().map(i128::from)),
        };
        let number = number.ok_or_else(|| self.wrong(&source, "no integer"))?;
        let value = u32::try_from(number).map_err(|_| {
            self.wrong(&source, format!("{number}, but a count of 32 bits is needed"))
        })?;
        Ok(Some(Field { value, source: source.into() }))
    }

    /// A count that cannot be zero.
    fn positive(&self, key: &Key) -> Result<Option<Field<u32>>> {
        let field = self.count(key)?;
        match field {
            Some(Field { value: 0, source }) => {
                Err(self.wrong(&source, "0, but it cannot be zero"))
            }
            field => Ok(field),
        }
    }

    fn flag(&self, name: &str) -> bool {
        let config = self.store.document("config.json");
        config.and_then(|config| config.get(name)?.as_bool()).unwrap_or(false)
    }

    fn required(&self, key: &Key) -> Result<Field<u32>> {
        self.positive(key)?.ok_or_else(|| {
            let prefix = &self.prefix;
            let json = key.json.first().copied().unwrap_or_default();
            Error::malformed(format!("neither {prefix}.{} nor {json} in config.json", key.gguf))
                .in_file(self.store.path())
        })
    }

    fn float(&self, key: &Key) -> Result<Option<Field<f32>>> {
        let Some((found, source)) = self.find(key) else { return Ok(None) };
        let number = match found {
            Found::Gguf(value) => value.to_f64(),
            Found::Json(json) => json_float(json),
        };
        let number = number.ok_or_else(|| self.wrong(&source, "no number"))?;
        if !number.is_finite() || number < 0.0 {
            return Err(
                self.wrong(&source, format!("{number}, but it must be finite and not negative"))
            );
        }
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        Ok(Some(Field { value: number as f32, source: source.into() }))
    }
}

/// A JSON number, or one of those that JSON cannot write: `{"__float__": "Infinity"}`.
fn json_float(json: &Json) -> Option<f64> {
    json.as_f64().or_else(|| match json.get("__float__")?.as_str()? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    })
}

fn reader(store: &WeightStore) -> Result<(Reader<'_>, Field<String>)> {
    let named = named(store)?.ok_or_else(|| {
        Error::malformed(
            "no config: neither general.architecture nor a config.json with model_type",
        )
        .in_file(store.path())
    })?;
    let prefix = named.name.clone();
    Ok((Reader { store, prefix }, Field { value: named.name, source: named.source.into() }))
}

/// Layers that the config promises, for the account of what is missing. Never a number to loop to.
pub(super) fn layers(store: &WeightStore) -> Option<u32> {
    let (reader, _) = reader(store).ok()?;
    reader.count(&keys::LAYERS).ok()?.map(|field| field.value)
}

/// Names of the embedding and the output matrix where no architecture gave canonical ones.
const EMBEDDINGS: [&str; 4] = [
    "token_embd.weight",
    "model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "tok_embeddings.weight",
];
const OUTPUTS: [&str; 3] = ["output.weight", "lm_head.weight", "language_model.lm_head.weight"];

impl ModelConfig {
    /// Gathers the config from GGUF metadata, or from the `config.json` or `params.json` beside
    /// the weights.
    ///
    /// # Errors
    ///
    /// `Malformed` if the model does not say what its architecture is, lacks a number that cannot
    /// be done without, or has one that cannot be: zero heads, a width that is no integer.
    pub fn of(store: &WeightStore, resolution: &Resolution) -> Result<Self> {
        let (reader, architecture) = reader(store)?;
        let derived = |value, source: &'static str| Field { value, source: source.into() };
        let dim = reader.required(&keys::DIM)?;
        let n_heads = reader.required(&keys::HEADS)?;
        let latent = reader.positive(&keys::LATENT)?;
        let dimension_count = reader.positive(&keys::ROTATED)?;
        let n_kv_heads = match reader.positive(&keys::KV_HEADS)? {
            _ if latent.is_some() => derived(n_heads.value, "as many as n_heads"),
            _ if reader.flag("multi_query") && !reader.flag("new_decoder_architecture") => {
                derived(1, "multi_query")
            }
            Some(field) => field,
            None => derived(n_heads.value, "as many as n_heads"),
        };
        let unfolded = reader.positive(&keys::NOPE)?.zip(dimension_count.as_ref());
        let unfolded = unfolded.and_then(|(plain, rotated)| plain.value.checked_add(rotated.value));
        let unfolded =
            unfolded.map(|value| derived(value, "qk_nope_head_dim + rope_dimension_count"));
        let head_dim = match latent.or(unfolded) {
            Some(field) => Some(field),
            None => reader.positive(&keys::HEAD_DIM)?,
        };
        let head_dim = match head_dim {
            Some(field) => field,
            None => {
                let value = dim.value.checked_div(n_heads.value).filter(|&value| value > 0);
                let value = value.ok_or_else(|| {
                    reader.wrong(
                        &n_heads.source,
                        format!("{} heads for a width of {}", n_heads.value, dim.value),
                    )
                })?;
                derived(value, "dim / n_heads")
            }
        };
        let product = |heads: &Field<u32>, source: &'static str| {
            let value = heads.value.checked_mul(head_dim.value).ok_or_else(|| {
                reader.wrong(&heads.source, format!("{} heads of {}", heads.value, head_dim.value))
            })?;
            Ok::<_, Error>(derived(value, source))
        };
        let stored = |canonical: &str, names: &[&str]| {
            let mapped = resolution.mapped.iter().find(|mapping| mapping.canonical == canonical);
            let mapped = mapped.and_then(|mapping| store.tensor(mapping.stored.first()?).ok());
            mapped.or_else(|| names.iter().find_map(|name| store.tensor(name).ok()))
        };
        let embedding = stored("token_embedding.weight", &EMBEDDINGS);
        let output = stored("output.weight", &OUTPUTS);
        let rows = embedding.and_then(|tensor| Some((tensor, *tensor.shape().first()?)));
        let vocab_size = match rows {
            Some((tensor, rows)) => {
                let source = format!("rows of {}", tensor.name());
                let value = u32::try_from(rows)
                    .map_err(|_| reader.wrong(&source, format!("{rows} rows of embeddings")))?;
                Some(Field { value, source: source.into() })
            }
            None => match reader.count(&keys::VOCAB)? {
                Some(field) => Some(field),
                None => tokens(store),
            },
        };
        let tie_embeddings = match (embedding, output) {
            (_, Some(output)) => {
                let source = format!("{} is stored", output.name());
                Some(Field { value: false, source: source.into() })
            }
            (Some(_), None) => Some(derived_bool("no output matrix is stored")),
            (None, None) => None,
        };
        let norm_eps = match reader.float(&keys::RMS_EPS)? {
            Some(field) => Some(field),
            None => reader.float(&keys::NORM_EPS)?,
        };
        let rope_theta = reader.float(&keys::THETA)?;
        let time_step_rank = reader.positive(&keys::STEPS)?;
        let inner_size = match reader.positive(&keys::INNER)? {
            Some(field) => Some(field),
            None => {
                let width = reader.positive(&keys::VALUE_WIDTH)?.zip(time_step_rank.as_ref());
                let inner = width.and_then(|(width, heads)| width.value.checked_mul(heads.value));
                inner.map(|value| derived(value, "ssm_time_step_rank * ssm_value_head_dim"))
            }
        };
        Ok(Self {
            rope: RopeConfig { dimension_count },
            ssm: SsmConfig {
                state_size: reader.positive(&keys::STATE)?,
                group_count: reader.positive(&keys::GROUPS)?,
                time_step_rank,
                inner_size,
            },
            n_layers: reader.required(&keys::LAYERS)?,
            q_dim: product(&n_heads, "n_heads * head_dim")?,
            kv_dim: product(&n_kv_heads, "n_kv_heads * head_dim")?,
            ffn_dim: reader.count(&keys::FFN_DIM)?,
            max_seq_len: reader.count(&keys::CONTEXT)?,
            rope_theta: rope_theta.unwrap_or(Field { value: 10_000.0, source: "default".into() }),
            n_experts: match reader.count(&keys::EXPERTS)? {
                Some(field) => field,
                None => derived(0, "default"),
            },
            architecture,
            dim,
            n_heads,
            n_kv_heads,
            head_dim,
            vocab_size,
            norm_eps,
            tie_embeddings,
        })
    }
}

fn derived_bool(source: &'static str) -> Field<bool> {
    Field { value: true, source: source.into() }
}

fn tokens(store: &WeightStore) -> Option<Field<u32>> {
    let key = "tokenizer.ggml.tokens";
    let value = u32::try_from(store.metadata().array(key)?.len()).ok()?;
    Some(Field { value, source: format!("length of {key}").into() })
}
