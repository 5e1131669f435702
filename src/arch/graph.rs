//! The requirements of llama.cpp's loader on a GGUF file: the tensors of each architecture, their
//! shapes, and keys. A file that lacks one of them, or has a tensor too many, is not loaded.
//!
//! The facts are in `engines/llama.cpp`. `cargo xtask oracles` compares the faults with what llama.cpp
//! does when it loads changed files.

use std::collections::HashSet;

use super::rule::expand;
use crate::bytes::Text;
use crate::engines::expression::{Check, Expression, Term, whole};
use crate::engines::llama_cpp::{self, Graph};
use crate::json::{Json, Map};
use crate::metadata::Metadata;
use crate::rounding::f32_of;

/// The most layers and experts that llama.cpp has room for (`LLAMA_MAX_LAYERS`,
/// `LLAMA_MAX_EXPERTS`).
const MOST: u64 = 512;

/// The numbers of a GGUF file, as llama.cpp's `load_hparams` derives them.
pub(crate) struct Numbers<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
    vocab: u64,
}

impl Numbers<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.metadata.get(&self.key(key)).is_some()
    }

    /// Whether a key is there that does not follow the architecture's name.
    pub(crate) fn has_whole(&self, key: &str) -> bool {
        self.metadata.get(key).is_some()
    }

    /// A count; 0 if it is missing.
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.metadata.u64(&self.key(key)).unwrap_or(0)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.str(&self.key(key))
    }

    /// A count that may differ by layer; `None` if it is missing.
    pub(crate) fn each(&self, key: &str, layer: u32) -> Option<u64> {
        let key = self.key(key);
        match self.metadata.array(&key) {
            Some(list) => {
                let number = list.integers()?.nth(layer as usize)?;
                u64::try_from(number).ok()
            }
            None => self.metadata.u64(&key),
        }
    }

    /// The number of elements of a list; `None` if the key is missing or no list.
    pub(crate) fn elements(&self, key: &str) -> Option<u64> {
        self.metadata.array(&self.key(key)).map(|list| list.len())
    }

    /// The number of layers for which a list has a number above 0, or true; a number is that of all.
    fn layers_with(&self, key: &str) -> Option<u64> {
        let layers = 0..self.layers();
        let has = |layer: &u32| {
            self.flag(key, *layer).unwrap_or_else(|| self.each(key, *layer).is_some_and(|n| n > 0))
        };
        self.has(key).then(|| layers.filter(has).count() as u64)
    }

    /// Whether the value of a key is this text, or the number that it spells.
    #[expect(clippy::cast_possible_truncation, reason = "llama.cpp reads an f32")]
    fn is(&self, key: &str, text: &str) -> bool {
        let number = || self.metadata.get(&self.key(key))?.to_f64();
        match self.text(key) {
            Some(stated) => stated == text,
            None => number().is_some_and(|number| text.parse() == Ok(number as f32)),
        }
    }

    /// A flag of a layer, from a list of flags or of integers.
    pub(crate) fn flag(&self, key: &str, layer: u32) -> Option<bool> {
        let list = self.metadata.array(&self.key(key))?;
        match list.bools() {
            Some(mut flags) => flags.nth(layer as usize),
            None => list.integers()?.nth(layer as usize).map(|number| number != 0),
        }
    }

    pub(crate) fn layers(&self) -> u32 {
        u32::try_from(self.count("block_count").saturating_sub(self.count("nextn_predict_layers")))
            .unwrap_or(u32::MAX)
    }

    /// The layers of the decoder of a model whose other layers are an encoder's.
    fn decoder_layers(&self) -> u32 {
        let stated = self.metadata.u64(&self.key("decoder_block_count"));
        stated.map_or(self.layers(), |layers| u32::try_from(layers).unwrap_or(u32::MAX))
    }

    /// The labels of a classifier; one unless the file names them.
    pub(crate) fn labels(&self) -> u64 {
        let labels = self.metadata.array(&self.key("classifier.output_labels"));
        labels.map_or(1, |labels| labels.len())
    }

    /// The value of a term, for a layer.
    fn term(&self, term: &Term, layer: u32) -> Option<u64> {
        match term {
            Term::Layer => Some(layer.into()),
            Term::Vocab => Some(self.vocab),
            Term::Layers => Some(self.layers().into()),
            Term::Labels => Some(self.labels()),
            Term::TokenTypes => self.metadata.u64("tokenizer.ggml.token_type_count"),
            Term::Key(key) => {
                let key = self.key(key);
                let value = self.metadata.get(&key)?;
                let flag = || value.to_bool().map(u64::from);
                self.metadata.u64(&key).or_else(flag).or_else(|| whole(value.to_f64()?))
            }
            Term::Element(key, position) => self.each(key, position.unwrap_or(layer)),
            Term::Flag(key) => self.flag(key, layer).map(u64::from),
            Term::Elements(key) => self.elements(key),
            Term::LayersWith(key) => self.layers_with(key),
            Term::Has(key) => Some(self.has(key).into()),
            Term::HasGeneral(key) => Some(self.has_whole(key).into()),
            Term::Is(key, text) => Some(self.is(key, text).into()),
        }
    }

    /// The value of an expression, for a layer; 0 if a term is missing.
    fn value(&self, expression: &Expression, layer: u32) -> u64 {
        expression.value(&|term| self.term(term, layer)).unwrap_or(0)
    }

    /// The fault of a file that does not meet a condition, for a layer.
    fn fault(&self, check: &Check, layer: u32) -> Option<String> {
        (self.value(&check.holds, layer) == 0).then(|| {
            let mut parts = check.fault.split(['{', '}']);
            let mut sentence = parts.next().unwrap_or_default().to_owned();
            // Every second part is an expression.
            while let Some(part) = parts.next() {
                let value = llama_cpp::expression(part).map(|number| self.value(&number, layer));
                sentence.extend(value.map(|value| value.to_string()));
                sentence.push_str(parts.next().unwrap_or_default());
            }
            sentence
        })
    }
}

/// The tensors of a GGUF file: names, and dimensions in the order of rows and columns.
pub(crate) type Stored<'a> = &'a dyn Fn(&str) -> Option<Vec<u64>>;

/// The reasons why llama.cpp does not load a file of this architecture, one sentence for each
/// fault; empty if it does.
pub(crate) fn faults<'a>(
    graph: &Graph,
    architecture: &str,
    metadata: &Metadata,
    names: impl Iterator<Item = &'a str>,
    stored: Stored<'_>,
) -> Vec<String> {
    let tokens = metadata.array("tokenizer.ggml.tokens").map(|list| list.len());
    let rows = || stored("token_embd.weight").and_then(|shape| shape.first().copied());
    let stated = metadata.u64(&format!("{architecture}.vocab_size"));
    let vocab = tokens.or(stated).or_else(rows).unwrap_or(0);
    let numbers = Numbers { metadata, architecture, vocab };
    let mut faults = keys(graph, &numbers);
    if !faults.is_empty() {
        return faults;
    }
    faults.extend(graph.checks.iter().filter_map(|check| numbers.fault(check, 0)));
    let (layers, decoder_layers) = (numbers.layers(), numbers.decoder_layers());
    let mut read = HashSet::new();
    for row in &graph.tensors {
        let places = match (row.name.contains("{n}"), row.name.starts_with("dec.")) {
            (false, _) => 0..1,
            (true, false) => 0..layers,
            (true, true) => 0..decoder_layers,
        };
        for layer in places {
            let named = |pattern: &str| expand(pattern, Some(layer));
            let other = |pattern: &str| stored(&named(pattern)).is_some();
            let applies = row.when.as_ref().is_none_or(|when| numbers.value(when, layer) != 0)
                && !row.unless.is_some_and(other)
                && row.with.is_none_or(other);
            if !applies {
                continue;
            }
            let name = named(row.name);
            let sizes = row.shape.iter().map(|size| numbers.value(size, layer));
            let mut wanted: Vec<u64> = sizes.collect();
            let Some(mut shape) = stored(&name) else {
                if row.required {
                    faults.push(format!(
                        "{name} is missing, which llama.cpp requires of {architecture}"
                    ));
                }
                continue;
            };
            shape.reverse();
            trim(&mut wanted);
            trim(&mut shape);
            if shape != wanted {
                wanted.reverse();
                shape.reverse();
                faults.push(format!(
                    "{name} is {shape:?}, but llama.cpp requires {wanted:?} of {architecture}"
                ));
            }
            read.insert(name);
        }
    }
    for name in names {
        let scale = name.strip_suffix(".scale").or_else(|| name.strip_suffix(".input_scale"));
        let scaled = scale.is_some_and(|base| read.contains(&format!("{base}.weight")));
        let known = read.contains(name) || scaled || (graph.nextn && is_next(name, layers));
        if !known {
            faults
                .push(format!("llama.cpp has no place for {name} in its graph of {architecture}"));
        }
    }
    faults
}

/// YaRN's bounds in llama.cpp, unless the loader reads them.
const BETAS: [(&str, f64); 2] =
    [("rope.scaling.yarn_beta_fast", 32.0), ("rope.scaling.yarn_beta_slow", 1.0)];

/// The statements of a file or its model's `config.json` that the graph does not compute with, one
/// sentence each.
pub(crate) fn ignored(
    graph: &Graph,
    architecture: &str,
    metadata: &Metadata,
    stated: &Map<String, Json>,
) -> Vec<String> {
    let mut out = Vec::new();
    let numbers = Numbers { metadata, architecture, vocab: 0 };
    let layers = 0..numbers.layers().max(1);
    let of_layers = |remark| layers.clone().find_map(|layer| numbers.fault(remark, layer));
    out.extend(graph.remarks.iter().filter_map(of_layers));
    // Without a document, nothing is known of values that GGUF has no key for.
    let remarks = graph.stated_remarks.iter().filter(|_| !stated.is_empty());
    let faults = remarks.filter_map(|remark| remark.fault_of(stated, None));
    out.extend(faults.map(str::to_owned));
    for (key, usual) in BETAS {
        let key = format!("{architecture}.{key}");
        let Some(value) = metadata.f64(&key).filter(|value| (value - usual).abs() > 1e-6) else {
            continue;
        };
        // Programs may set their own: llama-cpp-python does so by default.
        let why = match graph.reads_betas {
            true => "which programs that set the bounds of YaRN themselves replace",
            false => "which is not read for this architecture",
        };
        out.push(format!("{key} is {}, {why}: {usual} applies", f32_of(value)));
    }
    out
}

/// Whether a tensor belongs to a layer that predicts further tokens.
fn is_next(name: &str, layers: u32) -> bool {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number >= layers)
}

/// Removes ones at the end.
fn trim(shape: &mut Vec<u64>) {
    while shape.len() > 1 && shape.last() == Some(&1) {
        shape.pop();
    }
}

/// Faults of keys: those that every architecture requires, and the architecture's own.
fn keys(graph: &Graph, numbers: &Numbers<'_>) -> Vec<String> {
    let required = ["context_length", "embedding_length", "block_count"];
    let missing = required.iter().chain(&graph.keys).filter(|key| !numbers.has(key));
    let mut faults: Vec<String> = missing
        .map(|key| {
            let key = numbers.key(key);
            format!("no {key}: llama.cpp does not load the file")
        })
        .collect();
    let (experts, used) = (numbers.count("expert_count"), numbers.each("expert_used_count", 0));
    let used = used.unwrap_or(0);
    let (groups, chosen) =
        (numbers.count("expert_group_count"), numbers.count("expert_group_used_count"));
    let counts = [
        ("block_count", numbers.count("block_count"), 1, MOST),
        // A decoder with more layers than the encoder has no place for its keys and values.
        (
            "decoder_block_count",
            numbers.count("decoder_block_count"),
            0,
            numbers.count("block_count"),
        ),
        ("expert_count", experts, 0, MOST),
        ("expert_used_count", used, u64::from(experts > 0), experts),
        ("expert_group_count", groups, 0, experts.saturating_sub(1)),
    ];
    for (key, found, least, most) in counts {
        if !faults.is_empty() {
            break;
        }
        if !(least..=most).contains(&found) {
            let key = numbers.key(key);
            faults.push(format!("{key} is {found}, but llama.cpp requires {least} to {most}"));
        }
    }
    if groups > 1 && (experts.checked_rem(groups) != Some(0) || chosen == 0 || chosen >= groups) {
        let key = numbers.key("expert_group_count");
        faults.push(format!("{key}: llama.cpp requires that groups divide the experts, and uses some of them: {groups} groups, {chosen} used"));
    }
    let known = ["none", "linear", "yarn", "longrope"];
    if let Some(kind) = numbers.text("rope.scaling.type").filter(|kind| !known.contains(kind)) {
        let (key, kind) = (numbers.key("rope.scaling.type"), Text::new(kind.as_bytes()).brief());
        faults.push(format!("{key} is {kind}, which llama.cpp does not know"));
    }
    faults
}
