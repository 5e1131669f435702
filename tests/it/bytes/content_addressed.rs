//! Files named by the digest of their content: other programs trust the name, so no command may
//! change such a file under it.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the files and their sizes are the test's own")]

use crate::ollama_store;
use crate::support;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::ollama_store::Store;
use crate::support::{Gguf, Kv, f32s, folder, told, without_path};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weighbridge::container::Shards;
use weighbridge::metadata::KeyValues;
use weighbridge::ops::{self, EditOutcome};
use weighbridge::{DType, ErrorKind, Model, WriteOptions};

fn gguf(name: &str) -> Vec<u8> {
    Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("general.name", Kv::text(name))
        .tensor("token_embd.weight", DType::F32, &[1, 32], f32s(&[3.0; 32]))
        .build()
}

fn set(path: &Path, key: &'static str, value: &'static str) -> weighbridge::Result<EditOutcome> {
    let edit = |keys: &mut KeyValues| {
        keys.set_text(key, value);
        Ok(())
    };
    ops::edit_metadata(path, edit, &WriteOptions::new())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every blob below a folder has the bytes that its name promises.
fn assert_blobs_intact(blobs: &Path) {
    for entry in std::fs::read_dir(blobs).expect("a folder of blobs") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let digest = name.trim_start_matches("sha256").trim_start_matches(['-', ':']);
        assert_eq!(hex(&std::fs::read(&path).expect("a blob")), digest, "{}", path.display());
    }
}

/// A model of the Hugging Face cache: one file, a link to a blob. Gives the folder and the link.
fn hub(bytes: &[u8]) -> (TempDir, PathBuf) {
    let blob = format!("models--a--b/blobs/{}", hex(bytes));
    let cache = folder(&[(blob.as_str(), bytes)]);
    let snapshot = cache.path().join("models--a--b/snapshots/0123");
    std::fs::create_dir_all(&snapshot).expect("a folder");
    let link = snapshot.join("model.gguf");
    symlink(format!("../../blobs/{}", hex(bytes)), &link).expect("a link");
    (cache, link)
}

/// A model of Ollama's gets a new blob and a manifest that names it; all else stays.
#[test]
fn ollama_models_get_a_new_blob() {
    let store = Store::new();
    let layers = [
        store.layer("model", "", &gguf("old")),
        store.layer("template", "", b"{{ .Prompt }} <x> & y"),
    ];
    // A member that this program does not know stays as well.
    let layers = [layers[0].replace("\"name\":\"\"", "\"from\":\"a<b\""), layers[1].clone()];
    let manifest = store.manifest("m/q8", &layers);
    let other = store.manifest("other/latest", &layers[..1]);
    let before = std::fs::read(&other).unwrap();

    assert_eq!(set(&manifest, "general.name", "new").unwrap(), EditOutcome::NewBlob);

    let opened = Model::open(&manifest).unwrap();
    assert_eq!(opened.metadata().str("general.name"), Some("new"));
    assert_eq!(opened.metadata().str("ollama.template"), Some("{{ .Prompt }} <x> & y"));
    assert_eq!(opened.verify_digests(0, |_| Ok(())).unwrap(), []);
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(text.contains(r#""from":"a\u003cb""#), "{text}");
    // The template is a layer of its own, not a key of the file.
    let blob = Model::open(opened.files().next().unwrap()).unwrap();
    assert!(blob.metadata().get("ollama.template").is_none());
    // Another model keeps the old blob.
    assert_eq!(std::fs::read(&other).unwrap(), before);
    let opened = Model::open(&other).unwrap();
    assert_eq!(opened.metadata().str("general.name"), Some("old"));
    assert_eq!(opened.verify_digests(0, |_| Ok(())).unwrap(), []);
    assert_blobs_intact(&store.path().join("blobs"));
    let left = std::fs::read_dir(store.path().join("blobs")).unwrap().count();
    assert_eq!(left, 3, "two models, a template, and nothing half-written");
}

/// A manifest that is a blob itself, or a list of such, cannot name another blob.
#[test]
fn manifests_that_are_blobs_are_refused() {
    let store = Store::new();
    let layers = [store.layer("model", "", &gguf("old"))];
    let child = ollama_store::manifest(&layers);
    let digest = store.blob(child.as_bytes());
    let list = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"digest":"sha256:{digest}","runner":"llamacpp"}}]}}"#
    );
    let place = "manifests/registry.ollama.ai/library/m/list";
    support::put(store.path(), place, &list);
    let listed = store.path().join(place);
    let linked = store.path().join("manifests-v2/ollama.com/library/m/linked");
    std::fs::create_dir_all(linked.parent().unwrap()).unwrap();
    symlink(format!("../../../../blobs/sha256-{digest}"), &linked).unwrap();
    let said = [&listed, &linked].map(|path| {
        let error = set(path, "general.name", "new").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        without_path(&told(&error), store.path())
    });
    insta::assert_snapshot!(said.join("\n"), @r"
    Unsupported: ./manifests/registry.ollama.ai/library/m/list: this manifest lists other manifests, so it cannot be changed
    help: copy the model to a file with `weighbridge convert NAME copy.gguf --to gguf`, change the copy, and create a model from it
    Unsupported: ./manifests-v2/ollama.com/library/m/linked: this manifest is named by its digest, so it cannot be changed
    help: copy the model to a file with `weighbridge convert NAME copy.gguf --to gguf`, change the copy, and create a model from it
    ");
    assert_blobs_intact(&store.path().join("blobs"));
    assert_eq!(std::fs::read_to_string(&listed).unwrap(), list);
}

/// The blob of a model, given by its own path or through any kind of link.
#[test]
fn blobs_are_not_changed_in_place() {
    let bytes = gguf("old");
    let store = Store::new();
    let blob = store.path().join(format!("blobs/sha256-{}", store.blob(&bytes)));
    let old = Store::new();
    let old = old.path().join(format!("blobs/sha256:{}", hex(&bytes)));
    std::fs::create_dir_all(old.parent().unwrap()).unwrap();
    std::fs::write(&old, &bytes).unwrap();
    let (cache, link) = hub(&bytes);
    // A cache that was copied without links has their text.
    let text = link.with_file_name("text.gguf");
    std::fs::write(&text, format!("../../blobs/{}", hex(&bytes))).unwrap();
    let outside = cache.path().join("mine.gguf");
    symlink(&link, &outside).unwrap();
    for path in [&blob, &old, &link, &text, &outside] {
        // In place, and a change that needs the whole file to be rewritten.
        for key in ["general.name", "a.new.key"] {
            let error = set(path, key, "new").expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{}", path.display());
            let said = told(&error);
            assert!(said.contains("whose name is the digest of its content"), "{said}");
            assert!(said.contains("write the changed model to another file"), "{said}");
        }
    }
    assert_blobs_intact(&store.path().join("blobs"));
    assert_blobs_intact(old.parent().unwrap());
    assert_blobs_intact(&cache.path().join("models--a--b/blobs"));
    assert!(link.is_symlink() && outside.is_symlink());
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("../../blobs/"));
}

/// Another name of the same file may be a digest, so a file with several names is replaced, not
/// changed.
#[test]
fn hard_links_are_separated() {
    let bytes = gguf("old");
    let store = Store::new();
    let blob = store.path().join(format!("blobs/sha256-{}", store.blob(&bytes)));
    let mine = store.path().join("mine.gguf");
    std::fs::hard_link(&blob, &mine).unwrap();
    assert_eq!(set(&mine, "general.name", "new").unwrap(), EditOutcome::Rewritten);
    assert_eq!(Model::open(&mine).unwrap().metadata().str("general.name"), Some("new"));
    assert_blobs_intact(&store.path().join("blobs"));
}

/// A link that is no part of a cache: the file behind it is changed, and the link stays.
#[test]
fn ordinary_links_are_followed_by_edits() {
    let files = folder(&[("real/model.gguf", gguf("old"))]);
    let link = files.path().join("link.gguf");
    symlink("real/model.gguf", &link).unwrap();
    assert_eq!(set(&link, "general.name", "new").unwrap(), EditOutcome::InPlace);
    let edit = |keys: &mut KeyValues| {
        keys.set_text("a.key", "x".repeat(5000));
        Ok(())
    };
    let edited = ops::edit_metadata(&link, edit, &WriteOptions::new()).unwrap();
    assert_eq!(edited, EditOutcome::Rewritten);
    assert!(link.is_symlink());
    let real = Model::open(files.path().join("real/model.gguf")).unwrap();
    assert_eq!(real.metadata().str("general.name"), Some("new"));
    assert!(real.metadata().get("a.key").is_some());
}

/// `overwrite` replaces a link, and says so. What the link led to stays as it is.
#[test]
fn overwriting_a_link_replaces_the_link() {
    let source = folder(&[("new.gguf", gguf("new"))]);
    let store = Model::open(source.path().join("new.gguf")).unwrap();
    let bytes = gguf("old");
    let (cache, link) = hub(&bytes);
    let dangling = cache.path().join("dangling.gguf");
    symlink("nowhere", &dangling).unwrap();
    for link in [&link, &dangling] {
        let plan = ops::merge(&store, None).unwrap();
        let error = plan.run(link, &WriteOptions::new()).expect_err("it exists");
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(link.is_symlink());
        let target = std::fs::read_link(link).unwrap();
        let written = plan.run(link, &WriteOptions::new().overwrite(true)).unwrap();
        assert_eq!(written.replaced_links, [(link.clone(), target)]);
        assert!(!link.is_symlink());
        assert_eq!(Model::open(link).unwrap().metadata().str("general.name"), Some("new"));
        // Replacing a file is nothing to remark on.
        let written = plan.run(link, &WriteOptions::new().overwrite(true)).unwrap();
        assert_eq!(written.replaced_links, []);
    }
    assert_blobs_intact(&cache.path().join("models--a--b/blobs"));
}

/// The same for shards and for directories.
#[test]
fn overwriting_links_to_shards_and_directories() {
    let source = folder(&[("new.gguf", gguf("new"))]);
    let store = Model::open(source.path().join("new.gguf")).unwrap();
    let bytes = gguf("old");
    let (cache, link) = hub(&bytes);
    let shard = link.with_file_name("x-00001-of-00001.gguf");
    std::fs::rename(&link, &shard).unwrap();
    let to = link.with_file_name("x.gguf");
    let plan = ops::split(&store, Shards::Tensors(1), &to).unwrap();
    let written = plan.run(&to, &WriteOptions::new().overwrite(true)).unwrap();
    assert_eq!(written.replaced_links.len(), 1);
    assert!(!shard.is_symlink());
    assert_blobs_intact(&cache.path().join("models--a--b/blobs"));

    let hf = Model::open("assets/sample/hf").unwrap();
    let real = cache.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("model.safetensors"), "old").unwrap();
    std::fs::write(real.join("config.json"), "{}").unwrap();
    let link = cache.path().join("directory");
    symlink("real", &link).unwrap();
    let plan = ops::split(&hf, Shards::Bytes(1 << 40), &link).unwrap();
    let written = plan.run(&link, &WriteOptions::new().overwrite(true)).unwrap();
    assert_eq!(written.replaced_links, [(link.clone(), PathBuf::from("real"))]);
    assert!(!link.is_symlink());
    assert_eq!(Model::open(&link).unwrap().len(), hf.len());
    assert_eq!(std::fs::read_to_string(real.join("model.safetensors")).unwrap(), "old");
}

/// A new file under a name that is a digest would be a lie, whether or not something lies there.
#[test]
fn nothing_is_written_under_a_digest() {
    let source = folder(&[("new.gguf", gguf("new"))]);
    let model = Model::open(source.path().join("new.gguf")).unwrap();
    let store = Store::new();
    let there = store.path().join(format!("blobs/sha256-{}", store.blob(&gguf("old"))));
    let new = store.path().join(format!("blobs/sha256-{}", "0".repeat(64)));
    for path in [&there, &new] {
        let plan = ops::merge(&model, None).unwrap();
        let error = plan.run(path, &WriteOptions::new().overwrite(true)).expect_err("refused");
        assert!(error.to_string().contains("the digest of the file's content"), "{error}");
    }
    assert!(!new.exists());
    assert_blobs_intact(&store.path().join("blobs"));
}

/// A blob that is there already is used again only if its bytes are those of its name.
#[test]
fn damaged_blobs_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| {
        let place = weighbridge::container::ollama::place(name, Some(folder.path())).unwrap();
        let source = weighbridge::Model::open("assets/sample/hf").unwrap();
        let plan = ops::create(&source, ops::CreateOptions::new()).unwrap();
        plan.run(&place, &WriteOptions::new()).unwrap();
        Model::open(place).unwrap()
    };
    create("first");
    let blobs = folder.path().join("blobs");
    for entry in std::fs::read_dir(&blobs).unwrap() {
        // The same length, other bytes.
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(create("second").verify_digests(0, |_| Ok(())).unwrap(), []);
    assert_blobs_intact(&blobs);
}
