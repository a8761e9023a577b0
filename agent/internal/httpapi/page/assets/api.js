// The agent's HTTP API: requests, errors in words, and the event stream. It knows nothing of the page.

const tokenKey = "mux-agent-token";

// A Failure is an answer that is not 200, or none at all.
export class Failure extends Error {
  constructor(status, code, words, body = {}) {
    super(words);
    this.status = status;
    this.code = code;
    this.failed = body.failed || {};
    this.muxes = body.muxes || {};
  }
}

// askToken is called when the agent wants a token. It resolves to one, and is kept for the session of this tab only.
let askToken = null;
let asking = null;
export function onTokenWanted(f) {
  askToken = f;
}

function headers(more = {}) {
  const token = sessionStorage.getItem(tokenKey);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

// send is fetch, which asks for a token where one is wanted, once for all requests that wait for it.
async function send(path, options = {}) {
  for (;;) {
    const used = sessionStorage.getItem(tokenKey);
    const answer = await fetch(path, { cache: "no-store", ...options, headers: headers(options.headers) });
    if (answer.status !== 401 || !askToken) return answer;
    if (sessionStorage.getItem(tokenKey) !== used) continue; // somebody was quicker
    asking ??= askToken(Boolean(used)).finally(() => (asking = null));
    sessionStorage.setItem(tokenKey, await asking);
  }
}

// skew is how far the agent's clock is ahead of ours, in milliseconds. Its header has whole seconds.
let skew = 0;
export const agentNow = () => Date.now() + skew;

// request returns the JSON of an answer, or throws a Failure.
export async function request(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  if (method !== "GET") path += `?reqId=${randomID()}`;
  let answer;
  try {
    answer = await send(path, options);
  } catch {
    throw new Failure(0, "unreachable", "The agent does not answer.");
  }
  const date = Date.parse(answer.headers.get("Date"));
  if (Math.abs(date - Date.now()) > 2000) skew = date - Date.now();
  let json = {};
  try {
    json = await answer.json();
  } catch {
    if (answer.ok) throw new Failure(answer.status, "not_an_agent", "The answer is no JSON.");
  }
  if (answer.ok) return json;
  throw new Failure(answer.status, answer.headers.get("Mux-Error-Code") || "", words(json.err_msg || json.reason || answer.statusText), json);
}

// words cuts off what the replaced service puts before the words of an error.
export function words(text) {
  return text.replace(/^<\w+ '[^']*'> \d{3} [A-Z][\w ]*: (remote_addr=.* msg=)?/s, "");
}

// randomID also works where the page came by plain HTTP, which has no crypto.randomUUID.
function randomID() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

const silence = 40_000; // the agent says every 15 seconds that it lives

// follow reads the event stream of a vm_set until the signal aborts, and opens it again when it breaks. It is read with
// fetch, since EventSource can't send a token.
//
//	on.open()          it is live; what happens from now on is told
//	on.change(event)   a mux changed
//	on.missed()        some changes were not told
//	on.lost()          it broke, and is being opened again
export async function follow(path, signal, on) {
  let last = "";
  while (!signal.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    signal.addEventListener("abort", end);
    try {
      const answer = await send(path, { signal: attempt.signal, headers: last ? { "Last-Event-ID": last } : {} });
      if (!answer.ok) throw new Error(answer.statusText);
      on.open();
      await read(answer.body, attempt, (name, id, data) => {
        if (id) last = id;
        if (name === "change") on.change(JSON.parse(data));
        if (name === "missed") on.missed();
      });
    } catch {
      // It is opened again, whatever it was.
    }
    end();
    signal.removeEventListener("abort", end);
    if (signal.aborted) return;
    on.lost();
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

// read parses server-sent events until the stream ends.
async function read(body, attempt, emit) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let dead;
  try {
    for (;;) {
      clearTimeout(dead);
      dead = setTimeout(() => attempt.abort(), silence);
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const fields = { event: "", id: "", data: "" };
        for (const line of part.split("\n")) {
          const at = line.indexOf(":");
          if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
        }
        emit(fields.event, fields.id, fields.data);
      }
    }
  } finally {
    clearTimeout(dead);
  }
}
