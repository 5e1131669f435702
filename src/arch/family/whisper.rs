//! Whisper: an audio encoder and a text decoder.
//!
//! GGUF files and whisper.cpp's files use OpenAI's names, and add a last axis of length 1 to the
//! biases of the convolutions. mlx-examples' converter changes some names.

use serde_json::{Map, Value as Json};

use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::{Axes, RowOrder, SAME, Transform, transposed};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::{Flag, Word};

/// The architecture's row.
pub(super) static WHISPER: Architecture = Architecture {
    name: "whisper",
    summary: "Whisper",
    gguf: &["whisper"],
    hf: &["whisper"],
    rope: RopeLayout::None,
    rules: &[RULES],
    mlx: MLX,
    prefixes: &[("", "model.")],
    required: REQUIRED,
    auxiliary: &[("alignment_heads", "the heads used for word-level timestamps")],
    variants: VARIANTS,
    ..Architecture::EMPTY
};

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "position_embedding.weight",
    "output_norm.weight",
    "enc.conv1.weight",
    "enc.conv2.weight",
    "enc.output_norm.weight",
    "enc.layers.{n}.attn_norm.weight",
    "enc.layers.{n}.attn.q.weight",
    "enc.layers.{n}.attn.k.weight",
    "enc.layers.{n}.attn.v.weight",
    "enc.layers.{n}.attn.output.weight",
    "enc.layers.{n}.ffn_norm.weight",
    "enc.layers.{n}.ffn.up.weight",
    "enc.layers.{n}.ffn.down.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.cross_attn_norm.weight",
    "layers.{n}.cross_attn.q.weight",
    "layers.{n}.cross_attn.k.weight",
    "layers.{n}.cross_attn.v.weight",
    "layers.{n}.cross_attn.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

const TRAILING: Transform = Transform { axes: Axes::Trailing, ..SAME };

#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",              "decoder.token_embedding.weight",             "model.decoder.embed_tokens.weight",                       SAME),
    rule("position_embedding.weight",           "decoder.positional_embedding",               "model.decoder.embed_positions.weight",                    SAME),
    rule("output_norm.weight",                  "decoder.ln.weight",                          "model.decoder.layer_norm.weight",                         SAME),
    rule("output_norm.bias",                    "decoder.ln.bias",                            "model.decoder.layer_norm.bias",                           SAME),
    rule("enc.position_embedding.weight",       "encoder.positional_embedding",               "model.encoder.embed_positions.weight",                    SAME),
    rule("enc.output_norm.weight",              "encoder.ln_post.weight",                     "model.encoder.layer_norm.weight",                         SAME),
    rule("enc.output_norm.bias",                "encoder.ln_post.bias",                       "model.encoder.layer_norm.bias",                           SAME),
    hf("output.weight", "proj_out.weight", SAME),
    rule("enc.conv1.weight",                    "encoder.conv1.weight",                       "model.encoder.conv1.weight",                              SAME),
    rule("enc.conv1.bias",                      "encoder.conv1.bias",                         "model.encoder.conv1.bias",                                TRAILING),
    rule("enc.conv2.weight",                    "encoder.conv2.weight",                       "model.encoder.conv2.weight",                              SAME),
    rule("enc.conv2.bias",                      "encoder.conv2.bias",                         "model.encoder.conv2.bias",                                TRAILING),
    rule("enc.layers.{n}.attn_norm.weight",     "encoder.blocks.{n}.attn_ln.weight",          "model.encoder.layers.{n}.self_attn_layer_norm.weight",    SAME),
    rule("enc.layers.{n}.attn_norm.bias",       "encoder.blocks.{n}.attn_ln.bias",            "model.encoder.layers.{n}.self_attn_layer_norm.bias",      SAME),
    rule("enc.layers.{n}.attn.q.weight",        "encoder.blocks.{n}.attn.query.weight",       "model.encoder.layers.{n}.self_attn.q_proj.weight",        SAME),
    rule("enc.layers.{n}.attn.q.bias",          "encoder.blocks.{n}.attn.query.bias",         "model.encoder.layers.{n}.self_attn.q_proj.bias",          SAME),
    rule("enc.layers.{n}.attn.k.weight",        "encoder.blocks.{n}.attn.key.weight",         "model.encoder.layers.{n}.self_attn.k_proj.weight",        SAME),
    rule("enc.layers.{n}.attn.v.weight",        "encoder.blocks.{n}.attn.value.weight",       "model.encoder.layers.{n}.self_attn.v_proj.weight",        SAME),
    rule("enc.layers.{n}.attn.v.bias",          "encoder.blocks.{n}.attn.value.bias",         "model.encoder.layers.{n}.self_attn.v_proj.bias",          SAME),
    rule("enc.layers.{n}.attn.output.weight",   "encoder.blocks.{n}.attn.out.weight",         "model.encoder.layers.{n}.self_attn.out_proj.weight",      SAME),
    rule("enc.layers.{n}.attn.output.bias",     "encoder.blocks.{n}.attn.out.bias",           "model.encoder.layers.{n}.self_attn.out_proj.bias",        SAME),
    rule("enc.layers.{n}.ffn_norm.weight",      "encoder.blocks.{n}.mlp_ln.weight",           "model.encoder.layers.{n}.final_layer_norm.weight",        SAME),
    rule("enc.layers.{n}.ffn_norm.bias",        "encoder.blocks.{n}.mlp_ln.bias",             "model.encoder.layers.{n}.final_layer_norm.bias",          SAME),
    rule("enc.layers.{n}.ffn.up.weight",        "encoder.blocks.{n}.mlp.0.weight",            "model.encoder.layers.{n}.fc1.weight",                     SAME),
    rule("enc.layers.{n}.ffn.up.bias",          "encoder.blocks.{n}.mlp.0.bias",              "model.encoder.layers.{n}.fc1.bias",                       SAME),
    rule("enc.layers.{n}.ffn.down.weight",      "encoder.blocks.{n}.mlp.2.weight",            "model.encoder.layers.{n}.fc2.weight",                     SAME),
    rule("enc.layers.{n}.ffn.down.bias",        "encoder.blocks.{n}.mlp.2.bias",              "model.encoder.layers.{n}.fc2.bias",                       SAME),
    rule("layers.{n}.attention_norm.weight",    "decoder.blocks.{n}.attn_ln.weight",          "model.decoder.layers.{n}.self_attn_layer_norm.weight",    SAME),
    rule("layers.{n}.attention_norm.bias",      "decoder.blocks.{n}.attn_ln.bias",            "model.decoder.layers.{n}.self_attn_layer_norm.bias",      SAME),
    rule("layers.{n}.attention.q.weight",       "decoder.blocks.{n}.attn.query.weight",       "model.decoder.layers.{n}.self_attn.q_proj.weight",        SAME),
    rule("layers.{n}.attention.q.bias",         "decoder.blocks.{n}.attn.query.bias",         "model.decoder.layers.{n}.self_attn.q_proj.bias",          SAME),
    rule("layers.{n}.attention.k.weight",       "decoder.blocks.{n}.attn.key.weight",         "model.decoder.layers.{n}.self_attn.k_proj.weight",        SAME),
    rule("layers.{n}.attention.v.weight",       "decoder.blocks.{n}.attn.value.weight",       "model.decoder.layers.{n}.self_attn.v_proj.weight",        SAME),
    rule("layers.{n}.attention.v.bias",         "decoder.blocks.{n}.attn.value.bias",         "model.decoder.layers.{n}.self_attn.v_proj.bias",          SAME),
    rule("layers.{n}.attention.output.weight",  "decoder.blocks.{n}.attn.out.weight",         "model.decoder.layers.{n}.self_attn.out_proj.weight",      SAME),
    rule("layers.{n}.attention.output.bias",    "decoder.blocks.{n}.attn.out.bias",           "model.decoder.layers.{n}.self_attn.out_proj.bias",        SAME),
    rule("layers.{n}.cross_attn_norm.weight",   "decoder.blocks.{n}.cross_attn_ln.weight",    "model.decoder.layers.{n}.encoder_attn_layer_norm.weight", SAME),
    rule("layers.{n}.cross_attn_norm.bias",     "decoder.blocks.{n}.cross_attn_ln.bias",      "model.decoder.layers.{n}.encoder_attn_layer_norm.bias",   SAME),
    rule("layers.{n}.cross_attn.q.weight",      "decoder.blocks.{n}.cross_attn.query.weight", "model.decoder.layers.{n}.encoder_attn.q_proj.weight",     SAME),
    rule("layers.{n}.cross_attn.q.bias",        "decoder.blocks.{n}.cross_attn.query.bias",   "model.decoder.layers.{n}.encoder_attn.q_proj.bias",       SAME),
    rule("layers.{n}.cross_attn.k.weight",      "decoder.blocks.{n}.cross_attn.key.weight",   "model.decoder.layers.{n}.encoder_attn.k_proj.weight",     SAME),
    rule("layers.{n}.cross_attn.v.weight",      "decoder.blocks.{n}.cross_attn.value.weight", "model.decoder.layers.{n}.encoder_attn.v_proj.weight",     SAME),
    rule("layers.{n}.cross_attn.v.bias",        "decoder.blocks.{n}.cross_attn.value.bias",   "model.decoder.layers.{n}.encoder_attn.v_proj.bias",       SAME),
    rule("layers.{n}.cross_attn.output.weight", "decoder.blocks.{n}.cross_attn.out.weight",   "model.decoder.layers.{n}.encoder_attn.out_proj.weight",   SAME),
    rule("layers.{n}.cross_attn.output.bias",   "decoder.blocks.{n}.cross_attn.out.bias",     "model.decoder.layers.{n}.encoder_attn.out_proj.bias",     SAME),
    rule("layers.{n}.ffn_norm.weight",          "decoder.blocks.{n}.mlp_ln.weight",           "model.decoder.layers.{n}.final_layer_norm.weight",        SAME),
    rule("layers.{n}.ffn_norm.bias",            "decoder.blocks.{n}.mlp_ln.bias",             "model.decoder.layers.{n}.final_layer_norm.bias",          SAME),
    rule("layers.{n}.ffn.up.weight",            "decoder.blocks.{n}.mlp.0.weight",            "model.decoder.layers.{n}.fc1.weight",                     SAME),
    rule("layers.{n}.ffn.up.bias",              "decoder.blocks.{n}.mlp.0.bias",              "model.decoder.layers.{n}.fc1.bias",                       SAME),
    rule("layers.{n}.ffn.down.weight",          "decoder.blocks.{n}.mlp.2.weight",            "model.decoder.layers.{n}.fc2.weight",                     SAME),
    rule("layers.{n}.ffn.down.bias",            "decoder.blocks.{n}.mlp.2.bias",              "model.decoder.layers.{n}.fc2.bias",                       SAME),
];

/// Names of mlx-examples' converter. It drops the encoder's positions, which are sinusoids.
#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("token_embedding.weight",              "decoder.token_embedding.weight",             SAME),
    hf("position_embedding.weight",           "decoder.positional_embedding",               SAME),
    hf("output_norm.weight",                  "decoder.ln.weight",                          SAME),
    hf("output_norm.bias",                    "decoder.ln.bias",                            SAME),
    hf("enc.output_norm.weight",              "encoder.ln_post.weight",                     SAME),
    hf("enc.output_norm.bias",                "encoder.ln_post.bias",                       SAME),
    hf("enc.conv1.weight",                    "encoder.conv1.weight",                       transposed(RowOrder::All)),
    hf("enc.conv1.bias",                      "encoder.conv1.bias",                         SAME),
    hf("enc.conv2.weight",                    "encoder.conv2.weight",                       transposed(RowOrder::All)),
    hf("enc.conv2.bias",                      "encoder.conv2.bias",                         SAME),
    hf("enc.layers.{n}.attn_norm.weight",     "encoder.blocks.{n}.attn_ln.weight",          SAME),
    hf("enc.layers.{n}.attn_norm.bias",       "encoder.blocks.{n}.attn_ln.bias",            SAME),
    hf("enc.layers.{n}.attn.q.weight",        "encoder.blocks.{n}.attn.query.weight",       SAME),
    hf("enc.layers.{n}.attn.q.bias",          "encoder.blocks.{n}.attn.query.bias",         SAME),
    hf("enc.layers.{n}.attn.k.weight",        "encoder.blocks.{n}.attn.key.weight",         SAME),
    hf("enc.layers.{n}.attn.v.weight",        "encoder.blocks.{n}.attn.value.weight",       SAME),
    hf("enc.layers.{n}.attn.v.bias",          "encoder.blocks.{n}.attn.value.bias",         SAME),
    hf("enc.layers.{n}.attn.output.weight",   "encoder.blocks.{n}.attn.out.weight",         SAME),
    hf("enc.layers.{n}.attn.output.bias",     "encoder.blocks.{n}.attn.out.bias",           SAME),
    hf("enc.layers.{n}.ffn_norm.weight",      "encoder.blocks.{n}.mlp_ln.weight",           SAME),
    hf("enc.layers.{n}.ffn_norm.bias",        "encoder.blocks.{n}.mlp_ln.bias",             SAME),
    hf("enc.layers.{n}.ffn.up.weight",        "encoder.blocks.{n}.mlp1.weight",             SAME),
    hf("enc.layers.{n}.ffn.up.bias",          "encoder.blocks.{n}.mlp1.bias",               SAME),
    hf("enc.layers.{n}.ffn.down.weight",      "encoder.blocks.{n}.mlp2.weight",             SAME),
    hf("enc.layers.{n}.ffn.down.bias",        "encoder.blocks.{n}.mlp2.bias",               SAME),
    hf("layers.{n}.attention_norm.weight",    "decoder.blocks.{n}.attn_ln.weight",          SAME),
    hf("layers.{n}.attention_norm.bias",      "decoder.blocks.{n}.attn_ln.bias",            SAME),
    hf("layers.{n}.attention.q.weight",       "decoder.blocks.{n}.attn.query.weight",       SAME),
    hf("layers.{n}.attention.q.bias",         "decoder.blocks.{n}.attn.query.bias",         SAME),
    hf("layers.{n}.attention.k.weight",       "decoder.blocks.{n}.attn.key.weight",         SAME),
    hf("layers.{n}.attention.v.weight",       "decoder.blocks.{n}.attn.value.weight",       SAME),
    hf("layers.{n}.attention.v.bias",         "decoder.blocks.{n}.attn.value.bias",         SAME),
    hf("layers.{n}.attention.output.weight",  "decoder.blocks.{n}.attn.out.weight",         SAME),
    hf("layers.{n}.attention.output.bias",    "decoder.blocks.{n}.attn.out.bias",           SAME),
    hf("layers.{n}.cross_attn_norm.weight",   "decoder.blocks.{n}.cross_attn_ln.weight",    SAME),
    hf("layers.{n}.cross_attn_norm.bias",     "decoder.blocks.{n}.cross_attn_ln.bias",      SAME),
    hf("layers.{n}.cross_attn.q.weight",      "decoder.blocks.{n}.cross_attn.query.weight", SAME),
    hf("layers.{n}.cross_attn.q.bias",        "decoder.blocks.{n}.cross_attn.query.bias",   SAME),
    hf("layers.{n}.cross_attn.k.weight",      "decoder.blocks.{n}.cross_attn.key.weight",   SAME),
    hf("layers.{n}.cross_attn.v.weight",      "decoder.blocks.{n}.cross_attn.value.weight", SAME),
    hf("layers.{n}.cross_attn.v.bias",        "decoder.blocks.{n}.cross_attn.value.bias",   SAME),
    hf("layers.{n}.cross_attn.output.weight", "decoder.blocks.{n}.cross_attn.out.weight",   SAME),
    hf("layers.{n}.cross_attn.output.bias",   "decoder.blocks.{n}.cross_attn.out.bias",     SAME),
    hf("layers.{n}.ffn_norm.weight",          "decoder.blocks.{n}.mlp_ln.weight",           SAME),
    hf("layers.{n}.ffn_norm.bias",            "decoder.blocks.{n}.mlp_ln.bias",             SAME),
    hf("layers.{n}.ffn.up.weight",            "decoder.blocks.{n}.mlp1.weight",             SAME),
    hf("layers.{n}.ffn.up.bias",              "decoder.blocks.{n}.mlp1.bias",               SAME),
    hf("layers.{n}.ffn.down.weight",          "decoder.blocks.{n}.mlp2.weight",             SAME),
    hf("layers.{n}.ffn.down.bias",            "decoder.blocks.{n}.mlp2.bias",               SAME),
];

const DEFAULTS: Defaults = Defaults {
    of_gguf: GgufDefaults {
        activation: Some("gelu"),
        ffn_four_times: true,
        // No config of Whisper states it.
        layer_norm_eps: Some((1e-5, "PyTorch's default")),
        ..GgufDefaults::NONE
    },
    ..Defaults::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    // llama.cpp's converter does not support Whisper; the keys are those of `docs/gguf.md` in ggml.
    Variant {
        gguf: "whisper",
        hf: &["whisper"],
        keys: &[&[K::Row("enc_n_layers"), K::Settled("enc_dim"), K::Row("enc_n_heads"), K::Row("enc_ffn_dim"),
            K::Row("n_audio_ctx"), K::As("n_layers", "decoder.block_count"), K::As("dim", "decoder.embedding_length"),
            K::As("n_heads", "decoder.attention.head_count"), K::As("ffn_dim", "decoder.feed_forward_length"),
            K::As("max_seq_len", "decoder.context_length"), K::Row("n_mels"), K::Settled("vocab_size")]],
        classes: &[
            Class { model_type: "whisper", class: "WhisperForConditionalGeneration",
                rules: &[&[C::By(whisper_numbers), C::Field("vocab_size", "vocab_size"), C::Fixed("activation_function", Word("gelu")), C::Fixed("is_encoder_decoder", Flag(true)),
                    C::Field("tie_embeddings", "tie_word_embeddings")]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        tokenizer: TokenizerHabits { default_pre: Some("gpt-2"), ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

fn whisper_numbers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (field, key) in [
        ("dim", "d_model"),
        ("n_layers", "decoder_layers"),
        ("n_heads", "decoder_attention_heads"),
        ("ffn_dim", "decoder_ffn_dim"),
        ("max_seq_len", "max_target_positions"),
        ("enc_n_layers", "encoder_layers"),
        ("enc_n_layers", "num_hidden_layers"),
        ("enc_n_heads", "encoder_attention_heads"),
        ("enc_ffn_dim", "encoder_ffn_dim"),
        ("n_audio_ctx", "max_source_positions"),
        ("n_mels", "num_mel_bins"),
    ] {
        let value = model.settled(field).ok_or_else(|| model.missing_in_model(key))?;
        out.insert(key.to_owned(), value);
    }
    Ok(())
}
