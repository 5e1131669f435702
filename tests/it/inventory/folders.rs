//! The models in folders of this machine: links, revisions, manifests without weights, and folders that
//! cannot be read.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weighbridge::ErrorKind;
use weighbridge::inventory::{
    DuplicateSearch, Inventory, InventoryOptions, InventoryStage, inventory,
};

use crate::ollama_store::Store;
use crate::support::{put, sample};

fn gguf() -> Vec<u8> {
    std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample")
}

/// Options for one folder, without the programs of this machine and without an index.
fn only(root: &Path) -> InventoryOptions<'static> {
    InventoryOptions::new().programs(false).index(None).roots([root.to_path_buf()])
}

fn listed(root: &Path) -> Inventory {
    inventory(&only(root)).unwrap_or_else(|error| panic!("{error}"))
}

fn names(found: &Inventory) -> Vec<&str> {
    found.models.iter().map(|model| model.name.as_str()).collect()
}

fn two_copies() -> TempDir {
    crate::support::folder(&[("a.gguf", gguf()), ("b.gguf", gguf())])
}

/// Whoever cancels while weights are read gets no list in which copies are missing.
#[test]
fn cancelled_while_weights_are_read() {
    let folder = two_copies();
    for search in [DuplicateSearch::Content, DuplicateSearch::Values] {
        let cancel = |stage: InventoryStage, _| match stage {
            InventoryStage::Reading => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let options = only(folder.path()).duplicates(search).progress(&cancel);
        let error = inventory(&options).expect_err("it was cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    }
}

#[test]
fn an_index_that_cannot_be_written_is_said() {
    let folder = two_copies();
    let options = only(folder.path()).index(Some(folder.path().join("a.gguf")));
    let found = inventory(&options).expect("the models all the same");
    assert_eq!(names(&found), ["a.gguf", "b.gguf"]);
    let [fault] = found.faults.as_slice() else { panic!("{:?}", found.faults) };
    assert_eq!(fault.kind(), ErrorKind::Io, "{fault}");
    assert!(fault.to_string().contains("models.index"), "{fault}");
}

/// A model that runs on a server has a manifest in Ollama's store, but no weights.
#[test]
fn a_manifest_without_weights() {
    let store = Store::new();
    let template = store.layer("template", "", b"{{ .Prompt }}");
    store.manifest("far/cloud", &[template]);
    store.manifest("near/latest", &[store.layer("model", "", &gguf())]);
    let found = listed(store.path());
    assert_eq!(names(&found), ["far:cloud", "near:latest"]);
    let [far, near] = found.models.as_slice() else { panic!("two models") };
    assert_eq!((far.container, near.container), (Some("ollama"), Some("ollama")));
    assert_eq!((far.parameters, far.last_used), (None, None));
    assert!(near.parameters.is_some() && near.last_used.is_some());
    for model in &found.models {
        assert!(model.error.is_none(), "{:?}", model.error);
    }
}

/// References of the hub's cache lie in folders if their names have slashes.
#[test]
fn revisions_are_named_by_their_references() {
    let folder = tempfile::tempdir().expect("a folder");
    let commit = |digit: &str| digit.repeat(40);
    let repository = "models--org--tale";
    for (digit, reference) in [("1", Some("main")), ("2", Some("pr/7")), ("3", None)] {
        let commit = commit(digit);
        put(folder.path(), &format!("{repository}/snapshots/{commit}/x.gguf"), gguf());
        if let Some(reference) = reference {
            put(folder.path(), &format!("{repository}/refs/{reference}"), &commit);
        }
    }
    // Other references of the commit of main.
    for number in 0..40 {
        put(folder.path(), &format!("{repository}/refs/v{number}"), commit("1"));
    }
    let at_commit = format!("org/tale@{}", commit("3"));
    assert_eq!(names(&listed(folder.path())), ["org/tale", &at_commit, "org/tale@pr%2F7"]);
}

/// Only in a repository or a folder of Jan's does the folder name the model, and only if it is alone.
#[test]
fn folders_name_models_that_are_alone() {
    let commit = "1".repeat(40);
    let snapshot = |name: &str| format!("models--org--{name}/snapshots/{commit}");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["one", "two"] {
        put(folder.path(), &format!("models--org--{name}/refs/main"), &commit);
    }
    put(folder.path(), &format!("{}/x.gguf", snapshot("one")), gguf());
    put(folder.path(), &format!("{}/x.gguf", snapshot("two")), gguf());
    put(folder.path(), &format!("{}/y.gguf", snapshot("two")), gguf());
    put(folder.path(), "own/model.gguf", gguf());
    let expected = ["org/one", "org/two/x.gguf", "org/two/y.gguf", "own/model.gguf"];
    assert_eq!(names(&listed(folder.path())), expected);
}

/// A link to a file is the model that the file is; both share its bytes.
#[cfg(unix)]
#[test]
fn a_link_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "elsewhere/model.gguf", gguf());
    std::fs::create_dir(folder.path().join("models")).expect("a folder");
    let target = folder.path().join("elsewhere/model.gguf");
    std::os::unix::fs::symlink(target, folder.path().join("models/link.gguf")).expect("a link");
    let found = listed(&folder.path().join("models"));
    assert_eq!(names(&found), ["link.gguf"]);
    assert_eq!(found.bytes, gguf().len() as u64);
    let both = listed(folder.path());
    assert_eq!(names(&both), ["elsewhere/model.gguf", "models/link.gguf"]);
    assert_eq!(both.bytes, gguf().len() as u64);
}

/// Folders in folders, with such names that the path of the last is longer than the system allows.
#[cfg(target_os = "linux")]
fn too_deep(folder: &Path) -> PathBuf {
    let chain =
        |start: &Path| (0..11).fold(start.to_path_buf(), |path, _| path.join("d".repeat(200)));
    let (first, second) = (folder.join("first"), folder.join("second"));
    let ends = [chain(&first), chain(&second)];
    for end in &ends {
        std::fs::create_dir_all(end).expect("folders");
    }
    std::fs::rename(&second, ends[0].join("more")).expect("a longer path");
    first
}

/// A folder that cannot be listed is said, and the models of others are found.
#[cfg(target_os = "linux")]
#[test]
fn folders_that_cannot_be_listed_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    too_deep(folder.path());
    put(folder.path(), "a.gguf", gguf());
    let found = listed(folder.path());
    assert_eq!(names(&found), ["a.gguf"]);
    let [fault] = found.faults.as_slice() else { panic!("{} faults", found.faults.len()) };
    assert!(fault.to_string().contains("cannot list the folder"), "{fault}");
}

/// The totals of all stages that an inventory reported.
fn totals(options: &InventoryOptions<'_>) -> (Inventory, Vec<(InventoryStage, u64)>) {
    let seen = std::sync::Mutex::new(Vec::new());
    let watch = |stage: InventoryStage, progress: weighbridge::Progress| {
        seen.lock().expect("a list").push((stage, progress.total));
        ControlFlow::Continue(())
    };
    let found = inventory(&options.clone().progress(&watch)).expect("models");
    let mut seen = seen.into_inner().expect("a list");
    seen.dedup();
    (found, seen)
}

/// Files of one length are read only if some bytes of theirs are the same, too.
#[test]
fn files_that_begin_otherwise_are_not_read() {
    let other = |at: usize| {
        let mut bytes = gguf();
        bytes[at] ^= 1;
        bytes
    };
    let (len, middle) = (gguf().len(), gguf().len() / 2);
    let cases = [(len - 1, false), (middle, false), (middle / 2, true)];
    for (at, is_read) in cases {
        let folder = crate::support::folder(&[("a.gguf", gguf()), ("b.gguf", other(at))]);
        let options = only(folder.path()).duplicates(DuplicateSearch::Content);
        let (found, seen) = totals(&options);
        assert!(found.duplicates.is_empty());
        let read = (InventoryStage::Reading, 2 * len as u64);
        assert_eq!(seen.contains(&read), is_read, "{at}: {seen:?}");
    }
}

/// The second run opens nothing, says the same, and leaves the index as it is.
#[test]
fn what_the_index_has_is_not_found_out_again() {
    let (folder, index) = (two_copies(), tempfile::tempdir().expect("a folder"));
    let options = only(folder.path()).index(Some(index.path().to_path_buf()));
    let written = || {
        let file = std::fs::metadata(index.path().join("models.index")).expect("an index");
        #[cfg(unix)]
        let file = (std::os::unix::fs::MetadataExt::ino(&file), file.modified().expect("a date"));
        #[cfg(not(unix))]
        let file = file.modified().expect("a date");
        file
    };
    let (first, opened) = totals(&options);
    assert_eq!(opened, [(InventoryStage::Opening, 2)]);
    let before = written();
    let (second, opened) = totals(&options);
    assert_eq!(opened, []);
    assert_eq!(names(&second), names(&first));
    let known = |found: &Inventory| {
        let rows = found.models.iter();
        rows.map(|row| (row.container, row.parameters, row.quantization.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(known(&second), known(&first));
    assert!(written() == before);
    // A model that is gone leaves the index, too.
    std::fs::remove_file(folder.path().join("b.gguf")).expect("a file");
    assert_eq!(names(&totals(&options).0), ["a.gguf"]);
    let text = std::fs::read_to_string(index.path().join("models.index")).expect("an index");
    assert!(text.contains("a.gguf") && !text.contains("b.gguf"), "{text}");
}

/// That this library has read a model is no use of it.
#[test]
fn reading_for_the_index_is_no_use() {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};
    let folder = crate::support::folder(&[("a.gguf", gguf())]);
    let index = tempfile::tempdir().expect("a folder");
    let options = only(folder.path()).index(Some(index.path().to_path_buf()));
    let used = |at: SystemTime| {
        let file = std::fs::File::options().write(true).open(folder.path().join("a.gguf"));
        let times = std::fs::FileTimes::new().set_accessed(at);
        file.expect("a file").set_times(times).expect("a time");
        let found = inventory(&options).expect("a model").models[0].last_used;
        UNIX_EPOCH + Duration::from_secs(found.expect("a time"))
    };
    let day = Duration::from_secs(86_400);
    let now = UNIX_EPOCH
        + Duration::from_secs(SystemTime::now().duration_since(UNIX_EPOCH).expect("now").as_secs());
    let first = now - 9 * day;
    assert_eq!(used(first), first);
    // Opened now, which counts as the time of the last look.
    assert_eq!(used(now - day), first);
    assert_eq!(used(now + day), now + day);
}
