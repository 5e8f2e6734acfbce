// SPDX-License-Identifier: Apache-2.0
// What the gateway adds to the APIs, seen through the official SDKs: lanes, keys, errors that the SDKs understand, files
// and batches. test_sdk.py configures the keys that are named here.
import assert from "node:assert/strict";
import { test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { toFile } from "openai";

import { anthropic, ended, logged, messages, model, openai, timesOut, until, url } from "./support.mjs";

const max_tokens = 64;
const openaiWith = (options, path = "") => new OpenAI({ baseURL: `${url}${path}/v1`, apiKey: "sk-caller", ...options });
const anthropicWith = (options, path = "") => new Anthropic({ baseURL: `${url}${path}`, apiKey: "sk-caller", ...options });

/** The lane that the gateway says a request took. */
async function laneOf(promise) {
  const { response } = await promise.withResponse();
  return response.headers.get("x-lanemq-lane");
}

test("the lane is a header's", async () => {
  const headers = { "x-lanemq-lane": "batch" };
  const names = [model(), model()];

  assert.equal(await laneOf(openai.chat.completions.create({ model: names[0], messages }, { headers })), "batch");
  assert.equal(await laneOf(anthropic.messages.create({ model: names[1], max_tokens, messages }, { headers })), "batch");
  for (const name of names) assert.equal((await ended(name))[0].leaks, undefined);
});

test("the lane is the URL's, for SDKs that set no headers", async () => {
  const chat = openaiWith({}, "/lane/critical").chat.completions.create({ model: model(), messages });
  const message = anthropicWith({}, "/lane/critical").messages.create({ model: model(), max_tokens, messages });

  assert.equal(await laneOf(chat), "critical");
  assert.equal(await laneOf(message), "critical");
});

test("the lane is the model's suffix, which the upstream never sees", async () => {
  const names = [model(), model()];

  assert.equal(await laneOf(openai.chat.completions.create({ model: `${names[0]}@low`, messages })), "low");
  assert.equal(await laneOf(anthropic.messages.create({ model: `${names[1]}@low`, max_tokens, messages })), "low");
  for (const name of names) assert.equal((await ended(name))[0].status, 200);
});

test("the lane is the service tier's, which the upstream never sees", async () => {
  const name = model();

  assert.equal(await laneOf(openai.chat.completions.create({ model: name, messages, service_tier: "flex" })), "low");
  assert.equal((await ended(name))[0].service_tier, undefined);
});

test("without any of these the lane is the key's, else normal", async () => {
  assert.equal(await laneOf(openai.chat.completions.create({ model: model(), messages })), "normal");
  assert.equal(await laneOf(openaiWith({ apiKey: "sk-bulk" }).chat.completions.create({ model: model(), messages })), "batch");
});

test("every answer says what became of it", async () => {
  const { response } = await openai.chat.completions.create({ model: model(), messages }).withResponse();

  for (const name of ["x-lanemq-job", "x-lanemq-lane", "x-lanemq-queue-ms", "x-lanemq-attempts", "server-timing"])
    assert.ok(response.headers.get(name), `${name} is missing`);
});

test("a stream's events are the upstream's, byte for byte", async () => {
  const body = JSON.stringify({ model: model("tokens=60", "gap=1"), messages, stream: true, stream_options: { include_usage: true } });
  const ask = async (base, key) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    return (await fetch(`${base}/v1/chat/completions`, { method: "POST", body, headers })).text();
  };

  assert.equal(await ask(url, "sk-caller"), await ask(process.env.LANEMQ_SDK_UPSTREAM, "sk-upstream"));
});

test("a hundred streams at once are each their own", async () => {
  const numbers = Array.from({ length: 100 }, (_, number) => number);
  const name = model("tokens=20", "gap=5");
  const texts = await Promise.all(numbers.map(async (number) => {
    let text = "";
    const stream = await openai.chat.completions.create({ model: name, messages: [{ role: "user", content: `${number}` }], stream: true });
    for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
    return text;
  }));
  const wholes = await Promise.all(numbers.map(async (number) =>
    (await openai.chat.completions.create({ model: name, messages: [{ role: "user", content: `${number}` }] })).choices[0].message.content));

  assert.deepEqual(texts, wholes);
});

test("a key that nobody knows is a 401, and costs no call", async () => {
  const names = [model(), model()];

  await assert.rejects(openaiWith({ apiKey: "sk-nobody" }).chat.completions.create({ model: names[0], messages }), OpenAI.AuthenticationError);
  await assert.rejects(anthropicWith({ apiKey: "sk-nobody" }).messages.create({ model: names[1], max_tokens, messages }), Anthropic.AuthenticationError);
  assert.deepEqual((await Promise.all(names.map(logged))).flat(), []);
});

test("a lane that is not the key's is a 403", async () => {
  const headers = { "x-lanemq-lane": "critical" };
  const options = { apiKey: "sk-bulk" };

  await assert.rejects(openaiWith(options).chat.completions.create({ model: model(), messages }, { headers }), OpenAI.PermissionDeniedError);
  await assert.rejects(anthropicWith(options).messages.create({ model: model(), max_tokens, messages }, { headers }), Anthropic.PermissionDeniedError);
});

test("a key over its limit is a 429 that says when to come back", async () => {
  const once = openaiWith({ apiKey: "sk-limited", maxRetries: 0 });
  const name = model();
  await once.chat.completions.create({ model: name, messages });

  await assert.rejects(once.chat.completions.create({ model: name, messages }), (error) =>
    error instanceof OpenAI.RateLimitError && Number(error.headers.get("retry-after")) > 0 && error.headers.get("x-should-retry") === "true");
  assert.equal((await ended(name)).length, 1);
});

// Whether the call had begun by then, 504 at OpenAI's, is up to the machine.
for (const [what, ask, Kind, statuses] of [
  ["OpenAI", (name, options) => openai.chat.completions.create({ model: name, messages }, options), OpenAI.InternalServerError, [503, 504]],
  ["Anthropic", (name, options) => anthropic.messages.create({ model: name, max_tokens, messages }, options), Anthropic.InternalServerError, [504]],
])
  test(`a deadline is told to ${what}'s SDK so that it does not ask again`, async () => {
    const name = await timesOut(500, async (name, ms) => {
      await assert.rejects(ask(name, { headers: { "x-lanemq-timeout-ms": `${ms}` } }), (error) => error instanceof Kind && statuses.includes(error.status));
      return true;
    });
    assert.deepEqual((await ended(name)).map((record) => record.end), ["hung_up"]);
  });

for (const [what, ask, Kind] of [
  ["OpenAI", (name) => openai.chat.completions.create({ model: name, messages }), OpenAI.InternalServerError],
  ["Anthropic", (name) => anthropic.messages.create({ model: name, max_tokens, messages }), Anthropic.InternalServerError],
])
  test(`an upstream that stays broken is tried as often as the lane allows, and not again by ${what}'s SDK`, async () => {
    const name = model("status=500");

    await assert.rejects(ask(name), Kind); // after all that the SDK tries
    assert.equal((await ended(name, 3)).length, 3);
  });

test("a key of one's own makes a second call the first one", async () => {
  const name = model();
  const headers = { "idempotency-key": name };
  const first = await openai.chat.completions.create({ model: name, messages }, { headers });
  const second = await openai.chat.completions.create({ model: name, messages }, { headers });

  assert.deepEqual(second, first);
  assert.equal((await logged(name)).length, 1);
});

/** The batch in the first state that is like this. */
const reached = (batches, id, isThis) =>
  until(async () => {
    const batch = await batches.retrieve(id);
    return isThis(batch) && batch;
  }, `the end of batch ${id}`);

test("a file is a batch, whose answers are a file", async () => {
  const good = model("tokens=5");
  const bad = model("status=400");
  const lines = Array.from({ length: 20 }, (_, number) => ({
    custom_id: `line-${number}`, method: "POST", url: "/v1/chat/completions",
    body: { model: number === 7 ? bad : good, messages: [{ role: "user", content: `${number}` }], max_tokens },
  }));
  const file = await openai.files.create({
    file: await toFile(Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join("")), "batch.jsonl"), purpose: "batch",
  });
  const begun = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
  const batch = await reached(openai.batches, begun.id, (state) => ["completed", "failed", "expired"].includes(state.status));

  assert.equal(batch.status, "completed");
  assert.deepEqual(batch.request_counts, { total: 20, completed: 19, failed: 1 });
  const read = async (id) => (await (await openai.files.content(id)).text()).trim().split("\n").map((line) => JSON.parse(line));
  const answers = await read(batch.output_file_id);
  assert.deepEqual(answers.map((answer) => answer.custom_id).sort(), lines.filter((line) => line.body.model === good).map((line) => line.custom_id).sort());
  for (const answer of answers) {
    assert.equal(answer.response.status_code, 200);
    assert.ok(answer.response.body.choices[0].message.content.length > 0);
  }
  const errors = await read(batch.error_file_id);
  assert.deepEqual(errors.map((error) => error.custom_id), ["line-7"]);
  assert.equal((await openai.files.retrieve(file.id)).bytes, file.bytes);
  assert.ok((await openai.batches.list()).data.some((each) => each.id === batch.id));
});

test("a batch is cancelled, and its upstream calls with it", async () => {
  const slow = model("delay=600000");
  const line = { custom_id: "slow", method: "POST", url: "/v1/chat/completions", body: { model: slow, messages, max_tokens } };
  const file = await openai.files.create({ file: await toFile(Buffer.from(`${JSON.stringify(line)}\n`), "slow.jsonl"), purpose: "batch" });
  const begun = await openai.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
  await openai.batches.cancel(begun.id);

  const batch = await reached(openai.batches, begun.id, (state) => state.status === "cancelled");
  assert.equal(batch.request_counts.completed, 0);
});

test("a batch of messages", async () => {
  const name = model("tokens=5");
  const begun = await anthropic.messages.batches.create({
    requests: Array.from({ length: 10 }, (_, number) => ({
      custom_id: `message-${number}`, params: { model: name, max_tokens, messages: [{ role: "user", content: `${number}` }] },
    })),
  });
  const batch = await reached(anthropic.messages.batches, begun.id, (state) => state.processing_status === "ended");

  assert.equal(batch.request_counts.succeeded, 10);
  const results = [];
  for await (const result of await anthropic.messages.batches.results(begun.id)) results.push(result);
  assert.deepEqual(results.map((result) => result.custom_id).sort(), Array.from({ length: 10 }, (_, number) => `message-${number}`).sort());
  for (const { result } of results) {
    assert.equal(result.type, "succeeded");
    assert.equal(result.message.usage.output_tokens, 5);
  }
});

test("an SDK whose key is in debt for long hears so at once", async () => {
  const began = Date.now();
  const spend = openaiWith({ apiKey: "sk-indebted" });
  await spend.chat.completions.create({ model: model("tokens=400"), messages, max_tokens: 400 });
  for (const ask of [
    () => spend.chat.completions.create({ model: model(), messages }),
    () => anthropicWith({ apiKey: "sk-indebted" }).messages.create({ model: model(), max_tokens, messages }),
  ]) {
    await assert.rejects(ask, (error) => {
      assert.equal(error.status, 429);
      assert.equal(error.headers.get("x-should-retry"), "false");
      assert.ok(Number(error.headers.get("retry-after")) >= 60);
      return true;
    });
  }
  assert.ok(Date.now() - began < 10_000);
});
