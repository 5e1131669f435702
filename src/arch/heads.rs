//! The heads of classes for other tasks than generating text: the tensors that the class in `config.json` has beside those
//! of the model.

use std::collections::HashSet;

use super::config::class_name;
use super::tensor::Part;
use super::{Architecture, Resolution};
use crate::bytes::Text;
use crate::dialect::Dialect;
use crate::engines::transformers::{self, Head};
use crate::error::Result;
use crate::store::Store;

/// The tasks, after `For`, of classes that score texts or tokens, whatever program has the class.
const SCORING: [&str; 5] =
    ["Classification", "MultipleChoice", "QuestionAnswering", "Reward", "Ranking"];

/// Detects the architecture and maps every stored tensor to its canonical name, if it has one. Tensors of a head that the
/// model lacks are missing too.
///
/// # Errors
///
/// Same as [`super::resolve::resolve`].
pub(crate) fn resolve(store: &Store) -> Result<Resolution> {
    let mut resolution = super::resolve::resolve(store)?;
    // Arrays of a scheme that is not supported may stand for any tensor.
    if store.check_known().is_ok() {
        let lacking = lacking(store, &resolution);
        resolution.missing.extend(lacking);
    }
    Ok(resolution)
}

/// The class whose names the files have. Classes of MLX have no such heads.
fn class<'s>(store: &'s Store, resolution: &Resolution) -> Option<&'s str> {
    let is_whole = !(resolution.mapped.is_empty() && resolution.unknown.is_empty());
    let config = store.document("config.json")?;
    let is_of_class = resolution.dialect == Dialect::HuggingFace && is_whole;
    class_name(config).filter(|_| is_of_class)
}

/// The tensors of a head that the model lacks. transformers loads the model, and initializes them at random.
fn lacking(store: &Store, resolution: &Resolution) -> Vec<String> {
    let class = class(store, resolution);
    let head = class.and_then(|class| Some((class, transformers::head(class)?)));
    if let Some((class, head)) = head {
        let stored = stored(store, resolution);
        let zero = zero_biases(head, &stored);
        let lacking = head.lacking(&stored).filter(|_| !head.predicts_words);
        let lacking = lacking.filter(|name| !zero.contains(name));
        return lacking.map(|name| format!("{name} (the head of {class})")).collect();
    }
    match class.filter(|class| lacks_any(class, resolution)) {
        Some(class) => vec![format!("the head of {}", Text::new(class.as_bytes()).brief())],
        None => resolution.architecture.map_or_else(Vec::new, |row| halves(row, resolution)),
    }
}

/// The biases of a head that the model lacks although it has their matrices. transformers initializes them with zeros.
fn zero_biases(head: &Head, stored: &HashSet<String>) -> Vec<&'static str> {
    let lacking: Vec<&str> = head.lacking(stored).collect();
    let has_matrix = |name: &&str| {
        let matrix = name.strip_suffix("bias").map(|module| format!("{module}weight"));
        matrix.is_some_and(|matrix| head.names.contains(&&*matrix) && !lacking.contains(&&*matrix))
    };
    lacking.iter().copied().filter(has_matrix).collect()
}

/// A note on tensors of a head that the model may lack: a head that predicts words, which vectors of texts do not need, and
/// biases, which are then zeros.
pub(crate) fn remark(store: &Store, resolution: &Resolution) -> Option<String> {
    let class = class(store, resolution)?;
    let head = transformers::head(class)?;
    let stored = stored(store, resolution);
    if !head.predicts_words {
        let zero = zero_biases(head, &stored);
        let names = zero.join(", ");
        let note = || format!("the model lacks {names} of {class}: transformers takes zeros");
        return (!zero.is_empty()).then(note);
    }
    (head.lacking(&stored).count() == head.names.len()).then(|| {
        format!(
            "config.json has the class {class}, but no tensor of its head is stored: transformers initializes it at random; \
             the rest of the model is whole"
        )
    })
}

/// The stored names without the pieces of wrappers.
fn stored(store: &Store, resolution: &Resolution) -> HashSet<String> {
    store.tensors().map(|tensor| resolution.bare(&tensor.name().spelling()).into_owned()).collect()
}

/// Whether a class of other code scores texts, and each tensor is one of the model alone.
fn lacks_any(class: &str, resolution: &Resolution) -> bool {
    let task = class.rsplit_once("For").map_or("", |(_, task)| task);
    let is_of_head = |name: &str| {
        let tensor = resolution.canonical_tensor(name);
        let is_last = tensor.is_some_and(|tensor| tensor.part() == Part::Output);
        is_last && !name.contains("output_norm.") && !name.starts_with("pooler.")
    };
    SCORING.iter().any(|scoring| task.contains(scoring))
        && resolution.architecture.is_some()
        && resolution.unknown.is_empty()
        && resolution.auxiliary.iter().all(|tensor| tensor.is_computed() || tensor.is_of_a_tower())
        && !resolution.mapped.iter().any(|mapping| is_of_head(&mapping.canonical))
}

/// The matrices outside of layers that the model lacks although it has their bias.
fn halves(architecture: &Architecture, resolution: &Resolution) -> Vec<String> {
    let has = |name: &str| resolution.mapped.iter().any(|known| known.canonical == name);
    let is_half = |name: &&str| {
        let bias = name.strip_suffix("weight").map(|module| format!("{module}bias"));
        bias.is_some_and(|bias| has(&bias)) && !has(name)
    };
    architecture.required_with_bias().filter(is_half).map(str::to_owned).collect()
}
