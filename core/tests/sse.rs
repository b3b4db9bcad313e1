//! Events on the wire, byte for byte.

use bytes::{Bytes, BytesMut};
use hangar_core::{
    text::Text,
    wire::sse::{self, COMMENT, Decoder, TooLong},
};

fn decode(max: usize, bytes: &[u8]) -> Result<Vec<(String, String, String)>, TooLong> {
    let mut decoder = Decoder::new(max);
    decoder.push(bytes)?;
    let events = std::iter::from_fn(|| decoder.next_event());
    Ok(events.map(|event| (event.name, event.data, event.id.to_string())).collect())
}

fn one(name: &str, data: &str, id: &str) -> Vec<(String, String, String)> {
    vec![(name.to_owned(), data.to_owned(), id.to_owned())]
}

#[test]
fn events_are_written_as_the_protocol_says() {
    let mut out = BytesMut::new();
    sse::event("result", &mut out).data("{\"exit_code\":0}");
    assert_eq!(out, "event: result\ndata: {\"exit_code\":0}\n\n");
    out.clear();
    sse::event("output", &mut out).id(18_446_744_073_709_551_615).output(&Text::from(Bytes::from("a\"\n€")));
    assert_eq!(out, "event: output\nid: 18446744073709551615\ndata: {\"data\":\"a\\\"\\n€\"}\n\n");
    out.clear();
    sse::event("stdout", &mut out).output_base64(&Text::from(Bytes::from_static(b"\xff\x00")));
    assert_eq!(out, "event: stdout\ndata: {\"base64\":\"/wA=\"}\n\n");
    out.clear();
    sse::comment("alive", &mut out);
    assert_eq!((&out[..], COMMENT), (&b": alive\n\n"[..], &b":\n\n"[..]));
}

#[test]
fn data_never_becomes_a_field() {
    for end in ["\n", "\r", "\r\n", "\n\r", "\r\r\n"] {
        let data = format!("line one{end}event: steal{end}{end}id: 7");
        let mut out = BytesMut::new();
        sse::event("result", &mut out).data(&data);
        let seen = data.replace("\r\n", "\n").replace('\r', "\n");
        assert_eq!(decode(1000, &out), Ok(one("result", &seen, "")), "{end:?}");
        let mut out = BytesMut::new();
        sse::event("stdout", &mut out).output(&Text::from(Bytes::from(data.clone())));
        let events = decode(1000, &out).unwrap();
        let json: serde_json::Value = serde_json::from_str(&events[0].1).unwrap();
        assert_eq!((events.len(), events[0].0.as_str(), &json["data"]), (1, "stdout", &data.into()));
    }
}

#[test]
fn a_decoder_reads_as_the_standard_says() {
    assert_eq!(decode(100, b"\xef\xbb\xbfdata: a\n\n"), Ok(one("message", "a", "")));
    assert_eq!(decode(100, b"data:a\rdata: b\r\ndata:  c\n\n"), Ok(one("message", "a\nb\n c", "")));
    assert_eq!(decode(100, b"data\n\n"), Ok(one("message", "", "")));
    assert_eq!(decode(100, b"event: x\n\n: comment\nother: y\ndata: z\n\n"), Ok(one("message", "z", "")));
    assert_eq!(decode(100, b"id: 1\ndata: z\nevent: x\n\ndata: unfinished\n"), Ok(one("x", "z", "1")));
    // An id with NUL in it is ignored, and an empty one clears the last.
    assert_eq!(decode(100, b"id: 1\nid: 2\x003\ndata: z\n\n"), Ok(one("message", "z", "1")));
    assert_eq!(decode(100, b"id: 1\nid\ndata: z\n\n"), Ok(one("message", "z", "")));
    let mut decoder = Decoder::new(100);
    decoder.push(b"retry: 1500\nretry: 1x\nretry:\n").unwrap();
    assert_eq!(decoder.retry(), Some(1500));
}

#[test]
fn what_is_too_long_is_refused_for_good() {
    assert_eq!(decode(6, b"data:1\n\n"), Ok(one("message", "1", "")));
    assert_eq!(decode(5, b"data:1\n\n"), Err(TooLong(5)));
    // The data of one event counts together.
    assert_eq!(decode(10, b"data:12345\ndata:1\n\n"), Err(TooLong(10)));
    let mut decoder = Decoder::new(5);
    assert_eq!(decoder.push(b"123456"), Err(TooLong(5)));
    assert_eq!(decoder.push(b"\n\ndata\n\n"), Err(TooLong(5)));
    assert_eq!(
        (decoder.next_event(), TooLong(5).to_string()),
        (None, "an event is longer than 5 bytes".into())
    );
}
