//! Arguments in the order of other programs, and arguments that say which verb is meant.
#![allow(clippy::result_large_err, reason = "an error ends the program")]

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::path::Path;

use clap::{Command, ValueEnum};
use weighbridge::adapter::Adapter;
use weighbridge::container::{CONTAINERS, OLLAMA, ollama};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::target;
use weighbridge::{Model, OpenOptions};

use super::names::float_name;
use super::program::{Program, is_option, takes_value, unknown_option, word_at};
use super::values::{is_program, sha256, size, size_for_path};
use super::{Listing, TargetType};
use crate::failure::{Failure, nearest_entry, note};

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

/// Options with which `run generate` continues tokens or a spectrum, not a prompt.
const TOKENS: [&str; 3] = ["--ids", "--encoder-ids", "--features"];

/// Options without which `run generate` needs a prompt.
const PROMPTS: [&str; 5] = ["--prompt", "--ids", "--encoder-ids", "-h", "--help"];

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
    let mut places = arguments(verb, words, from);
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
    if let ("dump", [_]) = (name.as_str(), places.as_slice())
        && words.len() == from + 1
    {
        words.splice(at..=at, ["inspect".into(), "--metadata".into()]);
        return Ok(());
    }
    rearrange(&name, words, at, &places)
}

/// Puts the arguments of a verb in their order, and the verb that they mean. They are at these places.
fn rearrange(
    name: &str,
    words: &mut Vec<OsString>,
    at: usize,
    places: &[usize],
) -> Result<(), Failure> {
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
        ("meta set", [_, key, value]) if !nth(1).contains('=') => {
            let setting = format!("{}={}", nth(1), nth(2));
            words.splice(*key..=*value, [setting.into()]);
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
            if files.iter().all(|file| is_file_name(word_at(words, *file))) =>
        {
            files.iter().rev().for_each(|file| words.insert(*file, "--include".into()));
        }
        ("show", [_, ..]) if is_file_model(nth(0)) => {
            words.splice(at..=at, ["inspect".into()]);
        }
        ("models", [_]) if Path::new(nth(0)).is_file() => {
            words.splice(at..=at, ["inspect".into()]);
        }
        ("dump", [first, second]) if !Path::new(nth(0)).exists() && is_model(nth(1)) => {
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

/// What follows an `@`: a revision, or for LM Studio a type of GGUF.
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
        ("dump", 3) => "--output",
        ("inspect", 2) if is_new && word.contains('*') && is_known(nth(0)) => "--filter",
        ("memory", 2..) | ("split", 3) if size_for_path(Path::new(word)).is_some() => {
            if name == "split" { "--max-shard-size" } else { "--room" }
        }
        ("pull", 2) if word.starts_with(['.', '/', '~']) || Path::new(word).is_dir() => "--output",
        ("models", _)
            if is_new && !word.starts_with(['.', '/', '~']) && !is_program(Path::new(word)) =>
        {
            "--filter"
        }
        ("view", 2..) if is_new && word.ends_with(".html") => "--output",
        // llama-quantize's last argument is the number of threads.
        ("quantize", 4) if is_number(word) => "--threads",
        ("quantize", 3) if is_number(word) && is_type(nth(1)) => "--threads",
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
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    match places {
        [_, second, others @ ..] if is_adapter(nth(1)) => {
            let dst = others.first().map_or("DST", |_| nth(2));
            let has_dst = dst != "DST" || has(words, &["--dst"]);
            if !has_dst {
                let advice = format!(
                    "`weighbridge convert {} DST --lora {}` merges the adapter into the model",
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

/// Refuses arguments that are right in no order, and says what to type instead.
fn refused(name: &str, words: &[OsString], places: &[usize]) -> Result<(), Failure> {
    let fault = match name {
        "merge" => joined(words, places),
        "memory" => fitted(words, places),
        _ => written(name, words, places).or_else(|| shown(name, words, places)),
    };
    match fault {
        Some((fault, advice)) => Err(Failure::advised(fault, advice)),
        None => Ok(()),
    }
}

/// The fault of arguments of a verb that writes a model, and what to type instead.
fn written(name: &str, words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match (name, places.len()) {
        ("convert", _) if words.iter().any(|it| it.to_string_lossy().contains("{ftype}")) => (
            "{ftype} in a name is not replaced".to_owned(),
            "leave the destination out: with --dtype, its name has the dtype".to_owned(),
        ),
        ("create", 2) if is_model(nth(0)) && !Path::new(nth(1)).exists() && !in_store(nth(1)) => (
            "the name of the new model comes first".to_owned(),
            format!("`weighbridge create {} {}`", nth(1), nth(0)),
        ),
        ("create", 1) if is_model(nth(0)) && (Path::new(nth(0)).is_file() || nth(0).contains('/')) => (
            "the new model has no name".to_owned(),
            format!("`weighbridge create NAME {}`", nth(0)),
        ),
        ("quantize" | "convert" | "split", 2..)
            if is_set(words, places.get(..2).unwrap_or_default()) =>
        (
            "the files are shards of one model".to_owned(),
            "any one of a GGUF model stands for all, and the directory for those of safetensors"
                .to_owned(),
        ),
        ("quantize" | "convert" | "split", 3..)
            if is_model(nth(0)) && is_model(nth(1)) && is_model(nth(2)) && !is_set(words, places) =>
        (
            "several models are given".to_owned(),
            format!("one command each: `for f in *.gguf; do weighbridge {name} \"$f\" ...; done`"),
        ),
        ("convert" | "split", 2) if has(words, &["--dst"]) => (
            format!("{} is given, and -o too", nth(1)),
            format!("one of them: `weighbridge {name} SRC DST` or `weighbridge {name} SRC -o DST`"),
        ),
        ("quantize", 1..) if Path::new(nth(0)).join("adapter_config.json").is_file() && is_adapter(nth(0)) => (
            format!("{} is an adapter", nth(0)),
            format!("`weighbridge convert {0} DST.gguf --base MODEL --dtype Q8_0` writes it for llama.cpp, \
                `weighbridge quantize MODEL DST TYPE --lora {0}` merges it", nth(0)),
        ),
        ("quantize", 3..)
            if places.iter().filter(|it| is_type_name(word_at(words, **it))).count() > 1 =>
        (
            "several types are given".to_owned(),
            "each takes a command of its own; `quantize MODEL --list-types` shows the size in each"
                .to_owned(),
        ),
        ("split", 1) if !has(words, &["--dst", "-h", "--help"]) => (
            "the parts have no name".to_owned(),
            format!("`weighbridge split {} NAME --max-shard-size 4G` writes NAME-00001-of-…", nth(0)),
        ),
        ("split", 2..) if places.last().is_some_and(|it| is_number(word_at(words, *it))) => (
            "a number of shards is not given".to_owned(),
            "`--max-shard-size 4G` or `--max-tensors 128` limits each shard".to_owned(),
        ),
        _ => return None,
    })
}

/// The fault of arguments of `merge`, and what to type instead.
fn joined(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    let shards = places.split_last().map_or(places, |(_, shards)| shards);
    let is_one = is_set(words, places) || is_set(words, shards) || is_adapter(nth(1));
    let are_models = || is_model(nth(0)) && is_model(nth(1)) && nth(0) != nth(1);
    Some(match places.len() {
        0 => return None,
        1 if !has(words, &["--dst", "-h", "--help"]) => (
            "the new model has no name".to_owned(),
            format!("`weighbridge merge {} DST`", nth(0)),
        ),
        1 => return None,
        _ if is_one => return None,
        _ if !has(words, &["--overwrite"]) && are_models() => (
            format!("{} and {} are two models", nth(0), nth(1)),
            "a recipe says how: `weighbridge help merge`; `diff` compares two models".to_owned(),
        ),
        2 if has(words, &["--dst"]) && !is_known(nth(1)) => (
            format!("there is no {}", nth(1)),
            "`weighbridge merge MODEL ADAPTER DST` merges an adapter; models are merged by a recipe: \
             `weighbridge help merge`"
                .to_owned(),
        ),
        2 => return None,
        _ => (
            "several files are given, whose names are not those of the shards of one model".to_owned(),
            "shards of GGUF are found if they are named PREFIX-00001-of-0000N.gguf; models are merged by a recipe: \
             `weighbridge help merge`; `cat PIECES > FILE` joins a file that was cut into pieces"
                .to_owned(),
        ),
    })
}

/// The fault of arguments of a verb that shows or runs a model, and what to type instead.
fn shown(name: &str, words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match (name, places.len()) {
        ("inspect", 2) if is_known(nth(0)) && !is_known(nth(1)) => {
            let verb = verb_with(nth(1))?;
            let quote = if nth(1).contains(' ') { "'" } else { "" };
            (
                format!("{} is neither a model nor a tensor", nth(1)),
                format!("`weighbridge {verb} {} {quote}{}{quote}`", nth(0), nth(1)),
            )
        }
        ("diff", 3..) if is_known(nth(2)) => (
            "two models are compared, but several are given".to_owned(),
            "`weighbridge view` and `weighbridge quality` take more".to_owned(),
        ),
        ("dump", 2..) if nth(1).ends_with(']') && nth(1).contains('[') => {
            let (name, rows) = nth(1).split_once('[').unwrap_or_default();
            (
                format!("{} is the name of no tensor", nth(1)),
                format!(
                    "`weighbridge dump {} {name} --rows {}`",
                    nth(0),
                    rows.trim_end_matches(']').split(',').next().unwrap_or_default()
                ),
            )
        }
        ("inspect", 2..)
            if has(words, &["--metadata"]) && is_known(nth(0)) && !is_known(nth(1)) =>
        {
            (
                format!("{} is no model", nth(1)),
                format!("`weighbridge meta get {} {}` prints the value of a key", nth(0), nth(1)),
            )
        }
        ("run generate" | "run embed" | "run tokens", 2..) if is_model(nth(1)) => (
            format!("{} and {} are two models", nth(0), nth(1)),
            "each command runs one".to_owned(),
        ),
        ("run generate" | "run embed" | "run tokens", 2..) if Path::new(nth(1)).is_file() => (
            format!("{} is a file, not the text", nth(1)),
            format!("`\"$(cat {})\"` in its place is what the file contains", nth(1)),
        ),
        ("pull", 2)
            if nth(0).contains('/')
                && !nth(1).contains(['/', ':'])
                && !is_file_name(nth(1))
                && !is_type(nth(1)) =>
        {
            (
                format!("{} is neither a repository nor a file of one", nth(1)),
                format!("`weighbridge pull {} -o {}` downloads to that folder", nth(0), nth(1)),
            )
        }
        ("pull", 1) if Path::new(nth(0)).is_file() => (
            format!("{} is a file on this machine", nth(0)),
            format!("`weighbridge {0}` shows it, `weighbridge meta get {0}` its metadata", nth(0)),
        ),
        ("run generate", 1) if !has(words, &PROMPTS) => (
            "there is no prompt".to_owned(),
            format!(
                "`weighbridge run {} 'Why is the sky dark?'`: each command answers one prompt",
                nth(0)
            ),
        ),
        ("run logits", 2) => (
            "logits are those of tokens: give their numbers as --ids".to_owned(),
            format!("`weighbridge run tokens {} --text TEXT` prints the numbers", nth(0)),
        ),
        _ => return None,
    })
}

/// The fault of the last argument of `memory`, and what to type instead.
fn fitted(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let [model, .., last] = places else { return None };
    let (model, last) = (word_at(words, *model), word_at(words, *last));
    let is_size = |size: &str| size_for_path(Path::new(size)).is_some();
    if last.split_once('x').is_some_and(|(count, size)| is_number(count) && is_size(size)) {
        let advice = "`--device gpu0=24G --device gpu1=24G` divides the layers among GPUs";
        return Some((format!("{last} is no size"), advice.to_owned()));
    }
    is_type_name(last).then(|| {
        let fault = "the size in another type is not computed here".to_owned();
        (fault, format!("`weighbridge quantize {model} --list-types` shows the size in each"))
    })
}

/// The verb that takes such a word after a model.
fn verb_with(word: &str) -> Option<&'static str> {
    let is_new = || word.ends_with(".gguf") && nearest_entry(Path::new(word)).is_none();
    let verbs = [
        ("quantize", is_type_name(word)),
        ("memory", size_for_path(Path::new(word)).is_some() && !is_number(word)),
        ("run", word.contains(' ')),
        ("convert", is_new()),
    ];
    verbs.into_iter().find(|(_, takes)| *takes).map(|(verb, _)| verb)
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
    if let (None, [_, first, last]) = (dtype, places) {
        // `cast DIR OUT bf16`.
        if let Some(float) = float_name(word_at(words, *last)) {
            words.splice(*last..=*last, ["--dtype".into(), float.into()]);
            return;
        }
        // `convert SRC to mlx`.
        let joins = ["to", "into", "as"].contains(&word_at(words, *first));
        if joins && is_container(word_at(words, *last)) {
            words[*first] = "--to".into();
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
    let is_for_mlx = words.iter().zip(words.iter().skip(1)).any(|(a, b)| a == "--to" && b == "mlx");
    let (mut bits, mut group, mut mode) = (None, None, None);
    let (mut kept, mut place, mut is_asked) = (words[..=at].to_vec(), at + 1, false);
    while let Some(word) = words.get(place) {
        let text = word.to_str().unwrap_or_default();
        let (option, own) = text.split_once('=').map_or((text, None), |(o, v)| (o, Some(v)));
        let value = own.unwrap_or(word_at(words, place + 1)).to_owned();
        let setting = match option.replace('_', "-").as_str() {
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
        let advice = "`weighbridge convert SRC COPY --dtype F16` first, then quantize COPY without it: what is not \
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

/// Whether the words at these places are shards of one model, and there are several.
fn is_set(words: &[OsString], shards: &[usize]) -> bool {
    let stem = |place: &usize| {
        let (start, _) = word_at(words, *place).rsplit_once("-of-")?;
        Some(start.rsplit_once('-')?.0.to_owned())
    };
    let mut stems = shards.iter().map(stem);
    let first = stems.next().flatten();
    let is_whole = shards.windows(2).all(|pair| matches!(pair, [a, b] if a + 1 == *b));
    shards.len() > 1 && is_whole && first.is_some() && stems.all(|stem| stem == first)
}

/// Whether an option of this list, with or without its value, is among the words.
pub(super) fn has(words: &[OsString], options: &[&str]) -> bool {
    let name = |word: &OsString| Some(word.to_str()?.split('=').next()?.to_owned());
    words.iter().filter_map(name).any(|word| options.contains(&word.as_str()))
}

/// Whether a word is a type by its name; the number of threads would be one by its number.
pub(super) fn is_type_name(word: &str) -> bool {
    is_type(word) && !is_number(word)
}

fn is_unit(word: &str) -> bool {
    !word.is_empty() && size(&format!("1{word}")).is_ok() && !Path::new(word).exists()
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty()
}

pub(super) fn is_type(word: &str) -> bool {
    matches!(TargetType::find(word), Some(Ok(_))) && !Path::new(word).exists()
}

/// Whether a word is the name of a container, and no file.
pub(super) fn is_container(word: &str) -> bool {
    CONTAINERS.iter().any(|container| container.name == word) && !Path::new(word).exists()
}

/// Whether a word is the name of a file of a repository, or a glob, and not that of a repository.
fn is_file_name(word: &str) -> bool {
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_ending = ending.len() > 1 && ending.bytes().all(|byte| byte.is_ascii_lowercase());
    (is_ending || word.contains('*')) && !word.contains("://")
}

/// Whether a word is a path, or a model of Ollama's store.
fn is_known(word: &str) -> bool {
    Path::new(word).exists() || in_store(word)
}

/// Whether a word is the path of an adapter, perhaps with a factor behind it: `lora:0.5`.
fn is_adapter(word: &str) -> bool {
    let scaled = word.rsplit_once(':').filter(|(_, scale)| scale.parse::<f32>().is_ok());
    let path = scaled.map_or(word, |(path, _)| path);
    !path.is_empty() && Path::new(path).exists() && Adapter::open(path).is_ok()
}

fn is_model(path: &str) -> bool {
    Path::new(path).exists() && Model::open(path).is_ok()
}

/// Whether a word is the name of a model in Ollama's store.
pub(crate) fn in_store(name: &str) -> bool {
    ollama::place(name, None).is_ok_and(|manifest| manifest.is_file())
}

/// Whether a word is the path of a file or a directory that is no model of Ollama's store.
fn is_file_model(path: &str) -> bool {
    let opened = OpenOptions::new().open(path);
    Path::new(path).exists() && opened.map_or(true, |model| model.container() != OLLAMA.name)
}
