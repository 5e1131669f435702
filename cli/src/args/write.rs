//! Arguments of the subcommands that write models.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use weighbridge::adapter::{Adapter, ScaledAdapter};
use weighbridge::container::{Container, ollama};
use weighbridge::load::Fusion;
use weighbridge::model::Mesh;
use weighbridge::ollama::QuantType;
use weighbridge::recipe::llama_cpp::{MetadataSetting, TensorType};
use weighbridge::recipe::mlx_lm;
use weighbridge::{DType, ErrorKind, Model, WriteOptions};
use wildmatch::WildMatch;

use super::Open;
use super::names::{
    CreatedType, TargetType, created_type, dtype, fusion, mix, mlx, quant_type, target_type,
    writable,
};
use super::values::{shard_size, size, with_advice};
use crate::Stop;
use crate::print::shown;

/// Options that all writing subcommands share.
#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Show what would be done with each tensor; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: one row for each tensor, and the name of everything left out
    #[arg(hide_short_help = true, long, requires = "dry_run")]
    pub(crate) all: bool,
    /// Replace an existing destination once the new one is complete
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Number of threads; 0 means one per processor
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) threads: usize,
    /// The most working memory to use, in addition to the memory for headers
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size,
        help_heading = super::COMMON, hide_short_help = true)]
    pub(crate) max_memory: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the path of what is written
    #[arg(long, conflicts_with_all = ["json", "dry_run"], hide_short_help = true)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

/// The destination of a verb that writes a model.
#[derive(Args, Debug)]
pub(crate) struct Destination {
    /// The file or directory to write, also as -o DST. For the shards of a split GGUF, the start of their
    /// names
    #[arg(required_unless_present = "dst_option", conflicts_with = "dst_option", value_parser = destination)]
    dst: Option<PathBuf>,
    // `-o` stands for it; in `job plan`, that is the file of the plan.
    #[arg(long = "dst", value_name = "DST", hide = true, id = "dst_option", value_parser = destination)]
    output: Option<PathBuf>,
}

/// Parses a destination. Files get their name when they are complete, which a pipe cannot have.
fn destination(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a model is not written to standard output: give a file".to_owned()),
        #[cfg(unix)]
        text if text.contains('\\') => {
            Err(format!("folders are divided by /: {}", text.replace('\\', "/")))
        }
        text => Ok(PathBuf::from(text)),
    }
}

impl Destination {
    /// The path that was given in one of the two ways.
    pub(crate) fn path(&self) -> &Path {
        self.dst.as_deref().or(self.output.as_deref()).unwrap_or(Path::new(""))
    }
}

/// The destination of a verb that makes a name if none is given.
#[derive(Args, Debug)]
pub(crate) struct NamedDestination {
    /// The file or directory to write, also as -o DST [default: a name made of SRC's, in this folder]
    #[arg(value_parser = destination)]
    pub(crate) dst: Option<PathBuf>,
    // `-o` stands for it; in `job plan`, that is the file of the plan.
    #[arg(long = "dst", value_name = "DST", hide = true, id = "dst_option", value_parser = destination)]
    pub(crate) output: Option<PathBuf>,
}

impl NamedDestination {
    /// The path that was given in one of the two ways, if any.
    pub(crate) fn path(&self) -> Result<Option<&Path>, Stop> {
        match (&self.dst, &self.output) {
            (Some(_), Some(_)) => Err(Stop::Usage("DST is given twice, once with -o".to_owned())),
            (dst, output) => Ok(dst.as_deref().or(output.as_deref())),
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge split model.gguf parts/model --max-shard-size 4G
  weighbridge split ./Qwen3-8B ./Qwen3-8B-shards --max-shard-size 2GB
  weighbridge split --join model-00001-of-00003.gguf model.gguf
  weighbridge split --join ./Qwen3-8B Qwen3-8B.safetensors
  weighbridge split --join model.gguf aligned.gguf --align 4096")]
pub(crate) struct Split {
    /// A GGUF file, or a safetensors file or directory
    pub(crate) src: PathBuf,
    #[command(flatten)]
    pub(crate) dst: Destination,
    /// Maximum size of a shard's tensors
    #[arg(long, value_name = "SIZE", value_parser = shard_size, conflicts_with = "max_tensors", alias = "max-size")]
    pub(crate) max_shard_size: Option<u64>,
    /// Maximum number of tensors per shard [default: 128, unless --max-shard-size is given]
    #[arg(long, value_name = "N")]
    pub(crate) max_tensors: Option<u64>,
    /// Write one file instead: join the shards of a split GGUF, or the files of a safetensors directory
    #[arg(long, conflicts_with_all = ["max_shard_size", "max_tensors"])]
    pub(crate) join: bool,
    /// With --join, align the tensor data: for safetensors its start, to 8 bytes like the safetensors crate,
    /// or to 64; for GGUF every tensor, to any power of two, of which llama.cpp reads 32 and above
    #[arg(long, value_name = "BYTES", requires = "join", overrides_with = "align")]
    pub(crate) align: Option<u64>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
#[command(
    after_help = "A recipe is a file of mergekit's, with the methods linear, task_arithmetic, ties, dare_linear, dare_ties, slerp
and passthrough. The models may be in any container. Each tensor is merged in f32 just before it is written, and rounded once.

The key `tokenizer` (or `tokenizer_source`) chooses the tokens: `source` is union, base or one of the models, `tokens` adds
tokens or sets their rows, `remove` removes tokens, `pad_to_multiple_of` rounds their number up. A row is that of another token
(`kind: model_token`), zero, the mean of all rows or random numbers (`kind: random`, with a `seed`).

The mean of two models is this recipe:
  merge_method: linear
  models:
    - model: ./first
      parameters:
        weight: 0.5
    - model: ./second
      parameters:
        weight: 0.5

If SRC is a model, its files are joined: `weighbridge split --join`. With an adapter after it, `weighbridge merge MODEL
ADAPTER DST` merges the adapter into the model, as `weighbridge convert MODEL DST --lora ADAPTER` does.

Examples:
  weighbridge merge recipe.yml ./merged --to safetensors
  weighbridge merge ./Qwen3-8B ./my-adapter ./merged
  weighbridge merge recipe.yml merged.gguf --quantize Q4_K_M
  weighbridge merge model-00001-of-00003.gguf model.gguf"
)]
pub(crate) struct Merge {
    /// A recipe, which ends in .yml or .yaml; or a model whose files are joined, or into which an adapter is merged
    pub(crate) src: PathBuf,
    /// Container of the merged model; may be omitted if DST ends in .gguf or .safetensors
    #[arg(long, value_name = "TO", value_parser = writable())]
    pub(crate) to: Option<&'static Container>,
    /// Quantize the merged model to a file type of llama-quantize
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<String>,
    #[command(flatten)]
    pub(crate) dst: Destination,
    /// Align the tensor data: for safetensors its start, to 8 bytes like the safetensors crate, or to 64;
    /// for GGUF every tensor, to any power of two, of which llama.cpp reads 32 and above
    #[arg(long, value_name = "BYTES", overrides_with = "align")]
    pub(crate) align: Option<u64>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge meta get model.gguf general.name
  weighbridge meta set model.gguf general.name='My model' --dry-run
  weighbridge meta rm model.gguf general.url")]
pub(crate) struct Meta {
    #[command(subcommand)]
    pub(crate) verb: MetaVerb,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum MetaVerb {
    /// Print the values of the given keys, or of all keys
    #[command(after_help = "Examples:
  weighbridge meta get model.gguf
  weighbridge meta get model.gguf general.name
  weighbridge meta get llama3.2 tokenizer.chat_template > template.jinja")]
    Get {
        /// A model in any container
        path: PathBuf,
        /// Keys to print; all if omitted. Prefixes may be left out (name, context_length,
        /// chat_template), and a special token's key may be given by name: bos, eos, pad
        keys: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set keys of a GGUF file
    #[command(
        after_help = "A key keeps its type unless one is given. TYPE is u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool
or str. TYPE[] is an array, given as JSON. A value that begins with @ is the content of a file; @@
stands for a single @. The prefix of a key may be left out (name, context_length, chat_template). A
new key requires its type, as in KEY=str:@FILE, unless it is a common one. A special token may be given by name (bos, eos, eot, pad, ...) and by its text.
The settings of a directory are in config.json and the files next to it, which this command does not
change.

Examples:
  weighbridge meta set model.gguf name='My model' context_length=32768
  weighbridge meta set model.gguf add_bos_token=bool:true --dry-run
  weighbridge meta set model.gguf chat_template=@template.jinja -o changed.gguf
  weighbridge meta set model.gguf eos='<|im_end|>'
  weighbridge meta set model.gguf general.tags='str[]:[\"chat\",\"code\"]'"
    )]
    Set {
        /// A GGUF file, or the name of an Ollama model
        path: PathBuf,
        /// KEY=VALUE keeps the type of an existing key; KEY=TYPE:VALUE sets the type, which a new key
        /// requires
        #[arg(required_unless_present = "remove", value_name = "KEY=VALUE")]
        values: Vec<String>,
        /// Also remove this key; repeatable
        #[arg(hide_short_help = true, long, value_name = "KEY")]
        remove: Vec<String>,
        /// Make a change too after which `verify` finds a new fault; with -o, replace an existing file
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        edit: Edit,
    },
    /// Remove keys from a GGUF file
    #[command(after_help = "Examples:
  weighbridge meta rm model.gguf general.url
  weighbridge meta rm model.gguf tokenizer.chat_template -o bare.gguf")]
    Rm {
        /// A GGUF file, or the name of an Ollama model
        path: PathBuf,
        /// Keys to remove
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// Remove keys too that the model needs
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        edit: Edit,
    },
}

/// Options of changing metadata.
#[derive(Args, Clone, Debug)]
pub(crate) struct Edit {
    /// Show the changes; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the changed model to this file, and leave the original unchanged
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// With -o: replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The parts that a written model may lack.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Whole {
    /// Write the model even if it lacks tensors that its architecture requires, or if llama.cpp or
    /// mlx-lm could not load it
    #[arg(hide_short_help = true, long)]
    pub(crate) allow_incomplete: bool,
    /// Quantize tensors with NaN, infinities, or values beyond the range of a block's scale. All values of
    /// such a block are lost, which is an error without this option
    #[arg(hide_short_help = true, long)]
    pub(crate) allow_nonfinite: bool,
}

impl Whole {
    /// The library's options.
    pub(crate) fn options<'w>(self) -> WriteOptions<'w> {
        WriteOptions::new()
            .allow_incomplete(self.allow_incomplete)
            .allow_nonfinite(self.allow_nonfinite)
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Each tensor gets the dtype and the bytes that llama-quantize or mlx-lm would write, token_embd and output
too. llama-quantize's arguments work, with the number of threads at the end, and so do mlx_lm.convert's, such as --q-bits 4.

Examples:
  weighbridge quantize ./Qwen3-8B Q4_K_M                # Qwen3-8B-Q4_K_M.gguf
  weighbridge quantize ./Qwen3-8B mlx4                  # ./Qwen3-8B-4bit
  weighbridge quantize model-F16.gguf small.gguf IQ2_XS --imatrix imatrix.gguf
  weighbridge quantize m.gguf x.gguf Q8_0 --tensor-type attn_v=q6_k --dry-run
  weighbridge quantize ./Qwen3-0.6B Q4_K_M --compare    # and what was lost
  weighbridge quantize ./Qwen3-8B --list-types          # the size in each type"
)]
pub(crate) struct QuantizeNow {
    #[command(flatten)]
    pub(crate) quantize: Quantize,
    /// Afterwards run SRC and DST over a text, as `quality` does, and print what was lost
    #[arg(long, conflicts_with_all = ["dry_run", "json", "keep_split"])]
    pub(crate) compare: bool,
}

/// The arguments of a quantization.
#[derive(Args, Debug)]
pub(crate) struct Quantize {
    /// A model in any container, preferably not quantized yet
    pub(crate) src: PathBuf,
    #[command(flatten)]
    pub(crate) dst: NamedDestination,
    /// Type by its llama-quantize name, which sets the dtype of each tensor: Q4_K_M, Q8_0, IQ3_XXS, ...;
    /// or for an MLX directory mlx4 or 4bit, with group size and mode if wanted: mlx4,64 or mlx4,32,mxfp4
    #[arg(value_name = "TYPE", value_parser = target_type(), hide_possible_values = true,
        conflicts_with_all = ["file_type", "mlx"])]
    pub(crate) third: Option<TargetType>,
    /// The type, given as an option
    #[arg(long = "type", value_name = "TYPE", value_parser = target_type(), hide_possible_values = true)]
    pub(crate) file_type: Option<TargetType>,
    /// The type of an MLX directory: bits, group size and mode, as in 4 or 4,64 or 4,32,mxfp4
    #[arg(long, value_name = "BITS,GROUP,MODE", value_parser = mlx, conflicts_with = "file_type",
        hide_short_help = true)]
    pub(crate) mlx: Option<mlx_lm::MlxOptions>,
    /// List the types, with the size of SRC in each
    #[arg(long)]
    pub(crate) list_types: bool,
    /// For MLX: mix of bit widths by its mlx-lm name: mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6
    #[arg(long, value_name = "MIX", value_parser = mix(), hide_possible_values = true)]
    pub(crate) quant_predicate: Option<&'static mlx_lm::Mix>,
    /// Importance matrix written by llama-imatrix, as GGUF or in the older format
    #[arg(long, value_name = "FILE")]
    pub(crate) imatrix: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Use the importance matrix only for tensors whose names contain NAME
    #[arg(hide_short_help = true, long, value_name = "NAME", conflicts_with = "exclude_weights")]
    pub(crate) include_weights: Vec<String>,
    /// Use the importance matrix for all tensors except those whose names contain NAME
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub(crate) exclude_weights: Vec<String>,
    /// Quantize tensors that are already quantized, at a further loss
    #[arg(long)]
    pub(crate) allow_requantize: bool,
    /// Use the same dtype for every tensor
    #[arg(long)]
    pub(crate) pure: bool,
    /// Do not quantize output.weight
    #[arg(hide_short_help = true, long)]
    pub(crate) leave_output_tensor: bool,
    /// Dtype of output.weight
    #[arg(hide_short_help = true, long, value_name = "DTYPE", value_parser = dtype(), hide_possible_values = true)]
    pub(crate) output_tensor_type: Option<DType>,
    /// Dtype of token_embd.weight
    #[arg(hide_short_help = true, long, value_name = "DTYPE", value_parser = dtype(), hide_possible_values = true)]
    pub(crate) token_embedding_type: Option<DType>,
    /// Dtype of tensors whose names match; the first matching rule applies
    #[arg(long, value_name = "REGEX=DTYPE", value_parser = tensor_type)]
    pub(crate) tensor_type: Vec<TensorType>,
    /// Remove the layers with these numbers
    #[arg(
        hide_short_help = true,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "mlx"
    )]
    pub(crate) prune_layers: Vec<u64>,
    /// Write the same number of shards as the source, with the same tensors in each
    #[arg(hide_short_help = true, long)]
    pub(crate) keep_split: bool,
    /// Set a metadata key; TYPE is int, float, bool or str
    #[arg(hide_short_help = true, long, value_name = "KEY=TYPE:VALUE", value_parser = setting)]
    pub(crate) override_kv: Vec<MetadataSetting>,
    /// Leave out the weighbridge.* keys, which keep settings of config.json that llama.cpp has no keys for
    #[arg(hide_short_help = true, long, conflicts_with = "mlx")]
    pub(crate) no_extra_keys: bool,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

fn tensor_type(text: &str) -> Result<TensorType, String> {
    with_advice(TensorType::parse(text))
}

fn setting(text: &str) -> Result<MetadataSetting, String> {
    with_advice(MetadataSetting::parse(text))
}

/// A LoRA adapter and its factor.
#[derive(Clone, Debug)]
pub(crate) struct Lora {
    pub(crate) path: PathBuf,
    pub(crate) scale: f64,
}

impl fmt::Display for Lora {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.path))?;
        if self.scale == 1.0 { Ok(()) } else { write!(f, ":{}", self.scale) }
    }
}

/// Changes of the source before it is written.
#[derive(Args, Debug)]
pub(crate) struct Source {
    /// Merge a LoRA adapter, times SCALE if given: a directory of PEFT or mlx-lm, or a LoRA GGUF;
    /// repeatable
    #[arg(long, value_name = "PATH[:SCALE]", value_parser = lora)]
    pub(crate) lora: Vec<Lora>,
    /// Leave out tensors by name or pattern; repeatable. Only unknown tensors and those of a vision or audio
    /// tower can be left out
    #[arg(hide_short_help = true, long, value_name = "GLOB")]
    leave_out: Vec<String>,
}

impl Source {
    /// The model with the adapters merged, and without the tensors to leave out.
    pub(crate) fn applied(&self, model: Model) -> weighbridge::Result<Model> {
        let globs: Vec<WildMatch> =
            self.leave_out.iter().map(|glob| WildMatch::new(glob)).collect();
        let model = match globs.is_empty() {
            true => model,
            false => {
                let left = model.leave_out(|name| globs.iter().any(|glob| glob.matches(name)));
                left.map_err(|error| self.without_match(&model, error))?
            }
        };
        if self.lora.is_empty() {
            return Ok(model);
        }
        let opened = self.lora.iter().map(|lora| {
            Ok(ScaledAdapter { adapter: Adapter::open(&lora.path)?, factor: lora.scale })
        });
        Adapter::merged(&model, &opened.collect::<weighbridge::Result<Vec<_>>>()?)
    }

    /// The error of patterns that match no tensor, with the patterns.
    fn without_match(&self, model: &Model, error: weighbridge::Error) -> weighbridge::Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        let globs = self.leave_out.iter().map(|glob| format!("'{glob}'")).collect::<Vec<_>>();
        let fault = format!("no tensor matches --leave-out {}", globs.join(" "));
        let named = weighbridge::Error::new(ErrorKind::NotFound, fault).in_file(model.path());
        named.advise(error.advice().unwrap_or_default().to_owned())
    }

    /// The files that are read besides the model.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = PathBuf> {
        self.lora.iter().map(|lora| lora.path.clone())
    }
}

/// Parses `PATH` or `PATH:SCALE`. A path that exists may contain a colon.
fn lora(text: &str) -> Result<Lora, String> {
    let whole = || Lora { path: PathBuf::from(text), scale: 1.0 };
    let Some((path, scale)) = text.rsplit_once(':').filter(|_| !whole().path.exists()) else {
        return Ok(whole());
    };
    match scale.parse::<f64>() {
        Ok(scale) if scale.is_finite() => Ok(Lora { path: PathBuf::from(path), scale }),
        Ok(_) => Err(format!("\"{scale}\" is not a finite number")),
        Err(_) => Ok(whole()),
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "A quantized tensor is repacked if the other container can hold exactly the same values. Otherwise it is
rounded: to 8 bits for GGUF and MLX, to F16 for safetensors. --dry-run shows these tensors; --lossless makes them an error.

With --to safetensors, DST is a directory with config and tokenizer; if it ends in .safetensors, it is
one file with the weights alone.

Examples:
  weighbridge convert ./Qwen3-8B                        # Qwen3-8B.gguf
  weighbridge convert model-Q4_K_M.gguf ./model-mlx --to mlx --dry-run
  weighbridge convert model-Q8_0.gguf ./model --to safetensors --dtype BF16
  weighbridge convert ./model-4bit model.gguf --lossless
  weighbridge convert ./Qwen3-8B ./merged --to safetensors --lora ./my-adapter
  weighbridge convert ./tuned ./my-adapter --lora-from ./Qwen3-8B --rank 32
  weighbridge convert ./my-adapter my-adapter.gguf --base ./Qwen3-8B
  weighbridge convert ./gemma-3-4b-it mmproj-gemma-3-4b-it.gguf --mmproj
  weighbridge convert ./Qwen3-32B ./Qwen3-32B-tp8 --shards tp=8
  weighbridge convert ./model-4bit qwen3:4bit --to ollama"
)]
pub(crate) struct Convert {
    /// A model in any container
    pub(crate) src: PathBuf,
    #[command(flatten)]
    pub(crate) dst: NamedDestination,
    /// Container to write [default: by DST's ending, or for a directory that of SRC]. For ollama, DST is a
    /// model's name
    #[arg(long, value_name = "TO", value_parser = writable())]
    pub(crate) to: Option<&'static Container>,
    /// Dtype of the weights: F32, F16, BF16, or for GGUF any type that needs no importance matrix. Vectors are F32 in
    /// GGUF, and elsewhere if only they are in F32
    #[arg(long, value_name = "DTYPE", value_parser = dtype(), hide_possible_values = true)]
    pub(crate) dtype: Option<DType>,
    /// Decode quantized tensors: those of MLX to the dtype of their scales, as mlx-lm does, MXFP4 to BF16, FP8 to BF16 if
    /// config.json states it, others to F16
    #[arg(hide_short_help = true, long)]
    pub(crate) dequantize: bool,
    /// With --lora, for MLX: quantize the merged matrices as they were, as mlx_lm.fuse does [default: they become plain]
    #[arg(hide_short_help = true, long)]
    pub(crate) requantize_merged: bool,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the change from BASE to SRC as a LoRA adapter of PEFT; if SRC is an adapter of BASE, write that as
    /// GGUF
    #[arg(long, visible_alias = "base", value_name = "BASE", conflicts_with_all = ["lora", "lossless", "mmproj", "shards", "max_shard_size"])]
    pub(crate) lora_from: Option<PathBuf>,
    /// With --lora-from: the rank of the changes
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 16, requires = "lora_from",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rank: u64,
    /// Fail if any value would change
    #[arg(long, conflicts_with = "lora")]
    pub(crate) lossless: bool,
    /// For GGUF: leave out the weighbridge.* keys, which keep settings of config.json that llama.cpp has no
    /// keys for
    #[arg(hide_short_help = true, long)]
    pub(crate) no_extra_keys: bool,
    /// For GGUF: write the vision or audio model, which llama.cpp reads from a separate file (mmproj), instead of
    /// the language model
    #[arg(long, conflicts_with = "max_shard_size")]
    pub(crate) mmproj: bool,
    /// Maximum size of the tensors in one file
    #[arg(long, value_name = "SIZE", value_parser = shard_size)]
    pub(crate) max_shard_size: Option<u64>,
    /// For vLLM: write files for each rank, as vLLM's sharded_state. COUNTS: tp=N divides the matrices among
    /// N ranks, pp=N the layers, ep=N the experts. `inspect --shard` shows the shares
    #[arg(hide_short_help = true, long, value_name = "COUNTS", conflicts_with = "mmproj")]
    pub(crate) shards: Option<Mesh>,
    /// With --shards: join tensors under vLLM's names: qkv, gate-up
    #[arg(hide_short_help = true, long, value_name = "LIST", value_delimiter = ',', value_parser = fusion(),
        hide_possible_values = true, requires = "shards")]
    pub(crate) fuse: Vec<&'static Fusion>,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// The location of Ollama's store.
#[derive(Args, Debug)]
pub(crate) struct Store {
    /// Ollama store to write to [default: $OLLAMA_MODELS, or ~/.ollama/models]
    #[arg(hide_short_help = true, long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
}

impl Store {
    /// The path of a model's manifest.
    pub(crate) fn place(&self, name: &str) -> weighbridge::Result<PathBuf> {
        ollama::place(name, self.store.as_deref())
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "A GGUF model without --quantize becomes one blob: an exact copy of its file, or its shards merged.
Otherwise each tensor becomes a blob with the type that Ollama would choose, as with `ollama create
--experimental`. Tensors that are already quantized keep their codes if Ollama has a name for their
type. FP8 in blocks of 128 x 128 becomes BF16 and mxfp8, as in Ollama. Ollama's server need not run.

Renderer, parser and capabilities come from config.json and the chat template; a GGUF file whose
chat template Ollama knows gets Ollama's template and stop words. --template, --system, --license
and --message take a text, or @FILE for the text of a file. Options replace what the Modelfile
says; --parameter stop, --license, --message, --adapter and --projector add to it.

Examples:
  weighbridge create qwen3:mine ./Qwen3-8B
  weighbridge create qwen3:int4 ./Qwen3-8B --quantize int4
  weighbridge create qwen3:q4 ./Qwen3-8B --quantize q4_K_M
  weighbridge create me/qwen3:nvfp4 ./Qwen3-8B --quantize nvfp4 --dry-run
  weighbridge create mario -f Modelfile
  weighbridge create brief llama3.2 --system 'Be brief.' --parameter seed=7
  weighbridge create tuned model.gguf --adapter lora.gguf --template @chat.txt"
)]
pub(crate) struct Create {
    /// Name of the new model: [HOST/][NAMESPACE/]MODEL[:TAG]
    pub(crate) name: String,
    /// A model in any container, or the name of a model in the store [default: FROM of the Modelfile]
    pub(crate) src: Option<PathBuf>,
    /// Modelfile to read; without SRC, ./Modelfile is read if it exists
    #[arg(short, long, value_name = "MODELFILE")]
    pub(crate) file: Option<PathBuf>,
    /// Quantize the matrices to int4, int8, nvfp4, mxfp4 or mxfp8, or to a type of llama-quantize, which makes one GGUF
    /// blob
    #[arg(short, long, value_name = "TYPE", value_parser = created_type(), hide_possible_values = true)]
    pub(crate) quantize: Option<CreatedType>,
    /// Quantize the matrices of the draft model
    #[arg(hide_short_help = true, long, value_name = "TYPE", value_parser = quant_type(), hide_possible_values = true)]
    pub(crate) draft_quantize: Option<QuantType>,
    /// Prompt template in Go's template language
    #[arg(long, value_name = "TEXT")]
    pub(crate) template: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system: Option<String>,
    /// Parameter of runs: temperature=0.2, num_ctx=8192, stop='</s>', ...
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) parameter: Vec<(String, String)>,
    /// Text of a license
    #[arg(long, value_name = "TEXT")]
    pub(crate) license: Vec<String>,
    /// Message that conversations begin with; ROLE is system, user or assistant
    #[arg(hide_short_help = true, long, value_name = "ROLE=TEXT", value_parser = role_and_text)]
    pub(crate) message: Vec<(String, String)>,
    /// LoRA adapter: a GGUF file, or a directory of PEFT or mlx-lm, which becomes one
    #[arg(long, value_name = "FILE")]
    pub(crate) adapter: Vec<PathBuf>,
    /// Projector (mmproj) in a GGUF file
    #[arg(long, value_name = "FILE")]
    pub(crate) projector: Vec<PathBuf>,
    /// Draft model: a GGUF file, or a directory for a model of tensor blobs
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub(crate) draft: Option<PathBuf>,
    /// Renderer that writes prompts, by its name in Ollama
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub(crate) renderer: Option<String>,
    /// Parser that reads answers, by its name in Ollama
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub(crate) parser: Option<String>,
    /// Oldest version of Ollama that runs the model
    #[arg(hide_short_help = true, long, value_name = "VERSION")]
    pub(crate) requires: Option<String>,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Parses `NAME=VALUE`.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn role_and_text(text: &str) -> Result<(String, String), String> {
    let (role, text) = assignment(text).map_err(|_| "expected ROLE=TEXT".to_owned())?;
    match ["system", "user", "assistant"].contains(&role.as_str()) {
        true => Ok((role, text)),
        false => Err(format!("\"{role}\" is not one of system, user, assistant")),
    }
}
