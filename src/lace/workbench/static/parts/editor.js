// CodeMirror inside a shadow root: its styles need no exception from the page's strict policy.
// @ts-check
import {
  Compartment, EditorState, EditorView, GutterMarker, HighlightStyle, RangeSet,
  StateEffect, StateField, StreamLanguage, autocompletion, bracketMatching, completionKeymap,
  defaultKeymap, drawSelection, gutter, highlightActiveLine, history, historyKeymap, keymap,
  lineNumbers, lintGutter, lintKeymap, searchKeymap, setDiagnostics, syntaxHighlighting, tags,
} from "../vendor/codemirror.js";
import { html, useEffect, useRef } from "../vendor/preact.js";
import * as state from "../state.js";

const MOST_TEXT = 256 * 1024;

/** Colours only: what the text means is the engine's to say. */
const lacegram = StreamLanguage.define({
  name: "lacegram",
  token(stream) {
    if (stream.sol() && stream.match(/\s*#.*/)) return "comment";
    if (stream.eatSpace()) return null;
    if (stream.match(/'(?:[^'\\]|\\.)*'?/)) return "string";
    if (stream.match(/:-|!=/)) return "operator";
    if (stream.match(/(?:not|true)\b/)) return "keyword";
    if (stream.match(/(?:SelectHave|SelectAdvertised|AllowQueryRecord)(?=\()/)) return "heading";
    if (stream.match(/[A-Za-z_][A-Za-z0-9_]*(?=\()/)) return "function";
    if (stream.match(/[A-Za-z_][A-Za-z0-9_]*/)) return "variableName";
    stream.next();
    return null;
  },
  tokenTable: { function: tags.function(tags.variableName), heading: tags.heading },
});
const toml = StreamLanguage.define({
  name: "toml",
  startState: () => ({ block: "" }),
  token(stream, at) {
    if (at.block) { // a text of several lines goes on up to the quotes that it began with
      if (stream.match(at.block === '"""' ? /(?:[^"\\]|\\.|"(?!""))*"""/ : /.*?'''/)) at.block = "";
      else stream.skipToEnd();
      return "string";
    }
    if (stream.match(/#.*/)) return "comment";
    if (stream.sol() && stream.match(/\[.*\]/)) return "heading";
    at.block = ['"""', "'''"].find((quotes) => stream.match(quotes)) ?? "";
    if (at.block) return "string";
    if (stream.match(/"(?:[^"\\]|\\.)*"?|'[^']*'?/)) return "string";
    if (stream.match(/[A-Za-z0-9_-]+/)) return stream.match(/\s*=/, false) ? "propertyName" : null;
    stream.next();
    return null;
  },
  tokenTable: { heading: tags.heading },
});
const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: tags.keyword, color: "var(--code-keyword)" },
  { tag: tags.operator, color: "var(--muted)" },
  { tag: tags.heading, color: "var(--code-head)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--code-call)" },
  { tag: tags.propertyName, color: "var(--code-call)" },
]);
const look = EditorView.theme({
  "&": {
    color: "var(--text)", backgroundColor: "var(--panel)", fontSize: "12.5px", height: "100%",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": {
    backgroundColor: "var(--sunken)", color: "var(--muted)", borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "var(--select) !important",
  },
  ".cm-hits": { minWidth: "3.2em", textAlign: "right", padding: "0 5px", fontSize: "11px" },
  ".cm-never": { color: "var(--bad)" },
  ".cm-tooltip": {
    backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)",
    borderRadius: "6px", maxWidth: "36em",
  },
  ".cm-diagnostic": { borderLeftWidth: "3px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)", color: "var(--on-accent)",
  },
});

class Hits extends GutterMarker {
  /** @param {number} count */
  constructor(count) { super(); this.count = count; }
  /** @param {Hits} other */
  eq(other) { return other.count === this.count; }
  toDOM() {
    const shown = document.createElement("span");
    shown.textContent = this.count ? `${this.count}×` : "never";
    shown.title = this.count ? `${this.count} facts` : "This rule has not fired.";
    if (!this.count) shown.className = "cm-never";
    return shown;
  }
}
/** @type {import("../vendor/codemirror.js").StateEffectType<Map<number, number>>} */
const setHits = StateEffect.define();
const hits = StateField.define({
  create: () => RangeSet.empty,
  update(found, change) {
    let next = found.map(change.changes);
    for (const effect of change.effects) {
      if (effect.is(setHits)) {
        const text = change.state.doc;
        const marks = [...effect.value].filter(([line]) => line <= text.lines)
          .sort((a, b) => a[0] - b[0]);
        next = RangeSet.of(
          marks.map(([line, count]) => new Hits(count).range(text.line(line).from)),
        );
      }
    }
    return next;
  },
});
/** Keeps an editor locked while there is no engine to judge what is written. */
const lock = new Compartment();

/** What editors held when they went out of sight, by document: text, history, place.
 * @type {Map<string, {state: EditorState, now: {current: Properties}}>} */
const kept = new Map();

/**
 * The editor follows ``text``, and what was typed can be undone also after it was run or after the
 * editor was out of sight: whatever has the same ``document`` has one history.
 * @typedef {{document: string, text: string, latest: () => string,
 *   language: "lacegram"|"toml", label: string, readOnly?: boolean,
 *   diagnostics?: import("../types.js").Diagnostic[],
 *   marks?: Map<number, number>, words?: string[], onChange?: (text: string) => void,
 *   onRun?: () => void, id?: string}} Properties
 * @param {Properties} properties
 */
export function Editor(properties) {
  // Another document is another editor.
  return html`<${OneEditor} key=${properties.document} ...${properties} />`;
}

/** @param {Properties} properties */
function OneEditor(properties) {
  const host = useRef(/** @type {HTMLDivElement|null} */ (null));
  const view = useRef(/** @type {EditorView|null} */ (null));
  // The extensions of a kept state ask the same object again, wherever the editor comes back.
  const now = useRef(kept.get(properties.document)?.now ?? { current: properties }).current;
  now.current = properties;
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (host.current);
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const words = () => now.current.words ?? [];
    const extensions = [
      lineNumbers(), history(), drawSelection(), bracketMatching(), highlightActiveLine(),
      lintGutter(), hits,
      gutter({ class: "cm-hits", markers: (v) => v.state.field(hits) }),
      autocompletion({ override: [(context) => {
        const typed = context.matchBefore(/[A-Za-z_-]+/);
        if (!typed && !context.explicit) return null;
        return { from: typed?.from ?? context.pos, options: words().map((label) => ({ label })) };
      }] }),
      syntaxHighlighting(colours), look, EditorView.lineWrapping,
      new Compartment().of(properties.language === "toml" ? toml : lacegram),
      EditorState.changeFilter.of((change) => {
        const fits = change.newDoc.length <= MOST_TEXT;
        if (!fits) {
          state.notice.value = `That is too much text: the engine takes ${MOST_TEXT} characters.`;
        }
        return fits;
      }),
      lock.of(EditorState.readOnly.of(properties.readOnly === true)),
      EditorView.domEventHandlers({ beforeinput: typeOver }),
      EditorView.contentAttributes.of({ "aria-label": properties.label, tabindex: "0" }),
      keymap.of([
        { key: "Mod-Enter", run: () => { now.current.onRun?.(); return true; } },
        ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap,
      ]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) now.current.onChange?.(update.state.doc.toString());
      }),
    ];
    const before = kept.get(properties.document)?.state;
    const begun = before ?? EditorState.create({ doc: properties.text, extensions });
    const made = new EditorView({ state: begun, parent: root, root });
    view.current = made;
    return () => {
      kept.set(properties.document, { state: made.state, now });
      made.destroy();
      view.current = null;
    };
  }, []);
  useEffect(() => {
    const readOnly = EditorState.readOnly.of(properties.readOnly === true);
    view.current?.dispatch({ effects: lock.reconfigure(readOnly) });
  }, [properties.readOnly]);
  useEffect(() => {
    const made = view.current;
    const held = made?.state.doc.toString();
    // By now more may have been typed than was drawn: what counts is what is kept.
    const wanted = properties.latest();
    if (made && held !== undefined && held !== wanted) {
      made.dispatch({ changes: difference(held, wanted) });
    }
  }, [properties.text]);
  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const marked = (properties.diagnostics ?? []).map((one) => place(made.state, one));
    made.dispatch(setDiagnostics(made.state, marked));
    // What is said below takes room from the editor; the line that is written stays in sight.
    if (made.hasFocus) {
      made.dispatch({ effects: EditorView.scrollIntoView(made.state.selection.main.head) });
    }
  }, [properties.diagnostics]);
  useEffect(() => {
    view.current?.dispatch({ effects: setHits.of(properties.marks ?? new Map()) });
  }, [properties.marks]);
  return html`<div class="editor" id=${properties.id} ref=${host}></div>`;
}

/** Replace a selection by what is typed over it. A browser that does it by itself tries to keep the
 * style of what was there, in a way that the page's policy forbids.
 * @param {InputEvent} event @param {EditorView} view */
function typeOver(event, view) {
  const text = event.inputType === "insertText" ? event.data : null;
  if (text === null || view.state.readOnly || view.composing) return false;
  if (view.state.selection.ranges.every((range) => range.empty)) return false;
  event.preventDefault();
  view.dispatch(view.state.update(view.state.replaceSelection(text), {
    userEvent: "input.type", scrollIntoView: true,
  }));
  return true;
}

/** The one stretch in which two texts differ, so that the cursor stays where nothing changed.
 * @param {string} before @param {string} after */
function difference(before, after) {
  const most = Math.min(before.length, after.length);
  let from = 0;
  while (from < most && before[from] === after[from]) from += 1;
  let same = 0;
  while (same < most - from && before.at(-1 - same) === after.at(-1 - same)) same += 1;
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) };
}

/** @param {EditorState} text @param {import("../types.js").Diagnostic} one */
function place(text, one) {
  const line = text.doc.line(Math.max(1, Math.min(one.line, text.doc.lines)));
  const from = Math.min(line.from + one.column - 1, line.to);
  return {
    from, to: Math.min(from + Math.max(1, one.length), text.doc.length),
    severity: /** @type {"error"|"warning"} */ (one.severity === "warning" ? "warning" : "error"),
    message: `${one.message}\n${one.hint}`, source: one.code,
  };
}
