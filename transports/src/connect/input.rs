//! The methods of `process.Process` that give a process input.
//!
//! Input waits in a queue ([`MAX_WAITING`]). A process that does not read holds up who writes to it, within the time for the
//! call, and nobody else: to close its input or to kill it never waits.

use super::{Body, Daemon, answer, call::Call, head::Head, messages::Messages, process::Entry};
use bytes::BytesMut;
use hangar_core::{
    process::Process,
    wire::{
        connect::{Code, RpcError, envelope},
        envd::{
            self,
            process::{CloseStdinRequest, Empty, Input, ProcessInput, SendInputRequest, StreamInputRequest},
        },
    },
};
use hyper::{Request, Response, body::Incoming};
use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes of input that may wait for a process.
pub(super) const MAX_WAITING: usize = 1024 * 1024;

/// Gives a process input.
pub(super) async fn send(call: &Call<'_>, head: &Head, request: SendInputRequest) -> Result<Empty, RpcError> {
    let entry = call.daemon.find_running(request.process)?;
    let taken = AtomicUsize::new(0);
    let written = call.within(head.deadline, write(&entry, request.input, &taken)).await;
    // Of more than fits at once a part may be taken: whoever sends it again has to know.
    written.map(|()| Empty {}).map_err(|error| match taken.load(Ordering::Relaxed) {
        0 => error,
        taken => RpcError::new(error.code, format!("{}; the first {taken} bytes were taken", error.message)),
    })
}

/// Closes the input of a process.
pub(super) fn close(daemon: &Daemon, request: CloseStdinRequest) -> Result<Empty, RpcError> {
    let entry = daemon.find_running(request.process)?;
    if entry.is_tty {
        let message = "a terminal has no end; send the character that means it to programs: Ctrl+D (0x04)";
        return Err(RpcError::new(Code::FailedPrecondition, message));
    }
    entry.handle.command(Process::close_stdin);
    Ok(Empty {})
}

/// Gives processes input as it comes.
pub(super) async fn stream(
    call: &Call<'_>,
    head: &Head,
    request: &mut Request<Incoming>,
) -> Result<Response<Body>, RpcError> {
    let mut messages = Messages::new(call.daemon, request.body_mut());
    let pass_on = async {
        let mut entry: Option<Arc<Entry>> = None;
        while let Some(message) = messages.next().await? {
            let message: StreamInputRequest = envd::decode(head.codec, &message.data)?;
            if let Some(start) = message.start {
                entry = Some(call.daemon.find_running(start.process)?);
            }
            if let Some(data) = message.data {
                let first = || RpcError::new(Code::InvalidArgument, "start: must come before data");
                write(entry.as_ref().ok_or_else(first)?, data.input, &AtomicUsize::new(0)).await?;
            }
        }
        Ok(())
    };
    call.within(head.deadline, pass_on).await?;
    let mut out = BytesMut::new();
    envelope::write(0, &mut out, |out| envd::encode(head.codec, &Empty {}, out));
    answer::end(None, &mut out);
    Ok(answer::stream(head.codec, Body::from(out.freeze())))
}

/// Writes all of a piece of input once there is room for all of it, and in parts only what never has; `taken` says how much
/// was.
async fn write(entry: &Entry, input: Option<ProcessInput>, taken: &AtomicUsize) -> Result<(), RpcError> {
    let mut data = match (input.unwrap_or_default().one()?, entry.is_tty) {
        (Input::Stdin(data), false) | (Input::Pty(data), true) => data,
        (Input::Stdin(_), true) => return Err(refused("input.stdin: the process has a terminal; send pty")),
        (Input::Pty(_), false) => return Err(refused("input.pty: the process has no terminal; send stdin")),
    };
    // Who came first writes first, and all of it.
    let _turn = entry.input.lock().await;
    let reading = entry.handle.reader();
    let piece = data.len().min(MAX_WAITING);
    loop {
        let has_room =
            |process: &Process| process.stdin_room() >= piece.min(data.len()) || !process.takes_stdin();
        poll_fn(|cx| reading.poll_until(cx.waker(), has_room)).await;
        let now = data.split_to(piece.min(data.len()));
        let len = now.len();
        entry.handle.command(|process| match process.takes_stdin() {
            true => {
                let rest = process.write_stdin(now);
                debug_assert!(rest.is_none(), "there was room for all of it");
                Ok(())
            }
            false => Err(refused("input: the process takes none, or no more")),
        })?;
        taken.fetch_add(len, Ordering::Relaxed);
        if data.is_empty() {
            return Ok(());
        }
    }
}

fn refused(message: &'static str) -> RpcError {
    RpcError::new(Code::FailedPrecondition, message)
}
