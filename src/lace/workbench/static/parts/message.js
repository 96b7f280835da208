// One message: its exact lines, and how they differ from the last of its kind.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { InspectionView } from "./record.js";
import { DEEDS, counted, named } from "./text.js";

export function MessageTab() {
  const [difference, setDifference] = useState(false);
  const scene = state.scene.value;
  const chosen = state.selection.value?.message ?? state.frame.value?.message;
  const message = scene?.messages?.find((m) => m.number === chosen);
  if (!scene || !message) {
    return html`<div class="panel">
      <p class="empty">Select an arrow of the timeline, or step to a message.</p></div>`;
  }
  const [one, two] = state.pair.value;
  const [from, to] = message.sender === 0 ? [one, two] : [two, one];
  const diffs = message.added !== undefined;
  const only = difference && diffs;
  const showBytes = () => {
    const hash = message.record ?? "";
    state.selection.value = { kind: "record", hash, side: message.sender };
    state.tab.value = "record";
  };
  return html`
    <div class="panel message">
      <h3>${from?.title} → ${to?.title}: ${message.summary}</h3>
      <p class="quiet">Message ${message.own} of ${from?.title}, ${message.phase}
        ${message.loop ? `, loop ${message.loop}` : ""}, ${counted(message.bytes, "byte")},
        ${" "}sent at step ${message.sent + 1},${" "}
        ${message.arrives === null ? html`<b class="bad">never arrives</b>`
          : `arrives at step ${message.arrives + 1}`}
        ${message.deed ? html` <b class="bad">(${DEEDS[message.deed]})</b>` : null}</p>
      <${WhatIf} message=${message} sender=${from?.id ?? ""} />
      ${message.kind === "end"
        ? html`<p>Nothing but the end of a phase: “I have said what I have to say.”</p>` : null}
      ${message.kind === "rules"
        ? html`<p>The canonical text of the rules <code>${message.module}</code>.</p>` : null}
      ${diffs ? html`<label class="toggle"><input type="checkbox" checked=${difference}
        onChange=${(/** @type {any} */ e) => setDifference(e.target.checked)} /> only what differs
        from the last ${message.phase} of ${from?.title}</label>` : null}
      ${message.lines.length ? html`<${Lines} lines=${only ? [] : message.lines}
        added=${message.added ?? []} removed=${only ? message.removed ?? [] : []}
        only=${only} sender=${message.sender} />` : null}
      ${message.more ? html`<p class="notice">${message.more} more lines are not shown.</p>` : null}
      ${message.arrived ? html`<h4>What arrives instead</h4>
        <pre class="lines">${message.arrived.join("\n")}</pre>` : null}
      ${message.inspection ? html`<h4>What arrives</h4>
        <${InspectionView} inspection=${message.inspection} />` : null}
      ${message.kind === "record" && message.record && !message.inspection
        ? html`<p>The whole bytes of ${named(message.record)}, as they are stored.${" "}
          <button type="button" onClick=${showBytes}>Show the bytes</button></p>` : null}
    </div>`;
}

/** @param {{lines: string[], added: string[], removed: string[], only: boolean, sender: number}
 *   } properties */
function Lines({ lines, added, removed, only, sender }) {
  const fresh = new Set(added);
  const shown = only ? added : lines;
  return html`<ol class="facts" aria-label="Lines">
    ${shown.map((line) => html`<li class=${fresh.has(line) ? "added" : ""}>
      ${fresh.has(line) ? html`<b aria-label="new">+</b> ` : null}
      <code>${named(line, 1 - sender)}</code></li>`)}
    ${removed.map((line) => html`<li class="removed"><b aria-label="gone">−</b>
      ${" "}<code>${named(line, 1 - sender)}</code></li>`)}
    ${only && !added.length && !removed.length
      ? html`<li>The same lines as before.</li>` : null}</ol>`;
}

/** @param {{message: import("../types.js").Message, sender: string}} properties */
function WhatIf({ message, sender }) {
  const can = state.engine.value === "ready";
  const deeds = /** @type {const} */ ([
    ["drop", "lost"], ["duplicate", "sent twice"], ["swap", "overtaken by the next"],
    ["flip", "damaged"], ["cut", "cut off, with all that follows"],
  ]);
  const changes = state.recording.value?.changes;
  if (!changes) return null;
  const scene = state.sceneNumber.value;
  const mine = changes.faults.find(
    (f) => f.scene === scene && f.sender === sender && f.message === message.own,
  );
  /** @param {string} deed */
  const set = (deed) => {
    const rest = changes.faults.filter((f) => f !== mine);
    const fault = { scene, do: deed, sender, record: null, message: message.own, byte: -2 };
    const faults = mine?.do === deed ? rest : [...rest, fault];
    void engine.run({ changes: { faults }, at: { scene, step: message.sent + 1 } });
  };
  return html`<div class="deeds" role="group" aria-label="What if this message were…"
    >What if it were
    ${deeds.map(([deed, words]) => html`<button type="button" id=${`deed-${deed}`} disabled=${!can}
      aria-pressed=${mine?.do === deed} onClick=${() => set(deed)}>${words}</button>`)}</div>`;
}
