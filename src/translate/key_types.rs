//! The types of numbers and flags in GGUF. llama.cpp's loader refuses a number of another width.

use crate::arch::config::KEYS;
use crate::bytes::Text;
use crate::engines::llama_cpp;
use crate::metadata::{KeyValues, Value, ValueType};

/// A key whose value has another type than llama.cpp's loader requires.
#[derive(Debug)]
pub(crate) struct WrongType {
    pub(crate) key: String,
    /// The type of the value, or of its elements.
    pub(crate) found: ValueType,
    pub(crate) required: ValueType,
}

/// The keys whose values have a type that llama.cpp's loader refuses.
pub(crate) fn wrong_types<'m>(
    keys: impl Iterator<Item = (Text<'m>, Value<'m>)>,
    architecture: &str,
) -> Vec<WrongType> {
    let wrong = |(key, value): (Text<'m>, Value<'m>)| {
        let key = key.to_str()?;
        let required = required_type(architecture, key)?;
        let found = match &value {
            Value::Array(array) => array.element_type(),
            value => value.value_type(),
        };
        // Whole numbers in an array may have a sign.
        let in_array = matches!(value, Value::Array(_)) && found == ValueType::I32;
        let is_number = !matches!(found, ValueType::String | ValueType::Array);
        let is_flag = found == ValueType::Bool && matches!(value, Value::Array(_));
        let mut types = llama_cpp::key_types(architecture, key);
        let is_accepted = types.any(|name| name == found.name());
        let is_wrong = !is_accepted && is_number && !is_flag;
        (is_wrong && !(in_array && required == ValueType::U32)).then(|| WrongType {
            key: key.to_owned(),
            found,
            required,
        })
    };
    keys.filter_map(wrong).collect()
}

/// The type that llama.cpp's loader of an architecture requires of a number or flag: of `llama.context_length`, u32.
/// `None` for texts, and for keys that it does not read.
pub fn required_type(architecture: &str, key: &str) -> Option<ValueType> {
    const TYPES: [ValueType; 4] = [ValueType::U32, ValueType::I32, ValueType::F32, ValueType::Bool];
    let name = llama_cpp::key_types(architecture, key).last()?;
    TYPES.into_iter().find(|value_type| value_type.name() == name)
}

/// The key of GGUF for a name in `config.json`, or for a key without its architecture: for `rope_theta`,
/// `llama.rope.freq_base`.
pub fn key_named(architecture: &str, name: &str) -> Option<String> {
    let mut rows = KEYS.iter().copied().flatten().filter(|row| !row.gguf.is_empty());
    let row = rows.find(|row| row.gguf.contains(&name) || row.json.contains(&name))?;
    let key = row.gguf.iter().find(|key| **key == name).or(row.gguf.first())?;
    Some(format!("{architecture}.{key}"))
}

/// Gives values the types that llama.cpp's loader requires, as far as these hold them, and returns a note.
pub(crate) fn correct_types(keys: &mut KeyValues) -> Option<String> {
    let architecture = keys.get("general.architecture")?.to_text()?.to_str()?.to_owned();
    let mut wrong = wrong_types(keys.iter(), &architecture);
    wrong.retain(|wrong| keys.set_type(&wrong.key, wrong.required));
    let WrongType { key, found, required } = wrong.first()?;
    let more = match wrong.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let (found, required) = (found.name(), required.name());
    Some(format!("{key}: written as {required}, which llama.cpp requires, not as {found}{more}"))
}
