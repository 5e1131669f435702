//! Tensor blobs: small safetensors files, each with one tensor and its parts, or with several.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::super::groups::{GroupArrays, GroupEntries, GroupScheme, contradiction};
use super::super::safetensors::header::{self, SafetensorsHeader};
use super::super::{OpenOptions, Probe};
use super::manifest::{Layer, Manifest};
use super::types::{QuantType, QuantTypeDescriptor, TYPES};
use crate::bytes::{Access, Source};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::store::{Document, Encoding, Indexed, Part, Store, StoreBuilder, StoredFile, document};

/// The name of the container.
pub(super) const NAME: &str = "ollama";

/// The number of blobs whose files stay open. Others are reopened when their data is read, since
/// systems limit the open files of a process.
const KEPT_OPEN: usize = 64;

/// Whether a file is named like a blob and holds tensors instead of a whole model.
pub(super) fn is_tensor_blob(probe: &Probe<'_>) -> bool {
    let name = probe.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    super::manifest::Digest::parse(name).is_ok() && header::looks_right(probe.head, probe.len)
}

/// Opens a single tensor blob.
pub(super) fn open_blob(source: Source, options: &OpenOptions) -> Result<Store> {
    let builder = StoreBuilder::new(NAME, Encoding::Safetensors, source.path());
    build(builder, vec![header::parse(source, options)?])
}

/// Opens the tensor blobs of a manifest.
pub(super) fn open_tensors(
    path: &Path,
    store: &Path,
    manifest: &Manifest,
    options: &OpenOptions,
) -> Result<Store> {
    let mut builder = StoreBuilder::new(NAME, Encoding::Safetensors, path);
    // Other documents, such as tokenizers, are read on request.
    let is_config = |layer: &&Layer| layer.kind == "json" && layer.name == "config.json";
    for layer in manifest.layers.iter().filter(is_config) {
        let source = layer.open(store, &options.files, Access::Read)?;
        builder.documents.push(document::read(
            &options.files,
            source.path(),
            &layer.name,
            &options.limits,
        )?);
    }
    // Several layers may name the same blob; its tensors are added only once.
    let mut seen = HashSet::new();
    let layers: Vec<&Layer> = manifest
        .layers
        .iter()
        .filter(|layer| layer.kind == "tensor" && seen.insert(layer.digest.hex()))
        .collect();
    let most = options.limits.shards as usize;
    if layers.len() > most {
        return Err(Error::limit("blobs", layers.len() as u64, most as u64, "shards"));
    }
    let keep_open = layers.len() <= KEPT_OPEN;
    // Threads that map many small files wait for each other: two take 19 to 30 ms for 700 blobs, one
    // takes 15 ms.
    let parse = |layer: &&Layer| {
        let mut parsed =
            header::parse(layer.open(store, &options.files, options.access)?, options)?;
        // In the first layout, the only tensor of every blob was named `data`.
        if parsed.listing.len() == 1 {
            let named = parsed.listing.get(0, &parsed.header).map(|entry| entry.name);
            if named.is_some_and(|name| name == "data") {
                parsed.listing.rename_last(layer.name.as_bytes())?;
            }
        }
        if !keep_open {
            parsed.source.release();
        }
        Ok(parsed)
    };
    build(builder, layers.iter().map(parse).collect::<Result<_>>()?)
}

fn build(mut builder: StoreBuilder, blobs: Vec<SafetensorsHeader>) -> Result<Store> {
    builder.reserve(blobs.iter().map(|parsed| &parsed.listing))?;
    let mut metadata = Vec::new();
    for parsed in blobs {
        builder.notes.extend(parsed.notes);
        let SafetensorsHeader { source, header, listing, .. } = parsed;
        metadata.push(parsed.metadata);
        let source = Arc::new(source);
        builder.add(StoredFile { source, header, big_endian: false }, listing)?;
    }
    let config =
        builder.documents.iter().find(|document: &&Document| document.name == "config.json");
    let config = config.map_or(Json::Null, |document| document.json.clone());
    let mut indexed = builder.index(|_, first, second| {
        Error::malformed(format!("{} has a tensor with the same name", first.display()))
            .in_file(second)
    })?;
    gather(&mut indexed, &metadata, &config)?;
    if let [one] = &mut metadata[..] {
        indexed.set_metadata(std::mem::take(one));
    }
    Ok(indexed.finish())
}

/// The suffixes of the other parts of a weight: those of today, and those of the first layout.
const ENDINGS: [[&str; 3]; 2] =
    [[".scale", ".bias", ".global_scale"], ["_scale", "_qbias", "_global_scale"]];

/// Joins each packed weight with its parts. A tensor whose name ends in `.scale` or `.bias` stays a
/// tensor of its own unless the rest of its name is a packed weight.
fn gather(indexed: &mut Indexed, metadata: &[Metadata], config: &Json) -> Result<()> {
    let mut guessed = None;
    for head in 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX) {
        let Some(weight) = indexed.get(head) else { continue };
        let name = weight.name.to_string();
        let path = indexed.path(head).to_path_buf();
        let located = |error: Error| error.in_file(&path).in_tensor(&name);
        let blob = indexed.file(head).and_then(|file| metadata.get(file as usize));
        let said = blob.and_then(|blob| stated_type(blob, &name));
        let part =
            |ending: &str| indexed.find(&[weight.name.as_bytes(), ending.as_bytes()].concat());
        let endings = ENDINGS.iter().find(|endings| part(endings[0]).is_some());
        let Some([scales, biases, global]) = endings.map(|endings| endings.map(part)) else {
            if said.is_some() && weight.dtype == Ok(DType::U32) {
                let fault =
                    "the blob's metadata say that the tensor is quantized, but .scale is missing";
                return Err(located(Error::malformed(fault).advise("pull the model again")));
            }
            continue;
        };
        let Some(scales) = scales else { continue };
        if weight.dtype != Ok(DType::U32) {
            continue;
        }
        let global = global.map(|number| (Part::GlobalScale, number));
        let entries = GroupEntries { weight: head, scales, biases, global };
        let Some(parts) = entries.parts(indexed) else { continue };
        let (reading, sure) = select_scheme(&parts, said, config).map_err(located)?;
        if !sure {
            guessed.get_or_insert_with(|| (path.clone(), name.clone()));
        }
        entries.join(indexed, &reading).map_err(located)?;
    }
    if let Some((path, name)) = guessed {
        let text = "its quantization is not stated: read with the group sizes that Ollama writes";
        indexed.note(&path, format!("tensor \"{name}\": {text}"));
    }
    Ok(())
}

/// The type and group size of a tensor in the blob's metadata, for this tensor or for all.
fn stated_type<'a>(blob: &'a Metadata, name: &str) -> Option<(&'a str, Option<&'a str>)> {
    let own = |key: &str| blob.str(&format!("{name}.{key}"));
    let kind = own("quant_type").or_else(|| blob.str("quant_type"))?;
    Some((kind, own("group_size").or_else(|| blob.str("group_size"))))
}

/// The interpretation of a weight, and whether it is certain.
fn select_scheme(
    parts: &GroupArrays<'_>,
    said: Option<(&str, Option<&str>)>,
    config: &Json,
) -> Result<(GroupScheme, bool)> {
    let mut readings = parts.readings()?;
    let list = |readings: &[GroupScheme]| {
        let list: Vec<String> = readings.iter().map(GroupScheme::to_string).collect();
        if list.is_empty() { "nothing".to_owned() } else { list.join(", or ") }
    };
    if let Some((kind, group_size)) = said {
        let Some(row) = QuantType::from_name(kind).map(QuantType::descriptor) else {
            return Err(contradiction(format!("unknown quant_type \"{kind}\"")));
        };
        let size = match group_size {
            None => None,
            Some(text) => Some(
                text.parse::<u64>()
                    .map_err(|_| contradiction(format!("group_size \"{text}\" is not a number")))?,
            ),
        };
        let fits = |reading: &&GroupScheme| {
            reading.dtype == row.dtype && size.is_none_or(|size| size == reading.group_size)
        };
        return readings.iter().find(fits).map(|reading| (*reading, true)).ok_or_else(|| {
            let size = size.map_or(String::new(), |size| format!(" in groups of {size}"));
            contradiction(format!(
                "the blob's metadata say {kind}{size}, but the shapes fit {}",
                list(&readings)
            ))
        });
    }
    // Without metadata: among the types that Ollama writes, decide by the input width of layers,
    // and otherwise by the usual group sizes.
    readings.retain(|reading| TYPES.iter().any(|row| row.dtype == reading.dtype));
    let wide = parts.of_known_width(&readings, config);
    let usual = |reading: &&GroupScheme| {
        let is_usual = |row: &QuantTypeDescriptor| {
            let sizes = [Some(row.group_size), row.older_group_size];
            row.dtype == reading.dtype
                && sizes.into_iter().flatten().any(|size| u64::from(size) == reading.group_size)
        };
        TYPES.iter().any(is_usual)
    };
    let candidates = if wide.is_empty() { &readings } else { &wide };
    let mut found = candidates.iter().filter(usual);
    match (found.next(), found.next(), candidates.as_slice()) {
        (Some(only), None, _) | (None, _, [only]) => Ok((*only, candidates.len() == 1)),
        _ => Err(contradiction(format!(
            "its type is not stated, and the shapes fit {}",
            list(&readings)
        ))),
    }
}
