//! What every store does, of the one in memory and the one in a file.
#![cfg(all(feature = "local", feature = "sqlite"))]

#[path = "support/folder.rs"]
mod folder;
#[path = "support/store_model.rs"]
mod model;
#[path = "support/store.rs"]
mod support;

use folder::Folder;
use hangar_backends::store::{
    Cursor, MemoryStore, ProcessEnd, ProcessRun, Store, StoreError, StoredProcess, StoredSandbox, StoredToken,
};
use model::{Model, Operation, carry_out, everything, operation};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use std::{
    collections::BTreeSet,
    future::Future,
    pin::pin,
    sync::{Arc, Barrier},
    task::{Context, Waker},
    thread,
};
use support::{block_on, open, process, sandbox, token, token_ids};

/// Runs a check on a new store of each kind.
fn each(check: impl AsyncFn(&dyn Store)) {
    block_on(check(&MemoryStore::default()));
    let folder = Folder::in_memory();
    block_on(check(&open(&folder.at("hangar.db"))));
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_token_is_kept_as_it_is() {
    each(async |store| {
        let all = [
            token("a"),
            StoredToken {
                person: Some("Zo\u{eb}".to_owned()),
                name: Some("it's \"quoted\"; DROP TABLE tokens".to_owned()),
                sandboxes: Some(set(&["", "box", "other\nline"])),
                created_at_ms: i64::MIN,
                expires_at_ms: Some(i64::MAX),
                revoked_at_ms: Some(-1),
                sha256: std::array::from_fn(|i| i as u8 * 8),
                ..token("b")
            },
            StoredToken { sandboxes: Some(BTreeSet::new()), ..token("c") },
        ];
        for token in all.iter().rev() {
            store.insert_token(token.clone()).await.unwrap();
        }
        assert_eq!(store.tokens().await.unwrap(), all);
    });
}

#[test]
fn the_id_of_a_token_is_taken_once() {
    each(async |store| {
        store.insert_token(token("a")).await.unwrap();
        let other = StoredToken { sandboxes: Some(set(&["box"])), ..token("a") };
        assert_eq!(store.insert_token(other).await, Err(StoreError::Taken));
        assert_eq!(store.tokens().await.unwrap(), [token("a")]);
    });
}

#[test]
fn the_first_revocation_counts() {
    each(async |store| {
        store.insert_token(token("a")).await.unwrap();
        store.insert_token(token("b")).await.unwrap();
        assert_eq!(store.revoke_token("a", 20).await, Ok(20));
        assert_eq!(store.revoke_token("a", 10).await, Ok(20));
        assert_eq!(store.revoke_token("c", 10).await, Err(StoreError::NotFound));
        let revoked: Vec<_> =
            store.tokens().await.unwrap().into_iter().map(|token| token.revoked_at_ms).collect();
        assert_eq!(revoked, [Some(20), None]);
    });
}

#[test]
fn a_sandbox_is_kept_as_it_is() {
    each(async |store| {
        let all = [
            sandbox("a", "one"),
            StoredSandbox {
                url: Some("https://box.example:49983".to_owned()),
                secret: Some("secret".to_owned()),
                workdir: Some("/home/user".to_owned()),
                daemon: true,
                ..sandbox("b", "two")
            },
        ];
        for sandbox in all.iter().rev() {
            store.insert_sandbox(sandbox.clone()).await.unwrap();
        }
        assert_eq!(store.sandboxes().await.unwrap(), all);
    });
}

#[test]
fn a_name_is_taken_until_its_sandbox_is_removed() {
    each(async |store| {
        store.insert_sandbox(sandbox("a", "one")).await.unwrap();
        for taken in [sandbox("a", "two"), sandbox("b", "one")] {
            assert_eq!(store.insert_sandbox(taken).await, Err(StoreError::Taken));
        }
        assert_eq!(store.remove_sandbox("b").await, Err(StoreError::NotFound));
        assert_eq!(store.remove_sandbox("a").await, Ok(()));
        assert_eq!(store.remove_sandbox("a").await, Err(StoreError::NotFound));
        assert_eq!(store.insert_sandbox(sandbox("b", "one")).await, Ok(()));
        assert_eq!(store.sandboxes().await.unwrap(), [sandbox("b", "one")]);
    });
}

#[test]
fn a_process_is_kept_as_it_becomes() {
    each(async |store| {
        store.insert_sandbox(sandbox("box", "box")).await.unwrap();
        let mut kept = StoredProcess { name: Some("dev".to_owned()), ..process("p", "t", "box") };
        store.insert_process(kept.clone()).await.unwrap();
        assert_eq!(store.process("p").await.unwrap().as_ref(), Some(&kept));
        for (pid, daemon) in [(u32::MAX, "first"), (0, "second")] {
            let run = ProcessRun { pid, daemon: daemon.to_owned() };
            assert_eq!(store.note_process_run("p", run.clone()).await, Ok(()));
            kept.run = Some(run);
            assert_eq!(store.process("p").await.unwrap().as_ref(), Some(&kept));
        }
        let end = |finished_at_ms| ProcessEnd { finished_at_ms, exit: format!("at {finished_at_ms}") };
        for at in [9, 4] {
            assert_eq!(store.note_process_end("p", end(at)).await, Ok(end(9)), "the first counts");
        }
        kept.end = Some(end(9));
        assert_eq!(store.process("p").await.unwrap().as_ref(), Some(&kept));
        // As it is, from the start.
        let copy = StoredProcess { id: "q".to_owned(), ..kept.clone() };
        store.insert_process(copy.clone()).await.unwrap();
        assert_eq!(store.processes_in("box").await.unwrap(), [kept, copy]);
    });
}

#[test]
fn processes_are_found_by_whose_they_are_and_where() {
    each(async |store| {
        for name in ["here", "there"] {
            store.insert_sandbox(sandbox(name, name)).await.unwrap();
        }
        for (id, token, sandbox) in
            [("3", "a", "here"), ("1", "a", "here"), ("2", "b", "here"), ("4", "a", "there")]
        {
            store.insert_process(process(id, token, sandbox)).await.unwrap();
        }
        let ids = |all: Result<Vec<StoredProcess>, StoreError>| {
            all.unwrap().into_iter().map(|process| process.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(store.processes_of("a", "here").await), ["1", "3"]);
        assert_eq!(ids(store.processes_of("b", "there").await), [""; 0]);
        assert_eq!(ids(store.processes_in("here").await), ["1", "2", "3"]);
        assert_eq!(ids(store.processes_in("nowhere").await), [""; 0]);
        assert_eq!(store.process("5").await, Ok(None));
        assert_eq!(store.remove_process("1").await, Ok(()));
        assert_eq!(store.remove_process("1").await, Err(StoreError::NotFound));
        assert_eq!(ids(store.processes_of("a", "here").await), ["3"]);
    });
}

#[test]
fn what_a_process_needs_has_to_be_there() {
    each(async |store| {
        assert_eq!(store.insert_process(process("p", "t", "box")).await, Err(StoreError::NotFound));
        store.insert_sandbox(sandbox("box", "box")).await.unwrap();
        store.insert_process(process("p", "t", "box")).await.unwrap();
        for sandbox in ["box", "none"] {
            assert_eq!(store.insert_process(process("p", "t", sandbox)).await, Err(StoreError::Taken));
        }
        let (run, end) = (
            ProcessRun { pid: 1, daemon: String::new() },
            ProcessEnd { finished_at_ms: 1, exit: String::new() },
        );
        assert_eq!(store.note_process_run("q", run).await, Err(StoreError::NotFound));
        assert_eq!(store.note_process_end("q", end).await, Err(StoreError::NotFound));
        assert_eq!(store.reserve_cursor("q", Cursor::default()).await, Err(StoreError::NotFound));
        assert_eq!(store.cursor("q").await, Err(StoreError::NotFound));
    });
}

#[test]
fn a_cursor_never_goes_back() {
    each(async |store| {
        store.insert_sandbox(sandbox("box", "box")).await.unwrap();
        store.insert_process(process("p", "t", "box")).await.unwrap();
        assert_eq!(store.cursor("p").await, Ok(Cursor::default()));
        let most = i64::MAX as u64;
        for (asked, reserved) in [
            ((10, 5), (10, 5)),
            ((9, 6), (10, 6)),
            ((0, 0), (10, 6)),
            ((11, 1), (11, 6)),
            ((most, 7), (most, 7)),
            ((u64::MAX, u64::MAX), (most, most)),
        ] {
            let [asked, reserved] = [asked, reserved].map(|(offset, seq)| Cursor { offset, seq });
            assert_eq!(store.reserve_cursor("p", asked).await, Ok(reserved));
            assert_eq!(store.cursor("p").await, Ok(reserved));
        }
        // Nor does a new process have what another had.
        store.remove_process("p").await.unwrap();
        store.insert_process(process("p", "t", "box")).await.unwrap();
        assert_eq!(store.cursor("p").await, Ok(Cursor::default()));
    });
}

#[test]
fn a_sandbox_takes_its_processes_along() {
    each(async |store| {
        for name in ["here", "there"] {
            store.insert_sandbox(sandbox(name, name)).await.unwrap();
            store.insert_process(process(&format!("in-{name}"), "t", name)).await.unwrap();
        }
        store.reserve_cursor("in-here", Cursor { offset: 1, seq: 1 }).await.unwrap();
        store.remove_sandbox("here").await.unwrap();
        assert_eq!(store.process("in-here").await, Ok(None));
        assert_eq!(store.cursor("in-here").await, Err(StoreError::NotFound));
        assert_eq!(store.process("in-there").await, Ok(Some(process("in-there", "t", "there"))));
    });
}

#[test]
fn of_many_at_once_one_gets_the_name_and_nobody_loses_anything() {
    const CALLERS: usize = 8;
    const CALLS: usize = 50;
    let check = |store: Arc<dyn Store>| {
        let barrier = Arc::new(Barrier::new(CALLERS));
        let callers = (0..CALLERS).map(|caller| {
            let (store, barrier) = (Arc::clone(&store), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                // A refusal is in the middle of what others write.
                (0..CALLS)
                    .filter(|call| {
                        let new = sandbox(&format!("{caller}-{call}"), &format!("name-{call}"));
                        block_on(store.insert_token(token(&new.id))).unwrap();
                        match block_on(store.insert_sandbox(new)) {
                            Ok(()) => true,
                            Err(error) => {
                                assert_eq!(error, StoreError::Taken);
                                false
                            }
                        }
                    })
                    .count()
            })
        });
        let callers: Vec<_> = callers.collect();
        let won: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert_eq!(won, CALLS);
        assert_eq!(block_on(store.sandboxes()).unwrap().len(), CALLS);
        assert_eq!(token_ids(&*store).len(), CALLERS * CALLS);
    };
    check(Arc::new(MemoryStore::default()));
    let folder = Folder::in_memory();
    check(Arc::new(open(&folder.at("hangar.db"))));
}

#[test]
fn what_nobody_waits_for_any_more_is_stored() {
    let folder = Folder::in_memory();
    let path = folder.at("hangar.db");
    let store = open(&path);
    let mut context = Context::from_waker(Waker::noop());
    for id in ["a", "b", "c"] {
        drop(pin!(store.insert_token(token(id))).as_mut().poll(&mut context));
    }
    // This one was never begun.
    drop(store.insert_token(token("d")));
    drop(store);
    assert_eq!(token_ids(&open(&path)), ["a", "b", "c"]);
}

#[test]
fn more_than_the_queue_holds_waits_for_room() {
    let folder = Folder::in_memory();
    let store = open(&folder.at("hangar.db"));
    block_on(store.insert_sandbox(sandbox("box", "box"))).unwrap();
    // Each alone is more than all the room there is.
    let start = "x".repeat(3 << 20);
    thread::scope(|scope| {
        for id in 0..4 {
            let (store, start) = (&store, start.clone());
            scope.spawn(move || {
                let large = StoredProcess { start, ..process(&id.to_string(), "t", "box") };
                block_on(store.insert_process(large)).unwrap();
            });
        }
    });
    let kept = block_on(store.processes_in("box")).unwrap();
    assert_eq!(kept.iter().map(|process| process.start.len()).collect::<Vec<_>>(), [start.len(); 4]);
}

/// Of the random operations; `PROPTEST_CASES` says otherwise.
const CASES: u32 = 150;

fn on_random_operations(run: impl Fn(&[Operation])) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let result = TestRunner::new(config).run(&vec(operation(), 0..60), |operations| {
        run(&operations);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn the_one_in_memory_does_what_the_model_does() {
    on_random_operations(|operations| {
        let (store, mut model) = (MemoryStore::default(), Model::default());
        for operation in operations {
            assert_eq!(block_on(carry_out(&store, operation)), model.carry_out(operation), "{operation:?}");
        }
        assert_eq!(block_on(everything(&store)), model.everything());
    });
}

#[test]
fn the_one_in_a_file_does_what_the_model_does() {
    on_random_operations(|operations| {
        let folder = Folder::in_memory();
        let path = folder.at("hangar.db");
        let (mut store, mut model) = (open(&path), Model::default());
        for operation in operations {
            if *operation == Operation::Reopen {
                drop(store);
                store = open(&path);
                assert_eq!(block_on(everything(&store)), model.everything());
            }
            assert_eq!(block_on(carry_out(&store, operation)), model.carry_out(operation), "{operation:?}");
        }
        assert_eq!(block_on(everything(&store)), model.everything());
    });
}
