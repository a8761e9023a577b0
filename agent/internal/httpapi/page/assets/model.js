// What the page knows of one vm_set: its ports, what happened to them, and whether that is fresh.

import { request, follow, agentNow } from "./api.js";

const hour = 3_600_000;
const minute = 60_000;
const pause = 2000; // between two reads of all ports while they change
const lull = 30_000; // between two reads while nothing happens

export class Model {
  // changed is called with the ports that changed, or with null when it can be any. state is called when the connection's
  // state did.
  constructor(vmSet, { changed, state }) {
    this.vmSet = vmSet;
    this.path = `mux/${encodeURIComponent(vmSet)}`;
    this.ports = new Map(); // port index → port
    this.rejected = [];
    this.notReady = "";
    this.events = []; // of the last hour, oldest first
    this.since = agentNow(); // from when on events are complete
    this.state = "connecting"; // or live, stale
    this.staleSince = null;
    this.lastChange = new Map(); // port index → event
    this.onChanged = changed;
    this.onState = state;
    this.end = new AbortController();
    this.reading = null;
    this.queue = null; // events that came while all ports were read
    this.timer = null; // of the next read, at timerAt
    this.timerAt = 0;
    this.lastRead = 0;
  }

  start() {
    follow(`${this.path}/events`, this.end.signal, {
      open: () => this.opened(),
      change: (ev) => this.queue ? this.queue.push(ev) : this.apply([ev]),
      missed: () => this.readSoon(0),
      lost: () => this.setState("stale"),
    });
    this.read();
  }

  stop() {
    this.end.abort();
    clearTimeout(this.timer);
  }

  async opened() {
    await this.readHistory();
    await this.read();
    this.setState("live");
  }

  setState(state) {
    if (this.end.signal.aborted || state === this.state) return;
    if (state === "stale") this.staleSince = Date.now();
    this.state = state;
    this.onState();
  }

  async readHistory() {
    try {
      const { events } = await request("GET", `${this.path}/history`);
      if (events.length > 0) this.since = events.length < 1000 ? Math.min(this.since, Date.parse(events[0].time)) : Date.parse(events[0].time);
      this.events = [];
      this.remember(events);
      this.onChanged(null);
    } catch {
      // The grid is useful without it.
    }
  }

  // remember keeps what happened to muxes that were there before, for the chart and as their last change.
  remember(events) {
    for (const ev of events) {
      if (!ev.from) continue;
      ev.at = Date.parse(ev.time);
      this.lastChange.set(ev.port_index, ev);
      this.events.push(ev);
    }
    const old = agentNow() - hour;
    let n = 0;
    while (n < this.events.length && this.events[n].at < old) n++;
    this.events.splice(0, n);
  }

  // apply brings events into what is shown. What they don't tell is read soon.
  apply(events) {
    this.remember(events);
    const touched = [];
    for (const ev of events) {
      const port = this.ports.get(ev.port_index);
      if (!ev.to) this.ports.delete(ev.port_index);
      else if (port) {
        Object.assign(port, { side: ev.to.active_side, dropped: ev.to.dropped, healthy: ev.to.healthy, reason: ev.to.reason || "", code: ev.to.reason_code || "" });
      }
      touched.push(ev.port_index);
    }
    const came = events.some((ev) => !ev.from || !ev.to);
    this.onChanged(came ? null : touched);
    this.readSoon(500);
  }

  readSoon(delay) {
    if (this.end.signal.aborted) return;
    const at = Math.max(Date.now() + delay, this.lastRead + pause);
    if (this.timer && this.timerAt <= at) return;
    clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.read();
    }, at - Date.now());
  }

  // read reads all ports. Events that come meanwhile are applied behind it, so that nothing older wins.
  read() {
    this.reading ??= this.readNow().finally(() => {
      this.reading = null;
      this.readSoon(lull);
    });
    return this.reading;
  }

  async readNow() {
    this.queue = [];
    this.lastRead = Date.now();
    try {
      const [overview, muxes] = await Promise.all([request("GET", "mux"), request("GET", this.path)]);
      this.notReady = "";
      this.rejected = overview.vm_sets[this.vmSet]?.rejected || [];
      const seen = new Set();
      for (const status of Object.values(muxes)) {
        seen.add(status.port_index);
        this.ports.set(status.port_index, { ...this.ports.get(status.port_index), ...fromStatus(status) });
      }
      for (const index of this.ports.keys()) if (!seen.has(index)) this.ports.delete(index);
    } catch (failure) {
      this.notReady = failure.code === "not_ready" || failure.code === "unknown_vm_set" ? failure.message : "";
      if (failure.status === 0) this.setState("stale");
    }
    const late = this.queue;
    this.queue = null;
    if (this.end.signal.aborted) return;
    this.onChanged(null);
    if (late.length > 0) this.apply(late);
  }

  // change sends one change of a port and shows its answer.
  async change(port, action, body) {
    const status = await request("POST", `${this.path}/${port}${action}`, body);
    this.ports.set(port, { ...this.ports.get(port), ...fromStatus(status) });
    this.onChanged([port]);
    this.readSoon(500);
  }

  // changeAll sends one change of all ports. A Failure names those that failed.
  async changeAll(action, body) {
    try {
      await request("POST", this.path + action, body);
    } finally {
      this.readSoon(0);
    }
  }

  history(port) {
    return request("GET", `${this.path}/${port}/history`).then((h) => h.events);
  }

  // changedAt is the agent's time of a port's last change, in milliseconds; 0 when it is not known.
  changedAt(index) {
    return this.lastChange.get(index)?.at ?? 0;
  }

  isFresh(index) {
    return agentNow() - this.changedAt(index) < minute;
  }
}

// fromStatus reads the API's status of a mux.
function fromStatus(s) {
  return {
    index: s.port_index, bridge: s.bridge, side: s.active_side, healthy: s.healthy, reason: s.reason || "", code: s.reason_code || "",
    flaps: s.flap_counter, ports: s.ports, dropped: s.dropped,
  };
}
