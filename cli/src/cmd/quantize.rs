//! `quantize`: quantizes a model.

use std::io::Write;

use weighbridge::container::MLX;
use weighbridge::ops;
use weighbridge::ops::{ConvertOptions, QuantizationRules};
use weighbridge::recipe::ImportanceMatrix;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm;

use super::{Done, compare};
use crate::args::run::Compare;
use crate::args::write::{Quantize, QuantizeNow};
use crate::print;
use crate::writing::{self, Prepared};
use crate::{Stop, note, remark};

pub(crate) fn run(QuantizeNow { quantize: args, compare: compares }: &QuantizeNow) -> Done {
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    if *compares {
        // Before anything is written.
        compare::check(&model)?;
    }
    let status = writing::run_whole(&model, &plan, &dst, args.whole, &args.writing)?;
    if !compares {
        return Ok(status);
    }
    let mut out = print::stdout();
    writeln!(out)?;
    out.flush()?;
    compare::run(&Compare::of(vec![args.src.clone(), dst], args.writing.open.clone()))
}

/// Plans the quantization.
pub(super) fn prepare(args: &Quantize) -> Result<Prepared, Stop> {
    let dst = args.dst.clone();
    let others = args.imatrix.iter().cloned().chain(args.source.adapters()).collect();
    let model = args.writing.open.options().open(&args.src)?;
    remark(&model);
    let model = args.source.applied(model)?;
    if let Some(options) = args.mlx {
        let options = mlx_lm::MlxOptions { mix: args.quant_predicate, ..options };
        let options = ConvertOptions::new(&MLX)
            .quantize(QuantizationRules::MlxLm(options))
            .allow_unloadable(args.whole.allow_incomplete);
        let plan = ops::convert(&model, &options)?;
        return Ok(Prepared { model, plan, dst, others });
    }
    let file_type = args.third.or(args.file_type);
    let file_type = file_type.ok_or_else(|| Stop::Usage("a file type is required".to_owned()))?;
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
        None => None,
    };
    let plan = ops::quantize(&model, &options, matrix.as_ref(), &args.dst)?;
    Ok(Prepared { model, plan, dst, others })
}
