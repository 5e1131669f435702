//! Arguments that are right in no order, and what to type instead.
#![allow(clippy::result_large_err, reason = "an error ends the program")]

use std::ffi::OsString;
use std::path::Path;

use weighbridge::Model;
use weighbridge::arch::Resolution;
use weighbridge::bytes::Text;

use super::foreign::{self, Meaning::Says};
use super::kinds::{
    are_apart, has, has_tensor, in_store, is_adapter, is_container, is_file_name, is_known,
    is_model, is_number, is_repository, is_set, is_type, is_type_name, value_of,
};
use super::program::word_at;
use super::values::size_for_path;
use crate::failure::{Failure, nearest_entry};

/// Options without which `run generate` needs a prompt.
pub(super) const PROMPTS: [&str; 5] = ["--prompt", "--ids", "--encoder-ids", "-h", "--help"];

/// Options whose value is the type of what is written.
const TYPES: [&str; 3] = ["--type", "--mlx", "--dtype"];

/// Refuses arguments that are right in no order, and says what to type instead.
pub(super) fn refused(name: &str, words: &[OsString], places: &[usize]) -> Result<(), Failure> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    let of_config = || match name {
        "convert" | "merge" | "quantize" => {
            configured(words, places).or_else(|| adapted(words, places))
        }
        _ => None,
    };
    let fault = of_config().or_else(|| match name {
        "convert" | "merge" | "quantize" | "split" if are_apart(nth(0), nth(1)) => Some((
            format!("{} and {} are shards of one model in different folders", nth(0), nth(1)),
            "the shards of a model are read from one folder: move them and config.json into one, and give its path"
                .to_owned(),
        )),
        "dump" => dumped(words, places),
        "merge" => joined(words, places),
        "memory" => fitted(words, places),
        "pull" => pulled(words, places),
        _ => tensor(name, words, places)
            .or_else(|| written(name, words, places))
            .or_else(|| shown(name, words, places)),
    });
    match fault {
        Some((fault, advice)) => Err(Failure::advised(fault, advice)),
        None => Ok(()),
    }
}

/// An advice with the options that leave out the vision and audio models of the first model among the words, for `{}`.
pub(super) fn of_towers(advice: &str, words: &[OsString]) -> String {
    if !advice.starts_with("{}") {
        return advice.to_owned();
    }
    let known = words.iter().skip(1).filter_map(|word| word.to_str()).filter(|it| is_known(it));
    let mut models = known.filter_map(|word| Model::open(word).ok());
    let Some(model) = models.next() else {
        return advice.replace("{}", "`--leave-out GLOB`");
    };
    let globs = model.resolution().map(Resolution::tower_globs).unwrap_or_default();
    if globs.is_empty() {
        return "leave it out: the model has no tensors of a vision or audio model".to_owned();
    }
    let options: Vec<String> = globs.iter().map(|glob| format!("--leave-out '{glob}'")).collect();
    advice.replace("{}", &format!("`{}`", options.join(" ")))
}

/// The fault of a config with which another program merges an adapter: its values are arguments here.
fn configured(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    let path = Path::new(nth(0));
    let is_yaml = path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
    let text = is_yaml.then(|| std::fs::read_to_string(path).ok()).flatten()?;
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| *name == key)?;
        let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| Text::new(value.as_bytes()).brief())
    };
    let mut rows = foreign::list("MERGING").map(|row| row.split_whitespace().collect::<Vec<_>>());
    let (program, base, adapter, dst) = rows.find_map(|row| {
        let [program, base, adapter, dst] = row[..] else { return None };
        let (key, folder) = dst.split_once('/').unwrap_or((dst, ""));
        let dst = Path::new(&value(key)?).join(folder).display().to_string();
        Some((program, value(base)?, adapter.split(',').find_map(value), dst))
    })?;
    let given = value_of(words, &["--lora"]).unwrap_or(nth(1));
    let given = Some(given.to_owned()).filter(|given| is_adapter(given));
    let adapter = given.or(adapter).unwrap_or_else(|| "ADAPTER".to_owned());
    let dst = dst.trim_end_matches('/');
    // The other program makes the folders above.
    let above = Path::new(dst).parent().filter(|it| !it.as_os_str().is_empty() && !it.exists());
    let made = above.map_or(String::new(), |it| format!("mkdir -p {} && ", it.display()));
    Some((
        format!("{} is a config of {program}", nth(0)),
        format!("its values are arguments here: `{made}weighbridge merge {base} {adapter} {dst}`"),
    ))
}

/// The fault of an adapter that does not exist, or without a model.
fn adapted(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let adapter = value_of(words, &["--lora"]).filter(|_| !has(words, &["-h", "--help"]))?;
    let is_name = !adapter.contains(['/', ':']);
    Some(match places {
        [model, ..]
            if has(words, &["--dst"])
                && is_known(word_at(words, *model))
                && is_name
                && !is_known(adapter) =>
        (
            format!("there is no {adapter}"),
            "an adapter is a folder of PEFT or mlx-lm, or a GGUF file: `weighbridge merge MODEL ADAPTER DST`".to_owned(),
        ),
        [] => (
            "the model is missing into which the adapter is merged".to_owned(),
            format!("`weighbridge merge MODEL {adapter} DST`"),
        ),
        _ => return None,
    })
}

/// Whether a word is several types with commas between them.
fn are_types(word: &str) -> bool {
    word.contains(',') && word.split(',').all(is_type_name)
}

/// The fault of arguments of a verb that writes a model, and what to type instead.
fn written(name: &str, words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match (name, places.len()) {
        ("create", 2) if is_model(nth(0)) && !Path::new(nth(1)).exists() && !in_store(nth(1)) => (
            "the name of the new model comes first".to_owned(),
            format!("`weighbridge create {} {}`", nth(1), nth(0)),
        ),
        ("create", 2) if nth(0).ends_with(".gguf") && in_store(nth(1)) => (
            format!("{} is the name of a file, not of a model in Ollama's store", nth(0)),
            format!("`weighbridge convert {} {}` writes the file", nth(1), nth(0)),
        ),
        ("create", 1..) if value_of(words, &["-f"]).is_some_and(is_model) => {
            let model = value_of(words, &["-f"]).unwrap_or_default();
            (format!("{model} is a model, not a Modelfile"), format!("`weighbridge create {} {model}`", nth(0)))
        }
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
        ("quantize", 1..) if words.iter().filter(|word| *word == "--imatrix").count() > 1 => (
            "several importance matrices are given, and they are not joined here".to_owned(),
            "`llama-imatrix --in-file A --in-file B -o C` joins them".to_owned(),
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
        ("quantize" | "convert", 2)
            if is_type_name(nth(1)) && value_of(words, &TYPES).is_some() =>
        {
            let other = value_of(words, &TYPES).unwrap_or_default();
            (
                format!("two types are given: {} and {other}", nth(1)),
                format!("one of them; a file or folder of that name is ./{}", nth(1)),
            )
        }
        ("quantize", 3..)
            if places.iter().filter(|it| is_type_name(word_at(words, **it))).count() > 1 =>
        (
            "several types are given".to_owned(),
            "each takes a command of its own; `quantize MODEL --list-types` shows the size in each"
                .to_owned(),
        ),
        ("quantize", 2..) if places.iter().any(|it| are_types(word_at(words, *it))) => {
            let list = places.iter().map(|it| word_at(words, *it)).find(|it| are_types(it));
            let list = list.unwrap_or_default().replace(',', " ");
            (
                "several types are given".to_owned(),
                format!("one command each: `for t in {list}; do weighbridge quantize {} $t; done`", nth(0)),
            )
        }
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
    // `merge MODEL DST --lora ADAPTER` too.
    let has_adapter = is_adapter(nth(1)) || places.len() == 3 && is_adapter(nth(2));
    let is_one = is_set(words, places) || is_set(words, shards) || has_adapter;
    // Shards of one model are joined, and the file that is there is the result of an earlier try.
    let are_models = || {
        is_model(nth(0)) && is_model(nth(1)) && nth(0) != nth(1) && !nth(0).contains("-00001-of-")
    };
    Some(match places.len() {
        0 => return None,
        1 | 2 if is_adapter(nth(0)) && !has(words, &["-h", "--help"]) => (
            "the model is missing into which the adapter is merged".to_owned(),
            format!(
                "`weighbridge merge MODEL {} {}`",
                nth(0),
                value_of(words, &["--dst"]).or(Some(nth(1)).filter(|it| !it.is_empty())).unwrap_or("DST")
            ),
        ),
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
        // What does not exist is reported when it is opened: a model, or an adapter.
        3 if !is_known(nth(0)) || !is_known(nth(1)) => return None,
        _ => (
            "several files are given, whose names are not those of the shards of one model".to_owned(),
            "shards of GGUF are found if they are named PREFIX-00001-of-0000N.gguf; models are merged by a recipe: \
             `weighbridge help merge`; `cat PIECES > FILE` joins a file that was cut into pieces"
                .to_owned(),
        ),
    })
}

/// The fault of a tensor after the model of a verb for whole models, and what to type instead.
fn tensor(name: &str, words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    const WHOLE: [&str; 7] = ["convert", "hash", "memory", "quantize", "split", "verify", "view"];
    let [model, tensor, ..] = places else { return None };
    let (model, tensor) = (word_at(words, *model), word_at(words, *tensor));
    let is_name = tensor.contains('.') && !tensor.contains('/') && !tensor.ends_with(".gguf");
    let is_it = WHOLE.contains(&name) && is_name && is_known(model) && !is_known(tensor);
    (is_it && has_tensor(model, tensor)).then(|| {
        (
            format!("{tensor} is a tensor, and `{name}` is for whole models"),
            format!(
                "`weighbridge inspect {model} {tensor}` shows it, `weighbridge dump {model} {tensor} -o FILE.npy` writes \
                 its values, with `--as raw` its bytes"
            ),
        )
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
                match verb {
                    "quantize" => format!(
                        "`weighbridge quantize {0} {1}` writes that type, `weighbridge inspect {0} --all | grep {1}` finds its \
                         tensors",
                        nth(0),
                        nth(1)
                    ),
                    _ => format!("`weighbridge {verb} {} {quote}{}{quote}`", nth(0), nth(1)),
                },
            )
        }
        ("inspect", 2)
            if !is_known(nth(0))
                && is_model(nth(1))
                && !has_tensor(nth(1), nth(0))
                && nearest_entry(Path::new(nth(0))).is_none() =>
        {
            (
                format!("there is no {}", nth(0)),
                format!("a tensor comes after its model: `weighbridge inspect {} TENSOR`", nth(1)),
            )
        }
        ("diff", 3..) if is_known(nth(2)) => (
            "two models are compared, but several are given".to_owned(),
            "`weighbridge view` and `weighbridge quality` take more".to_owned(),
        ),
        ("inspect", 2..)
            if has(words, &["--metadata"]) && is_known(nth(0)) && !is_known(nth(1)) =>
        {
            (
                format!("{} is no model", nth(1)),
                format!("`weighbridge meta get {} {}` prints the value of a key", nth(0), nth(1)),
            )
        }
        _ => return ran(name, words, places),
    })
}

/// The fault of arguments of a verb that runs a model, and what to type instead.
fn ran(name: &str, words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match (name, places.len()) {
        ("run generate" | "run embed" | "run tokens", 2..)
            if !is_known(nth(0))
                && !nth(0).contains(['/', ':'])
                && is_model(nth(places.len() - 1)) =>
        {
            let text = places.iter().rev().skip(1).rev().map(|place| word_at(words, *place));
            let verb = if name == "run generate" { "run" } else { name };
            (
                format!("there is no model {}", nth(0)),
                format!(
                    "the model comes first: `weighbridge {verb} {} '{}'`",
                    nth(places.len() - 1),
                    text.collect::<Vec<_>>().join(" ")
                ),
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
        ("run generate", 1) if !is_known(nth(0)) && nth(0).contains(char::is_whitespace) => {
            ("the model is missing".to_owned(), format!("`weighbridge run MODEL '{}'`", nth(0)))
        }
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

/// The fault of arguments of `dump`, and what to type instead.
fn dumped(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match places.len() {
        3.. if has(words, &["-o", "--output"]) => (
            "several tensors are given".to_owned(),
            format!(
                "one command each: `for t in {} {}; do weighbridge dump {} \"$t\" -o \"$t.npy\"; done`",
                nth(1),
                nth(2),
                nth(0)
            ),
        ),
        3 if is_number(nth(2)) => (
            format!("{} is a number, not the name of a file", nth(2)),
            format!(
                "`weighbridge dump {} {} --rows 0..1` prints the values of the first row, and a file of that name is ./{}",
                nth(0),
                nth(1),
                nth(2)
            ),
        ),
        2.. if nth(1).ends_with(']') && nth(1).contains('[') => {
            let (name, rows) = nth(1).split_once('[').unwrap_or_default();
            let to = value_of(words, &["-o", "--output"])
                .map_or(String::new(), |to| format!(" -o {to}"));
            (
                format!("{} is the name of no tensor", nth(1)),
                format!(
                    "`weighbridge dump {} {name} --rows {}{to}`",
                    nth(0),
                    rows.trim_end_matches(']').split(',').next().unwrap_or_default()
                ),
            )
        }
        2 if is_model(nth(0)) && !has_tensor(nth(0), nth(1)) => {
            let Some((_, Says(what))) = foreign::verb(nth(1)) else { return None };
            (format!("{} is the name of no tensor", nth(1)), what.to_owned())
        }
        _ => return None,
    })
}

/// The fault of arguments of `pull`, and what to type instead.
fn pulled(words: &[OsString], places: &[usize]) -> Option<(String, String)> {
    let nth = |number: usize| places.get(number).map_or("", |place| word_at(words, *place));
    Some(match places.len() {
        2
            if nth(0).contains('/')
                && !is_repository(nth(0))
                && !nth(1).contains(['/', ':'])
                && !is_file_name(nth(1))
                && !is_type(nth(1)) =>
        {
            (
                format!("{} is neither a repository nor a file of one", nth(1)),
                format!("`weighbridge pull {} -o {}` downloads to that folder", nth(0), nth(1)),
            )
        }
        1.. if nth(0).contains("://") && (nth(0).contains("/api/") || nth(0).contains("/v1/")) => (
            format!("{} is the address of a server that runs models, not of a model", nth(0)),
            "`weighbridge run MODEL TEXT` runs one".to_owned(),
        ),
        // A key of a model has dots too: `get FILE general.name`.
        2 if Path::new(nth(0)).is_file()
            && is_file_name(nth(1))
            && (Path::new(nth(0)).extension() == Path::new(nth(1)).extension()
                || !is_model(nth(0))) =>
        (
            format!("{} is a file on this machine", nth(0)),
            format!("`cp {} {}` copies it", nth(0), nth(1)),
        ),
        _ if value_of(words, &["-o", "--output", "--to"]).is_some_and(is_container) => (
            "a folder is given for --to, not a program or a container".to_owned(),
            "`weighbridge create NAME hf.co/ORG/NAME` puts a model into Ollama's store; `weighbridge convert` writes \
             another container"
                .to_owned(),
        ),
        1 if Path::new(nth(0)).exists() => (
            format!("{} is a file or a folder on this machine", nth(0)),
            format!("`weighbridge {0}` shows it, `weighbridge meta get {0}` its metadata", nth(0)),
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
    let unit = last.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is_unit = (1..=3).contains(&unit.len()) && unit.bytes().all(|it| it.is_ascii_alphabetic());
    let is_amount = unit.len() < last.len() && is_unit && !is_size(last) && !is_type_name(last);
    if is_amount && !is_known(last) {
        return Some((format!("{last} is no size"), "as in 8G, 8GiB or 512MiB".to_owned()));
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
