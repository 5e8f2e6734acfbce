// SPDX-License-Identifier: Apache-2.0
// Node talks to the broker whose endpoints are in LANEMQ_CLIENTS and LANEMQ_WORKERS.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { decode } from "@msgpack/msgpack";
import { Dealer, Request } from "zeromq";

import { until } from "../until.mjs";
import { open, Peer } from "./peer.mjs";

const client = (Kind = Dealer) => new Peer(Kind, process.env.LANEMQ_CLIENTS, process.env.LANEMQ_CLIENT_KEYS);

/** A worker that answers each job by what `work` makes of it, until it is stopped. */
class Worker extends Peer {
  constructor(services, capacity, work) {
    super(Dealer, process.env.LANEMQ_WORKERS, process.env.LANEMQ_WORKER_KEYS);
    this.jobs = [];
    this.acked = 0;
    this.outcomes = new Map();
    this.say("ready", { services, capacity });
    this.done = this.run(work);
  }
  async run(work) {
    for await (const [header, ...rest] of this.socket) {
      const [, op, fields, inside] = decode(header);
      if (op === "welcome") {
        this.welcome = fields;
        this.timer = setInterval(() => this.heartbeat(), fields.heartbeat_ms / 2);
      } else if (op === "job") {
        const { job, attempt } = fields;
        assert.ok(Number.isSafeInteger(job));
        this.jobs.push(fields);
        const [outcome, extra, body] = work(fields, Buffer.from(inside ?? rest[0] ?? []));
        this.outcomes.set(job, attempt);
        this.say(outcome, { job, attempt, ...extra }, body, { inside: body.length <= 4096 });
      } else if (op === "acked") {
        this.acked += fields.jobs.length;
        for (const [job] of fields.jobs) this.outcomes.delete(job);
      }
    }
  }
  heartbeat() {
    return this.say("heartbeat", { jobs: [...this.outcomes] });
  }
}

let worker;
before(() => {
  worker = new Worker(["echo", "fail"], 16, (fields, body) =>
    fields.service === "echo"
      ? ["result", { usage: { input_tokens: 5, output_tokens: 2 ** 40 } }, body]
      : ["error", { class: "permanent", code: "418", message: "a teapot" }, Buffer.from("short and stout")],
  );
});
after(async () => {
  clearInterval(worker.timer);
  await worker.say("bye", {});
  for (const socket of open) socket.close();
});

test("a REQ client gets its answer", async () => {
  const answer = await client(Request).ask("submit", { service: "echo", lane: "critical" }, Buffer.from("hello"));

  assert.equal(answer.op, "result");
  assert.equal(answer.body.toString(), "hello");
  assert.equal(answer.fields.lane, "critical");
  assert.deepEqual(answer.fields.usage, { input_tokens: 5, output_tokens: 2 ** 40 });
});

test("a DEALER client tells many answers apart by ref", async () => {
  const peer = client();
  const refs = Array.from({ length: 100 }, (_, i) => (i % 2 ? i : `text ${i}`));
  for (const ref of refs) peer.say("submit", { service: "echo", ref }, Buffer.from(`body ${ref}`));

  const answers = new Map();
  for (const _ of refs) {
    const { fields, body } = await peer.hear("result");
    answers.set(fields.ref, body.toString());
  }

  for (const ref of refs) assert.equal(answers.get(ref), `body ${ref}`);
});

test("bodies travel inside the header and in a frame of their own", async () => {
  for (const size of [0, 1, 4096, 4097, 1 << 20])
    for (const inside of [true, false]) {
      const body = Buffer.alloc(size, "x");
      const answer = await client().ask("submit", { service: "echo" }, body, { inside });
      assert.equal(answer.op, "result");
      assert.ok(answer.body.equals(body));
      if (size > 0) assert.equal(answer.inside, size <= 4096);
    }
});

test("fields of the client reach the worker", async () => {
  const meta = { list: [1, 1.5, null, true], name: "é" };
  await client().ask("submit", { service: "echo", id: "node-meta", meta, "x-tag": [1, "two"], model: "m" }, Buffer.alloc(0));

  const job = worker.jobs.find((fields) => fields.id === "node-meta");
  assert.deepEqual([job.meta, job["x-tag"], job.model, job.attempt], [meta, [1, "two"], "m", 1]);
});

test("accepted, then the result; and the result again by fetch", async () => {
  const peer = client();
  await peer.say("submit", { service: "echo", id: "node-both", reply: "both" }, Buffer.from("x"));
  const accepted = await peer.hear("accepted");
  assert.deepEqual([accepted.fields.id, accepted.fields.durable ?? false], ["node-both", false]);
  assert.equal((await peer.hear("result")).body.toString(), "x");

  const fetched = await client(Request).ask("fetch", { id: "node-both", wait_ms: 1000 });
  assert.equal(fetched.body.toString(), "x");
  assert.equal((await client().ask("status", { id: "node-both" })).fields.state, "succeeded");
});

test("a failure carries code, message and the upstream's body", async () => {
  const answer = await client().ask("submit", { service: "fail", ref: 1 }, Buffer.from("tea"));

  assert.equal(answer.op, "error");
  assert.equal(answer.fields.code, "upstream_rejected");
  assert.match(answer.fields.message, /418.*a teapot/);
  assert.equal(answer.body.toString(), "short and stout");
});

test("a deadline comes as an error", async () => {
  const answer = await client(Request).ask("submit", { service: "nobody", timeout_ms: 50 }, Buffer.alloc(0));

  assert.deepEqual([answer.op, answer.fields.code], ["error", "deadline"]);
});

test("nonsense is refused and the connection lives on", async () => {
  const peer = client();
  await peer.socket.send("garbage");
  assert.equal((await peer.hear("error")).fields.code, "bad_request");
  assert.equal((await peer.ask("submit", { service: 5, ref: "r" })).fields.ref, "r");
  assert.equal((await peer.ask("ping", {})).op, "pong");
});

test("outcomes are acknowledged, and none is missing", async () => {
  await until(() => worker.acked === worker.jobs.length, "an answer to each outcome");

  assert.equal(worker.acked, worker.jobs.length);
  assert.equal(worker.outcomes.size, 0);
  const stats = await client().ask("stats", {});
  assert.equal(stats.fields.workers.lost, 0);
});
