//! Words that stand for others: earlier names of verbs, and the verbs and options of other programs.
#![allow(clippy::result_large_err, reason = "an error ends the program")]

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::help;
use super::names::float_name;
use super::order;
use super::program::{Program, verb_place, word_at};
use crate::failure::{Failure, nearest_entry, note};
use crate::spelling;

/// The meaning of a word that is no verb, or no option, of this program.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// A verb that has moved: its words now. It works for one more release, and says so.
    Moved(&'static str),
    /// The same as these words, here.
    Is(&'static str),
    /// An option whose value is an argument here.
    Value,
    /// An option that has no value, and that nothing here needs.
    Needless,
    /// Nothing here is the same: what to type instead.
    Says(&'static str),
}
use Meaning::{Is, Moved, Needless, Says, Value};

const SERVES: &str = "Weighbridge serves no models to other programs, as `ollama serve`, `llama-server` and \
    `mlx_lm.server` do; `weighbridge view MODEL` shows one in the browser";
const DELETES: &str = "Weighbridge deletes no models: use `ollama rm` or `hf cache rm`; `weighbridge models` shows where \
    each is, `weighbridge models --duplicates` which are the same";
const UPLOADS: &str = "Weighbridge uploads to no hub: use `hf upload` or `ollama push`";
const LOGIN: &str = "Weighbridge needs no login: set HF_TOKEN, or use `hf auth login`, for models of the hub that are not public";
const TRAINS: &str =
    "Weighbridge does not train; `weighbridge convert MODEL DST --lora ADAPTER` merges an adapter";
const CALIBRATES: &str = "Weighbridge quantizes without calibration: `weighbridge quantize MODEL Q4_K_M` for GGUF, \
    `weighbridge quantize MODEL --type mlx4` for MLX, or with `--imatrix FILE` of llama-imatrix";
const BITS: &str = "the type has them: `--type mlx4` is 4 bits, `mlx4,64` also sets the group size, `mlx4,32,mxfp4` \
    also the mode";
const RECIPES: &str = "a recipe of mergekit's leaves out layers and mixes models: `weighbridge merge RECIPE.yml DST`; \
    `weighbridge help merge` has one";
const SHARDS: &str = "`--max-shard-size 4G` or `--max-tensors 128` limits each shard";
const PICTURES: &str = "`weighbridge view MODEL` draws it in the browser; `weighbridge inspect MODEL TENSOR` prints a histogram";
const ARRAYS: &str = "`weighbridge dump MODEL TENSOR -o FILE.npy` writes an array of NumPy";
const TOWERS: &str = "`--leave-out 'vision*'` leaves out tensors by name; a GGUF file of a language model has no tower";
const TOKENS: &str = "`weighbridge run tokens MODEL` lists the special tokens, with `--text TEXT` those of a text; \
    `convert MODEL DIR --to safetensors` writes tokenizer.json";
const CONTAINERS: &str = "`--to mlx`, `--to gguf` or `--to safetensors` names the container";
const OFFICIAL: &str = "the checksum is a SHA-256: `weighbridge verify FILE --sha256 HEX`";
const EDITS: &str = "`weighbridge meta set FILE KEY=VALUE` sets a key, KEY=@FILE to the content of a file; `weighbridge \
    meta get FILE` prints all";
const LARGEST: &str = "`--sort size` puts the largest first; `| head` shortens what is printed";
const LAYERS: &str = "leave it out, or run on a GPU with `--device gpu`";

/// Verbs: the words, separated by `|`, and what they mean.
const VERBS: &[(&str, Meaning)] = &[
    // Earlier names.
    ("align", Moved("merge --align 64")),
    ("compare", Moved("quality")),
    ("config", Moved("inspect --config")),
    ("embed", Moved("run embed")),
    ("finish", Moved("job finish")),
    ("generate", Moved("run generate")),
    ("list models", Moved("models")),
    ("load", Moved("bench")),
    ("logits", Moved("run logits")),
    ("plan", Moved("job plan")),
    ("report", Moved("view")),
    ("slice", Moved("job run")),
    ("status", Moved("job status")),
    ("tokens", Moved("run tokens")),
    // Other programs.
    (
        "info|summary|describe|details|read|open|header|headers|tensors|layers|tree|size|params|parameters|count|peek|stat|print|cat|head|gguf",
        Is("inspect"),
    ),
    ("gguf-dump", Is("inspect --metadata")),
    ("stats|statistics", Is("inspect --stats")),
    ("nan|nans|check-nan|check-nans|find-nan", Is("verify --deep")),
    (
        "metadata|kv|keys|meta list|meta ls|meta show|meta print|meta dump|meta export|meta json|list metadata|list keys",
        Is("meta get"),
    ),
    ("meta import|meta copy|meta merge", Says(EDITS)),
    ("meta remove|meta delete|meta del|meta unset", Is("meta rm")),
    ("meta add|meta edit|meta update|meta change", Is("meta set")),
    ("list tensors|list layers", Is("inspect")),
    ("set|edit|gguf-set-metadata", Is("meta set")),
    ("gguf-editor-gui", Says(EDITS)),
    ("ui|gui|web|browse|explore|viewer|netron", Is("view")),
    ("cmp|delta|same|equal|equals", Is("diff")),
    ("extract|tensor|values", Is("dump")),
    ("ppl|perplexity|kl|kld|kl-divergence|eval|evaluate", Is("quality")),
    ("vram|ram|mem|fit|fits|estimate|gguf-parser", Is("memory")),
    ("cache verify", Is("verify")),
    ("check|validate|lint|fsck|doctor|test", Is("verify")),
    ("gguf-hash", Is("hash")),
    (
        "sha256|sha256sum|shasum|checksum|digest",
        Says(
            "`weighbridge verify FILE --sha256 HEX` compares a file with a digest; `weighbridge hash MODEL` prints that of \
             each tensor",
        ),
    ),
    ("convert-hf-to-gguf|hf-to-gguf|convert-lora|convert-lora-to-gguf|export", Is("convert")),
    ("to-gguf", Is("convert --to gguf")),
    ("to-mlx", Is("convert --to mlx")),
    ("to-safetensors|to-hf", Is("convert --to safetensors")),
    ("quant|quantise", Is("quantize")),
    ("requant|requantize|requantise", Is("quantize --allow-requantize")),
    (
        "gguf-new-metadata",
        Says("`weighbridge meta set SRC name='My model' -o DST` writes a changed copy"),
    ),
    (
        "gguf-convert-endian",
        Says(
            "Weighbridge reads both byte orders, and writes little-endian files: `weighbridge convert SRC DST`",
        ),
    ),
    ("gguf-split|shard|reshard", Is("split")),
    ("join|unsplit|unshard|concat|combine", Is("merge")),
    ("dedupe|dedup|duplicates", Is("models --duplicates")),
    (
        "license",
        Says("`weighbridge inspect FILE` shows it; `weighbridge meta get FILE license` prints it"),
    ),
    ("tokenizer|vocab|vocabulary", Says(TOKENS)),
    ("special-tokens", Is("run tokens")),
    ("download|fetch|get|clone|snapshot-download|hf-hub-download", Is("pull")),
    ("cache rm|cache delete|cache prune|delete-cache", Says(DELETES)),
    (
        "cache ls|cache list|cache scan|cache|scan|scan-cache|manage|ls|du|models ls|models list",
        Is("models"),
    ),
    ("import", Is("create")),
    ("chat|ask", Is("run generate --chat")),
    ("gen|complete|infer|prompt|sample|cli|simple", Is("run generate")),
    ("tokenize|encode|count-tokens", Is("run tokens")),
    (
        "detokenize|decode",
        Says("`weighbridge run tokens MODEL --ids 1,2,3` prints the text of tokens"),
    ),
    ("embedding|embeddings", Is("run embed")),
    ("benchmark|time", Is("bench")),
    ("dtypes", Is("list dtypes")),
    ("types", Is("list types")),
    ("architectures|families|list families|list archs", Is("list architectures")),
    ("containers|formats", Is("list containers")),
    ("devices", Is("list devices")),
    ("completion", Is("completions")),
    ("version", Is("--version")),
    ("serve|server|start", Says(SERVES)),
    ("rm|remove|delete|uninstall", Says(DELETES)),
    ("average|mean|mix|prune|slerp|ties|dare|blend|surgery", Says(RECIPES)),
    ("hist|histogram|plot|heatmap|html", Says(PICTURES)),
    ("numpy|npy|npz", Says(ARRAYS)),
    ("modelfile", Says("`weighbridge show MODEL --modelfile` prints it")),
    (
        "update|upgrade",
        Says("Weighbridge replaces no programs: install it again, as its README says"),
    ),
    (
        "cp|copy|mv|rename",
        Says(
            "`weighbridge create NEW OLD` gives a model of Ollama's store another name; other models are files: use `cp -r`",
        ),
    ),
    ("push|upload|upload-large-folder|repo|repos", Says(UPLOADS)),
    ("login|logout|auth|whoami|signin|signout", Says(LOGIN)),
    (
        "ps|stop",
        Says(
            "Weighbridge keeps no model running; `weighbridge models` lists those on this machine",
        ),
    ),
    (
        "search|find",
        Says("Weighbridge does not search the hub; `weighbridge pull ORG/NAME` downloads a model"),
    ),
    ("train|finetune|lora", Says(TRAINS)),
    (
        "repair|fix|recover",
        Says(
            "Weighbridge repairs no files: `weighbridge verify FILE` says what is wrong, `weighbridge pull` fetches again",
        ),
    ),
    ("export-lora", Is("convert")),
    ("template|chat-template", Says("`weighbridge meta get FILE chat_template` prints it")),
    (
        "mergekit-extract-lora|extract-lora",
        Says(
            "`weighbridge convert TUNED ADAPTER --lora-from BASE --rank 16` writes the difference as an adapter",
        ),
    ),
    ("fuse|merge-lora|mergekit|mergekit-yaml", Is("merge")),
    (
        "imatrix",
        Says(
            "Weighbridge computes no importance matrix: `weighbridge quantize MODEL TYPE --imatrix FILE` uses that of llama-imatrix",
        ),
    ),
    ("gptq|awq|dwq|exl2|exl3|dynamic-quant", Says(CALIBRATES)),
    ("dequantize|dequant", Is("convert --dtype F16")),
    ("cast", Is("convert")),
    ("mlx-lm.convert", Is("convert --to mlx")),
];

/// Options whose value is a model, or a tensor, which are arguments here.
const MODELS: &str = "-m|--model|--model-path|-i|--in|--input|--src|--source|--from|--path|--dir|--folder|--hf-path|-hf|-hfr|--hf-repo|\
    --repo|--repo-id|--name|--tensor|--tensor-name";

/// Options whose value is what is written.
const OUTPUTS: &str = "-o|--out|--output|--outfile|--output-file|--output-dir|--outdir|--out-path|--dest|--save-path|--mlx-path";

/// Options: the verb, the option's spellings separated by `|`, and what they mean.
const OPTIONS: &[(&str, &str, Meaning)] = &[
    ("bench", "-t", Is("--threads")),
    ("bench", "-ngl|--n-gpu-layers|--gpu-layers", Says(LAYERS)),
    (
        "bench",
        "-p|-n|-pg|--n-prompt|--n-gen",
        Says("it times loading; `weighbridge run generate` prints tokens a second"),
    ),
    ("convert", "--outtype", Is("--dtype")),
    ("convert", "--format", Is("--to")),
    ("convert", "--from|--input-format", Says("leave it out: the container of SRC is detected")),
    ("convert", "--mlx|--gguf|--safetensors|--hf", Says(CONTAINERS)),
    ("convert", "--use-temp-file|--no-lazy|--no-tensor-first-split", Needless),
    ("convert", "--vocab-only", Says("no file of a vocabulary alone is written")),
    ("convert", "--bigendian|--big-endian", Says("leave it out: files are written little-endian")),
    ("convert", "--print-supported-models", Says("`weighbridge list families` lists the families")),
    ("convert", "--remote", Says("`hf://ORG/NAME` as SRC is a model on the hub")),
    ("convert", "--base-model", Is("--base")),
    ("convert", "--adapter|--adapter-path", Is("--lora")),
    ("convert", "--upload-repo", Says(UPLOADS)),
    ("convert", "--exclude|--ignore|--skip", Is("--leave-out")),
    ("convert", "--no-vision|--text-only|--language-only", Says(TOWERS)),
    ("convert", "--split-max-size", Is("--max-shard-size")),
    ("convert", "-d|--dequantize", Says("`--dtype F16` or `--dtype BF16` decodes")),
    (
        "convert",
        "-q|--quantize|--q-bits|--q-group-size|--q-mode|--quant-predicate|--bits",
        Says(
            "`weighbridge quantize SRC DST --type mlx4` quantizes for MLX, `mlx4,64` sets the group size; \
              `--type Q4_K_M` writes GGUF",
        ),
    ),
    (
        "convert",
        "--type|--ftype|--quantization",
        Says(
            "`weighbridge quantize SRC DST Q4_K_M` writes a file type; `convert --dtype DTYPE` sets the dtype of all matrices",
        ),
    ),
    (
        "convert",
        "--model-name|--metadata",
        Says("leave it out, then `weighbridge meta set FILE name='My model'`"),
    ),
    ("diff", "--atol|--tol|--eps", Is("--tolerance")),
    ("diff", "--layers|--per-layer|--layer", Is("--by-layer")),
    ("diff", "-v|--verbose|--debug", Is("--all")),
    ("diff", "--tensor|--name", Is("--filter")),
    (
        "diff",
        "--metadata|--meta|--kv|--keys|--config",
        Says(
            "`weighbridge meta get FILE > FILE.txt` of both, then compare the texts: `diff` compares tensors",
        ),
    ),
    (
        "diff",
        "-q|--quiet|--brief|--name-only",
        Says("the exit status says it: 0 for equal models, 1 for different ones"),
    ),
    ("diff", "--top|-n|--worst", Says("`--sort relative` puts the largest differences first")),
    ("dump", "--format", Is("--as")),
    ("dump", "--npy|--numpy", Says(ARRAYS)),
    ("dump", "--slice|--range|--row", Is("--rows")),
    ("dump", "-n|--head|--limit", Says("`--rows 0..4` writes some rows")),
    ("hash", "--sha256|--all", Needless),
    ("hash", "--no-layer", Says("`sha256sum FILE` prints the digest of a whole file")),
    ("hash", "--xxh64|--sha1|--md5|--uuid", Says(OFFICIAL)),
    ("inspect", "--json-array", Is("--json")),
    ("inspect", "--format|--output-format|--markdown", Says("`--json` prints JSON")),
    ("inspect", "-v|--verbose|--debug|--tensors|--list-tensors|-l", Is("--all")),
    ("inspect", "--top|-n|--limit|--largest|--biggest", Says(LARGEST)),
    (
        "inspect",
        "--layer|--layers|--block",
        Says("`--filter 'layers.0.*'` chooses the tensors of a layer"),
    ),
    ("inspect", "--meta|--kv|--keys", Is("--metadata")),
    ("inspect", "--vocab|--tokens|--tokenizer|--special-tokens", Says(TOKENS)),
    (
        "inspect",
        "--hash|--sha256|--checksum",
        Says("`weighbridge hash MODEL` prints the SHA-256 of each tensor"),
    ),
    (
        "inspect",
        "--outliers|--histogram|--values",
        Says("`inspect PATH TENSOR` shows them without an option"),
    ),
    ("inspect", "--chat-template|--template", Says("`meta get FILE chat_template` prints it")),
    ("inspect", "--no-tensors", Says("`weighbridge meta get FILE` prints the metadata alone")),
    (
        "memory",
        "--quant|--quantization|--type|--dtype",
        Says("`weighbridge quantize MODEL --list-types` shows the size in each type"),
    ),
    (
        "memory",
        "-c|--ctx|--ctx-size|--num-ctx|--n-ctx|--context-length|--tokens|--max-tokens|--max-model-len|--seq-len",
        Is("--context"),
    ),
    ("memory", "--ram|--vram|--mem|--memory|--gpu|--gpu-memory|--budget|--limit", Is("--room")),
    (
        "memory",
        "--gpus|-ts|--tensor-split|-tp|--tp|--tensor-parallel-size",
        Says("`--device gpu0=24GiB --device gpu1=24GiB` divides the layers among GPUs"),
    ),
    ("memory", "-b|--batch-size|-ub|--ubatch-size", Is("--batch")),
    ("memory", "-ctk|--cache-type-k|--kv-type", Is("--kv")),
    (
        "memory",
        "--kv-bits|--kv-group-size",
        Says("`--kv q8_0` is as large as 8 bits in groups of 64, `--kv q4_0` as 4 bits"),
    ),
    ("memory", "--kv-cache-dtype", Is("--kv")),
    ("memory", "-ctv|--cache-type-v", Says("`--kv DTYPE` sets the dtype of keys and values")),
    ("memory", "-ngl|--n-gpu-layers|--gpu-layers", Says("`--room SIZE` says how many layers fit")),
    ("merge", "--merge", Needless),
    ("merge", "--method|--merge-method|--weight|--weights|--alpha|--density", Says(RECIPES)),
    ("meta get", "-a|--all", Needless),
    ("merge", "--base|--base-model|--lora|--adapter|--adapter-path", Value),
    (
        "merge",
        "--cuda|--lazy-unpickle|--copy-tokenizer|--allow-crimes|--low-cpu-memory|--multi-gpu|--read-to-gpu|--write-model-card",
        Needless,
    ),
    (
        "merge",
        "--out-shard-size",
        Says("leave it out, then `weighbridge split MERGED DST --max-shard-size 4G`"),
    ),
    (
        "merge",
        "--dequantize|--de-quantize|--export-gguf",
        Says(
            "`weighbridge convert MODEL DST.gguf --lora ADAPTER` merges into GGUF; `--dtype F16` decodes",
        ),
    ),
    ("meta set", "--type", Says("the type stands before the value, as in KEY=u32:3")),
    ("models", "--limit|--top|-n|--reverse|-r", Says(LARGEST)),
    ("models", "--scan|-l|--long|-a|--all", Needless),
    ("models", "--delete|--rm", Says(DELETES)),
    ("models", "--pattern", Is("--filter")),
    ("pull", "--local-dir", Is("-o")),
    ("pull", "--branch|--rev|-r", Is("--revision")),
    ("pull", "--quant|--quantization|--type", Says("the name has it: `ORG/NAME:Q4_K_M`")),
    ("pull", "--max-workers", Is("--jobs")),
    ("pull", "-q|--quiet", Needless),
    ("pull", "--resume-download", Needless),
    (
        "pull",
        "--force-download",
        Says("delete the files first: existing ones are not downloaded again"),
    ),
    ("pull", "--token", Says("set HF_TOKEN in the environment")),
    (
        "pull",
        "--cache-dir",
        Says("set HF_HUB_CACHE in the environment, or `-o FOLDER` for plain files"),
    ),
    ("pull", "--repo-type", Says("leave it out: only repositories of models are downloaded")),
    ("quality", "-f|--file", Is("--text")),
    ("quality", "-c|--ctx-size", Is("--context")),
    ("quality", "--chunks", Says("`--tokens N` limits the tokens of the text")),
    ("quality", "--kl-divergence", Needless),
    ("quality", "-n|--n-tokens|--limit", Is("--tokens")),
    (
        "quality",
        "--dataset|--data|--corpus|--tasks",
        Says("`--text FILE` measures on a text of your own; tasks such as MMLU are not run"),
    ),
    (
        "quality",
        "--kl-divergence-base|--base|--against|--reference|--ref|--original|--baseline",
        Says("give the original model first: `weighbridge quality ORIGINAL MODEL`"),
    ),
    ("quality", "-ngl|--n-gpu-layers|--gpu-layers", Says(LAYERS)),
    ("quantize", "--outtype|--ftype|--quantization|--quant|--quant-type|--qtype", Is("--type")),
    (
        "quantize",
        "--to|--format",
        Says("the type says it: `quantize SRC DST Q4_K_M` writes GGUF, `--type mlx4` MLX"),
    ),
    ("quantize", "--types|--help-types|--list", Is("--list-types")),
    (
        "quantize",
        "--dtype",
        Says("the type says it; `weighbridge convert SRC DST --dtype F16` does not quantize"),
    ),
    ("quantize", "--upload-repo", Says(UPLOADS)),
    ("quantize", "--calibration-data|--calib|--dataset|--data|--data-path", Says(CALIBRATES)),
    ("quantize", "-q|--quantize|--q-bits|--q-group-size|--q-mode|--bits|--group-size", Says(BITS)),
    ("run embed", "-p|--prompt", Is("--text")),
    ("run generate", "-p", Is("--prompt")),
    ("run generate", "-n|--n-predict|--predict|--num-predict|--max-new-tokens", Is("--max-tokens")),
    ("run generate", "--temperature", Is("--temp")),
    ("run generate", "-s", Is("--seed")),
    ("run generate", "-sys|--system-prompt", Is("--system")),
    ("run generate", "-cnv|--conversation", Is("--chat")),
    ("run generate", "-no-cnv|--no-conversation|--verbose", Needless),
    (
        "run generate",
        "-c|--ctx-size|--num-ctx|--max-kv-size",
        Says("leave it out: the context holds the prompt and the tokens of --max-tokens"),
    ),
    ("run generate", "-ngl|--n-gpu-layers|--gpu-layers", Says(LAYERS)),
    ("run generate", "-t|--threads", Says("leave it out: all processors are used")),
    ("run generate", "-f|--file", Says("`--prompt \"$(cat FILE)\"` reads the prompt from a file")),
    (
        "run generate",
        "--top-k|--min-p|--repeat-penalty",
        Says("leave it out: tokens are drawn by --temp, --top-p and --seed"),
    ),
    ("run tokens", "-p|--prompt", Is("--text")),
    ("run tokens", "--count|--show-count", Needless),
    ("run tokens", "--special|--special-tokens", Needless),
    ("run tokens", "-f|--file", Says("`--text \"$(cat FILE)\"` reads the text from a file")),
    ("split", "-n|--shards|--num-shards|--parts|--into", Says(SHARDS)),
    ("split", "--split-max-size", Is("--max-shard-size")),
    ("split", "--split-max-tensors", Is("--max-tensors")),
    ("split", "--split|--no-tensor-first-split", Needless),
    ("split", "--merge", Is("--join")),
    ("view", "-p", Is("--port")),
    ("view", "--host", Says("leave it out: the page is served to this machine only")),
    ("verify", "--checksum|--digest|--hash", Is("--sha256")),
    ("verify", "--nan|--nans|--check-nan|--values|--check-values|--full|--all", Is("--deep")),
    ("verify", "--quick|--fast|--shallow", Needless),
    ("verify", "--md5|--sha1", Says(OFFICIAL)),
    (
        "verify",
        "-c|--check",
        Says(
            "`sha256sum -c FILE` compares files with a list; `--hub ORG/NAME` compares those of a repository",
        ),
    ),
    ("view", "--html", Is("-o")),
    ("view", "--no-browser", Is("--no-open")),
    // Of any verb that has no such option.
    (ANY, "--trust-remote-code", Needless),
    (ANY, "-f|--force|-y|--yes", Is("--overwrite")),
    (ANY, "-f|--force|-y|--yes", Says("leave it out: nothing is asked, and nothing replaced")),
    (ANY, "-t|-j|--nthread|--nthreads|--num-threads|--n-threads", Is("--threads")),
    (
        ANY,
        "-t|-j|--threads|--nthreads|--num-threads|--n-threads",
        Says("leave it out: all processors are used"),
    ),
    (ANY, "-v|--verbose|--debug", Needless),
    (ANY, MODELS, Value),
    (ANY, OUTPUTS, Is("--dst")),
    (ANY, OUTPUTS, Is("--output")),
    (ANY, OUTPUTS, Says("`> FILE` writes what is printed to a file")),
    (ANY, "--sort-by|--order-by", Is("--sort")),
    (ANY, "--grep|--match|--pattern|--search|--only", Is("--filter")),
    (
        ANY,
        "-q|--quiet|--silent",
        Says(
            "leave it out: the report is on standard output, notes and errors are on standard error",
        ),
    ),
];

/// Rows of [`OPTIONS`] for every verb.
const ANY: &str = "*";

/// Programs whose verbs are words of their own: `hf download`, `ollama list`.
const PROGRAMS: [&str; 4] = ["hf", "huggingface-cli", "mlx_lm", "ollama"];

/// Programs whose verbs follow their names: `llama-quantize`, `mlx_lm.convert`. `hf download` is read as
/// `hf.download`.
const PREFIXES: [&str; 6] =
    ["llama-", "mlx-lm.", "hf.", "huggingface-cli.", "ollama.", "mergekit-"];

/// The command line in the words of this program, or what to type instead.
pub(crate) fn translated(
    program: &mut Program,
    words: &[OsString],
) -> Result<Vec<OsString>, Failure> {
    let mut words = words.to_vec();
    if words.len() == 2 && words[1] == "-v" {
        words[1] = "--version".into();
    }
    let Some(at) = verb_place(&words) else { return Ok(words) };
    with_program(&mut words, at);
    if words.get(at).is_some_and(|word| word == "help") {
        words.remove(at);
        words.push("--help".into());
        if words.get(at).is_none_or(|word| word == "--help") {
            return Ok(words);
        }
    }
    verb(program, &mut words, at)?;
    options(program, &mut words, at)?;
    order::arrange(program, &mut words, at)?;
    Ok(words)
}

/// Joins the name of a program and its verb to one word. A folder may have the name of the program.
fn with_program(words: &mut Vec<OsString>, at: usize) {
    let (program, next) = (word_at(words, at).to_owned(), word_at(words, at + 1).to_owned());
    let is_verb = row(&next).is_some() || help::nearest_verb(&next) == Some(&next);
    if !PROGRAMS.contains(&program.as_str()) || (Path::new(&program).exists() && !is_verb) {
        return;
    }
    words.remove(at);
    if !next.is_empty() && !next.starts_with('-') {
        words[at] = format!("{program}.{next}").into();
    }
}

/// The row of [`VERBS`] that has a word, or several.
fn row(name: &str) -> Option<Meaning> {
    let row = VERBS.iter().find(|(spellings, _)| spellings.split('|').any(|it| it == name));
    row.map(|(_, meaning)| *meaning)
}

/// Puts the words of this program for a verb.
fn verb(program: &mut Program, words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    let typed = word_at(words, at).to_owned();
    let mut one = bare(&typed);
    if program.has(&one) {
        words[at] = one.clone().into();
    } else if Path::new(&typed).exists() {
        one.clone_from(&typed);
    }
    let two = format!("{one} {}", word_at(words, at + 1));
    let named = |name: &String| row(name).map(|meaning| (name.clone(), meaning));
    let full = Some(dashed(&typed)).filter(|full| *full != one);
    let is_verb = program.has(&one);
    let found = full.as_ref().and_then(named).or_else(|| named(&two));
    let Some((name, meaning)) = found.or_else(|| named(&one).filter(|_| !is_verb)) else {
        return match is_verb {
            true => {
                order::complete(program, words, at);
                Ok(())
            }
            false => model_or_mistake(words, at, &typed),
        };
    };
    let merges = name == "gguf-split" && words.iter().any(|word| word == "--merge");
    let here = match meaning {
        _ if merges => "merge",
        Is(here) => here,
        Moved(here) => {
            note(&format!("`{name}` is `{here}` now; the old name works for one more release"));
            here
        }
        Says(what) => return Err(says(&format!("no verb is named `{name}`"), what)),
        Value | Needless => return Ok(()),
    };
    words.splice(at..at + name.split(' ').count(), here.split(' ').map(OsString::from));
    Ok(())
}

/// A verb of another program without the ending of a script.
fn dashed(typed: &str) -> String {
    typed.strip_suffix(".py").unwrap_or(typed).replace('_', "-")
}

/// The same without the program's name.
fn bare(typed: &str) -> String {
    let name = dashed(typed);
    let verb = PREFIXES.iter().find_map(|program| name.strip_prefix(program));
    verb.map_or(name.clone(), str::to_owned)
}

/// `weighbridge FILE` is `weighbridge inspect FILE`; anything else is a mistake.
fn model_or_mistake(words: &mut Vec<OsString>, at: usize, name: &str) -> Result<(), Failure> {
    let path = words.get(at).map_or(Path::new(""), Path::new);
    if name == "-" {
        let fault = "a model is not read from standard input";
        return Err(says(fault, "save it to a file, and give its path"));
    }
    let program = PREFIXES.iter().skip(1).find(|program| dashed(name).starts_with(**program));
    if program.is_some() && !path.exists() {
        let advice = "`weighbridge help` lists what it does";
        return Err(says(
            &format!("Weighbridge has nothing for `{}`", name.replace('.', " ")),
            advice,
        ));
    }
    let is_address = name.contains(['/', '\\', '.', ':']) || name.is_empty();
    if is_address || path.exists() || order::in_store(name) {
        words.insert(at, "inspect".into());
        return Ok(());
    }
    let rest: Vec<_> = words.iter().skip(at).map(|word| word.to_string_lossy()).collect();
    let joined = rest.join(" ");
    if Path::new(&joined).exists() {
        let advice = format!("a path with spaces needs quotes: `weighbridge '{joined}'`");
        return Err(says(&format!("no verb is named `{name}`"), &advice));
    }
    let advice = match (nearest_entry(path), help::nearest_verb(name)) {
        (Some(file), _) => format!("did you mean {file}?"),
        (_, Some(verb)) => format!("did you mean `{verb}`? `weighbridge help` lists all"),
        _ => "`weighbridge help` lists the verbs; `weighbridge FILE` shows what a file contains"
            .into(),
    };
    Err(says(&format!("no verb is named `{name}`, and no file"), &advice))
}

/// Puts the words of this program for the options of a verb.
fn options(program: &mut Program, words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    let mut verb = word_at(words, at).to_owned();
    let mut place = at + 1;
    let Some(mut command) = program.verb(&verb) else { return Ok(()) };
    while let Some(inner) = command.find_subcommand(word_at(words, place)) {
        verb = format!("{verb} {}", inner.get_name());
        (command, place) = (inner, place + 1);
    }
    while let Some(word) = words.get(place) {
        let Some(word) = word.to_str().map(str::to_owned) else {
            place += 1;
            continue;
        };
        if word == "--" {
            break;
        }
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (option, Some(value)),
            _ => (word.as_str(), None),
        };
        let has = |option: &str| order::has_option(command, option);
        let by_value = by_value(option, value.unwrap_or(word_at(words, place + 1)), has);
        let here = match by_value.or_else(|| meaning(&verb, option, has)) {
            // It is about the file of -o. Without one, the file itself is changed, as others do with --force.
            Some(Is("--overwrite"))
                if has("--output") && !order::has(words, &["-o", "--output"]) =>
            {
                Vec::new()
            }
            Some(Is(here)) => vec![here],
            Some(Value | Needless) => Vec::new(),
            Some(Says(what)) => {
                return Err(says(&format!("`{verb}` has no option {option}"), what));
            }
            Some(Moved(_)) | None => {
                place += 1;
                continue;
            }
        };
        let here: Vec<OsString> = here.into_iter().chain(value).map(OsString::from).collect();
        let count = here.len();
        words.splice(place..=place, here);
        place += count;
    }
    Ok(())
}

/// The meaning of a short option that the verb lacks, by its value: `-t Q4_K_M`, `-t mlx`.
fn by_value(option: &str, value: &str, has: impl Fn(&str) -> bool) -> Option<Meaning> {
    let is_unknown = option.len() == 2 && option.starts_with('-') && !has(option);
    match is_unknown {
        true if has("--type") && order::is_type(value) => Some(Is("--type")),
        true if has("--to") && order::is_container(value) => Some(Is("--to")),
        _ => None,
    }
}

/// The meaning of an option of a verb; `None` if it is one of this program, or unknown.
fn meaning(verb: &str, option: &str, has: impl Fn(&str) -> bool) -> Option<Meaning> {
    // Programs differ in the number of dashes before a long name.
    let bare = option.trim_start_matches('-');
    let is = |spelling: &str| spelling.trim_start_matches('-') == bare;
    let mut rows = OPTIONS.iter().filter(|(_, spellings, _)| {
        option.starts_with('-') && !has(option) && spellings.split('|').any(is)
    });
    let fits = |of: &str, meaning: &Meaning| match meaning {
        _ if of == verb => true,
        Is(here) => of == ANY && has(here),
        _ => of == ANY,
    };
    rows.find(|(of, _, meaning)| fits(of, meaning)).map(|(_, _, meaning)| *meaning)
}

fn says(message: &str, advice: &str) -> Failure {
    Failure::advised(message.to_owned(), advice.to_owned())
}

/// The failure of an option that a verb lacks. The parser's own tips are often wrong: an option that
/// shares some letters, or the option as a value.
pub(crate) fn unknown_option(error: &clap::Error, words: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument || !option.starts_with('-') {
        return None;
    }
    let mut command = &super::program::command();
    let mut name = Vec::new();
    for place in 1..words.len() {
        if let Some(verb) = command.find_subcommand(word_at(words, place)) {
            command = verb;
            name.push(verb.get_name());
        }
    }
    let names = command.get_arguments().filter_map(clap::Arg::get_long).collect::<Vec<_>>();
    let word = option.trim_start_matches('-');
    let near = spelling::nearest(word, names.into_iter(), |name| spelling::distance(word, name));
    let verb = if name.is_empty() { "weighbridge".to_owned() } else { name.join(" ") };
    let advice = match near
        .map(|near| format!("did you mean --{near}?"))
        .or_else(|| suited(command, word))
    {
        Some(said) => said,
        None if name.is_empty() => "`weighbridge help` lists the verbs and options".to_owned(),
        None => format!("`weighbridge help {verb}` lists its options"),
    };
    Some(Failure::advised(format!("`{verb}` has no option {option}"), advice))
}

/// The option of a verb that an unknown one may mean: one with this value, or one whose help has the word.
fn suited(verb: &clap::Command, word: &str) -> Option<String> {
    let own = || {
        let arguments = verb.get_arguments();
        arguments.filter(|it| it.get_help_heading() != Some(super::COMMON) && !it.is_hide_set())
    };
    let value = float_name(word).unwrap_or(word);
    let with_value = own().find_map(|argument| {
        let values = argument.get_possible_values();
        let is_value = values.iter().any(|it| it.get_name().eq_ignore_ascii_case(value));
        argument.get_long().filter(|_| is_value)
    });
    if let Some(long) = with_value {
        return Some(format!("did you mean --{long} {value}?"));
    }
    let stem = |word: &str| word.trim_end_matches('s').to_ascii_lowercase();
    let has_word = |text: &str| {
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.any(|it| stem(it) == stem(word))
    };
    let help =
        |argument: &clap::Arg| argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut with_word = own().filter(|it| it.get_long().is_some() && has_word(&help(it)));
    let (first, second) = (with_word.next()?, with_word.next());
    let sentence = help(first).split(['.', ';', ':']).next().unwrap_or_default().to_owned();
    let is_one = second.is_none() && word.len() > 2;
    is_one.then(|| format!("--{} may be meant: {sentence}", first.get_long().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::program::command;

    fn here(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = translated(&mut Program::new(), &words).expect("words of this program");
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_other_programs_are_translated() {
        for (typed, meant) in [
            ("w info m.gguf", "w inspect m.gguf"),
            ("w m.gguf --all", "w inspect m.gguf --all"),
            ("w --color never generate m -p x", "w --color never run generate m --prompt x"),
            ("w run m Hello", "w run generate m --prompt Hello"),
            ("w run embed m", "w run embed m"),
            ("w run generate m -h", "w run generate m -h"),
            ("w list models --json", "w models --json"),
            ("w list dtypes", "w list dtypes"),
            ("w list", "w models"),
            ("w gguf-split --merge a b", "w merge a b"),
            ("w gguf-split --split --split-max-size 2G a b", "w split --max-shard-size 2G a b"),
            ("w convert --outfile=x.gguf m --outtype f16", "w convert --dst x.gguf m --dtype f16"),
            ("w ppl -m a.gguf -f text", "w quality a.gguf --text text"),
            ("w meta m key", "w meta get m key"),
            ("w meta m key=1 -o x", "w meta set m key=1 -o x"),
            ("w gguf_set_metadata.py m key 1 --dry-run", "w meta set m key=1 --dry-run"),
            ("w convert d Q4_K_M", "w quantize d Q4_K_M"),
            ("w convert d Q4_K_M out.gguf", "w quantize d out.gguf Q4_K_M"),
            ("w convert d --outtype q4_k_m", "w quantize d --type q4_k_m"),
            ("w convert d --outtype q8_0", "w convert d --dtype q8_0"),
            ("w convert d q4_0 --to mlx", "w convert d q4_0 --to mlx"),
            ("w quantize d Q4_K_M o.gguf", "w quantize d o.gguf Q4_K_M"),
            ("w llama-quantize d o.gguf Q4_K_M 8", "w quantize d o.gguf Q4_K_M --threads 8"),
            ("w llama-quantize d Q4_K_M 8", "w quantize d Q4_K_M --threads 8"),
            ("w quantize --imatrix i d o.gguf Q4_K_M", "w quantize --imatrix i d o.gguf Q4_K_M"),
            ("w memory m 8G", "w memory m --room 8G"),
            ("w tokenize -m m -p Hello", "w run tokens m --text Hello"),
            ("w run tokens m Hello", "w run tokens m --text Hello"),
            ("w dump m", "w inspect --metadata m"),
            ("w dump m x", "w dump m x"),
            ("w list families", "w list architectures"),
            ("w hf download a/b --local-dir c", "w pull a/b -o c"),
            ("w ollama list", "w models"),
            ("w export-lora -m m --lora a -o x.gguf", "w convert m --lora a --dst x.gguf"),
            ("w convert d --outtype auto", "w convert d"),
            ("w merge a-1-of-2.gguf a-2-of-2.gguf -o b.gguf", "w merge a-1-of-2.gguf --dst b.gguf"),
            (
                "w merge a-1-of-3.gguf a-2-of-3.gguf a-3-of-3.gguf b.gguf",
                "w merge a-1-of-3.gguf b.gguf",
            ),
            ("w dump m x y.npy", "w dump m x --output y.npy"),
            ("w diff a b --per-layer", "w diff a b --by-layer"),
            ("w help generate", "w run generate --help"),
            ("w help", "w --help"),
            ("w convert a b -- --outfile", "w convert a b -- --outfile"),
            ("w convert a b.gguf --force -t 2", "w convert a b.gguf --overwrite --threads 2"),
            ("w create a -f b", "w create a -f b"),
            ("w inspect m -v", "w inspect m --all"),
            ("w diff a b --verbose", "w diff a b --all"),
            ("w m.gguf --tensors", "w inspect m.gguf --all"),
            ("w memory m --gpu 8G", "w memory m --room 8G"),
            ("w quantize Q4_K_M d o.gguf", "w quantize d o.gguf Q4_K_M"),
            ("w quantize q4_0 d", "w quantize d q4_0"),
            ("w special-tokens m", "w run tokens m"),
            ("w to-mlx d", "w convert --to mlx d"),
            ("w mlx_lm.perplexity --model d -f x", "w quality d --text x"),
            ("w memory m -ctx-size 8", "w memory m --context 8"),
            ("w convert_lora_to_gguf.py --base m a", "w convert --base m a"),
            ("w mlx_lm.fuse --model m --save-path x", "w merge m --dst x"),
            ("w run -m m -p Hello", "w run generate m --prompt Hello"),
            ("w -v", "w --version"),
            ("w hf download a/b x.json --quiet", "w pull a/b --include x.json"),
            ("w pull a/b c/d", "w pull a/b c/d"),
            ("w pull a/b Q4_K_M", "w pull a/b:Q4_K_M"),
            ("w clone a/b ./c", "w pull a/b --output ./c"),
            ("w models qwen", "w models --filter qwen"),
            ("w run m Once upon -n 3", "w run generate m --prompt Once upon --max-tokens 3"),
            ("w split m out 2G", "w split m out --max-shard-size 2G"),
            ("w dequantize m", "w convert --dtype F16 m"),
            ("w ollama show m", "w show m"),
            ("w meta dump m", "w meta get m"),
            ("w gguf-parser -m m --ctx-size 8k", "w memory m --context 8k"),
        ] {
            assert_eq!(here(typed), meant, "{typed}");
        }
    }

    /// A row for a word of this program would hide that; one to a word that is none would mislead.
    #[test]
    fn rows_name_verbs_and_options_that_exist() {
        let program = command();
        let find = |verb: &str| {
            let mut command = &program;
            for name in verb.split(' ') {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("{verb}"));
            }
            command
        };
        for (spellings, meaning) in VERBS {
            for name in spellings.split('|') {
                assert!(program.find_subcommand(name).is_none(), "{name} is a verb");
            }
            let (Is(here) | Moved(here)) = meaning else { continue };
            let verb: Vec<&str> = here.split(' ').take_while(|it| !it.starts_with('-')).collect();
            if !verb.is_empty() && verb[0] != "list" {
                find(&verb.join(" "));
            }
        }
        for (verb, spellings, meaning) in OPTIONS.iter().filter(|(verb, ..)| *verb != ANY) {
            let command = find(verb);
            let has = |option: &str| order::has_option(command, option);
            for option in spellings.split('|') {
                assert!(!has(option), "{verb} has {option}");
            }
            if let Is(here) = meaning {
                assert!(has(here), "{verb} has no {here}");
            }
        }
    }
}
