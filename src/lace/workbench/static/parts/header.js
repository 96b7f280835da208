// The bar at the top: which scenario, where in it, and how to move.
// @ts-check
import { html, useEffect } from "../vendor/preact.js";
import * as engine from "../engine.js";
import { download } from "../share.js";
import * as state from "../state.js";
import { glossed } from "./glossary.js";
import { PeerMap } from "./map.js";
import { Tour } from "./tour.js";

export function Header() {
  const now = state.recording.value;
  const list = state.scenarios.value;
  const name = state.source.value?.name ?? "";
  const known = list.some((one) => one.name === name);
  const choose = (/** @type {any} */ e) => { e.target.blur(); void engine.open(e.target.value); };
  return html`
    <header class="top">
      <div class="brand"><img src="icon.svg" alt="" width="22" height="22" />
        <h1>Lace <span>workbench</span></h1></div>
      <label class="pick"><span class="sr">Scenario</span>
        <select id="scenario" value=${name} onChange=${choose}>
          ${known ? null : html`<option value=${name}>
            ${state.broken.value ? name : now?.scenario.title ?? "…"}</option>`}
          ${list.map((one) => html`
            <option key=${one.name} value=${one.name}>${one.title}</option>`)}
        </select>
      </label>
      <${Transport} />
      <div class="right">
        ${state.embedded ? html`<a id="whole" href=${alone()} target="_blank" rel="noopener"
          >Open in a page of its own</a>` : null}
        <${EngineState} />
        <button type="button" class="plain" id="theme" onClick=${nextTheme}
          title="Light, dark, or as the system has it">◐ <span>Theme</span></button>
        <button type="button" class="plain" id="help-button" aria-haspopup="dialog"
          onClick=${() => { state.help.value = true; }}>? <span>Keys</span></button>
      </div>
    </header>`;
}

/** This page without the frame around it, where it is now. */
function alone() {
  const address = new URL(location.href);
  const parts = new URLSearchParams(address.hash.slice(1));
  parts.delete("embed");
  parts.set("scene", String(state.sceneNumber.value));
  parts.set("step", String(state.step.value));
  address.hash = String(parts);
  return address.href;
}

function Transport() {
  const at = state.step.value;
  const end = state.last.value;
  const first = at === 0 && state.sceneNumber.value === 0;
  const done = state.finished.value;
  return html`
    <div class="transport" role="group" aria-label="Stepping">
      <button type="button" id="to-start" disabled=${at === 0} onClick=${() => state.goTo(0)}
        title="To the start of the scene (Home)">|◀<span class="sr">To the start</span></button>
      <button type="button" id="loop-back" disabled=${first} onClick=${() => state.moveLoop(-1)}
        title="Back one loop (Shift ←)">≪<span class="sr">Back one loop</span></button>
      <button type="button" id="step-back" disabled=${first} onClick=${() => state.move(-1)}
        title="Back one step (←)">◀ <span>Back</span></button>
      <output id="where" aria-label="Step">${at} / ${end}</output>
      <button type="button" id="step-on" class="primary" disabled=${done}
        onClick=${() => state.move(1)} title="One step (→)"><span>Step</span> ▶</button>
      <button type="button" id="phase-on" disabled=${done} onClick=${() => state.movePhase(1)}
        title="To the next phase (P)"><span>Phase</span> ▶</button>
      <button type="button" id="loop-on" disabled=${done} onClick=${() => state.moveLoop(1)}
        title="To the next loop (Shift →)">≫<span class="sr">Next loop</span></button>
      <button type="button" id="to-end" disabled=${done} onClick=${state.toFixedPoint}
        title="To the fixed point (End)"><span>Fixed point</span> ▶|</button>
      <button type="button" id="play" aria-pressed=${state.playing.value}
        onClick=${() => { state.playing.value = !state.playing.value; }}
        title="Run and pause (Space)">${state.playing.value ? "❚❚" : "►"}
        <span class="sr">${state.playing.value ? "Pause" : "Play"}</span></button>
    </div>`;
}

function EngineState() {
  const words = {
    recorded: ["◌", "recording", "There is no engine behind this page: it shows recordings."],
    connecting: ["◌", "connecting", "The engine is starting; what you see is a recording."],
    ready: ["●", "engine ready", "Everything can be changed and run again."],
    running: ["◍", "running", "The engine is at work."],
    gone: ["✕", "engine gone", "The engine does not answer and is looked for. If lace workbench "
      + "was stopped, start it again and open its new link."],
  };
  const [icon, word, title] = words[/** @type {keyof typeof words} */ (state.engine.value)];
  const made = state.recording.value?.engine;
  return html`<span class="engine ${state.engine.value}" id="engine" title=${title}
    >${icon} ${word} ${made ? html`<small>${made}</small>` : null}</span>`;
}

function nextTheme() {
  const order = ["", "light", "dark"];
  const root = document.documentElement;
  const next = order[(order.indexOf(root.dataset.theme ?? "") + 1) % 3];
  setTheme(next);
  try {
    localStorage.setItem("lace-theme", next);
  } catch { /* private windows keep nothing */ }
}

/** @param {string} theme */
export function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

/** The story, the scenes, and the sentence for where we are. */
export function Story() {
  const now = state.recording.value;
  useEffect(() => {
    if (!state.playing.value) return undefined;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const timer = setInterval(() => {
      const before = [state.sceneNumber.value, state.step.value].join();
      state.move(1);
      const after = [state.sceneNumber.value, state.step.value].join();
      if (after === before) state.playing.value = false;
    }, still ? 1200 : 450);
    return () => clearInterval(timer);
  }, [state.playing.value]);
  if (now === null) return null;
  return html`
    <section class="story" aria-label="Story">
      <details open=${matchMedia("(min-width: 900px)").matches}>
        <summary><h2>${now.scenario.title}</h2></summary><p>${now.scenario.story}</p></details>
      <${Tour} />
      <ol class="scenes" aria-label="Scenes">
        ${now.scenes.map((one) => {
          const failed = one.checks.filter((check) => !check.ok).length;
          return html`<li key=${one.number}>
            <button type="button" class="scene" onClick=${() => state.openScene(one.number)}
              aria-current=${one.number === state.sceneNumber.value ? "step" : undefined}>
              <b>${one.number + 1}</b> ${one.say}
              ${failed ? html`<span class="bad"> ✗ ${failed} not as expected</span>` : null}
            </button></li>`;
        })}
      </ol>
      <${PeerMap} />
      <${Notice} />
    </section>`;
}

export function Notice() {
  const kept = state.engine.value === "gone" ? state.draftFiles() : [];
  const save = () => kept.forEach(([name, text]) => download(name, text, "text/plain"));
  return html`<p class="notice" role="status" id="notice">${state.notice.value}</p>
    ${kept.length ? html`<p class="notice" role="status" id="unsaved">The engine is gone. What you
      wrote and did not run is in this tab alone: save it before you open another link.${" "}
      <button type="button" id="save-drafts" onClick=${save}>Save
        ${kept.map(([name]) => name).join(", ")}</button></p>` : null}`;
}

/** The whole scene under one hand. */
export function Scrubber() {
  const numbers = state.shown.value;
  if (numbers.length < 2) return null;
  const row = state.rowOf.value[state.step.value] ?? 0;
  const go = (/** @type {any} */ e) => state.goTo(numbers[Number(e.target.value)] ?? 0);
  return html`<input type="range" id="scrub" min="0" max=${numbers.length - 1} value=${row}
    aria-label="Where in the scene" aria-valuetext=${state.frame.value?.sentence ?? ""}
    onInput=${go} />`;
}

/** How an exchange ended, with a sign and a class. What is not over yet is neither good nor bad.
 * @param {string} outcome @returns {[string, string]} */
function ending(outcome) {
  if (outcome === "fixed point") return ["good", "✓"];
  return outcome === "under way" || outcome === "not known" ? ["", "…"] : ["bad", "✗"];
}

/** One sentence for each step, read out politely. */
export function Sentence() {
  const now = state.frame.value;
  const scene = state.scene.value;
  const text = now?.sentence ?? (scene ? `${scene.say} Nobody meets in this scene.` : "");
  const outcome = scene?.stopped?.outcome ?? "not known";
  const [good, sign] = ending(outcome);
  const atEnd = state.frames.value.length > 0 && state.step.value === state.last.value;
  return html`<p class="sentence"><span aria-live="polite" id="sentence">${glossed(text)}</span>
    ${atEnd ? html`<strong id="outcome" class=${good}>${sign} ${outcome}</strong>` : null}</p>`;
}
