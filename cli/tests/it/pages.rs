//! Tables of `docs/` that the program's own tables fill.
//!
//! `WRITE_PAGES=1 cargo test -p weighbridge-cli --test it pages` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::support::{json, printed, root};
use serde_json::Value;

/// The longest cell of a table.
const CELL: usize = 120;

/// The pages of `docs/`, and README.md.
fn pages() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("docs")).expect("docs");
    let paths = folder.map(|entry| entry.expect("an entry").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.chain([root().join("README.md")]).collect()
}

#[test]
fn no_cell_is_too_long() {
    let folders = [
        ".",
        "docs",
        "docs/formats",
        "docs/decisions",
        "engines",
        "families",
        "fuzz",
        "tests/fixtures",
    ];
    let entries = folders.map(|folder| std::fs::read_dir(root().join(folder)).expect("a folder"));
    let paths = entries.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let page = std::fs::read_to_string(&path).expect("a page");
        let rows = page.lines().filter(|line| line.starts_with('|'));
        for cell in rows.flat_map(|row| row.split('|')).map(str::trim) {
            assert!(cell.chars().count() <= CELL, "{}: {cell}", path.display());
        }
    }
}

/// `name` `name`, in lines of at most `CELL` characters: one for each row of the table.
fn names(list: &Value) -> Vec<String> {
    let mut lines = vec![String::new()];
    for name in list.as_array().expect("a list") {
        let name = format!("`{}`", name.as_str().expect("a name"));
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = name,
            Some(line) if line.len() + name.len() < CELL => *line += &format!(" {name}"),
            _ => lines.push(name),
        }
    }
    lines
}

fn families() -> String {
    let mut table = "| family | GGUF | `config.json` | models |\n|---|---|---|---|\n".to_owned();
    for row in json(&["list", "architectures", "--json"])["rows"].as_array().expect("rows") {
        let text = |name: &str| row[name].as_str().expect("a text").to_owned();
        let columns = [
            vec![format!("`{}`", text("name"))],
            names(&row["gguf"]),
            names(&row["hf"]),
            vec![text("summary")],
        ];
        let lines = columns.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            let cells = columns.iter().map(|column| column.get(line).map_or("", String::as_str));
            table += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
    }
    table
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file")
}

/// The lines of a file of `engines/` that name a class or an architecture, as words.
fn blocks(path: &str) -> Vec<Vec<String>> {
    let text = text(path);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '#']));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// The facts that a family's file states about a `model_type`.
#[derive(Clone, Default)]
struct Known {
    /// Whether the decoder runs it.
    logits: &'static str,
    /// `general.architecture`; `-` if a reason is given why there is none.
    gguf: Option<String>,
    /// Whether files in GGUF are its only ones, so that nothing is converted to it.
    is_alone: bool,
}

/// The values of `model_type` that the files of `families/` have, and of `general.architecture` that are no such value.
fn known() -> BTreeMap<String, Known> {
    let (mut all, mut architectures) = (BTreeMap::new(), Vec::new());
    for entry in std::fs::read_dir(root().join("families")).expect("families") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "family") {
            continue;
        }
        let (mut section, mut name, mut own) = ("", "", Vec::<(String, Option<String>)>::new());
        let (mut alone, mut has_family) = (Vec::<String>::new(), false);
        let (mut logits, text) = ("no", std::fs::read_to_string(path).expect("a file"));
        let mut finish = |own: &mut Vec<(String, Option<String>)>,
                          alone: &mut Vec<String>,
                          logits| {
            all.extend(
                own.drain(..).map(|(name, gguf)| (name, Known { logits, gguf, is_alone: false })),
            );
            let same =
                |name: String| (name.clone(), Known { logits, gguf: Some(name), is_alone: true });
            architectures.extend(alone.drain(..).map(same));
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [head, rest @ ..] if head.starts_with('[') => {
                    section = head.trim_matches(['[', ']']);
                    name = rest.first().map_or("", |name| name.trim_end_matches(']'));
                    if section == "family" {
                        finish(&mut own, &mut alone, std::mem::replace(&mut logits, "no"));
                        has_family = true;
                    } else if section == "decoder" {
                        logits = "yes";
                    } else if section == "gguf" && name != "-" && has_family {
                        alone.push(name.to_owned());
                    }
                }
                ["hf", types @ ..] if ["family", "gguf"].contains(&section) => {
                    let gguf = (section == "gguf" && name != "-").then(|| name.to_owned());
                    own.extend(types.iter().map(|of| ((*of).to_owned(), gguf.clone())));
                }
                ["reason", ..] => {
                    own.iter_mut()
                        .for_each(|(_, gguf)| *gguf = gguf.take().or(Some("-".to_owned())));
                }
                ["refuse", why, ..] if why.starts_with('"') => logits = "no",
                ["refuse", ..] if logits == "yes" => logits = "in part",
                ["step", step] if section == "decoder" && step.starts_with("refuse") => {
                    logits = "in part";
                }
                _ => {}
            }
        }
        finish(&mut own, &mut alone, logits);
    }
    for (name, known) in architectures {
        all.entry(name).or_insert(known);
    }
    all
}

/// The same, with the classes that hold a text model of such a type, as those of models with images do.
fn with_wrappers(mut known: BTreeMap<String, Known>) -> BTreeMap<String, Known> {
    let files = ["engines/transformers/classes.txt", "engines/mlx-lm/classes.txt"];
    for words in files.into_iter().flat_map(blocks) {
        let held = words.iter().find_map(|word| word.strip_prefix("text="));
        let mut held = held.into_iter().flat_map(|held| held.split(','));
        if let Some(own) = held.find_map(|held| known.get(held).cloned()) {
            known.entry(words[0].clone()).or_insert(own);
        }
    }
    known
}

/// A row for each class of the engines.
fn coverage() -> String {
    let known = with_wrappers(known());
    let classes = blocks("engines/transformers/classes.txt");
    let tasks = |words: &[String]| {
        let task = |word: &String| {
            let (task, _) = word.split_once('=')?;
            ["causal", "masked", "seq2seq"].contains(&task).then(|| task.to_owned())
        };
        words.iter().filter_map(task).collect::<Vec<_>>().join(", ")
    };
    let of_transformers = classes.iter().map(|words| (words[0].clone(), tasks(words)));
    let mut rows: BTreeMap<String, String> =
        of_transformers.filter(|(_, tasks)| !tasks.is_empty()).collect();
    let first = |words: Vec<String>| words.into_iter().next().unwrap_or_default();
    let mlx: BTreeSet<String> =
        blocks("engines/mlx-lm/classes.txt").into_iter().map(first).collect();
    let conditions = text("engines/mlx-lm/conditions.txt");
    let unloaded = conditions.split("\n\n").filter(|block| block.contains("\n  loads 0 else "));
    let unloaded = unloaded.filter_map(|block| block.lines().next());
    let unloaded: BTreeSet<&str> = unloaded.flat_map(|names| names.split(',')).collect();
    let graphs = ["engines/llama.cpp/graphs.txt", "engines/llama.cpp/extracted.txt"];
    let named = text("engines/llama.cpp/names.txt");
    let named = named.split("\n\n").filter_map(|block| block.strip_prefix("architectures"));
    let named = named.flat_map(str::split_whitespace).map(str::to_owned);
    let known_by_llama = graphs.into_iter().flat_map(blocks).map(first).chain(named);
    let gguf: BTreeSet<String> = known_by_llama
        .flat_map(|names| names.split(',').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for name in &mlx {
        rows.entry(name.clone()).or_default();
    }
    // Architectures of llama.cpp alone have the row of the `model_type` that a family gives them.
    for (name, own) in &known {
        let is_row =
            |(other, it): (&String, &Known)| it.gguf == own.gguf && rows.contains_key(other);
        if own.gguf.as_ref().is_some_and(|it| gguf.contains(it)) && !known.iter().any(is_row) {
            rows.entry(name.clone()).or_default();
        }
    }
    let written: BTreeSet<&String> =
        known.values().filter_map(|known| known.gguf.as_ref()).collect();
    let plain = |name: &str| name.replace(['_', '-', '.'], "");
    let spelled: BTreeSet<String> = rows.keys().map(|name| plain(name)).collect();
    for name in gguf.iter().filter(|name| !written.contains(name)) {
        if !spelled.contains(&plain(name)) {
            rows.entry(name.clone()).or_default();
        }
    }
    let heads = ["`model_type`", "transformers", "names", "config", "logits", "GGUF", "MLX"];
    let mut table = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    let mut totals = BTreeMap::<&str, usize>::new();
    for (name, tasks) in &rows {
        let own = known.get(name);
        let is_mlx = mlx.contains(name);
        let is_named = !tasks.is_empty() || is_mlx;
        let shape = if is_named { "by structure" } else { "no" };
        let llama = gguf.iter().any(|other| plain(other) == plain(name));
        let cells = [
            if tasks.is_empty() { "engine has none" } else { tasks },
            own.map_or(shape, |_| "yes"),
            own.map_or(if is_named { "usual keys" } else { "no" }, |_| "yes"),
            own.map_or("no", |own| own.logits),
            match own.and_then(|own| own.gguf.as_deref()) {
                Some("-") => "no",
                Some(_) if own.is_some_and(|own| own.is_alone) => "read",
                Some(_) => "yes",
                None if llama => "no",
                None => "engine has none",
            },
            match (is_mlx, own) {
                (false, _) => "engine has none",
                (true, Some(_)) if unloaded.contains(name.as_str()) => "no",
                (true, Some(_)) => "yes",
                (true, None) => "no",
            },
        ];
        for (head, cell) in heads.iter().skip(2).zip(cells.iter().skip(1)) {
            *totals.entry(head).or_default() += usize::from(*cell == "yes");
        }
        table += &format!("| `{name}` | {} |\n", cells.join(" | "));
    }
    let counted = totals.iter().map(|(head, count)| format!("{head} {count}"));
    let counted = counted.collect::<Vec<_>>().join(", ");
    format!("{} rows; yes in: {counted}.\n\n{table}", rows.len())
}

fn dtypes() -> String {
    let mut table =
        "| dtype | elements | bytes | values | what it is |\n|---|---:|---:|---|---|\n".to_owned();
    for row in json(&["list", "dtypes", "--json"])["rows"].as_array().expect("rows") {
        let values = if row["values"] == true { "yes" } else { "no" };
        let (name, summary) = (row["name"].as_str(), row["summary"].as_str());
        let (name, summary) = (name.expect("a name"), summary.expect("a summary"));
        let (len, bytes) = (&row["block_len"], &row["block_bytes"]);
        table += &format!("| `{name}` | {len} | {bytes} | {values} | {summary} |\n");
    }
    table
}

/// The help of each verb, without the options that most verbs have; those come first.
fn verbs() -> String {
    let help = printed(&["--help"]);
    let lines = help
        .lines()
        .skip_while(|line| !line.starts_with("Look "))
        .take_while(|line| !line.is_empty());
    let words = lines.filter_map(|line| line.get(7..)?.split_whitespace().next());
    let common = printed(&["convert", "--help"]);
    let mut text = format!("## Common options\n\n```text\n{}\n```\n", split_common(&common).1);
    for verb in words.filter(|verb| *verb != "help") {
        text += &section(&[verb]);
    }
    text
}

/// The help of a verb, and of its verbs.
fn section(verb: &[&str]) -> String {
    let help = printed(&[verb, &["--help"]].concat());
    let (help_text, _) = split_common(&help);
    let mut text = format!("\n## {}\n\n```text\n{help_text}\n```\n", verb.join(" "));
    if let Some((_, list)) = help.split_once("\nCommands:\n") {
        let lines = list.lines().take_while(|line| !line.is_empty());
        for name in lines.filter_map(|line| line.split_whitespace().next()) {
            text += &section(&[verb, &[name]].concat());
        }
    }
    text
}

/// A help text without the options that most verbs have, and these.
fn split_common(help: &str) -> (String, String) {
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let Some((before, rest)) = help.split_once("\n\nCommon options:\n") else {
        return (help, String::new());
    };
    let (common, after) = rest.split_once("\n\nExamples:").unwrap_or((rest, ""));
    let mut blanks = common.match_indices("\n\n");
    let (common, notes) = match blanks.find(|(at, _)| !common[at + 2..].starts_with(' ')) {
        Some((at, _)) => common.split_at(at),
        None => (common, ""),
    };
    (format!("{before}{notes}\n\nExamples:{after}"), common.to_owned())
}

/// The page with its tables filled: each stands between `<!-- table: NAME -->` and `<!-- end -->`.
fn filled(page: &str) -> String {
    let mut parts = page.split("<!-- table: ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("the end of a comment");
        let (_, rest) = rest.split_once("<!-- end -->").expect("the end of a table");
        let table = match name {
            "list architectures" => families(),
            "list dtypes" => dtypes(),
            "coverage" => coverage(),
            "help" => verbs(),
            _ => panic!("no table is named {name}"),
        };
        text += &format!("<!-- table: {name} -->\n{table}<!-- end -->{rest}");
    }
    text
}

#[test]
fn tables_are_the_program_s() {
    let mut tables = 0;
    for path in pages() {
        let page = std::fs::read_to_string(&path).expect("a page");
        let filled = filled(&page);
        tables += page.matches("<!-- table: ").count();
        if std::env::var_os("WRITE_PAGES").is_some() {
            std::fs::write(&path, filled).expect("a page");
            continue;
        }
        let advice = "run WRITE_PAGES=1 cargo test -p weighbridge-cli --test it pages";
        assert!(page == filled, "{} is out of date: {advice}", path.display());
    }
    assert!(tables >= 1);
}
