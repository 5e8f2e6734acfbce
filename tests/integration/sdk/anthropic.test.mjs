// SPDX-License-Identifier: Apache-2.0
// The SDK of Anthropic, as it comes from npm.
import assert from "node:assert/strict";
import { test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

import { anthropic, ended, hungUpSince, inFlight, messages, model, now, throughGateway, timesOut, url } from "./support.mjs";

const max_tokens = 512;
const weatherTool = {
  name: "weather",
  description: "The weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const textOf = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

test("a message is answered, and its usage is what the upstream counted", async () => {
  const name = model();
  const message = await anthropic.messages.create({ model: name, max_tokens, messages });

  assert.equal(message.role, "assistant");
  assert.ok(textOf(message).length > 0);
  assert.ok(message._request_id);
  const [record] = await ended(name);
  assert.equal(message.usage.input_tokens, record.prompt_tokens);
  assert.equal(message.usage.output_tokens, record.completion_tokens);
  assert.equal(record.leaks, undefined);
});

test("a stream spells the same answer, with every event in its place", async () => {
  const options = { model: model("tokens=20"), max_tokens, messages };
  const whole = await anthropic.messages.create(options);
  const types = [];
  const stream = anthropic.messages.stream(options).on("streamEvent", (event) => types.push(event.type));
  const message = await stream.finalMessage();

  assert.deepEqual(message.content, whole.content);
  assert.deepEqual(message.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(message.stop_reason, "end_turn");
  assert.deepEqual([...new Set(types)], ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
  assert.equal(types.filter((type) => type === "content_block_delta").length, 20);
});

for (const wire of ["pings", "crlf", "cr", "comments", "drip=1", "drip=7"])
  test(`a stream survives ${wire}`, async () => {
    const plain = await anthropic.messages.create({ model: model("tokens=12"), max_tokens, messages });
    const message = await anthropic.messages.stream({ model: model("tokens=12", wire), max_tokens, messages }).finalMessage();

    assert.equal(textOf(message), textOf(plain));
  });

test("thinking comes before the answer, whole and as a stream", async () => {
  const options = { model: model("tokens=10"), max_tokens: 2000, messages, thinking: { type: "enabled", budget_tokens: 1024 } };
  const whole = await anthropic.messages.create(options);
  let thought = "";
  const message = await anthropic.messages.stream(options).on("thinking", (delta) => (thought += delta)).finalMessage();

  assert.deepEqual(whole.content.map((block) => block.type), ["thinking", "text"]);
  assert.ok(whole.content[0].signature.length > 0);
  assert.deepEqual(message.content, whole.content);
  assert.equal(thought, whole.content[0].thinking);
});

test("a tool's call is streamed, and its result is answered", async () => {
  const options = { model: model(), max_tokens, tools: [weatherTool] };
  const called = await anthropic.messages.stream({ ...options, messages }).finalMessage();

  assert.equal(called.stop_reason, "tool_use");
  assert.deepEqual([called.content[0].name, called.content[0].input], ["weather", { city: "text" }]);

  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: called.content[0].id, content: "rain" }] };
  const answer = await anthropic.messages.create({ ...options, messages: [...messages, { role: "assistant", content: called.content }, result] });
  assert.equal(answer.stop_reason, "end_turn");
  assert.ok(textOf(answer).length > 0);
});

test("tools are run until the answer is there", async () => {
  const cities = [];
  const weather = betaZodTool({
    name: "weather", description: "The weather of a city", inputSchema: z.object({ city: z.string() }),
    run: ({ city }) => { cities.push(city); return "rain"; },
  });
  const message = await anthropic.beta.messages.toolRunner({ model: model(), max_tokens, messages, tools: [weather] });

  assert.ok(textOf(message).length > 0);
  assert.deepEqual(cities, ["text"]);
});

test("structured output fits its schema", async () => {
  const format = zodOutputFormat(z.object({ city: z.string(), wet: z.boolean() }));
  const message = await anthropic.messages.parse({ model: model(), max_tokens, messages, output_config: { format } });

  assert.deepEqual(message.parsed_output, { city: "text", wet: true });
});

test("tokens are counted", async () => {
  const name = model();
  const counted = await anthropic.messages.countTokens({ model: name, messages });
  const message = await anthropic.messages.create({ model: name, max_tokens, messages });

  assert.equal(counted.input_tokens, message.usage.input_tokens);
});

test("models are listed and told one by one", async () => {
  const ids = [];
  for await (const each of anthropic.models.list()) ids.push(each.id);

  assert.ok(ids.length > 0);
  const one = await anthropic.models.retrieve(ids[0]);
  assert.deepEqual([one.id, one.type], [ids[0], "model"]);
  await assert.rejects(anthropic.models.retrieve("no-such-model"), Anthropic.NotFoundError);
});

test("an abort in mid-stream reaches the upstream", async (t) => {
  const name = model("tokens=500", "gap=100");
  const stream = anthropic.messages.stream({ model: name, max_tokens, messages });
  let left;
  let deltas = 0;
  stream.on("text", () => {
    if (++deltas !== 5) return;
    left = now();
    stream.abort();
  });

  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  const record = await hungUpSince(t, assert, name, left);
  assert.ok(record.completion_tokens < 500);
});

test("an abort before the answer reaches the upstream", async (t) => {
  const name = model("delay=600000");
  const controller = new AbortController();
  const aborted = assert.rejects(
    anthropic.messages.create({ model: name, max_tokens, messages }, { signal: controller.signal }),
    Anthropic.APIUserAbortError,
  );
  await inFlight();
  const left = now();
  controller.abort();

  await aborted;
  await hungUpSince(t, assert, name, left);
});

test("a timeout ends the call, and no second one is made where none is wanted", async () => {
  const name = await timesOut(3000, async (name, timeout) => {
    const answer = anthropic.messages.create({ model: name, max_tokens, messages }, { timeout, maxRetries: 0 });
    let late = false;
    // A gateway answers before the SDK loses its patience, if nothing holds it up for that long.
    await assert.rejects(answer, (error) => {
      late = error instanceof Anthropic.APIConnectionTimeoutError;
      return late || (throughGateway && error.status >= 500 && error.headers.get("x-should-retry") === "false");
    });
    return late !== throughGateway;
  });
  assert.deepEqual((await ended(name)).map((record) => record.end), ["hung_up"]);
});

for (const [what, fault, ...more] of [["an error of the server", "status=500"], ["overload", "status=529"], ["a limit", "status=429", "retry=0"],
                                     ["a reset before the answer", "no-answer"],
                                     // The SDK itself retries nothing once it has seen the header.
                                     ...(throughGateway ? [["a reset behind the header", "reset=0"], ["half an answer", "half=30"]] : [])])
  test(`${what} is tried again until it is over`, async () => {
    const name = model(fault, ...more, "first=1");
    const message = await anthropic.messages.create({ model: name, max_tokens, messages });

    assert.ok(textOf(message).length > 0);
    assert.equal((await ended(name, 2)).length, 2);
  });

for (const fault of ["error-event=3", "reset=1500", "half=1500"])
  test(`a stream that breaks after its content is told, and not tried again: ${fault}`, async () => {
    const name = model("tokens=30", fault);
    let text = "";
    const stream = anthropic.messages.stream({ model: name, max_tokens, messages }).on("text", (delta) => (text += delta));

    await assert.rejects(stream.finalMessage());
    assert.ok(text.length > 0);
    assert.equal((await ended(name)).length, 1);
  });

for (const [status, Kind] of [[400, Anthropic.BadRequestError], [404, Anthropic.NotFoundError], [422, Anthropic.UnprocessableEntityError]])
  test(`what the upstream refuses with ${status} is refused with the same, once`, async () => {
    const name = model(`status=${status}`);

    await assert.rejects(anthropic.messages.create({ model: name, max_tokens, messages }), (error) => error instanceof Kind && error.status === status);
    assert.equal((await ended(name)).length, 1);
  });

if (!throughGateway) {
  for (const [status, Kind] of [[401, Anthropic.AuthenticationError], [403, Anthropic.PermissionDeniedError], [429, Anthropic.RateLimitError], [529, Anthropic.InternalServerError]])
    test(`a ${status} has its class and type`, async () => {
      const once = new Anthropic({ baseURL: url, apiKey: "k", maxRetries: 0 });
      await assert.rejects(once.messages.create({ model: model(`status=${status}`), max_tokens, messages }),
        (error) => error instanceof Kind && error.error.type === "error" && error.error.error.type.endsWith("_error"));
    });
}
