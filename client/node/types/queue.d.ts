/**
 * First in, first out, in constant time.
 * @template T
 */
export class Queue<T> {
    get size(): number;
    /** @param {T} item */
    push(item: T): void;
    /** @returns {T | undefined} The first one, which stays. */
    get first(): T | undefined;
    /** @returns {T | undefined} */
    shift(): T | undefined;
    /** @returns {T[]} All, which are taken out. */
    drain(): T[];
    clear(): void;
    #private;
}
/** @typedef {{ when: number, ref: number, which: string }} Timer */
/** Times, the earliest first. */
export class TimerHeap {
    get size(): number;
    /** @returns {Timer | undefined} */
    get first(): Timer | undefined;
    /** @param {Timer} timer */
    push(timer: Timer): void;
    /** @returns {Timer | undefined} */
    pop(): Timer | undefined;
    /** Keeps those for which `wanted` holds. @param {(timer: Timer) => boolean} wanted */
    keep(wanted: (timer: Timer) => boolean): void;
    #private;
}
export type Timer = {
    when: number;
    ref: number;
    which: string;
};
