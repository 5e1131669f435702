//! Gives the program the text of `--version`: the version, the commit and the features.

use std::process::Command;

fn main() {
    // A development build is not built again after each commit, and names none.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit().filter(|_| is_release) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=WEIGHBRIDGE_VERSION={version}");
    println!("cargo::rustc-env=WEIGHBRIDGE_FEATURES={}", features());
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_release) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// The first ten digits of the commit that the sources are from: cargo writes it into a published
/// package; otherwise it is that of the repository. `None` in an archive that has neither.
fn commit() -> Option<String> {
    let published = std::fs::read_to_string(".cargo_vcs_info.json").ok();
    let digits = match &published {
        Some(info) => info.split_once("\"sha1\": \"")?.1.to_owned(),
        None => git(&["rev-parse", "HEAD"])?,
    };
    digits.get(..10).map(str::to_owned)
}

/// The output of git, in the repository of this folder's parent: not in one further up, which would
/// be another project's.
fn git(arguments: &[&str]) -> Option<String> {
    let package = std::env::current_dir().ok()?;
    let outside = package.ancestors().nth(2)?;
    let mut git = Command::new("git");
    let output = git.args(arguments).env("GIT_CEILING_DIRECTORIES", outside).output().ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    Some(printed.trim().to_owned()).filter(|_| output.status.success())
}

/// The Cargo features that are on, in alphabetical order.
fn features() -> String {
    let names = std::env::vars().filter_map(|(name, _)| {
        let feature = name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-");
        Some(feature).filter(|feature| feature != "default")
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
