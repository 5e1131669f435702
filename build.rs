//! Lists the files of `families/`, with the names that each of them describes, so that a new file is
//! all that a family needs. Splits those of `engines/` into blocks, so that no program does it when it starts.
//!
//! The environment variable `WEIGHBRIDGE_WITHOUT_FAMILIES` names files of `families/` to leave out, such as
//! `qwen,whisper`: `cargo xtask families` tests that such a family works when it is given as a file at run time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The variable that names the families to leave out, with commas.
const WITHOUT: &str = "WEIGHBRIDGE_WITHOUT_FAMILIES";

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let folder = root.join("families");
    println!("cargo::rerun-if-changed=families");
    println!("cargo::rerun-if-env-changed={WITHOUT}");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "family") {
            files.push(path);
        }
    }
    files.sort();
    let without = env::var(WITHOUT).unwrap_or_default();
    for name in without.split(',').filter(|name| !name.is_empty()) {
        let index = files.iter().position(|path| path.file_stem().is_some_and(|stem| stem == name));
        // All other files use the tables of decoder.family.
        let index = index.filter(|_| name != "decoder").ok_or_else(|| {
            io::Error::other(format!("{WITHOUT}: {name:?} is not a family that can be left out"))
        })?;
        files.remove(index);
    }
    let lines = fs::read_to_string(folder.join("decoder.lines"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("decoder.lines"), split(&lines).0)?;
    let (mut shared, mut of_files) = (String::new(), String::new());
    let mut list = format!("pub(super) static BUILTINS: [Builtin; {}] = [\n", files.len());
    for path in files {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let names = names(&text);
        let bare = out.join(&name).with_extension("family");
        let (lines, rows) = split(&text);
        fs::write(&bare, lines)?;
        match name.as_str() {
            "decoder" => shared = rows,
            _ => of_files.extend(["(\"", &name, "\", &[", &rows, "]),\n"]),
        }
        let row = format!("    Builtin::new({name:?}, include_str!({bare:?}), &{names:?}),\n");
        list.push_str(&row);
    }
    writeln!(list, "];").map_err(io::Error::other)?;
    fs::write(out.join("families.rs"), list)?;
    let canonical = format!(
        "static SHARED: &[TensorRow] = &[{shared}];\nstatic OF_FILES: &[(&str, &[TensorRow])] = &[{of_files}];"
    );
    fs::write(out.join("canonical.rs"), canonical)?;
    engines(&root.join("engines"), &out.join("engines"))
}

/// Writes the blocks of each file of `engines/`: a line, and the indented lines below it. Lines that begin with `#`
/// are comments.
fn engines(from: &Path, to: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed=engines");
    for program in fs::read_dir(from)? {
        let program = program?.path();
        if !program.is_dir() {
            continue;
        }
        let to = to.join(program.file_name().unwrap_or_default());
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(program)? {
            let file = file?.path();
            let text = fs::read_to_string(&file)?;
            let mut blocks: Vec<(&str, String)> = Vec::new();
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                match (line.starts_with(' '), blocks.last_mut()) {
                    (true, Some((_, rest))) => rest.extend([line, "\n"]),
                    _ => blocks.push((line, String::new())),
                }
            }
            let name = to.join(file.file_stem().unwrap_or_default()).with_extension("rs");
            fs::write(name, format!("&{blocks:?}"))?;
        }
    }
    Ok(())
}

/// The lines of a file without comments, indentation and columns, at their places: an error names a line. Rows of
/// canonical tensors are apart, as Rust.
fn split(text: &str) -> (String, String) {
    let (mut bare, mut rows) = (String::new(), String::new());
    let mut part = None;
    for line in text.lines().map(str::trim) {
        let is_row = !line.is_empty() && !line.starts_with(['#', '[']);
        if let Some(head) = line.strip_prefix('[') {
            part = head.strip_prefix("canonical ").map(|head| camel(head.trim_end_matches(']')));
        }
        match &part {
            Some(part) if is_row => rows.push_str(&canonical(line, part)),
            Some(_) => {}
            None if line.contains('"') => bare.push_str(line),
            None if line.starts_with('#') => {}
            None => bare.push_str(&line.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
        bare.push('\n');
    }
    (bare, rows)
}

/// A row of a canonical tensor. A test compares all with those that the library reads from the files.
fn canonical(line: &str, part: &str) -> String {
    let mut words = line.split_whitespace().take_while(|word| *word != "#");
    let (name, role) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut need, mut with_heads) = ("Need::No".to_owned(), "&[]".to_owned());
    let mut shapes = String::new();
    while let Some(word) = words.next() {
        match word {
            "required" => need = "Need::Yes".to_owned(),
            "instead_of" => {
                need = format!("Need::InsteadOf({:?})", words.next().unwrap_or_default());
            }
            "with_module" => need = "Need::WithModule".to_owned(),
            "with_heads" => with_heads = shape(words.next().unwrap_or_default()),
            word => shapes.extend([&shape(word), ", "]),
        }
    }
    let role = camel(role);
    format!(
        "TensorRow {{ name: {name:?}, part: Part::{part}, role: Role::{role}, need: {need}, shapes: &[{shapes}], with_heads: {with_heads} }},\n"
    )
}

/// The lengths of axes, such as `dim,inner+inner`.
fn shape(word: &str) -> String {
    let one = |word: &str| format!("Size::{}", camel(word));
    let sum = |word: &str| word.split('+').map(one).collect::<Vec<_>>().join(", ");
    let size = |word: &str| match word.contains('+') {
        true => format!("Size::Sum(&[{}])", sum(word)),
        false => one(word),
    };
    let sizes = word.split(',').filter(|word| *word != "scalar").map(size);
    format!("&[{}]", sizes.collect::<Vec<_>>().join(", "))
}

/// A name of the data as that of a variant in Rust.
fn camel(word: &str) -> String {
    let big = |part: &str| {
        part.get(..1).unwrap_or_default().to_uppercase() + part.get(1..).unwrap_or_default()
    };
    word.split('_').map(big).collect()
}

/// The names of families, of values of `general.architecture` and of `model_type` in a file.
fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_matches(['[', ']']);
        let mut words = line.split_whitespace();
        match words.next() {
            Some("family" | "gguf") => names.extend(words.next()),
            Some("hf") => names.extend(words),
            _ => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}
