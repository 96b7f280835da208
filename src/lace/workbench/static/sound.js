// Whether a recording that came from elsewhere can be shown: it has the shape of one, and what it
// refers to is in it.
// @ts-check
import { SHAPES } from "./shapes.js";

const FORMAT = "lace-recording/1";

/** @param {any} value @returns {value is import("./types.js").Recording} */
export function isRecording(value) {
  return fits(value, ["shape", "Recording"]) && value.format === FORMAT && isWhole(value);
}

/** @param {any} value @param {any} shape @returns {boolean} */
function fits(value, shape) {
  if (typeof shape === "string") return shape === "null" ? value === null : typeof value === shape;
  const [word, ...of] = shape;
  if (word === "is") return value === of[0];
  if (word === "one of") return of.some((/** @type {any} */ one) => fits(value, one));
  if (word === "list") return Array.isArray(value) && value.every((one) => fits(one, of[0]));
  if (word === "row") {
    return Array.isArray(value) && value.length === of.length
      && value.every((one, index) => fits(one, of[index]));
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  if (word === "map") return Object.values(value).every((one) => fits(one, of[0]));
  const parts = SHAPES[of[0]];
  const known = new Map(Object.entries(parts).map(([name, kind]) => [name.replace("?", ""), kind]));
  return Object.keys(parts).every((name) => name.endsWith("?") || Object.hasOwn(value, name))
    && Object.entries(value).every(([name, one]) => known.has(name) && fits(one, known.get(name)));
}

/** Whether all that a recording refers to is in it. @param {import("./types.js").Recording} made */
function isWhole(made) {
  const peers = new Set(made.scenario.peers.map((peer) => peer.id));
  const table = (/** @type {number} */ number) => made.tables[number] !== undefined;
  const policy = (/** @type {number|null} */ number) => number === null
    || made.policies[number] !== undefined;
  return made.scenes.length > 0 && peers.size > 0 && made.scenes.every((scene, number) => {
    const frames = scene.frames ?? [];
    return scene.number === number
      && (scene.pair ?? []).every((id) => peers.has(id))
      && (scene.pair === null) === (frames.length === 0)
      && Object.values(scene.tables ?? {}).every(table)
      && frames.every((frame) => frame.tables.length === 2 && frame.tables.every(table)
        && frame.policies.length === 2 && frame.policies.every(policy));
  });
}
