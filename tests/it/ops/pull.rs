//! Downloads: whole files where other programs look for them, little fetched twice, and errors that
//! leave nothing behind that could be taken for a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use weighbridge::ops::{PullOptions, PullPlan, plan_pull};
use weighbridge::remote::Network;
use weighbridge::{ErrorKind, Model};

use crate::hub::{COMMIT, Hub, RepositoryFiles, blob_name, registry};
use crate::server::{Answer, Server};
use crate::support::{Safetensors, sample, told};

pub(crate) const PIECE: u64 = 256 << 10;

pub(crate) fn options(hub: &Server, to: &Path) -> PullOptions {
    let mut network = Network::default();
    network.backoff = Duration::from_millis(1);
    // A busy machine may take long to answer.
    network.timeout = Duration::from_secs(60);
    network.hub = hub.address.clone();
    let mut options = PullOptions::new(network);
    options.hub_cache = Some(to.join("hub"));
    options.ollama_store = Some(to.join("ollama"));
    options.connections = 4;
    options.piece = PIECE;
    options
}

/// A repository with a safetensors file of so many bytes of data, and other forms of it.
pub(crate) fn repository(len: usize) -> RepositoryFiles {
    let mut state = 1_u32;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(len)
    .collect();
    let weights = Safetensors::new().tensor("x", "U8", &[len as u64], data).build();
    let files: [(&str, &[u8]); 7] = [
        (".gitattributes", b"*.bin lfs"),
        ("README.md", b"# A tale"),
        ("config.json", b"{\"model_type\":\"unknown\"}"),
        ("model.safetensors", &weights),
        ("original/consolidated.safetensors", &weights),
        ("pytorch_model.bin", b"pickle"),
        ("tokenizer/empty.json", b""),
    ];
    files.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).into()
}

/// Every file below a folder: its name, and its content or `-> target`.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !path.is_symlink() {
            found.extend(
                tree(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else if let Ok(target) = std::fs::read_link(&path) {
            found.insert(name, format!("-> {}", target.display()).into_bytes());
        } else {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    tree(folder).into_keys().collect()
}

/// The hub's cache with these files of the repository.
pub(crate) fn expected_cache(
    files: &RepositoryFiles,
    chosen: &[&str],
) -> BTreeMap<String, Vec<u8>> {
    let mut expected = BTreeMap::from([
        ("CACHEDIR.TAG".to_owned(), b"Signature: 8a477f597d28d172789f06886806bc55\n".to_vec()),
        ("models--org--tale/refs/main".to_owned(), COMMIT.as_bytes().to_vec()),
    ]);
    for name in chosen {
        let (_, bytes) = files.iter().find(|(other, _)| other == name).expect("a file");
        let blob = blob_name(name, bytes);
        let up = "../".repeat(name.split('/').count() + 1);
        expected.insert(
            format!("models--org--tale/snapshots/{COMMIT}/{name}"),
            format!("-> {up}blobs/{blob}").into_bytes(),
        );
        expected.insert(format!(".locks/models--org--tale/{blob}.lock"), Vec::new());
        expected.insert(format!("models--org--tale/blobs/{blob}"), bytes.clone());
    }
    expected
}

pub(crate) const USUAL: [&str; 3] = ["README.md", "config.json", "model.safetensors"];

#[test]
fn a_repository_comes_to_the_hub_s_cache() {
    let files = repository(3_000_000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&hub.hub, folder.path());
    let plan = plan_pull("org/tale", &options).expect("a plan");
    let planned: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(planned, USUAL);
    assert_eq!(plan.name, "hf://org/tale@main");
    assert!(!folder.path().join("hub").exists(), "a plan writes nothing");
    plan.run(None).expect("a download");
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
    assert_eq!(Model::open(&plan.path).expect("a model").len(), 1);
    // More than one request at a time needs several ranges.
    assert!(hub.store.requests().len() >= 3_000_000 / PIECE as usize);

    // What is there is not fetched again, nor is it from a second name of the same commit.
    hub.reset();
    for name in ["hf://org/tale", &format!("org/tale@{COMMIT}")] {
        let again = plan_pull(name, &options).expect("a plan");
        assert_eq!(again.missing(), 0);
        again.run(None).expect("nothing to do");
    }
    assert_eq!((hub.hub.requests().len(), hub.store.requests().len()), (2, 0));
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
}

#[test]
fn files_are_chosen_by_name() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files);
    let folder = tempfile::tempdir().expect("a folder");
    let planned = |name: &str, choose: fn(&str) -> Option<bool>| {
        let mut options = options(&hub.hub, folder.path());
        options.choose = Some(std::sync::Arc::new(choose));
        match plan_pull(name, &options) {
            Ok(plan) => {
                let names = plan.files.iter().map(|file| file.name.as_str());
                names.collect::<Vec<_>>().join(" ")
            }
            Err(error) => told(&error),
        }
    };
    let said = [
        planned("org/tale", |name| Some(name.ends_with(".bin"))),
        planned("org/tale", |name| (name == "README.md").then_some(false)),
        planned("org/tale/original", |_| None),
        planned("hf://org/tale/config.json", |_| None),
        planned("hf://org/tale/none.json", |_| None),
        planned("org/tale", |_| Some(false)),
        planned("org/tale:Q8_0", |_| None),
        planned("org/tale@v2", |_| None),
        planned("a/../b", |_| None),
    ];
    insta::assert_snapshot!(said.join("\n").replace(&hub.hub.address, "HUB"), @"
    pytorch_model.bin
    config.json model.safetensors
    original/consolidated.safetensors
    config.json
    NotFound: hf://org/tale/none.json: the repository has no file none.json
    NotFound: org/tale: the repository has no file that was asked for
    help: it has .gitattributes, README.md, config.json, model.safetensors, original/consolidated.safetensors, pytorch_model.bin, tokenizer/empty.json
    NotFound: org/tale:Q8_0: no GGUF file of the repository is Q8_0
    help: it has no GGUF files
    NotFound: org/tale@v2: org/tale has no revision v2
    Mismatch: a/../b: not the name of a model on the hub or in Ollama's registry
    help: write ORG/NAME, hf://ORG/NAME[@REVISION][:QUANTIZATION], ollama://MODEL[:TAG] or https://HOST/FILE
    ");
}

/// Files that are asked for by name need not be weights, whichever the repository has.
#[test]
fn what_is_asked_for_need_not_be_weights() {
    let texts = ["README.md", "config.json"].map(|name| (name.to_owned(), b"{}".to_vec()));
    let hub = Hub::start("org/texts", texts.to_vec());
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    let error = plan_pull("org/texts:Q8_0", &options).expect_err("no weights");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    options.choose = Some(std::sync::Arc::new(|name: &str| Some(name == "README.md")));
    let plan = plan_pull("org/texts:Q8_0", &options).expect("a plan");
    let names: Vec<&str> = plan.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["README.md"]);
}

#[test]
fn files_come_to_a_folder() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    options.folder = Some(folder.path().join("tale"));
    let plan = plan_pull("org/tale", &options).expect("a plan");
    plan.run(None).expect("a download");
    assert_eq!(names(folder.path()), USUAL.map(|name| format!("tale/{name}")));
    assert_eq!(Model::open(&plan.path).expect("a model").len(), 1);
    // What is there and the same is kept; what is another file is not replaced.
    assert_eq!(plan_pull("org/tale", &options).expect("a plan").missing(), 0);
    std::fs::write(folder.path().join("tale/README.md"), "# A text").expect("a file");
    let error = plan_pull("org/tale", &options).unwrap_err();
    assert!(error.to_string().contains("already exists, with another content"), "{error}");
}

#[test]
fn a_model_comes_to_ollama_s_store() {
    let gguf = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let layers = [
        ("config", b"{\"model_format\":\"gguf\"}".to_vec()),
        ("model", gguf),
        ("template", b"{{ .Prompt }}".to_vec()),
    ];
    let (server, manifest) = registry(&layers);
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&server, folder.path());
    options.network.registry = server.address.clone();
    let plan = plan_pull("tale", &options).expect("a plan");
    plan.run(None).expect("a download");
    let mut expected: BTreeMap<String, Vec<u8>> = layers
        .iter()
        .map(|(_, bytes)| (format!("blobs/sha256-{}", crate::hub::sha256(bytes)), bytes.clone()))
        .collect();
    let path = "manifests/registry.ollama.ai/library/tale/latest";
    expected.insert(path.to_owned(), manifest.into_bytes());
    assert_eq!(tree(&folder.path().join("ollama")), expected);
    let model = Model::open(&plan.path).expect("a model");
    assert_eq!(model.metadata().str("ollama.template"), Some("{{ .Prompt }}"));
    server.reset();
    plan_pull("ollama://tale:latest", &options).expect("a plan").run(None).expect("nothing to do");
    assert_eq!(server.requests().len(), 1, "the manifest alone");
    let error = plan_pull("other", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// The error of a download whose host of large files changes its answers, and what is left.
fn failed(
    change: impl Fn(&crate::server::Request, Answer) -> Answer + Send + Sync + 'static,
) -> (String, TempDir) {
    let hub = Hub::changed("org/tale", repository(2_000_000), change);
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    // One piece after another, so that the same one fails in each run.
    options.connections = 1;
    options.network.attempts = 3;
    let plan = plan_pull("org/tale", &options).expect("a plan");
    let error = plan.run(None).expect_err("a fault");
    let links =
        folder.path().join(format!("hub/models--org--tale/snapshots/{COMMIT}/model.safetensors"));
    assert!(links.symlink_metadata().is_err(), "the snapshot has the file");
    assert!(
        !folder.path().join("hub/models--org--tale/refs").exists(),
        "the branch has a snapshot"
    );
    let place = error.path().map(|path| path.display().to_string()).unwrap_or_default();
    (told(&error).replace(&place, "BLOB"), folder)
}

#[test]
fn faults_of_servers() {
    let status = |status| failed(move |_, _| Answer::status(status)).0;
    let faults = [
        status(401),
        status(403),
        status(404),
        status(503),
        failed(|_, answer| Answer { cut: Some(100), ..answer }).0,
        failed(|_, answer| answer.header("Content-Range", "bytes 0-9/2000080")).0,
        failed(|_, answer| answer.header("Content-Encoding", "gzip")).0,
        failed(|_, mut answer| {
            answer.headers.retain(|(name, _)| name != "Content-Range");
            Answer { status: 200, ..answer }
        })
        .0,
        // Other bytes of the same length, also from another version.
        failed(|request, answer| match request.number {
            0..=1 => answer,
            _ => answer.header("ETag", "\"another\""),
        })
        .0,
    ];
    insta::assert_snapshot!(faults.join("\n"), @"
    Io: BLOB: the server refuses access (401)
    help: check that the address is public, or that its signature has not expired
    Io: BLOB: the server refuses access (403)
    help: check that the address is public, or that its signature has not expired
    NotFound: BLOB: the server has no such file (404)
    Io: BLOB: the server failed (503)
    help: try again later
    Io: BLOB: the server breaks off the connection before it sends the bytes
    help: try again later
    Io: BLOB: the file on the server changed after it was opened
    help: open it again
    Unsupported: BLOB: the server sends the file compressed
    help: download the file, then open it
    Io: BLOB: the file on the server changed after it was opened
    help: open it again
    Io: BLOB: the file on the server changed after it was opened
    help: open it again
    ");

    // A wrong digest: what was fetched is thrown away.
    let (said, folder) = failed(|_, mut answer| {
        answer.body.iter_mut().take(1).for_each(|byte| *byte ^= 1);
        answer
    });
    assert!(said.contains("sent bytes of SHA-256"), "{said}");
    let left = names(&folder.path().join("hub/models--org--tale/blobs"));
    assert!(left.iter().all(|name| !name.contains("incomplete")), "{left:?}");
}

#[test]
fn breaks_pass() {
    let files = repository(2_000_000);
    let change = |request: &crate::server::Request, answer: Answer| match request.number % 5 {
        0 => Answer::status(500),
        1 => Answer::status(429).header("Retry-After", "0"),
        2 => Answer { cut: Some(100_000), ..answer },
        _ => answer,
    };
    let hub = Hub::changed("org/tale", files.clone(), change);
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan_pull("org/tale", &options(&hub.hub, folder.path())).expect("a plan");
    plan.run(None).expect("a download");
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
    let most = files.iter().map(|(_, bytes)| bytes.len() as u64).max().expect("files") + 10_000;
    assert!(hub.store.sent() <= most, "{} of {most}", hub.store.sent());
}

#[test]
fn a_token_stays_with_the_hub() {
    let hub = Hub::start("org/tale", repository(1000));
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&hub.hub, folder.path());
    options.network.token = Some("hf_secret".to_owned());
    let plan = plan_pull("org/tale", &options).expect("a plan");
    plan.run(None).expect("a download");
    assert!(!hub.store.requests().is_empty());
    assert!(hub.store.requests().iter().all(|request| request.authorization.is_none()));
    let sent = hub.hub.requests();
    let authorized = |request: &crate::server::Request| {
        request.authorization.as_deref() == Some("Bearer hf_secret")
    };
    assert!(sent.iter().all(authorized));
    assert!(!format!("{options:?}{plan:?}").contains("hf_secret"));
    for (name, bytes) in tree(folder.path()) {
        assert!(!String::from_utf8_lossy(&bytes).contains("hf_secret"), "{name}");
    }
}

#[test]
fn two_at_once_fetch_each_piece_once() {
    let files = repository(2_000_000);
    let hub = Hub::changed("org/tale", files.clone(), |_, answer| Answer {
        pace: Some((16 << 10, Duration::from_millis(1))),
        ..answer
    });
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&hub.hub, folder.path());
    let pull = || plan_pull("org/tale", &options).and_then(|plan| plan.run(None));
    std::thread::scope(|scope| {
        let both = [scope.spawn(pull), scope.spawn(pull)];
        for one in both {
            one.join().expect("no panic").expect("a download");
        }
    });
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
    let most = 2_000_000 + 100_000;
    assert!(hub.store.sent() <= most, "{} of {most}", hub.store.sent());
}

#[test]
fn a_cancelled_download_is_continued() {
    use std::ops::ControlFlow;
    let files = repository(3_000_000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&hub.hub, folder.path());
    let plan = plan_pull("org/tale", &options).expect("a plan");
    let watch = |progress: weighbridge::Progress| match progress.done * 2 > progress.total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let error = plan.run(Some(&watch)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let again = plan_pull("org/tale", &options).expect("a plan");
    let missing = again.missing();
    assert!(missing < 1_700_000, "{missing}");
    let present = again.files.iter().map(|file| file.present).sum::<u64>();
    assert_eq!(present + missing, again.bytes());
    hub.reset();
    again.run(None).expect("the rest");
    assert!(hub.store.sent() <= missing, "{} of {missing}", hub.store.sent());
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
}

/// A run that was killed between renaming a file and deleting its list leaves no list for ever.
#[test]
fn lists_of_whole_files_are_deleted() {
    let files = repository(1000);
    let hub = Hub::start("org/tale", files.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let plan = || plan_pull("org/tale", &options(&hub.hub, folder.path())).expect("a plan");
    plan().run(None).expect("a download");
    let repository = folder.path().join("hub/models--org--tale");
    let blob = blob_name("model.safetensors", &files[3].1);
    for ending in ["ranges", "ranges.partial"] {
        let left = repository.join(format!("blobs/{blob}.weighbridge.incomplete.{ending}"));
        std::fs::write(left, "{}").expect("a list");
    }
    std::fs::write(repository.join(".ref.partial"), "").expect("a file");
    plan().run(None).expect("nothing to download");
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
}

/// A server with the files of a repository below `/m`, each with a mark of its version.
pub(crate) fn site(files: RepositoryFiles, mark: &'static str) -> Server {
    Server::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let name = path.strip_prefix("/m/").unwrap_or_default().replace("%20", " ");
        match files.iter().find(|(other, _)| *other == name) {
            Some((_, bytes)) => Answer::file(request, bytes).header("ETag", mark),
            None => Answer::status(404),
        }
    })
}

pub(crate) fn to_folder(folder: &Path) -> PullOptions {
    let mut options = options(&Server::known(""), folder);
    options.folder = Some(folder.join("to"));
    options
}

#[test]
fn files_of_plain_addresses_come_to_a_folder() {
    let part = |name: &str| Safetensors::new().tensor(name, "U8", &[5000], vec![7; 5000]).build();
    let index = b"{\"weight_map\":{\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\"}}";
    let sharded: RepositoryFiles = vec![
        ("config.json".to_owned(), b"{\"model_type\":\"unknown\"}".to_vec()),
        ("model.safetensors.index.json".to_owned(), index.to_vec()),
        ("x-1.safetensors".to_owned(), part("a")),
        ("x-2.safetensors".to_owned(), part("b")),
    ];
    let gguf = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let split: RepositoryFiles =
        (1..=2).map(|number| (format!("t 1-{number:05}-of-00002.gguf"), gguf.clone())).collect();
    let expected =
        |files: &RepositoryFiles| -> BTreeMap<String, Vec<u8>> { files.iter().cloned().collect() };
    let cases = [
        (&sharded, "/m", ""),
        (&sharded, "/m/model.safetensors.index.json?signature=secret", ""),
        (&split, "/m/t%201-00002-of-00002.gguf", "t 1-00001-of-00002.gguf"),
    ];
    for (files, address, opened) in cases {
        let server = site(files.clone(), "\"one\"");
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("{}{address}", server.address);
        let plan = || plan_pull(&address, &to_folder(folder.path())).expect("a plan");
        let first = plan();
        assert!(!folder.path().join("to").exists(), "a plan writes nothing");
        assert_eq!(first.path, folder.path().join("to").join(opened));
        assert!(!format!("{first:?}").contains("secret"), "{first:?}");
        first.run(None).expect("a download");
        assert_eq!(tree(&folder.path().join("to")), expected(files), "{address}");
        let again = plan();
        assert_eq!(again.missing(), 0);
        server.reset();
        again.run(None).expect("nothing to do");
        assert_eq!(server.requests().len(), 0);
    }
    // What no folder is given for, another file, what cannot be listed.
    let server = site(split, "\"one\"");
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = to_folder(folder.path());
    let refused = |address: &str, options: &PullOptions| {
        let told = told(&plan_pull(address, options).unwrap_err());
        told.replace(&server.address, "HOST")
            .replace(&folder.path().display().to_string(), "FOLDER")
    };
    let one = format!("{}/m/t%201-00001-of-00002.gguf", server.address);
    std::fs::create_dir(folder.path().join("to")).expect("a folder");
    std::fs::write(folder.path().join("to/t 1-00001-of-00002.gguf"), "x").expect("a file");
    let other = refused(&one, &options);
    options.folder = None;
    let said = [
        other,
        refused(&one, &options),
        refused("s3://models/x.gguf", &options),
        refused(&format!("{}/none.gguf", server.address), &to_folder(folder.path())),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    Mismatch: FOLDER/to/t 1-00001-of-00002.gguf: already exists, and is no file of 1410912 bytes
    help: delete it, or give another folder
    Mismatch: HOST/m/t%201-00001-of-00002.gguf: no program has a place for files of plain addresses
    help: give a folder with PullOptions::folder
    Mismatch: s3://models/x.gguf: not the name of a model on the hub or in Ollama's registry
    help: write ORG/NAME, hf://ORG/NAME[@REVISION][:QUANTIZATION], ollama://MODEL[:TAG] or https://HOST/FILE
    NotFound: HOST/none.gguf: the server has no such file (404)
    ");
}

/// Names that only look like those of shards are those of whole files.
#[test]
fn names_like_those_of_shards() {
    let names = [
        "tale-best-of-3.gguf",
        "tale-00001-of-00000.gguf",
        "tale-1-of-00002.gguf",
        "tale-00001-of-2.gguf",
        "tale-0000x-of-00002.gguf",
    ];
    let files: RepositoryFiles =
        names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect();
    let server = site(files.clone(), "\"one\"");
    for (name, bytes) in files {
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("{}/m/{name}", server.address);
        let plan = plan_pull(&address, &to_folder(folder.path())).expect(&name);
        assert_eq!(plan.path, folder.path().join("to").join(&name));
        plan.run(None).expect("a download");
        assert_eq!(tree(&folder.path().join("to")), BTreeMap::from([(name, bytes)]));
    }
}

#[test]
fn an_index_of_any_length_is_not_read() {
    let server = Server::start(|request| {
        let whole = 300_000_000_u64;
        match (request.path.as_str(), request.range) {
            ("/m/model.safetensors.index.json", Some((0, to))) => {
                Answer { body: vec![b' '; to as usize], ..Answer::status(206) }
                    .header("Content-Range", format!("bytes 0-{}/{whole}", to - 1))
            }
            _ => Answer::status(404),
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan_pull(&format!("{}/m", server.address), &to_folder(folder.path()));
    let error = plan.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("bytes of index"), "{error}");
}

/// Files of a folder have the names that its index has, escapes and all.
#[test]
fn names_of_an_index_are_no_addresses() {
    let weights = Safetensors::new().tensor("a", "U8", &[4], vec![7; 4]).build();
    let index = b"{\"weight_map\":{\"a\":\"x%201.safetensors\"}}";
    let files: RepositoryFiles = vec![
        ("model.safetensors.index.json".to_owned(), index.to_vec()),
        ("x 1.safetensors".to_owned(), weights.clone()),
    ];
    let server = site(files, "\"one\"");
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan_pull(&format!("{}/m", server.address), &to_folder(folder.path()));
    plan.expect("a plan").run(None).expect("a download");
    let found = tree(&folder.path().join("to"));
    assert_eq!(found.get("x%201.safetensors"), Some(&weights), "{:?}", found.keys());
    assert_eq!(Model::open(folder.path().join("to")).expect("a model").len(), 1);
}

/// A download is continued while the file is the same, and fetched again when it is another.
#[test]
fn a_plain_download_is_continued() {
    use std::ops::ControlFlow;
    let files = |seed: u8| -> RepositoryFiles {
        let bytes = (0..3_000_000_u32).map(|at| (at % 251) as u8 ^ seed).collect();
        vec![("x.gguf".to_owned(), bytes)]
    };
    let folder = tempfile::tempdir().expect("a folder");
    let half = |progress: weighbridge::Progress| match progress.done * 2 > progress.total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let plan = |server: &Server| {
        let address = format!("{}/m/x.gguf", server.address);
        plan_pull(&address, &to_folder(folder.path())).expect("a plan")
    };
    let (one, two) = (site(files(1), "\"one\""), site(files(2), "\"two\""));
    assert_eq!(plan(&one).run(Some(&half)).unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!folder.path().join("to/x.gguf").exists());
    let rest = plan(&one);
    assert!(rest.missing() < 1_700_000, "{}", rest.missing());
    assert_eq!(plan(&two).missing(), 3_000_000, "another version");
    one.reset();
    rest.run(None).expect("the rest");
    assert!(one.sent() <= rest.bytes() / 2 + PIECE, "{}", one.sent());
    assert_eq!(tree(&folder.path().join("to")), files(1).into_iter().collect());
    // Another version while it is fetched is an error, and the next run begins again.
    std::fs::remove_file(folder.path().join("to/x.gguf")).expect("a file");
    assert!(plan(&one).run(Some(&half)).is_err());
    plan(&two).run(None).expect("another file");
    assert_eq!(tree(&folder.path().join("to")), files(2).into_iter().collect());
}

/// A list that a killed run left is ignored if it does not fit the file.
#[test]
fn a_list_that_is_damaged_is_no_list() {
    let files = repository(1_000_000);
    let hub = Hub::start("org/tale", files.clone());
    let blob = blob_name("model.safetensors", &files[3].1);
    let size = files[3].1.len();
    let good = format!("{{\"digest\":\"{blob}\",\"size\":{size},\"fetched\":[[0,{size}]]}}");
    let lists = [
        ("", size),
        ("{", size),
        ("{\"digest\":\"00\",\"size\":1,\"fetched\":[[0,1]]}", size),
        (&good.replace("[[0,", "[[-1,"), size),
        (&good.replace(&format!("0,{size}"), "5,4"), size),
        (&good.replace(&format!("0,{size}"), &format!("0,{}", size + 1)), size),
        // The file is shorter than the list says.
        (&good, 1000),
    ];
    for (list, len) in lists {
        let folder = tempfile::tempdir().expect("a folder");
        let blobs = folder.path().join("hub/models--org--tale/blobs");
        std::fs::create_dir_all(&blobs).expect("a folder");
        let partial = blobs.join(format!("{blob}.weighbridge.incomplete"));
        std::fs::write(&partial, vec![7; len]).expect("a file");
        std::fs::write(blobs.join(format!("{blob}.weighbridge.incomplete.ranges")), list)
            .expect("a list");
        let plan = plan_pull("org/tale", &options(&hub.hub, folder.path())).expect("a plan");
        plan.run(None).expect(list);
        assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL), "{list}");
    }
    // A list that fits, of bytes that do not: the digest tells, and the next run begins again.
    let folder = tempfile::tempdir().expect("a folder");
    let blobs = folder.path().join("hub/models--org--tale/blobs");
    std::fs::create_dir_all(&blobs).expect("a folder");
    let partial = blobs.join(format!("{blob}.weighbridge.incomplete"));
    std::fs::write(&partial, vec![7; size]).expect("a file");
    std::fs::write(blobs.join(format!("{blob}.weighbridge.incomplete.ranges")), &good)
        .expect("a list");
    let options = options(&hub.hub, folder.path());
    let plan = || plan_pull("org/tale", &options).expect("a plan");
    assert_eq!(plan().run(None).unwrap_err().kind(), ErrorKind::Malformed);
    plan().run(None).expect("from the beginning");
    assert_eq!(tree(&folder.path().join("hub")), expected_cache(&files, &USUAL));
}

/// A download in a process of its own, which `killed_downloads_are_continued` starts and kills.
#[test]
#[ignore = "killed_downloads_are_continued runs it"]
fn one_download() {
    let Some(address) = std::env::var_os("WEIGHBRIDGE_TEST_HUB") else { return };
    let folder = PathBuf::from(std::env::var_os("WEIGHBRIDGE_TEST_FOLDER").expect("a folder"));
    let server = Server::known(&address.to_string_lossy());
    plan(&server, &folder).run(None).expect("a download");
}

/// A slow download in two long pieces at a time, so that little is under way when it is killed.
fn plan(hub: &Server, folder: &Path) -> PullPlan {
    let mut options = options(hub, folder);
    options.connections = 2;
    options.piece = KILLED_PIECE;
    plan_pull("org/tale", &options).expect("a plan")
}

const KILLED_PIECE: u64 = 512 << 10;

/// Killed at 30 moments: the file is whole in the end, and each kill costs at most one piece.
#[test]
#[cfg(unix)]
fn killed_downloads_are_continued() {
    let files = repository(4_000_000);
    let hub = Hub::changed("org/tale", files.clone(), |_, answer| Answer {
        pace: Some((8 << 10, Duration::from_millis(4))),
        ..answer
    });
    let size = files.iter().filter(|(name, _)| USUAL.contains(&name.as_str()));
    let size: u64 = size.map(|(_, bytes)| bytes.len() as u64).sum();
    let mut folder = tempfile::tempdir().expect("a folder");
    let start = |folder: &TempDir| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "ops::pull::one_download", "--ignored", "--nocapture"]);
        command.env("WEIGHBRIDGE_TEST_HUB", &hub.hub.address);
        command.env("WEIGHBRIDGE_TEST_FOLDER", folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process")
    };
    let expected = expected_cache(&files, &USUAL);
    let (mut kills, mut fetched, mut whole) = (0, 0, 0);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    while kills < 30 || whole == 0 {
        hub.store.reset();
        let mut child = start(&folder);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_millis(50 + random % 400));
        if kills >= 30 {
            child.wait().expect("an end");
        }
        let ended = child.try_wait().expect("a state");
        if ended.is_none() {
            child.kill().expect("a signal");
            child.wait().expect("an end");
            kills += 1;
        }
        // The server notices that nobody reads any more.
        std::thread::sleep(Duration::from_millis(10));
        fetched += hub.store.sent();
        if let Some(status) = ended {
            assert!(status.success());
            assert_eq!(tree(&folder.path().join("hub")), expected);
            whole += 1;
            folder = tempfile::tempdir().expect("a folder");
        }
    }
    let allowed = whole * size + kills * KILLED_PIECE;
    println!(
        "{kills} kills, {whole} whole files: {fetched} of {allowed} bytes, {} without kills",
        whole * size
    );
    assert!(fetched <= allowed, "{fetched} of {allowed}");
}
