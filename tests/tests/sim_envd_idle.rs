//! Clients of the daemon that ask nothing, or take nothing, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_core::Time;
use hangar_tests::{
    envd::Event,
    real::Folder,
    sim::{
        End, Link, Request,
        cell::{Cell, run_cell, script},
    },
};
use std::{fs, time::Duration};

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

/// A link that takes a little, and no more until that is read.
const NARROW: Link = Link { capacity: 4096, ..Link::INSTANT };

#[test]
fn a_download_of_which_nothing_is_taken_is_let_go_of_after_60_s() {
    let folder = Folder::new();
    for len in [100_000, 10_000_000] {
        let file = folder.file("file");
        fs::write(&file, vec![7; len]).unwrap();
        run_cell(0, NARROW, async |cell: &Cell| {
            let before = cell.runtime.tasks();
            let mut client = cell.client_by(NARROW);
            client
                .send(&Request::new("GET", format!("/files?path={}", file.display())).bytes())
                .await
                .unwrap();
            client.head().await.unwrap();
            cell.sleep_ms(59_000).await;
            assert_eq!(cell.runtime.tasks(), before + 1, "it is waited for");
            // It takes something, and has as long again.
            client.bytes(10_000).await.unwrap();
            cell.sleep_ms(59_000).await;
            assert_eq!(cell.runtime.tasks(), before + 1);
            cell.sleep_ms(2000).await;
            assert_eq!(cell.runtime.tasks(), before);
            let (rest, _) = client.rest().await;
            assert!(rest.len() < len - 10_000, "it was cut");
        });
    }
}

#[test]
fn a_process_is_followed_by_who_takes_nothing_for_as_long_as_nothing_is_lost() {
    run_cell(0, NARROW, async |cell: &Cell| {
        let client = cell.client_by(NARROW);
        let request = script("flood 300000;hang");
        let mut slow =
            cell.follow(client, "Start", &request, &[("hangar-retention", "until-read")]).await.unwrap();
        slow.pid().await;
        cell.sleep_ms(3_600_000).await;
        let mut printed = 0;
        while printed < 300_000 {
            if let Event::Data(data) = slow.next().await {
                printed += data.stdout.unwrap_or_default().len();
            }
        }
    });
}
