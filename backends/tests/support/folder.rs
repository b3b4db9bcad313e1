//! A folder of a test, and who uses it.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of it")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use hangar_backends::local::{
    User,
    files::{Entry, FileError, Files},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// A new folder that everybody may use. It goes when this does.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::within("/tmp")
    }

    /// In memory where that is possible, for so much that a disk would take long.
    pub fn in_memory() -> Self {
        Self::within(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" })
    }

    fn within(folder: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = PathBuf::from(format!("{folder}/hangar-files-{}-{next}", process::id()));
            match fs::create_dir(&path) {
                // Of a test that was killed, and had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => break made.map(|()| path).unwrap(),
            }
        };
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    /// A path in it.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// A path in it, as errors have it.
    pub fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().into()
    }

    /// A file in it, in directories in it.
    pub fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// All names in it, and in its directories.
    pub fn names(&self) -> Vec<String> {
        names(&Files::new(None).unwrap().list(&User::current(), &self.0, 99, 9999).unwrap(), &self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Deeper than std goes.
        drop(Command::new("rm").arg("-rf").arg(&self.0).status());
    }
}

/// The paths of entries below a folder.
pub fn names(entries: &[Entry], folder: &Path) -> Vec<String> {
    let prefix = format!("{}/", folder.display());
    entries.iter().map(|entry| entry.path.strip_prefix(&prefix).unwrap().to_owned()).collect()
}

/// All files, as the user of the tests.
pub fn everything() -> (Files, User) {
    (Files::new(None).unwrap(), User::current())
}

/// Writes a whole file.
pub fn write(files: &Files, user: &User, path: &Path, content: &[u8]) -> Result<Entry, FileError> {
    let mut writing = files.create(user, path, 0o666)?;
    writing.write(content)?;
    writing.finish()
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// What the umask of the tests leaves of a mode.
pub fn unmasked(mode: u32) -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    mode & !u32::from_str_radix(umask.trim(), 8).unwrap()
}

/// Ends what others do meanwhile, also when a test fails: a scope waits for its threads.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file system of its own. None where the tests may not mount one.
pub struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    pub fn of(kind: &str, path: &'a Path, options: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, "hangar-test"]).arg(path);
        mount.output().is_ok_and(|output| output.status.success()).then(|| Self(path))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0).status());
    }
}

pub fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
