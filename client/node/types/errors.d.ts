/**
 * The error of a code.
 * @param {string} code
 * @param {string} message
 * @param {ErrorFields} [fields]
 * @returns {LaneMQError}
 */
export function errorOf(code: string, message: string, fields?: ErrorFields): LaneMQError;
/**
 * @typedef {object} ErrorFields
 * @property {string} [id] @property {number} [retryAfterMs] @property {number} [attempts] @property {number} [queuedMs]
 * @property {string} [limiter] @property {number} [chunks] @property {number} [upstreamStatus] @property {Buffer} [body]
 * @property {boolean} [local]
 */
/**
 * The base of all errors that the broker says, or that this package says in its place.
 *
 * An unknown code, of a broker that is newer than this package, is an InternalError whose `code` is that word.
 */
export class LaneMQError extends Error {
    /** The code on the wire. */
    static code: string;
    /** The status of HTTP that the gateway answers with. */
    static get httpStatus(): number;
    /** Whether the broker says when to come again (`retryAfterMs`). */
    static get saysWhenToRetry(): boolean;
    /**
     * @param {string} [message] For people: what, which limit, what to do.
     * @param {ErrorFields} [fields]
     */
    constructor(message?: string, fields?: ErrorFields);
    /**
     * The word on the wire.
     * @type {string}
     */
    code: string;
    /** The job's id; undefined: the request was about no job. */
    id: string | undefined;
    /** After how many milliseconds to come again; undefined: the broker says none. */
    retryAfterMs: number | undefined;
    /** Hand-overs that cost an attempt. */
    attempts: number;
    /** How long the job waited. */
    queuedMs: number;
    /** The bound that stood in the way, by its name in the configuration. */
    limiter: string | undefined;
    /** Pieces of a streamed answer before it broke. */
    chunks: number;
    /** The status that the upstream answered with over HTTP, where it did. */
    upstreamStatus: number | undefined;
    /** The upstream's answer, if any. */
    body: Buffer<ArrayBufferLike>;
    /** Said by this package, not by the broker: whether the job ran is not known. */
    local: boolean;
    /**
     * The job's place in the input of `map`; undefined: it is of no `map`.
     * @type {number | undefined}
     */
    index: number | undefined;
    /** The status of HTTP that the gateway answers with. */
    get httpStatus(): number;
}
/** Malformed message, unknown lane or bad field; the message names it. */
export class BadRequestError extends LaneMQError {
}
/** The connection's key is unknown or revoked. */
export class UnauthorizedError extends LaneMQError {
}
/** The client may not use this lane, service or operation. */
export class ForbiddenError extends LaneMQError {
}
/** Never known. */
export class NotFoundError extends LaneMQError {
}
/** No longer kept; of a submit: its job succeeded and was evicted. */
export class GoneError extends LaneMQError {
}
/** The id is in use with other content. */
export class ConflictError extends LaneMQError {
}
/** Body or header over its limit; the message names it. */
export class TooLargeError extends LaneMQError {
}
/** Can never run: it costs more than a budget can ever hold. */
export class UnsatisfiableError extends LaneMQError {
}
/** The lane holds its maximum of jobs or bytes. */
export class LaneFullError extends LaneMQError {
}
/** The client or its tenant holds its maximum of jobs, or its share (`client_share`). */
export class ClientFullError extends LaneMQError {
}
/** The broker holds its maximum of jobs or bytes. */
export class BytesFullError extends LaneMQError {
}
/** By the client or an operator. */
export class CancelledError extends LaneMQError {
}
/**
 * A stream's chunks were not taken for 30 s, or too many of them; the job goes on. Of a watch: not renewed
 * for 30 s.
 */
export class SlowReaderError extends LaneMQError {
}
/** A fault of the broker. */
export class InternalError extends LaneMQError {
}
/** The upstream's permanent error; its status and body are passed on. */
export class UpstreamRejectedError extends LaneMQError {
}
/** The attempts, or the retries of the service, are spent. */
export class UpstreamFailedError extends LaneMQError {
}
/** Every key rests for longer than the job's time, or the job said `spent: end`; or two keys refused it. */
export class UpstreamQuotaError extends LaneMQError {
}
/** The upstream's rate is used up, and the job said `limited: end`, or its time is over before that is. */
export class LimitedError extends LaneMQError {
}
/** Workers died under the job, or its last attempt did. */
export class WorkerLostError extends LaneMQError {
}
/** No progress for `stall_timeout`, in the last attempt or in a stream that had begun. */
export class StalledError extends LaneMQError {
}
/** The broker is stopping and takes no work. */
export class DrainingError extends LaneMQError {
}
/**
 * A plugin that judges submits is off, and its `when_off` is `refuse`; jobs of what an operator paused wait
 * instead.
 */
export class PausedError extends LaneMQError {
}
/**
 * The store's disk has no room for new jobs (`limiter` is `store_reserve`), or too much waits for it
 * (`store_backlog_max`); running jobs, and those that are not durable, go on.
 */
export class StoreFullError extends LaneMQError {
}
/**
 * Another broker may own the store: nothing was taken. Ask at `endpoints`, if said (several brokers). With
 * `shard`: that shard takes such jobs.
 */
export class NotOwnerError extends LaneMQError {
}
/** The store cannot make jobs durable now: nothing was taken. */
export class UnavailableError extends LaneMQError {
}
/** `timeout_ms` is over. */
export class DeadlineError extends LaneMQError {
}
/** `fetch` waited as long as it was told to, and the job goes on. `state` says how far it is. No code of the wire. */
export class NotOverError extends LaneMQError {
    /**
     * @param {string} message
     * @param {string} state
     * @param {ErrorFields} [fields]
     */
    constructor(message: string, state: string, fields?: ErrorFields);
    state: string;
}
/**
 * Each code of the protocol's table, in its order, with its class.
 * @type {ReadonlyMap<string, typeof LaneMQError>}
 */
export const BY_CODE: ReadonlyMap<string, typeof LaneMQError>;
/** What refuses a job for want of room, or while the broker stops: the same job may be sent again later. */
export const REFUSALS: Set<string>;
export type ErrorFields = {
    id?: string | undefined;
    retryAfterMs?: number | undefined;
    attempts?: number | undefined;
    queuedMs?: number | undefined;
    limiter?: string | undefined;
    chunks?: number | undefined;
    upstreamStatus?: number | undefined;
    body?: Buffer<ArrayBufferLike> | undefined;
    local?: boolean | undefined;
};
