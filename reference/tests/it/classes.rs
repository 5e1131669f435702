//! Tiny models of transformers' classes: the logits that each class computes. The values of a model
//! follow from the names of its tensors (`xtask/oracles/classes.py`).

use std::path::Path;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use weighbridge::metadata::KeyValues;
use weighbridge::{Model, WriteOptions, ops};
use weighbridge_reference::plan::Scoring;
use weighbridge_reference::{Frequencies, Plan, Reference, Rope, Rows};

use crate::support::{Container, converted};

/// The largest difference, in standard deviations.
const TOLERANCE: f32 = 1e-3;

/// As `Array::random` in tests/names/models.rs.
fn values(name: &str, count: usize) -> Vec<f32> {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
fn numbers(value: &Value) -> impl Iterator<Item = f32> {
    list(value).iter().map(|number| number.as_f64().expect("a number") as f32)
}

/// Writes the directory of a model.
fn write(case: &Value, folder: &Path) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, shape) in object(&case["tensors"]) {
        let lengths = list(shape).iter().map(|length| length.as_u64().expect("a length"));
        let count = usize::try_from(lengths.product::<u64>()).expect("a small tensor");
        let first = data.len();
        data.extend(values(name, count).into_iter().flat_map(f32::to_le_bytes));
        let place = serde_json::json!({
            "dtype": "F32", "shape": shape, "data_offsets": [first, data.len()],
        });
        header.insert(name.clone(), place);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(data);
    std::fs::write(folder.join("model.safetensors"), file).expect("a file");
    std::fs::write(folder.join("config.json"), case["config"].to_string()).expect("a file");
}

/// The logits of all tokens: at once, and if the model continues texts, also one token after another.
fn logits(model: &Model, tokens: &[u32]) -> weighbridge_reference::Result<Vec<Rows>> {
    let reference = Reference::new(model)?;
    if reference.plan().encodes() {
        return Ok(reference.encode(tokens, None)?.logits.into_iter().collect());
    }
    let read = match reference.plan().text_encoder {
        Some(_) => Some(reference.encode(tokens, None)?.hidden),
        None => None,
    };
    let start = || match &read {
        Some(read) => reference.session_of(read),
        None => Ok(reference.session()),
    };
    let all = start()?.logits(tokens)?;
    let mut session = start()?;
    let mut values = Vec::new();
    for token in tokens {
        values.extend_from_slice(session.logits(&[*token])?.values());
    }
    let apart = Rows::new(values, all.width());
    Ok(vec![all, apart])
}

fn cases() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/classes.json");
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

/// The model of a case, with a changed config.
fn model(name: &str, change: impl FnOnce(&mut Value)) -> (Model, TempDir) {
    let found = cases();
    let mut case = list(&found["cases"]).iter().find(|case| case["name"] == name).cloned();
    let case = case.as_mut().expect("a case");
    change(&mut case["config"]);
    let folder = tempfile::tempdir().expect("a folder");
    write(case, folder.path());
    (Model::open(folder.path()).expect("a model"), folder)
}

#[test]
fn other_key_heads_of_latent_attention_are_refused() {
    let (model, _folder) =
        model("deepseek_v3, drawn", |config| config["num_key_value_heads"] = 1.into());
    let error = Plan::of(&model).expect_err("four heads need four keys").to_string();
    assert!(error.contains("num_key_value_heads"), "{error}");
}

/// Keys in the config of a part are compared with what the class computes, as those of the model are.
#[test]
fn keys_of_parts_that_are_not_computed_are_refused() {
    for (key, value) in
        [("moe_normalize_expert_weights", Value::Null), ("ffn_act_fn", json!({"name": "tanh"}))]
    {
        let (model, _folder) = model("dbrx", |config| config["ffn_config"][key] = value);
        let error = Plan::of(&model).expect_err(key).to_string();
        assert!(error.contains(key) && error.contains("not computed"), "{error}");
    }
    let usual = json!({"name": "silu"});
    let (model, _folder) = model("dbrx", |config| config["ffn_config"]["ffn_act_fn"] = usual);
    Plan::of(&model).expect("the class's default");
}

/// The plan of a model in GGUF, as another program writes it, with these keys.
fn plan_in_gguf(model: Model, keys: &[(&str, weighbridge::metadata::Value<'_>)]) -> Plan {
    let (_, folder) = converted(model, Container::Gguf).unwrap_or_else(|error| panic!("{error}"));
    let folder = folder.expect("a folder");
    let path = folder.path().join("model.gguf");
    let edit = |all: &mut KeyValues| {
        all.remove("weighbridge.config");
        all.remove("weighbridge.config.derived");
        keys.iter().for_each(|(key, value)| all.set(key, *value));
        Ok(())
    };
    ops::edit_metadata(&path, edit, &WriteOptions::new()).expect("changed");
    Plan::of(&Model::open(&path).expect("a model")).expect("a plan")
}

/// llama.cpp chooses experts as a key says, and does not run the layers that predict further tokens.
#[test]
fn keys_of_gguf_are_read_where_the_class_has_none() {
    let (model, _folder) =
        model("deepseek_v3, drawn", |config| config["rope_interleave"] = true.into());
    let one = weighbridge::metadata::Value::U32(1);
    let keys = [("deepseek2.expert_gating_func", one), ("deepseek2.nextn_predict_layers", one)];
    let mut plan = plan_in_gguf(model, &keys);
    assert_eq!(plan.layers.len(), 3);
    assert!(plan.routings().all(|routing| routing.scoring == Scoring::Softmax));
}

/// gpt-oss has one base in its class, and two in llama.cpp.
#[test]
fn a_base_of_windows_is_read_from_gguf() {
    let waves = |keys: &[_]| {
        let (model, _folder) = model("gpt_oss, with the class's YaRN", |_| ());
        let ropes = plan_in_gguf(model, keys).ropes.into_iter();
        let second = |rope: Rope| match rope.frequencies {
            Frequencies::Fixed { inverse, .. } => inverse[1].to_bits(),
            other => panic!("{other:?}"),
        };
        ropes.map(second).collect::<Vec<_>>()
    };
    let [all, same] = waves(&[])[..] else { panic!("two kinds of layers") };
    let base = weighbridge::metadata::Value::F32(2.0);
    let [full, windows] = waves(&[("gpt-oss.rope.freq_base_swa", base)])[..] else { panic!() };
    assert!(all == same && full == all && windows != all);
}

/// The config that a GGUF file keeps counts more than the family's default.
#[test]
fn bounds_of_yarn_are_rounded_in_gguf_too_where_the_config_rounds_them() {
    let (source, _folder) = model("gpt_oss, with the class's YaRN", |config| {
        config["rope_parameters"] = json!({"rope_type": "yarn", "rope_theta": 4.0, "factor": 8.0,
            "original_max_position_embeddings": 16});
    });
    let expected = format!("{:?}", Plan::of(&source).expect("a plan").ropes);
    let (gguf, _files) = converted(source, Container::Gguf).expect("a file");
    assert_eq!(format!("{:?}", Plan::of(&gguf).expect("a plan").ropes), expected);
    let other = plan_in_gguf(gguf, &[]);
    assert_ne!(format!("{:?}", other.ropes), expected, "as other programs write it");
}

#[test]
fn logits_are_those_of_the_classes() {
    let found = cases();
    let tokens: Vec<u32> = list(&found["tokens"])
        .iter()
        .map(|token| u32::try_from(token.as_u64().expect("a token")).expect("a small number"))
        .collect();
    let mut faults = Vec::new();
    for case in list(&found["cases"]) {
        let name = case["name"].as_str().expect("a name");
        let folder = tempfile::tempdir().expect("a folder");
        write(case, folder.path());
        let model = Model::open(folder.path()).expect("a model");
        let expected: Vec<f32> = list(&case["logits"]).iter().flat_map(numbers).collect();
        let mean = expected.iter().sum::<f32>() / expected.len() as f32;
        let square = expected.iter().map(|value| (value - mean).powi(2)).sum::<f32>();
        let deviation = (square / expected.len() as f32).sqrt();
        match logits(&model, &tokens) {
            // Names alone are known, and the class computes something else.
            Err(error) if expected.is_empty() => {
                assert!(matches!(error, weighbridge_reference::Error::Unsupported(_)), "{name}");
            }
            Ok(computed) => {
                assert!(!computed.is_empty(), "{name}: no logits");
                for rows in computed {
                    let skipped = rows.values().len() - expected.len();
                    let pairs = rows.values().iter().skip(skipped).zip(&expected);
                    let most = pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) / deviation;
                    if most.is_nan() || most > TOLERANCE {
                        faults.push(format!("{name}: {most:.2e}"));
                    }
                }
            }
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
