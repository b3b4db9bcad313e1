//! The methods of `process.Process` that give a process input.
//!
//! Input waits in a queue of 1 MiB. A process that does not read holds up who writes to it, within the time for the call, and
//! nobody else: to close its input or to kill it never waits.

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
use std::{future::poll_fn, sync::Arc};

/// Gives a process input.
pub(super) async fn send(daemon: &Daemon, request: SendInputRequest) -> Result<Empty, RpcError> {
    let entry = daemon.find_running(request.process)?;
    write(&entry, request.input).await?;
    Ok(Empty {})
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
                write(entry.as_ref().ok_or_else(first)?, data.input).await?;
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

async fn write(entry: &Entry, input: Option<ProcessInput>) -> Result<(), RpcError> {
    let data = match (input.unwrap_or_default().one()?, entry.is_tty) {
        (Input::Stdin(data), false) | (Input::Pty(data), true) => data,
        (Input::Stdin(_), true) => return Err(refused("input.stdin: the process has a terminal; send pty")),
        (Input::Pty(_), false) => return Err(refused("input.pty: the process has no terminal; send stdin")),
    };
    // Who came first writes first, and all of it.
    let _turn = entry.input.lock().await;
    let mut rest = Some(data);
    let reading = entry.handle.reader();
    while let Some(data) = rest.take() {
        rest = entry.handle.command(|process| match process.takes_stdin() {
            true => Ok(process.write_stdin(data)),
            false => Err(refused("input: the process takes none, or no more")),
        })?;
        if rest.is_some() {
            let has_room = |process: &Process| process.stdin_room() > 0 || !process.takes_stdin();
            poll_fn(|cx| reading.poll_until(cx.waker(), has_room)).await;
        }
    }
    Ok(())
}

fn refused(message: &'static str) -> RpcError {
    RpcError::new(Code::FailedPrecondition, message)
}
