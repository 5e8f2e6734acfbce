// SPDX-License-Identifier: Apache-2.0
// A client that is given the endpoint of one shard, and workers that serve one each.
import { strict as assert } from "node:assert";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import * as lanemq from "../../../client/node/lib/index.js";
import { Room, STEADY, all, fixedEndpoints, texts, until } from "./support.mjs";

const RULES = { acme: 'match = { tenant = "acme*" }', chat: 'match = { service = "chat" }', rest: "" };

/** A room for each shard, with its broker. */
async function shards(t) {
  const names = Object.keys(RULES);
  const rooms = Object.fromEntries(names.map((name) => [name, new Room(t)]));
  for (const room of Object.values(rooms)) room.broker = await fixedEndpoints();
  const folder = rooms.rest.folder();
  const tables = names.map((name) => {
    const { clients, workers } = rooms[name].broker;
    return `[[shard]]\nname = "${name}"\n${RULES[name]}\nclients = ["${clients}"]\nworkers = ["${workers}"]\n`;
  });
  const config = join(folder, "broker.toml");
  writeFileSync(config, `${tables.join("\n")}\n[clients.alice]\ntenant = "acme-eu"\n`);
  const store = (name) => `sqlite:${folder}/${name}.db`;
  for (const name of names) await rooms[name].start("--config", config, "--shard", name, "--store", store(name), ...STEADY);
  return rooms;
}

/** A worker that says whose it is. */
const work = (rooms, name) => rooms[name].serve({ chat: (job) => `${name} ${job.text}`, echo: (job) => `${name} ${job.text}` });

const sum = async (room, figure) => Object.values((await room.stats()).lanes).reduce((all, lane) => all + lane[figure], 0);
const each = async (rooms, figure) => Promise.all(Object.keys(RULES).map((name) => sum(rooms[name], figure)));

test("a job goes to its shard", async (t) => {
  const rooms = await shards(t);
  for (const name of Object.keys(RULES)) await work(rooms, name);
  const client = rooms.rest.connect();
  for (let round = 0; round < 3; ++round) {
    assert.equal((await client.submit("chat", "a")).text, "chat a");
    assert.equal((await client.submit("echo", "b")).text, "rest b");
    assert.equal((await client.submit("chat", "c", { client: "alice" })).text, "acme c");
  }
  assert.deepEqual(await each(rooms, "accepted"), [3, 3, 3]);
  assert.equal((await each(rooms, "sent_on")).reduce((one, other) => one + other), 2, "each service is learned once");
  const said = [];
  for await (const answer of client.map("chat", Array.from({ length: 50 }, (_, n) => `${n}`))) said.push(answer.text);
  assert.deepEqual(said, Array.from({ length: 50 }, (_, n) => `chat ${n}`));
});

test("what is asked about a job goes where it is", async (t) => {
  const rooms = await shards(t);
  const [first, other] = [rooms.rest.connect(), rooms.acme.connect()];
  await first.leave("chat", "x", { id: "left" });
  for (const client of [first, other]) assert.equal((await client.status("left")).state, "queued");
  assert.equal((await other.status("nobodys")).state, "unknown");
  await assert.rejects(other.fetch("nobodys", { waitMs: 1000 }), lanemq.NotFoundError);
  await work(rooms, "chat");
  assert.equal((await rooms.acme.connect().fetch("left")).text, "chat x");
  await first.leave("chat", "y", { id: "cancelled", delayMs: 60_000 });
  assert.equal((await rooms.rest.connect().cancel("cancelled")).state, "cancelled");
});

test("a pong says which shards there are", async (t) => {
  const rooms = await shards(t);
  const pong = await rooms.chat.connect().ping();
  assert.equal(pong.shard, "chat");
  assert.deepEqual(pong.shards, Object.fromEntries(Object.keys(RULES).map((name) => [name, [rooms[name].broker.clients]])));
});

test("a stream goes to its shard, and is followed there", async (t) => {
  const rooms = await shards(t);
  await rooms.chat.serve({
    chat: async (job) => {
      for (const word of ["a", "b"]) await job.chunk(word);
    },
  });
  const read = async (stream) => {
    let text = "";
    for await (const piece of stream) text += piece;
    return text;
  };
  assert.equal(await read(rooms.rest.connect().stream("chat", "", { id: "s" })), "ab");
  assert.equal(await read(rooms.acme.connect().follow("s")), "ab");
});

test("a shard that is away is waited for alone", async (t) => {
  const rooms = await shards(t);
  await work(rooms, "rest");
  const client = rooms.rest.connect({ log: () => {} });
  await client.leave("chat", "x", { id: "chats" });
  await rooms.chat.child.kill();
  assert.equal((await client.submit("echo", "x")).text, "rest x");
  await client.leave("echo", "x", { id: "here" });
  const other = rooms.acme.connect({ log: () => {} });
  await assert.rejects(other.status("nobodys"), /no answer from shard "chat"/);
  assert.equal((await other.status("here")).id, "here");
  const waits = client.submit("chat", "y");
  await rooms.chat.start(...rooms.chat.words);
  await work(rooms, "chat");
  assert.equal((await waits).text, "chat y");
});

test("closing cancels at all shards", async (t) => {
  const rooms = await shards(t);
  const client = new lanemq.Client({ broker: rooms.rest.broker.clients });
  const both = [client.submit("chat", "x", { id: "chats" }), client.submit("echo", "x", { id: "echos" })];
  const ended = Promise.allSettled(both);
  await until(async () => (await each(rooms, "accepted")).join() === "0,1,1", "both jobs");
  await client.close();
  for (const { reason } of await ended) assert(reason instanceof lanemq.CancelledError);
  assert.deepEqual([(await rooms.chat.jobs()).length, (await rooms.rest.jobs()).length], [0, 0]);
});

// A client that is given one endpoint of each shard stays with the shard that it found first, also while that is away.
const listOf = (rooms) => ["rest", "acme", "chat"].map((name) => rooms[name].broker.clients);
const quiet = { log: () => {} };

/** A place for what the package tells people, and a wait until that is that it connects again since the broker says nothing: by then
 *  it would have gone to another one. */
function noticing() {
  let told = false;
  const log = (_, text) => (told ||= text.includes("connecting again"));
  return { log, noticed: () => until(() => told, "that it has noticed") };
}

/** Has a stream's broker in trouble in its midst. */
async function stream(t, trouble) {
  const rooms = await shards(t);
  let more;
  const wait = new Promise((resolve) => (more = resolve));
  const word = (number) => `${number} `;
  const words = async (job) => {
    for (let number = 0; number < 40; ++number) await job.chunk(word(number));
    await wait;
    for (let number = 40; number < 80; ++number) await job.chunk(word(number));
  };
  await rooms.rest.serve({ words }, quiet);
  const { log, noticed } = noticing();
  const client = rooms.rest.connect({ broker: listOf(rooms), log });
  const pieces = client.stream("words")[Symbol.asyncIterator]();
  const read = [];
  while (read.length < 40) read.push(`${(await pieces.next()).value}`);
  const rest = pieces.next();
  rest.catch(() => {});
  await client.ping(); // behind what the broker is told of the pieces that were taken
  await trouble(rooms.rest, noticed);
  more();
  read.push(`${(await rest).value}`, ...texts(await all({ [Symbol.asyncIterator]: () => pieces })));
  assert.deepEqual(read, Array.from({ length: 80 }, (_, number) => word(number)));
}

test("a stream comes whole through a kill", (t) =>
  stream(t, async (rest, noticed) => {
    await rest.child.kill();
    await noticed();
    await rest.start(...rest.words);
    await until(async () => (await rest.stats()).workers.connected === 1, "the worker's return");
  }));

test("a stream comes whole through a stop", (t) =>
  stream(t, async (rest, noticed) => {
    rest.child.signal("SIGSTOP");
    await noticed();
    rest.child.signal("SIGCONT");
  }));

test("a watch goes on at the shard", async (t) => {
  const rooms = await shards(t);
  const { log, noticed } = noticing();
  const events = rooms.rest.connect({ broker: listOf(rooms), log }).watch({ service: "echo" })[Symbol.asyncIterator]();
  assert.equal((await events.next()).value.what, "watching");
  const again = events.next();
  let heard = false;
  again.then(() => (heard = true));
  await rooms.rest.child.kill();
  await noticed();
  assert(!heard, "no other shard is watched instead");
  await rooms.rest.start(...rooms.rest.words);
  const { value } = await again;
  assert.deepEqual([value.what, value.gap], ["watching", true]);
  const next = events.next();
  await rooms.rest.connect().leave("echo", "x", { id: "seen" });
  assert.deepEqual([(await next).value.what, (await next).value.id], ["accepted", "seen"]);
});

test("who waits for the end of a job waits for its shard", async (t) => {
  const rooms = await shards(t);
  for (const [id, stream] of [["left", false], ["streamed", true]]) {
    await rooms.rest.connect(quiet).leave("echo", "x", { id, stream, durable: true });
  }
  const { log, noticed } = noticing();
  const client = rooms.rest.connect({ broker: listOf(rooms), log });
  await client.leave("chat", "x"); // so that it knows of another shard
  await rooms.rest.child.kill();
  let ended = 0;
  const both = [client.fetch("left"), all(client.follow("streamed"))];
  for (const one of both) one.then(() => (ended += 1), () => (ended += 1));
  await assert.rejects(client.status("left"), /no answer from shard "rest" within 5/);
  await noticed();
  assert.equal(ended, 0);
  await rooms.rest.start(...rooms.rest.words);
  const echo = async (job) => (job.stream ? void (await job.chunk("streamed")) : job.body);
  await rooms.rest.serve({ echo }, quiet);
  const [answer, pieces] = await Promise.all(both);
  assert.deepEqual([answer.text, texts(pieces)], ["x", ["streamed"]]);
});
