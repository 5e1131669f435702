//! Arguments whose values have names: types, dtypes, containers. Completion scripts offer the names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use weighbridge::DType;
use weighbridge::container::{CONTAINERS, Container};
use weighbridge::dtype::DTYPES;
use weighbridge::ollama::{QuantType, TYPES};
use weighbridge::recipe::llama_cpp::target;
use weighbridge::recipe::mlx_lm::{self, Mix};
use weighbridge::recipe::{FILE_TYPES, FileType};

use crate::spelling;

/// Parses a value, and knows the names that it may have. Other spellings may be valid too.
#[derive(Clone)]
pub(crate) struct Named<T> {
    parse: fn(&str) -> Result<T, String>,
    names: fn() -> Vec<(&'static str, &'static str)>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |(name, help): (&'static str, &'static str)| match help {
            "" => PossibleValue::new(name),
            help => PossibleValue::new(name).help(help),
        };
        Some(Box::new((self.names)().into_iter().map(value)))
    }
}

/// The error of a value that is none of the names.
fn none_of<T>(names: impl Iterator<Item = &'static str>) -> Result<T, String> {
    Err(format!("not one of {}", names.collect::<Vec<_>>().join(", ")))
}

/// The places that list the types.
const TYPES_HERE: &str = "`weighbridge list types` lists the types of GGUF; mlx4 or 4bit is MLX";

/// Types of other programs, and what comes nearest to them here.
const ELSEWHERE: [(&str, &str); 10] = [
    (
        "awq|gptq|exl2|exl3|hqq|aqlm|dwq",
        "Weighbridge does not write it: Q4_K_M for GGUF or mlx4 for MLX are about as large",
    ),
    (
        "q4_0_4_4|q4_0_4_8|q4_0_8_8|iq4_nl_4_4|iq4_nl_4_8|iq4_nl_8_8",
        "llama.cpp has retired it: Q4_0 and IQ4_NL are rearranged when they are loaded",
    ),
    ("mlx", "with the bits: mlx4, mlx8, or mlx4,64 with the group size"),
    (
        "mixed_2_6|mixed_3_4|mixed_3_6|mixed_4_6",
        "`mlx4 --quant-predicate mixed_4_6` writes a mix of mlx-lm",
    ),
    ("int8|q8|w8a8|w8a16", "the types of 8 bits are Q8_0 for GGUF and mlx8 for MLX"),
    ("q6|int6", "the types of 6 bits are Q6_K for GGUF and mlx6 for MLX"),
    ("q5|q3|q2", "GGUF has Q5_K_M, Q3_K_M and Q2_K, MLX has mlx5, mlx3 and mlx2"),
    ("int4|q4|w4a16|nf4|fp4|bnb", "the types of 4 bits are Q4_K_M for GGUF and mlx4 for MLX"),
    (
        "fp8|f8|f8_e4m3|float8|fp8_e4m3|fp8_e4m3fn|fp8_e5m2|f8_e5m2|float8_e4m3fn|float8_e5m2",
        "FP8 is read, and nothing is quantized to it; Q8_0 for GGUF is about as large",
    ),
    (
        "mxfp4|mxfp8|nvfp4",
        "`--type mlx4,32,mxfp4`, `mlx8,32,mxfp8` or `mlx4,16,nvfp4` for MLX, MXFP4_MOE for GGUF",
    ),
];

/// Mixes of publishers, without UD- before them and _L or _XL after them, and the type that has most of their dtypes.
const MIXES: [(&str, FileType); 6] = [
    ("Q2_K", FileType::Q2_K),
    ("Q3_K", FileType::Q3_K_L),
    ("Q4_K", FileType::Q4_K_M),
    ("Q5_K", FileType::Q5_K_M),
    ("Q6_K", FileType::Q6_K),
    ("Q8_K", FileType::Q8_0),
];

/// What comes near a mix of a publisher.
fn of_publisher(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let own = upper.strip_prefix("UD-");
    let start = own.unwrap_or(&upper);
    let size = ["_XL", "_L"].iter().find_map(|end| start.strip_suffix(end));
    let row = size.and_then(|size| MIXES.iter().find(|(mix, _)| *mix == size));
    let near = row.map(|(_, near)| *near).or_else(|| FileType::from_name(own?))?;
    let higher = match near {
        FileType::Q8_0 => "",
        _ => " with `--token-embedding-type Q8_0 --output-tensor-type Q8_0`",
    };
    Some(format!(
        "a publisher's own mix. {}{higher} comes near; `--tensor-type REGEX=DTYPE` sets the type of other tensors",
        near.name()
    ))
}

/// Methods whose names may have the bits after them: `dwq4`.
const METHODS: [&str; 5] = ["awq", "gptq", "dwq", "hqq", "bnb"];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The type that is nearest to one of another program.
fn elsewhere(name: &str) -> Option<String> {
    if let Some(said) = of_publisher(name) {
        return Some(said);
    }
    let lower = name.to_ascii_lowercase();
    let lower = lower.as_str();
    let method = lower.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if let Some((bits, group)) = lower.split_once("bit").filter(|(bits, _)| is_number(bits)) {
        let group = group.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        return is_number(group)
            .then(|| format!("mlx{bits},{group} is {bits} bits in groups of {group} for MLX"));
    }
    if method.is_empty() {
        let lists = "`weighbridge list types` lists the types of GGUF";
        return Some(match lower.parse::<u32>() {
            Ok(2..=8) => format!("mlx{lower} is {lower} bits for MLX; {lists}"),
            _ => format!("llama-quantize has no type of this number; {lists}"),
        });
    }
    let named = if METHODS.contains(&method) { method } else { lower };
    let row = ELSEWHERE.iter().find(|(names, _)| names.split('|').any(|name| name == named));
    row.map(|(_, nearest)| (*nearest).to_owned())
}

/// The type that a model is quantized to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetType {
    /// A file type of llama-quantize.
    Gguf(FileType),
    /// An MLX directory.
    Mlx(mlx_lm::MlxOptions),
}

impl TargetType {
    /// Parses a file type, a float by any of its names, or the bits of an MLX directory as `mlx4`, `4bit` or `mlx4,64`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let unknown = || Err(Self::meant(text).unwrap_or_else(|| TYPES_HERE.to_owned()));
        Self::find(text).unwrap_or_else(unknown)
    }

    /// The type that a text names; `None` if it is not spelled as one.
    pub(super) fn find(text: &str) -> Option<Result<Self, String>> {
        let text = float_name(text).unwrap_or(text);
        if let Some(file_type) = FileType::from_name(text) {
            return Some(Ok(Self::Gguf(file_type)));
        }
        let lower = text.to_ascii_lowercase();
        let (bits, rest) =
            lower.split_once(',').map_or((lower.as_str(), None), |(b, r)| (b, Some(r)));
        let start = bits.strip_prefix("mlx").map(|bits| bits.trim_start_matches(['-', '_']));
        let end = start.unwrap_or(bits);
        let number = ["-bits", "-bit", "bits", "bit"].iter().find_map(|it| end.strip_suffix(it));
        let number = number.or(start);
        if let Some(number) = number.filter(|number| number.parse::<u32>().is_ok()) {
            let rest = rest.map_or(String::new(), |rest| format!(",{rest}"));
            return Some(mlx(&format!("{number}{rest}")).map(Self::Mlx));
        }
        let bare = |name: &'static str| name.bytes().filter(|byte| !b"_-".contains(byte));
        let upper = text.to_ascii_uppercase().replace(['_', '-'], "");
        let row = FILE_TYPES.iter().find(|row| bare(row.name).eq(upper.bytes()));
        // `q4k` is Q4_K, which is Q4_K_M.
        let shorter = || {
            let starts = FILE_TYPES.iter().flat_map(|row| {
                row.name.match_indices('_').map(|(end, _)| row.name.split_at(end).0)
            });
            let mut starts = starts.filter(|start| bare(start).eq(upper.bytes()));
            starts.find_map(FileType::from_name)
        };
        Some(Ok(Self::Gguf(row.map(|row| row.file_type).or_else(shorter)?)))
    }

    /// The meaning of a word that is no type: a type of another program, or a slip.
    pub(crate) fn meant(text: &str) -> Option<String> {
        let upper = text.to_ascii_uppercase();
        let names = FILE_TYPES.iter().map(|row| row.name);
        let near = spelling::nearest(&upper, names, |name| spelling::distance(&upper, name));
        elsewhere(text).or_else(|| Some(format!("did you mean {}? {TYPES_HERE}", near?)))
    }

    /// The file type that the name of a file ends in: `model-Q4_K_M.gguf`.
    pub(crate) fn in_name(name: &str) -> Option<FileType> {
        let stem = name.strip_suffix(".gguf")?.to_ascii_uppercase();
        let rows = FILE_TYPES.iter().filter(|row| stem.ends_with(row.name));
        rows.max_by_key(|row| row.name.len()).map(|row| row.file_type)
    }

    /// Its name in the name of a file or folder.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Gguf(file_type) => file_type.name().to_owned(),
            Self::Mlx(options) => {
                let bits =
                    mlx_lm::MlxQuantization::new(options.mode, options.group_size, options.bits);
                bits.map_or("mlx".to_owned(), |bits| format!("{}bit", bits.bits))
            }
        }
    }
}

/// Parses the type of an MLX directory, without the name before or after its bits.
pub(super) fn mlx(text: &str) -> Result<mlx_lm::MlxOptions, String> {
    let mut parts = text.split(',').map(str::trim);
    let number = |part: Option<&str>| match part {
        None | Some("") => Ok(None),
        Some(part) => part.parse().map(Some).map_err(|_| format!("\"{part}\" is not a number")),
    };
    let (bits, group_size) = (number(parts.next())?, number(parts.next())?);
    let mode = match parts.next() {
        None => mlx_lm::MlxMode::default(),
        Some(name) => mlx_lm::MlxMode::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = mlx_lm::MODES.iter().map(|row| row.name).collect();
            format!("\"{name}\" is not one of {}", names.join(", "))
        })?,
    };
    super::values::with_advice(mlx_lm::MlxQuantization::new(mode, group_size, bits))?;
    Ok(mlx_lm::MlxOptions { mode, group_size, bits, ..mlx_lm::MlxOptions::default() })
}

/// The type that a model is quantized to.
pub(crate) fn target_type() -> Named<TargetType> {
    Named {
        parse: TargetType::parse,
        names: || {
            FILE_TYPES
                .iter()
                .map(|row| (row.name, row.summary))
                .chain([("mlx4", "MLX, 4 bits"), ("mlx8", "MLX, 8 bits")])
                .collect()
        },
    }
}

/// Floats, with the names that PyTorch, mlx-lm and vLLM have for them.
const FLOATS: [(DType, &str); 3] = [
    (DType::F16, "f16|float16|fp16|half"),
    (DType::BF16, "bf16|bfloat16"),
    (DType::F32, "f32|float32|fp32|float"),
];

/// The name of a float that has another name elsewhere: F16 for fp16.
pub(super) fn float_name(name: &str) -> Option<&'static str> {
    named(&FLOATS, name).map(DType::name)
}

/// The dtype that a row of a table has for a name.
fn named(rows: &[(DType, &str)], name: &str) -> Option<DType> {
    let lower = name.to_ascii_lowercase();
    let lower = lower.strip_prefix("torch.").unwrap_or(&lower);
    let is_it = |names: &str| names.split('|').any(|name| name == lower);
    rows.iter().find(|(_, names)| is_it(names)).map(|(dtype, _)| *dtype)
}

/// A dtype that llama.cpp quantizes or converts to.
pub(crate) fn dtype() -> Named<DType> {
    Named {
        parse: |text| match (named(&FLOATS, text), target(text), FileType::from_name(text)) {
            (Some(dtype), ..) | (_, Ok(dtype), _) => Ok(dtype),
            // A mix of dtypes, such as Q4_K_M.
            (.., Some(_)) => {
                Err(format!("a file type: `weighbridge quantize SRC DST {text}` writes it"))
            }
            (_, Err(error), None) => match elsewhere(text) {
                Some(said) => Err(said),
                None => super::values::with_advice(Err(error)),
            },
        },
        names: || {
            let possible = DTYPES.iter().filter(|row| target(row.name).is_ok());
            possible.map(|row| (row.name, row.summary)).collect()
        },
    }
}

/// Dtypes of a cache of keys and values: those of llama.cpp's `--cache-type-k`, and those of vLLM's and
/// SGLang's `--kv-cache-dtype`. `auto` is that of 16-bit models.
const CACHES: [(DType, &str); 10] = [
    (DType::F16, "auto"),
    (DType::Q8_0, "q8_0|q8"),
    (DType::Q5_1, "q5_1"),
    (DType::Q5_0, "q5_0|q5"),
    (DType::Q4_1, "q4_1"),
    (DType::Q4_0, "q4_0|q4"),
    (DType::IQ4_NL, "iq4_nl"),
    (DType::F8_E4M3, "f8_e4m3|fp8|fp8_e4m3"),
    (DType::F8_E5M2, "f8_e5m2|fp8_e5m2"),
    (DType::I8, "int8|i8"),
];

/// A dtype of the cache of keys and values.
pub(crate) fn kv() -> Named<DType> {
    fn names() -> impl Iterator<Item = &'static str> {
        let rows = FLOATS.iter().chain(CACHES.iter().skip(1));
        rows.filter_map(|(_, names)| names.split('|').next())
    }
    Named {
        parse: |text| {
            let found = named(&FLOATS, text).or_else(|| named(&CACHES, text));
            found.map_or_else(|| none_of(names()), Ok)
        },
        names: || names().map(|name| (name, "")).collect(),
    }
}

/// A mix of bit widths of mlx-lm.
pub(crate) fn mix() -> Named<&'static Mix> {
    Named {
        parse: |text| {
            let names = mlx_lm::MIXES.iter().map(|mix| mix.name);
            Mix::from_name(text).map_or_else(|| none_of(names), Ok)
        },
        names: || mlx_lm::MIXES.iter().map(|mix| (mix.name, "")).collect(),
    }
}

/// The type that `create` quantizes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CreatedType {
    /// Ollama's own, for models of tensor blobs.
    Blobs(QuantType),
    /// A file type of llama-quantize, for one GGUF blob.
    Gguf(FileType),
}

/// A type that `create` quantizes to.
pub(crate) fn created_type() -> Named<CreatedType> {
    Named {
        parse: |text| match (QuantType::from_name(text), TargetType::find(text)) {
            (Some(found), _) => Ok(CreatedType::Blobs(found)),
            (None, Some(Ok(TargetType::Gguf(file_type)))) => Ok(CreatedType::Gguf(file_type)),
            (None, _) => none_of(TYPES.iter().map(|row| row.name).chain(["Q8_0", "Q4_K_M", "..."])),
        },
        names: || TYPES.iter().map(|row| (row.name, "")).collect(),
    }
}

/// A type of Ollama's own quantization.
pub(crate) fn quant_type() -> Named<QuantType> {
    Named {
        parse: |text| {
            let names = TYPES.iter().map(|row| row.name);
            match (QuantType::from_name(text), FileType::from_name(text)) {
                (Some(found), _) => Ok(found),
                (None, Some(_)) => {
                    Err("draft models are not quantized to types of GGUF".to_owned())
                }
                (None, None) => none_of(names),
            }
        },
        names: || TYPES.iter().map(|row| (row.name, "")).collect(),
    }
}

/// A container that can be written.
pub(crate) fn writable() -> Named<&'static Container> {
    fn rows() -> impl Iterator<Item = (&'static Container, &'static str)> {
        CONTAINERS.iter().filter_map(|row| Some((*row, row.written_as()?)))
    }
    Named {
        parse: |text| {
            let name = match text {
                "hf" | "huggingface" | "transformers" => "safetensors",
                name => name,
            };
            let found = rows().find(|(row, _)| row.name == name).map(|(row, _)| row);
            if found.is_none() && matches!(TargetType::find(text), Some(Ok(_))) {
                return Err(format!("a type: `weighbridge quantize SRC DST {text}` writes it"));
            }
            found.map_or_else(|| none_of(rows().map(|(row, _)| row.name)), Ok)
        },
        names: || rows().map(|(row, help)| (row.name, help)).collect(),
    }
}

/// A fusion of tensors while loading.
pub(crate) fn fusion() -> Named<&'static weighbridge::load::Fusion> {
    use weighbridge::load::{FUSIONS, Fusion};
    Named {
        parse: |text| {
            let names = FUSIONS.iter().map(|row| row.name);
            Fusion::named(text).map_or_else(|| none_of(names), Ok)
        },
        names: || FUSIONS.iter().map(|row| (row.name, "")).collect(),
    }
}
