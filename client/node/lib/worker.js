// SPDX-License-Identifier: Apache-2.0
// A worker: handlers on the program's own loop, the broker's socket on a thread.
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { Worker as Thread } from "node:worker_threads";

import { logToStderr, say } from "./drive.js";
import { LaneMQError } from "./errors.js";
import { BadJob, Failure, JobCancelled } from "./failures.js";
import { Places } from "./places.js";
import { Result, isBad, ofAnswer, ofCancel, ofFault } from "./outcomes.js";
import { WORKERS_ENDPOINT, optionsOf, peerOf } from "./settings.js";
import { CAPACITY_MAX, LIST_ENTRIES_MAX, PROGRESS_NOTE_BYTES_MAX, STREAM_BYTES_MAX, STREAM_CHUNKS_MAX } from "./tables.js";
import { bodyBytes, wholeMs } from "./types.js";
import { unpack } from "./unpacking.js";
import * as wire from "./wire.js";

/** @typedef {import("./types.js").Body} Body */
/** @typedef {import("./worker_session.js").Lease} Lease */
/** @typedef {import("./outcomes.js").Outcome} Outcome */
/** @typedef {import("./worker_thread.js").Order} Order */
/** @typedef {import("./worker_thread.js").Told} Told */
/** @typedef {Body | Result | null | undefined | void} Returned */
/**
 * What does a service's jobs: it returns the answer (bytes, text, an object or list as JSON, nothing, or a Result), or a promise of
 * it. Where it has none it throws one of the failures; any other error is a `Retry`.
 * @callback Handler
 * @param {JobCall} job
 * @returns {Returned | Promise<Returned>}
 */
/**
 * @typedef {object} WorkerOptions
 * @property {import("./settings.js").Brokers} [broker] Its endpoint for workers; without it LANEMQ_WORKER_BROKER, else
 *   tcp://127.0.0.1:5571. Where other brokers go on in its place the endpoints of all, a list or separated by commas; they are brokers
 *   of one shard, where there are any.
 * @property {number} [capacity] Jobs that it holds at once, up to 1024; without it 1.
 * @property {string[]} [lanes] A worker for these alone, and before others.
 * @property {string} [name] For people.
 * @property {string} [brokerKey] As a Client's; without it LANEMQ_WORKER_BROKER_KEY.
 * @property {string} [secretKey] As a Client's; without it LANEMQ_WORKER_SECRET_KEY.
 * @property {number} [drainTimeoutMs] What running jobs get when it is told to stop; without it 10 s.
 * @property {import("./drive.js").Log} [log] Where what is for people goes; without it warnings and errors go to stderr.
 */

/** @type {(keyof WorkerOptions)[]} */
const OPTIONS = ["broker", "capacity", "lanes", "name", "brokerKey", "secretKey", "drainTimeoutMs", "log"];

export const VERSION = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;
const DRAIN_TIMEOUT_MS = 10_000;
/** Words of one job's progress go to the worker's thread at once, but not more often; the others with what else there is to say. */
const SAY_EVERY_MS = 50;
/** Pieces of one job that were not sent and are remembered, until it is known whether anybody awaited them. */
const UNSENT_MAX = 1024;
/** Pieces of one job whose chunk() was not awaited, beyond a full window. */
const PIECES_WAITING_MAX = 64;
const GONE_WITHIN_MS = 5000; // of a process that ends while its worker serves

/** The broker refuses this worker, and would refuse it again: it names a lane that is not there, for example. */
export class WorkerRefusedError extends LaneMQError {}

/** @typedef {{ piece: Buffer, resolve: () => void, reject: (error: Error) => void }} Waiting */

/** The window of one stream: how many pieces and bytes are under way that the broker has not taken. */
class StreamGate {
  #count = 0;
  #size = 0;
  #closed = false;
  /** @type {Waiting[]} */
  #waiting = [];
  #id;
  #send;

  /**
   * @param {string} id
   * @param {(piece: Buffer) => void} send
   */
  constructor(id, send) {
    this.#id = id;
    this.#send = send;
  }

  /**
   * @param {Buffer} piece
   * @returns {Promise<void>}
   */
  enter(piece) {
    if (this.#closed) throw new JobCancelled(this.#id);
    if (this.#waiting.length === 0 && this.#isOpen()) {
      this.#pass(piece);
      return Promise.resolve();
    }
    if (this.#waiting.length >= PIECES_WAITING_MAX) {
      throw new RangeError(`${PIECES_WAITING_MAX} pieces wait for the reader: await chunk() before the next one`);
    }
    return new Promise((resolve, reject) => this.#waiting.push({ piece, resolve: () => resolve(undefined), reject }));
  }

  /** @returns {Promise<unknown>} Until what waits now has passed. */
  passed() {
    const last = this.#waiting.at(-1);
    if (!last) return Promise.resolve();
    return new Promise((resolve) => {
      const { resolve: done, reject } = last;
      last.resolve = () => resolve(done());
      last.reject = (error) => resolve(reject(error));
    });
  }

  /**
   * @param {number} count
   * @param {number} size
   */
  taken(count, size) {
    this.#count -= count;
    this.#size -= size;
    while (this.#waiting.length > 0 && this.#isOpen()) {
      const { piece, resolve } = /** @type {Waiting} */ (this.#waiting.shift());
      this.#pass(piece);
      resolve();
    }
  }

  close() {
    this.#closed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(new JobCancelled(this.#id));
  }

  #isOpen() {
    return this.#count < STREAM_CHUNKS_MAX && this.#size < STREAM_BYTES_MAX;
  }

  /** @param {Buffer} piece */
  #pass(piece) {
    this.#count += 1;
    this.#size += piece.length;
    this.#send(piece);
  }
}

/**
 * A piece on its way. Where nobody waits for it a rejection is no unhandled one, which would end the process.
 * @extends {Promise<void>}
 */
class Sent extends Promise {
  heard = false;

  static get [Symbol.species]() {
    return Promise;
  }

  /**
   * Also what `await` and Promise.all() call, since this is no plain promise.
   * @type {Promise<void>["then"]}
   */
  then(fulfilled, rejected) {
    this.heard = true;
    return super.then(fulfilled, rejected);
  }

  silent() {
    super.then(undefined, () => {});
    return this;
  }
}

/** A job for a handler. */
export class JobCall {
  /** @type {{ sent: Sent, error: unknown }[]} */
  #unsent = [];
  #places;
  #place;
  #abort = new AbortController();
  /** @type {StreamGate | undefined} */
  #gate;
  #endsAt;
  #say;
  #saidAt = -Infinity;
  /** @type {wire.Fields | undefined} Of progress(), until it is said. */
  #word;
  #fields;
  /** @type {Map<string, any> | undefined} What the client said for the worker, as far as it was asked for. */
  #read = undefined;
  /** @type {Record<string, any> | undefined} */
  #extra = undefined;

  /**
   * @internal
   * @param {Lease} lease
   * @param {wire.Fields} fields
   * @param {Buffer} body
   * @param {Places} places
   * @param {number} place
   * @param {(piece: Buffer) => void} send
   * @param {(word: wire.Fields, atOnce: boolean) => void} say
   */
  constructor(lease, fields, body, places, place, send, say) {
    this.#say = say;
    this.#fields = fields;
    this.#places = places;
    this.#place = place;
    /** The request's bytes. */
    this.body = body;
    /** @type {string} */
    this.id = fields.id ?? "";
    /** @type {string} */
    this.service = fields.service;
    /** @type {string | undefined} */
    this.lane = fields.lane ?? undefined;
    /** @type {string | undefined} */
    this.model = fields.model ?? undefined;
    /** @type {string | undefined} */
    this.client = fields.client ?? undefined;
    /**
     * Which upstream key to use, by its name in the broker's configuration.
     * @type {string | undefined}
     */
    this.key = fields.key ?? undefined;
    /** @type {import("./types.js").Cost} */
    this.cost = fields.cost ?? {};
    /** Which hand-over of the job this is, from 1. */
    this.attempt = lease[1];
    /** Whether the answer is wanted in pieces. */
    this.stream = Boolean(fields.stream);
    /**
     * Aborted when nobody wants the answer any more: for `fetch` and the like.
     * @type {AbortSignal}
     */
    this.signal = this.#abort.signal;
    this.#gate = this.stream ? new StreamGate(this.id, send) : undefined;
    this.#endsAt = typeof fields.timeout_ms === "number" ? performance.now() + fields.timeout_ms : undefined;
  }

  /**
   * As the client said; undefined: it said none. Whole numbers beyond 2^53 are BigInts. Throws BadJob where it cannot be read.
   * @returns {any}
   */
  get meta() {
    return this.#said("meta");
  }

  /**
   * The same.
   * @returns {any}
   */
  get trace() {
    return this.#said("trace");
  }

  /**
   * Fields whose names begin with `x-`. Throws BadJob where one of them cannot be read.
   * @returns {Record<string, any>}
   */
  get extra() {
    this.#extra ??= Object.fromEntries(Object.keys(this.#fields).filter((name) => name.startsWith("x-")).map((name) => [name, this.#said(name)]));
    return this.#extra;
  }

  /** @param {string} name */
  #said(name) {
    const packed = this.#fields[name];
    if (packed == null || this.#read?.has(name)) return this.#read?.get(name);
    try {
      const value = unpack(name, packed);
      (this.#read ??= new Map()).set(name, value);
      return value;
    } catch (error) {
      throw new BadJob(/** @type {Error} */ (error).message);
    }
  }

  get text() {
    return this.body.toString();
  }

  /** @returns {any} */
  json() {
    return JSON.parse(this.text);
  }

  /** What is left of the client's deadline; undefined: it gave none. */
  get timeLeftMs() {
    return this.#endsAt === undefined ? undefined : Math.max(0, this.#endsAt - performance.now());
  }

  /** Whether nobody wants the answer any more: stop, and return or throw anything. Also a handler that computes sees it. */
  get cancelled() {
    return this.#abort.signal.aborted || this.#places.isCancelled(this.#place);
  }

  /** Throws JobCancelled where the job is cancelled. */
  check() {
    if (this.cancelled) throw new JobCancelled(this.id);
  }

  /**
   * Sends a piece of the answer; to be awaited. Fulfilled when the reader is less than 64 pieces and 256 KiB behind; rejected with
   * JobCancelled where the job is cancelled meanwhile. Requires: `stream`. Once a piece was sent the job is not tried again.
   * Up to 64 pieces wait where a handler does not await this, and with a piece that is not sent and that nobody awaits the job fails.
   * @param {Body} body
   * @returns {Promise<void>}
   */
  chunk(body) {
    /** @type {unknown} */
    let unsent;
    const sent = new Sent((resolve, reject) => {
      try {
        this.#enter(body).then(resolve, reject);
      } catch (error) {
        unsent = error;
        reject(error);
      }
    });
    if (unsent && !(unsent instanceof JobCancelled) && this.#unsent.length < UNSENT_MAX) this.#unsent.push({ sent, error: unsent });
    return sent.silent();
  }

  /** @param {Body} body */
  #enter(body) {
    if (!this.#gate) throw new TypeError("the client wants no pieces: chunk() is for jobs whose `stream` is true");
    this.check();
    return this.#gate.enter(bodyBytes(body));
  }

  /**
   * Says how far the job is, for who asks the broker: in percent, and in up to 256 bytes of words. Each word replaces the one before,
   * and as often as wanted: of many a few a second are sent, the last among them. Also a handler that computes is heard. From the
   * first word on the broker ends the attempt where neither a word nor a piece comes for its lane's `stall_timeout`. What is no number,
   * and no text, is left out: no word about a job makes it fail.
   * @param {number | undefined} [pct]
   * @param {string} [note]
   */
  progress(pct, note = "") {
    /** @type {wire.Fields} */
    const word = {};
    if (typeof pct === "number" && !Number.isNaN(pct)) word.pct = Math.trunc(Math.min(Math.max(pct, 0), 100));
    if (typeof note === "string" && note) word.note = wire.beginning(note, PROGRESS_NOTE_BYTES_MAX);
    const now = performance.now();
    if (now - this.#saidAt >= SAY_EVERY_MS) {
      this.#saidAt = now;
      this.#word = undefined;
      return this.#say(word, true);
    }
    const waits = this.#word !== undefined;
    this.#word = word;
    if (waits) return;
    queueMicrotask(() => {
      if (this.#word) this.#say(this.#word, false);
      this.#word = undefined;
    });
  }

  /** @internal Until the pieces that wait are sent, or nobody wants them. Throws why a piece was not sent that nobody awaited. */
  async piecesSent() {
    await this.#gate?.passed();
    const lost = this.#unsent.find(({ sent }) => !sent.heard);
    if (lost) throw lost.error;
  }

  /** @internal @param {number} count @param {number} size */
  taken(count, size) {
    this.#gate?.taken(count, size);
  }

  /** @internal */
  cancel() {
    this.#gate?.close();
    this.#abort.abort(new JobCancelled(this.id));
  }
}

/** A handler and the service it does, as `worker()` makes it. */
export class Service {
  /**
   * @param {string} name
   * @param {Handler} handler
   * @param {WorkerOptions} [options]
   */
  constructor(name, handler, options = {}) {
    this.name = name;
    this.handler = handler;
    this.options = options;
  }

  /**
   * Serves until SIGTERM or Ctrl-C: `new Worker([service], …).run()`. `options` go before those of `worker()`.
   * @param {WorkerOptions} [options]
   */
  async run(options = {}) {
    return new Worker([this], { ...this.options, ...options }).run();
  }
}

/**
 * Makes a function the handler of a service. `options` are Worker's.
 * @param {string} name
 * @param {Handler} handler
 * @param {WorkerOptions} [options]
 */
export const worker = (name, handler, options) => new Service(name, handler, options);

/**
 * Serves services at a broker.
 *
 * A thread of its own talks to the broker and sends heartbeats, so that a handler that computes keeps its session. Handlers run on the
 * program's loop, up to `capacity` of them at once, all services together. One that computes for long holds up the others; what the loop
 * has not begun within two seconds is handed back to the broker, at no cost. The worker comes back by itself after a lost connection or
 * a restart of the broker, and hands in again what the broker has not answered.
 */
export class Worker {
  /** @type {Map<string, Service>} */
  #services = new Map();
  #peer;
  #offer;
  #drainTimeoutMs;
  #log;
  #places;
  /** @type {Map<string, { call: JobCall, place: number }>} Bounded by twice the capacity. */
  #calls = new Map();
  /** @type {Thread | undefined} */
  #thread;
  /** Of the thread's socket: see ThreadData. */
  #gone = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  /** @type {Order[]} Those of a turn; bounded by the capacity and the windows. */
  #orders = [];
  #stopping = false;
  /** @type {string | undefined} */
  #refusal;
  #finished = true;
  #welcomed = new Signal();
  #over = new Signal();

  /**
   * Throws an Error for what no worker can be.
   * @param {Iterable<Service> | Record<string, Handler>} services
   * @param {WorkerOptions} [given]
   */
  constructor(services, given = {}) {
    /** @type {WorkerOptions} */
    const options = optionsOf(given, OPTIONS);
    const { capacity = 1, lanes = [], drainTimeoutMs = DRAIN_TIMEOUT_MS, log = logToStderr } = options;
    for (const service of servicesOf(services)) this.#services.set(wire.checkName("service", service.name), service);
    if (this.#services.size < 1 || this.#services.size > LIST_ENTRIES_MAX) {
      throw new RangeError(`a worker serves 1 to ${LIST_ENTRIES_MAX} services, not ${this.#services.size}`);
    }
    if (!Number.isInteger(capacity) || capacity < 1 || capacity > CAPACITY_MAX) {
      throw new RangeError(`capacity is ${capacity}; the limits are 1 and ${CAPACITY_MAX}`);
    }
    const { env } = process;
    const { LANEMQ_WORKER_BROKER: broker, LANEMQ_WORKER_BROKER_KEY: brokerKey, LANEMQ_WORKER_SECRET_KEY: secretKey } = env;
    this.#peer = peerOf(options, { broker, brokerKey, secretKey }, WORKERS_ENDPOINT, env);
    this.#drainTimeoutMs = wholeMs("drainTimeoutMs", drainTimeoutMs);
    this.#log = log;
    /** For people. */
    this.name = wire.checkName("name", options.name ?? `${hostname().slice(0, 100)}-${process.pid}`);
    this.capacity = capacity;
    this.#offer = {
      services: [...this.#services.keys()], capacity, lanes: lanes.map((lane) => wire.checkName("lane", lane)), name: this.name,
      version: VERSION, process: processName(),
    };
    // Beside those that count there are as many at most that are cancelled and do not end.
    this.#places = new Places(Places.memoryFor(2 * capacity));
  }

  /**
   * Serves until SIGTERM or Ctrl-C, which drain: what runs may finish for `drainTimeoutMs`, nothing new is taken. A second one ends it
   * at once; the broker gives what runs to others. Prints a line that begins with `ready` once the broker has taken it. True:
   * everything was finished. Throws WorkerRefusedError.
   * @returns {Promise<boolean>}
   */
  async run() {
    const stop = () => (this.#stopping ? this.leave() : this.drain());
    for (const name of ["SIGTERM", "SIGINT"]) process.on(name, stop);
    try {
      this.start();
      this.#welcomed.promise.then(() =>
        say(process.stdout, `ready name=${this.name} services=${this.#offer.services} capacity=${this.capacity}\n`));
      return await this.wait();
    } finally {
      for (const name of ["SIGTERM", "SIGINT"]) process.off(name, stop);
    }
  }

  /** Serves in the background, until drain() or leave(). */
  start() {
    if (this.#thread) throw new Error("a worker runs once; make another one");
    /** @type {import("./worker_thread.js").ThreadData} */
    const workerData = {
      peer: this.#peer, offer: this.#offer, memory: this.#places.memory, logsToStderr: this.#log === logToStderr, gone: this.#gone,
    };
    // Node's arguments may be the program itself (`--input-type=module -e …`). What is in NODE_OPTIONS counts for the thread, too.
    this.#thread = new Thread(new URL("./worker_thread.js", import.meta.url), { workerData, name: "lanemq-worker", execArgv: [] });
    this.#thread.on("message", (/** @type {Told[]} */ told) => told.forEach((each) => this.#hear(each)));
    this.#thread.on("error", (error) => {
      this.#refusal ??= `the worker's thread failed: ${error.message}`;
    });
    serving.add(this);
    this.#thread.on("exit", () => {
      serving.delete(this);
      this.#cancelAll();
      this.#over.set();
    });
  }

  /** @returns {Promise<void>} Until the broker has taken it. */
  welcomed() {
    return this.#welcomed.promise;
  }

  /** Takes no more jobs, and ends when those that run are over, after `drainTimeoutMs` in any case. */
  drain() {
    this.#stopping = true;
    this.#tell({ what: "drain", timeoutMs: this.#drainTimeoutMs });
  }

  /** Ends now. Handlers hear that they are cancelled; the broker gives their jobs to others, at no cost. */
  leave() {
    this.#stopping = true;
    this.#tell({ what: "leave" });
  }

  /**
   * Until it has ended. True: everything was finished. Throws WorkerRefusedError.
   * @returns {Promise<boolean>}
   */
  async wait() {
    await this.#over.promise;
    if (this.#refusal !== undefined) throw new WorkerRefusedError(this.#refusal, { local: true });
    return this.#finished;
  }

  /** @internal Has the thread end. Returns what blocks until its socket is gone: in a process's last turn nothing can be awaited. */
  endAtOnce() {
    this.#thread?.postMessage([/** @type {Order} */ ({ what: "end" })]);
    return () => Atomics.wait(this.#gone, 0, 0, GONE_WITHIN_MS);
  }

  /**
   * @param {Order} order
   * @param {boolean} [atOnce] Not when the main thread pauses next.
   */
  #tell(order, atOnce = false) {
    const first = this.#orders.push(order) === 1;
    if (atOnce) this.#post();
    else if (first) queueMicrotask(() => this.#post());
  }

  #post() {
    if (this.#orders.length > 0) this.#thread?.postMessage(this.#orders);
    this.#orders = [];
  }

  /** @param {Told} told */
  #hear(told) {
    switch (told.what) {
      case "start":
        if (!this.#places.takeUp(/** @type {number} */ (told.place), /** @type {number} */ (told.turn))) return; // it was handed back
        return void this.#handle(told.lease, told.fields, told.body, /** @type {number} */ (told.place));
      case "ask":
        return this.#tell({ what: "answer" });
      case "cancel":
        return this.#calls.get(told.lease.join())?.call.cancel();
      case "taken":
        return this.#calls.get(told.lease.join())?.call.taken(told.count, told.size);
      case "welcomed":
        this.#log("info", `the broker at ${this.#peer.endpoints.join(", ")} has taken the worker ${this.name}`);
        return this.#welcomed.set();
      case "refused":
        this.#log("warning", `the broker at ${this.#peer.endpoints.join(", ")} refused the worker: ${told.message}`);
        if (!told.ever) return;
        this.#refusal = told.message;
        return this.leave();
      case "left":
        this.#finished = told.finished;
        return;
      case "log":
        return this.#log(told.level, told.message);
      case "failed":
        this.#refusal = told.message;
    }
  }

  /**
   * @param {Lease} lease
   * @param {wire.Fields} fields
   * @param {Uint8Array} body
   * @param {number} place
   */
  async #handle(lease, fields, body, place) {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const call = new JobCall(lease, fields, bytes, this.#places, place,
      (piece) => this.#tell({ what: "piece", lease, body: piece }),
      (word, atOnce) => this.#tell({ what: "progress", lease, word }, atOnce));
    this.#calls.set(lease.join(), { call, place });
    const outcome = await this.#outcomeOf(call);
    this.#calls.delete(lease.join());
    this.#tell({ what: "finish", lease, place, outcome });
  }

  /**
   * @param {JobCall} call
   * @returns {Promise<Outcome>}
   */
  async #outcomeOf(call) {
    let outcome;
    try {
      const handler = /** @type {Service} */ (this.#services.get(call.service)).handler;
      const answer = await handler(call);
      await call.piecesSent();
      outcome = ofAnswer(answer);
    } catch (error) {
      outcome = this.#outcomeOfFault(call, error);
      await call.piecesSent().catch(() => {});
    }
    if (isBad(outcome)) this.#complain(() => `what the handler of ${call.service} says at job ${call.id} cannot be handed in: ${outcome.fields.message}`);
    return outcome;
  }

  /**
   * @param {JobCall} call
   * @param {unknown} fault
   */
  #outcomeOfFault(call, fault) {
    try {
      return this.#readFault(call, fault);
    } catch (odd) {
      return ofFault(odd); // a proxy may throw at any look
    }
  }

  /**
   * @param {JobCall} call
   * @param {unknown} fault
   */
  #readFault(call, fault) {
    if (!(fault instanceof Failure) && call.cancelled) return ofCancel();
    if (!(fault instanceof Failure || fault instanceof JobCancelled)) {
      this.#complain(() => `the handler of ${call.service} failed at job ${call.id}: ${fault instanceof Error ? fault.stack : fault}`);
    }
    return ofFault(fault);
  }

  /**
   * What is for people. No fault of a handler, or of the program's own log, ends more than its job.
   * @param {() => string} says
   */
  #complain(says) {
    try {
      this.#log("error", says());
    } catch {
      // What it says is told with the outcome.
    }
  }

  #cancelAll() {
    for (const { call } of this.#calls.values()) call.cancel();
  }
}

/**
 * Workers whose threads run.
 * @type {Set<Worker>}
 */
const serving = new Set();

// The program ends, by exit() or by an error, and Node takes down the threads: not before their sockets are all gone (see Driver.gone).
process.on("exit", () => {
  const waits = [...serving].map((worker) => worker.endAtOnce());
  for (const wait of waits) wait();
});

/** A promise that is fulfilled once, from outside. */
class Signal {
  /** @type {() => void} */
  set = () => {};
  /** @type {Promise<void>} */
  promise = new Promise((resolve) => (this.set = resolve));
}

/**
 * @param {Iterable<Service> | Record<string, Handler>} services
 * @returns {Service[]}
 */
function servicesOf(services) {
  if (Symbol.iterator in services) return [.../** @type {Iterable<Service>} */ (services)];
  return Object.entries(services).map(([name, handler]) => new Service(name, handler));
}

/** This process, so that a broker on the same machine can see it end; empty where the system does not say. */
function processName() {
  try {
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "ascii").trim()}/${readlinkSync("/proc/self/ns/pid")}/${process.pid}`;
  } catch {
    return "";
  }
}
