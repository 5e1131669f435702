//! `view`: shows models in the browser, or writes a report.

mod report;
mod server;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use weighbridge::{Error, ErrorKind, Model};
use weighbridge_web::Viewer;

use super::Done;
use crate::args::View;
use crate::print::shown;
use crate::{Status, Stop, failure, note, remark};
use server::Server;

pub(crate) fn run(args: &View) -> Done {
    if let Some(output) = &args.output {
        return report::run(args, output);
    }
    let server = Server::bind(args.port, args.token.as_deref()).map_err(|error| {
        let place = format!("127.0.0.1:{}", args.port);
        failure::io(place.as_ref(), "cannot listen on the address", error)
    })?;
    let opened = open_all(args, &server)?;
    server.show(Viewer::new(opened.models).measured(super::memory::to_run));
    if !opened.announced {
        announce(args, &server)?;
    }
    server.serve();
    Ok(Status::Fine)
}

/// Opened models, and whether the address has been printed meanwhile.
struct Opened {
    models: Vec<Model>,
    announced: bool,
}

/// The time that opening may take before the address is printed: a wrong path is an error without an address, and a
/// slow server is watched on the page.
const PATIENCE: Duration = Duration::from_millis(400);

/// Opens the models one after another. If that takes long, the server is announced, and its page says which
/// model is being opened.
fn open_all(args: &View, server: &Server) -> Result<Opened, Stop> {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for path in &args.paths {
                // A mapped file that another program shortens would end this program, which runs for long.
                let opened = args.open.options().read().open(path);
                let failed = opened.is_err();
                if sender.send(opened).is_err() || failed {
                    return;
                }
            }
        });
        let begun = Instant::now();
        let (mut models, mut announced) = (Vec::new(), false);
        for (number, path) in args.paths.iter().enumerate() {
            server.opening(&format!("{} ({} of {})", shown(path), number + 1, args.paths.len()));
            let ended = || Error::new(ErrorKind::Io, "the thread that opens models ended");
            let opened = match receiver.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {
                    if !announced {
                        announced = true;
                        server.start();
                        announce(args, server)?;
                    }
                    receiver.recv().map_err(|_| ended())?
                }
                opened => opened.map_err(|_| ended())?,
            };
            let model = opened?;
            remark(&model);
            models.push(model);
        }
        Ok(Opened { models, announced })
    })
}

/// Prints the address, and starts a browser unless that is unwanted.
fn announce(args: &View, server: &Server) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    drop(out);
    note("serving until Ctrl-C; whoever has the address can see the models");
    if !args.no_open && !open_browser(server.url()) {
        note("no browser could be started: open the address yourself");
    }
    Ok(())
}

/// Shows a page in the user's browser; `false` if none can be started.
fn open_browser(url: &str) -> bool {
    let (program, first): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    let command = command.args(first).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}
