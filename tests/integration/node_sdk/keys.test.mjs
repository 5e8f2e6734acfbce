// SPDX-License-Identifier: Apache-2.0
// The package at a broker that asks for keys.
import { strict as assert } from "node:assert";
import { mkdirSync, writeFileSync } from "node:fs";
import { test } from "node:test";

import { UnauthorizedError } from "../../../client/node/lib/index.js";
import { Room, STEADY, run } from "./support.mjs";

async function withKeys(t) {
  const here = new Room(t);
  const folder = here.folder();
  const keygen = (...words) => run("lanemq", ["keygen", ...words], { cwd: folder }).stdout;
  const brokerKey = keygen("--broker").trim();
  mkdirSync(`${folder}/keys.d`);
  for (const [name, role] of [["alice", "client"], ["hands", "worker"], ["mallory", "client"]]) {
    const text = keygen(name, "--role", role);
    if (name !== "mallory") writeFileSync(`${folder}/keys.d/${name}.toml`, text);
  }
  await here.start("--secret-key", `file:${folder}/broker.key`, "--keys-folder", `${folder}/keys.d`, ...STEADY);
  return { here, key: (name) => ({ brokerKey, secretKey: `file:${folder}/${name}.key` }) };
}

test("both ends show their keys", async (t) => {
  const { here, key } = await withKeys(t);
  await here.serve({ s: (job) => job.text.toUpperCase() }, key("hands"));
  assert.equal((await here.connect(key("alice")).submit("s", "x")).text, "X");
});

test("keys come from the environment", async (t) => {
  const { here, key } = await withKeys(t);
  const [hands, alice] = [key("hands"), key("alice")];
  Object.assign(process.env, {
    LANEMQ_BROKER_KEY: alice.brokerKey, LANEMQ_CLIENT_KEY: alice.secretKey, LANEMQ_WORKER_BROKER_KEY: hands.brokerKey,
    LANEMQ_WORKER_SECRET_KEY: hands.secretKey,
  });
  t.after(() => {
    for (const name of Object.keys(process.env)) if (/^LANEMQ_\w+_KEY$/.test(name)) delete process.env[name];
  });
  const program = here.script(`
    import { Client, Worker } from "lanemq";
    const served = new Worker({ s: (job) => job.text.toUpperCase() });
    served.start();
    const client = new Client();
    console.log((await client.submit("s", "x")).text);
    await client.close();
    served.drain();
    console.log(await served.wait());
  `);
  assert.deepEqual([await program.line(), await program.line(), await program.wait()], ["X", "true", 0]);
});

test("a key that the broker does not know is unauthorized", async (t) => {
  const { here, key } = await withKeys(t);
  for (const [options, why] of [[key("mallory"), /does not take this key/], [{}, /asks for keys/]]) {
    await assert.rejects(here.connect(options).submit("s", "x"), (error) => error instanceof UnauthorizedError && why.test(error.message));
  }
});

test("keys and endpoints with names go together", async (t) => {
  const { here, key } = await withKeys(t);
  const named = (endpoint) => endpoint.replace("127.0.0.1", "localhost");
  await here.serve({ s: (job) => job.text.toUpperCase() }, { ...key("hands"), broker: named(here.broker.workers) });
  const broker = named(here.broker.clients);
  assert.equal((await here.connect({ ...key("alice"), broker }).submit("s", "x")).text, "X");
  await assert.rejects(here.connect({ ...key("mallory"), broker }).submit("s", "x"), UnauthorizedError);
});

test("a broker without keys is told", async (t) => {
  const { key } = await withKeys(t);
  const open = await new Room(t).start(...STEADY);
  await assert.rejects(open.connect(key("alice")).submit("s", "x"), /asks for no keys/);
});
