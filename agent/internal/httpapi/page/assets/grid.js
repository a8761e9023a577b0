// The grid of ports: one tile each, which search and filters show or hide, and in which the arrow keys move.

import { agentNow } from "./api.js";
import { $, ago, clock, el, plural, setText, shortSide } from "./dom.js";
import { search } from "./query.js";

// Above this many ports tiles get small.
const many = 240;

export const filters = [
  { id: "all", label: "All", match: () => true },
  { id: "unhealthy", label: "Unhealthy", match: (p) => !p.healthy },
  { id: "upper", label: "Upper", match: (p) => p.side === "upper_tor" },
  { id: "lower", label: "Lower", match: (p) => p.side === "lower_tor" },
  { id: "fresh", label: "Changed ≤ 1 min", match: (p, model) => model.isFresh(p.index) },
];

export class Grid {
  // open is called with the port that a person opens. pick is called with the ports that they pick, and with how: "one" is
  // picked or let go, "to" are picked beside the others, "none" lets all go.
  constructor(open, pick) {
    this.root = $("grid");
    this.pick = pick;
    this.picking = false; // a click picks
    this.anchor = null; // the tile that was picked last
    this.found = []; // the ports that are shown, in their order
    this.tiles = new Map(); // port index → tile
    this.filter = "all";
    this.text = "";
    this.root.addEventListener("click", (e) => {
      const button = e.target.closest(".tile");
      if (!button) return;
      const port = Number(button.dataset.port);
      if (e.shiftKey) this.pick(this.between(this.anchor ?? port, port), "to");
      else if (this.picking || e.ctrlKey || e.metaKey) {
        this.anchor = port;
        this.pick([port], "one");
      } else open(port);
    });
    this.root.addEventListener("keydown", (e) => this.move(e));
    this.root.addEventListener("focusin", (e) => {
      const button = e.target.closest(".tile");
      if (button) this.setCurrent(button);
    });
  }

  clear() {
    this.root.replaceChildren();
    this.tiles.clear();
    this.current = null;
    this.anchor = null;
    this.found = [];
  }

  // show brings ports of the model onto the page: those named, or all.
  show(model, indexes = null) {
    if (indexes === null || indexes.some((i) => !this.tiles.has(i))) this.layout(model);
    for (const index of indexes || model.ports.keys()) {
      const port = model.ports.get(index);
      if (port) this.paint(this.tiles.get(index), port, model);
    }
    this.apply(model);
  }

  // layout makes and removes tiles, in order of the port index.
  layout(model) {
    this.root.classList.toggle("many", model.ports.size > many);
    for (const [index, tile] of this.tiles) {
      if (model.ports.has(index)) continue;
      tile.item.remove();
      this.tiles.delete(index);
    }
    const indexes = [...model.ports.keys()].sort((a, b) => a - b);
    const fresh = [];
    for (const index of indexes) {
      if (!this.tiles.has(index)) fresh.push(index);
    }
    for (const index of fresh) this.tiles.set(index, makeTile(index));
    if (fresh.length > 0) this.root.append(...indexes.map((i) => this.tiles.get(i).item));
    if (!this.current?.isConnected) {
      const first = this.root.querySelector(".tile");
      if (first) this.setCurrent(first);
    }
  }

  paint(tile, port, model) {
    const fault = !port.healthy && port.reason !== "";
    const classes = ["tile", port.side === "upper_tor" ? "up" : "low"];
    if (fault) classes.push("bad");
    else if (port.dropped.length > 0) classes.push("drop");
    if (tile.last && tile.last !== port.side) classes.push("arrive");
    tile.last = port.side;
    tile.classes = classes.join(" ");
    setText(tile.side, shortSide(port.side));
    setText(tile.flaps, port.flaps ? `${port.flaps}×` : "");
    setText(tile.health, port.healthy ? "healthy" : "");
    setText(tile.note, port.reason ? port.reason : port.dropped.length > 0 ? `drops ${port.dropped.map(shortEnd).join(", ")}` : "");
    const at = model.changedAt(port.index);
    const health = port.healthy
      ? `healthy${port.reason ? `, ${port.reason}` : ""}`
      : port.reason || `drops ${port.dropped.map(shortEnd).join(" and ")}`;
    const label = `Port ${port.index}, ${shortSide(port.side)} ToR active, ${health}, ${plural(port.flaps, "flap")}${at ? `, changed at ${clock(at)}` : ""}`;
    if (tile.label !== label) {
      tile.label = label;
      tile.button.title = label;
    }
    this.age(tile, port, model);
  }

  age(tile, port, model) {
    const at = model.changedAt(port.index);
    const text = at ? ago(agentNow() - at) : "";
    const classes = at && model.isFresh(port.index) ? `${tile.classes} fresh` : tile.classes;
    if (tile.button.className !== classes) tile.button.className = classes;
    setText(tile.age, text);
  }

  // tick brings ages up to date.
  tick(model) {
    for (const [index, tile] of this.tiles) {
      const port = model.ports.get(index);
      if (port && model.changedAt(index)) this.age(tile, port, model);
    }
    if (this.filter === "fresh") this.apply(model);
  }

  // apply hides what the search and the filter leave out, and puts the rest in the order in which the search found it.
  apply(model) {
    const { match } = filters.find((f) => f.id === this.filter);
    this.found = search(this.text, model.ports.values())
      .filter((port) => this.tiles.has(port.index) && match(port, model))
      .map((port) => port.index);
    const found = new Set(this.found);
    for (const [index, tile] of this.tiles) {
      if (tile.item.hidden === found.has(index)) tile.item.hidden = !found.has(index);
    }
    let at = this.root.firstElementChild; // moved only where the order differs, since a move takes the focus away
    for (const index of this.found) {
      const { item } = this.tiles.get(index);
      while (at?.hidden) at = at.nextElementSibling;
      if (at === item) at = at.nextElementSibling;
      else this.root.insertBefore(item, at);
    }
    if (this.current?.closest("li")?.hidden) {
      const first = this.root.querySelector("li:not([hidden]) > .tile");
      if (first) this.setCurrent(first);
    }
  }

  // between lists the ports that are shown from one to another.
  between(from, to) {
    const ends = [this.found.indexOf(from), this.found.indexOf(to)].filter((i) => i >= 0);
    return this.found.slice(Math.min(...ends), Math.max(...ends) + 1);
  }

  // mark shows which ports are picked.
  mark(picked) {
    for (const [index, { button }] of this.tiles) {
      if (picked.has(index)) button.setAttribute("aria-pressed", "true");
      else button.removeAttribute("aria-pressed");
    }
  }

  // setCurrent makes a tile the one that Tab reaches.
  setCurrent(button) {
    if (this.current) this.current.tabIndex = -1;
    button.tabIndex = 0;
    this.current = button;
  }

  // focus goes to the tile of a port, else to the current one.
  focus(index) {
    (this.tiles.get(index)?.button || this.current)?.focus();
  }

  move(e) {
    const button = e.target.closest(".tile");
    if (!button || e.altKey) return;
    const here = Number(button.dataset.port);
    if (e.ctrlKey || e.metaKey) {
      if (e.key !== "a") return;
      e.preventDefault();
      this.pick(this.found, "to");
      return;
    }
    if (e.key === "x" || e.key === "Escape") {
      this.anchor = here;
      this.pick([here], e.key === "x" ? "one" : "none");
      return;
    }
    const shown = [...this.root.querySelectorAll("li:not([hidden]) > .tile")];
    const at = shown.indexOf(button);
    const top = shown[0]?.getBoundingClientRect().top;
    const second = shown.findIndex((t) => t.getBoundingClientRect().top > top + 1);
    const columns = second < 0 ? shown.length : second;
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - columns,
      ArrowDown: at + columns,
      Home: 0,
      End: shown.length - 1,
    }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    if (!shown[to]) return;
    shown[to].focus();
    if (e.shiftKey) this.pick(this.between(here, Number(shown[to].dataset.port)), "to");
  }
}

// makeTile makes a tile. What a screen reader reads of it is what it shows, and some words more.
function makeTile(index) {
  const hidden = (text) => el("span", { class: "hidden" }, text);
  const side = el("span", { class: "side" });
  const health = hidden("");
  const flaps = el("span", { class: "flaps" });
  const age = el("span", { class: "age" });
  const note = el("span", { class: "note" });
  const button = el(
    "button",
    { class: "tile", "data-port": index, tabindex: -1 },
    el("span", { class: "y", "aria-hidden": "true" }, el("i"), el("i")),
    hidden("Port "),
    el("span", { class: "n" }, String(index)),
    hidden(" "),
    side,
    hidden(" ToR active "),
    health,
    hidden(" "),
    note,
    hidden(" "),
    flaps,
    hidden(" "),
    age,
  );
  return { item: el("li", {}, button), button, side, health, flaps, age, note, label: "", classes: "", last: null };
}

export const shortEnd = (end) => ({ nic: "NIC", upper_tor: "upper", lower_tor: "lower" })[end];
