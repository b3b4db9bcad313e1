//! Small requests, apart from those that are measured.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    str,
};

use crate::Result;

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: String,
    /// What came with it.
    pub body: String,
}

impl Answer {
    /// A header of it, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// An error unless what was asked for is done, or will be.
    pub fn accepted(self) -> Result<()> {
        let Self { status, body, .. } = self;
        if (200..300).contains(&status) { Ok(()) } else { Err(format!("{status}: {body}").into()) }
    }
}

/// One request on a connection that is kept, and the body of its answer.
pub fn exchange(connection: &mut TcpStream, request: &str) -> Result<String> {
    Ok(answer(connection, request)?.body)
}

/// One request on a connection that is kept, and its answer.
pub fn answer(connection: &mut TcpStream, request: &str) -> Result<Answer> {
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let read = connection.read(&mut bytes)?;
        if read == 0 {
            return Err("the server hung up".into());
        }
        answer.extend_from_slice(&bytes[..read]);
        // The end of what came may be in the middle of a character.
        let whole = answer.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        if let Some((head, body)) = parts(whole) {
            let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or("no status")?;
            return Ok(Answer { status, head: head.to_owned(), body: body.to_owned() });
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The head and the body of an answer, once it is whole.
fn parts(answer: &str) -> Option<(&str, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = match header(head, "content-length") {
        Some(length) => length.parse().ok()?,
        // It has none.
        None if head.starts_with("HTTP/1.1 204") => 0,
        None => return None,
    };
    Some((head, body.get(..length)?))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// A server that answers one request with `pieces`, and hangs up.
    fn answering(pieces: &'static [&'static str]) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
            pieces.iter().for_each(|piece| socket.write_all(piece.as_bytes()).unwrap());
        });
        exchange(&mut TcpStream::connect(address).unwrap(), "request")
    }

    #[test]
    fn the_body_is_as_long_as_the_head_says() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
        for cut in 0..answer.len() {
            assert_eq!(parts(&answer[..cut]), None, "cut at {cut}");
        }
        assert_eq!(parts(answer).map(|(_, body)| body), Some("body"));
        assert_eq!(parts("HTTP/1.1 204 No Content\r\n\r\n").map(|(_, body)| body), Some(""));
        assert_eq!(parts("HTTP/1.1 200 OK\r\n\r\n"), None);
    }

    #[test]
    fn an_answer_may_come_in_pieces_but_not_in_part() {
        let whole = answering(&["HTTP/1.1 201 Created\r\ncontent-length: 2\r\n", "\r\n{", "}"]);
        assert_eq!(whole.unwrap(), "{}");
        assert!(answering(&["HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{"]).is_err());
    }
}
