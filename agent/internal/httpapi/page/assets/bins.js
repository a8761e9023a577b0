// What the chart needs of the changes of the last hour, in a size that does not grow with their number: a bin a minute.

const minutes = 60;
export const minuteOf = (ms) => Math.floor(ms / 60_000);

export class Bins {
  constructor() {
    this.bins = new Map(); // minute since 1970 → { toggles, took }
  }

  add(ev) {
    const minute = minuteOf(ev.at);
    if (!this.bins.has(minute)) {
      this.bins.set(minute, { toggles: 0, took: new Times() });
      const newest = Math.max(...this.bins.keys());
      for (const old of this.bins.keys()) if (old <= newest - minutes) this.bins.delete(old);
    }
    const bin = this.bins.get(minute);
    if (!bin || !ev.to) return;
    if (ev.from.active_side !== ev.to.active_side) bin.toggles++;
    if (ev.took_us > 0) bin.took.add(ev.took_us);
  }

  // last lists the bins of the hour that ends with a minute, and all of their times together.
  last(end) {
    const all = new Times();
    const bins = Array.from({ length: minutes }, (_, i) => this.bins.get(end - minutes + 1 + i) ?? { toggles: 0, took: new Times() });
    for (const bin of bins) all.merge(bin.took);
    return { bins, all };
  }
}

// Times counts durations by their size, eight steps for a doubling, so that a quantile is right within 5 %.
class Times {
  constructor() {
    this.counts = new Map(); // step → how many
    this.n = 0;
    this.longest = 0; // microseconds
  }

  add(us) {
    const step = Math.round(Math.log2(us) * 8);
    this.counts.set(step, (this.counts.get(step) ?? 0) + 1);
    this.n++;
    this.longest = Math.max(this.longest, us);
  }

  merge(other) {
    for (const [step, n] of other.counts) this.counts.set(step, (this.counts.get(step) ?? 0) + n);
    this.n += other.n;
    this.longest = Math.max(this.longest, other.longest);
  }

  median() {
    let left = this.n / 2;
    for (const step of [...this.counts.keys()].sort((a, b) => a - b)) {
      left -= this.counts.get(step);
      if (left < 0 || step === Math.max(...this.counts.keys())) return Math.min(2 ** (step / 8), this.longest);
    }
    return 0;
  }
}
