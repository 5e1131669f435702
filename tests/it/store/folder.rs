//! Directories with more than one model: which files are opened, and what is said of the others.

use crate::support::{Gguf, Safetensors, f32s, folder, index, notes, refused_folder};
use weighbridge::{DType, Model, OpenOptions};

fn tensors(name: &str, value: f32) -> Vec<u8> {
    Safetensors::new().tensor(name, "F32", &[1], f32s(&[value])).build()
}

#[test]
fn folders_with_weights_are_named_beside_a_config() {
    let config = b"{}".to_vec();
    let inner = folder(&[
        ("config.json", config.clone()),
        ("unet/model.safetensors", tensors("t", 1.0)),
        ("vae/model.gguf", Vec::new()),
        ("empty/readme.txt", Vec::new()),
    ]);
    insta::assert_snapshot!(refused_folder(&inner), @"
    UnknownContainer: .: no weights here: neither .gguf nor .safetensors files
    help: give one of its folders: ./unet, ./vae
    ");
    let alone = folder(&[("config.json", config), ("empty/readme.txt", Vec::new())]);
    insta::assert_snapshot!(refused_folder(&alone), @"
    UnknownContainer: .: the directory contains a config without weights, such as config.json
    help: fetch the weights too: the .safetensors or GGUF files of the model
    ");
}

#[test]
fn files_of_another_container_are_listed_up_to_four() {
    let gguf = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[3.0])).build();
    let others = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("q{n}.gguf")).collect();
        let mut files = vec![("model.safetensors", tensors("t", 1.0))];
        files.extend(names.iter().map(|name| (name.as_str(), gguf.clone())));
        let folder = folder(&files);
        notes(&Model::open(folder.path()).expect("the safetensors file"))
    };
    let said = |list: &str| {
        format!(
            "the safetensors files are opened; the directory also holds {list}: give the path of such \
             a file to open it instead"
        )
    };
    assert_eq!(others(0), "");
    assert_eq!(others(4), said("q0.gguf, q1.gguf, q2.gguf, q3.gguf"));
    assert_eq!(others(5), said("q0.gguf, q1.gguf, q2.gguf, q3.gguf, ..."));
}

#[test]
fn all_files_are_opened_on_request_beside_an_index_too() {
    let one = "model-00001-of-00001.safetensors";
    let folder = folder(&[
        ("model.safetensors.index.json", index(&[("a", one)]).into_bytes()),
        (one, tensors("a", 1.0)),
        ("extra.safetensors", tensors("b", 2.0)),
    ]);
    let usual = Model::open(folder.path()).expect("the listed file");
    assert_eq!(usual.len(), 1);
    assert!(notes(&usual).contains("does not list them: extra.safetensors"), "{}", notes(&usual));
    let all = OpenOptions::new().all_files(true).open(folder.path()).expect("all files");
    assert_eq!((all.len(), notes(&all).as_str()), (2, ""));
    assert_eq!(*all.stored_tensor("b").unwrap().dequantize().unwrap(), [2.0]);
}

#[test]
fn files_without_a_usual_name_are_opened_together_on_request() {
    let folder =
        folder(&[("x.safetensors", tensors("a", 1.0)), ("y.safetensors", tensors("b", 2.0))]);
    let error = Model::open(folder.path()).expect_err("two sets");
    assert!(error.to_string().contains("none of which has a usual name"), "{error}");
    let all = OpenOptions::new().all_files(true).open(folder.path()).expect("all files");
    assert_eq!(all.len(), 2);
    let values = ["a", "b"].map(|name| all.stored_tensor(name).unwrap().dequantize().unwrap()[0]);
    assert_eq!(values, [1.0, 2.0]);
}

/// One header's metadata is kept.
#[test]
fn metadata_of_further_files_is_noted() {
    let file = |name: &str, of: &[(&str, &str)]| {
        let file = Safetensors::new().tensor(name, "F32", &[1], f32s(&[1.0]));
        of.iter().fold(file, |file, (key, value)| file.metadata(key, value)).build()
    };
    let pt = ("format", "pt");
    for (other, key) in [
        (vec![pt], None),
        (vec![], None),
        (vec![pt, ("step", "2")], Some("step")),
        (vec![pt, ("author", "B")], Some("author")),
    ] {
        let first = file("a", &[pt, ("step", "1")]);
        let folder = folder(&[("x.safetensors", first), ("y.safetensors", file("b", &other))]);
        let all = OpenOptions::new().all_files(true).open(folder.path()).expect("all files");
        let said = key.map_or(String::new(), |key| {
            format!("__metadata__ has another {key} than the first file: not used")
        });
        assert_eq!(notes(&all), said);
    }
}

/// huggingface_hub's cache has the files of a model in a folder for each commit.
#[test]
fn folders_of_a_cache_name_the_snapshot() {
    let cache = folder(&[
        ("models--org--m/snapshots/0abc/model.safetensors", tensors("t", 1.0)),
        ("models--org--m/refs/main", b"0abc".to_vec()),
        ("models--org--m/blobs/0123", b"x".to_vec()),
    ]);
    for inner in ["models--org--m/snapshots", "models--org--m/blobs"] {
        let error = Model::open(cache.path().join(inner)).expect_err("no directory of a model");
        let advice = error.advice().expect("advice");
        let snapshot = cache.path().join("models--org--m/snapshots/0abc");
        assert_eq!(advice, format!("give its snapshot: {}", snapshot.display()), "{inner}");
    }
}

#[test]
fn files_beside_a_usual_name_are_opened_on_request() {
    let folder = folder(&[
        ("model.safetensors", tensors("a", 1.0)),
        ("extra.safetensors", tensors("b", 2.0)),
    ]);
    let usual = Model::open(folder.path()).expect("the usual file");
    assert_eq!(usual.len(), 1);
    assert_eq!(notes(&usual), "ignored next to model: extra.safetensors");
    let all = OpenOptions::new().all_files(true).open(folder.path()).expect("all files");
    assert_eq!((all.len(), notes(&all).as_str()), (2, ""));
}

#[test]
fn the_index_with_a_usual_name_is_read() {
    let one = "model-00001-of-00001.safetensors";
    let folder = folder(&[
        ("a-copy.safetensors.index.json", index(&[("b", "extra.safetensors")]).into_bytes()),
        ("model.safetensors.index.json", index(&[("a", one)]).into_bytes()),
        (one, tensors("a", 1.0)),
        ("extra.safetensors", tensors("b", 2.0)),
    ]);
    let opened = Model::open(folder.path()).expect("the listed file");
    let found: Vec<_> = opened.stored_tensors().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(found, ["a"]);
    let said =
        "ignored, because model.safetensors.index.json does not list them: extra.safetensors";
    assert!(notes(&opened).contains(said), "{}", notes(&opened));
}
