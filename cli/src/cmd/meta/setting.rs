//! A key and its new value, as `meta set` gets them.

use std::io::Read;
use std::path::Path;

use serde_json::Value as Json;
use weighbridge::bytes::Text;
use weighbridge::metadata::{KeyValues, Value, ValueType};
use weighbridge::recipe::FileType;
use weighbridge::tokenizer::is_special_token_key;
use weighbridge::{Error, ErrorKind, Model};

use super::keys::{known_type, named, nearest_or_known};
use crate::{Stop, failure};

/// The most bytes of a file that a value is read from.
const LARGEST: u64 = 64 << 20;

/// A key and its new value.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) key: String,
    value: NewValue,
}

#[derive(Debug)]
enum NewValue {
    Scalar(ValueType, String),
    Array(ValueType, Vec<Json>),
    Templates(Templates),
}

/// Chat templates with their names; the one without is the model's own.
type Templates = Vec<(Option<String>, String)>;

impl NewValue {
    /// The fault of a value that is not valid.
    fn fault(&self) -> String {
        match self {
            Self::Scalar(value_type, text) => {
                let form = match value_type {
                    ValueType::Bool => ": true or false",
                    ValueType::F32 | ValueType::F64 => ": a number",
                    _ => ": a whole number",
                };
                format!("\"{}\" is not a valid {}{form}", shortened(text), value_type.name())
            }
            Self::Array(element, _) => format!("an element is not a valid {}", element.name()),
            Self::Templates(_) => "not a chat template".to_owned(),
        }
    }
}

/// The type that an argument states.
enum Stated {
    Scalar(ValueType),
    Array(ValueType),
    /// A token, given by its text.
    Token,
}

impl Setting {
    /// Parses `KEY=VALUE`, `KEY=TYPE:VALUE`, `KEY=TYPE[]:JSON` or one of these with `@FILE` as the
    /// value.
    pub(super) fn parse(argument: &str, model: &Model) -> Result<Self, Stop> {
        let usage = |what: String| Stop::Usage(format!("{}: {what}", shortened(argument)));
        let (key, value) = argument
            .split_once('=')
            .ok_or_else(|| usage("expected KEY=VALUE, without spaces".to_owned()))?;
        check_key(key).map_err(usage)?;
        let key = named(key, model);
        let (stated, value) =
            match value.split_once(':').and_then(|(name, rest)| Some((stated_type(name)?, rest))) {
                Some((stated, rest)) => (Some(stated), rest),
                None => (None, value),
            };
        let text = match value.strip_prefix('@') {
            Some(rest) if rest.starts_with('@') => rest.to_owned(),
            Some(path) => read(Path::new(path))?,
            None => value.to_owned(),
        };
        let text = match key.as_str() {
            "general.file_type" => file_type(text),
            _ => text,
        };
        if key == "tokenizer.chat_template"
            && let Some(templates) = templates(&text).map_err(usage)?
        {
            return Ok(Self { key, value: NewValue::Templates(templates) });
        }
        let is_file = value.starts_with('@') && !value.starts_with("@@");
        if !is_file {
            failure::note_file(value);
        }
        let old = model.metadata().get(&key);
        let is_token = is_special_token_key(&key)
            || old.is_some() && key.starts_with("tokenizer.") && key.ends_with("_token_id");
        let known = known_type(&key, model);
        let stated = match (stated, known) {
            (Some(Stated::Scalar(_)), Some(ValueType::Array)) => {
                return Err(usage(format!(
                    "\"{key}\" is an array of strings: {key}=TEXT,TEXT or {key}='str[]:[\"TEXT\"]'"
                )));
            }
            (None, Some(ValueType::Array)) if !text.starts_with('[') => {
                let texts = text.split(',').map(|text| Json::from(text.trim())).collect();
                return Ok(Self { key, value: NewValue::Array(ValueType::String, texts) });
            }
            (None, Some(ValueType::Array)) => Some(Stated::Array(ValueType::String)),
            (None, Some(known)) if old.is_none() && !is_token => Some(Stated::Scalar(known)),
            (stated, _) => stated,
        };
        let value = match (stated, old) {
            (Some(Stated::Token), old) => token(&text, old.as_ref(), model)?,
            (None, old) if is_token && text.trim().parse::<i64>().is_err() => {
                token(&text, old.as_ref(), model)?
            }
            (None, None) if is_token => NewValue::Scalar(ValueType::U32, text),
            (Some(Stated::Scalar(value_type)), _) => NewValue::Scalar(value_type, text),
            (Some(Stated::Array(element)), _) => {
                NewValue::Array(element, list(&text).map_err(usage)?)
            }
            (None, Some(Value::Array(array))) => {
                NewValue::Array(array.element_type(), list(&text).map_err(usage)?)
            }
            (None, Some(old)) => NewValue::Scalar(old.value_type(), text),
            (None, None) => return Err(usage(untyped(&key, &text, is_file, model))),
        };
        let this = Self { key, value };
        match this.is_valid() {
            true => Ok(this),
            false => Err(usage(this.value.fault())),
        }
    }

    fn is_valid(&self) -> bool {
        self.set(&mut KeyValues::new()).is_some()
    }

    /// Sets the key.
    pub(super) fn put(&self, keys: &mut KeyValues) {
        // `parse` checked that the value is valid.
        let _ = self.set(keys);
    }

    fn set(&self, keys: &mut KeyValues) -> Option<()> {
        match &self.value {
            NewValue::Scalar(value_type, text) => keys.set(&self.key, scalar(*value_type, text)?),
            NewValue::Array(element, list) => array(&self.key, *element, list, keys)?,
            NewValue::Templates(templates) => {
                for (name, text) in templates {
                    let end = name.as_ref().map_or_else(String::new, |name| format!(".{name}"));
                    keys.set_text(&format!("{}{end}", self.key), text);
                }
                let names = templates.iter().filter_map(|(name, _)| name.as_deref());
                if names.clone().next().is_some() {
                    keys.set_array("tokenizer.chat_templates", names);
                }
            }
        }
        Some(())
    }
}

/// The number of a file type, for its name.
fn file_type(text: String) -> String {
    let named = FileType::from_name(text.trim_start_matches("MOSTLY_"));
    named.and_then(|named| named.descriptor().number).map_or(text, |number| number.to_string())
}

/// The templates in the JSON of a tokenizer_config.json, which has one or a list of named ones, or in such a list. Names
/// are written as gguf-py writes them, and `default` is the model's own. `None` for a text that is a template itself.
fn templates(text: &str) -> Result<Option<Templates>, String> {
    let held = match serde_json::from_str::<Json>(text) {
        Ok(Json::Object(mut config)) => config.remove("chat_template").unwrap_or_default(),
        Ok(list @ Json::Array(_)) => list,
        _ => return Ok(None),
    };
    let named = |it: &Json| {
        let (name, text) = (it.get("name")?.as_str()?, it.get("template")?.as_str()?);
        let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
        let name = Some(name.chars().map(plain).collect()).filter(|name| name != "default");
        Some((name, text.to_owned()))
    };
    let found = match held {
        Json::String(text) => Some(vec![(None, text)]),
        Json::Array(list) => list.iter().map(named).collect(),
        _ => None,
    };
    let found = found.filter(|found| !found.is_empty());
    found.map(Some).ok_or_else(|| {
        "this JSON has no key \"chat_template\" with a text or a list of {name, template}: a template of its own is in \
            chat_template.jinja, or the model has none"
            .to_owned()
    })
}

/// Refuses what is no key: nothing, or one element of an array.
fn check_key(key: &str) -> Result<(), String> {
    match key {
        "" => Err("expected KEY=VALUE, without spaces".to_owned()),
        key if key.ends_with(']') => Err("one element of an array is not set, but all: \
            KEY='TYPE[]:[VALUE,VALUE]' or KEY=TYPE[]:@FILE"
            .to_owned()),
        _ => Ok(()),
    }
}

/// The fault of a new key without a type, with an example.
fn untyped(key: &str, text: &str, is_file: bool, model: &Model) -> String {
    let example = match (is_file, text.starts_with('[')) {
        (true, _) => "str:@FILE",
        (false, true) => "i32[]:[1,2]",
        (false, false) if text.parse::<i64>().is_ok() => "u32:1",
        (false, false) if text.parse::<f64>().is_ok() => "f32:0.5",
        (false, false) if text.parse::<bool>().is_ok() => "bool:true",
        (false, false) => "str:TEXT",
    };
    let nearest = nearest_or_known(key, model).map_or_else(String::new, |nearest| {
        format!(", and the nearest key is \"{}\"", shortened(&nearest))
    });
    if !key.contains('.') {
        return format!(
            "there is no key \"{key}\"{nearest}; `meta get` lists all, and a new one has a dot: general.{key}={example}"
        );
    }
    format!(
        "there is no key \"{key}\" yet{nearest}: to add it, give its type, as in {key}={example}"
    )
}

fn stated_type(name: &str) -> Option<Stated> {
    if name == "token" {
        return Some(Stated::Token);
    }
    let scalar = |name: &str| {
        let name = if name == "str" { "string" } else { name };
        let known = (0..13).filter_map(ValueType::from_code).find(|known| known.name() == name);
        known.filter(|known| *known != ValueType::Array)
    };
    match name.strip_suffix("[]") {
        Some(element) => scalar(element).map(Stated::Array),
        None => scalar(name).map(Stated::Scalar),
    }
}

/// A value of one type, from its text.
fn scalar(value_type: ValueType, text: &str) -> Option<Value<'_>> {
    Some(match value_type {
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

/// Sets a key to an array of one type.
fn array(key: &str, element: ValueType, list: &[Json], keys: &mut KeyValues) -> Option<()> {
    fn numbers<T: std::str::FromStr>(list: &[Json]) -> Option<Vec<T>> {
        let number = |json: &Json| json.is_number().then(|| json.to_string().parse().ok())?;
        list.iter().map(number).collect()
    }
    match element {
        ValueType::U8 => keys.set_array(key, numbers::<u8>(list)?),
        ValueType::I8 => keys.set_array(key, numbers::<i8>(list)?),
        ValueType::U16 => keys.set_array(key, numbers::<u16>(list)?),
        ValueType::I16 => keys.set_array(key, numbers::<i16>(list)?),
        ValueType::U32 => keys.set_array(key, numbers::<u32>(list)?),
        ValueType::I32 => keys.set_array(key, numbers::<i32>(list)?),
        ValueType::U64 => keys.set_array(key, numbers::<u64>(list)?),
        ValueType::I64 => keys.set_array(key, numbers::<i64>(list)?),
        ValueType::F32 => keys.set_array(key, numbers::<f32>(list)?),
        ValueType::F64 => keys.set_array(key, numbers::<f64>(list)?),
        ValueType::Bool => {
            keys.set_array(key, list.iter().map(Json::as_bool).collect::<Option<Vec<bool>>>()?);
        }
        ValueType::String => {
            keys.set_array(key, list.iter().map(Json::as_str).collect::<Option<Vec<&str>>>()?);
        }
        ValueType::Array => return None,
    }
    Some(())
}

fn list(text: &str) -> Result<Vec<Json>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("an array is given as JSON, as in [1,2]: {error}"))
}

/// The number of the token with this text. An integer keeps its type; llama.cpp writes u32.
fn token(text: &str, old: Option<&Value<'_>>, model: &Model) -> Result<NewValue, Stop> {
    let tokenizer = model.tokenizer()?.ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, "the model has no tokenizer");
        error.in_file(model.path()).advise("give the number of the token")
    })?;
    let text = text.trim_end_matches('\n');
    let found = tokenizer.tokens().find(|token| *token.text == *text.as_bytes());
    let id = found.map(|token| token.id).ok_or_else(|| {
        let fault = format!("the vocabulary has no token \"{}\"", shortened(text));
        Error::new(ErrorKind::NotFound, fault).in_file(model.path())
    })?;
    let old = old.filter(|old| old.to_i128().is_some()).map(Value::value_type);
    Ok(NewValue::Scalar(old.unwrap_or(ValueType::U32), id.to_string()))
}

fn read(path: &Path) -> Result<String, Stop> {
    let failed = |error| failure::io(path, "cannot read the file", error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    let malformed =
        |fault: &'static str| Stop::Library(Error::new(ErrorKind::Malformed, fault).in_file(path));
    if bytes.len() as u64 > LARGEST {
        return Err(malformed("the file has more than 64 MiB, too many for a value"));
    }
    String::from_utf8(bytes).map_err(|_| malformed("the file is not text in UTF-8"))
}

/// A text for messages.
fn shortened(text: &str) -> String {
    Text::new(text.as_bytes()).brief()
}
