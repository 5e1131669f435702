//! The layers that `create` adds to weights in Ollama's store: capabilities, templates, parameters,
//! adapters, drafts. The expected values are those of Ollama fb307609.
#![allow(clippy::disallowed_methods, reason = "the files and their sizes are the test's own")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use weighbridge::container::Shards;
use weighbridge::container::ollama;
use weighbridge::ollama::{Modelfile, QuantType};
use weighbridge::ops::{self, ConvertOptions, CreateOptions};
use weighbridge::{DType, Model, Part, WriteOptions, container};

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, Safetensors, copy_of, f32s, fixture, folder, put, sample, told};

const HF: &str = "assets/sample/hf";

/// The media types, names and contents of a model's layers, the config last.
struct Layers(Vec<(String, String, Vec<u8>)>);

impl Layers {
    fn read(manifest: &Path) -> Self {
        let store = manifest.ancestors().nth(5).expect("a store");
        let json: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        let layer = |layer: &Value| {
            let text = |key: &str| layer[key].as_str().unwrap_or_default().to_owned();
            let blob = store.join("blobs").join(text("digest").replace(':', "-"));
            let kind = text("mediaType").rsplit('.').next().expect("a kind").to_owned();
            (kind, text("name"), std::fs::read(blob).unwrap())
        };
        let all = json["layers"].as_array().expect("layers").iter().chain([&json["config"]]);
        Self(all.map(layer).collect())
    }

    fn kinds(&self) -> String {
        let all = self.0.iter().filter(|(kind, ..)| !["tensor", "json"].contains(&&**kind));
        all.map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn text(&self, kind: &str) -> String {
        let found = self.0.iter().rfind(|layer| layer.0 == kind);
        found.map(|layer| String::from_utf8_lossy(&layer.2).into_owned()).unwrap_or_default()
    }

    fn config(&self) -> Value {
        serde_json::from_slice(&self.0.last().expect("a config").2).unwrap()
    }
}

/// Creates a model, and gives its manifest.
fn created(store: &TempDir, name: &str, source: &Model, options: CreateOptions) -> PathBuf {
    let place = ollama::place(name, Some(store.path())).unwrap();
    let plan = ops::create(source, options).unwrap();
    plan.run(&place, &WriteOptions::new().allow_incomplete(true).overwrite(true)).unwrap();
    place
}

fn layers_of(source: impl AsRef<Path>, options: CreateOptions) -> Layers {
    let store = tempfile::tempdir().unwrap();
    let source = Model::open(source).unwrap();
    Layers::read(&created(&store, "m", &source, options))
}

/// Renderer, parser and capabilities of a directory with these documents.
fn config_of(documents: &[(&str, &str)]) -> String {
    let weights = Safetensors::new().tensor("model.norm.weight", "F32", &[1], f32s(&[1.0]));
    let mut files: Vec<(&str, Vec<u8>)> =
        documents.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect();
    files.push(("model.safetensors", weights.build()));
    let config = layers_of(folder(&files).path(), CreateOptions::new()).config();
    let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    format!("{:?} {:?} {}", text("renderer"), text("parser"), config["capabilities"])
}

#[test]
fn capabilities_come_from_config_and_template() {
    let llama = r#"{"architectures":["LlamaForCausalLM"]}"#;
    let next = r#"{"architectures":["Qwen3NextForCausalLM"]}"#;
    let omni = r#"{"llm_config":{"model_type":"nemotron_h"},"has_vision":true,"sound_config":{}}"#;
    let thinks = r#"{"chat_template":"{{ '<think>' }}{{ t }}{{ '</think>' }}"}"#;
    let newer = "{{ resolved_reasoning_effort }}{{ preserve_thinking }}";
    let cases: &[&[(&str, &str)]] = &[
        &[("config.json", llama)],
        &[("config.json", llama), ("tokenizer_config.json", thinks)],
        &[("config.json", llama), ("chat_template.jinja", "<think></think>")],
        &[
            ("config.json", llama),
            ("tokenizer_config.json", r#"{"chat_template":[{"name":"a"}]}"#),
            ("chat_template.jinja", "{{ content.split('</think>') }}"),
        ],
        &[("config.json", next)],
        &[("config.json", next), ("chat_template.jinja", newer)],
        &[("config.json", omni)],
        &[("config.json", omni), ("chat_template.jinja", "{reasoning effort: efficient}")],
        &[
            ("config.json", r#"{"architectures":["LagunaForCausalLM"],"audio_config":{}}"#),
            ("tokenizer_config.json", r#"{"chat_template":"x"}"#),
            ("chat_template.jinja", "laguna_glm_thinking_v8"),
        ],
    ];
    let told: Vec<String> = cases.iter().map(|documents| config_of(documents)).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
        "" "" ["completion"]
        "" "" ["completion","thinking"]
        "" "" ["completion","thinking"]
        "" "" ["completion","thinking"]
        "qwen3.5" "qwen3.5" ["completion","tools","thinking"]
        "qwen3.8" "qwen3.5" ["completion","tools","thinking"]
        "nemotron-3-nano" "nemotron-3-nano" ["completion","vision","audio","tools","thinking"]
        "nemotron-3.5-nano" "nemotron-3.5-nano" ["completion","vision","audio","tools","thinking"]
        "poolside-v1" "poolside-v1" ["completion","audio","tools","thinking"]
        "#);
}

/// A stored model keeps what its chat template revealed, since the store does not hold the file.
#[test]
fn capabilities_survive_in_the_store() {
    let weights = Safetensors::new().tensor("model.norm.weight", "F32", &[1], f32s(&[1.0])).build();
    let config = br#"{"architectures":["LlamaForCausalLM"]}"#;
    let source = folder(&[
        ("config.json", config.as_slice()),
        ("chat_template.jinja", b"<think></think>"),
        ("model.safetensors", &weights),
    ]);
    let store = tempfile::tempdir().unwrap();
    let first = created(&store, "a", &Model::open(source.path()).unwrap(), CreateOptions::new());
    let again = created(&store, "b", &Model::open(&first).unwrap(), CreateOptions::new());
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&again).unwrap());
    let options = CreateOptions::new().parser("qwen3-coder");
    let parsed = created(&store, "c", &Model::open(&first).unwrap(), options);
    let capabilities = Layers::read(&parsed).config()["capabilities"].clone();
    assert_eq!(capabilities, serde_json::json!(["completion", "tools"]));
}

fn gguf(architecture: &str, chat_template: &str) -> Gguf {
    let file = Gguf::new()
        .key("general.architecture", Kv::text(architecture))
        .key("general.file_type", Kv::U32(1));
    let file = match chat_template {
        "" => file,
        text => file.key("tokenizer.chat_template", Kv::text(text)),
    };
    file.tensor("token_embd.weight", DType::F32, &[1, 1], f32s(&[3.0]))
}

fn gguf_layers(file: &Gguf, options: CreateOptions) -> Layers {
    let source = folder(&[("model.gguf", file.build())]);
    layers_of(source.path().join("model.gguf"), options)
}

#[test]
fn architectures_of_gguf_files_get_their_renderers() {
    let told = |architecture: &str| {
        let layers = gguf_layers(&gguf(architecture, ""), CreateOptions::new());
        let config = layers.config();
        let params = layers.text("params");
        format!("{} {params:?} {} {}", layers.kinds(), config["renderer"], config["parser"])
    };
    insta::assert_snapshot!(told("gemma4"), @r#"model params v1+json "{\"stop\":[\"\\u003cturn|\\u003e\"]}\n" "gemma4" "gemma4""#);
    insta::assert_snapshot!(told("laguna"), @r#"model v1+json "" "laguna" "laguna""#);
    insta::assert_snapshot!(told("nemotron_h_moe"), @r#"model v1+json "" "nemotron-3-nano" "nemotron-3-nano""#);
    insta::assert_snapshot!(told("llama"), @r#"model v1+json "" null null"#);
    // What the caller sets goes before what the architecture gets.
    let options = CreateOptions::new().parameter("stop", "END").unwrap().renderer("mine");
    let layers = gguf_layers(&gguf("gemma4", ""), options);
    assert_eq!(layers.text("params"), "{\"stop\":[\"END\"]}\n");
    assert_eq!(
        (&layers.config()["renderer"], &layers.config()["parser"]),
        (&"mine".into(), &"gemma4".into())
    );
}

#[test]
fn known_chat_templates_bring_layers() {
    let chatml = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + \
                  message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
    let layers = gguf_layers(&gguf("llama", chatml), CreateOptions::new());
    assert_eq!(layers.kinds(), "model template params v1+json");
    insta::assert_snapshot!(layers.text("template"), @"
        {{- range .Messages }}<|im_start|>{{ .Role }}
        {{ .Content }}<|im_end|>
        {{ end }}<|im_start|>assistant
        ");
    insta::assert_snapshot!(layers.text("params"), @r#"{"stop":["\u003c|im_start|\u003e","\u003c|im_end|\u003e"]}"#);
    let llama = "{# Written at length, since Ollama compares lengths and characters of templates. #}\
                 {% for message in messages %}{% set content = '<|start_header_id|>' + \
                 message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + \
                 '<|eot_id|>' %}{{ content }}{% endfor %}{% if add_generation_prompt %}\
                 {{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
    let layers = gguf_layers(&gguf("llama", llama), CreateOptions::new());
    insta::assert_snapshot!(layers.text("template"), @"
        {{- range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>

        {{ .Content }}<|eot_id|>
        {{- end }}<|start_header_id|>assistant<|end_header_id|>
        ");
    // A template of one's own takes the place of Ollama's, and the parameters stay.
    let options =
        CreateOptions::new().template("{{ .Prompt }}").unwrap().parameter("seed", "1").unwrap();
    let layers = gguf_layers(&gguf("llama", chatml), options);
    assert_eq!(layers.kinds(), "model template params v1+json");
    assert_eq!(layers.text("template"), "{{ .Prompt }}");
    insta::assert_snapshot!(layers.text("params"), @r#"{"seed":1,"stop":["\u003c|im_start|\u003e","\u003c|im_end|\u003e"]}"#);
    // Longer templates do more than Ollama's know, and are used themselves.
    let long = format!("{chatml}{}", "{# tools #}".repeat(300));
    assert_eq!(gguf_layers(&gguf("llama", &long), CreateOptions::new()).kinds(), "model v1+json");
}

/// Ollama's classes without a renderer pass prompts as they are, so that a model of tensor blobs needs a template.
#[test]
fn tensor_blobs_without_a_renderer_get_a_template() {
    let weights = Safetensors::new().tensor("model.norm.weight", "F32", &[1], f32s(&[1.0])).build();
    let of = |class: &str, template: &str, options: CreateOptions| {
        let source = folder(&[
            ("config.json", format!(r#"{{"architectures":["{class}"]}}"#).into_bytes()),
            ("chat_template.jinja", template.as_bytes().to_vec()),
            ("model.safetensors", weights.clone()),
        ]);
        let source = Model::open(source.path()).unwrap();
        let store = tempfile::tempdir().unwrap();
        let place = ollama::place("m", Some(store.path())).unwrap();
        let plan = ops::create(&source, options).unwrap();
        let notes = plan.notes.join("\n");
        plan.run(&place, &WriteOptions::new().allow_incomplete(true)).unwrap();
        let layers = Layers::read(&place);
        (layers.text("template"), notes)
    };
    let chatml = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + \
                  message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
    let (template, notes) = of("LlamaForCausalLM", chatml, CreateOptions::new());
    assert!(template.contains("<|im_start|>{{ .Role }}"), "{template}");
    assert!(notes.contains("adds Ollama's template chatml"), "{notes}");
    let (template, notes) = of("LlamaForCausalLM", "{{ messages }}", CreateOptions::new());
    assert!(template.is_empty() && notes.contains("the chat template is not used"), "{notes}");
    let (template, notes) = of("Qwen3MoeForCausalLM", chatml, CreateOptions::new());
    assert!(template.is_empty() && !notes.contains("the chat template"), "{template} {notes}");
    let given = CreateOptions::new().template("{{ .Prompt }}").unwrap();
    let (template, notes) = of("LlamaForCausalLM", chatml, given);
    assert!(template == "{{ .Prompt }}" && !notes.contains("resembles"), "{template} {notes}");
}

/// NVFP4 of compressed-tensors stays NVFP4, though a divisor has no exact factor.
#[test]
fn divisors_become_factors() {
    let Some(source) = fixture("hfq/ct-nvfp4") else { return };
    let source = Model::open(source).unwrap();
    let store = tempfile::tempdir().unwrap();
    let made = Model::open(created(&store, "m", &source, CreateOptions::new())).unwrap();
    let mut rounded = 0;
    for (name, divisor) in [
        ("model.layers.0.mlp.down_proj.weight", 3_356.722_f32),
        ("model.layers.0.self_attn.k_proj.weight", 2_763.566_2),
        ("model.layers.0.self_attn.q_proj.weight", 3_018.105_2),
    ] {
        let (own, theirs) =
            (made.stored_tensor(name).unwrap(), source.stored_tensor(name).unwrap());
        assert_eq!(own.dtype().unwrap(), DType::MLX_NVFP4, "{name}");
        let factor = own.bytes(Part::GlobalScale).unwrap();
        assert_eq!(*factor, (1.0 / divisor).to_le_bytes(), "{name}");
        for part in [Part::Weight, Part::Scale] {
            assert!(own.bytes(part).unwrap() == theirs.bytes(part).unwrap(), "{name} {part:?}");
        }
        for (was, is) in theirs.dequantize().unwrap().iter().zip(&*own.dequantize().unwrap()) {
            assert!((was - is).abs() <= was.abs() * 3e-7, "{name}: {was} became {is}");
            rounded += u32::from(was != is);
        }
    }
    assert!(rounded > 0, "the fixture has divisors whose reciprocals are rounded");
    // Whoever accepts no loss is told where there is one; other containers keep to exact values.
    let lossless = ConvertOptions::new(&container::OLLAMA).lossless(true);
    assert!(ops::convert(&source, &lossless).is_err());
    let plan = ops::convert(&source, &ConvertOptions::new(&container::GGUF)).unwrap();
    assert!(
        plan.tensors
            .iter()
            .all(|tensor| tensor.reason.as_deref().is_none_or(|why| !why.contains("factor")))
    );
}

/// The type of a model that is copied as it is is that of its tensors, if they have one.
#[test]
fn the_file_type_is_that_of_all_tensors() {
    let layers = layers_of("assets/sample/mlx-4bit", CreateOptions::new());
    assert_eq!(layers.config()["file_type"], "int4");
    assert_eq!(layers_of(HF, CreateOptions::new()).config()["file_type"], "");
}

#[test]
fn blocks_of_8_bit_floats_become_mxfp8() {
    let Some(source) = fixture("hf/deepseek-fp8-block128") else { return };
    let source = Model::open(source).unwrap();
    let store = tempfile::tempdir().unwrap();
    let place = created(&store, "m", &source, CreateOptions::new());
    assert_eq!(Layers::read(&place).config()["file_type"], "mxfp8");
    let made = Model::open(&place).unwrap();
    for name in ["model.layers.0.mlp.down_proj.weight", "model.layers.0.self_attn.q_a_proj.weight"]
    {
        let own = made.stored_tensor(name).unwrap();
        assert_eq!(
            (own.dtype().unwrap(), own.group_size()),
            (DType::MLX_MXFP8, Some(32)),
            "{name}"
        );
        let (was, is) = (source.stored_tensor(name).unwrap(), own.dequantize().unwrap());
        let was = was.dequantize().unwrap();
        let (mut differences, mut values) = (0.0, 0.0);
        for (was, is) in was.iter().zip(&*is) {
            differences += f64::from(was - is).powi(2);
            values += f64::from(*was).powi(2);
        }
        assert!((differences / values).sqrt() < 0.05, "{name}");
    }
    assert!(
        ops::convert(&source, &ConvertOptions::new(&container::OLLAMA).lossless(true)).is_err()
    );
}

/// Only blocks of 128 x 128, and of these only what Ollama quantizes.
#[test]
fn other_8_bit_floats() {
    let config = |block: &str| {
        format!(
            r#"{{"architectures":["LlamaForCausalLM"],"quantization_config":{{"quant_method":"fp8","weight_block_size":{block}}}}}"#
        )
    };
    let planned =
        |block: &str, name: &str| -> Vec<String> {
            let scale = format!("{name}_scale_inv");
            let file = Safetensors::new()
                .tensor(name, "F8_E4M3", &[64, 64], vec![0x38; 4096])
                .tensor(&scale, "F32", &[1, 1], f32s(&[0.5]));
            let source = folder(&[
                ("config.json", config(block).into_bytes()),
                ("model.safetensors", file.build()),
            ]);
            let plan =
                ops::create(&Model::open(source.path()).unwrap(), CreateOptions::new()).unwrap();
            plan.tensors.iter().map(|tensor| tensor.dtype.name().to_owned()).collect()
        };
    let q = "model.layers.0.self_attn.q_proj.weight";
    assert_eq!(planned("[128,128]", q), ["MLX_MXFP8"]);
    // Ollama quantizes no router; it is decoded.
    assert_eq!(planned("[128,128]", "model.layers.0.mlp.gate.weight"), ["BF16"]);
    assert_eq!(planned("[64,64]", q), ["MLX_AFFINE8"]);
    assert_eq!(planned("null", q), ["MLX_AFFINE8"]);
    // compressed-tensors states the blocks in groups.
    let groups = r#"null},"compression_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"format":"float-quantized","weights":{"num_bits":8,"type":"float","block_structure":[128,128]}}}"#;
    assert_eq!(planned(groups, q), ["MLX_MXFP8"]);
}

#[test]
fn adapters_and_projectors_are_layers_of_their_kind() {
    let kinds = |keys: &[(&str, Kv)]| {
        let file = keys.iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value.clone()));
        let file = file.tensor("x.weight", DType::F32, &[1], f32s(&[1.0]));
        gguf_layers(&file, CreateOptions::new()).kinds()
    };
    let clip = ("general.architecture", Kv::text("clip"));
    let adapter =
        [("general.architecture", Kv::text("llama")), ("general.type", Kv::text("adapter"))];
    assert_eq!(kinds(&adapter), "adapter v1+json");
    assert_eq!(kinds(&[clip.clone(), ("general.type", Kv::text("mmproj"))]), "projector v1+json");
    assert_eq!(
        kinds(&[clip.clone(), ("clip.has_vision_encoder", Kv::Bool(true))]),
        "projector v1+json"
    );
    assert_eq!(kinds(&[clip, ("clip.vision.block_count", Kv::U32(2))]), "projector v1+json");
    let both = [
        ("general.architecture", Kv::text("mllama")),
        ("mllama.block_count", Kv::U32(1)),
        ("mllama.vision.block_count", Kv::U32(2)),
    ];
    assert_eq!(kinds(&both), "model v1+json");
    let layers = gguf_layers(
        &Gguf::new().key("general.type", Kv::text("adapter")).tensor(
            "a",
            DType::F32,
            &[1],
            f32s(&[1.0]),
        ),
        CreateOptions::new(),
    );
    insta::assert_snapshot!(layers.text("v1+json"), @r#"{"model_format":"","model_family":"","model_families":null,"model_type":"","file_type":"","architecture":"amd64","os":"linux"}"#);
}

#[test]
fn gguf_files_that_ollama_does_not_read() {
    let refused = |file: Gguf| {
        let source = folder(&[("model.gguf", file.build())]);
        let model = Model::open(source.path().join("model.gguf")).unwrap();
        let error = ops::create(&model, CreateOptions::new()).unwrap_err();
        crate::support::without_path(&told(&error), source.path())
    };
    insta::assert_snapshot!(refused(gguf("llama", "").big_endian()), @r#"
        Unsupported: ./model.gguf: tensor "token_embd.weight": Ollama does not read big-endian GGUF files
        help: convert the model to GGUF again, which writes a copy that it reads
        "#);
    insta::assert_snapshot!(refused(gguf("llama", "").version(1)), @"
        Unsupported: ./model.gguf: Ollama does not run GGUF files of version 1
        help: convert the model to GGUF again, which writes a copy that it reads
        ");
    for (name, bytes) in [("TQ1_0", 54), ("TQ2_0", 66)] {
        let dtype = weighbridge::dtype::DTYPES.iter().find(|row| row.name == name).unwrap().dtype;
        let told = refused(gguf("llama", "").tensor("t.weight", dtype, &[1, 256], vec![0; bytes]));
        assert!(told.contains(&format!("Ollama does not read {name}")), "{told}");
    }
    for (file, read) in [
        ("gguf/misc/be-qwen2-f16.gguf", false),
        ("gguf/quant/llama-Q2_0.gguf", false),
        ("gguf/quant/llama-TQ2_0.gguf", false),
        ("gguf/quant/llama-Q1_0.gguf", true),
        ("gguf/quant/llama-IQ1_M.gguf", true),
        ("gguf/quant/llama-Q8_0-attn-nvfp4.gguf", true),
        ("gguf/misc/v2-qwen2-Q4_0.gguf", true),
    ] {
        let Some(path) = fixture(file) else { continue };
        let made = ops::create(&Model::open(path).unwrap(), CreateOptions::new());
        assert_eq!(made.is_ok(), read, "{file}");
    }
}

/// A directory with one matrix, for drafts.
fn small_model(architecture: &str, value: f32) -> TempDir {
    let config = format!(r#"{{"architectures":["{architecture}"]}}"#);
    let values = f32s(&[value; 64 * 64]);
    let file = Safetensors::new()
        .tensor("model.layers.0.self_attn.q_proj.weight", "F32", &[64, 64], values.clone())
        .tensor("lm_head.weight", "F32", &[64, 64], values);
    folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())])
}

#[test]
fn drafts_are_models_of_their_own() {
    let (main, draft) = (small_model("LlamaForCausalLM", 1.0), small_model("Gemma4Assistant", 2.0));
    let store = tempfile::tempdir().unwrap();
    let options = || CreateOptions::new().draft(draft.path()).unwrap();
    let main = Model::open(main.path()).unwrap();
    let place = created(&store, "m", &main, options());
    let layers = Layers::read(&place);
    let names: Vec<&str> = layers.0.iter().map(|(_, name, _)| name.as_str()).collect();
    insta::assert_snapshot!(names.join("\n"), @"
        lm_head.weight
        model.layers.0.self_attn.q_proj.weight
        config.json
        draft.lm_head.weight
        draft.model.layers.0.self_attn.q_proj.weight
        draft/config.json
        ");
    insta::assert_snapshot!(layers.config()["draft"], @r#"{"model_format":"safetensors","architecture":"Gemma4Assistant","tensor_prefix":"draft.","config":"draft/config.json"}"#);
    // The draft's tensors are not the model's: not in its list, and not in what it is converted to.
    let stored = Model::open(&place).unwrap();
    let own: Vec<String> = stored.stored_tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(own, ["lm_head.weight", "model.layers.0.self_attn.q_proj.weight"]);
    let drafts = stored.attachments().iter().filter(|attachment| attachment.kind == "tensor");
    assert_eq!(drafts.map(|draft| &draft.name).collect::<Vec<_>>().len(), 2);
    let plan = ops::convert(&stored, &ConvertOptions::new(&container::SAFETENSORS)).unwrap();
    assert_eq!(plan.tensors.len(), 2);
    assert!(plan.notes.iter().any(|note| note.contains("draft model")), "{:?}", plan.notes);
    assert_eq!(stored.verify_digests(0, |_| Ok(())).unwrap(), []);
    // A copy of the model keeps its draft, and another draft takes its place.
    let again = created(&store, "again", &stored, CreateOptions::new());
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&place).unwrap());
    let other = small_model("Other", 3.0);
    let other = CreateOptions::new().draft(other.path()).unwrap();
    let replaced = Layers::read(&created(&store, "other", &stored, other));
    assert_eq!(replaced.config()["draft"]["architecture"], "Other");
    assert_eq!(replaced.0.iter().filter(|(_, name, _)| name.starts_with("draft.")).count(), 2);
    // The output matrix of a draft is quantized like its other matrices.
    let quantized = options().quantize(QuantType::Int8).quantize_draft(QuantType::Int4);
    let quantized = Layers::read(&created(&store, "q", &main, quantized));
    let kind = |name: &str| {
        let (.., bytes) = quantized.0.iter().find(|layer| layer.1 == name).unwrap();
        ["int4", "int8"]
            .into_iter()
            .find(|kind| bytes.windows(6).any(|window| window == format!("\"{kind}\"").as_bytes()))
    };
    assert_eq!(kind("draft.lm_head.weight"), Some("int4"));
    assert_eq!(kind("lm_head.weight"), Some("int8"));
    assert_eq!(quantized.config()["file_type"], "int8");
}

#[test]
fn gguf_models_with_adapter_projector_and_draft() {
    let adapter = Gguf::new().key("general.type", Kv::text("adapter"));
    let adapter = adapter.tensor("a", DType::F32, &[1], f32s(&[1.0])).build();
    let projector = Gguf::new()
        .key("general.architecture", Kv::text("clip"))
        .key("clip.has_vision_encoder", Kv::Bool(true))
        .tensor("v", DType::F32, &[1], f32s(&[1.0]))
        .build();
    let files = folder(&[
        ("main.gguf", gguf("llama", "").build()),
        ("lora.gguf", adapter),
        ("mmproj.gguf", projector),
        ("draft.gguf", gguf("qwen2", "").build()),
    ]);
    let at = |name: &str| files.path().join(name);
    put(
        files.path(),
        "Modelfile",
        "FROM main.gguf\nFROM ./mmproj.gguf\nADAPTER lora.gguf\nDRAFT draft.gguf\n",
    );
    let modelfile = Modelfile::read(&at("Modelfile")).unwrap();
    let (model, options) = CreateOptions::new().modelfile(&modelfile, files.path(), None).unwrap();
    let store = tempfile::tempdir().unwrap();
    let place = created(&store, "m", &model, options);
    let layers = Layers::read(&place);
    assert_eq!(layers.kinds(), "model projector adapter draft v1+json");
    insta::assert_snapshot!(layers.text("v1+json"), @r#"{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1","file_type":"F16","draft":{"model_format":"gguf","architecture":"qwen2"},"architecture":"amd64","os":"linux"}"#);
    let stored = Model::open(&place).unwrap();
    assert_eq!(stored.len(), 1);
    let report = ops::show(&stored).unwrap();
    assert_eq!(report.capabilities, ["completion", "vision"]);
    assert_eq!(report.draft.as_deref(), Some("qwen2"));
    assert!(CreateOptions::new().file(at("draft.gguf")).is_err(), "a model is no adapter");
    let tensors =
        ops::create(&Model::open(HF).unwrap(), CreateOptions::new().file(at("lora.gguf")).unwrap());
    assert!(told(&tensors.unwrap_err()).contains("with GGUF models only"));
}

#[test]
fn copies_of_an_index_are_no_index() {
    for stray in [
        "model.safetensors.index.json.bak.json",
        "model.safetensors.index.bak.json",
        "model.safetensors.index (1).json",
        "model.safetensors.index_old.json",
    ] {
        let weights = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0])).build();
        let index = br#"{"weight_map":{"a":"model-00001-of-00001.safetensors"}}"#;
        let source = folder(&[("model.safetensors", weights.as_slice()), (stray, index)]);
        let model = Model::open(source.path()).unwrap_or_else(|error| panic!("{stray}: {error}"));
        assert_eq!(model.len(), 1, "{stray}");
    }
    // The index of a variant is one.
    let weights = Safetensors::new().tensor("a", "F32", &[1], f32s(&[1.0])).build();
    let index = br#"{"weight_map":{"a":"model.fp16-00001-of-00001.safetensors"}}"#;
    let source = folder(&[
        ("model.fp16-00001-of-00001.safetensors", weights.as_slice()),
        ("model.safetensors.index.fp16.json", index),
    ]);
    assert_eq!(Model::open(source.path()).unwrap().len(), 1);
}

/// A blob with the right name and length and other bytes is not used: it is written again.
#[test]
fn blobs_that_are_there_are_checked() {
    let store = tempfile::tempdir().unwrap();
    for (name, source) in [("tensors", HF), ("gguf", "assets/sample/sample-Q8_0.gguf")] {
        let source = Model::open(source).unwrap();
        let options = || CreateOptions::new().system("Be brief.");
        let place = created(&store, name, &source, options());
        let blobs: Vec<PathBuf> = std::fs::read_dir(store.path().join("blobs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        for blob in &blobs {
            let mut bytes = std::fs::read(blob).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::remove_file(blob).unwrap();
            std::fs::write(blob, bytes).unwrap();
        }
        let again = created(&store, name, &source, options());
        assert_eq!(again, place);
        let stored = Model::open(&again).unwrap();
        assert_eq!(stored.verify_digests(0, |_| Ok(())).unwrap(), [], "{name}");
        std::fs::remove_dir_all(store.path().join("blobs")).unwrap();
    }
}

#[test]
fn modelfiles_set_layers() {
    let files = folder(&[("main.gguf", gguf("llama", "").build())]);
    let text = "FROM main.gguf\nTEMPLATE \"\"\"{{ .System }}\n{{ .Prompt }}\"\"\"\nSYSTEM You are Mario.\n\
                PARAMETER temperature 1\nPARAMETER stop <end>\nPARAMETER stop \"b \"\nPARAMETER mirostat 1\n\
                LICENSE MIT\nLICENSE \"\"\"\nBSD\n\"\"\"\nMESSAGE user Hi\nMESSAGE assistant \"It's me\"\n\
                RENDERER r\nPARSER qwen3-thinking\nREQUIRES v0.14.0\n";
    let modelfile = Modelfile::parse(text.as_bytes()).unwrap();
    let (model, options) = CreateOptions::new().modelfile(&modelfile, files.path(), None).unwrap();
    let plan = ops::create(&model, options).unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("mirostat")), "{:?}", plan.notes);
    let store = tempfile::tempdir().unwrap();
    let place = ollama::place("mario", Some(store.path())).unwrap();
    plan.run(&place, &WriteOptions::new().allow_incomplete(true)).unwrap();
    let layers = Layers::read(&place);
    assert_eq!(layers.kinds(), "model template system license license params messages v1+json");
    let texts: Vec<String> = ["template", "system", "license", "params", "messages", "v1+json"]
        .map(|kind| format!("{kind}: {:?}", layers.text(kind)))
        .to_vec();
    insta::assert_snapshot!(texts.join("\n"), @r#"
        template: "{{ .System }}\n{{ .Prompt }}"
        system: "You are Mario."
        license: "\nBSD\n"
        params: "{\"stop\":[\"\\u003cend\\u003e\",\"b \"],\"temperature\":1}\n"
        messages: "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"It's me\"}]\n"
        v1+json: "{\"model_format\":\"gguf\",\"model_family\":\"llama\",\"model_families\":[\"llama\"],\"model_type\":\"1\",\"file_type\":\"F16\",\"renderer\":\"r\",\"parser\":\"qwen3-thinking\",\"requires\":\"0.14.0\",\"architecture\":\"amd64\",\"os\":\"linux\"}\n"
        "#);
    // A model made from it: new texts take the place of the old, the others stay.
    let stored = Model::open(&place).unwrap();
    let options = CreateOptions::new().system("Be Luigi.").parameter("temperature", "0.5").unwrap();
    let luigi = Layers::read(&created(&store, "luigi", &stored, options));
    assert_eq!(luigi.kinds(), "model template license license messages system params v1+json");
    assert_eq!(luigi.text("system"), "Be Luigi.");
    assert_eq!(
        luigi.text("params"),
        "{\"stop\":[\"\\u003cend\\u003e\",\"b \"],\"temperature\":0.5}\n"
    );
    assert_eq!(luigi.config()["parser"], "qwen3-thinking");
    // What is shown is what was set, and makes the same model again.
    let report = ops::show(&stored).unwrap();
    assert_eq!(
        (report.system.as_str(), report.license.as_str()),
        ("You are Mario.", "MIT\n\nBSD\n")
    );
    assert_eq!(report.capabilities, ["completion", "tools", "thinking"]);
    let again = Modelfile::parse(report.modelfile.as_bytes()).unwrap();
    let (model, options) = CreateOptions::new().modelfile(&again, Path::new("/"), None).unwrap();
    let again = Layers::read(&created(&store, "again", &model, options));
    for kind in ["template", "system", "license", "params", "messages"] {
        assert_eq!(again.text(kind), layers.text(kind), "{kind}");
    }
}

#[test]
fn tensor_models_take_modelfiles_too() {
    let text = format!(
        "FROM {HF}\nSYSTEM Hi\nTEMPLATE {{{{ .Prompt }}}}\nPARAMETER num_ctx 512\nRENDERER qwen3-vl\n"
    );
    let modelfile = Modelfile::parse(text.as_bytes()).unwrap();
    let (model, options) = CreateOptions::new().modelfile(&modelfile, Path::new(""), None).unwrap();
    let store = tempfile::tempdir().unwrap();
    let layers = Layers::read(&created(&store, "m", &model, options.quantize(QuantType::Int4)));
    assert_eq!(layers.kinds(), "template system params v1+json");
    insta::assert_snapshot!(layers.text("v1+json"), @r#"{"model_format":"safetensors","model_family":"","model_families":null,"model_type":"","file_type":"int4","renderer":"qwen3-vl","requires":"0.19.0","capabilities":["completion"],"architecture":"","os":""}"#);
    assert_eq!(layers.text("params"), "{\"num_ctx\":512}\n");
}

/// A model of the store without a renderer gets none, whatever its architecture has.
#[test]
fn stored_models_keep_that_they_have_no_renderer() {
    let weights = Safetensors::new().tensor("model.norm.weight", "F32", &[1], f32s(&[1.0]));
    let document =
        br#"{"architectures":["Qwen3_5ForConditionalGeneration"],"model_type":"qwen3_5"}"#;
    let own = Store::new();
    let layers =
        [own.tensor("model.norm.weight", &weights), own.layer("json", "config.json", document)];
    let config = br#"{"model_format":"safetensors","capabilities":["completion"]}"#;
    let digest = own.blob(config);
    let manifest = format!(
        "{{\"schemaVersion\":2,\"config\":{{\"mediaType\":\"application/vnd.docker.container.image.v1+json\",\
         \"digest\":\"sha256:{digest}\",\"size\":{}}},\"layers\":[{}]}}",
        config.len(),
        layers.join(",")
    );
    let place = "manifests/registry.ollama.ai/library/m/latest";
    put(own.path(), place, manifest);
    let source = Model::open(own.path().join(place)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let made = Layers::read(&created(&store, "m", &source, CreateOptions::new())).config();
    assert_eq!((&made["renderer"], &made["parser"]), (&Value::Null, &Value::Null), "{made}");
    // From a directory it gets those of its architecture.
    let folder =
        folder(&[("config.json", document.as_slice()), ("model.safetensors", &weights.build())]);
    let made = layers_of(folder.path(), CreateOptions::new()).config();
    assert_eq!((&made["renderer"], &made["parser"]), (&"qwen3.5".into(), &"qwen3.5".into()));
}

/// Numbers that stay are written as Go's encoder writes them.
#[test]
fn parameters_that_stay_are_written_anew() {
    let own = Store::new();
    let layers = [
        own.layer("model", "", &gguf("llama", "").build()),
        own.layer("params", "", br#"{"temperature":1.0,"top_p":1e-7,"num_ctx":4096,"min_p":0.25}"#),
    ];
    let source = Model::open(own.manifest("m/latest", &layers)).unwrap();
    let store = tempfile::tempdir().unwrap();
    let options = CreateOptions::new().parameter("top_k", "5").unwrap();
    let layers = Layers::read(&created(&store, "m", &source, options));
    let expected = r#"{"min_p":0.25,"num_ctx":4096,"temperature":1,"top_k":5,"top_p":1e-7}"#;
    assert_eq!(layers.text("params").trim_end(), expected);
}

#[test]
fn wrong_settings_are_refused() {
    let deep = "{{ if .A }}".repeat(101) + &"{{ end }}".repeat(101);
    let error = CreateOptions::new().template(deep).unwrap_err().to_string();
    assert!(error.ends_with("more than 100 blocks within each other"), "{error}");
    assert!(
        CreateOptions::new().template("{{ if .A }}".repeat(100) + &"{{ end }}".repeat(100)).is_ok()
    );
    let error = |options: weighbridge::Result<CreateOptions>| told(&options.unwrap_err());
    insta::assert_snapshot!(error(CreateOptions::new().template("{{ if .System }}")), @"Mismatch: the template is not in Go's template language: a block has no end");
    insta::assert_snapshot!(error(CreateOptions::new().parameter("temperatur", "1")), @r#"
        Mismatch: unknown parameter "temperatur"
        help: one of num_ctx, num_batch, num_gpu, main_gpu, use_mmap, num_thread, draft_num_predict, num_keep, seed, num_predict, top_k, top_p, min_p, typical_p, repeat_last_n, temperature, repeat_penalty, presence_penalty, frequency_penalty, stop
        "#);
    insta::assert_snapshot!(error(CreateOptions::new().requires("new")), @r#"
        Mismatch: "new" is not a version of Ollama
        help: such as 0.14.0
        "#);
    let modelfile = |text: &str| {
        let file = Modelfile::parse(text.as_bytes()).unwrap();
        error(
            CreateOptions::new().modelfile(&file, Path::new(""), None).map(|(_, options)| options),
        )
    };
    insta::assert_snapshot!(modelfile(&format!("FROM {HF}\nFROM assets/sample/mlx-4bit\n")), @"Mismatch: assets/sample/mlx-4bit: FROM names two models; the first is assets/sample/hf");
    insta::assert_snapshot!(modelfile(&format!("FROM {HF}\nADAPTER {HF}\n")), @"Unsupported: assets/sample/hf: neither an adapter, in GGUF or a folder of PEFT or mlx-lm, nor a projector in GGUF");
}

/// Ollama's `create` converts adapters of PEFT to GGUF, and so does this one.
#[test]
fn adapters_of_peft_become_gguf() {
    let base = Model::open("tests/fixtures/lora/llama/base").unwrap();
    // llama.cpp has one alpha for all tensors.
    let tuned = copy_of(fixture("lora/llama/adapter").unwrap());
    let text = std::fs::read(tuned.path().join("adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    config["alpha_pattern"] = serde_json::json!({});
    put(tuned.path(), "adapter_config.json", config.to_string());
    let tuned = tuned.path();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let plan = ops::convert(&base, &ConvertOptions::new(&container::GGUF)).unwrap();
    plan.run(&at("base.gguf"), &WriteOptions::new()).unwrap();
    let adapter = weighbridge::adapter::Adapter::open(tuned).unwrap();
    let plan = ops::adapter_in_gguf(&adapter, &base, None).unwrap();
    plan.run(&at("lora.gguf"), &WriteOptions::new()).unwrap();
    let expected = std::fs::read(at("lora.gguf")).unwrap();

    let file = format!("FROM base.gguf\nADAPTER {}\n", tuned.display());
    let file = Modelfile::parse(file.as_bytes()).unwrap();
    let (model, options) = CreateOptions::new().modelfile(&file, folder.path(), None).unwrap();
    let place = created(&folder, "tuned", &model, options);
    let layers = Layers::read(&place);
    assert_eq!(layers.kinds(), "model adapter v1+json");
    let found = layers.0.iter().find(|layer| layer.0 == "adapter").unwrap();
    assert_eq!(found.2, expected);
    // A directory becomes GGUF if a type of GGUF is asked for, and tensor blobs otherwise.
    let options = || CreateOptions::new().file(tuned).unwrap();
    let f16 = Some(weighbridge::recipe::FileType::F16);
    let place = created(&folder, "f16", &base, options().file_type(f16));
    let layers = Layers::read(&place);
    assert_eq!(layers.kinds(), "model adapter v1+json");
    let found = layers.0.iter().find(|layer| layer.0 == "adapter").unwrap();
    assert_eq!(found.2, expected);
    let blobs = told(&ops::create(&base, options()).unwrap_err());
    assert!(blobs.contains("with GGUF models only"), "{blobs}");
}

/// The capabilities that Ollama's server derives when it runs a model.
#[test]
fn shown_capabilities_are_ollamas() {
    let shown = |file: &Gguf, config: &str, template: &str| {
        let store = Store::new();
        let mut layers = vec![store.layer("model", "", &file.build())];
        if !template.is_empty() {
            layers.push(store.layer("template", "", template.as_bytes()));
        }
        let digest = store.blob(config.as_bytes());
        let manifest = format!(
            "{{\"schemaVersion\":2,\"config\":{{\"mediaType\":\"application/vnd.docker.container.image.v1+json\",\
             \"digest\":\"sha256:{digest}\",\"size\":{}}},\"layers\":[{}]}}",
            config.len(),
            layers.join(",")
        );
        put(store.path(), "manifests/registry.ollama.ai/library/m/latest", manifest);
        let model = Model::open(store.path().join("manifests/registry.ollama.ai/library/m/latest"))
            .unwrap();
        let shown = ops::show(&model).unwrap();
        assert_eq!(ops::summarize(&model).capabilities, shown.capabilities);
        shown
    };
    let capabilities = |file: &Gguf, config: &str, template: &str| {
        shown(file, config, template).capabilities.join(" ")
    };
    let chat = "{% if tools %}{{ message.tool_calls }}<tool_response>{% endif %}<think></think>";
    let plain = r#"{"model_format":"gguf"}"#;
    assert_eq!(capabilities(&gguf("llama", ""), plain, ""), "completion");
    assert_eq!(capabilities(&gguf("llama", chat), plain, ""), "tools thinking completion");
    // The chat template can do more than this template, and less than the next one.
    assert_eq!(
        capabilities(&gguf("llama", chat), plain, "{{ .Prompt }}"),
        "tools thinking completion"
    );
    let fim = "{{ .Prompt }}{{ .Suffix }}{{ range .Messages }}{{ if eq .Role \"tool\" }}{{ .ToolCalls }}{{ end }}\
               {{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ end }}{{ .Tools }}";
    assert_eq!(
        capabilities(&gguf("llama", "plain"), plain, fim),
        "completion tools insert thinking"
    );
    // The template that is used is the one whose capabilities count.
    assert_eq!(shown(&gguf("llama", "plain"), plain, fim).template, fim);
    assert_eq!(shown(&gguf("llama", chat), plain, "{{ .Prompt }}").template, chat);
    // Neither a quotation mark nor braces end an action within a text.
    let quoted = r#"{{ printf "%s\"}}" .Suffix }}{{ .Response }}"#;
    let raw = r#"{{ printf `\` .Suffix }}{{ .Response }}"#;
    let comment = "{{/* it's a comment, so }} ends nothing */}}{{ .Suffix }}{{ .Response }}";
    for template in [quoted, raw, comment] {
        let found = capabilities(&gguf("llama", "plain"), plain, template);
        assert_eq!(found, "completion insert", "{template}");
    }
    // White space that an action trims is no text between thoughts.
    let thought = "{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}";
    let trimmed = "{{ if .Thinking -}} \n {{ .Thinking }} {{- end }}";
    let loops = format!("{{{{ range .Messages }}}}{thought}{trimmed}{{{{ end }}}}");
    assert_eq!(capabilities(&gguf("llama", "plain"), plain, &loops), "completion thinking");
    let bert = gguf("bert", "").key("bert.pooling_type", Kv::U32(1));
    assert_eq!(capabilities(&bert, plain, ""), "embedding");
    let seeing = gguf("gemma3", "").key("gemma3.vision.block_count", Kv::U32(1));
    assert_eq!(capabilities(&seeing, plain, ""), "completion vision");
    // Ollama does not serve images for this renderer with tensors, but with GGUF.
    let rendered = r#"{"model_format":"gguf","renderer":"gemma4"}"#;
    assert_eq!(capabilities(&seeing, rendered, ""), "completion vision");
    let parsed = r#"{"model_format":"gguf","parser":"qwen3-vl-thinking"}"#;
    assert_eq!(capabilities(&gguf("qwen3vl", chat), parsed, ""), "completion tools thinking");
    let gptoss = r#"{"model_format":"gguf","model_family":"gptoss"}"#;
    assert_eq!(capabilities(&gguf("gptoss", ""), gptoss, ""), "completion thinking");
}

/// Documents are listed by their names, as Ollama lists them.
#[test]
fn documents_are_in_order() {
    let weights = Safetensors::new().tensor("model.norm.weight", "F32", &[1], f32s(&[1.0])).build();
    let source = folder(&[
        ("config.json", br#"{"architectures":["LlamaForCausalLM"]}"#.as_slice()),
        ("added_tokens.json", b"{}"),
        ("generation_config.json", b"{}"),
        ("tokenizer_config.json", b"{}"),
        ("model.safetensors", &weights),
    ]);
    let store = tempfile::tempdir().unwrap();
    let source = Model::open(source.path()).unwrap();
    let layers = Layers::read(&created(&store, "m", &source, CreateOptions::new()));
    let names: Vec<&str> =
        layers.0.iter().map(|layer| &*layer.1).filter(|name| name.ends_with("json")).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    assert!(names.len() > 2 && names[0] == "added_tokens.json", "{names:?}");
}

/// Ollama reads a model from one file.
#[test]
fn shards_become_one_blob() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Model::open(sample("sample-Q8_0.gguf")).unwrap();
    let parts = folder.path().join("tales");
    let split = ops::split(&whole, Shards::Tensors(10), &parts).unwrap();
    split.run(&parts, &WriteOptions::new()).unwrap();
    let source = Model::open(folder.path().join("tales-00002-of-00002.gguf")).unwrap();
    let store = tempfile::tempdir().unwrap();
    let made = Model::open(created(&store, "m", &source, CreateOptions::new())).unwrap();
    assert_eq!(made.files().count(), 1);
    for tensor in whole.stored_tensors() {
        let other = made.stored_tensor(tensor.name()).unwrap();
        assert!(other.bytes(Part::Weight).unwrap() == tensor.bytes(Part::Weight).unwrap());
    }
}
