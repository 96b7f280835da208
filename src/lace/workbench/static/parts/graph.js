// Who signed what, whom records name, what they link to, and what speaks for them: as a graph.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted, short } from "./text.js";

const WIDTH = 190;
const HEIGHT = 46;
const NODE = 150;
const MOST = 60; // nodes; of more, those around what is selected are drawn
const ID = /([BPS]\.[0-9A-Z_a-z~]{43}\.H3)/g;
const KEY = /^V\.[0-9A-Z_a-z~]{43}\.H3$/;
/** What an edge says, from its beginning to its end. @type {Record<string, string>} */
const WORDS = { signed: "signed", named: "names", link: "links to", support: "speaks for" };

/** @typedef {{from: string, to: string, kind: string, label: string}} Edge */

export function GraphTab() {
  const now = state.recording.value;
  if (!now) return null;
  const whole = edges();
  const { nodes, left } = inSight(whole);
  const found = whole.filter((edge) => nodes.has(edge.from) && nodes.has(edge.to));
  const places = layout([...nodes], found);
  const chosen = state.selection.value?.hash;
  const width = Math.max(...[...places.values()].map((place) => place.x), 0) + NODE + 20;
  const height = Math.max(...[...places.values()].map((place) => place.y), 0) + HEIGHT + 10;
  if (!nodes.size) {
    return html`<div class="panel"><p class="empty">Nobody has a record here yet.</p></div>`;
  }
  const lit = (/** @type {Edge} */ edge) => chosen === edge.from || chosen === edge.to;
  return html`
    <div class="panel graph">
      <p class="quiet">Keys and records that either side has at this step. An arrow leads from a key
        to what it signed, from a record to whom it names and what it links to, and from a record to
        those that rules take because of it. ${left ? `${counted(left, "node")} further away are `
          + "left out; select a record to see what is around it." : ""}</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Graph">
        <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true">
          ${found.map((edge) => html`<${Arrow} edge=${edge} places=${places} lit=${lit(edge)} />`)}
          ${[...nodes].map((id) => html`
            <${Node} key=${id} id=${id} place=${places.get(id)} chosen=${id === chosen} />`)}
        </svg></div>
      <ul class="edges" aria-label="The same as a list">${found.map((edge) => html`
        <li><${Name} id=${edge.from} /> ${WORDS[edge.kind]}${edge.label ? ` (${edge.label})` : ""}
          ${" "}<${Name} id=${edge.to} /></li>`)}</ul>
    </div>`;
}

/** @param {{id: string}} properties */
function Name({ id }) {
  if (KEY.test(id)) return html`<span class="id" title=${id}>key ${nameOf(id)}</span>`;
  const select = () => state.selectRecord(id);
  const name = nameOf(id);
  return html`<button type="button" class="ref" title=${id} onClick=${select}>${name}</button>`;
}

/** @param {{id: string, place: {x: number, y: number}, chosen: boolean}} properties */
function Node({ id, place, chosen }) {
  const isKey = KEY.test(id);
  const name = nameOf(id);
  const text = `${isKey ? "key " : ""}${name.length > 20 ? `${name.slice(0, 19)}…` : name}`;
  const classes = `node ${isKey ? "key" : "record"} ${chosen ? "chosen" : ""}`;
  return html`
    <g class=${classes} onClick=${isKey ? undefined : () => state.selectRecord(id)}>
      <rect x=${place.x} y=${place.y} width=${NODE} height="30" rx=${isKey ? 15 : 5} />
      <text x=${place.x + NODE / 2} y=${place.y + 19} text-anchor="middle">${text}</text>
      <title>${id}</title>
    </g>`;
}

/** @param {{edge: Edge, places: Map<string, {x: number, y: number}>, lit: boolean}} properties */
function Arrow({ edge, places, lit }) {
  const a = places.get(edge.from);
  const b = places.get(edge.to);
  if (!a || !b) return null;
  const on = b.x > a.x;
  const [x1, y1] = [a.x + (on ? NODE : NODE / 2), a.y + (on ? 15 : 30)];
  const [x2, y2] = [b.x + (on ? 0 : NODE / 2), b.y + (on ? 15 : b.y > a.y ? 0 : 30)];
  const half = (x1 + x2) / 2;
  const bend = on ? `${half},${y1} ${half},${y2}` : `${x1 + 40},${y1 + 20} ${x2 + 40},${y2 + 20}`;
  return html`
    <g class=${`edge e-${edge.kind} ${lit ? "lit" : ""}`}>
      <path d=${`M${x1},${y1} C${bend} ${x2},${y2}`} /><circle cx=${x2} cy=${y2} r="3" />
      <title>${nameOf(edge.from)} ${WORDS[edge.kind]} ${nameOf(edge.to)}</title></g>`;
}

/** @param {string} id */
function nameOf(id) {
  return state.names.value.get(id) ?? short(id);
}

/** Everything that records of both sides say of each other and of keys, at this step.
 * @returns {Edge[]} */
function edges() {
  const now = state.recording.value;
  const rows = [...state.rows(0), ...state.rows(1)];
  const held = new Set(rows.filter((row) => row.state === "have").map((row) => row.hash));
  /** @type {Map<string, Edge>} */
  const found = new Map();
  /** @param {string} from @param {string} to @param {string} kind */
  const add = (from, to, kind, label = "") => {
    if (from !== to) found.set(`${from} ${to} ${kind} ${label}`, { from, to, kind, label });
  };
  for (const hash of held) {
    const record = now?.records[hash];
    if (!record) continue;
    for (const [name, , value] of record.fields) {
      if (name === "Signed-By") add(value, hash, "signed");
      else if (KEY.test(value)) add(hash, value, "named", name);
    }
    for (const [name, , target] of record.links) {
      if (held.has(target)) add(hash, target, "link", name);
    }
  }
  for (const side of [0, 1]) {
    for (const [hash, verdict] of Object.entries(state.policy(side)?.verdicts.send ?? {})) {
      if (!verdict.allowed || !held.has(hash)) continue;
      for (const one of [...mentioned(verdict.mine), ...mentioned(verdict.theirs)]) {
        if (held.has(one)) add(one, hash, "support");
      }
    }
  }
  return [...found.values()];
}

/** The records that a proof speaks of.
 * @param {import("../types.js").Proof|null|undefined} proof @returns {Set<string>} */
function mentioned(proof) {
  const found = new Set(proof?.fact.match(ID) ?? []);
  for (const part of proof?.because ?? []) for (const one of mentioned(part)) found.add(one);
  return found;
}

/** The nodes to draw: all, or as many as there is room for around what is selected.
 * @param {Edge[]} all */
function inSight(all) {
  /** @type {Map<string, string[]>} */
  const beside = new Map();
  for (const { from, to } of all) {
    beside.set(from, [...(beside.get(from) ?? []), to]);
    beside.set(to, [...(beside.get(to) ?? []), from]);
  }
  const chosen = state.selection.value?.hash ?? "";
  const all_ = [...beside.keys()];
  const queue = beside.has(chosen) ? [chosen] : [];
  queue.push(...(all_.length <= MOST ? all_ : all_.slice(0, 1)));
  /** @type {Set<string>} */
  const nodes = new Set();
  for (let at = 0; at < queue.length && nodes.size < MOST; at += 1) {
    if (nodes.has(queue[at])) continue;
    nodes.add(queue[at]);
    queue.push(...(beside.get(queue[at]) ?? []));
  }
  return { nodes, left: beside.size - nodes.size };
}

/** A column for each node after all that lead to it, where they do not lead in a circle.
 * @param {string[]} nodes @param {Edge[]} found */
function layout(nodes, found) {
  /** @type {Map<string, number>} */
  const ranks = new Map(nodes.map((id) => [id, 0]));
  for (let round = 0; round < Math.min(nodes.length, 8); round += 1) {
    for (const { from, to } of found) {
      const next = (ranks.get(from) ?? 0) + 1;
      if (next > (ranks.get(to) ?? 0) && next <= 6) ranks.set(to, next);
    }
  }
  const used = [...new Set(ranks.values())].sort((a, b) => a - b);
  /** @type {Map<number, number>} */
  const filled = new Map();
  return new Map(nodes.map((id) => {
    const rank = used.indexOf(ranks.get(id) ?? 0);
    const row = filled.get(rank) ?? 0;
    filled.set(rank, row + 1);
    return [id, { x: 10 + rank * WIDTH, y: 10 + row * HEIGHT }];
  }));
}
