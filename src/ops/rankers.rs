//! Models that rank texts, in GGUF.

use crate::arch::config::class_name;
use crate::arch::family::{RANKERS, Ranker};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value};
use crate::model::{Model, Tensor};
use crate::store::Store;
use crate::tokenizer::{Token, Tokenizer};
use crate::translate::general;

/// llama.cpp's number of a pooling that ranks.
const RANK: u32 = 4;

/// The module of sentence-transformers that ranks by the logits of two tokens, whose numbers its config states.
pub(super) const MODULE: &str = "LogitScore";

/// The matrix of a decoder that ranks texts, and a note on it.
#[derive(Debug, Default)]
pub(super) struct GgufRanker {
    pub(super) tensor: Option<Tensor>,
    pub(super) note: Option<String>,
}

/// Translates a decoder that ranks texts by the logits of two words: one with that name, or with a module that says so. Sets
/// the keys that llama.cpp reads. A model that only its description calls a reranker gets a note.
///
/// # Errors
///
/// `Mismatch` if the tokenizer lacks a word; `Unsupported`, `Malformed` and `Io` if a file or a
/// tensor cannot be read.
pub(super) fn in_gguf(model: &Model, keys: &mut KeyValues) -> Result<GgufRanker> {
    let mut found = GgufRanker::default();
    let family = keys.get("general.architecture").and_then(|value| value.to_text());
    let family = family.map_or_else(String::new, |name| name.spelling().into_owned());
    let description = Description::of(model.store())?;
    let numbers = numbers_of_module(model.store())?;
    let mut rows = RANKERS.iter().filter(|row| row.gguf.contains(&family.as_str()));
    let stated = rows.clone().next().zip(numbers.map(|_| "modules.json"));
    let named = rows.find_map(|row| Some((row, description.names(row.names)?)));
    let Some((row, source)) = named.or(stated) else {
        let has_head = ["output", "dense"]
            .iter()
            .any(|layer| model.has(&format!("classifier.{layer}.weight")));
        if let Some(class) = class_of_other_head(model.store()).filter(|_| has_head) {
            found.note = Some(format!(
                "config.json: {class} does not classify texts: llama.cpp applies its classifier (cls.output) to \
                 whole texts alone"
            ));
        } else if let Some((source, what)) = description.ranks().filter(|_| !has_head) {
            found.note = Some(format!(
                "{source} calls the model a {what}: the GGUF file has no classifier (cls.output), \
                 without which llama.cpp ranks and classifies no texts"
            ));
        }
        return Ok(found);
    };
    let name = "cls.output.weight";
    let words = words(model, row, numbers)?;
    found.tensor = Some(rows_of_words(model, &words, name)?);
    let [(yes, _), (no, _)] = &words;
    keys.set(&format!("{family}.pooling_type"), Value::U32(RANK));
    keys.set_array(&format!("{family}.classifier.output_labels"), [yes.as_str(), no]);
    // A model of other words has a prompt of its own.
    if [yes, no] == row.words {
        keys.set_text("tokenizer.chat_template.rerank", row.prompt);
        let names = keys.get("tokenizer.chat_templates").and_then(|value| value.to_array());
        let names = names.and_then(|list| list.texts()).into_iter().flatten();
        let mut names: Vec<String> = names.map(|name| name.spelling().into_owned()).collect();
        names.push("rerank".to_owned());
        keys.set_array("tokenizer.chat_templates", names.iter().map(String::as_str));
    }
    found.note = Some(format!(
        "{source} calls the model a reranker: {name} has the rows of \"{yes}\" and \"{no}\" of the \
         output matrix"
    ));
    Ok(found)
}

/// The class of a model whose classifier is that of tokens, or of several texts.
fn class_of_other_head(store: &Store) -> Option<&str> {
    let class = class_name(store.document("config.json")?)?;
    ["ForTokenClassification", "ForMultipleChoice"]
        .iter()
        .any(|end| class.ends_with(end))
        .then_some(class)
}

/// The numbers of the tokens that [`MODULE`] compares, the positive one first.
fn numbers_of_module(store: &Store) -> Result<Option<[u64; 2]>> {
    let Some(module) = store.modules()?.into_iter().find(|module| module.kind == MODULE) else {
        return Ok(None);
    };
    let config = store.module_config(&module)?;
    let number = |key: &str| config.as_ref()?.get(key)?.as_u64();
    Ok(number("true_token_id").zip(number("false_token_id")).map(|(yes, no)| [yes, no]))
}

/// The words by whose logits a model ranks, with their numbers.
fn words(model: &Model, row: &Ranker, numbers: Option<[u64; 2]>) -> Result<[(String, u64); 2]> {
    let tokenizer = Tokenizer::of(model.store())?;
    let find = |wanted: &dyn Fn(&Token<'_>) -> bool| {
        let token = tokenizer.iter().flat_map(Tokenizer::tokens).find(wanted)?;
        Some((String::from_utf8_lossy(&token.text).into_owned(), u64::from(token.id)))
    };
    let lacks = |word: String| {
        let fault = format!("a reranker whose tokenizer has no token {word}");
        Error::mismatch(fault).in_file(model.path())
    };
    let numbered = |number: u64| {
        find(&|token| u64::from(token.id) == number).ok_or_else(|| lacks(number.to_string()))
    };
    let spelled = |word: &str| {
        find(&|token| *token.text == *word.as_bytes()).ok_or_else(|| lacks(format!("\"{word}\"")))
    };
    let [yes, no] = row.words;
    Ok(match numbers {
        Some([yes, no]) => [numbered(yes)?, numbered(no)?],
        None => [spelled(yes)?, spelled(no)?],
    })
}

/// The rows of the words in the output matrix.
fn rows_of_words(model: &Model, words: &[(String, u64); 2], name: &str) -> Result<Tensor> {
    let head = ["output.weight", "token_embedding.weight"].into_iter().find(|name| model.has(name));
    let head = model.tensor(head.unwrap_or("output.weight"))?;
    let columns = head.shape().last().copied().unwrap_or(0);
    let mut bytes = Vec::new();
    for (_, number) in words {
        let row = head.clone().slice_rows(*number..number.saturating_add(1))?;
        bytes.extend(row.dequantize()?.iter().flat_map(|value| value.to_le_bytes()));
    }
    Tensor::new(name, DType::F32, &[words.len() as u64, columns], bytes)
}

/// The names that a model's files give it, in lower case.
struct Description {
    readme: String,
    /// Names, each with its source.
    names: Vec<(&'static str, String)>,
}

impl Description {
    fn of(store: &Store) -> Result<Self> {
        let limit = (store.limits().document_bytes, "document_bytes");
        let readme = store.read_companion("README.md", limit).ok().flatten();
        let readme = readme.map(|file| String::from_utf8_lossy(&file.bytes).to_lowercase());
        let mut names = Vec::new();
        names.extend(general::name_in_config(store).map(|name| ("config.json", name)));
        let folder = store.path().file_name().and_then(|name| name.to_str());
        names.extend(
            folder.filter(|_| store.is_directory()).map(|name| ("the folder's name", name)),
        );
        let names = names.into_iter().map(|(from, name)| (from, name.to_lowercase())).collect();
        Ok(Self { readme: readme.unwrap_or_default(), names })
    }

    /// The source that calls the model by one of these names.
    fn names(&self, names: &[&str]) -> Option<&'static str> {
        let heading = |name: &&str| self.readme.contains(&format!("# {name}"));
        if names.iter().any(heading) {
            return Some("README.md");
        }
        let named = |(_, found): &&(_, String)| names.iter().any(|name| found.contains(name));
        self.names.iter().find(named).map(|(from, _)| *from)
    }

    /// The source that calls the model a reranker or a classifier, and which of the two.
    fn ranks(&self) -> Option<(&'static str, &'static str)> {
        const TAGS: [(&str, &str); 3] = [
            ("- reranker", "reranker"),
            ("pipeline_tag: text-ranking", "reranker"),
            ("pipeline_tag: text-classification", "classifier"),
        ];
        let tagged = |(tag, _): &&(&str, &str)| self.readme.lines().any(|line| line.trim() == *tag);
        let named = || self.names.iter().find(|(_, name)| name.contains("rerank"));
        let tag = TAGS.iter().find(tagged).map(|(_, what)| ("README.md", *what));
        tag.or_else(|| named().map(|(from, _)| (*from, "reranker")))
    }
}
