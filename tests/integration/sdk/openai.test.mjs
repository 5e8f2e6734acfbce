// SPDX-License-Identifier: Apache-2.0
// The SDK of OpenAI, as it comes from npm.
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { ended, hungUpSince, inFlight, messages, model, now, openai, throughGateway, timesOut, url } from "./support.mjs";

const Weather = z.object({ city: z.string(), degrees: z.number(), wet: z.boolean() });
const weatherTool = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
  },
};

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");

test("a chat is answered, and its usage is what the upstream counted", async () => {
  const name = model();
  const answer = await openai.chat.completions.create({ model: name, messages, max_tokens: 50 });

  assert.equal(answer.choices[0].message.role, "assistant");
  assert.ok(answer.choices[0].message.content.length > 0);
  const [record] = await ended(name);
  assert.equal(answer.usage.prompt_tokens, record.prompt_tokens);
  assert.equal(answer.usage.completion_tokens, record.completion_tokens);
  assert.equal(record.leaks, undefined);
});

test("a stream spells the same answer, and tells no usage that nobody asked for", async () => {
  const options = { model: model("tokens=40"), messages };
  const whole = await openai.chat.completions.create(options);
  const chunks = await collect(await openai.chat.completions.create({ ...options, stream: true }));

  assert.equal(textOf(chunks), whole.choices[0].message.content);
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
  assert.ok(chunks.every((chunk) => chunk.choices.length === 1 && !chunk.usage));
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
});

test("a stream tells the usage at its end when it is asked to", async () => {
  const chunks = await collect(
    await openai.chat.completions.create({
      model: model("tokens=7"), messages, stream: true, stream_options: { include_usage: true },
    }),
  );

  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 7);
});

for (const wire of ["crlf", "cr", "comments", "drip=1", "drip=7"])
  test(`a stream survives ${wire}`, async () => {
    const plain = await openai.chat.completions.create({ model: model("tokens=12"), messages });
    const chunks = await collect(
      await openai.chat.completions.create({ model: model("tokens=12", wire), messages, stream: true }),
    );

    assert.equal(textOf(chunks), plain.choices[0].message.content);
  });

test("tools are run until the answer is there", async () => {
  const cities = [];
  const runner = openai.chat.completions.runTools({
    model: model(),
    messages,
    tools: [{ ...weatherTool, function: { ...weatherTool.function, parse: JSON.parse, function: ({ city }) => { cities.push(city); return "rain"; } } }],
  });

  assert.ok((await runner.finalContent()).length > 0);
  assert.deepEqual(cities, ["text"]);
});

test("a tool's call is streamed", async () => {
  const stream = openai.chat.completions.stream({ model: model(), messages, tools: [weatherTool] });
  const [call] = (await stream.finalMessage()).tool_calls;

  assert.equal(call.function.name, "weather");
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "text" });
});

test("structured output fits its schema", async () => {
  const answer = await openai.chat.completions.parse({
    model: model(), messages, response_format: zodResponseFormat(Weather, "weather"),
  });

  assert.deepEqual(answer.choices[0].message.parsed, { city: "text", degrees: 7, wet: true });
});

test("a completion of a text, whole and as a stream", async () => {
  const options = { model: model("tokens=9"), prompt: "Once upon a time" };
  const whole = await openai.completions.create(options);
  const chunks = await collect(await openai.completions.create({ ...options, stream: true }));

  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), whole.choices[0].text);
  assert.equal(whole.usage.completion_tokens, 9);
});

test("embeddings are the same numbers in either encoding", async () => {
  const options = { model: model(), input: ["one", "two"], dimensions: 16 };
  const asked = await openai.embeddings.create({ ...options, encoding_format: "float" });
  const usual = await openai.embeddings.create(options);

  assert.equal(usual.data.length, 2);
  assert.equal(usual.data[0].embedding.length, 16);
  assert.deepEqual(usual.data.map((item) => item.embedding), asked.data.map((item) => item.embedding));
  assert.notDeepEqual(usual.data[0].embedding, usual.data[1].embedding);
});

test("models are listed and told one by one", async () => {
  const ids = [];
  for await (const each of openai.models.list()) ids.push(each.id);

  assert.ok(ids.length > 0);
  assert.equal((await openai.models.retrieve(ids[0])).id, ids[0]);
  await assert.rejects(openai.models.retrieve("no-such-model"), OpenAI.NotFoundError);
});

test("a response, whole and as typed events", async () => {
  const options = { model: model("tokens=11"), input: "What is half of 48?" };
  const whole = await openai.responses.create(options);
  const events = await collect(await openai.responses.create({ ...options, stream: true }));

  assert.equal(whole.status, "completed");
  assert.equal(events[0].type, "response.created");
  assert.equal(events.at(-1).type, "response.completed");
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  assert.equal(deltas.length, 11);
  assert.equal(deltas.map((event) => event.delta).join(""), whole.output_text);
  assert.equal(events.at(-1).response.usage.output_tokens, 11);
});

test("a response calls a function, and one fits a schema", async () => {
  const { type, function: { name, description, parameters } } = weatherTool;
  const called = await openai.responses.create({
    model: model(), input: "rain?", tools: [{ type, name, description, parameters, strict: true }],
  });
  const parsed = await openai.responses.parse({
    model: model(), input: "rain?", text: { format: zodTextFormat(Weather, "weather") },
  });

  assert.equal(called.output[0].type, "function_call");
  assert.deepEqual(JSON.parse(called.output[0].arguments), { city: "text" });
  assert.deepEqual(parsed.output_parsed, { city: "text", degrees: 7, wet: true });
});

test("an abort in mid-stream reaches the upstream", async (t) => {
  const name = model("tokens=1000", "gap=100");
  const stream = await openai.chat.completions.create({ model: name, messages, max_tokens: 1000, stream: true });
  let chunks = 0;
  let left;
  for await (const _ of stream) {
    if (++chunks < 5) continue;
    left = now();
    stream.controller.abort();
  }

  const record = await hungUpSince(t, assert, name, left);
  assert.ok(record.completion_tokens < 1000);
});

test("an abort before the answer reaches the upstream", async (t) => {
  const name = model("delay=600000");
  const controller = new AbortController();
  const answer = openai.chat.completions.create({ model: name, messages }, { signal: controller.signal });
  const aborted = assert.rejects(answer, OpenAI.APIUserAbortError);
  await inFlight();
  const left = now();
  controller.abort();

  await aborted;
  await hungUpSince(t, assert, name, left);
});

test("a timeout ends the call, and no second one is made where none is wanted", async () => {
  const name = await timesOut(3000, async (name, timeout) => {
    const answer = openai.chat.completions.create({ model: name, messages }, { timeout, maxRetries: 0 });
    let late = false;
    // A gateway answers before the SDK loses its patience, if nothing holds it up for that long.
    await assert.rejects(answer, (error) => {
      late = error instanceof OpenAI.APIConnectionTimeoutError;
      return late || (throughGateway && error.status >= 500 && error.headers.get("x-should-retry") === "false");
    });
    return late !== throughGateway;
  });
  assert.deepEqual((await ended(name)).map((record) => record.end), ["hung_up"]);
});

for (const [what, fault, ...more] of [["an error of the server", "status=500"], ["overload", "status=503"], ["a limit", "status=429", "retry=0"],
                                     ["a reset before the answer", "no-answer"],
                                     // The SDK itself retries nothing once it has seen the header.
                                     ...(throughGateway ? [["a reset behind the header", "reset=0"], ["half an answer", "half=30"]] : [])])
  test(`${what} is tried again until it is over`, async () => {
    const name = model(fault, ...more, "first=1");
    const answer = await openai.chat.completions.create({ model: name, messages });

    assert.ok(answer.choices[0].message.content.length > 0);
    assert.equal((await ended(name, 2)).length, 2);
  });

test("a stream that breaks before its content is tried again", async () => {
  const name = model("status=503", "first=1", "tokens=8");
  const chunks = await collect(await openai.chat.completions.create({ model: name, messages, stream: true }));

  assert.ok(textOf(chunks).length > 0);
  assert.equal((await ended(name, 2)).length, 2);
});

for (const fault of ["error-event=3", "reset=2000", "half=2000"])
  test(`a stream that breaks after its content is told, and not tried again: ${fault}`, async () => {
    const name = model("tokens=30", fault);
    const stream = await openai.chat.completions.create({ model: name, messages, stream: true });
    const chunks = [];

    await assert.rejects(async () => {
      for await (const chunk of stream) chunks.push(chunk);
    });
    assert.ok(textOf(chunks).length > 0);
    assert.equal((await ended(name)).length, 1);
  });

for (const [status, Kind] of [[400, OpenAI.BadRequestError], [404, OpenAI.NotFoundError], [422, OpenAI.UnprocessableEntityError]])
  test(`what the upstream refuses with ${status} is refused with the same, once`, async () => {
    const name = model(`status=${status}`);

    await assert.rejects(openai.chat.completions.create({ model: name, messages }), (error) => error instanceof Kind && error.status === status);
    assert.equal((await ended(name)).length, 1);
  });

test("what is wrong with a request is named", async () => {
  const answer = openai.chat.completions.create({ model: model(), messages: [] });

  await assert.rejects(answer, (error) => error instanceof OpenAI.BadRequestError && error.param === "messages");
});

if (!throughGateway) {
  for (const [status, Kind] of [[401, OpenAI.AuthenticationError], [403, OpenAI.PermissionDeniedError], [429, OpenAI.RateLimitError], [503, OpenAI.InternalServerError]])
    test(`a ${status} has its class`, async () => {
      const once = new OpenAI({ baseURL: `${url}/v1`, apiKey: "k", maxRetries: 0 });
      await assert.rejects(once.chat.completions.create({ model: model(`status=${status}`), messages }), Kind);
    });
}
