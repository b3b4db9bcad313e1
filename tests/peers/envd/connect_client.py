"""The Connect client of Python against a daemon that speaks the protocol of E2B's envd, in JSON and in protobuf: each method of its
services, with the messages that the SDK of E2B has.

connect_client.py URL FOLDER: prints a line for each check, and how many they were.
"""

import asyncio
import itertools
import json
import struct
import sys

import httpx
from checks import check, equal, raises, raises_later, run
from connectrpc.code import Code
from connectrpc.codec import proto_binary_codec, proto_json_codec
from connectrpc.errors import ConnectError
from e2b.envd.filesystem import filesystem_pb as fs
from e2b.envd.filesystem.filesystem_connect import FilesystemClient, FilesystemClientSync
from e2b.envd.process import process_pb as ps
from e2b.envd.process.process_connect import ProcessClient, ProcessClientSync
from protobuf import Oneof

url, folder = sys.argv[1:]
# Strictly: what a stranger does not know is an error.
CODECS = {"json": proto_json_codec(ignore_unknown_fields=False), "proto": proto_binary_codec()}
NOBODY = 1 << 22
http = httpx.Client(base_url=url, trust_env=False, timeout=60)


def bash(command, **fields):
    config = ps.ProcessConfig(cmd="/bin/bash", args=["-c", command])
    return ps.StartRequest(process=config, stdin=fields.pop("stdin", False), **fields)


def pid(number):
    return ps.ProcessSelector(selector=Oneof("pid", number))


def tag(name):
    return ps.ProcessSelector(selector=Oneof("tag", name))


def event(message):
    """What a stream says: its name, and what it says."""
    return message.event.event.field, message.event.event.value


def printed(data):
    return data.output.field, data.output.value


def collect(stream):
    """The whole of a stream: the kinds of its events in their order, its output, and its end."""
    kinds, output, end = [], {"stdout": b"", "stderr": b"", "pty": b""}, None
    for message in stream:
        kind, value = event(message)
        kinds.append(kind)
        if kind == "data":
            stream_name, data = printed(value)
            output[stream_name] += data
        elif kind == "end":
            end = value
    return kinds, output, end


def refused(name, code, call, says=""):
    error = raises(name, ConnectError, call, says)
    equal(f"{name}, with its code", error.code, code)


class Client:
    def __init__(self, codec):
        options = {"codec": CODECS[codec], "send_compression": None}
        self.codec, self.options = codec, options
        self.processes = ProcessClientSync(url, **options)
        self.files = FilesystemClientSync(url, **options)


def processes(client):
    call = client.processes
    kinds, output, end = collect(call.start(bash("echo out; echo err >&2; exit 3")))
    equal("events in their order", [kind for kind, _ in itertools.groupby(kinds)], ["start", "data", "end"])
    equal("output", (output["stdout"], output["stderr"]), (b"out\n", b"err\n"))
    equal("an end", (end.exit_code, end.exited, end.status, end.error), (3, True, "exit status 3", "exit status 3"))
    _, _, end = collect(call.start(bash("exit 0")))
    equal("an end that is well", (end.exit_code, end.exited, end.status, end.has_field("error")), (0, True, "exit status 0", False))
    _, _, end = collect(call.start(bash("kill -9 $$")))
    equal("an end by a signal", (end.exit_code, end.exited, end.error), (-1, False, "signal: killed"))
    _, output, _ = collect(call.start(bash("seq 1 300000")))
    expected = "".join(f"{i}\n" for i in range(1, 300_001)).encode()
    check("a large output", output["stdout"] == expected, len(output["stdout"]))
    _, output, _ = collect(call.start(bash(r"printf '\x00\xff\x80\n\r\x00'")))
    equal("bytes", output["stdout"], b"\x00\xff\x80\n\r\x00")
    followed(call)
    given_input(call)
    terminal(call)


def followed(call):
    config = ps.ProcessConfig(cmd="/bin/cat", args=[], envs={"A": "b", "C": ""}, cwd=folder)
    stream = call.start(ps.StartRequest(process=config, tag="a tag €"))
    kind, start = event(next(stream))
    check("the first event", kind == "start" and start.pid > 0, kind)
    (info,) = call.list(ps.ListRequest()).processes
    seen = (info.pid, info.tag, info.config.cmd, list(info.config.args), dict(info.config.envs), info.config.cwd)
    equal("a list", seen, (start.pid, "a tag €", "/bin/cat", [], {"A": "b", "C": ""}, folder))
    others = [call.connect(ps.ConnectRequest(process=which)) for which in (pid(start.pid), tag("a tag €"))]
    equal("it is followed", [event(next(other))[1].pid for other in others], [start.pid] * 2)
    say = ps.ProcessInput(input=Oneof("stdin", b"said\n"))
    equal("input", type(call.send_input(ps.SendInputRequest(process=tag("a tag €"), input=say))), ps.SendInputResponse)
    for one in [stream, *others]:
        equal("all hear", printed(event(next(one))[1]), ("stdout", b"said\n"))
    others[0].close()
    equal("its end of input", type(call.close_stdin(ps.CloseStdinRequest(process=pid(start.pid)))), ps.CloseStdinResponse)
    for one in [stream, others[1]]:
        kinds, _, end = collect(one)
        equal("all hear the end", (kinds, end.exit_code), (["end"], 0))
    kinds, _, end = collect(call.connect(ps.ConnectRequest(process=pid(start.pid))))
    equal("also who comes late", (kinds, end.exit_code), (["start", "end"], 0))
    refused("what has ended gets no input", Code.NOT_FOUND, lambda: call.send_input(ps.SendInputRequest(process=pid(start.pid), input=say)))
    stream = call.start(bash("trap 'echo trapped; exit 7' TERM; echo set; while :; do sleep 0.05; done"))
    number = event(next(stream))[1].pid
    equal("it is ready", printed(event(next(stream))[1]), ("stdout", b"set\n"))
    call.send_signal(ps.SendSignalRequest(process=pid(number), signal=ps.Signal.SIGTERM))
    _, output, end = collect(stream)
    equal("a signal", (output["stdout"], end.exit_code), (b"trapped\n", 7))
    kill = lambda of: call.send_signal(ps.SendSignalRequest(process=of, signal=ps.Signal.SIGKILL))
    refused("no signal for what has ended", Code.NOT_FOUND, lambda: kill(pid(number)))
    refused("nor for nobody", Code.NOT_FOUND, lambda: kill(pid(NOBODY)))
    refused("nor for a tag of nobody", Code.NOT_FOUND, lambda: kill(tag("nobody")), "nobody")
    refused("nor without a name", Code.INVALID_ARGUMENT, lambda: kill(None), "process")
    refused("nor by an empty one", Code.INVALID_ARGUMENT, lambda: kill(ps.ProcessSelector()), "process")
    stream = call.start(bash("sleep 600"))
    number = event(next(stream))[1].pid
    send = lambda signal: call.send_signal(ps.SendSignalRequest(process=pid(number), signal=signal))
    refused("no signal is none", Code.UNIMPLEMENTED, lambda: send(ps.Signal.UNSPECIFIED))
    send(ps.Signal.SIGKILL)
    equal("a kill", collect(stream)[2].error, "signal: killed")
    connect = lambda of: collect(call.connect(ps.ConnectRequest(process=of)))
    refused("nobody to follow", Code.NOT_FOUND, lambda: connect(pid(NOBODY)), str(NOBODY))
    refused("nothing to follow", Code.INVALID_ARGUMENT, lambda: connect(None), "process")
    refused("nothing to start", Code.INVALID_ARGUMENT, lambda: collect(call.start(ps.StartRequest())), "process")
    nowhere = ps.ProcessConfig(cmd="/bin/true", cwd="/no/such")
    refused("nowhere to start", Code.INVALID_ARGUMENT, lambda: collect(call.start(ps.StartRequest(process=nowhere))), "/no/such")
    who = {"Authorization": "Basic bm8tc3VjaC11c2VyOg=="}
    refused("nobody to start it", Code.UNAUTHENTICATED, lambda: collect(call.start(bash("true"), headers=who)), "no-such-user")


def given_input(call):
    def message(kind, value):
        return ps.StreamInputRequest(event=Oneof(kind, value))

    def start(number):
        return message("start", ps.StreamInputRequest.StartEvent(process=pid(number)))

    def data(value, kind="stdin"):
        of_kind = ps.ProcessInput(input=Oneof(kind, value))
        return message("data", ps.StreamInputRequest.DataEvent(input=of_kind))

    keep_alive = message("keepalive", ps.StreamInputRequest.KeepAlive())
    streams = [call.start(bash("exec cat", stdin=True)) for _ in range(2)]
    first, second = [event(next(stream))[1].pid for stream in streams]
    sent = [start(first), data(b"one "), keep_alive, data(b""), data(b"two\n"), start(second), data(b"other\n")]
    equal("a stream of input", type(call.stream_input(iter(sent))), ps.StreamInputResponse)
    for number in (first, second):
        call.close_stdin(ps.CloseStdinRequest(process=pid(number)))
    equal("each gets its own", [collect(stream)[1]["stdout"] for stream in streams], [b"one two\n", b"other\n"])
    stream = call.start(bash("exec wc -c", stdin=True))
    number = event(next(stream))[1].pid
    call.stream_input(iter([start(number), *[data(b"x" * 100_000) for _ in range(30)]]))
    call.close_stdin(ps.CloseStdinRequest(process=pid(number)))
    equal("a large input", collect(stream)[1]["stdout"], b"3000000\n")
    stream = call.start(bash("sleep 600", stdin=True))
    number = event(next(stream))[1].pid
    refused("input before its process", Code.INVALID_ARGUMENT, lambda: call.stream_input(iter([data(b"x")])), "start")
    refused("input for nobody", Code.NOT_FOUND, lambda: call.stream_input(iter([start(NOBODY), data(b"x")])))
    refused("of another kind", Code.FAILED_PRECONDITION, lambda: call.stream_input(iter([start(number), data(b"x", "pty")])), "pty")
    send = lambda **fields: call.send_input(ps.SendInputRequest(process=pid(number), **fields))
    refused("of no kind", Code.INVALID_ARGUMENT, send, "input")
    refused("of none at all", Code.INVALID_ARGUMENT, lambda: send(input=ps.ProcessInput()), "input")
    size = ps.PTY(size=ps.PTY.Size(cols=1, rows=1))
    resize = lambda: call.update(ps.UpdateRequest(process=pid(number), pty=size))
    refused("no terminal has no size", Code.FAILED_PRECONDITION, resize, "pty")
    equal("nothing to update", type(call.update(ps.UpdateRequest(process=pid(number)))), ps.UpdateResponse)
    call.send_signal(ps.SendSignalRequest(process=pid(number), signal=ps.Signal.SIGKILL))
    collect(stream)


def terminal(call):
    size = ps.PTY(size=ps.PTY.Size(cols=90, rows=30))
    stream = call.start(bash("read -r x; stty size; read -r x; stty size; exit 2", pty=size))
    number = event(next(stream))[1].pid
    type_in = lambda text: call.send_input(ps.SendInputRequest(process=pid(number), input=ps.ProcessInput(input=Oneof("pty", text))))
    type_in(b"\n")
    screen = b""
    while b"30 90\r\n" not in screen:
        kind, text = printed(event(next(stream))[1])
        screen += text
    equal("a terminal prints as one", kind, "pty")
    close = lambda: call.close_stdin(ps.CloseStdinRequest(process=pid(number)))
    refused("it has no end of input", Code.FAILED_PRECONDITION, close, "0x04")
    call.update(ps.UpdateRequest(process=pid(number), pty=ps.PTY(size=ps.PTY.Size(cols=200, rows=60))))
    type_in(b"\n")
    _, output, end = collect(stream)
    check("another size", b"60 200\r\n" in output["pty"] and end.exit_code == 2, output, end)


def files(client):
    call, place = client.files, f"{folder}/{client.codec}"
    made = call.make_dir(fs.MakeDirRequest(path=f"{place}/a/b")).entry
    equal("a directory", (made.name, made.path, made.type, made.permissions), ("b", f"{place}/a/b", fs.FileType.DIRECTORY, "drwxr-xr-x"))
    refused("once", Code.ALREADY_EXISTS, lambda: call.make_dir(fs.MakeDirRequest(path=f"{place}/a")), place)
    collect(client.processes.start(bash(f"cd {place}; printf 12345 > file; chmod 604 file; ln -s file link; ln -s gone lost; touch -d @1000000000.5 file")))
    stat = lambda name: call.stat(fs.StatRequest(path=f"{place}/{name}")).entry
    file = stat("file")
    seen = (file.name, file.type, file.path, file.size, file.mode, file.permissions, file.has_field("symlink_target"), dict(file.metadata))
    equal("a file", seen, ("file", fs.FileType.FILE, f"{place}/file", 5, 0o604, "-rw----r--", False, {}))
    equal("its time", (file.modified_time.seconds, file.modified_time.nanos), (1_000_000_000, 500_000_000))
    check("whose it is", file.owner != "" and file.group != "")
    link = stat("link")
    equal("a link", (link.type, link.symlink_target, link.permissions), (fs.FileType.FILE, f"{place}/file", "Lrwxrwxrwx"))
    equal("a lost link", (stat("lost").type, stat("lost").symlink_target), (fs.FileType.UNSPECIFIED, f"{place}/lost"))
    paths = lambda depth: [entry.path.removeprefix(f"{place}/") for entry in call.list_dir(fs.ListDirRequest(path=place, depth=depth)).entries]
    equal("a list", paths(0), ["a", "file", "link", "lost"])
    equal("and below", paths(2), ["a", "a/b", "file", "link", "lost"])
    equal("an empty list", list(call.list_dir(fs.ListDirRequest(path=f"{place}/a/b")).entries), [])
    moved = call.move(fs.MoveRequest(source=f"{place}/file", destination=f"{place}/new/name")).entry
    equal("a move", (moved.name, moved.path, moved.size), ("name", f"{place}/new/name", 5))
    equal("a removal", type(call.remove(fs.RemoveRequest(path=f"{place}/new"))), fs.RemoveResponse)
    for name, code, request in [
        ("nothing to look at", Code.NOT_FOUND, lambda: stat("none")),
        ("nothing to list", Code.NOT_FOUND, lambda: call.list_dir(fs.ListDirRequest(path=f"{place}/none"))),
        ("no directory to list", Code.INVALID_ARGUMENT, lambda: call.list_dir(fs.ListDirRequest(path="/etc/passwd"))),
        ("nothing to move", Code.NOT_FOUND, lambda: call.move(fs.MoveRequest(source=f"{place}/none", destination=f"{place}/x"))),
        ("a file in the way", Code.INVALID_ARGUMENT, lambda: call.make_dir(fs.MakeDirRequest(path="/etc/passwd"))),
        ("somebody's home", Code.INVALID_ARGUMENT, lambda: call.stat(fs.StatRequest(path="~somebody/x"))),
    ]:
        refused(name, code, request)
    equal("nothing to remove", type(call.remove(fs.RemoveRequest(path=f"{place}/none"))), fs.RemoveResponse)


def watches(client):
    call, place = client.files, f"{folder}/watched {client.codec}"
    Type = fs.EventType
    call.make_dir(fs.MakeDirRequest(path=f"{place}/in"))
    stream = call.watch_dir(fs.WatchDirRequest(path=place, recursive=True, include_entry=True))
    said = lambda: next(message.event for message in stream if message.event.field != "keepalive")
    equal("it begins", said().field, "start")
    watcher = call.create_watcher(fs.CreateWatcherRequest(path=place, recursive=True)).watcher_id
    equal("nothing has changed", list(call.get_watcher_events(fs.GetWatcherEventsRequest(watcher_id=watcher)).events), [])
    made = collect(client.processes.start(bash(f"cd '{place}/in'; mkdir a; mv a b; rmdir b")))
    equal("it changes", made[2].status, "exit status 0")
    expected = [(Type.CREATE, "in/a"), (Type.RENAME, "in/a"), (Type.CREATE, "in/b"), (Type.REMOVE, "in/b")]
    told = [said().value for _ in expected]
    equal("changes as they come", [(event.type, event.name) for event in told], expected)
    stream.close()
    polled = []
    while len(polled) < len(expected):
        polled += call.get_watcher_events(fs.GetWatcherEventsRequest(watcher_id=watcher)).events
    equal("changes for who asks", [(event.type, event.name) for event in polled], expected)
    equal("it is removed", type(call.remove_watcher(fs.RemoveWatcherRequest(watcher_id=watcher))), fs.RemoveWatcherResponse)
    for name, code, request in [
        ("nobody to ask", Code.NOT_FOUND, lambda: call.get_watcher_events(fs.GetWatcherEventsRequest(watcher_id=watcher))),
        ("nobody to remove", Code.NOT_FOUND, lambda: call.remove_watcher(fs.RemoveWatcherRequest(watcher_id=watcher))),
        ("nothing to watch", Code.NOT_FOUND, lambda: list(call.watch_dir(fs.WatchDirRequest(path=f"{place}/no")))),
        ("no directory to watch", Code.INVALID_ARGUMENT, lambda: call.create_watcher(fs.CreateWatcherRequest(path="/etc/passwd"))),
    ]:
        refused(name, code, request)


def times(client):
    call = client.processes
    refused("a stream's time", Code.DEADLINE_EXCEEDED, lambda: collect(call.start(bash("sleep 600"), timeout_ms=1000)))
    stuck = call.start(bash("sleep 600", stdin=True))
    number = event(next(stuck))[1].pid
    large = ps.ProcessInput(input=Oneof("stdin", b"x" * 3_000_000))
    send = lambda: call.send_input(ps.SendInputRequest(process=pid(number), input=large), timeout_ms=1000)
    refused("a call's time", Code.DEADLINE_EXCEEDED, send)
    check("time that is enough", collect(call.start(bash("true"), timeout_ms=60_000))[2].exited)
    for interval in ("1", "0", "-5"):
        following = call.connect(ps.ConnectRequest(process=pid(number)), headers={"Keepalive-Ping-Interval": interval})
        equal(f"signs of life every {interval} s", [event(next(following))[0] for _ in range(3)], ["start", "keepalive", "keepalive"])
        following.close()
    call.send_signal(ps.SendSignalRequest(process=pid(number), signal=ps.Signal.SIGKILL))
    equal("which end with it", collect(stuck)[0], ["end"])


def compressed(client):
    """What it sends by default is compressed, and is answered so that it knows why not."""
    packed = ProcessClientSync(url, codec=CODECS[client.codec])
    refused("a compressed call", Code.UNIMPLEMENTED, lambda: packed.list(ps.ListRequest()), "gzip")
    refused("a compressed stream", Code.UNIMPLEMENTED, lambda: collect(packed.start(bash("true"))), "gzip")


async def awaited(client):
    """The other client of it, which asks for as much at once as there is."""
    call, files = ProcessClient(url, **client.options), FilesystemClient(url, **client.options)

    async def one(i):
        output = b""
        async for message in call.start(bash(f"sleep 0.3; seq {i} 1000")):
            kind, value = event(message)
            if kind == "data":
                output += printed(value)[1]
        return output

    outputs = await asyncio.gather(*[one(i) for i in range(30)])
    equal("30 streams", outputs, ["".join(f"{n}\n" for n in range(i, 1001)).encode() for i in range(30)])
    equal("a call", (await files.stat(fs.StatRequest(path="/"))).entry.type, fs.FileType.DIRECTORY)
    error = await raises_later("a refusal", ConnectError, files.stat(fs.StatRequest(path=f"{folder}/none")))
    equal("by its code", error.code, Code.NOT_FOUND)


def envelope(message, flags=0, length=None):
    return struct.pack(">BI", flags, len(message) if length is None else length) + message


def envelopes(body):
    found = []
    while body:
        flags, length = struct.unpack(">BI", body[:5])
        assert len(body) >= 5 + length, body
        found.append((flags, body[5 : 5 + length]))
        body = body[5 + length :]
    return found


def plain():
    """The bytes as they are."""
    start = json.dumps({"process": {"cmd": "/bin/true"}, "stdin": False, "nobodyKnows": [1, {"this": None}]}).encode()
    kinds = {"call": ("/process.Process/List", "application/json", b"{}"), "stream": ("/process.Process/Start", "application/connect+json", envelope(start))}

    def post(kind, headers=None, body=None, path=None, content_type=None):
        of = kinds[kind]
        headers = {"Content-Type": content_type or of[1], **(headers or {})}
        return http.post(path or of[0], content=of[2] if body is None else body, headers=headers)

    def code(kind, reply):
        """The code of a refusal, which comes as the protocol has it."""
        if kind == "call":
            equal("its type", reply.headers["content-type"], "application/json")
            return reply.status_code, reply.json()["code"]
        ((flags, end),) = envelopes(reply.content)
        equal("its end", (reply.headers["content-type"], flags), ("application/connect+json", 2))
        return reply.status_code, json.loads(end)["error"]["code"]

    statuses = {"invalid_argument": 400, "deadline_exceeded": 504, "unimplemented": 501, "internal": 500, "resource_exhausted": 429}
    for kind in kinds:
        status = lambda name: 200 if kind == "stream" else statuses[name]
        for value, name in [("0", "deadline_exceeded"), ("-1", "deadline_exceeded"), ("x", "invalid_argument"), ("1.5", "invalid_argument"), ("12345678901", "invalid_argument")]:
            equal(f"a {kind} with the time {value}", code(kind, post(kind, {"Connect-Timeout-Ms": value})), (status(name), name))
        equal(f"a {kind} with the longest time", post(kind, {"Connect-Timeout-Ms": "9999999999"}).status_code, 200)
        equal(f"a {kind} of the version", post(kind, {"Connect-Protocol-Version": "1"}).status_code, 200)
        equal(f"a {kind} of another", code(kind, post(kind, {"Connect-Protocol-Version": "2"})), (status("invalid_argument"), "invalid_argument"))
        equal(f"a {kind} with a charset", post(kind, content_type=kinds[kind][1] + "; charset=utf-8").status_code, 200)
        reply = post(kind, content_type="application/grpc-web+proto")
        check(f"a {kind} of another protocol", reply.status_code == 415 and "application/connect+json" in reply.headers["accept-post"], reply)
        equal(f"a {kind} of the other kind", post(kind, content_type=kinds["stream" if kind == "call" else "call"][1]).status_code, 415)
        reply = http.get(kinds[kind][0])
        equal(f"a {kind} that asks", (reply.status_code, reply.headers["allow"]), (405, "POST"))
        equal(f"a {kind} that nobody knows", post(kind, path=kinds[kind][0] + "x").status_code, 404)
    for body in (b"", b"[]", b"{", b"{}{}", b"\xff"):
        equal(f"a call of {body}", code("call", post("call", body=body)), (400, "invalid_argument"))
    equal("an empty message", post("call", body=b"", content_type="application/proto").content, b"")
    reply = post("call", body=b"\xff", content_type="application/proto")
    equal("a message that is none", code("call", reply), (400, "invalid_argument"))
    for name, body, expected in [
        ("nothing", b"", "invalid_argument"),
        ("half an envelope", envelope(start)[:-1], "invalid_argument"),
        ("half a head", b"\0\0", "invalid_argument"),
        ("no JSON", envelope(b"{"), "invalid_argument"),
        ("a compressed message", envelope(start, flags=1), "internal"),
        ("too long a message", envelope(b"", length=0xFFFFFFFF), "resource_exhausted"),
    ]:
        equal(f"a stream of {name}", code("stream", post("stream", body=body)), (200, expected))
    pieces = (bytes([byte]) for byte in envelope(start))
    told = [json.loads(message) for _, message in envelopes(post("stream", body=pieces).content)]
    equal("a message byte by byte", (list(told[0]["event"]), told[1:]), (["start"], [{"event": {"end": {"exited": True, "status": "exit status 0"}}}, {}]))
    sleep = json.dumps({"process": {"cmd": "/bin/sleep", "args": ["600"]}, "stdin": False}).encode()
    reply = post("stream", {"Connect-Timeout-Ms": "700"}, envelope(sleep))
    (_, first), (flags, end) = envelopes(reply.content)
    seen = (list(json.loads(first)["event"]), flags, json.loads(end)["error"]["code"])
    equal("a stream tells that its time is over", seen, (["start"], 2, "deadline_exceeded"))


def main():
    for codec in CODECS:
        client = Client(codec)
        processes(client)
        files(client)
        watches(client)
        times(client)
        compressed(client)
        asyncio.run(awaited(client))
        equal("nothing runs on", list(client.processes.list(ps.ListRequest()).processes), [])
    plain()


run(main)
