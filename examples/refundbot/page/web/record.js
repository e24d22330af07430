// The right side: the session as it is stored, the processes and the payment provider.

import { front } from "./api.js";
import { $, clock, cost, count, duration, h, list, text } from "./dom.js";
import { isDesk } from "./me.js";
import { inDoubt } from "./session.js";

// drawRecord draws the right side. app is what the program says of itself, and act what its buttons do.
export function drawRecord(s, app, act) {
  const doc = s.doc;
  text($("session"), s.id);
  drawFigures(doc);
  drawOwner(s, app);
  drawWorkers(s, app, act);
  drawRun(s);
  drawEffects(s, app);
  drawProvider(app);
  list($("timeline"), (doc?.turns ?? []).map((t) => turnItem(s, t, act)).concat(empty(!doc?.turns.length, "No turn is settled.")));
  drawPhases(s);
}

const empty = (yes, what) => yes ? [{ key: "none", from: what, draw: () => h("li", { class: "none" }, what) }] : [];

function drawFigures(doc) {
  const turns = doc?.turns ?? [];
  const sum = (f) => turns.reduce((n, t) => n + (t.usage ? f(t.usage) : 0), 0);
  const shown = [
    ["Turns", doc ? String(doc.turn + 1) : "–"],
    ["Replies owed", doc ? String(doc.owed) : "–"],
    ["Tokens", String(sum((u) => u.input + u.output))],
    ["Cost", cost(sum((u) => u.cost))],
  ];
  list($("figures"), shown.map(([name, value]) => ({
    key: name, from: value, draw: () => h("div", {}, h("dt", {}, name), h("dd", {}, value)),
  })));
}

const workerOf = (app, owner) => app.config?.workers?.find((w) => w.owner && owner?.id.startsWith(w.owner));

let longest = 1; // ms: the longest lease that was seen

function drawOwner(s, app) {
  const owner = s.doc?.owner;
  const lease = $("lease");
  lease.hidden = !owner;
  if (!owner) {
    text($("owner"), "No process owns the session.");
    return;
  }
  longest = Math.max(longest, owner.leaseMs);
  const quiet = Date.now() - s.beats.since;
  const worker = workerOf(app, owner)?.name;
  const name = !worker ? owner.id : worker.length === 1 ? `Worker ${worker}` : worker;
  const late = owner.beats > 0 && quiet > 2500;
  const beats = !owner.beats ? "no beats" : late ? `no beat for ${Math.floor(quiet / 1000)} s` : "beating";
  text($("owner"), `${name} owns the session · lease ${(owner.leaseMs / 1000).toFixed(1)} s · ${beats}`);
  lease.classList.toggle("late", late);
  lease.firstElementChild.style.setProperty("width", `${Math.min(100, 100 * owner.leaseMs / longest)}%`);
}

const signals = [["kill", "kill −9"], ["stop", "stop"], ["continue", "continue"], ["drain", "drain"], ["deploy", "deploy"]];

// possible says which buttons of a worker do something in its state.
const possible = {
  running: ["kill", "stop", "drain", "deploy"], draining: ["kill"], stopped: ["kill", "continue"], dead: [],
};

// signalButton makes a button of a worker. Stop and continue have one place: only one of them makes sense.
function signalButton(w, what, label, act) {
  const does = (possible[w.state] ?? []).includes(what);
  return h("button", {
    type: "button", class: "small", "data-testid": `worker-${what}`, "data-worker": w.name,
    "data-focus": what === "continue" ? "stop" : what, "aria-disabled": String(!does),
    onclick: () => does && act.worker(w.name, what),
  }, label);
}

function drawWorkers(s, app, act) {
  const owner = s.doc?.owner;
  list($("workers"), (app.config?.workers ?? []).map((w) => {
    const owns = !!w.owner && !!owner && owner.id.startsWith(w.owner);
    return {
      key: w.name, from: [w, owns, app.config.demo],
      draw: () => h("li", { class: `worker ${w.state}` },
        h("p", {}, h("b", {}, w.name.length === 1 ? `worker ${w.name}` : w.name), h("span", { class: "state" }, w.state), w.pid && h("span", { class: "pid" }, `pid ${w.pid}`),
          w.bot && h("span", { class: "pid" }, `bot v${w.bot}`),
          owns && h("span", { class: "owns" }, "at work")),
        app.config.demo && h("div", { class: "row", role: "group", "aria-label": `Signals to ${w.name}` },
          signals.filter(([what]) => what !== (w.state === "stopped" ? "stop" : "continue"))
            .map(([what, label]) => signalButton(w, what, label, act)))),
    };
  }));
}

const statuses = {
  running: "running", suspended: "waits for a person", parked: "parked: a person has to look at it", failed: "failed",
};

function drawRun(s) {
  const run = s.doc?.run;
  const live = s.current;
  const items = [];
  if (run) {
    const orphan = run.status === "running" && !s.doc.owner;
    items.push({
      key: "run", from: [run, orphan],
      draw: () => h("div", { class: "run" },
        h("p", {}, h("span", { class: `badge ${run.status}` }, orphan ? "its owner is gone" : statuses[run.status] ?? run.status),
          h("span", {}, `turn ${run.turn}`), h("span", {}, `iteration ${run.iteration}`), h("span", {}, `attempt ${run.attempt}`)),
        h("p", { class: "facts" }, h("span", {}, `since ${clock(run.started)}`), h("span", {}, `saved ${clock(run.saved)}`),
          run.pauseMs && h("span", {}, `due in ${duration(run.pauseMs)}`), h("code", { title: run.id }, run.id.slice(0, 8)))),
    });
  }
  if (live?.steps.length) {
    items.push({
      key: "steps", from: live.steps,
      draw: () => h("ol", { class: "steps" }, live.steps.map((step) => h("li", { class: step.state },
        h("span", {}, step.item ? `${step.intent} ${step.item}` : step.intent),
        h("span", { class: "quiet" }, step.state === "running" ? "runs" : duration(step.ms ?? 0),
          step.state === "failed" ? ` · attempt ${step.attempt} failed` : step.attempt > 1 && ` · attempt ${step.attempt}`,
          step.failed && ` · attempt ${step.failed} failed`, step.replayed && " · taken from the ledger")))),
    });
  }
  if (!items.length) items.push({ key: "none", from: 0, draw: () => h("p", { class: "none" }, "Nothing is in flight.") });
  list($("run"), items);
}

const states = {
  issued: "under way", completed: "done", failed: "did not happen", unknown: "in doubt", skipped: "skipped",
};

function drawEffects(s, app) {
  const order = (e) => [inDoubt(e) ? 0 : 1, -new Date(e.issued)];
  const effects = s.effects.toSorted((a, b) => order(a)[0] - order(b)[0] || order(a)[1] - order(b)[1]);
  list($("effects"), effects.map((e) => effectItem(s, app, e)).concat(empty(!s.effects.length, "Nothing was done in the world.")));
}

function effectItem(s, app, e) {
  const working = s.working.has(e.id);
  const doubt = inDoubt(e);
  const asked = doubt && s.asked(e);
  const turn = [s.doc?.run && { ...s.doc.run, run: s.doc.run.id }, ...s.doc?.turns ?? []].find((t) => t?.run === e.run)?.turn;
  const paid = app.payments?.payments?.find((p) => p.key === e.id);
  return {
    key: e.id, from: [e, turn, working, asked && (paid ?? true), isDesk()],
    draw: () => h("li", { class: `effect ${e.state}` },
      h("p", {}, h("b", {}, e.name), e.key && h("code", {}, e.key),
        h("span", { class: `badge ${doubt ? "doubt" : e.state}` }, states[e.state] ?? e.state)),
      h("p", { class: "facts" }, h("span", {}, e.class), h("span", {}, count(e.attempt, "attempt")),
        turn >= 0 && h("span", {}, `turn ${turn}`), h("span", {}, clock(e.finished ?? e.issued)), e.by && h("span", {}, `answered by ${e.by}`)),
      asked && (isDesk() ? answers(s, e, paid, working) : h("p", { class: "none" }, "A colleague at the desk looks it up."))),
  };
}

// answers are what a person can say of an effect in doubt.
function answers(s, e, paid, working) {
  const receipt = h("input", {
    id: `receipt ${e.id}`, "data-testid": "effect-receipt", "data-focus": "receipt", value: paid?.receipt ?? "", size: 12,
    autocomplete: "off", spellcheck: "false",
  });
  const button = (outcome, label) => h("button", {
    type: "button", class: "small", "data-testid": `effect-${outcome}`, "data-focus": outcome, "aria-disabled": String(working),
    onclick: () => s.resolve(e, outcome, receipt.value.trim()),
  }, label);
  return h("div", { class: "ask", role: "group", "aria-label": `What has become of ${e.name} ${e.key ?? ""}` },
    h("p", { class: "kind" }, "Nobody knows whether it happened. Look it up, and answer."),
    h("div", { class: "row" }, h("label", { for: receipt.id }, "Receipt"), receipt),
    h("div", { class: "row" }, button("landed", "It landed"), button("not-landed", "It did not land"), button("skip", "Skip it")));
}

function drawProvider(app) {
  $("provider-card").hidden = !app.payments;
  if (!app.payments) return;
  const n = app.payments.count;
  list($("payments"), [{
    key: "n", from: n, draw: () => h("span", {}, h("b", { class: "big" }, String(n)), ` ${n === 1 ? "refund" : "refunds"} paid in all`),
  }]);
  $("mode-label").hidden = !app.mode;
  if (app.mode && document.activeElement !== $("mode")) $("mode").value = app.mode;
}

function turnItem(s, t, act) {
  if (t.problem) {
    return {
      key: String(t.turn), from: t,
      draw: () => h("li", {}, h("p", {}, h("b", {}, `Turn ${t.turn}`), h("span", { class: "badge doubt" }, t.problem.title))),
    };
  }
  const working = s.working.has(`fork ${t.turn}`);
  const took = t.steps.reduce((ms, step) => ms + step.ms, 0);
  const names = (step) => step.end ? "end" : step.intents.join(" + ");
  const ran = t.steps.filter((step) => step.intents.length);
  return {
    key: String(t.turn), from: [t, working, isDesk()],
    draw: () => h("li", {},
      h("p", {}, h("b", {}, `Turn ${t.turn}`), h("span", {}, duration(took)), h("span", {}, cost(t.usage.cost)),
        h("span", { class: "quiet" }, clock(t.saved)),
        !front && isDesk() && h("button", {
          type: "button", class: "small", "data-testid": "fork", "data-focus": "fork", "aria-disabled": String(working),
          "aria-label": `Fork from turn ${t.turn}`, onclick: () => act.fork(t.turn),
        }, "Fork")),
      h("div", { class: "bar", "aria-hidden": "true" }, ran.map((step) =>
        h("i", { "--share": String(Math.max(step.ms, took / 50, 1)) }))),
      h("ol", { class: "legend" }, ran.map((step) => h("li", {}, h("span", {}, names(step)), h("span", { class: "quiet" }, duration(step.ms)))))),
  };
}

function drawPhases(s) {
  const turns = new Map();
  for (const p of s.phases ?? []) {
    const key = `${p.turn} ${p.run}`;
    if (!turns.has(key)) turns.set(key, []);
    turns.get(key).push(p);
  }
  const items = [...turns].reverse().slice(0, s.limit).map(([key, phases]) => ({
    key, from: phases,
    draw: () => h("li", {}, h("b", {}, `Turn ${phases[0].turn}`),
      h("ol", {}, phases.map((p, i) => h("li", {}, p.phase,
        i > 0 && h("span", { class: "quiet" }, ` +${duration(new Date(p.at) - new Date(phases[0].at))}`))))),
  }));
  list($("phases"), items.concat(empty(!items.length, s.phases ? "Nothing is recorded." : "The program keeps no turn log.")));
}
