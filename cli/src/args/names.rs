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

/// A file type of llama-quantize.
pub(crate) fn file_type() -> Named<FileType> {
    Named {
        parse: |text| {
            let names = FILE_TYPES.iter().map(|row| row.name);
            FileType::from_name(text).map_or_else(|| none_of(names), Ok)
        },
        names: || FILE_TYPES.iter().map(|row| (row.name, row.summary)).collect(),
    }
}

/// A dtype that llama.cpp quantizes or converts to.
pub(crate) fn dtype() -> Named<DType> {
    Named {
        parse: |text| super::values::with_advice(target(text)),
        names: || {
            let possible = DTYPES.iter().filter(|row| target(row.name).is_ok());
            possible.map(|row| (row.name, row.summary)).collect()
        },
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
            let found = rows().find(|(row, _)| row.name == text).map(|(row, _)| row);
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
