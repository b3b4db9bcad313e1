//! `hangar attach` in a real terminal, which is one of tmux.

#![allow(clippy::unwrap_used, reason = "what the checks share may fail as they do")]

use hangar_tests::real::{
    Folder, Mark, Serving, cli, hangar, machine::unique, peers, proxy::Proxy, wait_until,
};
use std::{net::SocketAddr, path::PathBuf, process::Command};

/// A tmux of its own with one window. Dropped, it is ended with everything in it.
struct Screen {
    tmux: PathBuf,
    socket: PathBuf,
    _folder: Folder,
}

impl Screen {
    /// A shell in a terminal, from which the server is called.
    fn open(tmux: PathBuf, server: SocketAddr, serving: &Serving) -> Self {
        let folder = Folder::new();
        let screen = Self { tmux, socket: folder.file(&unique("tmux")), _folder: folder };
        let mut start = screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "30"]);
        start.arg("exec env -u BASH_ENV PS1='outer> ' bash --norc --noprofile");
        start.env("HANGAR_URL", format!("http://{server}")).env("HANGAR_TOKEN", &serving.client().token);
        start.env("HANGAR", hangar().get_program()).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        assert!(start.status().unwrap().success());
        screen.shows("outer>");
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tmux);
        command.arg("-S").arg(&self.socket).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.tmux(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types keys by their names: `Enter`, `C-c`.
    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Types a line.
    fn line(&self, line: &str) {
        self.run(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.run(&["resize-window", "-x", &cols.to_string(), "-y", &rows.to_string()]);
    }

    /// What is to be seen, without what is empty at the end of it.
    fn shown(&self) -> String {
        // Lines that were too long are put together again, which keeps the spaces at their ends.
        let shown = self.run(&["capture-pane", "-p", "-J"]);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// Waits until a text is to be seen.
    fn shows(&self, text: &str) {
        self.comes_to(text, |shown| shown.contains(text));
    }

    /// Waits until the last line begins so.
    fn prompts(&self, prompt: &str) {
        self.comes_to(prompt, |shown| shown.lines().last().is_some_and(|line| line.starts_with(prompt)));
    }

    fn comes_to(&self, what: &str, done: impl Fn(&str) -> bool) {
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || done(&self.shown()));
        }));
        assert!(waited.is_ok(), "not to be seen: {what}\n{}", self.shown());
    }

    /// Empties the screen, and waits for a prompt.
    fn clear(&self, prompt: &str) {
        self.line("clear; printf 'cleared\\n'");
        self.comes_to("an empty screen", |shown| {
            shown.starts_with("cleared\n")
                && shown.lines().last().is_some_and(|line| line.starts_with(prompt))
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.tmux(&["kill-server"]).output());
    }
}

/// tmux and another program.
fn tmux(test: &str, beside: &str) -> Option<PathBuf> {
    let tmux = peers::tmux(test)?;
    let there = beside.is_empty() || peers::runs(beside.as_ref(), "--version");
    peers::found(test, there.then_some(tmux), &format!("there is no {beside}"))
}

/// Starts a shell with a terminal.
fn start_shell(serving: &Serving, mark: &Mark) {
    let mut start = hangar();
    start.args(["start", "local", "--name", "shell", "--tty"]);
    start.args(["-e", &format!("{}={}", Mark::NAME, mark.value())]);
    start.args(["-e", "TERM=screen", "-e", "LC_ALL=C.UTF-8"]);
    start.args([
        "-e",
        "HOME=/nonexistent",
        "-e",
        "HISTFILE=",
        "PS1='inner> ' exec bash --norc --noprofile -i",
    ]);
    start.env("HANGAR_URL", format!("http://{}", serving.client().address));
    start.env("HANGAR_TOKEN", &serving.client().token);
    assert!(start.output().unwrap().status.success());
}

const ATTACH: &str = "$HANGAR attach local shell";

#[test]
fn a_shell_has_the_terminal() {
    let Some(tmux) = tmux("a_shell_has_the_terminal", "") else { return };
    cli("a_shell_has_the_terminal", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        start_shell(&serving, &mark);
        let screen = Screen::open(tmux, serving.client().address, &serving);
        screen.line("before=$(stty -g)");
        screen.line(ATTACH);
        screen.shows("Ctrl-] leaves it running");
        screen.prompts("inner>");
        screen.line("stty size");
        screen.shows("\n30 90\n");
        screen.resize(70, 20);
        screen.line("stty size");
        screen.shows("\n20 70\n");
        // Keys that a terminal would act on itself.
        screen.line("sleep 777");
        mark.wait_for("sleep 777");
        screen.keys(&["C-c"]);
        screen.prompts("inner>");
        screen.line("echo it is $?");
        screen.shows("it is 130");
        screen.line("sleep 777");
        mark.wait_for("sleep 777");
        screen.keys(&["C-z"]);
        screen.shows("Stopped");
        screen.line("kill -9 %1; wait %1; echo 'é€'");
        screen.shows("\né€\n");
        // Detached, attached to, and at last ended.
        screen.keys(&["C-]"]);
        screen.shows("which goes on");
        screen.prompts("outer>");
        screen.line("echo left $?; [ \"$before\" = \"$(stty -g)\" ] && echo as it was");
        screen.shows("left 0\nas it was");
        screen.clear("outer>");
        screen.line(ATTACH);
        screen.shows("é€");
        screen.line("exit 9");
        screen.prompts("outer>");
        screen.line("echo ended $?");
        screen.shows("ended 9");
        // Started and attached to in one, with this terminal's size from the beginning.
        screen.clear("outer>");
        screen.line("$HANGAR start local --tty --attach 'stty size; read -n1 x; echo \"got $x\"; exit 9'");
        screen.shows("\n20 70");
        screen.keys(&["q"]);
        screen.prompts("outer>");
        screen.shows("got q");
        screen.line("echo ended $?; [ \"$before\" = \"$(stty -g)\" ] && echo as it was");
        screen.shows("ended 9\nas it was");
    });
}

/// Sends a signal to the `hangar attach` of these arguments.
fn signal_to_attach(signal: &str, give_up: u32) {
    let its = format!("--give-up 0[.]{give_up}");
    let sent = Command::new("pkill").args([&format!("-{signal}"), "-f", "--", &its]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn the_terminal_is_given_back_to_whoever_ends_it() {
    let Some(tmux) = tmux("the_terminal_is_given_back_to_whoever_ends_it", "") else { return };
    cli("the_terminal_is_given_back_to_whoever_ends_it", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        start_shell(&serving, &mark);
        let screen = Screen::open(tmux, serving.client().address, &serving);
        screen.line("before=$(stty -g)");
        // By its arguments, which no other test's has.
        let give_up = std::process::id() + 1000;
        for signal in ["TERM", "HUP", "INT"] {
            screen.clear("outer>");
            screen.line(&format!("{ATTACH} --give-up 0.{give_up}"));
            screen.prompts("inner>");
            // On another screen, without a cursor.
            screen.line(r"printf '\033[?1049h\033[?25lother\n'");
            screen.shows("other");
            signal_to_attach(signal, give_up);
            screen.prompts("outer>");
            assert_eq!(screen.run(&["display", "-p", "#{alternate_on} #{cursor_flag}"]), "0 1\n", "{signal}");
            screen.line("[ \"$before\" = \"$(stty -g)\" ] && echo as it was");
            screen.shows("\nas it was");
        }
        // A shell that has it meanwhile.
        screen.clear("outer>");
        screen.line(&format!("{ATTACH} --give-up 0.{give_up}"));
        screen.prompts("inner>");
        signal_to_attach("STOP", give_up);
        screen.prompts("outer>");
        screen.line("fg");
        screen.prompts("inner>");
        screen.line("sleep 777");
        mark.wait_for("sleep 777");
        screen.keys(&["C-c"]);
        screen.prompts("inner>");
        screen.line("echo it is $?");
        screen.shows("it is 130");
        screen.keys(&["C-]"]);
        screen.prompts("outer>");
        // A server that is gone for good.
        screen.clear("outer>");
        screen.line(&format!("{ATTACH} --give-up 0.5"));
        screen.prompts("inner>");
        serving.signal(rustix::process::Signal::KILL);
        screen.shows("given up");
        screen.prompts("outer>");
        screen.line("echo $?; [ \"$before\" = \"$(stty -g)\" ] && echo as it was");
        screen.shows("\n125\nas it was");
    });
}

#[test]
fn programs_that_fill_the_screen_draw_it_again() {
    let Some(tmux) = tmux("programs_that_fill_the_screen_draw_it_again", "less") else { return };
    cli("programs_that_fill_the_screen_draw_it_again", || {
        let serving = Serving::start(|_| {});
        let mark = Mark::new();
        start_shell(&serving, &mark);
        let screen = Screen::open(tmux, serving.client().address, &serving);
        let folder = Folder::new();
        let text: String = (1..=500).map(|line| format!("line {line}\n")).collect();
        std::fs::write(folder.file("text"), text).unwrap();
        let text = folder.file("text").display().to_string();
        // Line 100 at the top, in a screen of 30 lines.
        let page = |shown: &str| {
            let lines: Vec<&str> = shown.lines().collect();
            lines.len() >= 29 && (0..29).all(|at| lines[at] == format!("line {}", 100 + at))
        };
        let leave = || {
            screen.keys(&["C-]"]);
            screen.shows("which goes on");
            screen.clear("outer>");
            screen.line(ATTACH);
        };
        screen.line(ATTACH);
        screen.prompts("inner>");
        screen.line(&format!("less {text}"));
        screen.shows("line 29");
        screen.run(&["send-keys", "-l", "100g"]);
        screen.comes_to("a page", page);
        leave();
        screen.comes_to("the page again", page);
        // What was on the screen before is not known to a terminal that was not there.
        screen.keys(&["q"]);
        screen.shows("inner>");
        screen.clear("inner>");
        if peers::runs("vim".as_ref(), "--version") {
            screen.line(&format!("vim -u NONE -N {text}"));
            screen.shows("line 29");
            screen.keys(&["1", "0", "0", "G", "z", "Enter"]);
            screen.comes_to("a page", page);
            screen.resize(60, 40);
            screen.shows("line 138");
            screen.resize(90, 30);
            leave();
            screen.comes_to("the page again", page);
            screen.line(":q!");
            screen.shows("inner>");
            screen.clear("inner>");
        }
        screen.line("top");
        screen.shows("load average");
        leave();
        screen.shows("load average");
        screen.keys(&["q"]);
        screen.shows("inner>");
    });
}

#[test]
fn a_terminal_comes_back_with_its_connection() {
    let Some(tmux) = tmux("a_terminal_comes_back_with_its_connection", "") else { return };
    cli("a_terminal_comes_back_with_its_connection", || {
        let serving = Serving::start(|_| {});
        let proxy = Proxy::start(serving.client().address);
        let mark = Mark::new();
        start_shell(&serving, &mark);
        let screen = Screen::open(tmux, proxy.address(), &serving);
        screen.line(ATTACH);
        screen.prompts("inner>");
        proxy.refuse(true);
        proxy.cut();
        screen.shows("trying for 300 s to come back");
        // What is typed and changed meanwhile is not lost.
        screen.line("stty size");
        screen.resize(80, 25);
        proxy.refuse(false);
        screen.shows("the connection is back");
        screen.line("stty size; echo done");
        screen.shows("25 80\ndone");
        // Nor is one kept that would leave.
        proxy.refuse(true);
        proxy.cut();
        screen.comes_to("another loss", |shown| shown.matches("trying for").count() == 2);
        screen.keys(&["C-]"]);
        screen.prompts("outer>");
        screen.line("echo left $?");
        screen.shows("left 0");
    });
}
