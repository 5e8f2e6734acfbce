// SPDX-License-Identifier: Apache-2.0
// LMQ1 messages as frames of bytes: docs/protocol/README.md, "Messages" and "Limits". Knows no socket.
import { Encoder, ExtData } from "@msgpack/msgpack";
import { HEADER_DEPTH_MAX, INLINE_BYTES_MAX, MAP_ENTRIES_MAX, NAME_BYTES_MAX } from "./tables.js";

/** @typedef {Record<string, any>} Fields */

export const INT_MAX = Number.MAX_SAFE_INTEGER; // of the wire 2^63 - 1, of which JavaScript has these exactly
export const UPSTREAM_STATUS_MIN = 100; // of HTTP
export const UPSTREAM_STATUS_MAX = 599;

/** What would be sent as something else: a Map as an object of nothing, a Date as an ext. */
const NO_VALUES = [Date, ExtData, Map, Set, ArrayBuffer, Promise, RegExp];

export const NO_BODY = Buffer.alloc(0);
const OWN = new Set(["id", "ids", "ref", "job"]);

/** @param {string} name Of a field: whether a later map of a batch does not inherit it. */
export const isOwn = (name) => OWN.has(name);

const encoder = new Encoder({ ignoreUndefined: true, maxDepth: 64 });

/** Bytes that are no LMQ1 message, or a field of another type than the page says. */
export class MalformedError extends Error {}

/** @param {unknown} value A value as it goes on the wire. */
export const packed = (value) => encoder.encode(value);

/** @param {unknown} value @returns {number} What a value takes on the wire. */
export const packedBytes = (value) => encoder.encodeSharedRef(value).length;

/**
 * One message.
 * @param {string} op @param {Fields} fields @param {Uint8Array} [body]
 * @returns {Uint8Array[]}
 */
export function encode(op, fields, body = NO_BODY) {
  if (body.length === 0) return [encoder.encode(["LMQ1", op, fields])];
  if (body.length <= INLINE_BYTES_MAX) return [encoder.encode(["LMQ1", op, fields, body])];
  return [encoder.encode(["LMQ1", op, fields]), body];
}

/**
 * Several messages in one; the maps leave out already what they inherit.
 * @param {string} op @param {Fields[]} maps @param {Uint8Array[]} bodies
 * @returns {Uint8Array[]}
 */
export function encodeBatch(op, maps, bodies) {
  if (bodies.some((body) => body.length > 0)) return [encoder.encode(["LMQ1", op, maps, bodies])];
  return [encoder.encode(["LMQ1", op, maps])];
}

/**
 * What a later map of a batch says, so that with what it inherits from the first it is whole.
 * @param {Fields} first @param {Fields} later
 * @returns {Fields}
 */
export function differences(first, later) {
  /** @type {Fields} */
  const said = {};
  for (const name in later) if (!isSame(later[name], first[name])) said[name] = later[name];
  for (const name in first) if (!(name in later) && !isOwn(name)) said[name] = null;
  return said;
}

/** @param {unknown} one @param {unknown} other Whether they are the same bytes. */
function isSame(one, other) {
  if (Object.is(one, other) || typeof one !== "object" || typeof other !== "object") return Object.is(one, other);
  return Buffer.from(encoder.encodeSharedRef(one)).equals(encoder.encode(other));
}

// ---- what peers say: a field of another type than the page says counts as absent; where it is required, its message cannot be read ----

/** @param {Fields} fields @param {string} name @returns {number | undefined} A whole number of at least 0. */
export function optionalInt(fields, name) {
  const value = fields[name];
  return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** @param {Fields} fields @param {string} name @param {number} [otherwise] @returns {number} */
export function int(fields, name, otherwise) {
  const value = optionalInt(fields, name) ?? otherwise;
  if (value === undefined) throw new MalformedError(`${name} is no int`);
  return value;
}

/** @param {Fields} fields @param {string} name @returns {string | undefined} */
export const optionalText = (fields, name) => (typeof fields[name] === "string" ? fields[name] : undefined);

/** @param {Fields} fields @param {string} name @param {string} [otherwise] @returns {string} */
export function text(fields, name, otherwise) {
  const value = optionalText(fields, name) ?? otherwise;
  if (value === undefined) throw new MalformedError(`${name} is no text`);
  return value;
}

/** @param {Fields} fields @param {string} name @returns {any[]} */
export const list = (fields, name) => (Array.isArray(fields[name]) ? fields[name] : []);

/** @param {Fields} fields @param {string} name @returns {string[]} What is no text is left out. */
export const texts = (fields, name) => list(fields, name).filter((each) => typeof each === "string");

/** @param {Fields} fields @param {string} name @returns {Fields} */
export const map = (fields, name) => (isMap(fields[name]) ? fields[name] : {});

/** @param {unknown} value @returns {value is Fields} */
export const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

// ---- what callers say ------------------------------------------------------------------------------------

/**
 * Throws RangeError or TypeError where a value of the caller's would have a whole message refused, or would arrive as another one.
 * @param {string} name @param {unknown} value @param {number} [depth]
 */
export function checkValue(name, value, depth = 3) {
  if (value === null || value === undefined || typeof value === "boolean" || ArrayBuffer.isView(value)) return;
  if (typeof value === "string") return checkText(name, value);
  if (typeof value === "number") {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      throw new RangeError(`${name} has the number ${value}; beyond 2^53 numbers lose digits in JavaScript: send text`);
    }
    return;
  }
  if (typeof value !== "object" || NO_VALUES.some((each) => value instanceof each)) {
    throw new TypeError(`${name} has a ${kindOf(value)}; a header holds numbers, text, booleans, null, bytes, lists and objects`);
  }
  if (depth > HEADER_DEPTH_MAX) {
    throw new RangeError(`${name} is nested deeper than a header may be (${HEADER_DEPTH_MAX}, header_depth_max)`);
  }
  if (Array.isArray(value)) return value.forEach((each) => checkValue(name, each, depth + 1));
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  if (entries.length > MAP_ENTRIES_MAX) {
    throw new RangeError(`${name} has a map of ${entries.length} entries, the limit is ${MAP_ENTRIES_MAX} (map_entries_max)`);
  }
  for (const [key, each] of entries) {
    checkText(`${name} in a key`, key);
    checkValue(name, each, depth + 1);
  }
}

/** @param {string} what @param {string} text */
function checkText(what, text) {
  if (!isWellFormed(text)) throw new RangeError(`${what} has text with half a character, which UTF-8 does not have`);
}

/** @param {string} text Whether UTF-8 has it: no half of a character alone. */
export const isWellFormed = (text) => !/\p{Surrogate}/u.test(text);

/**
 * A text of 1 to 128 bytes, as names and ids are; throws TypeError or RangeError.
 * @param {string} what @param {unknown} name
 * @returns {string}
 */
export function checkName(what, name) {
  if (typeof name !== "string") throw new TypeError(`${what} is text, not ${kindOf(name)}`);
  checkText(what, name);
  const size = Buffer.byteLength(name);
  if (size < 1 || size > NAME_BYTES_MAX) {
    throw new RangeError(`${what} has ${size} bytes; the limits are 1 and ${NAME_BYTES_MAX}`);
  }
  return name;
}

/**
 * The beginning of a text, of so many bytes at most and no half character.
 * @param {string} text
 * @param {number} bytes
 */
export function beginning(text, bytes) {
  const whole = Buffer.from(text);
  let end = Math.min(whole.length, bytes);
  while (end > 0 && end < whole.length && (/** @type {number} */ (whole[end]) & 0xc0) === 0x80) end -= 1;
  return whole.subarray(0, end).toString();
}

/** @param {unknown} value */
export const kindOf = (value) => (value === null ? "null" : typeof value === "object" ? (value.constructor?.name ?? "object") : typeof value);
