//! Rules of the house that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weighbridge::arch::{ARCHITECTURES, Architecture, NameRule, StoredForm};
use weighbridge::container::CONTAINERS;
use weighbridge::dtype::DTYPES;

/// Rooms of `src/`, floor by floor: a room may use those on its own floor and on floors before it.
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["limits", "progress", "threads"],
    &["bytes"],
    &["digest", "shape"],
    &["quant"],
    &["dtype", "repack"],
    &["index", "metadata", "store"],
    &["container"],
    &["imatrix"],
    &["arch", "tokenizer"],
    &["model"],
    &["translate"],
    &["device", "provider", "recipe", "write"],
    &["ops"],
];

/// Uses that go the other way all the same: the room, what it uses, and why.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("error", "bytes", "messages show paths as `Text`, so that none can write to a terminal")];

/// Files that may hold unsafe code.
const UNSAFE: &[&str] =
    &["bytes/mmap.rs", "quant/kernel.rs", "quant/simd/x86_64.rs", "quant/simd/x86_64/avx512.rs"];

/// Lines that a file may have before its tests.
const LINES: usize = 800;

/// Canonical tensors that may be the very same as another one: the architecture and the name.
/// Falcon 7B has one norm before attention and the feed-forward network, Falcon 40B one for each.
const TWO_USES: &[(&str, &str)] =
    &[("falcon", "layers.{n}.ffn_norm.weight"), ("falcon", "layers.{n}.ffn_norm.bias")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Paths below `src/`, with the text before their tests.
fn sources() -> BTreeMap<String, String> {
    let mut found = Vec::new();
    let src = root().join("src");
    files(&src, &mut found);
    // Tests may use everything.
    found.retain(|path| !path.ends_with("tests.rs"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let end = text.find("\n#[cfg(test)]").unwrap_or(text.len());
        let name = path.strip_prefix(&src).expect("a path below src").to_string_lossy();
        (name.replace('\\', "/"), text[..end].to_owned())
    };
    found.into_iter().map(read).collect()
}

/// The room that a file belongs to.
fn room(file: &str) -> &str {
    let end = file.find('/').or(file.find(".rs")).unwrap_or(file.len());
    &file[..end]
}

fn floor(room: &str) -> usize {
    let floor = FLOORS.iter().position(|rooms| rooms.contains(&room));
    floor.unwrap_or_else(|| panic!("the room \"{room}\" stands on no floor of tests/house.rs"))
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// What `crate::` leads to in a file: the rooms, where `homes` says which room an item is from.
fn used(text: &str, homes: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
    let mut used = BTreeSet::new();
    for (place, _) in code.match_indices("crate::") {
        let after = &code[place + "crate::".len()..];
        let names: Vec<&str> = match after.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or("").split(',').map(str::trim).collect(),
            None => vec![after],
        };
        for name in names.into_iter().map(identifier).filter(|name| !name.is_empty()) {
            used.insert(homes.get(name).map_or(name, String::as_str).to_owned());
        }
    }
    used
}

/// The rooms of the items that `lib.rs` lifts out of them.
fn homes(lib: &str) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for line in lib.lines().filter_map(|line| line.strip_prefix("pub use ")) {
        let Some((room, items)) = line.split_once("::") else { continue };
        for item in items.trim_matches(['{', '}', ';']).split(',').map(str::trim) {
            homes.insert(identifier(item).to_owned(), room.to_owned());
        }
    }
    homes
}

#[test]
fn rooms_use_what_stands_before_them() {
    let sources = sources();
    let homes = homes(&sources["lib.rs"]);
    assert!(homes.len() > 10, "{homes:?}");
    for (file, text) in sources.iter().filter(|(file, _)| *file != "lib.rs") {
        let here = room(file);
        for used in used(text, &homes) {
            let exception = EXCEPTIONS.iter().any(|(from, to, _)| (*from, *to) == (here, &*used));
            assert!(exception || floor(&used) <= floor(here), "src/{file} uses {used}");
        }
    }
}

#[test]
fn unsafe_code_is_where_it_is_known_to_be() {
    for (file, text) in sources() {
        let allows =
            text.matches("allow(unsafe_code").count() + text.matches("expect(unsafe_code").count();
        assert_eq!(allows, usize::from(UNSAFE.contains(&&*file)), "src/{file}");
    }
}

#[test]
fn files_are_short() {
    for (file, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES, "src/{file} has {lines} lines before its tests");
    }
}

fn unique<T: Ord + std::fmt::Debug>(what: &str, names: impl IntoIterator<Item = T>) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(!seen.contains(&name), "{what}: {name:?} stands twice");
        seen.insert(name);
    }
}

#[test]
fn names_in_tables_are_unique() {
    unique("dtypes", DTYPES.iter().map(|row| row.name.to_ascii_lowercase()));
    unique("codes of ggml", DTYPES.iter().filter_map(|row| row.ggml));
    unique("dtypes of safetensors", DTYPES.iter().filter_map(|row| row.safetensors));
    unique("containers", CONTAINERS.iter().map(|row| row.name));
    unique("architectures", ARCHITECTURES.iter().map(|row| row.name));
    unique("GGUF's architectures", ARCHITECTURES.iter().flat_map(|row| row.gguf));
    unique("model types", ARCHITECTURES.iter().flat_map(|row| row.hf));
}

#[test]
fn every_container_has_a_fuzz_target_and_a_page() {
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
    let pages = std::fs::read_dir(root().join("docs/formats")).expect("a folder of pages");
    let pages: Vec<String> = pages
        .map(|page| page.expect("a page").file_name().to_string_lossy().into_owned())
        .collect();
    for row in CONTAINERS {
        let target = format!("fuzz_targets/{}.rs", row.name.replace('-', "_"));
        assert!(root().join("fuzz").join(&target).is_file(), "fuzz/{target} is not there");
        assert!(manifest.contains(&target), "fuzz/Cargo.toml does not name {target}");
        let page = |page: &String| *page == format!("{}.md", row.name);
        assert!(pages.iter().any(page), "docs/formats has no page for {}", row.name);
    }
}

/// The rows that count, of one dialect: an earlier table has a stored name to itself.
fn effective<'a>(
    tables: impl IntoIterator<Item = &'a [NameRule]>,
    stored: fn(&NameRule) -> StoredForm,
) -> Vec<(&'static str, StoredForm)> {
    let mut rows: Vec<(&str, StoredForm)> = Vec::new();
    for table in tables {
        let known: BTreeSet<&str> = rows.iter().map(|(_, stored)| stored.name).collect();
        let row = |rule: &NameRule| (rule.canonical, stored(rule));
        let fresh = |(_, stored): &(&str, StoredForm)| {
            !stored.name.is_empty() && !known.contains(stored.name)
        };
        rows.extend(table.iter().map(row).filter(fresh));
    }
    rows
}

#[test]
fn every_stored_row_is_one_canonical_tensor() {
    for row in ARCHITECTURES {
        let Architecture { name, publisher, mlx, required, rules, .. } = row;
        let of = |tables: Vec<&'static [NameRule]>, stored| effective(tables, stored);
        let (gguf, hf) = (|rule: &NameRule| rule.gguf, |rule: &NameRule| rule.hf);
        for rows in [
            of(rules.to_vec(), gguf),
            of(rules.to_vec(), hf),
            of([&[*mlx], *rules].concat(), hf),
            of(vec![*publisher], hf),
        ] {
            let form =
                |(_, stored): &(&str, StoredForm)| format!("{} {}", stored.name, stored.transform);
            let alone =
                |(canonical, _): &&(&str, StoredForm)| !TWO_USES.contains(&(*name, *canonical));
            unique(name, rows.iter().filter(alone).map(form));
            for (canonical, stored) in rows {
                let layers = |name: &str| name.matches("{n}").count();
                assert_eq!(layers(canonical), layers(stored.name), "{name}: {canonical}");
                assert!(!canonical.contains("{e}"), "{name}: {canonical}");
            }
        }
        let has = |canonical| rules.iter().copied().flatten().any(|r| r.canonical == canonical);
        for rule in publisher.iter().chain(*mlx) {
            assert!(has(rule.canonical), "{name}: {}", rule.canonical);
        }
        for alternatives in *required {
            assert!(alternatives.split(" | ").any(has), "{name}: {alternatives}");
        }
        assert!(required.len() <= 64, "{name}: a bit each");
    }
}

/// Names of families outside of `arch/family/`: the file, the names, and why they may stand there.
/// They are names of something else, or a foreign program's own tables, which are keyed by them.
const NAMES_ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "tokenizer/mod.rs",
        &["bert", "gpt2", "llama"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "translate/tokenizer/gguf.rs",
        &["bert", "gpt2", "llama"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "translate/tokenizer/pre.rs",
        &["command-r", "falcon", "glm4", "olmo", "qwen2", "qwen35"],
        "values of tokenizer.ggml.pre: llama.cpp names a way to split text by the first vocabulary \
         that had it",
    ),
    (
        "container/ollama/write.rs",
        &["cohere", "deepseek", "gemma4", "glm4", "qwen3", "qwen3_5", "qwen3next"],
        "Ollama's renderers and parsers, which it chooses by pieces of the names of classes",
    ),
    (
        "container/whisper_ggml/header.rs",
        &["whisper"],
        "files of whisper.cpp name no architecture: the container has one model",
    ),
];

/// String literals of a source, without its comments.
fn literals(text: &str) -> BTreeSet<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
}

#[test]
fn families_are_named_in_their_files_alone() {
    let rows = ARCHITECTURES.iter();
    let names: BTreeSet<&str> =
        rows.flat_map(|row| row.gguf.iter().chain(row.hf)).copied().collect();
    let mut found = BTreeMap::new();
    let of_a_family = |file: &str| {
        let shared = ["arch/family/mod.rs", "arch/family/decoder/"];
        file.starts_with("arch/family/") && !shared.iter().any(|start| file.starts_with(start))
    };
    for (file, text) in sources().iter().filter(|(file, _)| !of_a_family(file)) {
        let here: Vec<&str> = literals(text).intersection(&names).copied().collect();
        if !here.is_empty() {
            found.insert(file.clone(), here.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let allowed = NAMES_ELSEWHERE.iter().map(|(file, names, _)| {
        ((*file).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
    });
    assert_eq!(found, allowed.collect::<BTreeMap<String, Vec<String>>>());
}
