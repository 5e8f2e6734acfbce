// SPDX-License-Identifier: Apache-2.0
// A small client that survives a broker that is gone or silent, with `zeromq` 6 and `@msgpack/msgpack` 3: client.mjs [ENDPOINT] reads
// jobs from its input, a line `SERVICE BODY` each, and prints a line for each answer. Without batches and streams.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Dealer } from "zeromq";
import { decode, encode } from "@msgpack/msgpack";

const endpoint = process.argv[2] ?? "tcp://127.0.0.1:5570";
const jobs = new Map(); // id, and ref -> the submit, until its terminal message has come
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const [service] = line.split(" ", 1); // SERVICE BODY
  const name = randomUUID();
  const body = Buffer.from(line.slice(service.length + 1));
  jobs.set(name, encode(["LMQ1", "submit", { service, id: name, ref: name }, body]));
}
const ping = encode(["LMQ1", "ping", {}]);
const nothing = Symbol("nothing");
let client, heard, submitted, coming;
while (jobs.size > 0) {
  if (!client || Date.now() - heard > 2000) {
    // Silent: all again by a new connection; what is known runs no second time.
    if (client) console.error(`no word from the broker at ${endpoint}`);
    client?.close();
    client = new Dealer({ linger: 0, sendTimeout: 0 });
    client.connect(endpoint);
    [heard, submitted, coming] = [Date.now(), 0, client.receive().catch(() => nothing)];
  }
  if (Date.now() - submitted > 10000) {
    submitted = Date.now(); // the first time, and where an answer may be lost
    for (const submit of jobs.values()) await client.send(submit);
  }
  let timer;
  const second = new Promise((resolve) => (timer = setTimeout(resolve, 1000, nothing)));
  const frames = await Promise.race([coming, second]);
  clearTimeout(timer);
  if (frames === nothing) {
    await client.send(ping).catch(() => {});
    continue;
  }
  heard = Date.now();
  coming = client.receive().catch(() => nothing);
  let message;
  try {
    message = decode(frames[0]);
  } catch {
    continue; // what it cannot read it ignores
  }
  const [, op, fields, inside] = message;
  if (op === "error" && fields.code === "unauthorized" && fields.ref === undefined) {
    console.error("the broker does not take this key");
    process.exit(1);
  }
  if ((op === "result" || op === "error") && jobs.delete(fields.ref)) {
    const body = Buffer.from(inside ?? frames[1] ?? []);
    console.log(op, op === "result" ? body.toString() : fields.code);
  }
}
client?.close();
