//! Servers on the loopback for tests: one thread for each connection, answers made by a function.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The requested bytes: the first and the one after the last.
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) authorization: Option<String>,
    /// All headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The number of requests before it.
    pub(crate) number: usize,
}

impl Request {
    /// A header by its name in lower case; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }
}

/// An answer, and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The connection is cut after so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// The body is sent in parts of so many bytes, with a pause after each.
    pub(crate) pace: Option<(usize, Duration)>,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), cut: None, pace: None }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// A file, or the requested part of it.
    pub(crate) fn file(request: &Request, bytes: &[u8]) -> Self {
        let len = bytes.len() as u64;
        let Some((from, to)) = request.range else {
            return Self { body: bytes.to_vec(), ..Self::status(200) };
        };
        if from >= len {
            return Self::status(416).header("Content-Range", format!("bytes */{len}"));
        }
        let to = to.min(len);
        let part = bytes[from as usize..to as usize].to_vec();
        let range = format!("bytes {from}-{}/{len}", to - 1);
        Self { body: part, ..Self::status(206) }.header("Content-Range", range)
    }

    /// A whole file, whatever part was requested.
    pub(crate) fn whole(bytes: &[u8]) -> Self {
        Self { body: bytes.to_vec(), ..Self::status(200) }
    }

    pub(crate) fn redirect(to: impl Into<String>) -> Self {
        Self::status(302).header("Location", to)
    }
}

/// A server that answers until the test ends.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    sent: Arc<Mutex<u64>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let server = Self { address, requests: Arc::default(), sent: Arc::default() };
        let (made, answer) = (server.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (made, answer) = (made.clone(), Arc::clone(&answer));
                std::thread::spawn(move || made.serve(&connection, &*answer));
            }
        });
        server
    }

    /// A server of another process.
    pub(crate) fn known(address: &str) -> Self {
        Self { address: address.to_owned(), requests: Arc::default(), sent: Arc::default() }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bytes of all bodies so far.
    pub(crate) fn sent(&self) -> u64 {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the requests and bytes so far.
    pub(crate) fn reset(&self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }

    fn serve(&self, connection: &TcpStream, answer: &(dyn Fn(&Request) -> Answer + Send + Sync)) {
        // Head and body of an answer are written one after the other.
        let _ = connection.set_nodelay(true);
        let mut reader = BufReader::new(connection);
        while let Some(mut request) = read(&mut reader) {
            {
                let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
                request.number = requests.len();
                // Bodies are for the answer only: they may be large.
                requests.push(Request { body: Vec::new(), ..request.clone() });
            }
            if self.send(connection, &answer(&request)).is_none() {
                return;
            }
        }
    }

    fn send(&self, mut connection: &TcpStream, answer: &Answer) -> Option<()> {
        let mut head = format!("HTTP/1.1 {} Answer\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
        }
        head.push_str("\r\n");
        connection.write_all(head.as_bytes()).ok()?;
        let body = &answer.body[..answer.cut.unwrap_or(answer.body.len()).min(answer.body.len())];
        let (part, pause) = answer.pace.unwrap_or((64 << 10, Duration::ZERO));
        for part in body.chunks(part) {
            // Before the client has it: a test may ask right after.
            *self.sent.lock().unwrap_or_else(PoisonError::into_inner) += part.len() as u64;
            connection.write_all(part).ok()?;
            std::thread::sleep(pause);
        }
        if answer.cut.is_some() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
            return None;
        }
        Some(())
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut request = Request {
        method,
        path,
        range: None,
        authorization: None,
        headers: Vec::new(),
        body: Vec::new(),
        number: 0,
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        request.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                request.range = Some((from.parse().ok()?, to.parse::<u64>().ok()? + 1));
            }
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    request.body.resize(request.header("content-length").parse().unwrap_or(0), 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
