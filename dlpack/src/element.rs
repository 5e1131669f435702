//! The elements of arrays.

use weighbridge::DType;

/// The type of an array's elements: a `DLDataType` with one lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Element {
    /// The kind of number: 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 boolean, 10 to 14
    /// floats of 8 bits.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
    /// Always 1.
    pub lanes: u16,
}

impl Element {
    /// Bytes.
    pub const U8: Self = Self::new(1, 8);

    const fn new(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// The element of a dtype, if DLPack has it.
    pub fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F32 => Self::new(2, 32),
            DType::F16 => Self::new(2, 16),
            DType::BF16 => Self::new(4, 16),
            DType::F64 => Self::new(2, 64),
            DType::I8 => Self::new(0, 8),
            DType::I16 => Self::new(0, 16),
            DType::I32 => Self::new(0, 32),
            DType::I64 => Self::new(0, 64),
            DType::U8 => Self::U8,
            DType::U16 => Self::new(1, 16),
            DType::U32 => Self::new(1, 32),
            DType::U64 => Self::new(1, 64),
            DType::BOOL => Self::new(6, 8),
            DType::C64 => Self::new(5, 64),
            DType::F8_E4M3 => Self::new(10, 8),
            DType::F8_E4M3FNUZ => Self::new(11, 8),
            DType::F8_E5M2 => Self::new(12, 8),
            DType::F8_E5M2FNUZ => Self::new(13, 8),
            DType::F8_E8M0 => Self::new(14, 8),
            _ => return None,
        })
    }

    /// The bytes of an element.
    pub fn bytes(self) -> usize {
        usize::from(self.bits / 8)
    }
}
