//! Files of the daemon where the file system takes its time, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::sim::{
    Link,
    cell::{Cell, run_cell},
    client::Request,
};

#[test]
fn files_that_hang_leave_threads_for_everything_else() {
    run_cell(0, Link::INSTANT, async |cell: &Cell| {
        cell.runtime.hold_blocking();
        let mut clients = Vec::new();
        for _ in 0..300 {
            let mut client = cell.client();
            client.send(&Request::new("GET", "/files?path=/proc/version").bytes()).await.unwrap();
            clients.push(client);
        }
        cell.sleep_ms(1000).await;
        assert_eq!(cell.runtime.held(), 256, "half of the threads that there are");
        // Whoever leaves gives nothing back: the work goes on.
        clients.truncate(280);
        cell.sleep_ms(1000).await;
        assert_eq!(cell.runtime.held(), 256);
        cell.start_script("out x;exit 0", &[]).await.pid().await;
        cell.runtime.release_blocking();
        for mut client in clients {
            let head = client.head().await.unwrap();
            assert_eq!(client.body(head).await.unwrap().status, 200);
        }
    });
}
