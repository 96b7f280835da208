// The exchanges of a server, while they happen: the engine tells whenever something has changed.
// @ts-check
import { effect } from "./vendor/preact.js";
import * as engine from "./engine.js";
import * as state from "./state.js";

/** @typedef {import("./types.js").LiveTold} LiveTold */

const NAMES = /^exchange-\d+$/;
/** What was told last. @type {LiveTold|null} */
let last = null;
let catching = false;
/** What was shown when the server was started anew: it counts from 1 again, and the same name is
 * another exchange. @type {import("./types.js").Recording|null} */
let fromBefore = null;

/** Take in how things stand at the server. @param {LiveTold} told */
function hear(told) {
  const before = last;
  last = told;
  if (told.problem) {
    state.notice.value = noticeOf(told.problem);
    return;
  }
  if (before?.problem) {
    if (state.notice.value === noticeOf(before.problem)) state.notice.value = "";
    engine.outdate(); // the end of what is shown may have been missed
  }
  const shown = state.recording.value;
  const name = shown?.scenario.name ?? "";
  if (runs.size && !runs.has(told.run ?? "") && NAMES.test(name)) {
    fromBefore = shown;
    state.notice.value = "The server was started again and counts its exchanges from 1: what is "
      + "shown is from before.";
  }
  runs.add(told.run ?? "");
  const known = state.scenarios.value;
  state.scenarios.value = [...told.scenarios, ...known.filter((one) => !NAMES.test(one.name))];
  void catchUp();
}

/** The starts of the server that were seen. @type {Set<string>} */
const runs = new Set();

/** @param {{message: string, hint: string|null}} problem */
function noticeOf(problem) {
  return `${problem.message}. ${problem.hint ?? ""}`;
}

/** @param {{name: string, title: string}[]} list @param {string} name */
function titleIn(list, name) {
  return list.find((one) => one.name === name)?.title;
}

const NONE_YET = "The server has had no exchange yet: the first one is shown here when it comes. "
  + "Until then this is a story.";
/** What is shown in place of an exchange, until there is one; null if nobody waits for one.
 * @type {import("./types.js").Recording|null} */
let instead = null;

/** What the list said of the first exchange when it was tried: one that has only just come in
 * tells nothing yet, and is tried again when there is more of it. */
let tried = "";

/** Say it where there is no exchange yet, and show the first one to whoever still waits for it. */
async function welcome() {
  const shown = state.recording.value;
  const none = last !== null && last.problem === null && last.scenarios.length === 0;
  if (none && runs.size === 1 && instead === null && shown !== null) {
    instead = shown;
    state.notice.value = NONE_YET;
  } else if (instead !== null && last?.scenarios.length) {
    const { name, title } = last.scenarios[0];
    if (title === tried) return;
    tried = title;
    const waits = shown === instead && state.step.value === 0 && state.tourStop.value < 0;
    if (waits && !(await engine.open(name, undefined, false))) return;
    instead = null;
    if (state.notice.value === NONE_YET) state.notice.value = "";
  }
}

/** Show again what has gone on; whoever is at the end of it stays at its end. */
async function catchUp() {
  if (catching) return;
  catching = true;
  if (state.engine.value === "ready") await welcome();
  while (state.engine.value === "ready") {
    const shown = state.recording.value;
    const name = shown?.scenario.name ?? "";
    const title = titleIn(state.scenarios.value, name);
    if (!NAMES.test(name) || shown === fromBefore || title === undefined) break;
    if (title === engine.shownTitle()) break; // it has not gone on since it was asked for
    const atEnd = state.step.value >= state.last.value;
    const began = performance.now();
    const at = atEnd ? { scene: state.sceneNumber.value, step: null } : "here";
    await engine.open(name, at, false); // whether the server is there is told by itself
    // A long exchange takes long to tell again: half the time is left for whoever looks at it.
    const took = performance.now() - began;
    await new Promise((resolve) => { setTimeout(resolve, took); });
  }
  catching = false;
}

/** Listen to what the engine tells of a server. */
export function listen() {
  engine.onTold(hear);
  effect(() => {
    const ready = state.engine.value === "ready" && state.recording.value !== null;
    if (ready) setTimeout(catchUp, 0); // it changes what this depends on
  });
}
