// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { beforeEach, test } from "node:test";

import * as errors from "../../../../client/node/lib/errors.js";
import { MARK_REF, Piece, Request, Session } from "../../../../client/node/lib/session.js";
import { Submit } from "../../../../client/node/lib/types.js";
import { encode, outcomes, said, tell } from "./support.mjs";

let session;
beforeEach(() => (session = new Session(0, () => 0)));
const nothing = () => {};

function job(id, body = "", kind = "submit", options = {}) {
  const submit = new Submit("s", options, { stream: { stream: true }, leave: { reply: "accepted" } }[kind]);
  const timeoutMs = submit.patienceMs === undefined ? undefined : submit.patienceMs + 5000;
  return new Request(kind, { id, submit, body: Buffer.from(body), tell: nothing, timeoutMs });
}

function begin(...requests) {
  for (const request of requests) session.begin(request, 0);
  return said(session, 0);
}

function reopen(now) {
  session.disconnected(now);
  assert(session.takeReopen(now));
  return said(session, now);
}

const bytesOf = (bodies) => bodies.reduce((sum, body) => sum + body.length, 0);

test("jobs that wait together go in one message", () => {
  const shared = new Submit("s", { lane: "low" });
  const requests = [0, 1, 2].map((n) => new Request("submit", { id: `j${n}`, submit: shared, body: Buffer.from(`${n}`), tell: nothing }));
  const [[op, maps, bodies], ...more] = begin(...requests, job("other", "x", "submit", { lane: "high" }));
  assert.deepEqual([op, more], ["submit", []]);
  assert.deepEqual(maps, [
    { service: "s", lane: "low", id: "j0", ref: 1, batch: 256 }, { id: "j1", ref: 2 }, { id: "j2", ref: 3 },
    { lane: "high", id: "other", ref: 4 },
  ]);
  assert.deepEqual(bodies, ["0", "1", "2", "x"]);
});

test("a message keeps the bounds of a batch", () => {
  const small = Array.from({ length: 40 }, (_, n) => job(`j${n}`, "x".repeat(4096)));
  let messages = begin(...small, job("large", "x".repeat(4097)));
  const count = (maps) => (Array.isArray(maps) ? maps.length : 1);
  assert.equal(messages.reduce((sum, [, maps]) => sum + count(maps), 0), 41);
  for (const [, maps, bodies] of messages) if (Array.isArray(maps)) assert(bytesOf(bodies) <= 64 * 1024);
  assert.equal(messages.at(-1)[1].id, "large");
  messages = begin(...Array.from({ length: 300 }, (_, n) => job(`${"i".repeat(100)}${n}`)));
  for (const [, maps] of messages) {
    assert(maps.length <= 256);
    assert(maps.reduce((sum, { id }) => sum + id.length + 20, 0) < 16384);
  }
  assert.equal(messages.reduce((sum, [, maps]) => sum + maps.length, 0), 300);
});

test("an answer ends its request once", () => {
  begin(job("a"));
  tell(session, "result", { ref: 1, queued_ms: 1500 }, "yes");
  tell(session, "result", { ref: 1 }, "again");
  const [answer, ...more] = outcomes(session);
  assert.deepEqual([answer.id, answer.text, answer.queuedMs, more], ["a", "yes", 1500, []]);
  assert.deepEqual([session.counters.droppedAnswers, session.freed, session.pending], [1, 1, 0]);
});

test("an error is of the class of its code", () => {
  for (const [code, kind, ref] of [["conflict", errors.ConflictError, 1], ["newer_than_this", errors.InternalError, 2]]) {
    begin(job(code));
    tell(session, "error", { ref, code, message: "m", retry_after_ms: 250, upstream_status: 418 }, "why");
    const [error] = outcomes(session);
    assert.deepEqual(
      [error.constructor, error.code, error.retryAfterMs, error.upstreamStatus, error.body.toString(), error.id],
      [kind, code, 250, 418, "why", code]);
  }
});

test("a deadline without an answer is local", () => {
  begin(job("a", "", "submit", { timeoutMs: 1000 }));
  session.advance(5900);
  assert.deepEqual(outcomes(session), []);
  session.advance(6100);
  const [error] = outcomes(session);
  assert.deepEqual([error.constructor, error.local], [errors.DeadlineError, true]);
});

test("who is abandoned is cancelled if it was sent", () => {
  const [sent, unsent] = [job("sent"), job("unsent")];
  begin(sent);
  session.begin(unsent, 0);
  assert(session.abandon(sent, 0, nothing));
  assert(!session.abandon(unsent, 0, nothing));
  assert.deepEqual(said(session), [["cancel", { id: "sent", ref: 3 }, ""]]);
  tell(session, "error", { ref: 1, code: "cancelled" });
  tell(session, "status", { ref: 3, id: "sent", state: "cancelled" });
  const [status] = outcomes(session);
  assert.deepEqual([status.state, status.over, session.freed], ["cancelled", true, 2]);
});

test("cancels go together", () => {
  const jobs = Array.from({ length: 100 }, (_, n) => job(`j${n}`));
  begin(...jobs);
  for (const each of jobs) session.abandon(each, 0);
  const messages = said(session);
  assert.deepEqual(messages.map(([, maps]) => maps.length), [64, 36]);
  assert.deepEqual(messages.flatMap(([, maps]) => maps.map(({ id }) => id)), jobs.map(({ id }) => id));
});

test("a client that is closed tells its callers, or nobody where the process ends", () => {
  begin(job("a"), new Request("status", { id: "b", tell: nothing }));
  session.abandonAll(0, true);
  assert.deepEqual(outcomes(session).map(({ code, local }) => [code, local]), [["cancelled", true], ["cancelled", true]]);
  assert.deepEqual(said(session).map(([op, { id }]) => [op, id]), [["cancel", "a"]]);
  begin(job("c"));
  session.abandonAll(0, false);
  assert.deepEqual([outcomes(session), said(session).map(([op]) => op)], [[], ["cancel"]]);
});

// ---- connections

test("a new connection sends all that is open under the same ids", () => {
  const [first] = begin(job("a", "x"), job("b", "y"), new Request("fetch", { id: "c", tell: nothing }));
  tell(session, "result", { ref: 1 });
  const again = reopen(1000);
  assert.deepEqual(again.map(([op, { id }, body]) => [op, id, body]), [["submit", "b", "y"], ["fetch", "c", ""]]);
  assert.equal(again[0][1].batch, 256); // is said on each connection
  assert.equal(first[0], "submit");
});

test("a program that stood still does not take that for the broker's silence", () => {
  begin(job("a"));
  session.stoodStill(9000);
  session.advance(9000);
  assert(!session.takeReopen(9000));
  session.advance(10_000);
  assert.deepEqual(said(session, 10_000).map(([op]) => op), ["ping"]);
});

test("nonsense ends nothing", () => {
  begin(job("a"));
  session.received([Buffer.from([0xff])], 0);
  tell(session, "result", { ref: [1] });
  tell(session, "chunk", { ref: 1, seq: "x" });
  tell(session, "status", { ref: 1 });
  assert.deepEqual([outcomes(session), session.pending], [[], 1]);
});

test("what cannot be read of an answer fails its request alone", () => {
  begin(job("a"), job("b"), job("c"), job("s", "", "stream"));
  session.received([Buffer.from(encode(["LMQ1", "result", [{ ref: 1 }, { ref: 2 }, { ref: 3 }], [Buffer.from("x"), "no bin", Buffer.from("z")]]))], 0);
  tell(session, "chunk", { ref: 4, seq: "x" });
  const [answer, error, other, broken] = outcomes(session);
  assert.deepEqual([answer.text, other.text], ["x", "z"]);
  assert.deepEqual([error.constructor, error.local, error.id, broken.constructor, broken.id], [errors.InternalError, true, "b", errors.InternalError, "s"]);
  assert.match(broken.message, /seq is no int/);
});

test("an optional field that cannot be read takes no answer away", () => {
  begin(job("a"), job("b"));
  const header = Buffer.from(encode(["LMQ1", "result", [{ ref: 1, usage: { k: 1 } }, { ref: 2 }], [Buffer.from("x"), Buffer.from("y")]]));
  header[header.indexOf("\xa1k", "latin1")] = 0xcc; // the key is a number now
  session.received([header], 0);
  const [answer, other] = outcomes(session);
  assert.deepEqual([answer.text, answer.usage, other.text, other.usage], ["x", {}, "y", {}]);
});

test("an optional field of another type counts as absent", () => {
  const odd = {
    queued_ms: "5", ran_ms: -1, attempts: 1.5, usage: 5, lane: 5, chunks: "x", message: 5, limiter: [1], upstream_status: 2 ** 40, retry_after_ms: "soon",
    "x-a": 1,
  };
  begin(job("a"), job("b"), new Request("status", { id: "c", tell: nothing }), new Request("ping", { tell: nothing }), job("l", "", "leave"), job("d"));
  tell(session, "result", { ...odd, ref: 1 });
  tell(session, "error", { ...odd, ref: 2, code: "conflict" });
  tell(session, "status", { ...odd, ref: 3, error: 5, eta_ms: "x", pct: "y" });
  tell(session, "pong", { ...odd, ref: 4, shards: [5, { name: 5 }, { name: "s", endpoints: 5 }], now_ms: "x" });
  tell(session, "accepted", { ...odd, ref: 5, position: "x", ignored: 5, durable: 5 });
  tell(session, "error", { ...odd, ref: 6, code: 5 });
  const [answer, error, status, pong, accepted, unknown] = outcomes(session);
  assert.deepEqual([answer.queuedMs, answer.ranMs, answer.attempts, answer.usage, answer.lane, answer.chunks], [0, 0, 1, {}, undefined, 0]);
  assert.deepEqual([error.constructor, error.message, error.limiter, error.upstreamStatus, error.retryAfterMs], [errors.ConflictError, "", undefined, undefined, undefined]);
  assert.deepEqual([status.state, status.error, status.etaMs, status.pct], ["unknown", {}, undefined, undefined]);
  assert.deepEqual([pong.shards, pong.brokerTime], [{ s: [] }, new Date(0)]);
  assert.deepEqual([accepted.position, accepted.ignored, accepted.durable], [0, [], false]);
  assert.deepEqual([unknown.constructor, unknown.code], [errors.InternalError, "internal"]);
});

test("an upstream's status is one of HTTP", () => {
  let ref = 0;
  for (const [said, status] of [[99], [100, 100], [418, 418], [599, 599], [600], ["teapot"], [418.5], [2 ** 60]]) {
    begin(job(String(said)));
    tell(session, "error", { ref: ++ref, code: "upstream_rejected", upstream_status: said });
    assert.deepEqual(outcomes(session).map((error) => error.upstreamStatus), [status]);
  }
});

// ---- a broker that cannot read a message says so, and mostly does not know of which request it is

const refuse = (code = "bad_request", more = {}) => tell(session, "error", { code, message: "broken", ...more });
const mark = () => tell(session, "pong", { ref: MARK_REF });
const submitted = (messages) => messages.filter(([op]) => op === "submit").map(([, fields]) => fields.id);

test("what names a request comes first in its message", () => {
  session.begin(job("a", "", "submit", { extra: { "x-a": 1 } }), 0);
  const frame = Buffer.from(session.nextMessage(0)[0]);
  for (const name of ["\xa3ref", "\xa2id"]) assert(frame.indexOf(name, "latin1") < frame.indexOf("\xa7service", "latin1"));
});

test("those of a message that was refused go one by one, and the broken one fails alone", () => {
  for (const code of ["bad_request", "too_large"]) {
    session = new Session(0, () => 0);
    const requests = [..."abcd"].map((id) => job(id));
    assert.equal(begin(...requests)[0][1].length, 4);
    session.abandon(requests[3], 0);
    refuse(code);
    assert.deepEqual(outcomes(session), []);
    const ping = ["ping", undefined, MARK_REF];
    assert.deepEqual(said(session).map(([op, { id, ref }]) => [op, id, ref]), [
      ping, ["submit", "a", 1], ping, ["submit", "b", 2], ping, ["submit", "c", 3], ping, ["cancel", "d", 5],
    ]);
    tell(session, "status", { ref: 5, state: "unknown" });
    mark();
    mark();
    refuse(code); // between the marks of a and b
    assert.deepEqual(outcomes(session).map((error) => [error.code, error.id, error.message, error.local]), [[code, "b", "broken", false]]);
    mark();
    mark();
    for (const ref of [1, 3]) tell(session, "result", { ref }, "x");
    assert.deepEqual(outcomes(session).map(({ id }) => id), ["a", "c"]);
    assert.equal(session.pending, 0);
  }
});

test("a second refusal of a message that was under way blames nobody of the first", () => {
  begin(job("a"), job("b"));
  begin(job("c"), job("d"));
  refuse();
  refuse(); // of the second one, before any mark is answered
  assert.deepEqual(submitted(said(session)), ["a", "b", "c", "d"]);
  mark();
  mark();
  refuse();
  assert.deepEqual(outcomes(session).map(({ id }) => id), ["b"]);
});

test("what is new meanwhile travels together behind them", () => {
  begin(job("a"), job("b"));
  refuse();
  const messages = begin(job("c"), job("d"));
  assert.deepEqual(messages.pop()[1].map(({ id }) => id), ["c", "d"]);
  assert.deepEqual(submitted(messages), ["a", "b"]);
});

test("what went alone is said again, and what is named is not", () => {
  begin(job("a"));
  refuse();
  assert.deepEqual(said(session).map(([op, { id }]) => [op, id]), [["ping", undefined], ["submit", "a"], ["ping", undefined]]);
  mark();
  refuse();
  mark();
  assert.deepEqual(outcomes(session).map(({ id }) => id), ["a"]);
  begin(job("b"), job("c"));
  refuse("bad_request", { ref: 2 });
  assert.deepEqual(outcomes(session).map(({ id }) => id), ["b"]);
  refuse("forbidden");
  assert.deepEqual(said(session), []);
});

test("what the broker has read is not said again", () => {
  for (const pair of ["ab", "cd", "ef"]) begin(...[...pair].map((id) => job(id)));
  tell(session, "result", { ref: 4 }, "d");
  refuse();
  assert.deepEqual(submitted(said(session)), ["e", "f"]);
  for (let time = 0; time < 3; ++time) mark();
  refuse(); // of nothing that is known
  assert.deepEqual(said(session), []);
});

test("a new connection forgets who was suspected", () => {
  begin(job("a"), job("b"));
  refuse();
  said(session); // the first mark, whose answer nobody will hear
  const [[, maps]] = reopen(1000);
  assert.deepEqual(maps.map(({ id }) => id), ["a", "b"]);
  refuse(); // of this message, and of nothing that was said before a mark
  assert.deepEqual(submitted(said(session)), ["a", "b"]);
});

test("a message keeps the entries of a map", () => {
  const wide = [0, 1].map((turn) => Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`x-${turn}-${n}`, n])));
  const messages = begin(...[0, 1, 2, 3].map((n) => job(`j${n}`, "", "submit", { extra: wide[n % 2] })));
  assert.deepEqual(messages.map(([, fields]) => fields.id), ["j0", "j1", "j2", "j3"]);
  const [[, maps]] = begin(...[0, 1, 2, 3].map((n) => job(`k${n}`, "", "submit", { extra: wide[0] })));
  assert.deepEqual(maps.map((one) => Object.keys(one).length), [43, 2, 2, 2]);
});

test("timers of requests that ended do not pile up", () => {
  for (let n = 0; n < 20_000; ++n) {
    const request = job(`j${n}`, "", "submit", { timeoutMs: 3_600_000 });
    session.begin(request, 0);
    session.abandon(request, 0);
  }
  assert(session.timers < 2000, `${session.timers} timers`);
});

// ---- streams

const chunk = (seq, now = 0, body = "x") => tell(session, "chunk", { ref: 1, seq }, body, now);

// ---- watches -----------------------------------------------------------------------------------------------------

function watch(filter = {}) {
  const request = new Request("watch", { filter, tell: nothing });
  return { request, messages: begin(request) };
}

function hear(first, count = 1, more = {}) {
  for (let seq = first; seq < first + count; ++seq) {
    tell(session, "event", { ref: 1, seq, what: "ended", id: `j${seq}`, state: "succeeded", at_ms: 1500, ...more });
  }
}

const shown = () => outcomes(session).map(({ event }) => [event.what, event.seq, event.gap, event.leftOut]);

test("a watch begins, says what comes, and is renewed", () => {
  assert.deepEqual(watch({ client: "me", lane: "low" }).messages, [["watch", { client: "me", lane: "low", batch: 256, ref: 1 }, ""]]);
  hear(0);
  assert.deepEqual(outcomes(session), []); // nothing comes before `watching`
  tell(session, "watching", { ref: 1, seq: 0 });
  hear(0, 2);
  const [first, ...changes] = outcomes(session);
  assert.deepEqual([first.event.what, first.event.gap, first.event.over], ["watching", false, false]);
  assert.deepEqual(changes.map(({ event }) => [event.id, event.seq, event.at.getTime(), event.over]), [["j0", 0, 1500, true], ["j1", 1, 1500, true]]);
  const renewed = [];
  for (let now = 1000; now < 25_000; now += 1000) {
    tell(session, "pong", { ref: 0 }, undefined, now); // the broker is there
    session.advance(now);
    for (const [op, fields] of said(session, now)) if (op === "watch") renewed.push([now, fields]);
    tell(session, "watching", { ref: 1, seq: 2 }, undefined, now);
  }
  assert.deepEqual(renewed, [10_000, 20_000].map((now) => [now, { client: "me", lane: "low", ref: 1 }]));
  assert.deepEqual(outcomes(session), []);
});

test("what the reader of a watch took is confirmed, and no more", () => {
  const { request } = watch();
  tell(session, "watching", { ref: 1, seq: 0 });
  hear(0, 600);
  const changes = outcomes(session);
  for (const change of changes.slice(0, 256)) session.took(request, change); // `watching` and 255 events
  assert.deepEqual(said(session), []);
  session.took(request, changes[256]);
  assert.deepEqual(said(session), [["seen", { seq: 255, ref: 1 }, ""]]);
});

test("a reader of a watch that takes nothing has a bound", () => {
  const { request } = watch();
  for (let life = 0; life < 8; ++life) {
    tell(session, "watching", { ref: 1, seq: 0 });
    hear(0, 1024);
    reopen(life + 1);
  }
  const changes = outcomes(session);
  assert.equal(changes.length, 4096);
  for (const change of changes) session.took(request, change);
  tell(session, "watching", { ref: 1, seq: 0 });
  assert.deepEqual(shown(), [["watching", 0, true, 8 * 1024 - (4096 - 4)]]);
});
