//! Projectors next to language models of another width.

use std::path::Path;

use weighbridge::container::{Strictness, ollama};
use weighbridge::ollama::Modelfile;
use weighbridge::ops::{self, CreateOptions, InspectOptions};
use weighbridge::{DType, ErrorKind, Model, WriteOptions, WritePlan};

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, f32s, folder, put, told};

/// The length of the embeddings of the models here.
const WIDTH: u64 = 4;

fn main_model() -> Vec<u8> {
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.embedding_length", Kv::U32(4))
        .tensor("token_embd.weight", DType::F32, &[1, 4], f32s(&[3.0; 4]));
    file.build()
}

/// A projector of a type, with the tensor that it ends with.
fn projector(kind: &str, tensor: (&str, &[u64]), stated: &[(&str, u32)]) -> Vec<u8> {
    let (name, shape) = tensor;
    let values = f32s(&vec![1.0; shape.iter().product::<u64>() as usize]);
    let file = Gguf::new()
        .key("general.architecture", Kv::text("clip"))
        .key("general.type", Kv::text("mmproj"))
        .key("clip.projector_type", Kv::text(kind))
        .key("clip.has_vision_encoder", Kv::Bool(true));
    let file = stated.iter().fold(file, |file, (key, value)| file.key(key, Kv::U32(*value)));
    file.tensor(name, DType::F32, shape, values).build()
}

fn opened(folder: &Path, name: &str, bytes: Vec<u8>) -> Model {
    put(folder, name, bytes);
    Model::open(folder.join(name)).unwrap()
}

/// The lengths are those of the tensors from which llama.cpp takes them, or of a key.
#[test]
fn lengths_are_those_of_tensors() {
    let files = folder(&[("m.gguf", main_model())]);
    let model = Model::open(files.path().join("m.gguf")).unwrap();
    let dims = |rows: u64| -> [(&str, &str, Vec<u64>); 5] {
        [
            ("qwen2vl_merger", "mm.2.bias", vec![rows]),
            ("mlp", "mm.2.weight", vec![rows, 3]),
            ("gemma3", "mm.input_projection.weight", vec![3, rows]),
            ("idefics3", "mm.model.fc.weight", vec![rows, 3]),
            ("resampler", "resampler.proj.weight", vec![rows, rows]),
        ]
    };
    // Old scripts state another number.
    let stated = [("clip.vision.projection_dim", 768)];
    for (rows, fits) in [(WIDTH, true), (2, false)] {
        for (kind, name, shape) in dims(rows) {
            let file = opened(files.path(), "p.gguf", projector(kind, (name, &shape), &stated));
            let fault = model.projector_fault(&file);
            assert_eq!(fault.is_none(), fits, "{kind}: {fault:?}");
            let expected = format!("makes vectors of length 2 ({name}), but the embeddings of");
            assert!(fault.is_none_or(|fault| fault.contains(&expected)), "{kind}");
        }
    }
    // The files of further types state the length.
    for (length, fits) in [(4, true), (2, false)] {
        let stated = [("clip.vision.projection_dim", length)];
        let file = projector("later", ("v.post_ln.weight", &[1]), &stated);
        let file = opened(files.path(), "p.gguf", file);
        assert_eq!(model.projector_fault(&file).is_none(), fits, "{length}");
    }
    let other = opened(files.path(), "p.gguf", projector("mlp", ("mm.0.weight", &[1]), &stated));
    assert_eq!(model.projector_fault(&other), None, "an unknown length");
    assert_eq!(model.projector_fault(&model), None, "no projector");
}

#[test]
fn a_model_is_not_created_with_the_projector_of_another() {
    let fault = "the projector makes vectors of length 2 (mm.2.bias), but the embeddings of ";
    let rest = " have length 4 (llama.embedding_length): llama.cpp and Ollama refuse the pair";
    for (rows, fits) in [(WIDTH, true), (2, false)] {
        let mmproj = projector("qwen2.5vl_merger", ("mm.2.bias", &[rows]), &[]);
        let files = folder(&[("m.gguf", main_model()), ("mmproj.gguf", mmproj.clone())]);
        let at = |name: &str| files.path().join(name);
        put(files.path(), "Modelfile", "FROM ./mmproj.gguf\nFROM m.gguf\n");
        let file = Modelfile::read(&at("Modelfile")).unwrap();
        let by_file = CreateOptions::new().modelfile(&file, files.path(), None).unwrap();
        let by_option = CreateOptions::new().file(at("mmproj.gguf")).unwrap();
        let model = Model::open(at("m.gguf")).unwrap();
        for (model, options) in [by_file, (model, by_option)] {
            let plan = ops::create(&model, options);
            assert_eq!(plan.is_ok(), fits);
            let Err(error) = plan else { continue };
            let text = told(&error);
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert!(text.contains(fault) && text.contains(rest), "{text}");
            assert!(text.contains("mmproj.gguf: "), "{text}");
        }
        // A pair that another program put into the store.
        let store = Store::new();
        let layers =
            [store.layer("model", "", &main_model()), store.layer("projector", "", &mmproj)];
        let stored = Model::open(store.manifest("m/latest", &layers)).unwrap();
        let faults =
            ops::check_consistency(&stored, Strictness::Default).unwrap().faults.join("; ");
        assert_eq!(faults.contains(fault), !fits, "{faults}");
        let target = tempfile::tempdir().unwrap();
        let place = ollama::place("copy", Some(target.path())).unwrap();
        let plan = ops::create(&stored, CreateOptions::new().system("Be brief.")).unwrap();
        assert_eq!(plan.notes.iter().any(|note| note.contains(fault)), !fits);
        plan.run(&place, &WriteOptions::new().allow_incomplete(true)).unwrap();
    }
}

/// The roles and lengths of the files of a plan.
fn layers(plan: &WritePlan) -> Vec<(String, u64)> {
    let files = plan.report().files;
    files.iter().map(|file| (file.role.to_owned(), file.bytes)).collect()
}

/// A projector that lies beside a model in a folder is a layer of the model that is created from the folder.
#[test]
fn a_folder_is_a_model_with_its_projector() {
    let of_width = |rows| projector("qwen2.5vl_merger", ("mm.2.bias", &[rows]), &[]);
    let (fits, other) = (of_width(WIDTH), of_width(2));
    let longer = projector("qwen2.5vl_merger", ("mm.2.bias", &[WIDTH]), &[("clip.x", 1)]);
    let created = |beside: &[(&str, &Vec<u8>)], given: Option<&str>| {
        let mut all = vec![("m.gguf", main_model())];
        all.extend(beside.iter().map(|(name, bytes)| (*name, (*bytes).clone())));
        let files = folder(&all);
        put(files.path(), "Modelfile", "FROM .\n");
        let file = Modelfile::read(&files.path().join("Modelfile")).unwrap();
        let (model, mut options) =
            CreateOptions::new().modelfile(&file, files.path(), None).unwrap();
        if let Some(given) = given {
            options = options.file(files.path().join(given)).unwrap();
        }
        let notes: Vec<String> = model.notes().iter().map(|note| note.text.clone()).collect();
        let plan = ops::create(&model, options).unwrap();
        let layers = layers(&plan).into_iter().filter(|(role, _)| role == "projector");
        let found: Vec<u64> = layers.map(|(_, bytes)| bytes).collect();
        let sees = ops::inspect(&model, &InspectOptions::new())
            .unwrap()
            .summary
            .capabilities
            .contains(&"vision".to_owned());
        (found, sees, notes.join("; "))
    };
    let length = |bytes: &Vec<u8>| bytes.len() as u64;
    let (layers, sees, notes) = created(&[("mmproj.gguf", &fits)], None);
    assert_eq!((layers, sees), (vec![length(&fits)], true));
    assert!(notes.contains("mmproj.gguf, which lies beside it, is its projector"), "{notes}");
    // That of another model is named, and so are those beyond the first.
    let (layers, sees, notes) = created(&[("x-mmproj.gguf", &other)], None);
    assert_eq!((layers, sees), (vec![], false));
    let fault =
        "x-mmproj.gguf, which lies beside it, is left out: the projector makes vectors of length 2";
    assert!(notes.contains(fault) && notes.contains("--projector FILE` takes another"), "{notes}");
    let several =
        [("a-mmproj.gguf", &fits), ("b-mmproj-F16.gguf", &longer), ("c-mmproj.gguf", &other)];
    let (layers, _, notes) = created(&several, None);
    assert_eq!(layers, [length(&longer)]);
    let left = "a-mmproj.gguf, which lies beside it, is left out, since one projector is taken";
    assert!(notes.contains(left) && notes.contains("a-mmproj.gguf` takes it"), "{notes}");
    // One that is given takes its place.
    let (layers, ..) = created(&several, Some("a-mmproj.gguf"));
    assert_eq!(layers, [length(&fits)]);
}
