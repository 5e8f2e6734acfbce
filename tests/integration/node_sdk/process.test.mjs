// SPDX-License-Identifier: Apache-2.0
// Programs that use the package and are interrupted, end or compute; workers that drain; connections that are cut.
import { strict as assert } from "node:assert";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import * as lanemq from "../../../client/node/lib/index.js";
import { CANCELLED_WITHIN, PATIENCE, STEADY, all, held, listener, proxy, room, texts, timed, until } from "./support.mjs";

const QUICK = ["--set", "heartbeat=100ms"];

const MAP = `
  import { Client } from "lanemq";
  const client = new Client();
  console.log("begins");
  for await (const answer of client.map("held", Array.from({ length: 1000 }, (_, n) => String(n)), { window: 64, progress: false }));
`;
const SUBMITS = `
  import { Client } from "lanemq";
  const client = new Client();
  console.log("begins");
  await Promise.all(Array.from({ length: 16 }, () => client.submit("held")));
`;
const STREAM = `
  import { Client } from "lanemq";
  const client = new Client();
  console.log("begins");
  for await (const piece of client.stream("held"));
`;

for (const [name, text, running, signal] of [
  ["Ctrl-C in a map", MAP, 8, "SIGINT"], ["Ctrl-C in submits", SUBMITS, 8, "SIGINT"], ["Ctrl-C in a stream", STREAM, 1, "SIGINT"],
  ["SIGTERM in a map", MAP, 8, "SIGTERM"],
]) {
  test(`${name} leaves no job`, async (t) => {
    const here = await room(t);
    await here.serve({ held: held() }, { capacity: 8 });
    const program = here.script(text);
    assert.equal(await program.line(), "begins");
    await here.running(running);
    const begun = performance.now();
    program.signal(signal);
    await here.noJobsWithin();
    assert(performance.now() - begun < CANCELLED_WITHIN);
    assert.equal(await program.wait(), signal);
  });
}

test("a program that listens to Ctrl-C by itself decides by itself", async (t) => {
  const here = await room(t);
  await here.serve({ held: held() });
  const program = here.script(`
    import { Client } from "lanemq";
    const client = new Client();
    process.on("SIGINT", async () => { await client.close(); console.log("closed"); process.exit(7); });
    client.submit("held").catch((error) => console.log(error.code));
  `);
  await here.running(1);
  program.signal("SIGINT");
  assert.deepEqual([await program.line(), await program.line(), await program.wait()], ["cancelled", "closed", 7]);
  assert.deepEqual(await here.jobs(), []);
});

for (const [name, end, code] of [["exit()", "process.exit(0)", 0], ["an error", "throw new Error('a mistake')", 1]]) {
  test(`a program that ends by ${name} cancels what it has open`, async (t) => {
    const here = await room(t);
    const handler = held();
    await here.serve({ s: (job) => (job.text === "0" ? job.body : handler(job)) }, { capacity: 8 });
    const program = here.script(`
      import { Client } from "lanemq";
      const client = new Client();
      client.stream("s", "x", { id: "stream" }).next();
      for await (const answer of client.map("s", Array.from({ length: 100 }, (_, n) => String(n)), { progress: false })) {
        console.log(answer.text);
        ${end};
      }
    `);
    assert.equal(await program.line(), "0");
    assert.equal(await program.wait(), code);
    await here.noJobsWithin();
    assert.equal((await here.connect().status("stream")).state, "cancelled");
  });
}

test("a program whose client is closed ends", async (t) => {
  const here = await room(t);
  await here.serve({ s: (job) => job.body });
  const program = here.script(`
    import { Client } from "lanemq";
    const client = new Client();
    console.log((await client.submit("s", "x")).text);
    await client.close();
  `);
  assert.deepEqual([await program.line(), await program.wait()], ["x", 0]);
});

test("where no broker is nothing is waited for long", async (t) => {
  const here = await room(t);
  await here.child.kill();
  const waits = { close: [], leave: [], interrupt: [] };
  for (let time = 0; time < 3; ++time) {
    const client = here.connect({ log: () => {} });
    const answer = assert.rejects(client.submit("s"), lanemq.CancelledError);
    const stream = client.stream("s");
    stream.next();
    await until(() => client.counters.sent >= 2, "what is said");
    waits.leave.push(await timed(() => stream.return()));
    waits.close.push(await timed(() => client.close()));
    await answer;
    const program = here.script(SUBMITS);
    assert.equal(await program.line(), "begins");
    program.signal("SIGINT");
    waits.interrupt.push(await timed(async () => assert.equal(await program.wait(), "SIGINT")));
  }
  for (const [name, times] of Object.entries(waits)) assert(Math.min(...times) < 2000, `${name}: ${times}`);
});

test("what was left goes on", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler }, { capacity: 8 });
  const program = here.script(`
    import { Client } from "lanemq";
    const client = new Client();
    await client.leave("held", "", { id: "left" });
    console.log("begins");
    await client.submit("held", "", { id: "submitted" });
  `);
  assert.equal(await program.line(), "begins");
  await here.running(2);
  program.signal("SIGINT");
  await program.wait();
  const client = here.connect();
  assert.equal((await client.status("submitted")).state, "cancelled");
  handler.go();
  assert.equal((await client.fetch("left")).text, "");
});

test("a client that is killed leaves nothing where it said so", async (t) => {
  const here = await room(t);
  await here.serve({ held: held() }, { capacity: 8 });
  const program = here.script(`
    import { Client } from "lanemq";
    await new Client().submit("held", "", { cancelWhenGone: true });
  `);
  await here.running(1);
  await program.kill();
  await here.noJobsWithin(CANCELLED_WITHIN + PATIENCE);
});

test("a client that computes for longer than a broker may be silent keeps its connection", async (t) => {
  const here = await room(t);
  await here.serve({ s: (job) => job.body });
  const program = here.script(`
    import { Client } from "lanemq";
    const client = new Client();
    const answer = client.submit("s", "x");
    await client.ping();
    for (const end = performance.now() + 3500; performance.now() < end; );
    console.log((await answer).text, client.counters.reconnected);
    await client.close();
  `);
  assert.equal(await program.line(), "x 0");
});

test("a map goes on though nobody reads how far it is", async (t) => {
  const here = await room(t);
  await here.serve({ s: (job) => job.body });
  const program = here.script(`
    import { Client } from "lanemq";
    process.stdin.once("data", async () => {
      const client = new Client();
      for await (const { text } of client.map("s", ["a", "b"], { progress: true })) console.log(text);
      await client.close();
    });
  `);
  await new Promise((resolve) => program.process.stderr.destroy().once("close", resolve));
  program.process.stdin.end("begins");
  assert.deepEqual([await program.line(), await program.line(), await program.wait()], ["a", "b", 0]);
});

// ---- workers

test("a handler that computes keeps its session, and sees that it is cancelled", async (t) => {
  const here = await room(t, ...QUICK);
  here.script(`
    import { worker } from "lanemq";
    await worker("compute", (job) => {
      const end = performance.now() + Number(job.text);
      while (performance.now() < end) if (job.cancelled) throw new Error("cancelled");
      return "computed";
    }).run();
  `);
  const client = here.connect();
  assert.equal((await client.submit("compute", "1500")).text, "computed");
  assert.equal((await client.submit("compute", "1500")).attempts, 1);
  await client.leave("compute", "3600000", { id: "doomed" });
  await here.running(1);
  await client.cancel("doomed");
  assert.equal((await client.submit("compute", "0")).text, "computed");
  assert.equal((await here.stats()).workers.lost, 0);
});

test("jobs that a loop does not come to go to others, and are not begun when it goes on", async (t) => {
  const here = await room(t);
  const program = here.script(`
    import { existsSync } from "node:fs";
    import { worker } from "lanemq";
    await worker("s", (job) => {
      console.log(job.id);
      while (job.text && !existsSync(job.text));
      return "stood still";
    }, { capacity: 4 }).run();
  `);
  await program.line();
  const gate = join(here.folder(), "gate");
  const client = here.connect();
  await client.leave("s", gate, { id: "computes" });
  assert.equal(await program.line(), "computes");
  const others = ["a", "b", "c"];
  for (const id of others) await client.leave("s", "", { id });
  await until(() => program.errors.includes("had not begun are handed back: 3"), "the word of the worker");
  await until(async () => (await here.stats()).workers.capacity === 1, "the places that are real");
  const idle = await here.serve({ s: () => "idle" });
  for (const id of others) {
    const { text, attempts } = await client.fetch(id);
    assert.deepEqual([text, attempts], ["idle", 1]);
  }
  idle.leave();
  await idle.wait();
  writeFileSync(gate, "");
  assert.equal((await client.fetch("computes")).text, "stood still");
  await until(async () => (await here.stats()).workers.capacity === 4, "all places");
  await until(() => program.errors.includes("loop goes on"), "the word that it goes on");
  await client.submit("s", "", { id: "later" });
  assert.equal(await program.line(), "later"); // none of the others in between
});

const DRAINED = `
  import { worker } from "lanemq";
  const slow = worker("slow", async (job) => {
    console.log("begins");
    await new Promise((resolve) => { setTimeout(resolve, Number(job.text)).unref(); job.signal.addEventListener("abort", resolve); });
    return job.cancelled ? "cancelled" : "finished";
  }, { capacity: 2, drainTimeoutMs: Number(process.argv[2]) });
  process.exitCode = (await slow.run()) ? 0 : 3;
`;

test("TERM finishes what runs, and ends with 0", async (t) => {
  const here = await room(t, ...QUICK);
  const program = here.script(DRAINED, "20000");
  assert.match(await program.line(), /^ready name=\S+ services=slow capacity=2$/);
  const client = here.connect();
  for (const id of ["a", "b", "c"]) await client.leave("slow", "1000", { id });
  assert.deepEqual([await program.line(), await program.line()], ["begins", "begins"]);
  program.signal("SIGTERM");
  assert.equal(await program.wait(), 0);
  for (const id of ["a", "b"]) assert.equal((await client.fetch(id)).text, "finished");
  assert.equal((await client.status("c")).state, "queued");
  assert.equal((await here.stats()).workers.lost, 0);
});

test("what does not finish in time goes to others at no cost", async (t) => {
  const here = await room(t, ...QUICK);
  const program = here.script(DRAINED, "200");
  await program.line();
  const client = here.connect();
  await client.leave("slow", "60000", { id: "a" });
  assert.equal(await program.line(), "begins");
  program.signal("SIGTERM");
  assert.equal(await program.wait(), 3);
  await here.serve({ slow: (job) => `attempt ${job.attempt}` });
  assert.equal((await client.fetch("a")).attempts, 1);
});

test("a second signal ends it at once", async (t) => {
  const here = await room(t, ...QUICK);
  const program = here.script(DRAINED, "60000");
  await program.line();
  await here.connect().leave("slow", "60000", { id: "a" });
  assert.equal(await program.line(), "begins");
  program.signal("SIGTERM");
  await until(async () => (await here.stats()).workers.capacity === 1, "the drain");
  program.signal("SIGTERM");
  assert.equal(await program.wait(), 3);
});

test("an operator's drain and resume", async (t) => {
  const here = await room(t, ...QUICK);
  await here.serve({ s: (job) => job.text.toUpperCase() }, { name: "drained" });
  const client = here.connect();
  await here.asked("drain", "drained");
  await client.leave("s", "x", { id: "waits" });
  assert.equal((await client.status("waits")).state, "queued");
  await here.asked("resume", "worker", "drained");
  assert.equal((await client.fetch("waits")).text, "X");
});

test("a worker serves though nobody reads what it says", async (t) => {
  const here = await room(t);
  const program = here.script(`
    import { worker } from "lanemq";
    process.stdin.once("data", () => worker("s", (job) => {
      if (job.text === "fails") throw new Error("a mistake");
      return "here";
    }).run());
  `);
  const { stdin, stdout, stderr } = program.process;
  for (const stream of [stdout, stderr]) await new Promise((resolve) => stream.destroy().once("close", resolve));
  stdin.end("begins");
  const client = here.connect();
  await assert.rejects(client.submit("s", "fails", { attemptsMax: 1 }), lanemq.UpstreamFailedError);
  assert.equal((await client.submit("s")).text, "here");
  program.signal("SIGTERM");
  assert.equal(await program.wait(), 0);
});

test("a program that stands in an argument of node may be a worker", async (t) => {
  const here = await room(t);
  const program = here.node("--max-old-space-size=256", "--input-type=module", "-e", `
    import { worker } from "lanemq";
    await worker("s", (job) => job.text.toUpperCase()).run();
  `);
  assert.match(await program.line(), /^ready /, program.errors);
  assert.equal((await here.connect().submit("s", "x")).text, "X");
  program.signal("SIGTERM");
  assert.equal(await program.wait(), 0);
});

test("a worker that names an unknown lane ends with the reason", async (t) => {
  const here = await room(t);
  const worker = await here.serve({ s: () => "" }, { lanes: ["nowhere"], welcome: false, log: () => {} });
  await assert.rejects(worker.wait(), (error) => error instanceof lanemq.WorkerRefusedError && error.message.includes("nowhere"));
});

test("what no worker can be is refused", () => {
  for (const [services, options, fault] of [
    [{}, {}, /1 to 256 services/], [{ s: () => "" }, { capacity: 0 }, /capacity is 0/], [{ s: () => "" }, { capacity: 1.5 }, /capacity is 1.5/],
    [{ "": () => "" }, {}, /service has 0 bytes/], [{ s: () => "" }, { drainTimeoutMs: -1 }, /drainTimeoutMs is -1/],
  ]) {
    assert.throws(() => new lanemq.Worker(services, options), fault);
  }
});

test("a worker whose endpoint is none says so", async (t) => {
  const here = await room(t);
  const worker = await here.serve({ s: () => "" }, { broker: "nowhere", welcome: false, log: () => {} });
  await assert.rejects(worker.wait(), /no endpoint/);
});

// A message of more than 128 bytes waits in each socket. Node takes down the threads while libzmq still gives such messages back.
for (const [name, end, code] of [
  ["exit()", "process.exit(7)", 7], ["an error", "throw new Error('a mistake')", 1],
  ["leaving", "process.exitCode = 7; workers.forEach((worker) => worker.leave())", 7],
]) {
  test(`a program ends by ${name} while its workers have no broker`, async (t) => {
    const here = await room(t);
    const silent = await listener(here);
    const program = here.script(`
      import { Worker } from "lanemq";
      let waiting = 4;
      const log = (level, message) => message.includes("connecting again") && --waiting === 0 && setImmediate(() => { ${end} });
      const options = { broker: process.argv[2], log };
      const workers = Array.from({ length: waiting }, () => new Worker({ [process.argv[3]]: () => "" }, options));
      workers.forEach((worker) => worker.start());
    `, silent, "s".repeat(128));
    assert.equal(await program.wait(), code, program.errors);
  });
}

test("a thread that has closed its client may end at once", async (t) => {
  const here = await room(t);
  const silent = await listener(here);
  const program = here.script(`
    import { Worker as Thread, isMainThread } from "node:worker_threads";
    import { Client } from "lanemq";
    const ended = (thread) => new Promise((resolve) => thread.on("exit", resolve));
    if (isMainThread) {
      const here = new URL(import.meta.url);
      await Promise.all(Array.from({ length: 4 }, () => ended(new Thread(here, { argv: process.argv.slice(2) }))));
      await new Promise((resolve) => setTimeout(resolve, 1000)); // what libzmq still has of them comes now
      process.exit(7);
    }
    const client = new Client({ broker: process.argv[2], log() {} });
    client.submit("s", "x".repeat(1000)).catch(() => {});
    await client.close();
    process.exit();
  `, silent);
  assert.equal(await program.wait(), 7, program.errors);
});

// ---- connections

test("a connection that is cut costs no attempt", async (t) => {
  const here = await room(t, ...QUICK);
  const between = await proxy(here, here.broker.workers);
  const handler = held();
  await here.serve({ held: handler }, { broker: between.endpoint });
  const client = here.connect();
  await client.leave("held", "x", { id: "a" });
  await until(() => handler.came.length > 0, "the call");
  for (let cut = 0; cut < 3; ++cut) {
    between.cut();
    await until(async () => (await here.stats()).counters.workers_returned > cut, "the worker's return");
  }
  handler.go();
  const answer = await client.fetch("a");
  assert.deepEqual([answer.text, answer.attempts, handler.came], ["x", 1, ["a"]]);
});

test("a client whose connection is cut asks again", async (t) => {
  const here = await room(t, ...STEADY);
  const between = await proxy(here, here.broker.clients);
  const handler = held();
  await here.serve({ held: handler });
  const client = here.connect({ broker: between.endpoint, log: () => {} });
  const answer = client.submit("held", "x", { id: "a" });
  await until(() => handler.came.length > 0, "the call");
  between.cut();
  await until(() => client.counters.resent > 0, "the submit again");
  handler.go();
  assert.equal((await answer).text, "x");
  assert.deepEqual([handler.came, client.counters.reconnected], [["a"], 1]);
});

const disk = (folder) => ["--store", `sqlite:${folder}/store.db`, "--set", "heartbeat=300ms", "--set", "crash_max=100"];

test("a submit gets its answer from the broker's next life", async (t) => {
  const here = await room(t, ...STEADY);
  await here.child.kill();
  await here.start(...disk(here.folder()));
  const handler = held();
  await here.serve({ held: handler }, { log: () => {} });
  const answer = here.connect({ log: () => {} }).submit("held", "x");
  await until(() => handler.came.length > 0, "the call");
  await here.restart();
  handler.go();
  assert.deepEqual([(await answer).text, (await answer).attempts, handler.came.length], ["x", 1, 1]);
});

test("a stream goes on where it was", async (t) => {
  const here = await room(t, ...STEADY);
  await here.child.kill();
  await here.start(...disk(here.folder()));
  let more;
  const gate = new Promise((resolve) => (more = resolve));
  await here.serve({
    words: async (job) => {
      for (let number = 0; number < 40; ++number) await job.chunk(`${number} `);
      await gate;
      for (let number = 40; number < 80; ++number) await job.chunk(`${number} `);
    },
  }, { log: () => {} });
  const stream = here.connect({ log: () => {} }).stream("words");
  const read = [];
  while (read.length < 40) read.push((await stream.next()).value);
  // What the reader took is known before the kill: what the broker forgets after that is nothing that is missing.
  await until(async () => (await here.stats()).counters.chunks_out >= 40, "the chunks");
  await here.restart();
  await until(async () => (await here.stats()).workers.connected === 1, "the worker's return");
  more();
  read.push(...(await all(stream)));
  assert.equal(texts(read).join(""), Array.from({ length: 80 }, (_, number) => `${number} `).join(""));
});
