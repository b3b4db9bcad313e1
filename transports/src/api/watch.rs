//! A directory that is watched: as clients ask for it behind the `?` of a URL or of a URI, and as it is shown to who asks
//! now and then.

use super::{check_filled, no_nul};
use crate::{
    ApiError,
    plane::watches::{Over, Page, WatchCall},
    query::Query,
};
use hangar_backends::watching::WatchError;
use hangar_core::{
    Close,
    wire::watch::{EventView, GapView, UnwatchedView},
};
use serde::Serialize;

impl WatchCall {
    /// What a query asks for: of these parameters those that it may have.
    pub(crate) fn of(query: &Query<'_>) -> Result<Self, ApiError> {
        let bad_path = |code, what| ApiError::bad_field("path", code, format!("path: {what}"));
        let path = query.text("path")?;
        let path =
            path.ok_or_else(|| bad_path("missing_field", "it says which directory is to be watched"))?;
        if path.is_empty() {
            return Err(bad_path("empty", "it is empty; name the directory that is to be watched"));
        }
        no_nul("path", &path)?;
        let user = query.text("user")?;
        check_filled("user", user.as_deref())?;
        Ok(Self {
            path,
            recursive: query.flag("recursive")?,
            network: query.flag("network")?,
            user,
            snapshot: query.flag("snapshot")?,
        })
    }
}

/// What is kept of a watched directory.
#[derive(Debug, Serialize)]
pub(crate) struct DirectoryView<'a> {
    /// Absolute where it is watched, else as it was asked for.
    path: &'a str,
    watching: bool,
    events: Vec<EventView<'a>>,
    /// What to pass as `since` next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<GapView<'static>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unwatched: Vec<UnwatchedView<'a>>,
    /// Why it is watched no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl<'a> DirectoryView<'a> {
    /// One that is watched, or was.
    pub(crate) fn of(path: &'a str, page: &'a Page) -> Self {
        let (ended, note) = page.over.as_ref().map_or((None, None), |over| {
            let (ended, message) = over.told();
            (Some(ended), message)
        });
        Self {
            path,
            watching: page.over.is_none(),
            events: page.events.iter().map(EventView::from).collect(),
            next: Some(page.next),
            gap: page.gap.as_ref().map(GapView::from),
            unwatched: page.blind.iter().map(|(name, why)| UnwatchedView::of(name, *why)).collect(),
            ended,
            note,
        }
    }

    /// One that is not.
    pub(crate) fn unwatched(path: &'a str, since: Option<u64>, has_daemon: bool) -> Self {
        let note = if has_daemon {
            "it is not watched: subscribe to this resource, and read it when you are told that it changed"
                .to_owned()
        } else {
            WatchError::NeedsDaemon.to_string()
        };
        Self {
            path,
            watching: false,
            events: Vec::new(),
            next: since,
            gap: None,
            unwatched: Vec::new(),
            ended: None,
            note: Some(note),
        }
    }
}

impl Over {
    /// The reason that is told, and what is to be said of it.
    fn told(&self) -> (&'static str, Option<String>) {
        let reason = |close: Close| close.row().closed.unwrap_or_else(|| close.row().label);
        match self {
            Self::Ended(end) => (end.word(), None),
            Self::Broken(WatchError::Paused) => (reason(Close::Paused), None),
            Self::Broken(WatchError::Destroyed) => (reason(Close::Destroyed), None),
            Self::Broken(error) => (reason(Close::Error), Some(error.to_string())),
            Self::Closed(close) => (reason(*close), None),
        }
    }
}
