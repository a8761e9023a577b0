// The dialog that asks: before something is done to all ports, and for a token.

import { $, el, say, plural } from "./dom.js";

// openDialog shows what is built, and resolves when the dialog is closed.
function openDialog(children) {
  const dialog = $("ask");
  dialog.replaceChildren(...children);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
}

export const allActions = [
  { label: "Toggle", verb: "toggled", action: "", body: { active_side: "toggle" }, about: "Each port switches to its other side." },
  { label: "Set to upper", verb: "set to upper", action: "", body: { active_side: "upper_tor" }, about: "The upper ToR becomes the active one of each port." },
  { label: "Set to lower", verb: "set to lower", action: "", body: { active_side: "lower_tor" }, about: "The lower ToR becomes the active one of each port." },
  { label: "Drop…", verb: "changed", action: "/drop", ends: true, about: "Packets to these ends are dropped on each port:" },
  { label: "Output…", verb: "changed", action: "/output", ends: true, about: "Packets to these ends pass again on each port:" },
  { label: "Reset", verb: "reset", action: "/reset", about: "Everything passes again on each port, and its flows are written anew. The sides stay." },
];

// askAll asks before it does something to all ports, then does it, and shows each failure.
export function askAll(model, what) {
  const total = model.ports.size;
  const name = what.label.replace("…", "");
  const title = el("h2", { id: "ask-title" }, `${name}: all ${plural(total, "port")} of ${model.vmSet}?`);
  const ends = what.ends ? ["nic", "upper_tor", "lower_tor"].map((end) => el("input", { type: "checkbox", value: end, id: `end-${end}` })) : [];
  const result = el("div", { class: "result", role: "status" });
  const cancel = el("button", { onclick: () => $("ask").close() }, "Cancel");
  const go = el("button", { class: "go danger", disabled: ends.length > 0 }, `${name} all`);
  for (const box of ends) box.addEventListener("change", () => (go.disabled = !ends.some((b) => b.checked)));
  go.addEventListener("click", async () => {
    go.disabled = true;
    go.setAttribute("aria-busy", "true");
    const body = what.ends ? { out_sides: ends.filter((b) => b.checked).map((b) => b.value) } : what.body;
    try {
      await model.changeAll(what.action, body);
      say(`${plural(total, "port")} ${what.verb}`);
      $("ask").close();
    } catch (failure) {
      result.replaceChildren(...outcome(failure, total, what.verb));
      go.remove();
      cancel.textContent = "Close";
      cancel.focus();
    }
  });
  const labels = { nic: "NIC", upper_tor: "upper ToR", lower_tor: "lower ToR" };
  return openDialog([
    title, el("p", {}, what.about),
    ends.length > 0 && el("div", { class: "acts" }, ends.map((box) => el("label", { class: "check" }, box, labels[box.value]))),
    result, el("div", { class: "acts end" }, cancel, go),
  ].filter(Boolean));
}

function outcome(failure, total, verb) {
  const bridges = Object.keys(failure.failed).sort((a, b) => number(a) - number(b));
  if (bridges.length === 0) return [el("p", { class: "error", role: "alert" }, failure.message)];
  return [
    el("p", { class: "error", role: "alert" }, `${plural(bridges.length, "port")} failed; ${total - bridges.length} of ${total} are ${verb}.`),
    el("ul", { class: "failures" }, bridges.map((b) => el("li", {}, el("b", {}, `Port ${number(b)}`), ` ${failure.failed[b].err_msg}`))),
  ];
}

const number = (bridge) => Number(bridge.match(/(\d+)$/)?.[1] ?? 0);

// askToken asks for the agent's token. refused is true when the one before was not taken.
export async function askToken(refused) {
  const input = el("input", { type: "password", id: "token", autocomplete: "off", "aria-label": "Token", required: true });
  for (;;) {
    const form = el("form", {
      onsubmit: (e) => {
        e.preventDefault();
        $("ask").close();
      },
    }, input, el("button", { class: "go" }, "Open"));
    await openDialog([
      el("h2", { id: "ask-title" }, "This agent wants a token"),
      el("p", {}, refused ? "The one before was not taken. " : "", "It is kept until this tab is closed, and nowhere else."), form,
    ]);
    if (input.value) return input.value;
  }
}
