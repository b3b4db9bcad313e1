"""MCP, revision 2026-07-28, as the Python client speaks it.

mcp_client.py http URL TOKEN MARK, or mcp_client.py stdio MARK COMMAND...: prints one line for each step, and fails where something is
not as it should be. What runs in the background has MARK in its environment.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

REVISION = "2026-07-28"


def over_http(url, token):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
    return Client(streamable_http_client(url, http_client=http), mode=REVISION)


kind, *rest = sys.argv[1:]
if kind == "http":
    url, token, mark = rest
    client = over_http(url, token)
else:
    mark, command, *arguments = rest
    client = Client(StdioServerParameters(command=command, args=arguments), mode=REVISION)
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


async def cancelled(client):
    begun = asyncio.Event()

    async def progress(progress, total, message):
        begun.set()

    arguments = {"command": "echo begun; exec sleep 777", "stream": True, "env": ENV}
    running = asyncio.create_task(client.call_tool("exec", arguments, progress_callback=progress))
    await begun.wait()
    running.cancel()
    try:
        await running
        raise AssertionError("it was cancelled")
    except asyncio.CancelledError:
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


async def main():
    async with client as connected:
        for step in (lists, streamed, process, cancelled, refused):
            await step(connected)
    said("done")


asyncio.run(main())
