//! Writes safetensors, byte for byte as the `safetensors` crate does, with two exceptions: metadata
//! keys are sorted, while the crate's order is random; and the data are aligned to 64 bytes, while
//! the crate aligns to 8 (which can be requested).

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::super::writer::{
    DocumentKinds, Layout, NewArray, NewDocument, NewFile, NewModel, NewPart, NewTensor, Placement,
    Writer,
};
use crate::dialect::Dialect;
use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::metadata::{KeyValues, Value};
use crate::shape;
use crate::store::Part;

/// The writer of Hugging Face directories.
pub(crate) const WRITER: Writer = Writer {
    name: "safetensors",
    summary: "A directory as transformers reads it",
    dialect: Dialect::HuggingFace,
    placement: Placement::Directory,
    metadata: &[("format", "pt")],
    // transformers' maximum file size.
    shard_bytes: Some(5_000_000_000),
    holds: |dtype, _| is_plain(dtype),
    repacks_to: |dtype| dtype == DType::HF_MXFP4,
    global: Part::GlobalScale,
    takes_global: |_| true,
    rounds_divisors: false,
    fallback: None,
    widens_plain: false,
    keeps_schemes: true,
    documents: DocumentKinds::All,
    quantization_in_config: true,
    expert: None,
    layout: |model| directory(model, &HUGGING_FACE),
};

/// Whether a dtype is plain and has a name in safetensors.
pub(crate) fn is_plain(dtype: DType) -> bool {
    let row = dtype.descriptor();
    row.packing == Packing::Plain && row.safetensors.is_some()
}

/// The differences between containers that are directories of safetensors files.
#[derive(Debug)]
pub(crate) struct DirectoryLayout {
    /// Returns the name of an array of a tensor.
    pub(crate) part_name: fn(&NewTensor, &NewPart) -> String,
    /// Whether a model in a single file has an index too.
    pub(crate) always_indexed: bool,
    /// Returns the `quantization_config` of `config.json`, if any tensor is quantized.
    pub(crate) quantization: fn(&[NewTensor]) -> Option<Json>,
}

const HUGGING_FACE: DirectoryLayout =
    DirectoryLayout { part_name, always_indexed: false, quantization: mxfp4 };

/// Lays out shards, an index and documents; or a single file, if no directory is written.
pub(crate) fn directory(model: NewModel<'_>, habits: &DirectoryLayout) -> Result<Vec<NewFile>> {
    let metadata = texts(&model.metadata);
    let alignment = model.alignment.unwrap_or(ALIGNMENT);
    let layout = |arrays: &[NewArray]| layout(&metadata, arrays, alignment, Order::Crate);
    let file = |name: String, tensors| {
        NewFile::tensors(name, "tensor", &model, tensors, habits.part_name, layout)
    };
    if model.placement == Placement::Files {
        return Ok(vec![file(String::new(), 0..model.tensors.len())?]);
    }
    let ranges = match model.tensors.first().and_then(|tensor| tensor.rank) {
        Some(_) => files_of_ranks(&model)?,
        None => files_of_whole(&model)?,
    };
    let is_whole = model.tensors.iter().all(|tensor| tensor.rank.is_none());
    let count = ranges.len();
    let (mut files, mut index) = (Vec::new(), BTreeMap::new());
    for (name, range) in ranges {
        for tensor in model.tensors.get(range.clone()).unwrap_or_default() {
            let names = tensor.parts.iter().map(|part| (habits.part_name)(tensor, part));
            index.extend(names.map(|array| (array, name.clone())));
        }
        files.push(file(name, range)?);
    }
    if is_whole && (count > 1 || habits.always_indexed) {
        let bytes = model.tensors.iter().map(NewTensor::bytes).fold(0, u64::saturating_add);
        let document = NewDocument::new("model.safetensors.index.json", index_json(bytes, &index));
        files.push(NewFile::document(document, |_| {})?);
    }
    let quantization = model.quantization.clone();
    let quantization = quantization.or_else(|| (habits.quantization)(model.tensors));
    for document in model.documents {
        files.push(NewFile::document(document, |config| {
            describe(config, quantization.as_ref(), model.tensors);
        })?);
    }
    Ok(files)
}

/// A file's name, and the numbers of its tensors.
type NamedRange = (String, Range<usize>);

/// The shards of a whole model.
fn files_of_whole(model: &NewModel<'_>) -> Result<Vec<NamedRange>> {
    let ranges = ranges(model, model.tensors)?;
    let count = ranges.len();
    let weights = model.weights;
    let name = |number: usize| match count {
        1 => format!("{weights}.safetensors"),
        _ => format!("{weights}-{:05}-of-{count:05}.safetensors", number + 1),
    };
    Ok(ranges.into_iter().enumerate().map(|(number, range)| (name(number), range)).collect())
}

/// The files of each rank, as vLLM's `sharded_state` names them. They have no index: an array of the same
/// name is in the files of several ranks.
fn files_of_ranks(model: &NewModel<'_>) -> Result<Vec<NamedRange>> {
    let (mut files, mut start) = (Vec::new(), 0usize);
    for own in model.tensors.chunk_by(|one, next| one.rank == next.rank) {
        let rank = own.first().and_then(|tensor| tensor.rank).unwrap_or(0);
        for (part, range) in ranges(model, own)?.into_iter().enumerate() {
            let name = format!("model-rank-{rank}-part-{part}.safetensors");
            files.push((name, start + range.start..start + range.end));
        }
        start += own.len();
    }
    Ok(files)
}

/// The tensors of each file.
fn ranges(model: &NewModel<'_>, tensors: &[NewTensor]) -> Result<Vec<Range<usize>>> {
    match &model.shards {
        Some(shards) => shards.ranges(tensors),
        None => Ok(std::iter::once(0..tensors.len()).collect()),
    }
}

/// The metadata that a safetensors header can hold: strings.
fn texts(keys: &KeyValues) -> BTreeMap<String, String> {
    let text = |value: Value<'_>| Some(value.to_text()?.to_str()?.to_owned());
    keys.iter().filter_map(|(key, value)| Some((key.to_str()?.to_owned(), text(value)?))).collect()
}

/// The name of an array: the stored name if the tensor keeps its name, and transformers' names for
/// experts in MXFP4.
fn part_name(tensor: &NewTensor, part: &NewPart) -> String {
    match (&part.stored_name, tensor.dtype, part.part) {
        (Some(stored), ..) => stored.clone(),
        (None, DType::HF_MXFP4, Part::Weight) => format!("{}_blocks", tensor.name),
        (None, DType::HF_MXFP4, Part::Scale) => format!("{}_scales", tensor.name),
        (None, DType::HF_MXFP4, other) => format!("{}_{}", tensor.name, other.name()),
        (None, ..) => tensor.name.clone(),
    }
}

/// The index of a directory of shards, as transformers writes it.
fn index_json(bytes: u64, index: &BTreeMap<String, String>) -> Vec<u8> {
    let map = json!({ "metadata": { "total_size": bytes }, "weight_map": index });
    format!("{map:#}\n").into_bytes()
}

/// The `quantization_config` for experts in MXFP4. Only gpt-oss has them; the names are those of
/// its modules that stay plain.
fn mxfp4(tensors: &[NewTensor]) -> Option<Json> {
    tensors.iter().any(|tensor| tensor.dtype == DType::HF_MXFP4).then(|| {
        json!({
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
            "quant_method": "mxfp4",
        })
    })
}

/// Sets the fields of `config.json` that describe quantization, and the plain dtype of most
/// weights.
pub(crate) fn describe(
    config: &mut Map<String, Json>,
    quantization: Option<&Json>,
    tensors: &[NewTensor],
) {
    remove_quantization(config);
    if let Some(quantization) = quantization {
        if quantization.get("quant_method").is_none() {
            // mlx-lm reads this key first.
            config.insert("quantization".to_owned(), quantization.clone());
        }
        config.insert("quantization_config".to_owned(), quantization.clone());
    }
    let weights = |dtype: DType| {
        let of = tensors.iter().filter(|tensor| tensor.dtype == dtype && tensor.shape.len() > 1);
        of.map(|tensor| shape::elements(&tensor.shape).unwrap_or(0)).fold(0u64, u64::saturating_add)
    };
    let most = PLAIN.iter().max_by_key(|(dtype, _)| weights(*dtype));
    if let Some((dtype, _)) = most.filter(|(dtype, _)| weights(*dtype) > 0) {
        state_dtype(config, *dtype);
    }
}

/// Plain dtypes, by their names in `config.json`.
const PLAIN: [(DType, &str); 3] =
    [(DType::F32, "float32"), (DType::F16, "float16"), (DType::BF16, "bfloat16")];

/// States the plain dtype of weights in a config.
pub(crate) fn state_dtype(config: &mut Map<String, Json>, dtype: DType) {
    let Some((_, name)) = PLAIN.iter().find(|(plain, _)| *plain == dtype) else { return };
    // transformers 5 writes `dtype`. Of two keys, none may keep the dtype of the source.
    if config.contains_key("dtype") {
        config.insert("dtype".to_owned(), Json::from(*name));
    }
    if config.contains_key("torch_dtype") || !config.contains_key("dtype") {
        config.insert("torch_dtype".to_owned(), Json::from(*name));
    }
}

/// Removes what a config and those of its parts say about quantization.
fn remove_quantization(config: &mut Map<String, Json>) {
    config.remove("quantization");
    config.remove("quantization_config");
    config.remove("compression_config");
    for (key, part) in config.iter_mut() {
        if let Json::Object(part) = part
            && key.ends_with("_config")
        {
            remove_quantization(part);
        }
    }
}

/// The dtypes in the order of the crate's enum (0.8.0, `tensor.rs`). Arrays with the greatest dtype
/// come first in a file, so that each array is aligned for its elements.
const ORDER: &[&str] = &[
    "BOOL",
    "F4",
    "F6_E2M3",
    "F6_E3M2",
    "U8",
    "I8",
    "F8_E5M2",
    "F8_E4M3",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
    "I16",
    "U16",
    "F16",
    "BF16",
    "I32",
    "U32",
    "F32",
    "C64",
    "F64",
    "I64",
    "U64",
];

/// The longest header that every reader accepts: MLX requires less than 100,000,000 bytes.
const LONGEST_HEADER: u64 = 99_999_999;

/// The default alignment of the tensor data, in bytes: a cache line and the widest vector.
pub(crate) const ALIGNMENT: u64 = 64;

/// The order of the arrays in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    /// The order of the `safetensors` crate, for the data and the header.
    Crate,
    /// The given order for the data. The header lists the arrays by name, as Ollama's writer does.
    Given,
}

/// Lays out a file with this metadata and these arrays.
///
/// # Errors
///
/// `Unsupported` for a dtype that safetensors lacks, or a header longer than readers accept;
/// `Mismatch` for two arrays with the same name.
pub(crate) fn layout(
    metadata: &BTreeMap<String, String>,
    arrays: &[NewArray],
    alignment: u64,
    order: Order,
) -> Result<Layout> {
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    for (number, array) in arrays.iter().enumerate() {
        let in_tensor = |error: Error| error.in_tensor(&array.name);
        if array.name == "__metadata__" {
            return Err(in_tensor(Error::unsupported("the name is reserved by safetensors")));
        }
        if !names.insert(&array.name) {
            return Err(in_tensor(Error::mismatch("duplicate tensor name")));
        }
        let dtype = array.dtype.descriptor().safetensors.ok_or_else(|| {
            in_tensor(Error::unsupported(format!("safetensors has no dtype {}", array.dtype)))
        })?;
        let rank = match order {
            Order::Crate => ORDER.iter().position(|name| *name == dtype),
            Order::Given => None,
        };
        entries.push((std::cmp::Reverse(rank), &array.name, number, dtype, array));
    }
    entries.sort_unstable_by_key(|(rank, name, ..)| (*rank, *name));
    let mut starts = vec![0u64; arrays.len()];
    let mut place = |number: usize, array: &NewArray, end: &mut u64| {
        if let Some(start) = starts.get_mut(number) {
            *start = *end;
        }
        *end = end.checked_add(array.bytes).ok_or_else(too_large)?;
        Ok::<(), Error>(())
    };
    let mut end = 0u64;
    match order {
        Order::Crate => {
            let mut entries = entries.iter();
            entries.try_for_each(|(_, _, number, _, array)| place(*number, array, &mut end))?;
        }
        Order::Given => {
            let mut arrays = arrays.iter().enumerate();
            arrays.try_for_each(|(number, array)| place(number, array, &mut end))?;
        }
    }
    let mut json = String::from("{");
    if !metadata.is_empty() {
        json.push_str("\"__metadata__\":{");
        for (number, (key, value)) in metadata.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            json.push_str(&format!("{comma}{}:{}", quoted(key), quoted(value)));
        }
        json.push('}');
    }
    for (_, name, number, dtype, array) in entries {
        let start = starts.get(number).copied().unwrap_or(0);
        let end = start.saturating_add(array.bytes);
        let comma = if json.len() == 1 { "" } else { "," };
        let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
        json.push_str(&format!(
            "{comma}{}:{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{start},{end}]}}",
            quoted(name),
            shape.join(",")
        ));
    }
    json.push('}');
    let data = (json.len() as u64).checked_add(8).ok_or_else(too_large)?;
    let data = data.checked_next_multiple_of(alignment.max(1)).ok_or_else(too_large)?;
    let padded = data - 8;
    if padded > LONGEST_HEADER {
        let fault =
            format!("the header has {padded} bytes, but readers accept at most {LONGEST_HEADER}");
        return Err(Error::unsupported(fault).advise("write more, smaller shards"));
    }
    let mut header = padded.to_le_bytes().to_vec();
    header.extend_from_slice(json.as_bytes());
    header.resize(usize::try_from(data).unwrap_or(usize::MAX), b' ');
    let len = data.checked_add(end).ok_or_else(too_large)?;
    Ok(Layout { header, offsets: starts.into_iter().map(|start| data + start).collect(), len })
}

fn too_large() -> Error {
    Error::unsupported("the file would exceed 2^64 bytes")
}

/// Writes a JSON string.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(name: &str, dtype: DType, shape: &[u64], bytes: u64) -> NewArray {
        NewArray { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes }
    }

    #[test]
    fn headers_are_in_the_order_of_the_crate() {
        let arrays = [
            array("b", DType::F16, &[3], 6),
            array("a\"", DType::F16, &[], 2),
            array("z", DType::I64, &[1], 8),
            array("y", DType::U8, &[0, 2], 0),
        ];
        let metadata = [("z", "1"), ("a\n", "é")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let Layout { header, offsets, len } =
            layout(&metadata.into(), &arrays, 8, Order::Crate).unwrap();
        let text = std::str::from_utf8(&header[8..]).unwrap();
        let expected = concat!(
            r#"{"__metadata__":{"a\n":"é","z":"1"},"#,
            r#""z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"#,
            r#""a\"":{"dtype":"F16","shape":[],"data_offsets":[8,10]},"#,
            r#""b":{"dtype":"F16","shape":[3],"data_offsets":[10,16]},"#,
            r#""y":{"dtype":"U8","shape":[0,2],"data_offsets":[16,16]}}"#,
        );
        assert_eq!(text.trim_end(), expected);
        let data = header.len() as u64;
        assert_eq!((offsets, len), (vec![data + 10, data + 8, data, data + 16], data + 16));
        assert_eq!(header[..8], (data - 8).to_le_bytes());
        assert!(data.is_multiple_of(8));
        let aligned = layout(&BTreeMap::new(), &arrays, 4096, Order::Crate).unwrap();
        assert_eq!(aligned.header.len(), 4096);
        let empty = layout(&BTreeMap::new(), &[], 8, Order::Crate).unwrap();
        assert_eq!(empty.header, b"\x08\0\0\0\0\0\0\0{}      ");
    }

    #[test]
    fn what_readers_refuse_is_not_written() {
        let metadata = BTreeMap::new();
        let one = array("x", DType::F32, &[2], 8);
        for (fault, array) in [
            ("the name is reserved by safetensors", array("__metadata__", DType::F32, &[2], 8)),
            ("duplicate tensor name", one.clone()),
            ("safetensors has no dtype Q4_0", array("y", DType::Q4_0, &[32], 18)),
            ("the file would exceed 2^64 bytes", array("y", DType::F32, &[1 << 61], u64::MAX)),
        ] {
            let error =
                layout(&metadata, &[one.clone(), array], 8, Order::Crate).expect_err("refused");
            assert!(error.to_string().contains(fault), "{error}");
        }
        // The limit includes the padding of the header.
        let long = |len: usize| BTreeMap::from([("k".to_owned(), "v".repeat(len))]);
        let rest = r#"{"__metadata__":{"k":""}}"#.len();
        let most = 99_999_992 - rest;
        assert_eq!(layout(&long(most), &[], 8, Order::Crate).unwrap().header.len(), 100_000_000);
        let error = layout(&long(most + 1), &[], 8, Order::Crate).expect_err("refused");
        assert!(error.to_string().contains("the header has 100000000 bytes"), "{error}");
    }
}
