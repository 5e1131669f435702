//! Checkpoints of quantization schemes other than ggml's and MLX's: GPTQ, AWQ, compressed-tensors,
//! ModelOpt, bitsandbytes, torchao, FP8, gpt-oss, ComfyUI. Each stores a weight in several arrays. They are joined
//! into one tensor with the name it has in the unquantized checkpoint.

use std::collections::{HashMap, HashSet};

use super::comfy::StatedFormats;
use super::layouts::{
    Checkpoint, CheckpointArrays, Interpretation, bitsandbytes_fp4, bitsandbytes_int8,
    bitsandbytes_nf4, compressed, e2m1, elements, floats, gpt_oss, gptq_or_awq, sparse, torchao,
};
use super::stated::StatedScheme;
use crate::dtype::DType;
use crate::error::{ErrorKind, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::store::{Indexed, ListedArray, NewGroup, Part};

/// A scheme of quantization: its names for the arrays of one tensor, and their meaning.
struct Scheme {
    /// The suffix of the weight part's name.
    head: &'static str,
    /// The suffix that replaces it in the unquantized checkpoint.
    tensor: &'static str,
    /// The suffixes of the other parts' names.
    companions: &'static [(&'static str, Part)],
    /// The parts that identify the scheme; without them the array is something else.
    needed: &'static [Part],
    /// Determines the tensor from the arrays.
    settle: fn(&CheckpointArrays<'_>) -> Interpretation,
}

/// The first scheme that fits is used.
#[rustfmt::skip]
static SCHEMES: &[Scheme] = &[
    Scheme { head: ".qweight", tensor: ".weight", companions: &[(".scales", Part::Scale), (".qzeros", Part::ZeroPoint), (".g_idx", Part::GroupIndex)], needed: &[Part::Scale, Part::ZeroPoint], settle: gptq_or_awq },
    Scheme { head: ".weight_packed", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_zero_point", Part::ZeroPoint), (".weight_g_idx", Part::GroupIndex), (".weight_shape", Part::Description), (".weight_global_scale", Part::GlobalDivisor)], needed: &[Part::Scale], settle: compressed },
    Scheme { head: "_proj_packed", tensor: "_proj", companions: &[("_proj_scale", Part::Scale), ("_proj_zero_point", Part::ZeroPoint), ("_proj_g_idx", Part::GroupIndex), ("_proj_shape", Part::Description), ("_proj_global_scale", Part::GlobalDivisor)], needed: &[Part::Scale], settle: compressed },
    Scheme { head: "._weight_qdata", tensor: ".weight", companions: &[("._weight_scale", Part::Scale), ("._weight_zero_point", Part::ZeroPoint), ("._weight_act_quant_scale", Part::ActivationScale), ("._weight_act_pre_scale", Part::InputFactor)], needed: &[], settle: torchao },
    Scheme { head: "._gate_up_proj_qdata", tensor: ".gate_up_proj", companions: &[("._gate_up_proj_scale", Part::Scale), ("._gate_up_proj_zero_point", Part::ZeroPoint), ("._gate_up_proj_act_quant_scale", Part::ActivationScale), ("._gate_up_proj_act_pre_scale", Part::InputFactor)], needed: &[], settle: torchao },
    Scheme { head: "._down_proj_qdata", tensor: ".down_proj", companions: &[("._down_proj_scale", Part::Scale), ("._down_proj_zero_point", Part::ZeroPoint), ("._down_proj_act_quant_scale", Part::ActivationScale), ("._down_proj_act_pre_scale", Part::InputFactor)], needed: &[], settle: torchao },
    Scheme { head: "_blocks", tensor: "", companions: &[("_scales", Part::Scale)], needed: &[Part::Scale], settle: gpt_oss },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight.absmax", Part::Absmax), (".weight.quant_map", Part::CodeValues), (".weight.nested_absmax", Part::NestedAbsmax), (".weight.nested_quant_map", Part::NestedCodeValues), (".weight.quant_state.bitsandbytes__nf4", Part::Description)], needed: &[Part::Absmax, Part::CodeValues, Part::Description], settle: bitsandbytes_nf4 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight.absmax", Part::Absmax), (".weight.quant_map", Part::CodeValues), (".weight.nested_absmax", Part::NestedAbsmax), (".weight.nested_quant_map", Part::NestedCodeValues), (".weight.quant_state.bitsandbytes__fp4", Part::Description)], needed: &[Part::Absmax, Part::CodeValues, Part::Description], settle: bitsandbytes_fp4 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".SCB", Part::Scale), (".weight_format", Part::Description)], needed: &[Part::Scale], settle: bitsandbytes_int8 },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_scale_2", Part::GlobalScale), (".pre_quant_scale", Part::InputFactor)], needed: &[Part::Scale, Part::GlobalScale], settle: e2m1 },
    Scheme { head: ".compressed", tensor: ".weight", companions: &[(".bitmask", Part::Bitmask), (".shape", Part::Description), (".weight_scale", Part::Scale)], needed: &[Part::Bitmask, Part::Description], settle: sparse },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale", Part::Scale), (".weight_zero_point", Part::ZeroPoint), (".comfy_quant", Part::Description)], needed: &[Part::Scale], settle: elements },
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_scale_inv", Part::Scale)], needed: &[Part::Scale], settle: elements },
    // Quark, which names its modules' quantizers.
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".weight_quantizer.scale", Part::Scale), (".weight_quantizer.zero_point", Part::ZeroPoint)], needed: &[Part::Scale], settle: elements },
    // Quanto's integers and floats of 8 bits.
    Scheme { head: ".weight._data", tensor: ".weight", companions: &[(".weight._scale", Part::Scale)], needed: &[Part::Scale], settle: elements },
    // ComfyUI's older files, which have an array `scaled_fp8` too.
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".scale_weight", Part::Scale)], needed: &[Part::Scale], settle: floats },
    // Mistral's consolidated files.
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".qscale_weight", Part::Scale)], needed: &[Part::Scale], settle: floats },
    // DeepSeek's own names.
    Scheme { head: ".weight", tensor: ".weight", companions: &[(".scale", Part::Scale)], needed: &[Part::Scale], settle: floats },
    // The experts of a layer in one array: `gate_up_proj`, `down_proj`.
    Scheme { head: "_proj", tensor: "_proj", companions: &[("_proj_scale", Part::Scale), ("_proj_scale_2", Part::GlobalScale)], needed: &[Part::Scale, Part::GlobalScale], settle: e2m1 },
    Scheme { head: "_proj", tensor: "_proj", companions: &[("_proj_scale_inv", Part::Scale)], needed: &[Part::Scale], settle: floats },
    Scheme { head: "_proj", tensor: "_proj", companions: &[("_proj_scale", Part::Scale)], needed: &[Part::Scale], settle: floats },
];

/// The factors of what a module receives or returns, by any scheme's names. They go with its weight.
#[rustfmt::skip]
static ACTIVATIONS: &[(&str, &[(&str, Part)])] = &[
    (".weight", &[
        (".input_scale", Part::ActivationScale), (".activation_scale", Part::ActivationScale), (".qscale_act", Part::ActivationScale),
        (".scale_input", Part::ActivationScale), (".input_zero_point", Part::ActivationZeroPoint), (".input_scale_ub", Part::ActivationBound), (".output_scale", Part::OutputScale),
        (".input_quantizer.scale", Part::ActivationScale), (".input_quantizer.zero_point", Part::ActivationZeroPoint),
        (".output_quantizer.scale", Part::OutputScale), (".output_quantizer.zero_point", Part::OutputZeroPoint),
    ]),
    (".weight_packed", &[(".input_scale", Part::ActivationScale), (".input_global_scale", Part::ActivationScale)]),
    (".weight._data", &[(".input_scale", Part::ActivationScale), (".output_scale", Part::OutputScale)]),
    ("_proj", &[("_proj_activation_scale", Part::ActivationScale), ("_proj_input_scale", Part::ActivationScale)]),
    ("_proj_packed", &[("_proj_input_global_scale", Part::ActivationScale)]),
];

/// The start of the last part of an array's name that states the scheme of its weight, as bitsandbytes writes it.
const NAMED: &str = "bitsandbytes__";

/// Joins the arrays of each quantized tensor. Returns why arrays with the names of a scheme were not
/// joined.
pub(super) fn gather(indexed: &mut Indexed, limits: &Limits) -> Result<HashMap<u32, String>> {
    let schemes = possible(indexed, SCHEMES);
    join(indexed, &schemes, |_, _| true, limits)
}

/// Like [`gather`], for files without a document that states a scheme: an array may state it, and every scheme multiplies
/// floats of 8 bits by their scale.
pub(super) fn gather_unstated(
    indexed: &mut Indexed,
    limits: &Limits,
) -> Result<HashMap<u32, String>> {
    let endings: Vec<_> = SCHEMES.iter().flat_map(named).collect();
    let is_concerned = |listed: ListedArray<'_>| {
        is_small_float(&listed)
            || endings.iter().any(|end| listed.name.as_bytes().ends_with(end.as_bytes()))
    };
    let mut numbers = 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX);
    if !numbers.any(|number| indexed.get(number).is_some_and(is_concerned)) {
        return Ok(HashMap::new());
    }
    let schemes = possible(indexed, SCHEMES);
    let applies = |listed: &ListedArray<'_>, scheme: &'static Scheme| {
        is_small_float(listed) || named(scheme).next().is_some()
    };
    join(indexed, &schemes, applies, limits)
}

/// The endings of the names of arrays that state the scheme.
fn named(scheme: &'static Scheme) -> impl Iterator<Item = &'static str> {
    scheme.companions.iter().map(|(end, _)| *end).filter(|end| end.contains(NAMED))
}

/// Whether numbers are floats of 8 bits, each with a sign.
fn is_small_float(listed: &ListedArray<'_>) -> bool {
    matches!(
        listed.dtype,
        Ok(DType::F8_E4M3 | DType::F8_E5M2 | DType::F8_E4M3FNUZ | DType::F8_E5M2FNUZ)
    )
}

/// Joins the arrays of each head that a scheme applies to.
fn join(
    indexed: &mut Indexed,
    schemes: &[PossibleScheme],
    applies: impl Fn(&ListedArray<'_>, &'static Scheme) -> bool,
    limits: &Limits,
) -> Result<HashMap<u32, String>> {
    let mut faults = HashMap::new();
    let has_middle_zero_points = has_middle_zero_points(indexed)?;
    let checkpoint =
        Checkpoint { limits, has_middle_zero_points, comfy: StatedFormats::of(indexed) };
    for head in 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX) {
        for (scheme, companions) in schemes {
            if !indexed.get(head).is_some_and(|listed| applies(&listed, scheme)) {
                continue;
            }
            match try_scheme(indexed, head, scheme, companions, &checkpoint) {
                Ok(true) => {
                    faults.remove(&head);
                    break;
                }
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    faults.entry(head).or_insert(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(faults)
}

/// Whether a symmetric checkpoint of GPTQ stores the middle of the codes as zero points: programs that write the
/// second format name the first one at times. The first tensor decides.
fn has_middle_zero_points(indexed: &Indexed) -> Result<bool> {
    let Some(stated) = StatedScheme::of(indexed.documents()) else { return Ok(false) };
    let is_symmetric = stated.get("/sym").and_then(Json::as_bool) == Some(true);
    let middle = match stated.get("/bits").and_then(Json::as_u64) {
        Some(2) => 0xaa,
        Some(4) => 0x88,
        Some(8) => 0x80,
        _ => return Ok(false),
    };
    if !is_symmetric || !stated.says("/quant_method", "gptq") {
        return Ok(false);
    }
    let mut numbers = 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX);
    let is_zero = |number: &u32| {
        indexed.get(*number).is_some_and(|listed| listed.name.as_bytes().ends_with(b".qzeros"))
    };
    let Some(first) = numbers.find(is_zero) else { return Ok(false) };
    let bytes = indexed.read_start(first, 64)?;
    Ok(!bytes.is_empty() && bytes.iter().all(|byte| *byte == middle))
}

/// A scheme, and those of its companions that may occur.
type PossibleScheme = (&'static Scheme, Vec<(&'static str, Part)>);

/// Whether an array with this name would go with a tensor that is stored unquantized: a scale that an index of the quantized
/// model lists, for example.
pub(super) fn is_part_of_plain(indexed: &Indexed, name: &str) -> bool {
    let rows = SCHEMES.iter().map(|scheme| (scheme.tensor, scheme.companions));
    let mut rows = rows.chain(ACTIVATIONS.iter().copied());
    rows.any(|(tensor, companions)| {
        companions.iter().any(|(ending, _)| {
            let stem = name.strip_suffix(ending);
            let number = stem.and_then(|stem| indexed.find(format!("{stem}{tensor}").as_bytes()));
            let dtype = number.and_then(|number| indexed.dtype(number));
            matches!(dtype, Some(DType::BF16 | DType::F16 | DType::F32))
        })
    })
}

/// The schemes that the endings of the names allow. A model mostly uses one, and looking for the
/// arrays of all others would take longer than opening its files.
fn possible(
    indexed: &Indexed,
    schemes: impl IntoIterator<Item = &'static Scheme>,
) -> Vec<PossibleScheme> {
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
    let schemes = schemes.into_iter().filter(|scheme| occurs(scheme.head));
    let possible = schemes.map(|scheme| {
        let of_head = ACTIVATIONS.iter().filter(|(head, _)| *head == scheme.head);
        let activations = of_head.flat_map(|(_, parts)| parts.iter());
        let companions = scheme.companions.iter().chain(activations).copied();
        (scheme, companions.filter(|(ending, _)| occurs(ending)).collect::<Vec<_>>())
    });
    let complete = |(scheme, companions): &PossibleScheme| {
        let has = |part| companions.iter().any(|(_, other)| other == part);
        scheme.needed.iter().all(has)
    };
    possible.filter(complete).collect()
}

fn try_scheme(
    indexed: &mut Indexed,
    head: u32,
    scheme: &Scheme,
    possible: &[(&'static str, Part)],
    checkpoint: &Checkpoint<'_>,
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
            && companions.iter().all(|(other, _)| other != part)
        {
            companions.push((*part, number));
        }
    }
    let has = |part: &Part| companions.iter().any(|(other, _)| other == part);
    if !scheme.needed.iter().all(has) {
        return Ok(false);
    }
    let found = CheckpointArrays { indexed, head: listed, companions: &companions, checkpoint };
    let settled = (scheme.settle)(&found).map_err(|error| match error.kind() {
        // Its text becomes a part of another.
        ErrorKind::Unsupported => error,
        _ => error.in_file(indexed.path(head)).in_tensor(listed.name),
    });
    let Some((dtype, shape)) = settled? else { return Ok(false) };
    let name = (scheme.tensor != scheme.head).then(|| [base, scheme.tensor.as_bytes()].concat());
    let group_size = match dtype {
        DType::HF_NVFP4 => 16,
        DType::HF_MXFP4 | DType::CT_MXFP6 => 32,
        DType::AWQ4_GEMV => found.stated_group_size().unwrap_or(0),
        DType::CT_INT2
        | DType::CT_INT3
        | DType::CT_INT4
        | DType::CT_INT5
        | DType::CT_INT6
        | DType::CT_INT7
        | DType::CT_INT8 => {
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
