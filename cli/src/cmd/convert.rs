//! `convert`: a model in another container.

use weighbridge::ops::{self, ConvertOptions, Format};

use super::Done;
use crate::args::write::{Convert, To};
use crate::{remark, writing};

pub(crate) fn run(args: &Convert) -> Done {
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let format = match args.to {
        To::Gguf => Format::Gguf,
        To::Safetensors => Format::Safetensors,
        To::Mlx => Format::Mlx,
        To::Ollama => Format::Ollama,
    };
    let mut options = ConvertOptions::new(format).lossless(args.lossless);
    if let Some(dtype) = args.dtype {
        options = options.dtype(dtype);
    }
    if let Some(bytes) = args.max_shard_size {
        options = options.shard_bytes(bytes);
    }
    let dst = match args.to {
        To::Ollama => &args.store.place(&args.dst.to_string_lossy())?,
        _ => &args.dst,
    };
    let plan = ops::convert(&model, &options)?;
    writing::run_whole(&plan, dst, args.whole, &args.writing)
}
