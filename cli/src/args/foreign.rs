//! The words of other programs, and what they mean here: the rows of foreign.txt.

use std::sync::LazyLock;

/// The meaning of a word that is no verb, or no option, of this program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Meaning {
    /// A verb that has moved: its words now. It works for one more release, and says so.
    Moved(&'static str),
    /// The same as these words, here.
    Is(&'static str),
    /// Nearly the same as these words: what differs is said in a note.
    Near(&'static str, &'static str),
    /// An option whose value is an argument here.
    Value,
    /// An option with two values, which are one of an option here: that option, and the sign between the two.
    Pair(&'static str),
    /// An option whose value is that of a key: the start of the argument that sets it.
    Setting(&'static str),
    /// An option that has no value, and that nothing here needs.
    Needless,
    /// An option that nothing here has, with or without a value: why. It is left out, with a note.
    Ignored(&'static str),
    /// Nothing here is the same: what to type instead.
    Says(&'static str),
}

/// A row: its section, its words, separated by `|`, and what they mean.
type Row = (&'static str, &'static str, Meaning);

const TEXT: &str = include_str!("foreign.txt");

/// The section of verbs.
const VERBS: &str = "commands";

/// The section of options of every verb.
pub(super) const ANY: &str = "*";

/// The rows of verbs.
pub(super) fn verbs() -> impl Iterator<Item = Row> {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(|section| section == VERBS));
    ROWS.iter().copied()
}

/// The meaning of a verb, and the index of its row: the first row with the word counts. Most starts of the program ask
/// for words that occur nowhere in the text, which is then not parsed.
pub(super) fn verb(name: &str) -> Option<(usize, Meaning)> {
    static WORDS: LazyLock<Vec<(&str, (usize, Meaning))>> = LazyLock::new(|| {
        let words = verbs().enumerate().flat_map(|(place, (_, words, meaning))| {
            words.split('|').map(move |it| (it, (place, meaning)))
        });
        words.collect()
    });
    if !TEXT.contains(name) {
        return None;
    }
    WORDS.iter().find(|(word, _)| *word == name).map(|(_, found)| *found)
}

/// The rows of options: their section is the verb.
pub(super) fn options() -> impl Iterator<Item = Row> {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(|section| section != VERBS));
    ROWS.iter().copied()
}

/// The text of a name.
pub(super) fn text(name: &str) -> &'static str {
    named().find(|(other, _)| *other == name).map_or("", |(_, text)| joined(text))
}

/// The words of a list.
pub(super) fn list(name: &str) -> impl Iterator<Item = &'static str> {
    let words = named().find(|(other, _)| *other == name).map_or("", |(_, words)| words);
    words.split('|').map(str::trim_start)
}

/// The lines without those that go on with the one before, each with these.
fn lines() -> impl Iterator<Item = &'static str> {
    let mut rest = TEXT;
    std::iter::from_fn(move || {
        let goes_on = |at: usize| rest[at + 1..].starts_with(' ');
        let mut ends = rest.match_indices('\n').map(|(at, _)| at);
        let end = ends.find(|at| !goes_on(*at))?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

/// A line and those that go on with it as one.
fn joined(text: &'static str) -> &'static str {
    if !text.contains('\n') {
        return text;
    }
    let mut whole = String::new();
    for line in text.lines().map(str::trim_start) {
        if !whole.is_empty() && !whole.ends_with('|') {
            whole.push(' ');
        }
        whole.push_str(line);
    }
    whole.leak()
}

/// The names of texts, each with its lines. They precede the sections.
fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    let before = lines().take_while(|line| !line.starts_with('['));
    let named = before.filter(|line| !line.is_empty() && !line.starts_with('#'));
    named.map(|line| line.split_once(" = ").expect("a name and its text"))
}

/// The rows of some sections.
fn rows(is_wanted: fn(&str) -> bool) -> Vec<Row> {
    let texts: Vec<_> = named().map(|(name, text)| (name, joined(text))).collect();
    let named = |text: &'static str| match text.strip_prefix('@') {
        Some(name) => texts.iter().find(|(it, _)| *it == name).expect("a text of this name").1,
        None => text,
    };
    let (mut section, mut rows) = ("", Vec::new());
    for line in lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            // The sections that belong together follow each other.
            if !rows.is_empty() && !is_wanted(section) {
                break;
            }
        } else if !section.is_empty()
            && is_wanted(section)
            && !line.is_empty()
            && !line.starts_with('#')
        {
            let (words, meaning) = joined(line).split_once(" : ").expect("words and a meaning");
            let (kind, text) = meaning.split_once(' ').unwrap_or((meaning, ""));
            rows.push((section, named(words), Meaning::new(kind, named(text))));
        }
    }
    rows
}

impl Meaning {
    fn new(kind: &str, text: &'static str) -> Self {
        match kind {
            "moved" => Self::Moved(text),
            "is" => Self::Is(text),
            "near" => {
                let (words, note) = text.split_once("; ").expect("words and a note");
                Self::Near(words, note)
            }
            "value" => Self::Value,
            "pair" => Self::Pair(text),
            "setting" => Self::Setting(text),
            "needless" => Self::Needless,
            "ignored" => Self::Ignored(text),
            "says" => Self::Says(text),
            _ => unreachable!("foreign.txt has no such meaning: {kind}"),
        }
    }
}
