/**
 * One message.
 * @param {string} op @param {Fields} fields @param {Uint8Array} [body]
 * @returns {Uint8Array[]}
 */
export function encode(op: string, fields: Fields, body?: Uint8Array): Uint8Array[];
/**
 * Several messages in one; the maps leave out already what they inherit.
 * @param {string} op @param {Fields[]} maps @param {Uint8Array[]} bodies
 * @returns {Uint8Array[]}
 */
export function encodeBatch(op: string, maps: Fields[], bodies: Uint8Array[]): Uint8Array[];
/**
 * What a later map of a batch says, so that with what it inherits from the first it is whole.
 * @param {Fields} first @param {Fields} later
 * @returns {Fields}
 */
export function differences(first: Fields, later: Fields): Fields;
/** @param {Fields} fields @param {string} name @returns {number | undefined} A whole number of at least 0. */
export function optionalInt(fields: Fields, name: string): number | undefined;
/** @param {Fields} fields @param {string} name @param {number} [otherwise] @returns {number} */
export function int(fields: Fields, name: string, otherwise?: number): number;
/** @param {Fields} fields @param {string} name @param {string} [otherwise] @returns {string} */
export function text(fields: Fields, name: string, otherwise?: string): string;
/**
 * Throws RangeError or TypeError where a value of the caller's would have a whole message refused, or would arrive as another one.
 * @param {string} name @param {unknown} value @param {number} [depth]
 */
export function checkValue(name: string, value: unknown, depth?: number): void;
/**
 * A text of 1 to 128 bytes, as names and ids are; throws TypeError or RangeError.
 * @param {string} what @param {unknown} name
 * @returns {string}
 */
export function checkName(what: string, name: unknown): string;
/**
 * The beginning of a text, of so many bytes at most and no half character.
 * @param {string} text
 * @param {number} bytes
 */
export function beginning(text: string, bytes: number): string;
/** @typedef {Record<string, any>} Fields */
export const INT_MAX: number;
export const UPSTREAM_STATUS_MIN: 100;
export const UPSTREAM_STATUS_MAX: 599;
export const NO_BODY: Buffer<ArrayBuffer>;
export function isOwn(name: string): boolean;
/** Bytes that are no LMQ1 message, or a field of another type than the page says. */
export class MalformedError extends Error {
}
export function packed(value: unknown): Uint8Array<ArrayBuffer>;
export function packedBytes(value: unknown): number;
export function optionalText(fields: Fields, name: string): string | undefined;
export function list(fields: Fields, name: string): any[];
export function texts(fields: Fields, name: string): string[];
export function map(fields: Fields, name: string): Fields;
export function isMap(value: unknown): value is Fields;
export function isWellFormed(text: string): boolean;
export function kindOf(value: unknown): string;
export type Fields = Record<string, any>;
