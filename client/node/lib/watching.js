// SPDX-License-Identifier: Apache-2.0
// How far a watch is: what its events tell, and what its reader has taken. Knows no session.
import { WATCH_EVENTS_MAX } from "./tables.js";
import * as wire from "./wire.js";

/** @typedef {import("./wire.js").Fields} Fields */

// What a reader has taken is said so many events at a time: a quarter of what the broker sends ahead.
const SEEN_EVENTS = WATCH_EVENTS_MAX / 4;
// Events that wait for a reader. The broker sends a quarter of that ahead on one connection; a reader that is behind over several
// loses some.
const UNREAD_EVENTS_MAX = 4 * WATCH_EVENTS_MAX;

/**
 * What has become of a job. docs/protocol/client.md says which fields go with which `what`.
 * @typedef {object} JobEvent
 * @property {string} what accepted, queued, started, adopted, progress, requeued, moved, ended or redriven; `group_over`, of a group; or
 *   `watching`: from now on no change goes untold. That is the first one, and comes again, with `gap`, after each connection that was lost.
 * @property {number} seq Its number since the last `watching`.
 * @property {boolean} over Whether the job has ended.
 * @property {boolean} gap Changes right before this one were left out.
 * @property {number} leftOut How many, where that is known.
 * @property {string} [id]
 * @property {string} [state] Of the job from now on.
 * @property {string} [lane]
 * @property {string} [service]
 * @property {string} [client]
 * @property {string} [model]
 * @property {string} [fromLane] Of `moved`: the lane before.
 * @property {string} [worker]
 * @property {string} [code] Of `requeued` why, of `ended` that of the error.
 * @property {number} attempts
 * @property {number} [delayMs] Of a job that is delayed: how long it still is.
 * @property {number} [queuedMs] Of `ended`.
 * @property {number} [ranMs] Of `ended`.
 * @property {boolean} dead Of `ended`: it is kept among the dead, and may be run again.
 * @property {number} [pct] Of `progress`.
 * @property {string} [note] Of `progress`.
 * @property {string} [group] The job's, where it has one; and of `group_over` how many of its jobs ended how:
 * @property {number} succeeded
 * @property {number} failed
 * @property {number} cancelled
 * @property {number} expired
 * @property {number} died Of these, how many were dead by then.
 * @property {boolean} incomplete The group went before it was over, and the broker counts its jobs no further.
 * @property {Date} [at] When, by the broker's clock.
 */

/**
 * @param {Fields} fields
 * @param {boolean} gap
 * @param {number} leftOut
 * @returns {JobEvent}
 */
function eventOf(fields, gap, leftOut) {
  const at = wire.optionalInt(fields, "at_ms");
  const what = wire.text(fields, "what");
  return {
    what,
    seq: wire.int(fields, "seq"),
    over: what === "ended",
    gap,
    leftOut,
    id: wire.optionalText(fields, "id"),
    state: wire.optionalText(fields, "state"),
    lane: wire.optionalText(fields, "lane"),
    service: wire.optionalText(fields, "service"),
    client: wire.optionalText(fields, "client"),
    model: wire.optionalText(fields, "model"),
    fromLane: wire.optionalText(fields, "from_lane"),
    worker: wire.optionalText(fields, "worker"),
    code: wire.optionalText(fields, "code"),
    attempts: wire.int(fields, "attempts", 0),
    delayMs: wire.optionalInt(fields, "delay_ms"),
    queuedMs: wire.optionalInt(fields, "queued_ms"),
    ranMs: wire.optionalInt(fields, "ran_ms"),
    dead: fields.dead === true,
    pct: wire.optionalInt(fields, "pct"),
    note: wire.optionalText(fields, "note"),
    group: wire.optionalText(fields, "group"),
    succeeded: wire.int(fields, "succeeded", 0),
    failed: wire.int(fields, "failed", 0),
    cancelled: wire.int(fields, "cancelled", 0),
    expired: wire.int(fields, "expired", 0),
    died: wire.int(fields, "died", 0),
    incomplete: fields.incomplete === true,
    at: at === undefined ? undefined : new Date(at),
  };
}

/** An event for the reader of a watch, which then says that it took it. */
export class Change {
  /**
   * @param {number} life Of which connection it is: what was taken of an earlier one tells nothing of the present one.
   * @param {JobEvent} event
   */
  constructor(life, event) {
    this.life = life;
    this.event = event;
  }
}

/** Numbers are of events. Whoever holds it says `seen` where seenDue is set. */
export class Following {
  #life = 0;
  #begun = false;
  #next = 0; // to come
  #taken = 0; // the reader has all before
  #said = 0; // and the broker knows of these
  #unread = 0; // of all connections
  // What the next event has to tell.
  #lost = false;
  #leftOut = 0;
  seenDue = false;

  /** The broker knows nothing of the watch, or not any more. */
  beginAnew() {
    this.#lost ||= this.#begun;
    this.#life += 1;
    this.#begun = this.seenDue = false;
    this.#next = this.#taken = this.#said = 0;
  }

  /**
   * The watch holds; or the answer to its renewal.
   * @param {number} seq
   * @returns {Change | undefined}
   */
  watching(seq) {
    if (this.#begun && seq === this.#next && !this.#lost) return undefined;
    if (this.#begun && seq < this.#next) this.beginAnew(); // the broker had let go of it, and has it anew
    if (this.#begun) this.#miss(seq - this.#next); // the last events found no room on their way
    else this.#taken = this.#said = seq;
    this.#begun = true;
    this.#next = seq;
    return this.#tell({ what: "watching", seq });
  }

  /**
   * @param {Fields} fields
   * @returns {Change | undefined | "stale"} `stale`: it is of an earlier connection, or came twice.
   */
  event(fields) {
    const seq = wire.int(fields, "seq");
    if (!this.#begun || seq < this.#next) return "stale";
    const missing = wire.int(fields, "left_out", 0) + seq - this.#next;
    if (missing > 0 || fields.gap === true) this.#miss(missing);
    this.#next = seq + 1;
    return this.#tell(fields);
  }

  /** @param {Change} change */
  took({ life, event }) {
    this.#unread -= 1;
    if (life === this.#life && event.what !== "watching") this.#take(event.seq + 1);
  }

  /** What `seen` says; requires seenDue. */
  sayTaken() {
    this.seenDue = false;
    this.#said = this.#taken;
    return this.#taken - 1;
  }

  /** @param {number} taken */
  #take(taken) {
    this.#taken = taken;
    this.seenDue ||= this.#taken - this.#said >= SEEN_EVENTS;
  }

  /** @param {number} count */
  #miss(count) {
    this.#lost = true;
    this.#leftOut += count;
  }

  /**
   * The event for the reader; it is left out where too many wait for it.
   * @param {Fields} fields
   */
  #tell(fields) {
    if (this.#unread >= UNREAD_EVENTS_MAX) {
      const isChange = fields.what !== "watching";
      this.#miss(isChange ? 1 : 0);
      if (isChange) this.#take(this.#next);
      return undefined;
    }
    const change = new Change(this.#life, eventOf(fields, this.#lost, this.#leftOut));
    this.#lost = false;
    this.#leftOut = 0;
    this.#unread += 1;
    return change;
  }
}
