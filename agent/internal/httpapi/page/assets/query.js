// The search: which ports a text names, in the grammar of the command line (internal/api/query.go), and beyond it.
//
// Terms with a comma between them find the ports of each; terms with a blank between them find those that all of them find.
// A number finds its port, and behind it the ports with a name that ends in this number. Text that is no number, range or
// word is looked for within the names of bridges and interfaces and in reasons. internal/api/testdata/queries.json has cases.

const words = {
  all: () => true,
  upper: (p) => p.side === "upper_tor",
  lower: (p) => p.side === "lower_tor",
  unhealthy: (p) => !p.healthy,
  dropped: (p) => p.dropped.length > 0,
};

// search returns the ports that a text finds, in the order in which they are shown.
export function search(text, ports) {
  const all = [...ports].sort((a, b) => a.index - b.index);
  const narrows = text
    .split(",")
    .map((part) => part.trim())
    .join(",")
    .split(/\s+/)
    .filter(Boolean)
    .map((narrow) => narrow.split(",").filter(Boolean).map(term));
  const found = all.filter((port) => narrows.every((terms) => terms.some((t) => t.is(port) || t.named?.(port))));
  const first = found.filter((port) => narrows.every((terms) => terms.some((t) => t.is(port))));
  return [...first, ...found.filter((port) => !first.includes(port))];
}

// term reads one term: is tells whether it means a port, and named whether it finds one by the end of a name alone.
function term(text) {
  if (/^\d+$/.test(text)) {
    const index = Number(text);
    return { is: (port) => port.index === index, named: (port) => names(port).some((name) => endOf(name) === index) };
  }
  const range = /^(\d+)-(\d+)$/.exec(text)?.slice(1).map(Number);
  if (range && range[0] <= range[1]) return { is: (port) => port.index >= range[0] && port.index <= range[1] };
  if (Object.hasOwn(words, text.toLowerCase())) return { is: words[text.toLowerCase()] };
  const part = text.toLowerCase();
  return { is: (port) => [...names(port), port.reason].some((name) => name.toLowerCase().includes(part)) };
}

const names = (port) => [port.bridge, port.ports.nic, port.ports.upper_tor, port.ports.lower_tor];
const endOf = (name) => Number(/\d+$/.exec(name)?.[0] ?? NaN);
