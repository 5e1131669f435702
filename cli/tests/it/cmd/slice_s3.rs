//! Slices into an object store: the bytes of one process, whatever happens on the way.
#![cfg(feature = "http")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use crate::s3::{KEYS, ObjectStore};
use crate::server;
use crate::server::{Answer, Request};
use crate::support::{Ran, contents, program, root, run};
use weighbridge::container::SAFETENSORS;
use weighbridge::{Builder, DType, Model, Tensor, WriteOptions};

const HF: &str = "assets/sample/hf";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

/// A folder with a plan, and the store that it writes to.
struct Job {
    folder: tempfile::TempDir,
    store: ObjectStore,
    arguments: Vec<String>,
}

impl Job {
    /// Plans a conversion to `s3://models/out`, with the arguments' `DST` replaced by that.
    fn new(store: ObjectStore, arguments: &[&str]) -> Self {
        let job = Self::unplanned(store, arguments);
        let ran = job.plan();
        assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
        job
    }

    fn unplanned(store: ObjectStore, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = arguments.iter().map(|word| word.replace("DST", "s3://models/to/out"));
        Self { folder, store, arguments: arguments.collect() }
    }

    fn plan(&self) -> Ran {
        let plan = self.file();
        let mut words = vec!["job", "plan"];
        words.extend(self.arguments.iter().map(String::as_str));
        words.extend(["-o", &plan]);
        self.run(&words)
    }

    fn file(&self) -> String {
        self.folder.path().join("plan.json").to_string_lossy().into_owned()
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command
            .env("AWS_ENDPOINT_URL", &self.store.server.address)
            .env("AWS_ACCESS_KEY_ID", KEYS.0)
            .env("AWS_SECRET_ACCESS_KEY", KEYS.1)
            .env("AWS_SHARED_CREDENTIALS_FILE", self.folder.path().join("none"))
            .env("AWS_CONFIG_FILE", self.folder.path().join("none"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.program(arguments).output().expect("the program starts").into()
    }

    fn slice(&self, slice: &str) -> Ran {
        self.run(&["job", "run", &self.file(), slice, "--threads", "2"])
    }

    fn finish(&self) -> Ran {
        self.run(&["job", "finish", &self.file()])
    }

    fn status(&self) -> serde_json::Value {
        let ran = self.run(&["job", "status", &self.file(), "--json"]);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    /// Runs slices that must succeed.
    fn slices(&self, slices: &[&str]) {
        for slice in slices {
            let ran = self.slice(slice);
            assert_eq!(ran.status, Some(0), "{slice}: {}", ran.err);
        }
    }

    /// Finishes, and compares the objects with what one process writes.
    fn check(&self, expected: &BTreeMap<String, Vec<u8>>) {
        let ran = self.finish();
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        self.is(expected);
        assert_eq!(self.status()["finished"], true);
    }

    fn is(&self, expected: &BTreeMap<String, Vec<u8>>) {
        let found = self.store.contents();
        let keys: Vec<&String> = found.objects.keys().collect();
        let names: Vec<String> = expected.keys().map(|name| format!("to/{name}")).collect();
        assert_eq!(keys, names.iter().collect::<Vec<_>>(), "{:?}", self.arguments);
        assert!(found.objects.values().eq(expected.values()), "{:?}", self.arguments);
        assert!(found.uploads.is_empty());
    }
}

/// The output of one process to a folder with the same arguments.
fn by_one(arguments: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let words: Vec<String> = arguments.iter().map(|word| word.replace("DST", &out)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let at = words.iter().position(|word| *word == "--part-size");
    let without =
        |(place, _): &(usize, &&str)| at.is_none_or(|at| *place != at && *place != at + 1);
    let words: Vec<&str> =
        words.iter().enumerate().filter(without).map(|(_, word)| *word).collect();
    let ran = run(&words);
    assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
    contents(folder.path())
}

/// The sample with so many tokens that its files have several parts.
fn large(folder: &Path) -> String {
    let model = Model::open(root().join(HF)).expect("the sample");
    let mut large = Builder::new(&SAFETENSORS).expect("a builder");
    let tokens = 40_000u64;
    for tensor in model.stored_tensors() {
        let name = tensor.name().to_owned();
        if !name.contains("embed_tokens") && !name.contains("lm_head") {
            large.add(name, &tensor).expect("a tensor");
            continue;
        }
        let columns = tensor.shape()[1];
        let bytes = |place: u64| (((place * 2_654_435_761) >> 16) as f32 / 65_536.0).to_le_bytes();
        let bytes: Vec<u8> = (0..tokens * columns).flat_map(bytes).collect();
        let own = Tensor::new(&name, DType::F32, &[tokens, columns], bytes).expect("a tensor");
        large.add(name, &own).expect("a tensor");
    }
    for (name, bytes) in contents(&root().join(HF)) {
        if name == "config.json" {
            let mut config: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
            config["vocab_size"] = tokens.into();
            large.document(name, config.to_string().into_bytes()).expect("a document");
        } else if !name.ends_with(".safetensors") {
            large.document(name, bytes).expect("a document");
        }
    }
    let path = folder.join("large");
    large.plan().expect("a plan").run(&path, &WriteOptions::new()).expect("a model");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The number of parts of the largest upload.
fn most_parts(job: &Job) -> usize {
    job.store.contents().uploads.values().map(|(_, parts)| parts.len()).max().unwrap_or(0)
}

#[test]
fn an_object_store_gets_the_bytes_of_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = &*large(folder.path());
    let part = ["--part-size", "5MiB"];
    let cases: &[(&[&str], usize)] = &[
        (&["convert", HF, "DST.gguf"], 1),
        (&["merge", large, "DST.safetensors", part[0], part[1]], 8),
        (&["quantize", large, "DST.gguf", "Q8_0", part[0], part[1]], 3),
        // Codes and scales of a tensor lie apart.
        (&["quantize", large, "DST", "--mlx", "8", part[0], part[1]], 3),
        (&["convert", large, "DST", "--shards", "tp=2", part[0], part[1]], 4),
    ];
    for (arguments, parts) in cases {
        let expected = by_one(arguments);
        for of in [1, 3] {
            let job = Job::new(ObjectStore::start(), arguments);
            assert_eq!(job.status()["done"], 0);
            let mut running = Vec::new();
            for slice in 1..=of {
                let slice = format!("{slice}/{of}");
                let words = ["job", "run", &job.file(), &slice, "--threads", "2"];
                running.push(job.program(&words).stdout(Stdio::null()).spawn().expect("a start"));
            }
            for mut child in running {
                assert!(child.wait().expect("an end").success(), "{arguments:?}");
            }
            assert!(most_parts(&job) >= *parts, "{arguments:?}: {}", most_parts(&job));
            let status = job.status();
            assert_eq!((&status["done"], &status["finished"]), (&status["pieces"], &false.into()));
            // No file appears before all parts are there.
            let found = job.store.contents().objects.keys().cloned().collect::<Vec<_>>();
            assert!(found.iter().all(|key| key.contains(".slices-")), "{found:?}");
            job.check(&expected);
        }
    }
}

#[test]
fn slices_may_be_run_twice_by_two_and_in_other_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = &*large(folder.path());
    let arguments = ["merge", large, "DST.safetensors", "--part-size", "5MiB"];
    let job = Job::new(ObjectStore::start(), &arguments);
    let spawn = || {
        let words = ["job", "run", &job.file(), "1/2", "--threads", "1"];
        job.program(&words).stdout(Stdio::null()).spawn().expect("the program starts")
    };
    let both = [spawn(), spawn()];
    for mut child in both {
        assert!(child.wait().expect("an end").success());
    }
    assert!(job.slice("1/2").out.contains("already there"));
    let early = job.finish();
    assert_eq!(early.status, Some(2), "{}", early.err);
    assert!(early.err.contains("are missing; slices that are done: 1/2"), "{}", early.err);
    let missing = job.run(&["job", "status", &job.file()]);
    assert_eq!(missing.status, Some(1));
    assert!(missing.out.contains("slices: 1/2\nmissing pieces: "), "{}", missing.out);
    // These overlap the first slice.
    job.slices(&["2/3", "3/3"]);
    // A plan that is made again is the same one.
    std::fs::remove_file(job.file()).expect("the plan");
    assert_eq!(job.plan().status, Some(0));
    assert_eq!(job.store.contents().uploads.len(), 1);
    job.check(&by_one(&arguments));
    let again = job.slice("1/2");
    assert!(again.err.contains("already exists"), "{}", again.err);
    assert_eq!(job.finish().status, Some(0), "it is finished");
}

#[test]
fn killed_workers_and_drivers_tear_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = &*large(folder.path());
    let arguments = ["merge", large, "DST.safetensors", "--part-size", "5MiB"];
    let expected = by_one(&arguments);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..8 {
        let job = Job::new(ObjectStore::start(), &arguments);
        for words in
            [["job", "run", &job.file(), "1/2"].as_slice(), &["job", "run", &job.file(), "2/2"]]
        {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let mut child = job.program(words);
            let child = child.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = child.spawn().expect("the program starts");
            std::thread::sleep(Duration::from_micros(state % 400_000));
            let _ = child.kill();
            child.wait().expect("an end");
        }
        assert!(job.store.contents().objects.keys().all(|key| key.contains(".slices-")));
        job.slices(&["1/2", "2/2"]);
        let mut child = job.program(&["job", "finish", &job.file()]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("the program starts");
        std::thread::sleep(Duration::from_micros(state % 100_000));
        let _ = child.kill();
        child.wait().expect("an end");
        // What is there is whole.
        let done = job.store.contents().objects.get("to/out.safetensors").cloned();
        assert!(done.is_none_or(|bytes| bytes == expected["out.safetensors"]));
        if job.status()["finished"] != true {
            job.check(&expected);
        }
    }
}

#[test]
fn a_source_that_changes_is_refused() {
    let source = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in contents(&root().join(HF)) {
        std::fs::write(source.path().join(name), bytes).expect("a copy");
    }
    let path = source.path().to_str().expect("a path in UTF-8").to_owned();
    let job = Job::new(ObjectStore::start(), &["convert", &path, "DST.gguf"]);
    job.slices(&["1/1"]);
    let weights = source.path().join("model.safetensors");
    let mut bytes = std::fs::read(&weights).expect("the weights");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&weights, bytes).expect("other weights");
    for ran in [job.slice("1/1"), job.finish()] {
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        assert!(ran.err.contains("model.safetensors: the file has changed since"), "{}", ran.err);
    }
}

#[test]
fn a_source_in_a_store_that_changes_is_refused() {
    let gguf = std::fs::read(root().join(GGUF)).expect("the sample");
    let store = ObjectStore::start();
    let put = |bytes: &[u8]| {
        store.contents().objects.insert("from/model.gguf".to_owned(), bytes.to_vec());
    };
    put(&gguf);
    let arguments = ["convert", "s3://models/from/model.gguf", "DST.safetensors"];
    let job = Job::new(store.clone(), &arguments);
    job.slices(&["1/1"]);
    // The same length and header, but another value.
    let mut other = gguf.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    put(&other);
    for ran in [job.slice("1/1"), job.finish()] {
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        let said =
            "s3://models/from/model.gguf: the file has changed since the plan was made: version";
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    put(&gguf);
    assert_eq!(job.finish().status, Some(0));
    let expected = by_one(&["convert", GGUF, "DST.safetensors"]);
    assert!(store.contents().objects["to/out.safetensors"] == expected["out.safetensors"]);
}

#[test]
fn parts_that_the_store_lost_or_changed_are_sent_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let large = &*large(folder.path());
    let arguments = ["merge", large, "DST.safetensors", "--part-size", "5MiB"];
    let expected = by_one(&arguments);
    for is_lost in [true, false] {
        let job = Job::new(ObjectStore::start(), &arguments);
        job.slices(&["1/2", "2/2"]);
        {
            let mut found = job.store.contents();
            let (_, parts) = found.uploads.values_mut().next().expect("an upload");
            match is_lost {
                true => drop(parts.remove(&2)),
                false => parts.get_mut(&2).expect("a part").0 = "\"other\"".to_owned(),
            }
        }
        let ran = job.finish();
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        let fault =
            if is_lost { "is missing (slice 1/2)" } else { "the tag \"other\", but others" };
        assert!(ran.err.contains("part 2 of the upload"), "{}", ran.err);
        assert!(ran.err.contains(fault), "{}", ran.err);
        job.slices(&["1/2"]);
        job.check(&expected);
    }
}

#[test]
fn an_upload_that_was_aborted_is_said() {
    let arguments = ["convert", HF, "DST.gguf"];
    let job = Job::new(ObjectStore::start(), &arguments);
    job.slices(&["1/1"]);
    job.store.contents().uploads.clear();
    let ran = job.finish();
    assert!(ran.err.contains("the store has no uploads of the plan"), "{}", ran.err);
    assert_eq!(job.status()["finished"], false);
    // Made again, the plan begins new uploads.
    std::fs::remove_file(job.file()).expect("the plan");
    assert_eq!(job.plan().status, Some(0));
    job.slices(&["1/1"]);
    job.check(&by_one(&arguments));
}

#[test]
fn plans_made_at_once_begin_one_upload_of_each_file() {
    // All find that none was begun.
    let asked = Arc::new((Mutex::new(0), Condvar::new()));
    let store = ObjectStore::failing(move |request: &Request| {
        if request.method == "GET" && request.path.ends_with("uploads.json") {
            let (number, changed) = &*asked;
            let mut number = number.lock().expect("it");
            *number += 1;
            changed.notify_all();
            let all = |number: &mut usize| *number < 3;
            drop(changed.wait_timeout_while(number, Duration::from_secs(20), all).expect("it"));
        }
        None
    });
    let arguments = ["convert", HF, "DST", "--to", "safetensors"];
    let job = Job::unplanned(store, &arguments);
    let file = |number: usize| job.folder.path().join(format!("plan-{number}.json"));
    let plans = (0..3).map(|number| {
        let mut command = job.program(&["job", "plan"]);
        command.args(&job.arguments).arg("-o").arg(file(number));
        command.stdout(Stdio::null()).spawn().expect("the program starts")
    });
    for mut plan in plans.collect::<Vec<_>>() {
        assert!(plan.wait().expect("its status").success());
    }
    let files = by_one(&arguments).len();
    assert_eq!(job.store.contents().uploads.len(), files);
    std::fs::rename(file(0), job.file()).expect("a plan");
    job.slices(&["1/1"]);
    job.check(&by_one(&arguments));
}

#[test]
fn offline_nothing_is_begun() {
    let job = Job::unplanned(ObjectStore::start(), &["convert", HF, "DST.gguf", "--offline"]);
    let ran = job.plan();
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    assert!(ran.err.contains("this run is offline"), "{}", ran.err);
    assert_eq!(job.store.server.requests().len(), 0);
}

#[test]
fn what_fails_on_the_way_is_repeated_or_said() {
    // Every third request fails in a way that passes.
    let number = AtomicUsize::new(0);
    let store = ObjectStore::failing(move |_: &Request| {
        let own = number.fetch_add(1, Ordering::Relaxed);
        own.is_multiple_of(3).then(|| Answer::status(503).header("Retry-After", "0"))
    });
    let arguments = ["convert", HF, "DST", "--to", "mlx"];
    let expected = by_one(&arguments);
    let job = Job::new(store, &arguments);
    job.slices(&["1/2", "2/2"]);
    job.check(&expected);

    // The store joins the parts of one file, and then refuses.
    let refuses = Arc::new(AtomicBool::new(true));
    let (own, joined) = (Arc::clone(&refuses), AtomicUsize::new(0));
    let store = ObjectStore::failing(move |request: &Request| {
        let joins = request.method == "POST" && request.path.contains("uploadId");
        let refused = joins && own.load(Ordering::Relaxed);
        (refused && joined.fetch_add(1, Ordering::Relaxed) >= 1).then(|| Answer::status(403))
    });
    let job = Job::new(store, &arguments);
    job.slices(&["1/1"]);
    let ran = job.finish();
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    assert!(ran.err.contains("the store refuses access"), "{}", ran.err);
    refuses.store(false, Ordering::Relaxed);
    job.check(&expected);

    // A status of success with an error behind it.
    let store = ObjectStore::failing(|request: &Request| {
        let joins = request.method == "POST" && request.path.contains("uploadId");
        joins.then(|| Answer::whole(b"<Error><Code>InternalError</Code></Error>"))
    });
    let job = Job::new(store, &arguments);
    job.slices(&["1/1"]);
    let ran = job.finish();
    assert!(ran.err.contains("does not join the parts: InternalError"), "{}", ran.err);
}

#[test]
fn what_cannot_be_written_to_a_store_is_refused() {
    let refusal = |arguments: &[&str]| {
        let job = Job::unplanned(ObjectStore::start(), arguments);
        let ran = job.plan();
        assert!(job.store.contents().uploads.is_empty());
        (ran.status, ran.err)
    };
    let (status, said) = refusal(&["convert", HF, "gs://models/out.gguf"]);
    assert_eq!(status, Some(4), "{said}");
    assert!(said.contains("only Amazon S3 and stores like it can be written to"), "{said}");
    for place in ["https://bucket/out.gguf", "hf://org/name", "ollama://tale"] {
        let (status, said) = refusal(&["convert", HF, place, "--to", "gguf"]);
        assert_eq!(status, Some(4), "{said}");
    }
    let (status, said) = refusal(&["convert", HF, "DST.gguf", "--part-size", "1MiB"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("parts of 1048576 bytes, but stores accept 5242880 to"), "{said}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let local = folder.path().join("out.gguf");
    let local = local.to_str().expect("a path in UTF-8");
    let (status, said) = refusal(&["convert", HF, local, "--part-size", "8MiB"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("the length of parts is for object stores only"), "{said}");
    let job = Job::unplanned(ObjectStore::start(), &["convert", HF, "DST.gguf"]);
    let words: Vec<&str> = job.arguments.iter().map(String::as_str).collect();
    let ran = job.run(&words);
    assert_eq!(ran.status, Some(4), "{}", ran.err);
    assert!(
        ran.err.contains("write it in slices: `job plan`, `job run`, `job finish`"),
        "{}",
        ran.err
    );
    // An object that exists.
    job.store.contents().objects.insert("to/out.gguf".to_owned(), b"mine".to_vec());
    let ran = job.plan();
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("s3://models/to/out.gguf: already exists"), "{}", ran.err);
    let job = Job { arguments: [&job.arguments[..], &["--overwrite".to_owned()]].concat(), ..job };
    let ran = job.plan();
    assert_eq!(ran.status, Some(4), "{}", ran.err);
    assert!(ran.err.contains("models in an object store are not overwritten"), "{}", ran.err);
    assert_eq!(job.store.contents().objects["to/out.gguf"], b"mine");
    // A folder with another file, which would be read as a part of the model.
    let job = Job::unplanned(ObjectStore::start(), &["convert", HF, "DST", "--to", "safetensors"]);
    let index = "to/out/model.safetensors.index.json".to_owned();
    job.store.contents().objects.insert(index, b"{}".to_vec());
    let ran = job.plan();
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(
        ran.err.contains("the folder is not empty: it has model.safetensors.index"),
        "{}",
        ran.err
    );
}

/// A plan is kept in a file, which is no place for a signature.
#[test]
fn addresses_with_a_query_are_in_no_plan() {
    let bytes = std::fs::read(root().join(GGUF)).expect("the sample");
    let server = server::Server::start(move |request| {
        Answer::file(request, &bytes).header("ETag", "\"one\"")
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let address = format!("{}/model.gguf", server.address);
    let (plan, made) = (at("plan.json"), at("out.safetensors"));
    let planned = |source: &str| run(&["job", "plan", "convert", source, &made, "-o", &plan]);
    let ran = planned(&format!("{address}?signature=secret"));
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    let fault = format!("{address}?...: a plan cannot keep an address with a query");
    assert!(ran.err.contains(&fault) && !ran.err.contains("secret"), "{}", ran.err);
    assert!(contents(folder.path()).is_empty());
    let ran = planned(&address);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(contents(folder.path()).contains_key("plan.json"));
}

/// A store whose answers `other` may change, which also sees what the store holds.
fn store_with(
    other: impl Fn(&ObjectStore, &Request) -> Option<Answer> + Send + Sync + 'static,
) -> ObjectStore {
    let own: Arc<OnceLock<ObjectStore>> = Arc::default();
    let found = Arc::clone(&own);
    let store = ObjectStore::failing(move |request| other(found.get()?, request));
    own.get_or_init(|| store.clone());
    store
}

fn key_of(request: &Request) -> &str {
    request.path.split('?').next().unwrap_or_default().trim_start_matches("/models/")
}

/// A plan that is made again does not begin uploads anew while a driver joins their parts.
#[test]
fn a_plan_made_again_leaves_uploads_that_are_being_joined() {
    let refuses = Arc::new(AtomicBool::new(true));
    let (own, joined) = (Arc::clone(&refuses), AtomicUsize::new(0));
    let store = ObjectStore::failing(move |request: &Request| {
        let joins = request.method == "POST" && request.path.contains("uploadId");
        let refused = joins && own.load(Ordering::Relaxed);
        (refused && joined.fetch_add(1, Ordering::Relaxed) >= 1).then(|| Answer::status(403))
    });
    let arguments = ["convert", HF, "DST", "--to", "mlx"];
    let job = Job::new(store, &arguments);
    job.slices(&["1/1"]);
    assert_eq!(job.finish().status, Some(5));
    let uploads = || job.store.contents().uploads.keys().cloned().collect::<Vec<_>>();
    let before = uploads();
    assert!(!before.is_empty());
    std::fs::remove_file(job.file()).expect("the plan");
    let ran = job.plan();
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(uploads(), before);
    refuses.store(false, Ordering::Relaxed);
    job.check(&by_one(&arguments));
}

/// The store writes the list of uploads, but its answer is lost: the request is repeated, and then there
/// is such an object.
#[test]
fn a_lost_answer_to_a_new_object() {
    let lost = AtomicBool::new(false);
    let store = store_with(move |store, request| {
        let key = key_of(request);
        let is_list = request.method == "PUT" && key.ends_with("uploads.json");
        if !is_list || lost.swap(true, Ordering::Relaxed) {
            return None;
        }
        store.contents().objects.insert(key.to_owned(), request.body.clone());
        Some(Answer::status(503).header("Retry-After", "0"))
    });
    let arguments = ["convert", HF, "DST.gguf"];
    let job = Job::new(store, &arguments);
    assert_eq!(job.store.contents().uploads.len(), 1);
    job.slices(&["1/1"]);
    job.check(&by_one(&arguments));
}

/// A worker that is late, and whose parts others have sent and joined, leaves no record.
#[test]
fn a_worker_that_is_late() {
    let store = store_with(|store, request| {
        let key = key_of(request);
        if request.method == "PUT" && key.contains("/records/") {
            let mut found = store.contents();
            found.objects.insert(key.to_owned(), request.body.clone());
            found.objects.retain(|key, _| !key.ends_with("uploads.json"));
            return Some(Answer::status(200));
        }
        None
    });
    let job = Job::new(store, &["convert", HF, "DST.gguf"]);
    let ran = job.slice("1/1");
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    assert!(ran.err.contains("the store has no uploads of the plan"), "{}", ran.err);
    assert!(job.store.contents().objects.is_empty());
    // A driver that comes too early or too late says so, too, and not that slices are missing.
    let ran = job.finish();
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    assert!(ran.err.contains("the store has no uploads of the plan"), "{}", ran.err);
}

#[test]
fn a_model_is_finished_while_its_objects_are_there() {
    let arguments = ["convert", HF, "DST", "--to", "safetensors"];
    let job = Job::new(ObjectStore::start(), &arguments);
    job.slices(&["1/1"]);
    job.check(&by_one(&arguments));
    let keys: Vec<String> = job.store.contents().objects.keys().cloned().collect();
    for key in keys {
        let whole = job.store.contents().objects.remove(&key).expect("an object");
        assert_eq!(job.status()["finished"], false, "{key} is gone");
        let shorter = whole[..whole.len() - 1].to_vec();
        job.store.contents().objects.insert(key.clone(), shorter);
        assert_eq!(job.status()["finished"], false, "{key} is shorter");
        let mut other = whole.clone();
        *other.last_mut().expect("a byte") ^= 1;
        job.store.contents().objects.insert(key.clone(), other);
        assert_eq!(job.status()["finished"], false, "{key} has other bytes");
        job.store.contents().objects.insert(key, whole);
        assert_eq!(job.status()["finished"], true);
    }
    // Objects of the right lengths are not enough.
    let record = Path::new(&job.file()).with_file_name(".plan.json.finished");
    std::fs::remove_file(record).expect("the record");
    assert_eq!(job.status()["finished"], false);
}

/// A reader takes the first file of a split model for the model: it is the last to appear. Of a folder, the
/// documents are.
#[test]
fn files_appear_in_an_order() {
    let order = |arguments: &[&str]| {
        let job = Job::new(ObjectStore::start(), arguments);
        let early = job.finish();
        assert!(early.err.contains("slices that are done: none"), "{}", early.err);
        job.slices(&["1/1"]);
        job.check(&by_one(arguments));
        let requests = job.store.server.requests();
        let joins = requests
            .iter()
            .filter(|request| request.method == "POST" && request.path.contains("uploadId"));
        joins
            .map(|request| key_of(request).trim_start_matches("to/").to_owned())
            .collect::<Vec<_>>()
    };
    let split = order(&["split", GGUF, "DST", "--max-shard-size", "400K"]);
    assert!(split.len() > 1 && split.is_sorted_by(|a, b| a > b), "{split:?}");
    let folder = order(&["convert", HF, "DST", "--to", "safetensors"]);
    let last = folder.last().expect("a file");
    assert!(folder[0].ends_with(".safetensors") && last.ends_with(".json"), "{folder:?}");
}

/// A driver is not through as long as its own objects are left.
#[test]
fn a_model_is_finished_when_its_plan_is_gone() {
    let refuses = Arc::new(AtomicBool::new(true));
    for kept in ["uploads.json", "checked"] {
        let own = Arc::clone(&refuses);
        own.store(true, Ordering::Relaxed);
        let store = ObjectStore::failing(move |request: &Request| {
            let deletes = request.method == "DELETE" && request.path.ends_with(kept);
            (deletes && own.load(Ordering::Relaxed)).then(|| Answer::status(403))
        });
        let arguments = ["convert", HF, "DST.gguf"];
        let job = Job::new(store, &arguments);
        job.slices(&["1/1"]);
        assert_eq!(job.finish().status, Some(5));
        assert_eq!(job.status()["finished"], false, "{kept}");
        refuses.store(false, Ordering::Relaxed);
        job.check(&by_one(&arguments));
    }
}

/// A user who may not list a folder does not know that it is empty.
#[test]
fn a_folder_that_may_not_be_listed() {
    let store = ObjectStore::failing(|request: &Request| {
        request.path.contains("list-type").then(|| Answer::status(403))
    });
    let job = Job::unplanned(store, &["convert", HF, "DST", "--to", "safetensors"]);
    let ran = job.plan();
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    assert!(ran.err.contains("s3://models/to/out: the store refuses access"), "{}", ran.err);
    assert!(job.store.contents().uploads.is_empty());
}

/// The joined object is compared with the plan.
#[test]
fn a_store_that_joins_other_parts() {
    let said = |store: ObjectStore, change: &dyn Fn(&ObjectStore)| {
        let job = Job::new(store, &["convert", HF, "DST.gguf"]);
        job.slices(&["1/1"]);
        change(&job.store);
        let ran = job.finish();
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        ran.err
    };
    let joins = |request: &Request| request.method == "POST" && request.path.contains("uploadId");
    let done = || Answer::whole(b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>");
    let nothing = ObjectStore::failing(move |request| joins(request).then(done));
    let short = store_with(move |store, request| {
        let other = joins(request).then(done)?;
        store.contents().objects.insert(key_of(request).to_owned(), vec![0; 7]);
        Some(other)
    });
    let one_more = |store: &ObjectStore| {
        let mut found = store.contents();
        let (_, parts) = found.uploads.values_mut().next().expect("an upload");
        parts.insert(99, ("\"more\"".to_owned(), vec![1]));
    };
    let all = [said(nothing, &|_| {}), said(short, &|_| {}), said(ObjectStore::start(), &one_more)];
    let len = by_one(&["convert", HF, "DST.gguf"])["out.gguf"].len();
    insta::assert_snapshot!(all.concat().replace(&len.to_string(), "LEN"), @"
    error: s3://models/to/out.gguf: the store has nothing, but the file has LEN bytes
     help: make the plan again
    error: s3://models/to/out.gguf: the store has 7 bytes, but the file has LEN bytes
     help: make the plan again
    error: s3://models/to/out.gguf: the upload has 2 parts, but 1 are planned
     help: make the plan again
    ");
}

/// Answers that begin no upload, and one that never ends.
#[test]
fn answers_that_are_not_those_of_a_store() {
    let said = |answer: fn() -> Answer| {
        let begins = |request: &Request| request.path.ends_with("?uploads=");
        let store = ObjectStore::failing(move |request| begins(request).then(answer));
        let ran = Job::unplanned(store, &["convert", HF, "DST.gguf"]).plan();
        format!("{} {}", ran.status.unwrap_or(-1), ran.err)
    };
    let all = [
        said(|| Answer {
            body: b"<Error><Code>AccessDenied</Code></Error>".to_vec(),
            ..Answer::status(403)
        }),
        said(|| Answer { body: b"<UploadId>x</UploadId>".to_vec(), ..Answer::status(400) }),
        said(|| Answer::whole(b"<R></R>")),
        said(|| Answer::whole(&vec![b' '; (12 << 20) + 1])),
    ];
    insta::assert_snapshot!(all.concat(), @"
    5 error: s3://models/to/out.gguf: the store refuses access: AccessDenied
     help: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE
    5 error: s3://models/to/out.gguf: the store answered 400
    5 error: s3://models/to/out.gguf: the store begins no upload in parts
    5 error: s3://models/to/out.gguf: the store's answer is longer than the 12582912 bytes allowed
    ");
}
