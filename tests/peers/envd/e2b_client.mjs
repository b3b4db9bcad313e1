// The unmodified JavaScript SDK of E2B against a daemon that speaks the protocol of E2B's envd.
//
// URL FOLDER: prints a line for each check, and how many they were. FOLDER is empty.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const [url, folder] = process.argv.slice(1);
Object.assign(process.env, { E2B_DEBUG: "true", E2B_SANDBOX_URL: url });
const { AuthenticationError, CommandExitError, FileNotFoundError, FileType, InvalidArgumentError, NotFoundError, Sandbox, TimeoutError } =
  await import("e2b");

const PATIENCE = 60_000;
// No process has it: Linux gives out less.
const NOBODY = 1 << 22;
let passed = 0;

function said(name) {
  passed += 1;
  process.stdout.write(`${name}\n`);
}

function equal(name, found, expected) {
  assert.deepEqual(found, expected, `${name}: ${JSON.stringify(found)?.slice(0, 500)}`);
  said(name);
}

async function raises(name, kind, call) {
  let raised;
  try {
    await call();
  } catch (error) {
    raised = error;
  }
  assert(raised instanceof kind, `${name}: ${raised?.stack ?? "nothing was raised"}`);
  said(name);
  return raised;
}

async function until(name, condition) {
  for (const end = Date.now() + PATIENCE; !(await condition()); await sleep(20)) {
    assert(Date.now() < end, `it did not come to this: ${name}`);
  }
}

const numbers = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => `${first + i}\n`).join("");
const range = (count) => Array.from({ length: count }, (_, i) => i);

const sandbox = await Sandbox.create();
const { commands, files, pty } = sandbox;
const runs = async (pid) => (await commands.list()).some((process) => process.pid === pid);

async function foreground() {
  const heard = { out: "", err: "" };
  const onStdout = (data) => void (heard.out += data);
  const onStderr = (data) => void (heard.err += data);
  const result = await commands.run("for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.05; done", { onStdout, onStderr });
  equal("output", [result.stdout, result.stderr, result.exitCode, result.error], ["1\n2\n3\n", "e1\ne2\ne3\n", 0, undefined]);
  equal("callbacks", heard, { out: result.stdout, err: result.stderr });
  const { stdout } = await commands.run('printf "%s|" "$WORD"; pwd', { envs: { WORD: "wört €" }, cwd: folder });
  equal("variables and a directory", stdout, `wört €|${folder}\n`);
  const ended = await raises("an exit", CommandExitError, () => commands.run("echo bye; exit 3"));
  equal("it says all", [ended.exitCode, ended.stdout, ended.error], [3, "bye\n", "exit status 3"]);
  const killed = await raises("a signal", CommandExitError, () => commands.run("kill -9 $$"));
  equal("it says so", [killed.exitCode, killed.error], [-1, "signal: killed"]);
  const large = await commands.run("yes 'ä€𝄞' | head -n 200000; seq 1 200000 >&2");
  assert(large.stdout === "ä€𝄞\n".repeat(200_000) && large.stderr === numbers(1, 200_000));
  said("some MB");
  await raises("nowhere to run", InvalidArgumentError, () => commands.run("true", { cwd: "/no/such" }));
  await raises("nobody to run it", AuthenticationError, () => commands.run("true", { user: "no-such-user" }));
  await raises("a time that is over", TimeoutError, () => commands.run(`echo ${folder}; sleep 600`, { timeoutMs: 1000 }));
  await until("it is gone", async () => !(await commands.list()).some(({ args }) => args.join().includes(folder)));
}

async function background() {
  let first = "";
  const command = `echo up; until [ -e ${folder}/go ]; do sleep 0.05; done; seq 1 20000; exit 5`;
  const handle = await commands.run(command, { background: true, timeoutMs: 0, onStdout: (data) => void (first += data) });
  await until("it is up", () => first === "up\n");
  const listed = (await commands.list()).find(({ pid }) => pid === handle.pid);
  equal("it is listed", [listed.cmd, listed.args], ["/bin/bash", ["-l", "-c", command]]);
  await handle.disconnect();
  equal("who disconnects ends nothing", await runs(handle.pid), true);
  const heard = ["", "", ""];
  const other = await Sandbox.connect(sandbox.sandboxId);
  const others = await Promise.all(
    heard.map((_, i) => {
      const onStdout = (data) => void (heard[i] += data);
      return (i ? other : sandbox).commands.connect(handle.pid, { timeoutMs: 0, onStdout });
    }),
  );
  await files.write(`${folder}/go`, "");
  for (const [i, follower] of others.entries()) {
    const ended = await raises("its end", CommandExitError, () => follower.wait());
    equal("the whole of it", [ended.exitCode, ended.stdout === numbers(1, 20_000), heard[i] === ended.stdout], [5, true, true]);
  }
  const sleeping = await commands.run("sleep 600", { background: true, timeoutMs: 0 });
  await raises("the time of who follows", TimeoutError, async () => (await commands.connect(sleeping.pid, { timeoutMs: 1000 })).wait());
  equal("it is killed", await sleeping.kill(), true);
  const killed = await raises("and ends", CommandExitError, () => sleeping.wait());
  equal("as killed", killed.exitCode, -1);
  await until("it is not killed twice", async () => !(await commands.kill(sleeping.pid)));
  equal("nor is nobody", await commands.kill(NOBODY), false);
  await raises("nobody to follow", NotFoundError, () => commands.connect(NOBODY));
}

async function input() {
  const handle = await commands.run("while read -r line; do echo got $line; done; echo end", { background: true, stdin: true });
  await handle.sendStdin("one\n");
  await commands.sendStdin(handle.pid, new TextEncoder().encode("zwölf\n"));
  await handle.closeStdin();
  equal("input and its end", (await handle.wait()).stdout, "got one\ngot zwölf\nend\n");
  const counting = await commands.run("wc -c", { background: true, stdin: true });
  for (const _ of range(20)) await counting.sendStdin(new Uint8Array(100_000).fill(120));
  await counting.closeStdin();
  equal("2 MB of input", (await counting.wait()).stdout, "2000000\n");
  await raises("no input for nobody", NotFoundError, () => commands.sendStdin(NOBODY, "x"));
  equal("no input is an end", (await commands.run("cat; echo read")).stdout, "read\n");
}

async function file() {
  const path = `${folder}/new/späte €.txt`;
  const bytes = Uint8Array.from(range(1_000_000), (i) => (i * 7919) >> 3);
  const written = await files.write(path, "hällo");
  equal("what was written", [written.name, written.type, written.path], ["späte €.txt", "file", path]);
  equal("text", await files.read(path), "hällo");
  for (const [name, data, options] of [
    ["bytes", bytes.buffer, {}],
    ["a blob", new Blob([bytes]), {}],
    ["a stream", new Blob([bytes]).stream(), {}],
    ["one body", bytes.buffer, { useOctetStream: true }],
    ["a packed body", bytes.buffer, { gzip: true }],
  ]) {
    await files.write(path, "over");
    await files.write(path, data, options);
    const read = await files.read(path, { format: "bytes" });
    assert(Buffer.from(read).equals(bytes), `${name}: ${read.length}`);
    said(name);
  }
  assert(Buffer.from(await (await files.read(path, { format: "blob" })).arrayBuffer()).equals(bytes));
  said("read as a blob");
  const pieces = [];
  for await (const piece of await files.read(path, { format: "stream" })) pieces.push(piece);
  assert(Buffer.concat(pieces).equals(bytes));
  said("read as a stream");
  const entries = range(10).map((i) => ({ path: `${folder}/several/${i}`, data: `of ${i}` }));
  equal("several", (await files.write(entries)).map(({ path }) => path), entries.map(({ path }) => path));
  equal("each of them", await Promise.all(entries.map(({ path }) => files.read(path))), entries.map(({ data }) => data));
  await commands.run("chmod 640 0; ln -s 0 link; mkdir -p a/b", { cwd: `${folder}/several` });
  const info = await files.getInfo(`${folder}/several/0`);
  equal("what is there", [info.name, info.type, info.size, info.mode, info.permissions], ["0", FileType.FILE, 4, 0o640, "-rw-r-----"]);
  assert(Math.abs(info.modifiedTime - new Date()) < 600_000);
  equal("a link", (await files.getInfo(`${folder}/several/link`)).symlinkTarget, `${folder}/several/0`);
  const listed = await files.list(`${folder}/several`, { depth: 2 });
  equal("a list", listed.map(({ name }) => name), [...range(10).map(String), "a", "b", "link"]);
  equal("a directory", [await files.makeDir(`${folder}/d`), await files.makeDir(`${folder}/d`)], [true, false]);
  equal("a move", (await files.rename(`${folder}/several/0`, `${folder}/d/moved`)).path, `${folder}/d/moved`);
  equal("what exists", [await files.exists(`${folder}/d/moved`), await files.exists(`${folder}/several/0`)], [true, false]);
  await files.remove(`${folder}/d`);
  equal("a removal", await files.exists(`${folder}/d`), false);
  await raises("nothing to read", FileNotFoundError, () => files.read(`${folder}/none`));
  await raises("nothing to list", FileNotFoundError, () => files.list(`${folder}/none`));
  await raises("nothing to look at", FileNotFoundError, () => files.getInfo(`${folder}/none`));
  const form = new FormData();
  form.append("file", new Blob(["by a URL"]), "name");
  equal("a URL to write to", (await fetch(await sandbox.uploadUrl(`${folder}/by URL`), { method: "POST", body: form })).status, 200);
  equal("a URL to read", await (await fetch(await sandbox.downloadUrl(`${folder}/by URL`))).text(), "by a URL");
}

async function watch() {
  const place = `${folder}/watched`;
  await files.makeDir(`${place}/sub`);
  const [events, flat, ends] = [[], [], []];
  const hear = (heard) => (event) => void heard.push([event.type, event.name, event.entry?.path]);
  const onExit = (error) => void ends.push(error);
  await files.watchDir(place, hear(events), { recursive: true, includeEntry: true, timeoutMs: 0, onExit });
  const stopped = await files.watchDir(place, hear(flat), { timeoutMs: 0 });
  await commands.run("echo 1 > f; mv f g; rm g; mkdir -p new/deep; echo x > sub/z", { cwd: place });
  const told = (heard) => heard.map(([type, name]) => `${type} ${name}`).filter((one, i, all) => one !== all[i - 1]);
  const expected = ["create f", "write f", "rename f", "create g", "remove g", "create new", "create sub/z", "write sub/z"];
  // Found by looking into the new directory; meanwhile the rest is told.
  const found = "create new/deep";
  await until("what changed is told", () => [...expected, found].every((one) => told(events).includes(one)));
  equal("each change in its order", told(events).filter((one) => one !== found), expected);
  equal("each of them once", told(events).length, expected.length + 1);
  equal("with what is there", events.find(([, name]) => name === "sub/z")[2], `${place}/sub/z`);
  await until("also what is not below", () => told(flat).includes("create new"));
  equal("and nothing that is", told(flat), expected.slice(0, 6));
  await stopped.stop();
  await files.remove(place);
  await until("a watch whose directory is gone ends", () => ends.length === 1);
  equal("without an error, after it was told", [ends, told(events).at(-1)], [[undefined], "remove ."]);
  equal("who stopped hears nothing more", told(flat).length, 6);
  await raises("nothing to watch", FileNotFoundError, () => files.watchDir(place, () => {}));
  await raises("no directory to watch", InvalidArgumentError, () => files.watchDir("/etc/passwd", () => {}));
}

async function terminal() {
  let screen = "";
  const decoder = new TextDecoder();
  const type = (pid, text) => pty.sendInput(pid, new TextEncoder().encode(text));
  const shows = (text) => until(`the terminal shows ${text}`, () => screen.includes(text));
  const onData = (data) => void (screen += decoder.decode(data, { stream: true }));
  const handle = await pty.create({ cols: 80, rows: 24, onData, cwd: folder, envs: { WORD: "wört" }, timeoutMs: 0 });
  await type(handle.pid, "stty size; echo $TERM $WORD; echo o''ne\n");
  await shows("one\r\n");
  assert(screen.includes("24 80\r\n") && screen.includes("xterm-256color wört\r\n"), screen);
  said("a terminal");
  await pty.resize(handle.pid, { cols: 132, rows: 50 });
  let second = "";
  const follower = await pty.connect(handle.pid, { timeoutMs: 0, onData: (data) => void (second += Buffer.from(data)) });
  await type(handle.pid, "stty size; echo t''wo\n");
  await shows("two\r\n");
  await until("the other one sees it", () => second.includes("50 132\r\n"));
  said("another size");
  await type(handle.pid, "exit 4\n");
  for (const one of [handle, follower]) {
    const ended = await raises("its end", CommandExitError, () => one.wait());
    equal("its exit", ended.exitCode, 4);
  }
  const killed = await pty.create({ cols: 10, rows: 10, onData: () => {}, timeoutMs: 0 });
  equal("it is killed", await pty.kill(killed.pid), true);
  await raises("it ends", CommandExitError, () => killed.wait());
}

async function concurrent() {
  const results = await Promise.all(range(30).map((i) => commands.run(`sleep 0.5; seq ${i} 1000`)));
  equal("30 commands at once", results.map(({ stdout }, i) => stdout === numbers(i, 1000)), range(30).fill(true));
}

const mark = process.env.HANGAR_TEST_MARK;
const envVars = { HOME: "/nonexistent", ...(mark && { HANGAR_TEST_MARK: mark }) };
equal("settings", (await fetch(`${url}/init`, { method: "POST", body: JSON.stringify({ envVars }) })).status, 204);
equal("it runs", await sandbox.isRunning(), true);
for (const checks of [foreground, background, input, file, watch, terminal, concurrent]) await checks();
equal("nothing runs on", await commands.list(), []);
process.stdout.write(`done ${passed}\n`, () => process.exit(0));
