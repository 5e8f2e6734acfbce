// SPDX-License-Identifier: Apache-2.0
// LaneMQ from Node: a client and a worker.
//
//     import { Client } from "lanemq";
//     const client = new Client();
//     console.log((await client.submit("echo", "hello", { lane: "critical" })).text);
//     await client.close();
//
//     import { worker } from "lanemq";
//     await worker("shout", (job) => job.text.toUpperCase()).run();
//
// docs/guides/node.md is the guide, docs/protocol/ what goes over the wire.
export { Client, Stream, Watch } from "./client.js";
export {
  BadRequestError, BytesFullError, CancelledError, ClientFullError, ConflictError, DeadlineError, DrainingError, ForbiddenError,
  GoneError, InternalError, LaneFullError, LaneMQError, LimitedError, NotFoundError, NotOverError, NotOwnerError, PausedError,
  SlowReaderError, StalledError, StoreFullError, TooLargeError, UnauthorizedError, UnavailableError, UnsatisfiableError,
  UpstreamFailedError, UpstreamQuotaError, UpstreamRejectedError, WorkerLostError,
} from "./errors.js";
export { BadJob, Failure, JobCancelled, Limited, OutOfTime, Overloaded, Permanent, Quota, Released, Retry } from "./failures.js";
export { Result } from "./outcomes.js";
export { Answer, Explanation, Job } from "./types.js";
export { JobCall, Service, VERSION, Worker, WorkerRefusedError, worker } from "./worker.js";

/** @typedef {import("./types.js").Accepted} Accepted */
/** @typedef {import("./types.js").Body} Body */
/** @typedef {import("./client.js").ClientOptions} ClientOptions */
/** @typedef {import("./types.js").Cost} Cost */
/** @typedef {import("./worker.js").Handler} Handler */
/** @typedef {import("./watching.js").JobEvent} JobEvent */
/** @typedef {import("./types.js").JobOptions} JobOptions */
/** @typedef {import("./client.js").MapHow} MapHow */
/** @typedef {import("./types.js").Pong} Pong */
/** @typedef {import("./types.js").Status} Status */
/** @typedef {import("./types.js").SubmitOptions} SubmitOptions */
/** @typedef {import("./client.js").WatchOptions} WatchOptions */
/** @typedef {import("./worker.js").WorkerOptions} WorkerOptions */
