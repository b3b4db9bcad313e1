//! One run's figures: the tables to read, and the targets beside them.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{
    clock,
    machine::Machine,
    measure::{
        exit::Exit,
        latency::Latency,
        memory::Memory,
        stall::Stall,
        throughput::{Run, Throughput},
    },
    row::Row,
    server::Runtime,
    stats::Spread,
    table::Table,
    target::Target,
};

/// What one open `exec/stream` may cost, with its command, in KiB.
const STREAM_KIB: f64 = 28.0;

/// What one reader of a background process may cost, in KiB.
const READER_KIB: f64 = 16.0;

/// What an `exec/stream` carries at the least of what the relay does, escaping all of it.
const STREAM_RATIO: f64 = 0.5;

/// What a WebSocket does, which carries bytes as they are.
const ATTACHED_RATIO: f64 = 0.8;

/// What a server may add to the first line, and to the end, in milliseconds.
const SERVER_MS: f64 = 3.0;

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
    pub memory: Vec<Memory>,
    /// A reader that stalls.
    pub stall: Vec<Stall>,
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
            stall: Vec::new(),
            targets: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The tables, after setting [`targets`](Self::targets).
    pub fn judge(&mut self) -> Result<String, fmt::Error> {
        let mut targets = Targets::default();
        let mut text = format!("Streams, {}: {}\n", self.date, self.machine.describe());
        let mut section = |head: String, table: Table| write!(text, "\n{head}\n\n{table}");
        if let Some(runs) = self.latency.first().map(|row| row.runs.len()) {
            let head = format!("A line every 100 ms for 3 s, {runs} interleaved runs (p50 / p95, ms)");
            section(head, latency(&self.latency, &mut targets))?;
        }
        for (rows, kept) in [(&self.throughput, ""), (&self.attached_throughput, ", all of them kept")] {
            if let Some(Run { bytes, .. }) = rows.iter().find_map(|row| row.runs.first()) {
                let runs = rows.first().map_or(0, |row| row.runs.len());
                let head = format!("{} MiB of lines{kept}, {runs} interleaved runs (medians)", bytes >> 20);
                section(head, throughput(rows, &mut targets))?;
            }
        }
        if let Some(runs) = self.exit.first().map(|row| row.ends_ns.len()) {
            let head =
                format!("From the command's last act to the end, {runs} interleaved runs (p50 / p95, ms)");
            section(head, exit(&self.exit, &mut targets))?;
        }
        if let Some(streams) = self.memory.first().map(|row| row.streams) {
            section(format!("{streams} quiet streams open"), memory(&self.memory, &mut targets))?;
        }
        if let Some(seconds) = self.stall.first().map(|row| row.rss_kib.len()) {
            let head =
                format!("A client that does not read for {seconds} s, and then reads everything (RSS, KiB)");
            section(head, stall(&self.stall))?;
        }
        for failure in &self.failures {
            write!(text, "\nWRONG: {failure}\n")?;
        }
        self.targets = targets.0;
        Ok(text)
    }
}

#[derive(Default)]
struct Targets(Vec<Target>);

impl Targets {
    /// Keeps the target, and gives its text; nothing when there is nothing to judge by.
    fn judge(&mut self, target: Option<Target>) -> String {
        let Some(target) = target else { return String::new() };
        let text = target.to_string();
        self.0.push(target);
        text
    }
}

fn spread(Spread { p50_ms, p95_ms }: Spread) -> String {
    format!("{p50_ms:.2} / {p95_ms:.2}")
}

/// The runtime of a row that streams.
const fn streams(row: Row) -> Option<Runtime> {
    match row {
        Row::Stream(runtime)
        | Row::Raised(runtime)
        | Row::Attached(runtime)
        | Row::RaisedAttached(runtime)
        | Row::Followed(runtime) => Some(runtime),
        Row::Pipe | Row::Relay | Row::Unstreamed(_) => None,
    }
}

fn latency(rows: &[Latency], targets: &mut Targets) -> Table {
    let heads = ["how the client sees output", "first line", "p50", "each line's delay", "p50", "p95"];
    let mut table = Table::new(&heads);
    let pipe = rows.iter().find(|row| row.row == Row::Pipe);
    let relay = rows.iter().find(|row| row.row == Row::Relay);
    for Latency { row, first_line, delay, .. } in rows {
        let runtime = streams(*row);
        let first = runtime.and(pipe).map(|pipe| {
            let limit = pipe.first_line.p50_ms + SERVER_MS;
            Target::at_most(format!("{}: first line p50, pipe + 3 ms", row.name()), first_line.p50_ms, limit)
        });
        let p50 = runtime.zip(relay).map(|(runtime, relay)| {
            let allowed = if runtime == Runtime::Tokio { 0.1 } else { 0.35 };
            let what = format!("{}: delay p50, relay + {allowed} ms", row.name());
            Target::at_most(what, delay.p50_ms, relay.delay.p50_ms + allowed)
        });
        let p95 = runtime.filter(|runtime| *runtime == Runtime::Tokio).and(relay).map(|relay| {
            let what = format!("{}: delay p95, 1.5 x relay + 0.3 ms", row.name());
            Target::at_most(what, delay.p95_ms, 1.5 * relay.delay.p95_ms + 0.3)
        });
        table.row(vec![
            row.label().to_owned(),
            spread(*first_line),
            targets.judge(first),
            spread(*delay),
            targets.judge(p50),
            targets.judge(p95),
        ]);
    }
    table
}

fn throughput(rows: &[Throughput], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees output", "MiB/s", "of the relay", "", "CPU s/GiB"]);
    let optional = |figure: Option<f64>| figure.map(|figure| format!("{figure:.2}")).unwrap_or_default();
    for Throughput { row, mib_per_second, ratio_to_relay, cpu_seconds_per_gib, .. } in rows {
        let target = streams(*row).and(*ratio_to_relay).map(|ratio| {
            let limit = if matches!(row, Row::RaisedAttached(_)) { ATTACHED_RATIO } else { STREAM_RATIO };
            Target::at_least(format!("{}: throughput, ratio to the relay", row.name()), ratio, limit)
        });
        table.row(vec![
            row.label().to_owned(),
            format!("{mib_per_second:.0}"),
            optional(*ratio_to_relay),
            targets.judge(target),
            optional(*cpu_seconds_per_gib),
        ]);
    }
    table
}

fn exit(rows: &[Exit], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees the end", "exit to end", "p50"]);
    for Exit { row, end, .. } in rows {
        let target = streams(*row)
            .map(|_| Target::at_most(format!("{}: exit to end p50", row.name()), end.p50_ms, SERVER_MS));
        table.row(vec![row.label().to_owned(), spread(*end), targets.judge(target)]);
    }
    table
}

fn memory(rows: &[Memory], targets: &mut Targets) -> Table {
    let mut table = Table::new(&[
        "how the client sees output",
        "kind",
        "before KiB",
        "open KiB",
        "closed KiB",
        "KiB per stream",
        "",
    ]);
    for Memory { row, kind, kib_per_stream, before, open, after, .. } in rows {
        let what = format!("{}: KiB per open stream", row.name());
        let limit = if row.is_background() { READER_KIB } else { STREAM_KIB };
        let total = |sample: &crate::proc::Memory| sample.pss_kib.unwrap_or(sample.anonymous_kib).to_string();
        table.row(vec![
            row.label().to_owned(),
            (*kind).to_owned(),
            total(before),
            total(open),
            total(after),
            format!("{kib_per_stream:.1}"),
            targets.judge(Some(Target::at_most(what, *kib_per_stream, limit))),
        ]);
    }
    table
}

fn stall(rows: &[Stall]) -> Table {
    let mut table =
        Table::new(&["how the client sees output", "idle", "min", "max", "", "all read", "lines"]);
    for Stall { row, idle_rss_kib, min_rss_kib, max_rss_kib, flat, lines, read_rss_kib, .. } in rows {
        table.row(vec![
            row.label().to_owned(),
            idle_rss_kib.to_string(),
            min_rss_kib.to_string(),
            max_rss_kib.to_string(),
            if *flat { "flat" } else { "NOT FLAT" }.to_owned(),
            read_rss_kib.to_string(),
            format!("{lines}, none missing"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("tokio: delay p50, relay + 0.1 ms", true),
            ("tokio: delay p95, 1.5 x relay + 0.3 ms", false),
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
    fn without_a_floor_nothing_is_judged() {
        let mut report = Report::new(Vec::new());
        report.latency = vec![row(Row::Stream(Runtime::Tokio), 106.5, 0.25, 1.0)];
        report.judge().unwrap();
        assert!(report.targets.is_empty());
    }
}
