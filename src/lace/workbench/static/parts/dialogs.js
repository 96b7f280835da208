// The sheet of keys, and the palette of everything that can be done.
// @ts-check
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import * as state from "../state.js";
import { WORDS } from "./glossary.js";

const KEYS = [
  ["← →", "one step"], ["Shift ← →", "one loop"], ["P / Shift P", "one phase"],
  ["Home / End", "start, fixed point"], ["Space", "run and pause"],
  ["1 … 9", "scene"], ["/", "filter records"], ["W", "why, for what is selected"],
  ["G then R, T, D", "go to records, timeline, details"],
  ["Ctrl K", "everything by name"], ["?", "this sheet"],
  ["Ctrl Enter", "run what is in the editor"], ["Esc, then Tab", "leave the editor"],
];

/** @param {{open: boolean, close: () => void, label: string, children: any}} properties */
function Dialog({ open, close, label, children }) {
  const shown = useRef(/** @type {HTMLDialogElement|null} */ (null));
  // Before anything else can be typed: what comes right after the key is meant for the dialog.
  useLayoutEffect(() => {
    if (open && !shown.current?.open) shown.current?.showModal();
    if (!open && shown.current?.open) shown.current.close();
  }, [open]);
  const onClick = (/** @type {any} */ e) => { if (e.target === shown.current) close(); };
  // That it was closed is told late: a key that came meanwhile may have opened it again.
  const onCancel = (/** @type {Event} */ e) => { e.preventDefault(); close(); };
  const onClose = () => { if (!shown.current?.open) close(); };
  return html`<dialog ref=${shown} aria-label=${label} onCancel=${onCancel} onClose=${onClose}
    onClick=${onClick}>${open ? children : null}</dialog>`;
}

export function Help() {
  const close = () => { state.help.value = false; state.word.value = ""; };
  const sought = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => {
    sought.current?.scrollIntoView({ block: "center" });
    sought.current?.focus();
  }, [state.word.value, state.help.value]);
  return html`<${Dialog} open=${state.help.value} close=${close} label="Keys and words">
    <h2>Keys</h2>
    <table><caption class="sr">Keys and what they do</caption>
      <thead class="sr"><tr><th scope="col">Key</th><th scope="col">What it does</th></tr></thead>
      <tbody>${KEYS.map(([key, what]) => html`
        <tr><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <h2>Words</h2>
    <dl class="words">${WORDS.map(([word, meaning]) => html`
      <div ...${word === state.word.value ? { tabindex: -1, ref: sought } : {}}>
        <dt>${word}</dt><dd>${meaning}</dd></div>`)}</dl>
    <p class="quiet">Engine ${state.recording.value?.engine}. Demo keys only. Nothing leaves this
      machine.</p>
    <button type="button" onClick=${close}>Close</button><//>`;
}

export function Palette() {
  const [text, setText] = useState("");
  const close = () => { state.palette.value = false; setText(""); };
  const matching = (/** @type {string} */ typed) => actions()
    .filter(([name]) => name.toLowerCase().includes(typed.toLowerCase())).slice(0, 12);
  const found = matching(text);
  const go = (/** @type {() => void} */ act) => { close(); act(); };
  /** Do the first that fits what is in the field. @param {Event} event */
  const takeBest = (event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (document.getElementById("palette"));
    const best = matching(field.value)[0];
    if (best) go(best[1]);
  };
  /** Up and down lead through the list, and from its first entry back to the field.
   * @param {KeyboardEvent} event */
  const onArrow = (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const places = [...document.querySelectorAll("#palette, .palette button")];
    const at = places.indexOf(/** @type {Element} */ (document.activeElement));
    /** @type {HTMLElement} */ (places[Math.max(0, Math.min(at + by, places.length - 1))]).focus();
  };
  return html`<${Dialog} open=${state.palette.value} close=${close} label="Do something">
    <div onKeyDown=${onArrow}><form onSubmit=${takeBest}>
      <label>Do something <input id="palette" autofocus value=${text}
        onInput=${(/** @type {any} */ e) => setText(e.target.value)} /></label></form>
    <ul class="palette">${found.map(([name, act]) => html`
      <li><button type="button" onClick=${() => go(act)}>${name}</button></li>`)}</ul></div><//>`;
}

const SHOWN = [
  "why", "message", "record", "plan", "disclosure", "watches", "what-if", "compare", "graph",
  "problems", "scenario",
];

/** @param {string} name @param {() => void} act @returns {[string, () => void]} */
function action(name, act) {
  return [name, act];
}

/** @returns {[string, () => void][]} */
function actions() {
  const now = state.recording.value;
  return [
    ...state.scenarios.value.map((one) =>
      action(`Open ${one.title}`, () => { void engine.open(one.name); })),
    ...(now?.scenes ?? []).map((one) =>
      action(`Scene ${one.number + 1}: ${one.say}`, () => state.openScene(one.number))),
    ...SHOWN.map((name) => action(`Show ${name}`, () => { state.tab.value = name; })),
    ...Object.entries(now?.records ?? {}).map(([hash, record]) =>
      action(`Record ${record.id ?? hash}`, () => state.selectRecord(hash))),
    ["To the start", () => state.goTo(0)], ["To the fixed point", state.toFixedPoint],
    ["Keys", () => { state.help.value = true; }],
  ];
}
