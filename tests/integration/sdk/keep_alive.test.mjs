// SPDX-License-Identifier: Apache-2.0
// The SDKs survive what the gateway says while the upstream is silent, and understand an error that comes when the status
// has long been sent. test_sdk.py has the gateway commit to a stream after 0.2 s and speak up every 0.2 s.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { streamText } from "ai";
import OpenAI from "openai";

import { anthropic, ended, messages, model, openai, url } from "./support.mjs";

const max_tokens = 400;
const prompt = messages[0].content;
/** Silence before the first delta, and between deltas. */
const slow = ["delay=600", "gap=300", "tokens=3"];

async function chat(name) {
  let text = "";
  for await (const chunk of await openai.chat.completions.create({ model: name, messages, stream: true })) text += chunk.choices[0].delta.content ?? "";
  return text;
}

async function response(name) {
  let text = "";
  for await (const event of await openai.responses.create({ model: name, input: prompt, stream: true }))
    if (event.type === "response.output_text.delta") text += event.delta;
  return text;
}

async function message(name) {
  return (await anthropic.messages.stream({ model: name, max_tokens, messages }).finalMessage()).content[0].text;
}

const vercel = (of) => async (name) => {
  let text = "";
  let failure;
  const stream = streamText({ model: of(name), prompt, maxOutputTokens: max_tokens, maxRetries: 0, onError: ({ error }) => (failure = error) });
  for await (const delta of stream.textStream) text += delta;
  if (failure) throw failure;
  return text;
};
const { chat: vercelChat, responses: vercelResponses } = createOpenAI({ baseURL: `${url}/v1`, apiKey: "sk-caller" });
const vercelMessages = createAnthropic({ baseURL: `${url}/v1`, apiKey: "sk-caller" }).messages;

for (const [what, ask, Kind] of [
  ["OpenAI's SDK, a chat", chat, OpenAI.APIError], ["OpenAI's SDK, a response", response, OpenAI.APIError],
  ["Anthropic's SDK", message, Anthropic.APIError], ["Vercel's SDK, a chat", vercel(vercelChat), Object],
  ["Vercel's SDK, a response", vercel(vercelResponses), Object], ["Vercel's SDK, a message", vercel(vercelMessages), Object],
]) {
  test(`${what} survives a silent upstream`, async () => {
    const [waited, swift] = await Promise.all([ask(model(...slow)), ask(model("tokens=3"))]);

    assert.ok(swift.length > 0);
    assert.equal(waited, swift);
  });

  test(`${what} is told of an error behind the status`, async () => {
    const name = model("delay=600", "status=400");

    // Vercel's SDK hands on what the event says as it is.
    await assert.rejects(ask(name), (error) => error instanceof Kind && /refused with status 400/.test(`${error.message} ${JSON.stringify(error)}`));
    assert.equal((await ended(name)).length, 1);
  });
}
