//! What the client of a command is told in the end.

use super::Encoding;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The one result of a command, however it ended. In JSON an unset field is left out, but `exit_code` is always there.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ExecResult {
    /// What it returned. None (JSON null) when a signal ended it, when it still runs, or when nobody knows.
    pub exit_code: Option<i32>,
    /// The signal that ended it: `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Cow<'static, str>>,
    /// The end of its standard output, in `encoding`.
    pub stdout: String,
    /// The end of its standard error, in `encoding`.
    pub stderr: String,
    /// How `stdout` and `stderr` are written: text where it is left out.
    #[serde(default, skip_serializing_if = "is_text")]
    pub encoding: Encoding,
    /// Whether its output was sent while it ran.
    pub streamed: bool,
    /// From the call to this result, in milliseconds.
    pub duration_ms: u64,
    /// Its timeout ended it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub timed_out: bool,
    /// Why the stream ended before the command did, or without knowing how it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Cow<'static, str>>,
    /// What broke, where `closed` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ExecError>,
    /// There was more standard output than `stdout` has.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stdout_truncated: bool,
    /// There was more standard error than `stderr` has.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stderr_truncated: bool,
    /// The stream's byte cap left output out; or, of a command whose output comes in one piece, its beginning was not kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub output_capped: bool,
    /// Somebody still held the output open when the time to wait for that was over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drain_timed_out: bool,
}

/// What broke.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ExecError {
    /// For a program.
    pub code: Cow<'static, str>,
    /// For a person.
    pub message: Cow<'static, str>,
}

impl ExecError {
    /// The sandbox's side broke.
    pub(super) const fn lost() -> Self {
        Self {
            code: Cow::Borrowed("process_lost"),
            message: Cow::Borrowed("the sandbox lost the command: how it ended is not known"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_text(encoding: &Encoding) -> bool {
    *encoding == Encoding::Text
}
