//! Sandboxes by name.

use super::{Plane, bell::Bell, envd::NewEnvd, lock, tokens::Caller};
use crate::ApiError;
use hangar_backends::Sandbox;
use hangar_core::Close;
use hyper::StatusCode;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// What sandboxes on this machine are said to be.
pub(super) const LOCAL: &str = "local";

/// The longest name of a sandbox.
const NAME_MAX: usize = 63;

/// The sandboxes of a plane, and how new ones are made.
#[derive(Default)]
pub struct Sandboxes {
    by_id: Mutex<BTreeMap<String, Arc<Entry>>>,
    factory: Mutex<Option<Arc<dyn Factory>>>,
    /// Rung when one is made, or changes its state.
    bell: Arc<Bell>,
}

/// Makes sandboxes on this machine on request.
pub trait Factory: Send + Sync + 'static {
    /// The sandbox that is asked for, which is to have this id.
    fn create(&self, id: &str, new: &NewLocal) -> Result<Made, ApiError>;

    /// One that was made before, whatever has become of its directory since.
    fn create_again(&self, id: &str, new: &NewLocal) -> Made;
}

/// A sandbox on this machine that is to be made.
#[derive(Clone, Debug)]
pub struct NewLocal {
    /// Where its commands run; the factory's own default without it.
    pub workdir: Option<String>,
    /// Whether what runs in it can be followed while it runs, as a daemon would allow.
    pub daemon: bool,
}

/// What a new sandbox is to be.
#[derive(Clone, Debug)]
pub enum NewSandbox {
    /// One on this machine.
    Local(NewLocal),
    /// One behind a daemon.
    Envd(NewEnvd),
}

/// A sandbox that was made.
pub struct Made {
    /// Where its commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What it is: `local` or `envd`.
    pub provider: &'static str,
    /// Where its daemon is, if it has one.
    pub url: Option<String>,
    /// Where its commands run that do not say so, where that is not the home of their user.
    pub workdir: Option<String>,
    /// Whether what runs in it can be followed while it runs; without it its output comes at its end.
    pub daemon: bool,
    /// Whether it outlives the server, with the background processes in it.
    pub is_remembered: bool,
    /// Whether tokens of the scope `user` may be granted it. A sandbox that runs as the server's own user is for
    /// admins alone.
    pub open_to_users: bool,
}

/// A sandbox with its name.
pub struct Entry {
    id: String,
    name: String,
    created_at_ms: i64,
    made: Made,
    state: Mutex<State>,
    /// Held while it is paused, resumed or destroyed: one after the other.
    changing: tokio::sync::Mutex<()>,
}

/// Whether commands can be started in a sandbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// They can.
    Running,
    /// Everything in it is stopped.
    Paused,
    /// It is being ended, or has ended.
    Destroyed,
}

impl State {
    /// `running`, `paused` or `destroyed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Destroyed => "destroyed",
        }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Entry {
    /// Its id: a ULID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it was made: milliseconds since 1970.
    pub const fn created_at_ms(&self) -> i64 {
        self.created_at_ms
    }

    /// What it is, and where.
    pub const fn made(&self) -> &Made {
        &self.made
    }

    /// Where its commands run.
    pub const fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.made.sandbox
    }

    /// Whether commands can be started in it.
    pub fn state(&self) -> State {
        *lock(&self.state)
    }

    /// Why a stream in it has to end, if it has to.
    pub fn close_reason(&self) -> Option<Close> {
        match self.state() {
            State::Running => None,
            State::Paused => Some(Close::Paused),
            State::Destroyed => Some(Close::Destroyed),
        }
    }

    /// Enters another state, unless it has come to its end meanwhile.
    fn enter(&self, to: State, bell: &Bell) -> Result<(), ApiError> {
        let mut state = lock(&self.state);
        if *state == State::Destroyed {
            return Err(ApiError::not_found("sandbox"));
        }
        *state = to;
        drop(state);
        bell.ring();
        Ok(())
    }

    fn is_there(&self) -> bool {
        self.state() != State::Destroyed
    }

    fn is(&self, reference: &str) -> bool {
        self.name == reference || self.id == reference
    }
}

impl Sandboxes {
    /// Lets sandboxes be made on request.
    pub fn set_factory(&self, factory: Arc<dyn Factory>) {
        *lock(&self.factory) = Some(factory);
    }

    /// What is rung when one is made, or changes its state.
    pub(super) const fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Whether sandboxes can be made on request.
    pub fn can_make(&self) -> bool {
        lock(&self.factory).is_some()
    }

    /// All of them, oldest first; also those that are being ended.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        lock(&self.by_id).values().cloned().collect()
    }

    /// Those that a caller may see, oldest first.
    pub fn visible(&self, caller: &Caller) -> Vec<Arc<Entry>> {
        self.all().into_iter().filter(|entry| entry.is_there() && may_see(caller, entry)).collect()
    }

    /// The one with this id or name, as far as the caller may know of it.
    pub fn find(&self, caller: &Caller, reference: &str) -> Result<Arc<Entry>, ApiError> {
        let found = lock(&self.by_id).values().find(|entry| entry.is_there() && entry.is(reference)).cloned();
        found.filter(|entry| may_see(caller, entry)).ok_or_else(|| ApiError::not_found("sandbox"))
    }

    /// The one with this id or name, if the caller may run commands in it.
    pub fn reachable(&self, caller: &Caller, reference: &str) -> Result<Arc<Entry>, ApiError> {
        let entry = self.find(caller, reference)?;
        if !caller.is_admin() && !entry.made.open_to_users {
            return Err(ApiError::forbidden(
                "this sandbox runs as the server's own user: only an admin token may use it",
            ));
        }
        Ok(entry)
    }

    /// The one with this id or name, if the caller may run commands in it and it takes them now.
    pub fn usable(&self, caller: &Caller, reference: &str) -> Result<Arc<Entry>, ApiError> {
        let entry = self.reachable(caller, reference)?;
        match entry.state() {
            State::Running => Ok(entry),
            State::Paused => Err(ApiError::sandbox_paused()),
            State::Destroyed => Err(ApiError::not_found("sandbox")),
        }
    }
}

fn may_see(caller: &Caller, entry: &Entry) -> bool {
    caller.is_admin() || caller.is_granted(&entry.id, &entry.name).unwrap_or(entry.made.open_to_users)
}

impl Plane {
    /// Enters a sandbox under a name.
    pub fn add_sandbox(&self, name: &str, made: Made) -> Result<Arc<Entry>, ApiError> {
        self.enter_sandbox(self.new_id(), name, self.runtime.wall_ms(), made)
    }

    /// The same for one that has an id already.
    pub(super) fn enter_sandbox(
        &self,
        id: String,
        name: &str,
        created_at_ms: i64,
        made: Made,
    ) -> Result<Arc<Entry>, ApiError> {
        check_name(name)?;
        let entry = Arc::new(Entry {
            id,
            name: name.to_owned(),
            created_at_ms,
            made,
            state: Mutex::new(State::Running),
            changing: tokio::sync::Mutex::new(()),
        });
        let mut by_id = lock(&self.sandboxes.by_id);
        if by_id.values().any(|other| other.is_there() && other.name == name) {
            return Err(taken(name));
        }
        by_id.insert(entry.id.clone(), Arc::clone(&entry));
        drop(by_id);
        self.sandboxes.bell.ring();
        Ok(entry)
    }

    /// Makes a sandbox; its name is its id in lower case with `sandbox-` before it where the caller gave none.
    pub async fn create_sandbox(
        self: &Arc<Self>,
        name: Option<&str>,
        new: NewSandbox,
    ) -> Result<Arc<Entry>, ApiError> {
        if self.is_shutting_down() {
            return Err(ApiError::shutting_down());
        }
        let own_name;
        let name = match name {
            Some(name) => name,
            None => {
                own_name = format!("sandbox-{}", self.new_id().to_ascii_lowercase());
                &own_name
            }
        };
        check_name(name)?;
        if self.sandboxes.all().iter().any(|entry| entry.is_there() && entry.name == name) {
            return Err(taken(name));
        }
        let id = self.new_id();
        let (made, secret) = match new {
            NewSandbox::Local(new) => (self.make_local(&id, &new)?, None),
            NewSandbox::Envd(new) => {
                let secret = new.token.clone();
                (new.make(&self.runtime)?, secret)
            }
        };
        let (plane, name) = (Arc::clone(self), name.to_owned());
        self.to_its_end(async move {
            let entry = plane.enter_sandbox(id, &name, plane.runtime.wall_ms(), made)?;
            if let Err(error) = plane.store_sandbox(&entry, secret).await {
                lock(&plane.sandboxes.by_id).remove(&entry.id);
                plane.sandboxes.bell.ring();
                return Err(error);
            }
            Ok(entry)
        })
        .await
    }

    fn make_local(&self, id: &str, new: &NewLocal) -> Result<Made, ApiError> {
        self.factory()?.create(id, new)
    }

    pub(super) fn make_local_again(&self, id: &str, new: &NewLocal) -> Result<Made, ApiError> {
        Ok(self.factory()?.create_again(id, new))
    }

    fn factory(&self) -> Result<Arc<dyn Factory>, ApiError> {
        let factory = lock(&self.sandboxes.factory).clone();
        factory.ok_or_else(|| {
            ApiError::new(
                StatusCode::CONFLICT,
                "unsupported",
                "this server makes no sandboxes on its machine: it was started without one (see --local)",
            )
        })
    }

    /// Stops everything in a sandbox. Its streams end.
    pub async fn pause_sandbox(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), ApiError> {
        let (plane, entry) = (Arc::clone(self), Arc::clone(entry));
        self.to_its_end(async move {
            let _changing = entry.changing.lock().await;
            let bell = plane.sandboxes.bell();
            entry.enter(State::Paused, bell)?;
            if let Err(error) = entry.sandbox().pause().await {
                entry.enter(State::Running, bell)?;
                return Err(error.into());
            }
            plane.close_streams(Close::Paused, |stream| stream.sandbox() == entry.id);
            plane.watches.end(Close::Paused, |watched| watched.sandbox() == entry.id);
            Ok(())
        })
        .await
    }

    /// Undoes a pause.
    pub async fn resume_sandbox(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), ApiError> {
        let (plane, entry) = (Arc::clone(self), Arc::clone(entry));
        self.to_its_end(async move {
            let _changing = entry.changing.lock().await;
            entry.sandbox().resume().await?;
            entry.enter(State::Running, plane.sandboxes.bell())
        })
        .await
    }

    /// Ends a sandbox with everything in it. Its streams end first, and its name is free. If something is left of it,
    /// it stays known to whoever has its entry, and to the end of the server.
    pub async fn destroy_sandbox(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), ApiError> {
        let (plane, entry) = (Arc::clone(self), Arc::clone(entry));
        self.to_its_end(async move {
            *lock(&entry.state) = State::Destroyed;
            plane.sandboxes.bell.ring();
            plane.close_streams(Close::Destroyed, |stream| stream.sandbox() == entry.id);
            plane.watches.end(Close::Destroyed, |watched| watched.sandbox() == entry.id);
            let _changing = entry.changing.lock().await;
            entry.sandbox().destroy().await?;
            plane.unstore_sandbox(&entry).await?;
            lock(&plane.sandboxes.by_id).remove(&entry.id);
            Ok(())
        })
        .await
    }
}

pub(super) fn taken(name: &str) -> ApiError {
    ApiError::new(
        StatusCode::CONFLICT,
        "name_taken",
        format!("name: there is a sandbox named {name} already"),
    )
}

/// Whether a name can be one: of a sandbox or of a process.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let rest = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
    if !first || !rest || name.len() > NAME_MAX {
        return Err(ApiError::bad_field("name", "bad_name", "name: it must match [a-z0-9][a-z0-9._-]{0,62}"));
    }
    if ulid::Ulid::from_string(&name.to_ascii_uppercase()).is_ok() {
        return Err(ApiError::bad_field("name", "bad_name", "name: it must not look like an id (a ULID)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "local", "api-refactor", "0.x_y-z", &"a".repeat(63)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", ".", "A", "a b", "a/b", "ä", &"a".repeat(64), "01j9f3zk7qw4b2y8n5t1qaz6rx"] {
            let error = check_name(bad).unwrap_err();
            assert_eq!((error.code(), error.field()), ("bad_name", Some("name")), "{bad}");
        }
    }
}
