//! One session of a client of the revisions of 2025: what it asked for and was not answered, what it follows, and which of
//! its streams is the one that tells it.
//!
//! A call goes on when its stream breaks; `notifications/cancelled` ends it. What is followed is told on the one stream that
//! the client opened last: without one nothing is told, and the next one begins with whatever changed meanwhile. What was told
//! may have been lost with its stream: it is told again on the next one, unless the client has read it since.

use super::{
    listen::{List, Topic},
    message::Id,
    meta::LogLevel,
    revision::Revision,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Calls of one session, or of one client over lines, that are answered at once.
pub const MAX_CALLS: usize = 64;

/// How much of something a client was told of, in whatever tells that: at another one there is something new.
pub type Position = u64;

/// Why a call is not begun.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotBegun {
    /// Its id names another one.
    #[error("id: the call {0} is not answered yet")]
    InUse(Id),
    /// There are too many.
    #[error("{MAX_CALLS} calls are being answered; wait for one to end")]
    TooMany,
}

/// As much is followed as may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0} resources and lists are followed, as many as one session may follow")]
pub struct TooMany(pub usize);

/// What a client knows of something that it follows.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// That is sure.
    sure: Position,
    /// It was told of that.
    told: Position,
}

/// One session. See the [module](self).
#[derive(Debug)]
pub struct Session {
    revision: Revision,
    capabilities: Map<String, Value>,
    log_level: Option<LogLevel>,
    /// The calls that are not over, with the client's ids: not many.
    calls: Vec<(Id, u64)>,
    /// What a call asked the client, by the id of that.
    asked: BTreeMap<u64, u64>,
    topics: BTreeMap<Topic, Known>,
    max_topics: usize,
    stream: Option<u64>,
    /// The number of the next call, question or stream.
    next: u64,
}

impl Session {
    /// One that has just begun, of a client that can do that.
    pub fn new(revision: Revision, capabilities: Map<String, Value>, max_topics: usize) -> Self {
        Self {
            revision,
            capabilities,
            log_level: None,
            calls: Vec::new(),
            asked: BTreeMap::new(),
            topics: BTreeMap::new(),
            max_topics,
            stream: None,
            next: 1,
        }
    }

    /// The revision that its client speaks.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// What its client can do.
    pub const fn capabilities(&self) -> &Map<String, Value> {
        &self.capabilities
    }

    /// From which level on its client wants log messages, if it does.
    pub const fn log_level(&self) -> Option<LogLevel> {
        self.log_level
    }

    /// The client wants log messages from this level on.
    pub const fn set_log_level(&mut self, level: LogLevel) {
        self.log_level = Some(level);
    }

    const fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// A call begins; its number.
    pub fn begin(&mut self, id: &Id) -> Result<u64, NotBegun> {
        if self.number_of(id).is_some() {
            return Err(NotBegun::InUse(id.clone()));
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(NotBegun::TooMany);
        }
        let call = self.number();
        self.calls.push((id.clone(), call));
        Ok(call)
    }

    fn number_of(&self, id: &Id) -> Option<u64> {
        self.calls.iter().find(|(known, _)| known == id).map(|(_, call)| *call)
    }

    /// Whether that call is not over.
    pub fn runs(&self, call: u64) -> bool {
        self.calls.iter().any(|(_, running)| *running == call)
    }

    /// A call was answered, or given up: its id may name another one. What it asked is not waited for any more.
    pub fn finish(&mut self, call: u64) {
        self.calls.retain(|(_, running)| *running != call);
        self.asked.retain(|_, asks| *asks != call);
    }

    /// The call that the client cancels; none where it is not there, as it may have been answered just now.
    pub fn cancel(&mut self, id: &Id) -> Option<u64> {
        let call = self.number_of(id)?;
        self.finish(call);
        Some(call)
    }

    /// A call asks its client something; the id of that.
    pub fn ask(&mut self, call: u64) -> u64 {
        let question = self.number();
        self.asked.insert(question, call);
        question
    }

    /// The client answered; the call that asked, the first time.
    pub fn answered(&mut self, question: &Id) -> Option<(u64, u64)> {
        let Id::Number(number) = question else { return None };
        let question = number.as_u64()?;
        self.asked.remove(&question).map(|call| (call, question))
    }

    /// Follows something, of which the client knows as much as there is at that position.
    pub fn follow(&mut self, topic: Topic, position: Position) -> Result<(), TooMany> {
        if !self.topics.contains_key(&topic) {
            self.may_follow()?;
        }
        self.topics.entry(topic).or_insert(Known { sure: position, told: position });
        Ok(())
    }

    /// Whether one more may be followed.
    pub fn may_follow(&self) -> Result<(), TooMany> {
        let full = self.topics.len() >= self.max_topics;
        if full { Err(TooMany(self.max_topics)) } else { Ok(()) }
    }

    /// Follows it no longer. Whether it was followed.
    pub fn unfollow(&mut self, topic: &Topic) -> bool {
        self.topics.remove(topic).is_some()
    }

    /// The client is told as much of it as there is at that position.
    pub fn told(&mut self, topic: &Topic, position: Position) {
        if let Some(known) = self.topics.get_mut(topic) {
            known.told = position;
        }
    }

    /// The client reads a resource: what it was told of that, or of some of it by another URI, it has heard.
    pub fn handle_read(&mut self, uri: &str) {
        let read = name(uri);
        for (topic, known) in &mut self.topics {
            if matches!(topic, Topic::Resource(followed) if name(followed) == read) {
                known.sure = known.told;
            }
        }
    }

    /// The client asks for a list: what it was told of that, it has heard.
    pub fn handle_listed(&mut self, list: List) {
        if let Some(known) = self.topics.get_mut(&Topic::List(list)) {
            known.sure = known.told;
        }
    }

    /// What is followed, and how much of each the client knows for sure.
    pub fn topics(&self) -> impl Iterator<Item = (&Topic, Position)> {
        self.topics.iter().map(|(topic, known)| (topic, known.sure))
    }

    /// Whether this is followed.
    pub fn follows(&self, topic: &Topic) -> bool {
        self.topics.contains_key(topic)
    }

    /// The client opens a stream, which replaces the one before; its number.
    pub const fn open_stream(&mut self) -> u64 {
        let stream = self.number();
        self.stream = Some(stream);
        stream
    }

    /// Whether that stream is the one that tells.
    pub fn is_open(&self, stream: u64) -> bool {
        self.stream == Some(stream)
    }

    /// That stream ends. Whether it was the one that tells.
    pub fn close_stream(&mut self, stream: u64) -> bool {
        let was = self.is_open(stream);
        if was {
            self.stream = None;
        }
        was
    }
}

/// A URI without its parameters.
fn name(uri: &str) -> &str {
    uri.split_once('?').map_or(uri, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new(Revision::V2025_11_25, Map::new(), 2)
    }

    fn id(id: u64) -> Id {
        Id::Number(id.into())
    }

    #[test]
    fn an_id_names_one_call_until_that_is_over() {
        let mut session = session();
        let first = session.begin(&id(1)).unwrap();
        assert_eq!(session.begin(&id(1)), Err(NotBegun::InUse(id(1))));
        // A string is another id than a number.
        let second = session.begin(&Id::Text("1".to_owned())).unwrap();
        assert_ne!(first, second);
        assert_eq!(session.cancel(&id(2)), None);
        assert!(session.runs(first));
        assert_eq!(session.cancel(&id(1)), Some(first));
        assert!(!session.runs(first) && session.runs(second));
        assert_eq!(session.cancel(&id(1)), None);
        let again = session.begin(&id(1)).unwrap();
        assert!(again != first && again != second);
        session.finish(again);
        for call in 1..MAX_CALLS as u64 {
            session.begin(&id(call)).unwrap();
        }
        assert_eq!(session.begin(&id(0)), Err(NotBegun::TooMany));
        session.finish(second);
        session.begin(&id(0)).unwrap();
    }

    #[test]
    fn an_answer_is_for_the_call_that_asked_and_counts_once() {
        let mut session = session();
        let (one, two) = (session.begin(&id(1)).unwrap(), session.begin(&id(2)).unwrap());
        let (of_one, of_two, other) = (session.ask(one), session.ask(two), session.ask(two));
        assert!(of_one != of_two && of_two != other);
        assert_eq!(session.answered(&id(of_two)), Some((two, of_two)));
        assert_eq!(session.answered(&id(of_two)), None);
        assert_eq!(session.answered(&Id::Text(of_one.to_string())), None);
        session.cancel(&id(2));
        assert_eq!(session.answered(&id(other)), None);
        assert_eq!(session.answered(&id(of_one)), Some((one, of_one)));
    }

    #[test]
    fn what_is_followed_is_bounded_and_remembers_what_was_told() {
        let mut session = session();
        let of = |uri: &str| Topic::Resource(uri.into());
        session.follow(of("a"), 1).unwrap();
        session.follow(of("b"), 2).unwrap();
        assert_eq!(session.follow(of("c"), 3), Err(TooMany(2)));
        // Once more changes nothing: what was not told is told still.
        session.follow(of("a"), 9).unwrap();
        session.told(&of("b"), 7);
        session.told(&of("c"), 7);
        let known = |session: &Session| -> Vec<(Topic, u64)> {
            session.topics().map(|(topic, at)| (topic.clone(), at)).collect()
        };
        let all = |a, b| [(of("a"), a), (of("b"), b)];
        // That it was heard is known once it was read.
        assert_eq!(known(&session), all(1, 2));
        session.handle_read("c");
        session.handle_read("b/x");
        session.handle_listed(List::Resources);
        assert_eq!(known(&session), all(1, 2));
        session.handle_read("b?since=3");
        assert_eq!(known(&session), all(1, 7));
        assert!(session.unfollow(&of("a")) && !session.unfollow(&of("a")) && !session.follows(&of("a")));
        let list = Topic::List(List::Resources);
        session.follow(list.clone(), 3).unwrap();
        session.told(&list, 4);
        session.handle_listed(List::Tools);
        assert_eq!(known(&session)[0], (list.clone(), 3));
        session.handle_listed(List::Resources);
        assert_eq!(known(&session)[0], (list, 4));
    }

    #[test]
    fn the_last_stream_is_the_one_that_tells() {
        let mut session = session();
        let first = session.open_stream();
        let second = session.open_stream();
        assert!(!session.is_open(first) && session.is_open(second));
        assert!(!session.close_stream(first) && session.is_open(second));
        assert!(session.close_stream(second) && !session.close_stream(second));
    }
}
