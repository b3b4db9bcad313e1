// MCP as the TypeScript client speaks it: of the revisions of 2025, which it does by default ("legacy"), or of the newest that
// the server has ("auto").
//
// MODE http URL TOKEN MARK, or MODE stdio|front MARK COMMAND...: prints one line for each step, and fails where something is
// not as it should be. What runs in the background has MARK in its environment. Where there is a server, over HTTP or behind a
// front, it is to be shut down once "listening" is printed, which it is not in the mode "legacy".
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, kind, ...rest] = process.argv.slice(1);
const isOld = mode === "legacy";
let mark, transport;
if (kind === "http") {
  const [url, token] = rest.splice(0, 2);
  mark = rest[0];
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
} else {
  let command, args;
  [mark, command, ...args] = rest;
  transport = new StdioClientTransport({ command, args });
}
const options = isOld ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "hangar-tests", version: "1" }, options);
const env = { HOME: "/nonexistent", HANGAR_TEST_MARK: mark };
const said = (step) => process.stdout.write(`${step}\n`);

async function call(name, args, options) {
  const result = await client.callTool({ name, arguments: args }, options);
  assert(!result.isError, JSON.stringify(result));
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  return result.structuredContent;
}

async function lists() {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ["exec", "process", "sandboxes"]);
  const { resources } = await client.listResources();
  assert.deepEqual(resources.map(({ uri }) => uri), ["hangar://sandboxes"]);
  const { sandboxes } = await read("hangar://sandboxes");
  assert.deepEqual(sandboxes.map(({ name }) => name), ["local"]);
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.deepEqual(resourceTemplates.map(({ uriTemplate }) => uriTemplate.split("{?")[0]), [
    "hangar://sandboxes/{sandbox}/processes/{process}/output",
    "hangar://sandboxes/{sandbox}/watch",
  ]);
  assert.deepEqual((await client.listPrompts()).prompts, []);
  said("lists");
}

async function streamed() {
  const heard = [];
  const onprogress = ({ progress, message }) => heard.push([progress, message]);
  const command = "for i in 1 2 3; do echo line $i; sleep 0.1; done; exit 3";
  const result = await call("exec", { command, stream: true, env }, { onprogress });
  assert.deepEqual([result.exit_code, result.streamed], [3, true]);
  assert.equal(result.stdout, "line 1\nline 2\nline 3\n");
  assert.equal(heard.map(([, message]) => message).join(""), result.stdout);
  const at = heard.map(([progress]) => progress);
  assert.deepEqual(at, [...new Set(at)].sort((one, next) => one - next));
  said("streamed");
}

async function read(uri) {
  return JSON.parse((await client.readResource({ uri })).contents[0].text);
}

const outputOf = (id) => `hangar://sandboxes/local/processes/${id}/output`;

// A process that prints what it is told to.
class Printing {
  next = 0;

  static async start() {
    const printing = new Printing();
    const { process_id } = await call("process", { action: "start", command: "exec cat", env });
    Object.assign(printing, { id: process_id, uri: outputOf(process_id) });
    const { resources } = await client.listResources();
    assert(resources.some(({ uri }) => uri === printing.uri));
    return printing;
  }

  async print(input) {
    await call("process", { action: "input", process_id: this.id, input });
  }

  // What it printed since the last time.
  async new() {
    const { output, next } = await read(`${this.uri}?since=${this.next}`);
    this.next = next;
    return output;
  }

  async kill() {
    await call("process", { action: "kill", process_id: this.id });
  }
}

// What is told, by the one who waits for it or until somebody does.
class Told {
  came = [];
  waits = [];

  push(uri) {
    const wait = this.waits.shift();
    if (wait) wait(uri);
    else this.came.push(uri);
  }

  get() {
    if (this.came.length > 0) return Promise.resolve(this.came.shift());
    return new Promise((resolve) => this.waits.push(resolve));
  }
}

const updated = new Told();
const listedAnew = new Told();
client.setNotificationHandler("notifications/resources/updated", ({ params }) => updated.push(params.uri));
client.setNotificationHandler("notifications/resources/list_changed", () => listedAnew.push());

async function follows(printing) {
  for (const text of ["one\n", "two\n"]) {
    await printing.print(text);
    assert.equal(await updated.get(), printing.uri);
    assert.equal(await printing.new(), text);
  }
}

// Prints something that is not to be told of. What is told of one resource is told at a pace: the second time of another comes
// after it would have been told.
async function followsNoMore(printing, other) {
  await printing.print("three\n");
  while ((await printing.new()) !== "three\n");
  for (let i = 0; i < 2; i++) {
    await other.print("on\n");
    assert.equal(await updated.get(), other.uri);
  }
}

async function subscribes() {
  const [printing, other] = [await Printing.start(), await Printing.start()];
  await listedAnew.get();
  await assert.rejects(client.subscribeResource({ uri: outputOf("nobody") }), ({ data }) => {
    assert.deepEqual(data, { uri: outputOf("nobody") });
    return true;
  });
  await client.subscribeResource({ uri: printing.uri });
  await follows(printing);
  await client.unsubscribeResource({ uri: printing.uri });
  await client.subscribeResource({ uri: other.uri });
  await followsNoMore(printing, other);
  await Promise.all([printing.kill(), other.kill()]);
  said("told");
}

async function listens() {
  const [printing, other] = [await Printing.start(), await Printing.start()];
  const wanted = { resourceSubscriptions: [outputOf("nobody"), printing.uri], resourcesListChanged: true };
  const told = await client.listen(wanted);
  assert.deepEqual(told.honoredFilter, { resourceSubscriptions: [printing.uri], resourcesListChanged: true });
  await follows(printing);
  const another = await Printing.start();
  await listedAnew.get();
  await told.close();
  assert.equal(await told.closed, "local");
  const next = await client.listen({ resourceSubscriptions: [other.uri] });
  await followsNoMore(printing, other);
  await next.close();
  await Promise.all([printing.kill(), other.kill(), another.kill()]);
  said("told");
}

function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    assert.equal(error.code, "ESRCH");
    return false;
  }
}

async function aborted() {
  const leaving = new AbortController();
  let pid;
  const onprogress = ({ message }) => {
    if (!message) return;
    pid = Number(message);
    leaving.abort();
  };
  const call = { name: "exec", arguments: { command: "echo $$; exec sleep 777", stream: true, env } };
  await assert.rejects(client.callTool(call, { onprogress, signal: leaving.signal }));
  while (isThere(pid)) await sleep(10);
  said("aborted");
}

async function ends() {
  const told = await client.listen({ resourcesListChanged: true });
  said("listening");
  // Where the server says that it ends, this does.
  assert.equal(await told.closed, "graceful");
  said("ended");
}

await client.connect(transport);
assert.equal(client.getNegotiatedProtocolVersion(), isOld ? "2025-11-25" : "2026-07-28");
await lists();
await streamed();
await (isOld ? subscribes() : listens());
await aborted();
// The connection is as good as before.
assert.equal((await call("exec", { command: "echo on", env })).stdout, "on\n");
if (kind === "http" && isOld) {
  await transport.terminateSession();
  said("terminated");
} else if (kind !== "stdio" && !isOld) {
  await ends();
}
await client.close();
said("done");
