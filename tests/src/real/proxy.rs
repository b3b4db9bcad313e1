//! A way between a client and a server that breaks when it is told to.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A TCP proxy. Dropped, it breaks what is open, and takes nothing any more.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// Where it leads.
    server: SocketAddr,
    open: Vec<TcpStream>,
    refuse: bool,
    /// Neither side hears that the other is hangar.
    plain: bool,
    /// Bytes after which connections break that the server answers with more than that, one after the other.
    cuts: VecDeque<usize>,
}

impl Proxy {
    /// A proxy of a server.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared { server, open: Vec::new(), refuse: false, plain: false, cuts: VecDeque::new() };
        let shared = Arc::new(Mutex::new(shared));
        let of_all = Arc::downgrade(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(shared) = of_all.upgrade() else { return };
                let server = {
                    let shared = shared.lock().unwrap();
                    if shared.refuse {
                        continue;
                    }
                    shared.server
                };
                let Ok(server) = TcpStream::connect(server) else { continue };
                let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                shared.lock().unwrap().open.extend([up.try_clone().unwrap(), down.try_clone().unwrap()]);
                let plain = shared.lock().unwrap().plain;
                thread::spawn(move || pump(up, server, plain, None));
                thread::spawn(move || pump(down, client, plain, Some(&shared)));
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks every connection.
    pub fn cut(&self) {
        for socket in self.shared.lock().unwrap().open.drain(..) {
            // It may be closed already.
            socket.shutdown(Shutdown::Both).ok();
        }
    }

    /// Breaks a connection once the server has sent so many bytes on it; then the next one, with the next number.
    pub fn cut_after(&self, bytes: &[usize]) {
        self.shared.lock().unwrap().cuts = bytes.iter().copied().collect();
    }

    /// New connections lead to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.shared.lock().unwrap().server = server;
    }

    /// What is hangar's own in the heads of requests and answers is called something else from here on: each side takes the
    /// other for one of E2B's.
    pub fn hide_hangar(&self) {
        self.shared.lock().unwrap().plain = true;
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared.lock().unwrap().refuse = refuse;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse(true);
        self.cut();
        // So that it looks.
        TcpStream::connect(self.address).ok();
    }
}

/// Passes bytes on until one side ends.
fn pump(mut from: TcpStream, mut to: TcpStream, plain: bool, shared: Option<&Mutex<Shared>>) {
    let mut buffer = [0; 4096];
    let mut passed = 0;
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if plain {
            hide(&mut buffer[..len]);
        }
        passed += len;
        let mut keep = len;
        if let Some(shared) = shared {
            let cuts = &mut shared.lock().unwrap().cuts;
            if let Some(over) = cuts.front().and_then(|cut| passed.checked_sub(*cut)) {
                cuts.pop_front();
                keep = len.saturating_sub(over);
                passed = usize::MAX;
            }
        }
        if to.write_all(&buffer[..keep]).is_err() || passed == usize::MAX {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}

/// Renames the headers that are hangar's own. A head is sent at once, so it is in one piece.
pub fn hide(bytes: &mut [u8]) {
    const NAME: &[u8] = b"\r\nhangar-";
    for at in 0..bytes.len().saturating_sub(NAME.len() - 1) {
        if bytes[at..at + NAME.len()].eq_ignore_ascii_case(NAME) {
            bytes[at + 2..at + 8].copy_from_slice(b"nobody");
        }
    }
}
