/** @typedef {import("./worker_session.js").Lease} Lease */
/** @typedef {{ lease: Lease, place: number, turn: number, at: number }} Given */
/** A loop that has not taken up a job within this time stands still. */
export const TAKEN_UP_WITHIN_MS: 2000;
/** It is told times, in milliseconds of one monotonic clock, and sets none itself. */
export class LoopWatch {
    /** @param {import("./places.js").Places} places */
    constructor(places: import("./places.js").Places);
    /** Since when the loop stands still, as far as is known. @type {number | undefined} */
    stillSince: number | undefined;
    /** @param {Given} given */
    gave(given: Given): void;
    /** When to `look` next; undefined: there is nothing to look for. */
    get due(): number | undefined;
    /**
     * The jobs that are taken back, as the loop stands still. To be called when it is due, or later.
     * @param {number} now
     * @returns {Given[]}
     */
    look(now: number): Given[];
    #private;
}
export type Lease = import("./worker_session.js").Lease;
export type Given = {
    lease: Lease;
    place: number;
    turn: number;
    at: number;
};
