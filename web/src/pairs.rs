//! The pairs of tensors that two models have in common.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weighbridge::ops::{TensorPair, TensorPairs};
use weighbridge::{Model, Result};

use crate::Parameters;
use crate::fault::not_found;

/// The pairs of models that were compared.
#[derive(Debug, Default)]
pub(crate) struct PairCache(Mutex<HashMap<(usize, usize), Arc<TensorPairs>>>);

impl PairCache {
    pub(crate) fn of(&self, a: (usize, &Model), b: (usize, &Model)) -> Result<Arc<TensorPairs>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (a.0, b.0);
        if let Some(pairs) = known.get(&key) {
            return Ok(Arc::clone(pairs));
        }
        let pairs = Arc::new(TensorPairs::new(a.1, b.1)?);
        known.insert(key, Arc::clone(&pairs));
        Ok(pairs)
    }
}

/// The number of bytes of stored tensors that one answer compares or summarizes, unless a single tensor has
/// more: few enough that the page can show progress.
pub(crate) const BATCH: u64 = 32 << 20;

/// The number of tensors in one answer.
pub(crate) const TENSORS: usize = 256;

pub(crate) fn pair<'p>(pairs: &'p TensorPairs, parameters: &Parameters) -> Result<&'p TensorPair> {
    let number = parameters.index("pair")?;
    let missing = || not_found(format!("no pair {number}: there are {}", pairs.both.len()));
    pairs.both.get(number).ok_or_else(missing)
}

/// The items from `from` on that one answer is about, as many as have [`BATCH`] bytes.
pub(crate) fn batch<T>(items: &[T], from: usize, bytes: impl Fn(&T) -> u64) -> &[T] {
    let rest = items.get(from..).unwrap_or_default();
    let mut sum = 0u64;
    let fits = |item: &&T| {
        let before = sum;
        sum = sum.saturating_add(bytes(item));
        before == 0 || sum <= BATCH
    };
    let count = rest.iter().take(TENSORS).take_while(fits).count();
    rest.get(..count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_at_least_one_item() {
        let sizes = [BATCH * 2, 1, BATCH / 2, BATCH / 2, 1];
        let counts = [0, 1, 2, 4, 5].map(|from| batch(&sizes, from, |size| *size).len());
        assert_eq!(counts, [1, 2, 2, 1, 0]);
        assert_eq!(batch(&[0u64; 1000], 0, |size| *size).len(), TENSORS);
    }
}
