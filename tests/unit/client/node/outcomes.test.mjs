// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { describe, test } from "node:test";

import { BadJob, JobCancelled, Limited, Overloaded, Permanent, Quota, Released, Retry } from "../../../../client/node/lib/failures.js";
import { Result, isBad, ofAnswer, ofFault, unreadable } from "../../../../client/node/lib/outcomes.js";
import { encode } from "./support.mjs";

const silent = { toString() { throw new RangeError("no text"); } };
const sly = new Proxy({}, { get() { throw new RangeError("no field"); } });
const loop = [];
loop.push(loop);

/** Of what could not be said: its class; and what is wrong with it where `why` does not fit. */
function badClass(outcome, why) {
  assert(isBad(outcome) && outcome.op === "error", JSON.stringify(outcome));
  assert.match(outcome.fields.message, why);
  assert(encode(structuredClone(outcome.fields)).length < 4096);
  assert.deepEqual(Object.keys(outcome.fields), ["class", "code", "message"]);
  return outcome.fields.class;
}

describe("answers", () => {
  test("what a handler may return", () => {
    for (const [answer, body] of [[undefined, ""], [null, ""], ["ä", "ä"], [Buffer.from("x"), "x"], [{ a: 1 }, '{"a":1}'], [[1], "[1]"], [new Result("z"), "z"], [new Result(), ""], [new Result(null), ""]]) {
      const outcome = ofAnswer(answer);
      assert.deepEqual([outcome.op, outcome.fields, outcome.body.toString()], ["result", {}, body]);
    }
  });

  test("whole numbers of any type are numbers", () => {
    const usage = { input_tokens: 5n, output_tokens: 6.0, requests: Number.MAX_SAFE_INTEGER, cached_tokens: null, prompt_tokens_details: { a: () => 1 } };
    assert.deepEqual(ofAnswer(new Result("x", { usage, limits: { reset_tokens_ms: 8, limit_tokens: 9n } })).fields, {
      usage: { requests: Number.MAX_SAFE_INTEGER, input_tokens: 5, output_tokens: 6 }, limits: { limit_tokens: 9, reset_tokens_ms: 8 },
    });
    assert.deepEqual(ofAnswer(new Result("x", { usage: {}, limits: undefined })).fields, {});
  });

  test("what cannot be said names the field, what it was and what is allowed", () => {
    for (const odd of [1.5, -1, NaN, Infinity, 2 ** 53, 2n ** 60n, -1n, "5", true, [5], () => 5, Symbol("five"), silent, new Date()]) {
      for (const name of ["input_tokens", "reasoning_tokens"]) {
        const why = new RegExp(`^usage.${name} is .*; it is a whole number from 0 to 9007199254740991$`);
        assert.equal(badClass(ofAnswer(new Result("x", { usage: { [name]: odd } })), why), "permanent");
      }
      badClass(ofAnswer(new Result("x", { limits: { remaining_tokens: odd } })), /^limits.remaining_tokens is /);
    }
    for (const odd of ["text", 5, [["input_tokens", 5]], new Map([["input_tokens", 5]]), () => 1, Symbol("a")]) {
      badClass(ofAnswer(new Result("x", { usage: odd })), /^usage is .*; it is an object/);
    }
    badClass(ofAnswer(new Result("x", { usage: sly })), /^it cannot be read: RangeError: no field/);
    for (const odd of [5, 1.5, NaN, true, 5n, () => "x", Symbol("x"), loop, { a: 5n }, { toJSON() { throw silent; } }, { toJSON: () => undefined }, new Uint16Array(2)]) {
      const why = /^the body cannot be sent \(.*\); it is bytes, text, or an object or list for JSON$/;
      assert.equal(badClass(ofAnswer(odd), why), "permanent");
      badClass(ofAnswer(new Result(odd)), why);
    }
  });

  test("in the place of what the broker could not read", () => {
    assert.equal(badClass(unreadable(`${"😀".repeat(600)}`), /^😀+�?$/u), "permanent");
  });
});

describe("faults", () => {
  test("what a handler may throw", () => {
    const limited = new Limited("slow", { code: 429, retryAfterMs: 1500.5, body: "why", upstreamStatus: 429, usage: { requests: 1 } });
    const outcome = ofFault(limited);
    assert.deepEqual([outcome.fields, outcome.body.toString()], [
      { class: "limited", usage: { requests: 1 }, code: "429", message: "slow", retry_after_ms: 1501, upstream_status: 429 }, "why",
    ]);
    assert.deepEqual(ofFault(new Retry()).fields, { class: "retry" });
    assert.equal(ofFault(new JobCancelled("j")).fields.code, "cancelled");
    assert.deepEqual(ofFault(new BadJob("no")).fields, { class: "permanent", code: "bad_job", message: "no" });
    assert.deepEqual(ofFault(new TypeError("no")).fields, { class: "retry", code: "TypeError", message: "no" });
    for (const [fault, message] of [["text", "text"], [undefined, "undefined"], [5n, "5"], [Symbol("a"), "Symbol(a)"]]) {
      assert.deepEqual(ofFault(fault).fields, { class: "retry", code: "Error", message });
    }
    for (const [pause, ms] of [[-1, 0], [1e15, 31_536_000_000], [0.1, 1]]) assert.equal(ofFault(new Retry("", { retryAfterMs: pause })).fields.retry_after_ms, ms);
  });

  test("long texts for people are cut", () => {
    assert.equal(ofFault(new Retry("ж".repeat(5000))).fields.message, "ж".repeat(1024));
    assert(!/\p{Surrogate}/u.test(ofFault(new Error(`x${"😀".repeat(5000)}`)).fields.message));
    assert.equal(ofFault(Object.assign(new Error("m"), { name: "Ж".repeat(100) })).fields.code, "Ж".repeat(64));
  });

  test("what cannot be said keeps a class that costs an attempt, and nothing else", () => {
    for (const [kind, fault, why] of [
      ["permanent", new Quota("", { code: "ж".repeat(65) }), /^code is .* and has 130 bytes; the limit is 128$/],
      ["overloaded", new Overloaded("", { code: "a\udce9" }), /^code is .*; it is text that UTF-8 has$/],
      ["permanent", new Permanent("a\udce9"), /^message is .*a\\udce9.*; it is text that UTF-8 has$/i],
      ["retry", new Error("no file caf\udce9.txt"), /^message is .*no file caf\\udce9.txt/i],
      ["retry", Object.assign(new Error(), { message: silent }), /^message is no text: String\(\) of .* throws RangeError: no text$/],
      ["retry", silent, /^message is no text/],
      ["retry", Object.create(null), /^message is no text/],
      ["retry", sly, /^it cannot be read: RangeError: no field$|^message is no text/],
      ["retry", Object.defineProperty(new Error(), "message", { get() { throw new RangeError("none"); } }), /^it cannot be read: RangeError: none$/],
      ["retry", Object.assign(new Error(), { name: Symbol("n") }), /^it cannot be read: TypeError/],
      ["permanent", Object.assign(new Released(), { message: silent }), /^message is no text/],
      ["retry", new Retry("", { body: 5 }), /^the body cannot be sent/],
      ["retry", new Retry("", { usage: { requests: 0.5 } }), /^usage.requests is 0.5/],
    ]) {
      assert.equal(badClass(ofFault(fault), why), kind);
    }
    for (const odd of ["teapot", 99, 600, 2 ** 60, 418.5, NaN, true, [418], 2n ** 70n]) {
      const why = /^upstreamStatus is .*; it is a whole number from 100 to 599$/;
      assert.equal(badClass(ofFault(new Permanent("", { upstreamStatus: odd })), why), "permanent");
    }
    for (const odd of [NaN, Infinity, "5", [5], true, 5n, silent]) {
      assert.equal(badClass(ofFault(new Limited("", { retryAfterMs: odd })), /^retryAfterMs is .*; it is a number of milliseconds$/), "permanent", "it would come again and again");
    }
  });

  test("a class of one's own that is none is a retry", () => {
    for (const odd of ["\udce9", "x".repeat(129), silent]) {
      class Odd extends Permanent {
        static errorClass = odd;
      }
      assert.equal(badClass(ofFault(new Odd("no")), /^errorClass is /), "retry");
    }
  });
});
