/** How long beyond a job's own deadline, or a fetch's wait, the broker's word of it is awaited. */
export const GRACE: 5000;
export const CONTROL_TIMEOUT: 10000;
export const MARK_REF: number;
/** Paces who goes from endpoint to endpoint and finds nobody: at once to the next one, with a pause behind each round. */
export class Rounds {
    /** @param {number} endpoints */
    constructor(endpoints: number);
    endpoints: number;
    /**
     * Returns when the next one's turn is.
     * @param {number} now
     */
    foundNobody(now: number): number;
    #private;
}
/** Kinds of requests that go where the job is. */
export const ABOUT_JOBS: Set<string>;
/** A piece of a streamed answer. Its reader then says `seen(ref, seq)`. */
export class Piece {
    /**
     * @param {number} ref
     * @param {number} seq
     * @param {Buffer} body
     */
    constructor(ref: number, seq: number, body: Buffer);
    ref: number;
    seq: number;
    body: Buffer<ArrayBufferLike>;
}
/**
 * What a request is about.
 * @typedef {object} RequestParts
 * @property {string} [id]
 * @property {Submit} [submit]
 * @property {Buffer} [body]
 * @property {Tell} [tell]
 * @property {number} [fromSeq]
 * @property {number} [timeoutMs]
 * @property {Fields} [filter] Of a watch: whose changes; of a ping: what else it asks.
 */
/** A request of a caller's; a session has it until it ends. */
export class Request {
    /**
     * @param {Kind} kind
     * @param {RequestParts} [parts]
     */
    constructor(kind: Kind, { id, submit, body, tell, fromSeq, timeoutMs, filter }?: RequestParts);
    ref: number;
    kind: Kind;
    op: string;
    id: string;
    submit: import("./types.js").Submit | undefined;
    body: Buffer<ArrayBufferLike>;
    bodyBytes: number;
    tell: Tell | undefined;
    asked: number;
    /** When it ends by this client's clock; of a fetch how long to wait. Until it begins: after how long. */
    deadline: number | undefined;
    /** @type {number | undefined} */
    waitUntil: number | undefined;
    /** @type {number | undefined} */
    sentAt: number | undefined;
    probedAt: number;
    /** @type {number | undefined} When it is sent again. */
    refusedAt: number | undefined;
    refusals: number;
    reading: Reading | undefined;
    filter: wire.Fields | undefined;
    moves: number;
    sought: boolean;
    following: Following | undefined;
    begun: boolean;
    message: number;
    firstMessage: number;
    /**
     * From now on its time counts. Once, whatever sessions have it.
     * @param {number} now
     */
    begin(now: number): void;
}
/** See the file. */
export class Session {
    /**
     * @param {number} now
     * @param {() => number} random Numbers from 0 to 1, which spread what is sent again.
     * @param {{ batchMax?: number, endpoints?: number, refs?: { next: number } }} [how] `endpoints`: how many there are; each new
     *   connection goes to the next one. `refs`: of the sessions of one client, which then puts aside what others may do (`moved`, `unknown`).
     */
    constructor(now: number, random: () => number, { batchMax, endpoints, refs }?: {
        batchMax?: number;
        endpoints?: number;
        refs?: {
            next: number;
        };
    });
    /**
     * Whether it asks the broker of each connection, before all else, which shards there are. It stays with the shard of the first one
     * that says its own, and leaves a broker of another one.
     */
    asksRules: boolean;
    /** @type {string | undefined} With which it stays. */
    shard: string | undefined;
    /** @type {import("./types.js").Pong | undefined} The last answer, until it is taken from here. */
    rules: import("./types.js").Pong | undefined;
    counters: {
        sent: number;
        resent: number;
        answered: number;
        expired: number;
        droppedAnswers: number;
        undecodable: number;
        reconnected: number;
        messages: number;
    };
    /** @type {[Tell, any][]} What came of requests, in order: the driver takes it after each turn. */
    events: [Tell, any][];
    /** Requests, and bytes of their bodies, that have ended since the driver took these. */
    freed: number;
    freedBytes: number;
    /** @type {[Request, string, string[]][]} Put aside: jobs that belong to another shard, its name and its endpoints. */
    moved: [Request, string, string[]][];
    /** @type {[Request, any][]} Put aside: questions about jobs that the broker does not know, and its answers. */
    unknown: [Request, any][];
    get pending(): number;
    /** Whether a broker of its shard has spoken on this connection. */
    get heardHere(): boolean;
    /**
     * So many endpoints there are from now on.
     * @param {number} endpoints
     */
    goRound(endpoints: number): void;
    /** How many times it keeps; bounded by what is pending. */
    get timers(): number;
    /**
     * @param {Request} request
     * @param {number} now
     */
    begin(request: Request, now: number): void;
    /**
     * Goes on with a request that another session has put aside.
     * @param {Request} request
     * @param {number} now
     */
    adopt(request: Request, now: number): void;
    /**
     * Ends a request that was put aside.
     * @param {Request} request
     * @param {any} outcome
     */
    finish(request: Request, outcome: any): void;
    /**
     * The caller has gone: no word about this request any more. True: its job is cancelled, since the broker may have it, and
     * `tell` hears how that went.
     * @param {Request} gone
     * @param {number} now
     * @param {Tell} [tell]
     */
    abandon(gone: Request, now: number, tell?: Tell): boolean;
    /**
     * The client is closed: jobs that the broker may have are cancelled, and `told` says whether callers hear so.
     * @param {number} now
     * @param {boolean} told
     */
    abandonAll(now: number, told: boolean): void;
    /**
     * A stream's reader has taken all pieces up to `seq`. Ignored for streams that have ended.
     * @param {number} ref
     * @param {number} seq
     * @param {number} now
     */
    seen(ref: number, seq: number, now: number): void;
    /**
     * The reader of a watch has taken an event, and with it all before. Ignored for watches that have ended.
     * @param {Request} reader
     * @param {import("./watching.js").Change} change
     */
    took(reader: Request, change: import("./watching.js").Change): void;
    /**
     * Ends all requests, each with an error for its id.
     * @param {(id: string) => LaneMQError} error
     */
    endAll(error: (id: string) => LaneMQError): void;
    /**
     * A handshake has succeeded. Where the last connection had ended before its handshake this is libzmq's next try on the same socket:
     * it is the new one that was due.
     */
    connected(): void;
    /**
     * The connection is gone. A new one is due at once, or after a pause where the last ones were fruitless.
     * @param {number} now
     */
    disconnected(now: number): void;
    /**
     * Nobody listens at the endpoint: the next one's turn, where there are several.
     * @param {number} now
     */
    foundNobody(now: number): void;
    /**
     * The broker does not take this client's key.
     * @param {string} message
     */
    refused(message: string): void;
    /**
     * True, once per decision: replace the connection now. All that is pending is then sent on it, in its order.
     * @param {number} now
     */
    takeReopen(now: number): boolean;
    /** @param {number} now */
    reopenFailed(now: number): void;
    /**
     * The program stood still: what the broker said meanwhile has been read, and its silence counts from now on.
     * @param {number} now
     */
    stoodStill(now: number): void;
    /**
     * Does what is due.
     * @param {number} now
     */
    advance(now: number): void;
    /** @returns {number | undefined} When advance() has work at the latest; undefined: nothing is pending. */
    nextWakeup(): number | undefined;
    /**
     * The next message, which counts as sent; undefined: there is none.
     * @param {number} now
     * @returns {Uint8Array[] | undefined}
     */
    nextMessage(now: number): Uint8Array[] | undefined;
    /**
     * A message. One that cannot be read proves nothing: the peer may be no broker.
     * @param {Buffer[]} frames
     * @param {number} now
     */
    received(frames: Buffer[], now: number): wire.MalformedError | undefined;
    /** Where other brokers are, as one has said since the last call. */
    takeTold(): string[];
    #private;
}
export function reopenPause(lost: number): number;
export function closedError(id: string): CancelledError;
export type Submit = import("./types.js").Submit;
export type Fields = import("./wire.js").Fields;
export type LaneMQError = import("./errors.js").LaneMQError;
export type Kind = "submit" | "stream" | "leave" | "fetch" | "follow" | "status" | "cancel" | "ping" | "watch";
/**
 * Hears what comes of a request: pieces, and in the end a value or a LaneMQError.
 */
export type Tell = (outcome: any, now: number) => void;
/**
 * What a request is about.
 */
export type RequestParts = {
    id?: string | undefined;
    submit?: import("./types.js").Submit | undefined;
    body?: Buffer<ArrayBufferLike> | undefined;
    tell?: Tell | undefined;
    fromSeq?: number | undefined;
    timeoutMs?: number | undefined;
    /**
     * Of a watch: whose changes; of a ping: what else it asks.
     */
    filter?: wire.Fields | undefined;
};
/** How far a stream has been read. All numbers are of pieces. */
declare class Reading {
    /**
     * @param {number} first
     * @param {boolean} byFetch
     */
    constructor(first: number, byFetch: boolean);
    first: number;
    next: number;
    taken: number;
    said: number;
    /** @type {number[]} Bytes of each piece from `said` on. */
    sizes: number[];
    unsaidBytes: number;
    byFetch: boolean;
    seenDue: boolean;
    /** @type {number | undefined} */
    seenAt: number | undefined;
    /** @type {number | undefined} */
    fetchAt: number | undefined;
    /** @type {number | undefined} */
    heardAt: number | undefined;
    endsWithoutPieces: number;
}
import * as wire from "./wire.js";
import { Following } from "./watching.js";
import { CancelledError } from "./errors.js";
export {};
