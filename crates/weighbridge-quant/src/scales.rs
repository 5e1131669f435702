//! The numbers that scale blocks and groups.

use crate::float::Float;

/// The numbers that scale a block or a group.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scales {
    /// Their format.
    pub format: ScaleFormat,
    /// Their byte offsets in a block; in a row, if rows start with bytes before their blocks. Empty if they are a
    /// separate part.
    pub places: &'static [usize],
}

/// The format of a scale or bias.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ScaleFormat {
    /// A number.
    Float(Float),
    /// An `F16` whose four nibbles are the top nibbles of four words, the lowest first.
    Nibbles,
    /// E4M3 without a sign and without NaN: every code of `NVFP4` is a number.
    Ue4m3,
}

impl ScaleFormat {
    pub(crate) const F16: Self = Self::Float(Float::F16);
    pub(crate) const F32: Self = Self::Float(Float::F32);
    pub(crate) const E4M3: Self = Self::Float(Float::E4M3);
    pub(crate) const E8M0: Self = Self::Float(Float::E8M0);

    /// The value at the start of `bytes`.
    pub fn value(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::Float(float), _) => float.number(bytes),
            (Self::Nibbles, &[_, a, _, b, _, c, _, d, ..]) => {
                Float::F16.number(&[a >> 4 | b & 0xf0, c >> 4 | d & 0xf0])
            }
            (Self::Ue4m3, &[0x7f, ..]) => 0.0,
            (Self::Ue4m3, &[0xff, ..]) => 480.0,
            (Self::Ue4m3, &[code, ..]) => Float::E4M3.number(&[code & 0x7f]),
            _ => f32::NAN,
        }
    }

    /// Whether `bytes` start with a subnormal scale of `NVFP4`.
    pub fn is_low(self, bytes: &[u8]) -> bool {
        let e4m3 = matches!(self, Self::Ue4m3 | Self::Float(Float::E4M3));
        e4m3 && bytes.first().is_some_and(|code| (1..8).contains(&(code & 0x7f)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DTYPES, Packing};

    /// Every block dtype that can be decoded has the places of its scales.
    #[test]
    fn every_block_dtype_has_its_scales() {
        for row in DTYPES {
            let decodable = row.packing == Packing::Block && row.codec.is_some();
            let scales = row.scales.filter(|scales| !scales.places.is_empty());
            assert_eq!(scales.is_some(), decodable, "{}", row.name);
            let Some(Scales { format, places }) = scales else { continue };
            let width = match format {
                ScaleFormat::Float(float) => float.bytes(),
                ScaleFormat::Nibbles => 8,
                ScaleFormat::Ue4m3 => 1,
            };
            let bytes = (row.row_head + row.block_bytes) as usize;
            assert!(places.iter().all(|place| place + width <= bytes), "{}", row.name);
        }
    }

    #[test]
    fn numbers() {
        // The scale of IQ1_M is 0x3c00, which is 1, from the nibbles 0, 0, c and 3.
        let words = [0x0abc_u16, 0x0def, 0xc123, 0x3456].map(u16::to_le_bytes);
        assert_eq!(ScaleFormat::Nibbles.value(words.as_flattened()), 1.0);
        assert!(ScaleFormat::Float(Float::E4M3).value(&[0xff]).is_nan());
        assert!(!ScaleFormat::E8M0.value(&[0xff]).is_finite());
        assert!((0..=255).all(|code| ScaleFormat::Ue4m3.value(&[code]).is_finite()));
        // 2^-9 is the smallest value, and 2^-6 the smallest normal one.
        assert_eq!(ScaleFormat::Ue4m3.value(&[0x81]), 1.0 / 512.0);
        let low = |code: u8| ScaleFormat::Ue4m3.is_low(&[code]);
        assert_eq!([0, 0x80, 1, 7, 0x87, 8].map(low), [false, false, true, true, true, false]);
    }
}
