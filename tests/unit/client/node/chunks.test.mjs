// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { describe, test } from "node:test";

import { JobCancelled } from "../../../../client/node/lib/failures.js";
import { Places } from "../../../../client/node/lib/places.js";
import { JobCall } from "../../../../client/node/lib/worker.js";

const WINDOW = 64, WAITING_MAX = 64;

/** A streamed job, and the pieces that it has sent. */
function streamed() {
  const sent = [];
  const places = new Places(Places.memoryFor(1));
  const call = new JobCall([1, 1], { id: "j", service: "s", stream: true }, Buffer.alloc(0), places, 0, (piece) => sent.push(`${piece}`), () => {});
  return { call, sent };
}

// The test's process has the default for rejections that nobody handles: it would end.
describe("pieces that a handler does not await", () => {
  test("behind a cancel go nowhere", async () => {
    const { call, sent } = streamed();
    call.chunk("a");
    call.cancel();
    call.chunk("b");
    await assert.rejects(call.chunk("c"), JobCancelled);
    await call.piecesSent();
    assert.deepEqual(sent, ["a"]);
  });

  test("fail the job where one finds no room", async () => {
    const { call, sent } = streamed();
    for (let i = 0; i < WINDOW + WAITING_MAX; ++i) call.chunk(`${i}`);
    call.taken(WINDOW, 1000);
    await call.piecesSent();
    assert.equal(sent.length, WINDOW + WAITING_MAX);
    for (let i = 0; i <= WAITING_MAX; ++i) call.chunk(`${i}`);
    call.taken(WINDOW, 1000);
    await assert.rejects(call.piecesSent(), /64 pieces wait for the reader/);
  });

  test("of which one is no body fail the job, and reject for who asks", async () => {
    const { call } = streamed();
    await assert.rejects(call.chunk(5), TypeError);
    await call.piecesSent();
    call.chunk(5);
    await assert.rejects(call.piecesSent(), TypeError);
  });

  test("and that are awaited later, all at once, fail nothing", async () => {
    const { call } = streamed();
    const all = await Promise.allSettled(Array.from({ length: 200 }, () => call.chunk("x")).concat([call.chunk(5)]).map((sent, i) => (i < WINDOW || i >= WINDOW + WAITING_MAX ? sent : undefined)));
    assert.equal(all.filter(({ status }) => status === "rejected").length, 200 - WINDOW - WAITING_MAX + 1);
    call.taken(WINDOW, 64);
    await call.piecesSent();
  });
});
