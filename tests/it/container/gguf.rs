//! GGUF files that are no whole language model, or lie beside others: which of them is opened, and what
//! is said of it.

use crate::support::{Gguf, Kv, f32s, folder, notes, open_as, without_path};
use weighbridge::{DType, Limits, Model, OpenOptions, Strictness};

fn file(keys: &[(&str, Kv)]) -> Gguf {
    let file = keys.iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value.clone()));
    file.tensor("t", DType::F32, &[1], f32s(&[1.0]))
}

#[test]
fn projectors_and_importance_matrices_are_no_models_of_a_directory() {
    let value = |value: f32| Gguf::new().tensor("t", DType::F32, &[1], f32s(&[value])).build();
    let opened = |names: &[(&str, f32)]| {
        let files: Vec<(&str, Vec<u8>)> =
            names.iter().map(|(name, number)| (*name, value(*number))).collect();
        let folder = folder(&files);
        let found = Model::open(folder.path());
        let found = found.map(|model| model.stored_tensor("t").unwrap().dequantize().unwrap()[0]);
        found.map_err(|error| without_path(&error.to_string(), folder.path()))
    };
    let others = [("mmproj-model-f16.gguf", 2.0), ("model.imatrix.gguf", 3.0)];
    assert_eq!(opened(&[&others[..], &[("model-Q8_0.gguf", 1.0)]].concat()), Ok(1.0));
    assert_eq!(opened(&others[..1]), Ok(2.0));
    let both = folder(&[("mmproj-F16.gguf", value(2.0)), ("model.gguf", value(1.0))]);
    let notes =
        |model: Model| model.notes().iter().map(|note| note.text.to_string()).collect::<Vec<_>>();
    let told = notes(Model::open(both.path()).unwrap()).concat();
    assert!(
        told.starts_with("mmproj-F16.gguf, which lies beside it, is a model of its own"),
        "{told}"
    );
    assert_eq!(notes(Model::open(both.path().join("model.gguf")).unwrap()), [""; 0]);
    assert_eq!(
        opened(&others),
        Err(".: the directory contains 2 models: mmproj-model-f16.gguf, model.imatrix.gguf"
            .to_owned())
    );
}

#[test]
fn files_say_what_they_are() {
    let kind = |kind: &str| ("general.type", Kv::text(kind));
    let projector = "a multimodal projector, to be used with a language model";
    for (keys, note) in [
        (vec![kind("model")], ""),
        (vec![kind("mmproj")], projector),
        (vec![("general.architecture", Kv::text("clip"))], projector),
        (vec![("general.architecture", Kv::text("llama"))], ""),
        (vec![kind("imatrix")], "an importance matrix, for use while quantizing"),
        (vec![kind("adapter")], "an adapter, to be applied to a base model"),
        (
            vec![kind("adapter"), ("adapter.type", Kv::text("lora"))],
            "a LoRA adapter, to be applied to a base model",
        ),
        (
            vec![kind("mmproj"), ("general.name", Kv::text("Eyes"))],
            "a multimodal projector, to be used with a language model: Eyes",
        ),
    ] {
        let opened = open_as(file(&keys).build(), Strictness::Default).expect("a file");
        assert_eq!(notes(&opened), note, "{keys:?}");
    }
    let eyes = file(&[("general.architecture", Kv::text("clip"))]);
    let eyes = eyes.tensor("v.blk.0.attn_q.weight", DType::F32, &[1, 1], f32s(&[1.0])).build();
    let folder = folder(&[("mmproj.gguf", eyes)]);
    let model = Model::open(folder.path().join("mmproj.gguf")).expect("a file");
    let names = model.resolution().expect("names").to_string();
    assert!(names.contains("\"clip\": the vision or audio model and the projector"), "{names}");
    assert!(names.ends_with("2 tensors under stored names"), "{names}");
}

#[test]
fn shards_are_found_by_names_that_end_as_gguf() {
    let shard = file(&[("split.no", Kv::U16(0)), ("split.count", Kv::U16(2))]).build();
    let said = |name: &str| {
        let folder = folder(&[(name, shard.clone())]);
        let error = Model::open(folder.path().join(name)).expect_err("one of two shards");
        without_path(&error.to_string(), folder.path())
    };
    assert_eq!(
        said("m-00001-of-00002.gguf"),
        "./m-00001-of-00002.gguf: 1 of 2 shards are missing, the first m-00002-of-00002.gguf"
    );
    for name in ["m-00001-of-00002.ggml", "m.gguf"] {
        let unnamed = "this is shard 1 of 2, but the file name does not say so, so the other shards cannot be found";
        assert_eq!(said(name), format!("./{name}: {unnamed}"));
    }
}

#[test]
fn dimensions_that_ggml_has_not_are_told_by_strict_rules() {
    let five = Gguf::new().tensor("t", DType::F32, &[1, 1, 1, 1, 2], f32s(&[1.0, 2.0])).build();
    let open = |strictness| {
        let mut limits = Limits::default();
        limits.gguf_dims = 5;
        OpenOptions::new().limits(limits).strictness(strictness).open_memory("file", five.clone())
    };
    let error = open(Strictness::Strict).expect_err("five dimensions").to_string();
    assert!(error.contains("a tensor has 5 dimensions, more than 4"), "{error}");
    let lenient = open(Strictness::Lenient).expect("a file");
    assert_eq!(lenient.stored_tensor("t").unwrap().shape(), [1, 1, 1, 1, 2]);
}

#[test]
fn debug_output_of_a_model_is_short() {
    let many = Kv::Array(8, vec![Kv::text("token"); 10_000]);
    let file = file(&[("general.architecture", Kv::text("llama")), ("tokens", many)]);
    let model = open_as(file.build(), Strictness::Default).expect("a file");
    assert_eq!(
        format!("{model:?}"),
        r#"Model { path: "file", container: "gguf", tensors: 1, .. }"#
    );
    insta::assert_snapshot!(format!("{:?}", model.metadata()), @r#"{"general.architecture": String("llama"), "tokens": Array([string; 10000])}"#);
}
