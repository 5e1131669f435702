//! `pull`: downloads models.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::ops::{Choose, PullFile, PullOptions, PullPlan, plan_pull};
use weighbridge::{Error, ErrorKind};
use wildmatch::WildMatch;

use super::{Done, each};
use crate::args::{Pull as Args, network};
use crate::json::{self, Versioned};
use crate::print::{self, Fields, Table, bytes, left, plural, right, shown};
use crate::writing::interruptible_bar;
use crate::{Status, Stop, note};

#[derive(Serialize)]
struct Report<'p> {
    name: &'p str,
    /// The path to open.
    path: String,
    bytes: u64,
    /// The bytes that were not on this machine.
    fetched: u64,
    dry_run: bool,
    files: &'p [PullFile],
}

pub(crate) fn run(args: &Args) -> Done {
    let mut network = network();
    network.offline |= args.offline;
    let mut options = PullOptions::new(network);
    options.folder = args.output.clone();
    options.connections = usize::from(args.jobs);
    let (names, files) = names_and_files(args)?;
    if let Some(folder) = args.output.as_deref().filter(|it| is_file_name(it) && !it.is_dir()) {
        let fault = "the name of a file, but files keep their names: -o is their folder";
        return Err(Error::new(ErrorKind::Mismatch, fault).in_file(folder).into());
    }
    let asked = [&args.include[..], &files].concat();
    options.choose = choose(&asked, &args.exclude);
    each(&names, |name| {
        let start = Instant::now();
        let plan = plan_pull(name.to_str().unwrap_or_default(), &options);
        let plan = plan.map_err(|error| or_folder(error, &asked))?;
        check_all(&plan, &asked)?;
        let (missing, copied) = (plan.missing(), plan.copied());
        plan.note.iter().for_each(|text| note(text));
        if let Some(file) = plan.left_out.first() {
            let files = plural(plan.left_out.len(), "file");
            note(&format!("left out: {files}, such as {file}; --include '*' downloads all"));
        }
        if !args.json && !args.quiet {
            write_plan(name, &plan, missing)?;
        }
        if !args.dry_run {
            plan.run(Some(&interruptible_bar()))?;
        }
        let report = Report {
            name: &plan.name,
            path: Text::from_path(&plan.path).spelling().into_owned(),
            bytes: plan.bytes(),
            fetched: missing,
            dry_run: args.dry_run,
            files: &plan.files,
        };
        match (args.json, args.quiet) {
            (true, _) => json::write(&Versioned::new(report))?,
            (_, true) => {
                let path = quiet_path(&plan, options.choose.is_some());
                writeln!(std::io::stdout(), "{}", shown(&path))?;
            }
            _ => write_end(&plan, (missing, copied), args.dry_run, start.elapsed().as_secs_f64())?,
        }
        Ok(Status::Fine)
    })
}

/// The error of a plan without the file that was asked for, which may be meant as a folder to write to.
fn or_folder(error: Error, asked: &[String]) -> Error {
    match (asked, error.advice().map(str::to_owned)) {
        ([name], Some(advice))
            if error.kind() == ErrorKind::NotFound && !name.contains(['*', '?', '.']) =>
        {
            let fault = format!("the repository has no file {name}");
            let advice = format!("{advice}; `-o {name}` downloads to that folder");
            Error::new(ErrorKind::NotFound, fault).advise(advice)
        }
        _ => error,
    }
}

/// Whether a path has the ending of a model's file.
fn is_file_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "gguf" || ending == "safetensors")
}

/// The models, with the revision of --revision, and the files of the only one: as for `hf download`,
/// they may follow the name of the repository.
fn names_and_files(args: &Args) -> Result<(Vec<PathBuf>, Vec<String>), Stop> {
    const ENDINGS: [&str; 8] =
        [".gguf", ".json", ".safetensors", ".txt", ".bin", ".model", ".jinja", ".md"];
    let is_file = |name: &str| ENDINGS.iter().any(|end| name.ends_with(end)) && !name.contains(':');
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let (mut names, mut files) = (Vec::new(), Vec::new());
    for name in args.names.iter().map(text) {
        match (&args.revision, names.is_empty()) {
            (_, false) if is_file(&name) => files.push(name),
            (Some(revision), _) if !name.contains('@') => {
                // ORG/NAME:TYPE: the revision stands before the colon.
                let start = name.rfind('/').unwrap_or(0);
                let end = name[start..].find(':').map_or(name.len(), |place| start + place);
                names.push(format!("{}@{revision}{}", &name[..end], &name[end..]).into());
            }
            _ => names.push(PathBuf::from(name)),
        }
    }
    if names.len() > 1 && !files.is_empty() {
        let (first, rest) = (files.first().map_or("", |file| file), files.len() - 1);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let fault = format!(
            "{first}{more}: files of which repository? Give one at a time, and a glob in quotes: --include '*.json'"
        );
        return Err(Stop::Usage(fault));
    }
    Ok((names, files))
}

/// The name of a file or a folder, or a glob of them.
fn matching(glob: &str) -> [WildMatch; 2] {
    let inside = format!("{}/*", glob.trim_end_matches('/'));
    [WildMatch::new(glob), WildMatch::new(&inside)]
}

/// Refuses a plan that lacks a file or a folder that is asked for by its whole name.
fn check_all(plan: &PullPlan, asked: &[String]) -> Result<(), Stop> {
    let is_planned = |name: &str| {
        let found = matching(name);
        plan.files.iter().any(|file| found.iter().any(|glob| glob.matches(&file.name)))
    };
    let mut named = asked.iter().filter(|name| !name.contains(['*', '?']));
    match named.find(|name| !is_planned(name)) {
        Some(name) => {
            let fault = format!("the repository has no file {name}, or it is left out");
            let advice = "`--include '*' --dry-run` lists all files";
            Err(Error::new(ErrorKind::NotFound, fault).advise(advice).into())
        }
        None => Ok(()),
    }
}

/// The path that --quiet prints, as `hf download` does: of several chosen files their folder, of one the file.
fn quiet_path(plan: &PullPlan, is_chosen: bool) -> PathBuf {
    let root = plan.files.iter().find_map(|file| {
        let text = plan.path.to_str()?.strip_suffix(&file.name)?;
        text.strip_suffix(std::path::is_separator).map(PathBuf::from)
    });
    let root = root.unwrap_or_else(|| plan.path.clone());
    match plan.files.as_slice() {
        _ if !is_chosen => plan.path.clone(),
        [file] => root.join(&file.name),
        _ => root,
    }
}

/// Chooses files by the globs, if there are any.
fn choose(include: &[String], exclude: &[String]) -> Option<Choose> {
    let globs = |globs: &[String]| globs.iter().flat_map(|glob| matching(glob)).collect();
    let [include, exclude]: [Vec<WildMatch>; 2] = [include, exclude].map(globs);
    if include.is_empty() && exclude.is_empty() {
        return None;
    }
    let any = |globs: &[WildMatch], name: &str| globs.iter().any(|glob| glob.matches(name));
    Some(Arc::new(move |name| match any(&exclude, name) {
        true => Some(false),
        false if include.is_empty() => None,
        false => Some(any(&include, name)),
    }))
}

fn write_plan(name: &Path, plan: &PullPlan, missing: u64) -> Result<(), Stop> {
    let mut out = print::stdout();
    let mut fields = Fields::default();
    fields.add("source", plan.name.clone());
    fields.add("size", format!("{}, {}", bytes(plan.bytes()), plural(plan.files.len(), "file")));
    fields.add("to fetch", bytes(missing));
    fields.add("path", shown(&plan.path));
    fields.write(&shown(name), &mut out)?;
    writeln!(out)?;
    let mut table = Table::new(&[left("FILE").middle(24), right("SIZE"), right("PRESENT")]);
    for file in &plan.files {
        let present = match file.present {
            0 => "-".to_owned(),
            present if present == file.bytes => "all".to_owned(),
            present => bytes(present),
        };
        table.row([file.name.clone(), bytes(file.bytes), present]);
    }
    table.write(&mut out)?;
    Ok(out.flush()?)
}

fn write_end(
    plan: &PullPlan,
    (missing, copied): (u64, u64),
    dry_run: bool,
    seconds: f64,
) -> Result<(), Stop> {
    let mut out = print::stdout();
    match (dry_run, missing) {
        (true, _) => writeln!(out, "\ndry run: nothing was downloaded")?,
        (false, 0) if copied > 0 => {
            let (size, path) = (bytes(copied), shown(&plan.path));
            writeln!(out, "\ncopied {size} from the hub's cache: {path}")?;
        }
        (false, 0) => writeln!(out, "\neverything was there: {}", shown(&plan.path))?,
        (false, _) => {
            let (size, path) = (bytes(missing), shown(&plan.path));
            writeln!(out, "\nfetched {size} in {seconds:.1} s: {path}")?;
        }
    }
    Ok(out.flush()?)
}
