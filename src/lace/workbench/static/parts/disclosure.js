// What each side has learned, and the bait test.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted, named } from "./text.js";

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
