//! The examples of README.md show what the program prints.
#![allow(clippy::disallowed_methods, reason = "README.md is no input")]

mod support;

use support::{printed, root, run};

/// Examples of reports that have no times in them. Their headers are whole; tables may be shortened.
#[test]
fn examples_are_true() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let blocks = readme.split("```").skip(1).step_by(2);
    let mut checked = 0;
    for block in blocks.filter_map(|block| block.strip_prefix("text\n$ cargo run --release -- ")) {
        let (command, shown) = block.split_once('\n').expect("a command and its output");
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let generates = arguments.first() == Some(&"generate");
        let fixed = arguments.first() == Some(&"inspect") || arguments.contains(&"--dry-run");
        // A note about the speed is on standard error.
        let output = match (generates, fixed) {
            (true, _) => run(&arguments).out,
            (_, true) => printed(&arguments),
            _ => continue,
        };
        let header =
            |text: &str| text.split_once("\n\n").map_or("", |(header, _)| header).to_owned();
        assert_eq!(header(shown), header(&output), "{command}");
        let mut lines = output.lines();
        for line in shown.lines() {
            assert!(lines.any(|printed| printed == line), "{command} does not print: {line}");
        }
        checked += 1;
    }
    assert!(checked >= 5, "{checked} examples");
}

/// The example that writes a file, without its last line, which has a time.
#[test]
fn what_is_written_is_as_shown() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let name = "tales-Q4_K_M.gguf";
    let command =
        format!("$ cargo run --release -- quantize assets/sample/hf {name} --type Q4_K_M\n");
    let (_, shown) = readme.split_once(&command).expect("the example");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let path = path.to_str().expect("UTF-8");
    let printed = printed(&["quantize", "assets/sample/hf", path, "--type", "Q4_K_M"]);
    let shown: Vec<_> = shown.lines().take_while(|line| !line.starts_with("written")).collect();
    let printed = printed.replace(path, name);
    assert_eq!(shown, printed.lines().take(shown.len()).collect::<Vec<_>>());
    assert!(shown.len() >= 2, "{shown:?}");
}
