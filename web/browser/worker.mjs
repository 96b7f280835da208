// The worker of a page: it has the engine and what the browser keeps. The page only asks.
import { LaceError } from "./errors.mjs";
import { Seat, Stream } from "./seat.mjs";
import { Kept } from "./storage.mjs";

const base = new URL(".", import.meta.url).href;
const OLD = "/old";
let loading = null;
const kept = new Map();
const restored = new Map();

function engine() {
  loading ??= (async () => {
    const { load } = await import(`${base}engine.mjs`);
    const lace_page = {
      kept: (name) => restored.get(name) ?? [],
      changed: (name, changes) => kept.get(name).note(changes),
    };
    const python = await load(base, { modules: { lace_page } });
    return { python, api: python.pyimport("lace_browser") };
  })();
  return loading;
}

/** Have the engine do something; its answer as plain values. */
async function perform(operation, given, parts) {
  const { api } = await engine();
  const [text, bytes] = await api.call(operation, JSON.stringify(given), parts);
  const answer = JSON.parse(text);
  if (answer.error) throw new LaceError(answer.error);
  return { value: answer.value, bytes };
}

/** What a seat needs to lead: open, do, close; an answer comes when its changes are safe. */
const leading = {
  async begin(name, secret) {
    const { python } = await engine();
    const database = await Kept.open(name);
    kept.set(name, database);
    try {
      restored.set(name, await database.all());
      const old = await Kept.old(name);
      for (const [path, contents] of old ?? []) {
        const place = `${OLD}${path}`;
        python.FS.mkdirTree(place.slice(0, place.lastIndexOf("/")));
        python.FS.writeFile(place, contents);
      }
      const files = old ? `${OLD}/laces/${name}/records.lace` : null;
      const { value } = await perform("open", { name, secret, files }, []);
      await database.safe();
      if (old) await Kept.forgetOld(name);
      return value.verifier;
    } catch (error) {
      database.close();
      kept.delete(name);
      throw error;
    } finally {
      restored.delete(name);
    }
  },
  async call(operation, given, parts) {
    const answer = await perform(operation, given, parts);
    const places = [given.lace, given.other?.lace].filter((place) => kept.has(place));
    await Promise.all(places.map((place) => kept.get(place).safe()));
    return answer;
  },
  async finish(name) {
    try {
      await perform("close", { name }, []);
      await kept.get(name)?.safe();
    } finally {
      kept.get(name)?.close();
      kept.delete(name);
    }
  },
};

/** @type {Map<string, Promise<Seat>>} */
const seats = new Map();
const streams = new Map();
let last = 0;

async function seat(name) {
  if (seats.has(name)) return seats.get(name);
  throw new LaceError({
    code: "store.closed", detail: `${name} was closed`, hint: "Open it again.",
  });
}

const OPERATIONS = {
  async open({ name, secret }) {
    if (!seats.has(name)) {
      const taken = Seat.take(name, secret, leading);
      seats.set(name, taken);
      taken.catch(() => seats.delete(name));
    }
    const taken = await seats.get(name);
    if (secret && secret !== taken.secret) {
      throw new LaceError({
        code: "input.key", detail: `${name} is open already, with ${taken.verifier ?? "no key"}`,
        hint: "Close it first, then open it with the other secret.",
      });
    }
    return { value: { verifier: taken.verifier } };
  },
  async close({ name }) {
    const taken = seats.get(name);
    seats.delete(name);
    await (await taken)?.leave();
    return { value: null };
  },
  async begin({ operation, given }) {
    const stream = new Stream(await seat(given.lace), operation, given);
    await stream.begin().catch((error) => { stream.finished(); throw error; });
    last += 1;
    streams.set(last, stream);
    return { value: last };
  },
  async next({ stream }) {
    const found = await streams.get(stream)?.next() ?? { value: null };
    if (found.value === null) streams.delete(stream);
    return found;
  },
  async end({ stream }) {
    const ended = streams.get(stream);
    streams.delete(stream);
    await ended?.end();
    return { value: null };
  },
  async leads({ name }) {
    return { value: (await seat(name)).leads };
  },
};

self.addEventListener("message", async ({ data: { id, operation, given, parts } }) => {
  try {
    let answer;
    if (Object.hasOwn(OPERATIONS, operation)) answer = await OPERATIONS[operation](given);
    else if (given.lace) answer = await (await seat(given.lace)).ask(operation, given, parts);
    else answer = await perform(operation, given, parts);
    self.postMessage({ id, value: answer.value, bytes: answer.bytes });
  } catch (error) {
    self.postMessage({ id, error: LaceError.told(error) });
  }
});
