//! A call of a session whose handler needs something of the client: where the newest revision ends the call with what is
//! needed, and the client calls again with it, these have the server ask on the call's own stream.

use super::{
    super::{Handler, Outcome, Reply, RequestContext, Step, Work},
    Session,
};
use hangar_backends::runtime::{BoxFuture, Deadline};
use hangar_core::{
    Time,
    wire::mcp::{
        legacy,
        message::{RpcError, code},
        request::Call,
    },
};
use serde_json::{Map, Value, value::RawValue};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// A client that answers by a person is waited for this long.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Rounds of questions of one call.
const MAX_ROUNDS: usize = 16;

/// Answers a call by the session's handler.
pub(super) async fn answer(
    session: Arc<Session>,
    context: RequestContext,
    number: u64,
    call: Arc<Call>,
) -> Reply {
    let reply = session.handler.call(context.clone(), &call).await;
    if let Reply::Now(outcome) = &reply
        && !needs_input(outcome)
    {
        let Reply::Now(outcome) = reply else { return reply };
        return Reply::Now(legacy::adapted(&call.method, outcome));
    }
    let mut asking = Asking { session, context, number, call, rounds: 0, stage: Stage::Over };
    asking.take(reply);
    Reply::Later(Box::new(asking))
}

fn needs_input(outcome: &Outcome) -> bool {
    outcome.as_ref().is_ok_and(|result| result.get("resultType").is_some_and(|kind| kind == "input_required"))
}

/// The work for a call that may ask.
struct Asking {
    session: Arc<Session>,
    context: RequestContext,
    number: u64,
    /// As it is asked for next, with the answers so far.
    call: Arc<Call>,
    rounds: usize,
    stage: Stage,
}

enum Stage {
    /// The handler answers.
    Asked(BoxFuture<'static, Reply>),
    /// It takes a while.
    Working(Box<dyn Work>),
    /// The client is asked.
    Questions(Questions),
    /// That is the outcome.
    Answered(Box<Outcome>),
    Over,
}

/// What the client is asked, and what it answered.
struct Questions {
    /// When they are given up.
    until: Time,
    deadline: Deadline,
    unsaid: VecDeque<(u64, Value)>,
    /// What each answer is called.
    keys: BTreeMap<u64, String>,
    answers: Map<String, Value>,
    state: Option<Value>,
}

impl Asking {
    fn take(&mut self, reply: Reply) {
        self.stage = match reply {
            Reply::Later(work) => Stage::Working(work),
            Reply::Now(outcome) => self.outcome(outcome),
        };
    }

    /// What an outcome leads to.
    fn outcome(&mut self, outcome: Outcome) -> Stage {
        let asked = match outcome {
            Ok(result) if needs_input(&Ok(result.clone())) => self.ask(result),
            outcome => return Stage::Answered(Box::new(legacy::adapted(&self.call.method, outcome))),
        };
        asked.map_or_else(|error| Stage::Answered(Box::new(Err(error))), Stage::Questions)
    }

    fn ask(&mut self, mut result: Map<String, Value>) -> Result<Questions, RpcError> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(RpcError::new(code::INTERNAL, "the call asked too often"));
        }
        let requests = match result.remove("inputRequests") {
            Some(Value::Object(requests)) => requests,
            Some(_) | None => Map::new(),
        };
        let mut questions = Questions {
            until: self.session.runtime.now() + PATIENCE,
            deadline: Deadline::default(),
            unsaid: VecDeque::new(),
            keys: BTreeMap::new(),
            answers: Map::new(),
            state: result.remove("requestState"),
        };
        let mut state = self.session.lock();
        for (key, request) in requests {
            let method = request["method"].as_str().unwrap_or_default();
            let needed = method.split('/').next().unwrap_or_default();
            if !state.machine.capabilities().contains_key(needed) {
                let message =
                    format!("the call needs a client that answers {method}, which this one does not");
                return Err(RpcError::new(code::INVALID_REQUEST, message));
            }
            let question = state.machine.ask(self.number);
            questions.keys.insert(question, key);
            questions.unsaid.push_back((question, request));
        }
        Ok(questions)
    }

    /// Calls again, with what the client answered.
    fn again(&mut self, questions: Questions) -> Stage {
        let Questions { answers, state, .. } = questions;
        let mut params: Map<String, Value> = serde_json::from_str(self.call.params.get()).unwrap_or_default();
        params.insert("inputResponses".to_owned(), answers.into());
        match state {
            Some(state) => params.insert("requestState".to_owned(), state),
            None => params.remove("requestState"),
        };
        let params =
            serde_json::to_string(&params).ok().and_then(|params| RawValue::from_string(params).ok());
        self.call = Arc::new(Call { params: params.unwrap_or_default(), ..(*self.call).clone() });
        let (handler, call, context) =
            (Arc::clone(&self.session.handler), Arc::clone(&self.call), self.context.clone());
        Stage::Asked(Box::pin(async move { Handler::call(&*handler, context, &call).await }))
    }

    /// Takes the answers that there are. Ready once there is one to each question.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RpcError>> {
        let Stage::Questions(questions) = &mut self.stage else { return Poll::Ready(Ok(())) };
        let mut state = self.session.lock();
        let mut refused = None;
        questions.keys.retain(|question, key| match state.answers.remove(question) {
            None => true,
            Some((_, Ok(answer))) => {
                questions.answers.insert(std::mem::take(key), answer);
                false
            }
            Some((_, Err(error))) => {
                refused.get_or_insert(error);
                false
            }
        });
        if let Some(error) = refused {
            return Poll::Ready(Err(error));
        }
        if questions.keys.is_empty() {
            return Poll::Ready(Ok(()));
        }
        state.askers.insert(self.number, cx.waker().clone());
        drop(state);
        ready!(questions.deadline.poll(&*self.session.runtime, Some(questions.until), cx));
        Poll::Ready(Err(RpcError::new(
            code::INVALID_REQUEST,
            "the client did not answer what the call asked",
        )))
    }
}

impl Work for Asking {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            match &mut self.stage {
                Stage::Asked(reply) => {
                    let reply = ready!(reply.as_mut().poll(cx));
                    self.take(reply);
                }
                Stage::Working(work) => match ready!(work.poll(cx)) {
                    Step::Done(outcome) => self.stage = self.outcome(outcome),
                    step @ (Step::Output(_)
                    | Step::Base64(_)
                    | Step::Progress(_)
                    | Step::Notification { .. }
                    | Step::Question { .. }) => return Poll::Ready(step),
                },
                Stage::Questions(questions) => {
                    if let Some((id, mut request)) = questions.unsaid.pop_front() {
                        let method = request["method"].as_str().unwrap_or_default().to_owned();
                        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
                        // It has to be an object where it is there.
                        let params = if params.is_null() { Map::new().into() } else { params };
                        return Poll::Ready(Step::Question { id, method, params });
                    }
                    let answered = ready!(self.poll_answers(cx));
                    let Stage::Questions(questions) = std::mem::replace(&mut self.stage, Stage::Over) else {
                        continue;
                    };
                    self.stage = match answered {
                        Ok(()) => self.again(questions),
                        Err(error) => Stage::Answered(Box::new(Err(error))),
                    };
                }
                Stage::Answered(_) => {
                    let Stage::Answered(outcome) = std::mem::replace(&mut self.stage, Stage::Over) else {
                        continue;
                    };
                    return Poll::Ready(Step::Done(*outcome));
                }
                // The answer was the last that was asked for.
                Stage::Over => return Poll::Pending,
            }
        }
    }

    fn beats(&self) -> bool {
        match &self.stage {
            Stage::Working(work) => work.beats(),
            Stage::Asked(_) | Stage::Questions(_) | Stage::Answered(_) | Stage::Over => true,
        }
    }
}
