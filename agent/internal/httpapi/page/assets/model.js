// What the page knows of one vm_set: its ports, what happened to them, and whether that is fresh.

import { agentNow, Failure, follow, lastHeard, randomID, request } from "./api.js";
import { Bins } from "./bins.js";

const minute = 60_000;
const pause = 2000; // between two reads of all ports while they change
const lull = 30_000; // between two reads of all ports while nothing happens, or nothing but what events tell
const few = 8; // ports that are read one by one

export class Model {
  // changed is called with the ports that changed, or with null when it can be any. state is called when the connection's
  // state did.
  constructor(vmSet, { changed, state }) {
    this.vmSet = vmSet;
    this.path = `mux/${encodeURIComponent(vmSet)}`;
    this.ports = new Map(); // port index → port
    this.rejected = [];
    this.bins = new Bins(); // of the last hour
    this.since = agentNow(); // from when on they are complete
    this.state = "connecting"; // or live, stale
    this.heard = 0; // when the last byte came before it was stale, in milliseconds of our clock
    this.open = false; // the stream, and all was read since
    this.opening = null; // the stream that was opened last, until it breaks
    this.streamFailure = null;
    this.readFailure = null;
    this.inFlight = new Set(); // port indexes that are being changed
    this.last = null; // the last act, which can be undone: { reqId, verb, before: port index → { active_side, dropped } }
    this.lastChange = new Map(); // port index → event
    this.onChanged = changed;
    this.onState = state;
    this.end = new AbortController();
    this.reading = null;
    this.queue = null; // events that came while all ports were read
    this.timer = null; // of the next read, at timerAt
    this.timerAt = 0;
    this.lastRead = 0;
    this.lastFull = 0;
    this.full = false; // the next read is of all ports
    this.more = new Set(); // port indexes of which events don't tell all
  }

  start() {
    follow(`${this.path}/events`, this.end.signal, {
      open: () => this.opened(),
      change: (ev) => (this.queue ? this.queue.push(ev) : this.apply([ev])),
      missed: () => this.readSoon(0),
      lost: (failure) => {
        this.open = false;
        this.opening = null;
        this.streamFailure = failure;
        this.judge();
      },
    });
    this.read();
  }

  stop() {
    this.end.abort();
    clearTimeout(this.timer);
  }

  async opened() {
    const mine = {};
    this.opening = mine;
    await this.readHistory();
    await this.read();
    if (this.opening !== mine) return; // it broke meanwhile
    this.open = true;
    this.streamFailure = null;
    this.judge();
  }

  // failure is why what is shown may not be so any more, or null.
  get failure() {
    return this.streamFailure || this.readFailure;
  }

  // judge says whether what is shown is so: the stream lives, and all ports could be read.
  judge() {
    if (this.end.signal.aborted) return;
    const state = this.failure ? "stale" : this.open ? "live" : this.state;
    if (state === "stale" && this.state !== "stale") this.heard = lastHeard();
    this.state = state;
    this.onState();
  }

  async readHistory() {
    try {
      const { events } = await request("GET", `${this.path}/history`);
      if (events.length > 0)
        this.since = events.length < 1000 ? Math.min(this.since, Date.parse(events[0].time)) : Date.parse(events[0].time);
      this.bins = new Bins();
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
      this.bins.add(ev);
    }
  }

  // apply brings events into what is shown. What they don't tell is read soon.
  apply(events) {
    this.remember(events);
    const touched = [];
    for (const ev of events) {
      const port = this.ports.get(ev.port_index);
      if (!ev.to) this.ports.delete(ev.port_index);
      else if (port) {
        if (ev.to.reason_code) this.more.add(ev.port_index); // there may be more conditions than this one
        Object.assign(port, {
          side: ev.to.active_side,
          dropped: ev.to.dropped,
          healthy: ev.to.healthy,
          reason: ev.to.reason || "",
          codes: ev.to.reason_code ? [ev.to.reason_code] : [],
        });
      }
      touched.push(ev.port_index);
    }
    const came = events.some((ev) => !ev.from || !ev.to);
    this.onChanged(came ? null : touched);
    this.readSoon(500, came);
  }

  // readSoon reads what events don't tell, or all ports, when the last read is long enough ago.
  readSoon(delay, full = true) {
    if (this.end.signal.aborted) return;
    this.full ||= full;
    const at = Math.max(Date.now() + delay, this.lastRead + pause);
    if (this.timer && this.timerAt <= at) return;
    clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.full || this.more.size > few || Date.now() - this.lastFull >= lull) this.read();
      else this.readLess();
    }, at - Date.now());
  }

  // readLess reads what events don't tell: the counters, the bridges that are not served, and the conditions of the ports that
  // have some.
  async readLess() {
    this.lastRead = Date.now();
    const indexes = [...this.more];
    this.more.clear();
    try {
      const [overview, flaps, ...statuses] = await Promise.all([
        request("GET", "mux"),
        request("GET", `${this.path}/flap_counter`),
        ...indexes.map((i) => request("GET", `${this.path}/${i}`)),
      ]);
      this.rejected = overview.vm_sets[this.vmSet]?.rejected || [];
      for (const port of this.ports.values()) port.flaps = flaps[port.bridge] ?? port.flaps;
      for (const status of statuses.map(fromStatus)) {
        const port = this.ports.get(status.index);
        if (port?.reason === status.reason) port.codes = status.codes; // else an event told something newer
      }
      this.onChanged(null);
    } catch {
      this.full = true;
    }
    this.readSoon(lull, this.full);
  }

  // read reads all ports. Events that come meanwhile are applied behind it, so that nothing older wins.
  read() {
    this.reading ??= this.readNow().finally(() => {
      this.reading = null;
      this.readSoon(this.readFailure ? pause : lull, this.readFailure !== null);
    });
    return this.reading;
  }

  async readNow() {
    this.queue = [];
    this.lastRead = this.lastFull = Date.now();
    this.full = false;
    this.more.clear();
    try {
      const [overview, muxes] = await Promise.all([request("GET", "mux"), request("GET", this.path)]);
      this.readFailure = null;
      this.rejected = overview.vm_sets[this.vmSet]?.rejected || [];
      const seen = new Set();
      for (const status of Object.values(muxes)) {
        seen.add(status.port_index);
        this.ports.set(status.port_index, { ...this.ports.get(status.port_index), ...fromStatus(status) });
      }
      for (const index of this.ports.keys()) if (!seen.has(index)) this.ports.delete(index);
    } catch (failure) {
      this.readFailure = failure;
    }
    this.judge();
    const late = this.queue;
    this.queue = null;
    if (this.end.signal.aborted) return;
    this.onChanged(null);
    if (late.length > 0) this.apply(late);
  }

  // change sends one change of a port and shows its answer.
  change(port, verb, action, body) {
    return this.send([port], verb, "POST", `${this.path}/${port}${action}`, body);
  }

  // changeAll sends one change of all ports. A Failure names those that failed.
  changeAll(verb, action, body) {
    return this.send([...this.ports.keys()], verb, "POST", this.path + action, body);
  }

  // bring brings ports to a state: port index → { active_side, dropped }, what is left out stays. A Failure names those that
  // failed.
  bring(verb, wanted) {
    return this.send([...wanted.keys()], verb, "PATCH", this.path, { ports: Object.fromEntries(wanted) });
  }

  // send sends a change of ports, one at a time for each of them, and remembers what they were before.
  async send(indexes, verb, method, path, body) {
    const busy = indexes.filter((i) => this.inFlight.has(i));
    if (busy.length > 0) throw new Failure(0, "busy", `Port ${busy[0]} is being changed. Wait for the answer.`);
    const reqId = randomID();
    const before = new Map();
    for (const i of indexes) {
      const port = this.ports.get(i);
      if (port) before.set(i, { active_side: port.side, dropped: port.dropped });
      this.inFlight.add(i);
    }
    this.last = { reqId, verb, before };
    try {
      const answer = await request(method, path, body, reqId);
      this.took("port_index" in answer ? [answer] : Object.values(answer));
    } catch (failure) {
      this.took(Object.values(failure.muxes));
      throw failure;
    } finally {
      for (const i of indexes) this.inFlight.delete(i);
      this.readSoon(500, false);
    }
  }

  // took takes over the status that an answer has.
  took(statuses) {
    for (const status of statuses) this.ports.set(status.port_index, { ...this.ports.get(status.port_index), ...fromStatus(status) });
    this.onChanged(statuses.map((status) => status.port_index));
  }

  // undo brings the ports of the last act back to what they were, and returns those that it leaves as they are, since
  // something else happened to them after the act. Ports that the act did not change are neither.
  async undo() {
    const { reqId, before } = this.last;
    const wanted = new Map();
    const left = [];
    for (const [index, was] of before) {
      const port = this.ports.get(index);
      if (port && port.side === was.active_side && same(port.dropped, was.dropped)) continue;
      if (port && this.lastChange.get(index)?.req_id === reqId) wanted.set(index, was);
      else left.push(index);
    }
    if (wanted.size > 0) await this.bring("undone", wanted);
    this.last = null;
    return { undone: [...wanted.keys()], left };
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

const same = (a, b) => a.length === b.length && a.every((end) => b.includes(end));

// fromStatus reads the API's status of a mux.
function fromStatus(s) {
  return {
    index: s.port_index,
    bridge: s.bridge,
    side: s.active_side,
    healthy: s.healthy,
    reason: s.reason || "",
    codes: (s.conditions || []).map((c) => c.code),
    flaps: s.flap_counter,
    ports: s.ports,
    dropped: s.dropped,
  };
}
