//! The choices of `ollama create --quantize` for a safetensors model: x/create of Ollama as of
//! fb307609 (2026-08-21).
//!
//! Names are those of the source, with the experts of a layer already stacked:
//! `model.layers.0.mlp.experts.up_proj.weight`.

use std::collections::BTreeSet;

use crate::json::Json;

use crate::container::ollama::types::QuantType;
use crate::recipe::more_bits;
use crate::shape;

impl QuantType {
    /// The 8-bit type of the same kind (`eightBit`).
    fn eight_bits(self) -> Self {
        match self {
            Self::Int4 | Self::Int8 => Self::Int8,
            _ => Self::Mxfp8,
        }
    }
}

/// The properties of a model that choices depend on, in addition to its tensors.
#[derive(Clone, Debug, Default)]
pub struct OllamaModel {
    /// The first of `architectures`, else `model_type`.
    pub architecture: String,
    /// Number of layers of the decoder; 0 if the config does not state it.
    pub layers: u64,
    /// Number of experts of a layer; 0 if the config does not state it.
    pub experts: u64,
    /// The layers without experts, which only Laguna's choice uses.
    pub dense_layers: BTreeSet<u64>,
    /// Whether the model is a draft model, whose output needs less accuracy.
    pub draft: bool,
}

impl OllamaModel {
    /// Reads the properties from `config.json`.
    pub fn of(config: &Json) -> Self {
        let text = |value: &Json| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let number = |key: &str| {
            let within = [config, &config["text_config"], &config["llm_config"]];
            let numbers = within.into_iter().filter_map(|map| map[key].as_u64());
            numbers.into_iter().find(|number| *number != 0).unwrap_or(0)
        };
        let named = ["/architectures/0", "/model_type", "/text_config/model_type"];
        let architecture = named.iter().find_map(|at| text(config.pointer(at)?));
        let architecture = architecture.unwrap_or_default();
        let kinds = config["mlp_layer_types"].as_array().map_or(&[][..], Vec::as_slice);
        let dense =
            (0u64..).zip(kinds).filter(|(_, kind)| *kind == "dense").map(|(layer, _)| layer);
        let only = config["mlp_only_layers"].as_array().into_iter().flatten();
        Self {
            architecture,
            layers: match number("num_hidden_layers") {
                0 => kinds.len() as u64,
                layers => layers,
            },
            experts: number("num_experts"),
            dense_layers: dense.chain(only.filter_map(Json::as_u64)).collect(),
            draft: false,
        }
    }

    /// Whether the config describes weights in F8_E4M3 with a scale for each block of 128 x 128
    /// (`HFFP8WeightBlockSize`). Ollama decodes such weights to BF16 and quantizes those that it
    /// would quantize anyway, to mxfp8.
    pub fn has_fp8_blocks(config: &Json) -> bool {
        let keys = ["quantization", "quantization_config", "compression_config"];
        let within = [config, &config["text_config"]];
        let all = within.into_iter().flat_map(|map| keys.map(|key| &map[key]));
        let is = |value: &Json, text: &str| {
            value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(text))
        };
        let size = |quantization: &Json| -> Option<Json> {
            let block = &quantization["weight_block_size"];
            if is(&quantization["quant_method"], "fp8") && block.is_array() {
                return Some(block.clone());
            }
            let compressed = is(&quantization["quant_method"], "compressed-tensors")
                || is(&quantization["format"], "float-quantized");
            let groups = quantization["config_groups"].as_object().filter(|_| compressed)?;
            let mut groups = groups.values().filter(|group| {
                let weights = &group["weights"];
                is(&group["format"], "float-quantized")
                    && weights["num_bits"] == 8
                    && is(&weights["type"], "float")
                    && weights["block_structure"].is_array()
            });
            groups.next()?.pointer("/weights/block_structure").cloned()
        };
        all.into_iter().find_map(size).is_some_and(|size| size == crate::json::json!([128, 128]))
    }

    /// The type of a tensor; `None` if it is not quantized.
    pub fn choose(&self, name: &str, shape: &[u64], requested: QuantType) -> Option<QuantType> {
        let weight = Weight { name, shape };
        if self.draft && (weight.is_embedding() || weight.ends(&["lm_head.weight"])) {
            return weight.fitting(requested);
        }
        let row = POLICIES.iter().find(|(names, _)| names.contains(&&*self.architecture));
        match row {
            Some((_, policy)) => policy(self, &weight, requested),
            None => usual(&weight, requested),
        }
    }
}

/// A rule for some architectures.
type ArchitecturePolicy = fn(&OllamaModel, &Weight<'_>, QuantType) -> Option<QuantType>;

/// Architectures with rules of their own: Ollama's registry (`tensorImportTransformRegistry`). It
/// is keyed by `architectures` of the config, and its rules correspond to Ollama's code for each,
/// so it is kept here and not with the families.
static POLICIES: &[(&[&str], ArchitecturePolicy)] = &[
    (
        &[
            "Qwen3_5ForCausalLM",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3NextForCausalLM",
            "Qwen3NextForConditionalGeneration",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3NextMoeForCausalLM",
            "Qwen3NextMoeForConditionalGeneration",
        ],
        qwen35,
    ),
    (
        &[
            "Gemma4ForCausalLM",
            "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedForCausalLM",
            "Gemma4UnifiedForConditionalGeneration",
            "gemma4_unified",
            "gemma4_unified_text",
            "Gemma4AssistantForCausalLM",
            "Gemma4UnifiedAssistantForCausalLM",
            "gemma4_unified_assistant",
        ],
        gemma4,
    ),
    (&["LagunaForCausalLM"], laguna),
    (&["MuseGlimmerForConditionalGeneration"], glimmer),
    (&["Cohere2MoeForCausalLM"], cohere2moe),
    (
        &["NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronHForCausalLM"],
        nemotron_h,
    ),
];

/// A tensor, with the conditions that rules test.
struct Weight<'a> {
    name: &'a str,
    shape: &'a [u64],
}

/// Projections that lose most accuracy with few bits.
const SENSITIVE: &[&str] = &[".v_proj", ".k_proj", "down_proj"];

impl Weight<'_> {
    fn has(&self, pieces: &[&str]) -> bool {
        pieces.iter().any(|piece| self.name.contains(piece))
    }

    fn ends(&self, ends: &[&str]) -> bool {
        ends.iter().any(|end| self.name.ends_with(end))
    }

    /// The type, if rows divide into its groups.
    fn fitting(&self, requested: QuantType) -> Option<QuantType> {
        let group = requested.descriptor().group_size;
        let divides = |columns: &u64| columns.is_multiple_of(group.into());
        self.shape.last().is_some_and(divides).then_some(requested)
    }

    /// The 8-bit type if it is requested and fits, else the base type if that fits
    /// (`sensitiveType`).
    fn promoted(&self, promote: bool, base: QuantType) -> Option<QuantType> {
        let high = promote.then(|| self.fitting(base.eight_bits())).flatten();
        high.or_else(|| self.fitting(base))
    }

    /// The number in `.layers.{n}.`.
    fn layer(&self) -> Option<u64> {
        self.name.match_indices(".layers.").find_map(|(at, piece)| {
            let rest = self.name.get(at.checked_add(piece.len())?..)?;
            let (digits, _) = rest.split_once('.')?;
            let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            whole.then(|| digits.parse().ok()).flatten()
        })
    }

    /// Whether the tensor is in a layer that gets more bits. False if the number of layers is
    /// unknown.
    fn more_bits(&self, layers: u64) -> bool {
        layers > 0 && self.layer().is_some_and(|layer| more_bits(layer, layers))
    }

    fn is_embedding(&self) -> bool {
        self.ends(&["embed_tokens.weight"]) && !self.has(&["per_layer"])
    }

    fn is_vision(&self) -> bool {
        self.has(&["vision", "visual"])
    }

    fn is_audio(&self) -> bool {
        self.has(&["audio_tower", "embed_audio"])
    }

    /// Whether it belongs to an expert, stacked or shared, with `.weight` or without
    /// (`isStackedExpertWeight`).
    fn is_expert(&self) -> bool {
        !self.ends(&[".bias", ".scale", ".qbias"])
            && self.has(&[
                ".experts.",
                ".mlp.switch_mlp.",
                ".mlp.shared_experts.",
                ".mixer.shared_experts.",
            ])
    }

    fn is_router(&self) -> bool {
        self.ends(&[
            ".mlp.gate.weight",
            ".mixer.gate.weight",
            ".shared_expert_gate.weight",
            ".router.proj.weight",
        ])
    }

    /// Whether it is the weight of a linear layer (`ShouldQuantize`).
    fn is_linear(&self) -> bool {
        self.ends(&[".weight"]) && !self.is_audio() && !self.has(&["embed", "norm", "ln_"])
    }
}

/// The rules for models without rules of their own (`GetTensorQuantization`).
fn usual(weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    let expert = weight.is_expert();
    let matrix = weight.shape.len() == 2 || (weight.shape.len() == 3 && expert);
    let small = shape::elements(weight.shape).is_some_and(|elements| elements < 1024);
    if !(expert || weight.is_linear()) || !matrix || small || weight.is_router() {
        return None;
    }
    if weight.ends(&["lm_head.weight"]) {
        return weight.fitting(base.eight_bits());
    }
    if weight.is_vision() {
        return None;
    }
    weight.fitting(base)?;
    // Kernels for experts require the same type for all of them, except the one for int4.
    let promote = match base {
        QuantType::Int4 => weight.has(SENSITIVE),
        QuantType::Nvfp4 | QuantType::Mxfp4 => !expert && weight.has(SENSITIVE),
        _ => false,
    };
    weight.promoted(promote, base)
}

/// x/create/qwen35.go.
fn qwen35(_: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    let low_rank = weight.ends(&[
        ".linear_attn.in_proj_a.weight",
        ".linear_attn.in_proj_b.weight",
        ".linear_attn.in_proj_ba.weight",
    ]);
    if low_rank { None } else { usual(weight, base) }
}

/// x/create/gemma4.go.
fn gemma4(model: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    // The embedding also serves as output matrix.
    if weight.is_embedding() {
        return weight.promoted(true, base);
    }
    let language = !weight.is_vision() && !weight.is_audio();
    if language && weight.has(SENSITIVE) && base.eight_bits() != base {
        // Models with 8 experts have few key and value heads.
        let few_heads = model.layers > 0 && model.experts == 8;
        let promote = (few_heads && weight.has(&[".v_proj", ".k_proj"]))
            || (!weight.has(&[".k_proj"]) && weight.more_bits(model.layers));
        return weight.promoted(promote, base);
    }
    usual(weight, base)
}

/// x/create/cohere2moe.go.
fn cohere2moe(model: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    if weight.is_embedding() && weight.shape.len() == 2 {
        return weight.fitting(base.eight_bits());
    }
    let by_layer = model.layers > 0 && weight.layer().is_some();
    if weight.has(SENSITIVE) && base.eight_bits() != base && by_layer {
        return weight.promoted(weight.more_bits(model.layers), base);
    }
    usual(weight, base)
}

/// x/create/nemotron_h.go.
fn nemotron_h(model: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    let other = ["vision_model.", "mlp1.", "sound_encoder.", "sound_projection."];
    if other.iter().any(|start| weight.name.starts_with(start))
        || weight.ends(&[".mixer.gate.weight", ".mixer.conv1d.weight"])
    {
        return None;
    }
    if weight.ends(&["embeddings.weight", "lm_head.weight"]) {
        return weight.fitting(base.eight_bits());
    }
    if matches!(base, QuantType::Nvfp4 | QuantType::Mxfp4) {
        let attention = weight.ends(&[
            ".mixer.q_proj.weight",
            ".mixer.k_proj.weight",
            ".mixer.v_proj.weight",
            ".mixer.o_proj.weight",
        ]);
        let expert = weight.has(&[".mixer.experts."]) && weight.ends(&[".down_proj.weight"]);
        let others = weight.ends(&[
            ".mixer.out_proj.weight",
            ".mixer.down_proj.weight",
            ".mixer.shared_experts.down_proj.weight",
        ]);
        if attention || expert || others {
            let promote = attention || weight.layer().is_none() || weight.more_bits(model.layers);
            return weight.promoted(promote, base);
        }
    }
    usual(weight, base)
}

/// x/create/glimmer.go.
fn glimmer(model: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    if weight.is_vision() {
        return None;
    }
    if weight.is_embedding() {
        return weight.promoted(true, base);
    }
    let attention = weight.has(&[
        ".self_attn.q_proj",
        ".self_attn.o_proj",
        ".self_attn.k_proj",
        ".self_attn.v_proj",
    ]);
    let others =
        weight.has(&[".self_attn.gate_proj", ".self_attn.output_gate_proj", ".mlp.down_proj"]);
    if (attention || others) && base.eight_bits() != base {
        return weight.promoted(attention || weight.more_bits(model.layers), base);
    }
    usual(weight, base)
}

/// x/create/laguna.go: a list of tensors to quantize, for float types; integer types use the usual
/// rules.
fn laguna(model: &OllamaModel, weight: &Weight<'_>, base: QuantType) -> Option<QuantType> {
    if matches!(base, QuantType::Int4 | QuantType::Int8) {
        return usual(weight, base);
    }
    if weight.is_embedding() || weight.ends(&["lm_head.weight"]) {
        return weight.fitting(base.eight_bits());
    }
    let eight = base == QuantType::Mxfp8;
    // The promotion of the usual rules does not apply here.
    let plain = || {
        let found = usual(weight, base);
        found.map(|found| if found == base.eight_bits() { base } else { found })
    };
    let attention = weight.has(&[
        ".self_attn.q_proj.weight",
        ".self_attn.k_proj.weight",
        ".self_attn.v_proj.weight",
        ".self_attn.o_proj.weight",
        ".self_attn.g_proj.weight",
    ]);
    if attention {
        return if eight { None } else { plain() };
    }
    let dense =
        weight.has(&[".mlp.gate_proj.weight", ".mlp.up_proj.weight", ".mlp.down_proj.weight"]);
    if dense && weight.layer().is_some_and(|layer| laguna_is_dense(model, layer)) {
        return plain();
    }
    if weight.has(&[".mlp.shared_expert.down_proj.weight"]) {
        return match (eight, laguna_gets_more(model, weight)) {
            (true, _) => None,
            (false, true) => usual(weight, base),
            (false, false) => plain(),
        };
    }
    let projection = weight.ends(&[".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"]);
    if weight.has(&[".mlp.experts."]) && projection {
        let down = weight.ends(&[".down_proj.weight"]);
        return if eight && down && laguna_gets_more(model, weight) { None } else { plain() };
    }
    if weight.has(&[".mlp.shared_expert."]) && projection { plain() } else { None }
}

/// If the config does not list dense layers, the first layer counts as dense.
fn laguna_is_dense(model: &OllamaModel, layer: u64) -> bool {
    match model.dense_layers.is_empty() {
        true => layer == 0,
        false => model.dense_layers.contains(&layer),
    }
}

/// Like [`more_bits`], but every third layer only up to a point before the middle
/// (`useMoreBitsWithMiddleEnd`). A config that does not state the number of layers counts as 40
/// layers.
fn laguna_gets_more(model: &OllamaModel, weight: &Weight<'_>) -> bool {
    let layers = if model.layers == 0 { 40 } else { model.layers };
    let Some(layer) = weight.layer() else { return false };
    let outer = layer < layers / 8 || layer >= layers.saturating_mul(7) / 8;
    outer || (more_bits(layer, layers) && layer.saturating_add(4) < layers / 2)
}
