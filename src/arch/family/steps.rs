//! The functions of all families, by the name of the file that they are for.

use super::decoder;
use super::step::{Step, Steps};

/// Lists the functions of modules by the name of the file that they are for.
macro_rules! steps {
    ($($module:ident)*) => {
        &[
            ("decoder", decoder::json::STEPS),
            ("decoder", decoder::keys::STEPS),
            $((stringify!($module), super::$module::STEPS),)*
        ]
    };
}

#[rustfmt::skip]
static STEPS: &[(&str, Steps)] = steps! {
    bert bloom cohere dbrx deepseek ernie exaone exaone4 falcon falcon_h1 gemma gpt2 gpt_neox
    gpt_oss granite hunyuan jamba jina_bert kimi_linear lfm2 llama llama4 mamba mimo_v2 minicpm3
    minimax modernbert nemotron nemotron_h nemotron_nas nomic_bert olmo openelm phi qwen qwen3_next seed_oss stablelm starcoder2 t5
    whisper
};

/// The name of a file as functions know it; empty if none is for that file.
pub(super) fn known_file(name: &str) -> &'static str {
    STEPS.iter().map(|(file, _)| *file).find(|file| *file == name).unwrap_or_default()
}

/// The functions with a name, of the file with another name.
pub(super) fn steps(file: &str, name: &str) -> impl Iterator<Item = Step> {
    let of_file = STEPS.iter().filter(move |(other, _)| *other == file);
    of_file.flat_map(|(_, steps)| *steps).filter(move |(other, _)| *other == name).map(|row| row.1)
}
