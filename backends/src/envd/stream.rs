//! A stream about a process, as it comes.

use crate::{Runtime, runtime::Deadline};
use hangar_core::{
    Time,
    wire::{
        connect::{Codec, Decoder, End, RpcError},
        envd::{
            Message, decode,
            process::{ProcessEvent, StartResponse},
        },
    },
};
use hyper::body::{Body as _, Incoming};
use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The longest message. A daemon's are of 32 KiB.
const MAX_MESSAGE: u32 = 4 * 1024 * 1024;

/// Without a byte for this long, more than twice the time between two signs of life, the connection is dead.
const SILENCE: Duration = Duration::from_secs(50);

/// Messages out of a connection.
pub(super) struct MessageStream<M> {
    body: Incoming,
    decoder: Decoder,
    message: PhantomData<fn() -> M>,
    /// By when the next byte has to be there; None while nobody waits for one.
    until: Option<Time>,
    silence: Deadline,
}

/// The events of a process.
pub(super) type EventStream = MessageStream<StartResponse>;

/// Why a stream has no more messages.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Lost {
    /// It stopped without its end.
    #[error("the stream was cut: {0}")]
    Cut(String),
    /// The daemon ended it, all being well or not.
    #[error("the daemon ended the stream: {}", .0.as_ref().map_or_else(|| "all is well".to_owned(), ToString::to_string))]
    Ended(Option<RpcError>),
}

impl<M: Message> MessageStream<M> {
    pub(super) fn new(body: Incoming) -> Self {
        let decoder = Decoder::new(MAX_MESSAGE);
        Self { body, decoder, message: PhantomData, until: None, silence: Deadline::default() }
    }

    /// Nobody waits for what comes next: it is no silence.
    pub(super) const fn pause(&mut self) {
        self.until = None;
    }

    /// The next message.
    pub(super) fn poll_message(
        &mut self,
        runtime: &dyn Runtime,
        cx: &mut Context<'_>,
    ) -> Poll<Result<M, Lost>> {
        loop {
            if let Some(envelope) = self.decoder.next_envelope().map_err(|error| cut(&error))? {
                if envelope.is_compressed() {
                    return Poll::Ready(Err(cut(&"a message is compressed, which was not asked for")));
                }
                if envelope.is_end() {
                    let end = End::parse(&envelope.data).map_err(|error| cut(&error))?;
                    return Poll::Ready(Err(Lost::Ended(end.error)));
                }
                return Poll::Ready(decode(Codec::Proto, &envelope.data).map_err(|error| cut(&error)));
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                let until = *self.until.get_or_insert_with(|| runtime.now() + SILENCE);
                ready!(self.silence.poll(runtime, Some(until), cx));
                let silence = format!("there was no sign of life for {} s", SILENCE.as_secs());
                return Poll::Ready(Err(Lost::Cut(silence)));
            };
            self.until = None;
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(cut(&error))),
                None => return Poll::Ready(Err(cut(&"the connection ended"))),
            }
        }
    }

    /// The same, to be awaited.
    pub(super) async fn message(&mut self, runtime: &dyn Runtime) -> Result<M, Lost> {
        std::future::poll_fn(|cx| self.poll_message(runtime, cx)).await
    }
}

impl EventStream {
    /// The next event.
    pub(super) fn poll_next(
        &mut self,
        runtime: &dyn Runtime,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ProcessEvent, Lost>> {
        loop {
            if let Some(event) = ready!(self.poll_message(runtime, cx))?.event {
                return Poll::Ready(Ok(event));
            }
        }
    }

    /// The same, to be awaited.
    pub(super) async fn next(&mut self, runtime: &dyn Runtime) -> Result<ProcessEvent, Lost> {
        std::future::poll_fn(|cx| self.poll_next(runtime, cx)).await
    }
}

fn cut(why: &dyn ToString) -> Lost {
    Lost::Cut(why.to_string())
}
