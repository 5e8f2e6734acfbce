// SPDX-License-Identifier: Apache-2.0
// Endpoints with names: clients and workers look them up apart from all else, and follow what they say.
import { strict as assert } from "node:assert";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { all, listener, program, proxy, room, timed, until } from "./support.mjs";

const NO_ANSWER_MS = 90_000; // as set_names.c has it
const portOf = (endpoint) => endpoint.slice(endpoint.lastIndexOf(":") + 1);
const named = (name, endpoint) => `tcp://${name}:${portOf(endpoint)}`;

/** Says which names the programs of a test find, and what they find, as in a table of hosts; `-`: no answer. Also later, anew. */
function setNames(here, ...lines) {
  const path = (here.env.SET_NAMES_FILE ??= join(here.folder(), "names"));
  here.env.LD_PRELOAD = program("set_names.so");
  writeFileSync(path, lines.map((line) => `${line}\n`).join(""));
}

const ASK = `
  import { lookup } from "node:dns/promises";
  import { Client } from "lanemq";
  const client = new Client({ broker: process.argv[2], log() {} });
  console.log((await client.submit("shout", "a")).text);
  await lookup("known.test");
  console.log("looked up");
  await client.close();
`;
const SERVE = `
  import { Worker } from "lanemq";
  const worker = new Worker({ shout: (job) => job.text.toUpperCase() }, { broker: process.argv[2], log() {} });
  process.once("SIGTERM", () => worker.leave());
  worker.start();
  await worker.welcomed();
  console.log("welcome");
  await worker.wait();
`;

test("names whose server does not answer are left after a second each, and hold nothing up", async (t) => {
  const here = await room(t);
  setNames(here, "- dead.test", "- gone.test", "127.0.0.1 known.test");
  const brokers = (endpoint) => ["dead.test", "gone.test", "known.test"].map((name) => named(name, endpoint)).join();
  const took = await timed(async () => {
    const worker = here.script(SERVE, brokers(here.broker.workers));
    const client = here.script(ASK, brokers(here.broker.clients));
    assert.equal(await worker.line(), "welcome");
    assert.deepEqual([await client.line(), await client.line()], ["A", "looked up"]);
    assert.equal(await client.wait(), 0);
    worker.signal("SIGTERM");
    assert.equal(await worker.wait(), 0);
  });
  assert(took > 1900 && took < NO_ANSWER_MS - 5000, `${took} ms`);
});

for (const [name, end] of [
  ["exit()", "process.exit(7)"],
  ["close()", "process.exitCode = 7; worker.leave(); await Promise.all([worker.wait(), client.close()])"],
]) {
  test(`a look-up without an answer does not keep a program from ending by ${name}`, async (t) => {
    const here = await room(t);
    setNames(here, "- dead.test");
    const program = here.script(`
      import { Client, Worker } from "lanemq";
      let both = 2;
      const log = () => --both === 0 && process.emit("looks");
      const options = { broker: [process.argv[2], "tcp://127.0.0.1:1"], log };
      const client = new Client(options);
      client.submit("s").catch(() => {});
      const worker = new Worker({ s: () => "" }, options);
      worker.start();
      process.once("looks", async () => { ${end} });
    `, named("dead.test", here.broker.clients));
    const took = await timed(async () => assert.equal(await program.wait(), 7, program.errors));
    assert(took < NO_ANSWER_MS - 5000, `${took} ms`);
  });
}

test("all addresses of a name are tried", async (t) => {
  const here = await room(t);
  // Nobody listens at the first two, and at the third one somebody says nothing.
  setNames(here, "127.0.0.2 many.test", "::1 many.test", "127.0.0.3 many.test", "127.0.0.1 many.test", "127.0.0.1 known.test");
  for (const endpoint of Object.values(here.broker)) await listener(here, portOf(endpoint), "127.0.0.3");
  const worker = here.script(SERVE, named("many.test", here.broker.workers));
  const client = here.script(ASK, named("many.test", here.broker.clients));
  assert.equal(await worker.line(), "welcome");
  assert.equal(await client.line(), "A");
});

/** A room, and what leads to its broker's endpoint for workers from the same port of another address, where that is free. */
async function roomAlsoAt(t, address) {
  for (;;) {
    const here = await room(t);
    try {
      return [here, await proxy(here, here.broker.workers, portOf(here.broker.workers), address)];
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
}

test("an address that changes is followed", async (t) => {
  const [here, old] = await roomAlsoAt(t, "127.0.0.2");
  setNames(here, "127.0.0.2 moves.test");
  const worker = here.script(SERVE, named("moves.test", here.broker.workers));
  assert.equal(await worker.line(), "welcome");
  setNames(here, "127.0.0.1 moves.test");
  old.close();
  await until(async () => (await here.stats()).counters.workers_returned === 1, "the worker's return");
});

test("a name that nobody knows yet is found when it is there", async (t) => {
  const here = await room(t);
  setNames(here, "! later.test");
  const lost = here.script(`
    import { Client } from "lanemq";
    const client = new Client({ broker: process.argv[2], log: (level, message) => console.log(level, message) });
    console.log((await client.ping()).shards);
    await client.close();
  `, named("later.test", here.broker.clients));
  assert.equal(await lost.line(), "warning the broker's name later.test has no address: ENOTFOUND");
  setNames(here, "127.0.0.1 later.test");
  assert.equal((await all(lost.lines)).at(-1), "{}");
  assert.equal(await lost.wait(), 0);
});
