//! Integer scales within blocks: what each sub-block's codes are multiplied by, besides the block's scale.

use crate::dtype::DType;

/// The number of sub-blocks of a block of this dtype; `None` if its blocks are not divided.
pub(super) fn count(dtype: DType) -> Option<usize> {
    match dtype {
        DType::Q4_K | DType::Q5_K | DType::IQ4_XS => Some(8),
        DType::Q2_K | DType::Q3_K | DType::Q6_K => Some(16),
        _ => None,
    }
}

/// The integer of a sub-block; `docs/formats/ggml-blocks.md` says where its bits are. It is 0 if the bytes are
/// not a block.
pub(super) fn integer(dtype: DType, block: &[u8], number: usize) -> i32 {
    let byte = |at: usize| block.get(at).copied().unwrap_or(0);
    // A nibble of the bytes from `at` on, the low one of each byte first.
    let nibble = |at: usize| byte(at + number / 2) >> (number % 2 * 4) & 0xf;
    match dtype {
        DType::Q2_K => i32::from(byte(number) & 0xf),
        DType::Q3_K => {
            let low = byte(96 + number % 8) >> (number / 8 * 4) & 0xf;
            let high = byte(104 + number % 4) >> (number / 4 * 2) & 3;
            i32::from(low | high << 4) - 32
        }
        DType::Q4_K | DType::Q5_K if number < 4 => i32::from(byte(4 + number) & 0x3f),
        DType::Q4_K | DType::Q5_K => i32::from(byte(8 + number) & 0xf | byte(number) >> 6 << 4),
        DType::Q6_K => i32::from(byte(192 + number).cast_signed()),
        DType::IQ4_XS => {
            let high = byte(2 + number / 4) >> (number % 4 * 2) & 3;
            i32::from(nibble(4) | high << 4) - 32
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, Part, Tensor};

    /// In blocks that ggml wrote, the values of a sub-block are whole multiples of its scale apart.
    #[test]
    fn values_of_a_sub_block_are_multiples_of_its_scale_apart() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let model = Model::open(path.join("tests/data/golden.safetensors")).unwrap();
        for dtype in
            [DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::IQ4_XS]
        {
            let stored = |kind: &str| model.stored_tensor(&format!("{dtype}.{kind}")).unwrap();
            let values = stored("expected");
            let (shape, raw) = (values.shape(), stored("raw"));
            let bytes = raw.bytes(Part::Weight).unwrap();
            let rows = values.elements() / shape.last().unwrap();
            let tensor = Tensor::new("t", dtype, shape, bytes.into_owned()).unwrap();
            let scales = tensor.row_scales(0..rows).unwrap().unwrap();
            let sub = scales.sub_blocks.unwrap();
            let width = usize::try_from(sub.width).unwrap();
            assert_eq!(width, 256 / count(dtype).unwrap());
            let values = values.dequantize().unwrap();
            assert_eq!(values.len(), sub.values.len() * width, "{dtype}");
            let mut different = 0;
            for (values, scale) in values.chunks(width).zip(&sub.values) {
                for value in values {
                    let steps = (value - values[0]) / scale;
                    let error = (steps - steps.round()).abs();
                    assert!(
                        *scale == 0.0 && *value == values[0] || error < 0.01,
                        "{dtype}: {steps}"
                    );
                }
                different += usize::from(values.iter().any(|value| *value != values[0]));
            }
            assert!(different > sub.values.len() / 2, "{dtype}");
        }
    }
}
