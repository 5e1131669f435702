//! Failures of the parser in the words that were typed, with what to type instead.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::foreign;
use super::foreign::Meaning::{Is, Moved, Near, Says};
use super::help;
use super::kinds;
use super::names::{TargetType, float_name};
use super::program::{
    command, has_option, is_spelled, unknown_option as unknown_word, verb_place, word_at,
};
use super::verbs::dashed;
use super::words::{is_of_another, meaning};
use crate::failure::Failure;
use crate::spelling;

/// The parser's message with the options as they were typed: `-o`, not `--dst`.
pub(crate) fn as_typed(message: &str, typed: &[OsString], words: &[OsString]) -> String {
    let program = command();
    let (verb, name) = called(&program, words);
    let mut message = message.to_owned();
    for option in typed.iter().filter_map(|word| word.to_str()?.split('=').next()) {
        let has = |option: &str| has_option(verb, option);
        let alias = verb.get_arguments().find(|argument| is_spelled(argument, option));
        let own = alias.and_then(clap::Arg::get_long).map(|long| format!("--{long}"));
        let here = match meaning(&name, option, has) {
            Some(Is(here)) => Some(here.split('=').next().unwrap_or(here).to_owned()),
            _ => own.filter(|own| own != option && option.starts_with('-')),
        };
        let Some(here) = here.filter(|here| !kinds::has(typed, &[here])) else { continue };
        for end in [" ", "'", "\n"] {
            message = message.replace(&format!("{here}{end}"), &format!("{option}{end}"));
        }
    }
    message
}

/// An example of the help of the command that the words call: the first that has most of the words in the name that was
/// typed, as `--lora` for `llama-export-lora`.
pub(crate) fn example(typed: &[OsString], words: &[OsString]) -> Option<String> {
    let program = command();
    let (verb, _) = called(&program, words);
    let name = dashed(verb_place(typed).map_or("", |at| word_at(typed, at)));
    let text = verb.get_after_help()?.to_string();
    let lines: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  weighbridge ")).collect();
    let has = |line: &str| {
        let parts: Vec<&str> = line.split(|it: char| !it.is_alphanumeric()).collect();
        name.split(['-', '.', ' ']).filter(|word| parts.contains(word)).count()
    };
    let line = lines.into_iter().rev().max_by_key(|line| has(line))?;
    let line = line.split("   ").next().unwrap_or(line).trim();
    Some(format!("for example `weighbridge {line}`"))
}

/// The command that the words call, and its name without the program's.
fn called<'p>(program: &'p clap::Command, words: &[OsString]) -> (&'p clap::Command, String) {
    let (mut command, mut name) = (program, Vec::new());
    for place in 1..words.len() {
        if let Some(verb) = command.find_subcommand(word_at(words, place)) {
            command = verb;
            name.push(verb.get_name());
        }
    }
    (command, name.join(" "))
}

/// The failure of an option that a verb lacks. The parser's own tips are often wrong: an option that
/// shares some letters, or the option as a value.
pub(crate) fn unknown_option(
    error: &clap::Error,
    typed: &[OsString],
    words: &[OsString],
) -> Option<Failure> {
    if !error.use_stderr() {
        return None;
    }
    let program = command();
    let (command, name) = called(&program, words);
    let from = verb_place(words).map_or(1, |at| at + name.split(' ').count());
    let found = unknown_word(command, words, from);
    let parsed = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if option.starts_with('-') => Some(option.as_str()),
        _ => None,
    };
    let is_other = error.kind() != ErrorKind::UnknownArgument && found.is_none();
    if is_other {
        return None;
    }
    // The parser takes `-fa` for two options.
    let is_whole = |word: &&str| {
        parsed.is_some_and(|option| word.starts_with(option)) && !word.starts_with("--")
    };
    let whole = words.iter().filter_map(|word| word.to_str()).find(is_whole);
    let whole = whole.map(|word| word.split('=').next().unwrap_or(word));
    let option = found.or(whole).or(parsed)?;
    let names = command.get_arguments().filter_map(clap::Arg::get_long).collect::<Vec<_>>();
    let word = option.trim_start_matches('-');
    let mut starting =
        names.iter().copied().filter(|name| word.len() > 1 && name.starts_with(word));
    let started = starting.next().filter(|_| starting.next().is_none());
    let is_file = || Path::new(option).exists().then(|| format!("a file: ./{option}"));
    let near = started.or_else(|| {
        spelling::nearest(word, names.iter().copied(), |name| spelling::distance(word, name))
    });
    let near = near.filter(|_| !is_of_another(option)).or_else(|| near_alias(&name, word));
    let own = verb_place(typed).map(|at| word_at(typed, at)).filter(|verb| help::is_verb(verb));
    let verb = match (name.as_str(), own) {
        ("", _) => "weighbridge",
        // `convert SRC Q4_K_M` is `quantize`.
        (name, Some(own)) if !name.starts_with(own) => own,
        (name, _) => name,
    };
    let key = || {
        let set = format!("`weighbridge meta set FILE {}=VALUE`", word.replace('-', "_"));
        (name == "meta set").then(|| format!("a key and its value are an argument: {set}"))
    };
    let advice = match is_file()
        .or_else(|| near.map(|near| format!("did you mean --{near}?")))
        .or_else(key)
        .or_else(|| elsewhere(&program, option, verb))
        .or_else(|| typed_type(command, word))
        .or_else(|| suited(command, word))
        .or_else(|| as_verb(option, verb))
    {
        Some(said) => said,
        None if name.is_empty() => "`weighbridge help` lists the commands and options".to_owned(),
        None => format!("`weighbridge help {verb}` lists its options"),
    };
    Some(Failure::advised(format!("`{verb}` has no option {option}"), advice))
}

/// The option of another program that means one of a verb here, and that a word is a slip of: `--outype`.
fn near_alias(verb: &str, word: &str) -> Option<&'static str> {
    let rows =
        foreign::options().filter(|(of, _, meaning)| *of == verb && matches!(meaning, Is(_)));
    let names = rows.flat_map(|(_, words, _)| words.split('|'));
    let names =
        names.filter_map(|name| name.strip_prefix("--")).filter(|name| !name.contains(['*', '=']));
    spelling::nearest(word, names, |name| spelling::distance(word, name))
        .filter(|_| !is_of_another(word))
}

/// The verb that is spelled like an option, or the verbs that have the option.
fn elsewhere(program: &clap::Command, option: &str, typed: &str) -> Option<String> {
    let word = option.strip_prefix("--")?;
    let named = |verb: &str| program.find_subcommand(verb).filter(|it| !it.is_hide_set());
    if named(word).is_some() && word != typed {
        return Some(format!("`weighbridge {word} ...` is a command of its own"));
    }
    let verbs = program.get_subcommands().filter(|verb| !verb.is_hide_set());
    let having =
        verbs.filter(|verb| has_option(verb, option)).map(|verb| format!("`{}`", verb.get_name()));
    let having: Vec<String> = having.collect();
    let has = if having.len() > 1 { "have" } else { "has" };
    (1..=3).contains(&having.len()).then(|| format!("{} {has} {option}", having.join(", ")))
}

/// A type with the dashes of an option: `--q4_k_m`.
fn typed_type(command: &clap::Command, word: &str) -> Option<String> {
    let found = TargetType::find(&word.replace('-', "_"))?.ok()?;
    if has_option(command, "--type") {
        return Some(format!("without the dashes: {}", found.label()));
    }
    has_option(command, "--dtype").then(|| format!("did you mean --dtype {}?", found.label()))
}

/// The meaning of an option's word as a verb: `--list-devices`. It may be the verb that was typed.
fn as_verb(option: &str, typed: &str) -> Option<String> {
    match foreign::verb(option.strip_prefix("--")?)?.1 {
        Is(here) if here == typed => Some(format!("leave it out: `weighbridge {here}` shows it")),
        Is(here) | Moved(here) | Near(here, _) if !here.contains("--") => {
            Some(format!("`weighbridge {here}` is a command of its own"))
        }
        Says(what) => Some(what.to_owned()),
        _ => None,
    }
}

/// The option of a verb that an unknown one may mean: one with this value, or one whose help has the word.
fn suited(verb: &clap::Command, word: &str) -> Option<String> {
    let own = || {
        let arguments = verb.get_arguments();
        arguments.filter(|it| it.get_help_heading() != Some(super::COMMON) && !it.is_hide_set())
    };
    let value = float_name(word).unwrap_or(word);
    let with_value = own().find_map(|argument| {
        let values = argument.get_possible_values();
        let is_value = values.iter().any(|it| it.get_name().eq_ignore_ascii_case(value));
        argument.get_long().filter(|_| is_value)
    });
    if let Some(long) = with_value {
        return Some(format!("did you mean --{long} {value}?"));
    }
    let stem = |word: &str| word.trim_end_matches('s').to_ascii_lowercase();
    let has_word = |text: &str| {
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.any(|it| stem(it) == stem(word))
    };
    let help =
        |argument: &clap::Arg| argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut with_word = own().filter(|it| it.get_long().is_some() && has_word(&help(it)));
    let (first, second) = (with_word.next()?, with_word.next());
    let sentence = help(first).split(['.', ';', ':']).next().unwrap_or_default().to_owned();
    let is_one = second.is_none() && word.len() > 2;
    is_one.then(|| format!("--{} may be meant: {sentence}", first.get_long().unwrap_or_default()))
}
