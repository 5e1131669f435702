//! `memory`: what running a model takes, and how it fits on devices.

mod support;

use serde_json::{Value, json};
use support::{json, printed, refused};

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

#[test]
fn weights_cache_buffers_and_total() {
    let report = json(&["memory", GGUF, "--context", "256", "--json"]);
    let number = |key: &str| report[key].as_u64().expect("a number");
    assert_eq!(number("total"), number("weights") + number("cache") + number("buffers"));
    let layers = report["layers"].as_array().expect("layers");
    let of_layers = |key: &str| -> u64 {
        layers.iter().map(|layer| layer[key].as_u64().expect("a number")).sum()
    };
    assert_eq!(number("weights"), of_layers("weights") + number("shared"));
    assert_eq!(number("cache"), of_layers("cache"));
    assert!(layers.iter().all(|layer| layer["keeps"] == "attention"), "{report}");
    assert_eq!(report["max_context"], report["trained_context"]);
    // All tensors count once, in any container.
    let inspected = json(&["inspect", GGUF, "--json"]);
    assert_eq!(report["weights"], inspected["stored_bytes"]);
    let other = json(&["memory", "assets/sample/hf", "--context", "256", "--json"]);
    assert_eq!(other["cache"], report["cache"]);
    // llama.cpp has a multiple of 256 positions.
    let longer = json(&["memory", GGUF, "--context", "257", "--json"]);
    assert_eq!(longer["cache"].as_u64(), Some(2 * number("cache")));
    let packed = json(&["memory", GGUF, "--context", "256", "--kv", "Q8_0", "--json"]);
    assert_eq!(packed["cache"].as_u64().map(|bytes| bytes * 32), Some(number("cache") * 17));
}

#[test]
fn layers_are_divided_among_devices() {
    let whole = json(&["memory", GGUF, "--context", "256", "--json"]);
    let number = |report: &Value, key: &str| report[key].as_u64().expect("a number");
    let all = whole["layers"].as_array().expect("layers").len() as u64;
    let one = json(&["memory", GGUF, "--context", "256", "--device", "gpu0=1GiB", "--json"]);
    let device = &one["devices"][0];
    assert_eq!((&device["name"], number(device, "layers")), (&json!("gpu0"), all));
    assert_eq!((&device["first_layer"], number(device, "bytes")), (&json!(0), 1 << 30));
    assert_eq!(
        (number(device, "cache"), number(&one["host"], "layers")),
        (number(&whole, "cache"), 0)
    );
    assert_eq!(one["max_context"], whole["trained_context"]);
    assert_eq!(one["quantize_to"], Value::Null, "all of it is there");
    // Too small for all: the rest stays on the host, and nothing counts twice.
    let size = number(device, "total") - 1;
    let sized = format!("a={size}");
    let part = json(&["memory", GGUF, "--context", "256", "--device", &sized, "--json"]);
    let (device, host) = (&part["devices"][0], &part["host"]);
    assert_eq!(number(device, "layers") + number(host, "layers"), all);
    assert!(number(host, "layers") > 0 && number(device, "total") <= size, "{part}");
    assert_eq!(number(device, "cache") + number(host, "cache"), number(&whole, "cache"));
    assert!(part["quantize_to"].is_string(), "{part}");
    let said = printed(&["memory", GGUF, "--context", "256", "--device", &sized]);
    let name = part["quantize_to"].as_str().expect("a file type");
    assert!(said.contains(&format!("; quantized to {name}, all would be")), "{said}");
    let two = ["memory", GGUF, "--context", "256", "--device", &sized, "--device", "b=1GiB"];
    let both = json(&[&two[..], &["--json"]].concat());
    assert_eq!(number(&both["host"], "layers"), 0, "{both}");
    let said = printed(&two);
    assert!(said.contains(&format!("all {all} layers are on the devices")), "{said}");
    assert!(said.contains("\n  trained context  256 tokens\n"), "{said}");
    let said = printed(&["memory", GGUF, "--device", "a=1KiB", "--layers"]);
    assert!(said.contains(&format!("0 of {all} layers are on the devices")), "{said}");
    assert!(said.contains("KEEPS") && said.contains("attention"), "{said}");
    assert!(refused(&["memory", GGUF, "--device", "8GiB"]).starts_with("2\n"));
}

/// What fits into a room, what would, and what does not.
#[test]
fn rooms() {
    let told = |room: &str| printed(&["memory", GGUF, "--context", "16", "--room", room]);
    let reported = |room: &str| {
        let report = json(&["memory", GGUF, "--context", "16", "--room", room, "--json"]);
        report["rooms"][0].clone()
    };
    assert!(
        told("1GiB").contains("of this model  fits, with up to 256 tokens"),
        "{}",
        told("1GiB")
    );
    assert_eq!(reported("1GiB")["quantize_to"], Value::Null);
    let room = "1250KiB";
    let name = reported(room)["quantize_to"].as_str().expect("a file type").to_owned();
    assert!(told(room).contains(&format!("; quantized to {name}, it would")), "{}", told(room));
    assert!(told("1KiB").ends_with("does not fit: 0 of 2 layers do\n"), "{}", told("1KiB"));
}
