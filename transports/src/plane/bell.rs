//! That something changed, for those who wait for it.

use super::lock;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    task::Waker,
};

/// Rung when something changes.
#[derive(Debug, Default)]
pub(super) struct Bell(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rung: u64,
    next: u64,
    /// None for who was woken and has not come back yet.
    hearing: BTreeMap<u64, Option<Waker>>,
}

/// Somebody who hears it. Dropped, they do no longer.
#[derive(Debug)]
pub(super) struct Hearing {
    bell: Arc<Bell>,
    id: u64,
}

impl Bell {
    /// It changed.
    pub(super) fn ring(&self) {
        let mut inner = lock(&self.0);
        inner.rung += 1;
        let woken: Vec<Waker> = inner.hearing.values_mut().filter_map(Option::take).collect();
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// One more who hears it.
    pub(super) fn hear(self: &Arc<Self>) -> Hearing {
        let mut inner = lock(&self.0);
        let id = inner.next;
        inner.next += 1;
        inner.hearing.insert(id, None);
        Hearing { bell: Arc::clone(self), id }
    }

    /// Whether nobody does.
    pub(super) fn is_unheard(&self) -> bool {
        lock(&self.0).hearing.is_empty()
    }
}

impl Hearing {
    /// How often it was rung. `waker` is woken when it is rung next.
    pub(super) fn rung(&self, waker: &Waker) -> u64 {
        let mut inner = lock(&self.bell.0);
        if let Some(slot) = inner.hearing.get_mut(&self.id)
            && !slot.as_ref().is_some_and(|old| old.will_wake(waker))
        {
            *slot = Some(waker.clone());
        }
        inner.rung
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        lock(&self.bell.0).hearing.remove(&self.id);
    }
}
