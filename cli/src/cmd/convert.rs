//! `convert`: converts a model to another container.

use weighbridge::container::OLLAMA;
use weighbridge::ops::{self, ConvertOptions};

use super::Done;
use crate::args::write::Convert;
use crate::{remark, writing};

pub(crate) fn run(args: &Convert) -> Done {
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let mut options =
        ConvertOptions::new(args.to).lossless(args.lossless).extra_keys(!args.no_extra_keys);
    options = options.allow_unloadable(args.whole.allow_incomplete);
    if let Some(dtype) = args.dtype {
        options = options.dtype(dtype);
    }
    if let Some(bytes) = args.max_shard_size {
        options = options.shard_bytes(bytes);
    }
    let dst = match *args.to == OLLAMA {
        true => &args.store.place(&args.dst.to_string_lossy())?,
        false => &args.dst,
    };
    let plan = ops::convert(&model, &options)?;
    writing::run_whole(&plan, dst, args.whole, &args.writing)
}
