//! The messages of a stream against what their bytes say, however they are cut; and what is said of a call, from anything.

use super::draw;
use crate::wire::connect::{
    Code, Decoder, End, Envelope, RpcError,
    envelope::{HEAD, TooLong, write},
    head::{KEEP_ALIVES, check_version, keep_alive, parse_content_type, parse_timeout},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::{Bytes, BytesMut};

/// A stream for a decoder.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The most that the decoder takes of a message.
    pub max: u32,
    /// The length of the pieces in which the bytes come.
    pub piece: usize,
    /// What is written, with its flags.
    pub messages: Vec<(u8, Vec<u8>)>,
    /// What comes after it.
    pub rest: Vec<u8>,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let max = *u.choose(&[1000, 0, 1, 3, 16, 64, 255, 256, u32::MAX])?;
        let piece = u.int_in_range(1..=9u8)?.into();
        let mut messages = Vec::new();
        for _ in 0..u.int_in_range(0..=4u8)? {
            let mut data: Vec<u8> = u.arbitrary()?;
            // Now and then about as long as may be.
            if u.ratio(1, 6u8)? {
                data.resize((draw::size(u)? / 8).min(400), b'x');
            }
            messages.push((u.arbitrary()?, data));
        }
        let rest = u.bytes(u.len().min(300))?.to_vec();
        Ok(Self { max, piece, messages, rest })
    }
}

/// Decodes a stream in pieces of every kind: the messages and the verdict are always those of the whole. And reads what
/// follows as all that is said of a call.
pub fn run(scenario: &Scenario) {
    let Scenario { max, piece, ref messages, ref rest } = *scenario;
    let mut bytes = BytesMut::new();
    for (flags, data) in messages {
        let start = bytes.len();
        write(*flags, &mut bytes, |out| out.extend_from_slice(data));
        assert_eq!(bytes[start..][..HEAD], head(*flags, data.len()), "the head of a message");
        assert_eq!(&bytes[start + HEAD..], data);
    }
    bytes.extend_from_slice(rest);
    let whole = standard(max, &bytes);
    let written = messages.iter().take_while(|(_, data)| data.len() as u64 <= u64::from(max));
    for ((flags, data), envelope) in written.zip(&whole.messages) {
        assert_eq!((envelope.flags, &envelope.data[..]), (*flags, &data[..]), "as it was written");
        assert_eq!((envelope.is_end(), envelope.is_compressed()), (flags & 2 != 0, flags & 1 != 0));
    }
    assert_eq!(decode(max, [&bytes[..]]), whole, "as a whole");
    assert_eq!(decode(max, bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(decode(max, bytes.chunks(piece)), whole, "in pieces of {piece}");
    if bytes.len() <= 64 {
        for at in 0..=bytes.len() {
            assert_eq!(decode(max, [&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
    }
    check_end(rest);
    if let Ok(text) = std::str::from_utf8(rest) {
        check_headers(text);
    }
}

fn head(flags: u8, len: usize) -> [u8; HEAD] {
    let [.., a, b, c, d] = len.to_be_bytes();
    [flags, a, b, c, d]
}

/// What a decoder made of a stream.
#[derive(Debug, PartialEq)]
struct Decoded {
    messages: Vec<Envelope>,
    /// The bytes of a message that is not whole, or why the stream is of no use and the bytes up to there.
    end: std::result::Result<usize, (TooLong, usize)>,
}

/// What the bytes say, all in one place.
fn standard(max: u32, bytes: &[u8]) -> Decoded {
    let (mut messages, mut at) = (Vec::new(), 0);
    while let [flags, a, b, c, d, rest @ ..] = &bytes[at..] {
        let len = u32::from_be_bytes([*a, *b, *c, *d]);
        if len > max {
            return Decoded { messages, end: Err((TooLong { len, max }, at + HEAD)) };
        }
        let Some(data) = rest.get(..len as usize) else { break };
        messages.push(Envelope { flags: *flags, data: Bytes::copy_from_slice(data) });
        at += HEAD + data.len();
    }
    Decoded { messages, end: Ok(bytes.len() - at) }
}

fn decode<'a>(max: u32, pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(max);
    let mut messages = Vec::new();
    let (mut came, mut taken) = (0, 0);
    let mut failed = None;
    for piece in pieces {
        decoder.push(piece);
        came += piece.len();
        if failed.is_none() {
            assert_eq!(decoder.held(), came - taken, "what came is held");
            assert!(decoder.held() as u64 <= u64::from(max) + (HEAD + piece.len()) as u64, "rule 7");
        }
        loop {
            match decoder.next_envelope() {
                Ok(None) => break,
                Ok(Some(envelope)) => {
                    taken += HEAD + envelope.data.len();
                    messages.push(envelope);
                }
                Err(error) => {
                    // At its head: before that it was not known, and no more of it is kept.
                    assert!(came >= taken + HEAD, "refused before its length was known");
                    if piece.len() == 1 {
                        assert!(failed.is_some() || came == taken + HEAD, "refused late");
                    }
                    assert!(failed.is_none_or(|failed| failed == error), "the error comes again");
                    assert_eq!((decoder.held(), decoder.is_inside()), (0, false), "what comes is dropped");
                    failed = Some(error);
                    break;
                }
            }
        }
        if failed.is_none() {
            assert_eq!((decoder.held(), decoder.is_inside()), (came - taken, came > taken));
        }
    }
    Decoded { messages, end: failed.map_or(Ok(came - taken), |error| Err((error, taken + HEAD))) }
}

/// Whatever ends a stream or a call, what is read of it is written as it was read.
fn check_end(bytes: &[u8]) {
    if let Ok(end) = End::parse(bytes) {
        assert_eq!(End::parse(end.to_json().as_bytes()), Ok(end));
    }
    for status in [200, 400, 401, 404, 429, 500, 502, 503, 504, 599] {
        let error = RpcError::of_http(status, bytes);
        assert_eq!(RpcError::of_http(0, error.to_json().as_bytes()), error);
        let text = error.message == format!("HTTP status {status}");
        assert!(!text || error.code == Code::of_http(status) || Code::named(error.code.name()).is_some());
    }
}

fn check_headers(text: &str) {
    if let Ok(timeout) = parse_timeout(text) {
        assert!(!timeout.is_zero() && timeout.as_millis() < 10_000_000_000 && !text.starts_with('-'));
    }
    let [least, most] = KEEP_ALIVES;
    assert!((least..=most).contains(&keep_alive(Some(text))), "{text:?}");
    assert_eq!(check_version(text).is_ok(), text == "1");
    if let Some((kind, codec)) = parse_content_type(text) {
        let plain = crate::wire::connect::head::content_type(kind, codec);
        assert!(text.to_ascii_lowercase().contains(plain), "{text:?} is {plain}");
    }
}
