// The engine: Lace itself in Python, run by Pyodide. Loaded from this folder and nothing else.
import * as noble from "./noble.entry.js";
import * as socket from "./socket.mjs";

/** Load the engine from a folder. ``modules`` are for it to import; ``parts`` are archives beyond
 * the first, such as the workbench's. */
export async function load(base, { modules = {}, parts = [] } = {}) {
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  const archives = parts.map(async (part) => [part, await fetched(`${base}${part}.zip`)]);
  const python = await loadPyodide({ indexURL: base, stdLibURL: `${base}engine.zip` });
  const given = { lace_noble: noble, lace_socket: socket, ...modules };
  for (const [name, module] of Object.entries(given)) python.registerJsModule(name, module);
  python.runPython(`
import dataclasses, lace_made
lace_made.use("engine")
dataclasses.exec = lace_made.run
`);
  for (const [part, archive] of await Promise.all(archives)) {
    python.unpackArchive(archive, "zip", { extractDir: `/lib/${part}` }); // it has files to read
    python.runPython(`
import lace, lace_made, sys
sys.path.append("/lib/${part}")
lace.__path__.append("/lib/${part}/lace")
lace_made.use("${part}")
`);
  }
  return python;
}

async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}
