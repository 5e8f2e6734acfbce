/** @typedef {import("./types.js").Body} Body */
/** @typedef {import("./types.js").JobOptions} JobOptions */
/** @typedef {import("./types.js").Answer | LaneMQError} Outcome */
/** Jobs of one `map` that the broker has at once. */
export const WINDOW: 256;
/** Answers that wait for an earlier one, for each job of the window: then nothing new is begun. */
export const AHEAD: 4;
/** One `map`. While it `wants()` input, `add()` makes an item a request; `take()` is told what came, `ready()` hands out. */
export class MapRun {
    /**
     * @param {string} service
     * @param {number | undefined} total
     * @param {JobOptions} options
     * @param {() => string} makeId
     * @param {(index: number, outcome: Outcome) => void} tell Hears what comes of each.
     * @param {{ ordered: boolean, window: number, returnsErrors: boolean }} how
     */
    constructor(service: string, total: number | undefined, options: JobOptions, makeId: () => string, tell: (index: number, outcome: Outcome) => void, { ordered, window, returnsErrors }: {
        ordered: boolean;
        window: number;
        returnsErrors: boolean;
    });
    done: number;
    failed: number;
    /** Whether the input has ended. */
    exhausted: boolean;
    total: number | undefined;
    /** Whether the window has room for another item. */
    wants(): boolean;
    /**
     * @param {Body | Job} item
     * @returns {Request}
     */
    add(item: Body | Job): Request;
    /**
     * What came of a job. Throws the first error, where errors are not returned.
     * @param {number} index
     * @param {Outcome} outcome
     */
    take(index: number, outcome: Outcome): void;
    /** @returns {Outcome | undefined} The next answer; undefined: none is there yet. */
    ready(): Outcome | undefined;
    get over(): boolean;
    /** @returns {Request[]} */
    underWay(): Request[];
    #private;
}
/** A line on a terminal that says how far a `map` is, at most ten times a second. */
export class Progress {
    /**
     * @param {MapRun} run
     * @param {boolean | undefined} wanted Undefined: where `out` is a terminal.
     * @param {NodeJS.WriteStream} [out]
     */
    constructor(run: MapRun, wanted: boolean | undefined, out?: NodeJS.WriteStream);
    /** @param {boolean} [last] */
    draw(last?: boolean): void;
    /** @param {number} seconds */
    text(seconds: number): string;
    #private;
}
export type Body = import("./types.js").Body;
export type JobOptions = import("./types.js").JobOptions;
export type Outcome = import("./types.js").Answer | LaneMQError;
import { Job } from "./types.js";
import { Request } from "./session.js";
import { LaneMQError } from "./errors.js";
