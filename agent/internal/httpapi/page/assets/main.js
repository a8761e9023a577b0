// The page of one agent: picks the vm_set, and brings its model, the grid, the details and the chart together.

import { $, el, setText, say, clock } from "./dom.js";
import { request, onTokenWanted } from "./api.js";
import { Model } from "./model.js";
import { Grid, filters } from "./grid.js";
import { Details } from "./details.js";
import { allActions, askAll, askToken } from "./ask.js";
import { drawChart } from "./chart.js";

let model = null;
const grid = new Grid((index) => goTo(index));
const details = new Details((index) => {
  goTo(null);
  grid.focus(index);
});
let counts = {};
let chartDue = false;
let chartDrawn = false;

// The address holds the vm_set and the open port, #vms17-8/3, so that it can be sent to somebody.
function place() {
  const [vmSet, port] = decodeURIComponent(location.hash.slice(1)).split("/");
  return { vmSet, port: port ? Number(port) : null };
}

function goTo(port, vmSet = model.vmSet) {
  const hash = `#${encodeURIComponent(vmSet)}${port === null ? "" : `/${port}`}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  show();
}

// show follows the address.
function show() {
  const { vmSet, port } = place();
  if (vmSet && vmSet !== model?.vmSet) choose(vmSet);
  if (port === null) details.close();
  else if (details.index !== port) details.open(model, port);
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
  frame ||= requestAnimationFrame(paint);
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
  $("notready").hidden = !model.notReady;
  setText($("notready"), model.notReady);
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
  none.hidden = grid.shown > 0 || model.notReady !== "" || model.state === "connecting";
  setText(none, model.ports.size === 0 ? `vm_set ${model.vmSet} has no mux yet. One is served as soon as its bridge has three ports.` : "No port fits the search and the filter.");
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

function state() {
  const badge = $("live");
  badge.dataset.state = model.state;
  setText($("live-text"), { connecting: "connecting", live: "live", stale: "stale" }[model.state]);
  document.body.classList.toggle("stale", model.state === "stale");
  $("stale").hidden = model.state !== "stale";
  if (model.state === "stale") setText($("stale"), `No connection to the agent since ${clock(model.staleSince)}. What you see is from then. Trying again…`);
  if (model.state === "live") say("Live");
}

function tick() {
  grid.tick(model);
  if (chartDue || Date.now() % 30_000 < 1000) chart();
  count();
}

function buildBar() {
  $("filters").append(...filters.map((f) =>
    el("button", { id: `filter-${f.id}`, class: "chip", "aria-pressed": String(f.id === "all"), onclick: () => pick(f.id) }, `${f.label} `, el("span", { class: "num" }, "0"))));
  $("filters").append(el("button", {
    id: "no-mux", class: "chip alert", hidden: true, onclick: () => $("rejected").scrollIntoView({ block: "center" }),
  }, "No mux ", el("span", { class: "num" })));
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
    if (yes) menu.firstChild.focus();
  };
  menu.append(...allActions.map((what) => el("button", {
    onclick: () => {
      open(false);
      $("all").focus();
      askAll(model, what);
    },
  }, what.label)));
  $("all").addEventListener("click", () => open(menu.hidden));
  document.addEventListener("click", (e) => !e.target.closest(".menu") && open(false));
  $("all").parentNode.addEventListener("keydown", (e) => {
    const items = [...menu.children];
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
      const names = Object.keys(overview.vm_sets);
      $("vmset").append(...names.map((name) => el("option", { value: name }, name)));
      $("vmset").disabled = names.length < 2;
      $("vmset").addEventListener("change", (e) => goTo(null, e.target.value));
      const { vmSet } = place();
      choose(names.includes(vmSet) ? vmSet : names[0]);
      break;
    } catch (failure) {
      $("stale").hidden = false;
      setText($("stale"), `${failure.message} Trying again…`);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  show();
  window.addEventListener("hashchange", show);
  setInterval(tick, 1000);
}

start();
