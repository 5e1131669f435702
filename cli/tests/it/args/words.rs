//! Mistakes, and words of other programs: they work, or one sentence says what to type.

use std::path::Path;

use crate::support::{failure, fed, file, printed, program, refused, run, sample};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const BASE: &str = "tests/fixtures/lora/llama/base";
const ADAPTER: &str = "tests/fixtures/lora/llama/adapter";

#[test]
fn a_sentence_says_what_to_type() {
    let lists = "`weighbridge help convert` lists its options";
    let rows: &[(&[&str], &str)] = &[
        (&["convert", HF, "--mlx"], "`--to mlx`"),
        (&["convert", HF, "--overwrit"], "did you mean --overwrite?"),
        // Letters in common are no reason for a tip.
        (&["convert", HF, "--store-all"], lists),
        (&["convert", HF, "--frobnicate"], "`convert` has no option --frobnicate"),
        (&["run", "tokens", HF, "--frobnicate"], "`run tokens` has no option --frobnicate"),
        (&["--frobnicate"], "`weighbridge` has no option --frobnicate"),
        (&["run", "--frobnicate"], "`run generate` has no option --frobnicate"),
        (&["-"], "a model is not read from standard input"),
        (&["pull", GGUF], "on this machine"),
        (&["create", GGUF, "tale"], "`weighbridge create tale assets/sample/sample-Q8_0.gguf`"),
        (&["merge", GGUF, HF, "x.gguf"], "a recipe says how"),
        (&["quantize", HF, "awq"], "awq is no type: Weighbridge does not write it"),
        (&["quantize", HF, "q6"], "the types of 6 bits are Q6_K for GGUF"),
        (&["quantize", HF, "x.gguf", "UD-Q4_K_XL"], "a publisher's own mix. Q4_K_M with"),
        (&["quantize", HF, "x.gguf", "UD-Q2_K_XL"], "a publisher's own mix. Q2_K with"),
        (&["quantize", HF, "x.gguf", "UD-IQ2_M"], "a publisher's own mix. IQ2_M with"),
        (&["quantize", HF, "x.gguf", "Q3_K_XL"], "a publisher's own mix. Q3_K_L with"),
        (&["quantize", HF, "x.gguf", "Q6_K_L"], "a publisher's own mix. Q6_K with"),
        (&["quantize", HF, "x.gguf", "UD-Q8_K_XL"], "a publisher's own mix. Q8_0 comes near"),
        (&["convert", HF, "x.pt"], "files that end in .pt, of PyTorch, are not written"),
        (&["convert", HF, "x.onnx"], "files that end in .onnx, of ONNX, are not written"),
        (&["convert", GGUF, "x.npz"], "files that end in .npz, of NumPy, are not written"),
        (
            &["mlx_lm.convert", "--hf-path", HF, "-q", "--q-bits", "4.5"],
            "--q-bits is 4.5, and a whole number is needed",
        ),
        (&["pull", "org/name", "--type", "dataset"], "use `hf download`"),
        (
            &["pull", "hf://datasets/org/name"],
            "`hf download --repo-type dataset org/name` downloads it",
        ),
        (&["hf", "download", "spaces/org/name"], "org/name is a space of the hub, not a model"),
        (&["https://huggingface.co/datasets/org/name"], "a data set of the hub, not a model"),
        (
            &["run", "Once", GGUF],
            "the model comes first: `weighbridge run assets/sample/sample-Q8_0.gguf 'Once'`",
        ),
        (&["run", "Why is it so?"], "`weighbridge run MODEL 'Why is it so?'`"),
        (&["merge", HF, "no-adapter", "x"], "no-adapter: no such file"),
        (&["merge", "no-model", ADAPTER, "x"], "no-model: no such file"),
        (&["gguf-upgrade", GGUF], "`weighbridge convert FILE NEW.gguf`"),
        (&["gguf", "upgrade", GGUF], "`weighbridge convert FILE NEW.gguf`"),
        (
            &["llama-imatrix", "-m", GGUF, "-f", "x.txt", "--show-statistics"],
            "computes no importance matrix",
        ),
        (&["memory", GGUF, "--xyzzy", "8G"], "`memory` has no option --xyzzy"),
        (&["memory", GGUF, "--swap-space", "4GiB"], "`--room 7G` is what a model may take"),
        (&["memory", GGUF, "--kv-cache-memory-bytes", "2G"], "`--room 7G` is what a model may"),
        (&["llama-export-lora"], "for example `weighbridge convert ./Qwen3-8B ./merged --to"),
        (&["llama.cpp/llama-quantize", GGUF, "x.gguf", "Q9"], "lists the types of GGUF; mlx4"),
        (&["embed", "a", "text", GGUF], "sample-Q8_0.gguf 'a text'`"),
        (&["quantize", HF, "mlx4", "--pure"], "--pure is for types of GGUF, but 4bit is MLX"),
        (
            &["quantize", HF, "Q4_0", "--quant-predicate", "mixed_3_6"],
            "--quant-predicate is for types of MLX",
        ),
        (
            &["quantize", HF, "x.safetensors", "Q4_0"],
            "x.safetensors is the name of a safetensors file",
        ),
        (&["quantize", HF, "x/", "Q4_0"], "x/ is a folder, but GGUF is a file"),
        (&["quantize", HF, "x", "Q4_0"], "x has no ending, and a GGUF file ends in .gguf"),
        (
            &["quantize", HF, "x.gguf", "mlx4"],
            "x.gguf is the name of a file, but MLX is a directory",
        ),
        (&["quantize", GGUF, "tale:q4", "Q4_0"], "`weighbridge create tale:q4 FILE.gguf`"),
        (&["convert", HF, "x", "--store", "y"], "--store has no meaning for safetensors"),
        (&["split", GGUF], "the parts have no name"),
        (&[GGUF, "--metadata", "general.name"], "`weighbridge meta get"),
        (&["quantize", HF, "Q4_K_X"], "Q4_K_X is no type: did you mean Q4_K_S?"),
        (&["quantize", HF, "x.gguf", "nf4"], "the types of 4 bits are Q4_K_M for GGUF"),
        (&["quantize", HF, "x.gguf"], "the type is missing"),
        (&["convert", HF, "x.gguf", "--dtype", "int8"], "of 8 bits are Q8_0"),
        (
            &["memory", "7B"],
            "so many weights take 13.0 GiB in F16, 6.9 GiB in Q8_0, 3.7 GiB in Q4_0",
        ),
        (&["memory", "8G"], "`memory MODEL --room 8G`"),
        (&["memory", "assets/sample/hf/config.json"], "`weighbridge memory hf://ORG/NAME`"),
        (&["memory", GGUF, "--room", "8"], "8 is a number of bytes: add a unit, as in 8GiB"),
        (&["verify", GGUF, "--md5", "0"], "the checksum is a SHA-256"),
        (&["verify", "-c", "SHA256SUMS"], "`sha256sum -c FILE`"),
        (&["inspect", GGUF, "token_embd.weigth"], "the most similar name is \"token_embd.weight\""),
        (&["meta", "get", GGUF, "tokenizer.ggml.eos"], "\"tokenizer.ggml.eos_token_id\""),
        // Of two wrong names, the first.
        (&["convert", "none.gguf", "out"], "none.gguf: no such file"),
        (
            &["hf_ptq.py", "--pyt_ckpt_path", HF, "--qformat", "fp8"],
            "Q8_0 is about as large as FP8",
        ),
        (&["modelopt", "quantize"], "GPTQ and AWQ are read, not written"),
        (&["quantize_quark.py", "--model_dir", HF], "GPTQ and AWQ are read, not written"),
        (&["lms", "get", "qwen3@q4_k_m", "-y"], "LM Studio's catalogue is its own, not Ollama's"),
        (&["lms", "get", "--gguf", "qwen3"], "`weighbridge pull ORG/NAME:Q4_K_M`"),
        (&["tune", "run", "lora_finetune"], "Weighbridge does not train"),
        (&["torchtune", "run", "lora_finetune"], "Weighbridge does not train"),
        (&["quantize", HF, "99"], "99 is no type: llama-quantize has no type of this number"),
        (&["inspect", GGUF, "--json-array"], "`weighbridge meta get FILE --json`"),
        (&["hf", "datasets"], "Weighbridge has nothing for `hf datasets`"),
        (&["mlx_lm.frobnicate"], "Weighbridge has nothing for `mlx_lm frobnicate`"),
        (&["mergekit-frobnicate", "x.yml"], "Weighbridge has nothing for `mergekit-frobnicate`"),
        (&["mergekit-moe", "x.yml"], "no mixture of experts of several models"),
        (&["mlx_lm.cache_prompt", "--prompt", "x"], "no prompt is kept"),
        (&["inspect", GGUF, "--columns", "name"], "`--json` has all columns"),
        (&["convert", HF, "--q8_0"], "did you mean --dtype Q8_0?"),
        (&["models", "rm", "tale"], "Weighbridge deletes no models"),
        (&["meta", "rm", GGUF, "general.name", "--backup"], "write `-o COPY`"),
        (&["diff", GGUF, HF, "--layers", "0-1"], "`--filter 'layers.0.*'`"),
        (&["dump", GGUF, "output_norm.weight", "--csv"], "prints a row on each line"),
        (&["convert", HF, "--load-in-4bit"], "`weighbridge quantize SRC --type mlx4`"),
        (&["pull", "org/name", "--repo-type", "dataset"], "use `hf download`"),
        (&["gguf-dump", "--data-offset", GGUF], "[.tensors[].parts[].offset] | min"),
        (&["memory", GGUF, "--gpu-layers", "8"], "`weighbridge memory MODEL --room 8G`"),
        (&["mlx_lm.fuse", "--model", HF, "--export-gguf"], "`weighbridge merge MODEL ADAPTER"),
        (&["asets"], "did you mean assets?"),
        (&["nab", GGUF], "`weighbridge help` lists the commands"),
        (&["convert", HF, "--fp16"], "did you mean --dtype F16?"),
        (&["inspect", GGUF, "--size"], "did you mean --sort size?"),
        (&["bench", GGUF, "--fused"], "did you mean --fuse?"),
        (&["view", GGUF, "--html"], "a value is required for '--output <FILE>'"),
        (&["verify", GGUF, "--perplexity"], "--run may be meant: Also run the model on 64 tokens"),
        (&["verify", GGUF, "--against", GGUF], "is a model, not a list of hashes"),
        (&["import", GGUF], "`weighbridge create NAME assets/sample/sample-Q8_0.gguf`"),
        (&["quantize", HF, "q4"], "q4 is no type: the types of 4 bits are Q4_K_M"),
        (&["quantize", HF, "Q4_K_M", "Q8_0"], "several types are given"),
        (&["quantize", HF, "Q8_0", "--type", "mlx4"], "two types are given: Q8_0 and mlx4"),
        (&["quantize", HF, "Q8_0", "--mlx", "4"], "two types are given: Q8_0 and 4"),
        (&["convert", HF, "Q8_0", "--dtype", "bf16"], "two types are given: Q8_0 and bf16"),
        (&["split", GGUF, "3"], "`--max-shard-size 4G`"),
        (&["tokenize", GGUF, "README.md"], "README.md is a file, not the text"),
        (&["merge", "m-1-of-2.gguf", "m-2-of-2.gguf"], "the new model has no name"),
        (&["inspect", GGUF, "-o", "x.json"], "`> FILE` writes what is printed"),
        (
            &["gguf-new-metadata", GGUF, "--remove-metadata", "x", "x.gguf"],
            "the model has no such key",
        ),
        (
            &["gguf-diff", GGUF, HF],
            "did you mean `weighbridge diff assets/sample/sample-Q8_0.gguf assets/sample/hf`?",
        ),
        (
            &["diff_models", GGUF, "a b"],
            "did you mean `weighbridge diff assets/sample/sample-Q8_0.gguf 'a b'`?",
        ),
        (&["frob-nab", GGUF, HF], "`weighbridge help` lists the commands"),
        (&["unsloth"], "`unsloth` alone names another program, not a command"),
        (&["memory", GGUF, "8X"], "8X is no size"),
        (&["convert", GGUF, "--lora", "x"], "the merged model has no name"),
        (&["gguf-dump", GGUF, "--data-offset"], "`gguf-dump` has no option --data-offset here"),
        (&["llama-tts", "-m", GGUF], "Weighbridge has nothing for `llama-tts`"),
        (&["inspect", GGUF, "--verify"], "`weighbridge verify ...` is a command of its own"),
        (&["convert", HF, "--imatrix", "x"], "`quantize` has --imatrix"),
        (&["inspect", GGUF, "-fx"], "`inspect` has no option -fx"),
        (&["inspect", GGUF, "-hx"], "`inspect` has no option -hx"),
        (&["hf", "models", "ls"], "Weighbridge does not search the hub"),
        (&["dump", GGUF, "output_norm.weight", "-o", "x.pt"], "x.pt is the name of another format"),
        (&["pull", "org/name", "-o", "x.gguf"], "x.gguf: the name of a file"),
        (&["convert", "m-1-of-2.gguf", "m-2-of-2.gguf", "x"], "shards of one model"),
        (&["merge", BASE, ADAPTER, "--scale", "0.5"], "--lora ADAPTER:0.5`"),
        (&["convert-h5-to-ggml.py", HF, "out"], "`weighbridge convert DIR DST` reads"),
        (&["memory", HF, "Q4_K_M"], "`weighbridge quantize assets/sample/hf --list-types`"),
        (&["diff", HF, GGUF, GGUF], "`weighbridge quality` take more"),
        (&["dump", GGUF, "output_norm.weight[0:4]"], "output_norm.weight --rows 0:4`"),
        (&[GGUF, "--vram", "8"], "`weighbridge memory` is a command of its own"),
        (&["export", GGUF, "output_norm.weight", "--rows", "0:4"], "`dump` has --rows"),
        (&["models", "tales", "--path"], "`--json` has the path"),
        (
            &["quantize", HF, "Q4_K_M,Q8_0"],
            "`for t in Q4_K_M Q8_0; do weighbridge quantize assets/sample/hf $t; done`",
        ),
        (&["quantize", HF, "bnb4"], "bnb4 is no type: the types of 4 bits"),
        (&["quantize", GGUF, "Q4_0", "--allow-requantize", "--outdir", "x"], "x has no ending"),
        (&["run", "tokens", GGUF, "--id", "3"], "did you mean --ids?"),
        (&[HF, "8G"], "`weighbridge memory assets/sample/hf 8G`"),
        (&[HF, "new.gguf"], "`weighbridge convert assets/sample/hf new.gguf`"),
        (&[GGUF, "Hello there"], "`weighbridge run assets/sample/sample-Q8_0.gguf 'Hello there'`"),
        (&[HF, "Q4_K_M"], "`weighbridge quantize assets/sample/hf Q4_K_M`"),
        (
            &["quantize", HF, "x-q4_k_m.gguf"],
            "`weighbridge quantize assets/sample/hf x-q4_k_m.gguf Q4_K_M`",
        ),
        (&["quantize", HF, HF, HF, "Q4_0"], "one command each"),
        (&["convert", HF, "--to", "gguf", "x/"], "x/ is a folder, but GGUF is a file"),
        (&["merge", GGUF], "the new model has no name"),
        (&["~/x.gguf"], "\"$HOME/x.gguf\" works in them"),
        (&["file:///x.gguf"], "a file is given by its path: /x.gguf"),
        (&["*.gguf"], "the shell replaces * outside of quotes only"),
        (&["assets/sample/sample-Q8_0.gguf/"], "sample-Q8_0.gguf is a file: leave the / out"),
        (&["inspect", "-"], "standard input is not read here"),
        (
            &["mlx_lm.fuse", "--model", HF, "--adapter-path", "none", "--save-path", "x"],
            "there is no none",
        ),
        (&["convert", HF, "x.gguf", "-o", "y.gguf"], "x.gguf is given, and -o too"),
        (&["run", GGUF, "x", "--format", "json"], "the model writes what it likes"),
        (&["quantize", HF, "4bit-g32"], "4bit-g32 is no type: mlx4,32 is 4 bits in groups of 32"),
        (&["quantize", HF, "dwq4"], "dwq4 is no type: Weighbridge does not write it"),
        (&["quantize", HF, "4"], "4 is no type: mlx4 is 4 bits for MLX"),
        (&["convert", HF, "x", "--tensor-parallel-size", "2"], "`convert` has no option"),
        (&["convert", HF, "x", "--tensor-parallel-size", "2"], "--shards tp=2"),
        (&["convert", HF, "Q4_K_M", "--frobnicate"], "`convert` has no option --frobnicate"),
        (&["verify", "--all"], "for example `weighbridge verify model.gguf"),
        (&["convert", HF, "-o", "-"], "invalid value '-' for '-o <DST>'"),
        (&["convert", HF, "ollama://tale"], "`weighbridge convert SRC NAME --to ollama`"),
        (
            &["convert_llama_ggml_to_gguf.py", "--input", "x", "--output", "y"],
            "files older than GGUF",
        ),
        (&["make_what.py", "x"], "Weighbridge has nothing for `make_what.py`"),
        (&["meta", "set", GGUF, "general.tags=str:a", "--dry-run"], "is an array of strings"),
        (
            &["meta", "set", "assets/sample/hf/model.safetensors", "author=me", "-o", "x"],
            "the metadata of a safetensors file cannot be changed",
        ),
        (&["meta", "get", HF, "rope_theta"], "`inspect MODEL --config` shows"),
        (&[GGUF, "general.architecture"], "`weighbridge meta get assets/sample/sample-Q8_0.gguf"),
        (&["verify", GGUF, "--against", "README.md"], "`weighbridge hash MODEL --save LIST`"),
        (&["inspect", GGUF, "--wid"], "did you mean --wide?"),
        (&["where", "tale"], "`weighbridge models NAME --json`"),
        (&["fp8_cast_bf16.py", "--input-fp8-hf-path", "x"], "`weighbridge convert DIR OUT --dtype"),
        (&["meta", "set", GGUF, "x.a=1", "x.b=no", "--dry-run"], "x.b=str:TEXT"),
        (&["run", GGUF, "Once", "--foo", "1"], "has no option --foo"),
        (&["run", "--foo", "1", GGUF, "Once"], "has no option --foo"),
        (&["convert", HF, "--foo", "x", "-o", "y.gguf"], "`convert` has no option --foo"),
        (&["merge", HF, "--foo", "x", "-o", "y"], "`merge` has no option --foo"),
        (&["run", GGUF, "Once", "--max-token", "5"], "did you mean --max-tokens?"),
        (&["quantize", HF], "the type is missing"),
        (&["llama-quantize"], "for example `weighbridge quantize"),
        (
            &["merge", "x.gguf-split-aa", "x.gguf-split-ab", "x.gguf-split-ac", "x"],
            "`cat PIECES > FILE`",
        ),
        (&["convert", HF, "out\\x.gguf"], "folders are divided by /: out/x.gguf"),
        (&["assets\\sample\\sample-Q8_0.gguf"], "did you mean assets/sample/sample-Q8_0.gguf?"),
        (&["llama-cli", "-hfr", "o/n", "-hff", "x.gguf", "-p", "x"], "`hf://ORG/NAME/FILE`"),
        (&["run", GGUF, HF], "are two models"),
        (
            &["meta", "set", GGUF, "tokenizer.ggml.tokens[5]=str:x"],
            "one element of an array is not set",
        ),
        (&["meta", "set", GGUF, "ropefreqbase=1e6"], "the nearest key is \"llama.rope.freq_base\""),
        (&["quality", GGUF, "-p", "text"], "`--text FILE` measures on the text"),
        (&["memory", GGUF, "24"], "24 is a number of bytes: add a unit"),
        (&["memory", GGUF, "2x24G"], "`--device gpu0=24G --device gpu1=24G`"),
        (&["dump", GGUF, "output_norm.weight[0,0:8]"], "output_norm.weight --rows 0`"),
        (&["dump", GGUF, "output_norm.weight", "--as", "f16", "-o", "x.npy"], "an array of NumPy"),
        (&["create", "tale", GGUF, "--template", "{% if x %}"], "`weighbridge meta set FILE"),
        (&["run", GGUF], "`weighbridge run assets/sample/sample-Q8_0.gguf 'Why"),
        (&["q8_0", HF], "`weighbridge quantize assets/sample/hf q8_0`"),
        (&["quantize", HF, "mixed_4_6"], "`mlx4 --quant-predicate mixed_4_6`"),
        (&["convert", HF, "x", "--to", "mlx4"], "`weighbridge quantize SRC DST mlx4`"),
        (&["completions"], "for example `weighbridge completions bash"),
        (&["convert"], "for example `weighbridge convert"),
        (&["meta", "set", GGUF, "general.name", "=", "x"], "=: expected KEY=VALUE, without spaces"),
        (&["meta", "set", GGUF, "add_bos_token=yes"], "\"yes\" is not a valid bool: true or false"),
        // Before any table is printed.
        (
            &["stats", GGUF, "blk.0.attn_k.weigth"],
            "the most similar name is \"blk.0.attn_k.weight\"",
        ),
        (&["memory", GGUF, "--gpu-memory-utilization", "0.9"], "`--room 21.6G` is 0.9 of 24 GB"),
        (&["mergekit-yaml", "x.yml", "x", "--dtype", "float16"], "`dtype: bfloat16` in a recipe"),
        (&["lms", "load", "x"], "Weighbridge keeps no model running"),
        (&["quantize", HF, "--q4_k_m"], "without the dashes: Q4_K_M"),
        (&["quantize", HF, "Q4_0", "--target-bpw", "4.5"], "--list-types` shows the size"),
        (&["quantize", HF, "Q4_0", "--exclude", "output"], "`--tensor-type REGEX=F16`"),
        (&["run", GGUF, "x", "-j", "{}"], "the model writes what it likes"),
        (&["inspect", GGUF, "--list-devices"], "`weighbridge list devices` is a command"),
        (&["optimum-cli", "export", "onnx"], "GGUF, safetensors and MLX are written"),
        (&["mlx_lm.evaluate", "--model", HF], "tasks such as MMLU are not run"),
        (&["mlx_lm.quant.awq", "--model", HF], "nothing is calibrated here"),
        (&["llama-cli", "-m", GGUF, "--lora-scaled", "x", "0.5"], "DST --lora ADAPTER:0.5`"),
        (&["perplexity", GGUF, "--save-all-logits", "x"], "`weighbridge quality ORIGINAL MODEL`"),
        (&["meta", "set", GGUF, "nothing=1"], "a new one has a dot: general.nothing=u32:1"),
        (&["meta", "set", GGUF, "name=a", "general.name=b"], "general.name is given twice"),
        (
            &["meta", "set", GGUF, "sliding_window=8"],
            "no key \"llama.attention.sliding_window\" yet",
        ),
        (&["clone", GGUF, "c.gguf"], "`cp assets/sample/sample-Q8_0.gguf c.gguf`"),
        (&["pull", "org/name", "--to", "ollama"], "`weighbridge create NAME hf.co/ORG/NAME`"),
        (&["hash", GGUF, "output_norm.weight"], "is a tensor, and `hash` is for whole models"),
        (
            &["create", "tale", "-f", GGUF],
            "`weighbridge create tale assets/sample/sample-Q8_0.gguf`",
        ),
        (
            &["does", GGUF, "fit", "in", "8GB"],
            "`weighbridge memory assets/sample/sample-Q8_0.gguf`",
        ),
        (&["what", "is", GGUF], "`weighbridge assets/sample/sample-Q8_0.gguf` may be meant"),
        (&["delete-tensor", GGUF, "x"], "--leave-out NAME` leaves out a tensor"),
        (&["merge", "-m", "slerp", HF, HF, "x"], "by a file: `weighbridge merge RECIPE.yml DST`"),
        (&["inspect", GGUF, "--tree"], "leave it out: `weighbridge inspect` shows it"),
        (&["quantize", HF, "Q4_0_8_8"], "llama.cpp has retired it"),
        (
            &["python", "examples/reader.py", GGUF],
            "`weighbridge assets/sample/sample-Q8_0.gguf` may",
        ),
        (&["curl", "http://localhost:1/api/generate", "-d", "{}"], "`weighbridge run MODEL TEXT`"),
        (&["python", "examples/convert_x.py", HF], "`weighbridge convert DIR DST` reads"),
        (&["python3", "-c", "import gguf"], "its module is `import weighbridge`"),
        (&["mergekit-legacy", "x", "--merge", HF], "`weighbridge merge RECIPE.yml DST`"),
        (&["mergekit-pytorch", "x.yml", "y"], "`weighbridge merge RECIPE.yml DST`"),
        (
            &["frobnicate", GGUF, "output_norm.weight", "--outliers", "10"],
            "`weighbridge assets/sample/sample-Q8_0.gguf output_norm.weight` may be meant",
        ),
        (
            &["dump", GGUF, "output_norm.weight[:4]", "--npy", "x.npy"],
            "`weighbridge dump assets/sample/sample-Q8_0.gguf output_norm.weight --rows :4 -o x.npy`",
        ),
        (&["dump", GGUF, "a", "b", "-o", "x.npz"], "`for t in a b; do weighbridge dump"),
        (&["convert", HF, "--fuse-gate-up-exps"], "gate and up of experts are two tensors"),
        (&["run", GGUF, "Once", "--no-think"], "a template gets the prompt"),
        (&["llama-imatrix", "--in-file", "x.dat", "-o", "y.gguf"], "both forms"),
        (
            &["llama-imatrix", "--in-file", "a", "--in-file", "b", "-o", "c"],
            "importance matrices are neither joined nor converted",
        ),
        (&["llama-imatrix", "-o", "c", "--output-format", "dat"], "computes no importance matrix"),
        (&["quantize", HF, "Q4_0", "--imatrix", "a", "--imatrix", "b"], "they are not joined here"),
        (&["mlx_lm.fuse", "--model", BASE], "adapters: no weights here"),
        (
            &["mlx_lm.fuse", "--adapter-path", ADAPTER],
            "`weighbridge merge MODEL tests/fixtures/lora/llama/adapter DST`",
        ),
        (&["merge", ADAPTER, "--dst", "x"], "merge MODEL tests/fixtures/lora/llama/adapter x`"),
        (&["merge", ADAPTER, "x"], "merge MODEL tests/fixtures/lora/llama/adapter x`"),
        (&["hf", "cp", "hf://o/n/config.json", "."], "`weighbridge pull ORG/NAME FILE -o FOLDER`"),
        (&["git", "lfs", "install"], "Weighbridge needs no Git LFS"),
        (&["git-lfs", "track", "x"], "Weighbridge needs no Git LFS"),
        (&["git", "lfs", "ls-files"], "for example `weighbridge pull"),
        (
            &["inspect", "token_embd.weigth", GGUF],
            "`weighbridge inspect assets/sample/sample-Q8_0.gguf TENSOR`",
        ),
        (&["inspect", "assets/sample/sample"], "did you mean assets/sample/sample-Q8_0.gguf?"),
        (&["inspect", "assets/sample/Sample.gguf"], "did you mean assets/sample/sample-Q8_0.gguf?"),
        (&["dump", GGUF, "tokenizer"], "`weighbridge run tokens MODEL` lists the special tokens"),
        (&["gguf-hash", "--sha1", GGUF], "`sha1sum FILE`"),
        (&["zero_to_fp32.py", ".", "out"], "writes safetensors"),
        (&["unsloth-cli.py", "--save_gguf"], "Weighbridge does not train"),
        (&["accelerate", "merge-weights", "a", "b"], "accelerate joins its own shards"),
        (&["models", "--filter", "size>1MB"], "`--sort size` sorts"),
        (&["head", "-c", "4", GGUF], "`xxd FILE`"),
    ];
    let said = rows.iter().map(|(words, sentence)| (words, sentence, refused(words)));
    let wrong: Vec<_> = said
        .filter(|(_, sentence, said)| !said.contains(*sentence) || said.contains("tip:"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(failure(&["convert", HF, "--frobnicate", "--json"])["advice"], lists);
}

#[test]
fn words_of_other_programs_mean_the_same() {
    let (half, both) = (format!("{ADAPTER}:0.5"), format!("{ADAPTER},{ADAPTER}:0.5"));
    for (words, here) in [
        (&["stats", GGUF, "output_norm.weight"][..], &["inspect", GGUF, "output_norm.weight"][..]),
        (
            &["stats", GGUF, "--tensor", "output_norm.weight"],
            &["inspect", GGUF, "output_norm.weight"],
        ),
        (&["stats", GGUF, "attn_q"], &["inspect", GGUF, "--stats", "--filter", "attn_q"]),
        (&["inspect", GGUF, "attn_q", "--all"], &["inspect", GGUF, "--all", "--filter", "attn_q"]),
        (&["special-tokens", GGUF], &["run", "tokens", GGUF]),
        (&["dump", "output_norm.weight", GGUF], &["dump", GGUF, "output_norm.weight"]),
        (&["inspect", "output_norm.weight", GGUF], &["inspect", GGUF, "output_norm.weight"]),
        (
            &["mlx_lm.fuse", "--model", BASE, "--adapter-path", ADAPTER, "--dry-run"],
            &["merge", BASE, ADAPTER, "fused_model", "--dry-run"],
        ),
        (
            &[
                "merge_peft.py",
                "--base_model",
                BASE,
                "--peft_model",
                ADAPTER,
                "-o",
                "x",
                "--dry-run",
            ],
            &["merge", BASE, ADAPTER, "x", "--dry-run"],
        ),
        (
            &[
                "merge_lora.py",
                "--base_model",
                BASE,
                "--lora_model",
                ADAPTER,
                "-o",
                "x",
                "--dry-run",
            ],
            &["merge", BASE, ADAPTER, "x", "--dry-run"],
        ),
        (&["meta", "get", "general.name", GGUF], &["meta", "get", GGUF, "general.name"]),
        (&["memory", GGUF, "--available-vram", "8G"], &["memory", GGUF, "--room", "8G"]),
        (
            &["run", GGUF, "--text", "Once", "-n", "1"],
            &["run", GGUF, "--prompt", "Once", "-n", "1"],
        ),
        (&["get", GGUF, "general.name"], &["meta", "get", GGUF, "general.name"]),
        (&["meta", "get", GGUF, "--key", "general.name"], &["meta", "get", GGUF, "general.name"]),
        (
            &["meta", "set", GGUF, "--key", "general.name", "--value", "Z", "--dry-run"],
            &["meta", "set", GGUF, "general.name=Z", "--dry-run"],
        ),
        (&["uvx", "--from", "gguf", "gguf-dump", GGUF], &["gguf-dump", GGUF]),
        (
            &["uv", "run", "--with=gguf", "python", "-u", "-m", "gguf.scripts.gguf_dump", GGUF],
            &["gguf-dump", GGUF],
        ),
        (
            &["merge", BASE, "x", "--lora", ADAPTER, "--dry-run"],
            &["merge", BASE, ADAPTER, "x", "--dry-run"],
        ),
        (&[GGUF, "--tensors"], &["inspect", GGUF, "--all"]),
        (
            &["inspect", "--input", GGUF, "--grep", "attn_q"],
            &["inspect", GGUF, "--filter", "attn_q"],
        ),
        (&["hash", GGUF, "--verbose"], &["hash", GGUF]),
        (&["nan", GGUF], &["verify", GGUF, "--deep"]),
        (
            &["quantize", "-i", HF, "-t", "Q4_K_M", "--dry-run"],
            &["quantize", HF, "Q4_K_M", "--dry-run"],
        ),
        (&["quantize", HF, "mlx_4bit", "--dry-run"], &["quantize", HF, "mlx4", "--dry-run"]),
        (&["convert", GGUF, "mlx", "--dry-run"], &["convert", GGUF, "--to", "mlx", "--dry-run"]),
        (&["convert", HF, "fp16", "--dry-run"], &["convert", HF, "--dtype", "F16", "--dry-run"]),
        (&["quantize", HF, "half", "--dry-run"], &["quantize", HF, "F16", "--dry-run"]),
        (
            &["quantize", HF, "x.gguf", "torch.bfloat16", "--dry-run"],
            &["quantize", HF, "x.gguf", "BF16", "--dry-run"],
        ),
        (
            &["merge", BASE, ADAPTER, "x.gguf", "--quantize", "Q4_0", "--dry-run"],
            &["quantize", BASE, "x.gguf", "Q4_0", "--lora", ADAPTER, "--dry-run"],
        ),
        (&["--all", "inspect", GGUF], &["inspect", GGUF, "--all"]),
        (&[GGUF, "verify"], &["verify", GGUF]),
        (
            &["mlx_lm", "convert", "--hf-path", HF, "--dry-run"],
            &["convert", HF, "--to", "mlx", "--dst", "mlx_model", "--dry-run"],
        ),
        (
            &["gguf_set_metadata.py", GGUF, "general.name", "X", "--force", "--dry-run"],
            &["meta", "set", GGUF, "general.name=X", "--dry-run"],
        ),
        (
            &["meta", "set", GGUF, "rope_freq_base=5", "chat-template=x", "--dry-run"],
            &["meta", "set", GGUF, "llama.rope.freq_base=5", "chat_template=x", "--dry-run"],
        ),
        (&["types", "q4_k"], &["list", "types", "Q4_K"]),
        (&["supports", "Qwen3ForCausalLM"], &["list", "architectures", "qwen3"]),
        (&["memory", GGUF, "8", "GB"], &["memory", GGUF, "--room", "8GB"]),
        (&["run", "tokens", GGUF, "--ids", "[1, 262]"], &["run", "tokens", GGUF, "--ids", "1,262"]),
        (&["dequantize", GGUF, "--dry-run"], &["convert", GGUF, "--dtype", "F16", "--dry-run"]),
        (&["analyze", GGUF, "output_norm.weight"], &["inspect", GGUF, "output_norm.weight"]),
        (
            &["meta", "set", GGUF, "pre-tokenizer=qwen2", "--dry-run"],
            &["meta", "set", GGUF, "tokenizer.ggml.pre=qwen2", "--dry-run"],
        ),
        (
            &["gguf_new_metadata.py", "--pre-tokenizer", "qwen2", GGUF, "x.gguf", "--dry-run"],
            &["meta", "set", GGUF, "tokenizer.ggml.pre=qwen2", "-o", "x.gguf", "--dry-run"],
        ),
        (
            &["convert", BASE, "x", "--lora", &both, "--dry-run"],
            &["convert", BASE, "x", "--lora", ADAPTER, "--lora", &half, "--dry-run"],
        ),
        (
            &["quantize", HF, "assets", "Q4_0", "--dry-run"],
            &["quantize", HF, "assets/hf-Q4_0.gguf", "Q4_0", "--dry-run"],
        ),
        (
            &["convert", HF, "--to", "gguf", "assets", "--dry-run"],
            &["convert", HF, "assets/hf.gguf", "--dry-run"],
        ),
        (
            &["merge", BASE, ADAPTER, ADAPTER, "x", "--dry-run"],
            &["convert", BASE, "x", "--lora", ADAPTER, "--lora", ADAPTER, "--dry-run"],
        ),
        (&["quantize", "Q4_K_M", HF, "--dry-run"], &["quantize", HF, "Q4_K_M", "--dry-run"]),
        (
            &["convert", HF, "x.gguf", "--dtype", "float16", "--no-lazy", "--dry-run"],
            &["convert", HF, "x.gguf", "--dtype", "F16", "--dry-run"],
        ),
    ] {
        let [a, b] = [words, here].map(run);
        assert_eq!((a.status, a.out), (Some(0), b.out), "{words:?}: {}", a.err);
    }
}

/// As llama.cpp's programs read it.
#[test]
fn a_text_may_be_in_a_file() {
    let (_folder, path) = file("prompt", b"Once upon\na time\n");
    let text = "Once upon\na time";
    for (words, option) in [(["run", "tokens"], "--text"), (["run", "generate"], "--prompt")] {
        let [held, typed] = [["-f", &path], [option, text]].map(|given| {
            let limit: &[&str] = if words[1] == "generate" { &["-n", "2"] } else { &[] };
            run(&[&words[..], &[GGUF], &given, limit].concat()).out
        });
        assert_eq!(held, typed, "{words:?}");
        assert!(!held.is_empty(), "{words:?}");
    }
}

/// Tensors after a model are shown one after the other.
#[test]
fn several_tensors_of_a_model_are_shown() {
    let [a, b] = ["output_norm.weight", "attn_q"];
    let each = [a, b].map(|name| printed(&["inspect", GGUF, name]));
    assert_eq!(printed(&["inspect", GGUF, a, b]), each.join("\n"));
    let wrong = run(&["inspect", GGUF, a, "frobnicate"]);
    assert!(wrong.err.contains("neither a model nor a tensor"), "{}", wrong.err);
}

/// Shards that were downloaded to folders of their own are no two models.
#[test]
fn shards_in_different_folders_are_called_so() {
    let (_folder, model) = sample();
    let out = tempfile::tempdir().expect("a folder");
    let at = |name: &str| out.path().join(name).to_str().expect("a path").to_owned();
    let names = ["a/x-00001-of-00002.gguf", "b/x-00002-of-00002.gguf", "c/x-00002-of-00002.gguf"];
    for name in names {
        let path = out.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&model, path).expect("a file");
    }
    let [first, second, third] = names.map(at);
    for words in [
        &["merge", &first, &second, &at("x.gguf")][..],
        &["merge", &at("a"), &at("b"), &at("x.gguf")],
        &["convert", &first, &second, "-o", &at("x")],
        &["quantize", &first, &second, &at("x.gguf"), "Q4_0"],
    ] {
        let said = refused(words);
        assert!(said.contains("shards of one model in different folders"), "{words:?}: {said}");
    }
    // The same shard twice is of two models.
    let said = refused(&["merge", &second, &third, &at("x.gguf")]);
    assert!(said.contains("are two models"), "{said}");
}

/// A file's name alone is one of the working folder, whose other files are looked at.
#[test]
fn files_of_the_working_folder_need_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let weights = Path::new(BASE).join("model.safetensors");
    std::fs::copy(crate::support::root().join(weights), folder.path().join("x.safetensors"))
        .expect("a file");
    for words in [
        &["merge", "x.safetensors", "y.safetensors"][..],
        &["split", "x.safetensors", "z", "--max-tensors", "2"],
    ] {
        let ran = program(words).current_dir(folder.path()).output().expect("a run");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    // Its header is of another program, which says what to do.
    let said = refused(&[
        "meta",
        "set",
        &folder.path().join("x.safetensors").to_string_lossy(),
        "format=pt",
    ]);
    assert!(said.contains("convert SRC DST --to safetensors` writes format=pt"), "{said}");
    assert!(said.contains("save_file(load_file(SRC)"), "{said}");
}

#[test]
fn a_path_with_spaces_needs_quotes() {
    let (_folder, path) = file("my model.gguf", b"GGUF");
    // In the folder of the file, so that its name begins the words.
    let mut program = program(&["my", "model.gguf"]);
    let program = program.current_dir(Path::new(&path).parent().expect("a folder"));
    let said = String::from_utf8(program.output().expect("a run").stderr).expect("UTF-8");
    assert!(said.contains("`weighbridge 'my model.gguf'`"), "{said}");
}

/// Options without an effect are named.
#[test]
fn what_is_dropped_is_said() {
    let said = |words: &[&str]| run(words).err;
    let text = ["run", "generate", GGUF, "--prompt", "Once", "--max-tokens", "1"];
    for option in [["--top-p", "0.9"], ["--top-k", "5"], ["--seed", "3"]] {
        let told = said(&[&text[..], &option].concat());
        assert!(told.contains(&format!("{} has no effect without --temp", option[0])), "{told}");
        let told = said(&[&text[..], &option, &["--temp", "0"]].concat());
        assert!(told.contains(&format!("{} has no effect with --temp 0", option[0])), "{told}");
        let told = said(&[&text[..], &option, &["--temp", "0.8"]].concat());
        assert!(!told.contains("no effect"), "{told}");
    }
    let compared = said(&["compare", "none-a", "none-b"]);
    assert!(compared.contains("`weighbridge diff A B` compares tensors"), "{compared}");
    #[cfg(unix)]
    {
        let ran = fed(&mut program(&["tokenize", GGUF]), "hello");
        assert!(ran.err.contains("`--text -` splits the text on it"), "{}", ran.err);
        assert_eq!(said(&["tokenize", GGUF]), "");
    }
}

/// llama-quantize warns of it: a type that fits no row is not what the file has.
#[test]
fn tensors_of_another_dtype_are_counted() {
    let model = "tests/fixtures/hf/mixtral-bf16";
    let told = run(&["quantize", model, "Q3_K_M", "--dry-run"]).err;
    assert_eq!(told.matches("tensors do not divide into blocks").count(), 1, "{told}");
    assert!(told.contains(" are Q4_0, not Q3_K"), "{told}");
    let told = run(&["quantize", model, "Q8_0", "--dry-run"]).err;
    assert!(!told.contains("do not divide"), "{told}");
}

/// A list of texts is an array, in whatever form it is given.
#[test]
fn keys_of_several_texts_are_arrays() {
    let (_folder, path) = sample();
    for (given, stored) in [("a,b", r#"["a","b"]"#), (r#"["c"]"#, r#"["c"]"#), ("d", r#"["d"]"#)] {
        printed(&["meta", "set", &path, &format!("general.tags={given}")]);
        assert_eq!(printed(&["meta", "get", &path, "general.tags"]).trim(), stored);
    }
}

/// Bytes, and no text, for a name that says so.
#[test]
fn a_file_of_bytes_has_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.bin");
    let ran = run(&["extract", GGUF, "output_norm.weight", path.to_str().expect("UTF-8")]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(std::fs::read(&path).expect("a file").len(), 256 * 4);
}

/// The plan, which may take seconds, would fail for another reason.
#[test]
fn a_file_that_exists_is_refused_before_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("there.gguf");
    std::fs::write(&path, "old").expect("a file");
    let path = path.to_str().expect("UTF-8");
    for words in [
        &["quantize", GGUF, path, "Q2_K"][..],
        &["convert", "assets/sample/mlx-4bit", path, "--lossless"],
    ] {
        let said = refused(words);
        assert!(said.contains("already exists") && said.contains("--overwrite"), "{said}");
        let ran = run(&[words, &["--overwrite"]].concat());
        assert!(!ran.err.contains("already exists"), "{words:?}: {}", ran.err);
    }
}

#[test]
fn a_note_says_what_was_probably_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let said = |words: &[&str]| {
        let ran = run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
        ran.out + &ran.err
    };
    let named = said(&["convert", HF, &path("x-Q5_K_M.gguf"), "--dry-run"]);
    assert!(named.contains("is the name of a file in Q5_K_M, but holds BF16"), "{named}");
    for name in ["x-bf16.gguf", "x.gguf"] {
        let plain = said(&["convert", HF, &path(name), "--dry-run"]);
        assert!(!plain.contains("is the name of"), "{plain}");
    }
    let text = said(&["run", GGUF, "--prompt", "README.md", "-n", "1"]);
    assert!(text.contains("write \"$(cat README.md)\""), "{text}");
    let store = path("store");
    let text =
        said(&["create", "x", GGUF, "--system", "README.md", "--store", &store, "--dry-run"]);
    assert!(text.contains("write @README.md"), "{text}");
    let copy = path("copy.gguf");
    said(&["meta", "set", GGUF, "name=other", "author=me", "-o", &copy]);
    let equal = said(&["diff", GGUF, &copy]);
    let keys = "their metadata differs in 2 keys (`meta get`): general.author, general.name";
    assert!(equal.contains(keys), "{equal}");
    let lists = ["1,2", "2,1"].map(|list| {
        let to = path(&format!("{}.gguf", list.replace(',', "")));
        said(&["meta", "set", GGUF, &format!("a.list=u32[]:[{list}]"), "-o", &to]);
        to
    });
    let equal = said(&["diff", &lists[0], &lists[1]]);
    assert!(equal.contains("their metadata differs in 1 key (`meta get`): a.list"), "{equal}");
    let tuned = path("tuned");
    said(&["convert", HF, &tuned, "--to", "safetensors"]);
    let config = std::path::Path::new(&tuned).join("tokenizer_config.json");
    let text = std::fs::read_to_string(&config).expect("a document");
    let text = text.replacen('{', "{\"added\": 1, \"transformers_version\": \"9\",", 1);
    std::fs::write(&config, text).expect("written");
    std::fs::write(config.with_file_name("vocab.txt"), "a").expect("written");
    let equal = said(&["diff", HF, &tuned]);
    for words in [
        "the files beside the weights differ: ",
        "tokenizer_config.json (added)",
        "vocab.txt (only in B)",
    ] {
        assert!(equal.contains(words), "{equal}");
    }
    let shards = path("shards");
    said(&["split", GGUF, &shards, "--max-tensors", "10"]);
    let both = [1, 2].map(|number| format!("{shards}-0000{number}-of-00002.gguf"));
    let keys = both.each_ref().map(|shard| said(&["gguf-dump", "--no-tensors", shard]));
    let told = keys.map(|keys| keys.contains("these are the keys of the first shard"));
    assert_eq!(told, [false, true]);
    assert_eq!(said(&["verify", &both[0], &both[1]]), said(&["verify", &both[0]]));
}

/// As sha256sum writes it next to a file.
#[test]
fn a_digest_may_be_in_a_file() {
    let digest = "0".repeat(64);
    let (_folder, path) = file("sum", format!("{digest} *sample-Q8_0.gguf\n").as_bytes());
    let [held, typed] = [&path, &digest].map(|it| run(&["verify", GGUF, "--sha256", it]));
    assert_eq!((held.status, held.err), (Some(1), typed.err));
    assert_eq!(held.out, typed.out);
    let (_folder, path) = file("SUMS", format!("{digest}  a\n{digest}  b\n").as_bytes());
    let said = refused(&["verify", GGUF, "--sha256", &path]);
    assert!(said.contains("2 digests: `sha256sum -c"), "{said}");
}

/// llama.cpp's placeholders in the name of a file stand for the type that is written.
#[test]
fn types_in_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let convert = ["convert_hf_to_gguf.py", HF, "--outfile"];
    for (template, kind, name) in [
        ("a-{ftype}.gguf", "auto", "a-bf16.gguf"),
        ("b-{FTYPE}.gguf", "q8_0", "b-Q8_0.gguf"),
        ("c-{outtype}.gguf", "q4_k_m", "c-q4_k_m.gguf"),
    ] {
        printed(&[&convert[..], &[&at(template), "--outtype", kind]].concat());
        assert!(Path::new(&at(name)).is_file(), "{name}");
    }
    // Shards have it before their numbers.
    let shards = ["--outtype", "f16", "--split-max-size", "1M"];
    printed(&[&convert[..], &[&at("d-{ftype}.gguf")], &shards].concat());
    assert!(Path::new(&at("d-f16-00001-of-00003.gguf")).is_file());
}

/// A list before the model takes none of the arguments after it.
#[test]
fn lists_before_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::copy(crate::support::root().join(GGUF), at("out.gguf")).expect("a copy");
    let matrix = "tests/fixtures/gguf/misc/imatrix.gguf";
    let weights = ["llama-quantize", "--imatrix", matrix, "--exclude-weights", "output"];
    let said = refused(&[&weights[..], &[GGUF, &at("out.gguf"), "Q8_0", "4"]].concat());
    assert!(said.contains("out.gguf: already exists"), "{said}");
    printed(&["llama-quantize", "--tensor-type", "attn_v=q6_k", HF, &at("new.gguf"), "Q8_0", "2"]);
    assert!(Path::new(&at("new.gguf")).is_file());
}

/// A config with which another program merges an adapter is no recipe.
#[test]
fn configs_of_other_programs() {
    let axolotl = "base_model: acme/Tiny # the model\nadapter: lora\noutput_dir: ./out\n";
    let factory = "### model\nmodel_name_or_path: acme/Tiny\nadapter_name_or_path: saves/lora\n\
        template: qwen3\n\nexport_dir: \"output/tiny\"\n";
    for (text, words, here) in [
        (
            axolotl,
            &["axolotl", "merge-lora"][..],
            "`mkdir -p ./out && weighbridge merge acme/Tiny ./out ./out/merged`",
        ),
        (axolotl, &["merge", "--dst", "x"], "merge acme/Tiny ./out ./out/merged`"),
        (factory, &["llamafactory-cli", "export"], "merge acme/Tiny saves/lora output/tiny`"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.yml");
        std::fs::write(&path, text).expect("a file");
        let path = path.to_str().expect("UTF-8");
        let said = refused(&[words, &[path]].concat());
        assert!(said.contains(here), "{words:?}: {said}");
        let given = format!("--lora-model-dir={ADAPTER}");
        if words[0] == "axolotl" {
            let said = refused(&[words, &[path, &given]].concat());
            let here = format!("merge acme/Tiny {ADAPTER} ./out/merged`");
            assert!(said.contains(&here), "{said}");
        }
    }
}

/// A note on the form of JSON is not in the JSON, where it would be read too late.
#[test]
fn the_form_of_json_is_noted() {
    for option in ["--json", "--json-array"] {
        let ran = run(&["gguf-dump", option, GGUF]);
        assert!(ran.err.contains("this is not gguf-dump's JSON"), "{option}: {}", ran.err);
        let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        assert!(json.is_object());
    }
}

/// Nothing is said of a merge that does not happen.
#[test]
fn what_is_not_written_is_not_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none/merged");
    for dst in [BASE, none.to_str().expect("UTF-8")] {
        let said = refused(&["merge", BASE, ADAPTER, dst]);
        assert!(!said.contains("merged LoRA"), "{said}");
    }
}

/// Of several files that are shown, one that does not exist is a slip, and no tensor.
#[test]
fn the_first_of_two_files_may_be_a_slip() {
    let ran = run(&["assets/sample/sample-Q8_0.ggfu", GGUF]);
    assert!(ran.err.contains("did you mean assets/sample/sample-Q8_0.gguf?"), "{}", ran.err);
}
