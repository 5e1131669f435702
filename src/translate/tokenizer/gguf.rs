//! The tokenizer as GGUF keys, from the files of a directory, as llama.cpp's converter writes them
//! (`conversion/base.py`, `gguf-py/gguf/vocab.py`).

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::ends::{self, SPECIAL};
use super::files::{self, TokenizerFiles, step_kind};
use super::{added, pre, unlike};
use crate::arch::habits::Exceptions;
use crate::arch::variant::Variant;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::{KeyValues, Value};
use crate::store::Store;
use crate::tokenizer::vocabulary::Normalizer;
use crate::tokenizer::{FAIRSEQ, TokenKind, Tokenizer, TokenizerKind, pieces, sentencepiece};

/// Scores of tokens that are matched before all others, and of rows without a token.
const FOUND_FIRST: f32 = -1000.0;
const NO_TOKEN: f32 = -10_000.0;

/// A note on Unigram tokenizers with bytes.
const NO_BYTES: &str = "llama.cpp has no byte fallback for Unigram tokenizers: a character without a token becomes the \
     unknown token";

/// A token in GGUF's arrays.
struct TokenRow {
    text: Vec<u8>,
    score: f32,
    kind: TokenKind,
}

/// Appends the tokenizer's keys. `rows` is the number of rows of the embedding. Returns a note if a
/// part of the tokenizer could not be translated.
///
/// # Errors
///
/// `Unsupported` for a kind of tokenizer that cannot be translated to GGUF; `Mismatch` if there are
/// more tokens than rows; `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub(crate) fn gguf_keys(
    store: &Store,
    variant: &Variant,
    rows: Option<u32>,
    out: &mut KeyValues,
) -> Result<Option<String>> {
    let exceptions = variant.tokenizer;
    let files = TokenizerFiles::of(store)?;
    let limits = store.limits();
    if let Some(file) = pieces(store)?
        // Llama 3 and others have a tiktoken file under this name.
        && let Ok(vocabulary) = sentencepiece::tokenizer(file.bytes.into(), limits)
        && vocabulary.kind != TokenizerKind::Unigram
    {
        if vocabulary.kind != TokenizerKind::SentencePiece {
            let fault = format!("unsupported kind of tokenizer: {}", vocabulary.kind.name());
            return Err(Error::unsupported(fault).in_file(&file.path));
        }
        let mut table = TokenTable::new(store, rows, vocabulary.len(), true)?;
        for token in vocabulary.tokens() {
            let kind = token.kind.unwrap_or(TokenKind::Normal);
            table.put(token.id, token.text.into_owned(), token.score.unwrap_or(0.0), kind)?;
        }
        table.add_all(&files)?;
        sentencepiece_keys(table, &files, exceptions, out);
        let prefix = "tokenizer.ggml.add_space_prefix";
        if vocabulary.normalizer.as_ref().is_some_and(|own| !own.adds_space) {
            out.set(prefix, Value::Bool(false));
        }
        special_keys(store, &files, exceptions, rows, out)?;
        ends::unusual(store, rows, out)?;
        templates(store, out)?;
        added::keep(&files, out);
        let notes = unlike::note(&files, &vocabulary.kind, exceptions, out);
        let notes = notes.into_iter().chain(ends::flags_contradicted(&files));
        return Ok(joined(notes.chain(without_row(&files, rows))));
    }
    let Some(tokenizer) = Tokenizer::of(store)? else {
        let why = "no tokenizer file next to the weights: llama.cpp does not load the file";
        return Ok(Some(why.to_owned()));
    };
    let source = KeySource { store, exceptions, files, tokenizer, rows };
    let note = source.token_keys(out)?;
    let KeySource { files, tokenizer, .. } = source;
    special_keys(store, &files, exceptions, rows, out)?;
    ends::of_unigram(&tokenizer, out);
    ends::unknown(&tokenizer, &files, out);
    let class = files::class(store, &tokenizer)?;
    if *tokenizer.kind.source == *FAIRSEQ || class.is_some_and(|class| class.surrounds) {
        ends::surrounding(&tokenizer, out);
    }
    if *tokenizer.kind.source == *"vocab.txt" {
        word_keys(&tokenizer, &files, out);
    }
    if exceptions.has("merges") {
        out.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    }
    templates(store, out)?;
    added::keep(&files, out);
    let kind = match tokenizer.kind.value {
        TokenizerKind::Bpe if files.has_bytes() => &TokenizerKind::SentencePiece,
        ref kind => kind,
    };
    let words = (*kind == TokenizerKind::WordPiece).then(|| unlike::around_words(&files, out));
    let notes = note.into_iter().chain(unlike::note(&files, kind, exceptions, out));
    let notes = notes.chain(words.flatten()).chain(ends::flags_contradicted(&files));
    Ok(joined(notes.chain(without_row(&files, rows))))
}

fn joined(notes: impl Iterator<Item = String>) -> Option<String> {
    notes.reduce(|first, second| format!("{first}; {second}"))
}

/// A note on added tokens for which the embedding has no row: they are not written.
fn without_row(files: &TokenizerFiles, rows: Option<u32>) -> Option<String> {
    let rows = rows?;
    let beyond = files.added.iter().filter(|(id, _)| **id >= rows);
    let first = beyond.clone().min_by_key(|(id, _)| **id)?;
    let (id, (text, _)) = first;
    let text = crate::bytes::Text::new(text.as_bytes());
    let more = match beyond.count() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Some(format!(
        "left out: token {id}, \"{}\"{more}, since the embedding has {rows} rows",
        text.brief()
    ))
}

/// The source of the keys of the tokens.
struct KeySource<'s> {
    store: &'s Store,
    exceptions: Exceptions,
    files: TokenizerFiles,
    tokenizer: Tokenizer<'s>,
    /// The number of rows of the embedding.
    rows: Option<u32>,
}

impl<'s> KeySource<'s> {
    /// Appends the keys of the tokens. Returns a note if a part could not be translated.
    fn token_keys(&self, out: &mut KeyValues) -> Result<Option<String>> {
        let has_fallback = self.files.has_bytes();
        match &self.tokenizer.kind.value {
            TokenizerKind::Bpe if has_fallback => self.bpe_with_bytes(out),
            TokenizerKind::Bpe => self.bpe(out),
            TokenizerKind::WordPiece => self.word_piece(out).map(|()| None),
            TokenizerKind::Unigram => self.unigram(has_fallback, out),
            other => {
                let fault = format!("unsupported kind of tokenizer: {}", other.name());
                let advice = "GGUF has BPE, SentencePiece, Unigram and WordPiece; safetensors and MLX directories keep \
                              the tokenizer's own files";
                Err(self.here(Error::unsupported(fault).advise(advice)))
            }
        }
    }

    fn here(&self, error: Error) -> Error {
        error.in_file(self.store.path()).in_key(&self.tokenizer.kind.source)
    }

    /// An empty table with room for the tokens.
    fn table(&self, scored: bool) -> Result<TokenTable<'s>> {
        let len = usize::try_from(self.tokenizer.len()).unwrap_or(usize::MAX);
        TokenTable::new(self.store, self.rows, len, scored)
    }

    /// A table of the tokens, without scores and kinds.
    fn plain_table(&self) -> Result<TokenTable<'s>> {
        let mut table = self.table(false)?;
        for token in self.tokenizer.tokens() {
            table.put(token.id, token.text.into_owned(), 0.0, TokenKind::Normal)?;
        }
        Ok(table)
    }

    fn bpe(&self, out: &mut KeyValues) -> Result<Option<String>> {
        let mut table = self.plain_table()?;
        table.add_all(&self.files)?;
        let ignore = self.files.flag(&["model", "ignore_merges"]);
        let class = files::class(self.store, &self.tokenizer)?.map(|class| &class.pre_tokenizer);
        let steps = self.files.json_value(&["pre_tokenizer"]).or(class);
        let own = self.exceptions.values("pre");
        let named = steps.and_then(|steps| pre::with_steps(steps, ignore, own));
        out.set_text("tokenizer.ggml.model", "gpt2");
        out.set_text("tokenizer.ggml.pre", named.map_or("default", |pre| pre.name));
        table.write(out);
        merges(&self.tokenizer, self.files.tokenizer.is_some(), out);
        Ok(named.is_none().then(|| {
            format!(
                "{}: llama.cpp has no name for this pre-tokenizer. tokenizer.ggml.pre is \
                 \"default\", which may split text in another way",
                self.tokenizer.kind.source
            )
        }))
    }

    fn bpe_with_bytes(&self, out: &mut KeyValues) -> Result<Option<String>> {
        let own = self.exceptions.values("merges").split_first();
        let mut table = self.table(true)?;
        let scores = if own.is_some() { HashMap::new() } else { scores(&self.tokenizer) };
        for token in self.tokenizer.tokens() {
            let kind = if is_byte(&token.text) { TokenKind::Byte } else { TokenKind::Normal };
            let score = scores.get(&*token.text).map_or(FOUND_FIRST, |(score, _)| *score);
            table.put(token.id, token.text.into_owned(), score, kind)?;
        }
        table.add_all(&self.files)?;
        let Some((model, shown)) = own else {
            if let Some(unknown) = self.tokenizer.special("unk") {
                table.mark(unknown, TokenKind::Unknown);
            }
            sentencepiece_keys(table, &self.files, self.exceptions, out);
            return Ok(self.unlisted(&scores));
        };
        table.show(shown);
        out.set_text("tokenizer.ggml.model", model);
        table.write(out);
        merges(&self.tokenizer, false, out);
        out.set("tokenizer.ggml.add_space_prefix", Value::Bool(false));
        Ok(None)
    }

    /// A note on tokens of two others that no merge lists: llama.cpp merges them all the same. Added tokens are matched before.
    fn unlisted(&self, scores: &MergeScores) -> Option<String> {
        let texts: HashSet<_> = self.tokenizer.tokens().map(|token| token.text).collect();
        let lacks_some = |text: &[u8]| {
            let places =
                (1..text.len()).filter(|at| text.get(*at).is_some_and(|b| b & 0xC0 != 0x80));
            let pairs = places.filter_map(|at| text.split_at_checked(at));
            let pairs =
                pairs.filter(|(first, second)| texts.contains(*first) && texts.contains(*second));
            pairs.count() > scores.get(text).map_or(0, |(_, listed)| *listed)
        };
        let tokens =
            self.tokenizer.tokens().filter(|token| !self.files.added.contains_key(&token.id));
        let count = tokens.filter(|token| lacks_some(&token.text)).count();
        (count > 0).then(|| {
            format!(
                "llama.cpp merges any two tokens that make a token, and the tokenizer's merges lack some, of {count} tokens: \
                 it makes other tokens of some texts"
            )
        })
    }

    fn word_piece(&self, out: &mut KeyValues) -> Result<()> {
        let mut table = self.plain_table()?;
        for (_, id) in &self.tokenizer.special {
            table.mark(id.value, TokenKind::Control);
        }
        table.add_all(&self.files)?;
        table.begin_words();
        out.set_text("tokenizer.ggml.model", "bert");
        // llama.cpp has one pre-tokenizer for such models, whatever this key states.
        out.set_text("tokenizer.ggml.pre", "jina-v2-en");
        table.write(out);
        Ok(())
    }

    fn unigram(&self, has_fallback: bool, out: &mut KeyValues) -> Result<Option<String>> {
        let tokenizer = &self.tokenizer;
        let mut table = self.table(true)?;
        let unknown = tokenizer.special("unk");
        let (mut has_bytes, mut own) = (false, HashSet::new());
        for token in tokenizer.tokens() {
            let kind = match token.kind {
                _ if Some(token.id) == unknown => TokenKind::Unknown,
                Some(kind) => kind,
                None if has_fallback && is_byte(&token.text) => TokenKind::Byte,
                None => TokenKind::Normal,
            };
            let score = token.score.unwrap_or(0.0);
            has_bytes |= kind == TokenKind::Byte;
            if kind == TokenKind::UserDefined {
                own.insert(token.id);
            }
            table.put(token.id, token.text.into_owned(), score, kind)?;
        }
        // Tokens after those of SentencePiece's file.
        let len = tokenizer.len();
        let is_later = |id: &u32| u64::from(*id) >= len || own.contains(id);
        let after = self.files.added.iter().filter(|(id, _)| is_later(id));
        if tokenizer.normalizer().is_some() && *tokenizer.kind.source != *FAIRSEQ {
            table.add(&after.map(|(id, token)| (*id, token.clone())).collect())?;
        }
        unigram_keys(table, tokenizer, &self.files, out).map_err(|error| self.here(error))?;
        Ok(has_bytes.then(|| NO_BYTES.to_owned()))
    }
}

/// What to do about a token without a row.
const BEYOND: &str = "no program can compute the token: remove it from tokenizer.json and added_tokens.json, or add its row \
                      to the embedding (resize_token_embeddings of transformers)";

/// GGUF's arrays of tokens, while they are filled.
struct TokenTable<'s> {
    store: &'s Store,
    rows: Vec<Option<TokenRow>>,
    /// Whether the tokens have scores.
    scored: bool,
}

impl<'s> TokenTable<'s> {
    /// An empty table with as many rows as the embedding, or as the vocabulary if there is none.
    fn new(store: &'s Store, rows: Option<u32>, tokens: usize, scored: bool) -> Result<Self> {
        let most = store.limits().vocabulary_items;
        let len = rows.map_or(tokens as u64, u64::from);
        if len > most {
            return Err(Error::limit("tokens", len, most, "vocabulary_items").in_file(store.path()));
        }
        let mut all = Vec::new();
        all.resize_with(usize::try_from(len).unwrap_or(0), || None);
        Ok(Self { store, rows: all, scored })
    }

    fn put(&mut self, id: u32, text: Vec<u8>, score: f32, kind: TokenKind) -> Result<()> {
        let rows = self.rows.len();
        match self.rows.get_mut(id as usize) {
            Some(row) => *row = Some(TokenRow { text, score, kind }),
            None => {
                let shown = crate::bytes::Text::new(&text).brief();
                let fault = format!("token {id} is \"{shown}\", but the embedding has {rows} rows");
                return Err(Error::malformed(fault).in_file(self.store.path()).advise(BEYOND));
            }
        }
        Ok(())
    }

    /// Writes the tokens that were added to the vocabulary, replacing others with the same number.
    fn add(&mut self, added: &HashMap<u32, (String, bool)>) -> Result<()> {
        let mut sorted: Vec<_> = added.iter().collect();
        sorted.sort_by_key(|(id, _)| **id);
        for (&id, (text, special)) in sorted {
            let (text, kind) = match *special || looks_special(text) {
                true => (text.clone(), TokenKind::Control),
                // llama.cpp matches such a token in the original text, with its spaces.
                false => (text.replace('▁', " "), TokenKind::UserDefined),
            };
            // A token that a config adds after the last row has no embedding; it is ignored.
            if (id as usize) < self.rows.len() {
                self.put(id, text.into_bytes(), FOUND_FIRST, kind)?;
            }
        }
        Ok(())
    }

    /// Writes all tokens that the files add.
    fn add_all(&mut self, files: &TokenizerFiles) -> Result<()> {
        self.add(&files.added)?;
        for text in &files.named {
            let is = |row: &TokenRow| *row.text == *text.as_bytes();
            let same = self.rows.iter_mut().flatten().find(|row| is(row));
            let is_free = same.is_none();
            let plain = same.into_iter().filter(|row| row.kind == TokenKind::Normal);
            plain.for_each(|row| row.kind = TokenKind::Control);
            let next = self.rows.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            if is_free && next < self.rows.len() {
                let id = u32::try_from(next).unwrap_or(u32::MAX);
                self.put(id, text.clone().into_bytes(), FOUND_FIRST, TokenKind::Control)?;
            }
        }
        Ok(())
    }

    fn mark(&mut self, id: u32, kind: TokenKind) {
        if let Some(Some(row)) = self.rows.get_mut(id as usize) {
            row.kind = kind;
        }
    }

    fn show(&mut self, texts: &[&str]) {
        for row in self.rows.iter_mut().flatten() {
            if texts.iter().any(|text| *row.text == *text.as_bytes()) {
                row.kind = TokenKind::UserDefined;
            }
        }
    }

    /// Converts word markers: BERT marks tokens within a word, llama.cpp tokens that start a word. Added tokens are found in
    /// the text itself.
    fn begin_words(&mut self) {
        let is_word =
            |row: &&mut TokenRow| !matches!(row.kind, TokenKind::Control | TokenKind::UserDefined);
        for row in self.rows.iter_mut().flatten().filter(is_word) {
            row.text = match row.text.strip_prefix(b"##") {
                Some(rest) => rest.to_vec(),
                None => ["▁".as_bytes(), &row.text].concat(),
            };
        }
    }

    fn write(self, out: &mut KeyValues) {
        let each = |(id, row): (usize, Option<TokenRow>)| {
            row.unwrap_or_else(|| TokenRow {
                text: format!("[PAD{id}]").into_bytes(),
                score: NO_TOKEN,
                kind: TokenKind::Unused,
            })
        };
        let rows: Vec<TokenRow> = self.rows.into_iter().enumerate().map(each).collect();
        out.set_array("tokenizer.ggml.tokens", rows.iter().map(|row| row.text.as_slice()));
        if self.scored {
            out.set_array("tokenizer.ggml.scores", rows.iter().map(|row| row.score));
        }
        out.set_array("tokenizer.ggml.token_type", rows.iter().map(|row| row.kind as i32));
    }
}

/// Tokens that are control tokens although some models do not mark them as such.
fn looks_special(text: &str) -> bool {
    let within = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].contains(&text)
        || within("<|", "|>")
        || within("<｜", "｜>")
        || within("<unused", ">")
}

/// Whether a token stands for a byte, such as `<0x0A>`.
fn is_byte(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"<0x").and_then(|rest| rest.strip_suffix(b">"));
    digits.is_some_and(|digits| digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Scores of tokens that result from merges: llama.cpp applies the merge with the highest score
/// first. The converter expects a `tokenizer.model`; without one it writes -1000 for all tokens,
/// which leaves the order of merges undefined, and marks the unknown token as a control token.
fn scores(tokenizer: &Tokenizer<'_>) -> MergeScores {
    let mut scores = MergeScores::new();
    for (rank, (first, second)) in tokenizer.merges().enumerate() {
        let entry = scores.entry([&*first, &*second].concat()).or_insert((-(rank as f32), 0));
        entry.1 += 1;
    }
    scores
}

/// The score of each token that results from merges, and their number.
type MergeScores = HashMap<Vec<u8>, (f32, usize)>;

fn sentencepiece_keys(
    table: TokenTable<'_>,
    files: &TokenizerFiles,
    exceptions: Exceptions,
    out: &mut KeyValues,
) {
    out.set_text("tokenizer.ggml.model", "llama");
    out.set_text("tokenizer.ggml.pre", "default");
    table.write(out);
    let said = files.config.get("add_prefix_space").and_then(Json::as_bool);
    let bare = exceptions.has("no_space_prefix").then_some(false);
    // Without the flag, llama.cpp puts a space before a text.
    let has = |list: &str, inner: &str, kind: &str| {
        files.steps(list, inner).iter().any(|step| step_kind(step) == kind)
    };
    let plain = files.tokenizer.is_some()
        && !has("normalizer", "normalizers", "Prepend")
        && !has("pre_tokenizer", "pretokenizers", "Metaspace");
    if let Some(flag) = bare.or(said).or(plain.then_some(false)) {
        out.set("tokenizer.ggml.add_space_prefix", Value::Bool(flag));
    }
}

/// A Unigram tokenizer, which llama.cpp names after T5; XLM-RoBERTa has one too.
fn unigram_keys(
    table: TokenTable<'_>,
    tokenizer: &Tokenizer<'_>,
    files: &TokenizerFiles,
    out: &mut KeyValues,
) -> Result<()> {
    out.set_text("tokenizer.ggml.model", "t5");
    out.set_text("tokenizer.ggml.pre", "default");
    table.write(out);
    if let Some(normalizer) = tokenizer.normalizer() {
        let Normalizer { adds_space, removes_spaces, charsmap } = normalizer;
        out.set("tokenizer.ggml.add_space_prefix", Value::Bool(*adds_space));
        out.set("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(*removes_spaces));
        if !charsmap.is_empty() {
            out.set_array("tokenizer.ggml.precompiled_charsmap", charsmap.iter().copied());
        }
        return Ok(());
    }
    let (mut prefix, mut single_spaces) = (None, None);
    for step in files.steps("pre_tokenizer", "pretokenizers") {
        match step_kind(step) {
            "Metaspace" => {
                let scheme = step.get("prepend_scheme").and_then(Json::as_str);
                let older = step.get("add_prefix_space").and_then(Json::as_bool);
                prefix = scheme.map(|scheme| scheme != "never").or(older);
            }
            // White space between words is dropped, whatever its length.
            "WhitespaceSplit" | "Whitespace" => single_spaces = Some(true),
            _ => {}
        }
    }
    let mut charsmap = None;
    for step in files.steps("normalizer", "normalizers") {
        match step_kind(step) {
            "Precompiled" => charsmap = step.get("precompiled_charsmap").and_then(Json::as_str),
            // Files made from SentencePiece's collapse spaces with this step.
            "Replace" if step.pointer("/pattern/Regex") == Some(&Json::from(" {2,}")) => {
                single_spaces = Some(true);
            }
            _ => {}
        }
    }
    let said = |key: &str| files.config.get(key).and_then(Json::as_bool);
    let prefix = said("add_prefix_space").or(prefix).unwrap_or(true);
    out.set("tokenizer.ggml.add_space_prefix", Value::Bool(prefix));
    // Without such steps, the converter uses this flag.
    let single_spaces = single_spaces.or_else(|| said("clean_up_tokenization_spaces"));
    let single_spaces = Value::Bool(single_spaces.unwrap_or(false));
    out.set("tokenizer.ggml.remove_extra_whitespaces", single_spaces);
    if let Some(charsmap) = charsmap.filter(|charsmap| !charsmap.is_empty()) {
        let bytes = BASE64_STANDARD.decode(charsmap).map_err(|error| {
            Error::malformed(format!("precompiled_charsmap is not valid base64: {error}"))
        })?;
        out.set_array("tokenizer.ggml.precompiled_charsmap", bytes);
    }
    Ok(())
}

/// GGUF stores a merge as one text, so a space within a token is written as the letter for its
/// byte. llama.cpp needs the list of a file that states one, even without merges.
fn merges(tokenizer: &Tokenizer<'_>, is_stated: bool, out: &mut KeyValues) {
    let letter = "Ġ".as_bytes();
    let part = |text: &[u8], all: &mut Vec<u8>| {
        for byte in text {
            match byte {
                b' ' => all.extend_from_slice(letter),
                other => all.push(*other),
            }
        }
    };
    let texts: Vec<Vec<u8>> = tokenizer
        .merges()
        .map(|(first, second)| {
            let mut all = Vec::new();
            part(&first, &mut all);
            all.push(b' ');
            part(&second, &mut all);
            all
        })
        .collect();
    if is_stated || !texts.is_empty() {
        out.set_array("tokenizer.ggml.merges", texts.iter().map(Vec::as_slice));
    }
}

/// The special tokens, and those that texts start and end with.
fn special_keys(
    store: &Store,
    files: &TokenizerFiles,
    exceptions: Exceptions,
    rows: Option<u32>,
    out: &mut KeyValues,
) -> Result<()> {
    let text = |name: &str| files.special_text(name);
    let mut texts: HashMap<&str, String> = SPECIAL
        .iter()
        .map(|(name, _)| *name)
        .filter_map(|name| Some((name, text(name)?)))
        .collect();
    // BERT's texts are enclosed in these two; without them llama.cpp would add no start token.
    let begins = text("cls");
    if files.tokenizer.is_some() {
        for (name, other) in [("bos", begins.clone()), ("eos", text("sep"))] {
            if let (None, Some(other)) = (texts.get(name), other) {
                texts.insert(name, other);
            }
        }
    }
    let adds = ends::added_around(files, &mut texts, begins);
    for (name, key) in
        [("bos", "add_bos_token"), ("eos", "add_eos_token"), ("sep", "add_sep_token")]
    {
        let said = files.config.get(key).and_then(Json::as_bool);
        let flag = adds.iter().find(|(other, _)| *other == name).map(|(_, flag)| *flag);
        // transformers adds what the steps of `tokenizer.json` add, whatever the configuration says.
        let unstated = match files.states_ends() && name != "sep" {
            true => (said.is_some() || assumed(name, out)).then_some(false),
            false => said,
        };
        if let Some(flag) = flag.or(unstated) {
            out.set(&format!("tokenizer.ggml.{key}"), Value::Bool(flag));
        }
    }
    let config = store.read_document("config.json")?;
    for (name, key) in SPECIAL {
        let text = texts.get(name);
        let stated = number_in_config(name, config.as_deref());
        let named = text.and_then(|text| id_in_table(text, out));
        // Generating ends at the token that `config.json` states, but not at the one before a text.
        let first = || texts.get("bos").and_then(|text| id_in_table(text, out));
        let named = named.filter(|_| name != "eos" || stated.is_some() && stated == first());
        let id = special_id(text, files, named.or(stated));
        if let Some(id) = id.filter(|id| rows.is_none_or(|rows| *id < rows)) {
            out.set(&format!("tokenizer.ggml.{key}"), Value::U32(id));
        }
    }
    for special in exceptions.all("special") {
        let [key, text] = special else { continue };
        let key = format!("tokenizer.ggml.{key}");
        let token = files.added.iter().find(|(_, (other, _))| other == text);
        if let (None, Some((id, _))) = (out.get(&key), token) {
            out.set(&key, Value::U32(*id));
        }
    }
    let named = texts.get("eos").and_then(|text| id_in_config(text, files));
    ends::further(store, config.as_deref(), named, out)?;
    normalizer_keys(files, out);
    Ok(())
}

/// Whether llama.cpp adds a token to texts without a key that says so.
fn assumed(name: &str, out: &KeyValues) -> bool {
    let is = |key: &str, names: &[&str]| {
        let value = out.get(&format!("tokenizer.ggml.{key}"));
        let text = value.as_ref().and_then(|value| value.to_text()?.to_str());
        text.is_some_and(|text| names.contains(&text))
    };
    match name {
        "bos" => is("model", &["llama", "bert"]) || is("pre", &["llama-bpe", "tekken"]),
        _ => is("model", &["t5"]),
    }
}

/// The number of a special token: that of its text among the added tokens of `tokenizer.json`, `number`, or that of its text
/// in the configuration of the tokenizer, in the order of the converter. It takes the number in `config.json` also where the
/// vocabulary has another one, but configs of 2023 state 0 and 1 for tokens 1 and 2.
fn special_id(text: Option<&String>, files: &TokenizerFiles, number: Option<u32>) -> Option<u32> {
    let in_vocabulary = |text: &String| {
        let list = files.json_value(&["added_tokens"])?.as_array()?.iter();
        let mut same =
            list.filter(|token| token.get("content").and_then(Json::as_str) == Some(text.as_str()));
        u32::try_from(same.next()?.get("id")?.as_u64()?).ok()
    };
    text.and_then(in_vocabulary).or(number).or_else(|| id_in_config(text?, files))
}

/// The number of a special token in `config.json`.
fn number_in_config(name: &str, config: Option<&Json>) -> Option<u32> {
    let key = format!("{name}_token_id");
    let config = config?;
    let inner = config.get("text_config").and_then(|inner| inner.get(&key));
    let id = config.get(&key).filter(|id| !id.is_null()).or(inner)?;
    u32::try_from(id.as_u64()?).ok()
}

/// The number of a token of the written table.
fn id_in_table(text: &str, out: &KeyValues) -> Option<u32> {
    let Value::Array(table) = out.get("tokenizer.ggml.tokens")? else { return None };
    let place = table.texts()?.position(|token| *token.as_bytes() == *text.as_bytes());
    u32::try_from(place?).ok()
}

/// The number of an added token.
fn id_in_config(text: &str, files: &TokenizerFiles) -> Option<u32> {
    let same = files.added.iter().filter(|(_, (other, _))| other == text);
    same.map(|(id, _)| *id).min()
}

/// Whether text is converted to lower case, and stripped of accents.
fn normalizer_keys(files: &TokenizerFiles, out: &mut KeyValues) {
    for step in files.steps("normalizer", "normalizers") {
        let is = |key: &str| step.get(key).and_then(Json::as_bool);
        let (lower, bare) = match step_kind(step) {
            "Lowercase" => (Some(true), None),
            "StripAccents" => (None, Some(true)),
            "BertNormalizer" => (is("lowercase"), is("strip_accents")),
            _ => (None, None),
        };
        for (key, flag) in [("lowercase", lower), ("strip_accents", bare)] {
            if let Some(flag) = flag {
                out.set(&format!("tokenizer.ggml.normalizer.{key}"), Value::Bool(flag));
            }
        }
    }
}

/// The keys of BERT's tokenizer without a `tokenizer.json`, which states them for others: texts are
/// `[CLS] text [SEP]`, in lower case unless the configuration says otherwise.
fn word_keys(tokenizer: &Tokenizer<'_>, files: &TokenizerFiles, out: &mut KeyValues) {
    for (name, key) in SPECIAL {
        let key = format!("tokenizer.ggml.{key}");
        let purpose = match name {
            "bos" => "cls",
            "eos" => "sep",
            other => other,
        };
        if let (None, Some(id)) = (out.get(&key), tokenizer.special(purpose)) {
            out.set(&key, Value::U32(id));
        }
    }
    for (key, flag) in [("add_bos_token", true), ("add_eos_token", true), ("add_sep_token", false)]
    {
        out.set(&format!("tokenizer.ggml.{key}"), Value::Bool(flag));
    }
    let said = |key: &str| files.config.get(key).and_then(Json::as_bool);
    let lowers = said("do_lower_case").unwrap_or(true);
    out.set("tokenizer.ggml.normalizer.lowercase", Value::Bool(lowers));
    if let Some(strips) = said("strip_accents") {
        out.set("tokenizer.ggml.normalizer.strip_accents", Value::Bool(strips));
    }
}

/// Chat templates; the unnamed one has the plain key.
fn templates(store: &Store, out: &mut KeyValues) -> Result<()> {
    let Some(tokenizer) = Tokenizer::of(store)? else { return Ok(()) };
    let plain = |name: &str| {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        name.chars().map(letter).collect::<String>()
    };
    let named = tokenizer.chat_templates.iter().filter_map(|template| template.name.as_deref());
    let names: Vec<String> = named.map(plain).collect();
    for template in &tokenizer.chat_templates {
        if let Some(name) = &template.name {
            out.set_text(&format!("tokenizer.chat_template.{}", plain(name)), &template.text.value);
        }
    }
    if !names.is_empty() {
        out.set_array("tokenizer.chat_templates", names.iter().map(String::as_str));
    }
    let unnamed = tokenizer.chat_templates.iter().find(|template| template.name.is_none());
    if let Some(template) = unnamed {
        out.set_text("tokenizer.chat_template", &template.text.value);
    }
    Ok(())
}
