//! Tokenizers: vocabulary, merges, special tokens, chat template. They do not tokenize text.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ops::Range;

use weighbridge_rs::{Error, ErrorKind, Tokenizer};

use crate::fault::{checked, gives, quietly};
use crate::model::WbModel;
use crate::{WbStr, beyond, give, given, text};

/// The tokenizer of a model. It keeps nothing of its model. Any number of threads may use it at the same
/// time.
#[derive(Debug)]
pub struct WbTokenizer {
    kind: String,
    /// The spellings of tokens and merges, one after the other.
    spellings: Vec<u8>,
    tokens: Vec<Entry>,
    merges: Vec<(Range<usize>, Range<usize>)>,
    special: Vec<(String, u32)>,
    template: String,
}

#[derive(Debug)]
struct Entry {
    spelling: Range<usize>,
    kind: u32,
    score: f32,
}

/// A token of a vocabulary.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbToken {
    /// The spelling in the file: byte-level BPE has a letter for each byte, SentencePiece a lower block
    /// for a space. Any bytes.
    pub text: WbStr,
    /// The token's number.
    pub id: u32,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; 0 if the file does not state it.
    pub kind: u32,
    /// The score, or NaN if the file has none.
    pub score: f32,
}

impl WbTokenizer {
    fn new(tokenizer: &Tokenizer<'_>) -> Self {
        let mut spellings = Vec::new();
        let mut keep = |bytes: &[u8]| {
            let start = spellings.len();
            spellings.extend_from_slice(bytes);
            start..spellings.len()
        };
        let tokens = tokenizer.tokens().map(|token| Entry {
            spelling: keep(&token.text),
            kind: token.kind.map_or(0, |kind| kind as u32),
            score: token.score.unwrap_or(f32::NAN),
        });
        let tokens = tokens.collect();
        let merges = tokenizer.merges().map(|(first, second)| (keep(&first), keep(&second)));
        let merges = merges.collect();
        let special = tokenizer.special.iter().map(|(name, id)| (name.clone(), id.value));
        let special = special.collect();
        let template = tokenizer.chat_template().unwrap_or_default().to_owned();
        let kind = tokenizer.kind.value.name().to_owned();
        Self { kind, spellings, tokens, merges, special, template }
    }

    fn spelling(&self, range: &Range<usize>) -> WbStr {
        WbStr::new(self.spellings.get(range.clone()).unwrap_or_default())
    }
}

/// Reads the tokenizer of a model, from its metadata or from a file beside the weights. WB_NOT_FOUND if no file
/// contains one. Free it with wb_tokenizer_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_tokenizer(
    model: Option<&WbModel>,
    out: Option<&mut MaybeUninit<Box<WbTokenizer>>>,
) -> i32 {
    gives(out, || {
        let model = &given(model, "model")?.model;
        let absent = || {
            let error = Error::new(ErrorKind::NotFound, "the model has no tokenizer");
            error.in_file(model.path())
        };
        Ok(Box::new(WbTokenizer::new(&model.tokenizer()?.ok_or_else(absent)?)))
    })
}

/// Frees a tokenizer. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_free(tokenizer: Option<Box<WbTokenizer>>) {
    quietly(|| drop(tokenizer));
}

/// The algorithm that turns text into tokens: "bpe", "sentencepiece", "unigram", "wordpiece", or another
/// name that the file states. Empty for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_kind(tokenizer: Option<&WbTokenizer>) -> WbStr {
    WbStr::new(tokenizer.map_or(&b""[..], |tokenizer| tokenizer.kind.as_bytes()))
}

/// The chat template, in Jinja. Empty if there is none, and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_chat_template(tokenizer: Option<&WbTokenizer>) -> WbStr {
    WbStr::new(tokenizer.map_or(&b""[..], |tokenizer| tokenizer.template.as_bytes()))
}

/// The number of tokens. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_token_count(tokenizer: Option<&WbTokenizer>) -> usize {
    tokenizer.map_or(0, |tokenizer| tokenizer.tokens.len())
}

/// The token with a number. Its spelling is valid as long as the tokenizer.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_token(
    tokenizer: Option<&WbTokenizer>,
    id: u32,
    out: Option<&mut MaybeUninit<WbToken>>,
) -> i32 {
    gives(out, || {
        let tokenizer = given(tokenizer, "tokenizer")?;
        let (position, count) = (id as usize, tokenizer.tokens.len());
        let found = tokenizer.tokens.get(position);
        let found = found.ok_or_else(|| beyond("tokens", position, count))?;
        let text = tokenizer.spelling(&found.spelling);
        Ok(WbToken { text, id, kind: found.kind, score: found.score })
    })
}

/// The number of the special token for a purpose: "bos", "eos", "unk", "pad", "eot", "mask" and the like.
/// WB_NOT_FOUND if the model states none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_tokenizer_special(
    tokenizer: Option<&WbTokenizer>,
    purpose: *const c_char,
    out: Option<&mut MaybeUninit<u32>>,
) -> i32 {
    gives(out, || {
        let tokenizer = given(tokenizer, "tokenizer")?;
        // SAFETY: the caller passes NULL or a valid string.
        let purpose = unsafe { text(purpose, "purpose")? };
        let found = tokenizer.special.iter().find(|(name, _)| name == purpose);
        let absent = || {
            let fault = format!("the tokenizer states no token for \"{purpose}\"");
            Error::new(ErrorKind::NotFound, fault)
        };
        let (_, id) = found.ok_or_else(absent)?;
        Ok(*id)
    })
}

/// The number of merges. 0 for tokenizers that merge by scores, and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_merge_count(tokenizer: Option<&WbTokenizer>) -> usize {
    tokenizer.map_or(0, |tokenizer| tokenizer.merges.len())
}

/// The two spellings that are merged into one, 0 first: the highest priority. The second is empty if the
/// file names only one. They are valid as long as the tokenizer.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tokenizer_merge(
    tokenizer: Option<&WbTokenizer>,
    position: usize,
    first: Option<&mut MaybeUninit<WbStr>>,
    second: Option<&mut MaybeUninit<WbStr>>,
) -> i32 {
    checked(|| {
        let tokenizer = given(tokenizer, "tokenizer")?;
        let found = tokenizer.merges.get(position);
        let (a, b) = found.ok_or_else(|| beyond("merges", position, tokenizer.merges.len()))?;
        let second = given(second, "second")?;
        give(first, tokenizer.spelling(a), "first")?;
        second.write(tokenizer.spelling(b));
        Ok(())
    })
}
