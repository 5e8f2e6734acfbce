// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { PassThrough } from "node:stream";
import { test } from "node:test";

import { ConflictError } from "../../../../client/node/lib/errors.js";
import { AHEAD, MapRun, Progress } from "../../../../client/node/lib/mapping.js";
import { Answer, Job } from "../../../../client/node/lib/types.js";

const answer = (index) => new Answer(String(index), Buffer.from(String(index)), {});

function start({ total, ordered = true, window = 4, returnsErrors = false } = {}) {
  let ids = 0;
  return new MapRun("s", total, {}, () => `id-${ids++}`, () => {}, { ordered, window, returnsErrors });
}

/** As many as it wants; how many that were. */
function feed(run, most = Infinity) {
  let count = 0;
  for (; run.wants() && count < most; ++count) run.add("");
  return count;
}

function taken(run) {
  const indices = [];
  for (let each; (each = run.ready()); ) indices.push(each.index);
  return indices;
}

test("it wants input while there is room", () => {
  const run = start();
  assert.equal(feed(run), 4);
  run.take(1, answer(1));
  run.take(3, answer(3));
  assert.equal(feed(run), 2);
});

test("an id that is none is refused where it is said", () => {
  for (const id of ["\udce9", "", 5, "x".repeat(129)]) assert.throws(() => start().add(new Job("", { id })), /id /);
});

test("an ordered one waits for the first, and reads only so far ahead", () => {
  const run = start();
  let begun = feed(run);
  for (let index = 1; index < begun; ++index) {
    run.take(index, answer(index));
    begun += feed(run);
  }
  assert.deepEqual([taken(run), run.done, begun], [[], 4 * AHEAD - 1, 4 * AHEAD]);
  run.take(0, answer(0));
  assert.deepEqual(taken(run), Array.from({ length: 4 * AHEAD }, (_, index) => index));
});

test("an unordered one hands out what comes", () => {
  const run = start({ ordered: false });
  feed(run);
  for (const index of [2, 0]) run.take(index, answer(index));
  assert.deepEqual(taken(run), [2, 0]);
});

test("it is over when all was handed out", () => {
  const run = start();
  feed(run, 2);
  run.exhausted = true;
  for (const index of [0, 1]) run.take(index, answer(index));
  assert(!run.over);
  assert.deepEqual([taken(run), run.over], [[0, 1], true]);
});

test("errors are thrown, or returned in their place", () => {
  const run = start();
  feed(run, 3);
  assert.throws(() => run.take(1, new ConflictError("m")), ConflictError);
  assert.deepEqual(run.underWay().map(({ id }) => id), ["id-0", "id-2"]);
  const other = start({ returnsErrors: true });
  feed(other, 3);
  other.take(1, new ConflictError("m"));
  for (const index of [0, 2]) other.take(index, answer(index));
  assert.deepEqual([taken(other), other.done, other.failed], [[0, 1, 2], 3, 1]);
});

test("a window holds at least one", () => {
  assert.throws(() => start({ window: 0 }), /window is 0/);
});

test("the bar is drawn on a terminal alone", () => {
  const run = start({ total: 4 });
  feed(run, 4);
  run.take(0, answer(0));
  const out = new PassThrough({ encoding: "utf8" });
  new Progress(run, undefined, out).draw();
  assert.equal(out.read(), null);
  out.isTTY = true;
  new Progress(run, undefined, out).draw(true);
  const text = out.read();
  assert(text.includes(`[#######${" ".repeat(23)}] 1/4 done, 0 failed`), text);
  assert(new Progress(run, true, out).text(0.5).endsWith("1/4 done, 0 failed, 2/s, 2 s left"));
});
