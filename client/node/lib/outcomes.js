// SPDX-License-Identifier: Apache-2.0
// What handlers return and throw, as outcomes that the broker can read: docs/protocol/worker.md, "Worker to broker".
//
// What cannot be said becomes an `error` with the code `bad_outcome`, whose message names the field, what it was and what is allowed.
// Its class is the one of what was thrown. Of an answer it is `permanent`: the upstream was asked already, and the handler would answer
// the same again.
import { inspect } from "node:util";

import { Failure, JobCancelled } from "./failures.js";
import { DURATION_MS_MAX, LIMITED_BY, LIMITS, NAME_BYTES_MAX, USAGE } from "./tables.js";
import { bodyBytes } from "./types.js";
import * as wire from "./wire.js";

/** @typedef {import("./wire.js").Fields} Fields */
/**
 * What a handler came to.
 * @typedef {{ op: "result" | "error", fields: Fields, body?: Uint8Array }} Outcome
 */

const MESSAGE_CHARS_MAX = 1024;
const NAME_CHARS_MAX = 100; // of an error's class, as a code
const SHOWN_CHARS_MAX = 60; // of a value in a message
const BAD_OUTCOME = "bad_outcome";
/** Classes that cost no attempt: what cannot be said would come again and again. */
const FREE = ["limited", "quota", "released"];
/** An answer that says more than its body. `usage`, `limits`: of the upstream, as the protocol names them. */
export class Result {
  /**
   * @param {import("./types.js").Body} [body]
   * @param {{ usage?: Record<string, number>, limits?: Record<string, number> }} [more]
   */
  constructor(body = "", { usage, limits } = {}) {
    this.body = body;
    this.usage = usage;
    this.limits = limits;
  }
}

/** A part of an outcome that the broker would not read. */
class UnsayableError extends Error {}

/**
 * What a handler returned.
 * @param {unknown} answer
 * @returns {Outcome}
 */
export function ofAnswer(answer) {
  try {
    if (!(answer instanceof Result)) return { op: "result", fields: {}, body: body(answer) };
    return { op: "result", fields: settled(answer), body: body(answer.body) };
  } catch (fault) {
    return bad("permanent", fault);
  }
}

/**
 * What a handler threw.
 * @param {unknown} fault
 * @returns {Outcome}
 */
export function ofFault(fault) {
  let errorClass = "retry";
  try {
    if (fault instanceof JobCancelled) return ofCancel();
    if (fault instanceof Failure) {
      errorClass = text("errorClass", /** @type {typeof Failure} */ (fault.constructor).errorClass, NAME_BYTES_MAX);
      return failed(errorClass, fault);
    }
    const error = fault instanceof Error ? fault : { name: "Error", message: fault };
    const code = wire.beginning(`${error.name}`.slice(0, NAME_CHARS_MAX), NAME_BYTES_MAX);
    return { op: "error", fields: { class: errorClass, ...(code && { code }), message: message(error.message) } };
  } catch (unsaid) {
    return bad(FREE.includes(errorClass) ? "permanent" : errorClass, unsaid);
  }
}

/** @returns {Outcome} */
export const ofCancel = () => ({ op: "error", fields: { class: "permanent", code: "cancelled", message: "the job was cancelled" } });

/**
 * @param {string} errorClass
 * @param {unknown} fault
 * @returns {Outcome}
 */
function bad(errorClass, fault) {
  const problem = fault instanceof UnsayableError ? fault.message : `it cannot be read: ${shown(fault)}`;
  return { op: "error", fields: { class: errorClass, code: BAD_OUTCOME, message: cut(problem) } };
}

/** @param {Outcome} outcome */
export const isBad = ({ fields }) => fields.code === BAD_OUTCOME;

/**
 * In the place of one that the broker could not read.
 * @param {string} problem
 */
export const unreadable = (problem) => bad("permanent", new UnsayableError(problem));

/**
 * @param {string} errorClass
 * @param {Failure} failure
 * @returns {Outcome}
 */
function failed(errorClass, failure) {
  /** @type {Fields} */
  const fields = { class: errorClass, ...settled(failure) };
  const { code, retryAfterMs, upstreamStatus, limitedBy } = failure;
  if (code) fields.code = text("code", code, NAME_BYTES_MAX);
  if (failure.message) fields.message = message(failure.message);
  if (retryAfterMs != null) fields.retry_after_ms = pauseMs(retryAfterMs);
  if (limitedBy != null) {
    if (!LIMITED_BY.includes(limitedBy)) throw new UnsayableError(`limitedBy is ${shown(limitedBy)}; it is one of ${LIMITED_BY.join(", ")}`);
    fields.limited_by = limitedBy;
  }
  if (upstreamStatus != null) {
    fields.upstream_status = number("upstreamStatus", upstreamStatus, wire.UPSTREAM_STATUS_MIN, wire.UPSTREAM_STATUS_MAX);
  }
  return { op: "error", fields, body: body(failure.body) };
}

/** @param {{ usage?: unknown, limits?: unknown }} said */
function settled(said) {
  const usage = counts("usage", said.usage, USAGE);
  const limits = counts("limits", said.limits, LIMITS);
  return { ...(usage && { usage }), ...(limits && { limits }) };
}

/**
 * The numbers that the protocol names; the broker ignores others. Undefined: none.
 * @param {string} what
 * @param {any} said
 * @param {string[]} names
 */
function counts(what, said, names) {
  if (said == null) return undefined;
  if (!wire.isMap(said) || said instanceof Map) throw new UnsayableError(`${what} is ${shown(said)}; it is an object of names and whole numbers`);
  const numbers = names.filter((name) => said[name] != null).map((name) => [name, number(`${what}.${name}`, said[name], 0, wire.INT_MAX)]);
  return numbers.length > 0 ? Object.fromEntries(numbers) : undefined;
}

/**
 * @param {string} what
 * @param {unknown} said
 * @param {number} least
 * @param {number} most
 */
function number(what, said, least, most) {
  const whole = typeof said === "bigint" && said >= least && said <= most ? Number(said) : said;
  if (typeof whole !== "number" || !Number.isInteger(whole) || whole < least || whole > most) {
    throw new UnsayableError(`${what} is ${shown(said)}; it is a whole number from ${least} to ${most}`);
  }
  return whole;
}

/** @param {unknown} said */
function pauseMs(said) {
  if (typeof said !== "number" || !Number.isFinite(said)) {
    throw new UnsayableError(`retryAfterMs is ${shown(said)}; it is a number of milliseconds`);
  }
  return Math.ceil(Math.min(Math.max(said, 0), DURATION_MS_MAX));
}

/** @param {unknown} said */
function body(said) {
  try {
    return said == null ? wire.NO_BODY : bodyBytes(said);
  } catch (error) {
    throw new UnsayableError(`the body cannot be sent (${shown(error)}); it is bytes, text, or an object or list for JSON`);
  }
}

/** @param {unknown} said */
const message = (said) => cut(text("message", said));

/** A text for people, as long as a message may be. @param {string} text */
export const cut = (text) => beginningOf(text, MESSAGE_CHARS_MAX);

/**
 * @param {string} text
 * @param {number} chars
 */
const beginningOf = (text, chars) => wire.beginning(text.slice(0, chars), 4 * chars); // no half character at the end

/**
 * @param {string} what
 * @param {unknown} said
 * @param {number} [bytesMax]
 */
function text(what, said, bytesMax) {
  let whole;
  try {
    whole = String(said);
  } catch (error) {
    throw new UnsayableError(`${what} is no text: String() of ${shown(said)} throws ${shown(error)}`);
  }
  if (!wire.isWellFormed(whole)) throw new UnsayableError(`${what} is ${shown(whole)}; it is text that UTF-8 has`);
  const size = Buffer.byteLength(whole);
  if (bytesMax !== undefined && size > bytesMax) {
    throw new UnsayableError(`${what} is ${shown(whole)} and has ${size} bytes; the limit is ${bytesMax}`);
  }
  return whole;
}

/** A value for people, whatever it is. @param {unknown} value */
function shown(value) {
  let said;
  try {
    said = value instanceof Error ? `${value.name}: ${value.message}` : inspect(value, { depth: 1, maxStringLength: SHOWN_CHARS_MAX });
  } catch {
    said = `a ${typeof value}`;
  }
  return beginningOf(said, SHOWN_CHARS_MAX).replaceAll("\n", " ");
}
