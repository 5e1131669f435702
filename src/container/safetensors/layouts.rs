//! How schemes lay out the arrays of a tensor: from their dtypes and shapes follow its dtype and dimensions.

use super::comfy::StatedFormats;
use super::stated::StatedScheme;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::store::{Indexed, ListedArray, Part};

/// The dtype and dimensions of a tensor, or `None` if its arrays do not fit the scheme.
pub(super) type Interpretation = Result<Option<(DType, Vec<u64>)>>;

/// Facts about all tensors.
pub(super) struct Checkpoint<'a> {
    pub(super) limits: &'a Limits,
    /// Whether a symmetric checkpoint of GPTQ stores the middle of the codes as zero points.
    pub(super) has_middle_zero_points: bool,
    pub(super) comfy: StatedFormats,
}

/// The arrays of one tensor.
pub(super) struct CheckpointArrays<'a> {
    pub(super) indexed: &'a Indexed,
    pub(super) head: ListedArray<'a>,
    pub(super) companions: &'a [(Part, u32)],
    pub(super) checkpoint: &'a Checkpoint<'a>,
}

impl<'a> CheckpointArrays<'a> {
    fn number(&self, part: Part) -> Option<u32> {
        self.companions.iter().find(|(other, _)| *other == part).map(|(_, number)| *number)
    }

    fn part(&self, part: Part) -> Option<ListedArray<'a>> {
        self.indexed.get(self.number(part)?)
    }

    pub(super) fn shape(&self, part: Part) -> &'a [u64] {
        self.part(part).map_or(&[], |listed| listed.shape)
    }

    /// The integers of a small part that describes the others.
    fn numbers(&self, part: Part) -> Result<Vec<u64>> {
        let Some(bytes) = self.read(part)? else {
            return Err(contradiction(format!("the {} is missing", part.name())));
        };
        Ok(match self.part(part).map(|listed| listed.dtype) {
            Some(Ok(DType::I64 | DType::U64)) => {
                bytes.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
            }
            Some(Ok(DType::I32 | DType::U32)) => {
                bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b).into()).collect()
            }
            _ => Vec::new(),
        })
    }

    /// The bytes of a small part that describes the others.
    fn read(&self, part: Part) -> Result<Option<Vec<u8>>> {
        self.number(part).map(|number| self.indexed.read(number)).transpose()
    }

    /// The statements of the documents about the scheme.
    fn stated(&self) -> Option<StatedScheme<'_>> {
        StatedScheme::of(self.indexed.documents())
    }

    /// Whether zero points are stored as they are: in GPTQ's second format, whether or not it is named, and in
    /// auto-round's own packing, whose files otherwise look like GPTQ's. A file of auto-round that names no packing has GPTQ's.
    fn stores_whole_zero_points(&self) -> bool {
        let Some(stated) = self.stated() else { return false };
        let text = |pointer| stated.get(pointer).and_then(Json::as_str).unwrap_or_default();
        let is_own = |packing: &str| packing.starts_with("auto_round") && !packing.contains("gptq");
        self.checkpoint.has_middle_zero_points
            || ["/checkpoint_format", "/format"].iter().any(|key| stated.says(key, "gptq_v2"))
            || text("/quant_method").contains("auto-round")
                && ["/packing_format", "/backend"].iter().any(|pointer| is_own(text(pointer)))
    }

    /// The elements that share a scale, as the documents state it.
    pub(super) fn stated_group_size(&self) -> Option<u32> {
        let stated = self.stated()?;
        let size =
            ["/group_size", "/q_group_size"].iter().find_map(|key| stated.get(key)?.as_u64());
        size.and_then(|size| u32::try_from(size).ok())
    }

    fn is(&self, dtype: DType) -> bool {
        self.head.dtype == Ok(dtype)
    }

    /// Refuses parts whose dtypes are not supported.
    fn check_dtypes(&self, parts: &[Part], known: &[DType]) -> Result<()> {
        for &part in parts {
            let listed = if part == Part::Weight { Some(self.head) } else { self.part(part) };
            let Some(dtype) = listed.and_then(|listed| listed.dtype.ok()) else { continue };
            if !known.contains(&dtype) {
                let names: Vec<&str> = known.iter().map(|dtype| dtype.name()).collect();
                let (part, names) = (part.name(), names.join(" or "));
                return Err(Error::unsupported(format!(
                    "the {part} is {dtype}, but {names} is required"
                )));
            }
        }
        Ok(())
    }
}

/// The dtypes of packed words.
const WORDS: &[DType] = &[DType::I32, DType::U32];
/// The dtypes of codes of one byte, and of two codes of half a byte.
const BYTES: &[DType] = &[DType::U8, DType::I8];
/// The dtypes of scales.
const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// The dtypes of scales that are powers of two.
const POWERS: &[DType] = &[DType::F8_E8M0, DType::U8];

/// The arrays have the names of a scheme, but are laid out otherwise.
fn contradiction(fault: String) -> Error {
    Error::unsupported(fault)
}

/// The keys of the documents that decide how codes and zero points are laid out.
const LAYOUTS: [&str; 3] = ["/checkpoint_format", "/format", "/version"];

/// GPTQ and AWQ pack codes into words: GPTQ along the input, AWQ along the output. The shapes
/// distinguish them. The zero points, packed along the output in both, give the bits.
pub(super) fn gptq_or_awq(found: &CheckpointArrays<'_>) -> Interpretation {
    let stated = found.stated();
    let version = stated.as_ref().and_then(|stated| stated.get("/version")?.as_str());
    match version.map(str::to_ascii_lowercase).as_deref() {
        Some("gemv") => return awq_gemv(found),
        Some(version) if version.starts_with("gemv") => {
            return Err(Error::unsupported("this version of AWQ packs codes for one kernel"));
        }
        _ => {}
    }
    let stated_twice = stated.as_ref().and_then(|stated| stated.contradiction(&LAYOUTS));
    if let Some(fault) = stated_twice.filter(|_| !found.checkpoint.has_middle_zero_points) {
        return Err(contradiction(format!("{fault}; remove the one that is wrong")));
    }
    found.check_dtypes(&[Part::Weight, Part::ZeroPoint, Part::GroupIndex], WORDS)?;
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    let (&[rows, columns], &[groups, outputs], &[zero_groups, zero_words]) =
        (found.head.shape, found.shape(Part::Scale), found.shape(Part::ZeroPoint))
    else {
        return Err(contradiction(
            "weight, scales and zero points must have two dimensions".into(),
        ));
    };
    let shapes = || {
        format!(
            "qweight [{rows}, {columns}], scales [{groups}, {outputs}] and qzeros \
             [{zero_groups}, {zero_words}] are of no known layout"
        )
    };
    let zero_bits = zero_words.checked_mul(32).ok_or_else(|| contradiction(shapes()))?;
    let whole = outputs > 0 && zero_groups == groups && zero_bits.is_multiple_of(outputs);
    let bits = if whole { zero_bits / outputs } else { 0 };
    // The first format stores zero points minus one.
    let dtype = match (bits, found.stores_whole_zero_points()) {
        (2, false) => DType::GPTQ2,
        (3, false) => DType::GPTQ3,
        (4, false) => DType::GPTQ4,
        (8, false) => DType::GPTQ8,
        (2, true) => DType::GPTQ2_V2,
        (3, true) => DType::GPTQ3_V2,
        (4, true) => DType::GPTQ4_V2,
        (8, true) => DType::GPTQ8_V2,
        _ => return Err(contradiction(format!("{}: {bits} bits per element", shapes()))),
    };
    let (dtype, inputs) = if columns == outputs {
        let inputs =
            rows.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
        (dtype, inputs.ok_or_else(|| contradiction(shapes()))?)
    } else if columns == zero_words && bits == 4 {
        let text = |path: &str| stated.as_ref()?.get(path)?.as_str();
        let said = stated.as_ref().and_then(|stated| stated.get("/bits")?.as_u64());
        if let Some(said) = said.filter(|said| *said != 4 && text("/quant_method") == Some("awq")) {
            let document = stated.as_ref().and_then(|stated| stated.document("/bits"));
            let document = document.unwrap_or_default();
            let fault = format!("{document} says {said} bits, but {} have 4", shapes());
            return Err(contradiction(fault));
        }
        (DType::AWQ4, rows)
    } else {
        return Err(contradiction(shapes()));
    };
    if found.part(Part::GroupIndex).is_some_and(|index| index.shape != [inputs]) {
        let index = found.shape(Part::GroupIndex);
        return Err(contradiction(format!(
            "g_idx has shape {index:?}, but there are {inputs} inputs"
        )));
    }
    if groups == 0 || groups > inputs {
        return Err(contradiction(format!("{groups} groups for {inputs} inputs")));
    }
    Ok(Some((dtype, vec![outputs, inputs])))
}

/// AWQ's GEMV layout: everything is packed along the input, and the config states the size of groups.
fn awq_gemv(found: &CheckpointArrays<'_>) -> Interpretation {
    found.check_dtypes(&[Part::Weight, Part::ZeroPoint], WORDS)?;
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    let (weight, scale, zero) =
        (found.head.shape, found.shape(Part::Scale), found.shape(Part::ZeroPoint));
    let fault = || format!("qweight {weight:?}, scales {scale:?} and qzeros {zero:?}");
    let (&[rows, words], &[scale_rows, groups], &[zero_rows, zero_words]) = (weight, scale, zero)
    else {
        return Err(contradiction(fault()));
    };
    let columns = words.checked_mul(8).ok_or_else(|| contradiction(fault()))?;
    let each = found.stated_group_size().map(u64::from).filter(|each| *each > 0);
    let each = each.ok_or_else(|| contradiction("the documents state no group_size".to_owned()))?;
    // Zero points are padded to as many words as the kernel reads at once.
    let at_once = match each {
        32 => 4,
        64 => 2,
        128.. => 1,
        _ => return Err(contradiction(format!("{} with groups of {each}", fault()))),
    };
    let padded = columns.div_ceil(each).div_ceil(8).next_multiple_of(at_once);
    let fits = rows == scale_rows
        && rows == zero_rows
        && columns.is_multiple_of(each)
        && zero_words == padded
        && groups == padded.saturating_mul(8);
    match fits {
        true => Ok(Some((DType::AWQ4_GEMV, vec![rows, columns]))),
        false => Err(contradiction(format!("{} with groups of {each}", fault()))),
    }
}

/// compressed-tensors' matrices of which two elements of four are zeros.
pub(super) fn sparse(found: &CheckpointArrays<'_>) -> Interpretation {
    let dims = found.numbers(Part::Description)?;
    let (stored, mask, scale) =
        (found.head.shape, found.shape(Part::Bitmask), found.shape(Part::Scale));
    let &[rows, columns] = dims.as_slice() else {
        return Err(contradiction(format!("shape holds {} numbers, not 2", dims.len())));
    };
    let is_scale =
        matches!(scale, [] | [1] | [1, 1]) || matches!(scale, &[n] | &[n, 1] if n == rows);
    let fits = stored == [rows, columns / 2] && columns % 4 == 0;
    let is_column = found.shape(Part::Description) == [2, 1];
    if !fits || mask != [rows, columns.div_ceil(8)] || !is_scale || !is_column {
        return Err(contradiction(format!(
            "compressed {stored:?}, bitmask {mask:?} and scales {scale:?} of a matrix {dims:?}"
        )));
    }
    found.check_dtypes(&[Part::Bitmask], &[DType::U8])?;
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    let is_scaled = found.part(Part::Scale).is_some();
    let dtype = match found.head.dtype {
        Ok(DType::F8_E4M3) => DType::SPARSE24_8,
        Ok(DType::I8) if is_scaled => DType::SPARSE24_8,
        Ok(DType::F16 | DType::BF16) if !is_scaled => DType::SPARSE24_16,
        _ => return Ok(None),
    };
    Ok(Some((dtype, dims)))
}

/// compressed-tensors: integers in words, with the number of columns in `weight_shape`, or two E2M1
/// codes per byte.
pub(super) fn compressed(found: &CheckpointArrays<'_>) -> Interpretation {
    if found.is(DType::U8) {
        return small_floats(found);
    }
    // All experts of a layer may be in one array.
    let &[ref experts @ .., rows, packed] = found.head.shape else {
        return Err(contradiction("packed weights must have two dimensions".into()));
    };
    // One for the tensor, some for each row, or one for each block of rows and columns.
    let scale = found.shape(Part::Scale);
    let (scale_rows, groups) = match scale {
        [] | [1] if experts.is_empty() => (1, 1),
        &[ref outer @ .., scale_rows, groups] if outer == experts => (scale_rows, groups),
        _ => (0, 0),
    };
    if groups == 0 || !is_divided(scale_rows, rows) {
        let weight = found.head.shape;
        return Err(contradiction(format!("packed weights {weight:?}, but scales {scale:?}")));
    }
    found.check_dtypes(&[Part::Weight, Part::GroupIndex], WORDS)?;
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    // Only zero points of rows are packed.
    let zeros = found.part(Part::ZeroPoint).filter(|zeros| zeros.dtype == Ok(DType::I8));
    match zeros {
        Some(zeros) if zeros.shape != scale => {
            let zeros = zeros.shape;
            return Err(contradiction(format!("zero points {zeros:?}, but scales {scale:?}")));
        }
        Some(_) => {}
        None if scale_rows == rows => found.check_dtypes(&[Part::ZeroPoint], WORDS)?,
        None => found.check_dtypes(&[Part::ZeroPoint], &[DType::I8])?,
    }
    let dims = found.numbers(Part::Description)?;
    let Some((&columns, stated)) = dims.split_last() else {
        return Err(contradiction("weight_shape holds no numbers".into()));
    };
    let widths = stated_widths(found);
    let is_stated = found.head.shape.split_last().is_some_and(|(_, outer)| outer == stated);
    let fits = |bits: &&u64| columns.checked_mul(**bits).is_some_and(|n| n.div_ceil(32) == packed);
    let mut fitting = widths.iter().filter(fits).filter(|_| is_stated);
    let dtype = match (fitting.next(), fitting.next()) {
        (Some(2), None) => DType::CT_INT2,
        (Some(3), None) => DType::CT_INT3,
        (Some(4), None) => DType::CT_INT4,
        (Some(5), None) => DType::CT_INT5,
        (Some(6), None) => DType::CT_INT6,
        (Some(7), None) => DType::CT_INT7,
        (Some(8), None) => DType::CT_INT8,
        _ => {
            let widths: Vec<String> = widths.iter().map(u64::to_string).collect();
            return Err(contradiction(format!(
                "weight_shape {dims:?} does not fit packed weights {:?} at {} bits",
                found.head.shape,
                widths.join(" or ")
            )));
        }
    };
    Ok(Some((dtype, dims)))
}

/// compressed-tensors' floats of 6 bits, four in three bytes, or of 4 bits, two in a byte. The shapes distinguish
/// them.
fn small_floats(found: &CheckpointArrays<'_>) -> Interpretation {
    let (weight, scale) = (found.head.shape, found.shape(Part::Scale));
    let (Some((bytes, outer)), Some((groups, scale_outer))) =
        (weight.split_last(), scale.split_last())
    else {
        return Ok(None);
    };
    let columns = groups.checked_mul(32).filter(|columns| columns / 4 * 3 == *bytes);
    let Some(columns) = columns.filter(|_| scale_outer == outer) else {
        return e2m1(found);
    };
    found.check_dtypes(&[Part::Scale], POWERS)?;
    Ok(Some((DType::CT_MXFP6, [outer, &[columns]].concat())))
}

/// The widths of packed integers: those that the config states, or those that are usual.
fn stated_widths(found: &CheckpointArrays<'_>) -> Vec<u64> {
    let stated = found.stated();
    let groups = stated.as_ref().and_then(|stated| stated.get("/config_groups")?.as_object());
    let width = |group: &Json| group.pointer("/weights/num_bits").and_then(Json::as_u64);
    let mut widths: Vec<u64> = groups.into_iter().flatten().filter_map(|(_, g)| width(g)).collect();
    widths.sort_unstable();
    widths.dedup();
    if widths.is_empty() { vec![4, 8] } else { widths }
}

/// gpt-oss: blocks of 16 bytes with two E2M1 codes each; the blocks of a row are adjacent.
pub(super) fn gpt_oss(found: &CheckpointArrays<'_>) -> Interpretation {
    let shape = found.head.shape;
    let Some((&16, outer)) = shape.split_last() else { return Ok(None) };
    if !found.is(DType::U8) || outer != found.shape(Part::Scale) {
        let scale = found.shape(Part::Scale);
        return Err(contradiction(format!("blocks {shape:?} and scales {scale:?}")));
    }
    found.check_dtypes(&[Part::Scale], &[DType::U8, DType::F8_E8M0])?;
    let Some((&blocks, outer)) = outer.split_last() else { return Ok(None) };
    let columns = blocks.checked_mul(32).ok_or_else(|| contradiction("too many blocks".into()))?;
    Ok(Some((DType::HF_MXFP4, [outer, &[columns]].concat())))
}

pub(super) fn bitsandbytes_nf4(found: &CheckpointArrays<'_>) -> Interpretation {
    bitsandbytes(found, DType::BNB_NF4)
}

pub(super) fn bitsandbytes_fp4(found: &CheckpointArrays<'_>) -> Interpretation {
    bitsandbytes(found, DType::BNB_FP4)
}

/// bitsandbytes: two codes per byte over the whole tensor, whose shape is in a JSON part.
fn bitsandbytes(found: &CheckpointArrays<'_>, dtype: DType) -> Interpretation {
    let Some(text) = found.read(Part::Description)? else { return Ok(None) };
    let nested = [Part::NestedAbsmax, Part::NestedCodeValues];
    let coded = nested.iter().all(|part| found.part(*part).is_some());
    // The codes may be stored as numbers of any width (`bnb_4bit_quant_storage`).
    found.check_dtypes(&[Part::Weight], &[BYTES, FLOATS].concat())?;
    found.check_dtypes(&[Part::Absmax], if coded { &[DType::U8] } else { FLOATS })?;
    found.check_dtypes(&[Part::CodeValues], FLOATS)?;
    found.check_dtypes(&nested, FLOATS)?;
    let state = crate::store::document::parse(&text, found.checkpoint.limits)?;
    let shape = state.get("shape").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let shape: Vec<u64> = shape.iter().filter_map(Json::as_u64).collect();
    let elements = crate::shape::elements(&shape);
    let width = found.head.dtype.map_or(1, |dtype| u64::from(dtype.bits() / 8));
    let packed = crate::shape::elements(found.head.shape).and_then(|n| n.checked_mul(width));
    if shape.is_empty() || shape.len() > 8 || elements.map(|n| n.div_ceil(2)) != packed {
        return Err(contradiction(format!(
            "quant_state gives the shape {shape:?}, but the packed weight {:?}",
            found.head.shape
        )));
    }
    Ok(Some((dtype, shape)))
}

pub(super) fn bitsandbytes_int8(found: &CheckpointArrays<'_>) -> Interpretation {
    if !found.is(DType::I8) {
        return Ok(None);
    }
    if found.head.shape.first() != found.shape(Part::Scale).first() {
        let (weight, scale) = (found.head.shape, found.shape(Part::Scale));
        return Err(contradiction(format!("weight {weight:?} and SCB {scale:?}")));
    }
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    Ok(Some((DType::BNB_INT8, found.head.shape.to_vec())))
}

/// Two E2M1 codes per byte, the first in the low nibble. The dtype of the scales gives the elements that
/// share one.
pub(super) fn e2m1(found: &CheckpointArrays<'_>) -> Interpretation {
    let Some((&packed, outer)) = found.head.shape.split_last() else { return Ok(None) };
    if !(found.is(DType::U8) || found.is(DType::I8)) {
        return Ok(None);
    }
    let factor = found.part(Part::InputFactor);
    if [Part::GlobalScale, Part::GlobalDivisor].iter().any(|part| found.part(*part).is_some()) {
        found.check_dtypes(&[Part::Scale], &[DType::F8_E4M3])?;
    }
    let (dtype, group) = match found.part(Part::Scale).map(|scale| scale.dtype) {
        Some(Ok(DType::F8_E4M3)) if factor.is_some() => (DType::HF_NVFP4_AWQ, 16),
        Some(Ok(DType::F8_E4M3)) => (DType::HF_NVFP4, 16),
        Some(Ok(DType::U8 | DType::F8_E8M0)) if factor.is_none() => (DType::HF_MXFP4, 32),
        _ => return Ok(None),
    };
    let columns = packed.checked_mul(2).ok_or_else(|| contradiction("too many columns".into()))?;
    let (weight, scale) = (found.head.shape, found.shape(Part::Scale));
    if !columns.is_multiple_of(group) || scale.split_last() != Some((&(columns / group), outer)) {
        return Err(contradiction(format!(
            "codes {weight:?} and scales {scale:?}, each for {group} codes"
        )));
    }
    if dtype == DType::HF_NVFP4_AWQ {
        found.check_dtypes(&[Part::InputFactor], FLOATS)?;
        found.check_dtypes(&[Part::GlobalScale], &[DType::F32])?;
        let one = crate::shape::elements(found.shape(Part::GlobalScale)) == Some(1);
        let factors = found.shape(Part::InputFactor);
        if !one || factors != [columns] || found.part(Part::GlobalScale).is_none() {
            return Err(contradiction(format!("codes {weight:?} and factors {factors:?}")));
        }
    }
    Ok(Some((dtype, [outer, &[columns]].concat())))
}

/// torchao: integers or floats of 8 bits, one for each element, with scales along rows, groups or
/// the tensor. Its other classes pack codes for the kernels of one kind of device.
pub(super) fn torchao(found: &CheckpointArrays<'_>) -> Interpretation {
    let unsupported = |fault: String| Err(Error::unsupported(fault));
    if found.part(Part::InputFactor).is_some() {
        return unsupported("torchao scales the inputs of this tensor (act_pre_scale)".to_owned());
    }
    let is = |part: Part, known: &[DType]| {
        found.part(part).is_none_or(|listed| listed.dtype.is_ok_and(|d| known.contains(&d)))
    };
    let one = found.part(Part::Scale).is_some();
    if !(one && is(Part::Scale, FLOATS) && is(Part::ZeroPoint, &[DType::I8])) {
        return unsupported(torchao_arrays(found));
    }
    match elements(found)? {
        Some(found) => Ok(Some(found)),
        None => unsupported(torchao_arrays(found)),
    }
}

/// The arrays of a torchao tensor that is not supported.
fn torchao_arrays(found: &CheckpointArrays<'_>) -> String {
    let text = |listed: ListedArray<'_>| match listed.dtype {
        Ok(dtype) => format!("{dtype} {:?}", listed.shape),
        Err(_) => format!("{:?} of an unknown dtype", listed.shape),
    };
    let mut arrays = format!("qdata {}", text(found.head));
    for (part, name) in [(Part::Scale, "scale"), (Part::ZeroPoint, "zero_point")] {
        if let Some(listed) = found.part(part) {
            arrays += &format!(", {name} {}", text(listed));
        }
    }
    format!("{arrays}: none of Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor")
}

/// Floats of 8 bits, or E2M1 codes with powers of two.
pub(super) fn floats(found: &CheckpointArrays<'_>) -> Interpretation {
    if found.is(DType::I8) && found.part(Part::Scale).is_some_and(|scale| is_wide(&scale)) {
        return Ok(None);
    }
    elements(found)
}

/// 8-bit elements; the shape of the scale gives the range of each factor. Bytes with powers of two are
/// E2M1 codes.
pub(super) fn elements(found: &CheckpointArrays<'_>) -> Interpretation {
    // ComfyUI's other formats order the scales for a kernel, or rotate the weight.
    let name = found.head.name.as_bytes();
    let module = name.strip_suffix(b".weight").unwrap_or(name);
    let format = found.checkpoint.comfy.of_module(found.indexed, module);
    if format.is_some_and(|format| !format.starts_with("float8_")) {
        return Ok(None);
    }
    let scale = found.part(Part::Scale);
    let dtype = match found.head.dtype {
        Ok(DType::I8) if scale.is_some_and(|scale| is_wide(&scale)) => DType::SCALED_I8,
        Ok(DType::U8 | DType::I8)
            if scale.is_some_and(|scale| scale.dtype != Ok(DType::F8_E4M3)) =>
        {
            return e2m1(found);
        }
        Ok(DType::F8_E4M3) => DType::SCALED_F8_E4M3,
        Ok(DType::F8_E5M2) => DType::SCALED_F8_E5M2,
        Ok(DType::F8_E4M3FNUZ) => DType::SCALED_F8_E4M3FNUZ,
        Ok(DType::F8_E5M2FNUZ) => DType::SCALED_F8_E5M2FNUZ,
        _ => return Ok(None),
    };
    if dtype == DType::SCALED_I8 {
        found.check_dtypes(&[Part::ZeroPoint], &[DType::I8])?;
    } else {
        found.check_dtypes(&[Part::Scale], &[FLOATS, POWERS].concat())?;
    }
    let (weight, scale) = (found.head.shape, found.shape(Part::Scale));
    // One for the tensor; or along each dimension, of which the last may be left out, one for all
    // elements, for each, or for each block of a power of two.
    let one = crate::shape::elements(scale) == Some(1);
    let mut pairs = scale.iter().zip(weight);
    let fits = scale.len() <= weight.len()
        && pairs.all(|(&scales, &elements)| is_divided(scales, elements));
    if !(one || fits) {
        return Err(contradiction(format!("weight {weight:?} and scale {scale:?}")));
    }
    Ok(Some((dtype, weight.to_vec())))
}

/// Whether a number of scales along a dimension is one for all elements, for each, or for each block of a
/// power of two.
fn is_divided(scales: u64, elements: u64) -> bool {
    let (Ok(scales), Ok(elements)) = (usize::try_from(scales), usize::try_from(elements)) else {
        return false;
    };
    scales > 0 && crate::quant::scale_reach(elements, scales).is_some()
}

/// Whether numbers are floats of at least 16 bits.
fn is_wide(listed: &ListedArray<'_>) -> bool {
    listed.dtype.is_ok_and(|dtype| FLOATS.contains(&dtype))
}
