//! Qwen 2 and 3, dense and with experts.

use serde_json::{Map, Value as Json, json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED, SHARED_EXPERT, json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::{LlamaQuantize, MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::rule::{NameRule, gguf, hf};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, RowOrder, SAME, Transform};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::Flag;

/// Qwen 2: biases on q, k and v.
pub(super) static QWEN2: Architecture = Architecture {
    name: "qwen2",
    summary: "Qwen 1.5, 2 and 2.5, dense",
    gguf: &["qwen2", "qwen2vl"],
    hf: &["qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN2S,
    ..Architecture::EMPTY
};

/// Qwen 2 with experts: a gated shared expert.
pub(super) static QWEN2MOE: Architecture = Architecture {
    name: "qwen2moe",
    summary: "Qwen 1.5 and 2 with experts",
    gguf: &["qwen2moe"],
    hf: &["qwen2_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[SHARED_EXPERT, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN2MOES,
    ..Architecture::EMPTY
};

/// Qwen 3: norms on q and k.
pub(super) static QWEN3: Architecture = Architecture {
    name: "qwen3",
    summary: "Qwen 3, dense",
    gguf: &["qwen3", "qwen3vl"],
    hf: &["qwen3", "qwen3_vl", "qwen3_vl_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, RANKER, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN3S,
    ..Architecture::EMPTY
};

/// The language model of Qwen3-VL with experts.
pub(super) static QWEN3VLMOE: Architecture = Architecture {
    name: "qwen3vlmoe",
    summary: "Qwen3-VL with experts",
    gguf: &["qwen3vlmoe"],
    hf: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, TRANSPOSED_EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN3VLMOES,
    joined_experts: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
    mlx_modules: &[MlxModules {
        models: &["qwen3_vl_moe"],
        path: MlxPath::EndsWith("mlp.gate"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

/// Qwen 3 with experts: norms on q and k.
pub(super) static QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    summary: "Qwen 3 with experts",
    gguf: &["qwen3moe"],
    hf: &["qwen3_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN3MOES,
    mlx_modules: &[MlxModules {
        models: &["qwen3_moe"],
        path: MlxPath::EndsWith("mlp.gate"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

/// The rows of the words by which Qwen3-Reranker ranks texts, which llama.cpp's converter copies from
/// the output matrix.
static RANKER: &[NameRule] = &[gguf("classifier.output.weight", "cls.output.weight", SAME)];

const INPUTS: Transform = Transform { axes: Axes::WidthLast, ..SAME };

/// All experts of a layer in one tensor: `[inputs, outputs]` in published files, `[outputs, inputs]` in
/// those that transformers 5 saves.
#[rustfmt::skip]
static TRANSPOSED_EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.mlp.experts.gate_up_proj", Transform { rows: RowOrder::Half(0), ..INPUTS }),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.mlp.experts.gate_up_proj", Transform { rows: RowOrder::Half(1), ..INPUTS }),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.experts.down_proj",    Transform { axes: Axes::WidthFirst, ..SAME }),
];

const TOKENIZER: TokenizerHabits =
    TokenizerHabits { default_pre: Some("qwen2"), ..TokenizerHabits::NONE };

#[rustfmt::skip]
static QWEN2S: &[Variant] = &[
    Variant {
        gguf: "qwen2",
        hf: &["qwen2"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "qwen2", class: "Qwen2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TOKENIZER,
        llama_quantize: LlamaQuantize { seventy_layers: Some(80), ..LlamaQuantize::NONE },
        ..Variant::EMPTY
    },
    Variant {
        gguf: "qwen2vl",
        hf: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
        keys: &[keys::BASE, keys::HEADS],
        classes: &[
            // Without images, the three sections of a position are equal, and the model is Qwen 2.
            // No class of transformers loads the text model of Qwen2-VL alone.
            Class { model_type: "qwen2", class: "Qwen2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::By(sections)]], ..Class::EMPTY },
        ],
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static QWEN2MOES: &[Variant] = &[
    Variant {
        gguf: "qwen2moe",
        hf: &["qwen2_moe"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE],
        classes: &[
            Class { model_type: "qwen2_moe", class: "Qwen2MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, json::EXPERTS, json::SHARED, &[C::Fixed("norm_topk_prob", Flag(false))]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static QWEN3S: &[Variant] = &[
    Variant {
        gguf: "qwen3",
        hf: &["qwen3"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "qwen3", class: "Qwen3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(json::biased)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "qwen3vl",
        hf: &["qwen3_vl", "qwen3_vl_text"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(keys::pooling), K::By(deepstack)]],
        classes: &[
            // Without images, the model is Qwen 3, as for Qwen2-VL.
            Class { model_type: "qwen3", class: "Qwen3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(interleaved_sections), C::By(json::biased)]], ..Class::EMPTY },
        ],
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static QWEN3MOES: &[Variant] = &[
    Variant {
        gguf: "qwen3moe",
        hf: &["qwen3_moe"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE],
        classes: &[
            Class { model_type: "qwen3_moe", class: "Qwen3MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, json::EXPERTS, &[C::Fixed("norm_topk_prob", Flag(true)), C::By(json::biased)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static QWEN3VLMOES: &[Variant] = &[
    Variant {
        gguf: "qwen3vlmoe",
        hf: &["qwen3_vl_moe", "qwen3_vl_moe_text"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE, &[K::By(deepstack)]],
        classes: &[
            // Without images, the model is Qwen 3 with experts, as for Qwen3-VL.
            Class { model_type: "qwen3_moe", class: "Qwen3MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, json::EXPERTS, &[C::Fixed("norm_topk_prob", Flag(true)), C::By(interleaved_sections), C::By(json::biased)]], ..Class::EMPTY },
        ],
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

fn deepstack(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let layers =
        model.config_value("vision_config.deepstack_visual_indexes").and_then(Json::as_array);
    let layers = layers.map_or(0, |layers| u32::try_from(layers.len()).unwrap_or(u32::MAX));
    keys.count("n_deepstack_layers", layers);
    Ok(())
}

/// Parts of a head that are rotated by time, height and width.
fn sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    put_sections(model, json::sections(model, false), out)
}

/// The same for Qwen3-VL and later, which interleave the parts.
fn interleaved_sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    put_sections(model, json::sections(model, true), out)
}

fn put_sections(
    model: &SourceModel<'_>,
    sections: Vec<(String, Json)>,
    out: &mut Map<String, Json>,
) -> Result<()> {
    if sections.is_empty() {
        return Err(model.missing_in_model("rope.dimension_sections"));
    }
    let rope = out.entry("rope_scaling").or_insert_with(|| json!({"rope_type": "default"}));
    if let Json::Object(rope) = rope {
        rope.extend(sections);
    }
    Ok(())
}
