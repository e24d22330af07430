// The page of the desk. It asks its own server, and nothing else.
const $ = (id) => document.getElementById(id);

async function ask(path, body) {
  const res = await fetch(path, body === undefined ? { cache: "no-store" } : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  if (!res.ok) throw new Error((await res.json().catch(() => ({}))).title ?? `The server answers with status ${res.status}.`);
  return res.status === 204 ? null : res.json();
}

// act does what a button says, and tells what is wrong.
async function act(path, body) {
  try {
    await ask(path, body);
    tell("");
  } catch (err) {
    tell(err.message);
  }
  look();
}

function tell(text) {
  if ($("notice").textContent !== text) $("notice").textContent = text;
}

function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "onclick") el.addEventListener("click", value);
    else el.setAttribute(key, value);
  }
  el.append(...children);
  return el;
}

// list draws items anew if they differ from those that were drawn last, and keeps the focus.
const drawn = {};
function list(id, items, draw) {
  const sum = JSON.stringify(items);
  if (drawn[id] === sum) return;
  drawn[id] = sum;
  const at = document.activeElement?.dataset.focus;
  $(id).replaceChildren(...items.map(draw));
  if (at) $(id).querySelector(`[data-focus="${CSS.escape(at)}"]`)?.focus();
}

const money = (cents) => (cents / 100).toFixed(2);
const page = (path, session) => `${path}#${encodeURIComponent(session)}`;

const waiting = (c) => h("li", {},
  h("a", { href: page("/desk/case/", c.case), "data-testid": "case", "data-focus": c.case, "data-session": c.session },
    `Refund ${money(c.cents)} for order ${c.order}?`),
  ` for ${c.session}, until ${new Date(c.until).toLocaleString("en-GB")}`);

const named = (what) => what === "kill" ? "kill -9" : what;

const worker = (w) => h("li", { class: `worker ${w.state}`, "data-key": w.name },
  h("p", {}, `${w.name}: ${w.state}, pid ${w.pid}, bot v${w.bot}${w.turns ? ", has the requests" : ""}`),
  h("div", { class: "row" }, ...(demo ? ["kill", "stop", "continue", "drain", "deploy"] : []).map((what) => h("button", {
    type: "button", "data-testid": `worker-${what}`, "data-worker": w.name, "data-focus": `${what} ${w.name}`,
    "aria-label": `${named(what)} ${w.name}`, onclick: () => act(`/app/workers/${w.name}`, { do: what }),
  }, named(what)))));

const phase = (p) => h("li", {}, `${new Date(p.at).toLocaleTimeString("en-GB")} turn ${p.turn}: ${p.phase}`);

let demo = false;
async function look() {
  const [config, me, payments, cases, mode] = await Promise.allSettled(
    ["/app/config", "/app/me", "/app/payments", "/app/waiting", "/app/provider"].map((path) => ask(path)));
  if (config.status === "fulfilled") {
    demo = config.value.demo;
    $("setting").textContent = `Stores: ${config.value.stores}. Model: ${config.value.model}.`;
    list("workers", config.value.workers, worker);
  }
  const desk = me.value?.role === "desk";
  $("me").textContent = me.value ? `${me.value.name} · ${me.value.role}` : "nobody";
  $("sign").hidden = desk;
  $("out").hidden = !desk;
  if (payments.value) $("payments").textContent = `It has paid ${payments.value.count} refunds.`;
  list("waiting", desk ? cases.value?.waiting ?? [] : [], waiting);
  $("mode-label").hidden = !mode.value;
  if (mode.value && document.activeElement !== $("mode")) $("mode").value = mode.value.mode;
}

$("sign").addEventListener("submit", async (ev) => {
  ev.preventDefault();
  await act("/app/sign-in", { name: "desk", role: "desk", word: $("word").value });
  $("word").value = "";
});
$("out").addEventListener("click", () => act("/app/sign-out", {}));
$("mode").addEventListener("change", () => act("/app/provider", { mode: $("mode").value }));
$("look").addEventListener("submit", async (ev) => {
  ev.preventDefault();
  const session = $("name").value;
  try {
    list("phases", (await ask(`/app/sessions/${encodeURIComponent(session)}/phases`)).phases, phase);
    $("talk").href = page("/desk/session/", session);
    $("talk").hidden = false;
    tell("");
  } catch (err) {
    tell(err.message);
  }
});

for (;;) {
  if (!document.hidden) await look().catch(() => {});
  await new Promise((done) => { setTimeout(done, 700); });
}
