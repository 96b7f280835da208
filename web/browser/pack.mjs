// Runs in node when the bundle is made: has Pyodide compile the archives of its parts (pack.py).
//   node pack.mjs STAGED MADE
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";
import * as noble from "./noble.entry.js";
import * as socket from "./socket.mjs";

const [staged, made] = process.argv.slice(2);
const indexURL = fileURLToPath(new URL("../node_modules/pyodide/", import.meta.url));
// The names of functions are enough for whoever reads a traceback of a page.
const python = await loadPyodide({ indexURL, env: { PYTHONNODEBUGRANGES: "1" } });
const modules = { lace_noble: noble, lace_socket: socket, lace_page: {} };
for (const [name, module] of Object.entries(modules)) python.registerJsModule(name, module);
for (const [place, folder] of [["/staged", staged], ["/made", made]]) {
  python.FS.mkdirTree(place);
  python.mountNodeFS(place, folder);
}
try {
  python.runPython(readFileSync(new URL("./pack.py", import.meta.url), "utf8"));
} catch (error) {
  console.error(error.message); // without the source of Pyodide, which node would print
  process.exit(1);
}
