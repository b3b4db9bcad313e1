//! As whom commands run, by `/etc/passwd` and `/etc/group`. Users and groups that only a directory service knows are
//! out of scope.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// As many groups as the system takes of anybody (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

/// A user of this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The number of the user.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    /// The numbers of all their groups, each once: the primary one, then those of `/etc/group` that list the name. At
    /// most 65,536, as many as the system takes; what is beyond that is left out. Commands that run as another user
    /// than the server have exactly these.
    pub groups: Vec<u32>,
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
    /// `/etc/group` is there and cannot be read.
    #[error("{GROUP}: {0}")]
    UnreadableGroups(io::Error),
}

impl User {
    /// The user of this name, if commands of this server can run as them. Reads `/etc/passwd` and `/etc/group`; where
    /// there is no `/etc/group` they have their primary group alone.
    pub fn named(name: &str) -> Result<Self, UserError> {
        let user = find(&fs::read(PASSWD)?, |user| user.name == name);
        let mut user = user.ok_or_else(|| UserError::Unknown(name.into()))?;
        if !user.is_current() && !is_root() {
            return Err(UserError::NotRoot(name.into()));
        }
        match fs::read(GROUP) {
            Ok(group) => user.groups = groups(&group, name, user.gid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(UserError::UnreadableGroups(error)),
        }
        Ok(user)
    }

    /// Who this server runs as. Reads `/etc/passwd` and `/etc/group`; a user that is not there is named by the number
    /// and is at home in `/`.
    pub fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let found = fs::read(PASSWD).ok().and_then(|passwd| find(&passwd, |user| user.uid == uid));
        let mut user = found.unwrap_or_else(|| {
            let gid = rustix::process::getegid().as_raw();
            Self {
                name: uid.to_string(),
                uid,
                gid,
                groups: vec![gid],
                home: "/".into(),
                shell: "/bin/sh".into(),
            }
        });
        if let Ok(group) = fs::read(GROUP) {
            user.groups = groups(&group, &user.name, user.gid);
        }
        user
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

/// The names of users and groups by their numbers, as `/etc/passwd` and `/etc/group` had them when they were read.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Names {
    /// Reads both files; what cannot be read has no names.
    pub(super) fn read() -> Self {
        Self::parse(&fs::read(PASSWD).unwrap_or_default(), &fs::read(GROUP).unwrap_or_default())
    }

    fn parse(passwd: &[u8], group: &[u8]) -> Self {
        let mut names = Self::default();
        for user in String::from_utf8_lossy(passwd).lines().filter_map(parse) {
            names.users.entry(user.uid).or_insert(user.name);
        }
        for group in String::from_utf8_lossy(group).lines().filter_map(parse_group) {
            names.groups.entry(group.gid).or_insert_with(|| group.name.into());
        }
        names
    }

    /// The name of a user, or the number.
    pub(super) fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The name of a group, or the number.
    pub(super) fn group(&self, gid: u32) -> String {
        self.groups.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
    }
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
    let (home, shell) = (or(home, "/"), or(shell, "/bin/sh"));
    Some(User { name: name.into(), uid, gid, groups: vec![gid], home, shell })
}

/// A line of `/etc/group`.
struct Group<'a> {
    name: &'a str,
    gid: u32,
    /// Separated by commas.
    members: &'a str,
}

/// `name:password:gid:members`. None for anything else.
fn parse_group(line: &str) -> Option<Group<'_>> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with(['+', '-', '#']))?;
    let gid = fields.nth(1)?.parse().ok()?;
    let members = fields.next()?;
    if fields.next().is_some() { None } else { Some(Group { name, gid, members }) }
}

/// The groups of a user: the primary one, then each that lists them, in the order of the file.
fn groups(group: &[u8], name: &str, primary: u32) -> Vec<u32> {
    let text = String::from_utf8_lossy(group);
    let listing = text.lines().filter_map(parse_group);
    let listing = listing.filter(|group| group.members.split(',').any(|member| member == name));
    let mut seen = BTreeSet::new();
    let all = std::iter::once(primary).chain(listing.map(|group| group.gid));
    all.filter(|gid| seen.insert(*gid)).take(MAX_GROUPS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_is_a_user_or_nothing() {
        let user = |name: &str, uid, gid, home: &str, shell: &str| {
            let (home, shell) = (home.into(), shell.into());
            Some(User { name: name.into(), uid, gid, groups: vec![gid], home, shell })
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
    fn the_groups_of_a_user_are_the_primary_one_and_those_that_list_them() {
        let group =
            b"root:x:0:\nbad\na:x:10:bob,ann\nb:x:11:ann\n# c:x:12:ann\n+:::\nd:x:13:xann,annx, ann\n\
            e:x:10:ann\nf:x:5:ann\ng:x:-1:ann\nh:x:14:ann:more\n\xff:x:15:,ann\ni:*:16:ann,ann\nj:x:17";
        assert_eq!(groups(group, "ann", 5), [5, 10, 11, 15, 16]);
        assert_eq!(groups(group, "bob", 10), [10]);
        // An empty place in a list is nobody.
        assert_eq!(groups(group, "nobody", 65_534), [65_534]);
        assert_eq!(groups(b"", "ann", 1), [1]);
    }

    #[test]
    fn no_more_groups_than_the_system_takes() {
        let group: String = (1..=70_000).map(|gid| format!("g{gid}:x:{gid}:ann\n")).collect();
        let groups = groups(group.as_bytes(), "ann", 0);
        assert_eq!((groups.len(), groups.first(), groups.last()), (65_536, Some(&0), Some(&65_535)));
    }

    #[test]
    fn numbers_have_the_first_name_or_none() {
        let names = Names::parse(b"a:x:1:1::/:\nb:x:1:1::/:\n", b"g:x:2:\nh:x:2:a\n");
        assert_eq!((names.user(1), names.user(2)), ("a".into(), "2".into()));
        assert_eq!((names.group(2), names.group(1)), ("g".into(), "1".into()));
    }

    #[test]
    fn the_current_user_can_be_named() {
        let user = User::current();
        assert!(user.is_current());
        assert_eq!(user.groups.first(), Some(&user.gid));
        assert!(matches!(User::named("no such user"), Err(UserError::Unknown(_))));
    }
}
