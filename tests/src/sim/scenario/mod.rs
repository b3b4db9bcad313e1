//! A scenario drawn from a seed: many clients, each with its own manners, scripts, and an administrator who ends
//! things; and what must be true of it whatever was drawn.

mod behaviour;
mod check;
mod plan;

use super::{
    client::Request,
    net::Link,
    random::Random,
    sandbox::Record,
    world::{ADMIN, Setup, World, run},
};
use behaviour::{brief, client};
use check::{Context, check};
use hangar_transports::Settings;
use plan::{Act, COMING, Plan, TOKENS, any_act};
use serde_json::json;
use std::collections::BTreeMap;

/// Plays the scenario of a seed. Returns its trace.
///
/// # Panics
///
/// If something is not as it must be.
pub fn play(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x5EED);
    let link = Link::any(&mut random);
    let settings = Settings {
        stream_max_per_token: random.between(1, 8) as usize,
        stream_max_total: random.between(2, 16) as usize,
        stream_bytes_per_second: *random.pick(&[2_000, 50_000, 1 << 20]),
        stream_max_bytes: *random.pick(&[3_000, 1 << 26, 1 << 26]),
        ..Settings::default()
    };
    let capped = settings.stream_max_bytes == 3_000;
    let plans: Vec<Plan> =
        (0..random.between(1, 12) as usize).map(|number| Plan::any(number, link, &mut random)).collect();
    let mut acts: Vec<(u64, Act)> =
        (0..random.below(4)).map(|_| (random.below(COMING), any_act(&mut random))).collect();
    acts.sort_by_key(|(at, _)| *at);
    run(
        Setup { seed, link, settings, ends_with_server: !random.once_in(4), ..Setup::default() },
        async |world| {
            let mut tokens = Vec::new();
            for _ in 0..TOKENS {
                tokens.push(world.token(json!({ "scope": "user" })).await);
            }
            let clients: Vec<_> = plans
                .iter()
                .map(|plan| {
                    let (world, plan, token) = (world.clone(), plan.clone(), tokens[plan.token].1.clone());
                    world.runtime.clone().task(async move { client(&world, &plan, &token).await })
                })
                .collect();
            for (at, act) in &acts {
                world.sleep_until_ms(*at).await;
                carry_out(world, *act, &tokens).await;
            }
            let mut outcomes = Vec::new();
            for client in clients {
                outcomes.push(client.await);
            }
            // What a client that left has begun takes its course.
            world.sleep_ms(5_000).await;
            let records: BTreeMap<usize, Record> = world
                .sandbox
                .records()
                .into_iter()
                .map(|record| (record.spec.env["CLIENT"].parse().unwrap(), record))
                .collect();
            for (plan, outcome) in plans.iter().zip(&outcomes) {
                world.runtime.trace().note(format_args!("client {}: {}", plan.number, brief(outcome)));
                let context = format!("{plan:?}, {acts:?}: {}", brief(outcome));
                let of = Context { acts: &acts, link, capped };
                check(plan, outcome, records.get(&plan.number), &of, &context);
            }
        },
    )
}

async fn carry_out(world: &World, act: Act, tokens: &[(String, String)]) {
    world.runtime.trace().note(format_args!("{act:?}"));
    let (method, path) = match act {
        Act::Revoke(token) => ("DELETE", format!("/api/tokens/{}", tokens[token].0)),
        Act::Pause => ("POST", "/api/sandboxes/box/pause".to_owned()),
        Act::Resume => ("POST", "/api/sandboxes/box/resume".to_owned()),
        Act::Destroy => ("DELETE", "/api/sandboxes/box".to_owned()),
        Act::ShutDown => return world.shut_down(),
        Act::SetClock(ms) => return world.runtime.clock().jump_wall(ms),
    };
    let world = world.clone();
    // In a task: a destroy takes its time. After a shutdown nobody may answer.
    world.runtime.clone().spawn_detached(async move {
        let Some(mut client) = world.try_client() else { return };
        let request = Request::new(method, path).bearer(ADMIN);
        let status = client.call(&request).await.map(|response| response.status);
        world.runtime.trace().note(format_args!("{act:?} is done: {status:?}"));
    });
}
