/**
 * A place is given to a job for a turn, whose number only this job has. Either the loop takes the job up, or the thread takes it back;
 * never both.
 */
export class Places {
    /** @param {number} count */
    static memoryFor(count: number): SharedArrayBuffer;
    /** @param {SharedArrayBuffer} memory As `memoryFor` makes it. */
    constructor(memory: SharedArrayBuffer);
    memory: SharedArrayBuffer;
    count: number;
    /** @param {number} place @param {number} turn Above 0. */
    give(place: number, turn: number): void;
    /** Whether the loop may begin the job: nobody has taken it back. @param {number} place @param {number} turn */
    takeUp(place: number, turn: number): boolean;
    /** Whether the loop will not begin the job: it has not taken it up. @param {number} place @param {number} turn */
    takeBack(place: number, turn: number): boolean;
    /** Whether the job is neither taken up nor taken back. @param {number} place @param {number} turn */
    waits(place: number, turn: number): boolean;
    /** @param {number} place */
    cancel(place: number): void;
    /** @param {number} place */
    isCancelled(place: number): boolean;
    #private;
}
