// The engine in a worker, for pages that were exported with it: commands in, messages out.
// @ts-nocheck

const place = self.name;
const { load } = await import(`${place}engine.mjs`);
const python = await load(place, { parts: ["workbench"] });
const handle = python.runPython(`
import json
from lace.workbench.session import Session
_session = Session()
lambda text: [json.dumps(answer, ensure_ascii=False) for answer in _session.handle(json.loads(text))]
`);
self.addEventListener("message", (event) => {
  const answers = handle(event.data);
  for (const answer of answers.toJs()) self.postMessage(answer);
  answers.destroy();
});
self.postMessage("ready");
