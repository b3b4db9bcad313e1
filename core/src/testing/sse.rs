//! The SSE encoder against the decoder, and the decoder against the text of the standard.

use super::draw;
use crate::{
    text,
    wire::sse::{COMMENT, Decoder, Event, TooLong, comment, event},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::{Bytes, BytesMut};

/// Bytes for a decoder.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What the decoder takes at most of a line and an event.
    pub max: usize,
    /// The length of the pieces in which they come.
    pub piece: usize,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl<'a> Arbitrary<'a> for Stream {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        const PIECES: [&[u8]; 24] = [
            b"\n",
            b"\r",
            b"\r\n",
            b"data",
            b"data:",
            b"data: ",
            b"event: ",
            b"event",
            b"id: ",
            b"id",
            b"retry: ",
            b":",
            b" ",
            b"7",
            b"x",
            b"\0",
            b"\xef\xbb\xbf",
            b"\xe2\x82",
            b"\xac",
            b"\xff",
            b"message",
            b"data: a\n\n",
            b"\n\n",
            b"65536",
        ];
        let max = *u.choose(&[1000, 0, 1, 6, 20, 50])?;
        let piece = u.int_in_range(1..=9u8)?.into();
        let words = u.arbitrary()?;
        let mut bytes = Vec::new();
        while !u.is_empty() && bytes.len() < 400 {
            if words {
                bytes.extend_from_slice(u.choose(&PIECES)?);
            } else {
                bytes.push(u.arbitrary()?);
            }
        }
        Ok(Self { max, piece, bytes })
    }
}

/// Events for the encoder.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The length of the pieces in which the decoder gets what was encoded.
    pub piece: usize,
    /// What is encoded.
    pub messages: Vec<Message>,
}

/// One thing to encode.
#[derive(Arbitrary, Clone, Debug)]
pub enum Message {
    /// A sign of life.
    Comment,
    /// A sign of life with a word in it.
    Word,
    /// An event with this id and these bytes, as text, for its data.
    Data(Option<u64>, #[arbitrary(with = body)] Vec<u8>),
    /// An event with text in JSON.
    Output(Option<u64>, #[arbitrary(with = body)] Vec<u8>),
    /// An event with bytes in JSON.
    Base64(Option<u64>, #[arbitrary(with = body)] Vec<u8>),
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { piece: u.int_in_range(1..=9u8)?.into(), messages: draw::steps(u, 12)? })
    }
}

/// Output, and not much of it: it is decoded a byte at a time.
fn body(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut body = draw::output(u)?;
    body.truncate(500);
    Ok(body)
}

/// Decodes a stream in pieces of every kind: the events and the verdict are always those of the standard.
pub fn run_decode(stream: &Stream) {
    let Stream { max, piece, ref bytes } = *stream;
    let whole = decode(max, [&bytes[..]]);
    assert_eq!(decode(max, bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(decode(max, bytes.chunks(piece)), whole, "in pieces of {piece}");
    if bytes.len() <= 64 {
        for at in 0..=bytes.len() {
            assert_eq!(decode(max, [&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
    }
    let (events, retry) = standard(bytes);
    match whole.verdict {
        Ok(()) => assert_eq!((whole.events, whole.retry), (events, retry)),
        Err(error) => {
            assert_eq!(error, TooLong(max));
            assert!(events.starts_with(&whole.events), "before what was too long");
            assert!(bytes.len() > max);
        }
    }
}

/// What a decoder made of a stream.
#[derive(Debug, PartialEq)]
struct Decoded {
    events: Vec<Event>,
    retry: Option<u64>,
    verdict: std::result::Result<(), TooLong>,
}

fn decode<'a>(max: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(max);
    let mut events = Vec::new();
    let mut verdict = Ok(());
    for piece in pieces {
        let result = decoder.push(piece);
        assert!(verdict.is_ok() || result == verdict, "took more after {verdict:?}");
        verdict = result;
        events.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    Decoded { events, retry: decoder.retry(), verdict }
}

/// "Interpreting an event stream", word for word, of a stream that has ended.
fn standard(bytes: &[u8]) -> (Vec<Event>, Option<u64>) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut retry) = (Vec::new(), None);
    let (mut data, mut kind, mut id) = (String::new(), String::new(), String::new());
    // What is behind the last line end is no line.
    for line in
        text.rsplit_once('\n').map_or("", |(lines, _)| lines).split('\n').filter(|_| text.contains('\n'))
    {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                let name = if kind.is_empty() { "message".to_owned() } else { kind };
                events.push(Event { name, data, id: id.as_str().into() });
            }
            (data, kind) = (String::new(), String::new());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field == "event" {
            value.clone_into(&mut kind);
        } else if field == "data" {
            data += value;
            data += "\n";
        } else if field == "id" && !value.contains('\0') {
            value.clone_into(&mut id);
        } else if field == "retry" && !value.is_empty() && value.chars().all(|c| c.is_ascii_digit()) {
            retry = value.parse().ok();
        }
    }
    (events, retry)
}

/// Encodes messages and decodes them again: what was data is data, and nothing else.
pub fn run_round_trip(scenario: &Scenario) {
    let mut out = BytesMut::new();
    let mut expected = Vec::new();
    let mut last_id = String::new();
    for message in &scenario.messages {
        let (name, id, data) = match message {
            Message::Comment => {
                out.extend_from_slice(COMMENT);
                continue;
            }
            Message::Word => {
                comment("alive", &mut out);
                continue;
            }
            Message::Data(id, bytes) => {
                ("result", id, Data::Plain(String::from_utf8_lossy(bytes).into_owned()))
            }
            Message::Output(id, bytes) => ("stdout", id, Data::Text(bytes)),
            Message::Base64(id, bytes) => ("stderr", id, Data::Base64(bytes)),
        };
        let mut encoding = event(name, &mut out);
        if let Some(id) = id {
            encoding = encoding.id(*id);
            last_id = id.to_string();
        }
        match &data {
            Data::Plain(text) => encoding.data(text),
            Data::Text(bytes) => encoding.output(&text(bytes)),
            Data::Base64(bytes) => encoding.output_base64(&text(bytes)),
        }
        expected.push((name, last_id.clone(), data));
    }
    for pieces in [1, scenario.piece, out.len().max(1)] {
        let decoded = decode(usize::MAX, out.chunks(pieces));
        assert_eq!((decoded.verdict, decoded.retry), (Ok(()), None));
        assert_eq!(decoded.events.len(), expected.len(), "events of {:?}", scenario.messages);
        for (event, (name, id, data)) in decoded.events.iter().zip(&expected) {
            assert_eq!((event.name.as_str(), &event.id[..]), (*name, id.as_str()));
            data.check(&event.data);
        }
    }
}

enum Data<'a> {
    Plain(String),
    Text(&'a [u8]),
    Base64(&'a [u8]),
}

impl Data<'_> {
    fn check(&self, got: &str) {
        let inside = |start: &str| {
            let inside = got.strip_prefix(start).and_then(|rest| rest.strip_suffix("\"}"));
            inside.unwrap_or_else(|| panic!("not the JSON that begins {start}: {got:?}"))
        };
        match self {
            Self::Plain(text) => assert_eq!(got, text.replace("\r\n", "\n").replace('\r', "\n")),
            Self::Text(bytes) => {
                assert_eq!(unescape(inside("{\"data\":\"")), String::from_utf8_lossy(bytes), "from {got:?}");
            }
            Self::Base64(bytes) => {
                assert_eq!(BASE64_STANDARD.decode(inside("{\"base64\":\"")).as_deref(), Ok(*bytes));
            }
        }
    }
}

/// The bytes as one piece of text that begins with a character that was held back.
fn text(bytes: &[u8]) -> text::Text {
    let (first, rest) = bytes.split_at(bytes.len().min(1));
    let mut decoder = text::Decoder::default();
    let mut piece = decoder.push(Bytes::copy_from_slice(first));
    if piece.is_empty() {
        piece = decoder.push(Bytes::copy_from_slice(rest));
        if decoder.is_empty() {
            return piece;
        }
    }
    text::Text::from(Bytes::copy_from_slice(bytes))
}

/// What stands in a JSON string (RFC 8259, section 7): panics at what may not stand there.
fn unescape(json: &str) -> String {
    let mut text = String::new();
    let mut chars = json.chars();
    while let Some(c) = chars.next() {
        assert!(c >= ' ' && c != '"', "{c:?} stands unescaped in {json:?}");
        if c != '\\' {
            text.push(c);
            continue;
        }
        text.push(match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                code.unwrap_or_else(|| panic!("\\u{digits} in {json:?}"))
            }
            other => panic!("\\{other:?} in {json:?}"),
        });
    }
    text
}
