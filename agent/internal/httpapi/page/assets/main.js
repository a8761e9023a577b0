// The page of one agent: picks the vm_set, and brings its model, the grid, the details and the chart together.

import { forgetToken, hasToken, onTokenWanted, request } from "./api.js";
import { act, allActions, askToken } from "./ask.js";
import { drawChart } from "./chart.js";
import { Details } from "./details.js";
import { $, changes, clock, el, say, setState, setText } from "./dom.js";
import { filters, Grid } from "./grid.js";
import { Model } from "./model.js";
import { Selection } from "./selection.js";

let model = null;
const grid = new Grid(
  (index) => goTo(index),
  (ports, how) => selection.pick(ports, how),
);
const selection = new Selection(grid);
const details = new Details((index) => {
  leave();
  grid.focus(index);
});
let vmSets = [];
const counts = {};
let chartDue = false;
let chartDrawn = false;

// The address holds the vm_set and the open port, #vms17-8/3, so that it can be sent to somebody. wrong says what is not
// right with it.
function place() {
  let parts;
  try {
    parts = decodeURIComponent(location.hash.slice(1)).split("/");
  } catch {
    return { vmSet: "", port: null, wrong: "The address of this page has a part after # that can't be read." };
  }
  const [vmSet, port = ""] = parts;
  if (vmSet && !vmSets.includes(vmSet)) {
    return { vmSet: "", port: null, wrong: `This agent does not serve a vm_set ${vmSet}. It serves ${vmSets.join(", ") || "none"}.` };
  }
  if (port && !/^\d{1,9}$/.test(port)) return { vmSet, port: null, wrong: `${port} is not the number of a port.` };
  return { vmSet, port: port ? Number(port) : null, wrong: "" };
}

// goTo opens a port. The browser's Back closes it.
function goTo(port) {
  history.pushState({ opened: true }, "", `#${encodeURIComponent(model.vmSet)}/${port}`);
  show();
}

// leave closes the open port.
function leave() {
  if (place().port === null) return;
  if (history.state?.opened) history.back();
  else {
    history.replaceState(null, "", `#${encodeURIComponent(model.vmSet)}`);
    show();
  }
}

// show follows the address.
function show() {
  const { vmSet, port, wrong } = place();
  $("nowhere").hidden = wrong === "";
  setText($("nowhere"), wrong);
  if (vmSet && vmSet !== model?.vmSet) choose(vmSet);
  if (port === null) details.close();
  else if (details.index !== port) details.open(model, port);
  state();
}

function choose(vmSet) {
  model?.stop();
  grid.clear();
  $("vmset").value = vmSet;
  document.title = `${vmSet} · mux-agent`;
  const mine = new Model(vmSet, {
    changed: (indexes) => mine === model && changed(indexes),
    state: () => mine === model && state(),
  });
  model = mine;
  selection.follow(model);
  model.start();
  state();
}

// changed paints once a frame, however many events came.
let pending = new Set();
let everything = false;
let frame = 0;
function changed(indexes) {
  if (indexes === null) everything = true;
  else for (const index of indexes) pending.add(index);
  chartDue = true;
  if (frame === 0) frame = requestAnimationFrame(paint);
}

function paint() {
  frame = 0;
  const indexes = everything ? null : [...pending];
  pending = new Set();
  everything = false;
  grid.show(model, indexes);
  details.refresh(indexes);
  count();
  rejected();
  selection.refresh();
  if (!chartDrawn) chart(); // later ones can wait for the tick
  empty();
}

function chart() {
  chartDue = false;
  chartDrawn = true;
  drawChart($("chart"), model);
}

function count() {
  for (const f of filters) counts[f.id] = 0;
  for (const port of model.ports.values()) {
    for (const f of filters) if (f.match(port, model)) counts[f.id]++;
  }
  for (const f of filters) {
    const chip = $(`filter-${f.id}`);
    setText(chip.lastChild, String(counts[f.id]));
    chip.classList.toggle("alert", f.id === "unhealthy" && counts[f.id] > 0);
  }
}

function empty() {
  const none = $("none");
  none.hidden = grid.found.length > 0 || model.failure !== null || model.state === "connecting";
  setText(
    none,
    model.ports.size === 0
      ? `vm_set ${model.vmSet} has no mux yet. The agent serves one as soon as its bridge has three ports.`
      : "No port fits the search and the filter.",
  );
}

function rejected() {
  const n = model.rejected.length;
  $("rejected").hidden = n === 0;
  $("no-mux").hidden = n === 0;
  setText($("no-mux").lastChild, String(n));
  const list = $("rejected-list");
  const text = JSON.stringify(model.rejected);
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...model.rejected.map((b) => el("li", {}, el("b", { class: "mono" }, b.bridge), ` ${b.reason}`)));
}

// state shows whether what is shown is so, everywhere.
let was = "";
function state() {
  const now = model.state;
  setState(now);
  $("live").dataset.state = now;
  setText($("live-text"), now);
  const words = past();
  $("stale").hidden = words === "";
  setText($("stale"), words);
  details.said(words);
  $("forget").hidden = !hasToken();
  empty();
  if (now === "live" && was !== "live") say("Live");
  was = now;
}

// past says why what is shown may not be so any more.
function past() {
  const { failure, vmSet } = model;
  if (failure === null) return "";
  const end = "This page tries again.";
  if (failure.status === 0) return `The agent has not answered since ${clock(model.heard)}. This page shows what was so then. ${end}`;
  const seen = model.ports.size > 0 ? ` This page shows what was so at ${clock(model.heard)}.` : "";
  const words = failure.message.replace(/[.!]?$/, ".");
  if (failure.code === "unknown_vm_set") return `This agent does not serve vm_set ${vmSet}.${seen} ${end}`;
  if (failure.code === "not_ready") return `The agent is not ready: ${words}${seen} ${end}`;
  return `The agent answers with an error, ${failure.status}: ${words}${seen} ${end}`;
}

function tick() {
  grid.tick(model);
  if (chartDue || Date.now() % 30_000 < 1000) chart();
  count();
}

function buildBar() {
  $("filters").append(
    ...filters.map((f) =>
      el(
        "button",
        { id: `filter-${f.id}`, class: "chip", "aria-pressed": String(f.id === "all"), onclick: () => pick(f.id) },
        `${f.label} `,
        el("span", { class: "num" }, "0"),
      ),
    ),
  );
  $("filters").append(
    el(
      "button",
      {
        id: "no-mux",
        class: "chip alert",
        hidden: true,
        onclick: () => $("rejected").scrollIntoView({ block: "center" }),
      },
      "Not usable ",
      el("span", { class: "num" }),
    ),
  );
  $("search").addEventListener("input", (e) => {
    grid.text = e.target.value;
    grid.apply(model);
    empty();
  });
  $("search").addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === "ArrowDown") {
      e.preventDefault();
      grid.current?.focus();
    }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.target.closest("input, dialog")) {
      e.preventDefault();
      $("search").focus();
    }
  });
  const menu = $("all-menu");
  const open = (yes) => {
    menu.hidden = !yes;
    $("all").setAttribute("aria-expanded", String(yes));
    if (yes) menu.querySelector("button").focus();
  };
  menu.append(
    changes(
      ...allActions.map((what) =>
        el(
          "button",
          {
            onclick: () => {
              open(false);
              $("all").focus();
              act(model, what, null, (words) => selection.did(words));
            },
          },
          what.label,
        ),
      ),
    ),
  );
  $("all").addEventListener("click", () => open(menu.hidden));
  document.addEventListener("click", (e) => !e.target.closest(".menu") && open(false));
  $("all").parentNode.addEventListener("keydown", (e) => {
    const items = [...menu.querySelectorAll("button")];
    const to = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (e.key === "Escape" && !menu.hidden) {
      open(false);
      $("all").focus();
    } else if (to && !menu.hidden) {
      e.preventDefault();
      items[(items.indexOf(document.activeElement) + to + items.length) % items.length].focus();
    }
  });
}

function pick(id) {
  grid.filter = id;
  for (const f of filters) $(`filter-${f.id}`).setAttribute("aria-pressed", String(f.id === id));
  grid.apply(model);
  empty();
}

// start waits for an agent that does not answer yet.
async function start() {
  onTokenWanted(askToken);
  buildBar();
  for (;;) {
    try {
      const [overview, version] = await Promise.all([request("GET", "mux"), request("GET", "version")]);
      setText($("version"), `mux-agent ${version.version}`);
      vmSets = Object.keys(overview.vm_sets);
      $("vmset").append(...vmSets.map((name) => el("option", { value: name }, name)));
      $("vmset").disabled = vmSets.length < 2;
      $("vmset").addEventListener("change", (e) => (location.hash = encodeURIComponent(e.target.value)));
      choose(place().vmSet || vmSets[0]);
      break;
    } catch (failure) {
      $("stale").hidden = false;
      setText($("stale"), `${failure.message.replace(/[.!]?$/, ".")} This page tries again.`);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  $("forget").addEventListener("click", () => {
    forgetToken();
    location.reload();
  });
  // A browser may keep a page that was left, with its stream, and gives one host six connections for all of its pages.
  window.addEventListener("pagehide", () => model.stop());
  window.addEventListener("pageshow", (e) => e.persisted && location.reload());
  show();
  window.addEventListener("hashchange", show);
  setInterval(tick, 1000);
}

start();
