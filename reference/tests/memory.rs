//! The figures of `memory` are those of a run: the peak memory of this process, measured by the
//! system.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use weighbridge::{DType, OpenOptions, ops};
use weighbridge_reference::{Footprint, MemoryOptions, Reference};

const DIM: u64 = 512;
const FFN: u64 = 1408;
const LAYERS: u64 = 4;
const VOCABULARY: u64 = 16_384;

/// A Llama with tied embeddings, whose BF16 weights are 0: a hole in the file.
fn model(folder: &Path) {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, DIM]),
        ("model.norm.weight".to_owned(), vec![DIM]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[u64]| {
            tensors.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        };
        for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
            add(&format!("self_attn.{name}"), &[DIM, DIM]);
        }
        add("mlp.gate_proj", &[FFN, DIM]);
        add("mlp.up_proj", &[FFN, DIM]);
        add("mlp.down_proj", &[DIM, FFN]);
        add("input_layernorm", &[DIM]);
        add("post_attention_layernorm", &[DIM]);
    }
    let (mut header, mut end) = ("{".to_owned(), 0);
    for (name, shape) in &tensors {
        let start = end;
        end += shape.iter().product::<u64>() * 2;
        let comma = if start > 0 { "," } else { "" };
        let _ = write!(
            header,
            "{comma}\"{name}\":{{\"dtype\":\"BF16\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"
        );
    }
    header.push('}');
    let mut file = File::create(folder.join("model.safetensors")).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("a length");
    file.write_all(header.as_bytes()).expect("a header");
    file.set_len(8 + header.len() as u64 + end).expect("a hole");
    let config = format!(
        "{{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":{DIM},\
         \"num_hidden_layers\":{LAYERS},\"num_attention_heads\":8,\"num_key_value_heads\":8,\
         \"intermediate_size\":{FFN},\"vocab_size\":{VOCABULARY},\"rms_norm_eps\":1e-5,\
         \"max_position_embeddings\":4096,\"tie_word_embeddings\":true}}"
    );
    std::fs::write(folder.join("config.json"), config).expect("a file");
}

/// A run of the model, and for what `memory` is asked.
const RUNS: [(&str, u64, u64); 2] = [
    // The scores of all positions of a batch, as `logits` computes them.
    ("logits", 256, 256),
    // A text that grows, as in `generate`: the keys and values of all positions stay.
    ("generate", 512, 16),
];

/// One run in a process of its own: memory that a run before it has freed would not count again.
#[test]
#[ignore = "a_run_takes_what_memory_says starts it"]
fn one_run() {
    let Some(folder) = std::env::var_os("WEIGHBRIDGE_TEST_FOLDER") else { return };
    let name = std::env::var("WEIGHBRIDGE_TEST_RUN").expect("a run");
    let (name, context, batch) = *RUNS.iter().find(|run| run.0 == name).expect("a run");
    let open = || OpenOptions::new().open(&folder).expect("a model");
    // The threads of the pool and the code are not the model's.
    Reference::new(&open()).expect("a model").session().logits(&[1, 2, 3]).expect("scores");
    let model = open();
    let memory = Footprint::of(&model).expect("a footprint");
    let memory = memory.at(MemoryOptions { context, batch, cache: DType::F32 }).expect("a size");
    // Sets the peak to what the process has now (proc_pid_clear_refs(5)).
    std::fs::write("/proc/self/clear_refs", "5").expect("a peak that can be reset");
    let before = ops::peak_memory().expect("a peak");
    let reference = Reference::new(&model).expect("a model");
    let mut session = reference.session();
    let tokens: Vec<u32> = (0..512).collect();
    if name == "logits" {
        session.logits(&tokens[..256]).expect("scores");
    } else {
        tokens.chunks(16).for_each(|some| drop(session.next(some).expect("scores")));
    }
    let (found, expected) =
        (ops::peak_memory().expect("a peak") - before, memory.total().expect("a size"));
    println!("{name}: {found} bytes measured, {expected} estimated");
    assert!(expected.abs_diff(found) * 20 <= expected, "{found} instead of {expected}");
}

#[test]
fn a_run_takes_what_memory_says() {
    let folder = tempfile::tempdir().expect("a folder");
    model(folder.path());
    for (name, ..) in RUNS {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "one_run", "--ignored", "--nocapture"]);
        command.env("WEIGHBRIDGE_TEST_FOLDER", folder.path()).env("WEIGHBRIDGE_TEST_RUN", name);
        // Large pieces go back to the system when they are freed: how much of them the allocator keeps
        // depends on which thread was faster.
        command.env("MALLOC_MMAP_THRESHOLD_", "131072");
        let ran = command.output().expect("a process");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("measured"), "{said}");
        said.lines().filter(|line| line.contains("measured")).for_each(|line| println!("{line}"));
    }
}
