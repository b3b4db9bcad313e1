//! From a [`Spec`] to a child of this server.

use super::{
    Shared, User, UserError,
    acting::{CannotAct, Ids, as_user},
    child,
    files::resolve,
    members::{Identity, PROCESS_ID, SANDBOX_ID, Stat},
    pty::{self, Pty},
    reaper,
};
use crate::{
    open_files,
    sandbox::{Command, Exhausted, Spec, StartError},
};
use hangar_core::{log::Channel, process::StartFailure};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    ffi::{CString, OsStr},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
    sync::{Arc, OnceLock},
};

/// Where commands look for programs. A login shell's profile may say otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The language of every command: whatever the server's is, the output is UTF-8 and messages are as documented.
const LANG: &str = "C.UTF-8";

/// A child that runs, and our ends of its pipes or of its terminal.
pub(super) struct Started {
    pub(super) leader: Identity,
    pub(super) session: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: Vec<(Channel, OwnedFd)>,
    /// Our side of its terminal.
    pub(super) tty: Option<OwnedFd>,
}

/// Why there is no child.
pub(super) enum NotStarted {
    /// The command is at fault: it becomes a process that has ended.
    Process(StartFailure),
    /// Nothing was started.
    Error(StartError),
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        Self::Error(error)
    }
}

/// Starts the command of `spec`, and enters it in the table. Blocks until the program was loaded.
pub(super) fn spawn(shared: &Arc<Shared>, spec: &Spec) -> Result<Started, NotStarted> {
    let user = find_user(shared, spec)?;
    // What they may not see is not there.
    let looked = as_user(&user, || {
        let directory = directory(shared, spec, &user)?;
        command(spec, &directory).map(|command| (directory, command))
    });
    let (directory, mut command) = looked.map_err(|CannotAct| cannot_run_as(&user))??;
    command.env_clear().envs([
        ("PATH", OsStr::new(PATH)),
        ("HOME", user.home.as_os_str()),
        ("USER", OsStr::new(&user.name)),
        ("LOGNAME", OsStr::new(&user.name)),
        ("SHELL", user.shell.as_os_str()),
        ("LANG", OsStr::new(LANG)),
    ]);
    if spec.process.tty.is_some() {
        command.env("TERM", pty::TERM);
    }
    command.envs(&spec.env).env(PROCESS_ID, &spec.id).env(SANDBOX_ID, &shared.sandbox_id);
    let ours = connect(&mut command, spec, &user).map_err(|error| start_error(&error))?;
    if let Some(limit) = open_files::for_commands() {
        child::limit_open_files(&mut command, limit);
    }
    if user.is_current() {
        command.current_dir(&directory);
    } else {
        let ids = Ids::of(&user).ok_or_else(|| cannot_run_as(&user))?;
        let directory = CString::new(directory.as_os_str().as_bytes());
        child::become_user(&mut command, ids, directory.map_err(|error| bad_cwd(spec, &error.to_string()))?);
    }
    let spawned = reaper::spawn(|| {
        let child = command.spawn()?;
        Ok((Pid::from_child(&child).as_raw_pid(), child))
    });
    // It holds the command's side of a terminal, whose end is not seen while that is open here.
    drop(command);
    let child = spawned.map_err(|error| not_started(&error, spec, &user, &directory))?;
    let started = started(child, ours, spec.stdin.is_some())?;
    if let Some(entry) = shared.lock().processes.get_mut(&spec.id) {
        entry.leader = Some(started.leader);
    }
    Ok(started)
}

/// Gives the command pipes in a process group of its own, or a terminal in a session of its own: then this is our side
/// of it.
fn connect(command: &mut process::Command, spec: &Spec, user: &User) -> io::Result<Option<OwnedFd>> {
    let Some(size) = spec.process.tty else {
        command.stdin(if spec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if pty::has_terminal() {
            // Or it would reach for the server's terminal, and be stopped for that.
            child::lead_session(command);
        } else {
            command.process_group(0);
        }
        return Ok(None);
    };
    let Pty { ours, theirs } = Pty::open(size, user)?;
    command.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
    child::lead_session_on_stdin(command);
    Ok(Some(ours))
}

fn find_user(shared: &Shared, spec: &Spec) -> Result<User, StartError> {
    match &spec.user {
        Some(name) if *name != shared.user.name => {
            if shared.is_fixed_user {
                let error = format!("commands of this sandbox run as {}", shared.user.name);
                return Err(StartError::ForbiddenUser(error));
            }
            User::named(name).map_err(|error| match error {
                UserError::Unreadable(error) | UserError::UnreadableGroups(error) => start_error(&error),
                UserError::Unknown(_) => StartError::BadUser(error.to_string()),
                UserError::NotRoot(_) => StartError::ForbiddenUser(error.to_string()),
            })
        }
        Some(_) | None => Ok(shared.user.clone()),
    }
}

/// Where the command runs: it is there, and is a directory.
fn directory(shared: &Shared, spec: &Spec, user: &User) -> Result<PathBuf, StartError> {
    let default = match &shared.directory {
        Some(directory) => directory,
        None if user.home.is_dir() => &user.home,
        None => Path::new("/"),
    };
    let directory = match &spec.cwd {
        None => default.to_owned(),
        Some(cwd) if cwd.starts_with('~') => {
            resolve(cwd, user, None).map_err(|error| StartError::BadCwd(error.to_string()))?
        }
        Some(cwd) => default.join(cwd),
    };
    match fs::metadata(&directory) {
        Ok(metadata) if metadata.is_dir() => Ok(directory),
        Ok(_) => Err(bad_cwd(spec, "not a directory")),
        Err(error) => Err(match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => bad_cwd(spec, "no such directory"),
            Some(Errno::NOTDIR) => bad_cwd(spec, "not a directory"),
            Some(Errno::ACCESS) => bad_cwd(spec, "permission denied"),
            Some(_) | None => bad_cwd(spec, &error.to_string()),
        }),
    }
}

fn cannot_run_as(user: &User) -> StartError {
    StartError::ForbiddenUser(format!("commands cannot run as {}", user.name))
}

fn bad_cwd(spec: &Spec, what: &str) -> StartError {
    // The path of the sandbox itself is not for the client to see.
    StartError::BadCwd(format!("{}: {what}", spec.cwd.as_deref().unwrap_or("the sandbox's own directory")))
}

fn command(spec: &Spec, directory: &Path) -> Result<process::Command, NotStarted> {
    match &spec.command {
        Command::Shell(line) => {
            let mut command = process::Command::new(shell());
            // The line may begin with a `-`.
            command.args(["-lc", "--"]).arg(line);
            Ok(command)
        }
        Command::Argv(argv) => {
            let Some((program, arguments)) = argv.split_first() else {
                return Err(failure(127, "", "command not found"));
            };
            let path = spec.env.get("PATH").map_or(PATH, |path| path);
            let found = find_program(program, path, directory);
            let mut command =
                process::Command::new(found.ok_or_else(|| failure(127, program, "command not found"))?);
            command.arg0(program).args(arguments);
            Ok(command)
        }
    }
}

/// `bash`, or `sh` where there is none.
fn shell() -> &'static Path {
    static SHELL: OnceLock<PathBuf> = OnceLock::new();
    SHELL.get_or_init(|| {
        let found = |name| find_program(name, PATH, Path::new("/")).filter(|path| is_executable(path));
        found("bash").or_else(|| found("sh")).unwrap_or_else(|| "/bin/sh".into())
    })
}

/// Looks for a program as a shell does: the first that can be run, or else the first that cannot.
fn find_program(program: &str, path: &str, directory: &Path) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        return Some(program.into());
    }
    let files = || path.split(':').map(|folder| directory.join(folder).join(program));
    files().find(|file| is_executable(file)).or_else(|| files().find(|file| file.is_file()))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The rest of what is needed of a new child. Without it, the child is ended at once.
fn started(mut child: Child, tty: Option<OwnedFd>, has_stdin: bool) -> Result<Started, StartError> {
    let pid = Pid::from_child(&child);
    let copy = |wanted: bool| tty.as_ref().filter(|_| wanted).map(OwnedFd::try_clone).transpose();
    let copies = copy(true).and_then(|output| Ok((output, copy(has_stdin)?)));
    let known = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).and_then(|pidfd| {
        match Stat::of(pid.as_raw_pid()) {
            Ok(stat) => Ok((pidfd, stat.identity, stat.session)),
            // Without /proc nobody is looked for by these.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((pidfd, Identity { pid: pid.as_raw_pid(), start_time: 0 }, 0))
            }
            Err(error) => Err(error),
        }
    });
    let known = known.and_then(|known| Ok((known, copies?)));
    let ((pidfd, leader, session), (tty_output, tty_input)) = known.map_err(|error| {
        reaper::end_leader(pid.as_raw_pid());
        start_error(&error)
    })?;
    open_files::opened(u64::try_from(pidfd.as_raw_fd()).unwrap_or_default());
    let stdout = child.stdout.take().map(|pipe| (Channel::Stdout, pipe.into()));
    let stderr = child.stderr.take().map(|pipe| (Channel::Stderr, pipe.into()));
    let on_tty = tty_output.map(|output| (Channel::Tty, output));
    let outputs = stdout.into_iter().chain(stderr).chain(on_tty).collect();
    let stdin = child.stdin.take().map(OwnedFd::from).or(tty_input);
    Ok(Started { leader, session, pidfd, stdin, outputs, tty })
}

fn not_started(error: &io::Error, spec: &Spec, user: &User, directory: &Path) -> NotStarted {
    let program = match &spec.command {
        Command::Shell(_) => shell().to_str().unwrap_or("sh"),
        Command::Argv(argv) => argv.first().map_or("", |program| program),
    };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM | Errno::NOSPC) => {
            start_error(error).into()
        }
        Some(Errno::TOOBIG) => StartError::TooLong { field: spec.longest() }.into(),
        Some(Errno::ACCESS) if !can_enter(directory, user) => bad_cwd(spec, "permission denied").into(),
        Some(Errno::PERM) if !user.is_current() => cannot_run_as(user).into(),
        Some(Errno::NOENT) => failure(127, program, "No such file or directory"),
        Some(Errno::ACCESS | Errno::PERM) => failure(126, program, "Permission denied"),
        Some(Errno::NOEXEC) => failure(126, program, "cannot execute: Exec format error"),
        Some(Errno::NOTDIR) => failure(126, program, "Not a directory"),
        // Also what was refused before the system was asked: a NUL.
        Some(_) | None => failure(126, program, &error.to_string()),
    }
}

fn failure(code: i32, program: &str, what: &str) -> NotStarted {
    NotStarted::Process(StartFailure { code, message: format!("{program}: {what}") })
}

/// What the system refused although the command is not at fault.
pub(super) fn start_error(error: &io::Error) -> StartError {
    let exhausted = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE | Errno::NFILE) => Exhausted::Descriptors,
        Some(Errno::AGAIN) => Exhausted::Processes,
        Some(Errno::NOMEM) => Exhausted::Memory,
        Some(Errno::NOSPC) => Exhausted::Disk,
        Some(_) | None => return StartError::Broken(error.to_string()),
    };
    StartError::Exhausted(exhausted)
}

/// Whether the user may go into the directory.
fn can_enter(directory: &Path, user: &User) -> bool {
    // To look for anything in it, also for itself, takes the permission to enter it.
    as_user(user, || fs::metadata(directory.join("."))).is_ok_and(|found| found.is_ok())
}
