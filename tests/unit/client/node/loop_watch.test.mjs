// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { beforeEach, test } from "node:test";

import { LoopWatch, TAKEN_UP_WITHIN_MS } from "../../../../client/node/lib/loop_watch.js";
import { Places } from "../../../../client/node/lib/places.js";

let places, loop, watch;
beforeEach(() => {
  const memory = Places.memoryFor(4);
  [places, loop] = [new Places(memory), new Places(memory)]; // of the two threads
  watch = new LoopWatch(places);
});

function give(job, at, place = job) {
  places.give(place, job);
  watch.gave({ lease: [job, 1], place, turn: job, at });
}

const back = (now) => watch.look(now).map(({ lease: [job] }) => job);

test("a loop that takes its jobs up goes round", () => {
  give(1, 0);
  assert.equal(watch.due, TAKEN_UP_WITHIN_MS);
  assert(loop.takeUp(1, 1));
  assert.equal(watch.due, undefined);
  assert.deepEqual(back(TAKEN_UP_WITHIN_MS), []);
  assert.equal(watch.stillSince, undefined);
});

test("one that does not is found to stand still, and begins nothing that was taken back", () => {
  for (const [job, at] of [[1, 0], [2, 10], [3, 1900]]) give(job, at);
  assert(loop.takeUp(1, 1));
  assert.equal(watch.due, 10 + TAKEN_UP_WITHIN_MS);
  assert.deepEqual(back(9 + TAKEN_UP_WITHIN_MS), []);
  assert.deepEqual(back(10 + TAKEN_UP_WITHIN_MS), [2, 3]);
  assert.equal(watch.stillSince, 10);
  assert(!loop.takeUp(2, 2));
  assert(!loop.takeUp(3, 3));
  assert.equal(watch.due, undefined);
});

test("a job that has the place of one that was taken back is another job", () => {
  give(1, 0);
  assert.deepEqual(back(TAKEN_UP_WITHIN_MS), [1]);
  places.cancel(1);
  give(2, 5000, 1);
  assert(!loop.isCancelled(1));
  assert(!loop.takeUp(1, 1)); // late
  assert(loop.takeUp(1, 2));
  assert(!places.takeBack(1, 2));
});

test("a process that stood still has its time anew", () => {
  give(1, 0);
  assert.equal(watch.due, TAKEN_UP_WITHIN_MS);
  assert.deepEqual(back(60_000), []);
  assert.equal(watch.due, 60_000 + TAKEN_UP_WITHIN_MS);
  assert.deepEqual(back(60_000 + TAKEN_UP_WITHIN_MS), [1]);
});
