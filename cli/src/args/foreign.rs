//! The verbs of other programs, and what they mean here.

/// The meaning of a word that is no verb, or no option, of this program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Meaning {
    /// A verb that has moved: its words now. It works for one more release, and says so.
    Moved(&'static str),
    /// The same as these words, here.
    Is(&'static str),
    /// Nearly the same as these words: what differs is said in a note.
    Near(&'static str, &'static str),
    /// An option whose value is an argument here.
    Value,
    /// An option that has no value, and that nothing here needs.
    Needless,
    /// An option that nothing here has, with or without a value: why. It is left out, with a note.
    Ignored(&'static str),
    /// Nothing here is the same: what to type instead.
    Says(&'static str),
}
use Meaning::{Is, Moved, Near, Says};

pub(super) const SERVES: &str = "Weighbridge serves no models to other programs, as `ollama serve`, `llama-server` and \
    `mlx_lm.server` do; `weighbridge view MODEL` shows one in the browser";
pub(super) const DELETES: &str = "Weighbridge deletes no models: use `ollama rm` or `hf cache rm`; `weighbridge models` shows where \
    each is, `weighbridge models --duplicates` which are the same";
pub(super) const UPLOADS: &str = "Weighbridge changes no hub: use `hf upload` or `ollama push`";
const ENDS: &str = "GGUF, safetensors and MLX are written: `weighbridge convert DIR DST --to gguf`";
pub(super) const TASKS: &str = "`weighbridge quality MODEL --text FILE` measures on a text of your own; tasks such as MMLU are not run";
pub(super) const RENDERS: &str = "`weighbridge run MODEL TEXT` applies the chat template, \
    `weighbridge meta get MODEL chat_template` prints it; the text that it makes is not printed";
const LOGIN: &str = "Weighbridge needs no login: set HF_TOKEN, or use `hf auth login`, for models of the hub that are not public";
const TRAINS: &str =
    "Weighbridge does not train; `weighbridge convert MODEL DST --lora ADAPTER` merges an adapter";
pub(super) const CALIBRATES: &str = "Weighbridge quantizes without calibration: `weighbridge quantize MODEL Q4_K_M` for GGUF, \
    `weighbridge quantize MODEL --type mlx4` for MLX, or with `--imatrix FILE` of llama-imatrix";
pub(super) const RECIPES: &str = "models are mixed, and layers left out, by a file: `weighbridge merge RECIPE.yml DST`; `weighbridge \
    help merge` shows one, in the form of mergekit";
const PICTURES: &str = "`weighbridge view MODEL` draws it in the browser; `weighbridge inspect MODEL TENSOR` prints a histogram";
pub(super) const ARRAYS: &str =
    "`weighbridge dump MODEL TENSOR -o FILE.npy` writes an array of NumPy";
pub(super) const TOKENS: &str = "`weighbridge run tokens MODEL` lists the special tokens, with `--text TEXT` those of a text; \
    `convert MODEL DIR --to safetensors` writes tokenizer.json";
const EDITS: &str = "`weighbridge meta set FILE KEY=VALUE` sets a key, KEY=@FILE to the content of a file; `weighbridge \
    meta get FILE` prints all";
pub(super) const KEYS: &str = "`weighbridge meta get FILE > FILE.txt` of both, then compare the texts: `diff` compares tensors";
pub(super) const LOGITS: &str = "`weighbridge run tokens MODEL --text TEXT --print-ids` prints the numbers for `weighbridge run logits MODEL --ids`";
pub(super) const REPAIRS: &str = "Weighbridge repairs no files: `weighbridge verify FILE` says what is wrong, `weighbridge pull` fetches again";
const RUNS: &str =
    "Weighbridge keeps no model running; `weighbridge models` lists those on this machine";

/// Verbs: the words, separated by `|`, and what they mean.
pub(super) const VERBS: &[(&str, Meaning)] = &[
    // Earlier names.
    ("align", Moved("merge --align 64")),
    (
        "compare",
        Near(
            "quality",
            "`compare` is `quality` now; the old name works for one more release. `weighbridge diff A B` compares tensors",
        ),
    ),
    ("finish", Moved("job finish")),
    ("plan", Moved("job plan")),
    ("slice", Moved("job run")),
    ("status", Moved("job status")),
    // Earlier names that are also words of other programs.
    ("config", Is("inspect --config")),
    ("embed", Is("run embed")),
    ("generate", Is("run generate")),
    ("list models|hf.list", Is("models")),
    ("load", Is("bench")),
    ("logits", Is("run logits")),
    ("report", Is("view")),
    ("tokens", Is("run tokens")),
    ("ollama.list|ollama.ls", Is("models ollama")),
    ("lms.ls|lmstudio.ls", Is("models lmstudio")),
    (
        "hf.cache ls|hf.cache list|hf.cache scan|hf.scan-cache|huggingface-cli.scan-cache|huggingface-cli.cache ls|\
        huggingface-cli.cache scan|mlx-lm.manage",
        Is("models huggingface"),
    ),
    ("load --estimate-only|lms.load --estimate-only", Is("memory")),
    // Other programs. They chat if the model has a template.
    (
        "llm|llama-cli|llama-run|llama.cli|llama-mtmd-cli|llama-simple-chat|ollama.run|mlx-lm.generate|mlx-lm.chat|llamafile|\
        llava-cli|gemma3-cli|qwen2vl-cli|minicpmv-cli",
        Is("run generate --chat"),
    ),
    (
        "llama-completion|llama.completion|speculative*|lookup|lookahead|batched|parallel",
        Is("run generate"),
    ),
    (
        "lms.load|lms.unload|lms.status|lms.log|lms.runtime|lms.ps|lms.dev|lms.link|lms.daemon|lms.bootstrap|launch",
        Says(RUNS),
    ),
    (
        "lms.import",
        Says(
            "copy the file to ~/.lmstudio/models/PUBLISHER/NAME; `weighbridge models` then lists it",
        ),
    ),
    (
        "info|summary|describe|details|read|open|safe-open|header|headers|tensors|layers|tree|size|params|parameters|\
        nparams|bpw|count|peek|stat|print|cat|head|tail|less|file|keys|models info|model info|show-model|whatis|\
        how-big|gguf-info|gguf-show|gguf-py|safetensors-info|safetensors-cli|st-info|read-tensors",
        Is("inspect"),
    ),
    ("fp8-cast-bf16", Says("`weighbridge convert DIR OUT --dtype BF16` decodes FP8")),
    (
        "gguf-dump --no-tensors",
        Near(
            "meta get",
            "keys and values as `meta get` prints them: with --json, `.\"general.architecture\"` is a value",
        ),
    ),
    (
        "gguf-dump --json",
        Near(
            "inspect --metadata --json",
            "this is not gguf-dump's JSON: of `meta get FILE --json`, `.\"general.architecture\"` is a value",
        ),
    ),
    ("gguf-editor|gguf-editor-gui|set-chat-template|set-template", Says(EDITS)),
    ("gguf-dump|dump-metadata", Is("inspect --metadata")),
    ("stats|statistics|outliers|minmax|min|max|sum|norm|zeros|sparsity", Is("inspect --stats")),
    ("nan*|check-nan*|find-nan*|check-tensors", Is("verify --deep")),
    (
        "metadata|kv|meta list|meta ls|meta show|meta print|meta dump|meta export|meta json|list metadata|list keys",
        Is("meta get"),
    ),
    ("meta import|meta copy|meta merge|meta rename|meta move", Says(EDITS)),
    ("meta diff|meta compare", Says(KEYS)),
    ("meta remove|meta delete|meta del|meta unset|meta clear|meta strip|strip", Is("meta rm")),
    ("meta add|meta edit|meta update|meta change", Is("meta set")),
    ("list tensors|list layers", Is("inspect")),
    ("set|edit|gguf-set-metadata|set-metadata|metadata set", Is("meta set")),
    ("ui|gui|web|browse|explore|viewer|netron", Is("view")),
    ("cmp|delta|same|equal|equals|identical|mse|rmse|snr", Is("diff")),
    (
        "extract|tensor|values|export-tensor|get-tensor|save-tensor|save|gguf-tools.inspect-tensor|gguf-tools.inspect-weights",
        Is("dump"),
    ),
    ("gguf-tools.compare", Is("diff")),
    ("hexdump|xxd", Says("`weighbridge dump MODEL TENSOR --as raw | xxd` shows the stored bytes")),
    ("ppl|perplexity|kl|kld|kl-divergence|eval|evaluate", Is("quality")),
    (
        "vram|ram|mem|fit|fits|max-context|can-run|fit-params|estimate|gguf-parser|gguf-parser-go|kv-cache",
        Is("memory"),
    ),
    ("accelerate", Says("`weighbridge memory MODEL` shows how much memory it takes")),
    ("cache verify", Is("verify")),
    ("check|validate|lint|fsck|doctor|test|is-complete", Is("verify")),
    (
        "audit|safe|picklescan|pickle-scan|modelscan",
        Says(
            "GGUF and safetensors hold no code, and PyTorch's pickles are not read; `weighbridge verify MODEL` checks a file",
        ),
    ),
    (
        "gguf-hash",
        Near(
            "hash",
            "llama-gguf-hash prints xxh64 digests unless an option names another kind; these are SHA-256, one for each tensor",
        ),
    ),
    (
        "sha|sha256|sha256sum|md5|md5sum|shasum|checksum|check-hash|digest|Get-FileHash|certutil",
        Says(
            "`weighbridge verify FILE --sha256 HEX` compares a file with a digest; `weighbridge hash MODEL` prints that of \
             each tensor",
        ),
    ),
    (
        "convert-lora|convert-lora-to-gguf|export|save-pretrained|save-pretrained-gguf",
        Is("convert"),
    ),
    ("to-gguf|ollama-export", Is("convert --to gguf")),
    ("to-mlx", Is("convert --to mlx")),
    ("to-safetensors|to-hf|to-transformers", Is("convert --to safetensors")),
    ("to-ollama", Says("`weighbridge create NAME SRC` puts a model into Ollama's store")),
    ("to-json", Is("inspect --json")),
    ("to-csv", Says("`weighbridge dump MODEL TENSOR` prints a row on each line: `| tr ' ' ,`")),
    ("to-onnx|onnx|optimum-cli|trtllm-build|ct2-transformers-converter", Says(ENDS)),
    (
        "gguf-my-repo|gguf-my-lora",
        Says("`weighbridge pull ORG/NAME`, then `weighbridge quantize ORG/NAME Q4_K_M`"),
    ),
    (
        "convert-llama-ggml-to-gguf|convert-ggml-to-gguf",
        Says("files older than GGUF are not read: convert the checkpoint that they were made from"),
    ),
    ("quant|quantise", Is("quantize")),
    ("requant|requantize|requantise", Is("quantize --allow-requantize")),
    (
        "gguf-new-metadata --special-token|gguf-new-metadata --special-token-by-id",
        Says(
            "`weighbridge meta set SRC eos='</s>' -o DST`, by the text or the number of the token",
        ),
    ),
    (
        "gguf-new-metadata --chat-template|gguf-new-metadata --chat-template-file|gguf-new-metadata --chat-template-config",
        Says(
            "`weighbridge meta set SRC chat_template=@FILE -o DST`, also of a tokenizer_config.json",
        ),
    ),
    ("gguf-new-metadata --remove-metadata", Says("`weighbridge meta rm SRC KEY -o DST`")),
    (
        "gguf-new-metadata|new-metadata",
        Says(
            "`weighbridge meta set SRC name='My model' -o DST` writes a changed copy; KEY=@FILE takes a value from a file",
        ),
    ),
    (
        "gguf-convert-endian",
        Says(
            "Weighbridge reads both byte orders, and writes little-endian files: `weighbridge convert SRC DST`",
        ),
    ),
    ("gguf-split|shard|reshard", Is("split")),
    ("join|unsplit|unshard|concat|combine|merge-shards|consolidate", Is("merge")),
    (
        "dedupe|dedup|duplicates|dupes|find-duplicates|fdupes|jdupes|rdfind|rmlint",
        Is("models --duplicates"),
    ),
    (
        "license|arch|architecture|context|context-length|ctx|name|grep|strings",
        Says("`weighbridge inspect FILE` shows it; `weighbridge meta get FILE` prints each key"),
    ),
    ("tokenizer|extract-tokenizer|vocab|vocabulary|vocab-size|get-vocab", Says(TOKENS)),
    ("special-tokens", Is("run tokens")),
    (
        "download|fetch|get|clone|install|snapshot-download|hf-hub-download|lfs pull|ollama-dl|hfd|hfdownloader|\
        download-model|from-pretrained|resume|wget|curl|aria2c",
        Is("pull"),
    ),
    ("cache rm|cache delete|cache prune|delete-cache", Says(DELETES)),
    (
        "cache ls|cache list|cache scan|cache|scan|scan-cache|manage|ls|dir|du|models ls|models list",
        Is("models"),
    ),
    ("import", Is("create")),
    ("chat|ask|converse|interactive", Is("run generate --chat")),
    ("gen|complete|infer|prompt|sample|cli|simple|main", Is("run generate")),
    ("tokenize|encode|count-tokens|token", Is("run tokens")),
    (
        "detokenize|decode",
        Says("`weighbridge run tokens MODEL --ids 1,2,3` prints the text of tokens"),
    ),
    ("embedding|embeddings|mlx-embeddings|sentence-transformers", Is("run embed")),
    ("benchmark|time|speed", Is("bench")),
    (
        "llama-bench|batched-bench|mlx-lm.benchmark|mistralrs.bench",
        Says(
            "`weighbridge run generate MODEL --prompt TEXT` prints tokens a second; `weighbridge bench` times loading",
        ),
    ),
    ("dtypes", Is("list dtypes")),
    ("types|ftypes|list quants|list quantizations|list ftypes|list qtypes", Is("list types")),
    ("architectures|families|list families|list archs", Is("list architectures")),
    ("containers|formats|list formats", Is("list containers")),
    ("devices|list-devices|list gpus|gpu|gpus", Is("list devices")),
    ("completion|autocomplete|install-completion|show-completion", Is("completions")),
    ("version|env", Is("--version")),
    ("examples|usage", Is("--help")),
    (
        "serve|server|*-server|start|api|vllm|sglang|tgi|text-generation-launcher|text-embeddings-router|llamafiler|koboldcpp|\
        tabbyapi",
        Says(SERVES),
    ),
    (
        "mlx-vlm*|mlx-audio*|mlx-whisper*",
        Says(
            "Weighbridge has nothing of it: `weighbridge convert DIR DST --to mlx` writes language models for mlx-lm",
        ),
    ),
    ("rm|remove|delete", Says(DELETES)),
    (
        "average|mean|mix|prune|slerp|ties|dare|blend|interpolate|subtract|surgery|upscale",
        Says(RECIPES),
    ),
    (
        "similarity|similar|cosine",
        Says("`weighbridge run embed MODEL --text A --text B` prints the similarity of texts"),
    ),
    ("next|next-token|logprobs|probs", Says(LOGITS)),
    ("supported|supported-models|supports|is-supported", Is("list architectures")),
    (
        "where|which|path|locate|cache info",
        Says("`weighbridge models NAME --json` has the path of each"),
    ),
    ("hist|histogram|plot|heatmap|html", Says(PICTURES)),
    ("numpy|npy|npz|to-numpy|to-npy", Says(ARRAYS)),
    ("lm-eval|evalplus|mlx-lm.evaluate", Says(TASKS)),
    ("modelfile", Says("`weighbridge show MODEL --modelfile` prints it")),
    (
        "update|upgrade|self-update|uninstall",
        Says("`cargo install` replaces it, and `cargo uninstall weighbridge-cli` removes it"),
    ),
    (
        "cp|copy|mv|rename",
        Says(
            "`weighbridge create NEW OLD` gives a model of Ollama's store another name; other models are files: use `cp -r`",
        ),
    ),
    (
        "push|push-to-hub*|upload|upload-large-folder|repo|repos|repo-files|tag|sync|lfs-enable-largefiles|lms.clone|mlx-lm.share",
        Says(UPLOADS),
    ),
    ("login|logout|auth|whoami|signin|signout", Says(LOGIN)),
    ("ps|stop", Says(RUNS)),
    (
        "search|find|hf.models ls|hf.models list",
        Says(
            "Weighbridge does not search the hub; `weighbridge pull ORG/NAME` downloads a model, `weighbridge models NAME` \
             lists those on this machine, `weighbridge models FOLDER` those of a folder",
        ),
    ),
    ("train|finetune|lora", Says(TRAINS)),
    ("repair|fix|recover", Says(REPAIRS)),
    ("export-lora", Is("convert")),
    ("template|chat-template", Says("`weighbridge meta get FILE chat_template` prints it")),
    ("apply-chat-template|apply-template|render", Says(RENDERS)),
    (
        "mergekit-extract-lora|extract-lora",
        Says(
            "`weighbridge convert TUNED ADAPTER --lora-from BASE --rank 16` writes the difference as an adapter",
        ),
    ),
    (
        "fuse|merge-lora|apply-lora|lora-merge|merge-and-unload|\
        save-pretrained-merged|mergekit|mergekit-yaml",
        Is("merge"),
    ),
    (
        "imatrix",
        Says(
            "Weighbridge computes no importance matrix: `weighbridge quantize MODEL TYPE --imatrix FILE` uses that of llama-imatrix; \
             `weighbridge inspect FILE` shows one",
        ),
    ),
    (
        "gptq|awq|dwq|exl2|exl3|exllamav2|dynamic-quant|autoawq|auto-gptq|autogptq|gptqmodel|auto-round|llmcompressor|\
        llm-compressor|bitsandbytes|hqq|quanto|torchao|convert-exl2",
        Says(CALIBRATES),
    ),
    ("dequantize|dequant", Is("convert --dtype F16")),
    ("cast", Is("convert")),
    ("downcast|upcast|half", Says("`weighbridge convert SRC DST --dtype F16`")),
    (
        "pipeline",
        Says(
            "`weighbridge run MODEL TEXT` continues a text, `weighbridge embed MODEL TEXT` prints its vector",
        ),
    ),
    // What remains of names of several words.
    (
        "*-layer|*-layers",
        Says(
            "`weighbridge quantize MODEL TYPE --prune-layers 1,2` leaves out layers, as does a recipe of \
        `weighbridge merge`",
        ),
    ),
    (
        "*-tensor|*-tensors",
        Says(
            "`weighbridge convert SRC DST --leave-out NAME` leaves out a tensor, `weighbridge dump SRC NAME` \
        prints it; names are those of the container",
        ),
    ),
    ("*-token|*-tokens|*-tokenizer|*-vocab|tokenizer-*|vocab-*", Says(TOKENS)),
    (
        "convert-*",
        Says(
            "`weighbridge convert DIR DST` reads a checkpoint of safetensors, and writes GGUF, MLX or safetensors",
        ),
    ),
    ("mlx-lm.convert", Is("convert --to mlx")),
    ("mlx-lm.quantize|mlx.quantize", Is("quantize --type mlx4")),
];

/// Programs that turn `\n` in a prompt into the end of a line, unless an option says otherwise.
pub(super) const ESCAPES: [&str; 4] =
    ["llama-cli", "llama-completion", "llama-embedding", "llama-tokenize"];

/// Words before a program that runs in them, or whose verbs are those of Ollama or of `hf`.
pub(super) const LAUNCHERS: [&str; 9] = [
    "python -m",
    "python3 -m",
    "python",
    "python3",
    "uv run",
    "uvx",
    "pipx run",
    "git",
    "docker model",
];

/// Programs whose verbs are words of their own: `hf download`, `ollama list`. `hf download` is read as `hf.download`.
pub(super) const PROGRAMS: [&str; 21] = [
    "axolotl",
    "exo",
    "gguf",
    "gguf-tools",
    "hf",
    "huggingface-cli",
    "huggingface_hub",
    "llama",
    "llamafactory-cli",
    "lms",
    "lmstudio",
    "mistralrs",
    "mlx_lm",
    "modelscope",
    "ollama",
    "ramalama",
    "safetensors",
    "torchtune",
    "transformers",
    "transformers-cli",
    "unsloth",
];

/// The starts of programs whose verbs follow: `llama-quantize`, `mlx_lm.quant.awq`.
pub(super) const PREFIXES: [&str; 4] = ["gguf.scripts.", "mlx-lm.quant.", "llama-", "mergekit-"];

/// Formats that a name such as `hf2gguf` converts from.
pub(super) const FORMATS: [&str; 9] =
    ["hf", "safetensors", "gguf", "mlx", "ollama", "torch", "pt", "pth", "bin"];
