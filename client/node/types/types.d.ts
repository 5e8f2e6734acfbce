/**
 * @param {wire.Fields} fields
 * @returns {Status}
 */
export function statusOf(fields: wire.Fields): Status;
/**
 * What goes on the wire: a copy, since it may be sent again later. Throws TypeError.
 * @param {unknown} body
 * @returns {Buffer}
 */
export function bodyBytes(body: unknown): Buffer;
/**
 * A duration in whole milliseconds, rounded up. Throws TypeError or RangeError.
 * @param {string} what
 * @param {unknown} value
 */
export function wholeMs(what: string, value: unknown): number;
/**
 * Bytes go as they are, text as UTF-8, any other object or list as JSON.
 * @typedef {Uint8Array | ArrayBuffer | string | object} Body
 */
/**
 * What budgets in tokens are debited with; without it the broker estimates.
 * @typedef {{ input_tokens?: number, output_tokens?: number }} Cost
 */
/**
 * What a submit may say of its job. What is left out has the broker's default.
 * @typedef {object} JobOptions
 * @property {string} [lane] A configured lane.
 * @property {string} [model]
 * @property {string} [client] Whom the job is for: who takes turns, and what budgets match.
 * @property {Cost} [cost]
 * @property {number} [timeoutMs] The job's deadline, from its acceptance: it ends with DeadlineError.
 * @property {number} [delayMs] Before the job is queued.
 * @property {number} [attemptsMax]
 * @property {string} [group] Jobs of a group are counted together, and a watch of it hears when it is over.
 * @property {string} [notify] A URL that hears of the job's end, or of its group's, where the broker has workers for that.
 * @property {number} [groupSize] How many jobs the group has. Without it the group is over when none of them is open.
 * @property {number} [retainMs] For how long the answer is kept, and the id means this job.
 * @property {boolean} [durable]
 * @property {"wait" | "end"} [whenLimited] `end`: LimitedError at once, where the upstream's rate is used up.
 * @property {"wait" | "end"} [whenSpent] `end`: UpstreamQuotaError at once, where every key rests.
 * @property {"wait" | "throw"} [whenFull] `wait`: a lane or a broker that is full is asked again, until `timeoutMs`. `throw`:
 *   LaneFullError and the like.
 * @property {boolean} [cancelWhenGone] Whether the broker cancels the job when this process is gone for 5 s. Not for a client
 *   that may be cut off for longer.
 * @property {unknown} [meta] Passed to the worker untouched; anything that msgpack can say.
 * @property {unknown} [trace]
 * @property {Record<string, unknown>} [extra] Further fields for the worker; their names begin with `x-`.
 */
/**
 * What a call may say besides.
 * @typedef {object} CallOptions
 * @property {string} [id] The job's name. Submitted again with it, also by another process and after a crash, the job does not
 *   run a second time and the answer is the same. Without it the client makes one, for its own repetitions.
 * @property {AbortSignal} [signal] Aborted, the call ends with the signal's reason, and the job that it submitted is cancelled.
 */
/** @typedef {JobOptions & CallOptions} SubmitOptions */
/** An item of `map` that says more than its body: an id of its own, or options that differ from the others'. */
export class Job {
    /**
     * @param {Body} body
     * @param {JobOptions & { id?: string }} [options]
     */
    constructor(body: Body, { id, ...options }?: JobOptions & {
        id?: string;
    });
    body: Body;
    id: string | undefined;
    options: {
        /**
         * A configured lane.
         */
        lane?: string | undefined;
        model?: string | undefined;
        /**
         * Whom the job is for: who takes turns, and what budgets match.
         */
        client?: string | undefined;
        cost?: Cost | undefined;
        /**
         * The job's deadline, from its acceptance: it ends with DeadlineError.
         */
        timeoutMs?: number | undefined;
        /**
         * Before the job is queued.
         */
        delayMs?: number | undefined;
        attemptsMax?: number | undefined;
        /**
         * Jobs of a group are counted together, and a watch of it hears when it is over.
         */
        group?: string | undefined;
        /**
         * A URL that hears of the job's end, or of its group's, where the broker has workers for that.
         */
        notify?: string | undefined;
        /**
         * How many jobs the group has. Without it the group is over when none of them is open.
         */
        groupSize?: number | undefined;
        /**
         * For how long the answer is kept, and the id means this job.
         */
        retainMs?: number | undefined;
        durable?: boolean | undefined;
        /**
         * `end`: LimitedError at once, where the upstream's rate is used up.
         */
        whenLimited?: "end" | "wait" | undefined;
        /**
         * `end`: UpstreamQuotaError at once, where every key rests.
         */
        whenSpent?: "end" | "wait" | undefined;
        /**
         * `wait`: a lane or a broker that is full is asked again, until `timeoutMs`. `throw`:
         * LaneFullError and the like.
         */
        whenFull?: "wait" | "throw" | undefined;
        /**
         * Whether the broker cancels the job when this process is gone for 5 s. Not for a client
         * that may be cut off for longer.
         */
        cancelWhenGone?: boolean | undefined;
        /**
         * Passed to the worker untouched; anything that msgpack can say.
         */
        meta?: unknown;
        trace?: unknown;
        /**
         * Further fields for the worker; their names begin with `x-`.
         */
        extra?: Record<string, unknown> | undefined;
    };
}
/** A job that succeeded. */
export class Answer {
    /**
     * @param {string} id
     * @param {Buffer} body
     * @param {wire.Fields} fields
     */
    constructor(id: string, body: Buffer, fields: wire.Fields);
    id: string;
    body: Buffer<ArrayBufferLike>;
    /**
     * The job's place in the input of `map`; undefined: it is of no `map`.
     * @type {number | undefined}
     */
    index: number | undefined;
    get text(): string;
    /** @returns {any} */
    json(): any;
    /** Undefined: the default lane. */
    get lane(): string | undefined;
    /** Hand-overs that cost an attempt. */
    get attempts(): number;
    /** From acceptance, or the end of the delay, to the last hand-over. */
    get queuedMs(): number;
    /** From the last hand-over to the outcome. */
    get ranMs(): number;
    /**
     * What the worker said; empty where it said nothing.
     * @returns {Record<string, number>}
     */
    get usage(): Record<string, number>;
    /** Pieces of a streamed answer; the body is what none of them carried. */
    get chunks(): number;
    #private;
}
/**
 * A job that the broker has taken.
 * @typedef {object} Accepted
 * @property {string} id
 * @property {string} [lane]
 * @property {boolean} durable It is on disk and outlives the broker.
 * @property {boolean} duplicate The broker knew the job before.
 * @property {number} position
 * @property {string[]} ignored Of a duplicate: `group` and `notify`, where the job that the broker knows has others. They count for nothing.
 */
/**
 * How far a job is.
 * @typedef {object} Status
 * @property {string} id
 * @property {string} state delayed, queued, running, succeeded, failed, cancelled, expired or unknown.
 * @property {boolean} over Whether it has ended, or is not known.
 * @property {string} [lane]
 * @property {number} attempts
 * @property {number} queuedMs
 * @property {number} [etaMs] Until it may go on, where the broker knows.
 * @property {string} [blockedBy] Of a job that waits: for what.
 * @property {string} [worker] Of a job that runs: where.
 * @property {string} [group] Of a job that has not ended.
 * @property {number} [pct] Of a job that runs and whose worker says how far it is: in percent.
 * @property {string} [note] The same in words.
 * @property {number} [silentMs] For how long it has said nothing.
 * @property {{ code?: string, message?: string }} error Of a job that failed.
 */
/**
 * The broker answers.
 * @typedef {object} Pong
 * @property {number} roundTripMs
 * @property {string} [version]
 * @property {string} [defaultLane]
 * @property {Date} brokerTime The broker's clock.
 * @property {string} [shard] Where there are shards: the broker's own.
 * @property {Record<string, string[]>} shards The endpoints of each.
 */
/** What a job waits for, and what would help. As text it is both. */
export class Explanation {
    /**
     * @param {Status} status
     * @param {string} what
     * @param {string} help
     */
    constructor(status: Status, what: string, help: string);
    status: Status;
    what: string;
    help: string;
    toString(): string;
}
/** The fields that jobs of one call share, checked once and not changed afterwards. */
export class Submit {
    /**
     * Throws TypeError or RangeError for what no job can be.
     * @param {string} service
     * @param {JobOptions} options
     * @param {wire.Fields} [more]
     */
    constructor(service: string, options: JobOptions, more?: wire.Fields);
    /** @type {wire.Fields} */
    fields: wire.Fields;
    /** Whether a refusal for want of room is asked again. */
    waitsWhenFull: boolean;
    /**
     * After that no answer is awaited any more, but for what the wire takes; undefined: no bound.
     * @type {number | undefined}
     */
    patienceMs: number | undefined;
    size: number;
    #private;
}
/**
 * Bytes go as they are, text as UTF-8, any other object or list as JSON.
 */
export type Body = Uint8Array | ArrayBuffer | string | object;
/**
 * What budgets in tokens are debited with; without it the broker estimates.
 */
export type Cost = {
    input_tokens?: number;
    output_tokens?: number;
};
/**
 * What a submit may say of its job. What is left out has the broker's default.
 */
export type JobOptions = {
    /**
     * A configured lane.
     */
    lane?: string | undefined;
    model?: string | undefined;
    /**
     * Whom the job is for: who takes turns, and what budgets match.
     */
    client?: string | undefined;
    cost?: Cost | undefined;
    /**
     * The job's deadline, from its acceptance: it ends with DeadlineError.
     */
    timeoutMs?: number | undefined;
    /**
     * Before the job is queued.
     */
    delayMs?: number | undefined;
    attemptsMax?: number | undefined;
    /**
     * Jobs of a group are counted together, and a watch of it hears when it is over.
     */
    group?: string | undefined;
    /**
     * A URL that hears of the job's end, or of its group's, where the broker has workers for that.
     */
    notify?: string | undefined;
    /**
     * How many jobs the group has. Without it the group is over when none of them is open.
     */
    groupSize?: number | undefined;
    /**
     * For how long the answer is kept, and the id means this job.
     */
    retainMs?: number | undefined;
    durable?: boolean | undefined;
    /**
     * `end`: LimitedError at once, where the upstream's rate is used up.
     */
    whenLimited?: "end" | "wait" | undefined;
    /**
     * `end`: UpstreamQuotaError at once, where every key rests.
     */
    whenSpent?: "end" | "wait" | undefined;
    /**
     * `wait`: a lane or a broker that is full is asked again, until `timeoutMs`. `throw`:
     * LaneFullError and the like.
     */
    whenFull?: "wait" | "throw" | undefined;
    /**
     * Whether the broker cancels the job when this process is gone for 5 s. Not for a client
     * that may be cut off for longer.
     */
    cancelWhenGone?: boolean | undefined;
    /**
     * Passed to the worker untouched; anything that msgpack can say.
     */
    meta?: unknown;
    trace?: unknown;
    /**
     * Further fields for the worker; their names begin with `x-`.
     */
    extra?: Record<string, unknown> | undefined;
};
/**
 * What a call may say besides.
 */
export type CallOptions = {
    /**
     * The job's name. Submitted again with it, also by another process and after a crash, the job does not
     * run a second time and the answer is the same. Without it the client makes one, for its own repetitions.
     */
    id?: string | undefined;
    /**
     * Aborted, the call ends with the signal's reason, and the job that it submitted is cancelled.
     */
    signal?: AbortSignal | undefined;
};
export type SubmitOptions = JobOptions & CallOptions;
/**
 * A job that the broker has taken.
 */
export type Accepted = {
    id: string;
    lane?: string | undefined;
    /**
     * It is on disk and outlives the broker.
     */
    durable: boolean;
    /**
     * The broker knew the job before.
     */
    duplicate: boolean;
    position: number;
    /**
     * Of a duplicate: `group` and `notify`, where the job that the broker knows has others. They count for nothing.
     */
    ignored: string[];
};
/**
 * How far a job is.
 */
export type Status = {
    id: string;
    /**
     * delayed, queued, running, succeeded, failed, cancelled, expired or unknown.
     */
    state: string;
    /**
     * Whether it has ended, or is not known.
     */
    over: boolean;
    lane?: string | undefined;
    attempts: number;
    queuedMs: number;
    /**
     * Until it may go on, where the broker knows.
     */
    etaMs?: number | undefined;
    /**
     * Of a job that waits: for what.
     */
    blockedBy?: string | undefined;
    /**
     * Of a job that runs: where.
     */
    worker?: string | undefined;
    /**
     * Of a job that has not ended.
     */
    group?: string | undefined;
    /**
     * Of a job that runs and whose worker says how far it is: in percent.
     */
    pct?: number | undefined;
    /**
     * The same in words.
     */
    note?: string | undefined;
    /**
     * For how long it has said nothing.
     */
    silentMs?: number | undefined;
    /**
     * Of a job that failed.
     */
    error: {
        code?: string;
        message?: string;
    };
};
/**
 * The broker answers.
 */
export type Pong = {
    roundTripMs: number;
    version?: string | undefined;
    defaultLane?: string | undefined;
    /**
     * The broker's clock.
     */
    brokerTime: Date;
    /**
     * Where there are shards: the broker's own.
     */
    shard?: string | undefined;
    /**
     * The endpoints of each.
     */
    shards: Record<string, string[]>;
};
import * as wire from "./wire.js";
