//! What /proc says about a process.

use std::{collections::BTreeMap, fs, net::SocketAddr};

use serde::Serialize;

use crate::Result;

/// The CPU time a process has used itself, its reaped children excluded, in seconds.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = stat_field(&stat, 14).zip(stat_field(&stat, 15)).map(|(user, system)| user + system);
    let ticks = ticks.ok_or_else(|| format!("/proc/{pid}/stat has no CPU times"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A numeric field of /proc/PID/stat by its number in proc(5); those after the name only, which may hold anything.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The memory of one process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Its own pages and its share of the shared ones; unset when this user may not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss_kib: Option<u64>,
    /// Its resident pages.
    pub rss_kib: u64,
    /// Its resident pages that no file backs: heap and stacks.
    pub anonymous_kib: u64,
}

impl Memory {
    /// Of the process `pid`, its children excluded.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field =
            |name| kib_field(&status, name).ok_or_else(|| format!("/proc/{pid}/status has no {name}"));
        // Refused for a process that is not dumpable, unless we are root.
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
        Ok(Self {
            pss_kib: rollup.as_deref().and_then(|rollup| kib_field(rollup, "Pss")),
            rss_kib: field("VmRSS")?,
            anonymous_kib: field("RssAnon")?,
        })
    }
}

/// The most that was ever resident of the process `pid`, in KiB.
pub fn peak_rss_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(kib_field(&status, "VmHWM").ok_or_else(|| format!("/proc/{pid}/status has no VmHWM"))?)
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Sockets that the process `pid` has open.
pub fn sockets(pid: u32) -> Result<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))?;
    // A file that was closed meanwhile is no socket.
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() as u64)
}

/// Directories and files that the process `pid` watches by inotify.
pub fn inotify_watches(pid: u32) -> Result<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo"))?;
    // What was closed meanwhile watches nothing.
    let texts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    Ok(texts.map(|text| watches_in(&text)).sum())
}

fn watches_in(text: &str) -> u64 {
    text.lines().filter(|line| line.starts_with("inotify wd:")).count() as u64
}

/// Every living process below `pid`, children before grandchildren. Zombies are not living.
pub fn descendants(pid: u32) -> Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process that ended meanwhile is no descendant.
        let Ok(stat) = fs::read_to_string(format!("/proc/{child}/stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if let (Some(parent), false) = (stat_field(&stat, 4), matches!(state, Some('Z' | 'X'))) {
            children.entry(u32::try_from(parent)?).or_default().push(child);
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        found.extend(children.remove(parent).unwrap_or_default());
        next += 1;
    }
    found.remove(0);
    Ok(found)
}

/// Bytes that were written to the `local` end of a TCP connection on this machine, and have not come to the `remote` one.
pub fn unsent(local: SocketAddr, remote: SocketAddr) -> Result<u64> {
    let connections = fs::read_to_string("/proc/net/tcp")?;
    Ok(unsent_in(&connections, local, remote).ok_or_else(|| format!("no connection of {remote}"))?)
}

fn unsent_in(connections: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let ends = [hexadecimal(local)?, hexadecimal(remote)?];
    connections.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != ends[0] || fields.next()? != ends[1] {
            return None;
        }
        let (unsent, _) = fields.nth(1)?.split_once(':')?;
        u64::from_str_radix(unsent, 16).ok()
    })
}

/// An address as /proc/net/tcp has it; none of IPv6.
fn hexadecimal(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 1 0 100 0 0";
        assert_eq!(
            (stat_field(stat, 4), stat_field(stat, 14), stat_field(stat, 15)),
            (Some(7), Some(150), Some(25))
        );
        assert_eq!(stat_field("nonsense", 4), None);
    }

    #[test]
    fn fields_in_kib() {
        let text = "Rss:     1800 kB\nPss:      612 kB\nPss_Dirty:   80 kB\n";
        assert_eq!((kib_field(text, "Pss"), kib_field(text, "Swap")), (Some(612), None));
    }

    #[test]
    fn watches_are_lines_of_their_own() {
        let text = "pos:\t0\nflags:\t02004000\ninotify wd:2 ino:7 sdev:800001 mask:8 ignored_mask:0\n\
            inotify wd:1 ino:9 sdev:800001 mask:8 ignored_mask:0\n";
        assert_eq!((watches_in(text), watches_in("eventfd-count: 0\n")), (2, 0));
    }

    #[test]
    fn what_a_connection_has_not_sent() {
        let connections = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n   \
            1: 0100007F:7919 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
            2: 0100007F:7919 0100007F:8001 01 0001F4C0:00000002 01:00000014 00000000     0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let expected = if cfg!(target_endian = "little") { Some(0x1_F4C0) } else { None };
        assert_eq!(unsent_in(connections, at(0x7919), at(0x8001)), expected);
        assert_eq!(unsent_in(connections, at(0x8001), at(0x7919)), None);
        assert_eq!(unsent_in(connections, SocketAddr::from(([0; 16], 1)), at(1)), None);
    }

    #[test]
    fn our_own_process() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.rss_kib >= memory.anonymous_kib && memory.anonymous_kib > 0);
        assert!(peak_rss_kib(std::process::id()).unwrap() >= memory.anonymous_kib);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(sockets(std::process::id()).unwrap() > 0);
        drop(listener);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).unwrap().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
