/** Requests without an answer, of one client. */
export const PENDING_MAX: 10000;
/** The bytes of their bodies. A larger body is taken when nothing else is pending. */
export const PENDING_BYTES_MAX: number;
export function makeId(): string;
export class Engine {
    /**
     * @param {import("./settings.js").Peer} peer
     * @param {number} pendingMax
     * @param {number} pendingBytesMax
     * @param {import("./drive.js").Log} log
     */
    constructor(peer: import("./settings.js").Peer, pendingMax: number, pendingBytesMax: number, log: import("./drive.js").Log);
    get counters(): {
        sent: number;
        resent: number;
        answered: number;
        expired: number;
        droppedAnswers: number;
        undecodable: number;
        reconnected: number;
        messages: number;
    };
    /**
     * Begins a request as soon as there is room. Throws TooLargeError for a body that no broker takes, CancelledError where the
     * client is closed, and ClientFullError where there is no room and `waits` is false.
     * @param {Request} request
     * @param {boolean} [waits]
     */
    begin(request: Request, waits?: boolean): void;
    /**
     * Nobody waits for these any more: jobs among them are cancelled, where the broker may have them. Fulfilled when the broker
     * has heard of it, or does not answer for some seconds.
     * @param {Iterable<Request>} requests
     * @returns {Promise<void>}
     */
    abandon(requests: Iterable<Request>): Promise<void>;
    /**
     * @param {number} ref
     * @param {number} seq
     */
    seen(ref: number, seq: number): void;
    /**
     * @param {Request} request
     * @param {import("./watching.js").Change} change
     */
    took(request: Request, change: import("./watching.js").Change): void;
    /**
     * Nothing new is taken any more, and jobs that are under way are cancelled. `told`: what is pending ends with `cancelled`;
     * else its callers hear nothing any more.
     * @param {boolean} told
     */
    stop(told: boolean): void;
    /**
     * Until the broker has answered all there is, what was cancelled mostly, or does not answer for some seconds.
     * @returns {Promise<void>}
     */
    untilIdle(): Promise<void>;
    /** Has messages leave at once: this is the process's last turn. */
    sendAtOnce(): void;
    /**
     * Ends the connection. Fulfilled when nothing of it is left, after LINGER_MS and a little more at the latest.
     * @returns {Promise<void>}
     */
    end(): Promise<void>;
    #private;
}
export function control(kind: import("./session.js").Kind, id: string, parts?: import("./session.js").RequestParts): Request;
import { Request } from "./session.js";
