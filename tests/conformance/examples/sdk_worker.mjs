// SPDX-License-Identifier: Apache-2.0
// The Node package's worker as the kit wants it: sdk_worker.mjs ENDPOINT serves `echo` and `wait`.
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { Worker } from "../../../client/node/lib/index.js";

const [broker] = process.argv.slice(2);

async function echo(job) {
  if (!job.stream) return job.body;
  for (const line of job.text.match(/[^\n]*\n|[^\n]+/g) ?? []) await job.chunk(line);
}

async function wait(job) {
  await sleep(3000, undefined, { signal: job.signal });
  return job.body;
}

try {
  await new Worker({ echo, wait }, { broker, capacity: 8 }).run();
} catch (error) {
  console.error(`sdk_worker: ${error.message}`);
  process.exitCode = 1;
}
