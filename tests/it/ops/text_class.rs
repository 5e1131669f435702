//! Models whose class is a language model alone, next to tensors of a vision model.

use std::collections::BTreeSet;

use crate::public_reports::{converted, faults, rebuilt};
use crate::support::{f32s, sample};
use weighbridge::Model;
use weighbridge::arch::Dialect;
use weighbridge::container::{GGUF, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};

/// The sample under other names, next to tensors of a vision model and its projector.
fn next_to_towers(rename: impl Fn(&str) -> String, towers: &[&str]) -> tempfile::TempDir {
    rebuilt(|name, shape, bytes| {
        let mut all = vec![(rename(name), "F32", shape.to_vec(), bytes)];
        if name == "model.norm.weight" {
            let tower = |name: &&str| ((*name).to_owned(), "F32", vec![2, 2], f32s(&[0.5; 4]));
            all.extend(towers.iter().map(tower));
        }
        all
    })
}

fn names(model: &Model, dialect: Dialect) -> BTreeSet<String> {
    let tensors = model.tensors_in(dialect).unwrap().tensors;
    tensors.iter().map(|tensor| tensor.name().to_owned()).collect()
}

/// transformers loads the tensors of its class by their names, whatever lies next to them.
#[test]
fn names_are_those_of_a_class_without_a_vision_model() {
    let plain = names(&Model::open(sample("hf")).unwrap(), Dialect::HuggingFace);
    type Renaming = Box<dyn Fn(&str) -> String>;
    let inner = |name: &str| name.replace("model.", "model.language_model.");
    let cases: [(&[&str], &str, Renaming); 4] = [
        (
            &["vision_tower.a.weight", "multi_modal_projector.b.weight"],
            "in place of language_model.model.embed_tokens.weight",
            Box::new(|name| format!("language_model.{name}")),
        ),
        (
            &["model.visual.a.weight", "model.visual.merger.b.weight"],
            "in place of model.language_model.embed_tokens.weight",
            Box::new(inner),
        ),
        (
            &["vpm.a.weight", "resampler.b.weight"],
            "in place of llm.model.embed_tokens.weight",
            Box::new(|name| format!("llm.{name}")),
        ),
        (&["visual.a.weight", "visual.merger.b.weight"], "", Box::new(str::to_owned)),
    ];
    for (towers, renamed, rename) in cases {
        let files = next_to_towers(rename, towers);
        let model = Model::open(files.path()).unwrap();
        let mut expected = plain.clone();
        expected.extend(towers.iter().map(|name| (*name).to_owned()));
        assert_eq!(names(&model, Dialect::HuggingFace), expected, "{towers:?}");
        let ignored = format!(
            "config.json states LlamaForCausalLM, which has no vision or audio model: transformers ignores {} and 1 more",
            towers[0]
        );
        let notes = ops::check_consistency(&model, Strictness::Default).unwrap().notes.join("; ");
        let told = converted(files.path(), &ConvertOptions::new(&SAFETENSORS)).unwrap();
        for text in [&notes, &told] {
            assert!(text.contains(&ignored) && text.contains(renamed), "{towers:?}: {text}");
        }
        assert!(faults(&model, Strictness::Strict).contains(&ignored), "{towers:?}");
        let told = converted(files.path(), &ConvertOptions::new(&GGUF)).unwrap();
        assert!(
            told.contains(
                "config.json has no vision_config, since LlamaForCausalLM has no vision or audio model"
            ),
            "{told}"
        );
    }
}
