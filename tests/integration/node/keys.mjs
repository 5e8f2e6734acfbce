// SPDX-License-Identifier: Apache-2.0
// Each op with each key, as key_table.json says. LANEMQ_PAIRS has the pairs of keys by name; the keys of LANEMQ_TAKEN_BACK,
// files, are removed and the broker, LANEMQ_BROKER_PID, reads its folder again.
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { after, test } from "node:test";

import { curveKeyPair, Dealer } from "zeromq";

import { open, Peer } from "./peer.mjs";

const table = JSON.parse(readFileSync(new URL("../key_table.json", import.meta.url), "utf8"));
const pairs = JSON.parse(process.env.LANEMQ_PAIRS);
const endpoints = { clients: process.env.LANEMQ_CLIENTS, workers: process.env.LANEMQ_WORKERS };
const takenBack = JSON.parse(process.env.LANEMQ_TAKEN_BACK);
after(() => open.forEach((socket) => socket.close()));

function peerOf(who, door) {
  if (who === "nobody") return new Peer(Dealer, endpoints[door]);
  if (who !== "wrong broker") return new Peer(Dealer, endpoints[door], pairs[who]);
  return new Peer(Dealer, endpoints[door], pairs[door === "clients" ? "alice" : "work"], { broker: curveKeyPair().publicKey });
}

/** What came of an op, in the table's words. */
async function answer(peer, expected) {
  if (expected === "nothing") return (await peer.hearsNothing(50)) ? "nothing" : "something";
  let said;
  do said = await peer.hear();
  while (said.op === "heartbeat");
  const { code, jobs = [said.fields] } = said.fields;
  const states = new Set(jobs.map((job) => job.state).filter((state) => state !== undefined));
  if (code === "not_found" || (states.size === 1 && states.has("unknown"))) return "unknown";
  return code ?? (said.op === "welcome" ? "welcome" : "done");
}

const owner = peerOf("alice", "clients");
let number = 0;

/** The fields, with a job of the owner that waits for $ID. */
async function filled(fields, makes) {
  const text = JSON.stringify(fields);
  if (makes && text.includes("$ID")) {
    await owner.say("submit", { service: "echo", id: `waits-${++number}`, reply: "accepted" }, Buffer.alloc(0));
    await owner.hear("accepted");
  }
  return JSON.parse(text.replaceAll("$ID", `waits-${number}`));
}

async function saysAll(peer, door) {
  for (const [op, fields] of table[door].ops) peer.say(op, await filled(fields, false)).catch(() => {});
}

test("each op with each key comes to what the table says", async () => {
  const before = [["gone", "clients"], ["lost", "workers"]].map(([who, door]) => [peerOf(who, door), door]);
  await before[0][0].ask("submit", { service: "echo", reply: "accepted" }, Buffer.alloc(0));
  await before[1][0].ask("ready", { services: ["none"], capacity: 1 });
  for (const path of takenBack) rmSync(path);
  process.kill(Number(process.env.LANEMQ_BROKER_PID), "SIGHUP");
  for (const [peer] of before) assert.equal(await answer(peer), "unauthorized");

  for (const door of ["clients", "workers"]) {
    const { ops, peers, shut } = table[door];
    const opened = peers.map((who) => peerOf(who, door));
    for (const [op, fields, words] of ops)
      for (const [at, expected] of words.split(" ").entries()) {
        await opened[at].say(op, await filled(fields, true));
        assert.equal(await answer(opened[at], expected), expected, `${door}: ${op} ${JSON.stringify(fields)} of ${peers[at]}`);
      }
    const outside = shut.map((who) => peerOf(who, door));
    for (const peer of outside) await saysAll(peer, door);
    for (const [at, quiet] of (await Promise.all(outside.map((peer) => peer.hearsNothing(400)))).entries())
      assert.ok(quiet, `${door}: ${shut[at]} hears something`);
  }
  for (const [peer, door] of before) {
    await saysAll(peer, door);
    assert.ok(await peer.hearsNothing(200));
  }
  assert.equal((await owner.ask("ping", {})).op, "pong");
});
