//! Names of object stores: which server a bucket is at, and what lies in it.
#![cfg(feature = "http")]

use std::process::Command;

use crate::hub::RepositoryFiles;
use crate::server::{Answer, Server};
use crate::support::{Ran, contents, program, root};
use crate::{hub, support};

const SAMPLE: &str = "assets/sample/hf";

/// A program without the keys and settings of this machine, and a folder for its own.
fn command(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = program(arguments);
    let own = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
    for name in own.into_iter().flat_map(|name| [name.to_owned(), name.to_lowercase()]) {
        command.env_remove(name);
    }
    for name in ["ACCESS_KEY_ID", "PROFILE", "REGION", "DEFAULT_REGION", "ENDPOINT_URL_S3"] {
        command.env_remove(format!("AWS_{name}"));
    }
    for name in ["KEY", "ACCESS_KEY", "SAS_TOKEN", "SERVICE_ENDPOINT", "ACCOUNT"] {
        command.env_remove(format!("AZURE_STORAGE_{name}"));
    }
    command
        .env_remove("AWS_ENDPOINT_URL")
        .env("AWS_SHARED_CREDENTIALS_FILE", folder.path().join("credentials"))
        .env("AWS_CONFIG_FILE", folder.path().join("config"))
        .env("WEIGHBRIDGE_CACHE", folder.path().join("cache"));
    command
}

fn ran(command: &mut Command) -> Ran {
    command.output().expect("the program starts").into()
}

/// The sample in two shards with an index, in a folder of a bucket; `folder` ends with a slash.
fn in_shards(folder: &str) -> RepositoryFiles {
    let made = tempfile::tempdir().expect("a folder");
    let to = made.path().join("shards");
    let to = to.to_str().expect("a path in UTF-8");
    let words = ["convert", SAMPLE, to, "--to", "safetensors", "--max-shard-size", "1M"];
    let converted = support::run(&words);
    assert_eq!(converted.status, Some(0), "{}", converted.err);
    let files = contents(to.as_ref()).into_iter();
    files.map(|(name, bytes)| (format!("{folder}{name}"), bytes)).collect()
}

/// The names of a bucket's top, of a folder, and of the index in either.
#[test]
fn folders_and_indexes() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = ran(&mut command(&folder, &["hash", SAMPLE])).out;
    let hashed = |place: &str, names: &[&str]| {
        let store = hub::bucket(in_shards(place), None);
        for name in names {
            store.reset();
            let mut hash = command(&folder, &["hash", name]);
            let hash = ran(hash.env("AWS_ENDPOINT_URL", &store.address));
            assert_eq!((hash.status, &hash.out), (Some(0), &local), "{name}: {}", hash.err);
            // Each page of the list of files is asked for once.
            let requests = store.requests();
            let mut pages: Vec<&str> = requests.iter().map(|request| &*request.path).collect();
            pages.retain(|path| path.contains("list-type"));
            let count = pages.len();
            pages.sort_unstable();
            pages.dedup();
            assert!(count == pages.len() && count > 1, "{name}: {count} of {pages:?}");
            let mut inspect = command(&folder, &["inspect", name, "--json"]);
            let inspect = ran(inspect.env("AWS_ENDPOINT_URL", &store.address));
            let json: serde_json::Value = serde_json::from_str(&inspect.out).expect("JSON");
            let path = format!("s3://models/{place}");
            assert_eq!(json["path"], path.trim_end_matches('/'), "{name}");
        }
    };
    let index = "model.safetensors.index.json";
    hashed("", &["s3://models", "s3://models/", &format!("s3://models/{index}")]);
    hashed("a/b/", &["s3://models/a/b", "s3://models/a/b/", &format!("s3://models/a/b/{index}")]);
}

#[test]
fn names_that_would_change_the_address_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |name: &str, key: &str, value: &str| {
        let ran = ran(command(&folder, &["hash", name]).env(key, value));
        format!("{} {}", ran.status.unwrap_or(-1), ran.err)
    };
    let all = [
        said("s3://models/x.gguf", "AWS_REGION", "example.org/eu"),
        said("s3://models/x.gguf", "AWS_DEFAULT_REGION", "eu west"),
        said("az://models/x.gguf", "AZURE_STORAGE_ACCOUNT", "example.org/x"),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    2 error: s3://models/x.gguf: "example.org/eu" is no region of AWS
    2 error: s3://models/x.gguf: "eu west" is no region of AWS
    2 error: az://models/x.gguf: AZURE_STORAGE_ACCOUNT is not the name of an account
    "#);
}

/// The hosts of each provider's buckets, by the connections that are asked of a proxy. A
/// certificate for `*.s3.amazonaws.com` does not cover a bucket with a dot in its name, so that one
/// is in the path.
#[test]
fn hosts_of_buckets() {
    let proxy = Server::start(|_| Answer::status(403));
    let folder = tempfile::tempdir().expect("a folder");
    let asked = |name: &str| {
        proxy.reset();
        let mut command = command(&folder, &["hash", name]);
        command.env("AWS_REGION", "eu-central-1").env("AZURE_STORAGE_ACCOUNT", "tales");
        command.env_remove("STORAGE_EMULATOR_HOST").env("HTTPS_PROXY", &proxy.address);
        let ran = ran(&mut command);
        assert_eq!(ran.status, Some(5), "{}", ran.err);
        let requests = proxy.requests();
        let first = requests.first().unwrap_or_else(|| panic!("{name}: {}", ran.err));
        format!("{} {}", first.method, first.path)
    };
    let cases = [
        ("s3://models/x.gguf", "models.s3.eu-central-1.amazonaws.com:443"),
        ("s3://my.models/x.gguf", "s3.eu-central-1.amazonaws.com:443"),
        ("gs://models/x.gguf", "storage.googleapis.com:443"),
        ("az://models/x.gguf", "tales.blob.core.windows.net:443"),
    ];
    for (name, host) in cases {
        assert_eq!(asked(name), format!("CONNECT {host}"), "{name}");
    }
}

/// The token of the hub's client is not used if its variable says so.
#[test]
fn tokens_that_are_not_to_be_used() {
    let files: RepositoryFiles = contents(&root().join(SAMPLE)).into_iter().collect();
    let hub = hub::Hub::start("org/tale", files);
    let folder = tempfile::tempdir().expect("a folder");
    let asked = |disabled: &str| {
        hub.reset();
        let mut command = command(&folder, &["hash", "hf://org/tale"]);
        command.env("HF_ENDPOINT", &hub.hub.address).env("HF_TOKEN", "hf_secret");
        command.env("HF_HUB_DISABLE_IMPLICIT_TOKEN", disabled);
        let ran = ran(&mut command);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let requests = hub.hub.requests();
        assert!(!requests.is_empty());
        requests.iter().any(|request| request.authorization.is_some())
    };
    assert_eq!(["", "0", "no"].map(asked), [true; 3]);
    assert_eq!(["1", "true", "YES", "on"].map(asked), [false; 4]);
}
