//! MCP over lines on the virtual clock: what is heard whatever waits, and what ends it.

#![allow(clippy::unwrap_used, reason = "what the tests share may fail as they do")]

use hangar_core::wire::mcp::session::MAX_CALLS;
use hangar_tests::{
    mcp::{request, result},
    sim::{Setup, World, run, stdio::Session},
};
use hangar_transports::mcp::stdio::LAST_ANSWERS;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[test]
fn as_many_calls_are_answered_as_may_and_the_next_is_told_so() {
    run(Setup::default(), async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        for id in 0..MAX_CALLS as u64 {
            session.exec(id, "hang", None).await;
        }
        session.exec(1_000, "hang", None).await;
        let refused = session.hear().await.unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1_000), &json!(-32600)));
        world.sleep_ms(100).await;
        assert_eq!(world.running(), MAX_CALLS);
        // What cancels one is heard all the same, and makes room for another.
        session.cancel(7).await;
        session.exec(1_001, "out x", None).await;
        let answered = session.hear().await.unwrap();
        assert_eq!((&answered["id"], &result(&answered)["stdout"]), (&json!(1_001), &json!("x")));
        // So is the end.
        session.input = None;
        assert_eq!(session.hear().await, None);
        assert!(session.has_ended());
        world.sleep_ms(100).await;
        assert_eq!(world.running(), 0);
    });
}

#[test]
fn who_does_not_read_holds_up_neither_a_cancel_nor_the_end() {
    let mut setup = Setup::default();
    setup.settings.stream_bytes_per_second = 1 << 40;
    run(setup, async |world: &World| {
        let mut session = Session::start(world, 1024);
        session.exec(1, "flood 10000000; hang", Some(1)).await;
        session.exec(2, "hang", Some(2)).await;
        world.sleep_ms(1_000).await;
        // What is held is bounded: the command waits.
        let printed = world.sandbox.records()[0].printed;
        assert!(printed < 1_000_000, "{printed}");
        session.cancel(2).await;
        world.sleep_ms(100).await;
        assert_eq!(world.running(), 1);
        // Something that would have to be answered waits, and what is behind it too.
        session.say("nonsense").await;
        let begun = world.now();
        session.input = None;
        while !session.has_ended() {
            world.sleep_ms(10).await;
            assert!(world.now().since(begun) < Duration::from_secs(60), "it goes on");
        }
        world.sleep_ms(100).await;
        assert_eq!(world.running(), 0);
    });
}

#[test]
fn what_is_nearly_done_at_the_end_is_answered_and_the_rest_is_not_waited_for() {
    run(Setup::default(), async |world: &World| {
        let mut session = Session::start(world, 1 << 20);
        session.exec(1, "sleep 900; out done", None).await;
        session.exec(2, "sleep 60000", None).await;
        // The last line has no end.
        let list = request(&json!(3), "tools/list", &json!({}), None).to_string();
        session.input.as_mut().unwrap().write_all(list.as_bytes()).await.unwrap();
        let begun = world.now();
        session.input = None;
        assert_eq!(session.hear().await.unwrap()["id"], 3);
        assert_eq!(result(&session.hear().await.unwrap())["stdout"], "done");
        assert_eq!(session.hear().await, None);
        assert_eq!(world.now().since(begun), LAST_ANSWERS);
        world.sleep_ms(100).await;
        assert_eq!(world.running(), 0);
    });
}

#[test]
fn one_that_prints_much_holds_up_no_other() {
    let mut setup = Setup::default();
    setup.settings.stream_bytes_per_second = 1 << 40;
    run(setup, async |world: &World| {
        let mut session = Session::start(world, 4096);
        session.exec(1, "flood 5000000", Some(1)).await;
        world.sleep_ms(10).await;
        session.exec(2, "out quick", Some(2)).await;
        let (mut before, mut answered) = (0, Vec::new());
        while answered.len() < 2 {
            let message = session.hear().await.unwrap();
            match message["id"].as_u64() {
                Some(id) => answered.push(id),
                None if answered.is_empty() => {
                    before += message["params"]["message"].as_str().unwrap().len();
                }
                None => {}
            }
        }
        assert_eq!(answered, [2, 1]);
        assert!(before < 2_000_000, "{before}");
        session.input = None;
        assert_eq!(session.hear().await, None);
    });
}
