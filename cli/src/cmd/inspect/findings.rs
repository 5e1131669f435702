//! `inspect --findings`: what is odd in a model. The page of `view` lists the same.

use std::collections::HashSet;
use std::io::Write;

use weighbridge::{Model, ops};
use weighbridge_web::Findings;

use super::{Done, Filter, Inspect, no_match};
use crate::json::{self, Versioned};
use crate::print::{self, Bar, Table, left, plural};
use crate::{Status, Stop};

pub(super) fn run(args: &Inspect, model: &Model) -> Done {
    let names = args.filter.as_deref().map(|glob| matching(model, glob)).transpose()?;
    let bar = Bar::new();
    let mut found = weighbridge_web::findings(model, &|progress| bar.show(progress))?;
    drop(bar);
    if let Some(names) = names {
        found.findings.retain(|one| names.contains(&one.tensor));
        found.total = found.findings.len();
    }
    match args.json {
        true => json::write(&Versioned::of(model.path(), &found))?,
        false => write_text(model, &found)?,
    }
    Ok(Status::Fine)
}

/// The stored names of the tensors that a filter matches.
fn matching(model: &Model, glob: &str) -> Result<HashSet<String>, Stop> {
    let mut report = ops::inspect(model, &ops::InspectOptions::new())?;
    Filter::new(Some(glob)).retain(&mut report.tensors);
    let ops::InspectedTensors::Stored { tensors, .. } = report.tensors else {
        return Ok(HashSet::new());
    };
    if tensors.is_empty() {
        return Err(no_match(glob, model.path()).into());
    }
    Ok(tensors.into_iter().map(|tensor| tensor.name.into_owned()).collect())
}

fn write_text(model: &Model, found: &Findings) -> Result<(), Stop> {
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    writeln!(out, "{bold}{}{bold:#}\n", print::shown(model.path()))?;
    if !found.findings.is_empty() {
        let mut table = Table::new(&[left("NAME").middle(24), left("FINDING").end(24)]);
        for one in &found.findings {
            table.row([one.tensor.clone(), one.text.clone()]);
        }
        table.write(&mut out)?;
        writeln!(out)?;
    }
    let (count, tensors) = (plural(found.total, "finding"), plural(found.tensors, "tensor"));
    match found.findings.len() {
        listed if listed < found.total => writeln!(out, "{listed} of {count} in {tensors}")?,
        _ => writeln!(out, "{count} in {tensors}")?,
    }
    out.flush()?;
    Ok(())
}
