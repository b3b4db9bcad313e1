//! `hangar attach`: a process of a server on this terminal.

use super::{
    FAILED, Failure,
    exec::ServerArguments,
    follow::NOBODY_READS,
    link::{Link, LinkEvent, Target},
    processes::{Tail, block_on},
    returning::Return,
    say,
    session::{Over, Session},
    terminal::Key,
};
use clap::Args;
use hangar::TokioRuntime;
use hangar_core::{process::signal_number, wire::process::EndView};
use hangar_transports::{client::Client, plane::tickets::Mode};

#[derive(Args, Debug)]
pub(super) struct Attach {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The process, by name or id; `hangar ps` lists them
    #[arg(value_name = "PROCESS")]
    process: String,
    /// Begin with so many of the lines that it printed before, or with all that is kept [default: a screenful]
    #[arg(long, value_name = "N|all")]
    tail: Option<Tail>,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    server: ServerArguments,
}

/// How a process is attached to.
#[derive(Args, Clone, Debug)]
pub(super) struct How {
    /// The key that leaves the process running and ends this, where this terminal is given to it
    #[arg(long, value_name = "KEY", default_value = "ctrl-]")]
    detach_key: Key,
    #[command(flatten)]
    return_: Return,
}

impl Attach {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            attach(client, tokio, self.sandbox, self.process, self.tail, self.how).await
        })
    }
}

/// Gives a process this terminal, or what is piped in and out. Its exit code is the process's, or 0 once it is let go of.
pub(super) async fn attach(
    client: Client,
    tokio: TokioRuntime,
    sandbox: String,
    process: String,
    tail: Option<Tail>,
    how: How,
) -> Result<u8, Failure> {
    // Whoever is shown all that was printed needs nothing drawn again.
    let draw_again = tail != Some(Tail::All);
    let target = Target {
        sandbox,
        process,
        mode: Mode::Attach,
        begin: tail.map(Tail::begin).unwrap_or_default(),
        give_up: how.return_.give_up(),
    };
    let mut link = Link::new(client, tokio.clone(), target);
    let LinkEvent::Ready(view) = link.next().await? else {
        return Err(Failure::new("this is not how hangar answers: it is not ready"));
    };
    let mut session = Session::begin(link, &tokio, &view, how.detach_key, draw_again)?;
    let over = session.follow().await;
    // The terminal is given back before anything else is said on it.
    drop(session);
    match over? {
        Over::Ended(end) => exit_code(&end),
        Over::NobodyReads => Ok(NOBODY_READS),
        Over::Detached => {
            say(format_args!("detached from {}, which goes on", view.id));
            Ok(0)
        }
    }
}

/// The exit code that the end of a process stands for, as shells have it.
fn exit_code(end: &EndView) -> Result<u8, Failure> {
    if end.reason != "process_exited" {
        return Err(Failure::new(format!("the stream was closed ({})", end.reason)));
    }
    match (end.exit_code, &end.signal) {
        // The kernel keeps eight bits of an exit code.
        (Some(code), _) => Ok(code.to_le_bytes()[0]),
        (None, Some(signal)) => Ok(signal_number(signal).map_or(FAILED, |number| 128 + number)),
        (None, None) => Err(Failure::new("the process has ended; how is not known")),
    }
}
