//! The words for transforms in a file of families, such as `transposed+half.first`.

use crate::arch::linear::Linear;
use crate::arch::transform::{Axes, Change, RowOrder, SAME, Transform};

const AXES: &[(&str, Axes)] = &[
    ("transposed", Axes::Transposed),
    ("transposed_if_plain", Axes::TransposedIfPlain),
    ("width_last", Axes::WidthLast),
    ("width_first", Axes::WidthFirst),
    ("squeezed", Axes::Squeezed),
    ("trailing", Axes::Trailing),
    ("folded", Axes::Folded),
    ("vectors", Axes::Vectors),
    ("joined", Axes::Joined),
    ("joined_transposed", Axes::JoinedTransposed),
];

const CHANGES: &[(&str, Change)] =
    &[("plus_one", Change::PlusOne), ("neg_exp", Change::NegExp), ("softplus", Change::Softplus)];

const ROWS: &[(&str, RowOrder)] = &[
    ("pairs_q", RowOrder::PairsQ),
    ("pairs_k", RowOrder::PairsK),
    ("qkv.q", RowOrder::Qkv(0)),
    ("qkv.k", RowOrder::Qkv(1)),
    ("qkv.v", RowOrder::Qkv(2)),
    ("pairs_qkv.q", RowOrder::PairsQkv(0)),
    ("pairs_qkv.k", RowOrder::PairsQkv(1)),
    ("pairs_qkv.v", RowOrder::PairsQkv(2)),
    ("grouped_qkv.q", RowOrder::GroupedQkv(0)),
    ("grouped_qkv.k", RowOrder::GroupedQkv(1)),
    ("grouped_qkv.v", RowOrder::GroupedQkv(2)),
    ("quartered_qvk.q", RowOrder::QuarteredQvk(0)),
    ("quartered_qvk.k", RowOrder::QuarteredQvk(1)),
    ("quartered_qvk.v", RowOrder::QuarteredQvk(2)),
    ("half.first", RowOrder::Half(0)),
    ("half.second", RowOrder::Half(1)),
    ("even", RowOrder::Alternate(0)),
    ("odd", RowOrder::Alternate(1)),
    ("half_heads.first", RowOrder::HalfHeads(0)),
    ("half_heads.second", RowOrder::HalfHeads(1)),
    ("unfolding.k", RowOrder::Unfolding(0)),
    ("unfolding.v", RowOrder::Unfolding(1)),
    ("linear.q", RowOrder::Linear(Linear::Qkv(0))),
    ("linear.k", RowOrder::Linear(Linear::Qkv(1))),
    ("linear.v", RowOrder::Linear(Linear::Qkv(2))),
    ("linear.tiled_v", RowOrder::Linear(Linear::TiledV)),
    ("linear.tiled", RowOrder::Linear(Linear::Tiled)),
    ("linear.tiled_conv", RowOrder::Linear(Linear::TiledConvolution)),
    ("linear_grouped.q", RowOrder::Linear(Linear::Grouped(0))),
    ("linear_grouped.k", RowOrder::Linear(Linear::Grouped(1))),
    ("linear_grouped.v", RowOrder::Linear(Linear::Grouped(2))),
    ("linear_grouped.z", RowOrder::Linear(Linear::Grouped(3))),
    ("linear_rates.b", RowOrder::Linear(Linear::GroupedRates(0))),
    ("linear_rates.a", RowOrder::Linear(Linear::GroupedRates(1))),
];

/// The transform that words joined by `+` describe; the word that has no meaning if there is one.
pub(super) fn transform(words: &'static str) -> Result<Transform, &'static str> {
    let mut transform = SAME;
    for word in words.split('+') {
        if let Some(axes) = find(AXES, word) {
            transform.axes = axes;
        } else if let Some(values) = find(CHANGES, word) {
            transform.values = values;
        } else if let Some(rows) = find(ROWS, word) {
            transform.rows = rows;
        } else if let Some(columns) = word.strip_prefix("columns:").and_then(|w| find(ROWS, w)) {
            transform.columns = columns;
        } else {
            return Err(word);
        }
    }
    Ok(transform)
}

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}
