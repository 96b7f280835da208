// What the page uses to edit text, in one file.
export { autocompletion, completionKeymap } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export {
  HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting,
} from "@codemirror/language";
export { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
export { searchKeymap } from "@codemirror/search";
export { Compartment, EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
export {
  EditorView, GutterMarker, drawSelection, gutter, highlightActiveLine, keymap, lineNumbers,
} from "@codemirror/view";
export { tags } from "@lezer/highlight";
