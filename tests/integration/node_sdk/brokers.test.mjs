// SPDX-License-Identifier: Apache-2.0
// Clients and workers that are given the endpoints of several brokers.
import { strict as assert } from "node:assert";
import { once } from "node:events";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { test } from "node:test";

import * as lanemq from "../../../client/node/lib/index.js";
import { PATIENCE, Room, STEADY, fixedEndpoints, freeEndpoint, held, room, until } from "./support.mjs";

const shout = (job) => job.text.toUpperCase();

test("an endpoint at which nobody listens costs no time", async (t) => {
  const here = await room(t);
  await here.serve({ shout }, { broker: [await freeEndpoint(), here.broker.workers] });
  const client = here.connect({ broker: `${await freeEndpoint()}, ${here.broker.clients}` });
  const began = performance.now();
  assert.equal((await client.submit("shout", "a")).text, "A");
  assert(performance.now() - began < 900);
});

test("one that says nothing is left after a second", async (t) => {
  const here = await room(t);
  const sockets = [];
  const mute = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
  await once(mute, "listening");
  here.after(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  const silent = `tcp://127.0.0.1:${mute.address().port}`;
  await here.serve({ shout }, { broker: [silent, here.broker.workers] });
  const client = here.connect({ broker: [silent, here.broker.clients] });
  const began = performance.now();
  assert.equal((await client.submit("shout", "a")).text, "A");
  const took = performance.now() - began;
  assert(took > 900 && took < PATIENCE / 2, `${took} ms`);
});

test("who was given one endpoint goes where its broker says", async (t) => {
  const here = await room(t);
  await here.serve({ shout });
  const require = createRequire(new URL("../../../client/node/package.json", import.meta.url));
  const { Router } = require("zeromq");
  const { decode, encode } = require("@msgpack/msgpack");
  const door = new Router({ linger: 0 });
  await door.bind("tcp://127.0.0.1:*");
  here.after(() => door.close());
  // A broker that may not own its store any more.
  (async () => {
    for await (const [peer, header] of door) {
      const [, op, fields] = decode(header);
      const refusal = { ref: fields.ref, code: "not_owner", retry_after_ms: 60_000, endpoints: [here.broker.clients] };
      if (op === "submit") await door.send([peer, encode(["LMQ1", "error", refusal])]);
    }
  })().catch(() => {}); // it is closed
  const client = here.connect({ broker: door.lastEndpoint });
  assert.equal((await client.submit("shout", "a", { whenFull: "throw" })).text, "A");
});

test("another broker goes on", async (t) => {
  const first = new Room(t);
  const store = ["--store", `sqlite:${first.folder()}/jobs.db`, ...STEADY];
  await first.start(...store);
  const second = new Room(t);
  second.broker = await fixedEndpoints();
  const both = (name) => [first.broker[name], second.broker[name]];
  const handler = held();
  await first.serve({ held: handler }, { broker: both("workers") });
  const client = first.connect({ broker: both("clients") });
  const answer = client.submit("held", "x", { id: "a", durable: true });
  await until(() => handler.came.length > 0, "the call");
  await first.child.kill();
  await second.start(...store);
  handler.go();
  const { text, attempts } = await answer;
  assert.deepEqual([text, attempts, handler.came], ["x", 1, ["a"]]);
});

test("what is no endpoint is said at once", async (t) => {
  const here = await room(t);
  const at = here.broker.clients;
  const ports = Array.from({ length: 17 }, (_, n) => `tcp://127.0.0.1:${1000 + n}`);
  for (const [broker, message] of [
    [`${at},nowhere`, /nowhere is no endpoint/], [`${at},`, /empty entry/], [[at, ""], /empty entry/], [ports, /with 17 endpoints/],
    [[], /with no endpoint/], [5, /give 1 to 16/], [[1], /give 1 to 16/], ["tcp://127.0.0.1:99999", /port/],
    [`${at},tcp://127.0.0.1:0`, /port/], ["tcp://127.0.0.1", /port/],
  ]) {
    assert.throws(() => new lanemq.Client({ broker }), { name: "TypeError", message });
  }
  for (const broker of [`${at},`, [], 5, "tcp://127.0.0.1:0"]) assert.throws(() => new lanemq.Worker({ shout }, { broker }), TypeError);
});

test("a client is made of endpoints alone, and of no option that there is none of", async (t) => {
  const here = await room(t);
  await here.serve({ shout });
  for (const broker of [here.broker.clients, [here.broker.clients]]) {
    const client = new lanemq.Client(broker);
    here.after(() => client.close());
    assert.equal((await client.submit("shout", "a")).text, "A");
  }
  const wrong = { brokers: here.broker.clients };
  assert.throws(() => new lanemq.Client(wrong), { name: "TypeError", message: /no option brokers/ });
  assert.throws(() => new lanemq.Worker({ shout }, wrong), { name: "TypeError", message: /no option brokers/ });
  for (const options of [5, null]) assert.throws(() => new lanemq.Client(options), TypeError);
  for (const name of ["pendingMax", "pendingBytesMax"]) assert.throws(() => new lanemq.Client({ [name]: 0 }), RangeError);
});
