// Texts with the names of records and keys in place of their hashes.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";

const ID = /([BPSV]\.[0-9A-Z_a-z~]{43}\.H3|[RUE]\.[0-9A-Z_a-z~]{43})/g;

/** A text in which each id is a name: records can be selected, the rest tells its id.
 * @param {string} text @param {number} [side] */
export function named(text, side) {
  return text.split(ID).map((part, index) => {
    if (index % 2 === 0) return part;
    const name = state.names.value.get(part);
    if (name && part[0] !== "V") {
      return html`<button type="button" class="ref" title=${part}
        onClick=${() => state.selectRecord(part, side)}>${name}</button>`;
    }
    if (part[0] === "U") return html`<${RuleName} id=${part} />`;
    return html`<span class="id" title=${part}>${name ?? short(part)}</span>`;
  });
}

/** @param {{id: string}} properties */
export function RuleName({ id }) {
  const info = state.ruleInfo.value.get(id);
  const label = info?.notes.label ?? info?.head ?? short(id);
  return html`<span class="rule-name" title=${`${id}\n${info?.line ?? ""}`}>${label}</span>`;
}

/** @param {string} id */
export function short(id) {
  return id.length > 16 ? `${id.slice(0, 8)}…` : id;
}

/** @param {number} count @param {string} word */
export function counted(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** Icons are shapes, and never stand alone: a word is always beside them. */
export const ICONS = {
  have: "●", advertised: "◌", requestable: "◎", "in flight": "➤", rejected: "✕", hidden: "◑",
  newest: "▲", ok: "✓", bad: "✗", wait: "…",
};

/** What befell a message, in a word. @type {Record<string, string>} */
export const DEEDS = {
  drop: "lost", duplicate: "sent twice", swap: "overtaken", flip: "damaged", cut: "cut off",
};
