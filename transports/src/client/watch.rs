//! A directory that a server watches.

use super::{Client, ClientError, MAX_EVENT, refusal};
use hangar_backends::{Runtime, net::url::segment, runtime::until};
use hangar_core::wire::{
    sse::{Decoder, Event},
    watch::{EventView, GapView, ReadyView, UnwatchedView},
};
use http_body_util::BodyExt;
use hyper::{Method, StatusCode, body::Incoming, header::ACCEPT};
use serde::{Deserialize, de::DeserializeOwned};
use std::{io, sync::Arc, time::Duration};

/// A server sends something every 15 s; one that is silent for so long is not there any more.
const SILENCE: Duration = Duration::from_secs(45);

/// A directory for a server to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    /// Absolute, or relative to the one that commands start in.
    pub path: String,
    /// What is below it, too.
    pub recursive: bool,
    /// What is there already is told as if it had just been created.
    pub snapshot: bool,
    /// Also on network and FUSE file systems.
    pub network: bool,
    /// As whom it is read.
    pub user: Option<String>,
}

/// The stream of a directory that is watched.
pub struct RemoteWatch {
    runtime: Arc<dyn Runtime>,
    body: Incoming,
    decoder: Decoder,
}

/// What it tells.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WatchEvent {
    /// A change.
    Change {
        /// What it is.
        view: EventView<'static>,
        /// The same as the server wrote it, in JSON.
        json: String,
    },
    /// Everything up to here is told.
    Ready(ReadyView<'static>),
    /// Changes are gone.
    Gap(GapView<'static>),
    /// Nothing is told of what is below a directory.
    Unwatched(UnwatchedView<'static>),
    /// What became of the directory: nothing follows.
    End {
        /// `removed`, `moved`, `unmounted` or another word.
        reason: String,
    },
    /// Why the server ended the stream: nothing follows.
    Close {
        /// The reason.
        reason: String,
        /// More of that.
        message: Option<String>,
    },
}

#[derive(Deserialize)]
struct Last {
    reason: String,
    message: Option<String>,
}

impl WatchRequest {
    fn query(&self, since: Option<u64>) -> String {
        let mut query = format!("path={}", segment(&self.path));
        let flags = [("recursive", self.recursive), ("snapshot", self.snapshot), ("network", self.network)];
        for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
            query += &format!("&{name}=true");
        }
        if let Some(user) = &self.user {
            query += &format!("&user={}", segment(user));
        }
        if let Some(since) = since {
            query += &format!("&since={since}");
        }
        query
    }
}

impl Client {
    /// Watches a directory, from now on or behind the event of the number `since`.
    pub async fn watch(
        &self,
        sandbox: &str,
        request: &WatchRequest,
        since: Option<u64>,
    ) -> Result<RemoteWatch, ClientError> {
        let path = format!("/api/sandboxes/{}/watch?{}", segment(sandbox), request.query(since));
        let request = self.request(Method::GET, &path)?.header(ACCEPT, "text/event-stream");
        let response = self.send(request, None).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await?);
        }
        let (runtime, decoder) = (Arc::clone(&self.runtime), Decoder::new(MAX_EVENT));
        Ok(RemoteWatch { runtime, body: response.into_body(), decoder })
    }
}

impl std::fmt::Debug for RemoteWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteWatch").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl RemoteWatch {
    /// What it tells next.
    pub async fn next(&mut self) -> Result<WatchEvent, ClientError> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                if let Some(event) = typed(event)? {
                    return Ok(event);
                }
            }
            let at = self.runtime.now() + SILENCE;
            let frame = until(&*self.runtime, at, self.body.frame()).await;
            let lost = |kind: io::ErrorKind, what: &str| ClientError::Lost(io::Error::new(kind, what));
            let frame = frame.ok_or_else(|| lost(io::ErrorKind::TimedOut, "the server has gone silent"))?;
            let frame = frame.ok_or_else(|| lost(io::ErrorKind::UnexpectedEof, "the stream was cut"))??;
            if let Ok(data) = frame.into_data() {
                self.decoder.push(&data)?;
            }
        }
    }
}

/// What an event says; None for one that this client does not know.
fn typed(event: Event) -> Result<Option<WatchEvent>, ClientError> {
    Ok(Some(match event.name.as_str() {
        "message" => WatchEvent::Change { view: parse(&event.data)?, json: event.data },
        "ready" => WatchEvent::Ready(parse(&event.data)?),
        "gap" => WatchEvent::Gap(parse(&event.data)?),
        "unwatched" => WatchEvent::Unwatched(parse(&event.data)?),
        "end" => WatchEvent::End { reason: parse::<Last>(&event.data)?.reason },
        "close" => {
            let Last { reason, message } = parse(&event.data)?;
            WatchEvent::Close { reason, message }
        }
        _ => return Ok(None),
    }))
}

fn parse<T: DeserializeOwned>(data: &str) -> Result<T, ClientError> {
    serde_json::from_str(data).map_err(|error| ClientError::Unexpected(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_what_is_asked_for() {
        let request = WatchRequest { path: "/a b+c".to_owned(), ..WatchRequest::default() };
        assert_eq!(request.query(None), "path=%2Fa%20b%2Bc");
        let request = WatchRequest { recursive: true, snapshot: true, network: true, ..request };
        let request = WatchRequest { user: Some("x&y".to_owned()), ..request };
        let query = "path=%2Fa%20b%2Bc&recursive=true&snapshot=true&network=true&user=x%26y&since=7";
        assert_eq!(request.query(Some(7)), query);
    }
}
