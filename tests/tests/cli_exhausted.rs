//! A `hangar serve` that runs out of what the system gives: it says so, and lives on.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{Mark, Serving, Stream, cli, is_root, line, machine::children, skip, wait_until};
use std::{net::TcpStream, process::Command, thread, time::Duration};

/// Starts commands until one is refused. What was started, and the refusal.
fn start_until_refused(serving: &Serving, mark: &Mark) -> (Vec<Stream>, (u16, String), String) {
    let mut started = Vec::new();
    for _ in 0..60 {
        match serving.client().try_stream("local", &line("exec sleep 777").mark(mark)) {
            Ok(stream) => started.push(stream),
            Err(refused) => return (started, refused.refusal(), refused.head.to_ascii_lowercase()),
        }
    }
    panic!("nothing was refused: {}", serving.log());
}

fn lives_on(serving: &Serving, mark: &Mark, started: Vec<Stream>) {
    assert!(!started.is_empty(), "{}", serving.log());
    drop(started);
    mark.wait_until_gone();
    // Others may have what was given back, for a while.
    let answers = || {
        let again = serving.client().try_stream("local", &line("echo yes"));
        again.is_ok_and(|stream| stream.collect().stdout == b"yes\n")
    };
    wait_until("it runs commands again", answers);
    wait_until("no child is left", || children(serving.pid()).is_empty());
}

#[test]
fn out_of_descriptors() {
    cli("out_of_descriptors", || {
        let serving = Serving::after("ulimit -n 64", |command| {
            command.env("HANGAR_STREAM_MAX_PER_TOKEN", "500");
        });
        let mark = Mark::new();
        let (started, refusal, head) = start_until_refused(&serving, &mark);
        assert_eq!(refusal, (503, "exhausted".to_owned()));
        assert!(head.contains("retry-after: 1"), "{head}");
        lives_on(&serving, &mark, started);
    });
}

#[test]
fn connections_beyond_the_descriptors_wait() {
    cli("connections_beyond_the_descriptors_wait", || {
        let serving = Serving::after("ulimit -n 40", |_| {});
        let address = serving.client().address;
        let idle: Vec<_> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
        wait_until("it has no descriptors left", || serving.log().contains("could not be accepted"));
        // This one is in the queue, and gets its turn.
        let client = serving.client().clone();
        let waiting = thread::spawn(move || client.get("/api/sandboxes").status);
        thread::sleep(Duration::from_millis(300));
        drop(idle);
        assert_eq!(waiting.join().unwrap(), 200);
        lives_on(&serving, &Mark::new(), vec![serving.client().stream(&line("sleep 777"))]);
        // It said so now and then, not all the time.
        assert!(serving.log().matches("could not be accepted").count() < 100);
    });
}

#[test]
fn out_of_processes() {
    cli("out_of_processes", || {
        if !is_root() {
            return skip("out_of_processes", "only root runs commands as a user whose processes are counted");
        }
        let serving = Serving::after("ulimit -u 6", |command| {
            command.args(["--local-user", "nobody"]).env("HANGAR_STREAM_MAX_PER_TOKEN", "500");
        });
        let mark = Mark::new();
        let (started, refusal, head) = start_until_refused(&serving, &mark);
        assert_eq!(refusal, (503, "exhausted".to_owned()));
        assert!(head.contains("retry-after: 1"), "{head}");
        lives_on(&serving, &mark, started);
    });
}

/// Takes every process there is, and each that is given back.
const FORKS: &str = r#"exec python3 -c '
import os, time
while True:
    try:
        if os.fork() == 0: os.execvp("sleep", ["sleep", "777"])
    except OSError: time.sleep(0.01)
'"#;

#[test]
fn what_took_all_processes_is_ended() {
    cli("what_took_all_processes_is_ended", || {
        if !is_root() {
            return skip("what_took_all_processes_is_ended", "only root starts a server as another user");
        }
        if Command::new("python3").arg("--version").output().is_err() {
            return skip("what_took_all_processes_is_ended", "there is no python3");
        }
        // Nobody else runs as this user, whose processes and threads are counted.
        let user = "--reuid 54321 --regid 54321 --clear-groups --bounding-set=-all";
        let shell = format!("ulimit -u 60; umask 0; mkdir \"$5\"; exec setpriv {user} \"$0\" \"$@\"");
        let serving = Serving::after(&shell, |_| {});
        let mark = Mark::new();
        let forks = line(FORKS).mark(&mark);
        let stream = serving.client().stream(&forks);
        // Threads that had nothing to do have ended by then.
        thread::sleep(Duration::from_secs(11));
        wait_until("it has no processes left", || {
            let refused = serving.client().try_stream("local", &line("true")).err();
            refused.is_some_and(|refused| refused.refusal() == (503, "exhausted".to_owned()))
        });
        lives_on(&serving, &mark, vec![stream]);
        assert!(!serving.log().contains("panicked"), "{}", serving.log());
    });
}
