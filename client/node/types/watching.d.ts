/** An event for the reader of a watch, which then says that it took it. */
export class Change {
    /**
     * @param {number} life Of which connection it is: what was taken of an earlier one tells nothing of the present one.
     * @param {JobEvent} event
     */
    constructor(life: number, event: JobEvent);
    life: number;
    event: JobEvent;
}
/** Numbers are of events. Whoever holds it says `seen` where seenDue is set. */
export class Following {
    seenDue: boolean;
    /** The broker knows nothing of the watch, or not any more. */
    beginAnew(): void;
    /**
     * The watch holds; or the answer to its renewal.
     * @param {number} seq
     * @returns {Change | undefined}
     */
    watching(seq: number): Change | undefined;
    /**
     * @param {Fields} fields
     * @returns {Change | undefined | "stale"} `stale`: it is of an earlier connection, or came twice.
     */
    event(fields: Fields): Change | undefined | "stale";
    /** @param {Change} change */
    took({ life, event }: Change): void;
    /** What `seen` says; requires seenDue. */
    sayTaken(): number;
    #private;
}
/**
 * What has become of a job. docs/protocol/client.md says which fields go with which `what`.
 */
export type JobEvent = {
    /**
     * accepted, queued, started, adopted, progress, requeued, moved, ended or redriven; `group_over`, of a group; or
     * `watching`: from now on no change goes untold. That is the first one, and comes again, with `gap`, after each connection that was lost.
     */
    what: string;
    /**
     * Its number since the last `watching`.
     */
    seq: number;
    /**
     * Whether the job has ended.
     */
    over: boolean;
    /**
     * Changes right before this one were left out.
     */
    gap: boolean;
    /**
     * How many, where that is known.
     */
    leftOut: number;
    id?: string | undefined;
    /**
     * Of the job from now on.
     */
    state?: string | undefined;
    lane?: string | undefined;
    service?: string | undefined;
    client?: string | undefined;
    model?: string | undefined;
    /**
     * Of `moved`: the lane before.
     */
    fromLane?: string | undefined;
    worker?: string | undefined;
    /**
     * Of `requeued` why, of `ended` that of the error.
     */
    code?: string | undefined;
    attempts: number;
    /**
     * Of a job that is delayed: how long it still is.
     */
    delayMs?: number | undefined;
    /**
     * Of `ended`.
     */
    queuedMs?: number | undefined;
    /**
     * Of `ended`.
     */
    ranMs?: number | undefined;
    /**
     * Of `ended`: it is kept among the dead, and may be run again.
     */
    dead: boolean;
    /**
     * Of `progress`.
     */
    pct?: number | undefined;
    /**
     * Of `progress`.
     */
    note?: string | undefined;
    /**
     * The job's, where it has one; and of `group_over` how many of its jobs ended how:
     */
    group?: string | undefined;
    succeeded: number;
    failed: number;
    cancelled: number;
    expired: number;
    /**
     * Of these, how many were dead by then.
     */
    died: number;
    /**
     * The group went before it was over, and the broker counts its jobs no further.
     */
    incomplete: boolean;
    /**
     * When, by the broker's clock.
     */
    at?: Date | undefined;
};
export type Fields = import("./wire.js").Fields;
