//! MLX directories: mlx-lm's choice of dtypes.

use crate::arch::config_json::stated_float;
use crate::arch::{Dialect, Resolution};
use crate::container::writer::Writer;
use crate::dtype::DType;
use crate::error::Result;
use crate::model::{Model, Tensor};
use crate::recipe::mlx_lm;
use crate::repack::{REPACKS, Repack};
use crate::store::Encoding;
use crate::write::{PLAIN_FLOATS, Precision};

/// mlx-lm's choice for each tensor. `model_type` is that of the config.json to be written.
pub(super) fn recipe(
    model: &Model,
    model_type: Option<&str>,
    tensors: &[(Option<String>, Tensor)],
    options: &mlx_lm::MlxOptions,
) -> Result<mlx_lm::MlxRecipe> {
    let config = match model.config() {
        // The number of layers serves mixes of bit widths only.
        Err(_) if options.mix.is_none() && model.resolution()?.architecture.is_none() => None,
        config => Some(config?),
    };
    let named = config.map_or("", |config| config.architecture.value.as_str());
    let numbers = mlx_lm::MlxModel {
        model_type: model_type.unwrap_or(named).to_owned(),
        layers: config.map_or(0, |config| u64::from(config.n_layers.value)),
        ..mlx_lm::MlxModel::default()
    };
    let modules = tensors.iter().map(|(_, tensor)| {
        let path = tensor.name().strip_suffix(".weight");
        // A tensor that is not a module's weight is never quantized; an empty shape says so.
        let shape = if path.is_some() { tensor.shape() } else { &[] };
        mlx_lm::Module { path: path.unwrap_or(tensor.name()), shape }
    });
    mlx_lm::MlxRecipe::new(&numbers, &modules.collect::<Vec<_>>(), options)
}

/// Whether a quantized tensor would be written for a module that mlx-lm's class has in plain form only.
pub(super) fn is_bare(model: &Model, writer: &Writer, tensor: &Tensor) -> bool {
    let stated =
        model.document("config.json").and_then(|config| config.get("model_type")?.as_str());
    let named = || model.config().ok().map(|config| config.architecture.value.as_str());
    writer.dialect == Dialect::Mlx
        && tensor.dtype().is_ok_and(DType::is_quantized)
        && tensor.name().strip_suffix(".weight").is_some_and(|path| {
            stated.or_else(named).is_some_and(|model_type| mlx_lm::is_bare(model_type, path))
        })
}

/// The dtype of all floats in an MLX directory, as mlx-lm would have written it: it casts every
/// parameter to one dtype, so that the model computes in that dtype. `None` if each tensor keeps its
/// own.
///
/// A checkpoint that is quantized takes the dtype of its config.json, as in mlx-lm.
///
/// Norms of GGUF files are in F32 whatever the model's dtype was. The matrices tell it: the plain
/// ones have it, and the scales of quantized ones are in F16 or, for K-quants, products that need
/// F32. The latter are rounded to BF16, which has the range of F32. Matrices that MLX has no packing
/// for are quantized again, and fit either dtype.
pub(super) fn floats(
    model: &Model,
    resolution: &Resolution,
    precision: Precision,
    quantizes: bool,
    tensors: &[(Option<String>, Tensor)],
) -> Option<DType> {
    if let Some(dtype) = precision.plain_dtype() {
        return Some(dtype);
    }
    if precision.lossless {
        return None;
    }
    if !matches!(model.encoding(), Encoding::Gguf | Encoding::Ggml) {
        return stated_float(model.store()).filter(|_| quantizes);
    }
    let matrices = || tensors.iter().map(|(_, t)| t).filter(|t| t.shape().len() > 1);
    let elements = |dtype: DType| {
        let of = matrices().filter(|tensor| tensor.dtype().is_ok_and(|own| own == dtype));
        of.map(Tensor::elements).fold(0, u64::saturating_add)
    };
    let is_quantized = |tensor: &Tensor| tensor.dtype().is_ok_and(DType::is_quantized);
    let quantized = matrices().any(is_quantized);
    let plain = PLAIN_FLOATS.into_iter().filter(|dtype| !quantized || *dtype != DType::F32);
    let most = plain.max_by_key(|dtype| elements(*dtype)).filter(|dtype| elements(*dtype) > 0);
    if most.is_some() || !quantized {
        return most;
    }
    let wide = resolution.architecture.is_some_and(|row| row.exceeds_f16);
    let exact_in_f16 = |tensor: &Tensor| {
        let to_mlx = |row: &&Repack| row.to.group_quantizer().is_some();
        let rows = REPACKS.iter().filter(|row| tensor.dtype().is_ok_and(|own| own == row.from));
        let mut rows = rows.filter(to_mlx).peekable();
        rows.peek().is_none()
            || rows.any(|row| !row.scales.contains(&DType::F32) || row.scales.contains(&DType::F16))
    };
    let all = matrices().filter(|tensor| is_quantized(tensor)).all(exact_in_f16);
    Some(if all && !wide { DType::F16 } else { DType::BF16 })
}
