//! Opening GGUF files: detection, shards, and directories of them.

use std::path::Path;
use std::sync::Arc;

use super::super::{DetectedPath, OpenOptions, Probe};
use super::header::GgufHeader;
use super::projector::{self, is_gguf, is_projector};
use super::{header, split};
use crate::bytes::{Files, Source};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::store::{Encoding, Indexed, NewGroup, Part, Store, StoreBuilder, StoredFile};

/// The name of the container.
pub(super) const NAME: &str = "gguf";

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.directory {
        Some(names) => {
            let safetensors = names.iter().any(|name| name.ends_with(".safetensors"));
            !safetensors && names.iter().any(|name| is_gguf(name))
        }
        None => probe.head.starts_with(b"GGUF"),
    }
}

pub(super) fn open(opened: DetectedPath, options: &OpenOptions) -> Result<Store> {
    let (source, folder) = match opened {
        DetectedPath::File(source) => (source, None),
        DetectedPath::Directory(path, names) => {
            let file = only_model(&path, &names).map_err(|error| error.in_file(&path))?;
            (options.files.open(&file, options.access)?, Some((path, names)))
        }
    };
    if matches!(options.files, Files::Absent) {
        return open_source_as(NAME, source, options);
    }
    let path = source.path().to_path_buf();
    let first = header::parse(source, options)?;
    let mut store = match split::ShardPosition::of(&first.metadata)? {
        Some(place) if place.count > 1 => {
            build(NAME, &path, split::open(&path, first, place, options)?)?
        }
        _ => build(NAME, &path, vec![first])?,
    };
    if let Some((folder, names)) = folder {
        attach(&mut store, &folder, &names, options);
    }
    Ok(store)
}

/// Attaches the projector that lies beside a model.
pub(in super::super) fn attach(
    store: &mut Store,
    folder: &Path,
    names: &[String],
    options: &OpenOptions,
) {
    projector::attach(store, folder, names, &|path| {
        let source = options.files.open(path, options.access)?;
        let bytes = source.len();
        Ok((bytes, build(NAME, path, vec![header::parse(source, options)?])?))
    });
}

/// Opens a single file that is in memory or part of another container. A shard of a split model is
/// refused.
pub(in super::super) fn open_source_as(
    container: &'static str,
    source: Source,
    options: &OpenOptions,
) -> Result<Store> {
    let path = source.path().to_path_buf();
    let parsed = header::parse(source, options)?;
    if split::ShardPosition::of(&parsed.metadata)?.is_some_and(|place| place.count > 1) {
        return Err(Error::malformed(
            "a single shard of a split model cannot be opened without the others",
        )
        .in_file(&path));
    }
    build(container, &path, vec![parsed])
}

/// The only model in a directory of GGUF files: a file, or a set of shards. Projectors
/// (`mmproj-*.gguf`) and importance matrices are ignored if there are other files.
fn only_model(path: &Path, names: &[String]) -> Result<std::path::PathBuf> {
    let mut models: Vec<&String> = names.iter().filter(|name| is_gguf(name)).collect();
    let main = |name: &&String| !is_projector(name) && !name.contains("imatrix");
    if models.iter().any(main) {
        models.retain(main);
    }
    // Of each set, the first shard that is there.
    let set = |name: &str| split::ShardName::parse(name).map(|shard| shard.of_shard(0));
    models.sort_unstable();
    models.dedup_by(|later, first| set(first).is_some_and(|own| set(later) == Some(own)));
    match models.as_slice() {
        [one] => Ok(path.join(one)),
        several => {
            let list: Vec<&str> = several.iter().take(8).map(|name| name.as_str()).collect();
            let more = match several.len().saturating_sub(list.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let (count, list) = (several.len(), list.join(", "));
            let fault = format!("the directory contains {count} models: {list}{more}");
            Err(Error::mismatch(fault).advise(
                "give the path of one of them, or where several are taken, as FOLDER/*.gguf",
            ))
        }
    }
}

/// Builds the store of one file, or of all shards in order.
fn build(container: &'static str, path: &Path, shards: Vec<GgufHeader>) -> Result<Store> {
    let mut builder = StoreBuilder::new(container, Encoding::Gguf, path);
    builder.reserve(shards.iter().map(|shard| &shard.listing))?;
    for (number, shard) in shards.into_iter().enumerate() {
        builder.notes.extend(shard.notes);
        let GgufHeader { header, big_endian, .. } = shard;
        let file = StoredFile { source: Arc::new(shard.source), header, big_endian };
        builder.add(file, shard.listing)?;
        if number == 0 {
            builder.metadata = shard.metadata;
            builder.version = Some(shard.version);
        }
    }
    let notes =
        kind_note(&builder.metadata).into_iter().chain(splits_by_default(&builder.metadata));
    for note in notes.collect::<Vec<_>>() {
        builder.note(path, note);
    }
    let mut indexed = builder.index(|_, first, second| {
        if first == second {
            Error::malformed("duplicate tensor name")
        } else {
            Error::malformed(format!("{} has a tensor with the same name", first.display()))
        }
    })?;
    attach_nvfp4_scales(&mut indexed)?;
    Ok(indexed.finish())
}

/// A note for a file of before May 2024, which does not state how its tokenizer splits text.
fn splits_by_default(metadata: &Metadata) -> Option<String> {
    let has = |key: &str| metadata.get(key).is_some();
    // SentencePiece's tokenizers have scores.
    let has_merges = has("tokenizer.ggml.merges") && !has("tokenizer.ggml.scores");
    (has_merges && !has("tokenizer.ggml.pre")).then(|| {
        "no tokenizer.ggml.pre: llama.cpp splits text by default rules, which may not be the model's, so that \
         its answers are worse: convert the original model again, or set the key"
            .to_owned()
    })
}

/// A note for a GGUF file that does not hold a whole model.
fn kind_note(metadata: &Metadata) -> Option<String> {
    let named = |what: &str| match metadata.str("general.name") {
        Some(name) => Some(format!("{what}: {}", crate::bytes::Text::new(name.as_bytes()))),
        None => Some(what.to_owned()),
    };
    match metadata.str("general.type") {
        Some("adapter") => match metadata.str("adapter.type") {
            Some("lora") => named("a LoRA adapter, to be applied to a base model"),
            _ => named("an adapter, to be applied to a base model"),
        },
        Some("mmproj") => named("a multimodal projector, to be used with a language model"),
        Some("imatrix") => named("an importance matrix, for use while quantizing"),
        _ if metadata.str("general.architecture") == Some("clip") => {
            named("a multimodal projector, to be used with a language model")
        }
        _ => None,
    }
}

/// Joins NVFP4 tensors with their global scales. The F32 tensor `x.scale` holds the factor of the
/// NVFP4 tensor `x.weight`, or one factor for each expert. Next to any other dtype, `x.scale` is a
/// tensor of its own.
fn attach_nvfp4_scales(indexed: &mut Indexed) -> Result<()> {
    let count = u32::try_from(indexed.len()).unwrap_or(u32::MAX);
    let is = |indexed: &Indexed, number: u32, dtype: DType| indexed.dtype(number) == Some(dtype);
    let heads: Vec<u32> = (0..count).filter(|&n| is(indexed, n, DType::NVFP4)).collect();
    for head in heads {
        let Some(entry) = indexed.get(head) else { continue };
        let Some(base) = entry.name.as_bytes().strip_suffix(b".weight") else { continue };
        let scale = indexed.find(&[base, b".scale"].concat());
        if let Some(scale) = scale.filter(|&scale| is(indexed, scale, DType::F32)) {
            let companions = &[(Part::GlobalScale, scale)];
            let grouped = NewGroup {
                dtype: DType::NVFP4,
                group_size: 0,
                name: None,
                shape: None,
                companions,
            };
            indexed.group(head, grouped)?;
        }
    }
    Ok(())
}
