//! The whole run: build, measure, report.

use std::{collections::BTreeSet, env, time::Duration};

use crate::{
    Result, changes,
    child::{Scratch, become_under_parent},
    cli::{Cli, Measurement, Options, Part},
    measure::{
        company::{self, crowd, stalled},
        exit, latency, memory, notices, progress, sessions, stall, throughput, watch,
    },
    printer, relay,
    report::Report,
    results,
    row::Row,
    server::Runtime,
};

/// What the command line asks for.
pub fn main(cli: Cli) -> Result<()> {
    match cli.part {
        None => measure(&cli.options),
        Some(Part::Print { lines, every_ms, noise }) => {
            printer::print(lines, Duration::from_millis(every_ms), noise)
        }
        Some(Part::Flood { bytes }) => printer::flood(bytes),
        Some(Part::Count { lines, every_us, within_ms }) => {
            printer::count(lines, Duration::from_micros(every_us), Duration::from_millis(within_ms))
        }
        Some(Part::Stamp) => printer::stamp(),
        Some(Part::Touch { directory, count, every_ms }) => {
            changes::touch(&directory, count, Duration::from_millis(every_ms))
        }
        Some(Part::Burst { directory, directories, files }) => changes::burst(&directory, directories, files),
        Some(Part::Relay) => relay::serve(),
        Some(Part::UnderParent { command }) => become_under_parent(&command),
    }
}

/// The chosen rows of each measurement; none where it was not asked for.
struct Plan {
    latency: Vec<Row>,
    throughput: Vec<Row>,
    attached_throughput: Vec<Row>,
    exit: Vec<Row>,
    memory: Vec<Row>,
    listeners: Vec<Row>,
    stall: Vec<Row>,
    stalled: Vec<Row>,
    crowd: Vec<Row>,
    notices: Vec<Row>,
    sessions: Vec<Row>,
    watch_delay: Vec<Row>,
    watch_burst: Vec<Row>,
    watch_memory: Vec<Row>,
}

impl Plan {
    fn new(options: &Options) -> Result<Self> {
        let rows = |measurement, rows: &[Row]| {
            if options.measures(measurement) { Row::chosen(rows, options) } else { Vec::new() }
        };
        let plan = Self {
            latency: rows(Measurement::Latency, &latency::ROWS),
            throughput: rows(Measurement::Throughput, &throughput::ROWS),
            attached_throughput: rows(Measurement::Throughput, &throughput::ATTACHED_ROWS),
            exit: rows(Measurement::Exit, &exit::ROWS),
            memory: rows(Measurement::Memory, &memory::ROWS),
            listeners: rows(Measurement::Memory, &memory::LISTEN_ROWS),
            stall: rows(Measurement::Stall, &stall::ROWS),
            stalled: rows(Measurement::Company, &stalled::ROWS),
            crowd: rows(Measurement::Company, &crowd::ROWS),
            notices: rows(Measurement::Notices, &notices::ROWS),
            sessions: rows(Measurement::Sessions, &sessions::ROWS),
            watch_delay: rows(Measurement::Watch, &watch::delay::ROWS),
            watch_burst: rows(Measurement::Watch, &watch::burst::ROWS),
            watch_memory: rows(Measurement::Watch, &watch::memory::ROWS),
        };
        if plan.rows().next().is_none() {
            return Err("no row has such a name in what is to be measured: see --help".into());
        }
        Ok(plan)
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let Self { latency, throughput, attached_throughput, exit, memory, listeners, .. } = self;
        let Self { stall, stalled, crowd, notices, sessions, .. } = self;
        let Self { watch_delay, watch_burst, watch_memory, .. } = self;
        let streams = [latency, throughput, attached_throughput, exit, memory, listeners];
        let others = [stall, stalled, crowd, notices, sessions, watch_delay, watch_burst, watch_memory];
        streams.into_iter().chain(others).flatten()
    }

    fn runtimes(&self) -> BTreeSet<Runtime> {
        self.rows().filter_map(|row| Some(row.server()?.0)).collect()
    }
}

fn measure(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("streams: this is a debug build: its figures mean nothing, use --release");
    }
    let mut plan = Plan::new(options)?;
    watch::retain_measurable([&mut plan.watch_delay, &mut plan.watch_burst]);
    Scratch::sweep()?;
    if !options.no_build {
        plan.runtimes().into_iter().try_for_each(Runtime::build)?;
    }
    let mut report = Report::new(env::args().skip(1).collect());
    let mut failures = Vec::new();
    let mut keep = |error: crate::Error| failures.push(error.to_string());
    if !plan.latency.is_empty() {
        let rounds = options.rounds(latency::ROUNDS);
        report.latency = latency::measure(&plan.latency, rounds).map_err(&mut keep).unwrap_or_default();
    }
    if !plan.throughput.is_empty() {
        let rounds = options.rounds(throughput::ROUNDS);
        let measured = throughput::measure(&plan.throughput, rounds, options.mebibytes);
        report.throughput = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.attached_throughput.is_empty() {
        let rounds = options.rounds(throughput::ROUNDS);
        let mebibytes = options.mebibytes.min(throughput::ATTACHED_MIB);
        let measured = throughput::measure(&plan.attached_throughput, rounds, mebibytes);
        report.attached_throughput = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.exit.is_empty() {
        let rounds = options.rounds(exit::ROUNDS);
        report.exit = exit::measure(&plan.exit, rounds).map_err(&mut keep).unwrap_or_default();
    }
    if !plan.memory.is_empty() {
        report.memory = memory::measure(&plan.memory, options.streams).map_err(&mut keep).unwrap_or_default();
    }
    if !plan.listeners.is_empty() {
        let measured = memory::measure(&plan.listeners, options.listeners);
        report.listeners = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.stall.is_empty() {
        report.stall =
            stall::measure(&plan.stall, options.stall_seconds).map_err(&mut keep).unwrap_or_default();
    }
    let rounds = options.rounds(company::ROUNDS);
    if !plan.stalled.is_empty() {
        let measured = stalled::measure(&plan.stalled, rounds);
        report.beside_stalled = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.crowd.is_empty() {
        let measured = crowd::measure(&plan.crowd, rounds, options.crowd);
        report.beside_crowd = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.notices.is_empty() {
        let measured = notices::measure(&plan.notices, options.rounds(notices::ROUNDS));
        report.notices = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.sessions.is_empty() {
        let measured = sessions::measure(&plan.sessions, options.sessions);
        report.sessions = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.watch_delay.is_empty() {
        let measured = watch::delay::measure(&plan.watch_delay, options.rounds(watch::delay::ROUNDS));
        report.watch_delay = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.watch_burst.is_empty() {
        let measured = watch::burst::measure(&plan.watch_burst, options.rounds(watch::burst::ROUNDS));
        report.watch_burst = measured.map_err(&mut keep).unwrap_or_default();
    }
    if !plan.watch_memory.is_empty() {
        let measured = watch::memory::measure(&plan.watch_memory, options.directories);
        report.watch_memory = measured.map_err(&mut keep).unwrap_or_default();
    }
    progress("");
    report.failures = failures;
    print!("{}", report.judge()?);
    let path = options.out.clone().unwrap_or_else(|| results::default_path(&report.date));
    results::write(&report, &path)?;
    eprintln!("every sample: {}", path.display());
    match report.failures.len() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of the measurements are wrong").into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan> {
        Plan::new(&Cli::parse_from(std::iter::once("streams").chain(arguments.iter().copied())).options)
    }

    #[test]
    fn the_floors_need_no_server() {
        assert!(plan(&["--rows", "pipe,relay,inotifywait"]).unwrap().runtimes().is_empty());
        assert_eq!(plan(&["--rows", "relay,smol"]).unwrap().runtimes().len(), 1);
        assert_eq!(plan(&[]).unwrap().runtimes().len(), 3);
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        assert!(plan(&["--rows", "tcp"]).is_err());
        assert!(plan(&["--rows", "pipe", "--only", "memory"]).is_err());
        assert!(plan(&["--stall", "--rows", "tokio"]).unwrap().latency.is_empty());
    }
}
