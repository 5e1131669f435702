//! Models that no family describes: names by structure, and what works with them.

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use weighbridge::container::{GGUF, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions, DiffOptions, QuantizationRules};
use weighbridge::recipe::mlx_lm::MlxOptions;
use weighbridge::{ErrorKind, Model, WriteOptions};

use crate::support::{Safetensors, f32s, folder, told, without_path};

/// The tensors of one layer under the names of some program, with their shapes.
type Tensors<'t> = &'t [(&'t str, &'t [u64])];

const LLAMA: Tensors<'_> = &[
    ("model.embed_tokens.weight", &[24, 16]),
    ("model.layers.0.input_layernorm.weight", &[16]),
    ("model.layers.0.self_attn.q_proj.weight", &[16, 16]),
    ("model.layers.0.self_attn.k_proj.weight", &[8, 16]),
    ("model.layers.0.self_attn.v_proj.weight", &[8, 16]),
    ("model.layers.0.self_attn.o_proj.weight", &[16, 16]),
    ("model.layers.0.post_attention_layernorm.weight", &[16]),
    ("model.layers.0.mlp.gate_proj.weight", &[32, 16]),
    ("model.layers.0.mlp.up_proj.weight", &[32, 16]),
    ("model.layers.0.mlp.down_proj.weight", &[16, 32]),
    ("model.norm.weight", &[16]),
    ("lm_head.weight", &[24, 16]),
];

/// A directory whose `model_type` is unheard of, with further keys in its config.
fn stranger(tensors: Tensors<'_>, more: &Json) -> TempDir {
    let mut config = json!({
        "model_type": "unheard_of", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 24
    });
    let keys = config.as_object_mut().expect("an object");
    keys.extend(more.as_object().expect("an object").clone());
    let file = tensors.iter().fold(Safetensors::new(), |file, (name, shape)| {
        let count = shape.iter().product::<u64>();
        let values: Vec<f32> = (0..count).map(|i| (i as f32).sin()).collect();
        file.tensor(name, "F32", shape, f32s(&values))
    });
    let config = config.to_string().into_bytes();
    folder(&[("model.safetensors", file.build()), ("config.json", config)])
}

/// The canonical names with their stored ones and transforms, and the stored names without one.
fn names(tensors: Tensors<'_>, more: &Json) -> (Vec<String>, Vec<String>) {
    let folder = stranger(tensors, more);
    let model = Model::open(folder.path()).expect("a model");
    let resolution = model.resolution().expect("names");
    assert!(resolution.architecture.is_none());
    let mapped = resolution.mapped.iter().map(|mapping| {
        let stored = mapping.stored.join(" ");
        let tensor = model.tensor(&mapping.canonical).expect("a tensor");
        format!("{} {:?} = {stored} {}", mapping.canonical, tensor.shape(), mapping.transform)
    });
    (mapped.collect(), resolution.unknown.clone())
}

/// `LLAMA` with other tensors in place of those whose names contain `without`.
fn changed<'t>(without: &str, with: Tensors<'t>) -> Vec<(&'t str, &'t [u64])> {
    let rest = LLAMA.iter().copied().filter(|(name, _)| !name.contains(without));
    rest.chain(with.iter().copied()).collect()
}

#[test]
fn every_tensor_of_a_usual_decoder_has_a_name() {
    let (mapped, unknown) = names(LLAMA, &json!({}));
    assert_eq!(unknown, [""; 0]);
    insta::assert_snapshot!(mapped.join("\n"), @r"
    token_embedding.weight [24, 16] = model.embed_tokens.weight none
    layers.0.attention_norm.weight [16] = model.layers.0.input_layernorm.weight none
    layers.0.attention.q.weight [16, 16] = model.layers.0.self_attn.q_proj.weight none
    layers.0.attention.k.weight [8, 16] = model.layers.0.self_attn.k_proj.weight none
    layers.0.attention.v.weight [8, 16] = model.layers.0.self_attn.v_proj.weight none
    layers.0.attention.output.weight [16, 16] = model.layers.0.self_attn.o_proj.weight none
    layers.0.ffn_norm.weight [16] = model.layers.0.post_attention_layernorm.weight none
    layers.0.ffn.gate.weight [32, 16] = model.layers.0.mlp.gate_proj.weight none
    layers.0.ffn.up.weight [32, 16] = model.layers.0.mlp.up_proj.weight none
    layers.0.ffn.down.weight [16, 32] = model.layers.0.mlp.down_proj.weight none
    output_norm.weight [16] = model.norm.weight none
    output.weight [24, 16] = lm_head.weight none
    ");
}

#[test]
fn other_spellings_experts_and_fused_matrices() {
    let (mapped, unknown) = names(
        &[
            ("transformer.wte.weight", &[24, 16]),
            ("transformer.h.0.ln_1.weight", &[16]),
            ("transformer.h.0.ln_1.bias", &[16]),
            // Stored as [inputs, outputs].
            ("transformer.h.0.attn.c_attn.weight", &[16, 32]),
            ("transformer.h.0.attn.c_attn.bias", &[32]),
            ("transformer.h.0.attn.c_proj.weight", &[16, 16]),
            ("transformer.h.0.mlp.router.weight", &[2, 16]),
            ("transformer.h.0.mlp.experts.0.w1.weight", &[8, 16]),
            ("transformer.h.0.mlp.experts.0.w2.weight", &[16, 8]),
            ("transformer.h.0.mlp.experts.0.w3.weight", &[8, 16]),
            ("transformer.h.0.mlp.experts.1.w1.weight", &[8, 16]),
            ("transformer.h.0.mlp.experts.1.w2.weight", &[16, 8]),
            ("transformer.h.0.mlp.experts.1.w3.weight", &[8, 16]),
            ("transformer.h.0.mlp.shared_expert.gate_up_proj.weight", &[24, 16]),
            ("transformer.h.0.mlp.shared_expert.down_proj.weight", &[16, 12]),
            ("transformer.ln_f.weight", &[16]),
        ],
        &json!({"num_experts": 2, "moe_intermediate_size": 8}),
    );
    // The experts are not transposed: whether square matrices are is unclear.
    assert_eq!(unknown, ["transformer.h.0.attn.c_proj.weight"]);
    insta::assert_snapshot!(mapped.join("\n"), @r"
    token_embedding.weight [24, 16] = transformer.wte.weight none
    layers.0.attention_norm.weight [16] = transformer.h.0.ln_1.weight none
    layers.0.attention_norm.bias [16] = transformer.h.0.ln_1.bias none
    layers.0.attention.q.weight [16, 16] = transformer.h.0.attn.c_attn.weight transposed, q of qkv
    layers.0.attention.k.weight [8, 16] = transformer.h.0.attn.c_attn.weight transposed, k of qkv
    layers.0.attention.v.weight [8, 16] = transformer.h.0.attn.c_attn.weight transposed, v of qkv
    layers.0.attention.q.bias [16] = transformer.h.0.attn.c_attn.bias q of qkv
    layers.0.attention.k.bias [8] = transformer.h.0.attn.c_attn.bias k of qkv
    layers.0.attention.v.bias [8] = transformer.h.0.attn.c_attn.bias v of qkv
    layers.0.ffn.router.weight [2, 16] = transformer.h.0.mlp.router.weight none
    layers.0.ffn.experts.gate.weight [2, 8, 16] = transformer.h.0.mlp.experts.0.w1.weight transformer.h.0.mlp.experts.1.w1.weight none
    layers.0.ffn.experts.down.weight [2, 16, 8] = transformer.h.0.mlp.experts.0.w2.weight transformer.h.0.mlp.experts.1.w2.weight none
    layers.0.ffn.experts.up.weight [2, 8, 16] = transformer.h.0.mlp.experts.0.w3.weight transformer.h.0.mlp.experts.1.w3.weight none
    layers.0.ffn.shared_expert.gate.weight [12, 16] = transformer.h.0.mlp.shared_expert.gate_up_proj.weight first half
    layers.0.ffn.shared_expert.up.weight [12, 16] = transformer.h.0.mlp.shared_expert.gate_up_proj.weight second half
    layers.0.ffn.shared_expert.down.weight [16, 12] = transformer.h.0.mlp.shared_expert.down_proj.weight none
    output_norm.weight [16] = transformer.ln_f.weight none
    ");
}

/// A tensor with two possible meanings keeps its name, and so does one of another shape.
#[test]
fn what_is_uncertain_keeps_its_stored_name() {
    let fused: Tensors<'_> = &[
        ("model.layers.0.self_attn.query_key_value.weight", &[32, 16]),
        ("model.layers.0.self_attn.o_proj.weight", &[16, 16]),
    ];
    let none = json!({});
    let unknown = |without: &str, with: Tensors<'_>| names(&changed(without, with), &none).1;
    // Whether by groups of key heads or one after another.
    assert_eq!(unknown("self_attn", fused), ["model.layers.0.self_attn.query_key_value.weight"]);
    // Not the width that the config states: no part of the network has a name.
    let narrow: Tensors<'_> = &[
        ("model.layers.0.mlp.gate_proj.weight", &[31, 16]),
        ("model.layers.0.mlp.up_proj.weight", &[31, 16]),
        ("model.layers.0.mlp.down_proj.weight", &[16, 31]),
    ];
    assert_eq!(unknown("mlp", narrow).len(), 3);
    // A further norm, so that the meaning of the others is unclear.
    let norms: Tensors<'_> = &[("model.layers.0.third_norm.weight", &[16])];
    assert_eq!(unknown("nothing", norms).len(), 3);
    // Two output matrices of attention.
    let two: Tensors<'_> = &[("model.layers.0.self_attn.out_proj.weight", &[16, 16])];
    assert_eq!(unknown("nothing", two).len(), 2);
    // Queries with gates, in an order that nothing states.
    let gated: Tensors<'_> = &[("model.layers.0.self_attn.q_proj.weight", &[32, 16])];
    assert_eq!(unknown("self_attn.q_proj", gated).len(), 3);
    // Two stacks of layers.
    let other: Tensors<'_> = &[
        ("draft.layers.0.mlp.up_proj.weight", &[32, 16]),
        ("draft.layers.0.mlp.down_proj.weight", &[16, 32]),
    ];
    assert_eq!(names(&changed("nothing", other), &none).0, [""; 0]);
    // Without a config that states the widths, no shape can be confirmed.
    assert_eq!(names(LLAMA, &json!({"hidden_size": null})).0, [""; 0]);
}

#[test]
fn such_a_model_is_converted_quantized_and_compared_under_its_own_names() {
    let folder = stranger(LLAMA, &json!({}));
    let model = Model::open(folder.path()).expect("a model");
    assert!(model.resolution().expect("names").is_by_structure());
    let mlx =
        QuantizationRules::MlxLm(MlxOptions { group_size: Some(32), ..MlxOptions::default() });
    let options = ConvertOptions::new(&MLX).quantize(mlx);
    let to = folder.path().join("mlx");
    let plan = ops::convert(&model, &options).expect("a plan");
    plan.run(&to, &WriteOptions::new()).expect("a directory");
    let written = Model::open(&to).expect("a model");
    let stored = |model: &Model| -> Vec<String> {
        model.stored_tensors().map(|tensor| tensor.name().to_owned()).collect()
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(stored(&written)), sorted(stored(&model)));
    assert!(written.resolution().expect("names").is_by_structure());
    let quantized = written.stored_tensors().filter(|tensor| tensor.group_size().is_some());
    // Only its rows are as long as a group.
    assert_eq!(
        quantized.map(|t| t.name().to_owned()).collect::<Vec<_>>(),
        ["model.layers.0.mlp.down_proj.weight"]
    );
    let diff = ops::diff(&model, &written, &DiffOptions::new()).expect("a comparison");
    assert_eq!(diff.report().different.len(), 1);
    assert_eq!(diff.report().different[0].name, "layers.0.ffn.down.weight");
    ops::convert(&written, &ConvertOptions::new(&SAFETENSORS)).expect("a plan");

    let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).expect_err("no architecture");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let told = without_path(&told(&error), folder.path());
    insta::assert_snapshot!(told, @r#"
    Unsupported: .: no GGUF architecture is known for the model_type "unheard_of"
    help: safetensors keeps its names; a file of families may describe its GGUF
    "#);
}

/// A language model of a known family is found below any config, and towers below any module.
#[test]
fn a_model_within_another_one_is_that_of_its_own_config() {
    let text = json!({
        "model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 24, "rms_norm_eps": 1e-5
    });
    let config =
        json!({"model_type": "omni", "thinker_config": {"model_type": "x", "text_config": text}});
    let towers: Tensors<'_> = &[
        ("thinker.visual.layers.0.self_attn.q_proj.weight", &[16, 16]),
        ("thinker.model.audio_tower.conv1.weight", &[4, 4]),
        ("thinker.connector.linear.weight", &[16, 4]),
    ];
    let within: Vec<(String, &[u64])> =
        LLAMA.iter().map(|(name, shape)| (format!("thinker.{name}"), *shape)).collect();
    let within = within.iter().map(|(name, shape)| (name.as_str(), *shape));
    let file =
        within.chain(towers.iter().copied()).fold(Safetensors::new(), |file, (name, shape)| {
            let count = shape.iter().product::<u64>();
            file.tensor(name, "F32", shape, f32s(&vec![0.5; count as usize]))
        });
    let config = config.to_string().into_bytes();
    let folder = folder(&[("model.safetensors", file.build()), ("config.json", config)]);
    let model = Model::open(folder.path()).expect("a model");
    let resolution = model.resolution().expect("names");
    assert_eq!(resolution.architecture.map(|row| row.name), Some("llama"));
    assert_eq!(resolution.reason, "config.json thinker_config.text_config.model_type is \"llama\"");
    assert_eq!((resolution.mapped.len(), resolution.unknown.len()), (LLAMA.len(), 0));
    assert_eq!((resolution.auxiliary.len(), resolution.missing.len()), (towers.len(), 0));
    assert_eq!(
        model.config().expect("a config").ffn_dim.as_ref().map(|width| width.value),
        Some(32)
    );
}
