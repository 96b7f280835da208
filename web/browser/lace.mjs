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
  if (globalThis.indexedDB && python.FS.filesystems.IDBFS) {
    python.FS.mkdirTree(FOLDER);
    python.FS.mount(python.FS.filesystems.IDBFS, {}, FOLDER);
    await settle(python, true);
  } else {
    python.FS.mkdirTree(FOLDER);
  }
  return { python, api: python.pyimport("lace_browser") };
}

/** Bring files and IndexedDB in line, one way or the other. */
function settle(python, fromDatabase) {
  return new Promise((resolve, reject) => {
    python.FS.syncfs(fromDatabase, (error) => (error ? reject(error) : resolve()));
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

  /** Open a lace that is kept under a name in this browser; make it if it is not there. */
  static async open(name, { secret = "" } = {}) {
    if (!/^[A-Za-z0-9._-]{1,80}$/.test(name)) throw new LaceError({ code: null, detail: `${name} is not a name`, hint: "Use letters, digits, dots and hyphens." });
    const { verifier } = JSON.parse(await call("open_lace", name, `${FOLDER}/${name}.lace`, secret));
    return new Lace(name, verifier);
  }

  /** The secret of a demo key. Whoever knows the words has it: never use it for anything real. */
  static demoSecret(words) {
    return call("demo_secret", words);
  }

  /** Store records; says of each what became of it. */
  async store(records) {
    const outcomes = JSON.parse(await call("store", this.name, JSON.stringify(records)));
    const { python } = await load();
    if (globalThis.indexedDB) await settle(python, false);
    return outcomes;
  }

  /** The records that a coordinate, prefix, hash address or rules select. */
  async list(selector) {
    return JSON.parse(await call("list_records", this.name, selector));
  }

  /** Interlace with another lace of this page, to the fixed point. */
  async sync(other, selector) {
    const result = JSON.parse(await call("sync", this.name, other.name, selector));
    const { python } = await load();
    if (globalThis.indexedDB) await settle(python, false);
    return result;
  }

  /** Whether bytes are a valid record, and if not, why. */
  static async validate(bytes) {
    return JSON.parse(await call("validate", bytes));
  }

  async close() {
    await call("close", this.name);
  }
}
