//! `dump`: writes one tensor's values or bytes.

use std::io::{BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};
use weighbridge::bytes::Text;
use weighbridge::model::DecodeOptions;
use weighbridge::quant::{Element, Narrowing};
use weighbridge::{Part, Tensor};

use super::Done;
use crate::args::{Dump, DumpForm};
use crate::newfile::NewFile;
use crate::print::{self, shape, shown};
use crate::{Status, Stop, failure, note};

pub(crate) fn run(args: &Dump) -> Done {
    let store = args.open.options().open(&args.path)?;
    // Stored names come first: they need no known architecture.
    let error = match store.stored_tensor(&args.name) {
        Ok(tensor) => return dump(args, &tensor, true),
        Err(error) => error,
    };
    match store.resolution() {
        Ok(_) => dump(args, &store.tensor(&args.name)?, false),
        Err(_) => Err(error.into()),
    }
}

/// Writes a tensor; `stored` if it was requested by its stored name.
fn dump(args: &Dump, tensor: &Tensor, stored: bool) -> Done {
    let columns = weighbridge::shape::columns(tensor.shape());
    let count = tensor.elements().checked_div(columns).unwrap_or(0);
    let rows = args.rows.clone().unwrap_or(0..count);
    if let Some(rows) = &args.rows
        && rows.end > count
    {
        // Returns the library's error.
        tensor.dequantize_rows(rows.clone(), &mut [0.0; 0], &DecodeOptions::new())?;
    }
    let path = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let Some(path) = path else {
        if args.form() != DumpForm::Text && args.output.is_none() && std::io::stdout().is_terminal()
        {
            let fault = "bytes would garble the terminal: give -o FILE, or redirect the output";
            return Err(Stop::Usage(fault.to_owned()));
        }
        let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
        return write(args, tensor, stored, rows, &mut out);
    };
    let is_array = path.extension().is_some_and(|ending| ending == "npy");
    let fault = match args.form() {
        DumpForm::Text if named_otherwise(path) => {
            "another format: .npy, .bin and .txt are written, or --as says which"
        }
        DumpForm::F16 | DumpForm::Bf16 | DumpForm::F32 | DumpForm::Raw if is_array => {
            "an array of NumPy, but --as gives bytes without a header: `--as npy` writes an array of f32"
        }
        _ => "",
    };
    if !fault.is_empty() {
        return Err(Stop::Usage(format!("{} is the name of {fault}", shown(path))));
    }
    let mut file = NewFile::create(path, |_| Ok(args.overwrite))?;
    let done = write(args, tensor, stored, rows, &mut file).map_err(|stop| match stop {
        Stop::Output(error) => failure::io(path, "cannot write the file", error),
        stop => stop,
    })?;
    file.finish()?;
    note(&format!("wrote {}", shown(path)));
    Ok(done)
}

/// Whether a file has the ending of a format that is not written.
fn named_otherwise(path: &Path) -> bool {
    const OTHERS: [&str; 7] = ["csv", "gguf", "json", "npz", "pt", "pth", "safetensors"];
    path.extension().is_some_and(|ending| OTHERS.iter().any(|other| ending == *other))
}

fn write(
    args: &Dump,
    tensor: &Tensor,
    stored: bool,
    rows: Range<u64>,
    out: &mut impl Write,
) -> Done {
    let columns = weighbridge::shape::columns(tensor.shape());
    let lost = match args.form() {
        DumpForm::Raw => {
            write_raw(args, tensor, stored, &rows, columns, out)?;
            Narrowing::default()
        }
        DumpForm::Text => {
            write_text(args, tensor, rows, columns, out)?;
            Narrowing::default()
        }
        DumpForm::F32 => write_values(tensor, rows, out, f32::to_le_bytes)?,
        DumpForm::F16 => write_values(tensor, rows, out, f16::to_le_bytes)?,
        DumpForm::Bf16 => write_values(tensor, rows, out, bf16::to_le_bytes)?,
        DumpForm::Npy => {
            tensor.check_decodable()?;
            let dims = match &args.rows {
                Some(rows) => vec![rows.end.saturating_sub(rows.start), columns],
                None => tensor.shape().to_vec(),
            };
            out.write_all(&npy_header(&dims))?;
            write_values(tensor, rows, out, f32::to_le_bytes)?
        }
    };
    out.flush()?;
    if !lost.is_lossless() {
        let rounded = print::rounded(lost.overflows, lost.flushes);
        note(&format!("{}: {rounded}", Text::new(tensor.name().as_bytes())));
    }
    Ok(Status::Fine)
}

/// Writes values as bytes; returns how many of them rounding made infinite or 0.
fn write_values<T: Element, const WIDE: usize>(
    tensor: &Tensor,
    rows: Range<u64>,
    out: &mut impl Write,
    bytes: impl Fn(T) -> [u8; WIDE],
) -> Result<Narrowing, Stop> {
    tensor.for_each_values_in(rows, |values: &[T]| {
        values.iter().try_for_each(|value| out.write_all(&bytes(*value))).map_err(Stop::from)
    })
}

fn write_raw(
    args: &Dump,
    tensor: &Tensor,
    stored: bool,
    rows: &Range<u64>,
    columns: u64,
    out: &mut impl Write,
) -> Result<(), Stop> {
    let write = |piece: &[u8]| out.write_all(piece).map_err(Stop::from);
    if args.rows.is_none() {
        return match stored {
            true => tensor.for_each_raw_piece(Part::Weight, write),
            false => tensor.for_each_piece(Part::Weight, write),
        };
    }
    // Some schemes pack several rows together; those with one group size do not.
    let alone = tensor.segments().all(|segment| segment.part == Part::Weight);
    let apart = alone || tensor.group_size().is_some();
    let row = tensor.dtype()?.row_bytes(columns).filter(|_| apart);
    let place = |number: u64| row?.checked_mul(number);
    let (Some(start), Some(end)) = (place(rows.start), place(rows.end)) else {
        let fault = format!("{} packs several rows together: omit --rows", tensor.dtype_label());
        return Err(Stop::Usage(fault));
    };
    match stored {
        true => tensor.for_each_raw_piece_in(Part::Weight, start..end, write),
        false => tensor.for_each_piece_in(Part::Weight, start..end, write),
    }
}

/// The header of a NumPy array file, version 1.0, padded so that the data start at a multiple of 64.
pub(crate) fn npy_header(dims: &[u64]) -> Vec<u8> {
    let list: Vec<String> = dims.iter().map(u64::to_string).collect();
    let comma = if list.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{comma}), }}",
        list.join(", ")
    );
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(padded - text.len() - 1));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // The text is far shorter than 2^16 bytes: tensors have few dimensions.
    header.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

/// Rows and columns shown at each end of a larger tensor; fewer columns on a narrow terminal.
const EDGE: u64 = 4;
/// The width of a number: any f32 fits.
const CELL: usize = 14;

fn write_text(
    args: &Dump,
    tensor: &Tensor,
    rows: Range<u64>,
    columns: u64,
    out: &mut impl Write,
) -> Result<(), Stop> {
    tensor.check_decodable()?;
    let name = Text::new(tensor.name().as_bytes());
    writeln!(out, "{name}: {} {}", tensor.dtype_label(), shape(tensor.shape()))?;
    let all = args.all;
    let shown = |range: Range<u64>, edge: u64| -> Vec<Range<u64>> {
        if all || range.end.saturating_sub(range.start) <= 2 * edge {
            return vec![range];
        }
        vec![range.start..range.start + edge, range.end - edge..range.end]
    };
    let dots = "  ...";
    let room = print::stdout_columns().filter(|_| args.output.is_none());
    let fit = room.map(|room| room.saturating_sub(dots.len()) / CELL / 2);
    let across = shown(0..columns, fit.map_or(EDGE, |fit| (fit as u64).clamp(1, EDGE)));
    let left_out = across.len() > 1 || shown(rows.clone(), EDGE).len() > 1;
    let is_file = match args.output.as_deref() {
        Some(path) => path != Path::new("-"),
        None => is_redirected() || std::io::stdout().is_terminal(),
    };
    if left_out && args.form.is_none() && is_file {
        note(&format!(
            "not every value is written: --all writes all as text, --as npy as an array of NumPy; `weighbridge inspect {} \
             {name}` shows their distribution and outliers",
            print::shown(&args.path)
        ));
    }
    let cell = |value: f32| format!("{:>CELL$}", number(value));
    for (place, part) in shown(rows, EDGE).into_iter().enumerate() {
        if place > 0 {
            writeln!(out, "{:>CELL$}", "...")?;
        }
        tensor.for_each_values_in(part, |values: &[f32]| {
            for row in values.chunks(usize::try_from(columns).unwrap_or(usize::MAX).max(1)) {
                let mut line = String::new();
                for (place, part) in across.iter().enumerate() {
                    if place > 0 {
                        line.push_str(dots);
                    }
                    let part = usize::try_from(part.start).unwrap_or(0)
                        ..usize::try_from(part.end).unwrap_or(0);
                    line.extend(row.get(part).unwrap_or_default().iter().map(|&value| cell(value)));
                }
                writeln!(out, "{line}")?;
            }
            Ok::<_, Stop>(())
        })?;
    }
    Ok(())
}

/// Whether standard output is a file, as with `> FILE`.
#[cfg(unix)]
fn is_redirected() -> bool {
    use std::os::fd::AsFd;
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from);
    output.and_then(|file| file.metadata()).is_ok_and(|found| found.is_file())
}

#[cfg(not(unix))]
fn is_redirected() -> bool {
    false
}

/// The shortest digits that parse to the same value, with an exponent if that is shorter.
fn number(value: f32) -> String {
    let plain = value.to_string();
    let scientific = format!("{value:e}");
    if plain.len() <= scientific.len().max(10) { plain } else { scientific }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_exact_and_short() {
        for value in [0.0, -0.0, 1.0, 0.1, 1e-38, f32::MIN_POSITIVE / 2.0, f32::MAX, -1.2345678e-9]
        {
            let text = number(value);
            assert_eq!(text.parse::<f32>().unwrap().to_bits(), value.to_bits(), "{text}");
            assert!(text.len() <= 14, "{text}");
        }
    }

    #[test]
    fn npy_headers_are_aligned() {
        for dims in [&[][..], &[3], &[2, 3], &[1; 20]] {
            let header = npy_header(dims);
            assert_eq!(header.len() % 64, 0);
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
        }
    }
}
