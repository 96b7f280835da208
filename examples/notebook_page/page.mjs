// A peer of its own: it keeps the notebook in this browser and works without a network.
import { IndexedDbLace, Lace, for_each, open_interlace, room } from "./lace/lace.mjs";

const settings = await (await fetch("settings.json")).json();
const { address, authority, prefix, group, note, member } = settings;
const belongs = room(prefix, { authority, reads: "anyone" });
const secret = localStorage.getItem("notebook-secret") ?? (await Lace.new_secret());
localStorage.setItem("notebook-secret", secret);
const local = await IndexedDbLace.open("notebook", { secret });

const status = document.querySelector("[role=status]");
const [join, write] = ["join", "write"].map((id) => document.getElementById(id));
const newest = new Map(); // by place: the newest version that is here
const names = new Map(); // by verifier: what the authority calls a member

function show() {
  const isMember = names.has(local.verifier);
  join.hidden = isMember;
  write.hidden = !isMember;
  status.textContent = isMember ? `You write as ${names.get(local.verifier)}.` : "You are reading.";
  const items = [...newest.values()].sort((a, b) => (a.tai < b.tai ? 1 : -1)).map((record) => {
    const item = document.createElement("li");
    const title = record.fields.Title ?? "";
    item.textContent = `${title}: ${record.text} (${names.get(record.author) ?? "?"})`;
    item.addEventListener("click", () => {
      write.elements.title.value = title;
      write.elements.text.value = record.text;
    });
    return item;
  });
  document.querySelector("ul").replaceChildren(...items);
}

join.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({
    name: join.elements.name.value, word: join.elements.word.value, verifier: local.verifier,
  });
  const answer = await fetch("join", { method: "POST", body });
  if (!answer.ok) status.textContent = (await answer.json()).wrong;
  // The grant itself comes with the exchange, as a record.
});

write.addEventListener("submit", async (event) => {
  event.preventDefault();
  const title = write.elements.title.value;
  const place = `//${group}//${note}//${encodeURIComponent(title).replaceAll("%", "_")}`;
  await local.store([{ place, fields: { Title: title }, data: write.elements.text.value }]);
  write.reset();
});

const server = await Lace.connect_websocket(address);
await open_interlace(local, server, belongs);
show();
for await (const record of for_each(local, belongs)) {
  const app = record.place.split("//")[2];
  if (app === member) names.set(record.fields.Member, record.fields.Called);
  const later = newest.get(record.place)?.tai > record.tai;
  if (app === note && !later) newest.set(record.place, record);
  show();
}
