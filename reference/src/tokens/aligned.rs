//! Text that steps change, and where in the original text each of its bytes comes from.

use std::borrow::Cow;
use std::ops::Range;

/// A text on its way to the tokens.
#[derive(Clone, Debug)]
pub(super) struct Aligned<'t> {
    text: Cow<'t, str>,
    origins: Origins,
    /// Whether the text starts where the whole text does.
    pub(super) is_first: bool,
}

/// The ranges of the original text that the bytes of a text come from.
#[derive(Clone, Debug)]
enum Origins {
    /// The caller needs no offsets.
    Unknown,
    /// The text is the original's from this offset on.
    Same(usize),
    Each(Vec<Range<usize>>),
}

impl<'t> Aligned<'t> {
    /// A range of the original text.
    pub(super) fn new(text: &'t str, range: Range<usize>, has_offsets: bool) -> Self {
        let origins = if has_offsets { Origins::Same(range.start) } else { Origins::Unknown };
        let is_first = range.start == 0;
        Self { text: Cow::Borrowed(text.get(range).unwrap_or_default()), origins, is_first }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A part of the text.
    pub(super) fn part(&self, range: Range<usize>) -> Aligned<'_> {
        let origins = match &self.origins {
            Origins::Unknown => Origins::Unknown,
            Origins::Same(base) => Origins::Same(base + range.start),
            Origins::Each(each) => {
                Origins::Each(each.get(range.clone()).unwrap_or_default().to_vec())
            }
        };
        let is_first = self.is_first && range.start == 0;
        Aligned { text: Cow::Borrowed(self.text.get(range).unwrap_or_default()), origins, is_first }
    }

    /// The range of the original text that a range of this text comes from.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        self.origins.of(range)
    }

    /// Changes the text.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Editor<'_>)) {
        let has_offsets = !matches!(self.origins, Origins::Unknown);
        let mut editor = Editor {
            old: &self.text,
            from: &self.origins,
            text: String::with_capacity(self.text.len()),
            origins: has_offsets.then(Vec::new),
            at: 0,
        };
        edit(&mut editor);
        editor.keep(self.text.len());
        let Editor { text, origins, .. } = editor;
        (self.text, self.origins) =
            (Cow::Owned(text), origins.map_or(Origins::Unknown, Origins::Each));
    }

    /// Replaces each character for which `change` returns a text.
    pub(super) fn edit_characters<'c>(&mut self, change: impl Fn(char) -> Option<Cow<'c, str>>) {
        self.edit(|editor| editor.characters(editor.old.len(), &change));
    }

    /// Replaces characters within pieces of the text.
    pub(super) fn edit_pieces<'c>(
        &mut self,
        pieces: &mut [Range<usize>],
        change: impl Fn(char) -> Option<Cow<'c, str>>,
    ) {
        self.edit(|editor| {
            for piece in pieces {
                editor.keep(piece.start);
                let start = editor.len();
                editor.characters(piece.end, &change);
                *piece = start..editor.len();
            }
        });
    }
}

impl Origins {
    fn of(&self, range: Range<usize>) -> Range<usize> {
        match self {
            Self::Unknown => 0..0,
            Self::Same(base) => base + range.start..base + range.end,
            Self::Each(each) => {
                let end = each.last().map_or(0, |last| last.end);
                let start = each.get(range.start).map_or(end, |origin| origin.start);
                let last = range.end.checked_sub(1).filter(|last| *last >= range.start);
                let end = last.and_then(|last| each.get(last)).map_or(start, |origin| origin.end);
                start..end.max(start)
            }
        }
    }
}

/// Builds a text from another, from its start to its end.
#[derive(Debug)]
pub(super) struct Editor<'e> {
    /// The text before the change.
    pub(super) old: &'e str,
    from: &'e Origins,
    text: String,
    origins: Option<Vec<Range<usize>>>,
    /// The length of the old text that is done.
    at: usize,
}

impl Editor<'_> {
    /// Copies the old text up to an offset, with some characters replaced.
    fn characters<'c>(&mut self, end: usize, change: &impl Fn(char) -> Option<Cow<'c, str>>) {
        let first = self.at;
        for (place, character) in self.old.get(first..end).unwrap_or_default().char_indices() {
            if let Some(with) = change(character) {
                self.keep(first + place);
                self.replace(first + place + character.len_utf8(), &with);
            }
        }
        self.keep(end);
    }

    /// Copies the old text up to an offset.
    pub(super) fn keep(&mut self, end: usize) {
        let Some(kept) = self.old.get(self.at..end).filter(|kept| !kept.is_empty()) else { return };
        self.text.push_str(kept);
        if let Some(origins) = &mut self.origins {
            origins.extend((self.at..end).map(|byte| self.from.of(byte..byte + 1)));
        }
        self.at = end;
    }

    /// Puts a text in the place of the old text up to an offset.
    pub(super) fn replace(&mut self, end: usize, with: &str) {
        self.text.push_str(with);
        if let Some(origins) = &mut self.origins {
            let origin = self.from.of(self.at..end);
            origins.extend(with.bytes().map(|_| origin.clone()));
        }
        self.at = end;
    }

    /// The length of the new text so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Puts a text before what comes next.
    pub(super) fn insert(&mut self, text: &str) {
        self.replace(self.at, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_from_where_they_came_from() {
        let mut aligned = Aligned::new("xx a b", 3..6, true);
        assert!(!aligned.is_first);
        aligned.edit_characters(|c| (c == ' ').then_some(Cow::Borrowed("▁")));
        aligned.edit(|editor| editor.insert("▁"));
        assert_eq!(aligned.text(), "▁a▁b");
        assert_eq!(aligned.origin(0..3), 3..3);
        assert_eq!(aligned.origin(0..4), 3..4);
        assert_eq!(aligned.origin(4..8), 4..6);
        assert_eq!(aligned.part(4..8).origin(3..4), 5..6);
        aligned.edit(|editor| {
            editor.keep(3);
            editor.replace(7, "");
        });
        assert_eq!((aligned.text(), aligned.origin(3..4)), ("▁b", 5..6));
    }

    #[test]
    fn without_offsets_only_the_text_is_built() {
        let mut aligned = Aligned::new("ab", 0..2, false);
        aligned.edit_characters(|c| (c == 'a').then_some(Cow::Borrowed("cc")));
        assert_eq!((aligned.text(), aligned.origin(0..3)), ("ccb", 0..0));
    }
}
