// SPDX-License-Identifier: Apache-2.0
// Why a request was refused, or a job did not succeed: a class for each code of the protocol's table.
import { ERRORS, REFUSALS as NAMED_REFUSALS } from "./tables.js";
import { NO_BODY } from "./wire.js";

/** @type {Map<string, [status: number, saysWhenToRetry: boolean]>} */
const ROWS = new Map(ERRORS.map(([code, status, saysWhenToRetry]) => [code, [status, saysWhenToRetry]]));

/**
 * @typedef {object} ErrorFields
 * @property {string} [id] @property {number} [retryAfterMs] @property {number} [attempts] @property {number} [queuedMs]
 * @property {string} [limiter] @property {number} [chunks] @property {number} [upstreamStatus] @property {Buffer} [body]
 * @property {boolean} [local]
 */

/**
 * The base of all errors that the broker says, or that this package says in its place.
 *
 * An unknown code, of a broker that is newer than this package, is an InternalError whose `code` is that word.
 */
export class LaneMQError extends Error {
  /** The code on the wire. */
  static code = "internal";
  /** The status of HTTP that the gateway answers with. */
  static get httpStatus() {
    return ROWS.get(this.code)?.[0] ?? 500;
  }

  /** Whether the broker says when to come again (`retryAfterMs`). */
  static get saysWhenToRetry() {
    return ROWS.get(this.code)?.[1] ?? false;
  }

  /**
   * @param {string} [message] For people: what, which limit, what to do.
   * @param {ErrorFields} [fields]
   */
  constructor(message = "", fields = {}) {
    super(message);
    const { id, retryAfterMs, attempts = 0, queuedMs = 0, limiter, chunks = 0, upstreamStatus, body = NO_BODY, local = false } = fields;
    this.name = new.target.name;
    /**
     * The word on the wire.
     * @type {string}
     */
    this.code = new.target.code;
    /** The job's id; undefined: the request was about no job. */
    this.id = id;
    /** After how many milliseconds to come again; undefined: the broker says none. */
    this.retryAfterMs = retryAfterMs;
    /** Hand-overs that cost an attempt. */
    this.attempts = attempts;
    /** How long the job waited. */
    this.queuedMs = queuedMs;
    /** The bound that stood in the way, by its name in the configuration. */
    this.limiter = limiter;
    /** Pieces of a streamed answer before it broke. */
    this.chunks = chunks;
    /** The status that the upstream answered with over HTTP, where it did. */
    this.upstreamStatus = upstreamStatus;
    /** The upstream's answer, if any. */
    this.body = body;
    /** Said by this package, not by the broker: whether the job ran is not known. */
    this.local = local;
    /**
     * The job's place in the input of `map`; undefined: it is of no `map`.
     * @type {number | undefined}
     */
    this.index = undefined;
  }

  /** The status of HTTP that the gateway answers with. */
  get httpStatus() {
    return /** @type {typeof LaneMQError} */ (this.constructor).httpStatus;
  }

  /** @override */
  toString() {
    return `${this.code}: ${this.message}${this.id ? ` (job ${this.id})` : ""}`;
  }
}

/** Malformed message, unknown lane or bad field; the message names it. */
export class BadRequestError extends LaneMQError {
  static code = "bad_request";
}

/** The connection's key is unknown or revoked. */
export class UnauthorizedError extends LaneMQError {
  static code = "unauthorized";
}

/** The client may not use this lane, service or operation. */
export class ForbiddenError extends LaneMQError {
  static code = "forbidden";
}

/** Never known. */
export class NotFoundError extends LaneMQError {
  static code = "not_found";
}

/** No longer kept; of a submit: its job succeeded and was evicted. */
export class GoneError extends LaneMQError {
  static code = "gone";
}

/** The id is in use with other content. */
export class ConflictError extends LaneMQError {
  static code = "conflict";
}

/** Body or header over its limit; the message names it. */
export class TooLargeError extends LaneMQError {
  static code = "too_large";
}

/** Can never run: it costs more than a budget can ever hold. */
export class UnsatisfiableError extends LaneMQError {
  static code = "unsatisfiable";
}

/** The lane holds its maximum of jobs or bytes. */
export class LaneFullError extends LaneMQError {
  static code = "lane_full";
}

/** The client or its tenant holds its maximum of jobs, or its share (`client_share`). */
export class ClientFullError extends LaneMQError {
  static code = "client_full";
}

/** The broker holds its maximum of jobs or bytes. */
export class BytesFullError extends LaneMQError {
  static code = "bytes_full";
}

/** By the client or an operator. */
export class CancelledError extends LaneMQError {
  static code = "cancelled";
}

/**
 * A stream's chunks were not taken for 30 s, or too many of them; the job goes on. Of a watch: not renewed
 * for 30 s.
 */
export class SlowReaderError extends LaneMQError {
  static code = "slow_reader";
}

/** A fault of the broker. */
export class InternalError extends LaneMQError {
  static code = "internal";
}

/** The upstream's permanent error; its status and body are passed on. */
export class UpstreamRejectedError extends LaneMQError {
  static code = "upstream_rejected";
}

/** The attempts, or the retries of the service, are spent. */
export class UpstreamFailedError extends LaneMQError {
  static code = "upstream_failed";
}

/** Every key rests for longer than the job's time, or the job said `spent: end`; or two keys refused it. */
export class UpstreamQuotaError extends LaneMQError {
  static code = "upstream_quota";
}

/** The upstream's rate is used up, and the job said `limited: end`, or its time is over before that is. */
export class LimitedError extends LaneMQError {
  static code = "limited";
}

/** Workers died under the job, or its last attempt did. */
export class WorkerLostError extends LaneMQError {
  static code = "worker_lost";
}

/** No progress for `stall_timeout`, in the last attempt or in a stream that had begun. */
export class StalledError extends LaneMQError {
  static code = "stalled";
}

/** The broker is stopping and takes no work. */
export class DrainingError extends LaneMQError {
  static code = "draining";
}

/**
 * A plugin that judges submits is off, and its `when_off` is `refuse`; jobs of what an operator paused wait
 * instead.
 */
export class PausedError extends LaneMQError {
  static code = "paused";
}

/**
 * The store's disk has no room for new jobs (`limiter` is `store_reserve`), or too much waits for it
 * (`store_backlog_max`); running jobs, and those that are not durable, go on.
 */
export class StoreFullError extends LaneMQError {
  static code = "store_full";
}

/**
 * Another broker may own the store: nothing was taken. Ask at `endpoints`, if said (several brokers). With
 * `shard`: that shard takes such jobs.
 */
export class NotOwnerError extends LaneMQError {
  static code = "not_owner";
}

/** The store cannot make jobs durable now: nothing was taken. */
export class UnavailableError extends LaneMQError {
  static code = "unavailable";
}

/** `timeout_ms` is over. */
export class DeadlineError extends LaneMQError {
  static code = "deadline";
}

/** `fetch` waited as long as it was told to, and the job goes on. `state` says how far it is. No code of the wire. */
export class NotOverError extends LaneMQError {
  static code = "not_over";

  /** @override */
  static get httpStatus() {
    return 202;
  }

  /**
   * @param {string} message
   * @param {string} state
   * @param {ErrorFields} [fields]
   */
  constructor(message, state, fields) {
    super(message, fields);
    this.state = state;
  }
}

/**
 * Each code of the protocol's table, in its order, with its class.
 * @type {ReadonlyMap<string, typeof LaneMQError>}
 */
export const BY_CODE = new Map(
  [
    BadRequestError,
    UnauthorizedError,
    ForbiddenError,
    NotFoundError,
    GoneError,
    ConflictError,
    TooLargeError,
    UnsatisfiableError,
    LaneFullError,
    ClientFullError,
    BytesFullError,
    CancelledError,
    SlowReaderError,
    InternalError,
    UpstreamRejectedError,
    UpstreamFailedError,
    UpstreamQuotaError,
    LimitedError,
    WorkerLostError,
    StalledError,
    DrainingError,
    PausedError,
    StoreFullError,
    NotOwnerError,
    UnavailableError,
    DeadlineError,
  ].map((row) => [row.code, row]),
);

/** What refuses a job for want of room, or while the broker stops: the same job may be sent again later. */
export const REFUSALS = new Set(NAMED_REFUSALS);

/**
 * The error of a code.
 * @param {string} code
 * @param {string} message
 * @param {ErrorFields} [fields]
 * @returns {LaneMQError}
 */
export function errorOf(code, message, fields) {
  const known = BY_CODE.get(code);
  const error = new (known ?? InternalError)(message, fields);
  error.code = code;
  return error;
}
