//! The first example of README.md shows what the program prints.

use crate::support::{printed, root};

#[test]
fn the_demonstration_is_true() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("README.md");
    let (before, rest) = readme.split_once("```text\n").expect("an example");
    let (shown, after) = rest.split_once("```").expect("its end");
    let demo = printed(&["demo"]);
    if std::env::var_os("WRITE_PAGES").is_some() {
        std::fs::write(&path, format!("{before}```text\n{demo}```{after}")).expect("README.md");
        return;
    }
    assert_eq!(shown, demo, "run WRITE_PAGES=1 cargo test -p weighbridge-cli --test it readme");
    assert!(demo.lines().count() <= 16 && readme.lines().count() <= 120);
}
