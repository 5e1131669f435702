//! `merge`: merges several models into one, or joins the files of a model.

use std::path::{Path, PathBuf};

use weighbridge::container::GGUF;
use weighbridge::ops::{self, ConvertOptions, MergeRecipe, merge_models};
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{Error, ErrorKind};

use super::{Done, convert, split};
use crate::args::TargetType;
use crate::args::write::Merge;
use crate::writing::{self, Prepared};
use crate::{Stop, failure};

pub(crate) fn run(args: &Merge) -> Done {
    let Prepared { model, plan, dst, .. } = match is_recipe(&args.src) {
        true => merged(args)?,
        false => prepare(args)?,
    };
    writing::run(&model, &plan, &dst, &args.writing)
}

fn is_recipe(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ending == "yml" || ending == "yaml")
}

/// Plans to join the files of a model.
pub(super) fn prepare(args: &Merge) -> Result<Prepared, Stop> {
    if is_recipe(&args.src) || args.to.is_some() || args.quantize.is_some() {
        let (fault, advice) = match is_recipe(&args.src) {
            true => ("a plan of slices merges no models", "`weighbridge merge RECIPE DST` does"),
            false => (
                "it is no recipe, and files of one model are joined as they are",
                "`quantize SHARD DST Q4_K_M` joins and quantizes",
            ),
        };
        let error = Error::new(ErrorKind::Unsupported, fault);
        return Err(error.advise(advice).in_file(&args.src).into());
    }
    split::joined(&args.src, args.dst.path(), args.align, &args.writing)
}

/// Plans to merge the models of a recipe.
fn merged(args: &Merge) -> Result<Prepared, Stop> {
    if args.align.is_some() {
        let fault = "a merge of several models is not aligned: align the merged model, `weighbridge merge MERGED DST --align BYTES`";
        return Err(Stop::Usage(fault.to_owned()));
    }
    let text = std::fs::read_to_string(&args.src)
        .map_err(|error| failure::io(&args.src, "cannot read the recipe", error))?;
    let open = |name: &str| args.writing.open.runnable(Path::new(name));
    let here = |error: Error| error.in_file(&args.src);
    let recipe = MergeRecipe::parse(&text, &open).map_err(here)?;
    let model = merge_models(&recipe)?;
    let dst = args.dst.path().to_path_buf();
    let others: Vec<PathBuf> = vec![args.src.clone()];
    if let Some(name) = &args.quantize {
        convert::check_gguf_name(&dst, false)?;
        if args.to.is_some_and(|to| *to != GGUF) {
            let fault = "--quantize writes GGUF: leave --to out, then `quantize` the merged model";
            return Err(Stop::Usage(fault.to_owned()));
        }
        let options = match TargetType::parse(name) {
            Ok(TargetType::Gguf(file_type)) => LlamaOptions::new(file_type),
            Ok(TargetType::Mlx(_)) => {
                let fault = "--quantize writes GGUF: merge first, then `quantize` the merged model";
                return Err(Stop::Usage(fault.to_owned()));
            }
            Err(said) => return Err(Stop::Usage(format!("{name} is no type: {said}"))),
        };
        let plan = ops::quantize(&model, &options, None, &dst)?;
        return Ok(Prepared { model, plan, dst, others });
    }
    let (to, one_file, dst) = match args.to {
        None if !convert::is_file_name(&dst) => convert::container_of(&model, &dst)?,
        to => {
            let (to, one_file) = convert::target(&dst, to)?;
            (to, one_file, dst)
        }
    };
    let plan = ops::convert(&model, &ConvertOptions::new(to).one_file(one_file))?;
    Ok(Prepared { model, plan, dst, others })
}
