//! A file as the body of an answer: whole, or a part of it.

use super::{super::Body, Daemon, Refusal};
use crate::http::Connection;
use bytes::Bytes;
use hangar_backends::{
    local::{
        User,
        files::{Entry, FileError},
    },
    runtime::BoxFuture,
};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
        IF_MODIFIED_SINCE, IF_RANGE, LAST_MODIFIED, RANGE,
    },
};
use std::{
    fmt,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Bytes of one read.
const READ: usize = 256 * 1024;

/// A file, or a part of it.
pub struct FileBody {
    daemon: Arc<Daemon>,
    connection: Arc<Connection>,
    file: Arc<File>,
    at: u64,
    /// None: what there is. The files of `/proc` do not say how long they are.
    left: Option<u64>,
    /// Read already.
    first: Option<Bytes>,
    reading: Option<BoxFuture<'static, io::Result<Bytes>>>,
}

impl fmt::Debug for FileBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBody").field("at", &self.at).field("left", &self.left).finish_non_exhaustive()
    }
}

impl FileBody {
    /// Bytes that are to come, where that is known.
    pub(in super::super) const fn left(&self) -> Option<u64> {
        self.left
    }

    /// The next bytes. None at the end, and where the file has become shorter: the length in the head then says that some
    /// are missing. Where it cannot be read the connection ends without an end.
    pub(in super::super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let read = match self.first.take() {
            Some(first) => Ok(first),
            None => {
                let read = std::task::ready!(self.reading().as_mut().poll(cx));
                self.reading = None;
                read
            }
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, "a file could not be read to its end");
                // An end would say that this was all of it.
                self.connection.abort();
                return Poll::Pending;
            }
        };
        if bytes.is_empty() {
            self.left = Some(0);
            return Poll::Ready(None);
        }
        self.at += bytes.len() as u64;
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        Poll::Ready(Some(bytes))
    }

    /// The read that is under way, which begins here where none is.
    fn reading(&mut self) -> &mut BoxFuture<'static, io::Result<Bytes>> {
        let (daemon, file, at) = (&self.daemon, &self.file, self.at);
        let len = self.left.and_then(|left| usize::try_from(left).ok()).map_or(READ, |left| left.min(READ));
        self.reading.get_or_insert_with(|| {
            let (daemon, file) = (Arc::clone(daemon), Arc::clone(file));
            Box::pin(async move {
                let read = daemon.on_a_thread(move || piece(&file, at, len)).await;
                read.unwrap_or_else(|| Err(io::Error::other("the daemon is ending")))
            })
        })
    }
}

/// A piece of a file; nothing at its end.
fn piece(file: &File, at: u64, len: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; len];
    let read = loop {
        match file.read_at(&mut buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    buffer.truncate(read?);
    Ok(buffer.into())
}

/// Sends a file.
pub(super) async fn read(
    daemon: &Arc<Daemon>,
    connection: &Arc<Connection>,
    request: &Request<Incoming>,
    user: User,
    path: &str,
) -> Result<Response<Body>, Refusal> {
    let path = daemon.path("path", path, &user)?;
    let wants_body = request.method() != hyper::Method::HEAD;
    let (file, entry, first) = daemon
        .with_files(move |files| {
            let (file, entry) = files.open(&user, &path)?;
            // What has no length may have nothing to read either, which can still be said here.
            let first = (entry.size == 0 && wants_body).then(|| piece(&file, 0, READ)).transpose();
            let first = first.map_err(|error| FileError::of_read(&error, &path))?;
            Ok((file, entry, first))
        })
        .await?;
    let size = u64::try_from(entry.size).unwrap_or(0);
    let modified = modified(&entry);
    let headers = request.headers();
    let mut response = Response::new(Body::empty());
    if is_unchanged(headers, modified) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        last_modified(response.headers_mut(), modified);
        return Ok(response);
    }
    let range = match range(headers, size, modified) {
        Asked::All => None,
        Asked::Part(first, last) => Some((first, last)),
        Asked::Nothing => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            put(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(response);
        }
    };
    let (at, left) = range.map_or((0, size), |(first, last)| (first, last - first + 1));
    let left = (left > 0).then_some(left);
    if let Some((first, last)) = range {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        put(response.headers_mut(), CONTENT_RANGE, &format!("bytes {first}-{last}/{size}"));
    }
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Some(left) = left {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(left));
    }
    last_modified(headers, modified);
    if wants_body {
        let (daemon, connection, file) = (Arc::clone(daemon), Arc::clone(connection), Arc::new(file));
        let body = FileBody { daemon, connection, file, at, left, first, reading: None };
        *response.body_mut() = Body::File(Box::new(body));
    }
    Ok(response)
}

/// When it was last written, in whole seconds, as headers have it; None before 1970.
fn modified(entry: &Entry) -> Option<SystemTime> {
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(entry.modified.0).ok()?))
}

fn last_modified(headers: &mut HeaderMap, modified: Option<SystemTime>) {
    if let Some(modified) = modified {
        put(headers, LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Digits and letters.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Whether the client has it already.
fn is_unchanged(headers: &HeaderMap, modified: Option<SystemTime>) -> bool {
    date(headers, IF_MODIFIED_SINCE).zip(modified).is_some_and(|(since, modified)| modified <= since)
}

/// What is asked for of a file.
#[derive(Debug, Eq, PartialEq)]
enum Asked {
    All,
    /// From the first byte to the last.
    Part(u64, u64),
    /// What lies behind its end.
    Nothing,
}

/// The range that is asked for. Several, or one that cannot be read, are none: the whole file is always right.
fn range(headers: &HeaderMap, size: u64, modified: Option<SystemTime>) -> Asked {
    let Some(range) = headers.get(RANGE).and_then(|range| range.to_str().ok()) else { return Asked::All };
    if headers.contains_key(IF_RANGE) && date(headers, IF_RANGE) != modified {
        return Asked::All;
    }
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match (first, last) {
        ("", last) => match number(last) {
            None => Asked::All,
            Some(0) => Asked::Nothing,
            Some(_) if size == 0 => Asked::Nothing,
            Some(count) => Asked::Part(size.saturating_sub(count), size - 1),
        },
        (first, last) => match (number(first), number(last)) {
            (None, _) => Asked::All,
            (Some(_), None) if !last.is_empty() => Asked::All,
            (Some(first), Some(last)) if last < first => Asked::All,
            (Some(first), _) if first >= size => Asked::Nothing,
            (Some(first), last) => Asked::Part(first, last.unwrap_or(u64::MAX).min(size - 1)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_has_them() {
        let modified = Some(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let asked = |value: &str, size| {
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(value).unwrap())]);
            range(&headers, size, modified)
        };
        for (value, size, expected) in [
            ("bytes=0-0", 10, Asked::Part(0, 0)),
            ("bytes=2-5", 10, Asked::Part(2, 5)),
            ("bytes=2-99", 10, Asked::Part(2, 9)),
            ("bytes=9-", 10, Asked::Part(9, 9)),
            ("bytes=-3", 10, Asked::Part(7, 9)),
            ("bytes=-30", 10, Asked::Part(0, 9)),
            ("bytes=10-", 10, Asked::Nothing),
            ("bytes=-0", 10, Asked::Nothing),
            ("bytes=0-", 0, Asked::Nothing),
            ("bytes=-1", 0, Asked::Nothing),
            ("bytes=5-2", 10, Asked::All),
            ("bytes=0-1,3-4", 10, Asked::All),
            ("bytes=a-b", 10, Asked::All),
            ("bytes=--1", 10, Asked::All),
            ("bytes=", 10, Asked::All),
            ("lines=0-1", 10, Asked::All),
            ("bytes=0-99999999999999999999", 10, Asked::All),
        ] {
            assert_eq!(asked(value, size), expected, "{value} of {size}");
        }
        let with = |condition: &str| {
            let headers = [
                (RANGE, HeaderValue::from_static("bytes=1-2")),
                (IF_RANGE, HeaderValue::from_str(condition).unwrap()),
            ];
            range(&HeaderMap::from_iter(headers), 10, modified)
        };
        assert_eq!(with("Sun, 09 Sep 2001 01:46:40 GMT"), Asked::Part(1, 2));
        assert_eq!(with("Sun, 09 Sep 2001 01:46:41 GMT"), Asked::All);
        assert_eq!(with("\"etag\""), Asked::All);
    }
}
