// The agent's HTTP API: requests, errors in words, and the event stream. It knows nothing of the page.

const tokenKey = "mux-agent-token";

// A Failure is an answer that is not 200, or none at all: then its status is 0.
export class Failure extends Error {
  constructor(status, code, words, body = {}) {
    super(words);
    this.status = status;
    this.code = code;
    this.failed = body.failed || {};
    this.muxes = body.muxes || {};
  }
}

// A token is kept for the session of this tab, or on this computer, where that was asked for.
const token = () => sessionStorage.getItem(tokenKey) ?? localStorage.getItem(tokenKey);
export const hasToken = () => token() !== null;

export function forgetToken() {
  sessionStorage.removeItem(tokenKey);
  localStorage.removeItem(tokenKey);
}

// askToken is called when the agent wants a token. It resolves to {token, keep}.
let askToken = null;
let asking = null;
export function onTokenWanted(f) {
  askToken = f;
}

async function askOnce(refused) {
  const { token, keep } = await askToken(refused);
  forgetToken();
  (keep ? localStorage : sessionStorage).setItem(tokenKey, token);
}

// lastByte is when a byte of the agent last came, in milliseconds of our clock.
let lastByte = Date.now();
export const lastHeard = () => lastByte;

// The agent says every 15 seconds on each stream that it lives. From silence, in milliseconds, follows that it doesn't.
const silence = 18_000;
// A change takes milliseconds. A person waits for it so long, in milliseconds.
const patience = 10_000;

// A Line is one request on its way. It is given up when nothing came for so many milliseconds.
class Line {
  constructor(limit, outer) {
    this.limit = limit;
    this.end = new AbortController();
    this.outer = outer;
    this.stop = () => this.end.abort();
    outer?.addEventListener("abort", this.stop);
    if (outer?.aborted) this.stop();
    this.wait();
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.stop, this.limit);
  }

  // heard is called when a byte came.
  heard() {
    lastByte = Date.now();
    this.wait();
  }

  close() {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.stop);
    this.stop();
  }
}

// send is fetch, which asks for a token where one is wanted, once for all requests that wait for it.
async function send(line, path, options = {}) {
  for (;;) {
    const used = token();
    const headers = used === null ? options.headers : { ...options.headers, Authorization: `Bearer ${used}` };
    const answer = await fetch(path, { cache: "no-store", ...options, headers, signal: line.end.signal });
    line.heard();
    if (answer.status !== 401 || !askToken) return answer;
    if (token() !== used) continue; // somebody was quicker
    clearTimeout(line.timer); // a person may take long
    asking ??= askOnce(used !== null).finally(() => (asking = null));
    await asking;
    line.wait();
  }
}

// chunks reads the body of an answer as it comes.
async function* chunks(answer, line) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    line.heard();
    if (done) return;
    yield value;
  }
}

// skew is how far the agent's clock is ahead of ours, in milliseconds. Its header has whole seconds.
let skew = 0;
export const agentNow = () => Date.now() + skew;

// request returns the JSON of an answer, or throws a Failure. A change has a reqId, so that its events can be told.
export async function request(method, path, body, reqId = randomID()) {
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const reads = method === "GET";
  if (!reads) path += `?reqId=${reqId}`;
  const line = new Line(reads ? silence : patience);
  let answer;
  let text = "";
  try {
    answer = await send(line, path, options);
    for await (const chunk of chunks(answer, line)) text += chunk;
  } catch {
    if (reads) throw new Failure(0, "unreachable", "The agent does not answer.");
    throw new Failure(0, "unreachable", "The agent did not answer. The change may still be made: look at the port before you ask again.");
  } finally {
    line.close();
  }
  const date = Date.parse(answer.headers.get("Date"));
  if (Math.abs(date - Date.now()) > 2000) skew = date - Date.now();
  if (!answer.ok) throw failureOf(answer, text);
  try {
    return JSON.parse(text);
  } catch {
    throw new Failure(answer.status, "not_an_agent", "The answer is not JSON.");
  }
}

function failureOf(answer, text) {
  let json = {};
  try {
    json = JSON.parse(text);
  } catch {
    // A proxy's, perhaps.
  }
  return new Failure(
    answer.status,
    answer.headers.get("Mux-Error-Code") || "",
    words(json.err_msg || json.reason || answer.statusText),
    json,
  );
}

// words cuts off what the replaced service puts before the words of an error.
export function words(text) {
  return text.replace(/^<\w+ '[^']*'> \d{3} [A-Z][\w ]*: (remote_addr=.* msg=)?/s, "");
}

// randomID also works where the page came by plain HTTP, which has no crypto.randomUUID.
export function randomID() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

// follow reads the event stream of a vm_set until the signal aborts, and opens it again when it breaks. It is read with
// fetch, since EventSource can't send a token.
//
//	on.open()          it is live; what happens from now on is told
//	on.change(event)   a mux changed
//	on.missed()        some changes were not told
//	on.lost(failure)   it broke, and is being opened again
export async function follow(path, signal, on) {
  let last = "";
  while (!signal.aborted) {
    const line = new Line(silence, signal);
    let failure = new Failure(0, "unreachable", "The agent does not answer.");
    try {
      const answer = await send(line, path, { headers: last ? { "Last-Event-ID": last } : {} });
      if (!answer.ok) {
        let text = "";
        for await (const chunk of chunks(answer, line)) text += chunk;
        failure = failureOf(answer, text);
      } else {
        on.open();
        await read(chunks(answer, line), (name, id, data) => {
          if (id) last = id;
          if (name === "change") on.change(JSON.parse(data));
          if (name === "missed") on.missed();
        });
      }
    } catch {
      // It is opened again, whatever it was.
    } finally {
      line.close();
    }
    if (signal.aborted) return;
    on.lost(failure);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

// read parses server-sent events until the stream ends.
async function read(parts, emit) {
  let rest = "";
  for await (const part of parts) {
    const events = (rest + part).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fields = { event: "", id: "", data: "" };
      for (const line of event.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).trimStart();
      }
      emit(fields.event, fields.id, fields.data);
    }
  }
}
