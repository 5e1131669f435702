//! The model families. The files of the folder `families` describe them: the tensor names in every
//! dialect, the transforms between dialects, the config keys in GGUF and in `config.json`, and the
//! family's exceptions in tokenizers and in quantizing programs. A program can add files of its own
//! ([`FamilyFile`]), which are parsed by the same code.
//!
//! A module here has the functions that a file names where a table cannot say it; [`decoder`] has
//! those that decoders share.

mod bert;
mod bloom;
mod canonical;
mod check;
mod cohere;
mod dbrx;
mod decoder;
mod deepseek;
mod ernie;
mod exaone;
mod exaone4;
mod falcon;
mod falcon_h1;
mod families;
mod form;
mod gemma;
mod given;
mod gpt2;
mod gpt_neox;
mod gpt_oss;
mod granite;
mod hunyuan;
mod jamba;
mod jina_bert;
mod kimi_linear;
mod lfm2;
mod llama;
mod llama4;
mod lookup;
mod mamba;
mod mimo_v2;
mod minicpm3;
mod minimax;
mod modernbert;
mod nemotron;
mod nemotron_h;
mod nemotron_nas;
mod nomic_bert;
mod olmo;
mod openelm;
mod parse;
mod phi;
mod qwen;
mod qwen3_next;
mod rankers;
mod seed_oss;
pub(crate) mod spellings;
mod stablelm;
mod starcoder2;
mod step;
mod steps;
mod t5;
mod table;
mod text;
mod towers;
mod whisper;

pub(crate) use crate::engines::llama_cpp::graph;
pub use given::FamilyFile;
pub(in crate::arch) use llama::class_in_params;
pub use lookup::architectures;
#[cfg(test)]
pub(crate) use lookup::towers;
pub(crate) use lookup::{
    architecture, class_of, defaults, keys_in_gguf, llama_quantize, mlx_modules, own_keys, tower,
    variants,
};
pub(crate) use rankers::{RANKERS, Ranker};
