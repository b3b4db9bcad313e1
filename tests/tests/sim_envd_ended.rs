//! Processes of the daemon that have ended, and what is left of them.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::sim::{
    Link,
    cell::{Cell, run_cell},
};

#[test]
fn one_task_waits_for_the_time_of_all_that_have_ended() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.sleep_ms(1000).await;
        let before = cell.runtime.tasks();
        for number in 0..100 {
            let kept: &[_] = if number % 2 == 0 { &[("hangar-log", "1000")] } else { &[] };
            let mut follower = cell.start_script("out x;exit 0", kept).await;
            while follower.try_next().await.is_ok() {}
        }
        cell.sleep_ms(20_000).await;
        assert_eq!(cell.runtime.tasks(), before + 1, "nothing for each of them");
        cell.sleep_ms(600_000).await;
        assert_eq!(cell.runtime.tasks(), before, "nothing where there is nothing to forget");
        // And again after that.
        cell.start_script("exit 0", &[]).await.pid().await;
        cell.sleep_ms(20_000).await;
        assert_eq!(cell.runtime.tasks(), before + 1);
    });
}
