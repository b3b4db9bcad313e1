//! What a provider offers by itself, with no daemon of ours in its sandboxes.

use super::held::Held;
use crate::{
    runtime::BoxFuture,
    sandbox::{Command, SandboxError, StartError},
};
use bytes::Bytes;
use hangar_core::process::Exit;
use std::collections::BTreeMap;

/// A sandbox in which commands can be run, and nothing is told of them before they have ended.
pub trait Provider: Send + Sync + 'static {
    /// Starts a command. An error means that it was not started; one that cannot be run ends with 126 or 127.
    fn exec(&self, call: Call) -> BoxFuture<'_, Result<Running, StartError>>;

    /// Whether a command can run as a user of the caller's choice.
    fn has_users(&self) -> bool;

    /// Whether commands end with this server; what they have detached does not.
    fn ends_with_server(&self) -> bool;

    /// Ends the sandbox, with everything in it.
    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>>;
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it has as `HANGAR_PROCESS_ID` in its environment: no two that run have the same.
    pub id: String,
    /// What to run.
    pub command: Command,
    /// Where; the sandbox's own default without it.
    pub cwd: Option<String>,
    /// Variables beyond the ones that the sandbox sets.
    pub env: BTreeMap<String, String>,
    /// As whom; the sandbox's own user without it.
    pub user: Option<String>,
    /// What it reads; without it its standard input is at its end.
    pub stdin: Option<Bytes>,
}

/// A command that runs, until it has ended. It may run on where this is dropped.
pub type Running = BoxFuture<'static, Ran>;

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// The end of what it printed.
    pub output: Held,
    /// Somebody still held its output open when the time to wait for that was over.
    pub drain_timed_out: bool,
}
