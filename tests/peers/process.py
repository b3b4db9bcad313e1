"""The whole page of the process protocol, followed with a WebSocket library of another language.

process.py URL TOKEN: prints one line of JSON for each step, and fails where a byte is not as documented.
"""

import asyncio
import json
import struct
import sys

import httpx
import websockets

BASE, TOKEN = sys.argv[1:]
http = httpx.Client(base_url=BASE, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
PROCESSES = "/v1/sandboxes/local/processes"
ENV = {"HOME": "/nonexistent"}


def start(**fields):
    reply = http.post(PROCESSES, json={"env": ENV, **fields})
    assert reply.status_code == 201, reply.text
    return reply.json()


def access(process, mode):
    reply = http.put(f"{PROCESSES}/{process}/stream-access", json={"mode": mode})
    assert reply.status_code == 200, reply.text
    granted = reply.json()
    assert set(granted) == {"url", "token", "expires_at"}, granted
    assert granted["url"].endswith("/v1/sandbox-process-stream?token=" + granted["token"])
    assert granted["token"].startswith("tok_") and granted["expires_at"].endswith("Z")
    return granted["url"]


def connect(url):
    return websockets.connect(url, proxy=None, max_size=None)


async def read(socket):
    """All controls, all frames as (seq, stream, ts_ms, data), and the close frame."""
    controls, frames = [], []
    try:
        while True:
            message = await socket.recv()
            if isinstance(message, str):
                controls.append(json.loads(message))
            else:
                frames.append((*struct.unpack(">QBq", message[:17]), message[17:]))
    except websockets.ConnectionClosed as closed:
        assert closed.rcvd is not None, "it closed without a close frame"
        return controls, frames, (closed.rcvd.code, closed.rcvd.reason)


def said(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


async def logs():
    process = start(command="echo out; sleep 0.1; echo err >&2; exit 3", name="dev-server")
    async with connect(access("dev-server", "logs")) as socket:
        controls, frames, closed = await read(socket)
    ready, end = controls
    shown = ready["process"]
    assert set(ready) == {"type", "process", "logging_disabled"} and ready["type"] == "ready"
    assert shown["id"] == process["id"] and shown["name"] == "dev-server"
    if shown["status"] == "running":
        assert shown["exit_code"] is None
        assert set(shown) == {"id", "name", "command", "status", "exit_code", "started_at_ms"}, shown
    assert [frame[0] for frame in frames] == list(range(1, len(frames) + 1))
    streams = {stream: b"".join(f[3] for f in frames if f[1] == stream) for stream in (1, 2, 3)}
    assert streams == {1: b"out\n", 2: b"err\n", 3: b""}, streams
    assert all(abs(frame[2] - process["started_at_ms"]) < 60_000 for frame in frames)
    assert end == {"type": "end", "reason": "process_exited", "exit_code": 3}, end
    assert closed == (1000, "process_exited"), closed
    said("logs", frames=len(frames))


async def resume():
    process = start(command="for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done")["id"]
    last, output = 0, b""
    for _ in range(3):
        # A drop without an end: the client comes back with the last number that it saw.
        async with connect(access(process, "attach") + f"&seq={last}") as socket:
            await socket.recv()
            frame = await socket.recv()
            last, output = struct.unpack(">Q", frame[:8])[0], output + frame[17:]
            socket.transport.abort()
    async with connect(access(process, "attach") + f"&seq={last}") as socket:
        _, frames, _ = await read(socket)
    output += b"".join(frame[3] for frame in frames)
    assert output == b"1\n2\n3\n4\n5\n6\n", output
    said("resume", last=last)


async def terminal():
    process = start(command="exec bash --norc", tty={"cols": 120, "rows": 30})["id"]
    async with connect(access(process, "attach")) as socket:
        ready = json.loads(await socket.recv())
        assert ready["process"]["tty"] == {"cols": 120, "rows": 30}, ready
        await socket.send(b"PS1=; stty size\r")
        await socket.send(json.dumps({"type": "resize", "cols": 200, "rows": 50}))
        await socket.send(b"stty size; echo at$((1+1))last; sleep 600\r")
        screen = b""
        while b"at2last" not in screen:
            message = await socket.recv()
            assert message[8] == 3, "a terminal has one stream"
            screen += message[17:]
        assert b"30 120" in screen or b"50 200" in screen, screen
        await socket.send(json.dumps({"type": "signal", "name": "KILL"}))
        controls, _, closed = await read(socket)
    assert controls == [{"type": "end", "reason": "process_exited", "signal": "SIGKILL"}], controls
    assert closed == (1000, "process_exited"), closed
    said("terminal")


async def stdin():
    process = start(command="cat | wc -c")["id"]
    async with connect(access(process, "attach")) as socket:
        for _ in range(10):
            await socket.send(b"x" * 100)
        await socket.send(json.dumps({"type": "eof"}))
        _, frames, _ = await read(socket)
    assert b"".join(frame[3] for frame in frames).split() == [b"1000"], frames
    said("stdin")


async def refusals():
    process = start(command="sleep 60", max_log_bytes=0)["id"]
    refused = http.put(f"{PROCESSES}/{process}/stream-access", json={"mode": "logs"})
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "logging_disabled"
    url = access(process, "attach")
    async with connect(url) as socket:
        assert json.loads(await socket.recv())["logging_disabled"] is True
    try:
        async with connect(url):
            raise AssertionError("a ticket was used twice")
    except websockets.InvalidStatus as error:
        assert error.response.status_code == 401, error
        assert json.loads(error.response.body)["error"]["code"] == "bad_ticket"
    reader = start(command="sleep 60")["id"]
    async with connect(access(reader, "logs")) as socket:
        await socket.send(b"input")
        controls, _, closed = await read(socket)
    assert [control["type"] for control in controls] == ["ready"], controls
    assert closed == (1008, "client_data_on_logs"), closed
    said("refusals")


async def main():
    for step in (logs, resume, terminal, stdin, refusals):
        await step()
    print("done", flush=True)


asyncio.run(main())
