//! The program `weighbridge`: parses arguments, calls the library, prints the report.

mod args;
mod cmd;
mod json;
mod layers;
mod print;
mod writing;

use std::process::ExitCode;

use clap::Parser;
use weighbridge::{Error, ErrorKind, OpenOptions, Strictness};

use args::Cli;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error of the library.
    Library(Error),
    /// Arguments that contradict each other or do not fit the model.
    Usage(String),
    /// The model has a part that this program cannot run.
    Unsupported(String),
    /// The model contradicts itself.
    Malformed(String),
    /// A path that does not exist or is not accessible.
    Path(String),
    /// The report could not be written.
    Output(std::io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<weighbridge_reference::Error> for Stop {
    fn from(error: weighbridge_reference::Error) -> Self {
        use weighbridge_reference::Error;
        match error {
            Error::Model(error) => Self::Library(error),
            Error::Input(fault) => Self::Usage(fault),
            Error::Mismatch(fault) => Self::Malformed(fault),
            other => Self::Unsupported(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// The exit status of a command that completed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Status {
    Fine = 0,
    Found = 1,
    Unsupported = 4,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.color.write_global();
    print::set_wide(cli.wide);
    match cmd::run(cli.command) {
        Ok(status) => ExitCode::from(status as u8),
        // The reader of the output closed the pipe: it needs no more.
        Err(Stop::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Stop::Output(error)) => {
            complain(&format!("cannot write the output: {error}"), None);
            ExitCode::from(5)
        }
        Err(Stop::Usage(fault)) => fail(&fault, 2),
        Err(Stop::Malformed(fault)) => fail(&fault, 3),
        Err(Stop::Unsupported(fault)) => fail(&fault, 4),
        Err(Stop::Path(fault)) => fail(&fault, 5),
        Err(Stop::Library(error)) => {
            complain(&error.to_string(), error.advice());
            ExitCode::from(status_of(error.kind()))
        }
    }
}

fn fail(fault: &str, status: u8) -> ExitCode {
    complain(fault, None);
    ExitCode::from(status)
}

/// The exit status of an error.
fn status_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Malformed | ErrorKind::UnknownContainer | ErrorKind::LimitExceeded => 3,
        ErrorKind::Unsupported => 4,
        ErrorKind::Io => 5,
        ErrorKind::NotFound => 5,
        ErrorKind::Cancelled => 130,
        _ => 2,
    }
}

pub(crate) fn complain(message: &str, advice: Option<&str>) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let mut err = print::stderr();
    // If standard error is closed too, the message cannot be shown anywhere.
    let _ = err.paragraph(&format!("{red}error{red:#}: {message}"), "error: ".len());
    if let Some(advice) = advice {
        let bold = anstyle::Style::new().bold();
        let _ = err.paragraph(&format!(" {bold}help{bold:#}: {advice}"), " help: ".len());
    }
}

/// Prints a note on standard error: something worth knowing, not an error.
pub(crate) fn note(message: &str) {
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let note = format!("{yellow}note{yellow:#}: {message}");
    let _ = print::stderr().paragraph(&note, "note: ".len());
}

/// Prints the notes that opening a model produced.
pub(crate) fn remark(store: &weighbridge::Model) {
    for seen in store.notes() {
        note(&format!("{}: {}", print::shown(&seen.path), seen.text));
    }
}

impl args::Open {
    pub(crate) fn options(&self) -> OpenOptions {
        let strictness = match (self.strict, self.lenient) {
            (true, _) => Strictness::Strict,
            (false, true) => Strictness::Lenient,
            (false, false) => Strictness::Default,
        };
        let options = OpenOptions::new().strictness(strictness);
        let options = options.all_files(self.all_files);
        if self.no_map { options.read() } else { options }
    }
}
