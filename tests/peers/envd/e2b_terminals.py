"""Terminals by the Python SDK of E2B."""

import threading

from checks import check, equal, raises, until
from e2b import CommandExitException, NotFoundException, PtySize, TimeoutException


class Reader:
    """Reads a terminal on a thread of its own."""

    def __init__(self, handle):
        self.screen, self.error, self.code = b"", None, None
        threading.Thread(target=self.read, args=(handle,), daemon=True).start()

    def read(self, handle):
        def shown(data):
            self.screen += data

        try:
            self.code = handle.wait(on_pty=shown).exit_code
        except Exception as error:
            self.error = error

    def wait(self, text):
        try:
            until(f"the terminal shows {text}", lambda: text in self.screen)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.screen}") from None

    def ended(self):
        until("the terminal ends", lambda: self.error is not None or self.code is not None)
        return self.error


def terminal_checks(way, sandbox, folder, user):
    pty = sandbox.pty
    handle = pty.create(PtySize(rows=24, cols=80), cwd=folder, envs={"WORD": "wört"}, timeout=0, **user)
    reader = Reader(handle)
    # What is typed is shown, too, and must not look like what is printed.
    pty.send_stdin(handle.pid, b"stty size; echo $TERM-$LANG-$WORD; pwd; tty; echo o''ne\n")
    reader.wait(b"one\r\n")
    # The shell writes over what it wrote before a program prints.
    lines = [line.split("\r")[-1] for line in reader.screen.decode().split("\r\n")]
    for name, line in [("size", "24 80"), ("variables", "xterm-256color-C.UTF-8-wört"), ("directory", folder)]:
        check(f"the {name} of a terminal", line in lines, lines)
    check("it is one", any(line.startswith("/dev/pts/") for line in lines), lines)
    (listed,) = [process for process in sandbox.commands.list() if process.pid == handle.pid]
    equal("it is listed", (listed.cmd, listed.args), ("/bin/bash", ["-i", "-l"]))
    pty.resize(handle.pid, PtySize(rows=50, cols=132))
    second = Reader(way.again(sandbox).pty.connect(handle.pid, timeout=0))
    pty.stream_input(handle.pid, ["stty si", b"ze; echo t''wo\n"])
    reader.wait(b"two\r\n")
    second.wait(b"two\r\n")
    check("another size, by another reader", b"50 132\r\n" in second.screen, second.screen)
    # Once a program runs, characters mean what they mean to the terminal and not to the shell.
    pty.send_stdin(handle.pid, b"echo rea''ds; cat\n")
    reader.wait(b"reads\r\n")
    pty.send_stdin(handle.pid, b"\x04")
    pty.send_stdin(handle.pid, b"echo th''ree\n")
    reader.wait(b"three\r\n")
    check("the end of input is a character", True)
    # Said by what sleeps: an interrupt that comes before the shell has begun with it is the shell's, which then waits for it.
    pty.send_stdin(handle.pid, b"bash -c \"echo sle''eps; exec sleep 600\"\n")
    reader.wait(b"sleeps\r\n")
    pty.send_stdin(handle.pid, b"\x03")
    pty.send_stdin(handle.pid, b"echo fo''ur\n")
    reader.wait(b"four\r\n")
    check("what is interrupted ends", True)
    pty.send_stdin(handle.pid, b"exit 4\n")
    for name, one in [("its reader", reader), ("the other one", second)]:
        error = one.ended()
        check(f"it ends for {name}", isinstance(error, CommandExitException) and error.exit_code == 4, error)
    raises("it is gone", NotFoundException, lambda: pty.send_stdin(handle.pid, b"x"))
    raises("and has no size", NotFoundException, lambda: pty.resize(handle.pid, PtySize(rows=1, cols=1)))
    handle = pty.create(PtySize(rows=10, cols=40), timeout=0, **user)
    reader = Reader(handle)
    pty.send_stdin(handle.pid, b"echo r''eady\n")
    reader.wait(b"ready\r\n")
    check("it is killed", pty.kill(handle.pid) is True)
    error = reader.ended()
    check("and says so", isinstance(error, CommandExitException) and error.exit_code == -1, error)
    until("it is not killed twice", lambda: pty.kill(handle.pid) is False)
    raises("its time is over", TimeoutException, lambda: pty.create(PtySize(rows=1, cols=1), timeout=1, **user).wait())
