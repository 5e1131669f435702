//! Every architecture in every container: the models of the lists of names are converted from each
//! form into each other, and have the same canonical tensors there, under the names, with the shapes
//! and the values, of the list of that form.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the sizes are the test's own"
)]

use crate::support;
use std::collections::{BTreeMap, BTreeSet};

use crate::models::{Array, Form, NamedModel, Opened, Tensors, lists, models, open, pattern};
use weighbridge::arch::{Change, Dialect};
use weighbridge::container::{Container, GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::{Model, ModelConfig, OpenOptions, Strictness, Tensor, WriteOptions};

/// The containers that are written, as forms of lists.
const TARGETS: &[(Form, Dialect, &Container)] = &[
    (Form::Gguf, Dialect::Gguf, &GGUF),
    (Form::HuggingFace, Dialect::HuggingFace, &SAFETENSORS),
    (Form::Mlx, Dialect::Mlx, &MLX),
];

fn tensor(view: &Tensor) -> Result<Array, String> {
    let values = view.dequantize().map_err(|error| format!("{}: {error}", view.name()))?;
    let shape = view.shape().iter().map(|dim| *dim as usize).collect();
    Ok(Array { shape, values: values.to_vec() })
}

/// Whether values are the same, bit for bit, but where adding 1 and taking it off again rounds.
fn alike(a: &[f32], b: &[f32], changed: bool) -> bool {
    let close =
        |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || changed && (a - b).abs() < 1e-6;
    a.len() == b.len() && a.iter().zip(b).all(close)
}

/// The canonical tensors of a model, and whether the values of each are stored changed.
fn canonical(model: &Model) -> Result<BTreeMap<String, (Array, bool)>, String> {
    let mappings = model.resolution().expect("resolved").mapped.iter();
    mappings
        .map(|mapping| {
            let name = &mapping.canonical;
            let view = model.tensor(name).map_err(|error| format!("{name}: {error}"))?;
            let changed = mapping.transform.values != Change::None;
            Ok((name.clone(), (tensor(&view)?, changed)))
        })
        .collect()
}

/// The faults of a model in another form.
fn compare(at: &str, source: &Model, found: &Model, left: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let resolution = found.resolution().expect("resolved");
    faults.extend(resolution.unknown.iter().map(|name| format!("{at}: {name} is unknown")));
    let (expected, found) = match (canonical(source), canonical(found)) {
        (Ok(expected), Ok(found)) => (expected, found),
        (expected, found) => {
            faults.extend(
                [expected.err(), found.err()].into_iter().flatten().map(|e| format!("{at}: {e}")),
            );
            return faults;
        }
    };
    for (name, (expected, changed)) in &expected {
        match found.get(name) {
            None if left.contains(name) => {}
            None => faults.push(format!("{at}: {name} is missing")),
            Some((tensor, again))
                if tensor.shape == expected.shape
                    && alike(&tensor.values, &expected.values, *changed || *again) => {}
            // RoBERTa's positions start after the padding token's number, 1; GGUF drops the rows before.
            Some((tensor, _))
                if name == "position_embedding.weight"
                    && at.contains("to Gguf")
                    && expected.values.ends_with(&tensor.values)
                    && expected.shape[0] == tensor.shape[0] + 2 => {}
            Some((tensor, _)) => faults
                .push(format!("{at}: {name} differs, {:?} {:?}", tensor.shape, expected.shape)),
        }
    }
    // llama.cpp and mlx-lm require a copy of the embedding of some architectures.
    let required = at.contains("to Gguf") || at.contains("to Mlx");
    let copied = |name: &str| name == "output.weight" && required;
    faults.extend(
        found
            .keys()
            .filter(|name| !expected.contains_key(*name) && !copied(name))
            .map(|name| format!("{at}: {name} is new")),
    );
    faults
}

/// The notes on the conversions of each model: the effect, and the names concerned.
type Told = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Puts `{e}` for the number of an expert.
fn expert(name: &str) -> String {
    let mut parts: Vec<String> = pattern(name).split('.').map(str::to_owned).collect();
    let number = |part: &&mut String| part.parse::<u32>().is_ok();
    parts.iter_mut().filter(number).for_each(|part| *part = "{e}".to_owned());
    parts.join(".")
}

/// The faults of a model that was given a form's names, and the notes on it.
fn spoken(
    model: &NamedModel,
    opened: &Opened,
    (form, dialect, _): (Form, Dialect, &'static Container),
    told: &mut Told,
) -> Vec<String> {
    let at = format!("{}, {:?} to {form:?}", model.name, opened.form);
    let mut tell = |what: String, name: &str| {
        let told = told.entry(at.clone()).or_default();
        told.entry(what).or_default().insert(expert(name));
    };
    let architecture = opened.model.resolution().expect("resolved").architecture;
    let known = architecture.map_or("", |known| known.gguf.first().copied().unwrap_or_default());
    // GGUF may have no architecture for a family, as `convert` says.
    if form == Form::Gguf && known.is_empty() {
        return Vec::new();
    }
    let spoken = match opened.model.tensors_in(dialect) {
        Ok(spoken) => spoken,
        Err(error) => {
            tell(format!("names: {error}"), "");
            return Vec::new();
        }
    };
    let mut faults = Vec::new();
    let mut tensors = Tensors::new();
    for view in &spoken.tensors {
        match tensor(view) {
            Ok(tensor) => drop(tensors.insert(view.name().to_owned(), tensor)),
            Err(error) => faults.push(format!("{at}: {error}")),
        }
    }
    for (name, reason) in &spoken.left_out {
        tell(format!("left out: {reason}"), name);
    }
    let left = spoken.left_out.iter().map(|(name, _)| name.clone()).collect();
    // A list without a GGUF form has no name of the architecture there.
    let gguf = if model.gguf.len() > 1 { model.gguf.clone() } else { known.to_owned() };
    let named = NamedModel { gguf, ..model.clone() };
    let again = open(&named, form, &tensors);
    faults.extend(compare(&at, &opened.model, &again.model, &left));
    // The list of that form is the oracle for names, shapes and values; axes of 1 it does not tell.
    let as_listed = |found: &Array, listed: &Array| {
        let long = |tensor: &Array| -> Vec<usize> {
            tensor.shape.iter().copied().filter(|length| *length != 1).collect()
        };
        long(found) == long(listed) && alike(&found.values, &listed.values, true)
    };
    for (_, listed) in model.forms.iter().filter(|(of, _)| *of == form) {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for (name, found) in &tensors {
            let stem = name.strip_prefix("model.").unwrap_or(name);
            let wrapped = listed.iter().find(|(other, _)| other.ends_with(&format!(".{stem}")));
            match (listed.get_key_value(name), wrapped) {
                (Some((name, listed)), _) => {
                    used.insert(name);
                    if !as_listed(found, listed) {
                        let shapes = (&found.shape, &listed.shape);
                        faults.push(format!("{at}: {name} is not as listed, {shapes:?}"));
                    }
                }
                (None, Some((other, listed))) if as_listed(found, listed) => {
                    used.insert(other);
                    let prefix = other.strip_suffix(stem).unwrap_or_default();
                    tell(format!("the list has the prefix \"{prefix}\""), "");
                }
                _ => tell("not in the list".to_owned(), name),
            }
        }
        for name in listed.keys().filter(|name| !used.contains(&***name)) {
            tell("not written, but in the list".to_owned(), name);
        }
    }
    faults
}

/// The same with `convert`, through files.
fn converted(
    model: &NamedModel,
    opened: &Opened,
    (form, dialect, format): (Form, Dialect, &'static Container),
    told: &mut Told,
) -> Vec<String> {
    let at = format!("{}, {:?} to {form:?}", model.name, opened.form);
    let mut tell = |what: String, name: &str| {
        let told = told.entry(at.clone()).or_default();
        told.entry(what).or_default().insert(expert(name));
    };
    let plan =
        match ops::convert(&opened.model, &ConvertOptions::new(format).allow_unloadable(true)) {
            Ok(plan) => plan,
            Err(error) => {
                let folder = format!("{}", opened.model.path().display());
                let text = error.to_string().replace(&format!("{folder}: "), "");
                tell(format!("convert: {}", text.replace(&folder, ".")), "");
                return Vec::new();
            }
        };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model");
    plan.run(&path, &WriteOptions::new().allow_incomplete(true))
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    let again = OpenOptions::new().strictness(Strictness::Strict).open(&path);
    let again = match again.and_then(support::resolved) {
        Ok(again) => again,
        Err(error) => return vec![format!("{at}: {error}")],
    };
    let spoken = opened.model.tensors_in(dialect).unwrap_or_default();
    for view in &spoken.tensors {
        let written = again.tensor(view.name()).map(|tensor| tensor.shape().to_vec());
        if written.as_ref().is_ok_and(|shape| shape != view.shape()) {
            return vec![format!("{at}: {} is {written:?}, not {:?}", view.name(), view.shape())];
        }
    }
    let left = spoken.left_out.into_iter().map(|(name, _)| name).collect();
    if let (Ok(a), Ok(b)) = (opened.model.config(), again.config()) {
        if (a.head_dim.value, a.q_dim.value) != (b.head_dim.value, b.q_dim.value) {
            tell("the config that was written says another width of heads".to_owned(), "");
            return Vec::new();
        }
        let numbers = |model: &Model, c: &ModelConfig| {
            // GGUF counts the layers that predict further tokens among the others.
            let next = c.experts.n_next_token_layers.as_ref().map_or(0, |next| next.value);
            let next = if model.container() == "gguf" { next } else { 0 };
            let layers = c.n_layers.value - next;
            [c.dim.value, layers, c.n_heads.value, c.n_kv_heads.value, c.n_experts.value]
        };
        let (a, b) = (numbers(&opened.model, a), numbers(&again, b));
        if a != b {
            return vec![format!("{at}: numbers {b:?}, not {a:?}")];
        }
    }
    compare(&format!("{at}, convert"), &opened.model, &again, &left)
}

/// The notes on each model; models with the same notes share their lines.
fn listed<'t>(
    told: impl Iterator<Item = (&'t String, &'t BTreeMap<String, BTreeSet<String>>)>,
) -> String {
    let line = |(what, names): (&String, &BTreeSet<String>)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("    {what}: {}", names.join(" ")).trim_end_matches(": ").to_owned()
    };
    let mut shared = BTreeMap::<String, Vec<&str>>::new();
    for (at, told) in told {
        let lines: Vec<String> = told.iter().map(line).collect();
        shared.entry(lines.join("\n")).or_default().push(at);
    }
    let mut told: Vec<String> =
        shared.iter().map(|(lines, models)| format!("{}\n{lines}", models.join("; "))).collect();
    told.sort();
    told.join("\n")
}

/// All that is refused, left out or named otherwise than in the lists stands in a snapshot for each form,
/// with the models that it happens to.
#[test]
fn every_form_in_every_other() {
    let (mut faults, mut told) = (Vec::new(), Told::new());
    let mut done = 0;
    let models = models();
    for model in &models {
        for (form, tensors) in &model.forms {
            let opened = open(model, *form, tensors);
            for target in TARGETS.iter().filter(|(target, ..)| target != form) {
                faults.extend(spoken(model, &opened, *target, &mut told));
                faults.extend(converted(model, &opened, *target, &mut told));
                done += 1;
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
    if models.len() == lists::LISTS.len() {
        println!("skipped: without the large lists less is told");
        return;
    }
    assert!(done > 180, "{done} pairs");
    for (target, ..) in TARGETS {
        let told = told.iter().filter(|(at, _)| at.ends_with(&format!("{target:?}")));
        insta::assert_snapshot!(format!("every_form_in_{target:?}"), listed(told));
    }
}

/// mlx-lm's class of Gemma 3n has the language model within one that sees and hears, and takes names
/// as they come.
#[test]
fn gemma3n_lies_within_another_in_mlx() {
    let models = models();
    let model = models.iter().find(|model| model.name == "gemma3n").expect("a list");
    for (form, tensors) in model.forms.iter().filter(|(form, _)| *form != Form::Mlx) {
        let opened = open(model, *form, tensors);
        let spoken = opened.model.tensors_in(Dialect::Mlx).expect("names");
        assert!(spoken.tensors.len() > 30);
        for view in &spoken.tensors {
            let parts = ["language_model.", "audio_tower.", "vision_tower.", "embed_"];
            let name = view.name().strip_prefix("model.").unwrap_or_default();
            assert!(parts.iter().any(|part| name.starts_with(part)), "{}", view.name());
        }
    }
}
