// SPDX-License-Identifier: Apache-2.0
// Clients and workers that are given the endpoints of several brokers.
import { strict as assert } from "node:assert";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import * as lanemq from "../../../client/node/lib/index.js";
import { PATIENCE, Room, STEADY, freeEndpoint, held, room, until } from "./support.mjs";

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

test("another broker goes on", async (t) => {
  const first = new Room(t);
  const store = ["--store", `sqlite:${first.folder()}/jobs.db`, ...STEADY];
  await first.start(...store);
  const second = new Room(t);
  second.broker = { clients: await freeEndpoint(), workers: await freeEndpoint(), admin: await freeEndpoint() };
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
  for (const broker of [`${here.broker.clients},nowhere`, `${here.broker.clients},`, [here.broker.clients, ""]]) {
    assert.throws(() => new lanemq.Client({ broker }), TypeError);
  }
});
