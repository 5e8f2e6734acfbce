// SPDX-License-Identifier: Apache-2.0
// What a handler throws where it has no answer: a class for each class of the protocol ("Worker to broker", `error`).
import { NO_BODY } from "./wire.js";

/**
 * @typedef {object} FailureFields
 * @property {string} [code] The upstream's, or one of the handler's own.
 * @property {number} [retryAfterMs] Before that there is no new attempt.
 * @property {Uint8Array} [body] The upstream's answer, for the client.
 * @property {number} [upstreamStatus] Its status over HTTP.
 * @property {Record<string, number>} [usage] As the protocol names it.
 * @property {Record<string, number>} [limits] As the protocol names them.
 * @property {"rate" | "concurrency" | "slope" | "day"} [limitedBy] Of Limited: which kind of limit refused, where that is known.
 */

/** The base of what a handler throws. */
export class Failure extends Error {
  /** The word on the wire. */
  static errorClass = "retry";

  /** @param {string} [message] @param {FailureFields} [fields] */
  constructor(message = "", { code, retryAfterMs, body = NO_BODY, upstreamStatus, usage, limits, limitedBy } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.retryAfterMs = retryAfterMs;
    this.body = body;
    this.upstreamStatus = upstreamStatus;
    this.usage = usage;
    this.limits = limits;
    this.limitedBy = limitedBy;
  }
}

/** Transient: the broker tries again after a pause; costs an attempt. */
export class Retry extends Failure {}

/** The upstream is short of capacity: the same, and fewer run at once where a budget has a `concurrency`. */
export class Overloaded extends Failure {
  static errorClass = "overloaded";
}

/** The upstream's rate is used up: its budgets pause for `retryAfterMs`; costs no attempt. */
export class Limited extends Failure {
  static errorClass = "limited";
}

/** The upstream key is spent or refused: it rests, and the job goes on with another. */
export class Quota extends Failure {
  static errorClass = "quota";
}

/** Never tried again: the client gets UpstreamRejectedError. */
export class Permanent extends Failure {
  static errorClass = "permanent";
}

/** The job's own time was over before the upstream had answered; says nothing of the upstream. */
export class OutOfTime extends Failure {
  static errorClass = "deadline";
}

/** Handed back untouched: costs no attempt, and goes to another worker. */
export class Released extends Failure {
  static errorClass = "released";
}

/** Thrown where a handler asks for a field of its job that cannot be read. */
export class BadJob extends Permanent {
  /** @param {string} problem */
  constructor(problem) {
    super(problem, { code: "bad_job" });
  }
}

/** Thrown in a handler by `job.chunk()` and `job.check()`: nobody wants the answer any more. */
export class JobCancelled extends Error {
  /** @param {string} id */
  constructor(id) {
    super(`job ${id} is cancelled`);
    this.name = "JobCancelled";
  }
}
