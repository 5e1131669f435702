//! The program `weighbridge`: parses arguments, calls the library, prints the report.
//!
//! It is a library so that the Python package can install the program too.

mod args;
mod cmd;
mod device;
mod failure;
mod interrupt;
mod json;
mod layers;
mod newfile;
mod print;
mod settings;
mod spelling;
mod status;
mod stdout;
mod writing;

use std::ffi::OsString;
use std::io::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use weighbridge::arch::FamilyFile;

use failure::Failure;
pub(crate) use failure::{Stop, complain, note, remark};
pub(crate) use status::{Done, Status};

/// Runs the program with these arguments, the first of which is its name. Returns the exit status.
pub fn run(arguments: Vec<OsString>) -> u8 {
    // Nothing else may have this value: clap would take it for the option too.
    if arguments.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json") {
        failure::speak_json();
    }
    let ran = stdout::fail_if_closed().map_err(Stop::Output);
    let status = match ran.and_then(|()| parse_and_run(arguments)) {
        Ok(status) => status as u8,
        Err(Stop::Output(_)) if stdout::was_closed() => {
            failure::report(&Stop::Output(std::io::Error::other("standard output is closed")))
        }
        // The reader of the output closed the pipe: it needs no more.
        Err(Stop::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(stop) => failure::report(&stop),
    };
    json::finish();
    status
}

fn parse_and_run(typed: Vec<OsString>) -> Done {
    let mut program = args::program::Program::new();
    let arguments = match args::translated(&mut program, &typed) {
        Ok(arguments) => arguments,
        Err(failure) => {
            complain(failure);
            return Ok(Status::Usage);
        }
    };
    match program.parse(&arguments) {
        Ok(cli) => {
            cli.color.write_global();
            print::set_wide(cli.wide);
            for path in &cli.family {
                FamilyFile::open(path)?.add();
            }
            cmd::run(cli.command, &arguments)
        }
        Err(error) => {
            if let Some(failure) = args::unknown_option(&error, &typed, &arguments) {
                complain(failure);
                return Ok(Status::Usage);
            }
            let example = match error.kind() {
                ErrorKind::MissingRequiredArgument if lacks_place(&error) => {
                    args::example(&typed, &arguments)
                }
                _ => None,
            };
            parsed_nothing(&error, example, |message| args::as_typed(message, &typed, &arguments))
        }
    }
}

/// The standard library's messages about numbers, in words for users.
fn in_words(message: &str) -> String {
    message
        .replace("invalid digit found in string", "a whole number is needed")
        .replace("cannot parse integer from empty string", "a whole number is needed")
        .replace("invalid float literal", "a number is needed")
}

/// Whether an argument without an option is missing.
fn lacks_place(error: &clap::Error) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    matches!(missing, Some(ContextValue::Strings(names)) if names.iter().any(|it| !it.starts_with('-')))
}

/// The value that was meant by a wrong one, of those that an argument may have.
fn meant(error: &clap::Error) -> Option<String> {
    let word = error.get(ContextKind::InvalidValue)?.to_string();
    let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let near = spelling::nearest(&word, values.iter(), |value| spelling::distance(&word, value))?;
    Some(format!("did you mean {near}?"))
}

/// Prints the help or the version if they were requested; otherwise the command line is wrong.
fn parsed_nothing(
    error: &clap::Error,
    example: Option<String>,
    as_typed: impl Fn(&str) -> String,
) -> Done {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.use_stderr() && (failure::is_json() || !is_help) {
        let failure = Failure::usage(&in_words(&as_typed(&error.to_string())));
        complain(failure.or_advice(example).or_advice(meant(error)));
    } else if error.use_stderr() {
        let mut err = print::stderr();
        for line in error.render().ansi().to_string().lines() {
            err.paragraph(line, 2)?;
        }
    } else {
        // The usage and the examples may be wider than the terminal.
        let mut out = print::help();
        for line in error.render().ansi().to_string().lines() {
            let indent = line.len() - line.trim_start_matches(' ').len();
            out.paragraph(line, indent + 2)?;
        }
        out.flush()?;
    }
    Ok(if error.use_stderr() { Status::Usage } else { Status::Fine })
}
