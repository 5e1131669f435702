//! Tensors by their stored names.

use serde::Serialize;
use weighbridge::{Model, Tensor};

use crate::cmd::{CanonicalNames, Filter};
use crate::json::{Each, hex_if_odd};
use crate::layers::{Pattern, Rows};
use crate::print::{self, Align, Table};

/// What a row of the table shows of the first tensor in it.
struct Shown {
    first: Tensor,
    canonical: Option<Pattern>,
    bytes: u64,
}

/// A row a stored tensor; with its canonical name, if those were asked for.
pub(super) fn table(
    all: bool,
    store: &Model,
    names: Option<&CanonicalNames<'_>>,
    filter: &Filter,
) -> Table {
    let mut tensors: Vec<Tensor> = store.stored_tensors().collect();
    tensors.sort_by(|a, b| a.raw_name().natural_cmp(b.raw_name()));
    let mut rows = Rows::new(!all);
    for tensor in tensors {
        let canonical = names.and_then(|names| names.get(tensor.name())).map(String::as_str);
        if !filter.passes(tensor.name(), canonical) {
            continue;
        }
        let canonical = canonical.map(|name| Pattern::of(name).0);
        let alike = (tensor.dtype_label(), tensor.shape().to_vec());
        let (name, bytes) = (tensor.raw_name().to_string(), tensor.stored_bytes());
        let shown = Shown { first: tensor, canonical, bytes };
        rows.add(&name, alike, shown, |row, more| {
            row.bytes = row.bytes.saturating_add(more.bytes);
        });
    }
    let mut columns = vec![
        ("NAME", Align::Left),
        ("DTYPE", Align::Left),
        ("SHAPE", Align::Right),
        ("BITS", Align::Right),
        ("SIZE", Align::Right),
    ];
    if names.is_some() {
        columns.insert(1, ("CANONICAL", Align::Left));
    }
    let mut table = Table::new(&columns);
    for row in rows.into_rows() {
        let (dtype, shape) = &row.alike;
        let Shown { first, canonical, bytes } = &row.value;
        let canonical = names.map(|_| match canonical {
            Some(name) => row.with_layers(name),
            None => "-".to_owned(),
        });
        let cells = [
            dtype.clone(),
            print::shape(shape),
            print::bits(first.bits_per_weight()),
            if first.dtype().is_ok() { print::bytes(*bytes) } else { "-".to_owned() },
        ];
        table.row([row.name()].into_iter().chain(canonical).chain(cells));
    }
    table
}

#[derive(Serialize)]
struct Tensors<T: Serialize> {
    tensors: T,
}

#[derive(Serialize)]
struct TensorReport<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    /// Absent where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<Option<&'a str>>,
    dtype: String,
    shape: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_size: Option<u32>,
    bits_per_weight: Option<f64>,
    bytes: u64,
    parts: Vec<PartReport>,
}

#[derive(Serialize)]
struct PartReport {
    part: &'static str,
    name: String,
    dtype: &'static str,
    file: String,
    offset: u64,
    bytes: u64,
}

pub(super) fn report<'a>(
    store: &'a Model,
    names: Option<&'a CanonicalNames<'a>>,
    filter: &'a Filter,
) -> impl Serialize + 'a {
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let tensors = Each(move || {
        store.stored_tensors().filter_map(move |tensor| {
            let name = tensor.name().to_owned();
            let canonical = names.and_then(|names| names.get(name.as_str())).map(String::as_str);
            filter.passes(&name, canonical).then(|| TensorReport {
                name_hex: hex_if_odd(tensor.raw_name()),
                canonical: names.map(|_| canonical),
                dtype: tensor.dtype_label(),
                shape: tensor.shape().to_vec(),
                group_size: tensor.group_size(),
                bits_per_weight: tensor.bits_per_weight(),
                bytes: tensor.stored_bytes(),
                parts: tensor
                    .segments()
                    .map(|segment| PartReport {
                        part: segment.part.name(),
                        name: segment.name.spelling().into_owned(),
                        dtype: segment.dtype.name(),
                        file: path(segment.path),
                        offset: segment.range.start,
                        bytes: segment.range.end - segment.range.start,
                    })
                    .collect(),
                name,
            })
        })
    });
    Tensors { tensors }
}
