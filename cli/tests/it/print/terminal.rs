//! Reports on a terminal: they fit it. The terminal is a pseudo-terminal of the program `script`.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::{program, run};
use insta::assert_snapshot;

/// The report that a terminal of so many columns shows, without colours. `None` if the machine lacks
/// `script`.
fn shown(columns: usize, arguments: &[&str]) -> Option<String> {
    // Progress is not part of a report.
    on_terminal(columns, arguments, "2>/dev/null")
}

fn on_terminal(columns: usize, arguments: &[&str], redirection: &str) -> Option<String> {
    let program = program(arguments);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let words: Vec<String> = std::iter::once(program.get_program())
        .chain(program.get_args())
        .map(|word| quoted(word.to_str().expect("UTF-8")))
        .collect();
    let line = format!("stty cols {columns} rows 50; exec {} {redirection}", words.join(" "));
    let mut script = support::quiet("script");
    let script = script.args(["-q", "-c", &line, "/dev/null"]).env("TERM", "xterm");
    let Ok(output) = script.env("NO_COLOR", "1").output() else {
        println!("skipped: the program `script` is not installed");
        return None;
    };
    Some(String::from_utf8(output.stdout).expect("UTF-8").replace("\r\n", "\n"))
}

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";

#[test]
fn no_report_is_wider_than_the_terminal() {
    let reports: &[&[&str]] = &[
        &["inspect", HF],
        &["inspect", GGUF, "--canonical"],
        &["inspect", GGUF, "--metadata", "--all"],
        &["inspect", "--config", GGUF],
        &["inspect", GGUF, "blk.0.attn_q.weight"],
        &["inspect", GGUF, "--stats"],
        &["inspect", GGUF, "--findings"],
        &["diff", HF, GGUF],
        &["diff", HF, GGUF, "--by-layer"],
        &["dump", GGUF, "output_norm.weight", "--rows", "0:1"],
        &["memory", GGUF, "--layers"],
        &["memory", GGUF, "--room", "1MB"],
        &["quantize", GGUF, "--list-types"],
        &["verify", HF],
        &["hash", GGUF, "--values"],
        &["convert", GGUF, "no-such-folder/out", "--to", "mlx", "--dry-run"],
        &["quantize", HF, "out.gguf", "--type", "Q4_K_M", "--dry-run"],
        &["split", GGUF, "out", "--max-tensors", "6", "--dry-run"],
        &["merge", HF, "out.safetensors", "--dry-run"],
        &["meta", "set", GGUF, "general.name=Tales", "--dry-run"],
        &["models", "assets/sample"],
        &["create", "tales", GGUF, "--dry-run"],
        &["demo"],
        &["bench", GGUF],
        &["job", "plan", "-h"],
        &["list", "containers"],
        &["list", "architectures"],
        &["list", "dtypes"],
        &["meta", "get", GGUF],
        &["list", "types"],
        &["run", "logits", GGUF, "--ids", "1,2,3"],
        &["run", "tokens", GGUF, "--text", "Once upon a time"],
        &["run", "embed", GGUF, "--text", "Once"],
    ];
    for arguments in reports {
        for columns in [40, 60, 80, 100] {
            let Some(text) = shown(columns, arguments) else { return };
            assert!(text.lines().count() > 0, "{arguments:?}");
            for line in text.lines() {
                let width = line.chars().count();
                // A path and a digest are never cut, so that they can be copied.
                let whole = !line.trim_start().contains(' ') || arguments[0] == "hash";
                assert!(width <= columns || whole, "{arguments:?} in {columns} columns: {line}");
            }
        }
    }
}

#[test]
fn the_help_fits_the_terminal() {
    for arguments in [
        &["-h"][..],
        &["quantize", "-h"],
        &["run", "generate", "--help"],
        &["convert", "--bogus"],
        &["completions", "tcsh"],
    ] {
        for columns in [40, 60] {
            let Some(text) = on_terminal(columns, arguments, "2>&1") else { return };
            for line in text.lines() {
                let word = !line.trim_start().contains(' ');
                assert!(line.chars().count() <= columns || word, "{arguments:?}: {line}");
            }
        }
    }
}

#[test]
fn a_wide_terminal_shows_what_a_pipe_gets() {
    for arguments in [&["inspect", HF][..], &["diff", HF, GGUF, "--all"], &["list", "dtypes"]] {
        let piped = run(arguments).out;
        let Some(text) = shown(300, arguments) else { return };
        assert_eq!(text, piped, "{arguments:?}");
        // A narrow terminal wraps the prose, but with --wide not the table.
        let wide = shown(40, &[arguments, &["--wide"]].concat()).expect("as before");
        assert_eq!(wide.lines().last(), piped.lines().last(), "{arguments:?}");
    }
}

#[test]
fn messages_wrap_on_a_terminal_and_not_in_a_file() {
    let arguments = ["inspect", "no/such/folder/with/a/long/path/model.gguf"];
    let Some(text) = on_terminal(60, &arguments, "") else { return };
    assert_snapshot!(text, @"
    error: no/such/folder/with/a/long/path/model.gguf: no such
           file
    ");
    assert!(run(&arguments).err.lines().all(|line| line.starts_with(['e', ' '])));
}

/// A single value may be copied from the terminal: its lines stay as they are.
#[test]
fn a_single_value_is_not_wrapped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    let (name, words) = ("general.description", "some words, and then more ".repeat(8));
    support::gguf(&path, |keys| keys.set_text(name, words.trim()));
    let path = path.to_str().expect("a path in UTF-8");
    let Some(one) = shown(40, &["meta", "get", path, name]) else { return };
    assert_eq!(one, format!("{}\n", words.trim()));
    let several = shown(40, &["meta", "get", path]).expect("as before");
    assert!(several.lines().all(|line| line.chars().count() <= 40), "{several}");
}

/// Names and digests are compared and copied: what cuts a name says so, and a digest is never cut.
#[test]
fn what_is_cut_says_so() {
    for columns in [40, 60, 80] {
        let Some(text) = shown(columns, &["hash", HF]) else { return };
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            run(&["hash", HF]).out.lines().collect::<Vec<_>>()
        );
        for arguments in [&["inspect", HF][..], &["inspect", GGUF, "--metadata"], &["demo"]] {
            let text = shown(columns, arguments).expect("as before");
            let is_told = text.lines().any(|line| line.starts_with("(--wide shows"));
            assert!(!text.contains('…') || is_told, "{arguments:?} in {columns} columns: {text}");
        }
    }
    let text = shown(80, &["demo"]).expect("as before");
    assert!(!text.contains('…') && text.contains("self_attn.q_proj.weight"), "{text}");
    // Keys are whole where values can be wrapped.
    let text = shown(80, &["inspect", GGUF, "--metadata"]).expect("as before");
    assert!(text.contains("llama.attention.layer_norm_rms_epsilon"), "{text}");
}

#[test]
fn generated_text_wraps_at_words() {
    let arguments = ["run", GGUF, "Once upon a time", "--max-tokens", "40"];
    let piped = run(&arguments).out;
    let Some(text) = shown(30, &arguments) else { return };
    assert!(
        text.lines().count() > 3 && text.lines().all(|line| line.chars().count() <= 30),
        "{text}"
    );
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&text), words(&piped));
}
