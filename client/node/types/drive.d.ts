/**
 * Writes what is for people. That nobody reads it any more, which Node has end the process, ends nothing.
 * @param {NodeJS.WriteStream} stream
 * @param {string} text
 */
export function say(stream: NodeJS.WriteStream, text: string): void;
export function now(): number;
/**
 * Warnings and errors to stderr.
 * @type {Log}
 */
export const logToStderr: Log;
/** Runs a session on this thread's loop. Whoever has told the session something calls `wake()`. */
export class Driver {
    /**
     * Throws an Error for an endpoint that is none.
     * @param {Peer} peer
     * @param {DrivenSession} session
     * @param {number} bodyBytesMax
     * @param {Log} log
     * @param {() => void} afterTurn Called at the end of each turn.
     */
    constructor(peer: Peer, session: DrivenSession, bodyBytesMax: number, log: Log, afterTurn: () => void);
    /** What ended it, where it was no end(): a mistake of this package. @type {unknown} */
    fault: unknown;
    /** Where its socket may be. */
    endpoints: string[];
    /** Where it is, or is about to be. */
    endpoint: string;
    /**
     * Later connections are to these. What is no endpoint is left out; where none is left all stays as it is.
     * @param {string[]} endpoints
     */
    goRound(endpoints: string[]): void;
    get ended(): boolean;
    /** Has a turn soon: behind what can be read now. What callers want meanwhile travels together. */
    wake(): void;
    /** Sends what there is, without waiting, since the process ends. */
    sendAtOnce(): void;
    /**
     * Ends it when all that there was to say is said, after `lingerMs` in any case.
     * @param {number} lingerMs
     */
    leave(lingerMs: number): Promise<void>;
    /**
     * Until libzmq holds nothing of its sockets any more; requires that it is ended. A thread that ends earlier corrupts the process's
     * heap: libzmq gives back the messages it drops to the binding of the thread that sent them, which is gone then.
     * @returns {Promise<void>}
     */
    gone(): Promise<void>;
    /**
     * Ends it; messages that were sent have `lingerMs` to leave.
     * @param {number} lingerMs
     */
    end(lingerMs: number): void;
    #private;
}
export type Peer = import("./settings.js").Peer;
export type Level = "info" | "warning" | "error";
/**
 * Where what is for people goes.
 */
export type Log = (level: Level, message: string) => void;
/**
 * What a driver needs of a session; session.js and worker_session.js say what each means.
 */
export type DrivenSession = {
    connected: () => void;
    disconnected: (now: number) => void;
    foundNobody: (now: number) => void;
    refused: (message: string, now: number) => void;
    received: (frames: Buffer[], now: number) => void;
    advance: (now: number) => void;
    nextWakeup: () => number | undefined;
    nextMessage: (now: number) => Uint8Array[] | undefined;
    takeTold: () => string[];
    goRound: (endpoints: number) => void;
    takeReopen: (now: number) => boolean;
    reopenFailed: (now: number) => void;
    stoodStill: (now: number) => void;
};
