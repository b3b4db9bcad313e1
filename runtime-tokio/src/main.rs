//! The `hangar` command: the server, and the command line.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
