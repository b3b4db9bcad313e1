"""MCP as the Python client speaks it, in one of its modes: of the revision 2026-07-28 ("2026-07-28", "auto") or of those
of 2025 ("legacy").

mcp_client.py MODE http URL TOKEN MARK, or mcp_client.py MODE stdio|front MARK COMMAND...: prints one line for each step,
and fails where something is not as it should be. What runs in the background has MARK in its environment. Where there is a
server, over HTTP or behind a front, it is to be shut down once "listening" is printed, which it is not in the mode "legacy".
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated

REVISION = "2026-07-28"

mode, kind, *rest = sys.argv[1:]
revision = "2025-11-25" if mode == "legacy" else REVISION
# What is told outside of what listens.
updated, listed_anew = asyncio.Queue(), asyncio.Event()


async def hear(message):
    assert not isinstance(message, Exception), message
    if message.method == "notifications/resources/updated":
        await updated.put(str(message.params.uri))
    elif message.method == "notifications/resources/list_changed":
        listed_anew.set()


def over_http(url, token):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
    return Client(streamable_http_client(url, http_client=http), mode=mode, message_handler=hear)


if kind == "http":
    url, token, mark = rest
    client = over_http(url, token)
else:
    mark, command, *arguments = rest
    client = Client(StdioServerParameters(command=command, args=arguments), mode=mode, message_handler=hear)
ENV = {"HOME": "/nonexistent", "HANGAR_TEST_MARK": mark}


def said(step):
    print(step, flush=True)


async def call(client, tool, progress=None, **arguments):
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result
    text = json.loads(result.content[0].text)
    # The text of a long result is cut further.
    assert text == result.structured_content or len(result.content[0].text) > 100_000, result
    return result.structured_content


async def lists(client):
    tools = await client.list_tools()
    assert [tool.name for tool in tools.tools] == ["exec", "process", "sandboxes"], tools
    resources = await client.list_resources()
    assert [str(resource.uri) for resource in resources.resources] == ["hangar://sandboxes"], resources
    read = await client.read_resource("hangar://sandboxes")
    names = [sandbox["name"] for sandbox in json.loads(read.contents[0].text)["sandboxes"]]
    assert names == ["local"], names
    assert (await client.list_prompts()).prompts == []
    said("lists")


async def streamed(client):
    heard = []

    async def progress(progress, total, message):
        heard.append((progress, message))

    # Of two outputs nobody knows which was printed first, unless a while has passed.
    command = "for i in 1 2 3; do echo line $i; sleep 0.1; done; printf '\\xe2\\x82'; sleep 0.1; printf '\\xac'; exit 3"
    result = await call(client, "exec", progress, command=command, stream=True, env=ENV)
    assert (result["exit_code"], result["streamed"]) == (3, True), result
    assert result["stdout"] == "line 1\nline 2\nline 3\n€", result
    joined = "".join(message for _, message in heard)
    assert joined == result["stdout"], joined
    assert [at for at, _ in heard] == sorted({at for at, _ in heard}) and heard[-1][0] == len(joined.encode()), heard
    said("streamed")
    # Without a callback nothing is streamed.
    result = await call(client, "exec", command="echo quiet", stream=True, env=ENV)
    assert (result["stdout"], result["streamed"]) == ("quiet\n", False), result
    # As much as a result can have, of bytes that take the most room in it.
    command = "head -c 400000 /dev/zero | tr '\\0' '\\1'; head -c 400000 /dev/zero | tr '\\0' '\\377' >&2"
    result = await call(client, "exec", command=command, env=ENV)
    assert result["stdout_truncated"] and result["stderr_truncated"] and len(result["stdout"]) > 50_000
    said("long")


async def process(client):
    started = await call(
        client, "process", action="start", command="echo up; while read line; do echo got $line; done; echo end; exit 4", env=ENV
    )
    ref = started["process_id"]
    heard = []

    async def progress(progress, total, message):
        if message:
            heard.append(message)

    shown = {"next": 0, "state": "running"}
    while "".join(heard) != "up\n":
        assert shown["state"] == "running", shown
        shown = await call(
            client, "process", progress, action="attach", process_id=ref, since=shown["next"], wait_seconds=0.5
        )
    await call(client, "process", action="input", process_id=ref, input="one\ntwo\n")
    await call(client, "process", action="input", process_id=ref, eof=True)
    shown = await call(client, "process", progress, action="attach", process_id=ref, since=shown["next"], wait_seconds=60)
    assert (shown["output"], shown["exit_code"]) == ("got one\ngot two\nend\n", 4), shown
    assert "".join(heard) == "up\ngot one\ngot two\nend\n", heard
    other = await call(client, "process", action="start", command="sleep 777", env=ENV)
    killed = await call(client, "process", action="kill", process_id=other["process_id"])
    assert (killed["state"], killed["signal"]) == ("exited", "SIGTERM"), killed
    listed = await call(client, "process", action="list")
    assert [one["process_id"] for one in listed["processes"]] == [ref, other["process_id"]], listed
    said("process")


def output_of(process_id):
    return f"hangar://sandboxes/local/processes/{process_id}/output"


async def read(client, uri):
    return json.loads((await client.read_resource(uri)).contents[0].text)


async def listed(client):
    return [str(resource.uri) for resource in (await client.list_resources()).resources]


class Printing:
    """A process that prints what it is told to."""

    @classmethod
    async def start(cls, client):
        printing = cls()
        printing.client, printing.next = client, 0
        started = await call(client, "process", action="start", command="exec cat", env=ENV)
        printing.id = started["process_id"]
        printing.uri = output_of(printing.id)
        assert printing.uri in await listed(client)
        return printing

    async def print(self, text):
        await call(self.client, "process", action="input", process_id=self.id, input=text)

    async def new(self):
        """What it printed since the last time."""
        shown = await read(self.client, f"{self.uri}?since={self.next}")
        self.next = shown["next"]
        return shown["output"]

    async def kill(self):
        await call(self.client, "process", action="kill", process_id=self.id)


async def listens(client):
    printing = await Printing.start(client)
    missing = output_of("nobody")
    async with client.listen(resource_subscriptions=[missing, printing.uri], resources_list_changed=True) as told:
        assert told.honored.resource_subscriptions == [printing.uri], told.honored
        assert told.honored.resources_list_changed, told.honored
        for text in ("one\n", "two\n"):
            await printing.print(text)
            assert await anext(told) == ResourceUpdated(uri=printing.uri)
            assert await printing.new() == text
        other = await Printing.start(client)
        assert await anext(told) == ResourcesListChanged()
        await other.print("not followed\n")
        await printing.kill()
        # How it ended belongs to what is read of it.
        assert await anext(told) == ResourceUpdated(uri=printing.uri)
        assert (await read(client, printing.uri))["signal"] == "SIGTERM"
    await other.kill()
    said("told")


async def subscribes(client):
    printing, other = await Printing.start(client), await Printing.start(client)
    await listed_anew.wait()
    try:
        await client.subscribe_resource(output_of("nobody"))
        raise AssertionError("there is no such resource")
    except MCPError as error:
        assert error.error.data == {"uri": output_of("nobody")}, error.error
    await client.subscribe_resource(printing.uri)
    for text in ("one\n", "two\n"):
        await printing.print(text)
        assert await updated.get() == printing.uri
        assert await printing.new() == text
    await client.unsubscribe_resource(printing.uri)
    await printing.print("three\n")
    while await printing.new() != "three\n":
        pass
    # What is told of one resource is told at a pace: the second time of another comes after it would have been told.
    await client.subscribe_resource(other.uri)
    for _ in range(2):
        await other.print("on\n")
        assert await updated.get() == other.uri
    await printing.kill()
    await other.kill()
    said("told")


def is_there(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


async def cancelled(client):
    pid = asyncio.Future()

    async def progress(progress, total, message):
        if message:
            pid.set_result(int(message))

    arguments = {"command": "echo $$; exec sleep 777", "stream": True, "env": ENV}
    running = asyncio.create_task(client.call_tool("exec", arguments, progress_callback=progress))
    await pid
    running.cancel()
    try:
        await running
        raise AssertionError("it was cancelled")
    except asyncio.CancelledError:
        pass
    while is_there(pid.result()):
        await asyncio.sleep(0.01)
    said("cancelled")
    # The connection is as good as before.
    assert (await call(client, "exec", command="echo on", env=ENV))["stdout"] == "on\n"


async def refused(client):
    result = await client.call_tool("exec", {"command": "x", "sandbox": "nowhere"})
    assert result.is_error and "There is local" in result.content[0].text, result
    result = await client.call_tool("process", {"action": "attach", "process_id": "x"})
    assert result.is_error and "Use action list" in result.content[0].text, result
    if kind == "http":
        try:
            async with over_http(url, "nonsense") as nobody:
                await nobody.list_tools()
            raise AssertionError("a token that nobody has was taken")
        except Exception as error:
            assert "401" in repr(error) or "unknown, revoked or expired" in repr(error), repr(error)
    said("refused")


async def ends(client):
    async with client.listen(resources_list_changed=True) as told:
        said("listening")
        # Where the server says that it ends, this does.
        assert [event async for event in told] == []
    said("ended")


async def main():
    old = mode == "legacy"
    steps = [lists, streamed, process, subscribes if old else listens, cancelled, refused]
    if kind != "stdio" and not old:
        steps.append(ends)
    async with client as connected:
        assert connected.protocol_version == revision, connected.protocol_version
        for step in steps:
            await step(connected)
    said("done")


asyncio.run(main())
