//! What a watch tells, as the events of a stream: as hangar's daemon tells it to those that know it, and as envd would to
//! everybody else.

use super::filesystem::FilesystemEvent;
use crate::watch::{Blind, End, Event, Kind};
use bytes::Bytes;

/// What an event of hangar's daemon says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// Something changed.
    Event(Event),
    /// From here on every change is told.
    Ready,
    /// What is below the name is not told.
    Blind {
        /// Relative to the watched directory.
        name: Bytes,
        /// Why.
        why: Blind,
    },
    /// Nothing follows.
    Ended(End),
}

/// All that is said, for who knows hangar.
pub fn extended(said: &Said) -> FilesystemEvent {
    match said {
        Said::Event(event) => FilesystemEvent {
            from: event.from.clone(),
            overflow: event.kind == Kind::Overflow,
            ..named(number(event.kind), &event.name)
        },
        Said::Ready => FilesystemEvent { ready: true, ..FilesystemEvent::default() },
        Said::Blind { name, why } => FilesystemEvent { blind: Some(why.word().to_owned()), ..named(0, name) },
        Said::Ended(end) => {
            FilesystemEvent { end: Some(end.word().to_owned()), ..FilesystemEvent::default() }
        }
    }
}

/// The same as envd says it: a rename is one of the old name and a `create` of the new one, the end of what is watched is a
/// `remove` of `.`. It has no words for the rest. Bytes of a name that are not UTF-8 are U+FFFD.
pub fn plain(said: &Said) -> impl Iterator<Item = FilesystemEvent> {
    let (first, second) = match said {
        Said::Event(Event { kind: Kind::Overflow, .. }) | Said::Ready | Said::Blind { .. } => (None, None),
        Said::Event(Event { kind, name, from: Some(from) }) => {
            (Some(plainly(number(*kind), from)), Some(plainly(number(Kind::Create), name)))
        }
        Said::Event(Event { kind, name, from: None }) => (Some(plainly(number(*kind), name)), None),
        Said::Ended(_) => (Some(plainly(number(Kind::Remove), b".")), None),
    };
    first.into_iter().chain(second)
}

/// What an event says to who knows hangar; None where it says nothing that is known.
pub fn read(event: FilesystemEvent) -> Option<Said> {
    let FilesystemEvent { name, kind, name_bytes, from, overflow, ready, blind: word, end: last, .. } = event;
    let name = name_bytes.unwrap_or_else(|| Bytes::from(name));
    if let Some(last) = last {
        return End::ALL.into_iter().find(|known| known.word() == last).map(Said::Ended);
    }
    if let Some(word) = word {
        let why = Blind::ALL.into_iter().find(|known| known.word() == word)?;
        return Some(Said::Blind { name, why });
    }
    if ready {
        return Some(Said::Ready);
    }
    if overflow {
        return Some(Said::Event(Event::overflow()));
    }
    Some(Said::Event(Event { kind: change(kind)?, name, from }))
}

/// The change that has this number.
pub fn change(number: i32) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| self::number(*kind) == number && *kind != Kind::Overflow)
}

const fn number(kind: Kind) -> i32 {
    match kind {
        Kind::Overflow => 0,
        Kind::Create => 1,
        Kind::Write => 2,
        Kind::Remove => 3,
        Kind::Rename => 4,
        Kind::Chmod => 5,
    }
}

fn plainly(kind: i32, name: &[u8]) -> FilesystemEvent {
    FilesystemEvent { name: String::from_utf8_lossy(name).into_owned(), kind, ..FilesystemEvent::default() }
}

fn named(kind: i32, name: &Bytes) -> FilesystemEvent {
    let name_bytes = std::str::from_utf8(name).is_err().then(|| name.clone());
    FilesystemEvent { name_bytes, ..plainly(kind, name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Bytes = Bytes::from_static(b"a/b");
    const ODD: Bytes = Bytes::from_static(b"a\xff");

    fn all() -> Vec<Said> {
        let mut all = vec![Said::Ready, Said::Event(Event::overflow())];
        all.extend(End::ALL.map(Said::Ended));
        for name in [NAME, ODD, Bytes::from_static(b".")] {
            all.extend(Blind::ALL.map(|why| Said::Blind { name: name.clone(), why }));
            for kind in [Kind::Create, Kind::Write, Kind::Remove, Kind::Rename, Kind::Chmod] {
                all.push(Said::Event(Event::new(kind, name.clone())));
            }
            all.push(Said::Event(Event::rename(ODD, name)));
        }
        all
    }

    #[test]
    fn what_is_said_to_who_knows_hangar_is_read_as_it_was_said() {
        for said in all() {
            assert_eq!(read(extended(&said)), Some(said));
        }
        for nothing in [
            FilesystemEvent::default(),
            FilesystemEvent { kind: 6, name: "a".into(), ..FilesystemEvent::default() },
            FilesystemEvent { blind: Some("x".into()), ..FilesystemEvent::default() },
            FilesystemEvent { end: Some("x".into()), ..FilesystemEvent::default() },
        ] {
            assert_eq!(read(nothing), None);
        }
    }

    #[test]
    fn everybody_else_is_told_what_envd_tells() {
        let told = |said: Said| plain(&said).map(|event| (event.kind, event.name)).collect::<Vec<_>>();
        let one = |kind: i32, name: &str| vec![(kind, name.to_owned())];
        let event = |kind, name| Said::Event(Event::new(kind, name));
        assert_eq!(told(event(Kind::Create, NAME)), one(1, "a/b"));
        assert_eq!(told(event(Kind::Write, NAME)), one(2, "a/b"));
        assert_eq!(told(event(Kind::Remove, NAME)), one(3, "a/b"));
        assert_eq!(told(event(Kind::Chmod, ODD)), one(5, "a\u{fffd}"));
        assert_eq!(
            told(Said::Event(Event::rename(NAME, Bytes::from_static(b"c")))),
            [(4, "a/b".to_owned()), (1, "c".to_owned())]
        );
        for end in End::ALL {
            assert_eq!(told(Said::Ended(end)), one(3, "."));
        }
        assert_eq!(told(Said::Ready), []);
        assert_eq!(told(Said::Event(Event::overflow())), []);
        assert_eq!(told(Said::Blind { name: NAME, why: Blind::Denied }), []);
        for said in all() {
            for event in plain(&said) {
                let FilesystemEvent { name, kind, .. } = event.clone();
                assert_eq!(event, FilesystemEvent { name, kind, ..FilesystemEvent::default() });
            }
        }
    }
}
