//! Lists of hashes: what `hash --save` writes and `verify --against` reads.
//!
//! ```text
//! weighbridge-hashes 1 weight others values dtype shape name
//! 08af..503a - 08af..503a F32 256 output_norm.weight
//! ```
//!
//! One line a tensor, in the order of the files: the SHA-256 of the bytes of its weight part, of
//! those of its other parts one after another, and of its values as little-endian `f32` where the
//! list has that column; `-` where there are none or they cannot be read. The name is written in
//! ASCII, everything else as `\n`, `\\`, `\xHH`, so that no name makes two lines.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use weighbridge::{Error, ErrorKind, Part, Tensor};

use crate::Stop;
use crate::json::hex;
use crate::print::shown;

/// What every list begins with, whatever its version.
const MAGIC: &str = "weighbridge-hashes ";
const HEADER: &str = "weighbridge-hashes 1 weight others dtype shape name";
const HEADER_WITH_VALUES: &str = "weighbridge-hashes 1 weight others values dtype shape name";

/// Bytes of a line, at most: names in published models have some hundred.
const LINE: u64 = 16 << 20;

type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

/// The SHA-256 of all pieces that `feed` passes on.
fn digest(feed: impl FnOnce(&mut Sink<'_>) -> Result<(), Error>) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    feed(&mut |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok(hex(&hasher.finalize()))
}

/// The SHA-256 of the bytes of the weight part.
pub(crate) fn of_weight(tensor: &Tensor) -> Result<String, Error> {
    digest(|hash| tensor.for_each_raw_piece(Part::Weight, |piece| hash(piece)))
}

/// The SHA-256 of the bytes of all other parts, if there are any.
fn of_others(tensor: &Tensor) -> Result<Option<String>, Error> {
    let mut others = tensor.segments().filter(|segment| segment.part != Part::Weight).peekable();
    if others.peek().is_none() {
        return Ok(None);
    }
    let all = |hash: &mut Sink<'_>| {
        others.try_for_each(|segment| tensor.for_each_raw_piece(segment.part, |piece| hash(piece)))
    };
    digest(all).map(Some)
}

/// The SHA-256 of the values as little-endian `f32`.
pub(crate) fn of_values(tensor: &Tensor) -> Result<String, Error> {
    digest(|hash| {
        let mut bytes = Vec::new();
        let lost = tensor.for_each_values(|values: &[f32]| {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            hash(&bytes)
        });
        lost.map(drop)
    })
}

/// What a list says of one tensor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    pub(crate) weight: Option<String>,
    pub(crate) others: Option<String>,
    /// Absent in a list without values.
    pub(crate) values: Option<Option<String>>,
    pub(crate) dtype: String,
    pub(crate) shape: String,
    pub(crate) name: Vec<u8>,
}

impl Line {
    /// Hashes a tensor; `refused` gets the first error about bytes or values that this program
    /// cannot read.
    pub(crate) fn new(
        tensor: &Tensor,
        values: bool,
        refused: &mut Option<Error>,
    ) -> Result<Self, Error> {
        let mut known = |digest: Result<String, Error>| match digest {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                refused.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let dims: Vec<String> = tensor.shape().iter().map(u64::to_string).collect();
        Ok(Self {
            weight: known(of_weight(tensor))?,
            others: of_others(tensor)?,
            values: values.then(|| known(of_values(tensor))).transpose()?,
            dtype: tensor.dtype_label(),
            shape: if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") },
            name: tensor.raw_name().as_bytes().to_vec(),
        })
    }

    /// Reads a line; the error says what was found and what is allowed.
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
            true => Some(digest("values", field("hash of the values")?)?),
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
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digest in [&self.weight, &self.others].into_iter().chain(&self.values) {
            write!(f, "{} ", digest.as_deref().unwrap_or("-"))?;
        }
        write!(f, "{} {} {}", self.dtype, self.shape, self.name.escape_ascii())
    }
}

/// The bytes that `escape_ascii` made a text of.
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
    match field.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &field[..end]),
        None => field.to_owned(),
    }
}

/// A saved list.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) with_values: bool,
    pub(crate) lines: Vec<Line>,
}

impl Saved {
    pub(crate) fn read(path: &Path) -> Result<Self, Stop> {
        let io = |error: std::io::Error| {
            Stop::Path(format!("{}: cannot read the list: {error}", shown(path)))
        };
        let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
        let mut number = 0;
        let malformed = |number: usize, fault: String| {
            Stop::Malformed(format!("{}: line {number}: {fault}", shown(path)))
        };
        // The next line without its end, or `None` behind the last.
        let mut next = || -> Result<Option<(usize, String)>, Stop> {
            let mut line = Vec::new();
            number += 1;
            if file.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(io)? == 0 {
                return Ok(None);
            }
            if line.pop_if(|last| *last == b'\n').is_none() {
                let fault = format!(
                    "{} bytes without a line feed: the list was cut short, or is none",
                    line.len()
                );
                return Err(malformed(number, fault));
            }
            if let Some(odd) = line.iter().find(|byte| !matches!(byte, b' '..=b'~')) {
                let fault =
                    format!("it has the byte 0x{odd:02x}, but only printable ASCII is allowed");
                return Err(malformed(number, fault));
            }
            Ok(Some((number, line.into_iter().map(char::from).collect())))
        };
        let header = next()?.map_or(String::new(), |(_, line)| line);
        let with_values = match header.as_str() {
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
        let mut lines: Vec<Line> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some((number, line)) = next()? {
            let line = Line::parse(&line, with_values).map_err(|fault| malformed(number, fault))?;
            if let Some(first) = places.insert(line.name.clone(), number) {
                let fault = format!(
                    "the tensor \"{}\" stands in line {first} already, but each is allowed once",
                    weighbridge::Text::new(&line.name).brief()
                );
                return Err(malformed(number, fault));
            }
            lines.push(line);
        }
        Ok(Self { with_values, lines })
    }
}

/// A list that is being written: its path changes when it is whole, or not at all.
pub(crate) struct Saving {
    path: PathBuf,
    file: std::io::BufWriter<tempfile::NamedTempFile>,
}

impl Saving {
    /// Refuses to replace a file that is no list: it may well be the model.
    pub(crate) fn create(path: &Path, with_values: bool) -> Result<Self, Stop> {
        match std::fs::metadata(path) {
            Ok(old)
                if old.is_file()
                    && begins_as_list(path).map_err(|error| failed(path, &error))? => {}
            Ok(_) => {
                let fault = format!(
                    "{}: it exists and is no list of hashes: give another path",
                    shown(path)
                );
                return Err(Stop::Usage(fault));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path, &error)),
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // As any other new file, and not for the owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".weighbridge-").tempfile_in(folder);
        let file = file.map_err(|error| failed(path, &error))?;
        let mut this = Self { path: path.to_path_buf(), file: std::io::BufWriter::new(file) };
        this.line(if with_values { HEADER_WITH_VALUES } else { HEADER })?;
        Ok(this)
    }

    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Stop> {
        writeln!(self.file, "{line}").map_err(|error| failed(&self.path, &error))
    }

    pub(crate) fn finish(self) -> Result<(), Stop> {
        let Self { path, file } = self;
        let file = file.into_inner().map_err(|error| failed(&path, error.error()))?;
        file.as_file().sync_all().map_err(|error| failed(&path, &error))?;
        file.persist(&path).map_err(|error| failed(&path, &error.error))?;
        Ok(())
    }
}

fn begins_as_list(path: &Path) -> std::io::Result<bool> {
    let mut start = [0; MAGIC.len()];
    match std::fs::File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| start == *MAGIC.as_bytes()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Path(format!("{}: cannot write the list: {error}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        for name in [&b""[..], b"blk.0.attn_q.weight", b" a  b ", b"\\n\n", &all] {
            for values in [None, Some(None), Some(Some("0f".repeat(32)))] {
                let line = Line {
                    weight: Some("a1".repeat(32)),
                    others: None,
                    values,
                    dtype: "ggml:43".to_owned(),
                    shape: "2x3".to_owned(),
                    name: name.to_vec(),
                };
                let text = line.to_string();
                assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
                assert_eq!(Line::parse(&text, line.values.is_some()), Ok(line));
            }
        }
    }
}
