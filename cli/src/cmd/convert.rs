//! `convert`: converts a model to another container.

use std::path::Path;

use weighbridge::container::{Container, GGUF, OLLAMA, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions};

use super::Done;
use crate::args::write::Convert;
use crate::print::shown;
use crate::writing::{self, Prepared};
use crate::{Stop, remark};

pub(crate) fn run(args: &Convert) -> Done {
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    writing::run_whole(&model, &plan, &dst, args.whole, &args.writing)
}

/// Plans the conversion.
pub(super) fn prepare(args: &Convert) -> Result<Prepared, Stop> {
    let (to, one_file) = match (args.to, by_ending(args.dst.path()), args.shards) {
        (None, None, Some(_)) => (&SAFETENSORS, false),
        (to, ..) => target(args.dst.path(), to)?,
    };
    if one_file && args.max_shard_size.is_some() {
        let dst = shown(args.dst.path());
        let fault = format!("--max-shard-size needs a directory, but {dst} is one file");
        return Err(Stop::Usage(fault));
    }
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let model = args.source.applied(model)?;
    let mut options = ConvertOptions::new(to)
        .lossless(args.lossless)
        .one_file(one_file)
        .extra_keys(!args.no_extra_keys)
        .projector(args.mmproj)
        .allow_unloadable(args.whole.allow_incomplete)
        .fuse(&args.fuse);
    if let Some(dtype) = args.dtype {
        options = options.dtype(dtype);
    }
    if let Some(bytes) = args.max_shard_size {
        options = options.shard_bytes(bytes);
    }
    if let Some(mesh) = args.shards {
        options = options.shares(mesh);
    }
    let dst = match *to == OLLAMA {
        true => args.store.place(&args.dst.path().to_string_lossy())?,
        false => args.dst.path().to_path_buf(),
    };
    let plan = ops::convert(&model, &options)?;
    let others = args.source.adapters().collect();
    Ok(Prepared { model, plan, dst, others })
}

/// The container of a file, by its ending.
fn by_ending(path: &Path) -> Option<&'static Container> {
    let ending = path.extension()?.to_ascii_lowercase();
    match ending.to_str()? {
        "gguf" => Some(&GGUF),
        "safetensors" => Some(&SAFETENSORS),
        _ => None,
    }
}

/// The container to write, and whether the destination is one safetensors file.
pub(super) fn target(
    path: &Path,
    to: Option<&'static Container>,
) -> Result<(&'static Container, bool), Stop> {
    let dst = shown(path);
    let ending = by_ending(path).filter(|_| !path.is_dir());
    let to = match (to, ending) {
        (Some(to), None) => to,
        (None, Some(named)) => named,
        (Some(to), Some(named)) if to == named || *to == OLLAMA => to,
        (Some(to), Some(named)) => {
            let fault = format!(
                "{dst} is the name of a {} file, but --to {} is given: leave out --to, or give \
                 another name",
                named.name, to.name
            );
            return Err(Stop::Usage(fault));
        }
        (None, None) => {
            let fault = format!(
                "the container of {dst} cannot be told from its name: give --to, or a name that \
                 ends in .gguf or .safetensors"
            );
            return Err(Stop::Usage(fault));
        }
    };
    Ok((to, *to == SAFETENSORS && ending.is_some()))
}
