//! Tensors by canonical name, and how each is derived from stored tensors.

use weighbridge::Model;
use weighbridge::bytes::Text;
use weighbridge::ops::{AuxiliaryTensor, CanonicalTensor};

use crate::Stop;
use crate::layers::{Pattern, Rows};
use crate::print::{self, Table, left, right};

/// The derivation of a tensor, in words.
fn served(tensor: &CanonicalTensor<'_>) -> String {
    match (tensor.served, &tensor.why) {
        ("fault", Some(why)) => format!("not available: {why}"),
        (_, Some(why)) => format!("computed: {why}"),
        ("stored", _) => "as stored".to_owned(),
        ("reordered", _) => "rows reordered".to_owned(),
        ("part", _) => "part of the stored tensor".to_owned(),
        ("joined", _) => format!("{} stored tensors joined", tensor.stored.len()),
        (other, None) => other.to_owned(),
    }
}

/// The stored names: `model.layers.0.mlp.experts.[0-7].w1.weight`.
fn stored(tensor: &CanonicalTensor<'_>) -> String {
    let mut names = Rows::new(true);
    for name in tensor.stored {
        let (pattern, _) = Pattern::of(name);
        // Splits at the layer's number; the rest contains the expert's number.
        let (before, after) = name.split_at(name.len() - pattern.after().len());
        names.add(after, before, (), |(), ()| {});
    }
    let names = names.into_rows().into_iter().map(|row| format!("{}{}", row.alike, row.name()));
    names.collect::<Vec<_>>().join("+")
}

pub(super) fn table(
    all: bool,
    model: &Model,
    tensors: &[CanonicalTensor<'_>],
    unknown: &[&str],
    auxiliary: &[AuxiliaryTensor<'_>],
) -> Result<Table, Stop> {
    let mut tensors: Vec<&CanonicalTensor<'_>> = tensors.iter().collect();
    tensors.sort_by(|a, b| {
        let [a, b] = [a, b].map(|tensor| Text::new(tensor.name.as_bytes()));
        a.natural_cmp(b)
    });
    let mut rows = Rows::new(!all);
    for tensor in tensors {
        let (stored, _) = Pattern::of(stored(tensor));
        let shape = tensor.shape.as_deref().map_or("-".to_owned(), print::shape);
        let dtype = tensor.dtype.clone().unwrap_or("-".to_owned());
        rows.add(tensor.name, (stored, dtype, shape, served(tensor)), (), |(), ()| {});
    }
    let mut table = Table::new(&[
        left("NAME").middle(28),
        left("DTYPE").optional(2),
        right("SHAPE").optional(3),
        left("DERIVATION").end(16),
        left("STORED").middle(24).optional(1),
    ]);
    for row in rows.into_rows() {
        let (stored, dtype, shape, how) = &row.alike;
        let stored = row.with_layers(stored);
        table.row([row.name(), dtype.clone(), shape.clone(), how.clone(), stored]);
    }
    let unknown = unknown.iter().map(|name| (*name, "no canonical name"));
    let auxiliary = auxiliary.iter().map(|tensor| (tensor.name, tensor.reason));
    let mut others = Rows::new(!all);
    let mut named: Vec<(&str, &str)> = unknown.chain(auxiliary).collect();
    named.sort_by(|(a, _), (b, _)| Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes())));
    for (name, what) in named {
        let tensor = model.stored_tensor(name)?;
        let shape = print::shape(tensor.shape());
        others.add(name, (tensor.dtype_label(), shape, what), (), |(), ()| {});
    }
    for row in others.into_rows() {
        let (dtype, shape, what) = &row.alike;
        let name = row.name();
        table.row(["-".to_owned(), dtype.clone(), shape.clone(), (*what).to_owned(), name]);
    }
    Ok(table)
}
