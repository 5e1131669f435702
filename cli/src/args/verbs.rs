//! Verbs of other programs: what their names mean, with and without the program.

use std::path::Path;

use super::foreign::{self, Meaning};
use super::help;
use super::kinds::in_store;

/// The row of a verb that has a word, or several, or what a name such as `hf2gguf` says, or the row of its kind.
pub(super) fn row(name: &str) -> Option<Meaning> {
    let found = foreign::verb(name).map(|(_, meaning)| meaning);
    // Rows of a kind are for names of one word.
    if found.is_some() || name.contains(' ') {
        return found;
    }
    let between_formats = || {
        let (from, to) = ["-to-", "2"].iter().find_map(|it| name.rsplit_once(it))?;
        let is_format = foreign::list("FORMATS").any(|format| from.ends_with(format));
        row(&format!("to-{to}")).filter(|_| is_format)
    };
    let of_object = || {
        let (doing, object) = name.split_once('-')?;
        let is_doing = foreign::list("DOING").any(|it| it == doing);
        foreign::verb(object).filter(|_| is_doing).map(|(_, meaning)| meaning)
    };
    let of_kind = |it: &str| match (it.strip_prefix('*'), it.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => false,
    };
    let by_kind = || {
        let mut rows = foreign::verbs().filter(|(_, spellings, _)| spellings.contains('*'));
        let found = rows.find(|(_, spellings, _)| spellings.split('|').any(of_kind));
        found.map(|(_, _, meaning)| meaning)
    };
    between_formats().or_else(of_object).or_else(by_kind)
}

/// The endings of scripts and programs.
const SCRIPTS: [&str; 3] = [".py", ".sh", ".exe"];

/// Whether a name is that of a script, which may lie in the folder.
pub(super) fn is_script(name: &str) -> bool {
    SCRIPTS.iter().any(|ending| name.ends_with(ending))
}

/// A verb of another program without the ending of a script.
pub(super) fn dashed(typed: &str) -> String {
    let name = SCRIPTS.iter().find_map(|ending| typed.strip_suffix(ending));
    name.unwrap_or(typed).replace('_', "-")
}

/// The same without the program's name.
pub(super) fn bare(typed: &str) -> String {
    let name = dashed(typed);
    let of = |program: &str| name.strip_prefix(&dashed(program))?.strip_prefix('.');
    let verb = foreign::list("PREFIXES").find_map(|start| name.strip_prefix(start));
    let verb = verb.or_else(|| foreign::list("PROGRAMS").find_map(of));
    verb.or_else(|| function(typed, &name)).map_or(name.clone(), str::to_owned)
}

/// The function that a name of Python ends in: `AutoModel.from_pretrained`, `mlx.quantize`.
fn function<'n>(typed: &str, name: &'n str) -> Option<&'n str> {
    let (_, last) = name.rsplit_once('.').filter(|_| !name.contains('/'))?;
    let is_known = help::is_verb(last) || last.contains('-') && row(last).is_some();
    (is_known && !Path::new(typed).exists() && !in_store(typed)).then_some(last)
}
