// The engine: a session behind a socket. Where there is none, recordings are all there is.
// @ts-check
import { batch } from "./vendor/preact.js";
import * as state from "./state.js";
import { token } from "./token.js";

/** Sends a command to wherever the engine is. @type {((text: string) => void)|null} */
let send = null;
let number = 0;
const MOST_COMMAND = 1024 * 1024;
/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Problem} Problem */
/** @type {Map<number, (answer: any) => void>} */
const waiting = new Map();
/** Hears what the engine tells without being asked.
 * @type {(told: import("./types.js").LiveTold) => void} */
let hearTold = () => {};

/** Have somebody hear what the engine tells without being asked.
 * @param {(told: import("./types.js").LiveTold) => void} hears */
export function onTold(hears) {
  hearTold = hears;
}

/** Open the socket; false where there is no engine to talk to. */
export async function connect() {
  const { recorded, engine } = document.documentElement.dataset;
  if (recorded !== undefined) return false;
  if (engine !== undefined) return connectWorker(engine);
  const address = new URL("session", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  address.search = "";
  // The server chooses the first and takes the second for the token; an empty one is none.
  const opened = new WebSocket(address, ["lace-workbench", token() || "none"]);
  const ok = await new Promise((resolve) => {
    opened.addEventListener("open", () => resolve(true), { once: true });
    opened.addEventListener("error", () => resolve(false), { once: true });
    opened.addEventListener("close", () => resolve(false), { once: true });
  });
  if (!ok) return false;
  send = (text) => opened.send(text);
  opened.addEventListener("message", (event) => hear(event.data));
  opened.addEventListener("close", () => {
    lose();
    void reconnect();
  });
  return true;
}

const RETRY_MS = [500, 1000, 2000, 5000];

/** Look for the engine until it is there again; then run what is on the page, to go on from it. */
async function reconnect() {
  for (let tries = 0; ; tries += 1) {
    const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    if (await connect()) break;
  }
  const hello = await ask({ do: "hello" });
  if (hello.type !== "hello") return; // lost again, and looked for again
  state.scenarios.value = hello.scenarios;
  const name = state.recording.value?.scenario.name;
  const known = state.sharedText.value === null && name !== undefined;
  state.engine.value = "ready";
  state.notice.value = "";
  if (state.textOfLink() !== null) return; // nothing of it has been run here
  if (known) await open(name, "here");
  else await run();
}

/** The engine in this browser: a worker with the whole of it.
 * @param {string} place @returns {Promise<boolean>} */
function connectWorker(place) {
  const name = new URL(place, location.href).href;
  const worker = new Worker("engine-worker.js", { type: "module", name });
  return new Promise((resolve) => {
    worker.addEventListener("message", (event) => {
      if (event.data === "ready") {
        send = (text) => worker.postMessage(text);
        resolve(true);
      } else hear(event.data);
    });
    worker.addEventListener("error", () => { lose(); resolve(false); });
  });
}

/** @param {string} text */
function hear(text) {
  const answer = JSON.parse(text);
  if (answer.id === undefined) {
    hearTold(answer);
    return;
  }
  const resolve = waiting.get(answer.id);
  waiting.delete(answer.id);
  resolve?.(answer);
}

function lose() {
  send = null;
  state.engine.value = "gone";
  for (const resolve of waiting.values()) {
    resolve(problem("The engine is gone.",
      "It is looked for; if lace workbench was stopped, start it again and open its new link."));
  }
  waiting.clear();
}

/** What an engine that cannot answer would have said.
 * @param {string} message @param {string} hint @returns {Problem} */
function problem(message, hint) {
  return { type: "problem", id: null, code: "", message, hint };
}

/** Ask the engine something.
 * @template {keyof Answers} Command
 * @param {{do: Command} & Record<string, unknown>} command
 * @returns {Promise<Answers[Command]|Problem>} */
export function ask(command) {
  if (send === null) {
    return Promise.resolve(problem("There is no engine here: this page shows recordings.",
      "Run lace workbench to change things."));
  }
  number += 1;
  const id = number;
  const answer = new Promise((resolve) => waiting.set(id, resolve));
  const text = JSON.stringify({ ...command, id });
  if (new TextEncoder().encode(text).length > MOST_COMMAND) {
    waiting.delete(id);
    return Promise.resolve(problem("That is more text than the engine takes.",
      "A scenario has at most 256 KiB."));
  }
  send(text);
  return answer;
}

/** Show what the engine answered. Text that cannot be run and is not on the page yet is
 * ``answer.source``: it is put where it can be mended.
 * @param {Answers["run"]|Problem} answer @param {{scene?: number, step?: number|null}} [at]
 * @param {string|null} [shared] the text that carries it, as ``state.show`` takes it */
export function take(answer, at, shared) {
  if (answer.type === "recording") {
    state.show(answer.recording, at, shared);
    state.notice.value = "";
  } else if (answer.type === "problems") {
    batch(() => {
      state.problems.value = answer.diagnostics;
      const count = answer.diagnostics.length;
      state.notice.value = `${count} problem${count === 1 ? "" : "s"}: nothing was run.`;
      if (answer.source) state.broken.value = answer.source;
      if (answer.source) state.tab.value = "scenario";
      else if (state.tab.value !== "scenario") state.tab.value = "problems";
    });
  } else if (answer.type === "problem") {
    state.notice.value = `${answer.message.replace(/\.?$/, ".")} ${answer.hint ?? ""}`;
  }
  return answer.type === "recording";
}

let titleShown = "";

/** What the list said of what was opened last, when it was asked for. */
export function shownTitle() {
  return titleShown;
}

/** Take what is shown for what it is no more. */
export function outdate() {
  titleShown = "";
}

/** Open a scenario by name. "here" is for one that is shown already: wherever somebody is in it by
 * the time the answer comes, they stay there. If nobody "asked", no notice is made or taken away.
 * @param {string} name @param {{scene?: number, step?: number|null}|"here"} [at]
 * @param {boolean} [asked] */
export async function open(name, at, asked = true) {
  if (state.engine.value === "ready") {
    state.engine.value = "running";
    const title = state.scenarios.value.find((one) => one.name === name)?.title ?? "";
    const answer = await ask({ do: "open", name });
    titleShown = title;
    state.engine.value = "ready";
    const left = at === "here" && state.recording.value?.scenario.name !== name;
    const place = at === "here" ? { scene: state.sceneNumber.value, step: state.step.value } : at;
    if (left) return true;
    if (asked) return take(answer, place);
    if (answer.type === "recording") state.show(answer.recording, place);
    return answer.type === "recording";
  }
  const made = await recorded(name);
  if (made === null) {
    state.notice.value = `There is no recording of ${name} here.`;
    return false;
  }
  state.show(made, at === "here" ? {} : at);
  return true;
}

/** Run what is on the page, with something changed; or something else, which was "opened".
 * @param {{opened?: boolean, name?: string, toml?: string, rules?: Record<string, string>,
 *   changes?: Partial<import("./types.js").Changes>, at?: {scene?: number, step?: number|null}}
 *   } [what] */
export async function run(what = {}) {
  const now = state.recording.value?.scenario;
  const name = what.name ?? now?.name;
  const toml = what.toml ?? now?.toml;
  if (name === undefined || toml === undefined) return false;
  const changes = { ...state.recording.value?.changes, ...what.changes };
  const from = what.opened ? null : state.origin.value;
  if (state.engine.value === "ready") state.engine.value = "running";
  const answer = await ask({ do: "run", name, toml, rules: what.rules ?? null, changes });
  if (answer.type === "problems" && name !== state.source.value?.name) {
    answer.source = { name, toml };
  }
  if (state.engine.value === "running") state.engine.value = "ready";
  if (answer.type === "recording" && from !== null) state.descend(answer.recording.scenario, from);
  const { pack } = await import("./share.js");
  const shared = answer.type === "recording" ? await pack(answer.recording) : null;
  const at = what.at ?? { scene: state.sceneNumber.value, step: state.step.value };
  return take(answer, at, shared);
}

/** A recording that lies in the page, or beside it. @param {string} name */
export async function recorded(name) {
  const inside = document.getElementById(`recording-${name}`);
  if (inside) return JSON.parse(inside.textContent ?? "null");
  if (location.protocol === "file:") return null;
  try {
    const headers = token() ? { Authorization: `Bearer ${token()}` } : undefined;
    const response = await fetch(`recordings/${encodeURIComponent(name)}.json`, { headers });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

/** The list of recordings, if this is an exported page. */
export function recordedList() {
  return recorded("index");
}
