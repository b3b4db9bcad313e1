//! A thread of the server that does something as another user.
//!
//! On Linux every thread has ids of its own, and what this changes are those of the calling thread alone: its groups, its
//! effective group and its effective user. The real and the saved user stay the server's, so nobody whose user it acts as
//! can send it a signal or trace it, and so it can become the server again.

use super::{User, user::is_root};
use rustix::{
    io,
    process::{getegid, geteuid, getgroups},
    thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use std::{marker::PhantomData, process::abort};

/// The server cannot act as this user: it does not run as root, or it runs as a root that may not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct CannotAct;

/// Runs `work` on this thread as `user`: what they may do is what it may do, and what it creates is theirs. The thread is
/// itself again when this returns, and when `work` panics; if that cannot be, the process is aborted, as the thread would
/// go on as somebody else. For the user of the server nothing changes.
pub(super) fn as_user<T>(user: &User, work: impl FnOnce() -> T) -> Result<T, CannotAct> {
    let _acting = if user.is_current() { None } else { Some(Acting::begin(user)?) };
    Ok(work())
}

/// The ids of a user as the system takes them.
pub(super) struct Ids {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) groups: Vec<Gid>,
}

impl Ids {
    /// None for a number of all ones: that is no id, and where one is set it stands for "leave it as it is".
    pub(super) fn of(user: &User) -> Option<Self> {
        let is_id = |id: &u32| *id != u32::MAX;
        if !is_id(&user.uid) || !is_id(&user.gid) || !user.groups.iter().all(is_id) {
            return None;
        }
        let groups = user.groups.iter().copied().map(Gid::from_raw).collect();
        Some(Self { uid: Uid::from_raw(user.uid), gid: Gid::from_raw(user.gid), groups })
    }

    fn take(&self) -> io::Result<()> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(None, self.gid, None)?;
        // The last: with it go the rights to do the others.
        set_thread_res_uid(None, self.uid, None)
    }

    fn take_back(&self) -> io::Result<()> {
        // The user first: only root may take the others back.
        set_thread_res_uid(None, self.uid, None)?;
        set_thread_res_gid(None, self.gid, None)?;
        set_thread_groups(&self.groups)
    }
}

/// While this is there, the thread is somebody else.
struct Acting {
    own: Ids,
    /// It is about the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Acting {
    fn begin(user: &User) -> Result<Self, CannotAct> {
        let theirs = Ids::of(user).filter(|_| is_root()).ok_or(CannotAct)?;
        let groups = getgroups().map_err(|_| CannotAct)?;
        // From here on whatever goes wrong is taken back by the drop.
        let acting = Self { own: Ids { uid: geteuid(), gid: getegid(), groups }, _thread: PhantomData };
        theirs.take().map_err(|_| CannotAct)?;
        Ok(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.own.take_back().is_err() {
            abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn ids() -> (u32, u32, Vec<u32>) {
        let groups = getgroups().unwrap();
        (geteuid().as_raw(), getegid().as_raw(), groups.into_iter().map(Gid::as_raw).collect())
    }

    #[test]
    fn a_thread_is_somebody_else_and_then_itself_again() {
        if !is_root() {
            println!("skipped: not root");
            return;
        }
        let games = User { groups: vec![60, 7, 9], ..User::named("games").unwrap() };
        let own = ids();
        // The system keeps groups in order.
        assert_eq!(as_user(&games, ids), Ok((games.uid, games.gid, vec![7, 9, 60])));
        assert_eq!(ids(), own);
        let other = as_user(&games, || std::thread::spawn(|| 0).join().unwrap()).unwrap();
        assert_eq!((ids(), other), (own.clone(), 0));
        let panicked = catch_unwind(AssertUnwindSafe(|| as_user(&games, || panic!("as another"))));
        assert!(panicked.is_err());
        assert_eq!(ids(), own);
    }

    #[test]
    fn a_user_that_the_system_does_not_take_is_an_error_and_nothing_stays_changed() {
        if !is_root() {
            println!("skipped: not root");
            return;
        }
        let own = ids();
        let games = User::named("games").unwrap();
        for none in [
            User { uid: u32::MAX, ..games.clone() },
            User { gid: u32::MAX, ..games.clone() },
            User { groups: vec![60, u32::MAX], ..games.clone() },
            // More than the system takes.
            User { groups: (0..70_000).collect(), ..games.clone() },
        ] {
            assert_eq!(as_user(&none, ids), Err(CannotAct));
            assert_eq!(ids(), own);
        }
    }

    #[test]
    fn only_root_acts_as_another() {
        if !is_root() {
            let other = User { uid: 0, ..User::current() };
            assert_eq!(as_user(&other, ids), Err(CannotAct));
            return;
        }
        let (nobody, games) = (User::named("nobody").unwrap(), User::named("games").unwrap());
        assert_eq!(as_user(&nobody, || as_user(&games, ids)), Ok(Err(CannotAct)));
        assert_eq!(as_user(&nobody, || as_user(&nobody, || 7)), Ok(Ok(7)));
    }
}
