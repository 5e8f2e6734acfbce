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
let refs, at, home, shards, came, place;

beforeEach(() => begin(["home"]));

function begin(given) {
  [refs, at, came] = [{ next: 1 }, new Map(), []];
  home = connect(["home"]);
  place = { endpoint: given[0], endpoints: given, goRound: (endpoints) => (place.endpoints = endpoints) };
  shards = new Shards(home, connect, () => {}, place);
}

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
const asked = (session, now = 0) => said(session, now).flatMap(([op, maps]) => [maps].flat().map(({ id, ref }) => ({ op, id, ref })));
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

test("a home broker whose shard is not known is named by its endpoint", () => {
  submit("a");
  sendOn("home", "b", ["there"]);
  asked(at.get("there"));
  status("j");
  answer("there", "unknown");
  home.advance(5000);
  turn(5000);
  assert.match(came[0].message, /no answer from the broker at home within 5000 ms/);
});

/** A question for a job's end, of which the home broker says nothing for 10 s. */
function fetchWhileHomeIsAway(timeoutMs) {
  submit("a");
  sendOn("home", "b", ["there"]);
  asked(at.get("there"));
  shards.begin(new Request("fetch", { id: "j", timeoutMs, tell: note }), 0);
  answer("there", "unknown");
  for (const now of [5000, 10_000]) {
    for (const session of [home, at.get("there")]) {
      session.advance(now);
      turn(now);
    }
  }
}

test("who waits for the end of a job waits for a shard that is away", () => {
  fetchWhileHomeIsAway(undefined);
  assert.deepEqual(came, []);
  const questions = asked(home, 10_000).filter(({ op }) => op === "status");
  tell(home, "status", { ref: questions.at(-1).ref, id: "j", state: "running" }, undefined, 10_000);
  turn(10_000);
  assert(asked(home, 10_000).some(({ op, id }) => op === "fetch" && id === "j"));
});

test("as long as he said", () => {
  fetchWhileHomeIsAway(7000);
  assert.match(came[0].message, /within 10000 ms/);
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

// A client that is given the endpoints of brokers of three shards.
const GIVEN = ["home", "there", "far"];
const RULES = [{ name: "a", endpoints: ["home", "home2"] }, { name: "b", endpoints: ["there"] }, { name: "c", endpoints: ["far"] }];

/** Answers the first question of a connection; returns what else is asked on it. */
function hearRules(shard, rules = RULES, now = 0) {
  const [[op, { cluster, ref }], ...rest] = said(home, now);
  assert.deepEqual([op, cluster], ["ping", true]);
  tell(home, "pong", { ref, ...(shard && { shard, shards: rules }) }, undefined, now);
  turn(now);
  return rest.map(([op]) => op);
}

function lose(now, endpoint) {
  home.disconnected(now);
  home.takeReopen(now);
  place.endpoint = endpoint;
}

test("it stays with its shard, and learns the brokers of it", () => {
  begin(GIVEN);
  submit("a");
  hearRules("a");
  assert.deepEqual(place.endpoints, ["home", "home2"]);
});

test("other rules count from the next connection on", () => {
  begin(GIVEN);
  submit("a");
  hearRules("a");
  lose(1000, "home2");
  hearRules("a", [{ name: "a", endpoints: ["home2"] }, { name: "b", endpoints: ["there", "home"] }], 1000);
  assert.deepEqual(place.endpoints, ["far", "home2"], "`far` is nobody's any more");
});

test("without shards what was given counts", () => {
  begin(GIVEN);
  submit("a");
  hearRules(undefined);
  assert.deepEqual(place.endpoints, GIVEN);
});

test("the list is never empty, and bounded", () => {
  begin(GIVEN);
  submit("a");
  hearRules("a", [{ name: "b", endpoints: GIVEN }]);
  assert.deepEqual(place.endpoints, ["home"]);
  lose(1000, "home");
  hearRules("a", [{ name: "a", endpoints: Array.from({ length: 40 }, (_, n) => `home${n}`) }], 1000);
  assert.equal(place.endpoints.length, 16);
});

test("nothing of a broker of another shard is believed", () => {
  begin(GIVEN);
  shards.begin(new Request("follow", { id: "j", tell: note }), 0);
  hearRules("a");
  place.endpoints = ["home", "alias"];
  home.goRound(2);
  lose(1000, "alias");
  hearRules("b", RULES, 1000);
  tell(home, "error", { ref: 1, id: "j", code: "not_found" }, undefined, 1000);
  turn(1000);
  assert.deepEqual([came, place.endpoints], [[], ["home", "home2"]]);
  assert(home.takeReopen(1000), "to the next one, at once");
  assert.deepEqual(hearRules("a", RULES, 1000), ["fetch"]);
});

test("a shard that has another name now is the same", () => {
  begin(GIVEN);
  submit("a");
  hearRules("a");
  lose(1000, "home");
  hearRules("renamed", [{ name: "renamed", endpoints: ["home"] }], 1000);
  assert.deepEqual(place.endpoints, GIVEN);
  assert(!home.takeReopen(1000));
});
