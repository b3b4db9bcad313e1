//! What the daemon says of a directory that it watches.

use super::{
    cell::{Cell, Follower},
    net::Link,
};
use hangar_core::wire::{
    connect::{Codec, Decoder, End, RpcError},
    envd::{
        decode,
        filesystem::{FilesystemEvent, WatchDirRequest, WatchDirResponse},
    },
};

/// What a stream about a directory says.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It is watched; the path of hangar's own.
    Start(String),
    /// Something changed.
    Event(Box<FilesystemEvent>),
    /// Nothing.
    KeepAlive,
    /// The stream ended.
    Closed(Option<RpcError>),
}

impl Cell {
    /// Watches a directory.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn watch(&self, request: &WatchDirRequest, headers: &[(&str, &str)]) -> Follower<Told> {
        self.watch_by(Link::INSTANT, request, headers).await
    }

    /// The same on such a link.
    ///
    /// # Panics
    ///
    /// If the connection ends.
    pub async fn watch_by(
        &self,
        link: Link,
        request: &WatchDirRequest,
        headers: &[(&str, &str)],
    ) -> Follower<Told> {
        let client = self.client_by(link);
        self.stream(client, "filesystem.Filesystem/WatchDir", request, headers, told).await.unwrap()
    }
}

fn told(codec: Codec, decoder: &mut Decoder) -> Option<Told> {
    let envelope = decoder.next_envelope().unwrap()?;
    if envelope.is_end() {
        return Some(Told::Closed(End::parse(&envelope.data).unwrap().error));
    }
    let WatchDirResponse { start, filesystem, keepalive } = decode(codec, &envelope.data).unwrap();
    let all = [
        start.map(|start| Told::Start(start.path)),
        filesystem.map(|event| Told::Event(Box::new(event))),
        keepalive.map(|_| Told::KeepAlive),
    ];
    let mut all = all.into_iter().flatten();
    let told = all.next().expect("a message says something");
    assert_eq!(all.next(), None, "a message says one thing");
    Some(told)
}
