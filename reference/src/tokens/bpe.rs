//! Pairs of tokens merged in the order of a list.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use foldhash::fast::RandomState;
use weighbridge::json::Json;
use weighbridge::tokenizer::{MergedPair, TokenizerTables, VocabularyTable};

use super::document::{text, unsupported};
use super::found::{Found, byte_tokens};
use crate::error::{Error, Result};

/// Pieces of this many tokens are merged by looking at all their pairs, longer ones with a heap.
const FEW: usize = 32;

/// A vocabulary and its merges.
#[derive(Debug)]
pub(super) struct Bpe {
    vocabulary: VocabularyTable,
    /// The position in the list, and the token that the pair becomes.
    merges: HashMap<(u32, u32), (u32, u32), RandomState>,
    borders: Borders,
    /// Tokens of bytes, if texts are cut into bytes and not into characters.
    letters: Option<Vec<Option<u32>>>,
    /// Whether a piece that is a token as a whole needs no merges.
    whole: bool,
    /// Tokens for the bytes of characters that have none.
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    /// Whether unknown characters that follow each other are one token.
    fused: bool,
    /// The prefix of tokens within a word, and the suffix of the last one.
    affixes: Option<(String, String)>,
}

/// A token of a piece while it is merged: its number and range, and its neighbors.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    token: u32,
    start: usize,
    end: usize,
    before: Option<usize>,
    after: Option<usize>,
    is_alive: bool,
}

impl Symbol {
    fn new(token: u32, start: usize, end: usize) -> Self {
        Self { token, start, end, before: None, after: None, is_alive: true }
    }
}

impl Bpe {
    /// `has_bytes` says whether texts are cut into bytes, which GPT-2's letters stand for.
    pub(super) fn new(tables: TokenizerTables, has_bytes: bool) -> Result<Self> {
        let TokenizerTables { settings, vocabulary, merges, .. } = tables;
        let json = settings.get("model").unwrap_or(&Json::Null);
        if json.get("type").and_then(Json::as_str).is_some_and(|name| name != "BPE") {
            return Err(unsupported("model", json));
        }
        let flag = |key: &str| json.get(key).and_then(Json::as_bool).unwrap_or(false);
        let affix = |key: &str| text(json, key).filter(|text| !text.is_empty());
        let affixes = (affix("continuing_subword_prefix"), affix("end_of_word_suffix"));
        let affixes = match affixes {
            (None, None) => None,
            (prefix, suffix) => Some((prefix.unwrap_or_default(), suffix.unwrap_or_default())),
        };
        let unknown = text(json, "unk_token").and_then(|text| vocabulary.id(text.as_bytes()));
        let bytes = flag("byte_fallback").then(|| byte_tokens(&vocabulary)).flatten();
        let has_bytes = has_bytes && affixes.is_none();
        let is_cut = !has_bytes && affixes.is_none();
        let borders = if is_cut {
            Borders::new(&vocabulary, &merges, bytes.as_deref())
        } else {
            Borders::default()
        };
        let mut ranked = HashMap::with_capacity_and_hasher(merges.len(), RandomState::default());
        for (rank, merge) in (0u32..).zip(merges) {
            ranked.entry((merge.first, merge.second)).or_insert((rank, merge.whole));
        }
        let mut this = Self {
            merges: ranked,
            borders,
            letters: None,
            whole: flag("ignore_merges"),
            bytes,
            unknown,
            fused: flag("fuse_unk"),
            affixes,
            vocabulary,
        };
        if has_bytes {
            this.spell_bytes()?;
        }
        Ok(this)
    }

    /// Replaces the letters of the vocabulary by the bytes that they stand for. Tokens with other
    /// characters cannot occur in a text.
    fn spell_bytes(&mut self) -> Result<()> {
        let letters: HashMap<char, u8> = weighbridge::tokenizer::byte_letters().collect();
        let spelled = self.vocabulary.iter().filter_map(|(id, text, score)| {
            let text = std::str::from_utf8(text).ok()?;
            let bytes: Option<Vec<u8>> = text.chars().map(|c| letters.get(&c).copied()).collect();
            Some((id, bytes?.into(), score))
        });
        self.vocabulary = VocabularyTable::new(spelled)?;
        let token = |byte: u8| self.vocabulary.id(&[byte]);
        self.letters = Some((0..=255).map(token).collect());
        Ok(())
    }

    /// Appends the tokens of a piece of a text.
    pub(super) fn tokens(
        &self,
        text: &str,
        range: Range<usize>,
        out: &mut Vec<Found>,
    ) -> Result<()> {
        let piece = text.get(range.clone()).unwrap_or_default();
        if self.whole
            && let Some(id) = self.vocabulary.id(piece.as_bytes())
        {
            out.push(Found { id, range });
            return Ok(());
        }
        let mut symbols = Vec::new();
        if let Some(letters) = &self.letters {
            for (place, byte) in piece.bytes().enumerate() {
                let token = letters.get(usize::from(byte)).copied().flatten().or(self.unknown);
                let token = token.ok_or_else(|| no_token(format!("the byte 0x{byte:02X}")))?;
                let start = range.start + place;
                symbols.push(Symbol::new(token, start, start + 1));
            }
            self.merge(&mut symbols, out);
            return Ok(());
        }
        let mut buffer = [0; 4];
        let mut last: Option<char> = None;
        let mut unknown_before = false;
        for (place, character) in piece.char_indices() {
            let (start, end) = (range.start + place, range.start + place + character.len_utf8());
            if last.is_some_and(|last| !self.borders.may_merge(last, character)) {
                self.merge(&mut symbols, out);
            }
            let letter: &str = character.encode_utf8(&mut buffer);
            let found = match &self.affixes {
                None => self.vocabulary.id(letter.as_bytes()),
                Some((prefix, suffix)) => {
                    let prefix = if last.is_some() { prefix.as_str() } else { "" };
                    let suffix = if end == range.end { suffix.as_str() } else { "" };
                    self.vocabulary.id(format!("{prefix}{letter}{suffix}").as_bytes())
                }
            };
            last = Some(character);
            match (found, &self.bytes, self.unknown) {
                (Some(token), ..) => symbols.push(Symbol::new(token, start, end)),
                (None, Some(bytes), _) => {
                    for (byte, place) in letter.bytes().zip(start..) {
                        if let Some(token) = bytes.get(usize::from(byte)) {
                            symbols.push(Symbol::new(*token, place, place + 1));
                        }
                    }
                }
                (None, None, Some(token)) => {
                    if !(self.fused && unknown_before) {
                        symbols.push(Symbol::new(token, start, end));
                    } else if let Some(fused) = symbols.last_mut() {
                        fused.end = end;
                    } else if let Some(fused) = out.last_mut() {
                        fused.range.end = end;
                    }
                }
                (None, None, None) => {
                    return Err(no_token(format!("U+{:04X}", u32::from(character))));
                }
            }
            unknown_before = found.is_none() && self.bytes.is_none();
        }
        self.merge(&mut symbols, out);
        Ok(())
    }

    /// Merges pairs, the first of the list first, and of equal ones the leftmost. Appends the tokens
    /// that are left, and clears the symbols.
    fn merge(&self, symbols: &mut Vec<Symbol>, out: &mut Vec<Found>) {
        match symbols.len() {
            0 | 1 => {}
            2..=FEW => self.merge_few(symbols),
            _ => self.merge_many(symbols),
        }
        let left = symbols.drain(..).filter(|symbol| symbol.is_alive);
        out.extend(left.map(|symbol| Found { id: symbol.token, range: symbol.start..symbol.end }));
    }

    fn merge_few(&self, symbols: &mut Vec<Symbol>) {
        const NONE: (u32, u32) = (u32::MAX, 0);
        let rank = |first: &Symbol, second: &Symbol| {
            self.merges.get(&(first.token, second.token)).copied().unwrap_or(NONE)
        };
        // The merge of each symbol with the next.
        let mut ranks = [NONE; FEW];
        for (slot, pair) in ranks.iter_mut().zip(symbols.windows(2)) {
            if let [first, second] = pair {
                *slot = rank(first, second);
            }
        }
        loop {
            let pairs = symbols.len().saturating_sub(1);
            let ranked = ranks.iter().take(pairs).enumerate();
            let Some((place, (best, whole))) = ranked.min_by_key(|(_, (rank, _))| *rank) else {
                return;
            };
            if *best == u32::MAX {
                return;
            }
            let (whole, gone) = (*whole, symbols.remove(place + 1));
            if let Some(symbol) = symbols.get_mut(place) {
                (symbol.token, symbol.end) = (whole, gone.end);
            }
            ranks.copy_within(place + 1.., place);
            for place in [place.checked_sub(1), Some(place)].into_iter().flatten() {
                let pair = (symbols.get(place), symbols.get(place + 1));
                if let (Some(slot), (Some(first), second)) = (ranks.get_mut(place), pair) {
                    *slot = second.map_or(NONE, |second| rank(first, second));
                }
            }
        }
    }

    fn merge_many(&self, symbols: &mut [Symbol]) {
        let last = symbols.len().saturating_sub(1);
        for (place, symbol) in symbols.iter_mut().enumerate() {
            symbol.before = place.checked_sub(1);
            symbol.after = (place < last).then_some(place + 1);
        }
        let pair = |symbols: &[Symbol], place: usize| {
            let first = symbols.get(place).filter(|symbol| symbol.is_alive)?;
            let second = symbols.get(first.after?)?;
            let (rank, whole) = *self.merges.get(&(first.token, second.token))?;
            Some(Reverse((rank, place, whole)))
        };
        let mut open: BinaryHeap<_> =
            (0..symbols.len()).filter_map(|place| pair(symbols, place)).collect();
        while let Some(found) = open.pop() {
            let Reverse((_, place, whole)) = found;
            // A merge in between makes another pair, or none.
            if pair(symbols, place) != Some(found) {
                continue;
            }
            let second = symbols.get(place).and_then(|symbol| symbol.after);
            let Some(gone) = second.and_then(|second| symbols.get_mut(second)) else { continue };
            gone.is_alive = false;
            let (after, end) = (gone.after, gone.end);
            if let Some(symbol) = symbols.get_mut(place) {
                (symbol.token, symbol.after, symbol.end) = (whole, after, end);
            }
            if let Some(next) = after.and_then(|after| symbols.get_mut(after)) {
                next.before = Some(place);
            }
            let before = symbols.get(place).and_then(|symbol| symbol.before);
            open.extend(before.into_iter().chain([place]).filter_map(|place| pair(symbols, place)));
        }
    }
}

fn no_token(what: String) -> Error {
    Error::Input(format!("no token stands for {what}"))
}

/// The pairs of characters that are neighbors in a token that results from merges. Merges never cross
/// other pairs, so a text can be cut there, and its parts merged by themselves. A pair may wrongly be in
/// the set, which only makes a part longer.
#[derive(Debug, Default)]
struct Borders {
    /// A bit for each hash of a pair; empty if there may be merges everywhere.
    bits: Vec<u64>,
}

impl Borders {
    /// The number of bits, as a power of two.
    const SIZE: u32 = 21;

    fn new(vocabulary: &VocabularyTable, merges: &[MergedPair], bytes: Option<&[u32]>) -> Self {
        let mut bytes = bytes.unwrap_or_default().to_vec();
        bytes.sort_unstable();
        let is_byte = |id: u32| bytes.binary_search(&id).is_ok();
        let mut bits = vec![0; 1 << (Self::SIZE - 6)];
        let mut last = None;
        for merge in merges {
            // The characters of such a token are not those of the text.
            if is_byte(merge.first) || is_byte(merge.second) {
                return Self::default();
            }
            // Several merges lead to the same token.
            if last.replace(merge.whole) == Some(merge.whole) {
                continue;
            }
            let text = vocabulary.text(merge.whole).map(std::str::from_utf8);
            let Some(Ok(text)) = text else { return Self::default() };
            for (first, second) in text.chars().zip(text.chars().skip(1)) {
                let (word, bit) = Self::place(first, second);
                if let Some(word) = bits.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        Self { bits }
    }

    fn place(first: char, second: char) -> (usize, u64) {
        let pair = u64::from(u32::from(first)) << 32 | u64::from(u32::from(second));
        let hash = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::SIZE);
        let word = usize::try_from(hash >> 6).unwrap_or(usize::MAX);
        (word, 1 << (hash & 63))
    }

    fn may_merge(&self, first: char, second: char) -> bool {
        let (word, bit) = Self::place(first, second);
        self.bits.get(word).is_none_or(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use weighbridge::Limits;
    use weighbridge::json::json;

    use super::*;

    fn bpe(more: &[(&str, Json)]) -> Bpe {
        let mut model = json!({
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "?": 6, "aa": 7},
            "merges": ["b c", ["a", "b"], "a bc", "a a"],
        });
        more.iter().for_each(|(key, value)| model[*key] = value.clone());
        let document = json!({"model": model}).to_string();
        let tables = TokenizerTables::parse(document.as_bytes(), &Limits::default());
        Bpe::new(tables.expect("tables"), false).expect("a tokenizer")
    }

    fn tokens(bpe: &Bpe, piece: &str) -> Vec<u32> {
        let mut out = Vec::new();
        bpe.tokens(piece, 0..piece.len(), &mut out).expect("tokens");
        let joined: String = out.iter().map(|found| &piece[found.range.clone()]).collect();
        assert_eq!(joined, piece);
        out.iter().map(|found| found.id).collect()
    }

    #[test]
    fn the_first_merge_of_the_list_is_made_first() {
        let bpe = bpe(&[]);
        assert_eq!(tokens(&bpe, "abc"), [5]);
        assert_eq!(tokens(&bpe, "ab"), [3]);
        assert_eq!(tokens(&bpe, "aaa"), [7, 0]);
        assert_eq!(tokens(&bpe, "abcab"), [5, 3]);
        assert!(bpe.tokens("x", 0..1, &mut Vec::new()).is_err());
    }

    #[test]
    fn unknown_characters_have_a_token() {
        assert_eq!(tokens(&bpe(&[("unk_token", "?".into())]), "axy"), [0, 6, 6]);
        let fused = bpe(&[("unk_token", "?".into()), ("fuse_unk", true.into())]);
        assert_eq!(tokens(&fused, "axyb"), [0, 6, 1]);
        assert_eq!(tokens(&fused, "xyzx"), [6]);
    }

    /// Long pieces are merged by a heap, and cut where no merge can be; the tokens are the same.
    #[test]
    fn long_pieces_have_the_tokens_of_short_ones() {
        let mut bpe = bpe(&[("unk_token", "?".into())]);
        assert!(!bpe.borders.may_merge('c', 'b') && bpe.borders.may_merge('b', 'c'));
        let mut number = 1u64;
        for length in 1..=FEW {
            let piece: String = (0..length)
                .map(|_| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b'a' + u8::try_from((number >> 33) % 3).expect("a digit"))
                })
                .collect();
            let cut = tokens(&bpe, &piece);
            let borders = std::mem::take(&mut bpe.borders);
            let mut symbols = Vec::new();
            for (start, letter) in piece.char_indices() {
                let token = bpe.vocabulary.id(letter.to_string().as_bytes()).expect("a letter");
                symbols.push(Symbol::new(token, start, start + 1));
            }
            let mut few = symbols.clone();
            bpe.merge_few(&mut few);
            bpe.merge_many(&mut symbols);
            let ids = |symbols: &[Symbol]| -> Vec<u32> {
                symbols.iter().filter(|symbol| symbol.is_alive).map(|symbol| symbol.token).collect()
            };
            assert_eq!((ids(&few), ids(&symbols)), (cut.clone(), cut), "{piece}");
            bpe.borders = borders;
        }
    }

    /// As CLIP's: the last token of a word has an ending.
    #[test]
    fn words_end_with_a_suffix() {
        let document = json!({"model": {"type": "BPE", "end_of_word_suffix": "</w>",
            "vocab": {"a": 0, "b": 1, "b</w>": 2, "ab</w>": 3, "a</w>": 4}, "merges": ["a b</w>"]}});
        let tables = TokenizerTables::parse(document.to_string().as_bytes(), &Limits::default());
        let bpe = Bpe::new(tables.expect("tables"), false).expect("a tokenizer");
        assert_eq!(tokens(&bpe, "ab"), [3]);
        assert_eq!(tokens(&bpe, "aba"), [0, 1, 4]);
    }
}
