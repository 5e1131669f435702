//! `verify`: checks that a model is complete, follows its format and, on request, has valid values.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weighbridge::adapter::Adapter;
use weighbridge::bytes::Text;
use weighbridge::ops::{self, HashDifference, HashList, VerifyOptions, VerifyReport};
use weighbridge::{Model, Strictness};
use weighbridge_reference::Trial;

use super::each::{self, each};
use super::split::folder_of_shard;
use super::{Done, hash};
use crate::args::Verify;
use crate::failure::Failure;
use crate::json::{self, Versioned};
use crate::print::{self, Bar, plural, shown};
use crate::{Status, Stop, note};

pub(crate) fn run(args: &Verify) -> Done {
    let single = [
        ("--against", args.against.is_some()),
        ("--sha256", args.sha256.is_some()),
        ("--hub", args.hub.is_some()),
    ];
    if let Some((option, _)) = single.iter().find(|(_, is_given)| *is_given && args.paths.len() > 1)
    {
        let fault = format!("{option} compares one model, but several are given");
        return Err(Stop::Usage(fault));
    }
    if args.save.is_some() && args.paths.len() > 1 {
        let fault = "--save writes the list of one model, but several are given";
        return Err(Stop::Usage(fault.to_owned()));
    }
    let list = args.against.as_deref().map(list).transpose()?;
    // A shard of safetensors lacks the tensors of the others.
    let whole = |path: &PathBuf| match folder_of_shard(path) {
        Some(folder) if args.sha256.is_none() => folder,
        _ => path.clone(),
    };
    let mut paths: Vec<PathBuf> = args.paths.iter().map(whole).collect();
    paths.dedup();
    if args.against.is_none() && args.sha256.is_none() && args.save.is_none() {
        paths = paths.iter().flat_map(|path| with_siblings(args, path)).collect();
    }
    let several = each::models(&paths).len() > 1;
    let misfits = misfits(args, &paths);
    each(&paths, |path| one(args, list.as_ref(), (path, several), misfits.get(path)))
}

/// A projector that fits no language model next to it.
struct Misfit {
    text: String,
    /// Whether both were given, and no other model.
    is_pair: bool,
}

/// The projectors that fit none of the language models that are given with them, or the one that they lie next to, by the
/// path whose report names them.
fn misfits(args: &Verify, paths: &[PathBuf]) -> BTreeMap<PathBuf, Misfit> {
    let is_local = |path: &&PathBuf| !path.to_string_lossy().contains("://");
    let opened = |path: &PathBuf| Some((path.clone(), args.open.options().open(path).ok()?));
    let all = each::models(paths).into_iter().filter(is_local).filter_map(opened);
    let (projectors, models): (Vec<_>, Vec<_>) = all.partition(|(_, model)| model.is_projector());
    if let ([(path, model)], []) = (models.as_slice(), projectors.as_slice()) {
        let text = misfit_next_to(path, model);
        return text
            .map(|text| (path.clone(), Misfit { text, is_pair: false }))
            .into_iter()
            .collect();
    }
    let misfit = |(path, projector): (PathBuf, Model)| {
        let faults = models.iter().map(|(_, model)| model.projector_fault(&projector));
        let text = faults.collect::<Option<Vec<_>>>()?.into_iter().next()?;
        Some((path, Misfit { text, is_pair: models.len() == 1 }))
    };
    projectors.into_iter().filter_map(misfit).collect()
}

/// The fault of the projectors in the folder of a GGUF model, if it is the only model there and none fits.
fn misfit_next_to(path: &Path, model: &Model) -> Option<String> {
    let file =
        model.files().next().filter(|file| file.extension().is_some_and(|it| it == "gguf"))?;
    let folder = file.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    let is_projector = |name: &str| name.ends_with(".gguf") && name.contains("mmproj");
    let mut found: Vec<PathBuf> = names
        .filter(|name| name.to_str().is_some_and(is_projector))
        .map(|name| folder.join(name))
        .collect();
    found.sort();
    let mut first = None;
    for projector in found.iter().filter(|other| *other != file) {
        let fault = model.projector_fault(&Model::open(projector).ok()?)?;
        first.get_or_insert(format!("{}: {fault}", shown(projector)));
    }
    let is_same = |only: Model| only.path().file_name() == model.path().file_name();
    // That of a folder is among the notes on opening it.
    let is_only = || !path.is_dir() && Model::open(folder).is_ok_and(is_same);
    first.filter(|_| is_only())
}

/// The model that a name means, or all GGUF models of a repository in the hub's cache.
fn with_siblings(args: &Verify, path: &Path) -> Vec<PathBuf> {
    let name = path.to_str().unwrap_or_default();
    let is_one =
        path.is_file() || name.contains("://") || name.contains(':') || name.ends_with(".gguf");
    let opened = || args.open.options().open(path).ok().map(|model| model.path().to_path_buf());
    let in_snapshot = |file: &Path| {
        let is_gguf = file.extension().is_some_and(|ending| ending == "gguf");
        let mut folders = file.ancestors().filter(|_| is_gguf);
        let is_snapshot =
            |folder: &&Path| folder.parent().is_some_and(|it| it.ends_with("snapshots"));
        folders.find(is_snapshot).map(Path::to_path_buf)
    };
    let snapshot = if is_one { None } else { opened().and_then(|file| in_snapshot(&file)) };
    let models = snapshot.map_or_else(Vec::new, |folder| ggufs(&folder));
    if models.len() > 1 { models } else { vec![path.to_path_buf()] }
}

/// The GGUF files of a folder and of those in it that are opened by themselves, in order.
fn ggufs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
        let is_later = name.contains("-of-") && !name.contains("-00001-of-");
        match path.is_dir() {
            true => found.extend(ggufs(&path)),
            false if name.ends_with(".gguf") && !is_later && !name.contains("imatrix") => {
                found.push(path);
            }
            false => {}
        }
    }
    found.sort();
    found
}

/// Reads a list of hashes. A model in its place is to be compared otherwise.
fn list(path: &Path) -> Result<HashList, Stop> {
    HashList::open(path).map_err(|error| match Model::open(path) {
        Ok(_) => Stop::Usage(format!(
            "{} is a model, not a list of hashes: `weighbridge diff A B` compares two models",
            shown(path)
        )),
        Err(_) if hash::begins_as_list(path).is_ok_and(|begins| !begins) => {
            error.advise("`weighbridge hash MODEL --save LIST` writes a list").into()
        }
        Err(_) => error.into(),
    })
}

/// Verifies a model. One of several has its path in each line of its faults.
fn one(
    args: &Verify,
    list: Option<&HashList>,
    (path, several): (&Path, bool),
    misfit: Option<&Misfit>,
) -> Done {
    let saved = args.save.as_deref().map(hash::create).transpose()?;
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let options = VerifyOptions::new().deep(args.deep).progress(&watch);
    let options = match list {
        Some(list) => options.against(list),
        None => options,
    };
    let options = match &args.sha256 {
        Some(hex) => options.sha256(hex),
        None => options,
    };
    let options = match &args.hub {
        Some(name) => options.hub(name),
        None => options,
    };
    let network = args.open.network();
    let options = options.network(&network);
    // What only strict rules refuse is reported as a fault, so the file is opened without them.
    let (open, options) = match args.open.strict {
        true => (
            args.open.options().strictness(Strictness::Default),
            options.strictness(Strictness::Strict),
        ),
        false => (args.open.options(), options),
    };
    let model = open.open(path);
    // A digest needs no format.
    if let (Err(error), Some(hex), true) = (&model, &args.sha256, path.is_file()) {
        return compare(args, path, hex, error);
    }
    // A reader of the lines of many files would miss it.
    if let (Err(error), true) = (&model, args.json) {
        let faults = Vec::new();
        json::write(&Versioned::of(path, Unopened { ok: false, faults, error: error.into() }))?;
    }
    let model = model?;
    let mut report = ops::verify(&model, &options)?;
    if let Some(Misfit { text, is_pair }) = misfit {
        let list = if *is_pair { &mut report.faults } else { &mut report.notes };
        list.push(text.clone());
    }
    drop(bar);
    // A model with faults may not run, and the faults say why.
    let trial = match args.run && report.is_fine() {
        true => Some(Trial::run(&Adapter::with_attached(&model)?)?),
        false => None,
    };
    let runs = trial.as_ref().is_none_or(|trial| trial.faults.is_empty());
    let fine = report.is_fine() && runs;
    if args.json {
        json::write(&Versioned::of(
            path,
            Report { ok: fine, report: &report, run: trial.as_ref() },
        ))?;
    } else {
        write_text(&report, trial.as_ref(), args.against.as_deref(), several)?;
    }
    let found = if fine { Status::Fine } else { Status::Found };
    let (Some(list), Some(path)) = (saved, &args.save) else { return Ok(found) };
    let found = found.max(hash::save(&model, list, false)?);
    note(&format!("wrote {}", shown(path)));
    Ok(found)
}

/// Compares the SHA-256 of a file that is no model, which `error` says.
fn compare(args: &Verify, path: &Path, hex: &str, error: &weighbridge::Error) -> Done {
    let fault = ops::digest_fault(path, hex)?;
    let ok = fault.is_none();
    if args.json {
        let faults = fault.into_iter().collect();
        json::write(&Versioned::of(path, Unopened { ok, faults, error: error.into() }))?;
    } else {
        let mut out = print::stdout();
        match fault {
            Some(fault) => writeln!(out, "fault: {fault}")?,
            None => writeln!(out, "{}: ok: the SHA-256 is the given one", shown(path))?,
        }
        out.flush()?;
        note(&format!("nothing else was checked: {error}"));
    }
    Ok(if ok { Status::Fine } else { Status::Found })
}

/// The report on a model that does not open.
#[derive(Serialize)]
struct Unopened {
    ok: bool,
    /// That of the digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    error: Failure,
}

#[derive(Serialize)]
struct Report<'r> {
    /// Whether there is neither a fault nor a remark nor a difference: exit status 0.
    ok: bool,
    #[serde(flatten)]
    report: &'r VerifyReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'r Trial>,
}

fn write_text(
    report: &VerifyReport,
    trial: Option<&Trial>,
    list: Option<&Path>,
    several: bool,
) -> Result<(), Stop> {
    let mut out = print::stdout();
    let path = shown(&report.path);
    // Faults and notes of files name them.
    let of = |text: &str| match several && !text.starts_with(&*path) {
        true => format!("{path}: "),
        false => String::new(),
    };
    let ran = trial.map_or(&[][..], |trial| &trial.faults);
    let name = |name: &str| Text::new(name.as_bytes()).brief();
    let faults = report.faults.len() + ran.len();
    let mut counts = [("fault", faults), ("remark", 0), ("difference", 0)];
    for fault in report.faults.iter().chain(ran) {
        writeln!(out, "{}fault: {fault}", of(fault))?;
    }
    for finding in report.findings.iter().flatten() {
        let row = &mut counts[usize::from(!finding.fault)];
        row.1 += 1;
        let (of, name) = (of(""), name(&finding.name));
        writeln!(out, "{of}{}: {name}: {}", row.0, finding.text)?;
    }
    for difference in report.differences.iter().flatten() {
        counts[2].1 += 1;
        let (of, name) = (of(""), name(&difference.name));
        writeln!(out, "{of}difference: {name}: {}", text(difference))?;
    }
    for note in &report.notes {
        writeln!(out, "{}note: {note}", of(note))?;
    }
    let files = plural(report.files, "file");
    let tensors = plural(report.tensors, "tensor");
    let counts: Vec<String> =
        counts.iter().filter(|row| row.1 > 0).map(|row| plural(row.1, row.0)).collect();
    if counts.is_empty() {
        let (digests, unchecked) = match report.digests {
            0 if list.is_none() => (String::new(), "; content not compared: no checksum is known"),
            0 => (String::new(), ""),
            n => (format!(", {}", plural(n, "digest")), ""),
        };
        let values = if report.findings.is_some() { ", values" } else { "" };
        let ran = match trial.map(|trial| (trial.tokens, trial.perplexity)) {
            None => String::new(),
            Some((tokens, None)) => format!("; ran {tokens} tokens"),
            Some((tokens, Some(found))) => {
                let vocabulary = trial.map_or(0, |trial| trial.vocabulary);
                let worse = match found > vocabulary as f64 {
                    true => format!(", worse than chance among {vocabulary} tokens"),
                    false => String::new(),
                };
                format!("; ran {tokens} tokens of a text, perplexity {found:.1}{worse}")
            }
        };
        let list = list.map_or(String::new(), |list| format!("; all hashes match {}", shown(list)));
        writeln!(
            out,
            "{path}: ok: {files}, {tensors}; checked headers, names, shapes, byte ranges{digests}{values}{unchecked}{ran}{list}"
        )?;
    } else {
        writeln!(out, "{path}: {} in {files}, {tensors}", counts.join(", "))?;
    }
    out.flush()?;
    Ok(())
}

/// The difference as text, without the hashes themselves.
fn text(difference: &HashDifference) -> String {
    let changes =
        difference.changes.iter().map(|change| match (change.what, &change.saved, &change.found) {
            (what @ ("dtype" | "shape"), Some(saved), Some(found)) => {
                format!("{what} {saved} to {found}")
            }
            (what, ..) => what.to_owned(),
        });
    match difference.difference {
        "missing" => "missing from the model".to_owned(),
        "extra" => "not in the list".to_owned(),
        _ => format!("changed: {}", changes.collect::<Vec<_>>().join(", ")),
    }
}
