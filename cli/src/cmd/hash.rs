//! `hash`: prints the digests of every tensor, in constant memory.

use std::io::{Read, Write};
use std::path::Path;

use weighbridge::bytes::Text;
use weighbridge::ops::{self, HashList, HashOptions, HashReport};
use weighbridge::{Error, ErrorKind, Model};

use super::{Done, each};
use crate::args::Hash;
use crate::failure::Failure;
use crate::json::{self, Versioned};
use crate::newfile::NewFile;
use crate::print::{self, Bar, shown};
use crate::{Status, Stop, complain, failure, note, remark};

pub(crate) fn run(args: &Hash) -> Done {
    if args.save.is_some() && args.paths.len() > 1 {
        let fault = "--save writes the list of one model, but several are given";
        return Err(Stop::Usage(fault.to_owned()));
    }
    each(&args.paths, |path| one(args, path))
}

fn one(args: &Hash, path: &Path) -> Done {
    let model = args.open.options().open(path)?;
    remark(&model);
    if let Some(list) = &args.save {
        return save(&model, create(list)?, args.values);
    }
    let report = hashes(&model, args.values, false)?;
    if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
    } else {
        let heading = (args.paths.len() > 1).then(|| model.path());
        write_text(&report, heading)?;
        if path.is_file() && print::stdout_columns().is_some() {
            let file = shown(path);
            note(&format!(
                "these are digests of tensors; `sha256sum {file}` prints that of the file, which `weighbridge verify \
                 {file} --sha256 HEX` compares"
            ));
        }
    }
    status(&report)
}

fn hashes(model: &Model, values: bool, parts: bool) -> Result<HashReport, Stop> {
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    Ok(ops::hash(model, &HashOptions::new().values(values).parts(parts).progress(&watch))?)
}

/// Writes a list of the hashes of a model's tensors.
pub(super) fn save(model: &Model, mut list: NewFile, values: bool) -> Done {
    let report = hashes(model, values, true)?;
    // The list format has no field for why a hash is missing.
    let errors = report.tensors.iter().filter_map(|tensor| tensor.error.as_ref());
    let mut failed = errors.filter(|error| error.kind() != ErrorKind::Unsupported);
    if let Some(error) = failed.next() {
        return Err(Stop::Library(error.clone()));
    }
    write!(list, "{}", HashList::new(&report))?;
    list.finish()?;
    status(&report)
}

fn write_text(report: &HashReport, heading: Option<&Path>) -> Result<(), Stop> {
    let mut out = print::stdout();
    if let Some(path) = heading {
        writeln!(out, "{}:", shown(path))?;
    }
    for tensor in &report.tensors {
        let shown = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".repeat(64));
        let values = tensor.f32_sha256.as_ref().map(shown);
        let digests = std::iter::once(shown(&tensor.raw_sha256)).chain(values);
        let name = Text::new(&tensor.raw_name).spelling();
        // Digests and names are there to be compared, so that none is cut.
        let name = Text::new(name.as_bytes()).to_string();
        out.row(&digests.chain([name]).collect::<Vec<_>>().join("  "))?;
    }
    out.flush()?;
    Ok(())
}

/// The status: tensors that cannot be read do not stop the report, but change the status.
fn status(report: &HashReport) -> Done {
    let errors: Vec<_> = report.tensors.iter().filter_map(|tensor| tensor.error.as_ref()).collect();
    let failed = errors.iter().rev().find(|error| error.kind() != ErrorKind::Unsupported);
    if let Some(error) = failed {
        return Err(Stop::Library((*error).clone()));
    }
    let Some((first, others)) = errors.split_first() else { return Ok(Status::Fine) };
    let more = match others.len() {
        0 => String::new(),
        others => format!("; {others} more cannot be read either"),
    };
    complain(Failure::from(*first).and(&more));
    Ok(Status::Unsupported)
}

/// Begins a hash list, which replaces only another hash list: any other file may be the model.
pub(super) fn create(path: &Path) -> Result<NewFile, Stop> {
    NewFile::create(path, |path| {
        let is_list = begins_as_list(path);
        if is_list.map_err(|error| failure::io(path, "cannot read the file", error))? {
            return Ok(true);
        }
        let fault = "already exists and is not a hash list";
        let error = Error::new(ErrorKind::Mismatch, fault).advise("choose another path");
        Err(error.in_file(path).into())
    })
}

/// Whether a file begins as a list of hashes.
pub(super) fn begins_as_list(path: &Path) -> std::io::Result<bool> {
    let mut start = [0; HashList::MAGIC.len()];
    match std::fs::File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| start == *HashList::MAGIC.as_bytes()),
    }
}
