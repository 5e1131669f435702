//! Facts about other programs: the defaults of transformers' classes, the keys that mlx-lm requires,
//! the tensors that llama.cpp loads, the formats of prompts that Ollama has.
//!
//! The facts are text files in the folder `engines/`, one folder for each program, which
//! `cargo xtask engines` extracts from the installed programs. The files are compiled in as blocks
//! (`build.rs`), and a block is parsed when it is first looked up.

pub(crate) mod expression;
pub(crate) mod llama_cpp;
pub(crate) mod mlx_lm;
pub(crate) mod mlx_vlm;
pub(crate) mod ollama;
pub(crate) mod transformers;

use std::sync::OnceLock;

/// A constant in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    Count(u32),
    Real(f32),
    Flag(bool),
    Word(&'static str),
    /// An empty list.
    Empty,
}

impl Constant {
    /// Parses JSON. `None` for a value that a constant cannot hold.
    fn parse(json: &'static str) -> Option<Self> {
        match json {
            "true" => Some(Self::Flag(true)),
            "false" => Some(Self::Flag(false)),
            "[]" => Some(Self::Empty),
            _ if json.starts_with('"') => Some(Self::Word(json.trim_matches('"'))),
            _ if json.contains(['.', 'e']) => json.parse().ok().map(Self::Real),
            _ => json.parse().ok().map(Self::Count),
        }
    }
}

/// A line of a file, and the indented lines below it.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: &'static str,
    rest: &'static str,
}

impl Block {
    /// The blocks of a file.
    fn each(file: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = Self> {
        file.iter().map(|(first, rest)| Self { first, rest })
    }

    /// The names that the block describes: the first word, in which commas separate several.
    fn names(self) -> impl Iterator<Item = &'static str> {
        self.first.split(' ').next().unwrap_or_default().split(',')
    }

    /// The further words of the first line.
    fn words(self) -> impl Iterator<Item = &'static str> {
        self.first.split(' ').skip(1)
    }

    /// The lines below the first one.
    fn lines(self) -> impl Iterator<Item = &'static str> {
        self.rest.lines().map(str::trim_start)
    }
}

/// The blocks of a file of `engines/`, in a table.
macro_rules! table {
    ($file:literal, $parse:expr) => {
        $crate::engines::Table::new($crate::engines::blocks!($file), $parse)
    };
}
use table;

/// The blocks of a file of `engines/`: first lines, and the lines below each.
macro_rules! blocks {
    ($file:literal) => {
        include!(concat!(env!("OUT_DIR"), "/engines/", $file, ".rs"))
    };
}
use blocks;

/// The blocks of a file by name, each parsed when it is first looked up.
struct Table<T: 'static> {
    blocks: &'static [(&'static str, &'static str)],
    parse: fn(Block) -> T,
    parsed: OnceLock<Vec<OnceLock<T>>>,
}

impl<T> Table<T> {
    const fn new(blocks: &'static [(&'static str, &'static str)], parse: fn(Block) -> T) -> Self {
        Self { blocks, parse, parsed: OnceLock::new() }
    }

    fn get(&self, name: &str) -> Option<&T> {
        self.all(name).next()
    }

    /// Every block of a name.
    fn all(&self, name: &str) -> impl Iterator<Item = &T> {
        let empty = || self.blocks.iter().map(|_| OnceLock::new()).collect();
        let parsed = self.parsed.get_or_init(empty);
        let named = Block::each(self.blocks)
            .zip(parsed)
            .filter(move |(block, _)| block.names().any(|known| known == name));
        named.map(|(block, parsed)| parsed.get_or_init(|| (self.parse)(block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_parsed_by_their_form() {
        use Constant::{Count, Empty, Flag, Real, Word};
        for (json, constant) in [
            ("false", Some(Flag(false))),
            ("\"silu\"", Some(Word("silu"))),
            ("8", Some(Count(8))),
            ("1e-06", Some(Real(1e-6))),
            ("10000.0", Some(Real(10_000.0))),
            ("[]", Some(Empty)),
            ("null", None),
            ("-1", None),
            ("[1, 2]", None),
            ("{\"a\": 1.5}", None),
        ] {
            assert_eq!(Constant::parse(json), constant, "{json}");
        }
    }

    #[test]
    fn blocks_are_found_by_each_of_their_names() {
        let blocks = &[("a,b word", "  line\n  # more\n"), ("c", ""), ("d", "  last\n")];
        let table = Table::new(blocks, |block| block.lines().chain(block.words()).collect());
        let expected: &[(&str, &[&str])] = &[
            ("a", &["line", "# more", "word"]),
            ("b", &["line", "# more", "word"]),
            ("c", &[]),
            ("d", &["last"]),
        ];
        for (name, lines) in expected {
            assert_eq!(table.get(name), Some(&lines.to_vec()), "{name}");
        }
        assert_eq!(table.get("word"), None::<&Vec<&str>>);
    }
}
