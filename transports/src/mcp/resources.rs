//! hangar's resources: what there is to read, and to be told of when it changes.
//!
//! | URI | what |
//! | --- | --- |
//! | `hangar://sandboxes` | the sandboxes and the state of each |
//! | `hangar://sandboxes/<sandbox>/processes/<process>/output` | what a process printed last, and how it is |
//! | the same with `?since=<offset>` | what it printed from there on, as much as one answer has |
//! | `hangar://sandboxes/<sandbox>/watch?path=<directory>` | what changed below a directory, while somebody subscribes to that; with `&recursive=true` what is below its directories, too |
//! | the same with `&since=<number>` | what changed after the event of that number |

use super::{Followed, Outcome, RequestContext, not_found, plane::SERVER, tools};
use crate::{
    ApiError, Plane,
    api::{sandbox::ListView, watch::DirectoryView},
    plane::{background::Background, follow::Start, notices::Watch, watches::WatchCall},
    query::Query,
};
use hangar_core::{
    exec::Encoding,
    log::FRAME_MAX,
    wire::{
        mcp::{
            listen::{List, Topic},
            message::RpcError,
            session::Position,
            types::{Cache, cacheable},
        },
        process::GapView,
    },
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

const SCHEME: &str = "hangar://";

/// The sandboxes.
const SANDBOXES: &str = "hangar://sandboxes";

/// The longest URI, which is kept as it was written while it is followed.
const MAX_URI: usize = 1024;

/// Bytes of output in one answer. As JSON in JSON they are seven times as long at the most, which clients take.
const OUTPUT: usize = 64 * 1024;

/// Bytes that those are as text at the most, and some that are printed meanwhile.
const LAST: usize = 3 * OUTPUT + FRAME_MAX;

/// A resource, by its URI.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Resource<'a> {
    Sandboxes,
    Directory { sandbox: &'a str, call: WatchCall, since: Option<u64> },
    Output { sandbox: &'a str, process: &'a str, since: Option<u64> },
}

impl<'a> Resource<'a> {
    /// Names and ids have nothing in them that would have to be decoded; the path of a directory may.
    fn named(uri: &'a str) -> Result<Self, RpcError> {
        if uri.len() > MAX_URI {
            return Err(RpcError::invalid_params(format!("params.uri: it is longer than {MAX_URI} bytes")));
        }
        let path = uri.strip_prefix(SCHEME).ok_or_else(|| not_found(uri))?;
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            ["sandboxes"] if query.is_none() => Ok(Self::Sandboxes),
            ["sandboxes", sandbox, "processes", process, "output"] => {
                let since = Query::of(query, &["since"]).and_then(|query| query.cursor("since"));
                let since = since.map_err(|error| bad_uri(uri, &error))?;
                Ok(Self::Output { sandbox, process, since })
            }
            ["sandboxes", sandbox, "watch"] => {
                let known = ["path", "recursive", "since"];
                let directory = Query::of(query, &known)
                    .and_then(|query| Ok((WatchCall::of(&query)?, query.cursor("since")?)));
                let (call, since) = directory.map_err(|error| bad_uri(uri, &error))?;
                Ok(Self::Directory { sandbox, call, since })
            }
            _ => Err(not_found(uri)),
        }
    }
}

/// What is wrong with the parameters of a URI.
fn bad_uri(uri: &str, error: &ApiError) -> RpcError {
    RpcError::invalid_params(format!("params.uri: {uri}: {error}"))
}

/// Why a resource is not given: it is not there, or something else is wrong.
fn refused(uri: &str, error: &ApiError) -> RpcError {
    match error.code() {
        // What one may not use, one may not read either.
        "not_found" | "forbidden" => not_found(uri),
        "cursor_ahead" => bad_uri(uri, error),
        _ => super::refused(error),
    }
}

/// Why a directory is not watched.
fn unwatched(uri: &str, error: &ApiError) -> RpcError {
    match error.code() {
        // Once there is room, it may be.
        "too_many_streams" | "too_many_watches" | "shutting_down" | "unauthorized" => super::refused(error),
        "not_found" | "forbidden" => not_found(uri),
        _ => bad_uri(uri, error),
    }
}

/// The URI of what a process prints.
pub(super) fn output_uri(background: &Background) -> String {
    format!("{SANDBOXES}/{}/processes/{}/output", background.sandbox().name(), background.id())
}

/// What there is for a caller: the sandboxes, and the output of each of the caller's processes, oldest first.
pub(super) fn list(plane: &Plane, context: &RequestContext) -> Value {
    let sandboxes = json!({
        "uri": SANDBOXES, "name": "sandboxes", "title": "Sandboxes", "mimeType": "application/json",
        "description": "The sandboxes in which commands can run, and the state of each",
    });
    let mut resources = vec![sandboxes];
    for entry in plane.sandboxes().visible(&context.caller) {
        // In some that are visible, the caller may have no processes.
        let processes = plane.list_processes(&context.caller, entry.id()).unwrap_or_default();
        resources.extend(processes.iter().map(|background| {
            let name = background.call().name.clone().unwrap_or_else(|| background.id().to_owned());
            json!({
                "uri": output_uri(background), "name": format!("{}/{name}", entry.name()),
                "title": format!("Output of {}", shortened(&background.command())),
                "description": "What a background process printed last, and how it is",
                "mimeType": "application/json",
            })
        }));
    }
    resources.into()
}

/// The beginning of a command line, for a title.
fn shortened(command: &str) -> String {
    const CHARS: usize = 60;
    let line = command.lines().next().unwrap_or_default();
    let cut = line.char_indices().nth(CHARS).map_or(line.len(), |(at, _)| at);
    if cut < command.len() { format!("{}…", &line[..cut]) } else { line.to_owned() }
}

/// What there is beside that.
pub(super) fn templates() -> Value {
    json!([{
        "uriTemplate": format!("{SANDBOXES}/{{sandbox}}/processes/{{process}}/output{{?since}}"),
        "name": "output",
        "title": "Output of a process",
        "description": "What a background process printed, and how it is: from the offset since on, or the last of it. \
            `next` is the offset to go on from; where it is below `end` there is more already",
        "mimeType": "application/json",
    }, {
        "uriTemplate": format!("{SANDBOXES}/{{sandbox}}/watch{{?path,recursive,since}}"),
        "name": "watch",
        "title": "Changes below a directory",
        "description": "What changed below the directory path, absolute or relative to the one that commands start in, while \
            you subscribe to this; with recursive=true below its directories, too. `events` has the last 200, or those \
            after the event with the number since; `next` is what to pass as since. After a `gap` or an event of the type \
            overflow some are lost: list the directory again",
        "mimeType": "application/json",
    }])
}

/// Reads one.
pub(super) async fn read(plane: &Plane, context: &RequestContext, uri: &str) -> Outcome {
    let value = match Resource::named(uri)? {
        Resource::Sandboxes => json!(ListView::of(&plane.sandboxes().visible(&context.caller))),
        Resource::Directory { sandbox, call, since } => {
            directory(plane, context, sandbox, &call, since).map_err(|error| refused(uri, &error))?
        }
        Resource::Output { sandbox, process, since } => {
            let found = plane.find_process(&context.caller, sandbox, process);
            let background = found.map_err(|error| refused(uri, &error))?;
            output(plane, &background, since).await.map_err(|error| refused(uri, &error))?
        }
    };
    let contents = json!([{ "uri": uri, "mimeType": "application/json", "text": value.to_string() }]);
    Ok(cacheable(json!({ "contents": contents }), Cache::Live, &SERVER))
}

/// A process with what it printed from an offset on, or last.
async fn output(plane: &Plane, background: &Background, since: Option<u64>) -> Result<Value, ApiError> {
    // Without an offset it is the newest output that is asked for: it is read to its very end.
    let (start, max) = since.map_or((Start::Last(OUTPUT), LAST), |since| (Start::Offset(since), OUTPUT));
    // Before the output: what has ended then has printed all that is read.
    let mut view = tools::process_view(background);
    let page = plane.read_page(background, start, Encoding::Text, max, Duration::ZERO, None).await?;
    let before = since.is_none() && page.from > 0;
    let mut set = |name: &str, value: Value| view.insert(name.to_owned(), value);
    // Of a character that is not whole yet nothing is given: to come for it at once would be of no use.
    let end = background.handle().look(|process| process.log().end_offset());
    set("end", if page.truncated { end } else { page.next }.into());
    set("next", page.next.into());
    set("from", page.from.into());
    set("output", page.text.into());
    if let Some(gap) = &page.gap {
        set("gap", json!(GapView::from(gap)));
    }
    if before {
        set("truncated", true.into());
    }
    Ok(view.into())
}

/// What changed below a directory after the event of a number, or last.
fn directory(
    plane: &Plane,
    context: &RequestContext,
    sandbox: &str,
    call: &WatchCall,
    since: Option<u64>,
) -> Result<Value, ApiError> {
    let entry = plane.sandboxes().reachable(&context.caller, sandbox)?;
    Ok(match plane.watched_directory(&context.caller, &entry, call) {
        Some(watched) => json!(DirectoryView::of(watched.path(), &watched.page(since))),
        None => json!(DirectoryView::unwatched(&call.path, since, entry.made().daemon)),
    })
}

/// Follows one.
pub(super) async fn follow(
    plane: &Arc<Plane>,
    context: &RequestContext,
    topic: &Topic,
    since: Option<Position>,
) -> Result<Box<dyn Followed>, RpcError> {
    let caller = &context.caller;
    let watch = match topic {
        Topic::List(List::Resources) => plane.watch_list(caller, since),
        Topic::List(list @ (List::Tools | List::Prompts)) => {
            let message = format!("params.notifications: {} never comes", list.method());
            return Err(RpcError::invalid_params(message));
        }
        Topic::Resource(uri) => match Resource::named(uri)? {
            Resource::Sandboxes => {
                plane.watch_sandboxes(caller, since).map_err(|error| refused(uri, &error))?
            }
            Resource::Output { sandbox, process, since: offset } => {
                let watch = plane.watch_output(caller, sandbox, process, since, offset);
                watch.map_err(|error| refused(uri, &error))?
            }
            Resource::Directory { sandbox, call, since: seq } => {
                let watch = plane.watch_directory(caller, sandbox, call, since, seq).await;
                watch.map_err(|error| unwatched(uri, &error))?
            }
        },
    };
    Ok(Box::new(watch))
}

impl Followed for Watch {
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_changed(cx)
    }

    fn told(&mut self) {
        self.told();
    }

    fn position(&self) -> Position {
        self.position()
    }

    fn unfollow(&mut self) {
        self.leave_for_good();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hangar_core::wire::mcp::message::code;

    #[test]
    fn uris() {
        let output = |since| Ok(Resource::Output { sandbox: "box", process: "web", since });
        let directory = |path: &str, recursive, since| {
            let path = path.to_owned();
            let call = WatchCall { path, recursive, network: false, user: None, snapshot: false };
            Ok(Resource::Directory { sandbox: "box", call, since })
        };
        for (uri, expected) in [
            ("hangar://sandboxes", Ok(Resource::Sandboxes)),
            (
                "hangar://sandboxes/box/watch?path=a%20b&recursive=true&since=7",
                directory("a b", true, Some(7)),
            ),
            ("hangar://sandboxes/box/watch?path=/", directory("/", false, None)),
            ("hangar://sandboxes/box/processes/web/output", output(None)),
            (
                "hangar://sandboxes/box/processes/web/output?since=18446744073709551615",
                output(Some(u64::MAX)),
            ),
        ] {
            assert_eq!(Resource::named(uri), expected, "{uri}");
        }
        for (uri, is_missing) in [
            ("", true),
            ("hangar://", true),
            ("http://sandboxes", true),
            ("hangar://sandboxes/", true),
            ("hangar://sandboxes?since=1", true),
            ("hangar://sandboxes/box", true),
            ("hangar://sandboxes/box/processes/web/output/", true),
            ("hangar://sandboxes/box/processes/web/output?since=x", false),
            ("hangar://sandboxes/box/processes/web/output?from=1", false),
            ("hangar://sandboxes/box/processes/web/output?since=1&since=2", false),
            ("hangar://sandboxes/box/watch", false),
            ("hangar://sandboxes/box/watch?path=", false),
            ("hangar://sandboxes/box/watch?path=a&recursive=1", false),
            ("hangar://sandboxes/box/watch?path=a&user=root", false),
            ("hangar://sandboxes/box/watch/?path=a", true),
        ] {
            let error = Resource::named(uri).unwrap_err();
            assert_eq!((error.code, error.data.is_some()), (code::INVALID_PARAMS, is_missing), "{uri}");
            assert!(error.message.starts_with("params.uri: "), "{uri}: {error}");
        }
    }

    #[test]
    fn titles_are_short() {
        assert_eq!(shortened("npm test"), "npm test");
        assert_eq!(shortened("a\nb"), "a…");
        assert_eq!(shortened(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
    }
}
