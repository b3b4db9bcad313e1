//! Input and terminals of the daemon's processes, on both runtimes.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what the checks share may fail as they do, and what they do not expect is all the rest"
)]

use hangar_core::wire::{
    connect::Code,
    envd::process::{
        CloseStdinRequest, ConnectRequest, DataRequest, Empty, ProcessInput, Pty, SendInputRequest, Size,
        StartRequest, StreamInputRequest, UpdateRequest,
    },
};
use hangar_tests::{
    on_both,
    real::{
        Gate, On, ProcessEvent as Event,
        envd::{Client, argv, bash, pid},
    },
};
use std::thread;

on_both! {
    without_input_a_command_finds_its_end
    input_comes_in_order_and_ends
    input_by_a_stream_comes_in_order
    a_stream_of_input_that_names_nobody_is_refused
    input_of_the_wrong_kind_is_refused
    what_has_ended_takes_nothing
    two_writers_do_not_mix
    a_terminal_has_a_size_and_an_end
}

fn start_with_stdin(script: &str) -> StartRequest {
    StartRequest { stdin: Some(true), ..bash(script) }
}

fn stdin(bytes: &[u8]) -> Option<ProcessInput> {
    Some(ProcessInput { stdin: Some(bytes.to_vec().into()), pty: None })
}

fn send(client: &Client, of: u32, input: Option<ProcessInput>) -> Result<Empty, Code> {
    let request = SendInputRequest { process: pid(of), input };
    client.call("/process.Process/SendInput", &request).map_err(|error| error.code)
}

fn close_stdin(client: &Client, of: u32) -> Result<Empty, Code> {
    let request = CloseStdinRequest { process: pid(of) };
    client.call("/process.Process/CloseStdin", &request).map_err(|error| error.code)
}

fn both(envd: &hangar_tests::real::Envd) -> [Client; 2] {
    [envd.json(), envd.proto()]
}

fn without_input_a_command_finds_its_end(on: On) {
    let envd = on.envd();
    assert_eq!(envd.json().start(argv(&["/bin/cat"])).collect().code(), Some(0));
    // And its output goes on after that.
    let whole = envd.json().start(bash("echo a; read x; sleep 0.3; echo b")).collect();
    assert_eq!(whole.text(), "a\nb\n");
}

fn input_comes_in_order_and_ends(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        let gate = Gate::new();
        let wait = gate.wait();
        let script = format!("while read l; do echo got:$l; done; echo eof; {wait}; echo late");
        let mut followed = client.start(start_with_stdin(&script));
        let process = followed.pid();
        for line in ["one\n", "two\n", "three\n"] {
            send(&client, process, stdin(line.as_bytes())).unwrap();
        }
        close_stdin(&client, process).unwrap();
        close_stdin(&client, process).unwrap();
        assert_eq!(send(&client, process, stdin(b"more")), Err(Code::FailedPrecondition));
        gate.open();
        let whole = followed.collect();
        assert_eq!(whole.text(), "got:one\ngot:two\ngot:three\neof\nlate\n");
    }
    // Where the field is left out a process gets input.
    let client = envd.json();
    let mut followed = client.start(StartRequest { stdin: None, ..bash("cat") });
    let process = followed.pid();
    send(&client, process, stdin(b"x")).unwrap();
    close_stdin(&client, process).unwrap();
    assert_eq!(followed.collect().text(), "x");
}

fn input_by_a_stream_comes_in_order(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        let mut followed = client.start(start_with_stdin("sha256sum; exit 3"));
        let process = followed.pid();
        let start = ConnectRequest { process: pid(process) };
        let mut messages = vec![StreamInputRequest { start: Some(start), ..StreamInputRequest::default() }];
        let piece = vec![b'x'; 64 * 1024];
        for _ in 0..48 {
            let data = DataRequest { input: stdin(&piece) };
            messages.push(StreamInputRequest { data: Some(data), ..StreamInputRequest::default() });
            messages.push(StreamInputRequest { keepalive: Some(Empty {}), ..StreamInputRequest::default() });
        }
        let mut answer = client.stream("/process.Process/StreamInput", &messages);
        assert_eq!(answer.try_next_message::<Empty>().unwrap(), Some(Empty {}));
        assert_eq!(answer.next_event(), Event::Closed(None));
        close_stdin(&client, process).unwrap();
        let expected =
            envd.json().start(bash("head -c 3145728 /dev/zero | tr '\\0' x | sha256sum")).collect();
        let whole = followed.collect();
        assert_eq!((whole.text(), whole.code()), (expected.text(), Some(3)));
    }
}

fn a_stream_of_input_that_names_nobody_is_refused(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        let data =
            StreamInputRequest { data: Some(DataRequest { input: stdin(b"x") }), ..Default::default() };
        let Event::Closed(Some(error)) = client.stream("/process.Process/StreamInput", &[data]).next_event()
        else {
            panic!("it is refused")
        };
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("start"), "{error}");
        let start = ConnectRequest { process: pid(1 << 29) };
        let start = StreamInputRequest { start: Some(start), ..Default::default() };
        let Event::Closed(Some(error)) = client.stream("/process.Process/StreamInput", &[start]).next_event()
        else {
            panic!("it is refused")
        };
        assert_eq!(error.code, Code::NotFound);
    }
}

fn input_of_the_wrong_kind_is_refused(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let terminal = |bytes: &'static [u8]| Some(ProcessInput { stdin: None, pty: Some(bytes.into()) });
    let size = Some(Size { cols: 80, rows: 24 });
    let mut without = client.start(bash("sleep 100"));
    let mut with = client.start(start_with_stdin("sleep 100"));
    let mut on_tty = client.start(StartRequest { pty: Some(Pty { size }), ..bash("sleep 100") });
    let [without, with, on_tty] = [without.pid(), with.pid(), on_tty.pid()];
    assert_eq!(send(&client, without, stdin(b"x")), Err(Code::FailedPrecondition));
    assert_eq!(send(&client, with, terminal(b"x")), Err(Code::FailedPrecondition));
    assert_eq!(send(&client, on_tty, stdin(b"x")), Err(Code::FailedPrecondition));
    assert_eq!(send(&client, with, None), Err(Code::InvalidArgument));
    assert_eq!(close_stdin(&client, on_tty), Err(Code::FailedPrecondition));
    assert_eq!(send(&client, 1 << 29, stdin(b"x")), Err(Code::NotFound));
    let resize = |process, pty| {
        let request = UpdateRequest { process: pid(process), pty };
        client.call::<_, Empty>("/process.Process/Update", &request).map_err(|error| error.code)
    };
    assert_eq!(resize(with, Some(Pty { size })), Err(Code::FailedPrecondition));
    assert_eq!(resize(with, None), Ok(Empty {}));
    assert_eq!(
        resize(on_tty, Some(Pty { size: Some(Size { cols: 70_000, rows: 1 }) })),
        Err(Code::InvalidArgument)
    );
}

fn what_has_ended_takes_nothing(on: On) {
    let envd = on.envd();
    for client in both(&envd) {
        // Who follows it still finds it.
        let ended = client.start(start_with_stdin("exit 3")).collect().pid;
        assert_eq!(client.connect(pid(ended)).collect().code(), Some(3));
        assert_eq!(send(&client, ended, stdin(b"x")), Err(Code::NotFound));
        assert_eq!(close_stdin(&client, ended), Err(Code::NotFound));
        let update = UpdateRequest { process: pid(ended), pty: None };
        let error = client.call::<_, Empty>("/process.Process/Update", &update).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        let start = ConnectRequest { process: pid(ended) };
        let start = StreamInputRequest { start: Some(start), ..Default::default() };
        let Event::Closed(Some(error)) = client.stream("/process.Process/StreamInput", &[start]).next_event()
        else {
            panic!("it is refused")
        };
        assert_eq!(error.code, Code::NotFound);
    }
}

fn two_writers_do_not_mix(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let mut followed = client.start(start_with_stdin("cat"));
    let process = followed.pid();
    thread::scope(|scope| {
        for letter in b"abcdefgh" {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..4 {
                    send(client, process, stdin(&[*letter; 5000])).unwrap();
                }
            });
        }
    });
    close_stdin(&client, process).unwrap();
    let printed = followed.collect().stdout;
    assert_eq!(printed.len(), 8 * 4 * 5000);
    assert!(printed.chunks(5000).all(|piece| piece.iter().all(|byte| *byte == piece[0])));
}

fn a_terminal_has_a_size_and_an_end(on: On) {
    let envd = on.envd();
    let client = envd.json();
    let pty = Pty { size: Some(Size { cols: 80, rows: 24 }) };
    let mut followed =
        client.start(StartRequest { pty: Some(pty), ..argv(&["/bin/bash", "--norc", "--noprofile"]) });
    let process = followed.pid();
    let type_in = |text: &'static str| {
        send(&client, process, Some(ProcessInput { stdin: None, pty: Some(text.into()) })).unwrap()
    };
    type_in("stty size; echo A''A\n");
    assert!(followed.read_until("AA\r\n").contains("24 80"));
    let pty = Pty { size: Some(Size { cols: 120, rows: 40 }) };
    let request = UpdateRequest { process: pid(process), pty: Some(pty) };
    client.call::<_, Empty>("/process.Process/Update", &request).unwrap();
    type_in("stty size; echo B''B\n");
    assert!(followed.read_until("BB\r\n").contains("40 120"));
    type_in("exit 4\n");
    let mut rest = Vec::new();
    // EIO, which is how a terminal ends, is no error.
    let end = loop {
        match followed.next_event() {
            Event::Data(data) => rest.extend(data.pty.expect("nothing but the terminal")),
            Event::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((end.exit_code, end.exited), (4, true));
    assert_eq!(followed.next_event(), Event::Closed(None));
}
