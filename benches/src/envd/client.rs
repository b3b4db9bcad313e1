//! A daemon of its own, and streams of it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use hangar_core::wire::{
    connect::{Codec, Decoder, End, Kind, envelope, head::content_type},
    envd::{
        self, Message,
        process::{
            ConnectRequest, ProcessConfig, ProcessEvent, ProcessSelector, StartRequest, StartResponse,
        },
    },
};

use crate::Result;

/// Nothing that is measured is silent for longer.
const SILENCE: Duration = Duration::from_secs(30);

/// A daemon that runs. Dropped, it is ended with all that runs in it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    port: u16,
}

impl Daemon {
    /// Starts one, and waits for its first answer. Gives how long that took.
    pub fn start(binary: &Path) -> Result<(Self, Duration)> {
        // A port that was free a moment ago: the daemon is asked from outside, as a supervisor does.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let begun = Instant::now();
        let child = Command::new(binary)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .env_remove("HANGAR_ENVD_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let daemon = Self { child, port };
        while begun.elapsed() < SILENCE {
            if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) {
                socket.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
                let mut answer = String::new();
                socket.read_to_string(&mut answer)?;
                return match answer.starts_with("HTTP/1.1 204") {
                    true => Ok((daemon, begun.elapsed())),
                    false => Err(format!("no daemon: {answer}").into()),
                };
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Err("the daemon does not answer".into())
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a program, and follows it.
    pub fn run(&self, codec: Codec, argv: &[&str]) -> Result<Stream> {
        let (program, arguments) = argv.split_first().ok_or("no program")?;
        let config = ProcessConfig {
            cmd: (*program).to_owned(),
            args: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            ..ProcessConfig::default()
        };
        let request = StartRequest { process: Some(config), stdin: Some(false), ..StartRequest::default() };
        self.open(codec, "Start", &request)
    }

    /// Follows a process.
    pub fn connect(&self, codec: Codec, pid: u32) -> Result<Stream> {
        let process = Some(ProcessSelector { pid: Some(pid), tag: None });
        self.open(codec, "Connect", &ConnectRequest { process })
    }

    fn open<Q: Message>(&self, codec: Codec, method: &str, request: &Q) -> Result<Stream> {
        let mut body = BytesMut::new();
        envelope::write(0, &mut body, |out| envd::encode(codec, request, out));
        let mut socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let head = format!(
            "POST /process.Process/{method} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            content_type(Kind::Stream, codec),
            body.len()
        );
        let mut message = head.into_bytes();
        message.extend_from_slice(&body);
        let begun = Instant::now();
        socket.write_all(&message)?;
        Ok(Stream {
            socket: BufReader::with_capacity(1 << 18, socket),
            left: 0,
            in_body: false,
            decoder: Decoder::new(1 << 24),
            codec,
            begun,
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may have ended.
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap_or_default();
        drop(self.child.wait());
    }
}

/// A stream about a process. Dropped, its client has left.
#[derive(Debug)]
pub struct Stream {
    socket: BufReader<TcpStream>,
    /// Bytes of the chunk that have not come.
    left: usize,
    in_body: bool,
    decoder: Decoder,
    codec: Codec,
    begun: Instant,
}

impl Stream {
    /// How long it is since it was asked for.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The next event; none at the end.
    pub fn next_event(&mut self) -> Result<Option<ProcessEvent>> {
        loop {
            if let Some(envelope) = self.decoder.next_envelope()? {
                if envelope.is_end() {
                    return match End::parse(&envelope.data)?.error {
                        None => Ok(None),
                        Some(error) => Err(error.into()),
                    };
                }
                let response: StartResponse = envd::decode(self.codec, &envelope.data)?;
                return Ok(Some(response.event.unwrap_or_default()));
            }
            self.read()?;
        }
    }

    /// The number of its process: its first event.
    pub fn pid(&mut self) -> Result<u32> {
        let start = self.next_event()?.and_then(|event| event.start);
        Ok(start.ok_or("no start came first")?.pid)
    }

    /// Reads to the end of the connection, and takes nothing apart; gives how many bytes of messages came.
    pub fn drain(mut self) -> Result<usize> {
        let mut bytes = 0;
        loop {
            self.fill_chunk()?;
            if self.left == 0 {
                return Ok(bytes);
            }
            let piece = self.socket.fill_buf()?.len().min(self.left);
            if piece == 0 {
                return Err("the stream was cut".into());
            }
            self.consume(piece);
            bytes += piece;
        }
    }

    fn read(&mut self) -> Result<()> {
        self.fill_chunk()?;
        let buffer = self.socket.fill_buf()?;
        let piece = buffer.len().min(self.left);
        if piece == 0 {
            return Err("the stream was cut".into());
        }
        self.decoder.push(&buffer[..piece]);
        self.consume(piece);
        Ok(())
    }

    fn consume(&mut self, len: usize) {
        self.socket.consume(len);
        self.left -= len;
    }

    /// Reads up to the bytes of a chunk, where none are left of the last one.
    fn fill_chunk(&mut self) -> Result<()> {
        let mut line = String::new();
        if !self.in_body {
            while line != "\r\n" {
                line.clear();
                self.socket.read_line(&mut line)?;
            }
            self.in_body = true;
        } else if self.left == 0 {
            // The end of the last chunk.
            line.clear();
            self.socket.read_line(&mut line)?;
        }
        if self.left == 0 {
            line.clear();
            self.socket.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim_end(), 16)?;
        }
        Ok(())
    }
}
