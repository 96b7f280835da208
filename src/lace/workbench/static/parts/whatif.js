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
  const at = { scene, step: null };
  const order = (/** @type {object} */ more) => {
    const step = state.step.value;
    const fresh = { scene, step, peer: "", text: "", seconds: 0, do: "tick", ...more };
    return engine.run({ changes: { orders: [...orders, fresh] }, at: { scene, step: step + 1 } });
  };
  /** @param {Partial<import("../types.js").Changes>} changes */
  const run = (changes) => engine.run({ changes, at });
  const idle = !can || !state.frame.value;
  return html`
    <div class="panel whatif">
      <p class="quiet">Everything here runs the scenario again with the real engine; nothing is
        simulated in the page. To lose, repeat, reorder or damage a message, select its arrow.</p>
      <div class="row">
        <label>Time passes here: <input type="number" id="tick-seconds" min="1" max="100000000"
          value=${seconds}
          onInput=${(/** @type {any} */ e) => setSeconds(Number(e.target.value))} /> s</label>
        <button type="button" id="tick" disabled=${idle}
          onClick=${() => order({ do: "tick", seconds })}>Advance the tick</button>
        ${state.pair.value.map((peer) => peer ? html`<button type="button" disabled=${idle}
          onClick=${() => order({ do: "close", peer: peer.id })}>${peer.title} closes</button>`
          : null)}
      </div>
      <div class="row">
        <label>Whose turn it is, drawn by seed: <input type="number" id="seed" min="0" max="1000000"
          value=${seed} disabled=${!can}
          onChange=${(/** @type {any} */ e) => run({ seed: Number(e.target.value) })} /></label>
        <button type="button" id="other-seed" disabled=${!can}
          onClick=${() => run({ seed: seed + 1 })}>Another seed</button>
        <small>0 delivers in turns</small>
      </div>
      <h4>Changed</h4>
      ${faults.length + orders.length + (seed ? 1 : 0) === 0
        ? html`<p class="empty">Nothing: this is the scenario as it was written.</p>`
        : html`<ul class="changes">
        ${faults.map((f) => html`<li>${faultSays(f)} <${TakeBack}
          act=${() => run({ faults: faults.filter((x) => x !== f) })} /></li>`)}
        ${orders.map((o) => html`<li>${orderSays(o)} <${TakeBack}
          act=${() => run({ orders: orders.filter((x) => x !== o) })} /></li>`)}
        ${seed ? html`<li>Turns drawn by seed ${seed} <${TakeBack}
          act=${() => engine.run({ changes: { seed: 0 } })} /></li>` : null}</ul>
        <button type="button" id="all-back"
          onClick=${() => run({ faults: [], orders: [], seed: 0 })}>Take everything back</button>`}
    </div>`;
}

/** @param {{act: () => void}} properties */
function TakeBack({ act }) {
  return html`<button type="button" class="plain" onClick=${act}>take back</button>`;
}

/** @param {import("../types.js").FaultChange} fault */
function faultSays(fault) {
  const what = fault.record ? `record ${fault.record}` : `message ${fault.message}`;
  return `Scene ${fault.scene + 1}: ${what} of ${fault.sender} is ${DEEDS[fault.do]}`;
}

/** @param {import("../types.js").OrderChange} order */
function orderSays(order) {
  const what = order.do === "tick" ? `${order.seconds} s pass`
    : order.do === "rules" ? `${order.peer} changes its rules` : `${order.peer} closes`;
  return `Scene ${order.scene + 1}, step ${order.step}: ${what}`;
}
