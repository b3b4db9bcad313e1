"""The same by the clients of the Python SDK of E2B that are awaited."""

import asyncio
import random

from checks import check, equal, raises_later
from e2b import (
    CommandExitException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    TimeoutException,
)
from e2b_files import CHANGED, CHANGES, IN_ORDER, in_order, told

NOBODY = 1 << 22
LARGE = random.Random(8).randbytes(3_000_000)


async def until(name, condition):
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)
    check(name, True)


async def later_checks(way, folder, user):
    sandbox = await way.later()
    check("it runs, awaited", await sandbox.is_running())
    await commands(way, sandbox, folder, user)
    await files(sandbox, folder, user)
    await watches(sandbox, folder, user)
    await terminals(sandbox, user)
    await concurrent(sandbox, user)


async def commands(way, sandbox, folder, user):
    commands = sandbox.commands
    running = lambda handle: lambda: is_running(handle)

    async def is_running(handle):
        return handle.pid in [process.pid for process in await commands.list()]

    async def is_gone(handle):
        return not await is_running(handle)

    heard = {"out": [], "err": []}
    command = "for i in 1 2 3; do echo out $i; echo err $i >&2; sleep 0.05; done; exit 2"
    run = commands.run(command, on_stdout=heard["out"].append, on_stderr=heard["err"].append, **user)
    ended = await raises_later("an exit, awaited", CommandExitException, run)
    equal("it says all", (ended.exit_code, ended.stdout, ended.stderr.count("\n")), (2, "out 1\nout 2\nout 3\n", 3))
    equal("callbacks hear all", ("".join(heard["out"]), "".join(heard["err"])), (ended.stdout, ended.stderr))
    go = f"{folder}/go later"
    command = f"echo up; until [ -e '{go}' ]; do sleep 0.05; done; seq 1 5000"
    first = []
    handle = await commands.run(command, background=True, on_stdout=first.append, timeout=0, **user)

    async def is_up():
        return "".join(first) == "up\n"

    await until("a callback hears what runs in the background", is_up)
    await handle.disconnect()
    check("who disconnects ends nothing, awaited", await is_running(handle))
    second, third = [], []
    another = await way.later()
    followed = await commands.connect(handle.pid, on_stdout=second.append, timeout=0)
    beside = await another.commands.connect(handle.pid, on_stdout=third.append, timeout=0)
    await sandbox.files.write(go, b"", **user)
    expected = "".join(f"{i}\n" for i in range(1, 5001))
    results = [await followed.wait(), await beside.wait()]
    equal("two follow what one started", [result.stdout == expected for result in results], [True, True])
    equal("with callbacks", ["".join(second) == expected, "".join(third) == expected], [True, True])
    handle = await commands.run("while read -r x; do echo got $x; done", background=True, stdin=True, **user)
    await handle.send_stdin("one\n")
    async with commands.stream_input(handle.pid) as stream:
        for word in ("two\n", b"three\n", "fo", "ur\n"):
            await stream.send(word)
    await handle.close_stdin()
    equal("input, awaited", (await handle.wait()).stdout, "got one\ngot two\ngot three\ngot four\n")
    handle = await commands.run("sleep 600", background=True, timeout=0, **user)
    check("it is killed, awaited", await handle.kill() is True)
    ended = await raises_later("it ends as killed", CommandExitException, handle.wait())
    equal("by a signal", (ended.exit_code, ended.error), (-1, "signal: killed"))
    await until("it is not killed twice, awaited", lambda: negated(commands.kill(handle.pid)))
    await raises_later("a time that is over, awaited", TimeoutException, commands.run("sleep 600", timeout=1, **user))
    await raises_later("nobody to follow, awaited", NotFoundException, commands.connect(NOBODY))
    # A task that is cancelled leaves.
    handle = await commands.run("sleep 600", background=True, timeout=0, **user)
    waiting = asyncio.create_task(handle.wait())
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    check("who is cancelled ends nothing", await is_running(handle))
    await commands.kill(handle.pid)
    await until("until it is killed", lambda: is_gone(handle))


async def negated(call):
    return not await call


async def files(sandbox, folder, user):
    files = sandbox.files
    path = f"{folder}/later/file"

    async def pieces():
        for i in range(0, len(LARGE), 100_000):
            yield LARGE[i : i + 100_000]

    for name, data, options in [
        ("a form", LARGE, {}),
        ("one body", LARGE, {"use_octet_stream": True}),
        ("a packed body", LARGE, {"gzip": True}),
        ("pieces", pieces(), {}),
        ("packed pieces", pieces(), {"gzip": True}),
    ]:
        await files.write(path, data, **options, **user)
        check(f"{name}, awaited", bytes(await files.read(path, format="bytes", **user)) == LARGE)
    read = b""
    async with await files.read(path, format="stream", **user) as stream:
        async for piece in stream:
            read += piece
    check("a stream, awaited", read == LARGE)
    check("packed, awaited", bytes(await files.read(path, format="bytes", gzip=True, **user)) == LARGE)
    entries = [{"path": f"{folder}/later/{i}", "data": str(i)} for i in range(10)]
    equal("several, awaited", len(await files.write_files(entries, **user)), 10)
    listed = await files.list(f"{folder}/later", **user)
    equal("a list, awaited", [entry.name for entry in listed], [*map(str, range(10)), "file"])
    equal("what is there, awaited", (await files.get_info(path, **user)).type, FileType.FILE)
    check("a directory, awaited", await files.make_dir(f"{folder}/later/new", **user) is True)
    check("once, awaited", await files.make_dir(f"{folder}/later/new", **user) is False)
    await files.rename(path, f"{folder}/later/new/file", **user)
    await raises_later("it was moved, awaited", FileNotFoundException, files.read(path, **user))
    await files.remove(f"{folder}/later", **user)
    check("it was removed, awaited", await files.exists(f"{folder}/later", **user) is False)


async def watches(sandbox, folder, user):
    files, place = sandbox.files, f"{folder}/watched later"
    await files.make_dir(f"{place}/sub", **user)
    events, ends, cut = [], [], []
    watch = {"recursive": True, "timeout": 0, **user}
    await files.watch_dir(place, events.append, on_exit=ends.append, include_entry=True, **watch)
    stopped = await files.watch_dir(place, cut.append, **watch)
    short = []
    await files.watch_dir(place, cut.append, on_exit=short.append, timeout=1, **user)
    await sandbox.commands.run(CHANGES, cwd=place, **user)

    async def is_told():
        return set(told(events)) >= set(CHANGED) and CHANGED[-1] in told(cut)

    await until("what changed is told as it changes", is_told)
    equal("each change in its order, awaited", in_order(events), IN_ORDER)
    last = next(event.entry for event in events if event.name == "sub/z")
    equal("with what is there, awaited", (last.name, last.path), ("z", f"{place}/sub/z"))
    await stopped.stop()
    heard = len(cut)

    async def is_over():
        return len(short) == 1

    await until("a watch whose time is over", is_over)
    check("says so", isinstance(short[0], TimeoutException), short)
    await files.remove(place, **user)

    async def is_ended():
        return len(ends) == 1

    await until("a watch whose directory is gone", is_ended)
    equal("ends without an error, after it was told", (ends, told(events)[-1]), ([None], ("remove", ".")))
    equal("who stopped hears nothing more", len(cut), heard)
    nothing = lambda path: files.watch_dir(path, events.append, **user)
    await raises_later("nothing to watch, awaited", FileNotFoundException, nothing(place))
    await raises_later("no directory to watch, awaited", InvalidArgumentException, nothing("/etc/passwd"))


async def terminals(sandbox, user):
    screen = bytearray()
    handle = await sandbox.pty.create(PtySize(rows=20, cols=70), on_data=screen.extend, timeout=0, **user)

    async def shows(text):
        return text in screen

    await sandbox.pty.send_stdin(handle.pid, b"stty size; echo o''ne\n")
    await until("a terminal, awaited", lambda: shows(b"one\r\n"))
    await sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=90))
    async with sandbox.pty.stream_input(handle.pid) as stream:
        await stream.send(b"stty size; echo t''wo\n")
    await until("input for it, awaited", lambda: shows(b"two\r\n"))
    check("its sizes, awaited", b"20 70\r\n" in screen and b"30 90\r\n" in screen, screen)
    check("it is killed", await sandbox.pty.kill(handle.pid) is True)
    ended = await raises_later("and ends", CommandExitException, handle.wait())
    equal("as killed", ended.exit_code, -1)


async def concurrent(sandbox, user):
    command = "sleep 0.5; seq {} 2000"
    runs = [sandbox.commands.run(command.format(i), background=True, **user) for i in range(50)]
    handles = await asyncio.gather(*runs)
    results = await asyncio.gather(*[handle.wait() for handle in handles])
    expected = ["".join(f"{n}\n" for n in range(i, 2001)) for i in range(50)]
    equal("50 commands at once, awaited", [result.stdout == text for result, text in zip(results, expected)], [True] * 50)
