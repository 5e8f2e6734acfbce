// SPDX-License-Identifier: Apache-2.0
// The few things that hold for any provider: for a run by hand against a real one (tests/integration/README.md tells how), and in CI
// against the double. LANEMQ_OPENAI_MODEL and LANEMQ_ANTHROPIC_MODEL name the models; where one is missing, so are its tests.
import assert from "node:assert/strict";
import { test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { LANEMQ_SDK_URL: url, LANEMQ_OPENAI_MODEL: openaiModel, LANEMQ_ANTHROPIC_MODEL: anthropicModel } = process.env;
const apiKey = process.env.LANEMQ_CALLER_KEY ?? "any";
const messages = [{ role: "user", content: "What is the weather in Rome? If you cannot know, guess." }];
const Weather = z.object({ city: z.string(), wet: z.boolean() });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

if (!openaiModel && !anthropicModel) throw new Error("LANEMQ_OPENAI_MODEL or LANEMQ_ANTHROPIC_MODEL must name a model");

if (openaiModel) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey });
  const model = openaiModel;

  test("openai: a chat", async () => {
    const answer = await client.chat.completions.create({ model, messages });
    assert.ok(answer.choices[0].message.content.length > 0);
    assert.ok(answer.usage.total_tokens > 0);
  });

  test("openai: a stream with its usage", async () => {
    const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    let deltas = 0;
    for await (const chunk of stream) deltas += chunk.choices.length;
    assert.ok(deltas > 2);
    assert.ok((await stream.totalUsage()).completion_tokens > 0);
  });

  test("openai: a tool", async () => {
    const answer = await client.chat.completions.create({
      model, messages, tools: [{ type: "function", function: { name: "weather", parameters } }], tool_choice: "required",
    });
    assert.ok("city" in JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments));
  });

  test("openai: structured output", async () => {
    const answer = await client.chat.completions.parse({ model, messages, response_format: zodResponseFormat(Weather, "weather") });
    Weather.parse(answer.choices[0].message.parsed);
  });
}

if (anthropicModel) {
  const client = new Anthropic({ baseURL: url, apiKey });
  const options = { model: anthropicModel, max_tokens: 512, messages };

  test("anthropic: a message", async () => {
    const message = await client.messages.create(options);
    assert.ok(message.content[0].text.length > 0);
    assert.ok(message.usage.output_tokens > 0);
  });

  test("anthropic: a stream", async () => {
    let text = "";
    const message = await client.messages.stream(options).on("text", (delta) => (text += delta)).finalMessage();
    assert.equal(text, message.content[0].text);
  });

  test("anthropic: a tool", async () => {
    const { additionalProperties, ...input_schema } = parameters;
    const message = await client.messages.create({ ...options, tools: [{ name: "weather", input_schema }], tool_choice: { type: "any" } });
    assert.ok("city" in message.content.find((block) => block.type === "tool_use").input);
  });

  test("anthropic: structured output", async () => {
    const message = await client.messages.parse({ ...options, output_config: { format: zodOutputFormat(Weather) } });
    Weather.parse(message.parsed_output);
  });

  test("anthropic: tokens are counted", async () => {
    assert.ok((await client.messages.countTokens({ model: anthropicModel, messages })).input_tokens > 0);
  });
}
