//! The table of kernels: how a GPU computes with tensors of each dtype. No GPU is needed for it.
//!
//! A kernel is the text of a shader (WGSL). It is put together from a prelude (bindings, numbers at
//! any byte), one body for each dtype, which decodes four elements, and the operations, which all
//! dtypes share. `docs/devices.md` has the bindings.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod schemes;
mod windows;

use crate::dtype::{DType, Packing};
use crate::quant::{Codebook, codebook_words};
use crate::store::Part;

pub use crate::quant::BlockScales;
pub use schemes::Parameters;
pub use windows::{Binding, KernelTensor, WIDTH, Window, computes};

/// What a driver's conversion of `f16` to `f32` does to subnormal numbers. WGSL leaves that to the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subnormals {
    /// They keep their values, so kernels use the conversion.
    Kept,
    /// They may become 0, so kernels convert by integer operations.
    Flushed,
}

/// An operation of a kernel.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// All values, as `f32`.
    DequantizeF32,
    /// All values, rounded to `f16`.
    DequantizeF16,
    /// The values of some rows, as `f32`: an embedding.
    GetRows,
    /// The products of all rows with one `f32` vector, summed in `f32`.
    MatrixVector,
    /// The products of all rows with several `f32` vectors, summed in `f32`.
    MatrixMatrix,
    /// The products of `f32` vectors with the matrices of the experts that were chosen for them, summed
    /// in `f32`.
    ExpertVectors,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::DequantizeF32,
        Self::DequantizeF16,
        Self::GetRows,
        Self::MatrixVector,
        Self::MatrixMatrix,
        Self::ExpertVectors,
    ];

    /// The name: that of the shader's entry point.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DequantizeF32 => "dequantize_f32",
            Self::DequantizeF16 => "dequantize_f16",
            Self::GetRows => "get_rows",
            Self::MatrixVector => "matrix_vector",
            Self::MatrixMatrix => "matrix_matrix",
            Self::ExpertVectors => "expert_vectors",
        }
    }

    /// The bytes of an output element.
    pub const fn output_bytes(self) -> u64 {
        match self {
            Self::DequantizeF16 => 2,
            _ => 4,
        }
    }

    /// The elements, rows or products that one workgroup of 64 invocations computes.
    pub const fn per_workgroup(self) -> (u32, &'static str) {
        match self {
            Self::DequantizeF32 | Self::DequantizeF16 | Self::GetRows => (256, "elements"),
            Self::MatrixVector | Self::ExpertVectors => (8, "rows"),
            Self::MatrixMatrix => (8, "products of two rows"),
        }
    }

    /// The numbers of workgroups for `rows` rows of `columns` elements, and `count` indices, vectors or
    /// chosen experts. Of `expert_vectors`, `rows` are those of one expert's matrix.
    pub fn workgroups(self, rows: u32, columns: u32, count: u32) -> [u32; 3] {
        let quads = |rows: u32| u64::from(rows) * u64::from(columns.div_ceil(4));
        let flat = |groups: u64| {
            // At most 65,535 in each direction.
            let side = u64::from(u16::MAX);
            let across = groups.clamp(1, side);
            let narrow = |groups: u64| u32::try_from(groups).unwrap_or(u32::MAX);
            [narrow(across), narrow(groups.div_ceil(across).max(1))]
        };
        let ([x, y], z) = match self {
            Self::DequantizeF32 => (flat(quads(rows).div_ceil(64)), 1),
            Self::DequantizeF16 => {
                let elements = u64::from(rows) * u64::from(columns);
                (flat(elements.div_ceil(256)), 1)
            }
            Self::GetRows => (flat(quads(count).div_ceil(64)), 1),
            Self::MatrixVector => (flat(u64::from(rows).div_ceil(8)), 1),
            Self::MatrixMatrix => (flat(u64::from(rows).div_ceil(2)), count.div_ceil(4).max(1)),
            Self::ExpertVectors => (flat(u64::from(rows).div_ceil(8)), count.max(1)),
        };
        [x, y, z]
    }
}

/// Whether the values of a kernel are bit for bit those of the CPU, on every GPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Exactness {
    /// Always: each product has at most 24 bits, so that only the last addition rounds, whether or
    /// not the GPU fuses it.
    Always,
    /// If the scales are `f16` or `bf16`; otherwise as [`Within`](Self::Within).
    HalfScales,
    /// Unless a number on the way to a value, or the value, is subnormal: a GPU may flush it. Only a
    /// global scale can bring that about. Each product and quotient is rounded as on the CPU.
    UnlessSubnormal,
    /// Not always: a GPU may fuse a product and a sum, or flush subnormal results. The difference is
    /// at most 1 unit in the last place of the largest term.
    Within,
}

impl Exactness {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "exact",
            Self::HalfScales => "exact with half scales",
            Self::UnlessSubnormal => "exact unless subnormal",
            Self::Within => "within 1 ULP",
        }
    }
}

/// The decoding of a dtype's elements: a function of the shader's text.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// Consecutive elements. The function takes the bit of an element if elements are shorter than
    /// a byte, otherwise its byte.
    Plain(&'static str),
    /// Blocks. The function takes the byte of a block and the number of an element in it.
    Block(&'static str),
    /// Points of a codebook.
    Codebook(&'static str, Codebook),
    /// Codes and scales in separate parts, with the format of the scales if it is not their dtype's.
    Group { function: &'static str, scale: Option<u32> },
    /// The parts of a checkpoint's scheme. `by_rows` says whether each row has codes of its own,
    /// `less` what zero points are stored minus.
    Scheme { function: &'static str, by_rows: bool, less: u32 },
}

/// A row of [`KERNELS`]: how a GPU computes with tensors of one dtype.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// The dtype.
    pub dtype: DType,
    body: Body,
    /// Whether the values are those of the CPU.
    pub exactness: Exactness,
}

/// The formats of numbers in `numbers.wgsl`, of which the first are 0 to 2.
const BF16: u32 = 2;
const E8M0: u32 = 3;
const E4M3: u32 = 4;
const U8: u32 = 5;

macro_rules! kernels {
    ($($dtype:ident: $exactness:ident, $body:expr;)*) => {
        /// The kernels, one row for each dtype that has one. [`DECODED`] has the other dtypes.
        pub static KERNELS: &[Kernel] = &[$(Kernel {
            dtype: DType::$dtype,
            body: $body,
            exactness: Exactness::$exactness,
        }),*];
    };
}

const fn affine() -> Body {
    Body::Group { function: "affine", scale: None }
}

const fn float(function: &'static str, scale: u32) -> Body {
    Body::Group { function, scale: Some(scale) }
}

/// Codes packed along the columns of the tensor, and zero points along its rows.
const fn gptq(less: u32) -> Body {
    Body::Scheme { function: "gptq", by_rows: false, less }
}

const fn scheme(function: &'static str, by_rows: bool) -> Body {
    Body::Scheme { function, by_rows, less: 0 }
}

kernels! {
    F32: Always, Body::Plain("f32s");
    F16: Always, Body::Plain("f16s");
    BF16: Always, Body::Plain("bf16s");
    I8: Always, Body::Plain("i8s");
    I16: Always, Body::Plain("i16s");
    I32: Within, Body::Plain("i32s");
    U8: Always, Body::Plain("u8s");
    U16: Always, Body::Plain("u16s");
    U32: Within, Body::Plain("u32s");
    BOOL: Always, Body::Plain("bools");
    F8_E4M3: Always, Body::Plain("e4m3s");
    F8_E5M2: Always, Body::Plain("e5m2s");
    F8_E8M0: Always, Body::Plain("e8m0s");
    F8_E4M3FNUZ: Always, Body::Plain("e4m3fnuzs");
    F8_E5M2FNUZ: Always, Body::Plain("e5m2fnuzs");
    F6_E2M3: Always, Body::Plain("e2m3s");
    F6_E3M2: Always, Body::Plain("e3m2s");
    F4: Always, Body::Plain("fours");
    Q4_0: Always, Body::Block("q4_0");
    Q4_1: Always, Body::Block("q4_1");
    Q5_0: Always, Body::Block("q5_0");
    Q5_1: Always, Body::Block("q5_1");
    Q8_0: Always, Body::Block("q8_0");
    Q8_1: Always, Body::Block("q8_1");
    Q2_K: Always, Body::Block("q2_k");
    Q3_K: Always, Body::Block("q3_k");
    Q4_K: Always, Body::Block("q4_k");
    Q5_K: Always, Body::Block("q5_k");
    Q6_K: Always, Body::Block("q6_k");
    Q8_K: Within, Body::Block("q8_k");
    IQ2_XXS: Always, Body::Codebook("iq2_xxs", Codebook::Iq2Xxs);
    IQ2_XS: Always, Body::Codebook("iq2_xs", Codebook::Iq2Xs);
    IQ3_XXS: Always, Body::Codebook("iq3_xxs", Codebook::Iq3Xxs);
    IQ1_S: Always, Body::Codebook("iq1_s", Codebook::Iq1);
    IQ4_NL: Always, Body::Block("iq4_nl");
    IQ3_S: Always, Body::Codebook("iq3_s", Codebook::Iq3S);
    IQ2_S: Always, Body::Codebook("iq2_s", Codebook::Iq2S);
    IQ4_XS: Always, Body::Block("iq4_xs");
    IQ1_M: Always, Body::Codebook("iq1_m", Codebook::Iq1);
    TQ1_0: Always, Body::Block("tq1_0");
    TQ2_0: Always, Body::Block("tq2_0");
    MXFP4: Within, Body::Block("mxfp4");
    NVFP4: UnlessSubnormal, Body::Block("nvfp4");
    Q1_0: Always, Body::Block("q1_0");
    Q2_0: Always, Body::Block("q2_0");
    Q6_0: Always, Body::Block("q6_0");
    IQ2_K: Always, Body::Block("iq2_k");
    IQ3_K: Always, Body::Block("iq3_k");
    IQ4_K: Always, Body::Block("iq4_k");
    IQ4_KS: Within, Body::Block("iq4_ks");
    MLX_AFFINE1: HalfScales, affine();
    MLX_AFFINE2: HalfScales, affine();
    MLX_AFFINE3: HalfScales, affine();
    MLX_AFFINE4: HalfScales, affine();
    MLX_AFFINE5: HalfScales, affine();
    MLX_AFFINE6: HalfScales, affine();
    MLX_AFFINE8: HalfScales, affine();
    MLX_MXFP4: Within, float("scaled_e2m1", E8M0);
    MLX_MXFP8: Within, float("scaled_e4m3", E8M0);
    MLX_NVFP4: UnlessSubnormal, float("scaled_e2m1", E4M3);
    GPTQ2: HalfScales, gptq(1);
    GPTQ2_V2: HalfScales, gptq(0);
    GPTQ3: HalfScales, gptq(1);
    GPTQ3_V2: HalfScales, gptq(0);
    GPTQ4: HalfScales, gptq(1);
    GPTQ4_V2: HalfScales, gptq(0);
    GPTQ8: HalfScales, gptq(1);
    GPTQ8_V2: HalfScales, gptq(0);
    AWQ4: HalfScales, scheme("awq", false);
    CT_INT4: HalfScales, scheme("compressed", true);
    CT_INT8: HalfScales, scheme("compressed", true);
    SCALED_I8: HalfScales, scheme("scaled_i8", true);
    SCALED_F8_E4M3: HalfScales, scheme("scaled_f8", true);
    HF_NVFP4: UnlessSubnormal, float("scaled_e2m1", E4M3);
    HF_MXFP4: Within, float("scaled_e2m1", E8M0);
    BNB_NF4: Within, scheme("bitsandbytes", false);
    BNB_FP4: Within, scheme("bitsandbytes", false);
    BNB_INT8: Within, scheme("bitsandbytes_int8", true);
}

/// The dtypes whose rows are multiplied by a function of their own: its name, the columns of a piece, and the
/// alignment in bytes that rows need. Others are multiplied four values at a time, and so is what remains.
#[rustfmt::skip]
const PRODUCTS: &[(DType, &str, u32, u32)] = &[
    (DType::F16, "f16_dot", 8, 16),
    (DType::BF16, "bf16_dot", 8, 16),
    (DType::Q4_0, "q4_0_dot", 16, 2),
    (DType::Q8_0, "q8_0_dot", 16, 2),
    (DType::Q4_K, "q4_k_dot", 32, 16),
    (DType::Q5_K, "q5_k_dot", 32, 16),
    (DType::Q6_K, "q6_k_dot", 32, 2),
    (DType::MXFP4, "mxfp4_dot", 16, 1),
    (DType::MLX_AFFINE4, "affine4_dot", 32, 16),
];

/// The kernel of a dtype, if it has one.
pub fn kernel(dtype: DType) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.dtype == dtype)
}

/// The dtypes with values but without a kernel, and the dtype that the CPU decodes each to while it is
/// loaded. WGSL has no numbers of 64 bits.
#[rustfmt::skip]
pub static DECODED: &[(DType, DType)] = &[
    (DType::F64, DType::F32),
    (DType::I64, DType::F32),
    (DType::U64, DType::F32),
    (DType::AWQ4_GEMV, DType::F16),
    (DType::SPARSE24_8, DType::F16),
    (DType::SPARSE24_16, DType::F16),
    (DType::CT_INT2, DType::F16),
    (DType::CT_INT3, DType::F16),
    (DType::CT_INT5, DType::F16),
    (DType::CT_INT6, DType::F16),
    (DType::CT_INT7, DType::F16),
    (DType::CT_MXFP6, DType::F16),
    (DType::SCALED_F8_E5M2, DType::F16),
    (DType::SCALED_F8_E4M3FNUZ, DType::F16),
    (DType::SCALED_F8_E5M2FNUZ, DType::F16),
    (DType::HF_NVFP4_AWQ, DType::F16),
];

/// Whether tensors of a dtype are stored on a GPU as they are: those with a kernel, and those whose
/// values are not known.
pub fn supports(dtype: DType) -> bool {
    kernel(dtype).is_some() || dtype.descriptor().codec.is_none()
}

/// The dtype that the CPU decodes a tensor to if no kernel supports its dtype ([`DECODED`]) or its parts
/// ([`computes`]).
pub fn instead(dtype: DType) -> DType {
    DECODED.iter().find(|(from, _)| *from == dtype).map_or(DType::F16, |(_, to)| *to)
}

impl Kernel {
    /// The dtypes of scales and biases for which the kernel's text differs; `None` if it does not,
    /// or if a part is missing.
    pub fn takes(&self, scale: Option<DType>, bias: Option<DType>) -> bool {
        let is_float = |dtype| number_format(dtype).is_some_and(|format| format <= BF16);
        match self.body {
            Body::Group { scale: None, .. } => {
                scale.is_some_and(is_float) && bias.is_some_and(is_float)
            }
            Body::Group { .. } => scale.is_some_and(|dtype| dtype.bits() == 8),
            Body::Scheme { .. } => scale.and_then(number_format).is_some(),
            _ => true,
        }
    }

    /// The number of a global scale's kind in `global.wgsl`; `None` if the kernel does not use that kind.
    fn global_kind(&self, part: Part) -> Option<u32> {
        match (part, self.body) {
            (Part::GlobalScale, _) if self.dtype == DType::NVFP4 => Some(1),
            (_, Body::Group { scale: Some(E4M3), .. }) => match part {
                Part::GlobalScale => Some(1),
                Part::GlobalAmax => Some(2),
                Part::GlobalDivisor => Some(3),
                _ => None,
            },
            _ => None,
        }
    }

    /// The text that multiplies rows: constants, and the function of [`PRODUCTS`] for a row by its
    /// number.
    fn product(&self) -> String {
        let of = |columns: u32, alignment: u32, call: &str| {
            format!(
                "const DOT_COLUMNS = {columns}u;\nconst DOT_ALIGNMENT = {alignment}u;\n\n\
                 fn product(row: u32, u: u32, v: u32) -> f32 {{\n    return {call};\n}}\n"
            )
        };
        match PRODUCTS.iter().find(|(dtype, ..)| *dtype == self.dtype) {
            None => of(0, 1, "0.0"),
            Some((_, function, columns, alignment)) if self.is_grouped() => {
                of(*columns, *alignment, &format!("{function}(row, u, v)"))
            }
            Some((_, function, columns, alignment)) => {
                let start = "p.weight_at + row * p.row_bytes";
                of(*columns, *alignment, &format!("{function}({start}, u, v)"))
            }
        }
    }

    /// The text of the shader, in WGSL. `scale` and `bias` are the dtypes of these parts, for dtypes
    /// that have them; `halves` says what the driver's conversion of `f16` does to subnormal numbers.
    pub fn source(&self, scale: Option<DType>, bias: Option<DType>, halves: Subnormals) -> String {
        const PRELUDE: &str = include_str!("prelude.wgsl");
        const OPERATIONS: &str = include_str!("operations.wgsl");
        let row = self.dtype.descriptor();
        let (length, bytes, head) = (row.block_len, row.block_bytes, row.row_head);
        let of_block = |function: &str| {
            let more = match self.dtype {
                DType::NVFP4 => ", row",
                _ if head > 0 => ", start",
                _ => "",
            };
            format!(
                "let block = start + {head}u + column / {length}u * {bytes}u;\n    \
                 return bitcast<vec4<u32>>({function}(block, column % {length}u{more}));"
            )
        };
        let (constants, text, body) = match self.body {
            Body::Plain(function) if length > 1 => {
                let bits = bytes * 8 / length;
                let at = format!("p.weight_at * 8u + (row * p.columns + column) * {bits}u");
                (String::new(), include_str!("plain.wgsl"), format!("return {function}({at});"))
            }
            Body::Plain(function) => {
                let at = format!("start + column * {bytes}u");
                (String::new(), include_str!("plain.wgsl"), format!("return {function}({at});"))
            }
            Body::Block(function) => (
                String::new(),
                concat!(include_str!("global.wgsl"), include_str!("blocks.wgsl")),
                of_block(function),
            ),
            Body::Codebook(function, _) => {
                (String::new(), include_str!("codebooks.wgsl"), of_block(function))
            }
            Body::Group { function, scale: fixed } => {
                let format = |dtype: Option<DType>| dtype.and_then(number_format).unwrap_or(0);
                let (scale, bias) = (fixed.unwrap_or(format(scale)), format(bias));
                let bits = self.dtype.bits();
                let constants = format!(
                    "const BITS = {bits}u;\nconst SCALE = {scale}u;\nconst BIAS = {bias}u;\n"
                );
                let body = format!("return bitcast<vec4<u32>>({function}(row, column));");
                (
                    constants,
                    concat!(
                        include_str!("numbers.wgsl"),
                        include_str!("global.wgsl"),
                        include_str!("groups.wgsl")
                    ),
                    body,
                )
            }
            Body::Scheme { function, less, .. } => {
                let (bits, scale) = (self.dtype.bits(), scale.and_then(number_format).unwrap_or(0));
                let constants = format!(
                    "const BITS = {bits}u;\nconst SCALE = {scale}u;\nconst BIAS = 0u;\nconst LESS = {less}u;\n"
                );
                let body = format!("return bitcast<vec4<u32>>({function}(row, column));");
                (
                    constants,
                    concat!(include_str!("numbers.wgsl"), include_str!("schemes.wgsl")),
                    body,
                )
            }
        };
        let start = match self.body {
            Body::Group { .. } | Body::Scheme { .. } => "",
            _ => "let start = p.weight_at + row * p.row_bytes;\n    ",
        };
        let halves = halves == Subnormals::Kept;
        format!(
            "const HALVES = {halves};\n{PRELUDE}\n{constants}\n{text}\n\
             fn bits4(row: u32, column: u32) -> vec4<u32> {{\n    {start}{body}\n}}\n\n\
             {product}\n{OPERATIONS}",
            product = self.product(),
        )
    }

    /// The words of the codebook that the kernel's `table` binding holds; none for most dtypes.
    pub fn table(&self) -> Vec<u32> {
        match self.body {
            Body::Codebook(_, codebook) => codebook_words(codebook),
            _ => Vec::new(),
        }
    }

    /// Whether scales and biases are parts of their own.
    pub fn is_grouped(&self) -> bool {
        self.dtype.descriptor().packing == Packing::Group
    }
}

/// The number format of a part's dtype in `numbers.wgsl`.
fn number_format(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F32 => Some(0),
        DType::F16 => Some(1),
        DType::BF16 => Some(BF16),
        DType::F8_E8M0 => Some(E8M0),
        DType::F8_E4M3 => Some(E4M3),
        DType::U8 => Some(U8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DTYPES;

    #[test]
    fn rows_are_in_the_order_of_dtypes_and_once() {
        assert!(KERNELS.is_sorted_by(|a, b| a.dtype < b.dtype));
    }

    /// Dtypes with values but without a kernel: the CPU decodes them.
    #[test]
    fn dtypes_without_a_kernel_are_known() {
        let without =
            DTYPES.iter().filter(|row| row.codec.is_some() && kernel(row.dtype).is_none());
        let names: Vec<&str> = without.map(|row| row.name).collect();
        let decoded: Vec<&str> = DECODED.iter().map(|(from, _)| from.name()).collect();
        assert_eq!(names, decoded);
        assert!(DECODED.iter().all(|(_, to)| kernel(*to).is_some()));
    }

    #[test]
    fn workgroups_reach_every_element() {
        for (rows, columns, count) in [(1, 1, 1), (3, 7, 5), (128_256, 4096, 9), (70_000, 4, 1)] {
            for operation in Operation::ALL {
                let groups = operation.workgroups(rows, columns, count);
                assert!(groups.iter().all(|&side| (1..=65_535).contains(&side)), "{groups:?}");
                let all = groups.iter().map(|&side| u64::from(side)).product::<u64>();
                let (rows, columns) = (u64::from(rows), u64::from(columns));
                let needed = match operation {
                    Operation::GetRows => u64::from(count) * columns.div_ceil(4) / 64,
                    Operation::MatrixVector => rows.div_ceil(8),
                    Operation::MatrixMatrix => rows.div_ceil(2) * u64::from(count.div_ceil(4)),
                    Operation::ExpertVectors => rows.div_ceil(8) * u64::from(count),
                    _ => rows * columns / 256,
                };
                assert!(all >= needed && all < 2 * needed + 65_535, "{operation:?} {groups:?}");
            }
        }
    }

    /// The function of a dtype is called with as many arguments as it has parameters.
    #[test]
    fn calls_fit_their_functions() {
        for kernel in KERNELS {
            let text = kernel.source(Some(DType::F16), Some(DType::F16), Subnormals::Flushed);
            let count = |start: &str| {
                let (_, rest) = text.split_once(start)?;
                Some(rest.split_once(')')?.0.split(',').count())
            };
            let (_, body) = text.split_once("fn bits4(").expect("a body");
            let call = body.split_once("return ").expect("a value").1;
            let call = call.trim_start_matches("bitcast<vec4<u32>>(");
            let (name, arguments) = call.split_once('(').expect("a call");
            let arguments = arguments.split_once(';').expect("an end").0.split(',').count();
            let parameters = count(&format!("fn {name}(")).expect("a function");
            assert_eq!(arguments, parameters, "{}: {call}", kernel.dtype);
        }
    }

    #[test]
    fn plain_elements_are_addressed_by_bytes_or_by_bits() {
        let by_bits =
            |bits: u32| format!("(p.weight_at * 8u + (row * p.columns + column) * {bits}u);");
        for (dtype, address) in [
            (DType::F4, by_bits(4)),
            (DType::F6_E2M3, by_bits(6)),
            (DType::U8, "(start + column * 1u);".to_owned()),
            (DType::F32, "(start + column * 4u);".to_owned()),
        ] {
            let text = kernel(dtype).unwrap().source(None, None, Subnormals::Flushed);
            assert!(text.contains(&address), "{dtype}");
        }
    }

    #[test]
    fn texts_have_balanced_brackets_and_every_operation() {
        for kernel in KERNELS {
            let text = kernel.source(Some(DType::F16), Some(DType::F16), Subnormals::Flushed);
            let count = |c: char| text.chars().filter(|&found| found == c).count();
            assert_eq!((count('{'), count('(')), (count('}'), count(')')), "{}", kernel.dtype);
            for operation in Operation::ALL {
                assert!(text.contains(&format!("fn {}(", operation.name())));
            }
        }
    }
}
