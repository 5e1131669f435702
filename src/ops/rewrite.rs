//! The same tensors in other files: split, merged, aligned, with other metadata.

use std::collections::BTreeMap;
use std::path::Path;

use crate::bytes::blob_behind;
use crate::container::{ollama, safetensors};
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value, ValueType};
use crate::model::Model;
use crate::store::Part;
use crate::store::tensor::StoredTensor;
use crate::store::{Encoding, Store};
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
pub fn merge(model: &Model, alignment: Option<u64>) -> Result<WritePlan> {
    let fates = fates(&stored(model))?;
    let file = merged(model, alignment)?;
    Ok(WritePlan::new(Kind::File, vec![file], fates, Vec::new(), model.store()))
}

/// All tensors of a model in one file.
pub(super) fn merged(model: &Model, alignment: Option<u64>) -> Result<OutFile> {
    let (store, tensors) = (model.store(), stored(model));
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
pub fn split(model: &Model, shards: Shards, path: &Path) -> Result<WritePlan> {
    let (store, tensors) = (model.store(), stored(model));
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

/// How [`edit_metadata`] changed a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Edited {
    /// It overwrote some bytes of the file.
    InPlace,
    /// It wrote the whole file again, which then took the old one's name.
    Rewritten,
    /// It added a blob to Ollama's store and named it in the model's manifest. The old blob stays:
    /// other models may use it.
    NewBlob,
}

/// Changes the metadata of a model in one GGUF file.
///
/// If the tensors stay where they are and all changed bytes lie within one page of the file, which the
/// system writes as a whole, the file is changed in place. Otherwise it is rewritten and replaced. A
/// file named by the digest of its content is never changed: a model of Ollama's store gets a new blob
/// and a new manifest, and a blob of the Hugging Face cache is refused.
///
/// # Errors
///
/// `Unsupported` if the model is not one GGUF file; `Mismatch` if the file is named by its digest and
/// no manifest can name another; as [`WritePlan::run`].
pub fn edit_metadata(
    path: &Path,
    edit: impl FnOnce(&mut KeyValues) -> Result<()>,
    options: &WriteOptions<'_>,
) -> Result<Edited> {
    let model = Model::open(path)?;
    let store = model.store();
    if encoding(store)? != Files::Gguf || store.files().len() != 1 {
        let fault = "its metadata can be changed in a GGUF of one file only";
        return Err(Error::unsupported(fault).in_file(path));
    }
    let file = store.files().next().map(Path::to_path_buf).unwrap_or_default();
    let mut keys = KeyValues::of(store.metadata());
    edit(&mut keys)?;
    let tensors = stored(&model);
    let fates = fates(&tensors)?;
    if store.container() == ollama::OLLAMA.name {
        let manifest = store.path().to_path_buf();
        let kind = Kind::Blobs(ollama::replaceable_model(&manifest, store.limits())?);
        // The layer of the weights has no name.
        let out = OutFile::gguf("", &keys, tensors)?;
        let plan = WritePlan::new(kind, vec![out], fates, Vec::new(), store);
        plan.run(&manifest, &options.overwrite(true))?;
        return Ok(Edited::NewBlob);
    }
    if let Some(blob) = blob_behind(&file) {
        let fault = format!(
            "the file is {}, whose name is the digest of its content, so it must not be changed",
            blob.display()
        );
        let advice = "copy it to another name and change the copy; for a model of Ollama's, give the \
                      model's name";
        return Err(Error::mismatch(fault).advise(advice).in_file(path));
    }
    // The file behind a link is changed, not the link.
    let file = file.canonicalize().unwrap_or(file);
    let out = OutFile::gguf("model.gguf", &keys, tensors)?;
    if !has_other_names(&file)
        && let Some(bytes) = out.header_in_place(store)
        && overwrite_within_a_page(&file, &bytes)?
    {
        return Ok(Edited::InPlace);
    }
    let plan = WritePlan::new(Kind::File, vec![out], fates, Vec::new(), store);
    plan.replace(&file, options)?;
    Ok(Edited::Rewritten)
}

/// Whether hard links give the file other names, one of which may be a digest.
fn has_other_names(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        file.metadata().is_ok_and(|found| found.nlink() > 1)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}

/// What a model's files are, of those that can be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Files {
    Gguf,
    Safetensors,
}

fn encoding(store: &Store) -> Result<Files> {
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
pub(super) fn stored(model: &Model) -> Vec<OutTensor> {
    let tensors = model.stored_tensors();
    tensors
        .map(|tensor| OutTensor { name: tensor.name().to_owned(), making: Making::Packed(tensor) })
        .collect()
}

pub(super) fn fates(tensors: &[OutTensor]) -> Result<Vec<Fate>> {
    tensors.iter().map(|tensor| tensor.fate(How::Copied, None)).collect()
}

/// Tensors in groups, in order.
pub(super) fn cut(tensors: Vec<OutTensor>, shards: Shards) -> Result<Vec<Vec<OutTensor>>> {
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
pub(super) fn gguf_shards(
    mut keys: KeyValues,
    groups: Vec<Vec<OutTensor>>,
    path: &Path,
    place: &[&str],
) -> Result<Vec<OutFile>> {
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

fn safetensors_file(
    name: impl Into<String>,
    store: &Store,
    alignment: Option<u64>,
    tensors: Vec<OutTensor>,
) -> Result<OutFile> {
    let text = |value: Value<'_>| Some(value.to_text()?.to_str()?.to_owned());
    let metadata = store.metadata().stored();
    let metadata = metadata.filter(|(_, value)| value.value_type() == ValueType::String);
    let metadata: BTreeMap<String, String> = metadata
        .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), text(value)?)))
        .collect();
    let alignment = alignment.unwrap_or(safetensors::write::ALIGNMENT);
    OutFile::safetensors(name, &metadata, alignment, tensors, stored_part)
}

/// What a part of a tensor is called: as where it lies, if the tensor itself is.
pub(super) fn stored_part(tensor: &OutTensor, part: Part) -> String {
    let Making::Packed(view) = &tensor.making else { return tensor.name.clone() };
    let own = |stored: &StoredTensor<'_>| stored.name().spelling() == tensor.name;
    let segments = view.stored_tensors().next().filter(own).into_iter().flat_map(|t| t.segments());
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
