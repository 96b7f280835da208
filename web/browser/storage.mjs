// What a browser keeps of a lace: an IndexedDB database with one entry a record.
import { LaceError } from "./errors.mjs";

const TABLES = ["records", "links", "numbers"];
const VERSION = 1;
const OLD_FOLDER = "/laces"; // where an older Lace kept one SQLite file a lace
const OLD_TABLE = "FILE_DATA";

const settled = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** A database by its name; null if it is not there and none is to be made. */
function opened(name, upgrade) {
  return new Promise((resolve, reject) => {
    const request = upgrade ? indexedDB.open(name, VERSION) : indexedDB.open(name);
    request.onupgradeneeded = () => {
      if (upgrade) upgrade(request.result);
      else request.transaction.abort();
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => {
      if (!upgrade && request.error?.name === "AbortError") resolve(null);
      else reject(request.error);
    };
    request.onblocked = () => reject(new Error("another tab has it open in an older version"));
  });
}

const plain = (part) => (part instanceof ArrayBuffer ? new Uint8Array(part) : part);

/** One lace's database. The tab that has the lock of the lace is the only one that writes it. */
export class Kept {
  constructor(name, database) {
    this.name = name;
    this.database = database;
    this.unwritten = [];
    this.writing = null;
  }

  static async open(name) {
    try {
      const database = await opened(`lace:${name}`, (made) => {
        for (const table of TABLES) made.createObjectStore(table);
      });
      return new Kept(name, database);
    } catch (error) {
      throw new LaceError({
        code: "store.open", detail: `this browser does not open the store of ${name}: ${error}`,
        hint: "Allow the page to keep data; a private window may not.",
      });
    }
  }

  /** Everything that is kept, as it was told: table, key, value. */
  async all() {
    const reading = this.database.transaction(TABLES, "readonly");
    const found = await Promise.all(TABLES.map((table) => {
      const store = reading.objectStore(table);
      return Promise.all([settled(store.getAllKeys()), settled(store.getAll())]);
    }));
    return found.flatMap(([keys, values], index) => (
      keys.map((key, at) => [TABLES[index], key.map(plain), values[at]])));
  }

  /** Take note of changes; they are written together, soon. */
  note(changes) {
    for (const change of changes) this.unwritten.push(change);
    this.writing ??= Promise.resolve().then(() => this.write());
    this.writing.catch(() => {}); // whoever waits for it is told
  }

  /** Resolves when all that was noted is safe. */
  async safe() {
    while (this.writing !== null || this.unwritten.length) {
      this.writing ??= this.write();
      await this.writing;
    }
  }

  /** Write what waits, all of it or nothing; what failed waits for the next time. */
  async write() {
    const changes = this.unwritten;
    this.unwritten = [];
    try {
      const writing = this.database.transaction(TABLES, "readwrite", { durability: "strict" });
      const done = new Promise((resolve, reject) => {
        writing.oncomplete = resolve;
        writing.onabort = () => reject(writing.error);
      });
      for (const [table, key, value] of changes) {
        const store = writing.objectStore(table);
        if (value === null || value === undefined) store.delete(key);
        else store.put(value, key);
      }
      await done;
    } catch (error) {
      this.unwritten = [...changes, ...this.unwritten];
      const full = error?.name === "QuotaExceededError";
      throw new LaceError({
        code: full ? "store.full" : "store.failed",
        detail: `this browser did not keep what was stored in ${this.name}: ${error}`,
        hint: full ? "Make room, or forget records, and store again."
          : "Try again; what was kept before is still there.",
      });
    } finally {
      this.writing = null;
    }
  }

  close() {
    this.database.close();
  }

  /** The files that an older Lace kept for this lace, by path; null if there are none. */
  static async old(name) {
    const database = await opened(`${OLD_FOLDER}/${name}`, null);
    if (database === null) return null;
    try {
      if (!database.objectStoreNames.contains(OLD_TABLE)) return null;
      const store = database.transaction(OLD_TABLE, "readonly").objectStore(OLD_TABLE);
      const asked = [settled(store.getAllKeys()), settled(store.getAll())];
      const [paths, entries] = await Promise.all(asked);
      const files = paths.map((path, at) => [path, entries[at].contents]);
      return files.filter(([, contents]) => contents !== undefined);
    } finally {
      database.close();
    }
  }

  /** Forget the files of an older Lace, once their records are kept here. */
  static forgetOld(name) {
    return settled(indexedDB.deleteDatabase(`${OLD_FOLDER}/${name}`));
  }
}
