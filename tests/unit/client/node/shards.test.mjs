// SPDX-License-Identifier: Apache-2.0
// Sessions whose messages the test carries.
import { strict as assert } from "node:assert";
import { beforeEach, test } from "node:test";

import * as errors from "../../../../client/node/lib/errors.js";
import { Request, Session } from "../../../../client/node/lib/session.js";
import { Shards } from "../../../../client/node/lib/shards.js";
import { Submit } from "../../../../client/node/lib/types.js";
import { said, tell } from "./support.mjs";

const MOVES_MAX = 4;
const SHARDS = [{ name: "a", endpoints: ["home"] }, { name: "b", endpoints: ["there"] }, { name: "c", endpoints: ["far"] }];
let refs, at, home, shards, came;

beforeEach(() => {
  [refs, at, came] = [{ next: 1 }, new Map(), []];
  home = connect(["home"]);
  shards = new Shards(home, connect, () => {});
});

function connect([endpoint]) {
  if (!endpoint) throw new TypeError("no endpoint");
  const session = new Session(0, () => 0, { refs });
  at.set(endpoint, session);
  return session;
}

/** All that can be done without a word from a broker. */
function turn(now = 0) {
  shards.settle(now);
  for (let again = true; again; ) {
    again = false;
    for (const session of shards.sessions) {
      for (const [hear, value] of session.events.splice(0)) {
        hear(value, now);
        again = true;
      }
    }
  }
}

const note = (outcome) => void came.push(outcome);
const submit = (id, service = "s", options = {}) =>
  shards.begin(new Request("submit", { id, submit: new Submit(service, options), tell: note }), 0);
const status = (id) => shards.begin(new Request("status", { id, timeoutMs: 10_000, tell: note }), 0);
const asked = (session) => said(session).flatMap(([op, maps]) => [maps].flat().map(({ id, ref }) => ({ op, id, ref })));
const ids = (endpoint) => asked(at.get(endpoint)).map(({ id }) => id);
const freed = () => shards.sessions.reduce((sum, session) => sum + session.freed, 0);

function sendOn(endpoint, shard, endpoints) {
  const session = at.get(endpoint);
  for (const { id, ref } of asked(session)) tell(session, "error", { ref, id, code: "not_owner", shard, endpoints });
  turn();
}

test("a job that is sent on goes there, and so do the next ones of its kind", () => {
  submit("a");
  sendOn("home", "b", ["there"]);
  submit("second");
  submit("others", "other");
  submit("clients", "s", { client: "c" });
  assert.deepEqual(ids("there"), ["a", "second"]);
  assert.deepEqual(ids("home"), ["others", "clients"]);
  assert.equal(freed(), 0);
});

test("rules that point in a circle are followed a few times", () => {
  submit("a");
  let here = "home";
  for (let move = 0; move < MOVES_MAX; ++move) {
    const name = "bc"[move % 2];
    sendOn(here, name, [name]);
    here = name;
  }
  assert.deepEqual(came, []);
  sendOn(here, "b", ["b"]);
  assert(came[0] instanceof errors.NotOwnerError);
  assert.equal(freed(), 1);
});

test("a shard without an endpoint cannot be reached", () => {
  submit("a");
  sendOn("home", "b", []);
  assert(came[0] instanceof errors.UnavailableError);
  assert.match(came[0].message, /"b" cannot be reached/);
});

test("what was learned is forgotten when the home broker was lost", () => {
  submit("a");
  sendOn("home", "b", ["there"]);
  home.disconnected(1000);
  home.takeReopen(1000);
  turn(1000);
  submit("second");
  assert.deepEqual(ids("home"), [], "while it is away what was learned counts");
  tell(home, "pong", { ref: 0 }, undefined, 1000);
  turn(1000);
  submit("third");
  assert.deepEqual(ids("home"), ["third"]);
});

/** A question that the home broker does not know the job of, until all shards are asked. */
function seek(more) {
  status("j");
  answer("home", "unknown");
  const [{ op, ref }] = asked(home);
  assert.equal(op, "ping");
  tell(home, "pong", { ref, ...more });
  turn();
}

function answer(endpoint, state) {
  const session = at.get(endpoint);
  for (const { id, ref } of asked(session)) tell(session, "status", { ref, id, state });
  turn();
}

test("the shard that knows the job answers, and is remembered", () => {
  seek({ shard: "a", shards: SHARDS });
  answer("home", "unknown");
  answer("there", "running"); // to the search
  answer("there", "running"); // to the caller
  assert.deepEqual(came.map(({ state }) => state), ["running"]);
  status("j");
  assert.deepEqual(ids("there"), ["j"]);
  assert.equal(freed(), 0); // one has ended, and the search at `far` is open
});

test("what nobody knows is unknown", () => {
  seek({ shard: "a", shards: SHARDS });
  for (const endpoint of ["home", "there", "far"]) answer(endpoint, "unknown");
  assert.deepEqual(came.map(({ state }) => state), ["unknown"]);
  assert.equal(freed(), 1);
});

test("known shards are asked also while the home broker is away", () => {
  submit("a");
  sendOn("home", "b", ["there"]);
  asked(at.get("there"));
  status("j");
  answer("there", "running"); // to the search, which the home broker does not answer
  answer("there", "running");
  assert.deepEqual(came.map(({ state }) => state), ["running"]);
  status("a"); // it is remembered
  assert.deepEqual(ids("there"), ["a"]);
});

test("a shard that is silent is named", () => {
  seek({ shard: "a", shards: SHARDS });
  for (const endpoint of ["home", "there"]) answer(endpoint, "unknown");
  at.get("far").advance(5000);
  turn(5000);
  assert(came[0] instanceof errors.DeadlineError);
  assert.match(came[0].message, /from shard "c" within/);
});

test("without shards the first answer stands", () => {
  seek({});
  assert.deepEqual(came.map(({ state }) => state), ["unknown"]);
  assert.equal(freed(), 1);
});

test("closing ends what is sought", () => {
  seek({ shard: "a", shards: SHARDS });
  shards.abandonAll(0, (id) => new errors.CancelledError("closed", { id }), true);
  turn();
  assert.equal(came.length, 1);
  assert(came[0] instanceof errors.CancelledError);
});
