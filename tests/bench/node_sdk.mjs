// SPDX-License-Identifier: Apache-2.0
// node_sdk.mjs ENDPOINT JOBS ROUNDS WINDOW: each loop keeps WINDOW jobs of 100 bytes under way, and waits for all answers: the package
// by `Client.map` and by `Client.submit`; the bare loop by one DEALER socket, one message for each job, `ref`s and nothing else. They
// take turns, and the medians are compared.
import { strict as assert } from "node:assert";
import { createRequire } from "node:module";
import process from "node:process";

import { Client } from "../../client/node/lib/index.js";

const require = createRequire(new URL("../../client/node/package.json", import.meta.url)); // the same two packages
const { Dealer } = require("zeromq");
const { decode, encode } = require("@msgpack/msgpack");

const LEAST = 0.7;
const BODY = Buffer.alloc(100, "x");
const [endpoint, ...numbers] = process.argv.slice(2);
const [jobs, rounds, window] = numbers.map(Number);

/** One message for each job. */
async function bare() {
  const socket = new Dealer({ linger: 0 });
  socket.connect(endpoint);
  const begun = performance.now();
  const answers = new Map();
  for (let sent = 0; answers.size < jobs; ) {
    for (; sent < jobs && sent - answers.size < window; ++sent) {
      await socket.send(encode(["LMQ1", "submit", { service: "echo", id: `${begun}-${sent}`, ref: sent }, BODY]));
    }
    const [header, behind] = await socket.receive();
    const [, op, fields, inside] = decode(header);
    assert.equal(op, "result");
    answers.set(fields.ref, inside ?? behind);
  }
  const took = performance.now() - begun;
  socket.close();
  for (const body of answers.values()) assert(BODY.equals(body));
  return (1000 * jobs) / took;
}

async function withClient(use) {
  const client = new Client({ broker: endpoint });
  const begun = performance.now();
  const count = await use(client);
  const took = performance.now() - begun;
  assert.equal(count, jobs);
  await client.close();
  return (1000 * jobs) / took;
}

const byMap = () =>
  withClient(async (client) => {
    let count = 0;
    for await (const answer of client.map("echo", Array(jobs).fill(BODY), { window, progress: false })) {
      assert(BODY.equals(answer.body));
      count += 1;
    }
    return count;
  });

const bySubmit = () =>
  withClient(async (client) => {
    let [count, begun] = [0, 0];
    const ask = async () => {
      while (begun < jobs) {
        begun += 1;
        assert(BODY.equals((await client.submit("echo", BODY)).body));
        count += 1;
      }
    };
    await Promise.all(Array.from({ length: window }, ask));
    return count;
  });

const loops = { bare, map: byMap, submit: bySubmit };
const rates = Object.fromEntries(Object.keys(loops).map((name) => [name, []]));
for (let round = 0; round < rounds; ++round) for (const name in loops) rates[name].push(await loops[name]());
const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
for (const [name, each] of Object.entries(rates)) {
  const share = median(each) / median(rates.bare);
  const span = `${Math.min(...each).toFixed(0)} to ${Math.max(...each).toFixed(0)}`;
  console.log(`${name.padEnd(7)} ${median(each).toFixed(0).padStart(8)} jobs/s   ${share.toFixed(2)} of bare   (${span})`);
}
process.exitCode = median(rates.map) >= LEAST * median(rates.bare) ? 0 : 1;
