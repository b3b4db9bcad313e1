//! A client that watches a directory by Server-Sent Events.

use super::client::{Client, Reply, Response};
use hangar_core::wire::sse::{Decoder, Event};
use serde_json::Value;
use std::{collections::BTreeSet, fs, io::Read, path::Path, sync::Arc};

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
    pub picture: BTreeSet<String>,
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
            picture: BTreeSet::new(),
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
        let data: Value = serde_json::from_str(&event.data).unwrap();
        if event.name == "message" {
            self.apply(&data);
        }
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
        while self.picture != paths(root) {
            self.change();
        }
    }

    fn apply(&mut self, event: &Value) {
        if let Some(name) = event["name"].as_str() {
            apply(&mut self.picture, event["type"].as_str().unwrap(), name, event["from"].as_str());
        }
    }
}

/// Does in a picture of what is there what a change says. A rename whose old name is not UTF-8 is none.
pub fn apply(picture: &mut BTreeSet<String>, kind: &str, name: &str, from: Option<&str>) {
    let mut take = |path: &str| -> Vec<String> {
        let is_taken = |other: &str| {
            other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        picture.extract_if(.., |other| is_taken(other)).collect()
    };
    match (kind, from) {
        ("create", _) => {
            take(name);
            picture.insert(name.into());
        }
        ("remove", _) => drop(take(name)),
        ("rename", Some(from)) => {
            let taken = take(from);
            take(name);
            picture.insert(name.into());
            picture.extend(taken.iter().map(|path| format!("{name}{}", &path[from.len()..])));
        }
        ("overflow", _) => picture.clear(),
        (other, _) => assert!(["write", "chmod", "rename"].contains(&other), "{other} {name}"),
    }
}

/// A change as words.
pub fn said(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or("?").to_owned();
    let from = if event["from"].is_null() { String::new() } else { format!("{} -> ", text("from")) };
    format!("{} {from}{}", text("type"), text("name"))
}

/// All paths below a directory, relative to it.
pub fn paths(root: &Path) -> BTreeSet<String> {
    let (mut found, mut left) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(path);
            }
        }
    }
    found
}
