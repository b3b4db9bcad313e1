//! Background processes on the virtual clock: whatever happens to its connections, a client that comes back with its
//! cursor gets each byte once, and is told of each that is gone.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::wire::sse::{Decoder, Event};
use hangar_tests::sim::{
    Client, End, Link, Request, Setup, World,
    random::Random,
    run,
    script::{pattern, printed},
    seeds,
    world::{ADMIN, at_ms},
};
use serde_json::{Value, json};
use std::{collections::VecDeque, fmt::Write};

/// Seeds: so many make over a thousand cuts.
const SEEDS: u64 = 500;

const PROCESSES: &str = "/api/sandboxes/box/processes";

async fn start(world: &World, body: Value) -> String {
    let response = world.api("POST", PROCESSES, Some(body)).await;
    assert_eq!(response.status, 201, "{response:?}");
    response.json()["process_id"].as_str().unwrap().to_owned()
}

/// One connection that follows a process.
struct Follower {
    client: Client,
    decoder: Decoder,
    events: VecDeque<Event>,
}

impl Follower {
    async fn open(world: &World, link: Link, process: &str, cursor: Option<u64>) -> Result<Self, End> {
        let mut client = world.client_by(link);
        let request = Request::new("GET", format!("{PROCESSES}/{process}/stream")).bearer(ADMIN);
        let request = match cursor {
            Some(cursor) => request.header("Last-Event-ID", &cursor.to_string()),
            None => request,
        };
        client.send(&request.bytes()).await?;
        let head = client.head().await?;
        assert_eq!(head.status, 200, "{head:?}");
        Ok(Self { client, decoder: Decoder::new(1 << 20), events: VecDeque::new() })
    }

    async fn next(&mut self) -> Result<Option<Event>, End> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.client.chunk().await? else { return Ok(None) };
            self.decoder.push(&chunk).unwrap();
            while let Some(event) = self.decoder.next_event() {
                self.events.push_back(event);
            }
        }
    }
}

/// What a client has, over all its connections.
#[derive(Debug, Default)]
struct Told {
    output: [String; 2],
    /// The offset to come back with.
    cursor: Option<u64>,
    /// Bytes that it was told are gone.
    gone: u64,
    end: Option<Value>,
    /// Connections that ended before the process did.
    cuts: usize,
}

impl Told {
    fn take(&mut self, event: &Event) {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "output" => {
                let side = usize::from(data["stream"] == "stderr");
                self.output[side] += data["data"].as_str().unwrap();
                self.cursor = Some(event.id.parse().unwrap());
            }
            "gap" => {
                assert_eq!(data["from_offset"].as_u64(), Some(self.cursor.unwrap_or(0)), "{data}");
                self.gone += data["bytes"].as_u64().unwrap();
                self.cursor = Some(event.id.parse().unwrap());
            }
            "end" => self.end = Some(data),
            name => panic!("{name}: {data}"),
        }
    }
}

/// Prints on both outputs, with rests in between, characters of every length among it.
fn script(random: &mut Random) -> String {
    const WORDS: [&str; 7] = ["one", "zwei", "trois\\n", "\u{e9}t\u{e9}", "\u{20ac}\\n", "\u{1f600}", "."];
    let mut script = String::new();
    for _ in 0..random.pick(&[3, 10, 40]).to_owned() {
        let output = random.pick(&["out", "out", "err"]);
        write!(script, "{output} {}; ", random.pick(&WORDS)).unwrap();
        let rest = random.pick(&[0, 0, 1, 5, 40, 900, 20_000]);
        if *rest > 0 {
            write!(script, "sleep {rest}; ").unwrap();
        }
    }
    script + "exit 3"
}

/// Follows a process over connections that are cut, half-closed or left alone for a while, until its end.
async fn follow(world: &World, random: &mut Random, process: &str) -> Told {
    let mut client = Told::default();
    while client.end.is_none() {
        let link = Link::any(random);
        let Ok(mut follower) = Follower::open(world, link, process, client.cursor).await else { continue };
        let events = *random.pick(&[0, 1, 2, 5, 1000]);
        for _ in 0..events {
            if *random.pick(&[false, false, false, false, false, false, true]) {
                world.sleep_ms(*random.pick(&[10, 1000, 30_000])).await;
            }
            match follower.next().await {
                Ok(Some(event)) => client.take(&event),
                Ok(None) | Err(_) => break,
            }
            if client.end.is_some() {
                break;
            }
        }
        match random.pick(&[0, 1, 2]) {
            0 => follower.client.cutter().cut(),
            1 => follower.client.half_close().await,
            _ => {}
        }
        drop(follower);
        client.cuts += usize::from(client.end.is_none());
    }
    client
}

#[test]
fn each_byte_comes_once_through_any_number_of_cuts() {
    let mut cuts = 0;
    seeds::each(SEEDS, |seed| {
        let mut random = Random::new(seed);
        let script = script(&mut random);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let process = start(world, json!({ "command": script })).await;
            let client = follow(world, &mut random, &process).await;
            let [stdout, stderr] = printed(&script).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!((&client.output[0], &client.output[1]), (&stdout, &stderr));
            cuts += client.cuts;
            assert_eq!((client.gone, client.end), (0, Some(json!({ "exit_code": 3 }))));
            assert_eq!(world.metric("hangar_streams_open{kind=\"process\"}"), 0.0);
        });
    });
    println!("{cuts} connections were cut");
}

#[test]
fn what_is_gone_is_told_with_its_size() {
    seeds::each(2, |seed| {
        let mut random = Random::new(seed);
        // More than is kept, in pieces.
        let script = (0..8).fold(String::new(), |script, _| {
            let (len, rest) = (random.pick(&[100, 60_000, 60_000]), random.pick(&[1, 100, 5000]));
            script + &format!("flood {len}; sleep {rest}; ")
        });
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let process = start(world, json!({ "command": format!("{script}exit 3") })).await;
            let client = follow(world, &mut random, &process).await;
            let printed = printed(&script)[0].len();
            assert_eq!(client.output[0].len() as u64 + client.gone, printed as u64);
            assert_eq!(client.end, Some(json!({ "exit_code": 3 })));
            // Whole lines of what is there are lines that were printed.
            let all = pattern(64_000);
            let known = std::str::from_utf8(&all).unwrap();
            for line in client.output[0].split_inclusive('\n').filter(|line| line.len() == 16) {
                assert!(known.contains(line), "{line:?}");
            }
        });
    });
}

/// A process that is forgotten is gone, and not held until its ten minutes are over.
#[test]
fn of_those_that_have_ended_the_last_thousand_are_kept() {
    run(Setup::default(), async |world: &World| {
        let caller = world.plane.authenticate(ADMIN).unwrap();
        let first = start(world, json!({ "command": "out x" })).await;
        world.sleep_ms(1).await;
        let process = std::sync::Arc::downgrade(&world.plane.list_processes(&caller, "box").unwrap()[0]);
        for _ in 0..1000 {
            assert!(process.upgrade().is_some());
            start(world, json!({ "command": "out x" })).await;
            world.sleep_ms(1).await;
        }
        let listed = world.plane.list_processes(&caller, "box").unwrap();
        assert_eq!((listed.len(), listed.iter().any(|one| one.id() == first)), (1000, false));
        assert!(process.upgrade().is_none(), "it is held");
    });
}

#[test]
fn only_a_follower_that_takes_nothing_and_misses_something_is_given_up() {
    run(Setup::default(), async |world: &World| {
        let given_up = || world.metric("hangar_streams_total{kind=\"process\",reason=\"slow_consumer\"}");
        let open = || world.metric("hangar_streams_open{kind=\"process\"}");
        // Far more than is kept, in pieces; and less than that, which waits for whoever comes to it.
        let script = "flood 60000; sleep 1000; ".repeat(12);
        let much = start(world, json!({ "command": format!("{script}hang") })).await;
        let little = start(world, json!({ "command": "flood 200000; hang" })).await;
        let mut takes_nothing = Follower::open(world, Link::INSTANT, &much, None).await.unwrap();
        let misses_nothing = Follower::open(world, Link::INSTANT, &little, None).await.unwrap();
        let mut reads = Follower::open(world, Link::INSTANT, &much, None).await.unwrap();
        let mut read = 0;
        while read < 12 * 60_000 {
            let event = reads.next().await.unwrap().unwrap();
            assert_eq!(event.name, "output");
            let data: Value = serde_json::from_str(&event.data).unwrap();
            read += data["data"].as_str().unwrap().len();
        }
        assert_eq!(world.now(), at_ms(11_000));
        world.sleep_until_ms(60_000).await;
        assert_eq!((given_up(), open()), (1.0, 2.0));
        // What is in its socket, and then no end.
        while let Ok(Some(event)) = takes_nothing.next().await {
            assert_eq!(event.name, "output");
        }
        drop((misses_nothing, reads));
        for process in [much, little] {
            world.api("DELETE", &format!("{PROCESSES}/{process}"), None).await;
        }
    });
}
