//! Facts about added tokens that a token's type in GGUF does not state. They are kept under keys of this library.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::files::TokenizerFiles;
use crate::arch::kept;
use crate::json::{Json, Map};
use crate::metadata::KeyValues;
use crate::store::Store;
use crate::tokenizer::TokenKind;

/// Keys with the numbers of tokens: each token has a field with this value, which its type does not tell.
const KEYS: [(&str, &str, bool); 5] = [
    ("not_special", "special", false),
    ("special", "special", true),
    ("lstrip", "lstrip", true),
    ("rstrip", "rstrip", true),
    ("single_word", "single_word", true),
];

fn key(name: &str) -> String {
    format!("{}tokenizer.{name}", kept::PREFIX)
}

/// The value that a field of an added token has by the type of the token.
pub(super) fn by_type(field: &str, kind: TokenKind) -> bool {
    field == "special" && kind != TokenKind::UserDefined
}

/// Appends the keys for tokens whose fields are others than those by their types in `out`.
pub(super) fn keep(files: &TokenizerFiles, out: &mut KeyValues) {
    let value = out.get("tokenizer.ggml.token_type");
    let types = value.and_then(|value| value.to_array()).and_then(|array| array.integers());
    let kinds: Vec<Option<TokenKind>> =
        types.into_iter().flatten().map(TokenKind::from_code).collect();
    let stated: BTreeMap<u32, &Json> = files.stated().collect();
    for (name, field, value) in KEYS {
        let differs = |(id, token): (&u32, &&Json)| {
            let kind = usize::try_from(*id).ok().and_then(|id| *kinds.get(id)?)?;
            let stated = token.get(field).and_then(Json::as_bool)?;
            (is_added(kind) && stated == value && by_type(field, kind) != value).then_some(*id)
        };
        let ids: Vec<u32> = stated.iter().filter_map(differs).collect();
        if !ids.is_empty() {
            out.set_array(&key(name), ids);
        }
    }
}

/// Whether a token of this type is matched before all others.
pub(super) fn is_added(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Control | TokenKind::UserDefined | TokenKind::Unknown)
}

/// The fields of added tokens that a GGUF file keeps.
#[derive(Default)]
pub(super) struct KeptFields(HashMap<&'static str, HashSet<u32>>);

impl KeptFields {
    pub(super) fn of(store: &Store) -> Self {
        let ids = |name| {
            let ids = store.metadata().array(&key(name))?.integers()?;
            Some((name, ids.filter_map(|id| u32::try_from(id).ok()).collect()))
        };
        Self(KEYS.iter().filter_map(|(name, ..)| ids(*name)).collect())
    }

    /// Sets the fields of a token.
    pub(super) fn set(&self, id: u32, token: &mut Map<String, Json>) {
        for (name, field, value) in KEYS {
            if self.0.get(name).is_some_and(|ids| ids.contains(&id)) {
                token.insert(field.to_owned(), value.into());
            }
        }
    }
}
