// Small helpers for building the page. Text only ever becomes text: nothing here takes HTML.

const svgNS = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

// el makes an element: el("button", {class: "x", onclick: f}, "text", child, …). null and false children are left out.
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// svg is el for drawings.
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNS, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// changes holds controls that change something. They are off while what is shown may not be so: setState is told when.
export function changes(...children) {
  return el("fieldset", { class: "changes", disabled: document.body.dataset.state !== "live" }, ...children);
}

export function setState(state) {
  document.body.dataset.state = state;
  for (const set of document.querySelectorAll("fieldset.changes")) set.disabled = state !== "live";
}

// once makes a click of f, and nothing of the second click of a double click.
export const once = (f) => (e) => {
  if (e.detail <= 1) f(e);
};

// setText writes a text only where it differs, since a thousand ports do it every second.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// say has a screen reader read a text when it is idle.
export function say(text) {
  $("say").textContent = text;
}

// ago writes milliseconds in the largest unit that fits: 5s, 3m, 2h, 4d.
export function ago(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// clock writes a time of day, with the day where that is not today.
export function clock(time) {
  const t = new Date(time);
  return (t.toDateString() === new Date().toDateString() ? today : otherDay).format(t);
}

const second = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const today = new Intl.DateTimeFormat([], second);
const otherDay = new Intl.DateTimeFormat([], { ...second, month: "short", day: "numeric" });

// span writes how long something took, from microseconds.
export function span(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  return us < 10_000 ? `${(us / 1000).toFixed(1)} ms` : `${Math.round(us / 1000)} ms`;
}

export const shortSide = (side) => (side === "upper_tor" ? "upper" : "lower");
export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// ranges writes port indexes as the search takes them: 0-11,20.
export function ranges(indexes) {
  const parts = [];
  for (const i of [...indexes].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last?.to === i - 1) last.to = i;
    else parts.push({ from: i, to: i });
  }
  return parts.map(({ from, to }) => (from === to ? from : `${from}-${to}`)).join(",");
}
