// One lace: its records as a table, or its rules in an editor.
// @ts-check
import { html, useRef } from "../vendor/preact.js";
import * as state from "../state.js";
import { glossed, term } from "./glossary.js";
import { RulesPanel } from "./rules.js";
import { ICONS, counted, named } from "./text.js";

/** @param {{side: number}} properties */
export function Lace({ side }) {
  const peer = state.pair.value[side];
  if (!peer) return null;
  const rows = state.rows(side);
  const have = rows.filter((row) => row.state === "have");
  const sendable = have.filter((row) => row.sendable).length;
  const other = state.pair.value[1 - side];
  const which = state.laceTab.value[side];
  const phase = [...state.frames.value.slice(0, state.step.value + 1)].reverse()
    .find((f) => f.to === side)?.after;
  return html`
    <section class="lace side-${side}" aria-label=${`${peer.title}'s lace`}>
      <header>
        <h3>${peer.title}</h3>
        <span class="who">${peer.verifier ? html`proves ${named(peer.verifier)}` : "proves no key"}
        </span>
        ${phase ? html`<span class="phase p-${phase}">${glossed(phase)}</span>` : null}
        <div class="tabs small" role="tablist" aria-label=${`${peer.title}: records or rules`}>
          ${["records", "rules"].map((name) => html`
            <button type="button" role="tab" id=${`lace-${side}-${name}`}
              aria-selected=${which === name} tabindex=${which === name ? 0 : -1}
              onKeyDown=${(/** @type {KeyboardEvent} */ e) => arrowTabs(e, side)}
              onClick=${(/** @type {any} */ e) => {
                setTab(side, name);
                if (e.detail) e.currentTarget.blur();
              }}>${name === "records" ? `Records ${have.length}` : "Rules"}</button>`)}
        </div>
      </header>
      ${which === "records" ? html`
        <div class="tools">
          <span class="count">${counted(have.length, "record")}
            ${state.frame.value ? glossed(`, ${sendable} sendable`) : ""}</span>
          <label class="toggle"><input type="checkbox" checked=${state.viewAs.value === side}
            onChange=${(/** @type {any} */ e) => {
              state.viewAs.value = e.target.checked ? side : -1;
            }} />
            as ${other?.title ?? "the other"}’s rules see it</label>
        </div>
        <${Table} side=${side} />`
        : html`<${RulesPanel} key=${peer.id} side=${side} peer=${peer} />`}
    </section>`;
}

/** @param {number} side @param {string} name */
function setTab(side, name) {
  const next = [...state.laceTab.value];
  next[side] = name;
  state.laceTab.value = next;
}

/** @param {KeyboardEvent} event @param {number} side */
function arrowTabs(event, side) {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  event.stopPropagation();
  const name = state.laceTab.value[side] === "records" ? "rules" : "records";
  setTab(side, name);
  document.getElementById(`lace-${side}-${name}`)?.focus();
}

const MOST_ROWS = 400;

/** @param {{side: number}} properties */
function Table({ side }) {
  /** @type {Map<string, {row: object, sign: string, node: any}>} */
  const kept = useRef(new Map()).current;
  const peer = state.pair.value[side];
  const other = state.pair.value[1 - side];
  const before = new Map(state.rowsBefore(side).map((row) => [row.hash, row.state]));
  const wanted = state.filter.value.toLowerCase();
  const all = state.rows(side);
  const rows = all.filter((row) => matches(row, wanted));
  const columns = state.columns.value;
  const masked = state.viewAs.value === side;
  /** @type {Map<string|null, string>} */
  const outgoing = new Map((state.scene.value?.messages ?? [])
    .filter((m) => m.record && m.sender === side && m.sent < state.step.value
      && (m.arrives === null || m.arrives >= state.step.value))
    .map((m) => [m.record, m.arrives === null ? "lost on the way" : "leaving"]));
  const seen = masked ? `newest that ${other?.title ?? "the other"}’s rules see` : "newest here";
  const marked = rows.some((row) => isTip(row, masked));
  /** Of hundreds of rows a step changes a few: the others are the same object, and not drawn again.
   * @param {import("../types.js").Row} row */
  const drawn = (row) => {
    const properties = {
      side, columns, chosen: state.selection.value?.hash === row.hash, other: other?.title ?? "",
      fresh: state.frame.value !== null && before.get(row.hash) !== row.state,
      masked: masked && row.state === "have" && row.hidden === true,
      leaving: outgoing.get(row.hash) ?? "", newest: isTip(row, masked) ? seen : "",
    };
    const sign = JSON.stringify(properties);
    const known = kept.get(row.hash);
    if (known?.row === row && known.sign === sign) return known.node;
    const node = html`<${RecordRow} key=${row.hash} row=${row} ...${properties} />`;
    kept.set(row.hash, { row, sign, node });
    return node;
  };
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${`Records of ${peer.title}`}>
      <table>
        <caption class="sr">Records of ${peer.title} at step ${state.step.value}</caption>
        <thead><tr><th scope="col">${term("Status")}</th><th scope="col">Record</th>
          ${columns.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
        ${groups(rows.slice(0, MOST_ROWS)).map(({ at, found }, index) => html`
        <tbody key=${at || index} class=${at ? "versions" : ""}>
          ${at ? html`<tr class="coordinate"><th scope="rowgroup" colspan=${columns.length + 2}
            ><code>${at}</code> <small>${versions(all, at)}</small></th></tr>` : null}
          ${found.map(drawn)}
        </tbody>`)}
      </table>
      ${marked ? html`<p class="footnote"><span aria-hidden="true">${ICONS.newest}</span>
        ${" "}${seen}: the raw tip, by time and then by hash. A candidate, not a truth; which
        version counts is for rules to say.</p>` : null}
      ${rows.length === 0 ? html`<p class="empty">
        ${all.length ? "No record fits the filter." : "Nothing is stored here yet."}</p>` : null}
      ${rows.length > MOST_ROWS ? html`<p class="empty">Showing ${MOST_ROWS} of ${rows.length}
        ${" "}records; filter to see others.</p>` : null}
    </div>`;
}

/** How many versions a coordinate has.
 * @param {import("../types.js").Row[]} all @param {string} at */
function versions(all, at) {
  return counted(all.filter((row) => row.at === at).length, "version");
}

/** Whether the engine marked a row as the raw tip of what is shown.
 * @param {import("../types.js").Row} row @param {boolean} masked */
function isTip(row, masked) {
  return (masked ? row.seen_tip : row.tip) === true;
}

/** Neighbours that the engine put at one coordinate; the rest as it comes.
 * @param {import("../types.js").Row[]} rows */
function groups(rows) {
  /** @type {{at: string, found: import("../types.js").Row[]}[]} */
  const made = [];
  for (const row of rows) {
    const at = row.at ?? "";
    const previous = made.at(-1);
    if (previous?.at === at) previous.found.push(row);
    else made.push({ at, found: [row] });
  }
  return made.length ? made : [{ at: "", found: [] }];
}

/** @param {import("../types.js").Row} row @param {string} wanted */
function matches(row, wanted) {
  if (!wanted) return true;
  const values = knownFields(row).map((f) => f[1]);
  const text = [state.nameOf(row.hash), row.state, row.at ?? "", ...values].join(" ");
  return text.toLowerCase().includes(wanted);
}

/** What this side knows of a record: its fields if it has it, else what it was told.
 * @param {import("../types.js").Row} row @returns {[string, string][]} */
function knownFields(row) {
  if (row.told) return row.told;
  return (state.recording.value?.records[row.hash]?.fields ?? []).map((f) => [f[0], f[2]]);
}

/** @param {{row: import("../types.js").Row, side: number, columns: string[], fresh: boolean,
 *   masked: boolean, leaving: string, newest: string, other: string, chosen: boolean}
 *   } properties */
function RecordRow({ row, side, columns, fresh, masked, leaving, newest, other, chosen }) {
  const words = [];
  if (fresh) words.push("new");
  if (leaving) words.push(leaving);
  if (row.hidden === true) words.push(`${ICONS.hidden} hidden from ${other}`);
  const icon = ICONS[/** @type {keyof typeof ICONS} */ (row.state)] ?? "●";
  const marks = `${chosen ? "chosen " : ""}${masked ? "masked " : ""}${fresh ? "fresh" : ""}`;
  return html`
    <tr class=${`record ${marks}`}>
      <td class="status s-${row.state.replace(" ", "-")}"><span aria-hidden="true">${icon}</span>
        ${" "}${term(row.state, false)}
        ${newest ? html`<small class="mark newest"><span aria-hidden="true">${ICONS.newest}</span>
          ${" "}${newest}<span class="sr">, a candidate</span></small>` : null}
        ${words.map((word) => html`<small class="mark">${glossed(word, false)}</small>`)}
        ${row.code ? html`<small class="mark bad">${row.code}</small>` : null}</td>
      <th scope="row"><button type="button" class="ref" title=${row.hash} aria-pressed=${chosen}
        onClick=${() => state.selectRecord(row.hash, side)}>${state.nameOf(row.hash)}</button></th>
      ${columns.map((name) => html`<td key=${name}>
        ${masked ? html`<span class="veil">not visible</span>` : cell(row, name)}</td>`)}
    </tr>`;
}

/** @param {import("../types.js").Row} row @param {string} name */
function cell(row, name) {
  if (name === "Data") {
    return row.told ? "" : (state.recording.value?.records[row.hash]?.data ?? "");
  }
  const values = knownFields(row).filter((f) => f[0] === name).map((f) => f[1]);
  return html`<span class=${row.told ? "claimed" : ""}>
    ${values.map((value, index) => html`${index ? ", " : ""}${named(value)}`)}</span>`;
}

/** Which fields the tables show, and a filter for their rows. */
export function TableTools() {
  const fields = ["Data", ...(state.recording.value?.scenario.fields ?? [])];
  return html`
    <div class="table-tools">
      <label><span class="sr">Filter records</span><input id="filter" type="search"
        placeholder="Filter records  /" value=${state.filter.value}
        onInput=${(/** @type {any} */ e) => { state.filter.value = e.target.value; }} /></label>
      <details class="chips"><summary>Columns</summary>
        <fieldset><legend class="sr">Columns of the tables</legend>
          ${fields.map((name) => html`<label key=${name}><input type="checkbox"
            checked=${state.columns.value.includes(name)}
            onChange=${(/** @type {any} */ e) => toggle(name, e.target.checked)} />
            ${" "}${name}</label>`)}
        </fieldset>
      </details>
    </div>`;
}

/** @param {string} name @param {boolean} on */
function toggle(name, on) {
  const now = state.columns.value.filter((one) => one !== name);
  state.chosenColumns.value = on ? [...now, name] : now;
}
