//! Groups of MLX: packed elements in one array, scales and biases in others.
//!
//! Each row is one stream of bits, least significant first; an element takes the next `bits` of it.
//! Each product and sum rounds to `f32` on its own. That is what MLX gives when scales and biases
//! are `f32`; in their own dtype it rounds twice.

use super::Codec;
use super::float::{e4m3, e8m0};

pub(crate) static AFFINE1: Codec = Codec::groups(affine::<1>);
pub(crate) static AFFINE2: Codec = Codec::groups(affine::<2>);
pub(crate) static AFFINE3: Codec = Codec::groups(affine::<3>);
pub(crate) static AFFINE4: Codec = Codec::groups(affine::<4>);
pub(crate) static AFFINE5: Codec = Codec::groups(affine::<5>);
pub(crate) static AFFINE6: Codec = Codec::groups(affine::<6>);
pub(crate) static AFFINE8: Codec = Codec::groups(affine::<8>);
pub(crate) static FP4: Codec = Codec::groups(fp4);
pub(crate) static FP8: Codec = Codec::groups(fp8);

/// The bytes of one or more whole groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a> {
    /// Packed elements.
    pub(crate) weight: &'a [u8],
    /// A factor for each group.
    pub(crate) scale: &'a [u8],
    /// A term for each group, or nothing.
    pub(crate) bias: &'a [u8],
    /// How scales and biases are stored.
    pub(crate) formats: (Float, Float),
    /// Elements of a group.
    pub(crate) group_size: usize,
    /// A factor for the whole tensor.
    pub(crate) global_scale: f32,
}

/// A format of scales and biases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Float {
    F32,
    F16,
    BF16,
    E4M3,
    E8M0,
}

impl Float {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::E4M3 | Self::E8M0 => 1,
        }
    }

    /// The value of the first bytes.
    fn value(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::F32, &[a, b, c, d, ..]) => f32::from_le_bytes([a, b, c, d]),
            (Self::F16, &[a, b, ..]) => half::f16::from_le_bytes([a, b]).to_f32(),
            (Self::BF16, &[a, b, ..]) => {
                f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16)
            }
            (Self::E4M3, &[a, ..]) => e4m3(a),
            (Self::E8M0, &[a, ..]) => e8m0(a),
            _ => f32::NAN,
        }
    }
}

/// Decodes whole groups: as many values as `out` has room for.
pub(crate) type GroupDecode = fn(&Groups<'_>, &mut [f32]);

/// Calls `element` with each element's code, its group's scale and its group's bias.
#[inline(always)]
fn each<const BITS: usize>(
    groups: &Groups<'_>,
    out: &mut [f32],
    element: impl Fn(u32, f32, f32) -> f32,
) {
    let (scales, biases) = groups.formats;
    let group_bytes = groups.group_size * BITS / 8;
    let mut bias = groups.bias.chunks_exact(biases.bytes());
    let packed = groups.weight.chunks_exact(group_bytes);
    let scale = groups.scale.chunks_exact(scales.bytes());
    for ((out, packed), scale) in out.chunks_exact_mut(groups.group_size).zip(packed).zip(scale) {
        let scale = scales.value(scale);
        let bias = bias.next().map_or(0.0, |bytes| biases.value(bytes));
        // Eight elements fill BITS bytes.
        for (out, packed) in out.chunks_exact_mut(8).zip(packed.chunks_exact(BITS)) {
            let mut word = [0; 8];
            word[..BITS].copy_from_slice(packed);
            let word = u64::from_le_bytes(word);
            for (place, out) in out.iter_mut().enumerate() {
                #[expect(clippy::cast_possible_truncation, reason = "masked to at most 8 bits")]
                let code = (word >> (place * BITS)) as u32 & ((1 << BITS) - 1);
                *out = element(code, scale, bias);
            }
        }
    }
}

/// Value: q scale + bias.
fn affine<const BITS: usize>(groups: &Groups<'_>, out: &mut [f32]) {
    #[expect(clippy::cast_precision_loss, reason = "at most 8 bits")]
    each::<BITS>(groups, out, |code, scale, bias| code as f32 * scale + bias);
}

/// The values of E2M1 codes; code 8 is -0.
const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Value: e2m1 (scale global).
fn fp4(groups: &Groups<'_>, out: &mut [f32]) {
    let global = groups.global_scale;
    each::<4>(groups, out, |code, scale, _| E2M1[code as usize & 15] * (scale * global));
}

/// Value: e4m3 scale.
fn fp8(groups: &Groups<'_>, out: &mut [f32]) {
    #[expect(clippy::cast_possible_truncation, reason = "8 bits")]
    each::<8>(groups, out, |code, scale, _| e4m3(code as u8) * scale);
}
