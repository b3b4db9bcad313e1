//! Sockets in memory, with the manners of TCP: bytes take time, arrive in other pieces than they were sent in, and
//! stop when nobody reads them.
//!
//! * This file: what connections are like, listeners, and how they are found.
//! * [`socket`]: one end of a connection.

pub mod socket;

use super::{clock::Clock, random::Random, runtime::Trace};
use hangar_backends::runtime::{Address, Io, Listener};
use socket::{Socket, State};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

pub use socket::Cutter;

/// What a connection is like.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bytes on their way in one direction, or there and not read: a writer that has as many waits.
    pub capacity: usize,
    /// The shortest and the longest time that a segment takes. Segments stay in order.
    pub delay: (Duration, Duration),
    /// The most bytes in a segment; each has a random number up to this.
    pub segment: usize,
}

impl Link {
    /// Bytes are there at once, as they were sent.
    pub const INSTANT: Self =
        Self { capacity: 64 * 1024, delay: (Duration::ZERO, Duration::ZERO), segment: usize::MAX };

    /// Some connection: anything from a byte at a time to a good one, from instant to slow.
    pub fn any(random: &mut Random) -> Self {
        let micros = *random.pick(&[0, 1, 100, 5_000, 80_000]);
        let segment = *random.pick(&[1, 7, 100, 1460, 1 << 20]);
        Self {
            // A segment costs a step: small ones only where there are not too many of them.
            capacity: *random.pick(&[1 << 12, 1 << 14, 1 << 16]),
            delay: (Duration::ZERO, Duration::from_micros(micros)),
            segment,
        }
    }
}

/// All listeners and connections of a run.
#[derive(Debug)]
pub struct Network {
    clock: Arc<Clock>,
    trace: Arc<Trace>,
    link: Link,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    random: Random,
    connections: u64,
    /// Bytes after which the connections that the program opens are cut, one after the other.
    cuts: VecDeque<usize>,
    /// What cuts those that it has opened.
    opened: Vec<Cutter>,
    /// Neither side of a connection hears that the other is hangar.
    is_plain: bool,
    listeners: BTreeMap<String, Weak<Mutex<Backlog>>>,
}

impl Inner {
    /// The backlog of the one that listens there.
    fn find(&self, address: &Address) -> Option<Arc<Mutex<Backlog>>> {
        self.listeners.get(&address.to_string())?.upgrade()
    }
}

#[derive(Debug, Default)]
struct Backlog {
    waiting: VecDeque<Socket>,
    acceptor: Option<Waker>,
}

impl Network {
    /// A network whose connections are like `link`.
    pub fn new(clock: Arc<Clock>, trace: Arc<Trace>, random: Random, link: Link) -> Self {
        let inner = Inner {
            random,
            connections: 0,
            cuts: VecDeque::new(),
            opened: Vec::new(),
            is_plain: false,
            listeners: BTreeMap::new(),
        };
        Self { clock, trace, link, inner: Mutex::new(inner) }
    }

    /// A listener. The port 0 stands for one that is free.
    pub fn listen(&self, address: Address) -> io::Result<SimListener> {
        let mut inner = self.inner.lock().unwrap();
        let address = match address {
            Address::Tcp(socket) if socket.port() == 0 => {
                let port = 40_000 + inner.listeners.len() as u16;
                Address::Tcp(SocketAddr::new(socket.ip(), port))
            }
            Address::Tcp(_) | Address::Unix(_) => address,
        };
        let backlog = Arc::<Mutex<Backlog>>::default();
        if inner.find(&address).is_some() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        inner.listeners.insert(address.to_string(), Arc::downgrade(&backlog));
        Ok(SimListener { address, backlog })
    }

    /// The next connections that the program opens are cut once it has read so many bytes of them.
    pub fn cut_next(&self, bytes: impl IntoIterator<Item = usize>) {
        self.inner.lock().unwrap().cuts = bytes.into_iter().collect();
    }

    /// What is hangar's own in the heads of requests and answers is called something else from here on: each side takes the
    /// other for one of E2B's.
    pub fn hide_hangar(&self) {
        self.inner.lock().unwrap().is_plain = true;
    }

    /// A connection that the program opens.
    pub(super) fn open(&self, address: &Address) -> io::Result<Socket> {
        let mut socket = self.connect(address)?;
        let mut inner = self.inner.lock().unwrap();
        inner.opened.push(socket.cutter());
        if let Some(cut) = inner.cuts.pop_front() {
            socket.cut_after(cut);
        }
        Ok(socket)
    }

    /// Cuts the connections that the program has opened.
    pub fn cut_opened(&self) {
        let opened = std::mem::take(&mut self.inner.lock().unwrap().opened);
        opened.iter().for_each(Cutter::cut);
    }

    /// A connection like all.
    pub fn connect(&self, address: &Address) -> io::Result<Socket> {
        self.connect_by(address, self.link)
    }

    /// A connection like `link`.
    pub fn connect_by(&self, address: &Address, link: Link) -> io::Result<Socket> {
        let mut inner = self.inner.lock().unwrap();
        let backlog = inner.find(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        inner.connections += 1;
        let number = inner.connections;
        let state = Arc::<Mutex<State>>::default();
        let is_plain = inner.is_plain;
        let mut socket = |side| {
            let random = inner.random.fork();
            let mut socket = Socket::new(&state, side, number, link, random, &self.clock, &self.trace);
            if is_plain {
                socket.hide_hangar();
            }
            socket
        };
        let (client, server) = (socket(0), socket(1));
        drop(inner);
        self.trace.note(format_args!("connection {number} opens"));
        let mut backlog = backlog.lock().unwrap();
        backlog.waiting.push_back(server);
        let acceptor = backlog.acceptor.take();
        drop(backlog);
        if let Some(acceptor) = acceptor {
            acceptor.wake();
        }
        Ok(client)
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct SimListener {
    address: Address,
    backlog: Arc<Mutex<Backlog>>,
}

impl Listener for SimListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Io>>> {
        let mut backlog = self.backlog.lock().unwrap();
        match backlog.waiting.pop_front() {
            Some(socket) => Poll::Ready(Ok(Box::new(socket))),
            None => {
                backlog.acceptor = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.backlog.lock().unwrap().waiting);
        drop(waiting);
    }
}
