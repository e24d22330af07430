// Clients that others wrote, on the routes of a handler. The arguments are a directory with node_modules, the address of
// the handler, a directory for what is made, and the OpenAPI documents. A check that fails ends it with an error.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const [, , dir, base, out, ...documents] = process.argv;
const require = createRequire(dir + "/x.js");
const { EventSource } = await import(join(dir, "node_modules/eventsource/dist/index.js"));
globalThis.window = globalThis; // fetch-event-source is for browsers
globalThis.document = new EventTarget();
const { fetchEventSource } = require("@microsoft/fetch-event-source");

function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

const post = (key, message) => fetch(`${base}/sessions/s/turns`, {
  method: "POST", headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
  body: JSON.stringify({ message }),
});

// An EventSource of a session in which nothing was said yet stays, and comes back by itself after each turn.
{
  const source = new EventSource(`${base}/sessions/s/events?wait=1`);
  const words = [];
  const replies = [];
  source.addEventListener("token", ({ data }) => words.push(JSON.parse(data).delta));
  const two = new Promise((done) => source.addEventListener("reply", ({ data }) => {
    replies.push(JSON.parse(data).turn);
    if (replies.length === 2) done();
  }));
  await new Promise((done) => source.addEventListener("open", done));
  await post("1", "say one two");
  while (replies.length < 1) await new Promise((go) => setTimeout(go, 20));
  await post("2", "say three");
  await two;
  source.close();
  same(words.join(""), "one two three ", "words of EventSource");
  same(replies, [0, 1], "replies of EventSource");
}

// fetch-event-source posts, and reads the events of the answer.
{
  const kinds = [];
  await fetchEventSource(`${base}/sessions/f/turns`, {
    method: "POST", openWhenHidden: true, body: JSON.stringify({ message: "say one two" }),
    headers: { "Idempotency-Key": "1", "Content-Type": "application/json", Accept: "text/event-stream" },
    onmessage: ({ event, data }) => {
      JSON.parse(data);
      kinds.push(event);
    },
    onerror: (err) => { throw err; },
  });
  same(kinds.filter((k) => k === "token").length, 2, "tokens of fetch-event-source");
  same(kinds.at(-1), "reply", "last event of fetch-event-source");
  same(kinds.includes(""), false, "no event is empty");
}

// openapi-typescript makes types, and tsc takes a program that uses them.
for (const document of documents) {
  const types = join(out, basename(dirname(document)) + ".ts");
  execFileSync(process.execPath, [
    join(dir, "node_modules/openapi-typescript/bin/cli.js"), document, "-o", types,
  ], { stdio: "pipe" });
  same(readFileSync(types, "utf8").includes("export interface components"), true, "types of " + document);
}
writeFileSync(join(out, "program.ts"), `
import type { components, paths } from "./turnhttp";
import type { components as workflows } from "./workflowhttp";

type Sent = paths["/sessions/{id}/events"]["get"]["responses"][200]["content"]["text/event-stream"];
const told = (sent: Sent): string | undefined => sent.event === "reply" ? undefined : (sent.data as components["schemas"]["Event"]).delta;
const run: workflows["schemas"]["Run"]["status"] | undefined = undefined;
export { told, run };
// @ts-expect-error an event has no such member
export const wrong = (ev: components["schemas"]["Event"]) => ev.nothing;
`);
try {
  execFileSync(process.execPath, [
    join(dir, "node_modules/typescript/bin/tsc"), "--strict", "--noEmit", "--moduleResolution", "bundler", "--module",
    "esnext", "--target", "es2022", join(out, "program.ts"),
  ], { stdio: "pipe" });
} catch (err) {
  throw new Error("tsc: " + err.stdout);
}
console.log("done");
process.exit(0);
