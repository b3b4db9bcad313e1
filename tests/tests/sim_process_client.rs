//! The client's side of background processes, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use bytes::Bytes;
use hangar_backends::{Runtime, runtime::Address};
use hangar_core::{process::Signal, wire::process::Status};
use hangar_tests::sim::{
    Link, Setup, World, run,
    world::{ADMIN, at_ms},
};
use hangar_transports::{
    client::{Begin, Client, ClientError, ProcessSocket, SocketEvent, StartRequest},
    plane::tickets::Mode,
};
use std::{
    future::poll_fn,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

fn client(world: &World) -> Client {
    let url = format!("http://{}", world.address()).parse().unwrap();
    Client::new(Arc::clone(&world.runtime) as _, url, ADMIN.to_owned())
}

async fn start(client: &Client, script: &str) -> String {
    let request = StartRequest { command: script.to_owned(), ..StartRequest::default() };
    client.start_process("box", &request).await.unwrap().id
}

async fn open(client: &Client, process: &str, begin: Begin) -> ProcessSocket {
    let access = client.stream_access("box", process, Mode::Attach).await.unwrap();
    let mut socket = client.open_socket(&access.token, begin).await.unwrap();
    let ready = socket.next().await.unwrap();
    assert!(matches!(&ready, SocketEvent::Ready { process: view, .. } if view.id == process), "{ready:?}");
    socket
}

/// The output up to the end of the stream, and the numbers of its first and last frame.
async fn rest(socket: &mut ProcessSocket) -> (Vec<u8>, u64, u64, Option<i32>) {
    let (mut output, mut first, mut last) = (Vec::new(), 0, 0);
    loop {
        match socket.next().await.unwrap() {
            SocketEvent::Frame { seq, bytes, .. } => {
                if first == 0 {
                    first = seq;
                }
                last = seq;
                output.extend_from_slice(&bytes);
            }
            SocketEvent::End(end) => {
                assert_eq!(end.reason, "process_exited");
                let closed = socket.next().await.unwrap();
                assert!(matches!(closed, SocketEvent::Closed { code: 1000, .. }), "{closed:?}");
                return (output, first, last, end.exit_code);
            }
            other @ (SocketEvent::Ready { .. } | SocketEvent::Gap(_) | SocketEvent::Closed { .. }) => {
                panic!("{other:?}")
            }
        }
    }
}

#[test]
fn a_process_is_started_followed_and_taken_up_again() {
    for link in [Link::INSTANT, Link { capacity: 300, segment: 7, ..Link::INSTANT }] {
        run(Setup { link, ..Setup::default() }, async |world: &World| {
            let client = client(world);
            let id = start(&client, "out a; sleep 10; err b; cat; out c; exit 3").await;
            let mut socket = open(&client, &id, Begin::Oldest).await;
            // Longer than what goes at once, and so far shorter than one frame of output may be.
            let typed: Vec<u8> = (0..9000_u32).map(|at| at.to_le_bytes()[0]).collect();
            socket.input(Bytes::from(typed.clone()));
            socket.eof();
            assert!(socket.queued() > typed.len() && !socket.is_full());
            let (output, first, last, code) = rest(&mut socket).await;
            assert_eq!((output, code), ([b"ab", &typed[..], b"c"].concat(), Some(3)));
            let mut again = open(&client, &id, Begin::After(first)).await;
            let (output, second, last_again, _) = rest(&mut again).await;
            assert_eq!((&output[..2], second, last_again), (&b"b\0"[..], first + 1, last));
            let page = client.read_log("box", &id, None).await.unwrap();
            assert_eq!((page.bytes.len(), page.next, page.truncated), (9003, 9003, false));
            assert_eq!(client.list_processes("box").await.unwrap()[0].exit_code, Some(3));
        });
    }
}

#[test]
fn a_long_message_that_is_there_at_once_is_read_at_once() {
    let link = Link { capacity: 4 << 20, ..Link::INSTANT };
    run(Setup { link, ..Setup::default() }, async |world: &World| {
        let client = client(world);
        let request = StartRequest {
            command: "cat".to_owned(),
            max_log_bytes: Some(4 << 20),
            ..StartRequest::default()
        };
        let id = client.start_process("box", &request).await.unwrap().id;
        let mut socket = open(&client, &id, Begin::Oldest).await;
        let typed = vec![b'x'; 1 << 20];
        socket.input(Bytes::from(typed.clone()));
        socket.eof();
        let (output, ..) = rest(&mut socket).await;
        assert_eq!(output.len(), typed.len());
        // Its echo takes a second, by the pace. What takes longer was left until the next ping.
        assert!(world.now() < at_ms(10_000), "{:?}", world.now());
    });
}

#[test]
fn a_socket_lives_for_as_long_as_its_server_is_heard() {
    run(Setup::default(), async |world: &World| {
        let client = client(world);
        let id = start(&client, "sleep 3600000; out late; hang").await;
        let mut socket = open(&client, &id, Begin::Usual).await;
        let late = socket.next().await.unwrap();
        assert!(matches!(late, SocketEvent::Frame { seq: 1, .. }), "{late:?}");
        assert_eq!(world.now(), at_ms(3_600_000));
        client.signal_process("box", &id, Signal::INT).await.unwrap();
        let end = socket.next().await.unwrap();
        assert!(matches!(&end, SocketEvent::End(end) if end.signal.as_deref() == Some("SIGINT")), "{end:?}");
        assert_eq!(client.show_process("box", &id).await.unwrap().status, Status::Exited);
        let id = start(&client, "hang").await;
        let mut socket = open(&client, &id, Begin::Usual).await;
        assert_eq!(client.stop_process("box", &id).await.unwrap().id, id);
        let end = socket.next().await.unwrap();
        assert!(matches!(&end, SocketEvent::End(end) if end.signal.as_deref() == Some("SIGTERM")), "{end:?}");
        assert_eq!(client.show_process("box", &id).await.unwrap().status, Status::Stopped);
    });
}

/// A way to the server that takes everything and passes nothing on once it is frozen.
async fn freezer(world: &World) -> (Client, Arc<AtomicBool>) {
    let address = Address::Tcp(([127, 0, 0, 1], 7777).into());
    let mut listener = world.runtime.listen(address).await.unwrap();
    let frozen = Arc::new(AtomicBool::new(false));
    let (is_frozen, runtime) = (Arc::clone(&frozen), Arc::clone(&world.runtime));
    let server = world.address().clone();
    world.runtime.spawn(Box::pin(async move {
        while let Ok(mut down) = poll_fn(|cx| listener.poll_accept(cx)).await {
            let mut up = runtime.connect(server.clone()).await.unwrap();
            let is_frozen = Arc::clone(&is_frozen);
            runtime.spawn(Box::pin(async move {
                let mut copy = std::pin::pin!(tokio::io::copy_bidirectional(&mut down, &mut up));
                poll_fn(|cx| {
                    if is_frozen.load(Ordering::SeqCst) {
                        Poll::Pending
                    } else {
                        copy.as_mut().poll(cx).map(drop)
                    }
                })
                .await;
            }));
        }
    }));
    let url = "http://127.0.0.1:7777".parse().unwrap();
    (Client::new(Arc::clone(&world.runtime) as _, url, ADMIN.to_owned()), frozen)
}

#[test]
fn a_server_that_is_silent_is_gone() {
    run(Setup::default(), async |world: &World| {
        let (client, frozen) = freezer(world).await;
        let id = start(&client, "out a; hang").await;
        let mut socket = open(&client, &id, Begin::Oldest).await;
        let frame = socket.next().await.unwrap();
        assert!(matches!(frame, SocketEvent::Frame { .. }), "{frame:?}");
        world.sleep_until_ms(20_000).await;
        frozen.store(true, Ordering::SeqCst);
        let error = socket.next().await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Lost(error) if error.kind() == io::ErrorKind::TimedOut),
            "{error}"
        );
        // The last that was heard is the ping of the fifteenth second, which was read after the twentieth.
        assert!(world.now().since(at_ms(20_000)) <= Duration::from_secs(46), "{:?}", world.now());
    });
}

#[test]
fn a_refusal_is_told_before_there_is_a_socket() {
    run(Setup::default(), async |world: &World| {
        let client = client(world);
        let id = start(&client, "hang").await;
        let refused = |error: ClientError| {
            let ClientError::Refused { status, code, .. } = error else { panic!("{error}") };
            (status.as_u16(), code)
        };
        let error = client.stream_access("box", "nothing", Mode::Logs).await.unwrap_err();
        assert_eq!(refused(error), (404, "not_found".to_owned()));
        let error = client.open_socket("no ticket", Begin::Usual).await.unwrap_err();
        assert_eq!(refused(error), (401, "bad_ticket".to_owned()));
        let access = client.stream_access("box", &id, Mode::Logs).await.unwrap();
        let error = client.open_socket(&access.token, Begin::After(99)).await.unwrap_err();
        assert_eq!(refused(error), (400, "cursor_ahead".to_owned()));
        // Who may only read and writes is shut out.
        let mut socket = client.open_socket(&access.token, Begin::Usual).await.unwrap();
        socket.input(Bytes::from_static(b"x"));
        let ready = socket.next().await.unwrap();
        assert!(matches!(ready, SocketEvent::Ready { .. }), "{ready:?}");
        let closed = socket.next().await.unwrap();
        assert!(matches!(closed, SocketEvent::Closed { code: 1008, .. }), "{closed:?}");
    });
}
