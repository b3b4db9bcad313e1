//! The client's side of watched directories, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_backends::watching::{Change, WatchError};
use hangar_core::watch::{Blind, End, Event, Kind};
use hangar_tests::sim::{Setup, World, run, world::ADMIN};
use hangar_transports::client::{Client, ClientError, RemoteWatch, WatchEvent, WatchRequest};
use std::sync::Arc;

fn client(world: &World) -> Client {
    let url = format!("http://{}", world.address()).parse().unwrap();
    Client::new(Arc::clone(&world.runtime) as _, url, ADMIN.to_owned())
}

fn request() -> WatchRequest {
    WatchRequest { path: "a b/\u{e4}+&".to_owned(), ..WatchRequest::default() }
}

async fn ready(watch: &mut RemoteWatch) -> u64 {
    let event = watch.next().await.unwrap();
    let WatchEvent::Ready(ready) = event else { panic!("{event:?}") };
    ready.next
}

async fn change(watch: &mut RemoteWatch) -> (u64, String) {
    let event = watch.next().await.unwrap();
    let WatchEvent::Change { view, json } = event else { panic!("{event:?}") };
    assert!(json.contains(&format!("\"seq\":{}", view.seq)));
    (view.seq, format!("{} {:?} {:?}", view.kind, view.name.bytes().unwrap(), view.from_bytes().unwrap()))
}

#[test]
fn everything_that_is_told_is_understood() {
    run(Setup::default(), async |world: &World| {
        let client = client(world);
        let wanted = WatchRequest {
            recursive: true,
            snapshot: true,
            network: true,
            user: Some("nobody".to_owned()),
            ..request()
        };
        world.sandbox.watches.set_existing(["x"]);
        let mut watch = client.watch("box", &wanted, None).await.unwrap();
        let source = world.sandbox.watches.last();
        let spec = source.spec();
        assert_eq!((spec.path, spec.user), (wanted.path.clone(), wanted.user.clone()));
        assert!(spec.recursive && spec.tells_existing && spec.network);
        let (first, created) = change(&mut watch).await;
        assert_eq!(created, "create b\"x\" None");
        assert_eq!(ready(&mut watch).await, first);
        // A long silence is none: the server sends signs of life.
        world.sleep_ms(600_000).await;
        source.tell(Change::Event(Event::rename("x".into(), (&b"\xff"[..]).into())));
        assert_eq!(change(&mut watch).await, (first + 1, "rename b\"\\xff\" Some(b\"x\")".to_owned()));
        source.tell(Change::Blind { name: "d".into(), why: Blind::Denied });
        let event = watch.next().await.unwrap();
        assert!(matches!(&event, WatchEvent::Unwatched(view) if view.reason == "denied"), "{event:?}");
        drop(watch);
        world.sleep_ms(10).await;
        source.event(Kind::Write, "y");
        let mut watch = client.watch("box", &wanted, Some(first + 1)).await.unwrap();
        // It may not have been told of that.
        let event = watch.next().await.unwrap();
        assert!(matches!(&event, WatchEvent::Unwatched(_)), "{event:?}");
        assert_eq!(change(&mut watch).await, (first + 2, "write b\"y\" None".to_owned()));
        assert_eq!(ready(&mut watch).await, first + 2);
        source.tell(Change::Ended(End::Moved));
        assert_eq!(watch.next().await.unwrap(), WatchEvent::End { reason: "moved".to_owned() });
        // A number of an earlier watch.
        let mut watch = client.watch("box", &request(), Some(7)).await.unwrap();
        let event = watch.next().await.unwrap();
        assert!(
            matches!(&event, WatchEvent::Gap(gap) if gap.from_seq == 8 && gap.reason == "adopted"),
            "{event:?}"
        );
        assert_eq!(change(&mut watch).await.1, "overflow b\".\" None");
        world.sandbox.watches.last().tell(Change::Broken(WatchError::Broken("no route".to_owned())));
        loop {
            match watch.next().await.unwrap() {
                WatchEvent::Close { reason, message } => {
                    let message = message.unwrap();
                    assert_eq!((&*reason, &*message), ("error", "the sandbox cannot be reached: no route"));
                    break;
                }
                WatchEvent::Change { .. } | WatchEvent::Ready(_) => {}
                other @ (WatchEvent::Gap(_) | WatchEvent::Unwatched(_) | WatchEvent::End { .. }) => {
                    panic!("{other:?}")
                }
            }
        }
    });
}

#[test]
fn what_is_refused_or_cut_is_an_error_and_never_an_end() {
    run(Setup::default(), async |world: &World| {
        let client = client(world);
        for (sandbox, error, code) in [
            ("nowhere", None, "not_found"),
            ("box", Some(WatchError::NotFound("/x".to_owned())), "no_directory"),
            ("box", Some(WatchError::NeedsDaemon), "unsupported"),
        ] {
            error.into_iter().for_each(|error| world.sandbox.watches.refuse_next(error));
            let refused = client.watch(sandbox, &request(), None).await.unwrap_err();
            assert!(matches!(&refused, ClientError::Refused { code: told, .. } if told == code), "{refused}");
        }
        let mut watch = client.watch("box", &request(), None).await.unwrap();
        ready(&mut watch).await;
        world.shut_down();
        let event = watch.next().await.unwrap();
        assert_eq!(event, WatchEvent::Close { reason: "shutdown".to_owned(), message: None });
        let error = watch.next().await.unwrap_err();
        assert!(matches!(error, ClientError::Lost(_)), "{error}");
    });
}
