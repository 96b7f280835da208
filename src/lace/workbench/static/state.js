// Everything the page knows, in one place. What is shown follows from it; nothing else is kept.
// @ts-check
import { showUnseen } from "./unseen.js";
import { batch, computed, effect, signal } from "./vendor/preact.js";

/** @typedef {import("./types.js").Recording} Recording */
/** @typedef {import("./types.js").Scene} Scene */

/** @type {import("./vendor/preact.js").Signal<Recording|null>} */
export const recording = signal(/** @type {Recording|null} */ (null));
/** The run of the same scenario before this one, and the first one of it. */
export const previous = signal(/** @type {Recording|null} */ (null));
export const written = signal(/** @type {Recording|null} */ (null));
/** A run that was kept to compare others with. */
export const keptRun = signal(/** @type {Recording|null} */ (null));
export const compareWith = signal("previous");
export const sceneNumber = signal(0);
/** How many steps of the scene have been taken: 0 is before the first one. */
export const step = signal(0);
export const tab = signal("why");
/** What the lower panel is about. */
export const selection = signal(
  /** @type {{kind: string, hash?: string, side?: number, message?: number}|null} */ (null),
);
/** "recorded": no engine; "connecting"; "ready"; "running"; "gone". */
export const engine = signal("connecting");
export const scenarios = signal(/** @type {{name: string, title: string}[]} */ ([]));
export const notice = signal("");
export const problems = signal(/** @type {import("./types.js").Diagnostic[]} */ ([]));
/** A scenario that cannot be run: its text is there to be mended. */
export const broken = signal(/** @type {{name: string, toml: string}|null} */ (null));
/** Whether the reasons shown are those of what the steps are about. */
export const follows = signal(true);
/** At which stop of the tour somebody is; -1 when nobody is on it. */
export const tourStop = signal(-1);
export const help = signal(false);
/** The word that help is about, if it is about one. */
export const word = signal("");
export const palette = signal(false);
/** A picture needs room: on a narrow screen the timeline begins as a list. */
export const asList = signal(matchMedia("(max-width: 480px)").matches);
export const showEnds = signal(false);
export const filter = signal("");
/** Which side's records are shown as the other side's rules see them; -1 for none. */
export const viewAs = signal(-1);
export const chosenColumns = signal(/** @type {string[]|null} */ (null));
export const laceTab = signal(["records", "records"]);
export const playing = signal(false);

export const scene = computed(() => recording.value?.scenes[sceneNumber.value] ?? null);
export const frames = computed(() => scene.value?.frames ?? []);
export const last = computed(() => Math.max(0, frames.value.length - 1));
export const frame = computed(() => frames.value[Math.min(step.value, last.value)] ?? null);
export const pair = computed(() => {
  const now = scene.value;
  const peers = recording.value?.scenario.peers ?? [];
  const ids = now?.pair ?? peers.slice(0, 2).map((peer) => peer.id);
  return ids.map((id) =>
    /** @type {import("./types.js").Peer} */ (peers.find((peer) => peer.id === id)));
});
export const columns = computed(() => {
  const scenario = recording.value?.scenario;
  return chosenColumns.value ?? scenario?.columns ?? [];
});
/** Names for hashes and verifiers. */
export const names = computed(() => {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const [hash, record] of Object.entries(recording.value?.records ?? {})) {
    if (record.id) found.set(hash, record.id);
  }
  for (const [id, verifier] of Object.entries(recording.value?.scenario.keys ?? {})) {
    found.set(verifier, id);
  }
  return found;
});
/** Labels of rules, from the notes of their authors. */
export const ruleInfo = computed(() => {
  /** @type {Map<string, import("./types.js").RuleInfo & {peer: string}>} */
  const found = new Map();
  for (const peer of recording.value?.scenario.peers ?? []) {
    for (const rule of peer.checked.rules ?? []) {
      if (!found.has(rule.id)) found.set(rule.id, { ...rule, peer: peer.title });
    }
  }
  return found;
});
/** Whether there is nothing after what is shown: the last step of the last scene. */
export const finished = computed(() => step.value >= last.value
  && sceneNumber.value + 1 >= (recording.value?.scenes.length ?? 0));
export const phase = computed(() => frame.value?.after ?? "");

/** Whether a step is the bare end of a phase: nothing came of it that could be shown.
 * @param {number} number */
function isBare(number) {
  const now = frames.value[number];
  const before = frames.value[number - 1];
  const message = messages.value.get(now.message ?? -1);
  return message?.kind === "end" && !message.deed && !(now.events ?? []).length
    && String(now.tables) === String(before.tables);
}

/** Messages of the scene by number. */
export const messages = computed(
  () => new Map((scene.value?.messages ?? []).map((m) => [m.number, m])),
);
/** The steps that are shown: all that mean something, and bare ends of phases where asked for. */
export const shown = computed(() => {
  const numbers = frames.value.map((_, number) => number);
  if (showEnds.value) return numbers;
  return numbers.filter((number) => number === 0 || number === last.value || !isBare(number));
});
/** Of each step the row that it stands in; a step that is not shown has that of the one before. */
export const rowOf = computed(() => {
  /** @type {number[]} */
  const found = [];
  shown.value.forEach((number, row) => { found[number] = row; });
  for (let number = 1; number < frames.value.length; number += 1) {
    found[number] ??= found[number - 1];
  }
  return found;
});

/** @param {number} side @returns {import("./types.js").Row[]} */
export function rows(side) {
  const now = frame.value;
  const document_ = recording.value;
  if (document_ === null) return [];
  if (now !== null) return document_.tables[now.tables[side]];
  return document_.tables[scene.value?.tables?.[pair.value[side]?.id] ?? -1] ?? [];
}

/** @param {number} side */
export function rowsBefore(side) {
  const before = frames.value[Math.max(0, step.value - 1)];
  const document_ = recording.value;
  return before && document_ ? document_.tables[before.tables[side]] : [];
}

/** @param {number} side @returns {import("./types.js").Policy|null} */
export function policy(side) {
  const number = frame.value?.policies[side];
  return recording.value?.policies[number ?? -1] ?? null;
}

/** @param {string} hash */
export function nameOf(hash) {
  return names.value.get(hash) ?? `${hash.slice(0, 8)}…`;
}

/** The scenario whose text is edited. */
export const source = computed(() => broken.value ?? recording.value?.scenario ?? null);

// --- drafts ---

const DRAFTS = "lace-texts";
const ORIGINS = "lace-origins";
const MOST_DRAFTS = 1_000_000;
const MOST_ORIGINS = 500;

/** The places of drafts beside peers, whose names have no such sign. */
export const TOML = "?toml";
export const WATCH = "?watch";

/** Of each text that was opened or run in this tab, the one that it grew from. */
const origins = new Map(Object.entries(readKept(ORIGINS)));

/** Which scenario a text is: its name does not tell, since a link may bring another of that name.
 * It is that which was opened first, and whatever was made of it here.
 * @param {{name: string, toml: string}|null|undefined} text */
export function originOf(text) {
  if (!text) return "";
  const own = ownOrigin(text);
  return origins.get(own) ?? own;
}

/** @param {{name: string, toml: string}} text */
function ownOrigin({ name, toml }) {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < toml.length; at += 1) {
    a = Math.imul(a ^ toml.charCodeAt(at), 2654435761);
    b = Math.imul(b ^ toml.charCodeAt(at), 1597334677);
  }
  return `${name}@${[a, b, toml.length].map((part) => (part >>> 0).toString(36)).join(".")}`;
}

/** Take a text for what was made here of another one, unless it was there before.
 * @param {{name: string, toml: string}} text @param {string} origin */
export function descend(text, origin) {
  const own = ownOrigin(text);
  if (origins.has(own)) return;
  origins.set(own, origin);
  keep(ORIGINS, [...origins].slice(-MOST_ORIGINS));
}

/** Texts that were typed and not yet run, by scenario and place: one of these, or a peer's rules.
 * They are kept for this tab of the browser, so that a reload loses nothing. */
export const drafts = signal(readKept(DRAFTS));

/** What is shown, as drafts know it. */
export const origin = computed(() => originOf(source.value));

/** @param {string} place @param {string} [from] of a scenario; that which is shown by default
 * @returns {string|undefined} */
export function draftOf(place, from = origin.value) {
  return drafts.value[`${from}/${place}`];
}

/** Keep what was typed; what is equal to what was run is no draft. An editor says what it is of:
 * it may still have something to say when another scenario is shown already.
 * @param {string} from @param {string} place @param {string} text @param {string} ran */
export function setDraft(from, place, text, ran) {
  const key = `${from}/${place}`;
  const { [key]: before, ...rest } = drafts.value;
  if (text !== ran) keepDrafts({ ...rest, [key]: text });
  else if (before !== undefined) keepDrafts(rest);
}

/** The drafts as files: of what, and the text. @returns {[string, string][]} */
export function draftFiles() {
  return Object.entries(drafts.value).flatMap(([key, text]) => {
    const place = key.slice(key.lastIndexOf("/") + 1);
    const name = key.slice(0, key.lastIndexOf("@"));
    if (place === WATCH) return [];
    return [[place === TOML ? `${name}.toml` : `${name}-${place}.lacegram`, text]];
  });
}

/** Forget drafts that have become what was run. @param {Recording} made */
function settleDrafts(made) {
  const ran = new Map([[TOML, made.scenario.toml]]);
  for (const peer of made.scenario.peers) ran.set(peer.id, peer.rules);
  for (const [place, text] of ran) {
    if (draftOf(place) === text) setDraft(origin.value, place, text, text);
  }
}

/** @param {Record<string, string>} next */
function keepDrafts(next) {
  drafts.value = next;
  const kept = Object.entries(next);
  // The oldest go first where a browser would have no room for all.
  while (JSON.stringify(kept).length > MOST_DRAFTS) kept.shift();
  keep(DRAFTS, kept);
}

/** @param {string} name @param {[string, string][]} entries */
function keep(name, entries) {
  try {
    sessionStorage.setItem(name, JSON.stringify(Object.fromEntries(entries)));
  } catch { /* a window that keeps nothing still has them until it is closed */ }
}

/** @param {string} name @returns {Record<string, string>} */
function readKept(name) {
  try {
    const kept = Object.entries(JSON.parse(sessionStorage.getItem(name) ?? "{}"));
    return Object.fromEntries(kept.filter(([, text]) => typeof text === "string"));
  } catch {
    return {};
  }
}

// --- moving ---

/** @param {number} to */
export function goTo(to) {
  batch(() => {
    step.value = Math.max(0, Math.min(to, last.value));
    follow();
  });
}

/** Let the reasons be those of the record that the step is about, if it is about one. */
function follow() {
  const now = frame.value;
  if (!follows.value || now === null || selection.value?.kind === "message") return;
  const told = messages.value.get(now.message ?? -1)?.record;
  const hash = now.events?.find((event) => event.hash)?.hash ?? told;
  if (hash) selection.value = { kind: "record", hash, side: now.to };
}

/** @param {number} number @param {number} [at] */
export function openScene(number, at = 0) {
  const count = recording.value?.scenes.length ?? 0;
  batch(() => {
    sceneNumber.value = Math.max(0, Math.min(number, count - 1));
    step.value = Math.min(at, last.value);
    if (selection.value?.kind === "message") selection.value = null;
  });
}

/** One step that is shown, forward or back. @param {1|-1} by */
export function move(by) {
  const on = by > 0 ? shown.value.find((number) => number > step.value)
    : shown.value.findLast((number) => number < step.value);
  moveTo(on ?? step.value + by);
}

/** To a step, or beyond this scene. @param {number} to */
function moveTo(to) {
  if (to > last.value && sceneNumber.value + 1 < (recording.value?.scenes.length ?? 0)) {
    openScene(sceneNumber.value + 1, 0);
  } else if (to < 0 && sceneNumber.value > 0) {
    openScene(sceneNumber.value - 1, Infinity);
  } else {
    goTo(to);
  }
}

/** Where a phase or loop begins, going from here in one direction.
 * @param {number} by @param {(frame: import("./types.js").Frame) => string} mark */
function boundary(by, mark) {
  const all = frames.value;
  let at = step.value;
  if (by > 0) {
    const none = { sentence: "", step: 0, tables: [], policies: [] };
    const here = mark(all[Math.min(at, all.length - 1)] ?? none);
    while (at < last.value && mark(all[at + 1]) === here) at += 1;
    return at + 1;
  }
  at -= 1;
  while (at > 0 && mark(all[at]) === mark(all[at - 1])) at -= 1;
  return at;
}

/** To the first step from a place on that is shown. @param {1|-1} by @param {number} to */
function moveBy(by, to) {
  if (to === step.value) move(by);
  else if (to < 0 || to > last.value) moveTo(to);
  else moveTo(shown.value.find((number) => number >= to) ?? last.value);
}

/** @param {1|-1} by */
export function movePhase(by) {
  moveBy(by, boundary(by, (f) => `${f.loop ?? 0} ${f.after ?? ""}`));
}

/** @param {1|-1} by */
export function moveLoop(by) {
  moveBy(by, boundary(by, (f) => `${f.loop ?? 0}`));
}

export function toFixedPoint() {
  if (step.value >= last.value) move(1);
  if (step.value < last.value || frames.value.length === 0) goTo(last.value);
}

// --- selecting ---

/** @param {string} hash @param {number} [side] */
export function selectRecord(hash, side) {
  batch(() => {
    selection.value = { kind: "record", hash, side };
    follows.value = false; // whoever chooses a record goes on looking at it
    if (!["why", "record", "disclosure"].includes(tab.value)) tab.value = "why";
  });
  showDetails();
}

/** Bring what was asked for into sight: on most screens the details begin below the tables. */
function showDetails() {
  requestAnimationFrame(() => {
    const details = document.getElementById("details");
    if (!details || details.getBoundingClientRect().top < innerHeight * 0.7) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    details.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
  });
}

/** @param {number} number */
export function selectMessage(number) {
  batch(() => {
    selection.value = { kind: "message", message: number };
    tab.value = "message";
  });
}

// --- the address ---

let quiet = true;
let lastPlace = "";
/** How many changes of the address are being followed. */
const leading = signal(0);

/** Let the address lead: what comes up on the way to what it names is not written into it.
 * @param {() => Promise<void>} follows */
export async function led(follows) {
  leading.value += 1;
  try {
    await follows();
  } finally {
    lastPlace = ""; // where it led is no move of its own
    leading.value -= 1;
  }
}

/** A number of an address; whatever else stands there is 0. @param {string|null} text */
function whole(text) {
  return Math.min(1e9, Math.max(0, Math.trunc(Number(text)) || 0));
}

/** Take scenario, scene and step from the address, if they are there. */
export function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  return {
    scenario: wanted.get("s"),
    shared: wanted.get("z"),
    run: wanted.get("r"),
    embedded: wanted.has("embed"),
    scene: whole(wanted.get("scene")),
    step: wanted.has("step") ? whole(wanted.get("step")) : null,
    tab: wanted.get("tab"),
  };
}

/** Whether this page is shown in a frame of another one. */
export const embedded = readAddress().embedded;
/** The run that came in the link itself, with that text.
 * @type {{made: Recording|null, text: string}} */
const cameInLink = { made: null, text: "" };

/** The text of the link that what is shown came in; null if it came from elsewhere. */
export function textOfLink() {
  return recording.value !== null && recording.value === cameInLink.made ? cameInLink.text : null;
}

/** Where links lead: to this page, unless it was told of another place that others can reach. */
export const linksTo = signal(document.documentElement.dataset.links ?? "");

/** Show a run that came in a link. @param {Recording} made @param {string} text
 * @param {{scene?: number, step?: number|null}} at */
export function showFromLink(made, text, at) {
  Object.assign(cameInLink, { made, text });
  show(made, at);
}

/** Keep the address in line with what is shown, from now on. */
export function writeAddress() {
  quiet = false;
  effect(() => {
    const document_ = recording.value;
    const values = { scene: sceneNumber.value, step: step.value, tab: tab.value };
    if (leading.value || document_ === null || quiet) return;
    const address = new URLSearchParams();
    const shared = sharedText.value;
    const carried = textOfLink();
    if (carried !== null) address.set("r", carried);
    else if (shared !== null) address.set("z", shared);
    else address.set("s", document_.scenario.name);
    if (embedded) address.set("embed", "");
    for (const [name, value] of Object.entries(values)) address.set(name, String(value));
    // Back leads through stories, scenes and tabs; each step would be too much of a good thing.
    const place = `${carried ?? shared ?? document_.scenario.name} ${values.scene} ${values.tab}`;
    // Back in a page that this one is part of is none of our business.
    const moved = lastPlace !== "" && place !== lastPlace && !embedded;
    lastPlace = place;
    if (`#${address}` === location.hash) return;
    history[moved ? "pushState" : "replaceState"](null, "", `#${address}`);
  });
}

/** The scenario as compressed text, when it is not one that comes with Lace as it is. */
export const sharedText = signal(/** @type {string|null} */ (null));

/** Show a recording from its start, or from where ``at`` says; a step of null is the last one.
 * @param {Recording} made @param {{scene?: number, step?: number|null}} [at]
 * @param {string|null} [shared] the scenario as compressed text, where that is its address */
export function show(made, at = {}, shared = null) {
  showUnseen(made);
  const same = made.scenario.name === recording.value?.scenario.name;
  batch(() => {
    if (!same) {
      previous.value = null;
      keptRun.value = null;
      written.value = made;
    } else if (inputs(made) !== inputs(recording.value)) previous.value = recording.value;
    recording.value = made;
    descend(made.scenario, originOf(made.scenario));
    sharedText.value = shared; // at once with it: both make the address
    sceneNumber.value = Math.min(at.scene ?? 0, made.scenes.length - 1);
    const end = Math.max(0, (made.scenes[sceneNumber.value].frames?.length ?? 1) - 1);
    step.value = at.step === null ? end : Math.max(0, Math.min(at.step ?? 0, end));
    broken.value = null;
    settleDrafts(made);
    problems.value = [];
    chosenColumns.value = null;
    viewAs.value = -1;
    const wanted = selection.value;
    const still = wanted?.kind === "message" ? same
      : wanted?.hash !== undefined && wanted.hash in made.records;
    if (!still) selection.value = firstSelection(made);
  });
}

/** All that decides how a run goes. @param {Recording|null} run */
function inputs(run) {
  const { seed, watched, faults, orders } = run?.changes ?? {};
  const rules = run?.scenario.peers.map((peer) => peer.rules);
  return JSON.stringify([run?.scenario.toml, rules, seed, watched, faults, orders]);
}

/** Something worth looking at to begin with: the last record that somebody received.
 * @param {Recording} made */
function firstSelection(made) {
  for (const found of made.scenes) {
    const event = [...(found.frames ?? [])].reverse()
      .flatMap((f) => (f.events ?? []).map((e) => ({ ...e, side: f.to })))
      .find((e) => e.kind === "RecordSaved");
    if (event?.hash) return { kind: "record", hash: event.hash, side: event.side };
  }
  const hash = Object.keys(made.records)[0];
  return hash ? { kind: "record", hash, side: 0 } : null;
}
