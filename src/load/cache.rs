//! Loaded tensors by name, within a memory budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::LoadedTensor;
use crate::device::Device;
use crate::error::Result;

/// Loaded tensors by name.
#[derive(Debug)]
pub(super) struct Cache<D: Device>(Mutex<CacheEntries<D>>);

#[derive(Debug)]
struct CacheEntries<D: Device> {
    slots: HashMap<String, CacheSlot<D>>,
    budget: u64,
    bytes: u64,
    /// Counts requests, to find the tensor that was not requested for the longest time.
    clock: u64,
}

/// The cache entry of one name.
#[derive(Debug)]
struct CacheSlot<D: Device> {
    /// Locked while the tensor is loaded, so that other threads wait instead of loading it too.
    loading: Arc<Mutex<()>>,
    /// The tensor, as long as it fits the budget.
    kept: Option<Arc<LoadedTensor<D>>>,
    /// A weak handle, valid while a caller holds the tensor.
    seen: Weak<LoadedTensor<D>>,
    asked: u64,
}

impl<D: Device> Default for Cache<D> {
    fn default() -> Self {
        let slots = HashMap::new();
        Self(Mutex::new(CacheEntries { slots, budget: u64::MAX, bytes: 0, clock: 0 }))
    }
}

impl<D: Device> Cache<D> {
    /// Returns the tensor with this name, and loads it if neither the cache nor a caller holds it.
    pub(super) fn get_or_load(
        &self,
        name: &str,
        load: impl FnOnce() -> Result<LoadedTensor<D>>,
    ) -> Result<Arc<LoadedTensor<D>>> {
        let loading = match self.find(name) {
            Ok(found) => return Ok(found),
            Err(loading) => loading,
        };
        // Other threads may load other tensors meanwhile. A thread that panicked here left no state
        // behind.
        let _alone = loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(found) = self.find(name) {
            return Ok(found);
        }
        Ok(self.insert(name, load()?))
    }

    /// The tensor, if the cache or a caller holds it; otherwise the lock to take while loading it.
    pub(super) fn find(&self, name: &str) -> Result<Arc<LoadedTensor<D>>, Arc<Mutex<()>>> {
        let mut entries = self.entries();
        let slot = entries.slot(name);
        match slot.seen.upgrade() {
            Some(found) => Ok(found),
            None => Err(Arc::clone(&slot.loading)),
        }
    }

    /// Adds a tensor, and drops others that exceed the budget.
    pub(super) fn insert(&self, name: &str, loaded: LoadedTensor<D>) -> Arc<LoadedTensor<D>> {
        let (loaded, bytes) = (Arc::new(loaded), |loaded: &LoadedTensor<D>| loaded.bytes());
        let mut entries = self.entries();
        let slot = entries.slot(name);
        slot.seen = Arc::downgrade(&loaded);
        let before = slot.kept.replace(Arc::clone(&loaded)).map_or(0, |before| bytes(&before));
        entries.bytes = entries.bytes.saturating_sub(before).saturating_add(bytes(&loaded));
        let dropped = entries.shrink(0);
        drop(entries);
        drop(dropped);
        loaded
    }

    /// Drops tensors until `bytes` more fit the budget, or none is left.
    pub(super) fn make_room(&self, bytes: u64) {
        let dropped = self.entries().shrink(bytes);
        drop(dropped);
    }

    pub(super) fn remove(&self, name: &str) -> bool {
        let mut entries = self.entries();
        let Some(slot) = entries.slots.remove(name) else { return false };
        let bytes = slot.kept.as_ref().map_or(0, |kept| kept.bytes());
        entries.bytes = entries.bytes.saturating_sub(bytes);
        slot.seen.strong_count() > 0
    }

    pub(super) fn clear(&self) {
        let mut entries = self.entries();
        entries.slots.clear();
        entries.bytes = 0;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.entries().bytes
    }

    /// Sets the budget, and drops tensors that exceed it.
    pub(super) fn set_budget(&self, budget: u64) {
        self.entries().budget = budget;
        self.make_room(0);
    }

    fn entries(&self) -> MutexGuard<'_, CacheEntries<D>> {
        // The entries are consistent even if a thread panicked while holding the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> CacheEntries<D> {
    /// Takes tensors out until `more` bytes fit the budget, those that were not requested for the
    /// longest time first. The caller drops them once the lock is free: that may wait for a device.
    fn shrink(&mut self, more: u64) -> Vec<Arc<LoadedTensor<D>>> {
        let mut dropped = Vec::new();
        while self.bytes.saturating_add(more) > self.budget {
            let kept = self.slots.values_mut().filter(|slot| slot.kept.is_some());
            let oldest = kept.min_by_key(|slot| slot.asked).and_then(|slot| slot.kept.take());
            let Some(oldest) = oldest else { break };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            dropped.push(oldest);
        }
        dropped
    }

    fn slot(&mut self, name: &str) -> &mut CacheSlot<D> {
        self.clock += 1;
        let slot = self.slots.entry(name.to_owned()).or_insert_with(|| CacheSlot {
            loading: Arc::default(),
            kept: None,
            seen: Weak::new(),
            asked: 0,
        });
        slot.asked = self.clock;
        slot
    }
}
