// SPDX-License-Identifier: Apache-2.0
// The thread of a worker that talks to the broker, so that a handler that computes on the main one keeps its session. It takes what
// the main thread says (Order), and tells it in turn what to do (Told[], those of a turn in one message).
import { write } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

import { Driver, now } from "./drive.js";
import { LoopWatch } from "./loop_watch.js";
import { endLookUps } from "./names.js";
import { Places } from "./places.js";
import { WorkerSession } from "./worker_session.js";
import { BODY_BYTES_MAX } from "./tables.js";

/** @typedef {import("./worker_session.js").Lease} Lease */
/**
 * @typedef {object} ThreadData
 * @property {import("./settings.js").Peer} peer
 * @property {import("./worker_session.js").Offer} offer
 * @property {SharedArrayBuffer} memory Of the places of jobs.
 * @property {boolean} logsToStderr Whether that is where what is for people goes.
 * @property {Int32Array} gone One place of shared memory, which is 1 when the thread's socket is all gone.
 */
/**
 * @typedef {{ what: "piece", lease: Lease, body: Uint8Array }
 *   | { what: "progress", lease: Lease, word: import("./wire.js").Fields }
 *   | { what: "finish", lease: Lease, place: number, outcome: import("./outcomes.js").Outcome }
 *   | { what: "drain", timeoutMs: number } | { what: "leave" } | { what: "answer" } | { what: "end" }} Order
 */
/**
 * @typedef {(import("./worker_session.js").Effect & { place?: number, turn?: number }) | { what: "ask" }
 *   | { what: "log", level: import("./drive.js").Level, message: string } | { what: "failed", message: string }} Told
 */

const FAREWELL_MS = 1000; // for the goodbye to leave
const STDERR = 2;
const SAID_EVERY_MS = 60_000; // of a loop that stands still again and again
const TURN_MAX = 2 ** 31 - 1;

const port = /** @type {import("node:worker_threads").MessagePort} */ (parentPort);
const { peer, offer, memory, logsToStderr, gone } = /** @type {ThreadData} */ (workerData);
const session = new WorkerSession(offer, now(), { endpoints: peer.endpoints.length });
const places = new Places(memory);
const free = Array.from({ length: places.count }, (_, place) => place).reverse();
const watch = new LoopWatch(places);
let turn = 0; // of the last job that was given a place
/** @type {NodeJS.Timeout | undefined} */
let look;
let saidAt = -Infinity;
let saidStill = false;
/** @type {Map<string, number>} The place of each job that runs. */
const placeOf = new Map();
/** @type {Told[]} */
let told = [];

const driver = new Driver(peer, session, BODY_BYTES_MAX, (level, message) => told.push({ what: "log", level, message }), afterTurn);
driver.wake();

port.on("message", (/** @type {Order[]} */ orders) => {
  for (const order of orders) obey(order);
  driver.wake();
});

/** @param {Order} order */
function obey(order) {
  if (order.what === "piece") session.piece(order.lease, order.body, now());
  else if (order.what === "progress") session.progress(order.lease, order.word, now());
  else if (order.what === "finish") {
    placeOf.delete(order.lease.join());
    free.push(order.place);
    session.finish(order.lease, order.outcome, now());
  } else if (order.what === "drain") session.drain(now() + order.timeoutMs, now());
  else if (order.what === "leave") session.leave();
  else if (order.what === "answer") goOn();
  else end();
}

function afterTurn() {
  let left = false;
  for (const effect of session.effects) {
    if (effect.what === "start") {
      const place = /** @type {number} */ (free.pop()); // the session refuses what is over its capacity
      turn = turn < TURN_MAX ? turn + 1 : 1;
      places.give(place, turn);
      placeOf.set(effect.lease.join(), place);
      watch.gave({ lease: effect.lease, place, turn, at: now() });
      told.push({ ...effect, place, turn });
      continue;
    }
    if (effect.what === "cancel") {
      const place = placeOf.get(effect.lease.join());
      if (place !== undefined) places.cancel(place);
    }
    left ||= effect.what === "left";
    told.push(effect);
  }
  session.effects = [];
  if (driver.fault !== undefined) told.push({ what: "failed", message: `the worker's thread failed: ${driver.fault}` });
  if (told.length > 0) port.postMessage(told);
  told = [];
  lookLater();
  if (left) driver.leave(FAREWELL_MS).then(end);
  else if (driver.ended) end();
}

// ---- the program's loop ------------------------------------------------------------------------------------

function lookLater() {
  if (look) return;
  const { due } = watch;
  if (due === undefined) return;
  look = setTimeout(lookNow, Math.ceil(Math.max(0, due - now()))).unref();
}

/** Hands back what the loop has not taken up, where it stands still. */
function lookNow() {
  look = undefined;
  const known = watch.stillSince !== undefined;
  const back = watch.look(now());
  for (const { lease, place } of back) {
    placeOf.delete(lease.join());
    free.push(place);
  }
  if (back.length > 0) {
    session.standStill(back.map(({ lease }) => lease), now());
    driver.wake();
  }
  if (back.length > 0 && !known) {
    if (now() >= saidAt + SAID_EVERY_MS) {
      saidAt = now();
      saidStill = true;
      sayNow("the program's loop stands still, as a handler computes without a pause; no job is taken until it goes on, and those that " +
        `had not begun are handed back: ${back.length}`);
    }
    port.postMessage([/** @type {Told} */ ({ what: "ask" })]);
  }
  lookLater();
}

/** The loop has answered: it has come by all that it was told before it was asked. */
function goOn() {
  const stood = Math.round((now() - (watch.stillSince ?? now())) / 1000);
  watch.stillSince = undefined;
  session.goOn();
  if (saidStill) told.push({ what: "log", level: "warning", message: `the program's loop goes on; it stood still for ${stood} s` });
  saidStill = false;
}

/**
 * A warning, past the loop where it goes to stderr. Not by this thread, which a pipe that nobody reads must not hold up.
 * @param {string} message
 */
function sayNow(message) {
  if (logsToStderr) return write(STDERR, `lanemq: ${message}\n`, () => {});
  told.push({ what: "log", level: "warning", message });
}

/** Ends the thread, not before its socket is all gone. */
function end() {
  driver.end(0); // for the order of that name; else it has ended
  Promise.all([driver.gone(), endLookUps()]).then(() => {
    Atomics.store(gone, 0, 1);
    Atomics.notify(gone, 0);
    port.close();
  });
}
