//! Object stores: `s3://bucket/key`, `gs://bucket/key`, `az://container/blob`. A key may be that of a
//! file, of an index, or of a folder.
//!
//! Keys are found where the providers' own programs look for them: in the environment, and for Amazon
//! S3 in the files of its profiles. Without any, requests are not signed, as public stores allow.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::RemoteModel;
use super::address::{strictly_escaped, unescaped};
use super::client::{Client, refused};
use super::file::RemoteFiles;
use super::sign::Proof;
use crate::bytes::{Access, FileSystem, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;

/// One bucket of a store, or one container of Azure.
pub(super) struct Bucket {
    pub(super) files: RemoteFiles,
    pub(super) kind: Kind,
    /// The path that stands for the bucket: `s3://bucket`.
    root: PathBuf,
    /// The address of the bucket, without a slash at its end.
    address: String,
    /// The suffix of addresses: the signature of Azure's shared access.
    query: String,
    /// Folders that were listed.
    listed: Mutex<HashMap<PathBuf, Vec<String>>>,
}

/// The addresses are left out, since they may contain a signature.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("root", &self.root).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    S3,
    Google,
    Azure,
}

/// Finds the model that a name means. A name of an index means its folder.
pub(super) fn locate(name: &str, network: &super::Network) -> Result<RemoteModel> {
    let (bucket, key) = find(name, network)?;
    let folder = match key.rsplit_once('/') {
        Some((folder, file)) if file.ends_with(".safetensors.index.json") => folder,
        None if key.ends_with(".safetensors.index.json") => "",
        _ => key,
    };
    let root = bucket.root.clone();
    let path = if folder.is_empty() { root } else { root.join(folder) };
    Ok(RemoteModel { path, files: Arc::new(bucket) })
}

/// The bucket of a name, and the key in it.
pub(super) fn find<'n>(name: &'n str, network: &super::Network) -> Result<(Bucket, &'n str)> {
    let (scheme, rest) = name.split_once("://").unwrap_or((name, ""));
    let kind = match scheme {
        "gs" => Kind::Google,
        "az" => Kind::Azure,
        _ => Kind::S3,
    };
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = !bucket.is_empty()
        && bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let key = key.trim_end_matches('/');
    if !is_name || key.split('/').any(|step| matches!(step, "." | "..")) {
        return Err(Error::mismatch("not a name of an object store")
            .advise("write s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/BLOB"));
    }
    let place = match kind {
        Kind::S3 => s3(bucket)?,
        Kind::Google => google(bucket),
        Kind::Azure => azure(bucket)?,
    };
    let client = Arc::new(Client::signing(
        network.clone(),
        place.proof.map(|proof| (place.address.clone(), proof)),
    ));
    let root = PathBuf::from(format!("{scheme}://{bucket}"));
    let found = Bucket {
        files: RemoteFiles::new(&client),
        kind,
        root,
        address: place.address,
        query: place.query,
        listed: Mutex::default(),
    };
    Ok((found, key))
}

/// The address of a bucket, and the signature of requests to it.
struct Located {
    address: String,
    query: String,
    proof: Option<Proof>,
}

/// The first of these variables of the environment that is set.
fn variable(names: &[&str]) -> Option<String> {
    let set = |name: &&str| std::env::var(name).ok().map(|text| text.trim().to_owned());
    names.iter().filter_map(set).find(|text| !text.is_empty())
}

fn s3(bucket: &str) -> Result<Located> {
    let profile = variable(&["AWS_PROFILE"]).unwrap_or_else(|| "default".to_owned());
    let files = Profiles::read();
    let own = |key: &str| files.get(&profile, key);
    let set = |variables: &[&str], key: &str| variable(variables).or_else(|| own(key));
    // Keys of the environment belong together, as those of a profile do.
    let keys = match variable(&["AWS_ACCESS_KEY_ID"]) {
        Some(id) => variable(&["AWS_SECRET_ACCESS_KEY"])
            .map(|secret| (id, secret, variable(&["AWS_SESSION_TOKEN"]))),
        None => own("aws_access_key_id")
            .zip(own("aws_secret_access_key"))
            .map(|(id, secret)| (id, secret, own("aws_session_token"))),
    };
    let region = set(&["AWS_REGION", "AWS_DEFAULT_REGION"], "region");
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let is_word =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_word(&region) {
        return Err(Error::mismatch(format!("\"{region}\" is no region of AWS")));
    }
    let endpoint = set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"], "endpoint_url");
    let address = match endpoint {
        // Stores like S3 have the bucket in the path.
        Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
        None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
    };
    let proof = keys.map(|(id, secret, session)| Proof::Aws { id, secret, session, region });
    Ok(Located { address, query: String::new(), proof })
}

fn google(bucket: &str) -> Located {
    let host = variable(&["STORAGE_EMULATOR_HOST"]);
    let host = host.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let token = variable(&["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"]);
    Located {
        address: format!("{}/{bucket}", host.trim_end_matches('/')),
        query: String::new(),
        proof: token.map(Proof::Bearer),
    }
}

fn azure(container: &str) -> Result<Located> {
    let account = variable(&["AZURE_STORAGE_ACCOUNT"]).ok_or_else(|| {
        Error::mismatch("the storage account of Azure is unknown")
            .advise("set AZURE_STORAGE_ACCOUNT")
    })?;
    let is_word = account.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_word {
        return Err(Error::mismatch("AZURE_STORAGE_ACCOUNT is not the name of an account"));
    }
    let endpoint = variable(&["AZURE_STORAGE_SERVICE_ENDPOINT"]);
    let endpoint = endpoint.unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
    let shared = variable(&["AZURE_STORAGE_SAS_TOKEN"]);
    let proof = match variable(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY"]) {
        Some(key) if shared.is_none() => {
            let key = BASE64
                .decode(key)
                .map_err(|_| Error::mismatch("AZURE_STORAGE_KEY is not the base64 of a key"))?;
            Some(Proof::Azure { account, key })
        }
        _ => None,
    };
    Ok(Located {
        address: format!("{}/{container}", endpoint.trim_end_matches('/')),
        query: shared.map_or(String::new(), |token| token.trim_start_matches('?').to_owned()),
        proof,
    })
}

/// The profiles of the AWS programs: `~/.aws/credentials` and `~/.aws/config`.
struct Profiles(Vec<(String, String, String)>);

impl Profiles {
    fn read() -> Self {
        let place = |name: &str, file: &str| {
            let set = variable(&[name]).map(PathBuf::from);
            set.or_else(|| Some(std::env::home_dir()?.join(".aws").join(file)))
        };
        let files = [
            place("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            place("AWS_CONFIG_FILE", "config"),
        ];
        let text = |path: PathBuf| {
            let source = Source::open(&path, Access::Read).ok()?;
            let bytes = source.bytes(0..source.len().min(1 << 20)).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let texts = files.into_iter().flatten().filter_map(text);
        Self(texts.flat_map(|text| Self::parse(&text)).collect())
    }

    /// Profile, key and value of each line. In the config, sections begin with `profile`.
    fn parse(text: &str) -> Vec<(String, String, String)> {
        let (mut profile, mut found) = (String::new(), Vec::new());
        for line in text.lines() {
            let trimmed = line.trim();
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                name.trim()
                    .strip_prefix("profile ")
                    .unwrap_or(name)
                    .trim()
                    .clone_into(&mut profile);
            } else if let Some((key, value)) = trimmed.split_once('=')
                // Nested settings are indented, and comments begin with a number sign.
                && !line.starts_with([' ', '\t', '#', ';'])
            {
                let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
                found.push((profile.clone(), key, value));
            }
        }
        found
    }

    fn get(&self, profile: &str, key: &str) -> Option<String> {
        let found =
            self.0.iter().find(|(p, k, value)| p == profile && k == key && !value.is_empty());
        found.map(|(.., value)| value.clone())
    }
}

impl Bucket {
    /// The key of a file or folder; `None` for the bucket itself.
    pub(super) fn key<'p>(&self, path: &'p Path) -> Option<&'p str> {
        path.to_str()?.strip_prefix(self.root.to_str()?)?.strip_prefix('/')
    }

    pub(super) fn address(&self, key: &str) -> String {
        let start = format!("{}/{}", self.address, strictly_escaped(key, b"/"));
        if self.query.is_empty() { start } else { format!("{start}?{}", self.query) }
    }

    /// The names of the files directly in a folder.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (mut names, mut next) = (Vec::new(), None::<String>);
        // An answer lists at most a thousand names.
        for _ in 0..64 {
            let text = self.page(&prefix, next.as_deref())?;
            let name = if self.kind == Kind::Azure { "Name" } else { "Key" };
            let found = elements(&text, name).into_iter().filter_map(|key| {
                // Azure's text is escaped for XML; the others' keys are escaped for addresses.
                let key = match self.kind {
                    Kind::Azure => plain_text(key),
                    _ => unescaped(&key.replace('+', " ")),
                };
                let name = key.strip_prefix(&prefix)?.to_owned();
                (!name.is_empty() && !name.contains('/')).then_some(name)
            });
            names.extend(found);
            let mark =
                if self.kind == Kind::Azure { "NextMarker" } else { "NextContinuationToken" };
            next = elements(&text, mark)
                .first()
                .map(|mark| plain_text(mark))
                .filter(|mark| !mark.is_empty());
            if next.is_none() {
                return Ok(names);
            }
        }
        Err(Error::unsupported("a folder with more than 64 pages of names"))
    }

    /// One answer of a listing.
    fn page(&self, prefix: &str, next: Option<&str>) -> Result<String> {
        let escaped = |text: &str| strictly_escaped(text, b"");
        // In the order of their names, which S3 signs them in.
        let (before, mark) = match self.kind {
            Kind::Azure => ("comp=list&restype=container&delimiter=%2F", "marker"),
            _ => ("delimiter=%2F&encoding-type=url&list-type=2", "continuation-token"),
        };
        let mut address = format!("{}?{before}&prefix={}", self.address, escaped(prefix));
        if self.kind != Kind::Azure {
            address = address.replacen('?', "/?", 1);
        }
        if let Some(next) = next {
            address.push_str(&format!("&{mark}={}", escaped(next)));
        }
        if !self.query.is_empty() {
            address.push_str(&format!("&{}", self.query));
        }
        let mut answer = self.files.client.get(&address, None)?;
        if answer.status != 200 {
            return Err(explained(refused(&answer), self.kind));
        }
        let most = Limits::default().document_bytes;
        let mut text = String::new();
        let read = answer.reader().take(most).read_to_string(&mut text);
        read.map_err(|error| Error::io("cannot read the store's list of files", error))?;
        Ok(text)
    }
}

/// The texts of all elements of this name.
pub(super) fn elements<'x>(xml: &'x str, name: &str) -> Vec<&'x str> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(start.as_str()).skip(1).filter_map(|rest| rest.split(end.as_str()).next()).collect()
}

/// The text that XML stands for.
pub(super) fn plain_text(xml: &str) -> String {
    xml.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        // As Go writes them, in which several stores are written.
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// An error with advice for a store that refuses access.
fn explained(error: Error, kind: Kind) -> Error {
    if !error.to_string().contains("refuses access") {
        return error;
    }
    Error::new(ErrorKind::Io, "the store refuses access").advise(match kind {
        Kind::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        Kind::Google => {
            "set GOOGLE_OAUTH_ACCESS_TOKEN to what `gcloud auth print-access-token` prints"
        }
        Kind::Azure => "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN",
    })
}

impl FileSystem for Bucket {
    fn open(&self, path: &Path) -> Result<Source> {
        let key = self.key(path).filter(|key| !key.is_empty());
        let Some(key) = key else {
            return Err(Error::not_found("a bucket, not a file").in_file(path));
        };
        let opened = self.files.open(&self.address(key), path, None);
        opened.map_err(|error| explained(error, self.kind).in_file(path))
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let listed = || self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = listed().get(folder) {
            return Ok(names.clone());
        }
        let key = self.key(folder).unwrap_or_default();
        let names = self.list(key).map_err(|error| error.in_file(folder))?;
        if names.is_empty() {
            return Err(Error::not_found("no such folder in the store").in_file(folder));
        }
        listed().insert(folder.to_path_buf(), names.clone());
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.parent().and_then(|folder| listed.get(folder)) {
            Some(names) => names.iter().any(|other| other == name),
            None => {
                drop(listed);
                self.open(path).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let text = "# a comment\n[default]\nregion = eu-central-1\n\n[profile work]\n\
                    aws_access_key_id=A\naws_secret_access_key = B=\ns3 =\n  endpoint_url = x\n";
        let profiles = Profiles(Profiles::parse(text));
        assert_eq!(profiles.get("default", "region").as_deref(), Some("eu-central-1"));
        assert_eq!(profiles.get("work", "aws_secret_access_key").as_deref(), Some("B="));
        assert_eq!(profiles.get("work", "endpoint_url"), None);
        assert_eq!(profiles.get("work", "region"), None);
    }

    #[test]
    fn lists_of_files() {
        let xml =
            "<R><Contents><Key>a%2Fb</Key></Contents><Contents><Key>c&amp;lt;</Key></Contents></R>";
        assert_eq!(elements(xml, "Key"), ["a%2Fb", "c&amp;lt;"]);
        assert_eq!(plain_text("c&amp;lt;"), "c&lt;");
        assert!(elements(xml, "Name").is_empty());
    }
}
