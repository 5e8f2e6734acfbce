// SPDX-License-Identifier: Apache-2.0
// The client.
import { logToStderr } from "./drive.js";
import { Engine, PENDING_BYTES_MAX, PENDING_MAX, control, makeId } from "./engine.js";
import { LaneMQError } from "./errors.js";
import { explain } from "./explain.js";
import { MapRun, Progress, WINDOW } from "./mapping.js";
import { Queue } from "./queue.js";
import { GRACE, Piece, Request } from "./session.js";
import { CLIENTS_ENDPOINT, optionsOf, peerOf } from "./settings.js";
import { Submit, bodyBytes, wholeMs } from "./types.js";
import { Change } from "./watching.js";
import { checkName } from "./wire.js";

/** @typedef {import("./types.js").Accepted} Accepted */
/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Body} Body */
/** @typedef {import("./types.js").Job} Job */
/** @typedef {import("./types.js").JobOptions} JobOptions */
/** @typedef {import("./types.js").Pong} Pong */
/** @typedef {import("./types.js").Status} Status */
/** @typedef {import("./types.js").SubmitOptions} SubmitOptions */
/** @typedef {import("./watching.js").JobEvent} JobEvent */
/** @typedef {{ id?: string, client?: string, lane?: string, service?: string, group?: string }} WatchOptions Whose changes; without any of these of all jobs. */
/** @typedef {{ signal?: AbortSignal }} Signalled */
/**
 * @typedef {object} ClientOptions
 * @property {import("./settings.js").Brokers} [broker] Its endpoint for clients; without it LANEMQ_BROKER, else tcp://127.0.0.1:5570.
 *   Where other brokers go on in its place the endpoints of all, a list or separated by commas: it is connected to one at a time. Of
 *   several shards it stays with the first that answers.
 * @property {string} [brokerKey] For a broker that asks for keys its public key: 40 characters, or `file:PATH`, `env:VARIABLE`,
 *   `credential:NAME`; without it LANEMQ_BROKER_KEY.
 * @property {string} [secretKey] A key of one's own, in the same ways; without it LANEMQ_CLIENT_KEY.
 * @property {number} [pendingMax] The most requests without an answer.
 * @property {number} [pendingBytesMax] The most bytes of their bodies.
 * @property {import("./drive.js").Log} [log] Where what is for people goes; without it warnings and errors go to stderr.
 */
/**
 * @typedef {object} MapHow
 * @property {boolean} [ordered] In the order of the bodies (true), or as answers come.
 * @property {number} [window] The most jobs under way at once.
 * @property {boolean} [progress] A line on stderr that says how far it is; without it where stderr is a terminal.
 * @property {"throw" | "return"} [errors] `throw`: the first job that failed ends it, and the others are cancelled. `return`: errors
 *   come in the place of answers.
 * @property {AbortSignal} [signal] Aborted, it ends with the signal's reason, and what is under way is cancelled.
 */

/** @type {(keyof ClientOptions)[]} */
const OPTIONS = ["broker", "brokerKey", "secretKey", "pendingMax", "pendingBytesMax", "log"];

/**
 * A connection to a broker, for any number of jobs at once.
 *
 * Each call ends once: with the broker's answer, or with a LaneMQError. When the connection breaks, or is silent for 3 s, a new one
 * is made and all that is open is sent again under the same ids; the broker joins it to what it has. What is submitted in one turn
 * of the loop travels together. Ctrl-C, an aborted signal, and a stream or `map` that is left before its end cancel the jobs that
 * they submitted. A client keeps the process alive until it is closed.
 */
export class Client {
  #engine;

  /**
   * Connects to the broker; that never fails, and requests are sent once it is there. Throws an Error for an endpoint or a key that
   * is none, a RangeError for a bound of no room, a TypeError for an option that there is none of.
   * @param {ClientOptions | import("./settings.js").Brokers} [given] Options, or `broker` alone.
   */
  constructor(given = {}) {
    /** @type {ClientOptions} */
    const options = optionsOf(given, OPTIONS);
    const { env } = process;
    const variables = { broker: env.LANEMQ_BROKER, brokerKey: env.LANEMQ_BROKER_KEY, secretKey: env.LANEMQ_CLIENT_KEY };
    const peer = peerOf(options, variables, CLIENTS_ENDPOINT, env);
    const { pendingMax = PENDING_MAX, pendingBytesMax = PENDING_BYTES_MAX, log = logToStderr } = options;
    for (const [name, bound] of Object.entries({ pendingMax, pendingBytesMax })) {
      if (!(bound >= 1)) throw new RangeError(`${name} is ${bound}; a client with no room takes nothing`);
    }
    this.#engine = new Engine(peer, pendingMax, pendingBytesMax, log);
  }

  /** Figures since the client was made: `sent`, `resent`, `answered`, `expired`, `reconnected` and others. */
  get counters() {
    return this.#engine.counters;
  }

  /**
   * Has a job done, and waits for its answer.
   * @param {string} service
   * @param {Body} [body]
   * @param {SubmitOptions} [options]
   * @returns {Promise<Answer>}
   */
  async submit(service, body = "", options = {}) {
    return ask(this.#engine, submitRequest("submit", service, body, options), options);
  }

  /**
   * Leaves a job with the broker; fulfilled when it is accepted. Any client can `fetch` its answer by the id, for as long as the
   * broker keeps it (`retainMs`). `stream`: the answer is made in pieces, for `follow`.
   * @param {string} service
   * @param {Body} [body]
   * @param {SubmitOptions & { stream?: boolean }} [options]
   * @returns {Promise<Accepted>}
   */
  async leave(service, body = "", options = {}) {
    return ask(this.#engine, submitRequest("leave", service, body, options), options);
  }

  /**
   * The answer of a job of any client. `waitMs`: for how long to wait for its end; without it as long as it takes. Throws
   * NotOverError after that time, NotFoundError, GoneError, or the error that the job ended with.
   * @param {string} id
   * @param {Signalled & { waitMs?: number }} [options]
   * @returns {Promise<Answer>}
   */
  async fetch(id, { waitMs, signal } = {}) {
    const timeoutMs = waitMs === undefined ? undefined : wholeMs("waitMs", waitMs);
    return ask(this.#engine, control("fetch", id, { timeoutMs }), { signal });
  }

  /**
   * How far a job is; its state is `unknown` where nobody knows the id.
   * @param {string} id
   * @returns {Promise<Status>}
   */
  async status(id) {
    return ask(this.#engine, control("status", id));
  }

  /**
   * What a job waits for, and what would help, in sentences.
   * @param {string} id
   */
  async explain(id) {
    return explain(await this.status(id));
  }

  /**
   * Ends a job, and says how far it is then. A job that is over stays what it is.
   * @param {string} id
   * @returns {Promise<Status>}
   */
  async cancel(id) {
    return ask(this.#engine, control("cancel", id));
  }

  /**
   * Asks whether the broker is there. Throws DeadlineError after 10 s.
   * @returns {Promise<Pong>}
   */
  async ping() {
    return ask(this.#engine, control("ping", "", { filter: { cluster: true } }));
  }

  /**
   * Has a job done whose answer comes in pieces, for `for await`. The job is submitted when the first piece is asked for.
   * @param {string} service
   * @param {Body} [body]
   * @param {SubmitOptions} [options]
   * @returns {Stream}
   */
  stream(service, body = "", options = {}) {
    return new Stream(this.#engine, submitRequest("stream", service, body, options), options);
  }

  /**
   * The pieces of a job of any client that was submitted as a stream, from the piece `first` on: what the broker keeps, and then
   * what comes. A stream that is followed is not cancelled when it is left.
   * @param {string} id
   * @param {Signalled & { first?: number }} [options]
   * @returns {Stream}
   */
  follow(id, { first = 0, signal } = {}) {
    if (!Number.isSafeInteger(first) || first < 0) throw new RangeError(`first is ${first}; pieces count from 0`);
    return new Stream(this.#engine, control("follow", id, { fromSeq: first, timeoutMs: undefined }), { signal });
  }

  /**
   * Follows what becomes of jobs: those that all of this fits, of any client. For `for await`; it begins when the first event is asked
   * for, and has no end.
   *
   * The first event is `watching`: from then on no change goes untold. It comes again, with `gap`, after each connection that was lost;
   * ask `status` of what you have to know then. A reader that is 1024 events behind misses some, and the next one it gets says so
   * (`gap`, `leftOut`). Ends with a LaneMQError where the broker refuses the watch, or the client is closed.
   * @param {WatchOptions & Signalled} [options]
   * @returns {Watch}
   */
  watch({ signal, ...options } = {}) {
    /** @type {Record<string, string>} */
    const filter = {};
    for (const [name, value] of Object.entries(options)) {
      if (!["id", "client", "lane", "service", "group"].includes(name)) throw new TypeError(`there is no option ${name}; WatchOptions lists them`);
      if (value != null) filter[name] = checkName(name, value);
    }
    return new Watch(this.#engine, new Request("watch", { filter }), signal);
  }

  /**
   * Has a job done for each body, up to `window` of them at once, and yields the answers.
   *
   * `bodies` is read as answers are taken; an item that is a `Job` has an id or options of its own. `Answer.index` is the place in the
   * input. An iterator that is left cancels what is under way.
   * @overload
   * @param {string} service
   * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
   * @param {JobOptions & MapHow & { errors: "return" }} options
   * @returns {AsyncIterableIterator<Answer | LaneMQError>}
   */
  /**
   * @overload
   * @param {string} service
   * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
   * @param {JobOptions & MapHow & { errors?: "throw" }} [options]
   * @returns {AsyncIterableIterator<Answer>}
   */
  /**
   * @param {string} service
   * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
   * @param {JobOptions & MapHow} [options]
   * @returns {AsyncIterableIterator<any>}
   */
  map(service, bodies, options = {}) {
    return new Answers(this.#engine, service, bodies, options);
  }

  /** Cancels what is under way, and ends the connection. Waits up to 3 s for the broker to hear of it, and a second where there is none. */
  async close() {
    this.#engine.stop(true);
    await this.#engine.untilIdle();
    await this.#engine.end();
  }

  /** `await using client = new Client()`, where the language has it. */
  async [Symbol.asyncDispose]() {
    await this.close();
  }
}

/**
 * A job's request. Throws TypeError or RangeError for what no job can be.
 * @param {"submit" | "stream" | "leave"} kind
 * @param {string} service
 * @param {Body} body
 * @param {SubmitOptions & { stream?: boolean }} options
 */
function submitRequest(kind, service, body, { id, signal, stream, ...options }) {
  if (stream !== undefined && kind !== "leave") throw new TypeError("stream is an option of leave(); stream() has pieces");
  const more = { ...(kind === "leave" && { reply: "accepted" }), ...((kind === "stream" || stream) && { stream: true }) };
  const submit = new Submit(service, options, more);
  return new Request(kind, {
    id: id === undefined ? makeId() : checkName("id", id),
    submit,
    body: bodyBytes(body),
    timeoutMs: submit.patienceMs === undefined ? undefined : submit.patienceMs + GRACE,
  });
}

/**
 * What comes of a request; rejected with what is an error.
 * @param {Engine} engine
 * @param {Request} request
 * @param {Signalled & Pick<JobOptions, "whenFull">} [options]
 * @returns {Promise<any>}
 */
function ask(engine, request, { signal, whenFull } = {}) {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const abort = () => {
      engine.abandon([request]);
      reject(/** @type {AbortSignal} */ (signal).reason);
    };
    request.tell = (outcome) => {
      signal?.removeEventListener("abort", abort);
      if (outcome instanceof LaneMQError) reject(outcome);
      else resolve(outcome);
    };
    engine.begin(request, whenFull !== "throw");
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** One who waits until something has come, has changed, or is over. */
class Bell {
  /** @type {(() => void) | undefined} */
  #ring;

  ring() {
    this.#ring?.();
  }

  /** @returns {Promise<void>} Until the next ring. */
  heard() {
    return new Promise((resolve) => (this.#ring = resolve));
  }
}

/**
 * What `for await` reads, one at a time: an iterator that a `break`, or return(), ends at once, also while it waits.
 * @template T
 */
class Reader {
  #bell = new Bell();
  #signal;
  #over = false;
  /** @type {Promise<unknown>} Calls of next() wait for each other. */
  #turn = Promise.resolve();

  /** @param {AbortSignal | undefined} signal */
  constructor(signal) {
    this.#signal = signal;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} */
  next() {
    const step = this.#turn.then(() => this.#step());
    this.#turn = step.catch(() => {});
    return step;
  }

  /**
   * Reads no more. What was submitted is cancelled; fulfilled when the broker has heard of it, or has been silent for 3 s.
   * @returns {Promise<IteratorResult<T, undefined>>}
   */
  async return() {
    if (!this.#over) await this.#leave();
    return { done: true, value: undefined };
  }

  /** As return(). */
  async close() {
    await this.return();
  }

  /** `await using`, where the language has it. */
  async [Symbol.asyncDispose]() {
    await this.return();
  }

  /**
   * Something has come.
   * @protected
   */
  ring() {
    this.#bell.ring();
  }

  /**
   * The next one where it is there, undefined where it has to be waited for. Throws what ends it.
   * @abstract
   * @protected
   * @returns {IteratorResult<T, undefined> | undefined}
   */
  take() {
    return undefined;
  }

  /**
   * Nobody reads any more.
   * @abstract
   * @protected
   * @returns {Promise<void>}
   */
  async abandon() {}

  #onAbort = () => void this.#leave();

  async #step() {
    try {
      while (!this.#over) {
        const step = this.take();
        if (step) {
          if (step.done) this.#end();
          return step;
        }
        await this.#bell.heard();
      }
      if (this.#signal?.aborted) throw this.#signal.reason;
      return { done: /** @type {const} */ (true), value: undefined };
    } catch (error) {
      await this.#leave();
      throw error;
    }
  }

  async #leave() {
    if (this.#over) return;
    this.#end();
    this.#bell.ring();
    await this.abandon();
  }

  #end() {
    this.#over = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}

/**
 * Reads what comes of one request: events, until one of them is the end.
 * @template T
 * @extends {Reader<T>}
 */
class RequestReader extends Reader {
  #waits;
  #begun = false;
  #ended = false;
  /** @type {Queue<any>} Bounded: of a stream by the window of the protocol, of a watch by UNREAD_EVENTS_MAX of watching.js. */
  #came = new Queue();

  /**
   * @param {Engine} engine
   * @param {Request} request
   * @param {AbortSignal | undefined} signal
   * @param {boolean} waits as Engine.begin() has it
   */
  constructor(engine, request, signal, waits) {
    super(signal);
    /** @protected */
    this.engine = engine;
    /** @protected */
    this.request = request;
    this.#waits = waits;
    request.tell = (event) => {
      this.#came.push(event);
      this.ring();
    };
  }

  /** @override @protected @returns {IteratorResult<T, undefined> | undefined} */
  take() {
    if (!this.#begun) {
      this.#begun = true;
      this.engine.begin(this.request, this.#waits);
    }
    const event = this.#came.shift();
    if (event === undefined) return undefined;
    const value = this.taken(event);
    if (value !== undefined) return { done: false, value };
    this.#ended = true;
    this.finish(event);
    return { done: true, value: undefined };
  }

  /**
   * What the reader gets of an event, which the broker is told; undefined where the event is the end.
   * @abstract
   * @protected
   * @param {any} _event
   * @returns {T | undefined}
   */
  taken(_event) {
    return undefined;
  }

  /**
   * Takes the end, or throws it.
   * @protected
   * @param {any} event
   */
  finish(event) {
    throw event;
  }

  /** @override @protected */
  async abandon() {
    if (this.#begun && !this.#ended) await this.engine.abandon([this.request]);
  }
}

/**
 * An answer that comes in pieces: an asynchronous iterator of Buffers.
 *
 * The broker holds its upstream back where this reader is 64 pieces or 256 KiB behind; a reader that takes no piece for 30 s ends with
 * SlowReaderError. Left before its end, it cancels the job that it submitted.
 * @extends {RequestReader<Buffer>}
 */
export class Stream extends RequestReader {
  /**
   * What the job is when it is over: its usage, times, and the part of its body that no piece carried.
   * @type {Answer | undefined}
   */
  answer = undefined;

  /**
   * @internal
   * @param {Engine} engine
   * @param {Request} request
   * @param {Signalled & Pick<JobOptions, "whenFull">} options
   */
  constructor(engine, request, { signal, whenFull }) {
    super(engine, request, signal, whenFull !== "throw");
    /** The job's id. */
    this.id = request.id;
  }

  /** @override @protected @param {any} event @returns {Buffer | undefined} */
  taken(event) {
    if (!(event instanceof Piece)) return undefined;
    this.engine.seen(event.ref, event.seq);
    return event.body;
  }

  /** @override @protected @param {any} event */
  finish(event) {
    if (event instanceof LaneMQError) throw event;
    this.answer = event;
  }
}

/**
 * Events of jobs, as Client.watch() says: an asynchronous iterator.
 * @extends {RequestReader<JobEvent>}
 */
export class Watch extends RequestReader {
  /**
   * @internal
   * @param {Engine} engine
   * @param {Request} request
   * @param {AbortSignal | undefined} signal
   */
  constructor(engine, request, signal) {
    super(engine, request, signal, false);
  }

  /** @override @protected @param {any} event @returns {JobEvent | undefined} */
  taken(event) {
    if (!(event instanceof Change)) return undefined;
    this.engine.took(this.request, event);
    return event.event;
  }
}

/**
 * The answers of a `map`.
 * @extends {Reader<any>}
 */
class Answers extends Reader {
  #engine;
  #run;
  #progress;
  #items;
  #reads = false; // an item of an asynchronous input
  #waits;
  /** @type {unknown[]} What ends it; at most one. */
  #faults = [];

  /**
   * @param {Engine} engine
   * @param {string} service
   * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
   * @param {JobOptions & MapHow} options
   */
  constructor(engine, service, bodies, { ordered = true, window = WINDOW, progress, errors = "throw", signal, ...options }) {
    super(signal);
    if (!["throw", "return"].includes(errors)) throw new RangeError(`errors is one of throw, return, not ${errors}`);
    const source = /** @type {any} */ (bodies);
    const total = Array.isArray(source) ? source.length : source instanceof Set ? source.size : undefined;
    this.#engine = engine;
    this.#waits = options.whenFull !== "throw";
    this.#items = source[Symbol.asyncIterator] ? { next: source[Symbol.asyncIterator]() } : { now: source[Symbol.iterator]() };
    this.#run = new MapRun(service, total, options, makeId, (index, outcome) => this.#came(index, outcome), {
      ordered, window, returnsErrors: errors === "return",
    });
    this.#progress = new Progress(this.#run, progress);
  }

  /** @override @protected @returns {IteratorResult<any, undefined> | undefined} */
  take() {
    this.#feed();
    if (this.#faults.length > 0) throw this.#faults[0];
    this.#progress.draw();
    const outcome = this.#run.ready();
    if (outcome) return { done: false, value: outcome };
    if (!this.#run.over) return undefined;
    this.#progress.draw(true);
    return { done: true, value: undefined };
  }

  /** @override @protected */
  async abandon() {
    this.#progress.draw(true);
    const source = this.#items.now ?? this.#items.next;
    if (!this.#run.exhausted) Promise.resolve(source.return?.()).catch(() => {});
    this.#run.exhausted = true;
    await this.#engine.abandon(this.#run.underWay());
  }

  #feed() {
    if (this.#items.now) while (this.#run.wants()) this.#add(this.#items.now.next());
    else if (!this.#reads && this.#run.wants()) this.#read();
  }

  async #read() {
    this.#reads = true;
    try {
      while (this.#run.wants() && this.#faults.length === 0) this.#add(await this.#items.next.next());
    } catch (error) {
      this.#faults.push(error);
    }
    this.#reads = false;
    this.ring();
  }

  /** @param {IteratorResult<Body | Job>} step */
  #add({ done, value }) {
    if (done || this.#run.exhausted) this.#run.exhausted = true;
    else this.#engine.begin(this.#run.add(value), this.#waits);
  }

  /**
   * @param {number} index
   * @param {import("./mapping.js").Outcome} outcome
   */
  #came(index, outcome) {
    try {
      this.#run.take(index, outcome);
    } catch (error) {
      this.#faults.push(error);
    }
    this.ring();
  }
}
