//! Words that stand for others: earlier names of verbs, and the verbs and options of other programs.
#![allow(clippy::result_large_err, reason = "an error ends the program")]

use std::ffi::OsString;
use std::path::Path;

use super::foreign::Meaning::{
    self, Ignored, Is, Moved, Near, Needless, Pair, Says, Setting, Value,
};
use super::foreign::{self, ANY};
use super::kinds::{
    has, has_tensor, in_store, is_address, is_container, is_known, is_place, is_type_name,
};
use super::order;
use super::program::{Program, VALUED, has_option, is_option, is_spelled, verb_place, word_at};
use super::slips;
use super::values::{is_program, size};
use super::verbs::{bare, dashed, is_script, row};
use super::{faults, help};
use crate::failure::{Failure, nearest_entry, note, print_note};

/// The command line in the words of this program, or what to type instead.
pub(crate) fn translated(
    program: &mut Program,
    words: &[OsString],
) -> Result<Vec<OsString>, Failure> {
    let mut words = words.to_vec();
    without_launcher(program, &mut words)?;
    options_last(program, &mut words);
    // `-m MODEL` and `-hf ORG/NAME` without a verb.
    if words.len() > 2 && meaning(ANY, word_at(&words, 1), |_| false) == Some(Value) {
        words.remove(1);
    }
    // `help ollama`, `ollama help run`, `ollama --version`.
    help_last(program, &mut words);
    with_program(program, &mut words)?;
    help_last(program, &mut words);
    if words.len() == 2 && words[1] == "-v" {
        words[1] = "--version".into();
    }
    if let [name, _, version] = words.as_slice()
        && version == "--version"
    {
        return Ok(vec![name.clone(), version.clone()]);
    }
    let Some(at) = verb_place(&words) else { return Ok(words) };
    let escapes = has_escapes(&words, of_script(program, word_at(&words, at)));
    verb(program, &mut words, at)?;
    order::mlx_type(&mut words, at)?;
    order::text_of_file(&mut words, at)?;
    dashed_options(&mut words, at);
    options(program, &mut words, at)?;
    order::arrange(program, &mut words, at)?;
    if escapes {
        order::unescape(&mut words, at);
    }
    order::lists(&mut words, at);
    order::from_input(&mut words, at)?;
    Ok(words)
}

/// Whether a backslash in a text stands for a character, as for a program of this name.
fn has_escapes(words: &[OsString], program: &str) -> bool {
    let is_usual = || foreign::list("ESCAPES").any(|name| name == dashed(program));
    let mut said = words.iter().rev().filter_map(|word| match word.to_str()? {
        "-e" | "--escape" => Some(true),
        "--no-escape" => Some(false),
        _ => None,
    });
    said.next().unwrap_or_else(is_usual)
}

/// Leaves out the words that start a program of Python, and their options: `uvx --from gguf gguf-dump`. One may start
/// another: `uv run python -m`.
fn without_launcher(program: &Program, words: &mut Vec<OsString>) -> Result<(), Failure> {
    while !program.has(word_at(words, 1)) {
        let mut launchers = foreign::list("LAUNCHERS").map(|name| name.split(' '));
        let is_it = |name: &std::str::Split<'_, char>| {
            name.clone().enumerate().all(|(n, it)| word_at(words, n + 1) == it)
        };
        let Some(name) = launchers.find(is_it) else { return Ok(()) };
        let is_module = name.clone().next_back() == Some("-m");
        let start = name.count() + 1;
        let mut end = start;
        // Python's `-c` and `-m` are no options, but what is run.
        while !is_module
            && is_option(word_at(words, end))
            && !["-c", "-m"].contains(&word_at(words, end))
        {
            let is_valued = foreign::list("LAUNCHED").any(|it| it == word_at(words, end));
            end += 1 + usize::from(is_valued);
        }
        // A program in the words themselves is none that runs in it.
        if words.len() <= end || word_at(words, end) == "-c" {
            return Ok(());
        }
        let is_module = is_module || end > start && word_at(words, end) == "-m";
        end += usize::from(word_at(words, end) == "-m");
        words.drain(1..end);
        if is_module && words.len() > 1 {
            words[1] = of_module(program, word_at(words, 1))?.into();
            return Ok(());
        }
    }
    Ok(())
}

/// The command that a module of Python stands for, which is never a model: that of its whole name, of its last part, or
/// of its first one, which is the name of a package.
fn of_module(program: &Program, module: &str) -> Result<String, Failure> {
    let mut parts: Vec<&str> = module.split('.').collect();
    while parts.len() > 1 && foreign::list("ENTRIES").any(|it| parts.last() == Some(&it)) {
        parts.pop();
    }
    let name = parts.join(".");
    let is_program = |name: &str| foreign::list("PROGRAMS").any(|other| other == name);
    let is_known =
        |name: &str| is_program(name) || program.has(&bare(name)) || row(&bare(name)).is_some();
    let ends = [parts[parts.len() - 1], parts[0]];
    if is_known(&name) || parts.len() == 1 {
        return Ok(name);
    }
    if let Some(known) = ends.into_iter().find(|name| is_known(name)) {
        // A slip in the name of one of its commands may be meant.
        return Ok(if known == parts[0] && is_program(known) { name } else { known.to_owned() });
    }
    let fault = format!("Weighbridge has nothing for `{module}`");
    Err(says(&fault, "`weighbridge help` lists what it does"))
}

/// Whether a word is a verb, of this program or of another, and no file.
fn is_verb(program: &Program, word: &str) -> bool {
    let is_named = || {
        let bare = bare(word);
        program.has(&bare)
            || foreign::list("PROGRAMS").any(|program| program == word)
            || row(&bare).is_some()
    };
    !word.starts_with('-') && !Path::new(word).exists() && is_named()
}

/// Moves options that precede the verb to the end, with their values. Without a verb, those of the program stay.
fn options_last(program: &Program, words: &mut Vec<OsString>) {
    // In front of a verb, these are no bits.
    if word_at(words, 1) == "-q" && words.len() > 2 {
        words[1] = "--quiet".into();
    }
    let first = word_at(words, 1);
    if !first.starts_with('-') || ["-", "--", "-h", "--help", "-V", "--version"].contains(&first) {
        return;
    }
    // The value of an option may be a word of another program.
    let place_of =
        |is_it: &dyn Fn(&str) -> bool| (2..words.len()).find(|place| is_it(word_at(words, *place)));
    let own = place_of(&|word| program.has(word) && !Path::new(word).exists());
    let verb = own.or_else(|| place_of(&|word| is_verb(program, word)));
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if let Some(verb) = verb.filter(|verb| *verb < end) {
        words[1..end].rotate_left(verb - 1);
        return;
    }
    let mut place = 1;
    let mut moved = Vec::new();
    while let Some(option) = words.get(place).and_then(|word| word.to_str()) {
        let name = option.split('=').next().unwrap_or_default();
        if !name.starts_with("--") || name == "--" {
            break;
        }
        let count = 1 + usize::from(VALUED.contains(&option));
        let is_of_argument = meaning(ANY, name, |_| false) == Some(Value);
        match program.has_option(name) {
            true => place += count,
            false if is_of_argument => drop(words.remove(place)),
            false => moved.extend(words.drain(place..words.len().min(place + count))),
        }
    }
    words.extend(moved);
}

/// `help VERB` and `--help VERB` are `VERB --help`, and so is `man VERB`, unless there is such a folder.
fn help_last(program: &Program, words: &mut Vec<OsString>) {
    if ["-h", "--help"].contains(&word_at(words, 1)) && is_verb(program, word_at(words, 2)) {
        words[1..].rotate_left(1);
    }
    let is_help = |at: &usize| match word_at(words, *at) {
        "man" => is_verb(program, word_at(words, at + 1)),
        word => word == "help",
    };
    if let Some(at) = verb_place(words).filter(is_help) {
        words.remove(at);
        words.push("--help".into());
    }
}

/// Joins the name of a program and its verb to one word. A folder may have the name of the program.
fn with_program(known: &Program, words: &mut Vec<OsString>) -> Result<(), Failure> {
    let place = verb_place(words).filter(|at| !known.has(word_at(words, *at)));
    let Some(at) = place else { return Ok(()) };
    // `docker model`.
    let both = format!("{}-{}", word_at(words, at), word_at(words, at + 1));
    if foreign::list("PROGRAMS").any(|program| program == both) {
        words.splice(at..=at + 1, [both.into()]);
    }
    let (program, next) = (word_at(words, at).to_owned(), word_at(words, at + 1).to_owned());
    let is_verb = || {
        let bare = bare(&next);
        known.has(&bare) || row(&bare).is_some() || row(&format!("{program}.{next}")).is_some()
    };
    // A model may have the name of the program, too.
    let is_other = || Path::new(&program).exists() || in_store(&program);
    if foreign::list("PROGRAMS").all(|other| other != program) || (is_other() && !is_verb()) {
        return Ok(());
    }
    if next.is_empty() {
        let advice = format!(
            "`weighbridge {program} COMMAND` says what does the same here; `weighbridge help` lists the commands"
        );
        return Err(says(
            &format!("`{program}` alone names another program, not a command"),
            &advice,
        ));
    }
    words.remove(at);
    // `safetensors DIR/FILE` has no verb.
    let is_path = !is_verb() && Path::new(&next).exists();
    if !next.is_empty() && !next.starts_with('-') && next != "help" && !is_path {
        words[at] = format!("{program}.{next}").into();
    }
    Ok(())
}

/// Puts the words of this program for a verb.
fn verb(program: &mut Program, words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    file_after(program, words, at);
    without_models(program, words, at);
    let typed = of_script(program, word_at(words, at)).to_owned();
    // `to-bf16`, `to_q4_k_m`.
    let to = ["to-", "to_"].iter().find_map(|start| typed.strip_prefix(start));
    if let Some(to) = to.filter(|to| is_type_name(to)) {
        words.splice(at..=at, ["convert", "--dtype", to].map(OsString::from));
        return Ok(());
    }
    let mut one = if program.has(&typed) { typed.clone() } else { bare(&typed) };
    if program.has(&one) {
        words[at] = one.clone().into();
    } else if Path::new(&typed).exists() && !is_script(&typed) {
        one.clone_from(&typed);
    }
    option_after(words, at, &one);
    option_after(words, at, &dashed(&typed));
    let named = |name: &String| row(name).map(|meaning| (name.clone(), meaning));
    let arguments = words.iter().skip(at + 1).filter_map(|word| word.to_str());
    let arguments: Vec<&str> = arguments.filter(|word| !word.starts_with('-')).collect();
    // A name may be one of the other program's own; a path and an address are not.
    let of_kind = |name: &String, argument: usize| {
        let given = arguments.get(argument).filter(|it| !is_place(it) && !is_address(it))?;
        let is_bare = !given.contains(['/', ':']);
        named(&format!("{name} {}", if is_bare { "NAME" } else { "REPO" }))
    };
    let two = |name: &String| {
        let both = format!("{name} {}", word_at(words, at + 1));
        of_kind(&both, 1).or_else(|| named(&both)).or_else(|| of_kind(name, 0))
    };
    let full = Some(dashed(&typed)).filter(|full| *full != one);
    let is_verb = program.has(&one);
    let of_full = || full.as_ref().and_then(|full| two(full).or_else(|| named(full)));
    let of_one = || two(&one).or_else(|| if is_verb { None } else { named(&one) });
    // A folder may have such a name: `weighbridge lora`.
    let is_path = one == typed && at + 1 == words.len() && Path::new(&typed).exists();
    let found = if is_path { None } else { of_full().or_else(of_one) };
    let Some((name, meaning)) = found else {
        return match is_verb {
            true => {
                order::complete(program, words, at);
                Ok(())
            }
            false => model_or_mistake(program, words, at, &typed),
        };
    };
    let name = name.trim_end_matches(" NAME").trim_end_matches(" REPO").to_owned();
    let merges = name == "gguf-split" && words.iter().any(|word| word == "--merge");
    let here = match meaning {
        _ if merges => "merge",
        Is(here) => here,
        Near(here, what) => {
            // A report in JSON would hide it from those who do not know its form yet.
            if !has(words, &["--sha256"]) {
                print_note(what);
            }
            here
        }
        Moved(here) => {
            note(&format!("`{name}` is `{here}` now; the old name works for one more release"));
            here
        }
        Says(what) => {
            let name = name.replace('.', " ");
            let fault = match name.split_once(" -") {
                Some((verb, option)) => format!("`{verb}` has no option -{option} here"),
                None => format!("no command is named `{name}`"),
            };
            return Err(says(&fault, &faults::of_towers(what, words)));
        }
        Value | Pair(_) | Setting(_) | Needless | Ignored(_) => return Ok(()),
    };
    let (count, rest) = (name.split(' ').count(), at + name.split(' ').count());
    let here: Vec<OsString> =
        without_typed(here, &words[rest..]).into_iter().map(OsString::from).collect();
    words.splice(at..at + count, here);
    Ok(())
}

/// `FILE quantize Q4_K_M` is `quantize FILE Q4_K_M`.
fn file_after(program: &mut Program, words: &mut [OsString], at: usize) {
    let (first, second) = (word_at(words, at), word_at(words, at + 1));
    let is_file = Path::new(first).exists();
    if program.has(first) && !is_file {
        return;
    }
    // A folder may have the name of a verb that has verbs: `run generate`.
    let of_verb = program.verb(first).is_some_and(|verb| verb.find_subcommand(second).is_some());
    let is_model = || is_file || in_store(first);
    if !of_verb && is_verb(program, second) && !is_verb(program, first) && is_model() {
        words.swap(at, at + 1);
    }
}

/// `models rm NAME` is `rm NAME`: what comes after the verb is another, with an argument.
fn without_models(program: &Program, words: &mut Vec<OsString>, at: usize) {
    let (next, argument) = (word_at(words, at + 1), word_at(words, at + 2));
    let is_verb = || foreign::list("BEFORE").any(|verb| verb == word_at(words, at));
    let has_two = || foreign::verb(&format!("{} {next}", word_at(words, at))).is_some();
    if !argument.is_empty()
        && !is_option(argument)
        && is_verb()
        && !has_two()
        && !is_program(Path::new(next))
        && self::is_verb(program, next)
    {
        words.remove(at);
    }
}

/// The words without those of their options that are typed too: `dequantize F --dtype f32`.
fn without_typed<'h>(here: &'h str, words: &[OsString]) -> Vec<&'h str> {
    let verb = here.split(" --").next().unwrap_or(here);
    let mut is_typed = false;
    let is_left = |word: &&str| {
        if let Some(added) = word.starts_with("--").then(|| word.split('=').next()).flatten() {
            is_typed = words.iter().any(|word| {
                let name = dashed(word.to_str().and_then(|it| it.split('=').next()).unwrap_or(""));
                let own = || meaning(verb, &name, |it| it == added);
                name == added || matches!(own(), Some(Is(own)) if own == added)
            });
        }
        !is_typed
    };
    here.split(' ').filter(is_left).collect()
}

/// Puts an option that makes another verb of one after it: `gguf-dump FILE --no-tensors`.
fn option_after(words: &mut [OsString], at: usize, verb: &str) {
    let row_of = |option: &str| Some(foreign::verb(&format!("{verb} {option}"))?.0);
    let options = words.iter().enumerate().skip(at).filter_map(|(place, word)| {
        let option = word.to_str()?.split('=').next().filter(|it| is_option(it))?;
        Some((row_of(option)?, place))
    });
    // Of several, the first in the table counts.
    if let Some((_, place)) = options.min() {
        words[at + 1..=place].rotate_right(1);
    }
}

/// The name of a program or script that is given by its path: `./build/bin/llama-quantize`.
fn of_script<'w>(program: &Program, typed: &'w str) -> &'w str {
    if program.has(typed) {
        return typed;
    }
    let name = typed.rsplit(['/', '\\']).next().unwrap_or(typed);
    // `ORG/llama-chat` is a model.
    let is_built = |folder: &str| foreign::list("BUILT").any(|name| name == folder);
    let is_path =
        typed.starts_with(['.', '/', '~']) || typed.split(['/', '\\']).rev().skip(1).any(is_built);
    let is_llama = name.starts_with("llama-") && !Path::new(typed).is_dir();
    let is_program = is_path && (is_llama || !Path::new(typed).exists());
    let is_known = program.has(&bare(name)) || row(&bare(name)).is_some();
    if (is_program || is_script(name)) && is_known { name } else { typed }
}

/// `weighbridge FILE` is `weighbridge inspect FILE`; anything else is a mistake.
fn model_or_mistake(
    program: &Program,
    words: &mut Vec<OsString>,
    at: usize,
    name: &str,
) -> Result<(), Failure> {
    let rest: Vec<String> =
        words.iter().skip(at).map(|word| word.to_string_lossy().into_owned()).collect();
    let path = words.get(at).map_or(Path::new(""), Path::new);
    if name == "-" {
        let fault = "a model is not read from standard input";
        return Err(says(fault, "save it to a file, and give its path"));
    }
    let is_script = is_script(name);
    let is_program = bare(name) != dashed(name) || is_script && !path.exists();
    // `llama-3` would be a model.
    let has_digit = !is_script && name.contains(is_digit);
    let is_file = path.exists() || has_digit || in_store(name);
    let is_plain = !name.contains('/') || is_script;
    let next = word_at(words, at + 1);
    let slip = || {
        Some(format!(
            "did you mean `{}`? `weighbridge help` lists all",
            slips::meant(program, name, next)?
        ))
    };
    if is_program && is_plain && !is_file && nearest_entry(path).is_none() {
        let spelled = if is_script { name.to_owned() } else { name.replace('.', " ") };
        if let Some(advice) = slip() {
            return Err(says(&format!("no command is named `{spelled}`"), &advice));
        }
        let meant = if is_script { in_sentence(program, &rest) } else { None };
        let advice = meant.unwrap_or_else(|| "`weighbridge help` lists what it does".to_owned());
        return Err(says(&format!("Weighbridge has nothing for `{spelled}`"), &advice));
    }
    let is_address = name.contains(['/', '\\', '.', ':']) || name.is_empty();
    if is_address || path.exists() || in_store(name) {
        let here: &[&str] = match has(words, &["-p", "--prompt"]) {
            true => &["run", "generate", "--chat"],
            false => &["inspect"],
        };
        words.splice(at..at, here.iter().map(OsString::from));
        return Ok(());
    }
    let joined = rest.join(" ");
    if Path::new(&joined).exists() {
        let advice = format!("a path with spaces needs quotes: `weighbridge '{joined}'`");
        return Err(says(&format!("no command is named `{name}`"), &advice));
    }
    if is_type_name(name) && Path::new(next).exists() {
        let advice = format!("`weighbridge quantize {next} {name}`");
        return Err(says(&format!("{name} is a type, not a command"), &advice));
    }
    let verb = help::nearest_verb(name);
    let in_words = || with_affix(&rest).or_else(slip).or_else(|| in_sentence(program, &rest));
    let meant = if verb.is_none() { in_words() } else { None };
    let advice = meant
        .or_else(|| Some(format!("did you mean {}?", nearest_entry(path)?)))
        .or_else(|| Some(format!("did you mean `{}`? `weighbridge help` lists all", verb?)))
        .unwrap_or_else(|| {
            "`weighbridge help` lists the commands; `weighbridge FILE` shows what a file contains"
                .into()
        });
    Err(says(&format!("`{name}` is neither a command nor a file"), &advice))
}

/// The verb in a name, with the words after it: `gguf-diff A B`, `diff_models A B`.
fn with_affix(words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let name = dashed(name);
    let verb = name.split('-').find(|piece| help::is_verb(piece)).filter(|_| !rest.is_empty())?;
    let quoted = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    let rest = rest.iter().map(quoted).collect::<Vec<_>>().join(" ");
    Some(format!("did you mean `weighbridge {verb} {rest}`? `weighbridge help` lists all"))
}

/// The subject of a sentence: `does FILE fit in 8GB`.
fn in_sentence(program: &Program, words: &[String]) -> Option<String> {
    let models: Vec<&String> = words.iter().skip(1).filter(|word| is_known(word)).collect();
    let place = words.iter().position(|word| Some(&word) == models.first())?;
    let mut model = models.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
    if let Some(tensor) = words.get(place + 1).filter(|word| has_tensor(&model, word)) {
        model = format!("{model} {tensor}");
    }
    let verb = words.iter().find_map(|word| match row(word) {
        _ if program.has(word) => Some(word.as_str()),
        Some(Is(here)) => Some(here),
        _ => None,
    });
    // Several are meant for a verb that is not among the words.
    let has_script = || words.iter().any(|word| is_script(word));
    if verb.is_none() && (models.len() > 1 || words.len() < 3 && !has_script()) {
        return None;
    }
    let verb = verb.map_or(String::new(), |verb| format!("{verb} "));
    Some(format!("`weighbridge {verb}{model}` may be meant; `weighbridge help` lists all"))
}

/// Puts `-` for `_` in the names of options: `--max_shard_size`.
fn dashed_options(words: &mut [OsString], at: usize) {
    for word in words.iter_mut().skip(at).take_while(|word| *word != "--") {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        if name.starts_with("--") && name.contains('_') && !name.contains(' ') {
            *word = (name.replace('_', "-") + &text[name.len()..]).into();
        }
    }
}

/// Puts the words of this program for the options of a verb.
fn options(program: &mut Program, words: &mut Vec<OsString>, at: usize) -> Result<(), Failure> {
    let mut verb = word_at(words, at).to_owned();
    let mut place = at + 1;
    let Some(mut command) = program.verb(&verb) else { return Ok(()) };
    while let Some(inner) = command.find_subcommand(word_at(words, place)) {
        verb = format!("{verb} {}", inner.get_name());
        (command, place) = (inner, place + 1);
    }
    while let Some(word) = words.get(place).filter(|word| *word != "--") {
        let Some(word) = word.to_str().map(str::to_owned) else {
            place += 1;
            continue;
        };
        let has = |option: &str| has_option(command, option);
        // `-n8`.
        let is_foreign = |it: &&str| !has(it) && meaning(&verb, it, has).is_some();
        if let Some(option) = joined(&word).filter(is_foreign) {
            words.splice(place..=place, [option.into(), word[option.len()..].into()]);
            continue;
        }
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (option, Some(value)),
            _ => (word.as_str(), None),
        };
        let given = value.unwrap_or(word_at(words, place + 1));
        let end = place + usize::from(value.is_none());
        if let Some(meant) = with_value(&verb, option, given, has) {
            let here = in_place(&verb, &format!("{option} {given}"), meant)?;
            words.splice(place..=end, here);
            continue;
        }
        let has_value = !given.is_empty() && (value.is_some() || !given.starts_with("--"));
        let meant = by_value(option, given, has)
            .or_else(|| meaning(&verb, option, has))
            .filter(|meant| !matches!(meant, Value | Pair(_) | Setting(_)) || has_value);
        // The parser takes it for `-h`.
        if meant.is_none() && option.len() > 2 && option.starts_with("-h") {
            let advice = format!("`weighbridge help {verb}` lists its options");
            return Err(says(&format!("`{verb}` has no option {option}"), &advice));
        }
        let here = match meant {
            Some(Is(here)) if is_given(command, words, here) => Vec::new(),
            Some(Is("--kv")) if repeats(words, "--kv", given) => {
                words.drain(place..=end);
                continue;
            }
            Some(Is(here)) => vec![here],
            Some(Value) => Vec::new(),
            Some(Setting(key)) => {
                words.splice(place..=end, [order::setting(key, given).into()]);
                continue;
            }
            Some(Pair(here)) => {
                paired(words, place, here, given.to_owned());
                continue;
            }
            Some(without @ (Needless | Ignored(_))) => {
                if let Ignored(why) = without {
                    note(&format!("{option} is left out: {why}"));
                }
                let is_valued = is_valued(&verb, option, has);
                let has_value = value.is_none() && has_value_after(words, end, without, is_valued);
                words.drain(place..=place + usize::from(has_value));
                continue;
            }
            Some(Says(what)) => {
                let what = faults::of_towers(what, words);
                return Err(says(&format!("`{verb}` has no option {option}"), &what));
            }
            Some(Moved(_) | Near(..)) | None => {
                place += 1;
                continue;
            }
        };
        let here: Vec<OsString> = here.into_iter().chain(value).map(OsString::from).collect();
        words.splice(place..=place, here.iter().cloned());
        place += here.len();
    }
    Ok(())
}

/// The option here for one with a value, if there is one.
fn in_place(verb: &str, typed: &str, meant: Meaning) -> Result<Option<OsString>, Failure> {
    Ok(match meant {
        Is(here) => Some(here.into()),
        Says(what) => return Err(says(&format!("`{verb}` has no option {typed}"), what)),
        Ignored(why) => {
            note(&format!("{typed} is left out: {why}"));
            None
        }
        _ => None,
    })
}

/// Puts an option with one value for one at a place that may have two.
fn paired(words: &mut Vec<OsString>, place: usize, here: &str, mut value: String) {
    let (option, sign) = here.split_at(here.len() - 1);
    let is_joined = word_at(words, place).contains('=');
    let mut last = place + usize::from(!is_joined);
    if foreign::list("VALUES").any(|it| it == word_at(words, last + 1)) {
        words.remove(last + 1);
    }
    let second = word_at(words, last + 1);
    if !value.contains(sign) && !second.is_empty() && !is_option(second) {
        value = format!("{value}{sign}{second}");
        last += 1;
    }
    let option = (!option.is_empty()).then(|| option.into());
    words.splice(place..=last.min(words.len() - 1), option.into_iter().chain([value.into()]));
}

/// Whether the word after an option that is left out is its value.
fn has_value_after(words: &[OsString], end: usize, meant: Meaning, is_valued: bool) -> bool {
    let next = word_at(words, end);
    end < words.len()
        && match meant {
            _ if is_valued => !next.starts_with("--"),
            // `--verbose False` of mlx-lm.
            Needless => SWITCHES.contains(&next.to_ascii_lowercase().as_str()),
            _ => is_setting(next),
        }
}

/// Words that turn an option on and off.
const SWITCHES: [&str; 6] = ["on", "off", "true", "false", "t", "f"];

/// The option of a word that is a letter and a number: `-n8`.
fn joined(word: &str) -> Option<&str> {
    let (option, number) = word.split_at_checked(2)?;
    let is_letter =
        option.starts_with('-') && option.ends_with(|it: char| it.is_ascii_alphabetic());
    (is_letter && !number.is_empty() && number.chars().all(is_digit)).then_some(option)
}

/// Whether an option without a value, or with one that is given, is among the words already, or says nothing: --overwrite is about the file
/// of -o, or the second of two. Without one, the file itself is changed, as others do with --force.
fn is_given(command: &clap::Command, words: &[OsString], option: &str) -> bool {
    let is_file = |word: &&OsString| {
        word.to_str().is_some_and(|word| word.ends_with(".gguf") && !word.contains('='))
    };
    if option == "--overwrite"
        && has_option(command, "--output")
        && !has(words, &["-o", "--output"])
        && words.iter().filter(is_file).count() < 2
    {
        return true;
    }
    let argument = command.get_arguments().find(|argument| is_spelled(argument, option));
    let name = option.split('=').next().unwrap_or(option);
    let is_whole = argument.is_some_and(|it| !it.get_action().takes_values()) || name != option;
    is_whole && has(words, &[name])
}

/// Whether an option has this value already: llama.cpp has one for keys, and another for values.
fn repeats(words: &[OsString], option: &str, value: &str) -> bool {
    words.windows(2).any(|pair| pair[0] == option && pair[1] == value)
}

/// Whether a word behind an option that nothing here has is its value, not an argument.
fn is_setting(word: &str) -> bool {
    let number = word.strip_prefix('-').unwrap_or(word);
    let lower = word.to_ascii_lowercase();
    let is_switch = ["auto", "all", "none", "layer", "row"].contains(&lower.as_str());
    number.starts_with(is_digit) && !Path::new(word).exists()
        || is_switch
        || SWITCHES.contains(&lower.as_str())
}

/// The meaning of a short option that the verb lacks, by its value: `-t Q4_K_M`, `-t mlx`.
fn by_value(option: &str, value: &str, has: impl Fn(&str) -> bool) -> Option<Meaning> {
    let is_unknown = option.len() == 2 && option.starts_with('-') && !has(option);
    match is_unknown {
        // llama-tokenize has it without a value.
        _ if option == "--ids" && has("--print-ids") && !value.contains(is_digit) => {
            Some(Is("--print-ids"))
        }
        // llama-cli has it without a value, or as a switch.
        _ if option == "--color" && !["auto", "always", "never"].contains(&value) => Some(Needless),
        true if option == "-j" && value.starts_with('{') => {
            meaning("run generate", "--json-schema", |_| false)
        }
        true if has("--type") && is_type_name(value) => Some(Is("--type")),
        false
            if !has(option)
                && has("--type")
                && foreign::list("TYPED").any(|it| it == option)
                && is_type_name(value) =>
        {
            Some(Is("--type"))
        }
        true if has("--dtype") && is_type_name(value) => Some(Is("--dtype")),
        true if has("--to") && is_container(value) => Some(Is("--to")),
        true if option == "-m" && has("--max-tokens") && value.parse::<u64>().is_ok() => {
            Some(Is("--max-tokens"))
        }
        true if option == "-m" && row(value) == Some(Says(foreign::text("RECIPES"))) => {
            Some(Says(foreign::text("RECIPES")))
        }
        // wget's; curl's has no value.
        true if option == "-O" && has("--output") && !value.contains("://") => Some(Is("-o")),
        // Whatever asks for gigabytes: `--vram 8G`.
        false if !has(option) && has("--room") && is_amount(value) && is_of_memory(option) => {
            Some(Is("--room"))
        }
        _ => None,
    }
}

/// Whether the words of an option say that its value is an amount of memory, and the table has no other meaning for it.
fn is_of_memory(option: &str) -> bool {
    let name = option.trim_start_matches('-');
    let has_word = || foreign::list("AMOUNTS").any(|it| name.split('-').any(|word| word == it));
    let is_said = || matches!(meaning("memory", option, |_| false), Some(Says(_)));
    option.starts_with("--") && has_word() && !is_said()
}

/// Whether a word is an amount of memory, and not a number of tokens: `8G`, but not `8k`.
fn is_amount(word: &str) -> bool {
    let unit = word.trim_start_matches(|letter: char| is_digit(letter) || letter == '.');
    let is_large = unit.starts_with(['G', 'g', 'M']) || unit.len() > 1;
    is_large && unit.len() < word.len() && size(word).is_ok()
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

/// The meaning of an option of a verb; `None` if it is one of this program, or unknown.
pub(super) fn meaning(verb: &str, option: &str, has: impl Fn(&str) -> bool) -> Option<Meaning> {
    spelled(verb, option, has).map(|(_, meaning)| meaning)
}

/// Whether an option of a verb has a value, whatever that looks like.
fn is_valued(verb: &str, option: &str, has: impl Fn(&str) -> bool) -> bool {
    spelled(verb, option, has).is_some_and(|(spelling, _)| spelling.ends_with('='))
}

/// The meaning of an option of a verb with a value, if the table has the two together.
fn with_value(
    verb: &str,
    option: &str,
    value: &str,
    has: impl Fn(&str) -> bool,
) -> Option<Meaning> {
    let both = format!("{option}={value}");
    let is_it = |it: &str| !it.ends_with('=') && it.contains('=') && is_spelling(it, &both);
    rows(verb, option, has).find(|(it, _)| it.split('|').any(is_it)).map(|(_, meaning)| meaning)
}

/// The spelling and the meaning of an option in the table.
fn spelled(
    verb: &str,
    option: &str,
    has: impl Fn(&str) -> bool,
) -> Option<(&'static str, Meaning)> {
    rows(verb, option, has).find_map(|(spellings, meaning)| {
        let spelling = spellings.split('|').find(|spelling| is_spelling(spelling, option))?;
        Some((spelling, meaning))
    })
}

/// The rows of the table that may be about an option of a verb: none if the verb has it.
fn rows(
    verb: &str,
    option: &str,
    has: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'static str, Meaning)> {
    let is_foreign = option.starts_with('-') && !has(option);
    // `run` stands for all of its verbs.
    let fits = move |of: &str, meaning: &Meaning| match meaning {
        _ if of == verb || verb.split(' ').next() == Some(of) => true,
        Is(here) => of == ANY && has(here),
        _ => of == ANY,
    };
    let rows = foreign::options().filter(move |(of, _, meaning)| is_foreign && fits(of, meaning));
    rows.map(|(_, spellings, meaning)| (spellings, meaning))
}

/// Whether an option is one of another program, whatever the verb.
pub(super) fn is_of_another(option: &str) -> bool {
    let is_it = |it: &str| !it.contains('*') && is_spelling(it, option);
    foreign::options().any(|(_, spellings, _)| spellings.split('|').any(is_it))
}

/// Whether an option is spelled as in a row of the table. Programs differ in the number of dashes before a
/// long name.
fn is_spelling(spelling: &str, option: &str) -> bool {
    let name = spelling.trim_end_matches('=').trim_start_matches('-');
    let option = option.trim_start_matches('-');
    name.strip_suffix('*').map_or(name == option, |start| option.starts_with(start))
}

fn says(message: &str, advice: &str) -> Failure {
    Failure::advised(message.to_owned(), advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::program::command;

    fn here(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = translated(&mut Program::new(), &words).expect("words of this program");
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Command lines as users of other programs type them, and in the words of this program.
    const LINES: &[(&str, &str)] = &[
        ("w info m.gguf", "w inspect m.gguf"),
        ("w m.gguf --all", "w inspect m.gguf --all"),
        ("w models show m --json", "w show m --json"),
        (
            "w gguf_new_metadata.py --general-name X s d.gguf",
            "w meta set s --output d.gguf general.name=X",
        ),
        (
            "w gguf_new_metadata.py --chat-template-file t s d.gguf",
            "w meta set s --output d.gguf tokenizer.chat_template=@t",
        ),
        ("w meta set s d.gguf name=X", "w meta set s --output d.gguf name=X"),
        ("w quantize m --preset q4_k_m", "w quantize m --type q4_k_m"),
        ("w quantize m --to Q4_K_M", "w quantize m --type Q4_K_M"),
        ("w generate m --prompt x --num-tokens 4", "w run generate m --prompt x --max-tokens 4"),
        ("w quality m --ctx 64", "w quality m --context 64"),
        ("w safetensors-cli info m", "w inspect m"),
        ("w compare_tensors a b", "w diff a b"),
        ("w gguf-parser --path=m --flash-attention --ctx-size=4k", "w memory m --context 4k"),
        ("w verify --hub o/n", "w verify --hub o/n o/n"),
        ("w models chat", "w models --filter chat"),
        ("w show-metadata m", "w meta get m"),
        ("w get-config m", "w inspect --config m"),
        ("w hf repo-files list o/n", "w pull --include=* --dry-run o/n"),
        ("w llama-imatrix --in-file x --show-statistics", "w inspect --stats x"),
        ("w llama-export-lora -m m --lora-scaled a 0.5 -o d", "w convert m --lora a:0.5 --dst d"),
        ("w convert m --lora-scaled a:0.5 --lora b", "w convert m --lora a:0.5 --lora b"),
        ("w create a m --param temperature 0.2", "w create a m --parameter temperature=0.2"),
        ("w create a m -p temperature=0.2", "w create a m --parameter temperature=0.2"),
        ("w convert m d --leave-out x y", "w convert m d --leave-out x --leave-out y"),
        ("w convert --leave-out *x *y m d", "w convert --leave-out *x --leave-out *y m d"),
        ("w run m --stop x Once upon", "w run generate --chat m --stop x --prompt=Once upon"),
        ("w convert m --leave-out x d.gguf", "w convert m --leave-out x d.gguf"),
        (
            "w quantize m d q8_0 --tensor-type a=q4_0 b=q5_0",
            "w quantize m d q8_0 --tensor-type a=q4_0 --tensor-type b=q5_0",
        ),
        (
            "w llama-quantize --tensor-type a=q6_k b=q5_0 m d.gguf Q4_0 8",
            "w quantize --tensor-type a=q6_k --tensor-type b=q5_0 m d.gguf Q4_0 --threads 8",
        ),
        (
            "w llama-quantize --override-kv a=int:1 m d 15 8",
            "w quantize --override-kv a=int:1 m d 15 --threads 8",
        ),
        (
            "w llama-quantize --prune-layers 1 m d Q4_0 8",
            "w quantize --prune-layers 1 m d Q4_0 --threads 8",
        ),
        (
            "w quantize --prune-layers 1 2 m d Q4_0 8",
            "w quantize --prune-layers 1 --prune-layers 2 m d Q4_0 --threads 8",
        ),
        (
            "w llama-quantize --exclude-weights x m d Q4_0 4",
            "w quantize --exclude-weights x m d Q4_0 --threads 4",
        ),
        (
            "w quantize --leave-out x Cargo.toml d z Q4_0",
            "w quantize --leave-out x Cargo.toml d z Q4_0",
        ),
        (
            "w quantize m --type q8_0 --tensor-type a=f16 b=f16",
            "w quantize m --type q8_0 --tensor-type a=f16 --tensor-type b=f16",
        ),
        ("w memory m --device a=1G b=2G", "w memory m --device a=1G --device b=2G"),
        ("w quantize m --quantization_method q4_k_m", "w quantize m --type q4_k_m"),
        ("w save_pretrained_gguf m --quant-method q4_k_m", "w quantize m --type q4_k_m"),
        ("w convert m --type q4_k_m", "w quantize m --type q4_k_m"),
        ("w mlx_lm.convert --hf-path m -d", "w convert --to mlx --dst mlx_model m --dequantize"),
        ("w convert m -d --dtype bf16", "w convert m --dequantize --dtype bf16"),
        ("w memory m --kv-cache q8", "w memory m --kv q8"),
        (
            "w gguf-new-metadata --general-name N --special-token eos </s> --remove-metadata k s d.gguf",
            "w meta set s --output d.gguf general.name=N eos=</s> --remove k",
        ),
        (
            "w gguf-new-metadata --special-token-by-id eos 2 s d.gguf",
            "w meta set s --output d.gguf eos=2",
        ),
        (
            "w gguf-new-metadata s d.gguf --remove-metadata k",
            "w meta set s --output d.gguf --remove k",
        ),
        (
            "w gguf-new-metadata --force s.gguf d.gguf --general-name N",
            "w meta set --force s.gguf --output d.gguf general.name=N",
        ),
        ("w meta set m a=b --in-place", "w meta set m a=b"),
        ("w quantize --list-types", "w list types"),
        ("w hf cache ls --sort size:desc", "w models huggingface --sort size:desc"),
        ("w ls -lhS", "w models --sort=size"),
        ("w du -sh Cargo.toml src", "w inspect Cargo.toml src"),
        ("w lms get a/b@q4_k_m --gguf -y", "w pull a/b:q4_k_m"),
        ("w --color never generate m -p x", "w run generate m --prompt x --color never"),
        ("w --filter layers inspect m", "w inspect m --filter layers"),
        ("w run m Hello", "w run generate --chat m --prompt=Hello"),
        ("w run embed m", "w run embed m"),
        ("w run generate m -h", "w run generate m -h"),
        ("w list models --json", "w models --json"),
        ("w list dtypes", "w list dtypes"),
        ("w list", "w models"),
        ("w gguf-split --merge a b", "w merge a b"),
        ("w gguf-split --split --split-max-size 2G a b", "w split --max-shard-size 2G a b"),
        ("w convert --outfile=x.gguf m --outtype f16", "w convert --dst x.gguf m --dtype f16"),
        ("w ppl -m a.gguf -f text", "w quality a.gguf --text text"),
        ("w meta m key", "w meta get m key"),
        ("w meta m key=1 -o x", "w meta set m key=1 -o x"),
        ("w gguf_set_metadata.py m key 1 --dry-run", "w meta set m key=1 --dry-run"),
        ("w convert d Q4_K_M", "w quantize d Q4_K_M"),
        ("w convert d Q4_K_M out.gguf", "w quantize d out.gguf Q4_K_M"),
        ("w convert d --outtype q4_k_m", "w quantize d --type q4_k_m"),
        ("w convert d --outtype q8_0", "w convert d --dtype q8_0"),
        ("w convert d q4_0 --to mlx", "w convert d q4_0 --to mlx"),
        ("w quantize d Q4_K_M o.gguf", "w quantize d o.gguf Q4_K_M"),
        ("w llama-quantize d o.gguf Q4_K_M 8", "w quantize d o.gguf Q4_K_M --threads 8"),
        ("w llama-quantize d Q4_K_M 8", "w quantize d Q4_K_M --threads 8"),
        ("w quantize --imatrix i d o.gguf Q4_K_M", "w quantize --imatrix i d o.gguf Q4_K_M"),
        ("w memory m 8G", "w memory m --room 8G"),
        ("w tokenize -m m -p Hello", "w run tokens m --text Hello"),
        ("w run tokens m Hello", "w run tokens m --text Hello"),
        ("w dump m", "w inspect --metadata m"),
        ("w dump m x", "w dump m x"),
        ("w list archs", "w list families"),
        ("w hf download a/b --local-dir c", "w pull a/b -o c"),
        ("w ollama list", "w models ollama"),
        ("w export-lora -m m --lora a -o x.gguf", "w convert m --lora a --dst x.gguf"),
        ("w convert d --outtype auto", "w convert d"),
        ("w mlx_lm.convert --hf-path d -q --mlx-path o", "w quantize d --dst o --type mlx4"),
        (
            "w mlx_lm.convert --hf-path d -q --q-bits 8 --q-mode mxfp8",
            "w quantize --dst mlx_model d --type mlx8,,mxfp8",
        ),
        ("w quantize d --q-bits 4 --q-group-size=32", "w quantize d --type mlx4,32"),
        ("w quantize d -q q4_0", "w quantize d --type q4_0"),
        ("w convert d o --q-bits 4", "w quantize d o --type mlx4"),
        ("w cast d o bf16", "w convert d o --dtype BF16"),
        (
            "w mlx_lm.generate --model m -m 20 -p x",
            "w run generate --chat m --max-tokens 20 --prompt x",
        ),
        ("w run -m m -p x -c 512 -ngl 99 -t 2", "w run generate --chat m --prompt x"),
        ("w embed m a b", "w run embed m --text=a --text=b"),
        ("w -hf o/n", "w inspect o/n"),
        ("w --strict verify m", "w verify m --strict"),
        ("w --threads 1 --json quantize m q", "w quantize m q --threads 1 --json"),
        ("w hf.co/o/n", "w inspect hf.co/o/n"),
        ("w hf models info o/n", "w inspect o/n"),
        ("w split -b 500K m p", "w split --max-shard-size 500K m p"),
        ("w set_metadata m k v", "w meta set m k=v"),
        ("w merge a-1-of-2.gguf a-2-of-2.gguf -o b.gguf", "w merge a-1-of-2.gguf --dst b.gguf"),
        (
            "w merge a-1-of-3.gguf a-2-of-3.gguf a-3-of-3.gguf b.gguf",
            "w merge a-1-of-3.gguf b.gguf",
        ),
        ("w dump m x y.npy", "w dump m x --output y.npy"),
        ("w diff a b --per-layer", "w diff a b --by-layer"),
        ("w help generate", "w run generate --help"),
        ("w help", "w --help"),
        ("w man quantize", "w quantize --help"),
        ("w man llama-quantize", "w quantize --help"),
        ("w man ./quantize", "w man ./quantize"),
        ("w man -o pages", "w man pages"),
        ("w convert a b -- --outfile", "w convert a b -- --outfile"),
        ("w convert a b.gguf --force -t 2", "w convert a b.gguf --overwrite --threads 2"),
        ("w create a -f b", "w create a -f b"),
        ("w inspect m -v", "w inspect m --all"),
        ("w diff a b --verbose", "w diff a b --all"),
        ("w m.gguf --tensors", "w inspect m.gguf --all"),
        ("w memory m --gpu 8G", "w memory m --room 8G"),
        ("w quantize Q4_K_M d o.gguf", "w quantize d o.gguf Q4_K_M"),
        ("w quantize q4_0 d", "w quantize d q4_0"),
        ("w special-tokens m", "w run tokens m"),
        ("w to-mlx d", "w convert --to mlx d"),
        ("w mlx_lm.perplexity --model d -f x", "w quality d --text x"),
        ("w mlx_lm.perplexity --model d --data-path x", "w quality d --text x"),
        (
            r"w llama-cli -m m -p a\nb\x41\q -r \n",
            "w run generate --chat m --prompt a\nbA\\q --stop \n",
        ),
        (r"w llama-cli -m m -p a\nb --no-escape", r"w run generate --chat m --prompt a\nb"),
        ("w diff a b attn_q", "w diff a b --filter attn_q"),
        ("w llama-quantize.exe d o.gguf Q4_0", "w quantize d o.gguf Q4_0"),
        ("w python -m gguf.scripts.gguf_dump m", "w inspect --metadata --all m"),
        ("w convert_hf_to_gguf.py d --outtype q4_k_m", "w quantize d --type q4_k_m"),
        ("w convert d --torch_dtype=float16", "w convert d --dtype float16"),
        ("w lms get a/b@q4_k_m", "w pull a/b:q4_k_m"),
        ("w memory m -b 2048 -ub 512", "w memory m --batch 512"),
        ("w llama-cli -m m --color -p x -ot exps=CPU", "w run generate --chat m --prompt x"),
        ("w mlx_lm.generate -p x --verbose False", "w run generate --chat --prompt x"),
        (r"w run m a\nb -e", "w run generate --chat m --prompt=a\nb"),
        (r"w run m a\nb", r"w run generate --chat m --prompt=a\nb"),
        (r"w ./build/bin/llama-tokenize -m m -p=a\tb\\n", "w run tokens m --text a\tb\\n"),
        ("w llama-cli -m m -p x --numa distribute -ctk q4_0", "w run generate --chat m --prompt x"),
        ("w llama-cli -m m -p x --samplers top_k;min_p", "w run generate --chat m --prompt x"),
        ("w memory m -ctk q8_0 -ctv q8_0", "w memory m --kv q8_0"),
        ("w memory m -ctk q8_0 -ctv f16", "w memory m --kv q8_0 --kv f16"),
        ("w stats m", "w inspect --stats m"),
        ("w memory m -ctx-size 8", "w memory m --context 8"),
        ("w convert_lora_to_gguf.py --base m a", "w convert --base m a"),
        (
            "w mlx_lm.fuse --model m --save-path x",
            "w convert --lora adapters --requantize-merged m --dst x",
        ),
        (
            "w mlx_lm.fuse --model m --adapter_path a",
            "w convert --dst fused_model --requantize-merged m --lora a",
        ),
        ("w hf models ls o/n", "w pull --include=* --dry-run o/n"),
        ("w hf models card o/n", "w pull --include=README.md o/n"),
        ("w git lfs fetch https://hf.co/a/b", "w pull https://hf.co/a/b"),
        ("w git-lfs pull a/b", "w pull a/b"),
        ("w git lfs ls-files a/b", "w pull --include=* --dry-run a/b"),
        ("w run -m m -p Hello", "w run generate --chat m --prompt Hello"),
        ("w -v", "w --version"),
        ("w hf download a/b x.json", "w pull a/b --include x.json"),
        ("w pull a/b c/d", "w pull a/b c/d"),
        ("w pull a/b Q4_K_M", "w pull a/b:Q4_K_M"),
        ("w clone a/b ./c", "w pull a/b --output ./c"),
        ("w models qwen", "w models --filter qwen"),
        ("w run m Once upon -n 3", "w run generate --chat m --prompt=Once upon --max-tokens 3"),
        ("w run m -- -5 degrees", "w run generate --chat m --prompt=-5 degrees"),
        ("w split m out 2G", "w split m out --max-shard-size 2G"),
        ("w dequantize m", "w convert --dequantize m"),
        ("w ollama show m", "w show m"),
        ("w meta dump m", "w meta get m"),
        ("w gguf-parser -m m --ctx-size 8k", "w memory m --context 8k"),
        ("w -o x.gguf convert d", "w convert d --dst x.gguf"),
        ("w --dtype f16 convert d x.gguf", "w convert d x.gguf --dtype f16"),
        ("w -m m run -p x", "w run generate --chat --prompt x m"),
        ("w --offline verify m -- --x", "w verify m --offline -- --x"),
        ("w python -m mlx_lm.convert --hf-path d", "w convert --to mlx --dst mlx_model d"),
        ("w python3 convert_hf_to_gguf.py d", "w convert --to gguf d"),
        ("w ./build/bin/llama-quantize d Q4_K_M", "w quantize d Q4_K_M"),
        ("w llama-cli -m m -p x -fa on -n 3", "w run generate --chat m --prompt x --max-tokens 3"),
        ("w llama-cli -m m -p x -fa --jinja", "w run generate m --prompt x --chat"),
        ("w llama-cli -m m -p x -no-cnv", "w run generate --chat m --prompt x --no-chat"),
        ("w llama-completion -m m -p x -n -1", "w run generate m --prompt x --max-tokens -1"),
        ("w ollama run m Hello", "w run generate --chat m --prompt=Hello"),
        ("w ollama ls m", "w models ollama --filter m"),
        ("w ollama help run", "w run --help"),
        ("w ollama --version", "w --version"),
        ("w llama-cli --version", "w --version"),
        ("w ollama-dl -d x m", "w pull -o x m"),
        ("w hf cache ls --json", "w models huggingface --json"),
        ("w huggingface-cli scan-cache", "w models huggingface"),
        ("w mlx_lm.manage --scan", "w models huggingface"),
        ("w lms ls", "w models lmstudio"),
        ("w gguf_dump.py m --json", "w inspect --metadata --all --json m"),
        ("w gguf-dump m --no-tensors", "w meta get m"),
        ("w models acme/tiny", "w models --filter acme/tiny"),
        ("w memory a b 8G", "w memory a b --room 8G"),
        ("w view a b c.html", "w view a b --output c.html"),
        ("w create a b -s x", "w create a b --system x"),
        ("w dequant m g.gguf --outtype f32", "w convert --dequantize m g.gguf --dtype f32"),
        ("w dequant m g.gguf", "w convert --dequantize m g.gguf"),
        ("w Cargo.toml x*", "w inspect Cargo.toml --filter x*"),
        ("w models --program ollama", "w models ollama"),
        ("w outliers m x", "w inspect --stats m x"),
        ("w pull a/b --all", "w pull a/b --include=*"),
        ("w git clone https://hf.co/a/b", "w pull https://hf.co/a/b"),
        ("w fit-params -m m -c 4k -fa on", "w memory m --context 4k"),
        ("w compare a b --text t", "w quality a b --text t"),
        ("w quantize d -t Q4_K_M -j 2", "w quantize d --type Q4_K_M --threads 2"),
        ("w quantize d fp16", "w quantize d fp16"),
        ("w gguf-dump --json --json-array m", "w meta get --json m"),
        ("w gguf_dump.py m --json-array", "w meta get --json m"),
        ("w -m m.gguf -p hi -n 3", "w run generate --chat m.gguf --prompt hi --max-tokens 3"),
        ("w --hf-repo o/n -p hi", "w run generate --chat o/n --prompt hi"),
        ("w convert d to mlx", "w convert d --to mlx"),
        ("w convert d -o q.gguf -t q8_0", "w convert d --dst q.gguf --dtype q8_0"),
        ("w -q convert d x.gguf", "w convert d x.gguf --quiet"),
        ("w inspect m -o json", "w inspect m --json"),
        ("w inspect m --format=json", "w inspect m --json"),
        ("w llama-tokenize -m m -p x --ids", "w run tokens m --text x --print-ids"),
        ("w run tokens m --ids 1,2", "w run tokens m --ids 1,2"),
        ("w meta m --set a=b", "w meta set m a=b"),
        ("w gguf2safetensors m", "w convert --to safetensors m"),
        ("w hf2gguf m o.gguf", "w convert --to gguf m o.gguf"),
        ("w mlx-to-gguf m", "w convert --to gguf m"),
        ("w llama-cli -m m -p x -n8", "w run generate --chat m --prompt x --max-tokens 8"),
        ("w quantize m Q4_0 -j4", "w quantize m Q4_0 --threads 4"),
        ("w quantize m Q4_0 --adapter a", "w quantize m Q4_0 --lora a"),
        ("w hf cache ls --format agent", "w models huggingface"),
        ("w docker model run m hi", "w run generate --chat m --prompt=hi"),
        ("w docker model pull hf.co/o/n:q8_0", "w pull hf.co/o/n:q8_0"),
        ("w docker model list", "w models"),
        ("w python -m mergekit.scripts.run_yaml Cargo.toml o", "w merge Cargo.toml o"),
        ("w python -m huggingface_hub.cli.hf download o/n", "w pull o/n"),
        (
            "w save_pretrained d o --max_shard_size 2G",
            "w convert --to safetensors d o --max-shard-size 2G",
        ),
        (
            "w swift export --model d --adapters a --merge_lora true",
            "w convert --to safetensors d --lora a",
        ),
        ("w litgpt download o/n", "w pull o/n"),
        ("w text-generation-server download-weights o/n", "w pull o/n"),
        ("w accelerate-estimate-memory m", "w memory m"),
        ("w accelerate estimate-memory m --library_name transformers", "w memory m"),
        (
            "w export-lora --model-base m --model-out x.gguf -l a",
            "w convert m --dst x.gguf --lora a",
        ),
        ("w export-lora -m m -o x.gguf -s a 0.5", "w convert m --dst x.gguf --lora a:0.5"),
        ("w convert.py d --vocab-type bpe --outfile x.gguf", "w convert d --dst x.gguf"),
        ("w quantize m q4k", "w quantize m q4k"),
        ("w mistralrs quantize -m m --isq q4k", "w quantize m --type q4k"),
        ("w transformers download a/b", "w pull a/b"),
        ("w llama quantize m Q4_0", "w quantize m Q4_0"),
        ("w ollama -v", "w --version"),
        ("w -q convert d", "w convert d --quiet"),
        ("w ./quantize m Q4_0", "w quantize m Q4_0"),
        ("w mlx_lm.quantize d", "w quantize --type mlx4 d"),
        ("w --help quantize", "w quantize --help"),
        ("w ollama-to-gguf m", "w convert --to gguf m"),
        ("w to_bf16 m", "w convert --dtype bf16 m"),
        ("w to-q4_k_m m", "w quantize --type q4_k_m m"),
        ("w mlx.quantize d", "w quantize --type mlx4 d"),
        ("w huggingface_hub.hf_hub_download a/b x.json", "w pull a/b --include x.json"),
        ("w modelscope download --model a/b --local_dir ./c", "w pull a/b -o ./c"),
        (
            "w llamafactory-cli export --adapter_name_or_path a --export_dir b m",
            "w convert --lora a --dst b m",
        ),
        ("w lms load m --estimate-only", "w memory m"),
        ("w memory m --fit 6G", "w memory m --room 6G"),
        ("w memory m -fit on", "w memory m"),
        ("w memory m --suggest 6GiB -c 4k", "w memory m --room 6GiB --context 4k"),
        ("w quantize d to q4_k_m", "w quantize d q4_k_m"),
        ("w download a/b to ./c", "w pull a/b --output ./c"),
        ("w compare a with b", "w quality a b"),
        ("w convert gguf to safetensors m", "w convert --to safetensors m"),
        ("w ppl m Cargo.toml", "w quality m Cargo.toml"),
        ("w ppl m ../README.md", "w quality m --text ../README.md"),
        ("w wget -O x.gguf https://a/b", "w pull -o x.gguf https://a/b"),
        ("w curl -O https://a/b", "w pull https://a/b"),
        ("w gguf_dump.py --json --no-tensors --json-array m", "w meta get --json m"),
        ("w meta get m name --raw", "w meta get m name"),
        ("w fclones group .", "w models --duplicates ."),
        ("w analyze m x", "w inspect m x"),
        ("w safetensors_util.py extractdata m x y", "w dump m x --output y"),
        ("w python -m safetensors.convert d", "w convert --to safetensors d"),
        ("w dump m x --npy y.npy", "w dump m x --output y.npy"),
        ("w merge -c Cargo.toml o", "w merge Cargo.toml o"),
        ("w du -sh d", "w models --filter d"),
        ("w gguf_set_metadata.py m k v l w", "w meta set m k=v l=w"),
        (
            "w llama-embedding -m m -p x --embd-output-format json --pooling cls",
            "w run embed m --text x --json --pooling cls",
        ),
        ("w pull a/b --exclude *.bin *.pth", "w pull a/b --exclude *.bin --exclude *.pth"),
        ("w pull a/b c/d --exclude *.bin", "w pull a/b c/d --exclude *.bin"),
        ("w pull --ignore-patterns *.bin x.pth a/b", "w pull --exclude *.bin --exclude x.pth a/b"),
        ("w pull --exclude *.bin a/b", "w pull --exclude *.bin a/b"),
        ("w pull a/b --exclude *.bin ./c", "w pull a/b --exclude *.bin --output ./c"),
    ];

    /// Options of llama-cli about the machine, about how tokens are drawn, and about its log. With them, a
    /// command copied from elsewhere still runs.
    const LEFT_OUT: &str = "-C 1|-Cr 0-1|--cpu-mask 1|--cpu-range-batch 0-1|--cpu-strict 1|--prio -1|--poll 50|-tb 2|-b 512|\
        -ub 128|-fa|-fa on|-sm layer|-mg 0|-ts 3,1|--numa distribute|-np 2|-cb|-kvo|-nkvo|--repack|-nr|--no-host|--no-op-offload|\
        -dt 0.1|--rpc a:1|-lm mmap|-dio|-fit on|-fitt 1024|--fit-ctx 9|-kvu|--ctx-checkpoints 2|--cache-ram -1|--swa-full|\
        --context-shift|-ngl 99|-ngl all|-ot a=CPU|-ncmoe 2|--cpu-moe|-ctk q8_0|--mlock|--no-mmap|--warmup|--perf|\
        --log-file x|--log-colors on|--log-prefix|-lv 3|-v|--simple-io|--color on|-co|--show-timings|--min-p 0.1|\
        --repeat-penalty 1.1|--repeat-last-n -1|--typical-p 1|--mirostat-lr 0.1|--xtc-threshold 0|--dry-base 1|--top-n-sigma 1|\
        --adaptive-decay 0.9|-l 15+1|--samplers top_k;min_p|-md x.gguf|--draft-max 3|--spec-type x|-ngld 9|--prompt-cache x|\
        --prompt-cache-all|-lcd x|-rea off|--reasoning-effort low|--no-mmproj|-c 512|--keep -1|-ptc 3|--no-context-shift|-e";

    #[test]
    fn options_that_change_nothing_are_left_out() {
        for option in LEFT_OUT.split('|') {
            let line = here(&format!("w llama-cli -m m -p x {option} -n 3"));
            assert_eq!(line, "w run generate --chat m --prompt x --max-tokens 3", "{option}");
        }
    }

    #[test]
    fn words_of_other_programs_are_translated() {
        let lines = LINES.iter().map(|(typed, meant)| (typed, here(typed), meant));
        let wrong: Vec<_> = lines.filter(|(_, here, meant)| here != *meant).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// A row for a word of this program would hide that; one to a word that is none would mislead.
    #[test]
    fn rows_name_verbs_and_options_that_exist() {
        let program = command();
        let find = |verb: &str| {
            let mut command = &program;
            for name in verb.split(' ') {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("{verb}"));
            }
            command
        };
        for (_, spellings, meaning) in foreign::verbs() {
            for name in spellings.split('|') {
                assert!(program.find_subcommand(name).is_none(), "{name} is a verb");
            }
            let (Is(here) | Moved(here) | Near(here, _)) = meaning else { continue };
            let verb: Vec<&str> = here.split(' ').take_while(|it| !it.starts_with('-')).collect();
            if !verb.is_empty() && !["list", "models"].contains(&verb[0]) {
                find(&verb.join(" "));
            }
        }
        for (verb, spellings, meaning) in foreign::options().filter(|(verb, ..)| *verb != ANY) {
            let command = find(verb);
            let has = |option: &str| has_option(command, option);
            for option in spellings.split('|') {
                assert!(!has(option.trim_end_matches('=')), "{verb} has {option}");
            }
            if let Is(here) = meaning {
                let here = here.split('=').next().unwrap_or_default();
                assert!(has(here), "{verb} has no {here}");
            }
        }
    }
}
