//! The options of other programs, and what they mean here.

use super::foreign::Meaning::{self, Ignored, Is, Needless, Says, Value};
use super::foreign::{
    ARRAYS, CALIBRATES, DELETES, KEYS, LOGITS, RECIPES, RENDERS, REPAIRS, SERVES, TASKS, TOKENS,
    UPLOADS,
};

const SHARDS: &str = "`--max-shard-size 4G` or `--max-tensors 128` limits each shard";
const TOWERS: &str = "`--leave-out 'vision*'` leaves out tensors by name; a GGUF file of a language model has no tower";
const CONTAINERS: &str = "`--to mlx`, `--to gguf` or `--to safetensors` names the container";
const OFFICIAL: &str = "the checksum is a SHA-256: `weighbridge verify FILE --sha256 HEX`";
const LATER_SPLIT: &str = "leave it out, then `weighbridge split FILE NAME --max-shard-size 4G`";
const SUMS: &str = "`sha256sum -c FILE` compares files with a list; `--hub ORG/NAME` compares those of a repository";
const RANKS: &str = "`weighbridge convert SRC DST --shards tp=2` writes the shares of two ranks";
const TEMPLATE: &str = "`weighbridge meta set FILE chat_template=@TEMPLATE -o COPY` writes a copy with another template";
const OFFSETS: &str = "`--json` has the offset of each tensor";
const LARGEST: &str = "`--sort size` puts the largest first; `| head` shortens what is printed";
const BITS: &str = "the type has them: `weighbridge quantize SRC --type mlx4` is 4 bits for MLX, `mlx4,64` also sets the \
    group size; `--type Q4_K_M` writes GGUF";
const LAYERS: &str = "models run on the processor, or with `--device gpu` wholly on a GPU";
const DTYPES: &str = "`dtype: bfloat16` in a recipe sets it; `weighbridge convert MODEL DST --lora ADAPTER --dtype BF16` \
    merges an adapter";
const THREADS: &str = "all processors are used";
const SAMPLES: &str = "tokens are drawn by --temp, --top-k, --top-p and --seed";
const SAME: &str = "it changes no result";
const OWN: &str = "leave it out: the model's own setting is used; `weighbridge meta set FILE KEY=VALUE -o COPY` changes that of a copy";
const SIZES: &str = "`weighbridge quantize MODEL --list-types` shows the size in each type";
const KEPT: &str =
    "`--tensor-type REGEX=F16` keeps tensors as they are, `--leave-output-tensor` the output";
const STATUS: &str = "leave it out: the exit status says it";
const GPUS: &str = "`--device gpu0=24GiB --device gpu1=24GiB` divides the layers among GPUs";
const HALF: &str = "`--room SIZE` says how many layers fit";
const TIME: &str = "it would only save time";
pub(super) const FORM: &str =
    "leave it out: the model writes what it likes, not a given form such as JSON";
const CONVERSES: &str =
    "each command answers one prompt: `weighbridge run MODEL 'Why is the sky dark?'`";
const MOUNTED: &str =
    "`weighbridge convert MODEL DST --lora ADAPTER:0.5` merges half of an adapter";

/// Options whose value is a model, or a tensor, which are arguments here.
const MODELS: &str = "-m|--model|--model-path|--model-name-or-path|--model-id|-i|--in|--infile|--input|--src|--source|--from|--path|--dir|--folder|--hf-path|-hf|-hfr|-hr|--hf-repo|\
    --repo|--repo-id|--name|--tensor|--tensor-name|-u|--url|-mu|--model-url|--ol-model";

/// Options whose value is what is written.
const OUTPUTS: &str = "-o|--out|--output|--outfile|--output-file|--output-dir|--outdir|--out-dir|--out-path|--dest|--export-dir|--save-path|--fused-model-path|--mlx-path";

/// Options of `mlx_lm.convert` that are one type here.
const QUANTIZES: &str = "-q|--quantize|--q-bits|--q-group-size|--q-mode|--bits|--group-size";

/// Options: the verb, the option's spellings separated by `|`, and what they mean. A spelling that ends in `=` always
/// has a value, whatever that looks like; `*` stands for more letters.
pub(super) const OPTIONS: &[(&str, &str, Meaning)] = &[
    ("bench", "-t", Is("--threads")),
    (
        "bench",
        "-p|-n|-pg|--n-prompt|--n-gen",
        Says("it times loading; `weighbridge run generate` prints tokens a second"),
    ),
    ("convert", "--outtype|--torch-dtype|--output-type|--precision", Is("--dtype")),
    ("convert", "--format", Is("--to")),
    ("convert", "--from|--input-format", Says("leave it out: the container of SRC is detected")),
    ("convert", "--mlx|--gguf|--safetensors|--hf", Says(CONTAINERS)),
    ("convert", "--use-temp-file|--no-lazy|--mistral-format", Needless),
    ("convert", "--vocab-only", Says("no file of a vocabulary alone is written")),
    ("convert", "--bigendian|--big-endian", Says("leave it out: files are written little-endian")),
    ("convert", "--print-supported-models", Says("`weighbridge list families` lists the families")),
    ("convert", "--remote", Says("`hf://ORG/NAME` as SRC is a model on the hub")),
    ("convert", "--base-model|--base-model-id", Is("--base")),
    ("convert", "--fp8-as-q8", Says("`--dtype Q8_0` writes all matrices so")),
    ("convert", "-qa|--quantize-activations", Says("leave it out: weights alone are quantized")),
    ("convert", QUANTIZES, Says(BITS)),
    ("quantize", QUANTIZES, Says(BITS)),
    (
        "quantize",
        "--name|--model-name",
        Says("leave it out, then `weighbridge meta set FILE name='My model'`"),
    ),
    ("quantize", "--gpu|--cuda", Ignored("the processor quantizes")),
    ("quantize", "--no-imatrix", Needless),
    (
        "convert",
        "--split-max-tensors",
        Says("leave it out, then `weighbridge split FILE NAME --max-tensors 128`"),
    ),
    ("convert", "--exclude*|--ignore|--skip", Is("--leave-out")),
    (
        "convert",
        "--filter|--include|--only",
        Says("`--leave-out GLOB` leaves out tensors, once for each glob"),
    ),
    ("convert", "--ctx*|-c|--context*", Says(OWN)),
    ("convert", "--template=|--finetuning-type=|--export-size=", Needless),
    ("convert", "-cf|-hb", Says(CALIBRATES)),
    ("convert", "-b", Says(BITS)),
    ("convert", "--no-vision|--text-only|--language-only", Says(TOWERS)),
    (
        "convert",
        "--tokenizer|--tokenizer-path",
        Says("copy tokenizer.json and tokenizer_config.json into the folder of SRC"),
    ),
    ("convert", "--split-max-size", Is("--max-shard-size")),
    ("convert", "--chat-template|--chat-template-file", Says(TEMPLATE)),
    ("convert", "--tensor-parallel-size|--tensor-parallel|--tp|-tp", Says(RANKS)),
    ("split", "--tensor-parallel-size|--tensor-parallel|--tp|-tp", Says(RANKS)),
    ("completions", "--shell", Value),
    (
        "completions",
        "--install",
        Says("leave it out: `weighbridge help completions` shows where the script belongs"),
    ),
    ("create", "--experimental", Needless),
    ("create", "-s|--system-prompt", Is("--system")),
    ("create", "--system-file|--system-prompt-file", Says("`--system @FILE`")),
    ("create", "--modelfile", Is("-f")),
    ("create", "-p", Is("--parameter")),
    (
        "create",
        "--num-ctx|--temperature|--temp|--top-p|--top-k",
        Says("`--parameter num_ctx=4096`"),
    ),
    ("convert", "-d|--dequantize", Says("`--dtype F16` or `--dtype BF16` decodes")),
    (
        "convert",
        "--type|--ftype|--quantization",
        Says(
            "`weighbridge quantize SRC DST Q4_K_M` writes a file type; `convert --dtype DTYPE` sets the dtype of all matrices",
        ),
    ),
    (
        "convert",
        "--name|--model-name|--metadata",
        Says("leave it out, then `weighbridge meta set FILE name='My model'`"),
    ),
    ("diff", "--atol|--tol|--eps|--threshold", Is("--tolerance")),
    ("diff", "--stat|--summary", Says("the lines before the table are a summary: `| head -4`")),
    ("diff", "--kind", Says("`--filter '*ffn*'` chooses tensors by name")),
    (
        "diff",
        "--rtol|--fail-above|--max-rel",
        Says("`--tolerance T` bounds the absolute difference"),
    ),
    (
        "diff",
        "--only-diff|--only-changed|--changed|-r|--recursive|--ignore-metadata|--no-metadata",
        Needless,
    ),
    ("diff", "--layers|--per-layer|--layer|--group-by=", Is("--by-layer")),
    ("diff", "-v|--verbose|--debug", Is("--all")),
    ("diff", "--tensor|--name|-f", Is("--filter")),
    ("diff", "--metadata|--meta|--kv|--keys|--config", Says(KEYS)),
    (
        "diff",
        "-q|--quiet|--brief|--name-only|--exit-code",
        Says("the exit status says it: 0 for equal models, 1 for different ones"),
    ),
    ("diff", "--top|-n|--worst", Says("`--sort relative` puts the largest differences first")),
    ("dump", "--format|--dtype|--to", Is("--as")),
    ("dump", "--dequantize|--dequant", Needless),
    ("dump", "--transpose", Says(ARRAYS)),
    ("dump", "--npy|--numpy", Says(ARRAYS)),
    ("dump", "--slice|--range|--row", Is("--rows")),
    ("dump", "-n|--head|--limit", Says("`--rows 0..4` writes some rows")),
    ("dump", "--columns|--cols", Says("rows are whole: `-o FILE.npy`, and cut the array")),
    ("dump", "--precision", Says("numbers are exact: `-o FILE.npy` writes an array of NumPy")),
    ("dump", "--list", Says("`weighbridge inspect PATH --all` lists the tensors")),
    ("hash", OUTPUTS, Is("--save")),
    ("hash", "--sha256|--all", Needless),
    (
        "hash",
        "--check|-c",
        Says(
            "`weighbridge verify MODEL --against LIST` compares with a list that `hash MODEL --save LIST` wrote",
        ),
    ),
    ("hash", "--no-layer", Says("`sha256sum FILE` prints the digest of a whole file")),
    ("hash", "--xxh64|--sha1|--md5|--uuid", Says(OFFICIAL)),
    ("inspect", "--json-array", Is("--json")),
    ("inspect", "-f", Is("--filter")),
    (
        "inspect",
        "-a|-v|--verbose|--debug|--tensors|--list-tensors|--names-only|--names|-l|--dtypes|--shapes|--tensor-info",
        Is("--all"),
    ),
    ("inspect", "--offsets|--data-offset|--data-alignment", Says(OFFSETS)),
    ("inspect", "--short|--summary", Says("the first lines are a summary: `| head -12`")),
    ("inspect", "--top|-n|--limit|--largest|--biggest|--min-size", Says(LARGEST)),
    ("inspect", "--license", Says("`weighbridge meta get FILE license` prints it")),
    (
        "inspect",
        "--type|--dtype|--quant",
        Says("the column DTYPE has it: `weighbridge inspect FILE --all | grep Q6_K`"),
    ),
    (
        "inspect",
        "--by-*|--per-layer|--group*",
        Says("tensors that differ only in their layer share a row; `--all` lists each"),
    ),
    (
        "inspect",
        "--layer|--layers|--block",
        Says("`--filter 'layers.0.*'` chooses the tensors of a layer"),
    ),
    ("inspect", "--meta|--kv|--keys", Is("--metadata")),
    ("inspect", "--key", Says("`weighbridge meta get FILE KEY` prints the value of a key")),
    (
        "inspect",
        "--nan|--nans|--check-nan",
        Says("`weighbridge verify FILE --deep` looks for them"),
    ),
    ("inspect", "--find", Is("--filter")),
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
    (
        "inspect",
        "--no-tensors",
        Says("`weighbridge meta get FILE` prints the metadata alone, with `--json` as JSON"),
    ),
    ("man", OUTPUTS, Value),
    ("memory", "--quant|--quantization|--type|--dtype", Says(SIZES)),
    (
        "memory",
        "-c|--ctx|--ctx-size|--num-ctx|--n-ctx|--context-length|--tokens|--max-tokens|--max-model-len|--seq-len",
        Is("--context"),
    ),
    ("memory", "--ram|--vram|--mem|--memory|--gpu|--gpu-memory|--budget|--limit", Is("--room")),
    ("memory", "--gpu-memory-utilization", Says("`--room 21.6G` is 0.9 of 24 GB")),
    ("memory", "--gpus|-ts|--tensor-split|-tp|--tp|--tensor-parallel-size", Says(GPUS)),
    (
        "memory",
        "-ot|--override-tensor|-cmoe|--cpu-moe|-ncmoe|--n-cpu-moe",
        Ignored("experts stay in their layers, which `--device NAME=SIZE` divides"),
    ),
    ("memory", "-np|--parallel", Ignored("--context is that of all sequences together")),
    ("memory", "-ub|--ubatch-size", Is("--batch")),
    ("memory", "-fa|--flash-attn", Ignored("buffers are those with flash attention")),
    ("memory", "-b|--batch-size", Ignored("buffers are those of -ub")),
    (
        "memory",
        "--skip-metadata|--skip-architecture|--skip-tokenizer|--skip-estimate|--in-short|--in-mib",
        Needless,
    ),
    ("memory", "-ctk|-ctv|--cache-type-k|--cache-type-v|--kv-type|--kv-cache-dtype", Is("--kv")),
    (
        "memory",
        "--kv-bits|--kv-group-size",
        Says("`--kv q8_0` is as large as 8 bits in groups of 64, `--kv q4_0` as 4 bits"),
    ),
    ("memory", "-ngl|--n-gpu-layers|--gpu-layers", Says(HALF)),
    ("merge", "--merge", Needless),
    ("merge", "--scale|--lora-scale|--lora-scaled", Says(MOUNTED)),
    ("merge", "--method|--merge-method|--weight|--weights|--alpha|--density", Says(RECIPES)),
    ("meta get", "-a|--all|--raw|-r", Needless),
    ("meta get", "--json-array", Is("--json")),
    ("merge", "--base|--base-model|--lora|--adapter*|--lora-path|--lora-model-dir", Value),
    ("merge", "--linear|--slerp|--ties|--dare|--dare-ties", Says(RECIPES)),
    (
        "merge",
        "--cuda|--lazy-unpickle|--copy-tokenizer|--allow-crimes|--low-cpu-memory|--multi-gpu|--read-to-gpu|\
        --clone-tensors|--gpu-rich|--async-write|--safe-serialization",
        Needless,
    ),
    ("merge", "--write-model-card", Ignored("no README.md is written")),
    ("merge", "--no-copy-tokenizer", Ignored("the tokenizer is copied")),
    ("merge", "--dtype|--out-dtype", Says(DTYPES)),
    (
        "merge",
        "--random-seed",
        Ignored("what is drawn follows from the names of the tensors, and is the same each time"),
    ),
    (
        "merge",
        "--lora-merge-cache|--transformers-cache",
        Says("leave it out: models are read where they are"),
    ),
    (
        "merge",
        "--out-shard-size",
        Says("leave it out, then `weighbridge split MERGED DST --max-shard-size 4G`"),
    ),
    (
        "merge",
        "--dequantize|--de-quantize|--export-gguf|--gguf-path",
        Says(
            "`weighbridge convert MODEL DST --lora ADAPTER --dtype F16` decodes, and with DST.gguf writes GGUF",
        ),
    ),
    ("meta set", "--set", Needless),
    (
        "meta set",
        "--chat-template|--chat-template-file",
        Says("`weighbridge meta set FILE chat_template=@TEMPLATE`"),
    ),
    ("meta get", "--get", Needless),
    ("meta set", "--type", Says("the type stands before the value, as in KEY=u32:3")),
    ("models", "-q|--quiet", Says("`--json | jq -r '.models[].name'` prints the names alone")),
    ("models", "--limit|--top|-n|--reverse", Says(LARGEST)),
    (
        "models",
        "--scan|-l|--long|-a|--all|-r|--recursive|--llm|--embedding|--show-warnings",
        Needless,
    ),
    (
        "models",
        "--revisions|-v|--verbose|--detailed",
        Ignored("`--json` has the path of each, and in it the revision"),
    ),
    ("models", "--delete|--rm", Says(DELETES)),
    ("models", "--apply|--link", Says("nothing is changed: paste the lines that are printed")),
    ("models", "--pattern|-f", Is("--filter")),
    ("models", "--program", Value),
    (
        "models",
        "--ollama|--hf|--lmstudio",
        Says("`weighbridge models ollama` lists its models alone"),
    ),
    ("models", "--unused|--older-than", Says("`--sort used` puts the latest first")),
    ("models", "--dupes|--duplicate|--dups", Is("--duplicates")),
    ("models", "--path|--paths", Says("`--json` has the path of each")),
    ("pull", "--local-dir|--dir|-d", Is("-o")),
    (
        "pull",
        "-L|-O|-LO|-OL|-c|--gguf|-a|--always-show-*|--no-force-download|--library-name=|--library-version=|--user-agent=",
        Needless,
    ),
    (
        "pull",
        "-x=|-s=|-k=|--max-connection-per-server=|--split=",
        Ignored("`--jobs N` sets the number of requests"),
    ),
    ("pull", "--endpoint|--mirror", Says("set HF_ENDPOINT in the environment")),
    ("pull", "--mlx", Says("the name says it: `weighbridge pull mlx-community/Qwen3-0.6B-4bit`")),
    ("pull", "--branch|--rev|-r", Is("--revision")),
    ("pull", "--quant|--quantization|--type", Says("the name has it: `ORG/NAME:Q4_K_M`")),
    ("pull", "--max-workers", Is("--jobs")),
    ("pull", "-q|--silent", Is("--quiet")),
    ("pull", "--resume|--resume-download", Needless),
    ("pull", "--filter|--pattern", Is("--include")),
    ("pull", "--all", Is("--include=*")),
    ("pull", "--list|--list-files", Says("`--include '*' --dry-run` lists all files")),
    (
        "pull",
        "--local-dir-use-symlinks=|--etag-timeout=",
        Ignored("files are files here, and no links"),
    ),
    ("pull", "--allow-patterns|--allow-pattern|--files|--file", Is("--include")),
    ("pull", "--ignore-patterns|--ignore-pattern", Is("--exclude")),
    (
        "pull",
        "--force-download",
        Says("delete the files first: existing ones are not downloaded again"),
    ),
    (
        "pull",
        "--cache-dir",
        Says("set HF_HUB_CACHE in the environment, or `-o FOLDER` for plain files"),
    ),
    ("pull", "--repo-type", Says("leave it out: only repositories of models are downloaded")),
    ("quality", "-f|--file|-bf|--binary-file|--data-path", Is("--text")),
    ("quality", "-p|--prompt", Says("`--text FILE` measures on the text of a file")),
    ("quality", "--keep=", Ignored(SAME)),
    ("run generate", "-qa|--quantize-activations", Ignored("activations are not quantized")),
    ("quality", "-c|--ctx-size", Is("--context")),
    ("quality", "--hellaswag*|--winogrande*|--multiple-choice*", Says(TASKS)),
    (
        "quality",
        "--ppl-stride|--stride|--ppl-output-type",
        Says("leave it out: windows do not overlap"),
    ),
    ("quality", "--sequence-length|--seq-len", Is("--context")),
    (
        "quality",
        "--chunks|--num-samples|--samples",
        Says("`--tokens N` limits the tokens of the text"),
    ),
    (
        "quality",
        "--kl-divergence",
        Ignored("it is printed for two models: `weighbridge quality ORIGINAL MODEL`"),
    ),
    ("quality", "--seed=", Ignored("nothing is drawn")),
    ("quality", "--only-changed", Says("`weighbridge diff A B` compares tensors")),
    ("quality", "-n|--n-tokens|--limit", Is("--tokens")),
    ("quality", "--dataset|--data|--corpus|--tasks", Says(TASKS)),
    (
        "quality",
        "--kl-divergence-base|--save-all-logits|--base|--against|--reference|--ref|--original|--baseline",
        Says("give the original model first: `weighbridge quality ORIGINAL MODEL`"),
    ),
    ("quantize", "--outtype|--ftype|--quantization|--quant|--quant-type|--qtype", Is("--type")),
    ("quantize", "--gguf|--isq", Is("--type")),
    ("quantize", "--target-*|--fit|--state-file|--keep-bpw-state|--no-importance", Says(SIZES)),
    ("quantize", "--exclude|--ignore|--skip|--keep*", Says(KEPT)),
    (
        "quantize",
        "--to|--format",
        Says("the type says it: `quantize SRC DST Q4_K_M` writes GGUF, `--type mlx4` MLX"),
    ),
    ("quantize", "--types|--help-types|--list", Is("--list-types")),
    ("quantize", "--requantize|--allow-requant", Is("--allow-requantize")),
    ("quantize", "--split-max-size|--split-max-tensors|--max-shard-size", Says(LATER_SPLIT)),
    (
        "quantize",
        "--tensor-type-file",
        Says("`--tensor-type REGEX=DTYPE` once for each line of the file"),
    ),
    (
        "quantize",
        "--dtype",
        Says("the type says it; `weighbridge convert SRC DST --dtype F16` does not quantize"),
    ),
    ("quantize", "--calib*|--dataset|--data|--data-path", Says(CALIBRATES)),
    ("run embed", "-p|--prompt", Is("--text")),
    (
        "run embed",
        "-f|--file",
        Says(
            "`--text - < FILE` reads one text from a file; `xargs -d '\\n' weighbridge embed MODEL < FILE` has a vector for each line",
        ),
    ),
    ("run embed", "--normalize", Needless),
    ("run embed", "--attention", Says(OWN)),
    (
        "run embed",
        "--embd-separator|--cls-separator",
        Says("`--text A --text B` gives several texts"),
    ),
    (
        "run embed",
        "--embd-normalize",
        Ignored("vectors have length 1, or with --no-normalize their own"),
    ),
    (
        "run embed",
        "--embd-output-format",
        Says("`--json` prints JSON, `-o FILE.npy` writes an array of NumPy"),
    ),
    ("run generate", "-p", Is("--prompt")),
    (
        "run generate",
        "-n|--n-predict|--predict|--num-predict|--max-new-tokens|--max-length",
        Is("--max-tokens"),
    ),
    ("run generate", "--temperature", Is("--temp")),
    ("run generate", "--do-sample", Says("`--temp 0.8` draws tokens")),
    (
        "run generate",
        "--json|--logprobs",
        Says(
            "the text alone is printed; `weighbridge run logits MODEL --ids LIST --json` has numbers",
        ),
    ),
    (
        "run generate",
        "--in-prefix|--in-suffix|--in-prefix-bos",
        Says("leave it out: the chat template, or --prompt, has all of the text"),
    ),
    ("run generate", "-s", Is("--seed")),
    ("run generate", "-sys|--system-prompt", Is("--system")),
    ("run generate", "-sysf|--system-prompt-file", Says("`--system \"$(cat FILE)\"`")),
    (
        "run generate",
        "--greedy",
        Says("leave it out: without --temp, the likeliest token is taken"),
    ),
    ("run generate", "--print-prompt|--show-prompt|--render", Says(RENDERS)),
    ("run generate", "--isq", Says("`weighbridge quantize MODEL TYPE` writes a quantized copy")),
    ("run generate", "-dr|--docker-repo", Says("give the path or the name of a model")),
    (
        "run generate",
        "-cl|--cache-list",
        Says("`weighbridge models` lists the models on this machine"),
    ),
    ("run generate", "--completion-bash", Says("`weighbridge completions bash`")),
    ("run generate", "--server|--host|--port|--api-key", Says(SERVES)),
    ("run generate", "-cnv|--conversation|--jinja", Is("--chat")),
    (
        "run generate",
        "-no-cnv|--no-conversation|--no-jinja|--ignore-chat-template|--no-template|--raw",
        Is("--no-chat"),
    ),
    (
        "run generate",
        "-r|--reverse-prompt|--stop-word|--stop-sequence|--extra-eos-token",
        Is("--stop"),
    ),
    (
        "run generate",
        "--speed|--stream|--no-stream|-st|--single-turn|--nowordwrap|--use-default-chat-template|-co|--cli|-ptc=|--print-token-count=|\
        --skip-chat-parsing|--prefill-assistant|--no-prefill-assistant|--mmproj-auto|--no-mmproj*|--experimental*",
        Needless,
    ),
    ("run generate", "-sp|--special", Ignored("special tokens are not printed")),
    (
        "run generate",
        "--verbose-prompt",
        Ignored("`weighbridge run tokens MODEL --text TEXT` prints the tokens of a prompt"),
    ),
    (
        "run",
        "-c=|--ctx-size=|--n-ctx=|--num-ctx=|--contextsize=|--max-kv-size=|--keep=|--truncate",
        Ignored("the context is as long as the text needs"),
    ),
    (
        "run generate",
        "-f|--file|--prompt-file|-bf|--binary-file",
        Says("`--prompt - < FILE` reads the prompt from a file"),
    ),
    (
        "run generate",
        "--min-p=|--repeat-*=|--repetition-*=|--presence-penalty=|--frequency-penalty=|--typical*=|--mirostat*=|--dynatemp-*=|\
        --xtc-*=|--dry-*=|--top-nsigma=|--top-n-sigma=|--adaptive-*=|--min-tokens-to-keep=|--samplers=|--num-beams=|--sampler-seq=|\
        --sampling-seq=|-l=|--logit-bias=",
        Ignored(SAMPLES),
    ),
    (
        "run generate",
        "--think|--hidethinking|-rea|--reasoning-format=|--reasoning-effort=|--reasoning*",
        Ignored("the text is printed as the model writes it"),
    ),
    (
        "run generate",
        "-i|--interactive|-if|--interactive-first|-mli|--multiline-input",
        Says(CONVERSES),
    ),
    (
        "run generate",
        "--prefill-response",
        Says("`--no-chat --prompt TEXT` continues a text, which may end in the start of an answer"),
    ),
    ("run generate", "--grammar*|--json-schema*|-jf|--format|--output-format", Says(FORM)),
    (
        "run generate",
        "--image*|-mm|-mmu|--mmproj*|--audio|--video",
        Says("leave it out: the prompt is text alone; `--features FILE` gives Whisper a spectrum"),
    ),
    (
        "run generate",
        "--chat-template-kwargs|--chat-template-args",
        Says("leave it out: a template gets the prompt and the text of --system alone"),
    ),
    ("run generate", "--chat-template*", Says(TEMPLATE)),
    (
        "run generate",
        "-md=|--model-draft=|-hfd=|--hf-repo-draft=|-td=|-tbd=|--threads-draft=|--draft*=|-cd=|--ctx-size-draft=|-devd=|\
        -ngld=|--gpu-layers-draft=|-ctkd=|-ctvd=|--cache-type-k-draft=|--cache-type-v-draft=|--spec-*=|--num-draft-tokens=|\
        -lcs=|-lcd=|--lookup-cache-*=|--prompt-cache-all|--prompt-cache-ro|--prompt-cache*=",
        Ignored(TIME),
    ),
    ("run embed", "--dim|--dimensions", Says("leave it out: vectors have the model's own length")),
    ("run logits", "-p|--prompt|--text", Says(LOGITS)),
    ("run logits", "--top|--top-k|-k|-n", Says("`--json` has the values of all tokens")),
    ("run logits", "--npy", Says("`-o FILE.npy` writes an array of NumPy")),
    ("run tokens", "-p|--prompt", Is("--text")),
    ("run tokens", "--chat", Says(RENDERS)),
    ("run tokens", "--search|--find", Says("`--text WORD` splits a text into tokens")),
    ("run tokens", "--count|--show-count", Needless),
    ("run tokens", "--special|--special-tokens", Needless),
    ("run tokens", "-f|--file", Says("`--text - < FILE` reads the text from a file")),
    ("run tokens", "--stdin", Is("--text=-")),
    ("run tokens", "--ids-only|--no-text", Is("--print-ids")),
    (
        "run tokens",
        "--no-bos|--no-special|--no-parse-special",
        Says(
            "a text is split as the model expects it: `| tail -n +2` leaves out the token before it",
        ),
    ),
    (
        "show",
        "-v|--verbose",
        Says("`weighbridge inspect NAME --metadata --all` lists its keys and tensors"),
    ),
    ("split", "-n|--shards|--num-shards|--parts|--into", Says(SHARDS)),
    ("split", "-b|--bytes|--size|--shard-size", Is("--max-shard-size")),
    ("split", "--split-max-size", Is("--max-shard-size")),
    ("split", "--split-max-tensors", Is("--max-tensors")),
    ("split", "--split", Needless),
    ("split", "--by-layer|--per-layer", Says(SHARDS)),
    ("split", "--merge", Is("--join")),
    ("view", "-p", Is("--port")),
    (
        "view",
        "--host|--listen|--bind",
        Says("leave it out: the page is served to this machine only"),
    ),
    ("verify", "--checksum|--digest|--hash", Is("--sha256")),
    (
        "verify",
        "--nan|--nans|--check-nan|--values|--check-values|--check-tensors|--full|--all",
        Is("--deep"),
    ),
    ("verify", "--load", Is("--run")),
    ("verify", "-r|--recursive", Says("`weighbridge verify *.gguf` checks several files")),
    ("verify", "--quick|--fast|--shallow", Needless),
    ("verify", "--exit-code|-s|--status", Says(STATUS)),
    ("verify", "--repo|--repo-id|--hf-repo", Is("--hub")),
    (
        "verify",
        "--local-dir",
        Says("`weighbridge verify FOLDER --hub ORG/NAME` compares a folder with the hub"),
    ),
    (
        "verify",
        "--fail-on-missing-files|--fail-on-extra-files",
        Says("`--hub ORG/NAME` compares the files with the hub's"),
    ),
    (
        "verify",
        "--original|--reference|--base",
        Says("`weighbridge diff ORIGINAL MODEL` compares two models"),
    ),
    ("verify", "--md5|--sha1", Says(OFFICIAL)),
    ("verify", "-c|--check|--checksums", Says(SUMS)),
    ("verify", "--fix|--repair", Says(REPAIRS)),
    ("view", "--html", Is("-o")),
    ("view", "--no-browser", Is("--no-open")),
    // Of any verb that has no such option.
    (ANY, "--csv|--yaml|--tsv|--markdown|--format|--output-format", Says("`--json` prints JSON")),
    (ANY, "--check-tensors", Says("`weighbridge verify FILE --deep` checks all values")),
    (ANY, "--revision", Says("the name has it: `hf://ORG/NAME@REVISION`")),
    (
        ANY,
        "--no-tensor-first-split",
        Says("leave it out: the first shard has tensors, as the others"),
    ),
    (ANY, "--hf-file|-hff", Says("the name has it: `hf://ORG/NAME/FILE`")),
    (ANY, "-hft|--hf-token|--token", Says("set HF_TOKEN in the environment")),
    (ANY, "--cache-dir", Says("set HF_HUB_CACHE in the environment")),
    (ANY, "--upload-repo|--push|--push-to-hub", Says(UPLOADS)),
    (ANY, "--adapter*", Is("--lora")),
    (ANY, "--lora-scaled", Says(MOUNTED)),
    (
        ANY,
        "--lora|--adapter*",
        Says("`weighbridge convert MODEL DST --lora ADAPTER` merges an adapter"),
    ),
    (ANY, "--control-vector*", Says("leave it out: control vectors are not applied")),
    (ANY, "--rope-*|--yarn-*|-gan|-gaw|--grp-attn-*|--override-kv", Says(OWN)),
    (
        ANY,
        "--trust-remote-code|--no-trust-remote-code|--log-file=|--log-colors=|--log-level=|--log-verbosity=|-lv=|--verbosity=|\
        --log-*|--no-log-*|--progress*|--no-progress|--display-prompt|--no-display-prompt|--simple-io|--perf|--no-perf|\
        --show-timings|--no-show-timings|--mlock|--mmap|--no-mmap|--warmup|--no-warmup|--no-color|--no-truncate|--insecure|-e|\
        --escape|--no-escape",
        Needless,
    ),
    (ANY, "-dev", Is("--device")),
    (
        ANY,
        "-ngl=|--n-gpu-layers=|--gpu-layers=|--gpulayers=|-ot=|--override-tensor=|-cmoe|--cpu-moe|-ncmoe=|--n-cpu-moe=|-ncffn=|\
        --n-cpu-ffn=|-dev=",
        Ignored(LAYERS),
    ),
    (
        ANY,
        "-C=|-Cr=|-Cb=|-Crb=|--cpu-mask*=|--cpu-range*=|--cpu-strict*=|--prio*=|--poll*=|-ub=|--ubatch-size=|-b=|--batch-size=|\
        -tb=|--threads-batch=|-fa|--flash-attn|-sm=|--split-mode=|-mg=|--main-gpu=|-ts=|--tensor-split=|--numa=|-np=|\
        --parallel=|-cb|--cont-batching|-nocb|--no-cont-batching|-kvo|--kv-offload|-nkvo|--no-kv-offload|--repack|-nr|\
        --no-repack|--no-host|--op-offload|-nopo|--no-op-offload|-dt=|--defrag-thold=|--rpc=|-lm=|--load-mode=|-lzm=|\
        --lazy-mode=|-dio|--direct-io|--no-direct-io|-fit|--fit|-fitt=|-fitc=|--fit-*=|-kvu|--kv-unified|--no-kv-unified|\
        -ctxcp=|--ctx-checkpoints=|-cram=|--cache-ram=|--swa-full|--moe-cache*=|--context-shift|--no-context-shift|-bs|\
        --backend-sampling|--keepalive=|--prefill-step-size=|--pipeline",
        Ignored(SAME),
    ),
    (
        ANY,
        "--kv-bits=|--kv-group-size=|--quantized-kv-start=|-ctk=|-ctv=|--cache-type-k=|--cache-type-v=",
        Ignored("keys and values are not quantized"),
    ),
    (ANY, "-f|--force|-y|--yes", Is("--overwrite")),
    (ANY, "-f|--force|-y|--yes", Says("leave it out: nothing is asked, and nothing replaced")),
    (ANY, "-t|-j|--nthread|--nthreads|--num-threads|--n-threads", Is("--threads")),
    (ANY, "-t=|-j=|--threads=|--nthreads=|--num-threads=|--n-threads=", Ignored(THREADS)),
    (ANY, "-v|--verbose|--debug", Needless),
    (ANY, MODELS, Value),
    (ANY, OUTPUTS, Is("--dst")),
    (ANY, OUTPUTS, Is("--output")),
    (ANY, OUTPUTS, Says("`> FILE` writes what is printed to a file")),
    (ANY, "--sort-by|--order-by", Is("--sort")),
    (ANY, "--grep|--match|--pattern|--search|--only", Is("--filter")),
    (ANY, "-q|--quiet|--silent", Ignored("`> /dev/null` hides the report")),
];

/// Rows of [`OPTIONS`] for every verb.
pub(super) const ANY: &str = "*";
