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
