//! The client: one blocking loop that reads, stamps and decodes, the same for every row.

use std::{
    io::{ErrorKind, Read, Write as _},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    Result,
    child::bash,
    clock::wall_ns,
    mcp,
    relay::Relay,
    server::Server,
    wire::{Sink, response::Response, socket::Socket, sse::ExecResult},
};

/// How much is received at once.
const RECEIVE: usize = 64 << 10;

/// How long a connection may be silent. A server sends a comment after each 15 s of silence.
const SILENCE: Duration = Duration::from_secs(60);

/// What is allowed on top of a command's own timeout.
const GRACE_S: u64 = 30;

/// A command that runs, and its output on its way to us. Dropping it leaves, and ends the command.
#[derive(Debug)]
pub struct Source {
    input: Input,
    decoder: Decoder,
    buffer: Vec<u8>,
    issued_ns: u64,
    deadline_ns: u64,
}

#[derive(Debug)]
enum Input {
    Pipe(Box<Piped>),
    Socket(TcpStream),
}

#[derive(Debug)]
struct Piped {
    child: Child,
    stdout: ChildStdout,
}

#[derive(Debug)]
enum Decoder {
    /// Nothing but output, until EOF.
    Plain,
    Http(Box<Response>),
    Socket(Box<Socket>),
}

/// What one receive brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// When, by the wall clock.
    pub at_ns: u64,
    /// Whether nothing follows: the connection ended, or the answer is whole.
    pub ended: bool,
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// When the client knew that the command had ended: EOF, or the result.
    pub at_ns: u64,
    /// The result, where there is one.
    pub result: Option<ExecResult>,
}

impl Source {
    /// Runs `command` with `home` and reads its pipe.
    pub fn pipe(command: &str, home: &Path, timeout_s: u64) -> Result<Self> {
        let mut bash = bash(command, home);
        let issued_ns = wall_ns();
        let mut child = bash.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or("a child without stdout")?;
        let input = Input::Pipe(Box::new(Piped { child, stdout }));
        Ok(Self::new(input, Decoder::Plain, issued_ns, timeout_s))
    }

    /// Runs `command` behind the relay.
    pub fn relay(relay: &Relay, command: &str, timeout_s: u64) -> Result<Self> {
        let socket = connect(relay.service().address())?;
        Self::socket(socket, &format!("{command}\n"), Decoder::Plain, timeout_s)
    }

    /// Runs `command` by `exec/stream`.
    pub fn stream(server: &Server, command: &str, timeout_s: u64) -> Result<Self> {
        let request = server.request(command, timeout_s, true);
        Self::events(connect(server.service().address())?, &request, timeout_s)
    }

    /// Runs `command` by `exec`.
    pub fn unstreamed(server: &Server, command: &str, timeout_s: u64) -> Result<Self> {
        let request = server.request(command, timeout_s, false);
        let decoder = Decoder::Http(Box::new(Response::json()));
        Self::socket(connect(server.service().address())?, &request, decoder, timeout_s)
    }

    /// Runs `command` by the MCP tool `exec`, streamed.
    pub fn mcp(server: &Server, command: &str, timeout_s: u64) -> Result<Self> {
        Self::messages(
            connect(server.service().address())?,
            &mcp::call(server, command, timeout_s),
            timeout_s,
        )
    }

    /// Reads the MCP messages that `request` is answered with.
    pub fn messages(socket: TcpStream, request: &str, timeout_s: u64) -> Result<Self> {
        Self::socket(socket, request, Decoder::Http(Box::new(Response::messages())), timeout_s)
    }

    /// Reads the events that `request` is answered with.
    pub fn events(socket: TcpStream, request: &str, timeout_s: u64) -> Result<Self> {
        Self::socket(socket, request, Decoder::Http(Box::new(Response::events())), timeout_s)
    }

    /// Reads what changes, as `request` asks for it.
    pub fn changes(socket: TcpStream, request: &str, timeout_s: u64) -> Result<Self> {
        Self::socket(socket, request, Decoder::Http(Box::new(Response::changes())), timeout_s)
    }

    /// Reads the WebSocket that `request` opens.
    pub fn websocket(socket: TcpStream, request: &str, timeout_s: u64) -> Result<Self> {
        Self::socket(socket, request, Decoder::Socket(Box::default()), timeout_s)
    }

    fn socket(mut socket: TcpStream, request: &str, decoder: Decoder, timeout_s: u64) -> Result<Self> {
        let issued_ns = wall_ns();
        socket.write_all(request.as_bytes())?;
        Ok(Self::new(Input::Socket(socket), decoder, issued_ns, timeout_s))
    }

    fn new(input: Input, decoder: Decoder, issued_ns: u64, timeout_s: u64) -> Self {
        let deadline_ns = issued_ns + (timeout_s + GRACE_S) * 1_000_000_000;
        Self { input, decoder, buffer: Vec::new(), issued_ns, deadline_ns }
    }

    /// The same, of a command that was asked for by an earlier request.
    pub fn issued_at(self, issued_ns: u64) -> Self {
        Self { issued_ns, ..self }
    }

    /// When the command was asked for, by the wall clock.
    pub const fn issued_ns(&self) -> u64 {
        self.issued_ns
    }

    /// The process whose pipe it is; `None` for what a server sends.
    pub fn pid(&self) -> Option<u32> {
        match &self.input {
            Input::Pipe(piped) => Some(piped.child.id()),
            Input::Socket(_) => None,
        }
    }

    /// Whether something is there to be received, or comes within `timeout`.
    pub fn comes_within(&self, timeout: Duration) -> Result<bool> {
        let mut input = [PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN)];
        Ok(poll(&mut input, Some(&Timespec::try_from(timeout)?))? > 0)
    }

    /// Receives once, and passes what came on.
    pub fn receive(&mut self, sink: &mut impl Sink) -> Result<Received> {
        if self.buffer.is_empty() {
            self.buffer.resize(RECEIVE, 0);
        }
        let read = self.input.read(&mut self.buffer)?;
        let at_ns = wall_ns();
        if at_ns > self.deadline_ns {
            return Err("the output goes on after the command's timeout".into());
        }
        match &mut self.decoder {
            Decoder::Plain => {
                sink.payload(at_ns, &self.buffer[..read]);
                Ok(Received { at_ns, ended: read == 0 })
            }
            Decoder::Http(response) if read == 0 => {
                response.handle_eof()?;
                Ok(Received { at_ns, ended: true })
            }
            Decoder::Http(response) => {
                response.feed(at_ns, &self.buffer[..read], sink)?;
                Ok(Received { at_ns, ended: response.ended() })
            }
            Decoder::Socket(_) if read == 0 => Err("the socket was cut".into()),
            Decoder::Socket(socket) => {
                socket.feed(at_ns, &self.buffer[..read], sink)?;
                Ok(Received { at_ns, ended: socket.ended() })
            }
        }
    }

    /// Whether the server has said that the stream is open, where it says so before any output.
    pub const fn ready(&self) -> bool {
        match &self.decoder {
            Decoder::Plain | Decoder::Http(_) => true,
            Decoder::Socket(socket) => socket.ready(),
        }
    }

    /// Receives to the end, and checks that it is the end of a command that succeeded.
    pub fn finish(mut self, sink: &mut impl Sink) -> Result<Ending> {
        let mut known_ns = None;
        loop {
            let Received { at_ns, ended } = self.receive(sink)?;
            if ended || self.result().is_some() {
                known_ns.get_or_insert(at_ns);
            }
            if let (true, Some(at_ns)) = (ended, known_ns) {
                let result = self.result().cloned();
                result.as_ref().map_or(Ok(()), ExecResult::check)?;
                self.input.reap()?;
                return Ok(Ending { at_ns, result });
            }
        }
    }

    /// Gives the receive buffer back, for a stream that is only kept open.
    pub fn rest(&mut self) {
        self.buffer = Vec::new();
    }

    fn result(&self) -> Option<&ExecResult> {
        match &self.decoder {
            Decoder::Plain | Decoder::Socket(_) => None,
            Decoder::Http(response) => response.result(),
        }
    }
}

/// A connection to `address`, made before the request is issued: a client that measures keeps no connection waiting.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.set_write_timeout(Some(SILENCE))?;
    Ok(socket)
}

impl Input {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let read = match self {
                Self::Pipe(piped) => piped.stdout.read(buffer),
                Self::Socket(socket) => socket.read(buffer),
            };
            match read {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(format!("not a byte for {} s", SILENCE.as_secs()).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(piped) => piped.stdout.as_fd(),
            Self::Socket(socket) => socket.as_fd(),
        }
    }

    fn reap(&mut self) -> Result<()> {
        let Self::Pipe(piped) = self else { return Ok(()) };
        let status = piped.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the command failed: {status}").into()) }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // Both do nothing for a child that has been waited for.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;
    use crate::measure::sink::Count;

    /// The events of a server that answers one request with `pieces`, a moment apart.
    fn answering(pieces: &'static [&'static str]) -> Result<Source> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
            for piece in pieces {
                socket.write_all(piece.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        Source::events(connect(address).unwrap(), "request", 5)
    }

    #[test]
    fn a_pipe_ends_with_the_command() {
        let mut count = Count::default();
        let pipe = |command| Source::pipe(command, Path::new("/nowhere"), 5);
        let ending = pipe("printf 'a\\nb\\n'").unwrap().finish(&mut count).unwrap();
        assert_eq!((count.bytes, count.lines, ending.result.is_none()), (4, 2, true));
        assert!(pipe("exit 3").unwrap().finish(&mut count).is_err());
    }

    #[test]
    fn a_stream_ends_when_its_result_comes() {
        const PIECES: &[&str] = &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "24\r\nevent: stdout\ndata: {\"data\":\"a\\n\"}\n\n\r\n",
            "29\r\nevent: result\ndata: {\"exit_code\":0    }\n\n\r\n",
            "0\r\n\r\n",
        ];
        let mut count = Count::default();
        let source = answering(PIECES).unwrap();
        let issued = source.issued_ns();
        let ending = source.finish(&mut count).unwrap();
        assert_eq!((count.bytes, count.lines), (2, 1));
        assert!(ending.result.is_some());
        let took = ending.at_ns - issued;
        assert!((40_000_000..60_000_000_000).contains(&took), "{took} ns");
    }

    #[test]
    fn a_stream_cut_off_is_an_error() {
        const PIECES: &[&str] = &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\n:\n\n\r\n"];
        assert!(answering(PIECES).unwrap().finish(&mut Count::default()).is_err());
    }
}
