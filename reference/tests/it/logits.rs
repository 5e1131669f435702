//! Tiny models of every family: logits and greedy continuations as Hugging Face transformers computes
//! them, from the directory that transformers wrote, and from what `convert` makes of it.

use std::path::{Path, PathBuf};

use crate::support::{self, Container, Expected, compare, converted, outside};
use weighbridge::ops::quantize;
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{Model, WriteOptions};
use weighbridge_reference::plan::{AttentionPlan, Temperature};
use weighbridge_reference::{Plan, Reference, likeliest};

/// Values that the logits were computed with and the models do not state.
const COMPUTED_WITH: &[(&str, Said)] = &[
    // The eager attention of transformers 5.23, which made the logits, adds ALiBi to the scores twice:
    // in the mask and in the layer. Its other attentions, and the model's own code, add it once.
    ("falcon-rw", |plan| {
        plan.attentions()
            .for_each(|attention| attention.alibi = attention.alibi.map(|factor| 2.0 * factor));
    }),
];

/// Numbers that GGUF has no key for, or that llama.cpp's converter does not write. Given to the plan,
/// they must give the logits: nothing else is lost.
const UNSAID: &[(&str, Said)] = &[
    // llama.cpp has one attention for each layer, and the file keeps no other.
    ("ministral", |plan| {
        attentions(plan, &[0, 1, 2]).for_each(|attention| attention.window = Some(8));
    }),
    // llama.cpp has one length of chunks, and of steps in which queries grow.
    ("llama4_text-chunks", |plan| {
        for attention in plan.attentions() {
            attention.window = attention.chunked.then_some(8);
            if let Some(Temperature::Logarithm { step, .. }) = &mut attention.temperature {
                *step = 4;
            }
        }
    }),
    // A file does not say whether it is T5 or mT5. The published models of mT5 have an output matrix.
    ("mt5", |plan| plan.logit_scale = 1.0),
];

/// Encoders whose pooler or head for masked words llama.cpp's converter leaves out: their hidden
/// states are compared.
const HEADLESS: &[&str] = &["bert-encoder", "bert-mlm", "modernbert", "roberta-mlm", "xlm-roberta"];

/// The reasons for which models are skipped: no operation computes them, or a container does not
/// hold them.
const SKIPPED: [&str; 2] = ["cannot be run yet", "mlx-lm has no class"];

type Said = fn(&mut Plan);

fn attentions<'p>(
    plan: &'p mut Plan,
    layers: &'p [usize],
) -> impl Iterator<Item = &'p mut AttentionPlan> {
    let all = plan.attentions().enumerate();
    all.filter(|(layer, _)| layers.contains(layer)).map(|(_, attention)| attention)
}

/// Every fixture from one container, and every model of `xtask/oracles/models.py` where
/// `WEIGHBRIDGE_MODELS` names the folder that it wrote.
fn all(container: Container) {
    let made = std::env::var_os("WEIGHBRIDGE_MODELS").map(PathBuf::from);
    let folders: Vec<PathBuf> = outside("logits").into_iter().chain(made).collect();
    let mut faults = Vec::new();
    let mut passed = 0;
    for folder in &folders {
        let before = passed + faults.len();
        for name in support::fixtures(folder) {
            match one(&folder.join(&name), &name, container) {
                Ok(_) => passed += 1,
                Err(fault) if SKIPPED.iter().any(|why| fault.contains(why)) => {
                    println!("skipped: {name}: {fault}");
                }
                Err(fault) => faults.push(format!("{name}: {fault}")),
            }
        }
        assert!(passed + faults.len() > before, "no fixtures in {}", folder.display());
    }
    assert!(faults.is_empty(), "{container:?}: {passed} pass, but\n{}", faults.join("\n"));
}

fn one(folder: &Path, name: &str, container: Container) -> Result<f32, String> {
    let mut expected = Expected::read(&folder.join("logits.safetensors"));
    let model = Model::open(folder).map_err(|error| error.to_string())?;
    let (model, _kept) = converted(model, container)?;
    let mut plan = Plan::of(&model).map_err(|error| error.to_string())?;
    if let Some((_, change)) = COMPUTED_WITH.iter().find(|(of, _)| *of == name) {
        change(&mut plan);
    }
    if container == Container::Gguf {
        if HEADLESS.contains(&name) {
            (expected.pooled, expected.logits) = (None, None);
        }
        if let Some((_, say)) = UNSAID.iter().find(|(of, _)| *of == name) {
            let unchanged = compare(&model, plan.clone(), &expected);
            if unchanged.is_ok() {
                return Err("nothing is lost: remove it from UNSAID".to_owned());
            }
            say(&mut plan);
        }
    }
    compare(&model, plan, &expected)
}

#[test]
fn a_directory_gives_the_logits_of_transformers() {
    all(Container::Directory);
}

#[test]
fn a_gguf_gives_the_logits_of_transformers() {
    all(Container::Gguf);
}

/// The likeliest token is the same wherever it leads by more than half a standard deviation.
/// Models with experts are left out, since a router chooses others where two are nearly equal.
#[test]
fn eight_bits_keep_the_likeliest_token() {
    let Some(folder) = outside("logits") else { return };
    let (mut compared, mut faults) = (0, Vec::new());
    for name in support::fixtures(&folder) {
        let expected = Expected::read(&folder.join(&name).join("logits.safetensors"));
        let (Some(logits), None, None) =
            (&expected.logits, &expected.spectrum, &expected.encoder_tokens)
        else {
            continue;
        };
        let model = Model::open(folder.join(&name)).expect("a fixture");
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("model.gguf");
        let options = LlamaOptions::new(FileType::Q8_0);
        let plan = match quantize(&model, &options, None, &path) {
            Ok(plan) => plan,
            // What llama.cpp could not load is written by `convert` alone.
            Err(error) => {
                println!("skipped: {name}: {error}");
                continue;
            }
        };
        plan.run(&path, &WriteOptions::new()).expect("it is written");
        let model = Model::open(&path).expect("the file");
        let Ok(mut plan) = Plan::of(&model) else { continue };
        for (of, change) in COMPUTED_WITH.iter().chain(UNSAID) {
            if *of == name {
                change(&mut plan);
            }
        }
        let routes = model.names().expect("names").any(|name| name.contains(".router."));
        if plan.encodes() || routes {
            continue;
        }
        let reference = Reference::with_plan(&model, plan).expect("a model");
        let found = reference.session().logits(&expected.tokens).expect("logits");
        let square = logits.values().iter().map(|value| value * value).sum::<f32>();
        let deviation = (square / logits.values().len() as f32).sqrt();
        for (found, expected) in found.rows().zip(logits.rows()) {
            let best = likeliest(expected).expect("a token") as usize;
            let others = expected.iter().enumerate().filter(|(token, _)| *token != best);
            let next = others.map(|(_, value)| *value).fold(f32::NEG_INFINITY, f32::max);
            if expected[best] - next > deviation / 2.0 {
                compared += 1;
                if likeliest(found).expect("a token") as usize != best {
                    faults.push(format!("{name}: not {best}"));
                }
            }
        }
    }
    println!("{compared} positions");
    assert!(compared > 150 && faults.is_empty(), "{compared}: {}", faults.join("\n"));
}

#[test]
fn an_mlx_directory_gives_the_logits_of_transformers() {
    all(Container::Mlx);
}

#[test]
fn a_model_of_ollama_gives_the_logits_of_transformers() {
    all(Container::Ollama);
}
