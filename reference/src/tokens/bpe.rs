//! Pairs of tokens merged in the order of a list.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weighbridge::json::Json;

use super::document::{id, unsupported};
use crate::error::{Error, Result};

/// A vocabulary and its merges.
#[derive(Debug)]
pub(super) struct Bpe {
    ids: HashMap<String, u32>,
    /// For each pair its place in the order, and what it becomes.
    merges: HashMap<(u32, u32), (usize, u32)>,
    /// Whether a piece that is a token as a whole needs no merges.
    whole: bool,
    /// Tokens for bytes, for characters that have none.
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    /// Whether unknown characters that follow each other are one token.
    fused: bool,
}

/// A token of a piece while it is merged: the number, and those beside it.
#[derive(Clone, Copy)]
struct Symbol {
    token: u32,
    before: Option<usize>,
    behind: Option<usize>,
    alive: bool,
}

impl Bpe {
    pub(super) fn of(json: &Json) -> Result<Self> {
        let named = json.get("type").and_then(Json::as_str);
        let (Some(vocabulary), Some(list)) = (
            json.get("vocab").and_then(Json::as_object),
            json.get("merges").and_then(Json::as_array),
        ) else {
            return Err(unsupported("model", json));
        };
        let affixes = ["continuing_subword_prefix", "end_of_word_suffix"];
        let affix =
            |key: &&str| json.get(key).and_then(Json::as_str).is_some_and(|s| !s.is_empty());
        if named.is_some_and(|name| name != "BPE") || affixes.iter().any(affix) {
            return Err(unsupported("model", json));
        }
        let ids = vocabulary.iter().filter_map(|(text, token)| Some((text.clone(), id(token)?)));
        let ids: HashMap<String, u32> = ids.collect();
        let mut merges = HashMap::new();
        for (rank, merge) in list.iter().enumerate() {
            let pair = match merge {
                Json::String(text) => text.split_once(' '),
                Json::Array(pair) => match pair.as_slice() {
                    [Json::String(first), Json::String(second)] => {
                        Some((first.as_str(), second.as_str()))
                    }
                    _ => None,
                },
                _ => None,
            };
            let known = pair.and_then(|(first, second)| {
                let whole = *ids.get(&format!("{first}{second}"))?;
                Some(((*ids.get(first)?, *ids.get(second)?), (rank, whole)))
            });
            let (pair, made) = known.ok_or_else(|| {
                Error::Mismatch(format!("tokenizer.json: merge {rank} is of no tokens: {merge}"))
            })?;
            merges.entry(pair).or_insert(made);
        }
        let flag = |key: &str| json.get(key).and_then(Json::as_bool).unwrap_or(false);
        let byte = |byte: u8| ids.get(&format!("<0x{byte:02X}>")).copied();
        let bytes = flag("byte_fallback").then(|| (0..=255).map(byte).collect::<Option<Vec<_>>>());
        let unknown = json.get("unk_token").and_then(Json::as_str);
        Ok(Self {
            unknown: unknown.and_then(|text| ids.get(text).copied()),
            bytes: bytes.flatten(),
            whole: flag("ignore_merges"),
            fused: flag("fuse_unk"),
            ids,
            merges,
        })
    }

    /// Appends the tokens of a piece.
    pub(super) fn tokens(&self, piece: &str, out: &mut Vec<u32>) -> Result<()> {
        if let Some(token) = self.ids.get(piece).filter(|_| self.whole) {
            out.push(*token);
            return Ok(());
        }
        let characters = self.characters(piece)?;
        out.extend(self.merged(&characters));
        Ok(())
    }

    /// A token for each character.
    fn characters(&self, piece: &str) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        let mut letter = [0; 4];
        let mut unknown_before = false;
        for character in piece.chars() {
            let text: &str = character.encode_utf8(&mut letter);
            if let Some(token) = self.ids.get(text) {
                out.push(*token);
                unknown_before = false;
            } else if let Some(bytes) = &self.bytes {
                out.extend(text.bytes().filter_map(|byte| bytes.get(usize::from(byte))));
                unknown_before = false;
            } else if let Some(unknown) = self.unknown {
                if !(self.fused && unknown_before) {
                    out.push(unknown);
                }
                unknown_before = true;
            } else {
                let code = u32::from(character);
                return Err(Error::Input(format!("no token stands for U+{code:04X}")));
            }
        }
        Ok(out)
    }

    /// Merges pairs, the first of the list first, and of equal ones the leftmost.
    fn merged(&self, tokens: &[u32]) -> Vec<u32> {
        let last = tokens.len().saturating_sub(1);
        let symbol = |(place, token): (usize, &u32)| Symbol {
            token: *token,
            before: place.checked_sub(1),
            behind: (place < last).then_some(place + 1),
            alive: true,
        };
        let mut symbols: Vec<Symbol> = tokens.iter().enumerate().map(symbol).collect();
        let mut open = BinaryHeap::new();
        let pair = |symbols: &[Symbol], place: usize| {
            let first = symbols.get(place).filter(|symbol| symbol.alive)?;
            let second = symbols.get(first.behind?)?;
            let (rank, whole) = *self.merges.get(&(first.token, second.token))?;
            Some(Reverse((rank, place, whole)))
        };
        open.extend((0..symbols.len()).filter_map(|place| pair(&symbols, place)));
        while let Some(found) = open.pop() {
            // What was merged meanwhile makes another pair, or none.
            if pair(&symbols, found.0.1) != Some(found) {
                continue;
            }
            let Reverse((_, place, whole)) = found;
            let second = symbols.get(place).and_then(|symbol| symbol.behind);
            let Some(gone) = second.and_then(|second| symbols.get_mut(second)) else { continue };
            gone.alive = false;
            let behind = gone.behind;
            if let Some(symbol) = symbols.get_mut(place) {
                (symbol.token, symbol.behind) = (whole, behind);
            }
            if let Some(next) = behind.and_then(|behind| symbols.get_mut(behind)) {
                next.before = Some(place);
            }
            let before = symbols.get(place).and_then(|symbol| symbol.before);
            open.extend(
                before.into_iter().chain([place]).filter_map(|place| pair(&symbols, place)),
            );
        }
        symbols.iter().filter(|symbol| symbol.alive).map(|symbol| symbol.token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bpe(more: &[(&str, Json)]) -> Bpe {
        let mut json = weighbridge::json::json!({
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "?": 6, "aa": 7},
            "merges": ["b c", ["a", "b"], "a bc", "a a"],
        });
        more.iter().for_each(|(key, value)| json[*key] = value.clone());
        Bpe::of(&json).expect("a tokenizer")
    }

    fn tokens(bpe: &Bpe, piece: &str) -> Vec<u32> {
        let mut out = Vec::new();
        bpe.tokens(piece, &mut out).expect("tokens");
        out
    }

    #[test]
    fn the_first_merge_of_the_list_is_made_first() {
        let bpe = bpe(&[]);
        assert_eq!(tokens(&bpe, "abc"), [5]);
        assert_eq!(tokens(&bpe, "ab"), [3]);
        assert_eq!(tokens(&bpe, "aaa"), [7, 0]);
        assert_eq!(tokens(&bpe, "abcab"), [5, 3]);
        assert!(bpe.tokens("x", &mut Vec::new()).is_err());
    }

    #[test]
    fn unknown_characters_have_a_token() {
        assert_eq!(tokens(&bpe(&[("unk_token", "?".into())]), "axy"), [0, 6, 6]);
        let fused = bpe(&[("unk_token", "?".into()), ("fuse_unk", true.into())]);
        assert_eq!(tokens(&fused, "axyb"), [0, 6, 1]);
    }
}
