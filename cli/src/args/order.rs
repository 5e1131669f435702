//! Arguments in the order of other programs, and arguments that say which verb is meant.
#![allow(clippy::result_large_err, reason = "an error ends the program")]

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueEnum};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::target;
use weighbridge::{Error, ErrorKind};

use super::Listing;
use super::faults::{PROMPTS, refused};
use super::kinds::{
    has, has_tensor, is_adapter, is_container, is_file_model, is_known, is_number,
    is_of_repository, is_place, is_repository, is_set, is_text_file, is_type, is_type_name,
    is_unit, value_of,
};
use super::names::float_name;
use super::program::{Program, is_option, is_spelled, takes_value, unknown_option, word_at};
use super::values::{is_program, sha256, size_for_path};
use crate::failure::{Failure, note};

/// Adds the second word of a verb that has verbs, if it was left out: `run MODEL PROMPT` is `run generate
/// MODEL --chat --prompt PROMPT`, as for Ollama, `meta FILE KEY` is `meta get FILE KEY`, and `list` is `models`.
pub(super) fn complete(program: &mut Program, words: &mut Vec<OsString>, at: usize) {
    let next = word_at(words, at + 1).to_owned();
    let is_help = ["-h", "--help"].contains(&next.as_str());
    let has_word = !next.is_empty() && !next.starts_with('-');
    let verb = program.verb(word_at(words, at));
    let is_complete = verb.is_some_and(|verb| verb.find_subcommand(&next).is_some());
    let is_verb = |word: &OsString| verb.is_some_and(|verb| verb.find_subcommand(word).is_some());
    let names_verb = words.iter().skip(at + 1).any(is_verb);
    match word_at(words, at) {
        // `run MODEL PROMPT`, `run -m MODEL -p PROMPT`.
        "run" if has_word && !is_complete || next.starts_with('-') && !is_help && !names_verb => {
            let chat = (!has(words, &TOKENS)).then(|| OsString::from("--chat"));
            words.splice(at + 1..at + 1, [OsString::from("generate")].into_iter().chain(chat));
        }
        "meta"
            if has_word
                && !is_complete
                && (is_known(&next) || !is_known(word_at(words, at + 2))) =>
        {
            let is_setting = |word: &str| !word.starts_with('-') && word.contains('=');
            let sets = words.iter().skip(at + 2).any(|word| word.to_str().is_some_and(is_setting));
            words.insert(at + 1, if sets { "set" } else { "get" }.into());
        }
        "list" if !has_word && !is_help => {
            words.splice(at..=at, ["models".into()]);
        }
        "list" if Listing::from_str(&next, true).is_err() && Path::new(&next).exists() => {
            let verb = if Path::new(&next).is_file() { "inspect" } else { "models" };
            words.splice(at..=at, [verb.into()]);
        }
        _ => {}
    }
}

/// Words of a sentence that no argument is: `convert SRC to DST`, `compare A with B`.
const SMALL: [&str; 9] = ["and", "as", "from", "in", "into", "me", "the", "to", "with"];

/// Verbs whose arguments are models, files and types.
const JOINING: [&str; 13] = [
    "convert", "create", "diff", "dump", "inspect", "memory", "merge", "pull", "quality",
    "quantize", "show", "split", "verify",
];

/// Options with which `run generate` continues tokens or a spectrum, not a prompt.
const TOKENS: [&str; 3] = ["--ids", "--encoder-ids", "--features"];

/// Bytes that a prompt on standard input may have.
const LONGEST: u64 = 16 << 20;

/// The text on standard input, if it is not a terminal and there is any.
fn piped() -> Result<Option<String>, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() { Ok(None) } else { read_input() }
}

/// The text on standard input, if there is any.
fn read_input() -> Result<Option<String>, Failure> {
    let input = std::io::stdin();
    let mut text = String::new();
    let read = input.lock().take(LONGEST + 1).read_to_string(&mut text);
    if read.is_err() || text.len() as u64 > LONGEST {
        let fault = "standard input is no prompt: it is not UTF-8 text, or exceeds 16 MiB";
        return Err(Failure::advised(fault.to_owned(), "`--prompt TEXT` gives one".to_owned()));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// Verbs of `run` that read a text from the file of `-f`, as llama.cpp's programs do: the option of a text, and whether
/// each line is one.
const FROM_FILES: [(&str, &str, bool); 3] =
    [("embed", "--text", true), ("generate", "--prompt", false), ("tokens", "--text", false)];

/// Puts the text of a file, or one for each line, for the option `-f` of a verb of `run`.
pub(super) fn text_of_file(words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    let verb = FROM_FILES.iter().find(|(verb, ..)| *verb == word_at(words, at + 1));
    let Some((_, option, by_line)) = verb else { return Ok(()) };
    let names_file = |place: &usize| {
        ["-f", "--file"].contains(&word_at(words, *place)) && !is_option(word_at(words, place + 1))
    };
    let mut places = at..words.len().saturating_sub(1);
    let Some(place) = places.find(names_file) else { return Ok(()) };
    let file = std::fs::File::open(&words[place + 1]);
    let read = file.and_then(|file| {
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).map(|_| text)
    });
    let path = Path::new(&words[place + 1]);
    let text = read.map_err(|error| {
        let error = match error.kind() {
            std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, "no such file"),
            _ => Error::io("cannot read the file", error),
        };
        Failure::from(&error.in_file(path))
    })?;
    let lines = match by_line {
        true => text.lines().filter(|line| !line.is_empty()).collect(),
        false => vec![text.strip_suffix('\n').unwrap_or(&text)],
    };
    let texts: Vec<OsString> =
        lines.into_iter().map(|line| format!("{option}={line}").into()).collect();
    words.splice(place..=place + 1, texts);
    Ok(())
}

/// Turns escapes in the texts of a verb of `run` into the characters that they stand for.
pub(super) fn unescape(words: &mut [OsString], at: usize) {
    const TEXTS: [&str; 3] = ["--prompt", "--text", "--stop"];
    if word_at(words, at) != "run" {
        return;
    }
    for place in at..words.len() {
        let word = word_at(words, place);
        let joined = word.split_once('=').filter(|(option, _)| TEXTS.contains(option));
        let escaped = match joined {
            Some((option, text)) => format!("{option}={}", unescaped(text)),
            None if TEXTS.contains(&word_at(words, place - 1)) => unescaped(word),
            None => continue,
        };
        if escaped != word {
            words[place] = escaped.into();
        }
    }
}

/// A text with its escapes as characters. What is no escape stays as it is.
fn unescaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        escaped.push_str(before);
        let hex = after.strip_prefix('x').and_then(|it| it.get(..2));
        let code = hex.and_then(|it| u8::from_str_radix(it, 16).ok()).filter(u8::is_ascii);
        let first = after.chars().next();
        let (character, length) = match (first, code) {
            (Some('x'), Some(code)) => (char::from(code), 3),
            (Some('n'), _) => ('\n', 1),
            (Some('r'), _) => ('\r', 1),
            (Some('t'), _) => ('\t', 1),
            (Some(same @ ('\\' | '\'' | '"')), _) => (same, 1),
            _ => ('\\', 0),
        };
        escaped.push(character);
        rest = after.get(length..).unwrap_or_default();
    }
    escaped + rest
}

/// Puts commas into lists of tokens as other programs print them, `[1, 2]`, and notes texts that are names of files.
pub(super) fn lists(words: &mut [OsString], at: usize) {
    const LISTS: [&str; 3] = ["--ids", "--encoder-ids", "--token-type-ids"];
    const TEXTS: [&str; 3] = ["--prompt", "--system", "--text"];
    if word_at(words, at) != "run" {
        return;
    }
    for place in at..words.len() {
        let word = word_at(words, place);
        let (option, value) = word.split_once('=').unwrap_or((word_at(words, place - 1), word));
        let is_part = |it: char| it.is_ascii_digit() || "[], ".contains(it);
        if LISTS.contains(&option) && value.chars().all(is_part) {
            let parts = value.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty());
            let list = parts.collect::<Vec<_>>().join(",");
            words[place] = (word[..word.len() - value.len()].to_owned() + &list).into();
        } else if TEXTS.contains(&option) {
            let file = value.strip_prefix('@').unwrap_or(value);
            if Path::new(file).is_file() {
                note(&format!(
                    "the text is \"{value}\"; write \"$(cat {file})\" for what that file holds"
                ));
            }
        }
    }
}

/// Puts the text on standard input for the text `-` of a verb of `run`.
pub(super) fn from_input(words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    const TEXTS: [&str; 2] = ["--prompt", "--text"];
    if word_at(words, at) != "run" {
        return Ok(());
    }
    let is_input = |place: &usize| match word_at(words, *place).split_once('=') {
        Some((option, value)) => TEXTS.contains(&option) && value == "-",
        None => TEXTS.contains(&word_at(words, *place)) && word_at(words, place + 1) == "-",
    };
    let Some(place) = (at..words.len()).find(is_input) else { return Ok(()) };
    let Some(text) = read_input()? else {
        let advice = "`echo TEXT |` in front of the command gives it one";
        return Err(Failure::advised("standard input is empty".to_owned(), advice.to_owned()));
    };
    let word = word_at(words, place);
    let (option, last) = match word.split_once('=') {
        Some((option, _)) => (option, place),
        None => (word, place + 1),
    };
    let given = format!("{option}={text}");
    words.splice(place..=last, [given.into()]);
    Ok(())
}

/// Puts the arguments of a verb in the order of this program. Its options are those of this program.
pub(super) fn arrange(
    program: &mut Program,
    words: &mut Vec<OsString>,
    at: usize,
) -> Result<(), Failure> {
    let Some(mut verb) = program.verb(word_at(words, at)) else { return Ok(()) };
    let (mut name, mut from) = (verb.get_name().to_owned(), at + 1);
    if let Some(inner) = verb.find_subcommand(word_at(words, from)) {
        (verb, from) = (inner, from + 1);
        name = format!("{name} {}", inner.get_name());
    }
    // Its value may be an argument, or not.
    if unknown_option(verb, words, from).is_some() {
        return Ok(());
    }
    if name == "quantize" {
        threads(verb, words, from);
    }
    if name == "pull" {
        patterns(verb, words, from);
    } else if !name.starts_with("run ") {
        // There, it is a prompt.
        repeated(verb, words, from);
    }
    let mut places = arguments(verb, words, from);
    if JOINING.contains(&name.as_str()) {
        let is_small = |place: &&usize| {
            let word = word_at(words, **place);
            SMALL.contains(&word) && !is_known(word)
        };
        let small: Vec<usize> = places.iter().filter(is_small).rev().copied().collect();
        small.into_iter().for_each(|place| drop(words.remove(place)));
        places = arguments(verb, words, from);
    }
    match (name.as_str(), places.as_slice()) {
        // `8 GB`.
        ("memory", [.., number, unit])
            if is_number(word_at(words, *number)) && is_unit(word_at(words, *unit)) =>
        {
            let size = format!("{}{}", word_at(words, *number), word_at(words, *unit));
            words.splice(*number..=*unit, [size.into()]);
            places = arguments(verb, words, from);
        }
        // Any shard stands for all.
        ("verify", [first, .., last]) if is_set(words, &places) => {
            words.drain(first + 1..=*last);
            places.truncate(1);
        }
        _ => {}
    }
    if let ("merge", [first, second, ..]) = (name.as_str(), places.as_slice())
        && is_adapter(word_at(words, *first))
        && (places.len() > 2 || has(words, &["--dst"]) || is_known(word_at(words, *second)))
    {
        words.swap(*first, *second);
    }
    if let ("run generate", [_]) = (name.as_str(), places.as_slice())
        && !has(words, &PROMPTS)
        && let Some(prompt) = piped()?
    {
        words.push(format!("--prompt={prompt}").into());
    }
    refused(&name, words, &places)?;
    if let Some((place, option)) = option_of(&name, words, &places) {
        words.insert(place, option.into());
        return Ok(());
    }
    if places.is_empty() && without_model(&name, words, at) {
        return Ok(());
    }
    if let ("dump", [_]) = (name.as_str(), places.as_slice())
        && words.len() == from + 1
    {
        words.splice(at..=at, ["inspect".into(), "--metadata".into()]);
        return Ok(());
    }
    rearrange(&name, words, at, &places)
}

/// Puts the option before the last argument of llama-quantize, the number of threads, if it follows a type.
fn threads(verb: &Command, words: &mut Vec<OsString>, from: usize) {
    if let [.., kind, number] = arguments(verb, words, from).as_slice()
        && is_type(word_at(words, *kind))
        && is_number(word_at(words, *number))
    {
        words.insert(*number, "--threads".into());
    }
}

/// Puts the words for a verb without a model: `verify --hub ORG/NAME` checks the one in the hub's cache, and
/// `quantize --list-types` is `list types`. Returns whether it is one of these.
fn without_model(name: &str, words: &mut Vec<OsString>, at: usize) -> bool {
    match name {
        "verify" => {
            let hub = value_of(words, &["--hub"]).map(OsString::from);
            let is_given = hub.is_some();
            words.extend(hub);
            is_given
        }
        "quantize" => {
            let list = words.iter().position(|word| word == "--list-types");
            if let Some(list) = list {
                words.remove(list);
                words.splice(at..=at, ["list".into(), "types".into()]);
            }
            list.is_some()
        }
        _ => false,
    }
}

/// Puts the arguments of a verb in their order, and the verb that they mean. They are at these places.
fn rearrange(
    name: &str,
    words: &mut Vec<OsString>,
    at: usize,
    places: &[usize],
) -> Result<(), Failure> {
    if name == "meta set" && copied(words, places) {
        return Ok(());
    }
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    match (name, places) {
        ("convert", _) => quantized(words, at, places),
        ("quantize", [first, .., last]) if is_type(nth(0)) => {
            // The type comes last.
            let target = words.remove(*first);
            words.insert(*last, target);
        }
        ("quantize", [_, first, second]) if is_type(nth(1)) && !is_type(nth(2)) => {
            words.swap(*first, *second);
        }
        ("merge", _) => merged(words, at, places)?,
        ("meta set", [_, pairs @ ..])
            if pairs.len().is_multiple_of(2)
                && !pairs.iter().step_by(2).any(|key| word_at(words, *key).contains('=')) =>
        {
            for pair in pairs.chunks_exact(2).rev() {
                let value = words.remove(pair[1]);
                words[pair[0]].push("=");
                words[pair[0]].push(value);
            }
        }
        // `get FILE KEY`.
        ("pull", [_, _, ..]) if Path::new(nth(0)).is_file() => {
            words.splice(at..=at, ["meta".into(), "get".into()]);
        }
        // LM Studio's way to name the type.
        ("pull", [name]) if is_type_name(after_at(nth(0))) => {
            words[*name] = nth(0).replacen('@', ":", 1).into();
        }
        ("pull", [name, target]) if is_type(nth(1)) => {
            let named = format!("{}:{}", nth(0), nth(1));
            words.remove(*target);
            words[*name] = named.into();
        }
        ("pull", [_, files @ ..])
            if is_repository(nth(0))
                && files.iter().all(|file| is_of_repository(word_at(words, *file))) =>
        {
            files.iter().rev().for_each(|file| words.insert(*file, "--include".into()));
        }
        ("show", [_, ..]) if is_file_model(nth(0)) => show_file(words, at),
        ("models", [_, ..])
            if places.iter().all(|it| is_known(word_at(words, *it)))
                && places.iter().any(|it| Path::new(word_at(words, *it)).is_file()) =>
        {
            words.splice(at..=at, ["inspect".into()]);
        }
        ("meta get", [first, second]) if !is_known(nth(0)) && Path::new(nth(1)).is_file() => {
            words.swap(*first, *second);
        }
        ("dump" | "inspect", [first, second])
            if !Path::new(nth(0)).exists() && has_tensor(nth(1), nth(0)) =>
        {
            words.swap(*first, *second);
        }
        ("diff", [_, _, tensor]) => words.insert(*tensor, "--filter".into()),
        ("run embed", [_, texts @ ..]) => {
            for text in texts {
                let text = &mut words[*text];
                *text = format!("--text={}", text.to_string_lossy()).into();
            }
        }
        ("run generate", [_, prompt @ ..]) if !has(words, &["--prompt"]) => {
            prompted(words, prompt);
        }
        _ => {}
    }
    Ok(())
}

/// `show FILE` is `inspect FILE`. The template and the license are keys of a file; the rest of what `show` prints is
/// stored with models of Ollama alone, which it says itself.
fn show_file(words: &mut Vec<OsString>, at: usize) {
    let keys = [("--template", "chat_template"), ("--license", "license")];
    if let Some((option, key)) = keys.iter().find(|(option, _)| has(words, &[option])) {
        words.retain(|word| word != option);
        words.splice(at..=at, ["meta", "get"].map(OsString::from));
        words.push(key.into());
    } else if !has(words, &["--modelfile", "--parameters", "--system"]) {
        words[at] = "inspect".into();
    }
}

/// Puts the settings of `meta set SRC DST KEY=VALUE` after its files, and the option before DST. Returns whether there
/// is a DST.
fn copied(words: &mut Vec<OsString>, places: &[usize]) -> bool {
    let is_setting = |place: &&usize| word_at(words, **place).contains('=');
    let (settings, files): (Vec<usize>, Vec<usize>) = places.iter().partition(is_setting);
    let [src, dst] = files[..] else { return false };
    if settings.is_empty() && !has(words, &["--remove"])
        || has(words, &["-o", "--output"])
        || !word_at(words, dst).ends_with(".gguf")
    {
        return false;
    }
    let mut ordered = vec![words[src].clone(), "--output".into(), words[dst].clone()];
    ordered.extend(settings.iter().map(|place| words[*place].clone()));
    let first = places[0];
    places.iter().rev().for_each(|place| drop(words.remove(*place)));
    words.splice(first..first, ordered);
    true
}

/// The text after an `@`: a revision, or for LM Studio a type of GGUF.
fn after_at(name: &str) -> &str {
    let end = name.split_once('@').map_or("", |(_, end)| end);
    if FileType::from_name(end).is_some() { end } else { "" }
}

/// The argument that is the value of an option here: its place, and the option.
fn option_of(name: &str, words: &[OsString], places: &[usize]) -> Option<(usize, &'static str)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    let last = places.last().copied()?;
    let word = word_at(words, last);
    let is_new = !Path::new(word).exists();
    let option = match (name, places.len()) {
        ("convert", 2) if is_container(word) && !has(words, &["--to"]) => "--to",
        ("convert", 2) if is_new && float_name(word).is_some() && !has(words, &["--dtype"]) => {
            "--dtype"
        }
        ("dump", 3) if !has(words, &["-o", "--output"]) => "--output",
        ("inspect", 2) if is_new && word.contains('*') && is_known(nth(0)) => "--filter",
        ("memory", 2..) | ("split", 3) if size_for_path(Path::new(word)).is_some() => {
            if name == "split" { "--max-shard-size" } else { "--room" }
        }
        ("pull", 2) if is_place(word) => "--output",
        ("models", _)
            if is_new && !word.starts_with(['.', '/', '~']) && !is_program(Path::new(word)) =>
        {
            "--filter"
        }
        ("view", 2..) if is_new && word.ends_with(".html") => "--output",
        ("quality", 2..) if is_text_file(word) && !has(words, &["--text"]) => "--text",
        // After what is no type.
        ("quantize", 4) if is_number(word) => "--threads",
        ("run tokens", 2) => "--text",
        ("verify", 2) if sha256(word).is_ok() => "--sha256",
        _ => return None,
    };
    Some((last, option))
}

/// Makes a prompt of words, which may have no quotes, as for `ollama run`.
fn prompted(words: &mut Vec<OsString>, places: &[usize]) {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
    if last - first + 1 == places.len() {
        let text = words[*first..=*last].join(OsStr::new(" "));
        let mut prompt = OsString::from("--prompt=");
        prompt.push(text);
        // After `--`, it would be an argument.
        let from = first - usize::from(word_at(words, first - 1) == "--");
        words.splice(from..=*last, [prompt]);
    }
}

/// `merge MODEL ADAPTER DST` is `convert --lora`; of the shards of one model, one is enough.
fn merged(words: &mut Vec<OsString>, at: usize, places: &[usize]) -> Result<(), Failure> {
    // `merge MODEL DST --lora ADAPTER`.
    if let [_, dst, adapter] = places
        && is_adapter(word_at(words, *adapter))
        && !Path::new(word_at(words, *dst)).exists()
    {
        words.swap(*dst, *adapter);
    }
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    match places {
        [_, adapters @ .., _]
            if adapters.len() > 1 && adapters.iter().all(|it| is_adapter(word_at(words, *it))) =>
        {
            adapters.iter().rev().for_each(|adapter| words.insert(*adapter, "--lora".into()));
            words.splice(at..=at, ["convert".into()]);
        }
        [_, second, others @ ..]
            if is_adapter(nth(1))
                || others.len() == 1 && !is_known(nth(1)) && !is_set(words, places) =>
        {
            let dst = others.first().map_or("DST", |_| nth(2));
            let has_dst = dst != "DST" || has(words, &["--dst"]);
            if !has_dst {
                let advice = format!(
                    "`weighbridge merge {} {} DST` merges the adapter into the model",
                    nth(0),
                    nth(1)
                );
                return Err(Failure::advised("the merged model has no name".to_owned(), advice));
            }
            let has_type = others.len() == 2 && is_type_name(nth(3));
            words.insert(*second, "--lora".into());
            let option = words.iter().position(|word| word == "--quantize" || word == "--type");
            let verb = match option {
                Some(option) => {
                    words[option] = "--type".into();
                    "quantize"
                }
                None if has_type => "quantize",
                None => "convert",
            };
            words.splice(at..=at, [verb.into()]);
        }
        // What a shell makes of `model-*.gguf`: any shard stands for all.
        [first, others @ ..] if has(words, &["--dst"]) && is_set(words, places) => {
            words.drain(first + 1..=first + others.len()).for_each(drop);
        }
        shards if is_set(words, shards) => {
            let advice =
                format!("`weighbridge merge {} DST`: any of the files stands for all", nth(0));
            return Err(Failure::advised("the new model has no name".to_owned(), advice));
        }
        [shards @ .., dst] if is_set(words, shards) => {
            words.drain(dst + 1 - shards.len()..*dst).for_each(drop);
        }
        _ => {}
    }
    Ok(())
}

/// Puts the option before each of several patterns, which other programs take after one: `--exclude A B`.
fn patterns(verb: &Command, words: &mut Vec<OsString>, from: usize) {
    let is_name = |word: &str| is_repository(word) && !is_of_repository(word);
    let mut named = arguments(verb, words, from).iter().any(|it| is_name(word_at(words, *it)));
    let (mut option, mut place) = (None, from);
    while place < words.len() {
        match word_at(words, place).to_owned() {
            given if ["--include", "--exclude"].contains(&given.as_str()) => {
                option = Some(given);
                place += 1;
            }
            word if named && !is_option(&word) && is_of_repository(&word) => {
                if let Some(option) = &option {
                    words.insert(place, option.into());
                    place += 1;
                }
            }
            word => {
                named |= option.take().is_none() && is_repository(&word);
            }
        }
        place += 1;
    }
}

/// Puts an option that may be repeated before each of several values, which other programs take after one, or with
/// commas between them: `--leave-out A B`, `--lora A,B`. A word is a further value if it has the form of one, and is more
/// than the arguments of the verb, or can be none of them.
fn repeated(verb: &Command, words: &mut Vec<OsString>, from: usize) {
    let most = verb.get_positionals().map(|it| it.get_num_args().map_or(1, |it| it.max_values()));
    let most = most.fold(0, usize::saturating_add);
    let mut excess = arguments(verb, words, from).len().saturating_sub(most);
    let mut place = from;
    while let Some(option) = words.get(place).and_then(|word| word.to_str()).map(str::to_owned) {
        place += 1;
        if option == "--" {
            return;
        }
        let argument = verb.get_arguments().find(|argument| is_spelled(argument, &option));
        let is_repeated = |it: &&Arg| matches!(it.get_action(), ArgAction::Append);
        let Some(argument) = argument.filter(is_repeated) else {
            place += usize::from(is_option(&option) && takes_value(verb, &option));
            continue;
        };
        let value = word_at(words, place).to_owned();
        let parts: Vec<&str> = value.split(',').collect();
        if parts.len() > 1 && parts.iter().all(|part| is_adapter(part)) {
            let pairs = parts.iter().flat_map(|part| [option.as_str(), part]);
            words.splice(place - 1..=place, pairs.map(OsString::from));
            place += 2 * (parts.len() - 1);
        }
        place += 1;
        while place < words.len() && is_further(argument, word_at(words, place), excess > 0) {
            excess = excess.saturating_sub(1);
            words.insert(place, option.clone().into());
            place += 2;
        }
    }
}

/// Whether a word after a value of an option is another one, and no argument of the verb. The arguments may be too many.
fn is_further(argument: &Arg, word: &str, are_many: bool) -> bool {
    let has_form = |form: &str| argument.get_value_names().is_some_and(|it| it[0].contains(form));
    let is_value = || {
        let alone = Arg::new("value").value_parser(argument.get_value_parser().clone());
        Command::new("value").no_binary_name(true).arg(alone).try_get_matches_from([word]).is_ok()
    };
    let is_model = || {
        let ends = [".gguf", ".safetensors"].iter().any(|ending| word.ends_with(ending));
        ends || is_type_name(word) || Path::new(word).exists() && !is_adapter(word)
    };
    !is_option(word)
        && !is_model()
        && match has_form("=") {
            true => word.contains('='),
            false => word.contains('*') || are_many && is_value(),
        }
}

/// The places of the words that are no options, and no values of options.
fn arguments(verb: &Command, words: &[OsString], from: usize) -> Vec<usize> {
    let (mut places, mut place) = (Vec::new(), from);
    while let Some(word) = words.get(place) {
        match word.to_str() {
            Some("--") => {
                places.extend(place + 1..words.len());
                break;
            }
            Some(option) if is_option(option) => {
                place += usize::from(takes_value(verb, option));
            }
            _ => places.push(place),
        }
        place += 1;
    }
    places
}

/// `convert` to a type of `quantize` is `quantize`: `convert DIR Q4_K_M`, `convert DIR --outtype q4_k_m`.
fn quantized(words: &mut Vec<OsString>, at: usize, places: &[usize]) {
    let dtype = words.iter().position(|word| word == "--dtype");
    let is_mix = |text: &str| FileType::from_name(text).is_some() && target(text).is_err();
    let to = has(words, &["--to"]);
    if let (None, [first, second, last]) = (dtype, places) {
        // `convert gguf to safetensors FILE`.
        if is_container(word_at(words, *first)) && is_container(word_at(words, *second)) {
            words[*first] = "--to".into();
            return;
        }
        // `cast DIR OUT bf16`.
        if let Some(float) = float_name(word_at(words, *last)) {
            words.splice(*last..=*last, ["--dtype".into(), float.into()]);
            return;
        }
    }
    match dtype {
        // llama.cpp's choice is what is stored.
        Some(dtype) if word_at(words, dtype + 1) == "auto" => {
            words.drain(dtype..dtype + 2).for_each(drop);
            return;
        }
        Some(dtype) if is_mix(word_at(words, dtype + 1)) => {
            words.splice(dtype..=dtype, ["--type".into()]);
        }
        None if !to && places.iter().skip(1).any(|it| is_type_name(word_at(words, *it))) => {
            if let [_, first, second] = places
                && is_type_name(word_at(words, *first))
            {
                words.swap(*first, *second);
            }
        }
        _ => return,
    }
    let to = words.windows(2).position(|pair| pair[0] == "--to" && pair[1] == "gguf");
    if let Some(to) = to {
        words.drain(to..to + 2).for_each(drop);
    }
    words.splice(at..=at, ["quantize".into()]);
}

/// The options of `mlx_lm.convert -q` are one type here: `--q-bits 4 --q-group-size 32` is `--type mlx4,32`. They
/// say nothing beside another container or type.
pub(super) fn mlx_type(words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    if word_at(words, at) == "convert" && has(words, &["--mlx-path"]) && !has(words, &["--to"]) {
        words.extend(["--to", "mlx"].map(OsString::from));
    }
    let is_for_mlx = words.iter().zip(words.iter().skip(1)).any(|(a, b)| a == "--to" && b == "mlx");
    let (mut bits, mut group, mut mode) = (None, None, None);
    let (mut kept, mut place, mut is_asked) = (words[..=at].to_vec(), at + 1, false);
    while let Some(word) = words.get(place) {
        let text = word.to_str().unwrap_or_default();
        let (option, own) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
        let value = own.unwrap_or(word_at(words, place + 1)).to_owned();
        let setting = match option.replace('_', "-").as_str() {
            option @ ("--q-bits" | "--bits" | "--wbits" | "--q-group-size" | "--group-size")
                if value.parse::<f64>().is_ok() && !is_number(&value) =>
            {
                let fault = format!("{option} is {value}, and a whole number is needed");
                let advice = "MLX has 2, 3, 4, 5, 6 and 8 bits in groups of 32, 64 or 128; `--type mlx4 --quant-predicate \
                    mixed_4_6` mixes 4 and 6 bits";
                return Err(Failure::advised(fault, advice.to_owned()));
            }
            "-q" | "--quantize" if is_number(&value) => &mut bits,
            "-q" | "--quantize" if is_for_mlx && !is_type(&value) => {
                (is_asked, place) = (true, place + 1);
                continue;
            }
            "--q-bits" | "--bits" | "--wbits" if is_number(&value) => &mut bits,
            "--q-group-size" | "--group-size" if is_number(&value) => &mut group,
            "--q-mode" if !value.is_empty() && !value.starts_with('-') => &mut mode,
            _ => {
                kept.push(word.clone());
                place += 1;
                continue;
            }
        };
        *setting = Some(value);
        (is_asked, place) = (true, place + 1 + usize::from(own.is_none()));
    }
    let is_convert = word_at(words, at) == "convert";
    let is_type = |word: &OsString| word.to_str().is_some_and(is_type_name);
    let is_other = has(&kept, &["--type", "--dtype", "--outtype"]) || kept.iter().any(is_type);
    let is_to_other = has(&kept, &["--to"]) && !is_for_mlx;
    let is_quantize = word_at(words, at) == "quantize";
    if is_asked && is_for_mlx && has(words, &["--dtype"]) {
        let fault = "--dtype is given beside the bits of a quantization".to_owned();
        let advice = "`weighbridge convert SRC PLAIN --dtype F16` first, then quantize PLAIN without it: what is not \
            quantized keeps its dtype"
            .to_owned();
        return Err(Failure::advised(fault, advice));
    }
    if !is_asked || is_other || is_to_other || !(is_convert || is_quantize) {
        return Ok(());
    }
    let usual = if mode.as_deref() == Some("mxfp8") { "8" } else { "4" };
    let mut name = format!("mlx{}", bits.as_deref().unwrap_or(usual));
    for part in [group.as_deref().or(mode.as_deref().map(|_| "")), mode.as_deref()] {
        part.into_iter().for_each(|part| name.extend([",", part]));
    }
    if let Some(to) = kept.iter().position(|word| word == "--to") {
        kept.drain(to..kept.len().min(to + 2));
    }
    kept[at] = "quantize".into();
    kept.extend(["--type".into(), name.into()]);
    *words = kept;
    Ok(())
}

/// The argument that sets a key. A chat template that is the name of a file is what the file holds.
pub(super) fn setting(key: &str, value: &str) -> String {
    let is_file = key.ends_with("chat_template=") && Path::new(value).is_file();
    if is_file {
        note(&format!("{value} is a file: the template is what it holds"));
    }
    format!("{key}{}{value}", if is_file { "@" } else { "" })
}
