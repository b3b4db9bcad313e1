//! Tasks, work that blocks, random bytes and names.

use hangar_backends::runtime::{Runtime, blocking, sleep_until};
use std::{io, sync::Arc, thread, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// A task runs although nobody waits for it, and may start others.
pub async fn tasks_run(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (done, mut results) = mpsc::unbounded_channel();
    for index in 0..100 {
        let (done, inner) = (done.clone(), runtime.clone());
        runtime.spawn(Box::pin(async move {
            let spawner = inner.clone();
            spawner.spawn(Box::pin(async move {
                sleep_until(&*inner, inner.now() + Duration::from_millis(1)).await;
                done.send(index).ok();
            }));
        }));
    }
    drop(done);
    let mut all = Vec::new();
    while let Some(index) = results.recv().await {
        all.push(index);
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    Ok(())
}

/// A task that panics is dropped, and costs the others nothing: more of them than there are threads.
pub async fn a_panic_stays_in_its_task(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    for _ in 0..8 {
        let (held, dropped) = oneshot::channel::<()>();
        runtime.spawn(Box::pin(async move {
            let _held = held;
            panic!("on purpose");
        }));
        assert!(dropped.await.is_err());
    }
    tasks_run(runtime).await
}

/// Work that blocks does not keep the tasks waiting; its panic is None.
pub async fn blocking_work_runs_aside(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (done, result) = oneshot::channel();
    let inner = runtime.clone();
    runtime.spawn(Box::pin(async move {
        let worker = blocking(&*inner, move || (released.recv().is_ok(), thread::current().id())).await;
        done.send((worker, thread::current().id())).ok();
    }));
    // These run while the work waits for them.
    tasks_run(runtime.clone()).await?;
    release.send(()).map_err(io::Error::other)?;
    let (worker, task) = result.await.map_err(io::Error::other)?;
    assert!(worker.is_some_and(|(released, thread)| released && thread != task));

    assert_eq!(blocking(&*runtime, || -> () { panic!("on purpose") }).await, None);
    assert_eq!(blocking(&*runtime, || 7).await, Some(7));
    Ok(())
}

/// Random bytes fill what they are asked for, and differ.
pub async fn random_differs(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let mut all = [[0; 32]; 8];
    for bytes in &mut all {
        runtime.random(bytes);
        assert_ne!(bytes[16..], [0; 16], "the second half was not filled");
    }
    for (index, bytes) in all.iter().enumerate() {
        assert!(!all[..index].contains(bytes));
    }
    runtime.random(&mut []);
    Ok(())
}

/// `localhost` and an address as text have addresses, with the port; the empty name has none.
pub async fn names_resolve(runtime: Arc<dyn Runtime>) -> io::Result<()> {
    let addresses = runtime.resolve("localhost".into(), 80).await?;
    assert!(!addresses.is_empty());
    assert!(
        addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80),
        "{addresses:?}"
    );
    assert_eq!(runtime.resolve("::1".into(), 443).await?, ["[::1]:443".parse().map_err(io::Error::other)?]);
    assert!(runtime.resolve(String::new(), 80).await.is_err());
    Ok(())
}
