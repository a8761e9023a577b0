// The drawing of one cable: the server's NIC, the two ToRs, and between them what passes and what does not.

import { svg, shortSide } from "./dom.js";

const nic = { x: 4, y: 66, w: 132, h: 48 };
const tors = {
  upper_tor: { x: 284, y: 4, w: 132, h: 48 },
  lower_tor: { x: 284, y: 128, w: 132, h: 48 },
};

export function draw(port) {
  const drops = (end) => port.dropped.includes(end);
  const parts = [arrows()];
  for (const [side, box] of Object.entries(tors)) {
    const y = box.y + box.h / 2;
    const up = side === "upper_tor" ? -1 : 1; // the way that this ToR lies from the NIC
    // Upstream: from the NIC to both ToRs.
    parts.push(lane(`M${nic.x + nic.w + 2} ${90 + up * 14} L${box.x - 8} ${y + up * 8}`, drops(side) ? "cut" : "up", [212, (90 + y) / 2 + up * 11]));
    // Downstream: from the active ToR only.
    if (side === port.side) {
      parts.push(lane(`M${box.x - 2} ${y - up * 8} L${nic.x + nic.w + 8} 90`, drops("nic") ? `cut` : `down ${shortSide(side)}`, [212, (90 + y - up * 8) / 2]));
    } else {
      const [x1, y1] = [box.x - 2, y - up * 8];
      const [x2, y2] = [x1 - 40, y1 - up * 14.5];
      parts.push(svg("path", { class: "lane standby", d: `M${x1} ${y1} L${x2} ${y2}` }), svg("path", { class: "stop", d: `M${x2 - 2.5} ${y2 - 7} l5 14` }));
    }
  }
  parts.push(box(nic, "NIC", port.ports.nic, ""));
  for (const [side, at] of Object.entries(tors)) {
    parts.push(box(at, `${shortSide(side)} ToR`, port.ports[side], side === port.side ? `active ${shortSide(side)}` : ""));
  }
  return svg("svg", { class: "drawing", viewBox: "0 0 420 180", role: "img", "aria-label": inWords(port) }, parts);
}

// inWords says what the drawing shows.
function inWords(port) {
  const down = port.dropped.includes("nic") ? `packets from the ${shortSide(port.side)} ToR are dropped` : `packets from the ${shortSide(port.side)} ToR reach the NIC`;
  const up = ["upper_tor", "lower_tor"].map((side) => `${shortSide(side)} ToR: ${port.dropped.includes(side) ? "dropped" : "passes"}`);
  return `Downstream, ${down}. Upstream, from the NIC to the ${up.join(", to the ")}.`;
}

function arrows() {
  const kinds = ["up", "upper", "lower", "cut"];
  return svg("defs", {}, kinds.map((kind) =>
    svg("marker", { id: `arrow-${kind}`, viewBox: "0 0 8 8", refX: 5, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" },
      svg("path", { class: `head ${kind}`, d: "M0 0.5 L8 4 L0 7.5 z" }))));
}

function lane(d, kind, [x, y]) {
  const path = svg("path", { class: `lane ${kind}`, d });
  if (kind !== "cut") return path;
  return svg("g", {}, path, svg("path", { class: "cross", d: `M${x - 6} ${y - 6} l12 12 m0 -12 l-12 12` }));
}

function box({ x, y, w, h }, title, name, kind) {
  return svg("g", { class: `end ${kind}` },
    svg("rect", { x, y, width: w, height: h, rx: 8 }),
    svg("text", { class: "title", x: x + w / 2, y: y + 20 }, title),
    svg("text", { class: "name", x: x + w / 2, y: y + 37 }, name));
}
