//! `split`: splits a model into several files.

use weighbridge::container::Shards;
use weighbridge::ops;

use super::Done;
use crate::args::write::Split;
use crate::{remark, writing};

pub(crate) fn run(args: &Split) -> Done {
    let store = args.writing.open.options().open(&args.src)?;
    remark(&store);
    let shards = match args.max_size {
        Some(bytes) => Shards::Bytes(bytes),
        None => Shards::Tensors(args.max_tensors.unwrap_or(128)),
    };
    let plan = ops::split(&store, shards, &args.dst)?;
    writing::run(&store, &plan, &args.dst, &args.writing)
}
