//! The subcommands, one file each.

mod compare;
mod config;
mod convert;
mod create;
mod diff;
mod dump;
mod each;
mod embed;
mod filter;
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
mod tokens;
mod verify;
mod view;

use std::ffi::OsString;

use crate::Done;
use crate::args::Command;
use each::each;
use filter::{Filter, no_match};

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
        Command::Tokens(args) => tokens::run(&args),
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
