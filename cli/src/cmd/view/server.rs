//! A small HTTP server for one page, on the loopback interface.
//!
//! Each connection answers one request and is closed. A request must name the server by its own address
//! (`Host`), so that no other site's name can be made to lead here; a page of another site may not ask
//! (`Origin`, `Sec-Fetch-Site`); and its path must begin with a random token.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weighbridge::{Error, ErrorKind, Progress};
use weighbridge_web::{PAGE, Parameters, Viewer};

/// The largest request that is read.
const REQUEST_BYTES: usize = 16 << 10;

/// The header fields of a request; browsers send about 20.
const FIELDS: usize = 64;

/// The time that a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time that a client may take to receive some of the answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Connections that are served at once; others wait.
const CONNECTIONS: usize = 512;

/// The header fields of every answer. The page may load only its own files, may not be shown in a frame, and
/// may not turn text into HTML.
const FIELDS_OF_ANSWERS: &str = "\
Connection: close\r\n\
Cache-Control: no-store\r\n\
Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n\
Cross-Origin-Opener-Policy: same-origin\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n\
Referrer-Policy: no-referrer\r\n\
X-Content-Type-Options: nosniff\r\n";

pub(super) struct Server {
    listener: Arc<TcpListener>,
    shared: Arc<Shared>,
    url: String,
}

struct Shared {
    /// Set as soon as the models are open.
    viewer: OnceLock<Viewer>,
    /// The model that is being opened.
    opening: Mutex<String>,
    token: String,
    /// The names by which a request may call the server.
    hosts: [String; 2],
    open: Mutex<usize>,
    closed: Condvar,
}

/// A connection that is being served.
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.closed.notify_one();
    }
}

/// An answer to a request.
struct Answer {
    status: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
}

impl Server {
    /// Listens on this port of the loopback interface, or on any free port if it is 0. Without a token, a
    /// random one is made.
    pub(super) fn bind(port: u16, token: Option<&str>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let random = || random.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = token.map_or_else(random, ToOwned::to_owned);
        let url = format!("http://127.0.0.1:{port}/{token}/");
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let (open, closed) = (Mutex::new(0), Condvar::new());
        let (viewer, opening) = (OnceLock::new(), Mutex::default());
        let shared = Arc::new(Shared { viewer, opening, token, hosts, open, closed });
        Ok(Self { listener: Arc::new(listener), shared, url })
    }

    /// Sets which model is being opened, which the page shows until there is a viewer.
    pub(super) fn opening(&self, model: &str) {
        let mut opening = self.shared.opening.lock().unwrap_or_else(PoisonError::into_inner);
        model.clone_into(&mut opening);
    }

    /// Sets the viewer that answers.
    pub(super) fn show(&self, viewer: Viewer) {
        let _ = self.shared.viewer.set(viewer);
    }

    /// Answers requests in another thread.
    pub(super) fn start(&self) {
        let (listener, shared) = (Arc::clone(&self.listener), Arc::clone(&self.shared));
        let serve = move || serve(&listener, &shared);
        // If no thread can be started, requests are answered as soon as the models are open.
        let _ = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Answers requests until the program ends.
    pub(super) fn serve(self) {
        serve(&self.listener, &self.shared);
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let slot = Shared::slot(shared);
        // A connection that was closed before it was accepted, or too many open files.
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let serve = move || {
            // A client that goes away needs no answer.
            let _ = slot.0.serve(stream);
        };
        // If no thread can be started, the connection is closed.
        let _ = std::thread::Builder::new().name("connection".to_owned()).spawn(serve);
    }
}

impl Shared {
    /// Waits until another connection may be served.
    fn slot(this: &Arc<Self>) -> Slot {
        let open = this.open.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |open: &mut usize| *open >= CONNECTIONS;
        let mut open = this.closed.wait_while(open, full).unwrap_or_else(PoisonError::into_inner);
        *open += 1;
        Slot(Arc::clone(this))
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        stream.set_nodelay(true)?;
        let Some(request) = read_request(&mut stream)? else { return Ok(()) };
        let (answer, head) = match self.checked(&request) {
            Ok((target, head)) => (self.answer(&target, &stream), head),
            Err(refused) => (refused, false),
        };
        let Answer { status, media_type, body } = answer;
        let length = body.len();
        stream.set_nonblocking(false)?;
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
             {FIELDS_OF_ANSWERS}\r\n"
        )?;
        if !head {
            stream.write_all(&body)?;
        }
        stream.flush()?;
        stream.shutdown(Shutdown::Write)
    }

    /// The target of a request that may be answered, below the token; and whether only the header of the
    /// answer is wanted.
    fn checked(&self, request: &[u8]) -> Result<(String, bool), Answer> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        if !parsed.parse(request).is_ok_and(|status| status.is_complete()) {
            return Err(refusal("400 Bad Request", "the request cannot be read"));
        }
        let head = match parsed.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Err(refusal("405 Method Not Allowed", "only GET is answered")),
        };
        let values = |name: &str| {
            let fields =
                parsed.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            fields.map(|field| std::str::from_utf8(field.value).unwrap_or("?")).collect::<Vec<_>>()
        };
        let known = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if !matches!(values("host").as_slice(), [host] if known(host)) {
            return Err(refusal("421 Misdirected Request", "the request is for another host"));
        }
        let own = |origin: &&str| origin.strip_prefix("http://").is_some_and(known);
        let site = |site: &&str| matches!(*site, "same-origin" | "none");
        if !values("origin").iter().all(own) || !values("sec-fetch-site").iter().all(site) {
            return Err(refusal("403 Forbidden", "the request comes from another site"));
        }
        let path = parsed.path.and_then(|path| path.strip_prefix('/')).unwrap_or_default();
        let (token, target) = path.split_once('/').unwrap_or((path, ""));
        if !same(token.as_bytes(), self.token.as_bytes()) {
            let fault =
                "the address lacks the token: use the address that `weighbridge view` printed";
            return Err(refusal("403 Forbidden", fault));
        }
        Ok((target.to_owned(), head))
    }

    fn answer(&self, target: &str, stream: &TcpStream) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if let Some(question) = path.strip_prefix("api/") {
            return self.reply(question, &Parameters::parse(query), stream);
        }
        let path = if path.is_empty() { "index.html" } else { path };
        match PAGE.iter().find(|file| file.path == path) {
            Some(file) => Answer {
                status: "200 OK",
                media_type: file.media_type,
                body: file.content.to_vec(),
            },
            None => refusal("404 Not Found", "the page has no such file"),
        }
    }

    /// Answers a question of the page. The work ends if the page closes the connection.
    fn reply(&self, question: &str, parameters: &Parameters, stream: &TcpStream) -> Answer {
        let waits = |_: Progress| {
            let gone = stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 0);
            if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // Otherwise `peek` would wait for what never comes.
        let _ = stream.set_nonblocking(true);
        let Some(viewer) = self.viewer.get() else { return self.not_yet() };
        match viewer.answer(question, parameters, &waits) {
            Ok(body) => Answer { status: "200 OK", media_type: JSON, body },
            Err(error) => problem(&error),
        }
    }
}

impl Shared {
    /// The answer to every question until the models are open. The page asks again.
    fn not_yet(&self) -> Answer {
        let opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Answer {
            status: "503 Service Unavailable",
            media_type: JSON,
            body: serde_json::json!({ "kind": "opening", "message": opening })
                .to_string()
                .into_bytes(),
        }
    }
}

const JSON: &str = "application/json; charset=utf-8";

/// Reads a request up to the end of its header; `None` if the client sends none.
fn read_request(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut piece = [0; 2048];
    loop {
        // A timeout of zero is an error, as one that has passed is.
        stream.set_read_timeout(Some(end.saturating_duration_since(Instant::now())))?;
        let count = stream.read(&mut piece)?;
        request.extend_from_slice(piece.get(..count).unwrap_or_default());
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(request));
        }
        if count == 0 {
            return Ok(None);
        }
        // What is too long cannot be parsed, and is refused.
        if request.len() > REQUEST_BYTES {
            return Ok(Some(request));
        }
    }
}

/// Whether two texts are equal, in a time that does not depend on where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn refusal(status: &'static str, fault: &str) -> Answer {
    let body = format!("{fault}\n").into_bytes();
    Answer { status, media_type: "text/plain; charset=utf-8", body }
}

/// An error of the library.
fn problem(error: &Error) -> Answer {
    let status = match error.kind() {
        ErrorKind::NotFound => "404 Not Found",
        ErrorKind::Mismatch => "400 Bad Request",
        ErrorKind::Io => "500 Internal Server Error",
        _ => "422 Unprocessable Content",
    };
    Answer {
        status,
        media_type: JSON,
        body: weighbridge_web::problem(error).to_string().into_bytes(),
    }
}
