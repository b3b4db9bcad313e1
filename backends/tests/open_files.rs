//! The limit of open files, which is the whole process's: alone in its file.
#![cfg(feature = "local")]

mod support;

use hangar_backends::open_files;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{run, sandbox, shell};

#[test]
fn it_is_raised_when_many_are_open_and_commands_have_the_first_one() {
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(200), ..limit };
    setrlimit(Resource::Nofile, few).unwrap();
    let sandbox = sandbox();
    let in_command = || run(&sandbox, shell("ulimit -Sn; ulimit -Hn")).stdout();
    open_files::opened(1_000_000);
    assert_eq!(getrlimit(Resource::Nofile).current, Some(200), "nobody has permitted it");

    assert_eq!(open_files::permit(), limit.maximum);
    open_files::opened(99);
    assert_eq!(getrlimit(Resource::Nofile).current, Some(200));
    let before = in_command();
    let mut held = Vec::new();
    // What is started tells by the numbers of its own descriptors that many are open.
    while getrlimit(Resource::Nofile).current == Some(200) {
        held.push(std::fs::File::open("/dev/null").unwrap());
        if held.len() >= 100 {
            run(&sandbox, shell("true"));
        }
        assert!(held.len() < 150);
    }
    assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    assert!(before.starts_with("200\n"), "{before}");
    assert_eq!(in_command(), before);
}
