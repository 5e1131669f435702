//! Facts about Ollama: how it writes prompts and reads answers, and the parameters of its runs.

use super::mlx_lm::Conditions;
use super::{Block, Table, blocks, table};
use crate::json::{Json, Map};

/// The names of a renderer, which writes prompts, and of a parser, which reads answers; empty if there is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ChatFormat {
    pub(crate) renderer: &'static str,
    pub(crate) parser: &'static str,
}

impl ChatFormat {
    /// Takes the next two words.
    fn parse(words: &mut impl Iterator<Item = &'static str>) -> Self {
        let mut word = || words.next().unwrap_or_default();
        Self { renderer: word(), parser: word() }
    }
}

/// The formats of models of tensor blobs whose names match.
#[derive(Debug)]
pub(crate) struct ChatFamily {
    patterns: Vec<&'static str>,
    pub(crate) format: ChatFormat,
    /// Whether the models think whatever their template contains.
    pub(crate) thinks: bool,
    pub(crate) newer: Option<NewerFormat>,
}

/// Another renderer and parser of a family, which the chat template reveals.
#[derive(Debug, Default)]
pub(crate) struct NewerFormat {
    pub(crate) format: ChatFormat,
    /// Pieces of the template; all must occur.
    pub(crate) marks: Vec<&'static str>,
    /// Whether `chat_template.jinja` counts even if `tokenizer_config.json` has a template.
    pub(crate) in_either: bool,
}

impl ChatFamily {
    fn parse(block: Block) -> Self {
        let mut words = block.words();
        let format = ChatFormat::parse(&mut words);
        let mut newer = None;
        for (word, rest) in block.lines().filter_map(|line| line.split_once(' ')) {
            let own: &mut NewerFormat = newer.get_or_insert_default();
            match word {
                "mark" => own.marks.push(rest),
                _ => {
                    let mut words = rest.split(' ');
                    own.format = ChatFormat::parse(&mut words);
                    own.in_either = words.next().is_some();
                }
            }
        }
        Self { patterns: block.names().collect(), format, thinks: words.next().is_some(), newer }
    }

    /// Whether it is the family of a class or model type, in lower case.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| {
            let start = pattern.strip_suffix('*');
            match (start.and_then(|start| start.strip_prefix('*')), start) {
                (Some(piece), _) => name.contains(piece),
                (None, Some(start)) => name.starts_with(start),
                (None, None) => name == *pattern,
            }
        })
    }
}

/// The families of models of tensor blobs, in the order in which Ollama looks for them.
pub(crate) fn chat_families() -> impl Iterator<Item = ChatFamily> {
    Block::each(blocks!("ollama/chat")).map(ChatFamily::parse)
}

static ARCHITECTURES: Table<(ChatFormat, Vec<&str>)> = table!("ollama/architectures", |block| {
    let mut words = block.words();
    (ChatFormat::parse(&mut words), words.collect())
});

/// The renderer and the parser of a GGUF architecture, and the words that end its answers.
pub(crate) fn chat_of_architecture(name: &str) -> (ChatFormat, &'static [&'static str]) {
    let found = ARCHITECTURES.get(name);
    found.map_or((ChatFormat::default(), &[]), |(format, stop)| (*format, stop))
}

/// Whether a parser reads calls of tools, and whether it reads thoughts.
pub(crate) fn parser_reads(parser: &str) -> (bool, bool) {
    let mut blocks = Block::each(blocks!("ollama/parsers"));
    let block = blocks.find(|block| block.names().any(|name| name == parser));
    let has = |word| block.is_some_and(|block| block.words().any(|own| own == word));
    (has("tools"), has("thoughts"))
}

/// The formats of prompts: the name of each, and its texts by the words of `prompts.txt`.
pub(crate) fn prompts() -> impl Iterator<Item = (&'static str, Map<String, Json>)> {
    Block::each(blocks!("ollama/prompts")).map(|block| {
        let lines = block.lines().filter_map(|line| line.split_once(' '));
        let texts = lines
            .filter_map(|(word, json)| Some((word.to_owned(), Json::parse(json.as_bytes()).ok()?)));
        (block.first, texts.collect())
    })
}

/// A class of the MLX runner.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    /// The keys that it reads where the others are, each with the path where newer files have it.
    pub(crate) flat: Vec<(&'static str, &'static str)>,
    pub(crate) conditions: Conditions,
}

static RUNNERS: Table<Runner> = table!("ollama/runner", |block| {
    let mut runner = Runner::default();
    for line in block.lines() {
        let flat = line.strip_prefix("flat ").and_then(|line| line.split_once(' '));
        runner.flat.extend(flat);
        let understood = flat.is_some() || runner.conditions.add(line).is_some();
        debug_assert!(understood, "{}: {line}", block.first);
    }
    runner
});

/// The class of the MLX runner with a name.
pub(crate) fn runner(class: &str) -> Option<&'static Runner> {
    RUNNERS.get(class)
}

/// The parameters of a run, by name, each with the word for its type.
pub(crate) fn parameters() -> impl Iterator<Item = (&'static str, &'static str)> {
    Block::each(blocks!("ollama/parameters")).flat_map(|block| {
        let kind = block.words().next().unwrap_or_default();
        block.names().map(move |name| (name, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gguf_architectures() {
        let found = |name: &str| {
            let (format, stop) = chat_of_architecture(name);
            (format.renderer, format.parser, stop)
        };
        assert_eq!(found("gemma4"), ("gemma4", "gemma4", &["<turn|>"][..]));
        assert_eq!(found("nemotron_h_moe").1, "nemotron-3-nano");
        assert_eq!(found("laguna").0, "laguna");
        assert_eq!(found("llama"), ("", "", &[][..]));
    }
}
