//! The floor that every stream is judged against: a blocking copy from a command's pipe to a TCP connection, and
//! nothing else. One line in, the command; then all it prints.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
};

use crate::{
    Result,
    child::{Scratch, Service, bash},
};

/// How much is copied at once: what a pipe holds.
const COPY: usize = 64 << 10;

/// The relay as a process of its own.
#[derive(Debug)]
pub struct Relay {
    service: Service,
}

impl Relay {
    /// Starts it. Its commands run with `home`.
    pub fn start(home: &Path) -> Result<Self> {
        let service = Service::start("relay", &env::current_exe()?, Scratch::new()?, |command| {
            command.arg("relay").env("HOME", home);
        })?;
        Ok(Self { service })
    }

    /// The process.
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.service.stop()
    }
}

/// Serves connections until killed.
pub fn serve() -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
    println!("relay on tcp://{}", listener.local_addr()?);
    for connection in listener.incoming() {
        let (connection, home) = (connection?, home.clone());
        thread::spawn(move || {
            if let Err(error) = relay(connection, &home) {
                eprintln!("relay: {error}");
            }
        });
    }
    Ok(())
}

fn relay(mut connection: TcpStream, home: &Path) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut command = String::new();
    BufReader::new(&connection).read_line(&mut command)?;
    let mut child = bash(command.trim_end(), home).stdout(Stdio::piped()).spawn()?;
    let copied = copy(&mut child, &mut connection);
    if copied.is_err() {
        child.kill()?;
    }
    child.wait()?;
    copied
}

/// Not `io::copy`: that would splice, without the bytes ever being read.
fn copy(child: &mut Child, connection: &mut TcpStream) -> Result<()> {
    let mut pipe = child.stdout.take().ok_or("a child without stdout")?;
    let mut buffer = vec![0; COPY];
    loop {
        let read = pipe.read(&mut buffer)?;
        if read == 0 {
            connection.shutdown(std::net::Shutdown::Write)?;
            return Ok(());
        }
        connection.write_all(&buffer[..read])?;
    }
}
