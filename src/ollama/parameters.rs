//! The parameters that a model sets for its runs (`Options` of api/types.go in Ollama fb307609).

use std::collections::BTreeMap;

use crate::container::ollama::quoted;
use crate::engines::ollama::parameters;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// Parameters by name, each with its value as JSON.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Sets a parameter, or adds a text to a list of texts. Returns whether Ollama has the
    /// parameter; those of earlier versions are ignored.
    ///
    /// # Errors
    ///
    /// `Mismatch` for an unknown name, and for a value of another type.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let Some((_, kind)) = parameters().find(|row| row.0 == name) else {
            let known = parameters().filter(|row| row.1 != "ignored").map(|row| row.0);
            let known: Vec<&str> = known.collect();
            return Err(Error::mismatch(format!("unknown parameter \"{name}\""))
                .advise(format!("one of {}", known.join(", "))));
        };
        let wrong = |expected: &str| {
            Error::mismatch(format!("the parameter {name} is {expected}, not \"{value}\""))
        };
        let json = match kind {
            "ignored" => return Ok(false),
            "integer" => value.parse::<i64>().map_err(|_| wrong("an integer"))?.to_string(),
            "float" => {
                let number = value.parse::<f32>().ok().filter(|number| number.is_finite());
                number_text(f64::from(number.ok_or_else(|| wrong("a number"))?), true)
            }
            "bool" => match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => "true".to_owned(),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => "false".to_owned(),
                _ => return Err(wrong("true or false")),
            },
            _ => match self.0.get(name).and_then(|list| list.strip_suffix(']')) {
                Some(list) => format!("{list},{}]", quoted(value)),
                None => format!("[{}]", quoted(value)),
            },
        };
        self.0.insert(name.to_owned(), json);
        Ok(true)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds the parameters of an existing layer that are not set yet.
    ///
    /// # Errors
    ///
    /// `Malformed` if the layer is not a JSON object.
    pub(crate) fn add_missing(&mut self, layer: &[u8]) -> Result<()> {
        let fault = |error| Error::malformed(format!("the layer of parameters: {error}"));
        for (name, value) in Map::parse(layer).map_err(fault)? {
            self.0.entry(name).or_insert_with(|| json_text(&value));
        }
        Ok(())
    }

    /// The layer, as Go's encoder writes it: sorted by name.
    pub(crate) fn to_layer(&self) -> String {
        let all = self.0.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
        format!("{{{}}}\n", all.collect::<Vec<_>>().join(","))
    }
}

/// A JSON value as Go's encoder writes it.
fn json_text(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(number) => match number.is_float() {
            true => number_text(number.as_f64(), false),
            false => number.to_string(),
        },
        Json::String(text) => quoted(text),
        Json::Array(list) => {
            format!("[{}]", list.iter().map(json_text).collect::<Vec<_>>().join(","))
        }
        Json::Object(map) => {
            let mut sorted: Vec<(&String, &Json)> = map.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            let all = sorted.into_iter();
            let all = all.map(|(name, value)| format!("{}:{}", quoted(name), json_text(value)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        }
    }
}

/// A number as Go's encoder writes it; `narrow` for a number of 32 bits.
fn number_text(number: f64, narrow: bool) -> String {
    let single = f32_of(number);
    let size = number.abs();
    let plain = if narrow { single.to_string() } else { number.to_string() };
    let exponent = if narrow { format!("{single:e}") } else { format!("{number:e}") };
    match size {
        0.0 => plain,
        _ if size >= 1e21 => exponent.replace('e', "e+"),
        _ if size < 1e-6 => exponent,
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_ollamas() {
        let mut set = Parameters::default();
        for (name, value) in [
            ("temperature", "0.6"),
            ("top_p", "0.7"),
            ("top_k", "10"),
            ("stop", "USER:"),
            ("stop", "ASSISTANT:"),
        ] {
            assert!(set.set(name, value).unwrap());
        }
        // Its digest is in Ollama's own test (routes_create_test.go).
        let digest = crate::digest::sha256_of(set.to_layer().as_bytes()).unwrap();
        assert_eq!(digest, "e29a7b3c47287a2489c895d21fe413c20f859a85d20e749492f52a838e36e1ba");
        set.add_missing(b"{\"temperature\":1,\"min_p\":0.05,\"stop\":[\"<x>\"],\"seed\":1e22}")
            .unwrap();
        insta::assert_snapshot!(set.to_layer(), @r#"{"min_p":0.05,"seed":1e+22,"stop":["USER:","ASSISTANT:"],"temperature":0.6,"top_k":10,"top_p":0.7}"#);
        let mut others = Parameters::default();
        assert!(!others.set("mirostat", "1").unwrap());
        assert!(others.set("use_mmap", "F").unwrap() && others.set("min_p", "1e-7").unwrap());
        assert!(others.set("temperature", "1").unwrap() && others.set("stop", "<|end|>").unwrap());
        insta::assert_snapshot!(others.to_layer(), @r#"{"min_p":1e-7,"stop":["\u003c|end|\u003e"],"temperature":1,"use_mmap":false}"#);
    }

    #[test]
    fn wrong_parameters() {
        let told = |name: &str, value: &str| {
            Parameters::default().set(name, value).unwrap_err().to_string()
        };
        insta::assert_snapshot!(told("topk", "1"), @r#"unknown parameter "topk""#);
        insta::assert_snapshot!(told("top_k", "0.5"), @r#"the parameter top_k is an integer, not "0.5""#);
        insta::assert_snapshot!(told("top_p", "nan"), @r#"the parameter top_p is a number, not "nan""#);
        insta::assert_snapshot!(told("use_mmap", "yes"), @r#"the parameter use_mmap is true or false, not "yes""#);
    }
}
