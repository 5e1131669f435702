//! Lists of hashes: what `weighbridge verify --save` writes and `verify --against` reads.
//!
//! ```text
//! weighbridge-hashes 1 weight others values dtype shape name
//! 08af..503a - 08af..503a F32 256 output_norm.weight
//! ```
//!
//! There is one line for each tensor, in the order of the files. It has the SHA-256 of the bytes of
//! the weight part, that of the bytes of the other parts one after another, and, if the list has
//! the column, that of the values as little-endian `f32`. A `-` stands for parts that do not exist
//! or cannot be read. Names are ASCII; every other byte is escaped as `\n`, `\\` or `\xHH`, so that
//! a name stays on one line.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{HashReport, TensorHash};
use crate::bytes::Text;
use crate::error::{Error, Result};

const HEADER: &str = "weighbridge-hashes 1 weight others dtype shape name";
const HEADER_WITH_VALUES: &str = "weighbridge-hashes 1 weight others values dtype shape name";

/// The most bytes of a line. Names in published models have about a hundred.
const LINE: u64 = 16 << 20;

/// A list of the hashes of a model's tensors, against which a model can be verified later or
/// elsewhere.
///
/// `Display` writes the list as text, one line for each tensor; [`open`](Self::open) reads the
/// text.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HashList {
    /// Whether the list has hashes of values.
    pub values: bool,
    /// The tensors, in the order of the files.
    pub lines: Vec<HashLine>,
}

/// The hashes of one tensor in a [`HashList`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HashLine {
    /// The hash of the weight part's bytes; `None` if they could not be read.
    pub weight: Option<String>,
    /// The hash of the other parts' bytes; `None` if there are no other parts.
    pub others: Option<String>,
    /// The hash of the values; `None` if they could not be read or the list has no hashes of
    /// values.
    pub values: Option<String>,
    /// The name of the dtype, or `ggml:43` for an unknown type code.
    pub dtype: String,
    /// The dimensions separated by `x`, or `scalar`.
    pub shape: String,
    /// The stored name, which need not be UTF-8.
    pub name: Vec<u8>,
}

impl HashLine {
    pub(in crate::ops) fn new(tensor: &TensorHash) -> Self {
        let dims: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        Self {
            weight: tensor.raw_sha256.clone(),
            others: tensor.parts_sha256.clone(),
            values: tensor.f32_sha256.clone().flatten(),
            dtype: tensor.dtype.clone(),
            shape: if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") },
            name: tensor.raw_name.clone(),
        }
    }

    /// Parses a line. The error says what was found and what is allowed.
    fn parse(line: &str, with_values: bool) -> Result<Self, String> {
        let columns = if with_values { 6 } else { 5 };
        let mut fields = line.splitn(columns, ' ');
        let mut field = |what: &str| {
            fields.next().ok_or_else(|| format!("the line ends before its {what}: {columns} fields with a space between them are allowed"))
        };
        let digest = |what: &str, field: &str| match field {
            "-" => Ok(None),
            _ if field.len() == 64
                && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) =>
            {
                Ok(Some(field.to_owned()))
            }
            _ => Err(format!(
                "the hash of the {what} is \"{}\", but 64 lower-case hexadecimal digits or - are allowed",
                shortened(field)
            )),
        };
        let weight = digest("weight", field("hash of the weight")?)?;
        let others = digest("other parts", field("hash of the other parts")?)?;
        let values = match with_values {
            true => digest("values", field("hash of the values")?)?,
            false => None,
        };
        let dtype = field("dtype")?.to_owned();
        let shape = field("shape")?.to_owned();
        if shape != "scalar" && shape.split('x').any(|dim| dim.parse::<u64>().is_err()) {
            return Err(format!(
                "the shape is \"{}\", but numbers with x between them, as in 512x256, or \"scalar\" are allowed",
                shortened(&shape)
            ));
        }
        let name = field("name")?;
        let name = unescaped(name).ok_or_else(|| {
            format!(
                "the name is \"{}\", but after \\ only n, r, t, ', \", \\ and x with two digits are allowed",
                shortened(name)
            )
        })?;
        Ok(Self { weight, others, values, dtype, shape, name })
    }

    fn write(&self, with_values: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = with_values.then_some(&self.values);
        for digest in [&self.weight, &self.others].into_iter().chain(values) {
            write!(f, "{} ", digest.as_deref().unwrap_or("-"))?;
        }
        writeln!(f, "{} {} {}", self.dtype, self.shape, self.name.escape_ascii())
    }
}

impl fmt::Display for HashList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", if self.values { HEADER_WITH_VALUES } else { HEADER })?;
        self.lines.iter().try_for_each(|line| line.write(self.values, f))
    }
}

/// Reverses `escape_ascii`; `None` for an invalid escape.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                same @ (b'\\' | b'\'' | b'"') => same,
                b'x' => {
                    let mut digit = || char::from(bytes.next()?).to_digit(16);
                    u8::try_from(digit()? << 4 | digit()?).ok()?
                }
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(out)
}

/// The start of a field, for messages.
fn shortened(field: &str) -> String {
    match field.char_indices().nth(80).and_then(|(end, _)| field.get(..end)) {
        Some(start) => format!("{start}..."),
        None => field.to_owned(),
    }
}

impl HashList {
    /// The start of every list, in every version of the format.
    pub const MAGIC: &str = "weighbridge-hashes ";

    /// Makes a list from a report, with the hashes of values if the report has them. The report must include
    /// the hashes of [all parts](super::HashOptions::parts).
    pub fn new(report: &HashReport) -> Self {
        let values = report.tensors.iter().any(|tensor| tensor.f32_sha256.is_some());
        Self { values, lines: report.tensors.iter().map(HashLine::new).collect() }
    }

    /// Reads a list from a file.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if the file cannot be read; `Malformed` if it is not a valid list.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |error: std::io::Error| Error::io("cannot read the list", error).in_file(path);
        let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
        let mut number = 0;
        let malformed = |number: usize, fault: String| {
            Error::malformed(format!("line {number}: {fault}")).in_file(path)
        };
        // The next line without its line feed, or `None` after the last.
        let mut next = || -> Result<Option<(usize, String)>> {
            let mut line = Vec::new();
            number += 1;
            if file.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(io)? == 0 {
                return Ok(None);
            }
            if line.pop_if(|last| *last == b'\n').is_none() {
                let fault = format!(
                    "{} bytes without a line feed: the file is truncated or is not a list of hashes",
                    line.len()
                );
                return Err(malformed(number, fault));
            }
            if let Some(odd) = line.iter().find(|byte| !matches!(byte, b' '..=b'~')) {
                let fault = format!("the byte 0x{odd:02x} is not allowed; only printable ASCII is");
                return Err(malformed(number, fault));
            }
            Ok(Some((number, line.into_iter().map(char::from).collect())))
        };
        let header = next()?.map_or(String::new(), |(_, line)| line);
        let values = match header.as_str() {
            HEADER => false,
            HEADER_WITH_VALUES => true,
            other => {
                let fault = format!(
                    "the header is \"{}\", but \"{HEADER}\" is allowed, or that with \"values\" before \"dtype\"",
                    shortened(other)
                );
                return Err(malformed(1, fault));
            }
        };
        let mut lines: Vec<HashLine> = Vec::new();
        let mut places = HashMap::new();
        while let Some((number, line)) = next()? {
            let line = HashLine::parse(&line, values).map_err(|fault| malformed(number, fault))?;
            if let Some(first) = places.insert(line.name.clone(), number) {
                let fault = format!(
                    "the tensor \"{}\" is already in line {first}, but each tensor is allowed once",
                    Text::new(&line.name).brief()
                );
                return Err(malformed(number, fault));
            }
            lines.push(line);
        }
        Ok(Self { values, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        for name in [&b""[..], b"blk.0.attn_q.weight", b" a  b ", b"\\n\n", &all] {
            for (with_values, values) in
                [(false, None), (true, None), (true, Some("0f".repeat(32)))]
            {
                let line = HashLine {
                    weight: Some("a1".repeat(32)),
                    others: None,
                    values,
                    dtype: "ggml:43".to_owned(),
                    shape: "2x3".to_owned(),
                    name: name.to_vec(),
                };
                let list = HashList { values: with_values, lines: vec![line.clone()] };
                let text = list.to_string();
                let text = text.lines().nth(1).unwrap();
                assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
                assert_eq!(HashLine::parse(text, with_values), Ok(line));
            }
        }
    }
}
