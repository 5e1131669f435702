//! First guesses of people who have read no help: each works, or the sentence that answers it leads to what works.

use std::path::Path;

use crate::support;
use crate::support::{
    Ran, directory, file, llama, numbers, printed, program, refused, run, sample,
};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const LORA: &str = "tests/fixtures/lora/llama";
const HF: &str = "assets/sample/hf";
const TENSOR: &str = "blk.0.attn_q.weight";

#[test]
fn a_guess_is_answered_with_what_works() {
    let rows: &[(&[&str], &str)] = &[
        (&["export", GGUF, TENSOR, "x.npy"], "is a tensor, and `convert` is for whole models"),
        (
            &["export", GGUF, TENSOR, "-o", "x.npy"],
            "`weighbridge dump assets/sample/sample-Q8_0.gguf blk.0.attn_q.weight -o FILE.npy`",
        ),
        (
            &["convert", GGUF, "x.gguf", "--vocab-only"],
            "`convert MODEL DIR --to safetensors` writes",
        ),
        (&["cp", "my", "out.gguf"], "`weighbridge convert NAME FILE.gguf` writes it to a file"),
        (&["inspect", GGUF, "--largest", "10"], "--sort size | grep -A 10 ^NAME`"),
        (&["strip", GGUF], "`weighbridge meta rm FILE KEY` removes keys"),
        (
            &["convert", HF, "x", "--text-only"],
            "the model has no tensors of a vision or audio model",
        ),
        (&["convert", "VL", "x", "--no-vision"], "`--leave-out GLOB` leaves out the vision"),
        (&["convert", HF, "x.gguf", "--outype", "f16"], "did you mean --outtype?"),
        (&["quantize", HF, "x.gguf", "--qtpye", "Q4_0"], "did you mean --qtype?"),
        (&["edit", GGUF, "--author", "X"], "`weighbridge meta set FILE author=VALUE`"),
        (
            &["quantize", HF, "x.gguf", "IQ4_XS", "--imatrix", "README.md"],
            "README.md: a text, not an importance matrix",
        ),
    ];
    for (arguments, sentence) in rows {
        let Ran { status, out, err, .. } = run(arguments);
        assert_ne!(status, Some(0), "{arguments:?}");
        assert_eq!(out, "", "{arguments:?}");
        assert!(err.contains(sentence), "{arguments:?}: {err}");
    }
}

/// An adapter that cannot be read says why.
#[test]
fn an_adapter_of_pickles_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let adapter = folder.path().join("lora");
    std::fs::create_dir(&adapter).expect("a folder");
    std::fs::write(adapter.join("adapter_config.json"), r#"{"peft_type": "LORA", "r": 1}"#)
        .expect("a file");
    std::fs::write(adapter.join("adapter_model.bin"), b"\x80\x02}q\0.").expect("a file");
    let [adapter, out] =
        [adapter, folder.path().join("out.gguf")].map(|path| path.display().to_string());
    for base in [HF, GGUF] {
        let ran = run(&["merge", base, &adapter, &out]);
        assert!(
            ran.err.contains("only PyTorch pickles, such as adapter_model.bin"),
            "{base}: {}",
            ran.err
        );
    }
}

/// An adapter that is cut short is one all the same.
#[test]
fn an_adapter_that_is_cut_short_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let adapter = support::root().join(LORA).join("adapter.gguf");
    let whole = std::fs::read(adapter).expect("an adapter");
    std::fs::write(path("cut.gguf"), &whole[..whole.len() - 64]).expect("a file");
    let ran = run(&["merge", GGUF, &path("cut.gguf"), &path("out.gguf")]);
    assert!(ran.err.contains("cut short"), "{}", ran.err);
}

/// The pattern of the advice is that of the model's own tensors, and it works.
#[test]
fn a_vision_model_is_left_out_by_its_own_names() {
    for (class, model_type, towers) in [
        ("LlavaForConditionalGeneration", "llava", &["vision_tower", "multi_modal_projector"][..]),
        ("Qwen2VLForConditionalGeneration", "qwen2_vl", &["visual"]),
    ] {
        let (mut config, mut tensors) = llama(16);
        config["model_type"] = model_type.into();
        config["architectures"] = serde_json::json!([class]);
        config["vision_config"] = serde_json::json!({"hidden_size": 4});
        for tower in towers {
            for part in ["a.weight", "b.weight"] {
                let name = format!("{tower}.{part}");
                tensors.push((name.clone(), vec![4, 4], numbers(&name, 16)));
            }
        }
        let (folder, path) = directory(&config, &tensors);
        let out = folder.path().join("out");
        let out = out.to_str().expect("UTF-8");
        let mut globs: Vec<String> = towers.iter().map(|tower| format!("{tower}.*")).collect();
        globs.sort();
        let options: Vec<String> =
            globs.iter().map(|glob| format!("--leave-out '{glob}'")).collect();
        for asked in [
            &["convert", &path, out, "--text-only"][..],
            &["convert", &path, out, "--no-vision"],
            &["quantize", &path, "mlx4", "--language-only"],
            &["strip", &path, out, "--vision"],
        ] {
            let said = refused(asked);
            assert!(said.contains(&format!("`{}`", options.join(" "))), "{asked:?}: {said}");
        }
        let said = refused(&["convert", &path, out, "--leave-out", "image*"]);
        assert!(said.contains("no tensor matches --leave-out 'image*'"), "{said}");
        assert!(said.contains(&format!("these can be left out: {}", globs.join(", "))), "{said}");
        // The last pattern is the vision model's: what remains of it is a projector at most.
        let ran = run(&["convert", &path, out, "--leave-out", globs.last().expect("a pattern")]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let is_noted = ran.err.contains("transformers initializes it at random");
        assert!(is_noted, "{}", ran.err);
    }
}

#[test]
fn options_that_set_a_key() {
    let (folder, path) = sample();
    for option in ["--ctx-size", "--context-length", "--context_length", "--ctx", "-c"] {
        let ran = run(&["edit", &path, option, "4096"]);
        assert_eq!(ran.status, Some(0), "{option}: {}", ran.err);
        assert_eq!(printed(&["meta", "get", &path, "context_length"]), "4096\n", "{option}");
        assert_eq!(run(&["meta", "set", &path, "context_length=256"]).status, Some(0));
    }
    // The name of a file is no template.
    let template = folder.path().join("t.jinja");
    std::fs::write(&template, "{{ messages }}").expect("a file");
    let ran = run(&["edit", &path, "--chat-template", template.to_str().expect("UTF-8")]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("the template is what it holds"), "{}", ran.err);
    assert_eq!(printed(&["meta", "get", &path, "chat_template"]), "{{ messages }}\n");
}

#[test]
fn the_destination_of_mlx_says_the_container() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("mlx");
    let out = out.to_str().expect("UTF-8");
    let ran = run(&["convert", "--hf-path", HF, "--mlx-path", out]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let ran = run(&["convert", "--mlx-path", &format!("{out}-q"), "--hf-path", HF, "-q"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let shown = printed(&["inspect", &format!("{out}-q")]);
    assert!(shown.contains("MLX_AFFINE4"), "{shown}");
}

/// A second model of the same name: the error names the model, not a file of the store.
#[test]
fn a_model_that_exists_is_named() {
    let store = tempfile::tempdir().expect("a folder");
    let create = |name: &str, src: &str| {
        let output = program(&["create", name, src]).env("OLLAMA_MODELS", store.path()).output();
        Ran::from(output.expect("the program starts"))
    };
    assert_eq!(create("my", GGUF).status, Some(0));
    let again = create("my", GGUF);
    assert!(again.err.starts_with("error: my:latest: already exists"), "{}", again.err);
    assert!(again.err.contains("--overwrite"), "{}", again.err);
    let other = create("out.gguf", "my");
    assert!(
        other.err.contains("`weighbridge convert my out.gguf` writes the file"),
        "{}",
        other.err
    );
}

/// A list that is cut says so.
#[test]
fn a_folder_of_many_models() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..10 {
        support::gguf(&folder.path().join(format!("{number}.gguf")), |_| {});
    }
    let said = refused(&["inspect", folder.path().to_str().expect("UTF-8")]);
    assert!(said.contains("contains 10 models: 0.gguf, "), "{said}");
    assert!(said.contains("7.gguf and 2 more"), "{said}");
}

/// Notes on what another command shows, where a result might be taken for it.
#[test]
fn a_result_names_the_command_for_the_other_meaning() {
    let (folder, _) = file("x", b"");
    let out = folder.path().join("values.txt");
    let ran = run(&["tensor", GGUF, TENSOR, "-o", out.to_str().expect("UTF-8")]);
    assert!(ran.err.contains("shows their distribution and outliers"), "{}", ran.err);
    assert!(Path::new(&out).is_file());
    let ran = run(&["hash", GGUF, "--sha256"]);
    assert!(ran.err.contains("`sha256sum FILE` prints that of the file"), "{}", ran.err);
}
