//! Checks the vocabulary against the embedding, special tokens against the vocabulary, and chat
//! templates.

use crate::arch::{ModelConfig, SourceKind};
use crate::engines::llama_cpp;
use crate::error::{ErrorKind, Result};
use crate::json::Json;
use crate::store::{Encoding, Store};
#[cfg(feature = "chat-template")]
use crate::tokenizer::{ChatTemplate, chat_templates};
use crate::tokenizer::{Tokenizer, TokenizerKind};

/// The size of the vocabulary in `config.json`, under the names of all classes.
pub(in crate::ops) const VOCABULARY_KEYS: [&str; 3] = ["vocab_size", "n_vocab", "n_words"];

/// Keys of `config.json` and `generation_config.json` that hold token ids or lists of token ids.
const TOKEN_KEYS: [&str; 7] = [
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "decoder_start_token_id",
];

/// A GGUF file that calls its tokens SentencePiece's, and has those of a byte-level BPE: llama.cpp falls back to tokens of
/// bytes, and aborts where there are none.
fn without_bytes(store: &Store, tokenizer: &Tokenizer<'_>) -> Option<String> {
    let is_named =
        store.encoding() == Encoding::Gguf && tokenizer.kind.value == TokenizerKind::SentencePiece;
    let is_byte = |text: &[u8]| text.starts_with(b"<0x") && text.len() == 6;
    let has_space = |text: &[u8]| text.starts_with("\u{120}".as_bytes());
    let has = |test: fn(&[u8]) -> bool| tokenizer.tokens().any(|token| test(&token.text));
    (is_named && has(has_space) && !has(is_byte)).then(|| {
        "tokenizer.ggml.model is \"llama\", but the tokens are those of a byte-level BPE, and none stands for a byte: \
         llama.cpp aborts at the first text"
            .to_owned()
    })
}

pub(super) fn check(
    store: &Store,
    config: Option<&ModelConfig>,
    faults: &mut Vec<String>,
    refused: &mut Vec<String>,
) -> Result<()> {
    let tokenizer = match Tokenizer::of(store) {
        Ok(tokenizer) => tokenizer,
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::NotFound) => {
            return Err(error);
        }
        Err(error) => {
            faults.push(error.to_string());
            return Ok(());
        }
    };
    let rows = config.and_then(rows_of_embedding);
    refused.extend(whisper_vocabulary(store));
    refused.extend(tokenizer.as_ref().and_then(|tokenizer| without_bytes(store, tokenizer)));
    faults.extend(rows.and_then(|rows| whisper_rows(store, rows)));
    faults.extend(tokenizer.as_ref().zip(rows).and_then(|(tokenizer, rows)| {
        // llama.cpp requires one embedding row for each token of its own keys; elsewhere, unused rows are allowed.
        let exact = store.encoding() == Encoding::Gguf
            && store.metadata().get("tokenizer.ggml.tokens").is_some();
        other_count(tokenizer, rows).filter(|_| exact || tokenizer.len() > rows)
    }));
    if let Some(rows) = rows {
        let more = config.map_or(0, more_embeddings);
        stated(store, (rows, more), faults);
        let unstated = |(at, config): &(String, &Json)| {
            at.is_empty() && VOCABULARY_KEYS.iter().all(|key| config.get(key).is_none())
        };
        if configs(store).as_ref().is_some_and(unstated) {
            refused.push(format!(
                "config.json has no vocab_size, and the embedding has {rows} rows: transformers assumes the number of its class, mlx-lm requires one"
            ));
        }
        faults.extend(special_tokens(store, rows));
    }
    #[cfg(feature = "chat-template")]
    match &tokenizer {
        Some(tokenizer) => faults.extend(tokenizer.chat_templates.iter().filter_map(jinja_fault)),
        None => match chat_templates(store) {
            Ok(templates) => faults.extend(templates.iter().filter_map(jinja_fault)),
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => faults.push(error.to_string()),
        },
    }
    if tokenizer.is_none() && store.container() == "mlx" && !store.is_empty() {
        refused.push("no tokenizer: mlx-lm does not load the model".to_owned());
    }
    let named = store.metadata().get("tokenizer.ggml.model").is_some();
    if store.encoding() == Encoding::Gguf && !named && !store.is_empty() && config.is_some() {
        refused.push("no tokenizer.ggml.model: llama.cpp does not load the file".to_owned());
    }
    let merging = tokenizer.filter(|found| found.kind.value == TokenizerKind::Bpe);
    let lacks = merging.is_some() && store.metadata().get("tokenizer.ggml.merges").is_none();
    if store.encoding() == Encoding::Gguf && named && lacks {
        let fault = "no tokenizer.ggml.merges, which this tokenizer needs: llama.cpp does not load the file";
        refused.push(fault.to_owned());
    }
    if let Some(pre) = merging.and_then(|found| found.pre)
        && !llama_cpp::knows_pre_tokenizer(&pre.value)
    {
        let pre = pre.value;
        refused.push(format!(
            "tokenizer.ggml.pre is \"{pre}\", a pre-tokenizer that llama.cpp does not know: it does not load the file"
        ));
    }
    Ok(())
}

/// Checks the vocabulary size that a config states against the rows of the embedding, of which some are beyond it.
fn stated(store: &Store, (rows, more): (u64, u64), faults: &mut Vec<String>) {
    let fault =
        |source: &str, said: u64| format!("{source} is {said}, but the embedding has {rows} rows");
    if let Some((at, config)) = configs(store)
        && let Some(said) = config.get("vocab_size").and_then(Json::as_u64)
        && said.saturating_add(more) != rows
    {
        faults.push(fault(&format!("config.json {at}vocab_size"), said));
    }
    if let Some(name) = store.metadata().str("general.architecture") {
        let key = format!("{name}.vocab_size");
        let said = store.metadata().get(&key).and_then(|value| value.to_u64());
        if let Some(said) = said.filter(|&said| said != rows) {
            faults.push(fault(&key, said));
        }
    }
}

/// The config, or the part of it for the language model, whichever describes the embedding.
fn configs(store: &Store) -> Option<(String, &Json)> {
    let root = store.document("config.json")?;
    let inner = crate::arch::config::TEXT_CONFIGS
        .iter()
        .find_map(|name| Some((format!("{name}."), root.get(name)?)))
        .filter(|(_, inner)| inner.is_object());
    Some(inner.unwrap_or((String::new(), root)))
}

/// The rows of the embedding, if the tensors determine their number.
fn rows_of_embedding(config: &ModelConfig) -> Option<u64> {
    let rows =
        config.vocab_size.as_ref().filter(|rows| rows.source.kind() == SourceKind::Tensors)?;
    u64::from(rows.value).checked_add(more_embeddings(config))
}

/// The rows of the embedding beyond the vocabulary.
fn more_embeddings(config: &ModelConfig) -> u64 {
    config.scales.more_embeddings.as_ref().map_or(0, |more| more.value.into())
}

/// The fault of a tokenizer with another number of tokens than the embedding has rows.
fn other_count(tokenizer: &Tokenizer<'_>, rows: u64) -> Option<String> {
    let (tokens, source) = (tokenizer.len(), &tokenizer.kind.source);
    (tokens != rows)
        .then(|| format!("{tokens} tokens ({source}), but the embedding has {rows} rows"))
}

/// Tokens beyond the rows of the embedding, and special ones beyond the vocabulary of a model, one sentence each.
pub(in crate::ops) fn tokens_beyond(store: &Store, config: &ModelConfig) -> Vec<String> {
    let Some(rows) = rows_of_embedding(config) else { return Vec::new() };
    let tokenizer = Tokenizer::of(store).ok().flatten().filter(|found| found.len() > rows);
    let more = tokenizer.and_then(|tokenizer| other_count(&tokenizer, rows));
    more.into_iter().chain(special_tokens(store, rows)).collect()
}

/// Faults of special tokens that are not within the vocabulary.
fn special_tokens(store: &Store, rows: u64) -> Vec<String> {
    let mut faults = Vec::new();
    let mut wrong = |source: String, id: u64| {
        if id >= rows {
            faults.push(format!("{source} is {id}, but the vocabulary has {rows} tokens"));
        }
    };
    for (key, value) in store.metadata().iter() {
        let Some(key) = key.to_str() else { continue };
        if key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") {
            let Some(id) = value.to_i128() else { continue };
            // The 32-bit number that stands for no token.
            if id >= 0 && id != i128::from(u32::MAX) {
                wrong(key.to_owned(), u64::try_from(id).unwrap_or(u64::MAX));
            }
        }
    }
    let generation = store.read_document("generation_config.json").ok().flatten();
    let documents = configs(store)
        .map(|(at, json)| (format!("config.json {at}"), json))
        .into_iter()
        .chain(generation.as_deref().map(|json| ("generation_config.json ".to_owned(), json)));
    for (document, json) in documents {
        for key in TOKEN_KEYS {
            let Some(value) = json.get(key) else { continue };
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            // Some configs write -1 for no token.
            for id in list.iter().filter_map(Json::as_u64) {
                wrong(format!("{document}{key}"), id);
            }
        }
    }
    faults
}

/// The fault of a chat template that is not valid Jinja.
#[cfg(feature = "chat-template")]
fn jinja_fault(template: &ChatTemplate) -> Option<String> {
    let error = syntax(&template.text.value).err()?;
    let name = template.name.as_ref().map_or(String::new(), |name| format!(" \"{name}\""));
    let source = &template.text.source;
    Some(format!("the chat template{name} ({source}) is not valid Jinja: {error}"))
}

/// Parses a template.
#[cfg(feature = "chat-template")]
fn syntax(template: &str) -> std::result::Result<(), String> {
    let text = ChatTemplate::without_training_tags(template);
    let mut environment = minijinja::Environment::empty();
    environment.set_recursion_limit(64);
    environment.template_from_str(&text).map(drop).map_err(|error| {
        let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
        let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        format!("{what}{line}")
    })
}

/// The numbers of tokens of OpenAI's models: those of English alone, and those of several languages.
const WHISPER_TOKENS: [u64; 2] = [51_864, 51_865];

/// The fault of a file whose special tokens have other numbers than whisper.cpp computes from the number of tokens
/// (`is_multilingual` in src/whisper.cpp).
fn whisper_vocabulary(store: &Store) -> Option<String> {
    let [english, multilingual] = WHISPER_TOKENS;
    let count = store.metadata().u64("whisper.n_vocab")?;
    (count < multilingual && count != english).then(|| {
        format!(
            "whisper.n_vocab is {count}: whisper.cpp takes the special tokens of English models of {english} tokens for a \
             vocabulary below {multilingual}, and writes wrong text if the model has others"
        )
    })
}

/// The fault of a file with another number of embeddings than its header states (`whisper_model_load`).
fn whisper_rows(store: &Store, rows: u64) -> Option<String> {
    let count = store.metadata().u64("whisper.n_vocab").filter(|count| *count != rows)?;
    let rows = format!("the embedding has {rows} rows");
    Some(format!("whisper.n_vocab is {count}, but {rows}: whisper.cpp does not load the file"))
}
