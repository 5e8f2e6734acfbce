// SPDX-License-Identifier: Apache-2.0
// What the tests of the SDKs share: where they talk to, and what the upstream saw of it.
//
//     LANEMQ_SDK_URL       the server to talk to, without a path: the double itself, or a gateway before it
//     LANEMQ_SDK_VIA       "double" or "gateway"
//     LANEMQ_SDK_UPSTREAM  the double
//     LANEMQ_SDK_LOG       its log
import { File } from "node:buffer";
import { readFileSync } from "node:fs";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import { until } from "../until.mjs";

export { until };

// Debian's Node 18 keeps it in a module, and the SDKs say that it is to be set there.
globalThis.File ??= File;

export const url = process.env.LANEMQ_SDK_URL;
export const throughGateway = process.env.LANEMQ_SDK_VIA === "gateway";

/** SDKs as they come: two retries. */
export const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-caller" });
export const anthropic = new Anthropic({ baseURL: url, apiKey: "sk-caller" });

let models = 0;
/** A model's name that no other test uses, so that its calls can be told in the log, with faults behind it. */
export function model(...faults) {
  models += 1;
  return [`model-${process.pid}-${models}`, ...faults].join("+");
}

export const messages = [{ role: "user", content: "What is half of 48?" }];

/** What the double logged of all calls for this model that have ended by now. */
export async function logged(name) {
  // The log is written a little after a call's end: wait until it has all that have ended.
  const { ended } = await stats();
  const records = await until(() => {
    const lines = readFileSync(process.env.LANEMQ_SDK_LOG, "utf8").split("\n").slice(0, -1);
    return lines.length >= ended && lines;
  }, "the log of the upstream");
  return records.map((line) => JSON.parse(line)).filter((record) => record.model === name);
}

/** Waits until `count` calls for the model have ended, and returns all that have. */
export function ended(name, count = 1) {
  return until(async () => {
    const records = await logged(name);
    return records.length >= count && records;
  }, `the end of ${count} calls for ${name}`);
}

export async function stats() {
  return (await fetch(`${process.env.LANEMQ_SDK_UPSTREAM}/stats`)).json();
}

/** Makes a call that is to end by its time limit while the upstream has it, with ever more time until that was enough to
 *  reach the upstream, which takes a busy machine longer than another. `ask` is given a model and the milliseconds, and says
 *  whether the call failed as it should. Returns the model. */
export async function timesOut(firstMs, ask) {
  for (let ms = firstMs; ms <= 16 * firstMs; ms *= 4) {
    const name = model("delay=600000");
    if (!(await ask(name, ms))) continue;
    const came = until(async () => (await logged(name)).length > 0, "the call at the upstream", 1000 + ms);
    if (await came.catch(() => false)) return name;
  }
  throw new Error("no call was at the upstream when its time was over");
}

/** Waits until the double works on at least one call. */
export const inFlight = () => until(async () => (await stats()).in_flight > 0, "a call at the upstream");

/** Checks that the one call for this model ended because its caller left, and not by itself, which must take much longer
 *  than anything may hold this up; and tells how soon. */
export async function hungUpSince(test, assert, name, left) {
  const records = await ended(name);
  assert.deepEqual(records.map((record) => record.end), ["hung_up"]);
  const after = records[0].ended_unix_ms - left;
  test.diagnostic(`the upstream saw the hang-up ${after.toFixed(1)} ms after the abort`);
  return records[0];
}

/** Milliseconds since 1970, as finely as the double tells them. */
export const now = () => performance.timeOrigin + performance.now();
