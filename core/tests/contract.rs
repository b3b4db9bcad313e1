//! Random scenarios against the contract and the models of `hangar_core::testing`.
//!
//! The scenarios are drawn from bytes, as the fuzz targets draw theirs, so a failure is shrunk on its bytes. It is
//! printed with them: a file of those bytes in `fuzz/corpus/<target>/` makes it a test for good.

use arbitrary::Arbitrary;
use hangar_core::testing::{
    attach, changes, connect, envd, exec, limits, listen, log, mcp, pace, process, scenario, sse,
    subscription, tail, text, watch,
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use std::fmt::Debug;

/// Of each test; `PROPTEST_CASES` says otherwise.
const CASES: u32 = 3000;

fn check<S: Debug + for<'a> Arbitrary<'a>>(max_bytes: usize, run: impl Fn(&S)) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let inputs = vec(any::<u8>(), 0..max_bytes)
        .prop_filter_map("too few bytes", |bytes| scenario::<S>(&bytes).map(|scenario| (scenario, bytes)));
    let result = TestRunner::new(config).run(&inputs, |(scenario, _)| {
        run(&scenario);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn process() {
    check(600, process::run);
}

#[test]
fn attach() {
    check(600, attach::run);
}

#[test]
fn subscription() {
    check(400, subscription::run);
}

#[test]
fn exec() {
    check(600, exec::run);
}

#[test]
fn log() {
    check(600, log::run);
}

#[test]
fn text() {
    check(300, text::run);
}

#[test]
fn tail() {
    check(300, tail::run);
}

#[test]
fn pacer() {
    check(600, pace::run);
}

#[test]
fn limits() {
    check(400, limits::run);
}

#[test]
fn sse_decoder() {
    check(300, sse::run_decode);
}

#[test]
fn sse_round_trip() {
    check(300, sse::run_round_trip);
}

#[test]
fn connect_envelope() {
    check(200, connect::run);
}

#[test]
fn envd_json() {
    check(60, |json: &envd::Json| envd::run_all(json.0.as_bytes()));
}

#[test]
fn envd_proto() {
    check(60, |proto: &envd::Proto| envd::run_all(&proto.0));
}

#[test]
fn envd_printed() {
    check(200, envd::run_printed);
}

#[test]
fn changes() {
    check(400, changes::run);
}

#[test]
fn mcp_listen() {
    check(400, listen::run);
}

#[test]
fn mcp_request() {
    check(400, mcp::run_request);
}

#[test]
fn mcp_answered() {
    check(600, mcp::run_answered);
}

#[test]
fn watch() {
    check(600, watch::run);
}

#[test]
fn watch_history() {
    check(200, watch::run_history);
}
