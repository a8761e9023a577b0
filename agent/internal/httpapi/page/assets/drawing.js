// The drawing of one cable: the server's NIC, the two ToRs, and between them what passes and what does not.

import { shortSide, svg } from "./dom.js";

const nic = { x: 4, y: 66, w: 132, h: 48 };
const tors = {
  upper_tor: { x: 284, y: 4, w: 132, h: 48 },
  lower_tor: { x: 284, y: 128, w: 132, h: 48 },
};

// lanes says what passes on each way, from the drops and from the codes of the conditions: "passes", "dropped" as asked,
// "broken", or "unsure" where the codes don't tell.
export function lanes(port) {
  const is = (...codes) => codes.some((code) => port.codes.includes(code));
  const standby = port.side === "upper_tor" ? "lower_tor" : "upper_tor";
  const all = is("restoring")
    ? "broken"
    : is("unreadable", "unconfirmed", "not_a_mux", "flows_missing", "foreign_flow", "fault")
      ? "unsure"
      : "passes";
  const broken = is("port_missing", "port_blocked"); // of the NIC or of the active ToR
  const ways = {
    down: broken ? "broken" : all,
    upper_tor: broken && all === "passes" ? "unsure" : all,
    lower_tor: broken && all === "passes" ? "unsure" : all,
    standby: is("both_forward") ? "passes" : "stopped", // downstream, from the standby ToR
  };
  if (is("standby_missing", "standby_blocked")) ways[standby] = "broken";
  if (port.dropped.includes("nic")) ways.down = "dropped";
  for (const side of ["upper_tor", "lower_tor"]) if (port.dropped.includes(side)) ways[side] = "dropped";
  return ways;
}

export function draw(port) {
  const ways = lanes(port);
  const parts = [arrows()];
  for (const [side, box] of Object.entries(tors)) {
    const y = box.y + box.h / 2;
    const up = side === "upper_tor" ? -1 : 1; // the way that this ToR lies from the NIC
    const down = side === port.side ? ways.down : ways.standby;
    // Upstream: from the NIC to both ToRs.
    parts.push(lane(`M${nic.x + nic.w + 2} ${90 + up * 14} L${box.x - 8} ${y + up * 8}`, ways[side], "up", [212, (90 + y) / 2 + up * 11]));
    // Downstream: from the active ToR only.
    if (down === "stopped") {
      const [x1, y1] = [box.x - 2, y - up * 8];
      const [x2, y2] = [x1 - 40, y1 - up * 14.5];
      parts.push(
        svg("path", { class: "lane standby", d: `M${x1} ${y1} L${x2} ${y2}` }),
        svg("path", { class: "stop", d: `M${x2 - 2.5} ${y2 - 7} l5 14` }),
      );
    } else {
      parts.push(
        lane(`M${box.x - 2} ${y - up * 8} L${nic.x + nic.w + 8} 90`, down, `down ${shortSide(side)}`, [212, (90 + y - up * 8) / 2]),
      );
    }
  }
  parts.push(box(nic, "NIC", port.ports.nic, ""));
  for (const [side, at] of Object.entries(tors)) {
    parts.push(box(at, `${shortSide(side)} ToR`, port.ports[side], side === port.side ? `active ${shortSide(side)}` : ""));
  }
  return svg("svg", { class: "drawing", viewBox: "0 0 420 180", role: "img", "aria-label": inWords(port, ways) }, parts);
}

const said = { passes: "passes", dropped: "dropped", broken: "nothing passes", unsure: "not known" };

// inWords says what the drawing shows.
function inWords(port, ways) {
  const from = `packets from the ${shortSide(port.side)} ToR`;
  const down = {
    passes: `${from} reach the NIC`,
    dropped: `${from} are dropped`,
    broken: `${from} do not reach the NIC`,
    unsure: `it is not known whether ${from} reach the NIC`,
  }[ways.down];
  const both = ways.standby === "passes" ? ", and so do packets from the standby ToR" : "";
  const up = ["upper_tor", "lower_tor"].map((side) => `${shortSide(side)} ToR: ${said[ways[side]]}`);
  return `Downstream, ${down}${both}. Upstream, from the NIC to the ${up.join(", to the ")}.`;
}

function arrows() {
  const kinds = ["up", "upper", "lower", "cut"];
  return svg(
    "defs",
    {},
    kinds.map((kind) =>
      svg(
        "marker",
        { id: `arrow-${kind}`, viewBox: "0 0 8 8", refX: 5, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" },
        svg("path", { class: `head ${kind}`, d: "M0 0.5 L8 4 L0 7.5 z" }),
      ),
    ),
  );
}

function lane(d, way, kind, [x, y]) {
  if (way === "passes") return svg("path", { class: `lane ${kind}`, d });
  if (way === "unsure") {
    return svg("g", { class: "unsure" }, svg("path", { class: "lane", d }), svg("text", { x, y: y + 5 }, "?"));
  }
  return svg(
    "g",
    { class: way },
    svg("path", { class: "lane cut", d }),
    svg("path", { class: "cross", d: `M${x - 6} ${y - 6} l12 12 m0 -12 l-12 12` }),
  );
}

function box({ x, y, w, h }, title, name, kind) {
  return svg(
    "g",
    { class: `end ${kind}` },
    svg("rect", { x, y, width: w, height: h, rx: 8 }),
    svg("text", { class: "title", x: x + w / 2, y: y + 20 }, title),
    svg("text", { class: "name", x: x + w / 2, y: y + 37 }, name),
  );
}
