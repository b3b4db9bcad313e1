//! The messages of envd's protocol: whatever is read in one form is the same in both.

use super::draw;
use crate::{
    log::{Channel, Frame},
    wire::{
        connect::{Code, Codec},
        envd::{Message, decode, encode, event, filesystem::*, process::*},
    },
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::{Bytes, BytesMut};
use prost::encoding::encode_varint;
use std::fmt::Debug;

/// A message whose values have more than one form: they are compared in one of them.
trait Compared: Message + PartialEq + Clone + Debug {
    fn normalize(&mut self) {}
}

/// Times of EntryInfo may be written in more than one way in protobuf.
impl Compared for EntryInfo {
    fn normalize(&mut self) {
        if let Some(time) = &mut self.modified_time {
            time.normalize();
        }
    }
}

impl Compared for EntryResponse {
    fn normalize(&mut self) {
        self.entry.iter_mut().for_each(Compared::normalize);
    }
}

impl Compared for ListDirResponse {
    fn normalize(&mut self) {
        self.entries.iter_mut().for_each(Compared::normalize);
    }
}

impl Compared for FilesystemEvent {
    fn normalize(&mut self) {
        self.entry.iter_mut().for_each(Compared::normalize);
    }
}

impl Compared for WatchDirResponse {
    fn normalize(&mut self) {
        self.filesystem.iter_mut().for_each(Compared::normalize);
    }
}

impl Compared for WatcherEventsResponse {
    fn normalize(&mut self) {
        self.events.iter_mut().for_each(Compared::normalize);
    }
}

macro_rules! messages {
    ($($message:ident),+; $($compared:ident),+) => {
        $(impl Compared for $message {})+

        /// How many kinds of messages there are.
        pub const MESSAGES: usize = [$(stringify!($message),)+ $(stringify!($compared),)+].len();

        /// Reads bytes as the message with this number.
        fn run_one(number: usize, codec: Codec, bytes: &[u8]) {
            let run = [$(check::<$message> as fn(Codec, &[u8]),)+ $(check::<$compared>,)+];
            run[number % run.len()](codec, bytes);
        }
    };
}

messages!(
    StartRequest, ProcessConfig, Pty, Size, ProcessInfo, Empty, ListResponse, ProcessSelector, ConnectRequest,
    UpdateRequest, ProcessInput, SendInputRequest, StreamInputRequest, DataRequest, SendSignalRequest,
    CloseStdinRequest, AcknowledgeRequest, StartResponse, ProcessEvent, StartEvent, DataEvent, EndEvent,
    ExitedEvent, PathRequest, MoveRequest, ListDirRequest, WatchDirRequest, WatchStarted, CreateWatcherResponse, WatcherRequest;
    EntryInfo, EntryResponse, ListDirResponse, FilesystemEvent, WatchDirResponse, WatcherEventsResponse
);

/// Reads bytes as JSON: the first says as which message.
pub fn run_json(bytes: &[u8]) {
    if let [number, bytes @ ..] = bytes {
        run_one((*number).into(), Codec::Json, bytes);
    }
}

/// Reads bytes as protobuf: the first says as which message.
pub fn run_proto(bytes: &[u8]) {
    if let [number, bytes @ ..] = bytes {
        run_one((*number).into(), Codec::Proto, bytes);
    }
}

/// Reads bytes as each message, in both forms.
pub fn run_all(bytes: &[u8]) {
    for number in 0..MESSAGES {
        run_one(number, Codec::Json, bytes);
        run_one(number, Codec::Proto, bytes);
    }
}

fn check<M: Compared>(codec: Codec, bytes: &[u8]) {
    let mut message = match decode::<M>(codec, bytes) {
        Ok(message) => message,
        Err(error) => {
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(!error.message.is_empty());
            return;
        }
    };
    // In protobuf nothing changes, whatever form it has.
    assert_eq!(again(Codec::Proto, &message).as_ref(), Ok(&message), "as protobuf");
    let json = again(Codec::Json, &message);
    message.normalize();
    assert_eq!(json, Ok(message), "as JSON");
}

fn again<M: Compared>(codec: Codec, message: &M) -> std::result::Result<M, String> {
    let mut out = BytesMut::from(&b"before"[..]);
    encode(codec, message, &mut out);
    let written = out.split_off(6);
    assert_eq!(out, "before", "what was there stays");
    decode(codec, &written).map_err(|error| format!("{error}, in {written:?}"))
}

/// JSON as a client may write it: fields of the messages, with values that suit them or do not.
#[derive(Clone, Debug)]
pub struct Json(pub String);

impl<'a> Arbitrary<'a> for Json {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut json = String::new();
        value(u, &mut json, 4)?;
        Ok(Self(json))
    }
}

fn value(u: &mut Unstructured<'_>, json: &mut String, depth: u8) -> Result<()> {
    const FIELDS: &str = "process pty tag stdin cmd args envs cwd size cols rows config pid processes input start \
        data keepalive signal group event end exited seq offset stdout stderr tsMs ts_ms exitCode exit_code status \
        error drainTimedOut drain_timed_out path source destination depth entry entries name type mode permissions \
        owner modifiedTime modified_time symlinkTarget symlink_target metadata recursive includeEntry \
        include_entry allowNetworkMounts allow_network_mounts tellsExisting tells_existing filesystem events \
        watcherId watcher_id nameBytes name_bytes from overflow ready blind unknown";
    const VALUES: &str = r#"0 1 -1 7.0 1.5 1e3 4294967295 4294967296 18446744073709551615 9e99 null true false "" "a"
        "7" "-7" "1e2" "YQ==" "YQ" "-_8=" "+/8" "SIGNAL_SIGKILL" "FILE_TYPE_FILE" "EVENT_TYPE_WRITE" "NEW"
        "2026-11-29T01:02:03.5Z" "1969-12-31T23:59:59.999999999+01:00" "9999-12-31T23:59:60Z" []"#;
    let choose = |u: &mut Unstructured<'_>, words: &'static str| {
        let words: Vec<_> = words.split_whitespace().collect();
        u.choose(&words).copied()
    };
    match u.int_in_range(0..=9u8)? {
        0..=4 if depth > 0 => {
            json.push('{');
            for index in 0..u.int_in_range(0..=3u8)? {
                json.push_str(if index > 0 { ",\"" } else { "\"" });
                json.push_str(choose(u, FIELDS)?);
                json.push_str("\":");
                value(u, json, depth - 1)?;
            }
            json.push('}');
        }
        5 if depth > 0 => {
            json.push('[');
            value(u, json, depth - 1)?;
            json.push(']');
        }
        _ => json.push_str(choose(u, VALUES)?),
    }
    Ok(())
}

/// protobuf as a client may write it: fields of the messages, of any type.
#[derive(Clone, Debug)]
pub struct Proto(pub Vec<u8>);

impl<'a> Arbitrary<'a> for Proto {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self(fields(u, 4)?))
    }
}

fn fields(u: &mut Unstructured<'_>, depth: u8) -> Result<Vec<u8>> {
    const NUMBERS: [u32; 23] =
        [1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11, 12, 101, 102, 103, 104, 105, 106];
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=3u8)? {
        let key = u64::from(*u.choose(&NUMBERS)?) << 3;
        let inside = match u.int_in_range(0..=3u8)? {
            0 => None,
            1 | 2 if depth > 0 => Some(fields(u, depth - 1)?),
            _ => Some(u.choose(&[&b"a"[..], b"", b"\xff", b"tag", b"\x00\x01"])?.to_vec()),
        };
        match inside {
            Some(inside) => {
                encode_varint(key | 2, &mut bytes);
                encode_varint(inside.len() as u64, &mut bytes);
                bytes.extend(inside);
            }
            None => {
                let number = *u.choose(&[0, 1, 2, 3, 9, 15, 300, u64::MAX, 1 << 31, 1 << 63])?;
                encode_varint(key, &mut bytes);
                encode_varint(number, &mut bytes);
            }
        }
    }
    Ok(bytes)
}

/// A frame, for the writer of events.
#[derive(Arbitrary, Clone, Debug)]
pub struct Printed {
    /// Its number.
    pub seq: u64,
    /// Its place.
    pub offset: u64,
    /// Its time.
    pub ts_ms: i64,
    /// Where it was printed.
    #[arbitrary(with = draw::channel)]
    pub channel: Channel,
    /// What was printed.
    #[arbitrary(with = draw::output)]
    pub data: Vec<u8>,
    /// Whether it is said where that is.
    pub placed: bool,
}

/// What is written without a detour is what the message would be written as.
pub fn run_printed(printed: &Printed) {
    let Printed { seq, offset, ts_ms, channel, ref data, placed } = *printed;
    let data = Bytes::copy_from_slice(data);
    let frame = Frame { seq, offset, channel, ts_ms, data: data.clone() };
    let on = |wanted: Channel| (channel == wanted).then(|| data.clone());
    let message = DataEvent {
        stdout: on(Channel::Stdout),
        stderr: on(Channel::Stderr),
        pty: on(Channel::Tty),
        seq: placed.then_some(seq),
        offset: placed.then_some(offset),
        ts_ms: placed.then_some(ts_ms),
    };
    let message =
        StartResponse { event: Some(ProcessEvent { data: Some(message), ..ProcessEvent::default() }) };
    for codec in [Codec::Json, Codec::Proto] {
        let (mut direct, mut encoded) = (BytesMut::from(&b"before"[..]), BytesMut::from(&b"before"[..]));
        event::data(codec, &frame, placed, &mut direct);
        encode(codec, &message, &mut encoded);
        assert_eq!(direct, encoded, "{codec:?}");
        assert_eq!(decode::<StartResponse>(codec, &direct[6..]).as_ref(), Ok(&message));
    }
}
