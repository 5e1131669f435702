//! Signatures of requests to object stores: AWS Signature Version 4, and Azure's Shared Key.
//!
//! Written from the providers' documentation: "Authenticating Requests (AWS Signature Version 4)" of
//! Amazon S3, and "Authorize with Shared Key" of Azure Storage.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::address::{origin, unescaped};
use crate::digest::{hex, hmac_sha256, sha256_of};
use crate::error::Result;

/// A proof of identity to a store.
#[derive(Clone)]
pub(super) enum Proof {
    /// A pair of keys for Amazon S3 and stores like it.
    Aws { id: String, secret: String, session: Option<String>, region: String },
    /// The key of an Azure account.
    Azure { account: String, key: Vec<u8> },
    /// A token of OAuth.
    Bearer(String),
}

/// The secrets are left out.
impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws { .. } => "Aws",
            Self::Azure { .. } => "Azure",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// The version of Azure's protocol.
const AZURE_VERSION: &str = "2021-12-02";

impl Proof {
    /// The headers that prove a request. Azure's are those of a request without a body.
    pub(super) fn headers(
        &self,
        request: &Unproved<'_>,
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>> {
        let time = Time::of(now);
        match self {
            Self::Bearer(token) => Ok(vec![("Authorization", format!("Bearer {token}"))]),
            Self::Aws { id, secret, session, region } => {
                let keys = AwsKeys { id, secret, region, session: session.as_deref() };
                keys.headers(request, &time)
            }
            Self::Azure { account, key } => {
                azure(account, key, request.address, request.range, &time)
            }
        }
    }
}

/// A request before it is proved.
pub(super) struct Unproved<'r> {
    pub(super) method: &'static str,
    pub(super) address: &'r str,
    /// The header that requests a range.
    pub(super) range: Option<&'r str>,
    pub(super) body: &'r [u8],
}

struct AwsKeys<'k> {
    id: &'k str,
    secret: &'k str,
    session: Option<&'k str>,
    region: &'k str,
}

impl AwsKeys<'_> {
    fn headers(&self, request: &Unproved<'_>, time: &Time) -> Result<Vec<(&'static str, String)>> {
        let (host, path, query) = divided(request.address);
        // The store refuses a body with another digest.
        let body = sha256_of(request.body)?;
        let stamp = time.stamp();
        let date = stamp.get(..8).unwrap_or_default();
        // In the order of their names.
        let signed: Vec<(&str, &str)> = [
            ("host", Some(host)),
            ("range", request.range),
            ("x-amz-content-sha256", Some(&body)),
            ("x-amz-date", Some(&stamp)),
            ("x-amz-security-token", self.session),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let lines: String =
            signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut query: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
        query.sort_unstable();
        let method = request.method;
        let request = format!("{method}\n{path}\n{}\n{lines}\n{names}\n{body}", query.join("&"));
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let text =
            format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256_of(request.as_bytes())?);
        let first = format!("AWS4{}", self.secret).into_bytes();
        let key = [date, self.region, "s3", "aws4_request"]
            .iter()
            .fold(first, |key, word| hmac_sha256(&key, word.as_bytes()));
        let signature = hex(&hmac_sha256(&key, text.as_bytes()));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            self.id
        );
        let session = self.session.map(|token| ("x-amz-security-token", token.to_owned()));
        Ok([
            ("x-amz-content-sha256", body),
            ("x-amz-date", stamp.clone()),
            ("Authorization", authorization),
        ]
        .into_iter()
        .chain(session)
        .collect())
    }
}

fn azure(
    account: &str,
    key: &[u8],
    address: &str,
    range: Option<&str>,
    time: &Time,
) -> Result<Vec<(&'static str, String)>> {
    let (_, path, query) = divided(address);
    let date = time.date();
    let range = range.unwrap_or_default();
    let mut query: Vec<(String, String)> = query
        .split('&')
        .filter_map(|part| part.split_once('='))
        .map(|(name, value)| (name.to_ascii_lowercase(), unescaped(value)))
        .collect();
    query.sort_unstable();
    let query: String = query.iter().map(|(name, value)| format!("\n{name}:{value}")).collect();
    // The empty lines are those of headers that these requests do not have.
    let text = format!(
        "GET\n\n\n\n\n\n\n\n\n\n\n{range}\nx-ms-date:{date}\nx-ms-version:{AZURE_VERSION}\n\
         /{account}{path}{query}"
    );
    let signature = BASE64.encode(hmac_sha256(key, text.as_bytes()));
    Ok(vec![
        ("x-ms-date", date),
        ("x-ms-version", AZURE_VERSION.to_owned()),
        ("Authorization", format!("SharedKey {account}:{signature}")),
    ])
}

/// Host, path and query of an address.
fn divided(address: &str) -> (&str, &str, &str) {
    let start = origin(address);
    let host = start.split_once("://").map_or(start, |(_, host)| host);
    let rest = address.get(start.len()..).unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    (host, path, query)
}

/// A time in UTC.
struct Time {
    days: u64,
    seconds: u64,
}

impl Time {
    fn of(now: SystemTime) -> Self {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        Self { days: since / 86_400, seconds: since % 86_400 }
    }

    /// Year, month and day.
    fn civil(&self) -> (u64, usize, u64) {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let (mut year, mut left) = (1970, self.days);
        while left >= 365 + u64::from(is_leap(year)) {
            left -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let february = 28 + u64::from(is_leap(year));
        let mut month = 0;
        for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if left < len {
                break;
            }
            left -= len;
            month += 1;
        }
        (year, month, left + 1)
    }

    fn clock(&self) -> (u64, u64, u64) {
        (self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60)
    }

    /// `20130524T000000Z`.
    fn stamp(&self) -> String {
        let ((year, month, day), (hour, minute, second)) = (self.civil(), self.clock());
        format!("{year}{:02}{day:02}T{hour:02}{minute:02}{second:02}Z", month + 1)
    }

    /// `Fri, 24 May 2013 00:00:00 GMT`.
    fn date(&self) -> String {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let ((year, month, day), (hour, minute, second)) = (self.civil(), self.clock());
        let name = DAYS.iter().cycle().nth((self.days % 7) as usize).unwrap_or(&"");
        let month = MONTHS.get(month).unwrap_or(&"");
        format!("{name}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn get<'r>(address: &'r str, range: Option<&'r str>) -> Unproved<'r> {
        Unproved { method: "GET", address, range, body: b"" }
    }

    #[test]
    fn times() {
        let cases = [
            (0, "19700101T000000Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_369_353_600, "20130524T000000Z", "Fri, 24 May 2013 00:00:00 GMT"),
            (1_709_210_096, "20240229T123456Z", "Thu, 29 Feb 2024 12:34:56 GMT"),
            (4_107_542_399, "21000228T235959Z", "Sun, 28 Feb 2100 23:59:59 GMT"),
        ];
        for (seconds, stamp, date) in cases {
            let time = Time::of(at(seconds));
            assert_eq!((time.stamp().as_str(), time.date().as_str()), (stamp, date));
        }
    }

    /// The examples of the documentation of Amazon S3, "Signature Calculations for the Authorization
    /// Header".
    #[test]
    fn signatures_of_the_documentation() {
        let proof = Proof::Aws {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session: None,
            region: "us-east-1".to_owned(),
        };
        let signature = |address: &str, range: Option<&str>| {
            let headers = proof.headers(&get(address, range), at(1_369_353_600)).expect("headers");
            let (_, value) =
                headers.into_iter().find(|(name, _)| *name == "Authorization").expect("it");
            value.rsplit('=').next().expect("a signature").to_owned()
        };
        let host = "https://examplebucket.s3.amazonaws.com";
        assert_eq!(
            signature(&format!("{host}/test.txt"), Some("bytes=0-9")),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        assert_eq!(
            signature(&format!("{host}/?prefix=J&max-keys=2"), None),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        assert_eq!(
            signature(&format!("{host}/?lifecycle="), None),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert!(!format!("{proof:?}").contains("wJalr"));
    }

    /// The signatures are those of azure-storage-blob 12.31.
    #[test]
    fn signatures_of_azure_s_library() {
        let key = b"0123456789abcdef0123456789abcdef".to_vec();
        let proof = Proof::Azure { account: "tales".to_owned(), key };
        let host = "https://tales.blob.core.windows.net/models";
        let cases = [
            ("/a%20b.gguf", "JkBbhqOkgQKmx4Mya74E4wUX5FWRYcCpKFTl/iRKRu8="),
            (
                "?comp=list&restype=container&delimiter=%2F&prefix=a%2F",
                "TZOR4hOv7vKiVEZYB/mMvGkeKDVS/ZHSM9/j1AeCjyc=",
            ),
        ];
        for (rest, signature) in cases {
            let address = format!("{host}{rest}");
            let headers = proof.headers(&get(&address, None), at(1_369_353_600)).expect("headers");
            let expected = ("Authorization", format!("SharedKey tales:{signature}"));
            assert!(headers.contains(&expected), "{headers:?}");
        }
    }
}
