//! `memory`: what running a model takes, and how it fits on devices.

use crate::support;
use crate::support::{Ran, json, printed, refused, run};
use serde_json::{Value, json};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

#[test]
fn weights_cache_buffers_and_total() {
    let report = json(&["memory", GGUF, "--context", "256", "--json"]);
    let number = |key: &str| report[key].as_u64().expect("a number");
    assert_eq!(number("total"), number("weights") + number("cache") + number("buffers"));
    let layers = report["layers"].as_array().expect("layers");
    let of_layers = |key: &str| -> u64 {
        layers.iter().map(|layer| layer[key].as_u64().expect("a number")).sum()
    };
    assert_eq!(number("weights"), of_layers("weights") + number("shared"));
    assert_eq!(number("cache"), of_layers("cache"));
    assert!(layers.iter().all(|layer| layer["keeps"] == "attention"), "{report}");
    assert_eq!(report["max_context"], report["trained_context"]);
    // All tensors count once, in any container.
    let inspected = json(&["inspect", GGUF, "--json"]);
    assert_eq!(report["weights"], inspected["stored_bytes"]);
    let other = json(&["memory", "assets/sample/hf", "--context", "256", "--json"]);
    assert_eq!(other["cache"], report["cache"]);
    // llama.cpp has a multiple of 256 positions.
    let longer = json(&["memory", GGUF, "--context", "257", "--json"]);
    assert_eq!(longer["cache"].as_u64(), Some(2 * number("cache")));
    let packed = json(&["memory", GGUF, "--context", "256", "--kv", "Q8_0", "--json"]);
    assert_eq!(packed["cache"].as_u64().map(|bytes| bytes * 32), Some(number("cache") * 17));
}

#[test]
fn layers_are_divided_among_devices() {
    let whole = json(&["memory", GGUF, "--context", "256", "--json"]);
    let number = |report: &Value, key: &str| report[key].as_u64().expect("a number");
    let all = whole["layers"].as_array().expect("layers").len() as u64;
    let one = json(&["memory", GGUF, "--context", "256", "--device", "gpu0=1GiB", "--json"]);
    let device = &one["devices"][0];
    assert_eq!((&device["name"], number(device, "layers")), (&json!("gpu0"), all));
    assert_eq!((&device["first_layer"], number(device, "bytes")), (&json!(0), 1 << 30));
    assert_eq!(
        (number(device, "cache"), number(&one["host"], "layers")),
        (number(&whole, "cache"), 0)
    );
    assert_eq!(one["max_context"], whole["trained_context"]);
    assert_eq!(one["quantize_to"], Value::Null, "all of it is there");
    // Too small for all: the rest stays on the host, and nothing counts twice.
    let size = number(device, "total") - 1;
    let sized = format!("a={size}");
    let part = json(&["memory", GGUF, "--context", "256", "--device", &sized, "--json"]);
    let (device, host) = (&part["devices"][0], &part["host"]);
    assert_eq!(number(device, "layers") + number(host, "layers"), all);
    assert!(number(host, "layers") > 0 && number(device, "total") <= size, "{part}");
    assert_eq!(number(device, "cache") + number(host, "cache"), number(&whole, "cache"));
    assert!(part["quantize_to"].is_string(), "{part}");
    let said = printed(&["memory", GGUF, "--context", "256", "--device", &sized]);
    let name = part["quantize_to"].as_str().expect("a file type");
    assert!(said.contains(&format!("; quantized to {name}, all would be")), "{said}");
    let two = ["memory", GGUF, "--context", "256", "--device", &sized, "--device", "b=1GiB"];
    let both = json(&[&two[..], &["--json"]].concat());
    assert_eq!(number(&both["host"], "layers"), 0, "{both}");
    let said = printed(&two);
    assert!(said.contains(&format!("all {all} layers are on the devices")), "{said}");
    assert!(said.contains("\n  trained context  256 tokens\n"), "{said}");
    let said = printed(&["memory", GGUF, "--device", "a=1KiB", "--layers"]);
    assert!(said.contains(&format!("0 of {all} layers are on the devices")), "{said}");
    assert!(said.contains("KEEPS") && said.contains("attention"), "{said}");
    assert!(refused(&["memory", GGUF, "--device", "8GiB"]).starts_with("2\n"));
}

/// The field of JSON reports if the memory is too small.
const NO: &str = "\"fits\":false";

/// The output of a run, whose status is 1 if it says so.
fn answered(words: &[&str], no: &str) -> String {
    let Ran { status, out, err, .. } = run(words);
    let expected = i32::from(out.contains(no));
    assert_eq!((status, err.as_str()), (Some(expected), ""), "{words:?}: {out}");
    out
}

/// The answer for a context comes first, then what would fit.
#[test]
fn rooms() {
    let told = |context: &str, room: &str| {
        answered(&["memory", GGUF, "--context", context, "--room", room], ": no: ")
    };
    let reported = |room: &str| {
        let words = ["memory", GGUF, "--context", "16", "--room", room, "--json"];
        let report: Value = serde_json::from_str(&answered(&words, NO)).expect("JSON");
        report["rooms"][0].clone()
    };
    let all = told("16", "1GiB");
    assert!(all.starts_with("1 GiB: yes, with 16 tokens; with up to 256\n\n"), "{all}");
    assert_eq!(reported("1GiB")["quantize_to"], Value::Null);
    let all = told("256", "8G");
    assert!(all.starts_with("8 GB: yes, with 256 tokens\n\n"), "{all}");
    let room = "1250KiB";
    let name = reported(room)["quantize_to"].as_str().expect("a file type").to_owned();
    assert_eq!(reported(room)["fits"], false);
    let said = told("16", room);
    assert!(said.starts_with("1250 KiB: no: ") && said.contains("16 tokens take "), "{said}");
    assert!(said.contains(&format!("quantized to {name}")), "{said}");
    // A shorter context that fits makes no yes of a longer one.
    let needed = json(&["memory", GGUF, "--context", "256", "--json"])["total"].clone();
    let room = (needed.as_u64().expect("a number") - 1).to_string();
    let long = told("256", &room);
    assert!(long.contains(": no: 256 tokens take "), "{long}");
    assert!(long.contains("; 1 of 2 layers fit; all fit with at most "), "{long}");
    let none = told("16", "1KiB");
    assert!(none.starts_with("1 KiB: no: 16 tokens take "), "{none}");
    assert!(none.contains("; no layer fits\n"), "{none}");
    // Layers that do not fit say nothing beside a context with which all fit.
    let fewer = told("256", "2600KiB");
    assert!(fewer.contains("MiB); it fits with at most "), "{fewer}");
    // Types that destroy the model, need an importance matrix, or change nothing, are no advice.
    for kib in (0..2600).step_by(50).skip(1) {
        let name = reported(&format!("{kib}KiB"))["quantize_to"].clone();
        let name = name.as_str().unwrap_or_default();
        assert!(!name.starts_with("IQ1") && !name.starts_with("IQ2"), "{name}");
        assert!(
            !["COPY", "Q1_0", "Q2_0", "TQ1_0", "TQ2_0", "Q2_K_S", "IQ3_XXS"].contains(&name),
            "{name}"
        );
    }
    for (option, value) in [("--room", "8"), ("--device", "a=8")] {
        let said = refused(&["memory", GGUF, option, value]);
        assert!(said.starts_with("2\n") && said.contains("8GiB"), "{said}");
    }
}

/// The keys of an architecture without canonical names: 3 layers with 2, 0 and 4 heads of 24 for
/// keys and 8 for values.
const UNKNOWN: [(&str, Option<&[u32]>); 7] = [
    ("block_count", Some(&[3])),
    ("context_length", Some(&[1024])),
    ("embedding_length", Some(&[32])),
    ("attention.head_count", Some(&[4])),
    ("attention.head_count_kv", Some(&[2, 0, 4])),
    ("attention.key_length", Some(&[24])),
    ("attention.value_length", Some(&[8])),
];

fn unknown(changed: &[(&str, Option<&[u32]>)]) -> (tempfile::TempDir, String) {
    let mut keys = vec![("general.architecture".to_owned(), text("nomad"))];
    let is_changed = |name: &str| changed.iter().any(|(other, _)| *other == name);
    let kept = UNKNOWN.iter().filter(|(name, _)| !is_changed(name));
    for (name, values) in kept.chain(changed) {
        let bytes = match values {
            None => continue,
            Some([one]) => [4u32.to_le_bytes(), one.to_le_bytes()].concat(),
            Some(many) => {
                let head = [9u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
                let values = many.iter().flat_map(|value| value.to_le_bytes()).collect();
                [head, (many.len() as u64).to_le_bytes().to_vec(), values].concat()
            }
        };
        keys.push((format!("nomad.{name}"), bytes));
    }
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(4u64.to_le_bytes());
    bytes.extend((keys.len() as u64).to_le_bytes());
    for (name, value) in keys {
        bytes.extend(string(&name));
        bytes.extend(value);
    }
    for number in 0..4u64 {
        let name = match number {
            3 => "token_embd.weight".to_owned(),
            layer => format!("blk.{layer}.nomad.weight"),
        };
        bytes.extend(string(&name));
        bytes.extend(2u32.to_le_bytes());
        bytes.extend([32u64, 32].map(u64::to_le_bytes).concat());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend((number * 4096).to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32) + 4 * 4096, 0);
    support::file("model.gguf", &bytes)
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn text(value: &str) -> Vec<u8> {
    [&8u32.to_le_bytes()[..], &string(value)].concat()
}

#[test]
fn the_cache_of_an_unknown_architecture_follows_from_its_keys() {
    let memory = |changed: &[(&str, Option<&[u32]>)], more: &[&str]| {
        let (_folder, path) = unknown(changed);
        let words = [&["memory", &path, "--json"], more].concat();
        serde_json::from_str::<Value>(&answered(&words, NO)).expect("JSON")
    };
    let known = memory(&[], &["--context", "512", "--room", "300KiB"]);
    assert_eq!(known["cache"], 512 * 2 * (2 + 4) * (24 + 8));
    assert_eq!((&known["weights"], &known["shared"]), (&json!(16384), &json!(4096)));
    assert_eq!(known["layers"][1]["cache"], 0);
    assert_eq!(known["layers"][2]["weights"], 4096);
    assert_eq!(known["trained_context"], 1024);
    // Without widths, heads divide the embedding; without heads for keys, there are as many as of
    // queries.
    let widths: [(&str, Option<&[u32]>); 3] = [
        ("attention.head_count_kv", None),
        ("attention.key_length", None),
        ("attention.value_length", None),
    ];
    assert_eq!(memory(&widths, &["--context", "256"])["cache"], 256 * 2 * 3 * (32 + 32));
    // A key that does not suffice makes the cache unknown: then only the weights are compared.
    let missing: [(&str, Option<&[u32]>); 3] =
        [("block_count", None), ("attention.head_count", None), ("ssm.state_size", Some(&[16]))];
    for changed in missing {
        let changed = &[changed];
        let found = memory(changed, &["--room", "2MiB", "--room", "8KiB"]);
        for member in ["cache", "buffers", "total"] {
            assert_eq!(found[member], Value::Null, "{found}");
        }
        assert_eq!(found["weights"], 16384);
        assert!(found["unknown"].is_string());
        let [all, none] = [0, 1].map(|room| found["rooms"][room].clone());
        assert_eq!((&all["fits"], &all["max_context"]), (&Value::Null, &Value::Null));
        assert_eq!((&none["fits"], &none["quantize_to"]), (&json!(false), &Value::Null));
        let (_folder, path) = unknown(changed);
        let rooms = ["memory", &path, "--room", "2MiB", "--room", "8KiB", "--layers"];
        let said = answered(&rooms, ": no: ");
        assert!(said.contains("  unknown: ") && said.contains("more than 16.0 KiB"), "{said}");
        assert!(
            said.contains("2 MiB: unknown: the weights fit, the size of the cache is unknown"),
            "{said}"
        );
        assert!(said.contains("8 KiB: no: the weights alone take 16 KiB"), "{said}");
        assert!(refused(&["memory", &path, "--device", "a=1GiB"]).starts_with("4\n"));
    }
}

#[test]
fn the_cache_of_an_unknown_directory_follows_from_its_config() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let header = r#"{"model.layers.0.a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
        "model.layers.1.a.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},
        "lm_head.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[32,48]}}"#;
    let file = support::safetensors(header, &[0; 48]);
    std::fs::write(folder.path().join("model.safetensors"), file).expect("a file");
    let config = json!({
        "model_type": "nomad", "architectures": ["NomadForCausalLM"], "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 512,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let found = json(&["memory", path, "--context", "256", "--json"]);
    assert_eq!(found["cache"], 256 * 2 * 2 * 2 * (8 + 8));
    assert_eq!((&found["weights"], &found["shared"]), (&json!(48), &json!(16)));
    let mut config = config;
    config["layer_types"] = json!(["full_attention", "linear_attention"]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
    let found = json(&["memory", path, "--json"]);
    assert_eq!(found["cache"], Value::Null);
    assert!(
        found["unknown"].as_str().is_some_and(|why| why.contains("linear_attention")),
        "{found}"
    );
    // A file without a config has weights.
    std::fs::remove_file(folder.path().join("config.json")).expect("a file");
    let found = json(&["memory", path, "--room", "1KiB", "--room", "8MiB", "--json"]);
    assert_eq!((&found["weights"], &found["cache"]), (&json!(48), &Value::Null));
    assert_eq!(found["rooms"][0]["fits"], Value::Null);
}

/// A copy in GGUF is smaller by the vision model, but that is no quantization.
#[test]
fn a_copy_is_no_advice() {
    let (config, mut tensors) = support::llama(64);
    tensors.push(("vision_tower.patch.weight".to_owned(), vec![512, 512], vec![0.5; 512 * 512]));
    let (_folder, path) = support::directory(&config, &tensors);
    let total = json(&["memory", &path, "--json"])["total"].as_u64().expect("a number");
    let room = format!("{}KiB", total / 1024 - 300);
    let said = run(&["memory", &path, "--room", &room, "--json"]).out;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["rooms"][0]["fits"], false, "{said}");
    assert_ne!(said["rooms"][0]["quantize_to"], "COPY", "{said}");
}

/// llama.cpp keeps every position of a model whose architecture in GGUF has no window, though the file keeps the config
/// that has one.
#[test]
fn windows_that_llama_cpp_does_not_have() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(path("hf")).expect("a folder");
    for (name, bytes) in support::contents(&support::root().join("assets/sample/hf")) {
        std::fs::write(folder.path().join("hf").join(name), bytes).expect("a file");
    }
    let config = std::fs::read(path("hf/config.json")).expect("a config");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["model_type"] = "mistral".into();
    config["architectures"] = json!(["MistralForCausalLM"]);
    config["sliding_window"] = 64.into();
    std::fs::write(path("hf/config.json"), config.to_string()).expect("a file");
    assert_eq!(run(&["convert", &path("hf"), &path("x.gguf")]).status, Some(0));
    let cache = |at: &str| json(&["memory", at, "--context", "4096", "--json"])["cache"].clone();
    assert_eq!(cache(&path("x.gguf")), cache("assets/sample/hf"));
    assert!(cache(&path("hf")).as_u64() < cache("assets/sample/hf").as_u64());
}

/// Arrays of a scheme that is not decoded belong to layers, whose cache follows from the config.
#[test]
fn the_cache_of_a_scheme_that_is_not_decoded() {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), "F16", vec![40_u64, 32]),
        ("model.norm.weight".to_owned(), "F16", vec![32]),
    ];
    let modules = [
        "self_attn.q",
        "self_attn.k",
        "self_attn.v",
        "self_attn.o",
        "mlp.gate",
        "mlp.up",
        "mlp.down",
    ];
    for layer in 0..2 {
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            tensors.push((format!("model.layers.{layer}.{norm}.weight"), "F16", vec![32]));
        }
        for module in modules {
            let module = format!("model.layers.{layer}.{module}_proj");
            tensors.push((format!("{module}.trellis"), "I16", vec![2, 2, 64]));
            tensors.push((format!("{module}.suh"), "F16", vec![32]));
        }
    }
    tensors.push(("lm_head.trellis".to_owned(), "I16", vec![2, 2, 64]));
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, dtype, shape) in &tensors {
        let bytes = shape.iter().product::<u64>() * 2;
        let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes]});
        header.insert(name.clone(), tensor);
        end += bytes;
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    file.resize(file.len() + end as usize, 0);
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, "vocab_size": 40,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "tie_word_embeddings": false,
        "quantization_config": {"quant_method": "exl3"},
    });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("model.safetensors"), file).expect("a file");
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let report = json(&["memory", path, "--context", "256", "--json"]);
    // Keys and values of 1 head of 16 elements in F16.
    let layer = json!({"weights": 7 * (512 + 64) + 128, "cache": 2 * 16 * 2 * 256});
    for found in report["layers"].as_array().expect("layers") {
        for key in ["weights", "cache"] {
            assert_eq!(found[key], layer[key], "{key}: {report}");
        }
    }
    let refused = run(&["run", "logits", path, "--ids", "1,2"]);
    assert!(refused.err.contains("codes of exl3"), "{}", refused.err);
}

/// An encoder keeps no keys and values, whether the decoder computes it or not.
#[test]
fn an_encoder_that_is_not_computed_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = support::root().join("tests/fixtures/hf/bert-f32");
    let weights = "model.safetensors";
    std::fs::copy(source.join(weights), folder.path().join(weights)).expect("a copy");
    let config = std::fs::read_to_string(source.join("config.json")).expect("a config");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["position_embedding_type"] = "relative_key".into();
    for (is_decoder, keeps) in [(false, false), (true, true)] {
        config["is_decoder"] = is_decoder.into();
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
        let report = json(&["memory", &folder.path().to_string_lossy(), "--json"]);
        assert_eq!(report["cache"].as_u64() > Some(0), keeps, "{report}");
    }
}
