//! The connections whose clients take nothing of what waits for them.

use hangar_core::Time;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Who they are, and since when: few of many, so that nobody has to look at the others.
#[derive(Debug, Default)]
pub struct Stuck {
    since: Mutex<BTreeMap<u64, Time>>,
}

impl Stuck {
    /// One more.
    pub(super) fn insert(&self, connection: u64, since: Time) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, since);
    }

    /// It takes something, or is gone.
    pub(super) fn remove(&self, connection: u64) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
    }

    /// Those that have been for `patience` at `now`, by their ids.
    pub fn for_at_least(&self, patience: Duration, now: Time) -> Vec<u64> {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.iter().filter(|(_, since)| now.since(**since) >= patience).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_long_enough_is_found() {
        let (stuck, second) = (Stuck::default(), Duration::from_secs(1));
        let at = |seconds| Time::ZERO + second * seconds;
        stuck.insert(1, at(1));
        stuck.insert(2, at(2));
        stuck.insert(3, at(3));
        stuck.remove(1);
        stuck.remove(7);
        assert!(stuck.for_at_least(5 * second, at(6)).is_empty());
        assert_eq!(stuck.for_at_least(5 * second, at(7)), [2]);
        assert_eq!(stuck.for_at_least(5 * second, at(60)), [2, 3]);
    }
}
