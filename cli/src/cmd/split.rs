//! `split`: splits a model into several files, or joins them.

use std::path::{Path, PathBuf};

use weighbridge::container::Shards;
use weighbridge::model::Encoding;
use weighbridge::ops;

use super::{Done, convert};
use crate::args::values::size_for_path;
use crate::args::write::{Split, Writing};
use crate::writing::{self, Prepared};
use crate::{Stop, note, remark};

pub(crate) fn run(args: &Split) -> Done {
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    writing::run(&model, &plan, &dst, &args.writing)
}

/// Plans the split.
pub(super) fn prepare(args: &Split) -> Result<Prepared, Stop> {
    let dst = args.dst.path();
    if let Some(text) = size_for_path(dst) {
        let fault = format!("{text} is a size: `split SRC DST --max-shard-size {text}`");
        return Err(Stop::Usage(fault));
    }
    if args.join {
        return joined(&args.src, dst, args.align, &args.writing);
    }
    let model = args.writing.open.options().open(&args.src)?;
    convert::check_encoding(&model, dst)?;
    remark(&model);
    let shards = match args.max_shard_size {
        Some(bytes) => Shards::Bytes(bytes),
        None => Shards::Tensors(args.max_tensors.unwrap_or(128)),
    };
    let plan = ops::split(&model, shards, dst)?;
    if args.max_shard_size.is_none()
        && args.max_tensors.is_none()
        && plan.tensors_by_file().len() == 1
    {
        note(
            "the model has no more than 128 tensors and becomes one file: --max-shard-size 4G limits each",
        );
    }
    Ok(Prepared { model, plan, dst: dst.to_path_buf(), others: Vec::new() })
}

/// The folder of a safetensors shard. A shard stands for all, as in GGUF, where the reader finds the others.
pub(super) fn folder_of_shard(src: &Path) -> Option<PathBuf> {
    let stem = src.file_name()?.to_str()?.strip_suffix(".safetensors")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    (is_number(number) && is_number(count) && src.is_file())
        .then(|| src.parent().map_or_else(PathBuf::new, Path::to_path_buf))
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
}

/// Plans one file, or one directory with one file of weights.
pub(super) fn joined(
    src: &Path,
    dst: &Path,
    align: Option<u64>,
    writing: &Writing,
) -> Result<Prepared, Stop> {
    let folder = folder_of_shard(src);
    let src = folder.as_deref().unwrap_or(src);
    let model = writing.open.options().open(src)?;
    convert::check_encoding(&model, dst)?;
    remark(&model);
    let is_file = dst.extension().is_some_and(|ending| ending == "safetensors");
    let is_directory = src.is_dir() && model.encoding() == Encoding::Safetensors;
    let plan = match is_directory && !is_file && align.is_none() {
        // It keeps its documents.
        true => ops::split(&model, Shards::Bytes(u64::MAX), dst)?,
        false => ops::merge(&model, align)?,
    };
    Ok(Prepared { model, plan, dst: dst.to_path_buf(), others: Vec::new() })
}
