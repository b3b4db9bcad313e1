// Runs scenarios of the MCP conformance suite against a server that wants a token, which the suite does not send: a proxy
// in between adds it, and passes everything else on as it is.
//
// conformance.mjs TARGET TOKEN OUT REVISION all|SCENARIO...
import { spawn } from "node:child_process";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

// Of these the suite knows what was required at their release; of others it runs what it has for them.
const FROZEN = ["2025-11-25", "2026-07-28"];
const [target, token, out, revision, ...scenarios] = process.argv.slice(2);
const url = new URL(target);

const proxy = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { method, url: path } = request;
  const onward = http.request({ host: url.hostname, port: url.port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});

function run(port, choice) {
  const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json");
  const suite = path.join(path.dirname(manifest), "dist/index.js");
  const server = ["server", "--url", `http://localhost:${port}${url.pathname}`, ...choice, "-o", out];
  return new Promise((done) => {
    spawn(process.execPath, [suite, ...server], { stdio: ["ignore", "inherit", "inherit"] }).on("exit", done);
  });
}

proxy.listen(0, "localhost", async () => {
  const { port } = proxy.address();
  const choices =
    scenarios[0] === "all"
      ? [[FROZEN.includes(revision) ? "--requirements" : "--spec-version", revision]]
      : scenarios.map((scenario) => ["--scenario", scenario, "--spec-version", revision]);
  let failed = 0;
  for (const choice of choices) {
    const code = await run(port, choice);
    console.log(`${choice.join(" ")}: ${code === 0 ? "passed" : `failed (${code})`}`);
    failed += code === 0 ? 0 : 1;
  }
  process.exit(failed);
});
