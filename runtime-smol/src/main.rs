//! `hangar-envd`: the daemon inside a sandbox, by the protocol of E2B's envd.

mod daemon;

fn main() -> std::process::ExitCode {
    daemon::main()
}
