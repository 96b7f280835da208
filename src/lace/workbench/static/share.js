// Ways to pass on what is on the page. Nothing is sent anywhere: a link carries it in its fragment.
// @ts-check

import { isRecording } from "./sound.js";

const MOST = 4_000_000;
const MOST_LINK = 90_000; // letters; more do not survive everywhere that links are put

/** @param {ReadableStream<Uint8Array>} stream */
async function bytesOf(stream) {
  /** @type {Uint8Array[]} */
  const parts = [];
  let size = 0;
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST) throw new Error("too large");
    parts.push(value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Compress a text into letters for an address. @param {string} text */
async function packText(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = await bytesOf(/** @type {ReadableStream<Uint8Array>} */ (stream));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The opposite; whatever is not JSON that was packed so throws. @param {string} text */
async function unpackJson(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const whole = await bytesOf(/** @type {ReadableStream<Uint8Array>} */ (stream));
  return JSON.parse(new TextDecoder().decode(whole));
}

/** Compress a scenario and its changes into text for an address.
 * @param {import("./types.js").Recording} recording */
export function pack(recording) {
  return packText(JSON.stringify({
    v: 1, name: recording.scenario.name, toml: recording.scenario.toml, changes: recording.changes,
  }));
}

/** The opposite of pack; null if the text is not what pack makes.
 * @param {string} text @returns {Promise<{name: string, toml: string, changes: any}|null>} */
export async function unpack(text) {
  try {
    const value = await unpackJson(text);
    return value.v === 1 && typeof value.toml === "string" ? value : null;
  } catch {
    return null;
  }
}

/** Compress a whole run into text for an address; null where it is too long for one.
 * @param {import("./types.js").Recording} recording */
export async function packRun(recording) {
  const text = JSON.stringify(recording);
  if (text.length > MOST) return null;
  const packed = await packText(text);
  return packed.length > MOST_LINK ? null : packed;
}

/** The opposite of packRun; null if the text is no run that can be shown.
 * @param {string} text @returns {Promise<import("./types.js").Recording|null>} */
export async function unpackRun(text) {
  try {
    const value = await unpackJson(text);
    return isRecording(value) ? value : null;
  } catch {
    return null;
  }
}

/** A name of letters, digits and dashes before its ending: a stranger's may hold anything else.
 * @param {string} name */
export function fileName(name) {
  const dot = name.lastIndexOf(".");
  const fit = name.slice(0, dot).replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 60);
  return `${fit.replaceAll(/^-|-$/g, "") || "scenario"}${name.slice(dot)}`;
}

/** @param {string} name with an ending @param {string} content @param {string} type */
export function download(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** The timeline as a picture of its own, with the colours that it has now.
 * @param {SVGElement} shown */
export function picture(shown) {
  const copy_ = /** @type {SVGElement} */ (shown.cloneNode(true));
  const from = [shown, ...shown.querySelectorAll("*")];
  const to = [copy_, ...copy_.querySelectorAll("*")];
  const wanted = [
    "fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size",
    "font-weight", "opacity", "text-anchor",
  ];
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of wanted) to[index].setAttribute(name, style.getPropertyValue(name));
    to[index].removeAttribute("class");
  });
  copy_.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy_);
}
