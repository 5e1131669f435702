//! Policies: which dtype each part of a tensor has on the device.

use std::fmt;
use std::sync::Arc;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{PackedPart, Tensor};
use crate::quant::{Narrowing, bf16, f16, narrow};
use crate::store::Part;

/// The dtype that loaded tensors are stored in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Policy {
    /// Packed as stored. Tensors whose values must be computed use [the dtype that holds
    /// them](Tensor::values_dtype).
    #[default]
    Keep,
    /// All floating-point and quantized tensors as `f32`.
    F32,
    /// All floating-point and quantized tensors as `f16`; values that become infinite or 0 are
    /// counted.
    F16,
    /// All floating-point and quantized tensors as `bf16`; values that become infinite or 0 are
    /// counted.
    BF16,
    /// `f32`, `f64` and `bf16` tensors as `f16`. Quantized tensors keep their packed codes, but
    /// their scales and biases become `f16` if they are `f32` or `bf16`. Values that become
    /// infinite or 0 are counted.
    PackedF16,
}

impl Policy {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "stored",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::PackedF16 => "stored codes and F16",
        }
    }

    /// The dtype of a floating-point part beside the codes.
    fn beside(self, part: Part, stored: DType) -> DType {
        match (self, stored) {
            (Self::F32, DType::F16 | DType::BF16) => DType::F32,
            (Self::F16, DType::F32 | DType::BF16) => DType::F16,
            (Self::BF16, DType::F32 | DType::F16) => DType::BF16,
            (Self::PackedF16, DType::F32 | DType::BF16)
                if matches!(part, Part::Scale | Part::Bias) =>
            {
                DType::F16
            }
            _ => stored,
        }
    }
}

/// A part of a tensor for which a policy is chosen; see
/// [`WeightProvider::policy_of`](super::WeightProvider::policy_of).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PartToLoad<'a> {
    /// The canonical name of the tensor; for fused tensors, that of the first member.
    pub tensor: &'a str,
    /// The part. [`Part::Weight`] is asked for first, and the others only if its policy keeps the
    /// codes packed.
    pub part: Part,
    /// The stored dtype of the part.
    pub dtype: DType,
}

/// Chooses the policy of a part.
pub(super) type Choose = dyn Fn(PartToLoad<'_>) -> Policy + Send + Sync;

/// The choices of a provider's caller.
#[derive(Clone, Default)]
pub(super) struct Choices {
    pub(super) policy: Policy,
    pub(super) of: Option<Arc<Choose>>,
    /// The dtypes to use instead of one that the device does not support, the best first.
    pub(super) fallback: Vec<DType>,
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choices({:?}, {}, {:?})", self.policy, self.of.is_some(), self.fallback)
    }
}

/// The form of a tensor in device memory.
#[derive(Debug)]
pub(super) enum LoadedForm {
    /// The packed bytes of these parts, with the dtype of each on the device.
    Packed(Vec<(PackedPart, DType)>),
    /// Its values.
    Values(DType),
}

/// The reason why the values of a tensor are computed although its codes could have been copied.
const NOT_SUPPORTED: &str = "the device does not support its dtype";
pub(super) const NOT_COMPUTED: &str = "the device cannot compute with its parts as they are stored";

impl Choices {
    /// The form of a tensor on a device, and why its values are computed, if they are.
    pub(super) fn form<D: Device>(
        &self,
        view: &Tensor,
        device: &D,
    ) -> Result<(LoadedForm, Option<&'static str>)> {
        let computed = view.why_computed();
        let wanted = self.wanted(view)?;
        let dtype = match &wanted {
            LoadedForm::Packed(_) => view.dtype()?,
            LoadedForm::Values(dtype) => *dtype,
        };
        let refused = |fault: String| Err(refused(view, device, &fault));
        if !device.supports(dtype) {
            return match self.instead(device, dtype) {
                Some(to) => Ok((LoadedForm::Values(to), computed.or(Some(NOT_SUPPORTED)))),
                None => refused(dtype.to_string()),
            };
        }
        let LoadedForm::Packed(mut parts) = wanted else { return Ok((wanted, computed)) };
        // Nothing is computed with a description.
        let beside = |part: Part| !matches!(part, Part::Weight | Part::Description);
        for (part, to) in parts.iter_mut().filter(|(part, _)| beside(part.part)) {
            if device.supports(*to) {
                continue;
            }
            let Some(dtype) = self.instead(device, *to) else {
                return refused(format!("{to}, the dtype of its {} part", part.part.name()));
            };
            if !is_float(part.dtype) {
                return Ok((LoadedForm::Values(dtype), Some(NOT_SUPPORTED)));
            }
            *to = dtype;
        }
        Ok((LoadedForm::Packed(parts), computed))
    }

    /// The dtype to use instead of one that the device does not compute with: one of the caller's, or the
    /// device's own.
    pub(super) fn instead<D: Device>(&self, device: &D, dtype: DType) -> Option<DType> {
        let chosen = self.fallback.iter().copied().find(|dtype| device.supports(*dtype));
        chosen.or_else(|| device.instead(dtype))
    }

    /// The form that the policies ask for.
    fn wanted(&self, view: &Tensor) -> Result<LoadedForm> {
        view.check_known()?;
        let stored = view.stored_tensors().map(|tensor| tensor.dtype());
        let stored = stored.collect::<Result<Vec<_>>>()?;
        let policy = match (&self.of, stored.first()) {
            (Some(of), Some(&dtype)) => {
                of(PartToLoad { tensor: first(view), part: Part::Weight, dtype })
            }
            _ => self.policy,
        };
        let is_computed = view.why_computed().is_some();
        let is_wide = |dtype: &DType| matches!(dtype, DType::F32 | DType::F64 | DType::BF16);
        let wanted = match policy {
            Policy::Keep if is_computed => view.values_dtype(),
            Policy::Keep => return self.packed(view),
            Policy::F32 => DType::F32,
            Policy::F16 => DType::F16,
            Policy::BF16 => DType::BF16,
            Policy::PackedF16 if is_computed || stored.iter().all(is_wide) => DType::F16,
            Policy::PackedF16 => return self.packed(view),
        };
        let is_kept = stored.iter().all(|dtype| *dtype == wanted || dtype.is_integer());
        if is_kept && !is_computed {
            return self.packed(view);
        }
        Ok(LoadedForm::Values(wanted))
    }

    /// The packed parts, with the dtype of each.
    fn packed(&self, view: &Tensor) -> Result<LoadedForm> {
        let parts = view.packed()?.into_iter().map(|part| {
            if part.part == Part::Weight {
                let dtype = part.dtype;
                return (part, dtype);
            }
            let policy = match &self.of {
                Some(of) => {
                    of(PartToLoad { tensor: first(view), part: part.part, dtype: part.dtype })
                }
                None => self.policy,
            };
            let to = policy.beside(part.part, part.dtype);
            (part, to)
        });
        Ok(LoadedForm::Packed(parts.collect()))
    }
}

/// The error for a tensor that a device does not compute with, if nothing was chosen instead.
pub(super) fn refused<D: Device>(view: &Tensor, device: &D, what: &str) -> Error {
    Error::unsupported(format!("{} does not support {what}", device.name()))
        .advise("choose a policy or a fallback that decodes it")
        .in_tensor(view.name())
}

/// The name of a tensor, or of the first one of those that are fused.
fn first(view: &Tensor) -> &str {
    view.name().split('+').next().unwrap_or_default()
}

/// Whether parts of this dtype can be converted on the way.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Converts numbers from one floating-point dtype to another: F32, F16 or BF16.
pub(super) fn convert(from: DType, bytes: &[u8], to: DType, out: &mut [u8]) -> Narrowing {
    /// Numbers that are converted together.
    const RUN: usize = 256;
    let mut lost = Narrowing::default();
    let (wide, narrowed) = (from.descriptor().block_bytes, to.descriptor().block_bytes);
    let runs = bytes.chunks(RUN * wide as usize).zip(out.chunks_mut(RUN * narrowed as usize));
    for (bytes, out) in runs {
        let mut values = [0f32; RUN];
        let count = match from {
            DType::F32 => {
                let numbers = bytes.as_chunks().0;
                values.iter_mut().zip(numbers).for_each(|(v, b)| *v = f32::from_le_bytes(*b));
                numbers.len()
            }
            _ => {
                let numbers = bytes.as_chunks().0;
                let value = |bits: [u8; 2]| match from {
                    DType::F16 => f16::from_le_bytes(bits).to_f32(),
                    _ => bf16::from_le_bytes(bits).to_f32(),
                };
                values.iter_mut().zip(numbers).for_each(|(v, b)| *v = value(*b));
                numbers.len()
            }
        };
        let values = values.get(..count).unwrap_or_default();
        match to {
            DType::F16 => {
                let mut halves = [f16::ZERO; RUN];
                lost += narrow(values, &mut halves);
                let numbers = out.as_chunks_mut().0.iter_mut().zip(halves);
                numbers.for_each(|(out, value)| *out = value.to_le_bytes());
            }
            DType::BF16 => {
                let mut halves = [bf16::ZERO; RUN];
                lost += narrow(values, &mut halves);
                let numbers = out.as_chunks_mut().0.iter_mut().zip(halves);
                numbers.for_each(|(out, value)| *out = value.to_le_bytes());
            }
            _ => {
                let numbers = out.as_chunks_mut().0.iter_mut().zip(values);
                numbers.for_each(|(out, value)| *out = value.to_le_bytes());
            }
        }
    }
    lost
}
