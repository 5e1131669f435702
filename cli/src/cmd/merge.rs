//! `merge`: writes a model to one file.

use weighbridge::ops;

use super::Done;
use crate::args::write::Merge;
use crate::writing::{self, Prepared};
use crate::{Stop, remark};

pub(crate) fn run(args: &Merge) -> Done {
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    writing::run(&model, &plan, &dst, &args.writing)
}

/// Plans to merge the files.
pub(super) fn prepare(args: &Merge) -> Result<Prepared, Stop> {
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let plan = ops::merge(&model, args.align)?;
    Ok(Prepared { model, plan, dst: args.dst.path().to_path_buf(), others: Vec::new() })
}
