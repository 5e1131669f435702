//! What was loaded, by name, within a budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::LoadedTensor;
use crate::device::Device;
use crate::error::Result;

/// Loaded tensors by name.
#[derive(Debug)]
pub(super) struct Cache<D: Device>(Mutex<Entries<D>>);

#[derive(Debug)]
struct Entries<D: Device> {
    slots: HashMap<String, Slot<D>>,
    budget: u64,
    bytes: u64,
    /// Counts the times that anything was asked for.
    clock: u64,
}

/// A tensor under its name.
#[derive(Debug)]
struct Slot<D: Device> {
    /// Held while it is loaded, so that others who want it wait, and do not load it as well.
    loading: Arc<Mutex<()>>,
    /// Kept within the budget.
    kept: Option<Arc<LoadedTensor<D>>>,
    /// Found as long as anybody has it.
    seen: Weak<LoadedTensor<D>>,
    asked: u64,
}

impl<D: Device> Default for Cache<D> {
    fn default() -> Self {
        let slots = HashMap::new();
        Self(Mutex::new(Entries { slots, budget: u64::MAX, bytes: 0, clock: 0 }))
    }
}

impl<D: Device> Cache<D> {
    /// The tensor of that name, loaded now if nobody has it.
    pub(super) fn get_or_load(
        &self,
        name: &str,
        load: impl FnOnce() -> Result<LoadedTensor<D>>,
    ) -> Result<Arc<LoadedTensor<D>>> {
        let loading = match self.find(name) {
            Ok(found) => return Ok(found),
            Err(loading) => loading,
        };
        // Others load other tensors meanwhile. A thread that panicked here left nothing behind.
        let _alone = loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(found) = self.find(name) {
            return Ok(found);
        }
        Ok(self.insert(name, load()?))
    }

    /// The tensor, if anybody has it; else what to hold while loading it.
    pub(super) fn find(&self, name: &str) -> Result<Arc<LoadedTensor<D>>, Arc<Mutex<()>>> {
        let mut entries = self.entries();
        let slot = entries.slot(name);
        match slot.seen.upgrade() {
            Some(found) => Ok(found),
            None => Err(Arc::clone(&slot.loading)),
        }
    }

    /// Keeps a tensor, and drops others that no longer fit.
    pub(super) fn insert(&self, name: &str, loaded: LoadedTensor<D>) -> Arc<LoadedTensor<D>> {
        let (loaded, bytes) = (Arc::new(loaded), |loaded: &LoadedTensor<D>| loaded.bytes());
        let mut entries = self.entries();
        let slot = entries.slot(name);
        slot.seen = Arc::downgrade(&loaded);
        let before = slot.kept.replace(Arc::clone(&loaded)).map_or(0, |before| bytes(&before));
        entries.bytes = entries.bytes.saturating_sub(before).saturating_add(bytes(&loaded));
        while entries.bytes > entries.budget {
            let kept = entries.slots.values_mut().filter(|slot| slot.kept.is_some());
            let Some(oldest) = kept.min_by_key(|slot| slot.asked) else { break };
            let dropped = oldest.kept.take().map_or(0, |dropped| bytes(&dropped));
            entries.bytes = entries.bytes.saturating_sub(dropped);
        }
        loaded
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

    pub(super) fn set_budget(&self, budget: u64) {
        self.entries().budget = budget;
    }

    fn entries(&self) -> MutexGuard<'_, Entries<D>> {
        // A thread that panicked while holding the lock left the entries whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Entries<D> {
    fn slot(&mut self, name: &str) -> &mut Slot<D> {
        self.clock += 1;
        let slot = self.slots.entry(name.to_owned()).or_insert_with(|| Slot {
            loading: Arc::default(),
            kept: None,
            seen: Weak::new(),
            asked: 0,
        });
        slot.asked = self.clock;
        slot
    }
}
