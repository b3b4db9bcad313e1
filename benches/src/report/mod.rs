//! One run's figures: the tables to read, and the targets beside them.

mod tables;
mod watches;

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{
    clock,
    machine::Machine,
    measure::{
        company::{Company, crowd::Crowd, stalled::NOISE},
        exit::Exit,
        latency::Latency,
        memory,
        notices::{CHANGES, Notices},
        sessions::Sessions,
        stall::Stall,
        throughput::{Run, Throughput},
        watch,
    },
    table::Table,
    target::Target,
};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The UTC date at the beginning.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// From which arguments.
    pub arguments: Vec<String>,
    /// The first line, and each line's delay.
    pub latency: Vec<Latency>,
    /// Payload per second.
    pub throughput: Vec<Throughput>,
    /// The same of a background process, which carries what it can keep.
    pub attached_throughput: Vec<Throughput>,
    /// From exit to end.
    pub exit: Vec<Exit>,
    /// Memory per open stream.
    pub memory: Vec<memory::Memory>,
    /// Memory per open stream that tells what changes.
    pub listeners: Vec<memory::Memory>,
    /// A reader that stalls.
    pub stall: Vec<Stall>,
    /// A reader beside one that stalls.
    pub beside_stalled: Vec<Company>,
    /// A reader beside many that are quiet.
    pub beside_crowd: Vec<Crowd>,
    /// How often a client is told of changes.
    pub notices: Vec<Notices>,
    /// Memory per session that nobody uses.
    pub sessions: Vec<Sessions>,
    /// How soon a change is told.
    pub watch_delay: Vec<watch::delay::Delay>,
    /// A burst of changes.
    pub watch_burst: Vec<watch::burst::Burst>,
    /// Memory per watched directory.
    pub watch_memory: Vec<watch::memory::Memory>,
    /// Every target, met or missed.
    pub targets: Vec<Target>,
    /// The measurements that are wrong, and therefore missing.
    pub failures: Vec<String>,
}

impl Report {
    /// One with nothing measured yet.
    pub fn new(arguments: Vec<String>) -> Self {
        Self {
            date: clock::date(clock::wall_ns()),
            machine: Machine::this(),
            arguments,
            latency: Vec::new(),
            throughput: Vec::new(),
            attached_throughput: Vec::new(),
            exit: Vec::new(),
            memory: Vec::new(),
            listeners: Vec::new(),
            stall: Vec::new(),
            beside_stalled: Vec::new(),
            beside_crowd: Vec::new(),
            notices: Vec::new(),
            sessions: Vec::new(),
            watch_delay: Vec::new(),
            watch_burst: Vec::new(),
            watch_memory: Vec::new(),
            targets: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The tables, after setting [`targets`](Self::targets).
    pub fn judge(&mut self) -> Result<String, fmt::Error> {
        let mut targets = tables::Targets::default();
        let mut text = format!("Streams, {}: {}\n", self.date, self.machine.describe());
        let mut section = |head: String, table: Table| write!(text, "\n{head}\n\n{table}");
        if let Some(runs) = self.latency.first().map(|row| row.runs.len()) {
            let head = format!("A line every 100 ms for 3 s, {runs} interleaved runs (p50 / p95, ms)");
            section(head, tables::latency(&self.latency, &mut targets))?;
        }
        for (rows, kept) in [(&self.throughput, ""), (&self.attached_throughput, ", all of them kept")] {
            if let Some(Run { bytes, .. }) = rows.iter().find_map(|row| row.runs.first()) {
                let runs = rows.first().map_or(0, |row| row.runs.len());
                let head = format!("{} MiB of lines{kept}, {runs} interleaved runs (medians)", bytes >> 20);
                section(head, tables::throughput(rows, &mut targets))?;
            }
        }
        if let Some(runs) = self.exit.first().map(|row| row.ends_ns.len()) {
            let head =
                format!("From the command's last act to the end, {runs} interleaved runs (p50 / p95, ms)");
            section(head, tables::exit(&self.exit, &mut targets))?;
        }
        for (rows, what) in [(&self.memory, "quiet streams"), (&self.listeners, "quiet streams of notices")] {
            if let Some(streams) = rows.first().map(|row| row.streams) {
                section(format!("{streams} {what} open"), tables::memory(rows, &mut targets))?;
            }
        }
        if let Some(seconds) = self.stall.first().map(|row| row.rss_kib.len()) {
            let head =
                format!("A client that does not read for {seconds} s, and then reads everything (RSS, KiB)");
            section(head, tables::stall(&self.stall))?;
        }
        if let Some(runs) = self.beside_stalled.first().map(|row| row.alone_ns.len()) {
            let head = format!(
                "A line and {} KiB of noise every 50 ms for 3 s, alone and beside a reader that stalls, \
                 {runs} interleaved runs (p50 / p95, ms)",
                NOISE >> 10
            );
            section(head, tables::beside_stalled(&self.beside_stalled, &mut targets))?;
        }
        if let Some(Crowd { company, followers, .. }) = self.beside_crowd.first() {
            let runs = company.alone_ns.len();
            let head = format!(
                "A line every 100 ms for 3 s, alone and beside {followers} quiet followers, {runs} interleaved runs \
                 (p50 / p95, ms)"
            );
            section(head, tables::beside_crowd(&self.beside_crowd, &mut targets))?;
        }
        if let Some(runs) = self.notices.first().map(|row| row.at_ms.len()) {
            let head = format!("{CHANGES} changes of one resource within a second, {runs} interleaved runs");
            section(head, tables::notices(&self.notices, &mut targets))?;
        }
        if let Some(sessions) = self.sessions.first().map(|row| row.sessions) {
            let head = format!("{sessions} sessions that nobody uses, and twice as many that are over (KiB)");
            section(head, tables::sessions(&self.sessions, &mut targets))?;
        }
        if let Some(runs) = self.watch_delay.first().map(|row| row.delays_ns.len()) {
            let (changes, every) = (watch::delay::CHANGES, watch::delay::EVERY_MS);
            let head = format!(
                "{changes} changes of a watched directory, {every} ms apart, {runs} interleaved runs (p50 / p95, ms)"
            );
            section(head, watches::delay(&self.watch_delay, &mut targets))?;
        }
        if let Some(runs) = self.watch_burst.first().map(|row| row.runs.len()) {
            let (directories, files) = (watch::burst::DIRECTORIES, watch::burst::FILES);
            let head = format!(
                "{} changes, {directories} new directories with {files} files each, watched with all below, \
                 {runs} interleaved runs (medians)",
                directories * (files + 1)
            );
            section(head, watches::burst(&self.watch_burst, &mut targets))?;
        }
        if let Some(directories) = self.watch_memory.first().map(|row| row.directories) {
            let head = format!("{directories} watched directories (KiB)");
            section(head, watches::memory(&self.watch_memory, &mut targets))?;
        }
        for failure in &self.failures {
            write!(text, "\nWRONG: {failure}\n")?;
        }
        self.targets = targets.0;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{proc::Memory, row::Row, server::Runtime, stats::Spread};

    fn row(row: Row, first: f64, p50: f64, p95: f64) -> Latency {
        let first_line = Spread { p50_ms: first, p95_ms: first };
        Latency { row, first_line, delay: Spread { p50_ms: p50, p95_ms: p95 }, runs: Vec::new() }
    }

    #[test]
    fn rows_are_judged_against_the_floors_of_the_same_run() {
        let mut report = Report::new(Vec::new());
        report.latency = vec![
            row(Row::Pipe, 104.0, 0.05, 0.1),
            row(Row::Relay, 105.0, 0.2, 0.4),
            row(Row::Stream(Runtime::Tokio), 106.5, 0.25, 1.0),
            row(Row::Stream(Runtime::Smol), 107.5, 0.5, 9.0),
            row(Row::Unstreamed(Runtime::Tokio), 3100.0, 1500.0, 2900.0),
        ];
        let text = report.judge().unwrap();
        let met: Vec<_> = report.targets.iter().map(|target| (target.what.as_str(), target.met)).collect();
        let expected = [
            ("tokio: first line p50, pipe + 3 ms", true),
            ("tokio: delay p50, relay + 0.10 ms", true),
            ("tokio: delay p95, 1.5 x relay + 0.30 ms", false),
            ("smol: first line p50, pipe + 3 ms", false),
            ("smol: delay p50, relay + 0.35 ms", true),
        ];
        assert_eq!(met, expected);
        assert!(text.contains("MISSED by 0.100") && text.contains("exec, unstreamed, tokio"), "{text}");
    }

    #[test]
    fn a_socket_has_to_carry_more_than_events() {
        let carried = |row| Throughput {
            row,
            mib_per_second: 700.0,
            ratio_to_relay: Some(0.7),
            cpu_seconds_per_gib: None,
            runs: vec![Run { bytes: 60 << 20, elapsed_ns: 1, cpu_seconds: None, client_cpu_seconds: 0.0 }],
        };
        let mut report = Report::new(Vec::new());
        report.throughput = vec![carried(Row::Raised(Runtime::Smol))];
        report.attached_throughput = vec![carried(Row::RaisedAttached(Runtime::Smol))];
        let text = report.judge().unwrap();
        assert_eq!(report.targets.iter().map(|target| target.met).collect::<Vec<_>>(), [true, false]);
        assert!(text.contains("60 MiB of lines, all of them kept, 1 interleaved runs"), "{text}");
    }

    #[test]
    fn a_reader_is_judged_against_itself_alone() {
        let company = |row, beside| Company {
            row,
            alone: Spread { p50_ms: 0.5, p95_ms: 1.0 },
            beside: Spread { p50_ms: 0.5, p95_ms: beside },
            p95_ratio: beside,
            alone_ns: vec![Vec::new()],
            beside_ns: vec![Vec::new()],
        };
        let memory = Memory { pss_kib: None, rss_kib: 9000, anonymous_kib: 5000 };
        let mut report = Report::new(Vec::new());
        report.beside_stalled = vec![company(Row::RaisedAttached(Runtime::Smol), 1.8)];
        report.beside_crowd = vec![Crowd {
            company: company(Row::Stream(Runtime::Smol), 1.8),
            followers: 300,
            kind: "RssAnon",
            kib_per_follower: 12.34,
            before: memory,
            open: memory,
            after: memory,
        }];
        let text = report.judge().unwrap();
        assert_eq!(report.targets.iter().map(|target| target.met).collect::<Vec<_>>(), [false, true]);
        assert!(text.contains("beside 300 quiet followers") && text.contains("12.3 RssAnon"), "{text}");
    }

    #[test]
    fn without_a_floor_nothing_is_judged() {
        let mut report = Report::new(Vec::new());
        report.latency = vec![row(Row::Stream(Runtime::Tokio), 106.5, 0.25, 1.0)];
        report.judge().unwrap();
        assert!(report.targets.is_empty());
    }
}
