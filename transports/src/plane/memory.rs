//! What outlives the server: sandboxes behind daemons, and the processes in them.
//!
//! A process is marked with a MAC of its owner, its sandbox and its id under the server's key, so that whoever can start
//! processes in the sandbox can make none up for a token. The store says which there are; a server that starts again takes
//! them over, and looks for each by its mark.

use super::{
    Plane,
    background::{Background, Earlier, StartCall},
    envd::NewEnvd,
    processes::KEEP_ENDED,
    sandboxes::{Entry, LOCAL, NewLocal, NewSandbox, taken},
};
use crate::ApiError;
use hangar_backends::{
    Handle,
    sandbox::{Adoption, Command},
    store::{Cursor, ProcessEnd, ProcessRun, StoreError, StoredProcess, StoredSandbox},
};
use hangar_core::{
    process::{Exit, Process, TtySize},
    wire::process::FinishReason,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The shortest key: as long as what it makes.
const KEY_LEN: usize = 32;

/// What is reserved for one life of the server where it keeps the log: four terabytes of output, in frames of 64 bytes or more. Once a life, so that nothing has to be stored while a process prints; 2,000 lives stay below 2^53, up to which
/// every client can count.
const RESERVED: Cursor = Cursor { offset: 1 << 42, seq: 1 << 36 };

/// What processes are marked with.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key; None for one of fewer than 32 bytes.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= KEY_LEN).then(|| Self(secret.to_vec()))
    }

    /// What a process is marked with. Each part has its length before it, so that no two of them mean the same.
    fn tag(&self, token: &str, sandbox: &str, process: &str) -> String {
        // A key of any length is one.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return format!("hangar:{process}") };
        for part in [token, sandbox, process] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        let mac: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("hangar:{process}:{mac}")
    }
}

/// How a process was started, in the store.
#[derive(Deserialize, Serialize)]
struct Start {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    argv: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tty: Option<TtySize>,
    max_log_bytes: u64,
    stdin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restarted_from: Option<String>,
}

impl Start {
    fn of(call: &StartCall, restarted_from: Option<&str>) -> Self {
        let (command, argv) = match &call.command {
            Command::Shell(line) => (Some(line.clone()), None),
            Command::Argv(argv) => (None, Some(argv.clone())),
        };
        let StartCall { cwd, env, tty, max_log_bytes, stdin, .. } = call.clone();
        let restarted_from = restarted_from.map(str::to_owned);
        Self { command, argv, cwd, env, tty, max_log_bytes, stdin, restarted_from }
    }

    /// What was asked for, and the process that it is the restart of.
    fn call(self, name: Option<String>) -> Option<(StartCall, Option<String>)> {
        let Self { command, argv, cwd, env, tty, max_log_bytes, stdin, restarted_from } = self;
        let command = command.map(Command::Shell).or_else(|| argv.map(Command::Argv))?;
        Some((StartCall { command, name, cwd, env, tty, max_log_bytes, stdin }, restarted_from))
    }
}

impl Plane {
    /// From here on sandboxes that outlive the server are remembered, and so are the processes in them, marked by `key`. Those of an
    /// earlier run are there again, and `given` are there by name: one that was at another place is another sandbox.
    pub async fn remember(self: &Arc<Self>, key: Key, given: Vec<(String, NewEnvd)>) -> Result<(), ApiError> {
        if self.key.set(key).is_err() {
            return Ok(());
        }
        let mut given: BTreeMap<String, NewEnvd> = given.into_iter().collect();
        for sandbox in self.tokens.store().sandboxes().await? {
            let StoredSandbox { id, name, provider, url, secret, workdir, daemon, created_at_ms } = sandbox;
            let new = match (url, given.remove(&name)) {
                (None, None) if provider == LOCAL => NewSandbox::Local(NewLocal { workdir, daemon }),
                (Some(url), None) => NewSandbox::Envd(NewEnvd { url, token: secret, workdir }),
                (Some(url), Some(new)) if new.url == url => NewSandbox::Envd(new),
                // What runs there would be forgotten.
                (None, Some(_)) => return Err(taken(&name)),
                (None, None) => {
                    tracing::error!(sandbox = name, provider, "this server knows no such sandboxes");
                    continue;
                }
                (Some(_), Some(new)) => {
                    tracing::warn!(sandbox = name, "it was at another place: what ran there is forgotten");
                    self.tokens.store().remove_sandbox(&id).await?;
                    given.insert(name, new);
                    continue;
                }
            };
            let made = match new {
                NewSandbox::Local(new) => self.make_local_again(&id, &new),
                NewSandbox::Envd(new) => new.make(&self.runtime),
            };
            let entry = made.and_then(|made| self.enter_sandbox(id, &name, created_at_ms, made));
            match entry {
                Ok(entry) => self.take_over(&entry).await?,
                Err(error) => tracing::error!(sandbox = name, %error, "a sandbox cannot be offered again"),
            }
        }
        for (name, new) in given {
            self.create_sandbox(Some(&name), NewSandbox::Envd(new)).await?;
        }
        Ok(())
    }

    /// Stores a sandbox that is to outlive the server.
    pub(super) async fn store_sandbox(&self, entry: &Entry, secret: Option<String>) -> Result<(), ApiError> {
        let made = entry.made();
        if self.key.get().is_none() || !made.is_remembered {
            return Ok(());
        }
        let stored = StoredSandbox {
            id: entry.id().to_owned(),
            name: entry.name().to_owned(),
            provider: made.provider.to_owned(),
            url: made.url.clone(),
            secret,
            workdir: made.workdir.clone(),
            daemon: made.daemon,
            created_at_ms: entry.created_at_ms(),
        };
        match self.tokens.store().insert_sandbox(stored).await {
            // It is one that this server could not offer again.
            Err(StoreError::Taken) => Err(taken(entry.name())),
            stored => Ok(stored?),
        }
    }

    /// Forgets one that is gone.
    pub(super) async fn unstore_sandbox(&self, entry: &Entry) -> Result<(), ApiError> {
        match self.tokens.store().remove_sandbox(entry.id()).await {
            // It was not to outlive the server.
            Ok(()) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a process that is being started is marked with, where it outlives the server: it is stored before it runs.
    pub(super) async fn store_process(
        &self,
        token: &str,
        entry: &Entry,
        id: &str,
        call: &StartCall,
        restarted_from: Option<&str>,
    ) -> Result<Option<String>, ApiError> {
        let Some(key) = self.key.get().filter(|_| entry.made().is_remembered) else { return Ok(None) };
        let stored = StoredProcess {
            id: id.to_owned(),
            token: token.to_owned(),
            sandbox: entry.id().to_owned(),
            name: call.name.clone(),
            start: serde_json::to_string(&Start::of(call, restarted_from))
                .map_err(|_| ApiError::internal())?,
            started_at_ms: self.runtime.wall_ms(),
            run: None,
            end: None,
        };
        let store = self.tokens.store();
        store.insert_process(stored).await?;
        if let Err(error) = store.reserve_cursor(id, RESERVED).await {
            self.unstore_process(id);
            return Err(error.into());
        }
        Ok(Some(key.tag(token, entry.name(), id)))
    }

    /// Notes what a process that was started is in its sandbox.
    pub(super) fn note_run(&self, handle: &Handle) {
        let Some(pid) = handle.look(Process::pid) else { return };
        let (store, id) = (Arc::clone(self.tokens.store()), handle.id().to_owned());
        self.runtime.spawn(Box::pin(async move {
            let run = ProcessRun { pid, daemon: String::new() };
            note(&id, store.note_process_run(&id, run).await);
        }));
    }

    /// Notes that a process has ended.
    pub(super) fn store_end(&self, background: &Background) {
        let Some(finished_at_ms) = background.finished_at_ms().filter(|_| background.is_stored()) else {
            return;
        };
        let (store, id) = (Arc::clone(self.tokens.store()), background.id().to_owned());
        let exit = exit_text(background.finish());
        self.runtime.spawn(Box::pin(async move {
            let end = ProcessEnd { finished_at_ms, exit };
            note(&id, store.note_process_end(&id, end).await.map(drop));
        }));
    }

    /// Forgets a process that is not listed any more, or was never started.
    pub(super) fn unstore_process(&self, id: &str) {
        let (store, id) = (Arc::clone(self.tokens.store()), id.to_owned());
        self.runtime.spawn(Box::pin(async move { note(&id, store.remove_process(&id).await) }));
    }

    /// Takes over what an earlier run has started in a sandbox.
    async fn take_over(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), ApiError> {
        let Some(key) = self.key.get() else { return Ok(()) };
        let store = self.tokens.store();
        let keep = i64::try_from(KEEP_ENDED.as_millis()).unwrap_or(i64::MAX);
        for stored in store.processes_in(entry.id()).await? {
            let StoredProcess { id, token, name, start, started_at_ms, run, end, .. } = stored;
            let is_old = end.as_ref().is_some_and(|end| self.runtime.wall_ms() - end.finished_at_ms >= keep);
            let call = serde_json::from_str::<Start>(&start).ok().and_then(|start| start.call(name));
            let Some((call, restarted_from)) = call.filter(|_| !is_old) else {
                self.unstore_process(&id);
                continue;
            };
            let cursor = store.cursor(&id).await?;
            let next = Cursor { offset: cursor.offset + RESERVED.offset, seq: cursor.seq + RESERVED.seq };
            store.reserve_cursor(&id, next).await?;
            let tag = key.tag(&token, entry.name(), &id);
            let end = end.map(|end| (end.finished_at_ms, exit_of(&end.exit)));
            let adoption = Adoption {
                id: id.clone(),
                tag,
                pid: run.map(|run| run.pid),
                user: None,
                process: call.spec(id, None).process,
                exit: end.map(|(_, (exit, _))| exit),
                goes_on_at: (cursor.seq, cursor.offset),
            };
            let Some(handle) = entry.sandbox().adopt(adoption) else { continue };
            let finished = end.map(|(at_ms, (_, reason))| (at_ms, reason));
            let earlier = Earlier { started_at_ms, finished, restarted_from };
            self.adopt(token, Arc::clone(entry), call, earlier, handle);
        }
        Ok(())
    }
}

/// How a process ended, for the store, and why where that is not to be seen from how: `signal 15 stopped`.
fn exit_text(finish: Option<(Exit, FinishReason)>) -> String {
    let (exit, reason) = match finish {
        Some((Exit::Code(code), reason)) => (format!("code {code}"), reason),
        Some((Exit::Signal(number), reason)) => (format!("signal {number}"), reason),
        Some((Exit::Unknown, _)) | None => return "unknown".to_owned(),
    };
    match reason {
        FinishReason::Stopped => exit + " stopped",
        FinishReason::Timeout => exit + " timeout",
        FinishReason::StartFailed => exit + " start_failed",
        FinishReason::Exited | FinishReason::Signaled | FinishReason::Lost => exit,
    }
}

fn exit_of(text: &str) -> (Exit, Option<FinishReason>) {
    let mut words = text.split(' ');
    let exit = match (words.next(), words.next()) {
        (Some("code"), Some(code)) => code.parse().ok().map(Exit::Code),
        (Some("signal"), Some(number)) => number.parse().ok().map(Exit::Signal),
        _ => None,
    };
    let reason = match words.next() {
        Some("stopped") => Some(FinishReason::Stopped),
        Some("timeout") => Some(FinishReason::Timeout),
        Some("start_failed") => Some(FinishReason::StartFailed),
        Some(_) | None => None,
    };
    (exit.unwrap_or(Exit::Unknown), reason)
}

/// What is not noted is told: after a restart the process would be looked for in vain, or by less than is known of it.
fn note(process: &str, result: Result<(), StoreError>) {
    match result {
        // It was forgotten meanwhile, or never stored.
        Ok(()) | Err(StoreError::NotFound) => {}
        Err(error) => tracing::error!(process.id = process, %error, "what became of a process is not stored"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_all_that_it_stands_for() {
        let key = Key::new(&[7; 32]).unwrap();
        let tag = key.tag("token", "box", "id");
        assert_eq!(tag, key.tag("token", "box", "id"));
        assert_eq!((tag.starts_with("hangar:id:"), tag.len()), (true, "hangar:id:".len() + 64));
        for other in [
            key.tag("tokenb", "ox", "id"),
            key.tag("toke", "nbox", "id"),
            key.tag("other", "box", "id"),
            key.tag("token", "other", "id"),
            Key::new(&[8; 32]).unwrap().tag("token", "box", "id"),
        ] {
            assert_ne!(tag, other);
        }
        assert!(Key::new(&[7; 31]).is_none());
    }

    #[test]
    fn an_end_is_read_as_it_was_written() {
        let exits = [Exit::Code(0), Exit::Code(-1), Exit::Code(255), Exit::Signal(9)];
        for exit in exits {
            for reason in [FinishReason::Stopped, FinishReason::Timeout, FinishReason::StartFailed] {
                assert_eq!(exit_of(&exit_text(Some((exit, reason)))), (exit, Some(reason)));
            }
            for seen in [FinishReason::Exited, FinishReason::Signaled] {
                assert_eq!(exit_of(&exit_text(Some((exit, seen)))), (exit, None));
            }
        }
        let lost = exit_text(Some((Exit::Unknown, FinishReason::Lost)));
        assert_eq!(exit_of(&lost), (Exit::Unknown, None));
        for other in ["", "code", "code x", "signal 300", "unknown", "other 1"] {
            assert_eq!(exit_of(other), (Exit::Unknown, None), "{other}");
        }
        // As it was written before there was a reason, and as it may be one day.
        assert_eq!(exit_of("signal 15"), (Exit::Signal(15), None));
        assert_eq!(exit_of("code 3 other"), (Exit::Code(3), None));
    }

    #[test]
    fn a_start_is_read_as_it_was_written() {
        let call = StartCall {
            command: Command::Shell("true".to_owned()),
            name: Some("name".to_owned()),
            cwd: None,
            env: BTreeMap::new(),
            tty: None,
            max_log_bytes: 7,
            stdin: true,
        };
        for from in [None, Some("01K00000000000000000000000")] {
            let text = serde_json::to_string(&Start::of(&call, from)).unwrap();
            let start: Start = serde_json::from_str(&text).unwrap();
            let (read, restarted_from) = start.call(call.name.clone()).unwrap();
            assert_eq!((format!("{read:?}"), restarted_from.as_deref()), (format!("{call:?}"), from));
        }
        // As it was written before it said that.
        let start: Start =
            serde_json::from_str(r#"{"command":"true","max_log_bytes":7,"stdin":true}"#).unwrap();
        assert_eq!(start.call(None).unwrap().1, None);
    }
}
