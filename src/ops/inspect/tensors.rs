//! The tensors of a model, by stored or by canonical name.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::arch::{Mapping, Resolution};
use crate::bytes::{Text, try_vec};
use crate::model::{Derivation, Model};
use crate::ops::odd_name;
use crate::store::tensor::{Segment, StoredTensor};

/// The tensors of a model, under the requested names.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum InspectedTensors<'m> {
    /// By stored name.
    #[non_exhaustive]
    Stored {
        /// The stored tensors, in the order of the files.
        tensors: Vec<InspectedTensor<'m>>,
    },
    /// By canonical name.
    #[non_exhaustive]
    Canonical {
        /// The canonical tensors, in the order of the files.
        tensors: Vec<CanonicalTensor<'m>>,
        /// Stored names without a canonical one.
        unknown: Vec<&'m str>,
        /// Known tensors that are not weights of the language model.
        auxiliary: Vec<AuxiliaryTensor<'m>>,
    },
}

/// A stored tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct InspectedTensor<'m> {
    /// The stored name; if it is not UTF-8, its [spelling](Text::spelling).
    pub name: Cow<'m, str>,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name_hex: Option<String>,
    /// The canonical name, or several separated by `+`; absent unless requested.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub canonical: Option<Option<Cow<'m, str>>>,
    /// The name of the dtype, or `ggml:43` for an unknown type code.
    pub dtype: Cow<'static, str>,
    /// Dimensions, outermost first.
    pub shape: &'m [u64],
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub group_size: Option<u32>,
    /// Bits per value, including scales and other parts.
    pub bits_per_weight: Option<f64>,
    /// Bytes of all parts; 0 for an unknown type code.
    pub bytes: u64,
    /// The parts, the weight first. Empty for an unknown type code.
    pub parts: InspectedParts<'m>,
    /// The bytes of the stored name.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub raw_name: Text<'m>,
}

/// The parts of a stored tensor. They are made when they are asked for: a model may have a hundred
/// thousand.
#[derive(Clone, Copy, Debug)]
pub struct InspectedParts<'m>(StoredTensor<'m>);

impl<'m> InspectedParts<'m> {
    /// The parts, in order.
    pub fn iter(&self) -> impl Iterator<Item = InspectedPart<'m>> + use<'m> {
        self.0.segments().map(InspectedPart::new)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.segments().next().is_none()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for InspectedParts<'_> {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.iter())
    }
}

/// A part of a stored tensor: see [`Segment`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct InspectedPart<'m> {
    /// The role of the array in its tensor.
    pub part: &'static str,
    /// The name of the array.
    pub name: Cow<'m, str>,
    /// The name of its dtype.
    pub dtype: &'static str,
    /// The file that holds it.
    pub file: Cow<'m, str>,
    /// Its offset in that file, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A canonical tensor, and how it is derived from stored tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CanonicalTensor<'m> {
    /// The canonical name.
    pub name: &'m str,
    /// The stored tensors that it is derived from.
    pub stored: &'m [String],
    /// The names of their dtypes; `None` if the tensor has a fault.
    pub dtype: Option<String>,
    /// Dimensions, outermost first; `None` if the tensor has a fault.
    pub shape: Option<Vec<u64>>,
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub group_size: Option<u32>,
    /// The change from the stored tensors to it, as the architecture's rules state it.
    pub transform: String,
    /// The name of its [`Derivation`]: `stored`, `reordered`, `part`, `joined` or `computed`; or `fault`,
    /// if the config contradicts the tensors or is missing.
    pub served: &'static str,
    /// The reason why it is computed, or its fault.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub why: Option<String>,
}

/// A known tensor that is not a weight of the language model: see
/// [`Auxiliary`](crate::arch::Auxiliary).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AuxiliaryTensor<'m> {
    /// The stored name.
    pub name: &'m str,
    /// Its purpose.
    pub reason: &'static str,
}

/// Lists the stored tensors. `names` is `None` if canonical names were not requested, and
/// `Some(None)` if they could not be resolved.
pub(super) fn stored<'m>(
    model: &'m Model,
    names: Option<Option<&'m Resolution>>,
) -> InspectedTensors<'m> {
    let names = names.map(|known| known.map(canonical_names).unwrap_or_default());
    let tensor = |tensor| InspectedTensor::new(tensor, names.as_ref());
    // Growing would hold the list twice.
    let mut tensors = try_vec(model.len()).unwrap_or_default();
    tensors.extend(model.store().tensors().map(tensor));
    InspectedTensors::Stored { tensors }
}

/// Canonical names by stored name, separated by `+` if one stored tensor holds several tensors.
type CanonicalNames<'m> = HashMap<&'m str, Cow<'m, str>, RandomState>;

fn canonical_names(resolution: &Resolution) -> CanonicalNames<'_> {
    let mut names = CanonicalNames::default();
    for mapping in &resolution.mapped {
        for stored in &mapping.stored {
            let name = names.entry(stored).and_modify(|name| {
                let name = name.to_mut();
                name.push('+');
                name.push_str(&mapping.canonical);
            });
            name.or_insert(Cow::Borrowed(&mapping.canonical));
        }
    }
    names
}

impl<'m> InspectedTensor<'m> {
    fn new(tensor: StoredTensor<'m>, names: Option<&CanonicalNames<'m>>) -> Self {
        let raw_name = tensor.name();
        let name = raw_name.spelling();
        let (parts, bytes) = (InspectedParts(tensor), tensor.stored_bytes());
        let elements = tensor.elements();
        let known = elements > 0 && !parts.is_empty();
        Self {
            name_hex: odd_name(raw_name),
            canonical: names.map(|names| names.get(&*name).cloned()),
            name,
            dtype: tensor.dtype_label(),
            shape: tensor.shape(),
            group_size: tensor.group_size(),
            bits_per_weight: known.then(|| bytes as f64 * 8.0 / elements as f64),
            bytes,
            parts,
            raw_name,
        }
    }
}

impl<'m> InspectedPart<'m> {
    fn new(segment: Segment<'m>) -> Self {
        Self {
            part: segment.part.name(),
            name: segment.name.spelling(),
            dtype: segment.dtype.name(),
            file: Text::from_path(segment.path).spelling(),
            offset: segment.range.start,
            bytes: segment.range.end - segment.range.start,
        }
    }
}

/// Lists the canonical tensors.
pub(super) fn canonical<'m>(model: &'m Model, resolution: &'m Resolution) -> InspectedTensors<'m> {
    let auxiliary = resolution.auxiliary.iter();
    InspectedTensors::Canonical {
        tensors: resolution.mapped.iter().map(|found| CanonicalTensor::new(model, found)).collect(),
        unknown: resolution.unknown.iter().map(String::as_str).collect(),
        auxiliary: auxiliary
            .map(|tensor| AuxiliaryTensor { name: &tensor.stored, reason: tensor.reason })
            .collect(),
    }
}

impl<'m> CanonicalTensor<'m> {
    fn new(model: &Model, mapping: &'m Mapping) -> Self {
        let found = model.tensor(&mapping.canonical).and_then(|tensor| {
            let derivation = tensor.derivation()?;
            Ok((tensor, derivation))
        });
        let (tensor, served, why) = match found {
            Ok((tensor, form)) => {
                let served = form.name();
                let why = match form {
                    Derivation::Computed(why) => Some(why),
                    _ => None,
                };
                (Some(tensor), served, why)
            }
            Err(error) => (None, "fault", Some(error.to_string())),
        };
        Self {
            name: &mapping.canonical,
            stored: &mapping.stored,
            dtype: tensor.as_ref().map(crate::Tensor::dtype_label),
            shape: tensor.as_ref().map(|tensor| tensor.shape().to_vec()),
            group_size: tensor.as_ref().and_then(crate::Tensor::group_size),
            transform: mapping.transform.to_string(),
            served,
            why,
        }
    }
}
