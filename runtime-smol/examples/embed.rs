//! A program of its own that embeds hangar: the plane and its HTTP interface as tasks of an executor that the program
//! has anyway, with its own work beside them.
//!
//! ```text
//! cargo run --release -p hangar-smol --example embed -- --listen 127.0.0.1:8585 --data ./hangar-data
//! ```
//!
//! `HANGAR_TOKEN` and the limits (`HANGAR_STREAM_…`) are read from the environment, as the server does it.

use async_executor::Executor;
use hangar_backends::{
    Runtime,
    local::reaper,
    runtime::{Address, blocking, sleep_until},
    store::SqliteStore,
};
use hangar_smol::{SmolRuntime, signals::StopSignals};
use hangar_transports::{
    Plane, Settings,
    data::Folder,
    plane::{local::Local, tokens::Tokens},
    rest::Guard,
    server::Server,
};
use std::{error::Error, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("embed: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let (listen, data) = arguments()?;
    // This program's executor. hangar gets a handle of it and knows nothing else of how it is run.
    let executor = Arc::new(Executor::new());
    let runtime: Arc<dyn Runtime> = Arc::new(SmolRuntime::new(&executor));
    // What changes the whole process is the program's own decision: the library does none of it.
    reaper::become_subreaper()?;
    let mut signals = StopSignals::listen()?;

    // The program's own work goes on beside the plane, on the same thread.
    executor.spawn(own_work(Arc::clone(&runtime))).detach();
    // One thread: what a command prints goes from its pipe to the client's socket without changing threads. A program
    // that wants more runs the executor on more.
    async_io::block_on(executor.run(async {
        let folder = blocking(&*runtime, move || Folder::open(&data)).await.ok_or("the runtime ended")??;
        let secret = match std::env::var("HANGAR_TOKEN") {
            Ok(secret) if !secret.is_empty() => secret,
            Ok(_) | Err(_) => {
                println!("the token is in {}", folder.token_file().display());
                folder.own_token(&*runtime)?.secret
            }
        };
        let file = folder.store_file();
        let store =
            blocking(&*runtime, move || SqliteStore::open(&file)).await.ok_or("the runtime ended")??;
        let tokens = Tokens::load(Some(&secret), Arc::new(store)).await?;
        let settings = Settings::from_variables(|name| std::env::var(name).ok())?;
        let plane = Plane::new(Arc::clone(&runtime), settings, tokens);
        runtime.spawn(Box::pin(reaper::reap_orphans(Arc::clone(&runtime))));
        Local::new(Arc::clone(&runtime), None).offer(&plane)?;

        let listener = runtime.listen(Address::Tcp(listen)).await?;
        println!("hangar listens on http://{}", listener.address());
        let server = Server::new(plane, Guard::default());
        let stop = async {
            signals.next().await;
        };
        let killed = server.run(listener, stop, std::future::pending()).await;
        println!("{killed} commands had to be killed");
        Ok(())
    }))
}

/// What this program does besides.
async fn own_work(runtime: Arc<dyn Runtime>) {
    loop {
        sleep_until(&*runtime, runtime.now() + Duration::from_secs(60)).await;
        println!("another minute of this program's own work");
    }
}

fn arguments() -> Result<(SocketAddr, PathBuf), Failure> {
    let (mut listen, mut data) = ("127.0.0.1:8484".to_owned(), "hangar-data".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => listen = value,
            "--data" => data = value,
            _ => return Err(format!("{name} is none of --listen and --data").into()),
        }
    }
    Ok((listen.parse()?, data.into()))
}
