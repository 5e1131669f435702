//! Each value of the documents and metadata of a model is replaced, one at a time: what changes in
//! all that the library derives from them.
//!
//! A snapshot has, for each value, a digest of what changes in [`derived`] with each replacement, and `!` if
//! something is refused. To see the lines that change, run the test with `REPLACED` set to a part of
//! "MODEL PLACE REPLACEMENT".
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the files and their sizes are the test's own"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::models::{Form, NamedModel, Tensors, listed_models, lists::LISTS, metadata, own};
use crate::support::{Gguf, Kv, Safetensors, f32s, folder, put, told, without_path};
use insta::assert_snapshot;
use serde_json::{Value as Json, json};
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::metadata::Value;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::translate::{
    Documents, gguf_metadata, gguf_metadata_and_notes, gguf_tensors, hf_documents, mlx_documents,
};
use weighbridge::{DType, Error, Model, OpenOptions, Result, Strictness};

pub(crate) type Lines = BTreeSet<String>;

/// The forms that are derived besides the config, the names and GGUF's keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Also {
    Nothing,
    /// The documents of Hugging Face and MLX directories.
    Documents,
    /// The method of each tensor in GGUF, and what the file cannot express.
    Gguf,
    /// The method of each tensor in each container.
    Plans,
}

fn flatten(out: &mut Lines, at: &str, json: &Json) {
    let nested = |value: &Json| value.is_object() || value.is_array();
    match json {
        Json::Object(map) => {
            map.iter().for_each(|(key, value)| flatten(out, &format!("{at}/{key}"), value));
        }
        Json::Array(list) if list.iter().any(nested) => {
            let each = list.iter().enumerate();
            each.for_each(|(place, value)| flatten(out, &format!("{at}/{place}"), value));
        }
        other => drop(out.insert(format!("{at} = {other}"))),
    }
}

fn shown(value: &Value<'_>) -> String {
    match value.to_array() {
        Some(array) => {
            format!(
                "[{}]",
                array.values().map(|value| shown(&value)).collect::<Vec<_>>().join(", ")
            )
        }
        None => match value {
            Value::String(text) => text.to_string(),
            other => format!("{other:?}"),
        },
    }
}

fn of_documents(out: &mut Lines, form: &str, documents: Result<Documents>) -> Result<()> {
    for (name, bytes) in documents?.into_files() {
        let at = format!("{form} {name}");
        match serde_json::from_slice(&bytes) {
            Ok(json) => flatten(out, &at, &json),
            Err(_) => drop(out.insert(format!("{at}: {}", String::from_utf8_lossy(&bytes)))),
        }
    }
    Ok(())
}

fn of_names(out: &mut Lines, model: &Model) -> Result<()> {
    let names = model.resolution()?;
    let family = names.architecture.map(|architecture| architecture.name);
    out.insert(format!("names of {family:?} in {:?}: {}", names.dialect, names.reason));
    let mapped = names.mapped.iter();
    out.extend(mapped.map(|one| {
        format!("name {} of {}: {:?}", one.canonical, one.stored.join(", "), one.transform)
    }));
    out.extend(names.auxiliary.iter().map(|one| format!("unused {}: {}", one.stored, one.reason)));
    out.extend(names.unknown.iter().map(|name| format!("unknown {name}")));
    out.extend(names.missing.iter().map(|name| format!("missing {name}")));
    Ok(())
}

fn of_config(out: &mut Lines, model: &Model) -> Result<()> {
    let fields = model.config()?.fields();
    out.extend(fields.iter().map(|field| {
        format!("config {}.{} = {} ({})", field.group, field.name, field.value, field.source)
    }));
    let kinds = (0..3).map(|layer| model.config().map(|config| config.layer_kind(layer)));
    out.insert(format!("config kinds {:?}", kinds.flatten().collect::<Vec<_>>()));
    Ok(())
}

fn of_tokenizer(out: &mut Lines, model: &Model) -> Result<()> {
    if let Some(generation) = model.generation_config()? {
        out.insert(format!("generation {generation:?}"));
    }
    let Some(tokenizer) = model.tokenizer()? else { return Ok(()) };
    let field = |name: &str, value: &dyn std::fmt::Debug| format!("tokenizer {name} {value:?}");
    out.insert(field("kind", &tokenizer.kind));
    out.insert(field("pre", &tokenizer.pre));
    out.insert(field("adds", &(&tokenizer.add_bos, &tokenizer.add_eos)));
    out.extend(tokenizer.special.iter().map(|special| field("special", special)));
    out.extend(tokenizer.chat_templates.iter().map(|template| field("template", template)));
    out.extend(tokenizer.tokens().map(|token| field("token", &token)));
    out.extend(tokenizer.merges().map(|merge| field("merge", &merge)));
    Ok(())
}

fn of_keys(out: &mut Lines, model: &Model) -> Result<()> {
    let (keys, notes) = gguf_metadata_and_notes(model)?;
    out.extend(notes.iter().map(|note| format!("gguf note {}", note.text)));
    out.extend(keys.iter().map(|(key, value)| format!("gguf {key} = {}", shown(&value))));
    for (name, values) in gguf_tensors(model)? {
        // Powers differ in their last digits between platforms.
        let values: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        out.insert(format!("gguf {name}: {}", values.join(", ")));
    }
    Ok(())
}

fn of_plan(out: &mut Lines, model: &Model, container: &'static Container) -> Result<()> {
    let options = ConvertOptions::new(container).allow_unloadable(true);
    let plan = ops::convert(model, &options)?;
    let to = container.name;
    out.extend(plan.notes.iter().map(|note| format!("to {to}: {note}")));
    out.extend(plan.missing.iter().map(|name| format!("to {to} without {name}")));
    out.extend(plan.tensors.iter().map(|tensor| {
        let (name, dtype, how) = (&tensor.name, tensor.dtype, tensor.method.name());
        let (group, why) = (tensor.group_size, &tensor.reason);
        format!("to {to}: {name} {:?} {dtype} {group:?} {how} {why:?}", tensor.shape)
    }));
    Ok(())
}

/// All that is derived from a model, a line each. A step that fails is a line with the error.
fn derived(model: &Model, folder: &Path, also: Also) -> Lines {
    let mut out = Lines::new();
    out.extend(model.notes().iter().map(|note| format!("note {}", note.text)));
    for tensor in model.stored_tensors() {
        let (name, shape) = (tensor.name(), tensor.shape());
        out.insert(format!("tensor {name} {} {shape:?}", tensor.dtype_label()));
    }
    let consistency = |out: &mut Lines| {
        let found = ops::check_consistency(model, Strictness::Strict)?;
        out.extend(found.faults.iter().map(|fault| format!("fault {fault}")));
        out.extend(found.notes.iter().map(|note| format!("remark {note}")));
        Ok(())
    };
    let mut results = vec![
        ("names", of_names(&mut out, model)),
        ("config", of_config(&mut out, model)),
        ("tokenizer", of_tokenizer(&mut out, model)),
        ("gguf", of_keys(&mut out, model)),
        ("check", consistency(&mut out)),
    ];
    if also == Also::Documents {
        results.push(("hf", of_documents(&mut out, "hf", hf_documents(model))));
        results.push(("mlx", of_documents(&mut out, "mlx", mlx_documents(model))));
    }
    let containers: &[&'static Container] = match also {
        Also::Nothing | Also::Documents => &[],
        Also::Gguf => &[&GGUF],
        Also::Plans => &[&GGUF, &SAFETENSORS, &MLX],
    };
    results.extend(containers.iter().map(|to| ("plan", of_plan(&mut out, model, to))));
    let failed = |(step, result): (_, Result<()>)| result.err().map(|error| (step, error));
    let failed: Vec<(&str, Error)> = results.into_iter().filter_map(failed).collect();
    out.extend(failed.iter().map(|(step, error)| format!("error of {step}: {}", told(error))));
    out.into_iter().map(|line| without_path(&line, folder)).collect()
}

pub(crate) fn derived_or_refused(model: Result<Model>, folder: &Path, also: Also) -> Lines {
    match model {
        Ok(model) => derived(&model, folder, also),
        Err(error) => Lines::from([without_path(&format!("error: {}", told(&error)), folder)]),
    }
}

/// FNV-1a of lines.
fn digest<'l>(lines: impl Iterator<Item = &'l String>) -> u64 {
    let bytes = lines.flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The changes that the replacements make, by model and place.
#[derive(Default)]
pub(crate) struct Told {
    text: String,
    model: String,
    place: String,
}

impl Told {
    /// Adds one replacement, if it changes anything.
    pub(crate) fn add(
        &mut self,
        (model, place, other): (&str, &str, &str),
        before: &Lines,
        after: &Lines,
    ) {
        let lost = before.difference(after).map(|line| format!("- {line}"));
        let new = after.difference(before).map(|line| format!("+ {line}"));
        let changed: Vec<String> = new.chain(lost).collect();
        if changed.is_empty() {
            return;
        }
        if std::env::var("REPLACED")
            .is_ok_and(|part| format!("{model} {place} {other}").contains(&part))
        {
            eprintln!("{model} {place} {other}\n  {}", changed.join("\n  "));
        }
        if self.model != model {
            self.text.push_str(&format!("\n{model}"));
            (self.model, self.place) = (model.to_owned(), String::new());
        }
        if self.place != place {
            self.text.push_str(&format!("\n {place}"));
            place.clone_into(&mut self.place);
        }
        let refused = changed.iter().any(|line| line.starts_with("+ error"));
        let mark = if refused { "!" } else { "" };
        self.text.push_str(&format!(" {:04x}{mark}", digest(changed.iter()) as u16));
    }

    pub(crate) fn text(&self) -> &str {
        self.text.trim_start()
    }
}

/// Other values for a value: first another of its kind, then zeros, what is too large, and other
/// kinds. `None` is for a value that is removed.
pub(crate) fn others(value: &Json) -> Vec<Option<Json>> {
    let values = match value {
        Json::Null => vec![json!(1)],
        Json::Bool(flag) => vec![json!(!flag), json!("x")],
        Json::Number(number) => match number.as_u64() {
            Some(number) => {
                let more = number.saturating_add(1);
                vec![json!(more), json!(0), json!(-1), json!(0.5), json!(1u64 << 40), json!("x")]
            }
            None => {
                let twice = number.as_f64().unwrap_or(1.0) * 2.0;
                vec![json!(twice), json!(0.0), json!(-1.5), json!(1e300), json!("x")]
            }
        },
        Json::String(_) => vec![json!("x"), json!(""), json!(7)],
        Json::Array(list) => {
            let mut values = vec![json!([]), json!([null]), json!(7)];
            values.extend((list.len() > 1).then(|| list[..1].into()));
            values
        }
        Json::Object(_) => vec![json!({}), json!("x")],
    };
    [None].into_iter().chain(values.into_iter().map(Some)).collect()
}

/// Pointers to the values of a document; of lists and vocabularies, to the first ones.
pub(crate) fn places(json: &Json, at: &str, out: &mut Vec<String>) {
    if !at.is_empty() {
        out.push(at.to_owned());
    }
    match json {
        Json::Object(map) => {
            let most = if at.ends_with("vocab") { 2 } else { usize::MAX };
            for (key, value) in map.iter().take(most) {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), out);
            }
        }
        Json::Array(list) => {
            for (place, value) in list.iter().take(2).enumerate() {
                places(value, &format!("{at}/{place}"), out);
            }
        }
        _ => {}
    }
}

/// The document with another value at a place, or without one.
pub(crate) fn replaced(json: &Json, place: &str, value: Option<&Json>) -> Json {
    let mut json = json.clone();
    if let Some(value) = value {
        *json.pointer_mut(place).expect("a place") = value.clone();
        return json;
    }
    let (parent, key) = place.rsplit_once('/').expect("a place");
    match json.pointer_mut(parent).expect("a parent") {
        Json::Object(map) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Json::Array(list) => drop(list.remove(key.parse().expect("a number"))),
        _ => {}
    }
    json
}

pub(crate) fn label(value: Option<&Json>) -> String {
    value.map_or("removed".to_owned(), |value| value.to_string().chars().take(60).collect())
}

fn weights(tensors: &Tensors) -> Vec<u8> {
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, "F32", &dims, f32s(&tensor.values))
    });
    file.build()
}

fn first(model: &NamedModel, form: Form) -> Option<&Tensors> {
    model.forms.iter().find(|(other, _)| *other == form).map(|(_, tensors)| tensors)
}

/// The models of the lists of names: all, or the first of each architecture.
fn named(all: bool) -> Vec<NamedModel> {
    let mut models = listed_models();
    models.extend(LISTS.iter().map(own));
    let mut seen = BTreeSet::new();
    models.retain(|model| all || seen.insert(model.gguf.clone()));
    models
}

/// The number of models in which a key gets a value of this number in the list of others. Most keys
/// are in nearly all models.
fn most(number: usize) -> u32 {
    if number > 1 { 1 } else { 4 }
}

/// Replaces values of a document in a folder, but for those that other models have had.
pub(crate) fn replace_in(
    told: &mut Told,
    seen: &mut BTreeMap<String, u32>,
    (name, folder): (&str, &Path),
    (file, document): (&str, &Json),
    also: Also,
) {
    let look = || derived_or_refused(Model::open(folder), folder, also);
    put(folder, file, document.to_string());
    let before = look();
    let mut all = Vec::new();
    places(document, "", &mut all);
    for place in all {
        let value = document.pointer(&place).expect("a place");
        for (number, other) in others(value).iter().enumerate() {
            let times = seen.entry(format!("{place} {number}")).or_default();
            *times += 1;
            if *times > most(number) {
                continue;
            }
            put(folder, file, replaced(document, &place, other.as_ref()).to_string());
            let (at, label) = (format!("{file}{place}"), label(other.as_ref()));
            told.add((name, &at, &label), &before, &look());
        }
    }
    put(folder, file, document.to_string());
}

fn replace_configs(models: &[NamedModel]) -> String {
    let (mut told, mut seen) = (Told::default(), BTreeMap::new());
    for model in models {
        let tensors = first(model, Form::HuggingFace).expect("a form");
        let folder = folder(&[("model/model.safetensors", weights(tensors))]);
        let place = folder.path().join("model");
        let config = ("config.json", &model.config);
        replace_in(&mut told, &mut seen, (&model.name, &place), config, Also::Gguf);
    }
    told.text().to_owned()
}

#[test]
fn values_of_config_json() {
    let (models, own): (Vec<_>, Vec<_>) =
        named(true).into_iter().partition(|model| model.source.starts_with("data/"));
    assert!(models.len() > 20 && own.len() > 60, "{} and {}", models.len(), own.len());
    assert_snapshot!("values_of_listed_configs", replace_configs(&models));
    assert_snapshot!("values_of_own_configs", replace_configs(&own));
}

/// Each key is added to the models of a fifth of the architectures.
const SHARES: usize = 5;

/// Keys that some families read.
fn keys_of_configs() -> Vec<Json> {
    let rope = |kind: &str| {
        json!({
            "rope_type": kind, "type": kind, "factor": 4.0, "original_max_position_embeddings": 16,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0, "long_factor": [1.0, 2.0],
            "short_factor": [1.0, 1.0], "mscale": 0.7, "mscale_all_dim": 0.5, "alpha": 3.0,
            "attention_factor": 1.25, "beta_fast": 16.0, "beta_slow": 2.0, "llama_4_scaling_beta": 0.1,
        })
    };
    let kinds = [
        "linear", "dynamic", "yarn", "llama3", "longrope", "su", "mrope", "none", "default",
        "xdrope", "odd",
    ];
    let mut all: Vec<Json> = kinds.iter().map(|kind| json!({"rope_scaling": rope(kind)})).collect();
    all.extend(kinds.iter().map(|kind| {
        let mut rope = rope(kind);
        rope["rope_theta"] = json!(5e5);
        rope["partial_rotary_factor"] = json!(0.5);
        json!({"rope_parameters": rope})
    }));
    let layers = [
        "full_attention",
        "sliding_attention",
        "linear_attention",
        "chunked_attention",
        "conv",
        "mamba",
        "odd",
    ];
    all.extend(layers.iter().map(|kind| json!({"layer_types": [kind]})));
    all.extend([
        json!({"rope_scaling": {"rope_type": "linear"}}),
        json!({"rope_scaling": {"factor": 2.0}}),
        json!({"rope_scaling": {"type": "yarn", "factor": 0.5}}),
        json!({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1.0, 2.0]}}),
        json!({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 9.0}}}),
        json!({"layer_types": []}),
        json!({"layer_types": ["full_attention", "full_attention"]}),
        json!({"max_position_embeddings": 64, "sliding_window": 4}),
        json!({"sliding_window": 4, "use_sliding_window": true, "max_window_layers": 0}),
        json!({"sliding_window": 4, "use_sliding_window": false}),
        json!({"sliding_window": 4, "max_window_layers": 1, "use_sliding_window": true}),
        json!({"sliding_window": 4, "sliding_window_pattern": 1}),
        json!({"sliding_window": 4, "sliding_window_pattern": "LG"}),
        json!({"max_position_embeddings": 8192, "rope_theta": 5e5}),
        json!({"max_position_embeddings": [64]}),
        json!({"model_max_length": 77}),
        json!({"n_positions": 8192, "max_trained_positions": 2048}),
        json!({"num_key_value_heads": 1}),
        json!({"num_key_value_heads": 3}),
        json!({"head_dim": 2}),
        json!({"head_dim": null}),
        json!({"partial_rotary_factor": 0.5}),
        json!({"partial_rotary_factor": 0.0}),
        json!({"partial_rotary_factor": 3.0}),
        json!({"tie_word_embeddings": true}),
        json!({"tie_word_embeddings": false}),
        json!({"hidden_act": "gelu"}),
        json!({"hidden_act": "odd", "hidden_activation": "odd", "activation_function": "odd"}),
        json!({"attention_bias": true, "mlp_bias": true, "use_bias": true, "bias": true}),
        json!({"clip_qkv": 8.0}),
        json!({"rope_local_base_freq": 7.0}),
        json!({"num_nextn_predict_layers": 1}),
        json!({"num_kv_shared_layers": 1}),
        json!({"hidden_size_per_layer_input": 2}),
        json!({"shared_intermediate_size": 4, "shared_expert_intermediate_size": 4}),
        json!({"moe_intermediate_size": 4, "num_experts": 4, "num_experts_per_tok": 2}),
        json!({"num_local_experts": 4, "num_experts_per_tok": 9}),
        json!({"first_k_dense_replace": 1}),
        json!({"first_k_dense_replace": 9}),
        json!({"mlp_only_layers": [0]}),
        json!({"mlp_only_layers": [9]}),
        json!({"decoder_sparse_step": 2}),
        json!({"full_attention_interval": 1}),
        json!({"alibi": true}),
        json!({"id2label": {"0": "a", "1": "b"}}),
        json!({"n_group": 2, "topk_group": 1}),
        json!({"n_group": 3, "topk_group": 3}),
        json!({"scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 2.5}),
        json!({"scoring_func": "odd"}),
        json!({"logit_scale": 0.5, "logits_scaling": 2.0, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0}),
        json!({"embedding_multiplier": 2.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25}),
        json!({"query_pre_attn_scalar": 9, "scale_emb": 3.0, "scale_depth": 2.0, "dim_model_base": 4}),
        json!({"num_loops": 2, "skip_loop_final_norm": true}),
        json!({"use_double_wide_mlp": true}),
        json!({"per_layer_config": {}}),
        json!({"classifier_pooling": "mean"}),
        json!({"attention_chunk_size": 4, "attn_temperature_tuning": true, "floor_scale": 9.0, "attn_scale": 0.2}),
        json!({"no_rope_layers": [1]}),
        json!({"no_rope_layers": [0]}),
        json!({"no_rope_layer_interval": 1}),
        json!({"no_rope_layer_interval": 0}),
        json!({"global_attn_every_n_layers": 1}),
        json!({"interleave_moe_layer_step": 2}),
        json!({"vision_config": {"deepstack_visual_indexes": [1]}}),
        json!({"text_config": {"hidden_size": 4}}),
        json!({"eos_token_id": [1, 2], "bos_token_id": 1, "pad_token_id": 99}),
        json!({"architectures": ["OddModel"]}),
        json!({"torch_dtype": "float16", "dtype": "odd"}),
        json!({"quantization": {"bits": 4, "group_size": 64}}),
        json!({"quantization_config": {"quant_method": "odd"}}),
        json!({"num_hidden_layers": 3}),
        json!({"vocab_size": 9}),
        json!({"norm_eps": 0.5, "rms_norm_eps": 0.25, "layer_norm_eps": 0.125}),
        json!({"_name_or_path": "org/name-7b", "name_or_path": "x"}),
        json!({"block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.5, "block_multiple_of": 8}),
        json!({"multi_query": true}),
        json!({"new_decoder_architecture": true, "num_kv_heads": 2}),
        json!({"use_parallel_residual": true, "use_qk_norm": true, "qk_layernorm": true}),
        json!({"activation_sparsity_pattern": [0.95]}),
        json!({"activation_sparsity_pattern": [1.0]}),
        json!({"intermediate_size": [6]}),
        json!({"intermediate_size": [6, 7]}),
        json!({"mamba_expand": 2, "mamba_d_state": 4, "mamba_d_conv": 2}),
    ]);
    all
}

#[test]
fn keys_added_to_config_json() {
    let keys = keys_of_configs();
    let mut told = Told::default();
    for (number, model) in named(false).into_iter().enumerate() {
        let tensors = first(&model, Form::HuggingFace).expect("a form");
        let folder = folder(&[("model/model.safetensors", weights(tensors))]);
        let place = folder.path().join("model");
        let look = |config: &Json| {
            put(&place, "config.json", config.to_string());
            derived_or_refused(Model::open(&place), &place, Also::Gguf)
        };
        let before = look(&model.config);
        for more in keys.iter().skip(number % SHARES).step_by(SHARES) {
            let mut config = model.config.clone();
            let text = match config.get("text_config") {
                Some(_) => &mut config["text_config"],
                None => &mut config,
            };
            let added = more.as_object().expect("an object").clone();
            text.as_object_mut().expect("an object").extend(added);
            told.add((&model.name, "", &label(Some(more))), &before, &look(&config));
        }
    }
    assert_snapshot!(told.text());
}

fn kv(value: &Value<'_>) -> Option<Kv> {
    Some(match value {
        Value::U32(number) => Kv::U32(*number),
        Value::I32(number) => Kv::I32(*number),
        Value::F32(number) => Kv::F32(*number),
        Value::Bool(flag) => Kv::Bool(*flag),
        Value::String(text) => Kv::text(text.to_str()?),
        Value::Array(array) => Kv::Array(
            array.element_type().code(),
            array.values().map(|value| kv(&value)).collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

/// Other values of a key, as [`others`] has them.
pub(crate) fn other_keys(value: &Kv) -> Vec<Option<Kv>> {
    let values = match value {
        Kv::U32(number) => {
            vec![
                Kv::U32(number.wrapping_add(1)),
                Kv::U32(0),
                Kv::I32(-1),
                Kv::U32(1 << 30),
                Kv::text("x"),
            ]
        }
        Kv::I32(number) => vec![Kv::I32(number.wrapping_add(1)), Kv::I32(-7), Kv::text("x")],
        Kv::F32(number) => vec![
            Kv::F32(number * 2.0),
            Kv::F32(0.0),
            Kv::F32(-1.0),
            Kv::F32(f32::NAN),
            Kv::text("x"),
        ],
        Kv::Bool(flag) => vec![Kv::Bool(!flag), Kv::text("x")],
        Kv::String(_) => vec![Kv::text("x"), Kv::text(""), Kv::U32(7)],
        Kv::Array(code, list) => {
            let mut values = vec![Kv::Array(*code, vec![]), Kv::U32(7), Kv::texts(&["x"])];
            values.extend((list.len() > 1).then(|| Kv::Array(*code, list[..1].to_vec())));
            values.extend(
                list.first().map(|one| Kv::Array(*code, vec![one.clone(); list.len() + 1])),
            );
            values
        }
        _ => vec![Kv::text("x")],
    };
    [None].into_iter().chain(values.into_iter().map(Some)).collect()
}

fn open_keys(keys: &[(String, Kv)], tensors: &Tensors) -> Result<Model> {
    let file = keys.iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value.clone()));
    let file = tensors.iter().fold(file, |file, (name, tensor)| {
        let dims: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
        file.tensor(name, DType::F32, &dims, f32s(&tensor.values))
    });
    OpenOptions::new().open_memory("model.gguf", file.build())
}

/// The keys that the converter writes of a model, as far as they are known here.
fn keys_of(model: &NamedModel) -> Vec<(String, Kv)> {
    let mut keys: BTreeMap<String, Kv> = metadata(&model.gguf, &model.config).into_iter().collect();
    let mut config = model.config.clone();
    let text = match config.get("text_config") {
        Some(_) => &mut config["text_config"],
        None => &mut config,
    };
    text["max_position_embeddings"] = json!(64);
    let tensors = first(model, Form::HuggingFace).expect("a form");
    let folder = folder(&[
        ("model/model.safetensors", weights(tensors)),
        ("model/config.json", config.to_string().into_bytes()),
    ]);
    let opened = Model::open(folder.path().join("model"));
    if let Ok(found) = opened.and_then(|opened| gguf_metadata(&opened)) {
        let found = found.iter().filter_map(|(key, value)| Some((key.to_string(), kv(&value)?)));
        keys.extend(found.filter(|(key, _)| key != "general.architecture"));
    }
    keys.into_iter().collect()
}

#[test]
fn values_of_gguf_keys() {
    let (mut told, mut seen) = (Told::default(), BTreeMap::<String, u32>::new());
    let nowhere = Path::new("/nowhere");
    for model in named(true) {
        let Some(tensors) = first(&model, Form::Gguf) else { continue };
        let keys = keys_of(&model);
        let look = |keys: &[(String, Kv)]| {
            derived_or_refused(open_keys(keys, tensors), nowhere, Also::Documents)
        };
        let before = look(&keys);
        for (place, (key, value)) in keys.iter().enumerate() {
            let end = key.strip_prefix(&model.gguf).unwrap_or(key);
            for (number, other) in other_keys(value).into_iter().enumerate() {
                let times = seen.entry(format!("{end} {number}")).or_default();
                *times += 1;
                if *times > most(number) {
                    continue;
                }
                let shown = shown_key(other.as_ref());
                let mut keys = keys.clone();
                match other {
                    Some(other) => keys[place].1 = other,
                    None => drop(keys.remove(place)),
                }
                told.add((&model.name, key, &shown), &before, &look(&keys));
            }
        }
    }
    assert_snapshot!(told.text());
}

pub(crate) fn shown_key(value: Option<&Kv>) -> String {
    match value {
        None => "removed".to_owned(),
        Some(Kv::String(text)) => format!("{:?}", String::from_utf8_lossy(text)),
        Some(value) => format!("{value:?}").chars().take(60).collect(),
    }
}

#[test]
fn keys_added_to_gguf() {
    let f = Kv::F32;
    let n = Kv::U32;
    let flags = |flags: &[bool]| Kv::Array(7, flags.iter().map(|flag| Kv::Bool(*flag)).collect());
    let mut keys: Vec<(&str, Vec<(&str, Kv)>)> = Vec::new();
    for kind in ["none", "linear", "yarn", "longrope", "dynamic", "odd"] {
        let rope = vec![
            ("rope.scaling.type", Kv::text(kind)),
            ("rope.scaling.factor", f(4.0)),
            ("rope.scaling.original_context_length", n(16)),
            ("rope.scaling.attn_factor", f(1.25)),
            ("rope.scaling.yarn_log_multiplier", f(0.1)),
        ];
        keys.push((kind, rope));
    }
    let one = |name, value| (name, vec![(name, value)]);
    keys.extend([
        one("rope.scaling.type", Kv::text("linear")),
        one("rope.scale_linear", f(2.0)),
        one("rope.freq_base", f(5e5)),
        one("rope.freq_base_swa", f(7.0)),
        one("rope.dimension_count", n(2)),
        one("rope.dimension_count", n(99)),
        one(
            "rope.dimension_sections",
            Kv::Array(5, vec![Kv::I32(1), Kv::I32(1), Kv::I32(0), Kv::I32(0)]),
        ),
        one("attention.sliding_window", n(4)),
        one("attention.sliding_window", n(0)),
        one("attention.sliding_window_pattern", flags(&[true])),
        one("attention.sliding_window_pattern", n(1)),
        one("attention.recurrent_layers", flags(&[true])),
        one("attention.causal", Kv::Bool(false)),
        one("attention.clamp_kqv", f(8.0)),
        one("attention.scale", f(0.3)),
        one("attention.max_alibi_bias", f(8.0)),
        one("attention.temperature_scale", f(0.3)),
        one("attention.key_length", n(2)),
        one("attention.value_length", n(2)),
        one("attention.head_count_kv", n(1)),
        one("attention.head_count_kv", n(3)),
        one("attention.head_count_kv", Kv::Array(5, vec![Kv::I32(0)])),
        one("attention.group_norm_epsilon", f(0.5)),
        one("attention.layer_norm_epsilon", f(0.5)),
        one("attention.layer_norm_rms_epsilon", f(0.5)),
        one("attention.shared_kv_layers", n(1)),
        one("attention.output_scale", f(0.5)),
        one("attn_logit_softcapping", f(50.0)),
        one("final_logit_softcapping", f(30.0)),
        one("logit_scale", f(0.5)),
        one("residual_scale", f(0.5)),
        one("embedding_scale", f(0.5)),
        one("expert_count", n(4)),
        one("expert_used_count", n(1)),
        one("expert_gating_func", n(1)),
        one("expert_gating_func", n(2)),
        one("expert_gating_func", n(3)),
        one("expert_gating_func", n(77)),
        one("expert_weights_norm", Kv::Bool(true)),
        one("expert_weights_scale", f(2.5)),
        one("expert_group_count", n(2)),
        one("expert_group_used_count", n(1)),
        one("expert_shared_count", n(1)),
        one("expert_shared_feed_forward_length", n(4)),
        one("expert_feed_forward_length", n(4)),
        one("leading_dense_block_count", n(1)),
        one("leading_dense_block_count", n(9)),
        one("nextn_predict_layers", n(1)),
        one("moe_every_n_layers", n(2)),
        one("interleave_moe_layer_step", n(2)),
        one("pooling_type", n(1)),
        one("pooling_type", n(4)),
        one("pooling_type", n(9)),
        one("context_length", n(64)),
        one("vocab_size", n(9)),
        one("tensor_data_layout", Kv::text("Meta AI original pth")),
        one("use_parallel_residual", Kv::Bool(false)),
        one("embedding_length_per_layer_input", n(2)),
        one("ssm.inner_size", n(8)),
        one("full_attention_interval", n(1)),
        one("swiglu_clamp_exp", Kv::Array(6, vec![f(7.0)])),
        one("classifier.output_labels", Kv::texts(&["a", "b"])),
    ]);
    let mut told = Told::default();
    for (number, model) in named(false).into_iter().enumerate() {
        let Some(tensors) = first(&model, Form::Gguf) else { continue };
        let before = keys_of(&model);
        let look = |keys: &[(String, Kv)]| {
            derived_or_refused(open_keys(keys, tensors), Path::new("/nowhere"), Also::Documents)
        };
        let sound = look(&before);
        for (name, more) in keys.iter().skip(number % SHARES).step_by(SHARES) {
            let mut all: BTreeMap<String, Kv> = before.iter().cloned().collect();
            let more =
                more.iter().map(|(key, value)| (format!("{}.{key}", model.gguf), value.clone()));
            let shown = more.clone().next().map(|(_, value)| shown_key(Some(&value)));
            all.extend(more);
            let all: Vec<(String, Kv)> = all.into_iter().collect();
            let other = format!("{name} {}", shown.unwrap_or_default());
            told.add((&model.name, "", &other), &sound, &look(&all));
        }
    }
    assert_snapshot!(told.text());
}
