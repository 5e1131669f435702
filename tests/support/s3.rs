//! A store like Amazon S3 for tests, on the loopback, that can be written to: objects, and uploads in
//! parts. It has one bucket, `models`, and refuses what Amazon's documentation says it refuses.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::hub::{is_signed, sha256};
use crate::server::{Answer, Request, Server};

/// The keys of the store: the examples of its documentation.
pub(crate) const KEYS: (&str, &str) =
    ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");

/// The least bytes of a part but the last.
const LEAST: usize = 5 << 20;

/// The parts of an upload: tags and bytes by number.
pub(crate) type Parts = BTreeMap<u64, (String, Vec<u8>)>;

/// The contents of the store.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// The key and the parts of each upload that is not completed.
    pub(crate) uploads: BTreeMap<String, (String, Parts)>,
    begun: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectStore {
    pub(crate) server: Server,
    contents: Arc<Mutex<Contents>>,
}

impl ObjectStore {
    pub(crate) fn start() -> Self {
        Self::failing(|_| None)
    }

    /// A store that gives other answers to some requests, without looking at what it holds.
    pub(crate) fn failing(
        other: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let contents: Arc<Mutex<Contents>> = Arc::default();
        let held = Arc::clone(&contents);
        let server = Server::start(move |request| {
            if !is_signed(request, KEYS.0, KEYS.1) {
                return refusal(403, "SignatureDoesNotMatch");
            }
            other(request).unwrap_or_else(|| {
                held.lock().unwrap_or_else(PoisonError::into_inner).answer(request)
            })
        });
        Self { server, contents }
    }

    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code></Error>").into_bytes();
    Answer { body, ..Answer::status(status) }
}

/// The text of an address without escapes.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("digits");
                out.push(u8::from_str_radix(digits, 16).expect("an escape"));
                rest = after;
            }
            _ => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

impl Contents {
    fn answer(&mut self, request: &Request) -> Answer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let Some(key) = path.strip_prefix("/models/").map(unescaped) else {
            return refusal(404, "NoSuchBucket");
        };
        let field = |name: &str| {
            let fields = query.split('&').map(|field| field.split_once('=').unwrap_or((field, "")));
            fields.into_iter().find(|(own, _)| *own == name).map(|(_, value)| unescaped(value))
        };
        let upload = field("uploadId");
        match (request.method.as_str(), upload) {
            ("POST", None) if field("uploads").is_some() => {
                self.begun += 1;
                // Characters that have a meaning in addresses.
                let name = format!("upload/{}+a==", self.begun);
                self.uploads.insert(name.clone(), (key, Parts::new()));
                let xml = format!("<Result><UploadId>{name}</UploadId></Result>");
                Answer::whole(xml.as_bytes())
            }
            ("PUT", Some(upload)) => {
                let number = field("partNumber").and_then(|number| number.parse().ok());
                let number: u64 =
                    number.filter(|number| (1..=10_000).contains(number)).expect("it");
                match self.uploads.get_mut(&upload) {
                    Some((own, parts)) if *own == key => {
                        let tag = format!("\"{}\"", &sha256(&request.body)[..32]);
                        parts.insert(number, (tag.clone(), request.body.clone()));
                        Answer::status(200).header("ETag", tag)
                    }
                    _ => refusal(404, "NoSuchUpload"),
                }
            }
            ("GET", Some(upload)) => {
                let after: u64 =
                    field("part-number-marker").and_then(|text| text.parse().ok()).unwrap_or(0);
                let Some((_, parts)) = self.uploads.get(&upload) else {
                    return refusal(404, "NoSuchUpload");
                };
                // Two at a time.
                let rest: Vec<_> = parts.range(after + 1..).collect();
                let parts = rest.iter().take(2).map(|(number, (tag, bytes))| {
                    // Stores escape quotation marks in two ways.
                    let mark = if **number % 2 == 0 { "&quot;" } else { "&#34;" };
                    let (tag, len) = (tag.replace('"', mark), bytes.len());
                    format!(
                        "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>\
                         <Size>{len}</Size></Part>"
                    )
                });
                let parts: String = parts.collect();
                let more = rest.len() > 2;
                let xml = format!("<R><IsTruncated>{more}</IsTruncated>{parts}</R>");
                Answer::whole(xml.as_bytes())
            }
            ("POST", Some(upload)) => self.join(&upload, &request.body),
            ("PUT", None) => {
                let is_new = request.header("if-none-match") == "*";
                if is_new && self.objects.contains_key(&key) {
                    return refusal(412, "PreconditionFailed");
                }
                self.objects.insert(key, request.body.clone());
                Answer::status(200).header("ETag", "\"one\"")
            }
            ("DELETE", Some(upload)) => match self.uploads.remove(&upload) {
                Some(_) => Answer::status(204),
                None => refusal(404, "NoSuchUpload"),
            },
            ("DELETE", None) => {
                self.objects.remove(&key);
                Answer::status(204)
            }
            ("GET", None) if field("list-type").is_some() => {
                let prefix = field("prefix").unwrap_or_default();
                let own = |key: &&String| {
                    key.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'))
                };
                let keys = self.objects.keys().filter(own);
                let keys: String =
                    keys.map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
                Answer::whole(format!("<ListBucketResult>{keys}</ListBucketResult>").as_bytes())
            }
            ("GET", None) => match self.objects.get(&key) {
                Some(bytes) => {
                    let tag = format!("\"{}\"", &sha256(bytes)[..32]);
                    Answer::file(request, bytes).header("ETag", tag)
                }
                None => refusal(404, "NoSuchKey"),
            },
            _ => refusal(405, "MethodNotAllowed"),
        }
    }

    /// Joins the parts of an upload, those that are listed.
    fn join(&mut self, upload: &str, body: &[u8]) -> Answer {
        let Some((key, parts)) = self.uploads.get(upload) else {
            return refusal(404, "NoSuchUpload");
        };
        let text = String::from_utf8_lossy(body);
        let listed: Vec<&str> = text.split("<Part>").skip(1).collect();
        let mut whole = Vec::new();
        for (place, part) in listed.iter().enumerate() {
            let field = |name: &str| {
                let rest = part.split_once(&format!("<{name}>")).expect("a field").1;
                rest.split('<').next().expect("its text").to_owned()
            };
            let number: u64 = field("PartNumber").parse().expect("a number");
            match parts.get(&number) {
                Some((tag, bytes)) if *tag == field("ETag") => {
                    if bytes.len() < LEAST && place + 1 < listed.len() {
                        return refusal(400, "EntityTooSmall");
                    }
                    whole.extend_from_slice(bytes);
                }
                _ => return refusal(400, "InvalidPart"),
            }
        }
        let key = key.clone();
        self.uploads.remove(upload);
        self.objects.insert(key, whole);
        Answer::whole(b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
    }
}
