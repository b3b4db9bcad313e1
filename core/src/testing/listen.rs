//! A subscription, read as a client reads it.

use super::{Clock, Contract, Machine, Sort, Step, Tick, draw, mcp::Token};
use crate::{
    Time,
    wire::mcp::{
        listen::{Filter, List, Listening, Output, Topic},
        message::Id,
        meta,
        types::Implementation,
    },
};
use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SERVER: Implementation = Implementation { name: "hangar", version: "1" };

/// URIs that a scenario has.
const URIS: u8 = 5;

/// A subscription, and what happens while it is open.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The id of the request.
    pub id: Token,
    /// Which lists are granted.
    pub lists: [bool; 3],
    /// Which resources.
    pub resources: Vec<u8>,
    /// What happens.
    pub steps: Vec<Step<Op>>,
}

/// Something that happens.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Op {
    /// The clock changes.
    Tick(Tick),
    /// One of [`List::ALL`] changes, or else a resource.
    Change(#[arbitrary(with = topic)] u8),
    /// The server ends it.
    Close,
}

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (id, lists) = (u.arbitrary()?, u.arbitrary()?);
        let mut resources = Vec::new();
        while resources.len() < 8 && u.ratio(3, 4)? {
            resources.push(u.int_in_range(0..=URIS - 1)?);
        }
        Ok(Self { id, lists, resources, steps: draw::steps(u, 60)? })
    }
}

fn topic(u: &mut Unstructured<'_>) -> Result<u8> {
    u.int_in_range(0..=2 + URIS)
}

fn nth(topic: u8) -> Topic {
    match List::ALL.get(usize::from(topic)) {
        Some(list) => Topic::List(*list),
        None => Topic::Resource(uri(topic - 3).into()),
    }
}

fn uri(resource: u8) -> String {
    format!("x://\"{resource}\"\n")
}

impl Machine for Listening {
    type Output = Output;

    fn poll_output(&mut self, now: Time) -> Output {
        self.poll_output(now)
    }

    fn sort(output: &Output) -> Sort {
        match output {
            Output::Notification { .. } | Output::Result(_) => Sort::Act,
            Output::Closed => Sort::Closed,
            Output::Wait(at) => Sort::Wait(*at),
        }
    }

    fn close(&mut self) {
        self.close();
    }

    fn disturb(&mut self) {
        (0..3 + URIS).for_each(|topic| self.handle_change(&nth(topic)));
    }

    fn check_bounds(&self) {}
}

/// Runs a scenario: acknowledged first, of what is granted each change, and the result last.
pub fn run(scenario: &Scenario) {
    Contract::run_twice(|steady| drive(scenario, steady));
}

fn drive(scenario: &Scenario, steady: bool) -> Vec<Output> {
    let lists = List::ALL.into_iter().zip(scenario.lists).filter(|(_, granted)| *granted);
    let mut wishes = Filter { lists: lists.map(|(list, _)| list).collect(), resources: Vec::new() };
    let mut known = BTreeSet::new();
    wishes.resources.extend(
        scenario.resources.iter().filter(|uri| known.insert(**uri)).map(|resource| uri(*resource).into()),
    );
    let id = Id::from(&scenario.id);
    let mut client =
        Client { id: json!(id), granted: wishes.clone(), changed: BTreeSet::new(), heard: Heard::Nothing };
    let mut clock = Clock::new();
    let mut listening = Listening::new(id, wishes, SERVER, clock.now);
    let mut contract = Contract::new(clock.now, steady);
    let mut outputs = Vec::new();
    let mut closing = false;
    for Step { op, polls } in &scenario.steps {
        match op {
            Op::Tick(tick) => clock.tick(*tick),
            Op::Change(topic) => {
                listening.handle_change(&nth(*topic));
                if !closing && client.may_hear(&nth(*topic)) {
                    client.changed.insert(nth(*topic));
                }
            }
            Op::Close => {
                listening.close();
                closing = true;
            }
        }
        for _ in 0..*polls {
            let output = contract.poll(&mut listening, clock.now);
            client.hear(&output);
            outputs.push(output.clone());
            if let Output::Wait(at) = output {
                clock.asked = at;
                break;
            }
        }
    }
    contract.finish(&mut listening, clock.now, |_, output| {
        client.hear(&output);
        outputs.push(output);
    });
    assert_eq!(client.heard, Heard::Result);
    assert!(client.changed.is_empty(), "never told: {:?}", client.changed);
    outputs
}

#[derive(Debug, PartialEq)]
enum Heard {
    Nothing,
    Acknowledgement,
    Result,
}

struct Client {
    id: Value,
    granted: Filter,
    /// What it is still to hear of.
    changed: BTreeSet<Topic>,
    heard: Heard,
}

impl Client {
    fn may_hear(&self, topic: &Topic) -> bool {
        match topic {
            Topic::List(list) => self.granted.lists.contains(list),
            Topic::Resource(uri) => self.granted.resources.contains(uri),
        }
    }

    fn hear(&mut self, output: &Output) {
        match output {
            Output::Notification { method, params, topic } => self.notified(method, params, topic.as_ref()),
            Output::Result(result) => {
                assert_eq!(self.heard, Heard::Acknowledgement);
                assert_eq!(result["resultType"], "complete");
                assert_eq!(result["_meta"][meta::SUBSCRIPTION], self.id);
                self.heard = Heard::Result;
            }
            Output::Closed => assert_eq!(self.heard, Heard::Result),
            Output::Wait(_) => {}
        }
    }

    fn notified(&mut self, method: &str, params: &Value, told: Option<&Topic>) {
        assert_eq!(params["_meta"][meta::SUBSCRIPTION], self.id);
        if self.heard == Heard::Nothing {
            assert_eq!((method, told), ("notifications/subscriptions/acknowledged", None));
            let params = params.as_object().expect("an object");
            assert_eq!(Filter::parse(params), Ok(self.granted.clone()));
            self.heard = Heard::Acknowledgement;
            return;
        }
        assert_eq!(self.heard, Heard::Acknowledgement, "after the result: {method}");
        let topic = match method {
            "notifications/tools/list_changed" => Topic::List(List::Tools),
            "notifications/prompts/list_changed" => Topic::List(List::Prompts),
            "notifications/resources/list_changed" => Topic::List(List::Resources),
            "notifications/resources/updated" => {
                Topic::Resource(params["uri"].as_str().expect("a URI").into())
            }
            _ => panic!("{method}"),
        };
        assert_eq!(told, Some(&topic));
        assert!(self.changed.remove(&topic), "told without a change: {topic:?}");
    }
}
