//! Tables that fit the terminal: columns are left out or shortened by importance. Only prose in the last column wraps.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use super::screen::{Screen, width, wrap};

/// Spaces between columns.
const GAP: usize = 2;

/// The least width of a column that is shortened, where even the columns that are always shown do not
/// fit.
const LEAST: usize = 4;

/// The least width in which prose is wrapped; in a narrower column, most lines would have one word.
const PROSE: usize = 12;

const ELLIPSIS: &str = "…";

/// A column of a table. It is always shown in full unless [`optional`](Column::optional),
/// [`middle`](Column::middle) or [`end`](Column::end) say otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    head: &'static str,
    align: Align,
    shorten: Shorten,
    optional: u8,
    joined: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Align {
    Left,
    Right,
}

/// The way in which cells are shortened, and the width that they keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shorten {
    Never,
    Middle(usize),
    End(usize),
}

/// A column of text.
pub(crate) const fn left(head: &'static str) -> Column {
    Column { head, align: Align::Left, shorten: Shorten::Never, optional: 0, joined: false }
}

/// A column of numbers.
pub(crate) const fn right(head: &'static str) -> Column {
    Column { head, align: Align::Right, shorten: Shorten::Never, optional: 0, joined: false }
}

impl Column {
    /// Allows cells to be shortened in the middle, as is best for names, to this width or more.
    pub(crate) const fn middle(self, width: usize) -> Self {
        Self { shorten: Shorten::Middle(width), ..self }
    }

    /// Allows cells to be shortened at the end, as is best for prose, to this width or more. In the last column, they
    /// are wrapped instead.
    pub(crate) const fn end(self, width: usize) -> Self {
        Self { shorten: Shorten::End(width), ..self }
    }

    /// Allows the column to be left out. The one with the largest number is the least important.
    pub(crate) const fn optional(self, importance: u8) -> Self {
        Self { optional: importance, ..self }
    }

    /// Shows the column only together with the one before it, which says nothing without it.
    pub(crate) const fn joined(self) -> Self {
        Self { joined: true, ..self }
    }
}

/// A table with a bold head and two spaces between columns. In a file or a pipe it is as wide as its
/// content.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // Text from a file must not write control characters to the terminal.
        let shown = |cell: String| weighbridge::bytes::Text::new(cell.as_bytes()).brief();
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Writes the table, and below it the heads of columns that did not fit, and of those with shortened cells.
    pub(crate) fn write(&self, out: &mut Screen<impl Write>) -> io::Result<()> {
        let bound = out.table_width();
        let widths = self.layout(bound);
        let bold = anstyle::Style::new().bold();
        let shown =
            || widths.iter().enumerate().filter_map(|(place, width)| Some((place, (*width)?)));
        let prose = shown().next_back().filter(|(place, width)| self.is_prose(*place, *width));
        let mut columns: Vec<_> = shown()
            .filter(|(place, _)| prose.is_none_or(|(prose, _)| prose != *place))
            .map(|(place, width)| (self.fitted(place, width), width, self.columns[place].align))
            .collect();
        let mut texts = prose.map(|(place, width)| (self.cells(place), width));
        let mut line = String::new();
        for row in 0..=self.rows.len() {
            line.clear();
            for (number, (cells, columns, align)) in columns.iter_mut().enumerate() {
                let cell = cells.next().unwrap_or_default();
                let before = if number > 0 { GAP } else { 0 };
                let space = columns.saturating_sub(width(&cell));
                let (left, right) = match align {
                    Align::Left => (before, space),
                    Align::Right => (before + space, 0),
                };
                line.extend(std::iter::repeat_n(' ', left));
                line.push_str(&cell);
                line.extend(std::iter::repeat_n(' ', right));
            }
            let indent = width(&line) + GAP;
            let text = texts.as_mut().and_then(|(cells, width)| Some((cells.next()?, *width)));
            let mut parts =
                text.map_or_else(Vec::new, |(text, width)| wrap(text, width, 0)).into_iter();
            if let Some(first) = parts.next() {
                line.extend(std::iter::repeat_n(' ', GAP));
                line.push_str(&first);
            }
            let most = bound.unwrap_or(usize::MAX);
            let line = clipped(line.trim_end(), most);
            match row {
                0 => out.row(&format!("{bold}{line}{bold:#}"))?,
                _ => out.row(&line)?,
            }
            for part in parts {
                out.row(&clipped(&format!("{:indent$}{part}", ""), most))?;
            }
        }
        let heads = |is_it: &dyn Fn(usize, Option<usize>) -> bool| {
            let places = widths.iter().enumerate().filter(|(place, width)| is_it(*place, **width));
            let heads = places.map(|(place, _)| self.columns[place].head);
            heads.filter(|head| !head.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let is_cut = |place, columns| {
            !self.is_prose(place, columns) && self.cells(place).any(|cell| width(cell) > columns)
        };
        let hidden = heads(&|_, width| width.is_none());
        let cut = heads(&|place, width| width.is_some_and(|columns| is_cut(place, columns)));
        match (hidden.as_str(), cut.as_str()) {
            ("", "") => Ok(()),
            (hidden, "") => writeln!(out, "(--wide shows {hidden} too)"),
            ("", cut) => writeln!(out, "(--wide shows {cut} in full)"),
            (hidden, cut) => writeln!(out, "(--wide shows {cut} in full, and {hidden} too)"),
        }
    }

    /// Whether a column is prose that does not fit its width.
    fn is_prose(&self, place: usize, columns: usize) -> bool {
        matches!(self.columns[place].shorten, Shorten::End(_))
            && columns >= PROSE
            && self.cells(place).any(|cell| width(cell) > columns)
    }

    /// The width of each column, or `None` for a column that is left out.
    fn layout(&self, bound: Option<usize>) -> Vec<Option<usize>> {
        let mut allowed = vec![true; self.columns.len()];
        loop {
            let widths = self.arranged(bound, &allowed);
            let excess = bound.and_then(|bound| {
                self.excess(&widths, bound).or_else(|| self.crowding(&widths, bound, &allowed))
            });
            match excess {
                Some(place) => allowed[place] = false,
                None => return widths,
            }
        }
    }

    /// The column to leave out because the table is too wide, or a column too narrow to be read. Two remain.
    fn excess(&self, widths: &[Option<usize>], bound: usize) -> Option<usize> {
        let shown: Vec<(usize, usize)> =
            (0..).zip(widths).filter_map(|(place, width)| Some((place, (*width)?))).collect();
        let narrow = shown.iter().find(|(place, width)| !self.is_legible(*place, *width));
        let (last, _) = shown.last().filter(|_| shown.len() > 2)?;
        match narrow {
            None if total(widths) <= bound => None,
            Some((place, _)) if self.columns[*place].optional > 0 => Some(*place),
            _ => Some(*last),
        }
    }

    /// The optional column of names for which one that is always shown loses a fifth or more, and without which it does
    /// not.
    fn crowding(&self, widths: &[Option<usize>], bound: usize, allowed: &[bool]) -> Option<usize> {
        let is_name = |place: usize| matches!(self.columns[place].shorten, Shorten::Middle(_));
        let natural = |place: usize| self.cells(place).map(width).max().unwrap_or(0);
        let is_cut = |widths: &[Option<usize>]| {
            let names = (0..).zip(widths).filter(|(place, _)| is_name(*place));
            let mut needed = names.filter(|(place, _)| self.columns[*place].optional == 0);
            needed.any(|(place, width)| width.is_some_and(|width| 5 * width < 4 * natural(place)))
        };
        let is_optional = |place: &usize| self.columns[*place].optional > 0 && is_name(*place);
        let mut others = (0..widths.len()).filter(|place| widths[*place].is_some());
        others.find(|place| {
            let mut fewer = allowed.to_vec();
            fewer[*place] = false;
            is_optional(place) && is_cut(widths) && !is_cut(&self.arranged(Some(bound), &fewer))
        })
    }

    /// Whether the head of a column is whole, and different names stay different.
    fn is_legible(&self, place: usize, columns: usize) -> bool {
        let count =
            |cells: &mut dyn Iterator<Item = Cow<'_, str>>| cells.collect::<HashSet<_>>().len();
        let is_name = matches!(self.columns[place].shorten, Shorten::Middle(_));
        let cells = || self.cells(place).map(Cow::from);
        width(self.columns[place].head) <= columns
            && (!is_name || count(&mut self.fitted(place, columns)) == count(&mut cells()))
    }

    /// The width of each column that is allowed and fits.
    fn arranged(&self, bound: Option<usize>, allowed: &[bool]) -> Vec<Option<usize>> {
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|place| self.cells(place).map(width).max().unwrap_or(0))
            .collect();
        let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
        let Some(bound) = bound.filter(|bound| total(&widths) > *bound) else { return widths };
        // The columns that must be shown come first, as narrow as they may be; then the others while
        // they fit, the most important one first.
        let least: Vec<usize> = self
            .columns
            .iter()
            .zip(&natural)
            .enumerate()
            .map(|(place, (column, natural))| match column.shorten {
                Shorten::Never => *natural,
                Shorten::Middle(least) => self.told_apart(place).max(least).min(*natural),
                Shorten::End(least) => least.min(*natural),
            })
            .collect();
        // The places of columns that are shown together.
        let mut order: Vec<Vec<usize>> = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            match order.last_mut().filter(|_| column.joined) {
                Some(before) => before.push(place),
                None => order.push(vec![place]),
            }
        }
        order.retain(|places| places.iter().all(|place| allowed[*place]));
        order.sort_by_key(|places| self.columns[places[0]].optional);
        widths.fill(None);
        for places in order {
            places.iter().for_each(|place| widths[*place] = Some(least[*place]));
            if self.columns[places[0]].optional > 0 && total(&widths) > bound {
                places.iter().for_each(|place| widths[*place] = None);
            }
        }
        let elastic = |place: &usize| self.columns[*place].shorten != Shorten::Never;
        let places: Vec<usize> = (0..widths.len()).filter(elastic).collect();
        // One column at a time: the widest gets narrower, the narrowest gets wider.
        while total(&widths) > bound {
            let narrower = places.iter().filter_map(|place| Some((widths[*place]?, *place)));
            let Some((width, place)) = narrower.max().filter(|(width, _)| *width > LEAST) else {
                break;
            };
            widths[place] = Some(width - 1);
        }
        // Prose in the last column gets what names leave: it can be wrapped.
        let last = widths.iter().rposition(Option::is_some);
        let is_prose = |place: usize| {
            Some(place) == last && matches!(self.columns[place].shorten, Shorten::End(_))
        };
        while total(&widths) < bound {
            let wider = places.iter().filter_map(|place| Some((widths[*place]?, *place)));
            let wider = wider.filter(|(width, place)| *width < natural[*place]);
            let Some((width, place)) =
                wider.min_by_key(|(width, place)| (is_prose(*place), *width))
            else {
                break;
            };
            widths[place] = Some(width + 1);
        }
        widths
    }

    /// The width in which names of tensors keep the parts that tell them apart; 0 for other texts.
    fn told_apart(&self, place: usize) -> usize {
        let names = self.cells(place).filter(|cell| layer_end(cell) > 0);
        names.map(|cell| layer_end(cell) + 1 + last_words(cell)).max().unwrap_or(0)
    }

    /// The head and the cells of a column.
    fn cells(&self, place: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().map(move |row| row.get(place).map_or("", String::as_str));
        std::iter::once(self.columns[place].head).chain(cells)
    }

    /// The head and the cells of a column, shortened to its width.
    fn fitted(&self, place: usize, columns: usize) -> Box<dyn Iterator<Item = Cow<'_, str>> + '_> {
        match self.columns[place].shorten {
            Shorten::Middle(_) => {
                let start = kept_start(&self.cells(place).collect::<Vec<_>>(), columns);
                Box::new(self.cells(place).map(move |cell| elided(cell, columns, start)))
            }
            _ => Box::new(self.cells(place).map(move |cell| clipped(cell, columns))),
        }
    }
}

/// The width of a table.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

/// The width of a name up to its layers: of `model.layers.[0-31].` or `blk.3.`; 0 without one.
fn layer_end(name: &str) -> usize {
    let is_number = |word: &str| word.starts_with('[') || word.parse::<u32>().is_ok();
    let dots = name.match_indices('.').map(|(at, _)| at);
    let mut ends = dots.filter(|end| {
        let word = name[..*end].rsplit('.').next().unwrap_or_default();
        is_number(word)
    });
    ends.next().map_or(0, |end| width(&name[..=end]))
}

/// The width of the last two words of a name: of `k_proj.weight`.
fn last_words(name: &str) -> usize {
    let start = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    width(&name[start..])
}

/// The columns that are kept at the start of texts that are too wide, before the middle that is cut
/// out: if possible the layers, without a loss of the last two words; otherwise up to a dot in the middle of the first
/// text if there is one; and so that different texts stay different.
fn kept_start(cells: &[&str], columns: usize) -> usize {
    let long: Vec<&str> = cells.iter().copied().filter(|cell| width(cell) > columns).collect();
    let different = long.iter().collect::<HashSet<_>>().len();
    let short = columns.saturating_sub(1);
    let first = long.first().copied().unwrap_or_default();
    let dots = first.match_indices('.').map(|(at, _)| width(&first[..=at]));
    let mut middle: Vec<usize> =
        dots.filter(|dot| (short / 4..=short * 2 / 3).contains(dot)).collect();
    middle.reverse();
    let most = |part: fn(&str) -> usize| long.iter().map(|cell| part(cell)).max().unwrap_or(0);
    let layers = most(layer_end);
    let mut starts: Vec<usize> =
        (layers..=short.saturating_sub(most(last_words))).filter(|_| layers > 0).collect();
    starts.extend(middle);
    let behind_dots = starts.len();
    starts.extend(0..=short);
    starts[behind_dots..].sort_by_key(|start| start.abs_diff(short / 2));
    let apart = |start: &usize| {
        let cut: HashSet<Cow<'_, str>> =
            long.iter().map(|cell| elided(cell, columns, *start)).collect();
        cut.len() == different
    };
    starts.iter().copied().find(apart).unwrap_or(short / 2)
}

/// Cuts the middle out of a text that is too wide: `start` columns are kept before it.
fn elided(text: &str, columns: usize, start: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return text.into();
    }
    let start = taken(text, start);
    let backwards: String = text.chars().rev().collect();
    let end = taken(&backwards, columns.saturating_sub(width(&start) + 1));
    format!("{start}{ELLIPSIS}{}", end.chars().rev().collect::<String>()).into()
}

/// Cuts the end off a text that is too wide.
fn clipped(text: &str, columns: usize) -> Cow<'_, str> {
    match width(text) <= columns {
        true => text.into(),
        false => format!("{}{ELLIPSIS}", taken(text, columns.saturating_sub(1)).trim_end()).into(),
    }
}

/// The start of a text, as many characters as fit.
fn taken(text: &str, columns: usize) -> String {
    let mut room = columns;
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{left, right};
    use super::*;

    /// A table as `inspect` has it.
    fn tensors() -> Table {
        let mut table = Table::new(&[
            left("NAME").middle(20),
            left("CANONICAL").middle(20).optional(1),
            left("DTYPE"),
            right("BITS").optional(2),
            right("SIZE"),
        ]);
        let rows = [
            (
                "model.layers.[0-1].self_attn.k_proj.weight",
                "layers.[0-1].attention.k.weight",
                "BF16",
            ),
            (
                "model.layers.[0-1].self_attn.q_proj.weight",
                "layers.[0-1].attention.q.weight",
                "BF16",
            ),
            ("model.norm.weight", "output_norm.weight", "F32"),
        ];
        for (name, canonical, dtype) in rows {
            table.row([name, canonical, dtype, "16.00", "128.0 KiB"].map(str::to_owned));
        }
        table
    }

    fn written(table: &Table, width: Option<usize>) -> Vec<String> {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, width, false);
        table.write(&mut screen).unwrap();
        screen.flush().unwrap();
        drop(screen);
        let text = anstream::adapter::strip_bytes(&out).into_vec();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_left_out_and_shortened_by_importance() {
        let rows: [(usize, [Option<usize>; 5]); 8] = [
            (100, [Some(42), Some(31), Some(5), Some(5), Some(9)]),
            (99, [Some(41), Some(31), Some(5), Some(5), Some(9)]),
            (95, [Some(37), Some(31), Some(5), Some(5), Some(9)]),
            // A whole name says more than two halves.
            (80, [Some(42), None, Some(5), Some(5), Some(9)]),
            (66, [Some(41), None, Some(5), Some(5), Some(9)]),
            // Where an important column does not fit, a less important one may.
            (58, [Some(33), None, Some(5), Some(5), Some(9)]),
            (40, [Some(22), None, Some(5), None, Some(9)]),
            // Names that became the same would say less than no size.
            (26, [Some(19), None, Some(5), None, None]),
        ];
        for (bound, widths) in rows {
            assert_eq!(tensors().layout(Some(bound)), widths, "{bound} columns");
        }
        assert_eq!(tensors().layout(None), tensors().layout(Some(1000)));
    }

    #[test]
    fn joined_columns_are_shown_together() {
        let mut table = Table::new(&[
            left("NAME"),
            left("A").optional(1),
            left("B").optional(1).joined(),
            right("ERROR"),
        ]);
        table.row(["x", "Q4_K", "Q8_0", "0.1"].map(str::to_owned));
        for (columns, head) in [(24, "NAME  A     B     ERROR"), (17, "NAME  ERROR")] {
            assert_eq!(written(&table, Some(columns))[0].trim_end(), head);
        }
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        for bound in 1..120 {
            for line in written(&tensors(), Some(bound)).iter().take(4) {
                assert!(width(line) <= bound, "{line:?} in {bound} columns");
            }
        }
    }

    #[test]
    fn a_table_tells_what_it_leaves_out() {
        assert_eq!(
            written(&tensors(), Some(58)),
            [
                "NAME                               DTYPE   BITS       SIZE",
                "model.layers.[0-1].…k_proj.weight  BF16   16.00  128.0 KiB",
                "model.layers.[0-1].…q_proj.weight  BF16   16.00  128.0 KiB",
                "model.norm.weight                  F32    16.00  128.0 KiB",
                "(--wide shows NAME in full, and CANONICAL too)",
            ]
        );
        let mut out = Vec::new();
        tensors().write(&mut Screen::new(&mut out, Some(58), true)).unwrap();
        assert_eq!(
            written(&tensors(), None),
            written(&tensors(), Some(1000)),
            "a wide one is whole"
        );
    }

    #[test]
    fn prose_in_the_last_column_is_wrapped() {
        let mut table = Table::new(&[left("NAME"), left("TEXT").end(4)]);
        table.row(["a".to_owned(), "one two three four".to_owned()]);
        let lines = ["NAME  TEXT", "a     one two", "      three four"];
        assert_eq!(written(&table, Some(18)), lines);
        let told = ["(--wide shows", "  TEXT in full)"];
        assert_eq!(written(&table, Some(17))[..2], ["NAME  TEXT", "a     one two th…"]);
        assert_eq!(written(&table, Some(17))[2..], told);
    }

    #[test]
    fn shortened_names_stay_different() {
        let names = |cells: &[&str], columns| {
            let start = kept_start(cells, columns);
            let cut: Vec<_> = cells.iter().map(|cell| elided(cell, columns, start)).collect();
            cut.join(" ")
        };
        let rows: [(&[&str], usize, &str); 7] = [
            (&["abcdefgh", "abc"], 8, "abcdefgh abc"),
            (&["abcdefgh", "abc"], 7, "abc…fgh abc"),
            // The difference is in the middle: more is kept before it, or after it.
            (&["aaaaa1aaaaaaa", "aaaaa2aaaaaaa"], 9, "aaaaa1…aa aaaaa2…aa"),
            (&["aaaaaaa1aaaaa", "aaaaaaa2aaaaa"], 9, "aa…1aaaaa aa…2aaaaa"),
            (&["layers.[0-31].attn_q.weight"], 21, "layers.…attn_q.weight"),
            (
                &[
                    "model.layers.[0-9].self_attn.q_proj.weight",
                    "model.layers.[0-9].mlp.up_proj.weight",
                ],
                34,
                "model.layers.[0-9].….q_proj.weight model.layers.[0-9].…up_proj.weight",
            ),
            (&["模型模型模型"], 7, "模…模型"),
        ];
        for (cells, columns, short) in rows {
            assert_eq!(names(cells, columns), short, "{columns} columns");
        }
    }

    #[test]
    fn prose_is_cut_at_its_end() {
        assert_eq!(
            ["abc def", "abcd ef", "ab"].map(|text| clipped(text, 5).into_owned()),
            ["abc…", "abcd…", "ab"]
        );
    }
}
