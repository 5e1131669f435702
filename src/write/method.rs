//! Chooses how a tensor is written into a container.

use super::grid::GridRepack;
use super::{GroupQuantization, Method, Output, Producer, TensorRepack};
use crate::arch::config_json::stated_float;
use crate::container::writer::Writer;
use crate::dtype::{DType, Packing};
use crate::error::{AdvisedOption, Error, ErrorKind, Result};
use crate::model::{PackedPart, Tensor};
use crate::quant::{Global, Importance};
use crate::repack::REPACKS;
use crate::shape;
use crate::store::Part;

/// The floats in which checkpoints have their tensors.
pub(crate) const PLAIN_FLOATS: [DType; 3] = [DType::BF16, DType::F16, DType::F32];

/// The reason why a repacked tensor has other values.
const ROUNDED_SCALES: &str = "its scales are rounded to BF16";

/// The caller's requirements on dtypes, beyond what the container can hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Precision {
    /// The dtype to write all matrices in.
    pub(crate) dtype: Option<DType>,
    /// The dtype of every plain float, and of the scales of quantized tensors, unless the result
    /// must be lossless.
    pub(crate) floats: Option<DType>,
    /// Whether any loss is an error.
    pub(crate) lossless: bool,
    /// Whether FP8 with scales, in which checkpoints are published, is decoded to BF16, as
    /// llama.cpp's converter and mlx-lm do before they quantize.
    pub(crate) decodes_fp8: bool,
    /// Whether quantized tensors are decoded: those of MLX to the dtype of their scales, MXFP4 to BF16, FP8 to BF16 if the
    /// model's config states it, others to F16, or all to F32 if the result must be lossless.
    pub(crate) decodes: bool,
}

impl Precision {
    /// Whether no dtype is asked for.
    pub(crate) fn is_as_stored(self) -> bool {
        self.dtype.is_none() && !self.decodes
    }

    /// Whether the scales of repacked tensors are rounded to the dtype of the model's other floats. Infinities are
    /// avoided: those that do not fit F16 keep the dtype that holds them.
    fn rounds_scales(self) -> bool {
        self.floats == Some(DType::BF16) && !self.lossless
    }

    /// The dtype that is asked for, if it is a plain float.
    pub(crate) fn plain_dtype(self) -> Option<DType> {
        self.dtype.filter(|dtype| PLAIN_FLOATS.contains(dtype))
    }
}

/// Chooses how a tensor is written: copied as it is stored, repacked with the same values, or with
/// changed values. Changed values are an error if `precision` requires a lossless result.
///
/// # Errors
///
/// `Unsupported` for codes without their scales: a copy of them in another container, or among tensors
/// of another precision, would be read as numbers.
pub(crate) fn choose(view: &Tensor, writer: &Writer, precision: Precision) -> Result<Output> {
    view.check_known()?;
    let stored = view.dtype();
    let plain = plain(view);
    let matrix = view.shape().len() > 1;
    let integer = matches!(&stored, Ok(dtype) if dtype.is_integer());
    let other =
        |dtype: &DType| stored.as_ref().ok() != Some(dtype) || view.why_computed().is_some();
    let floats = precision.floats.filter(|_| plain && !integer && !precision.lossless);
    let asked = precision.dtype.or_else(|| decoded(view, precision));
    let requested = asked.filter(|dtype| matrix && !integer && !is_kernel(view, *dtype));
    if let Some(dtype) = requested.or(floats) {
        check_encodable(dtype)?;
        if other(&dtype) {
            let cast = "all floats of an MLX directory have one dtype";
            let why =
                precision.floats.filter(|_| precision.dtype.is_none()).map(|_| cast.to_owned());
            return encoded(view, dtype, why, precision);
        }
    }
    if precision.decodes_fp8 && is_fp8(view) {
        return encoded(view, DType::BF16, None, precision);
    }
    if let Some(why) = view.why_computed() {
        return encoded(view, view.values_dtype(), Some(why.to_owned()), precision);
    }
    // Interleaved rows of several tensors are many short reads; decoding the values is as fast.
    if plain
        && view.is_interleaved()
        && stored.as_ref().is_ok_and(|own| *own == view.values_dtype())
    {
        let why = "its rows are interleaved from several tensors".to_owned();
        return encoded(view, view.values_dtype(), Some(why), precision);
    }
    let parts = match view.packed() {
        Ok(parts) => parts,
        // If a quantized tensor's rows are not contiguous, only its values are available.
        Err(error) if plain => {
            return encoded(view, view.values_dtype(), Some(error.to_string()), precision);
        }
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        Err(error) => return requantized(view, writer, precision, error.to_string()),
    };
    let parts: Vec<Part> = parts.iter().map(|part: &PackedPart| part.part).collect();
    let stored = stored?;
    let takes_global = (writer.takes_global)(view.shape());
    let has_global = parts.iter().any(|part| matches!(part, Part::GlobalAmax | Part::GlobalScale));
    if (writer.holds)(stored, &parts) && (takes_global || !has_global) {
        return Ok(Output::new(Producer::Packed(view.clone()), Method::Copied));
    }
    if plain && writer.widens_plain {
        let why = format!("MLX does not support {stored}");
        return encoded(view, view.values_dtype(), Some(why), precision);
    }
    let global = Some(writer.global).filter(|_| takes_global);
    let candidates = REPACKS.iter().filter(|repack| repack.from == stored);
    let mut why = format!("{} has no lossless equivalent of {stored}", writer.name);
    for repack in candidates.filter(|repack| (writer.repacks_to)(repack.to)) {
        match TensorRepack::exact(view, repack.to, global)? {
            Ok(repacking) => {
                return Ok(repacked(repacking, precision));
            }
            Err(fault) => why = fault,
        }
        if !writer.rounds_divisors || precision.lossless || !has_divisor(view)? {
            continue;
        }
        if let Ok(repacking) = TensorRepack::with_factors(view, repack.to, global)? {
            // Five roundings to f32 differ at most: of both scales, of the factor, of the products.
            let why = "its codes and scales are unchanged; the divisor of the tensor becomes a \
                       factor, which moves values by less than 3e-7 of their size"
                .to_owned();
            let output = Output::new(Producer::Repacked(repacking), Method::Rounded);
            return Ok(output.with_reason(Some(why)));
        }
    }
    let exact = in_exact_groups(view, writer, precision)?;
    exact.map_or_else(|| requantized(view, writer, precision, why), Ok)
}

/// A tensor whose values lie on grids, as those of codes with zero points do, in groups that hold them. `None` for other
/// values, and for a container whose config states no sizes of groups.
fn in_exact_groups(view: &Tensor, writer: &Writer, precision: Precision) -> Result<Option<Output>> {
    if !writer.quantization_in_config || !(writer.repacks_to)(DType::MLX_AFFINE4) {
        return Ok(None);
    }
    let Some(repacking) = GridRepack::exact(view)? else { return Ok(None) };
    if !precision.rounds_scales() {
        return Ok(Some(Output::new(Producer::Gridded(repacking), Method::Repacked)));
    }
    let producer = Producer::Gridded(repacking.with_bf16_scales());
    let why = Some(ROUNDED_SCALES.to_owned());
    Ok(Some(Output::new(producer, Method::Rounded).with_reason(why)))
}

/// Whether a divisor of compressed-tensors belongs to the tensor.
fn has_divisor(view: &Tensor) -> Result<bool> {
    Ok(view.globals()?.iter().any(|global| matches!(global, Global::Divisor(_))))
}

/// Quantizes a tensor in groups, from its plain values; those of a quantized tensor are rounded to F16,
/// those of FP8 with scales to BF16. One that is quantized so already is copied.
/// `floats` is the dtype of the model's other floats, if it is not that of each tensor.
pub(crate) fn grouped(
    view: &Tensor,
    dtype: DType,
    group_size: u32,
    floats: Option<DType>,
) -> Result<Output> {
    let stored = view.dtype()?;
    if stored == dtype && view.group_size() == Some(group_size) && view.packed().is_ok() {
        return Ok(Output::new(Producer::Packed(view.clone()), Method::Copied));
    }
    let own = match stored.is_quantized() {
        true if is_fp8(view) => DType::BF16,
        true => DType::F16,
        false => view.values_dtype(),
    };
    grouped_from(view, floats.unwrap_or(own), dtype, group_size)
}

/// Like [`grouped`], from values that are first rounded to the plain dtype `values`.
pub(crate) fn grouped_from(
    view: &Tensor,
    values: DType,
    dtype: DType,
    group_size: u32,
) -> Result<Output> {
    view.check_known()?;
    // What is added to a quantized tensor is not quantized yet.
    let again = view.dtype()?.is_quantized() && !is_fp8(view) && !view.is_adapted();
    let quantization = GroupQuantization { view: view.clone(), dtype, group_size, values };
    let method = if again { Method::Requantized } else { Method::Quantized };
    Ok(Output::new(Producer::Grouped(quantization), method))
}

/// The dtype that a quantized tensor is decoded to if none is asked for. MLX decodes groups to the dtype of their scales,
/// or to BF16 if they have 8 bits. BF16 holds all values of MXFP4, whose scales are powers of 2. FP8 and bitsandbytes' types
/// become BF16 if `config.json` states that dtype, as the programs do that run such a checkpoint.
fn decoded(view: &Tensor, precision: Precision) -> Option<DType> {
    let dtype = view.dtype().ok().filter(|dtype| precision.decodes && dtype.is_quantized())?;
    let groups = dtype.group_quantizer().and_then(|_| view.packed().ok()).unwrap_or_default();
    let scales = groups.iter().find(|part| part.part == Part::Scale);
    let stated = || view.stored_tensors().find_map(|tensor| stated_float(tensor.store()));
    Some(match scales.map(|part| part.dtype) {
        _ if precision.lossless => DType::F32,
        _ if matches!(dtype, DType::MXFP4 | DType::HF_MXFP4) => DType::BF16,
        Some(dtype @ (DType::BF16 | DType::F32)) => dtype,
        Some(DType::U8) => DType::BF16,
        None if is_fp8(view) || is_bitsandbytes(dtype) => {
            stated().filter(|own| *own == DType::BF16).unwrap_or(DType::F16)
        }
        _ => DType::F16,
    })
}

/// Whether a tensor is stored as FP8 with scales, which is how some checkpoints are published.
fn is_fp8(view: &Tensor) -> bool {
    view.stored_tensors().any(|tensor| tensor.dtype().is_ok_and(DType::is_scaled_f8))
}

/// Whether a dtype is one of bitsandbytes, which decodes to the dtype that the model computes in.
fn is_bitsandbytes(dtype: DType) -> bool {
    matches!(dtype, DType::BNB_NF4 | DType::BNB_FP4 | DType::BNB_INT8)
}

/// A repacked tensor, with its scales in the dtype of the model's other floats.
fn repacked(repacking: TensorRepack, precision: Precision) -> Output {
    let rounds = precision.rounds_scales();
    let repacking = if rounds { repacking.with_bf16_scales() } else { repacking };
    let why = repacking.is_rounded().then(|| ROUNDED_SCALES.to_owned());
    let method = if why.is_some() { Method::Rounded } else { Method::Repacked };
    Output::new(Producer::Repacked(repacking), method).with_reason(why)
}

/// Whether all stored tensors that it is derived from are plain. A tensor derived from several
/// dtypes has no dtype of its own.
fn plain(view: &Tensor) -> bool {
    let plain = |dtype: DType| dtype.descriptor().packing == Packing::Plain;
    view.stored_tensors().all(|tensor| tensor.dtype().is_ok_and(plain))
}

/// Whether a tensor is a kernel of a convolution, whose rows are a few values and no blocks.
fn is_kernel(view: &Tensor, dtype: DType) -> bool {
    view.shape().len() > 2 && dtype.row_bytes(shape::columns(view.shape())).is_none()
}

/// Checks that values can be written in a dtype without an importance matrix.
pub(super) fn check_encodable(dtype: DType) -> Result<()> {
    let is_plain = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    match dtype.descriptor().quantizer {
        _ if is_plain => Ok(()),
        Some(quantizer) if quantizer.importance() != Importance::Required => Ok(()),
        Some(_) => {
            let fault = format!("{dtype} requires an importance matrix");
            Err(Error::mismatch(fault)
                .advise_option("quantize the model with one: {}", AdvisedOption::Importance))
        }
        None => Err(Error::unsupported(format!("no conversion to {dtype}"))),
    }
}

/// Writes the values of a tensor in another dtype.
///
/// # Errors
///
/// `Unsupported` if the dtype does not hold every value, and the result must be lossless.
pub(crate) fn encoded(
    view: &Tensor,
    dtype: DType,
    why: Option<String>,
    precision: Precision,
) -> Result<Output> {
    let held = match view.values_dtype() {
        own if own == dtype || dtype == DType::F32 => view.is_exact_in_f32()?,
        _ => false,
    };
    let method = match held {
        true => Method::Exact,
        false if dtype.is_quantized() && !plain(view) => Method::Requantized,
        false if dtype.is_quantized() => Method::Quantized,
        false if view.is_adapted() => Method::Merged,
        false => Method::Rounded,
    };
    if precision.lossless && !method.is_lossless() {
        let what = format!("{dtype} does not hold every value of {}", view.dtype_label());
        let what = why.as_ref().map_or(what.clone(), |why| format!("{why}, and {what}"));
        return Err(Error::unsupported(format!("{what}, but the result must be lossless"))
            .in_tensor(view.name()));
    }
    let producer = Producer::Encoded { view: view.clone(), dtype, importance: None };
    Ok(Output::new(producer, method).with_reason(why))
}

/// Requantizes a tensor to the container's most exact dtype.
pub(crate) fn requantized(
    view: &Tensor,
    writer: &Writer,
    precision: Precision,
    why: String,
) -> Result<Output> {
    view.check_decodable()?;
    if precision.lossless {
        return Err(Error::unsupported(format!("{why}, but the result must be lossless"))
            .in_tensor(view.name())
            .advise("the dtype F32 holds every value"));
    }
    let whole = shape::columns(view.shape()).is_multiple_of(32) && view.shape().len() > 1;
    let producer = match writer.fallback.filter(|_| whole) {
        Some((dtype, group_size)) if dtype.group_quantizer().is_some() => {
            let view = view.clone();
            let values = precision.floats.unwrap_or(DType::F16);
            Producer::Grouped(GroupQuantization { view, dtype, group_size, values })
        }
        Some((dtype, _)) => Producer::Encoded { view: view.clone(), dtype, importance: None },
        None => {
            let dtype = precision.floats.unwrap_or(DType::F16);
            return encoded(view, dtype, Some(why), precision);
        }
    };
    Ok(Output::new(producer, Method::Requantized).with_reason(Some(why)))
}
