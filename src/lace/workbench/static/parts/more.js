// The other tabs: plan, disclosure, watches and what-if.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { DEEDS, counted, named } from "./text.js";

export function PlanTab() {
  const plan = state.scene.value?.plan;
  if (!plan) return html`<div class="panel"><p class="empty">No plan was agreed on in this scene.</p></div>`;
  return html`
    <div class="panel plan">
      <h3>Exchange plan <code class="hash">${plan.id}</code></h3>
      <p>Both sides computed it by themselves from the two operands, and go on only because it is the same.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Operands"><table><caption class="sr">Operands</caption>
        <thead><tr><th scope="col">Operand</th><th scope="col">Side</th><th scope="col">Label in this exchange</th><th scope="col">Proven key</th><th scope="col">Rules</th></tr></thead>
        <tbody>${plan.operands.map((o) => html`<tr><th scope="row">${o.index}</th><td>${state.pair.value[o.index]?.title}</td><td><code>${o.origin}</code></td><td>${o.verifier ? named(o.verifier) : "none"}</td><td><code>${o.module}</code></td></tr>`)}</tbody></table></div>
      <p>Advertisements carry: <b>${plan.fields === null ? "all fields" : plan.fields.join(", ") || "no fields, only hashes"}</b>. Lowering: ${plan.lowering}.</p>
      <details><summary>Transcript</summary><pre class="lines">${plan.transcript}</pre></details>
    </div>`;
}

export function DisclosureTab() {
  const scene = state.scene.value;
  const entries = (scene?.ledger ?? []).filter((entry) => entry.step < state.step.value);
  const [open, setOpen] = useState(/** @type {number|null} */ (null));
  return html`
    <div class="panel disclosure">
      <p class="quiet">What each side has learned so far, each line from one message. Explanations are worked out on the machine they speak of; the other side never sees them.</p>
      <div class="pair">${[0, 1].map((side) => {
        const mine = entries.filter((entry) => entry.side === side);
        const me = state.pair.value[side];
        const audit = scene?.audits?.[1 - side];
        const you = state.pair.value[1 - side];
        return html`<article>
          <h4>${me?.title} has learned ${counted(mine.length, "thing")}</h4>
          <ol class="ledger">${mine.map((entry) => html`<li class=${`l-${entry.kind}`}><button type="button" class="ref" onClick=${() => state.selectMessage(entry.message)}>step ${entry.step + 1}</button> <small>${entry.kind}</small> ${named(entry.text, side)}</li>`)}</ol>
          ${audit ? html`<div class="bait">
            <button type="button" id=${`bait-${side}`} aria-expanded=${open === side} onClick=${() => setOpen(open === side ? null : side)}>Bait test: can ${me?.title}’s rules find out what ${you?.title} hides?</button>
            ${open === side ? html`<div role="status" class="bait-result" id=${`bait-result-${side}`}>
              <p class=${audit.holds ? "good" : "bad"}><b>${!audit.holds ? `✗ ${you?.title} gives away what it keeps back` : audit.compared ? `✓ ${you?.title}’s hidden records stay hidden` : `– ${you?.title} keeps nothing back: there is nothing to find out`}</b></p>
              ${audit.compared ? html`<p>Run again without what ${you?.title} keeps back: ${audit.compared.text}.</p>` : null}
              <ul>${audit.sentences.map((sentence) => html`<li>${named(sentence)}</li>`)}</ul>
              ${audit.baits.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Baits"><table><caption class="sr">Baits</caption><thead><tr><th scope="col">Hidden value</th><th scope="col">Found out</th></tr></thead>
                <tbody>${audit.baits.map((bait) => html`<tr><td>${bait.field} ${named(bait.value)}</td><td>${bait.learned ? "✗ yes" : "✓ no"}</td></tr>`)}</tbody></table></div>` : html`<p>${you?.title} hides nothing from these rules.</p>`}
            </div>` : null}
            ${audit.declassified.length ? html`<p class="notice">⚠ ${counted(audit.declassified.length, "record")} of ${you?.title} may be sent because of records that ${me?.title} cannot see: ${audit.declassified.map(([hash]) => named(hash, side))}. That may be meant; it should be known.</p>` : null}
          </div>` : null}
        </article>`;
      })}</div>
    </div>`;
}

export function WatchesTab() {
  const scene = state.scene.value;
  const text = state.watchText.value;
  const changes = state.recording.value?.changes;
  if (!scene || !changes) return null;
  const atEnd = state.step.value >= state.last.value;
  const can = state.engine.value === "ready";
  const add = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    const done = await engine.run({ changes: { watched: [...changes.watched, wanted] } });
    if (done && state.watchText.value.trim() === wanted) state.watchText.value = "";
  };
  return html`
    <div class="panel watches">
      <ul class="watch-list">${scene.checks.map((check) => {
        const judged = atEnd || (check.since !== null && state.step.value >= check.since);
        const word = !judged ? "not yet" : check.ok || !atEnd ? "holds" : "does not hold";
        const good = judged && (check.ok || !atEnd);
        return html`<li class=${good ? "good" : judged ? "bad" : "quiet"}><b>${good ? "✓" : judged ? "✗" : "…"}</b> ${check.text}${" "}
          <small>${word}${atEnd ? `: ${check.detail}` : check.since === null ? " (judged at the end of the scene)" : ""}</small>
          ${check.watch ? html` <button type="button" class="plain" disabled=${!can} onClick=${() => engine.run({ changes: { watched: changes.watched.filter((w) => w !== check.text) } })}>remove</button>` : null}</li>`;
      })}</ul>
      <form onSubmit=${add}><label>Watch a sentence <input id="watch" list="sentences" value=${text} disabled=${!can} placeholder="alice has bob-note" onInput=${(/** @type {any} */ e) => { state.watchText.value = e.target.value; }} /></label>
        <datalist id="sentences">${suggestions().map((s) => html`<option value=${s}></option>`)}</datalist>
        <button type="submit" disabled=${!can}>Watch</button></form>
    </div>`;
}

function suggestions() {
  const ids = Object.values(state.recording.value?.records ?? {}).map((r) => r.id).filter(Boolean).slice(0, 12);
  return state.pair.value.flatMap((peer) => peer ? ids.flatMap((id) => [`${peer.id} has ${id}`, `${peer.id} lacks ${id}`, `${peer.id} never learns ${id}`]) : []);
}

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
