/**
 * @typedef {object} Offer
 * @property {string[]} services 1 to 256.
 * @property {number} capacity 1 to 1024.
 * @property {string[]} [lanes]
 * @property {string} [name]
 * @property {string} [version]
 * @property {string} [process]
 */
/** See the file. */
export class WorkerSession {
    /**
     * @param {Offer} offer
     * @param {number} now
     * @param {{ bodyBytesMax?: number, endpoints?: number }} [how] `endpoints`: how many there are.
     */
    constructor({ services, capacity, lanes, name, version, process }: Offer, now: number, { bodyBytesMax, endpoints }?: {
        bodyBytesMax?: number;
        endpoints?: number;
    });
    running: number;
    /** @type {Effect[]} In order. */
    effects: Effect[];
    outcomesDropped: number;
    stale: number;
    undecodable: number;
    /**
     * A piece of a streamed answer. Ignored for a lease that nobody wants any more.
     * @param {Lease} lease
     * @param {Uint8Array} body
     * @param {number} now
     */
    piece(lease: Lease, body: Uint8Array, now: number): void;
    /**
     * How far a job is. Ignored for a lease that nobody wants any more.
     * @param {Lease} lease
     * @param {Fields} word
     * @param {number} now
     */
    progress(lease: Lease, word: Fields, now: number): void;
    /**
     * A handler is done; its outcome goes behind its pieces.
     * @param {Lease} lease
     * @param {Outcome} outcome
     * @param {number} now
     */
    finish(lease: Lease, outcome: Outcome, now: number): void;
    /**
     * The program's loop stands still. It was not asked for these, which are handed back, and takes no other one until it goes on.
     * @param {Lease[]} leases
     * @param {number} now
     */
    standStill(leases: Lease[], now: number): void;
    /** The program's loop answers again. */
    goOn(): void;
    /**
     * Takes no more jobs; leaves when the last one is over, at `deadline` in any case.
     * @param {number} deadline
     * @param {number} now
     */
    drain(deadline: number, now: number): void;
    /** Leaves now; the broker gives what runs to other workers. */
    leave(): void;
    /** As a client's session. */
    connected(): void;
    /** @param {number} now */
    foundNobody(now: number): void;
    /** @param {number} now */
    disconnected(now: number): void;
    /**
     * The broker does not take this worker's key: it asks again later, by a new connection.
     * @param {string} message
     * @param {number} now
     */
    refused(message: string, now: number): void;
    /**
     * As a client's session.
     * @param {number} endpoints
     */
    goRound(endpoints: number): void;
    /** As a client's session. No broker tells a worker that does not ask. @returns {string[]} */
    takeTold(): string[];
    /** @param {number} now */
    takeReopen(now: number): boolean;
    /** @param {number} now */
    reopenFailed(now: number): void;
    /**
     * This thread stood still: what the broker said meanwhile has been read, and its silence counts from now on.
     * @param {number} now
     */
    stoodStill(now: number): void;
    /** @param {number} now */
    advance(now: number): void;
    /** @returns {number | undefined} */
    nextWakeup(): number | undefined;
    /** @returns {Uint8Array[] | undefined} */
    nextMessage(): Uint8Array[] | undefined;
    /**
     * @param {Buffer[]} frames
     * @param {number} now
     */
    received(frames: Buffer[], now: number): void;
    #private;
}
export type Fields = import("./wire.js").Fields;
export type Lease = [job: number, attempt: number];
export type Outcome = import("./outcomes.js").Outcome;
/**
 * What the worker is to do.
 */
export type Effect = {
    what: "start";
    lease: Lease;
    fields: Fields;
    body: Buffer;
} | {
    what: "cancel";
    lease: Lease;
} | {
    what: "taken";
    lease: Lease;
    count: number;
    size: number;
} | {
    what: "welcomed";
} | {
    what: "refused";
    message: string;
    ever: boolean;
} | {
    what: "left";
    finished: boolean;
};
export type Offer = {
    /**
     * 1 to 256.
     */
    services: string[];
    /**
     * 1 to 1024.
     */
    capacity: number;
    lanes?: string[] | undefined;
    name?: string | undefined;
    version?: string | undefined;
    process?: string | undefined;
};
