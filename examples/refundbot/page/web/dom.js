// Small helpers: elements, lists that keep what has not changed, and how figures are written.

// $ returns the element with an id.
export const $ = (id) => document.getElementById(id);

// h makes an element. Properties that begin with "on" are listeners, and those that begin with "--" are for the style.
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) el.style.setProperty(name, value);
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

// text sets the text of an element if it differs, so that nothing is read out or selected anew.
export function text(el, s) {
  if (el.textContent !== s) el.textContent = s;
}

const drawn = new WeakMap(); // what an element of a list was drawn from

// list draws items into parent. An item has a key, from, which says what it is drawn from, and draw, which returns an
// element. An element stays if from has not changed. The focus stays where it was.
export function list(parent, items) {
  const old = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  let at = parent.firstElementChild;
  for (const { key, from, draw } of items) {
    const sum = JSON.stringify(from);
    let el = old.get(key);
    old.delete(key);
    if (!el || drawn.get(el) !== sum) {
      const next = draw();
      next.dataset.key = key;
      drawn.set(next, sum);
      if (el) {
        if (at === el) at = next;
        replace(el, next);
      }
      el = next;
    }
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
  for (const el of old.values()) el.remove();
}

function replace(el, next) {
  const name = el.contains(document.activeElement) && document.activeElement.dataset.focus;
  const typed = [...el.querySelectorAll("input")].map((i) => i.value);
  el.replaceWith(next);
  next.querySelectorAll("input").forEach((input, i) => { input.value = typed[i] ?? input.value; });
  if (name) next.querySelector(`[data-focus="${CSS.escape(name)}"]`)?.focus();
}

// duration writes milliseconds.
export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

// cost writes a cost in dollars.
export const cost = (dollars) => dollars ? `$${dollars.toFixed(dollars < 0.1 ? 5 : 2)}` : "$0";

// clock writes a time of day.
export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

// money writes cents.
export const money = (cents) => (cents / 100).toFixed(2);

// count writes a number and what it counts.
export const count = (n, one, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;

// id returns a random name.
export function id(length) {
  const letters = "abcdefghijkmnpqrstuvwxyz23456789"; // 32, and none that looks like another
  return [...crypto.getRandomValues(new Uint8Array(length))].map((b) => letters[b % 32]).join("");
}
