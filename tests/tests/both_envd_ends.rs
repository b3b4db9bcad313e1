//! How processes of the daemon end, who is slow, and what clients of hangar are told besides, on both runtimes.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what the checks share may fail as they do, and what they do not expect is all the rest"
)]

use hangar_core::wire::{
    connect::Code,
    envd::process::{
        CloseStdinRequest, DataEvent, Empty, ProcessInput, SendInputRequest, StartEvent, StartRequest,
    },
};
use hangar_tests::{
    on_both,
    real::{
        Folder, Gate, Mark, On, ProcessEvent as Event,
        envd::{Client, bash, pid, tag},
        wait_until,
    },
};
use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

on_both! {
    a_signal_ends_the_process_and_not_its_children
    a_signal_to_the_group_ends_all_of_it
    what_left_the_group_is_ended_with_it
    a_process_is_ended_as_a_whole
    signals_of_every_number_are_sent
    what_is_printed_at_the_end_is_not_lost
    the_end_waits_for_the_output
    after_a_kill_nobody_holds_up_the_end
    the_time_for_a_start_is_the_life_of_its_process
    the_time_for_a_connect_is_not
    any_keep_alive_is_taken
    a_process_that_does_not_read_holds_up_its_writer_only
    a_client_that_does_not_read_holds_up_nobody_else
    a_slow_client_slows_its_process_and_loses_nothing
    output_is_kept_for_who_asks_for_it
    an_exit_is_told_before_the_output_ends
    until_it_is_read_a_process_waits
    who_started_with_a_log_ends_all_of_it_in_time
}

/// Longer than anything here takes, shorter than a command that was not ended.
const WELL_UNDER_A_MINUTE: Duration = Duration::from_secs(40);

fn marked(script: &str, mark: &Mark) -> StartRequest {
    let mut request = bash(script);
    request.process.as_mut().unwrap().envs.insert(Mark::NAME.to_owned(), mark.value().to_owned());
    request
}

fn a_signal_ends_the_process_and_not_its_children(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    let mut followed = client.start(marked("sleep 777 >/dev/null 2>&1 & echo up; read x; sleep 778", &mark));
    let process = followed.pid();
    followed.read_until("up\n");
    client.signal(pid(process), 9, false).unwrap();
    assert_eq!(followed.collect().end.unwrap().status, "signal: killed");
    assert_eq!(mark.named("sleep 777").len(), 1);
    wait_until("what is left of it is nobody's", || client.list().is_empty());
    mark.kill();
}

fn a_signal_to_the_group_ends_all_of_it(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    let mut followed = client.start(marked("sleep 777 & echo up; wait", &mark));
    let process = followed.pid();
    followed.read_until("up\n");
    client.signal(pid(process), 15, true).unwrap();
    assert_eq!(followed.collect().end.unwrap().status, "signal: terminated");
    mark.wait_until_gone();
}

fn what_left_the_group_is_ended_with_it(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    let script = "setsid sleep 777 >/dev/null 2>&1 & trap '' TERM; sleep 778 & echo up; wait";
    let mut followed = client.start(marked(script, &mark));
    let process = followed.pid();
    followed.read_until("up\n");
    mark.wait_for("sleep 777");
    client.signal(pid(process), 9, true).unwrap();
    assert_eq!(followed.collect().end.unwrap().status, "signal: killed");
    mark.wait_until_gone();
}

fn a_process_is_ended_as_a_whole(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    // The leader ends at once, one of its group never does, and one has left it.
    let script = "setsid sleep 777 >/dev/null 2>&1 & (trap '' TERM; sleep 778)& echo up; wait";
    let mut followed = client.start(marked(script, &mark));
    let process = followed.pid();
    followed.read_until("up\n");
    mark.wait_for("sleep 777");
    client.end(pid(process)).unwrap();
    assert_eq!(followed.collect().end.unwrap().status, "signal: terminated");
    mark.wait_until_gone();
    assert_eq!(client.end(pid(process)).unwrap_err().code, Code::NotFound);
}

fn signals_of_every_number_are_sent(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let mut followed = client.start(bash(
        "trap 'echo usr1' USR1; trap 'echo winch; exit 0' WINCH; echo up; while :; do sleep 0.05; done",
    ));
    let process = followed.pid();
    followed.read_until("up\n");
    client.signal(pid(process), 10, false).unwrap();
    followed.read_until("usr1\n");
    client.signal(pid(process), 28, false).unwrap();
    followed.read_until("winch\n");
    assert_eq!(followed.collect().code(), Some(0));
    for bad in [0, 32, 65, -1, 1000] {
        assert_eq!(client.signal(pid(process), bad, false).unwrap_err().code, Code::Unimplemented, "{bad}");
    }
}

fn what_is_printed_at_the_end_is_not_lost(on: On) {
    let envd = on.envd();
    let client = envd.json();
    for _ in 0..10 {
        let mut followed = client.start(bash(
            "trap 'head -c 60000 /dev/zero; echo; echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done",
        ));
        let process = followed.pid();
        followed.read_until("up\n");
        client.signal(pid(process), 15, false).unwrap();
        let whole = followed.collect();
        assert_eq!((whole.stdout.len(), whole.code()), (60_005, Some(3)));
        assert!(whole.stdout.ends_with(b"\nbye\n"));
    }
}

fn the_end_waits_for_the_output(on: On) {
    let envd = on.envd();
    let gate = Gate::new();
    let mut followed = envd.json().start(bash(&format!("({}; echo late) & echo done", gate.wait())));
    followed.pid();
    followed.read_until("done\n");
    thread::sleep(Duration::from_millis(300));
    gate.open();
    let whole = followed.collect();
    assert_eq!((whole.text(), whole.code()), ("late\n".to_owned(), Some(0)));
    // What does not hold the output open is not waited for.
    let begun = Instant::now();
    assert_eq!(envd.json().start(bash("sleep 60 >/dev/null 2>&1 & echo done")).collect().text(), "done\n");
    assert!(begun.elapsed() < WELL_UNDER_A_MINUTE);
}

fn after_a_kill_nobody_holds_up_the_end(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    let begun = Instant::now();
    let mut followed = client.start(marked("sleep 777 & echo up; wait", &mark));
    let process = followed.pid();
    followed.read_until("up\n");
    client.signal(pid(process), 9, false).unwrap();
    assert_eq!(followed.collect().end.unwrap().status, "signal: killed");
    assert!(begun.elapsed() < WELL_UNDER_A_MINUTE);
    assert_eq!(mark.named("sleep 777").len(), 1, "and it is left alone");
    mark.kill();
}

fn the_time_for_a_start_is_the_life_of_its_process(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let begun = Instant::now();
    let mut followed = client.with("Connect-Timeout-Ms", "500").start(bash("sleep 100"));
    let process = followed.pid();
    let other = client.connect(pid(process));
    let whole = followed.collect();
    assert_eq!((whole.end, whole.error.unwrap().code), (None, Code::DeadlineExceeded));
    let other = other.collect();
    assert_eq!((other.end.unwrap().status, other.error), ("signal: killed".to_owned(), None));
    assert!(begun.elapsed() >= Duration::from_millis(500));
    wait_until("it has ended", || client.list().is_empty());
    // Also when its client has left long before.
    let gone = client.with("Connect-Timeout-Ms", "700").start(bash("sleep 100")).pid();
    assert_eq!(client.list().len(), 1);
    wait_until("it has ended", || client.list().is_empty());
    assert_eq!(client.connect(pid(gone)).collect().end.unwrap().status, "signal: killed");
}

fn the_time_for_a_connect_is_not(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let process = client.start(bash("sleep 100")).pid();
    let whole = client.with("Connect-Timeout-Ms", "300").connect(pid(process)).collect();
    assert_eq!((whole.end, whole.error.unwrap().code), (None, Code::DeadlineExceeded));
    assert_eq!(client.list().len(), 1);
}

fn any_keep_alive_is_taken(on: On) {
    let envd = on.envd();
    let client = envd.json();
    for interval in ["0", "-1", "-99999999999999999999", "x", "", "99999999999999999999999"] {
        let client = client.with("Keepalive-Ping-Interval", interval);
        assert_eq!(client.start(bash("echo x")).collect().text(), "x\n", "{interval}");
    }
    let mut followed = client.with("Keepalive-Ping-Interval", "0").start(bash("sleep 100"));
    let process = followed.pid();
    assert_eq!(followed.next_event(), Event::KeepAlive);
    let mut followed = client.with("Keepalive-Ping-Interval", "-5").connect(pid(process));
    followed.pid();
    assert_eq!((followed.next_event(), followed.next_event()), (Event::KeepAlive, Event::KeepAlive));
}

fn a_process_that_does_not_read_holds_up_its_writer_only(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let mut followed = client.start(StartRequest {
        stdin: Some(true),
        ..bash("trap 'exit 9' USR1; sleep 100 >/dev/null 2>&1 & wait")
    });
    let process = followed.pid();
    let input = Some(ProcessInput { stdin: Some(vec![0; 4 << 20].into()), pty: None });
    let request = SendInputRequest { process: pid(process), input };
    let sent: Result<Empty, _> =
        client.with("Connect-Timeout-Ms", "500").call("/process.Process/SendInput", &request);
    assert_eq!(sent.unwrap_err().code, Code::DeadlineExceeded);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let sent: Result<Empty, _> = client.call("/process.Process/SendInput", &request);
            sent.unwrap_err().code
        });
        let close = CloseStdinRequest { process: pid(process) };
        client.call::<_, Empty>("/process.Process/CloseStdin", &close).unwrap();
        assert_eq!(writing.join().unwrap(), Code::FailedPrecondition, "its input was closed");
    });
    client.signal(pid(process), 10, false).unwrap();
    assert_eq!(followed.collect().code(), Some(9));
}

/// Prints 24 MiB, and says so.
const FLOOD: &str = "head -c 25165824 /dev/zero; echo end >&2";

fn a_client_that_does_not_read_holds_up_nobody_else(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let gate = Gate::new();
    let mut ghost = client.start(bash(&format!("{}; {FLOOD}", gate.wait())));
    let process = ghost.pid();
    let mut second = client.connect(pid(process));
    second.pid();
    gate.open();
    // The first reads nothing more; it is there until its connection ends.
    let whole = second.collect();
    assert_eq!((whole.stdout.len(), &*whole.stderr, whole.code()), (24 << 20, &b"end\n"[..], Some(0)));
    assert_eq!(whole.error, None);
    // What it finds when it reads on: what was sent to it, and why nothing more was.
    let whole = ghost.collect();
    assert_eq!((whole.end, whole.error.unwrap().code), (None, Code::ResourceExhausted));
    assert!(whole.stdout.len() < 24 << 20);
}

fn a_slow_client_slows_its_process_and_loses_nothing(on: On) {
    let envd = on.envd();
    let client = envd.proto();
    let folder = Folder::new();
    let file = folder.file("printed");
    let script =
        format!("for i in $(seq 24); do head -c 1000000 /dev/zero; echo $i > {}; done", file.display());
    let mut followed = client.start(bash(&script));
    followed.pid();
    let mut socket = followed.socket().try_clone().unwrap();
    thread::sleep(Duration::from_millis(1500));
    let printed =
        || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    assert!(printed() < 24, "it waits for who does not read");
    let mut read = 0;
    let mut buffer = vec![0; 1 << 16];
    while printed() < 24 {
        read += socket.read(&mut buffer).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    loop {
        let len = socket.read(&mut buffer).unwrap();
        read += len;
        if buffer[..len].ends_with(b"\r\n0\r\n\r\n") {
            break;
        }
    }
    assert!(read > 24_000_000, "all of it came: {read}");
}

fn known(client: &Client) -> Client {
    client.with("Hangar-Log", "100000")
}

fn output_is_kept_for_who_asks_for_it(on: On) {
    let envd = on.envd();
    let started = |client: &Client, name: &str| {
        let request =
            StartRequest { tag: Some(name.to_owned()), ..bash("echo one; sleep 0.2; echo two; exit 4") };
        known(client).start(request)
    };
    for (client, name) in [(envd.json(), "json"), (envd.proto(), "proto")] {
        let mut followed = started(&client, name);
        let Event::Start(StartEvent { pid: process, seq, offset }) = followed.next_event() else { panic!() };
        assert_eq!((seq, offset), (Some(1), Some(0)));
        let Event::Data(DataEvent { stdout, seq, offset, ts_ms, .. }) = followed.next_event() else {
            panic!()
        };
        assert_eq!((&*stdout.unwrap(), seq, offset), (&b"one\n"[..], Some(1), Some(0)));
        assert!(ts_ms.unwrap() > 1_500_000_000_000);
        drop(followed);
        // From where it was, while it runs and after.
        assert_eq!(client.with("Hangar-Since", "4").connect(pid(process)).collect().text(), "two\n");
        let whole = client.with("Hangar-Since", "0").connect(tag(name)).collect();
        assert_eq!((whole.text(), whole.code()), ("one\ntwo\n".to_owned(), Some(4)));
        let mut followed = client.with("Hangar-Since", "2").connect(tag(name));
        let Event::Start(StartEvent { offset, .. }) = followed.next_event() else { panic!() };
        assert_eq!((offset, followed.collect().text()), (Some(2), "e\ntwo\n".to_owned()));
        let ahead = client.with("Hangar-Since", "9").connect(tag(name)).collect();
        assert_eq!(ahead.error.unwrap().code, Code::OutOfRange);
        // Clients that know nothing of it get nothing of it.
        let mut followed = client.connect(tag(name));
        assert_eq!(followed.next_event(), Event::Start(StartEvent { pid: process, ..StartEvent::default() }));
        let Event::End(end) = followed.next_event() else { panic!() };
        assert_eq!((end.exit_code, end.signal, end.drain_timed_out), (4, 0, false));
    }
    // What is older than what is kept is said to be gone by where the stream begins.
    let client = envd.json();
    let long = known(&client).start(bash("head -c 1000000 /dev/zero; echo end >&2")).collect();
    let mut followed = client.with("Hangar-Since", "10").connect(pid(long.pid));
    let Event::Start(StartEvent { offset: Some(offset), .. }) = followed.next_event() else { panic!() };
    let whole = followed.collect();
    assert_eq!(offset + (whole.stdout.len() + whole.stderr.len()) as u64, 1_000_004);
    assert!(whole.stdout.len() >= 99_996, "{}", whole.stdout.len());
}

fn an_exit_is_told_before_the_output_ends(on: On) {
    let envd = on.envd();
    let gate = Gate::new();
    let script = format!("({}; echo late) & echo done; kill -9 $$", gate.wait());
    let mut followed = known(&envd.proto()).start(bash(&script));
    let exited = loop {
        match followed.next_event() {
            Event::Exited(exited) => break exited,
            Event::Start(_) | Event::Data(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((exited.exit_code, exited.signal), (-1, 9));
    gate.open();
    let whole = followed.collect();
    assert!(whole.text().ends_with("late\n"));
    assert_eq!(whole.end.map(|end| (end.exit_code, end.signal)), Some((-1, 9)));
}

fn until_it_is_read_a_process_waits(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let gate = Gate::new();
    let until_read = client.with("Hangar-Retention", "until-read");
    let mut followed = until_read.start(bash(&format!("{}; {FLOOD}", gate.wait())));
    let process = followed.pid();
    let mut second = client.connect(pid(process));
    second.pid();
    gate.open();
    // Longer than a client that stands still is waited for otherwise.
    thread::sleep(Duration::from_millis(600));
    assert_eq!(client.list().len(), 1, "it waits for the one that started it");
    let reading = thread::spawn(move || second.collect());
    let whole = followed.collect();
    assert_eq!((whole.stdout.len(), whole.code(), whole.error), (24 << 20, Some(0), None));
    let second = reading.join().unwrap();
    let lost = second.error.is_some_and(|error| error.code == Code::ResourceExhausted);
    assert!(lost || second.stdout.len() == 24 << 20, "the other kept up, or was told that it did not");
}

fn who_started_with_a_log_ends_all_of_it_in_time(on: On) {
    let envd = on.envd();
    let (client, mark) = (envd.json(), Mark::new());
    let client = known(&client).with("Connect-Timeout-Ms", "600");
    let whole = client.start(marked("sleep 777 & setsid sleep 778 & echo up; wait", &mark)).collect();
    assert_eq!(whole.error.unwrap().code, Code::DeadlineExceeded);
    mark.wait_until_gone();
}
