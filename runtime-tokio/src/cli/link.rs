//! A connection to a process that comes back by itself when it breaks.

use super::{Failure, returning::Returning, say};
use bytes::Bytes;
use hangar::TokioRuntime;
use hangar_backends::{
    Runtime,
    runtime::{BoxFuture, Deadline, until},
};
use hangar_core::{
    Time,
    log::Channel,
    wire::process::{EndView, GapView, View},
};
use hangar_transports::{
    client::{Begin, Client, ClientError, ProcessSocket, SocketEvent},
    plane::tickets::Mode,
};
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
    time::Duration,
};

/// How long the last of the input may take to reach the server before another connection is made.
const LEAVE: Duration = Duration::from_secs(30);

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Which process, and how it is followed.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) sandbox: String,
    pub(super) process: String,
    pub(super) mode: Mode,
    pub(super) begin: Begin,
    /// How long it is tried to come back.
    pub(super) give_up: Duration,
}

/// What a process that is followed tells.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// It is connected: the first time, or again.
    Ready(Box<View>),
    /// Output.
    Output { channel: Channel, bytes: Bytes },
    /// Output that is gone.
    Gap(GapView),
    /// It is over.
    End(EndView),
}

/// A connection that comes back.
pub(super) struct Link {
    client: Client,
    runtime: TokioRuntime,
    target: Target,
    state: State,
    returning: Returning,
    /// The byte that comes next, where that is known: a server that is asked by a frame's number does not know how many
    /// bytes are missing after it.
    next: Option<u64>,
    /// The loss was said.
    said: bool,
    /// The stream came to an end of its own, and there is another for the rest.
    rolls_over: bool,
    /// It was connected once: what is refused before that is refused for good.
    was_ready: bool,
}

enum State {
    Connecting(BoxFuture<'static, Result<ProcessSocket, ClientError>>),
    Open(Box<ProcessSocket>),
    /// The stream has ended and the process has not: what was sent on it arrives before anything else is sent.
    Leaving(Box<ProcessSocket>, Time, Deadline),
    Waiting(Time, Deadline),
}

impl Link {
    pub(super) fn new(client: Client, runtime: TokioRuntime, target: Target) -> Self {
        let state = State::Connecting(connect(&client, &runtime, &target));
        let next = (target.begin == Begin::After(0)).then_some(0);
        let returning = Returning::new(target.give_up);
        Self {
            client,
            runtime,
            target,
            state,
            returning,
            next,
            said: false,
            rolls_over: false,
            was_ready: false,
        }
    }

    /// The socket, while there is one that takes input.
    pub(super) fn socket(&mut self) -> Option<&mut ProcessSocket> {
        match &mut self.state {
            State::Open(socket) if !self.rolls_over => Some(socket),
            State::Open(_) | State::Connecting(_) | State::Leaving(..) | State::Waiting(..) => None,
        }
    }

    pub(super) async fn next(&mut self) -> Result<LinkEvent, Failure> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// What comes next. After [`LinkEvent::End`] or a failure there is nothing.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<LinkEvent, Failure>> {
        loop {
            match &mut self.state {
                State::Waiting(at, deadline) => {
                    ready!(deadline.poll(&self.runtime, Some(*at), cx));
                    self.state = State::Connecting(connect(&self.client, &self.runtime, &self.target));
                }
                State::Connecting(connecting) => match ready!(connecting.as_mut().poll(cx)) {
                    Ok(socket) => self.state = State::Open(Box::new(socket)),
                    Err(error) => self.come_back(&error)?,
                },
                State::Leaving(socket, until, deadline) => {
                    if socket.poll_leave(cx).is_pending() {
                        ready!(deadline.poll(&self.runtime, Some(*until), cx));
                    }
                    self.come_back(&ended("limit"))?;
                }
                State::Open(socket) => match ready!(socket.poll_next(cx)) {
                    Ok(event) => {
                        if let Some(event) = self.handle(event)? {
                            return Poll::Ready(Ok(event));
                        }
                    }
                    Err(error) => {
                        self.say_lost(&error);
                        self.come_back(&error)?;
                    }
                },
            }
        }
    }

    fn handle(&mut self, event: SocketEvent) -> Result<Option<LinkEvent>, Failure> {
        match event {
            SocketEvent::Ready { process, .. } => {
                if std::mem::take(&mut self.said) {
                    say("the connection is back");
                }
                // Nothing had come to go on after, so it begins anew.
                if self.was_ready && matches!(self.target.begin, Begin::Usual | Begin::Lines(_)) {
                    say("… some of what was printed meanwhile may be gone");
                }
                self.returning.came_back();
                self.was_ready = true;
                Ok(Some(LinkEvent::Ready(process)))
            }
            SocketEvent::Frame { seq, channel, bytes } => {
                self.target.begin = Begin::After(seq);
                self.returning.has_gone_on();
                self.next = self.next.map(|next| next + bytes.len() as u64);
                Ok(Some(LinkEvent::Output { channel, bytes }))
            }
            SocketEvent::Gap(mut gap) => {
                gap.bytes = gap.bytes.or_else(|| gap.to_offset.checked_sub(self.next?));
                self.next = Some(gap.to_offset);
                // So that it is told once.
                self.target.begin = Begin::After(gap.to_seq.saturating_sub(1));
                Ok(Some(LinkEvent::Gap(gap)))
            }
            // The stream's end and not the process's: there is another.
            SocketEvent::End(EndView { reason, .. }) if matches!(&*reason, "limit" | "lifetime") => {
                self.rolls_over = true;
                Ok(None)
            }
            // A server that is started again may know it.
            SocketEvent::End(EndView { reason, .. }) if reason == "server_shutdown" => {
                let error = ended(&reason);
                self.say_lost(&error);
                self.come_back(&error).map(|()| None)
            }
            SocketEvent::End(end) => Ok(Some(LinkEvent::End(end))),
            SocketEvent::Closed { .. } if std::mem::take(&mut self.rolls_over) => {
                self.leave();
                Ok(None)
            }
            SocketEvent::Closed { code: 1008, reason } => {
                Err(Failure::new(format!("the server closed the connection: {reason}")))
            }
            SocketEvent::Closed { reason, .. } => {
                let error = ended(&reason);
                if reason != "slow_consumer" {
                    self.say_lost(&error);
                }
                self.come_back(&error).map(|()| None)
            }
        }
    }

    /// Lets what was sent arrive.
    fn leave(&mut self) {
        let now = self.runtime.now();
        match std::mem::replace(&mut self.state, State::Waiting(now, Deadline::default())) {
            State::Open(socket) => self.state = State::Leaving(socket, now + LEAVE, Deadline::default()),
            other @ (State::Connecting(_) | State::Leaving(..) | State::Waiting(..)) => self.state = other,
        }
    }

    fn say_lost(&mut self, error: &ClientError) {
        if self.was_ready && !std::mem::replace(&mut self.said, true) {
            self.returning.say_lost(error);
        }
    }

    /// Waits for the next attempt, where there is one.
    fn come_back(&mut self, error: &ClientError) -> Result<(), Failure> {
        if !self.was_ready || is_final(error) {
            return Err(Failure::new(error));
        }
        self.rolls_over = false;
        let at = self.returning.next_attempt(self.runtime.now(), error)?;
        self.state = State::Waiting(at, Deadline::default());
        Ok(())
    }
}

fn ended(reason: &str) -> ClientError {
    ClientError::Lost(io::Error::other(format!("the server closed it ({reason})")))
}

/// Whether to try again is of no use: nobody may follow it, or there is nothing to follow.
fn is_final(error: &ClientError) -> bool {
    match error {
        // The ticket was used by an attempt whose answer was lost, or is too old; the next attempt has another.
        ClientError::Refused { code, .. } if code == "bad_ticket" => false,
        ClientError::Refused { status, .. } => matches!(status.as_u16(), 401 | 404 | 410),
        ClientError::BadToken => true,
        ClientError::Unreachable { .. }
        | ClientError::Broken(_)
        | ClientError::Lost(_)
        | ClientError::Unexpected(_)
        | ClientError::CutShort => false,
    }
}

/// With a ticket of its own.
fn connect(
    client: &Client,
    runtime: &TokioRuntime,
    target: &Target,
) -> BoxFuture<'static, Result<ProcessSocket, ClientError>> {
    let (client, runtime, target) = (client.clone(), runtime.clone(), target.clone());
    Box::pin(async move {
        let at = runtime.now() + ATTEMPT;
        let connected = until(&runtime, at, async {
            let access = client.stream_access(&target.sandbox, &target.process, target.mode).await?;
            client.open_socket(&access.token, target.begin).await
        });
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the server does not answer");
        connected.await.unwrap_or_else(|| Err(ClientError::Lost(late())))
    })
}

/// What a gap lost, for a person.
pub(super) fn say_gap(gap: &GapView) {
    match gap.bytes {
        Some(bytes) => say(format_args!("… {bytes} bytes of output are gone")),
        None => say("… some of the output is gone"),
    }
}
