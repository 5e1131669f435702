//! Checkpoints of quantization schemes other than ggml's and MLX's: GPTQ, AWQ, compressed-tensors,
//! ModelOpt, bitsandbytes, torchao, FP8, gpt-oss. Each stores a weight in several arrays. They are joined
//! into one tensor with the name it has in the unquantized checkpoint.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::store::{Document, Indexed, ListedArray, NewGroup, Part};

/// The dtype and dimensions of a tensor, or `None` if its arrays do not fit the scheme.
type Interpretation = Result<Option<(DType, Vec<u64>)>>;

/// How a scheme names the arrays of one tensor, and how they are interpreted.
struct Scheme {
    /// The suffix of the weight part's name.
    head: &'static str,
    /// The suffix that replaces it in the unquantized checkpoint.
    tensor: &'static str,
    /// The suffixes of the other parts' names.
    companions: &'static [(&'static str, Part)],
    /// The parts that identify the scheme; without them the array is something else.
    needed: &'static [Part],
    /// Whether only this scheme uses the suffix, so that a missing part is an error.
    unmistakable: bool,
    /// Determines the tensor from the arrays.
    settle: fn(&CheckpointArrays<'_>) -> Interpretation,
}

/// The first scheme that fits is used.
#[rustfmt::skip]
static SCHEMES: &[Scheme] = &[
    Scheme { head: ".qweight", tensor: ".weight", companions: &[(".scales", Part::Scale), (".qzeros", Part::ZeroPoint), (".g_idx", Part::GroupIndex)], needed: &[Part::Scale, Part::ZeroPoint], unmistakable: true, settle: gptq_or_awq },
    Scheme { head: ".weight_packed", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_zero_point", Part::ZeroPoint), (".weight_g_idx", Part::GroupIndex), (".weight_shape", Part::Description), (".weight_global_scale", Part::GlobalDivisor), (".input_global_scale", Part::ActivationScale), (".input_scale", Part::ActivationScale)], needed: &[Part::Scale], unmistakable: true, settle: compressed },
    Scheme { head: "._weight_qdata", tensor: ".weight", companions: &[("._weight_scale", Part::Scale), ("._weight_zero_point", Part::ZeroPoint), ("._weight_act_quant_scale", Part::ActivationScale), ("._weight_act_pre_scale", Part::ActivationScale)], needed: &[], unmistakable: true, settle: torchao },
    Scheme { head: "._gate_up_proj_qdata", tensor: ".gate_up_proj", companions: &[("._gate_up_proj_scale", Part::Scale), ("._gate_up_proj_zero_point", Part::ZeroPoint), ("._gate_up_proj_act_quant_scale", Part::ActivationScale), ("._gate_up_proj_act_pre_scale", Part::ActivationScale)], needed: &[], unmistakable: true, settle: torchao },
    Scheme { head: "._down_proj_qdata", tensor: ".down_proj", companions: &[("._down_proj_scale", Part::Scale), ("._down_proj_zero_point", Part::ZeroPoint), ("._down_proj_act_quant_scale", Part::ActivationScale), ("._down_proj_act_pre_scale", Part::ActivationScale)], needed: &[], unmistakable: true, settle: torchao },
    Scheme { head: "_blocks", tensor: "", companions: &[("_scales", Part::Scale)], needed: &[Part::Scale], unmistakable: true, settle: gpt_oss },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight.absmax", Part::Absmax), (".weight.quant_map", Part::CodeValues), (".weight.nested_absmax", Part::NestedAbsmax), (".weight.nested_quant_map", Part::NestedCodeValues), (".weight.quant_state.bitsandbytes__nf4", Part::Description)], needed: &[Part::Absmax, Part::CodeValues, Part::Description], unmistakable: false, settle: bitsandbytes_nf4 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight.absmax", Part::Absmax), (".weight.quant_map", Part::CodeValues), (".weight.nested_absmax", Part::NestedAbsmax), (".weight.nested_quant_map", Part::NestedCodeValues), (".weight.quant_state.bitsandbytes__fp4", Part::Description)], needed: &[Part::Absmax, Part::CodeValues, Part::Description], unmistakable: false, settle: bitsandbytes_fp4 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".SCB", Part::Scale), (".weight_format", Part::Description)], needed: &[Part::Scale], unmistakable: false, settle: bitsandbytes_int8 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_scale_2", Part::GlobalScale), (".input_scale", Part::ActivationScale)], needed: &[Part::Scale, Part::GlobalScale], unmistakable: false, settle: model_opt },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_zero_point", Part::ZeroPoint), (".input_scale", Part::ActivationScale), (".input_zero_point", Part::ActivationScale)], needed: &[Part::Scale], unmistakable: false, settle: scaled },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale_inv", Part::Scale), (".activation_scale", Part::ActivationScale), (".input_scale", Part::ActivationScale)], needed: &[Part::Scale], unmistakable: false, settle: scaled },
];

/// Whether the model's documents say that it is quantized by one of these schemes.
pub(super) fn is_quantized(documents: &[Document]) -> bool {
    let says = |config: &Json| {
        config.get("quantization_config").or(config.get("compression_config")).is_some()
    };
    documents.iter().any(|document| match document.name.as_str() {
        "config.json" => says(&document.json) || document.json.get("text_config").is_some_and(says),
        "hf_quant_config.json" | "quantize_config.json" => true,
        _ => false,
    })
}

/// Joins the arrays of each quantized tensor.
pub(super) fn gather(indexed: &mut Indexed, limits: &Limits) -> Result<()> {
    let schemes = possible(indexed);
    for head in 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX) {
        for (scheme, companions) in &schemes {
            if try_scheme(indexed, head, scheme, companions, limits)? {
                break;
            }
        }
    }
    Ok(())
}

/// A scheme, and those of its companions that may occur.
type PossibleScheme = (&'static Scheme, Vec<(&'static str, Part)>);

/// The schemes that the endings of the names allow. A model mostly uses one, and looking for the
/// arrays of all others would take longer than opening its files.
fn possible(indexed: &Indexed) -> Vec<PossibleScheme> {
    let last = |name: &[u8]| name.rsplit(|&byte| byte == b'.').next().map_or(0, <[u8]>::len);
    let mut found: HashSet<&[u8]> = HashSet::new();
    for number in 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX) {
        let name = indexed.get(number).map_or(&[][..], |listed| listed.name.as_bytes());
        found.insert(name.get(name.len() - last(name)..).unwrap_or_default());
    }
    let occurs = |ending: &str| {
        let ending = ending.as_bytes();
        let ending = ending.get(ending.len() - last(ending)..).unwrap_or_default();
        found.iter().any(|last| last.ends_with(ending))
    };
    let possible = SCHEMES.iter().filter(|scheme| occurs(scheme.head)).map(|scheme| {
        let companions = scheme.companions.iter().copied();
        (scheme, companions.filter(|(ending, _)| occurs(ending)).collect::<Vec<_>>())
    });
    let complete = |(scheme, companions): &PossibleScheme| {
        let has = |part| companions.iter().any(|(_, other)| other == part);
        scheme.unmistakable || scheme.needed.iter().all(has)
    };
    possible.filter(complete).collect()
}

fn try_scheme(
    indexed: &mut Indexed,
    head: u32,
    scheme: &Scheme,
    possible: &[(&'static str, Part)],
    limits: &Limits,
) -> Result<bool> {
    let Some(listed) = indexed.get(head) else { return Ok(false) };
    let Some(base) = listed.name.as_bytes().strip_suffix(scheme.head.as_bytes()) else {
        return Ok(false);
    };
    let mut companions = Vec::new();
    let mut name = base.to_vec();
    for (ending, part) in possible {
        name.truncate(base.len());
        name.extend_from_slice(ending.as_bytes());
        if let Some(number) = indexed.find(&name)
            && number != head
            && !indexed.is_grouped(number)
        {
            companions.push((*part, number));
        }
    }
    let has = |part: &Part| companions.iter().any(|(other, _)| other == part);
    let located = |error: Error| error.in_file(indexed.path(head)).in_tensor(listed.name);
    if let Some(missing) = scheme.needed.iter().find(|part| !has(part)) {
        if !scheme.unmistakable {
            return Ok(false);
        }
        let ending = scheme.companions.iter().find(|(_, part)| part == missing);
        let ending = ending.map_or("", |(ending, _)| ending);
        let fault =
            format!("the {} is missing (the array whose name ends in {ending})", missing.name());
        return Err(located(Error::malformed(fault).advise("fetch the files of the model again")));
    }
    let found = CheckpointArrays { indexed, head: listed, companions: &companions, limits };
    let Some((dtype, shape)) = (scheme.settle)(&found).map_err(located)? else {
        return Ok(false);
    };
    let name = (scheme.tensor != scheme.head).then(|| [base, scheme.tensor.as_bytes()].concat());
    let group_size = match dtype {
        DType::HF_NVFP4 => 16,
        DType::HF_MXFP4 => 32,
        DType::CT_INT4 | DType::CT_INT8 => {
            let columns = shape.last().copied().unwrap_or(0);
            let groups = found.shape(Part::Scale).last().copied().unwrap_or(0);
            let each = columns.checked_div(groups).filter(|_| columns.is_multiple_of(groups));
            each.and_then(|each| u32::try_from(each).ok()).unwrap_or(0)
        }
        _ => 0,
    };
    let grouped = NewGroup { dtype, group_size, name, shape: Some(shape), companions: &companions };
    indexed.group(head, grouped)?;
    Ok(true)
}

/// The arrays of one tensor.
struct CheckpointArrays<'a> {
    indexed: &'a Indexed,
    head: ListedArray<'a>,
    companions: &'a [(Part, u32)],
    limits: &'a Limits,
}

impl<'a> CheckpointArrays<'a> {
    fn number(&self, part: Part) -> Option<u32> {
        self.companions.iter().find(|(other, _)| *other == part).map(|(_, number)| *number)
    }

    fn part(&self, part: Part) -> Option<ListedArray<'a>> {
        self.indexed.get(self.number(part)?)
    }

    fn shape(&self, part: Part) -> &'a [u64] {
        self.part(part).map_or(&[], |listed| listed.shape)
    }

    /// The bytes of a small part that describes the others.
    fn read(&self, part: Part) -> Result<Option<Vec<u8>>> {
        self.number(part).map(|number| self.indexed.read(number)).transpose()
    }

    /// Whether the config states GPTQ's second format.
    fn is_gptq_v2(&self) -> bool {
        let format = |json: &Json| {
            json.get("checkpoint_format").and_then(Json::as_str).map(|format| format == "gptq_v2")
        };
        self.indexed.documents().iter().any(|document| match document.name.as_str() {
            "config.json" => {
                document.json.get("quantization_config").and_then(format) == Some(true)
            }
            "quantize_config.json" => format(&document.json) == Some(true),
            _ => false,
        })
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

fn contradiction(fault: String) -> Error {
    Error::malformed(fault).advise("the parts do not match: fetch the model's files again")
}

/// GPTQ and AWQ pack codes into words: GPTQ along the input, AWQ along the output. The shapes
/// distinguish them. The zero points, packed along the output in both, give the bits.
fn gptq_or_awq(found: &CheckpointArrays<'_>) -> Interpretation {
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
             [{zero_groups}, {zero_words}] do not fit together"
        )
    };
    let zero_bits = zero_words.checked_mul(32).ok_or_else(|| contradiction(shapes()))?;
    let whole = outputs > 0 && zero_groups == groups && zero_bits.is_multiple_of(outputs);
    let bits = if whole { zero_bits / outputs } else { 0 };
    // The first format stores zero points minus one.
    let dtype = match (bits, found.is_gptq_v2()) {
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

/// compressed-tensors: integers in words, with the number of columns in `weight_shape`, or two E2M1
/// codes per byte.
fn compressed(found: &CheckpointArrays<'_>) -> Interpretation {
    let (&[rows, packed], &[scale_rows, groups]) = (found.head.shape, found.shape(Part::Scale))
    else {
        return Err(contradiction(
            "weight_packed and weight_scale must have two dimensions".into(),
        ));
    };
    if scale_rows != rows || groups == 0 {
        return Err(contradiction(format!(
            "weight_packed has {rows} rows, but weight_scale [{scale_rows}, {groups}]"
        )));
    }
    if found.is(DType::U8) {
        let scales = found.part(Part::Scale).map(|scale| scale.dtype);
        let columns = packed.checked_mul(2);
        let columns = columns.ok_or_else(|| contradiction("too many columns".into()))?;
        let (dtype, group) = match scales {
            Some(Ok(DType::F8_E4M3)) => (DType::HF_NVFP4, 16),
            Some(Ok(DType::U8 | DType::F8_E8M0)) => (DType::HF_MXFP4, 32),
            _ => return Ok(None),
        };
        if columns != groups.saturating_mul(group) {
            return Err(contradiction(format!(
                "{columns} columns, but {groups} scales, each for {group}"
            )));
        }
        return Ok(Some((dtype, vec![rows, columns])));
    }
    found.check_dtypes(&[Part::Weight, Part::ZeroPoint, Part::GroupIndex], WORDS)?;
    found.check_dtypes(&[Part::Scale], FLOATS)?;
    let Some(bytes) = found.read(Part::Description)? else {
        return Err(contradiction("weight_shape is missing".into()));
    };
    let dims: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
    let &[said_rows, columns] = dims.as_slice() else {
        return Err(contradiction(format!("weight_shape holds {} numbers, not 2", dims.len())));
    };
    let fits = |bits: u64| columns.checked_mul(bits).is_some_and(|all| all.div_ceil(32) == packed);
    let dtype = match (fits(4), fits(8)) {
        _ if said_rows != rows => None,
        (true, false) => Some(DType::CT_INT4),
        (false, true) => Some(DType::CT_INT8),
        _ => None,
    };
    match dtype {
        Some(dtype) => Ok(Some((dtype, vec![rows, columns]))),
        None => Err(contradiction(format!(
            "weight_shape [{said_rows}, {columns}] does not fit weight_packed [{rows}, {packed}] \
             at 4 or 8 bits"
        ))),
    }
}

/// gpt-oss: blocks of 16 bytes with two E2M1 codes each; the blocks of a row are adjacent.
fn gpt_oss(found: &CheckpointArrays<'_>) -> Interpretation {
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

fn bitsandbytes_nf4(found: &CheckpointArrays<'_>) -> Interpretation {
    bitsandbytes(found, DType::BNB_NF4)
}

fn bitsandbytes_fp4(found: &CheckpointArrays<'_>) -> Interpretation {
    bitsandbytes(found, DType::BNB_FP4)
}

/// bitsandbytes: two codes per byte over the whole tensor, whose shape is in a JSON part.
fn bitsandbytes(found: &CheckpointArrays<'_>, dtype: DType) -> Interpretation {
    let Some(text) = found.read(Part::Description)? else { return Ok(None) };
    let nested = [Part::NestedAbsmax, Part::NestedCodeValues];
    let coded = nested.iter().all(|part| found.part(*part).is_some());
    found.check_dtypes(&[Part::Weight], BYTES)?;
    found.check_dtypes(&[Part::Absmax], if coded { &[DType::U8] } else { FLOATS })?;
    found.check_dtypes(&[Part::CodeValues], FLOATS)?;
    found.check_dtypes(&nested, FLOATS)?;
    let state = crate::store::document::parse(&text, found.limits)?;
    let shape = state.get("shape").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let shape: Vec<u64> = shape.iter().filter_map(Json::as_u64).collect();
    let elements = crate::shape::elements(&shape);
    let packed = crate::shape::elements(found.head.shape);
    if shape.is_empty() || shape.len() > 8 || elements.map(|n| n.div_ceil(2)) != packed {
        return Err(contradiction(format!(
            "quant_state gives the shape {shape:?}, but the packed weight {:?}",
            found.head.shape
        )));
    }
    Ok(Some((dtype, shape)))
}

fn bitsandbytes_int8(found: &CheckpointArrays<'_>) -> Interpretation {
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

/// ModelOpt's NVFP4: two E2M1 codes per byte, a scale for each 16 and one for the tensor.
fn model_opt(found: &CheckpointArrays<'_>) -> Interpretation {
    let Some((&packed, outer)) = found.head.shape.split_last() else { return Ok(None) };
    if !found.is(DType::U8) {
        return Ok(None);
    }
    found.check_dtypes(&[Part::Scale], &[DType::F8_E4M3])?;
    let columns = packed.checked_mul(2).ok_or_else(|| contradiction("too many columns".into()))?;
    let scale = found.shape(Part::Scale);
    if !columns.is_multiple_of(16) || scale.split_last() != Some((&(columns / 16), outer)) {
        let weight = found.head.shape;
        return Err(contradiction(format!("weight {weight:?} and weight_scale {scale:?}")));
    }
    Ok(Some((DType::HF_NVFP4, [outer, &[columns]].concat())))
}

/// torchao: integers or floats of 8 bits, one for each element, with scales along rows, groups or
/// the tensor. Its other classes pack codes for the kernels of one kind of device.
fn torchao(found: &CheckpointArrays<'_>) -> Interpretation {
    let unsupported = |fault: String| {
        Err(Error::unsupported(fault)
            .advise("open the checkpoint that torchao quantized, before its quantization"))
    };
    let scales_inputs = |(part, number): &(Part, u32)| {
        let name = found.indexed.get(*number).map(|listed| listed.name.as_bytes());
        *part == Part::ActivationScale && name.is_some_and(|name| name.ends_with(b"_pre_scale"))
    };
    if found.companions.iter().any(scales_inputs) {
        return unsupported("torchao scales the inputs of this tensor (act_pre_scale)".to_owned());
    }
    let is = |part: Part, known: &[DType]| {
        found.part(part).is_none_or(|listed| listed.dtype.is_ok_and(|d| known.contains(&d)))
    };
    let one = found.part(Part::Scale).is_some();
    if !(one && is(Part::Scale, FLOATS) && is(Part::ZeroPoint, &[DType::I8])) {
        return unsupported(torchao_arrays(found));
    }
    match scaled(found)? {
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
    format!(
        "torchao stores this tensor in a layout that is not supported ({arrays}); supported are \
         its Int8Tensor, IntxUnpackedToInt8Tensor, and Float8Tensor of F8_E4M3"
    )
}

/// 8-bit elements; the shape of the scale gives the range of each factor.
fn scaled(found: &CheckpointArrays<'_>) -> Interpretation {
    let dtype = match found.head.dtype {
        Ok(DType::I8) => DType::SCALED_I8,
        Ok(DType::F8_E4M3) => DType::SCALED_F8_E4M3,
        _ => return Ok(None),
    };
    if dtype == DType::SCALED_I8 {
        found.check_dtypes(&[Part::ZeroPoint], &[DType::I8])?;
    }
    let (weight, scale) = (found.head.shape, found.shape(Part::Scale));
    // Either one for the tensor, or along each dimension no more than there are elements.
    let one = crate::shape::elements(scale) == Some(1);
    let fits =
        scale.len() == weight.len() && scale.iter().zip(weight).all(|(s, w)| *s > 0 && s <= w);
    let each_row = scale.len() == 1 && scale.first() == weight.first();
    if !(one || fits || each_row) {
        return Err(contradiction(format!("weight {weight:?} and scale {scale:?}")));
    }
    Ok(Some((dtype, weight.to_vec())))
}
