//! As whom commands run, by `/etc/passwd`. Users that only a directory service knows are out of scope.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const PASSWD: &str = "/etc/passwd";

/// A user of this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The number of the user.
    pub uid: u32,
    /// The number of the primary group. Commands have no other group when they run as another user.
    pub gid: u32,
    /// The home directory; it need not be there.
    pub home: PathBuf,
    /// The login shell, as `SHELL` has it. Commands run by `bash` whatever it is.
    pub shell: PathBuf,
}

/// Why commands cannot run as a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// `/etc/passwd` has no such user.
    #[error("there is no user {0}")]
    Unknown(String),
    /// Only root can run commands as somebody else.
    #[error("only a server that runs as root can run commands as {0}")]
    NotRoot(String),
    /// `/etc/passwd` cannot be read.
    #[error("{PASSWD}: {0}")]
    Unreadable(#[from] io::Error),
}

impl User {
    /// The user of this name, if commands of this server can run as them. Reads `/etc/passwd`.
    pub fn named(name: &str) -> Result<Self, UserError> {
        let user = find(&fs::read(PASSWD)?, |user| user.name == name);
        let user = user.ok_or_else(|| UserError::Unknown(name.into()))?;
        if user.is_current() || is_root() { Ok(user) } else { Err(UserError::NotRoot(name.into())) }
    }

    /// Who this server runs as. Reads `/etc/passwd`; a user that is not in it is named by the number and is at home
    /// in `/`.
    pub fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let found = fs::read(PASSWD).ok().and_then(|passwd| find(&passwd, |user| user.uid == uid));
        found.unwrap_or_else(|| Self {
            name: uid.to_string(),
            uid,
            gid: rustix::process::getegid().as_raw(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        })
    }

    /// Whether the server runs as them, so that nothing has to change for them.
    pub(super) fn is_current(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Whether this server runs as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn find(passwd: &[u8], wanted: impl Fn(&User) -> bool) -> Option<User> {
    String::from_utf8_lossy(passwd).lines().filter_map(parse).find(|user| wanted(user))
}

/// `name:password:uid:gid:comment:home:shell`. None for anything else: a comment, an entry of a directory service.
fn parse(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with(['+', '-', '#']))?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?;
    let shell = fields.next()?;
    if fields.next().is_some() {
        return None;
    }
    let or = |path: &str, default: &str| Path::new(if path.is_empty() { default } else { path }).to_owned();
    Some(User { name: name.into(), uid, gid, home: or(home, "/"), shell: or(shell, "/bin/sh") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_is_a_user_or_nothing() {
        let user = |name: &str, uid, gid, home: &str, shell: &str| {
            Some(User { name: name.into(), uid, gid, home: home.into(), shell: shell.into() })
        };
        for (line, expected) in [
            ("root:x:0:0:root:/root:/bin/bash", user("root", 0, 0, "/root", "/bin/bash")),
            ("a:*:1000:1001:A, B & C:/home/a:", user("a", 1000, 1001, "/home/a", "/bin/sh")),
            ("b:x:4294967295:7:::/bin/false", user("b", u32::MAX, 7, "/", "/bin/false")),
            ("", None),
            ("# a comment", None),
            ("+::::::", None),
            ("+a:x:1:1::/a:/bin/sh", None),
            (":x:0:0:root:/root:/bin/bash", None),
            ("c:x:-1:0::/:/bin/sh", None),
            ("c:x:4294967296:0::/:/bin/sh", None),
            ("c:x:1::::/bin/sh", None),
            ("c:x:1:1::/home", None),
            ("c:x:1:1::/home:/bin/sh:more", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn the_first_line_of_a_name_counts() {
        let passwd = b"bad\na:x:1:1::/one:/bin/sh\na:x:2:2::/two:/bin/sh\n\xff\xfe:x:3:3::/:/bin/sh\n";
        assert_eq!(find(passwd, |user| user.name == "a").map(|user| user.uid), Some(1));
        assert_eq!(find(passwd, |user| user.uid == 3).map(|user| user.gid), Some(3));
        assert_eq!(find(passwd, |user| user.name == "b"), None);
    }

    #[test]
    fn the_current_user_can_be_named() {
        let user = User::current();
        assert!(user.is_current());
        assert!(matches!(User::named("no such user"), Err(UserError::Unknown(_))));
    }
}
