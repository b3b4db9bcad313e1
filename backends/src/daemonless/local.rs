//! This machine as a provider.

use super::{
    held::Held,
    provider::{Call, Provider, Ran, Running},
};
use crate::{
    Handle, Sandbox,
    handle::Reading,
    local::LocalSandbox,
    runtime::BoxFuture,
    sandbox::{SandboxError, Spec, StartError, Stdin},
};
use hangar_core::{
    log::{Item, Reader, Retention},
    process::{Config, Exit, Process},
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Bytes that a command may be ahead of who reads it.
const AHEAD: usize = 256 * 1024;

/// Runs commands in a [`LocalSandbox`] as if nothing could be told of them before their end.
#[derive(Debug)]
pub struct LocalProvider(LocalSandbox);

impl LocalProvider {
    /// Commands run as in `sandbox`.
    pub const fn new(sandbox: LocalSandbox) -> Self {
        Self(sandbox)
    }
}

impl Provider for LocalProvider {
    fn exec(&self, call: Call) -> BoxFuture<'_, Result<Running, StartError>> {
        Box::pin(async {
            let Call { id, command, cwd, env, user, stdin } = call;
            let process = Config { retention: Retention::UntilRead { bytes: AHEAD }, ..Config::default() };
            let stdin = stdin.map_or(Stdin::None, Stdin::Given);
            let spec = Spec { id, command, cwd, env, user, stdin, process, tag: None };
            let running: Running = Box::pin(Following::new(&self.0.start(spec).await?));
            Ok(running)
        })
    }

    fn has_users(&self) -> bool {
        self.0.capabilities().users
    }

    fn ends_with_server(&self) -> bool {
        true
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        self.0.destroy()
    }
}

/// Reads a command to its end. Dropped before that, it ends it.
struct Following {
    reading: Reading,
    reader: Reader,
    output: Held,
}

impl Following {
    fn new(handle: &Arc<Handle>) -> Self {
        let reader = handle.command(|process| Reader::oldest(process.log_mut()));
        Self { reading: handle.reader(), reader, output: Held::default() }
    }
}

impl Future for Following {
    type Output = Ran;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran> {
        let Self { reading, reader, output } = self.get_mut();
        reading.read(cx.waker(), |process| {
            while let Some(item) = reader.take(process.log_mut()) {
                if let Item::Frame(frame) = item {
                    output.push(frame.channel, &frame.data);
                }
            }
            if !process.is_over() {
                return Poll::Pending;
            }
            output.finish();
            Poll::Ready(Ran {
                exit: process.exit_status().unwrap_or(Exit::Unknown),
                output: std::mem::take(output),
                drain_timed_out: process.drain_timed_out(),
            })
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.reading.handle().command(|process| {
            process.abandon_output();
            if !process.is_over() {
                Process::kill(process);
            }
        });
    }
}
