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

/// The type that a model is quantized to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetType {
    /// A file type of llama-quantize.
    Gguf(FileType),
    /// An MLX directory.
    Mlx(mlx_lm::MlxOptions),
}

impl TargetType {
    /// Parses a file type, or the bits of an MLX directory as `mlx4`, `4bit` or `mlx4,64`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(file_type) = FileType::from_name(text) {
            return Ok(Self::Gguf(file_type));
        }
        let lower = text.to_ascii_lowercase();
        let (bits, rest) =
            lower.split_once(',').map_or((lower.as_str(), None), |(b, r)| (b, Some(r)));
        let number = ["mlx-", "mlx"].iter().find_map(|start| bits.strip_prefix(start));
        let number = number.or_else(|| {
            ["-bits", "-bit", "bits", "bit"].iter().find_map(|end| bits.strip_suffix(end))
        });
        if let Some(number) = number.filter(|number| number.parse::<u32>().is_ok()) {
            let rest = rest.map_or(String::new(), |rest| format!(",{rest}"));
            return mlx(&format!("{number}{rest}")).map(Self::Mlx);
        }
        let upper = text.to_ascii_uppercase();
        let bare = |name: &str| name.replace(['_', '-'], "");
        if let Some(row) = FILE_TYPES.iter().find(|row| bare(row.name) == bare(&upper)) {
            return Ok(Self::Gguf(row.file_type));
        }
        let names = FILE_TYPES.iter().map(|row| row.name);
        let near = spelling::nearest(&upper, names, |name| spelling::distance(&upper, name));
        let near = near.map_or(String::new(), |near| format!("did you mean {near}? "));
        Err(format!("{near}`weighbridge list types` lists the types of GGUF; mlx4 or 4bit is MLX"))
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

/// A dtype that llama.cpp quantizes or converts to.
pub(crate) fn dtype() -> Named<DType> {
    Named {
        parse: |text| match (target(text), FileType::from_name(text)) {
            (Ok(dtype), _) => Ok(dtype),
            // A mix of dtypes, such as Q4_K_M.
            (Err(_), Some(_)) => {
                Err(format!("a file type: `weighbridge quantize SRC DST {text}` writes it"))
            }
            (Err(error), None) => super::values::with_advice(Err(error)),
        },
        names: || {
            let possible = DTYPES.iter().filter(|row| target(row.name).is_ok());
            possible.map(|row| (row.name, row.summary)).collect()
        },
    }
}

/// Dtypes of a cache of keys and values: those of llama.cpp's `--cache-type-k`, and those of vLLM's and
/// SGLang's `--kv-cache-dtype`. `auto` is that of 16-bit models.
const CACHES: [(DType, &str); 12] = [
    (DType::F16, "f16|float16|fp16|auto"),
    (DType::BF16, "bf16|bfloat16"),
    (DType::F32, "f32|float32|fp32"),
    (DType::Q8_0, "q8_0"),
    (DType::Q5_1, "q5_1"),
    (DType::Q5_0, "q5_0"),
    (DType::Q4_1, "q4_1"),
    (DType::Q4_0, "q4_0"),
    (DType::IQ4_NL, "iq4_nl"),
    (DType::F8_E4M3, "f8_e4m3|fp8|fp8_e4m3"),
    (DType::F8_E5M2, "f8_e5m2|fp8_e5m2"),
    (DType::I8, "int8|i8"),
];

/// A dtype of the cache of keys and values.
pub(crate) fn kv() -> Named<DType> {
    fn names() -> impl Iterator<Item = &'static str> {
        CACHES.iter().filter_map(|(_, names)| names.split('|').next())
    }
    Named {
        parse: |text| {
            let lower = text.to_ascii_lowercase();
            let is_it = |names: &str| names.split('|').any(|name| name == lower);
            let found = CACHES.iter().find(|(_, names)| is_it(names));
            found.map_or_else(|| none_of(names()), |(dtype, _)| Ok(*dtype))
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

/// A type of Ollama's own quantization.
pub(crate) fn quant_type() -> Named<QuantType> {
    Named {
        parse: |text| {
            let names = TYPES.iter().map(|row| row.name);
            QuantType::from_name(text).map_or_else(|| none_of(names), Ok)
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
                "hf" | "huggingface" => "safetensors",
                name => name,
            };
            let found = rows().find(|(row, _)| row.name == name).map(|(row, _)| row);
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
