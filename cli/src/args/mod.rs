//! The command line: subcommands, arguments and help.

mod faults;
mod foreign;
pub(crate) mod help;
mod kinds;
mod names;
mod open;
mod order;
pub(crate) mod program;
pub(crate) mod run;
pub(crate) mod slices;
mod slips;
mod unknown;
pub(crate) mod values;
mod verbs;
mod words;
pub(crate) mod write;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use weighbridge::model::Mesh;

use values::sha256_or_file;

pub(crate) use kinds::in_store;
pub(crate) use names::{CreatedType, TargetType};
pub(crate) use open::Open;
#[cfg(feature = "http")]
pub(crate) use open::network;
pub(crate) use unknown::{as_typed, example, unknown_option};
pub(crate) use values::{DeviceName, is_program};
pub(crate) use words::translated;

/// The version of the program, with the commit that it was built from, if that is known.
pub(crate) const VERSION: &str = env!("WEIGHBRIDGE_VERSION");

/// The output of `--version`: the version and the Cargo features.
const LONG_VERSION: &str =
    concat!(env!("WEIGHBRIDGE_VERSION"), "\nfeatures: ", env!("WEIGHBRIDGE_FEATURES"));

/// Inspects, checks, compares, converts and quantizes language models: GGUF, safetensors, MLX, Ollama.
#[derive(Debug, Parser)]
#[command(
    name = "weighbridge",
    version = VERSION,
    long_version = LONG_VERSION,
    max_term_width = 100,
    disable_help_subcommand = true,
    override_usage = "weighbridge <COMMAND> [OPTIONS] ...
       weighbridge <FILE>",
    subcommand_value_name = "COMMAND",
    after_help = "Examples:
  weighbridge model.gguf                     # what the file contains
  weighbridge view model.gguf                # the same in the browser
  weighbridge memory model.gguf 8G           # whether it fits
  weighbridge run model.gguf 'Hello'         # its answer
  weighbridge quantize ./Qwen3-0.6B Q4_K_M   # Qwen3-0.6B-Q4_K_M.gguf
  weighbridge help convert                   # all options of a command

Exit status:
    0  success
    1  a fault, a difference, or no room: verify, diff, models, quality, memory
    2  wrong usage, or a request that does not fit the model or the destination
    3  damaged, incomplete, contradictory or too large; or no model at all
    4  unsupported
    5  path, tensor or key not found, no permission, no space, output closed
  130  interrupted with Ctrl-C"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) color: colorchoice_clap::Color,
    /// Show tables in full on a terminal, even if they are wider
    #[arg(long, global = true, help_heading = COMMON, hide_short_help = true)]
    pub(crate) wide: bool,
    /// Read model families from a file, in addition to the built-in ones
    #[arg(long, global = true, value_name = "FILE", help_heading = COMMON, hide_short_help = true)]
    pub(crate) family: Vec<PathBuf>,
}

/// The heading of options that most verbs have; `-h` leaves them out.
pub(crate) const COMMON: &str = "Common options";

// A verb has its arguments once it is called: those of all verbs take longer than small models do.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Show a model's container, config and tensors, or one tensor's values
    Inspect(Inspect),
    /// Show models in the browser, or write the report as an HTML file
    View(View),
    /// Compare the tensors of two models, in any containers
    Diff(Diff),
    /// Write one tensor's values or bytes
    Dump(Dump),
    /// Measure what a quantization costs: perplexity, KL divergence
    Quality(run::Quality),
    /// Show how much memory a model takes, and whether it fits
    Memory(run::Memory),
    /// Check that a model is whole, follows its format, and loads
    Verify(Verify),
    /// Convert a model to another container
    Convert(write::Convert),
    /// Quantize a model as llama-quantize or mlx-lm does
    Quantize(write::QuantizeNow),
    /// Merge several models by a recipe, or join the files of one
    Merge(write::Merge),
    /// Split a model into several files
    Split(write::Split),
    /// Print metadata, or edit that of a GGUF file
    Meta(write::Meta),
    /// Download models from the Hugging Face hub or Ollama's registry
    #[cfg(feature = "http")]
    Pull(Pull),
    /// List the models on this machine, and which are the same
    Models(Models),
    /// Create a model in Ollama's store
    Create(write::Create),
    /// Convert a large model with many processes or machines
    Job(slices::Job),
    /// Run a model with the reference decoder: generate, embed, logits, tokens
    Run(run::Run),
    /// Show on the built-in sample what the program does
    #[command(after_help = "Examples:\n  weighbridge demo")]
    Demo,
    /// Time the loading of every tensor of a model
    Bench(Bench),
    /// List containers, dtypes, file types, families, devices or kernels
    List(List),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write the manual pages to a folder
    Man(Man),
    /// Print the SHA-256 of every tensor
    #[command(hide = true)]
    Hash(Hash),
    /// Show a model of Ollama's store as `ollama show` does
    #[command(hide = true)]
    Show(Show),
}

/// The column by which `inspect` sorts its rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum InspectSort {
    Name,
    #[value(alias = "bytes")]
    Size,
    #[value(alias = "bpw")]
    Bits,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  weighbridge inspect model.gguf
  weighbridge inspect a.gguf b.gguf
  weighbridge inspect model-00001-of-00003.gguf --all --filter '*attn*'
  weighbridge inspect llama3.2          # a model in Ollama's store
  weighbridge inspect model.gguf --canonical
  weighbridge inspect ./Qwen3-0.6B --shard tp=4,pp=2
  weighbridge inspect model.gguf attn_q      # tensors with this in the name
  weighbridge inspect model.gguf blk.0.attn_q.weight   # its values
  weighbridge inspect model.gguf --sort size
  weighbridge inspect model.gguf --stats
  weighbridge inspect ./Qwen3-0.6B --config
  weighbridge inspect ./Qwen3-0.6B --json | jq '.tensors[0]'")]
pub(crate) struct Inspect {
    /// Models: files, any shard of a split GGUF, directories, or names of Ollama models. One model may be
    /// followed by names of tensors, to show their values, or by parts of names, such as attn_q
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Show canonical names and how each tensor is derived
    #[arg(long, conflicts_with = "stored")]
    pub(crate) canonical: bool,
    /// Show stored names only, without resolving canonical names
    #[arg(long)]
    pub(crate) stored: bool,
    /// Show one row per tensor instead of grouping equal layers
    #[arg(long)]
    pub(crate) all: bool,
    /// Show only tensors with this in their stored or canonical name, or a pattern with * and ?
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Sort by this column; sizes and bits from the largest down; one row per tensor
    #[arg(hide_short_help = true, long, value_enum, value_name = "COLUMN",
        conflicts_with_all = ["canonical", "config", "modelfile", "stats", "dispatch", "shard"])]
    pub(crate) sort: Option<InspectSort>,
    /// Also show metadata; long strings and arrays are shortened
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Show config values instead of tensors, each with its source
    #[arg(long, conflicts_with_all = ["canonical", "stored", "metadata", "dispatch", "shard", "stats", "filter", "all"])]
    pub(crate) config: bool,
    /// Show the Modelfile of a model in Ollama's store
    #[arg(long, conflicts_with_all = ["config", "canonical", "stored", "metadata", "dispatch", "shard", "stats", "filter", "all", "json"])]
    pub(crate) modelfile: bool,
    /// Show the range, mean, deviation, zeros and outliers of each tensor
    #[arg(long, conflicts_with_all = ["canonical", "stored", "metadata", "dispatch"])]
    pub(crate) stats: bool,
    /// Show what is odd: NaN, dead rows, outliers, copies, growing norms
    #[arg(long, conflicts_with_all = ["canonical", "stored", "metadata", "dispatch", "config", "modelfile", "stats",
        "shard", "sort", "all"])]
    pub(crate) findings: bool,
    /// Show how a GPU computes with each tensor: kernels, windows of rows, workgroups
    #[arg(long, conflicts_with_all = ["canonical", "stored", "metadata"])]
    pub(crate) dispatch: bool,
    /// Show what each of several ranks loads. COUNTS: tp=N ranks divide the matrices, pp=N the layers,
    /// ep=N the experts
    #[arg(long, value_name = "COUNTS",
        conflicts_with_all = ["canonical", "stored", "metadata", "dispatch"])]
    pub(crate) shard: Option<Mesh>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge hash model.gguf
  weighbridge hash model.gguf --values --json > model.hashes.json
  weighbridge hash model.gguf --save model.hashes   # for verify --against")]
pub(crate) struct Hash {
    /// Models: files, any shard of a split GGUF, directories, or names of Ollama models
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Also hash the values, as little-endian f32 in row-major order
    #[arg(long)]
    pub(crate) values: bool,
    /// Print nothing; save the hashes, including those of scales, for `verify --against`. FILE must
    /// not exist yet, or be such a list
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) save: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// The output format of `dump`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum DumpForm {
    /// Readable rows of numbers
    Text,
    /// Values as little-endian f32, in row-major order
    #[value(aliases = ["float32", "fp32"])]
    F32,
    /// Values rounded to little-endian f16, in row-major order
    #[value(aliases = ["float16", "fp16"])]
    F16,
    /// Values rounded to little-endian bf16, in row-major order
    #[value(alias = "bfloat16")]
    Bf16,
    /// The stored bytes; for a canonical name, the packed bytes that an engine loads
    Raw,
    /// Values as f32 in a NumPy array file (.npy)
    Npy,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge dump model.gguf output_norm.weight
  weighbridge dump model.gguf blk.0.attn_q.weight --rows 0..4 --all
  weighbridge dump ./Qwen3-0.6B model.norm.weight --as npy -o norm.npy
  weighbridge dump model.gguf blk.0.ffn_up.weight --as bf16 > ffn_up.bf16
  weighbridge dump model.gguf token_embd.weight --as raw | sha256sum")]
pub(crate) struct Dump {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// The tensor's stored name, for the order and values of the file, or its canonical name, for
    /// those of the Hugging Face checkpoint
    pub(crate) name: String,
    /// Output format; values that rounding makes infinite or 0 are counted on standard error. The
    /// default is npy for a FILE that ends in .npy, raw for .bin, otherwise text
    #[arg(long = "as", value_enum, value_name = "FORM")]
    pub(crate) form: Option<DumpForm>,
    /// Write only rows A to B - 1, also as A:B, or one row; rows are counted over all dimensions but the
    /// last
    #[arg(long, value_name = "A..B", value_parser = parse_rows, allow_negative_numbers = true)]
    pub(crate) rows: Option<std::ops::Range<u64>>,
    /// With --as text: write every row and column
    #[arg(long)]
    pub(crate) all: bool,
    /// Write to FILE instead of standard output; - is standard output even if that is a terminal
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// With -o: replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

impl Inspect {
    /// Whether tensors are listed, and not the values of one shown.
    pub(crate) fn is_list(&self) -> bool {
        let names = self.canonical || self.stored || self.all || self.sort.is_some();
        names || self.metadata || self.findings || self.dispatch || self.shard.is_some()
    }
}

impl Dump {
    /// The output format.
    pub(crate) fn form(&self) -> DumpForm {
        let ending = self.output.as_deref().and_then(Path::extension);
        let is = |name: &str| ending.is_some_and(|ending| ending.eq_ignore_ascii_case(name));
        self.form.unwrap_or(match () {
            () if is("npy") => DumpForm::Npy,
            () if is("bin") || is("raw") => DumpForm::Raw,
            () => DumpForm::Text,
        })
    }
}

/// The column by which `diff` sorts its rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DiffSort {
    Relative,
    Max,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge diff ./Qwen3-0.6B Qwen3-0.6B-Q8_0.gguf  # what changed
  weighbridge diff a.gguf b.gguf --tolerance 1e-3 && echo 'close enough'
  weighbridge diff a.gguf b.gguf --by-layer
  weighbridge diff a.gguf b.gguf --sort relative
  weighbridge diff a.gguf b.gguf --filter '*.ffn.*' --all
  weighbridge diff a.gguf b.gguf --filter output.weight  # also what was clipped
  weighbridge diff a.gguf b.gguf --json | jq '.different[].name'")]
pub(crate) struct Diff {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) a: PathBuf,
    /// The model to compare with, given in the same ways
    pub(crate) b: PathBuf,
    /// Treat elements as equal if they differ by at most T
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// Compare only tensors whose stored or canonical name contains or matches this; a full canonical name
    /// selects one tensor. For a single tensor, the values that quantization clipped are counted too
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Show one row per tensor, also for equal tensors, instead of grouping equal layers
    #[arg(long)]
    pub(crate) all: bool,
    /// Show one row per layer: its difference, and the tensor that differs most
    #[arg(long, conflicts_with = "all")]
    pub(crate) by_layer: bool,
    /// Sort by relative RMS or by the largest difference, from the largest down; one row per tensor or layer
    #[arg(long, value_enum, value_name = "COLUMN")]
    pub(crate) sort: Option<DiffSort>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge verify model.gguf
  weighbridge verify model.gguf --strict    # apply llama.cpp's rules too
  weighbridge verify model.gguf --deep      # check every value too
  weighbridge verify model.gguf --run       # run it on a few tokens too
  weighbridge verify ./Qwen3-0.6B --hub Qwen/Qwen3-0.6B
  weighbridge verify model.gguf --save model.hashes
  weighbridge verify model.gguf --against model.hashes
  weighbridge verify ./Qwen3-0.6B --deep --json | jq '.faults'")]
pub(crate) struct Verify {
    /// Models: files, any shard of a split GGUF, directories, or names of Ollama models
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Also check every value and scale. Faults: NaN and infinity in values or scales, as in
    /// llama.cpp's own check. Remarks: matrices whose values are all 0 or all equal, and NVFP4 scales
    /// below the normal range; constant biases and norms are normal. Faults and remarks give exit
    /// status 1
    #[arg(long)]
    pub(crate) deep: bool,
    /// Also run the model on 64 tokens of a text, and show its perplexity. Faults: results that are
    /// infinite, NaN, all equal or the same for every token. `quality` with the original shows what a
    /// model has lost
    #[arg(long)]
    pub(crate) run: bool,
    /// Compare the model's file with this SHA-256, in hexadecimal. Blobs of Ollama's store and of the hub's
    /// cache are compared with their names without it
    #[arg(long, value_name = "HEX", value_parser = sha256_or_file)]
    pub(crate) sha256: Option<String>,
    /// Compare the model's files with those of this repository of the hub, by the digests that the hub
    /// states: ORG/NAME, ORG/NAME@REVISION, or ORG/NAME/FILE for a file that has another name here
    #[arg(long, value_name = "ORG/NAME")]
    pub(crate) hub: Option<String>,
    /// Afterwards save the SHA-256 of every tensor, for --against. FILE must not exist yet, or be such a
    /// list
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Compare with a list from --save; report missing, extra and changed tensors
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The server listens on the loopback interface, and serves only the models named. The file of -o has no
scripts and needs no other file: it can be attached to an issue.

Examples:
  weighbridge view model.gguf
  weighbridge view ./Qwen3-0.6B Qwen3-0.6B-Q4_K_M.gguf    # and what differs
  weighbridge view model.gguf --no-open --port 8080
  weighbridge view model.gguf -o report.html             # a report as one file
  weighbridge view ./Qwen3-0.6B Qwen3-0.6B-Q4_K_M.gguf -o report.html"
)]
pub(crate) struct View {
    /// Models: files, any shard of a split GGUF, directories, or names of Ollama models. With several, the
    /// others are compared with the first
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print the address only, without starting a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Port to listen on; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// The secret in the address, instead of a random one: with --port, the address stays the same. At
    /// least 16 letters, digits, - or _
    #[arg(long, value_name = "TEXT", requires = "port", value_parser = token)]
    pub(crate) token: Option<String>,
    /// Write a report on one model, or on the differences of two, to an HTML file instead; - is standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["no_open", "port", "token"])]
    pub(crate) output: Option<PathBuf>,
    /// With -o: replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// The secret of an address: as hard to guess as a password, and without characters that an address escapes.
fn token(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match text.len() >= 16 && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("write at least 16 letters, digits, - or _".to_owned()),
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge bench                          # the built-in sample model
  weighbridge bench model.gguf
  weighbridge bench model.gguf --fuse qkv,gate-up --dtype f16
  weighbridge bench model.gguf --device gpu --verify
  weighbridge bench model.gguf --shard tp=4 --rank 1
  weighbridge bench ./Qwen3-0.6B --filter 'layers.0.*' --no-map --json")]
pub(crate) struct Bench {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model; if omitted, the
    /// built-in sample model
    pub(crate) path: Option<PathBuf>,
    /// Load only tensors whose stored or canonical name contains or matches this
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Fuse these tensors into one buffer where possible: qkv, gate-up
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = names::fusion(),
        hide_possible_values = true)]
    pub(crate) fuse: Vec<&'static weighbridge::load::Fusion>,
    /// Load one rank's part of each tensor. COUNTS: tp=N ranks divide the matrices, pp=N the layers,
    /// ep=N the experts; see `inspect --shard`
    #[arg(long, value_name = "COUNTS", requires = "rank")]
    pub(crate) shard: Option<Mesh>,
    /// With --shard: the number of the rank, from 0
    #[arg(long, value_name = "N", requires = "shard")]
    pub(crate) rank: Option<u64>,
    /// Dtype of the loaded tensors
    #[arg(long, value_enum, default_value = "keep", value_name = "DTYPE")]
    pub(crate) dtype: LoadDtype,
    /// Device to load to: cpu, gpu, gpu:NUMBER or gpu:NAME; see `list devices`
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub(crate) device: DeviceName,
    /// Read the tensors back from the device, and compare every byte
    #[arg(long)]
    pub(crate) verify: bool,
    /// Number of threads that read and convert; 0 means one per processor
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) threads: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// The dtype of tensors that `bench` loads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LoadDtype {
    /// Packed, as stored
    Keep,
    /// Values as f32
    F32,
    /// Values as f16
    F16,
    /// Values as bf16
    Bf16,
    /// f32 and bf16 as f16; packed codes as stored, with f16 scales
    PackedF16,
}

/// A table that `list` prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Listing {
    /// File formats that can be read
    Containers,
    /// Element types, quantized ones included
    Dtypes,
    /// File types of `quantize`, such as Q4_K_M; with MODEL, the size that it would have in each
    Types,
    /// Model families whose tensors have canonical names
    #[value(name = "families", alias = "architectures")]
    Architectures,
    /// The devices that models can be loaded to
    Devices,
    /// The kernels with which a GPU computes, for each dtype
    Kernels,
    /// The servers and folders that are used, and the variables that set them
    Settings,
}

/// A column of `models`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SortBy {
    Name,
    Program,
    Architecture,
    Parameters,
    Quantization,
    #[value(alias = "size:desc")]
    Size,
    #[value(aliases = ["accessed", "accessed:desc", "modified", "date", "time"])]
    Used,
}

/// The content that makes two models duplicates.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DuplicatesBy {
    /// Files with the same bytes
    Files,
    /// Tensors with the same canonical names, shapes and values
    Values,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge list dtypes
  weighbridge list types
  weighbridge list families qwen3   # whether a model is known
  weighbridge list families --json")]
pub(crate) struct List {
    /// The table to print
    #[arg(value_enum)]
    pub(crate) what: Listing,
    /// Show only rows with this text. With `types`, a model instead: its size in each type, as with `quantize
    /// MODEL --list-types`
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The models are those of Ollama, LM Studio, the Hugging Face cache and other programs. The settings can
name folders too: roots = [\"FOLDER\"] in WEIGHBRIDGE_CONFIG or ~/.config/weighbridge/config.toml

Examples:
  weighbridge models
  weighbridge models ~/models             # only those in a folder
  weighbridge models ollama               # only those of Ollama
  weighbridge models --sort size --filter qwen
  weighbridge models --duplicates         # which are the same"
)]
pub(crate) struct Models {
    /// List only the models in these folders, or of these programs, such as ollama
    #[arg(value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// List only models with this in their name, or a pattern with * and ?
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Option<String>,
    /// Sort by this column, the largest and the latest first
    #[arg(long, value_enum, value_name = "COLUMN")]
    pub(crate) sort: Option<SortBy>,
    /// Show which have the same files, and what could be saved; nothing is deleted or linked. `values`
    /// also compares the values of tensors, whatever the container
    #[arg(long, value_enum, value_name = "BY", num_args = 0..=1, require_equals = true,
        default_missing_value = "files")]
    pub(crate) duplicates: Option<DuplicatesBy>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "http")]
#[derive(Args, Debug)]
#[command(
    after_help = "A model of the hub goes to the cache of the hub's client (HF_HUB_CACHE, HF_HOME), a model of
Ollama's registry to Ollama's store (OLLAMA_MODELS), files of plain addresses to the folder of -o. A
download that was interrupted is continued by the next run.

Examples:
  weighbridge pull Qwen/Qwen3-0.6B
  weighbridge pull ggml-org/gemma-3-4b-it-GGUF:Q4_K_M
  weighbridge pull hf://Qwen/Qwen3-0.6B@main/tokenizer.json
  weighbridge pull Qwen/Qwen3-0.6B --include '*.json' -o ./Qwen3-0.6B
  weighbridge pull ollama://llama3.2:1b
  weighbridge pull https://example.com/models/tale.gguf -o ./models
  weighbridge pull Qwen/Qwen3-8B --dry-run    # the files, and their sizes"
)]
pub(crate) struct Pull {
    /// Models: ORG/NAME[@REVISION][:TYPE] of the hub, also with hf:// before it and /FILE
    /// after it; MODEL[:TAG] of Ollama's registry, also with ollama:// before it; the https://
    /// address of a file, an index or a folder
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<PathBuf>,
    /// Write the files to FOLDER: those of a plain address, or those of a repository instead of the
    /// hub's cache; for a model of Ollama's registry, use FOLDER as the store
    #[arg(short, long, value_name = "FOLDER", alias = "to")]
    pub(crate) output: Option<PathBuf>,
    /// The revision of each repository, as after @
    #[arg(long, value_name = "REVISION", hide_short_help = true)]
    pub(crate) revision: Option<String>,
    /// Download the files of a repository whose names match, instead of the usual choice: the weights
    /// in one form, config, tokenizer, license, description. * matches any text, ? one character
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out files of a repository whose names match
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Show what would be downloaded, and download nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Number of requests at the same time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Print only the path, as `hf download` does
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Contact no server: give the path of what an earlier download left
    #[arg(long, help_heading = COMMON, hide_short_help = true)]
    pub(crate) offline: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Ollama's server need not run.

Examples:
  weighbridge show llama3.2
  weighbridge show llama3.2 --modelfile > Modelfile
  weighbridge show llama3.2 --json | jq .capabilities")]
pub(crate) struct Show {
    /// Name of a model in Ollama's store, or the path of its manifest
    pub(crate) model: PathBuf,
    /// Print only the Modelfile
    #[arg(long, group = "part")]
    pub(crate) modelfile: bool,
    /// Print only the template
    #[arg(long, group = "part")]
    pub(crate) template: bool,
    /// Print only the system prompt
    #[arg(long, group = "part")]
    pub(crate) system: bool,
    /// Print only the parameters
    #[arg(long, group = "part")]
    pub(crate) parameters: bool,
    /// Print only the licenses
    #[arg(long, group = "part")]
    pub(crate) license: bool,
    /// Print JSON, with the field names of Ollama's API
    #[arg(long, group = "part")]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge completions bash >> ~/.bash_completion
  weighbridge completions zsh > ~/.zfunc/_weighbridge   # mkdir ~/.zfunc first")]
pub(crate) struct Completions {
    /// The shell to complete for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge man ~/.local/share/man/man1    # then: man weighbridge
  weighbridge man /usr/local/share/man/man1 --overwrite")]
pub(crate) struct Man {
    /// The folder for the pages, which is created if it does not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Replace the pages of an earlier version
    #[arg(long)]
    pub(crate) overwrite: bool,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let tolerance = text.parse().ok().filter(|tolerance: &f64| *tolerance >= 0.0);
    tolerance.ok_or_else(|| "expected a number that is not negative, as in 1e-6".to_owned())
}

/// Parses rows: `A..B`, `A:B`, or `A` for one.
fn parse_rows(text: &str) -> Result<std::ops::Range<u64>, String> {
    let range = match text.split_once("..").or_else(|| text.split_once(':')) {
        Some((start, end)) => {
            let start = if start.is_empty() { Ok(0) } else { start.parse() };
            start.ok().zip(end.parse().ok()).map(|(start, end): (u64, u64)| start..end)
        }
        None => text.parse::<u64>().ok().and_then(|row| Some(row..row.checked_add(1)?)),
    };
    range.filter(|range| range.start <= range.end).ok_or_else(|| {
        "expected the first row and the row after the last, as in 0..4 or 0:4, or one row"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("4G", 4_000_000_000), ("0.5GiB", 1 << 29), ("1.5k", 1500), ("65536", 1 << 16)]
        {
            assert_eq!(values::shard_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "500", "500.5", ".5G", "4.", "1.5.2G", "4X", "0.1", "99999999999T"] {
            assert!(values::shard_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rows() {
        for (text, rows) in
            [("0..4", 0..4), ("2:5", 2..5), ("7", 7..8), ("..3", 0..3), (":3", 0..3)]
        {
            assert_eq!(parse_rows(text), Ok(rows), "{text}");
        }
        for text in ["", "4..2", "a", "1-3", "18446744073709551615"] {
            assert!(parse_rows(text).is_err(), "{text}");
        }
    }
}
