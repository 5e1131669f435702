//! Writes GGUF: version 3, little-endian, and only what llama.cpp accepts.

use std::collections::HashSet;

use super::super::writer::{
    DocumentKinds, Layout, NewArray, NewFile, NewModel, NewPart, NewTensor, Placement, Shards,
    Writer,
};
use super::header::ALIGNMENT_KEY;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Metadata, Value, put_text};
use crate::store::Part;

/// The writer of GGUF files.
pub(crate) const WRITER: Writer = Writer {
    name: "GGUF",
    summary: "A GGUF file, as llama.cpp's converter makes it",
    dialect: Dialect::Gguf,
    placement: Placement::Files,
    metadata: &[],
    shard_bytes: None,
    holds: |dtype, parts| {
        let known = |part: &Part| matches!(part, Part::Weight | Part::GlobalScale);
        has_code(dtype) && parts.iter().all(known)
    },
    repacks_to: has_code,
    global: Part::GlobalScale,
    takes_global: |_| true,
    rounds_divisors: false,
    fallback: Some((DType::Q8_0, 32)),
    widens_plain: false,
    keeps_schemes: false,
    documents: DocumentKinds::None,
    quantization_in_config: false,
    expert: None,
    layout: files,
};

fn has_code(dtype: DType) -> bool {
    dtype.descriptor().ggml.is_some()
}

/// The keys that give a shard's position in its set, in the order of llama-gguf-split.
pub(crate) const SPLIT_KEYS: [&str; 3] = ["split.no", "split.tensors.count", "split.count"];

/// The keys of a model's files, without those of [`SPLIT_KEYS`]: a file that has all tensors of a split
/// model would be refused with them.
pub(crate) fn model_keys(metadata: &Metadata) -> KeyValues {
    let mut keys = KeyValues::of(metadata);
    for key in SPLIT_KEYS {
        keys.remove(key);
    }
    keys
}

/// Lays out one file, or shards beside each other. The first shard has all keys. Every shard has
/// the keys of its position, in the order of the metadata.
fn files(model: NewModel<'_>) -> Result<Vec<NewFile>> {
    if let Some(document) = model.documents.first() {
        let fault =
            format!("a GGUF file cannot contain documents, but {} was given", document.name);
        return Err(Error::unsupported(fault));
    }
    match &model.shards {
        None => Ok(vec![file("", &model, 0..model.tensors.len(), model.metadata.clone())?]),
        Some(shards) => split(&model, shards),
    }
}

/// Lays out one file with some of the tensors.
pub(crate) fn file(
    name: &str,
    model: &NewModel<'_>,
    tensors: std::ops::Range<usize>,
    mut keys: KeyValues,
) -> Result<NewFile> {
    if let Some(alignment) = model.alignment {
        let fits = u32::try_from(alignment).ok().filter(|alignment| alignment.is_power_of_two());
        let alignment = fits.ok_or_else(|| {
            Error::mismatch(format!("an alignment of {alignment}, but a power of two is required"))
        })?;
        keys.set(ALIGNMENT_KEY, Value::U32(alignment));
    }
    NewFile::tensors(name, "model", model, tensors, part_name, |arrays| layout(&keys, arrays))
}

fn split(model: &NewModel<'_>, shards: &Shards) -> Result<Vec<NewFile>> {
    let ranges = shards.ranges(model.tensors)?;
    let (count, total) = (ranges.len(), model.tensors.len());
    let of = u16::try_from(count).map_err(|_| {
        Error::unsupported(format!("{count} shards, but at most 65535 are allowed"))
    })?;
    let named = |key: &&str| model.metadata.get(key).is_some();
    let mut order: Vec<String> = match SPLIT_KEYS.iter().any(named) {
        true => model.metadata.iter().map(|(key, _)| key.spelling().into_owned()).collect(),
        false => SPLIT_KEYS.map(str::to_owned).to_vec(),
    };
    order.retain(|key| SPLIT_KEYS.contains(&key.as_str()));
    let alignment = model.metadata.get(ALIGNMENT_KEY);
    let mut files = Vec::new();
    for (range, number) in ranges.into_iter().zip(0u16..) {
        let mut keys = if number == 0 { model.metadata.clone() } else { KeyValues::new() };
        // Readers take the alignment of each shard from that shard.
        if let Some(alignment) = alignment {
            keys.set(ALIGNMENT_KEY, alignment);
        }
        for key in &order {
            let value = match key.as_str() {
                "split.no" => Value::U16(number),
                "split.count" => Value::U16(of),
                _ => Value::I32(i32::try_from(total).unwrap_or(i32::MAX)),
            };
            keys.set(key, value);
        }
        let name = format!("{}-{:05}-of-{count:05}.gguf", model.stem, u32::from(number) + 1);
        files.push(file(&name, model, range, keys)?);
    }
    Ok(files)
}

/// The name of an array: a global scale is a separate tensor.
fn part_name(tensor: &NewTensor, part: &NewPart) -> String {
    match part.part {
        Part::GlobalScale => {
            let base = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
            format!("{base}.scale")
        }
        _ => tensor.name.clone(),
    }
}

/// The longest tensor name that llama.cpp reads (`GGML_MAX_NAME` with its NUL).
const LONGEST_NAME: usize = 63;
/// The most dimensions that llama.cpp reads (`GGML_MAX_DIMS`).
const MOST_DIMENSIONS: usize = 4;
/// The alignment of the tensor data, in bytes, if [`ALIGNMENT_KEY`] is absent.
const ALIGNMENT: u64 = 32;

/// Lays out a file with these keys and arrays, in the given order.
///
/// # Errors
///
/// `Unsupported` or `Mismatch` for what llama.cpp refuses.
fn layout(keys: &KeyValues, arrays: &[NewArray]) -> Result<Layout> {
    keys.check()?;
    let alignment = alignment(keys)?;
    let mut header = b"GGUF".to_vec();
    header.extend_from_slice(&3u32.to_le_bytes());
    header.extend_from_slice(&(arrays.len() as u64).to_le_bytes());
    header.extend_from_slice(&(keys.len() as u64).to_le_bytes());
    keys.encode(&mut header);
    let too_large = || Error::unsupported("the file would exceed 2^63 bytes");
    let (mut end, mut starts, mut names) = (0u64, Vec::new(), HashSet::new());
    for array in arrays {
        if !names.insert(&array.name) {
            return Err(Error::mismatch("duplicate tensor name").in_tensor(&array.name));
        }
        put_entry(array, end, &mut header).map_err(|error| error.in_tensor(&array.name))?;
        starts.push(end);
        let padded = end.checked_add(array.bytes);
        let padded = padded.and_then(|end| end.checked_next_multiple_of(alignment));
        end = padded.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(too_large)?;
    }
    let data = match arrays {
        [] => header.len() as u64,
        _ => (header.len() as u64).checked_next_multiple_of(alignment).ok_or_else(too_large)?,
    };
    let len = data.checked_add(end).ok_or_else(too_large)?;
    let offsets = starts.into_iter().map(|start| data + start).collect();
    Ok(Layout { header, offsets, len })
}

/// The alignment of the tensor data, in bytes.
fn alignment(keys: &KeyValues) -> Result<u64> {
    let Some(value) = keys.get(ALIGNMENT_KEY) else { return Ok(ALIGNMENT) };
    match value.to_u64().filter(|_| value.value_type() == crate::metadata::ValueType::U32) {
        Some(alignment) if alignment.is_power_of_two() => Ok(alignment),
        _ => Err(Error::mismatch(format!("{value:?}, but a power of two of type u32 is required"))
            .in_key(ALIGNMENT_KEY)),
    }
}

fn put_entry(array: &NewArray, offset: u64, header: &mut Vec<u8>) -> Result<()> {
    if array.name.len() > LONGEST_NAME {
        let fault = format!(
            "the name has {} bytes, but llama.cpp reads at most {LONGEST_NAME}",
            array.name.len()
        );
        return Err(Error::unsupported(fault));
    }
    if array.shape.len() > MOST_DIMENSIONS {
        let fault = format!(
            "{} dimensions, but llama.cpp reads at most {MOST_DIMENSIONS}",
            array.shape.len()
        );
        return Err(Error::unsupported(fault));
    }
    let code = array.dtype.descriptor().ggml;
    let code = code.ok_or_else(|| {
        Error::unsupported(format!("GGUF has no type code for {}", array.dtype))
            .advise("convert it to a ggml dtype; `weighbridge list dtypes` lists them")
    })?;
    put_text(array.name.as_bytes(), header);
    let dimensions = u32::try_from(array.shape.len()).unwrap_or(u32::MAX);
    header.extend_from_slice(&dimensions.to_le_bytes());
    for dimension in array.shape.iter().rev() {
        header.extend_from_slice(&dimension.to_le_bytes());
    }
    header.extend_from_slice(&code.to_le_bytes());
    header.extend_from_slice(&offset.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(name: &str, dtype: DType, shape: &[u64], bytes: u64) -> NewArray {
        NewArray { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes }
    }

    fn refused(keys: &KeyValues, arrays: &[NewArray]) -> String {
        layout(keys, arrays).expect_err("refused").to_string()
    }

    #[test]
    fn what_llama_cpp_refuses_is_not_written() {
        let keys = KeyValues::new();
        let one = array("x", DType::F32, &[2], 8);
        let longest = array(&"n".repeat(63), DType::F32, &[1, 1, 1, 2], 8);
        assert_eq!(layout(&keys, &[one.clone(), longest]).unwrap().offsets.len(), 2);
        for (fault, array) in [
            ("the name has 64 bytes", array(&"n".repeat(64), DType::F32, &[2], 8)),
            // The limit counts bytes, not characters.
            ("the name has 64 bytes", array(&"é".repeat(32), DType::F32, &[2], 8)),
            ("5 dimensions", array("y", DType::F32, &[1, 1, 1, 1, 2], 8)),
            ("duplicate tensor name", one.clone()),
            ("GGUF has no type code for F8_E4M3", array("y", DType::F8_E4M3, &[2], 2)),
            ("the file would exceed 2^63 bytes", array("y", DType::F32, &[1 << 61], 1 << 63)),
            ("the file would exceed 2^63 bytes", array("y", DType::F32, &[1 << 61], u64::MAX)),
        ] {
            let said = refused(&keys, &[one.clone(), array]);
            assert!(said.contains(fault), "{said}");
        }
        for value in [Value::U32(0), Value::U32(24), Value::U64(32), Value::I32(32)] {
            let mut keys = KeyValues::new();
            keys.set("general.alignment", value);
            let said = refused(&keys, &[]);
            assert!(said.contains("a power of two of type u32 is required"), "{said}");
        }
    }

    #[test]
    fn arrays_lie_in_order_and_aligned() {
        let mut keys = KeyValues::new();
        let arrays = [
            array("b", DType::F32, &[3], 12),
            array("a", DType::I8, &[], 1),
            array("c", DType::F16, &[0], 0),
        ];
        for alignment in [1, 32, 4096] {
            keys.set("general.alignment", Value::U32(alignment));
            let Layout { header, offsets, len } = layout(&keys, &arrays).unwrap();
            let alignment = u64::from(alignment);
            let data = (header.len() as u64).next_multiple_of(alignment);
            let second = data + 12u64.next_multiple_of(alignment);
            let third = second + alignment;
            assert_eq!((offsets, len), (vec![data, second, third], third));
        }
        // Without tensors there is no padding.
        let Layout { header, offsets, len } = layout(&KeyValues::new(), &[]).unwrap();
        assert_eq!((header.len(), offsets.len(), len), (24, 0, 24));
    }
}
