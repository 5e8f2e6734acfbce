// SPDX-License-Identifier: Apache-2.0
// A small worker that survives a broker that is gone or silent, with `zeromq` 6 and `@msgpack/msgpack` 3: small_worker.mjs [ENDPOINT]
// answers a job of `echo` with its body. Without batches, streams and sessions.
import { Dealer } from "zeromq";
import { decode, encode } from "@msgpack/msgpack";

const endpoint = process.argv[2] ?? "tcp://127.0.0.1:5571";
const outcomes = new Map(); // handed in and not answered yet: "job attempt" -> [op, fields, body]
let interval, draining = false; // of heartbeats in ms, as welcome says
for (let first = true; ; first = false) {
  if (!first) console.error(`no word from the broker at ${endpoint}`);
  await serve(new Dealer({ linger: 0 }));
}

/** Serves by one connection, until the broker is silent. */
async function serve(worker) {
  const unsent = []; // a socket sends one message at a time
  let sending = false, silent, timer;
  const say = async (op, fields, ...body) => {
    unsent.push(encode(["LMQ1", op, fields, ...body]));
    if (sending) return;
    sending = true;
    while (unsent.length > 0 && !worker.closed) await worker.send(unsent.shift()).catch(() => {});
    sending = false;
  };
  const heartbeat = () => say("heartbeat", { jobs: [...outcomes.values()].map(([, f]) => [f.job, f.attempt]) });
  const greet = () => {
    say("ready", { services: ["echo"], capacity: 4 });
    if (!interval) return;
    heartbeat();
    for (const outcome of outcomes.values()) say(...outcome);
  };
  const giveUpIn = (ms) => {
    clearTimeout(silent);
    silent = setTimeout(() => worker.close(), ms);
  };
  worker.connect(endpoint);
  greet();
  giveUpIn(interval ? 3 * interval : 2000);
  if (interval) timer = setInterval(heartbeat, interval);
  for await (const [header, ...rest] of worker) {
    giveUpIn(interval ? 3 * interval : 2000);
    let message;
    try {
      message = decode(header);
    } catch {
      continue; // what it cannot read it ignores
    }
    const [, op, fields, inside] = message;
    const code = op === "error" ? fields.code : undefined;
    const lease = `${fields.job} ${fields.attempt}`;
    if (op === "welcome") {
      interval = fields.heartbeat_ms;
      draining = false;
      clearInterval(timer);
      timer = setInterval(heartbeat, interval);
    } else if (op === "drain") {
      draining = true;
    } else if (op === "job" && !outcomes.has(lease)) {
      const named = { job: fields.job, attempt: fields.attempt };
      const body = inside ?? rest[0] ?? new Uint8Array(); // the answer is the request
      outcomes.set(lease, draining ? ["error", { ...named, class: "released" }] : ["result", named, body]);
      say(...outcomes.get(lease));
    } else if (op === "acked") {
      for (const [job, attempt] of fields.jobs) outcomes.delete(`${job} ${attempt}`);
    } else if (code === "stale") {
      outcomes.delete(lease);
    } else if (code === "unknown_session") {
      greet();
    } else if (code === "bad_request" && !interval) {
      console.error(`the broker does not take this worker: ${fields.message}`);
      process.exit(1);
    } else if (code || op === "bye") {
      giveUpIn(1000); // full or unauthorized, or the broker leaves: ready again later
    }
  }
  clearInterval(timer);
  clearTimeout(silent);
}
