//! Rules of the repository that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weighbridge::arch::{Architecture, NameRule, StoredForm, architectures};
use weighbridge::container::CONTAINERS;
use weighbridge::dtype::DTYPES;

/// Files that may hold unsafe code.
const UNSAFE: &[&str] = &[
    "bytes/bounce.rs",
    "bytes/mmap.rs",
    "device/gpu/import.rs",
    "weighbridge_quant/kernel.rs",
    "weighbridge_quant/simd/aarch64.rs",
    "weighbridge_quant/simd/x86_64.rs",
    "weighbridge_quant/simd/x86_64/avx512.rs",
];

/// The crate of dtypes, whose modules `lib.rs` re-exports: every module may use it.
const QUANT: &str = "weighbridge_quant";

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

/// Paths below `src/`, and those of the crates that it is built on below their names, with the text
/// before their tests.
fn sources() -> BTreeMap<String, String> {
    let mut all = sources_in("src", "");
    all.extend(sources_in("crates/weighbridge-quant/src", "weighbridge_quant/"));
    all
}

/// The sources in a folder, with `start` before their paths.
fn sources_in(folder: &str, start: &str) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    let src = root().join(folder);
    files(&src, &mut found);
    // Tests may use everything.
    let of_tests =
        |path: &Path| path.ends_with("tests.rs") || path.with_file_name("").ends_with("tests");
    found.retain(|path| !of_tests(path));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let end = text.find("\n#[cfg(test)]").unwrap_or(text.len());
        let name = path.strip_prefix(&src).expect("a path below src").to_string_lossy();
        (format!("{start}{}", name.replace('\\', "/")), text[..end].to_owned())
    };
    found.into_iter().map(read).collect()
}

/// The module of `src/` that a file belongs to.
fn module(file: &str) -> &str {
    let end = file.find('/').or(file.find(".rs")).unwrap_or(file.len());
    &file[..end]
}

/// The rows of the table in CONTRIBUTING.md whose head begins with `first`: the cells, without
/// backquotes.
fn contributing(first: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let rows = text.lines().skip_while(|line| !line.starts_with(&format!("| {first} |")));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(cell).collect();
    let cell_rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!cell_rows.is_empty(), "CONTRIBUTING.md has no table of \"{first}\"");
    cell_rows
}

fn cell(text: &str) -> String {
    text.trim().trim_matches('`').to_owned()
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The modules that a file imports with `crate::`; `homes` says which module a root item is from.
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

/// The modules of the items that `lib.rs` re-exports.
fn homes(lib: &str) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for line in lib.lines().filter_map(|line| line.strip_prefix("pub use ")) {
        let Some((module, items)) = line.split_once("::") else { continue };
        let items = items.trim_matches(['{', '}', ';']).split(',').map(str::trim);
        // A renamed item is imported by its new name.
        for item in items.map(|item| item.rsplit(" as ").next().unwrap_or(item)) {
            homes.insert(identifier(item).to_owned(), module.to_owned());
        }
    }
    homes
}

/// The table of modules in CONTRIBUTING.md lists every module of `src/` once, and nothing else.
#[test]
fn modules_are_listed() {
    let rows = contributing("module");
    let listed: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    unique("modules", &listed);
    let sources = sources_in("src", "");
    let modules: BTreeSet<&str> =
        sources.keys().filter(|file| *file != "lib.rs").map(|file| module(file)).collect();
    assert_eq!(listed.into_iter().collect::<BTreeSet<&str>>(), modules);
}

/// A file imports only modules above its own in that table, except for the exceptions listed below it.
#[test]
fn modules_import_those_above_them() {
    let sources = sources_in("src", "");
    let homes = homes(&sources["lib.rs"]);
    assert!(homes.len() > 10, "{homes:?}");
    let order: Vec<String> = contributing("module").into_iter().map(|row| row[0].clone()).collect();
    let position = |name: &str| order.iter().position(|module| module == name);
    let mut found = BTreeSet::new();
    for (file, text) in sources.iter().filter(|(file, _)| *file != "lib.rs") {
        let here = module(file);
        for used in used(text, &homes).into_iter().filter(|used| used != here && used != QUANT) {
            assert!(
                position(&used).is_some(),
                "src/{file} imports crate::{used}, which is not listed"
            );
            if position(&used) > position(here) {
                found.insert((file.clone(), used));
            }
        }
    }
    let allowed = contributing("file | imports").into_iter().map(|row| {
        assert!(!row[2].is_empty(), "{}: the exception has no reason", row[0]);
        (row[0].clone(), row[1].clone())
    });
    assert_eq!(found, allowed.collect::<BTreeSet<(String, String)>>(), "imports of modules below");
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

/// The facts about other programs are those of the versions that `cargo xtask` installs.
#[test]
fn engines_have_the_pinned_versions() {
    let text = |file: &str| std::fs::read_to_string(root().join(file)).expect(file);
    let tasks = text("xtask/src/main.rs");
    for (file, program, package) in [
        ("transformers/defaults.txt", "transformers", "transformers"),
        ("transformers/classes.txt", "transformers", "transformers"),
        ("mlx-lm/classes.txt", "mlx-lm", "mlx-lm"),
        ("llama.cpp/graphs.txt", "llama.cpp", "llama-cpp-python"),
        ("llama.cpp/numbers.txt", "llama.cpp", "llama-cpp-python"),
        ("llama.cpp/towers.txt", "llama.cpp", "llama-cpp-python"),
    ] {
        let facts = text(&format!("engines/{file}"));
        let version = facts.strip_prefix(&format!("# {program} ")).expect(file);
        let version = version.split(' ').next().expect(file).trim_end_matches('.');
        let (_, pin) = tasks.split_once(&format!("\"{package}==")).expect(package);
        let pin = pin.split(['"', '*']).next().expect(package);
        assert!(
            version.starts_with(pin),
            "engines/{file}: {version}, but {package}=={pin} is pinned"
        );
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
    unique("architectures", architectures().iter().map(|row| row.name));
    unique("GGUF's architectures", architectures().iter().flat_map(|row| row.gguf));
    unique("model types", architectures().iter().flat_map(|row| row.hf));
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
    for row in architectures() {
        let Architecture { name, publisher, mlx, optional, rules, .. } = row;
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
        assert!(optional.iter().all(|canonical| has(canonical)), "{name}");
        assert!(row.required().len() <= 64, "{name}: a bit each");
    }
}

/// Names of families outside of `arch/family/`: the file, the names, and why they may stand there.
/// They are names of something else, or a foreign program's own tables, which are keyed by them.
const NAMES_ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "tokenizer/mod.rs",
        &["bert", "gpt2", "llama", "t5"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "translate/tokenizer/gguf.rs",
        &["bert", "gpt2", "llama", "t5"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "translate/tokenizer/pre.rs",
        &[
            "command-r",
            "exaone",
            "exaone4",
            "falcon",
            "glm4",
            "hunyuan-dense",
            "lfm2",
            "llama4",
            "modern-bert",
            "olmo",
            "qwen2",
            "qwen35",
        ],
        "values of tokenizer.ggml.pre: llama.cpp names a way to split text by the first vocabulary \
         that had it",
    ),
    (
        "container/ollama/abilities.rs",
        &[
            "cohere",
            "deepseek",
            "gemma4",
            "glm4",
            "lfm2",
            "ministral",
            "olmo3",
            "qwen3",
            "qwen3_5",
            "qwen3next",
        ],
        "Ollama's renderers and parsers, which it chooses by pieces of the names of classes",
    ),
    (
        "ollama/prompt.rs",
        &["command-r"],
        "Ollama names formats of prompts by the models that had them first",
    ),
    (
        "ollama/served.rs",
        &["gemma4", "gpt-oss"],
        "what Ollama's server does for some families and renderers only",
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
    let rows = architectures().into_iter();
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

/// Files that import each other all the same, and why.
const CIRCLES: &[(&str, &str, &str)] = &[
    ("bytes", "error", "messages show paths as `Text`, and reading bytes fails with `Error`"),
    (
        "weighbridge_quant/element",
        "weighbridge_quant/kernel",
        "elements select kernels, which are generic over elements",
    ),
];

/// The modules that a file imports, by its `use` declarations and paths: `super` and `crate` are
/// resolved to the longest module that exists.
fn imported(module: &[&str], text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !"_:".contains(c)) {
                leaves(&code[at..], &mut Vec::new(), &mut |path: &[&str]| {
                    let mut whole: Vec<&str> = Vec::new();
                    for (number, part) in path.iter().enumerate() {
                        match *part {
                            "crate" => {}
                            "super" if number == 0 => {
                                whole = module[..module.len().saturating_sub(1)].to_vec();
                            }
                            "super" => drop(whole.pop()),
                            part => whole.push(part),
                        }
                    }
                    let lengths = (1..=whole.len()).rev();
                    let known = lengths.map(|len| whole[..len].join("/"));
                    found.extend(known.into_iter().find(|name| modules.contains(name)));
                });
            }
        }
    }
    found
}

/// Visits the paths of a `use` tree; returns what follows it.
fn leaves<'t>(
    mut text: &'t str,
    path: &mut Vec<&'t str>,
    visit: &mut impl FnMut(&[&str]),
) -> &'t str {
    let depth = path.len();
    loop {
        text = text.trim_start();
        if let Some(mut rest) = text.strip_prefix('{') {
            while let Some(more) = rest.trim_start().strip_prefix(',').or(Some(rest)) {
                if let Some(end) = more.trim_start().strip_prefix('}') {
                    rest = end;
                    break;
                }
                let left = leaves(more, path, visit);
                if left.len() == more.len() {
                    break;
                }
                rest = left;
            }
            text = rest;
            break;
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !name.is_empty() {
            path.push(name);
        }
        match rest.strip_prefix("::") {
            Some(rest) if !name.is_empty() => text = rest,
            _ => {
                visit(path);
                text = rest;
                break;
            }
        }
    }
    path.truncate(depth);
    text
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let sources = sources();
    let name = |file: &str| {
        let name = file.strip_suffix(".rs").unwrap_or(file);
        name.strip_suffix("/mod").unwrap_or(name).to_owned()
    };
    let modules: BTreeSet<String> = sources.keys().map(|file| name(file)).collect();
    let family = |a: &str, b: &str| {
        a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/"))
    };
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources.iter().filter(|(file, _)| *file != "lib.rs") {
        let own = name(file);
        let parts: Vec<&str> = own.split('/').collect();
        let mut found = imported(&parts, text, &modules);
        // A room's own `mod.rs` declares its files and shares their types.
        found.retain(|other| !family(other, &own));
        found.retain(|other| {
            !CIRCLES.iter().any(|(a, b, _)| (own == *a && other == b) || (own == *b && other == a))
        });
        imports.insert(own, found);
    }
    assert!(imports["container/gguf/read"].contains("store"), "imports are found");
    // What nothing imports any more, or what imports nothing, is in no circle.
    loop {
        let targets: BTreeSet<String> = imports.values().flatten().cloned().collect();
        let before = imports.len();
        imports.retain(|module, found| !found.is_empty() && targets.contains(module));
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|found| found.retain(|other| left.contains(other)));
        if imports.len() == before {
            break;
        }
    }
    assert_eq!(imports, BTreeMap::new(), "files that import each other");
}
