//! The first block dtypes: 32 elements and one scale.

use super::super::{Codec, blocks};
use super::scale;

/// `d` f16, then 16 bytes: byte j holds element j in its low and element j + 16 in its high nibble.
/// Value: (q - 8) d.
pub(crate) static Q4_0: Codec = Codec::new(|bytes, out| {
    blocks::<18, 32>(bytes, out, |[low, high, codes @ ..], out| {
        let d = scale(*low, *high);
        let (first, second) = out.split_at_mut(16);
        for ((code, first), second) in codes.iter().zip(first).zip(second) {
            *first = (f32::from(code & 15) - 8.0) * d;
            *second = (f32::from(code >> 4) - 8.0) * d;
        }
    });
});

/// `d` f16, then 32 signed bytes. Value: q d.
pub(crate) static Q8_0: Codec = Codec::new(|bytes, out| {
    blocks::<34, 32>(bytes, out, |[low, high, codes @ ..], out| {
        let d = scale(*low, *high);
        for (code, out) in codes.iter().zip(out) {
            *out = f32::from(code.cast_signed()) * d;
        }
    });
});
