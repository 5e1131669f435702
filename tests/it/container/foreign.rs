//! Files that people bring although they are no sound language models: what is wrong is named.

use crate::models::{Array, Form, NamedModel, Tensors, lists::LISTS, open, own};
use crate::support::{
    Gguf, Kv, Safetensors, WhisperGgml, copy_of, f32s, folder, notes, put, sample, told,
};
use serde_json::json;
use weighbridge::container::{GGUF, OLLAMA, SAFETENSORS, Strictness};
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, WriteOptions};

/// A header that ends inside a key, and one that ends inside the list of tensors.
#[test]
fn a_header_that_is_cut_is_read_as_far_as_it_goes() {
    let tokens: Vec<String> = (0..40).map(|number| format!("token {number}")).collect();
    let tokens: Vec<Kv> = tokens.iter().map(|token| Kv::text(token)).collect();
    let keys = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.name", Kv::text("Tiny"))
        .key("tokenizer.ggml.tokens", Kv::Array(8, tokens));
    let file = ["output.weight", "token_embd.weight"]
        .iter()
        .fold(keys, |file, name| file.tensor(name, DType::F32, &[8, 32], f32s(&[1.0; 256])));
    let whole = file.build();
    let at = |text: &[u8]| whole.windows(text.len()).position(|window| window == text).unwrap();
    let in_tokens = whole[..at(b"token 20")].to_vec();
    let in_tensors = whole[..at(b"token_embd.weight") + 20].to_vec();
    // Of a file of full size, nothing is cut.
    let mut damaged = whole.clone();
    damaged[at(b"general.name") + 12] = 99;
    let files = folder(&[
        ("tokens.gguf", in_tokens),
        ("tensors.gguf", in_tensors),
        ("damaged.gguf", damaged),
    ]);
    let open = |name| OpenOptions::new().partial(true).open(files.path().join(name));
    let said = notes(&open("damaged.gguf").expect("a part of its header"));
    assert!(said.contains("1 of 3 keys and 0 of 2 tensors were read, then: "), "{said}");
    assert!(said.contains("value type 99"), "{said}");
    for (name, read, tensors) in [
        ("tokens.gguf", "2 of 3 keys and 0 of 2 tensors were read", 0),
        ("tensors.gguf", "3 of 3 keys and 1 of 2 tensors were read", 1),
    ] {
        let path = files.path().join(name);
        assert_eq!(Model::open(&path).expect_err("cut short").kind(), ErrorKind::Malformed);
        let model = OpenOptions::new().partial(true).open(&path).expect("a part of its header");
        assert!(notes(&model).contains(read), "{}", notes(&model));
        assert_eq!(model.len(), tensors);
        assert_eq!(model.metadata().str("general.name"), Some("Tiny"));
        assert!(model.stored_tensors().all(|tensor| tensor.dequantize().is_err()));
    }
}

#[test]
fn integers_without_a_scale_are_no_weights() {
    let integers = |name: &str| {
        let file = Safetensors::new().tensor(name, "I8", &[2, 4], vec![1; 8]);
        let config = json!({"model_type": "llama"}).to_string().into_bytes();
        folder(&[("config.json", config), ("model.safetensors", file.build())])
    };
    let files = integers("model.layers.0.self_attn.q_proj.weight");
    let model = Model::open(files.path()).unwrap();
    let tensor = model.stored_tensors().next().unwrap();
    let error = tensor.dequantize().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(told(&error).contains("integers (weight I8) without a scale"), "{}", told(&error));
    // Numbers of another kind stay what they are.
    let files = integers("model.layers.0.position_ids");
    let model = Model::open(files.path()).unwrap();
    assert!(model.stored_tensors().next().unwrap().dequantize().is_ok());
}

/// Four bits by their shapes, eight by the config: one of the two is wrong.
#[test]
fn bits_of_awq_that_contradict_the_arrays_are_named() {
    let opened = |bits: u32| {
        let file = Safetensors::new()
            .tensor("l.qweight", "I32", &[32, 1], vec![0; 128])
            .tensor("l.qzeros", "I32", &[1, 1], vec![0; 4])
            .tensor("l.scales", "F16", &[1, 8], vec![0; 16]);
        let scheme = json!({"quant_method": "awq", "bits": bits, "group_size": 32});
        let config = json!({"model_type": "llama", "quantization_config": scheme}).to_string();
        let files =
            folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
        let model = Model::open(files.path()).unwrap();
        let read = model.stored_tensors().next().unwrap().dequantize();
        read.map(drop).map_err(|error| told(&error))
    };
    assert_eq!(opened(4), Ok(()));
    let error = opened(8).unwrap_err();
    assert!(error.contains("config.json says 8 bits"), "{error}");
}

#[test]
fn tensors_that_overlap_are_named() {
    let file = Safetensors::new()
        .tensor("a", "F32", &[4], f32s(&[1.0; 4]))
        .tensor("b", "F32", &[4], f32s(&[1.0; 4]))
        .tensor("c", "F32", &[4], f32s(&[1.0; 4]));
    let mut bytes = file.build();
    let at = bytes.windows(7).position(|window| window == b"[16,32]").unwrap();
    bytes[at..at + 7].copy_from_slice(b"[32,48]");
    let files = folder(&[("m.safetensors", bytes)]);
    let error = Model::open(files.path().join("m.safetensors")).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("tensors \"b\" and \"c\" overlap"), "{message}");
}

#[test]
fn models_of_images_are_called_so() {
    let plain = Safetensors::new().tensor(
        "model.diffusion_model.in.weight",
        "F32",
        &[2, 2],
        f32s(&[1.0; 4]),
    );
    let gguf = Gguf::new().key("general.architecture", Kv::text("flux")).tensor(
        "double_blocks.0.img_attn.qkv.weight",
        DType::F32,
        &[2, 2],
        f32s(&[1.0; 4]),
    );
    let adapter = "lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight";
    let adapter = Safetensors::new().tensor(adapter, "F32", &[2, 2], f32s(&[1.0; 4]));
    let files = folder(&[
        ("sd.safetensors", plain.build()),
        ("kohya.safetensors", adapter.build()),
        ("flux.gguf", gguf.build()),
    ]);
    let targets =
        [("sd.safetensors", &GGUF), ("kohya.safetensors", &GGUF), ("flux.gguf", &SAFETENSORS)];
    for (name, target) in targets {
        let model = Model::open(files.path().join(name)).unwrap();
        let error = ops::convert(&model, &ConvertOptions::new(target)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("a diffusion model"), "{error}");
    }
    let pipeline = folder(&[("model_index.json", "{}")]);
    let error = Model::open(pipeline.path()).unwrap_err();
    assert!(error.to_string().contains("a pipeline of diffusers"), "{error}");
}

#[test]
fn a_pre_tokenizer_that_llama_cpp_does_not_know_is_a_fault_if_strict() {
    let faults = |pre: &str| {
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("tokenizer.ggml.model", Kv::text("gpt2"))
            .key("tokenizer.ggml.pre", Kv::text(pre))
            .key("tokenizer.ggml.tokens", Kv::Array(8, vec![Kv::text("a")]))
            .tensor("token_embd.weight", DType::F32, &[8, 1], f32s(&[1.0; 8]));
        let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
        ops::check_consistency(&model, Strictness::Strict).unwrap().faults.join("; ")
    };
    assert!(
        faults("own-bpe").contains("tokenizer.ggml.pre is \"own-bpe\""),
        "{}",
        faults("own-bpe")
    );
    for pre in ["llama-bpe", "kimi-k2"] {
        assert!(!faults(pre).contains("tokenizer.ggml.pre"), "{}", faults(pre));
    }
}

#[test]
fn an_output_matrix_that_is_promised_and_missing_is_noted() {
    let files = copy_of(sample("hf"));
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["tie_word_embeddings"] = json!(false);
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    assert!(model.config().unwrap().tie_embeddings.as_ref().unwrap().value, "no output matrix");
    for target in [&GGUF, &SAFETENSORS] {
        let plan = ops::convert(&model, &ConvertOptions::new(target)).unwrap();
        assert!(plan.notes.concat().contains("lacks output.weight"), "{:?}", plan.notes);
    }
    // The class takes an omitted key as false.
    config.as_object_mut().unwrap().remove("tie_word_embeddings");
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    let said = ops::check_consistency(&model, Strictness::Default).unwrap().faults.concat();
    assert!(said.contains("initializes the matrix at random"), "{said}");
    // The class of other models ties it.
    config["model_type"] = json!("gemma");
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    let said = ops::check_consistency(&model, Strictness::Default).unwrap().faults.concat();
    assert!(!said.contains("output.weight"), "{said}");
}

#[test]
fn an_architecture_that_llama_cpp_does_not_know_is_a_fault_if_strict() {
    let faults = |name: &str| {
        let file = Gguf::new().key("general.architecture", Kv::text(name)).tensor(
            "token_embd.weight",
            DType::F32,
            &[8, 1],
            f32s(&[1.0; 8]),
        );
        let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
        ops::check_consistency(&model, Strictness::Strict).unwrap().faults.join("; ")
    };
    let said = "general.architecture is \"ownarch\", which llama.cpp does not know";
    assert!(faults("ownarch").contains(said), "{}", faults("ownarch"));
    // The second is one that no family of this library is for.
    for known in ["llama", "wavtokenizer-dec"] {
        assert!(!faults(known).contains("does not know"), "{}", faults(known));
    }
}

/// Whether there is a tokenizer or not.
#[test]
#[cfg(feature = "chat-template")]
fn a_chat_template_that_is_no_jinja_is_a_fault() {
    let faults = |files: &tempfile::TempDir| {
        let model = Model::open(files.path()).unwrap();
        ops::check_consistency(&model, Strictness::Default).unwrap().faults.join("; ")
    };
    let files = copy_of(sample("hf"));
    assert_eq!(faults(&files), "");
    put(files.path(), "chat_template.jinja", "{% for m in messages %}{{ m }}{% endif %}");
    let said = "the chat template (chat_template.jinja) is not valid Jinja";
    assert!(faults(&files).contains(said), "{}", faults(&files));
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::remove_file(files.path().join(name)).unwrap();
    }
    assert!(faults(&files).contains(said), "{}", faults(&files));
    put(files.path(), "chat_template.jinja", b"\xff");
    assert!(faults(&files).contains("not UTF-8"), "{}", faults(&files));
}

#[test]
fn special_tokens_beyond_the_vocabulary_are_noted() {
    let files = copy_of(sample("hf"));
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["eos_token_id"] = json!([1, 70_000]);
    put(files.path(), "config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    for target in [&GGUF, &SAFETENSORS] {
        let plan = ops::convert(&model, &ConvertOptions::new(target)).unwrap();
        let said = "config.json eos_token_id is 70000, but the vocabulary has 512 tokens";
        assert!(plan.notes.concat().contains(said), "{:?}", plan.notes);
    }
}

/// llama.cpp loads F64, and aborts when it computes with it.
#[test]
fn numbers_of_64_bits_become_f32_in_gguf() {
    let files = copy_of(sample("hf"));
    let model = Model::open(files.path()).unwrap();
    let file = model.stored_tensors().fold(Safetensors::new(), |file, tensor| {
        let values = tensor.dequantize().unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
        file.tensor(tensor.name(), "F64", tensor.shape(), bytes)
    });
    put(files.path(), "model.safetensors", file.build());
    let wide = Model::open(files.path()).unwrap();
    let (plain, q8) = (ConvertOptions::new(&GGUF), LlamaOptions::new(FileType::Q8_0));
    for plan in [
        ops::convert(&wide, &plain).unwrap(),
        ops::quantize(&wide, &q8, None, std::path::Path::new("x.gguf")).unwrap(),
    ] {
        assert!(plan.tensors.iter().all(|tensor| tensor.dtype != DType::F64));
    }
}

/// Until early 2024, llama.cpp's converter wrote a tensor for each expert.
#[test]
fn experts_of_old_mixtral_files_have_their_values() {
    let values = |first: f32, len: usize| {
        let numbers: Vec<f32> = (0..len).map(|at| first + at as f32).collect();
        numbers
    };
    let number = |key: &str, value: u32| (format!("llama.{key}"), Kv::U32(value));
    let keys = [
        number("context_length", 64),
        number("embedding_length", 8),
        number("block_count", 1),
        number("feed_forward_length", 16),
        number("attention.head_count", 2),
        number("expert_count", 2),
        number("expert_used_count", 1),
        ("llama.attention.layer_norm_rms_epsilon".to_owned(), Kv::F32(1e-5)),
    ];
    let file = Gguf::new().key("general.architecture", Kv::text("llama"));
    let file = keys.into_iter().fold(file, |file, (key, value)| file.key(&key, value));
    let mut file = file.tensor("output_norm.weight", DType::F32, &[8], f32s(&[1.0; 8]));
    for name in ["token_embd", "output"] {
        file = file.tensor(format!("{name}.weight"), DType::F32, &[8, 32], f32s(&[1.0; 256]));
    }
    for name in ["attn_norm", "ffn_norm"] {
        file = file.tensor(format!("blk.0.{name}.weight"), DType::F32, &[8], f32s(&[1.0; 8]));
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
        let name = format!("blk.0.{name}.weight");
        file = file.tensor(&name, DType::F32, &[8, 8], f32s(&[1.0; 64]));
    }
    file = file.tensor("blk.0.ffn_gate_inp.weight", DType::F32, &[8, 2], f32s(&[1.0; 16]));
    let experts = [("gate", "w1", [8, 16]), ("up", "w3", [8, 16]), ("down", "w2", [16, 8])];
    let first = |kind: usize, expert: usize| (kind * 2 + expert) as f32 * 1000.0;
    for (kind, (name, _, dims)) in experts.iter().enumerate() {
        for expert in 0..2 {
            let name = format!("blk.0.ffn_{name}.{expert}.weight");
            file = file.tensor(&name, DType::F32, dims, f32s(&values(first(kind, expert), 128)));
        }
    }
    let folder = tempfile::TempDir::new().unwrap();
    let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).unwrap();
    plan.run(&folder.path().join("m"), &weighbridge::WriteOptions::new()).unwrap();
    // llama.cpp no longer reads them one by one: one note says so, and what to do.
    let notes = ops::convert(&model, &ConvertOptions::new(&OLLAMA)).unwrap().notes.clone();
    let about: Vec<&String> = notes.iter().filter(|note| note.contains("ffn_")).collect();
    assert!(about.len() == 1 && about[0].contains("`convert OLD NEW` joins them"), "{notes:?}");
    assert!(about[0].contains("and 5 more matrices of experts"), "{notes:?}");
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap();
    assert!(!plan.notes.concat().contains("experts"), "{:?}", plan.notes);
    plan.run(&folder.path().join("new.gguf"), &weighbridge::WriteOptions::new()).unwrap();
    let joined = Model::open(folder.path().join("new.gguf")).unwrap();
    for (kind, (name, ..)) in experts.iter().enumerate() {
        let name = format!("blk.0.ffn_{name}_exps.weight");
        let found = joined.stored_tensor(&name).unwrap().dequantize().unwrap();
        let expected = [0, 1].map(|expert| values(first(kind, expert), 128)).concat();
        assert_eq!(*found, *expected, "{name}");
    }
    let written = Model::open(folder.path().join("m")).unwrap();
    for (kind, (_, name, _)) in experts.iter().enumerate() {
        for expert in 0..2 {
            let name = format!("model.layers.0.block_sparse_moe.experts.{expert}.{name}.weight");
            let mut tensors = written.stored_tensors();
            let found = tensors.find(|tensor| tensor.name() == name).expect("an expert");
            let found = found.dequantize().unwrap();
            assert_eq!(*found, *values(first(kind, expert), 128), "{name}");
        }
    }
}

/// A directory of a listed model whose tensors and config are changed.
fn changed(
    list: &str,
    change: impl FnOnce(&mut Tensors, &mut NamedModel),
) -> crate::models::Opened {
    let list = LISTS.iter().find(|found| found.name == list).expect("a list");
    let mut model = own(list);
    let (_, mut tensors) = model.forms.remove(0);
    change(&mut tensors, &mut model);
    open(&model, Form::HuggingFace, &tensors)
}

/// llama.cpp has no place for an output matrix in the graph of Command R, which ties it.
#[test]
fn a_copied_output_matrix_does_not_stop_a_conversion() {
    let planned = |difference: f32| {
        let opened = changed("command-r", |tensors, model| {
            model.config["tie_word_embeddings"] = json!(true);
            let mut copy = tensors["model.embed_tokens.weight"].clone();
            copy.values[0] += difference;
            tensors.insert("lm_head.weight".to_owned(), copy);
        });
        let options = ConvertOptions::new(&GGUF).allow_unloadable(true);
        let plan = ops::convert(&opened.model, &options).unwrap();
        let written = plan.tensors.iter().any(|tensor| tensor.name == "output.weight");
        (written, plan.notes.concat())
    };
    let (written, notes) = planned(0.0);
    assert!(!written);
    assert!(notes.contains("lm_head.weight: equal to model.embed_tokens.weight"), "{notes}");
    let (written, notes) = planned(1.0);
    assert!(written && !notes.contains("equal to"), "{notes}");
}

#[test]
fn lora_matrices_inside_of_a_model_are_called_so() {
    let opened = changed("command-r", |tensors, _| {
        let name = "model.layers.0.self_attn.q_proj";
        let base = tensors.remove(&format!("{name}.weight")).expect("a projection");
        let lora = |part: &str| Array::random(part, vec![2, 2]);
        tensors.insert(format!("{name}.lora_A.default.weight"), lora("a"));
        tensors.insert(format!("{name}.lora_B.default.weight"), lora("b"));
        tensors.insert(format!("{name}.base_layer.weight"), base);
    });
    let error = ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap_err();
    let error = told(&error);
    assert!(error.contains("LoRA adapter inside of the model"), "{error}");
    assert!(!error.contains("leave it out"), "{error}");
}

#[test]
fn a_model_of_another_kind_gets_no_advice_to_leave_out() {
    let opened = changed("command-r", |tensors, model| {
        model.config["architectures"] = json!(["CohereHeadsOnly"]);
        let renamed = std::mem::take(tensors).into_iter();
        tensors.extend(renamed.map(|(name, array)| (name.replace('.', ".x_"), array)));
    });
    let error = ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap_err();
    let error = told(&error);
    assert!(error.contains("(class CohereHeadsOnly): the model is of another kind"), "{error}");
    assert!(!error.contains("leave it out"), "{error}");
}

/// Falcon states the width of its network under a name of its own.
#[test]
fn a_width_that_is_stated_is_no_loss() {
    let list = LISTS.iter().find(|list| list.gguf == "falcon").expect("a list").name;
    let opened = changed(list, |_, model| model.config["ffn_hidden_size"] = json!(64));
    let plan = ops::convert(&opened.model, &ConvertOptions::new(&GGUF)).unwrap();
    let notes = plan.notes.concat();
    assert!(!notes.contains("width of the network"), "{notes}");
}

/// transformers' Mamba has the width that its config states, whatever factor stands beside it.
#[test]
fn the_width_of_a_mixer_is_the_stated_one() {
    let stated = |gguf: &str, width: u32| {
        let list = LISTS.iter().find(|list| list.gguf == gguf).expect("a list").name;
        let opened = changed(list, |_, model| {
            model.config["expand"] = json!(2);
            model.config["intermediate_size"] = json!(width);
        });
        let config = opened.model.config().unwrap();
        config.ssm.inner_size.as_ref().map(|width| width.value)
    };
    assert_eq!((stated("mamba", 24), stated("mamba", 32)), (Some(24), Some(32)));
    // That of Mamba 2 goes by the factor.
    assert_eq!(stated("mamba2", 24), stated("mamba2", 32));
}

/// compressed-tensors rotates inputs as a model runs; the stored weights are not those of the model.
#[test]
fn weights_of_modules_that_transform_their_inputs_are_refused() {
    let read = |location: &str| {
        let file = Safetensors::new()
            .tensor("model.layers.0.mlp.down_proj.weight", "F32", &[2, 2], f32s(&[1.0; 4]))
            .tensor("model.layers.0.mlp.up_proj.weight", "F32", &[2, 2], f32s(&[1.0; 4]));
        let apply = json!([{"targets": ["re:.*down_proj$"], "location": location}]);
        let groups = json!({"R4": {"type": "hadamard", "apply": apply}});
        let scheme = json!({
            "quant_method": "compressed-tensors",
            "ignore": ["up_proj", "down_proj"],
            "transform_config": {"config_groups": groups},
        });
        let config = json!({"model_type": "llama", "quantization_config": scheme}).to_string();
        let files =
            folder(&[("config.json", config.into_bytes()), ("model.safetensors", file.build())]);
        let model = Model::open(files.path()).unwrap();
        let values = model.stored_tensors().map(|tensor| tensor.dequantize());
        values.filter_map(|values| values.err().map(|error| told(&error))).collect::<Vec<_>>()
    };
    assert_eq!(read("weight_input"), [""; 0]);
    let [error] = &*read("input") else { panic!("one of two is refused") };
    assert!(error.contains("(transform_config, R4) in compressed-tensors"), "{error}");
}

/// The faults of a GGUF file by strict rules, joined.
fn strict_faults(file: &Gguf) -> String {
    let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
    ops::check_consistency(&model, Strictness::Strict).unwrap().faults.join("; ")
}

/// llama.cpp's loader requires the key of a tokenizer that merges pairs, even if it is empty.
#[test]
fn a_tokenizer_without_merges_is_a_fault_if_strict() {
    let with = |model: &str, merges: bool| {
        let file = Gguf::new()
            .key("general.architecture", Kv::text("llama"))
            .key("tokenizer.ggml.model", Kv::text(model))
            .key("tokenizer.ggml.pre", Kv::text("llama-bpe"))
            .key("tokenizer.ggml.tokens", Kv::Array(8, vec![Kv::text("a")]));
        let merged = Kv::Array(8, vec![Kv::text("a b")]);
        let file = if merges { file.key("tokenizer.ggml.merges", merged) } else { file };
        strict_faults(&file.tensor("token_embd.weight", DType::F32, &[8, 1], f32s(&[1.0; 8])))
    };
    assert!(with("gpt2", false).contains("no tokenizer.ggml.merges"), "{}", with("gpt2", false));
    for faults in [with("gpt2", true), with("llama", false)] {
        assert!(!faults.contains("merges"), "{faults}");
    }
}

/// A directory with `vocab.json` alone: the GGUF file that it would become is not loaded.
#[test]
fn a_vocabulary_without_its_merges_does_not_become_gguf() {
    let files = copy_of(sample("hf"));
    let tokens: serde_json::Map<String, serde_json::Value> =
        (0..512).map(|number| (format!("t{number}"), json!(number))).collect();
    std::fs::remove_file(files.path().join("tokenizer.json")).unwrap();
    put(files.path(), "vocab.json", serde_json::Value::from(tokens).to_string());
    let settings = json!({"tokenizer_class": "GPT2Tokenizer"}).to_string();
    put(files.path(), "tokenizer_config.json", settings);
    let model = Model::open(files.path()).unwrap();
    let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("no tokenizer.ggml.merges"), "{error}");
}

#[test]
fn a_projector_without_its_type_is_a_fault_if_strict() {
    let file = |key: Option<&str>| {
        let file = Gguf::new().key("general.architecture", Kv::text("clip"));
        let file = key.into_iter().fold(file, |file, key| file.key(key, Kv::text("mlp")));
        strict_faults(&file.tensor("v.post_ln.weight", DType::F32, &[8], f32s(&[1.0; 8])))
    };
    assert!(file(None).contains("no clip.projector_type"), "{}", file(None));
    for key in ["clip.projector_type", "clip.vision.projector_type"] {
        assert!(!file(Some(key)).contains("projector_type"), "{}", file(Some(key)));
    }
}

#[test]
fn an_adapter_is_converted_with_its_model_alone() {
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.type", Kv::text("adapter"))
        .key("adapter.type", Kv::text("lora"))
        .key("adapter.lora.alpha", Kv::F32(1.0))
        .tensor("output.weight.lora_a", DType::F32, &[8, 1], f32s(&[1.0; 8]))
        .tensor("output.weight.lora_b", DType::F32, &[1, 4], f32s(&[1.0; 4]));
    let model = OpenOptions::new().open_memory("m.gguf", file.build()).unwrap();
    let options = LlamaOptions::new(FileType::Q8_0);
    let path = std::path::Path::new("q.gguf");
    let quantized = ops::quantize(&model, &options, None, path).map(drop);
    let converted = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS)).map(drop);
    for error in [quantized, converted].map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("an adapter, which has no weights"), "{error}");
    }
}

/// mistral.rs writes what it quantizes next to a file with the rest.
#[test]
fn what_uqff_leaves_over_is_no_model() {
    let rest = Safetensors::new().tensor("model.norm.weight", "F32", &[8], f32s(&[1.0; 8]));
    let files = folder(&[
        ("config.json", br#"{"model_type":"llama"}"#.to_vec()),
        ("q4k-0.uqff", b"{}".to_vec()),
        ("residual.safetensors", rest.build()),
    ]);
    let error = Model::open(files.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("format UQFF, such as q4k-0.uqff"), "{error}");
    // Such a file has the container of safetensors.
    let bytes = Safetensors::new().tensor("0", "U8", &[8], vec![1; 8]).build();
    for names in [&["q4k-0.uqff"][..], &["config.json", "q4k-0.uqff"]] {
        let alone = folder(&names.iter().map(|name| (*name, bytes.clone())).collect::<Vec<_>>());
        for path in [alone.path().to_path_buf(), alone.path().join("q4k-0.uqff")] {
            let error = Model::open(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("mistral.rs's format UQFF"), "{error}");
        }
    }
    assert!(Model::open(files.path().join("residual.safetensors")).is_ok());
}

/// Floats of 8 bits are multiplied by their scale in every scheme, so no document needs to state it.
#[test]
fn scaled_floats_are_decoded_without_a_document() {
    let weight = |name: &str| {
        // 1, 2, -2 and 0.5 in E4M3.
        Safetensors::new().tensor(name, "F8_E4M3", &[2, 2], vec![0x38, 0x40, 0xc0, 0x30])
    };
    let format = |stated: &str| (stated.len() as u64, stated.as_bytes().to_vec());
    let name = "layers.0.up.weight";
    let (length, stated) = format(r#"{"format": "float8_e4m3fn"}"#);
    let one = |shape: &[u64], file: Safetensors, scale: &str| {
        file.tensor(scale, "F32", shape, f32s(&[0.5]))
    };
    for file in [
        one(&[], weight(name), "layers.0.up.weight_scale"),
        one(&[1], weight(name), "layers.0.up.scale_weight")
            .tensor("layers.0.up.scale_input", "F32", &[], f32s(&[3.0]))
            .tensor("scaled_fp8", "F8_E4M3", &[2], vec![0; 2]),
        one(&[], weight(name), "layers.0.up.weight_scale").tensor(
            "layers.0.up.comfy_quant",
            "U8",
            &[length],
            stated,
        ),
    ] {
        let files = folder(&[("m.safetensors", file.build())]);
        let model = Model::open(files.path().join("m.safetensors")).unwrap();
        let values = model.stored_tensor(name).unwrap().dequantize().unwrap();
        assert_eq!(&values[..], [0.5, 1.0, -1.0, 0.25]);
    }
    // ComfyUI's blocks of 32 have their scales in the order of a kernel. Newer files state it in the header.
    let blocks =
        || weight(name).tensor("layers.0.up.weight_scale", "F8_E8M0", &[2, 1], vec![0x7f; 2]);
    let (length, stated) = format(r#"{"format": "mxfp8"}"#);
    let layers = json!({"format_version": "1.0", "layers": {"layers.0.up": {"format": "mxfp8"}}});
    for file in [
        blocks().tensor("layers.0.up.comfy_quant", "U8", &[length], stated),
        blocks().metadata("_quantization_metadata", &layers.to_string()),
    ] {
        let files = folder(&[("m.safetensors", file.build())]);
        let model = Model::open(files.path().join("m.safetensors")).unwrap();
        let error = model.stored_tensor(name).unwrap().dequantize().unwrap_err();
        let said = told(&error);
        assert!(said.contains("codes of ComfyUI's format mxfp8, which is not supported"), "{said}");
    }
}

/// Decoded weights have no scale, so their file has no mark that says so, and no scales of a cache.
#[test]
fn decoded_weights_lose_the_marks_of_their_scheme() {
    let name = "layers.0.up.weight";
    let file = Safetensors::new()
        .tensor(name, "F8_E4M3", &[2, 2], vec![0x38, 0x40, 0xc0, 0x30])
        .tensor("layers.0.up.scale_weight", "F32", &[1], f32s(&[0.5]))
        .tensor("layers.0.attn.k_scale", "F32", &[1], f32s(&[3.0]))
        .tensor("norm.weight", "F32", &[2], f32s(&[1.0; 2]))
        .tensor("scaled_fp8", "F8_E4M3", &[2], vec![0; 2]);
    let files = folder(&[("m.safetensors", file.build())]);
    let model = Model::open(files.path().join("m.safetensors")).expect("a model");
    let options = || ConvertOptions::new(&SAFETENSORS).one_file(true);
    for (options, is_decoded) in [
        (options(), false),
        (options().dtype(DType::BF16), true),
        (options().dequantize(true), true),
    ] {
        let path = files.path().join("out.safetensors");
        let plan = ops::convert(&model, &options).unwrap_or_else(|error| panic!("{error}"));
        plan.run(&path, &WriteOptions::new().overwrite(true)).expect("written");
        let written = Model::open(&path).expect("a model");
        for mark in ["scaled_fp8", "layers.0.attn.k_scale"] {
            assert_eq!(written.stored_tensor(mark).is_err(), is_decoded, "{mark}");
            assert_eq!(plan.notes.join("; ").contains(mark), is_decoded, "{:?}", plan.notes);
        }
        let values = written.stored_tensor(name).expect("it").dequantize().expect("values");
        assert_eq!(&values[..], [0.5, 1.0, -1.0, 0.25]);
    }
}

/// llm-compressor with `save_compressed=False`.
#[test]
fn scales_next_to_numbers_are_left_out() {
    let opened = changed("command-r", |tensors, model| {
        model.config["quantization_config"] = json!({
            "quant_method": "compressed-tensors", "format": "dense", "quantization_status": "frozen",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8}}},
        });
        let name = "model.layers.0.self_attn.q_proj";
        tensors.insert(format!("{name}.weight_scale"), Array::random("scale", vec![1]));
        tensors.insert(format!("{name}.weight_zero_point"), Array::random("zero", vec![1]));
    });
    let report = ops::verify(&opened.model, &ops::VerifyOptions::new()).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    for container in [&GGUF, &weighbridge::container::MLX] {
        let options = ConvertOptions::new(container).allow_unloadable(true);
        let notes = ops::convert(&opened.model, &options).unwrap().notes.concat();
        assert!(notes.contains("q_proj.weight_scale and 1 more: of a quantization"), "{notes}");
        assert!(!notes.contains("may refuse"), "{notes}");
        let said = opened.model.notes().iter().any(|note| note.text.contains("which is not done"));
        assert!(said, "{notes}");
    }
}

#[test]
fn codes_of_comfyui_are_called_so() {
    let stated = br#"{"format": "nvfp4"}"#.to_vec();
    let file = Safetensors::new()
        .tensor("layers.0.up.weight", "U8", &[2, 8], vec![0x21; 16])
        .tensor("layers.0.up.weight_scale", "F8_E4M3", &[2, 1], vec![0x40; 2])
        .tensor("layers.0.up.weight_scale_2", "F32", &[], f32s(&[1.0]))
        .tensor("layers.0.up.comfy_quant", "U8", &[stated.len() as u64], stated);
    let files = folder(&[("m.safetensors", file.build())]);
    let model = Model::open(files.path().join("m.safetensors")).unwrap();
    let error = model.stored_tensor("layers.0.up.weight").unwrap().dequantize().unwrap_err();
    let said = told(&error);
    assert!(said.contains("codes of ComfyUI's format nvfp4, which is not supported"), "{said}");
}

/// The config of the sample with changes.
fn reconfigured(change: impl FnOnce(&mut serde_json::Value)) -> tempfile::TempDir {
    let files = copy_of(sample("hf"));
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    change(&mut config);
    put(files.path(), "config.json", config.to_string());
    files
}

/// The directory that a model becomes.
fn written(model: &Model, options: &ConvertOptions) -> (tempfile::TempDir, serde_json::Value) {
    let folder = tempfile::TempDir::new().unwrap();
    let plan = ops::convert(model, options).unwrap();
    plan.run(&folder.path().join("m"), &weighbridge::WriteOptions::new()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("m/config.json")).unwrap();
    (folder, serde_json::from_str(&text).unwrap())
}

/// Python writes infinities as bare words.
#[test]
fn a_config_with_bare_infinities_is_rewritten() {
    let files = reconfigured(|config| config["time_step_limit"] = json!([0.0, "INFINITY"]));
    let text = std::fs::read_to_string(files.path().join("config.json")).unwrap();
    put(files.path(), "config.json", text.replace("\"INFINITY\"", "Infinity"));
    let model = Model::open(files.path()).unwrap();
    let options = ConvertOptions::new(&SAFETENSORS).dtype(DType::F16);
    let (_folder, config) = written(&model, &options);
    assert_eq!(config["time_step_limit"], json!([0.0, {"__float__": "Infinity"}]));
    assert_eq!(config["torch_dtype"], "float16");
}

#[test]
fn no_part_of_a_config_describes_a_quantization_that_is_gone() {
    let scheme = json!({"quant_method": "fp8", "activation_scheme": "dynamic"});
    let text = json!({
        "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 0,
        "num_attention_heads": 1, "vocab_size": 2, "quantization_config": scheme,
    });
    let config = json!({"model_type": "llava", "text_config": text, "compression_config": scheme});
    let file = Safetensors::new()
        .tensor("language_model.model.x_proj.weight", "F8_E4M3", &[2, 8], vec![0x40; 16])
        .tensor("language_model.model.x_proj.weight_scale_inv", "F32", &[1, 1], f32s(&[1.0]));
    let config = config.to_string().into_bytes();
    let files = folder(&[("config.json", config), ("model.safetensors", file.build())]);
    let model = Model::open(files.path()).unwrap();
    let options = ConvertOptions::new(&SAFETENSORS).dtype(DType::F16);
    let (_folder, config) = written(&model, &options);
    assert!(!config.to_string().contains("fp8"), "{config}");
}

/// GGUF has one; the config keeps all.
#[test]
fn all_tokens_that_end_a_text_come_back() {
    let files = reconfigured(|config| config["eos_token_id"] = json!([2, 1]));
    put(files.path(), "generation_config.json", json!({"eos_token_id": [2, 1]}).to_string());
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("m.gguf");
    let model = Model::open(files.path()).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap();
    plan.run(&path, &weighbridge::WriteOptions::new()).unwrap();
    let model = Model::open(&path).unwrap();
    let one = model.metadata().u64("tokenizer.ggml.eos_token_id").unwrap();
    assert!([1, 2].contains(&one));
    let (back, config) = written(&model, &ConvertOptions::new(&SAFETENSORS));
    assert_eq!(config["eos_token_id"], json!([2, 1]));
    let text = std::fs::read(back.path().join("m/generation_config.json")).unwrap();
    let generation: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(generation["eos_token_id"], json!([2, 1]));
}

/// FSDP's flat parameters: a vector in place of the embedding, and none in place of others.
#[test]
fn shapes_that_were_wrong_before_are_noted() {
    let files = copy_of(sample("hf"));
    let model = Model::open(files.path()).unwrap();
    let flat = model.stored_tensors().fold(Safetensors::new(), |file, tensor| {
        let values = tensor.dequantize().unwrap();
        let shape = match tensor.name() {
            "model.embed_tokens.weight" => vec![values.len() as u64],
            _ => tensor.shape().to_vec(),
        };
        file.tensor(tensor.name(), "F32", &shape, f32s(&values))
    });
    for entry in std::fs::read_dir(files.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".safetensors") {
            std::fs::remove_file(path).unwrap();
        }
    }
    put(files.path(), "model.safetensors", flat.build());
    let model = Model::open(files.path()).unwrap();
    let plan = ops::convert(&model, &ConvertOptions::new(&SAFETENSORS).dtype(DType::F16)).unwrap();
    let notes = plan.notes.concat();
    assert!(notes.contains("a fault of its source: token_embedding.weight"), "{notes}");
    assert!(!notes.contains("vocab_size"), "{notes}");
}

/// Editors of Windows write byte order marks, which JSON does not allow.
#[test]
fn byte_order_marks_are_called_so_in_every_document() {
    for name in ["generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
        let files = copy_of(sample("hf"));
        let text = std::fs::read(files.path().join(name)).unwrap_or(b"{}".to_vec());
        put(files.path(), name, [b"\xef\xbb\xbf".as_slice(), &text].concat());
        let model = Model::open(files.path()).unwrap();
        let faults = ops::check_consistency(&model, Strictness::Default).unwrap().faults.concat();
        assert!(faults.contains("the byte order mark of UTF-8"), "{name}: {faults}");
        let error = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap_err();
        assert!(told(&error).contains("the byte order mark of UTF-8"), "{name}: {error}");
    }
}

/// quanto states its scheme in a file of its own.
#[test]
fn quanto_states_its_scheme_beside_the_config() {
    let file = Safetensors::new()
        .tensor("model.layers.0.mlp.up_proj.weight._data", "I8", &[2, 2], vec![1, 2, 3, 4])
        .tensor("model.layers.0.mlp.up_proj.weight._scale", "F32", &[2, 1], f32s(&[0.5, 2.0]));
    let files = folder(&[("model.safetensors", file.build())]);
    put(files.path(), "config.json", json!({"model_type": "llama"}).to_string());
    let map = json!({"model.layers.0.mlp.up_proj": {"weights": "qint8", "activations": "none"}});
    put(files.path(), "quanto_qmap.json", map.to_string());
    let model = Model::open(files.path()).unwrap();
    let tensor = model.stored_tensor("model.layers.0.mlp.up_proj.weight").unwrap();
    assert_eq!(*tensor.dequantize().unwrap(), [0.5, 1.0, 6.0, 8.0]);
}

/// The files of whisper.cpp are no GGUF files.
#[test]
fn files_of_whisper_cpp_are_not_quantized() {
    let files = folder(&[("m.bin", WhisperGgml::small().build())]);
    let model = Model::open(files.path().join("m.bin")).unwrap();
    let options = LlamaOptions::new(FileType::from_name("Q5_0").unwrap());
    let error = ops::quantize(&model, &options, None, files.path()).unwrap_err();
    assert!(told(&error).contains("files of whisper.cpp are read, but not written"), "{error}");
}

/// llama.cpp merges the pieces of such a tokenizer over the whole text.
#[test]
fn a_pre_tokenizer_that_gguf_cannot_state_is_noted() {
    let notes = |pre: serde_json::Value| {
        let tokens: serde_json::Map<String, serde_json::Value> =
            (0..512).map(|number| (format!("t{number}"), json!(number))).collect();
        let tokenizer = json!({
            "added_tokens": [], "pre_tokenizer": pre,
            "model": {"type": "BPE", "byte_fallback": true, "vocab": tokens, "merges": []},
        });
        let files = copy_of(sample("hf"));
        put(files.path(), "tokenizer.json", tokenizer.to_string());
        let model = Model::open(files.path()).unwrap();
        ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap().notes.concat()
    };
    let digits = json!({"type": "Digits", "individual_digits": true});
    let space = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated"});
    let noted = notes(json!({"type": "Sequence", "pretokenizers": [space, digits]}));
    assert!(noted.contains("pre-tokenizer Digits"), "{noted}");
    for usual in [json!(null), json!({"type": "Metaspace"}), space] {
        assert!(!notes(usual).contains("pre-tokenizer"));
    }
}

/// The note of verifying, or the error of opening, a directory whose config begins with these bytes.
#[test]
fn byte_order_marks_of_documents_are_named() {
    for (mark, encoding) in [(&b"\xef\xbb\xbf"[..], "UTF-8"), (&b"\xff\xfe"[..], "UTF-16")] {
        let files = copy_of(sample("hf"));
        let text = std::fs::read(files.path().join("config.json")).unwrap();
        put(files.path(), "config.json", [mark, &text].concat());
        let said = told(&Model::open(files.path()).unwrap_err());
        assert!(said.contains(&format!("the byte order mark of {encoding}")), "{said}");
    }
}

#[test]
fn a_name_that_one_header_lists_twice_is_called_so() {
    let x = |name: &str| Safetensors::new().tensor(name, "F32", &[2], f32s(&[1.0; 2]));
    let twice = x("abc").tensor("abd", "F32", &[2], f32s(&[2.0; 2])).build();
    let at = twice.windows(3).position(|window| window == b"abd").unwrap();
    let twice = [&twice[..at], b"abc", &twice[at + 3..]].concat();
    let files = folder(&[("m.safetensors", twice)]);
    let said = told(&Model::open(files.path().join("m.safetensors")).unwrap_err());
    assert!(said.contains("the header lists it twice") && !said.contains("two files"), "{said}");
}

#[test]
fn a_model_of_images_is_not_quantized() {
    let file = Gguf::new().key("general.architecture", Kv::text("flux"));
    let file = file.tensor("double_blocks.0.x.weight", DType::F32, &[2, 32], f32s(&[1.0; 64]));
    let files = folder(&[("m.gguf", file.build())]);
    let model = Model::open(files.path().join("m.gguf")).unwrap();
    let options = LlamaOptions::new(FileType::Q8_0);
    let error = ops::quantize(&model, &options, None, files.path()).unwrap_err();
    let said = told(&error);
    assert!(said.contains("a diffusion model"), "{said}");
}

/// A decoder ranks by the logit of a word, and has no labels.
#[test]
fn a_decoder_that_ranks_or_classifies_is_noted() {
    for (line, what) in [
        ("pipeline_tag: text-classification", "a classifier"),
        ("pipeline_tag: text-ranking", "a reranker"),
        ("license: mit", "none"),
    ] {
        let files = copy_of(sample("hf"));
        put(files.path(), "README.md", format!("---\n{line}\n---\n"));
        let model = Model::open(files.path()).unwrap();
        let notes = ops::convert(&model, &ConvertOptions::new(&GGUF)).unwrap().notes.concat();
        let noted = notes.contains(&format!("README.md calls the model {what}"));
        assert_eq!(noted, what != "none", "{notes}");
    }
}

/// A token of the generation config that the tokenizer does not call its end: llama.cpp reads it from a key of its
/// own, and the way back has the same documents.
#[test]
fn settings_of_generation_come_back() {
    let files = copy_of(sample("hf"));
    let stated = json!({"eos_token_id": 300, "do_sample": true, "temperature": 0.5});
    put(files.path(), "generation_config.json", stated.to_string());
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("m.gguf");
    let plan = ops::convert(&Model::open(files.path()).unwrap(), &ConvertOptions::new(&GGUF));
    plan.unwrap().run(&path, &weighbridge::WriteOptions::new()).unwrap();
    let model = Model::open(&path).unwrap();
    assert_eq!(model.metadata().u64("tokenizer.ggml.eot_token_id"), Some(300));
    assert_ne!(model.metadata().u64("tokenizer.ggml.eos_token_id"), Some(300));
    let (back, _) = written(&model, &ConvertOptions::new(&SAFETENSORS));
    let text = std::fs::read(back.path().join("m/generation_config.json")).unwrap();
    let generation: serde_json::Value = serde_json::from_slice(&text).unwrap();
    for (key, value) in stated.as_object().unwrap() {
        assert_eq!(generation[key], *value, "{key}");
    }
}

/// mlx-lm refuses a directory whose config names a scheme, although no tensor has codes.
#[test]
fn a_plain_mlx_directory_names_no_scheme() {
    let cache = json!({"num_bits": 8, "type": "float"});
    let files = reconfigured(|config| {
        config["quantization_config"] = json!({
            "quant_method": "compressed-tensors", "format": "naive-quantized",
            "config_groups": {"group_0": {"targets": [], "weights": null}},
            "kv_cache_scheme": cache, "ignore": [],
        });
    });
    let model = Model::open(files.path()).unwrap();
    let (_folder, config) = written(&model, &ConvertOptions::new(&weighbridge::container::MLX));
    assert_eq!(config.get("quantization_config"), None);
    // Where transformers reads the directory, its statement stays.
    let (_folder, config) = written(&model, &ConvertOptions::new(&SAFETENSORS));
    assert_eq!(config["quantization_config"]["kv_cache_scheme"], cache);
}

/// The index of Flan-T5 lists the names under which its modules share one embedding.
#[test]
fn an_index_may_list_the_modules_of_a_shared_embedding() {
    let names = |listed: &[&str]| {
        let file = Safetensors::new().tensor("shared.weight", "F32", &[2, 2], f32s(&[1.0; 4]));
        let map: serde_json::Map<String, serde_json::Value> =
            listed.iter().map(|name| ((*name).to_owned(), json!("model.safetensors"))).collect();
        let files = folder(&[
            ("model.safetensors", file.build()),
            ("model.safetensors.index.json", json!({"weight_map": map}).to_string().into_bytes()),
        ]);
        Model::open(files.path()).map(|model| notes(&model)).map_err(|error| told(&error))
    };
    let noted = names(&["shared.weight", "decoder.embed_tokens.weight"]).unwrap();
    assert!(noted.contains("which shared.weight serves as"), "{noted}");
    let error = names(&["shared.weight", "decoder.final_layer_norm.weight"]).unwrap_err();
    assert!(error.contains("no file contains it"), "{error}");
}

/// The index of CodeShell lists the embedding, and its files have the output matrix alone: transformers ties both.
#[test]
fn an_index_may_list_a_matrix_that_is_tied_to_another() {
    let opened = |stored: &str, listed: &str, config: serde_json::Value| {
        let file = Safetensors::new().tensor(stored, "F32", &[2, 2], f32s(&[1.0; 4]));
        let map = json!({stored: "model.safetensors", listed: "model.safetensors"});
        let files = folder(&[
            ("model.safetensors", file.build()),
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors.index.json", json!({"weight_map": map}).to_string().into_bytes()),
        ]);
        Model::open(files.path()).map(|model| notes(&model)).map_err(|error| told(&error))
    };
    let (wte, head) = ("transformer.wte.weight", "lm_head.weight");
    for (stored, listed, config) in [
        (head, wte, json!({"model_type": "kclgpt"})),
        (head, wte, json!({"model_type": "gpt2"})),
        (wte, head, json!({"model_type": "gpt2"})),
        (
            "model.embed_tokens.weight",
            head,
            json!({"model_type": "llama", "tie_word_embeddings": true}),
        ),
        (
            "embed_tokens.weight",
            head,
            json!({"model_type": "x", "text_config": {"tie_word_embeddings": true}}),
        ),
    ] {
        let noted = opened(stored, listed, config).expect("tied");
        assert!(noted.contains(&format!("lists {listed}, which {stored} serves as")), "{noted}");
    }
    for (stored, listed, config) in [
        ("model.embed_tokens.weight", head, json!({"model_type": "llama"})),
        (head, wte, json!({"model_type": "kclgpt", "tie_word_embeddings": false})),
        (head, "transformer.ln_f.weight", json!({"model_type": "kclgpt"})),
        (head, "transformer.h.0.wte.weight", json!({"model_type": "kclgpt"})),
        ("transformer.ln_f.weight", wte, json!({"model_type": "kclgpt"})),
    ] {
        let error = opened(stored, listed, config).expect_err("not tied");
        assert!(error.contains("no file contains it"), "{error}");
    }
}

/// transformers reads both lists.
#[test]
fn tokens_that_only_the_config_of_the_tokenizer_lists_are_added() {
    let files = copy_of(sample("hf"));
    let path = files.path().join("tokenizer_config.json");
    let mut config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let added = json!({"content": "<|more|>", "special": true});
    let taken = json!({"content": "<|taken|>", "special": true});
    config["added_tokens_decoder"] = json!({"512": added, "40": taken});
    put(files.path(), "tokenizer_config.json", config.to_string());
    let model = Model::open(files.path()).unwrap();
    let tables = weighbridge::translate::tokenizer_tables(&model).unwrap().unwrap();
    let listed = tables.settings.get("added_tokens").unwrap().to_string();
    assert!(listed.contains("<|more|>") && !listed.contains("<|taken|>"), "{listed}");
}
