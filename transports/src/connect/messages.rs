//! The messages of a request: its one body, or those of a stream.

use super::Daemon;
use bytes::Bytes;
use hangar_backends::runtime::until;
use hangar_core::{
    Time,
    wire::connect::{Code, Decoder, Envelope, RpcError},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The longest message.
const MAX_MESSAGE: u32 = 16 * 1024 * 1024;

/// A message has to be there within this, whatever the deadline of its call.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A body that is one message.
pub(super) async fn whole(daemon: &Daemon, body: &mut Incoming) -> Result<Bytes, RpcError> {
    whole_within(daemon, body, MAX_MESSAGE).await
}

/// A body that is one message of at most `max` bytes.
pub(super) async fn whole_within(daemon: &Daemon, body: &mut Incoming, max: u32) -> Result<Bytes, RpcError> {
    let runtime = &*daemon.runtime;
    if body.size_hint().lower() > u64::from(max) {
        return Err(too_long(max));
    }
    let collected = Limited::new(body, max as usize).collect();
    match until(runtime, runtime.now() + TIMEOUT, collected).await {
        Some(Ok(body)) => Ok(body.to_bytes()),
        Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_long(max)),
        Some(Err(_)) => Err(cut_short()),
        None => Err(late()),
    }
}

/// The JSON object that a body is; what is wrong with it, in words.
pub(super) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    // serde would take an array for a struct, too.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("the body: it must be a JSON object".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| format!("the body: {error}"))
}

/// The messages of a request that is a stream.
pub(super) struct Messages<'a> {
    daemon: &'a Daemon,
    body: &'a mut Incoming,
    decoder: Decoder,
}

impl<'a> Messages<'a> {
    pub(super) fn new(daemon: &'a Daemon, body: &'a mut Incoming) -> Self {
        Self { daemon, body, decoder: Decoder::new(MAX_MESSAGE) }
    }

    /// The next one, which may take its time to begin; None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Envelope>, RpcError> {
        self.next_within(None).await
    }

    /// The only one, which has to be there soon; None where there is none.
    pub(super) async fn only(&mut self) -> Result<Option<Envelope>, RpcError> {
        let at = self.daemon.runtime.now() + TIMEOUT;
        self.next_within(Some(at)).await
    }

    async fn next_within(&mut self, mut at: Option<Time>) -> Result<Option<Envelope>, RpcError> {
        let runtime = &*self.daemon.runtime;
        loop {
            let envelope = self.decoder.next_envelope();
            match envelope.map_err(|error| RpcError::new(Code::ResourceExhausted, error.to_string()))? {
                Some(envelope) if envelope.is_compressed() => {
                    return Err(RpcError::new(
                        Code::Internal,
                        "a message is compressed, and no compression was agreed on",
                    ));
                }
                Some(envelope) if envelope.is_end() => return Ok(None),
                Some(envelope) => return Ok(Some(envelope)),
                None => {}
            }
            let inside = self.decoder.is_inside();
            // From its first byte on a message has so long.
            at = at.or_else(|| inside.then(|| runtime.now() + TIMEOUT));
            let frame = self.body.frame();
            let frame = match at {
                Some(at) => until(runtime, at, frame).await.ok_or_else(late)?,
                None => frame.await,
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                None if !inside => return Ok(None),
                None | Some(Err(_)) => return Err(cut_short()),
            }
        }
    }
}

fn too_long(max: u32) -> RpcError {
    RpcError::new(Code::ResourceExhausted, format!("the message is longer than {max} bytes"))
}

fn cut_short() -> RpcError {
    RpcError::new(Code::InvalidArgument, "the request ended in the middle of a message")
}

fn late() -> RpcError {
    let message = format!("the message was not there within {} s", TIMEOUT.as_secs());
    RpcError::new(Code::DeadlineExceeded, message)
}
