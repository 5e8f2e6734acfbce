// SPDX-License-Identifier: Apache-2.0
// Vercel's AI SDK with its providers for OpenAI and Anthropic, as they come from npm.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { ended, hungUpSince, model, now, url } from "./support.mjs";

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-caller" });
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-caller" });
const prompt = "What is half of 48?";
const weather = (cities) =>
  tool({
    description: "The weather of a city",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => { cities.push(city); return "rain"; },
  });

for (const [provider, of] of [["chat", openai.chat], ["responses", openai.responses], ["messages", anthropic.messages]]) {
  test(`${provider}: text, whole and as a stream`, async () => {
    const options = { model: of(model("tokens=15")), prompt, maxOutputTokens: 400 };
    const whole = await generateText(options);
    const stream = streamText(options);
    let text = "";
    for await (const delta of stream.textStream) text += delta;

    assert.ok(whole.text.length > 0);
    assert.equal(text, whole.text);
    assert.equal((await stream.usage).outputTokens, 15);
    assert.equal(await stream.finishReason, "stop");
  });

  test(`${provider}: tools`, async () => {
    const cities = [];
    const answer = await generateText({
      model: of(model()), prompt, maxOutputTokens: 400, tools: { weather: weather(cities) }, stopWhen: stepCountIs(3),
    });

    assert.deepEqual(cities, ["text"]);
    assert.ok(answer.text.length > 0);
    assert.equal(answer.steps.length, 2);
  });

  test(`${provider}: tools in a stream`, async () => {
    const cities = [];
    const stream = streamText({
      model: of(model()), prompt, maxOutputTokens: 400, tools: { weather: weather(cities) }, stopWhen: stepCountIs(3),
    });

    assert.ok((await stream.text).length > 0);
    assert.deepEqual(cities, ["text"]);
  });

  test(`${provider}: structured output`, async () => {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const { output } = await generateText({ model: of(model()), prompt, maxOutputTokens: 400, output: Output.object({ schema }) });

    assert.deepEqual(output, { city: "text", degrees: 7 });
  });

  test(`${provider}: an abort in mid-stream reaches the upstream`, async (t) => {
    const name = model("tokens=300", "gap=100");
    const controller = new AbortController();
    const stream = streamText({ model: of(name), prompt, maxOutputTokens: 400, abortSignal: controller.signal, onError: () => {} });
    let left;
    let deltas = 0;
    for await (const _ of stream.textStream) {
      if (++deltas !== 5) continue;
      left = now();
      controller.abort();
    }

    await hungUpSince(t, assert, name, left);
  });

  test(`${provider}: an error of the server is tried again until it is over`, async () => {
    const name = model("status=503", "retry=0", "first=1");
    const answer = await generateText({ model: of(name), prompt, maxOutputTokens: 400 });

    assert.ok(answer.text.length > 0);
    assert.equal((await ended(name, 2)).length, 2);
  });
}

test("embeddings", async () => {
  const { embeddings } = await embedMany({ model: openai.embedding(model()), values: ["one", "two"] });

  assert.equal(embeddings.length, 2);
  assert.notDeepEqual(embeddings[0], embeddings[1]);
});
