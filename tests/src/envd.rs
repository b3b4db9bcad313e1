//! What clients of the daemon say and are told, whichever way they are connected.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what the tests share may fail as they do"
)]

use bytes::BytesMut;
use hangar_core::wire::{
    connect::{Codec, Decoder, End, RpcError, envelope},
    envd::{
        self, Message,
        process::{
            DataEvent, EndEvent, ExitedEvent, ProcessConfig, ProcessSelector, StartEvent, StartRequest,
            StartResponse,
        },
    },
};

/// `bash -c` and this.
pub fn bash(script: &str) -> StartRequest {
    argv(&["/bin/bash", "-c", script])
}

/// This program without input.
pub fn argv(argv: &[&str]) -> StartRequest {
    let config = ProcessConfig {
        cmd: argv[0].to_owned(),
        args: argv[1..].iter().map(|&argument| argument.to_owned()).collect(),
        ..ProcessConfig::default()
    };
    StartRequest { process: Some(config), stdin: Some(false), ..StartRequest::default() }
}

/// The process with this number.
pub fn pid(pid: u32) -> Option<ProcessSelector> {
    Some(ProcessSelector { pid: Some(pid), tag: None })
}

/// The process with this name.
pub fn tag(tag: &str) -> Option<ProcessSelector> {
    Some(ProcessSelector { pid: None, tag: Some(tag.to_owned()) })
}

/// Messages as the body of a request.
pub fn messages<Q: Message>(codec: Codec, messages: &[Q]) -> Vec<u8> {
    let mut body = BytesMut::new();
    for message in messages {
        envelope::write(0, &mut body, |out| envd::encode(codec, message, out));
    }
    body.to_vec()
}

/// What a stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It runs.
    Start(StartEvent),
    /// It printed.
    Data(DataEvent),
    /// It ended; more may come.
    Exited(ExitedEvent),
    /// It ended.
    End(EndEvent),
    /// Nothing.
    KeepAlive,
    /// The stream ended.
    Closed(Option<RpcError>),
}

/// The next event of a stream, if it has come.
pub fn event(codec: Codec, decoder: &mut Decoder) -> Option<Event> {
    let envelope = decoder.next_envelope().unwrap()?;
    if envelope.is_end() {
        return Some(Event::Closed(End::parse(&envelope.data).unwrap().error));
    }
    let message: StartResponse = envd::decode(codec, &envelope.data).unwrap();
    let event = message.event.unwrap();
    let all = [
        event.start.map(Event::Start),
        event.data.map(Event::Data),
        event.end.map(Event::End),
        event.exited.map(Event::Exited),
        event.keepalive.map(|_| Event::KeepAlive),
    ];
    let mut all = all.into_iter().flatten();
    let event = all.next().expect("an event says something");
    assert_eq!(all.next(), None, "an event says one thing");
    Some(event)
}
