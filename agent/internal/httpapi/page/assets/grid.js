// The grid of ports: one tile each, which search and filters show or hide, and in which the arrow keys move.

import { $, el, setText, ago, clock, plural, shortSide } from "./dom.js";
import { agentNow } from "./api.js";

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
  constructor(open) {
    this.root = $("grid");
    this.tiles = new Map(); // port index → tile
    this.filter = "all";
    this.text = "";
    this.root.addEventListener("click", (e) => {
      const button = e.target.closest(".tile");
      if (button) open(Number(button.dataset.port), button);
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
    setText(tile.note, port.reason ? port.reason : port.dropped.length > 0 ? `drops ${port.dropped.map(shortEnd).join(", ")}` : "");
    tile.haystack = [port.index, port.bridge, port.ports.nic, port.ports.upper_tor, port.ports.lower_tor, port.reason, port.dropped.join(" ")].join(" ").toLowerCase();
    const at = model.changedAt(port.index);
    const health = port.healthy ? `healthy${port.reason ? `, ${port.reason}` : ""}` : port.reason || `drops ${port.dropped.map(shortEnd).join(" and ")}`;
    const label = `Port ${port.index}, ${shortSide(port.side)} ToR active, ${health}, ${plural(port.flaps, "flap")}${at ? `, changed at ${clock(at)}` : ""}`;
    if (tile.label !== label) {
      tile.label = label;
      tile.button.setAttribute("aria-label", label);
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

  // apply hides what the search and the filter leave out.
  apply(model) {
    const { match } = filters.find((f) => f.id === this.filter);
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [index, tile] of this.tiles) {
      const port = model.ports.get(index);
      const hit = port && match(port, model) && words.every((w) => (/^\d+$/.test(w) ? String(index).startsWith(w) || tile.haystack.includes(`.${w}`) : tile.haystack.includes(w)));
      if (tile.item.hidden === Boolean(hit)) tile.item.hidden = !hit;
      if (hit) shown++;
    }
    this.shown = shown;
    if (this.current?.closest("li")?.hidden) {
      const first = this.root.querySelector("li:not([hidden]) > .tile");
      if (first) this.setCurrent(first);
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
    if (!button || e.altKey || e.ctrlKey || e.metaKey) return;
    const shown = [...this.root.querySelectorAll("li:not([hidden]) > .tile")];
    const at = shown.indexOf(button);
    const top = shown[0]?.getBoundingClientRect().top;
    const second = shown.findIndex((t) => t.getBoundingClientRect().top > top + 1);
    const columns = second < 0 ? shown.length : second;
    const to = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: shown.length - 1,
    }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    shown[to]?.focus();
  }
}

function makeTile(index) {
  const side = el("span", { class: "side" });
  const flaps = el("span", { class: "flaps" });
  const age = el("span", { class: "age" });
  const note = el("span", { class: "note" });
  const button = el("button", { class: "tile", "data-port": index, tabindex: -1 },
    el("span", { class: "y" }, el("i"), el("i")), el("span", { class: "n" }, String(index)), side, age, flaps, note);
  return { item: el("li", {}, button), button, side, flaps, age, note, haystack: "", label: "", classes: "", last: null };
}

export const shortEnd = (end) => ({ nic: "NIC", upper_tor: "upper", lower_tor: "lower" })[end];
