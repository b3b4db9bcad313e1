// Follows the stream of a command with node's fetch and an SSE parser, and prints each event as a line of JSON at once.
//
// Usage: node sse.mjs URL TOKEN PARSER < request.json, where PARSER is the folder that npm put eventsource-parser in.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, token, folder] = process.argv.slice(2);
const { EventSourceParserStream } = createRequire(`${folder}/`)("eventsource-parser/stream");
const response = await fetch(url, {
  method: "POST",
  headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  body: readFileSync(0),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const events = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
for await (const { event, data } of events) {
  process.stdout.write(`${JSON.stringify({ event, data: JSON.parse(data) })}\n`);
}
