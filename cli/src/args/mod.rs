//! The command line, as it is typed.

pub(crate) mod run;
pub(crate) mod write;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Opens the weights of language models whatever file they come in.
#[derive(Debug, Parser)]
#[command(
    name = "weighbridge",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Examples:
  weighbridge load                        load the small model inside the program, and time it
  weighbridge inspect model.gguf          what is in a file
  weighbridge inspect ~/models/Qwen3-0.6B a directory as it comes from a hub
  weighbridge dump model.gguf output_norm.weight

Exit status: 0 fine; 1 a fault or difference was found; 2 usage; 3 malformed or incomplete
model; 4 unsupported; 5 no such path, no permission, no space."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is in a model: its container, config and tensors
    Inspect(Inspect),
    /// Show the numbers an engine needs, each with where it was found
    Config(Config),
    /// Print the SHA-256 of every tensor
    Hash(Hash),
    /// Write one tensor's values or bytes to standard output
    Dump(Dump),
    /// Compare the tensors of two models by canonical name, whatever containers they lie in
    Diff(Diff),
    /// Check a model's files, whether they agree with each other, and with --deep its values
    Verify(Verify),
    /// Load every tensor under its canonical name, and time it
    Load(Load),
    /// Run a model on some tokens, and show or write its logits
    Logits(run::Logits),
    /// Run a model, and print the text that continues a prompt
    Generate(run::Generate),
    /// Write a model in another container
    Convert(write::Convert),
    /// Write a model in fewer bits, as llama-quantize or mlx-lm does
    Quantize(write::Quantize),
    /// Write a model into Ollama's store
    Create(write::Create),
    /// Write a model as several files
    Split(write::Split),
    /// Write a model that lies in several files as one
    Merge(write::Merge),
    /// Write a file with its data aligned
    Align(write::Align),
    /// Read metadata, and change that of a GGUF file
    Meta(write::Meta),
    /// List what this program knows (containers, dtypes, architectures), or Ollama's models
    List(List),
    /// Print a script that completes this program's arguments in a shell
    Completions(Completions),
}

/// How a model is opened.
#[derive(Args, Debug)]
pub(crate) struct Open {
    /// Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's document for
    /// safetensors
    #[arg(long, conflicts_with = "lenient")]
    pub(crate) strict: bool,
    /// Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Read tensor data instead of mapping it
    #[arg(long)]
    pub(crate) no_map: bool,
    /// Take safetensors files that the index does not name as well
    #[arg(long)]
    pub(crate) all_files: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge inspect model.gguf
  weighbridge inspect model-00001-of-00003.gguf --all --filter '*attn*'
  weighbridge inspect llama3.2            a model in Ollama's store
  weighbridge inspect model.gguf --canonical
  weighbridge inspect ./Qwen3-0.6B --json | jq '.tensors[0]'")]
pub(crate) struct Inspect {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// By canonical name: what engines see, and how it comes of what is stored
    #[arg(long, conflicts_with = "stored")]
    pub(crate) canonical: bool,
    /// By stored name alone: do not ask what the names mean
    #[arg(long)]
    pub(crate) stored: bool,
    /// One row a tensor: do not gather the layers that are alike
    #[arg(long)]
    pub(crate) all: bool,
    /// Only tensors whose stored or canonical name matches; * stands for any text, ? for one
    /// character
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Also show metadata, tokenizer tables by their length
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge config model.gguf
  weighbridge config ./Qwen3-0.6B --json | jq '.config.head_dim.value'")]
pub(crate) struct Config {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge hash model.gguf
  weighbridge hash model.gguf --values --json > model.hashes.json
  weighbridge hash model.gguf --save model.hashes     for verify --against")]
pub(crate) struct Hash {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// Also hash the values as little-endian f32, in row-major order
    #[arg(long)]
    pub(crate) values: bool,
    /// Print nothing, but write a list that `verify --against` compares with, scales and all; FILE
    /// must not exist, or be such a list
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) save: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// The form in which `dump` writes a tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum DumpForm {
    /// Rows of numbers for people
    Text,
    /// Values as little-endian f32, row-major
    F32,
    /// The same, rounded to f16
    F16,
    /// The same, rounded to bf16
    Bf16,
    /// The stored bytes; by canonical name, the packed bytes that `load` gives
    Raw,
    /// Values as a NumPy array file of f32
    Npy,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge dump model.gguf output_norm.weight
  weighbridge dump model.gguf blk.0.attn_q.weight --rows 0..4 --all
  weighbridge dump ./Qwen3-0.6B model.norm.weight --as npy > norm.npy
  weighbridge dump model.gguf blk.0.ffn_up.weight --as bf16 > ffn_up.bf16
  weighbridge dump model.gguf token_embd.weight --as raw | sha256sum")]
pub(crate) struct Dump {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// The tensor's name in the file, for values as the file has them, or its canonical name, for
    /// values as Hugging Face has them
    pub(crate) name: String,
    /// What to write; values that become infinite or 0 by rounding are counted on standard error
    #[arg(long = "as", value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) form: DumpForm,
    /// Only these rows, the last excluded; rows are counted over all dimensions but the last
    #[arg(long, value_name = "A..B", value_parser = parse_rows)]
    pub(crate) rows: Option<std::ops::Range<u64>>,
    /// Text: every row and column, however many
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge diff ./Qwen3-0.6B Qwen3-0.6B-Q8_0.gguf      what quantizing cost, tensor by tensor
  weighbridge diff a.gguf b.gguf --tolerance 1e-3 && echo close enough
  weighbridge diff a.gguf b.gguf --filter '*.ffn.*' --all
  weighbridge diff a.gguf b.gguf --json | jq '.different[].name'")]
pub(crate) struct Diff {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) a: PathBuf,
    /// The model to compare it with
    pub(crate) b: PathBuf,
    /// Elements that are at most this far apart are equal
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Only tensors whose stored or canonical name matches
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// One row a tensor, equal ones too: do not gather the layers that are alike
    #[arg(long)]
    pub(crate) all: bool,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge verify model.gguf
  weighbridge verify model.gguf --strict      also by rules that only llama.cpp has
  weighbridge verify model.gguf --deep        and does every tensor hold sound numbers?
  weighbridge verify model.gguf --against model.hashes
  weighbridge verify ./Qwen3-0.6B --deep --json | jq '.findings'")]
pub(crate) struct Verify {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// Also look at every value and scale. Faults: NaN, infinity, and scales that are either, as
    /// llama.cpp's own check has it. Remarks: matrices whose values are all 0 or all the same
    /// (ordinary for biases and norms, which are let pass), NVFP4 scales below the normal range. Both
    /// give status 1
    #[arg(long)]
    pub(crate) deep: bool,
    /// Compare with a list from `hash --save`: tensors missing, added or changed
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge load                            the small model inside the program
  weighbridge load model.gguf
  weighbridge load model.gguf --fuse qkv,gate-up --dtype f16
  weighbridge load ./Qwen3-0.6B --filter 'layers.0.*' --no-map --json")]
pub(crate) struct Load {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model; the model inside the program if left out
    pub(crate) path: Option<PathBuf>,
    /// Only tensors whose stored or canonical name matches
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Load these together, in one buffer, where they can be joined: qkv, gate-up
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_fusion)]
    pub(crate) fuse: Vec<&'static weighbridge::Fusion>,
    /// What tensors are kept as in memory
    #[arg(long, value_enum, default_value = "keep", value_name = "DTYPE")]
    pub(crate) dtype: LoadDtype,
    /// Threads that read and convert; 0 stands for four
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// What `load` keeps tensors as.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LoadDtype {
    /// Packed as stored
    Keep,
    /// Values as f32
    F32,
    /// Values as f16
    F16,
    /// Values as bf16
    Bf16,
}

/// A table that `list` prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Listing {
    Containers,
    Dtypes,
    Architectures,
    /// The models in Ollama's store
    Models,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge list dtypes
  weighbridge list models                 what Ollama has
  weighbridge list architectures --json")]
pub(crate) struct List {
    #[arg(value_enum)]
    pub(crate) what: Listing,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge completions bash > ~/.local/share/bash-completion/completions/weighbridge
  weighbridge completions zsh > ~/.zfunc/_weighbridge")]
pub(crate) struct Completions {
    /// The shell that the script is for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

fn parse_fusion(name: &str) -> Result<&'static weighbridge::Fusion, String> {
    weighbridge::Fusion::named(name).ok_or_else(|| {
        let names = weighbridge::FUSIONS.iter().map(|fusion| fusion.name);
        format!("the fusions are {}", names.collect::<Vec<_>>().join(", "))
    })
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let tolerance = text.parse().ok().filter(|tolerance: &f64| *tolerance >= 0.0);
    tolerance.ok_or_else(|| "write a number that is not negative, as in 1e-6".to_owned())
}

fn parse_rows(text: &str) -> Result<std::ops::Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let start = if start.is_empty() { 0 } else { start.parse().ok()? };
        Some(start..end.parse().ok()?)
    });
    range
        .filter(|range| range.start <= range.end)
        .ok_or_else(|| "write the first row and the one after the last, as in 0..4".to_owned())
}
