//! Reports on models of a few numbers, chosen so that what must be said is known.

use crate::support;
use crate::support::{directory, file, fill, gguf, llama, numbers, printed, run, safetensors};
use serde_json::json;

/// Scores that are all equal: every token is as likely as any other.
#[test]
fn the_perplexity_of_a_model_that_knows_nothing() {
    let ids = "1,2,3,4,5,6,7,8";
    for (tokens, said) in [(20, "20.0000 ± 0.0000"), (200, "200.00 ± 0.00"), (20_000, "20000 ± 0")]
    {
        let (config, mut tensors) = llama(tokens);
        fill(&mut tensors, "lm_head.weight", 0.0);
        let (_folder, path) = directory(&config, &tensors);
        let text = printed(&["quality", &path, &path, "--ids", ids]);
        assert!(text.contains(&format!("  {said}")), "{tokens}: {text}");
    }
}

#[test]
fn models_with_other_tokens_are_not_compared() {
    let [(_a, first), (_b, second)] = [32, 40].map(|tokens| {
        let (config, tensors) = llama(tokens);
        directory(&config, &tensors)
    });
    let ran = run(&["quality", &first, &second, "--ids", "1,2,3,4,5,6,7,8"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    let fault = format!("{second}: it has 40 tokens, but {first} has 32");
    assert!(ran.err.contains(&fault), "{}", ran.err);
}

/// Scores that a report in JSON cannot have as numbers.
#[test]
fn scores_that_are_no_numbers() {
    let (config, mut tensors) = llama(32);
    fill(&mut tensors, "lm_head.weight", f32::NAN);
    let (_folder, path) = directory(&config, &tensors);
    let report = support::json(&["run", "logits", &path, "--ids", "1,2", "--json"]);
    assert_eq!(report["shape"], json!([2, 32]));
    let values = report["values"].as_array().expect("rows");
    assert!(values.iter().all(|row| *row == json!(vec!["NaN"; 32])), "{report}");
}

/// A trial finds faults in models whose files are whole.
#[test]
fn trials_find_what_no_healthy_model_gives() {
    let tried = |change: &dyn Fn(&mut [support::Values])| {
        let (config, mut tensors) = llama(32);
        change(&mut tensors);
        let (_folder, path) = directory(&config, &tensors);
        let ran = run(&["verify", "--run", &path]);
        let first = ran.out.lines().next().unwrap_or_default().replace(&path, "MODEL");
        (ran.status, first)
    };
    let (status, said) = tried(&|_| {});
    assert_eq!(status, Some(0));
    assert!(said.starts_with("MODEL: ok: ") && said.ends_with("; ran 64 tokens"), "{said}");
    let fault = |text: &str| (Some(1), format!("fault: logits {text}"));
    let zeros = tried(&|tensors| fill(tensors, "lm_head.weight", 0.0));
    assert_eq!(zeros, fault("of position 0 are all equal"));
    let nan = tried(&|tensors| fill(tensors, "lm_head.weight", f32::NAN));
    assert_eq!(nan, fault("of position 0 are infinite or NaN"));
    // Every token has the same row, and no position sees another.
    let alike = tried(&|tensors| {
        fill(tensors, "embed_tokens.weight", 0.5);
        fill(tensors, "o_proj.weight", 0.0);
    });
    assert_eq!(alike, fault("are the same for every token"));
}

/// An encoder of text has hidden states, and no scores of tokens.
#[test]
fn trials_of_encoders() {
    let bert = "tests/fixtures/hf/bert-f32";
    let said = printed(&["verify", "--run", bert]);
    assert!(said.contains("; ran 64 tokens"), "{said}");
    let report = support::json(&["run", "logits", bert, "--ids", "1,2", "--json"]);
    assert_eq!(report["output"], "hidden_states");
}

#[test]
fn lists_in_configs_are_shown_as_runs() {
    let shown = |kinds: &[&str]| {
        let (mut config, tensors) = llama(32);
        let more = json!({
            "model_type": "qwen2", "sliding_window": 8, "num_hidden_layers": kinds.len(),
            "layer_types": kinds,
        });
        let more = more.as_object().expect("an object").clone();
        config.as_object_mut().expect("an object").extend(more);
        let (_folder, path) = directory(&config, &tensors);
        let text = printed(&["inspect", "--config", &path]);
        let line = text.lines().find(|line| line.starts_with("layers ")).expect("a line");
        line.replace("layers ", "").replace("config.json layer_types", "").trim().to_owned()
    };
    let (full, sliding) = ("full_attention", "sliding_attention");
    assert_eq!(
        shown(&[full, full, full, sliding, full]),
        "3 x full_attention, sliding_attention, full_attention"
    );
    let both = format!("{full}, {sliding}");
    let four = [both.as_str(); 4].join(", ");
    assert_eq!(shown(&[full, sliding].repeat(4)), four);
    assert_eq!(shown(&[full, sliding].repeat(5)), format!("{four}, ..."));
}

/// The scale of a tensor in a dtype that the scheme does not allow: its values cannot be had.
#[test]
fn hashes_of_values_that_cannot_be_read() {
    let config = json!({"model_type": "llama", "quantization_config": {
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
    }});
    let header = r#"{"l.weight_packed":{"dtype":"U8","shape":[2,8],"data_offsets":[0,16]},"l.weight_scale":{"dtype":"F8_E4M3","shape":[2,1],"data_offsets":[16,18]},"l.weight_global_scale":{"dtype":"BF16","shape":[1],"data_offsets":[18,20]}}"#;
    let data = [&[0x11; 16][..], &[0x38, 0x38], &[0x80, 0x3f]].concat();
    let (folder, _file) = file("model.safetensors", &safetensors(header, &data));
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a config");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let fault = "the global_divisor is BF16 [1], but F32 is required";
    // The other hash of the tensor is shown all the same.
    let ran = run(&["hash", path, "--values"]);
    assert_eq!(ran.status, Some(3), "{}", ran.err);
    let line = ran.out.lines().next().expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words.len(), 3, "{line}");
    assert!(words[0].chars().all(|digit| digit.is_ascii_hexdigit()), "{line}");
    assert_eq!((words[1], words[2]), ("-".repeat(64).as_str(), "l.weight"));
    assert!(ran.err.contains(fault), "{}", ran.err);
    // A list has no place for what is missing, so that none is written.
    let list = folder.path().join("list");
    let ran = run(&["hash", path, "--values", "--save", list.to_str().expect("UTF-8")]);
    assert_eq!(ran.status, Some(3), "{}", ran.err);
    assert!(ran.err.contains(fault) && !list.exists(), "{}", ran.err);
}

/// The embedding is the output matrix too, but neither it nor the number of its rows is there.
#[test]
fn a_tied_vocabulary_of_unknown_size() {
    let (mut config, mut tensors) = llama(32);
    config["tie_word_embeddings"] = true.into();
    tensors.retain(|(name, ..)| !name.starts_with("model.embed") && name != "lm_head.weight");
    let line = |config: &serde_json::Value| {
        let (_folder, path) = directory(config, &tensors);
        let ran = run(&["inspect", &path]);
        let line = ran.out.lines().find(|line| line.trim().starts_with("vocabulary "));
        line.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(line(&config).as_deref(), Some("32 (tied)"));
    config.as_object_mut().expect("an object").remove("vocab_size");
    assert_eq!(line(&config).as_deref(), Some("tied embeddings"));
    config["tie_word_embeddings"] = false.into();
    assert_eq!(line(&config), None);
}

#[test]
fn parts_of_different_shapes() {
    let (config, tensors) = llama(33);
    let (_folder, path) = directory(&config, &tensors);
    let text = printed(&["inspect", &path, "--shard", "tp=2"]);
    let part = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect(name);
        let mut cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.nth(3).expect("a part").to_owned()
    };
    assert_eq!(part("output.weight"), "17 x 8 to 16 x 8");
    assert_eq!(part("layers.0.attention.q.weight"), "4 x 8");
    assert_eq!(part("output_norm.weight"), "8");
    let ran = run(&["inspect", &path, "--shard", "tp=2", "--filter", "no-such-*"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(5), ""));
    assert!(ran.err.contains("no tensor name matches \"no-such-*\""), "{}", ran.err);
}

/// The size of a type that is not known is not known either.
#[test]
fn a_tensor_of_an_unknown_type() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    gguf(&path, |keys| keys.set_text("general.architecture", "llama"));
    let mut bytes = std::fs::read(&path).expect("the file");
    let row = |path: &std::path::Path| {
        let ran = run(&["inspect", path.to_str().expect("UTF-8")]);
        let line = ran.out.lines().find(|line| line.starts_with("x ")).expect("a row").to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&path), ["x", "-", "F32", "2", "32.00", "8", "B"]);
    // The name, one dimension of length 2, and the type.
    let entry = [&1u64.to_le_bytes()[..], b"x", &1u32.to_le_bytes(), &2u64.to_le_bytes()].concat();
    let at = bytes.windows(entry.len()).position(|window| window == entry).expect("the entry");
    bytes[at + entry.len()..][..4].copy_from_slice(&4242u32.to_le_bytes());
    std::fs::write(&path, bytes).expect("the file");
    assert_eq!(row(&path), ["x", "-", "ggml:4242", "2", "-", "-"]);
}

#[test]
fn values_that_are_no_numbers_are_counted() {
    let values = [1.0, 2.0, f32::NAN, f32::NAN, 3.0, f32::INFINITY, 0.0, 0.0];
    let said = |values: &[f32]| {
        let tensor = ("t".to_owned(), vec![2, values.len() / 2], values.to_vec());
        let (_folder, path) = directory(&json!({"model_type": "an-unknown-one"}), &[tensor]);
        let text = printed(&["inspect", &path, "t"]);
        let row = |label: &str| {
            let line = text.lines().map(str::trim).find(|line| line.starts_with(label));
            line.map(|line| line.replace(label, "").trim().to_owned())
        };
        ["values", "NaN", "infinite", "zeros"].map(row)
    };
    let some = |text: &str| Some(text.to_owned());
    let expected = [some("8"), some("2 (25 %)"), some("1 (12.5 %)"), some("2 (25 %)")];
    assert_eq!(said(&values), expected);
    assert_eq!(said(&[1.0, 2.0]), [some("2"), None, None, some("0 (0 %)")]);
}

/// Matrices that are stored as columns are computed when they are loaded.
#[test]
fn what_is_computed_is_told() {
    let config =
        json!({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 16});
    let matrix = |name: &str, shape: [usize; 2]| {
        (name.to_owned(), shape.to_vec(), numbers(name, shape.iter().product()))
    };
    let all = [matrix("h.0.mlp.c_fc.weight", [8, 32]), matrix("h.1.mlp.c_fc.weight", [8, 32])];
    let computed = |tensors: &[support::Values]| {
        let (_folder, path) = directory(&config, tensors);
        let ran = run(&["bench", &path]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        ran.out.lines().find(|line| line.starts_with("computed: ")).map(str::to_owned)
    };
    let why = "its rows are stored as columns";
    assert_eq!(computed(&all[..1]), Some(format!("computed: layers.0.ffn.up.weight: {why}")));
    assert_eq!(computed(&all), Some(format!("computed: layers.0.ffn.up.weight and 1 more: {why}")));
    let embedding = matrix("wte.weight", [16, 8]);
    assert_eq!(computed(&[embedding]), None);
}

/// Each spelling of a device names that device.
#[test]
#[cfg(not(feature = "gpu"))]
fn names_of_devices() {
    for (name, device) in [("gpu", "gpu"), ("gpu:0", "gpu:0"), ("gpu:A100", "gpu:A100")] {
        let ran = run(&["bench", "assets/sample/hf", "--device", name]);
        assert_eq!(ran.status, Some(4), "{}", ran.err);
        let fault = format!("device {device}: this program was built without GPUs");
        assert!(ran.err.contains(&fault), "{}", ran.err);
    }
    for name in ["gpu:", "tpu", "cpu:0"] {
        let ran = run(&["bench", "assets/sample/hf", "--device", name]);
        assert_eq!(ran.status, Some(2), "{name}: {}", ran.err);
        assert!(ran.err.contains("expected cpu, gpu, gpu:NUMBER or gpu:NAME"), "{}", ran.err);
    }
}

/// An adapter names the model that it was made for, unless it was made for none.
#[test]
fn the_base_of_an_adapter() {
    let from = support::root().join("tests/fixtures/lora/llama/adapter");
    let line = |base: serde_json::Value| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for entry in std::fs::read_dir(&from).expect("the adapter") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("a copy");
        }
        let config = folder.path().join("adapter_config.json");
        let text = std::fs::read_to_string(&config).expect("a config");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json["base_model_name_or_path"] = base;
        std::fs::write(&config, json.to_string()).expect("a config");
        let ran = run(&["inspect", folder.path().to_str().expect("a path in UTF-8")]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let mut lines = ran.out.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix("adapter of ")).map(|text| text.trim().to_owned())
    };
    assert_eq!(line("org/base".into()).as_deref(), Some("org/base"));
    assert_eq!(line(serde_json::Value::Null), None);
}
