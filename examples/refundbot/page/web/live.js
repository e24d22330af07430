// The turn in flight, as its events tell it.

// A Live collects the events of a run. It is plain data, so that it can be kept over a reload.
export const newLive = (run, turn) => ({
  run, turn,
  parts: [], // what was said: {intent, item, iteration, attempt, text}
  steps: [], // what ran: {intent, item, iteration, attempt, state, ms, cost, replayed, failed: an earlier attempt}
  resumed: 0, // how often the run went on elsewhere
  iteration: 0, seq: 0, at: "", // of the last event
});

const same = (a, b) => a.intent === b.intent && (a.item ?? 0) === (b.item ?? 0);

// hear returns the live turn after an event. Words of an attempt, or of an iteration, that runs again are void.
export function hear(live, ev) {
  if (ev.run && live?.run !== ev.run) live = newLive(ev.run, ev.turn ?? 0);
  if (!live || (ev.seq && ev.seq === live.seq && ev.at === live.at)) return live; // it came twice
  live.seq = ev.seq ?? 0;
  live.at = ev.at ?? "";
  live.iteration = ev.iteration ?? live.iteration;
  const place = { intent: ev.intent, item: ev.item ?? 0, iteration: ev.iteration ?? 0, attempt: ev.attempt ?? 1 };
  switch (ev.kind) {
    case "turn.resumed":
      live.resumed++;
      live.parts = live.parts.filter((p) => p.iteration < place.iteration);
      live.steps = live.steps.filter((s) => s.iteration < place.iteration);
      break;
    case "intent.started": {
      const failed = steps(live, place).findLast((s) => s.state === "failed")?.attempt;
      live.parts = live.parts.filter((p) => !(same(p, place) && p.iteration === place.iteration));
      live.steps = live.steps.filter((s) => !(same(s, place) && s.iteration === place.iteration));
      live.steps.push({ ...place, state: "running", began: ev.at, failed });
      break;
    }
    case "token":
      say(live, place, ev.delta ?? "");
      break;
    case "effect.replayed":
      for (const s of steps(live, place)) s.replayed = true;
      break;
    case "intent.ended":
      for (const s of steps(live, place)) Object.assign(s, { state: ev.failed ? "failed" : "ended", ms: ev.ms ?? 0, cost: ev.usage?.cost ?? 0 });
      break;
  }
  return live;
}

const steps = (live, place) => live.steps.filter((s) => same(s, place) && s.iteration === place.iteration);

function say(live, place, delta) {
  // An earlier attempt is void. So is a draft of the same intent that was sent back.
  live.parts = live.parts.filter((p) => !(same(p, place)
    && (p.iteration < place.iteration || p.iteration === place.iteration && p.attempt < place.attempt)));
  const part = live.parts.find((p) => same(p, place) && p.iteration === place.iteration);
  if (part) part.text += delta;
  else live.parts.push({ ...place, text: delta });
}

// said returns the words so far.
export const said = (live) => live ? live.parts.map((p) => p.text).join("") : "";
