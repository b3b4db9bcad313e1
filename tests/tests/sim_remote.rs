//! A sandbox behind a daemon on a virtual clock, whose connections break at every byte.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::{
    Handle, Sandbox as _,
    envd::{Config, EnvdSandbox},
    sandbox::{Command, Spec, StartError, Stdin},
};
use hangar_core::{
    log::{Channel, Item, Reader, Retention},
    process::{self, Exit, Process, Signal, Target},
};
use hangar_tests::sim::{Cell, Link, cell::run_cell, script, world::at_ms};
use std::{collections::BTreeMap, future::poll_fn, sync::Arc};

/// It prints now and then, on both of its outputs, and input is not asked of it.
const SCRIPT: &str = "drip 9 7;err ab\\n;sleep 5;out c;sleep 3;drip 4 1;exit 4";

fn remote(cell: &Cell) -> EnvdSandbox {
    let url = format!("http://{}", cell.address()).parse().unwrap();
    EnvdSandbox::new(Arc::clone(&cell.runtime) as _, Config { url, token: None, workdir: None })
}

fn spec(script: &str, retention: Retention) -> Spec {
    Spec {
        id: "01K00000000000000000000000".to_owned(),
        tag: None,
        command: Command::Shell(script.to_owned()),
        cwd: None,
        env: BTreeMap::new(),
        user: None,
        stdin: Stdin::None,
        process: process::Config { retention, ..process::Config::default() },
    }
}

const RING: Retention = Retention::Ring { bytes: 1 << 16 };
const UNTIL_READ: Retention = Retention::UntilRead { bytes: 1 << 16 };

/// What a process printed, by output, and how it ended: its frames have to follow each other.
async fn whole(handle: &Arc<Handle>) -> ([Vec<u8>; 2], Option<Exit>) {
    let reading = handle.reader();
    let mut reader = reading.read(std::task::Waker::noop(), |process| Reader::oldest(process.log_mut()));
    let mut printed = [Vec::new(), Vec::new()];
    let (mut seq, mut offset) = (0, 0);
    loop {
        poll_fn(|cx| {
            reading.poll_until(cx.waker(), |process| process.is_over() || reader.has_next(process.log()))
        })
        .await;
        let item = reading.read(std::task::Waker::noop(), |process| reader.take(process.log_mut()));
        match item {
            Some(Item::Frame(frame)) => {
                assert_eq!((frame.seq, frame.offset), (seq + 1, offset), "the frame that follows");
                (seq, offset) = (frame.seq, frame.end());
                printed[usize::from(frame.channel == Channel::Stderr)].extend_from_slice(&frame.data);
            }
            Some(Item::Gap(gap)) => panic!("a gap: {gap:?}"),
            None => return (printed, handle.look(Process::exit_status)),
        }
    }
}

/// Starts the script where the connections after the first, by which the daemon is asked what it is, are cut.
fn run(retention: Retention, cuts: &[usize]) -> Vec<String> {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        cell.runtime.network().cut_next([usize::MAX].into_iter().chain(cuts.iter().copied()));
        let handle = sandbox.start(spec(SCRIPT, retention)).await.unwrap();
        let (printed, exit) = whole(&handle).await;
        assert_eq!((printed, exit), (script::printed(SCRIPT), Some(Exit::Code(4))), "cut after {cuts:?}");
        // As long as it may be looked for.
        cell.sleep_ms(10_000).await;
        assert!(handle.is_released());
        assert_eq!(cell.sandbox.records().len(), 1, "it was started once");
    })
}

/// More than all that a daemon says of the script.
const ENOUGH: usize = 1600;

#[test]
fn a_cut_at_any_byte_loses_and_doubles_nothing() {
    for cut in 0..ENOUGH {
        run(RING, &[cut]);
    }
    let opened = run(RING, &[ENOUGH]).iter().filter(|line| line.ends_with("opens")).count();
    assert_eq!(opened, 2, "the last of them cuts nothing");
}

#[test]
fn so_it_is_with_a_command_of_which_nothing_may_be_missing() {
    for cut in (0..ENOUGH).step_by(3) {
        run(UNTIL_READ, &[cut]);
    }
}

#[test]
fn cuts_again_and_again_are_no_worse() {
    for cut in (200..ENOUGH).step_by(7) {
        run(RING, &[cut, cut, cut / 2, cut, cut + 1]);
    }
}

#[test]
fn without_a_daemon_nothing_is_started_and_that_is_said() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let url = "http://127.0.0.1:1".parse().unwrap();
        let config = Config { url, token: None, workdir: None };
        let sandbox = EnvdSandbox::new(Arc::clone(&cell.runtime) as _, config);
        let error = sandbox.start(spec(SCRIPT, RING)).await.unwrap_err();
        assert!(matches!(error, StartError::Broken(_)), "{error}");
        assert!(sandbox.processes().is_empty());
    });
}

#[test]
fn a_daemon_that_is_gone_is_looked_for_ten_minutes() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let handle = sandbox.start(spec("out a;hang", RING)).await.unwrap();
        cell.sleep_ms(100).await;
        cell.runtime.network().cut_next(std::iter::repeat_n(0, 10_000));
        cell.runtime.network().cut_opened();
        cell.sleep_ms(590_000).await;
        assert_eq!(handle.look(Process::exit_status), None, "it may come back");
        cell.sleep_ms(20_000).await;
        assert_eq!(handle.look(Process::exit_status), Some(Exit::Unknown));
        cell.runtime.network().cut_next([]);
        for handle in cell.sandbox.processes() {
            handle.command(Process::kill);
        }
        cell.sleep_ms(10_000).await;
        assert!(handle.is_released());
    });
}

#[test]
fn a_quiet_stream_that_is_cut_again_and_again_is_no_end() {
    // As by a proxy that closes what has been idle for five seconds.
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let handle = remote(cell).start(spec("out a;sleep 20000;out b;exit 0", RING)).await.unwrap();
        for _ in 0..4 {
            cell.sleep_ms(5_000).await;
            assert_eq!(handle.look(Process::exit_status), None);
            cell.runtime.network().cut_opened();
        }
        let (printed, exit) = whole(&handle).await;
        assert_eq!((printed, exit), ([b"ab".to_vec(), Vec::new()], Some(Exit::Code(0))));
    });
}

#[test]
fn a_process_without_a_time_lives_as_long_as_it_likes() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let handle = remote(cell).start(spec("sleep 90000000;exit 7", RING)).await.unwrap();
        cell.sleep_ms(89_999_000).await;
        assert_eq!(handle.look(Process::exit_status), None);
        let (_, exit) = whole(&handle).await;
        assert_eq!((exit, cell.now()), (Some(Exit::Code(7)), at_ms(90_000_000)));
    });
}

#[test]
fn whoever_leaves_during_the_start_leaves_nothing_behind() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let mut starting = Box::pin(sandbox.start(spec("start-delay 1000;hang", RING)));
        poll_fn(|cx| {
            assert!(starting.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        cell.sleep_ms(500).await;
        drop(starting);
        cell.sleep_ms(10_000).await;
        let record = cell.sandbox.record();
        assert!(record.started_at.is_some() && record.exited.is_some(), "{record:?}");
        assert!(sandbox.processes().is_empty());
    });
}

#[test]
fn a_time_is_kept_and_what_does_not_hear_it_is_swept() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut asked = spec("ignore-term;linger;hang", RING);
        asked.process.timeout = Some(std::time::Duration::from_secs(2));
        let handle = remote(cell).start(asked).await.unwrap();
        let (_, exit) = whole(&handle).await;
        assert_eq!((exit, cell.now()), (Some(Exit::Signal(9)), at_ms(5_000)));
        assert!(handle.look(Process::timed_out));
        assert_eq!(cell.sandbox.record().terminated_at, [at_ms(2_000)]);
    });
}

#[test]
fn a_reader_that_waits_is_waited_for() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        // Three frames, and a part of the next.
        let retention = Retention::UntilRead { bytes: 110_000 };
        let handle = remote(cell).start(spec(&format!("flood {MUCH};exit 3"), retention)).await.unwrap();
        // Nobody reads, and time passes: a driver that does not wait would be a busy loop.
        cell.sleep_ms(20_000).await;
        assert_eq!(handle.look(Process::exit_status), None);
        assert_eq!(handle.look(|process| process.log().held()), 110_000);
        let (printed, exit) = whole(&handle).await;
        assert_eq!((printed[0].len(), exit), (MUCH, Some(Exit::Code(3))));
        assert!(printed[0] == script::pattern(MUCH), "what was printed");
    });
}

/// Longer than what the daemon keeps until it is acknowledged.
const MUCH: usize = 9_000_000;

/// What the buffers of two systems may take.
const DEEP: Link = Link { capacity: 3_000_000, ..Link::INSTANT };

#[test]
fn what_was_on_its_way_when_it_was_cut_is_sent_again() {
    run_cell(0, DEEP, async |cell: &Cell| {
        let script = format!("flood {MUCH};exit 3");
        let handle = remote(cell).start(spec(&script, UNTIL_READ)).await.unwrap();
        // Nobody reads: the connection fills, and is cut.
        cell.sleep_ms(1_000).await;
        let printed = || cell.sandbox.record().printed;
        assert!(printed() > 2_000_000, "it is far ahead: {}", printed());
        let reading = cell.runtime.task({
            let handle = Arc::clone(&handle);
            async move { whole(&handle).await }
        });
        for _ in 0..5 {
            cell.runtime.network().cut_opened();
            cell.sleep_ms(0).await;
        }
        let (printed, exit) = reading.await;
        assert_eq!((printed[0].len(), exit), (MUCH, Some(Exit::Code(3))));
        assert!(printed[0] == script::pattern(MUCH), "what was printed");
    });
}

#[test]
fn what_is_not_acknowledged_is_bounded_and_waited_for() {
    run_cell(0, DEEP, async |cell: &Cell| {
        let script = format!("flood {MUCH};exit 3");
        let handle = remote(cell).start(spec(&script, UNTIL_READ)).await.unwrap();
        cell.sleep_ms(60_000).await;
        let held = |handle: &Arc<Handle>| handle.look(|process| process.log().held());
        let at_daemon = cell.sandbox.processes().remove(0);
        assert!(held(&at_daemon) <= 2 << 20, "{} are kept", held(&at_daemon));
        // While its server is away for less than ten minutes, too.
        cell.runtime.network().cut_next(std::iter::repeat_n(0, 10_000));
        cell.runtime.network().cut_opened();
        cell.sleep_ms(590_000).await;
        assert_eq!(at_daemon.look(Process::exit_status), None);
        cell.runtime.network().cut_next([]);
        let (printed, exit) = whole(&handle).await;
        assert!(printed[0] == script::pattern(MUCH), "what was printed");
        assert_eq!(exit, Some(Exit::Code(3)));
        cell.sleep_ms(100).await;
        assert_eq!(held(&at_daemon), 0, "what is here is not kept there");
    });
}

#[test]
fn who_does_not_come_back_is_not_waited_for() {
    run_cell(0, DEEP, async |cell: &Cell| {
        let script = format!("flood {MUCH};exit 3");
        let _handle = remote(cell).start(spec(&script, UNTIL_READ)).await.unwrap();
        cell.sleep_ms(1_000).await;
        cell.runtime.network().cut_next(std::iter::repeat_n(0, 100_000));
        cell.runtime.network().cut_opened();
        let at_daemon = cell.sandbox.processes().remove(0);
        cell.sleep_ms(599_000).await;
        assert_eq!(at_daemon.look(Process::exit_status), None);
        cell.sleep_ms(2_000).await;
        assert_eq!(at_daemon.look(Process::exit_status), Some(Exit::Code(3)), "it runs to its end");
    });
}

#[test]
fn who_is_there_is_waited_for_however_long_it_reads_nothing() {
    for is_cut in [false, true] {
        run_cell(0, DEEP, async |cell: &Cell| {
            let script = format!("flood {MUCH};exit 3");
            let handle = remote(cell).start(spec(&script, UNTIL_READ)).await.unwrap();
            cell.sleep_ms(1_000).await;
            if is_cut {
                cell.runtime.network().cut_opened();
            }
            cell.sleep_ms(3_600_000).await;
            let (printed, exit) = whole(&handle).await;
            assert!(printed[0] == script::pattern(MUCH), "{} were printed", printed[0].len());
            assert_eq!(exit, Some(Exit::Code(3)));
        });
    }
}

#[test]
fn many_that_have_ended_lose_nothing_of_what_is_not_here() {
    run_cell(0, DEEP, async |cell: &Cell| {
        const LEN: usize = 1_900_000;
        let sandbox = remote(cell);
        let mut handles = Vec::new();
        for number in 0..40 {
            let spec = spec(&format!("flood {LEN};exit 3"), UNTIL_READ);
            let spec = Spec { id: format!("01K000000000000000000000{number:02}"), ..spec };
            handles.push(sandbox.start(spec).await.unwrap());
        }
        cell.sleep_ms(1_000).await;
        let ended = cell.sandbox.records().iter().filter(|record| record.exited.is_some()).count();
        assert_eq!(ended, 40, "together they have more than is kept of those that have ended");
        cell.runtime.network().cut_opened();
        cell.sleep_ms(400_000).await;
        for handle in &handles {
            let (printed, exit) = whole(handle).await;
            assert_eq!((printed[0].len(), exit), (LEN, Some(Exit::Code(3))));
        }
    });
}

#[test]
fn a_word_that_is_lost_is_said_again() {
    run_cell(0, DEEP, async |cell: &Cell| {
        let handle = remote(cell).start(spec(&format!("flood {MUCH};exit 3"), UNTIL_READ)).await.unwrap();
        // The calls on connections of their own; the stream is open already.
        cell.runtime.network().cut_next([100, 0, 50, 0, 0, 0, 0]);
        let (printed, exit) = whole(&handle).await;
        assert!(printed[0] == script::pattern(MUCH), "{} were printed", printed[0].len());
        assert_eq!(exit, Some(Exit::Code(3)));
    });
}

#[test]
fn frames_of_a_byte_are_acknowledged_as_well() {
    run_cell(0, DEEP, async |cell: &Cell| {
        // Two outputs by turns: no two bytes join a frame.
        let script = format!("{}exit 3", "out a;err b;".repeat(150_000));
        let handle = remote(cell).start(spec(&script, UNTIL_READ)).await.unwrap();
        let (printed, exit) = whole(&handle).await;
        assert_eq!(printed.map(|printed| printed.len()), [150_000, 150_000]);
        assert_eq!(exit, Some(Exit::Code(3)));
    });
}

#[test]
fn input_that_nobody_reads_holds_up_nothing() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let asked = Spec { stdin: Stdin::Open, ..spec("sleep 60000;out a;hold 3000;exit 3", RING) };
        let handle = remote(cell).start(asked).await.unwrap();
        for _ in 0..3 {
            handle.command(|process| drop(process.write_stdin(vec![b'x'; 900_000].into())));
            cell.sleep_ms(11_000).await;
        }
        let (printed, exit) = whole(&handle).await;
        assert_eq!((printed[0].as_slice(), exit), (&b"a"[..], Some(Exit::Code(3))));
    });
}

#[test]
fn what_the_daemon_keeps_of_one_that_has_ended_is_waited_for() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let sandbox = remote(cell);
        let handle = sandbox.start(spec("out a;sleep 1000;flood 50000;exit 3", RING)).await.unwrap();
        cell.sleep_ms(500).await;
        cell.runtime.network().cut_next(std::iter::repeat_n(0, 8));
        cell.runtime.network().cut_opened();
        // For longer than the output of one that has ended is waited for.
        cell.sleep_ms(1_000).await;
        let (printed, exit) = whole(&handle).await;
        assert_eq!((printed[0].len(), exit), (50_001, Some(Exit::Code(3))));
        assert!(!handle.look(Process::drain_timed_out));
    });
}

#[test]
fn what_e2bs_daemon_was_not_told_waits_until_the_process_is_found() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.runtime.network().hide_hangar();
        let handle = remote(cell).start(spec("out a;hang", RING)).await.unwrap();
        // The connection that is kept for the next call is closed by then.
        cell.sleep_ms(700_000).await;
        cell.runtime.network().cut_next(std::iter::repeat_n(0, 100));
        // It fails while the process is followed, and is to be told again after it was lost.
        handle.command(|process| process.signal(Signal::TERM, Target::Leader));
        cell.sleep_ms(50).await;
        cell.runtime.network().cut_opened();
        // That time passes: a driver that wakes for it would be a busy loop.
        cell.sleep_ms(12_000).await;
        assert_eq!(handle.look(Process::exit_status), None);
        cell.runtime.network().cut_next([]);
        cell.sleep_ms(30_000).await;
        assert_eq!(handle.look(Process::exit_status), Some(Exit::Signal(15)));
        assert!(handle.is_released());
    });
}
