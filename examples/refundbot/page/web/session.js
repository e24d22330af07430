// A session: what is stored of it, the message that has no answer yet, and the turn in flight.

import { Problem, front, get, getEvents, post, postEvents, session as path } from "./api.js";
import { id } from "./dom.js";
import { hear } from "./live.js";
import { newSession } from "./me.js";

const silence = 4000; // ms: a stream that says nothing for so long may be that of a process that has stopped
const patience = 4000; // ms: so does a read
const longest = 12_000; // ms: and so does a write, which is then repeated with the same key

export class Session {
  // changed is called after each change, and say with what is to be read out.
  constructor(name, changed, say) {
    this.id = name;
    this.changed = changed;
    this.say = say;
    this.end = new AbortController();
    this.limit = 20;
    this.doc = null;
    this.questions = [];
    this.effects = [];
    this.phases = null; // null: the program keeps no turn log
    this.notice = null; // {text, bad}
    this.away = false; // the server does not answer
    this.working = new Set(); // questions, effects and turns for which an answer is under way
    this.draft = ""; // a message that was not taken
    this.pending = restore(this.store);
    this.live = this.pending?.live ?? null;
    this.after = this.pending?.after ?? 0;
    this.beats = { n: -1, since: 0 };
    this.settled = 0; // how many messages have been answered
    this.streams = 0; // how many answers are heard as streams
  }

  get store() { return `holdfast:${front}${this.id}`; }
  get path() { return path(this.id); }
  get closed() { return this.end.signal.aborted; }

  // open goes on where the page was left.
  open() {
    if (this.pending) this.deliver(false);
    return this.refresh();
  }

  close() { this.end.abort(); }

  // inFlight reports whether something is to be watched closely.
  get inFlight() { return !!(this.pending || this.doc?.run || this.working.size); }

  // current returns the live turn, unless it is stored or over by now.
  get current() {
    const turns = this.doc?.turns ?? [];
    if (!this.live || turns.some((t) => t.run === this.live.run)) return null;
    return this.pending || this.doc?.run?.id === this.live.run ? this.live : null;
  }

  // send sends a message. Its key stays the same until it is answered, also over a reload.
  send(message) {
    this.pending = { key: id(24), message, sent: Date.now(), waits: false };
    this.live = null;
    this.notice = null;
    this.keep();
    this.changed();
    return this.deliver(true);
  }

  keep() {
    try {
      if (!this.pending) sessionStorage.removeItem(this.store);
      else sessionStorage.setItem(this.store, JSON.stringify({ ...this.pending, live: this.live, after: this.after }));
    } catch { /* storage is full or forbidden: a reload then asks the store alone */ }
  }

  // deliver asks until the message is answered, with the same key.
  async deliver(first) {
    const mine = this.pending;
    if (!mine || this.delivery === mine) return;
    this.delivery = mine;
    this.attempt = new AbortController(); // ends when the answer has come in another way
    mine.waits = false;
    const waits = () => this.pending === mine && !this.closed;
    for (let tries = 0; waits(); tries++) {
      try {
        const turn = tries === 0 && first ? await this.stream(mine) : await this.repeat(mine);
        if (waits()) this.settle(turn);
      } catch (err) {
        if (!waits()) break;
        if (!(err instanceof Problem)) throw err;
        if (!await this.goOn(err, tries)) break;
      }
    }
    if (this.delivery === mine) this.delivery = null;
    this.changed();
  }

  // stream sends the message, and hears the events of its turn.
  async stream({ key, message }) {
    this.streams++;
    try {
      return await this.watched((hear, signal) =>
        postEvents(`${this.path}/turns`, { message }, { "Idempotency-Key": key }, hear, signal), this.attempt.signal);
    } finally {
      this.streams--;
    }
  }

  // repeat sends the message again. The events come from the store of the stream, from where they were left.
  async repeat({ key, message }) {
    this.follow();
    return this.within(longest, (signal) =>
      post(`${this.path}/turns`, { message }, { "Idempotency-Key": key }, signal), this.attempt.signal);
  }

  // goOn tells what has become of the message. It returns true if it is to be sent again.
  async goOn(problem, tries) {
    if (problem.status === 202 || problem.is("suspended") || problem.is("parked")) {
      this.pending.waits = true;
      this.tell(problem.message);
      this.keep();
      this.refresh();
      return false;
    }
    if (!problem.again) {
      this.draft = this.pending.message;
      this.pending = null;
      this.live = null;
      this.keep();
      this.tell(problem.text, true);
      this.refresh();
      return false;
    }
    const s = problem.after ?? Math.min(0.3 * 2 ** tries, 2);
    // The first break is mended before anybody could read of it.
    if (tries > 0 || problem.status) this.tell(`${problem.message} Asking again with the same key in ${Math.ceil(s)} s.`);
    this.refresh();
    await this.pause(s * 1000);
    return true;
  }

  // settle takes the stored turn that answers the message.
  settle(turn) {
    this.pending = null;
    this.notice = null;
    this.settled++;
    this.keep();
    this.attempt?.abort();
    this.doc ??= { turn: -1, turns: [], owed: 0 }; // the reply came before the first read
    if (turn.turn > this.doc.turn) { // it is shown before it is read
      this.doc.turns.unshift(turn);
      this.doc.turn = turn.turn;
      delete this.doc.run;
    }
    this.announce(turn);
    this.refresh();
  }

  announce(turn) {
    this.announced = turn.turn;
    if (turn.reply?.text) this.say(`Reply: ${turn.reply.text}`);
  }

  tell(text, bad = false) {
    this.notice = { text, bad };
    this.changed();
  }

  // follow hears the events of the turn in flight, whichever process runs it.
  async follow() {
    if (this.following || this.streams) return;
    this.following = true;
    const expects = () => this.pending && !this.pending.waits || this.doc?.run?.status === "running" || this.working.size;
    while (!this.closed && !this.streams && expects()) {
      try {
        const over = await this.watched((hear, signal) => getEvents(`${this.path}/events`, this.after, hear, signal));
        if (over) await this.pause(400);
      } catch (err) {
        if (this.closed) break;
        if (!(err instanceof Problem)) throw err;
        if (err.status === 404) break; // the program keeps no stream
        if (err.status === 410) { // it is no longer kept: begin at the newest turn
          this.after = 0;
          this.live = null;
        }
        await this.pause((err.after ?? 0.3) * 1000);
      }
    }
    this.following = false;
  }

  // watched runs f until its stream has said nothing for too long, or other ends.
  async watched(f, other = this.end.signal) {
    const stop = new AbortController();
    let timer = 0;
    const rest = () => {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), silence);
    };
    rest();
    try {
      return await f((ev, number) => { rest(); this.hear(ev, number); }, AbortSignal.any([stop.signal, other, this.end.signal]));
    } catch (err) {
      if (stop.signal.aborted && !(err instanceof Problem)) throw new Problem(0, { title: "Nothing is heard." });
      throw err;
    } finally {
      clearTimeout(timer);
    }
  }

  hear(ev, number) {
    if (number) this.after = number;
    this.live = hear(this.live, ev);
    if (this.pending) this.keep();
    if (ev.kind !== "token") this.refresh();
    this.changed();
  }

  async within(ms, f, other = this.end.signal) {
    const late = AbortSignal.timeout(ms);
    try {
      return await f(AbortSignal.any([late, other, this.end.signal]));
    } catch (err) {
      if (late.aborted && !(err instanceof Problem)) throw new Problem(0, { title: "The server does not answer." });
      throw err;
    }
  }

  pause(ms) {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.end.signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
    });
  }

  // refresh reads what is stored. While it reads, a further call makes it read once more.
  async refresh() {
    if (this.reading) { this.stale = true; return; }
    this.reading = true;
    do {
      this.stale = false;
      await this.read();
    } while (this.stale && !this.closed);
    this.reading = false;
  }

  async read() {
    const settled = this.settled;
    const at = (where) => this.within(patience, (signal) => get(where, signal));
    const [doc, questions, effects, phases] = await Promise.allSettled([
      at(`${this.path}?limit=${this.limit}`), // the concierge has nothing but its turns
      ...front ? [Promise.reject(), Promise.reject(), Promise.reject()] : [
        at(`${this.path}/questions`), at(`${this.path}/effects`), at(`/app${this.path}/phases`)],
    ]);
    if (this.closed) return;
    this.away = doc.status === "rejected" && (doc.reason.status === 0 || doc.reason.status >= 500);
    if (this.settled !== settled) return; // what was read may lack the turn that is shown by now; refresh reads again
    if (doc.status === "fulfilled") this.take(doc.value);
    else if (!this.away) this.refused(doc.reason);
    if (questions.status === "fulfilled") this.questions = questions.value.questions ?? [];
    if (effects.status === "fulfilled") this.effects = effects.value.effects ?? [];
    if (phases.status === "fulfilled") this.phases = phases.value.phases ?? [];
    this.changed();
  }

  // refused tells why the session cannot be shown.
  refused(problem) {
    if (problem.is("denied")) {
      this.tell("This session is not yours. Begin a new one, or sign in as the desk.", true);
    } else if (!this.notice) {
      this.tell(problem.text, true); // the name cannot be any, or nobody is signed in any more
    }
  }

  // take takes the session as it is stored.
  take(doc) {
    const before = this.doc;
    this.doc = doc;
    const n = doc.owner ? doc.owner.beats : -1;
    if (n !== this.beats.n) this.beats = { n, since: Date.now() };
    const mine = this.pending && doc.turns.find((t) => t.request === this.pending.key);
    if (mine) {
      this.settle(mine);
      return;
    }
    // A turn that another tab, a person's answer or another process has settled.
    const news = before && doc.turn > before.turn && doc.turn !== this.announced && doc.turns[0];
    if (news) this.announce(news);
    if (this.pending?.waits && !this.waiting) this.deliver(false);
    if (doc.run?.status === "running") this.follow();
  }

  // waiting reports whether the run in flight waits for a person.
  get waiting() {
    return !!this.doc?.run && this.doc.run.status !== "running" || this.asks;
  }

  // asked reports whether a person is to say what has become of an effect. While a process is at work on it, none is.
  asked(effect) {
    return inDoubt(effect) && !(this.doc?.run?.status === "running" && this.doc.owner);
  }

  // asks reports whether a person is to say what has become of any effect.
  get asks() { return this.effects.some((e) => this.asked(e)); }

  // persist calls f until it has an answer. What it does is done once, however often it is asked.
  async persist(what, f) {
    if (this.working.has(what)) return undefined;
    this.working.add(what);
    this.notice = null;
    this.changed();
    this.follow();
    try {
      for (let tries = 0; ; tries++) {
        try {
          return await this.within(longest, f);
        } catch (err) {
          if (this.closed) return undefined;
          if (!(err instanceof Problem)) throw err;
          if (!err.again) {
            this.tell(err.text, err.status !== 202);
            return undefined;
          }
          const s = err.after ?? Math.min(0.3 * 2 ** tries, 2);
          this.tell(`${err.message} Asking again in ${Math.ceil(s)} s.`);
          await this.pause(s * 1000);
        }
      }
    } finally {
      this.working.delete(what);
      await this.refresh();
    }
  }

  // answer answers a question, as it was shown.
  async answer(question, data) {
    const where = `${this.path}/questions/${encodeURIComponent(question.id)}`;
    const turn = await this.persist(question.id, (signal) =>
      post(where, { answer: data, sum: question.sum }, {}, signal));
    if (turn) this.notice = null;
    this.changed();
  }

  // resolve says what has become of an effect in doubt. Then the turn goes on.
  async resolve(effect, outcome, value) {
    const where = `${this.path}/effects/${encodeURIComponent(effect.id)}`;
    const doc = outcome === "landed" ? { outcome, value } : { outcome };
    const taken = await this.persist(effect.id, (signal) => post(where, doc, {}, signal));
    if (!taken) return;
    this.notice = null;
    if (this.pending) this.deliver(false);
    else await this.persist("resume", (signal) => post(`${this.path}/resume`, {}, {}, signal));
  }

  // fork starts a session with the turns up to this one. It returns the name of the session.
  async fork(turn) {
    const to = newSession();
    const made = await this.persist(`fork ${turn}`, async (signal) => {
      try {
        await post(`/app${this.path}/fork`, { turn, to }, {}, signal);
      } catch (err) {
        if (!(err instanceof Problem) || !err.is("conflict")) throw err; // an earlier try made it
      }
      return true;
    });
    return made ? to : null;
  }
}

export const inDoubt = (effect) => effect.state === "unknown";

function restore(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}
