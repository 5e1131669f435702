//! Arguments of the subcommands that run a plan in slices.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::size;
use super::write;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weighbridge job plan convert ./Qwen3-235B Qwen3-235B.gguf -o plan.json
  weighbridge job run plan.json 1/16
  weighbridge job status plan.json
  weighbridge job finish plan.json")]
pub(crate) struct Job {
    #[command(subcommand)]
    pub(crate) verb: JobVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobVerb {
    /// Plan a conversion that many processes run in slices
    Plan(Box<Plan>),
    /// Run one slice of a plan
    Run(Slice),
    /// Check the slices of a plan, and move the model to its place
    Finish(Finish),
    /// Show which slices of a plan are done
    Status(SlicesStatus),
}

#[derive(Args, Debug)]
#[command(
    after_help = "The plan says which bytes go where, and from what. Any number of processes on any number of machines
that share the files then run its slices with `job run`, in any order; `job finish` checks them and moves the
model to its place. A slice that failed is run again. The model is the same as without slices, byte for
byte.

Examples:
  weighbridge job plan convert ./Qwen3-235B Qwen3-235B.gguf -o plan.json
  weighbridge job plan quantize F16.gguf Q4_K_M -o plan.json --slurm job.sh
  weighbridge job plan split m.gguf parts/m --max-shard-size 4G -o plan.json
  weighbridge job plan convert ./Qwen3-235B s3://models/big.gguf -o plan.json"
)]
pub(crate) struct Plan {
    #[command(subcommand)]
    pub(crate) verb: PlannedVerb,
}

/// The verb that is planned.
#[derive(Debug, Subcommand)]
pub(crate) enum PlannedVerb {
    /// Plan to convert a model to another container
    #[command(
        after_help = "Examples:\n  weighbridge job plan convert ./Qwen3-235B Qwen3-235B.gguf -o plan.json"
    )]
    Convert(Planned<write::Convert>),
    /// Plan to quantize a model as llama-quantize or mlx-lm does
    #[command(
        after_help = "Examples:\n  weighbridge job plan quantize F16.gguf Q4_K_M -o plan.json --slurm job.sh"
    )]
    Quantize(Planned<write::Quantize>),
    /// Plan to split a model into several files
    #[command(
        after_help = "Examples:\n  weighbridge job plan split m.gguf parts/m --max-shard-size 4G -o plan.json"
    )]
    Split(Planned<write::Split>),
    /// Plan to merge the files of a model into one file
    #[command(
        after_help = "Examples:\n  weighbridge job plan merge parts/m-00001-of-00004.gguf m.gguf -o plan.json"
    )]
    Merge(Planned<write::Merge>),
}

impl PlannedVerb {
    /// The file of the plan.
    pub(crate) fn file(&self) -> &PlanFile {
        match self {
            Self::Convert(planned) => &planned.file,
            Self::Quantize(planned) => &planned.file,
            Self::Split(planned) => &planned.file,
            Self::Merge(planned) => &planned.file,
        }
    }
}

/// The arguments of a subcommand that writes a model, and those of its plan.
#[derive(Args, Debug)]
pub(crate) struct Planned<V: Args> {
    #[command(flatten)]
    pub(crate) verb: V,
    #[command(flatten)]
    pub(crate) file: PlanFile,
}

/// The file of a plan, and the way in which its slices will be run.
#[derive(Args, Debug)]
pub(crate) struct PlanFile {
    /// The file to write the plan to, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Number of slices in the commands that are shown, and in the script
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) slices: u64,
    /// Size of the parts of an upload to an object store, 5 MiB to 5 GiB; each thread buffers one
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) part_size: Option<u64>,
    /// Also write a script for Slurm that runs the slices as an array of jobs
    #[arg(long, value_name = "FILE")]
    pub(crate) slurm: Option<PathBuf>,
}

/// The number of a slice, from 1, and the number of slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceNumber {
    pub(crate) number: u64,
    pub(crate) of: u64,
}

impl std::str::FromStr for SliceNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        parts.filter(|slice| 1 <= slice.number && slice.number <= slice.of).ok_or_else(|| {
            "expected the number of a slice, from 1, and of slices, as in 3/8".into()
        })
    }
}

#[derive(Args, Debug)]
#[command(after_help = "A finished slice is not written again.

Examples:
  weighbridge job run plan.json 1/16
  weighbridge job run plan.json $SLURM_ARRAY_TASK_ID/64 --threads 8
  weighbridge job run plan.json 3/16 --json | jq .bytes")]
pub(crate) struct Slice {
    /// A plan that `job plan` wrote
    pub(crate) plan: PathBuf,
    /// The number of the slice, from 1, and the number of slices
    #[arg(value_name = "I/N")]
    pub(crate) slice: SliceNumber,
    /// Number of threads; 0 means one per processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Every byte is read back and compared with the digests of the slices. A record next to the plan
says that it is finished.

Examples:
  weighbridge job finish plan.json
  weighbridge job finish plan.json --threads 8 --json"
)]
pub(crate) struct Finish {
    /// A plan whose slices are all done
    pub(crate) plan: PathBuf,
    /// Number of threads; 0 means one per processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) threads: usize,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "A plan is finished if `job finish` has left its record, and the files are still the same. Exit status 1
means that slices are missing.

Examples:
  weighbridge job status plan.json
  weighbridge job status plan.json --json | jq .missing"
)]
pub(crate) struct SlicesStatus {
    /// A plan that `job plan` wrote
    pub(crate) plan: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
