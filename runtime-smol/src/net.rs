//! Sockets: TCP and unix.

use crate::{SmolRuntime, fd::poll_attempts, stream::Stream};
use async_io::Async;
use hangar_backends::{
    runtime::{Address, Interest, Io, KEEP_ALIVE, KeepAlive, Listener},
    socket_file::SocketFile,
};
use rustix::net::sockopt;
use std::{
    io,
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    os::unix::net::{UnixListener, UnixStream},
    task::{Context, Poll, ready},
};

pub(crate) async fn listen(runtime: &SmolRuntime, address: Address) -> io::Result<Box<dyn Listener>> {
    match address {
        Address::Tcp(address) => {
            let socket = Async::<TcpListener>::bind(address)?;
            let address = Address::Tcp(socket.get_ref().local_addr()?);
            Ok(Box::new(Tcp { socket, address }))
        }
        Address::Unix(path) => {
            let (socket, file) = SocketFile::bind(runtime, path).await?;
            Ok(Box::new(Unix { socket: Async::new_nonblocking(socket)?, file }))
        }
    }
}

pub(crate) async fn connect(address: Address) -> io::Result<Box<dyn Io>> {
    match address {
        Address::Tcp(address) => {
            let stream = Async::<TcpStream>::connect(address).await?;
            stream.get_ref().set_nodelay(true)?;
            Ok(Box::new(Stream(stream)))
        }
        Address::Unix(path) => Ok(Box::new(Stream(Async::<UnixStream>::connect(path).await?))),
    }
}

struct Tcp {
    socket: Async<TcpListener>,
    address: Address,
}

impl Tcp {
    fn poll_accept_tcp(&self, cx: &mut Context<'_>) -> Poll<io::Result<Async<TcpStream>>> {
        let accept = || self.socket.get_ref().accept();
        let (stream, _peer) = ready!(poll_attempts(&self.socket, cx, Interest::Readable, accept))?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        Poll::Ready(Async::new(stream))
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
        self.poll_accept_tcp(cx).map_ok(|stream| Box::new(Stream(stream)) as Box<dyn Io>)
    }

    fn address(&self) -> &Address {
        &self.address
    }
}

struct Unix {
    socket: Async<UnixListener>,
    file: SocketFile,
}

impl Listener for Unix {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>> {
        let accept = || self.socket.get_ref().accept();
        let (stream, _peer) = ready!(poll_attempts(&self.socket, cx, Interest::Readable, accept))?;
        Poll::Ready(Ok(Box::new(Stream(Async::new(stream)?))))
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
        Threads::new(1).unwrap().block_on(async {
            let socket = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).unwrap();
            let address = socket.get_ref().local_addr().unwrap();
            let listener = Tcp { socket, address: Address::Tcp(address) };
            let _client = TcpStream::connect(address).unwrap();
            let accepted = poll_fn(|cx| listener.poll_accept_tcp(cx)).await.unwrap();
            assert!(accepted.get_ref().nodelay().unwrap());
            let socket = accepted.get_ref();
            assert!(sockopt::socket_keepalive(socket).unwrap());
            let asked = sockopt::tcp_keepidle(socket).unwrap();
            let answered = sockopt::tcp_keepintvl(socket).unwrap() * sockopt::tcp_keepcnt(socket).unwrap();
            assert_eq!((asked + answered).as_secs(), 120);
            assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 0, "who does not read is not dead");
        });
    }
}
