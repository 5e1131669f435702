//! `quantize`: quantizes a model.

use std::io::Write;
use std::path::{Path, PathBuf};

use weighbridge::container::MLX;
use weighbridge::ops::{ConvertOptions, QuantizationRules};
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm;
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::write::Method;
use weighbridge::{DType, Error, ErrorKind, Model, WritePlan, ops};

use super::{Done, convert, list, quality};
use crate::args::run::Quality;
use crate::args::write::{Quantize, QuantizeNow};
use crate::args::{TargetType, in_store};
use crate::print;
use crate::writing::{self, Prepared};
use crate::{Stop, note, remark};

pub(crate) fn run(QuantizeNow { quantize: args, compare: compares }: &QuantizeNow) -> Done {
    if args.list_types {
        return list::types(Some(&args.src), args.writing.json);
    }
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    if *compares {
        // Before anything is written.
        quality::check(&model)?;
    }
    let status = writing::run_whole(&model, &plan, &dst, args.whole, &args.writing)?;
    if !compares {
        return Ok(status);
    }
    let mut out = print::stdout();
    writeln!(out)?;
    out.flush()?;
    quality::run(&Quality::of(vec![args.src.clone(), dst], args.writing.open.clone()))
}

/// The type to quantize to, and the destination if it was given. `quantize SRC Q4_K_M` has no DST.
fn asked(args: &Quantize) -> Result<(TargetType, Option<PathBuf>), Stop> {
    let mlx = args.mlx.map(TargetType::Mlx);
    if let Some(target) = args.third.or(args.file_type).or(mlx) {
        return Ok((target, args.dst.path()?.map(Path::to_path_buf)));
    }
    let missing = || {
        let fault = "the type is missing: `quantize SRC DST Q4_K_M` writes GGUF, `quantize SRC DST \
            --type mlx4` writes MLX; `quantize SRC --list-types` shows the size in each";
        Stop::Usage(fault.to_owned())
    };
    let Some(word) = args.dst.dst.as_ref().and_then(|word| word.to_str()) else {
        return Err(missing());
    };
    let target = TargetType::parse(word).map_err(|_| {
        match (TargetType::in_name(word), TargetType::meant(word)) {
            (Some(named), _) => {
                let src = print::shown(&args.src);
                let fault =
                    format!("the type is missing: `weighbridge quantize {src} {word} {named}`");
                Stop::Usage(fault)
            }
            (None, Some(said)) => Stop::Usage(format!("{word} is no type: {said}")),
            (None, None) if !word.contains(['.', '/', '\\']) => {
                Stop::Usage(format!("{word} is no type: `weighbridge list types` lists them"))
            }
            (None, None) => missing(),
        }
    });
    Ok((target?, args.dst.output.clone()))
}

/// Refuses to quantize a tensor again, as llama-quantize does for GGUF.
fn refuse_requantizing(model: &Model, plan: &WritePlan) -> Result<(), Stop> {
    let mut again = plan.tensors.iter().filter(|tensor| tensor.method == Method::Requantized);
    let Some(name) = again.next().map(|tensor| &tensor.name) else { return Ok(()) };
    let stored = model.stored_tensor(name).and_then(|tensor| tensor.dtype());
    let dtype = stored.map_or(String::new(), |dtype| format!(" as {dtype}"));
    let fault = format!("the tensor is already quantized{dtype}");
    let error = Error::new(ErrorKind::Mismatch, fault).in_tensor(name);
    let advice = "quantize the original model, or allow a further loss with --allow-requantize";
    Err(error.advise(advice).in_file(model.path()).into())
}

/// Refuses options that have no meaning for the type.
fn check_options(args: &Quantize, target: TargetType) -> Result<(), Stop> {
    let (given, of, other) = match target {
        TargetType::Gguf(_) => {
            (vec![("--quant-predicate", args.quant_predicate.is_some())], "MLX", "GGUF")
        }
        TargetType::Mlx(_) => {
            let given = vec![
                ("--imatrix", args.imatrix.is_some()),
                ("--include-weights", !args.include_weights.is_empty()),
                ("--exclude-weights", !args.exclude_weights.is_empty()),
                ("--keep-split", args.keep_split),
                ("--leave-output-tensor", args.leave_output_tensor),
                ("--no-extra-keys", args.no_extra_keys),
                ("--output-tensor-type", args.output_tensor_type.is_some()),
                ("--override-kv", !args.override_kv.is_empty()),
                ("--prune-layers", !args.prune_layers.is_empty()),
                ("--pure", args.pure),
                ("--tensor-type", !args.tensor_type.is_empty()),
                ("--token-embedding-type", args.token_embedding_type.is_some()),
            ];
            (given, "GGUF", "MLX")
        }
    };
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let fault = format!("{option} is for types of {of}, but {} is {other}", target.label());
            Err(Stop::Usage(fault))
        }
        None => Ok(()),
    }
}

/// Plans a quantization as mlx-lm's.
fn prepare_mlx(
    args: &Quantize,
    model: Model,
    options: mlx_lm::MlxOptions,
    dst: PathBuf,
    others: Vec<PathBuf>,
) -> Result<Prepared, Stop> {
    let options = mlx_lm::MlxOptions { mix: args.quant_predicate, ..options };
    let options = ConvertOptions::new(&MLX)
        .quantize(QuantizationRules::MlxLm(options))
        .allow_unloadable(args.whole.allow_incomplete);
    let plan = ops::convert(&model, &options)?;
    if !args.allow_requantize {
        refuse_requantizing(&model, &plan)?;
    }
    Ok(Prepared { model, plan, dst, others })
}

/// Notes the rules for single tensors that change nothing.
fn note_useless_rules(args: &Quantize, file_type: FileType, plan: &WritePlan) {
    let is_plain = DType::from_name(file_type.name()).is_some_and(|base| !base.is_quantized());
    for rule in &args.tensor_type {
        if is_plain {
            note(&format!(
                "--tensor-type {rule}: no effect with {file_type}, as in llama-quantize; Q8_0 with `--tensor-type {rule} \
                 --tensor-type .={file_type}` has one"
            ));
        } else if !plan.tensors_by_file().flatten().any(|name| rule.matches(name)) {
            note(&format!("--tensor-type {rule}: no tensor of the model matches"));
        }
    }
}

/// Refuses a destination that is the name of a model of Ollama's store, and not that of a file.
fn check_no_model_name(dst: &Path, src: &Path) -> Result<(), Stop> {
    let name = print::shown(dst);
    let is_name = !name.contains(['/', '\\']) && !name.ends_with(".gguf") && !dst.exists();
    if !is_name || src.exists() && !name.contains(':') && !in_store(&name) {
        return Ok(());
    }
    let fault = format!("a GGUF file is written, and {name} is not the name of one");
    let advice = format!(
        "give a name that ends in .gguf; then `weighbridge create {name} FILE.gguf` puts it into Ollama's store"
    );
    Err(Error::new(ErrorKind::Mismatch, fault).advise(advice).into())
}

/// Plans the quantization.
pub(super) fn prepare(args: &Quantize) -> Result<Prepared, Stop> {
    let (target, dst) = asked(args)?;
    check_options(args, target)?;
    let is_gguf = matches!(target, TargetType::Gguf(_));
    let usual = || {
        let ending = if is_gguf { ".gguf" } else { "" };
        writing::default_name(&args.src, &format!("-{}{ending}", target.label()))
    };
    let dst = dst.map(|dst| writing::with_type(dst, Some(&target.label())));
    let dst = dst.map(|dst| if is_gguf { writing::file_in(dst, usual) } else { dst });
    match &dst {
        Some(dst) if is_gguf => {
            check_no_model_name(dst, &args.src)?;
            convert::check_gguf_name(dst, !args.keep_split)?;
        }
        Some(dst) => convert::check_mlx_name(dst)?,
        None => {}
    }
    let others: Vec<PathBuf> = args.imatrix.iter().cloned().chain(args.source.adapters()).collect();
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let model = args.source.applied(model)?;
    let dst = dst.unwrap_or_else(usual);
    let file_type = match target {
        TargetType::Gguf(file_type) => file_type,
        TargetType::Mlx(options) => return prepare_mlx(args, model, options, dst, others),
    };
    let mut options = LlamaOptions {
        pure: args.pure,
        leave_output: args.leave_output_tensor,
        output: args.output_tensor_type,
        token_embedding: args.token_embedding_type,
        tensor_types: args.tensor_type.clone(),
        pruned: args.prune_layers.iter().copied().collect(),
        allow_requantize: args.allow_requantize,
        keep_split: args.keep_split,
        overrides: args.override_kv.clone(),
        extra_keys: !args.no_extra_keys,
        allow_unloadable: args.whole.allow_incomplete,
        ..LlamaOptions::new(file_type)
    };
    let matrix = match &args.imatrix {
        Some(path) => {
            let mut matrix = ImportanceMatrix::open(path)?;
            let named = |names: &[String], name: &str| names.iter().any(|part| name.contains(part));
            if !args.include_weights.is_empty() {
                matrix.retain(|name| named(&args.include_weights, name));
            }
            matrix.retain(|name| !named(&args.exclude_weights, name));
            options = options.with_importance(&matrix, &path.to_string_lossy());
            if matrix.is_empty() {
                note(&format!(
                    "{}: no entries are left to use: quantizing without an importance matrix",
                    path.display()
                ));
            }
            Some(matrix)
        }
        None => {
            if !args.include_weights.is_empty() || !args.exclude_weights.is_empty() {
                note(
                    "--include-weights and --exclude-weights choose from an importance matrix, and none is given",
                );
            }
            None
        }
    };
    if !args.keep_split {
        writing::check_file(&args.src, &dst, &args.writing)?;
    }
    let plan = ops::quantize(&model, &options, matrix.as_ref(), &dst)?;
    note_useless_rules(args, file_type, &plan);
    Ok(Prepared { model, plan, dst, others })
}
