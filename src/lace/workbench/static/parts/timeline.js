// What crosses between two laces: as a picture for the eye, and as a list for everybody.
// @ts-check
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { download, picture } from "../share.js";
import * as state from "../state.js";
import { DEEDS } from "./text.js";

const ROW = 26;
const WIDTH = 432;
const LEFT = 106; // room for the name of a phase and for what happened there
const RIGHT = WIDTH - 62;
const MARGIN = 40;
const LONG = 12; // rows, beyond which an arrow is drawn near its end alone
const MOST_LEAVING = 12; // arrows that leave and end out of sight

export function Timeline() {
  const all = state.frames.value;
  const scroller = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [view, setView] = useState({ top: 0, height: 900 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const y = (state.rowOf.value[state.step.value] ?? 0) * ROW;
    if (y < element.scrollTop + 40 || y > element.scrollTop + element.clientHeight - 60) {
      element.scrollTop = Math.max(0, y - element.clientHeight / 2);
    }
    setView({ top: element.scrollTop, height: element.clientHeight });
  }, [
    state.step.value, state.sceneNumber.value, state.recording.value, state.asList.value,
    state.showEnds.value,
  ]);
  const [a, b] = state.pair.value;
  const cut = state.scene.value?.cut ?? 0;
  return html`
    <section class="timeline" aria-label="Timeline">
      <header>
        <h3>Timeline</h3>
        <label class="toggle"><input type="checkbox" id="as-list" checked=${state.asList.value}
          onChange=${(/** @type {any} */ e) => { state.asList.value = e.target.checked; }} />
          ${" "}as a list</label>
        <label class="toggle"><input type="checkbox" id="show-ends" checked=${state.showEnds.value}
          onChange=${(/** @type {any} */ e) => { state.showEnds.value = e.target.checked; }} />
          ${" "}ends of phases</label>
        <button type="button" class="plain" id="save-svg" title="The timeline as a picture"
          onClick=${save}>SVG</button>
      </header>
      ${cut ? html`<p class="notice">Showing the first ${all.length - 1} of${" "}
        ${all.length - 1 + cut} steps.</p>` : null}
      ${all.length === 0 ? html`<p class="empty">Nobody meets in this scene.</p>` : html`
      <div class="scroll" ref=${scroller} tabindex="0" role="region" aria-label="Steps"
        onScroll=${(/** @type {any} */ e) =>
          setView({ top: e.target.scrollTop, height: e.target.clientHeight })}>
        ${state.asList.value ? html`<${List} view=${view} />`
          : html`<${Diagram} view=${view} a=${a?.title ?? ""} b=${b?.title ?? ""} />`}
      </div>`}
    </section>`;
}

/** The steps that are in sight, with some to spare.
 * @param {{top: number, height: number}} view @param {number} count */
function windowOf(view, count) {
  const first = Math.max(0, Math.floor(view.top / ROW) - 20);
  return [first, Math.min(count, first + Math.ceil(view.height / ROW) + 40)];
}

/** @param {{view: {top: number, height: number}, a: string, b: string}} properties */
function Diagram({ view, a, b }) {
  const all = state.frames.value;
  const numbers = state.shown.value;
  const row = state.rowOf.value;
  const [first, end] = windowOf(view, numbers.length);
  const height = numbers.length * ROW + MARGIN + 10;
  const y = (/** @type {number} */ number) => MARGIN + (row[number] ?? 0) * ROW;
  const at = state.step.value;
  const shown = bands(all, numbers.slice(Math.max(1, first), end));
  const visible = arrows(first, end);
  return html`
    <svg id="diagram" class="diagram" viewBox=${`0 0 ${WIDTH} ${height}`} width=${WIDTH}
      height=${height} aria-hidden="true">
      ${shown.map((band) => html`<rect key=${band.from} class=${`band p-${band.phase}`} x="0"
        y=${y(band.from) - ROW / 2} width=${WIDTH} height=${y(band.to) - y(band.from) + ROW} />`)}
      <line class="life" x1=${LEFT} x2=${LEFT} y1=${MARGIN - 12} y2=${height} />
      <line class="life" x1=${RIGHT} x2=${RIGHT} y1=${MARGIN - 12} y2=${height} />
      <rect class="here" x="0" y=${y(at) - ROW / 2} width=${WIDTH} height=${ROW} />
      ${shown.map((band) => html`
        <text key=${band.from} class="band-name" x="6" y=${y(band.from) + 4}>${band.phase}</text>
        ${band.starts && band.loop ? html`<text class="band-name" x="6" y=${y(band.from) + 16}
          >loop ${band.loop}</text>` : null}`)}
      ${visible.map((m) => {
        const beside = visible.filter((o) => o.sent === m.sent && o.sender === m.sender);
        return html`<${Arrow} key=${m.number} message=${m} y=${y} at=${at}
          nth=${beside.filter((o) => o.arrives === null).indexOf(m)}
          crowded=${beside.some((o) => o !== m && o.kind !== "end")} />`;
      })}
      ${numbers.slice(first, end).map((number) => {
        const f = all[number];
        const side = f.to ?? -1;
        const word = f.events?.find((e) => e.kind !== "Closed");
        return side < 0 ? null : html`
          <g key=${number} class=${number > at ? "later" : ""} onClick=${() => state.goTo(number)}>
            <circle class=${`dot ${word ? "event" : ""} ${isBad(word) ? "bad" : ""}`}
              cx=${side ? RIGHT : LEFT} cy=${y(number)} r=${word ? 5 : 3} />
            ${word ? html`<text class=${`event-name ${isBad(word) ? "bad" : ""}`}
              x=${side ? RIGHT + 9 : LEFT - 9} y=${y(number) + 4}
              text-anchor=${side ? "start" : "end"}>${mark(word)}</text>` : null}
            <rect class="hit" x=${side ? RIGHT - 14 : LEFT - 14} y=${y(number) - ROW / 2} width="28"
              height=${ROW}><title>${f.sentence}</title></rect>
          </g>`;
      })}
      <rect class="head" x="0" y=${Math.max(0, view.top)} width=${WIDTH} height="24" />
      <text class="name" x=${LEFT} y=${Math.max(0, view.top) + 17} text-anchor="middle">${a}</text>
      <text class="name" x=${RIGHT} y=${Math.max(0, view.top) + 17} text-anchor="middle">${b}</text>
    </svg>`;
}

/** The messages to draw: those that arrive in sight, and some of those that only leave there.
 * @param {number} first @param {number} end rows */
function arrows(first, end) {
  const row = state.rowOf.value;
  const { message: chosen } = state.selection.value ?? {};
  let leaving = 0;
  return [...state.messages.value.values()].filter((m) => {
    const bare = m.kind === "end" && (!m.deed || m.deed === "cut");
    if (bare && !state.showEnds.value && m.number !== chosen) return false;
    const from = row[m.sent + 1] ?? 0;
    const to = m.arrives === null ? from : row[m.arrives + 1] ?? 0;
    if (to >= first && to <= end) return true;
    if (from < first || from > end) return from < first && to > end && m.number === chosen;
    leaving += 1;
    return leaving <= MOST_LEAVING || m.number === chosen;
  });
}

/** @param {import("../types.js").Event_|undefined} event */
function isBad(event) {
  return event?.kind === "RecordRejected" || event?.kind === "Aborted";
}

/** @param {import("../types.js").Event_} event */
function mark(event) {
  return {
    RecordSaved: "stored", RecordRejected: "rejected", FixedPoint: "fixed", Aborted: "aborted",
    RecordDuplicate: "again",
  }[event.kind] ?? "";
}

/** ``nth``: which one it is of those that were sent together and lost.
 * @param {{message: import("../types.js").Message, y: (n: number) => number, at: number,
 *   nth: number, crowded: boolean}} properties */
function Arrow({ message, y, at, nth, crowded }) {
  const from = message.sender === 0 ? LEFT : RIGHT;
  const to = message.sender === 0 ? RIGHT : LEFT;
  const y1 = y(message.sent + 1);
  const arrives = message.arrives ?? Infinity;
  const lost = arrives === Infinity;
  const y2 = lost ? y1 + 4 + nth * 14 : y(arrives + 1);
  const x2 = lost ? from + (to - from) * 0.3 : to;
  const under = message.sent + 1 <= at && arrives + 1 > at;
  const later = message.sent + 1 > at;
  const chosen = state.selection.value?.message === message.number;
  const hash = state.selection.value?.hash;
  const about = hash && (message.record === hash || message.lines.some((l) => l.includes(hash)));
  const classes = [
    "arrow", `k-${message.kind}`, under ? "under" : "", later ? "later" : "",
    chosen ? "chosen" : "", about ? "about" : "", message.deed || lost ? "bad" : "",
  ].join(" ");
  const dx = to > from ? 1 : -1;
  const [ahead, behind] = dx > 0 ? ["start", "end"] : ["end", "start"];
  const slope = (y2 - y1) / (x2 - from);
  // One of hundreds that were sent together would cross everything in between: its end is enough.
  const long = !lost && y2 - y1 > LONG * ROW;
  const [x0, y0] = long ? [x2 - 90 * dx, y2 - ROW * 0.7] : [from, y1];
  const angle = (Math.atan(slope) * 180) / Math.PI;
  const label = message.deed ? `${DEEDS[message.deed]}: ${message.summary}` : message.summary;
  return html`
    <g class=${classes} onClick=${() => state.selectMessage(message.number)}>
      <line x1=${x0 + 4 * dx} y1=${y0} x2=${x2 - 6 * dx} y2=${long ? y2 : y2 - slope * 6 * dx} />
      ${lost
        ? html`<text class="cross" x=${x2} y=${y2 + 4} text-anchor="middle">✕</text>`
        : html`<path d=${`M${x2 - 5 * dx},${y2} l${-7 * dx},-4 l0,8 z`} />`}
      ${message.kind === "end" && !message.deed ? null : lost
        ? html`<text class="label" x=${x2 + 9 * dx} y=${y2 + 4} text-anchor=${ahead}
          >${cutText(label)}</text>`
        : long
        ? html`<text class="label" x=${x0} y=${y2 + 3} text-anchor=${behind}
          >${cutText(label)}</text>`
        : crowded
        ? html`<text class="label" x=${to - 16 * dx} y=${y2 - 5} text-anchor=${behind}
          transform=${`rotate(${angle} ${to} ${y2})`}>${cutText(label)}</text>`
        : html`<text class="label" x=${from + 9 * dx} y=${y1 - 4 + slope * 12 * dx}
          text-anchor=${ahead}>${cutText(label)}</text>`}
      <line class="hit" x1=${x0} y1=${y0} x2=${x2} y2=${y2}><title>${message.summary}</title></line>
    </g>`;
}

/** @param {string} text */
function cutText(text) {
  return text.length > 38 ? `${text.slice(0, 36)}…` : text;
}

/** Runs of steps in one phase.
 * @param {import("../types.js").Frame[]} all @param {number[]} numbers the steps to look at */
function bands(all, numbers) {
  /** @type {{phase: string, loop: number, from: number, to: number, starts: boolean}[]} */
  const found = [];
  for (const number of numbers) {
    const f = all[number];
    const phase = f.before ?? "";
    const loop = f.loop ?? 0;
    const previous = found.at(-1);
    if (previous && previous.phase === phase && previous.loop === loop) previous.to = number;
    else found.push({ phase, loop, from: number, to: number, starts: previous?.loop !== loop });
  }
  return found;
}

/** @param {{view: {top: number, height: number}}} properties */
function List({ view }) {
  const all = state.frames.value;
  const numbers = state.shown.value;
  const [first, end] = windowOf(view, numbers.length);
  const space = (/** @type {number} */ rows) => (/** @type {HTMLElement|null} */ e) => {
    if (e) e.style.height = `${rows * ROW}px`;
  };
  return html`
    <ol class="steps">
      <li aria-hidden="true" class="space" ref=${space(first)}></li>
      ${numbers.slice(first, end).map((number) => html`
        <${Step} key=${number} number=${number} f=${all[number]} />`)}
      <li aria-hidden="true" class="space" ref=${space(numbers.length - end)}></li>
    </ol>`;
}

/** @param {{number: number, f: import("../types.js").Frame}} properties */
function Step({ number, f }) {
  const go = () => {
    state.goTo(number);
    if (f.message !== null && f.message !== undefined) state.selectMessage(f.message);
  };
  return html`<li class=${number > state.step.value ? "later" : ""}>
    <button type="button" onClick=${go}
      aria-current=${number === state.step.value ? "step" : undefined}>
      <span class="n">${number}</span> ${f.sentence}</button></li>`;
}

function save() {
  const shown = document.getElementById("diagram");
  const name = state.recording.value?.scenario.name ?? "timeline";
  if (shown instanceof SVGElement) download(`${name}.svg`, picture(shown), "image/svg+xml");
  else state.notice.value = "Show the timeline as a picture first, not as a list.";
}
