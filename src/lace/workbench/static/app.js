// The page: first a recording, at once; then the engine, when it is there.
// @ts-check
import { html, render } from "./vendor/preact.js";
import * as engine from "./engine.js";
import { onKey } from "./keys.js";
import * as live from "./live.js";
import { CompareTab } from "./parts/compare.js";
import { Help, Palette } from "./parts/dialogs.js";
import { DisclosureTab } from "./parts/disclosure.js";
import { GraphTab } from "./parts/graph.js";
import { Header, Notice, Scrubber, Sentence, Story, setTheme } from "./parts/header.js";
import { Lace, TableTools } from "./parts/lace.js";
import { MessageTab } from "./parts/message.js";
import { PlanTab } from "./parts/plan.js";
import { ProblemsTab } from "./parts/problems.js";
import { RecordTab } from "./parts/record.js";
import { ScenarioTab } from "./parts/scenario.js";
import { Timeline } from "./parts/timeline.js";
import { WatchesTab } from "./parts/watches.js";
import { WhatIfTab } from "./parts/whatif.js";
import { Why } from "./parts/why.js";
import { unpack, unpackRun } from "./share.js";
import * as state from "./state.js";
import { takeToken } from "./token.js";

const DAMAGED = "The link is damaged: what it carried cannot be read.";

/** @type {[string, string, () => any][]} */
const TABS = [
  ["why", "Why", Why], ["message", "Message", MessageTab],
  ["record", "Record bytes", RecordTab], ["plan", "Plan", PlanTab],
  ["disclosure", "Disclosure", DisclosureTab], ["watches", "Watches", WatchesTab],
  ["what-if", "What if", WhatIfTab],
  ["compare", "What changed", CompareTab], ["graph", "Graph", GraphTab],
  ["problems", "Problems", ProblemsTab], ["scenario", "Scenario", ScenarioTab],
];

function App() {
  if (state.recording.value === null && state.broken.value !== null) {
    return html`<${Header} /><main><${Notice} /><${ScenarioTab} /></main>`;
  }
  if (state.recording.value === null) {
    const said = state.notice.value || "Opening the workbench…";
    return html`<${Header} /><p class="boot">${said}</p>`;
  }
  return html`
    <a class="skip" href="#details">To the details</a>
    <${Header} />
    <main>
      <${Story} />
      <div class="bar"><${Sentence} /><${TableTools} /></div>
      <${Scrubber} />
      <div class=${`work t-${state.tab.value}`}>
        <div class="stage"><${Lace} side=${0} /><${Timeline} /><${Lace} side=${1} /></div>
        <${Details} />
      </div>
    </main>
    <${Help} /><${Palette} />`;
}

function Details() {
  const chosen = TABS.find(([name]) => name === state.tab.value) ?? TABS[0];
  const checks = state.scene.value?.checks ?? [];
  const failed = checks.filter((check) => !check.ok).length;
  /** @param {KeyboardEvent} event */
  const onArrow = (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const at = TABS.findIndex(([name]) => name === chosen[0]);
    const next = TABS[(at + by + TABS.length) % TABS.length][0];
    state.tab.value = next;
    requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
  };
  return html`
    <section id="details" aria-label="Details">
      <div class="tabs" role="tablist" aria-label="Details">${TABS.map(([name, title]) => html`
        <button type="button" role="tab" id=${`tab-${name}`} key=${name}
          aria-selected=${name === chosen[0]} aria-controls="tab-panel"
          tabindex=${name === chosen[0] ? 0 : -1} onKeyDown=${onArrow}
          onClick=${(/** @type {any} */ e) => {
            state.tab.value = name;
            if (e.detail) e.currentTarget.blur();
          }}>${title}
          ${name === "problems" && state.problems.value.length
            ? html` <span class="badge">${state.problems.value.length}</span>` : null}
          ${name === "watches" ? html` <span class=${`badge ${failed ? "bad" : "good"}`}
            title=${`At the end of the scene ${checks.length - failed} of ${checks.length} hold`}
            >${failed ? `✗ ${failed}` : `✓ ${checks.length}`}</span>` : null}</button>`)}</div>
      <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${chosen[0]}`} tabindex="0"
        ><${chosen[2]} key=${chosen[0]} /></div>
    </section>`;
}

/** @param {ReturnType<typeof state.readAddress>} address */
async function openAddress(address) {
  const at = { scene: address.scene, step: address.step ?? 0 };
  if (address.shared) {
    const found = await unpack(address.shared);
    if (found === null) state.notice.value = DAMAGED;
    else {
      const answer = await engine.ask({
        do: "run", name: found.name, toml: found.toml, rules: null, changes: found.changes,
      });
      if (answer.type === "problems") answer.source = { name: found.name, toml: found.toml };
      return engine.take(answer, at, address.shared) || state.broken.value !== null;
    }
  }
  return false;
}

/** Show the run that a link carries.
 * @param {string} text @param {{scene: number, step: number}} at */
async function openRun(text, at) {
  const carried = await unpackRun(text);
  if (carried === null) state.notice.value = DAMAGED;
  else state.showFromLink(carried, text, at);
}

/** What a link carries, if this exported page has a recording of just that.
 * @param {string} shared @returns {Promise<import("./types.js").Recording|null>} */
async function recordedOf(shared) {
  const { recorded, engine: place } = document.documentElement.dataset;
  if (recorded === undefined && place === undefined) return null;
  const found = await unpack(shared);
  const list = await engine.recordedList();
  const known = list?.scenarios.some(
    (/** @type {{name: string}} */ one) => one.name === found?.name,
  );
  if (!found || !known) return null;
  const made = await engine.recorded(found.name);
  const same = made?.scenario.toml === found.toml
    && JSON.stringify(made.changes) === JSON.stringify({ ...made.changes, ...found.changes });
  return same ? made : null;
}

/** Show at once what a link carries, while the engine that is to run it is still starting.
 * @param {string} shared */
async function announce(shared) {
  const found = await unpack(shared);
  if (found === null || document.documentElement.dataset.recorded !== undefined) return;
  state.broken.value = { name: found.name, toml: found.toml };
  state.notice.value =
    "The engine is starting. It will run the scenario of this link, which is below.";
}

async function start() {
  try {
    setTheme(localStorage.getItem("lace-theme") ?? "");
  } catch { /* private windows keep nothing */ }
  render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
  document.addEventListener("keydown", onKey);
  if (state.embedded) document.documentElement.dataset.embedded = "";
  const address = state.readAddress();
  if (address.tab && TABS.some(([name]) => name === address.tab)) state.tab.value = address.tab;
  const at = { scene: address.scene, step: address.step ?? 0 };
  // The recording comes first and waits for nothing; the engine starts beside it.
  live.listen();
  const connected = state.embedded ? Promise.resolve(false) : engine.connect();
  const carried = address.run === null ? null : await unpackRun(address.run);
  const first = carried ?? (address.shared
    ? await recordedOf(address.shared)
    : await engine.recorded(address.scenario ?? "notes-room"));
  if (carried !== null) state.showFromLink(carried, address.run ?? "", at);
  else if (first !== null) state.show(first, at);
  else if (address.shared) await announce(address.shared);
  const hello = (await connected) ? await engine.ask({ do: "hello" }) : null;
  if (hello?.type === "hello") {
    state.scenarios.value = hello.scenarios;
    if (hello.links) state.linksTo.value = hello.links;
    state.engine.value = "ready";
    // A recording may have been opened while the engine started.
    const begun = state.recording.value;
    const wanted = begun && begun !== first ? begun.scenario.name : address.scenario ?? hello.first;
    if (address.shared) state.notice.value = "";
    // A run that came in the link stays as it is until something about it is changed.
    if (carried === null && !(await openAddress(address))) {
      const damaged = address.run ? DAMAGED : state.notice.value;
      const opened = await engine.open(wanted, begun?.scenario.name === wanted ? "here" : at);
      const said = damaged || (opened ? "" : state.notice.value);
      if (!opened && state.source.value === null) await engine.open(hello.first);
      if (said) state.notice.value = said; // opening something else does not unsay it
    }
  } else {
    if (hello === null) state.engine.value = "recorded"; // else it is lost, and looked for
    const list = await engine.recordedList();
    const only = first ? [{ name: first.scenario.name, title: first.scenario.title }] : [];
    state.scenarios.value = list?.scenarios ?? only;
    if (address.run && carried === null) {
      state.notice.value = DAMAGED;
    } else if (address.shared && first === null) {
      state.notice.value = "This link carries a scenario of its own, and there is no engine here "
        + "to run it. Give the whole link to lace workbench.";
    } else if (first === null && address.scenario) {
      state.notice.value = `There is no recording of ${address.scenario} here.`;
    }
    if (state.recording.value === null) {
      const any = await engine.recorded(list?.scenarios[0]?.name ?? "notes-room");
      if (any === null) {
        state.notice.value = "There is neither an engine nor a recording here. "
          + "Run lace workbench, and open the link that it prints.";
      } else state.show(any);
    }
  }
  state.writeAddress();
  document.documentElement.dataset.ready = state.engine.value;
}

/** Open what the address says, which somebody changed or went back to. */
async function followAddress() {
  const address = state.readAddress();
  const at = { scene: address.scene, step: address.step ?? 0 };
  if (address.tab && TABS.some(([name]) => name === address.tab)) state.tab.value = address.tab;
  const changed = state.sharedText.value !== null || state.textOfLink() !== null;
  const other = changed || address.scenario !== state.recording.value?.scenario.name;
  if (address.scenario && other) {
    await engine.open(address.scenario, at);
  } else if (address.run && address.run !== state.textOfLink()) {
    await openRun(address.run, at);
  } else if (address.shared && address.shared !== state.sharedText.value) {
    await openAddress(address);
  } else if (address.step !== null) {
    if (address.scene !== state.sceneNumber.value) state.openScene(address.scene, address.step);
    else state.goTo(address.step);
  }
}

window.addEventListener("hashchange", () => {
  // The link of a workbench that was started again at the same port.
  if (takeToken()) location.reload();
  // A place within the page, such as that of the skip link, says nothing of what is shown.
  if (location.hash.includes("=")) void state.led(followAddress);
});

window.addEventListener("beforeunload", (event) => {
  // Another start of the workbench is another place: what this tab keeps is not there.
  if (state.engine.value === "gone" && state.draftFiles().length) event.preventDefault();
});

void start();
