//! Watched directories on the virtual clock: a client that forgets everything at an `overflow` and does what the events say
//! has what is there, however long it was away and whatever was lost meanwhile.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::{runtime::until, watching::Change};
use hangar_core::watch::{Event, Kind, Picture};
use hangar_tests::{
    real::watching::change,
    sim::{
        Link, Setup, World,
        random::Random,
        run, seeds,
        watching::{Reader, Told},
        world::ADMIN,
    },
};
use std::{collections::BTreeSet, time::Duration};

const PATH: &str = "path=/&recursive=true";

/// What is in the directory, and who has to be told of it.
#[derive(Default)]
struct Tree {
    names: BTreeSet<String>,
}

impl Tree {
    /// Changes something, and has it told by every watch.
    fn change(&mut self, world: &World, random: &mut Random) {
        let name = random.pick(&["a", "b", "c", "d", "e", "f", "g", "h"]).to_string();
        let event = if self.names.remove(&name) {
            let to = random.pick(&["a", "b", "c", "d", "remove", "remove"]).to_string();
            if to == "remove" {
                Event::new(Kind::Remove, name.into())
            } else {
                self.names.insert(to.clone());
                Event::rename(name.into(), to.into())
            }
        } else {
            self.names.insert(name.clone());
            Event::new(Kind::Create, name.into())
        };
        world.sandbox.watches.set_existing(self.names.iter().map(String::as_str));
        let watches = world.sandbox.watches.all();
        for watch in watches.into_iter().filter(hangar_tests::sim::watch::Watch::is_open) {
            if random.below(40) == 0 {
                watch.overflow();
            } else {
                watch.tell(Change::Event(event.clone()));
            }
        }
    }
}

/// What a client knows, over all its connections.
#[derive(Default)]
struct Known {
    picture: Picture,
    cursor: Option<u64>,
    /// Between a gap and the overflow that follows it nothing is known.
    is_lost: bool,
    gaps: usize,
}

impl Known {
    fn take(&mut self, told: &Told) {
        let Told::Event { name, data, .. } = told else { panic!("{told:?}") };
        match name.as_str() {
            "message" => {
                self.cursor = data["seq"].as_u64();
                self.is_lost &= data["type"] != "overflow";
                self.picture.apply(&change(&data.to_string()));
            }
            "ready" => {
                self.cursor = data["next"].as_u64();
                assert!(!self.is_lost, "everything is told, and some of it was not");
            }
            "gap" => {
                self.is_lost = true;
                self.gaps += 1;
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn what_a_client_makes_of_the_events_is_what_is_there() {
    let mut gaps = 0;
    seeds::each(150, |seed| {
        let mut random = Random::new(seed);
        run(Setup { seed, ..Setup::default() }, async |world: &World| {
            let (mut tree, mut known) = (Tree::default(), Known::default());
            for _ in 0..10 {
                let query =
                    if known.cursor.is_some() { PATH.to_owned() } else { format!("{PATH}&snapshot=true") };
                let client = world.client_by(Link::any(&mut random));
                let Some(mut reader) = Reader::try_open_by(client, ADMIN, &query, known.cursor).await else {
                    continue;
                };
                for _ in 0..*random.pick(&[0, 1, 4, 30]) {
                    (0..*random.pick(&[1, 1, 3, 50])).for_each(|_| tree.change(world, &mut random));
                    let Some(told) = reader.next().await else { break };
                    known.take(&told);
                }
                if *random.pick(&[false, true]) {
                    reader.cutter().cut();
                }
                drop(reader);
                (0..*random.pick(&[0, 5, 100, 300])).for_each(|_| tree.change(world, &mut random));
                world.sleep_ms(*random.pick(&[10, 1_000, 30_000, 90_000])).await;
            }
            // Once more, to the last change.
            let query =
                if known.cursor.is_some() { PATH.to_owned() } else { format!("{PATH}&snapshot=true") };
            let mut reader = Reader::open(world, ADMIN, &query, known.cursor).await.unwrap();
            tree.names.insert("last".to_owned());
            world.sandbox.watches.set_existing(tree.names.iter().map(String::as_str));
            world.sandbox.watches.last().event(Kind::Create, "last");
            // Nothing more comes in a tenth of a second, in which everything does.
            let soon = || world.now() + Duration::from_millis(100);
            while let Some(told) = until(&*world.runtime, soon(), reader.next()).await {
                known.take(&told.unwrap());
            }
            assert!(!known.is_lost);
            assert!(known.picture.paths().eq(&tree.names));
            gaps += known.gaps;
        });
    });
    assert!(gaps > 0);
    println!("{gaps} gaps");
}
