//! Every transition of a watch.

mod notices;

use super::{
    Blind, Config, Dir, End, Entry, Event, Kind, Notice, Output, Scanned, Wd, What,
    listing::Listing,
    tree::{Place, Tree},
};
use crate::Time;
use bytes::Bytes;
use std::collections::{BTreeSet, VecDeque};

/// How far behind its first half the second one of a rename may come: the system tells them one after the other, and
/// what else happens at that moment gets in between.
const HALVES: usize = 256;

/// Names of which it is remembered that something was moved there. An exchange tells its two renames one after the other,
/// and what else happens at that moment gets in between.
const TAKEN: usize = 8;

/// One directory that is watched, and all below it if it is to be. See the [module](super).
///
/// The shell hands in notices in their order, and carries out one `Scan`, `List` or `Look` after the other: it answers it,
/// hands in every notice of what happened before the answer, and says so by [`handle_drained`](Self::handle_drained).
/// A notice of a directory that a `Scan` has armed is handed in after the answer to that.
#[derive(Debug)]
pub struct Watch {
    config: Config,
    now: Time,
    tree: Tree,
    root: Dir,
    /// The directory that the watched one is in, and its name there.
    above: Option<(Wd, Bytes)>,
    /// What was handed in and is not told yet, and when.
    notices: VecDeque<(Time, Notice)>,
    /// What is told, and what is let go of.
    outputs: VecDeque<Output>,
    /// Directories that are to be scanned.
    walk: VecDeque<Dir>,
    task: Task,
    listing: Option<Listing>,
    /// Where something was moved to, and nothing happened since.
    taken: VecDeque<Place>,
    /// Armed before something was lost, and not found again so far.
    stale: BTreeSet<Wd>,
    /// What there is was told, or is known.
    is_ready: bool,
    /// Nothing is told before that.
    is_silent: bool,
    is_lost: bool,
    end: Option<End>,
    is_closed: bool,
}

/// What the shell was asked for.
#[derive(Debug)]
enum Task {
    None,
    /// It is about a tree that was given up.
    Void,
    VoidAnswered,
    Scan(Dir),
    Scanned(Dir, Result<Scanned, Blind>),
    List(Dir),
    Listed(Dir, Vec<Entry>, bool),
    Look(Question),
    Looked(Question, bool),
}

/// Something left a name that was given to something just before. If there is still something with that name, then two
/// names were exchanged in one step, and what left is what had the name before that.
#[derive(Clone, Debug)]
struct Question {
    from: Place,
    /// None for a place that is not watched.
    to: Option<Place>,
    is_dir: bool,
}

impl Watch {
    /// Watches a directory, which is scanned first.
    pub fn new(config: Config, now: Time) -> Self {
        let mut tree = Tree::default();
        let root = tree.add(None);
        Self {
            now,
            root,
            tree,
            above: None,
            notices: VecDeque::new(),
            outputs: VecDeque::new(),
            walk: VecDeque::from([root]),
            task: Task::None,
            listing: None,
            taken: VecDeque::new(),
            stale: BTreeSet::new(),
            is_ready: false,
            is_silent: !config.tells_existing,
            is_lost: false,
            end: None,
            is_closed: false,
            config,
        }
    }

    /// Something happened. Passed over where it is about a directory that is not watched here.
    pub fn handle_notice(&mut self, notice: Notice, now: Time) {
        self.now = self.now.max(now);
        if self.is_closed || !self.concerns(&notice) {
            return;
        }
        if self.notices.len() >= self.config.max_held {
            return self.handle_lost();
        }
        self.notices.push_back((self.now, notice));
    }

    /// Notices were lost.
    pub fn handle_lost(&mut self) {
        self.is_lost = true;
        self.notices.clear();
    }

    /// A directory was scanned, or could not be.
    pub fn handle_scanned(&mut self, dir: Dir, scanned: Result<Scanned, Blind>) {
        if let Task::Scan(asked) = self.task
            && asked == dir
        {
            if let Ok(scanned) = &scanned
                && self.tree.by_wd(scanned.wd).is_none()
            {
                self.tree.arm(dir, scanned.wd);
                self.stale.remove(&scanned.wd);
                if dir == self.root {
                    self.above.clone_from(&scanned.above);
                }
            }
            self.task = Task::Scanned(dir, scanned);
            return;
        }
        if let Ok(scanned) = scanned {
            // It was armed for nothing.
            if self.tree.by_wd(scanned.wd).is_none() {
                self.stale.insert(scanned.wd);
            }
        }
        self.void_answered();
    }

    /// The directory was listed further.
    pub fn handle_listed(&mut self, dir: Dir, entries: Vec<Entry>, is_all: bool) {
        if let Task::List(asked) = self.task
            && asked == dir
        {
            self.task = Task::Listed(dir, entries, is_all);
        } else {
            self.void_answered();
        }
    }

    /// There was something, or there was not.
    pub fn handle_looked(&mut self, is_there: bool) {
        if let Task::Look(question) = &self.task {
            self.task = Task::Looked(question.clone(), is_there);
        } else {
            self.void_answered();
        }
    }

    fn void_answered(&mut self) {
        if matches!(self.task, Task::Void) {
            self.task = Task::VoidAnswered;
        }
    }

    /// Every notice of what had happened before the last answer is handed in.
    pub fn handle_drained(&mut self) {
        let task = std::mem::replace(&mut self.task, Task::None);
        match task {
            Task::None | Task::Void | Task::Scan(_) | Task::List(_) | Task::Look(_) => self.task = task,
            // What is known is given up.
            _ if self.is_closed || self.is_lost => {}
            Task::VoidAnswered => {}
            Task::Scanned(dir, scanned) => self.scanned(dir, scanned),
            Task::Listed(dir, entries, is_all) => {
                if let Some(listing) = self.listing.as_mut().filter(|listing| listing.dir == dir) {
                    listing.add(entries, is_all);
                }
            }
            Task::Looked(question, is_there) => self.looked(&question, is_there),
        }
    }

    /// Tells everything that is there again, after an `overflow`: for a reader that has lost some of it.
    pub fn retell(&mut self) {
        self.handle_lost();
    }

    /// Ends it.
    pub fn close(&mut self) {
        self.end.get_or_insert(End::Closed);
        self.outputs.clear();
    }

    /// Does what is due at `now`, and gives the next thing to carry out.
    pub fn poll_output(&mut self, now: Time) -> Output {
        self.now = self.now.max(now);
        loop {
            if self.is_closed {
                return Output::Wait(None);
            }
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            if let Some(end) = self.end {
                return self.closed(end);
            }
            if self.is_lost {
                self.start_again();
                continue;
            }
            if !matches!(self.task, Task::None) {
                // Until it is answered, and until everything of before is handed in.
                return Output::Wait(None);
            }
            if !self.notices.is_empty() {
                if let Some(until) = self.tell_notice() {
                    return Output::Wait(Some(until));
                }
                continue;
            }
            if let Some(ask) = self.tell_listing() {
                return ask;
            }
            if !self.outputs.is_empty() || self.listing.is_some() {
                continue;
            }
            if let Some(scan) = self.scan_next() {
                return scan;
            }
            if self.is_ready {
                return Output::Wait(None);
            }
            self.is_ready = true;
            self.is_silent = false;
            self.outputs.extend(std::mem::take(&mut self.stale).into_iter().map(Output::Disarm));
            self.outputs.push_back(Output::Ready);
        }
    }

    /// Whether everything that is there is known.
    pub const fn is_ready(&self) -> bool {
        self.is_ready && !self.is_lost
    }

    /// The directories that it knows.
    pub fn directories(&self) -> usize {
        self.tree.len()
    }

    /// Notices and names that it holds.
    pub fn held(&self) -> usize {
        self.notices.len() + self.listing.as_ref().map_or(0, Listing::len)
    }

    fn closed(&mut self, end: End) -> Output {
        self.is_closed = true;
        self.tree.clear();
        self.notices.clear();
        self.walk.clear();
        self.listing = None;
        Output::Closed(end)
    }

    /// Whether it is about a directory that is watched here, or about the name of the watched one in that which it is in.
    fn concerns(&self, notice: &Notice) -> bool {
        let is_above =
            |(above, name): &(Wd, Bytes)| *above == notice.wd && notice.name.as_ref() == Some(name);
        self.tree.by_wd(notice.wd).is_some() || self.above.as_ref().is_some_and(is_above)
    }

    /// Something was lost: all that is known may be wrong.
    fn start_again(&mut self) {
        self.is_lost = false;
        self.is_ready = false;
        self.task = match self.task {
            Task::None => Task::None,
            Task::Void | Task::Scan(_) | Task::List(_) | Task::Look(_) => Task::Void,
            Task::VoidAnswered | Task::Scanned(..) | Task::Listed(..) | Task::Looked(..) => {
                Task::VoidAnswered
            }
        };
        self.stale.extend(self.tree.armed());
        self.tree.clear();
        self.above = None;
        self.listing = None;
        self.taken.clear();
        self.walk.clear();
        self.root = self.add(None);
        if !self.is_silent {
            self.outputs.push_back(Output::Event(Event::overflow()));
        }
    }

    fn add(&mut self, place: Option<Place>) -> Dir {
        let dir = self.tree.add(place);
        self.walk.push_back(dir);
        if self.tree.len() > self.config.max_directories {
            self.end.get_or_insert(End::TooManyDirectories);
        }
        dir
    }

    fn scan_next(&mut self) -> Option<Output> {
        while let Some(dir) = self.walk.pop_front() {
            if self.tree.contains(dir) {
                self.task = Task::Scan(dir);
                return Some(Output::Scan { dir, path: self.tree.path(dir) });
            }
        }
        None
    }

    /// Whether a notice that is not told yet is about a name on the way to this directory: it may not be the one that is
    /// meant.
    fn is_uncertain(&self, dir: Dir) -> bool {
        let chain: Vec<(Wd, &Bytes)> = self
            .tree
            .chain(dir)
            .filter_map(|(parent, name)| self.tree.wd(*parent).map(|wd| (wd, name)))
            .collect();
        self.notices.iter().any(|(_, notice)| {
            let is_structure =
                matches!(notice.what, What::Create | What::Delete | What::MovedFrom | What::MovedTo);
            is_structure
                && chain.iter().any(|(wd, name)| notice.wd == *wd && notice.name.as_ref() == Some(name))
        })
    }

    fn scanned(&mut self, dir: Dir, scanned: Result<Scanned, Blind>) {
        if !self.tree.contains(dir) {
            return;
        }
        if self.is_uncertain(dir) {
            return self.scan_again(dir);
        }
        match scanned {
            Ok(scanned) if self.tree.by_wd(scanned.wd) == Some(dir) => {
                let mut listing = Listing::new(dir, self.config.max_held);
                listing.add(scanned.entries, scanned.is_all);
                self.listing = Some(listing);
            }
            // It is known by another place, from which it does not go away.
            Ok(_) => self.blind(dir, Blind::Twice),
            Err(_) if dir == self.root => {
                self.end.get_or_insert(End::Moved);
            }
            Err(Blind::Gone) => {}
            Err(why) => self.blind(dir, why),
        }
    }

    fn blind(&mut self, dir: Dir, why: Blind) {
        self.outputs.push_back(Output::Blind { name: self.tree.path(dir), why });
    }

    /// Scans the directory that is at the place of this one, as another one.
    fn scan_again(&mut self, dir: Dir) {
        let place = self.tree.place(dir).cloned();
        self.forget(dir);
        let again = self.add(place);
        if self.tree.place(again).is_none() {
            self.root = again;
        }
    }

    /// Forgets a directory with all below it, and watches them no longer.
    fn forget(&mut self, dir: Dir) {
        self.outputs.extend(self.tree.remove(dir).into_iter().map(Output::Disarm));
        if self.listing.as_ref().is_some_and(|listing| !self.tree.contains(listing.dir)) {
            self.listing = None;
        }
    }

    fn tell(&mut self, event: Event) {
        if !self.is_silent {
            self.outputs.push_back(Output::Event(event));
        }
    }

    fn tell_of(&mut self, kind: Kind, place: &Place) {
        self.tell(Event::new(kind, self.tree.path_of(place)));
    }

    /// Tells the next name of the directory that is being listed; gives what to ask for when there is none.
    fn tell_listing(&mut self) -> Option<Output> {
        let listing = self.listing.as_mut()?;
        let dir = listing.dir;
        if let Some(entry) = listing.next() {
            self.appeared(&(dir, entry.name), entry.is_dir);
        } else if listing.is_all {
            self.listing = None;
        } else {
            self.task = Task::List(dir);
            return Some(Output::List { dir });
        }
        None
    }
}
