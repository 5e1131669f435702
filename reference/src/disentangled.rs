//! Scores of attention that depend on the distance and on the query or the key (He et al., "DeBERTa", 2021).

use crate::error::Result;
use crate::math::dot;
use crate::plan::{AttentionPlan, DisentangledPlan, NormPlan};
use crate::rows::Rows;
use crate::weight::Loader;

/// For each distance, a key and a query of each head.
#[derive(Debug)]
pub(crate) struct Disentangled {
    plan: DisentangledPlan,
    head_dim: usize,
    keys: Option<Rows>,
    queries: Option<Rows>,
}

/// A query of a head, and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'q> {
    pub(crate) head: usize,
    pub(crate) position: usize,
    pub(crate) values: &'q [f32],
}

impl Disentangled {
    /// The distances of the attention whose tensors' names start with `name`, if its scores have such parts.
    pub(crate) fn load_if(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        attention: &AttentionPlan,
        norm: NormPlan,
    ) -> Result<Option<Self>> {
        let Some(plan) = attention.disentangled else { return Ok(None) };
        let places = (0..u32::try_from(2 * plan.span).unwrap_or(u32::MAX)).collect::<Vec<_>>();
        let embedding = loader.weight("relative_embedding", dim)?;
        let mut rows = embedding.rows_of(&places, "distance")?;
        let norm = loader.norm_if("relative_embedding_norm", dim, norm)?;
        norm.iter().for_each(|norm| norm.apply(&mut rows));
        let width = attention.heads * attention.head_dim;
        let of = |wanted: bool, own: &str, shared: &str| {
            let tensor = format!("{name}.{}", if plan.shared { shared } else { own });
            wanted.then(|| loader.sized(&tensor, width, dim)?.of(&rows)).transpose()
        };
        Ok(Some(Self {
            plan,
            head_dim: attention.head_dim,
            keys: of(plan.of_queries, "distance_k", "k")?,
            queries: of(plan.of_keys, "distance_q", "q")?,
        }))
    }

    /// Adds to the scores of a query what the distances of the keys from `first` on give.
    pub(crate) fn add<'k>(
        &self,
        query: Query<'_>,
        first: usize,
        keys: impl Iterator<Item = &'k [f32]>,
        scale: f32,
        scores: &mut [f32],
    ) {
        let from = query.head * self.head_dim;
        let of = |rows: &Option<Rows>, row: usize, other: &[f32]| {
            let row = rows.as_ref().and_then(|rows| rows.row(row));
            let own = row.and_then(|row| row.get(from..from + self.head_dim));
            own.map_or(0.0, |own| dot(own, other))
        };
        for ((place, key), score) in (first..).zip(keys).zip(scores) {
            let row = self.plan.row(query.position, place);
            *score += scale * (of(&self.keys, row, query.values) + of(&self.queries, row, key));
        }
    }
}

impl DisentangledPlan {
    /// The row of a distance. With a `farthest` distance, those beyond half of the rows of a side grow with
    /// the logarithm.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        reason = "distances are computed in f32"
    )]
    fn row(&self, query: usize, key: usize) -> usize {
        let distance = query.abs_diff(key);
        let half = self.span / 2;
        let ranged = match self.farthest {
            Some(farthest) if distance > half => {
                let part = (distance as f32 / half as f32).ln()
                    / ((farthest.saturating_sub(1)) as f32 / half as f32).ln()
                    * (half - 1) as f32;
                part.ceil() as isize + half as isize
            }
            _ => distance as isize,
        };
        let signed = if key > query { -ranged } else { ranged };
        let last = (2 * self.span).saturating_sub(1);
        usize::try_from(signed + self.span as isize).unwrap_or(0).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_class() {
        // transformers' `make_log_bucket_position(-d, 16, 64)`, clamped to -16..16 and counted from 0.
        let plan = DisentangledPlan {
            span: 16,
            farthest: Some(64),
            shared: true,
            of_queries: true,
            of_keys: true,
        };
        let rows = [0, 1, 8, 9, 12, 20, 40, 63].map(|key| plan.row(0, key));
        assert_eq!(rows, [16, 15, 8, 7, 6, 4, 2, 1]);
        // `make_log_bucket_position(-d, 3, 8)`.
        let few = DisentangledPlan { span: 3, farthest: Some(8), ..plan };
        assert_eq!([0, 1, 2, 7].map(|key| few.row(0, key)), [3, 2, 2, 2]);
        let plain = DisentangledPlan { farthest: None, ..plan };
        assert_eq!([0, 15, 16, 40].map(|key| plain.row(0, key)), [16, 1, 0, 0]);
        assert_eq!([0, 15, 16, 40].map(|query| plain.row(query, 0)), [16, 31, 31, 31]);
    }
}
