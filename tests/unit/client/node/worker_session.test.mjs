// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { beforeEach, describe, test } from "node:test";

import { OUTCOMES_MAX, WorkerSession } from "../../../../client/node/lib/worker_session.js";
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

  test("a new connection names the session and all it holds", () => {
    meet();
    job(1, { stream: true });
    job(2);
    session.piece([1, 1], Buffer.from("piece"), 0);
    finish(2, { body: "done" });
    said(session);
    session.disconnected(1000);
    assert(session.takeReopen(1000));
    const [ready, heartbeat, chunk, result] = said(session, 1000);
    assert.equal(ready[1].session, "one");
    assert.deepEqual(heartbeat.slice(0, 2), ["heartbeat", { jobs: [[1, 1], [2, 1]] }]);
    assert.deepEqual(chunk, ["chunk", { job: 1, attempt: 1, seq: 0 }, "piece"]);
    assert.deepEqual(result, ["result", { job: 2, attempt: 1 }, "done"]);
  });

  test("a try of libzmq that comes through is the connection that was due", () => {
    assert.deepEqual(ops(0), ["ready"]); // it waits in the socket
    for (let lost = 0; lost < 3; ++lost) {
      session.disconnected(lost * 1000); // before any handshake
      session.takeReopen(lost * 1000);
    }
    session.connected();
    assert(!session.takeReopen(60_000)); // else the broker would have two workers
    session.disconnected(3000);
    session.connected();
    assert(session.takeReopen(60_000)); // one that was there and is lost is replaced
  });

  test("unknown_session is greeted once on the same connection", () => {
    meet();
    job(1);
    for (let time = 0; time < 3; ++time) tell(session, "error", { code: "unknown_session" }, undefined, 1000);
    assert.deepEqual(ops(1000), ["ready", "heartbeat"]);
    assert(!session.takeReopen(1000));
  });

  test("an outcome during a greeting is said behind it", () => {
    meet();
    job(1);
    session.disconnected(1000);
    session.takeReopen(1000);
    assert.deepEqual(ops(1000), ["ready", "heartbeat"]);
    finish(1, { body: "x", now: 1000 });
    assert.deepEqual(ops(1000), ["result"]);
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

  test("the last word is said a few times a second", () => {
    session.progress([1, 1], { pct: 10, note: "reads" }, 0);
    assert.deepEqual(words(0), [{ job: 1, attempt: 1, pct: 10, note: "reads" }]);
    session.progress([1, 1], { pct: 11 }, 100);
    session.progress([1, 1], { pct: 12 }, 200);
    assert.equal(session.nextWakeup(), 250);
    assert.deepEqual(words(249), []);
    assert.deepEqual(words(250), [{ job: 1, attempt: 1, pct: 12 }]);
    assert.deepEqual(words(900), []);
  });

  test("it is said again behind the inventory", () => {
    session.progress([1, 1], { pct: 10 }, 0);
    session.progress([1, 1], { pct: 11 }, 100);
    said(session, 100);
    tell(session, "error", { code: "unknown_session" }, undefined, 200);
    assert.deepEqual(said(session, 200).map(([op, fields]) => [op, fields.pct]),
      [["ready", undefined], ["heartbeat", undefined], ["progress", 11]]);
  });

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

  test("an outcome is kept until it is answered", () => {
    job(1);
    const [{ what, lease, fields, body }] = effects();
    assert.deepEqual([what, lease, fields.service, body.toString()], ["start", [1, 1], "s", "body"]);
    finish(1, { fields: { usage: { requests: 1 } }, body: "x" });
    assert.deepEqual(said(session), [["result", { job: 1, attempt: 1, usage: { requests: 1 } }, "x"]]);
    tell(session, "heartbeat", {}, undefined, 1000);
    assert.deepEqual(said(session, 1000), [["heartbeat", { jobs: [[1, 1]] }, ""]]);
    tell(session, "acked", { jobs: [[1, 1], [7, 7]] }, undefined, 1000);
    tell(session, "heartbeat", {}, undefined, 2000);
    assert.deepEqual(said(session, 2000), [["heartbeat", {}, ""]]);
  });

  test("a lease is started once, and its lost outcome is said again", () => {
    job(1);
    job(1);
    assert.equal(effects().length, 1);
    finish(1);
    assert.deepEqual(ops(), ["result"]);
    job(1);
    assert.deepEqual([ops(), effects()], [["result"], []]);
  });

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

  test("an outcome that the broker cannot read is said otherwise, once", () => {
    welcome({ batch: 16 });
    for (const number of [0, 1]) job(number);
    for (const number of [0, 1]) finish(number, { fields: { usage: { requests: number } }, body: "body" });
    said(session);
    tell(session, "error", { code: "bad_request", message: "item 1 of the batch: no", job: 1, attempt: 1 });
    const [[op, fields, body]] = said(session);
    assert.deepEqual([op, fields.job, fields.class, fields.code, body], ["error", 1, "permanent", "bad_outcome", ""]);
    assert.match(fields.message, /item 1 of the batch: no/);
    tell(session, "error", { code: "bad_request", message: "again", job: 1, attempt: 1 });
    assert.deepEqual(said(session), []);
    tell(session, "heartbeat", {}, undefined, 1000);
    assert.deepEqual(said(session, 1000), [["heartbeat", { jobs: [[0, 1]] }, ""]]);
  });

  test("a piece over the broker's limit ends its job", () => {
    job(1, { stream: true });
    session.piece([1, 1], Buffer.alloc(1001), 0);
    assert.deepEqual(said(session).map(([op, { code }]) => [op, code]), [["error", "too_large"]]);
    assert.deepEqual(effects().map(({ what }) => what), ["start", "cancel"]);
  });

  test("a newer attempt ends the older one", () => {
    job(1);
    job(1, { attempt: 2 });
    assert.deepEqual(effects().map(({ what, lease }) => [what, lease]), [["start", [1, 1]], ["cancel", [1, 1]], ["start", [1, 2]]]);
    finish(1); // nobody wants it
    assert.deepEqual([ops(), session.running], [[], 1]);
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

  test("an answer over the broker's limit is a failure that says so", () => {
    job(1);
    finish(1, { body: "x".repeat(1001) });
    const [[op, fields]] = said(session);
    assert.deepEqual([op, fields.class, fields.code], ["error", "permanent", "too_large"]);
    assert.match(fields.message, /1001 bytes, over body_bytes_max 1000/);
  });

  test("a piece that the broker refuses ends its job", () => {
    job(1, { stream: true });
    effects();
    tell(session, "error", { code: "too_large", job: 1, attempt: 1, message: "m" });
    assert.deepEqual(effects(), [{ what: "cancel", lease: [1, 1] }]);
    assert.deepEqual(said(session).map(([op, { code }]) => [op, code]), [["error", "chunk_refused"]]);
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

  test("outcomes of a turn go together where the broker takes batches", () => {
    welcome({ batch: 16 });
    for (let number = 0; number < 2; ++number) job(number);
    for (let number = 0; number < 2; ++number) finish(number, { fields: { usage: { requests: number } }, body: `${number}` });
    const [[op, maps, bodies], ...more] = said(session);
    assert.deepEqual([op, maps.map((one) => one.job), bodies, more], ["result", [0, 1], ["0", "1"], []]);
    assert.deepEqual(maps[1].usage, { requests: 1 });
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

describe("time", () => {
  beforeEach(meet);

  test("it answers heartbeats, and says its own where none comes", () => {
    tell(session, "heartbeat", {}, undefined, 900);
    assert.deepEqual(ops(900), ["heartbeat"]);
    session.advance(1500);
    assert.deepEqual(ops(1500), []);
    session.advance(2200);
    assert.deepEqual(ops(2200), ["heartbeat"]);
  });

  test("a silent broker is connected to anew", () => {
    session.advance(2900);
    assert(!session.takeReopen(2900));
    session.advance(3000);
    assert(session.takeReopen(3000));
  });
});

describe("leaving", () => {
  beforeEach(meet);

  test("a drain finishes what runs, takes no more and says bye", () => {
    for (let number = 0; number < 2; ++number) job(number);
    effects();
    session.drain(10_000, 0);
    assert.deepEqual(said(session).map(([op, fields]) => [op, fields.capacity]), [["ready", 2]]);
    finish(0, { now: 1000 });
    job(5, { now: 1000 });
    const [ready, result, released] = said(session, 1000);
    assert.deepEqual([ready[1].capacity, result[0], released[1].class], [1, "result", "released"]);
    finish(1, { now: 2000 });
    assert.deepEqual([ops(2000), effects()], [["result", "bye"], []]);
    tell(session, "acked", { jobs: [[0, 1], [1, 1], [5, 1]] }, undefined, 2100);
    assert.deepEqual(effects(), [{ what: "left", finished: true }]);
  });

  test("a drain of an idle worker is over at once", () => {
    session.drain(10_000, 0);
    assert.deepEqual([ops(), effects()], [["bye"], [{ what: "left", finished: true }]]);
  });

  test("a drain ends at its deadline", () => {
    job(1);
    effects();
    session.drain(10_000, 0);
    said(session);
    tell(session, "heartbeat", {}, undefined, 9000);
    session.advance(10_000);
    assert.deepEqual(effects(), [{ what: "cancel", lease: [1, 1] }, { what: "left", finished: false }]);
    assert(ops(10_000).includes("bye"));
  });

  test("a goodbye waits for answers no longer than an interval", () => {
    job(1);
    finish(1);
    effects();
    session.drain(10_000, 0);
    session.advance(900);
    assert.deepEqual(effects(), []);
    session.advance(1000);
    assert.deepEqual(effects(), [{ what: "left", finished: true }]);
  });

  test("an operator's drain is taken back by welcome", () => {
    tell(session, "drain", {});
    job(1);
    assert.deepEqual(said(session).map(([, fields]) => fields.class), ["released"]);
    welcome();
    job(2);
    assert.deepEqual(effects().map(({ what }) => what), ["start"]);
  });
});
