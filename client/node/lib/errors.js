// SPDX-License-Identifier: Apache-2.0
// Why a request was refused, or a job did not succeed: a class for each code of the protocol's table.
import { NO_BODY } from "./wire.js";

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
  static httpStatus = 500;
  /** Whether the broker says when to come again (`retryAfterMs`). */
  static saysWhenToRetry = false;

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
  static httpStatus = 400;
}

/** The connection's key is unknown or revoked. */
export class UnauthorizedError extends LaneMQError {
  static code = "unauthorized";
  static httpStatus = 401;
}

/** The client may not use this lane, service or operation. */
export class ForbiddenError extends LaneMQError {
  static code = "forbidden";
  static httpStatus = 403;
}

/** Never known. */
export class NotFoundError extends LaneMQError {
  static code = "not_found";
  static httpStatus = 404;
}

/** No longer kept; of a submit: its job succeeded and was evicted. */
export class GoneError extends LaneMQError {
  static code = "gone";
  static httpStatus = 410;
}

/** The id is in use with other content. */
export class ConflictError extends LaneMQError {
  static code = "conflict";
  static httpStatus = 409;
}

/** Body or header over its limit; the message names it. */
export class TooLargeError extends LaneMQError {
  static code = "too_large";
  static httpStatus = 413;
}

/** Can never run: it costs more than a budget can ever hold. */
export class UnsatisfiableError extends LaneMQError {
  static code = "unsatisfiable";
  static httpStatus = 422;
}

/** The lane holds its maximum of jobs or bytes. */
export class LaneFullError extends LaneMQError {
  static code = "lane_full";
  static httpStatus = 429;
  static saysWhenToRetry = true;
}

/** The client or its tenant holds its maximum of jobs, or its share (`client_share`). */
export class ClientFullError extends LaneMQError {
  static code = "client_full";
  static httpStatus = 429;
  static saysWhenToRetry = true;
}

/** The broker holds its maximum of jobs or bytes. */
export class BytesFullError extends LaneMQError {
  static code = "bytes_full";
  static httpStatus = 429;
  static saysWhenToRetry = true;
}

/** By the client or an operator. */
export class CancelledError extends LaneMQError {
  static code = "cancelled";
  static httpStatus = 499;
}

/**
 * A stream's chunks were not taken for 30 s, or too many of them; the job goes on. Of a watch: not renewed
 * for 30 s.
 */
export class SlowReaderError extends LaneMQError {
  static code = "slow_reader";
  static httpStatus = 499;
}

/** A fault of the broker. */
export class InternalError extends LaneMQError {
  static code = "internal";
  static httpStatus = 500;
}

/** The upstream's permanent error; its status and body are passed on. */
export class UpstreamRejectedError extends LaneMQError {
  static code = "upstream_rejected";
  static httpStatus = 502;
}

/** The attempts, or the retries of the service, are spent. */
export class UpstreamFailedError extends LaneMQError {
  static code = "upstream_failed";
  static httpStatus = 502;
  static saysWhenToRetry = true;
}

/** Every key rests for longer than the job's time, or the job said `spent: end`; or two keys refused it. */
export class UpstreamQuotaError extends LaneMQError {
  static code = "upstream_quota";
  static httpStatus = 503;
}

/** The upstream's rate is used up, and the job said `limited: end`, or its time is over before that is. */
export class LimitedError extends LaneMQError {
  static code = "limited";
  static httpStatus = 429;
  static saysWhenToRetry = true;
}

/** Workers died under the job, or its last attempt did. */
export class WorkerLostError extends LaneMQError {
  static code = "worker_lost";
  static httpStatus = 502;
  static saysWhenToRetry = true;
}

/** No progress for `stall_timeout`, in the last attempt or in a stream that had begun. */
export class StalledError extends LaneMQError {
  static code = "stalled";
  static httpStatus = 504;
  static saysWhenToRetry = true;
}

/** The broker is stopping and takes no work. */
export class DrainingError extends LaneMQError {
  static code = "draining";
  static httpStatus = 503;
  static saysWhenToRetry = true;
}

/**
 * A plugin that judges submits is off, and its `when_off` is `refuse`; jobs of what an operator paused wait
 * instead.
 */
export class PausedError extends LaneMQError {
  static code = "paused";
  static httpStatus = 503;
  static saysWhenToRetry = true;
}

/**
 * The store's disk has no room for new jobs (`limiter` is `store_reserve`), or too much waits for it
 * (`store_backlog_max`); running jobs, and those that are not durable, go on.
 */
export class StoreFullError extends LaneMQError {
  static code = "store_full";
  static httpStatus = 503;
  static saysWhenToRetry = true;
}

/**
 * Another broker may own the store: nothing was taken. Ask at `endpoints`, if said (several brokers). With
 * `shard`: that shard takes such jobs.
 */
export class NotOwnerError extends LaneMQError {
  static code = "not_owner";
  static httpStatus = 503;
  static saysWhenToRetry = true;
}

/** The store cannot make jobs durable now: nothing was taken. */
export class UnavailableError extends LaneMQError {
  static code = "unavailable";
  static httpStatus = 503;
  static saysWhenToRetry = true;
}

/** `timeout_ms` is over. */
export class DeadlineError extends LaneMQError {
  static code = "deadline";
  static httpStatus = 504;
}

/** `fetch` waited as long as it was told to, and the job goes on. `state` says how far it is. No code of the wire. */
export class NotOverError extends LaneMQError {
  static code = "not_over";
  static httpStatus = 202;

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
export const REFUSALS = new Set([
  "lane_full", "client_full", "bytes_full", "store_full", "draining", "paused", "not_owner", "unavailable",
]);

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
