//! The arguments of commands that write models.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use weighbridge::DType;
use weighbridge::container::{CONTAINERS, Container, ollama};
use weighbridge::recipe::llama_cpp::{MetadataSetting, TensorType, target};
use weighbridge::recipe::ollama::{QuantType, TYPES};
use weighbridge::recipe::{FILE_TYPES, FileType, mlx_lm};

use super::Open;

/// How a model is written.
#[derive(Args, Debug)]
pub(crate) struct Writing {
    /// Say what would become of every tensor, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace what is there, once the new one is whole
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Threads that share the work; 0 stands for one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Memory to work in, beside what headers take
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub(crate) max_memory: u64,
    /// Write the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge split model.gguf parts/model --max-size 4G     parts/model-00001-of-00003.gguf, ...
  weighbridge split ./Qwen3-8B ./Qwen3-8B-shards --max-size 2GB")]
pub(crate) struct Split {
    /// A GGUF file, or a file or directory of safetensors
    pub(crate) src: PathBuf,
    /// What shards of GGUF are named after; the directory of shards of safetensors
    pub(crate) dst: PathBuf,
    /// Bytes of tensors in a shard, at most
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "max_tensors")]
    pub(crate) max_size: Option<u64>,
    /// Tensors in a shard, at most [default: 128, if there is no --max-size]
    #[arg(long, value_name = "N")]
    pub(crate) max_tensors: Option<u64>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge merge model-00001-of-00003.gguf model.gguf
  weighbridge merge ./Qwen3-8B Qwen3-8B.safetensors")]
pub(crate) struct Merge {
    /// Any shard of a split GGUF, or a directory of safetensors
    pub(crate) src: PathBuf,
    /// The file to write
    pub(crate) dst: PathBuf,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge align model.safetensors aligned.safetensors            data at multiples of 64
  weighbridge align model.safetensors crate.safetensors --align 8    as the safetensors crate does
  weighbridge align model.gguf aligned.gguf --align 4096")]
pub(crate) struct Align {
    /// A file of safetensors or GGUF
    pub(crate) src: PathBuf,
    /// The file to write
    pub(crate) dst: PathBuf,
    /// What the data begin at a multiple of; in GGUF, every tensor
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(crate) align: u64,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge meta get model.gguf general.name
  weighbridge meta set model.gguf general.name='My model' llama.context_length=32768
  weighbridge meta set model.gguf tokenizer.ggml.add_bos_token=bool:true
  weighbridge meta rm model.gguf general.url")]
pub(crate) struct Meta {
    #[command(subcommand)]
    pub(crate) verb: MetaVerb,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum MetaVerb {
    /// Print the values under some keys, or all of them
    Get {
        /// A model of any container
        path: PathBuf,
        /// The keys; all if left out
        keys: Vec<String>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Give keys of a GGUF file other values
    Set {
        /// A GGUF file
        path: PathBuf,
        /// KEY=VALUE, of the type that the key has; KEY=TYPE:VALUE for one that is new
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Take keys of a GGUF file away
    Rm {
        /// A GGUF file
        path: PathBuf,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

/// A number of bytes: `4G` and `4GB` are 4,000,000,000, `4GiB` is 4,294,967,296.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(format!("\"{unit}\" is no unit: use K, M, G, T, KiB, MiB, GiB or TiB")),
    };
    let number: u64 = number.parse().map_err(|_| "a number and a unit, as 4G or 512MiB")?;
    number.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(|| "out of range".to_owned())
}

/// Whether a model must be whole.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Whole {
    /// Write the model even if it lacks tensors that its architecture requires
    #[arg(long)]
    pub(crate) allow_incomplete: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The dtype of each tensor, and every byte, are those that llama-quantize would write, or mlx-lm.

Examples:
  weighbridge quantize model-F16.gguf model-Q4_K_M.gguf --type Q4_K_M
  weighbridge quantize model-F16.gguf model-IQ2_XS.gguf --type IQ2_XS --imatrix imatrix.gguf
  weighbridge quantize ./Qwen3-8B Qwen3-8B-Q8_0.gguf --type Q8_0
  weighbridge quantize model.gguf x.gguf --type Q8_0 --tensor-type 'attn_v=q6_k' --dry-run
  weighbridge quantize ./Qwen3-8B ./Qwen3-8B-4bit --mlx 4"
)]
pub(crate) struct Quantize {
    /// A model of any container, better one that is not quantized yet
    pub(crate) src: PathBuf,
    /// The file to write
    pub(crate) dst: PathBuf,
    /// The mix of dtypes, as llama-quantize names it: Q4_K_M, Q8_0, IQ3_XXS, ...
    #[arg(long = "type", value_name = "FTYPE", value_parser = file_type, required_unless_present = "mlx")]
    pub(crate) file_type: Option<FileType>,
    /// Write a directory of MLX instead: bits, elements of a group and mode, as far as they are not
    /// mlx-lm's own: 4 or 4,64 or 4,32,mxfp4
    #[arg(long, value_name = "BITS,GROUP,MODE", value_parser = mlx, conflicts_with = "file_type")]
    pub(crate) mlx: Option<mlx_lm::MlxOptions>,
    /// With --mlx: a mix of bits, as mlx-lm names it: mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6
    #[arg(long, value_name = "MIX", value_parser = mix, requires = "mlx")]
    pub(crate) quant_predicate: Option<&'static mlx_lm::Mix>,
    /// Which columns matter: a file of llama-imatrix, GGUF or its older form
    #[arg(long, value_name = "FILE")]
    pub(crate) imatrix: Option<PathBuf>,
    /// Use the matrix for these tensors alone
    #[arg(long, value_name = "NAME", requires = "imatrix", conflicts_with = "exclude_weights")]
    pub(crate) include_weights: Vec<String>,
    /// Use the matrix for all tensors but these
    #[arg(long, value_name = "NAME", requires = "imatrix")]
    pub(crate) exclude_weights: Vec<String>,
    /// Quantize what is quantized already, at a loss
    #[arg(long)]
    pub(crate) allow_requantize: bool,
    /// The same dtype for every tensor
    #[arg(long)]
    pub(crate) pure: bool,
    /// Leave output.weight as it is
    #[arg(long)]
    pub(crate) leave_output_tensor: bool,
    /// The dtype of output.weight
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    pub(crate) output_tensor_type: Option<DType>,
    /// The dtype of token_embd.weight
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    pub(crate) token_embedding_type: Option<DType>,
    /// The dtype of tensors whose names match; the first that matches counts
    #[arg(long, value_name = "REGEX=DTYPE", value_parser = tensor_type)]
    pub(crate) tensor_type: Vec<TensorType>,
    /// Take layers out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) prune_layers: Vec<u64>,
    /// Write as many shards as are read, with the same tensors in each
    #[arg(long)]
    pub(crate) keep_split: bool,
    /// Give a key another value: the type is int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = setting)]
    pub(crate) override_kv: Vec<MetadataSetting>,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

fn file_type(text: &str) -> Result<FileType, String> {
    FileType::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = FILE_TYPES.iter().map(|row| row.name).collect();
        format!("not one of {}", names.join(", "))
    })
}

/// What an option's value says, or the library's word on why it says nothing.
fn told<T>(value: weighbridge::Result<T>) -> Result<T, String> {
    value.map_err(|error| match error.advice() {
        Some(advice) => format!("{error} ({advice})"),
        None => error.to_string(),
    })
}

fn mlx(text: &str) -> Result<mlx_lm::MlxOptions, String> {
    let mut parts = text.split(',').map(str::trim);
    let number = |part: Option<&str>| match part {
        None | Some("") => Ok(None),
        Some(part) => part.parse().map(Some).map_err(|_| format!("\"{part}\" is no number")),
    };
    let (bits, group_size) = (number(parts.next())?, number(parts.next())?);
    let mode = match parts.next() {
        None => mlx_lm::MlxMode::default(),
        Some(name) => mlx_lm::MlxMode::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = mlx_lm::MODES.iter().map(|row| row.name).collect();
            format!("\"{name}\" is not one of {}", names.join(", "))
        })?,
    };
    told(mlx_lm::MlxQuantization::new(mode, group_size, bits))?;
    Ok(mlx_lm::MlxOptions { mode, group_size, bits, ..mlx_lm::MlxOptions::default() })
}

fn mix(text: &str) -> Result<&'static mlx_lm::Mix, String> {
    mlx_lm::Mix::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = mlx_lm::MIXES.iter().map(|mix| mix.name).collect();
        format!("not one of {}", names.join(", "))
    })
}

fn dtype(text: &str) -> Result<DType, String> {
    told(target(text))
}

fn tensor_type(text: &str) -> Result<TensorType, String> {
    told(TensorType::parse(text))
}

fn setting(text: &str) -> Result<MetadataSetting, String> {
    told(MetadataSetting::parse(text))
}

/// The containers that can be written, by their names.
fn writable() -> impl TypedValueParser<Value = &'static Container> {
    let writable = CONTAINERS.iter().filter_map(|row| Some((row.name, row.written_as()?)));
    let values = writable.map(|(name, summary)| PossibleValue::new(name).help(summary));
    PossibleValuesParser::new(values).try_map(|name| {
        let found = CONTAINERS.iter().copied().find(|row| row.name == name);
        found.ok_or("no such container")
    })
}

#[derive(Args, Debug)]
#[command(
    after_help = "Quantized tensors keep their codes wherever the container has a packing that says the same values;
--dry-run says where it has none, and --lossless makes that an error.

Examples:
  weighbridge convert ./Qwen3-8B Qwen3-8B.gguf --to gguf
  weighbridge convert model-Q4_K_M.gguf ./model-mlx --to mlx --dry-run
  weighbridge convert model-Q8_0.gguf ./model --to safetensors --dtype BF16
  weighbridge convert ./model-4bit model.gguf --to gguf --lossless
  weighbridge convert ./model-4bit qwen3:4bit --to ollama"
)]
pub(crate) struct Convert {
    /// A model of any container
    pub(crate) src: PathBuf,
    /// The file or directory to write; for Ollama, the model's name
    pub(crate) dst: PathBuf,
    /// What to write
    #[arg(long, value_name = "TO", value_parser = writable())]
    pub(crate) to: &'static Container,
    /// The dtype of all matrices: F32, F16, BF16, and for GGUF any that nothing more has to be known for
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    pub(crate) dtype: Option<DType>,
    /// Make it an error if any value would be lost
    #[arg(long)]
    pub(crate) lossless: bool,
    /// Bytes of tensors in a file of safetensors, at most
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_shard_size: Option<u64>,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Where Ollama's models lie.
#[derive(Args, Debug)]
pub(crate) struct Store {
    /// Ollama's store to write to [default: OLLAMA_MODELS, else ~/.ollama/models]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl Store {
    /// The manifest of a model.
    pub(crate) fn place(&self, name: &str) -> weighbridge::Result<PathBuf> {
        ollama::place(name, self.store.as_deref())
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "A model of tensors is laid out as `ollama create --experimental` does it: a blob for each tensor, of
the type that Ollama would choose. A GGUF model that is not quantized is one blob, its file as it is.
What was quantized before keeps its codes where Ollama has a name for them. No server need run.

Examples:
  weighbridge create qwen3:mine ./Qwen3-8B
  weighbridge create qwen3:int4 ./Qwen3-8B --quantize int4
  weighbridge create qwen3:q4 Qwen3-8B-Q4_K_M.gguf
  weighbridge create me/qwen3:nvfp4 ./Qwen3-8B --quantize nvfp4 --dry-run"
)]
pub(crate) struct Create {
    /// What to call it: [HOST/][NAMESPACE/]MODEL[:TAG]
    pub(crate) name: String,
    /// A model of any container
    pub(crate) src: PathBuf,
    /// The type of its matrices: int4, int8, nvfp4, mxfp4 or mxfp8
    #[arg(long, value_name = "TYPE", value_parser = quant_type)]
    pub(crate) quantize: Option<QuantType>,
    #[command(flatten)]
    pub(crate) whole: Whole,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

fn quant_type(text: &str) -> Result<QuantType, String> {
    QuantType::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = TYPES.iter().map(|row| row.name).collect();
        format!("not one of {}", names.join(", "))
    })
}
