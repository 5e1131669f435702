//! Tensors whose shapes do not fit the config: what is said instead of values in a wrong order. The
//! lists of names say which models there are; each tensor that is stored in another order than its
//! canonical one gets another shape, one at a time.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use std::collections::BTreeMap;

use crate::models::{Array, Form, NamedModel, Opened, lists, open, own, pattern};
use insta::assert_snapshot;
use weighbridge::arch::Dialect;
use weighbridge::{DType, OpenOptions};

/// Other shapes for a tensor: one row more, one column more, a vector, a number, a stack of one.
fn misfits(shape: &[usize]) -> Vec<Vec<usize>> {
    let longer = |axis: usize| {
        let mut shape = shape.to_vec();
        shape[axis] += 1;
        shape
    };
    let axes = (0..shape.len()).map(longer);
    axes.chain([vec![shape.iter().product()], vec![], [&[1, 1], shape].concat()]).collect()
}

/// Messages without the numbers of one case, each with the first case that gives it.
fn said(model: &NamedModel, form: Form, found: &mut BTreeMap<String, String>) {
    let tensors = &model.forms.iter().find(|(other, _)| *other == form).expect("a form").1;
    let sound = open(model, form, tensors);
    let mapped = &sound.model.resolution().expect("names").mapped;
    for (name, tensor) in tensors {
        let holds = mapped.iter().filter(|mapping| mapping.stored.iter().any(|s| s == name));
        let holds: Vec<_> = holds.filter(|mapping| !mapping.transform.is_same()).collect();
        if holds.is_empty() {
            continue;
        }
        // llama.cpp's files have at most four dimensions.
        let most = if form == Form::Gguf { 4 } else { 8 };
        for shape in misfits(&tensor.shape).into_iter().filter(|shape| shape.len() <= most) {
            let mut tensors = tensors.clone();
            tensors.insert(name.clone(), Array::random(name, shape.clone()));
            let Opened { model: opened, .. } = &open(model, form, &tensors);
            let mut note = |what: &str, error: weighbridge::Error| {
                let text = error.to_string();
                let text = text.split_once("\": ").map_or(text.as_str(), |(_, fault)| fault);
                let plain: String =
                    text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
                let plain = plain.replace("##", "#").replace("##", "#");
                let case = format!("{}, {form:?}, {what} of {shape:?}: {text}", model.name);
                found.entry(plain).or_insert(case);
            };
            for mapping in &holds {
                if let Err(error) = opened.tensor(&mapping.canonical) {
                    note(&mapping.canonical, error);
                }
            }
            let other = if form == Form::Gguf { Dialect::HuggingFace } else { Dialect::Gguf };
            if let Err(error) = opened.tensors_in(other) {
                note(&format!("{} for {}", pattern(name), other.name()), error);
            }
        }
    }
}

/// A list of each way to store a tensor in another order.
const LISTS: &[&str] = &[
    "llama, fused",
    "mistral consolidated",
    "mixtral, fused",
    "internlm2",
    "deepseek with biases",
    "qwen3.5 with experts",
    "qwen3-next of the first converter",
    "falcon 7b",
    "falcon 40b",
    "falcon rw",
    "minicpm3",
    "nemotron",
    "gpt2 without prefixes",
    "gpt-oss, fused",
    "modernbert",
];

#[test]
fn shapes_that_contradict_the_config() {
    let mut found = BTreeMap::new();
    for name in LISTS {
        let list = lists::LISTS.iter().find(|list| list.name == *name);
        let model = own(list.expect(name));
        for (form, _) in &model.forms {
            said(&model, *form, &mut found);
        }
    }
    assert_snapshot!(found.into_values().collect::<Vec<_>>().join("\n"));
}

/// The rows of queries and keys are those of heads, which several matrices do not share.
#[test]
fn heads_are_counted_in_one_matrix() {
    let file = crate::model::sharding::llama(4, 2, DType::F32).with(|file| {
        let queries = file.tensors.iter_mut().find(|entry| entry.name == b"blk.0.attn_q.weight");
        let shape = &mut queries.expect("the queries").shape;
        *shape = vec![2, shape[0] / 2, shape[1]];
    });
    let model = OpenOptions::new().open_memory("file", file.build()).expect("a GGUF file");
    let error = model.tensor("layers.0.attention.q.weight").expect_err("two matrices");
    assert!(error.to_string().ends_with("2 matrices where one was expected"), "{error}");
    model.tensor("layers.1.attention.q.weight").expect("one matrix");
}
