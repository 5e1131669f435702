//! `create`: creates a model in Ollama's store.

use weighbridge::ops;

use super::Done;
use crate::args::write::Create;
use crate::{remark, writing};

pub(crate) fn run(args: &Create) -> Done {
    let place = args.store.place(&args.name)?;
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let plan = ops::create(&model, args.quantize)?;
    writing::run_whole(&model, &plan, &place, args.whole, &args.writing)
}
