//! Lists the files of `families/`, with the names that each of them describes, so that a new file is
//! all that a family needs. Splits those of `engines/` into blocks, so that no program does it when it starts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let folder = root.join("families");
    println!("cargo::rerun-if-changed=families");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "family") {
            files.push(path);
        }
    }
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut list = format!("pub(super) static BUILTINS: [Builtin; {}] = [\n", files.len());
    for path in files {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let names = names(&text);
        let bare = out.join(&name).with_extension("family");
        fs::write(&bare, bare_lines(&text))?;
        let row = format!("    Builtin::new({name:?}, include_str!({bare:?}), &{names:?}),\n");
        list.push_str(&row);
    }
    writeln!(list, "];").map_err(io::Error::other)?;
    fs::write(out.join("families.rs"), list)?;
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

/// The lines of a file without comments, indentation and columns, at their places: an error names a line.
fn bare_lines(text: &str) -> String {
    let mut bare = String::new();
    for line in text.lines().map(str::trim) {
        if line.contains('"') {
            bare.push_str(line);
        } else if !line.starts_with('#') {
            bare.push_str(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        bare.push('\n');
    }
    bare
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
