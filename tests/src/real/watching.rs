//! A client that watches a directory by Server-Sent Events.

use super::client::{Client, Reply, Response};
use hangar_core::{
    watch::{Event as Change, Kind, Picture},
    wire::{
        sse::{Decoder, Event},
        watch::EventView,
    },
};
use serde_json::Value;
use std::{fs, io::Read, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc};

/// The longest event: two names, every byte of them escaped.
const MAX_EVENT: usize = 64 * 1024;

/// An open watch. Dropped, its client has left.
#[derive(Debug)]
pub struct Watching {
    response: Response,
    decoder: Decoder,
    /// The id of the last event that had one.
    pub last_id: Arc<str>,
    /// What is there, by the events alone.
    pub picture: Picture,
}

impl Client {
    /// Watches a directory of the sandbox `local`; `query` is what comes behind `path=`.
    pub fn watch(&self, query: &str) -> Watching {
        self.try_watch(query, "").unwrap_or_else(|refused| panic!("no watch: {refused:?}"))
    }

    /// The same with more headers, each with its line end, or the refusal.
    pub fn try_watch(&self, query: &str, more: &str) -> Result<Watching, Reply> {
        let path = format!("/api/sandboxes/local/watch?path={query}");
        let response = self.send_with("GET", &path, more, None).unwrap();
        if response.status != 200 {
            return Err(response.into_reply().unwrap());
        }
        Ok(Watching {
            response,
            decoder: Decoder::new(MAX_EVENT),
            last_id: Arc::default(),
            picture: Picture::default(),
        })
    }
}

impl Watching {
    /// The next event; None at the end of the stream.
    pub fn try_next(&mut self) -> Option<(String, Value)> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Some(self.seen(&event));
            }
            match self.response.read(&mut buffer).unwrap() {
                0 => return None,
                read => self.decoder.push(&buffer[..read]).unwrap(),
            }
        }
    }

    fn seen(&mut self, event: &Event) -> (String, Value) {
        self.last_id.clone_from(&event.id);
        if event.name == "message" {
            self.picture.apply(&change(&event.data));
        }
        let data = serde_json::from_str(&event.data).unwrap();
        (event.name.clone(), data)
    }

    /// The next event of this name; those before it are taken.
    pub fn until(&mut self, name: &str) -> Value {
        loop {
            match self.try_next() {
                Some((found, data)) if found == name => return data,
                Some((found, data)) => assert!(found != "close" && found != "end", "{found}: {data}"),
                None => panic!("the stream ended before {name}"),
            }
        }
    }

    /// The next change.
    pub fn change(&mut self) -> Value {
        self.until("message")
    }

    /// As many changes as words: `create a`, `rename a -> b`.
    pub fn said(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| said(&self.change())).collect()
    }

    /// Takes changes until the picture is what is below `root`.
    pub fn catch_up(&mut self, root: &Path) {
        while self.picture != picture_of(root) {
            self.change();
        }
    }
}

/// A change, as it is told.
pub fn change(json: &str) -> Change {
    let told: EventView<'_> = serde_json::from_str(json).unwrap();
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == told.kind).unwrap();
    Change { kind, name: told.name.bytes().unwrap(), from: told.from_bytes().unwrap() }
}

/// A change as words.
pub fn said(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or("?").to_owned();
    let from = if event["from"].is_null() { String::new() } else { format!("{} -> ", text("from")) };
    format!("{} {from}{}", text("type"), text("name"))
}

/// What is below a directory.
pub fn picture_of(root: &Path) -> Picture {
    let (mut found, mut left) = (Picture::default(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            found.extend([path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec()]);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(path);
            }
        }
    }
    found
}
