//! What a tensor becomes where another container has no dtype for what it is.

use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::quant::Importance;
use crate::recipe::ollama;
use crate::repack::REPACKS;
use crate::shape;
use crate::store::Part;
use crate::write::{How, Making, Quantizing, Repacking};

/// What is wanted of tensors, beyond that the container can hold them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// The dtype of matrices that are plain, and of quantized ones too.
    pub(super) dtype: Option<DType>,
    /// Nothing may be rounded.
    pub(super) lossless: bool,
}

/// Which dtypes a container can hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Holds {
    /// Plain ones and ggml's blocks.
    Blocks,
    /// Plain ones and MLX's groups.
    Groups,
    /// Plain ones that MLX reads, and those of its groups that Ollama has names for.
    Blobs,
    /// Plain ones.
    Plain,
}

/// How a tensor is made, what that does to its values, and why so.
pub(super) type Made = (Making, How, Option<String>);

/// The way of a tensor into a container: as it is, in another packing with the same values, or
/// with other values, which is an error if nothing may be lost.
pub(super) fn made(view: &Tensor, holds: Holds, wanted: Wanted) -> Result<Made> {
    let stored = view.dtype();
    let plain = plain(view);
    let matrix = view.shape().len() > 1;
    let integer = matches!(&stored, Ok(dtype) if dtype.is_integer());
    let other =
        |dtype: &DType| stored.as_ref().ok() != Some(dtype) || view.why_computed().is_some();
    if let Some(dtype) = wanted.dtype.filter(|_| matrix && !integer) {
        check_makable(dtype)?;
        if other(&dtype) {
            return encoded(view, dtype, None, wanted);
        }
    }
    if let Some(why) = view.why_computed() {
        return encoded(view, view.values_dtype(), Some(why.to_owned()), wanted);
    }
    // Rows in turn are many short ones, of which the values are soon had.
    if plain && view.is_in_turn() && stored.as_ref().is_ok_and(|own| *own == view.values_dtype()) {
        let why = "its rows lie in several tensors in turn".to_owned();
        return encoded(view, view.values_dtype(), Some(why), wanted);
    }
    let parts = match view.packed() {
        Ok(parts) => parts,
        // Of quantized tensors whose rows lie apart the values alone can be had.
        Err(error) if plain => {
            return encoded(view, view.values_dtype(), Some(error.to_string()), wanted);
        }
        Err(error) => return requantized(view, holds, wanted, error.to_string()),
    };
    let stored = stored?;
    let row = stored.descriptor();
    let native = match holds {
        Holds::Blocks => {
            let known = |part: Part| matches!(part, Part::Weight | Part::GlobalScale);
            row.ggml.is_some() && parts.iter().all(|part| known(part.part))
        }
        Holds::Groups => plain && row.safetensors.is_some() || is_mlx(stored),
        Holds::Blobs => {
            let amax = parts.iter().any(|part| part.part == Part::GlobalAmax);
            is_plain_of_mlx(stored) || is_ollama(stored) && !amax
        }
        Holds::Plain => plain && row.safetensors.is_some(),
    };
    if native {
        return Ok((Making::Packed(view.clone()), How::Copied, None));
    }
    if plain && holds == Holds::Blobs {
        let why = format!("MLX does not read {stored}");
        return encoded(view, view.values_dtype(), Some(why), wanted);
    }
    let candidates = REPACKS.iter().filter(|repack| repack.from == stored);
    let fits = |to: DType| match holds {
        Holds::Blocks => to.descriptor().ggml.is_some(),
        Holds::Groups => is_mlx(to),
        Holds::Blobs => is_ollama(to),
        Holds::Plain => false,
    };
    let mut why = format!("{} says nothing that {stored} says exactly", holds.name());
    for repack in candidates.filter(|repack| fits(repack.to)) {
        match Repacking::exact(view, repack.to, holds.global())? {
            Ok(repacking) => return Ok((Making::Repacked(repacking), How::Repacked, None)),
            Err(fault) => why = fault,
        }
    }
    requantized(view, holds, wanted, why)
}

/// Whether no tensor that it is made of is quantized. Of several dtypes none is the view's.
fn plain(view: &Tensor) -> bool {
    let plain = |dtype: DType| dtype.descriptor().packing == Packing::Plain;
    view.stored_tensors().all(|tensor| tensor.dtype().is_ok_and(plain))
}

impl Holds {
    /// What it keeps of a number for a whole tensor.
    const fn global(self) -> Part {
        match self {
            Self::Groups => Part::GlobalAmax,
            Self::Blocks | Self::Blobs | Self::Plain => Part::GlobalScale,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "GGUF",
            Self::Groups => "MLX",
            Self::Blobs => "Ollama",
            Self::Plain => "safetensors",
        }
    }
}

/// Whether mlx-lm reads tensors of a dtype.
pub(super) fn is_mlx(dtype: DType) -> bool {
    dtype.group_quantizer().is_some()
}

/// Whether Ollama has a name for groups of a dtype.
fn is_ollama(dtype: DType) -> bool {
    ollama::TYPES.iter().any(|row| row.dtype == dtype)
}

/// Whether MLX reads plain numbers of a dtype as what they are (`dtype_from_safetensor_str` of
/// mlx/io/safetensors.cpp): F64 not at all, those of 8 bits as integers.
fn is_plain_of_mlx(dtype: DType) -> bool {
    dtype.is_integer() || matches!(dtype, DType::BOOL | DType::F16 | DType::BF16 | DType::F32)
}

/// Whether values can be written in a dtype, with nothing but them to go by.
fn check_makable(dtype: DType) -> Result<()> {
    let plain = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    match dtype.descriptor().quantizer {
        _ if plain => Ok(()),
        Some(quantizer) if quantizer.importance() != Importance::Required => Ok(()),
        Some(_) => {
            let fault = format!("{dtype} needs the importance of its columns, and nothing says it");
            Err(Error::mismatch(fault).advise("`weighbridge quantize --imatrix` takes a matrix"))
        }
        None => Err(Error::unsupported(format!("nothing converts to {dtype}"))),
    }
}

/// Values in another dtype.
///
/// # Errors
///
/// `Unsupported` if it does not hold each of them, and nothing may be lost.
pub(super) fn encoded(
    view: &Tensor,
    dtype: DType,
    why: Option<String>,
    wanted: Wanted,
) -> Result<Made> {
    let held = match view.values_dtype() {
        own if own == dtype || dtype == DType::F32 => view.is_exact_in_f32()?,
        _ => false,
    };
    let how = match held {
        true => How::Exact,
        false if dtype.is_quantized() && !plain(view) => How::Requantized,
        false if dtype.is_quantized() => How::Quantized,
        false => How::Rounded,
    };
    if wanted.lossless && !how.is_lossless() {
        let what = format!("{dtype} does not hold every value of {}", view.dtype_label());
        let what = why.as_ref().map_or(what.clone(), |why| format!("{why}, and {what}"));
        return Err(
            Error::unsupported(format!("{what}, and nothing may be lost")).in_tensor(view.name())
        );
    }
    Ok((Making::Encoded { view: view.clone(), dtype, importance: None }, how, why))
}

/// The values of a quantized tensor in the dtype of a container that is next to lossless.
fn requantized(view: &Tensor, holds: Holds, wanted: Wanted, why: String) -> Result<Made> {
    view.check_decodable()?;
    if wanted.lossless {
        return Err(Error::unsupported(format!("{why}, and nothing may be lost"))
            .in_tensor(view.name())
            .advise("--dtype F32 holds every value"));
    }
    let whole = shape::columns(view.shape()).is_multiple_of(32) && view.shape().len() > 1;
    let making = match holds {
        Holds::Blocks if whole => {
            let dtype = DType::Q8_0;
            Making::Encoded { view: view.clone(), dtype, importance: None }
        }
        Holds::Groups | Holds::Blobs if whole => Making::Grouped(Quantizing {
            view: view.clone(),
            dtype: DType::MLX_AFFINE8,
            group_size: 32,
            values: DType::F16,
        }),
        _ => {
            return encoded(view, DType::F16, Some(why), wanted);
        }
    };
    Ok((making, How::Requantized, Some(why)))
}
