//! The rows of canonical tensors in a file of families.

use super::text::{Line, Parsed};
use crate::arch::size::Size::{self, *};
use crate::arch::tensor::{CanonicalTensor, Need, Part, Role, TensorRow};

const PARTS: [(&str, Part); 3] =
    [("input", Part::Input), ("layers", Part::Layers), ("output", Part::Output)];

const ROLES: [(&str, Role); 6] = [
    ("matrix", Role::Matrix),
    ("table", Role::Table),
    ("norm", Role::Norm),
    ("router", Role::Router),
    ("convolution", Role::Convolution),
    ("vector", Role::Vector),
];

#[rustfmt::skip]
const SIZES: &[(&str, Size)] = &[
    ("any", Any), ("dim", Dim), ("embedding", Embedding),
    ("vocab", Vocab), ("embeddings", Embeddings), ("other_vocab", OtherVocab),
    ("queries", Queries), ("gated_queries", GatedQueries), ("keys", Keys), ("values", Values), ("outputs", Outputs),
    ("heads", Heads), ("key_heads", KeyHeads), ("head_dim", HeadDim),
    ("ffn", Ffn), ("wide_ffn", WideFfn),
    ("experts", Experts), ("expert_dim", ExpertDim), ("expert_ffn", ExpertFfn), ("shared_ffn", SharedFfn),
    ("positions", Positions), ("later_positions", LaterPositions), ("segments", Segments),
    ("query_rank", QueryRank), ("key_value_rank", KeyValueRank), ("key_value_rank_rotated", KeyValueRankRotated),
    ("per_layer", PerLayer),
    ("encoder_dim", EncoderDim), ("encoder_queries", EncoderQueries), ("encoder_keys", EncoderKeys),
    ("encoder_ffn", EncoderFfn),
    ("inner", Inner), ("channels", Channels), ("state_heads", StateHeads), ("group_states", GroupStates),
    ("state", State), ("step_rank", StepRank), ("conv_kernel", ConvKernel), ("short_conv", ShortConv),
];

/// The value of a word. Otherwise a fault, which names all words.
fn named<T: Copy>(line: &Line, table: &[(&str, T)], word: &str) -> Parsed<T> {
    let found = table.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        line.fault(format!("\"{word}\", but one of these is needed: {}", all.join(", ")))
    })
}

/// Adds the rows of a section to those of the sections before it.
pub(super) fn add(rows: &mut Vec<TensorRow>, head: &Line, lines: &[Line]) -> Parsed<()> {
    let part = named(head, &PARTS, head.word(0)?)?;
    for line in lines {
        let row = row(line, part)?;
        let of_file = |name: &str| rows.iter().any(|other| other.name == name);
        if of_file(row.name) {
            return Err(line.fault("the file has a row with this name above"));
        }
        if let Need::InsteadOf(other) = row.need
            && !(of_file(other) || CanonicalTensor::of(other, &[]).is_some())
        {
            return Err(line.fault(format!("instead_of: no tensor \"{other}\" above")));
        }
        rows.push(row);
    }
    Ok(())
}

fn row(line: &Line, part: Part) -> Parsed<TensorRow> {
    let name = line.keyword;
    if name.contains("layers.{n}.") != (part == Part::Layers) {
        let fault = "tensors of layers, and no others, have \"layers.{n}.\" in their names";
        return Err(line.fault(fault));
    }
    let role = named(line, &ROLES, line.word(0)?)?;
    let mut row = TensorRow { name, part, role, need: Need::No, shapes: &[], with_heads: &[] };
    let mut shapes = Vec::new();
    let mut words = line.from(1);
    while let Some(word) = words.next() {
        let mut next =
            || words.next().ok_or_else(|| line.fault(format!("a value is needed after {word}")));
        match word {
            "required" => row.need = Need::Yes,
            "instead_of" => row.need = Need::InsteadOf(next()?),
            "with_module" => row.need = Need::WithModule,
            "with_heads" => row.with_heads = shape(line, next()?)?,
            word => shapes.push(shape(line, word)?),
        }
    }
    if shapes.is_empty() {
        return Err(line.fault("no shape, but at least one is needed"));
    }
    row.shapes = shapes.leak();
    Ok(row)
}

/// The lengths of the axes, such as `dim,inner+inner`.
fn shape(line: &Line, word: &'static str) -> Parsed<&'static [Size]> {
    if word == "scalar" {
        return Ok(&[]);
    }
    let one = |word: &str| named(line, SIZES, word);
    let size = |word: &str| match word.contains('+') {
        true => Ok(Sum(word.split('+').map(one).collect::<Parsed<Vec<_>>>()?.leak())),
        false => one(word),
    };
    Ok(word.split(',').map(size).collect::<Parsed<Vec<_>>>()?.leak())
}

#[cfg(test)]
mod tests {
    use super::super::text::sections;
    use super::*;
    use crate::arch::tensor::rows_of_file;

    /// `build.rs` writes the rows of the built-in files as Rust.
    #[test]
    fn compiled_rows_are_those_of_the_files() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("families");
        let mut all = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "family") {
                continue;
            }
            let text: &'static str = std::fs::read_to_string(&path).unwrap().leak();
            let mut rows = Vec::new();
            for section in sections(text).unwrap() {
                if section.head.keyword == "canonical" {
                    add(&mut rows, &section.head, &section.lines).unwrap();
                }
            }
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!(format!("{rows:?}"), format!("{:?}", rows_of_file(name)), "{name}");
            all += rows.len();
        }
        assert!(all > 0);
    }
}
