//! Models that go through GGUF and come back: what `config.json` says is told as lost, kept, and
//! restored; what llama.cpp cannot load is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::engines::requirements::{facts, gemma3};
use crate::models::{Form, listed_models, models};
use crate::support::{fixture, outside, put, sample};
use serde_json::{Map, Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{GGUF, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::translate::{gguf_metadata, mlx_documents};
use weighbridge::{ErrorKind, Model, WriteOptions};

/// Keys that describe the files.
const OF_FILES: [&str; 3] = ["torch_dtype", "dtype", "transformers_version"];

fn read(path: &Path) -> Map<String, Json> {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The flag, number or text that transformers' class of a `model_type` takes for an omitted key.
fn default(model_type: &str, key: &str) -> Option<Json> {
    type Facts = BTreeMap<String, BTreeMap<String, String>>;
    static FACTS: LazyLock<[Facts; 2]> =
        LazyLock::new(|| ["transformers/defaults.txt", "transformers/classes.txt"].map(facts));
    let of_class = |name: &str| FACTS.iter().find_map(|file| file.get(name)?.get(key));
    let text = of_class(model_type).or_else(|| of_class("PreTrainedConfig"))?;
    let value: Json = serde_json::from_str(text).expect("JSON");
    (!value.is_null() && !value.is_array() && !value.is_object()).then_some(value)
}

/// Numbers that are equal as 32-bit floats are the same.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// Converts a directory to GGUF and back, and returns the `config.json` that comes back.
fn there_and_back(source: &Path, folder: &Path) -> weighbridge::Result<Map<String, Json>> {
    let (gguf, back) = (folder.join("model.gguf"), folder.join("back"));
    let plan = ops::convert(&Model::open(source)?, &ConvertOptions::new(&GGUF))?;
    plan.run(&gguf, &WriteOptions::new())?;
    let plan = ops::convert(&Model::open(&gguf)?, &ConvertOptions::new(&SAFETENSORS))?;
    plan.run(&back, &WriteOptions::new())?;
    Ok(read(&back.join("config.json")))
}

/// Groups of keys that say one thing in several forms, older and newer ones. What they mean is
/// compared by a test of the library, and by running the models.
const FORMS: [&[&str]; 3] = [
    &[
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "partial_rotary_factor",
        "rope_local_base_freq",
    ],
    &[
        "layer_types",
        "sliding_window",
        "sliding_window_pattern",
        "use_sliding_window",
        "max_window_layers",
    ],
    &["mlp_only_layers", "decoder_sparse_step"],
];

/// Whether two documents have the same keys of the group of `key`, or the group in another form.
fn in_another_form(key: &str) -> bool {
    FORMS.iter().any(|form| form.contains(&key))
}

#[test]
fn every_key_of_every_config_comes_back() {
    let Some(models) = outside("logits") else { return };
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(models).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let (mut compared, mut faults) = (0, Vec::new());
    for source in entries.iter().filter(|path| path.join("model.safetensors").is_file()) {
        let folder = TempDir::new().unwrap();
        let stated = read(&source.join("config.json"));
        let back = match there_and_back(source, folder.path()) {
            Ok(back) => back,
            // Refused before anything is written, for a reason that names it.
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            Err(error) => panic!("{}: {error}", source.display()),
        };
        compared += 1;
        let usual = |key: &str| default(stated["model_type"].as_str().unwrap(), key);
        let name = source.file_name().unwrap().to_string_lossy();
        for (key, value) in stated.iter().filter(|(key, _)| !OF_FILES.contains(&key.as_str())) {
            let found = back.get(key);
            let is = found.is_some_and(|found| same(value, found));
            // An absent key means what the class takes for it.
            let absent = found.is_none() && (value.is_null() || usual(key).as_ref() == Some(value));
            // The heads of masked language models have no place in GGUF.
            let masked = ["bert", "modernbert", "roberta"].map(|name| json!(name));
            let headless = key == "architectures" && masked.contains(&back["model_type"]);
            if !is && !absent && !headless && !in_another_form(key) {
                faults.push(format!("{name}: {key} is {value}, came back as {found:?}"));
            }
        }
        for (key, value) in back.iter().filter(|(key, _)| !stated.contains_key(*key)) {
            let usual = usual(key);
            if !in_another_form(key) && usual.as_ref().is_some_and(|usual| !same(usual, value)) {
                faults.push(format!("{name}: {key} is {value}, but the class takes {usual:?}"));
            }
        }
    }
    assert!(compared >= 30, "only {compared} models were compared");
    assert!(faults.is_empty(), "{} of {compared} models:\n{}", faults.len(), faults.join("\n"));
}

/// The sample model with other keys in its `config.json`.
fn with(keys: Json) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in std::fs::read_dir(sample("hf")).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let mut config = read(&folder.path().join("config.json"));
    config.extend(keys.as_object().unwrap().clone());
    std::fs::write(folder.path().join("config.json"), json!(config).to_string()).unwrap();
    folder
}

const MISTRAL: fn() -> Json = || {
    json!({
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
        "sliding_window": 32,
    })
};

#[test]
fn a_loss_is_told_and_an_error_if_lossless() {
    let source = with(MISTRAL());
    let model = Model::open(source.path()).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap();
    let told = plan.notes.iter().find(|note| note.contains("llama.cpp"));
    assert!(told.is_some_and(|note| note.contains("sliding windows")), "{:?}", plan.notes);
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF).lossless(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("sliding windows"), "{error}");

    // Without a loss, nothing is told and nothing is an error.
    let model = Model::open(sample("hf")).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF).lossless(true)).unwrap();
    assert!(!plan.notes.iter().any(|note| note.contains("llama.cpp")), "{:?}", plan.notes);
}

#[test]
fn extra_keys_keep_the_config_unless_they_are_turned_off() {
    let source = with(MISTRAL());
    let folder = TempDir::new().unwrap();
    let back = there_and_back(source.path(), folder.path()).unwrap();
    assert_eq!((&back["model_type"], &back["sliding_window"]), (&json!("mistral"), &json!(32)));

    let path = folder.path().join("bare.gguf");
    let model = Model::open(source.path()).unwrap();
    let options = ConvertOptions::new(&GGUF).extra_keys(false);
    ops::convert(&model, &options).unwrap().run(&path, &WriteOptions::new()).unwrap();
    let bare = Model::open(&path).unwrap();
    let own = |model: &Model| {
        model
            .metadata()
            .iter()
            .filter(|(key, _)| key.as_bytes().starts_with(b"weighbridge."))
            .count()
    };
    assert_eq!(own(&bare), 0);
    let kept = Model::open(folder.path().join("model.gguf")).unwrap();
    assert!(own(&kept) > 0);
    // They can be removed later too.
    let stripped = folder.path().join("stripped.gguf");
    ops::convert(&kept, &options).unwrap().run(&stripped, &WriteOptions::new()).unwrap();
    assert_eq!(own(&Model::open(&stripped).unwrap()), 0);
}

#[test]
fn a_changed_gguf_key_takes_precedence_over_the_kept_config() {
    let source = with(json!({
        "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 32,
        "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
    }));
    let folder = TempDir::new().unwrap();
    let back = there_and_back(source.path(), folder.path()).unwrap();
    assert_eq!(back["rope_scaling"]["factor"], json!(2.0));

    let gguf = folder.path().join("model.gguf");
    let edit = |keys: &mut weighbridge::metadata::KeyValues| {
        keys.set("llama.rope.freq_base", weighbridge::metadata::Value::F32(5e5));
        Ok(())
    };
    ops::edit_metadata(&gguf, edit, &WriteOptions::new()).unwrap();
    let changed = folder.path().join("changed");
    let plan = ops::convert(&Model::open(&gguf).unwrap(), &ConvertOptions::new(&SAFETENSORS));
    plan.unwrap().run(&changed, &WriteOptions::new()).unwrap();
    let config = read(&changed.join("config.json"));
    assert_eq!(config["rope_theta"], json!(5e5));
    assert!(config.get("rope_scaling").is_none(), "{config:?}");
    assert_eq!(config["sliding_window"], json!(32));
}

#[test]
fn verify_strict_names_what_llama_cpp_refuses() {
    let Some(path) = fixture("sample/sample-Q8_0.gguf") else { return };
    let model = Model::open(&path).unwrap();
    let found = ops::check_consistency(&model, Strictness::Strict).unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);

    let folder = TempDir::new().unwrap();
    let written = |change: &dyn Fn(&mut weighbridge::Builder)| {
        let path = folder.path().join("changed.gguf");
        let mut builder = weighbridge::Builder::new(&GGUF).unwrap();
        *builder.metadata() = weighbridge::metadata::KeyValues::of(model.metadata());
        change(&mut builder);
        let options = WriteOptions::new().overwrite(true);
        builder.plan().unwrap().run(&path, &options).unwrap();
        let changed = Model::open(&path).unwrap();
        ops::check_consistency(&changed, Strictness::Strict).unwrap().faults.join("\n")
    };
    let all = |builder: &mut weighbridge::Builder, except: &str| {
        for tensor in model.stored_tensors().filter(|tensor| tensor.name() != except) {
            builder.add(tensor.name(), &tensor).unwrap();
        }
    };
    assert_eq!(written(&|builder| all(builder, "")), "");
    let family = model.metadata().str("general.architecture").unwrap().to_owned();
    let without = written(&|builder| all(builder, "blk.1.ffn_norm.weight"));
    assert!(
        without
            .contains("the model lacks layers.1.ffn_norm.weight, which its architecture requires"),
        "{without}"
    );
    let more = written(&|builder| {
        all(builder, "");
        let norm = model.stored_tensor("output_norm.weight").unwrap();
        builder.add("blk.0.post_ffw_norm.weight", &norm).unwrap();
    });
    assert!(more.contains("llama.cpp has no place for blk.0.post_ffw_norm.weight"), "{more}");
    let longer = written(&|builder| {
        all(builder, "");
        let tokens = ["a", "b"].map(|token| token.as_bytes().to_vec());
        builder.metadata().set_array("tokenizer.ggml.tokens", tokens.iter().map(|t| &t[..]));
    });
    assert!(longer.contains("but llama.cpp requires [2, "), "{longer}");
    let key = format!("{family}.attention.layer_norm_rms_epsilon");
    let keyless = written(&|builder| {
        all(builder, "");
        assert!(builder.metadata().remove(&key));
    });
    assert!(keyless.contains(&format!("no {key}: llama.cpp does not load the file")), "{keyless}");
}

/// Two names of one kind of scaling mean the same: neither needs to be kept.
#[test]
fn names_with_one_meaning_are_not_kept() {
    let list = listed_models().into_iter().find(|model| model.name == "phi3").expect("a list");
    let kept = |kind: &str| {
        let mut model = list.clone();
        let factors = vec![1.5; 8];
        model.config["original_max_position_embeddings"] = json!(64);
        model.config.as_object_mut().unwrap().remove("rope_parameters");
        model.config["rope_scaling"] =
            json!({"type": kind, "short_factor": factors, "long_factor": factors});
        let opened = crate::models::open(&model, Form::HuggingFace, &model.forms[0].1);
        let keys = gguf_metadata(&opened.model).unwrap();
        let own = keys.iter().filter(|(key, _)| key.as_bytes().starts_with(b"weighbridge."));
        own.map(|(key, value)| format!("{key} = {value:?}")).collect::<Vec<_>>()
    };
    assert_eq!(kept("su"), kept("longrope"));
}

/// llama.cpp chooses the factors by the length of its context, not by that of the prompt.
#[test]
fn factors_for_long_prompts_are_noted_for_llama_cpp() {
    let list = models().into_iter().find(|model| model.name == "phi3").expect("a list");
    let notes = |trained: u32, window: Json| {
        let mut model = list.clone();
        let (config, factors) = (&mut model.config, vec![1.5; 8]);
        config["original_max_position_embeddings"] = json!(trained);
        config["max_position_embeddings"] = json!(256);
        config["sliding_window"] = window;
        config.as_object_mut().unwrap().remove("rope_parameters");
        config["rope_scaling"] =
            json!({"type": "longrope", "short_factor": factors, "long_factor": factors});
        let opened = crate::models::open(&model, Form::HuggingFace, &model.forms[0].1);
        ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap().notes.join("; ")
    };
    let said = "with a context of more than 64 positions, the factors for long prompts apply to short ones too";
    let told = notes(64, json!(32));
    assert!(told.contains(said) && told.contains("sliding_window has no effect"), "{told}");
    // No window, and one that all positions are in.
    for window in [Json::Null, json!(256)] {
        let told = notes(256, window);
        assert!(!told.contains("will compute this model differently"), "{told}");
    }
}

/// llama.cpp gives the class's logits of these, as `cargo xtask draws` showed.
#[test]
fn what_changes_nothing_is_not_noted() {
    let yarn = json!({"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "mscale": 0.7,
        "original_max_position_embeddings": 8});
    for (list, more) in [
        ("bloom", json!({"slow_but_exact": true})),
        ("gpt_bigcode", json!({"attention_softmax_in_fp32": false})),
        (
            "granite_swa",
            json!({"layer_types": null, "layer_rope_theta": null, "sliding_window": 6}),
        ),
        ("mellum", json!({"layer_types": null, "sliding_window": 6})),
        ("qwen3", json!({"rope_parameters": yarn})),
    ] {
        let mut drawn = crate::models::of_classes().into_iter().chain(models());
        let mut model = drawn.find(|model| model.name == list).expect(list);
        let config = model.config.as_object_mut().expect("an object");
        config.extend(more.as_object().expect("an object").clone());
        let opened = crate::models::open(&model, Form::HuggingFace, &model.forms[0].1);
        let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
        let plan = ops::convert(&opened.model, &options).expect(list);
        let notes = plan.notes.join("; ");
        assert!(!notes.contains("will compute"), "{list}: {notes}");
    }
}

/// GGUF has no key for the windows of this class, which begin at a layer.
#[test]
fn windows_from_a_layer_on_are_noted() {
    let mut model = models().into_iter().find(|model| model.name == "dots1").expect("a list");
    let config = model.config.as_object_mut().expect("an object");
    config.remove("layer_types");
    config.extend([
        ("sliding_window".to_owned(), json!(8)),
        ("max_window_layers".to_owned(), json!(0)),
    ]);
    let opened = crate::models::open(&model, Form::HuggingFace, &model.forms[0].1);
    let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
    let plan = ops::convert(&opened.model, &options).expect("a plan");
    assert!(plan.notes.join("; ").contains("sliding windows: "), "{:?}", plan.notes);
}

/// A field that is stated under its class's other name counts for llama.cpp, and has its own name for mlx-lm.
#[test]
fn another_name_of_a_field_is_understood() {
    let with = |list: &str, key: &str, value: Json, gone: &str| {
        let mut model = models().into_iter().find(|model| model.name == list).expect("a list");
        model.config[key] = value;
        model.config.as_object_mut().unwrap().remove(gone);
        crate::models::open(&model, Form::HuggingFace, &model.forms[0].1)
    };
    let opened = with("exaone", "activation_function", json!("gelu"), "hidden_act");
    let notes = ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap().notes.join("; ");
    assert!(notes.contains("hidden_act: gelu in config.json, silu in GGUF"), "{notes}");
    let opened = with("gpt_oss", "num_experts", json!(4), "num_local_experts");
    let config = mlx_documents(&opened.model).unwrap().config.into_bytes();
    let config: Json = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["num_local_experts"], 4);
}

/// llama.cpp's graph of MiMo V2 Flash adds no biases, and weighs the chosen experts in one way.
#[test]
fn what_the_graph_of_mimo_does_not_read_is_noted() {
    let mut drawn = crate::models::of_classes().into_iter();
    let list = drawn.find(|model| model.name.starts_with("mimo_v2_flash")).expect("a case");
    let notes = |key: &str, value: Json| {
        let mut model = list.clone();
        model.config[key] = value;
        let opened = crate::models::open(&model, Form::HuggingFace, &model.forms[0].1);
        ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap().notes.join("; ")
    };
    for (key, value, usual, said) in [
        ("attention_bias", json!(true), json!(false), "does not add the biases"),
        ("norm_topk_prob", json!(false), json!(true), "divides the weights of experts"),
        ("routed_scaling_factor", json!(2.0), json!(1.0), "expert_weights_scale has no effect"),
    ] {
        let (told, silent) = (notes(key, value), notes(key, usual));
        assert!(told.contains(said), "{key}: {told}");
        assert!(!silent.contains(said), "{key}: {silent}");
    }
}

/// Fields that say in another form what other fields say too, and those that follow from the stored tensors:
/// the start of the model's name, and the field.
const ANOTHER_FORM: [(&str, &str); 18] = [
    // All of a head, or the fraction that `rope_dimension_count` says.
    ("", "rope_partial_factor"),
    ("mellum", "rope_local_dimension_count"),
    ("dbrx", "rope_dimension_count"),
    ("dbrx", "rope_scaling_kind"),
    // The layers before the first one with a router.
    ("bailing_hybrid in GGUF", "n_leading_dense_layers"),
    ("minimax_m3 in GGUF", "n_leading_dense_layers"),
    // The layers of `rope_skip_interval`.
    ("", "rope_layers"),
    // As llama.cpp requires them, where the model has one section.
    ("", "rope_sections"),
    // Every layer has experts.
    ("", "expert_layer_step"),
    ("laguna", "n_leading_dense_layers"),
    ("mellum", "n_leading_dense_layers"),
    // GGUF loses the rows of the position embedding that no position has.
    ("", "max_seq_len"),
    // Whether the output matrix is stored, and which layers are.
    ("", "tie_embeddings"),
    ("deepseek_v3", "n_next_token_layers"),
    // Without states, it is a model of another family.
    ("granitemoehybrid without states", "family"),
    // What the class takes if nothing is stated.
    ("deepseek_v2", "expert_gating"),
    ("phimoe", "rope_scaling_original_max_seq_len"),
    // Without the padding token, the keys give no `config.json`.
    ("roberta with a head for masked words", ""),
];

fn fields(model: &Model) -> BTreeMap<&'static str, Json> {
    let config = model.config().expect("a config");
    let fields = config.fields().into_iter().filter(|field| field.name != "architecture");
    let json = |value: &weighbridge::json::Json| serde_json::from_str(&value.to_string()).unwrap();
    fields.map(|field| (field.name, json(&field.value))).collect()
}

#[test]
fn a_gguf_file_has_the_config_of_the_model_that_it_was_written_from() {
    let (mut compared, mut faults) = (0, Vec::new());
    for named in models() {
        let Some((form, tensors)) = named.forms.iter().find(|form| form.0 == Form::HuggingFace)
        else {
            continue;
        };
        let opened = crate::models::open(&named, *form, tensors);
        let plan = ops::convert(&opened.model, &ConvertOptions::new(&GGUF).allow_unloadable(true));
        let (Ok(plan), Ok(_)) = (plan, opened.model.config()) else { continue };
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("model.gguf");
        plan.run(&path, &WriteOptions::new()).unwrap();
        let gguf = Model::open(&path).unwrap();
        // What keeps nothing has the numbers that GGUF has keys for.
        if !gguf.metadata().iter().any(|(key, _)| key.as_bytes().starts_with(b"weighbridge.")) {
            continue;
        }
        let (stated, found) = (fields(&opened.model), fields(&gguf));
        compared += 1;
        let alike = |name: &str| {
            let is = |(model, field): &(&str, &str)| {
                named.name.starts_with(model) && (field.is_empty() || *field == name)
            };
            ANOTHER_FORM.iter().any(is)
        };
        for name in stated.keys().chain(found.keys()).filter(|name| !alike(name)) {
            let (a, b) = (stated.get(name), found.get(name));
            if !a.zip(b).is_some_and(|(a, b)| same(a, b)) {
                faults.push(format!("{}: {name} is {a:?}, in GGUF {b:?}", named.name));
            }
        }
    }
    faults.dedup();
    assert!(faults.is_empty(), "{} of {compared} models:\n{}", faults.len(), faults.join("\n"));
    assert!(compared >= 50, "only {compared} models were compared");
}

/// llama.cpp has no key for the window: the config has it, and a note says what llama.cpp does.
#[test]
fn a_report_of_the_config_says_what_llama_cpp_does_not_read() {
    let source = with(MISTRAL());
    let folder = TempDir::new().unwrap();
    there_and_back(source.path(), folder.path()).unwrap();
    let model = Model::open(folder.path().join("model.gguf")).unwrap();
    let window = model.config().unwrap().attention.sliding_window.clone().unwrap();
    assert_eq!((window.value, &*window.source), (32, "weighbridge.config sliding_window"));
    assert_eq!(model.config().unwrap().dim.source.as_str(), "llama.embedding_length (hidden_size)");
    let report = ops::config(&model).unwrap();
    assert!(report.notes.concat().contains("sliding windows"), "{:?}", report.notes);
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap();
    assert!(plan.notes.concat().contains("sliding windows"), "{:?}", plan.notes);
}

/// transformers' class has rotary embeddings by YaRN if `config.json` states none, and GGUF states them, but for
/// bounds that are not rounded.
#[test]
fn what_the_class_has_by_itself_is_no_loss() {
    let gpt_oss = models().into_iter().find(|named| named.name == "gpt-oss, fused").unwrap();
    let (form, tensors) =
        gpt_oss.forms.iter().find(|form| form.0 == Form::HuggingFace).expect("a directory");
    let opened = crate::models::open(&gpt_oss, *form, tensors);
    let rope = &opened.model.config().unwrap().rope_scaling;
    assert_eq!(rope.factor.as_ref().unwrap().value, 32.0);
    let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
    let plan = ops::convert(&opened.model, &options).unwrap();
    let told: Vec<&String> =
        plan.notes.iter().filter(|note| note.contains("differently")).collect();
    let [note] = *told else { panic!("{told:?}") };
    assert!(note.contains(": bounds of YaRN: ") && !note.contains("; "), "{note}");
}

/// The config of a GGUF file has what programs ask for apart from its fields: keys that no field reads, those among
/// them that change logits, and the class's own rotary embeddings.
#[test]
fn a_gguf_file_states_what_the_config_of_its_model_states() {
    let mut gpt_oss = models().into_iter().find(|named| named.name == "gpt-oss, fused").unwrap();
    gpt_oss.config["swiglu_alpha"] = json!(2.0);
    let (form, tensors) =
        gpt_oss.forms.iter().find(|form| form.0 == Form::HuggingFace).expect("a directory");
    let opened = crate::models::open(&gpt_oss, *form, tensors);
    let source = &opened.model;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.gguf");
    let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
    ops::convert(source, &options).unwrap().run(&path, &WriteOptions::new()).unwrap();
    let gguf = Model::open(&path).unwrap();
    for model in [source, &gguf] {
        let computed = model.computed_config();
        let found: Vec<&str> =
            computed.iter().filter_map(|(key, _)| key.split(' ').next_back()).collect();
        assert_eq!(found, ["swiglu_alpha"]);
        assert!(model.unused_config().iter().any(|(key, _)| key.ends_with(" swiglu_alpha")));
        assert_eq!(model.stated_config("swiglu_alpha").unwrap().to_string(), "2.0");
        assert_eq!(model.stated_config("hidden_size").unwrap().to_string(), "8");
        let rope = &model.config().unwrap().rope_scaling;
        assert_eq!(rope.factor.as_ref().unwrap().value, 32.0);
    }
    // Keys of GGUF are stated too.
    let length = gguf.stated_config("embedding_length").unwrap();
    assert_eq!(length.to_string(), "8");
}

/// A GGUF file is rewritten as it is, whatever llama.cpp makes of it.
#[test]
fn gguf_files_are_not_refused_for_what_they_were() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::copy(sample("sample-Q8_0.gguf"), &path).unwrap();
    let edit = |keys: &mut weighbridge::metadata::KeyValues| {
        assert!(keys.remove("llama.attention.layer_norm_rms_epsilon"));
        Ok(())
    };
    ops::edit_metadata(&path, edit, &WriteOptions::new()).unwrap();
    let model = Model::open(&path).unwrap();
    let strict = ops::check_consistency(&model, Strictness::Strict).unwrap();
    assert!(strict.faults.iter().any(|fault| fault.contains("epsilon")), "{:?}", strict.faults);
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap();
    plan.run(&folder.path().join("again.gguf"), &WriteOptions::new()).unwrap();
}

/// Special tokens of a model with images are stated for the whole of it.
#[test]
fn special_tokens_of_a_model_with_images_come_back() {
    let source = gemma3("pt", true);
    let path = source.path().join("config.json");
    let mut config = read(&path);
    config.insert("eos_token_id".to_owned(), json!([1, 7]));
    put(source.path(), "config.json", json!(config).to_string());
    let folder = TempDir::new().unwrap();
    let back = there_and_back(source.path(), folder.path()).unwrap();
    assert_eq!(back["eos_token_id"], json!([1, 7]));
}
