//! `--family`: families that a file describes.
#![allow(clippy::disallowed_methods, reason = "the files are the tests' own and the samples")]

mod support;

use support::{json, refused, run};

#[test]
fn a_file_describes_a_family_that_is_not_built_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (model, family) = (path("boreal"), path("boreal.family"));
    std::fs::create_dir(&model).expect("a folder");
    for (name, bytes) in support::contents(&support::root().join("assets/sample/hf")) {
        let bytes = match name.as_str() {
            "config.json" => {
                let text = String::from_utf8(bytes).expect("UTF-8");
                text.replace("\"llama\"", "\"boreal\"").into_bytes()
            }
            _ => bytes,
        };
        std::fs::write(path("boreal") + "/" + &name, bytes).expect("a copy");
    }
    let names = "[family boreal]\nhf boreal\nrope half_split\ntensors decoder\n";
    std::fs::write(&family, names).expect("a file");

    assert_eq!(json(&["inspect", &model, "--json"])["architecture"], serde_json::Value::Null);
    assert_eq!(json(&["inspect", &model, "--json", "--family", &family])["architecture"], "boreal");

    // It converts as any other.
    let to = path("mlx");
    let words = ["convert", &model, &to, "--to", "mlx", "--allow-incomplete", "--family", &family];
    assert_eq!(run(&words).status, Some(0));

    std::fs::write(&family, "[family boreal]\ncolour red\n").expect("a file");
    let message = refused(&["inspect", &model, "--family", &family]);
    assert!(
        message.contains("boreal.family: line 2: colour: no such line of a family"),
        "{message}"
    );
}
