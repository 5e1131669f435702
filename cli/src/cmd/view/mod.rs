//! `view`: shows models in the browser, or writes a report.

mod report;
mod server;

use std::io::Write;
use std::process::{Command, Stdio};

use weighbridge_web::Viewer;

use super::Done;
use crate::args::View;
use crate::{Status, failure, note, remark};
use server::Server;

pub(crate) fn run(args: &View) -> Done {
    if let Some(output) = &args.output {
        return report::run(args, output);
    }
    let mut models = Vec::new();
    for path in &args.paths {
        // A mapped file that another program shortens would end this program, which runs for long.
        let model = args.open.options().read().open(path)?;
        remark(&model);
        models.push(model);
    }
    let server = Server::bind(args.port, Viewer::new(models)).map_err(|error| {
        let place = format!("127.0.0.1:{}", args.port);
        failure::io(place.as_ref(), "cannot listen on the address", error)
    })?;
    let url = server.url();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()?;
    drop(out);
    note("serving until Ctrl-C; whoever has the address can see the models");
    if !args.no_open && !open_browser(url) {
        note("no browser could be started: open the address yourself");
    }
    server.serve();
    Ok(Status::Fine)
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
