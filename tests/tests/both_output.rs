//! What a command prints, on both runtimes: as it prints it, and exactly that.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use base64::prelude::{BASE64_STANDARD, Engine};
use hangar_tests::{
    on_each,
    real::{Collected, Event, Gate, Mark, On, line},
};

on_each! {
    the_stream_is_announced_at_once
    a_result_has_the_output_and_the_exit_code
    standard_error_is_apart
    exit_codes_and_signals_are_told_apart
    a_command_that_cannot_be_found_ends_as_in_a_shell
    input_is_read_to_its_end
    without_input_it_is_at_its_end
    a_character_cut_by_time_is_whole
    a_character_that_never_ends_is_replaced_once
    control_characters_are_unchanged
    all_bytes_are_unchanged_in_base64
    the_last_byte_is_never_missing
    many_lines_are_all_there;
    output_arrives_while_the_command_runs
    output_after_the_end_of_input_is_not_lost
}

fn output_arrives_while_the_command_runs(on: On) {
    let server = on.start();
    let (first, second) = (Gate::new(), Gate::new());
    let command = format!("echo one; {}; echo two; {}; echo three", first.wait(), second.wait());
    let mut stream = server.client().stream(&line(command));
    assert_eq!(stream.read_until("one\n"), "one\n");
    first.open();
    assert_eq!(stream.read_until("two\n"), "two\n");
    assert_eq!(server.plane().streams().leased(), 1);
    second.open();
    let Collected { stdout, result, .. } = stream.collect();
    assert_eq!(stdout, b"three\n");
    assert_eq!((result.exit_code, result.stdout.as_str()), (Some(0), "one\ntwo\nthree\n"));
    assert!(result.streamed && result.closed.is_none());
}

fn the_stream_is_announced_at_once(on: On) {
    let server = on.start();
    let gate = Gate::new();
    let mut stream = server.client().stream(&line(gate.wait()));
    let head = stream.head().to_ascii_lowercase();
    for header in [
        "content-type: text/event-stream",
        "cache-control: no-cache, no-transform",
        "x-accel-buffering: no",
        "transfer-encoding: chunked",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    // A comment, although the command prints nothing.
    let mut first = [0; 1];
    std::io::Read::read_exact(stream.body(), &mut first).unwrap();
    assert_eq!(first, *b":");
    gate.open();
    assert_eq!(stream.collect().result.exit_code, Some(0));
}

fn a_result_has_the_output_and_the_exit_code(on: On) {
    let server = on.start();
    let result = server.client().exec(&line("echo out; echo err >&2; exit 3"));
    assert_eq!(result.exit_code, Some(3));
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
    assert!(!result.streamed && !result.timed_out && result.signal.is_none());
}

fn standard_error_is_apart(on: On) {
    let server = on.start();
    let collected = server.client().stream(&line("echo a; echo b >&2; echo c; echo d >&2")).collect();
    assert_eq!((&collected.stdout[..], &collected.stderr[..]), (&b"a\nc\n"[..], &b"b\nd\n"[..]));
    assert_eq!((&*collected.result.stdout, &*collected.result.stderr), ("a\nc\n", "b\nd\n"));
}

fn exit_codes_and_signals_are_told_apart(on: On) {
    let server = on.start();
    for (command, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 5", Some(5), None),
        ("exit 255", Some(255), None),
        ("exit 137", Some(137), None),
        ("kill -9 $$", None, Some("SIGKILL")),
        ("kill -TERM $$; sleep 9", None, Some("SIGTERM")),
        ("kill -SEGV $$", None, Some("SIGSEGV")),
    ] {
        let result = server.client().stream(&line(command)).collect().result;
        assert_eq!((result.exit_code, result.signal.as_deref()), (code, signal), "{command}");
        assert!(!result.timed_out && result.closed.is_none(), "{command}");
    }
}

fn a_command_that_cannot_be_found_ends_as_in_a_shell(on: On) {
    let server = on.start();
    let Collected { stderr, result, .. } = server.client().stream(&line("no-such-program-here")).collect();
    assert_eq!(result.exit_code, Some(127));
    assert!(String::from_utf8(stderr).unwrap().contains("no-such-program-here"));
    assert_eq!(server.client().exec(&line("/etc/passwd")).exit_code, Some(126));
}

fn input_is_read_to_its_end(on: On) {
    let server = on.start();
    // More than a pipe holds, and nothing of it is read at first.
    let input = "0123456789".repeat(50_000);
    let call = line("sleep 0.2; cat | wc -c").set("stdin", input);
    assert_eq!(server.client().exec(&call).stdout.trim(), "500000");
    // One that does not read it is not held up by it.
    let call = call.set("command", "echo done");
    let result = server.client().exec(&call);
    assert_eq!((result.exit_code, result.stdout.as_str()), (Some(0), "done\n"));
}

fn without_input_it_is_at_its_end(on: On) {
    let server = on.start();
    assert_eq!(server.client().exec(&line("cat | wc -c")).stdout.trim(), "0");
}

fn output_after_the_end_of_input_is_not_lost(on: On) {
    let server = on.start();
    let gate = Gate::new();
    let command = format!("cat; echo before; {}; echo after", gate.wait());
    let mut stream = server.client().stream(&line(command).set("stdin", "hi\n"));
    assert_eq!(stream.read_until("before\n"), "hi\nbefore\n");
    gate.open();
    assert_eq!(stream.collect().stdout, b"after\n");
}

fn a_character_cut_by_time_is_whole(on: On) {
    let server = on.start();
    let command = r"printf '\xe2\x82'; sleep 0.3; printf '\xac euro\n'; printf 'err \xe2' >&2; sleep 0.1; printf '\x80\x94 end' >&2";
    let collected = server.client().stream(&line(command)).collect();
    assert_eq!(collected.text(), "€ euro\n");
    assert_eq!(String::from_utf8(collected.stderr).unwrap(), "err — end");
    assert_eq!((&*collected.result.stdout, &*collected.result.stderr), ("€ euro\n", "err — end"));
}

fn a_character_that_never_ends_is_replaced_once(on: On) {
    let server = on.start();
    let collected = server.client().stream(&line(r"printf 'a\xff\xfeb\xe2\x82'")).collect();
    assert_eq!(collected.text(), "a\u{FFFD}\u{FFFD}b\u{FFFD}");
    assert_eq!(collected.result.stdout, "a\u{FFFD}\u{FFFD}b\u{FFFD}");
}

fn control_characters_are_unchanged(on: On) {
    let server = on.start();
    for (command, printed) in [
        (r"printf '\x01\x01\x01A\x02\x02\x02B\n'", "\x01\x01\x01A\x02\x02\x02B\n"),
        (r"printf '10%%\r20%%\r\n\n'", "10%\r20%\r\n\n"),
        (r"printf 'line one\revent: steal\n\ndata: x\n\n'", "line one\revent: steal\n\ndata: x\n\n"),
        (r"printf 'a\0b'", "a\0b"),
    ] {
        let collected = server.client().stream(&line(command)).collect();
        assert_eq!(collected.text(), printed, "{command}");
        assert_eq!(collected.result.stdout, printed, "{command}");
        let collected = server.client().stream(&line(command).base64()).collect();
        assert_eq!(collected.stdout, printed.as_bytes(), "{command}");
    }
}

fn all_bytes_are_unchanged_in_base64(on: On) {
    let server = on.start();
    let octal: String = (0..=255).map(|byte| format!(r"\{byte:03o}")).collect();
    let all: Vec<u8> = (0..=255).collect();
    let call = line(format!("printf '{octal}'; printf '{octal}' >&2")).base64();
    let collected = server.client().stream(&call).collect();
    assert_eq!((&collected.stdout, &collected.stderr), (&all, &all));
    assert_eq!(BASE64_STANDARD.decode(collected.result.stdout).unwrap(), all);
    let result = server.client().exec(&call);
    assert_eq!(BASE64_STANDARD.decode(result.stderr).unwrap(), all);
}

/// A hundred at once, each of which ends as soon as it has printed.
fn the_last_byte_is_never_missing(on: On) {
    let mut options = hangar_tests::real::Options::default();
    options.settings.stream_max_per_token = 200;
    let server = on.start_with(options);
    let mark = Mark::new();
    let call = line("printf x; exit").mark(&mark);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..100)
            .map(|number| {
                let (call, client) = (&call, server.client());
                scope.spawn(move || {
                    if number % 2 == 0 {
                        let collected = client.stream(call).collect();
                        assert_eq!(collected.stdout, b"x", "{number}");
                        collected.result
                    } else {
                        client.exec(call)
                    }
                })
            })
            .collect();
        for run in runs {
            let result = run.join().unwrap();
            assert_eq!((result.exit_code, &*result.stdout), (Some(0), "x"));
            assert!(!result.drain_timed_out);
        }
    });
    assert_eq!(server.plane().streams().leased(), 0);
    mark.wait_until_gone();
}

fn many_lines_are_all_there(on: On) {
    let server = on.start();
    let mut stream = server.client().stream(&line("seq 1 50000"));
    let (mut all, mut events) = (Vec::new(), 0);
    let result = loop {
        match stream.next_event() {
            Event::Stdout(data) => {
                all.extend(data);
                events += 1;
            }
            Event::Stderr(data) => panic!("{data:?}"),
            Event::Result(result) => break result,
        }
    };
    let expected: String = (1..=50_000).map(|number| format!("{number}\n")).collect();
    assert!(all == expected.as_bytes(), "{} bytes", all.len());
    assert!(events > 1);
    // The last 256 KiB of it.
    assert!(result.stdout_truncated && expected.ends_with(&result.stdout));
    assert_eq!(result.stdout.len(), 256 * 1024);
}
