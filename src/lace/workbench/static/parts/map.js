// A map of a story with more than two peers: who meets whom in which scene, and who has how much.
// @ts-check
import { html } from "../vendor/preact.js";
import * as state from "../state.js";
import { counted } from "./text.js";

const WIDTH = 420;
const HEIGHT = 210;

export function PeerMap() {
  const now = state.recording.value;
  const peers = now?.scenario.peers ?? [];
  if (!now || peers.length < 3) return null;
  const places = new Map(peers.map((peer, index) => {
    const angle = (2 * Math.PI * index) / peers.length - Math.PI / 2;
    const x = WIDTH / 2 + Math.cos(angle) * 140;
    const y = HEIGHT / 2 + 14 + Math.sin(angle) * 68;
    return [peer.id, { x, y }];
  }));
  const scene = state.scene.value;
  const atEnd = state.step.value >= state.last.value;
  const counts = atEnd ? scene?.after : scene?.before;
  const held = (/** @type {string} */ id) => counts?.[id]?.length ?? 0;
  return html`
    <details class="map" open><summary>All ${peers.length} peers</summary>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} width=${WIDTH} height=${HEIGHT} aria-hidden="true">
        ${links(now.scenes).map(({ pair: [a, b], scenes }) => {
          const [from, to] = [places.get(a), places.get(b)];
          if (!from || !to) return null;
          const here = scenes.includes(state.sceneNumber.value);
          const open = () => state.openScene(here ? next(scenes) : scenes[0]);
          return html`<g class=${here ? "meets here" : "meets"} onClick=${open}>
            <line x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y} />
            <text x=${(from.x + to.x) / 2} y=${(from.y + to.y) / 2 - 5} text-anchor="middle"
              >${scenes.map((n) => n + 1).join(", ")}</text></g>`;
        })}
        ${peers.map((peer) => {
          const { x, y } = /** @type {{x: number, y: number}} */ (places.get(peer.id));
          const here = scene?.pair?.includes(peer.id);
          return html`<g class=${here ? "peer here" : "peer"}><circle cx=${x} cy=${y} r="15" />
            <text x=${x} y=${y + 4} text-anchor="middle">${held(peer.id)}</text>
            <text class="peer-name" x=${x} y=${y - 21} text-anchor="middle"
              >${cut(peer.title)}</text></g>`;
        })}
      </svg>
      <ul class="sr">
        ${peers.map((peer) => html`
          <li>${peer.title}: ${counted(held(peer.id), "record")}</li>`)}
        ${links(now.scenes).map(({ pair, scenes }) => html`
          <li>${pair.map((id) => peers.find((p) => p.id === id)?.title).join(" meets ")} in
            ${" "}${scenes.map((n) => `scene ${n + 1}`).join(", ")}</li>`)}</ul>
    </details>`;
}

/** Who meets whom, and in which scenes. @param {import("../types.js").Scene[]} scenes */
function links(scenes) {
  /** @type {Map<string, {pair: [string, string], scenes: number[]}>} */
  const found = new Map();
  for (const { pair, number } of scenes) {
    if (!pair) continue;
    const key = [...pair].sort().join(" ");
    found.set(key, { pair, scenes: [...(found.get(key)?.scenes ?? []), number] });
  }
  return [...found.values()];
}

/** The scene of these that comes after this one. @param {number[]} scenes */
function next(scenes) {
  return scenes[(scenes.indexOf(state.sceneNumber.value) + 1) % scenes.length];
}

/** @param {string} title */
function cut(title) {
  return title.length > 22 ? `${title.slice(0, 21)}…` : title;
}
