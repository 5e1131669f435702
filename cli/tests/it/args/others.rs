//! Commands of other programs, with the slips and the options that their users type.

use std::path::Path;

use crate::support::{file, json, printed, program, refused, root, run, sample};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const BASE: &str = "tests/fixtures/lora/llama/base";
const ADAPTER: &str = "tests/fixtures/lora/llama/adapter";
const IMATRIX: &str = "tests/fixtures/gguf/misc/imatrix.gguf";

/// A folder, and the path of a name in it.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_path_buf();
    let at = move |name: &str| path.join(name).to_str().expect("a path in UTF-8").to_owned();
    (folder, at)
}

#[test]
fn a_slip_names_what_was_meant() {
    for (words, meant) in [
        (&["llama-qantize", HF, "Q4_0"][..], "llama-quantize"),
        (&["llama-imatix", "-m", GGUF], "llama-imatrix"),
        (&["mlx_lm.covert", "--hf-path", HF], "mlx_lm convert"),
        (&["mlx_lm", "fus", "--model", HF], "mlx_lm fuse"),
        (&["python", "-m", "mlx_lm.fus", "--model", HF], "mlx_lm fuse"),
        (&["hf", "donwload", "org/name"], "hf download"),
        (&["hf", "cach", "ls"], "hf cache"),
        (&["ollama", "shwo", "tale"], "ollama show"),
        (&["ollama", "crate", "tale"], "ollama create"),
        (&["mergekit-yml", "x.yml", "y"], "mergekit-yaml"),
        (&["gguf-dmp", GGUF], "gguf-dump"),
        (&["gguf_dmp.py", GGUF, "--json"], "gguf-dump"),
        (&["ollma", "ls"], "ollama ls"),
    ] {
        let said = refused(words);
        assert!(said.contains(&format!("did you mean `{meant}`?")), "{words:?}: {said}");
        assert!(!said.contains("has nothing for"), "{words:?}: {said}");
    }
}

#[test]
fn a_sentence_says_what_does_the_same() {
    let lists = "`weighbridge help convert` lists its options";
    for (words, sentence) in [
        (&["convert_hf_to_gguf.py", HF, "--no-mtp"][..], "--prune-layers N` leaves out"),
        (&["convert_hf_to_gguf.py", HF, "--mtp"], "not written alone"),
        (&["convert_hf_to_gguf.py", HF, "--vocab-only"], "`weighbridge run tokens MODEL` lists"),
        // An option of another program is no slip.
        (&["convert", HF, "--nprobes"], lists),
        (&["llama-imatrix", "-m", "x", "-f", "y", "--output-format", "dat"], "computes no"),
        (&["llama-tokenize", "-m", GGUF, "-p", "x", "--no-parse-special"], "always recognized"),
        (&["llama-embedding", "-m", HF, "-p", "x", "--embd-normalize", "0"], "length 1"),
        (&["quantize", HF, "IQ2_XS", "--ignore-imatrix-rules"], "`--tensor-type REGEX=Q2_K`"),
        (&["whisper-quantize", "a.bin", "b.bin", "q5_0"], "its own program quantize writes them"),
        (&["hf", "repos", "ls"], "`weighbridge models huggingface`"),
        (&["mergekit-layershuffle", "x"], "`merge_method: passthrough`"),
        (&["ollama", "show", GGUF, "--parameters"], "`weighbridge inspect` shows models in files"),
        (&["sha256sum", GGUF], "which `sha256sum FILE` prints"),
        (&["checksum", GGUF], "which `sha256sum FILE` prints"),
        (&["hfd.sh", "org/name", "--dataset"], "data sets and spaces are not downloaded"),
        (&["docker", "model", "pull", "ai/smollm2"], "Docker Hub, which is not read"),
        (&["docker", "model", "run", "ai/smollm2:Q4", "hi"], "Docker Hub, which is not read"),
        (&["lms", "clone", "x/y"], "`weighbridge pull ORG/NAME:Q4_K_M`"),
        (&["hf", "jobs", "run", "x"], "use `hf` itself"),
        (&["python", "-m", "vllm.entrypoints.cli.main", "serve", HF], "serves no models"),
        (&["python", "-m", "sglang.bench_serving", "--port", "1"], "serves no models"),
        (
            &["python", "-m", "awq.entry", "--model_path", HF, "--w_bit", "4"],
            "nothing is calibrated",
        ),
        (&["python", "-m", "some.module", HF], "`weighbridge help` lists what it does"),
        (
            &["python", "-m", "torch.distributed.run", "x.py"],
            "`weighbridge help` lists what it does",
        ),
        (&["python", "-m", "optimum.exporters.openvino"], "GGUF, safetensors and MLX are written"),
        (&["text-generation-server", "quantize", "o/n", "x"], "nothing is calibrated"),
        (&["lmdeploy", "lite", "auto_awq", HF], "nothing is calibrated"),
        (&["lmdeploy", "serve", "api_server", HF], "serves no models"),
        (&["mlc_llm", "convert_weight", HF], "GGUF, safetensors and MLX are written"),
        (&["olive", "auto-opt"], "GGUF, safetensors and MLX are written"),
        (&["litgpt", "merge_lora", "x"], "PyTorch's pickles, which are not read"),
        (&["litgpt", "convert_to_litgpt", "x"], "PyTorch's pickles, which are not read"),
        (&["llama-quantize-stats", "-m", GGUF], "`weighbridge diff ORIGINAL QUANTIZED`"),
        (&["check-nmse.py", "-m", HF], "`weighbridge quality ORIGINAL MODEL`"),
        (&["compare-logits.py", HF, GGUF], "`weighbridge quality ORIGINAL MODEL`"),
        (&["b3sum", GGUF], "which `sha256sum FILE` prints"),
        (
            &["accelerate-estimate-memory", HF, "--dtypes", "float16"],
            "--list-types` shows the size",
        ),
        (
            &["llama-quantize", "--attn-qkv-type", "q8_0", HF, "x.gguf", "q4_0"],
            "`--tensor-type attn_qkv=q8_0`",
        ),
        (&["convert_hf_to_gguf_update.py", "TOKEN"], "it changes a script of llama.cpp"),
        (&["llama-cli", "-m", GGUF, "-f", "no-such.txt"], "no-such.txt: no such file"),
        (&["gguf-tools", "inspect-tensor", GGUF, "output_norm.weight", "8"], "--rows 0..1`"),
    ] {
        let said = refused(words);
        assert!(said.contains(sentence), "{words:?}: {said}");
        assert!(!said.contains("did you mean"), "{words:?}: {said}");
    }
}

/// The start of a name with another ending.
#[test]
fn a_name_with_another_ending() {
    let (folder, path) = file("F.gguf", b"GGUF");
    let other = folder.path().join("F.gg");
    let said = run(&[other.to_str().expect("UTF-8")]).err;
    assert!(said.contains(&format!("did you mean {path}?")), "{said}");
}

#[test]
fn options_of_other_programs_work() {
    for (words, here) in [
        (
            &[
                "convert_hf_to_gguf.py",
                HF,
                "--mistral-format",
                "--disable-mistral-community-chat-template",
                "--sentence-transformers-dense-modules",
                "--dry-run",
            ][..],
            &["convert", HF, "--dry-run"][..],
        ),
        (&["lms", "load", "--estimate-only", GGUF, "--gpu", "max"], &["memory", GGUF]),
        (&["lms", "load", "--estimate-only", GGUF, "--gpu=off"], &["memory", GGUF]),
        (&["lms", "load", "--estimate-only", GGUF, "--gpu", "0.5"], &["memory", GGUF]),
        (&["memory", GGUF, "--gpu", "8G"], &["memory", GGUF, "--room", "8G"]),
        (
            &["llama-tokenize", "-m", GGUF, "-p", "Once", "--no-bos", "--ids"],
            &["run", "tokens", GGUF, "--text", "Once", "--no-bos", "--print-ids"],
        ),
        (
            &["llama-embedding", "-m", GGUF, "-p", "Once", "--embd-normalize", "-1", "--json"],
            &["run", "embed", GGUF, "--text", "Once", "--no-normalize", "--json"],
        ),
        (
            &["llama-embedding", "-m", GGUF, "-p", "Once", "--embd-normalize", "2", "--json"],
            &["run", "embed", GGUF, "--text", "Once", "--json"],
        ),
        (&["hf", "env"], &["list", "settings"]),
        (&["accelerate-estimate-memory", GGUF], &["memory", GGUF]),
        (
            &["mlx_lm.convert", "--hf-path", HF, "-q", "--q-bits", "8", "--dry-run"],
            &["quantize", HF, "mlx_model", "mlx8", "--dry-run"],
        ),
        (
            &["save_pretrained", HF, "none", "--max_shard_size", "200KB", "--dry-run"],
            &[
                "convert",
                HF,
                "none",
                "--to",
                "safetensors",
                "--max-shard-size",
                "200KB",
                "--dry-run",
            ],
        ),
        (&["quantize", HF, "q4k", "--dry-run"], &["quantize", HF, "Q4_K_M", "--dry-run"]),
        (&["transformers-cli", "env"], &["list", "settings"]),
    ] {
        let [a, b] = [words, here].map(run);
        assert_eq!((a.status, &a.out), (Some(0), &b.out), "{words:?}: {}", a.err);
        assert!(!a.out.is_empty(), "{words:?}");
    }
    let said = run(&["hfd.sh", "org/name", "--tool", "aria2c", "-x", "4", "--offline"]).err;
    assert!(!said.contains("has no option"), "{said}");
}

/// The tokens around a text are left out, those in it are not. The template is a key of a file.
#[test]
fn keys_and_tokens_of_a_file() {
    let (_folder, path) = sample();
    printed(&["meta", "set", &path, "add_bos_token=bool:true", "bos=0", "chat_template={{ x }}"]);
    let ids = |more: &[&str]| {
        let words = ["run", "tokens", &path, "--text", "Once<s>", "--print-ids"];
        printed(&[&words[..], more].concat()).trim().to_owned()
    };
    assert_eq!(ids(&[]), format!("0,{}", ids(&["--no-bos"])));
    assert!(ids(&["--no-bos"]).ends_with(",0"), "{}", ids(&["--no-bos"]));
    let words = ["run", "tokens", &path, "--text", "", "--no-bos"];
    assert_eq!(printed(&words).lines().last(), Some("0 tokens"));
    assert_eq!(printed(&["ollama", "show", &path, "--template"]), "{{ x }}\n");
}

#[test]
fn the_settings_of_the_environment_are_listed() {
    let value = |name: &str, variables: &[(&str, &str)]| {
        let mut program = program(&["list", "settings", "--json"]);
        let ran = program.envs(variables.iter().copied()).output().expect("a run");
        let all: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let rows = all["rows"].as_array().expect("rows").iter();
        rows.into_iter().find(|row| row["name"] == name).expect("a row")["value"].clone()
    };
    let mirror = [("HF_ENDPOINT", "https://mirror.example/"), ("HF_TOKEN", "secret")];
    assert_eq!(value("hub", &mirror), "https://mirror.example");
    assert_eq!(value("token of the hub", &mirror), "set");
    assert_eq!(value("token of the hub", &[("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), "not set");
    assert_eq!(value("offline", &[("HF_HUB_OFFLINE", "1")]), true);
    assert_eq!(value("models of huggingface", &[("HF_HUB_CACHE", "/x")])[0], "/x");
    assert!(!printed(&["list", "settings"]).contains("secret"));
}

/// The name of a file may say another type than is written: what is said then works.
#[test]
fn a_name_of_another_type() {
    let (_folder, at) = folder();
    let told = |words: &[&str]| {
        let ran = run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
        ran.err
    };
    let told_of = |name: &str, verb: &[&str]| told(&[verb, &[GGUF, &at(name)]].concat());
    let said = told_of("f32.gguf", &["dequantize"]);
    assert!(
        said.contains("a file in F32, but holds F16: `--dtype F32` writes that type"),
        "{said}"
    );
    let said = told_of("x-f16.gguf", &["convert"]);
    assert!(said.contains("holds Q8_0: `--dtype F16` writes that type"), "{said}");
    assert_eq!(told_of("y-f16.gguf", &["dequantize"]), "");
    let said = told_of("x-Q4_K_M.gguf", &["convert"]);
    let (_, command) = said.split_once("`weighbridge ").expect("a command");
    let (command, _) = command.split_once('`').expect("its end");
    let command = command.replace('\n', " ");
    let ran = run(&command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.status, Some(0), "{command}: {}", ran.err);
    assert!(command.ends_with("--allow-requantize --overwrite"), "{command}");
    let said = told_of("x-IQ2_XS.gguf", &["convert", "--dry-run"]);
    assert!(said.contains("IQ2_XS --imatrix FILE --allow-requantize` writes that type"), "{said}");
    // The program's own name for the file says what it holds.
    let path = root().join(GGUF);
    let ran = program(&["dequantize", path.to_str().expect("UTF-8")])
        .current_dir(Path::new(&at("x")).parent().expect("a folder"))
        .output()
        .expect("a run");
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
}

/// The dtypes of the tensors of a model.
fn dtypes(path: &str) -> Vec<String> {
    let all = json(&["inspect", path, "--json"]);
    let tensors = all["tensors"].as_array().expect("tensors").iter();
    tensors.map(|it| it["dtype"].as_str().expect("a dtype").to_owned()).collect()
}

/// mlx_lm.fuse quantizes what it has merged as the model is, unless it is told not to.
#[test]
fn a_fused_model_is_quantized_as_its_base() {
    let (_folder, at) = folder();
    let (base, fused) = (at("base"), at("fused"));
    assert_eq!(run(&["quantize", BASE, &base, "--type", "mlx8,32"]).status, Some(0));
    let fuse = ["mlx_lm.fuse", "--model", &base, "--adapter-path", ADAPTER, "--save-path"];
    assert_eq!(run(&[&fuse[..], &[&fused]].concat()).status, Some(0));
    assert_eq!(dtypes(&fused), dtypes(&base));
    let [before, after] = [&base, &fused].map(|path| {
        let config = std::fs::read(Path::new(path).join("config.json")).expect("a config");
        serde_json::from_slice::<serde_json::Value>(&config).expect("JSON")["quantization"].clone()
    });
    assert_eq!(before, after);
    let plain = at("plain");
    assert_eq!(run(&[&fuse[..], &[&plain, "--dequantize"]].concat()).status, Some(0));
    assert!(dtypes(&plain).iter().all(|dtype| !dtype.starts_with("MLX")), "{:?}", dtypes(&plain));
    // Without the option, what is merged becomes plain, as before.
    let mixed = at("mixed");
    assert_eq!(run(&["merge", &base, ADAPTER, &mixed]).status, Some(0));
    assert!(dtypes(&mixed).contains(&"F16".to_owned()), "{:?}", dtypes(&mixed));
}

/// Data that an option leaves out are not said to be missing in the file.
#[test]
fn data_that_an_option_leaves_out() {
    let (_folder, at) = folder();
    let words = ["llama-quantize", "--imatrix", IMATRIX];
    let rest = [HF, &at("x.gguf"), "IQ2_XS"];
    for option in [["--include-weights", "ffn_up"], ["--exclude-weights", "attn_q"]] {
        let said = refused(&[&words[..], &option, &rest].concat());
        let leaves = "--include-weights or --exclude-weights leaves out the data of this tensor";
        assert!(said.contains(leaves), "{said}");
    }
}

/// gguf-set-metadata asks before it changes a key; here a change that breaks the model needs --force.
#[test]
fn a_change_that_breaks_a_model_needs_force() {
    let (_folder, path) = sample();
    let before = std::fs::read(&path).expect("a file");
    let change = ["gguf-set-metadata", &path, "general.architecture", "qwen3"];
    let said = refused(&change);
    assert!(said.contains("after this change, `verify` would find a new fault: "), "{said}");
    assert!(said.contains("--force makes it nevertheless"), "{said}");
    assert_eq!(said.matches("model.gguf").count(), 1, "{said}");
    assert_eq!(std::fs::read(&path).expect("a file"), before);
    let ran = run(&[&change[..], &["--dry-run"]].concat());
    assert!(ran.err.contains("`verify` finds a new fault"), "{}", ran.err);
    assert_eq!(std::fs::read(&path).expect("a file"), before);
    let ran = run(&[&change[..], &["--force"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("`verify` finds a new fault"), "{}", ran.err);
    assert!(std::fs::read(&path).expect("a file") != before);
    // A model that has the fault already may be changed further.
    let (_other, broken) = file("x.gguf", &std::fs::read(&path).expect("a file"));
    assert_eq!(run(&["meta", "set", &broken, "general.name=x"]).status, Some(0));
}

/// An error of a server names it, and the model as users know it.
#[test]
#[cfg(feature = "http")]
fn a_server_that_does_not_answer_is_named() {
    let none = "http://nothing.invalid";
    for (variable, words, said) in [
        ("HF_ENDPOINT", &["hf://acme/tiny"], "hf://acme/tiny: no answer from http://nothing.inv"),
        (
            "WEIGHBRIDGE_OLLAMA_REGISTRY",
            &["ollama://tale:q4"],
            "ollama://tale:q4: no answer from http://nothing.inv",
        ),
    ] {
        let ran = program(words).env(variable, none).output().expect("a run");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(err.contains(said), "{words:?}: {err}");
    }
}
