//! From what a client writes to an absolute path. Nothing is looked up here.

use super::super::User;
use std::path::{Component, Path, PathBuf};

/// Why what a client wrote is no path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadPath {
    /// There is a NUL in it.
    #[error("the path has a NUL in it")]
    Nul,
    /// `~name`: only the own home has a short form. The path is in it.
    #[error("{0}: the home of another user has no short form")]
    OtherHome(String),
}

/// The absolute path that a client means: an absolute one is itself, `~` and what begins with `~/` is in the home of
/// `user`, and any other is below `default`, or below the home where there is none. An empty one is that directory. A
/// `default` that is relative is below the home.
///
/// `.`, doubled slashes and `..` are taken out of the text: `a/link/../b` is `a/b`, wherever the link leads.
pub fn resolve(path: &str, user: &User, default: Option<&Path>) -> Result<PathBuf, BadPath> {
    if path.contains('\0') {
        return Err(BadPath::Nul);
    }
    let within = match path.strip_prefix('~') {
        None => user.home.join(default.unwrap_or_else(|| "".as_ref())).join(path),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            user.home.join(rest.trim_start_matches('/'))
        }
        Some(_) => return Err(BadPath::OtherHome(path.into())),
    };
    Ok(clean(&within))
}

/// The path without `.`, `..` and doubled slashes, from the root: a relative one is below it.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { home: "/home/ann".into(), ..User::current() }
    }

    #[test]
    fn a_path_is_absolute_or_below_the_home_or_the_default() {
        for (path, without, with) in [
            ("/a/b", "/a/b", "/a/b"),
            ("/", "/", "/"),
            ("//a///b/", "/a/b", "/a/b"),
            ("/a/./b/.", "/a/b", "/a/b"),
            ("/a/../b", "/b", "/b"),
            ("/../../a", "/a", "/a"),
            ("/a/b/../../../c", "/c", "/c"),
            ("~", "/home/ann", "/home/ann"),
            ("~/", "/home/ann", "/home/ann"),
            ("~/x", "/home/ann/x", "/home/ann/x"),
            ("~//x", "/home/ann/x", "/home/ann/x"),
            ("~/../bob", "/home/bob", "/home/bob"),
            ("", "/home/ann", "/srv"),
            (".", "/home/ann", "/srv"),
            ("x", "/home/ann/x", "/srv/x"),
            ("x/../y", "/home/ann/y", "/srv/y"),
            ("../x", "/home/x", "/x"),
            ("./~bob", "/home/ann/~bob", "/srv/~bob"),
            ("x~", "/home/ann/x~", "/srv/x~"),
            ("...", "/home/ann/...", "/srv/..."),
        ] {
            assert_eq!(resolve(path, &user(), None), Ok(without.into()), "{path}");
            assert_eq!(resolve(path, &user(), Some("/srv".as_ref())), Ok(with.into()), "{path}");
        }
        assert_eq!(resolve("x", &user(), Some("srv".as_ref())), Ok("/home/ann/srv/x".into()));
    }

    #[test]
    fn another_home_and_a_nul_are_refused() {
        for path in ["~bob", "~bob/x", "~~", "~.", "~\\x"] {
            assert_eq!(resolve(path, &user(), None), Err(BadPath::OtherHome(path.into())));
        }
        for path in ["\0", "/a\0b", "~bob\0"] {
            assert_eq!(resolve(path, &user(), None), Err(BadPath::Nul));
        }
        let error = BadPath::OtherHome("~bob".into());
        assert_eq!(error.to_string(), "~bob: the home of another user has no short form");
    }
}
