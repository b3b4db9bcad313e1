//! Where the figures were measured.

use std::{env, fs, process::Command, thread};

use serde::Serialize;

/// The machine, the compiler and the code.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// How many of its cores we may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The compiler, by its own words.
    pub rustc: String,
    /// The commit, with `+` when something was changed since; unset outside a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The load of the last minute when the run began: what else the machine was doing.
    pub load: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(0, Into::into),
            memory_mib: memory.and_then(|m| m.strip_suffix(" kB")?.parse().ok()).unwrap_or(0_u64) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            rustc: first_line(&env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), &["--version"])
                .unwrap_or_else(unknown),
            commit: commit(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    /// One line for a table's head.
    pub fn describe(&self) -> String {
        let Self { cpu, cores, memory_mib, kernel, rustc, commit, load } = self;
        let commit = commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        format!(
            "{cpu}, {cores} cores, {:.1} GiB, Linux {kernel}, {rustc}{commit}, load {load}",
            *memory_mib as f64 / 1024.0
        )
    }
}

fn commit() -> Option<String> {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit = first_line("git", &["-C", here, "rev-parse", "--short", "HEAD"])?;
    let changed = first_line("git", &["-C", here, "status", "--porcelain"]).is_some();
    Some(if changed { format!("{commit}+") } else { commit })
}

/// The first line a program prints; `None` when it fails or prints nothing.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}
