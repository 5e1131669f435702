//! Models on servers: right bytes or a typed error, few requests, and a token that stays where it
//! belongs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use weighbridge::device::Cpu;
use weighbridge::model::{Mesh, Part};
use weighbridge::remote::Network;
use weighbridge::{
    Error, ErrorKind, LoadOptions, Model, OpenOptions, Threads, WeightProvider, ops,
};

use crate::model::sharding::stored_bytes;
use crate::ollama_store::{Store, manifest};
use crate::server::{Answer, Request, Server};
use crate::support::{sample, told};

/// Settings for a server of the tests: nothing of this machine's environment, short pauses. A busy machine
/// may take long to answer.
fn network(cache: Option<&TempDir>) -> Network {
    let mut network = Network::default();
    network.backoff = Duration::from_millis(1);
    network.timeout = Duration::from_secs(60);
    network.cache = cache.map(|folder| folder.path().to_path_buf());
    network
}

fn open(address: &str, network: Network) -> weighbridge::Result<Model> {
    OpenOptions::new().network(network).open(address)
}

const PARTS: [Part; 3] = [Part::Weight, Part::Scale, Part::Bias];

/// A digest of all names, shapes, dtypes and bytes.
fn digest(model: &Model) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for tensor in model.stored_tensors() {
        (tensor.name(), tensor.shape(), tensor.dtype_label()).hash(&mut hasher);
        for part in PARTS {
            tensor.raw_bytes(part).map_err(|error| error.kind().name()).hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Serves the files of a folder. Each is read once: a rank asks for one row at a time.
fn serve(folder: &Path) -> impl Fn(&Request) -> Answer + Send + Sync + use<> {
    let folder = folder.to_path_buf();
    let files: Mutex<BTreeMap<String, Option<Arc<[u8]>>>> = Mutex::default();
    move |request| {
        let name = request.path.trim_start_matches('/').split('?').next().unwrap_or_default();
        let read = || std::fs::read(folder.join(name)).ok().map(Arc::from);
        let bytes = files.lock().unwrap().entry(name.to_owned()).or_insert_with(read).clone();
        match bytes {
            Some(bytes) => Answer::file(request, &bytes).header("ETag", "\"one\""),
            None => Answer::status(404),
        }
    }
}

fn gguf() -> Vec<u8> {
    std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample")
}

#[test]
fn every_container_is_the_same_from_a_server() {
    for (name, path) in [
        ("hf", "hf/"),
        ("hf", "hf/model.safetensors"),
        ("mlx-4bit", "mlx-4bit"),
        ("sample-Q8_0.gguf", "sample-Q8_0.gguf?signature=a/b"),
    ] {
        let local = Model::open(sample(name)).expect("a model of the repository");
        let server = Server::start(serve(sample(name).parent().expect("a folder")));
        let remote = open(&format!("{}/{path}", server.address), network(None)).expect(path);
        assert_eq!(digest(&remote), digest(&local), "{path}");
        assert_eq!(
            format!("{:?}", remote.config().expect("a config").n_layers),
            format!("{:?}", local.config().expect("a config").n_layers),
            "{path}"
        );
        assert!(server.requests().iter().all(|request| !request.path.contains("..")));
    }
}

/// Faults of a server instead of the file, and their results.
#[test]
fn servers_that_fail() {
    let bytes = gguf();
    let file = |request: &Request| Answer::file(request, &gguf());
    let said = |answer: Box<dyn Fn(&Request) -> Answer + Send + Sync>| {
        let server = Server::start(move |request| answer(request));
        let found = open(&format!("{}/model.gguf", server.address), network(None));
        let found = found.map(|model| digest(&model));
        match found {
            Ok(digest) => digest,
            Err(error) => format!("{:?}: {}", error.kind(), error).replace(&server.address, "HOST"),
        }
    };
    let right = digest(&Model::open(sample("sample-Q8_0.gguf")).expect("the sample"));

    // These get the right bytes.
    assert_eq!(said(Box::new(move |request| file(request))), right, "ranges");
    let whole = bytes.clone();
    assert_eq!(said(Box::new(move |_| Answer::whole(&whole))), right, "a small file, no ranges");
    assert_eq!(
        said(Box::new(move |request| match request.number % 3 {
            0 => Answer::status(500),
            1 => Answer::status(429).header("Retry-After", "0"),
            _ => Answer::file(request, &gguf()),
        })),
        right,
        "failures that pass"
    );
    assert_eq!(
        said(Box::new(move |request| Answer {
            cut: (request.number % 2 == 0).then_some(1000),
            ..Answer::file(request, &gguf())
        })),
        right,
        "cut connections"
    );
    assert_eq!(
        said(Box::new(move |request| Answer {
            pace: Some((4000, Duration::from_millis(2))),
            ..Answer::file(request, &gguf())
        })),
        right,
        "a slow server"
    );
    let elsewhere = Server::start(move |request| Answer::file(request, &gguf()));
    let there = elsewhere.address.clone();
    assert_eq!(
        said(Box::new(move |_| Answer::redirect(format!("{there}/x?signature=secret")))),
        right,
        "a redirect to another host"
    );
    assert!(elsewhere.requests().len() > 1);
    assert_eq!(
        said(Box::new(move |request| {
            if request.path == "/there" {
                Answer::file(request, &gguf())
            } else {
                Answer::redirect("/there")
            }
        })),
        right,
        "a redirect"
    );

    let answer_and_more = |request: &Request| {
        let answer = Answer::file(request, &gguf());
        Answer { body: [&answer.body[..], &[7; 100]].concat(), ..answer }
    };
    assert_eq!(said(Box::new(answer_and_more)), right, "more bytes than were requested");
    // A server that claims another length of the file.
    let claims = |more: i64| -> Box<dyn Fn(&Request) -> Answer + Send + Sync> {
        Box::new(move |request| {
            let all = gguf();
            let answer = Answer::file(request, &all);
            let (from, to) = request.range.expect("a range");
            let len = (all.len() as u64).saturating_add_signed(more);
            let last = to.min(all.len() as u64) - 1;
            answer.header("Content-Range", format!("bytes {from}-{last}/{len}"))
        })
    };
    assert_eq!(said(claims(1000)), right, "a longer file than it is");

    // These do not.
    let kinds = [401, 403, 404, 410, 416, 418, 429, 503].map(|status| {
        let text = said(Box::new(move |_| Answer::status(status)));
        format!("{status} {text}")
    });
    insta::assert_snapshot!(kinds.join("\n"), @"
    401 Io: HOST/model.gguf: the server refuses access (401)
    403 Io: HOST/model.gguf: the server refuses access (403)
    404 NotFound: HOST/model.gguf: the server has no such file (404)
    410 NotFound: HOST/model.gguf: the server has no such file (410)
    416 Io: HOST/model.gguf: the server answered 416
    418 Io: HOST/model.gguf: the server answered 418
    429 Io: HOST/model.gguf: the server refuses further requests for now (429)
    503 Io: HOST/model.gguf: the server failed (503)
    ");
    let kinds = [
        (
            "another range",
            said(Box::new(|request| {
                Answer::file(request, &gguf()).header("Content-Range", "bytes 5-9/100000")
            })),
        ),
        (
            "no range at all",
            said(Box::new(|request| Answer {
                headers: Vec::new(),
                ..Answer::file(request, &gguf())
            })),
        ),
        (
            "a range beyond the end",
            said(Box::new(|request| {
                Answer::file(request, &gguf())
                    .header("Content-Range", "bytes 0-99/18446744073709551615")
            })),
        ),
        (
            "less than it says",
            said(Box::new(|request| {
                let answer = Answer::file(request, &gguf());
                Answer { body: answer.body[..100].to_vec(), ..answer }
            })),
        ),
        ("a shorter file than it is", said(claims(-1000))),
        (
            "compressed",
            said(Box::new(|request| {
                Answer::file(request, &gguf()).header("Content-Encoding", "gzip")
            })),
        ),
        (
            "a large file, no ranges",
            said(Box::new(|_| {
                Answer { cut: Some(100), ..Answer::whole(&gguf()) }
                    .header("Content-Length", "99999999999")
            })),
        ),
        ("redirects in a circle", said(Box::new(|_| Answer::redirect("/again")))),
        ("a redirect to nowhere", said(Box::new(|_| Answer::status(302)))),
        ("a redirect to a file", said(Box::new(|_| Answer::redirect("file:///etc/passwd")))),
        (
            "a wait of an hour",
            said(Box::new(|_| Answer::status(429).header("Retry-After", "3600"))),
        ),
        (
            "never a byte",
            said(Box::new(|request| Answer { cut: Some(0), ..Answer::file(request, &gguf()) })),
        ),
        ("an error page", said(Box::new(|_| Answer::whole(b"<!DOCTYPE html><html>no</html>")))),
        ("an empty file", said(Box::new(|request| Answer::file(request, b"")))),
    ]
    .map(|(what, text)| format!("{what}: {text}"));
    insta::assert_snapshot!(kinds.join("\n"), @r#"
    another range: Io: HOST/model.gguf: the server sent bytes 5..10, but 0..32768 were requested
    no range at all: Io: HOST/model.gguf: the server sent part of the file, but not which: ""
    a range beyond the end: Io: HOST/model.gguf: the server sent bytes 0..100, but 0..32768 were requested
    less than it says: Io: HOST/model.gguf: the server breaks off the connection before it sends the bytes
    a shorter file than it is: Malformed: HOST/model.gguf: tensor "blk.1.ffn_up.weight": the tensor's 139264 bytes would end 1000 bytes after the end of the file (1409912) (at byte 1271648)
    compressed: Unsupported: HOST/model.gguf: the server sends the file compressed
    a large file, no ranges: Unsupported: HOST/model.gguf: the server does not send parts of files
    redirects in a circle: Io: HOST/model.gguf: the server redirects more than 10 times
    a redirect to nowhere: Io: HOST/model.gguf: the server answered 302 without a new address
    a redirect to a file: Io: HOST/model.gguf: the server redirects to an address that is not https
    a wait of an hour: Io: HOST/model.gguf: the server answered 429, and asks to wait 3600 seconds
    never a byte: Io: HOST/model.gguf: the server breaks off the connection before it sends the bytes
    an error page: UnknownContainer: HOST/model.gguf: an HTML page, not a model
    an empty file: Malformed: HOST/model.gguf: the file is empty
    "#);
}

#[test]
fn a_slow_server_is_an_error_after_the_timeout() {
    let server = Server::start(|request| Answer {
        pace: Some((1, Duration::from_secs(3))),
        ..Answer::file(request, &gguf())
    });
    let mut network = network(None);
    network.attempts = 2;
    network.timeout = Duration::from_millis(100);
    let error = open(&format!("{}/model.gguf", server.address), network).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

fn read_last(model: &Model) -> weighbridge::Result<()> {
    let tensor = model.stored_tensors().last().expect("a tensor");
    tensor.raw_bytes(Part::Weight).map(drop)
}

#[test]
fn a_file_that_changes_is_an_error() {
    for header in ["ETag", "Last-Modified"] {
        let server = Server::start(move |request| {
            let version = if request.number < 1 { "\"one\"" } else { "\"two\"" };
            Answer::file(request, &gguf()).header(header, version)
        });
        let model = open(&format!("{}/model.gguf", server.address), network(None));
        let read = model.and_then(|model| read_last(&model));
        let error = read.expect_err(header);
        assert!(error.to_string().contains("changed after it was opened"), "{error}");
    }
    // A new length is a change too, whatever the marks say.
    let server = Server::start(|request| {
        let mut bytes = gguf();
        bytes.extend(vec![0; request.number]);
        Answer::file(request, &bytes)
    });
    let model = open(&format!("{}/model.gguf", server.address), network(None));
    let read = model.and_then(|model| read_last(&model));
    let error = read.expect_err("a longer file");
    assert!(error.to_string().contains("changed after it was opened"), "{error}");
}

/// The hub of a test: one repository, whose large files lie on another host.
fn hub(token: Option<&'static str>) -> (Server, Server) {
    let store = Server::start(serve(&sample("hf")));
    let elsewhere = store.address.clone();
    let hub = Server::start(move |request| {
        if token.is_some_and(|token| request.authorization != Some(format!("Bearer {token}"))) {
            return Answer::status(401).header("X-Error-Code", "RepoNotFound");
        }
        if let Some(revision) = request.path.strip_prefix("/api/models/org/tale/revision/") {
            return match revision {
                "main?blobs=true" => Answer::whole(listing().as_bytes()),
                _ => Answer::status(404).header("X-Error-Code", "RevisionNotFound"),
            };
        }
        if request.path.starts_with("/api/models/org/gated/") {
            return Answer::status(403)
                .header("X-Error-Code", "GatedRepo")
                .header("X-Error-Message", "Access to model org/gated is restricted");
        }
        match request.path.strip_prefix("/org/tale/resolve/c0ffee/") {
            Some(name) if name.ends_with(".safetensors") => {
                Answer::redirect(format!("{elsewhere}/{name}?signature=secret"))
            }
            Some(name) => {
                serve(&sample("hf"))(&Request { path: format!("/{name}"), ..request.clone() })
            }
            None => Answer::status(404).header("X-Error-Code", "RepoNotFound"),
        }
    });
    (hub, store)
}

fn listing() -> String {
    let entries = std::fs::read_dir(sample("hf")).expect("a folder").flatten();
    let files: Vec<String> = entries
        .map(|entry| format!("{{\"rfilename\":\"{}\"}}", entry.file_name().to_string_lossy()))
        .collect();
    format!("{{\"sha\":\"c0ffee\",\"siblings\":[{}]}}", files.join(","))
}

#[test]
fn a_token_goes_to_the_hub_alone_and_is_never_shown() {
    let (hub, store) = hub(Some("hf_secret"));
    let mut network = network(None);
    network.hub = hub.address.clone();
    let error = open("hf://org/tale", network.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    network.token = Some("hf_secret".to_owned());
    let model = open("hf://org/tale", network.clone()).expect("with the token");
    let local = Model::open(sample("hf")).expect("the sample");
    assert_eq!(digest(&model), digest(&local));
    assert!(store.requests().len() > 1);
    assert!(store.requests().iter().all(|request| request.authorization.is_none()));
    assert!(!format!("{network:?}{model:?}").contains("hf_secret"));

    // A redirect that fails names neither its address nor its signature.
    drop(store);
    let broken = Server::start(|_| Answer::status(403));
    let to = broken.address.clone();
    let hub = Server::start(move |request| match request.path.starts_with("/api") {
        true => Answer::whole(listing().as_bytes()),
        false => Answer::redirect(format!("{to}/x?signature=secret")),
    });
    network.hub = hub.address.clone();
    let error = open("hf://org/tale", network).unwrap_err();
    assert!(!told(&error).contains("secret"), "{error}");
    assert!(broken.requests().iter().all(|request| request.authorization.is_none()));
}

#[test]
fn what_the_hub_refuses_is_said_in_words() {
    let (hub, _store) = hub(None);
    let mut network = network(None);
    network.hub = hub.address.clone();
    let said = |name: &str| {
        let error: Error = open(name, network.clone()).unwrap_err();
        told(&error).replace(&hub.address, "HUB")
    };
    let names = [
        "hf://org/gated",
        "hf://org/tale@v9",
        "hf://org/none",
        "hf://tale",
        "hf://org/tale:Q4_K_M",
        "hf://org/tale/none.gguf",
    ];
    insta::assert_snapshot!(names.map(said).join("\n"), @"
    Io: hf://org/gated: org/gated is gated (Access to model org/gated is restricted)
    help: accept its conditions on HUB with your account, and set HF_TOKEN
    NotFound: hf://org/tale@v9: org/tale has no revision v9
    NotFound: hf://org/none: the hub shows no repository org/none
    help: check the spelling; if it is private, set HF_TOKEN to a token that may read it
    Mismatch: hf://tale: not a name of the hub
    help: write hf://ORG/NAME, with @REVISION, :QUANTIZATION or /FILE after it
    NotFound: hf://org/tale:Q4_K_M: no GGUF file of the repository is Q4_K_M
    help: it has no GGUF files
    NotFound: hf://org/tale@main/none.gguf: no such file in the repository
    ");
    // The address of a page of the hub is the repository's name, also where a mirror stands for the hub.
    let page = format!("{}/org/tale/tree/main", hub.address);
    for page in [&page, "https://huggingface.co/org/tale?x=y", "https://hf.co/org/tale.git"] {
        let model = open(page, network.clone()).expect("a page");
        assert_eq!(model.path(), Path::new("hf://org/tale@main"));
    }
}

/// A blob that is not what its digest says is refused, whether it comes at once or in two pieces.
#[test]
fn a_blob_of_another_digest_is_refused() {
    let store = Store::new();
    let template = vec![b'x'; 100_000];
    let model = store.layer("model", "", &gguf());
    let manifest = manifest(&[model, store.layer("template", "", &template)]);
    for (wrong, at) in [(gguf(), 100), (template.clone(), 40_000)] {
        let (manifest, template) = (manifest.clone(), template.clone());
        let server = Server::start(move |request| {
            if request.path.contains("/manifests/") {
                return Answer::whole(manifest.as_bytes());
            }
            let is_model = request.path.contains(&digest_in(&manifest, 0));
            let mut bytes = if is_model { gguf() } else { template.clone() };
            if bytes == wrong {
                bytes[at] ^= 1;
            }
            if is_model { Answer::whole(&bytes) } else { Answer::file(request, &bytes) }
        });
        let mut network = network(None);
        network.registry = server.address.clone();
        let error = open("ollama://tale", network).unwrap_err();
        assert!(error.to_string().contains("sent bytes of SHA-256"), "{error}");
    }
}

/// The digest of a manifest's layer.
fn digest_in(manifest: &str, layer: usize) -> String {
    manifest
        .split("\"sha256:")
        .nth(layer + 1)
        .and_then(|rest| rest.get(..64))
        .expect("a digest")
        .to_owned()
}

/// Without a mark of its version, a file is not taken for the one that was kept.
#[test]
fn a_file_without_marks_is_fetched_again() {
    use crate::support::Safetensors;
    let file = |name: &str| Safetensors::new().tensor(name, "F32", &[1], [0; 4]).build();
    let long = |letter: &str| file(&letter.repeat(3000));
    let (first, second) = (long("a"), long("b"));
    let server = Server::start(move |request| {
        let bytes = if request.number < 2 { &first } else { &second };
        if request.path.ends_with(".safetensors") {
            Answer::file(request, bytes)
        } else {
            Answer::status(404)
        }
    });
    let cache = tempfile::tempdir().expect("a folder");
    let address = format!("{}/x.safetensors", server.address);
    let name = |model: &Model| {
        model.stored_tensors().next().map(|tensor| tensor.name().to_owned()).expect("a tensor")
    };
    let old = open(&address, network(Some(&cache))).expect("the first");
    assert!(name(&old).starts_with('a'));
    let new = open(&address, network(Some(&cache))).expect("the second");
    assert!(name(&new).starts_with('b'));
}

/// 160 shards and their index.
fn many_shards() -> (TempDir, u64) {
    use crate::support::{Safetensors, index, put};
    let folder = tempfile::tempdir().expect("a folder");
    let (mut map, mut headers) = (Vec::new(), 0);
    for number in 1..=160 {
        let file = format!("model-{number:05}-of-00160.safetensors");
        let mut shard = Safetensors::new();
        for tensor in 0..40 {
            let name = format!("model.layers.{number}.block.{tensor}.weight");
            shard = shard.tensor(&name, "F32", &[4, 8], [0; 128]);
            map.push((name, file.clone()));
        }
        let bytes = shard.build();
        headers += u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) + 8;
        put(folder.path(), &file, bytes);
    }
    let map: Vec<(&str, &str)> = map.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let index = index(&map);
    headers += index.len() as u64;
    put(folder.path(), "model.safetensors.index.json", index);
    (folder, headers)
}

#[test]
fn many_shards_take_two_requests_each() {
    let (folder, headers) = many_shards();
    let server = Server::start(serve(folder.path()));
    let cache = tempfile::tempdir().expect("a folder");
    let address = format!("{}/model.safetensors.index.json", server.address);
    let model = open(&address, network(Some(&cache))).expect("shards");
    assert_eq!(model.len(), 160 * 40);
    let weights = |server: &Server| {
        server.requests().iter().filter(|request| request.path.ends_with(".safetensors")).count()
    };
    assert!(weights(&server) <= 2 * 160 + 1, "{}", weights(&server));
    let sent = server.sent();
    assert!(sent * 10 <= headers * 12, "{sent} bytes for {headers}");

    // What was kept saves the second request, and all of them when offline.
    server.reset();
    let again = open(&address, network(Some(&cache))).expect("shards");
    assert_eq!(again.len(), model.len());
    assert!(weights(&server) <= 161, "{}", weights(&server));
    server.reset();
    let mut offline = network(Some(&cache));
    offline.offline = true;
    let kept = open(&address, offline.clone()).expect("kept headers");
    assert_eq!(kept.len(), model.len());
    let error = read_last(&kept).unwrap_err();
    assert!(error.to_string().contains("offline"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn one_tensor_costs_its_bytes() {
    // The middle of a large file is never asked for, so it need not exist.
    let header = br#"{"a":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]},"b":{"dtype":"U8","shape":[2147483648],"data_offsets":[1000000,2148483648]}}"#;
    let mut start = (header.len() as u64).to_le_bytes().to_vec();
    start.extend_from_slice(header);
    let head = start.len() as u64;
    let size = head + 2_148_483_648;
    let server = Server::start(move |request| {
        if !request.path.ends_with("model.safetensors") {
            return Answer::status(404);
        }
        let (from, to) = request.range.expect("a range");
        let to = to.min(size);
        let mut body = vec![7; (to - from) as usize];
        for (at, byte) in (from..).zip(&mut body) {
            if at < head {
                *byte = start[at as usize];
            }
        }
        Answer { body, ..Answer::status(206) }
            .header("Content-Range", format!("bytes {from}-{}/{size}", to - 1))
    });
    let model =
        open(&format!("{}/model.safetensors", server.address), network(None)).expect("a file");
    let tensor = model.stored_tensor("a").expect("a tensor");
    let bytes = tensor.raw_bytes(Part::Weight).expect("bytes");
    assert!(bytes.iter().all(|byte| *byte == 7));
    assert!(server.sent() <= 1_000_000 + (64 << 10), "{}", server.sent());
}

/// The parts of one tensor that lie near to each other come with one request, a long tensor with
/// several, and nothing is fetched twice.
#[test]
fn near_parts_come_together() {
    let folder = sample("mlx-4bit");
    let server = Server::start(serve(&folder));
    let model = open(&server.address, network(None)).expect("a model");
    let local = Model::open(&folder).expect("the sample");
    let name = "layers.0.attention.q.weight";
    let requests = |run: &dyn Fn()| {
        server.reset();
        run();
        (server.requests().len(), server.sent())
    };
    let tensor = model.tensor(name).expect("a tensor");
    let values = local.tensor(name).and_then(|tensor| tensor.dequantize()).expect("values");
    let (number, sent) = requests(&|| {
        assert_eq!(*tensor.dequantize().expect("values"), *values);
    });
    let stored: u64 = tensor.sources().map(|source| source.stored_bytes()).sum();
    assert!(number <= 3, "{number} requests for three parts");
    assert!(sent <= stored + (64 << 10), "{sent} bytes for {stored}");

    // Loaded: one request for its parts, and for those of a fused tensor.
    let provider = weighbridge::WeightProvider::new(model.clone(), weighbridge::device::Cpu);
    let provider = provider.expect("a provider");
    let norm = requests(&|| {
        provider.load("layers.0.attention.k.weight").expect("a tensor");
    });
    assert_eq!(norm.0, 1);
    let (number, _) = requests(&|| {
        provider.fuse(&["layers.1.ffn.gate.weight", "layers.1.ffn.up.weight"]).expect("both");
    });
    assert!(number < 6, "{number} requests for six parts");
}

#[test]
fn a_model_of_the_registry() {
    let store = Store::new();
    let layers = [store.layer("model", "", &gguf()), store.layer("template", "", b"{{ .Prompt }}")];
    let manifest = manifest(&layers);
    let folder = store.path().to_path_buf();
    let server = Server::start(move |request| {
        if request.path == "/v2/library/tale/manifests/latest" {
            return Answer::whole(manifest.as_bytes());
        }
        match request.path.strip_prefix("/v2/library/tale/blobs/") {
            Some(blob) => match std::fs::read(folder.join("blobs").join(blob.replace(':', "-"))) {
                Ok(bytes) => Answer::file(request, &bytes),
                Err(_) => Answer::status(404),
            },
            None => Answer::status(404),
        }
    });
    let mut network = network(None);
    network.registry = server.address.clone();
    let model = open("ollama://tale", network.clone()).expect("a model");
    assert_eq!(
        digest(&model),
        digest(&Model::open(sample("sample-Q8_0.gguf")).expect("the sample"))
    );
    assert_eq!(model.metadata().str("ollama.template"), Some("{{ .Prompt }}"));
    let error = open("ollama://other", network).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_rank_fetches_its_own_bytes() {
    let mut checked = 0;
    for name in ["hf", "sample-Q8_0.gguf", "mlx-4bit"] {
        let server = Server::start(serve(sample(name).parent().expect("a folder")));
        for text in ["tp=2", "pp=2", "tp=2,pp=2"] {
            let mesh: Mesh = text.parse().expect("a mesh");
            let local = Model::open(sample(name)).expect("the sample");
            if ops::shares(&local, &mesh).is_err() {
                continue;
            }
            for sharding in mesh.shardings() {
                // Only the headers and documents are fetched before.
                let model =
                    open(&format!("{}/{name}", server.address), network(None)).expect("a model");
                let provider = WeightProvider::new(model, Cpu)
                    .expect("a share")
                    .sharding(sharding)
                    .expect("a share");
                let names = provider.names().expect("names");
                server.reset();
                let options = LoadOptions::new().threads(Threads::one());
                let loaded = provider.load_all(|_| true, &options).expect("a share");
                let sent = server.sent();
                let own: u64 = names.iter().map(|name| stored_bytes(&provider, name)).sum();
                assert!(sent <= own + own / 100, "{name} {text}: {sent} of {own} bytes");
                let same =
                    WeightProvider::new(local.clone(), Cpu).expect("a share").sharding(sharding);
                let same = same.expect("a share").load_all(|_| true, &options).expect("a share");
                for (one, other) in loaded.iter().zip(&same) {
                    for part in &one.parts {
                        let [one, other] = [one, other].map(|it| it.contents(&Cpu, part.part));
                        assert!(one.expect("bytes") == other.expect("bytes"));
                    }
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 12, "{checked}");
}
