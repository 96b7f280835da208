// Lace in a page: the same engine as everywhere, in a worker, so that the page never waits for it.
//
//   import { IndexedDbLace, Lace, list, open_interlace, for_each, selector } from "./lace.mjs";
//
// The page's own types are in lace.d.mts, and what everything does in README.md.
import { LaceError } from "./errors.mjs";

export { LaceError };

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}$/;
const text = new TextEncoder();
let worker = null;
let last = 0;
const waiting = new Map();

/** Ask the worker something. */
function ask(operation, given = {}, parts = []) {
  last += 1;
  const id = last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    (worker ??= started()).postMessage({ id, operation, given, parts });
  });
}

function started() {
  const made = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  made.addEventListener("message", ({ data: { id, value, bytes, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new LaceError(error));
    else resolve({ value, bytes });
  });
  made.addEventListener("error", (event) => {
    event.preventDefault();
    const why = new LaceError({
      code: "dependency.missing",
      detail: `the worker of Lace does not start: ${event.message ?? "it cannot be loaded"}`,
      hint: "Serve the whole folder of Lace from the page's own origin, and allow its worker "
        + "(Content-Security-Policy: worker-src 'self'; script-src 'self' 'wasm-unsafe-eval').",
    });
    for (const { reject } of waiting.values()) reject(why);
    waiting.clear();
    worker = null;
  });
  return made;
}

/** An argument that is not what a call takes. */
function wrong(wanted, given, hint = "See README.md for what each call takes.") {
  const kind = given === null ? "null" : Array.isArray(given) ? "an array" : typeof given;
  const detail = `this takes ${wanted}, not ${kind === "object" ? "an object" : kind}`;
  return new LaceError({ code: "input.type", detail, hint });
}

const asText = (given, wanted, hint) => {
  if (typeof given === "string") return given;
  throw wrong(wanted, given, hint);
};

// --- records ---

/** A record: its bytes, and what they say. */
export class LaceRecord {
  constructor({ hash, type, place, tai, date, author, fields, data }, bytes) {
    this.hash = hash;
    this.type = type;
    this.place = place;
    this.tai = tai;
    this.date = date === null ? null : new Date(date);
    this.author = author;
    this.fields = fields;
    this.bytes = bytes;
    this.data = bytes.subarray(bytes.length - data);
    Object.freeze(this);
  }

  /** The data as text; where it is none, with signs of replacement. */
  get text() {
    return new TextDecoder().decode(this.data);
  }
}

/** The records of an answer. */
function records({ value, bytes }) {
  let at = 0;
  return value.map((entry) => {
    at += entry.size;
    return new LaceRecord(entry, bytes.slice(at - entry.size, at));
  });
}

/** Records as the engine takes them: bytes apart. A new one gets its time and its chance here, so
 * that it stays the same record should it be sent twice. */
function given(list) {
  if (!Array.isArray(list)) {
    throw wrong("an array of records", list, "Write store(lace, [record]).");
  }
  const parts = [];
  const part = (bytes) => parts.push(bytes) - 1;
  const made = list.map((record) => {
    if (record instanceof Uint8Array) return { bytes: part(record) };
    if (record instanceof LaceRecord) return { bytes: part(record.bytes) };
    const hint = 'Write { place: "//group//app//name", data: "Hello" }.';
    if (typeof record !== "object" || record === null) {
      throw wrong("bytes, a record, or what a new one says", record, hint);
    }
    const { place, tai, fields = {}, data = "", ...more } = record;
    const [unknown] = Object.keys(more);
    if (unknown !== undefined) {
      const detail = `a new record has place, tai, fields and data, and no ${unknown}`;
      throw new LaceError({ code: "input.type", detail, hint });
    }
    if (typeof data !== "string" && !(data instanceof Uint8Array)) {
      throw wrong("data as text or bytes", data, hint);
    }
    const aux = crypto.getRandomValues(new Uint8Array(32));
    return {
      place: asText(place, "a place", hint),
      tai: tai === undefined ? null : asText(tai, "a time such as 1700000000:000000000"),
      fields: Object.entries(fields).flatMap(([name, values]) => (
        [values].flat().map((value) => [name, asText(value, `text in the field ${name}`)]))),
      data: part(typeof data === "string" ? text.encode(data) : data),
      now: Date.now(),
      aux: Array.from(aux, (byte) => byte.toString(16).padStart(2, "0")).join(""),
    };
  });
  return [made, parts];
}

// --- what belongs ---

/** What belongs: a place, a prefix, a hash address, or rules. */
export class Selector {
  constructor(plain) {
    this.plain = plain;
    Object.freeze(this);
  }
}

/** Say what belongs, by //group//app//name, by //group//app//, by a hash address, or by rules. */
export function selector(rules) {
  return new Selector(asText(rules, "a selector as text", 'Write selector("//group//app//").'));
}

/** The rules of a room: what its members signed where their roles let them, and their grants. */
export function room(prefix, choices = {}) {
  const { authority, roles, removed, places, reads, delegation, ...more } = choices;
  asText(prefix, "a place such as //group//app//", "Write room(\"//group//app//\", …).");
  const hint = "Write room(prefix, { authority: \"V.…\" }).";
  asText(authority, "the verifier of an authority", hint);
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) {
    throw new LaceError({ code: "input.type", detail: `a room has no ${unknown}`, hint });
  }
  return new Selector({ room: { prefix, authority, roles, removed, places, reads, delegation } });
}

function chosen(what) {
  if (what instanceof Selector) return what.plain;
  return asText(what, "a selector", 'Write selector("//group//app//"), or the text alone.');
}

// --- the two ends ---

/** One that is somewhere else: it is called when something is done with it. */
export class Peer {
  constructor(address, expected, secret) {
    this.address = address;
    this.expected = expected;
    Object.defineProperty(this, "plain", { value: { address, expected, secret } });
    Object.freeze(this);
  }
}

const target = (end) => {
  if (end instanceof Lace) return { lace: end.name };
  if (end instanceof Peer) return { peer: end.plain };
  throw wrong("a lace or a peer", end, "Open one: await IndexedDbLace.open(name).");
};

const local = (end) => {
  if (end instanceof Lace) return end.name;
  throw wrong("a lace", end, "Open one: await IndexedDbLace.open(name).");
};

async function other(end) {
  if (end instanceof Lace) return { lace: end.name };
  if (end instanceof Peer) return end.plain;
  if (typeof end === "string") return (await Lace.connect_websocket(end)).plain;
  throw wrong("a lace, a peer or an address", end, 'Write Lace.connect_websocket("wss://…").');
}

/** A lace that this browser keeps. */
export class Lace {
  constructor(name, verifier) {
    this.name = name;
    this.verifier = verifier;
    Object.freeze(this);
  }

  /** A lace at an address, which is called when something is done with it. */
  static async connect_websocket(address, { expected = null, secret = null } = {}) {
    asText(address, "an address", 'Write "wss://example.com/interlace".');
    const wanted = address.replace(/^(wss?):\/\//, "$1:");
    const { value } = await ask("address", { address: wanted, expected });
    return new Peer(value, expected, secret);
  }

  /** Open a lace that is kept under a name in this browser; make it if it is not there. */
  static open(name, options) {
    return IndexedDbLace.open(name, options);
  }

  /** A new secret, which nobody else has. Whoever knows it signs in its name. */
  static async new_secret() {
    return (await ask("new_secret")).value;
  }

  /** The secret of a demo key. Whoever knows the words has it: never use it for anything real. */
  static async demo_secret(words) {
    return (await ask("demo_secret", { words: asText(words, "words") })).value;
  }

  /** The verifier of a secret: what others know it by. */
  static async verifier(secret) {
    return (await ask("verifier", { secret: asText(secret, "a secret") })).value;
  }

  /** Whether bytes are a record, and if not, why. */
  static async validate(bytes) {
    if (!(bytes instanceof Uint8Array)) throw wrong("bytes", bytes, "Give a Uint8Array.");
    const { value: { record, ...outcome }, bytes: raw } = await ask("validate", {}, [bytes]);
    return record ? { ...outcome, record: new LaceRecord(record, raw) } : outcome;
  }

  store(made) { return store(this, made); }

  list(what) { return list(this, what); }

  get(address) { return get(this, address); }

  forget(what) { return forget(this, what); }

  sync(end, what) { return sync(this, end, what); }

  open_interlace(end, what) { return open_interlace(this, end, what); }

  for_each(what) { return for_each(this, what); }

  subscribe(what, hear, fail) { return subscribe(this, what, hear, fail); }

  /** Whether this tab writes the lace; otherwise it follows the tab that does. */
  async leads() {
    return (await ask("leads", { name: this.name })).value;
  }

  /** Close it in this tab. */
  async close() {
    await ask("close", { name: this.name });
  }
}

/** A lace in IndexedDB, one entry a record. */
export class IndexedDbLace extends Lace {
  static async open(name, { secret = "", records: seeds = [], ...more } = {}) {
    if (!NAME.test(asText(name, "a name", 'Write open("notes").'))) {
      throw new LaceError({
        code: "input.type", detail: `${JSON.stringify(name.slice(0, 80))} is not a name`,
        hint: "Use up to 80 letters, digits, dots and hyphens.",
      });
    }
    const [unknown] = Object.keys(more);
    if (unknown !== undefined) {
      throw new LaceError({
        code: "input.type", detail: `a lace is opened with secret and records, and no ${unknown}`,
        hint: "Write open(name, { secret, records }).",
      });
    }
    asText(secret, "a secret as text", "Make one with await Lace.new_secret().");
    const [made, parts] = given(seeds);
    const { value } = await ask("open", { name, secret });
    const opened = new IndexedDbLace(name, value.verifier);
    if (made.length) {
      const { value: outcomes } = await ask("store", { lace: name, records: made }, parts);
      const bad = outcomes.findIndex((one) => one.hash === null);
      if (bad >= 0) {
        throw new LaceError({
          ...outcomes[bad], detail: `record ${bad} to begin with: ${outcomes[bad].detail}`,
          hint: "Give records as bytes, or what new ones say.",
        });
      }
    }
    return opened;
  }
}

// --- what is done with them ---

/** Store records; says of each what became of it. */
export async function store(end, made) {
  const where = target(end);
  const [specs, parts] = given(made);
  return (await ask("store", { ...where, records: specs }, parts)).value;
}

/** The records that belong, the oldest first. */
export async function list(end, what) {
  return records(await ask("list", { ...target(end), selector: chosen(what) }));
}

/** The newest record at a place, or the record of a hash address; null if there is none. */
export async function get(end, address) {
  const wanted = asText(address, "a place or a hash address");
  const [found = null] = records(await ask("get", { ...target(end), address: wanted }));
  return found;
}

/** Remove what is selected from this lace, and from nowhere else; says how many. */
export async function forget(end, what) {
  return (await ask("forget", { lace: local(end), selector: chosen(what) })).value;
}

/** Interlace until nothing is left to say. */
export async function sync(left, right, what) {
  const names = { lace: local(left), selector: chosen(what), other: await other(right) };
  return (await ask("sync", names)).value;
}

/** Interlace and stay: what either side stores reaches the other if it belongs. */
export async function open_interlace(left, right, what) {
  const names = { lace: local(left), selector: chosen(what), other: await other(right) };
  const { value } = await ask("begin", { operation: "open_interlace", given: names });
  return new OpenInterlace(value);
}

/** An exchange that stays: iterate over its events, or ask for the next one. */
export class OpenInterlace {
  #stream;

  constructor(stream) {
    this.#stream = stream;
  }

  /** The next event; null when the exchange is over. */
  async next_event() {
    return (await ask("next", { stream: this.#stream })).value;
  }

  /** Takes events up to the next fixed point; rejects if the exchange ends before. */
  async fixed_point() {
    for await (const event of this) {
      if (event.event === "fixed-point") return event.result;
      if (event.event === "aborted") throw new LaceError({ ...event, hint: "Open it again." });
    }
    throw new LaceError({
      code: "interlace.gone", detail: "the exchange ended", hint: "Open it again.",
    });
  }

  async* [Symbol.asyncIterator]() {
    for (;;) {
      const event = await this.next_event();
      if (event === null) return;
      yield event;
    }
  }

  /** End the exchange; what was stored stays stored. */
  async close() {
    await ask("end", { stream: this.#stream });
  }
}

/** Each record that belongs, then each one that comes to be; every one once. */
export function for_each(end, what) {
  const names = { lace: local(end), selector: chosen(what) };
  let begun = null;
  let ended = false;
  const begin = () => (begun ??= ask("begin", { operation: "for_each", given: names }));
  return {
    async next() {
      if (ended) return { done: true, value: undefined };
      const { value: stream } = await begin();
      const answer = await ask("next", { stream });
      if (answer.value === null) return { done: true, value: undefined };
      return { done: false, value: records(answer)[0] };
    },
    async return() {
      ended = true;
      const stream = await begun?.catch(() => null);
      if (stream) await ask("end", { stream: stream.value });
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() { return this; },
  };
}

/** Be told of each record that belongs, now and later; call what is returned to end it. */
export function subscribe(end, what, hear, fail = (error) => { throw error; }) {
  if (typeof hear !== "function") {
    throw wrong("a function", hear, "Write subscribe(lace, selector, (record) => …).");
  }
  const found = for_each(end, what);
  (async () => {
    for await (const record of found) hear(record);
  })().catch(fail);
  return () => { found.return().catch(() => {}); };
}

/** Let this page be loaded again without a network. Where Lace lies deeper than the page,
 * ``script`` is a file beside the page that says:
 * self.lace = "./lace/"; importScripts("./lace/offline.js"); */
export async function offline(script = new URL("./offline.js", import.meta.url)) {
  if (!navigator.serviceWorker) {
    throw new LaceError({
      code: "dependency.missing", detail: "this browser keeps no pages for later",
      hint: "Serve the page by https, or from localhost.",
    });
  }
  try {
    await navigator.serviceWorker.register(script);
  } catch (error) {
    throw new LaceError({
      code: "input.file", detail: `the service worker ${script} cannot be used: ${error.message}`,
      hint: "Put a file beside the page that says: "
        + 'self.lace = "./lace/"; importScripts("./lace/offline.js");',
    });
  }
  const { active } = await navigator.serviceWorker.ready;
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  const ours = loaded.filter((address) => address.startsWith(`${location.origin}/`));
  const { port1, port2 } = new MessageChannel();
  const kept = new Promise((resolve) => { port1.onmessage = resolve; });
  active.postMessage({ keep: [location.href.split("#")[0], ...new Set(ours)] }, [port2]);
  await kept;
}
