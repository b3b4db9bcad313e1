//! Scenarios drawn from seeds. `SIM_SEED=n` repeats one, `SIM_COUNT=n` runs more.

use hangar_tests::sim::{scenario::play, seeds};

#[test]
fn whatever_clients_and_commands_do_each_byte_comes_once_and_nothing_is_left() {
    seeds::each(200, |seed| {
        play(seed);
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    seeds::each(8, |seed| {
        let trace = play(seed);
        let again = play(seed);
        let differs = trace.iter().zip(&again).position(|(one, other)| one != other);
        assert_eq!(differs.map(|at| (&trace[at], &again[at])), None);
        assert_eq!(trace.len(), again.len());
    });
}

/// For a look at one: prints its trace.
#[test]
#[ignore = "for a person who looks for what went wrong"]
fn show() {
    seeds::each(1, |seed| println!("{}", play(seed).join("\n")));
}
