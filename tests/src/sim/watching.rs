//! A client that watches a directory, as a strict one reads what comes.

use super::{
    client::{Client, End, Request, Response},
    net::Cutter,
    world::World,
};
use hangar_core::wire::sse::Decoder;
use serde_json::Value;
use std::collections::VecDeque;

/// Something that came.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A comment.
    Comment,
    /// An event.
    Event {
        /// Its name; `message` where it had none.
        name: String,
        /// The id of the last event that had one.
        id: String,
        /// Its data.
        data: Value,
    },
}

impl Told {
    /// An event.
    pub fn event(name: &str, id: &str, data: Value) -> Self {
        Self::Event { name: name.to_owned(), id: id.to_owned(), data }
    }

    /// Its data.
    ///
    /// # Panics
    ///
    /// If it is a comment.
    pub fn data(&self) -> &Value {
        match self {
            Self::Event { data, .. } => data,
            Self::Comment => panic!("a comment has no data"),
        }
    }

    /// The name of the event and, of a change, the type and the name in it: `create a`.
    ///
    /// # Panics
    ///
    /// If it is a comment.
    pub fn brief(&self) -> String {
        match self {
            Self::Comment => panic!("a comment is none"),
            Self::Event { name, data, .. } if name == "message" => {
                format!("{} {}", data["type"].as_str().unwrap(), data["name"].as_str().unwrap_or("?"))
            }
            Self::Event { name, .. } => name.clone(),
        }
    }
}

/// An open stream.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    head: Response,
    decoder: Decoder,
    line_begins: bool,
    waiting: VecDeque<Told>,
    /// What to come back with: of the last change, or of what was told before the first.
    cursor: Option<u64>,
    /// Why there was an end that nobody asked for.
    pub lost: Option<End>,
}

impl Reader {
    /// Watches in `box`, by a query and perhaps the id that it comes back with; what is refused is an answer.
    pub async fn open(
        world: &World,
        token: &str,
        query: &str,
        last_event_id: Option<u64>,
    ) -> Result<Self, Response> {
        Self::open_by(world.client(), token, query, last_event_id).await
    }

    /// The same on a connection.
    ///
    /// # Panics
    ///
    /// If that ends before the answer.
    pub async fn open_by(
        client: Client,
        token: &str,
        query: &str,
        last_event_id: Option<u64>,
    ) -> Result<Self, Response> {
        Self::ask(client, token, query, last_event_id).await.unwrap()
    }

    /// The same on a connection that may end; None where it did.
    pub async fn try_open_by(
        client: Client,
        token: &str,
        query: &str,
        last_event_id: Option<u64>,
    ) -> Option<Self> {
        Self::ask(client, token, query, last_event_id).await.ok().map(|opened| opened.unwrap())
    }

    async fn ask(
        mut client: Client,
        token: &str,
        query: &str,
        last_event_id: Option<u64>,
    ) -> Result<Result<Self, Response>, End> {
        let request = Request::new("GET", format!("/api/sandboxes/box/watch?{query}")).bearer(token);
        let request = match last_event_id {
            Some(id) => request.header("Last-Event-ID", &id.to_string()),
            None => request,
        };
        client.send(&request.bytes()).await?;
        let head = client.head().await?;
        if head.status != 200 {
            return client.body(head).await.map(Err);
        }
        Ok(Ok(Self {
            client,
            head,
            decoder: Decoder::new(1 << 20),
            line_begins: true,
            waiting: VecDeque::new(),
            cursor: None,
            lost: None,
        }))
    }

    /// The head of the answer.
    pub const fn head(&self) -> &Response {
        &self.head
    }

    /// What cuts its connection.
    pub fn cutter(&self) -> Cutter {
        self.client.cutter()
    }

    /// What to come back with.
    ///
    /// # Panics
    ///
    /// If nothing told that yet.
    pub fn cursor(&self) -> u64 {
        self.cursor.expect("a number was told")
    }

    /// What comes next, comments included; None at the end.
    ///
    /// # Panics
    ///
    /// If a change has not the number after that of the one before.
    pub async fn next_of_any_kind(&mut self) -> Option<Told> {
        while self.waiting.is_empty() {
            match self.client.chunk().await {
                Ok(Some(chunk)) => self.take(&chunk),
                Ok(None) => return None,
                Err(end) => {
                    self.lost = Some(end);
                    return None;
                }
            }
        }
        let told = self.waiting.pop_front();
        if let Some(Told::Event { name, id, data }) = &told {
            match name.as_str() {
                "message" => {
                    let seq = data["seq"].as_u64().unwrap();
                    assert_eq!(*id, seq.to_string());
                    assert!(
                        self.cursor.is_none_or(|before| seq == before + 1),
                        "{seq} after {:?}",
                        self.cursor
                    );
                    self.cursor = Some(seq);
                }
                "ready" => {
                    let next = data["next"].as_u64();
                    assert!(self.cursor.is_none() || self.cursor == next, "{data} after {:?}", self.cursor);
                    self.cursor = next;
                }
                "gap" => self.cursor = None,
                "unwatched" | "end" | "close" => {}
                other => panic!("there is no event {other}"),
            }
        }
        told
    }

    /// What comes next that is no comment; None at the end.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            match self.next_of_any_kind().await {
                Some(Told::Comment) => {}
                other => return other,
            }
        }
    }

    /// The same of so many, in brief.
    ///
    /// # Panics
    ///
    /// If the end comes before that.
    pub async fn briefs(&mut self, count: usize) -> Vec<String> {
        let mut briefs = Vec::new();
        while briefs.len() < count {
            let told = self.next().await;
            briefs.push(told.unwrap_or_else(|| panic!("an end after {briefs:?}: {:?}", self.lost)).brief());
        }
        briefs
    }

    /// Everything until the end, in brief.
    pub async fn to_end(&mut self) -> Vec<String> {
        let mut briefs = Vec::new();
        while let Some(told) = self.next().await {
            briefs.push(told.brief());
        }
        briefs
    }

    fn take(&mut self, chunk: &[u8]) {
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.line_begins && line[0] == b':' {
                self.waiting.push_back(Told::Comment);
            }
            self.line_begins = line.ends_with(b"\n");
        }
        self.decoder.push(chunk).unwrap();
        while let Some(event) = self.decoder.next_event() {
            let data = serde_json::from_str(&event.data).unwrap();
            self.waiting.push_back(Told::event(&event.name, &event.id, data));
        }
    }
}
