//! `hangar watch`: what changes below a directory of a sandbox.

use super::{
    Failure,
    exec::ServerArguments,
    follow::{NOBODY_READS, show},
    processes::block_on,
    returning::{Return, Returning},
    say,
};
use clap::Args;
use hangar::TokioRuntime;
use hangar_backends::{
    Runtime,
    runtime::{sleep_until, until},
};
use hangar_core::{
    log::Channel,
    wire::watch::{EventView, NameView, UnwatchedView},
};
use hangar_transports::client::{Client, ClientError, RemoteWatch, WatchEvent, WatchRequest};
use std::{fmt::Write, io, time::Duration};

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(30);

#[derive(Args, Debug)]
pub(super) struct Watch {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The directory: absolute, or relative to the one that commands start in
    #[arg(value_name = "PATH")]
    path: String,
    /// What is below its directories, too
    #[arg(long, short)]
    recursive: bool,
    /// Begin with what is there, as if it had just been created
    #[arg(long)]
    snapshot: bool,
    /// Also on network and FUSE file systems, where the changes of others are not all seen
    #[arg(long)]
    network: bool,
    /// The user to read it as, where the sandbox allows that
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Each change as the server's JSON: with its number, its time, and names exactly as they are
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    return_: Return,
    #[command(flatten)]
    server: ServerArguments,
}

impl Watch {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            let request = WatchRequest {
                path: self.path,
                recursive: self.recursive,
                snapshot: self.snapshot,
                network: self.network,
                user: self.user,
            };
            let (json, returning) = (self.json, Returning::new(self.return_.give_up()));
            let following = Following {
                client,
                tokio,
                sandbox: self.sandbox,
                request,
                json,
                returning,
                since: None,
                was_open: false,
            };
            following.follow().await
        })
    }
}

/// A watch over as many connections as it takes.
struct Following {
    client: Client,
    tokio: TokioRuntime,
    sandbox: String,
    request: WatchRequest,
    json: bool,
    /// Since when it is not told everything any more, and when it is tried again.
    returning: Returning,
    /// The number to come back with.
    since: Option<u64>,
    /// What is refused before that is refused for good.
    was_open: bool,
}

/// How one connection ended.
enum Ended {
    /// There is nothing more to show.
    Over(u8),
    /// There is another one, for the rest.
    RolledOver,
    /// It broke.
    Broken(ClientError),
}

impl Following {
    async fn follow(mut self) -> Result<u8, Failure> {
        loop {
            let error = match self.one().await? {
                Ended::Over(code) => return Ok(code),
                Ended::RolledOver => continue,
                Ended::Broken(error) => error,
            };
            self.wait(&error).await?;
        }
    }

    /// Shows what comes over one connection.
    async fn one(&mut self) -> Result<Ended, Failure> {
        let opening = self.client.watch(&self.sandbox, &self.request, self.since);
        let mut watch: RemoteWatch = match until(&self.tokio, self.tokio.now() + ATTEMPT, opening).await {
            Some(Ok(watch)) => watch,
            Some(Err(error)) => return Ok(Ended::Broken(error)),
            None => return Ok(Ended::Broken(lost("the server does not answer"))),
        };
        self.was_open = true;
        loop {
            let event = match watch.next().await {
                Ok(event) => event,
                Err(error) => return Ok(Ended::Broken(error)),
            };
            if let Some(ended) = self.handle(event)? {
                return Ok(ended);
            }
        }
    }

    fn handle(&mut self, event: WatchEvent) -> Result<Option<Ended>, Failure> {
        match event {
            WatchEvent::Change { view, json } => {
                self.since = Some(view.seq);
                let mut line = if self.json { json } else { line(&view) };
                line.push('\n');
                if !show(Channel::Stdout, [line.as_bytes()])? {
                    return Ok(Some(Ended::Over(NOBODY_READS)));
                }
            }
            WatchEvent::Ready(ready) => {
                self.since = Some(ready.next);
                // Not before: what cannot be watched breaks on the way there, each time.
                self.returning.has_gone_on();
                if self.returning.came_back() {
                    say("the connection is back");
                }
            }
            WatchEvent::Gap(_) => say("… some of the changes are lost; what is there now follows"),
            WatchEvent::Unwatched(UnwatchedView { name, reason }) => {
                say(format_args!("{} is not watched ({reason})", name_of(&name)));
            }
            WatchEvent::End { reason } => {
                say(format_args!("the directory is not watched any more ({reason})"));
                return Ok(Some(Ended::Over(0)));
            }
            WatchEvent::Close { reason, .. }
                if matches!(&*reason, "limit" | "lifetime" | "slow_consumer") =>
            {
                return Ok(Some(Ended::RolledOver));
            }
            WatchEvent::Close { reason, message } => {
                let why = message.map_or_else(String::new, |message| format!(": {message}"));
                let why = format!("the server closed it ({reason}{why})");
                if matches!(&*reason, "revoked" | "destroyed") {
                    return Err(Failure::new(why));
                }
                return Ok(Some(Ended::Broken(lost(&why))));
            }
        }
        Ok(None)
    }

    /// Waits for the next attempt, where there is one.
    async fn wait(&mut self, error: &ClientError) -> Result<(), Failure> {
        if !self.was_open || is_final(error) {
            return Err(Failure::new(error));
        }
        if !self.returning.is_lost() {
            self.returning.say_lost(error);
        }
        let at = self.returning.next_attempt(self.tokio.now(), error)?;
        sleep_until(&self.tokio, at).await;
        Ok(())
    }
}

fn lost(why: &str) -> ClientError {
    ClientError::Lost(io::Error::other(why.to_owned()))
}

/// Whether to try again is of no use.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, code, .. } => {
            matches!(status.as_u16(), 400 | 401 | 403 | 404) || code == "unsupported"
        }
        ClientError::BadToken => true,
        ClientError::Unreachable { .. }
        | ClientError::Broken(_)
        | ClientError::Lost(_)
        | ClientError::Unexpected(_)
        | ClientError::CutShort => false,
    }
}

/// A change, for a person.
fn line(view: &EventView<'_>) -> String {
    let name = name_of(&view.name);
    let from = view.from.clone().map(NameView::Name);
    match from.or_else(|| view.from_base64.clone().map(NameView::Base64)) {
        Some(from) => format!("{} {} -> {name}", view.kind, name_of(&from)),
        None => format!("{} {name}", view.kind),
    }
}

/// A name on one line: what cannot be shown is escaped.
fn name_of(name: &NameView<'_>) -> String {
    let mut shown = String::new();
    for chunk in name.bytes().unwrap_or_default().utf8_chunks() {
        for char in chunk.valid().chars() {
            if char.is_control() {
                shown.extend(char.escape_default());
            } else {
                shown.push(char);
            }
        }
        for byte in chunk.invalid() {
            // Into a string: this cannot fail.
            write!(shown, "\\x{byte:02x}").ok();
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use hangar_core::watch::{Event, Kind, Told};

    #[test]
    fn a_change_is_one_line() {
        let event = |kind, name: &'static [u8]| Event::new(kind, name.into());
        let rename = |from: &'static [u8], to: &'static [u8]| Event::rename(from.into(), to.into());
        for (event, expected) in [
            (event(Kind::Create, "a b/\u{e4}".as_bytes()), "create a b/\u{e4}"),
            (event(Kind::Write, b"a\nb\x1b"), "write a\\nb\\u{1b}"),
            (rename(b"a", b"b"), "rename a -> b"),
            (rename(b"\xff", b"a\xfe"), "rename \\xff -> a\\xfe"),
            (Event::overflow(), "overflow ."),
        ] {
            let told = Told { seq: 1, ts_ms: 1, event };
            assert_eq!(line(&EventView::from(&told)), expected);
        }
    }
}
