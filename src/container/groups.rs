//! Packed weights whose scales, and optionally biases, are separate arrays: MLX's format, which
//! Ollama stores under other names.

use std::path::PathBuf;

use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::{AdvisedOption, Error, Result};
use crate::json::Json;
use crate::store::{Indexed, ListedArray, NewGroup, Part};

/// One of MLX's quantization modes.
#[derive(Debug)]
pub(crate) struct GroupMode {
    pub(super) name: &'static str,
    /// The bits, group sizes and dtype of each variant; the first group size is the default.
    pub(crate) forms: &'static [(u64, &'static [u64], DType)],
}

const AFFINE_GROUPS: &[u64] = &[64, 32, 128];

#[rustfmt::skip]
pub(super) static MODES: &[GroupMode] = &[
    GroupMode { name: "affine", forms: &[
        (1, AFFINE_GROUPS, DType::MLX_AFFINE1), (2, AFFINE_GROUPS, DType::MLX_AFFINE2),
        (3, AFFINE_GROUPS, DType::MLX_AFFINE3), (4, AFFINE_GROUPS, DType::MLX_AFFINE4),
        (5, AFFINE_GROUPS, DType::MLX_AFFINE5), (6, AFFINE_GROUPS, DType::MLX_AFFINE6),
        (8, AFFINE_GROUPS, DType::MLX_AFFINE8),
    ] },
    GroupMode { name: "mxfp4", forms: &[(4, &[32], DType::MLX_MXFP4)] },
    GroupMode { name: "mxfp8", forms: &[(8, &[32], DType::MLX_MXFP8)] },
    GroupMode { name: "nvfp4", forms: &[(4, &[16], DType::MLX_NVFP4)] },
];

/// The mode with this name.
pub(crate) fn mode(name: &str) -> Option<&'static GroupMode> {
    MODES.iter().find(|mode| mode.name == name)
}

/// The default group size of a dtype with groups.
pub(crate) fn default_group_size(dtype: DType) -> u32 {
    let mut forms = MODES.iter().flat_map(|mode| mode.forms);
    let sizes = forms.find(|(.., own)| *own == dtype).and_then(|(_, sizes, _)| sizes.first());
    sizes.and_then(|size| u32::try_from(*size).ok()).unwrap_or(64)
}

/// One complete interpretation of a packed weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct GroupScheme {
    pub(super) bits: u64,
    pub(super) group_size: u64,
    pub(super) dtype: DType,
}

impl std::fmt::Display for GroupScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in groups of {}", self.dtype, self.group_size)
    }
}

/// The entry numbers of the arrays of one module.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupEntries {
    pub(super) weight: u32,
    pub(super) scales: u32,
    pub(super) biases: Option<u32>,
    /// A value for the whole tensor. Its meaning differs between MLX and Ollama.
    pub(super) global: Option<(Part, u32)>,
}

impl GroupEntries {
    pub(super) fn parts<'a>(&self, indexed: &'a Indexed) -> Option<GroupArrays<'a>> {
        Some(GroupArrays {
            weight: indexed.get(self.weight)?,
            scales: indexed.get(self.scales)?,
            biases: self.biases.and_then(|number| indexed.get(number)),
        })
    }

    /// Joins the arrays into one tensor with the given interpretation.
    pub(super) fn join(&self, indexed: &mut Indexed, reading: &GroupScheme) -> Result<()> {
        let Some(parts) = self.parts(indexed) else { return Ok(()) };
        let shape = parts.shape(reading)?;
        if let Some((_, number)) = self.global {
            let float = indexed.get(number).is_some_and(|listed| listed.dtype == Ok(DType::F32));
            if !float || reading.dtype != DType::MLX_NVFP4 {
                let fault = format!("{} has no .global_scale, but one is stored", reading.dtype);
                return Err(Error::malformed(fault));
            }
        }
        let mut companions = vec![(Part::Scale, self.scales)];
        companions.extend(self.biases.map(|number| (Part::Bias, number)));
        companions.extend(self.global);
        let grouped = NewGroup {
            dtype: reading.dtype,
            group_size: u32::try_from(reading.group_size).unwrap_or(0),
            name: None,
            shape: Some(shape),
            companions: &companions,
        };
        indexed.group(self.weight, grouped)
    }
}

/// The arrays of one module.
pub(super) struct GroupArrays<'a> {
    pub(super) weight: ListedArray<'a>,
    pub(super) scales: ListedArray<'a>,
    pub(super) biases: Option<ListedArray<'a>>,
}

impl GroupArrays<'_> {
    /// All interpretations that fit the arrays' shapes and dtypes.
    pub(super) fn readings(&self) -> Result<Vec<GroupScheme>> {
        let scales = &self.scales;
        let (Some((&packed, rows)), Some((&groups, scale_rows))) =
            (self.weight.shape.split_last(), scales.shape.split_last())
        else {
            return Err(contradiction(
                "a packed weight and its scales must have dimensions".into(),
            ));
        };
        if self.weight.dtype != Ok(DType::U32) || rows != scale_rows || rows.is_empty() {
            return Err(contradiction(format!(
                "weight {:?} of {} and scales {:?}",
                self.weight.shape,
                self.weight.dtype.map_or("?", DType::name),
                scales.shape
            )));
        }
        let affine = match scales.dtype {
            Ok(DType::F16 | DType::BF16 | DType::F32) => true,
            Ok(DType::U8) => false,
            other => {
                let name = other.map_or("?", DType::name);
                return Err(contradiction(format!(
                    "scales of {name}; F16, BF16, F32 or U8 are known"
                )));
            }
        };
        match &self.biases {
            Some(biases) if affine => {
                let float = matches!(biases.dtype, Ok(DType::F16 | DType::BF16 | DType::F32));
                if biases.shape != scales.shape || !float {
                    return Err(contradiction(format!(
                        "scales {:?} and biases {:?} of {}",
                        scales.shape,
                        biases.shape,
                        biases.dtype.map_or("?", DType::name)
                    )));
                }
            }
            None if affine => return Err(contradiction("float scales, but no biases".into())),
            Some(_) => return Err(contradiction("U8 scales and biases".into())),
            None => {}
        }
        let mut readings = Vec::new();
        for mode in MODES.iter().filter(|mode| (mode.name == "affine") == affine) {
            for &(bits, group_sizes, dtype) in mode.forms {
                for &group_size in group_sizes {
                    let columns = groups.checked_mul(group_size);
                    if columns.and_then(|n| n.checked_mul(bits)) == packed.checked_mul(32) {
                        readings.push(GroupScheme { bits, group_size, dtype });
                    }
                }
            }
        }
        Ok(readings)
    }

    /// The interpretations whose row length is the input width of a layer, according to the config.
    pub(super) fn of_known_width(
        &self,
        readings: &[GroupScheme],
        config: &Json,
    ) -> Vec<GroupScheme> {
        let text = config.get("text_config").unwrap_or(config);
        let width = |key: &str| text.get(key).and_then(Json::as_u64);
        let widths = ["hidden_size", "intermediate_size", "moe_intermediate_size"].map(width);
        let packed = self.weight.shape.last().copied().unwrap_or(0);
        let columns = |reading: &GroupScheme| packed.checked_mul(32)?.checked_div(reading.bits);
        readings.iter().filter(|reading| widths.contains(&columns(reading))).copied().collect()
    }

    /// The shape of the values.
    fn shape(&self, reading: &GroupScheme) -> Result<Vec<u64>> {
        let mut shape = self.weight.shape.to_vec();
        if let (Some(last), Some(groups)) = (shape.last_mut(), self.scales.shape.last()) {
            *last = groups.saturating_mul(reading.group_size);
        }
        match crate::shape::elements(&shape) {
            Some(_) => Ok(shape),
            None => Err(contradiction(format!("shape {shape:?} has too many elements"))),
        }
    }
}

pub(super) fn contradiction(fault: String) -> Error {
    Error::malformed(fault)
        .advise("config.json and the tensors are of different models, or damaged")
}

/// The first weight that MLX packed although no config describes it: its file, and the error.
/// Without a description, its codes would be read as plain numbers.
pub(super) fn packed_without_config(indexed: &Indexed) -> Option<(PathBuf, Error)> {
    let is_packed = |number: &u32| {
        if indexed.dtype(*number) != Some(DType::U32) {
            return false;
        }
        let Some(weight) = indexed.get(*number) else { return false };
        let Some(module) = weight.name.as_bytes().strip_suffix(b".weight") else { return false };
        let scales = indexed.find(&[module, b".scales"].concat()).and_then(|n| indexed.get(n));
        let rows = weight.shape.split_last().map(|(_, rows)| rows);
        rows.is_some_and(|rows| !rows.is_empty())
            && scales.is_some_and(|scales| scales.shape.split_last().map(|(_, rows)| rows) == rows)
    };
    let number = (0..u32::try_from(indexed.len()).unwrap_or(u32::MAX)).find(is_packed)?;
    let name = indexed.get(number)?.name.to_string();
    let config = indexed.documents().iter().find(|document| document.name == "config.json");
    let said = match config.map(|config| config.json.get("quantization")) {
        None => match indexed.note_on("config.json") {
            Some(note) => format!("config.json is {}", note.text),
            None => "there is no config.json".to_owned(),
        },
        Some(None) => "config.json has no \"quantization\"".to_owned(),
        Some(Some(json)) => {
            format!("\"quantization\" in config.json is {}", Text::new(json.to_string().as_bytes()))
        }
    };
    let fault = format!(
        "MLX packed this weight (it is U32 and has .scales), but {said}; an object with \"bits\" \
         and \"group_size\" is required"
    );
    let error = Error::malformed(fault).in_tensor(name).advise_option(
        "fetch config.json again; {} opens the codes as plain U32",
        AdvisedOption::Lenient,
    );
    Some((indexed.path(number).to_path_buf(), error))
}
