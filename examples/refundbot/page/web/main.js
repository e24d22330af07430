// Joins the parts: which session is shown, what is read how often, and the buttons of the page.

import { Problem, front, get, post } from "./api.js";
import { chat, drawChat } from "./chat.js";
import { $, text } from "./dom.js";
import { control, identify, isDesk, newSession } from "./me.js";
import { drawRecord } from "./record.js";
import { Session } from "./session.js";

let session = null;
const app = { config: null, payments: null, mode: null }; // null: the program has no such route

// draw draws once for all changes of some milliseconds.
let drawing = 0;
function draw() {
  drawing ||= setTimeout(() => {
    drawing = 0;
    drawChat(session, act);
    drawRecord(session, app, act);
    $("flag").hidden = !session.asks || !isDesk();
  }, 16);
}

function say(what) {
  const p = document.createElement("p");
  p.textContent = what;
  $("said").replaceChildren(p);
}

// show shows the session that the address names. Without one it begins a session.
function show() {
  const name = decodeURIComponent(location.hash.slice(1)) || newSession();
  if (session?.id === name) return;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  session?.close();
  session = new Session(name, draw, say);
  session.open();
  draw();
}

// go shows another session. The address keeps the way back.
function go(name) {
  location.hash = name;
  show();
  $("input").focus();
}

const act = {
  async worker(name, what) {
    await command(`/app/workers/${encodeURIComponent(name)}`, { do: what });
    readApp();
  },
  // answer leads to the first effect that is in doubt.
  answer() {
    view("record");
    $("effects").querySelector(".ask input")?.focus();
  },
  async fork(turn) {
    const to = await session.fork(turn);
    if (!to) return;
    go(to);
    say(`This is session ${to}. It has the turns up to turn ${turn}.`);
  },
};

// command posts what the demonstration shall do.
async function command(path, doc) {
  try {
    await post(path, doc, {}, AbortSignal.timeout(5000));
  } catch (err) {
    session.tell(err instanceof Problem ? err.text : "The server does not answer.", true);
  }
}

// readApp reads what the program says of itself.
async function readApp() {
  const at = async (path) => {
    try {
      return await get(path, AbortSignal.timeout(4000));
    } catch (err) {
      return err instanceof Problem && err.status === 404 ? null : undefined; // undefined: as before
    }
  };
  const [config, payments, provider] = await Promise.all([
    at("/app/config"), at("/app/payments"), app.config?.demo ? at("/app/provider") : null,
  ]);
  if (config !== undefined) app.config = config;
  if (payments !== undefined) app.payments = payments;
  if (provider !== undefined) app.mode = provider?.mode ?? null;
  const stores = { sqlite: "SQLite", postgres: "PostgreSQL", "postgres+redis": "PostgreSQL and Redis" };
  text($("setting"), app.config ? `${stores[app.config.stores] ?? app.config.stores} · ${app.config.model} model` : "");
  draw();
}

// watch reads again and again: often while something is in flight, and not while nobody looks.
async function watch() {
  for (;;) {
    const quick = session.inFlight || app.config?.workers?.some((w) => w.state !== "running");
    await new Promise((done) => { setTimeout(done, quick ? 500 : 2000); });
    if (document.hidden) continue;
    await Promise.all([session.refresh(), readApp()]);
  }
}

// theme shows the theme, and what the button changes it to.
function theme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const paint = () => $("theme").setAttribute("aria-pressed", String(dark()));
  $("theme").addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("holdfast:theme", next); } catch { /* then it holds until the page is left */ }
    paint();
  });
  system.addEventListener("change", paint);
  paint();
}

// view shows one side on a narrow screen.
function view(name) {
  document.body.dataset.shown = name;
  for (const b of document.querySelectorAll("[data-view]")) b.setAttribute("aria-pressed", String(b.dataset.view === name));
}

theme();
view("chat");
for (const b of document.querySelectorAll("[data-view]")) b.addEventListener("click", () => view(b.dataset.view));
chat(() => session);
$("new").addEventListener("click", () => go(newSession()));
$("skip").addEventListener("click", (ev) => {
  ev.preventDefault(); // the address names the session
  $("input").focus();
});
$("bot").value = front ? "concierge" : "refunds";
$("bot").addEventListener("change", (ev) => {
  location.assign(ev.target.value === "concierge" ? "/?bot=concierge" : "/");
});
$("mode").addEventListener("change", async (ev) => {
  app.mode = ev.target.value;
  await command("/app/provider", { mode: app.mode });
});
// begin signs in, however long the server needs to answer, and shows the session.
async function begin() {
  for (;;) {
    try {
      await identify();
      break;
    } catch (err) {
      if (!(err instanceof Problem)) console.error(err);
      text($("notice"), "The server does not answer. Trying again.");
      await new Promise((done) => { setTimeout(done, 1000); });
    }
  }
  control(changed, (what) => session.tell(what, true));
  addEventListener("hashchange", show);
  document.addEventListener("visibilitychange", look);
  show();
  readApp().then(readApp); // the second reads what depends on the first
  watch();
}

// changed shows what another person may see.
function changed() {
  session.close();
  session = null;
  show();
  readApp();
}

// look looks again when the user does. In another tab another person may have signed in.
async function look() {
  if (document.hidden) return;
  try {
    if (await identify()) return changed();
  } catch { /* the session tells that the server does not answer */ }
  session.refresh();
}

begin();
