// SPDX-License-Identifier: Apache-2.0
// A client's session, its driver and its bounds; and what becomes of it when the process is told to end.
import { randomBytes } from "node:crypto";

import { Driver, now } from "./drive.js";
import { ClientFullError, LaneMQError, TooLargeError } from "./errors.js";
import { Queue } from "./queue.js";
import { CONTROL_TIMEOUT, Request, Session, closedError } from "./session.js";
import { endpointsOf } from "./settings.js";
import { Shards } from "./shards.js";
import { BODY_BYTES_MAX } from "./tables.js";
import * as wire from "./wire.js";

/** Requests without an answer, of one client. */
export const PENDING_MAX = 10_000;
/** The bytes of their bodies. A larger body is taken when nothing else is pending. */
export const PENDING_BYTES_MAX = 256 * 1024 * 1024;
// How long the broker has to hear of what is cancelled; and where none has spoken on this connection.
const CLOSE_TIMEOUT = 3000;
const AWAY_TIMEOUT = 500;
const LINGER_MS = 500; // for the last messages to leave

/** An id that nobody guesses: whoever knows a job's id may read its answer. */
export const makeId = () => randomBytes(16).toString("hex");

export class Engine {
  #peer;
  #log;
  #refs = { next: 1 };
  #shards;
  /** @type {Driver} Of the home session. */
  #driver;
  /** @type {Map<Session, Driver>} Of all. */
  #drivers = new Map();
  #pendingMax;
  #pendingBytesMax;
  #pending = 0;
  #pendingBytes = 0;
  /** @type {Queue<Request>} Those that wait for room: one for each caller that waits. */
  #waiting = new Queue();
  /** @type {Set<Request>} Those among them that nobody waits for any more. */
  #left = new Set();
  #closed = false;
  /** @type {(() => void)[]} */
  #whenIdle = [];

  /**
   * @param {import("./settings.js").Peer} peer
   * @param {number} pendingMax
   * @param {number} pendingBytesMax
   * @param {import("./drive.js").Log} log
   */
  constructor(peer, pendingMax, pendingBytesMax, log) {
    this.#pendingMax = pendingMax;
    this.#pendingBytesMax = pendingBytesMax;
    this.#peer = peer;
    this.#log = log;
    const home = this.#connect(peer.endpoints);
    this.#driver = /** @type {Driver} */ (this.#drivers.get(home));
    this.#shards = new Shards(
      home, (endpoints) => this.#connect(endpointsOf(endpoints)), (session) => this.#drivers.get(session)?.wake(), this.#driver);
  }

  get counters() {
    const [sum, ...others] = this.#shards.sessions.map(({ counters }) => ({ ...counters }));
    const names = /** @type {(keyof typeof sum)[]} */ (Object.keys(sum));
    for (const counters of others) for (const name of names) sum[name] += counters[name];
    return sum;
  }

  /**
   * Begins a request as soon as there is room. Throws TooLargeError for a body that no broker takes, CancelledError where the
   * client is closed, and ClientFullError where there is no room and `waits` is false.
   * @param {Request} request
   * @param {boolean} [waits]
   */
  begin(request, waits = true) {
    const size = request.bodyBytes;
    if (size > BODY_BYTES_MAX) {
      const message = `the body has ${size} bytes, the limit is ${BODY_BYTES_MAX} (body_bytes_max)`;
      throw new TooLargeError(message, { id: request.id, local: true });
    }
    if (this.#driver.fault !== undefined) throw faultError(this.#driver.fault, request.id);
    if (this.#closed) throw closedError(request.id);
    if (this.#waiting.size === 0 && this.#hasRoom(size)) return this.#take(request);
    if (waits) {
      busy.add(this);
      this.#waiting.push(request);
      return;
    }
    const message =
      `this client waits for ${this.#pending} answers with ${this.#pendingBytes} bytes; the limits are ${this.#pendingMax} ` +
      `(pendingMax) and ${this.#pendingBytesMax} (pendingBytesMax): wait for some first`;
    throw new ClientFullError(message, { id: request.id, local: true });
  }

  /**
   * Nobody waits for these any more: jobs among them are cancelled, where the broker may have them. Fulfilled when the broker
   * has heard of it, or does not answer for some seconds.
   * @param {Iterable<Request>} requests
   * @returns {Promise<void>}
   */
  async abandon(requests) {
    const heard = [];
    for (const request of requests) {
      if (request.ref === 0) this.#left.add(request);
      heard.push(new Promise((tell) => this.#shards.abandon(request, now(), tell) || tell(undefined)));
    }
    this.#wake();
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, this.#patienceMs).unref()));
    await Promise.race([Promise.all(heard), late]);
    clearTimeout(timer);
  }

  /**
   * @param {number} ref
   * @param {number} seq
   */
  seen(ref, seq) {
    for (const session of this.#shards.sessions) session.seen(ref, seq, now());
    this.#wake();
  }

  /**
   * @param {Request} request
   * @param {import("./watching.js").Change} change
   */
  took(request, change) {
    for (const session of this.#shards.sessions) session.took(request, change);
    this.#wake();
  }

  /**
   * Nothing new is taken any more, and jobs that are under way are cancelled. `told`: what is pending ends with `cancelled`;
   * else its callers hear nothing any more.
   * @param {boolean} told
   */
  stop(told) {
    this.#closed = true;
    for (const { tell, id } of this.#waiting.drain()) if (told) tell?.(closedError(id), now());
    this.#shards.abandonAll(now(), closedError, told);
    this.#wake();
  }

  /**
   * Until the broker has answered all there is, what was cancelled mostly, or does not answer for some seconds.
   * @returns {Promise<void>}
   */
  untilIdle() {
    if (this.#pending === 0 || this.#driver.ended) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#patienceMs);
      this.#whenIdle.push(() => resolve(clearTimeout(timer)));
    });
  }

  /** Has messages leave at once: this is the process's last turn. */
  sendAtOnce() {
    for (const driver of this.#drivers.values()) driver.sendAtOnce();
  }

  /**
   * Ends the connection. Fulfilled when nothing of it is left, after LINGER_MS and a little more at the latest.
   * @returns {Promise<void>}
   */
  async end() {
    busy.delete(this);
    const drivers = [...this.#drivers.values()];
    for (const driver of drivers) driver.end(LINGER_MS);
    await Promise.all(drivers.map((driver) => driver.gone()));
  }

  /**
   * A session at these endpoints, and what drives it. Throws an Error.
   * @param {string[]} endpoints
   */
  #connect(endpoints) {
    const session = new Session(now(), Math.random, { endpoints: endpoints.length, refs: this.#refs });
    const driver = new Driver({ ...this.#peer, endpoints }, session, BODY_BYTES_MAX, this.#log, () => this.#afterTurn(session));
    this.#drivers.set(session, driver);
    return session;
  }

  get #patienceMs() {
    return this.#shards.sessions.some(({ heardHere }) => heardHere) ? CLOSE_TIMEOUT : AWAY_TIMEOUT;
  }

  #wake() {
    for (const driver of this.#drivers.values()) driver.wake();
  }

  /** @param {number} size */
  #hasRoom(size) {
    return this.#pending < this.#pendingMax && (this.#pendingBytes === 0 || this.#pendingBytes + size <= this.#pendingBytesMax);
  }

  /** @param {Request} request */
  #take(request) {
    busy.add(this);
    this.#pending += 1;
    this.#pendingBytes += request.bodyBytes;
    this.#shards.begin(request, now());
    this.#wake();
  }

  /** @param {Session} turned Whose turn it was. */
  #afterTurn(turned) {
    const fault = this.#drivers.get(turned)?.fault;
    if (fault !== undefined) {
      this.#shards.endAll((id) => faultError(fault, id));
      for (const { tell, id } of this.#waiting.drain()) tell?.(faultError(fault, id), now());
    }
    this.#shards.settle(now());
    for (const session of this.#shards.sessions) {
      this.#pending -= session.freed;
      this.#pendingBytes -= session.freedBytes;
      session.freed = session.freedBytes = 0;
      const events = session.events;
      session.events = [];
      for (const [tell, value] of events) tell(value, now());
    }
    this.#fillRoom();
    if (this.#pending > 0) return;
    busy.delete(this);
    const told = this.#whenIdle;
    this.#whenIdle = [];
    for (const resolve of told) resolve();
  }

  #fillRoom() {
    for (let next; (next = this.#waiting.first) && (this.#left.has(next) || this.#hasRoom(next.bodyBytes)); ) {
      this.#waiting.shift();
      if (!this.#left.delete(next)) this.#take(next);
    }
    if (this.#waiting.size === 0) this.#left.clear();
  }
}

/**
 * @param {unknown} fault
 * @param {string} id
 */
const faultError = (fault, id) => new LaneMQError(`the client failed: ${fault}`, { id: id || undefined, local: true });

/**
 * A question about a job.
 * @param {import("./session.js").Kind} kind
 * @param {string} id
 * @param {import("./session.js").RequestParts} [parts]
 */
export const control = (kind, id, parts) =>
  new Request(kind, { id: kind === "ping" ? "" : wire.checkName("id", id), timeoutMs: CONTROL_TIMEOUT, ...parts });

// ---- the end of the process ------------------------------------------------------------------------------------

/**
 * Engines with something under way.
 * @type {Set<Engine>}
 */
const engines = new Set();
const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM"]);

/** While one of them has something under way the signals are listened to. */
const busy = {
  /** @param {Engine} engine */
  add(engine) {
    if (engines.size === 0) for (const name of SIGNALS) process.on(name, onSignal);
    engines.add(engine);
  },
  /** @param {Engine} engine */
  delete(engine) {
    if (engines.delete(engine) && engines.size === 0) stopListening();
  },
};

function stopListening() {
  for (const name of SIGNALS) process.off(name, onSignal);
}

/**
 * Ctrl-C: what is under way is cancelled, then the signal does what it would have done. A program that listens by itself decides by
 * itself. A second one ends the process at once.
 * @param {NodeJS.Signals} name
 */
async function onSignal(name) {
  if (process.listenerCount(name) > 1) return;
  stopListening();
  const all = [...engines];
  for (const engine of all) engine.stop(false);
  await Promise.all(all.map((engine) => engine.untilIdle()));
  for (const engine of all) engine.end();
  process.kill(process.pid, name);
}

// The program ends, by exit() or by an error: the cancels go into the socket, and libzmq's own thread sends them.
process.on("exit", () => {
  for (const engine of [...engines]) {
    engine.stop(false);
    engine.sendAtOnce();
  }
});
