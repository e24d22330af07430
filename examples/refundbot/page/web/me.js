// Who uses the page. Without a name the page signs in as a customer; with the word of the desk, as the desk.

import { Problem, get, post } from "./api.js";
import { $, id, text } from "./dom.js";

// me is the person who has signed in. The role is customer or desk.
export const me = { name: "", role: "" };

export const isDesk = () => me.role === "desk";

// newSession names a session of this person.
export const newSession = () => `${me.name}-${id(8)}`;

const late = () => AbortSignal.timeout(8000);

// identify reads who has signed in. If nobody has, it signs in as a customer. It returns true if the person has changed.
export async function identify() {
  let who;
  try {
    who = await get("/app/me", late());
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 401) throw err;
    who = await post("/app/sign-in", { name: "guest", role: "customer" }, {}, late());
  }
  return take(who);
}

function take(who) {
  const changed = who.name !== me.name || who.role !== me.role;
  me.name = who.name;
  me.role = who.role;
  text($("me"), `${me.name} · ${me.role}`);
  text($("sign"), isDesk() ? "Leave the desk" : "Sign in as the desk");
  return changed;
}

// control makes the buttons of the header work. changed is called when another person has signed in, tell with what is
// to be told.
export function control(changed, tell) {
  const form = $("desk");
  const show = (open) => {
    form.hidden = !open;
    $("sign").setAttribute("aria-expanded", String(open));
  };
  const attempt = async (f) => {
    try {
      if (await f()) changed();
    } catch (err) {
      tell(err instanceof Problem ? err.text : "The server does not answer.");
    }
  };
  $("sign").addEventListener("click", () => {
    if (!isDesk()) {
      show(form.hidden);
      if (!form.hidden) $("word").focus();
      return;
    }
    attempt(async () => {
      await post("/app/sign-out", {}, {}, late()); // the customer of before is still signed in
      return identify();
    });
  });
  form.addEventListener("submit", (ev) => {
    ev.preventDefault();
    attempt(async () => {
      const word = $("word").value.trim();
      const signed = take(await post("/app/sign-in", { name: `desk${id(4)}`, role: "desk", word }, {}, late()));
      $("word").value = "";
      show(false);
      $("sign").focus();
      return signed;
    });
  });
}
