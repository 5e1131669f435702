//! `merge` and `align`: write a model to one file.

use std::path::Path;

use weighbridge::ops;

use super::Done;
use crate::args::write::{Align, Merge, Writing};
use crate::{remark, writing};

pub(crate) fn run(args: &Merge) -> Done {
    one_file(&args.src, &args.dst, None, &args.writing)
}

pub(crate) fn align(args: &Align) -> Done {
    one_file(&args.src, &args.dst, Some(args.align), &args.writing)
}

fn one_file(src: &Path, dst: &Path, alignment: Option<u64>, args: &Writing) -> Done {
    let store = args.open.options().open(src)?;
    remark(&store);
    let plan = ops::merge(&store, alignment)?;
    writing::run(&store, &plan, dst, args)
}
