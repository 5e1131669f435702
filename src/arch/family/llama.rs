//! Llama, Mistral and Mixtral, and families that differ from them in their numbers only. In GGUF,
//! the rows of q and k are reordered into pairs.

use serde_json::{Map, Value as Json};

use super::decoder::{
    BARE, BLOCK_SPARSE, DECODER, MIXTURE, PREFIXES, REQUIRED, SHARED_EXPERTS, json, keys,
};
use crate::arch::config::{Defaults, Field, Reported};
use crate::arch::habits::{LlamaQuantize, MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::rule::{NameRule, gguf, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{PERMUTE_K, PERMUTE_Q, RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, ModelConfig, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag, Real, Word};

/// Llama.
pub(super) static LLAMA: Architecture = Architecture {
    name: "llama",
    summary: "Llama 1 to 3, Mistral, Mixtral, SmolLM 3, InternLM 3, MiniCPM, Nanbeige, XVERSE",
    gguf: &["llama", "llama-embed", "mistral3", "smollm3", "minicpm", "nanbeige", "xverse"],
    hf: &[
        "llama",
        "mistral",
        "mixtral",
        "ministral",
        "ministral3",
        "smollm3",
        "internlm3",
        "minicpm",
        "nanbeige",
        "xverse",
    ],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, BLOCK_SPARSE, MIXTURE, DECODER],
    publisher: MISTRAL,
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: LLAMAS,
    ..Architecture::EMPTY
};

/// Arcee: a feed-forward network without a gate.
pub(super) static ARCEE: Architecture = Architecture {
    name: "arcee",
    summary: "Arcee AFM",
    gguf: &["arcee"],
    hf: &["arcee"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, DECODER],
    prefixes: PREFIXES,
    required: BARE,
    variants: ARCEES,
    ..Architecture::EMPTY
};

/// Baichuan: q, k and v fused.
pub(super) static BAICHUAN: Architecture = Architecture {
    name: "baichuan",
    summary: "Baichuan 1 and 2",
    gguf: &["baichuan"],
    hf: &["baichuan"],
    rope: RopeLayout::HalfSplit,
    rules: &[W_PACK, PERMUTED, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: BAICHUANS,
    ..Architecture::EMPTY
};

/// InternLM 2: names of its own.
pub(super) static INTERNLM2: Architecture = Architecture {
    name: "internlm2",
    summary: "InternLM 2",
    gguf: &["internlm2"],
    hf: &["internlm2"],
    rope: RopeLayout::HalfSplit,
    rules: &[WQKV, PERMUTED, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: INTERNLM2S,
    ..Architecture::EMPTY
};

/// OLMo 1: norms without weights.
pub(super) static OLMO: Architecture = Architecture {
    name: "olmo",
    summary: "OLMo 1",
    gguf: &["olmo"],
    hf: &["olmo"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, DECODER],
    prefixes: PREFIXES,
    required: BARE,
    variants: OLMOS,
    ..Architecture::EMPTY
};

/// DeepSeek 1: before latent attention.
pub(super) static DEEPSEEK: Architecture = Architecture {
    name: "deepseek",
    summary: "DeepSeek 1 with experts",
    gguf: &["deepseek"],
    hf: &["deepseek"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, SHARED_EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: DEEPSEEKS,
    mlx_modules: &[MlxModules {
        models: &["deepseek"],
        path: MlxPath::EndsWith("mlp.gate"),
        choice: MlxChoice::Bare,
    }],
    ..Architecture::EMPTY
};

#[rustfmt::skip]
pub(super) static PERMUTED: &[NameRule] = &[
    rule("layers.{n}.attention.q.weight", "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight", PERMUTE_Q),
    rule("layers.{n}.attention.k.weight", "blk.{n}.attn_k.weight", "model.layers.{n}.self_attn.k_proj.weight", PERMUTE_K),
    rule("layers.{n}.attention.q.bias",   "blk.{n}.attn_q.bias",   "model.layers.{n}.self_attn.q_proj.bias",   PERMUTE_Q),
    rule("layers.{n}.attention.k.bias",   "blk.{n}.attn_k.bias",   "model.layers.{n}.self_attn.k_proj.bias",   PERMUTE_K),
    gguf("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::PairsQkv(0))),
    gguf("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::PairsQkv(1))),
    gguf("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::PairsQkv(2))),
    gguf("layers.{n}.attention.q.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::PairsQkv(0))),
    gguf("layers.{n}.attention.k.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::PairsQkv(1))),
    gguf("layers.{n}.attention.v.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::PairsQkv(2))),
];

#[rustfmt::skip]
static W_PACK: &[NameRule] = &[
    hf("layers.{n}.attention.q.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(RowOrder::Qkv(0))),
    hf("layers.{n}.attention.k.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(RowOrder::Qkv(1))),
    hf("layers.{n}.attention.v.weight", "model.layers.{n}.self_attn.W_pack.weight", rows(RowOrder::Qkv(2))),
];

/// InternLM 2 in Hugging Face's files.
#[rustfmt::skip]
static WQKV: &[NameRule] = &[
    hf("token_embedding.weight",             "model.tok_embeddings.weight",             SAME),
    hf("output.weight",                      "output.weight",                           SAME),
    hf("layers.{n}.attention_norm.weight",   "model.layers.{n}.attention_norm.weight",  SAME),
    hf("layers.{n}.attention.q.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(RowOrder::GroupedQkv(0))),
    hf("layers.{n}.attention.k.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(RowOrder::GroupedQkv(1))),
    hf("layers.{n}.attention.v.weight",      "model.layers.{n}.attention.wqkv.weight",  rows(RowOrder::GroupedQkv(2))),
    hf("layers.{n}.attention.output.weight", "model.layers.{n}.attention.wo.weight",    SAME),
    hf("layers.{n}.ffn_norm.weight",         "model.layers.{n}.ffn_norm.weight",        SAME),
    hf("layers.{n}.ffn.gate.weight",         "model.layers.{n}.feed_forward.w1.weight", SAME),
    hf("layers.{n}.ffn.up.weight",           "model.layers.{n}.feed_forward.w3.weight", SAME),
    hf("layers.{n}.ffn.down.weight",         "model.layers.{n}.feed_forward.w2.weight", SAME),
];

/// Names in the `consolidated.safetensors` of Mistral and Meta, beside `params.json`. The rows of q
/// and k are in pairs, as in GGUF.
#[rustfmt::skip]
static MISTRAL: &[NameRule] = &[
    hf("token_embedding.weight",             "tok_embeddings.weight",                         SAME),
    hf("output_norm.weight",                 "norm.weight",                                   SAME),
    hf("output.weight",                      "output.weight",                                 SAME),
    hf("layers.{n}.attention_norm.weight",   "layers.{n}.attention_norm.weight",              SAME),
    hf("layers.{n}.attention.q.weight",      "layers.{n}.attention.wq.weight",                PERMUTE_Q),
    hf("layers.{n}.attention.k.weight",      "layers.{n}.attention.wk.weight",                PERMUTE_K),
    hf("layers.{n}.attention.v.weight",      "layers.{n}.attention.wv.weight",                SAME),
    hf("layers.{n}.attention.output.weight", "layers.{n}.attention.wo.weight",                SAME),
    hf("layers.{n}.ffn_norm.weight",         "layers.{n}.ffn_norm.weight",                    SAME),
    hf("layers.{n}.ffn.gate.weight",         "layers.{n}.feed_forward.w1.weight",             SAME),
    hf("layers.{n}.ffn.up.weight",           "layers.{n}.feed_forward.w3.weight",             SAME),
    hf("layers.{n}.ffn.down.weight",         "layers.{n}.feed_forward.w2.weight",             SAME),
    hf("layers.{n}.ffn.router.weight",       "layers.{n}.feed_forward.gate.weight",           SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "layers.{n}.feed_forward.experts.{e}.w1.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "layers.{n}.feed_forward.experts.{e}.w3.weight", SAME),
    hf("layers.{n}.ffn.experts.down.weight", "layers.{n}.feed_forward.experts.{e}.w2.weight", SAME),
];

const SEVENTY: LlamaQuantize =
    LlamaQuantize { seventy_layers: Some(80), seventy_if_grouped: true, ..LlamaQuantize::NONE };

#[rustfmt::skip]
static LLAMAS: &[Variant] = &[
    Variant {
        gguf: "llama",
        hf: &["llama", "mistral", "mixtral", "internlm3", "ministral"],
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS],
        classes: &[
            Class { model_type: "mixtral", class: "MixtralForCausalLM", when: Some(has_experts),
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::Field("n_experts", "num_local_experts"), C::Needed("n_experts_used", "num_experts_per_tok")]], ..Class::EMPTY },
            Class { model_type: "llama", class: "LlamaForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(biased)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        llama_quantize: SEVENTY,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "llama-embed",
        hf: &["llama"],
        class: Some("LlamaBidirectionalModel"),
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS],
        classes: &[
            // Transformers' class attends in both directions if the config asks for it; this is the
            // name of the model's own code.
            Class { model_type: "llama", class: "LlamaBidirectionalModel",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(biased), C::Fixed("is_causal", Flag(false))]], ..Class::EMPTY },
        ],
        llama_quantize: SEVENTY,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "mistral3",
        hf: &["ministral3"],
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS, &[K::By(temperature)]],
        classes: &[
            // Ministral 3 scales attention by the logarithm of the position; Mistral's other models
            // do not.
            Class { model_type: "ministral3", class: "Ministral3ForCausalLM", when: Some(has_temperature),
                rules: &[json::BODY, json::DENSE, json::KEY_HEADS, json::RMS, json::HEADS, json::SILU, &[C::By(json::rope_parameters), C::By(mistral_yarn)]], ..Class::EMPTY },
            Class { model_type: "mistral", class: "MistralForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(mistral_yarn), C::By(no_window)]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
    // Mistral Small 3.1 and later, as models with images.
    Variant {
        gguf: "mistral3",
        hf: &["mistral"],
        class: Some("Mistral3ForConditionalGeneration"),
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS],
        ..Variant::EMPTY
    },
    Variant {
        gguf: "smollm3",
        hf: &["smollm3"],
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS],
        classes: &[
            Class { model_type: "smollm3", class: "SmolLM3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::By(json::biased), C::Fixed("no_rope_layer_interval", Count(4))]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TokenizerHabits { pre: &["smaug-bpe"], ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
    Variant {
        gguf: "minicpm",
        hf: &["minicpm"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(minicpm_keys)]],
        classes: &[
            Class { model_type: "minicpm", class: "MiniCPMForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::By(json::longrope), C::By(minicpm_config)]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
    Variant {
        gguf: "nanbeige",
        hf: &["nanbeige"],
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS, &[K::By(loops)]],
        classes: &[
            Class { model_type: "nanbeige", class: "NanbeigeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(biased), C::Stated("num_loops", "num_loops"), C::Stated("skip_loop_final_norm", "skip_loop_final_norm")]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
    Variant {
        gguf: "xverse",
        hf: &["xverse"],
        keys: &[keys::BASE, keys::HEADS, &[K::Fixed("tensor_data_layout", Word("Meta AI original pth")), K::Rotated(1.0)]],
        classes: &[
            Class { model_type: "xverse", class: "XverseForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static ARCEES: &[Variant] = &[
    Variant {
        gguf: "arcee",
        hf: &["arcee"],
        keys: &[keys::BASE, keys::HEADS, LLAMA_KEYS, &[K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "arcee", class: "ArceeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, &[C::Fixed("hidden_act", Word("relu2")), C::By(json::biased)]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static BAICHUANS: &[Variant] = &[
    Variant {
        gguf: "baichuan",
        hf: &["baichuan"],
        keys: &[keys::BASE, keys::HEADS, &[K::Fixed("tensor_data_layout", Word("Meta AI original pth")), K::Rotated(1.0)]],
        classes: &[
            Class { model_type: "baichuan", class: "BaichuanForCausalLM",
                rules: &[json::BODY, json::DENSE, json::RMS, json::SILU, &[C::Field("max_seq_len", "model_max_length")]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static INTERNLM2S: &[Variant] = &[
    Variant {
        gguf: "internlm2",
        hf: &["internlm2"],
        keys: &[keys::BASE, keys::HEADS],
        classes: &[
            Class { model_type: "internlm2", class: "InternLM2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::By(plain_bias)]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static OLMOS: &[Variant] = &[
    Variant {
        gguf: "olmo",
        hf: &["olmo"],
        keys: &[keys::BASE, keys::HEADS, &[K::Fixed("attention.layer_norm_epsilon", Real(1e-5)), K::By(clip_key)]],
        classes: &[
            Class { model_type: "olmo", class: "OlmoForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::SILU, &[C::By(clip_config)]], ..Class::EMPTY },
        ],
        tokenizer: TokenizerHabits { pre: &["olmo"], ..TokenizerHabits::NONE },
        llama_quantize: LlamaQuantize { seventy_layers: Some(80), ..LlamaQuantize::NONE },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static DEEPSEEKS: &[Variant] = &[
    Variant {
        gguf: "deepseek",
        hf: &["deepseek"],
        keys: &[keys::BASE, keys::HEADS, &[K::Rotated(1.0), K::Fixed("rope.scaling.type", Word("none")),
            K::Row("n_leading_dense_layers"), K::Derived("vocab_size"), K::Row("expert_ffn_dim"),
            K::Fixed("expert_weights_scale", Real(1.0)), K::Row("n_experts"), K::Row("n_shared_experts")]],
        classes: &[
            Class { model_type: "deepseek", class: "DeepseekForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::Needed("n_experts", "n_routed_experts"), C::Needed("n_experts_used", "num_experts_per_tok"),
                    C::Needed("expert_ffn_dim", "moe_intermediate_size"), C::Field("n_shared_experts", "n_shared_experts"), C::Needed("n_leading_dense_layers", "first_k_dense_replace"),
                    C::Fixed("moe_layer_freq", Count(1)), C::Fixed("norm_topk_prob", Flag(false)), C::Fixed("scoring_func", Word("softmax")), C::Fixed("attention_bias", Flag(false))]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
const LLAMA_KEYS: &[K] = &[K::Derived("vocab_size"), K::Rotated(1.0)];

/// Ministral 3's scaling of attention by the logarithm of the position.
fn temperature(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let all = model.config.rope_scaling.mscale_all_dim.as_ref();
    let all = all.ok_or_else(|| model.missing_in_config("rope_parameters.mscale_all_dim"))?;
    keys.real("rope.scaling.yarn_log_multiplier", all.value);
    let path = "rope_parameters.llama_4_scaling_beta";
    keys.real(
        "attention.temperature_scale",
        model.real(path)?.ok_or_else(|| model.missing_in_config(path))?,
    );
    Ok(())
}

fn minicpm_keys(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let need = |path| model.real(path)?.ok_or_else(|| model.missing_in_config(path));
    keys.real("embedding_scale", need("scale_emb")?);
    let layers = f64::from(model.config.n_layers.value).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let residual = (f64::from(need("scale_depth")?) / layers) as f32;
    keys.real("residual_scale", residual);
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let logits = (f64::from(model.config.dim.value) / f64::from(need("dim_model_base")?)) as f32;
    keys.real("logit_scale", logits);
    Ok(())
}

fn loops(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("num_loops", model.count("num_loops")?.unwrap_or(1).max(1));
    let skip = model.config_value("skip_loop_final_norm").and_then(Json::as_bool).unwrap_or(false);
    keys.set("skip_loop_final_norm", &skip.into());
    Ok(())
}

fn clip_key(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(bound) = model.real("clip_qkv")? {
        keys.real("attention.clamp_kqv", bound);
    }
    Ok(())
}

fn has_experts(model: &SourceModel<'_>) -> bool {
    model.config.n_experts.value > 0
}

fn has_temperature(model: &SourceModel<'_>) -> bool {
    model.gguf_value("attention.temperature_scale").is_ok()
}

/// Biases of attention and of the feed-forward network.
fn biased(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    json::biased(model, out)?;
    out.insert("mlp_bias".to_owned(), model.has("layers.0.ffn.up.bias").into());
    Ok(())
}

fn plain_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("bias".to_owned(), model.has_in_layers("attention.q.bias").into());
    Ok(())
}

/// Mistral's YaRN, and Ministral 3's attention temperature. GGUF has one magnitude factor for two
/// in the config, which are equal in the published models.
fn mistral_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rope = ["rope_parameters", "rope_scaling"].into_iter().find(|key| out.contains_key(*key));
    let Some(Json::Object(rope)) = rope.and_then(|key| out.get_mut(key)) else { return Ok(()) };
    if let Some(multiplier) = &model.config.rope_scaling.log_multiplier {
        rope.insert("mscale".to_owned(), multiplier.value.reported());
        rope.insert("mscale_all_dim".to_owned(), multiplier.value.reported());
    }
    if let Ok(beta) = model.gguf_value("attention.temperature_scale") {
        rope.insert("llama_4_scaling_beta".to_owned(), beta);
    }
    Ok(())
}

/// Mistral's class has a sliding window unless the config says `null`.
fn no_window(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("sliding_window".to_owned(), Json::Null);
    Ok(())
}

/// MiniCPM's factors; the converter stores their products.
fn minicpm_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let ModelConfig { dim, n_layers, scales, .. } = &model.config;
    let need = |field: &Option<Field<f32>>, key: &str| {
        let value = field.as_ref().map(|field| f64::from(field.value));
        value.ok_or_else(|| model.missing_in_model(key))
    };
    let residual = need(&scales.residual_scale, "residual_scale")?;
    let depth = residual * f64::from(n_layers.value).sqrt();
    let base = f64::from(dim.value) / need(&scales.logit_scale, "logit_scale")?;
    let embedding = need(&scales.embedding_scale, "embedding_scale")?;
    for (key, value) in [("scale_depth", depth), ("scale_emb", embedding)] {
        // Six digits, the precision that an f32 keeps through a square root and back.
        let value = (value * 1e6).round() / 1e6;
        out.insert(key.to_owned(), value.into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width")]
    let base = base.round() as u32;
    out.insert("dim_model_base".to_owned(), base.into());
    Ok(())
}

/// OLMo's clipping of queries, keys and values, in some of its models.
fn clip_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Ok(bound) = model.gguf_value("attention.clamp_kqv") {
        out.insert("clip_qkv".to_owned(), bound);
    }
    Ok(())
}
