//! Requests: ranges, redirects, repetitions. A token goes to its own host alone.

use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use super::Network;
use super::address::{joined, origin};
use super::sign::{Proof, Unproved};
use crate::error::{AdvisedOption, Error, ErrorKind, Result};

/// The most redirects from a name to its bytes.
const REDIRECTS: usize = 10;

/// Adds the advice where a server is needed.
pub(super) fn online(error: Error) -> Error {
    match Network::from_env().offline {
        true => error.advise("unset HF_HUB_OFFLINE"),
        false => error.advise_option("leave out {}", AdvisedOption::Offline),
    }
}

/// The longest time for which a server may ask to wait before the next request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes requests. Connections are kept and shared by all files of a model.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    pub(crate) network: Network,
    /// The signature of requests to an object store, and the start of the addresses that it is for.
    proof: Option<(String, Proof)>,
}

/// A request to a server.
#[derive(Clone, Copy)]
struct Asked<'a> {
    method: &'static str,
    range: Option<&'a Range<u64>>,
    /// The body, for methods that have one.
    body: Option<&'a [u8]>,
    /// Only if there is no such file yet.
    is_new: bool,
}

/// The answer of a server.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The address that answered, after redirects.
    pub(super) address: String,
    headers: Vec<ureq::http::HeaderMap>,
    body: ureq::Body,
}

impl Answer {
    /// A header of the answer.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.last()?.get(name)?.to_str().ok()
    }

    /// A header of the answer, or of a redirect that led to it.
    pub(super) fn any_header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|headers| headers.get(name)?.to_str().ok())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.trim().parse().ok()
    }

    pub(super) fn reader(&mut self) -> impl Read + '_ {
        self.body.as_reader()
    }
}

impl Client {
    pub(super) fn new(network: Network) -> Self {
        Self::signing(network, None)
    }

    /// A client that proves its requests to an object store.
    pub(super) fn signing(network: Network, proof: Option<(String, Proof)>) -> Self {
        let timeout = Some(network.timeout);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Followed here: a redirect's headers are needed, and decide where the token goes.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout)
            .timeout_per_write(timeout)
            .user_agent(concat!("weighbridge/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .max_idle_connections_per_host(32);
        Self { agent: config.build().new_agent(), network, proof }
    }

    /// Requests an address, or a range of it. Redirects are followed; what may pass is repeated.
    ///
    /// # Errors
    ///
    /// `Io` if no answer came. An answer of any status is returned.
    pub(super) fn get(&self, address: &str, range: Option<&Range<u64>>) -> Result<Answer> {
        self.ask(address, Asked { method: "GET", range, body: None, is_new: false })
    }

    /// Sends a request that changes something, with a body if the method has one. It must be one that may
    /// be repeated, and is not redirected.
    ///
    /// # Errors
    ///
    /// Same as [`get`](Self::get).
    pub(super) fn send(
        &self,
        method: &'static str,
        address: &str,
        body: Option<&[u8]>,
    ) -> Result<Answer> {
        self.ask(address, Asked { method, range: None, body, is_new: false })
    }

    /// Sends a file that the server stores only if it has none of that name. If a request is repeated, the
    /// server may answer that there is one although it is this one.
    ///
    /// # Errors
    ///
    /// Same as [`get`](Self::get).
    pub(super) fn send_new(&self, address: &str, body: &[u8]) -> Result<Answer> {
        let body = Some(body);
        self.ask(address, Asked { method: "PUT", range: None, body, is_new: true })
    }

    fn ask(&self, address: &str, asked: Asked<'_>) -> Result<Answer> {
        if self.network.offline {
            let fault = "not fetched, since this run is offline";
            return Err(online(Error::new(ErrorKind::Io, fault)));
        }
        let mut wait = self.network.backoff;
        for attempt in 1.. {
            let last = attempt >= self.network.attempts.max(1);
            let mut delay = None;
            let reason;
            match self.follow(address, asked) {
                Ok(answer) if !matches!(answer.status, 429 | 500 | 502 | 503 | 504) || last => {
                    return Ok(answer);
                }
                Ok(answer) => {
                    delay = answer.number("retry-after").map(Duration::from_secs);
                    reason = format!("the server answered {}", answer.status);
                    if let Some(delay) = delay.filter(|delay| *delay > PATIENCE) {
                        let seconds = delay.as_secs();
                        return Err(Error::new(
                            ErrorKind::Io,
                            format!(
                                "the server answered {}, and asks to wait {seconds} seconds",
                                answer.status
                            ),
                        ));
                    }
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing { server, cause }) if last => {
                    let error = no_answer(&server, &cause);
                    return Err(
                        error.advise(format!("{attempt} attempts were made; check the connection"))
                    );
                }
                Err(Failure::Passing { cause, .. }) => {
                    reason = no_answer(SERVER, &cause).to_string();
                }
            }
            let delay = delay.unwrap_or_else(|| varied(wait));
            self.network.retries(address, &reason, attempt, delay);
            std::thread::sleep(delay);
            wait = wait.saturating_mul(2).min(PATIENCE);
        }
        Err(Error::new(ErrorKind::Io, "no attempts are allowed"))
    }

    /// One request, and those to which it is redirected.
    fn follow(&self, address: &str, asked: Asked<'_>) -> Result<Answer, Failure> {
        let Asked { method, range, body, is_new } = asked;
        let mut address = address.to_owned();
        let mut headers = Vec::new();
        for _ in 0..=REDIRECTS {
            let mut request = ureq::http::Request::builder().method(method).uri(&address);
            let range =
                range.map(|range| format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
            if let Some(range) = &range {
                request = request.header("Range", range);
            }
            if let Some((store, proof)) = &self.proof
                && address
                    .strip_prefix(store.as_str())
                    .is_some_and(|rest| rest.starts_with('/') || rest.starts_with('?'))
            {
                let now = std::time::SystemTime::now();
                let (range, body) = (range.as_deref(), body.unwrap_or_default());
                let unproved = Unproved { method, address: &address, range, body };
                let headers = proof.headers(&unproved, now);
                for (name, value) in headers.map_err(Failure::Final)? {
                    request = request.header(name, value);
                }
            }
            if is_new {
                request = request.header("If-None-Match", "*");
            }
            if let Some(token) = &self.network.token
                && origin(&address) == origin(&self.network.hub)
            {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let answer = match body {
                Some(body) => request.body(body).map(|request| self.agent.run(request)),
                None => request.body(()).map(|request| self.agent.run(request)),
            };
            let answer = answer.map_err(ureq::Error::from).flatten();
            let answer = answer.map_err(|error| Failure::of(error, &address))?;
            let (parts, body) = answer.into_parts();
            let status = parts.status.as_u16();
            headers.push(parts.headers);
            let found = Answer { status, address, headers, body };
            if !matches!(status, 301 | 302 | 303 | 307 | 308) || method != "GET" {
                return Ok(found);
            }
            let next = found.header("location").map(|to| joined(&found.address, to));
            let Some(next) = next else {
                // Amazon S3 answers so about a bucket of another region.
                if let Some(region) = found.header("x-amz-bucket-region") {
                    let region = crate::bytes::Text::new(region.as_bytes()).brief();
                    let fault = format!("the bucket is in the region {region}");
                    let error = Error::new(ErrorKind::Io, fault);
                    return Err(Failure::Final(error.advise(format!("set AWS_REGION={region}"))));
                }
                let fault = format!("the server answered {status} without a new address");
                return Err(Failure::Final(Error::new(ErrorKind::Io, fault)));
            };
            let allowed = next.starts_with("https://")
                || next.starts_with("http://") && found.address.starts_with("http://");
            if !allowed {
                let fault = "the server redirects to an address that is not https";
                return Err(Failure::Final(Error::new(ErrorKind::Io, fault)));
            }
            (address, headers) = (next, found.headers);
        }
        let fault = format!("the server redirects more than {REDIRECTS} times");
        Err(Failure::Final(Error::new(ErrorKind::Io, fault)))
    }
}

/// The reason why a request got no answer.
enum Failure {
    /// It may get one when it is repeated: the server, and the cause.
    Passing {
        server: String,
        cause: String,
    },
    Final(Error),
}

/// The server in a sentence that names it already.
const SERVER: &str = "the server";

/// The error of a server that does not answer. It names no more of the address, which could contain a signature.
fn no_answer(server: &str, cause: &str) -> Error {
    Error::new(ErrorKind::Io, format!("no answer from {server}: {cause}"))
}

impl Failure {
    fn of(error: ureq::Error, address: &str) -> Self {
        let (server, cause) = (origin(address).to_owned(), error.to_string());
        match error {
            // Without a network, no name is found: waiting would not help.
            ureq::Error::Io(io) if io.to_string().contains("failed to lookup address") => {
                let error = no_answer(&server, &cause);
                Self::Final(error.advise("check the connection, and the name of the server"))
            }
            ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::ConnectionFailed
            | ureq::Error::Protocol(_) => Self::Passing { server, cause },
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                Self::Final(Error::mismatch("not an address that can be fetched"))
            }
            _ => Self::Final(no_answer(&server, &cause)),
        }
    }
}

/// The error for an answer that is none of those expected.
pub(super) fn refused(answer: &Answer) -> Error {
    match answer.any_header("x-error-code") {
        Some("GatedRepo") => Error::new(ErrorKind::Io, "the repository is gated")
            .advise("accept its conditions on the hub with your account, and set HF_TOKEN"),
        _ => refused_status(answer.status),
    }
}

/// The error for a status that is none of those expected.
pub(super) fn refused_status(status: u16) -> Error {
    match status {
        401 | 403 => Error::new(ErrorKind::Io, format!("the server refuses access ({status})"))
            .advise("check that the address is public, or that its signature has not expired"),
        404 | 410 => Error::not_found(format!("the server has no such file ({status})")),
        429 => Error::new(ErrorKind::Io, "the server refuses further requests for now (429)")
            .advise("wait some minutes, then try again"),
        500..=599 => Error::new(ErrorKind::Io, format!("the server failed ({status})"))
            .advise("try again later"),
        _ => Error::new(ErrorKind::Io, format!("the server answered {status}")),
    }
}

/// A time between half and one and a half of `wait`, so that many clients do not return at once.
fn varied(wait: Duration) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let part = now.map_or(0, |now| now.subsec_nanos()) % 1000;
    wait / 2 + wait * part / 1000
}
