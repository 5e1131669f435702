//! Sets of characters, by Unicode's classes.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// A set of characters, as sorted ranges.
#[derive(Clone, Debug)]
pub(super) struct CharacterClass {
    ranges: Vec<(char, char)>,
    ascii: [bool; 128],
}

/// Punctuation of Unicode, and ASCII's other symbols.
pub(super) static PUNCTUATION: LazyLock<CharacterClass> =
    LazyLock::new(|| CharacterClass::new(r"[\p{P}\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e]"));

/// Marks above, below and within other characters.
pub(super) static NONSPACING_MARKS: LazyLock<CharacterClass> =
    LazyLock::new(|| CharacterClass::new(r"\p{Mn}"));

/// These and other marks, such as vowel signs.
pub(super) static MARKS: LazyLock<CharacterClass> = LazyLock::new(|| CharacterClass::new(r"\p{M}"));

/// Control characters, invisible formats, and characters for private use.
pub(super) static OTHERS: LazyLock<CharacterClass> =
    LazyLock::new(|| CharacterClass::new(r"[\p{Cc}\p{Cf}\p{Co}]"));

/// Characters of words.
pub(super) static WORD: LazyLock<CharacterClass> = LazyLock::new(|| CharacterClass::new(r"\w"));

impl CharacterClass {
    /// The characters that a class of a regular expression matches; none for another pattern.
    fn new(pattern: &str) -> Self {
        let parsed = regex_syntax::Parser::new().parse(pattern).ok();
        let ranges = match parsed.as_ref().map(regex_syntax::hir::Hir::kind) {
            Some(HirKind::Class(Class::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            _ => Vec::new(),
        };
        let mut this = Self { ranges, ascii: [false; 128] };
        let ascii = (0..128u8).map(|code| this.searched(char::from(code)));
        let ascii: Vec<bool> = ascii.collect();
        this.ascii.copy_from_slice(&ascii);
        this
    }

    pub(super) fn contains(&self, character: char) -> bool {
        let code = usize::try_from(u32::from(character)).unwrap_or(usize::MAX);
        self.ascii.get(code).copied().unwrap_or_else(|| self.searched(character))
    }

    fn searched(&self, character: char) -> bool {
        let place = self.ranges.partition_point(|(_, last)| *last < character);
        self.ranges.get(place).is_some_and(|(first, _)| *first <= character)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_unicode() {
        assert!(NONSPACING_MARKS.contains('\u{301}') && NONSPACING_MARKS.contains('\u{94d}'));
        assert!(!NONSPACING_MARKS.contains('\u{93e}') && !NONSPACING_MARKS.contains('\u{20dd}'));
        assert!(
            OTHERS.contains('\u{e000}') && OTHERS.contains('\u{ad}') && OTHERS.contains('\u{7}')
        );
        assert!(!OTHERS.contains('a') && !OTHERS.contains('\u{fffd}'));
        assert!(
            PUNCTUATION.contains('$') && PUNCTUATION.contains('。') && !PUNCTUATION.contains('é')
        );
        assert!(WORD.contains('_') && !WORD.contains(' '));
    }
}
