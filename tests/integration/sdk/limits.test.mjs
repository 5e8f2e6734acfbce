// SPDX-License-Identifier: Apache-2.0
// More streams at once than the upstream allows; test_sdk.py reads from its log that it never had to refuse one.
import assert from "node:assert/strict";
import { test } from "node:test";

import { anthropic, logged, messages, model, openai } from "./support.mjs";

const count = 45;
const name = model("tokens=40", "gap=20");

async function chat() {
  let deltas = 0;
  for await (const chunk of await openai.chat.completions.create({ model: name, messages, max_tokens: 64, stream: true }))
    if (chunk.choices[0].delta.content) deltas += 1;
  return deltas;
}

async function message() {
  let deltas = 0;
  await anthropic.messages.stream({ model: name, max_tokens: 64, messages }).on("text", () => (deltas += 1)).done();
  return deltas;
}

test("all streams are whole, and each is one call", async () => {
  const asked = Array.from({ length: count }, () => [chat(), message()]).flat();

  assert.deepEqual(await Promise.all(asked), asked.map(() => 40));
  const records = await logged(name);
  assert.deepEqual(records.map((record) => record.status), asked.map(() => 200));
  assert.equal(new Set(records.map((record) => record.job)).size, 2 * count);
});
