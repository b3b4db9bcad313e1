//! A watch, step by step: what the scenarios of `hangar_core::testing::watch` leave open.

use bytes::Bytes;
use hangar_core::{
    Time,
    watch::{Config, Dir, End, Entry, Event, Kind, Notice, Output, Scanned, Watch, Wd, What},
};
use std::time::Duration;

const CONFIG: Config = Config {
    recursive: true,
    tells_existing: false,
    max_held: 100,
    max_directories: 4,
    rename_wait: Duration::from_millis(5),
};

const ROOT: Wd = Wd(1);

/// The directory that the watched one is in, where it is called `w`.
const ABOVE: Wd = Wd(9);

fn notice(wd: Wd, what: What, name: &'static str) -> Notice {
    Notice { wd, what, is_dir: false, cookie: 7, name: Some(name.into()) }
}

fn of_itself(wd: Wd, what: What) -> Notice {
    Notice { wd, what, is_dir: true, cookie: 0, name: None }
}

fn event(kind: Kind, name: &'static str) -> Output {
    Output::Event(Event::new(kind, name.into()))
}

fn scan(watch: &mut Watch) -> (Dir, Bytes) {
    let output = watch.poll_output(Time::ZERO);
    let Output::Scan { dir, path } = output else { panic!("{output:?} instead of a scan") };
    (dir, path)
}

/// Answers a scan: a directory of this number, with these directories in it.
fn answer(watch: &mut Watch, dir: Dir, wd: Wd, names: &[&'static str]) {
    let above = (wd == ROOT).then(|| (ABOVE, Bytes::from_static(b"w")));
    let entries = names.iter().map(|name| Entry { name: (*name).into(), is_dir: true }).collect();
    watch.handle_scanned(dir, Ok(Scanned { wd, above, entries, is_all: true }));
    watch.handle_drained();
}

/// A watch of a directory with nothing in it.
fn ready() -> Watch {
    let mut watch = Watch::new(CONFIG, Time::ZERO);
    let (dir, path) = scan(&mut watch);
    assert_eq!(path, "");
    answer(&mut watch, dir, ROOT, &[]);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Ready);
    watch
}

#[test]
fn the_halves_of_a_rename_wait_for_each_other_and_not_for_ever() {
    let mut watch = ready();
    let until = Time::ZERO + CONFIG.rename_wait;
    watch.handle_notice(notice(ROOT, What::MovedFrom, "a"), Time::ZERO);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Wait(Some(until)));
    watch.handle_notice(notice(ROOT, What::MovedTo, "b"), Time::ZERO);
    let rename = Output::Event(Event::rename("a".into(), "b".into()));
    assert_eq!(watch.poll_output(Time::ZERO), rename);
    watch.handle_notice(notice(ROOT, What::MovedFrom, "c"), Time::ZERO);
    watch.handle_notice(notice(ROOT, What::Create, "d"), Time::ZERO);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Wait(Some(until)));
    assert_eq!(watch.poll_output(until), event(Kind::Remove, "c"));
    assert_eq!(watch.poll_output(until), event(Kind::Create, "d"));
    assert_eq!(watch.poll_output(until), Output::Wait(None));
}

#[test]
fn each_end_has_its_reason() {
    let ended = |notices: &[Notice]| {
        let mut watch = ready();
        notices.iter().for_each(|notice| watch.handle_notice(notice.clone(), Time::ZERO));
        let output = watch.poll_output(Time::ZERO);
        let Output::Closed(end) = output else { panic!("{output:?} instead of an end") };
        end
    };
    assert_eq!(ended(&[of_itself(ROOT, What::DeleteSelf)]), End::Removed);
    assert_eq!(ended(&[of_itself(ROOT, What::Ignored)]), End::Removed);
    assert_eq!(ended(&[of_itself(ROOT, What::MoveSelf)]), End::Moved);
    assert_eq!(ended(&[of_itself(ROOT, What::Unmount)]), End::Unmounted);
    // Somebody holds it, and the system keeps it for them: the directory above tells it.
    assert_eq!(ended(&[notice(ABOVE, What::Delete, "w")]), End::Removed);
    assert_eq!(ended(&[notice(ABOVE, What::MovedFrom, "w")]), End::Moved);
    assert_eq!(ended(&[notice(ABOVE, What::MovedTo, "w")]), End::Removed);
    let exchanged = [notice(ABOVE, What::MovedTo, "w"), of_itself(ROOT, What::MoveSelf)];
    assert_eq!(ended(&exchanged), End::Moved);
    // What else happens there is nobody's business here.
    let mut watch = ready();
    watch.handle_notice(notice(ABOVE, What::Delete, "x"), Time::ZERO);
    watch.handle_notice(notice(ABOVE, What::Modify, "w"), Time::ZERO);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Wait(None));
}

#[test]
fn what_an_unmounted_file_system_covered_is_there_again() {
    let mut watch = ready();
    let made = Notice { is_dir: true, ..notice(ROOT, What::Create, "m") };
    watch.handle_notice(made, Time::ZERO);
    assert_eq!(watch.poll_output(Time::ZERO), event(Kind::Create, "m"));
    let (dir, _) = scan(&mut watch);
    answer(&mut watch, dir, Wd(2), &["inner"]);
    assert_eq!(watch.poll_output(Time::ZERO), event(Kind::Create, "m/inner"));
    let (dir, _) = scan(&mut watch);
    answer(&mut watch, dir, Wd(3), &[]);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Wait(None));
    for wd in [Wd(2), Wd(3)] {
        watch.handle_notice(of_itself(wd, What::Unmount), Time::ZERO);
        watch.handle_notice(of_itself(wd, What::Ignored), Time::ZERO);
    }
    let mut told = Vec::new();
    let (dir, path) = loop {
        let output = watch.poll_output(Time::ZERO);
        if let Output::Scan { dir, path } = output {
            break (dir, path);
        }
        told.extend(Some(output).filter(|output| !matches!(output, Output::Disarm(_))));
    };
    assert_eq!(told, [event(Kind::Remove, "m"), event(Kind::Create, "m")]);
    assert_eq!(path, "m");
    answer(&mut watch, dir, Wd(4), &["covered"]);
    assert_eq!(watch.poll_output(Time::ZERO), event(Kind::Create, "m/covered"));
}

#[test]
fn more_directories_than_may_be_watched_are_the_end_of_it() {
    let mut watch = Watch::new(CONFIG, Time::ZERO);
    let (dir, _) = scan(&mut watch);
    answer(&mut watch, dir, ROOT, &["a", "b", "c", "d"]);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Closed(End::TooManyDirectories));
    assert_eq!((watch.directories(), watch.held()), (0, 0));
}

#[test]
fn what_was_lost_before_it_was_ready_is_not_told() {
    let mut watch = Watch::new(CONFIG, Time::ZERO);
    let (dir, _) = scan(&mut watch);
    watch.handle_lost();
    answer(&mut watch, dir, ROOT, &[]);
    let (again, path) = scan(&mut watch);
    assert_ne!(again, dir);
    assert_eq!(path, "");
    assert!(!watch.is_ready());
    answer(&mut watch, again, ROOT, &[]);
    assert_eq!(watch.poll_output(Time::ZERO), Output::Ready);
    assert!(watch.is_ready());
    watch.handle_lost();
    assert_eq!(watch.poll_output(Time::ZERO), event(Kind::Overflow, "."));
}

#[test]
fn every_kind_has_a_word_of_its_own() {
    let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words, ["chmod", "create", "overflow", "remove", "rename", "write"]);
    assert_eq!(Event::rename("ab".into(), "c".into()).len(), 3);
    assert!(Event::new(Kind::Create, Bytes::new()).is_empty());
    assert_eq!(Kind::ALL.first().copied().unwrap(), Kind::Create);
}
