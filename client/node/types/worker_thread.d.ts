export type Lease = import("./worker_session.js").Lease;
export type ThreadData = {
    peer: import("./settings.js").Peer;
    offer: import("./worker_session.js").Offer;
    /**
     * Of the places of jobs.
     */
    memory: SharedArrayBuffer;
    /**
     * Whether that is where what is for people goes.
     */
    logsToStderr: boolean;
    /**
     * One place of shared memory, which is 1 when the thread's socket is all gone.
     */
    gone: Int32Array;
};
export type Order = {
    what: "piece";
    lease: Lease;
    body: Uint8Array;
} | {
    what: "progress";
    lease: Lease;
    word: import("./wire.js").Fields;
} | {
    what: "finish";
    lease: Lease;
    place: number;
    outcome: import("./outcomes.js").Outcome;
} | {
    what: "drain";
    timeoutMs: number;
} | {
    what: "leave";
} | {
    what: "answer";
} | {
    what: "end";
};
export type Told = (import("./worker_session.js").Effect & {
    place?: number;
    turn?: number;
}) | {
    what: "ask";
} | {
    what: "log";
    level: import("./drive.js").Level;
    message: string;
} | {
    what: "failed";
    message: string;
};
