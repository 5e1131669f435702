//! The help: verbs in groups, one screen with `-h`, everything with `--help`.

use clap::Command;

use crate::spelling;

/// The verbs of each group, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    ("Look", &["inspect", "view", "diff", "dump", "quality", "memory"]),
    ("Check", &["verify"]),
    ("Make", &["convert", "quantize", "merge", "split", "meta"]),
    ("Get", &["pull", "models", "create"]),
    ("More", &["demo", "job", "run", "bench", "list", "completions", "man", "help"]),
];

/// The listed verbs.
fn verbs() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied())
}

/// Whether a word is a listed verb.
pub(super) fn is_verb(word: &str) -> bool {
    verbs().any(|verb| verb == word)
}

/// The verb that a word is a slip of.
pub(super) fn nearest_verb(word: &str) -> Option<&'static str> {
    spelling::nearest(word, verbs(), |verb| spelling::distance(word, verb))
}

/// Arranges the help of the program and of its verbs.
pub(super) fn arranged(program: Command) -> Command {
    arranged_program(with_verbs_arranged(program))
}

/// Arranges the help of the program alone.
pub(super) fn arranged_program(program: Command) -> Command {
    let list = listed(&program);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\nOptions:\n{{options}}{{after-help}}"
    );
    shortened(program).help_template(template)
}

/// Arranges the help of a verb, and of its own verbs.
pub(super) fn arranged_verb(verb: Command) -> Command {
    shortened(with_verbs_arranged(verb))
}

fn with_verbs_arranged(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, arranged_verb))
}

/// Leaves only the examples after the options of `-h`. The lines of a paragraph are joined, since
/// the terminal may be narrower.
fn shortened(command: Command) -> Command {
    let Some(text) = command.get_after_help().map(ToString::to_string) else { return command };
    let joined = |block: &str| match block.lines().any(|line| line.starts_with(' ')) {
        true => block.to_owned(),
        false => block.replace('\n', " "),
    };
    let blocks: Vec<String> = text.split("\n\n").map(joined).map(fitted).collect();
    let examples = blocks.iter().find(|block| block.starts_with("Examples:")).cloned();
    command.after_help(examples.unwrap_or_default()).after_long_help(blocks.join("\n\n"))
}

/// Examples with their remarks on lines of their own, if one does not fit the terminal.
fn fitted(block: String) -> String {
    let width = columns();
    if block.lines().all(|line| line.chars().count() <= width) || !block.starts_with("Examples:") {
        return block;
    }
    let lines = block.lines().map(|line| match line.split_once("   ") {
        Some((command, remark)) if remark.trim_start().starts_with('#') => {
            format!("{command}\n      {}", remark.trim_start())
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The columns of the help, as clap counts them.
fn columns() -> usize {
    let size = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    size.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok()).unwrap_or(100).min(100)
}

/// The verbs in their groups.
fn listed(program: &Command) -> String {
    let width = columns();
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        let mut label = *group;
        for name in *verbs {
            let about = match program.find_subcommand(name) {
                Some(verb) => verb.get_about().map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Show all options of a command".to_owned(),
                None => continue,
            };
            text += &crate::print::paragraph(&format!("{label:<7}{name:<13}{about}"), width, 20);
            label = "";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::program::command;

    #[test]
    fn every_verb_is_in_one_group() {
        let program = command();
        for verb in program.get_subcommands() {
            let count = verbs().filter(|name| *name == verb.get_name()).count();
            let expected = usize::from(!verb.is_hide_set());
            assert_eq!(count, expected, "{}", verb.get_name());
        }
        for name in verbs().filter(|name| *name != "help") {
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let near = nearest_verb;
        assert_eq!(near("inpsect"), Some("inspect"));
        assert_eq!(near("quantise"), Some("quantize"));
        assert_eq!(near("verfy"), Some("verify"));
        for word in ["serve", "delete", "version", "stats", "frobnicate"] {
            assert_eq!(near(word), None, "{word}");
        }
    }
}
