//! Attention to blocks of keys that an indexer chooses: a few narrow heads score all keys, and each group
//! of heads attends to the blocks with the largest scores (MiniMax M3).

use crate::error::{Error, Result};
use crate::math::dot;
use crate::plan::{BlockPlan, NormPlan};
use crate::rope::{Rope, Turns};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

#[derive(Debug)]
pub(crate) struct BlockIndexer {
    plan: BlockPlan,
    q: Weight,
    k: Weight,
    q_norm: Norm,
    k_norm: Norm,
}

/// The blocks that each query's heads attend to.
#[derive(Debug)]
pub(crate) struct Chosen {
    size: usize,
    /// Sorted numbers of blocks, for each query and each head of the indexer.
    blocks: Vec<Vec<usize>>,
    heads: usize,
}

impl Chosen {
    /// Whether a head of a query, of `heads`, attends to a position.
    pub(crate) fn has(&self, query: usize, (head, heads): (usize, usize), position: usize) -> bool {
        let own = head / (heads / self.heads).max(1);
        let blocks = self.blocks.get(query * self.heads + own);
        blocks.is_some_and(|blocks| blocks.binary_search(&(position / self.size)).is_ok())
    }
}

impl BlockIndexer {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: BlockPlan,
        (heads, norm): (usize, NormPlan),
    ) -> Result<Self> {
        let at = |what: &str| format!("{name}.{what}");
        if plan.heads == 0 || plan.head_dim == 0 || plan.size == 0 || heads % plan.heads != 0 {
            let fault = format!("{name} has {} heads for {heads}", plan.heads);
            return Err(Error::Mismatch(fault));
        }
        Ok(Self {
            plan,
            q: loader.sized(&at("q"), plan.heads * plan.head_dim, dim)?,
            k: loader.sized(&at("k"), plan.head_dim, dim)?,
            q_norm: loader.norm(&at("q_norm"), plan.head_dim, norm)?,
            k_norm: loader.norm(&at("k_norm"), plan.head_dim, norm)?,
        })
    }

    /// The blocks for each row of `x`, the first of which is at position `start`. Their keys are added to
    /// those of the positions before.
    pub(crate) fn choose(
        &self,
        x: &Rows,
        start: usize,
        rope: Option<&(Rope, Turns)>,
        keys: &mut Vec<f32>,
    ) -> Result<Chosen> {
        let BlockPlan { heads, head_dim, size, .. } = self.plan;
        let (mut q, mut k) = (self.q.of(x)?, self.k.of(x)?);
        self.q_norm.apply(&mut q);
        self.k_norm.apply(&mut k);
        if let Some((rope, turns)) = rope {
            rope.apply(turns, &mut q, head_dim, 0);
            rope.apply(turns, &mut k, head_dim, 0);
        }
        keys.extend_from_slice(k.values());
        let queries = q.values().chunks_exact(head_dim).enumerate();
        let blocks = queries.map(|(place, query)| {
            let position = start + place / heads;
            let seen = keys.chunks_exact(head_dim).take(position + 1);
            let scores: Vec<f32> = seen.map(|key| dot(query, key)).collect();
            best(&scores, self.plan)
        });
        Ok(Chosen { size, blocks: blocks.collect(), heads })
    }
}

/// The blocks with the largest scores, and those next to the last position.
fn best(scores: &[f32], plan: BlockPlan) -> Vec<usize> {
    let BlockPlan { size, chosen, local, .. } = plan;
    let last = scores.len().saturating_sub(1) / size;
    let of_block = |(number, scores): (usize, &[f32])| {
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        (number, if number + local > last { f32::INFINITY } else { most })
    };
    let mut blocks: Vec<(usize, f32)> = scores.chunks(size).enumerate().map(of_block).collect();
    blocks.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut best: Vec<usize> = blocks.into_iter().take(chosen).map(|(number, _)| number).collect();
    best.sort_unstable();
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_is_always_chosen() {
        let plan = BlockPlan { heads: 1, head_dim: 1, size: 2, chosen: 2, local: 1 };
        assert_eq!(best(&[1.0, 5.0, 9.0, 0.0, 3.0, 4.0, -7.0], plan), [1, 3]);
        assert_eq!(best(&[1.0, 5.0], plan), [0]);
        let plan = BlockPlan { chosen: 3, local: 2, ..plan };
        assert_eq!(best(&[1.0, 5.0, 9.0, 0.0, 3.0, 4.0, -7.0], plan), [1, 2, 3]);
    }

    #[test]
    fn heads_share_the_choice_of_their_group() {
        let blocks = vec![vec![0], vec![1, 2]];
        let chosen = Chosen { size: 4, blocks, heads: 2 };
        let has = |head, position| chosen.has(0, (head, 4), position);
        assert!(has(0, 3) && has(1, 0) && !has(1, 4) && has(2, 4) && has(3, 11) && !has(3, 12));
    }
}
