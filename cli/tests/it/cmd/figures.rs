//! The numbers of the page are those that the verbs print: over every model among the fixtures, and among those in the
//! folder that `WEIGHBRIDGE_FIXTURES` names.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::support::{json, root, run};
use serde_json::Value;
use weighbridge::Model;
use weighbridge_web::{Parameters, Viewer};

/// The figures of `inspect --stats` that the page shows.
const STATISTICS: &[&str] = &[
    "dtype",
    "shape",
    "bits_per_weight",
    "elements",
    "nan",
    "infinite",
    "zeros",
    "outliers",
    "min",
    "max",
    "mean",
    "deviation",
    "rms",
    "quantiles",
    "scales",
];

/// The figures of `diff` that the page shows.
pub(crate) const DIFFERENCES: &[&str] = &[
    "elements",
    "differing",
    "max_difference",
    "rms_difference",
    "relative_rms",
    "cosine",
    "worst",
];

/// A larger tensor is not dumped.
const DUMPED: u64 = 1 << 18;

/// The number of tensors of two models whose clipped values are compared.
const CLIPPED: usize = 3;

/// The files and folders below one that may be models.
fn candidates(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let is_model = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "safetensors") || path.ends_with("config.json")
    };
    if paths.iter().any(is_model) {
        found.push(folder.to_owned());
    }
    for path in paths {
        match path.is_dir() {
            true if path.ends_with("hostile") => {}
            true => candidates(&path, found),
            false if path.extension().is_some_and(|end| end == "gguf") => found.push(path),
            false => {}
        }
    }
}

/// The models among the fixtures, by path.
fn models() -> Vec<(String, Model)> {
    let mut paths = Vec::new();
    candidates(&root().join("assets"), &mut paths);
    candidates(&root().join("tests/fixtures"), &mut paths);
    if let Some(folder) = std::env::var_os("WEIGHBRIDGE_FIXTURES") {
        candidates(Path::new(&folder), &mut paths);
    }
    let opened = |path: PathBuf| {
        let model = Model::open(&path).ok().filter(|model| !model.is_empty())?;
        Some((path.to_str().expect("UTF-8").to_owned(), model))
    };
    paths.into_iter().filter_map(opened).collect()
}

fn ask(viewer: &Viewer, question: &str, query: &str) -> Result<Value, String> {
    let answer = viewer.answer(question, &Parameters::parse(query), &|_| ControlFlow::Continue(()));
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&answer).expect("JSON"))
}

/// All entries of an answer that comes in batches.
fn batches(viewer: &Viewer, question: &str, query: &str, key: &str) -> Vec<Value> {
    let (mut found, mut next) = (Vec::new(), Value::from(0));
    while !next.is_null() {
        let mut answer = ask(viewer, question, &format!("{query}&from={next}")).expect(query);
        found.append(answer[key].as_array_mut().expect("a list"));
        next = answer["next"].take();
    }
    found
}

fn by_name(entries: &Value) -> BTreeMap<&str, &Value> {
    let entries = entries.as_array().expect("a list").iter();
    entries.map(|entry| (entry["name"].as_str().expect("a name"), entry)).collect()
}

/// Compares the statistics of every tensor. Gives the positions of those that can be read.
fn same_statistics(viewer: &Viewer, number: usize, path: &str) -> Vec<(usize, String)> {
    let printed = json(&["inspect", path, "--stats", "--json"]);
    let printed = by_name(&printed["tensors"]);
    let found = batches(viewer, "statistics", &format!("model={number}"), "tensors");
    assert_eq!(found.len(), printed.len(), "{path}");
    let mut readable = Vec::new();
    for (at, entry) in found.iter().enumerate() {
        let name = entry["name"].as_str().expect("a name");
        for figure in STATISTICS {
            assert_eq!(entry.get(figure), printed[name].get(figure), "{path}: {name}: {figure}");
        }
        if entry.get("mean").is_some() {
            readable.push((at, name.to_owned()));
        }
    }
    readable
}

/// Compares single numbers of the heat map, and the largest values, with those that `dump` writes.
fn same_values(viewer: &Viewer, number: usize, path: &str, (at, name): &(usize, String)) {
    let query = format!("model={number}&at={at}");
    let shape: Vec<u64> =
        serde_json::from_value(ask(viewer, "tensor", &query).expect(name)["shape"].take())
            .expect("a shape");
    let elements: u64 = shape.iter().product();
    if elements == 0 || elements > DUMPED {
        return;
    }
    let dumped = run(&["dump", path, name, "--as", "f32"]);
    assert_eq!(dumped.status, Some(0), "{path}: {name}: {}", dumped.err);
    let (bytes, _) = dumped.bytes.as_chunks();
    let dumped: Vec<f32> = bytes.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let columns = shape.last().copied().unwrap_or(1).max(1);
    let rows = elements / columns;
    let query = format!("{query}&height={rows}&width={columns}&rows=0-{rows}&columns=0-{columns}");
    let grid = ask(viewer, "grid", &query).expect(name);
    for (place, expected) in dumped.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let shown = grid["mean"][place].as_f64().expect("a number") as f32;
        assert_eq!(shown.to_bits(), expected.to_bits(), "{path}: {name}: {place}");
    }
    let mut found = ask(viewer, "standouts", &query).expect(name);
    let found = found["largest"].as_array_mut().expect("a list");
    let size = |one: &Value| one["value"].as_f64().expect("a number").abs() as f32;
    let largest: Vec<f32> = found.iter().map(size).collect();
    let finite = dumped.iter().filter(|value| value.is_finite() && **value != 0.0);
    let mut sizes: Vec<f32> = finite.map(|value| value.abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    sizes.truncate(largest.len().max(10));
    assert_eq!(largest, sizes, "{path}: {name}");
}

/// Compares the clipped values of a tensor with what `diff` prints of it alone.
fn same_clipping(viewer: &Viewer, query: &str, [of_a, of_b, name]: [&str; 3]) {
    let Ok(shown) = ask(viewer, "clipping", query) else { return };
    let ran = run(&["diff", of_a, of_b, "--json", "--filter", name]);
    let printed: Value = serde_json::from_str(&ran.out).expect(name);
    assert_eq!(printed["compared"], 1, "{of_a} {of_b}: {name}");
    let printed = printed.get("clipping").unwrap_or(&Value::Null);
    assert_eq!(&shown["clipping"], printed, "{of_a} {of_b}: {name}");
}

/// Compares two models. Gives the number of tensors whose values differ; `None` if they cannot be compared.
fn same_differences(viewer: &Viewer, [(a, of_a), (b, of_b)]: [(usize, &str); 2]) -> Option<usize> {
    let both = format!("{of_a} {of_b}");
    let query = format!("a={a}&b={b}");
    let pairs = ask(viewer, "pairs", &query);
    let ran = run(&["diff", of_a, of_b, "--json"]);
    let Ok(pairs) = pairs else {
        assert!(ran.status.is_some_and(|status| status > 1), "{both}");
        return None;
    };
    let printed: Value = serde_json::from_str(&ran.out).expect(&both);
    let different = by_name(&printed["different"]);
    let (mut sum, mut size, mut matrices, mut changed) = (0.0, 0.0, 0, 0);
    for entry in batches(viewer, "differences", &query, "differences") {
        let pair = usize::try_from(entry["pair"].as_u64().expect("a number")).expect("an index");
        let name = pairs["name"][pair].as_str().expect("a name");
        if let Some(error) = entry.get("matrix_error") {
            let shape = pairs["shape"][pair].as_array().expect("a shape").iter();
            let elements: f64 = shape.map(|dim| dim.as_f64().expect("a number")).product();
            (sum, size, matrices) =
                (sum + error.as_f64().expect("a number") * elements, size + elements, matrices + 1);
        }
        let differs = entry["outcome"] == "shapes"
            || entry["differing"].as_u64().is_some_and(|count| count > 0);
        assert_eq!(differs, different.contains_key(name), "{both}: {name}");
        if !differs {
            continue;
        }
        changed += 1;
        for figure in DIFFERENCES {
            assert_eq!(entry.get(figure), different[name].get(figure), "{both}: {name}: {figure}");
        }
        if changed <= CLIPPED {
            same_clipping(viewer, &format!("{query}&pair={pair}"), [of_a, of_b, name]);
        }
    }
    assert_eq!(changed, different.len(), "{both}");
    assert_eq!(matrices, printed["matrices"], "{both}");
    match printed["relative_rms"].as_f64() {
        None => assert_eq!(matrices, 0, "{both}"),
        Some(mean) => {
            assert!((sum / size - mean).abs() <= mean * 1e-12, "{both}: {} {mean}", sum / size);
        }
    }
    Some(changed)
}

#[test]
fn numbers_of_the_page_are_those_of_the_verbs() {
    let (paths, models): (Vec<String>, Vec<Model>) = models().into_iter().unzip();
    let viewer = Viewer::new(models);
    let (mut tensors, mut dumped, mut compared, mut changed) = (0, 0, 0, 0);
    for (number, path) in paths.iter().enumerate() {
        let readable = same_statistics(&viewer, number, path);
        tensors += readable.len();
        let middle = readable.len() / 2;
        let places = [0, middle, readable.len().saturating_sub(1)];
        for tensor in places.iter().filter_map(|place| readable.get(*place)) {
            same_values(&viewer, number, path, tensor);
            dumped += 1;
        }
        if let Some(before) = number.checked_sub(1) {
            let found = same_differences(&viewer, [(before, &paths[before]), (number, path)]);
            compared += usize::from(found.is_some());
            changed += found.unwrap_or(0);
        }
    }
    println!(
        "{} models, {tensors} tensors, {dumped} dumped, {compared} pairs, {changed} tensors that differ",
        paths.len()
    );
    assert!(
        paths.len() > 50 && tensors > 500 && dumped > 150,
        "{} {tensors} {dumped}",
        paths.len()
    );
    assert!(compared > 20 && changed > 100, "{compared} {changed}");
}

/// The first number of a text.
fn number(text: &str) -> f64 {
    let end = text
        .find(|mark: char| !"+-.e".contains(mark) && !mark.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().expect(text)
}

#[test]
fn a_report_has_the_numbers_of_diff() {
    const HF: &str = "assets/sample/hf";
    const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
    let ran = run(&["diff", HF, GGUF, "--json"]);
    let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
    let [a, b] = [HF, GGUF].map(|path| Model::open(root().join(path)).expect(path));
    let page =
        weighbridge_web::report(&a, Some(&b), &|_| ControlFlow::Continue(())).expect("a report");
    let same = |shown: f64, value: &Value, factor: f64| {
        let value = value.as_f64().expect("a number") * factor;
        assert!((shown - value).abs() <= value * 5e-4, "{shown} {value}");
    };
    let (_, whole) = page.split_once("<dt>Relative RMS</dt><dd dir=\"auto\">").expect("the error");
    same(number(whole), &printed["relative_rms"], 100.0);
    let different = printed["different"].as_array().expect("a list");
    assert!(different.len() > 10);
    for tensor in different {
        let name = tensor["name"].as_str().expect("a name");
        let (_, row) = page
            .split_once(&format!("<tr><td class=\"name\" dir=\"auto\">{name}</td>"))
            .expect(name);
        let cells: Vec<f64> = row.split("<td class=\"n\">").skip(1).take(3).map(number).collect();
        same(cells[0], &tensor["relative_rms"], 100.0);
        same(cells[1], &tensor["cosine"], 1.0);
        same(cells[2], &tensor["max_difference"], 1.0);
    }
}
