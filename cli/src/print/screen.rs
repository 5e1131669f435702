//! Output for people: on a terminal, prose is wrapped at words.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::OnceLock;

use anstream::AutoStream;
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

/// Whether tables keep their full width on a terminal: `--wide`.
static WIDE: OnceLock<bool> = OnceLock::new();

/// Sets whether tables keep their full width on a terminal.
pub(crate) fn set_wide(wide: bool) {
    // Set once, before anything is printed.
    let _ = WIDE.set(wide);
}

/// A stream for people. If it is a terminal, lines wider than it are wrapped at words; otherwise a
/// line is never divided.
pub(crate) struct Screen<W: Write> {
    out: W,
    width: Option<usize>,
    wide: bool,
    line: Vec<u8>,
}

/// The columns of standard output; `None` for a file or a pipe.
pub(crate) fn stdout_columns() -> Option<usize> {
    columns(terminal_size_of(io::stdout()), io::stdout().is_terminal())
}

/// Standard output, for reports.
pub(crate) fn stdout() -> Screen<BufWriter<AutoStream<io::StdoutLock<'static>>>> {
    let width = stdout_columns();
    let wide = WIDE.get().copied().unwrap_or(false);
    Screen::new(BufWriter::new(anstream::stdout().lock()), width, wide)
}

/// Standard output, for the help: without a terminal, it is as wide as `COLUMNS` says.
pub(crate) fn help() -> Screen<BufWriter<AutoStream<io::StdoutLock<'static>>>> {
    let width = stdout_columns().or_else(stated_columns);
    Screen::new(BufWriter::new(anstream::stdout().lock()), width, false)
}

/// Standard output for text that must not be wrapped.
pub(crate) fn verbatim() -> Screen<BufWriter<AutoStream<io::StdoutLock<'static>>>> {
    Screen::new(BufWriter::new(anstream::stdout().lock()), None, true)
}

/// The columns of standard error; `None` for a file or a pipe.
pub(crate) fn stderr_columns() -> Option<usize> {
    columns(terminal_size_of(io::stderr()), io::stderr().is_terminal())
}

/// Standard error, for messages.
pub(crate) fn stderr() -> Screen<AutoStream<io::StderrLock<'static>>> {
    Screen::new(anstream::stderr().lock(), stderr_columns(), false)
}

/// The columns of a terminal, or `None` for a file or a pipe. As for the help, `COLUMNS` counts only
/// if the terminal does not say how wide it is: it is often out of date.
fn columns(size: Option<(Width, Height)>, is_terminal: bool) -> Option<usize> {
    let told = size.map(|(width, _)| usize::from(width.0));
    told.or_else(stated_columns).filter(|columns| is_terminal && *columns > 0)
}

/// The columns that the environment states.
fn stated_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W, width: Option<usize>, wide: bool) -> Self {
        Self { out, width, wide, line: Vec::new() }
    }

    /// The width that tables must fit; `None` if they may have any.
    pub(super) fn table_width(&self) -> Option<usize> {
        self.width.filter(|_| !self.wide)
    }

    /// Writes a line as it is.
    pub(crate) fn row(&mut self, line: &str) -> io::Result<()> {
        self.flush_line()?;
        writeln!(self.out, "{line}")
    }

    /// Writes a paragraph: lines after the first are indented by `indent`.
    pub(crate) fn paragraph(&mut self, text: &str, indent: usize) -> io::Result<()> {
        self.flush_line()?;
        let width = self.width.unwrap_or(usize::MAX);
        for line in wrap(text, width, indent) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Clears the line of a terminal, in which a bar may be, which is drawn again.
    pub(crate) fn clear_line(&mut self) -> io::Result<()> {
        match self.width {
            Some(_) => write!(self.out, "\r\x1b[K"),
            None => Ok(()),
        }
    }

    fn flush_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(&line)
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches('\n');
                self.paragraph(text, text.len() - text.trim_start_matches(' ').len() + 2)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_line()?;
        self.out.flush()
    }
}

/// The columns that a text takes on a terminal, without its escape sequences.
pub(super) fn width(text: &str) -> usize {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.len();
    }
    let mut columns = 0;
    let mut rest = text;
    // Only styles are written: ESC [ numbers m.
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        columns += before.width();
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    columns + rest.width()
}

/// A paragraph in lines no wider than `width`, each with its end. Lines after the first are indented.
pub(crate) fn paragraph(text: &str, width: usize, indent: usize) -> String {
    wrap(text, width, indent).into_iter().map(|line| line + "\n").collect()
}

/// Divides a text at spaces into lines no wider than `width`. Lines after the first are indented by
/// `indent`. A word that is wider has a line of its own: it stays whole, so that a path can be copied.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    // In a very narrow terminal the indent would leave no room for words.
    let indent = if indent > width / 2 { 0 } else { indent };
    let start = text.len() - text.trim_start_matches(' ').len();
    let (own_indent, words) = text.split_at(start);
    let mut lines = Vec::new();
    let mut line = own_indent.to_owned();
    let (mut columns, mut empty) = (start, true);
    for word in unbroken(words) {
        let length = self::width(word);
        if !empty && columns + 1 + length > width {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            (columns, empty) = (indent, true);
        }
        if !empty {
            line.push(' ');
            columns += 1;
        }
        line.push_str(word);
        columns += length;
        empty = false;
    }
    lines.push(line);
    lines
}

/// What follows a number without a break.
const UNITS: [&str; 12] = ["%", "±", "B", "KiB", "MiB", "GiB", "TiB", "GB", "k", "M", "T", "s"];

/// The words of a text; a number and its unit, or its error, are one.
fn unbroken(text: &str) -> impl Iterator<Item = &str> {
    let is_unit = |word: &str| {
        UNITS.contains(&word.trim_end_matches(|it: char| it.is_ascii_punctuation() && it != '%'))
    };
    let is_number =
        |word: &str| word.trim_start_matches('(').starts_with(|it: char| it.is_ascii_digit());
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let mut end = whole.find(' ');
        let mut start = 0;
        while let Some(space) = end {
            let (word, next) = (whole.get(start..space)?, whole.get(space + 1..)?);
            let following = next.split(' ').next().unwrap_or_default();
            if !(is_number(word) && is_unit(following) || word == "±") {
                break;
            }
            start = space + 1;
            end = next.find(' ').map(|at| at + start);
        }
        rest = end.and_then(|space| whole.get(space + 1..));
        end.map_or(Some(whole), |space| whole.get(..space))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_wraps_at_words() {
        let text = "error: the file is shorter than its header says";
        let rows: [(&str, usize, usize, &[&str]); 9] = [
            // A number keeps its unit and its error.
            ("it changes by 5.9 % (RMS)", 17, 2, &["it changes by", "  5.9 % (RMS)"]),
            ("0.0025 ± 1.20e-5 nats", 12, 2, &["0.0025 ± 1.20e-5", "  nats"]),
            (text, 80, 7, &[text]),
            (text, 47, 7, &[text]),
            (text, 46, 7, &["error: the file is shorter than its header", "       says"]),
            (
                text,
                20,
                7,
                &["error: the file is", "       shorter than", "       its header", "       says"],
            ),
            // A path stays whole, in a line of its own.
            ("in /models/llama.gguf: cut", 12, 2, &["in", "  /models/llama.gguf:", "  cut"]),
            // A text's own indent stays; styles take no columns.
            ("  \u{1b}[1ma b\u{1b}[0m c", 7, 2, &["  \u{1b}[1ma b\u{1b}[0m c"]),
            ("  \u{1b}[1ma b\u{1b}[0m c", 6, 4, &["  \u{1b}[1ma b\u{1b}[0m", "c"]),
        ];
        for (text, width, indent, lines) in rows {
            assert_eq!(wrap(text, width, indent), lines, "{text:?} in {width} columns");
        }
    }

    #[test]
    fn a_line_goes_on_deeper_than_it_begins() {
        let mut screen = Screen::new(Vec::new(), Some(10), false);
        write!(screen, "  a command that\n  b\n").unwrap();
        let text = String::from_utf8(screen.out).unwrap();
        assert_eq!(text, "  a\n    command\n    that\n  b\n");
    }

    #[test]
    fn a_screen_wraps_lines_and_a_file_does_not() {
        let written = |width| {
            let mut screen = Screen::new(Vec::new(), width, false);
            write!(screen, "one two").unwrap();
            write!(screen, " three\nfour\nno end").unwrap();
            screen.flush().unwrap();
            String::from_utf8(screen.out).unwrap()
        };
        assert_eq!(written(None), "one two three\nfour\nno end");
        assert_eq!(written(Some(9)), "one two\n  three\nfour\nno end");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(["abc", "\u{1b}[1mabc\u{1b}[0m", "模型", "é"].map(width), [3, 3, 4, 1]);
    }
}
