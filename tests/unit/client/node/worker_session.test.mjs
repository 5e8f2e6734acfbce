// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { beforeEach, describe, test } from "node:test";

import { OUTCOMES_MAX } from "../../../../client/node/lib/tables.js";
import { WorkerSession } from "../../../../client/node/lib/worker_session.js";
import { ExtData, encode, said, tell } from "./support.mjs";

let session;
beforeEach(() => (session = new WorkerSession({ services: ["s"], capacity: 2 }, 0)));

const effects = () => session.effects.splice(0);
const ops = (now = 0) => said(session, now).map(([op]) => op);
const job = (number, { attempt = 1, now = 0, ...fields } = {}) => tell(session, "job", { job: number, attempt, ...fields }, "body", now);
const finish = (number, { op = "result", fields = {}, body = "", now = 0, attempt = 1 } = {}) =>
  session.finish([number, attempt], { op, fields, body: Buffer.from(body) }, now);

function welcome(fields = {}, now = 0) {
  tell(session, "welcome", { session: "one", heartbeat_ms: 1000, body_bytes_max: 1000, ...fields }, undefined, now);
  said(session, now);
  return effects();
}

function meet() {
  said(session);
  welcome();
}

describe("greeting", () => {
  test("it says what it offers", () => {
    const [[op, fields]] = said(session);
    assert.deepEqual([op, fields], ["ready", { services: ["s"], resumes: true, batch: 64, capacity: 2 }]);
    assert.deepEqual(welcome(), [{ what: "welcomed" }]);
  });

  test("a refused ready is said again later, or never", () => {
    said(session);
    tell(session, "error", { code: "full", message: "m" });
    assert.deepEqual(effects(), [{ what: "refused", message: "full: m", ever: false }]);
    assert(!session.takeReopen(4900));
    assert(session.takeReopen(5000));
    tell(session, "error", { code: "bad_request", message: "m" });
    assert.deepEqual(effects(), [{ what: "refused", message: "bad_request: m", ever: true }]);
  });
});

describe("progress", () => {
  beforeEach(() => {
    meet();
    job(1);
  });

  const words = (now) => {
    session.advance(now);
    return said(session, now).filter(([op]) => op === "progress").map(([, fields]) => fields);
  };

  test("what is over or not wanted says none", () => {
    session.progress([1, 1], { pct: 10 }, 0);
    session.progress([1, 1], { pct: 11 }, 100);
    finish(1, { now: 100 });
    session.progress([1, 1], { pct: 12 }, 100);
    session.progress([7, 1], { pct: 12 }, 100);
    said(session, 100);
    assert.deepEqual(words(500), []);
  });
});

describe("jobs", () => {
  beforeEach(meet);

  test("more than its capacity and strange services are handed back", () => {
    for (let number = 0; number < 3; ++number) job(number);
    job(9, { service: "t" });
    assert.deepEqual(said(session).map(([, fields]) => fields.class), ["released", "released"]);
    assert.equal(effects().length, 2);
    finish(0);
    job(10, { service: "t" });
    assert.deepEqual(said(session).map(([, fields]) => fields.class), [undefined, "permanent"]);
  });

  test("handlers that do not end though they are cancelled are bounded, too", () => {
    for (const attempt of [1, 2]) for (const number of [0, 1]) job(number, { attempt });
    assert.deepEqual(effects().map(({ what, lease }) => `${what} ${lease}`), [
      "start 0,1", "start 1,1", "cancel 0,1", "start 0,2", "cancel 1,1",
    ]);
    assert.deepEqual(said(session).map(([, { class: kind, code, job }]) => [kind, code, job]), [["released", "full", 1]]);
    finish(0); // nobody wants it, and it has made room
    job(2);
    assert.deepEqual(effects().map(({ what }) => what), ["start"]);
  });

  test("a job that cannot be read fails at once, and takes no other with it", () => {
    const frame = Buffer.from(encode(["LMQ1", "job", [{ job: 1, attempt: 1, service: "s" }, { job: 2, model: new ExtData(5, new Uint8Array(1)) }, { job: 3 }], [0, 1, 2].map(() => Buffer.from("b"))]));
    const at = frame.indexOf(Buffer.from([0xd4, 5, 0]));
    session.received([Buffer.concat([frame.subarray(0, at), Buffer.from([0x81, 5, 1]), frame.subarray(at + 3)])], 0);
    assert.deepEqual(effects().map(({ what, lease }) => [what, lease]), [["start", [1, 1]], ["start", [3, 1]]]);
    const [[op, fields]] = said(session);
    assert.deepEqual([op, fields.job, fields.class, fields.code], ["error", 2, "permanent", "bad_job"]);
    assert.match(fields.message, /model cannot be read/);
    tell(session, "acked", { jobs: [[2, 1]] });
    tell(session, "heartbeat", {}, undefined, 1000);
    assert.deepEqual(said(session, 1000), [["heartbeat", { jobs: [[1, 1], [3, 1]] }, ""]]);
  });

  test("a job of which nobody knows which it is is left out, and no other with it", () => {
    tell(session, "job", [{ job: "1", attempt: 1 }, { job: 1, attempt: null }, { job: 1, attempt: 1.5 }, { attempt: 1 }, { job: 7 }], undefined);
    assert.deepEqual([effects().map(({ lease }) => lease), said(session), session.undecodable], [[[7, 1]], [], 4]);
  });

  test("what is for the handler alone is not looked at", () => {
    const frame = Buffer.from(encode(["LMQ1", "job", { job: 1, attempt: 1, meta: new ExtData(5, new Uint8Array(1)), "x-a": "\ud800" }]));
    frame[frame.indexOf(Buffer.from([0xd4, 5, 0])) + 1] = 0xff; // a timestamp of one byte
    session.received([frame], 0);
    const [{ what, fields }] = effects();
    assert.deepEqual([what, Object.keys(fields)], ["start", ["job", "attempt", "meta", "x-a", "service"]]);
  });

  test("what a loop that stands still was not asked for is handed back, and nothing more is taken until it goes on", () => {
    for (const number of [0, 1]) job(number);
    session.standStill([[1, 1]], 0);
    assert.deepEqual(said(session).map(([op, { capacity, job, class: kind }]) => [op, capacity ?? job, kind]), [
      ["ready", 1, undefined], ["error", 1, "released"],
    ]);
    effects();
    job(2);
    assert.deepEqual([effects(), said(session).map(([, { class: kind }]) => kind)], [[], ["released"]]);
    finish(0);
    assert.deepEqual(said(session).map(([op, { capacity }]) => [op, capacity]), [["ready", 0], ["result", undefined]]);
    session.disconnected(1000);
    session.takeReopen(1000);
    assert.equal(said(session, 1000)[0][1].capacity, 0);
    welcome({}, 1000);
    session.goOn();
    assert.deepEqual(said(session, 1000).map(([op, { capacity }]) => [op, capacity]), [["ready", 2]]);
    job(3, { now: 1000 });
    assert.equal(effects().length, 1);
  });

  test("a loop that stands still holds up no drain, and no lease that nobody wants", () => {
    for (const number of [0, 1]) job(number);
    job(0, { attempt: 2 });
    tell(session, "error", { code: "stale", job: 1, attempt: 1 });
    session.drain(60_000, 0);
    said(session);
    session.standStill([[0, 1], [1, 1], [0, 2]], 0);
    assert.deepEqual(said(session).map(([op, { job, attempt }]) => [op, job, attempt]), [
      ["ready", undefined, undefined], ["error", 0, 2], ["bye", undefined, undefined],
    ]);
    assert.equal(session.running, 0);
  });

  test("cancel and stale reach the handler", () => {
    for (let number = 0; number < 2; ++number) job(number, { stream: true });
    effects();
    tell(session, "cancel", { job: 0, attempt: 1, reason: "cancelled" });
    tell(session, "error", { code: "stale", job: 1, attempt: 1 });
    assert.deepEqual(effects(), [{ what: "cancel", lease: [0, 1] }, { what: "cancel", lease: [1, 1] }]);
    finish(0, { op: "error", fields: { class: "permanent" } });
    finish(1);
    assert.deepEqual(ops(), ["error"]); // the one frees its place, the other is dropped
  });

  test("a window covers pieces once", () => {
    job(1, { stream: true });
    effects();
    for (const size of [1, 2, 3]) session.piece([1, 1], Buffer.alloc(size));
    for (let time = 0; time < 2; ++time) tell(session, "window", { job: 1, attempt: 1, seq: 1 });
    assert.deepEqual(effects(), [{ what: "taken", lease: [1, 1], count: 2, size: 3 }]);
  });

  test("outcomes that are never answered are bounded", () => {
    for (let number = 0; number < OUTCOMES_MAX + 5; ++number) {
      job(number);
      finish(number);
    }
    assert.equal(session.outcomesDropped, 5);
    said(session);
    job(0);
    assert.deepEqual(effects().at(-1).lease, [0, 1]); // it is known no more
  });

  test("nonsense is ignored", () => {
    for (const [op, fields] of [
      ["job", {}], ["job", { job: "x", attempt: 1 }], ["acked", { jobs: 5 }], ["acked", { jobs: [5, ["a"]] }], ["window", { job: 1, attempt: 1 }],
      ["welcome", {}], ["cancel", { job: null }], ["error", {}], ["later", { what: 1 }],
    ]) {
      tell(session, op, fields);
    }
    session.received([Buffer.from("nothing")], 0);
    assert.deepEqual([effects(), ops()], [[], []]);
  });
});
