// Lace in a page: the same engine as everywhere, loaded from this folder and nothing else.
//
//   import { Lace } from "./lace.mjs";
//   const notes = await Lace.open("notes-demo", { secret: await Lace.demoSecret("me") });
//   await notes.store([{ at: "//notes-demo//notes/message//msg/1", fields: { Title: "Hello" }, data: "Hi" }]);
//   const found = await notes.list("//notes-demo//notes//");
//
// Records are kept in IndexedDB and are still there after a reload.
import * as noble from "./noble.mjs";

const FOLDER = "/laces";
let loading = null;

/** Load the engine once; the first call takes some seconds. */
export function load(base = new URL(".", import.meta.url).href) {
  loading ??= start(base);
  return loading;
}

async function start(base) {
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: base });
  python.registerJsModule("lace_noble", noble);
  const archive = new Uint8Array(await (await fetch(`${base}lace.zip`)).arrayBuffer());
  python.unpackArchive(archive, "zip", { extractDir: "/lib/lace-bundle" });
  python.runPython(`
import sys, unicodedata
sys.path.insert(0, "/lib/lace-bundle")
assert unicodedata.unidata_version == "16.0.0", "the engine is held to Unicode 16.0"
sys.modules["unicodedata2"] = unicodedata
`);
  python.FS.mkdirTree(FOLDER);
  return { python, api: python.pyimport("lace_browser") };
}

/** The laces that this tab has open, by name. @type {Map<string, Promise<Kept>>} */
const open = new Map();

/** One lace's files: this tab alone writes them, and their copy in IndexedDB is all theirs. */
class Kept {
  constructor(database, mount, release) {
    this.database = database;
    this.mount = mount;
    this.release = release;
    this.saved = Promise.resolve();
  }

  static async begin(name) {
    const { python } = await load();
    const place = `${FOLDER}/${name}`;
    python.FS.mkdirTree(place);
    const database = python.FS.filesystems.IDBFS;
    if (!globalThis.indexedDB || !database) return new Kept(null, null, () => {});
    const release = await hold(name);
    try {
      const { mount } = python.FS.mount(database, {}, place);
      const made = new Kept(database, mount, release);
      await made.settle(true);
      return made;
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Bring files and IndexedDB in line, one way or the other. */
  settle(fromDatabase) {
    if (this.database === null) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.database.syncfs(this.mount, fromDatabase, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Write everything to IndexedDB; one time after the other. */
  save() {
    const next = () => this.settle(false);
    this.saved = this.saved.then(next, next);
    return this.saved;
  }

  async end() {
    await this.save();
    if (this.database !== null) (await load()).python.FS.unmount(this.mount.mountpoint);
    this.release();
  }
}

/** Take the lock of a lace for as long as it is open; return how to give it back. */
function hold(name) {
  if (!navigator.locks) {
    throw new LaceError({
      code: null, detail: "this page cannot keep other tabs from writing the same lace",
      hint: "Serve the page by https, or from localhost.",
    });
  }
  return new Promise((resolve, reject) => {
    const held = (lock) => {
      if (lock) return new Promise((release) => resolve(release));
      reject(new LaceError({
        code: "store.locked", detail: `${name} is open in another tab of this browser`,
        hint: "Close it there, or work with it there: one tab at a time writes a lace.",
      }));
      return undefined;
    };
    navigator.locks.request(`lace/${name}`, { ifAvailable: true }, held).catch(reject);
  });
}

/** What the engine says is wrong: with a stable code and what to do. */
export class LaceError extends Error {
  constructor({ code, detail, hint }) {
    super(detail);
    this.name = "LaceError";
    this.code = code;
    this.hint = hint;
  }
}

async function call(name, ...given) {
  const { python, api } = await load();
  try {
    return await api[name](...given);
  } catch (error) {
    const told = python.runPython("import sys, lace_browser; lace_browser.explain(sys.last_exc) if hasattr(sys, 'last_exc') else None");
    throw told ? new LaceError(JSON.parse(told)) : error;
  }
}

export class Lace {
  constructor(name, verifier) {
    this.name = name;
    this.verifier = verifier;
  }

  /** Open a lace that is kept under a name in this browser; make it if it is not there.
   * One tab at a time has it open; whoever comes second is told so. */
  static async open(name, { secret = "" } = {}) {
    if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}$/.test(name)) {
      throw new LaceError({
        code: null, detail: `${name} is not a name`, hint: "Use letters, digits, dots and hyphens.",
      });
    }
    const first = !open.has(name);
    if (first) open.set(name, Kept.begin(name));
    try {
      await open.get(name);
      const path = `${FOLDER}/${name}/records.lace`;
      const { verifier } = JSON.parse(await call("open_lace", name, path, secret));
      return new Lace(name, verifier);
    } catch (error) {
      if (first) {
        const begun = open.get(name);
        open.delete(name);
        await begun?.then((kept) => kept.end(), () => {});
      }
      throw error;
    }
  }

  /** The secret of a demo key. Whoever knows the words has it: never use it for anything real. */
  static demoSecret(words) {
    return call("demo_secret", words);
  }

  /** Store records; says of each what became of it. */
  async store(records) {
    const outcomes = JSON.parse(await call("store", this.name, JSON.stringify(records)));
    await (await open.get(this.name))?.save();
    return outcomes;
  }

  /** The records that a coordinate, prefix, hash address or rules select. */
  async list(selector) {
    return JSON.parse(await call("list_records", this.name, selector));
  }

  /** Interlace with another lace of this page, to the fixed point. */
  async sync(other, selector) {
    const result = JSON.parse(await call("sync", this.name, other.name, selector));
    for (const name of [this.name, other.name]) await (await open.get(name))?.save();
    return result;
  }

  /** Whether bytes are a valid record, and if not, why. */
  static async validate(bytes) {
    return JSON.parse(await call("validate", bytes));
  }

  /** Close it; another tab may open it then. */
  async close() {
    const kept = open.get(this.name);
    open.delete(this.name);
    await call("close", this.name);
    await (await kept)?.end();
  }
}
