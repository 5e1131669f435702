//! `meta`: prints and edits the metadata of a file.

mod keys;
mod setting;

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::metadata::{KeyValues, Value};
use weighbridge::model::Encoding;
use weighbridge::ops::{self, EditOutcome, MetadataEdit};
use weighbridge::{Error, ErrorKind, Model, OpenOptions, WriteOptions};

use super::Done;
use crate::args::write::{Edit, Meta, MetaVerb};
use crate::json::Versioned;
use crate::print::{self, shown};
use crate::writing::interruptible_bar;
use crate::{Status, Stop, note};
use keys::{named, nearest};
use setting::Setting;

pub(crate) fn run(args: &Meta) -> Done {
    match &args.verb {
        MetaVerb::Get { path, keys, json } => get(path, keys, *json),
        MetaVerb::Set { path, values, remove, force, edit } => {
            let model = editable(path, edit)?;
            let values = settings(values, &model)?;
            let removed = removable(path, remove, &model, false)?;
            check_in_file(&model, values.iter().map(|setting| setting.key.as_str()))?;
            let set = |keys: &mut KeyValues| {
                for key in &removed {
                    keys.remove(key);
                }
                values.iter().for_each(|it| it.put(keys));
            };
            check_faults(&model, *force || edit.dry_run, set)?;
            let overwrite = edit.overwrite || *force;
            change(path, &model, &Edit { overwrite, ..edit.clone() }, set)
        }
        MetaVerb::Rm { path, keys, force, edit } => {
            let model = editable(path, edit)?;
            let keys = removable(path, keys, &model, *force)?;
            change(path, &model, edit, |old| {
                for key in &keys {
                    old.remove(key);
                }
            })
        }
    }
}

/// The keys to remove, in full.
fn removable(
    path: &Path,
    keys: &[String],
    model: &Model,
    force: bool,
) -> Result<Vec<String>, Stop> {
    let keys: Vec<String> = keys.iter().map(|key| named(key, model)).collect();
    check_in_file(model, keys.iter().map(String::as_str))?;
    let there = |key: &String| model.metadata().get(key).is_some();
    if let Some(key) = keys.iter().find(|key| !there(key)) {
        return Err(no_key(path, key, model));
    }
    if !force {
        keys.iter().try_for_each(|key| check_removable(model, key))?;
    }
    Ok(keys)
}

/// Refuses a change after which `verify` finds a fault that the model does not have; one that is made nevertheless is
/// noted, and so is what some readers refuse.
fn check_faults(model: &Model, is_forced: bool, set: impl Fn(&mut KeyValues)) -> Result<(), Stop> {
    // The file is named already.
    let path = format!("{}: ", shown(model.path()));
    let texts = |texts: Vec<String>| -> Vec<String> {
        let bare = |text: &String| text.strip_prefix(&path).unwrap_or(text).to_owned();
        texts.iter().map(bare).collect()
    };
    let found = |set: &dyn Fn(&mut KeyValues)| {
        let change = |keys: &mut KeyValues| {
            set(keys);
            Ok(())
        };
        let found = ops::consistency_with_metadata(model, change);
        match found {
            Ok(found) => (texts(found.faults), texts(found.notes)),
            Err(error) => (texts(vec![error.to_string()]), Vec::new()),
        }
    };
    let (before, after) = (found(&|_| {}), found(&set));
    let is_new = |text: &String| !before.0.contains(text) && !before.1.contains(text);
    let mut faults: Vec<String> = after.0.into_iter().filter(is_new).collect();
    if let Some(fault) = faults.first().filter(|_| !is_forced) {
        let error = Error::new(
            ErrorKind::Mismatch,
            format!("after this change, `verify` would find a new fault: {fault}"),
        );
        let advice = "`meta set` with --force makes it nevertheless";
        return Err(error.advise(advice).in_file(model.path()).into());
    }
    faults.extend(after.1.into_iter().filter(is_new));
    faults.iter().for_each(|fault| note(&format!("`verify` finds a new fault: {fault}")));
    Ok(())
}

/// Opens a model whose metadata can be changed, or copied with changes.
fn editable(path: &Path, edit: &Edit) -> Result<Model, Stop> {
    let model = OpenOptions::new().open(path)?;
    if edit.output.is_none() || model.encoding() != Encoding::Gguf {
        ops::check_editable(&model)?;
    }
    Ok(model)
}

/// Ollama keeps templates, parameters and licenses in separate manifest layers. They are shown as
/// metadata but are not in the GGUF file that is edited.
fn check_in_file<'k>(model: &Model, mut keys: impl Iterator<Item = &'k str>) -> Result<(), Stop> {
    let layer = keys.find(|key| model.container() == "ollama" && key.starts_with("ollama."));
    layer.map_or(Ok(()), |key| {
        let fault = "a separate layer of the manifest, not a key of the GGUF file";
        Err(Error::new(ErrorKind::Mismatch, fault).in_key(key).in_file(model.path()).into())
    })
}

/// Keys that readers require of any model, whatever its architecture.
const REQUIRED: [&str; 5] = [
    "general.architecture",
    "general.type",
    "tokenizer.ggml.model",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges",
];

/// Refuses the removal of a key that the model needs: one that every reader requires, or one that the
/// config is read from, so that readers would compute something else without it.
fn check_removable(model: &Model, key: &str) -> Result<(), Stop> {
    let fields = model.config().map(|config| config.fields());
    let read = match &fields {
        Ok(fields) => {
            let field = fields.iter().find(|field| field.source.metadata_key() == Some(key));
            field.map(|field| format!("engines read {} from it", field.name))
        }
        // The keys of adapters and projectors are not known one by one.
        Err(_) => {
            let own = ["general.", "tokenizer."].iter().all(|start| !key.starts_with(start));
            own.then(|| "it is a key of the file's own architecture".to_owned())
        }
    };
    let required = REQUIRED.contains(&key).then(|| "readers require it".to_owned());
    let Some(why) = required.or(read) else { return Ok(()) };
    let error = Error::new(ErrorKind::Mismatch, format!("the model needs this key: {why}"));
    let error = error.advise("`meta rm` with --force removes it nevertheless");
    Err(error.in_key(key).in_file(model.path()).into())
}

fn no_key(path: &Path, key: &str, model: &Model) -> Stop {
    let error = Error::new(ErrorKind::NotFound, "the model has no such key");
    let all = match model.encoding() {
        Encoding::Gguf => "`meta get` without a key lists all",
        _ => "`inspect MODEL --config` shows what config.json says",
    };
    let advice = nearest(key, model).map_or_else(
        || all.to_owned(),
        |nearest| {
            format!("the nearest one is \"{}\"; {all}", Text::new(nearest.as_bytes()).brief())
        },
    );
    error.in_file(path).in_key(key).advise(advice).into()
}

fn get(path: &Path, keys: &[String], json: bool) -> Done {
    let store = OpenOptions::new().open(path)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let is_later = stem.is_some_and(|stem| stem.contains("-of-") && !stem.contains("-00001-of-"));
    if is_later && path.is_file() && store.files().len() > 1 {
        note("these are the keys of the first shard, which has those of the model");
    }
    let keys: Vec<String> = keys.iter().map(|key| named(key, &store)).collect();
    // A single value may be meant for a script: its lines stay as they are.
    let mut out = if keys.len() == 1 { print::verbatim() } else { print::stdout() };
    // Directories have the template in a file of its own.
    let lacks = keys.iter().any(|key| store.metadata().get(key).is_none());
    let tokenizer = if lacks { store.tokenizer().ok().flatten() } else { None };
    let beside = tokenizer.iter().flat_map(|tokenizer| &tokenizer.chat_templates);
    let beside =
        beside.filter(|template| template.name.is_none()).map(|template| &template.text.value);
    let template = |key: &str| {
        let is_it = ["chat_template", "tokenizer.chat_template"].contains(&key);
        beside
            .clone()
            .next()
            .filter(|_| is_it)
            .map(|text| Value::String(Text::new(text.as_bytes())))
    };
    let mut found = Vec::new();
    match keys.as_slice() {
        [] => found.extend(store.metadata().iter()),
        keys => {
            for key in keys {
                let value = store.metadata().get(key).or_else(|| template(key));
                let value = value.ok_or_else(|| no_key(path, key, &store))?;
                found.push((Text::new(key.as_bytes()), value));
            }
        }
    }
    if json {
        let values = found.iter().map(|(key, value)| (key.spelling().into_owned(), as_json(value)));
        let values: serde_json::Map<String, serde_json::Value> = values.collect();
        crate::json::write(&values)?;
        return Ok(Status::Fine);
    }
    for (key, value) in &found {
        // A script that requests one value needs only the value.
        if keys.len() != 1 {
            write!(out, "{key} = ")?;
        }
        match value {
            Value::String(text) if keys.len() == 1 => writeln!(out, "{}", text.spelling())?,
            Value::Array(array) if keys.len() != 1 && array.len() > 16 => {
                writeln!(out, "{} of {}", array.len(), array.element_type().name())?;
            }
            value => writeln!(out, "{}", text(&as_json(value)))?,
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}

fn as_json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::String(text) => text.spelling().into(),
        Value::Bool(flag) => (*flag).into(),
        Value::Array(array) => array.values().map(|value| as_json(&value)).collect(),
        // The shortest digits of the f32, not those of the equal f64.
        Value::F32(number) => number
            .to_string()
            .parse::<f64>()
            .map_or_else(|_| number.to_string().into(), serde_json::Value::from),
        Value::F64(number) => serde_json::Value::from(*number),
        value => match value.to_i128() {
            Some(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => number.to_string().into(),
            },
            None => serde_json::Value::Null,
        },
    }
}

/// A value as text.
fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Number(number) => print::plain(&number.to_string()),
        serde_json::Value::Array(list) => {
            format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// The report of `meta set` and `meta rm`.
#[derive(Serialize)]
struct Report {
    /// The file that was written.
    written: Option<String>,
    dry_run: bool,
    /// `in_place`, `rewritten`, `new_blob` or `copied`.
    how: &'static str,
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    key: String,
    /// `null` for a new key.
    old: Option<serde_json::Value>,
    /// `null` for a removed key.
    new: Option<serde_json::Value>,
}

/// The differences between the old and the new metadata.
fn changes(model: &Model, new: &KeyValues) -> Vec<Change> {
    let old = KeyValues::of(model.metadata());
    let mut found = Vec::new();
    for (key, value) in old.iter() {
        let spelled = key.spelling();
        let now = new.get(&spelled);
        if now != Some(value) {
            let (key, old) = (spelled.into_owned(), Some(as_json(&value)));
            found.push(Change { key, old, new: now.as_ref().map(as_json) });
        }
    }
    for (key, value) in new.iter() {
        let spelled = key.spelling();
        if old.get(&spelled).is_none() {
            found.push(Change { key: spelled.into_owned(), old: None, new: Some(as_json(&value)) });
        }
    }
    found
}

/// Changes the metadata in place or in a copy, or shows what would change.
fn change(path: &Path, model: &Model, edit: &Edit, set: impl Fn(&mut KeyValues)) -> Done {
    let change = |keys: &mut KeyValues| {
        set(keys);
        Ok(())
    };
    let mut keys = KeyValues::of(model.metadata());
    set(&mut keys);
    let mut report = Report {
        written: None,
        dry_run: edit.dry_run,
        how: "copied",
        changes: changes(model, &keys),
    };
    if let Some(output) = &edit.output {
        let plan = ops::copy_with_metadata(model, change)?;
        if !edit.dry_run {
            let options = WriteOptions::new().overwrite(edit.overwrite);
            plan.run(output, &options.progress(&interruptible_bar()))?;
            report.written = Some(shown(output));
        }
    } else {
        let planned = MetadataEdit::plan(model, change)?;
        report.how = match planned.outcome() {
            EditOutcome::InPlace => "in_place",
            EditOutcome::NewBlob => "new_blob",
            _ => "rewritten",
        };
        if !edit.dry_run {
            planned.run(&WriteOptions::new().progress(&interruptible_bar()))?;
            report.written = Some(shown(path));
        }
    }
    match edit.json {
        true => crate::json::write(&Versioned::of(path, &report))?,
        false => write_text(path, edit, &report)?,
    }
    Ok(Status::Fine)
}

fn write_text(path: &Path, edit: &Edit, report: &Report) -> Result<(), Stop> {
    let mut out = print::stdout();
    if edit.dry_run {
        let brief = |value: &Option<serde_json::Value>| match value {
            None => "nothing".to_owned(),
            Some(value) => Text::new(text(value).as_bytes()).brief(),
        };
        for Change { key, old, new } in &report.changes {
            let key = Text::new(key.as_bytes());
            writeln!(out, "{key}: {} -> {}", brief(old), brief(new))?;
        }
    }
    let path = shown(path);
    match (edit.dry_run, report.how, &report.written) {
        (false, "in_place", _) => writeln!(out, "{path}: edited in place")?,
        (false, "new_blob", _) => {
            writeln!(out, "{path}: wrote a new blob, which the model's manifest now names")?;
        }
        (false, "copied", Some(copy)) => writeln!(out, "{copy}: wrote a changed copy of {path}")?,
        (false, ..) => writeln!(out, "{path}: rewrote the file")?,
        (true, "in_place", _) => writeln!(out, "dry run: {path} would be edited in place")?,
        (true, "new_blob", _) => {
            writeln!(out, "dry run: a new blob would be written, and the manifest would name it")?;
        }
        (true, "copied", _) => {
            let copy = edit.output.as_deref().map_or_else(String::new, shown);
            writeln!(out, "dry run: {copy} would be written, and {path} would stay as it is")?;
        }
        (true, ..) => writeln!(out, "dry run: {path} would be rewritten")?,
    }
    Ok(out.flush()?)
}

/// The settings, or the faults of all at once.
fn settings(texts: &[String], model: &Model) -> Result<Vec<Setting>, Stop> {
    let (mut settings, mut faults) = (Vec::new(), Vec::new());
    for text in texts {
        match Setting::parse(text, model) {
            Ok(setting) => settings.push(setting),
            Err(Stop::Usage(fault)) => faults.push(fault),
            Err(other) => return Err(other),
        }
    }
    let is_twice = |(place, it): &(usize, &Setting)| {
        settings.iter().take(*place).any(|other| other.key == it.key)
    };
    if let Some((_, setting)) = settings.iter().enumerate().find(is_twice) {
        faults.push(format!("{} is given twice", setting.key));
    }
    if faults.is_empty() { Ok(settings) } else { Err(Stop::Usage(faults.join("; "))) }
}
