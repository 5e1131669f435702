//! Whisper: an audio encoder and a text decoder.
//!
//! GGUF files and whisper.cpp's files use OpenAI's names, and add a last axis of length 1 to the
//! biases of the convolutions. mlx-examples' converter changes some names.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("whisper_numbers", Step::Config(whisper_numbers))];

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
        let value = model.derived(field).ok_or_else(|| model.missing_in_model(key))?;
        out.insert(key.to_owned(), value);
    }
    if let Some(end) = end_of_text(model.config.vocab_size.as_ref().map_or(0, |size| size.value)) {
        for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
            out.insert(key.to_owned(), end.into());
        }
        out.insert("decoder_start_token_id".to_owned(), (end + 1).into());
    }
    Ok(())
}

/// The token that ends a text in OpenAI's vocabularies, before the one that starts a transcription: those of English
/// have one token less than the others. whisper.cpp computes it likewise (`is_multilingual` in src/whisper.cpp).
fn end_of_text(tokens: u32) -> Option<u32> {
    match tokens {
        51_864 => Some(50_256),
        51_865.. => Some(50_257),
        _ => None,
    }
}
