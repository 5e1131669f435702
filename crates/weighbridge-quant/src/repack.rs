//! Lossless repacking between ggml's blocks, MLX's groups and those of checkpoints.
//!
//! Repacking does not requantize. Codes are moved, scales are stored in the form of the other
//! packing, and [`Repacked::NotExact`] says which number that packing cannot represent.

use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::repacker::{self, NotExact, RepackInput, Repacker};
use crate::{Float, Global, GroupParts, Packed};

/// A lossless change of packing between two dtypes: all values stay the same `f32`.
/// [`DType::repack_to`] finds it.
///
/// Rows are independent of each other: any number of whole rows can be repacked at a time, by any
/// number of threads.
///
/// ```
/// use weighbridge_quant::GroupParts;
/// use weighbridge_quant::repack::{PackedRows, Repacked};
/// use weighbridge_quant::DType;
///
/// # fn main() -> weighbridge_quant::Result<()> {
/// let repack = DType::Q4_0.repack_to(DType::MLX_AFFINE4).unwrap();
/// // Two rows of 32 elements, all of which have code 9: (9 - 8) d, where d is 1 and 2.
/// let blocks = [[&[0x00, 0x3c][..], &[0x99; 16]], [&[0x00, 0x40][..], &[0x99; 16]]].concat().concat();
/// let from = PackedRows::blocks(&blocks, 32);
/// let sizes = repack.sizes(2, &from, DType::F16)?;
/// let [mut weight, mut scale, mut bias] = sizes.map(|size| vec![0; size]);
/// let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
/// assert_eq!(repack.run(&from, DType::F16, to)?, Repacked::Exact);
/// assert_eq!((weight, scale), (vec![0x99; 32], vec![0x00, 0x3c, 0x00, 0x40]));
/// assert_eq!(bias, [0x00, 0xc8, 0x00, 0xcc]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Repack {
    /// The source dtype.
    pub from: DType,
    /// The target dtype.
    pub to: DType,
    /// The group size, if there is only one; see [`group_size`](Self::group_size).
    pub group: Option<usize>,
    /// The dtypes in which scales and biases may be stored, the narrowest possible first; empty if
    /// the target is blocks.
    pub scales: &'static [DType],
    /// Whether zeros keep their signs. If not, a zero may change its sign; all other values keep
    /// every bit.
    pub keeps_zero_signs: bool,
    pub(crate) repacker: &'static Repacker,
}

macro_rules! repacks {
    ($($from:ident => $to:ident, $group:expr, $scales:ident, zeros $zeros:expr, $repacker:ident;)*) => {
        /// Every supported repacking.
        pub static REPACKS: &[Repack] = &[$(Repack {
            from: DType::$from,
            to: DType::$to,
            group: $group,
            scales: $scales,
            keeps_zero_signs: $zeros,
            repacker: &repacker::$repacker,
        }),*];
    };
}

const NONE: &[DType] = &[];
/// MLX has no dtype for these formats, but the bytes are the same.
const POWERS: &[DType] = &[DType::U8, DType::F8_E8M0];
const EIGHTHS: &[DType] = &[DType::U8, DType::F8_E4M3];
/// Biases are `f16` numbers times small integers, and may be too large for `f16`.
const FLOATS: &[DType] = &[DType::F16, DType::BF16, DType::F32];
/// Products of two `f16` numbers, which narrower dtypes rarely represent.
const PRODUCTS: &[DType] = &[DType::F32];

// Where codes have an offset such as 8, a negative scale gives -0 in ggml and +0 in MLX. ggml's
// E2M1 has no -0, and its codes keep their bytes. If there are several target dtypes, the one with
// smaller blocks comes first.
#[rustfmt::skip]
repacks! {
// from         to           group      scales    -0 stays     kernels
    Q4_0 =>      MLX_AFFINE4, Some(32),  FLOATS,   zeros false, Q4_0_TO_AFFINE4;
    Q4_1 =>      MLX_AFFINE4, Some(32),  FLOATS,   zeros true,  Q4_1_TO_AFFINE4;
    Q5_0 =>      MLX_AFFINE5, Some(32),  FLOATS,   zeros false, Q5_0_TO_AFFINE5;
    Q5_1 =>      MLX_AFFINE5, Some(32),  FLOATS,   zeros true,  Q5_1_TO_AFFINE5;
    Q8_0 =>      MLX_AFFINE8, Some(32),  FLOATS,   zeros false, Q8_0_TO_AFFINE8;
    Q4_K =>      MLX_AFFINE4, Some(32),  PRODUCTS, zeros true,  Q4_K_TO_AFFINE4;
    Q5_K =>      MLX_AFFINE5, Some(32),  PRODUCTS, zeros true,  Q5_K_TO_AFFINE5;
    TQ2_0 =>     MLX_AFFINE2, Some(128), FLOATS,   zeros false, TQ2_0_TO_AFFINE2;
    Q1_0 =>      MLX_AFFINE1, Some(128), FLOATS,   zeros false, Q1_0_TO_AFFINE1;
    Q2_0 =>      MLX_AFFINE2, Some(64),  FLOATS,   zeros false, Q2_0_TO_AFFINE2;
    CT_INT4 =>   MLX_AFFINE4, None,      FLOATS,   zeros false, CT_INT4_TO_AFFINE4;
    MLX_AFFINE1 => Q4_1,      None,      NONE,     zeros true,  AFFINE1_TO_Q4_1;
    MLX_AFFINE2 => Q4_1,      None,      NONE,     zeros true,  AFFINE2_TO_Q4_1;
    MLX_AFFINE3 => Q4_1,      None,      NONE,     zeros true,  AFFINE3_TO_Q4_1;
    MLX_AFFINE4 => Q4_0,      None,      NONE,     zeros false, AFFINE4_TO_Q4_0;
    MLX_AFFINE4 => Q4_1,      None,      NONE,     zeros true,  AFFINE4_TO_Q4_1;
    MLX_AFFINE5 => Q5_0,      None,      NONE,     zeros false, AFFINE5_TO_Q5_0;
    MLX_AFFINE5 => Q5_1,      None,      NONE,     zeros true,  AFFINE5_TO_Q5_1;
    MLX_AFFINE8 => Q8_0,      None,      NONE,     zeros false, AFFINE8_TO_Q8_0;
    MXFP4 =>     MLX_MXFP4,   Some(32),  POWERS,   zeros false, BLOCKS_TO_MX;
    MXFP4 =>     HF_MXFP4,    Some(32),  POWERS,   zeros false, BLOCKS_TO_MX;
    MLX_MXFP4 => MXFP4,       Some(32),  NONE,     zeros false, MX_TO_BLOCKS;
    HF_MXFP4 =>  MXFP4,       Some(32),  NONE,     zeros false, MX_TO_BLOCKS;
    HF_MXFP4 =>  MLX_MXFP4,   Some(32),  POWERS,   zeros true,  MX_TO_MX;
    MLX_MXFP4 => HF_MXFP4,    Some(32),  POWERS,   zeros true,  MX_TO_MX;
    NVFP4 =>     MLX_NVFP4,   Some(16),  EIGHTHS,  zeros false, BLOCKS_TO_NV;
    NVFP4 =>     HF_NVFP4,    Some(16),  EIGHTHS,  zeros false, BLOCKS_TO_NV;
    MLX_NVFP4 => NVFP4,       Some(16),  NONE,     zeros false, NV_TO_BLOCKS;
    HF_NVFP4 =>  NVFP4,       Some(16),  NONE,     zeros false, NV_TO_BLOCKS;
    HF_NVFP4 =>  MLX_NVFP4,   Some(16),  EIGHTHS,  zeros true,  NV_TO_NV;
    MLX_NVFP4 => HF_NVFP4,    Some(16),  EIGHTHS,  zeros true,  NV_TO_NV;
}

/// Whole rows of a tensor: its weight, and any other parts.
#[derive(Clone, Copy, Debug)]
pub struct PackedRows<'a> {
    /// Blocks, or packed codes.
    pub weight: &'a [u8],
    /// A scale for each group.
    pub scale: &'a [u8],
    /// A bias for each group.
    pub bias: &'a [u8],
    /// The dtypes of scales and of biases; `U8` if they are raw bytes.
    pub dtypes: (DType, DType),
    /// The number of elements of a row.
    pub columns: usize,
    /// The number of elements of a group.
    pub group_size: usize,
    /// The global scale of the whole tensor, or of the outer array that these rows belong to.
    pub global: Global,
}

impl<'a> PackedRows<'a> {
    /// Rows of blocks, without any other part.
    pub fn blocks(weight: &'a [u8], columns: usize) -> Self {
        let (dtypes, global) = ((DType::U8, DType::U8), Global::None);
        Self { weight, scale: &[], bias: &[], dtypes, columns, group_size: 1, global }
    }
}

/// The result of repacking.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub enum Repacked {
    /// All values are unchanged.
    Exact,
    /// A number has no representation in the other packing, and the output is meaningless. A wider
    /// dtype for scales may help; otherwise the tensor has to be requantized.
    NotExact(NotExact),
}

impl DType {
    /// The lossless repacking from this dtype to another, if there is one.
    pub fn repack_to(self, to: Self) -> Option<&'static Repack> {
        REPACKS.iter().find(|repack| (repack.from, repack.to) == (self, to))
    }
}

impl Repack {
    /// The target's group size for source groups or blocks of `from` elements: the same if MLX
    /// supports it, otherwise the largest that divides it.
    pub fn group_size(&self, from: usize) -> Option<usize> {
        self.group.or_else(|| [128, 64, 32].into_iter().find(|size| from.is_multiple_of(*size)))
    }

    /// The global scale of the result. MLX stores the [amax](Global::amax) that it is computed
    /// from.
    pub fn global(&self, from: Global) -> Global {
        match from {
            Global::Divisor(divisor) => Global::Factor(1.0 / divisor),
            global => global,
        }
    }

    /// Bytes of the weight, the scale and the bias after repacking `rows` rows, with scales and
    /// biases of one dtype.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the rows are not whole blocks or groups, or the dtype cannot hold scales.
    pub fn sizes(&self, rows: usize, from: &PackedRows<'_>, scales: DType) -> Result<[usize; 3]> {
        let (columns, old) = (from.columns, from.group_size);
        let fits = |size: usize| {
            columns.is_multiple_of(size) && (!is_group(self.from) || old.is_multiple_of(size))
        };
        let group = self.group_size(old).filter(|size| fits(*size));
        let whole = row_bytes(self.from, columns).and(row_bytes(self.to, columns));
        let (Some(group), Some(bytes)) = (group, whole.and_then(|row| row.checked_mul(rows)))
        else {
            let fault = format!("rows of {columns} elements in groups of {old} of {}", self.from);
            return Err(Error::mismatch(format!("{fault} cannot be repacked to {}", self.to)));
        };
        if !is_group(self.to) {
            return Ok([bytes, 0, 0]);
        }
        let may_do = is_affine(self.to) && float(scales).is_some();
        if !may_do && !self.scales.contains(&scales) {
            return Err(Error::mismatch(format!(
                "{} does not support scales of {scales}",
                self.to
            )));
        }
        let part = rows * (columns / group) * scales.descriptor().block_bytes as usize;
        Ok([bytes, part, if is_affine(self.to) { part } else { 0 }])
    }

    /// Repacks whole rows, with scales and biases of one dtype.
    ///
    /// # Errors
    ///
    /// Same as [`sizes`](Self::sizes), and `Mismatch` if a part's length does not match the rows.
    pub fn run(
        &self,
        from: &PackedRows<'_>,
        scales: DType,
        to: GroupParts<'_>,
    ) -> Result<Repacked> {
        let row = row_bytes(self.from, from.columns).unwrap_or(0);
        let rows = from.weight.len().checked_div(row).unwrap_or(0);
        let needed = self.sizes(rows, from, scales)?;
        let room = [to.weight.len(), to.scale.len(), to.bias.len()];
        if room != needed {
            let fault = format!("room for {room:?} bytes, but the parts have {needed:?}");
            return Err(Error::mismatch(fault));
        }
        let groups = rows * from.columns.checked_div(from.group_size).unwrap_or(0);
        let part = |there: bool, dtype: DType| match there {
            true => groups * dtype.descriptor().block_bytes as usize,
            false => 0,
        };
        let (scale, bias) = (is_group(self.from), is_affine(self.from));
        let needed = [rows * row, part(scale, from.dtypes.0), part(bias, from.dtypes.1)];
        let given = [from.weight.len(), from.scale.len(), from.bias.len()];
        if given != needed {
            let fault = format!("parts of {given:?} bytes, but {rows} rows need {needed:?}");
            return Err(Error::mismatch(fault));
        }
        let format = |dtype: DType| match (float(dtype), dtype) {
            (Some(format), _) => Ok(format),
            // The kernels derive the actual format from the dtype of the codes.
            (None, DType::U8 | DType::F8_E8M0 | DType::F8_E4M3) => Ok(Float::E8M0),
            (None, _) => {
                Err(Error::mismatch(format!("{} does not support scales of {dtype}", self.from)))
            }
        };
        let packed = Packed {
            weight: from.weight,
            scale: from.scale,
            bias: from.bias,
            formats: (format(from.dtypes.0)?, format(from.dtypes.1)?),
            group_size: from.group_size,
            global: from.global,
        };
        let given = RepackInput {
            from: packed,
            to,
            group_size: self.group_size(from.group_size).unwrap_or(32),
            format: format(scales)?,
            global: self.global(from.global),
            elements: rows * from.columns,
        };
        Ok(self.repacker.run(given).map_or(Repacked::Exact, Repacked::NotExact))
    }
}

/// Whether scales are separate parts.
fn is_group(dtype: DType) -> bool {
    dtype.descriptor().packing == Packing::Group
}

/// Whether biases are separate parts, too.
fn is_affine(dtype: DType) -> bool {
    dtype.name().starts_with("MLX_AFFINE")
}

/// Bytes of a row of whole blocks.
fn row_bytes(dtype: DType, columns: usize) -> Option<usize> {
    usize::try_from(dtype.row_bytes(u64::try_from(columns).ok()?)?).ok()
}

/// The number format of the scales of affine groups.
fn float(dtype: DType) -> Option<Float> {
    match dtype {
        DType::F32 => Some(Float::F32),
        DType::F16 => Some(Float::F16),
        DType::BF16 => Some(Float::BF16),
        _ => None,
    }
}
