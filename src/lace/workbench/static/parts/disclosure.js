// What each side has learned, and the bait test.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted, named } from "./text.js";

export function DisclosureTab() {
  return html`
    <div class="panel disclosure">
      <p class="quiet">What each side has learned so far, each line from one message. Explanations
        are worked out on the machine they speak of; the other side never sees them.</p>
      <div class="pair">${[0, 1].map((side) => html`<${Side} key=${side} side=${side} />`)}</div>
    </div>`;
}

/** What one side has learned, and the bait test of its rules. @param {{side: number}} properties */
function Side({ side }) {
  const [open, setOpen] = useState(false);
  const scene = state.scene.value;
  const entries = (scene?.ledger ?? []).filter((entry) => entry.step < state.step.value);
  const mine = entries.filter((entry) => entry.side === side);
  const audit = scene?.audits?.[1 - side];
  const me = state.pair.value[side]?.title ?? "";
  const you = state.pair.value[1 - side]?.title ?? "";
  return html`<article>
    <h4>${me} has learned ${counted(mine.length, "thing")}</h4>
    <ol class="ledger">${mine.map((entry) => html`<li class=${`l-${entry.kind}`}>
      <button type="button" class="ref" onClick=${() => state.selectMessage(entry.message)}
        >step ${entry.step + 1}</button>${" "}
      <small>${entry.kind}</small> ${named(entry.text, side)}</li>`)}</ol>
    ${audit ? html`<div class="bait">
      <button type="button" id=${`bait-${side}`} aria-expanded=${open}
        onClick=${() => setOpen(!open)}
        >Bait test: can ${me}’s rules find out what ${you} hides?</button>
      ${open ? html`<${BaitTest} side=${side} audit=${audit} you=${you} />` : null}
      ${audit.declassified.length ? html`<p class="notice">
        ⚠ ${counted(audit.declassified.length, "record")} of ${you} may be sent because of records
        that ${me} cannot see: ${audit.declassified.map(([hash]) => named(hash, side))}. That may be
        meant; it should be known.</p>` : null}
    </div>` : null}
  </article>`;
}

/** What one side’s rules found out of what ``you`` keeps back.
 * @param {{side: number, audit: import("../types.js").Audit, you: string}} properties */
function BaitTest({ side, audit, you }) {
  const [verdict, look] = !audit.holds ? [`✗ ${you} gives away what it keeps back`, "bad"]
    : audit.compared && audit.baits.length ? [`✓ ${you}’s hidden records stay hidden`, "good"]
    : [`– ${you} hides nothing here, so nothing was tested`, "quiet"];
  return html`<div role="status" class="bait-result" id=${`bait-result-${side}`}>
    <p class=${look}><b>${verdict}</b></p>
    ${audit.compared
      ? html`<p>Run again without what did not cross: ${audit.compared.text}.</p>` : null}
    <ul>${audit.sentences.map((sentence) => html`<li>${named(sentence)}</li>`)}</ul>
    ${audit.baits.length ? html`
      <div class="scroll" tabindex="0" role="region" aria-label="Baits">
        <table><caption class="sr">Baits</caption>
          <thead><tr><th scope="col">Value that is kept back</th>
            <th scope="col">Found out</th></tr></thead>
          <tbody>${audit.baits.map((bait) => html`<tr>
            <td>${bait.field} ${named(bait.value)}</td>
            <td>${bait.learned ? "✗ yes" : "✓ no"}</td></tr>`)}</tbody></table></div>` : null}
  </div>`;
}
