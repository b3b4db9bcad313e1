//! The Connect protocol by value: envelopes, codes, ends, headers.

use bytes::{Bytes, BytesMut};
use hangar_core::wire::connect::{
    Code, Codec, Decoder, End, Envelope, Kind, RpcError,
    envelope::{self, TooLong},
    error::BadEnd,
    head::{ACCEPT_POST, check_version, content_type, keep_alive, parse_content_type, parse_timeout},
};
use std::time::Duration;

/// <https://connectrpc.com/docs/protocol#error-codes>, and what E2B's clients make of an HTTP status.
const CODES: &str = "\
    canceled             499
    unknown              500
    invalid_argument     400
    deadline_exceeded    504
    not_found            404
    already_exists       409
    permission_denied    403
    resource_exhausted   429
    failed_precondition  400
    aborted              409
    out_of_range         400
    unimplemented        501
    internal             500
    unavailable          503
    data_loss            500
    unauthenticated      401";

const STATUSES: [(u16, Code); 14] = [
    (400, Code::InvalidArgument),
    (401, Code::Unauthenticated),
    (403, Code::PermissionDenied),
    (404, Code::NotFound),
    (409, Code::AlreadyExists),
    (429, Code::ResourceExhausted),
    (499, Code::Canceled),
    (501, Code::Unimplemented),
    (502, Code::Unavailable),
    (503, Code::Unavailable),
    (504, Code::DeadlineExceeded),
    (200, Code::Unknown),
    (418, Code::Unknown),
    (500, Code::Unknown),
];

#[test]
fn the_codes_are_those_of_the_protocol() {
    let rows: Vec<_> =
        Code::ALL.iter().map(|code| format!("{} {}", code.name(), code.http_status())).collect();
    let expected: Vec<_> =
        CODES.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows, expected);
    assert!(Code::ALL.iter().all(|code| Code::named(code.name()) == Some(*code)));
    assert_eq!((Code::named("NOT_FOUND"), Code::named("")), (None, None));
    for (status, code) in STATUSES {
        assert_eq!(Code::of_http(status), code, "{status}");
    }
}

#[test]
fn a_message_is_a_head_and_its_bytes() {
    let mut out = BytesMut::from(&b"before"[..]);
    envelope::write(0, &mut out, |out| out.extend_from_slice(b"{}"));
    envelope::write(2, &mut out, |_| {});
    envelope::write(0x81, &mut out, |out| out.extend_from_slice(&[7; 258]));
    assert_eq!(out[..18], b"before\x00\x00\x00\x00\x02{}\x02\x00\x00\x00\x00"[..]);
    assert_eq!(out[18..25], b"\x81\x00\x00\x01\x02\x07\x07"[..]);
    let mut decoder = Decoder::new(258);
    decoder.push(&out[6..]);
    let next = |decoder: &mut Decoder| decoder.next_envelope().unwrap().unwrap();
    let first = next(&mut decoder);
    assert_eq!(first, Envelope { flags: 0, data: Bytes::from("{}") });
    assert_eq!((first.is_end(), first.is_compressed()), (false, false));
    let end = next(&mut decoder);
    assert_eq!((end.is_end(), end.is_compressed(), end.data.len()), (true, false, 0));
    let last = next(&mut decoder);
    assert_eq!((last.is_end(), last.is_compressed(), last.data.len()), (false, true, 258));
    assert_eq!((decoder.next_envelope(), decoder.is_inside()), (Ok(None), false));
}

#[test]
fn a_message_that_is_not_whole_is_waited_for() {
    let bytes = b"\x00\x00\x00\x00\x03abc";
    let mut decoder = Decoder::new(3);
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!((decoder.held(), decoder.is_inside()), (at, at > 0));
        assert_eq!(decoder.next_envelope(), Ok(None));
        decoder.push(&[*byte]);
    }
    assert_eq!(decoder.next_envelope(), Ok(Some(Envelope { flags: 0, data: Bytes::from("abc") })));
    assert_eq!((decoder.held(), decoder.is_inside()), (0, false));
}

#[test]
fn what_is_too_long_is_refused_at_its_head_for_good() {
    let mut decoder = Decoder::new(3);
    decoder.push(b"\x00\x00\x00\x00\x01a\x00\x00\x00\x00");
    assert_eq!(decoder.next_envelope(), Ok(Some(Envelope { flags: 0, data: Bytes::from("a") })));
    assert_eq!(decoder.next_envelope(), Ok(None));
    decoder.push(b"\x04");
    let error = TooLong { len: 4, max: 3 };
    assert_eq!(decoder.next_envelope(), Err(error));
    decoder.push(b"\x00\x00\x00\x00\x01a");
    assert_eq!((decoder.next_envelope(), decoder.held(), decoder.is_inside()), (Err(error), 0, false));
    assert_eq!(error.to_string(), "a message of 4 bytes is longer than the 3 that are taken");
}

#[test]
fn a_stream_says_how_it_ends() {
    let error = |code, message: &'static str| Some(RpcError::new(code, message));
    let parse = |text: &str| End::parse(text.as_bytes()).map(|end| end.error);
    assert_eq!(parse("{}"), Ok(None));
    assert_eq!(parse(r#"{"metadata":{"k":["v"]}}"#), Ok(None));
    assert_eq!(parse(r#"{"error":null}"#), Ok(None));
    let full =
        r#"{"error":{"code":"not_found","message":"no\nsuch","details":[{"type":"x"}]},"metadata":{}}"#;
    assert_eq!(parse(full), Ok(error(Code::NotFound, "no\nsuch")));
    assert_eq!(parse(r#"{"error":{"code":"aborted"}}"#), Ok(error(Code::Aborted, "")));
    assert_eq!(parse(r#"{"error":{"code":"sixteen","message":"m"}}"#), Ok(error(Code::Unknown, "m")));
    for bad in ["", "[", "null", "7", r#""""#, r#"{"error":7}"#, r#"{"error":{"code":5}}"#, "{} {}", "<html>"]
    {
        assert_eq!(parse(bad), Err(BadEnd), "{bad}");
    }
    assert_eq!(End::default().to_json(), "{}");
    let end = End { error: error(Code::DeadlineExceeded, "over \"now\"") };
    assert_eq!(end.to_json(), r#"{"error":{"code":"deadline_exceeded","message":"over \"now\""}}"#);
    assert_eq!(End { error: error(Code::Internal, "") }.to_json(), r#"{"error":{"code":"internal"}}"#);
    assert_eq!(RpcError::new(Code::NotFound, "gone").to_string(), "not_found: gone");
}

#[test]
fn an_http_answer_says_why_a_call_failed() {
    let of = |status, body: &str| {
        let error = RpcError::of_http(status, body.as_bytes());
        (error.code, error.message.into_owned())
    };
    let plain = |code, status| (code, format!("HTTP status {status}"));
    assert_eq!(of(400, r#"{"code":"not_found","message":"m"}"#), (Code::NotFound, "m".into()));
    assert_eq!(of(404, r#"{"code":"internal","details":[]}"#), (Code::Internal, String::new()));
    // The refusal of a token, a page, nothing, and a code that nobody knows.
    let refusal = r#"{"code":401,"message":"unauthorized access, please provide a valid access token"}"#;
    assert_eq!(of(401, refusal), plain(Code::Unauthenticated, 401));
    assert_eq!(of(502, "<html><h1>502 Bad Gateway</h1>"), plain(Code::Unavailable, 502));
    assert_eq!(of(504, ""), plain(Code::DeadlineExceeded, 504));
    assert_eq!(of(429, r#"{"code":"too_many"}"#), plain(Code::ResourceExhausted, 429));
    assert_eq!(of(418, r#"{"message":"teapot"}"#), plain(Code::Unknown, 418));
    assert_eq!(RpcError::new(Code::NotFound, "a\"b").to_json(), r#"{"code":"not_found","message":"a\"b"}"#);
}

#[test]
fn a_type_of_a_body_says_kind_and_codec() {
    for (kind, codec, name) in [
        (Kind::Unary, Codec::Json, "application/json"),
        (Kind::Unary, Codec::Proto, "application/proto"),
        (Kind::Stream, Codec::Json, "application/connect+json"),
        (Kind::Stream, Codec::Proto, "application/connect+proto"),
    ] {
        assert_eq!(content_type(kind, codec), name);
        assert!(ACCEPT_POST.split(", ").any(|one| one == name));
        for value in [name, &name.to_uppercase(), &format!(" {name} ;")] {
            assert_eq!(parse_content_type(value), Some((kind, codec)), "{value}");
        }
        for parameter in ["charset=utf-8", " Charset=\"UTF-8\"", "charset = utf-8 ;"] {
            let expected = (codec == Codec::Json).then_some((kind, codec));
            assert_eq!(parse_content_type(&format!("{name};{parameter}")), expected, "{name};{parameter}");
        }
        for parameter in ["charset=latin-1", "charset", "boundary=x", "charset=utf-8;x=y"] {
            assert_eq!(parse_content_type(&format!("{name};{parameter}")), None, "{parameter}");
        }
    }
    for value in ["", ";", "application", "application/grpc", "application/json+x", "text/plain", "*/*"] {
        assert_eq!(parse_content_type(value), None, "{value}");
    }
}

#[test]
fn a_timeout_is_a_number_of_milliseconds() {
    for (value, millis) in
        [("1", 1), ("+5", 5), ("0000000005", 5), ("60000", 60_000), ("9999999999", 9_999_999_999)]
    {
        assert_eq!(parse_timeout(value), Ok(Duration::from_millis(millis)), "{value}");
    }
    for over in ["0", "-0", "+0", "-1", "-9999999999", "0000000000"] {
        assert_eq!(parse_timeout(over).unwrap_err().code, Code::DeadlineExceeded, "{over}");
    }
    for junk in
        ["", " ", "+", "-", " 5", "5 ", "5ms", "5.0", "1e3", "--5", "+-5", "10000000000", "-10000000000", "٥"]
    {
        let error = parse_timeout(junk).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{junk}");
        assert!(error.message.starts_with("connect-timeout-ms: "), "{}", error.message);
    }
}

#[test]
fn a_keep_alive_is_never_refused() {
    let big = format!("1{}", "0".repeat(30));
    let day = 24 * 3600;
    let rows = [
        ("50", 50),
        (" 50 ", 50),
        ("+5", 5),
        ("1", 1),
        ("0", 1),
        ("-0", 1),
        ("-1", 1),
        ("86400", day),
        ("86401", day),
        ("18446744073709551616", day),
        (&big, day),
        (&format!("-{big}"), 1),
        ("", 90),
        ("-", 90),
        ("junk", 90),
        ("5s", 90),
        ("5.5", 90),
        ("1e3", 90),
        ("--5", 90),
        ("+-5", 90),
    ];
    for (value, seconds) in rows {
        assert_eq!(keep_alive(Some(value)), Duration::from_secs(seconds), "{value:?}");
    }
    assert_eq!(keep_alive(None), Duration::from_secs(90));
}

#[test]
fn there_is_one_version() {
    assert_eq!(check_version("1"), Ok(()));
    for other in ["", "0", "2", "1.0", " 1"] {
        let error = check_version(other).unwrap_err();
        assert_eq!(
            (error.code, error.message.contains("connect-protocol-version")),
            (Code::InvalidArgument, true)
        );
    }
}
