//! `merge` and `align`: write a model to one file.

use std::path::Path;

use weighbridge::ops;

use super::Done;
use crate::args::write::{Align, Merge, Writing};
use crate::writing::{self, Prepared};
use crate::{Stop, remark};

pub(crate) fn run(args: &Merge) -> Done {
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    writing::run(&model, &plan, &dst, &args.writing)
}

/// Plans to merge the files.
pub(super) fn prepare(args: &Merge) -> Result<Prepared, Stop> {
    one_file(&args.src, &args.dst, None, &args.writing)
}

pub(crate) fn align(args: &Align) -> Done {
    let all = one_file(&args.src, &args.dst, Some(args.align), &args.writing)?;
    writing::run(&all.model, &all.plan, &all.dst, &args.writing)
}

fn one_file(
    src: &Path,
    dst: &Path,
    alignment: Option<u64>,
    args: &Writing,
) -> Result<Prepared, Stop> {
    let model = args.open.options().open(src)?;
    remark(&model);
    let plan = ops::merge(&model, alignment)?;
    Ok(Prepared { model, plan, dst: dst.to_path_buf(), others: Vec::new() })
}
