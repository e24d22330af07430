// Reads answers of UIMessages and AGUI with the libraries that front ends use, and prints what they make of them. The
// first argument is a directory with node_modules, and standard input is a list of {name, protocol, body}.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.argv[2] + "/x.js");
const ai = require("ai");
const { EventSchemas } = require("@ag-ui/core/schemas");
const { HttpAgent } = require("@ag-ui/client");

const response = (body) =>
  new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } });

async function ui(body) {
  const transport = new ai.DefaultChatTransport({ api: "http://service/chat", fetch: async () => response(body) });
  const chunks = await transport.sendMessages({ trigger: "submit-message", chatId: "s", messages: [] });
  const out = { texts: [], error: "" };
  const onError = (err) => { out.error = String(err?.message ?? err); };
  for await (const message of ai.readUIMessageStream({ stream: chunks, onError })) {
    out.id = message.id;
    const gone = new Set(message.parts.filter((p) => p.type === "data-void").map((p) => p.data.id));
    out.texts = message.parts
      .filter((p) => p.type === "text" && !p.providerMetadata.holdfast.void)
      .filter((p) => !gone.has(p.providerMetadata.holdfast.id))
      .map((p) => p.text);
    out.tools = message.parts
      .filter((p) => p.type === "dynamic-tool")
      .map((p) => p.toolName + " " + p.state);
    out.questions = message.parts.filter((p) => p.type === "data-question").map((p) => p.data.id);
  }
  return out;
}

async function agui(body) {
  for (const line of body.split("\n")) {
    if (line.startsWith("data: ")) EventSchemas.parse(JSON.parse(line.slice(6)));
  }
  const out = { texts: [], error: "" };
  const agent = new HttpAgent({ url: "http://service/agent", threadId: "s", fetch: async () => response(body) });
  const subscriber = {
    onRunErrorEvent: ({ event }) => { out.error = event.message; },
    onRunFinishedEvent: ({ event }) => {
      out.outcome = event.outcome.type;
      out.interrupts = (event.outcome.interrupts ?? []).map((i) => i.id);
    },
    onRunFailed: ({ error }) => { out.error = String(error?.message ?? error); },
  };
  try {
    await agent.runAgent({ runId: "r" }, subscriber);
  } catch (err) {
    out.error = String(err?.message ?? err);
  }
  out.texts = agent.messages
    .filter((m) => m.role === "assistant" && m.content && !m.metadata?.holdfast?.void)
    .map((m) => m.content);
  return out;
}

const results = [];
for (const { name, protocol, body } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    results.push({ name, protocol, ...(await (protocol === "ui" ? ui(body) : agui(body))) });
  } catch (err) {
    results.push({ name, protocol, error: "rejected: " + String(err?.stack ?? err) });
  }
}
const version = (name) => JSON.parse(readFileSync(process.argv[2] + "/node_modules/" + name + "/package.json")).version;
console.log(JSON.stringify({
  versions: "ai " + version("ai") + ", @ag-ui/core " + version("@ag-ui/core") + ", @ag-ui/client " + version("@ag-ui/client"),
  results,
}));
