//! Writing to Amazon S3 and stores like it: objects, and uploads whose parts may come from many
//! processes.
//!
//! The requests are those of the "Amazon S3 API Reference": `PutObject`, `DeleteObject`,
//! `CreateMultipartUpload`, `UploadPart`, `ListParts`, `CompleteMultipartUpload`,
//! `AbortMultipartUpload`.

use std::io::Read;
use std::path::Path;

use super::Network;
use super::address::strictly_escaped;
use super::bucket::{self, elements, plain_text};
use super::client::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;

/// The largest number of a part.
const MOST_PARTS: u64 = 10_000;

/// A bucket to which objects are written. Their names begin with `s3://` and the bucket.
#[derive(Debug)]
pub(crate) struct Bucket(bucket::Bucket);

/// A part of an upload that the store has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UploadedPart {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// The store's identifier of its content.
    pub(crate) tag: String,
    pub(crate) bytes: u64,
}

impl Bucket {
    /// The bucket of an object.
    ///
    /// # Errors
    ///
    /// `Unsupported` for stores other than Amazon S3 and those like it; `Mismatch` for a name without a
    /// key.
    pub(crate) fn of(path: &Path, network: Option<&Network>) -> Result<Self> {
        let name = path.to_str().unwrap_or_default();
        if !name.starts_with("s3://") {
            return Err(unsupported().in_file(path));
        }
        let network = network.cloned().unwrap_or_else(Network::from_env);
        let opened = bucket::find(name, &network).and_then(|(bucket, key)| match key {
            "" => Err(Error::mismatch("a bucket, not a name in it")),
            _ => Ok(Self(bucket)),
        });
        opened.map_err(|error| error.in_file(path))
    }

    fn address(&self, path: &Path) -> Result<String> {
        let key = self.0.key(path).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| Error::mismatch("not in the bucket").in_file(path))?;
        Ok(self.0.address(key))
    }

    /// Sends a request about an object. Gives an answer of any status.
    fn send(
        &self,
        method: &'static str,
        path: &Path,
        query: &str,
        body: Option<&[u8]>,
    ) -> Result<Answer> {
        let address = format!("{}{query}", self.address(path)?);
        let client = &self.0.files.client;
        let answer = match method {
            "GET" => client.get(&address, None),
            _ => client.send(method, &address, body),
        };
        answer.map_err(|error| error.in_file(path))
    }

    /// The length of an object; `None` if there is none.
    pub(crate) fn length(&self, path: &Path) -> Result<Option<u64>> {
        Ok(self.identity(path)?.map(|(length, _)| length))
    }

    /// The length of an object, and its ETag if the store gives one; `None` if there is no object.
    pub(crate) fn identity(&self, path: &Path) -> Result<Option<(u64, Option<String>)>> {
        let answer = self.0.files.client.get(&self.address(path)?, Some(&(0..1)));
        let mut answer = answer.map_err(|error| error.in_file(path))?;
        let range = answer.header("content-range").and_then(|text| text.rsplit_once('/'));
        let found = match answer.status {
            404 => return Ok(None),
            206 => range.and_then(|(_, size)| size.parse().ok()),
            // Of an empty object, no range can be sent.
            416 => Some(0),
            200 => answer.number("content-length"),
            _ => None,
        };
        let tag = answer.header("etag").map(str::to_owned);
        match found {
            Some(length) => Ok(Some((length, tag))),
            None => Err(unexpected(&mut answer, path)),
        }
    }

    /// The content of a small object; `None` if there is none.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let mut answer = self.send("GET", path, "", None)?;
        match answer.status {
            404 => Ok(None),
            200 => body(&mut answer, path).map(Some),
            _ => Err(unexpected(&mut answer, path)),
        }
    }

    /// Writes a small object.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let mut answer = self.send("PUT", path, "", Some(bytes))?;
        if answer.status == 200 { Ok(()) } else { Err(unexpected(&mut answer, path)) }
    }

    /// Writes a small object unless there is one of that name, and gives whether it did. Stores that do
    /// not know the condition replace the object.
    pub(crate) fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<bool> {
        let client = &self.0.files.client;
        let answer = client.send_new(&self.address(path)?, bytes);
        let mut answer = answer.map_err(|error| error.in_file(path))?;
        match answer.status {
            200 => Ok(true),
            // 409: another such request is being answered.
            409 | 412 => Ok(false),
            _ => Err(unexpected(&mut answer, path)),
        }
    }

    /// Deletes an object, if there is one.
    pub(crate) fn delete(&self, path: &Path) -> Result<()> {
        let mut answer = self.send("DELETE", path, "", None)?;
        match answer.status {
            200 | 204 | 404 => Ok(()),
            _ => Err(unexpected(&mut answer, path)),
        }
    }

    /// The names of the objects directly in a folder.
    pub(crate) fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let key = self.0.key(folder).unwrap_or_default();
        self.0.list(key).map_err(|error| error.in_file(folder))
    }

    /// Begins an upload in parts, and gives its name.
    pub(crate) fn begin(&self, path: &Path) -> Result<String> {
        let mut answer = self.send("POST", path, "?uploads=", Some(b""))?;
        if answer.status != 200 {
            return Err(unexpected(&mut answer, path));
        }
        let text = text(&mut answer, path)?;
        let upload = elements(&text, "UploadId").first().map(|name| plain_text(name));
        upload.filter(|upload| !upload.is_empty()).ok_or_else(|| {
            Error::new(ErrorKind::Io, "the store begins no upload in parts").in_file(path)
        })
    }

    /// Ends an upload and deletes its parts. An upload that was completed or aborted stays as it is.
    pub(crate) fn abort(&self, path: &Path, upload: &str) -> Result<()> {
        let query = format!("?uploadId={}", strictly_escaped(upload, b""));
        let mut answer = self.send("DELETE", path, &query, None)?;
        match answer.status {
            200 | 204 | 404 => Ok(()),
            _ => Err(unexpected(&mut answer, path)),
        }
    }

    /// Writes a part of an upload, and gives its tag. A part of the same number is replaced.
    pub(crate) fn put_part(
        &self,
        path: &Path,
        upload: &str,
        number: u64,
        bytes: &[u8],
    ) -> Result<String> {
        let query = format!("?partNumber={number}&uploadId={}", strictly_escaped(upload, b""));
        let mut answer = self.send("PUT", path, &query, Some(bytes))?;
        let tag = answer.header("etag").map(str::to_owned);
        match (answer.status, tag) {
            (200, Some(tag)) => Ok(tag),
            (404, _) => Err(ended(path)),
            _ => Err(unexpected(&mut answer, path)),
        }
    }

    /// The parts that the store has of an upload; `None` if the upload is completed or was aborted.
    pub(crate) fn parts(&self, path: &Path, upload: &str) -> Result<Option<Vec<UploadedPart>>> {
        let mut found: Vec<UploadedPart> = Vec::new();
        loop {
            // In the order of their names, in which they are signed.
            let after = found.last().map_or(0, |part| part.number);
            let query =
                format!("?part-number-marker={after}&uploadId={}", strictly_escaped(upload, b""));
            let mut answer = self.send("GET", path, &query, None)?;
            match answer.status {
                200 => {}
                404 => return Ok(None),
                _ => return Err(unexpected(&mut answer, path)),
            }
            let text = text(&mut answer, path)?;
            let parts = elements(&text, "Part");
            let more = elements(&text, "IsTruncated").first() == Some(&"true");
            let before = found.len();
            for part in parts {
                let field = |name| elements(part, name).first().map(|text| plain_text(text));
                let part = || {
                    Some(UploadedPart {
                        number: field("PartNumber")?.parse().ok()?,
                        tag: field("ETag")?,
                        bytes: field("Size")?.parse().ok()?,
                    })
                };
                let fault = "the store's list of parts cannot be read";
                let last = found.last().map_or(0, |part| part.number);
                let part = part().filter(|part| (last + 1..=MOST_PARTS).contains(&part.number));
                found.push(part.ok_or_else(|| Error::new(ErrorKind::Io, fault).in_file(path))?);
            }
            if !more || found.len() == before {
                return Ok(Some(found));
            }
        }
    }

    /// Joins the parts of an upload to the object. Gives `false` if the upload is completed already or
    /// was aborted.
    pub(crate) fn complete(
        &self,
        path: &Path,
        upload: &str,
        parts: &[UploadedPart],
    ) -> Result<bool> {
        let parts = parts.iter().map(|part| {
            let tag = part.tag.replace('&', "&amp;").replace('<', "&lt;");
            format!("<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", part.number)
        });
        let xml: String = parts.collect();
        let xml = format!("<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>");
        let query = format!("?uploadId={}", strictly_escaped(upload, b""));
        let mut answer = self.send("POST", path, &query, Some(xml.as_bytes()))?;
        match answer.status {
            200 => {}
            404 => return Ok(false),
            _ => return Err(unexpected(&mut answer, path)),
        }
        // Joining takes time: the status comes before the store knows how it ends.
        let text = text(&mut answer, path)?;
        match text.contains("<CompleteMultipartUploadResult") {
            true => Ok(true),
            false => {
                let fault = format!("the store does not join the parts{}", code(&text));
                Err(Error::new(ErrorKind::Io, fault).advise("try again").in_file(path))
            }
        }
    }
}

fn unsupported() -> Error {
    Error::unsupported("only Amazon S3 and stores like it can be written to")
        .advise("write to a file system, and copy the files to the store")
}

/// The error for an upload that nobody can add to.
fn ended(path: &Path) -> Error {
    let fault = "the store has no such upload: it was completed, or aborted";
    Error::not_found(fault).advise("make the plan again").in_file(path)
}

/// The error for an answer that is none of those expected.
fn unexpected(answer: &mut Answer, path: &Path) -> Error {
    let code = text(answer, path).map_or_else(|_| String::new(), |text| code(&text));
    let error = match answer.status {
        401 | 403 => Error::new(ErrorKind::Io, format!("the store refuses access{code}"))
            .advise("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
        404 => Error::not_found(format!("the store has no such bucket or object{code}")),
        status => Error::new(ErrorKind::Io, format!("the store answered {status}{code}")),
    };
    error.in_file(path)
}

/// The store's own name of an error, after a colon.
fn code(xml: &str) -> String {
    elements(xml, "Code").first().map_or_else(String::new, |code| {
        format!(": {}", crate::bytes::Text::new(code.as_bytes()).brief())
    })
}

/// The body of an answer, of limited length.
fn body(answer: &mut Answer, path: &Path) -> Result<Vec<u8>> {
    let most = Limits::default().document_bytes;
    let mut bytes = Vec::new();
    let read = answer.reader().take(most.saturating_add(1)).read_to_end(&mut bytes);
    let failed = |error| Error::io("cannot read the store's answer", error).in_file(path);
    read.map_err(failed)?;
    if bytes.len() as u64 > most {
        let fault = format!("the store's answer is longer than the {most} bytes allowed");
        return Err(Error::new(ErrorKind::Io, fault).in_file(path));
    }
    Ok(bytes)
}

fn text(answer: &mut Answer, path: &Path) -> Result<String> {
    body(answer, path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
