//! What `hangar-envd` holds of what is over.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    envd::{Running, argv, launching},
    machine::resident,
};

#[test]
fn the_arguments_of_what_is_over_are_not_kept() {
    launching("the_arguments_of_what_is_over_are_not_kept", || {
        let running = Running::start(|_| {});
        let client = running.proto().with("Hangar-Log", "1");
        let argument = "x".repeat(100_000);
        for _ in 0..100 {
            let ran = [&["/bin/true"][..], &[argument.as_str(); 15]].concat();
            assert_eq!(client.start(argv(&ran)).collect().code(), Some(0));
        }
        for _ in 0..30 {
            let never_ran = [&["/no/such/program"][..], &[argument.as_str(); 100]].concat();
            assert_eq!(client.start(argv(&never_ran)).collect().code(), Some(127));
        }
        // What was sent in all is 450 MB.
        let mib = resident(running.pid()) >> 20;
        assert!(mib < 128, "{mib} MiB");
        assert!(client.list().is_empty());
    });
}

#[test]
fn a_command_with_too_many_arguments_is_refused_at_once() {
    launching("a_command_with_too_many_arguments_is_refused_at_once", || {
        let running = Running::start(|_| {});
        let error = |count| {
            let many = [&["/no/such/program"][..], &vec![""; count]].concat();
            running.proto().start(argv(&many)).messages::<hangar_core::wire::envd::process::StartResponse>().1
        };
        assert_eq!(error(262_144), None);
        let refused = error(262_145).unwrap();
        assert_eq!(refused.message, "process.args: at most 262144 are taken");
    });
}
