//! The modules of sentence-transformers: the files that state how the outputs of an embedding model
//! become one vector, from GGUF's keys and tensors.

use crate::arch::config::pooling::MODES;
use crate::arch::{Architecture, Resolution};
use crate::json::{Json, Map, json};
use crate::store::Store;

/// The canonical names of the dense layers after the pooling, in their order. They are GGUF's names
/// too.
pub(crate) fn dense_names(architecture: &Architecture) -> impl Iterator<Item = &'static str> {
    let rules = architecture.rules.iter().copied().flatten().map(|rule| rule.canonical);
    rules.filter(|name| name.starts_with("dense_"))
}

/// The dense layers that a model in GGUF has, each with the folder of its module: that of
/// `dense_2.weight` is `2_Dense`.
pub(crate) fn dense_layers(resolution: &Resolution) -> Vec<(&'static str, String)> {
    let has = |name: &str| resolution.mapped.iter().any(|mapping| mapping.canonical == name);
    let names = resolution.architecture.into_iter().flat_map(dense_names);
    let number = |name: &str| name.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    names.filter(|name| has(name)).map(|name| (name, format!("{}_Dense", number(name)))).collect()
}

/// Whether a tensor of a GGUF file gets a folder of its module in a directory.
pub(crate) fn has_folder(store: &Store, resolution: &Resolution, canonical: &str) -> bool {
    pooling(store).is_some() && dense_layers(resolution).iter().any(|(name, _)| *name == canonical)
}

/// The number of a GGUF file's pooling, if it is one that sentence-transformers has.
pub(crate) fn pooling(store: &Store) -> Option<u64> {
    let family = store.metadata().str("general.architecture")?;
    let stated = store.metadata().u64(&format!("{family}.pooling_type"))?;
    MODES.iter().any(|(.., mode)| u64::from(*mode) == stated).then_some(stated)
}

/// The documents that state the pooling of a model in GGUF, its dense layers, and that vectors are
/// normalized, as llama.cpp does. Empty for a model without pooling.
pub(super) fn files(store: &Store, resolution: &Resolution) -> Vec<(&'static str, Json)> {
    let Some(number) = pooling(store) else { return Vec::new() };
    let family = store.metadata().str("general.architecture").unwrap_or_default();
    let width = store.metadata().u64(&format!("{family}.embedding_length")).unwrap_or(0);
    let mut pooling = Map::from_iter([("word_embedding_dimension".to_owned(), width.into())]);
    for (key, _, mode) in MODES {
        pooling.insert(key.to_owned(), (u64::from(mode) == number).into());
    }
    for key in ["max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens"] {
        pooling.insert(format!("pooling_mode_{key}"), false.into());
    }
    pooling.insert("include_prompt".to_owned(), true.into());
    let mut modules = vec![("Transformer", String::new()), ("Pooling", "1_Pooling".to_owned())];
    modules.extend(dense_layers(resolution).into_iter().map(|(_, folder)| ("Dense", folder)));
    modules.push(("Normalize", format!("{}_Normalize", modules.len())));
    let modules = modules.into_iter().enumerate().map(|(number, (kind, path))| {
        let class = format!("sentence_transformers.models.{kind}");
        json!({"idx": number, "name": number.to_string(), "path": path, "type": class})
    });
    vec![("modules.json", modules.collect()), ("1_Pooling/config.json", Json::Object(pooling))]
}
