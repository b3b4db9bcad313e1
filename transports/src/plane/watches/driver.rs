//! The task of one watch: takes what its sandbox tells, until nobody wants it.

use super::{
    LINGER, Watched, Watches,
    inner::{Inner, Taken},
};
use hangar_backends::{Runtime, runtime::Deadline, watching::Watching};
use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

/// Changes that are taken in one turn of the task.
const TURN: usize = 128;

pub(super) async fn drive(
    watched: Arc<Watched>,
    watching: Box<dyn Watching>,
    watches: Weak<Watches>,
    runtime: Arc<dyn Runtime>,
) {
    let mut driver =
        Driver { watched, watching: Some(watching), watches, runtime, linger: Deadline::default() };
    poll_fn(|cx| driver.poll(cx)).await;
}

struct Driver {
    watched: Arc<Watched>,
    /// None once it is over.
    watching: Option<Box<dyn Watching>>,
    watches: Weak<Watches>,
    runtime: Arc<dyn Runtime>,
    linger: Deadline,
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (retells, is_over, is_gone, left_at) = self.watched.look(|inner| {
            (inner.drive(cx.waker()), inner.over().is_some(), inner.is_gone(), inner.left_at())
        });
        if is_gone {
            return Poll::Ready(());
        }
        if is_over {
            self.watching = None;
        }
        if let Some(left_at) = left_at
            && self.linger.poll(&*self.runtime, Some(left_at + LINGER), cx).is_ready()
        {
            let now = self.runtime.now();
            // Without a table there is nobody who could come back.
            if self.watches.upgrade().is_none_or(|all| all.remove_if_left(&self.watched, LINGER, now)) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
        }
        if let Some(watching) = self.watching.as_mut().filter(|_| retells) {
            watching.retell();
        }
        if self.take(cx) {
            self.watched.bell().ring();
        }
        Poll::Pending
    }

    /// Takes what there is. Whether it took anything.
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(watching) = self.watching.as_mut().filter(|_| self.watched.look(Inner::has_room)) else {
            return false;
        };
        let now = self.runtime.wall_ms();
        for taken in 0..TURN {
            let Poll::Ready(change) = watching.poll_change(cx) else { return taken > 0 };
            match self.watched.push(change, now) {
                Taken::More => {}
                Taken::Full => return true,
                Taken::Over => {
                    self.watching = None;
                    return true;
                }
            }
        }
        // Others have their turn in between.
        cx.waker().wake_by_ref();
        true
    }
}
