//! Families that are left out of the build (`WEIGHBRIDGE_WITHOUT_FAMILIES`, see build.rs), given as files: a program of
//! tests that has this module runs as if they were built in. `cargo xtask families` runs such programs.

use std::path::Path;

use weighbridge::arch::{FamilyFile, architectures};

// Before the first test: any of them may open a model. Nothing here relies on what Rust sets up before `main`.
#[ctor::ctor(unsafe)]
fn give() {
    let names = std::env::var("WEIGHBRIDGE_WITHOUT_FAMILIES").unwrap_or_default();
    // `reference` is a folder of the library's.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|at| at.join("families"));
    let folder = folder.into_iter().find(|folder| folder.exists()).expect("the folder of families");
    let built_in = architectures();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let file = FamilyFile::open(folder.join(name).with_extension("family"));
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        for family in file.architectures() {
            let is_built_in = built_in.iter().any(|row| row.name == family.name);
            assert!(!is_built_in, "{} of {name}.family is built in", family.name);
        }
        file.add();
    }
}
