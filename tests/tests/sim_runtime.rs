//! The simulated runtime itself: it keeps the contract of every runtime, repeats by its seed, and finds what a real
//! one would hide.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::{
    Runtime,
    runtime::{Address, sleep_until},
};
use hangar_tests::{
    runtime_contract::{sockets, tasks, timers},
    sim::{
        Link, Setup, Sim, World,
        clock::EPOCH_MS,
        random::Random,
        run,
        world::{ADMIN, at_ms},
    },
};
use hangar_transports::client::{Client, ClientError, ExecRequest, RemoteEvent};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs a check on a good network and on a bad one.
fn check<F: Future<Output = io::Result<()>>>(check: impl Fn(Arc<dyn Runtime>) -> F) {
    let slow = Link {
        capacity: 5_000,
        delay: (Duration::from_micros(10), Duration::from_millis(20)),
        segment: 1_460,
    };
    for (seed, link) in [Link::INSTANT, slow].into_iter().enumerate() {
        let sim = Sim::new(seed as u64, link);
        sim.block_on(check(sim.runtime().clone())).unwrap();
    }
}

#[test]
fn it_keeps_the_contract() {
    check(timers::a_timer_fires);
    check(timers::a_timer_for_never_does_not_fire);
    check(timers::a_timer_moves_to_earlier);
    check(timers::a_timer_moves_to_later);
    check(timers::a_timer_moves_between_tasks);
    check(timers::many_timers_fire);
    check(tasks::tasks_run);
    check(tasks::random_differs);
    check(tasks::names_resolve);
    check(sockets::tcp_echoes);
    check(sockets::tcp_addresses_are_checked);
}

/// What a run that must not come to its end says.
fn complaint(scenario: impl AsyncFnOnce(Arc<dyn Runtime>)) -> String {
    let sim = Sim::new(0, Link::INSTANT);
    let runtime: Arc<dyn Runtime> = Arc::clone(sim.runtime()) as _;
    let panic = catch_unwind(AssertUnwindSafe(|| sim.block_on(scenario(runtime)))).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_task_that_spins_is_found() {
    let said = complaint(async |runtime| {
        runtime.spawn(Box::pin(async {
            loop {
                let mut yielded = false;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut yielded, true) { ().into() } else { std::task::Poll::Pending }
                })
                .await;
            }
        }));
        std::future::pending().await
    });
    assert!(said.starts_with("busy loop"), "{said}");
}

#[test]
fn a_task_whose_time_creeps_is_found() {
    let said = complaint(async |runtime| {
        loop {
            sleep_until(&*runtime, runtime.now() + Duration::from_nanos(1)).await;
        }
    });
    assert!(said.starts_with("busy loop"), "{said}");
}

#[test]
fn waiting_for_nothing_is_found() {
    let said = complaint(async |_runtime| std::future::pending().await);
    assert_eq!(said, "at 0.000000000s everything waits, and for nothing");
    let said = complaint(async |runtime| {
        let ticking = Arc::clone(&runtime);
        runtime.spawn(Box::pin(async move {
            loop {
                sleep_until(&*ticking, ticking.now() + Duration::from_secs(60)).await;
            }
        }));
        std::future::pending().await
    });
    assert!(said.ends_with("and nobody is done"), "{said}");
}

#[test]
fn time_jumps_and_the_wall_clock_follows_it() {
    let sim = Sim::new(7, Link::INSTANT);
    let runtime = Arc::clone(sim.runtime());
    sim.block_on(async {
        assert_eq!((runtime.now(), runtime.wall_ms()), (at_ms(0), EPOCH_MS));
        runtime.sleep(Duration::from_secs(39_600)).await;
        assert_eq!((runtime.now(), runtime.wall_ms()), (at_ms(39_600_000), EPOCH_MS + 39_600_000));
        runtime.clock().jump_wall(-1_000);
        assert_eq!((runtime.now(), runtime.wall_ms()), (at_ms(39_600_000), EPOCH_MS + 39_599_000));
    });
}

#[test]
fn a_slow_network_loses_nothing_and_takes_its_time() {
    let link =
        Link { capacity: 4_096, delay: (Duration::from_millis(10), Duration::from_millis(30)), segment: 700 };
    let sim = Sim::new(3, link);
    let runtime = Arc::clone(sim.runtime());
    sim.block_on(async {
        let address = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let mut listener = runtime.listen(address).await.unwrap();
        let mut client = runtime.connect(listener.address().clone()).await.unwrap();
        let mut server = std::future::poll_fn(|cx| listener.poll_accept(cx)).await.unwrap();
        let mut sent = vec![0; 100_000];
        Random::new(1).fill(&mut sent);
        let expected = sent.clone();
        let writing = runtime.task(async move {
            client.write_all(&sent).await.unwrap();
            client.shutdown().await.unwrap();
            client
        });
        runtime.sleep(Duration::from_secs(5)).await;
        assert!(!writing.is_finished(), "nobody reads: it waits");
        let mut received = Vec::new();
        let mut buffer = vec![0; 10_000];
        loop {
            let len = server.read(&mut buffer).await.unwrap();
            assert!(len <= 700);
            if len == 0 {
                break;
            }
            received.extend_from_slice(&buffer[..len]);
        }
        assert_eq!(received, expected);
        let elapsed = runtime.now().since(at_ms(5_000));
        assert!(elapsed > Duration::from_millis(200), "{elapsed:?}");
        // The end of one direction is not that of the other.
        server.write_all(b"back").await.unwrap();
        drop(server);
        let mut back = String::new();
        writing.await.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "back");
    });
}

fn request(command: &str) -> ExecRequest {
    ExecRequest { command: command.to_owned(), ..ExecRequest::default() }
}

#[test]
fn the_client_of_the_command_line_follows_a_command() {
    run(Setup::default(), async |world: &World| {
        let url = format!("http://{}", world.address()).parse().unwrap();
        let client = Client::new(Arc::clone(&world.runtime) as _, url, ADMIN.to_owned());
        let mut exec = client.exec("box", &request("out a\\xff; sleep 100; err b; exit 3")).await.unwrap();
        let mut seen = Vec::new();
        let result = loop {
            match exec.next().await.unwrap() {
                RemoteEvent::Output { channel, bytes } => seen.push((world.now(), channel.name(), bytes)),
                RemoteEvent::Result(result) => break result,
            }
        };
        assert_eq!(seen, [(at_ms(0), "stdout", b"a\xff".to_vec()), (at_ms(100), "stderr", b"b".to_vec())]);
        assert_eq!(result.exit_code, Some(3));
        let refused = client.exec("nowhere", &request("exit 0")).await.unwrap_err();
        assert!(
            matches!(&refused, ClientError::Refused { status, code, .. } if *status == 404 && code == "not_found")
        );
        // Dropped, its command is killed.
        let mut exec = client.exec("box", &request("out a; hang")).await.unwrap();
        assert!(matches!(exec.next().await, Ok(RemoteEvent::Output { .. })));
        drop(exec);
        world.sleep_ms(10).await;
        assert_eq!(world.sandbox.records()[1].terminated_at, [at_ms(100)]);
    });
}
