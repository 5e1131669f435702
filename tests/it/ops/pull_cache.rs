//! Downloads beside what other runs, programs and users have left, and manifests of registries.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weighbridge::ErrorKind;
use weighbridge::ops::{PullOptions, plan_pull};

use crate::hub::{COMMIT, Hub, RepositoryFiles, registry};
use crate::ops::pull::{USUAL, expected_cache, options, repository, site, to_folder, tree};
use crate::server::{Answer, Server};
use crate::support::{put, told};

/// Another branch may have linked other files under the same names; a user may have put some there.
#[test]
#[cfg(unix)]
fn links_to_other_files_are_replaced() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = format!("hub/models--org--tale/snapshots/{COMMIT}");
    put(folder.path(), &format!("{snapshot}/README.md"), "a file of the user");
    let link = folder.path().join(&snapshot).join("config.json");
    std::os::unix::fs::symlink("../../blobs/another", link).expect("a link");
    let plan = plan_pull("org/tale", &options(&hub.hub, folder.path())).expect("a plan");
    plan.run(None).expect("a download");
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
}

/// What the cache has is not fetched again for a folder, unless it is damaged.
#[test]
fn files_of_the_cache_are_copied_to_a_folder() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    plan_pull("org/tale", &options).expect("a plan").run(None).expect("a download");
    let expected: BTreeMap<String, Vec<u8>> =
        files.into_iter().filter(|(name, _)| USUAL.contains(&name.as_str())).collect();
    let mut pulled = |to: &str| {
        hub.reset();
        options.folder = Some(folder.path().join(to));
        let plan = plan_pull("org/tale", &options).expect("a plan");
        assert_eq!((plan.missing(), plan.copied()), (0, plan.bytes()));
        plan.run(None).expect("copies");
        assert_eq!(tree(&folder.path().join(to)), expected);
        hub.store.requests().len() + hub.hub.requests().len() - 1
    };
    assert_eq!(pulled("first"), 0);
    let blobs = folder.path().join("hub/models--org--tale/blobs");
    let mut damaged = 0;
    for entry in std::fs::read_dir(blobs).expect("blobs") {
        let path = entry.expect("a blob").path();
        let mut bytes = std::fs::read(&path).expect("a blob");
        bytes.iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(path, bytes).expect("a damaged blob");
        damaged += 1;
    }
    assert!(pulled("second") >= damaged);
}

/// Where the hub's client makes no links, its snapshots have the files themselves.
#[test]
fn a_cache_without_links_has_files() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    options.links = false;
    let snapshot = folder.path().join("hub/models--org--tale/snapshots").join(COMMIT);
    let expected: BTreeMap<String, Vec<u8>> =
        files.into_iter().filter(|(name, _)| USUAL.contains(&name.as_str())).collect();
    let blobs = || tree(&folder.path().join("hub/models--org--tale/blobs")).len();
    let pull = |options: &PullOptions| {
        hub.reset();
        let plan = plan_pull("org/tale", options).expect("a plan");
        let missing = plan.missing();
        plan.run(None).expect("a download");
        assert_eq!(hub.store.requests().is_empty(), missing == 0);
        missing
    };
    assert!(pull(&options) > 0);
    assert_eq!((tree(&snapshot), blobs()), (expected.clone(), 0));
    for links in [false, true] {
        options.links = links;
        assert_eq!(pull(&options), 0);
        assert_eq!((tree(&snapshot), blobs()), (expected.clone(), 0));
    }
    // A file that was cut short is fetched.
    options.links = false;
    put(&snapshot, "model.safetensors", "cut");
    assert!(pull(&options) > 0);
    assert_eq!(tree(&snapshot), expected);
    // A blob that was there stays: links of other snapshots may lead to it.
    std::fs::remove_dir_all(folder.path().join("hub")).expect("the cache");
    options.links = true;
    pull(&options);
    std::fs::remove_dir_all(&snapshot).expect("the snapshot");
    options.links = false;
    assert_eq!(pull(&options), 0);
    assert_eq!((tree(&snapshot), blobs()), (expected, USUAL.len()));
}

/// If the name for an unfinished reference is taken, the reference itself may already exist.
#[test]
fn a_reference_that_is_there_need_not_be_written() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files);
    let pulled = |commit: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let place = "hub/models--org--tale";
        put(folder.path(), &format!("{place}/.ref.partial/taken"), "");
        put(folder.path(), &format!("{place}/refs/main"), commit);
        let plan = plan_pull("org/tale", &options(&hub.hub, folder.path())).expect("a plan");
        plan.run(None).map_err(|error| (error.kind(), told(&error)))
    };
    assert_eq!(pulled(COMMIT), Ok(()));
    for other in ["", &COMMIT[1..], &COMMIT.replace('c', "d"), &format!("{COMMIT}\n")] {
        let (kind, told) = pulled(other).expect_err("another commit");
        assert_eq!(kind, ErrorKind::Io, "{told}");
        assert!(told.contains("cannot write the file"), "{told}");
    }
}

/// A name of three parts is one of a registry if the first is a host.
#[test]
fn names_with_a_host_are_those_of_registries() {
    let (server, _) = registry(&[("model", b"weights".to_vec())]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&server, folder.path());
    options.network.registry = server.address.clone();
    let plan = plan_pull("ollama.com/library/tale", &options).expect("a plan");
    assert_eq!(plan.bytes(), 7);
    assert_eq!(server.requests()[0].path, "/v2/library/tale/manifests/latest");
    // Without a host it is one of the hub, with the name of a file.
    let error = plan_pull("org/library/tale", &options).expect_err("no repository");
    assert!(error.to_string().contains("the hub shows no repository org/library"), "{error}");
}

/// A server that gives this answer for every manifest.
fn manifest(answer: Answer) -> (Server, tempfile::TempDir, PullOptions) {
    let server = Server::start(move |_| answer.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&server, folder.path());
    options.network.registry = server.address.clone();
    (server, folder, options)
}

#[test]
fn manifests_that_are_not_read() {
    let list = Answer::whole(br#"{"schemaVersion":2,"manifests":[{"runner":"mlx"}]}"#);
    let (_server, folder, options) = manifest(list);
    let error = plan_pull("tale", &options).expect_err("a list");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a list of manifests for several programs"), "{error}");
    assert!(tree(folder.path()).is_empty());
    // 12 MiB and one byte, of which no more than the start need be sent.
    let size = (12 << 20) + 1;
    let mut long = Answer::status(206);
    long.body = vec![b' '; 32 << 10];
    let long = long.header("Content-Range", format!("bytes 0-32767/{size}"));
    let (server, _folder, options) = manifest(long);
    let error = plan_pull("tale", &options).expect_err("a limit");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    assert!(server.sent() < 1 << 20, "{}", server.sent());
}

/// Two layers may have one content, which is one blob.
#[test]
fn a_blob_of_two_layers_is_fetched_once() {
    let license = b"do what you like".to_vec();
    let layers =
        [("model", b"weights".to_vec()), ("license", license.clone()), ("system", license)];
    let (server, _) = registry(&layers);
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&server, folder.path());
    options.network.registry = server.address.clone();
    let plan = plan_pull("tale", &options).expect("a plan");
    let planned: Vec<_> = plan.files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
    // Layers without names are called by their kinds.
    assert_eq!((planned, plan.bytes()), (vec![("model", 7), ("license", 16)], 23));
    plan.run(None).expect("a download");
    assert_eq!(server.requests().iter().filter(|one| one.path.contains("/blobs/")).count(), 2);
    assert_eq!(tree(&folder.path().join("ollama/blobs")).len(), 2);
}

#[test]
fn files_of_a_folder_are_chosen_by_name() {
    let files: RepositoryFiles = ["config.json", "model.safetensors", "tokenizer.json"]
        .map(|name| (name.to_owned(), name.as_bytes().to_vec()))
        .into();
    let server = site(files, "\"one\"");
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = to_folder(folder.path());
    let address = format!("{}/m", server.address);
    let all = plan_pull(&address, &options).expect("a plan");
    let all: Vec<String> = all.files.into_iter().map(|file| file.name).collect();
    assert!(all.iter().any(|name| name == "tokenizer.json"), "{all:?}");
    options.choose = Some(Arc::new(|name| (name == "tokenizer.json").then_some(false)));
    let plan = plan_pull(&address, &options).expect("a plan");
    let chosen: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
    let others: Vec<&str> =
        all.iter().map(String::as_str).filter(|name| *name != "tokenizer.json").collect();
    assert_eq!(chosen, others);
    plan.run(None).expect("a download");
    assert!(!tree(&folder.path().join("to")).contains_key("tokenizer.json"));
}

/// A run that waits for another finds the file whole, and leaves nothing of its own.
#[test]
fn a_file_that_another_run_finishes() {
    let files: RepositoryFiles = vec![("x.gguf".to_owned(), vec![7; 5000])];
    let server = site(files.clone(), "\"one\"");
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = to_folder(folder.path());
    options.connections = 1;
    let plan = plan_pull(&format!("{}/m/x.gguf", server.address), &options).expect("a plan");
    put(folder.path(), "to/.x.gguf.partial", "what the other run has fetched");
    let own = File::open(folder.path().join("to/.x.gguf.partial")).expect("a file");
    own.lock().expect("a lock");
    let (held, calls) = (Mutex::new(Some(own)), AtomicUsize::new(0));
    let place = folder.path().join("to/x.gguf");
    server.reset();
    // While it waits it is asked again and again whether to go on.
    let watch = |_: weighbridge::Progress| {
        if calls.fetch_add(1, Ordering::Relaxed) == 2 {
            std::fs::write(&place, &files[0].1).expect("the whole file");
            drop(held.lock().expect("no panic").take());
        }
        ControlFlow::Continue(())
    };
    plan.run(Some(&watch)).expect("nothing to do");
    assert!(calls.load(Ordering::Relaxed) > 2, "it did not wait");
    assert_eq!(server.requests().len(), 0);
    assert_eq!(tree(&folder.path().join("to")), files.into_iter().collect());
}

/// A file that is whole needs no lock: another run may hold it for as long as it likes.
#[test]
fn a_whole_file_is_not_waited_for() {
    let files: RepositoryFiles = vec![("x.gguf".to_owned(), vec![7; 5000])];
    let server = site(files.clone(), "\"one\"");
    let folder = tempfile::tempdir().expect("a folder");
    let options = to_folder(folder.path());
    let plan = plan_pull(&format!("{}/m/x.gguf", server.address), &options).expect("a plan");
    plan.run(None).expect("a download");
    put(folder.path(), "to/.x.gguf.partial", "");
    let held = File::open(folder.path().join("to/.x.gguf.partial")).expect("a file");
    held.lock().expect("a lock");
    let calls = AtomicUsize::new(0);
    let watch = |_: weighbridge::Progress| match calls.fetch_add(1, Ordering::Relaxed) {
        0..5 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    plan.run(Some(&watch)).expect("nothing to wait for");
}

/// One piece that fails ends the others, instead of waiting for the rest of them.
#[test]
fn an_error_ends_the_other_pieces() {
    let piece = 2 << 20;
    let files = repository(6 * piece);
    let refused = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&refused);
    let change = move |request: &crate::server::Request, answer| match request.range {
        Some((0, _)) => {
            // The first piece is sent when the second has been refused, and some time after.
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(400));
            answer
        }
        _ => {
            seen.store(true, Ordering::Relaxed);
            Answer::status(404)
        }
    };
    let hub = Hub::changed("org/tale", files, change);
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    (options.connections, options.piece) = (2, piece as u64);
    let plan = plan_pull("org/tale", &options).expect("a plan");
    let error = plan.run(None).expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(refused.load(Ordering::Relaxed));
    let fetched = fetched(folder.path(), &options);
    assert!(fetched < piece as u64 / 2, "{fetched} bytes were fetched after the error");
    // Nor is another piece begun.
    let starts: Vec<u64> =
        hub.store.requests().iter().filter_map(|one| Some(one.range?.0)).collect();
    assert!(starts.iter().all(|start| *start <= piece as u64), "{starts:?}");
}

/// The bytes of the large file that are there.
fn fetched(folder: &Path, options: &PullOptions) -> u64 {
    let plan = plan_pull("org/tale", options).expect("a plan");
    let large = plan.files.iter().find(|file| file.name == "model.safetensors");
    assert!(folder.join("hub").exists());
    large.expect("the file").present
}
