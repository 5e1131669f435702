//! The named tables of a file of families, which its own families and those of other files use.

use std::sync::OnceLock;

use super::canonical;
use super::families::Families;
use super::form;
use super::step::Step;
use super::steps::steps;
use super::text::{Fault, Line, Parsed, Section, Word, sections};
use crate::arch::Prefix;
use crate::arch::rule::{self, NameRule, Rename, StoredForm};
use crate::arch::tensor::{CanonicalTensor, TensorRow, is_required, rows_of_file};
use crate::arch::transform::SAME;
use crate::arch::variant::{ConfigRule, KeyRule, KeyType};
use crate::dialect::Dialect;
use crate::engines::Constant;

/// Tables of one kind, by name.
type Named<T> = Vec<(&'static str, &'static [T])>;

/// The file that every family may use tables and steps of.
const SHARED: &str = "decoder";

/// The tables of a file, and its other sections.
#[derive(Debug)]
pub(super) struct Tables {
    /// The name of the file, which the module with its functions has, too.
    name: &'static str,
    tensors: Named<NameRule>,
    keys: Named<KeyRule>,
    config: Named<ConfigRule>,
    optional: Named<&'static str>,
    prefixes: Named<Prefix>,
    renames: Named<Rename>,
    /// The canonical tensors that the file has rows for.
    pub(super) canonical: &'static [TensorRow],
    /// The sections that are no tables.
    pub(super) others: Vec<Section>,
}

impl Tables {
    /// Parses the tables of a file.
    pub(super) fn parse(name: &'static str, text: &'static str) -> Parsed<Self> {
        let mut tables = Self {
            name,
            tensors: Vec::new(),
            keys: Vec::new(),
            config: Vec::new(),
            optional: Vec::new(),
            prefixes: Vec::new(),
            renames: Vec::new(),
            canonical: &[],
            others: Vec::new(),
        };
        let mut rows = Vec::new();
        for section in sections(text)? {
            let Section { head, lines } = &section;
            match head.keyword {
                "canonical" => canonical::add(&mut rows, head, lines)?,
                "tensors" => tables.tensors.push((head.word(0)?, list(lines, tensor)?)),
                "keys" => {
                    let row = |line: &Line| tables.key_rule(line);
                    let rows = list(lines, row)?;
                    tables.keys.push((head.word(0)?, rows));
                }
                "config" => {
                    let row = |line: &Line| tables.config_rule(line);
                    let rows = list(lines, row)?;
                    tables.config.push((head.word(0)?, rows));
                }
                "optional" => {
                    let entry = |line: &Line| Ok(line.keyword);
                    tables.optional.push((head.word(0)?, list(lines, entry)?));
                }
                "prefixes" => {
                    let row = |line: &Line| prefix(line, line.keyword, line.from(0));
                    tables.prefixes.push((head.word(0)?, list(lines, row)?));
                }
                "renames" => {
                    let row = |line: &Line| {
                        let words: Vec<_> =
                            std::iter::once(line.keyword).chain(line.from(0)).collect();
                        tables.rename(line, &words)
                    };
                    let rows = list(lines, row)?;
                    tables.renames.push((head.word(0)?, rows));
                }
                _ => tables.others.push(section),
            }
        }
        tables.canonical = rows.leak();
        Ok(tables)
    }

    /// A table of names.
    pub(super) fn tensors(&self, line: &Line, name: &str) -> Parsed<&'static [NameRule]> {
        self.table(line, name, |tables| &tables.tensors)
    }

    /// A table of keys in GGUF.
    pub(super) fn keys(&self, line: &Line, name: &str) -> Parsed<&'static [KeyRule]> {
        self.table(line, name, |tables| &tables.keys)
    }

    /// A table of keys of `config.json`.
    pub(super) fn config(&self, line: &Line, name: &str) -> Parsed<&'static [ConfigRule]> {
        self.table(line, name, |tables| &tables.config)
    }

    /// The tensors of a line of those that models may lack. Canonical names have a point, those of tables have none.
    pub(super) fn all_optional(&self, line: &Line) -> Parsed<Vec<&'static str>> {
        let tensors = |name: &'static str| match name.contains('.') {
            true => Ok(vec![name]),
            false => self.optional(line, name),
        };
        Ok(line.from(0).map(tensors).collect::<Parsed<Vec<_>>>()?.concat())
    }

    /// A list of optional tensors, or what a table of names requires.
    fn optional(&self, line: &Line, name: &str) -> Parsed<Vec<&'static str>> {
        if let Ok(list) = self.table(line, name, |tables| &tables.optional) {
            return Ok(list.to_vec());
        }
        let names = self.tensors(line, name)?.iter().map(|rule| rule.canonical);
        Ok(names.filter(|name| is_required(name, self.canonical)).collect())
    }

    /// The name of a tensor, or of its module: a canonical one, or one of the tables of the file.
    pub(super) fn tensor<'n>(&self, line: &Line, name: &'n str) -> Parsed<&'n str> {
        let weight = format!("{name}.weight");
        let pattern = rule::pattern(&weight).layers;
        let is_own = |row: &NameRule| {
            let own = row.canonical;
            own == pattern || Some(own) == pattern.strip_suffix(".weight")
        };
        let own = || self.tensors.iter().flat_map(|(_, rows)| *rows).any(is_own);
        let is_canonical = |name: &str| CanonicalTensor::of(name, self.canonical).is_some();
        match is_canonical(name) || is_canonical(&weight) || own() {
            true => Ok(name),
            false => Err(line.fault(format!("no tensor \"{name}\""))),
        }
    }

    /// A list of prefixes.
    pub(super) fn prefixes(&self, line: &Line, name: &str) -> Parsed<&'static [Prefix]> {
        self.table(line, name, |tables| &tables.prefixes)
    }

    /// Names that classes have instead.
    pub(super) fn renames(&self, line: &Line, name: &str) -> Parsed<&'static [Rename]> {
        self.table(line, name, |tables| &tables.renames)
    }

    /// A name that a class has instead: the dialect, the starts of both names, and conditions.
    pub(super) fn rename(&self, line: &Line, words: &[&'static str]) -> Parsed<Rename> {
        let fault = |needed: &str| line.fault(format!("{needed} is needed"));
        let [dialect, prefix, replacement, conditions @ ..] = words else {
            return Err(fault("DIALECT FROM TO"));
        };
        let dialects: &[Dialect] = match *dialect {
            "hf" => &[Dialect::HuggingFace],
            "mlx" => &[Dialect::Mlx],
            "safetensors" => &[Dialect::HuggingFace, Dialect::Mlx],
            "gguf" => &[Dialect::Gguf],
            _ => return Err(fault("hf, mlx, safetensors or gguf")),
        };
        let mut rename = Rename { dialects, prefix, replacement, ..Rename::EMPTY };
        let mut rest = conditions;
        loop {
            rest = match rest {
                [] => return Ok(rename),
                ["requires", name, others @ ..] => {
                    rename.requires = self.tensor(line, name)?;
                    others
                }
                ["lacks", name, others @ ..] => {
                    rename.lacks = self.tensor(line, name)?;
                    others
                }
                ["models", names @ ..] if !names.is_empty() => {
                    rename.models = names.to_vec().leak();
                    &[]
                }
                _ => return Err(fault("requires TENSOR, lacks TENSOR or models NAMES")),
            };
        }
    }

    /// A table by its name: of this file, else of the shared one; of another file after `FILE/`.
    fn table<T>(
        &self,
        line: &Line,
        name: &str,
        kind: fn(&Self) -> &Named<T>,
    ) -> Parsed<&'static [T]> {
        let find = |tables: &Self, name: &str| {
            kind(tables).iter().find(|(other, _)| *other == name).map(|(_, rows)| *rows)
        };
        let of_file = |file: &str, name: &str| find(builtin(file)?.tables(), name);
        let found = match name.split_once('/') {
            Some((file, name)) => of_file(file, name),
            None => find(self, name).or_else(|| of_file(SHARED, name)),
        };
        found.ok_or_else(|| line.fault(format!("no table \"{name}\"")))
    }

    /// A function by its name, which is found as that of a table.
    pub(super) fn step<F>(
        &self,
        line: &Line,
        name: &str,
        kind: fn(Step) -> Option<F>,
    ) -> Parsed<F> {
        let find = |file: &str, name: &str| steps(file, name).find_map(kind);
        let found = match name.split_once('/') {
            Some((file, name)) => find(file, name),
            None => find(self.name, name).or_else(|| find(SHARED, name)),
        };
        found.ok_or_else(|| line.fault(format!("no function \"{name}\" for this")))
    }

    /// A row of a table of keys in GGUF.
    pub(super) fn key_rule(&self, line: &Line) -> Parsed<KeyRule> {
        Ok(match line.keyword {
            "row" => match line.words.as_slice() {
                [row] => KeyRule::Row(row.text),
                [row, word, key] if word.text == "as" => KeyRule::As(row.text, key.text),
                [row, word, value] if word.text == "or" => {
                    KeyRule::Or(row.text, constant(line, *value)?)
                }
                _ => return Err(line.fault("NAME, NAME as KEY, or NAME or VALUE is needed")),
            },
            "derived" => KeyRule::Derived(line.word(0)?),
            "fixed" => KeyRule::Fixed(line.word(0)?, value(line, 1)?),
            "count" => {
                line.words().map(|[key, path]| KeyRule::Stated(KeyType::Count, key, path))?
            }
            "real" => line.words().map(|[key, path]| KeyRule::Stated(KeyType::Real, key, path))?,
            "flag" => line.words().map(|[key, path]| KeyRule::Stated(KeyType::Flag, key, path))?,
            "rotated" => KeyRule::Rotated(number(line, 0)?),
            "file_type" => KeyRule::FileType,
            "only" => KeyRule::Only(line.word(0)?, line.list(1)),
            "step" => {
                let of_keys = |step| if let Step::Keys(step) = step { Some(step) } else { None };
                KeyRule::By(self.step(line, line.word(0)?, of_keys)?)
            }
            _ => {
                let known = "row, derived, fixed, count, real, flag, rotated, file_type, only or step is needed";
                return Err(line.fault(known));
            }
        })
    }

    /// A row of a table of keys of `config.json`.
    pub(super) fn config_rule(&self, line: &Line) -> Parsed<ConfigRule> {
        Ok(match line.keyword {
            "field" => line.words().map(|[field, key]| ConfigRule::Field(field, key))?,
            "needed" => line.words().map(|[field, key]| ConfigRule::Needed(field, key))?,
            "stated" => match line.words.as_slice() {
                [gguf, key] => ConfigRule::Stated(gguf.text, key.text, None),
                [gguf, key, word, usual] if word.text == "or" => {
                    ConfigRule::Stated(gguf.text, key.text, Some(constant(line, *usual)?))
                }
                _ => return Err(line.fault("GGUF KEY, or GGUF KEY or VALUE is needed")),
            },
            "fixed" => ConfigRule::Fixed(line.word(0)?, value(line, 1)?),
            "step" => {
                let of_config =
                    |step| if let Step::Config(step) = step { Some(step) } else { None };
                ConfigRule::By(self.step(line, line.word(0)?, of_config)?)
            }
            _ => return Err(line.fault("field, needed, stated, fixed or step is needed")),
        })
    }
}

/// A file of `families/`.
#[derive(Debug)]
pub(super) struct Builtin {
    name: &'static str,
    text: &'static str,
    /// The names that it describes: of families, of values of `general.architecture` and of
    /// `model_type`.
    pub(super) names: &'static [&'static str],
    tables: OnceLock<Tables>,
    families: OnceLock<Families>,
}

// The files of `families/`, which are parsed when a model needs them: `BUILTINS`.
include!(concat!(env!("OUT_DIR"), "/families.rs"));

impl Builtin {
    const fn new(name: &'static str, text: &'static str, names: &'static [&'static str]) -> Self {
        Self { name, text, names, tables: OnceLock::new(), families: OnceLock::new() }
    }

    /// The tables of the file.
    fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| {
            let tables = sound(self.name, Tables::parse(self.name, self.text));
            Tables { canonical: rows_of_file(self.name), ..tables }
        })
    }

    /// The families of the file, which `parse` finds in its tables.
    pub(super) fn families(&self, parse: fn(&Tables) -> Parsed<Families>) -> &Families {
        self.families.get_or_init(|| sound(self.name, parse(self.tables())))
    }
}

/// The parsed table of a built-in file. A test parses all of them.
pub(super) fn sound<T>(name: &str, parsed: Parsed<T>) -> T {
    match parsed {
        Ok(parsed) => parsed,
        Err(Fault { line, text }) => panic!("families/{name}:{line}: {text}"),
    }
}

/// The built-in file with this name.
pub(super) fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|file| file.name == name)
}

/// The rows of a table, which is never freed.
fn list<T>(lines: &[Line], row: impl Fn(&Line) -> Parsed<T>) -> Parsed<&'static [T]> {
    Ok(lines.iter().map(row).collect::<Parsed<Vec<T>>>()?.leak())
}

/// A prefix of stored names, and the words that follow it.
pub(super) fn prefix(
    line: &Line,
    stored: &'static str,
    mut words: impl Iterator<Item = &'static str>,
) -> Parsed<Prefix> {
    let Some(instead) = words.next() else {
        return Err(line.fault("a prefix, and the one that the tables have are needed"));
    };
    let (word, loaded_by) = (words.next(), words.collect::<Vec<_>>().leak());
    match word {
        None => Ok(Prefix { stored, instead, is_foreign: false, loaded_by }),
        Some("foreign") => Ok(Prefix { stored, instead, is_foreign: true, loaded_by }),
        Some(other) => {
            Err(line.fault(format!("\"{other}\", but \"foreign\" or nothing is needed")))
        }
    }
}

/// The names of a tensor: canonical, in GGUF, in Hugging Face's files, and its forms there.
fn tensor(line: &Line) -> Parsed<NameRule> {
    let form = |name| StoredForm { name: if name == "-" { "" } else { name }, transform: SAME };
    let mut rule =
        NameRule { canonical: line.keyword, gguf: form(line.word(0)?), hf: form(line.word(1)?) };
    for word in line.from(2) {
        let (dialect, words) = word.split_once(':').unwrap_or_default();
        let transform = form::transform(words)
            .map_err(|unknown| line.fault(format!("no transform \"{unknown}\"")))?;
        match dialect {
            "gguf" => rule.gguf.transform = transform,
            "hf" => rule.hf.transform = transform,
            "both" => (rule.gguf.transform, rule.hf.transform) = (transform, transform),
            _ => {
                let fault =
                    format!("\"{word}\", but gguf:, hf: or both: and a transform is needed");
                return Err(line.fault(fault));
            }
        }
    }
    Ok(rule)
}

/// A value of a row: a number, true, false, a text in quotation marks, or an empty list.
pub(super) fn constant(line: &Line, word: Word) -> Parsed<Constant> {
    let Word { text, is_quoted } = word;
    let constant = match text {
        _ if is_quoted => Some(Constant::Word(text)),
        "true" => Some(Constant::Flag(true)),
        "false" => Some(Constant::Flag(false)),
        "[]" => Some(Constant::Empty),
        _ if text.contains('.') => text.parse().ok().map(Constant::Real),
        _ => text.parse().ok().map(Constant::Count),
    };
    constant.ok_or_else(|| {
        let needed = "a count, a number with a point, true, false, \"text\" or [] is needed";
        line.fault(format!("{text}, but {needed}"))
    })
}

/// The value at a position of a line.
pub(super) fn value(line: &Line, index: usize) -> Parsed<Constant> {
    line.word(index)?;
    line.words
        .get(index)
        .map_or_else(|| line.word(index).map(Constant::Word), |w| constant(line, *w))
}

/// A number at a position of a line.
pub(super) fn number<T: std::str::FromStr>(line: &Line, index: usize) -> Parsed<T> {
    let word = line.word(index)?;
    word.parse().map_err(|_| line.fault(format!("{word}, but a number is needed")))
}
