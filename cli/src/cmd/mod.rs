//! The subcommands, one file each.

mod compare;
mod config;
mod convert;
mod create;
mod diff;
mod dump;
mod embed;
mod generate;
mod hash;
mod inspect;
mod list;
mod load;
mod logits;
mod man;
mod memory;
mod merge;
mod meta;
mod models;
mod plan;
#[cfg(feature = "http")]
mod pull;
mod quantize;
mod report;
mod show;
mod slice;
mod split;
mod verify;
mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use weighbridge::{Error, ErrorKind};

use crate::args::Command;
use crate::json::Reports;
use crate::{Stop, failure};

/// The result of a subcommand.
pub(crate) type Done = Result<crate::Status, Stop>;

/// Runs a command, which was given in these words.
pub(crate) fn run(command: Command, words: &[OsString]) -> Done {
    match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Hash(args) => hash::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::View(args) => view::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Logits(args) => logits::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Split(args) => split::run(&args),
        Command::Merge(args) => merge::run(&args),
        #[cfg(feature = "http")]
        Command::Pull(args) => pull::run(&args),
        Command::Plan(args) => plan::run(&args, words),
        Command::Slice(args) => slice::run(&args),
        Command::Finish(args) => slice::finish(&args),
        Command::Status(args) => slice::status(&args),
        Command::Align(args) => merge::align(&args),
        Command::Meta(args) => meta::run(&args),
        Command::List(args) => list::run(&args),
        Command::Completions(args) => list::completions(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Runs a command on one model after another. A model that fails does not stop the others; its
/// status is that of the command.
pub(crate) fn each(
    paths: &[PathBuf],
    json: bool,
    mut run: impl FnMut(&Path, &mut Reports) -> Done,
) -> Done {
    let several = paths.len() > 1;
    let mut reports = Reports::begin(several && json)?;
    let (mut status, mut failed) = (crate::Status::Fine, None);
    for path in paths {
        match run(path, &mut reports) {
            Ok(found) => status = status.max(found),
            Err(stop @ (Stop::Library(_) | Stop::Usage(_))) if several => {
                let reported = failure::report(&stop);
                failed.get_or_insert(reported);
            }
            Err(stop) => return Err(stop),
        }
    }
    reports.end()?;
    failed.map_or(Ok(status), |status| Err(Stop::Reported(status)))
}

/// The names that `--filter` matches.
pub(crate) struct Filter(Option<wildmatch::WildMatch>);

impl Filter {
    pub(crate) fn new(glob: Option<&str>) -> Self {
        Self(glob.map(wildmatch::WildMatch::new))
    }

    pub(crate) fn passes(&self, stored: &str, canonical: Option<&str>) -> bool {
        let Some(glob) = &self.0 else { return true };
        glob.matches(stored) || canonical.is_some_and(|name| glob.matches(name))
    }
}

/// The error of a filter that matches no tensor of a model.
pub(crate) fn no_match(glob: &str, model: &Path) -> Error {
    let fault = format!("no tensor name matches \"{glob}\"");
    let advice = "`inspect` lists the names; * matches any text, ? one character";
    Error::new(ErrorKind::NotFound, fault).advise(advice).in_file(model)
}
