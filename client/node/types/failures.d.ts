/**
 * @typedef {object} FailureFields
 * @property {string} [code] The upstream's, or one of the handler's own.
 * @property {number} [retryAfterMs] Before that there is no new attempt.
 * @property {Uint8Array} [body] The upstream's answer, for the client.
 * @property {number} [upstreamStatus] Its status over HTTP.
 * @property {Record<string, number>} [usage] As the protocol names it.
 * @property {Record<string, number>} [limits] As the protocol names them.
 * @property {"rate" | "concurrency" | "slope" | "day"} [limitedBy] Of Limited: which kind of limit refused, where that is known.
 */
/** The base of what a handler throws. */
export class Failure extends Error {
    /** The word on the wire. */
    static errorClass: string;
    /** @param {string} [message] @param {FailureFields} [fields] */
    constructor(message?: string, { code, retryAfterMs, body, upstreamStatus, usage, limits, limitedBy }?: FailureFields);
    code: string | undefined;
    retryAfterMs: number | undefined;
    body: Uint8Array<ArrayBufferLike>;
    upstreamStatus: number | undefined;
    usage: Record<string, number> | undefined;
    limits: Record<string, number> | undefined;
    limitedBy: "rate" | "concurrency" | "slope" | "day" | undefined;
}
/** Transient: the broker tries again after a pause; costs an attempt. */
export class Retry extends Failure {
}
/** The upstream is short of capacity: the same, and fewer run at once where a budget has a `concurrency`. */
export class Overloaded extends Failure {
}
/** The upstream's rate is used up: its budgets pause for `retryAfterMs`; costs no attempt. */
export class Limited extends Failure {
}
/** The upstream key is spent or refused: it rests, and the job goes on with another. */
export class Quota extends Failure {
}
/** Never tried again: the client gets UpstreamRejectedError. */
export class Permanent extends Failure {
}
/** The job's own time was over before the upstream had answered; says nothing of the upstream. */
export class OutOfTime extends Failure {
}
/** Handed back untouched: costs no attempt, and goes to another worker. */
export class Released extends Failure {
}
/** Thrown where a handler asks for a field of its job that cannot be read. */
export class BadJob extends Permanent {
    /** @param {string} problem */
    constructor(problem: string);
}
/** Thrown in a handler by `job.chunk()` and `job.check()`: nobody wants the answer any more. */
export class JobCancelled extends Error {
    /** @param {string} id */
    constructor(id: string);
}
export type FailureFields = {
    /**
     * The upstream's, or one of the handler's own.
     */
    code?: string | undefined;
    /**
     * Before that there is no new attempt.
     */
    retryAfterMs?: number | undefined;
    /**
     * The upstream's answer, for the client.
     */
    body?: Uint8Array<ArrayBufferLike> | undefined;
    /**
     * Its status over HTTP.
     */
    upstreamStatus?: number | undefined;
    /**
     * As the protocol names it.
     */
    usage?: Record<string, number> | undefined;
    /**
     * As the protocol names them.
     */
    limits?: Record<string, number> | undefined;
    /**
     * Of Limited: which kind of limit refused, where that is known.
     */
    limitedBy?: "rate" | "concurrency" | "slope" | "day" | undefined;
};
