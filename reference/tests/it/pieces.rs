//! Tokenizers of scored pieces give the tokens of Hugging Face's `tokenizers`: those of `tests/pieces`,
//! which `xtask/oracles/pieces.py` makes, and of the folder that `WEIGHBRIDGE_PIECES` names.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

use std::path::{Path, PathBuf};

use weighbridge::Model;
use weighbridge::json::Json;
use weighbridge_reference::TextTokens;

#[test]
fn texts_are_cut_as_by_tokenizers() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pieces");
    let made = std::env::var_os("WEIGHBRIDGE_PIECES").map(PathBuf::from);
    let mut texts = 0;
    for folder in [own].into_iter().chain(made) {
        for entry in std::fs::read_dir(&folder).expect("a folder of tokenizers") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if !name.ends_with(".json") || name.ends_with(".tokens.json") {
                continue;
            }
            let bytes = std::fs::read(&path).expect("a tokenizer");
            let json = Json::parse(&bytes).expect("JSON");
            let tokenizer =
                TextTokens::parse(json["tokenizer"].to_string().as_bytes()).expect("a tokenizer");
            for pair in json["texts"].as_array().expect("texts") {
                let text = pair[0].as_str().expect("a text");
                let found = Json::from(tokenizer.of(text).expect("tokens"));
                assert_eq!(found, pair[1], "{}: {text:?}", path.display());
                texts += 1;
            }
        }
    }
    assert!(texts >= 45, "{texts} texts");
}

/// A directory whose only tokenizer is a model of sentencepiece.
#[test]
fn texts_are_cut_as_by_sentencepiece() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pieces");
    let made = std::env::var_os("WEIGHBRIDGE_PIECES").map(PathBuf::from);
    for folder in [own].into_iter().chain(made) {
        for (name, file) in
            [("t5", "spiece.model"), ("bytes", "spiece.model"), ("llama", "tokenizer.model")]
        {
            let place = tempfile::tempdir().expect("a folder");
            let header = br#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
            let length = (header.len() as u64).to_le_bytes();
            let weights = [&length[..], header, &[0; 4]].concat();
            std::fs::write(place.path().join("model.safetensors"), weights).expect("a file");
            std::fs::write(place.path().join("config.json"), "{}").expect("a file");
            std::fs::copy(folder.join(format!("{name}.model")), place.path().join(file))
                .expect("a file");
            let model = Model::open(place.path()).expect("a directory");
            let tokenizer = TextTokens::new(&model).expect("a tokenizer");
            let path = folder.join(format!("{name}.tokens.json"));
            let texts = std::fs::read(path).expect("tokens");
            let texts = Json::parse(&texts).expect("JSON");
            for pair in texts.as_array().expect("texts") {
                let text = pair[0].as_str().expect("a text");
                let found = Json::from(tokenizer.of_rendered(text).expect("tokens"));
                assert_eq!(found, pair[1], "{name}: {text:?}");
            }
        }
    }
}

/// Replacements whose trie leads out of the array are none.
#[test]
fn a_damaged_trie_ends_the_search() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pieces/split.json");
    let mut json = Json::parse(&std::fs::read(path).expect("a tokenizer")).expect("JSON");
    let document = &mut json["tokenizer"];
    for charsmap in ["", "AA", "BAAAAP////8=", "/////wAA", "CAAAAAEAAAABAAAA"] {
        document["normalizer"]["precompiled_charsmap"] = charsmap.into();
        match TextTokens::parse(document.to_string().as_bytes()) {
            Ok(tokenizer) => assert!(!tokenizer.of("the tall truck").expect("tokens").is_empty()),
            Err(error) => assert!(error.to_string().contains("precompiled_charsmap"), "{error}"),
        }
    }
}
