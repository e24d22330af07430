// Talks with a handler by the DefaultChatTransport and the Chat of the AI SDK as they are, and prints what came of each
// check. The arguments are the directory with node_modules, and the URL of the server.
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";

const [dir, url] = process.argv.slice(2);
const require = createRequire(dir + "/x.js");
const ai = require("ai");
const { Chat } = require("@ai-sdk/react");

const results = [];
const check = async (name, f) => {
  try {
    await f();
    results.push({ name });
  } catch (err) {
    results.push({ name, error: String(err?.stack ?? err) });
  }
};
const same = (what, got, want) => {
  if (!isDeepStrictEqual(got, want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
};

let chats = 0;
const open = (id, options = {}, api = url + "/api/chat", who = "desk") => {
  const seen = { errors: [], finishes: [], calls: [] };
  const chat = new Chat({
    id: id ?? "chat-" + ++chats,
    transport: new ai.DefaultChatTransport({ api, headers: { Who: who } }),
    onError: (err) => seen.errors.push(err),
    onFinish: (f) => seen.finishes.push(f),
    onToolCall: ({ toolCall }) => { seen.calls.push(toolCall); },
    ...options,
  });
  return { chat, seen };
};
const parts = (chat, type) => chat.messages.at(-1).parts.filter((p) => p.type === type);
const said = (chat) => parts(chat, "text").map((p) => p.text).join("");
const tool = (chat) => parts(chat, "dynamic-tool")[0];
const until = async (what, f) => {
  for (const end = Date.now() + 20000; Date.now() < end; ) {
    const v = await f();
    if (v) return v;
    await new Promise((done) => setTimeout(done, 5));
  }
  throw new Error("not seen: " + what);
};
const history = async (chat) => {
  const r = await fetch(`${url}/api/chat/${chat.id}/messages`, { headers: { Who: "desk" } });
  return (await r.json()).messages;
};

await check("text", async () => {
  const { chat, seen } = open();
  await chat.sendMessage({ text: "hello" });
  same("text", said(chat), "1: you said hello");
  same("status", chat.status, "ready");
  same("finish", seen.finishes.map((f) => f.finishReason), ["stop"]);
});
await check("metadata has usage and cost", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "hello" });
  const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15, cost: 0.5 };
  same("metadata", chat.messages.at(-1).metadata, { usage });
});
await check("the second message", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "hello" });
  await chat.sendMessage({ text: "again" });
  same("text", said(chat), "2: you said again");
  same("messages", chat.messages.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
});
await check("a tool's input and output", async () => {
  const { chat, seen } = open();
  await chat.sendMessage({ text: "look A1" });
  const { input, output, state, toolName } = tool(chat);
  same("tool", { input, output, state, toolName },
    { input: { order: "A1" }, output: { cents: 250, order: "A1" }, state: "output-available", toolName: "look" });
  same("calls that the page runs", seen.calls, []);
});
await check("a tool's error", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "look none" });
  same("tool", [tool(chat).state, tool(chat).errorText], ["output-error", "no such order"]);
});
await check("reasoning", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "look A1" });
  same("reasoning", parts(chat, "reasoning").map((p) => [p.text, p.state]), [["I need look.", "done"]]);
});
await check("steps", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "look A1" });
  const kinds = chat.messages.at(-1).parts.map((p) => p.type).filter((t) => !t.startsWith("data-"));
  same("parts", kinds, ["step-start", "reasoning", "dynamic-tool", "step-start", "text"]);
});
await check("an error", async () => {
  const { chat, seen } = open();
  await chat.sendMessage({ text: "fail" });
  same("status", chat.status, "error");
  same("error", seen.errors.map((e) => e.message), ["The bot could not answer."]);
  same("what is shown", chat.messages.at(-1).role === "assistant" ? said(chat) : "", "");
});
await check("another attempt shows no half sentence", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "stumble" });
  same("text", said(chat), "Whole.");
});
await check("an approval is granted", async () => {
  const { chat } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: "refund A1" });
  same("state", tool(chat).state, "approval-requested");
  await chat.addToolApprovalResponse({ id: tool(chat).approval.id, approved: true });
  await until("the reply", () => chat.status === "ready" && said(chat) === "Done: paid");
  same("messages", chat.messages.length, 2);
  same("tool", [tool(chat).state, tool(chat).output], ["output-available", "paid"]);
});
await check("an approval is denied", async () => {
  const { chat } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: "refund A1" });
  await chat.addToolApprovalResponse({ id: tool(chat).approval.id, approved: false, reason: "too late" });
  await until("the reply", () => chat.status === "ready" && said(chat).endsWith("refused. too late"));
  same("state", tool(chat).state, "output-denied");
});
await check("two approvals of one reply", async () => {
  const { chat } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: "both A1" });
  for (const p of parts(chat, "dynamic-tool")) {
    await chat.addToolApprovalResponse({ id: p.approval.id, approved: true });
  }
  await until("the reply", () => chat.status === "ready" && said(chat) === "Done: paid");
  same("states", parts(chat, "dynamic-tool").map((p) => p.state), ["output-available", "output-available"]);
});
await check("two answers at once: the first counts", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "refund A1" });
  const pages = [true, false].map((approved) => {
    const page = open(chat.id, { messages: structuredClone(chat.messages) });
    return { ...page, approved };
  });
  await Promise.all(pages.map(async ({ chat, approved }) => {
    await chat.addToolApprovalResponse({ id: tool(chat).approval.id, approved });
    await chat.sendMessage();
  }));
  same("errors", pages.map((p) => p.seen.errors.length).sort(), [0, 1]);
  const told = pages.flatMap((p) => p.seen.errors).map((e) => e.message);
  if (!told[0].includes("Another answer was first")) throw new Error(told[0]);
});
await check("who may not answer is refused", async () => {
  const { chat, seen } = open(undefined, {}, url + "/api/chat", "ann");
  await chat.sendMessage({ text: "refund A1" });
  await chat.addToolApprovalResponse({ id: tool(chat).approval.id, approved: true });
  await chat.sendMessage();
  same("errors", seen.errors.length, 1);
  same("history", (await history(chat)).at(-1).parts.at(-1).state, "approval-requested");
});
await check("a client tool", async () => {
  const { chat, seen } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
  }, url + "/api/chat", "ann");
  await chat.sendMessage({ text: "photo A1" });
  same("calls", seen.calls.map((c) => [c.toolName, c.input]), [["photo", { order: "A1" }]]);
  await chat.addToolOutput({ tool: "photo", toolCallId: seen.calls[0].toolCallId, output: { at: "p.png" } });
  await until("the reply", () => chat.status === "ready" && said(chat) === 'Done: {"at":"p.png"}');
  same("calls", seen.calls.length, 1);
});
await check("a client tool that fails", async () => {
  const { chat, seen } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
  });
  await chat.sendMessage({ text: "photo A1" });
  await chat.addToolOutput({
    tool: "photo", toolCallId: seen.calls[0].toolCallId, state: "output-error", errorText: "no camera",
  });
  await until("the reply", () => chat.status === "ready" && said(chat) === "Done: no camera");
});
const file = { type: "file", mediaType: "text/plain", filename: "a.txt", url: "data:text/plain,hi" };
await check("a file is taken", async () => {
  const { chat } = open(undefined, {}, url + "/files/chat");
  await chat.sendMessage({ text: "hello", files: [file] });
  same("text", said(chat), "1: you said [a.txt]\nhello");
});
await check("a file is refused", async () => {
  const { chat, seen } = open();
  await chat.sendMessage({ text: "hello", files: [file] });
  if (!seen.errors[0].message.includes("/problems/no-files")) throw new Error(seen.errors[0].message);
});
await check("an edit", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "one" });
  await chat.sendMessage({ text: "two" });
  await chat.sendMessage({ text: "uno", messageId: chat.messages[0].id });
  same("text", said(chat), "1: you said uno");
  same("history", (await history(chat)).map((m) => m.id), chat.messages.map((m) => m.id));
});
await check("an edit, then another message", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "one" });
  await chat.sendMessage({ text: "uno", messageId: chat.messages[0].id });
  await chat.sendMessage({ text: "due" });
  same("text", said(chat), "2: you said due");
});
await check("another reply", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "one" });
  const before = chat.messages.at(-1).id;
  await chat.regenerate({ messageId: before });
  same("text", said(chat), "1: you said one");
  if (chat.messages.at(-1).id === before) throw new Error("it is the same reply");
  same("history", (await history(chat)).map((m) => m.id), chat.messages.map((m) => m.id));
});
await check("another reply after an error", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "fail" });
  await chat.regenerate();
  same("status", chat.status, "error");
});
await check("an edit of another bot is 409", async () => {
  const { chat, seen } = open(undefined, {}, url + "/echo/chat");
  await chat.sendMessage({ text: "one" });
  same("text", said(chat), "You said: one");
  await chat.sendMessage({ text: "two", messageId: chat.messages[0].id });
  await chat.regenerate();
  same("errors", seen.errors.map((e) => e.message.includes("/problems/no-edit")), [true, true]);
});
await check("a repeat is the reply again", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "one" });
  const again = open(chat.id, { messages: [chat.messages[0]] }).chat;
  await again.sendMessage({ text: "one", messageId: chat.messages[0].id });
  same("reply", [again.messages.at(-1).id, said(again)], [chat.messages.at(-1).id, said(chat)]);
});
await check("nothing to resume", async () => {
  const { chat, seen } = open();
  await chat.resumeStream();
  same("status", [chat.status, seen.errors.length], ["ready", 0]);
});
await check("a page that was loaded again goes on", async () => {
  const { chat } = open();
  const sent = chat.sendMessage({ text: "wait" });
  await until("the first word", () => chat.messages.length === 2 && said(chat) === "Wait. ");
  const again = open(chat.id, { messages: await history(chat) }).chat;
  same("history", again.messages.map((m) => m.role), ["user"]);
  const resumed = again.resumeStream();
  await until("the first word again", () => again.messages.length === 2 && said(again) === "Wait. ");
  await fetch(url + "/go", { method: "POST" });
  await Promise.all([sent, resumed]);
  same("text", [said(again), again.messages.at(-1).id], ["Wait. Over.", chat.messages.at(-1).id]);
});
await check("stop", async () => {
  const { chat } = open();
  const sent = chat.sendMessage({ text: "wait" });
  await until("the first word", () => chat.messages.length === 2 && said(chat) === "Wait. ");
  await fetch(`${url}/api/chat/${chat.id}/stop`, { method: "POST", headers: { Who: "desk", "Content-Type": "application/json" } });
  await sent;
  same("status", chat.status, "ready");
  same("text", said(chat), "Wait. ");
});
await check("a reloaded page shows both sides", async () => {
  const { chat } = open();
  await chat.sendMessage({ text: "look A1" });
  await chat.sendMessage({ text: "refund A1" });
  const said = await history(chat);
  await ai.validateUIMessages({ messages: said });
  same("ids", said.map((m) => m.id), chat.messages.map((m) => m.id));
  const again = open(chat.id, { messages: said }).chat;
  const call = again.messages.at(-1).parts.find((p) => p.state === "approval-requested");
  await again.addToolApprovalResponse({ id: call.approval.id, approved: true });
  await again.sendMessage();
  same("text", again.messages.at(-1).parts.at(-1).text ?? again.messages.at(-1).parts.at(-2).text, "Done: paid");
});
await check("the session goes on after an answer, and the page resumes it whole", async () => {
  const { chat } = open(undefined, {
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: "refund slow" });
  await chat.addToolApprovalResponse({ id: tool(chat).approval.id, approved: true });
  await until("the reply begins", () => said(chat) === "Done: ");
  const again = open(chat.id, { messages: await history(chat) }).chat;
  const resumed = again.resumeStream();
  await until("the reply begins again", () => again.messages.length === 2 && said(again) === "Done: ");
  await fetch(url + "/go", { method: "POST" });
  await resumed;
  same("id", again.messages.at(-1).id, chat.messages.at(-1).id);
  same("tool", [tool(again).toolName, tool(again).state], ["refund", "output-available"]);
  same("text", said(again), "Done: paid");
});
await check("a finish that did not come is missed", async () => {
  const { chat, seen } = open(undefined, {}, url + "/cut/chat");
  await chat.sendMessage({ text: "hello" });
  same("finish", [seen.finishes[0].finishReason, seen.finishes[0].isError], [undefined, false]);
});
console.log(JSON.stringify(results));
