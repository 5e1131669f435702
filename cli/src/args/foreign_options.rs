//! The options of other programs, and what they mean here.

use super::foreign::Meaning::{self, Ignored, Is, Needless, Says, Value};
use super::foreign::{
    ARRAYS, CALIBRATES, DELETES, KEYS, LOGITS, RECIPES, REPAIRS, TOKENS, UPLOADS,
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
const TASKS: &str = "`--text FILE` measures on a text of your own; tasks such as MMLU are not run";
const CONVERSES: &str =
    "each command answers one prompt: `weighbridge run MODEL 'Why is the sky dark?'`";
const MOUNTED: &str = "`--lora FILE` merges an adapter, `--lora FILE:0.5` half of it";

/// Options whose value is a model, or a tensor, which are arguments here.
const MODELS: &str = "-m|--model|--model-path|-i|--in|--infile|--input|--src|--source|--from|--path|--dir|--folder|--hf-path|-hf|-hfr|-hr|--hf-repo|\
    --repo|--repo-id|--name|--tensor|--tensor-name|-u|--url|-mu|--model-url|--ol-model";

/// Options whose value is what is written.
const OUTPUTS: &str = "-o|--out|--output|--outfile|--output-file|--output-dir|--outdir|--out-path|--dest|--save-path|--fused-model-path|--mlx-path";

/// Options of `mlx_lm.convert` that are one type here.
const QUANTIZES: &str = "-q|--quantize|--q-bits|--q-group-size|--q-mode|--bits|--group-size";

/// Options: the verb, the option's spellings separated by `|`, and what they mean.
pub(super) const OPTIONS: &[(&str, &str, Meaning)] = &[
    ("bench", "-t", Is("--threads")),
    (
        "bench",
        "-p|-n|-pg|--n-prompt|--n-gen",
        Says("it times loading; `weighbridge run generate` prints tokens a second"),
    ),
    ("convert", "--outtype|--torch-dtype|--output-type|--precision", Is("--dtype")),
    ("convert", "--lora-scaled", Says(MOUNTED)),
    ("convert", "--format", Is("--to")),
    ("convert", "--from|--input-format", Says("leave it out: the container of SRC is detected")),
    ("convert", "--mlx|--gguf|--safetensors|--hf", Says(CONTAINERS)),
    ("convert", "--use-temp-file|--no-lazy|--mistral-format", Needless),
    ("convert", "--vocab-only", Says("no file of a vocabulary alone is written")),
    ("convert", "--bigendian|--big-endian", Says("leave it out: files are written little-endian")),
    ("convert", "--print-supported-models", Says("`weighbridge list families` lists the families")),
    ("convert", "--remote", Says("`hf://ORG/NAME` as SRC is a model on the hub")),
    ("convert", "--base-model|--base-model-id", Is("--base")),
    ("convert", "--adapter|--adapter-path", Is("--lora")),
    ("convert", "--upload-repo", Says(UPLOADS)),
    ("convert", QUANTIZES, Says(BITS)),
    ("quantize", QUANTIZES, Says(BITS)),
    (
        "convert",
        "--split-max-tensors",
        Says("leave it out, then `weighbridge split FILE NAME --max-tensors 128`"),
    ),
    ("convert", "--exclude|--ignore|--skip", Is("--leave-out")),
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
    (
        "completions",
        "--install",
        Says("leave it out: `weighbridge help completions` shows where the script belongs"),
    ),
    ("create", "--experimental", Needless),
    ("create", "-s|--system-prompt", Is("--system")),
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
        "--model-name|--metadata",
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
    ("diff", "--only-diff|--changed", Needless),
    ("diff", "--layers|--per-layer|--layer", Is("--by-layer")),
    ("diff", "-v|--verbose|--debug", Is("--all")),
    ("diff", "--tensor|--name|-f", Is("--filter")),
    ("diff", "--metadata|--meta|--kv|--keys|--config", Says(KEYS)),
    (
        "diff",
        "-q|--quiet|--brief|--name-only",
        Says("the exit status says it: 0 for equal models, 1 for different ones"),
    ),
    ("diff", "--top|-n|--worst", Says("`--sort relative` puts the largest differences first")),
    ("dump", "--format|--dtype", Is("--as")),
    ("dump", "--npy|--numpy", Says(ARRAYS)),
    ("dump", "--slice|--range|--row", Is("--rows")),
    ("dump", "-n|--head|--limit", Says("`--rows 0..4` writes some rows")),
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
    ("inspect", "--format|--output-format|--markdown", Says("`--json` prints JSON")),
    (
        "inspect",
        "-v|--verbose|--debug|--tensors|--list-tensors|--names-only|--names|-l|--dtypes|--shapes|--tensor-info",
        Is("--all"),
    ),
    ("inspect", "--offsets|--data-offset|--data-alignment", Says(OFFSETS)),
    ("inspect", "--short|--summary", Says("the first lines are a summary: `| head -12`")),
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
    (
        "inspect",
        "--no-tensors",
        Says("`weighbridge meta get FILE` prints the metadata alone, with `--json` as JSON"),
    ),
    ("man", OUTPUTS, Value),
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
    (
        "memory",
        "--ram|--vram|--mem|--memory|--gpu|--gpu-memory|--budget|--limit|--max-memory",
        Is("--room"),
    ),
    ("memory", "--gpu-memory-utilization", Says("`--room 21.6G` is 0.9 of 24 GB")),
    (
        "memory",
        "--gpus|-ts|--tensor-split|-tp|--tp|--tensor-parallel-size",
        Says("`--device gpu0=24GiB --device gpu1=24GiB` divides the layers among GPUs"),
    ),
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
    ("memory", "-ngl|--n-gpu-layers|--gpu-layers", Says("`--room SIZE` says how many layers fit")),
    ("merge", "--merge", Needless),
    ("merge", "--scale|--lora-scale|--lora-scaled", Says(MOUNTED)),
    ("merge", "--method|--merge-method|--weight|--weights|--alpha|--density", Says(RECIPES)),
    ("meta get", "-a|--all", Needless),
    ("merge", "--base|--base-model|--lora|--adapter|--adapter-path", Value),
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
        "--dequantize|--de-quantize|--export-gguf",
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
    ("models", "--limit|--top|-n|--reverse|-r", Says(LARGEST)),
    ("models", "--scan|-l|--long|-a|--all|--llm|--embedding|--revisions", Needless),
    ("models", "--delete|--rm", Says(DELETES)),
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
    ("pull", "--local-dir|-d", Is("-o")),
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
        "--local-dir-use-symlinks|--insecure|--etag-timeout",
        Ignored("it changes nothing here"),
    ),
    ("pull", "--allow-patterns|--allow-pattern|--files|--file", Is("--include")),
    ("pull", "--ignore-patterns|--ignore-pattern", Is("--exclude")),
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
    ("quality", "-f|--file|--data-path", Is("--text")),
    ("quality", "-c|--ctx-size", Is("--context")),
    (
        "quality",
        "--hellaswag|--winogrande|--multiple-choice|--hellaswag-tasks|--winogrande-tasks",
        Says(TASKS),
    ),
    (
        "quality",
        "--ppl-stride|--ppl-output-type|--save-all-logits",
        Says("leave it out: windows do not overlap"),
    ),
    ("quality", "--sequence-length|--seq-len", Is("--context")),
    ("quality", "--chunks|--num-samples", Says("`--tokens N` limits the tokens of the text")),
    ("quality", "--kl-divergence", Needless),
    ("quality", "-n|--n-tokens|--limit", Is("--tokens")),
    ("quality", "--dataset|--data|--corpus|--tasks", Says(TASKS)),
    (
        "quality",
        "--kl-divergence-base|--base|--against|--reference|--ref|--original|--baseline",
        Says("give the original model first: `weighbridge quality ORIGINAL MODEL`"),
    ),
    ("quantize", "--outtype|--ftype|--quantization|--quant|--quant-type|--qtype", Is("--type")),
    ("quantize", "--gguf", Is("--type")),
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
    ("quantize", "--upload-repo", Says(UPLOADS)),
    ("quantize", "--calibration-data|--calib|--dataset|--data|--data-path", Says(CALIBRATES)),
    ("quantize", "--lora-scaled", Says(MOUNTED)),
    ("run embed", "-p|--prompt", Is("--text")),
    (
        "run embed",
        "-f|--file",
        Says(
            "`--text - < FILE` reads one text from a file; `xargs -d '\\n' weighbridge embed MODEL < FILE` has a vector for each line",
        ),
    ),
    ("run embed", "--normalize", Needless),
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
    ("run generate", "-n|--n-predict|--predict|--num-predict|--max-new-tokens", Is("--max-tokens")),
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
    ("run generate", "--stream", Needless),
    ("run generate", "-sys|--system-prompt", Is("--system")),
    ("run generate", "-cnv|--conversation|--jinja", Is("--chat")),
    (
        "run generate",
        "-no-cnv|--no-conversation|--no-jinja|--ignore-chat-template|--raw",
        Is("--no-chat"),
    ),
    (
        "run generate",
        "-r|--reverse-prompt|--stop-word|--stop-sequence|--extra-eos-token",
        Is("--stop"),
    ),
    (
        "run generate",
        "--no-warmup|-st|--single-turn|-e|--escape|--no-escape|--no-perf|--perf|--no-context-shift|--nowordwrap|--insecure|\
        --use-default-chat-template|-co",
        Needless,
    ),
    ("run generate", "-sp|--special", Ignored("special tokens are not printed")),
    (
        "run generate",
        "--verbose-prompt",
        Ignored("`weighbridge run tokens MODEL --text TEXT` prints the tokens of a prompt"),
    ),
    (
        "run generate",
        "-c|--ctx-size|--num-ctx|--max-kv-size|--keep",
        Ignored("the context holds the prompt and the tokens of --max-tokens"),
    ),
    (
        "run generate",
        "-f|--file|-bf|--binary-file",
        Says("`--prompt - < FILE` reads the prompt from a file"),
    ),
    (
        "run generate",
        "--min-p|--repeat-penalty|--repetition-penalty|--repeat-last-n|--presence-penalty|--frequency-penalty|--typical|\
        --typical-p|--mirostat|--mirostat-lr|--mirostat-ent|--dynatemp-range|--xtc-probability|--xtc-threshold|\
        --dry-multiplier|--top-nsigma|--min-tokens-to-keep|--samplers|--sampling-seq|--logit-bias",
        Ignored(SAMPLES),
    ),
    (
        "run generate",
        "-fa|--flash-attn|-sm|--split-mode|-mg|--main-gpu|-ts|--tensor-split|--numa|--prio|--poll|-np|--parallel|\
        --keepalive|-nkvo|--no-kv-offload|--prefill-step-size",
        Ignored(SAME),
    ),
    (
        "run generate",
        "--kv-bits|--kv-group-size|--quantized-kv-start|-ctk|-ctv|--cache-type-k|--cache-type-v",
        Ignored("keys and values are not quantized"),
    ),
    (
        "run generate",
        "--think|--hidethinking|--reasoning-format|--reasoning-budget",
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
    (
        "run generate",
        "--grammar|--grammar-file|--json-schema|--json-schema-file|--format|--output-format",
        Says("leave it out: the model writes what it likes, not a given form such as JSON"),
    ),
    (
        "run generate",
        "--image|--images|--mmproj|--audio|--video",
        Says("leave it out: the prompt is text alone; `--features FILE` gives Whisper a spectrum"),
    ),
    (
        "run generate",
        "--lora|--adapter|--adapter-path|--lora-scaled",
        Says("`weighbridge convert MODEL DST --lora ADAPTER` merges it; then run DST"),
    ),
    ("run generate", "--chat-template|--chat-template-file|--chat-template-config", Says(TEMPLATE)),
    (
        "run generate",
        "--rope-scaling|--rope-scale|--rope-freq-base|--rope-freq-scale|--yarn-orig-ctx|--yarn-ext-factor|--override-kv",
        Says(OWN),
    ),
    (
        "run generate",
        "-md|--model-draft|--draft-model|--draft|--draft-max|--num-draft-tokens|--prompt-cache|--prompt-cache-file",
        Says("leave it out: it would only save time"),
    ),
    ("run logits", "-p|--prompt|--text", Says(LOGITS)),
    ("run tokens", "-p|--prompt", Is("--text")),
    ("run embed", "-e|--escape|--no-escape", Needless),
    ("run tokens", "--count|--show-count|-e|--escape|--no-escape", Needless),
    ("run tokens", "--special|--special-tokens", Needless),
    ("run tokens", "-f|--file", Says("`--text - < FILE` reads the text from a file")),
    ("run tokens", "--stdin", Is("--text=-")),
    ("run tokens", "--ids-only|--no-text", Is("--print-ids")),
    (
        "run tokens",
        "--no-bos|--no-parse-special",
        Says("leave it out: a text is split as the model expects it"),
    ),
    ("split", "-n|--shards|--num-shards|--parts|--into", Says(SHARDS)),
    ("split", "-b|--bytes|--size|--shard-size", Is("--max-shard-size")),
    ("split", "--split-max-size", Is("--max-shard-size")),
    ("split", "--split-max-tensors", Is("--max-tensors")),
    ("split", "--split", Needless),
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
    ("verify", "--md5|--sha1", Says(OFFICIAL)),
    ("verify", "-c|--check|--checksums", Says(SUMS)),
    ("verify", "--fix|--repair", Says(REPAIRS)),
    ("view", "--html", Is("-o")),
    ("view", "--no-browser", Is("--no-open")),
    // Of any verb that has no such option.
    (ANY, "--csv|--yaml|--tsv", Says("`--json` prints JSON")),
    (ANY, "--revision", Says("the name has it: `hf://ORG/NAME@REVISION`")),
    (
        ANY,
        "--no-tensor-first-split",
        Says("leave it out: the first shard has tensors, as the others"),
    ),
    (ANY, "--hf-file|-hff", Says("the name has it: `hf://ORG/NAME/FILE`")),
    (ANY, "--list-devices", Says("`weighbridge list devices` lists them")),
    (
        ANY,
        "--trust-remote-code|--log-disable|--progress|--no-progress|--no-display-prompt|--simple-io|--mlock|--no-mmap|--no-warmup|--no-color",
        Needless,
    ),
    (
        ANY,
        "-ngl|--n-gpu-layers|--gpu-layers|-ot|--override-tensor|-cmoe|--cpu-moe|-ncmoe|--n-cpu-moe",
        Ignored(LAYERS),
    ),
    (ANY, "-ub|--ubatch-size|-b|--batch-size|-tb|--threads-batch|-fa|--flash-attn", Ignored(SAME)),
    (ANY, "-f|--force|-y|--yes", Is("--overwrite")),
    (ANY, "-f|--force|-y|--yes", Says("leave it out: nothing is asked, and nothing replaced")),
    (ANY, "-t|-j|--nthread|--nthreads|--num-threads|--n-threads", Is("--threads")),
    (ANY, "-t|-j|--threads|--nthreads|--num-threads|--n-threads", Ignored(THREADS)),
    (ANY, "-v|--verbose|--debug", Needless),
    (ANY, MODELS, Value),
    (ANY, OUTPUTS, Is("--dst")),
    (ANY, OUTPUTS, Is("--output")),
    (ANY, OUTPUTS, Says("`> FILE` writes what is printed to a file")),
    (ANY, "--sort-by|--order-by", Is("--sort")),
    (ANY, "--grep|--match|--pattern|--search|--only", Is("--filter")),
    (ANY, "-q|--quiet|--silent", Ignored("`> /dev/null` hides the report")),
];

/// Options that nothing here has and that always have a value, whatever it looks like.
pub(super) const VALUED_ELSEWHERE: [&str; 12] = [
    "-ot",
    "--override-tensor",
    "--numa",
    "--samplers",
    "--sampling-seq",
    "--logit-bias",
    "--keepalive",
    "--reasoning-format",
    "-ctk",
    "-ctv",
    "--cache-type-k",
    "--cache-type-v",
];

/// Rows of [`OPTIONS`] for every verb.
pub(super) const ANY: &str = "*";
