//! Errors and notes on standard error: text, or with `--json` one JSON document at the end.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::container::ollama;
use weighbridge::{AdvisedOption, Error, ErrorKind, OpenOptions};

use crate::{print, spelling};

/// The reason why a command stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error of the library, or of the same kinds.
    Library(Error),
    /// Arguments that contradict each other or do not fit the model.
    Usage(String),
    /// The report could not be written.
    Output(std::io::Error),
    /// Errors that were reported already, and the exit status.
    Reported(u8),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<weighbridge_reference::Error> for Stop {
    fn from(error: weighbridge_reference::Error) -> Self {
        use weighbridge_reference::Error as Fault;
        match error {
            Fault::Input(fault) => Self::Usage(fault),
            other => Self::Library(other.into()),
        }
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// Reports why a command stopped, and returns the exit status.
pub(crate) fn report(stop: &Stop) -> u8 {
    let failure = match stop {
        Stop::Reported(status) => return *status,
        Stop::Library(error) => Failure::from(error),
        Stop::Usage(fault) => Failure::new("usage", 2, fault.clone()),
        Stop::Output(error) => {
            Failure::new("output", 5, format!("cannot write the output: {error}"))
        }
    };
    let status = failure.status;
    complain(failure);
    status
}

/// An error as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    /// The kind of a library error, `usage`, or `output` for a report that cannot be written.
    kind: &'static str,
    status: u8,
    message: String,
    path: Option<String>,
    tensor: Option<String>,
    key: Option<String>,
    offset: Option<u64>,
    advice: Option<String>,
}

impl Failure {
    fn new(kind: &'static str, status: u8, message: String) -> Self {
        let (path, tensor, key, offset, advice) = (None, None, None, None, None);
        Self { kind, status, message, path, tensor, key, offset, advice }
    }

    /// A wrong command line, from the message of the argument parser: its first paragraph says what
    /// is wrong, a later one gives the usage. Its tips are by letters, and often wrong.
    pub(crate) fn usage(said: &str) -> Self {
        let mut parts = said
            .trim()
            .split("\n\n")
            .map(|part| part.lines().map(str::trim).collect::<Vec<_>>().join(" "));
        let first = parts.next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(&first);
        let message = match message.split_once(" [possible values: ") {
            Some((fault, values)) => {
                format!("{fault}: not one of {}", values.trim_end_matches(']'))
            }
            None => message.to_owned(),
        };
        let advice = parts.find(|part| part.starts_with("Usage: "));
        Self { advice, ..Self::new("usage", 2, message) }
    }

    /// A wrong command line, and what to type instead.
    pub(crate) fn advised(message: String, advice: String) -> Self {
        Self { advice: Some(advice), ..Self::new("usage", 2, message) }
    }

    /// The same with other advice, if there is any.
    pub(crate) fn or_advice(self, advice: Option<String>) -> Self {
        Self { advice: advice.or(self.advice), ..self }
    }

    /// Adds text to the message.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }
}

/// The entries of a folder that a name is compared with.
const MANY: usize = 10_000;

/// The endings of the names of models.
const ENDINGS: [&str; 2] = [".gguf", ".safetensors"];

/// The advice of an error, in the words of the program.
pub(crate) fn advice(error: &Error) -> Option<String> {
    let is_missing = error.kind() == ErrorKind::NotFound;
    let path = error.path().filter(|_| is_missing || error.kind() == ErrorKind::Io);
    let near = || {
        let path = path.filter(|_| is_missing)?;
        Some(format!("did you mean {}?", nearest_entry(path).or_else(|| nearest_stored(path))?))
    };
    match path.and_then(|path| unexpanded(&print::shown(path))).or_else(near) {
        Some(said) => Some(said),
        None => error.advice_in(spelled).map(Cow::into_owned),
    }
}

/// The program's name of an option.
fn spelled(option: AdvisedOption) -> &'static str {
    match option {
        AdvisedOption::AllFiles => "--all-files",
        AdvisedOption::AllowIncomplete | AdvisedOption::AllowUnloadable => "--allow-incomplete",
        AdvisedOption::AllowNonfinite => "--allow-nonfinite",
        AdvisedOption::AllowRequantize => "--allow-requantize",
        AdvisedOption::DryRun => "`bench` times loading; --dry-run",
        AdvisedOption::FindNonfinite => {
            "`weighbridge verify FILE --deep` finds all such values; --allow-nonfinite"
        }
        AdvisedOption::Folder => "-o",
        AdvisedOption::Importance => "`quantize --imatrix FILE`",
        AdvisedOption::LeaveOut => "--leave-out",
        AdvisedOption::Lenient => "--lenient",
        AdvisedOption::NoMap => "--no-map",
        AdvisedOption::Offline => "--offline",
        AdvisedOption::Overwrite => "--overwrite",
        AdvisedOption::RequantizeFirst => {
            "`weighbridge quantize SRC FILE.gguf TYPE --allow-requantize`, then `weighbridge create NAME FILE.gguf -f \
             MODELFILE`, where FILE.gguf replaces FROM"
        }
        AdvisedOption::Shares => "--shards tp=N",
        AdvisedOption::Strict => "--strict",
        AdvisedOption::TensorType => "--tensor-type NAME=DTYPE",
        AdvisedOption::Weights => "--include-weights or --exclude-weights",
        other => other.name(),
    }
}

/// Advice on a path that a shell or a browser would have changed.
fn unexpanded(path: &str) -> Option<String> {
    let has_end = path.len() > 1 && path.ends_with('/');
    Some(match path {
        "-" => "standard input is not read here: save it to a file, and give its path".to_owned(),
        path if path.starts_with("~/") => {
            let rest = path.trim_start_matches("~/");
            format!(
                "the shell replaces ~ outside of quotes: \"$HOME/{rest}\" works in them; within a file, write the whole path"
            )
        }
        path if path.starts_with("file://") => {
            format!("a file is given by its path: {}", path.trim_start_matches("file://"))
        }
        #[cfg(unix)]
        path if path.contains('\\') => {
            let meant = path.replace('\\', "/");
            match Path::new(&meant).exists() {
                true => format!("did you mean {meant}?"),
                false => "folders are divided by / here".to_owned(),
            }
        }
        path if quoted(path).is_some_and(|inner| Path::new(inner).exists()) => {
            format!("the quotes are part of this path: did you mean {}?", quoted(path)?)
        }
        path if path.contains('*') => {
            "no file has this name, and the shell replaces * outside of quotes only".to_owned()
        }
        path if has_end && Path::new(path.trim_end_matches('/')).is_file() => {
            format!("{} is a file: leave the / out", path.trim_end_matches('/'))
        }
        _ => return None,
    })
}

/// The text between quotes that a program passed on.
fn quoted(path: &str) -> Option<&str> {
    let within = |quote: char| path.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\''))
}

/// The entry of its folder that a path which does not exist is a slip of.
pub(crate) fn nearest_entry(path: &Path) -> Option<String> {
    // A link to a missing file has its own message.
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !folder.exists() {
        return Some(print::shown(&Path::new(&nearest_entry(folder)?).join(name)));
    }
    let entries = std::fs::read_dir(folder).ok()?.take(MANY).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    // The start of the name of a model: `Qwen3-8B` for Qwen3-8B-Q4_K_M.gguf.
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let is_longer = |other: &&String| {
        let has_ending = ENDINGS.iter().any(|ending| other.ends_with(ending));
        let (start, rest) = other.split_at_checked(stem.len()).unwrap_or_default();
        let is_word = rest.starts_with(|it: char| !it.is_alphanumeric());
        has_ending && is_word && start.eq_ignore_ascii_case(stem)
    };
    let near = names.iter().filter(is_longer).min_by_key(|other| (other.len(), *other));
    // `F.gg` for F.gguf.
    let start = name.rsplit_once('.').map(|(start, _)| start);
    let has_start = |other: &&String| {
        ENDINGS.iter().any(|ending| start.is_some() && other.strip_suffix(ending) == start)
    };
    let near = near.or_else(|| names.iter().find(has_start)).or_else(|| {
        spelling::nearest(name, names.iter(), |other| spelling::distance(name, other))
    })?;
    Some(print::shown(&path.with_file_name(near)))
}

/// The model of Ollama's store whose name a word is a slip of.
fn nearest_stored(name: &Path) -> Option<String> {
    let name = name.to_str().filter(|name| !name.contains(['/', '\\', '.']))?;
    let (_, models, _) = ollama::models(None, &OpenOptions::new()).ok()?;
    let names = models.iter().map(|model| model.name.trim_end_matches(":latest"));
    spelling::nearest(name, names, |other| spelling::distance(name, other)).map(str::to_owned)
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let kind = error.kind();
        Self {
            path: error.path().map(|path| Text::from_path(path).spelling().into_owned()),
            tensor: error.tensor().map(str::to_owned),
            key: error.key().map(str::to_owned),
            offset: error.offset(),
            advice: advice(error),
            ..Self::new(kind.name(), kind.exit_status(), message(error))
        }
    }
}

/// The message of an error, with the name of a model in Ollama's store for the path of its manifest.
fn message(error: &Error) -> String {
    let said = error.to_string();
    let named = error.path().and_then(|path| Some((path, ollama::name_of(path)?)));
    match named {
        Some((path, name)) => said.replacen(&Text::from_path(path).brief(), &name, 1),
        None => said,
    }
}

/// Whether errors and notes are given as JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Errors and notes that are held back until the end, because they are parts of one document.
static HELD: Mutex<Held> = Mutex::new(Held { failures: Vec::new(), notes: Vec::new() });

pub(crate) struct Held {
    pub(crate) failures: Vec<Failure>,
    pub(crate) notes: Vec<String>,
}

/// Makes errors and notes JSON.
pub(crate) fn speak_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Whether errors are given as JSON.
pub(crate) fn is_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// The errors and notes that were held back so far; none if they are printed at once.
pub(crate) fn held() -> Option<std::sync::MutexGuard<'static, Held>> {
    let held = || HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    is_json().then(held)
}

/// Prints an error on standard error, or keeps it for the JSON document.
pub(crate) fn complain(failure: Failure) {
    if let Some(mut held) = held() {
        held.failures.push(failure);
        return;
    }
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let mut err = print::stderr();
    // If standard error is closed too, the message cannot be shown anywhere.
    let _ = err.paragraph(&format!("{red}error{red:#}: {}", failure.message), "error: ".len());
    if let Some(advice) = &failure.advice {
        let bold = anstyle::Style::new().bold();
        let _ = err.paragraph(&format!(" {bold}help{bold:#}: {advice}"), " help: ".len());
    }
}

/// Prints a note on standard error: something worth knowing, not an error. With `--json`, it becomes
/// part of the next document.
pub(crate) fn note(message: &str) {
    match held() {
        Some(mut held) => held.notes.push(message.to_owned()),
        None => print_note(message),
    }
}

/// Notes a text that is the name of a file, and how to give what that file holds: `@` before the name.
pub(crate) fn note_file(text: &str) {
    if Path::new(text).is_file() {
        let name = print::shown(Path::new(text));
        note(&format!("the value is the text \"{name}\"; write @{name} for what that file holds"));
    }
}

pub(crate) fn print_note(message: &str) {
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let note = format!("{yellow}note{yellow:#}: {message}");
    let _ = print::stderr().paragraph(&note, "note: ".len());
}

/// Prints the notes that opening a model produced.
pub(crate) fn remark(model: &weighbridge::Model) {
    for seen in model.notes() {
        note(&format!("{}: {}", print::shown(&seen.path), seen.text));
    }
}

/// The notes so far, for a report in JSON.
pub(crate) fn take_notes() -> Vec<String> {
    held().map_or_else(Vec::new, |mut held| std::mem::take(&mut held.notes))
}

/// An error of the operating system about a file.
pub(crate) fn io(path: &Path, doing: &'static str, error: std::io::Error) -> Stop {
    // One that says all itself: the user pressed Ctrl-C.
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).cloned();
    Stop::Library(own.unwrap_or_else(|| Error::io(doing, error)).in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_s_messages_are_taken_apart() {
        let said = "error: unexpected argument '--nope' found\n\n  tip: to pass '--nope' as a \
                    value, use '-- --nope'\n\nUsage: weighbridge inspect [OPTIONS] <PATH>...\n\n\
                    For more information, try '--help'.\n";
        let failure = Failure::usage(said);
        assert_eq!((failure.kind, failure.status), ("usage", 2));
        assert_eq!(failure.message, "unexpected argument '--nope' found");
        let advice = "Usage: weighbridge inspect [OPTIONS] <PATH>...";
        assert_eq!(failure.advice.as_deref(), Some(advice));
        let said = "error: invalid value 'x' for '--as <FORM>'\n  [possible values: text, npy]\n";
        let fault = "invalid value 'x' for '--as <FORM>': not one of text, npy";
        assert_eq!(Failure::usage(said).message, fault);
        let said = "error: the following required arguments were not provided:\n  <NAME>\n\n\
                    Usage: weighbridge dump <PATH> <NAME>\n";
        let failure = Failure::usage(said);
        assert_eq!(failure.message, "the following required arguments were not provided: <NAME>");
        assert_eq!(failure.advice.as_deref(), Some("Usage: weighbridge dump <PATH> <NAME>"));
    }
}
