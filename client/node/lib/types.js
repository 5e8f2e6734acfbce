// SPDX-License-Identifier: Apache-2.0
// What callers give and get. All durations are milliseconds, and say so in their names.
import { DURATION_MS_MAX, HEADER_BYTES_MAX, MAP_ENTRIES_MAX, URL_BYTES_MAX } from "./tables.js";
import { isForWorkers, unpack } from "./unpacking.js";
import * as wire from "./wire.js";

/**
 * Bytes go as they are, text as UTF-8, any other object or list as JSON.
 * @typedef {Uint8Array | ArrayBuffer | string | object} Body
 */
/**
 * What budgets in tokens are debited with; without it the broker estimates.
 * @typedef {{ input_tokens?: number, output_tokens?: number }} Cost
 */
/**
 * What a submit may say of its job. What is left out has the broker's default.
 * @typedef {object} JobOptions
 * @property {string} [lane] A configured lane.
 * @property {string} [model]
 * @property {string} [client] Whom the job is for: who takes turns, and what budgets match.
 * @property {Cost} [cost]
 * @property {number} [timeoutMs] The job's deadline, from its acceptance: it ends with DeadlineError.
 * @property {number} [delayMs] Before the job is queued.
 * @property {number} [attemptsMax]
 * @property {string} [group] Jobs of a group are counted together, and a watch of it hears when it is over.
 * @property {string} [notify] A URL that hears of the job's end, or of its group's, where the broker has workers for that.
 * @property {number} [groupSize] How many jobs the group has. Without it the group is over when none of them is open.
 * @property {number} [retainMs] For how long the answer is kept, and the id means this job.
 * @property {boolean} [durable]
 * @property {"wait" | "end"} [whenLimited] `end`: LimitedError at once, where the upstream's rate is used up.
 * @property {"wait" | "end"} [whenSpent] `end`: UpstreamQuotaError at once, where every key rests.
 * @property {"wait" | "throw"} [whenFull] `wait`: a lane or a broker that is full is asked again, until `timeoutMs`. `throw`:
 *   LaneFullError and the like.
 * @property {boolean} [cancelWhenGone] Whether the broker cancels the job when this process is gone for 5 s. Not for a client
 *   that may be cut off for longer.
 * @property {unknown} [meta] Passed to the worker untouched; anything that msgpack can say.
 * @property {unknown} [trace]
 * @property {Record<string, unknown>} [extra] Further fields for the worker; their names begin with `x-`.
 */
/**
 * What a call may say besides.
 * @typedef {object} CallOptions
 * @property {string} [id] The job's name. Submitted again with it, also by another process and after a crash, the job does not
 *   run a second time and the answer is the same. Without it the client makes one, for its own repetitions.
 * @property {AbortSignal} [signal] Aborted, the call ends with the signal's reason, and the job that it submitted is cancelled.
 */
/** @typedef {JobOptions & CallOptions} SubmitOptions */

/** An item of `map` that says more than its body: an id of its own, or options that differ from the others'. */
export class Job {
  /**
   * @param {Body} body
   * @param {JobOptions & { id?: string }} [options]
   */
  constructor(body, { id, ...options } = {}) {
    this.body = body;
    this.id = id;
    this.options = options;
  }
}

/** A job that succeeded. */
export class Answer {
  #fields;

  /**
   * @param {string} id
   * @param {Buffer} body
   * @param {wire.Fields} fields
   */
  constructor(id, body, fields) {
    this.id = id;
    this.body = body;
    /**
     * The job's place in the input of `map`; undefined: it is of no `map`.
     * @type {number | undefined}
     */
    this.index = undefined;
    this.#fields = fields;
  }

  get text() {
    return this.body.toString();
  }

  /** @returns {any} */
  json() {
    return JSON.parse(this.text);
  }

  /** Undefined: the default lane. */
  get lane() {
    return wire.optionalText(this.#fields, "lane");
  }

  /** Hand-overs that cost an attempt. */
  get attempts() {
    return wire.int(this.#fields, "attempts", 1);
  }

  /** From acceptance, or the end of the delay, to the last hand-over. */
  get queuedMs() {
    return wire.int(this.#fields, "queued_ms", 0);
  }

  /** From the last hand-over to the outcome. */
  get ranMs() {
    return wire.int(this.#fields, "ran_ms", 0);
  }

  /**
   * What the worker said; empty where it said nothing.
   * @returns {Record<string, number>}
   */
  get usage() {
    return wire.map(this.#fields, "usage");
  }

  /** Pieces of a streamed answer; the body is what none of them carried. */
  get chunks() {
    return wire.int(this.#fields, "chunks", 0);
  }
}

/**
 * A job that the broker has taken.
 * @typedef {object} Accepted
 * @property {string} id
 * @property {string} [lane]
 * @property {boolean} durable It is on disk and outlives the broker.
 * @property {boolean} duplicate The broker knew the job before.
 * @property {number} position
 * @property {string[]} ignored Of a duplicate: `group` and `notify`, where the job that the broker knows has others. They count for nothing.
 */
/**
 * How far a job is.
 * @typedef {object} Status
 * @property {string} id
 * @property {string} state delayed, queued, running, succeeded, failed, cancelled, expired or unknown.
 * @property {boolean} over Whether it has ended, or is not known.
 * @property {string} [lane]
 * @property {number} attempts
 * @property {number} queuedMs
 * @property {number} [etaMs] Until it may go on, where the broker knows.
 * @property {string} [blockedBy] Of a job that waits: for what.
 * @property {string} [worker] Of a job that runs: where.
 * @property {string} [group] Of a job that has not ended.
 * @property {number} [pct] Of a job that runs and whose worker says how far it is: in percent.
 * @property {string} [note] The same in words.
 * @property {number} [silentMs] For how long it has said nothing.
 * @property {{ code?: string, message?: string }} error Of a job that failed.
 */
/**
 * The broker answers.
 * @typedef {object} Pong
 * @property {number} roundTripMs
 * @property {string} [version]
 * @property {string} [defaultLane]
 * @property {Date} brokerTime The broker's clock.
 * @property {string} [shard] Where there are shards: the broker's own.
 * @property {Record<string, string[]>} shards The endpoints of each.
 */

/** What a job waits for, and what would help. As text it is both. */
export class Explanation {
  /**
   * @param {Status} status
   * @param {string} what
   * @param {string} help
   */
  constructor(status, what, help) {
    this.status = status;
    this.what = what;
    this.help = help;
  }

  toString() {
    return this.help ? `${this.what}\n${this.help}` : this.what;
  }
}

const GOING_ON = new Set(["delayed", "queued", "running"]);

/**
 * @param {wire.Fields} fields
 * @returns {Status}
 */
export function statusOf(fields) {
  const state = wire.text(fields, "state", "unknown");
  return {
    id: wire.text(fields, "id", ""),
    state,
    over: !GOING_ON.has(state),
    lane: wire.optionalText(fields, "lane"),
    attempts: wire.int(fields, "attempts", 0),
    queuedMs: wire.int(fields, "queued_ms", 0),
    etaMs: wire.optionalInt(fields, "eta_ms"),
    blockedBy: wire.optionalText(fields, "blocked_by"),
    worker: wire.optionalText(fields, "worker"),
    group: wire.optionalText(fields, "group"),
    pct: wire.optionalInt(fields, "pct"),
    note: wire.optionalText(fields, "note"),
    silentMs: wire.optionalInt(fields, "silent_ms"),
    error: wire.map(fields, "error"),
  };
}

/**
 * What goes on the wire: a copy, since it may be sent again later. Throws TypeError.
 * @param {unknown} body
 * @returns {Buffer}
 */
export function bodyBytes(body) {
  if (typeof body === "string") return Buffer.from(body);
  if (body instanceof Uint8Array) return Buffer.from(body);
  if (body instanceof ArrayBuffer) return Buffer.from(body.slice(0));
  if (ArrayBuffer.isView(body)) throw new TypeError(`a body is a Uint8Array, not ${wire.kindOf(body)}`);
  if (typeof body === "object" && body !== null) return Buffer.from(JSON.stringify(body));
  throw new TypeError(`a body is bytes, text, or an object or list for JSON, not ${wire.kindOf(body)}`);
}

/**
 * A duration in whole milliseconds, rounded up. Throws TypeError or RangeError.
 * @param {string} what
 * @param {unknown} value
 */
export function wholeMs(what, value) {
  if (typeof value !== "number") throw new TypeError(`${what} is a number of milliseconds, not ${wire.kindOf(value)}`);
  if (!(value >= 0 && value <= DURATION_MS_MAX)) {
    throw new RangeError(`${what} is ${value}; the limits are 0 and ${DURATION_MS_MAX}`);
  }
  return Math.ceil(value);
}

/** @type {Record<string, string>} */
const TIMES = { timeoutMs: "timeout_ms", delayMs: "delay_ms", retainMs: "retain_ms" };
/** @type {Record<string, { field?: string, words: string[] }>} */
const WORDS = {
  whenLimited: { field: "limited", words: ["wait", "end"] },
  whenSpent: { field: "spent", words: ["wait", "end"] },
  whenFull: { words: ["wait", "throw"] },
};
// Bytes of a header for what is not the options: id, ref, op of a submit; job, attempt, id, lane, key, times of what its worker is told.
const RESERVED = 512;
// Entries of a map for the same: id, ref, batch; job, attempt, id, service, lane, key.
const RESERVED_ENTRIES = 3;
const RESERVED_ENTRIES_OF_JOB = 6;
const TOLD_TO_WORKERS = new Set(["model", "client", "timeout_ms", "cost", "stream"]);

/** The fields that jobs of one call share, checked once and not changed afterwards. */
export class Submit {
  /**
   * Throws TypeError or RangeError for what no job can be.
   * @param {string} service
   * @param {JobOptions} options
   * @param {wire.Fields} [more]
   */
  constructor(service, options, more = {}) {
    /** @type {wire.Fields} */
    this.fields = { service: wire.checkName("service", service), ...more };
    /** Whether a refusal for want of room is asked again. */
    this.waitsWhenFull = options.whenFull !== "throw";
    for (const [name, value] of Object.entries(options)) if (value != null) this.#take(name, value);
    /**
     * After that no answer is awaited any more, but for what the wire takes; undefined: no bound.
     * @type {number | undefined}
     */
    this.patienceMs = this.fields.timeout_ms === undefined ? undefined : this.fields.timeout_ms + (this.fields.delay_ms ?? 0);
    this.size = wire.packedBytes(this.fields);
    if (this.size > HEADER_BYTES_MAX - RESERVED) {
      throw new RangeError(
        `the fields of the job have ${this.size} bytes, the limit is ${HEADER_BYTES_MAX - RESERVED} (header_bytes_max); ` +
          "send less in meta",
      );
    }
    this.#checkEntries();
  }

  /** Of the submit, and of what the broker makes of it for a worker. */
  #checkEntries() {
    const names = Object.keys(this.fields);
    if (names.length + RESERVED_ENTRIES_OF_JOB <= MAP_ENTRIES_MAX) return;
    const extras = names.filter((name) => name.startsWith("x-")).length;
    const told = names.filter((name) => isForWorkers(name) || TOLD_TO_WORKERS.has(name)).length + RESERVED_ENTRIES_OF_JOB;
    const entries = Math.max(names.length + RESERVED_ENTRIES, told);
    if (entries > MAP_ENTRIES_MAX) {
      throw new RangeError(
        `the job has ${extras} fields in extra and ${entries - extras} others, the limit of both is ${MAP_ENTRIES_MAX} ` +
          "(map_entries_max); send fewer, or put them into meta",
      );
    }
  }

  /**
   * @param {string} name
   * @param {any} value
   */
  #take(name, value) {
    const fields = this.fields;
    if (name === "lane" || name === "model" || name === "client" || name === "group") fields[name] = wire.checkName(name, value);
    else if (name in TIMES) fields[TIMES[name]] = wholeMs(name, value);
    else if (name in WORDS) {
      const { field, words } = WORDS[name];
      if (!words.includes(value)) throw new RangeError(`${name} is one of ${words.join(", ")}, not ${value}`);
      if (field && value !== words[0]) fields[field] = value;
    } else if (name === "meta" || name === "trace") {
      fields[name] = copied(name, value);
    } else if (name === "cost") fields.cost = checkCost(value);
    else if (name === "notify") {
      if (typeof value !== "string" || value === "" || !wire.isWellFormed(value) || Buffer.byteLength(value) > URL_BYTES_MAX) {
        throw new RangeError(`notify is a URL of up to ${URL_BYTES_MAX} bytes, as a string`);
      }
      fields.notify = value;
    } else if (name === "attemptsMax" || name === "groupSize") {
      if (!Number.isSafeInteger(value)) throw new TypeError(`${name} is an integer`);
      fields[name === "groupSize" ? "group_size" : "attempts_max"] = value;
    } else if (name === "durable" || name === "cancelWhenGone") {
      if (typeof value !== "boolean") throw new TypeError(`${name} is true or false`);
      if (name === "durable") fields.durable = value;
      else if (value) fields.orphan = "cancel";
    } else if (name === "extra") {
      for (const [extra, each] of Object.entries(value)) {
        if (!wire.checkName("a name in extra", extra).startsWith("x-")) throw new RangeError(`extra has ${extra}; names begin with x-`);
        if (each !== undefined) fields[extra] = copied(extra, each);
      }
    } else throw new TypeError(`there is no option ${name}; JobOptions lists them`);
  }
}

/**
 * A value for the worker as it is now: the caller may change his own before it is sent.
 * @param {string} name
 * @param {unknown} value
 */
function copied(name, value) {
  wire.checkValue(name, value);
  return unpack(name, wire.packed(value));
}

/** @param {Record<string, unknown>} cost */
function checkCost(cost) {
  for (const [name, value] of Object.entries(cost)) {
    if (!["input_tokens", "output_tokens"].includes(name) || !Number.isSafeInteger(value)) {
      throw new RangeError("cost is { input_tokens, output_tokens }, whole numbers, or one of them");
    }
  }
  return { ...cost };
}
