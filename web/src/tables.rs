//! Long lists, column by column: a model may have 100,000 tensors.

use std::collections::HashMap;

use serde::Serialize;
use weighbridge::ops::{self, InspectOptions, InspectedTensors, TensorPair, TensorPairs};
use weighbridge::recipe::{FileType, llama_cpp};
use weighbridge::{Model, Result, Tensor};

/// The stored tensors of a model. The lists have one entry for each tensor.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TensorTable {
    /// The names of dtypes, to which `dtype` refers.
    dtypes: Vec<String>,
    name: Vec<String>,
    canonical: Vec<Option<String>>,
    dtype: Vec<usize>,
    shape: Vec<Vec<u64>>,
    bits: Vec<Option<f64>>,
    bytes: Vec<u64>,
}

/// Distinct texts in the order in which they occur.
#[derive(Default)]
struct Names {
    texts: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn place(&mut self, text: &str) -> usize {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

impl TensorTable {
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let report = ops::inspect(model, &InspectOptions::new())?;
        let mut table = Self::default();
        let mut dtypes = Names::default();
        let InspectedTensors::Stored { tensors, .. } = report.tensors else { return Ok(table) };
        for tensor in tensors {
            table.dtype.push(dtypes.place(&tensor.dtype));
            table.canonical.push(tensor.canonical.flatten().map(Into::into));
            table.shape.push(tensor.shape.to_vec());
            table.bits.push(tensor.bits_per_weight);
            table.bytes.push(tensor.bytes);
            table.name.push(tensor.name.into_owned());
        }
        table.dtypes = dtypes.texts;
        Ok(table)
    }
}

/// The tensors of two models, paired by canonical name. The lists have one entry for each pair.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PairTable<'p> {
    notes: &'p [String],
    /// The names of dtypes, to which `dtype_a` and `dtype_b` refer.
    dtypes: Vec<String>,
    name: Vec<&'p str>,
    shape: Vec<&'p [u64]>,
    dtype_a: Vec<usize>,
    dtype_b: Vec<usize>,
    bytes_a: Vec<u64>,
    bytes_b: Vec<u64>,
    /// The stored name in the second model; the first, if a pair has several.
    stored_b: Vec<Option<String>>,
    /// Whether an importance matrix is required to quantize a tensor to the dtype of the second model.
    needs_importance: Vec<bool>,
    /// The names of tensors that the other model lacks.
    only_a: Vec<&'p str>,
    only_b: Vec<&'p str>,
}

impl<'p> PairTable<'p> {
    pub(crate) fn of(pairs: &'p TensorPairs, of_b: &Model) -> Self {
        let named = ops::summarize(of_b).file_type;
        let file_type = named.and_then(|name| FileType::from_name(&name)).unwrap_or(FileType::COPY);
        let needs_importance = |pair: &TensorPair, stored: &str| {
            let dtype = pair.b.dtype();
            dtype.is_ok_and(|dtype| llama_cpp::needs_importance(file_type, stored, dtype))
        };
        let mut dtypes = Names::default();
        let mut table = Self { notes: &pairs.notes, ..Self::default() };
        for pair in &pairs.both {
            table.name.push(&pair.name);
            table.shape.push(pair.a.shape());
            table.dtype_a.push(dtypes.place(&pair.a.dtype_label()));
            table.dtype_b.push(dtypes.place(&pair.b.dtype_label()));
            table.bytes_a.push(pair.a.stored_bytes());
            table.bytes_b.push(pair.b.stored_bytes());
            let stored = pair.b.stored_names().next().map(|name| name.spelling().into_owned());
            let needs = stored.as_ref().is_some_and(|stored| needs_importance(pair, stored));
            table.needs_importance.push(needs);
            table.stored_b.push(stored);
        }
        table.dtypes = dtypes.texts;
        table.only_a = pairs.only_a.iter().map(Tensor::name).collect();
        table.only_b = pairs.only_b.iter().map(Tensor::name).collect();
        table
    }
}
