"""The Connect server of Python, with services that answer what they are asked so that their client sees whether each understood
the other.

connect_server.py: prints where it listens, and serves until it is killed. What its client sent, and how it was understood, comes
back in what it is answered: a request in JSON as this writes it, wherever there is room for a text.
"""

import asyncio
import socket

import uvicorn
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.filesystem import filesystem_pb as fs
from e2b.envd.filesystem.filesystem_connect import Filesystem, FilesystemASGIApplication
from e2b.envd.process import process_pb as ps
from e2b.envd.process.process_connect import Process, ProcessASGIApplication
from protobuf import Oneof
from protobuf.wkt import StringValue, Timestamp

LARGE = bytes(range(256)) * 1024


def refuse(what):
    """The refusal that is asked for: the name of its code."""
    raise ConnectError(Code(what), f"refused: {what} €", details=[StringValue(value="more of it")])


def started(pid):
    return ps.ProcessEvent(event=Oneof("start", ps.ProcessEvent.StartEvent(pid=pid)))


def printed(kind, data):
    return ps.ProcessEvent(event=Oneof("data", ps.ProcessEvent.DataEvent(output=Oneof(kind, data))))


def ended(**fields):
    return ps.ProcessEvent(event=Oneof("end", ps.ProcessEvent.EndEvent(**fields)))


KEEP_ALIVE = ps.ProcessEvent(event=Oneof("keepalive", ps.ProcessEvent.KeepAlive()))


class Processes(Process):
    async def list(self, request, ctx):
        every = ps.ProcessConfig(cmd="c", args=["", "ä"], envs={"A": "b", "": ""}, cwd="")
        return ps.ListResponse(
            processes=[
                ps.ProcessInfo(config=every, pid=0xFFFFFFFF, tag=""),
                ps.ProcessInfo(config=ps.ProcessConfig(), pid=1, tag="t"),
                ps.ProcessInfo(),
            ]
        )

    async def start(self, request, ctx):
        command = request.process.cmd if request.process else ""
        if command == "refused":
            refuse(request.process.args[0])
        yield ps.StartResponse(event=started(7))
        if command == "refused later":
            refuse(request.process.args[0])
        if command == "trailers":
            ctx.response_trailers["x-trailer"] = "one"
        yield ps.StartResponse(event=printed("stdout", request.to_json().encode()))
        for kind in ("stderr", "pty"):
            yield ps.StartResponse(event=printed(kind, b""))
        yield ps.StartResponse(event=KEEP_ALIVE)
        if command == "large":
            for _ in range(4):
                yield ps.StartResponse(event=printed("stdout", LARGE))
        yield ps.StartResponse(event=ended(exit_code=-1, status="signal: killed", error="signal: killed"))

    async def connect(self, request, ctx):
        match request.process.selector:
            case Oneof(field="pid", value=pid):
                yield ps.ConnectResponse(event=started(pid))
                yield ps.ConnectResponse(event=ended(exited=True, status="exit status 0"))
            case Oneof(field="tag", value="nothing"):
                # What says nothing, and an end without a word before it.
                yield ps.ConnectResponse()

    async def update(self, request, ctx):
        answer_in_refusal(request)

    async def send_signal(self, request, ctx):
        answer_in_refusal(request)

    async def send_input(self, request, ctx):
        answer_in_refusal(request)

    async def close_stdin(self, request, ctx):
        match request.process.selector:
            case Oneof(field="tag", value=code) if code:
                refuse(code)
        return ps.CloseStdinResponse()

    async def stream_input(self, request, ctx):
        heard = []
        async for message in request:
            match message.event:
                case Oneof(field="data", value=data) if data.input.input == Oneof("stdin", b"refuse"):
                    refuse("aborted")
                case Oneof(field="data", value=data):
                    heard.append(f"{data.input.input.field} {len(data.input.input.value)} {sum(data.input.input.value)}")
                case Oneof(field="start", value=start):
                    heard.append(f"start {start.process.selector.value}")
                case Oneof(field=field):
                    heard.append(field)
        if heard[-1:] == ["keepalive"]:
            raise ConnectError(Code.DATA_LOSS, ", ".join(heard))
        return ps.StreamInputResponse()


def answer_in_refusal(request):
    """For methods whose answers have no room."""
    raise ConnectError(Code.ABORTED, request.to_json())


def entry(path, **fields):
    return fs.EntryInfo(path=path, **fields)


class Files(Filesystem):
    async def stat(self, request, ctx):
        if request.path in {code.value for code in Code}:
            refuse(request.path)
        if request.path == "":
            return fs.StatResponse()
        every = entry(
            request.path,
            name="n €",
            type=fs.FileType.SYMLINK,
            size=(1 << 63) - 1,
            mode=0o7777,
            permissions="Lrwxrwxrwx",
            owner="o",
            group="g",
            modified_time=Timestamp(seconds=-1, nanos=500_000_000),
            symlink_target="",
            metadata={"a": "b", "": ""},
        )
        return fs.StatResponse(entry=every)

    async def make_dir(self, request, ctx):
        return fs.MakeDirResponse(entry=entry(request.to_json(), size=-1, modified_time=Timestamp()))

    async def move(self, request, ctx):
        return fs.MoveResponse(entry=entry(request.to_json(), type=fs.FileType.FILE))

    async def list_dir(self, request, ctx):
        names = [str(i) for i in range(request.depth)]
        return fs.ListDirResponse(entries=[entry(request.to_json(), name=name) for name in names])

    async def remove(self, request, ctx):
        return fs.RemoveResponse()


class Both:
    """Both services; and the body of an answer cut in pieces of this size where that is asked for."""

    def __init__(self):
        self.services = [ProcessASGIApplication(Processes()), FilesystemASGIApplication(Files())]

    async def __call__(self, scope, receive, send):
        (service,) = [one for one in self.services if scope["path"].startswith(one.path)] or self.services[:1]
        headers = dict(scope["headers"])
        pieces = int(headers.get(b"x-pieces", 0))
        waiting = bytearray()

        async def cut(message):
            if message["type"] != "http.response.body" or not pieces:
                return await send(message)
            waiting.extend(message.get("body", b""))
            more = message.get("more_body", False)
            while len(waiting) > pieces or (waiting and not more):
                piece = bytes(waiting[:pieces])
                del waiting[:pieces]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if not more:
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await service(scope, receive, cut)


async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Both(), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listener])


asyncio.run(main())
