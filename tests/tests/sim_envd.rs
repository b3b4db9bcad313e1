//! The daemon on a virtual clock: every time is exact, every connection may break.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what the tests share may fail as they do, and what they do not expect is all the rest"
)]

use hangar_backends::Sandbox as _;
use hangar_core::{
    process::signal_name,
    wire::{
        connect::Code,
        envd::process::{
            AcknowledgeRequest, ConnectRequest, Empty, ProcessInput, ProcessSelector, SendInputRequest,
            SendSignalRequest, StartRequest,
        },
    },
};
use hangar_tests::{
    envd::Event,
    sim::{
        Cell, Follower, Link,
        cell::{pid, run_cell, script},
        random::Random,
        sandbox::FIRST_PID,
        script::pattern,
        seeds,
        world::at_ms,
    },
};
fn run(scenario: impl AsyncFnOnce(&Cell)) {
    run_cell(0, Link::INSTANT, scenario);
}

/// Reads to the end of the stream: standard output, and the last two events.
async fn rest(follower: &mut Follower) -> (Vec<u8>, Vec<Event>) {
    let (mut printed, mut events) = (Vec::new(), Vec::new());
    loop {
        match follower.next().await {
            Event::Data(data) => printed.extend(data.stdout.unwrap_or_default()),
            Event::Closed(error) => {
                events.push(Event::Closed(error));
                return (printed, events);
            }
            Event::Start(_) | Event::KeepAlive => {}
            other => events.push(other),
        }
    }
}

/// How a stream ended: the status of its process, or its own error.
async fn end(follower: &mut Follower) -> Result<String, Code> {
    let (_, events) = rest(follower).await;
    match &events[..] {
        [.., Event::End(end), Event::Closed(None)] => Ok(end.status.clone()),
        [.., Event::Closed(Some(error))] => Err(error.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_keep_alive_comes_after_each_silence() {
    run(async |cell: &Cell| {
        let mut follower =
            cell.start_script("sleep 3500;out x;hang", &[("keepalive-ping-interval", "2")]).await;
        follower.pid().await;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let event = match follower.next().await {
                Event::KeepAlive => "alive",
                Event::Data(_) => "data",
                other => panic!("{other:?}"),
            };
            seen.push((event, cell.now()));
        }
        // The start does not put it off, and output does.
        assert_eq!(
            seen,
            [("alive", at_ms(2000)), ("data", at_ms(3500)), ("alive", at_ms(5500)), ("alive", at_ms(7500))]
        );
    });
}

#[test]
fn without_a_wish_it_comes_every_90_seconds_and_never_more_often_than_each_second() {
    for (wish, first) in
        [(None, 90_000), (Some("x"), 90_000), (Some("0"), 1000), (Some("-7"), 1000), (Some("50"), 50_000)]
    {
        run(async |cell: &Cell| {
            let headers: Vec<_> = wish.iter().map(|wish| ("keepalive-ping-interval", *wish)).collect();
            let mut follower = cell.start_script("hang", &headers).await;
            follower.pid().await;
            assert_eq!((follower.next().await, cell.now()), (Event::KeepAlive, at_ms(first)), "{wish:?}");
        });
    }
}

#[test]
fn an_exit_is_known_for_30_seconds() {
    run(async |cell: &Cell| {
        let request = StartRequest { tag: Some("name".to_owned()), ..script("sleep 1000;exit 7") };
        let mut follower = cell.follow(cell.client(), "Start", &request, &[]).await.unwrap();
        let process = follower.pid().await;
        assert_eq!(end(&mut follower).await, Ok("exit status 7".to_owned()));
        cell.sleep_ms(29_999).await;
        let by_tag = ProcessSelector { pid: None, tag: Some("name".to_owned()) };
        for selector in [pid(process), by_tag.clone()] {
            assert_eq!(end(&mut cell.connect(selector, &[]).await).await, Ok("exit status 7".to_owned()));
        }
        cell.sleep_ms(1).await;
        for selector in [pid(process), by_tag] {
            assert_eq!(end(&mut cell.connect(selector, &[]).await).await, Err(Code::NotFound));
        }
    });
}

#[test]
fn what_is_kept_is_kept_for_ten_minutes() {
    run(async |cell: &Cell| {
        let mut follower = cell.start_script("out kept;exit 7", &[("hangar-log", "1000")]).await;
        let process = follower.pid().await;
        end(&mut follower).await.unwrap();
        cell.sleep_ms(599_999).await;
        let (printed, _) = rest(&mut cell.connect(pid(process), &[("hangar-since", "0")]).await).await;
        assert_eq!(printed, b"kept");
        cell.sleep_ms(1).await;
        assert_eq!(end(&mut cell.connect(pid(process), &[]).await).await, Err(Code::NotFound));
    });
}

#[test]
fn a_deadline_ends_the_process_at_its_time() {
    run(async |cell: &Cell| {
        let mut follower = cell.start_script("ignore-term;hang", &[("connect-timeout-ms", "1500")]).await;
        let process = follower.pid().await;
        let mut other = cell.connect(pid(process), &[]).await;
        let mut short = cell.connect(pid(process), &[("connect-timeout-ms", "700")]).await;
        assert_eq!((end(&mut short).await, cell.now()), (Err(Code::DeadlineExceeded), at_ms(700)));
        assert_eq!((end(&mut follower).await, cell.now()), (Err(Code::DeadlineExceeded), at_ms(1500)));
        assert_eq!((end(&mut other).await, cell.now()), (Ok("signal: killed".to_owned()), at_ms(1500)));
    });
}

#[test]
fn after_a_kill_what_holds_the_output_open_is_waited_for_200_ms() {
    for signal in [9, 15] {
        run(async |cell: &Cell| {
            let mut follower = cell.start_script("hold 60000;out x;hang", &[]).await;
            let process = follower.pid().await;
            follower.next().await;
            cell.sleep_ms(1000).await;
            let request = SendSignalRequest { process: Some(pid(process)), signal, group: false, end: false };
            cell.call::<_, Empty>("process.Process/SendSignal", &request, &[]).await.unwrap();
            let status = format!("signal: {}", if signal == 9 { "killed" } else { "terminated" });
            assert_eq!(
                (end(&mut follower).await, cell.now()),
                (Ok(status), at_ms(1200)),
                "{}",
                signal_name(9)
            );
        });
    }
    // Without one it is waited for to its end.
    run(async |cell: &Cell| {
        let mut follower = cell.start_script("hold 60000;exit 3", &[]).await;
        assert_eq!((end(&mut follower).await, cell.now()), (Ok("exit status 3".to_owned()), at_ms(60_000)));
    });
}

#[test]
fn input_that_does_not_fit_is_waited_for_until_its_deadline() {
    run(async |cell: &Cell| {
        let process = cell.start_script("hang", &[]).await.pid().await;
        let stdin = Some(ProcessInput { stdin: Some(vec![0; 3 << 20].into()), pty: None });
        let request = SendInputRequest { process: Some(pid(process)), input: stdin };
        let sent: Result<Empty, _> =
            cell.call("process.Process/SendInput", &request, &[("connect-timeout-ms", "2500")]).await;
        let error = sent.unwrap_err();
        assert_eq!((error.code, cell.now()), (Code::DeadlineExceeded, at_ms(2500)));
        assert!(error.message.contains("first 1048576 bytes were taken"), "{error}");
        // What fits as a whole is taken as a whole, or not at all.
        let stdin = Some(ProcessInput { stdin: Some(vec![0; 100].into()), pty: None });
        let request = SendInputRequest { process: Some(pid(process)), input: stdin };
        let sent: Result<Empty, _> =
            cell.call("process.Process/SendInput", &request, &[("connect-timeout-ms", "500")]).await;
        assert!(!sent.unwrap_err().message.contains("taken"));
        assert_eq!(cell.running().await, 1);
    });
}

#[test]
fn a_ghost_is_waited_for_a_quarter_of_a_second_once() {
    run(async |cell: &Cell| {
        // Its socket takes a little and no more.
        let ghost = cell.client_by(Link { capacity: 4096, ..Link::INSTANT });
        let mut ghost = cell.follow(ghost, "Start", &script("sleep 10;flood 4000000"), &[]).await.unwrap();
        let process = ghost.pid().await;
        let mut second = cell.connect(pid(process), &[]).await;
        let (printed, events) = rest(&mut second).await;
        assert_eq!(printed, pattern(4_000_000));
        assert!(matches!(&events[..], [Event::End(_), Event::Closed(None)]), "{events:?}");
        assert_eq!(cell.now(), at_ms(260));
        // It reads on, and is told why there is nothing more.
        assert_eq!(end(&mut ghost).await, Err(Code::ResourceExhausted));
    });
}

#[test]
fn the_only_reader_is_waited_for_a_minute() {
    run(async |cell: &Cell| {
        let slow = cell.client_by(Link { capacity: 4096, ..Link::INSTANT });
        let mut slow = cell.follow(slow, "Start", &script("flood 4000000;exit 5"), &[]).await.unwrap();
        slow.pid().await;
        cell.sleep_ms(59_000).await;
        assert_eq!(cell.running().await, 1, "it waits");
        let (printed, events) = rest(&mut slow).await;
        assert_eq!(printed.len(), 4_000_000, "and nothing is lost");
        assert!(matches!(&events[..], [Event::End(_), Event::Closed(None)]), "{events:?}");
    });
    run(async |cell: &Cell| {
        let ghost = cell.client_by(Link { capacity: 4096, ..Link::INSTANT });
        let mut ghost = cell.follow(ghost, "Start", &script("flood 4000000;exit 5"), &[]).await.unwrap();
        let process = ghost.pid().await;
        cell.sleep_ms(61_000).await;
        assert_eq!(cell.running().await, 0, "nobody waits for ever");
        assert_eq!(end(&mut cell.connect(pid(process), &[]).await).await, Ok("exit status 5".to_owned()));
        // Its connection is let go of.
        cell.sleep_ms(60_000).await;
        while ghost.try_next().await.is_ok() {}
    });
}

/// Reads output until it is this much.
async fn read(follower: &mut Follower, len: usize) -> Vec<u8> {
    let mut printed = Vec::new();
    while printed.len() < len {
        match follower.next().await {
            Event::Data(data) => printed.extend(data.stdout.unwrap_or_default()),
            Event::Start(_) | Event::Exited(_) => {}
            other => panic!("{other:?} after {} bytes", printed.len()),
        }
    }
    printed
}

#[test]
fn what_is_not_acknowledged_is_kept_and_waited_for() {
    const LEN: usize = 300_000;
    run(async |cell: &Cell| {
        let known = [("hangar-retention", "until-acknowledged=100000")];
        let mut first = cell.start_script(&format!("flood {LEN};exit 3"), &known).await;
        let process = first.pid().await;
        let acknowledge = async |pid_: u32, offset: usize| {
            let request = AcknowledgeRequest { process: Some(pid(pid_)), offset: offset as u64 };
            let done: Result<Empty, _> = cell.call("process.Process/Acknowledge", &request, &[]).await;
            done.map(drop).map_err(|error| error.code)
        };
        let printed = pattern(LEN);
        assert!(read(&mut first, 100_000).await == printed[..100_000]);
        cell.sleep_ms(60_000).await;
        let taken = || cell.sandbox.processes()[0].look(|process| process.log().end_offset());
        assert_eq!(taken(), 100_000, "it waits, whatever was read");
        drop(first);
        // All of it may have been on its way only.
        let mut again = cell.connect(pid(process), &[("hangar-since", "0")]).await;
        assert!(read(&mut again, 100_000).await == printed[..100_000]);
        assert_eq!(acknowledge(process, 100_001).await, Err(Code::OutOfRange));
        assert_eq!(acknowledge(process, 60_000).await, Ok(()));
        assert_eq!(acknowledge(process, 50_000).await, Ok(()), "an old word is none");
        assert!(read(&mut again, 60_000).await == printed[100_000..160_000]);
        cell.sleep_ms(3_600_000).await;
        assert_eq!(taken(), 160_000, "as long as somebody follows it");
        let mut third = cell.connect(pid(process), &[("hangar-since", "60000")]).await;
        assert!(read(&mut third, 100_000).await == printed[60_000..160_000]);
        for offset in [160_000, 260_000, LEN] {
            assert_eq!(acknowledge(process, offset).await, Ok(()));
            read(&mut third, 100_000.min(LEN - offset)).await;
        }
        assert_eq!(end(&mut third).await, Ok("exit status 3".to_owned()));
        cell.sleep_ms(300_000).await;
        assert_eq!(acknowledge(process, LEN).await, Ok(()), "it is known for a while");
        let mut late = cell.connect(pid(process), &[("hangar-since", "300000")]).await;
        assert_eq!(end(&mut late).await, Ok("exit status 3".to_owned()));
        let other = cell.start_script("hang", &[("hangar-retention", "until-read")]).await.pid().await;
        assert_eq!(acknowledge(other, 0).await, Err(Code::FailedPrecondition));
        assert_eq!(acknowledge(7, 0).await, Err(Code::NotFound));
    });
}

#[test]
fn one_that_has_ended_is_known_for_ten_minutes_once_its_client_has_almost_all() {
    for (len, acknowledged) in [(60_000, None), (90_000, Some(30_000))] {
        run(async |cell: &Cell| {
            let known = [("hangar-retention", "until-acknowledged=100000")];
            let mut first = cell.start_script(&format!("flood {len}"), &known).await;
            let process = Some(pid(first.pid().await));
            let acknowledge = async |offset| {
                let request = AcknowledgeRequest { process: process.clone(), offset };
                cell.call::<_, Empty>("process.Process/Acknowledge", &request, &[]).await.is_ok()
            };
            rest(&mut first).await;
            drop(first);
            if let Some(offset) = acknowledged {
                cell.sleep_ms(500_000).await;
                assert!(acknowledge(offset).await);
            }
            cell.sleep_ms(599_000).await;
            assert!(acknowledge(0).await, "{len}");
            cell.sleep_ms(2_000).await;
            assert!(!acknowledge(0).await, "{len}");
        });
    }
}

#[test]
fn whatever_is_cut_a_client_that_comes_back_has_each_byte_once() {
    seeds::each(150, |seed| {
        run_cell(seed, Link::INSTANT, async |cell: &Cell| {
            let mut random = Random::new(seed);
            let len = random.between(1, 200_000);
            let text = format!("flood {len};drip 20 30;exit 4");
            let expected = [&pattern(usize::try_from(len).unwrap())[..], &pattern(20)[..]].concat();
            let mut printed: Vec<u8> = Vec::new();
            let first = cell.client_by(Link::any(&mut random));
            let mut follower =
                cell.follow(first, "Start", &script(&text), &[("hangar-log", "1000000")]).await.unwrap();
            while !read_some(&mut follower, &mut printed, &mut random).await {
                follower.client.cutter().cut();
                cell.sleep_ms(random.below(40)).await;
                let client = cell.client_by(Link::any(&mut random));
                let request = ConnectRequest { process: Some(pid(FIRST_PID)) };
                let since = printed.len().to_string();
                follower =
                    cell.follow(client, "Connect", &request, &[("hangar-since", &since)]).await.unwrap();
            }
            assert!(printed == expected, "seed {seed}: {} of {} bytes", printed.len(), expected.len());
        });
    });
}

/// Reads some events, each of which has to go on where the last one ended. Whether the stream ended.
async fn read_some(follower: &mut Follower, printed: &mut Vec<u8>, random: &mut Random) -> bool {
    for _ in 0..random.between(0, 12) {
        match follower.next().await {
            Event::Start(start) => assert_eq!(start.offset, Some(printed.len() as u64)),
            Event::Data(data) => {
                assert_eq!(data.offset, Some(printed.len() as u64));
                printed.extend(data.stdout.unwrap());
            }
            Event::End(end) => assert_eq!(end.exit_code, 4),
            Event::Closed(error) => {
                assert_eq!(error, None);
                return true;
            }
            Event::Exited(_) | Event::KeepAlive => {}
        }
    }
    false
}

#[test]
fn a_start_whose_client_leaves_before_it_runs_is_known() {
    run(async |cell: &Cell| {
        let client = cell.client();
        let cutter = client.cutter();
        let request = script("start-delay 500;flood 1000000;exit 6");
        let started = cell.follow(client, "Start", &request, &[]);
        let cut = async {
            cell.sleep_ms(100).await;
            cutter.cut();
        };
        let (started, ()) = futures_lite::future::zip(started, cut).await;
        assert!(started.is_err());
        cell.sleep_ms(10_000).await;
        let record = cell.sandbox.record();
        assert!(record.released_at.is_some(), "it waits for nobody: {record:?}");
        assert_eq!(end(&mut cell.connect(pid(FIRST_PID), &[]).await).await, Ok("exit status 6".to_owned()));
    });
}

#[test]
fn everything_ends_with_the_daemon() {
    let lines = run_cell(7, Link::INSTANT, async |cell: &Cell| {
        for _ in 0..10 {
            cell.start_script("ignore-term;hang", &[]).await.pid().await;
        }
        assert_eq!(cell.running().await, 10);
    });
    assert!(lines.iter().any(|line| line.contains("is swept")), "{lines:?}");
}
