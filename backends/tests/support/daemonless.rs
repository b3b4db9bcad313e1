//! A sandbox without a daemon, and what a process in it has printed.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

use super::{
    folder::Folder,
    support::{TestRuntime, kept, sandbox, shell, wait_until},
};
use hangar_backends::{
    Handle,
    daemonless::{
        DaemonlessSandbox,
        local::LocalProvider,
        provider::{Call, Provider, Running},
    },
    runtime::BoxFuture,
    sandbox::{Command, SandboxError, Spec, StartError},
};
use hangar_core::{
    log::{Item, Reader},
    process::{Exit, Process},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// This machine, where the scripts are run by a shell of the test's choice and leave what they leave in a folder.
pub(crate) struct Shell {
    local: LocalProvider,
    /// Where its programs are.
    path: String,
    pub(crate) home: Folder,
    number: u32,
}

impl Shell {
    /// With the programs of `path`, of which `sh` is this program.
    pub(crate) fn new(program: &Path, path: &str) -> Arc<Self> {
        let home = Folder::new();
        let programs = home.0.join("programs");
        fs::create_dir(&programs).unwrap();
        symlink(program, programs.join("sh")).unwrap();
        let path = format!("{}:{path}", programs.display());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { local: LocalProvider::new(sandbox()), path, home, number })
    }

    /// The one of the machine.
    pub(crate) fn own() -> Arc<Self> {
        Self::new(Path::new("/bin/sh"), "/usr/bin:/bin")
    }

    pub(crate) fn sandbox(self: &Arc<Self>) -> DaemonlessSandbox {
        DaemonlessSandbox::new(TestRuntime::shared(), Arc::clone(self) as _)
    }

    /// A command line that no other shell's processes have.
    pub(crate) fn sleep(&self, seconds: u32) -> String {
        format!("sleep {seconds}{}.PID", self.number)
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.home.0.join(".hangar/bg")
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.files()).map(|files| files.collect::<Vec<_>>()).unwrap_or_default();
        let mut names: Vec<_> =
            entries.into_iter().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Provider for Shell {
    fn exec(&self, mut call: Call) -> BoxFuture<'_, Result<Running, StartError>> {
        call.env.insert("HOME".to_owned(), self.home.0.to_str().unwrap().to_owned());
        call.env.insert("PATH".to_owned(), self.path.clone());
        if let Command::Argv(argv) = &mut call.command
            && argv[0] == "/bin/sh"
        {
            "sh".clone_into(&mut argv[0]);
        }
        self.local.exec(call)
    }

    fn has_users(&self) -> bool {
        self.local.has_users()
    }

    fn ends_with_server(&self) -> bool {
        true
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        self.local.destroy()
    }
}

/// A line for a process, which is kept.
pub(crate) fn line(line: &str) -> Spec {
    kept(Spec { env: std::collections::BTreeMap::new(), ..shell(line) })
}

/// The text that a process has printed, as far as it is kept.
pub(crate) fn printed(handle: &Arc<Handle>) -> String {
    let mut all = Vec::new();
    handle.command(|process| {
        let mut reader = Reader::oldest_kept(process.log());
        while let Some(item) = reader.take(process.log_mut()) {
            if let Item::Frame(frame) = item {
                all.extend_from_slice(&frame.data);
            }
        }
    });
    String::from_utf8(all).unwrap()
}

pub(crate) fn wait_for(handle: &Arc<Handle>, text: &str) {
    // Whoever reads it has it looked after more often.
    let _reading = handle.reader();
    wait_until(text, || printed(handle).contains(text));
}

pub(crate) fn wait_for_end(handle: &Arc<Handle>) -> Exit {
    let _reading = handle.reader();
    wait_until("it has ended", || handle.look(Process::is_over));
    handle.look(Process::exit_status).unwrap()
}
