//! Standard output that is not a terminal: colours are off, and the reader may close it at any time.

use std::io::Read;
use std::process::Stdio;

use crate::support;
use crate::support::{program, run};

const SAMPLE: &str = "assets/sample/hf";

/// Runs with much output, and runs with coloured output.
const RUNS: [&[&str]; 11] = [
    &["inspect", SAMPLE, "--all", "--metadata"],
    &["inspect", SAMPLE, "--json"],
    &["inspect", "--config", SAMPLE],
    &["hash", SAMPLE, "--values"],
    &["diff", SAMPLE, SAMPLE, "--all"],
    &["diff", SAMPLE, SAMPLE, "--json"],
    &["dump", SAMPLE, "model.embed_tokens.weight", "--all"],
    &["dump", SAMPLE, "model.embed_tokens.weight", "--as", "npy"],
    &["list", "dtypes"],
    &["completions", "zsh"],
    &["bench"],
];

/// The reader closes the pipe before anything is written, or after the first byte.
#[test]
fn readers_may_leave() {
    for arguments in RUNS {
        for first in [0, 1] {
            let mut child = program(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts");
            let mut pipe = child.stdout.take().expect("a pipe");
            pipe.read_exact(&mut vec![0; first]).expect("as many bytes");
            drop(pipe);
            let output = child.wait_with_output().expect("the program ends");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*said), (Some(0), ""), "{arguments:?}");
        }
    }
}

/// Standard output that was closed before the program started is an error of every verb that writes
/// to it, and of no other.
#[cfg(unix)]
#[test]
fn closed_from_the_start() {
    let shell = |arguments: &[&str], redirect: &str| {
        let mut command = std::process::Command::new("sh");
        let script = format!("exec \"$0\" \"$@\" {redirect}");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_weighbridge")).args(arguments);
        command.current_dir(support::root()).env("OLLAMA_MODELS", "no-store");
        command.output().expect("a shell")
    };
    let more: [&[&str]; 5] = [
        &["--help"],
        &["--version"],
        &["inspect", "--help"],
        &["verify", SAMPLE],
        &["meta", "get", "assets/sample/sample-Q8_0.gguf"],
    ];
    for arguments in RUNS.iter().chain(&more) {
        let output = shell(arguments, ">&-");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {said}");
        assert!(said.contains("cannot write the output: standard output is closed"), "{said}");
        let output = shell(arguments, ">/dev/null");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        // As Python's DEVNULL opens it.
        let output = shell(arguments, "1<>/dev/null");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("list");
    let output = shell(&["hash", SAMPLE, "--save", list.to_str().expect("UTF-8")], ">&-");
    assert_eq!(output.status.code(), Some(0));
    assert!(list.exists());
    assert_eq!(shell(&["inspect", "no-such-file"], ">&-").status.code(), Some(5));
    assert_eq!(shell(&["inspect"], ">&-").status.code(), Some(2));
}

#[test]
fn no_colours_in_pipes() {
    let failing = &["inspect", "no-such-file"][..];
    for arguments in RUNS.iter().filter(|run| !run.contains(&"npy")).chain([&failing]) {
        let ran = run(arguments);
        assert!(!ran.out.contains('\u{1b}'), "{arguments:?}");
        assert!(!ran.err.contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn colours_when_asked_for() {
    let coloured = |arguments: &[&str]| run(arguments).out.contains('\u{1b}');
    assert!(coloured(&["--color", "always", "inspect", "--config", SAMPLE]));
    assert!(!coloured(&["--color", "never", "inspect", "--config", SAMPLE]));
    let forced = program(&["inspect", "--config", SAMPLE]).env("CLICOLOR_FORCE", "1").output();
    assert!(forced.expect("the program starts").stdout.contains(&0x1b));
    let refused = program(&["inspect", "--config", SAMPLE]).env("NO_COLOR", "1").output();
    assert!(!refused.expect("the program starts").stdout.contains(&0x1b));
    let ran = run(&["--color", "always", "inspect", "no-such-file"]);
    assert!(ran.err.contains('\u{1b}'));
}

/// JSON has no colours, even with `--color always`.
#[test]
fn json_has_no_colours() {
    let ran = run(&["--color", "always", "inspect", SAMPLE, "--json"]);
    assert!(!ran.out.contains('\u{1b}'));
}
