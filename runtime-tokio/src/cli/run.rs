//! `hangar run`: the plane in this process, and one command in it.

use super::{
    CommandLine, FAILED, Failure,
    follow::{NOBODY_READS, exit_code, show},
};
use clap::Args;
use hangar::{Threads, TokioRuntime, signals::StopSignals};
use hangar_backends::{Runtime, local::reaper, runtime::sleep_until, store::MemoryStore};
use hangar_core::{exec::Encoding, process::Process};
use hangar_transports::{
    Plane, Settings,
    plane::{
        exec::{Delivery, Event, ExecCall, ExecStream},
        local::Local,
        tokens::{Caller, Tokens},
    },
};
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

/// How long the last output of a command that was stopped may take to be shown.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    line: CommandLine,
}

impl Run {
    pub(super) fn main(self) -> Result<u8, Failure> {
        reaper::become_subreaper().map_err(Failure::new)?;
        let threads = Threads::new().map_err(Failure::new)?;
        let tokio = threads.runtime();
        let signals = StopSignals::listen(&tokio).map_err(Failure::new)?;
        let code = threads.block_on(self.follow(&tokio, signals));
        threads.shutdown(Duration::ZERO);
        code
    }

    async fn follow(self, tokio: &TokioRuntime, signals: StopSignals) -> Result<u8, Failure> {
        let runtime: Arc<dyn Runtime> = Arc::new(tokio.clone());
        let tokens = Tokens::load(None, Arc::new(MemoryStore::default())).await.map_err(Failure::new)?;
        let plane = Plane::new(Arc::clone(&runtime), Settings::default(), tokens);
        runtime.spawn(Box::pin(reaper::reap_orphans(Arc::clone(&runtime))));
        let here = std::env::current_dir().map_err(Failure::new)?;
        Local::new(Arc::clone(&runtime), None).offer_in(&plane, &here).map_err(Failure::new)?;
        let call = ExecCall {
            env: self.line.env(),
            command: self.line.command,
            cwd: self.line.cwd,
            user: None,
            timeout: self.line.timeout.map(Duration::from_secs_f64),
            stdin: None,
            // Bytes, exactly as they are printed.
            encoding: Encoding::Base64,
        };
        let stream = plane.exec(&Caller::owner(), "local", call, Delivery::Unlimited).await;
        let stream = stream.map_err(Failure::new)?;
        let stopped = watch(&stream, Arc::clone(&plane), signals);
        let printed = print(stream, &stopped).await;
        let stopped = stopped.load(Ordering::SeqCst);
        if stopped != 0 || !matches!(printed, Ok(Printed { by_itself: true, .. })) {
            // It did not come to its own end: what is left of it is ended before this process is.
            plane.drain_now().await;
        }
        // Who stopped it knows; the command may have ended in any way.
        Ok(if stopped == 0 { printed?.code } else { stopped })
    }
}

/// What became of a command whose output was shown.
struct Printed {
    code: u8,
    /// Nobody and nothing ended it.
    by_itself: bool,
}

/// Ends the command at the first signal to stop, and without a grace time at the second; then this process, as the
/// thread that shows the output may be held up by whoever reads it. Gives the exit code that goes with the signal; 0
/// until one comes.
fn watch(stream: &ExecStream, plane: Arc<Plane>, mut signals: StopSignals) -> Arc<AtomicU8> {
    let stopped = Arc::new(AtomicU8::new(0));
    let (handle, told) = (Arc::clone(stream.handle()), Arc::clone(&stopped));
    let runtime = Arc::clone(plane.runtime());
    runtime.spawn(Box::pin(async move {
        let stop = signals.next().await;
        told.store(stop.exit_code(), Ordering::SeqCst);
        handle.command(Process::kill);
        plane.runtime().spawn(Box::pin(async move {
            signals.next().await;
            handle.command(Process::close);
        }));
        plane.drain_now().await;
        // The thread that shows the output is given the time to show the last of it.
        sleep_until(&**plane.runtime(), plane.runtime().now() + LAST_OUTPUT).await;
        std::process::exit(stop.exit_code().into());
    }));
    stopped
}

async fn print(mut stream: ExecStream, stopped: &AtomicU8) -> Result<Printed, Failure> {
    loop {
        match poll_fn(|cx| stream.poll(cx)).await {
            Event::Output { channel, text } => {
                // Writing may block: this thread does nothing else, and the command waits meanwhile.
                if !show(channel, text.bytes())? {
                    return Ok(Printed { code: NOBODY_READS, by_itself: false });
                }
            }
            // How it ended is no news to whoever stopped it.
            Event::Result(_) if stopped.load(Ordering::SeqCst) != 0 => {
                return Ok(Printed { code: FAILED, by_itself: false });
            }
            Event::Result(result) => {
                let by_itself = !result.timed_out && result.closed.is_none();
                return Ok(Printed { code: exit_code(&result), by_itself });
            }
        }
    }
}
