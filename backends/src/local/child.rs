//! What a child does of its own between the fork and its program.
//!
//! All that it needs is collected before the fork: in the child of a server with threads nothing may be allocated, and
//! no lock be taken.

use super::acting::Ids;
use rustix::{
    process::{Resource, Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};
use std::{ffi::CString, io, os::unix::process::CommandExt, process::Command};

/// Gives the command a session of its own, whose terminal is its standard input.
pub(super) fn lead_session_on_stdin(command: &mut Command) {
    before_exec(command, || {
        setsid()?;
        Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
    });
}

/// Gives the command a session of its own, without a terminal.
pub(super) fn lead_session(command: &mut Command) {
    before_exec(command, || Ok(setsid().map(drop)?));
}

/// Gives the command this limit of open files.
pub(super) fn limit_open_files(command: &mut Command, limit: Rlimit) {
    before_exec(command, move || Ok(setrlimit(Resource::Nofile, limit)?));
}

/// Makes the command another user, with exactly their groups, and takes it to its directory. The last thing it does:
/// it has no rights of the server's after that, and enters the directory as the user.
pub(super) fn become_user(command: &mut Command, ids: Ids, directory: CString) {
    // The child has one thread, so what changes a thread changes all of it; as root it is the real and the saved id, too.
    before_exec(command, move || {
        set_thread_groups(&ids.groups)?;
        set_thread_gid(ids.gid)?;
        set_thread_uid(ids.uid)?;
        Ok(chdir(directory.as_c_str())?)
    });
}

#[expect(unsafe_code, reason = "there is no other way to a session and to groups of one's own")]
fn before_exec(command: &mut Command, run: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: `run` is called in the child, where only what is safe in a signal handler may be done: the functions
    // above make system calls through rustix, and do nothing else: no memory, no lock, no other file.
    unsafe { command.pre_exec(run) };
}
