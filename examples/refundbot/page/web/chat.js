// The left side: the conversation, the questions to a person, and the message.

import { $, cost, duration, h, list, money, text } from "./dom.js";
import { said } from "./live.js";
import { isDesk } from "./me.js";

const starters = [
  ["Refund order A-1007, please.", "49.90: paid at once"],
  ["I want my money back for A-1042.", "250.00: a person approves"],
  ["Where is my order A-1013?", "no refund"],
];

// chat prepares the left side. current returns the session that is shown.
export function chat(current) {
  const input = $("input");
  const send = () => {
    const message = input.value.trim();
    const s = current();
    if (!message || s.pending) return;
    input.value = "";
    fit();
    stick = true;
    s.send(message);
  };
  const fit = () => {
    input.style.setProperty("height", "auto");
    input.style.setProperty("height", `${Math.min(input.scrollHeight + 2, 160)}px`);
  };
  $("form").addEventListener("submit", (ev) => { ev.preventDefault(); send(); });
  input.addEventListener("input", fit);
  input.addEventListener("keydown", (ev) => {
    if (ev.key !== "Enter" || ev.shiftKey || ev.isComposing) return;
    ev.preventDefault();
    send();
  });
  for (const [message, what] of starters) {
    const say = () => { input.value = message; send(); input.focus(); };
    $("starters").append(h("li", {}, h("button", { type: "button", onclick: say }, h("b", {}, message), h("span", {}, what))));
  }
  $("scroll").addEventListener("scroll", () => {
    const el = $("scroll");
    stick = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
  });
  $("earlier").addEventListener("click", () => { current().limit += 20; current().refresh(); });
}

let stick = true; // whether the newest message stays in view

// drawChat draws the left side.
export function drawChat(s, act) {
  const turns = s.doc?.turns ?? [];
  const items = [...turns].reverse().flatMap((t) => turnItems(t));
  const live = s.current;
  if (s.pending) items.push(userItem("pending", s.pending.message));
  if (s.pending || live) items.push(liveItem(s, live, act));
  list($("log"), items);
  drawLive(s, live);
  $("welcome").hidden = !s.doc || items.length > 0;
  $("earlier").hidden = !s.doc?.more;
  list($("questions"), s.questions.filter((q) => !q.answered).map((q) => expired(q) ? expiredItem(q) : questionItem(s, q)));
  const notice = s.away ? { text: "The server does not answer. Trying again.", bad: true } : s.notice;
  text($("notice"), notice?.text ?? "");
  $("notice").classList.toggle("bad", !!notice?.bad);
  $("send").setAttribute("aria-disabled", String(!!s.pending));
  if (s.draft && !$("input").value) {
    $("input").value = s.draft;
    s.draft = "";
  }
  if (stick) $("scroll").scrollTop = $("scroll").scrollHeight;
}

const userItem = (key, message) => ({
  key, from: message,
  draw: () => h("li", { class: "user" }, h("span", { class: "unseen" }, "You: "), h("p", {}, message)),
});

function turnItems(t) {
  if (t.problem) {
    return [{
      key: `turn ${t.turn}`, from: t,
      draw: () => h("li", { class: "bot" }, h("p", { class: "bad" }, `Turn ${t.turn} cannot be shown. ${t.problem.title}`)),
    }];
  }
  const took = t.steps.reduce((ms, step) => ms + step.ms, 0);
  const facts = [`turn ${t.turn}`, duration(took), cost(t.usage.cost)];
  return [
    t.origin === "answer" // of a person to a question
      ? { key: `user ${t.turn}`, from: t.reply?.input, draw: () => h("li", { class: "event" }, t.reply?.input ?? "") }
      : userItem(`user ${t.turn}`, t.reply?.input ?? ""),
    {
      key: `turn ${t.turn}`, from: t.reply,
      draw: () => h("li", { class: "bot" }, h("span", { class: "unseen" }, "Refund desk: "),
        h("p", {}, t.reply?.text ?? ""),
        h("p", { class: "facts" }, h("span", { class: "stored" }, "stored"), facts.map((f) => h("span", {}, f)),
          t.reply?.receipt && h("span", {}, `receipt ${t.reply.receipt}`))),
    },
  ];
}

const liveItem = (s, live, act) => ({
  key: "live", from: [live?.resumed ?? 0, s.pending?.waits, s.doc?.run?.id, s.asks, isDesk()],
  draw: () => h("li", { class: s.pending?.waits ? "bot live waits" : "bot live" }, h("span", { class: "unseen" }, "Refund desk: "),
    h("p", { class: "words" }),
    live?.resumed > 0 && h("p", { class: "facts" },
      h("span", {}, "Another process went on. What the first had not finished was removed.")),
    s.pending?.waits && h("p", { class: "facts" }, h("span", {}, "waits for a person"),
      s.asks && isDesk() && h("button", { type: "button", class: "small", "data-focus": "answer", onclick: act.answer }, "Answer"))),
});

// drawLive writes the words so far into the item that list has drawn.
function drawLive(s, live) {
  const words = $("log").querySelector(".live .words");
  if (!words) return;
  const so = said(live);
  const doing = live?.steps.filter((step) => step.state === "running").map((step) => step.intent).join(", ");
  text(words, so || (s.pending?.waits ? "A person looks into it." : doing ? `${doing} …` : "…"));
  words.classList.toggle("thinking", !so);
}

const expired = (q) => q.expires && new Date(q.expires) <= new Date();

const when = (q) => new Date(q.expires).toLocaleString("en-GB");

// expiredItem has no buttons: the server takes no answer any more.
const expiredItem = (q) => ({
  key: q.id, from: [q, "expired"],
  draw: () => h("section", { class: "ask", "aria-label": "Expired approval", "data-testid": "approval-expired" },
    h("p", { class: "kind" }, "Expired: nobody has approved in time"),
    h("p", { class: "what" }, q.shown.text),
    h("p", { class: "facts" }, h("span", {}, `expired ${when(q)}`))),
});

function questionItem(s, q) {
  const working = s.working.has(q.id);
  const answer = (approve) => s.answer(q, { approve });
  return {
    key: q.id, from: [q, working, isDesk()],
    draw: () => h("section", { class: "ask", "aria-label": "Approval", "data-testid": "approval" },
      h("p", { class: "kind" }, isDesk() ? "You have to approve" : "A colleague at the desk has to approve"),
      h("p", { class: "what" }, q.shown.text ?? `Refund ${money(q.shown.cents)} for order ${q.shown.order}?`),
      q.expires && h("p", { class: "facts" }, h("span", {}, `until ${when(q)}`)),
      isDesk() && h("div", { class: "row" },
        h("button", {
          type: "button", class: "main", "data-testid": "approval-yes", "data-focus": "yes",
          "aria-disabled": String(working), onclick: () => answer(true),
        }, "Approve"),
        h("button", {
          type: "button", "data-testid": "approval-no", "data-focus": "no",
          "aria-disabled": String(working), onclick: () => answer(false),
        }, "Refuse"))),
  };
}
