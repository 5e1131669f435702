//! The subcommands, one file each.

mod bench;
mod convert;
mod create;
mod demo;
mod diff;
mod dump;
mod each;
mod embed;
mod filter;
mod generate;
mod hash;
mod inspect;
mod list;
mod logits;
mod man;
mod memory;
mod merge;
mod meta;
mod models;
mod plan;
#[cfg(feature = "http")]
mod pull;
mod quality;
mod quantize;
mod sampling;
mod show;
mod slice;
mod split;
mod tokens;
mod verify;
mod view;

use std::ffi::OsString;

use crate::args::Command;
use crate::args::run::RunVerb;
use crate::args::slices::JobVerb;
use crate::{Done, interrupt};
use each::{each, separated};
use filter::{Filter, no_match};

/// Runs a command, which was given in these words.
pub(crate) fn run(command: Command, words: &[OsString]) -> Done {
    use Command::{Convert, Create, Merge, Meta, Quantize, Split, View};
    // The system ends a server.
    if !matches!(command, View(_)) {
        interrupt::listen(matches!(
            command,
            Convert(_) | Create(_) | Merge(_) | Meta(_) | Quantize(_) | Split(_)
        ));
    }
    match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::View(args) => view::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Quality(args) => quality::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Quantize(args) => quantize::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Split(args) => split::run(&args),
        Command::Meta(args) => meta::run(&args),
        #[cfg(feature = "http")]
        Command::Pull(args) => pull::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Job(args) => match args.verb {
            JobVerb::Plan(args) => plan::run(&args, words),
            JobVerb::Run(args) => slice::run(&args),
            JobVerb::Finish(args) => slice::finish(&args),
            JobVerb::Status(args) => slice::status(&args),
        },
        Command::Run(args) => match args.verb {
            RunVerb::Generate(args) => generate::run(&args),
            RunVerb::Embed(args) => embed::run(&args),
            RunVerb::Logits(args) => logits::run(&args),
            RunVerb::Tokens(args) => tokens::run(&args),
        },
        Command::Demo => demo::run(),
        Command::Bench(args) => bench::run(&args),
        Command::List(args) => list::run(&args),
        Command::Hash(args) => hash::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Completions(args) => list::completions(&args),
        Command::Man(args) => man::run(&args),
    }
}
