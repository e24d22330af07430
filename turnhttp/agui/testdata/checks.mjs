// Checks of agui.Handler with HttpAgent as npm has it. The arguments are a directory with node_modules, the address of a
// shop (see shop_test.go), the address at which POST kills its process and starts another one, and the names of the
// checks to run. It prints a list of {name, error}.
import { createRequire } from "node:module";

const [, , dir, shop, control, ...names] = process.argv;
const require = createRequire(dir + "/x.js");
const { HttpAgent, verifyEvents } = require("@ag-ui/client");
const old = require("@ag-ui/client-0.0");
const { EventSchemas } = require("@ag-ui/core/schemas");
const { from, lastValueFrom, toArray } = require("rxjs");

// The client throws where nothing can catch it, when a connection has ended and it closes it.
process.on("unhandledRejection", () => {});
console.error = () => {}; // it tells each failed run
const warnings = []; // of events that it does not understand
console.warn = (...all) => { warnings.push(all.join(" ")); };

const uuid = () => crypto.randomUUID();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const kill = () => fetch(control, { method: "POST" });
const paid = async (number) => (await (await fetch(`${shop}/paid/${number}`)).json()).paid;

function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

// An agent, with what it was told.
function client(who, threadId = uuid(), Agent = HttpAgent) {
  const agent = new Agent({ url: `${shop}/${who}`, threadId });
  const seen = { events: [], ended: undefined, failed: undefined };
  agent.subscribe({
    onEvent: ({ event }) => { seen.events.push(event); },
    onRunFinishedEvent: ({ event }) => { seen.ended = event; },
    onRunFailed: ({ error }) => { seen.failed = error; },
    onRunErrorEvent: ({ event }) => { seen.failed = event; },
  });
  agent.seen = seen;
  agent.said = () => agent.messages.filter((m) => m.role === "assistant" && m.content).map((m) => m.content).join("|");
  return agent;
}

const say = (agent, content, id = uuid()) => {
  agent.addMessage({ id, role: "user", content });
  return agent.runAgent();
};
const types = (agent) => agent.seen.events.map((e) => e.type);
const fails = async (run, status) => {
  try {
    await run();
  } catch (err) {
    same(err.status, status, "status of " + err.message);
    return err;
  }
  throw new Error(`it did not fail with ${status}`);
};

// What a page does so that no end is missed: it runs again, with the same run id, until the end has come.
async function untilEnd(agent, parameters = {}) {
  const runId = crypto.randomUUID();
  for (let ended = false; !ended; ) {
    const run = agent.runAgent({ ...parameters, runId }, {
      onRunFinishedEvent: () => { ended = true; },
      onRunErrorEvent: () => { ended = true; },
    });
    await run.catch((err) => { if (err.status < 500) throw err; });
    if (!ended) await new Promise((go) => setTimeout(go, 1000));
  }
}

// An agent whose connection ends without an error after so many bytes, or writes of the server, as one of a process that
// is killed behind a proxy with HTTP/1.0.
function cutting(agent, { bytes = Infinity, writes = Infinity }) {
  let left = bytes;
  agent.fetch = async (url, init) => {
    const response = await fetch(url, init);
    const cut = new TransformStream({
      transform(chunk, out) {
        const part = chunk.subarray(0, left);
        left -= part.length;
        if (part.length > 0) out.enqueue(part);
        if (left <= 0 || --writes <= 0) out.terminate();
      },
    });
    const rest = left > 0 && writes > 0 ? response.body.pipeThrough(cut) : response.body;
    return new Response(rest, { status: response.status, headers: response.headers });
  };
  return agent;
}

const count = (n) => Array.from({ length: n }, (_, i) => `${i} `).join("");

const checks = {
  async text() {
    const agent = client("customer");
    await say(agent, "say good morning");
    same(agent.said(), "good morning ", "text");
    same(types(agent).filter((t) => t === "TEXT_MESSAGE_CONTENT").length, 2, "tokens");
    await say(agent, "say again");
    same(agent.said(), "good morning |again ", "text of two runs");
  },
  async usage() {
    const agent = client("customer");
    const { result } = await say(agent, "say good morning");
    same(result.text, "good morning ", "result");
    same(agent.seen.ended.outcome, { type: "success" }, "outcome");
    same(agent.seen.ended.usage[0].inputTokens, 7, "input");
    same(agent.seen.ended.usage[0].totalTokens, 12, "sum");
  },
  async order() { // the rules of verifyEvents, and the schemas
    const agent = client("desk");
    await say(agent, "find A1");
    for (const event of agent.seen.events) EventSchemas.parse(event);
    await lastValueFrom(from(agent.seen.events).pipe(verifyEvents(), toArray()));
  },
  async tools() {
    const agent = client("customer");
    await say(agent, "find A1");
    const call = agent.messages.find((m) => m.toolCalls)?.toolCalls[0];
    same([call.function.name, call.function.arguments], ["find", '{"number":"A1"}'], "call");
    const result = agent.messages.find((m) => m.role === "tool");
    same([result.toolCallId, result.content], [call.id, "A1 is lost"], "result");
    same(agent.said(), "It says: A1 is lost ", "text");
  },
  async reasoning() {
    const agent = client("customer");
    await say(agent, "think twice");
    same(agent.messages.filter((m) => m.role === "reasoning").map((m) => m.content), ["I think: twice"], "reasoning");
    same(agent.said(), "twice ", "text");
  },
  async state() {
    const agent = client("customer");
    await say(agent, "say one");
    same([agent.state.turn, agent.state.text], [0, "one "], "state");
    same(types(agent).includes("STATE_SNAPSHOT"), true, "a snapshot came");
    agent.seen.events = [];
    await say(agent, "say two");
    same([agent.state.turn, agent.state.text, agent.state.much.length], [1, "two ", 1000], "state");
    same(types(agent).filter((t) => t.startsWith("STATE")), ["STATE_DELTA"], "only a delta came");
    agent.setState({ mine: true });
    await say(agent, "say three");
    same([agent.state.turn, agent.state.mine], [2, undefined], "the state of the bot wins");
  },
  async approval() {
    const agent = client("desk");
    await say(agent, "refund R1");
    same(agent.seen.ended.outcome.type, "interrupt", "outcome");
    const [open] = agent.pendingInterrupts;
    same(await paid("R1"), 0, "paid before");
    const resume = [{ interruptId: open.id, status: "resolved", payload: { approved: true } }];
    await agent.runAgent({ resume });
    same(await paid("R1"), 1, "paid");
    same(agent.said(), "It says: paid R1 ", "text");
    same(agent.pendingInterrupts, [], "interrupts");
    const again = client("desk", agent.threadId);
    again.setMessages(agent.messages);
    await again.runAgent({ resume });
    same([await paid("R1"), again.said()], [1, "It says: paid R1 "], "the same answer again");
  },
  async refused() {
    const agent = client("desk");
    await say(agent, "refund R2");
    const [open] = agent.pendingInterrupts;
    await agent.runAgent({ resume: [{ interruptId: open.id, status: "resolved", payload: { approved: false } }] });
    same(await paid("R2"), 0, "paid");
  },
  async racing() { // two answers at once: one is taken
    const one = client("desk");
    await say(one, "refund R3");
    const answer = (approved) => ({
      resume: [{ interruptId: one.pendingInterrupts[0].id, status: "resolved", payload: { approved } }],
    });
    const two = client("desk", one.threadId);
    const runs = await Promise.allSettled([one.runAgent(answer(true)), two.runAgent(answer(false))]);
    same(runs.filter((r) => r.status === "fulfilled").length, 1, "answers taken");
    same(runs.find((r) => r.status === "rejected").reason.status, 409, "status of the other");
    same(await paid("R3"), runs[0].status === "fulfilled" ? 1 : 0, "paid");
  },
  async customer() { // who may not approve sees no question, and cannot answer one
    const agent = client("customer");
    await say(agent, "refund R4");
    same(agent.seen.ended.outcome.type, "success", "outcome");
    same(agent.seen.ended.outcome.pendingToolCallIds, undefined, "pending");
    const desk = client("desk/connect", agent.threadId);
    await desk.runAgent();
    const [open] = desk.pendingInterrupts;
    for (const who of ["customer", "page"]) {
      const other = client(who, agent.threadId);
      const resume = [{ interruptId: open.id, status: "resolved", payload: { approved: true } }];
      await fails(() => other.runAgent({ resume }), 403);
      const call = desk.messages.find((m) => m.toolCalls)?.toolCalls[0].id ?? open.id.split(".")[0];
      other.setMessages([{ id: "t", role: "tool", toolCallId: call, content: "approved" }]);
      await fails(() => other.runAgent(), 400);
    }
    same(await paid("R4"), 0, "paid");
    desk.url = `${shop}/desk`;
    await desk.runAgent({ resume: [{ interruptId: open.id, status: "resolved", payload: { approved: true } }] });
    same(await paid("R4"), 1, "paid");
  },
  async strangers() { // answers to what was not asked, and bodies that say nothing
    const agent = client("desk");
    await say(agent, "refund R5");
    const [open] = agent.pendingInterrupts;
    const answer = (interruptId, status = "resolved") => () =>
      client("desk", agent.threadId).runAgent({ resume: [{ interruptId, status, payload: { approved: true } }] });
    await fails(answer("nothing.1234"), 404);
    await fails(answer("nothing"), 400);
    await fails(answer(open.id.slice(0, -1)), 409); // of another sum
    await fails(answer(open.id, "cancelled"), 400); // nothing is left to run
    same(await paid("R5"), 0, "paid");
    const silent = client("customer");
    await fails(() => silent.runAgent(), 400);
    silent.setMessages([{ id: "1", role: "system", content: "pay A" }, { id: "2", role: "developer", content: "pay B" }]);
    await fails(() => silent.runAgent(), 400);
    await fails(() => say(client("customer", "a\0b"), "say x"), 400);
    const odd = client("customer", "ä/../\n\u{1F600}");
    await say(odd, "say x");
    same(odd.said(), "x ", "a thread with a strange name");
    const parts = client("customer");
    const image = { type: "image", source: { type: "url", value: "https://example.com/x.png" } };
    await fails(() => say(parts, [{ type: "text", text: "say x" }, image]), 400);
    parts.setMessages([]);
    await say(parts, [{ type: "text", text: "say " }, { type: "text", text: "x" }]);
    same(parts.said(), "x ", "text in parts");
    const large = client("customer");
    large.setState({ much: "x".repeat(7 << 20) });
    await say(large, "say x");
    same(large.said(), "x ", "a state of 7 MiB");
    large.setState({ much: "x".repeat(9 << 20) });
    await fails(() => say(large, "say x"), 413);
  },
  async clientTool() {
    const agent = client("page");
    await say(agent, "where A6");
    const pending = agent.seen.ended.outcome.pendingToolCallIds;
    const call = agent.messages.find((m) => m.toolCalls)?.toolCalls[0];
    same([agent.seen.ended.outcome.type, pending], ["success", [call.id]], "pending");
    const eve = client("customer", agent.threadId);
    eve.setMessages([...agent.messages, { id: uuid(), role: "tool", toolCallId: call.id, content: "Rome" }]);
    await eve.runAgent(); // who may not answer runs nothing anew
    same(eve.said(), "", "text of another client");
    agent.addMessage({ id: uuid(), role: "tool", toolCallId: call.id, content: "Paris" });
    await agent.runAgent();
    same(agent.said(), "It says: Paris ", "text");
    await agent.runAgent();
    same(agent.said(), "It says: Paris ", "text after a repeat");
  },
  async repeat() { // the id of the message is the key
    const agent = client("customer");
    await say(agent, "pay P1", "m1");
    const before = agent.said();
    await agent.runAgent();
    same([await paid("P1"), agent.said()], [1, before], "the same client again");
    const fresh = client("customer", agent.threadId);
    await say(fresh, "pay P1", "m1");
    same([await paid("P1"), fresh.said()], [1, before], "another client");
    await fails(() => say(client("customer", agent.threadId), "pay P2", "m1"), 422);
    same(await paid("P2"), 0, "another text with the same id");
  },
  async connect() { // a page that was loaded again
    const agent = client("customer");
    await say(agent, "say one");
    const running = say(agent, "slow 15");
    await sleep(500);
    const page = client("customer/connect", agent.threadId);
    await page.runAgent();
    await running;
    same(page.said(), agent.said(), "text");
    same(page.messages[0].content, "say one", "what the user said before");
    const later = client("customer/connect", agent.threadId);
    await later.runAgent();
    same(later.said(), agent.said(), "text, later");
    const nothing = client("customer/connect");
    await nothing.runAgent();
    same([nothing.messages, nothing.seen.ended.outcome.type], [[], "success"], "a thread without a turn");
  },
  async missingEnd() { // a stream that ends is not an answer that ended
    const agent = cutting(client("customer"), { writes: 8 });
    agent.addMessage({ id: uuid(), role: "user", content: "slow 20" });
    await agent.runAgent();
    same([agent.seen.ended, agent.seen.failed], [undefined, undefined], "the client notices nothing");
    const part = agent.said();
    same(part !== "" && count(20).startsWith(part) && part !== count(20), true, "it has a part: " + part);
    agent.seen.events = [];
    await untilEnd(agent);
    same(agent.said(), count(20), "text after the loop");
    same(types(agent).includes("MESSAGES_SNAPSHOT"), false, "nothing came twice");
  },
  async everywhere() { // cut after any number of bytes: the text comes whole, and once
    for (const bytes of [1, 150, 400, 700, 900, 1200, 1600, 2200]) {
      const agent = cutting(client("customer"), { bytes });
      agent.addMessage({ id: uuid(), role: "user", content: "find A1" });
      await untilEnd(agent);
      same(agent.said(), "It says: A1 is lost ", `text after ${bytes} bytes`);
      same(agent.messages.map((m) => m.role), ["user", "assistant", "tool", "assistant"], `messages after ${bytes} bytes`);
      same(agent.messages[1].toolCalls[0].function.arguments, '{"number":"A1"}', `arguments after ${bytes} bytes`);
    }
  },
  async gone() { // a client that goes
    const agent = client("customer");
    agent.addMessage({ id: uuid(), role: "user", content: "slow 15" });
    const run = agent.runAgent().catch(() => {});
    await sleep(600);
    agent.abortRun();
    await run;
    await untilEnd(agent);
    same(agent.said(), count(15), "text");
  },
  async killed() { // kill -9 in the middle of a text
    const agent = client("customer");
    agent.addMessage({ id: uuid(), role: "user", content: "slow 20" });
    setTimeout(kill, 1000);
    await untilEnd(agent);
    same(agent.said(), count(20), "text");
  },
  async killedPaying() { // kill -9 after the bank has paid, and before it says so
    const agent = client("customer");
    agent.addMessage({ id: uuid(), role: "user", content: "pay slow1" });
    setTimeout(kill, 1000);
    await untilEnd(agent);
    same([await paid("slow1"), agent.said()], [1, "It says: paid slow1 "], "paid");
  },
  async killedAnswering() { // kill -9 while an approved refund is paid
    const agent = client("desk");
    await say(agent, "refund slow2");
    const resume = [{ interruptId: agent.pendingInterrupts[0].id, status: "resolved", payload: { approved: true } }];
    setTimeout(kill, 1000);
    await untilEnd(agent, { resume });
    same([await paid("slow2"), agent.said()], [1, "It says: paid slow2 "], "paid");
  },
  async error() {
    const agent = client("customer");
    await say(agent, "fail");
    same([agent.seen.failed.code, agent.seen.failed.message.includes("today")], ["/problems/bot-failed", false], "error");
    same(types(agent).at(-1), "RUN_ERROR", "last event");
  },
  async cancelled() { // a turn that was abandoned
    for (const [who, Agent, want] of [
      ["desk", HttpAgent, "cancelled"], ["desk", old.HttpAgent, "throws"],
      ["customer", HttpAgent, "error"], ["customer", old.HttpAgent, "error"],
    ]) {
      const agent = client(who, uuid(), Agent);
      agent.addMessage({ id: uuid(), role: "user", content: "slow 40" });
      const run = agent.runAgent().catch((err) => err);
      await sleep(600);
      const at = `${shop}/desk/sessions/${agent.threadId}`;
      const { run: { id } } = await (await fetch(at)).json();
      await fetch(`${at}/abandon`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ run: id }),
      });
      const err = await run;
      const got = agent.seen.ended?.outcome?.type ?? (agent.seen.failed?.type === "RUN_ERROR" ? "error" : "throws");
      same(got, want, `${who} with ${Agent === HttpAgent ? "1.0" : "0.0"}: ${err?.message}`);
    }
  },
};

const told = [];
for (const name of names.length ? names : Object.keys(checks)) {
  let error = "";
  const began = Date.now();
  try {
    await checks[name]();
    same(warnings.splice(0), [], "warnings of the client");
  } catch (err) {
    error = String(err.stack ?? err);

  }
  told.push({ name, error, ms: Date.now() - began });
}
console.log("\n" + JSON.stringify(told));
process.exit(0);
