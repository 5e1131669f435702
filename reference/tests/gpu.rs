//! Models that run on a GPU: the logits of transformers, and no copies to the host within a step. Without a GPU
//! the tests are skipped by name; with `WEIGHBRIDGE_REQUIRE_GPU=1` they fail. Mesa's software driver suffices.
#![cfg(feature = "gpu")]

#[allow(dead_code, reason = "shared with the tests on the CPU")]
mod support;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use support::{Expected, agrees, outside};
use weighbridge::Model;
use weighbridge_gpu::Gpu;
use weighbridge_reference::{Plan, Reference};

/// The folder of this crate: where Cargo or `cargo xtask device-check` says it is, or else where it was built.
fn root() -> PathBuf {
    let said = std::env::var_os("CARGO_MANIFEST_DIR");
    said.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The GPU, or `None` after a line that names the skipped test.
fn gpu(test: &str) -> Option<Arc<Gpu>> {
    match Gpu::open(None) {
        Ok(gpu) => Some(Arc::new(gpu)),
        Err(error) if std::env::var_os("WEIGHBRIDGE_REQUIRE_GPU").is_some() => {
            panic!("{test}: {error}")
        }
        Err(error) => {
            eprintln!("skipped: {test}: {error}");
            None
        }
    }
}

/// Falcon's ALiBi: see the tests on the CPU.
fn plan(name: &str, model: &Model) -> Result<Plan, String> {
    let mut plan = Plan::of(model).map_err(|error| error.to_string())?;
    if name == "falcon-rw" {
        plan.attentions()
            .for_each(|attention| attention.alibi = attention.alibi.map(|factor| 2.0 * factor));
    }
    Ok(plan)
}

/// Fixtures whose whole step is computed on the GPU: one copy for each token, that of its scores.
const WHOLE: &[&str] = &[
    "llama",
    "qwen2",
    "qwen3",
    "qwen2_moe",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "mixtral",
    "gpt_oss",
    "phi3",
    "mistral",
    "granite",
    "cohere2",
    "olmo2",
    "smollm3",
    "starcoder2",
    "glm4",
];

#[test]
fn a_gpu_gives_the_logits_of_transformers() {
    let Some(gpu) = gpu("a_gpu_gives_the_logits_of_transformers") else { return };
    let made = std::env::var_os("WEIGHBRIDGE_MODELS").map(PathBuf::from);
    let mut faults = Vec::new();
    for folder in outside("logits").into_iter().chain(made) {
        for name in support::fixtures(&folder) {
            let expected = Expected::read(&folder.join(&name).join("logits.safetensors"));
            let one = || -> Result<(), String> {
                let model = Model::open(folder.join(&name)).map_err(|error| error.to_string())?;
                let plan = plan(&name, &model)?;
                let reference = Reference::on_gpu(&model, plan, Arc::clone(&gpu));
                let reference = reference.map_err(|error| error.to_string())?;
                agrees(&reference, &expected)?;
                if !expected.tokens.is_empty() && expected.generated.is_some() {
                    let before = reference.copies_from_gpu();
                    let mut session = match &expected.encoder_tokens {
                        None if expected.spectrum.is_none() => reference.session(),
                        _ => return Ok(()),
                    };
                    for token in &expected.tokens {
                        session.next(&[*token]).map_err(|error| error.to_string())?;
                    }
                    let copies = reference.copies_from_gpu() - before;
                    let each = copies as f64 / expected.tokens.len() as f64;
                    println!("{name}: {each} copies for each token");
                    if WHOLE.contains(&name.as_str()) && copies != expected.tokens.len() {
                        return Err(format!("{each} copies for each token"));
                    }
                }
                Ok(())
            };
            match one() {
                Err(fault) if fault.contains("cannot be run yet") => {
                    println!("skipped: {name}: {fault}");
                }
                Err(fault) => faults.push(format!("{name}: {fault}")),
                Ok(()) => {}
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The same tokens as on the CPU, from every form, in pieces and all at once, with one copy for each token.
#[test]
fn the_sample_tells_its_tales_on_a_gpu() {
    let Some(gpu) = gpu("the_sample_tells_its_tales_on_a_gpu") else { return };
    let tales: Value = serde_json::from_str(include_str!("it/sample.json")).expect("JSON");
    let ids = |value: &Value| -> Vec<u32> {
        let ids = value.as_array().expect("a list").iter();
        ids.map(|id| u32::try_from(id.as_u64().expect("a number")).expect("a token")).collect()
    };
    let cases = tales["cases"].as_array().expect("cases");
    for form in ["hf", "sample-Q8_0.gguf", "mlx-4bit"] {
        let path = root().join("../assets/sample").join(form);
        let model = Model::open(path).expect("the sample");
        let plan = Plan::of(&model).expect("a Llama");
        let on_gpu = Reference::on_gpu(&model, plan, Arc::clone(&gpu)).expect("it fits");
        let on_cpu = Reference::new(&model).expect("a Llama");
        for case in cases.iter().take(2) {
            let prompt = ids(&case["prompt_ids"]);
            let before = on_gpu.copies_from_gpu();
            let found = on_gpu.session().greedy(&prompt, 40).expect("tokens");
            assert_eq!(found, on_cpu.session().greedy(&prompt, 40).expect("tokens"), "{form}");
            assert_eq!(on_gpu.copies_from_gpu() - before, 40, "{form}");
            let told = ids(&case["greedy_ids"]);
            let told = told.get(prompt.len()..prompt.len() + 40).unwrap_or_default();
            assert!(form == "mlx-4bit" || found == told, "{form}: {found:?}");
        }
    }
}
