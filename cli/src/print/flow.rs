//! Text that arrives in pieces, wrapped at words.

use unicode_width::UnicodeWidthChar;

use super::screen::width;

/// Wraps a text at words as it arrives. A word is held until its end has come.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// The columns of the terminal; `None` leaves the text as it is.
    columns: Option<usize>,
    /// The columns that are used in the current line.
    used: usize,
    /// Spaces after the last word.
    gap: usize,
    word: String,
}

impl Flow {
    pub(crate) fn new(columns: Option<usize>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a piece, and returns what can be shown.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let Some(columns) = self.columns else { return piece.to_owned() };
        let mut shown = String::new();
        for character in piece.chars() {
            match character {
                '\n' => {
                    shown += &self.flush();
                    shown.push('\n');
                    (self.used, self.gap) = (0, 0);
                }
                ' ' => {
                    shown += &self.flush();
                    self.gap += 1;
                }
                _ => {
                    // Scripts with wide characters have no spaces: a line may end after each.
                    let is_wide = character.width() == Some(2);
                    if is_wide || width(&self.word) >= columns {
                        shown += &self.flush();
                    }
                    self.word.push(character);
                    if is_wide {
                        shown += &self.flush();
                    }
                }
            }
        }
        shown
    }

    /// Returns the word that is held, in a new line if it does not fit.
    pub(crate) fn flush(&mut self) -> String {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return word;
        }
        let gap = std::mem::take(&mut self.gap);
        let (length, columns) = (width(&word), self.columns.unwrap_or(usize::MAX));
        if self.used > 0 && self.used.saturating_add(gap).saturating_add(length) > columns {
            self.used = length;
            return format!("\n{word}");
        }
        self.used = self.used.saturating_add(gap).saturating_add(length);
        format!("{:gap$}{word}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_wrap_at_words() {
        let wrapped = |columns, pieces: &[&str]| {
            let mut flow = Flow::new(columns);
            let shown: String = pieces.iter().map(|piece| flow.push(piece)).collect();
            shown + &flow.flush()
        };
        let rows: [(Option<usize>, &[&str], &str); 7] = [
            (None, &["Once up", "on a time"], "Once upon a time"),
            (Some(9), &["Once up", "on a time"], "Once upon\na time"),
            (Some(8), &["Once up", "on a time"], "Once\nupon a\ntime"),
            // The text's own lines and indents stay.
            (Some(8), &["a\n\n  b c", " d"], "a\n\n  b c d"),
            // A word that is wider than the terminal is cut by it.
            (Some(4), &["a incred", "ible b"], "a\nincr\nedib\nle b"),
            (Some(5), &["模型模型"], "模型\n模型"),
            (Some(6), &["a", " b", " ", "c"], "a b c"),
        ];
        for (columns, pieces, expected) in rows {
            assert_eq!(wrapped(columns, pieces), expected, "{pieces:?}");
        }
    }
}
