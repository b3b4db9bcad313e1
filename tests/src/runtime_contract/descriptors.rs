//! Readiness of pipes, terminals and processes.

use super::Wakes;
use hangar_backends::runtime::{Descriptor, Interest, Runtime, sleep_until};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    future::poll_fn,
    io::{self, Write as _, pipe},
    os::fd::{AsFd as _, BorrowedFd},
    process::{Command, Stdio},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::oneshot;

type Watched = Box<dyn Descriptor>;

async fn attempt(
    watched: &Watched,
    interest: Interest,
    mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
) -> io::Result<usize> {
    poll_fn(|cx| watched.poll_io(cx, interest, &mut attempt)).await
}

async fn read(watched: &Watched) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 4096];
    let count = attempt(watched, Interest::Readable, |fd| Ok(rustix::io::read(fd, &mut buffer)?)).await?;
    buffer.truncate(count);
    Ok(buffer)
}

async fn write(watched: &Watched, bytes: &[u8]) -> io::Result<usize> {
    attempt(watched, Interest::Writable, |fd| Ok(rustix::io::write(fd, bytes)?)).await
}

/// Polls once, and tells whether a write of `size` bytes would wait.
async fn is_full(watched: &Watched, size: usize) -> bool {
    let bytes = vec![0; size];
    poll_fn(|cx| {
        let mut once = |fd: BorrowedFd<'_>| Ok(rustix::io::write(fd, &bytes)?);
        Poll::Ready(watched.poll_io(cx, Interest::Writable, &mut once).is_pending())
    })
    .await
}

/// Lets other tasks and the reactor run for a moment.
async fn pause(runtime: &dyn Runtime) {
    sleep_until(runtime, runtime.now() + Duration::from_millis(20)).await;
}

/// Fills the pipe behind `writer`, to the last byte: a write that fits into its last page needs no room beside it.
async fn fill(runtime: &dyn Runtime, writer: &Watched) {
    for size in [4096, 1] {
        loop {
            while !is_full(writer, size).await {}
            // A runtime may wait for readiness before it attempts: it is full once it stays so.
            pause(runtime).await;
            if is_full(writer, size).await {
                break;
            }
        }
    }
}

/// A reader waits while there is nothing, gets what comes, and the end once the writer is gone.
pub async fn a_pipe_is_read_to_its_end(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (reader, mut writer) = pipe()?;
    let reader = runtime.watch(reader.into())?;
    assert!(rustix::fs::fcntl_getfl(reader.fd())?.contains(OFlags::NONBLOCK));
    let (done, mut result) = oneshot::channel();
    let (started, start) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        started.send(()).ok();
        let mut all = Vec::new();
        loop {
            match read(&reader).await {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => all.extend(bytes),
                Err(error) => panic!("{error}"),
            }
        }
        done.send(all).ok();
    }));
    start.await.map_err(io::Error::other)?;
    for word in ["one ", "two ", "three"] {
        writer.write_all(word.as_bytes())?;
        pause(&*runtime).await;
        assert!(result.try_recv().is_err(), "the end came before the writer went");
    }
    drop(writer);
    assert_eq!(result.await.map_err(io::Error::other)?, b"one two three");
    Ok(())
}

/// What was written before it was watched, or before the writer went, is read; then the end, as often as asked.
pub async fn a_pipe_that_has_ended_is_read(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (reader, mut writer) = pipe()?;
    writer.write_all(b"before")?;
    drop(writer);
    let reader = runtime.watch(reader.into())?;
    assert_eq!(read(&reader).await?, b"before");
    for _ in 0..3 {
        assert_eq!(read(&reader).await?, b"");
    }
    Ok(())
}

/// A writer waits while the pipe is full, goes on when it is read, and is told when the reader is gone.
pub async fn a_full_pipe_is_waited_for(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (reader, writer) = pipe()?;
    let (reader, writer) = (runtime.watch(reader.into())?, runtime.watch(writer.into())?);
    fill(&*runtime, &writer).await;
    let (done, mut result) = oneshot::channel();
    let spawner = runtime.clone();
    spawner.spawn(Box::pin(async move {
        let written = write(&writer, b"more").await;
        done.send((written, writer)).ok();
    }));
    pause(&*runtime).await;
    assert!(result.try_recv().is_err(), "there was no room");
    while result.is_empty() && !result.is_terminated() {
        read(&reader).await?;
        pause(&*runtime).await;
    }
    let (written, writer) = result.await.map_err(io::Error::other)?;
    assert_eq!(written?, 4);

    fill(&*runtime, &writer).await;
    let (done, result) = oneshot::channel();
    spawner.spawn(Box::pin(async move {
        done.send(write(&writer, b"more").await).ok();
    }));
    pause(&*runtime).await;
    drop(reader);
    let error = result.await.map_err(io::Error::other)?.err();
    assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
    Ok(())
}

/// Every error but `WouldBlock` comes back after one attempt, and again when asked again.
pub async fn an_error_comes_back(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (reader, mut writer) = pipe()?;
    writer.write_all(b"x")?;
    let reader = runtime.watch(reader.into())?;
    for errno in [Errno::IO, Errno::INTR, Errno::BADF, Errno::IO] {
        let mut attempts = 0;
        let result = attempt(&reader, Interest::Readable, |_| {
            attempts += 1;
            Err(errno.into())
        });
        assert_eq!(result.await.err().and_then(|error| error.raw_os_error()), Some(errno.raw_os_error()));
        assert_eq!(attempts, 1);
    }
    assert_eq!(read(&reader).await?, b"x");
    Ok(())
}

/// What has no readiness cannot be watched: a file, a directory.
pub async fn a_directory_is_refused(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    assert!(runtime.watch(std::fs::File::open("/")?.into()).is_err());
    Ok(())
}

/// The waker that polled last is woken; a waker for one interest does not take the place of the other's.
pub async fn the_last_waker_is_woken(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    let (near, far) = (runtime.watch(near.into())?, runtime.watch(far.into())?);
    fill(&*runtime, &near).await;
    let (_, first) = Wakes::waker();
    let (reading, last) = Wakes::waker();
    let (writing, other) = Wakes::waker();
    for (waker, interest) in
        [(&first, Interest::Readable), (&last, Interest::Readable), (&other, Interest::Writable)]
    {
        let mut nothing = |fd: BorrowedFd<'_>| match interest {
            Interest::Readable => Ok(rustix::io::read(fd, &mut [0; 1])?),
            Interest::Writable => Ok(rustix::io::write(fd, &[0; 4096])?),
        };
        assert!(near.poll_io(&mut Context::from_waker(waker), interest, &mut nothing).is_pending());
    }
    pause(&*runtime).await;
    assert_eq!((reading.count(), writing.count()), (0, 0));

    write(&far, b"x").await?;
    while reading.count() == 0 {
        pause(&*runtime).await;
    }
    assert_eq!(writing.count(), 0);
    while writing.count() == 0 {
        read(&far).await?;
        pause(&*runtime).await;
    }
    Ok(())
}

/// A terminal whose other side is gone says so: EIO, which is its end.
pub async fn a_terminal_hangs_up(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave =
        rustix::fs::open(ptsname(&master, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    let master = runtime.watch(master)?;
    rustix::io::write(&slave, b"hello")?;
    assert_eq!(read(&master).await?, b"hello");
    assert_eq!(write(&master, b"typed").await?, 5);
    assert_eq!(read(&master).await?, b"typed", "it echoes");
    let (done, result) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        done.send(read(&master).await).ok();
    }));
    pause(&*runtime).await;
    drop(slave);
    let error = result.await.map_err(io::Error::other)?.err();
    assert_eq!(error.and_then(|error| error.raw_os_error()), Some(Errno::IO.raw_os_error()));
    Ok(())
}

/// A pidfd is readable once its process has ended.
pub async fn a_process_is_waited_for(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn()?;
    let watched = runtime.watch(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?)?;
    let ended = |fd: BorrowedFd<'_>| {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(fd.as_fd()), options)?.ok_or(io::ErrorKind::WouldBlock)?;
        status.exit_status().map(|code| code as usize).ok_or_else(|| io::ErrorKind::Other.into())
    };
    let (done, mut result) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        done.send(attempt(&watched, Interest::Readable, ended).await).ok();
    }));
    pause(&*runtime).await;
    assert!(result.try_recv().is_err());
    drop(child.stdin.take());
    assert_eq!(result.await.map_err(io::Error::other)??, 0);
    assert!(child.wait()?.success());
    Ok(())
}
