//! Files and commands, with errors that name them.

use std::path::Path;
use std::process::Command;

pub(crate) type Done<T = ()> = Result<T, String>;

/// The reason why a task failed: its options are wrong, or something else.
pub(crate) enum Fault {
    Usage(&'static str),
    Other(String),
}

impl From<String> for Fault {
    fn from(fault: String) -> Self {
        Self::Other(fault)
    }
}

/// Refuses options of a task that has none.
pub(crate) fn no_options(options: &[String], usage: &'static str) -> Result<(), Fault> {
    if options.is_empty() { Ok(()) } else { Err(Fault::Usage(usage)) }
}

/// Whether the one option of a task is given.
pub(crate) fn has_option(
    options: &[String],
    name: &str,
    usage: &'static str,
) -> Result<bool, Fault> {
    match options {
        [] => Ok(false),
        [option] if option == name => Ok(true),
        _ => Err(Fault::Usage(usage)),
    }
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(crate) fn create_folder(path: &Path) -> Done {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Done {
    std::fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> Done {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn run_command(command: &mut Command) -> Done {
    eprintln!("$ {}", shown(command));
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", shown(command))) }
}

/// The output of a command.
pub(crate) fn said(command: &mut Command) -> Done<String> {
    let output = command.output().map_err(|error| format!("{}: {error}", shown(command)))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {}: {errors}", shown(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", shown(command)))
}
