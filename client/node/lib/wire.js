// SPDX-License-Identifier: Apache-2.0
// LMQ1 messages as frames of bytes: docs/protocol.md, "Messages" and "Limits". Knows no socket.
import { Decoder, Encoder } from "@msgpack/msgpack";

/** @typedef {Record<string, any>} Fields */
/** @typedef {{ fields: Fields, body: Buffer }} Item One message of a batch, with all its fields. */

export const HEADER_BYTES_MAX = 16384;
export const HEADER_DEPTH_MAX = 8;
export const MAP_ENTRIES_MAX = 64;
export const BATCH_ITEMS_MAX = 256;
export const BATCH_BYTES_MAX = 64 * 1024;
export const BATCH_INHERITED_BYTES_MAX = 1024 * 1024;
export const BODY_BYTES_MAX = 64 * 1024 * 1024;
export const NAME_BYTES_MAX = 128;
export const URL_BYTES_MAX = 1024; // of a webhook
export const DURATION_MS_MAX = 31_536_000_000;
export const STREAM_CHUNKS_MAX = 64;
export const PROGRESS_NOTE_BYTES_MAX = 256;
export const STREAM_BYTES_MAX = 262_144;
export const WATCH_EVENTS_MAX = 1024;
export const CAPACITY_MAX = 1024;
export const LIST_ENTRIES_MAX = 256;
export const INT_MAX = Number.MAX_SAFE_INTEGER; // of the wire 2^63 - 1, of which JavaScript has these exactly
export const UPSTREAM_STATUS_MIN = 100; // of HTTP
export const UPSTREAM_STATUS_MAX = 599;
/** Bodies up to here travel inside the header: one frame is cheaper than two. */
export const INLINE_BYTES_MAX = 4096;

export const NO_BODY = Buffer.alloc(0);
const MAGIC = [Buffer.from("\x93\xa4LMQ1", "latin1"), Buffer.from("\x94\xa4LMQ1", "latin1")];
const OWN = new Set(["id", "ids", "ref", "job"]); // what a later map of a batch does not inherit

const encoder = new Encoder({ ignoreUndefined: true, maxDepth: 64 });
const decoder = new Decoder();

/** Bytes that are no LMQ1 message, or a field of another type than the page says. */
export class MalformedError extends Error {}

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
 * The op and its items, each with all its fields and its body. Throws MalformedError.
 *
 * An envelope before the header is skipped, though nobody who sends none gets one.
 * @param {Buffer[]} frames
 * @returns {{ op: string, items: Item[] }}
 */
export function decode(frames) {
  const at = frames.findIndex((frame) => MAGIC.some((magic) => frame.subarray(0, 6).equals(magic)));
  if (at < 0) throw new MalformedError("no frame begins as a header of LMQ1 does");
  const header = unpack(frames[at], "the header");
  if (!Array.isArray(header)) throw new MalformedError("the header is no list");
  const [, op, fields, inside] = header;
  const isInside = header.length > 3;
  const body = isInside ? inside : (frames[at + 1] ?? NO_BODY);
  if (typeof op !== "string") throw new MalformedError("the header is not [LMQ1, op, fields]");
  if (isMap(fields) && body instanceof Uint8Array) return { op, items: [{ fields, body: asBuffer(body) }] };
  if (!Array.isArray(fields)) throw new MalformedError("the header is not [LMQ1, op, fields]");
  return { op, items: itemsOf(fields, body, isInside) };
}

/** @param {any[]} maps @param {any} body @param {boolean} isInside @returns {Item[]} */
function itemsOf(maps, body, isInside) {
  let bodies = body;
  if (!isInside) bodies = body.length > 0 ? unpack(body, "the bodies of a batch") : maps.map(() => NO_BODY);
  if (!Array.isArray(bodies) || bodies.length !== maps.length || maps.length === 0) {
    throw new MalformedError("a batch has as many bodies as maps, and at least one");
  }
  if (!maps.every(isMap) || !bodies.every((each) => each instanceof Uint8Array)) {
    throw new MalformedError("a batch is an array of maps and an array of bin");
  }
  const shared = Object.fromEntries(Object.entries(maps[0]).filter(([name]) => !OWN.has(name)));
  return maps.map((fields, index) => {
    const whole = index === 0 ? fields : { ...shared, ...fields };
    // A nil resets a field to its default.
    for (const name in fields) if (index > 0 && fields[name] === null) delete whole[name];
    return { fields: whole, body: asBuffer(bodies[index]) };
  });
}

/** @param {Uint8Array} bytes @param {string} what */
function unpack(bytes, what) {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new MalformedError(`${what} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

/** @param {Uint8Array} bytes */
const asBuffer = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** @param {unknown} value @returns {value is Fields} */
export const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

/**
 * What a later map of a batch says, so that with what it inherits from the first it is whole.
 * @param {Fields} first @param {Fields} later
 * @returns {Fields}
 */
export function differences(first, later) {
  /** @type {Fields} */
  const said = {};
  for (const name in later) if (!isSame(later[name], first[name])) said[name] = later[name];
  for (const name in first) if (!(name in later) && !OWN.has(name)) said[name] = null;
  return said;
}

/** @param {unknown} one @param {unknown} other */
const isSame = (one, other) => one === other && typeof one !== "number" ? true : Object.is(one, other);

// ---- what peers say: a field of another type than the page says makes its message one that is ignored ----

/** @param {Fields} fields @param {string} name @param {number} [otherwise] @returns {number} */
export function int(fields, name, otherwise) {
  const value = fields[name] ?? otherwise;
  if (!Number.isSafeInteger(value)) throw new MalformedError(`${name} is no int`);
  return value;
}

/** @param {Fields} fields @param {string} name @returns {number | undefined} */
export const optionalInt = (fields, name) => (fields[name] == null ? undefined : int(fields, name));

/** @param {Fields} fields @param {string} name @param {string} [otherwise] @returns {string} */
export function text(fields, name, otherwise) {
  const value = fields[name] ?? otherwise;
  if (typeof value !== "string") throw new MalformedError(`${name} is no text`);
  return value;
}

/** @param {Fields} fields @param {string} name @returns {string | undefined} */
export const optionalText = (fields, name) => (fields[name] == null ? undefined : text(fields, name));

/** @param {Fields} fields @param {string} name @returns {any[]} */
export function list(fields, name) {
  const value = fields[name] ?? [];
  if (!Array.isArray(value)) throw new MalformedError(`${name} is no list`);
  return value;
}

// ---- what callers say ------------------------------------------------------------------------------------

/**
 * Throws RangeError or TypeError where a value of the caller's would have a whole message refused.
 * @param {string} name @param {unknown} value @param {number} [depth]
 */
export function checkValue(name, value, depth = 3) {
  if (value === null || value === undefined || value instanceof Uint8Array) return;
  if (typeof value === "number") {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      throw new RangeError(`${name} has the number ${value}; beyond 2^53 numbers lose digits in JavaScript: send text`);
    }
  } else if (typeof value === "object") {
    if (depth > HEADER_DEPTH_MAX) {
      throw new RangeError(`${name} is nested deeper than a header may be (${HEADER_DEPTH_MAX}, header_depth_max)`);
    }
    const entries = Object.entries(value);
    if (!Array.isArray(value) && entries.length > MAP_ENTRIES_MAX) {
      throw new RangeError(`${name} has a map of ${entries.length} entries, the limit is ${MAP_ENTRIES_MAX} (map_entries_max)`);
    }
    for (const [, each] of entries) checkValue(name, each, depth + 1);
  } else if (typeof value !== "string" && typeof value !== "boolean") {
    throw new TypeError(`${name} has a ${typeof value}; a header holds numbers, text, booleans, null, bytes, lists and objects`);
  }
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
