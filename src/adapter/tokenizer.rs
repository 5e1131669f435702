//! The tokenizer next to an adapter, which was trained with it: its tokens and its chat template may be new.

use std::collections::HashSet;

use super::Adapter;
use crate::bytes::Text;
use crate::model::{EMBEDDING, Model};
use crate::store::{Encoding, Store};
use crate::tokenizer::{Tokenizer, chat_templates_beside};

/// The model with the tokenizer next to an adapter, if that has tokens or a chat template that the model's lacks.
pub(super) fn with_tokenizer(model: &Model, adapter: &Adapter, notes: &mut Vec<String>) -> Model {
    let (own, other) = (model.store(), adapter.model.store());
    if other.encoding() == Encoding::Gguf {
        return model.clone();
    }
    let rows = model.tensor(EMBEDDING).ok().and_then(|rows| rows.shape().first().copied());
    let more = tokens_of(own).zip(tokens_of(other)).map(|(own, other)| {
        let known: HashSet<&[u8]> = own.iter().map(|(_, text)| text.as_slice()).collect();
        let is_new = |(_, text): &(u32, Vec<u8>)| !known.contains(text.as_slice());
        other.into_iter().filter(is_new).collect::<Vec<_>>()
    });
    let more = more.unwrap_or_default();
    let (template, stated) = (template_of(other), template_of(own));
    let has_template = !template.is_empty() && template.trim() != stated.trim();
    let mut parts = Vec::new();
    if let Some((_, first)) = more.first() {
        let first = Text::new(first).brief();
        parts.push(match more.len() {
            1 => format!("the token \"{first}\""),
            count => format!("{count} tokens, \"{first}\" first"),
        });
    }
    parts.extend(has_template.then(|| "a chat template".to_owned()));
    if parts.is_empty() {
        return model.clone();
    }
    let (path, parts) = (Text::from_path(adapter.path()), parts.join(" and "));
    let lacks = format!("{path}: the tokenizer next to it has {parts} that the model's lacks");
    let fits = rows.is_none_or(|rows| more.iter().all(|(id, _)| u64::from(*id) < rows));
    if own.encoding() == Encoding::Gguf || !fits {
        let why = if fits { "a GGUF file has its own" } else { "the embedding has too few rows" };
        notes.push(format!("{lacks}, and is not used: {why}"));
        return model.clone();
    }
    notes.push(format!("{lacks}, and takes its place"));
    model.with_replaced(Store::clone(own).with_tokenizer_of(other), &[])
}

/// The numbers and texts of the tokens. A tokenizer that cannot be read has none.
fn tokens_of(store: &Store) -> Option<Vec<(u32, Vec<u8>)>> {
    let tokenizer = Tokenizer::of(store).ok().flatten()?;
    Some(tokenizer.tokens().map(|token| (token.id, token.text.into_owned())).collect())
}

fn template_of(store: &Store) -> String {
    if store.encoding() == Encoding::Gguf {
        return store.metadata().str("tokenizer.chat_template").unwrap_or_default().to_owned();
    }
    let (embedded, standalone) = chat_templates_beside(store);
    if standalone.is_empty() { embedded } else { standalone }
}
