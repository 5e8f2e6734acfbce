/** See the file. */
export class Shards {
    /**
     * @param {Session} home
     * @param {(endpoints: readonly string[]) => Session} connect A running session at the endpoints of another shard; throws an Error.
     * @param {(session: Session) => void} wake Has a session's turn come soon.
     * @param {Place} place Where the home session is.
     */
    constructor(home: Session, connect: (endpoints: readonly string[]) => Session, wake: (session: Session) => void, place: Place);
    /** @returns {Session[]} */
    get sessions(): Session[];
    /**
     * @param {Request} request
     * @param {number} now
     */
    begin(request: Request, now: number): void;
    /**
     * As Session's.
     * @param {Request} request
     * @param {number} now
     * @param {Tell} tell
     */
    abandon(request: Request, now: number, tell: Tell): boolean;
    /**
     * @param {number} now
     * @param {(id: string) => LaneMQError} error
     * @param {boolean} told
     */
    abandonAll(now: number, error: (id: string) => LaneMQError, told: boolean): void;
    /** @param {(id: string) => LaneMQError} error */
    endAll(error: (id: string) => LaneMQError): void;
    /**
     * Takes up what sessions have put aside. To be called behind each turn.
     * @param {number} now
     */
    settle(now: number): void;
    #private;
}
export type Session = import("./session.js").Session;
export type Tell = import("./session.js").Tell;
export type Pong = import("./types.js").Pong;
/**
 * Where a session is connected to, and may be.
 */
export type Place = {
    endpoint: string;
    endpoints: string[];
    goRound(endpoints: string[]): void;
};
/**
 * A request about a job while shards are asked for it.
 */
export type Search = {
    request: Request;
    /**
     * Of the first, who does not know the job; undefined: nobody was asked yet.
     */
    answer: any;
    open: number;
    silent: string[];
    /**
     * One of them cannot be asked again.
     */
    inVain: boolean;
};
import { Request } from "./session.js";
import { LaneMQError } from "./errors.js";
