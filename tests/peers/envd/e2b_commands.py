"""Commands by the Python SDK of E2B."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

from checks import check, equal, raises, until
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    SandboxException,
    TimeoutException,
)

# No process has it: Linux gives out less.
NOBODY = 1 << 22


def wait_for(path):
    """Words of a shell that wait until there is a file."""
    return f"until [ -e {path} ]; do sleep 0.05; done"


def command_checks(way, sandbox, folder, user):
    foreground(sandbox, folder, user)
    ends(sandbox, user)
    output(sandbox, user)
    background(sandbox, folder, user)
    followed(way, sandbox, folder, user)
    standard_input(sandbox, folder, user)
    timeouts(sandbox, folder, user)
    refusals(sandbox, user)
    concurrent(sandbox, user)


def foreground(sandbox, folder, user):
    run = sandbox.commands.run
    result = run("echo out; echo err >&2", **user)
    equal("a command and its output", (result.stdout, result.stderr), ("out\n", "err\n"))
    equal("an exit that is 0 is no error", (result.exit_code, result.error), (0, None))
    heard = {"out": [], "err": []}
    command = "for i in 1 2 3; do echo out $i; echo err $i >&2; sleep 0.05; done"
    result = run(command, on_stdout=heard["out"].append, on_stderr=heard["err"].append, **user)
    equal("callbacks hear standard output", "".join(heard["out"]), "out 1\nout 2\nout 3\n")
    equal("callbacks hear standard error", "".join(heard["err"]), "err 1\nerr 2\nerr 3\n")
    equal("and the result has it", (result.stdout, result.stderr), ("".join(heard["out"]), "".join(heard["err"])))
    heard = []
    result = run("echo heard", on_stdout=heard.append, retain_output=False, **user)
    equal("output that is not retained is heard", (result.stdout, heard), (None, ["heard\n"]))
    variables = {"WORD": "bär €", "EMPTY": "", "LINES_": "a\nb"}
    result = run('printf "%s|%s|%s" "$WORD" "${EMPTY-unset}" "$LINES_"', envs=variables, **user)
    equal("variables", result.stdout, "bär €||a\nb")
    result = run("echo $SHARED $HOME", **user)
    equal("variables of the sandbox", result.stdout, "shared /nonexistent\n")
    result = run("echo $SHARED", envs={"SHARED": "mine"}, **user)
    equal("a command's own variables count", result.stdout, "mine\n")
    equal("a working directory", run("pwd", cwd=folder, **user).stdout, f"{folder}\n")
    equal("without input a command reads an end", run("cat; echo read", **user).stdout, "read\n")
    result = run("(sleep 0.3; echo late) & echo early", **user)
    equal("output is awaited to its end", result.stdout, "early\nlate\n")


def ends(sandbox, user):
    run = sandbox.commands.run
    for code in (1, 3, 127, 255):
        ended = raises(f"exit {code}", CommandExitException, lambda: run(f"echo out; echo err >&2; exit {code}", **user))
        seen = (ended.exit_code, ended.error, ended.stdout, ended.stderr)
        equal(f"exit {code} says all", seen, (code, f"exit status {code}", "out\n", "err\n"))
    for signal, status in [("KILL", "killed"), ("TERM", "terminated"), ("SEGV", "segmentation fault"), ("HUP", "hangup")]:
        ended = raises(f"signal {signal}", CommandExitException, lambda: run(f"kill -{signal} $$", **user))
        equal(f"signal {signal} says so", (ended.exit_code, ended.error), (-1, f"signal: {status}"))
    ended = raises("no such program", CommandExitException, lambda: run("no-such-program", **user))
    check("the shell says so", ended.exit_code == 127 and "command not found" in ended.stderr, ended)


def output(sandbox, user):
    run = sandbox.commands.run
    result = run("seq 1 500000; seq 1 100000 >&2", **user)
    expected = "".join(f"{i}\n" for i in range(1, 500_001))
    check("some MB, and nothing is lost", result.stdout == expected, len(result.stdout))
    check("nor beside it", result.stderr == expected[: len(result.stderr)] and result.stderr.endswith("\n100000\n"))
    # 10 bytes a line: pieces of whatever power of two end within characters.
    result = run("yes 'ä€𝄞' | head -n 300000", **user)
    check("characters that are split over pieces", result.stdout == "ä€𝄞\n" * 300_000, len(result.stdout))
    result = run(r"for byte in '\xf0' '\x9d' '\x84' '\x9e'; do printf $byte; sleep 0.05; done", **user)
    equal("a character that comes byte by byte", result.stdout, "𝄞")
    equal("what is no text", run(r"printf 'a\xffb\xe2\x82'", **user).stdout, "a\ufffdb\ufffd")
    heard = hashlib.sha256()
    command = "head -c 3000000 /dev/zero | tr '\\0' 'x'"
    result = run(command, on_stdout=lambda text: heard.update(text.encode()), retain_output=False, **user)
    equal("and as it is heard", heard.hexdigest(), hashlib.sha256(b"x" * 3_000_000).hexdigest())


def background(sandbox, folder, user):
    commands = sandbox.commands
    command = "echo up; sleep 600"
    handle = commands.run(command, background=True, envs={"A": "b"}, cwd=folder, timeout=0, **user)
    until("it is up", lambda: next(iter(handle)) == ("up\n", None, None))
    (listed,) = [process for process in commands.list() if process.pid == handle.pid]
    seen = (listed.cmd, listed.args, listed.envs, listed.cwd, listed.tag)
    equal("what runs is listed", seen, ("/bin/bash", ["-l", "-c", command], {"A": "b"}, folder, None))
    check("it is killed", handle.kill() is True)
    ended = raises("the handle says how it ended", CommandExitException, handle.wait)
    equal("as killed", (ended.exit_code, ended.error, ended.stdout), (-1, "signal: killed", "up\n"))
    until("it is gone", lambda: handle.pid not in [process.pid for process in commands.list()])
    check("what is gone is not killed", commands.kill(handle.pid) is False)
    check("nor what never was", commands.kill(NOBODY) is False)
    handle = commands.run("echo one; exit 7", background=True, **user)
    raises("it is over", CommandExitException, handle.wait)
    late = raises("who comes late hears the end", CommandExitException, lambda: commands.connect(handle.pid).wait())
    equal("and that alone", (late.exit_code, late.stdout), (7, ""))


def followed(way, sandbox, folder, user):
    commands = sandbox.commands
    command = f"echo before; {wait_for(folder + '/go')}; seq 1 20000; echo last; exit 5"
    handle = commands.run(command, background=True, timeout=0, **user)
    for out, _, _ in handle:
        equal("it printed", out, "before\n")
        break
    handle.disconnect()
    check("who disconnects ends nothing", handle.pid in [process.pid for process in commands.list()])
    # By this object and by another one, several at once.
    others = [commands.connect(handle.pid, timeout=0)]
    others += [way.again(sandbox).commands.connect(handle.pid, timeout=0) for _ in range(3)]
    equal("they follow the same", {other.pid for other in others}, {handle.pid})
    results = []

    def wait(other):
        heard = []
        try:
            other.wait(on_stdout=heard.append)
        except CommandExitException as ended:
            results.append((ended.exit_code, ended.stdout == "".join(heard), ended.stdout))

    threads = [threading.Thread(target=wait, args=(other,), daemon=True) for other in others]
    for thread in threads:
        thread.start()
    sandbox.files.write(f"{folder}/go", "", **user)
    until("all have heard", lambda: len(results) == len(others))
    expected = "".join(f"{i}\n" for i in range(1, 20_001)) + "last\n"
    equal("each hears what is new, whole, and its end", set(results), {(5, True, expected)})


def standard_input(sandbox, folder, user):
    commands = sandbox.commands
    command = "while read -r line; do echo got $line; done; echo end"
    handle = commands.run(command, background=True, stdin=True, **user)
    handle.send_stdin("one\n")
    commands.send_stdin(handle.pid, b"two\n")
    commands.stream_input(handle.pid, ["three\nfo", b"ur\n", "fünf\n"])
    handle.send_stdin("")
    handle.send_stdin("six\n")
    handle.close_stdin()
    expected = "".join(f"got {word}\n" for word in ("one", "two", "three", "four", "fünf", "six")) + "end\n"
    equal("input comes in its order, and its end", handle.wait().stdout, expected)
    handle = commands.run(f"sha256sum; {wait_for(folder + '/closed')}", background=True, stdin=True, timeout=0, **user)
    pieces = [bytes([i % 256]) * 65_536 for i in range(48)]
    commands.stream_input(handle.pid, pieces)
    commands.close_stdin(handle.pid)
    commands.close_stdin(handle.pid)
    raises("no input after its end", SandboxException, lambda: handle.send_stdin("more"), "input")
    sandbox.files.write(f"{folder}/closed", "", **user)
    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    equal("3 MB of input", handle.wait().stdout, f"{digest}  -\n")
    handle = commands.run("sleep 600", background=True, timeout=0, **user)
    raises("a command without input takes none", SandboxException, lambda: handle.send_stdin("x"), "input")
    raises("nor as a stream", SandboxException, lambda: commands.stream_input(handle.pid, ["x"]), "input")
    handle.kill()
    raises("no input for nobody", NotFoundException, lambda: commands.send_stdin(NOBODY, "x"))
    raises("nor a stream of it", NotFoundException, lambda: commands.stream_input(NOBODY, ["x"]))
    raises("nor its end", NotFoundException, lambda: commands.close_stdin(NOBODY))
    raises("one piece is no stream", InvalidArgumentException, lambda: commands.stream_input(NOBODY, "x"))


def timeouts(sandbox, folder, user):
    commands = sandbox.commands
    marker = f"echo {folder}; sleep 600"
    runs = lambda: [process for process in commands.list() if marker in process.args]
    raises("a time that is over", TimeoutException, lambda: commands.run(marker, timeout=1, **user))
    until("ends the command, too", lambda: not runs())
    handle = commands.run(marker, background=True, timeout=0, **user)
    raises("the time of who follows", TimeoutException, lambda: commands.connect(handle.pid, timeout=1).wait())
    equal("ends nothing", [process.pid for process in runs()], [handle.pid])
    handle.kill()
    equal("a time that is enough", commands.run("sleep 0.1; echo on", timeout=50, **user).stdout, "on\n")
    reading = commands.run("read x", background=True, stdin=True, timeout=0, **user)
    stuck = commands.run("sleep 600", background=True, stdin=True, timeout=0, **user)
    too_much = lambda: commands.stream_input(stuck.pid, [b"x" * 1_000_000] * 4, timeout=1)
    raises("the time of input that nobody reads", TimeoutException, too_much)
    reading.send_stdin("\n")
    equal("which holds up no other process", reading.wait().exit_code, 0)
    stuck.close_stdin()
    check("nor its own end", stuck.kill() is True)


def refusals(sandbox, user):
    commands = sandbox.commands
    raises("nobody to follow", NotFoundException, lambda: commands.connect(NOBODY), "pid")
    for directory in ("/no/such", "/etc/passwd"):
        raises(f"{directory} to work in", InvalidArgumentException, lambda: commands.run("true", cwd=directory, **user), "cwd")
    unknown = lambda call: raises("a user whom nobody knows", AuthenticationException, call, "no-such-user")
    unknown(lambda: commands.run("true", user="no-such-user"))
    unknown(lambda: sandbox.files.exists("/", user="no-such-user"))
    unknown(lambda: sandbox.files.read("/etc/passwd", user="no-such-user"))


def concurrent(sandbox, user):
    run = lambda i: sandbox.commands.run(f"sleep 0.5; echo {i}; seq 1 {i} >&2", **user)
    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(run, range(50)))
    found = [(result.stdout, result.stderr.count("\n")) for result in results]
    equal("50 commands at once", found, [(f"{i}\n", i) for i in range(50)])
