// Everything by keyboard; fields and editors keep their own keys.
// @ts-check
import * as state from "./state.js";

let going = false;

/** @param {KeyboardEvent} event */
export function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    state.palette.value = true;
    return;
  }
  const target = /** @type {HTMLElement} */ (event.composedPath()[0] ?? event.target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const box = target instanceof HTMLInputElement && target.type === "checkbox";
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) && !box;
  if (target.isContentEditable || typing) {
    if (event.key === "Escape" && target.tagName === "INPUT") target.blur();
    return;
  }
  if (going) {
    going = false;
    const place = {
      r: ".lace .scroll", t: ".timeline .scroll", d: "#details [role=tab][aria-selected=true]",
    }[event.key];
    if (place) {
      event.preventDefault();
      /** @type {HTMLElement|null} */ (document.querySelector(place))?.focus();
      return;
    }
  }
  const onTab = target.getAttribute("role") === "tab";
  const onButton = target.tagName === "BUTTON" || target.tagName === "SUMMARY";
  /** @type {Record<string, () => void>} */
  const acts = {
    Home: () => state.goTo(0), End: state.toFixedPoint,
    p: () => state.movePhase(1), P: () => state.movePhase(-1),
    w: () => { state.tab.value = "why"; },
    g: () => { going = true; },
    "?": () => { state.help.value = true; },
    "/": () => document.getElementById("filter")?.focus(),
  };
  if (!onTab) {
    acts.ArrowRight = () => (event.shiftKey ? state.moveLoop(1) : state.move(1));
    acts.ArrowLeft = () => (event.shiftKey ? state.moveLoop(-1) : state.move(-1));
  }
  if (!onButton && !box) acts[" "] = () => { state.playing.value = !state.playing.value; };
  const digit = Number(event.key);
  const scenes = state.recording.value?.scenes.length ?? 0;
  const toScene = digit >= 1 && digit <= scenes ? () => state.openScene(digit - 1) : undefined;
  const act = acts[event.key] ?? toScene;
  if (act) {
    event.preventDefault();
    act();
  }
}
