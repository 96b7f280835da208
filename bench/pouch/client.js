// Replicates from a server into a folder. Usage: node client.js FOLDER URL [BATCH]; for each line
// on standard input it replicates once and says milliseconds and how many documents are here.
const fs = require("node:fs");
const readline = require("node:readline");
const PouchDB = require("pouchdb");

const [folder, url, batch] = process.argv.slice(2);
const options = batch ? { batch_size: +batch } : {};
fs.mkdirSync(folder, { recursive: true });
const here = new PouchDB(folder + "/notes");
readline.createInterface({ input: process.stdin }).on("line", async () => {
  const start = process.hrtime.bigint();
  await here.replicate.from(url, options);
  const milliseconds = Number(process.hrtime.bigint() - start) / 1e6;
  console.log(JSON.stringify({ milliseconds, documents: (await here.info()).doc_count }));
}).on("close", () => process.exit(0));
