//! The program's verbs and options, as the parser of arguments knows them.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::{COMMON, Cli, help};

/// Options with a value that may come before the verb.
pub(super) const VALUED: [&str; 4] = ["--color", "--family", "--max-memory", "--threads"];

/// The program, whose verbs have their arguments once they are asked for.
#[derive(Debug)]
pub(crate) struct Program(Command);

impl Program {
    pub(crate) fn new() -> Self {
        let common = |option: Arg| option.help_heading(COMMON).hide_short_help(true);
        let mut program = Cli::command().mut_arg("color", common);
        build(&mut program);
        Self(program)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.find_subcommand(name).is_some()
    }

    /// The names of all verbs, also of those that the help does not list.
    pub(super) fn verbs(&self) -> impl Iterator<Item = &str> {
        self.0.get_subcommands().map(Command::get_name)
    }

    /// Whether an option is one of the program, which may come before the verb.
    pub(super) fn has_option(&self, option: &str) -> bool {
        ["-h", "--help", "-V", "--version"].contains(&option) || has_option(&self.0, option)
    }

    /// A verb with its arguments, and with those of its own verbs.
    pub(super) fn verb(&mut self, name: &str) -> Option<&Command> {
        let verb = self.0.find_subcommand_mut(name)?;
        build_all(verb);
        Some(verb)
    }

    /// Parses a command line that `translated` has put into the words of this program.
    pub(crate) fn parse(mut self, words: &[OsString]) -> Result<Cli, clap::Error> {
        let place = verb_place(words);
        if let Some(verb) = place.and_then(|at| self.0.find_subcommand_mut(word_at(words, at))) {
            build_all(verb);
            *verb = help::arranged_verb(std::mem::take(verb));
        }
        // Before a verb, `--help` is that of the program.
        let program = match place {
            Some(1) => self.0,
            _ => help::arranged_program(self.0),
        };
        Cli::from_arg_matches(&program.try_get_matches_from(words)?)
    }
}

/// The program with all arguments of all verbs, and its help arranged.
pub(crate) fn command() -> Command {
    let Program(mut program) = Program::new();
    build_all(&mut program);
    help::arranged(program)
}

/// Gives a command its arguments, and those of all commands to its verbs. It keeps its description, not
/// that of a group of options.
fn build(command: &mut Command) {
    let about = command.get_about().cloned().unwrap_or_default();
    // `Command::build` would also build each verb, and name it without the program in usage lines.
    let _ = command.render_usage();
    *command = std::mem::take(command).about(about).long_about(None::<&str>);
}

fn build_all(command: &mut Command) {
    build(command);
    command.get_subcommands_mut().for_each(build_all);
}

/// Whether an argument of a verb is spelled like this option.
pub(super) fn is_spelled(argument: &Arg, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(name) => {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(name) || aliases.contains(&name)
        }
        None => option.strip_prefix('-').is_some_and(|name| {
            argument.get_short().is_some_and(|short| name == short.to_string())
        }),
    }
}

/// Whether a verb has an option.
pub(super) fn has_option(verb: &Command, option: &str) -> bool {
    verb.get_arguments().any(|argument| is_spelled(argument, option))
}

/// Whether an option takes the next word as its value.
pub(super) fn takes_value(verb: &Command, option: &str) -> bool {
    let mut named = verb.get_arguments().filter(|argument| is_spelled(argument, option));
    named.any(|it| it.get_action().takes_values() && !it.is_require_equals_set())
}

/// Whether a word is an option, perhaps with its value behind `=`, and not a text such as `- one`.
pub(super) fn is_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    name.starts_with('-') && word.len() > 1 && !name.contains(char::is_whitespace)
}

/// The first option from a place on that a verb does not have. The parser would blame another word.
pub(super) fn unknown_option<'w>(
    verb: &Command,
    words: &'w [OsString],
    from: usize,
) -> Option<&'w str> {
    let mut place = from;
    while let Some(word) = words.get(place) {
        match word.to_str().unwrap_or_default() {
            "--" => return None,
            "-h" | "--help" => {}
            option if is_option(option) => {
                let name = option.split('=').next().unwrap_or(option);
                // `-fa` may be two options, and `-1` is a number.
                let short = name.get(..2).filter(|_| !name.starts_with("--")).unwrap_or(name);
                let is_number = option.parse::<f64>().is_ok();
                if !is_number && !has_option(verb, name) && !has_option(verb, short) {
                    return Some(name);
                }
                place += usize::from(takes_value(verb, option));
            }
            _ => {}
        }
        place += 1;
    }
    None
}

/// The word at a place, if it is UTF-8.
pub(super) fn word_at(words: &[OsString], place: usize) -> &str {
    words.get(place).and_then(|word| word.to_str()).unwrap_or_default()
}

/// The place of the first word that is no option.
pub(super) fn verb_place(words: &[OsString]) -> Option<usize> {
    let mut place = 1;
    while let Some(word) = words.get(place) {
        match word.to_str() {
            Some("--") => return None,
            Some(option) if VALUED.contains(&option) => place += 2,
            Some(option) if option.starts_with('-') && option.len() > 1 => place += 1,
            _ => return Some(place),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::translated;

    /// The words of a line of a shell, up to a comment, a pipe or a redirection.
    fn words(line: &str) -> Vec<OsString> {
        let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
        for letter in line.chars() {
            match letter {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                '|' | '>' | '&' | '#' if !quoted && word.is_none() => break,
                ' ' if !quoted => words.extend(word.take()),
                letter => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words.into_iter().map(OsString::from).collect()
    }

    fn check(line: &str) {
        if line.contains('$') {
            return;
        }
        let line = words(line.split("   ").next().unwrap_or_default());
        let mut program = Program::new();
        let translated = translated(&mut program, &line).unwrap_or_else(|_| panic!("{line:?}"));
        if let Err(error) = program.parse(&translated) {
            assert!(!error.use_stderr(), "{line:?}: {error}");
        }
    }

    fn check_examples(command: &clap::Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("  weighbridge ")) {
            check(line.trim());
        }
        command.get_subcommands().for_each(check_examples);
    }

    /// Each example of the help, and each command of README.md, is a command line of this program.
    #[test]
    fn examples_are_command_lines() {
        check_examples(&command());
        let readme = include_str!("../../../README.md");
        let mut commands = 0;
        for line in readme.lines().filter(|line| line.starts_with("weighbridge ")) {
            check(line);
            commands += 1;
        }
        assert!(commands >= 10, "{commands}");
    }
}
