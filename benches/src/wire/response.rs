//! One HTTP/1.1 answer: its head, its framing, and in it an event stream or one JSON object.

use memchr::memmem;

use super::{
    Sink,
    changes::Changes,
    chunked::Chunked,
    mcp::Messages,
    sse::{Events, ExecResult},
};
use crate::Result;

/// The longest head that is accepted.
const MAX_HEAD: usize = 64 << 10;

/// The longest JSON answer that is accepted.
const MAX_JSON: usize = 16 << 20;

/// Decodes one answer that arrives in pieces.
#[derive(Debug)]
pub struct Response {
    /// The head, until it is whole.
    head: Vec<u8>,
    status: Option<u16>,
    framing: Framing,
    content: Content,
}

#[derive(Debug)]
enum Framing {
    Chunked(Chunked),
    /// That many bytes are still to come.
    Length(u64),
    UntilEof,
}

#[derive(Debug)]
enum Content {
    Events(Box<Events>),
    Messages(Box<Messages>),
    Changes(Box<Changes>),
    Json { body: Vec<u8>, result: Option<ExecResult> },
}

impl Response {
    /// An answer to `exec/stream`.
    pub fn events() -> Self {
        Self::new(Content::Events(Box::default()))
    }

    /// An answer to an MCP call.
    pub fn messages() -> Self {
        Self::new(Content::Messages(Box::default()))
    }

    /// An answer to who watches a directory.
    pub fn changes() -> Self {
        Self::new(Content::Changes(Box::default()))
    }

    /// An answer to `exec`.
    pub const fn json() -> Self {
        Self::new(Content::Json { body: Vec::new(), result: None })
    }

    const fn new(content: Content) -> Self {
        Self { head: Vec::new(), status: None, framing: Framing::UntilEof, content }
    }

    /// Decodes what was received at `at_ns`.
    pub fn feed(&mut self, at_ns: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        if self.status.is_some() {
            return self.feed_body(at_ns, bytes, sink);
        }
        self.head.extend_from_slice(bytes);
        let Some(end) = memmem::find(&self.head, b"\r\n\r\n") else {
            return if self.head.len() > MAX_HEAD { Err("an endless head".into()) } else { Ok(()) };
        };
        let mut head = std::mem::take(&mut self.head);
        let body = head.split_off(end + 4);
        self.handle_head(&String::from_utf8_lossy(&head))?;
        self.feed_body(at_ns, &body, sink)
    }

    /// How the command ended, once it is known.
    pub const fn result(&self) -> Option<&ExecResult> {
        match &self.content {
            Content::Events(events) => events.result(),
            Content::Messages(messages) => messages.result(),
            Content::Changes(_) => None,
            Content::Json { result, .. } => result.as_ref(),
        }
    }

    /// Whether the whole answer has come.
    pub const fn ended(&self) -> bool {
        match &self.framing {
            Framing::Chunked(chunked) => chunked.ended(),
            Framing::Length(left) => *left == 0,
            Framing::UntilEof => false,
        }
    }

    /// The connection ended. An error unless a result has come.
    pub fn handle_eof(&self) -> Result<()> {
        match (&self.content, self.status, self.result()) {
            (_, None, _) => Err("the connection ended before an answer".into()),
            (_, _, Some(_)) => Ok(()),
            (Content::Events(events), _, None) => {
                Err(format!("the stream ended without a result; stderr so far: {:?}", events.stderr()).into())
            }
            (Content::Messages(_), _, None) => Err("the stream ended without a result".into()),
            (Content::Changes(_), ..) => Err("the watch was cut".into()),
            (Content::Json { body, .. }, Some(status), None) => {
                Err(format!("no result, but {status}: {}", String::from_utf8_lossy(body)).into())
            }
        }
    }

    fn handle_head(&mut self, head: &str) -> Result<()> {
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status: u16 = status.ok_or_else(|| format!("not an HTTP/1.1 answer: {head:?}"))?;
        let header = |name: &str| {
            let found = head.lines().filter_map(|line| line.split_once(':'));
            found.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
        };
        self.framing = match (header("transfer-encoding"), header("content-length")) {
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => {
                Framing::Chunked(Chunked::default())
            }
            (Some(coding), _) => return Err(format!("an unknown transfer coding: {coding}").into()),
            (None, Some(length)) => Framing::Length(length.parse()?),
            (None, None) => Framing::UntilEof,
        };
        self.status = Some(status);
        if status != 200 {
            self.content = Content::Json { body: Vec::new(), result: None };
        }
        Ok(())
    }

    fn feed_body(&mut self, at_ns: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        let Self { framing, content, .. } = self;
        match framing {
            Framing::Chunked(chunked) => chunked.feed(bytes, |bytes| content.feed(at_ns, bytes, sink))?,
            Framing::Length(left) => {
                *left = left.checked_sub(bytes.len() as u64).ok_or("the server sent more than its answer")?;
                content.feed(at_ns, bytes, sink)?;
            }
            Framing::UntilEof => content.feed(at_ns, bytes, sink)?,
        }
        if self.ended() {
            self.content.handle_end(at_ns, self.status, sink)?;
            self.handle_eof()?;
        }
        Ok(())
    }
}

impl Content {
    fn feed(&mut self, at_ns: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<()> {
        match self {
            Self::Events(events) => events.feed(at_ns, bytes, sink),
            Self::Messages(messages) => messages.feed(at_ns, bytes, sink),
            Self::Changes(changes) => changes.feed(at_ns, bytes, sink),
            Self::Json { body, .. } if body.len() + bytes.len() > MAX_JSON => Err("an endless answer".into()),
            Self::Json { body, .. } => {
                body.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// A JSON answer means nothing before its end.
    fn handle_end(&mut self, at_ns: u64, status: Option<u16>, sink: &mut impl Sink) -> Result<()> {
        if let (Self::Json { body, result: result @ None }, Some(200)) = (self, status) {
            let parsed: ExecResult = serde_json::from_slice(body)?;
            sink.payload(at_ns, parsed.stdout.as_bytes());
            *result = Some(parsed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Collected, *};

    fn decode(mut response: Response, answer: &str, cut: usize) -> Result<(Response, Vec<u8>)> {
        let mut collected = Collected::default();
        response.feed(1, &answer.as_bytes()[..cut], &mut collected)?;
        response.feed(2, &answer.as_bytes()[cut..], &mut collected)?;
        Ok((response, collected.0))
    }

    #[test]
    fn a_chunked_event_stream() {
        let events =
            "event: stdout\ndata: {\"data\":\"hi\\n\"}\n\nevent: result\ndata: {\"exit_code\":0}\n\n";
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
             {:x}\r\n{events}\r\n0\r\n\r\n",
            events.len()
        );
        for cut in 0..=answer.len() {
            let (response, payload) = decode(Response::events(), &answer, cut).unwrap();
            assert_eq!(payload, b"hi\n");
            assert!(response.ended() && response.result().unwrap().check().is_ok());
        }
    }

    #[test]
    fn one_json_result() {
        let body = "{\"exit_code\":0,\"stdout\":\"hi\\n\",\"stderr\":\"\",\"streamed\":false}";
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        for cut in 0..=answer.len() {
            let (response, payload) = decode(Response::json(), &answer, cut).unwrap();
            assert_eq!((payload.as_slice(), response.ended()), (b"hi\n".as_slice(), true));
        }
    }

    #[test]
    fn a_refusal_is_an_error_with_what_the_server_said() {
        let answer = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 13\r\n\r\n{\"error\":\"x\"}";
        let error = decode(Response::events(), answer, 20).unwrap_err().to_string();
        assert!(error.contains("429") && error.contains("{\"error\":\"x\"}"), "{error}");
    }

    #[test]
    fn an_end_without_a_result_is_an_error() {
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n:\n\r\n0\r\n\r\n";
        assert!(decode(Response::events(), answer, 0).is_err());
        let answer = "HTTP/1.1 200 OK\r\n\r\nevent: stdout\ndata: {\"data\":\"hi\"}\n\n";
        let (response, _) = decode(Response::events(), answer, 0).unwrap();
        assert!(response.handle_eof().is_err());
        assert!(Response::events().handle_eof().is_err());
    }
}
