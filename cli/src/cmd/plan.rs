//! `plan`: describes what a conversion writes, so that many processes can run it in slices.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weighbridge::json::{Json, json};
use weighbridge::remote::Network;
use weighbridge::write::{Slices, check_sources};
use weighbridge::{Error, ErrorKind, WriteOptions};

use super::{Done, convert, merge, quantize, split};
use crate::args::slices::{Job, JobVerb, Plan, PlannedVerb};
use crate::args::write::{Whole, Writing};
use crate::args::{self, Command, VERSION};
use crate::json::{self, SCHEMA, Versioned};
use crate::newfile::NewFile;
use crate::print::{self, bytes, plural, shown};
use crate::writing::{self, Prepared};
use crate::{Status, Stop, failure, note};

/// The report of a plan.
#[derive(Serialize)]
struct PlannedReport<'r> {
    plan: &'r Path,
    destination: &'r Path,
    format: &'static str,
    files: usize,
    bytes: u64,
    pieces: &'r Json,
    sources: usize,
    sha256: &'r str,
}

pub(crate) fn run(args: &Plan, words: &[OsString]) -> Done {
    let prepared = prepare(&args.verb)?;
    let (writing, whole) = settings(&args.verb);
    if writing.dry_run {
        let Prepared { model, plan, dst, .. } = &prepared;
        return writing::run_whole(model, plan, dst, whole, writing);
    }
    prepared.plan.notes.iter().for_each(|text| note(text));
    let file = args.verb.file();
    let network = writing.open.network();
    let slices = cut(&prepared, options(&args.verb, &network))?;
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words
        .ok_or_else(|| Stop::Usage("a plan cannot hold arguments that are not UTF-8".to_owned()))?;
    if let Some(word) = words.iter().find(|word| word.starts_with("http") && word.contains('?')) {
        let (address, _) = word.split_once('?').unwrap_or_default();
        let fault = format!(
            "{address}?...: a plan cannot keep an address with a query, which may be a signature"
        );
        return Err(Stop::Usage(fault));
    }
    let directory = std::env::current_dir()
        .map_err(|error| failure::io(Path::new("."), "cannot find the folder", error))?;
    let document = json!({
        "schema": SCHEMA,
        "version": VERSION,
        "directory": directory.to_string_lossy(),
        "command": words,
        "sha256": slices.digest(),
        "plan": slices.description(),
    });
    create(&file.output, document.to_string().as_bytes())?;
    // That of an earlier plan of this name.
    let _ = std::fs::remove_file(record_of(&file.output)?);
    if let Err(error) = slices.begin(&options(&args.verb, &network)) {
        let _ = std::fs::remove_file(&file.output);
        return Err(error.into());
    }
    if let Some(script) = &file.slurm {
        create(script, slurm(&file.output, file.slices)?.as_bytes())?;
    }
    let plan = &prepared.plan;
    let report = PlannedReport {
        plan: &file.output,
        destination: &prepared.dst,
        format: plan.format,
        files: plan.files().len(),
        bytes: plan.bytes(),
        pieces: &slices.description()["pieces"],
        sources: slices.description()["sources"].as_array().map_or(0, Vec::len),
        sha256: slices.digest(),
    };
    if writing.json {
        json::write(&Versioned::new(&report))?;
        return Ok(Status::Fine);
    }
    let mut out = print::stdout();
    let (name, all) = (shown(&file.output), file.slices);
    writeln!(
        out,
        "{name}: {} in {}, {} pieces, from {}",
        bytes(report.bytes),
        plural(report.files, "file"),
        report.pieces,
        plural(report.sources, "file"),
    )?;
    writeln!(
        out,
        "to run: seq {all} | parallel --retries 3 weighbridge job run {name} {{}}/{all}"
    )?;
    if let Some(script) = &file.slurm {
        writeln!(out, "or:     sbatch {}", shown(script))?;
    }
    writeln!(out, "then:   weighbridge job finish {name}")?;
    out.flush()?;
    Ok(Status::Fine)
}

/// The plan of a subcommand.
fn prepare(verb: &PlannedVerb) -> Result<Prepared, Stop> {
    match verb {
        PlannedVerb::Convert(planned) => convert::prepare(&planned.verb),
        PlannedVerb::Quantize(planned) => quantize::prepare(&planned.verb),
        PlannedVerb::Split(planned) => split::prepare(&planned.verb),
        PlannedVerb::Merge(planned) => merge::prepare(&planned.verb),
    }
}

fn settings(verb: &PlannedVerb) -> (&Writing, Whole) {
    match verb {
        PlannedVerb::Convert(planned) => (&planned.verb.writing, planned.verb.whole),
        PlannedVerb::Quantize(planned) => (&planned.verb.writing, planned.verb.whole),
        PlannedVerb::Split(planned) => (&planned.verb.writing, Whole::default()),
        PlannedVerb::Merge(planned) => (&planned.verb.writing, Whole::default()),
    }
}

/// The options of a plan's runs.
fn options<'w>(verb: &PlannedVerb, network: &'w Network) -> WriteOptions<'w> {
    let (writing, whole) = settings(verb);
    let options = whole.options().overwrite(writing.overwrite).network(network);
    match verb.file().part_size {
        Some(bytes) => options.part_bytes(bytes),
        None => options,
    }
}

/// Cuts a plan into slices. The files beside the models count as sources too.
fn cut<'p>(prepared: &'p Prepared, options: WriteOptions<'_>) -> Result<Slices<'p>, Stop> {
    let mut others: Vec<PathBuf> = Vec::new();
    for path in &prepared.others {
        match std::fs::read_dir(path) {
            // An adapter may be a folder.
            Ok(entries) => {
                others.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
            }
            Err(_) => others.push(path.clone()),
        }
    }
    others.retain(|path| path.is_file());
    others.sort();
    Ok(prepared.plan.slices(&prepared.dst, &others, &options)?)
}

/// A plan that was read from a file, and is still true.
pub(super) struct ReadPlan {
    pub(super) prepared: Prepared,
    verb: PlannedVerb,
    network: Network,
    description: Json,
}

/// A plan as a file holds it.
pub(super) struct PlanDocument {
    pub(super) destination: PathBuf,
    /// The path of the record that `finish` leaves.
    pub(super) record: PathBuf,
    pub(super) description: Json,
    words: Vec<String>,
}

/// Reads the file of a plan, and goes to the folder in which it was made: paths are relative to that.
pub(super) fn read(path: &Path) -> Result<PlanDocument, Stop> {
    let malformed = |fault: &str| {
        let error = Error::new(ErrorKind::Malformed, fault.to_owned());
        error.advise("`job plan` writes plans").in_file(path)
    };
    let text = weighbridge::bytes::Source::open(path, weighbridge::bytes::Access::Read)?;
    let text = text.bytes(0..text.len())?;
    let document = Json::parse(&text).map_err(|error| malformed(&format!("no plan: {error}")))?;
    let version = document["version"].as_str().unwrap_or_default();
    if version != VERSION {
        let fault = format!("the plan is of version \"{version}\", but this program is {VERSION}");
        let error = Error::new(ErrorKind::Unsupported, fault);
        return Err(error.advise("use the same program for all slices").in_file(path).into());
    }
    let words = document["command"].as_array().map(|words| {
        words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect::<Vec<String>>()
    });
    let words = words.ok_or_else(|| malformed("the plan holds no command"))?;
    let record = record_of(path)?;
    let directory = document["directory"].as_str();
    let directory = Path::new(directory.ok_or_else(|| malformed("the plan names no folder"))?);
    std::env::set_current_dir(directory)
        .map_err(|error| failure::io(directory, "cannot go to the folder of the plan", error))?;
    let description = document["plan"].clone();
    let destination = description["destination"].as_str();
    let destination = destination.ok_or_else(|| malformed("the plan names no destination"))?;
    let destination = PathBuf::from(destination);
    Ok(PlanDocument { destination, record, description, words })
}

/// The path of the record that `finish` leaves: a hidden file next to that of the plan.
fn record_of(plan: &Path) -> Result<PathBuf, Stop> {
    let failed = |error| failure::io(plan, "cannot find the file", error);
    let plan = std::path::absolute(plan).map_err(failed)?;
    let name = plan.file_name().unwrap_or_default().to_string_lossy();
    Ok(plan.with_file_name(format!(".{name}.finished")))
}

impl ReadPlan {
    /// Makes the plan again from its sources.
    pub(super) fn again(document: PlanDocument) -> Result<Self, Stop> {
        let PlanDocument { description, words, .. } = document;
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        check_sources(&description)?;
        let verb = match args::program::Program::new().parse(&words).map(|cli| cli.command) {
            Ok(Command::Job(Job { verb: JobVerb::Plan(plan) })) => plan.verb,
            _ => return Err(Stop::Usage("the plan has no command that makes it".to_owned())),
        };
        let network = settings(&verb).0.open.network();
        Ok(Self { prepared: prepare(&verb)?, verb, network, description })
    }

    /// Its slices, if the plan is still the same.
    pub(super) fn slices(&self) -> Result<Slices<'_>, Stop> {
        let slices = cut(&self.prepared, self.options())?;
        slices.check(&self.description)?;
        Ok(slices)
    }

    /// The options of its runs.
    pub(super) fn options(&self) -> WriteOptions<'_> {
        options(&self.verb, &self.network)
    }
}

/// Writes a file that must not exist.
fn create(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let mut file = NewFile::create(path, |path| {
        let error = Error::new(ErrorKind::Mismatch, "already exists").advise("choose another path");
        Err(error.in_file(path).into())
    })?;
    let failed = |error| failure::io(path, "cannot write the file", error);
    file.write_all(bytes).map_err(failed)?;
    file.finish()
}

/// A script that Slurm runs as an array of jobs; see sbatch(1).
fn slurm(plan: &Path, slices: u64) -> Result<String, Stop> {
    let failed = |error| failure::io(plan, "cannot find the file", error);
    let plan = plan.canonicalize().map_err(failed)?;
    let plan = plan.to_string_lossy().replace('\'', r"'\''");
    Ok(format!(
        "#!/bin/sh
# Runs the slices of a plan: sbatch THIS, then `weighbridge job finish`.
#SBATCH --job-name=weighbridge
#SBATCH --array=1-{slices}
#SBATCH --requeue
exec weighbridge job run '{plan}' \"$SLURM_ARRAY_TASK_ID/{slices}\" \\
    --threads \"${{SLURM_CPUS_PER_TASK:-0}}\"
"
    ))
}
