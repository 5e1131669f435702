//! Verbs that run a model.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weighbridge::DType;

use super::names::kv;
use super::values::{Unit, limit, tokens};
use super::{DeviceName, Open};

/// Options of running a model.
#[derive(Args, Clone, Debug)]
pub(crate) struct Runner {
    /// Device to run on: cpu, gpu, gpu:NUMBER or gpu:NAME; see `list devices`
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub(crate) device: DeviceName,
    /// Run a model of an unknown family as one of this family, such as llama: it computes what the family
    /// does, on the tensors that are named by structure
    #[arg(long, value_name = "FAMILY")]
    pub(crate) assume: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "weighbridge run <MODEL> <TEXT>
       weighbridge run <COMMAND> [OPTIONS] ...",
    after_help = "`run MODEL TEXT` is `run generate MODEL --chat --prompt TEXT`: it answers the text if the model has a chat template,
and continues it otherwise. The temperature and other settings are options of `run generate`.

The decoder is exact but slow: it is meant for trying a model and for testing a file, not for daily use.

Examples:
  weighbridge run llama3.2 'Why is the sky dark?'        # as `ollama run`
  weighbridge run generate model.gguf --prompt 'Once upon a time'
  weighbridge run tokens model.gguf --text 'Once upon a time'
  weighbridge run embed ./bge-small-en --text 'a weighbridge'
  weighbridge run logits model.gguf --ids 1,450,4996"
)]
pub(crate) struct Run {
    #[command(subcommand)]
    pub(crate) verb: RunVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunVerb {
    /// Print the text that continues a prompt
    Generate(Generate),
    /// Print a vector for each text
    Embed(Embed),
    /// Show or write the logits of tokens
    Logits(Logits),
    /// Print the tokens of a text, the text of tokens, or the special tokens
    Tokens(Tokens),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge run logits model.gguf --ids 1,450,4996
  weighbridge run logits ./Qwen3-0.6B --ids 9707,11 -o logits.npy
  weighbridge run logits ./bge-small-en --ids 101,7592,102 -o hidden.npy
  weighbridge run logits ./bert-base --ids 101,103,102 --masked-head --json
  weighbridge run logits ./whisper-tiny --features mel.npy --ids 50258,50259
  weighbridge run logits ./flan-t5-small --encoder-ids 8774,296,1 --ids 0")]
pub(crate) struct Logits {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// The tokens, as numbers
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    /// Write the logits of all positions as a NumPy array file of f32, [tokens, vocabulary]; for text
    /// encoders, which have no such head, the hidden states
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// With -o: replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    /// Encoders of text: the text that each token belongs to, 0 or 1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) token_type_ids: Option<Vec<u32>>,
    /// Encoders of text: the logits of the head for masked words instead of the hidden states
    #[arg(long)]
    pub(crate) masked_head: bool,
    /// Whisper: the spectrum, a NumPy array file of f32, [bands, frames]
    #[arg(long, value_name = "FILE")]
    pub(crate) features: Option<PathBuf>,
    /// T5: the tokens that the encoder reads; --ids are those of the decoder
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) encoder_ids: Vec<u32>,
    #[command(flatten)]
    pub(crate) runner: Runner,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge run generate model.gguf --prompt 'Once upon a time'
  weighbridge run generate ./Qwen3-0.6B --ids 9707,11 --print-ids
  weighbridge run generate llama3.2 --chat --prompt 'Why is the sky dark?'
  weighbridge run generate llama3.2 --prompt 'Once' --temp 0.8 --seed 7
  weighbridge run generate ./whisper-tiny --features mel.npy --ids 50258,50259
  weighbridge run generate ./flan-t5-small --prompt 'translate to German: a door'

A model of Ollama's store runs with the parameters of its Modelfile that are options here, and with --chat with its
SYSTEM and MESSAGE; a note names what is not applied. A prompt `-` is read from standard input.")]
pub(crate) struct Generate {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// The text to continue; tokens such as <|im_start|> are recognized in it. T5: the text that the
    /// encoder reads
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "ids",
        required_unless_present_any = ["ids", "encoder_ids"])]
    pub(crate) prompt: Option<String>,
    /// The tokens to continue, as numbers
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) ids: Vec<u32>,
    /// Answer the prompt as a message of a conversation, formatted by the model's own chat template. A model
    /// without one continues the prompt
    #[arg(long, conflicts_with = "ids", overrides_with = "no_chat")]
    pub(crate) chat: bool,
    /// Continue the prompt as it is
    #[arg(long, hide = true)]
    pub(crate) no_chat: bool,
    /// The system message of a conversation, which says how to answer
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["ids", "no_chat"])]
    pub(crate) system: Option<String>,
    /// Stop after this many tokens, 128 if nothing else is said; -1: at the end of the text, or of the
    /// model's context
    #[arg(long, value_name = "N", value_parser = limit, allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<u64>,
    /// Stop before this text; give the option again for another
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Sampling temperature; 0, as without the option, always picks the most likely token
    #[arg(long, value_name = "T", value_parser = parse_not_negative)]
    pub(crate) temp: Option<f32>,
    /// Draw from the K most likely tokens; 0 is all
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,
    /// Nucleus sampling: draw from the smallest set of tokens with total probability P
    #[arg(long, value_name = "P", value_parser = parse_share)]
    pub(crate) top_p: Option<f32>,
    /// Random seed, 0 without the option; -1 is another one each time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<i64>,
    /// Continue after end-of-text tokens
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Print the numbers of tokens instead of their text
    #[arg(long)]
    pub(crate) print_ids: bool,
    /// Whisper: the spectrum, a NumPy array file of f32, [bands, frames]
    #[arg(long, value_name = "FILE")]
    pub(crate) features: Option<PathBuf>,
    /// T5: the tokens that the encoder reads; --ids are the first ones of the answer
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "prompt")]
    pub(crate) encoder_ids: Vec<u32>,
    #[command(flatten)]
    pub(crate) runner: Runner,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(
    after_help = "With several texts the table has the cosine similarity of each to the first. Models that expect
a task in front of a text (\"query: \", \"search_document: \") get it as part of --text.

Examples:
  weighbridge run embed ./bge-small-en --text 'a bridge' --text 'a scale'
  weighbridge run embed Qwen3-Embedding.gguf --text 'a bridge' -o vectors.npy
  weighbridge run embed ./bert-base --ids 101,7592,102 --pooling first"
)]
pub(crate) struct Embed {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// A text to embed; give the option again for another text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, required_unless_present = "ids")]
    pub(crate) text: Vec<String>,
    /// A text as token numbers, for models without a tokenizer
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "text")]
    pub(crate) ids: Vec<u32>,
    /// The way in which hidden states become one vector. The default is what the model states; without that, mean
    /// for models whose tokens see the whole text, and last for others
    #[arg(long, value_name = "POOLING")]
    pub(crate) pooling: Option<PoolingName>,
    /// Keep the length of vectors; without this they have length 1
    #[arg(long)]
    pub(crate) no_normalize: bool,
    /// Write the vectors as a NumPy array file of f32, [texts, dimensions]
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// With -o: replace an existing file
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) runner: Runner,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(
    after_help = "BYTES is the range of the text that a token stands for, in bytes and in whole characters; a token
that the tokenizer puts around a text has an empty range. Texts are split with the model's own tokenizer,
and special tokens in them are recognized.

Examples:
  weighbridge run tokens model.gguf             # the special tokens
  weighbridge run tokens model.gguf --text 'Once upon a time'
  weighbridge run tokens ./Qwen3-0.6B --text '<|im_start|>user' --json
  weighbridge run tokens llama3.2 --ids 12805,5304,264"
)]
pub(crate) struct Tokens {
    /// A file, any shard of a split GGUF, a directory, or the name of an Ollama model
    pub(crate) path: PathBuf,
    /// A text to split into tokens; give the option again for another text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Vec<String>,
    /// Print the numbers of the tokens alone
    #[arg(long, requires = "text", conflicts_with = "json")]
    pub(crate) print_ids: bool,
    /// Leave out the tokens that the tokenizer puts around a text
    #[arg(long, requires = "text")]
    pub(crate) no_bos: bool,
    /// Tokens as numbers, to print their text; without texts and numbers, the special tokens are listed
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "text")]
    pub(crate) ids: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PoolingName {
    /// The mean over all tokens
    Mean,
    /// The state of the first token
    #[value(alias = "cls")]
    First,
    /// The state of the last token
    Last,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Weights are counted as they are stored. The cache is sized as in llama.cpp: the full context
for layers of full attention, the window for sliding windows, the latent for latent attention,
nothing for layers that share keys and values, a state of fixed size for linear attention,
state-space layers and short convolutions. The buffers are an estimate; programs differ in what they compute at a time.
The cache of an unknown architecture follows from the usual keys of its config. Without them it is
unknown, and only the weights are compared with --room.

--room says whether the model fits with the context of --context. If not, it says what would: a shorter
context, fewer layers, or a smaller type. Types that need an importance matrix, or a model trained for them, are
not suggested.

Examples:
  weighbridge memory Qwen3-8B-Q4_K_M.gguf
  weighbridge memory llama3.2 --context 32k --kv q8_0
  weighbridge memory hf://Qwen/Qwen3-8B --room 8GiB --room 16GiB
  weighbridge memory model.gguf --device gpu0=8GiB --device gpu1=12GiB"
)]
pub(crate) struct Memory {
    /// Files, shards of a split GGUF, directories, names of Ollama models, or models on a server
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Tokens that the cache holds, such as 8192 or 32k. The default is what the model was trained for
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,
    /// Tokens that are computed at a time
    #[arg(long, value_name = "TOKENS", default_value = "512", value_parser = tokens)]
    pub(crate) batch: u64,
    /// The dtype of keys and values in the cache: llama.cpp's names such as q8_0, or vLLM's such as fp8
    #[arg(long, value_name = "DTYPE", default_value = "F16", value_parser = kv(), hide_possible_values = true)]
    pub(crate) kv: DType,
    /// Say what fits into this much memory, such as 24GiB; give the option again for another
    /// device
    #[arg(long, value_name = "SIZE", value_parser = parse_room)]
    pub(crate) room: Vec<Room>,
    /// Divide the layers among devices of these sizes, such as gpu0=24GiB; give the option again for
    /// another device. The devices take the last layers, in the order given; the host takes those that
    /// do not fit
    #[arg(long, value_name = "NAME=SIZE", value_parser = parse_device)]
    pub(crate) device: Vec<SizedDevice>,
    /// Show also what each layer takes
    #[arg(long)]
    pub(crate) layers: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Perplexity and KL divergence are defined as in llama.cpp's llama-perplexity: each window of
tokens is run from its start, and positions in its second half count.

Examples:
  weighbridge quality ./Qwen3-0.6B Qwen3-0.6B-Q4_K_M.gguf
  weighbridge quality model.gguf                                # its perplexity
  weighbridge quality ./Qwen3 Qwen3-Q8_0.gguf Qwen3-Q4_K_M.gguf  # and another
  weighbridge quality a.gguf b.gguf --text wiki.test.raw --max-kl 0.01"
)]
pub(crate) struct Quality {
    /// One model, for its perplexity; or several with one vocabulary, of which the others are compared with
    /// the first. Their containers may differ
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The text that the models predict; without it, a text of about 2,000 tokens that is part of the
    /// program
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    pub(crate) text: Option<PathBuf>,
    /// The tokens that the models predict, as numbers: for models without a tokenizer
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) ids: Vec<u32>,
    /// Use only this many tokens of the text
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
    /// Tokens in a window; without it 512, or the context of the first model if that is shorter
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub(crate) context: Option<u64>,
    /// End with status 1 if the mean KL divergence of a model is above this many nats
    #[arg(long, value_name = "NATS", value_parser = parse_not_negative)]
    pub(crate) max_kl: Option<f32>,
    #[command(flatten)]
    pub(crate) runner: Runner,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: Open,
}

impl Quality {
    /// The models over the built-in text, with the usual settings.
    pub(crate) fn of(paths: Vec<PathBuf>, open: Open) -> Self {
        let (ids, tokens, context) = (Vec::new(), None, None);
        let (max_kl, runner) = (None, Runner { device: DeviceName::Cpu, assume: None });
        Self { paths, text: None, ids, tokens, context, max_kl, runner, json: false, open }
    }
}

/// An amount of memory, as the user wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    unit: Unit,
}

impl Room {
    /// An amount in the unit that the user wrote.
    pub(crate) fn amount(&self, bytes: u64) -> String {
        let (name, _, factor) = self.unit;
        match factor {
            1 => crate::print::bytes(bytes),
            _ if bytes.is_multiple_of(factor) => format!("{} {name}", bytes / factor),
            _ => format!("{:.1} {name}", bytes as f64 / factor as f64),
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.amount(self.bytes))
    }
}

/// A device, and how much memory it has.
#[derive(Clone, Debug)]
pub(crate) struct SizedDevice {
    pub(crate) name: String,
    pub(crate) room: Room,
}

/// Parses an amount of memory.
fn parse_room(text: &str) -> Result<Room, String> {
    let (bytes, unit) = super::values::size_with_unit(text)?;
    Ok(Room { bytes, unit })
}

fn parse_device(text: &str) -> Result<SizedDevice, String> {
    let (name, size) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "write a name and a size, as in gpu0=24GiB".to_owned())?;
    Ok(SizedDevice { name: name.to_owned(), room: parse_room(size)? })
}

fn parse_share(text: &str) -> Result<f32, String> {
    let share = text.parse().ok().filter(|share: &f32| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "write a number above 0 and at most 1, as in 0.9".to_owned())
}

fn parse_not_negative(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|n: &f32| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| "write a number that is not negative, as in 0.8".to_owned())
}
