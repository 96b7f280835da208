// A CouchDB-like server over PouchDB. Usage: node server.js FOLDER; says its port, then obeys
// lines: "fill START COUNT SIZE" stores documents and says "filled".
const fs = require("node:fs");
const readline = require("node:readline");
const PouchDB = require("pouchdb");
const express = require("express");

const folder = process.argv[2];
fs.mkdirSync(folder, { recursive: true });
process.chdir(folder);
const Local = PouchDB.defaults({ prefix: folder + "/" });
const app = express();
app.use("/", require("express-pouchdb")(Local, { logPath: folder + "/log.txt" }));
const notes = new Local("notes");

function documents(start, count, size) {
  return Array.from({ length: count }, (_, index) => ({
    _id: `n/${start + index}`,
    group: "g",
    app: "notes",
    tai: `${1700000000 + start + index}:000000000`,
    data: "x".repeat(size),
  }));
}

const listening = app.listen(0, "127.0.0.1", () => console.log(listening.address().port));
readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const [, start, count, size] = line.split(" ");
  await notes.bulkDocs(documents(+start, +count, +size));
  console.log("filled");
}).on("close", () => process.exit(0));
