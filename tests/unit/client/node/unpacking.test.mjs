// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { test } from "node:test";

import { BadJob } from "../../../../client/node/lib/failures.js";
import { decode as decodeMessage, unpack } from "../../../../client/node/lib/unpacking.js";
import { JobCall } from "../../../../client/node/lib/worker.js";
import * as wire from "../../../../client/node/lib/wire.js";
import { ExtData, decode, encode } from "./support.mjs";

const packed = (value) => Buffer.from(encode(value));
const bytes = (hex) => Buffer.from(hex.replaceAll(" ", ""), "hex");
const ext = (type, hex) => new ExtData(type, new Uint8Array(bytes(hex)));

/** What a library of msgpack refuses or changes, and older brokers pass on. */
const ODD = [
  ["a timestamp of one byte", bytes("d4 ff 00"), ext(-1, "00")],
  ["a timestamp that is one", bytes("d6 ff 00000001"), ext(-1, "00000001")],
  ["a type of ext below 0", bytes("c7 02 fb 6162"), ext(-5, "6162")],
  ["an ext of no bytes", bytes("c7 00 05"), ext(5, "")],
  ["a str that is no UTF-8", bytes("a3 61 e9 62"), "a\ufffdb"],
  ["a key that is no UTF-8", bytes("81 a1 ff 01"), { "\ufffd": 1 }],
  ["the largest number", bytes("cf ffffffffffffffff"), 2n ** 64n - 1n],
  ["the smallest number", bytes("d3 8000000000000000"), -(2n ** 63n)],
  ["the largest number that JavaScript has", bytes("cf 001fffffffffffff"), Number.MAX_SAFE_INTEGER],
  ["a number behind it", bytes("cf 0020000000000000"), 2n ** 53n],
  ["a map in a list in a map", packed({ a: [{ b: null }] }), { a: [{ b: null }] }],
  ["bytes", packed(new Uint8Array([1])), new Uint8Array([1])],
];

/** A message of maps in which bytes stand for values as they come. */
function header(op, maps, body) {
  const fields = maps.map((map) => Buffer.concat([Buffer.from([0x80 + Object.keys(map).length]), ...Object.entries(map).flatMap(([name, value]) => [
    packed(name), Buffer.isBuffer(value) ? value : packed(value),
  ])]));
  const list = fields.length === 1 ? fields : [Buffer.from([0xdc, 0, fields.length]), ...fields];
  return Buffer.concat([Buffer.from(body ? "\x94\xa4LMQ1" : "\x93\xa4LMQ1", "latin1"), packed(op), ...list, ...(body ? [packed(body)] : [])]);
}

const items = (...frames) => decodeMessage(frames.map((frame) => Buffer.from(frame))).items;
const plain = (...frames) => items(...frames).map(({ fields, body }) => [fields, body.toString()]);
const texts = (...all) => all.map((text) => Buffer.from(text));
const call = (fields) => new JobCall([1, 1], { service: "s", ...fields }, Buffer.alloc(0), new Int32Array(1), 0, () => {}, () => {});

test("later maps of a batch inherit from the first alone", () => {
  const maps = [{ id: "a", ref: 1, lane: "low", attempts: 2 }, { id: "b", attempts: null }, { id: "c" }];
  for (const frames of [[packed(["LMQ1", "result", maps, texts("x", "", "z")])], [packed(["LMQ1", "result", maps]), packed(texts("x", "", "z"))]]) {
    assert.deepEqual(plain(...frames), [
      [{ id: "a", ref: 1, lane: "low", attempts: 2 }, "x"],
      [{ id: "b", lane: "low" }, ""],
      [{ id: "c", lane: "low", attempts: 2 }, "z"],
    ]);
  }
});

test("what is no message is refused", () => {
  for (const frames of [
    [Buffer.alloc(0)], [Buffer.from("\x93\xa4LMQ2", "latin1")], [Buffer.from("\x93\xa4LMQ1\xa4ping", "latin1")], [packed(["LMQ1", "ping", 5])],
    [packed(["LMQ1", 1, {}])], [packed(["LMQ1", "result", []])], [packed(["LMQ1", "result", [{}], texts("", "")])],
    [packed(["LMQ1", "result", [1, {}]])], [packed(["LMQ1", "result", [{}], Buffer.from("x")])], [packed(["LMQ1", "result", [{}]]), Buffer.from([0xc1])],
    [packed(["LMQ1", "result", [{}], "no"])], [packed(["LMQ1", "result", [{}]]), Buffer.alloc(5000, 0x91)], [Buffer.concat([packed(["LMQ1", "ping", {}]), texts("x")[0]])],
    [Buffer.concat([Buffer.from("\x94\xa4LMQ1", "latin1"), packed("ping"), packed({})])], [Buffer.from("\x93\xa4LMQ1\xa4ping\xdf\xff\xff\xff\xff", "latin1")],
  ]) {
    assert.throws(() => items(...frames), wire.MalformedError);
  }
});

test("an envelope before the header is skipped", () => {
  assert.deepEqual(plain(Buffer.from("peer"), Buffer.alloc(0), packed(["LMQ1", "ping", { ref: 1 }])), [[{ ref: 1 }, ""]]);
});

test("values are those of msgpack", () => {
  let seed = 7;
  const draw = (below) => ((seed = (seed * 1103515245 + 12345) % 2 ** 31), Math.floor((seed / 2 ** 31) * below));
  const numbers = [0, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, 1.5, -0.1, NaN, Infinity];
  const strings = ["", "a", "ä😀", "x".repeat(31), "y".repeat(32), "z".repeat(300), "ü".repeat(200)];
  const value = (depth) => {
    switch (draw(depth > 3 ? 4 : 6)) {
      case 0: return numbers[draw(numbers.length)];
      case 1: return -numbers[draw(10)] - 1 < -Number.MAX_SAFE_INTEGER ? null : -numbers[draw(9)] - 1;
      case 2: return strings[draw(strings.length)];
      case 3: return [true, false, null, new Uint8Array(draw(70))][draw(4)];
      case 4: return Array.from({ length: draw(20) }, () => value(depth + 1));
      default: return Object.fromEntries(Array.from({ length: draw(20) }, (_, n) => [strings[draw(4)] + n, value(depth + 1)]));
    }
  };
  for (let round = 0; round < 300; ++round) {
    const bytesOf = packed(value(0));
    const theirs = decode(new Uint8Array(bytesOf));
    assert.deepEqual(unpack("a", bytesOf), theirs);
    const [{ fields }] = items(header("job", [{ meta: bytesOf, behind: 1 }]));
    assert.deepEqual([fields.meta && unpack("a", fields.meta), fields.behind], [theirs, 1]);
  }
});

test("whatever comes is read or refused", () => {
  let seed = 7;
  const draw = (below) => ((seed = (seed * 1103515245 + 12345) % 2 ** 31), Math.floor((seed / 2 ** 31) * below));
  const whole = header("job", [{ job: 1, attempt: 1, meta: bytes("d4 ff 00"), lane: "low" }, { job: 2, "x-a": { b: [1] } }], texts("x", "y"));
  for (let round = 0; round < 5000; ++round) {
    const frame = Buffer.from(whole);
    for (let times = draw(3); times >= 0; --times) frame[6 + draw(frame.length - 6)] = draw(256);
    try {
      for (const { fields, body } of items(frame.subarray(0, 7 + draw(frame.length)))) assert(wire.isMap(fields) && Buffer.isBuffer(body));
    } catch (error) {
      assert(error instanceof wire.MalformedError, error);
    }
  }
});

test("what cannot be read of one item takes no other with it", () => {
  const odd = bytes("81 05 01"); // a key that is no text
  const all = items(header("result", [{ ref: 1, usage: odd, lane: "low" }, { ref: 2, usage: null }, { ref: 3 }, { ref: odd }], texts("a", "b", "c", "d")));
  assert.deepEqual(all.map(({ fields, body }) => [fields, body.toString()]), [
    [{ ref: 1, lane: "low" }, "a"], [{ ref: 2, lane: "low" }, "b"], [{ ref: 3, lane: "low" }, "c"], [{ lane: "low" }, "d"],
  ]);
  assert.deepEqual(all.map(({ unread }) => [...(unread ?? new Map()).keys()]), [["usage"], [], ["usage"], ["ref", "usage"]]);
});

test("a body or a map that is none takes no other with it", () => {
  const maps = [{ ref: 1 }, { ref: 2 }, 3];
  for (const odd of ["no", 5, null, [], ext(5, "00")]) {
    const bodies = [Buffer.from("a"), odd, Buffer.from("c")];
    for (const frames of [[packed(["LMQ1", "result", maps, bodies])], [packed(["LMQ1", "result", maps]), packed(bodies)]]) {
      const all = items(...frames);
      assert.deepEqual(all.map(({ fields, body }) => [fields.ref, body.toString()]), [[1, "a"], [2, ""], [undefined, ""]]);
      assert.deepEqual([...all[1].unread], [["body", "it is no bin"]]);
    }
  }
  assert.deepEqual([...items(packed(["LMQ1", "result", { ref: 1 }, "no"]))[0].unread], [["body", "it is no bin"]]);
});

test("keys of maps are data, and pollute nothing", () => {
  const evil = { ["__proto__"]: { polluted: 1 }, constructor: { prototype: 2 }, toString: 3 };
  const bytesOf = Buffer.concat([Buffer.from([0x83]), ...["__proto__", "constructor", "toString"].flatMap((name) => [packed(name), packed(evil[name])])]);
  const read = unpack("meta", bytesOf);
  assert.deepEqual(Object.keys(read), ["__proto__", "constructor", "toString"]);
  assert.deepEqual([Object.getPrototypeOf(read), read.polluted, {}.polluted, read["__proto__"]], [Object.prototype, undefined, undefined, { polluted: 1 }]);
  const [first, second] = items(header("job", [{ job: 1, ["__proto__"]: { polluted: 1 }, constructor: 5 }, { job: 2 }]));
  for (const { fields } of [first, second]) assert.deepEqual([Object.getPrototypeOf(fields), fields.polluted, fields.constructor], [Object.prototype, undefined, 5]);
});

test("what is for workers is kept as it came", () => {
  for (const name of ["meta", "trace", "x-a"]) {
    for (const [what, bytesOf, value] of ODD) {
      const all = items(header("job", [{ job: 1, attempt: 1, [name]: bytesOf }, { job: 2 }], texts("a", "b")));
      for (const { fields } of all) {
        assert.deepEqual(Buffer.from(fields[name]), bytesOf, what);
        assert.deepEqual(unpack(name, fields[name]), value, what);
      }
    }
  }
});

test("a nil resets it", () => {
  const all = items(header("job", [{ job: 1, meta: 5, "x-a": 1 }, { job: 2, meta: null }, { job: 3, "x-a": null }]));
  assert.deepEqual(all.map(({ fields }) => Object.keys(fields).sort()), [["job", "meta", "x-a"], ["job", "x-a"], ["job", "meta"]]);
});

test("it is read once, when the handler asks", () => {
  const [{ fields }] = items(header("job", [{ job: 1, meta: { a: [1] }, trace: "t", "x-a": 2.5, "x-": 1 }]));
  const job = call(structuredClone(fields));
  assert.deepEqual([job.meta, job.trace, job.extra], [{ a: [1] }, "t", { "x-a": 2.5, "x-": 1 }]);
  assert.equal(job.meta, job.meta);
  assert.deepEqual([call({}).meta, call({}).trace, call({}).extra], [undefined, undefined, {}]);
});

test("what cannot be read says so when it is asked for", () => {
  for (const bytesOf of [bytes("81 05 01"), Buffer.alloc(101, 0x91), bytes("c1"), bytes("a5 61")]) {
    const job = call({ meta: bytesOf, "x-a": bytesOf });
    for (const ask of [() => job.meta, () => job.extra]) {
      assert.throws(ask, (error) => error instanceof BadJob && error.code === "bad_job" && /(meta|x-a) cannot be read: /.test(error.message));
    }
    assert.equal(job.trace, undefined);
  }
});

test("a field of another type than the page says counts as absent", () => {
  for (const odd of [null, "5", 5.5, true, [5], { a: 5 }, -1, 2n ** 60n, NaN]) {
    assert.deepEqual([wire.int({ a: odd }, "a", 7), wire.optionalInt({ a: odd }, "a")], [7, undefined]);
    assert.throws(() => wire.int({ a: odd }, "a"), wire.MalformedError);
  }
  assert.deepEqual([wire.text({ a: 5 }, "a", "x"), wire.optionalText({ a: 5 }, "a"), wire.texts({ a: ["b", 5] }, "a"), wire.list({ a: 5 }, "a")], ["x", undefined, ["b"], []]);
  assert.deepEqual([wire.map({ a: [1] }, "a"), wire.map({ a: { b: 1 } }, "a")], [{}, { b: 1 }]);
});
