//! Watched directories on the virtual clock: whatever happens to its connections, a client that comes back with the number
//! of the last event gets each change once, and is told of each that is gone.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::watching::{Change, WatchError};
use hangar_core::watch::{Blind, End, KEPT, Kind};
use hangar_tests::sim::{
    Link, Setup, World,
    random::Random,
    run, seeds,
    watch::Watch,
    watching::{Reader, Told},
    world::{ADMIN, at_ms},
};
use serde_json::json;

const PATH: &str = "path=src&recursive=true";

async fn open(world: &World) -> Reader {
    let mut reader = Reader::open(world, ADMIN, PATH, None).await.unwrap();
    assert_eq!(reader.briefs(1).await, ["ready"]);
    reader
}

async fn come_back(world: &World, since: u64) -> Reader {
    Reader::open(world, ADMIN, PATH, Some(since)).await.unwrap()
}

fn created(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|at| format!("create {at}")).collect()
}

/// How many watches were opened.
fn opened(world: &World) -> usize {
    world.sandbox.watches.all().len()
}

#[test]
fn each_change_comes_once_through_any_number_of_cuts() {
    const CHANGES: usize = 400;
    let mut cuts = 0;
    seeds::each(80, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let reader = open(world).await;
            let mut cursor = reader.cursor();
            drop(reader);
            let watch = world.sandbox.watches.last();
            let (mut made, mut told) = (0, Vec::new());
            while told.len() < CHANGES {
                let link = Link::any(&mut random);
                let request = Reader::try_open_by(world.client_by(link), ADMIN, PATH, Some(cursor)).await;
                let Some(mut reader) = request else { continue };
                for _ in 0..*random.pick(&[0, 1, 3, 100]) {
                    // No more than is kept for who is away.
                    let more = *random.pick(&[0, 1, 5, 100]);
                    let more = more.min(KEPT - (made - told.len())).min(CHANGES - made);
                    watch.create(made, more);
                    made += more;
                    if told.len() >= made {
                        break;
                    }
                    match reader.next().await {
                        Some(event) if event.brief() == "ready" => {}
                        Some(event) => {
                            told.push(event.brief());
                            cursor = reader.cursor();
                        }
                        None => break,
                    }
                }
                if *random.pick(&[false, true]) {
                    reader.cutter().cut();
                }
                cuts += 1;
                drop(reader);
                world.sleep_ms(*random.pick(&[300, 2_000, 50_000])).await;
            }
            assert_eq!((told, opened(world)), (created(0, CHANGES), 1));
        });
    });
    println!("{cuts} connections ended");
}

#[test]
fn the_header_counts_more_than_the_parameter() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world).await;
        let before = reader.cursor();
        world.sandbox.watches.last().create(0, 4);
        assert_eq!(reader.briefs(4).await, created(0, 4));
        for (since, header, from) in
            [(Some(before), None, 0), (Some(before + 3), None, 3), (Some(before), Some(before + 2), 2)]
        {
            drop(reader);
            world.sleep_ms(10).await;
            let query = since.map_or_else(|| PATH.to_owned(), |since| format!("{PATH}&since={since}"));
            reader = Reader::open(world, ADMIN, &query, header).await.unwrap();
            // Everything is told once it has what it missed.
            let mut told = reader.briefs(5 - from).await;
            assert_eq!(told.pop().unwrap(), "ready");
            assert_eq!(told, created(from, 4));
        }
        assert_eq!(opened(world), 1);
    });
}

/// The number of a reader that has left, and its watch, which has told more since than is kept.
async fn fallen_behind(world: &World) -> (u64, Watch) {
    let reader = open(world).await;
    let cursor = reader.cursor();
    drop(reader);
    world.sleep_ms(10).await;
    let watch = world.sandbox.watches.last();
    watch.create(0, 300);
    world.sleep_ms(10).await;
    (cursor, watch)
}

#[test]
fn what_is_not_kept_any_more_is_a_gap_and_then_what_is_there() {
    run(Setup::default(), async |world: &World| {
        world.sandbox.watches.set_existing(["a", "b"]);
        let (cursor, watch) = fallen_behind(world).await;
        assert_eq!(watch.waiting(), 0, "nobody is waited for");
        let mut reader = come_back(world, cursor).await;
        let gap = json!({ "from_seq": cursor + 1, "to_seq": cursor + 100, "reason": "evicted" });
        assert_eq!(reader.next().await, Some(Told::event("gap", "", gap)));
        assert_eq!(reader.briefs(200).await, created(100, 300));
        assert_eq!(reader.briefs(4).await, ["overflow .", "create a", "create b", "ready"]);
        assert_eq!((watch.retold(), opened(world)), (1, 1));
        drop(reader);
    });
}

#[test]
fn nothing_is_said_to_be_told_between_a_gap_and_what_follows_it() {
    // At whichever of the changes that are taken in one turn that comes.
    for more in 1_000..1_128 {
        run(Setup::default(), async |world: &World| {
            let (cursor, watch) = fallen_behind(world).await;
            // This is told when the reader is back, and before what is told again.
            watch.create(300, more);
            watch.tell(Change::Ready);
            let mut reader = come_back(world, cursor).await;
            let mut told = Vec::new();
            while told.last().is_none_or(|last| last != "overflow .") {
                told.push(reader.next().await.unwrap().brief());
            }
            assert_eq!((told[0].as_str(), told.iter().any(|told| told == "ready")), ("gap", false));
            assert_eq!(reader.briefs(1).await, ["ready"]);
        });
    }
}

#[test]
fn a_number_is_of_one_watch_and_where_it_may_be_of_two_it_is_of_none() {
    run(Setup::default(), async |world: &World| {
        // More than three watches have for themselves that are opened at the same time.
        const MORE: usize = 200_000;
        let first = open(world).await;
        let before = first.cursor();
        drop(first);
        let second = open(world).await;
        let cursor = second.cursor();
        drop(second);
        let watches = world.sandbox.watches.all();
        watches[0].create(0, MORE);
        world.sleep_ms(10).await;
        assert_eq!(watches[0].waiting(), 0);
        assert!((before + 1..before + MORE as u64).contains(&cursor));
        let mut reader = come_back(world, cursor).await;
        assert_eq!((reader.briefs(1).await, opened(world)), (vec!["gap".to_owned()], 3));
        // Whatever was given out, the next one is above it.
        assert_eq!(reader.briefs(1).await, ["overflow ."]);
        assert!(reader.cursor() > before + MORE as u64);
    });
}

#[test]
fn a_number_of_an_earlier_watch_is_a_gap_and_then_what_is_there() {
    run(Setup::default(), async |world: &World| {
        world.sandbox.watches.set_existing(["a"]);
        for since in [0, 7, u64::MAX] {
            let mut reader = come_back(world, since).await;
            let gap = reader.next().await.unwrap();
            assert_eq!((gap.brief().as_str(), &gap.data()["reason"]), ("gap", &json!("adopted")));
            let to = gap.data()["to_seq"].as_u64().unwrap();
            assert_eq!(gap.data()["from_seq"], since.saturating_add(1).min(to));
            assert_eq!(reader.briefs(3).await, ["overflow .", "create a", "ready"]);
            let watch = world.sandbox.watches.last();
            assert_eq!((watch.spec().tells_existing, watch.retold()), (true, 0));
            if since == 7 {
                // Its numbers are of the wall clock, so those of a server before this one are lower.
                let first = reader.cursor() - 1;
                assert_eq!(gap.data()["to_seq"], first - 1);
                assert!(first >= u64::try_from(world.plane.runtime().wall_ms()).unwrap() * 1000);
            }
        }
        assert_eq!(opened(world), 3);
    });
}

#[test]
fn a_watch_goes_on_for_a_minute_without_a_reader() {
    run(Setup::default(), async |world: &World| {
        let reader = open(world).await;
        let cursor = reader.cursor();
        drop(reader);
        let watch = world.sandbox.watches.last();
        world.sleep_until_ms(59_900).await;
        let reader = come_back(world, cursor).await;
        assert_eq!(opened(world), 1);
        world.sleep_until_ms(100_000).await;
        drop(reader);
        world.sleep_until_ms(159_900).await;
        assert_eq!((watch.is_open(), world.plane.watches().len()), (true, 1));
        world.sleep_until_ms(160_100).await;
        assert_eq!((watch.is_open(), world.plane.watches().len()), (false, 0));
        let mut reader = come_back(world, cursor).await;
        assert_eq!(reader.briefs(3).await, ["gap", "overflow .", "ready"]);
        assert_eq!(opened(world), 2);
    });
}

#[test]
fn only_who_asks_for_the_same_takes_a_watch_over_and_one_at_a_time() {
    run(Setup::default(), async |world: &World| {
        let (_, other) = world.token(json!({ "scope": "user" })).await;
        let mut first = open(world).await;
        let cursor = first.cursor();
        // The first is connected.
        let mut second = come_back(world, cursor).await;
        assert_eq!((second.briefs(1).await, opened(world)), (vec!["gap".to_owned()], 2));
        let watches = world.sandbox.watches.all();
        watches[0].event(Kind::Write, "a");
        watches[1].event(Kind::Write, "b");
        assert_eq!(first.briefs(1).await, ["write a"]);
        assert_eq!(second.briefs(3).await, ["overflow .", "ready", "write b"]);
        let cursors = [first.cursor(), second.cursor()];
        drop((first, second));
        world.sleep_ms(10).await;
        for (token, query) in [
            (&*other, PATH),
            (ADMIN, "path=src"),
            (ADMIN, "path=src/&recursive=true"),
            (ADMIN, "path=src&recursive=true&network=true"),
            (ADMIN, "path=src&recursive=true&user=nobody"),
        ] {
            let mut reader = Reader::open(world, token, query, Some(cursors[0])).await.unwrap();
            assert_eq!(reader.briefs(1).await, ["gap"], "{query}");
        }
        // Each goes on with its own.
        let before = opened(world);
        for (at, cursor) in cursors.into_iter().enumerate() {
            watches[at].event(Kind::Create, "c");
            let mut reader = come_back(world, cursor).await;
            let mut told = reader.briefs(2).await;
            told.retain(|told| told != "ready");
            assert_eq!(told, ["create c"]);
        }
        assert_eq!(opened(world), before);
        // Without a number it is another one.
        drop(open(world).await);
        assert_eq!(opened(world), before + 1);
    });
}

#[test]
fn who_was_away_learns_how_it_ended() {
    run(Setup::default(), async |world: &World| {
        let reader = open(world).await;
        let cursor = reader.cursor();
        drop(reader);
        world.sleep_ms(10).await;
        let watch = world.sandbox.watches.last();
        watch.event(Kind::Remove, "a");
        watch.tell(Change::Ended(End::Removed));
        world.sleep_ms(10).await;
        assert!(!watch.is_open());
        let mut reader = come_back(world, cursor).await;
        let told = reader.to_end().await;
        assert_eq!(told[..told.len() - 1].iter().filter(|told| *told != "ready").count(), 1);
        assert_eq!((told.last().unwrap().as_str(), opened(world)), ("end", 1));
        // Where the sandbox broke it is watched anew.
        let reader = open(world).await;
        let cursor = reader.cursor();
        drop(reader);
        world.sleep_ms(10).await;
        world.sandbox.watches.last().tell(Change::Broken(WatchError::Broken("no route".to_owned())));
        world.sleep_ms(10).await;
        let mut reader = come_back(world, cursor).await;
        assert_eq!(
            (reader.briefs(3).await, opened(world)),
            (["gap", "overflow .", "ready"].map(str::to_owned).to_vec(), 3)
        );
        assert_eq!(world.now(), at_ms(40));
    });
}

#[test]
fn what_is_not_watched_is_told_again_to_who_may_have_missed_it() {
    run(Setup::default(), async |world: &World| {
        let mut reader = open(world).await;
        let watch = world.sandbox.watches.last();
        let blind = |at: usize| watch.tell(Change::Blind { name: at.to_string().into(), why: Blind::Denied });
        blind(0);
        watch.event(Kind::Create, "a");
        assert_eq!(reader.briefs(2).await, ["unwatched", "create a"]);
        blind(1);
        assert_eq!(reader.briefs(1).await, ["unwatched"]);
        let cursor = reader.cursor();
        drop(reader);
        world.sleep_ms(10).await;
        let mut reader = come_back(world, cursor).await;
        let mut told = reader.briefs(2).await;
        told.sort();
        assert_eq!(told, ["ready", "unwatched"]);
        // More of that than is kept: everything is told again.
        drop(reader);
        world.sleep_ms(10).await;
        (0..300).for_each(blind);
        world.sleep_ms(10).await;
        assert_eq!(watch.waiting(), 0);
        let mut reader = come_back(world, cursor).await;
        while reader.next().await.unwrap().brief() != "overflow ." {}
        assert_eq!((reader.briefs(1).await, watch.retold()), (vec!["ready".to_owned()], 1));
    });
}
