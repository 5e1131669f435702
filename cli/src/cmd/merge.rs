//! `merge`: writes the tensors of a model to one file.

use weighbridge::container::Shards;
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
    let dst = args.dst.path();
    let is_file = dst.extension().is_some_and(|ending| ending == "safetensors");
    let plan = match args.src.is_dir() && !is_file && args.align.is_none() {
        // A directory keeps its documents.
        true => ops::split(&model, Shards::Bytes(u64::MAX), dst)?,
        false => ops::merge(&model, args.align)?,
    };
    Ok(Prepared { model, plan, dst: dst.to_path_buf(), others: Vec::new() })
}
