// SPDX-License-Identifier: Apache-2.0
// A `map` of many prompts, while the broker and a worker are killed. LANEMQ_TEST_PROMPTS names a file with a JSON object in each line,
// whose `question`s are asked instead of the test's own.
import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";

import { Child, PATIENCE, STEADY, program, room } from "./support.mjs";

const CAPACITY = 16;
const LATE = PATIENCE / 2; // by which an answer is on its way to a worker, and on to the broker, on a machine that has little time
const WORKER = `
  import { Retry, worker } from "lanemq";
  const [url, capacity] = process.argv.slice(2);
  await worker("chat", async (job) => {
    const headers = { "content-type": "application/json", "x-lanemq-job": job.id };
    const answer = await fetch(url, { method: "POST", body: job.body, headers, signal: job.signal });
    if (!answer.ok) throw new Retry(String(answer.status));
    return Buffer.from(await answer.arrayBuffer());
  }, { capacity: Number(capacity) }).run();
`;

function prompts() {
  const path = process.env.LANEMQ_TEST_PROMPTS;
  if (!path) return Array.from({ length: 600 }, (_, number) => `How much is ${number} times ${number + 1}?`);
  return readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line).question);
}

async function ofNode(here, url) {
  const worker = here.script(WORKER, url, CAPACITY);
  assert.match(await worker.line(), /^ready /);
  return worker;
}

async function ofLanemqWorker(here, url) {
  const words = ["--broker", here.broker.workers, "--service", `chat=http:${url}`, "--capacity", CAPACITY];
  const worker = new Child(here, program("lanemq-worker"), words);
  assert.match(await worker.line(), /^ready /);
  return worker;
}

function judge(bodies, answers, calls, kills) {
  assert.deepEqual(answers.map(({ index }) => index).sort((one, other) => one - other), bodies.map((_, index) => index));
  for (const answer of answers) assert(answer.json().choices.length > 0);
  const byBody = Map.groupBy ? Map.groupBy(calls, ({ body }) => body) : groupBy(calls, ({ body }) => body);
  const again = [...byBody.values()].filter((each) => each.length > 1);
  const count = `${bodies.length} prompts, ${answers.length} answers, ${calls.length} calls, ${again.length} prompts called again`;
  console.log(`${count}, ${kills.length} kills of broker and worker`);
  assert.equal(byBody.size, bodies.length);
  assert(calls.length - bodies.length <= CAPACITY * kills.length);
  for (const each of again) {
    // All but the last were under way at the killed worker: cut off, or answered to it right before.
    each.sort((one, other) => one.ended_unix_ms - other.ended_unix_ms).pop();
    for (const { end, ended_unix_ms } of each) {
      const near = kills.map((kill) => Math.round(ended_unix_ms - kill));
      assert(end === "hung_up" || near.some((ms) => Math.abs(ms) <= LATE), `${near} ms after the kills: ${JSON.stringify(each)}`);
    }
  }
}

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

for (const [name, start] of [["of the package", ofNode], ["that is lanemq-worker", ofLanemqWorker]]) {
  test(`each prompt is answered once by a worker ${name}`, async (t) => {
    const here = await room(t, ...STEADY);
    await here.child.kill();
    const folder = here.folder();
    const log = `${folder}/calls.jsonl`;
    await here.start("--store", `sqlite:${folder}/store.db`, "--set", "heartbeat=1s", "--set", "crash_max=100");
    const double = new Child(here, program("lanemq-upstream"), ["--latency-ms", "20..100", "--log", log]);
    const url = `${(await double.line()).slice("ready ".length).trim()}/v1/chat/completions`;
    const workers = [await start(here, url), await start(here, url)];
    const bodies = prompts().map((content) => ({ model: "gpt-4o-mini", max_tokens: 16, messages: [{ role: "user", content }] }));
    const third = Math.floor(bodies.length / 3);

    const [answers, kills] = [[], []];
    for await (const answer of here.connect({ log: () => {} }).map("chat", bodies, { ordered: false, progress: false })) {
      answers.push(answer);
      if (answers.length !== third && answers.length !== 2 * third) continue;
      kills.push(Date.now());
      await workers.shift().kill();
      await here.restart();
      workers.push(await start(here, url));
    }
    double.signal("SIGTERM"); // its log is whole then
    await double.wait();

    const calls = readFileSync(log, "utf8").trim().split("\n").map((line) => JSON.parse(line));
    judge(bodies, answers, calls, kills);
  });
}
