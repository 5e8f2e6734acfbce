/** Ends all look-ups, which nobody waits for any more. @returns {Promise<unknown>} Until their processes are gone. */
export function endLookUps(): Promise<unknown>;
/** One endpoint, as one of an address for each of its name's. */
export class Addresses {
    /**
     * Of an endpoint with a name; undefined: of any other, with which libzmq has nothing to look up.
     * @param {string} endpoint
     */
    static of(endpoint: string): Addresses | undefined;
    /** @param {string} before @param {string} name @param {string} behind */
    constructor(before: string, name: string, behind: string);
    name: string;
    /** Whether there is one that was not tried since the last answer. */
    get more(): boolean;
    /**
     * Looks the name up where all were tried, `withinMs` at most. Returns why there is none; undefined: there is one.
     * @param {number | undefined} withinMs
     * @returns {Promise<string | undefined>}
     */
    find(withinMs: number | undefined): Promise<string | undefined>;
    /** The next one's turn. */
    take(): string | undefined;
    /** It is reached: the next time its name is looked up anew. */
    reached(): void;
    #private;
}
/**
 * Without an address: why.
 */
export type Found = {
    addresses: string[];
    why?: string;
};
export type LookUp = {
    found: Promise<Found>;
    begun: number;
    freshUntil: number;
    child?: import("node:child_process").ChildProcess;
};
