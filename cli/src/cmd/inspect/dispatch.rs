//! `inspect --dispatch`: how a GPU computes with each tensor. No GPU is needed for it.

use std::io::Write;

use serde_json::{Value, json};
use weighbridge::device::Paper;
use weighbridge::device::kernel::Operation;
use weighbridge::load::{Dispatch, DispatchTable, Fusion};
use weighbridge::{Model, WeightProvider};

use super::{Done, Filter, Inspect, no_match};
use crate::json::{self, Versioned};
use crate::print::{self, Table, bytes, left, right};
use crate::{Status, Stop};

/// The fusions that engines use.
const FUSIONS: [&str; 2] = ["qkv", "gate-up"];

pub(super) fn run(args: &Inspect, model: Model) -> Done {
    let path = model.path().to_path_buf();
    let provider = WeightProvider::new(model, Paper::default())?;
    let filter = Filter::new(args.filter.as_deref());
    let fusions: Vec<&Fusion> = FUSIONS.into_iter().filter_map(Fusion::named).collect();
    let table = DispatchTable::build(&provider, |name| filter.passes(name, None), &fusions)?;
    if let Some(glob) = args.filter.as_deref().filter(|_| table.entries.is_empty()) {
        return Err(no_match(glob, &path).into());
    }
    if args.json {
        let entries: Result<Vec<Value>, Stop> = table.entries.iter().map(entry).collect();
        json::write(&Versioned::of(&path, &json!({ "dispatches": entries? })))?;
    } else {
        write_text(&table)?;
    }
    Ok(Status::Fine)
}

fn entry(dispatch: &Dispatch) -> Result<Value, Stop> {
    let mut operations = serde_json::Map::new();
    for operation in Operation::ALL {
        let cost = dispatch.cost(operation, 1)?;
        let cost = cost.map(|cost| {
            json!({"windows": cost.windows, "workgroups": cost.workgroups,
                "bytes": cost.bytes, "flops": cost.flops})
        });
        operations.insert(operation.name().to_owned(), cost.into());
    }
    Ok(json!({"members": dispatch.members, "dtype": dispatch.dtype.name(),
        "shape": dispatch.shape, "bytes": dispatch.bytes, "computed": dispatch.computed,
        "kernel": dispatch.tensor.as_ref().map(|tensor| tensor.kernel.dtype.name()),
        "operations": operations}))
}

fn write_text(table: &DispatchTable) -> Result<(), Stop> {
    let mut rows = Table::new(&[
        left("TENSORS").middle(36),
        left("KERNEL"),
        right("SHAPE"),
        right("SIZE"),
        right("WINDOWS"),
        right("WORKGROUPS"),
        right("FLOPS").optional(1),
    ]);
    for dispatch in &table.entries {
        let cost = dispatch.cost(Operation::MatrixVector, 1)?;
        let shape: Vec<String> = dispatch.shape.iter().map(u64::to_string).collect();
        let kernel = match (&cost, dispatch.computed) {
            (Some(_), None) => dispatch.dtype.name().to_owned(),
            (Some(_), Some(_)) => format!("{} (decoded)", dispatch.dtype),
            (None, _) => format!("none ({})", dispatch.dtype),
        };
        let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        rows.row([
            dispatch.members.join(" + "),
            kernel,
            shape.join(" x "),
            bytes(dispatch.bytes),
            cell(cost.as_ref().map(|cost| cost.windows.to_string())),
            cell(cost.as_ref().map(|cost| cost.workgroups.map(|n| n.to_string()).join(" x "))),
            cell(cost.as_ref().map(|cost| cost.flops.to_string())),
        ]);
    }
    let mut out = print::stdout();
    rows.write(&mut out)?;
    writeln!(out, "workgroups are those of matrix_vector, in the first window of rows")?;
    let mut reasons: Vec<&str> = table.entries.iter().filter_map(|entry| entry.computed).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        writeln!(out, "decoded by the CPU while loading: {reason}")?;
    }
    out.flush()?;
    Ok(())
}
