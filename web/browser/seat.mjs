// A tab's seat at a lace: it leads, and writes, or it follows the tab that does.
//
// The browser's lock of the lace says who leads. A tab that follows sends what it is asked to do to
// the leader and asks again when another one leads; whatever is asked twice is done once. When the
// leader goes, the browser gives its lock to a tab that waits.
import { LaceError } from "./errors.mjs";

const tab = crypto.randomUUID();
/** Held for as long as this tab lives: others see by it that it is gone. */
const mark = (id) => `lace/tab/${id}`;
navigator.locks?.request(mark(tab), () => new Promise(() => {}));

/** An answer that will not come, because another tab leads now. */
const MOVED = Symbol("moved");
const NOT_AGAIN = new Set(["next", "end"]); // they are about a stream that the old leader had

export class Seat {
  /** @param {string} name @param {string} secret
   * @param {{begin: Function, call: Function, finish: Function}} engine */
  constructor(name, secret, engine) {
    this.name = name;
    this.secret = secret;
    this.engine = engine;
    this.leads = false;
    this.leader = null; // a name for who leads, and since when
    this.broken = null; // why this seat is of no more use
    this.pending = new Map();
    this.streams = new Set();
    this.last = 0;
    this.guests = new Map(); // by tab: the streams that the leader has for it
    this.left = new AbortController();
    this.release = () => {};
  }

  /** Sit down: lead if nobody does, else follow. Resolves with the verifier of the lace. */
  static async take(name, secret, engine) {
    if (!navigator.locks) {
      throw new LaceError({
        code: "store.open", detail: "this page cannot keep other tabs from writing the same lace",
        hint: "Serve the page by https, or from localhost.",
      });
    }
    const seat = new Seat(name, secret, engine);
    seat.proof = await digest(`${name}\n${secret}`);
    seat.channel = new BroadcastChannel(`lace/${name}`);
    seat.channel.onmessage = (event) => seat.hear(event.data);
    try {
      if (await seat.tryToLead()) await seat.lead();
      else seat.waitToLead();
      const { value } = await seat.ask("join", { proof: seat.proof }, []);
      seat.verifier = value.verifier;
      return seat;
    } catch (error) {
      await seat.leave();
      throw error;
    }
  }

  tryToLead() {
    return new Promise((resolve, reject) => {
      const held = (lock) => (lock ? new Promise((release) => {
        this.release = release;
        resolve(true);
      }) : resolve(false));
      navigator.locks.request(`lace/${this.name}`, { ifAvailable: true }, held).catch(reject);
    });
  }

  waitToLead() {
    const held = () => new Promise((release) => {
      this.release = release;
      if (this.left.signal.aborted) release();
      else this.lead().catch((error) => this.fail(error));
    });
    const { signal } = this.left;
    navigator.locks.request(`lace/${this.name}`, { signal }, held).catch(() => {});
    this.channel.postMessage({ from: tab, who: true }); // the leader says that it is there
  }

  async lead() {
    this.verifier = await this.engine.begin(this.name, this.secret);
    this.leads = true;
    this.moved(crypto.randomUUID());
    this.channel.postMessage({ from: tab, leads: this.leader });
  }

  /** Nothing can be done from this seat any more. */
  fail(error) {
    this.broken = error;
    for (const waits of this.pending.values()) waits.reject(error);
    this.pending.clear();
    this.release();
  }

  /** Somebody else leads from now on. */
  moved(leader) {
    if (leader === this.leader) return;
    this.leader = leader;
    for (const [id, waits] of [...this.pending]) {
      if (NOT_AGAIN.has(waits.operation)) {
        this.pending.delete(id);
        waits.resolve(MOVED);
      } else this.send(id, waits);
    }
    for (const stream of this.streams) stream.moved();
  }

  /** Have something done by whoever leads. */
  ask(operation, given, parts) {
    if (this.broken) return Promise.reject(this.broken);
    this.last += 1;
    const id = this.last;
    return new Promise((resolve, reject) => {
      const waits = { operation, given, parts, resolve, reject };
      this.pending.set(id, waits);
      if (this.leader !== null) this.send(id, waits);
    });
  }

  send(id, { operation, given, parts }) {
    if (!this.leads) {
      this.channel.postMessage({ from: tab, id, operation, given, parts });
      return;
    }
    this.perform(tab, operation, given, parts).then(
      (answer) => this.settle(id, answer),
      (error) => this.settle(id, { error: LaceError.told(error) }),
    );
  }

  settle(id, answer) {
    const waits = this.pending.get(id);
    this.pending.delete(id);
    if (answer.error) waits?.reject(new LaceError(answer.error));
    else waits?.resolve(answer);
  }

  async hear(said) {
    if (said.leads) this.moved(said.leads);
    else if (said.to === tab) this.settle(said.id, said.answer);
    else if (!this.leads) return;
    else if (said.who) this.channel.postMessage({ from: tab, leads: this.leader });
    else if (said.operation) {
      let answer;
      try {
        answer = await this.perform(said.from, said.operation, said.given, said.parts);
      } catch (error) {
        answer = { error: LaceError.told(error) };
      }
      if (this.leads) this.channel.postMessage({ to: said.from, id: said.id, answer });
    }
  }

  /** Do something as the leader, for this tab or for another one. */
  async perform(asker, operation, given, parts) {
    if (operation === "join") {
      if (given.proof === this.proof) return { value: { verifier: this.verifier } };
      throw new LaceError({
        code: "input.key",
        detail: `${this.name} is open in another tab, with ${this.verifier ?? "no key"}`,
        hint: "Open it with the same secret, or close it there first.",
      });
    }
    const answer = await this.engine.call(operation, { ...given, lace: this.name }, parts);
    if (operation === "open_interlace" || operation === "for_each") this.host(asker, answer.value);
    if (operation === "end") this.guests.get(asker)?.delete(given.stream);
    return answer;
  }

  /** Note a stream that a tab has; it ends when the tab is gone. */
  host(asker, stream) {
    if (!this.guests.has(asker)) {
      this.guests.set(asker, new Set());
      if (asker !== tab) {
        const { signal } = this.left;
        navigator.locks.request(mark(asker), { signal }, () => this.showOut(asker)).catch(() => {});
      }
    }
    this.guests.get(asker).add(stream);
  }

  async showOut(asker) {
    const streams = this.guests.get(asker) ?? [];
    this.guests.delete(asker);
    for (const stream of streams) await this.engine.call("end", { stream }, []).catch(() => {});
  }

  /** Give up the seat; another tab may lead then. */
  async leave() {
    this.left.abort();
    for (const stream of [...this.streams]) await stream.end();
    if (this.leads) {
      for (const asker of [...this.guests.keys()]) await this.showOut(asker);
      this.leads = false;
      await this.engine.finish(this.name);
    }
    this.fail(new LaceError({
      code: "store.closed", detail: `${this.name} was closed`, hint: "Open it again.",
    }));
    this.channel.close();
  }
}

/** Something that goes on: the records of a selector, or the events of an exchange. */
export class Stream {
  constructor(seat, operation, given) {
    this.seat = seat;
    this.operation = operation;
    this.given = given;
    this.seen = new Set();
    this.over = false;
    this.begun = null;
    this.asked = Promise.resolve();
    seat.streams.add(this);
  }

  /** Have it begun by whoever leads now. */
  begin() {
    const seen = this.operation === "for_each" ? { seen: [...this.seen] } : {};
    this.begun ??= this.seat.ask(this.operation, { ...this.given, ...seen }, []);
    return this.begun;
  }

  moved() {
    if (this.begun === null || this.over) return;
    this.begun = null;
    if (this.operation === "open_interlace") this.begin().catch(() => {}); // told by next
  }

  /** What comes next, one after the other; null when it is over. */
  next() {
    const ask = async () => {
      while (!this.over) {
        const { value: stream } = await this.begin();
        const answer = await this.seat.ask("next", { stream }, []);
        if (answer === MOVED) continue;
        if (answer.value === null) break;
        for (const record of this.operation === "for_each" ? answer.value.next : []) {
          this.seen.add(record.hash);
        }
        return { value: answer.value.next, bytes: answer.bytes };
      }
      this.finished();
      return { value: null, bytes: null };
    };
    this.asked = this.asked.then(ask, ask);
    return this.asked;
  }

  finished() {
    this.over = true;
    this.seat.streams.delete(this);
  }

  async end() {
    const begun = this.over ? null : this.begun;
    this.finished();
    const stream = await begun?.catch(() => null);
    if (!stream) return;
    const ended = this.seat.ask("end", { stream: stream.value }, []).catch(() => {});
    if (this.seat.leads) await ended; // another tab may be gone, and then it has ended too
  }
}

async function digest(text) {
  const made = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(made)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
