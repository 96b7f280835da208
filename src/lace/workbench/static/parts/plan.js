// The plan that both sides computed by themselves.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";
import { named } from "./text.js";

export function PlanTab() {
  const plan = state.scene.value?.plan;
  if (!plan) {
    return html`<div class="panel">
      <p class="empty">No plan was agreed on in this scene.</p></div>`;
  }
  const { fields } = plan;
  const carried = fields === null ? "all fields" : fields.join(", ") || "no fields, only hashes";
  return html`
    <div class="panel plan">
      <h3>Exchange plan <code class="hash">${plan.id}</code></h3>
      <p>Both sides computed it by themselves from the two operands, and go on only because it is
        the same.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Operands">
        <table><caption class="sr">Operands</caption>
          <thead><tr><th scope="col">Operand</th><th scope="col">Side</th>
            <th scope="col">Label in this exchange</th><th scope="col">Proven key</th>
            <th scope="col">Rules</th></tr></thead>
          <tbody>${plan.operands.map((o) => html`<tr><th scope="row">${o.index}</th>
            <td>${state.pair.value[o.index]?.title}</td><td><code>${o.origin}</code></td>
            <td>${o.verifier ? named(o.verifier) : "none"}</td>
            <td><code>${o.module}</code></td></tr>`)}</tbody></table></div>
      <p>Advertisements carry: <b>${carried}</b>. Lowering: ${plan.lowering}.</p>
      <details><summary>Transcript</summary><pre class="lines">${plan.transcript}</pre></details>
    </div>`;
}
