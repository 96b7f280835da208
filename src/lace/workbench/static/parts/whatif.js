// What if: time, turns and accidents, each with the whole scenario run again.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { DEEDS } from "./text.js";

export function WhatIfTab() {
  const now = state.recording.value;
  const [seconds, setSeconds] = useState(60);
  if (!now) return null;
  const { faults, orders, seed } = now.changes;
  const can = state.engine.value === "ready";
  const scene = state.sceneNumber.value;
  const order = (/** @type {object} */ more) => engine.run({ changes: { orders: [...orders, { scene, step: state.step.value, peer: "", text: "", seconds: 0, do: "tick", ...more }] }, at: { scene, step: state.step.value + 1 } });
  return html`
    <div class="panel whatif">
      <p class="quiet">Everything here runs the scenario again with the real engine; nothing is simulated in the page. To lose, repeat, reorder or damage a message, select its arrow.</p>
      <div class="row">
        <label>Time passes here: <input type="number" id="tick-seconds" min="1" max="100000000" value=${seconds} onInput=${(/** @type {any} */ e) => setSeconds(Number(e.target.value))} /> s</label>
        <button type="button" id="tick" disabled=${!can || !state.frame.value} onClick=${() => order({ do: "tick", seconds })}>Advance the tick</button>
        ${state.pair.value.map((peer) => peer ? html`<button type="button" disabled=${!can || !state.frame.value} onClick=${() => order({ do: "close", peer: peer.id })}>${peer.title} closes</button>` : null)}
      </div>
      <div class="row">
        <label>Whose turn it is, drawn by seed: <input type="number" id="seed" min="0" max="1000000" value=${seed} disabled=${!can} onChange=${(/** @type {any} */ e) => engine.run({ changes: { seed: Number(e.target.value) }, at: { scene, step: null } })} /></label>
        <button type="button" id="other-seed" disabled=${!can} onClick=${() => engine.run({ changes: { seed: seed + 1 }, at: { scene, step: null } })}>Another seed</button>
        <small>0 delivers in turns</small>
      </div>
      <h4>Changed</h4>
      ${faults.length + orders.length + (seed ? 1 : 0) === 0 ? html`<p class="empty">Nothing: this is the scenario as it was written.</p>` : html`<ul class="changes">
        ${faults.map((f) => html`<li>Scene ${f.scene + 1}: ${f.record ? `record ${f.record}` : `message ${f.message}`} of ${f.sender} is ${DEEDS[f.do]} <button type="button" class="plain" onClick=${() => engine.run({ changes: { faults: faults.filter((x) => x !== f) }, at: { scene, step: null } })}>take back</button></li>`)}
        ${orders.map((o) => html`<li>Scene ${o.scene + 1}, step ${o.step}: ${o.do === "tick" ? `${o.seconds} s pass` : o.do === "rules" ? `${o.peer} changes its rules` : `${o.peer} closes`} <button type="button" class="plain" onClick=${() => engine.run({ changes: { orders: orders.filter((x) => x !== o) }, at: { scene, step: null } })}>take back</button></li>`)}
        ${seed ? html`<li>Turns drawn by seed ${seed} <button type="button" class="plain" onClick=${() => engine.run({ changes: { seed: 0 } })}>take back</button></li>` : null}</ul>
        <button type="button" id="all-back" onClick=${() => engine.run({ changes: { faults: [], orders: [], seed: 0 }, at: { scene, step: null } })}>Take everything back</button>`}
    </div>`;
}
