//! Facts about llama.cpp: what its loader accepts and requires of each architecture, and what it
//! computes differently.

use std::sync::{Arc, LazyLock};

use super::expression::{Check, Expression, Names};
use super::{Block, Table, blocks, table};

/// The tensors and keys that the loader of an architecture accepts and requires.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Keys that are required in addition to those of every architecture, after its name.
    pub(crate) keys: Vec<&'static str>,
    pub(crate) tensors: Vec<Row>,
    /// Further conditions.
    pub(crate) checks: Vec<Check>,
    /// Whether the loader knows layers at the end that predict further tokens.
    pub(crate) nextn: bool,
    /// Whether the loader reads YaRN's `beta_fast` and `beta_slow`.
    pub(crate) reads_betas: bool,
    /// Conditions on a file under which the graph computes what the model does.
    pub(crate) remarks: Vec<Check>,
    /// The same for values in `config.json` that GGUF has no key for.
    pub(crate) stated_remarks: Vec<Check>,
}

/// A tensor that the loader requires or accepts.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in GGUF; `{n}` stands for the number of the layer.
    pub(crate) name: &'static str,
    /// Its dimensions in GGUF's order.
    pub(crate) shape: Vec<Arc<Expression>>,
    pub(crate) required: bool,
    /// The condition under which it is read.
    pub(crate) when: Option<Arc<Expression>>,
    /// A tensor in whose presence this one is not read.
    pub(crate) unless: Option<&'static str>,
    /// A tensor in whose absence this one is not read.
    pub(crate) with: Option<&'static str>,
}

static GRAPHS: Table<Graph> = table!("llama.cpp/graphs", Graph::parse);

static EXCEPTIONS: Table<Vec<&str>> =
    table!("llama.cpp/exceptions", |block| { block.lines().collect() });

static TOWERS: Table<Vec<&str>> = table!("llama.cpp/towers", |block| block.lines().collect());

static NAMES: Table<Vec<&str>> =
    table!("llama.cpp/names", |block| { block.lines().flat_map(|line| line.split(' ')).collect() });

/// A tensor of a projector with the length of the vectors that it makes.
#[derive(Debug)]
pub(crate) struct ProjectorLength {
    pub(crate) tensor: &'static str,
    /// Whether it is the length of the first axis, not of the last one.
    pub(crate) of_rows: bool,
}

static PROJECTORS: Table<Vec<ProjectorLength>> = table!("llama.cpp/projectors", |block| {
    let row = |line: &'static str| {
        let (tensor, axis) = line.split_once(' ')?;
        Some(ProjectorLength { tensor, of_rows: axis == "rows" })
    };
    block.lines().filter_map(row).collect()
});

/// The matrices that the graph of an architecture does not multiply by their scale.
static SCALES: Table<Vec<&str>> = table!("llama.cpp/scales", |block| block.lines().collect());

static TYPES: Table<Vec<&str>> = table!("llama.cpp/types", |block| block.lines().collect());

/// The types of a number or flag that the loader of an architecture accepts: of `llama.context_length`, u32. The last one
/// is that of most files. Empty for keys that it does not read.
pub(crate) fn key_types(architecture: &str, key: &str) -> impl Iterator<Item = &'static str> {
    // Keys that no architecture's name precedes.
    let is_absolute =
        |key: &&str| ["clip.", "general.", "tokenizer."].iter().any(|start| key.starts_with(start));
    let of_model = key.strip_prefix(architecture).and_then(|rest| rest.strip_prefix('.'));
    let of_model = of_model.filter(|rest| !is_absolute(rest));
    let bare = Some(key).filter(is_absolute).or(of_model).unwrap_or_default();
    let is_read = move |line: &str| match line.split_once(' ') {
        Some((_, readers)) => readers.split(',').any(|reader| reader == architecture),
        None => true,
    };
    ["u32", "i32", "f32", "bool"].into_iter().filter(move |name| {
        let Some(lines) = TYPES.get(name) else { return false };
        let place =
            lines.binary_search_by_key(&bare, |line| line.split(' ').next().unwrap_or(line));
        place.ok().and_then(|place| lines.get(place)).is_some_and(|line| is_read(line))
    })
}

/// Whether the loader accepts a value of `tokenizer.ggml.pre`. It refuses a file with another one.
pub(crate) fn knows_pre_tokenizer(name: &str) -> bool {
    NAMES.get("pre-tokenizers").is_some_and(|names| names.contains(&name))
}

/// Whether the graph of an architecture multiplies what a matrix gives by the scale that is stored beside it.
pub(crate) fn applies_scale(architecture: &str, tensor: &str) -> bool {
    let matrix = tensor.strip_suffix(".weight").unwrap_or(tensor).rsplit('.').next();
    SCALES.get(architecture).is_none_or(|others| !others.iter().any(|other| matrix == Some(other)))
}

/// Whether the loader accepts a value of `general.architecture`.
pub(crate) fn knows_architecture(name: &str) -> bool {
    graph(name).is_some() || NAMES.get("architectures").is_some_and(|names| names.contains(&name))
}

/// The program that runs models of an architecture that the loader does not know, as a sentence.
pub(crate) fn elsewhere(name: &str) -> Option<&'static str> {
    let mut lines = EXCEPTIONS.all(name).flatten();
    lines.find_map(|line| line.strip_prefix("elsewhere "))
}

/// The program that writes the vision or audio model of a class, where this library does not. `None` for a class that
/// llama.cpp has none for.
pub(crate) fn mmproj_script(class: &str) -> Option<&'static str> {
    let of = |block, script| {
        NAMES.get(block).is_some_and(|names| names.contains(&class)).then_some(script)
    };
    of("mmproj-of-minicpmv", "tools/mtmd/legacy-models/minicpmv-surgery.py, with minicpmv-convert-image-encoder-to-gguf.py,")
        .or_else(|| of("mmproj-of-llava", "tools/mtmd/legacy-models/convert_image_encoder_to_gguf.py"))
        .or_else(|| of("mmproj", "convert_hf_to_gguf.py --mmproj"))
}

/// The tensors of a type of projector that have the length of the vectors that it makes. Empty for a type whose files state
/// the length.
pub(crate) fn projector(kind: &str) -> &'static [ProjectorLength] {
    PROJECTORS.get(kind).map_or(&[], Vec::as_slice)
}

/// The tensors of a kind of vision model: the stored name, that in GGUF, and the form, if it is not the
/// same.
pub(crate) fn tower(name: &str) -> &'static [&'static str] {
    TOWERS.get(name).map_or(&[], Vec::as_slice)
}

/// The loader of a value of `general.architecture`. `None` for one that the table does not have.
pub(crate) fn graph(architecture: &str) -> Option<&'static Graph> {
    GRAPHS.get(architecture)
}

/// Expressions and checks by name.
static NUMBERS: LazyLock<(Names, Vec<(&str, Check)>)> = LazyLock::new(|| {
    let (mut names, mut checks) = (Names::new(), Vec::new());
    let lines = Block::each(blocks!("llama.cpp/numbers")).flat_map(Block::lines);
    for (name, rest) in lines.filter_map(definition) {
        let (text, fault) = rest.split_once(" else ").unwrap_or((rest, ""));
        let Some(expression) = Expression::parse(text, &names) else { continue };
        if !fault.is_empty() {
            checks.push((name, Check { holds: Arc::clone(&expression), fault }));
        }
        names.insert(name, expression);
    }
    (names, checks)
});

fn definition(line: &'static str) -> Option<(&'static str, &'static str)> {
    line.split_once(" = ")
}

/// Parses an expression over the numbers that the loader derives.
pub(crate) fn expression(text: &'static str) -> Option<Arc<Expression>> {
    let (names, _) = &*NUMBERS;
    Expression::parse(text, names)
}

impl Graph {
    fn parse(block: Block) -> Self {
        let mut graph = Self::default();
        let names = block.names().chain(["*"]);
        let exceptions = names.flat_map(|name| EXCEPTIONS.all(name)).flatten().copied();
        for line in block.lines().chain(exceptions) {
            let understood = graph.add(line);
            debug_assert!(understood.is_some(), "{}: {line}", block.first);
        }
        graph
    }

    /// Adds the fact of a line; `None` if it is none.
    fn add(&mut self, line: &'static str) -> Option<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (names, checks) = &*NUMBERS;
        match kind {
            "key" => self.keys.push(rest),
            "check" => {
                let (_, check) = checks.iter().find(|(name, _)| *name == rest)?;
                self.checks.push(check.clone());
            }
            "nextn" => self.nextn = true,
            "betas" => self.reads_betas = true,
            "remark" => self.remarks.push(Check::parse(rest, names)?),
            "stated" => self.stated_remarks.push(Check::parse(rest, names)?),
            "must" | "may" => self.tensors.push(Row::parse(rest, kind == "must")?),
            _ => return None,
        }
        Some(())
    }

    /// Whether the loader has a place for this tensor in some models.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.tensors.iter().any(|row| row.name == name)
    }

    /// Whether the loader requires this tensor of every model.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.tensors.iter().any(|row| row.required && row.when.is_none() && row.name == name)
    }
}

impl Row {
    fn parse(text: &'static str, required: bool) -> Option<Self> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let mut row =
            Self { name, shape: Vec::new(), required, when: None, unless: None, with: None };
        while let Some(word) = words.next() {
            match word {
                "if" => row.when = Some(expression(words.next()?)?),
                "unless" => row.unless = Some(words.next()?),
                "with" => row.with = Some(words.next()?),
                size => row.shape.push(expression(size)?),
            }
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_that_graphs_apply() {
        for (architecture, tensor, applies) in [
            ("llama", "blk.0.ffn_up.weight", true),
            ("granite", "blk.0.attn_output.weight", true),
            ("granite", "blk.0.ffn_up.weight", false),
            ("qwen2", "blk.3.ffn_down.weight", false),
        ] {
            assert_eq!(applies_scale(architecture, tensor), applies, "{architecture} {tensor}");
        }
    }

    #[test]
    fn every_line_is_understood() {
        for block in Block::each(GRAPHS.blocks) {
            assert!(block.names().all(|name| graph(name).is_some()), "{}", block.first);
        }
        for block in Block::each(EXCEPTIONS.blocks) {
            let is_known =
                |name: &str| name == "*" || graph(name).is_some() != elsewhere(name).is_some();
            assert!(block.names().all(is_known), "{}", block.first);
        }
        let (names, checks) = &*NUMBERS;
        let lines = Block::each(blocks!("llama.cpp/numbers")).flat_map(Block::lines);
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (name, _) = definition(line).expect("a definition");
            assert!(names.contains_key(name), "{line}");
        }
        for (name, check) in checks {
            let values = check.fault.split('{').skip(1);
            for text in values.map(|rest| rest.split('}').next().expect("a part")) {
                assert!(expression(text).is_some(), "{name}: {text}");
            }
        }
    }

    #[test]
    fn graphs_name_an_architecture_once() {
        let mut names: Vec<&str> = Block::each(GRAPHS.blocks).flat_map(Block::names).collect();
        let len = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), len, "an architecture has two blocks");
        let others = NAMES.get("architectures").expect("a block");
        let twice = others.iter().find(|name| graph(name).is_some());
        assert_eq!(twice, None, "an architecture has a block and is in names.txt");
    }

    #[test]
    fn names_are_those_of_the_loader() {
        assert!(knows_architecture("llama") && knows_architecture("clip"));
        assert!(!knows_architecture("flux") && !knows_architecture("architectures"));
        assert!(knows_pre_tokenizer("llama-bpe") && !knows_pre_tokenizer("own-bpe"));
    }
}
