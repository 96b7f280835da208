// Sentences that hold or do not: those of the scenario, and one's own.
// @ts-check
import { html } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";

export function WatchesTab() {
  const scene = state.scene.value;
  const origin = state.originOf(state.recording.value?.scenario);
  const text = state.draftOf(state.WATCH, origin) ?? "";
  const write = (/** @type {string} */ next) => state.setDraft(origin, state.WATCH, next, "");
  const changes = state.recording.value?.changes;
  if (!scene || !changes) return null;
  const atEnd = state.step.value >= state.last.value;
  const can = state.engine.value === "ready";
  const add = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    const done = await engine.run({ changes: { watched: [...changes.watched, wanted] } });
    if (done && state.draftOf(state.WATCH, origin)?.trim() === wanted) write("");
  };
  /** @param {string} sentence */
  const remove = (sentence) =>
    engine.run({ changes: { watched: changes.watched.filter((w) => w !== sentence) } });
  return html`
    <div class="panel watches">
      <ul class="watch-list">${scene.checks.map((check) => {
        const judged = atEnd || (check.since !== null && state.step.value >= check.since);
        const word = !judged ? "not yet" : check.ok || !atEnd ? "holds" : "does not hold";
        const good = judged && (check.ok || !atEnd);
        const more = atEnd ? `: ${check.detail}`
          : check.since === null ? " (judged at the end of the scene)" : "";
        return html`<li class=${good ? "good" : judged ? "bad" : "quiet"}>
          <b>${good ? "✓" : judged ? "✗" : "…"}</b> ${check.text}${" "}
          <small>${word}${more}</small>
          ${check.watch ? html` <button type="button" class="plain" disabled=${!can}
            onClick=${() => remove(check.text)}>remove</button>` : null}</li>`;
      })}</ul>
      <form onSubmit=${add}><label>Watch a sentence <input id="watch" list="sentences"
        value=${text} disabled=${!can} placeholder="alice has bob-note"
        onInput=${(/** @type {any} */ e) => write(e.target.value)} /></label>
        <datalist id="sentences">
          ${suggestions().map((s) => html`<option value=${s}></option>`)}</datalist>
        <button type="submit" disabled=${!can}>Watch</button></form>
    </div>`;
}

function suggestions() {
  const records = Object.values(state.recording.value?.records ?? {});
  const ids = records.map((r) => r.id).filter(Boolean).slice(0, 12);
  const says = ["has", "lacks", "never learns"];
  return state.pair.value.flatMap((peer) => peer
    ? ids.flatMap((id) => says.map((word) => `${peer.id} ${word} ${id}`)) : []);
}
