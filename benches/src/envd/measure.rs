//! What is measured, and how.

use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hangar_core::wire::connect::Codec;

use super::{Cli, Daemon, Figure};
use crate::{
    Result,
    proc::Memory,
    stats::{median, percentile},
};

/// Starts of `/bin/true` in a round.
const STARTS: usize = 100;
/// Streams that are open at once.
const STREAMS: usize = 500;
/// Bytes of a large output.
const LARGE: usize = 200_000_000;
/// Lines whose delay is measured, with and without a stuck subscriber.
const LINES: usize = 100;

/// Every figure.
pub(super) fn all(cli: &Cli) -> Result<Vec<Figure>> {
    let mut samples = Samples::default();
    for round in 1..=cli.runs {
        eprintln!("round {round} of {}", cli.runs);
        starts(cli, &mut samples)?;
        short_commands(cli, &mut samples)?;
        large_outputs(cli, &mut samples)?;
        crowd(cli, &mut samples)?;
        stuck(cli, &mut samples)?;
    }
    let size = fs::metadata(&cli.binary)?.len() as f64 / 1048576.0;
    let ms = "ms";
    Ok(vec![
        figure("binary", "MiB", Some(6.0), vec![size], worst)?,
        figure("start to the first `/health`, p50", ms, Some(20.0), samples.started, middle)?,
        figure("resident, idle", "MiB", Some(4.0), samples.idle, worst)?,
        figure("`/bin/true` without a daemon, p50", ms, None, samples.bare_true, middle)?,
        figure("`/bin/true`: its start event, p50", ms, Some(1.7), samples.start_event, middle)?,
        figure("`/bin/true`: to the end of its stream, p50", ms, Some(3.9), samples.whole_true, middle)?,
        figure("200 MB through a pipe", "s", None, samples.pipe, middle)?,
        figure("200 MB of output, JSON", "s", Some(0.9), samples.json, middle)?,
        figure("200 MB of output, protobuf", "s", Some(0.45), samples.proto, middle)?,
        figure("resident, 500 streams", "MiB", Some(24.0), samples.crowd, worst)?,
        figure(
            "a line's delay beside a stuck subscriber, p50, to that without one",
            "×",
            Some(1.5),
            samples.stuck,
            middle,
        )?,
    ])
}

#[derive(Default)]
struct Samples {
    started: Vec<f64>,
    idle: Vec<f64>,
    bare_true: Vec<f64>,
    start_event: Vec<f64>,
    whole_true: Vec<f64>,
    pipe: Vec<f64>,
    json: Vec<f64>,
    proto: Vec<f64>,
    crowd: Vec<f64>,
    stuck: Vec<f64>,
}

fn middle(samples: &[f64]) -> Option<f64> {
    median(samples)
}

fn worst(samples: &[f64]) -> Option<f64> {
    percentile(samples, 100)
}

fn figure(
    what: &'static str,
    unit: &'static str,
    limit: Option<f64>,
    samples: Vec<f64>,
    judged: fn(&[f64]) -> Option<f64>,
) -> Result<Figure> {
    let value = judged(&samples).ok_or_else(|| format!("{what}: nothing was measured"))?;
    Ok(Figure { what, unit, value, limit, samples })
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn resident(daemon: &Daemon) -> Result<f64> {
    Ok(Memory::of(daemon.pid())?.rss_kib as f64 / 1024.0)
}

/// Starts of the daemon, and what it holds when it has answered once and is left alone.
fn starts(cli: &Cli, samples: &mut Samples) -> Result<()> {
    for _ in 0..4 {
        let (daemon, took) = Daemon::start(&cli.binary)?;
        samples.started.push(ms(took));
        std::thread::sleep(Duration::from_millis(200));
        samples.idle.push(resident(&daemon)?);
    }
    Ok(())
}

fn short_commands(cli: &Cli, samples: &mut Samples) -> Result<()> {
    let (daemon, _) = Daemon::start(&cli.binary)?;
    for _ in 0..STARTS {
        let begun = Instant::now();
        Command::new("/bin/true").stdin(Stdio::null()).status()?;
        samples.bare_true.push(ms(begun.elapsed()));
        let mut stream = daemon.run(Codec::Json, &["/bin/true"])?;
        stream.pid()?;
        samples.start_event.push(ms(stream.age()));
        while stream.next_event()?.is_some() {}
        samples.whole_true.push(ms(stream.age()));
    }
    Ok(())
}

fn large_outputs(cli: &Cli, samples: &mut Samples) -> Result<()> {
    let (daemon, _) = Daemon::start(&cli.binary)?;
    let bytes = LARGE.to_string();
    let argv = ["/usr/bin/head", "-c", &bytes, "/dev/zero"];
    let begun = Instant::now();
    let mut child = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut buffer = vec![0; 1 << 18];
    let mut read = 0;
    loop {
        match pipe.read(&mut buffer)? {
            0 => break,
            len => read += len,
        }
    }
    child.wait()?;
    samples.pipe.push(begun.elapsed().as_secs_f64());
    if read != LARGE {
        return Err(format!("{read} bytes came through the pipe").into());
    }
    for (codec, least, took) in
        [(Codec::Json, LARGE / 3 * 4, &mut samples.json), (Codec::Proto, LARGE, &mut samples.proto)]
    {
        let stream = daemon.run(codec, &argv)?;
        let begun = Instant::now();
        let came = stream.drain()?;
        took.push(begun.elapsed().as_secs_f64());
        if came < least {
            return Err(format!("{came} bytes came, and {least} were printed").into());
        }
    }
    Ok(())
}

/// Many streams at once, each of a process that has printed something.
fn crowd(cli: &Cli, samples: &mut Samples) -> Result<()> {
    let (daemon, _) = Daemon::start(&cli.binary)?;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = daemon.run(Codec::Json, &["/bin/sh", "-c", "echo up; exec sleep 1000"])?;
        stream.pid()?;
        while stream.next_event()?.is_some_and(|event| event.data.is_none()) {}
        streams.push(stream);
    }
    samples.crowd.push(resident(&daemon)?);
    Ok(())
}

/// A line each 10 ms with the time at which it was printed, followed by one that reads; alone, and beside one that does not.
fn stuck(cli: &Cli, samples: &mut Samples) -> Result<()> {
    let (daemon, _) = Daemon::start(&cli.binary)?;
    let alone = delay(&daemon, false)?;
    let beside = delay(&daemon, true)?;
    samples.stuck.push(beside / alone);
    Ok(())
}

fn delay(daemon: &Daemon, beside_stuck: bool) -> Result<f64> {
    // What comes first fills what lies between the process and one that does not read.
    let script =
        format!("head -c 20000000 /dev/zero; echo; for i in $(seq {LINES}); do sleep 0.01; date +%s%N; done");
    let mut first = daemon.run(Codec::Proto, &["/bin/sh", "-c", &script])?;
    let pid = first.pid()?;
    let second = beside_stuck.then(|| daemon.connect(Codec::Proto, pid)).transpose()?;
    let mut delays = Vec::new();
    while let Some(event) = first.next_event()? {
        let data = event.data.and_then(|data| data.stdout).unwrap_or_default();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let text = String::from_utf8_lossy(&data);
        if let Some(printed) =
            text.trim_matches(['\0', '\n']).lines().last().and_then(|line| line.parse::<u128>().ok())
        {
            delays.push(now.saturating_sub(printed) as f64);
        }
    }
    drop(second);
    if delays.len() < LINES / 2 {
        return Err(format!("{} of {LINES} lines came", delays.len()).into());
    }
    median(&delays).ok_or_else(|| "no line came".into())
}
