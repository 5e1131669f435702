//! A hub and a registry for tests, on the loopback. As on the Hugging Face hub, large files lie on
//! another host, to which the hub redirects.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::server::{Answer, Request, Server};

/// The commit of the repository.
pub(crate) const COMMIT: &str = "c0ffee0123456789c0ffee0123456789c0ffee01";

/// The files of a repository: names and contents.
pub(crate) type RepositoryFiles = Vec<(String, Vec<u8>)>;

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that git gives a file.
pub(crate) fn blob_id(bytes: &[u8]) -> String {
    use sha1::Digest as _;
    let mut hasher = sha1::Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the hub keeps a file outside of git.
pub(crate) fn is_large(name: &str) -> bool {
    [".safetensors", ".gguf", ".bin"].iter().any(|ending| name.ends_with(ending))
}

/// The name of a file's blob in the hub's cache.
pub(crate) fn blob_name(name: &str, bytes: &[u8]) -> String {
    if is_large(name) { sha256(bytes) } else { blob_id(bytes) }
}

fn listing(files: &RepositoryFiles) -> String {
    let entry = |(name, bytes): &(String, Vec<u8>)| {
        let (size, id) = (bytes.len(), blob_id(bytes));
        let lfs = match is_large(name) {
            true => format!(",\"lfs\":{{\"sha256\":\"{}\",\"size\":{size}}}", sha256(bytes)),
            false => String::new(),
        };
        format!("{{\"rfilename\":\"{name}\",\"size\":{size},\"blobId\":\"{id}\"{lfs}}}")
    };
    let entries: Vec<String> = files.iter().map(entry).collect();
    format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", entries.join(","))
}

/// A hub with one repository, and the host of its large files.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) hub: Server,
    pub(crate) store: Server,
}

impl Hub {
    pub(crate) fn start(repository: &str, files: RepositoryFiles) -> Self {
        Self::changed(repository, files, |_, answer| answer)
    }

    /// A hub whose host of large files changes its answers.
    pub(crate) fn changed(
        repository: &str,
        files: RepositoryFiles,
        change: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let files = Arc::new(files);
        let find = |files: &RepositoryFiles, path: &str| {
            let name = path.split('?').next().unwrap_or_default();
            files.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.clone())
        };
        let stored = Arc::clone(&files);
        let store = Server::start(move |request| {
            match find(&stored, request.path.trim_start_matches('/')) {
                Some(bytes) => change(
                    request,
                    Answer::file(request, &bytes).header("ETag", format!("\"{}\"", bytes.len())),
                ),
                None => Answer::status(404),
            }
        });
        let elsewhere = store.address.clone();
        let repository = repository.to_owned();
        let hub = Server::start(move |request| {
            let api = format!("/api/models/{repository}/revision/");
            if let Some(revision) = request.path.strip_prefix(&api) {
                let revision = revision.split('?').next().unwrap_or_default();
                return match revision == "main" || revision == COMMIT {
                    true => Answer::whole(listing(&files).as_bytes()),
                    false => Answer::status(404).header("X-Error-Code", "RevisionNotFound"),
                };
            }
            let name = request.path.strip_prefix(&format!("/{repository}/resolve/{COMMIT}/"));
            match name.map(|name| (name, find(&files, name))) {
                Some((name, Some(_))) if is_large(name) => {
                    Answer::redirect(format!("{elsewhere}/{name}?signature=secret"))
                }
                Some((_, Some(bytes))) => {
                    Answer::file(request, &bytes).header("ETag", format!("\"{}\"", blob_id(&bytes)))
                }
                _ => Answer::status(404).header("X-Error-Code", "RepoNotFound"),
            }
        });
        Self { hub, store }
    }

    /// The bytes of all bodies that both hosts have sent.
    pub(crate) fn sent(&self) -> u64 {
        self.hub.sent() + self.store.sent()
    }

    pub(crate) fn reset(&self) {
        self.hub.reset();
        self.store.reset();
    }
}

/// A registry with one model, `tale:latest`, of these layers: the kind and the content of each.
pub(crate) fn registry(layers: &[(&str, Vec<u8>)]) -> (Server, String) {
    let layer = |(kind, bytes): &(&str, Vec<u8>)| {
        let media_type = match *kind {
            "config" => "application/vnd.docker.container.image.v1+json".to_owned(),
            kind => format!("application/vnd.ollama.image.{kind}"),
        };
        format!(
            "{{\"mediaType\":\"{media_type}\",\"digest\":\"sha256:{}\",\"size\":{}}}",
            sha256(bytes),
            bytes.len()
        )
    };
    let (config, others): (Vec<_>, Vec<_>) = layers.iter().partition(|(kind, _)| *kind == "config");
    let config: Vec<String> =
        config.into_iter().map(|one| format!("\"config\": {},", layer(one))).collect();
    let others: Vec<String> = others.into_iter().map(layer).collect();
    // Not as this program would write it: it must be kept as it is.
    let manifest = format!(
        "{{ \"schemaVersion\": 2, {}\n  \"layers\": [{}] }}\n",
        config.concat(),
        others.join(", ")
    );
    let (sent, blobs): (String, Vec<Vec<u8>>) =
        (manifest.clone(), layers.iter().map(|(_, bytes)| bytes.clone()).collect());
    let server = Server::start(move |request| {
        if request.path == "/v2/library/tale/manifests/latest" {
            return Answer::whole(sent.as_bytes());
        }
        let hex = request.path.strip_prefix("/v2/library/tale/blobs/sha256:");
        let blob = hex.and_then(|hex| blobs.iter().find(|bytes| sha256(bytes) == hex));
        blob.map_or_else(|| Answer::status(404), |bytes| Answer::file(request, bytes))
    });
    (server, manifest)
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner =
        Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

/// Whether a request has the signature of these keys, by the documentation of Amazon S3.
pub(crate) fn is_signed(request: &Request, id: &str, secret: &str) -> bool {
    let Some(given) = request.authorization.as_deref() else { return false };
    let field = |name: &str| {
        let rest = given.split_once(&format!("{name}=")).map_or("", |(_, rest)| rest);
        rest.split(',').next().unwrap_or_default().trim().to_owned()
    };
    let (credential, names, signature) =
        (field("Credential"), field("SignedHeaders"), field("Signature"));
    let Some((key, scope)) = credential.split_once('/') else { return false };
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut query: Vec<&str> = query.split('&').collect();
    query.sort_unstable();
    let headers: String =
        names.split(';').map(|name| format!("{name}:{}\n", request.header(name))).collect();
    let canonical = format!(
        "{}\n{path}\n{}\n{headers}\n{names}\n{}",
        request.method,
        query.join("&"),
        request.header("x-amz-content-sha256")
    );
    let text = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        request.header("x-amz-date"),
        sha256(canonical.as_bytes())
    );
    let first = format!("AWS4{secret}").into_bytes();
    let key_of = scope.split('/').fold(first, |key, word| hmac(&key, word.as_bytes()));
    let expected: String =
        hmac(&key_of, text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    // What is not signed can be changed on the way.
    let all = ["host", "x-amz-content-sha256", "x-amz-date"];
    let signs = |name: &str| names.split(';').any(|other| other == name);
    key == id
        && signature == expected
        && request.header("x-amz-content-sha256") == sha256(&request.body)
        && all.iter().all(|name| signs(name))
        && (request.range.is_none() || signs("range"))
}

/// A store like Amazon S3, with one bucket `models`. It answers requests that are signed with these
/// keys; without keys, all.
pub(crate) fn bucket(files: RepositoryFiles, keys: Option<(&'static str, &'static str)>) -> Server {
    Server::start(move |request| {
        if keys.is_some_and(|(id, secret)| !is_signed(request, id, secret)) {
            return Answer::status(403);
        }
        let Some(rest) = request.path.strip_prefix("/models/") else { return Answer::status(404) };
        if let Some(query) = rest.strip_prefix('?') {
            let field = |name: &str| {
                query.split('&').find_map(|part| part.strip_prefix(&format!("{name}=")))
            };
            let prefix = field("prefix").unwrap_or_default().replace("%2F", "/");
            // Two names at a time.
            let after: usize =
                field("continuation-token").and_then(|text| text.parse().ok()).unwrap_or(0);
            let found: Vec<&str> = files
                .iter()
                .map(|(name, _)| name.as_str())
                .filter(|name| name.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/')))
                .collect();
            let keys: String = found
                .iter()
                .skip(after)
                .take(2)
                .map(|name| format!("<Contents><Key>{}</Key></Contents>", name.replace(' ', "+")))
                .collect();
            let next = match after + 2 < found.len() {
                true => format!("<NextContinuationToken>{}</NextContinuationToken>", after + 2),
                false => String::new(),
            };
            let xml = format!("<ListBucketResult>{keys}{next}</ListBucketResult>");
            return Answer::whole(xml.as_bytes());
        }
        let key = rest.replace("%20", " ");
        match files.iter().find(|(name, _)| *name == key) {
            Some((_, bytes)) => Answer::file(request, bytes).header("ETag", "\"one\""),
            None => Answer::status(404),
        }
    })
}

/// Base64, by RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
            text.push(if at <= three.len() { letter } else { '=' });
        }
    }
    text
}

/// Whether a request is signed with the key of an account, by Azure's documentation, "Authorize with
/// Shared Key".
fn is_shared_key(request: &Request, account: &str, key: &[u8]) -> bool {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let standard = ["content-encoding", "content-language", "content-length", "content-md5"];
    let dated = ["content-type", "date", "if-modified-since", "if-match", "if-none-match"];
    let names = standard.iter().chain(&dated).chain(&["if-unmodified-since", "range"]);
    let mut text = "GET\n".to_owned();
    names.for_each(|name| text.push_str(&format!("{}\n", request.header(name))));
    let mut own: Vec<_> =
        request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort_unstable();
    own.iter().for_each(|(name, value)| text.push_str(&format!("{name}:{value}\n")));
    text.push_str(&format!("/{account}{path}"));
    let mut query: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    query.sort_unstable();
    for part in query {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        text.push_str(&format!("\n{name}:{}", value.replace("%2F", "/").replace("%20", " ")));
    }
    let expected = format!("SharedKey {account}:{}", base64(&hmac(key, text.as_bytes())));
    request.authorization.as_deref() == Some(&expected)
}

/// The proof of identity that a container of Azure asks for.
pub(crate) enum Known {
    /// By the account and its key.
    Key(&'static str, &'static [u8]),
    /// By a signature in the address.
    Signature(&'static str),
}

impl Known {
    /// The key as `AZURE_STORAGE_KEY` has it.
    pub(crate) fn key_text(&self) -> String {
        match self {
            Self::Key(_, key) => base64(key),
            Self::Signature(_) => String::new(),
        }
    }
}

/// A store like Azure's, with one container `models`.
pub(crate) fn container(files: RepositoryFiles, known: Known) -> Server {
    Server::start(move |request| {
        let is_known = match known {
            Known::Key(account, key) => is_shared_key(request, account, key),
            Known::Signature(text) => {
                request.authorization.is_none() && request.path.ends_with(text)
            }
        };
        if !is_known {
            return Answer::status(403);
        }
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let field = |name: &str| {
            let named = query.split('&').find_map(|part| part.strip_prefix(&format!("{name}=")));
            named.unwrap_or_default().replace("%2F", "/").replace("%20", " ")
        };
        if path == "/models" && field("comp") == "list" && field("restype") == "container" {
            let (prefix, after) = (field("prefix"), field("marker").parse().unwrap_or(0));
            let names = files.iter().filter_map(|(name, _)| name.strip_prefix(&prefix));
            let found: Vec<&str> = names.filter(|rest| !rest.contains('/')).collect();
            let blob = |name: &&str| format!("<Blob><Name>{prefix}{name}</Name></Blob>");
            // Two names at a time, and a folder, which has no slash before its end.
            let blobs: String = found.iter().skip(after).take(2).map(blob).collect();
            let next =
                if after + 2 < found.len() { (after + 2).to_string() } else { String::new() };
            let folder = format!("<BlobPrefix><Name>{prefix}more/</Name></BlobPrefix>");
            let xml = format!("<Blobs>{blobs}{folder}</Blobs><NextMarker>{next}</NextMarker>");
            return Answer::whole(xml.as_bytes());
        }
        let key = path.strip_prefix("/models/").unwrap_or_default().replace("%20", " ");
        match files.iter().find(|(name, _)| *name == key) {
            Some((_, bytes)) => Answer::file(request, bytes).header("ETag", "\"one\""),
            None => Answer::status(404),
        }
    })
}
