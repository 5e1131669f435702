//! A summary of how a model's weights are stored: the tensors of each dtype and their bits.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Store;
use crate::dtype::DType;

/// The tensors of one dtype, and of one group size if it differs between tensors.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DTypeSummary {
    /// The dtype, or `None` for an unknown ggml type code.
    pub dtype: Option<DType>,
    /// The dtype's name, or `ggml:43` for an unknown code.
    pub label: Cow<'static, str>,
    /// The number of elements that share a scale, if the dtype does not determine it.
    pub group_size: Option<u32>,
    /// The number of tensors.
    pub tensors: u64,
    /// The number of elements; 0 for an unknown code.
    pub elements: u64,
    /// The bytes of all parts; 0 for an unknown code.
    pub bytes: u64,
}

impl DTypeSummary {
    /// The average number of bits for each value, scales included.
    pub fn bits_per_weight(&self) -> Option<f64> {
        bits(self.bytes, self.elements)
    }

    fn is_quantized(&self) -> bool {
        self.dtype.is_some_and(DType::is_quantized)
    }
}

/// The dtypes of a model's weights; see [`Model::quantization`](crate::Model::quantization).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuantizationSummary {
    /// One entry for each dtype and group size, the one with the most elements first.
    pub dtypes: Vec<DTypeSummary>,
}

impl QuantizationSummary {
    /// The elements of all tensors with a known dtype.
    pub fn elements(&self) -> u64 {
        self.dtypes.iter().map(|line| line.elements).fold(0, u64::saturating_add)
    }

    /// The bytes of all tensors with a known dtype.
    pub fn bytes(&self) -> u64 {
        self.dtypes.iter().map(|line| line.bytes).fold(0, u64::saturating_add)
    }

    /// The average number of bits for each value of the model, scales included.
    pub fn bits_per_weight(&self) -> Option<f64> {
        bits(self.bytes(), self.elements())
    }

    /// The quantized dtype with the most elements; `None` for a model that is not quantized.
    pub fn most(&self) -> Option<&DTypeSummary> {
        self.dtypes.iter().find(|line| line.is_quantized())
    }

    /// The bits of a code of [`most`](Self::most), without scales.
    pub fn quant_bits(&self) -> Option<u32> {
        Some(self.most()?.dtype?.bits())
    }

    /// The number of elements that share a scale in [`most`](Self::most), if the dtype does not
    /// determine it.
    pub fn quant_group_size(&self) -> Option<u32> {
        self.most()?.group_size
    }

    /// Whether quantized tensors have several dtypes or group sizes.
    pub fn is_mixed(&self) -> bool {
        self.dtypes.iter().filter(|line| line.is_quantized()).count() > 1
    }
}

fn bits(bytes: u64, elements: u64) -> Option<f64> {
    (elements > 0).then(|| bytes as f64 * 8.0 / elements as f64)
}

impl Store {
    /// Summarizes how the weights are stored, by dtype and group size.
    pub(crate) fn quantization(&self) -> QuantizationSummary {
        let mut dtypes: Vec<DTypeSummary> = Vec::new();
        let mut places = HashMap::new();
        for tensor in self.tensors() {
            let (label, group_size) = (tensor.dtype_label(), tensor.group_size());
            let place = *places.entry((label.clone(), group_size)).or_insert_with(|| {
                let dtype = tensor.dtype().ok();
                let (tensors, elements, bytes) = (0, 0, 0);
                dtypes.push(DTypeSummary { dtype, label, group_size, tensors, elements, bytes });
                dtypes.len().saturating_sub(1)
            });
            let Some(line) = dtypes.get_mut(place) else { continue };
            line.tensors = line.tensors.saturating_add(1);
            if line.dtype.is_some() {
                line.elements = line.elements.saturating_add(tensor.elements());
                line.bytes = line.bytes.saturating_add(tensor.stored_bytes());
            }
        }
        dtypes.sort_by_key(|line| std::cmp::Reverse(line.elements));
        QuantizationSummary { dtypes }
    }
}
