// The selection: the ports that a person picked, and the bar that acts on them and undoes the last act.

import { act, allActions } from "./ask.js";
import { $, changes, el, once, plural, ranges, say, setText } from "./dom.js";

export class Selection {
  constructor(grid) {
    this.grid = grid;
    this.model = null;
    this.picked = new Set();
    this.words = ""; // what was done last
    this.text = el("p", { class: "picked", role: "status" });
    this.acts = changes(
      allActions.map((what) =>
        el("button", { onclick: once(() => act(this.model, what, this.ports(), (words) => this.did(words))) }, what.label),
      ),
    );
    this.undo = el("button", { class: "undo", onclick: once(() => this.undoLast()) }, "Undo");
    this.clear = el("button", { onclick: () => this.pick([], "none") }, "Close");
    $("picks").append(this.text, this.acts, changes(this.undo), this.clear);
    $("pick").addEventListener("click", () => this.mode(!grid.picking));
    $("pick-shown").addEventListener("click", () => this.pick(grid.found, "to"));
  }

  // follow starts anew with a model.
  follow(model) {
    this.model = model;
    this.picked.clear();
    this.words = "";
    this.mode(false);
  }

  ports() {
    return [...this.picked].sort((a, b) => a - b);
  }

  // mode sets whether a click picks.
  mode(picking) {
    this.grid.picking = picking;
    $("pick").setAttribute("aria-pressed", String(picking));
    this.refresh();
  }

  // pick picks ports, see Grid.
  pick(ports, how) {
    if (how === "none") {
      this.picked.clear();
      this.words = "";
      if (this.model.last) this.model.last = null;
    }
    for (const port of ports) {
      if (how === "one" && this.picked.has(port)) this.picked.delete(port);
      else if (how !== "none") this.picked.add(port);
    }
    this.refresh();
  }

  // did says what was done.
  did(words) {
    this.words = words && `${words}.`;
    if (words) say(words);
    this.refresh();
  }

  async undoLast() {
    try {
      const { undone, left } = await this.model.undo();
      const parts = [undone.length > 0 ? `Undone: ${plural(undone.length, "port")}, ${ranges(undone)}.` : "Nothing was undone."];
      if (left.length > 0)
        parts.push(`${left.length === 1 ? "Port" : "Ports"} ${ranges(left)} changed again since then, and stay as they are.`);
      this.words = parts.join(" ");
    } catch (failure) {
      const ports = Object.keys(failure.failed);
      this.words =
        ports.length > 0 ? `${plural(ports.length, "port")} could not be undone: ${failure.failed[ports[0]].err_msg}` : failure.message;
    }
    this.refresh();
  }

  // refresh shows the bar while there is something to act on, to undo or to say.
  refresh() {
    for (const port of this.picked) if (!this.model.ports.has(port)) this.picked.delete(port);
    this.grid.mark(this.picked);
    const n = this.picked.size;
    const last = this.model.last;
    $("picks").hidden = n === 0 && !last && this.words === "";
    setText(this.text, [n > 0 ? `${plural(n, "port")} picked: ${ranges(this.picked)}.` : "", this.words].filter(Boolean).join(" "));
    this.acts.hidden = n === 0;
    this.undo.hidden = !last;
    setText(
      this.undo,
      last
        ? `Undo: ${last.before.size === 1 ? `port ${[...last.before.keys()][0]}` : plural(last.before.size, "port")} ${last.verb}`
        : "Undo",
    );
    $("pick-shown").hidden = !this.grid.picking && n === 0;
  }
}
