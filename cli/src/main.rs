//! The program `weighbridge`: parses arguments, calls the library, prints the report.

mod args;
mod cmd;
mod failure;
mod json;
mod layers;
mod newfile;
mod print;
mod stdout;
mod writing;

use std::process::ExitCode;

use clap::Parser;
use weighbridge::{OpenOptions, Strictness};

use args::Cli;
use failure::Failure;
pub(crate) use failure::{Stop, complain, note, remark};

/// The exit status of a command that completed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Status {
    Fine = 0,
    Found = 1,
    Usage = 2,
    Unsupported = 4,
}

fn main() -> ExitCode {
    // Nothing else may have this value: clap would take it for the option too.
    if std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json") {
        failure::speak_json();
    }
    let ran = stdout::fail_if_closed().map_err(Stop::Output).and_then(|()| parse_and_run());
    let status = match ran {
        Ok(status) => status as u8,
        Err(Stop::Output(_)) if stdout::was_closed() => {
            failure::report(&Stop::Output(std::io::Error::other("standard output is closed")))
        }
        // The reader of the output closed the pipe: it needs no more.
        Err(Stop::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(stop) => failure::report(&stop),
    };
    failure::finish();
    ExitCode::from(status)
}

fn parse_and_run() -> cmd::Done {
    match Cli::try_parse() {
        Ok(cli) => {
            cli.color.write_global();
            print::set_wide(cli.wide);
            cmd::run(cli.command)
        }
        Err(error) => parsed_nothing(&error),
    }
}

/// Prints the help or the version if they were requested; otherwise the command line is wrong.
fn parsed_nothing(error: &clap::Error) -> cmd::Done {
    if error.use_stderr() && failure::is_json() {
        complain(Failure::usage(&error.to_string()));
    } else {
        error.print()?;
    }
    Ok(if error.use_stderr() { Status::Usage } else { Status::Fine })
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
