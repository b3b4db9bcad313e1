//! Sockets: TCP and unix.

use crate::TokioRuntime;
use hangar_backends::{
    runtime::{Address, Io, KEEP_ALIVE, KeepAlive, Listener},
    socket_file::SocketFile,
};
use rustix::net::sockopt;
use std::{
    io,
    os::fd::AsFd,
    task::{Context, Poll, ready},
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub(crate) async fn listen(runtime: &TokioRuntime, address: Address) -> io::Result<Box<dyn Listener>> {
    match address {
        Address::Tcp(address) => {
            let socket = TcpListener::bind(address).await?;
            let address = Address::Tcp(socket.local_addr()?);
            Ok(Box::new(Tcp { socket, address }))
        }
        Address::Unix(path) => {
            let (socket, file) = SocketFile::bind(runtime, path).await?;
            Ok(Box::new(Unix { socket: UnixListener::from_std(socket)?, file }))
        }
    }
}

pub(crate) async fn connect(address: Address) -> io::Result<Box<dyn Io>> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}

struct Tcp {
    socket: TcpListener,
    address: Address,
}

impl Tcp {
    fn poll_accept_tcp(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let (stream, _peer) = ready!(self.socket.poll_accept(cx))?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        Poll::Ready(Ok(stream))
    }
}

fn keep_alive(stream: impl AsFd) -> io::Result<()> {
    let KeepAlive { idle, interval, probes } = KEEP_ALIVE;
    sockopt::set_tcp_keepidle(&stream, idle)?;
    sockopt::set_tcp_keepintvl(&stream, interval)?;
    sockopt::set_tcp_keepcnt(&stream, probes)?;
    Ok(sockopt::set_socket_keepalive(&stream, true)?)
}

impl Listener for Tcp {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>> {
        self.poll_accept_tcp(cx).map_ok(|stream| Box::new(stream) as Box<dyn Io>)
    }

    fn address(&self) -> &Address {
        &self.address
    }
}

struct Unix {
    socket: UnixListener,
    file: SocketFile,
}

impl Listener for Unix {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>> {
        self.socket.poll_accept(cx).map_ok(|(stream, _peer)| Box::new(stream) as Box<dyn Io>)
    }

    fn address(&self) -> &Address {
        self.file.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Threads;
    use std::future::poll_fn;

    #[test]
    fn an_accepted_socket_has_its_options() {
        Threads::new().unwrap().block_on(async {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let listener = Tcp { socket, address: Address::Tcp(address) };
            let _client = TcpStream::connect(address).await.unwrap();
            let accepted = poll_fn(|cx| listener.poll_accept_tcp(cx)).await.unwrap();
            assert!(accepted.nodelay().unwrap());
            let socket = &accepted;
            assert!(sockopt::socket_keepalive(socket).unwrap());
            let asked = sockopt::tcp_keepidle(socket).unwrap();
            let answered = sockopt::tcp_keepintvl(socket).unwrap() * sockopt::tcp_keepcnt(socket).unwrap();
            assert_eq!((asked + answered).as_secs(), 120);
            assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 0, "who does not read is not dead");
        });
    }
}
