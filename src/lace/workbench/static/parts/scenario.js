// The scenario itself: its text to edit, and ways to pass it on.
// @ts-check
import { html, useEffect, useState } from "../vendor/preact.js";
import * as engine from "../engine.js";
import { copy, download, pack, packRun } from "../share.js";
import * as state from "../state.js";
import { Editor } from "./editor.js";
import { ProblemList } from "./problems.js";

const MOST_TOML = 256 * 1024;
const NOTHING_CHANGED = { faults: [], orders: [], watched: [], seed: 0 };

export function ScenarioTab() {
  const now = state.recording.value;
  const source = state.source.value;
  const origin = state.origin.value;
  const draft = state.draftOf(state.TOML, origin);
  useEffect(() => judge(draft ?? state.broken.value?.toml), [draft, source]);
  if (!source) return null;
  if (now && source.toml === "" && !state.broken.value) {
    return html`
      <div class="panel scenario">
        <${Sharing} now=${now} can=${false} saves=${state.engine.value === "ready"} />
        <p>This is real, and no scenario: there is no text to change. What is passed on holds the
          records that you see.</p></div>`;
  }
  const text = draft ?? source.toml;
  const can = state.engine.value === "ready";
  const fresh = state.broken.value !== null;
  const run = () => engine.run({
    name: source.name, toml: text, ...(fresh ? { changes: NOTHING_CHANGED, at: {} } : {}),
  });
  const write = (/** @type {string} */ next) =>
    state.setDraft(origin, state.TOML, next, source.toml);
  return html`
    <div class="panel scenario">
      <div class="row">
        <button type="button" class="primary" id="run-toml"
          disabled=${!can || (text === source.toml && !fresh)} onClick=${run}>Run this text</button>
        <button type="button" id="back-toml" disabled=${draft === undefined}
          onClick=${() => write(source.toml)}>Take back</button>
        <span class="quiet" id="drafted">${draft === undefined ? "" : "Not run yet."}</span>
        <label class="file">Open TOML <input type="file" id="open-toml" accept=".toml"
          disabled=${!can} onChange=${(/** @type {any} */ e) => open(e.target)} /></label>
      </div>
      ${now && !fresh ? html`<${Sharing} now=${now} can=${can} saves=${can} />` : null}
      <p class="keys-notice">⚠ Demo keys only. The keys of a scenario are made from words that
        everybody can read; never put a real secret into one. A real secret is refused.</p>
      <${Editor} id="toml" document=${`${origin}/${state.TOML}`} text=${text}
        latest=${() => state.draftOf(state.TOML, origin) ?? source.toml} language="toml"
        label="The scenario as TOML" diagnostics=${state.problems.value} onChange=${write}
        onRun=${run}
        readOnly=${!can && draft === undefined && state.engine.value !== "running"} />
      <div class="problems"><${ProblemList} /></div>
    </div>`;
}

/** Have a text judged once its author pauses. @param {string|undefined} toml */
function judge(toml) {
  if (toml === undefined) {
    state.problems.value = [];
    return undefined;
  }
  let alive = true;
  const timer = setTimeout(async () => {
    const answer = await engine.ask({ do: "judge", toml });
    if (alive && answer.type === "judged") state.problems.value = answer.diagnostics;
  }, 250);
  return () => { alive = false; clearTimeout(timer); };
}

/** @param {HTMLInputElement} input */
async function open(input) {
  const file = input.files?.[0];
  if (!file) return;
  if (file.size > MOST_TOML) {
    state.notice.value = `${file.name} was not opened: a scenario has at most ${MOST_TOML} bytes.`;
  } else {
    await engine.run({
      opened: true, name: file.name.replace(/\.toml$/, ""), toml: await file.text(),
      changes: NOTHING_CHANGED, at: {},
    });
  }
  input.value = ""; // so that the same file can be opened again
}

/** What is copied is shown first: it may come from a link that somebody else made.
 * @param {{now: import("../types.js").Recording, can: boolean, saves: boolean}} properties */
function Sharing({ now, can, saves }) {
  const [shown, setShown] = useState({ what: "", text: "" });
  useEffect(() => setShown({ what: "", text: "" }), [now]);
  /** @param {string} what @param {() => Promise<string|null>} make */
  const show = (what, make) => async () => {
    const text = await make();
    if (text !== null) setShown({ what, text });
  };
  const copied = async () => {
    state.notice.value = (await copy(shown.text))
      ? `Copied: ${shown.what}.`
      : "The browser does not let the page copy: select the text and copy it.";
  };
  const name = now.scenario.name;
  const save = async () => { // what is in the editor, run or not
    const text = state.draftOf(state.TOML) ?? (can ? await asked("toml") : now.scenario.toml);
    if (text !== null) download(`${name}.toml`, text, "application/toml");
  };
  const run = async () => {
    const text = await packRun(now);
    if (text === null) {
      state.notice.value = "The run is too long for a link: save it as a page instead.";
    } else setShown({ what: "a link that carries the run", text: linkWith({ r: text }) });
  };
  const peers = state.pair.value;
  return html`
    <div class="row" role="group" aria-label="Pass it on">
      <button type="button" id="show-link" disabled=${!now.scenario.toml}
        onClick=${show("a link that carries the scenario", () => link(now))}>As a link</button>
      <button type="button" id="show-run" title="Longer, and opens without any engine"
        onClick=${run}>As a link with the run</button>
      <button type="button" id="save-page" disabled=${!saves}
        title="The workbench with this run, in one file"
        onClick=${() => page(name)}>Save as a page</button>
      <button type="button" id="show-cli" disabled=${!can}
        onClick=${show("commands for a shell", () => asked("commands"))}>As CLI commands</button>
      <button type="button" id="show-test" disabled=${!can}
        onClick=${show("a test", () => asked("test"))}>As a test</button>
      <button type="button" id="save-toml" disabled=${!now.scenario.toml}
        onClick=${save}>Save TOML</button>
      ${peers.map((peer, side) => peer ? html`
        <button type="button" id=${`save-journal-${side}`} disabled=${!can || !state.frame.value}
          title="Run it again with lace plumb journal replay"
          onClick=${() => journal(side)}>Save ${peer.title}’s journal</button>` : null)}
    </div>
    ${shown.text ? html`
      <label class="shared">To pass on: ${shown.what}
        <textarea id="shared" readonly rows="6" value=${shown.text}></textarea></label>
      <button type="button" id="copy-shared" onClick=${copied}>Copy this</button>` : null}`;
}

/** What is open in another form; null where the engine cannot say, with a notice.
 * @param {"toml"|"commands"|"test"} part @returns {Promise<string|null>} */
async function asked(part) {
  const answer = await engine.ask({ do: "share" });
  if (answer.type === "shared") return answer[part];
  state.notice.value = `${answer.message.replace(/\.?$/, ".")} ${answer.hint}`;
  return null;
}

/** @param {import("../types.js").Recording} now */
async function link(now) {
  return linkWith({ z: await pack(now) });
}

/** A link to where somebody is now. @param {Record<string, string>} what it carries */
function linkWith(what) {
  const address = new URL(state.linksTo.value || location.href);
  address.search = "";
  address.hash = `${new URLSearchParams({
    ...what, scene: `${state.sceneNumber.value}`, step: `${state.step.value}`, tab: state.tab.value,
  })}`;
  return address.href;
}

/** @param {string} name */
async function page(name) {
  const answer = await engine.ask({ do: "page" });
  if (answer.type === "page") download(`${name}.html`, answer.html, "text/html");
  else state.notice.value = answer.message;
}

/** @param {number} side */
async function journal(side) {
  const scene = state.sceneNumber.value;
  const answer = await engine.ask({ do: "journal", scene });
  if (answer.type === "journal") {
    const name = `${state.recording.value?.scenario.name}-${scene + 1}`;
    const who = state.pair.value[side]?.id ?? "";
    download(`${name}-${who}.jsonl`, answer.sides[side], "application/jsonl");
  } else state.notice.value = answer.message;
}
