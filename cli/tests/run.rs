//! `logits` and `generate`: the sample runs, from each of its containers.
#![allow(clippy::disallowed_methods, reason = "the files are the test's own")]

mod support;

use support::{printed, refused, run};

const FORMS: [&str; 2] = ["assets/sample/hf", "assets/sample/sample-Q8_0.gguf"];

#[test]
fn the_sample_tells_a_tale_from_each_container() {
    for form in FORMS {
        let text = |words: &[&str]| {
            let ran = run(&[&["generate", form], words].concat());
            assert_eq!(ran.status, Some(0), "{}", ran.err);
            assert!(ran.err.starts_with("note: 6 prompt tokens, the first token after "));
            assert!(ran.err.contains(" a second"), "{}", ran.err);
            ran.out
        };
        let tale = text(&["--ids", "0,422,419,260,423,13"]);
        assert_eq!(text(&["--prompt", "<s>Once upon a time,"]), tale, "{form}");
        assert!(tale.starts_with(" Milo had a tall truck full of bells."), "{form}: {tale}");
        assert!(tale.ends_with("Milo was calm and nodded. The end.\n"), "{form}: {tale}");
    }
}

#[test]
fn ids_are_printed_alone() {
    for form in FORMS {
        let ids = ["generate", form, "--ids", "0,422,419,260,423,13", "--print-ids"];
        let few = printed(&[&ids[..], &["--max-tokens", "4"]].concat());
        assert_eq!(few, "222,486,421,260\n");
        // The text ends by itself, unless it may not.
        let end = printed(&[&ids[..], &["--max-tokens", "200"]].concat());
        let on = printed(&[&ids[..], &["--max-tokens", "200", "--ignore-eos"]].concat());
        let count = |list: &str| list.split(',').count();
        assert!(count(&end) < 120 && count(&on) == 200, "{end}\n{on}");
        assert!(on.starts_with(end.trim_end()), "{end}\n{on}");
    }
}

#[test]
fn a_chat_needs_a_template_and_uses_it() {
    let refuse = refused(&["generate", FORMS[0], "--chat", "--prompt", "Once upon a time,"]);
    assert!(refuse.starts_with("4\n") && refuse.contains("has no chat template"), "{refuse}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    for entry in std::fs::read_dir(support::root().join(FORMS[0])).expect("the sample") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), model.join(entry.file_name())).expect("a copy");
    }
    let template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    std::fs::write(model.join("chat_template.jinja"), template).expect("written");
    let model = model.to_str().expect("a path");
    let ids = ["--print-ids", "--max-tokens", "4"];
    let chat = ["generate", model, "--chat", "--system", "Once upon ", "--prompt", "a time,"];
    let plain = ["generate", model, "--prompt", "<s>Once upon a time,"];
    assert_eq!(printed(&[&chat[..], &ids].concat()), printed(&[&plain[..], &ids].concat()));
}

#[test]
fn the_same_seed_draws_the_same_tokens() {
    let draw = |seed: &str| {
        let words = ["generate", FORMS[0], "--ids", "0,422", "--print-ids", "--temp", "1.5"];
        printed(&[&words[..], &["--max-tokens", "24", "--seed", seed]].concat())
    };
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7"), draw("8"));
}

#[test]
fn logits_are_shown_and_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("logits.npy");
    let path = file.to_str().expect("a path");
    let words = ["logits", "assets/sample/hf", "--ids", "0,422,419,260,423,13"];
    let shown = printed(&words);
    assert!(shown.starts_with("logits: 6 x 512\nPOSITION  TOKEN  "), "{shown}");
    // As transformers has them.
    assert!(shown.contains("  222: 6.5657  467: 6.0699  488: 6.0125"), "{shown}");
    assert_eq!(printed(&[&words[..], &["-o", path]].concat()), "");
    let bytes = std::fs::read(&file).expect("the file");
    assert!(bytes.starts_with(b"\x93NUMPY"));
    assert_eq!(bytes.len() % 64, 0);
    assert_eq!(bytes.len() - 6 * 512 * 4, 128);
    let again = refused(&[&words[..], &["-o", path]].concat());
    assert!(again.starts_with("2\n") && again.contains("already exists"), "{again}");
    let json = printed(&[&words[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["shape"], serde_json::json!([6, 512]));
    assert_eq!(json["values"][5].as_array().expect("a row").len(), 512);
}

#[test]
fn what_does_not_fit_the_model_is_refused() {
    let refuse =
        |words: &[&str]| refused(&[&["logits", "assets/sample/hf", "--ids"], words].concat());
    assert_eq!(refuse(&["512"]), "2\nerror: token 512, but there are 512\n");
    assert!(refuse(&["1", "--masked-head"]).contains("are for encoders of text"));
    let empty = refused(&["generate", "assets/sample/hf", "--prompt", ""]);
    assert!(empty.starts_with("2\n") && empty.contains("nothing to continue"), "{empty}");
    let sound = refuse(&["1", "--features", "assets/sample/README.md"]);
    assert!(sound.starts_with("3\n") && sound.contains("no NumPy array file"), "{sound}");
}
