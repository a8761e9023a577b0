// The chart of the last hour, a bar a minute: how many changes of side, and below it how long they took.

import { agentNow } from "./api.js";
import { minuteOf } from "./bins.js";
import { el, plural, span, svg } from "./dom.js";

const minutes = 60;
const step = 6.75; // units of the drawing for a minute
const top = { y: 2, h: 26 }; // the bars
const low = { y: 38, h: 22 }; // the times

export function drawChart(root, model) {
  const end = minuteOf(agentNow()) + 1;
  const { bins, all } = model.bins.last(end - 1);
  const toggles = bins.reduce((n, b) => n + b.toggles, 0);
  const most = Math.max(1, ...bins.map((b) => b.toggles));
  const longest = Math.max(1, all.longest);
  const marks = [];
  bins.forEach((bin, i) => {
    if (bin.toggles === 0 && bin.took.n === 0) return;
    const x = i * step;
    const h = bin.toggles > 0 ? Math.max(1.5, (bin.toggles / most) * top.h) : 0;
    const p50 = bin.took.median();
    const worst = bin.took.longest;
    const y = (took) => low.y + low.h - (took / longest) * low.h;
    marks.push(
      svg(
        "g",
        {},
        svg(
          "title",
          {},
          `${at(end - minutes + i)}: ${plural(bin.toggles, "toggle")}${bin.took.n > 0 ? `, median ${span(p50)}, longest ${span(worst)}` : ""}`,
        ),
        svg("rect", { class: "hit", x, y: 0, width: step, height: low.y + low.h }),
        svg("rect", { class: "bar", x: x + 0.75, y: top.y + top.h - h, width: step - 1.5, height: h }),
        bin.took.n > 0 && svg("path", { class: "whisker", d: `M${x + step / 2} ${y(worst)} V${y(p50)}` }),
        bin.took.n > 0 && svg("circle", { class: "point", cx: x + step / 2, cy: y(p50), r: 1.4 }),
      ),
    );
  });
  const since = Math.max(0, (model.since / 60_000 - (end - minutes)) * step);
  const summary = `${plural(toggles, "toggle")}${all.n > 0 ? `, median ${span(all.median())}, longest ${span(all.longest)}` : ""}`;
  root.replaceChildren(
    svg(
      "svg",
      { viewBox: `0 0 ${minutes * step} 62`, role: "img", "aria-label": `Last hour: ${summary}` },
      since > 0 && svg("rect", { class: "unknown", x: 0, y: 0, width: Math.min(since, minutes * step), height: 62 }),
      svg("path", { class: "axis", d: `M0 ${top.y + top.h + 0.5} H${minutes * step} M0 ${low.y + low.h + 0.5} H${minutes * step}` }),
      marks,
    ),
    el("figcaption", {}, el("span", {}, since > 0 ? `since ${at(model.since / 60_000)}` : "last hour"), el("span", {}, summary)),
  );
}

const at = (minute) => new Date(minute * 60_000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
