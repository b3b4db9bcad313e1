//! Small requests, apart from those that are measured.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    str,
};

use crate::Result;

/// One request on a connection that is kept, and the body of its answer.
pub fn exchange(connection: &mut TcpStream, request: &str) -> Result<String> {
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let read = connection.read(&mut bytes)?;
        if read == 0 {
            return Err("the server hung up".into());
        }
        answer.extend_from_slice(&bytes[..read]);
        if let Some(body) = body(str::from_utf8(&answer)?) {
            return Ok(body.to_owned());
        }
    }
}

/// The body of an answer, once it is whole.
fn body(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    body.get(..length.parse().ok()?)
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
            assert_eq!(body(&answer[..cut]), None, "cut at {cut}");
        }
        assert_eq!(body(answer), Some("body"));
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n"), None);
    }

    #[test]
    fn an_answer_may_come_in_pieces_but_not_in_part() {
        let whole = answering(&["HTTP/1.1 201 Created\r\ncontent-length: 2\r\n", "\r\n{", "}"]);
        assert_eq!(whole.unwrap(), "{}");
        assert!(answering(&["HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{"]).is_err());
    }
}
