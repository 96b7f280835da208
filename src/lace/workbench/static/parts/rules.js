// A peer's rules: written by people, judged by the engine, with how often each one fired.
// @ts-check
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { Editor } from "./editor.js";
import { counted, named, short } from "./text.js";

const WORDS = [
  "Have", "Field", "RecordLink", "BlobHash", "PlexHash", "Advertised", "AdvertisedField",
  "SelectHave", "SelectAdvertised",
  "Here", "Peer", "Transport", "TransportEncrypted", "StartTAI", "TickTAI", "ClockSkewSeconds",
  "Cardinality", "IntCompare", "LexCompare", "TextShape", "not", "true",
];

/** @param {{side: number, peer: import("../types.js").Peer}} properties */
export function RulesPanel({ side, peer }) {
  const origin = state.originOf(state.recording.value?.scenario);
  const draft = state.draftOf(peer.id, origin);
  const text = draft ?? peer.rules;
  const [checked, setChecked] = useState(peer.checked);
  useEffect(() => { if (draft === undefined) setChecked(peer.checked); }, [peer, draft]);
  useEffect(() => {
    if (draft === undefined) return undefined;
    let alive = true;
    const timer = setTimeout(async () => {
      const answer = await engine.ask({ do: "check", text: draft });
      if (alive && answer.type === "checked") setChecked(answer.checked);
    }, 120);
    return () => { alive = false; clearTimeout(timer); };
  }, [draft]);
  const found = state.policy(side);
  const marks = useMemo(() => {
    /** @type {Map<number, number>} */
    const lines = new Map();
    for (const rule of found ? checked.rules ?? [] : []) {
      if (rule.lines) lines.set(rule.lines[0], found?.hits[rule.id] ?? 0);
    }
    return lines;
  }, [checked, found]);
  const { fields = [], keys = {} } = state.recording.value?.scenario ?? {};
  const words = [...WORDS, ...fields, ...Object.keys(keys).map((key) => `{${key}}`)];
  const can = state.engine.value === "ready";
  const errors = checked.diagnostics.filter((d) => d.severity === "error").length;
  const ready = can && draft !== undefined && errors === 0;
  const judged = errors ? `✗ ${counted(errors, "error")}`
    : `✓ ${counted(checked.rules?.length ?? 0, "rule")}`;
  const byName = peer.expose.every((e) => !e.includes(":-"));
  const apply = () => engine.run({ rules: { [peer.id]: text } });
  const write = (/** @type {string} */ next) => state.setDraft(origin, peer.id, next, peer.rules);
  /** How often a rule fired. @param {string} id */
  const fired = (id) => !found ? ""
    : found.hits[id] ? ` · fired for ${counted(found.hits[id], "fact")}` : " · never fired";
  return html`
    <div class="rules">
      <${Editor} id=${`editor-${side}`} document=${`${origin}/${peer.id}`} text=${text}
        latest=${() => state.draftOf(peer.id, origin) ?? peer.rules}
        language="lacegram" label=${`Rules of ${peer.title}`}
        readOnly=${!can && draft === undefined && state.engine.value !== "running"}
        diagnostics=${checked.diagnostics} marks=${marks} words=${words}
        onChange=${write} onRun=${apply} />
      <div class="rules-foot">
        <button type="button" class="primary" id=${`apply-${side}`} disabled=${!ready}
          onClick=${apply}>Run with these rules</button>
        <button type="button" disabled=${draft === undefined} onClick=${() => write(peer.rules)}
          >Take back</button>
        <button type="button" id=${`mid-${side}`} disabled=${!ready || !state.frame.value}
          title="The rules change in the middle of the exchange, at this step"
          onClick=${() => changeHere(peer.id, text)}>Change at this step</button>
        <span class=${errors ? "bad" : "quiet"} id=${`judged-${side}`} role="status"
          >${judged}</span>
        ${peer.shared ? html`<span class="quiet">shared as “${peer.shared}”</span>` : null}
      </div>
      ${errors ? html`<ul class="diagnostics">${checked.diagnostics.map((d) => html`<li>
        <b>line ${d.line}</b> ${d.message} <code>${d.code}</code><br />
        <small>${d.hint}</small></li>`)}</ul>` : null}
      <details class="canon"><summary>Canonical form and ids${" "}
        ${checked.id ? html`<code title=${checked.id}>${short(checked.id)}</code>` : null}</summary>
        <ol>${(checked.rules ?? []).map((rule) => html`<li key=${rule.id}>
          <code>${named(rule.line)}</code>
          <small>${rule.notes.label ? html`<b>${rule.notes.label}</b> · ` : null}
            stratum ${rule.stratum} · <span title=${rule.id}>${short(rule.id)}</span>
            ${fired(rule.id)}</small></li>`)}</ol>
      </details>
      <p class="quiet expose">Peers’ rules may see:${" "}
        <b>${byName ? peer.expose.join(", ") : "by rules"}</b>
        ${peer.exposed.map((one) => html`
          <code class="block">${(one.rules ?? []).map((r) => named(r.line))}</code>`)}</p>
    </div>`;
}

/** @param {string} peer @param {string} text */
function changeHere(peer, text) {
  const changes = state.recording.value?.changes;
  if (!changes) return;
  const scene = state.sceneNumber.value;
  const order = { scene, step: state.step.value, do: "rules", peer, text, seconds: 0 };
  void engine.run({ changes: { orders: [...changes.orders, order] } });
}
