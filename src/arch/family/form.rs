//! The words for transforms in a file of families, such as `transposed+half.first`.

use crate::arch::linear::Linear;
use crate::arch::runs::Half::{First, Second};
use crate::arch::runs::Projection::{K, Q, V};
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

const CHANGES: &[(&str, Change)] = &[
    ("plus_one", Change::PlusOne),
    ("neg_exp", Change::NegExp),
    ("exp", Change::Exp),
    ("softplus", Change::Softplus),
];

const ROWS: &[(&str, RowOrder)] = &[
    ("pairs_q", RowOrder::PairsQ),
    ("pairs_k", RowOrder::PairsK),
    ("qkv.q", RowOrder::Qkv(Q)),
    ("qkv.k", RowOrder::Qkv(K)),
    ("qkv.v", RowOrder::Qkv(V)),
    ("pairs_qkv.q", RowOrder::PairsQkv(Q)),
    ("pairs_qkv.k", RowOrder::PairsQkv(K)),
    ("pairs_qkv.v", RowOrder::PairsQkv(V)),
    ("grouped_qkv.q", RowOrder::GroupedQkv(Q)),
    ("grouped_qkv.k", RowOrder::GroupedQkv(K)),
    ("grouped_qkv.v", RowOrder::GroupedQkv(V)),
    ("quartered_qvk.q", RowOrder::QuarteredQvk(Q)),
    ("quartered_qvk.k", RowOrder::QuarteredQvk(K)),
    ("quartered_qvk.v", RowOrder::QuarteredQvk(V)),
    ("half.first", RowOrder::Half(First)),
    ("half.second", RowOrder::Half(Second)),
    ("even", RowOrder::Alternate(First)),
    ("odd", RowOrder::Alternate(Second)),
    ("half_heads.first", RowOrder::HalfHeads(First)),
    ("half_heads.second", RowOrder::HalfHeads(Second)),
    ("unfolding.k", RowOrder::Unfolding(First)),
    ("unfolding.v", RowOrder::Unfolding(Second)),
    ("linear.q", RowOrder::Linear(Linear::Qkv(Q))),
    ("linear.k", RowOrder::Linear(Linear::Qkv(K))),
    ("linear.v", RowOrder::Linear(Linear::Qkv(V))),
    ("linear.tiled_v", RowOrder::Linear(Linear::TiledV)),
    ("linear.tiled", RowOrder::Linear(Linear::Tiled)),
    ("linear.tiled_conv", RowOrder::Linear(Linear::TiledConvolution)),
    ("linear_joined.q", RowOrder::Linear(Linear::Joined(Q))),
    ("linear_joined.k", RowOrder::Linear(Linear::Joined(K))),
    ("linear_joined.v", RowOrder::Linear(Linear::Joined(V))),
    ("linear_joined.z", RowOrder::Linear(Linear::JoinedGates)),
    ("linear_joined.b", RowOrder::Linear(Linear::JoinedRates(First))),
    ("linear_joined.a", RowOrder::Linear(Linear::JoinedRates(Second))),
    ("linear_grouped.q", RowOrder::Linear(Linear::Grouped(Q))),
    ("linear_grouped.k", RowOrder::Linear(Linear::Grouped(K))),
    ("linear_grouped.v", RowOrder::Linear(Linear::Grouped(V))),
    ("linear_grouped.z", RowOrder::Linear(Linear::GroupedGates)),
    ("linear_rates.b", RowOrder::Linear(Linear::GroupedRates(First))),
    ("linear_rates.a", RowOrder::Linear(Linear::GroupedRates(Second))),
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
