//! What watches a directory: a server, and `inotifywait`, which is what others watch with.

use std::{fmt::Write as _, path::Path, process::Stdio};

use crate::{
    Result,
    child::bash,
    server::Server,
    source::{Source, connect},
};

/// What a server tells of, as `inotifywait` calls it.
const ALIKE: &str = "-e create,modify,attrib,delete,move,delete_self,move_self";

/// What `inotifywait` says before it tells anything.
pub const ESTABLISHED: &str = "Watches established.";

/// Whether commands find `inotifywait`.
pub fn is_installed() -> bool {
    let mut which = bash("command -v inotifywait", Path::new("/nowhere"));
    which.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The command that prints what happens in `directory`, a line each: `CREATE,ISDIR` and the like, and the path. All of
/// it, or `alike`: no more than what a server tells.
pub fn command(directory: &Path, recursive: bool, alike: bool) -> Result<String> {
    let directory = directory.to_str().ok_or("the path of a directory is not text")?.replace('\'', r"'\''");
    let recursive = if recursive { "-r" } else { "" };
    let events = if alike { ALIKE } else { "" };
    Ok(format!("exec inotifywait -m {recursive} {events} --format '%e %w%f' '{directory}' 2>&1"))
}

/// Follows the changes in `directory` by events of `server`.
pub fn stream(server: &Server, directory: &Path, recursive: bool, timeout_s: u64) -> Result<Source> {
    let request = format!(
        "GET /api/sandboxes/local/watch?path={}&recursive={recursive} HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {}\r\nAccept: text/event-stream\r\n\r\n",
        encoded(directory),
        server.service().address(),
        server.token()
    );
    Source::changes(connect(server.service().address())?, &request, timeout_s)
}

fn encoded(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/-._".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _infallible = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_byte_by_byte() {
        assert_eq!(encoded(Path::new("/tmp/a-1_2.x")), "/tmp/a-1_2.x");
        assert_eq!(encoded(Path::new("/a b&c/\u{e4}+")), "/a%20b%26c/%C3%A4%2B");
    }

    #[test]
    fn a_path_is_one_word_of_the_command() {
        let command = |recursive, alike| command(Path::new("/a'b"), recursive, alike).unwrap();
        assert_eq!(
            command(false, false).split_whitespace().collect::<Vec<_>>().join(" "),
            r"exec inotifywait -m --format '%e %w%f' '/a'\''b' 2>&1"
        );
        assert!(command(true, true).contains(" -r -e create,"));
    }
}
