//! The model card of a directory: the YAML header of `README.md`.

use std::fmt::Write as _;

use crate::json::Json;
use crate::metadata::{KeyValues, Metadata, Value};
use crate::store::Store;

/// The file of a model card.
pub(crate) const NAME: &str = "README.md";

/// Keys of GGUF that hold one text, each with its names in a card.
type Texts = [(&'static str, &'static [&'static str])];

/// The keys of a model's name. The first name that a card has is used, and the last one is written
/// (gguf-py 0.19, `metadata.py`, has the names and the order of the keys).
const NAMES: &Texts = &[
    ("general.name", &["name", "model_name"]),
    ("general.author", &["author", "model_creator", "model_author"]),
    ("general.version", &["version", "model_version"]),
    ("general.organization", &["organization", "model_organization"]),
    ("general.finetune", &["finetune", "model_finetune"]),
    ("general.basename", &["basename", "model_basename"]),
    ("general.description", &["description", "model_description"]),
];

/// The keys of a model's source.
const SOURCES: &Texts = &[
    ("general.license", &["license"]),
    ("general.license.name", &["license_name"]),
    ("general.license.link", &["license_link"]),
    ("general.source.url", &["url", "model_url"]),
    ("general.source.doi", &["doi", "model_doi"]),
    ("general.source.uuid", &["uuid", "model_uuid"]),
    ("general.source.repo_url", &["repo_url", "model_repo_url"]),
];

/// Keys of GGUF that hold a list of texts, and their names in a card. The texts of all of them are
/// one list, and the first name is written.
const LISTS: &Texts = &[
    ("general.tags", &["tags", "pipeline_tag"]),
    ("general.languages", &["language", "languages"]),
];

/// The names of the models that a model was made from.
const BASE_MODELS: &[&str] = &["base_model", "base_models"];
const BASE_MODEL: &str = "general.base_model";
const HUB: &str = "https://huggingface.co/";

/// The header of a model card: texts and lists of texts by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Card(Vec<(String, Vec<String>)>);

impl Card {
    /// The card of a directory; empty if there is none.
    pub(crate) fn of(store: &Store) -> Self {
        let limit = (store.limits().document_bytes, "document_bytes");
        let file = store.read_companion(NAME, limit).ok().flatten();
        file.map(|file| Self::parse(&String::from_utf8_lossy(&file.bytes))).unwrap_or_default()
    }

    /// Reads texts and lists of texts. Texts of several lines and objects are skipped.
    fn parse(card: &str) -> Self {
        let mut entries: Vec<(String, Vec<String>)> = Vec::new();
        let mut lines = card.lines();
        let has_header = lines.next().is_some_and(|line| line.trim_end() == "---");
        for line in lines.take_while(|line| has_header && line.trim_end() != "---") {
            if let Some(item) = line.trim_start().strip_prefix("- ") {
                if let Some((_, texts)) = entries.last_mut() {
                    texts.extend(scalar(item));
                }
            } else if let Some((key, value)) = line.split_once(':')
                && !line.starts_with([' ', '#'])
            {
                let value = value.trim();
                let list = value.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
                let texts = match list {
                    Some(list) => list.split(',').filter_map(scalar).collect(),
                    None => scalar(value).into_iter().collect(),
                };
                entries.push((key.trim().to_owned(), texts));
            }
        }
        Self(entries)
    }

    fn texts(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let of_name = |name| self.0.iter().filter(move |(key, _)| key == name);
        names.iter().flat_map(move |name| of_name(name)).flat_map(|(_, t)| t).map(String::as_str)
    }

    /// The license, or its name if the license is `other`.
    pub(crate) fn license(&self) -> Option<&str> {
        let license = self.texts(&["license"]).next();
        let name = self.texts(&["license_name"]).next();
        name.filter(|_| license.is_none_or(|license| license == "other")).or(license)
    }

    /// The models that the model was made from.
    pub(crate) fn base_models(&self) -> impl Iterator<Item = &str> {
        self.texts(BASE_MODELS)
    }

    fn set_texts(&self, table: &Texts, keys: &mut KeyValues) {
        for (key, names) in table {
            let all = if *names == ["license"] { usize::MAX } else { 1 };
            let texts: Vec<&str> = self.texts(names).take(all).collect();
            if !texts.is_empty() {
                keys.set_text(key, texts.join(","));
            }
        }
    }

    /// Sets the keys of GGUF that say what the model is called.
    pub(super) fn set_names(&self, keys: &mut KeyValues) {
        self.set_texts(NAMES, keys);
    }

    /// Sets the keys of GGUF that say where the model comes from.
    pub(super) fn set_sources(&self, keys: &mut KeyValues) {
        self.set_texts(SOURCES, keys);
        let mut count = 0u32;
        for model in self.base_models() {
            let id = model.strip_prefix(HUB).unwrap_or(model);
            let key = |end| format!("{BASE_MODEL}.{count}.{end}");
            match id.split_once('/') {
                Some((owner, name)) if !name.contains('/') => {
                    keys.set_text(&key("name"), title(name));
                    keys.set_text(&key("organization"), title(owner));
                    keys.set_text(&key("repo_url"), format!("{HUB}{id}"));
                }
                // An address elsewhere.
                Some(_) => keys.set_text(&key("repo_url"), model),
                None => keys.set_text(&key("name"), id),
            }
            count = count.saturating_add(1);
        }
        if count > 0 {
            keys.set(&format!("{BASE_MODEL}.count"), Value::U32(count));
        }
        for (key, names) in LISTS {
            let texts: Vec<&str> = self.texts(names).collect();
            if !texts.is_empty() {
                keys.set_array(key, texts);
            }
        }
    }

    /// The card that states the keys of a GGUF file; empty if they say nothing but the name.
    fn of_keys(metadata: &Metadata) -> Self {
        let mut entries = Vec::new();
        for (key, names) in NAMES.iter().chain(SOURCES) {
            let name = names.last().copied().unwrap_or_default();
            entries.extend(metadata.str(key).map(|text| (name.to_owned(), vec![text.to_owned()])));
        }
        for (key, names) in LISTS {
            let texts = metadata.array(key).and_then(|array| array.texts()).into_iter().flatten();
            let texts: Vec<String> =
                texts.filter_map(|text| text.to_str().map(str::to_owned)).collect();
            if !texts.is_empty() {
                entries.push((names.first().copied().unwrap_or_default().to_owned(), texts));
            }
        }
        let models: Vec<String> = base_models(metadata);
        if !models.is_empty() {
            entries.push(("base_model".to_owned(), models));
        }
        if entries.iter().all(|(name, _)| name == "model_name") {
            entries.clear();
        }
        Self(entries)
    }

    /// The document with this header.
    fn document(&self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let mut text = String::from("---\n");
        for (name, texts) in &self.0 {
            let listed = LISTS.iter().any(|(_, names)| names.contains(&name.as_str()));
            // JSON's texts are YAML's too.
            let shown = |text: &String| Json::from(text.as_str()).to_string();
            let _ = match texts.as_slice() {
                [one] if !listed => writeln!(text, "{name}: {}", shown(one)),
                all => {
                    let lines: String = all.iter().map(|t| format!("- {}\n", shown(t))).collect();
                    write!(text, "{name}:\n{lines}")
                }
            };
        }
        text.push_str("---\n");
        Some(text.into_bytes())
    }
}

/// The models that a model in GGUF was made from: the repository, else the name.
pub(crate) fn base_models(metadata: &Metadata) -> Vec<String> {
    /// No model is made from more.
    const MOST: u64 = 64;
    let of_key = |number: u64| {
        let key = |end: &str| metadata.str(&format!("{BASE_MODEL}.{number}.{end}"));
        let repository = key("repo_url").and_then(|url| url.strip_prefix(HUB));
        repository.or_else(|| key("name")).or_else(|| key("repo_url")).map(str::to_owned)
    };
    let count = metadata.u64(&format!("{BASE_MODEL}.count")).unwrap_or(1).min(MOST);
    (0..count).filter_map(of_key).collect()
}

/// Whether a card states a key of GGUF. Of a base model, it has the repository or else the name.
pub(crate) fn states(key: &str) -> bool {
    let of_base_model = key.strip_prefix(BASE_MODEL).and_then(|rest| rest.rsplit('.').next());
    if let Some(end) = of_base_model {
        return ["count", "name", "organization", "repo_url"].contains(&end);
    }
    let mut named = NAMES.iter().chain(SOURCES).chain(LISTS).map(|(name, _)| *name);
    named.any(|name| name == key)
}

/// The card of a directory that is written from a GGUF file.
pub(super) fn file(store: &Store) -> Option<(&'static str, Vec<u8>)> {
    Some((NAME, Card::of_keys(store.metadata()).document()?))
}

/// A text of YAML on one line: plain, or in quotes. `None` for an empty one and the start of
/// anything else.
fn scalar(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let found = match (quoted('"'), quoted('\'')) {
        (Some(inside), _) => match Json::parse(text.as_bytes()) {
            Ok(json) => json.as_str()?.to_owned(),
            Err(_) => inside.to_owned(),
        },
        (_, Some(inside)) => inside.replace("''", "'"),
        _ if text.starts_with(['|', '>', '{', '&', '*', '#', '!']) => return None,
        _ => text.split(" #").next().unwrap_or(text).trim_end().to_owned(),
    };
    Some(found).filter(|text| !text.is_empty())
}

/// Capitalizes each word, as the converter does. Words that contain capitals, versions and numbers
/// are unchanged.
pub(super) fn title(name: &str) -> String {
    let word = |word: &str| {
        let lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        let digits = word.strip_prefix('v').unwrap_or(word);
        let version = digits.starts_with(|c: char| c.is_ascii_digit())
            && (digits == word || digits.chars().all(|c| c.is_ascii_digit() || c == '.'));
        if !lower || version {
            return word.to_owned();
        }
        // A letter after a non-letter starts a new word: "x4b" becomes "X4B".
        let mut out = String::new();
        let mut inside = false;
        for c in word.chars() {
            if inside {
                out.push(c);
            } else {
                out.extend(c.to_uppercase());
            }
            inside = c.is_alphabetic();
        }
        out
    };
    let name = name.replace('-', " ");
    name.split_whitespace().map(word).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licenses_of_model_cards() {
        let rows = [
            ("---\nlicense: apache-2.0\n---\n# Model", Some("apache-2.0")),
            ("---\ntags:\n- x\nlicense: \"mit\"\n---\n", Some("mit")),
            ("---\nlicense: other\nlicense_name: gemma\n---\n", Some("gemma")),
            ("---\nlicense: other\n---\n", Some("other")),
            ("---\nlicense: mit # as before\n---\n", Some("mit")),
            ("---\nlicense:\n---\n", None),
            ("# Model\nlicense: mit\n", None),
            ("---\ntags: x\n---\nlicense: mit\n", None),
            ("", None),
        ];
        for (card, license) in rows {
            assert_eq!(Card::parse(card).license(), license, "{card:?}");
        }
    }

    #[test]
    fn base_models_of_model_cards() {
        let rows = [
            ("---\nbase_model: a/b\n---\n", "a/b"),
            ("---\nlicense: mit\nbase_model:\n- a/b\n- \"c/d\"\ntags:\n- x\n---\n", "a/b c/d"),
            ("---\nbase_model:\n  - a/b\n---\n", "a/b"),
            ("---\nbase_model: ['a/b', c/d]\n---\n", "a/b c/d"),
            ("---\nbase_model:\n---\n- no\n", ""),
            ("---\nbase_model_relation: quantized\n---\n", ""),
            ("base_model: a/b\n", ""),
        ];
        for (card, models) in rows {
            let found: Vec<String> = Card::parse(card).base_models().map(str::to_owned).collect();
            assert_eq!(found.join(" "), models, "{card:?}");
        }
    }

    #[test]
    fn a_written_card_says_what_was_read() {
        let card = "---\nlicense: gemma\nmodel_basename: \"a: b\"\ntags:\n- gguf\n- it's\n---\n";
        let card = Card::parse(card);
        let written = card.document().unwrap();
        assert_eq!(Card::parse(std::str::from_utf8(&written).unwrap()), card);
    }
}
