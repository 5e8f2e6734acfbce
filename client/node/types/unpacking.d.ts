/**
 * The op and its items, each with all its fields and its body. Throws MalformedError where nothing can be read.
 *
 * An envelope before the header is skipped, though nobody who sends none gets one.
 * @param {Buffer[]} frames
 * @returns {{ op: string, items: Item[] }}
 */
export function decode(frames: Buffer[]): {
    op: string;
    items: Item[];
};
/**
 * What a value says that was kept as it came. Whole numbers beyond 2^53 are BigInts, ext is ExtData whatever it means, a timestamp, too; a
 * str that is no UTF-8 has U+FFFD for its odd bytes. Throws MalformedError.
 * @param {string} name
 * @param {Uint8Array} packed
 * @returns {any}
 */
export function unpack(name: string, packed: Uint8Array): any;
export function isForWorkers(name: string): boolean;
/**
 * Undefined: it is no map.
 */
export type Read = {
    fields: Fields;
    unread?: Map<string, string>;
} | undefined;
export type Fields = import("./wire.js").Fields;
/**
 * One message of a batch, with all its fields. Those for the worker alone are bytes, for unpack(). `unread`: the names of the fields
 * that could not be read, and why; `body` for the body.
 */
export type Item = {
    fields: Fields;
    body: Buffer;
    unread?: Map<string, string>;
};
