//! The same tensors in other files: split, merged, aligned, with other metadata.

use std::collections::BTreeMap;
use std::path::Path;

use crate::container::{OpenOptions, safetensors};
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value, ValueType};
use crate::store::{Encoding, WeightStore};
use crate::tensor::{Part, Tensor};
use crate::view::View;
use crate::write::{
    Fate, How, Kind, Making, OutFile, OutTensor, WriteOptions, WritePlan, overwrite_within_a_page,
};

/// How a model is cut into shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shards {
    /// So many tensors in each, as llama-gguf-split counts: 128 if nothing else is said.
    Tensors(u64),
    /// So many bytes of tensors in each, at most, unless one tensor has more.
    Bytes(u64),
}

/// One file of a model that lies in several, or a copy of one that lies in one. `alignment`, where
/// it is given, is that of the data: 64 or 8 for safetensors, `general.alignment` for GGUF.
///
/// # Errors
///
/// `Unsupported` if the model lies in no GGUF or safetensors files, or has a tensor that they
/// cannot hold.
pub fn merge(store: &WeightStore, alignment: Option<u64>) -> Result<WritePlan<'_>> {
    let fates = fates(&stored(store))?;
    let file = merged(store, alignment)?;
    Ok(WritePlan::new(Kind::File, vec![file], fates, Vec::new(), store))
}

/// All tensors of a model in one file.
pub(super) fn merged(store: &WeightStore, alignment: Option<u64>) -> Result<OutFile<'_>> {
    let tensors = stored(store);
    match encoding(store)? {
        Files::Gguf => {
            let mut keys = KeyValues::of(store.metadata());
            without_split(&mut keys);
            set_alignment(&mut keys, alignment)?;
            OutFile::gguf("model.gguf", &keys, tensors)
        }
        Files::Safetensors => safetensors_file("model.safetensors", store, alignment, tensors),
    }
}

/// A model as several files. GGUF's lie beside each other, and are named after the path that is
/// written to, which ends in no number; safetensors make a directory with an index.
///
/// # Errors
///
/// As [`merge`].
pub fn split<'a>(store: &'a WeightStore, shards: Shards, path: &Path) -> Result<WritePlan<'a>> {
    let tensors = stored(store);
    let fates = fates(&tensors)?;
    let groups = cut(tensors, shards)?;
    let count = groups.len();
    let mut files = Vec::new();
    let kind = match encoding(store)? {
        Files::Gguf => {
            files = gguf_shards(KeyValues::of(store.metadata()), groups, path, &PLACE)?;
            Kind::Shards
        }
        Files::Safetensors => {
            let mut index = BTreeMap::new();
            let bytes: u64 = fates.iter().map(|fate| fate.bytes).sum();
            for (n, group) in groups.into_iter().enumerate() {
                let name = match count {
                    1 => "model.safetensors".to_owned(),
                    _ => format!("model-{:05}-of-{count:05}.safetensors", n + 1),
                };
                for tensor in &group {
                    for part in tensor.making.parts()? {
                        index.insert(stored_part(tensor, part.part), name.clone());
                    }
                }
                files.push(safetensors_file(name, store, None, group)?);
            }
            if count > 1 {
                files.push(OutFile::document(
                    "model.safetensors.index.json",
                    index_json(bytes, &index).into_bytes(),
                ));
            }
            for (name, bytes) in store.read_companions()? {
                files.push(OutFile::document(name, bytes));
            }
            Kind::Directory
        }
    };
    Ok(WritePlan::new(kind, files, fates, Vec::new(), store))
}

/// Changes the metadata of a GGUF file. Where the change fits between what stands before and after
/// it, within a page of the file, so that no moment can tear it, it is made in place; else the whole
/// file is written anew and takes the old one's name. Gives whether it was made in place.
///
/// # Errors
///
/// `Unsupported` if the model is no GGUF of one file; as [`WritePlan::run`].
pub fn edit_metadata(
    path: &Path,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
    options: &WriteOptions<'_>,
) -> Result<bool> {
    let store = OpenOptions::new().open(path)?;
    if encoding(&store)? != Files::Gguf || store.files().len() != 1 {
        let fault = "its metadata can be changed in a GGUF of one file only";
        return Err(Error::unsupported(fault).in_file(path));
    }
    let file = store.files().next().map(Path::to_path_buf).unwrap_or_default();
    let mut keys = KeyValues::of(store.metadata());
    edit(&mut keys)?;
    let tensors = stored(&store);
    let fates = fates(&tensors)?;
    let out = OutFile::gguf("model.gguf", &keys, tensors)?;
    if let Some(bytes) = out.header_in_place(&store)
        && overwrite_within_a_page(&file, &bytes)?
    {
        return Ok(true);
    }
    let plan = WritePlan::new(Kind::File, vec![out], fates, Vec::new(), &store);
    plan.replace(&file, options)?;
    Ok(false)
}
/// What a model's files are, of those that can be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Files {
    Gguf,
    Safetensors,
}

fn encoding(store: &WeightStore) -> Result<Files> {
    match store.encoding() {
        Encoding::Gguf => Ok(Files::Gguf),
        Encoding::Safetensors => Ok(Files::Safetensors),
        Encoding::Ggml => {
            let fault = "a whisper.cpp file, which this program reads and does not write";
            Err(Error::unsupported(fault)
                .advise("convert it: `weighbridge convert SRC DST --to gguf`")
                .in_file(store.path()))
        }
    }
}

/// All tensors as they are.
pub(super) fn stored(store: &WeightStore) -> Vec<OutTensor<'_>> {
    let of = |tensor: Tensor<'_>| tensor.name().spelling().into_owned();
    let tensors = store.tensors();
    tensors
        .map(|tensor| OutTensor { name: of(tensor), making: Making::Packed(View::stored(tensor)) })
        .collect()
}

pub(super) fn fates(tensors: &[OutTensor<'_>]) -> Result<Vec<Fate>> {
    tensors.iter().map(|tensor| tensor.fate(How::Copied, None)).collect()
}

/// Tensors in groups, in order.
pub(super) fn cut(tensors: Vec<OutTensor<'_>>, shards: Shards) -> Result<Vec<Vec<OutTensor<'_>>>> {
    let (Shards::Tensors(most) | Shards::Bytes(most)) = shards;
    if most == 0 {
        return Err(Error::mismatch("shards of nothing"));
    }
    let (mut groups, mut held) = (vec![Vec::new()], 0u64);
    for tensor in tensors {
        let size = match shards {
            Shards::Tensors(_) => 1,
            Shards::Bytes(_) => tensor.bytes()?,
        };
        if held > 0 && held.saturating_add(size) > most {
            groups.push(Vec::new());
            held = 0;
        }
        held = held.saturating_add(size);
        if let Some(group) = groups.last_mut() {
            group.push(tensor);
        }
    }
    Ok(groups)
}

/// What a shard says of its place, in the order of gguf-split.
const PLACE: [&str; 3] = ["split.no", "split.tensors.count", "split.count"];

/// Shards of GGUF that are named after a path: the first has all keys. Each says its place in keys of
/// that order.
pub(super) fn gguf_shards<'a>(
    mut keys: KeyValues,
    groups: Vec<Vec<OutTensor<'a>>>,
    path: &Path,
    place: &[&str],
) -> Result<Vec<OutFile<'a>>> {
    let name = path.file_name().and_then(|name| name.to_str());
    let prefix = name.map(|name| name.strip_suffix(".gguf").unwrap_or(name));
    let prefix =
        prefix.ok_or_else(|| Error::mismatch("it ends in no name for shards").in_file(path))?;
    let (count, total) = (groups.len(), groups.iter().map(Vec::len).sum::<usize>());
    let of = u16::try_from(count).map_err(|_| {
        Error::unsupported(format!("{count} shards, but at most 65535 are counted"))
    })?;
    without_split(&mut keys);
    let alignment = keys.get("general.alignment").and_then(|value| value.to_u64());
    let mut files = Vec::new();
    for (group, number) in groups.into_iter().zip(0u16..) {
        let mut own = if number == 0 { std::mem::take(&mut keys) } else { KeyValues::new() };
        // Each file is read by its own alignment.
        set_alignment(&mut own, alignment)?;
        for key in place {
            let value = match *key {
                "split.no" => Value::U16(number),
                "split.count" => Value::U16(of),
                _ => Value::I32(i32::try_from(total).unwrap_or(i32::MAX)),
            };
            own.set(key, value);
        }
        let name = format!("{prefix}-{:05}-of-{count:05}.gguf", u32::from(number) + 1);
        files.push(OutFile::gguf(name, &own, group)?);
    }
    Ok(files)
}

fn without_split(keys: &mut KeyValues) {
    for key in PLACE {
        keys.remove(key);
    }
}

fn set_alignment(keys: &mut KeyValues, alignment: Option<u64>) -> Result<()> {
    if let Some(alignment) = alignment {
        let fits = u32::try_from(alignment).ok().filter(|alignment| alignment.is_power_of_two());
        let alignment = fits.ok_or_else(|| {
            Error::mismatch(format!("an alignment of {alignment}, but a power of two is needed"))
        })?;
        keys.set("general.alignment", Value::U32(alignment));
    }
    Ok(())
}

fn safetensors_file<'a>(
    name: impl Into<String>,
    store: &WeightStore,
    alignment: Option<u64>,
    tensors: Vec<OutTensor<'a>>,
) -> Result<OutFile<'a>> {
    let text = |value: Value<'_>| Some(value.to_text()?.to_str()?.to_owned());
    let metadata = store.metadata().iter();
    let metadata = metadata.filter(|(_, value)| value.value_type() == ValueType::String);
    let metadata = metadata.filter(|(key, _)| !key.as_bytes().starts_with(b"ollama."));
    let metadata: BTreeMap<String, String> = metadata
        .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), text(value)?)))
        .collect();
    let alignment = alignment.unwrap_or(safetensors::write::ALIGNMENT);
    OutFile::safetensors(name, &metadata, alignment, tensors, stored_part)
}

/// What a part of a tensor is called: as where it lies, if the tensor itself is.
pub(super) fn stored_part(tensor: &OutTensor<'_>, part: Part) -> String {
    let Making::Packed(view) = &tensor.making else { return tensor.name.clone() };
    let own = |stored: &Tensor<'_>| stored.name().spelling() == tensor.name;
    let segments = view.sources().next().filter(own).into_iter().flat_map(|t| t.segments());
    let name = segments.filter(|segment| segment.part == part).map(|segment| segment.name);
    name.map(|name| name.spelling().into_owned()).next().unwrap_or_else(|| tensor.name.clone())
}

/// The index of a directory of shards, as transformers writes it.
pub(super) fn index_json(bytes: u64, index: &BTreeMap<String, String>) -> String {
    let map = serde_json::json!({ "metadata": { "total_size": bytes }, "weight_map": index });
    let mut text = serde_json::to_string_pretty(&map).unwrap_or_default();
    text.push('\n');
    text
}
