//! `create` and `convert --to ollama`: their output, and what remains if they are killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{Ran, program, without};
use insta::assert_snapshot;
use weighbridge::metadata::Value;

const HF: &str = "assets/sample/hf";

/// Runs the program with its own store.
fn run(store: &Path, arguments: &[&str]) -> Ran {
    let output = program(arguments).env("OLLAMA_MODELS", store).output();
    output.expect("the program starts").into()
}

fn told(store: &Path, arguments: &[&str]) -> String {
    let Ran { status, out, err, .. } = run(store, arguments);
    let text = format!("{}\n{out}{err}", status.unwrap_or(-1));
    let text = text.replace(&*store.to_string_lossy(), "STORE");
    without(&text, "written in ", "\n")
}

#[test]
fn reports() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    let dry = told(store, &["create", "sample:int4", HF, "--quantize", "q4", "--dry-run"]);
    assert_snapshot!(dry.replace("  \n", "\n"), @"
    0
    sample:int4
      format         ollama, 25 files
      type           MLX_AFFINE4 g64, 6.86 bits per weight
      size           1.1 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      tensors        6 copied, 14 quantized

    NAME                    TENSORS      SIZE
    config.json                   -     771 B
    generation_config.json        -     195 B
    tokenizer.json                -  21.1 KiB
    tokenizer_config.json         -     118 B
    config                        -     181 B
    and 20 blobs of tensors, 1.1 MiB

    NAME                                                    SHAPE  FROM  TO               METHOD          SIZE
    model.embed_tokens.weight                           512 x 256  BF16  BF16             copied     256.0 KiB
    model.layers.[0-1].input_layernorm.weight                 256  BF16  BF16             copied       1.0 KiB
    model.layers.[0-1].mlp.down_proj.weight             256 x 512  BF16  MLX_AFFINE8 g64  quantized  272.0 KiB
    model.layers.[0-1].mlp.gate_proj.weight             512 x 256  BF16  MLX_AFFINE4 g64  quantized  144.0 KiB
    model.layers.[0-1].mlp.up_proj.weight               512 x 256  BF16  MLX_AFFINE4 g64  quantized  144.0 KiB
    model.layers.[0-1].post_attention_layernorm.weight        256  BF16  BF16             copied       1.0 KiB
    model.layers.[0-1].self_attn.k_proj.weight          128 x 256  BF16  MLX_AFFINE8 g64  quantized   68.0 KiB
    model.layers.[0-1].self_attn.o_proj.weight          256 x 256  BF16  MLX_AFFINE4 g64  quantized   72.0 KiB
    model.layers.[0-1].self_attn.q_proj.weight          256 x 256  BF16  MLX_AFFINE4 g64  quantized   72.0 KiB
    model.layers.[0-1].self_attn.v_proj.weight          128 x 256  BF16  MLX_AFFINE8 g64  quantized   68.0 KiB
    model.norm.weight                                         256  BF16  BF16             copied         512 B

    left out: describes the stored weights (format)

    dry run: nothing was written
    ");
    assert!(std::fs::read_dir(store).unwrap().next().is_none());
    assert_snapshot!(told(store, &["create", "sample:int4", HF, "--quantize", "int4"]), @"
    0
    sample:int4 (25 files): 20 tensors, 1.31 M weights, 1.1 MiB (6.86 bits per weight)
    6 copied, 14 quantized
    written in ..
    ");
    assert_snapshot!(told(store, &["create", "sample:int4", HF]), @"
    2
    note: each tensor becomes a blob, as for `ollama create --experimental`; `ollama create` alone makes GGUF of a directory, and so does --quantize F16, or `weighbridge convert assets/sample/hf FILE.gguf` before `create`
    error: sample:int4: already exists
     help: give another name, or replace it with --overwrite once the new one is complete
    ");
    assert_snapshot!(told(store, &["create", "sample:int4", HF, "--overwrite"]), @"
    0
    sample:int4 (25 files): 20 tensors, 1.31 M weights, 2.5 MiB (16.00 bits per weight)
    20 copied; all values unchanged
    replaced or deleted 1 existing file: sample:int4
    written in ..
    note: each tensor becomes a blob, as for `ollama create --experimental`; `ollama create` alone makes GGUF of a directory, and so does --quantize F16, or `weighbridge convert assets/sample/hf FILE.gguf` before `create`
    ");
    assert_snapshot!(told(store, &["convert", HF, "me/sample", "--to", "ollama"]), @"
    0
    me/sample:latest (25 files): 20 tensors, 1.31 M weights, 2.5 MiB (16.00 bits per weight)
    20 copied; all values unchanged
    written in ..
    ");
    assert_snapshot!(told(store, &["verify", "me/sample"]), @"
    0
    me/sample:latest: ok: 20 files, 20 tensors; checked headers, names, shapes, byte ranges, 25 digests
    ");
    assert_snapshot!(told(store, &["create", "a b", HF]), @"
    2
    error: a b: not a valid name of an Ollama model
     help: [HOST/][NAMESPACE/]MODEL[:TAG], of letters, digits, '_', '-' and '.'
    ");
    assert_snapshot!(told(store, &["create", "a", HF, "--quantize", "int6"]), @"
    2
    error: invalid value 'int6' for '--quantize <TYPE>': not one of int4, int8, nvfp4, mxfp4, mxfp8, Q8_0, Q4_K_M, ...
    ");
}

/// Settings of a Modelfile that a run has are applied, and others are named.
#[test]
fn a_model_runs_as_its_modelfile_says() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("store"), folder.path().join("Modelfile"));
    let gguf = support::root().join("assets/sample/sample-Q8_0.gguf");
    let create = |name: &str, rows: &str| {
        std::fs::write(&file, format!("FROM {}\n{rows}\n", gguf.display())).unwrap();
        let ran = run(&store, &["create", name, "-f", file.to_str().unwrap()]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
    };
    let ran = |words: &[&str]| without(&told(&store, words), "note: 6 prompt", "\n");
    create(
        "bells",
        "SYSTEM Be brief.\nTEMPLATE {{ .System }} {{ .Prompt }}\nPARAMETER stop bells\n\
         PARAMETER temperature 2\nPARAMETER top_k 1\nPARAMETER num_ctx 64\nPARAMETER repeat_penalty 1.1",
    );
    let prompt = "<s>Once upon a time,";
    assert_snapshot!(ran(&["run", "bells", prompt]).replace(" \n", "\n"), @"
    0
     Milo had a tall truck full of
    note: not applied of the model's Modelfile: TEMPLATE, SYSTEM, repeat_penalty
    note: the model has no chat template but Ollama's TEMPLATE, which is not applied here: the prompt is continued as it is
    note: 6 prompt..
    ");
    let ids = ["run", "generate", "bells", "--prompt", prompt, "--stop", "Milo", "--print-ids"];
    assert_snapshot!(ran(&ids), @"
    0
    222,486
    note: not applied of the model's Modelfile: TEMPLATE, SYSTEM, repeat_penalty
    ");
    let slip = told(&store, &["ollama", "run", "bels", prompt]);
    assert!(slip.contains("did you mean bells?"), "{slip}");
    create("few", "PARAMETER num_predict 3\nPARAMETER seed 4");
    assert_snapshot!(ran(&["ollama", "run", "few", prompt]), @"
    0
     Milo had
    note: the model has no chat template: the prompt is continued as it is
    note: 6 prompt..
    ");
    assert_snapshot!(ran(&["run", "generate", "few", "--prompt", prompt, "-n", "2"]), @"
    0
     Milo
    note: 6 prompt..
    ");
}

/// A model from a Modelfile and from options, and what `show` tells of it.
#[test]
fn modelfiles_and_show() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let file = folder.path().join("Modelfile");
    let gguf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample/sample-Q8_0.gguf");
    let text = format!(
        "FROM {}\nSYSTEM You are Mario.\nPARAMETER temperature 1\nPARAMETER stop \"</s>\"\n\
         TEMPLATE {{{{ .System }}}} {{{{ .Prompt }}}}\nLICENSE \"\"\"MIT\n\nline two\nline three\"\"\"\n",
        gguf.display()
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    assert_snapshot!(told(&store, &["create", "mario", "-f", file]), @"
    0
    mario:latest (6 files): 20 tensors, 1.31 M weights, 1.3 MiB (8.52 bits per weight)
    20 copied; all values unchanged
    written in ..
    ");
    assert_snapshot!(told(&store, &["show", "mario"]), @r#"
    0
      Model
        architecture        llama
        parameters          1.31M
        context length      256
        embedding length    256
        quantization        Q8_0

      Capabilities
        completion

      Parameters
        stop           "</s>"
        temperature    1

      System
        You are Mario.

      License
        MIT
        line two
        ...
    "#);
    assert_snapshot!(told(&store, &["show", "mario", "--parameters"]), @r#"
    0
    stop                           "</s>"
    temperature                    1
    "#);
    assert_snapshot!(told(&store, &["show", "mario", "--system"]), @"
    0
    You are Mario.
    ");
    assert_snapshot!(told(&store, &["show", "mario", "--template"]), @"
    0
    {{ .System }} {{ .Prompt }}
    ");
    assert_snapshot!(told(&store, &["show", "mario", "--license"]), @"
    0
    MIT

    line two
    line three
    ");
    // Texts are printed as they are: with the end of line that they have, or with one if they lack it.
    let words = ["create", "peach", HF, "--system", "Be Peach.\n"];
    let dropped = "Ollama drops the system prompt";
    for (template, is_dropped) in [("{{ .System }} {{ .Prompt }}", false), ("{{ .Prompt }}", true)]
    {
        let made = run(&store, &[&words[..], &["--template", template, "--overwrite"]].concat());
        assert_eq!(
            (made.status, made.err.contains(dropped)),
            (Some(0), is_dropped),
            "{}",
            made.err
        );
    }
    assert_eq!(run(&store, &["show", "peach", "--system"]).out, "Be Peach.\n");
    assert_eq!(run(&store, &["show", "peach", "--license"]).out, "");
    let json = run(&store, &["show", "peach", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["details"]["family"], &json["details"]["parameter_size"]),
        (&"llama".into(), &"1.31M".into())
    );
    // Options go before the Modelfile, and a SRC before its FROM.
    let license = folder.path().join("license");
    std::fs::write(&license, "Apache").unwrap();
    let license = format!("@{}", license.display());
    let arguments = [
        "create",
        "luigi",
        HF,
        "-f",
        file,
        "--system",
        "Be Luigi.",
        "--parameter",
        "temperature=0.5",
        "--license",
        &license,
        "--message",
        "user=Hi",
        "--parser",
        "qwen3",
        "--requires",
        "0.20.0",
    ];
    assert_eq!(run(&store, &arguments).status, Some(0));
    assert_snapshot!(told(&store, &["show", "luigi"]), @r#"
    0
      Model
        architecture        llama
        parameters          1.31M
        context length      256
        embedding length    256
        quantization        bfloat16
        requires            0.20.0
        parser              qwen3

      Capabilities
        completion
        tools

      Parameters
        stop           "</s>"
        temperature    0.5

      System
        Be Luigi.

      License
        MIT
        line two
        ...
    "#);
    assert_snapshot!(told(&store, &["show", "luigi", "--modelfile"]), @r#"
    0
    # Modelfile generated by "weighbridge show"
    FROM luigi:latest
    TEMPLATE {{ .System }} {{ .Prompt }}
    SYSTEM Be Luigi.
    PARSER qwen3
    PARAMETER stop </s>
    PARAMETER temperature 0.5
    LICENSE "MIT

    line two
    line three"
    LICENSE Apache
    MESSAGE user Hi
    "#);
    let json = run(&store, &["show", "luigi", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["details"]["format"], "safetensors");
    assert_eq!(json["messages"][0]["content"], "Hi");
    assert_eq!(json["model_info"]["general.architecture"], "llama");
    assert_eq!(json["capabilities"], serde_json::json!(["completion", "tools"]));
}

/// The numbers of a model's projector, whether it sees or hears.
#[test]
fn projectors_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let gguf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample/sample-Q8_0.gguf");
    let main = std::fs::canonicalize(gguf).unwrap();
    for (kind, embedding, projection) in [("vision", 1152, 2048), ("audio", 384, 512)] {
        let projector = folder.path().join(format!("{kind}.gguf"));
        support::gguf(&projector, |keys| {
            keys.set_text("general.architecture", "clip");
            keys.set_text("general.type", "mmproj");
            let mut number =
                |key: &str, value| keys.set(&format!("clip.{kind}.{key}"), Value::U32(value));
            number("embedding_length", embedding);
            number("projection_dim", projection);
        });
        let file = folder.path().join("Modelfile");
        let text = format!("FROM {}\nFROM {}\n", main.display(), projector.display());
        std::fs::write(&file, text).unwrap();
        let created = run(&store, &["create", kind, "-f", file.to_str().unwrap()]);
        assert_eq!(created.status, Some(0), "{}", created.err);
        let shown = run(&store, &["show", kind]).out;
        let (_, rest) = shown.split_once("  Projector\n").expect(&shown);
        let rows = rest.lines().take_while(|line| !line.is_empty());
        let rows: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().collect()).collect();
        let (embedding, projection) = (embedding.to_string(), projection.to_string());
        let expected: [&[&str]; 4] = [
            &["architecture", "clip"],
            &["parameters", "2"],
            &["embedding", "length", &embedding],
            &["dimensions", &projection],
        ];
        assert_eq!(rows, expected, "{shown}");
    }
    assert_eq!(run(&store, &["create", "none", main.to_str().unwrap()]).status, Some(0));
    assert!(!run(&store, &["show", "none"]).out.contains("Projector"));
}

#[test]
fn wrong_modelfiles_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let said = |arguments: &[&str]| {
        told(&store, arguments).replace(&*folder.path().to_string_lossy(), ".")
    };
    assert_snapshot!(said(&["create", "m"]), @"
    2
    error: give a model, or a Modelfile with -f: there is no file ./Modelfile
    ");
    let file = folder.path().join("Modelfile");
    std::fs::write(&file, "FROM a.gguf\nPARAMETER\n").unwrap();
    let file = file.to_str().unwrap();
    assert_snapshot!(said(&["create", "m", "-f", file]), @r#"
    3
    error: ./Modelfile: line 2 of the Modelfile: "parameter" is not one of FROM, ADAPTER, DRAFT, TEMPLATE, SYSTEM, LICENSE, RENDERER, PARSER, REQUIRES, PARAMETER and MESSAGE, with a value
    "#);
    std::fs::write(file, "FROM ./nothing.gguf\n").unwrap();
    assert_snapshot!(said(&["create", "m", "-f", file]), @"
    5
    error: ./nothing.gguf: no such file
    ");
    assert_snapshot!(said(&["create", "m", HF, "--parameter", "top_k=many"]), @r#"
    2
    error: the parameter top_k is an integer, not "many"
    "#);
    assert_snapshot!(said(&["create", "m", HF, "--parameter", "top_k"]), @"
    2
    error: invalid value 'top_k' for '--parameter <NAME=VALUE>': expected NAME=VALUE
    ");
    assert_snapshot!(said(&["create", "m", HF, "--message", "tool=x"]), @r#"
    2
    error: invalid value 'tool=x' for '--message <ROLE=TEXT>': "tool" is not one of system, user, assistant
    "#);
    assert_snapshot!(said(&["create", "m", HF, "--template", "@no/such/file"]), @"
    5
    error: no/such/file: cannot read the file: No such file or directory (os error 2)
    ");
    // What is in no store is inspected.
    assert_eq!(said(&["show", HF]), said(&["inspect", HF]));
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// A directory of many small tensors, whose values depend on `seed`.
fn many(folder: &Path, count: usize, seed: u8) {
    let mut header = String::from("{");
    let mut data = Vec::new();
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        let start = data.len();
        data.extend((number as u64).to_le_bytes());
        data.extend([seed; 4088]);
        header.push_str(&format!(
            "{comma}\"model.layers.{number}.weight\":{{\"dtype\":\"BF16\",\"shape\":[2048],\
             \"data_offsets\":[{start},{}]}}",
            data.len()
        ));
    }
    header.push('}');
    let bytes = support::safetensors(&header, &data);
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
    std::fs::write(folder.join("config.json"), "{}").unwrap();
}

/// Killed at any moment, the program leaves the store readable, the old model complete, and only files
/// that the next run removes.
#[test]
fn killed_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let sources = [folder.path().join("old"), folder.path().join("new")];
    let [old, new] = [(0, 1), (1, 2)].map(|(number, seed)| {
        let source: &PathBuf = &sources[number];
        many(source, 600, seed);
        source.to_str().unwrap().to_owned()
    });
    assert_eq!(run(&store, &["create", "m", &old]).status, Some(0));
    let manifest = store.join("manifests/registry.ollama.ai/library/m/latest");
    let before = std::fs::read(&manifest).unwrap();
    // The duration of a run.
    let start = Instant::now();
    assert_eq!(run(&store, &["create", "other", &new]).status, Some(0));
    let whole = start.elapsed();
    let after = std::fs::read(store.join("manifests/registry.ollama.ai/library/other/latest"));
    let after = after.unwrap();
    let foreign = store.join(format!("blobs/sha256-{}-partial", "0".repeat(64)));
    std::fs::write(&foreign, "theirs").unwrap();
    let (mut killed, mut left) = (0, 0);
    for turn in 0..16u32 {
        // Removes the blobs of the new model, so that they have to be written.
        let mut found = Vec::new();
        files(&store.join("blobs"), &mut found);
        let said = String::from_utf8_lossy(&before).into_owned();
        for blob in &found {
            let name = blob.file_name().unwrap().to_string_lossy().replace('-', ":");
            if blob != &foreign && !said.contains(&name) && !name.contains("weighbridge") {
                std::fs::remove_file(blob).unwrap();
            }
        }
        let _ = std::fs::remove_dir_all(store.join("manifests/registry.ollama.ai/library/other"));
        std::fs::write(&manifest, &before).unwrap();
        let arguments = ["create", "m", &new, "--overwrite"];
        let mut child = program(&arguments)
            .env("OLLAMA_MODELS", &store)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(turn) / 12.0) + Duration::from_micros(300));
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        let now = std::fs::read(&manifest).unwrap();
        assert!(now == before || now == after, "turn {turn}: a torn manifest");
        let mut found = Vec::new();
        files(&store, &mut found);
        let own = |path: &&PathBuf| path.to_string_lossy().contains("weighbridge-");
        left += found.iter().filter(own).count();
        let in_tree = found.iter().filter(|path| path.starts_with(store.join("manifests")));
        assert_eq!(in_tree.collect::<Vec<_>>(), [&manifest], "turn {turn}");
        let Ran { status, out, err, .. } = run(&store, &["verify", "m"]);
        assert_eq!(status, Some(0), "turn {turn}: {out}{err}");
        assert_eq!(run(&store, &["models"]).status, Some(0));
    }
    println!("{killed} of 16 runs were killed, of {whole:?}; they left {left} files in all");
    // On a busy machine, few runs are interrupted.
    assert!(killed > 1, "{killed}");
    assert_eq!(run(&store, &["create", "m", &new, "--overwrite"]).status, Some(0));
    let mut found = Vec::new();
    files(&store, &mut found);
    assert!(found.contains(&foreign), "another program's download is gone");
    assert!(!found.iter().any(|path| path.to_string_lossy().contains("weighbridge-")), "{found:?}");
    assert_eq!(std::fs::read(&manifest).unwrap(), after);
}

/// The memory of a model of the store includes that of its adapter.
#[test]
fn memory_counts_attached_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let lora = "tests/fixtures/lora/llama";
    let gguf = folder.path().join("base.gguf").to_string_lossy().into_owned();
    let made = run(folder.path(), &["convert", &format!("{lora}/base"), &gguf]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    let adapter = support::root().join(lora).join("adapter.gguf");
    let text = format!("FROM {gguf}\nADAPTER {}\n", adapter.display());
    let file = folder.path().join("Modelfile").to_string_lossy().into_owned();
    std::fs::write(&file, text).unwrap();
    let made = run(folder.path(), &["create", "tuned", "-f", &file]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    let weights = |model: &str| {
        let found = run(folder.path(), &["memory", model, "--json"]).out;
        let report: serde_json::Value = serde_json::from_str(&found).expect("a report");
        report["weights"].as_u64().expect("a number")
    };
    let bytes = std::fs::metadata(adapter).unwrap().len();
    assert_eq!(weights("tuned"), weights(&gguf) + bytes);
}

/// A type of llama-quantize makes the blob that `quantize` would write, with what the Modelfile adds.
#[test]
fn types_of_gguf() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let hf = std::fs::canonicalize(support::root().join(HF)).unwrap();
    std::fs::write(at("Modelfile"), format!("FROM {}\nSYSTEM Be brief.\n", hf.display())).unwrap();
    let made = run(&store, &["create", "tale", "-f", &at("Modelfile"), "--quantize", "q4_K_M"]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    let quantized = run(&store, &["quantize", HF, &at("tale.gguf"), "Q4_K_M"]);
    assert_eq!(quantized.status, Some(0), "{}", quantized.err);
    let same = run(&store, &["diff", "tale", &at("tale.gguf")]);
    assert_eq!(same.status, Some(0), "{}{}", same.out, same.err);
    let shown = run(&store, &["show", "tale"]).out;
    assert!(shown.contains("Q4_K_M") && shown.contains("Be brief."), "{shown}");
    assert_eq!(run(&store, &["verify", "tale", "--strict"]).status, Some(0));
    // What is quantized already is refused, as by Ollama.
    let again = run(&store, &["create", "twice", "tale", "-q", "q8_0"]);
    assert!(again.err.contains("already quantized"), "{}", again.err);
    // The commands that the advice names keep what the Modelfile sets.
    for words in
        ["quantize SRC FILE.gguf TYPE --allow-requantize", "create NAME FILE.gguf -f MODELFILE"]
    {
        assert!(again.err.contains(words), "{}", again.err);
    }
    let (small, file) = (at("small.gguf"), at("Modelfile"));
    let quantized = run(&store, &["quantize", "tale", &small, "Q2_K", "--allow-requantize"]);
    assert_eq!(quantized.status, Some(0), "{}", quantized.err);
    assert_eq!(run(&store, &["create", "twice", &small, "-f", &file]).status, Some(0));
    let shown = run(&store, &["show", "twice"]).out;
    assert!(shown.contains("Q2_K") && shown.contains("Be brief."), "{shown}");
    let dry = run(&store, &["create", "dry", HF, "-q", "Q8_0", "--dry-run"]);
    assert!(dry.status == Some(0) && dry.out.contains("nothing was written"), "{}", dry.out);
}

/// A draft model is counted by `memory`, and left out of files with a note, whether it is one GGUF file or tensors.
#[test]
fn draft_models_in_a_store() {
    let store = tempfile::tempdir().unwrap();
    let store = store.path();
    let weights = |name: &str| {
        let Ran { out, err, .. } = run(store, &["memory", name, "--context", "256", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&out).expect(&err);
        (report["weights"].as_u64().expect("a number"), report["notes"].to_string())
    };
    for (name, source) in [("one", "assets/sample/sample-Q8_0.gguf"), ("many", HF)] {
        let made = run(store, &["create", name, source, "--draft", source]);
        assert_eq!(made.status, Some(0), "{}", made.err);
        let ((both, notes), (alone, none)) = (weights(name), weights(source));
        assert!(both > 2 * alone - 1 && both < 3 * alone, "{both} {alone}");
        assert!(notes.contains("the draft model that Ollama runs ahead of this one"), "{notes}");
        assert_eq!(notes.contains("`weighbridge memory "), name == "one", "{notes}");
        assert!(!none.contains("draft"), "{none}");
        for to in ["gguf", "safetensors"] {
            let to = ["convert", name, "-o", "written", "--to", to, "--dry-run"];
            let told = told(store, &to);
            assert_eq!(told.matches("left out: the draft model").count(), 1, "{told}");
        }
        let to = format!("copy-{name}");
        let copy = told(store, &["create", &to, name, "--dry-run"]);
        assert!(!copy.contains("left out: the draft"), "{copy}");
    }
    let to = ["quantize", "one", "q.gguf", "Q4_0", "--dry-run", "--allow-requantize"];
    let told = told(store, &to);
    assert!(told.contains("left out: the draft model"), "{told}");
}
