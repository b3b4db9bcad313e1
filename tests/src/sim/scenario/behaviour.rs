//! What the clients do, and how it goes for them.

use super::{
    super::{
        client::{Client, End},
        stream::{Stream, Transcript},
        world::{World, exec},
    },
    plan::{Manners, Plan},
};
use hangar_backends::runtime::until;
use hangar_core::Time;
use serde_json::{Value, json};
use std::time::Duration;

/// How it went for a client.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It was refused, with this status.
    Refused(u16),
    /// It read the result, and everything before it.
    Read(Transcript),
    /// It got the result, without a stream.
    Got(Value),
    /// It left, at this time.
    Left(Time),
    /// The connection ended under it.
    Ended(End),
}

/// Plays one client.
pub(super) async fn client(world: &World, plan: &Plan, token: &str) -> Outcome {
    world.sleep_until_ms(plan.at).await;
    let Some(mut client) = world.try_client() else { return Outcome::Ended(End::Reset) };
    let streamed = !matches!(plan.manners, Manners::Waits | Manners::WaitsAndLeaves(_));
    let body = json!({
        "command": plan.script, "timeout": plan.timeout, "env": { "CLIENT": plan.number.to_string() },
    });
    let request = exec(token, &body, streamed).bytes();
    if let Err(end) = client.send(&request).await {
        return Outcome::Ended(end);
    }
    match plan.manners {
        Manners::Leaves(ms) => {
            // Half of them in the middle of reading.
            let read = ms % 2 == 0;
            if read {
                let reading = read_to_end(client);
                let at = world.now() + Duration::from_millis(ms);
                if let Some(outcome) = until(&*world.runtime, at, reading).await {
                    return outcome;
                }
            } else {
                world.sleep_ms(ms).await;
                drop(client);
            }
            return Outcome::Left(world.now());
        }
        Manners::WaitsAndLeaves(ms) => {
            world.sleep_ms(ms).await;
            drop(client);
            return Outcome::Left(world.now());
        }
        Manners::IsCut(ms) | Manners::HalfCloses(ms) => {
            let cutter = client.cutter();
            if let Manners::HalfCloses(_) = plan.manners {
                world.sleep_ms(ms).await;
                client.half_close().await;
                let at = world.now();
                return left_at(at, read_to_end(client).await);
            }
            let (clock, at) = (world.clone(), world.now() + Duration::from_millis(ms));
            world.runtime.spawn_detached(async move {
                clock.sleep_ms(ms).await;
                cutter.cut();
            });
            return left_at(at, read_to_end(client).await);
        }
        Manners::Stalls(ms) => world.sleep_ms(ms).await,
        Manners::Waits => {
            return match client.response().await {
                Ok(response) if response.status == 200 => Outcome::Got(response.json()),
                Ok(response) => Outcome::Refused(response.status),
                Err(end) => Outcome::Ended(end),
            };
        }
        Manners::Reads | Manners::Dawdles => {}
    }
    if plan.manners == Manners::Dawdles {
        return dawdle(world, client).await;
    }
    read_to_end(client).await
}

/// A connection that ended under a client that left then.
fn left_at(at: Time, outcome: Outcome) -> Outcome {
    if let Outcome::Ended(_) = outcome { Outcome::Left(at) } else { outcome }
}

/// The stream of an answer, or how that ended.
async fn opened(mut client: Client) -> Result<Stream, Outcome> {
    match client.head().await {
        Ok(head) if head.status == 200 => Ok(Stream::new(client, head)),
        Ok(head) => Err(Outcome::Refused(head.status)),
        Err(end) => Err(Outcome::Ended(end)),
    }
}

async fn read_to_end(client: Client) -> Outcome {
    match opened(client).await {
        Ok(mut stream) => stream.read_to_end().await.map_or_else(Outcome::Ended, Outcome::Read),
        Err(outcome) => outcome,
    }
}

async fn dawdle(world: &World, client: Client) -> Outcome {
    let mut stream = match opened(client).await {
        Ok(stream) => stream,
        Err(outcome) => return outcome,
    };
    let mut transcript = Transcript::default();
    loop {
        match stream.next().await {
            Ok(Some(item)) => transcript.add(world.now(), item),
            Ok(None) => return Outcome::Read(transcript),
            Err(end) => return Outcome::Ended(end),
        }
        world.sleep_ms(70).await;
    }
}

/// How it went, in short.
pub(super) fn brief(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Read(Transcript { stdout, stderr, result, .. }) => {
            let mut result = result.clone();
            for name in ["stdout", "stderr"] {
                result[name] = json!(result[name].as_str().unwrap().len());
            }
            format!("read {} and {} and {result}", stdout.len(), stderr.len())
        }
        Outcome::Got(result) => format!("got {} {}", result["exit_code"], result["closed"]),
        Outcome::Ended(end) => format!("ended by {end:?}"),
        Outcome::Refused(_) | Outcome::Left(_) => format!("{outcome:?}"),
    }
}
