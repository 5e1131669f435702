//! `models`: the models on this machine.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weighbridge::bytes::Text;
use weighbridge::inventory::{
    Action, DamagedFile, DuplicateGroup, DuplicateSearch, Inventory, InventoryOptions,
    InventoryStage, ListedModel, PROGRAMS, inventory,
};
use weighbridge::{Error, ErrorKind, Progress};

use super::{Done, Filter};
use crate::args::{DuplicatesBy, Models, SortBy, is_program};
use crate::interrupt::Watch;
use crate::json::{self, Versioned};
use crate::print::{self, Bar, Column, Steps, Table, bytes, count, left, plural, right, shown};
use crate::{Status, Stop, complain, note, settings};

pub(crate) fn run(args: &Models) -> Done {
    let (programs, mut roots): (Vec<_>, Vec<_>) =
        args.folders.iter().cloned().partition(|it| is_program(it));
    let only: Vec<&str> = programs.iter().filter_map(|name| name.to_str()).collect();
    if args.folders.is_empty() {
        roots = settings::read()?.roots;
        roots.retain(|root| {
            let is_there = root.is_dir();
            if !is_there {
                note(&format!("{}: no such folder, which the settings name", shown(root)));
            }
            is_there
        });
    }
    let filter = Filter::new(args.filter.as_deref());
    let passes = |name: &str| filter.passes(name, None);
    let (models, weights) = (OnceLock::new(), OnceLock::new());
    let interrupt = Watch::new();
    let watch = |stage: InventoryStage, progress: Progress| {
        if interrupt.is_interrupted() {
            return ControlFlow::Break(());
        }
        match stage {
            InventoryStage::Reading => weights.get_or_init(Bar::new).show(progress),
            _ => {
                models.get_or_init(|| Steps::new("models", progress.total)).advance(1);
                ControlFlow::Continue(())
            }
        }
    };
    let options = InventoryOptions::new()
        .programs(args.folders.is_empty() || !only.is_empty())
        .only(&only)
        .roots(roots)
        .duplicates(match args.duplicates {
            None => DuplicateSearch::Known,
            Some(DuplicatesBy::Files) => DuplicateSearch::Content,
            Some(DuplicatesBy::Values) => DuplicateSearch::Values,
        })
        .names(&passes)
        .progress(&watch);
    let found = inventory(&options);
    drop((models, weights));
    let mut found = found?;
    found.faults.iter().for_each(|fault| note(&fault.to_string()));
    if let Some(glob) = args.filter.as_deref().filter(|_| found.models.is_empty()) {
        let fault = format!("no model's name matches \"{glob}\"");
        let advice = match glob.contains(['<', '=', '>']) {
            true => "a filter is a part of a name, or a glob; `--sort size` sorts",
            false => "`weighbridge models` lists the names",
        };
        return Err(Error::new(ErrorKind::NotFound, fault).advise(advice).into());
    }
    if let Some(by) = args.sort {
        sort(&mut found.models, by);
    }
    let is_broken = found.models.iter().any(|model| model.error.is_some());
    let is_sound = !is_broken && found.damaged.is_empty();
    let status = if is_sound { Status::Fine } else { Status::Found };
    if args.json {
        let errors = found.models.iter().filter_map(|model| model.error.as_ref());
        errors.for_each(|error| complain(error.into()));
        json::write(&Versioned::new(&found))?;
        return Ok(status);
    }
    let mut out = print::stdout();
    if args.duplicates.is_some() {
        write_duplicates(&found, args.duplicates, &mut out)?;
    } else {
        write_models(&found, &only, &mut out)?;
    }
    out.flush()?;
    Ok(status)
}

/// Sorts by a column; the largest and the latest come first.
fn sort(models: &mut [ListedModel], by: SortBy) {
    let place = |model: &ListedModel| {
        PROGRAMS.iter().position(|program| Some(program.name) == model.program)
    };
    match by {
        SortBy::Name => {
            models.sort_by(|a, b| {
                Text::new(a.name.as_bytes()).natural_cmp(Text::new(b.name.as_bytes()))
            });
        }
        SortBy::Program => models.sort_by_key(|model| place(model).unwrap_or(usize::MAX)),
        SortBy::Architecture => models.sort_by_key(|model| model.architecture.clone()),
        SortBy::Parameters => models.sort_by_key(|model| Reverse(model.parameters)),
        SortBy::Quantization => models.sort_by_key(|model| model.quantization.clone()),
        SortBy::Size => models.sort_by_key(|model| Reverse(model.bytes)),
        SortBy::Used => models.sort_by_key(|model| Reverse(model.last_used)),
    }
}

/// The folders in which no model was found: those that were searched, and of the programs that are asked for also those that do
/// not exist.
fn searched(found: &Inventory, only: &[&str]) -> String {
    let named = |paths: Vec<&Path>| paths.into_iter().map(shown).collect::<Vec<_>>().join(", ");
    let asked = PROGRAMS.iter().filter(|program| only.contains(&program.name));
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let asked: Vec<PathBuf> = asked.flat_map(|program| program.folders()).map(absolute).collect();
    let is_asked = |root: &&PathBuf| only.is_empty() || asked.contains(root);
    let roots = found.roots.iter().map(|(_, root)| root).filter(is_asked);
    let roots: Vec<&Path> = roots.map(PathBuf::as_path).collect();
    let absent = asked.iter().map(PathBuf::as_path).filter(|folder| !folder.is_dir());
    let absent: Vec<&Path> = absent.collect();
    match (roots.is_empty(), absent.is_empty()) {
        (true, true) => "no program's folder exists".to_owned(),
        (true, false) => format!("there is no {}", named(absent)),
        (false, true) => format!("searched {}", named(roots)),
        (false, false) => format!("searched {}; there is no {}", named(roots), named(absent)),
    }
}

fn write_models(
    found: &Inventory,
    only: &[&str],
    out: &mut print::Screen<impl Write>,
) -> Result<(), Stop> {
    if found.models.is_empty() {
        let looked = searched(found, only);
        note(&format!("no models: {looked}; `weighbridge models FOLDER` searches another one"));
        return Ok(());
    }
    let mut head: Vec<Column> = vec![
        left("NAME").middle(24),
        left("PROGRAM").optional(3),
        left("ARCHITECTURE").end(8).optional(5),
        right("PARAMETERS").optional(4),
        left("QUANTIZATION").optional(1),
        right("SIZE"),
        right("LAST USED").optional(6),
    ];
    let is_broken = found.models.iter().any(|model| model.error.is_some());
    if is_broken {
        head.push(left("PROBLEM").end(24).optional(2));
    }
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let mut table = Table::new(&head);
    for model in &found.models {
        let cells = [
            model.name.clone(),
            or_none(model.program),
            or_none(model.architecture.as_deref()),
            model.parameters.map_or("-".to_owned(), count),
            or_none(model.quantization.as_deref()),
            bytes(model.bytes),
            age(model.last_used),
        ];
        let problem = is_broken.then(|| or_none(model.error.as_ref().map(fault).as_deref()));
        table.row(cells.into_iter().chain(problem));
    }
    table.write(out)?;
    let twins = twins(found);
    let mut said = format!("{}, {}", plural(found.models.len(), "model"), bytes(found.bytes));
    if twins > 0 {
        said.push_str(&format!("; {twins} have the same files as others (--duplicates)"));
    }
    // Not a row for a script that reads the table.
    out.flush()?;
    let mut err = print::stderr();
    writeln!(err)?;
    err.paragraph(&said, 0)?;
    Ok(())
}

/// The number of models with the same files as others.
fn twins(found: &Inventory) -> usize {
    found.models.iter().filter(|model| !model.duplicates_of.is_empty()).count()
}

/// An error without the path, which is that of the row.
fn fault(error: &Error) -> String {
    let said = error.to_string();
    let path = error.path().map(|path| format!("{}: ", shown(path)));
    let rest = path.and_then(|path| said.strip_prefix(&path).map(str::to_owned));
    rest.unwrap_or(said)
}

fn write_duplicates(
    found: &Inventory,
    by: Option<DuplicatesBy>,
    out: &mut print::Screen<impl Write>,
) -> Result<(), Stop> {
    let models = found.models.iter().enumerate();
    let places: HashMap<&Path, usize> =
        models.map(|(place, model)| (model.path.as_path(), place)).collect();
    for group in &found.duplicates {
        let mut members: Vec<usize> =
            group.models.iter().filter_map(|path| places.get(path.as_path()).copied()).collect();
        members.sort_unstable();
        let members: Vec<&ListedModel> =
            members.into_iter().filter_map(|place| found.models.get(place)).collect();
        write_group(&members, group, out)?;
        writeln!(out)?;
    }
    for DamagedFile { path, named, sha256, .. } in &found.damaged {
        let (path, kind) = (shown(path), if named.len() == 64 { "SHA-256" } else { "git blob id" });
        let line = format!(
            "damaged: {path}: its name is not the {kind} of its content, whose SHA-256 is {sha256}; \
             fetch the file again"
        );
        out.paragraph(&line, 2)?;
    }
    if !found.damaged.is_empty() {
        writeln!(out)?;
    }
    let all = found.duplicates.iter().map(|group| group.bytes).fold(0, u64::saturating_add);
    let said = match found.duplicates.len() {
        0 => match by {
            Some(DuplicatesBy::Values) => "no model is a copy of another's values".to_owned(),
            _ if twins(found) > 0 => {
                format!("{} share their files with others: nothing can be saved", twins(found))
            }
            _ => "no model is a copy of another's files; --duplicates=values also compares values"
                .to_owned(),
        },
        groups => format!(
            "{} could be saved in {}; no command was run",
            bytes(all),
            plural(groups, "group")
        ),
    };
    out.paragraph(&said, 0)?;
    Ok(())
}

fn write_group(
    members: &[&ListedModel],
    group: &DuplicateGroup,
    out: &mut print::Screen<impl Write>,
) -> Result<(), Stop> {
    let bold = anstyle::Style::new().bold();
    let first = members.first().map_or("", |model| model.name.as_str());
    let first = Text::new(first.as_bytes()).brief();
    let saved = bytes(group.bytes);
    let same = match group.same {
        "values" => "the same values",
        _ => "the same files",
    };
    let others = members.len().saturating_sub(1);
    let head = format!(
        "{bold}{first}{bold:#} and {}: {same}, {saved} could be saved",
        plural(others, "other")
    );
    out.paragraph(&head, 0)?;
    for model in members {
        let program = model.program.unwrap_or("-");
        let line = format!("  {program}: {} ({})", shown(&model.path), bytes(model.bytes));
        out.paragraph(&line, 4)?;
    }
    for saving in &group.savings {
        let (file, keep) = (quoted(&saving.file), quoted(&saving.keep));
        let line = match saving.action {
            Action::HardLink => format!("  ln -f {keep} {file}"),
            Action::Delete => format!("  rm {file}   # {keep} is the same, on another disk"),
            _ => continue,
        };
        // A command that is divided is another one.
        out.row(&line)?;
    }
    if group.savings.is_empty() {
        out.paragraph("  # keep one of them, and delete the others with their programs", 4)?;
    }
    Ok(())
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let path = Text::from_path(path).to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    match path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// The time since then: `3 days ago`.
fn age(seconds: Option<u64>) -> String {
    let elapsed = |seconds| {
        let then: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
        then.elapsed().ok()
    };
    let Some(elapsed) = seconds.map(elapsed) else { return "-".to_owned() };
    let seconds = elapsed.map_or(0, |elapsed| elapsed.as_secs());
    const UNITS: [(u64, &str); 5] = [
        (31_536_000, "year"),
        (2_592_000, "month"),
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ];
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    unit.map_or("now".to_owned(), |(length, name)| {
        let count = usize::try_from(seconds / length).unwrap_or(usize::MAX);
        format!("{} ago", plural(count, name))
    })
}
