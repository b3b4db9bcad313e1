//! Runs a scenario.

use super::{
    Change, Op, Scenario,
    disk::{CHUNK, Disk, Name, Number, Queued, SECRET},
};
use crate::{
    Time,
    testing::{Clock, Contract, Machine, Sort, Step},
    watch::{Config, Dir, End, Event, Kind, Notice, Output, Picture, Watch, Wd, What},
};
use bytes::Bytes;

impl Machine for Watch {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.poll_output(now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Wait(at) => Sort::Wait(*at),
            Output::Closed(_) => Sort::Closed,
            Output::Scan { .. }
            | Output::List { .. }
            | Output::Look { .. }
            | Output::Disarm(_)
            | Output::Event(_)
            | Output::Ready
            | Output::Blind { .. } => Sort::Act,
        }
    }

    fn close(&mut self) {
        self.close();
    }

    fn disturb(&mut self) {
        let name = Some(Bytes::from_static(b"a"));
        let notice = Notice { wd: Wd(1), what: What::Create, is_dir: true, cookie: 0, name };
        self.handle_notice(notice, Time::ZERO);
        self.handle_looked(true);
        self.handle_lost();
        self.handle_drained();
    }

    /// See [`Drive::poll`], which knows the configuration.
    fn check_bounds(&self) {}
}

/// What the machine asked for.
#[derive(Debug)]
enum Asked {
    Scan(Dir, Bytes),
    List(Dir),
    Look(Bytes),
}

struct Drive<'a> {
    scenario: &'a Scenario,
    disk: Disk,
    watch: Watch,
    contract: Contract,
    clock: Clock,
    /// What a reader believes to be there.
    picture: Picture,
    asked: Option<Asked>,
    answered: bool,
    is_ready: bool,
    ended: Option<End>,
    outputs: Vec<Output>,
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| drive(scenario, steady));
}

fn drive(scenario: &Scenario, steady: bool) -> Vec<Output> {
    let clock = Clock::new();
    let mut disk = Disk::new(scenario.max_queued);
    for change in &scenario.before {
        apply(&mut disk, *change);
    }
    let mut drive = Drive {
        scenario,
        disk,
        watch: Watch::new(scenario.config, clock.now),
        contract: Contract::new(clock.now, steady),
        clock,
        picture: Picture::default(),
        asked: None,
        answered: false,
        is_ready: false,
        ended: None,
        outputs: Vec::new(),
    };
    if !scenario.config.tells_existing {
        // A reader that begins with a listing of its own knows nothing of what happens during that.
        drive.rest();
        drive.picture = readable(&drive.disk.picture(scenario.config.recursive));
    }
    for Step { op, polls } in &scenario.steps {
        drive.step(op);
        for _ in 0..*polls {
            if drive.poll() {
                break;
            }
        }
    }
    drive.settle();
    let now = drive.clock.now;
    let (mut outputs, ended) = (drive.outputs, drive.ended);
    let mut closed = ended.is_some();
    drive.contract.finish(&mut drive.watch, now, |_, output| {
        closed |= matches!(output, Output::Closed(_));
        outputs.push(output);
    });
    assert!(closed);
    outputs
}

/// Without what is in a directory that may not be read: it is not known, and kept where it was told before.
fn readable(picture: &Picture) -> Picture {
    let inside = format!("{SECRET}/");
    let is_inside = |path: &Bytes| path.windows(inside.len()).any(|part| part == inside.as_bytes());
    picture.paths().filter(|path| !is_inside(path)).cloned().collect()
}

fn pick<T: Copy>(all: &[T], at: u8) -> Option<T> {
    (!all.is_empty()).then(|| all[usize::from(at) % all.len()])
}

fn apply(disk: &mut Disk, change: Change) {
    let thing = |disk: &Disk, at: u8| -> Option<(Number, Name, Number)> { pick(&disk.movable(), at) };
    let dir = |disk: &Disk, at: u8| pick(&disk.dirs(), at);
    match change {
        Change::Make { dir: at, name, is_dir } => {
            if let Some(dir) = dir(disk, at) {
                disk.make(dir, name, is_dir);
            }
        }
        Change::Deep { dir: at, first, second } => {
            let outer = dir(disk, at).and_then(|dir| disk.make(dir, first, true));
            let inner = outer.and_then(|outer| disk.make(outer, second, true));
            if let Some(inner) = inner {
                disk.make(inner, "c", false);
            }
        }
        Change::Write(at) | Change::Chmod(at) => {
            if let Some(thing) = thing(disk, at) {
                disk.change(thing, matches!(change, Change::Chmod(_)));
            }
        }
        Change::Remove(at) => {
            if let Some(thing) = thing(disk, at) {
                disk.remove(thing);
            }
        }
        Change::Rename { thing: at, to, name } => {
            if let (Some(thing), Some(to)) = (thing(disk, at), dir(disk, to)) {
                disk.rename(thing, to, name);
            }
        }
        Change::RenameAgain { thing: at, to, name } => {
            if let (Some(thing), Some(to)) = (thing(disk, at), dir(disk, to))
                && disk.rename(thing, to, name)
            {
                disk.rename((to, name, thing.2), thing.0, thing.1);
            }
        }
        Change::Exchange { one, other } => {
            if let (Some(one), Some(other)) = (thing(disk, one), thing(disk, other)) {
                disk.exchange(one, other);
            }
        }
    }
}

impl Drive<'_> {
    fn step(&mut self, op: &Op) {
        match op {
            Op::Change(change) => apply(&mut self.disk, *change),
            Op::Deliver(count) => (0..*count).for_each(|_| self.deliver()),
            Op::Act => self.act(),
            Op::Drain => self.drain(),
            Op::Settle => self.settle(),
            Op::Tick(tick) => self.clock.tick(*tick),
            Op::Retell => self.watch.retell(),
            Op::TakeRoot { is_removed } => self.disk.take_root(*is_removed),
            Op::Close => self.watch.close(),
        }
    }

    fn deliver(&mut self) {
        match self.disk.read() {
            Some(Queued::Notice(notice)) => {
                let now = self.contract.time(self.clock.now);
                self.watch.handle_notice(notice, now);
            }
            Some(Queued::Overflow) => self.watch.handle_lost(),
            None => {}
        }
    }

    fn act(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        self.answered = true;
        match asked {
            Asked::Scan(dir, path) => {
                let scanned = self.disk.scan(&path);
                self.watch.handle_scanned(dir, scanned);
            }
            Asked::List(dir) => {
                let (entries, is_all) = self.disk.list();
                self.watch.handle_listed(dir, entries, is_all);
            }
            Asked::Look(path) => self.watch.handle_looked(self.disk.is_there(&path)),
        }
    }

    fn drain(&mut self) {
        while !self.disk.is_quiet() {
            self.deliver();
        }
        if std::mem::take(&mut self.answered) {
            self.watch.handle_drained();
        }
    }

    /// Polls once; true when it waits.
    fn poll(&mut self) -> bool {
        let output = self.contract.poll(&mut self.watch, self.clock.now);
        self.outputs.push(output.clone());
        let Config { max_held, max_directories, .. } = self.scenario.config;
        // Notices; names that were listed, those of the last answer and what notices told of them.
        assert!(self.watch.held() <= 3 * max_held + CHUNK + 1, "{} are held", self.watch.held());
        assert!(self.watch.directories() <= max_directories + 1);
        match output {
            Output::Scan { dir, path } => self.ask(Asked::Scan(dir, path)),
            Output::List { dir } => self.ask(Asked::List(dir)),
            Output::Look { path } => self.ask(Asked::Look(path)),
            Output::Disarm(wd) => self.disk.disarm(wd),
            Output::Event(event) => {
                self.is_ready &= event.kind != Kind::Overflow;
                self.hear(&event);
            }
            Output::Ready => self.is_ready = true,
            Output::Blind { .. } => {}
            Output::Closed(end) => self.ended = Some(end),
            Output::Wait(at) => {
                self.clock.asked = at;
                return true;
            }
        }
        false
    }

    /// Nothing is told of what is not known.
    fn hear(&mut self, event: &Event) {
        let Event { kind, name, from } = event;
        let known = match kind {
            Kind::Remove | Kind::Write | Kind::Chmod => name,
            Kind::Rename => from.as_ref().expect("a rename has two names"),
            Kind::Create | Kind::Overflow => &Bytes::new(),
        };
        let is_known = self.picture.contains(known) || &**known == b"." && *kind != Kind::Remove;
        assert!(known.is_empty() || is_known, "{event:?} is not known");
        self.picture.apply(event);
    }

    fn ask(&mut self, asked: Asked) {
        assert!(self.asked.is_none() && !self.answered, "it asks for {asked:?} before {:?}", self.asked);
        self.asked = Some(asked);
    }

    /// Comes to rest; then the picture is exact.
    fn settle(&mut self) {
        self.rest();
        self.check();
    }

    /// Hands everything in, does everything, and waits, until there is nothing more.
    fn rest(&mut self) {
        for _ in 0..2_000 {
            while !self.poll() {}
            if self.asked.is_some() {
                self.act();
            } else if self.answered || !self.disk.is_quiet() {
                self.drain();
            } else if let Some(at) = self.clock.asked {
                self.clock.now = at;
            } else {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn check(&self) {
        let Config { recursive, max_directories, .. } = self.scenario.config;
        let is_there = self.disk.is_there(b"");
        match self.ended {
            Some(End::TooManyDirectories) => return assert!(max_directories < 1_000),
            Some(End::Removed | End::Moved) => {
                return assert!(!is_there, "it ended, and the directory is there");
            }
            Some(End::Closed) => return,
            Some(End::Unmounted) => panic!("nothing is unmounted"),
            None => assert!(is_there && self.is_ready, "not ready at rest"),
        }
        let there = self.disk.picture(recursive);
        assert_eq!(readable(&self.picture), readable(&there), "the picture and what is there");
        let extra: Vec<Wd> =
            self.disk.marks().difference(&self.disk.to_be_marked(recursive)).copied().collect();
        assert_eq!(extra, [], "armed for nothing");
    }
}
