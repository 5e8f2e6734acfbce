export const VERSION: any;
/** The broker refuses this worker, and would refuse it again: it names a lane that is not there, for example. */
export class WorkerRefusedError extends LaneMQError {
}
/** A job for a handler. */
export class JobCall {
    /**
     * @internal
     * @param {Lease} lease
     * @param {wire.Fields} fields
     * @param {Buffer} body
     * @param {Places} places
     * @param {number} place
     * @param {(piece: Buffer) => void} send
     * @param {(word: wire.Fields, atOnce: boolean) => void} say
     */
    constructor(lease: Lease, fields: wire.Fields, body: Buffer, places: Places, place: number, send: (piece: Buffer) => void, say: (word: wire.Fields, atOnce: boolean) => void);
    /** The request's bytes. */
    body: Buffer<ArrayBufferLike>;
    /** @type {string} */
    id: string;
    /** @type {string} */
    service: string;
    /** @type {string | undefined} */
    lane: string | undefined;
    /** @type {string | undefined} */
    model: string | undefined;
    /** @type {string | undefined} */
    client: string | undefined;
    /**
     * Which upstream key to use, by its name in the broker's configuration.
     * @type {string | undefined}
     */
    key: string | undefined;
    /** @type {import("./types.js").Cost} */
    cost: import("./types.js").Cost;
    /** Which hand-over of the job this is, from 1. */
    attempt: number;
    /** Whether the answer is wanted in pieces. */
    stream: boolean;
    /**
     * Aborted when nobody wants the answer any more: for `fetch` and the like.
     * @type {AbortSignal}
     */
    signal: AbortSignal;
    /**
     * As the client said; undefined: it said none. Whole numbers beyond 2^53 are BigInts. Throws BadJob where it cannot be read.
     * @returns {any}
     */
    get meta(): any;
    /**
     * The same.
     * @returns {any}
     */
    get trace(): any;
    /**
     * Fields whose names begin with `x-`. Throws BadJob where one of them cannot be read.
     * @returns {Record<string, any>}
     */
    get extra(): Record<string, any>;
    get text(): string;
    /** @returns {any} */
    json(): any;
    /** What is left of the client's deadline; undefined: it gave none. */
    get timeLeftMs(): number | undefined;
    /** Whether nobody wants the answer any more: stop, and return or throw anything. Also a handler that computes sees it. */
    get cancelled(): boolean;
    /** Throws JobCancelled where the job is cancelled. */
    check(): void;
    /**
     * Sends a piece of the answer; to be awaited. Fulfilled when the reader is less than 64 pieces and 256 KiB behind; rejected with
     * JobCancelled where the job is cancelled meanwhile. Requires: `stream`. Once a piece was sent the job is not tried again.
     * Up to 64 pieces wait where a handler does not await this, and with a piece that is not sent and that nobody awaits the job fails.
     * @param {Body} body
     * @returns {Promise<void>}
     */
    chunk(body: Body): Promise<void>;
    /**
     * Says how far the job is, for who asks the broker: in percent, and in up to 256 bytes of words. Each word replaces the one before,
     * and as often as wanted: of many a few a second are sent, the last among them. Also a handler that computes is heard. From the
     * first word on the broker ends the attempt where neither a word nor a piece comes for its lane's `stall_timeout`. What is no number,
     * and no text, is left out: no word about a job makes it fail.
     * @param {number | undefined} [pct]
     * @param {string} [note]
     */
    progress(pct?: number | undefined, note?: string): void;
    /** @internal Until the pieces that wait are sent, or nobody wants them. Throws why a piece was not sent that nobody awaited. */
    piecesSent(): Promise<void>;
    /** @internal @param {number} count @param {number} size */
    taken(count: number, size: number): void;
    /** @internal */
    cancel(): void;
    #private;
}
/** A handler and the service it does, as `worker()` makes it. */
export class Service {
    /**
     * @param {string} name
     * @param {Handler} handler
     * @param {WorkerOptions} [options]
     */
    constructor(name: string, handler: Handler, options?: WorkerOptions);
    name: string;
    handler: Handler;
    options: WorkerOptions;
    /**
     * Serves until SIGTERM or Ctrl-C: `new Worker([service], …).run()`. `options` go before those of `worker()`.
     * @param {WorkerOptions} [options]
     */
    run(options?: WorkerOptions): Promise<boolean>;
}
export function worker(name: string, handler: Handler, options?: WorkerOptions): Service;
/**
 * Serves services at a broker.
 *
 * A thread of its own talks to the broker and sends heartbeats, so that a handler that computes keeps its session. Handlers run on the
 * program's loop, up to `capacity` of them at once, all services together. One that computes for long holds up the others; what the loop
 * has not begun within two seconds is handed back to the broker, at no cost. The worker comes back by itself after a lost connection or
 * a restart of the broker, and hands in again what the broker has not answered.
 */
export class Worker {
    /**
     * Throws an Error for what no worker can be.
     * @param {Iterable<Service> | Record<string, Handler>} services
     * @param {WorkerOptions} [given]
     */
    constructor(services: Iterable<Service> | Record<string, Handler>, given?: WorkerOptions);
    /** For people. */
    name: string;
    capacity: number;
    /**
     * Serves until SIGTERM or Ctrl-C, which drain: what runs may finish for `drainTimeoutMs`, nothing new is taken. A second one ends it
     * at once; the broker gives what runs to others. Prints a line that begins with `ready` once the broker has taken it. True:
     * everything was finished. Throws WorkerRefusedError.
     * @returns {Promise<boolean>}
     */
    run(): Promise<boolean>;
    /** Serves in the background, until drain() or leave(). */
    start(): void;
    /** @returns {Promise<void>} Until the broker has taken it. */
    welcomed(): Promise<void>;
    /** Takes no more jobs, and ends when those that run are over, after `drainTimeoutMs` in any case. */
    drain(): void;
    /** Ends now. Handlers hear that they are cancelled; the broker gives their jobs to others, at no cost. */
    leave(): void;
    /**
     * Until it has ended. True: everything was finished. Throws WorkerRefusedError.
     * @returns {Promise<boolean>}
     */
    wait(): Promise<boolean>;
    /** @internal Has the thread end. Returns what blocks until its socket is gone: in a process's last turn nothing can be awaited. */
    endAtOnce(): () => "ok" | "not-equal" | "timed-out";
    #private;
}
export type Body = import("./types.js").Body;
export type Lease = import("./worker_session.js").Lease;
export type Outcome = import("./outcomes.js").Outcome;
export type Order = import("./worker_thread.js").Order;
export type Told = import("./worker_thread.js").Told;
export type Returned = Body | Result | null | undefined | void;
/**
 * What does a service's jobs: it returns the answer (bytes, text, an object or list as JSON, nothing, or a Result), or a promise of
 * it. Where it has none it throws one of the failures; any other error is a `Retry`.
 */
export type Handler = (job: JobCall) => Returned | Promise<Returned>;
export type WorkerOptions = {
    /**
     * Its endpoint for workers; without it LANEMQ_WORKER_BROKER, else
     * tcp://127.0.0.1:5571. Where other brokers go on in its place the endpoints of all, a list or separated by commas; they are brokers
     * of one shard, where there are any.
     */
    broker?: import("./settings.js").Brokers | undefined;
    /**
     * Jobs that it holds at once, up to 1024; without it 1.
     */
    capacity?: number | undefined;
    /**
     * A worker for these alone, and before others.
     */
    lanes?: string[] | undefined;
    /**
     * For people.
     */
    name?: string | undefined;
    /**
     * As a Client's; without it LANEMQ_WORKER_BROKER_KEY.
     */
    brokerKey?: string | undefined;
    /**
     * As a Client's; without it LANEMQ_WORKER_SECRET_KEY.
     */
    secretKey?: string | undefined;
    /**
     * What running jobs get when it is told to stop; without it 10 s.
     */
    drainTimeoutMs?: number | undefined;
    /**
     * Where what is for people goes; without it warnings and errors go to stderr.
     */
    log?: import("./drive.js").Log | undefined;
};
export type Waiting = {
    piece: Buffer;
    resolve: () => void;
    reject: (error: Error) => void;
};
import { LaneMQError } from "./errors.js";
import * as wire from "./wire.js";
import { Places } from "./places.js";
import { Result } from "./outcomes.js";
