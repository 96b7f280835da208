// Why a record may be sent or asked for, why not, and why the exchange stopped.
// @ts-check
import { html, useState } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted, named, RuleName } from "./text.js";

export function Why() {
  const chosen = state.selection.value;
  const hash = chosen?.kind === "record" ? chosen.hash : messageRecord();
  return html`
    <div class="panel why">
      <label class="toggle"><input type="checkbox" id="follows" checked=${state.follows.value}
        onChange=${(/** @type {any} */ e) => {
          state.follows.value = e.target.checked;
          state.goTo(state.step.value);
        }} /> follow the steps</label>
      ${hash ? html`<h3>Why ${state.nameOf(hash)}?</h3><${Says} hash=${hash} />
        <div class="pair">
          ${[0, 1].map((side) => html`<${Side} key=${side} side=${side} hash=${hash} />`)}</div>`
      : html`<p class="empty">Select a record to see why it travels, or why it does not.</p>`}
      <${Stopped} />
    </div>`;
}

/** What a record says, as far as it is text. @param {{hash: string}} properties */
function Says({ hash }) {
  const data = state.recording.value?.records[hash]?.data;
  if (!data) return null;
  const text = data.length > 400 ? `${data.slice(0, 400)}…` : data;
  return html`<blockquote class="says">${text}</blockquote>`;
}

function messageRecord() {
  const number = state.selection.value?.message;
  return state.scene.value?.messages?.find((m) => m.number === number)?.record ?? null;
}

/** @param {{side: number, hash: string}} properties */
function Side({ side, hash }) {
  const me = state.pair.value[side];
  const you = state.pair.value[1 - side];
  const found = state.policy(side);
  if (!me || !you) return null;
  const title = html`<h4>On ${me.title}’s machine</h4>`;
  if (found === null) {
    return html`<article>${title}
      <p class="empty">${me.title} has not evaluated any rules yet.</p></article>`;
  }
  const row = state.rows(side).find((r) => r.hash === hash);
  const send = found.verdicts.send[hash];
  const request = found.verdicts.request[hash];
  const rejected = row?.code;
  if (rejected) {
    return html`<article>${title}<p class="verdict no"><b>✗ Rejected</b> ${rejected}</p>
      <p>${rejectionOf(side, hash)}</p></article>`;
  }
  const seen = { me: me.title, you: you.title, side };
  if (send) {
    return html`<article>${title}<${VerdictView} verdict=${send} ...${seen}
      yes=${`${me.title} may send it to ${you.title}`}
      no=${`${me.title} does not send it to ${you.title}`} /></article>`;
  }
  if (request) {
    return html`<article>${title}<${VerdictView} verdict=${request} ...${seen}
      yes=${`${me.title} may ask ${you.title} for it`}
      no=${`${me.title} does not ask for it`} /></article>`;
  }
  if (row && found.unexplained) {
    return html`<article>${title}<p class="verdict"><b>– Not explained.</b> There are more records
      here than a recording explains; ${found.unexplained} were left out.</p></article>`;
  }
  const theirs = state.rows(1 - side).some((r) => r.hash === hash && r.state === "have");
  return html`<article>${title}<p class="verdict no"><b>– Not known here.</b> ${me.title} has not
    heard of it${theirs ? `: ${you.title} has not advertised it` : ""}.</p></article>`;
}

/** @param {number} side @param {string} hash */
function rejectionOf(side, hash) {
  for (const f of state.frames.value.slice(0, state.step.value + 1)) {
    if (f.to !== side) continue;
    for (const e of f.events ?? []) {
      if (e.hash === hash && e.kind === "RecordRejected") return named(`${e.meaning} ${e.detail}`);
    }
  }
  return "";
}

/** @param {{verdict: import("../types.js").Verdict, yes: string, no: string, me: string,
 *   you: string, side: number}} properties */
function VerdictView({ verdict, yes, no, me, you, side }) {
  const { allowed, layer, detail, mine, theirs, refusals } = verdict;
  return html`
    <p class=${`verdict ${allowed ? "yes" : "no"}`}>
      <b>${allowed ? "✓" : "✗"} ${allowed ? yes : no}.</b>${" "}
      ${allowed ? "" : html` What decided: <strong class="layer">${layer}</strong>.`}${" "}
      ${named(detail, side)}</p>
    ${mine ? html`<h5>${me}’s own rules</h5>
      <ul class="tree" aria-label=${`Proof by ${me}’s rules`}>
        <${ProofView} proof=${mine} side=${side} depth=${0} /></ul>` : null}
    ${theirs ? html`<h5>${you}’s rules, as they see ${me}</h5>
      <ul class="tree" aria-label=${`Proof by ${you}’s rules`}>
        <${ProofView} proof=${theirs} side=${side} depth=${0} /></ul>` : null}
    ${refusals?.length ? html`<h5>How far each rule got</h5><ul class="refusals">
      ${refusals.map((r) => html`<${RefusalView} refusal=${r} side=${side} />`)}</ul>` : null}`;
}

/** @param {{proof: import("../types.js").Proof, side: number, depth: number}} properties */
function ProofView({ proof, side, depth }) {
  const [open, setOpen] = useState(depth < 2);
  const label = html`<code>${named(proof.fact, side)}</code> ${proof.rule
    ? html`<small>by <${RuleName} id=${proof.rule} /></small>`
    : html`<small class="leaf">given</small>`}`;
  const conditions = (proof.conditions ?? []).map((c) => html`
    <li class="condition"><code>${named(c, side)}</code> <small>holds</small></li>`);
  const left = proof.cut ? counted(proof.cut, "more step") : "";
  if (!proof.because && !conditions.length) {
    return html`<li class="end">${label}
      ${left ? html` <small>${left} not shown</small>` : null}</li>`;
  }
  const word = open ? "Fold" : "Unfold";
  return html`<li><button type="button" class="twist" aria-expanded=${open}
      onClick=${() => setOpen(!open)}><span aria-hidden="true">${open ? "▾" : "▸"}</span>
      <span class="sr">${word} ${proof.fact.split("(")[0]}</span></button>${label}
    ${open ? html`<ul>
      ${(proof.because ?? []).map((p) => html`
        <${ProofView} proof=${p} side=${side} depth=${depth + 1} />`)}${conditions}
      ${left ? html`<li class="end"><small>${left} left out</small></li>` : null}</ul>` : null}
    </li>`;
}

/** @param {{refusal: import("../types.js").Refusal, side: number}} properties */
function RefusalView({ refusal, side }) {
  const bound = Object.entries(refusal.bindings);
  const given = bound.map(([name, value], i) => html`
    ${i ? ", " : ""}${name} = ${named(value, side)}`);
  return html`<li><${RuleName} id=${refusal.rule} /> fails at${" "}
    <code class="failed">${named(refusal.failed, side)}</code>${" "}
    <small>after ${counted(refusal.satisfied, "condition")} held
      ${bound.length ? html`, with ${given}` : ""}</small>
    ${refusal.near.length ? html`<ul class="near">${refusal.near.map((fact) => html`
      <li><small>nearest: <code>${named(fact, side)}</code></small></li>`)}</ul>` : null}
    ${refusal.because?.length ? html`<details class="beneath">
      <summary><small>Why not <code>${refusal.failed}</code>?</small></summary>
      <ul class="refusals">${refusal.because.map((r) => html`
        <${RefusalView} refusal=${r} side=${side} />`)}</ul></details>` : null}</li>`;
}

/** @type {Record<string, string|undefined>} */
const ENDINGS = {
  "fixed point": "Fixed point: nothing that either side may ask for is advertised, missing, and "
    + "still to be had.",
  "not over": "The exchange did not come to an end. What was stored stays stored.",
  "under way": "It has not stopped as far as the journal goes: the exchange is under way, or "
    + "whoever kept it stopped.",
  "not known": "The journal was not followed to its end, so how the exchange ended is not known.",
};

function Stopped() {
  const stopped = state.scene.value?.stopped;
  if (!stopped || state.step.value < state.last.value) return null; // it has not come to that yet
  const known = ENDINGS[stopped.outcome];
  return html`<h3>Why did it stop?</h3>
    <p>${known ?? html`The exchange ended with <code>${stopped.outcome}</code>. What was stored
      stays stored.`}</p>
    <ul class="stops">${stopped.sides.map((one, side) => html`
      <li><b>${state.pair.value[side]?.title}</b> ${one.word}: ${named(one.detail)}${" "}
      ${one.loops === undefined ? null : html`<small>${counted(one.loops, "loop")},${" "}
        ${counted(one.received ?? 0, "record")} received,${" "}
        ${one.rejected ? `${one.rejected} rejected, ` : ""}${one.bytes_received} bytes of records
        in, ${one.bytes_sent} out</small>`}
      ${one.fix ? html`<br /><small>${one.meaning} ${one.fix}</small>` : null}</li>`)}</ul>`;
}
