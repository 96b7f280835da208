// What an edit changed: two runs of one scenario, and what travels in one of them alone.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted, named } from "./text.js";

/** @typedef {import("../types.js").Recording} Recording */
/** @typedef {{scene: number, to: string, id: string, hash: string}} Travel */

export function CompareTab() {
  const now = state.recording.value;
  const others = {
    written: state.written.value, kept: state.keptRun.value, previous: state.previous.value,
  };
  const other = others[/** @type {"written"|"kept"|"previous"} */ (state.compareWith.value)];
  const keep = () => { state.keptRun.value = now; state.compareWith.value = "kept"; };
  if (!now || !other || other === now) {
    return html`<div class="panel"><p class="empty">${other !== null && other === now
      ? "This run is kept. Change rules, or take those of another policy, and run them: then this "
        + "says what differs."
      : "Run something that you changed: rules, a message, the time, the whole text. Then this "
        + "says what travels now and did not before, and why."}</p>
      <button type="button" id="keep-run" disabled=${!now || other === now} onClick=${keep}
        >Keep this run to compare with</button></div>`;
  }
  const mine = travels(now);
  const theirs = travels(other);
  const fresh = [...mine].filter(([key]) => !theirs.has(key)).map(([, one]) => one);
  const gone = [...theirs].filter(([key]) => !mine.has(key)).map(([, one]) => one);
  const same = mine.size - fresh.length;
  const choose = (/** @type {any} */ e) => { state.compareWith.value = e.target.value; };
  return html`
    <div class="panel compare">
      <label>Compared with <select id="compare-with" value=${state.compareWith.value}
        onChange=${choose}>
        <option value="previous">the run before</option>
        <option value="written">the scenario as it was opened</option>
        ${state.keptRun.value ? html`<option value="kept">the run that was kept</option>` : null}
        </select></label>
      <button type="button" id="keep-run" onClick=${keep}>Keep this run to compare with</button>
      <p id="compared">${fresh.length + gone.length
        ? `${counted(fresh.length, "record")} ${fresh.length === 1 ? "travels" : "travel"} now `
          + "and did not, "
          + `${counted(gone.length, "record")} no longer.`
        : "The same records travel."} ${counted(same, "record")} as before.</p>
      <${Policies} now=${now} other=${other} />
      <div class="pair">
        <article><h4>Travels now</h4>
          <${Travels} list=${fresh} run=${other} word="Before" /></article>
        <article><h4>No longer travels</h4>
          <${Travels} list=${gone} run=${now} word="Now" /></article>
      </div>
    </div>`;
}

/** The rules that only one of two runs has, by peer.
 * @param {{now: Recording, other: Recording}} properties */
function Policies({ now, other }) {
  const lines = (/** @type {Recording} */ run, /** @type {string} */ id) => new Set(
    run.scenario.peers.find((peer) => peer.id === id)?.checked.rules?.map((rule) => rule.line)
      ?? [],
  );
  return now.scenario.peers.map((peer) => {
    const [mine, theirs] = [lines(now, peer.id), lines(other, peer.id)];
    const fresh = [...mine].filter((line) => !theirs.has(line));
    const gone = [...theirs].filter((line) => !mine.has(line));
    if (!fresh.length && !gone.length) return null;
    return html`<section class="policies"><h4>Rules of ${peer.title}</h4>
      <ul>${gone.map((line) => html`<li><span class="bad">− only before</span>
          ${" "}<code>${named(line)}</code></li>`)}
        ${fresh.map((line) => html`<li><span class="good">+ only now</span>
          ${" "}<code>${named(line)}</code></li>`)}</ul></section>`;
  });
}

/** @param {{list: Travel[], run: Recording, word: string}} properties */
function Travels({ list, run, word }) {
  if (!list.length) return html`<p class="empty">Nothing.</p>`;
  const here = state.recording.value;
  return html`<ul class="travels">${list.map((one) => {
    const to = here?.scenario.peers.find((peer) => peer.id === one.to)?.title ?? one.to;
    const known = here !== null && one.hash in here.records;
    const show = () => { state.openScene(one.scene, Infinity); state.selectRecord(one.hash); };
    return html`<li>${known
      ? html`<button type="button" class="ref" onClick=${show}>${one.id}</button>` : one.id}
      ${" "}to ${to}, scene ${one.scene + 1}.${" "}
      <small>${word}: ${named(hindrance(run, one))}</small></li>`;
  })}</ul>`;
}

/** What was stored because the other side sent it. @param {Recording} run */
function travels(run) {
  /** @type {Map<string, Travel>} */
  const found = new Map();
  for (const scene of run.scenes) {
    for (const frame of scene.frames ?? []) {
      const to = scene.pair?.[frame.to ?? -1];
      for (const event of frame.events ?? []) {
        if (event.kind !== "RecordSaved" || !event.hash || to === undefined) continue;
        const id = run.records[event.hash]?.id ?? event.hash;
        found.set(`${scene.number} ${to} ${id}`, { scene: scene.number, to, id, hash: event.hash });
      }
    }
  }
  return found;
}

/** Why a record did not travel in a run, from the first of both machines that stood in its way.
 * @param {Recording} run @param {Travel} one */
function hindrance(run, one) {
  const scene = run.scenes[one.scene];
  const records = Object.entries(run.records);
  const hash = records.find(([, record]) => record.id === one.id)?.[0] ?? one.hash;
  const receiver = scene?.pair?.indexOf(one.to) ?? -1;
  const frame = scene?.frames?.at(-1);
  if (!scene || receiver < 0 || !frame) return "the two do not meet in this scene.";
  const titleOf = (/** @type {string} */ id) =>
    run.scenario.peers.find((peer) => peer.id === id)?.title ?? id;
  const peers = scene.pair?.map(titleOf) ?? [];
  const policy = (/** @type {number} */ side) => run.policies[frame.policies[side] ?? -1];
  const send = policy(1 - receiver)?.verdicts.send[hash];
  if (send && !send.allowed) {
    return `${peers[1 - receiver]} does not send it; ${send.layer}: ${send.detail}.`;
  }
  const request = policy(receiver)?.verdicts.request[hash];
  if (request && !request.allowed) {
    return `${peers[receiver]} does not ask for it; ${request.layer}: ${request.detail}.`;
  }
  if (scene.before[one.to]?.includes(hash)) return `${peers[receiver]} had it already.`;
  if (!send) return `${peers[1 - receiver]} does not have it.`;
  return "it was not delivered.";
}
