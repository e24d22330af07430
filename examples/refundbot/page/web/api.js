// Talks to the server: JSON, problem documents, and server-sent events read with fetch.

// A Problem is an answer that is no success: a problem document, or no answer at all (status 0).
export class Problem extends Error {
  constructor(status, doc, after) {
    super(doc.title ? doc.title.replace(/\.?$/, ".") : `The server answers with status ${status}.`);
    this.status = status;
    this.doc = doc;
    this.after = after; // seconds until the server wants to be asked again; undefined: it does not say
  }

  // is reports whether the problem is of a type.
  is(type) { return this.doc.type === `/problems/${type}`; }

  // text is what a user is told.
  get text() {
    if (this.is("unauthorized")) return "You are not signed in any more. Load the page again.";
    return this.doc.detail ? `${this.message} ${this.doc.detail}` : this.message;
  }

  // again reports whether the same request may bring the answer. A proxy between has no problem document.
  get again() {
    return this.status === 0 || this.doc.retryable === true || !this.doc.type && this.status >= 502;
  }
}

async function problem(res) {
  let doc = {};
  try { doc = await res.json(); } catch { /* a proxy may say something else */ }
  const after = Number.parseFloat(res.headers.get("Retry-After"));
  return new Problem(res.status, doc, Number.isNaN(after) ? undefined : after);
}

async function ask(path, options) {
  try {
    return await fetch(path, { cache: "no-store", ...options });
  } catch (err) {
    if (options?.signal?.aborted) throw err;
    throw new Problem(0, { title: "The connection broke." });
  }
}

async function body(res) {
  if (!res.ok || res.status === 202) throw await problem(res);
  if (res.status === 204) return null;
  try {
    return await res.json();
  } catch {
    throw new Problem(0, { title: "The connection broke." });
  }
}

// front is where the routes of the bot begin that the page talks to: of the refund bot, or of the concierge before it.
export const front = new URLSearchParams(location.search).get("bot") === "concierge" ? "/concierge" : "";

export const session = (id) => `${front}/sessions/${encodeURIComponent(id)}`;

// get returns a JSON document.
export const get = async (path, signal) => body(await ask(path, { signal }));

// post sends a JSON document and returns the answer.
export async function post(path, doc, headers, signal) {
  return body(await ask(path, {
    method: "POST", body: JSON.stringify(doc ?? {}), signal,
    headers: { "Content-Type": "application/json", Accept: "application/json", ...headers },
  }));
}

// postEvents sends a JSON document, hands each event of the answer to hear, and returns the reply.
export async function postEvents(path, doc, headers, hear, signal) {
  const res = await ask(path, {
    method: "POST", body: JSON.stringify(doc), signal,
    headers: { "Content-Type": "application/json", Accept: "text/event-stream", ...headers },
  });
  if (!res.ok || res.status === 202) throw await problem(res);
  if (!res.headers.get("Content-Type")?.startsWith("text/event-stream")) return body(res);
  const reply = await read(res, hear, signal);
  if (reply) return reply;
  throw new Problem(0, { title: "The connection broke." });
}

// getEvents hands the events after a number to hear. It returns true if the server has no more of them.
export async function getEvents(path, after, hear, signal) {
  const headers = { Accept: "text/event-stream" };
  if (after) headers["Last-Event-ID"] = after;
  const res = await ask(path, { headers, signal });
  if (res.status === 204) return true;
  if (!res.ok) throw await problem(res);
  await read(res, hear, signal);
  return false;
}

// read reads server-sent events to their end. It returns the document of the event reply, and throws that of the event
// problem.
async function read(res, hear, signal) {
  let ev = { id: "", name: "", data: [] };
  let reply = null;
  const line = (s) => {
    if (s === "") {
      if (ev.data.length) reply = dispatch(ev, hear) ?? reply;
      ev = { id: "", name: "", data: [] };
      return;
    }
    const colon = s.indexOf(":");
    const field = colon < 0 ? s : s.slice(0, colon);
    const value = colon < 0 ? "" : s.slice(colon + 1).replace(/^ /, "");
    if (field === "id") ev.id = value;
    if (field === "event") ev.name = value;
    if (field === "data") ev.data.push(value);
  };
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return reply;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      lines.forEach(line);
    }
  } catch (err) {
    if (signal?.aborted || err instanceof Problem) throw err;
    if (reply) return reply;
    throw new Problem(0, { title: "The connection broke." });
  }
}

function dispatch(ev, hear) {
  const doc = JSON.parse(ev.data.join("\n"));
  if (ev.name === "reply") return doc;
  if (ev.name === "problem") throw new Problem(doc.status ?? 500, doc, doc.retryable ? 1 : undefined);
  hear(doc, ev.id);
  return null;
}
