//! What changes the directories that are watched, in processes of their own.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write as _,
    path::Path,
    thread,
    time::Duration,
};

use crate::{Result, clock::wall_ns};

/// `count` changes of the names in `directory`, each after a sleep: a file is made, and then it gets another name. Each
/// name is the number of the change from 0, and the wall clock in nanoseconds right before it.
pub fn touch(directory: &Path, count: u32, every: Duration) -> Result<()> {
    let mut before = None;
    for number in 0..count {
        thread::sleep(every);
        let path = directory.join(stamped(number, wall_ns()));
        match before.take() {
            None => {
                File::create(&path)?;
                before = Some(path);
            }
            Some(before) => fs::rename(before, path)?,
        }
    }
    Ok(())
}

fn stamped(number: u32, at_ns: u64) -> String {
    format!("{number}-{at_ns}")
}

/// The number and the time in a name of [`touch`].
pub fn parse_stamped(name: &str) -> Option<(u32, u64)> {
    let (number, at_ns) = name.split_once('-')?;
    Some((number.parse().ok()?, at_ns.parse().ok()?))
}

/// Makes so many directories in `directory`, one after the other, and so many files in each, as fast as it can. Each is
/// written to.
pub fn burst(directory: &Path, directories: u32, files: u32) -> Result<()> {
    for number in 0..directories {
        let directory = directory.join(number.to_string());
        fs::create_dir(&directory)?;
        for number in 0..files {
            File::create(directory.join(number.to_string()))?.write_all(b"x")?;
        }
    }
    Ok(())
}

/// The names that [`burst`] makes.
pub fn made(directories: u32, files: u32) -> BTreeSet<String> {
    let all = (0..directories).flat_map(|directory| {
        let files = (0..files).map(move |number| format!("{directory}/{number}"));
        files.chain([directory.to_string()])
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Scratch;

    fn names(directory: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(directory).unwrap().map(name).collect()
    }

    #[test]
    fn names_say_which_change_it_was_and_when() {
        assert_eq!(
            parse_stamped(&stamped(7, 1_800_000_000_000_000_000)),
            Some((7, 1_800_000_000_000_000_000))
        );
        assert_eq!(parse_stamped("7"), None);
        let scratch = Scratch::new().unwrap();
        let before = wall_ns();
        touch(scratch.path(), 5, Duration::ZERO).unwrap();
        let mut stamps: Vec<_> =
            names(scratch.path()).iter().map(|name| parse_stamped(name).unwrap()).collect();
        stamps.sort_unstable();
        assert_eq!(stamps.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3, 4]);
        assert!(stamps.is_sorted_by_key(|(_, at)| *at) && stamps[0].1 >= before && stamps[2].1 <= wall_ns());
    }

    #[test]
    fn a_burst_leaves_directories_of_files() {
        let scratch = Scratch::new().unwrap();
        burst(scratch.path(), 3, 2).unwrap();
        let mut there = BTreeSet::new();
        for directory in names(scratch.path()) {
            let files = names(&scratch.path().join(&directory));
            there.extend(
                files.into_iter().map(|file| format!("{directory}/{file}")).chain([directory.clone()]),
            );
        }
        assert_eq!(there, made(3, 2));
        assert_eq!(made(3, 2).len(), 9);
        assert_eq!(fs::read(scratch.path().join("1/1")).unwrap(), b"x");
    }
}
