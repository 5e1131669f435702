//! Compares with serde_json, whose bytes and faults are those of the field.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The same document for serde_json.
fn theirs(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => (*flag).into(),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into(),
            (_, Some(number)) => number.into(),
            _ => number.as_f64().into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(list) => list.iter().map(theirs).collect(),
        Json::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), theirs(v))).collect())
        }
    }
}

fn documents() -> impl Strategy<Value = Json> {
    let text = proptest::string::string_regex("[a-c\"\\\\/\u{0}-\u{1f}\u{7f}é\u{2028}𝄞]{0,6}");
    let text = text.expect("a pattern").boxed();
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        (-1e6..1e6f64).prop_map(Json::from),
        text.clone().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 64, 24, move |inner| {
        let members = proptest::collection::vec((text.clone(), inner.clone()), 0..24);
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(Json::Array),
            members.prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn documents_print_as_theirs_and_come_back(json in documents()) {
        let theirs = theirs(&json);
        let compact = json.to_string();
        prop_assert_eq!(&compact, &theirs.to_string());
        let indented = format!("{json:#}");
        prop_assert_eq!(&indented, &serde_json::to_string_pretty(&theirs).expect("a document"));
        prop_assert_eq!(format!("{json:?}"), format!("{theirs:?}"));
        prop_assert_eq!(&Json::parse(compact.as_bytes()).expect("JSON"), &json);
        prop_assert_eq!(&Json::parse(indented.as_bytes()).expect("JSON"), &json);
    }

    #[test]
    fn floats_print_as_theirs(bits in any::<u64>(), exponent in -30..30i32) {
        for float in [f64::from_bits(bits), (bits as f64) * 10f64.powi(exponent), f64::from(bits as f32)] {
            if float.is_finite() {
                let printed = Json::from(float).to_string();
                prop_assert_eq!(&printed, &serde_json::to_string(&float).expect("a float"));
                prop_assert_eq!(Json::parse(printed.as_bytes()).expect("JSON").as_f64(), Some(float));
            }
        }
    }

    #[test]
    fn the_same_texts_are_documents(text in r#"[\[\]{}:,"a\\0-9.eE+ \ntrulfasnd-]{0,14}"#) {
        let (ours, theirs) = (Json::parse(text.as_bytes()), serde_json::from_str::<Value>(&text));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.to_string(), theirs.to_string());
        }
    }

    #[test]
    fn the_same_strings_are_valid(text in r#"(\\u[dD][89c-fC-F][0-9a-f]{2}|\\u[0-9a-f]{3,4}|\\["\\/bfnrtx]|[aé]){0,5}"#) {
        let text = format!("\"{text}\"");
        let (ours, theirs) = (Json::parse(text.as_bytes()), serde_json::from_str::<Value>(&text));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(ours.as_str(), theirs.as_str());
        }
    }

    /// A few keys and many, below and above the size from which a map has an index.
    #[test]
    fn maps_change_as_theirs(steps in proptest::collection::vec((0..4u8, 0..40u32, any::<u32>()), 0..120)) {
        let (mut ours, mut theirs) = (Map::new(), serde_json::Map::new());
        for (step, key, value) in steps {
            let key = format!("key {key}");
            match step {
                0 => {
                    let removed = (ours.remove(&key), theirs.remove(&key));
                    prop_assert_eq!(removed.0.is_some(), removed.1.is_some());
                }
                1 if value % 8 == 0 => {
                    ours.retain(|key, _| !key.ends_with('7'));
                    theirs.retain(|key, _| !key.ends_with('7'));
                }
                1 => {
                    ours.entry(key.as_str()).or_insert(value.into());
                    theirs.entry(key.as_str()).or_insert(value.into());
                }
                _ => {
                    ours.insert(key.as_str(), value.into());
                    theirs.insert(key.clone(), value.into());
                }
            }
            prop_assert_eq!(ours.get(&key).and_then(Json::as_u64), theirs.get(&key).and_then(Value::as_u64));
            prop_assert_eq!(ours.len(), theirs.len());
        }
        prop_assert_eq!(ours.to_string(), Value::Object(theirs).to_string());
    }
}

#[test]
fn faults_have_a_line_and_a_column() {
    let fault = |text: &[u8]| Json::parse(text).expect_err("a fault").to_string();
    assert_eq!(
        fault(b"{\n  \"a\": 1,\n  \"b\" 2\n}"),
        "not valid JSON: ':' expected here, found '2' at line 3 column 7"
    );
    assert_eq!(
        fault(b"[1"),
        "not valid JSON: the text ends where ']' is expected at line 1 column 3"
    );
    assert_eq!(fault(b"\"\xff\""), "not valid JSON: this string is not UTF-8 at line 1 column 4");
    assert_eq!(
        fault(b"[1e999]"),
        "not valid JSON: a number beyond the range of 64-bit floats at line 1 column 2"
    );
    assert_eq!(
        fault(&b"[".repeat(1000)),
        "not valid JSON: nested deeper than 127 levels at line 1 column 128"
    );
    let deep = [b"[".repeat(127), b"]".repeat(127)].concat();
    assert!(Json::parse(&deep).is_ok() && serde_json::from_slice::<Value>(&deep).is_ok());
}

#[test]
fn literals_are_documents() {
    let (name, sizes, none) = ("é".to_owned(), [1u64, 2], None::<f32>);
    let json = json!({
        "null": null, "flag": !name.is_empty(), "number": -1.5, ("name"): name, "list": [sizes, [], none, 3 + 4],
        "object": {"empty": {}, "text": name.as_str()},
    });
    let text = r#"{"null":null,"flag":true,"number":-1.5,"name":"é","list":[[1,2],[],null,7],"object":{"empty":{},"text":"é"}}"#;
    assert_eq!(json.to_string(), text);
    assert_eq!(json["list"][3], 7);
    assert_eq!(json.pointer("/list/0/1"), Some(&2.into()));
    assert_eq!((&json["missing"]["key"], &json["list"][9]), (&Json::Null, &Json::Null));
    // Integers and floats differ, and the order of members does not matter.
    assert_ne!(json!(1), json!(1.0));
    assert_eq!(json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}));
}
