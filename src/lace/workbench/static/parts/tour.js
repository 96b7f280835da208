// A guided tour of the notes room: eight stops, to be left and taken up again.
// @ts-check
import { batch, html, useEffect, useRef } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { glossed } from "./glossary.js";

const STORY = "notes-room";
const KEPT = "lace-tour";

/** @typedef {import("../types.js").Frame} Frame */
/** @typedef {{name: string, title: string, text: string, at: () => number, tab?: string,
 *   record?: string, side?: number}} Stop */

/** The first step that is about a message of a kind, with a summary that begins so.
 * @param {string} kind @param {string} [begin] */
function heard(kind, begin = "") {
  return first((f) => {
    const message = state.messages.value.get(f.message ?? -1);
    return message?.kind === kind && message.summary.startsWith(begin);
  });
}

/** @param {(frame: Frame) => boolean|undefined} holds */
function first(holds) {
  return Math.max(0, state.frames.value.findIndex(holds));
}

/** @type {Stop[]} */
const STOPS = [
  {
    name: "laces", title: "Two laces", at: () => 0,
    text: "Bob and Alice each have a lace: a set of signed records on their own machine. The "
      + "tables show who has what. They have just connected, and nothing has been said yet.",
  },
  {
    name: "timeline", title: "Rules come first", at: () => heard("rules"), tab: "why",
    text: "Each side sends its rules. They say which records belong: grants of the authority, and "
      + "notes that a member signed. Both sides compute the same plan from both rules, or they "
      + "stop.",
  },
  {
    name: "timeline", title: "What I could give", at: () => heard("facts", "advertises"),
    text: "Bob advertises what he could give: hashes and a few fields, not the notes themselves. "
      + "Mallory’s note is not among them, although Bob has it.",
  },
  {
    name: "timeline", title: "What I lack", at: () => heard("facts", "asks for"),
    record: "bob-note", side: 1,
    text: "Alice asks for the grants, and not for Bob’s note: as far as she knows, nobody is a "
      + "member. Why, at the right or below, says how far her rules got.",
  },
  {
    name: "right", title: "A grant arrives", record: "grant-bob", side: 1,
    at: () => first((f) => f.events?.some((event) => event.kind === "RecordSaved")),
    text: "The records cross, and Alice checks every byte, hash and signature before she stores "
      + "them. Now she has a grant that names Bob.",
  },
  {
    name: "why", title: "So the note belongs", at: () => heard("record", "record bob-note"),
    record: "bob-note", side: 1,
    text: "In the next loop Alice’s rules find that Bob is a member, and she asks for his note. "
      + "Why shows the whole proof: unfold it down to the grant that was given.",
  },
  {
    name: "why", title: "What does not travel", at: () => state.last.value,
    record: "mallory-note", side: 0,
    text: "Mallory’s note lies in the same place and stays with Bob: no grant names Mallory. Open "
      + "“Why not Member(V)?” to see which condition failed.",
  },
  {
    name: "laces", title: "Fixed point", at: () => state.last.value, tab: "why",
    text: "Nothing is left to ask for: both have the same grants and notes, with a reason for "
      + "each. Change a rule under Rules and run it again, lose a message under What if, or pick "
      + "another scenario.",
  },
];

/** The part of the page that a stop speaks of, by its name.
 * @type {Record<string, string>} */
const PARTS = {
  laces: ".lace", timeline: ".timeline", right: ".lace.side-1", why: "#details",
};

/** Bring into sight what a stop speaks of, and the reasons of the side that it is about.
 * @param {Stop} stop */
function bringIntoSight({ name, side = 0 }) {
  const panel = document.getElementById("tab-panel");
  const reasons = panel?.querySelectorAll(".pair article")[side];
  if (panel && reasons) { // it scrolls by itself where it stands beside the timeline
    panel.scrollTop += reasons.getBoundingClientRect().top - panel.getBoundingClientRect().top;
  }
  if (matchMedia("(min-width: 1400px)").matches) return; // all is in sight
  const part = name === "why" && reasons ? reasons : document.querySelector(PARTS[name]);
  part?.scrollIntoView();
}

/** @param {number} number */
async function go(number) {
  if (state.recording.value?.scenario.name !== STORY || state.sharedText.value !== null) {
    if (!await engine.open(STORY)) return;
  }
  batch(() => {
    if (state.sceneNumber.value !== 0) state.openScene(0);
    const stop = STOPS[number];
    const hash = Object.entries(state.recording.value?.records ?? {})
      .find(([, record]) => record.id === stop.record)?.[0];
    state.tab.value = stop.tab ?? "why";
    state.goTo(stop.at());
    if (hash) state.selection.value = { kind: "record", hash, side: stop.side };
    state.tourStop.value = number;
  });
  keep(String(number));
}

/** @param {string} text */
function keep(text) {
  try {
    localStorage.setItem(KEPT, text);
  } catch { /* private windows keep nothing */ }
}

function keptStop() {
  try {
    const number = Number(localStorage.getItem(KEPT) ?? 0);
    return number > 0 && number < STOPS.length ? Math.trunc(number) : 0;
  } catch {
    return 0;
  }
}

/** What Lace is, and the way into the tour; on the tour, the stop. */
export function Tour() {
  if (state.embedded) return null; // there is no room for it, and another page tells its own story
  const at = state.tourStop.value;
  const heading = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    const root = document.documentElement;
    if (at >= 0) root.dataset.tour = STOPS[at].name;
    else delete root.dataset.tour;
    if (at < 0) return;
    heading.current?.focus();
    bringIntoSight(STOPS[at]);
  }, [at]);
  if (at < 0) {
    const shown = state.recording.value?.scenario.name === STORY;
    const can = shown || state.scenarios.value.some((one) => one.name === STORY);
    const before = keptStop();
    const words = before ? `Go on with the tour (stop ${before + 1} of ${STOPS.length})`
      : `Take the tour (${STOPS.length} stops)`;
    return html`<p class="what">Lace keeps sets of signed records in agreement between machines:
      each side
      says by ${glossed("rules")} what belongs, and both exchange exactly that.${" "}
      ${can ? html`<button type="button" id="tour" onClick=${() => go(before)}>${words}</button>`
        : null}</p>`;
  }
  const stop = STOPS[at];
  const leave = () => {
    state.tourStop.value = -1;
    requestAnimationFrame(() => document.getElementById("tour")?.focus());
  };
  return html`
    <section class="tour" aria-label="Tour">
      <h3 tabindex="-1" ref=${heading}><small>Stop ${at + 1} of ${STOPS.length}</small>
        ${" "}${stop.title}</h3>
      <p id="tour-text">${glossed(stop.text)}</p>
      <div class="row">
        <button type="button" id="tour-back" disabled=${at === 0} onClick=${() => go(at - 1)}
          >Back</button>
        ${at + 1 < STOPS.length
          ? html`<button type="button" class="primary" id="tour-on" onClick=${() => go(at + 1)}
            >Next stop</button>`
          : html`<button type="button" class="primary" id="tour-on"
            onClick=${() => { keep("0"); leave(); }}>Done</button>`}
        <button type="button" class="plain" id="tour-leave" onClick=${leave}>Leave the tour</button>
      </div>
    </section>`;
}
