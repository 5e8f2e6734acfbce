// SPDX-License-Identifier: Apache-2.0
// The thread of a worker that talks to the broker, so that a handler that computes on the main one keeps its session. It takes what
// the main thread says (Order), and tells it in turn what to do (Told[], those of a turn in one message).
import { parentPort, workerData } from "node:worker_threads";

import { Driver, now } from "./drive.js";
import { endLookUps } from "./names.js";
import { WorkerSession } from "./worker_session.js";
import { BODY_BYTES_MAX } from "./wire.js";

/** @typedef {import("./worker_session.js").Lease} Lease */
/**
 * @typedef {object} ThreadData
 * @property {import("./settings.js").Peer} peer
 * @property {import("./worker_session.js").Offer} offer
 * @property {Int32Array} cancelled A place for each job that runs, which is 1 when it is cancelled: of shared memory, so that a
 *   handler that computes sees it.
 * @property {Int32Array} gone One place of shared memory, which is 1 when the thread's socket is all gone.
 */
/**
 * @typedef {{ what: "piece", lease: Lease, body: Uint8Array }
 *   | { what: "progress", lease: Lease, word: import("./wire.js").Fields }
 *   | { what: "finish", lease: Lease, place: number, outcome: import("./outcomes.js").Outcome }
 *   | { what: "drain", timeoutMs: number } | { what: "leave" } | { what: "end" }} Order
 */
/**
 * @typedef {(import("./worker_session.js").Effect & { place?: number }) | { what: "log", level: import("./drive.js").Level, message: string }
 *   | { what: "failed", message: string }} Told
 */

const FAREWELL_MS = 1000; // for the goodbye to leave

const port = /** @type {import("node:worker_threads").MessagePort} */ (parentPort);
const { peer, offer, cancelled, gone } = /** @type {ThreadData} */ (workerData);
const session = new WorkerSession(offer, now(), { endpoints: peer.endpoints.length });
const places = [...cancelled.keys()].reverse(); // the free ones
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
    places.push(order.place);
    session.finish(order.lease, order.outcome, now());
  } else if (order.what === "drain") session.drain(now() + order.timeoutMs, now());
  else if (order.what === "leave") session.leave();
  else end();
}

function afterTurn() {
  let left = false;
  for (const effect of session.effects) {
    if (effect.what === "start") {
      const place = /** @type {number} */ (places.pop()); // the session refuses what is over its capacity
      Atomics.store(cancelled, place, 0);
      placeOf.set(effect.lease.join(), place);
      told.push({ ...effect, place });
      continue;
    }
    if (effect.what === "cancel") {
      const place = placeOf.get(effect.lease.join());
      if (place !== undefined) Atomics.store(cancelled, place, 1);
    }
    left ||= effect.what === "left";
    told.push(effect);
  }
  session.effects = [];
  if (driver.fault !== undefined) told.push({ what: "failed", message: `the worker's thread failed: ${driver.fault}` });
  if (told.length > 0) port.postMessage(told);
  told = [];
  if (left) driver.leave(FAREWELL_MS).then(end);
  else if (driver.ended) end();
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
