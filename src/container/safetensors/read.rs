//! Opening safetensors files and directories, with the documents beside them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::folder::TOKENIZERS;
#[cfg(feature = "npz")]
use super::super::npz;
use super::super::{DetectedPath, OpenOptions, Probe, Strictness, foreign, groups, in_parallel};
use super::header::SafetensorsHeader;
use super::stated::{StatedScheme, has_unapplied_scales, left_over};
use super::weight_map::WeightMap;
use super::{header, resolve, scheme, tied, unjoined};
use crate::bytes::{Files, Source, Text};
use crate::error::{AdvisedOption, Error, Result};
use crate::metadata::Metadata;
use crate::store::folder::QUANTIZATION_DOCUMENTS;
use crate::store::{Document, Encoding, Indexed, Note, Store, StoreBuilder, StoredFile, document};

/// The name of the container.
pub(super) const NAME: &str = "safetensors";

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.directory {
        Some(names) => {
            let partial = probe.options.partial;
            let is = |name: &String| {
                name.ends_with(".safetensors")
                    || name.contains(".safetensors.index")
                    || partial && TOKENIZERS.contains(&name.as_str())
            };
            names.iter().any(is) || resolve::archive(names).is_some()
        }
        None => header::looks_right(probe.head, probe.len) || is_safetensors(probe.path),
    }
}

/// Whether the name says safetensors. It is used only for files whose damaged start identifies
/// nothing.
fn is_safetensors(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "safetensors")
}

/// The JSON documents beside the weights that opening reads, besides those that only describe
/// quantization; others are read on request.
const DOCUMENTS: &[&str] = &["config.json", "params.json"];

pub(super) fn open(opened: DetectedPath, options: &OpenOptions) -> Result<Store> {
    let gather = |indexed: &mut Indexed| gather(indexed, options);
    match opened {
        DetectedPath::File(source) => {
            resolve::check_format(source.path())?;
            open_file(NAME, source, options, gather)
        }
        DetectedPath::Directory(folder, names) => {
            open_directory(NAME, &folder, &names, options, gather)
        }
    }
}

/// Opens one file with the documents beside it, like [`open_directory`] does for a directory.
pub(in super::super) fn open_file(
    container: &'static str,
    source: Source,
    options: &OpenOptions,
    gather: impl FnOnce(&mut Indexed) -> Result<()>,
) -> Result<Store> {
    let mut builder = StoreBuilder::new(container, Encoding::Safetensors, source.path());
    let alone = matches!(options.files, Files::Absent);
    if let Some(folder) = source.path().parent().filter(|_| !alone) {
        let here = |name: &str| options.files.exists(&folder.join(name));
        let (documents, notes) = documents(folder, here, options, |_| false)?;
        builder.documents = documents;
        builder.notes.extend(notes);
        let named = source.path().file_name().and_then(|name| name.to_str());
        let is_adapter = named.is_some_and(|name| name.starts_with("adapter"));
        if is_adapter {
            builder.notes.extend(adapter(folder, options));
        }
        builder.folder = Some(folder.to_path_buf());
    }
    let parsed = header::parse(source, options)?;
    if !alone {
        let part = resolve::part_of_set(parsed.source.path(), parsed.listing.len(), options);
        builder.is_shard = part.is_some();
        builder.notes.extend(part);
    }
    let mut indexed = build(builder, vec![parsed])?;
    gather(&mut indexed)?;
    Ok(indexed.finish())
}

/// The file in which sentence-transformers lists the modules of an embedder.
const MODULES: &str = "modules.json";

/// A note on a folder that an embedder has for its weights alone: the pooling and other modules are next to it.
fn part_of_embedder(folder: &Path, options: &OpenOptions) -> Option<Note> {
    let (name, outer) = (folder.file_name()?.to_str()?, folder.parent()?);
    let path = outer.join(MODULES);
    if !options.files.exists(&path) {
        return None;
    }
    let modules = document::read(&options.files, &path, MODULES, &options.limits).ok()?.json;
    let folders = modules.as_array()?.iter().filter_map(|module| module.get("path")?.as_str());
    let folders: Vec<&str> = folders.filter(|path| !path.is_empty()).collect();
    let others = folders.iter().filter(|other| **other != name).copied().collect::<Vec<_>>();
    let text = format!(
        "one module of the embedder that ../{MODULES} describes, whose others are not read: {}. To read them, move the \
         files of {name} next to {MODULES}, and state its path there as an empty text",
        others.join(", ")
    );
    (folders.contains(&name) && !others.is_empty()).then(|| Note::new(folder, text))
}

/// Opens a directory of safetensors files for the named container. `gather` joins the parts of
/// quantized tensors.
pub(in super::super) fn open_directory(
    container: &'static str,
    folder: &Path,
    names: &[String],
    options: &OpenOptions,
    gather: impl FnOnce(&mut Indexed) -> Result<()>,
) -> Result<Store> {
    if let Some(name) = names.iter().find(|name| is_of_rank(name)) {
        let fault =
            format!("a directory with the shares of ranks, which are no whole model: {name}");
        return Err(Error::unsupported(fault).advise("give one of its files").in_file(folder));
    }
    let choice = resolve::choose(folder, names, options)?;
    let mut builder = StoreBuilder::new(container, Encoding::Safetensors, folder);
    // A directory is opened as a model, so a config.json that cannot be read is an error.
    let here = |name: &str| names.binary_search_by(|other| other.as_str().cmp(name)).is_ok();
    let (documents, notes) = documents(folder, here, options, |name| name == "config.json")?;
    builder.documents = documents;
    builder.folder = Some(folder.to_path_buf());
    builder.notes.extend(notes);
    builder.notes.extend(choice.notes);
    if !here(MODULES) {
        builder.notes.extend(part_of_embedder(folder, options));
    }
    let is_model =
        here("config.json") && !choice.files.iter().any(|name| name.starts_with("adapter"));
    if here(ADAPTER) && is_model {
        let unapplied = "adapter_config.json: an adapter beside the model, which is not applied; \
                         transformers applies it if PEFT is installed";
        builder.notes.push(Note::new(folder, unapplied));
    } else if here(ADAPTER) {
        builder.notes.extend(adapter(folder, options));
    }
    let paths: Vec<PathBuf> = choice.files.iter().map(|name| folder.join(name)).collect();
    let mut parsed = in_parallel(&paths, options, |path| {
        let source = options.files.open(path, options.access)?;
        match path.extension().is_some_and(|ending| ending == "npz") {
            #[cfg(feature = "npz")]
            true => npz::parse(source, options),
            #[cfg(not(feature = "npz"))]
            true => Err(Error::unsupported("this build of weighbridge cannot read .npz files")
                .advise("enable the cargo feature `npz`")),
            false => {
                // A page or a pointer says more of itself than a wrong length does.
                header::parse(source, options).map_err(|error| {
                    let source = options.files.open(path, options.access);
                    let foreign = source.and_then(|source| foreign::check(&source, options));
                    foreign.err().map_or(error, |foreign| foreign.in_file(path))
                })
            }
        }
    })?;
    if let Some((name, map)) = &choice.index {
        let unread = keep_listed(&mut parsed, &choice.files, map);
        if unread > 0 {
            let text = format!("{unread} tensors are read from other files, as {name} says");
            builder.notes.push(Note::new(folder, text));
        }
    }
    let mut indexed = build(builder, parsed)?;
    if let Some((name, map)) = choice.index {
        check_map(&mut indexed, &map, &choice.files, options.strictness)
            .map_err(|error| error.in_file(&folder.join(name)))?;
    }
    gather(&mut indexed)?;
    let mut store = indexed.finish();
    if let Some(scheme) = left_over(&store) {
        let instead = "but no tensor is quantized: transformers may refuse the model";
        store.note(folder, format!("a quantization is stated, {scheme}, {instead}"));
    }
    if has_unapplied_scales(&store) {
        let text = "the weights are stored as they were trained, with the scales of a quantization (compressed-tensors, \
                    format dense): transformers rounds weights and inputs by them as the model runs, which is not done here";
        store.note(folder, text.to_owned());
    }
    Ok(store)
}

/// Whether a file has the share of a rank, as vLLM's `sharded_state` names it.
fn is_of_rank(name: &str) -> bool {
    name.starts_with("model-rank-") && name.contains("-part-") && name.ends_with(".safetensors")
}

/// Reads the documents of a directory. A document that exists and cannot be read is an error if it
/// is needed, and a note otherwise.
fn documents(
    folder: &Path,
    here: impl Fn(&str) -> bool,
    options: &OpenOptions,
    needed: impl Fn(&str) -> bool,
) -> Result<(Vec<Document>, Vec<Note>)> {
    let (mut documents, mut notes) = (Vec::new(), Vec::new());
    for &name in DOCUMENTS.iter().chain(QUANTIZATION_DOCUMENTS) {
        if !here(name) {
            continue;
        }
        let path = folder.join(name);
        match document::read_object(&options.files, &path, name, &options.limits) {
            Ok(document) => documents.push(document),
            Err(error) if needed(name) => return Err(error),
            Err(error) => notes.push(Note::new(&path, format!("not used: {error}"))),
        }
    }
    Ok((documents, notes))
}

/// The config of an adapter.
const ADAPTER: &str = "adapter_config.json";

/// A note that the directory holds an adapter of PEFT or mlx-lm, and for which model.
fn adapter(folder: &Path, options: &OpenOptions) -> Option<Note> {
    let config =
        document::read_object(&options.files, &folder.join(ADAPTER), ADAPTER, &options.limits)
            .ok()?
            .json;
    let text = |key: &str| config.get(key).and_then(|value| value.as_str());
    let (program, kind) = match (text("peft_type"), text("fine_tune_type")) {
        (Some(kind), _) => ("PEFT", kind),
        (None, Some(kind)) => ("mlx-lm", kind),
        (None, None) if config.get("lora_parameters").is_some() => ("mlx-lm", "lora"),
        (None, None) => ("PEFT", "unknown"),
    };
    let base = text("base_model_name_or_path").or(text("model")).filter(|base| !base.is_empty());
    let kind = if kind.eq_ignore_ascii_case("lora") { "LoRA" } else { kind };
    let base = base
        .map_or("a base model".to_owned(), |base| crate::bytes::Text::new(base.as_bytes()).brief());
    Some(Note::new(
        folder,
        format!(
            "an adapter of {program} (kind {kind}) for {base}, not a whole model: apply it to that model"
        ),
    ))
}

/// A key of a file's metadata that the first file lacks, or has with another value.
fn further_key(first: &Metadata, other: &Metadata) -> Option<String> {
    let mut texts = other.iter().filter_map(|(key, value)| Some((key, value.to_text()?)));
    let is_other = |(key, value): &(Text<'_>, Text<'_>)| {
        key.to_str().and_then(|key| first.get(key)?.to_text()) != Some(*value)
    };
    texts.find(is_other).map(|(key, _)| key.brief())
}

fn build(mut builder: StoreBuilder, files: Vec<SafetensorsHeader>) -> Result<Indexed> {
    builder.reserve(files.iter().map(|parsed| &parsed.listing))?;
    let mut is_told = false;
    for (number, parsed) in files.into_iter().enumerate() {
        builder.notes.extend(parsed.notes);
        if number == 0 {
            builder.metadata = parsed.metadata;
        } else if !is_told && let Some(key) = further_key(&builder.metadata, &parsed.metadata) {
            is_told = true;
            let note = format!("__metadata__ has another {key} than the first file: not used");
            builder.notes.push(Note::new(parsed.source.path(), note));
        }
        let SafetensorsHeader { source, header, listing, .. } = parsed;
        let source = Arc::new(source);
        builder.add(StoredFile { source, header, big_endian: false }, listing)?;
    }
    builder.index(|_, first, second| {
        if first == second {
            return Error::malformed("duplicate tensor name: the header lists it twice");
        }
        let fault = format!("{} has a tensor with the same name", first.display());
        Error::malformed(fault).advise("keep one of the two files")
    })
}

/// Joins the parts of tensors quantized by the schemes that this container supports, and refuses the
/// values of arrays that are not numbers by themselves.
fn gather(indexed: &mut Indexed, options: &OpenOptions) -> Result<()> {
    let is_stated = StatedScheme::of(indexed.documents()).is_some();
    // Most models have no codes, and need no look at their names.
    if !is_stated && !indexed.dtypes().any(unjoined::may_be_code) {
        return Ok(());
    }
    let faults = match is_stated {
        true => scheme::gather(indexed, &options.limits)?,
        false => {
            check_packed(indexed, options)?;
            scheme::gather_unstated(indexed, &options.limits)?
        }
    };
    let stated = StatedScheme::of(indexed.documents());
    let refused = unjoined::find(indexed, stated.as_ref(), &faults);
    indexed.refuse(refused);
    Ok(())
}

/// Checks that weights which MLX packed are described.
fn check_packed(indexed: &mut Indexed, options: &OpenOptions) -> Result<()> {
    match groups::packed_without_config(indexed) {
        None => Ok(()),
        Some((path, note)) if options.strictness == Strictness::Lenient => {
            indexed.note_broken_rule(&path, &note.to_string());
            Ok(())
        }
        // Without a config.json this is a single file, and nothing in it is contradictory.
        Some((path, note)) if !indexed.root_has(&options.files, "config.json") => {
            indexed.note(&path, note.to_string());
            Ok(())
        }
        Some((path, fault)) => Err(fault.in_file(&path)),
    }
}

/// Drops the tensors that an index takes from another of the files, and returns their number. Nothing is dropped if the index
/// lists as many tensors as the files have, as it mostly does.
fn keep_listed(parsed: &mut [SafetensorsHeader], files: &[String], map: &WeightMap) -> usize {
    let count = |parsed: &[SafetensorsHeader]| -> usize {
        parsed.iter().map(|file| file.listing.len()).fold(0, usize::saturating_add)
    };
    let before = count(parsed);
    if before <= map.len() {
        return 0;
    }
    let listed: HashMap<&[u8], u32> = map.iter().collect();
    let named = |number: u32| map.files.get(number as usize);
    for (own, file) in files.iter().zip(parsed.iter_mut()) {
        let is_here = |name: &[u8]| {
            let other = listed.get(name).and_then(|number| named(*number));
            other.is_none_or(|other| other == own || !files.contains(other))
        };
        let names = file.listing.iter(&file.header).map(|listed| listed.name);
        let kept: Vec<bool> = names.map(|name| is_here(name.as_bytes())).collect();
        file.listing.retain(|number| kept.get(number).copied().unwrap_or(true));
    }
    before.saturating_sub(count(parsed))
}

/// Checks that every tensor of the index is in the file that the index names. A lenient reader, as transformers' is, only
/// notes those that no file has.
fn check_map(
    indexed: &mut Indexed,
    map: &WeightMap,
    files: &[String],
    strictness: Strictness,
) -> Result<()> {
    // The position of each of the map's files among the opened files.
    let places: HashMap<&str, usize> =
        files.iter().enumerate().map(|(place, file)| (file.as_str(), place)).collect();
    let numbers: Vec<Option<usize>> =
        map.files.iter().map(|name| places.get(name.as_str()).copied()).collect();
    // The index mostly lists names in the same order as the files.
    let mut guess = 0;
    let (mut copies, mut parts, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for (name, file) in map.iter() {
        let found = if indexed.is_named(guess, name) { Some(guess) } else { indexed.find(name) };
        let Some(number) = found else {
            let text = String::from_utf8_lossy(name);
            if let Some(serving) = tied::serving(indexed, name) {
                copies.push((text.into_owned(), serving));
                continue;
            }
            if scheme::is_part_of_plain(indexed, &text) {
                parts.push(text.into_owned());
                continue;
            }
            if strictness == Strictness::Lenient {
                absent.push(text.into_owned());
                continue;
            }
            let advice = "a shard or the index belongs to another version of the model: fetch the files again, or read what \
                          is there with {}";
            return Err(Error::malformed("the index lists the tensor, but no file contains it")
                .in_tensor(crate::bytes::Text::new(name))
                .advise_option(advice, AdvisedOption::Lenient));
        };
        guess = number.saturating_add(1);
        let said = numbers.get(file as usize).copied().flatten();
        let lies = indexed.file(number).map(|file| file as usize);
        if said != lies {
            let name_of = |number: Option<usize>| {
                number.and_then(|number| files.get(number)).map_or("another file", String::as_str)
            };
            let fault =
                format!("the index says {}, but the tensor is in {}", name_of(said), name_of(lies));
            return Err(Error::malformed(fault).in_tensor(crate::bytes::Text::new(name)));
        }
    }
    if let Some((_, serving)) = copies.first() {
        let root = indexed.root().to_path_buf();
        let listed: Vec<&str> = copies.iter().map(|(name, _)| &**name).collect();
        let listed = listed.join(" and ");
        indexed.note(&root, format!("the index lists {listed}, which {serving} serves as"));
    }
    if let Some(first) = absent.first() {
        let root = indexed.root().to_path_buf();
        let more = match absent.len() {
            1 => String::new(),
            count => format!(" and {} more", count.saturating_sub(1)),
        };
        let text = format!("the index lists {first}{more}, which no file contains");
        indexed.note(&root, text);
    }
    if let Some(first) = parts.first() {
        let root = indexed.root().to_path_buf();
        let count = parts.len();
        let text = format!(
            "the index is that of a quantized model: it lists {count} arrays that no file contains, such as {first}, but the \
             weights are not quantized"
        );
        indexed.note(&root, text);
    }
    Ok(())
}
