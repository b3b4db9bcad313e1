//! Clients of the daemon that ask nothing, or take nothing, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::Time;
use hangar_tests::sim::{
    End, Link, Request,
    cell::{Cell, run_cell},
};
use std::time::Duration;

#[test]
fn a_connection_without_a_request_is_closed_after_30_s() {
    for begun in [&b""[..], b"GET /hea", b"GET /health HTTP/1.1\r\nhost: localhost\r\n"] {
        run_cell(0, Link::INSTANT, async |cell: &Cell| {
            let mut client = cell.client();
            let at = cell.now() + Duration::from_secs(30);
            client.send(begun).await.unwrap();
            let (came, end) = client.rest().await;
            assert_eq!((came.len(), end, cell.now()), (0, End::Eof, at));
        });
    }
}

#[test]
fn who_sends_a_byte_now_and_then_has_30_s_as_well() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut client = cell.client();
        let at = cell.now() + Duration::from_secs(30);
        let sent = async {
            for _ in 0..60 {
                if client.send(b"x").await.is_err() {
                    break;
                }
                cell.sleep_ms(1000).await;
            }
            cell.now()
        };
        let gone: Time = sent.await;
        assert!(gone >= at && gone <= at + Duration::from_secs(2), "{gone:?}");
    });
}

#[test]
fn a_connection_that_was_used_may_be_idle_for_640_s() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        let mut client = cell.client();
        let health = Request::new("GET", "/health");
        for _ in 0..2 {
            assert_eq!(client.call(&health).await.unwrap().status, 204);
            cell.sleep_ms(639_000).await;
        }
        let (_, end) = client.rest().await;
        assert_eq!(end, End::Eof);
    });
}
