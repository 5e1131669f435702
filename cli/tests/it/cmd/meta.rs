//! `meta`: what it changes, what it shows without changing, and what it refuses.

use std::path::Path;

use crate::support;
use crate::support::{failure, json, printed, refused, run, sample};
use serde_json::{Value as Json, json};

const SAMPLE: &str = "assets/sample/sample-Q8_0.gguf";

fn get(path: &str, key: &str) -> Json {
    let values: Json =
        serde_json::from_str(&printed(&["meta", "get", path, key, "--json"])).expect("JSON");
    values.as_object().and_then(|all| all.values().next()).expect("a value").clone()
}

fn set(path: &str, values: &[&str]) {
    let ran = run(&[&["meta", "set", path], values].concat());
    assert_eq!(ran.status, Some(0), "{values:?}: {}", ran.err);
}

#[test]
fn a_dry_run_changes_nothing() {
    let (_folder, path) = sample();
    let before = std::fs::read(&path).expect("the file");
    let said = printed(&["meta", "set", &path, "llama.context_length=512", "--dry-run"]);
    assert!(said.starts_with("llama.context_length: 256 -> 512\ndry run: "), "{said}");
    assert!(said.ends_with("would be edited in place\n"), "{said}");
    let long = format!("general.name={}", "x".repeat(9000));
    let said = printed(&["meta", "set", &path, &long, "--dry-run"]);
    assert!(said.ends_with("would be rewritten\n") && said.len() < 1000, "{said}");
    let said = printed(&["meta", "rm", &path, "general.size_label", "--dry-run"]);
    assert!(said.starts_with("general.size_label: \"1.3M\" -> nothing\n"), "{said}");
    let report = json(&["meta", "set", &path, "general.url=str:x", "--dry-run", "--json"]);
    assert_eq!(report["dry_run"], true);
    assert_eq!(report["changes"], json!([{"key": "general.url", "old": null, "new": "x"}]));
    assert_eq!(std::fs::read(&path).expect("the file"), before);
}

#[test]
fn a_copy_leaves_the_original() {
    let (folder, path) = sample();
    let before = std::fs::read(&path).expect("the file");
    let copy = folder.path().join("copy.gguf");
    let copy = copy.to_str().expect("UTF-8");
    printed(&[
        "meta",
        "set",
        &path,
        "general.name=Copy",
        "general.file_type=MOSTLY_Q4_0",
        "-o",
        copy,
    ]);
    assert_eq!(get(copy, "general.file_type"), 2);
    assert_eq!(
        (get(copy, "general.name"), get(&path, "general.name")),
        ("Copy".into(), "Weighbridge tales".into())
    );
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    assert_eq!(run(&["diff", &path, copy]).status, Some(0));
    // It must not exist; neither may its folder be missing.
    assert_eq!(
        failure(&["meta", "set", &path, "general.name=x", "-o", copy, "--json"])["status"],
        2
    );
    let lost = folder.path().join("none/copy.gguf");
    let lost = lost.to_str().expect("UTF-8");
    assert_eq!(failure(&["meta", "rm", &path, "general.name", "-o", lost, "--json"])["status"], 5);
    let other = folder.path().join("other.gguf");
    let other = other.to_str().expect("UTF-8");
    printed(&["meta", "rm", &path, "general.name", "-o", other, "--dry-run"]);
    assert!(!Path::new(other).exists());
}

/// All options of gguf-new-metadata.
#[test]
fn a_copy_as_of_gguf_new_metadata() {
    let (folder, path) = sample();
    let copy = folder.path().join("copy.gguf");
    let copy = copy.to_str().expect("UTF-8");
    let words = ["gguf-new-metadata", "--general-name", "Copy", "--special-token", "eos", "<s>"];
    let more = ["--remove-metadata", "general.size_label", "--chat-template", "{{ x }}"];
    printed(&[&words[..], &more, &["--special-token-by-id", "pad", "3", &path, copy]].concat());
    for (key, value) in [
        ("general.name", Json::from("Copy")),
        ("tokenizer.chat_template", "{{ x }}".into()),
        ("tokenizer.ggml.eos_token_id", 0.into()),
        ("tokenizer.ggml.padding_token_id", 3.into()),
    ] {
        assert_eq!(get(copy, key), value, "{key}");
    }
    assert_eq!(run(&["meta", "get", copy, "general.size_label"]).status, Some(5));
    let kept = refused(&["meta", "set", &path, "--remove", "general.architecture"]);
    assert!(kept.contains("`meta rm` with --force"), "{kept}");
}

/// As gguf-py: the templates of a tokenizer_config.json, one or a list, and not its text.
#[test]
fn the_template_of_a_tokenizer_config() {
    let (folder, path) = sample();
    let config = folder.path().join("tokenizer_config.json");
    let named = |json: &str| {
        std::fs::write(&config, json).expect("a file");
        config.to_str().expect("UTF-8").to_owned()
    };
    let before = std::fs::read(&path).expect("a file");
    for json in [r#"{"bos_token": "<s>"}"#, r#"{"chat_template": null}"#, "{\"chat_template\": []}"]
    {
        let config = named(json);
        let copy = folder.path().join("none.gguf");
        let copy = copy.to_str().expect("UTF-8");
        for words in [
            &["meta", "set", &path, &format!("chat_template=@{config}")][..],
            &["gguf-new-metadata", "--chat-template-config", &config, &path, copy],
        ] {
            let said = refused(words);
            assert!(said.contains("no key \"chat_template\""), "{said}");
        }
        assert_eq!(std::fs::read(&path).expect("a file"), before);
        assert!(!std::path::Path::new(copy).exists());
    }
    let list = r#"[{"name": "default", "template": "{{ x }}"}, {"name": "tool use", "template": "{{ y }}"}]"#;
    for value in
        [format!("@{}", named(&format!(r#"{{"chat_template": {list}}}"#))), list.to_owned()]
    {
        let (_copy, path) = sample();
        set(&path, &[&format!("chat_template={value}")]);
        assert_eq!(get(&path, "tokenizer.chat_template"), "{{ x }}");
        assert_eq!(get(&path, "tokenizer.chat_template.tool_use"), "{{ y }}");
        assert_eq!(get(&path, "tokenizer.chat_templates"), json!(["tool_use"]));
    }
}

#[test]
fn values_from_files() {
    let (folder, path) = sample();
    let template = "{% for m in messages %}\n{{ m.content }}\n{% endfor %}\n";
    let file = folder.path().join("template.jinja");
    std::fs::write(&file, template).expect("a file");
    let at = format!("@{}", file.to_str().expect("UTF-8"));
    for argument in [
        format!("tokenizer.chat_template={at}"),
        format!("general.description=str:{at}"),
        format!("general.name={at}"),
    ] {
        set(&path, &[&argument]);
        let key = argument.split('=').next().expect("a key");
        assert_eq!(get(&path, key), *template, "{key}");
    }
    set(&path, &["general.name=@@home"]);
    assert_eq!(get(&path, "general.name"), "@home");
    let tokens = folder.path().join("list.json");
    std::fs::write(&tokens, "[1, 2, 3]").expect("a file");
    set(&path, &[&format!("x.list=u16[]:@{}", tokens.to_str().expect("UTF-8"))]);
    assert_eq!(get(&path, "x.list"), json!([1, 2, 3]));
    let error = failure(&["meta", "set", &path, "general.name=@no-such-file", "--json"]);
    assert_eq!((&error["status"], &error["path"]), (&json!(5), &json!("no-such-file")));
}

#[test]
fn arrays() {
    let (_folder, path) = sample();
    for (argument, value) in [
        ("a.new=i32[]:[1,-2]", json!([1, -2])),
        ("a.texts=str[]:[\"x\",\"y\"]", json!(["x", "y"])),
        ("a.flags=bool[]:[true,false]", json!([true, false])),
        ("a.floats=f64[]:[0.5,1e300]", json!([0.5, 1e300])),
        ("a.bytes=u8[]:[0,255]", json!([0, 255])),
        ("a.empty=str[]:[]", json!([])),
        ("a.texts=[\"z\"]", json!(["z"])),
    ] {
        set(&path, &[argument]);
        assert_eq!(get(&path, argument.split('=').next().expect("a key")), value, "{argument}");
    }
    for argument in [
        "a.texts=[1]",
        "a.bytes=u8[]:[256]",
        "a.new=1",
        "a.untyped=[1,2]",
        "a.none=[]",
        "a.mixed=i32[]:[1,\"x\"]",
        "a.b=u8[]:[1.5]",
    ] {
        let error = failure(&["meta", "set", &path, argument, "--json"]);
        assert_eq!(error["kind"], "usage", "{argument}");
    }
}

#[test]
fn special_tokens_by_name() {
    let (_folder, path) = sample();
    set(&path, &["eos=</s>"]);
    assert_eq!(get(&path, "tokenizer.ggml.eos_token_id"), 1);
    set(&path, &["tokenizer.ggml.bos_token_id=</s>", "pad=<s>", "eot=token:</s>", "sep_token=3"]);
    for (key, id) in [
        ("bos_token_id", 1),
        ("padding_token_id", 0),
        ("eot_token_id", 1),
        ("seperator_token_id", 3),
    ] {
        assert_eq!(get(&path, &format!("tokenizer.ggml.{key}")), id, "{key}");
    }
    assert_eq!(get(&path, "pad"), 0);
    printed(&["meta", "rm", &path, "pad"]);
    assert_eq!(
        failure(&["meta", "get", &path, "pad", "--json"])["key"],
        "tokenizer.ggml.padding_token_id"
    );
    let error = failure(&["meta", "set", &path, "eos=<|no such token|>", "--json"]);
    assert_eq!(error["kind"], "not_found");
}

/// A key that is named like the purpose of a special token comes before that token.
#[test]
fn keys_come_before_purposes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("own.gguf");
    support::gguf(&path, |keys| {
        keys.set_text("general.architecture", "llama");
        keys.set("eos", weighbridge::metadata::Value::U32(7));
    });
    let path = path.to_str().expect("UTF-8");
    assert_eq!(get(path, "eos"), 7);
    set(path, &["eos=8"]);
    assert_eq!(get(path, "eos"), 8);
    assert!(refused(&["meta", "get", path, "tokenizer.ggml.eos_token_id"]).starts_with("5\n"));
}

#[test]
fn required_keys_need_force() {
    let (folder, path) = sample();
    let before = std::fs::read(&path).expect("the file");
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.rope.freq_base",
        "llama.attention.head_count_kv",
        "llama.context_length",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.model",
    ] {
        let error = failure(&["meta", "rm", &path, "general.name", key, "--json"]);
        assert_eq!((&error["status"], &error["key"]), (&json!(2), &json!(key)));
        assert!(
            error["advice"].as_str().is_some_and(|advice| advice.contains("--force")),
            "{error}"
        );
    }
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    printed(&["meta", "rm", &path, "llama.rope.freq_base", "--force"]);
    assert_eq!(run(&["meta", "get", &path, "llama.rope.freq_base"]).status, Some(5));
    printed(&["meta", "rm", &path, "general.name", "general.size_label"]);
    // An adapter's own keys.
    let adapter = folder.path().join("adapter.gguf");
    support::gguf(&adapter, |keys| {
        for (key, text) in [
            ("general.architecture", "llama"),
            ("general.type", "adapter"),
            ("adapter.type", "lora"),
            ("general.name", "x"),
        ] {
            keys.set_text(key, text);
        }
    });
    let adapter = adapter.to_str().expect("UTF-8");
    assert_eq!(run(&["meta", "rm", adapter, "adapter.type"]).status, Some(2));
    assert_eq!(run(&["meta", "rm", adapter, "general.type"]).status, Some(2));
    assert_eq!(run(&["meta", "rm", adapter, "general.name"]).status, Some(0));
}

/// Files that cannot be edited are refused before anything about the keys.
#[test]
fn models_that_are_no_single_gguf_file() {
    for path in ["assets/sample/hf", "assets/sample/mlx-4bit"] {
        let said = refused(&["meta", "set", path, "hidden_size=12"]);
        assert!(said.starts_with("4\n") && said.contains("config.json"), "{said}");
        let said = refused(&["meta", "rm", path, "hidden_size"]);
        assert!(said.starts_with("4\n") && said.contains("config.json"), "{said}");
    }
    let said = refused(&["meta", "set", "assets/sample/hf/model.safetensors", "format=np"]);
    assert!(said.starts_with("4\n") && said.contains("safetensors file"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let stem = folder.path().join("x");
    let stem = stem.to_str().expect("UTF-8");
    printed(&["split", SAMPLE, stem, "--max-tensors", "10"]);
    let shard = format!("{stem}-00001-of-00002.gguf");
    let said = refused(&["meta", "set", &shard, "general.name=x"]);
    assert!(said.starts_with("4\n") && said.contains("weighbridge merge"), "{said}");
    // A copy of it is one file.
    let copy = format!("{stem}.gguf");
    printed(&["meta", "set", &shard, "general.name=x", "-o", &copy]);
    assert_eq!(run(&["diff", &shard, &copy]).status, Some(0));
    assert_eq!(get(&copy, "general.name"), "x");
}

/// A misspelled key is no new key: its type is missing, and the error names the key that may be meant.
#[test]
fn new_keys_require_a_type() {
    let (folder, path) = sample();
    let file = folder.path().join("template.jinja");
    std::fs::write(&file, "{{ x }}").expect("a file");
    let at = format!("@{}", file.to_str().expect("UTF-8"));
    // A key that the file lacks may be meant, if it needs no type.
    let said = refused(&["meta", "set", &path, &format!("chat_templat={at}")]);
    assert!(said.contains("the nearest key is \"tokenizer.chat_template\""), "{said}");
    set(&path, &[&format!("chat_template={at}")]);
    let before = std::fs::read(&path).expect("the file");
    for (key, nearest) in [
        ("chat_templat", "tokenizer.chat_template"),
        ("tokenizer.chat_tempalte", "tokenizer.chat_template"),
        ("general.nmae", "general.name"),
        ("llama.context_lenght", "llama.context_length"),
        ("context_lenght", "llama.context_length"),
        ("tokenizer.ggml.eso_token_id", "tokenizer.ggml.eos_token_id"),
    ] {
        for value in [&at, "x", "1", "@@x"] {
            let error = failure(&["meta", "set", &path, &format!("{key}={value}"), "--json"]);
            assert_eq!(error["kind"], "usage", "{key}={value}: {error}");
            let said = error["message"].as_str().expect("a message");
            let asks = if key.contains('.') { "give its type" } else { "a new one has a dot" };
            assert!(said.contains(asks), "{said}");
            assert!(said.contains(&format!("the nearest key is \"{nearest}\"")), "{said}");
        }
        let error = failure(&["meta", "get", &path, key, "--json"]);
        assert_eq!(error["kind"], "not_found");
        let advice = error["advice"].as_str().expect("advice");
        assert!(advice.contains(&format!("\"{nearest}\"")), "{advice}");
        let error = failure(&["meta", "rm", &path, key, "--json"]);
        assert!(error["advice"].as_str().is_some_and(|said| said.contains(nearest)), "{error}");
    }
    let said = refused(&["meta", "set", &path, &format!("my.text={at}")]);
    assert!(said.contains("as in my.text=str:@FILE"), "{said}");
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    set(&path, &[&format!("my.text=str:{at}")]);
    assert_eq!(get(&path, "my.text"), "{{ x }}");
}

/// A key that is given in full is that key, also if the file lacks it.
#[test]
fn keys_in_full_get_no_prefix() {
    let (_folder, path) = sample();
    let absent = ["tokenizer.ggml.add_eos_token", "general.sampling.temp"];
    let values =
        absent.map(|key| format!("{key}={}", if key.ends_with("temp") { "0.5" } else { "true" }));
    set(&path, &values.each_ref().map(String::as_str));
    let keys: Json =
        serde_json::from_str(&printed(&["meta", "get", &path, "--json"])).expect("JSON");
    let keys = keys.as_object().expect("an object");
    assert!(absent.iter().all(|key| keys.contains_key(*key)), "{keys:?}");
    let others = keys
        .keys()
        .filter(|key| key.starts_with("llama.tokenizer") || key.starts_with("llama.general"));
    assert_eq!(others.count(), 0, "{keys:?}");
}

/// Keys may be given without their prefix, if the file has them or their type is known.
#[test]
fn keys_without_their_prefix() {
    let (folder, path) = sample();
    for (short, full) in [
        ("name", "general.name"),
        ("architecture", "general.architecture"),
        ("context_length", "llama.context_length"),
        ("block_count", "llama.block_count"),
        ("rope.freq_base", "llama.rope.freq_base"),
        ("attention.head_count", "llama.attention.head_count"),
        ("model", "tokenizer.ggml.model"),
        ("ggml.model", "tokenizer.ggml.model"),
        ("eos", "tokenizer.ggml.eos_token_id"),
        ("bos_token", "tokenizer.ggml.bos_token_id"),
    ] {
        assert_eq!(get(&path, short), get(&path, full), "{short}");
    }
    let file = folder.path().join("template.jinja");
    std::fs::write(&file, "[{{ x }}]").expect("a file");
    let at = format!("@{}", file.to_str().expect("UTF-8"));
    set(&path, &["name=Other", "context_length=128", &format!("chat_template={at}")]);
    set(&path, &["description=Short tales", "license=mit", "add_bos_token=true"]);
    for (full, value) in [
        ("general.name", json!("Other")),
        ("llama.context_length", json!(128)),
        ("tokenizer.chat_template", json!("[{{ x }}]")),
        ("general.description", json!("Short tales")),
        ("general.license", json!("mit")),
        ("tokenizer.ggml.add_bos_token", json!(true)),
    ] {
        assert_eq!(get(&path, full), value, "{full}");
    }
    // Names of config.json, and the template in a tokenizer_config.json.
    let config = folder.path().join("tokenizer_config.json");
    std::fs::write(&config, r#"{"chat_template": "{{ y }}"}"#).expect("a file");
    let config = format!("chat_template=@{}", config.to_str().expect("UTF-8"));
    set(&path, &["rope_theta=500000", "max_position_embeddings=512", &config]);
    assert_eq!(get(&path, "llama.rope.freq_base"), 500_000.0);
    assert_eq!(get(&path, "llama.context_length"), 512);
    assert_eq!(get(&path, "tokenizer.chat_template"), "{{ y }}");
    // The file has no keys but those, in full.
    for short in ["name", "chat_template", "description", "context_length", "rope_theta"] {
        let all: Json =
            serde_json::from_str(&printed(&["meta", "get", &path, "--json"])).expect("JSON");
        assert_eq!(all.get(short), None, "{short}");
    }
    let bare = folder.path().join("bare.gguf");
    support::gguf(&bare, |keys| keys.set_text("general.architecture", "qwen2"));
    let bare = bare.to_str().expect("UTF-8");
    set(bare, &[&format!("chat_template={at}"), "context_length=64", "pad=3"]);
    // The types of keys that llama.cpp reads are known.
    let yarn = ["qwen2.rope.scaling.type=yarn", "qwen2.rope.scaling.factor=4"];
    set(bare, &[&yarn[..], &["rope.scaling.original_context_length=32768"]].concat());
    assert_eq!(get(bare, "rope.scaling.type"), "yarn");
    assert_eq!(get(bare, "qwen2.rope.scaling.factor"), 4.0);
    assert_eq!(get(bare, "qwen2.rope.scaling.original_context_length"), 32768);
    assert_eq!(get(bare, "tokenizer.chat_template"), "[{{ x }}]");
    assert_eq!(get(bare, "qwen2.context_length"), 64);
    assert_eq!(get(bare, "tokenizer.ggml.padding_token_id"), 3);
}

#[test]
fn a_directory_keeps_the_license_and_the_origin_in_its_model_card() {
    let (folder, path) = sample();
    set(
        &path,
        &[
            "general.license=str:other",
            "general.license.name=str:my: \"own\"",
            "general.basename=str:tales",
            "general.tags=str[]:[\"chat\",\"it's\"]",
            "general.base_model.count=u32:1",
            "general.base_model.0.name=str:Big Tales",
            "general.base_model.0.organization=str:Someone",
            "general.base_model.0.repo_url=str:https://huggingface.co/someone/big-tales",
        ],
    );
    let (directory, back) = (folder.path().join("hf"), folder.path().join("back.gguf"));
    let (directory, back) = (directory.to_str().expect("UTF-8"), back.to_str().expect("UTF-8"));
    printed(&["convert", &path, directory, "--to", "safetensors"]);
    let card = std::fs::read_to_string(Path::new(directory).join("README.md")).expect("a card");
    assert!(
        card.starts_with("---\n") && card.contains("base_model: \"someone/big-tales\""),
        "{card}"
    );
    let inspected = printed(&["inspect", directory]);
    assert!(
        inspected.contains("my: \"own\"") && inspected.contains("someone/big-tales"),
        "{inspected}"
    );
    printed(&["convert", directory, back]);
    let keys = |path| -> Json {
        serde_json::from_str(&printed(&["meta", "get", path, "--json"])).expect("JSON")
    };
    let (original, back) = (keys(&path), keys(back));
    let original = original.as_object().expect("keys");
    for (key, value) in original.iter().filter(|(key, _)| key.starts_with("general.")) {
        if key != "general.file_type" {
            assert_eq!(&back[key], value, "{key}");
        }
    }
}

/// A directory has its template in a file or in tokenizer_config.json, not in its metadata.
#[test]
fn the_template_of_a_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = support::root().join("assets/sample/hf");
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(sample.join(name), folder.path().join(name)).expect("a copy");
    }
    let path = folder.path().to_str().expect("UTF-8");
    let said = run(&["meta", "get", path, "chat_template"]);
    assert_eq!(said.status, Some(5), "{}", said.err);
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ x }}").expect("a file");
    for key in ["chat_template", "tokenizer.chat_template"] {
        assert_eq!(printed(&["meta", "get", path, key]).trim_end(), "{{ x }}");
    }
    assert_eq!(get(path, "chat_template"), json!("{{ x }}"));
}
