//! One table for each measurement, and the targets beside its figures.

use crate::{
    measure::{
        company::{Company, crowd::Crowd},
        exit::Exit,
        latency::Latency,
        memory::Memory,
        notices::Notices,
        sessions::Sessions,
        stall::Stall,
        throughput::Throughput,
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

/// What one stream of notices may cost, in KiB.
const LISTEN_KIB: f64 = 28.0;

/// What a session may cost whose client left, in KiB.
const SESSION_KIB: f64 = 8.0;

/// The most notices of what changes all the time, for a second.
const NOTICES: f64 = 5.0;

/// What an `exec/stream` carries at the least of what the relay does, escaping all of it.
const STREAM_RATIO: f64 = 0.5;

/// What an MCP call does, whose frame around each piece is twice as long.
const MCP_RATIO: f64 = 0.3;

/// What a line of an MCP call may take longer than one of another stream, in milliseconds.
const MCP_MS: f64 = 0.05;

/// What a WebSocket does, which carries bytes as they are.
const ATTACHED_RATIO: f64 = 0.8;

/// What a line's p95 may be beside a reader that stalls, of what it is alone.
const STALLED_RATIO: f64 = 1.5;

/// What a server whose sandbox is behind a daemon may add to the first line, in milliseconds.
const DAEMON_MS: f64 = 6.0;

/// What it carries at the least of what the relay does.
const DAEMON_RATIO: f64 = 0.4;

/// The same beside a crowd.
const CROWD_RATIO: f64 = 2.0;

/// What a server may add to the first line, and to the end, in milliseconds.
const SERVER_MS: f64 = 3.0;

/// The targets of all tables.
#[derive(Default)]
pub(super) struct Targets(pub(super) Vec<Target>);

impl Targets {
    /// Keeps the target, and gives its text; nothing when there is nothing to judge by.
    pub(super) fn judge(&mut self, target: Option<Target>) -> String {
        let Some(target) = target else { return String::new() };
        let text = target.to_string();
        self.0.push(target);
        text
    }
}

pub(super) fn spread(Spread { p50_ms, p95_ms }: Spread) -> String {
    format!("{p50_ms:.2} / {p95_ms:.2}")
}

/// The runtime of a row that streams.
const fn streams(row: Row) -> Option<Runtime> {
    match row {
        Row::Stream(runtime)
        | Row::Raised(runtime)
        | Row::Attached(runtime)
        | Row::RaisedAttached(runtime)
        | Row::Followed(runtime)
        | Row::Mcp(runtime)
        | Row::McpOfSession(runtime)
        | Row::RaisedMcp(runtime) => Some(runtime),
        Row::Pipe
        | Row::Relay
        | Row::Listen(_)
        | Row::Session(_)
        | Row::Unstreamed(_)
        | Row::Inotifywait
        | Row::InotifywaitAlike
        | Row::Watched(_)
        | Row::RaisedWatched(_) => None,
    }
}

/// What a line of this row may take longer.
const fn more(row: Row) -> f64 {
    if matches!(row, Row::Mcp(_)) { MCP_MS } else { 0.0 }
}

pub(super) fn latency(rows: &[Latency], targets: &mut Targets) -> Table {
    let heads = ["how the client sees output", "first line", "p50", "each line's delay", "p50", "p95"];
    let mut table = Table::new(&heads);
    let pipe = rows.iter().find(|row| row.row == Row::Pipe);
    let relay = rows.iter().find(|row| row.row == Row::Relay);
    for Latency { row, first_line, delay, .. } in rows {
        let runtime = streams(*row);
        let first = runtime.and(pipe).map(|pipe| {
            let more = if runtime == Some(Runtime::Daemon) { DAEMON_MS } else { SERVER_MS };
            let what = format!("{}: first line p50, pipe + {more} ms", row.name());
            Target::at_most(what, first_line.p50_ms, pipe.first_line.p50_ms + more)
        });
        let p50 = runtime.zip(relay).map(|(runtime, relay)| {
            if runtime == Runtime::Daemon {
                let what = format!("{}: delay p50, 3 x relay + 0.1 ms", row.name());
                return Target::at_most(what, delay.p50_ms, 3.0 * relay.delay.p50_ms + 0.1);
            }
            let allowed = if runtime == Runtime::Tokio { 0.1 } else { 0.35 } + more(*row);
            let what = format!("{}: delay p50, relay + {allowed:.2} ms", row.name());
            Target::at_most(what, delay.p50_ms, relay.delay.p50_ms + allowed)
        });
        let p95 = runtime.filter(|runtime| *runtime != Runtime::Smol).zip(relay).map(|(runtime, relay)| {
            let allowed = 0.3 + more(*row);
            let times = if runtime == Runtime::Daemon { 2.0 } else { 1.5 };
            let what = format!("{}: delay p95, {times} x relay + {allowed:.2} ms", row.name());
            Target::at_most(what, delay.p95_ms, times * relay.delay.p95_ms + allowed)
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

pub(super) fn throughput(rows: &[Throughput], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees output", "MiB/s", "of the relay", "", "CPU s/GiB"]);
    let optional = |figure: Option<f64>| figure.map(|figure| format!("{figure:.2}")).unwrap_or_default();
    for Throughput { row, mib_per_second, ratio_to_relay, cpu_seconds_per_gib, .. } in rows {
        let target = streams(*row).and(*ratio_to_relay).map(|ratio| {
            let limit = if streams(*row) == Some(Runtime::Daemon) {
                DAEMON_RATIO
            } else if matches!(row, Row::RaisedAttached(_)) {
                ATTACHED_RATIO
            } else if matches!(row, Row::RaisedMcp(_)) {
                MCP_RATIO
            } else {
                STREAM_RATIO
            };
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

pub(super) fn exit(rows: &[Exit], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees the end", "exit to end", "p50"]);
    for Exit { row, end, .. } in rows {
        let target = streams(*row)
            .map(|_| Target::at_most(format!("{}: exit to end p50", row.name()), end.p50_ms, SERVER_MS));
        table.row(vec![row.label().to_owned(), spread(*end), targets.judge(target)]);
    }
    table
}

/// All of a server's memory, in KiB.
pub(super) fn total(sample: &crate::proc::Memory) -> String {
    sample.pss_kib.unwrap_or(sample.anonymous_kib).to_string()
}

pub(super) fn memory(rows: &[Memory], targets: &mut Targets) -> Table {
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
        let limit = if matches!(row, Row::Listen(_)) {
            LISTEN_KIB
        } else if row.is_background() {
            READER_KIB
        } else {
            STREAM_KIB
        };
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

pub(super) fn stall(rows: &[Stall]) -> Table {
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

/// A reader alone and beside `whom`, and the target.
fn company(company: &Company, whom: &str, limit: f64, targets: &mut Targets) -> Vec<String> {
    let Company { row, alone, beside, p95_ratio, .. } = company;
    let what = format!("{}: delay p95 beside {whom}, of that alone", row.name());
    vec![
        row.label().to_owned(),
        spread(*alone),
        spread(*beside),
        format!("{p95_ratio:.2}"),
        targets.judge(Some(Target::at_most(what, *p95_ratio, limit))),
    ]
}

pub(super) fn beside_stalled(rows: &[Company], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client sees output", "alone", "beside it", "p95", ""]);
    for row in rows {
        table.row(company(row, "a reader that stalls", STALLED_RATIO, targets));
    }
    table
}

pub(super) fn beside_crowd(rows: &[Crowd], targets: &mut Targets) -> Table {
    let heads = ["how the client sees output", "alone", "beside them", "p95", "", "KiB per follower"];
    let mut table = Table::new(&heads);
    for Crowd { company: reader, kind, kib_per_follower, .. } in rows {
        let mut cells = company(reader, "a crowd", CROWD_RATIO, targets);
        cells.push(format!("{kib_per_follower:.1} {kind}"));
        table.row(cells);
    }
    table
}

pub(super) fn notices(rows: &[Notices], targets: &mut Targets) -> Table {
    let mut table = Table::new(&["how the client is told", "notices", "", "the last"]);
    for Notices { row, most, .. } in rows {
        let what = format!("{}: notices of a second of changes", row.name());
        table.row(vec![
            row.label().to_owned(),
            most.to_string(),
            targets.judge(Some(Target::at_most(what, *most as f64, NOTICES))),
            "after the last change".to_owned(),
        ]);
    }
    table
}

pub(super) fn sessions(rows: &[Sessions], targets: &mut Targets) -> Table {
    let mut table =
        Table::new(&["", "kind", "before", "open", "KiB per session", "", "over", "over again", ""]);
    for Sessions { row, kind, kib_per_session, before, open, over, over_again, flat, .. } in rows {
        let what = format!("{}: KiB per session that nobody uses", row.name());
        table.row(vec![
            row.label().to_owned(),
            (*kind).to_owned(),
            total(before),
            total(open),
            format!("{kib_per_session:.1}"),
            targets.judge(Some(Target::at_most(what, *kib_per_session, SESSION_KIB))),
            total(over),
            total(over_again),
            if *flat { "flat" } else { "NOT FLAT" }.to_owned(),
        ]);
    }
    table
}
