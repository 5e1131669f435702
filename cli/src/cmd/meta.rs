//! `meta`: prints and edits the metadata of a file.

use std::io::Write;
use std::path::Path;

use weighbridge::bytes::Text;
use weighbridge::metadata::{KeyValues, Value, ValueType};
use weighbridge::{OpenOptions, WriteOptions, ops};

use super::Done;
use crate::args::write::{Meta, MetaVerb};
use crate::print::{self, shown};
use crate::{Status, Stop};

pub(crate) fn run(args: &Meta) -> Done {
    match &args.verb {
        MetaVerb::Get { path, keys, json } => get(path, keys, *json),
        MetaVerb::Set { path, values } => {
            let store = OpenOptions::new().open(path)?;
            let keys = values.iter().filter_map(|text| Some(text.split_once('=')?.0));
            check_in_file(&store, keys)?;
            let values = values.iter().map(|text| Setting::parse(text, &store));
            let values = values.collect::<Result<Vec<Setting>, Stop>>()?;
            drop(store);
            edit(path, |keys| values.iter().for_each(|setting| setting.put(keys)))
        }
        MetaVerb::Rm { path, keys } => {
            let store = OpenOptions::new().open(path)?;
            check_in_file(&store, keys.iter().map(String::as_str))?;
            let there = |key: &String| store.metadata().get(key).is_some();
            if let Some(key) = keys.iter().find(|key| !there(key)) {
                return Err(Stop::Usage(format!("{}: no key \"{key}\"", shown(path))));
            }
            drop(store);
            edit(path, |old| {
                for key in keys {
                    old.remove(key);
                }
            })
        }
    }
}

/// Ollama keeps templates, parameters and licenses in separate manifest layers. They are shown as
/// metadata but are not in the GGUF file that is edited.
fn check_in_file<'k>(
    store: &weighbridge::Model,
    mut keys: impl Iterator<Item = &'k str>,
) -> Result<(), Stop> {
    let layer = keys.find(|key| store.container() == "ollama" && key.starts_with("ollama."));
    layer.map_or(Ok(()), |key| {
        let path = shown(store.path());
        Err(Stop::Usage(format!(
            "{path}: \"{key}\" is a separate manifest layer, not a key of the GGUF file"
        )))
    })
}

fn get(path: &Path, keys: &[String], json: bool) -> Done {
    let store = OpenOptions::new().open(path)?;
    // A single value may be meant for a script: its lines stay as they are.
    let mut out = if keys.len() == 1 { print::verbatim() } else { print::stdout() };
    let mut found = Vec::new();
    match keys {
        [] => found.extend(store.metadata().iter()),
        keys => {
            for key in keys {
                let value = store.metadata().get(key);
                let value = value
                    .ok_or_else(|| Stop::Usage(format!("{}: no key \"{key}\"", shown(path))))?;
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
            value => writeln!(out, "{}", as_json(value))?,
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

fn edit(path: &Path, change: impl FnOnce(&mut KeyValues)) -> Done {
    let change = |keys: &mut KeyValues| {
        change(keys);
        Ok(())
    };
    let how = match ops::edit_metadata(path, change, &WriteOptions::new())? {
        ops::EditOutcome::InPlace => "edited in place",
        ops::EditOutcome::NewBlob => "wrote a new blob, which the model's manifest now names",
        _ => "rewrote the file",
    };
    let mut out = print::stdout();
    writeln!(out, "{}: {how}", shown(path))?;
    out.flush()?;
    Ok(Status::Fine)
}

/// A key and its new value.
struct Setting {
    key: String,
    value_type: ValueType,
    text: String,
}

impl Setting {
    fn parse(text: &str, store: &weighbridge::Model) -> Result<Self, Stop> {
        let usage = |what: String| Stop::Usage(format!("{text}: {what}"));
        let (key, value) =
            text.split_once('=').ok_or_else(|| usage("expected KEY=VALUE".to_owned()))?;
        let old = store.metadata().get(key).map(|value| value.value_type());
        let named = value.split_once(':').and_then(|(name, rest)| {
            let name = if name == "str" { "string" } else { name };
            let known = (0..13).filter_map(ValueType::from_code).find(|known| known.name() == name);
            Some((known?, rest))
        });
        let (value_type, text) = match (named, old) {
            (Some((value_type, rest)), _) => (value_type, rest),
            (None, Some(old)) => (old, value),
            (None, None) => {
                let fault = format!(
                    "there is no key \"{key}\" yet: give its type, as in {key}=u32:1 or {key}=str:x"
                );
                return Err(usage(fault));
            }
        };
        if value_type == ValueType::Array {
            return Err(usage("arrays cannot be set on the command line".to_owned()));
        }
        let this = Self { key: key.to_owned(), value_type, text: text.to_owned() };
        match this.value() {
            Some(_) => Ok(this),
            None => Err(usage(format!("\"{}\" is not a valid {}", this.text, value_type.name()))),
        }
    }

    fn value(&self) -> Option<Value<'_>> {
        let text = &self.text;
        Some(match self.value_type {
            ValueType::U8 => Value::U8(text.parse().ok()?),
            ValueType::I8 => Value::I8(text.parse().ok()?),
            ValueType::U16 => Value::U16(text.parse().ok()?),
            ValueType::I16 => Value::I16(text.parse().ok()?),
            ValueType::U32 => Value::U32(text.parse().ok()?),
            ValueType::I32 => Value::I32(text.parse().ok()?),
            ValueType::F32 => Value::F32(text.parse().ok()?),
            ValueType::Bool => Value::Bool(text.parse().ok()?),
            ValueType::String => Value::String(Text::new(text.as_bytes())),
            ValueType::U64 => Value::U64(text.parse().ok()?),
            ValueType::I64 => Value::I64(text.parse().ok()?),
            ValueType::F64 => Value::F64(text.parse().ok()?),
            ValueType::Array => return None,
        })
    }

    fn put(&self, keys: &mut KeyValues) {
        if let Some(value) = self.value() {
            keys.set(&self.key, value);
        }
    }
}
