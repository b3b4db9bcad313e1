//! How busy and how full the sandbox is, for `/metrics`.

use super::{Body, Daemon, answer};
use hyper::Response;
use serde::Serialize;
use std::{fs, sync::PoisonError, thread::available_parallelism};

/// In the words of envd. What cannot be read is 0: a sandbox may have no `/proc`.
#[derive(Serialize)]
struct Metrics {
    /// Seconds since 1970.
    ts: i64,
    cpu_count: usize,
    /// Of all processors, since the last time that somebody asked; since the start at first.
    cpu_used_pct: f32,
    mem_total: u64,
    mem_used: u64,
    mem_cache: u64,
    mem_total_mib: u64,
    mem_used_mib: u64,
    disk_used: u64,
    disk_total: u64,
}

/// What the processors had done when somebody asked last.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Processor {
    busy: u64,
    all: u64,
}

impl Processor {
    /// Of the first line of `/proc/stat`.
    fn parse(stat: &str) -> Option<Self> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        // The last two, of guests, are counted in the first two.
        let all: u64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        Some(Self { busy: all.saturating_sub(idle), all })
    }

    /// How busy it was since `before`, in percent.
    fn since(self, before: Self) -> f32 {
        let all = self.all.saturating_sub(before.all);
        let busy = self.busy.saturating_sub(before.busy);
        #[expect(clippy::cast_precision_loss, reason = "a percentage, for a person")]
        if all == 0 { 0.0 } else { busy as f32 * 100.0 / all as f32 }
    }
}

/// Of `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Memory {
    total: u64,
    available: u64,
    cached: u64,
}

impl Memory {
    fn parse(meminfo: &str) -> Self {
        let kib = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            total: kib("MemTotal") * 1024,
            available: kib("MemAvailable") * 1024,
            cached: kib("Cached") * 1024,
        }
    }
}

/// How busy and how full it is.
pub(super) async fn metrics(daemon: &Daemon) -> Response<Body> {
    let read = daemon.on_a_thread(|| {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let disk = rustix::fs::statvfs("/").ok();
        (
            Processor::parse(&text("/proc/stat")).unwrap_or_default(),
            Memory::parse(&text("/proc/meminfo")),
            disk,
        )
    });
    let (processor, memory, disk) = read.await.unwrap_or_default();
    let before = {
        let mut last = daemon.processor.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *last, processor)
    };
    let used = memory.total.saturating_sub(memory.available);
    let disk = disk.map_or((0, 0), |disk| {
        let total = disk.f_blocks * disk.f_frsize;
        (total.saturating_sub(disk.f_bfree * disk.f_frsize), total)
    });
    answer::json(&Metrics {
        ts: daemon.runtime.wall_ms() / 1000,
        cpu_count: available_parallelism().map_or(0, usize::from),
        cpu_used_pct: processor.since(before),
        mem_total: memory.total,
        mem_used: used,
        mem_cache: memory.cached,
        mem_total_mib: memory.total >> 20,
        mem_used_mib: used >> 20,
        disk_used: disk.0,
        disk_total: disk.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_busy_between_two_looks() {
        let stat = "cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2 3\n";
        let first = Processor::parse(stat).unwrap();
        assert_eq!(first, Processor { busy: 150, all: 1000 });
        let second = Processor { busy: 200, all: 1200 };
        assert!((second.since(first) - 25.0).abs() < 1e-6);
        assert!((first.since(first)).abs() < 1e-6);
        assert!((first.since(second)).abs() < 1e-6, "a clock that went back");
        assert_eq!((Processor::parse(""), Processor::parse("cpu  1 2")), (None, None));
    }

    #[test]
    fn memory_is_read_by_name() {
        let meminfo = "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:  1024 kB\nCached: 512 kB\nSwapCached: 9 kB\n";
        assert_eq!(Memory::parse(meminfo), Memory { total: 2 << 20, available: 1 << 20, cached: 512 << 10 });
        assert_eq!(Memory::parse(""), Memory::default());
    }
}
