// What can be done to many ports, and the dialog that asks: before it is done to all of them, and for a token.

import { $, changes, el, once, plural, ranges } from "./dom.js";

// openDialog shows what is built, and resolves when the dialog is closed.
function openDialog(children) {
  const dialog = $("ask");
  dialog.replaceChildren(...children);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
}

export const allActions = [
  { label: "Toggle", verb: "toggled", action: "", body: { active_side: "toggle" }, about: "Each port switches to its other side." },
  {
    label: "Set to upper",
    verb: "set to upper",
    action: "",
    body: { active_side: "upper_tor" },
    about: "The upper ToR becomes the active one of each port.",
  },
  {
    label: "Set to lower",
    verb: "set to lower",
    action: "",
    body: { active_side: "lower_tor" },
    about: "The lower ToR becomes the active one of each port.",
  },
  { label: "Drop…", verb: "changed", action: "/drop", ends: true, about: "Packets to these ends are dropped on each port:" },
  { label: "Output…", verb: "changed", action: "/output", ends: true, about: "Packets to these ends pass again on each port:" },
  {
    label: "Reset",
    verb: "reset",
    action: "/reset",
    about: "Everything passes again on each port, and its flows are written anew. The sides stay.",
  },
];

// wanted is the state to which an action brings a port.
function wanted(port, what, ends) {
  const side = what.body?.active_side;
  if (side === "toggle") return { active_side: port.side === "upper_tor" ? "lower_tor" : "upper_tor" };
  if (side) return { active_side: side };
  if (what.action === "/drop") return { dropped: [...new Set([...port.dropped, ...ends])] };
  if (what.action === "/output") return { dropped: port.dropped.filter((end) => !ends.includes(end)) };
  return { active_side: port.side, dropped: [] };
}

// act does something to ports, and shows each that failed: to those that were picked, or to all, for which it asks first.
// done is called with what was done in words.
export async function act(model, what, picked, done) {
  const total = picked ? picked.length : model.ports.size;
  const name = what.label.replace("…", "");
  const run = (ends) =>
    picked
      ? model.bring(what.verb, new Map(picked.map((i) => [i, wanted(model.ports.get(i), what, ends)])))
      : model.changeAll(what.verb, what.action, what.ends ? { out_sides: ends } : what.body);
  const result = el("div", { class: "result", role: "status" });
  const cancel = el("button", { onclick: () => $("ask").close() }, "Cancel");
  const attempt = async (ends) => {
    try {
      await run(ends);
      done(`${plural(total, "port")} ${what.verb}`);
      $("ask").close();
    } catch (failure) {
      result.replaceChildren(...outcome(failure, total, what.verb));
      cancel.textContent = "Close";
      cancel.focus();
      done("");
      return false;
    }
    return true;
  };
  const title = (text) => el("h2", { id: "ask-title" }, text);
  if (picked && !what.ends) {
    if (!(await attempt())) openDialog([title(`${name}: ${plural(total, "port")}`), result, el("div", { class: "acts end" }, cancel)]);
    return;
  }
  const ends = what.ends
    ? ["nic", "upper_tor", "lower_tor"].map((end) => el("input", { type: "checkbox", value: end, id: `end-${end}` }))
    : [];
  const go = el("button", { class: "go danger", disabled: ends.length > 0 }, picked ? name : `${name} all`);
  for (const box of ends) box.addEventListener("change", () => (go.disabled = !ends.some((b) => b.checked)));
  go.addEventListener(
    "click",
    once(async () => {
      go.disabled = true;
      go.setAttribute("aria-busy", "true");
      if (!(await attempt(ends.filter((b) => b.checked).map((b) => b.value)))) go.remove();
    }),
  );
  const labels = { nic: "NIC", upper_tor: "upper ToR", lower_tor: "lower ToR" };
  openDialog(
    [
      title(picked ? `${name}: ${plural(total, "port")}, ${ranges(picked)}?` : `${name}: all ${plural(total, "port")} of ${model.vmSet}?`),
      el("p", {}, what.about),
      ends.length > 0 &&
        el(
          "div",
          { class: "acts" },
          ends.map((box) => el("label", { class: "check" }, box, labels[box.value])),
        ),
      result,
      el("div", { class: "acts end" }, cancel, changes(go)),
    ].filter(Boolean),
  );
}

function outcome(failure, total, verb) {
  const bridges = Object.keys(failure.failed).sort((a, b) => number(a) - number(b));
  if (bridges.length === 0) return [el("p", { class: "error", role: "alert" }, failure.message)];
  return [
    el(
      "p",
      { class: "error", role: "alert" },
      `${plural(bridges.length, "port")} failed; ${total - bridges.length} of ${total} are ${verb}.`,
    ),
    el(
      "ul",
      { class: "failures" },
      bridges.map((b) => el("li", {}, el("b", {}, `Port ${number(b)}`), ` ${failure.failed[b].err_msg}`)),
    ),
  ];
}

const number = (bridge) => Number(bridge.match(/(\d+)$/)?.[1] ?? 0);

// askToken asks for the agent's token: { token, keep }. refused is true when the one before was not taken.
export async function askToken(refused) {
  const keep = el("input", { type: "checkbox", id: "keep-token" });
  const input = el("input", { type: "password", id: "token", autocomplete: "off", "aria-label": "Token", required: true });
  for (;;) {
    const form = el(
      "form",
      {
        onsubmit: (e) => {
          e.preventDefault();
          $("ask").close();
        },
      },
      input,
      el("button", { class: "go" }, "Open"),
      el("label", { class: "check" }, keep, "Keep it on this computer"),
    );
    await openDialog([
      el("h2", { id: "ask-title" }, "This agent wants a token"),
      el(
        "p",
        {},
        refused ? "The one before was not taken. " : "",
        "This browser forgets it when this tab is closed, or when you say so at the foot of the page.",
      ),
      form,
    ]);
    if (input.value) return { token: input.value, keep: keep.checked };
  }
}
