//! Listening and connecting, over TCP and unix sockets.

use hangar_backends::runtime::{Address, Io, Listener, Runtime};
use std::{
    fs,
    future::poll_fn,
    io::{self, IoSlice},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// More than the sockets hold on both ways.
const MUCH: usize = 8 << 20;

fn any_port() -> Address {
    Address::Tcp(([127, 0, 0, 1], 0).into())
}

async fn accept(listener: &mut Box<dyn Listener>) -> io::Result<Box<dyn Io>> {
    poll_fn(|cx| listener.poll_accept(cx)).await
}

/// A directory of its own, for as long as this lives.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let name = format!("hangar-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                // Of a process that was killed, and had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Self(path)),
            }
        }
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A connection carries more than its buffers hold, both ways at once, and either end ends alone.
async fn echo(runtime: Arc<dyn Runtime>, address: Address) -> io::Result<()> {
    let mut listener = runtime.listen(address).await?;
    let address = listener.address().clone();
    runtime.spawn(Box::pin(async move {
        let stream = accept(&mut listener).await.expect("the client connects");
        let (mut read, mut write) = tokio::io::split(stream);
        let copied = tokio::io::copy(&mut read, &mut write).await.expect("the client reads");
        // The client has ended its half; this one still writes.
        write.write_u64(copied).await.expect("the client reads on");
        write.shutdown().await.expect("an end can be sent");
    }));

    let stream = runtime.connect(address).await?;
    assert!(stream.is_write_vectored());
    let (mut read, mut write) = tokio::io::split(stream);
    let sent: Arc<[u8]> = (0..MUCH).map(|index| (index / 7) as u8).collect();
    let bytes = sent.clone();
    runtime.spawn(Box::pin(async move {
        let (first, second) = bytes.split_at(3);
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        let written = write.write_vectored(&slices).await.expect("there is room");
        assert!(written > first.len(), "the second slice was not written");
        write.write_all(&bytes[written..]).await.expect("the server reads");
        write.shutdown().await.expect("an end can be sent");
    }));
    let mut received = Vec::new();
    read.read_to_end(&mut received).await?;
    let (echoed, count) = received.split_at(received.len().saturating_sub(8));
    assert!(echoed == &*sent, "{} bytes came back, not these", echoed.len());
    assert_eq!(count, (MUCH as u64).to_be_bytes());
    Ok(())
}

/// TCP: an echo, with a half-close.
pub async fn tcp_echoes(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    echo(runtime, any_port()).await
}

/// Unix: an echo, with a half-close.
pub async fn unix_echoes(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let directory = Directory::new()?;
    echo(runtime, Address::Unix(directory.socket())).await
}

/// A listener says which port it was given; an address that is taken and one where nobody listens are errors.
pub async fn tcp_addresses_are_checked(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let listener = runtime.listen(any_port()).await?;
    let address = listener.address().clone();
    assert_ne!(address, any_port());
    let taken = runtime.listen(address.clone()).await.err().map(|error| error.kind());
    assert_eq!(taken, Some(io::ErrorKind::AddrInUse));
    drop(listener);
    let refused = runtime.connect(address).await.err().map(|error| error.kind());
    assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
    Ok(())
}

async fn is_taken(runtime: &dyn Runtime, path: &Path) -> bool {
    runtime.listen(Address::Unix(path.into())).await.err().map(|error| error.kind())
        == Some(io::ErrorKind::AddrInUse)
}

/// A stale socket file is replaced; one that somebody listens on, and what is no socket, stay.
pub async fn a_stale_socket_file_is_replaced(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let directory = Directory::new()?;
    let path = directory.socket();
    drop(UnixListener::bind(&path)?);
    assert!(path.exists());
    let mut listener = runtime.listen(Address::Unix(path.clone())).await?;
    assert_eq!(listener.address(), &Address::Unix(path.clone()));

    assert!(is_taken(&*runtime, &path).await);
    let client = runtime.connect(Address::Unix(path.clone())).await?;
    // The first was the question whether somebody listens, and is gone.
    let mut asked = accept(&mut listener).await?;
    assert_eq!(asked.read(&mut [0; 1]).await?, 0);
    accept(&mut listener).await?.write_all(b"x").await?;
    drop(client);

    let file = directory.0.join("file");
    fs::write(&file, "kept")?;
    assert!(is_taken(&*runtime, &file).await);
    assert_eq!(fs::read_to_string(&file)?, "kept");
    Ok(())
}

/// A listener removes its file, and not that of the one that took its place.
pub async fn a_socket_file_goes_with_its_listener(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let directory = Directory::new()?;
    let path = directory.socket();
    drop(runtime.listen(Address::Unix(path.clone())).await?);
    assert!(!path.exists());

    let first = runtime.listen(Address::Unix(path.clone())).await?;
    fs::rename(&path, directory.0.join("moved"))?;
    let second = runtime.listen(Address::Unix(path.clone())).await?;
    drop(first);
    runtime.connect(Address::Unix(path.clone())).await?;
    drop(second);
    assert!(!path.exists());
    Ok(())
}
