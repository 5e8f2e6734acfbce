// SPDX-License-Identifier: Apache-2.0
// LMQ1 messages as they come: docs/protocol/README.md, "Messages". Knows no socket.
//
// What cannot be read takes nothing else with it: neither the other messages of its batch, nor the other fields of its own. What a
// submit says for the worker alone (`meta`, `trace`, `x-…`) is read when somebody asks for it.
import { ExtData } from "@msgpack/msgpack";

import { MalformedError, NO_BODY, isOwn } from "./wire.js";

/** @typedef {import("./wire.js").Fields} Fields */
/**
 * One message of a batch, with all its fields. Those for the worker alone are bytes, for unpack(). `unread`: the names of the fields
 * that could not be read, and why; `body` for the body.
 * @typedef {{ fields: Fields, body: Buffer, unread?: Map<string, string> }} Item
 */

const MAGIC = Buffer.from("\x93\xa4LMQ1", "latin1");
const DEPTH_MAX = 100;
const NIL = 0xc0;
const CACHED_KEY_BYTES_MAX = 32;

/**
 * The op and its items, each with all its fields and its body. Throws MalformedError where nothing can be read.
 *
 * An envelope before the header is skipped, though nobody who sends none gets one.
 * @param {Buffer[]} frames
 * @returns {{ op: string, items: Item[] }}
 */
export function decode(frames) {
  const at = frames.findIndex(isHeader);
  if (at < 0) throw new MalformedError("no frame begins as a header of LMQ1 does");
  const reader = new Reader(/** @type {Buffer} */ (frames[at]));
  const size = reader.count(0x90, 0xdc);
  reader.skip(); // LMQ1
  const op = reader.value();
  if (typeof op !== "string") throw new MalformedError("the header is not [LMQ1, op, fields]");
  const isBatch = !reader.isNext(0x80, 0xde);
  const maps = isBatch ? listOf(reader, fieldsOf) : [fieldsOf(reader)];
  const [first] = maps;
  const bodies = size > 3 ? reader : new Reader(frames[at + 1] ?? NO_BODY);
  const body = size > 3 || bodies.bytes.length > 0 ? bodiesOf(bodies, isBatch, size > 3) : maps.map(() => NO_BODY);
  if (size > 4 || reader.at !== reader.bytes.length) throw new MalformedError("there is more behind the header");
  if (body.length !== maps.length || !first) throw new MalformedError("a batch has as many bodies as maps, and at least one");
  if (maps.length === 1) return { op, items: [itemOf(first, {}, first, body[0])] };
  const shared = Object.fromEntries(Object.entries(first.fields).filter(([name]) => !isOwn(name)));
  return { op, items: maps.map((map, index) => itemOf(first, shared, map, body[index])) };
}

/** @param {Buffer} frame */
function isHeader(frame) {
  if (frame.length < MAGIC.length || (frame[0] !== 0x93 && frame[0] !== 0x94)) return false;
  for (let at = 1; at < MAGIC.length; ++at) if (frame[at] !== MAGIC[at]) return false;
  return true;
}

/** @typedef {{ fields: Fields, unread?: Map<string, string> } | undefined} Read Undefined: it is no map. */

/**
 * @param {NonNullable<Read>} first
 * @param {Fields} shared What later maps inherit from it.
 * @param {Read} own
 * @param {Buffer | undefined} body
 * @returns {Item}
 */
function itemOf(first, shared, own, body) {
  if (!own) return { fields: {}, body: NO_BODY, unread: new Map([["an item of the batch", "it is no map"]]) };
  let { fields, unread } = own;
  if (own !== first) {
    fields = { ...shared, ...own.fields };
    // A nil resets a field to its default.
    for (const name in own.fields) if (own.fields[name] === null) delete fields[name];
    for (const [name, why] of first.unread ?? []) {
      if (!Object.hasOwn(own.fields, name) && !isOwn(name)) unread = new Map([...(unread ?? []), [name, why]]);
    }
  }
  if (body) return { fields, body, unread };
  return { fields, body: NO_BODY, unread: new Map([...(unread ?? []), ["body", "it is no bin"]]) };
}

/**
 * What a value says that was kept as it came. Whole numbers beyond 2^53 are BigInts, ext is ExtData whatever it means, a timestamp, too; a
 * str that is no UTF-8 has U+FFFD for its odd bytes. Throws MalformedError.
 * @param {string} name
 * @param {Uint8Array} packed
 * @returns {any}
 */
export function unpack(name, packed) {
  try {
    return new Reader(Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)).value();
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error;
    throw new MalformedError(`${name} cannot be read: ${error.message}`);
  }
}

/** @param {string} name */
export const isForWorkers = (name) => name === "meta" || name === "trace" || name.startsWith("x-");

/**
 * @template T
 * @param {Reader} reader
 * @param {(reader: Reader) => T} read
 */
function listOf(reader, read) {
  /** @type {T[]} */
  const list = [];
  for (let left = reader.count(0x90, 0xdc); left > 0; --left) list.push(read(reader));
  return list;
}

/**
 * The next value as the fields of a message.
 * @param {Reader} reader
 * @returns {Read}
 */
function fieldsOf(reader) {
  const begin = reader.at;
  if (!reader.isNext(0x80, 0xde)) return void reader.skip();
  try {
    return { fields: fieldsFrom(reader) };
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error;
    reader.at = begin; // some of it cannot be read
    /** @type {Map<string, string>} */
    const unread = new Map();
    return { fields: fieldsFrom(reader, unread), unread };
  }
}

/**
 * @param {Reader} reader
 * @param {Map<string, string>} [unread] Where to put what cannot be read; without it that throws a MalformedError.
 */
function fieldsFrom(reader, unread) {
  /** @type {Fields} */
  const fields = {};
  for (let left = reader.count(0x80, 0xde); left > 0; --left) {
    const value = unread ? reader.after() : 0;
    let name = "the name of a field";
    try {
      name = reader.key();
      put(fields, name, isForWorkers(name) ? reader.later() : reader.value());
    } catch (error) {
      if (!unread || !(error instanceof MalformedError)) throw error;
      unread.set(name, error.message);
      reader.at = value;
      reader.skip();
    }
  }
  return fields;
}

/**
 * The bodies of a message's items; undefined stands for what is no bin.
 * @param {Reader} reader
 * @param {boolean} isBatch
 * @param {boolean} isInside
 */
function bodiesOf(reader, isBatch, isInside) {
  if (!isBatch) return [isInside ? reader.bin() : reader.bytes];
  const bodies = listOf(reader, (each) => each.bin());
  if (!isInside && reader.at !== reader.bytes.length) throw new MalformedError("there is more behind the bodies of a batch");
  return bodies;
}

/**
 * A key of a map is data, whatever it means to JavaScript.
 * @param {Record<string, unknown>} map
 * @param {string} key
 * @param {unknown} value
 */
function put(map, key, value) {
  if (key === "__proto__") Object.defineProperty(map, key, { value, enumerable: true, writable: true, configurable: true });
  else map[key] = value;
}

/** @type {string[]} Names of fields that were read, each at a place made of its bytes. */
const keys = new Array(256).fill("");

/** Reads values of msgpack one after the other. Throws MalformedError. */
class Reader {
  at = 0;

  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.bytes = bytes;
  }

  /** @param {number} depth */
  value(depth = 0) {
    const head = this.#byte();
    if (head < 0x80) return head;
    if (head >= 0xe0) return head - 0x100;
    if (head < 0x90) return this.#map(head & 0x0f, depth);
    if (head < 0xa0) return this.#list(head & 0x0f, depth);
    if (head < 0xc0) return this.#text(head & 0x1f);
    return this.#long(head, depth);
  }

  /**
   * @param {number} head
   * @param {number} depth
   * @returns {any}
   */
  #long(head, depth) {
    switch (head) {
      case NIL:
        return null;
      case 0xc2:
      case 0xc3:
        return head === 0xc3;
      case 0xc4:
      case 0xc5:
      case 0xc6: {
        const bytes = this.#bytes(this.#uint(1 << (head - 0xc4)));
        return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
      }
      case 0xc7:
      case 0xc8:
      case 0xc9:
        return this.#ext(this.#uint(1 << (head - 0xc7)));
      case 0xca:
        return this.#bytes(4).readFloatBE();
      case 0xcb:
        return this.#bytes(8).readDoubleBE();
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#uint(1 << (head - 0xcc));
      case 0xcf:
        return exact(this.#bytes(8).readBigUInt64BE());
      case 0xd0:
      case 0xd1:
      case 0xd2:
        return this.#bytes(1 << (head - 0xd0)).readIntBE(0, 1 << (head - 0xd0));
      case 0xd3:
        return exact(this.#bytes(8).readBigInt64BE());
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.#ext(1 << (head - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#uint(1 << (head - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#uint(head === 0xdc ? 2 : 4), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#uint(head === 0xde ? 2 : 4), depth);
      default:
        throw new MalformedError(`0x${head.toString(16)} begins no value`);
    }
  }

  /** The next value as it is; null where it is nil. */
  later() {
    const begin = this.at;
    this.skip();
    return this.bytes[begin] === NIL ? null : this.bytes.subarray(begin, this.at);
  }

  /** Where the value behind the next one begins. */
  after() {
    const begin = this.at;
    this.skip();
    const end = this.at;
    this.at = begin;
    return end;
  }

  /** Goes behind the next value, whatever it holds. */
  skip() {
    for (let left = 1; left > 0; --left) {
      const head = this.#byte();
      if (head < 0x80 || head >= 0xe0) continue;
      if (head < 0x90) left += 2 * (head & 0x0f);
      else if (head < 0xa0) left += head & 0x0f;
      else if (head < 0xc0) this.#bytes(head & 0x1f);
      else if (head >= 0xc4 && head <= 0xc6) this.#bytes(this.#uint(1 << (head - 0xc4)));
      else if (head >= 0xc7 && head <= 0xc9) this.#bytes(this.#uint(1 << (head - 0xc7)) + 1);
      else if (head === 0xca || head === 0xcb) this.#bytes(head === 0xca ? 4 : 8);
      else if (head >= 0xcc && head <= 0xd3) this.#bytes(1 << (head & 3));
      else if (head >= 0xd4 && head <= 0xd8) this.#bytes((1 << (head - 0xd4)) + 1);
      else if (head >= 0xd9 && head <= 0xdb) this.#bytes(this.#uint(1 << (head - 0xd9)));
      else if (head >= 0xdc) left += (head < 0xde ? 1 : 2) * this.#uint(head % 2 === 0 ? 2 : 4);
      else if (head === 0xc1) throw new MalformedError("0xc1 begins no value");
    }
  }

  /** A bin, for a body; undefined where the next value is another one. */
  bin() {
    const head = this.bytes[this.at] ?? 0;
    if (head < 0xc4 || head > 0xc6) return void this.skip();
    this.at += 1;
    return this.#bytes(this.#uint(1 << (head - 0xc4)));
  }

  /** The name of a field. */
  key() {
    const head = this.bytes[this.at] ?? 0;
    const size = head & 0x1f;
    const begin = this.at + 1;
    if (head < 0xa0 || head >= 0xc0 || size === 0 || begin + size > this.bytes.length) return this.#name();
    const place = (size * 31 + /** @type {number} */ (this.bytes[begin]) * 7 + /** @type {number} */ (this.bytes[begin + size - 1])) & 0xff;
    const cached = /** @type {string} */ (keys[place]);
    if (cached.length === size) {
      let same = 0;
      while (same < size && cached.charCodeAt(same) === this.bytes[begin + same]) same += 1;
      if (same === size) {
        this.at = begin + size;
        return cached;
      }
    }
    const name = this.#name();
    if (name.length === size && size <= CACHED_KEY_BYTES_MAX) keys[place] = name;
    return name;
  }

  /** Whether the next value is of a kind that begins with one of these: up to 15 entries, and 2 bytes for their number. */
  isNext(/** @type {number} */ few, /** @type {number} */ many) {
    const head = this.bytes[this.at] ?? 0;
    return (head & 0xf0) === few || head === many || head === many + 1;
  }

  /** How many entries the next list or map has; goes behind its head. */
  count(/** @type {number} */ few, /** @type {number} */ many) {
    if (!this.isNext(few, many)) throw new MalformedError("the header is not [LMQ1, op, fields]");
    const head = this.#byte();
    return this.#plausible((head & 0xf0) === few ? head & 0x0f : this.#uint(head === many ? 2 : 4));
  }

  #name() {
    const name = this.value(DEPTH_MAX);
    if (typeof name !== "string") throw new MalformedError("a key of a map is no text");
    return name;
  }

  /**
   * @param {number} count
   * @param {number} depth
   */
  #list(count, depth) {
    if (depth >= DEPTH_MAX) throw new MalformedError(`it is nested deeper than ${DEPTH_MAX}`);
    /** @type {any[]} */
    const list = [];
    for (let left = this.#plausible(count); left > 0; --left) list.push(this.value(depth + 1));
    return list;
  }

  /**
   * @param {number} count
   * @param {number} depth
   */
  #map(count, depth) {
    if (depth >= DEPTH_MAX) throw new MalformedError(`it is nested deeper than ${DEPTH_MAX}`);
    /** @type {Record<string, any>} */
    const map = {};
    for (let left = this.#plausible(count); left > 0; --left) {
      const key = this.key();
      put(map, key, this.value(depth + 1));
    }
    return map;
  }

  /** A container has no more entries than there are bytes. @param {number} count */
  #plausible(count) {
    if (count > this.bytes.length - this.at) throw new MalformedError("it ends too early");
    return count;
  }

  /** @param {number} size */
  #ext(size) {
    const [type] = new Int8Array(this.#bytes(1));
    return new ExtData(/** @type {number} */ (type), new Uint8Array(this.#bytes(size)));
  }

  /** @param {number} size */
  #text(size) {
    const begin = this.at;
    this.at = begin + size;
    if (this.at > this.bytes.length) throw new MalformedError("it ends too early");
    return this.bytes.toString("utf8", begin, this.at);
  }

  #byte() {
    const byte = this.bytes[this.at];
    if (byte === undefined) throw new MalformedError("it ends too early");
    this.at += 1;
    return byte;
  }

  /** @param {number} size */
  #uint(size) {
    let number = 0;
    for (let left = size; left > 0; --left) number = number * 256 + this.#byte();
    return number;
  }

  /** @param {number} size */
  #bytes(size) {
    const begin = this.at;
    this.at = begin + size;
    if (this.at > this.bytes.length) throw new MalformedError("it ends too early");
    return this.bytes.subarray(begin, this.at);
  }
}

/** @param {bigint} number */
const exact = (number) => (BigInt.asIntN(54, number) === number ? Number(number) : number);
