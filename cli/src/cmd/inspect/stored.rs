//! Tensors by stored name.

use weighbridge::ops::InspectedTensor;

use crate::layers::{Pattern, Rows};
use crate::print::{self, Table, left, right};

/// The content of a row, taken from its first tensor.
struct Shown<'r> {
    first: &'r InspectedTensor<'r>,
    canonical: Option<Pattern<'r>>,
    bytes: u64,
}

/// A row for each stored tensor, with its canonical name if requested.
pub(super) fn table(
    all: bool,
    is_sorted: bool,
    tensors: &[InspectedTensor<'_>],
    canonical: bool,
) -> Table {
    let mut tensors: Vec<&InspectedTensor<'_>> = tensors.iter().collect();
    if !is_sorted {
        tensors.sort_by(|a, b| a.raw_name.natural_cmp(b.raw_name));
    }
    let mut rows = Rows::new(!all);
    for tensor in tensors {
        let name = tensor.canonical.iter().flatten().next();
        let shown = Shown {
            first: tensor,
            canonical: name.map(|name| Pattern::of(&**name).0),
            bytes: tensor.bytes,
        };
        let alike = (&*tensor.dtype, tensor.shape);
        rows.add(tensor.raw_name.to_string(), alike, shown, |row: &mut Shown<'_>, more| {
            row.bytes = row.bytes.saturating_add(more.bytes);
        });
    }
    let mut columns = vec![
        left("NAME").middle(32),
        left("DTYPE"),
        right("SHAPE").optional(1),
        right("BITS").optional(3),
        right("SIZE"),
    ];
    if canonical {
        columns.insert(1, left("CANONICAL").middle(32).optional(2));
    }
    let mut table = Table::new(&columns);
    for row in rows.into_rows() {
        let (dtype, shape) = &row.alike;
        let Shown { first, canonical: name, bytes } = &row.value;
        let name = canonical.then(|| match name {
            Some(name) => row.with_layers(name),
            None => "-".to_owned(),
        });
        let cells = [
            (*dtype).to_owned(),
            print::shape(shape),
            print::bits(first.bits_per_weight),
            if first.parts.is_empty() { "-".to_owned() } else { print::bytes(*bytes) },
        ];
        table.row([row.name()].into_iter().chain(name).chain(cells));
    }
    table
}
