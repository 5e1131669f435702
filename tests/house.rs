//! Rules of the repository that no compiler checks.

#[path = "house/imports.rs"]
mod imports;
#[path = "house/tokens.rs"]
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weighbridge::arch::{Architecture, NameRule, StoredForm, architectures};
use weighbridge::container::CONTAINERS;
use weighbridge::dtype::DTYPES;

use crate::imports::{Crate, Edges, circles};
use crate::tokens::{Token, functions, tokens};

/// The folders of sources of every crate of the repository.
const CRATES: &[&str] = &[
    "adapters/burn/src",
    "adapters/candle/src",
    "bench/benches",
    "bench/device/src",
    "bench/src",
    "capi/src",
    "cli/src",
    "crates/weighbridge-gpu/src",
    "crates/weighbridge-quant/src",
    "dlpack/src",
    "examples",
    "fuzz/fuzz_targets",
    "python/src",
    "reference/src",
    "src",
    "web/src",
    "web/wasm/src",
    "xtask/src",
];

/// Lines that a file may have before its tests.
const LINES: usize = 800;

/// Bytes that a snapshot may have: a person can still read what changes.
const SNAPSHOT: u64 = 20_000;

/// Lines that a function may have.
const FUNCTION_LINES: usize = 80;

/// Longer functions, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// Canonical tensors that may be the very same as another one: the architecture and the name.
/// Falcon 7B has one norm before attention and the feed-forward network, Falcon 40B one for each.
const TWO_USES: &[(&str, &str)] =
    &[("falcon", "layers.{n}.ffn_norm.weight"), ("falcon", "layers.{n}.ffn_norm.bias")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files with an ending.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|own| own == ending) {
            found.push(path);
        }
    }
}

/// The text of all sources before their tests, by their paths.
fn sources() -> BTreeMap<String, String> {
    CRATES.iter().flat_map(|folder| sources_in(folder)).collect()
}

/// The sources in a folder up to their tests, by their paths.
fn sources_in(folder: &str) -> BTreeMap<String, String> {
    let cut = |(name, text): (String, String)| {
        let end = text.find("\n#[cfg(test)]").unwrap_or(text.len());
        (format!("{folder}/{name}"), text[..end].to_owned())
    };
    whole_sources(folder).into_iter().map(cut).collect()
}

/// The sources in a folder by their paths in it, except for files of tests, which may use everything.
fn whole_sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    let src = root().join(folder);
    files(&src, "rs", &mut found);
    let of_tests =
        |path: &Path| path.ends_with("tests.rs") || path.with_file_name("").ends_with("tests");
    found.retain(|path| !of_tests(path));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let name = path.strip_prefix(&src).expect("a path below src").to_string_lossy();
        (name.replace('\\', "/"), text)
    };
    found.into_iter().map(read).collect()
}

/// The imports between the files of a crate. A program next to a library is a crate of its own.
fn edges(folder: &str) -> Edges {
    let mut sources = whole_sources(folder);
    if sources.contains_key("lib.rs") {
        sources.remove("main.rs");
    }
    Crate::new(sources.iter().map(|(file, text)| (file.as_str(), text.as_str()))).edges()
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
    let rows = text
        .lines()
        .map(str::trim_start)
        .skip_while(|line| !line.starts_with(&format!("| {first} |")));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(cell).collect();
    let cell_rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!cell_rows.is_empty(), "CONTRIBUTING.md has no table of \"{first}\"");
    cell_rows
}

fn cell(text: &str) -> String {
    text.trim().trim_matches('`').to_owned()
}

/// The table of modules in CONTRIBUTING.md lists every module of `src/` once, and nothing else.
#[test]
fn modules_are_listed() {
    let rows = contributing("module");
    let listed: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    unique("modules", &listed);
    let sources = whole_sources("src");
    let modules: BTreeSet<&str> =
        sources.keys().filter(|file| *file != "lib.rs").map(|file| module(file)).collect();
    assert_eq!(listed.into_iter().collect::<BTreeSet<&str>>(), modules);
}

/// The first table of the crate's documentation that lists features, and whether they are on by default.
#[test]
fn features_are_documented() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let (_, features) = manifest.split_once("[features]\n").expect("features");
    let features = features.split("\n[").next().unwrap_or_default();
    let lines = features.lines().filter(|line| !line.starts_with('#'));
    let rows: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(" = ")).collect();
    let default = rows["default"];
    let expected: BTreeSet<(String, bool)> = rows
        .keys()
        .filter(|name| **name != "default")
        .map(|name| (name.to_string(), default.contains(&format!("\"{name}\""))))
        .collect();
    let lib = std::fs::read_to_string(root().join("src/lib.rs")).expect("the library");
    let (_, table) = lib.split_once("//! | feature | default |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("//! |"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let listed = cells.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2] == "yes"));
    assert_eq!(listed.collect::<BTreeSet<_>>(), expected);
}

/// A file imports only modules above its own in that table, except for the exceptions listed below it.
#[test]
fn modules_import_those_above_them() {
    let order: Vec<String> = contributing("module").into_iter().map(|row| row[0].clone()).collect();
    let position = |file: &str| order.iter().position(|name| name == module(file));
    let mut below = BTreeSet::new();
    for (file, used) in edges("src").into_keys().filter(|(file, _)| file != "lib.rs") {
        if position(&used) > position(&file) {
            below.insert((file, module(&used).to_owned()));
        }
    }
    let allowed = contributing("file | imports").into_iter().map(|row| {
        assert!(!row[2].is_empty(), "{}: the exception has no reason", row[0]);
        (row[0].clone(), row[1].clone())
    });
    assert_eq!(below, allowed.collect::<BTreeSet<(String, String)>>(), "imports of modules below");
}

/// The files with unsafe code are those of the table in CONTRIBUTING.md.
#[test]
fn unsafe_code_is_where_it_is_known_to_be() {
    let listed: Vec<String> =
        contributing("file | for").into_iter().map(|row| row[0].clone()).collect();
    let allows = |text: &str| {
        text.matches("allow(unsafe_code").count() + text.matches("expect(unsafe_code").count()
    };
    let with_unsafe = sources().into_iter().flat_map(|(file, text)| vec![file; allows(&text)]);
    assert_eq!(with_unsafe.collect::<Vec<_>>(), listed);
}

#[test]
fn files_are_short() {
    for (file, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES, "{file} has {lines} lines before its tests");
    }
}

#[test]
fn snapshots_are_short() {
    for tests in ["tests/it", "cli/tests/it"] {
        let mut found = Vec::new();
        files(&root().join(tests), "snap", &mut found);
        assert!(!found.is_empty(), "no snapshots in {tests}");
        for path in found {
            let bytes = path.metadata().expect("a size").len();
            assert!(bytes <= SNAPSHOT, "{} has {bytes} bytes", path.display());
        }
    }
}

/// The programs whose versions `cargo xtask` installs, as the files of `engines/` name them, and their packages.
const PINNED: [(&str, &str); 4] = [
    ("gguf-py", "gguf"),
    ("llama.cpp", "llama-cpp-python"),
    ("mlx-lm", "mlx-lm"),
    ("transformers", "transformers"),
];

/// The files of facts that were read in sources, or by another package, and the versions that they name.
const NOT_INSTALLED: [(&str, &str); 4] = [
    // A newer llama.cpp than that of the package knows more names.
    ("llama.cpp/names.txt", "llama.cpp of October 2026 (xllamacpp 2026.10.11549)."),
    // Read in the sources of the tool for images.
    ("llama.cpp/projectors.txt", "llama.cpp 0024aa74 (tools/mtmd/clip.cpp, "),
    // The package requires others that read images.
    ("mlx-vlm/", "mlx-vlm 0.7.10."),
    // Ollama is no package.
    ("ollama/", "Ollama fb307609 (2026-08-21)."),
];

/// Each file of facts about another program names its version: that which `cargo xtask` installs, or one that is listed
/// above.
#[test]
fn engines_have_the_pinned_versions() {
    let tasks = std::fs::read_to_string(root().join("xtask/src/main.rs")).expect("the tasks");
    let mut found = Vec::new();
    files(&root().join("engines"), "txt", &mut found);
    assert!(found.len() > 20, "{} files", found.len());
    for path in found {
        let facts = std::fs::read_to_string(&path).expect("facts");
        let file = path.strip_prefix(root().join("engines")).expect("a file of engines/");
        let file = file.to_string_lossy().replace('\\', "/");
        let first = facts.lines().next().unwrap_or_default();
        let named = first.strip_prefix("# ").unwrap_or_else(|| panic!("engines/{file}: {first}"));
        if let Some((_, version)) = NOT_INSTALLED.iter().find(|(start, _)| file.starts_with(start))
        {
            assert!(named.starts_with(version), "engines/{file}: {first}");
            assert!(!first.contains("`cargo xtask engines`"), "engines/{file} is extracted");
            continue;
        }
        let (program, rest) = named.split_once(' ').expect("a program");
        let (_, package) = PINNED.iter().find(|(name, _)| *name == program).unwrap_or_else(|| {
            panic!("engines/{file}: {first}");
        });
        let version = rest.split([' ', ',']).next().unwrap_or_default().trim_end_matches('.');
        let (_, pin) = tasks.split_once(&format!(" {package}==")).expect(package);
        let pin = pin.split(['"', '*', ' ']).next().expect(package);
        // As text 0.19 is the start of 0.190.
        let is_pinned = version == pin || version.starts_with(pin) && pin.ends_with('.');
        assert!(is_pinned, "engines/{file}: {version}, but {package}=={pin} is pinned");
    }
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for folder in CRATES {
        for (file, text) in whole_sources(folder) {
            let all = functions(&tokens(&text)).into_iter();
            let all = all.filter(|(_, lines)| *lines > FUNCTION_LINES);
            long.extend(
                all.map(|(name, lines)| (format!("{folder}/{file}"), name.to_owned(), lines)),
            );
        }
    }
    long.retain(|(file, name, _)| {
        !LONG_FUNCTIONS.iter().any(|(other, function, _)| file == other && name == function)
    });
    assert_eq!(long, [], "functions of more than {FUNCTION_LINES} lines");
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

/// Names of families outside of the code of `families/`: the file, the names, and why they may stand there.
/// They are names of something else, or a foreign program's own tables, which are keyed by them.
const NAMES_ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "src/arch/family/rankers.rs",
        &["qwen3", "qwen3vl"],
        "rankers have the tensors of their family: only their names and their prompt differ",
    ),
    (
        "src/arch/family/towers.rs",
        &[
            "gemma3",
            "gemma4",
            "lfm2",
            "llama4",
            "mistral3",
            "qwen2_5_vl",
            "qwen2_vl",
            "qwen3_5",
            "qwen3_5_moe",
            "qwen3_vl",
            "qwen3_vl_moe",
            "whisper",
        ],
        "vision and audio models, which models of several families have",
    ),
    (
        "src/tokenizer/read.rs",
        &["bert", "gpt2", "llama", "t5"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "src/translate/tokenizer/gguf.rs",
        &["bert", "gpt2", "llama", "t5"],
        "values of tokenizer.ggml.model: kinds of tokenizers, which many families have",
    ),
    (
        "src/translate/tokenizer/pre.rs",
        &[
            "codeshell",
            "command-r",
            "dbrx",
            "exaone",
            "exaone4",
            "falcon",
            "falcon-h1",
            "glm4",
            "hunyuan",
            "hunyuan-dense",
            "hy_v4",
            "jais",
            "lfm2",
            "llama4",
            "mellum",
            "minimax-m2",
            "modern-bert",
            "mpt",
            "olmo",
            "qwen2",
            "qwen35",
            "refact",
            "starcoder",
            "talkie",
        ],
        "values of tokenizer.ggml.pre: llama.cpp names a way to split text by the first vocabulary \
         that had it",
    ),
    (
        "src/ollama/quantization.rs",
        &["gemma4_unified_text"],
        "the names of Gemma 4, whose quantization Ollama chooses by rules of its own",
    ),
    (
        "src/ollama/served.rs",
        &["gemma4", "gpt-oss"],
        "what Ollama's server does for some families and renderers only",
    ),
    (
        "src/recipe/mlx_lm.rs",
        &["bailing_moe_v3", "muse_spark"],
        "mlx-lm's classes whose rules depend on the layer",
    ),
    (
        "src/container/whisper_ggml/header.rs",
        &["whisper"],
        "files of whisper.cpp name no architecture: the container has one model",
    ),
    ("bench/device/src/files.rs", &["llama"], "the model that is measured"),
    ("bench/src/input.rs", &["llama"], "the model that is measured"),
    ("bench/src/model.rs", &["llama"], "the model that is measured"),
    ("xtask/src/machine.rs", &["llama"], "the models of a made-up machine"),
];

/// String literals of a source.
fn literals(text: &str) -> BTreeSet<String> {
    tokens(text).iter().filter_map(Token::literal).map(str::to_owned).collect()
}

#[test]
fn families_are_named_in_their_files_alone() {
    let rows = architectures().into_iter();
    let names: BTreeSet<String> =
        rows.flat_map(|row| row.gguf.iter().chain(row.hf)).map(|name| (*name).to_owned()).collect();
    let mut found = BTreeMap::new();
    let families = root().join("families");
    let of_a_family = |file: &str| {
        let stem = file.strip_prefix("src/arch/family/").and_then(|file| file.strip_suffix(".rs"));
        stem.is_some_and(|stem| families.join(format!("{stem}.family")).is_file())
    };
    for (file, text) in sources().iter().filter(|(file, _)| !of_a_family(file)) {
        let here: Vec<String> = literals(text).intersection(&names).cloned().collect();
        if !here.is_empty() {
            found.insert(file.clone(), here);
        }
    }
    let allowed = NAMES_ELSEWHERE.iter().map(|(file, names, _)| {
        ((*file).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
    });
    assert_eq!(found, allowed.collect::<BTreeMap<String, Vec<String>>>());
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for folder in CRATES {
        let path = |file: String| format!("{folder}/{file}");
        let edges = edges(folder).into_iter();
        let edges: Edges = edges.map(|((a, b), names)| ((path(a), path(b)), names)).collect();
        for circle in circles(&edges) {
            let inside =
                edges.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
            let line = |((a, b), names): (&(String, String), &BTreeSet<String>)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                format!("{a} imports {b}: {}", names.join(", "))
            };
            found.extend(inside.map(line));
        }
    }
    assert!(found.is_empty(), "files that import each other:\n{}", found.join("\n"));
}

/// The map follows re-exports to the file of the item, and sees parents and children.
#[test]
fn imports_are_found() {
    let sources = [
        ("lib.rs", "mod a;\nmod b;\npub use a::Item;\n"),
        ("a/mod.rs", "mod c;\npub use c::Item;\npub struct Parent;\n"),
        ("a/c.rs", "use super::Parent;\npub struct Item(Parent);\n"),
        ("b.rs", "use crate::{Item, a::Parent as Other};\nfn f(_: Item, _: Other) {}\n"),
    ];
    let found = |sources: &[(&'static str, &'static str)]| {
        Crate::new(sources.iter().copied()).edges().into_keys().collect::<Vec<_>>()
    };
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let expected = [edge("a/c.rs", "a/mod.rs"), edge("b.rs", "a/c.rs"), edge("b.rs", "a/mod.rs")];
    assert_eq!(found(&sources), expected);
    let mut sources = sources;
    sources[1].1 = "mod c;\npub use c::Item;\npub struct Parent;\nfn f(_: Item) {}\n";
    let edges = Crate::new(sources).edges();
    assert_eq!(circles(&edges), [BTreeSet::from(["a/c.rs", "a/mod.rs"].map(str::to_owned))]);
}

/// Words of the code that reads files of families, which those files do not have: keys of configs.
const NO_WORDS_OF_FAMILIES: &[&str] =
    &["attention.clamp_kqv", "attn_config.clip_qkv", "clip_qkv", "mask_token_id"];

#[test]
fn every_word_of_a_family_is_described() {
    let pages = ["README.md", "decoder.lines"]
        .map(|page| std::fs::read_to_string(root().join("families").join(page)).expect(page));
    let described = pages.concat();
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let described: BTreeSet<&str> = described.split(|c| !is_of_word(c)).collect();
    let mut files = sources_in("src/arch");
    files.extend(sources_in("reference/src/family"));
    let mut missing = Vec::new();
    for name in [
        "src/arch/family/canonical.rs",
        "src/arch/family/form.rs",
        "src/arch/family/parse.rs",
        "src/arch/family/spellings.rs",
        "src/arch/family/table.rs",
        "src/arch/habits.rs",
        "reference/src/family/mod.rs",
    ] {
        let text = files.get(name).unwrap_or_else(|| panic!("no file {name}"));
        for token in tokens(text) {
            let Some(word) = token.literal() else { continue };
            let is_word = word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.chars().all(|c| is_of_word(c) && !c.is_ascii_uppercase());
            // A transform for q stands for those for k and v.
            let all = word.split_once('.').map_or(word, |(all, _)| all);
            let is_part =
                |other: &&str| other.strip_prefix(all).is_some_and(|p| p.starts_with('.'));
            let of_transform = name.ends_with("form.rs") && described.iter().any(is_part);
            let is_described = described.contains(word) || of_transform;
            if is_word && !is_described && !NO_WORDS_OF_FAMILIES.contains(&word) {
                missing.push(format!("{name}:{}: {word}", token.line));
            }
        }
    }
    assert!(missing.is_empty(), "not in families/README.md:\n{}", missing.join("\n"));
}
