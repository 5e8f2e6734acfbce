// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { test } from "node:test";

import { decode, unpack } from "../../../../client/node/lib/unpacking.js";
import * as wire from "../../../../client/node/lib/wire.js";
import { ExtData, encode } from "./support.mjs";

const packed = (value) => Buffer.from(encode(value));
const x = (size) => Buffer.alloc(size, "x");
const items = (frames) => decode(frames.map((frame) => Buffer.from(frame))).items.map(({ fields, body }) => [fields, body.toString()]);

test("a body is inside up to 4096 bytes, and a frame beyond", () => {
  assert.equal(wire.encode("submit", {}, x(4096)).length, 1);
  assert.equal(wire.encode("submit", {}, x(4097)).length, 2);
  for (const size of [0, 1, 4096, 4097]) assert.deepEqual(items(wire.encode("result", { ref: 1 }, x(size))), [[{ ref: 1 }, "x".repeat(size)]]);
});

test("a header begins with the bytes of the page", () => {
  assert.equal(Buffer.from(wire.encode("ping", {})[0]).toString("hex", 0, 6), "93a44c4d5131");
  assert.equal(Buffer.from(wire.encode("ping", {}, x(1))[0]).toString("hex", 0, 6), "94a44c4d5131");
});

test("differences are what the other end makes whole again", () => {
  const first = { service: "s", lane: "low", meta: { a: 1 }, timeout_ms: 5 };
  for (const later of [{ service: "s" }, { service: "s", lane: "high", meta: { a: 1 }, timeout_ms: 5 }, { ...first, meta: 1.5 }]) {
    const maps = [{ ...first, id: "a" }, { ...wire.differences(first, later), id: "b" }];
    const [, [whole]] = items([packed(["LMQ1", "submit", maps])]);
    assert.deepEqual({ ...whole, ...(whole.meta && { meta: unpack("meta", whole.meta) }) }, { ...later, id: "b" });
  }
  assert.deepEqual(wire.differences({ meta: 0 }, { meta: -0 }), { meta: -0 }); // equal, and other bytes
  assert.deepEqual(wire.differences({ meta: { a: [1] } }, { meta: { a: [1] } }), {});
  assert.deepEqual(wire.differences({ meta: { a: [1] } }, { meta: { a: ["1"] } }), { meta: { a: ["1"] } });
});

test("a value that would have a message refused is found before", () => {
  let deep = [];
  for (let level = 0; level < 6; ++level) deep = [deep];
  assert.throws(() => wire.checkValue("meta", deep), /header_depth_max/);
  wire.checkValue("meta", deep[0]);
  wire.checkValue("meta", { a: [1.5, NaN, true, null, undefined, "ä😀", x(3), new Float64Array(100)], ...Object.fromEntries(Array.from({ length: 80 }, (_, n) => [n, undefined])) });
  const wide = Object.fromEntries(Array.from({ length: 65 }, (_, number) => [number, number]));
  for (const [value, why] of [
    [wide, /map_entries_max/], [[2 ** 60], /send text/], [{ f: () => 1 }, /a function/], [5n, /a bigint/], [new Date(), /a Date/], [[new Map()], /a Map/],
    [new ExtData(5, x(1)), /a ExtData/], ["a\ud800", /half a character/], [{ "\udc00b": 1 }, /half a character/], [Symbol("a"), /a symbol/],
  ]) {
    assert.throws(() => wire.checkValue("meta", value), why);
  }
});

test("names have 1 to 128 bytes", () => {
  assert.equal(wire.checkName("id", "ä".repeat(64)), "ä".repeat(64));
  for (const name of ["", "ä".repeat(65), "a\ud800", 5, undefined]) assert.throws(() => wire.checkName("id", name), /id (has|is text)/);
});
