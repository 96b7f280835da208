// A record under glass: bytes by part, every check, its facts, and one bit to turn over.
// @ts-check
import { html, useEffect, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { named } from "./text.js";

export function RecordTab() {
  const hash = state.selection.value?.hash;
  const record = hash ? state.recording.value?.records[hash] : undefined;
  const [broken, setBroken] = useState(
    /** @type {{flip: number, inspection: import("../types.js").Inspection}|null} */ (null),
  );
  const [offset, setOffset] = useState(-1);
  useEffect(() => { setBroken(null); setOffset(-1); }, [hash]);
  if (!hash || !record) {
    return html`<div class="panel"><p class="empty">Select a record to see its bytes.</p></div>`;
  }
  const shown = broken?.inspection ?? record.inspection;
  const can = state.engine.value === "ready";
  const where = offset < 0 ? record.inspection.size - 2 : offset;
  const flip = async () => {
    const answer = await engine.ask({ do: "inspect", hash, flip: where });
    if (answer.type === "inspected") {
      setBroken({ flip: where, inspection: answer.inspection });
    } else state.notice.value = answer.message;
  };
  return html`
    <div class="panel record">
      <h3>${state.nameOf(hash)} <code class="hash">${hash}</code></h3>
      <div class="flip">
        <label>Byte <input type="number" id="flip-at" min="0" max=${record.inspection.size - 1}
          value=${where}
          onInput=${(/** @type {any} */ e) => setOffset(Number(e.target.value))} /></label>
        <button type="button" id="flip" disabled=${!can} onClick=${flip}>Flip a bit of it</button>
        ${broken ? html`<button type="button" onClick=${() => setBroken(null)}>Mend it</button>
          <button type="button" id="send-broken" disabled=${!can}
            onClick=${() => sendBroken(record.id, broken.flip)}>Let it arrive like this</button>`
          : null}
        <span class=${shown.ok ? "good" : "bad"} id="valid" role="status">
          ${shown.ok ? "✓ valid" : `✗ refused: ${shown.code}`}</span>
      </div>
      <${InspectionView} inspection=${shown} flip=${broken?.flip}
        onByte=${(/** @type {number} */ at) => setOffset(at)} />
      ${record.links.length ? html`<h4>Links</h4>
        <ul>${record.links.map(([name, data, target]) => html`
          <li>${name}: ${data} ${named(target)}</li>`)}</ul>` : null}
    </div>`;
}

/** @param {string|null} id @param {number} byte */
function sendBroken(id, byte) {
  const changes = state.recording.value?.changes;
  const scene = state.scene.value;
  if (!changes || !id || !scene?.pair) return;
  const crossing = scene.messages?.find((m) => m.record === state.selection.value?.hash);
  const sender = scene.pair[crossing?.sender ?? 0];
  const at = state.sceneNumber.value;
  const fault = { scene: at, do: "flip", sender, record: id, message: null, byte };
  const rest = changes.faults.filter((f) => f.record !== id);
  void engine.run({ changes: { faults: [...rest, fault] }, at: { scene: at, step: null } });
}

/** @param {{inspection: import("../types.js").Inspection, flip?: number,
 *   onByte?: (at: number) => void}} properties */
export function InspectionView({ inspection, flip, onByte }) {
  return html`
    <div class="inspection">
      <div>
        <h4>Bytes by part</h4>
        <ol class="parts" aria-label="Parts of the record">
          ${inspection.parts.map((part) => {
            const hit = flip !== undefined && flip >= part.start && flip < part.end;
            const kind = part.part.split(" ")[0].toLowerCase();
            const choose = () => onByte?.(Math.max(part.start, part.end - 2));
            return html`<li class=${`part ${kind} ${hit ? "hit" : ""}`}>
              <button type="button" class="range" disabled=${!onByte}
                title="Choose a byte of this part" onClick=${choose}
                >${part.start}–${part.end - 1}</button>
              <code>${part.text || "(blank line)"}</code>${" "}
              <small>${part.part}${hit ? ", one bit flipped here" : ""}
                ${part.cut ? `, ${part.cut} bytes more` : ""}</small></li>`;
          })}
        </ol>
      </div>
      <div>
        <h4>Checks</h4>
        <ul class="checks">${inspection.checks.map((check) => html`
          <li class=${check.ok ? "" : "bad"}><b>${check.ok ? "✓" : "✗"} ${check.rule}</b>${" "}
            ${check.ok ? html`<small>${named(check.detail)}</small>` : failure(check)}</li>`)}</ul>
      </div>
      <div>
        <h4>Facts</h4>
        ${inspection.facts.length ? html`<ol class="facts">${inspection.facts.map((fact) => html`
          <li><code>${named(fact)}</code></li>`)}</ol>`
          : html`<p class="empty">Bytes that are not valid give no facts.</p>`}
      </div>
    </div>`;
}

/** What a check wanted and what it found. @param {import("../types.js").RecordCheck} check */
function failure(check) {
  return html`<span>${check.meaning}</span>
    ${check.expected
      ? html`<dl><dt>expected</dt><dd><code>${check.expected}</code></dd>
        <dt>got</dt><dd><code>${check.got}</code></dd></dl>`
      : html`<small>${check.detail}</small>`}`;
}
