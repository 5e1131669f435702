//! Rare answers of servers, and what the cache of headers keeps and forgets.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use weighbridge::remote::Network;
use weighbridge::{ErrorKind, Model, OpenOptions, Part};

use crate::hub::{Hub, RepositoryFiles};
use crate::server::{Answer, Request, Server};
use crate::support::{Safetensors, sample, told};

fn network() -> Network {
    let mut network = Network::default();
    network.backoff = Duration::from_millis(1);
    network.timeout = Duration::from_secs(60);
    network
}

fn keeping(cache: &TempDir) -> Network {
    let mut network = network();
    network.cache = Some(cache.path().to_path_buf());
    network
}

fn open(address: &str, network: Network) -> weighbridge::Result<Model> {
    OpenOptions::new().network(network).open(address)
}

fn small() -> Vec<u8> {
    Safetensors::new().tensor("t", "F32", &[1], [0; 4]).build()
}

fn serve(bytes: Vec<u8>) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| match request.path.ends_with("/x.safetensors") {
        true => Answer::file(request, &bytes).header("ETag", "\"one\""),
        false => Answer::status(404),
    }
}

/// The list of a repository's files is kept too, so that its headers are found without a network.
#[test]
fn a_repository_that_was_looked_at_opens_offline() {
    let entries = std::fs::read_dir(sample("hf")).expect("the sample").flatten();
    let files: RepositoryFiles = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("a file"))
        })
        .collect();
    let hub = Hub::start("org/looked-at", files);
    let cache = tempfile::tempdir().expect("a folder");
    let mut network = keeping(&cache);
    network.hub = hub.hub.address.clone();
    let first = open("hf://org/looked-at", network.clone()).expect("a model");
    hub.reset();
    network.offline = true;
    let again = open("hf://org/looked-at", network.clone()).expect("a model that was kept");
    assert_eq!((again.path(), again.len()), (first.path(), first.len()));
    assert_eq!(hub.hub.requests().len() + hub.store.requests().len(), 0);
    let error = open("hf://org/never", network).expect_err("one that was not");
    assert!(error.to_string().contains("this run is offline"), "{error}");
}

/// The hub says as little as it can about what is private.
#[test]
fn the_advice_on_a_private_repository_depends_on_the_token() {
    let said = |status: u16, token: Option<&str>| {
        let hub = Server::start(move |_| Answer::status(status));
        let mut network = network();
        network.hub = hub.address.clone();
        network.token = token.map(str::to_owned);
        told(&open("hf://org/tale", network).expect_err("no access"))
    };
    let all = [said(401, None), said(401, Some("hf_x")), said(403, None), said(403, Some("hf_x"))];
    insta::assert_snapshot!(all.join("\n"), @"
    NotFound: hf://org/tale: the hub shows no repository org/tale
    help: check the spelling; if it is private, set HF_TOKEN to a token that may read it
    NotFound: hf://org/tale: the hub shows no repository org/tale
    help: check the spelling; the token of HF_TOKEN may lack the right to read it
    Io: hf://org/tale: the hub refuses access to org/tale
    help: if it is private, set HF_TOKEN to a token that may read it
    Io: hf://org/tale: the hub refuses access to org/tale
    help: the token of HF_TOKEN may lack the right to read it
    ");
}

#[test]
fn a_list_of_files_of_any_length_is_not_read() {
    let hub = Server::start(|_| Answer::whole(&vec![b' '; (12 << 20) + 1]));
    let mut network = network();
    network.hub = hub.address.clone();
    let error = open("hf://org/tale", network).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("bytes of JSON"), "{error}");
}

/// Amazon S3 redirects to no address if a bucket is in another region.
#[test]
fn a_bucket_of_another_region() {
    let server =
        Server::start(|_| Answer::status(301).header("X-Amz-Bucket-Region", "eu-central-1"));
    let error = open(&format!("{}/x.gguf", server.address), network()).expect_err("no address");
    insta::assert_snapshot!(told(&error).replace(&server.address, "HOST"), @"
    Io: HOST/x.gguf: the bucket is in the region eu-central-1
    help: set AWS_REGION=eu-central-1
    ");
}

/// The address of a server that closes the first connections without a word.
fn silent_at_first(silent: usize, bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let mut connections = listener.incoming().flatten();
        connections.by_ref().take(silent).for_each(drop);
        for mut connection in connections {
            let len = bytes.len();
            let head = format!(
                "HTTP/1.1 206 Part\r\nContent-Length: {len}\r\nConnection: close\r\n\
                 Content-Range: bytes 0-{}/{len}\r\n\r\n",
                len - 1
            );
            let mut request = [0; 4096];
            let _ = std::io::Read::read(&mut connection, &mut request);
            let _ = connection.write_all(&[head.as_bytes(), &bytes].concat());
        }
    });
    address
}

#[test]
fn attempts_are_counted() {
    let said = |attempts: u32| {
        let mut network = network();
        network.attempts = attempts;
        let address = silent_at_first(2, small());
        match open(&format!("{address}/x.safetensors"), network) {
            Ok(model) => format!("{} tensor", model.len()),
            Err(error) => format!("{:?}: {}", error.kind(), error.advice().unwrap_or_default()),
        }
    };
    assert_eq!(said(3), "1 tensor");
    assert_eq!(said(2), "Io: 2 attempts were made; check the connection");
    assert_eq!(said(1), "Io: 1 attempts were made; check the connection");
}

/// After the start of a file too, an answer must begin where it was asked to, end no later, and have
/// some bytes. Then the bytes would be right, but nothing says that they are.
#[test]
fn later_answers_state_their_range() {
    /// From the first and the last byte of an answer to those that it states.
    type Moved = fn(u64, u64) -> (u64, u64);
    let bytes = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    let len = bytes.len() as u64;
    let said = |moved: Moved| {
        let bytes = bytes.clone();
        let server = Server::start(move |request| {
            let answer = Answer::file(request, &bytes);
            let (from, to) = request.range.expect("a range");
            if from == 0 {
                return answer;
            }
            let (first, last) = moved(from, to.min(len) - 1);
            answer.header("Content-Range", format!("bytes {first}-{last}/{len}"))
        });
        let model = open(&format!("{}/x.gguf", server.address), network())?;
        let tensor = model.stored_tensor("blk.0.ffn_up.weight").expect("a tensor");
        tensor.raw_bytes(Part::Weight).map(|bytes| bytes.len())
    };
    said(|first, last| (first, last)).expect("the right range");
    let wrong: [Moved; 3] = [
        |first, last| (first + 1, last),
        |first, last| (first, last + 1),
        |first, _| (first, first - 1),
    ];
    for moved in wrong {
        let error = said(moved).expect_err("another range");
        assert!(error.to_string().contains("were requested"), "{error}");
    }
}

/// The files of the cache of headers.
fn kept(cache: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache.path().join("headers")).expect("a folder").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[test]
fn an_entry_that_cannot_be_written_leaves_no_part_of_it() {
    let server = Server::start(serve(small()));
    let address = format!("{}/x.safetensors", server.address);
    let cache = tempfile::tempdir().expect("a folder");
    open(&address, keeping(&cache)).expect("a model");
    let before = kept(&cache);
    let [entry] = before.as_slice() else { panic!("{before:?}") };
    std::fs::remove_file(entry).expect("the entry");
    std::fs::create_dir_all(entry.join("in the way")).expect("a folder");
    open(&address, keeping(&cache)).expect("a model all the same");
    assert_eq!(kept(&cache), before);
}

/// The oldest entries are deleted first, and only as many as must be.
#[test]
fn a_full_cache_forgets_the_oldest() {
    let server = Server::start(serve(small()));
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().join("headers");
    std::fs::create_dir(&folder).expect("a folder");
    let put = |name: &str, megabytes: u64, days: u64| {
        let file = std::fs::File::create(folder.join(name)).expect("a file");
        // A hole takes no room on the disk.
        file.set_len(megabytes << 20).expect("a long file");
        let age = Duration::from_secs(days * 86_400);
        file.set_modified(SystemTime::now() - age).expect("a date");
    };
    put("a", 300, 1);
    put("b", 400, 3);
    put("c", 200, 2);
    let address = |name: &str| format!("{}/{name}/x.safetensors", server.address);
    open(&address("one"), keeping(&cache)).expect("a model");
    assert_eq!(kept(&cache).len(), 4, "there is room for all");
    put("d", 150, 4);
    open(&address("two"), keeping(&cache)).expect("a model");
    let has = |name: &str| Path::new(&folder).join(name).exists();
    assert_eq!(["a", "b", "c", "d"].map(has), [true, false, true, false]);
    assert_eq!(kept(&cache).len(), 4, "and those of both models");
}

/// Whether a tensor can be repacked without a loss is found out by reading it. If that fails, it is an
/// error: the tensor is not quantized again instead.
#[test]
fn a_read_that_fails_does_not_change_how_a_tensor_is_written() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use weighbridge::Builder;
    use weighbridge::container::{GGUF, MLX};
    use weighbridge::write::Method;

    let source = crate::ops::convert::experts([4.0, 32.0]);
    // How many requests are answered from now on.
    let answered = Arc::new(AtomicUsize::new(usize::MAX));
    let (left, folder) = (Arc::clone(&answered), source.path().to_path_buf());
    let server = Server::start(move |request| {
        let one_less = |left: usize| left.checked_sub(1);
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            return Answer::status(403);
        }
        match std::fs::read(folder.join(request.path.trim_start_matches('/'))) {
            Ok(bytes) => Answer::file(request, &bytes).header("ETag", "\"one\""),
            Err(_) => Answer::status(404),
        }
    });
    let model = open(&server.address, network()).expect("a model");
    let experts = model.tensor("layers.0.ffn.experts.gate.weight").expect("experts");
    for container in [&GGUF, &MLX] {
        let made = |answers: usize| {
            answered.store(answers, Ordering::SeqCst);
            let mut builder = Builder::new(container)?;
            builder.add("x.weight", &experts)?;
            Ok(builder.plan()?.tensors[0].method)
        };
        server.reset();
        assert_eq!(made(usize::MAX).expect("all answers"), Method::Repacked);
        let most = server.requests().len();
        assert!(most > 6, "{most} requests");
        for answers in 0..most {
            let error: weighbridge::Error = made(answers).expect_err("one answer is missing");
            assert_eq!(error.kind(), ErrorKind::Io, "{answers} answers: {error}");
        }
    }
}

/// A server is asked for nothing twice: not for what it does not have, and not where it has the bytes.
#[test]
fn nothing_is_asked_for_twice() {
    let weights = std::fs::read(sample("hf").join("model.safetensors")).expect("the sample");
    let files: RepositoryFiles = vec![("model.safetensors".to_owned(), weights)];
    let hub = Hub::start("org/tale", files.clone());
    let mut network = network();
    network.hub = hub.hub.address.clone();
    let model = open("hf://org/tale", network.clone()).expect("a model");
    for tensor in model.stored_tensors() {
        tensor.raw_bytes(Part::Weight).expect("bytes");
    }
    let asked = |server: &Server, end: &str| {
        server.requests().iter().filter(|request| request.path.ends_with(end)).count()
    };
    assert_eq!(asked(&hub.hub, "/model.safetensors"), 1, "later requests go where it leads");
    assert!(asked(&hub.store, "signature=secret") > 10);

    let server = Server::start(move |request| match request.path.as_str() {
        "/m/model.safetensors" => Answer::file(request, &files[0].1).header("ETag", "\"one\""),
        _ => Answer::status(404),
    });
    let error = open(&format!("{}/m/none.gguf", server.address), network.clone());
    assert_eq!(error.expect_err("no such file").kind(), ErrorKind::NotFound);
    assert_eq!(server.requests().len(), 1, "a name of a file is that of no folder");
    server.reset();
    open(&format!("{}/m", server.address), network).expect("a model");
    let mut missing: Vec<String> =
        server.requests().into_iter().map(|request| request.path).collect();
    missing.retain(|path| path != "/m/model.safetensors");
    let count = missing.len();
    missing.sort();
    missing.dedup();
    assert!(count == missing.len() && count > 5, "{count} requests for {missing:?}");
}

/// An address that a redirect led to may end to be valid, as those with signatures do.
#[test]
fn an_address_that_has_expired_is_asked_for_again() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let bytes = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    for status in [400, 401, 403, 404, 410] {
        let issued = Arc::new(AtomicUsize::new(0));
        let (own, bytes) = (Arc::clone(&issued), bytes.clone());
        let store = Server::start(move |request| {
            let number = request.path.trim_start_matches("/x?signature=").parse::<usize>();
            match number == Ok(own.load(Ordering::SeqCst)) {
                true => Answer::file(request, &bytes).header("ETag", "\"one\""),
                false => Answer::status(status),
            }
        });
        let (own, to) = (Arc::clone(&issued), store.address.clone());
        let server = Server::start(move |_| {
            let number = own.fetch_add(1, Ordering::SeqCst) + 1;
            Answer::redirect(format!("{to}/x?signature={number}"))
        });
        let model = open(&format!("{}/x.gguf", server.address), network()).expect("a model");
        let before = server.requests().len();
        for _ in 0..3 {
            issued.fetch_add(1, Ordering::SeqCst);
            for tensor in model.stored_tensors().take(4) {
                tensor.raw_bytes(Part::Weight).expect("bytes");
            }
        }
        assert_eq!(server.requests().len() - before, 3, "{status}");
    }
}
