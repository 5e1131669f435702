//! The spellings of modules, by which a model that no family describes gets names.

use std::sync::OnceLock;

use super::form;
use super::table::sound;
use super::text::{Line, Parsed, sections};
use crate::arch::Transform;
use crate::arch::transform::SAME;

/// Modules under some paths, and the conventions for their names.
#[derive(Debug)]
pub(crate) struct SpelledModules {
    /// The start of canonical names; `None` for tensors outside of layers.
    pub(crate) prefix: Option<&'static str>,
    /// Whether a further tensor next to the modules makes their meaning doubtful.
    pub(crate) is_closed: bool,
    /// Whether this applies only to models with a norm after the last layer.
    pub(crate) is_normed: bool,
    /// The paths within a layer.
    pub(crate) paths: &'static [&'static str],
    /// The conventions; the first one whose modules are all there applies.
    pub(crate) conventions: &'static [Convention],
}

/// Names of modules that belong together.
#[derive(Debug)]
pub(crate) struct Convention {
    pub(crate) members: Vec<Member>,
    pub(crate) conditions: Vec<ShapeCondition>,
}

/// A canonical tensor, and the names of the module that may hold it.
#[derive(Debug)]
pub(crate) struct Member {
    /// The canonical name after the prefix, without `.weight`.
    pub(crate) role: &'static str,
    pub(crate) spellings: Vec<&'static str>,
    pub(crate) transform: Transform,
}

/// The requirement of a convention besides its modules.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShapeCondition {
    OneKeyHead,
    FewerKeyHeads,
    AsManyKeyHeads,
    /// The matrices are stored as `[inputs, outputs]`.
    Transposed,
    /// The layer has another module.
    With(&'static str),
}

/// All spellings, in the order of `families/structure.spellings`.
pub(crate) fn spellings() -> &'static [SpelledModules] {
    static SPELLINGS: OnceLock<Vec<SpelledModules>> = OnceLock::new();
    const TEXT: &str = include_str!("../../../families/structure.spellings");
    SPELLINGS.get_or_init(|| sound("structure.spellings", parse(TEXT)))
}

fn parse(text: &'static str) -> Parsed<Vec<SpelledModules>> {
    let mut all = Vec::new();
    // Heads without lines have those of the next one.
    let mut heads: Vec<Line> = Vec::new();
    for section in sections(text)? {
        heads.push(section.head);
        if section.lines.is_empty() {
            continue;
        }
        let lines = section.lines.iter().map(convention);
        let conventions: &'static [Convention] = lines.collect::<Parsed<Vec<_>>>()?.leak();
        for head in heads.drain(..) {
            all.push(modules(&head, conventions)?);
        }
    }
    Ok(all)
}

fn modules(head: &Line, conventions: &'static [Convention]) -> Parsed<SpelledModules> {
    let words = head.list(0);
    let (flags, paths) = match words.iter().position(|word| *word == "in") {
        Some(at) => (words.get(..at), words.get(at.saturating_add(1)..)),
        None => (Some(words), None),
    };
    let flags = flags.unwrap_or_default();
    let prefix = match head.keyword {
        "model" => None,
        "layer" => Some(head.word(0)?),
        _ => return Err(head.fault("no such section, but model or layer is needed")),
    };
    Ok(SpelledModules {
        prefix,
        is_closed: flags.contains(&"closed"),
        is_normed: flags.contains(&"normed"),
        paths: paths.unwrap_or_default(),
        conventions,
    })
}

fn convention(line: &Line) -> Parsed<Convention> {
    let mut found = Convention { members: Vec::new(), conditions: Vec::new() };
    for word in std::iter::once(line.keyword).chain(line.from(0)) {
        let Some((role, names)) = word.split_once('=') else {
            found.conditions.push(match (word, word.strip_prefix("with:")) {
                (_, Some(module)) => ShapeCondition::With(module),
                ("one_key_head", _) => ShapeCondition::OneKeyHead,
                ("fewer_key_heads", _) => ShapeCondition::FewerKeyHeads,
                ("as_many_key_heads", _) => ShapeCondition::AsManyKeyHeads,
                ("transposed", _) => ShapeCondition::Transposed,
                _ => return Err(line.fault(format!("no condition \"{word}\""))),
            });
            continue;
        };
        let (names, form) = names.split_once(':').unwrap_or((names, ""));
        let transform = match form {
            "" => SAME,
            words => form::transform(words)
                .map_err(|unknown| line.fault(format!("no transform \"{unknown}\"")))?,
        };
        found.members.push(Member { role, spellings: names.split('|').collect(), transform });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::tensor::CanonicalTensor;

    #[test]
    fn every_role_is_a_canonical_tensor() {
        for modules in spellings() {
            assert_eq!(modules.prefix.is_none(), modules.paths.is_empty());
            for member in modules.conventions.iter().flat_map(|convention| &convention.members) {
                let start = modules.prefix.map_or_else(String::new, |p| format!("layers.0.{p}"));
                let name = format!("{start}{}", member.role);
                let weight = format!("{name}.weight");
                let known = |name: &str| CanonicalTensor::of(name, &[]).is_some();
                assert!(known(&name) != known(&weight), "{name}");
            }
        }
    }

    #[test]
    fn faults_have_lines() {
        assert_eq!(parse("[layer a. in b]\nq=x  unheard").unwrap_err().line, 2);
        assert_eq!(parse("[other]\nq=x").unwrap_err().line, 1);
    }
}
