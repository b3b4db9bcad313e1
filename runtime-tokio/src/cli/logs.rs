//! `hangar logs`: what a process printed, and prints.

use super::{
    Failure,
    exec::ServerArguments,
    follow::{NOBODY_READS, show},
    link::{Link, LinkEvent, Target, say_gap},
    processes::{Tail, block_on},
    returning::Return,
};
use clap::Args;
use hangar::TokioRuntime;
use hangar_core::log::Channel;
use hangar_transports::{client::Client, plane::tickets::Mode};

#[derive(Args, Debug)]
pub(super) struct Logs {
    /// The sandbox, by name or id
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The process, by name or id; `hangar ps` lists them
    #[arg(value_name = "PROCESS")]
    process: String,
    /// Go on with what it prints, until it ends
    #[arg(long, short = 'f')]
    follow: bool,
    /// Begin with so many of the last lines [default: all that is kept]
    #[arg(long, value_name = "N|all", default_value = "all", hide_default_value = true)]
    tail: Tail,
    #[command(flatten)]
    return_: Return,
    #[command(flatten)]
    server: ServerArguments,
}

impl Logs {
    pub(super) fn main(self) -> Result<u8, Failure> {
        block_on(async move |tokio| {
            let client = self.server.client(&tokio)?;
            if !self.follow {
                return kept(&client, &self.sandbox, &self.process, self.tail).await;
            }
            let target = Target {
                sandbox: self.sandbox,
                process: self.process,
                mode: Mode::Logs,
                begin: self.tail.begin(),
                give_up: self.return_.give_up(),
            };
            follow(client, tokio, target).await
        })
    }
}

/// Shows what there is now.
async fn kept(client: &Client, sandbox: &str, process: &str, tail: Tail) -> Result<u8, Failure> {
    // From the first byte on, so that it is told what of it is gone.
    let mut since = 0;
    let mut last = Vec::new();
    // Of a process that prints faster than this reads, there is no other end.
    let mut end = None;
    loop {
        let page = client.read_log(sandbox, process, Some(since)).await.map_err(Failure::new)?;
        let end = *end.get_or_insert(page.end);
        match tail {
            Tail::All => {
                page.gap.iter().for_each(say_gap);
                if !show(Channel::Stdout, [&page.bytes[..]])? {
                    return Ok(NOBODY_READS);
                }
            }
            Tail::Lines(lines) => {
                last.extend_from_slice(&page.bytes);
                last.drain(..begin_of_last(&last, lines));
            }
        }
        since = page.next;
        if !page.truncated || since >= end {
            break;
        }
    }
    if show(Channel::Stdout, [&last[..]])? { Ok(0) } else { Ok(NOBODY_READS) }
}

/// Where the last `lines` lines begin; one that is not ended yet is one.
fn begin_of_last(bytes: &[u8], lines: u64) -> usize {
    let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    // A newline at the very end begins no line.
    let begins = ends.map(|(at, _)| at + 1).filter(|begin| *begin < bytes.len());
    match usize::try_from(lines) {
        Ok(0) => bytes.len(),
        Ok(lines) => begins.into_iter().nth(lines - 1).unwrap_or(0),
        Err(_) => 0,
    }
}

async fn follow(client: Client, tokio: TokioRuntime, target: Target) -> Result<u8, Failure> {
    let mut link = Link::new(client, tokio, target);
    loop {
        match link.next().await? {
            LinkEvent::Ready(_) => {}
            LinkEvent::Output { channel, bytes } => {
                if !show(channel, [&bytes[..]])? {
                    return Ok(NOBODY_READS);
                }
            }
            LinkEvent::Gap(gap) => say_gap(&gap),
            LinkEvent::End(end) if end.reason == "process_exited" => return Ok(0),
            LinkEvent::End(end) => {
                return Err(Failure::new(format!("the stream was closed ({})", end.reason)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_after_a_newline() {
        let begin = |text: &str, lines| begin_of_last(text.as_bytes(), lines);
        assert_eq!(["a\nb\nc\n", "a\nb\nc"].map(|text| begin(text, 2)), [2, 2]);
        assert_eq!([0, 1, 3, 9].map(|lines| begin("a\nb\nc\n", lines)), [6, 4, 0, 0]);
        assert_eq!((begin("", 1), begin("\n\n", 1)), (0, 1));
    }
}
