//! Values of arguments: sizes, devices.

use std::path::Path;

use weighbridge::inventory::PROGRAMS;

/// A device to load to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum DeviceName {
    Cpu,
    /// The first GPU, or the one with this number or name.
    Gpu(Option<String>),
}

impl std::str::FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            // llama.cpp's `none` is no other device.
            None if ["cpu", "none"].contains(&text) => Ok(Self::Cpu),
            None if text == "gpu" => Ok(Self::Gpu(None)),
            Some(("gpu", which)) if !which.is_empty() => Ok(Self::Gpu(Some(which.to_owned()))),
            _ => Err("expected cpu, gpu, gpu:NUMBER or gpu:NAME".to_owned()),
        }
    }
}

/// A unit of bytes: its name, its spelling without the B, and its bytes.
pub(crate) type Unit = (&'static str, &'static str, u64);

const UNITS: [Unit; 9] = [
    ("B", "", 1),
    ("kB", "k", 1_000),
    ("MB", "m", 1_000_000),
    ("GB", "g", 1_000_000_000),
    ("TB", "t", 1_000_000_000_000),
    ("KiB", "ki", 1 << 10),
    ("MiB", "mi", 1 << 20),
    ("GiB", "gi", 1 << 30),
    ("TiB", "ti", 1 << 40),
];

/// Parses a number of bytes: `4G` and `4GB` are 4,000,000,000, `4GiB` is 4,294,967,296.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    size_in(text).map(|(bytes, _)| bytes)
}

/// A word that stands where a path belongs, but is a size: `400K`.
pub(crate) fn size_for_path(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let is_size = text.starts_with(|c: char| c.is_ascii_digit()) && size(text).is_ok();
    Some(text).filter(|_| is_size && !path.exists())
}

/// Whether a word is the name of a program that keeps models. A folder of that name is `./ollama`.
pub(crate) fn is_program(word: &Path) -> bool {
    PROGRAMS.iter().any(|program| Path::new(program.name) == word)
}

/// Parses a number of bytes, and the unit that it has.
pub(crate) fn size_in(text: &str) -> Result<(u64, Unit), String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let short = unit.trim_start().to_ascii_lowercase();
    let short = short.strip_suffix('b').unwrap_or(&short);
    let unit = UNITS
        .iter()
        .find(|(_, spelling, _)| *spelling == short)
        .ok_or_else(|| format!("unknown unit \"{unit}\": use K, M, G, T, KiB, MiB, GiB or TiB"))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    // Nine digits are exact to a byte up to GB.
    let part = part.get(..9).unwrap_or(part);
    let digits = |digits: &str| {
        digits.parse::<u64>().map_err(|_| "expected a number and a unit, as in 4G or 512MiB")
    };
    let whole = digits(whole)?;
    let scale = part.bytes().fold(1u128, |scale, _| scale * 10);
    let fraction = u128::from(digits(part)?) * u128::from(unit.2) / scale;
    let bytes = whole.checked_mul(unit.2);
    let bytes = bytes.and_then(|bytes| bytes.checked_add(u64::try_from(fraction).ok()?));
    let range = "out of range: expected between 1 byte and 2^64 - 1 bytes";
    Ok((bytes.filter(|bytes| *bytes > 0).ok_or(range)?, *unit))
}

/// Like [`size_in`]. A small number without a unit is refused: it was not meant as bytes.
pub(crate) fn size_with_unit(text: &str) -> Result<(u64, Unit), String> {
    let (bytes, unit) = size_in(text)?;
    let has_unit = text.contains(|c: char| c.is_ascii_alphabetic());
    if !has_unit && bytes < 1 << 16 {
        return Err(format!(
            "{text} is a number of bytes: add a unit, as in {bytes}GiB or {bytes}MiB"
        ));
    }
    Ok((bytes, unit))
}

/// The most bytes of a shard.
pub(crate) fn shard_size(text: &str) -> Result<u64, String> {
    size_with_unit(text).map(|(bytes, _)| bytes)
}

/// Parses a number of tokens: `32k` are 32,768, as in the names of models.
pub(crate) fn tokens(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (number, factor) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        _ => (lower.as_str(), 1),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let number = number.filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of tokens, as in 8192 or 32k".to_owned())
}

/// Parses the most tokens to print. -1 and -2 are no limit, as for llama.cpp and Ollama.
pub(crate) fn limit(text: &str) -> Result<u64, String> {
    match text {
        "-1" | "-2" => Ok(u64::MAX),
        number => number.parse().map_err(|_| "a whole number is needed, or -1".to_owned()),
    }
}

/// Adds the library's advice to the message about a wrong value.
pub(crate) fn with_advice<T>(value: weighbridge::Result<T>) -> Result<T, String> {
    value.map_err(|error| match crate::failure::advice(&error) {
        Some(advice) => format!("{error} ({advice})"),
        None => error.to_string(),
    })
}

/// Bytes that a file with one SHA-256 may have.
const LONGEST: u64 = 4096;

/// Parses a SHA-256, also as `sha256sum` prints it, or the name of a file that holds one.
pub(super) fn sha256_or_file(text: &str) -> Result<String, String> {
    let is_file = std::fs::metadata(text).is_ok_and(|it| it.is_file() && it.len() <= LONGEST);
    let held = if is_file { std::fs::read_to_string(text).ok() } else { None };
    let held = held.as_deref().unwrap_or(text).trim();
    match held.lines().count() {
        0 | 1 => sha256(held.split_whitespace().next().unwrap_or_default()),
        number => {
            Err(format!("{number} digests: `sha256sum -c {text}` compares the files of a list"))
        }
    }
}

/// Parses a SHA-256.
pub(super) fn sha256(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    match digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(digits.to_ascii_lowercase()),
        false => Err("64 hexadecimal digits are needed".to_owned()),
    }
}
