//! Names and transforms of architectures, held against real lists of names: a model is made of
//! random values in each form that there is a list for, and every canonical tensor is the same in
//! all of them.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the sizes are the test's own"
)]

use crate::support;
use std::collections::{BTreeMap, BTreeSet};

use crate::models::{
    Array, Form, NamedModel, Opened, lists, metadata, models, of_classes, of_gguf_alone, open,
    pattern,
};
use crate::support::{Gguf, Safetensors, folder};
use serde_json::Value as Json;
use weighbridge::arch::{Architecture, Change, Dialect, Mapping, Prefix, Transform, architectures};
use weighbridge::device::Cpu;
use weighbridge::model::Convention;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, WeightProvider};

/// Stored tensors without a canonical name: the list, the form, the name with `{n}` for a layer,
/// and why.
const UNKNOWN: &[(&str, Form, &str, &str)] = &[];

/// Canonical tensors that one form lacks: the list, the form, the name with `{n}` for a layer, and
/// why.
const LACKING: &[(&str, Form, &str, &str)] = &[
    ("bert", Form::Gguf, "masked_words.dense.weight", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.dense.bias", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.norm.weight", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.norm.bias", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.output.bias", "llama.cpp's converter drops it"),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.dense.weight",
        "llama.cpp's converter drops it",
    ),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.dense.bias",
        "llama.cpp's converter drops it",
    ),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.norm.weight",
        "llama.cpp's converter drops it",
    ),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.norm.bias",
        "llama.cpp's converter drops it",
    ),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.output.weight",
        "llama.cpp's converter drops it",
    ),
    (
        "roberta with a head for masked words",
        Form::Gguf,
        "masked_words.output.bias",
        "llama.cpp's converter drops it",
    ),
    ("jina-bert-v2", Form::Gguf, "pooler.weight", "llama.cpp's converter drops it"),
    ("jina-bert-v2", Form::Gguf, "pooler.bias", "llama.cpp's converter drops it"),
    ("jina-bert-v2 for code", Form::Gguf, "pooler.weight", "llama.cpp's converter drops it"),
    ("jina-bert-v2 for code", Form::Gguf, "pooler.bias", "llama.cpp's converter drops it"),
    ("nomic-bert-moe", Form::Gguf, "layers.{n}.ffn.experts.bias", "llama.cpp's converter drops it"),
    ("apertus", Form::Gguf, "layers.{n}.ffn.activation.alpha_n", KEYED),
    ("apertus", Form::Gguf, "layers.{n}.ffn.activation.alpha_p", KEYED),
    ("apertus", Form::Gguf, "layers.{n}.ffn.activation.beta", KEYED),
    ("apertus", Form::Gguf, "layers.{n}.ffn.activation.eps", KEYED),
    ("modernbert", Form::Gguf, "masked_words.output.weight", "llama.cpp has no place for it"),
    ("modernbert", Form::Gguf, "masked_words.output.bias", "llama.cpp has no place for it"),
    ("whisper of mlx-examples", Form::Mlx, "enc.position_embedding.weight", "computed"),
    ("whisper of mlx-examples", Form::Mlx, "output.weight", "tied"),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.gate.weight", NO_DENSE),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.up.weight", NO_DENSE),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.down.weight", NO_DENSE),
    ("embeddinggemma", Form::HuggingFace, "dense_2.weight", "it lies in a folder of its own"),
    ("embeddinggemma", Form::HuggingFace, "dense_3.weight", "it lies in a folder of its own"),
];

const KEYED: &str = "GGUF states it as a key";
const NO_DENSE: &str = "the converter stops at dense layers, which no published model has";

fn open_all(model: &NamedModel) -> Vec<Opened> {
    model.forms.iter().map(|(form, tensors)| open(model, *form, tensors)).collect()
}

/// The forms of a model that are not understood, or have other tensors.
fn faults(model: &NamedModel) -> Vec<String> {
    let (at, opened) = (&model.name, open_all(model));
    let mut faults = Vec::new();
    let named = |table: &[(&str, Form, &str, &str)], form: Form, name: &str| {
        let name = pattern(name);
        table.iter().any(|(list, of, pattern, _)| *list == at && *of == form && *pattern == name)
    };
    let mut all: BTreeMap<&str, (usize, Array)> = BTreeMap::new();
    for (place, Opened { form, model, .. }) in opened.iter().enumerate() {
        let resolution = model.resolution().expect("resolved");
        let known = resolution.architecture.map(|architecture| architecture.name);
        if known.is_none() {
            faults.push(format!("{at}, {form:?}: {}", resolution.reason));
        }
        let unknown = resolution.unknown.iter().filter(|name| !named(UNKNOWN, *form, name));
        faults.extend(unknown.map(|name| format!("{at}, {form:?}: {name} is unknown")));
        let excused = |name: &&String| !name.split(" | ").any(|name| named(LACKING, *form, name));
        let missing = resolution.missing.iter().filter(excused);
        faults.extend(missing.map(|name| format!("{at}, {form:?}: {name} is missing")));
        for mapping in &resolution.mapped {
            let name = &*mapping.canonical;
            let view = model.tensor(name);
            let found = view.and_then(|view| Ok((view.shape().to_vec(), view.dequantize()?)));
            let (shape, values) = match found {
                Ok(found) => found,
                Err(error) => {
                    faults.push(format!("{at}, {form:?}: {name}: {error}"));
                    continue;
                }
            };
            let shape: Vec<usize> = shape.iter().map(|dim| *dim as usize).collect();
            let found = Array { shape, values: values.to_vec() };
            let Some((_, expected)) = all.get(name) else {
                all.insert(name, (place, found));
                continue;
            };
            if found.shape != expected.shape {
                faults.push(format!(
                    "{at}, {form:?}: {name}: {:?}, not {:?}",
                    found.shape, expected.shape
                ));
                continue;
            }
            // To add 1 and to take it off again rounds.
            let changed = mapping.transform.values != Change::None;
            let tolerance = if changed { 1e-6 } else { 0.0 };
            let mut pairs = found.values.iter().zip(&expected.values);
            if let Some(at_value) = pairs.position(|(a, b)| (a - b).abs() > tolerance) {
                faults.push(format!(
                    "{at}, {form:?}: {name} differs at {at_value} ({})",
                    mapping.transform
                ));
            }
        }
    }
    for (name, (place, _)) in &all {
        for Opened { form, model, .. } in &opened {
            let has = model
                .resolution()
                .expect("resolved")
                .mapped
                .iter()
                .any(|mapping| mapping.canonical == *name);
            if !has && !named(LACKING, *form, name) {
                faults.push(format!(
                    "{at}, {form:?}: no {name}, which {:?} has",
                    opened[*place].form
                ));
            }
        }
    }
    if !faults.is_empty() {
        faults.push(format!("{at} is from {}", model.source));
    }
    faults
}

#[test]
fn every_form_has_the_same_tensors() {
    let (models, classes, alone) = (models(), of_classes(), of_gguf_alone());
    let all = models.iter().chain(&classes).chain(&alone);
    let faults: Vec<String> = all.flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A row of a table as it is used: of which dialect, the canonical and the stored name, and how
/// they differ.
type Row = (&'static str, String, String, String);

fn row(dialect: &'static str, canonical: &str, stored: &str, transform: Transform) -> Row {
    (dialect, canonical.to_owned(), stored.to_owned(), transform.to_string())
}

/// The rows of which a mapping may come: one for each spelling of its stored name.
fn rows_of(architecture: &Architecture, dialect: Dialect, mapping: &Mapping) -> Vec<Row> {
    let stored = pattern(&mapping.stored[0]);
    let stored = if mapping.stacked {
        // The last number is the expert's.
        let expert = pattern(&stored.replace("{n}", "#")).replace("{n}", "{e}");
        let layer = if expert.contains("{e}") { "{n}" } else { "{e}" };
        expert.replace('#', layer)
    } else {
        stored
    };
    let mut spellings = vec![stored.clone()];
    if dialect != Dialect::Gguf {
        let instead = |prefix: &Prefix| {
            let rest = stored.strip_prefix(prefix.stored)?;
            Some(format!("{}{rest}", prefix.instead))
        };
        spellings.extend(architecture.prefixes.iter().filter_map(instead));
    }
    let canonical = pattern(&mapping.canonical);
    let tables: &[&'static str] = match dialect {
        Dialect::Gguf => &["gguf"],
        Dialect::Publisher => &["publisher"],
        Dialect::Mlx => &["mlx", "hugging face"],
        _ => &["hugging face"],
    };
    let of = |stored: &String| {
        tables
            .iter()
            .map(|table| row(table, &canonical, stored, mapping.transform))
            .collect::<Vec<_>>()
    };
    spellings.iter().flat_map(of).collect()
}

/// Names of Ollama's converter, which no list has. `beside.rs` reads them.
const OF_OLLAMA: &[&str] = &["blk.{n}.ssm_dt"];

/// Families with names that no list has, and their dialect: of GGUF and MLX, of the publisher's own files,
/// of biases that no model has, classifiers, copies, and of quantizers (`convert.rs` reads gpt-oss'). Models
/// that transformers saved were converted to both.
const WITHOUT_LIST: &[(&str, &str)] = &[
    ("albert", "hugging face"),
    ("bailing_hybrid", "mlx"),
    ("chatglm", "publisher"),
    ("deepseek_v4", "hugging face"),
    ("deepseek_v41", "hugging face"),
    ("distilbert", "hugging face"),
    ("falcon_h1", "gguf"),
    ("gemma-embedding2", "hugging face"),
    ("gemma4", "hugging face"),
    ("gpt-oss", "hugging face"),
    ("granite", "hugging face"),
    ("granite_hybrid", "hugging face"),
    ("granite_swa", "hugging face"),
    ("hy3", "hugging face"),
    ("jina_embeddings_v3", "hugging face"),
    ("kimi_linear", "gguf"),
    ("kimi_linear", "mlx"),
    ("longcat_flash", "hugging face"),
    ("luke", "hugging face"),
    ("minimax_m3", "hugging face"),
    ("nemotron_h", "gguf"),
    ("nemotron_h", "hugging face"),
    ("olmo_hybrid", "mlx"),
    ("phixtral", "hugging face"),
    ("plamo2", "mlx"),
    ("qwen4_exp", "hugging face"),
    ("recurrent_gemma", "mlx"),
    ("step3p5", "mlx"),
];

#[test]
fn every_row_of_every_table_is_used() {
    let mut used: BTreeSet<Row> = BTreeSet::new();
    let mut met: BTreeSet<&str> = BTreeSet::new();
    let models = models();
    for model in models.iter().chain(&of_classes()).chain(&of_gguf_alone()) {
        for opened in open_all(model) {
            let resolution = opened.model.resolution().expect("resolved");
            let architecture = resolution.architecture.expect("an architecture");
            met.insert(architecture.name);
            let rows = resolution.mapped.iter();
            used.extend(
                rows.flat_map(|mapping| rows_of(architecture, resolution.dialect, mapping)),
            );
        }
    }
    if models.len() == lists::LISTS.len() {
        println!("skipped: without the large lists rows stay unused");
        return;
    }
    let mut unused: BTreeSet<Row> = BTreeSet::new();
    let mut excused = BTreeSet::new();
    for architecture in architectures() {
        let rules = architecture.rules.iter().copied().flatten();
        let rows = rules
            .flat_map(|rule| [("gguf", rule, rule.gguf), ("hugging face", rule, rule.hf)])
            .chain(architecture.mlx.iter().map(|rule| ("mlx", rule, rule.hf)))
            .chain(architecture.publisher.iter().map(|rule| ("publisher", rule, rule.hf)));
        let rows = rows.filter(|(_, _, stored)| !stored.name.is_empty());
        let rows = rows.map(|(dialect, rule, stored)| {
            row(dialect, rule.canonical, stored.name, stored.transform)
        });
        let is_unused = |row: &Row| !used.contains(row) && !OF_OLLAMA.contains(&&*row.2);
        for row in rows.filter(is_unused) {
            match WITHOUT_LIST.iter().find(|of| **of == (architecture.name, row.0)) {
                Some(of) => drop(excused.insert(of)),
                None => drop(unused.insert(row)),
            }
        }
        assert!(met.contains(architecture.name), "no list is of {}", architecture.name);
    }
    assert!(unused.is_empty(), "{} rows that no list needs: {unused:#?}", unused.len());
    assert_eq!(excused, WITHOUT_LIST.iter().collect::<BTreeSet<_>>());
}

/// Bytes that a number alone decides.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let values = Array::random(&seed.to_string(), vec![len]).values;
    values.iter().map(|value| value.to_bits().to_le_bytes()[1]).collect()
}

fn provider(model: &Model) -> WeightProvider {
    WeightProvider::new(model.clone(), Cpu).expect("a model")
}

fn loaded(model: &WeightProvider, name: &str) -> (DType, Vec<u8>) {
    let loaded = model.load(name).expect("a packed tensor");
    let [part] = loaded.parts.as_slice() else { panic!("{name}: {:?}", loaded.parts) };
    let range = part.range.start as usize..part.range.end as usize;
    (loaded.dtype, loaded.buffer[range].to_vec())
}

/// Rows of q and k come back to their places as they are packed, whole or out of a fused tensor.
#[test]
fn packed_rows_are_put_back() {
    // Four heads of width 6 and two key heads, in rows of two blocks.
    let (width, row, rows) = (6, 68, [24, 12, 12]);
    // Row 2i + c of a head in GGUF is row i of its half c, by llama.cpp's LlamaModel.permute.
    let paired = |bytes: &[u8]| -> Vec<u8> {
        let each: Vec<&[u8]> = bytes.chunks(row).collect();
        let from = |at: usize| at / width * width + at % 2 * (width / 2) + at % width / 2;
        (0..each.len()).flat_map(|at| each[from(at)].to_vec()).collect()
    };
    let hf: Vec<Vec<u8>> = (0u64..).zip(rows).map(|(n, rows)| noise(n, rows * row)).collect();
    let stored = [paired(&hf[0]), paired(&hf[1]), hf[2].clone()];
    assert_ne!(stored[1], hf[1]);
    let config = serde_json::json!({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6});
    let file = || {
        let keys = metadata("llama", &config);
        keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value))
    };
    let apart = ["attn_q", "attn_k", "attn_v"].into_iter().zip(rows).zip(&stored);
    let apart = apart.fold(file(), |file, ((name, rows), bytes)| {
        let shape = [rows as u64, 64];
        file.tensor(format!("blk.0.{name}.weight"), DType::Q8_0, &shape, bytes.clone())
    });
    let fused = file().tensor("blk.0.attn_qkv.weight", DType::Q8_0, &[48, 64], stored.concat());
    for file in [apart, fused] {
        let store = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
        let model = WeightProvider::new(store, Cpu).expect("a model");
        for (part, expected) in ["q", "k", "v"].into_iter().zip(&hf) {
            let name = format!("layers.0.attention.{part}.weight");
            assert!(loaded(&model, &name) == (DType::Q8_0, expected.clone()), "{name}");
        }
        let model = model.convention(Convention::Stored);
        model.unload_all();
        for (part, expected) in ["q", "k", "v"].into_iter().zip(&stored) {
            let name = format!("layers.0.attention.{part}.weight");
            assert!(loaded(&model, &name).1 == *expected, "{name} as it is stored");
        }
    }
}

/// Experts of gpt-oss in MXFP4, in three forms of the same bytes: gate and up in turn in Hugging
/// Face's files, apart in GGUF and in mlx-lm's (`data/names/gpt_oss.json`, mxfp4_checkpoint).
#[test]
fn experts_in_mxfp4_are_the_same_in_all_forms() {
    let (experts, rows, blocks) = (3usize, 4usize, 2usize);
    let config = serde_json::json!({"model_type": "gpt_oss", "hidden_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4});
    let codes = noise(1, experts * 2 * rows * blocks * 16);
    let scales: Vec<u8> =
        noise(2, experts * 2 * rows * blocks).iter().map(|byte| 120 + byte % 16).collect();
    // Rows of gate or of up: codes and scales.
    let every_other = |bytes: &[u8], len: usize, first: usize| -> Vec<u8> {
        bytes.chunks(len).skip(first).step_by(2).flatten().copied().collect()
    };
    let part =
        |first| (every_other(&codes, blocks * 16, first), every_other(&scales, blocks, first));
    let dims = |last: &[usize]| -> Vec<u64> {
        [&[experts], last].concat().iter().map(|dim| *dim as u64).collect()
    };
    let hf = Safetensors::new()
        .tensor(
            "model.layers.0.mlp.experts.gate_up_proj_blocks",
            "U8",
            &dims(&[2 * rows, blocks, 16]),
            codes.clone(),
        )
        .tensor(
            "model.layers.0.mlp.experts.gate_up_proj_scales",
            "U8",
            &dims(&[2 * rows, blocks]),
            scales.clone(),
        );
    let keys = metadata("gpt-oss", &config);
    let mut gguf = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let mut mlx = Safetensors::new().metadata("format", "mlx");
    for (first, role) in ["gate", "up"].into_iter().enumerate() {
        let (codes, scales) = part(first);
        // ggml: the scale, then byte j with element j in its low half and j + 16 in its high one.
        let block = |(codes, scale): (&[u8], &u8)| {
            let element = |at: usize| codes[at / 2] >> (at % 2 * 4) & 15;
            let bytes = (0..16).map(move |j| element(j) | element(j + 16) << 4);
            std::iter::once(*scale).chain(bytes).collect::<Vec<u8>>()
        };
        let packed: Vec<u8> = codes.chunks(16).zip(&scales).flat_map(block).collect();
        let name = format!("blk.0.ffn_{role}_exps.weight");
        gguf = gguf.tensor(name, DType::MXFP4, &dims(&[rows, blocks * 32]), packed);
        let name = |end| format!("model.layers.0.mlp.experts.{role}_proj.{end}");
        mlx = mlx.tensor(&name("weight"), "U32", &dims(&[rows, blocks * 4]), codes);
        mlx = mlx.tensor(&name("scales"), "U8", &dims(&[rows, blocks]), scales);
    }
    let directory = |file: Safetensors, config: &Json| {
        let config = config.to_string().into_bytes();
        folder(&[("config.json", config), ("model.safetensors", file.build())])
    };
    let mut quantized = config.clone();
    quantized["quantization"] = serde_json::json!({"group_size": 32, "bits": 4, "mode": "mxfp4"});
    let mut blocked = config.clone();
    blocked["quantization_config"] = serde_json::json!({"quant_method": "mxfp4"});
    let (hf, mlx) = (directory(hf, &blocked), directory(mlx, &quantized));
    let models = [
        OpenOptions::new().open(hf.path()),
        OpenOptions::new().open_memory("model.gguf", gguf.build()),
        OpenOptions::new().open(mlx.path()),
    ];
    let [hf, gguf, mlx] =
        models.map(|store| support::resolved(store.expect("a store")).expect("a model"));
    for role in ["gate", "up"] {
        let name = format!("layers.0.ffn.experts.{role}.weight");
        let values = |model: &Model| {
            let view = model.tensor(&name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(view.shape(), dims(&[rows, blocks * 32]));
            view.dequantize().expect("values").to_vec()
        };
        let expected = values(&hf);
        assert!(expected.iter().any(|value| *value != expected[0]));
        assert!(values(&gguf) == expected, "{name} in GGUF");
        assert!(values(&mlx) == expected, "{name} in MLX");
        // Rows are taken out of the fused tensor without decoding.
        assert_eq!(provider(&hf).load(&name).expect("packed experts").dtype, DType::HF_MXFP4);
    }
}

/// GPTQ packs codes of several inputs in a word, a column of words an output. Where there are as
/// many rows of words as outputs, they are still not the rows of outputs.
#[test]
fn rows_that_are_packed_together_are_not_taken_apart() {
    let (outputs, inputs, groups) = (24usize, 192usize, 2usize);
    let scales: Vec<u8> = (0..groups * outputs)
        .flat_map(|number| half::f16::from_f32(0.25 + number as f32 / 64.0).to_le_bytes())
        .collect();
    let base = "model.layers.0.self_attn.W_pack";
    let file = Safetensors::new()
        .tensor(&format!("{base}.qweight"), "I32", &[24, 24], noise(3, 24 * 24 * 4))
        .tensor(&format!("{base}.qzeros"), "I32", &[2, 3], noise(4, 24))
        .tensor(&format!("{base}.scales"), "F16", &[2, 24], scales);
    let config = r#"{"model_type": "baichuan", "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "head_dim": 4, "quantization_config": {"quant_method": "gptq"}}"#;
    let folder =
        folder(&[("config.json", config.as_bytes().to_vec()), ("model.safetensors", file.build())]);
    let model = Model::open(folder.path()).expect("a model");
    let whole = model.stored_tensor(&format!("{base}.weight")).expect("the stored tensor");
    assert_eq!((whole.dtype().expect("a dtype"), whole.shape()), (DType::GPTQ4, &[24, 192][..]));
    let whole = whole.dequantize().expect("values");
    for (number, part) in ["q", "k", "v"].into_iter().enumerate() {
        let name = format!("layers.0.attention.{part}.weight");
        let values = model.tensor(&name).expect("a part").dequantize().expect("values");
        let from = number * outputs / 3 * inputs;
        assert!(*values == whole[from..from + outputs / 3 * inputs], "{name}");
        let error = provider(&model).load(&name).expect_err("words of several rows");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}
