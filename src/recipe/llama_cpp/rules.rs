//! The tables of llama-quantize: src/llama-quant.cpp of llama.cpp, as of ggml 0.25.3.

use super::source::{Hparams, block};
use crate::arch::habits::Exceptions;
use crate::dtype::DType;
use crate::quant::Importance;
use crate::recipe::{FileType, more_bits};

/// The role of a tensor, as far as rules distinguish it (`tensor_category`). It follows from the
/// spelling of the name in GGUF, not from the purpose of the tensor: the output matrix of T5's attention,
/// `attn_o`, has no role, and a matrix of gate and up has that of its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Output,
    TokenEmbedding,
    /// Values of attention, and tensors that include values: fused Q, K and V, and the second
    /// expansion of latent attention.
    Value,
    Key,
    Query,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Other,
}

/// Names of tensors with a role of their own.
static NAMES: &[(&str, Role)] = &[
    ("output.weight", Role::Output),
    ("token_embd.weight", Role::TokenEmbedding),
    ("per_layer_token_embd.weight", Role::TokenEmbedding),
];

/// Substrings of names that determine the role of all other tensors; the first match applies
/// (`tensor_get_category`). Upstream has rules for fused Q, K and V, but they never apply, because
/// it tests for values first.
static PIECES: &[(&str, Role)] = &[
    ("attn_qkv.weight", Role::Value),
    ("attn_kv_b.weight", Role::Value),
    ("attn_v.weight", Role::Value),
    ("attn_k.weight", Role::Key),
    ("attn_q.weight", Role::Query),
    ("attn_output.weight", Role::AttentionOutput),
    ("ffn_up", Role::Up),
    ("ffn_gate", Role::Gate),
    ("ffn_down", Role::Down),
];

impl Role {
    pub(super) fn of(name: &str) -> Self {
        let named = NAMES.iter().find(|(whole, _)| *whole == name);
        let found = named.or_else(|| PIECES.iter().find(|(piece, _)| name.contains(piece)));
        found.map_or(Self::Other, |(_, role)| *role)
    }
}

/// Tensors that are not quantized (`tensor_allows_quantization`): tables, not matrices.
static KEPT_NAMES: &[&str] = &["position_embd.weight", "token_types.weight"];

/// Substrings of the names of tensors that are not quantized: small or sensitive ones.
#[rustfmt::skip]
static KEPT: &[&str] = &[
    "_norm.weight",
    // Routers, and DeepSeek-V4's table of experts by token.
    "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight",
    // Gemma 3n.
    "altup", "laurel", "per_layer_model_proj",
    // Convolutions of Mamba, Kimi and LFM2.
    "ssm_conv1d", "shortconv.conv.weight",
    // MiniMax's indexer.
    "indexer.k_proj.weight", "indexer.q_proj.weight",
    // RWKV.
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
    "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight",
    "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
    "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
    // T5's relative position bias.
    "attn_rel_b.weight",
    // Vision and audio models.
    ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd",
    ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
];

/// Whether a matrix with this name is quantized at all.
pub(super) fn is_quantized(exceptions: Exceptions, name: &str) -> bool {
    let any = |pieces: &[&str]| pieces.iter().any(|piece| name.contains(piece));
    let kept = KEPT_NAMES.contains(&name) || any(KEPT) || any(exceptions.values("kept"));
    name.ends_with("weight") && !kept
}

/// Whether a tensor gets `Q8_0` in every file type.
pub(super) fn needs_eight_bits(exceptions: Exceptions, name: &str) -> bool {
    exceptions.values("eight_bits").iter().any(|piece| name.contains(piece))
}

/// Whether llama.cpp calls a model "70B" (`LLM_TYPE_70B` in src/models/*.cpp), whose attention
/// values get more bits.
pub(super) fn is_seventy(exceptions: Exceptions, model: &Hparams) -> bool {
    let own = model.layers.saturating_sub(model.nextn_layers);
    exceptions.values("seventy_layers").contains(&own.to_string().as_str())
        && !(exceptions.has("seventy_if_grouped")
            && (model.heads == model.kv_heads || model.experts == 8))
}

/// Facts about a tensor's position and model that rules depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorPosition {
    /// The tensor's index among `of` tensors of its role, or its layer.
    pub(super) index: u64,
    pub(super) of: u64,
    /// Query heads that share a key head, rounded down; 0 without attention.
    pub(super) sharing: u64,
    pub(super) experts: u64,
    /// Whether there is an importance matrix.
    pub(super) importance: bool,
    /// Whether the output is `Q8_0`, and other matrices have other dtypes than in most families.
    pub(super) eight_bit_output: bool,
}

impl TensorPosition {
    /// Whether the layer is in the first of `parts` equal parts of the layers.
    const fn first(&self, parts: u64) -> bool {
        self.index < self.of / parts
    }

    const fn last_eighth(&self) -> bool {
        self.index >= self.of.saturating_mul(7) / 8
    }

    const fn more(&self) -> bool {
        more_bits(self.index, self.of)
    }
}

/// A rule: for these file types (none: all) and this role, if the condition holds, the dtype.
pub(super) struct Rule(Role, &'static [FileType], fn(&TensorPosition) -> bool, DType);

impl Rule {
    pub(super) fn fits(
        &self,
        role: Role,
        file_type: FileType,
        place: &TensorPosition,
    ) -> Option<DType> {
        let Self(of, file_types, when, dtype) = self;
        let fits = *of == role
            && (file_types.is_empty() || file_types.contains(&file_type))
            && when(place);
        fits.then_some(*dtype)
    }
}

const fn always(_: &TensorPosition) -> bool {
    true
}

use DType as D;
use FileType as F;
use Role as R;

/// File types with few bits, which have [rules of their own](LOW_RULES).
pub(super) static LOW: &[FileType] =
    &[F::IQ1_S, F::IQ1_M, F::IQ2_XXS, F::IQ2_XS, F::IQ2_S, F::IQ2_M];

/// Dtypes of the output, or of an embedding that also serves as output, instead of the usual
/// `Q6_K`.
pub(super) static OUTPUT_RULES: &[Rule] = &[Rule(
    R::Output,
    &[F::IQ1_S, F::IQ1_M, F::IQ2_XXS, F::IQ2_XS, F::IQ2_S, F::IQ2_M, F::IQ3_XXS],
    always,
    D::Q5_K,
)];

/// Rules for [`LOW`]: the first match applies, else the base dtype.
#[rustfmt::skip]
pub(super) static LOW_RULES: &[Rule] = &[
    Rule(R::TokenEmbedding,  &[F::IQ1_S, F::IQ1_M, F::IQ2_XXS, F::IQ2_XS], always, D::Q2_K),
    Rule(R::TokenEmbedding,  &[F::IQ2_S, F::IQ2_M],                        always, D::IQ3_S),

    Rule(R::Value,           &[],                   |p| p.sharing >= 4 || p.experts >= 4, D::Q4_K),
    Rule(R::Value,           &[F::IQ2_S, F::IQ2_M], always,              D::IQ3_S),
    Rule(R::Value,           &[],                   always,              D::Q2_K),

    Rule(R::Key,             &[],                   |p| p.experts == 8,  D::Q4_K),

    Rule(R::Down,            &[F::IQ2_S, F::IQ2_M], |p| p.first(8),      D::IQ3_S),
    Rule(R::Down,            &[],                   |p| p.first(8),      D::Q2_K),

    Rule(R::AttentionOutput, &[],                   |p| p.experts == 8,  D::Q5_K),
    Rule(R::AttentionOutput, &[F::IQ1_S, F::IQ1_M], always,              D::IQ2_XXS),
    Rule(R::AttentionOutput, &[F::IQ2_S, F::IQ2_M], always,              D::IQ3_S),
];

/// Rules for all other file types: the first match applies, else the base dtype.
#[rustfmt::skip]
pub(super) static RULES: &[Rule] = &[
    Rule(R::TokenEmbedding,  &[F::IQ3_XXS],                   always,              D::IQ3_S),
    Rule(R::TokenEmbedding,  &[F::TQ1_0, F::TQ2_0, F::Q2_0],  always,              D::Q4_K),

    // Upstream sets `Q8_0` for these at the end, overriding other rules.
    Rule(R::Value,           &[],                             |p| p.experts == 8,  D::Q8_0),
    Rule(R::Value,           &[F::Q2_K, F::Q2_K_S, F::IQ3_XXS, F::IQ3_XS, F::IQ3_S],
                                                              |p| p.sharing >= 4,  D::Q4_K),
    Rule(R::Value,           &[F::Q2_K],                      always,              D::Q3_K),
    Rule(R::Value,           &[F::IQ3_XXS],                   |p| !p.importance,   D::IQ3_S),
    Rule(R::Value,           &[F::IQ3_M],                     always,              D::Q4_K),
    Rule(R::Value,           &[F::Q3_K_M],                    |p| p.index < 2,     D::Q5_K),
    Rule(R::Value,           &[F::Q3_K_M],                    always,              D::Q4_K),
    Rule(R::Value,           &[F::Q3_K_L],                    always,              D::Q5_K),
    Rule(R::Value,           &[F::IQ4_NL, F::IQ4_XS],         |p| p.sharing >= 4,  D::Q5_K),
    Rule(R::Value,           &[F::Q4_K_M, F::Q5_K_M],         TensorPosition::more, D::Q6_K),
    Rule(R::Value,           &[F::Q4_K_S],                    |p| p.index < 4,     D::Q5_K),

    Rule(R::Key,             &[],                             |p| p.experts == 8,  D::Q8_0),
    Rule(R::Key,             &[F::IQ3_XS],                    always,              D::IQ3_XXS),
    Rule(R::Key,             &[F::IQ3_XXS],                   always,              D::IQ2_S),
    Rule(R::Query,           &[F::IQ3_XS],                    always,              D::IQ3_XXS),
    Rule(R::Query,           &[F::IQ3_XXS],                   always,              D::IQ2_S),

    Rule(R::Down,            &[F::Q2_K],                      always,              D::Q3_K),
    Rule(R::Down,            &[F::Q2_K_S],                    |p| p.first(8),      D::Q4_K),
    Rule(R::Down,            &[F::IQ3_XXS],    |p| !p.importance && p.first(8),    D::Q4_K),
    Rule(R::Down,            &[F::IQ3_XXS],                   |p| !p.importance,   D::Q3_K),
    Rule(R::Down,            &[F::Q3_K_M],                    |p| p.first(16),     D::Q5_K),
    Rule(R::Down,            &[F::Q3_K_M],     |p| !p.eight_bit_output || p.more(), D::Q4_K),
    Rule(R::Down,            &[F::IQ3_M],
                             |p| p.first(8) || (p.experts == 8 && p.more()),       D::Q4_K),
    Rule(R::Down,            &[F::Q3_K_L],                    |p| p.eight_bit_output, D::Q4_K),
    Rule(R::Down,            &[F::Q3_K_L],                    always,              D::Q5_K),
    Rule(R::Down,            &[F::Q4_K_M],     |p| p.eight_bit_output && p.first(16), D::Q6_K),
    Rule(R::Down,            &[F::Q4_K_M],     |p| p.eight_bit_output && p.more(), D::Q5_K),
    Rule(R::Down,            &[F::Q4_K_M],     |p| !p.eight_bit_output && p.more(), D::Q6_K),
    Rule(R::Down,            &[F::IQ4_NL, F::IQ4_XS],
                                               |p| !p.importance && p.first(8),    D::Q5_K),
    Rule(R::Down,            &[F::Q5_K_M],                    TensorPosition::more, D::Q6_K),
    Rule(R::Down,            &[F::Q4_K_S],     |p| !p.eight_bit_output && p.first(8), D::Q5_K),
    // With importance, the scales of the first layers become inaccurate in dtypes without a
    // minimum.
    Rule(R::Down,            &[F::Q4_0],       |p| p.importance && p.first(8),     D::Q4_1),
    Rule(R::Down,            &[F::Q5_0],       |p| p.importance && p.first(8),     D::Q5_1),

    Rule(R::AttentionOutput, &[F::Q2_K, F::IQ3_XS, F::IQ3_XXS, F::Q3_K_S, F::Q3_K_M, F::IQ4_NL,
                               F::Q4_K_S, F::Q4_K_M, F::IQ3_S, F::IQ3_M, F::IQ4_XS],
                                               |p| !p.eight_bit_output && p.experts == 8, D::Q5_K),
    Rule(R::AttentionOutput, &[F::Q2_K],                      |p| !p.eight_bit_output, D::Q3_K),
    Rule(R::AttentionOutput, &[F::IQ3_XXS],                   |p| !p.eight_bit_output, D::IQ3_S),
    Rule(R::AttentionOutput, &[F::Q3_K_M, F::IQ3_M],          |p| !p.eight_bit_output, D::Q4_K),
    Rule(R::AttentionOutput, &[F::Q3_K_L],                    |p| p.eight_bit_output, D::Q4_K),
    Rule(R::AttentionOutput, &[F::Q3_K_L],                    |p| p.experts != 8,  D::Q5_K),

    Rule(R::Gate,            &[F::IQ3_XS], |p| !p.first(8) && !p.last_eighth(),    D::IQ3_XXS),
    Rule(R::Up,              &[F::IQ3_XS], |p| !p.first(8) && !p.last_eighth(),    D::IQ3_XXS),
];

/// Fallback dtypes for rows that are not whole blocks of the dtype on the left
/// (`tensor_type_fallback`).
pub(super) static FALLBACKS: &[(&[DType], DType)] = &[
    (
        &[D::IQ1_S, D::IQ1_M, D::IQ2_XXS, D::IQ2_XS, D::IQ2_S, D::IQ3_XXS, D::IQ3_S, D::IQ4_XS],
        D::IQ4_NL,
    ),
    (&[D::Q2_0, D::Q2_K, D::Q3_K, D::TQ1_0, D::TQ2_0], D::Q4_0),
    (&[D::Q4_K], D::Q5_0),
    (&[D::Q5_K], D::Q5_1),
    (&[D::Q6_K], D::Q8_0),
];

/// The tensors that convert_hf_to_gguf.py writes in another dtype than the one asked for: the dtypes asked for, the names,
/// in layers without `blk.{n}`, and the dtype written (`prepare_tensors` in conversion/base.py of October 2026).
static CONVERTED: &[(&[DType], &[&str], DType)] = &[(
    &[D::TQ1_0, D::TQ2_0],
    &[
        "token_embd.weight",
        "per_layer_token_embd.weight",
        "output.weight",
        ".altup_router.weight",
        ".laurel_l.weight",
        ".laurel_r.weight",
    ],
    D::F16,
)];

/// The dtype in which llama.cpp's converter writes the tensor with this name in GGUF, if not in the one asked for.
pub(crate) fn converted(name: &str, asked: DType) -> Option<DType> {
    let name = block(name).map_or(name, |(_, _, after)| after);
    let mut rows = CONVERTED.iter();
    let row = rows.find(|(dtypes, names, _)| dtypes.contains(&asked) && names.contains(&name));
    row.map(|(_, _, dtype)| *dtype)
}

/// Dtypes with so few bits that llama-quantize requires importance for them, except for embeddings
/// and the output (`tensor_requires_imatrix`).
static NEED_IMPORTANCE: &[DType] =
    &[D::IQ3_XXS, D::IQ2_XXS, D::IQ2_XS, D::IQ2_S, D::IQ1_M, D::IQ1_S];

pub(super) fn role_needs_importance(file_type: FileType, role: Role, dtype: DType) -> bool {
    !matches!(role, Role::Output | Role::TokenEmbedding)
        && (NEED_IMPORTANCE.contains(&dtype) || (dtype, file_type) == (D::Q2_K, F::Q2_K_S))
}

/// Whether an importance matrix is required to quantize the tensor with this name in GGUF to a dtype, in a file of this
/// type: by llama-quantize, or by the quantizer.
pub fn needs_importance(file_type: FileType, name: &str, dtype: DType) -> bool {
    let quantizer = dtype.descriptor().quantizer;
    role_needs_importance(file_type, Role::of(name), dtype)
        || quantizer.is_some_and(|quantizer| quantizer.importance() == Importance::Required)
}

impl FileType {
    /// Whether matrices of most models get a dtype that requires an importance matrix: the base dtype, or
    /// that of one of the rules.
    pub fn needs_importance(self) -> bool {
        let base = self.descriptor().base;
        let ruled = RULES.iter().filter(|rule| rule.1.contains(&self)).map(|rule| (rule.0, rule.3));
        let mut all = base.map(|base| (Role::Up, base)).into_iter().chain(ruled);
        all.any(|(role, dtype)| role_needs_importance(self, role, dtype))
    }
}
