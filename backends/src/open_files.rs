//! How many files may be open: as many as the system gives, once they are needed, and what the process was given for
//! its commands.
//!
//! A server of thousands of streams needs more descriptors than the soft limit, which is 1,024 as a rule. A program may
//! count on its own being small: one that closes all descriptors up to it takes seconds where it is a million, and
//! `select` takes none from 1,024 on. So the limit is raised once half of it is used, and what is started after that has
//! the first one: that takes a fork, which is slower than what starts commands before.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// What the process began with, where it may be raised.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();
static IS_RAISED: AtomicBool = AtomicBool::new(false);

/// Lets the soft limit of this process be raised to its hard one when many files are open. For the binaries: the whole
/// process is changed by it. Gives how many may be open then; None: any number.
pub fn permit() -> Option<u64> {
    GIVEN.get_or_init(|| getrlimit(Resource::Nofile)).maximum
}

/// Tells that about as many files are open, so that there is room before it is missed. The system gives the lowest
/// number that is free, so the number of a new descriptor tells that, too.
pub fn opened(files: u64) {
    let Some(given) = GIVEN.get() else { return };
    let enough = given.current.is_none_or(|soft| files < soft / 2);
    if enough || given.current == given.maximum || IS_RAISED.swap(true, Ordering::SeqCst) {
        return;
    }
    let raised = Rlimit { current: given.maximum, ..*given };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(open_files = given.maximum, "many files are open: more may be now"),
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}

/// What commands are to have, where this process has another limit.
#[cfg(feature = "local")]
pub(crate) fn for_commands() -> Option<Rlimit> {
    GIVEN.get().copied().filter(|_| IS_RAISED.load(Ordering::SeqCst))
}
