//! Built-in families that a program is given as files: each model of the lists of names is the same as with
//! the built-in family. In a program of its own, since the whole process knows a family that was added.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the files and their sizes are the tests' own"
)]

#[path = "support/mod.rs"]
mod support;

#[path = "support/left_out.rs"]
mod left_out;

#[path = "names/models.rs"]
mod models;

use std::hash::{DefaultHasher, Hash, Hasher};

use weighbridge::arch::FamilyFile;
use weighbridge::translate::{gguf_metadata, gguf_tensors, hf_documents, mlx_documents};
use weighbridge::{Model, Result};

use crate::models::{Opened, models, open};

/// The summary that each given family has.
const GIVEN: &str = "given at run time";

/// Everything that a family decides about a model.
fn outcome(opened: &Opened) -> Vec<(&'static str, String)> {
    let model = &opened.model;
    let resolution = model.resolution().unwrap();
    let text = |result: Result<String>| {
        let text = result.unwrap_or_else(|error| error.to_string());
        support::without_path(&text, model.path())
    };
    let config = |model: &Model| Ok(format!("{:?}", model.config()?.fields()));
    let keys =
        |model: &Model| Ok(format!("{:?} {:?}", gguf_metadata(model)?, gguf_tensors(model)?));
    let mut all = vec![
        ("names", format!("{:?} {:?}", resolution.mapped, resolution.auxiliary)),
        ("no names", format!("{:?} {:?}", resolution.unknown, resolution.missing)),
        ("config", text(config(model))),
        ("keys", text(keys(model))),
    ];
    for (what, documents) in
        [("transformers", hf_documents(model)), ("mlx-lm", mlx_documents(model))]
    {
        all.push((what, text(documents.map(|files| format!("{:?}", files.into_files())))));
    }
    let mut hasher = DefaultHasher::new();
    for mapping in &resolution.mapped {
        let values = model.tensor(&mapping.canonical).unwrap().dequantize().unwrap();
        values.iter().for_each(|value| value.to_bits().hash(&mut hasher));
    }
    all.push(("values", hasher.finish().to_string()));
    all
}

/// Opens each model in each form, and calls `check` with its name.
fn each(mut check: impl FnMut(String, &Opened)) {
    for model in models() {
        for (form, tensors) in &model.forms {
            check(format!("{}, {form:?}", model.name), &open(&model, *form, tensors));
        }
    }
}

#[test]
fn a_family_that_is_given_does_what_the_built_in_one_does() {
    let mut built_in = Vec::new();
    each(|_, opened| built_in.push(outcome(opened)));
    for entry in std::fs::read_dir(support::root().join("families")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "family") {
            let text = std::fs::read_to_string(&path).unwrap();
            let line = |line: &str| match line.starts_with("summary ") {
                true => format!("summary {GIVEN}\n"),
                false => format!("{line}\n"),
            };
            let text: String = text.lines().map(line).collect();
            FamilyFile::parse(path.file_name().unwrap(), &text).unwrap().add();
        }
    }
    let mut expected = built_in.into_iter();
    each(|name, opened| {
        let family = opened.model.resolution().unwrap().architecture.unwrap();
        assert_eq!(family.summary, GIVEN, "{name}");
        assert_eq!(outcome(opened), expected.next().unwrap(), "{name}");
    });
    assert!(expected.next().is_none());
}
