//! The clocks and the timers.

use super::Wakes;
use hangar_backends::runtime::{Runtime, Timer, sleep_until, until};
use hangar_core::Time;
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{mpsc, oneshot};

const SHORT: Duration = Duration::from_millis(20);
/// Longer than a check may take: a timer set for then has not fired by itself.
const LONG: Duration = Duration::from_secs(3600);

type BoxTimer = Pin<Box<dyn Timer>>;

fn poll(timer: &mut BoxTimer, cx: &mut Context<'_>) -> Poll<()> {
    timer.as_mut().poll(cx)
}

async fn fired(timer: &mut BoxTimer) {
    poll_fn(|cx| poll(timer, cx)).await;
}

/// Polls it once, as part of the task that awaits this.
async fn is_pending(timer: &mut BoxTimer) -> bool {
    poll_fn(|cx| Poll::Ready(poll(timer, cx).is_pending())).await
}

/// The monotonic clock moves on; the wall clock is the system's.
pub async fn clocks_are_sane(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let before = runtime.now();
    sleep_until(&*runtime, before + SHORT).await;
    assert!(runtime.now() >= before + SHORT);

    let system = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let wall = Duration::from_millis(u64::try_from(runtime.wall_ms()).map_err(io::Error::other)?);
    assert!(wall.abs_diff(system) < Duration::from_secs(5), "{wall:?} is not {system:?}");
    Ok(())
}

/// A timer does not fire early, fires, stays ready, and one in the past is ready at once.
pub async fn a_timer_fires(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let at = runtime.now() + SHORT;
    let mut timer = runtime.timer(at);
    fired(&mut timer).await;
    assert!(runtime.now() >= at);
    assert!(!is_pending(&mut timer).await, "a timer that has fired is ready");
    fired(&mut runtime.timer(Time::ZERO)).await;
    Ok(())
}

/// The end of time never comes, and disturbs no other timer.
pub async fn a_timer_for_never_does_not_fire(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let never = Time::from_nanos(u64::MAX);
    let short = runtime.now() + SHORT;
    assert_eq!(until(&*runtime, short, sleep_until(&*runtime, never)).await, None);
    Ok(())
}

/// A timer that is waited for can be moved to earlier.
pub async fn a_timer_moves_to_earlier(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let mut timer = runtime.timer(runtime.now() + LONG);
    assert!(is_pending(&mut timer).await);
    timer.as_mut().reset(runtime.now() + SHORT);
    fired(&mut timer).await;
    Ok(())
}

/// A timer that is waited for can be moved to later, and one that has fired can be used again.
pub async fn a_timer_moves_to_later(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let soon = runtime.now() + SHORT;
    let mut timer = runtime.timer(soon);
    assert!(is_pending(&mut timer).await);
    timer.as_mut().reset(soon + LONG);
    assert!(is_pending(&mut timer).await);
    sleep_until(&*runtime, soon + SHORT).await;
    assert!(is_pending(&mut timer).await, "it fired for the time that it was moved away from");

    for _ in 0..3 {
        let at = runtime.now() + SHORT;
        timer.as_mut().reset(at);
        fired(&mut timer).await;
        assert!(runtime.now() >= at);
    }
    Ok(())
}

/// The task that polled last is woken, also where another one has polled before.
pub async fn a_timer_moves_between_tasks(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let mut timer = runtime.timer(runtime.now() + SHORT);
    let (first, waker) = Wakes::waker();
    assert!(poll(&mut timer, &mut Context::from_waker(&waker)).is_pending());

    let (done, result) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        fired(&mut timer).await;
        done.send(timer).ok();
    }));
    let mut timer = result.await.map_err(io::Error::other)?;
    assert_eq!(first.count(), 0, "the first task was woken, which had given the timer away");

    // Moved, and then given away: the new time and the new waker.
    timer.as_mut().reset(runtime.now() + LONG);
    assert!(poll(&mut timer, &mut Context::from_waker(&waker)).is_pending());
    timer.as_mut().reset(runtime.now() + SHORT);
    fired(&mut timer).await;
    Ok(())
}

/// Two hundred timers at random times within a second all fire, and none more than five seconds late. Half of them
/// are moved on the way.
pub async fn many_timers_fire(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    const COUNT: u64 = 200;
    let (late, mut results) = mpsc::unbounded_channel();
    for index in 0..COUNT {
        let mut random = [0; 2];
        runtime.random(&mut random);
        let at = runtime.now() + Duration::from_micros(u64::from(u16::from_le_bytes(random)) * 15);
        let (late, timers) = (late.clone(), runtime.clone());
        runtime.spawn(Box::pin(async move {
            let mut timer = timers.timer(at);
            if index % 2 == 0 {
                timer.as_mut().reset(at + LONG);
                is_pending(&mut timer).await;
                timer.as_mut().reset(at);
            }
            fired(&mut timer).await;
            late.send(timers.now().since(at)).ok();
        }));
    }
    drop(late);
    let mut fired = 0;
    while let Some(late) = results.recv().await {
        assert!(late < Duration::from_secs(5), "{late:?} late");
        fired += 1;
    }
    assert_eq!(fired, COUNT);
    Ok(())
}
