// The engine in a worker, for pages that were exported with it: commands in, messages out.
// @ts-nocheck

const place = self.name;
const { load } = await import(`${place}engine.mjs`);
const python = await load(place, { parts: ["workbench"] });
const handle = python.runPython(`
import json
from lace.workbench.session import Session
_session = Session()
def _answers(text):
    return [json.dumps(one, ensure_ascii=False) for one in _session.handle(json.loads(text))]
_answers
`);
self.addEventListener("message", (event) => {
  const answers = handle(event.data);
  for (const answer of answers.toJs()) self.postMessage(answer);
  answers.destroy();
});
self.postMessage("ready");
