//! What a notice means for who reads the watch, and for the tree.

use super::{
    super::{Dir, End, Event, Kind, Notice, Output, Wd, What, listing::Listing, tree::Place},
    HALVES, Question, TAKEN, Task, Watch,
};
use crate::Time;
use bytes::Bytes;

impl Watch {
    /// Something is at a place where nothing was.
    pub(super) fn appeared(&mut self, place: &Place, is_dir: bool) {
        if let Some(before) = self.tree.child(place) {
            self.forget(before);
        }
        self.tell_of(Kind::Create, place);
        if is_dir && self.config.recursive {
            self.add(Some(place.clone()));
        }
    }

    /// Nothing is at a place where something was.
    fn disappeared(&mut self, place: &Place) {
        self.touched(place);
        if let Some(gone) = self.tree.child(place) {
            self.forget(gone);
        }
        if self.was_told(place) {
            self.tell_of(Kind::Remove, place);
        }
        self.noticed(place, false);
    }

    /// The reader was told that something is at this place.
    fn was_told(&self, (dir, name): &Place) -> bool {
        match &self.listing {
            Some(listing) if listing.dir == *dir => listing.was_told(name),
            _ => true,
        }
    }

    /// A notice told whether something is at this place.
    fn noticed(&mut self, (dir, name): &Place, is_there: bool) {
        if let Some(listing) = self.listing.as_mut().filter(|listing| listing.dir == *dir) {
            listing.set(name.clone(), is_there);
            if listing.is_full() {
                self.is_lost = true;
            }
        }
    }

    /// The name is no longer as a move left it.
    fn touched(&mut self, place: &Place) {
        self.taken.retain(|taken| taken != place);
    }

    /// Something was moved there.
    fn taken(&mut self, place: Place) {
        self.touched(&place);
        self.taken.push_back(place);
        if self.taken.len() > TAKEN {
            self.taken.pop_front();
        }
    }

    /// Tells the first notice. Gives the time until which it waits for its other half.
    pub(super) fn tell_notice(&mut self) -> Option<Time> {
        let (came, notice) = self.notices.front()?;
        if notice.what == What::MovedFrom && self.tree.by_wd(notice.wd).is_some() {
            let is_other = |(_, other): &(Time, Notice)| {
                other.what == What::MovedTo
                    && other.cookie == notice.cookie
                    && self.tree.by_wd(other.wd).is_some()
            };
            let until = *came + self.config.rename_wait;
            let to = self.notices.iter().take(HALVES).position(is_other);
            if to.is_none() && self.notices.len() < HALVES && self.now < until {
                return Some(until);
            }
            let to = to.and_then(|at| self.notices.remove(at));
            let (_, from) = self.notices.pop_front()?;
            self.left(from, to.map(|(_, to)| to));
            return None;
        }
        let (_, notice) = self.notices.pop_front()?;
        self.told(notice);
        None
    }

    /// A notice by itself.
    fn told(&mut self, notice: Notice) {
        if let Some((above, name)) = &self.above
            && *above == notice.wd
            && notice.name.as_ref() == Some(name)
        {
            match notice.what {
                What::Delete => self.end(End::Removed),
                // It was replaced, or exchanged.
                What::MovedTo if self.root_moves() => self.end(End::Moved),
                What::MovedTo => self.end(End::Removed),
                What::MovedFrom => self.end(End::Moved),
                What::Create
                | What::Modify
                | What::Attrib
                | What::DeleteSelf
                | What::MoveSelf
                | What::Unmount
                | What::Ignored => {}
            }
        }
        let Some(dir) = self.tree.by_wd(notice.wd) else { return };
        let Some(name) = notice.name else { return self.told_of_itself(dir, notice.wd, notice.what) };
        let place = (dir, name);
        match notice.what {
            What::Create | What::MovedTo => {
                self.touched(&place);
                self.appeared(&place, notice.is_dir);
                self.noticed(&place, true);
                if notice.what == What::MovedTo {
                    self.taken(place);
                }
            }
            What::Delete | What::MovedFrom => self.disappeared(&place),
            What::Modify => self.changed(Kind::Write, &place, notice.is_dir),
            What::Attrib => {
                self.changed(Kind::Chmod, &place, notice.is_dir);
                if let Some(child) = self.tree.child(&place) {
                    self.see(child);
                }
            }
            What::DeleteSelf | What::MoveSelf | What::Unmount | What::Ignored => {}
        }
    }

    /// Something has other contents, or other permissions.
    fn changed(&mut self, kind: Kind, place: &Place, is_dir: bool) {
        if !self.was_told(place) {
            self.appeared(place, is_dir);
            self.noticed(place, true);
        }
        self.tell_of(kind, place);
    }

    /// What could not be watched may be by now.
    fn see(&mut self, dir: Dir) {
        if self.tree.wd(dir).is_none() && !self.walk.contains(&dir) {
            self.walk.push_back(dir);
        }
    }

    fn relocate(&mut self, dir: Dir, to: Place) {
        self.tree.relocate(dir, to);
        self.see(dir);
    }

    /// A notice about a directory itself. That of another one than the watched is told by the one that it is in, too.
    fn told_of_itself(&mut self, dir: Dir, wd: Wd, what: What) {
        let is_root = dir == self.root;
        match what {
            What::Create | What::Modify | What::Delete | What::MovedFrom | What::MovedTo => {}
            What::Attrib if is_root => self.tell(Event::new(Kind::Chmod, Bytes::from_static(b"."))),
            What::DeleteSelf if is_root => self.end(End::Removed),
            What::MoveSelf if is_root => self.end(End::Moved),
            What::Unmount if is_root => self.end(End::Unmounted),
            What::Ignored if is_root => self.end(End::Removed),
            What::Ignored => self.tree.disarm(wd),
            What::Unmount => {
                // What it covered is there again.
                if let Some(place) = self.tree.place(dir).cloned() {
                    self.tell_of(Kind::Remove, &place);
                    self.appeared(&place, true);
                }
            }
            // The directory that it is in tells it.
            What::Attrib | What::DeleteSelf | What::MoveSelf => {}
        }
    }

    fn root_moves(&self) -> bool {
        let root = self.tree.wd(self.root);
        self.notices.iter().any(|(_, notice)| notice.what == What::MoveSelf && Some(notice.wd) == root)
    }

    fn end(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.notices.clear();
    }

    /// Something left its name, for another one if that is watched: the two halves of a rename.
    fn left(&mut self, from: Notice, to: Option<Notice>) {
        let is_dir = from.is_dir;
        let at = |notice: Notice| Some((self.tree.by_wd(notice.wd)?, notice.name?));
        let (Some(from), to) = (at(from), to.and_then(at)) else { return };
        if self.may_be_taken(&from) {
            let path = self.tree.path_of(&from);
            self.task = Task::Look(Question { from, to, is_dir });
            self.outputs.push_back(Output::Look { path });
            return;
        }
        self.moved(&from, to, is_dir);
    }

    /// Whether the last that happened to this name may be that something was moved there.
    fn may_be_taken(&self, place: &Place) -> bool {
        let is_unknown = |listing: &Listing| listing.dir == place.0 && !listing.knows(&place.1);
        self.taken.contains(place) || self.listing.as_ref().is_some_and(is_unknown)
    }

    fn moved(&mut self, from: &Place, to: Option<Place>, is_dir: bool) {
        match to {
            Some(to) => self.move_to(from, to, is_dir),
            None => self.disappeared(from),
        }
    }

    /// Whether there is something at a name that something left, by a look and by what was told of it since.
    pub(super) fn looked(&mut self, question: &Question, is_there: bool) {
        let Question { from, to, is_dir } = question;
        if self.is_uncertain(from.0) {
            // It may have looked somewhere else.
            return self.handle_lost();
        }
        let wd = self.tree.wd(from.0);
        let is_of_it = |notice: &Notice| Some(notice.wd) == wd && notice.name.as_ref() == Some(&from.1);
        let next = self.notices.iter().map(|(_, notice)| notice).find(|notice| is_of_it(notice));
        let next = next.map(|notice| notice.what);
        let is_there = match next {
            None => is_there,
            Some(What::Create) => false,
            // It was there, or something is moved there now, and then nobody knows.
            Some(_) => true,
        };
        if !is_there {
            return self.moved(from, to.clone(), *is_dir);
        }
        if let Some(to) = to {
            // As something new, which is right for both.
            self.appeared(to, *is_dir);
            self.noticed(to, true);
            self.taken(to.clone());
        }
        if next == Some(What::MovedTo) {
            self.disappeared(from);
        }
    }

    /// Something has another name.
    fn move_to(&mut self, from: &Place, to: Place, is_dir: bool) {
        self.touched(from);
        let (dir, mut was_told) = (self.tree.child(from), self.was_told(from));
        if let Some(replaced) = self.tree.child(&to).filter(|replaced| Some(*replaced) != dir) {
            self.forget(replaced);
            // What was taken for an exchange may have been none: then it comes from a place that is no more.
            was_told &= self.tree.contains(from.0);
        }
        if dir.is_some_and(|dir| self.tree.is_below(to.0, dir)) || !self.tree.contains(to.0) {
            // Nothing is moved into itself: what was taken for an exchange was none.
            return self.handle_lost();
        }
        if was_told {
            self.tell(Event::rename(self.tree.path_of(from), self.tree.path_of(&to)));
            match dir {
                Some(dir) => self.relocate(dir, to.clone()),
                None if is_dir && self.config.recursive => {
                    self.add(Some(to.clone()));
                }
                None => {}
            }
        } else {
            if let Some(dir) = dir {
                self.forget(dir);
            }
            self.appeared(&to, is_dir);
        }
        self.noticed(from, false);
        self.noticed(&to, true);
        self.taken(to);
    }
}
