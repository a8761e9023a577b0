// The dialog of one port: its drawing, what can be done to it, and its history.

import { $, changes, clock, el, once, plural, say, shortSide, span } from "./dom.js";
import { draw } from "./drawing.js";
import { shortEnd } from "./grid.js";

const ends = ["nic", "upper_tor", "lower_tor"];

export class Details {
  constructor(closed) {
    this.dialog = $("details");
    this.dialog.addEventListener("close", () => {
      const index = this.index;
      this.index = null;
      closed(index);
    });
    this.dialog.addEventListener("click", (e) => {
      if (e.target === this.dialog) this.dialog.close(); // the backdrop
    });
    this.index = null;
  }

  open(model, index) {
    this.model = model;
    this.index = index;
    this.build();
    this.refresh([index]);
    if (!this.dialog.open) this.dialog.showModal();
  }

  close() {
    if (this.dialog.open) this.dialog.close();
  }

  build() {
    const press = (name, label, verb, action, body) => {
      const button = el("button", { class: name, onclick: once(() => this.do(button, verb, action, body())) }, label);
      return button;
    };
    this.stale = el("p", { class: "banner", role: "status", hidden: true });
    this.title = el("h2", { id: "details-title" });
    this.bridge = el("p", { class: "dim mono" });
    this.health = el("p", { class: "health" });
    this.drawing = el("div", { class: "stage" });
    this.error = el("p", { class: "error", role: "alert", hidden: true });
    this.sides = {
      upper_tor: press("seg up", "Upper", "set to upper", "", () => ({ active_side: "upper_tor" })),
      lower_tor: press("seg low", "Lower", "set to lower", "", () => ({ active_side: "lower_tor" })),
    };
    this.switches = {};
    for (const end of ends) {
      this.switches[end] = el(
        "button",
        {
          class: "switch",
          role: "switch",
          onclick: once(() => {
            const port = this.model.ports.get(this.index);
            this.do(this.switches[end], "changed", port.dropped.includes(end) ? "/output" : "/drop", { out_sides: [end] });
          }),
        },
        end === "nic" ? "to the NIC" : `to the ${shortEnd(end)} ToR`,
      );
    }
    this.buttons = [
      ...Object.values(this.sides),
      ...Object.values(this.switches),
      press("go", "Toggle", "toggled", "", () => ({ active_side: "toggle" })),
      press("", "Reset", "reset", "/reset", () => undefined),
    ];
    const [toggle, reset] = this.buttons.slice(-2);
    this.history = el("tbody");
    this.dialog.replaceChildren(
      el(
        "div",
        { class: "head" },
        el("div", {}, this.title, this.bridge),
        el("button", { class: "close", "aria-label": "Close", onclick: () => this.dialog.close() }, "✕"),
      ),
      this.stale,
      this.health,
      this.drawing,
      changes(
        el(
          "div",
          { class: "acts" },
          el("div", { class: "group", role: "group", "aria-label": "Active side" }, this.sides.upper_tor, this.sides.lower_tor),
          toggle,
          reset,
        ),
        el(
          "div",
          { class: "acts", role: "group", "aria-label": "What passes" },
          el("span", { class: "dim" }, "Packets pass"),
          Object.values(this.switches),
        ),
      ),
      this.error,
      el("h3", {}, "History"),
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "History" },
        el(
          "table",
          {},
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              ["Time", "Change", "By", "Took", "Request"].map((h) => el("th", { scope: "col" }, h)),
            ),
          ),
          this.history,
        ),
      ),
    );
  }

  // said shows in words why what is shown may not be so any more, "" when it is so.
  said(words) {
    if (this.index === null) return;
    this.stale.hidden = words === "";
    this.stale.textContent = words;
    this.dialog.classList.toggle("past", words !== "");
  }

  // refresh repaints the dialog when its port is among those that changed; null is all.
  refresh(indexes) {
    if (this.index === null || (indexes && !indexes.includes(this.index))) return;
    const port = this.model.ports.get(this.index);
    this.title.textContent = `Port ${this.index}`;
    for (const button of this.buttons) button.disabled = !port;
    if (!port) {
      const read = this.model.state !== "connecting";
      this.bridge.textContent = "";
      this.health.textContent = read ? `vm_set ${this.model.vmSet} has no port ${this.index}.` : "";
      this.health.className = "health bad";
      this.drawing.replaceChildren();
    } else {
      this.bridge.textContent = `${port.bridge} · ${plural(port.flaps, "flap")}`;
      const dropped = port.dropped.map(shortEnd).join(", ");
      this.health.textContent =
        port.reason || (dropped ? `Drops packets to ${dropped}, as asked.` : `Healthy, the ${shortSide(port.side)} ToR is active.`);
      this.health.className = `health ${port.reason && !port.healthy ? "bad" : dropped ? "drop" : "good"}`;
      this.drawing.replaceChildren(draw(port));
      for (const [side, button] of Object.entries(this.sides)) button.setAttribute("aria-pressed", String(port.side === side));
      for (const [end, button] of Object.entries(this.switches)) button.setAttribute("aria-checked", String(!port.dropped.includes(end)));
    }
    this.readHistory();
  }

  async do(button, verb, action, body) {
    const index = this.index;
    if (this.model.inFlight.has(index)) return; // a second click, before the answer to the first
    this.error.hidden = true;
    button.setAttribute("aria-busy", "true");
    try {
      await this.model.change(index, verb, action, body);
      const port = this.model.ports.get(index);
      say(
        `Port ${index}: ${shortSide(port.side)} ToR active${port.dropped.length > 0 ? `, drops ${port.dropped.map(shortEnd).join(" and ")}` : ""}`,
      );
    } catch (failure) {
      if (this.index !== index) return;
      this.error.textContent = failure.message;
      this.error.hidden = false;
    } finally {
      button.removeAttribute("aria-busy");
    }
  }

  // readHistory reads it again, once more at the end when it is called meanwhile.
  async readHistory() {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    while (this.again && this.index !== null) {
      this.again = false;
      const index = this.index;
      try {
        const events = await this.model.history(index);
        if (index === this.index) this.history.replaceChildren(...events.reverse().map(row));
      } catch {
        // What was read before stays.
      }
    }
    this.busy = false;
  }
}

function row(ev) {
  return el(
    "tr",
    {},
    el("td", { class: "mono" }, el("time", { datetime: ev.time, title: ev.time }, clock(ev.time))),
    el("td", {}, change(ev)),
    el("td", { class: "mono" }, who(ev)),
    el("td", { class: "mono num" }, ev.took_us ? span(ev.took_us) : ""),
    el("td", { class: "mono dim cut", title: ev.req_id }, ev.req_id),
  );
}

export function who(ev) {
  if (ev.cause === "api") return ev.client;
  if (ev.cause === "recovery") return "the agent's repair";
  if (ev.cause === "outage") return "an outage of Open vSwitch";
  return ev.from ? "somebody on the switch" : "found";
}

function change(ev) {
  const parts = [];
  if (!ev.to) parts.push("the bridge is gone");
  else if (!ev.from) parts.push("on ", badge(ev.to.active_side));
  else if (ev.from.active_side !== ev.to.active_side) parts.push(badge(ev.from.active_side), " → ", badge(ev.to.active_side));
  if (!ev.to) return parts;
  const was = ev.from?.dropped || [];
  const drops = ev.to.dropped.filter((e) => !was.includes(e)).map(shortEnd);
  const passes = was.filter((e) => !ev.to.dropped.includes(e)).map(shortEnd);
  const notes = [];
  if (drops.length > 0) notes.push(`drops ${drops.join(", ")}`);
  if (passes.length > 0) notes.push(`passes ${passes.join(", ")}`);
  if (ev.to.reason) notes.push(ev.to.reason);
  else if (ev.from?.reason) notes.push("healthy again");
  if (notes.length > 0) parts.push(parts.length > 0 ? "; " : "", notes.join("; "));
  return parts;
}

function badge(side) {
  return el("span", { class: `badge ${side === "upper_tor" ? "up" : "low"}` }, shortSide(side));
}
