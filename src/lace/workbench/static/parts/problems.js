// What is wrong with a scenario, and where.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";

export function ProblemsTab() {
  return html`
    <div class="panel problems">
      ${state.problems.value.length ? null : html`<p class="empty">No problems.</p>`}
      <${ProblemList} />
    </div>`;
}

/** Everything that is wrong, in the order of the text; nothing where nothing is. */
export function ProblemList() {
  const found = state.problems.value;
  if (found.length === 0) return null;
  return html`
    <ul class="diagnostics" role="status">${found.map((d) => html`
      <li><b>line ${d.line}, column ${d.column}</b> ${d.message} <code>${d.code}</code><br />
        <small>${d.message.includes(d.meaning) ? null : `${d.meaning} `}
          ${d.hint}</small></li>`)}</ul>`;
}
