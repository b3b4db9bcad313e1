//! The runtime contract, on tokio and on smol: with threads, and with the caller's thread alone.

use async_executor::Executor;
use hangar_backends::{Runtime, runtime::sleep_until};
use hangar_core::Time;
use hangar_tests::runtime_contract::{descriptors::*, sockets::*, tasks::*, timers::*, within};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::oneshot::{self, error::TryRecvError};

fn tokio<F: Future<Output = io::Result<()>>>(check: impl FnOnce(Arc<dyn Runtime>) -> F + Send + 'static) {
    within(|| {
        let threads = hangar::Threads::new().expect("it starts");
        threads.block_on(check(Arc::new(threads.runtime()))).expect("no system call fails");
    });
}

fn smol<F: Future<Output = io::Result<()>>>(
    count: usize,
    check: impl FnOnce(Arc<dyn Runtime>) -> F + Send + 'static,
) {
    within(move || {
        let threads = hangar_smol::Threads::new(count).expect("it starts");
        threads.block_on(check(Arc::new(threads.runtime()))).expect("no system call fails");
    });
}

macro_rules! on_each_runtime {
    ($($check:ident)*) => {
        mod on_tokio { $(#[test] fn $check() { super::tokio(super::$check); })* }
        mod on_smol { $(#[test] fn $check() { super::smol(2, super::$check); })* }
        mod on_smol_alone { $(#[test] fn $check() { super::smol(0, super::$check); })* }
    };
}

on_each_runtime! {
    clocks_are_sane
    a_timer_fires
    a_timer_for_never_does_not_fire
    a_timer_moves_to_earlier
    a_timer_moves_to_later
    a_timer_moves_between_tasks
    many_timers_fire
    tasks_run
    a_panic_stays_in_its_task
    blocking_work_runs_aside
    random_differs
    names_resolve
    tcp_echoes
    unix_echoes
    tcp_addresses_are_checked
    a_stale_socket_file_is_replaced
    a_socket_file_goes_with_its_listener
    a_pipe_is_read_to_its_end
    a_pipe_that_has_ended_is_read
    a_full_pipe_is_waited_for
    an_error_comes_back
    a_directory_is_refused
    the_last_waker_is_woken
    a_terminal_hangs_up
    a_process_is_waited_for
}

/// On what somebody else runs: in a tokio, on an executor with threads of its owner's.
#[test]
fn embedded() {
    within(|| {
        let threads = hangar::Threads::new().unwrap();
        threads.block_on(async { tasks_run(Arc::new(hangar::TokioRuntime::current())).await }).unwrap();

        let executor = Arc::new(Executor::new());
        let runtime = hangar_smol::SmolRuntime::new(&executor);
        let theirs = executor.clone();
        async_io::block_on(theirs.run(tasks_run(Arc::new(runtime)))).unwrap();
    });
}

/// Tasks end with the threads although they hold their runtime, and one that is spawned later does not start.
#[test]
fn tasks_end_with_their_threads() {
    fn endless(runtime: Arc<dyn Runtime>) -> oneshot::Receiver<()> {
        let (held, dropped) = oneshot::channel();
        let inner = runtime.clone();
        runtime.spawn(Box::pin(async move {
            let _held: oneshot::Sender<()> = held;
            sleep_until(&*inner, Time::from_nanos(u64::MAX)).await;
        }));
        dropped
    }
    fn ends(runtime: Arc<dyn Runtime>, end: impl FnOnce()) {
        let mut before = endless(runtime.clone());
        assert_eq!(before.try_recv(), Err(TryRecvError::Empty));
        end();
        assert_eq!(before.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(endless(runtime).try_recv(), Err(TryRecvError::Closed));
    }
    within(|| {
        let threads = hangar::Threads::new().unwrap();
        ends(Arc::new(threads.runtime()), || drop(threads));
        let threads = hangar::Threads::new().unwrap();
        ends(Arc::new(threads.runtime()), || threads.shutdown(Duration::from_secs(5)));
        let threads = hangar_smol::Threads::new(2).unwrap();
        ends(Arc::new(threads.runtime()), || drop(threads));
    });
}
