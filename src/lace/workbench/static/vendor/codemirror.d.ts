export * from "../../../../../web/codemirror.entry.js";
export type { StateEffectType } from "@codemirror/state";
