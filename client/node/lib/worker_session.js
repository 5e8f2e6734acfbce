// SPDX-License-Identifier: Apache-2.0
// A worker's side of the protocol, without a socket, a clock or a timer: ready, jobs, heartbeats, reconnects, drain.
//
// It is told messages and times; it says what to send, and in `effects` what the worker is to do. It knows the jobs that run and
// the outcomes that the broker has not answered, and sends these again after each loss of the connection or of the broker. All
// times are milliseconds of one monotonic clock.
import { BadJob } from "./failures.js";
import { cut, isBad, ofFault, unreadable } from "./outcomes.js";
import { Queue } from "./queue.js";
import { Rounds, reopenPause } from "./session.js";
import {
  BATCH_BYTES_MAX, BODY_BYTES_MAX, CAPACITY_MAX, HEADER_BYTES_MAX, HEARTBEAT_MAX, HEARTBEAT_MIN, INLINE_BYTES_MAX, OUTCOMES_MAX,
  OUTCOME_BYTES_MAX, PARTING_MAX, PROGRESS_EVERY, REOPEN_FAILED_PAUSE, SILENT_INTERVALS, WORKER_FIRST_WORD_WITHIN,
} from "./tables.js";
import { decode } from "./unpacking.js";
import * as wire from "./wire.js";

/** @typedef {import("./wire.js").Fields} Fields */
/** @typedef {[job: number, attempt: number]} Lease */
/** @typedef {import("./outcomes.js").Outcome} Outcome */
/**
 * What the worker is to do.
 * @typedef {{ what: "start", lease: Lease, fields: Fields, body: Buffer } | { what: "cancel", lease: Lease }
 *   | { what: "taken", lease: Lease, count: number, size: number } | { what: "welcomed" }
 *   | { what: "refused", message: string, ever: boolean } | { what: "left", finished: boolean }} Effect
 */

const INVENTORY_MAX = CAPACITY_MAX; // so many fit a header
const BATCH_MAX = 64;
const FIRST_HEARTBEAT = 1000; // until the broker says another
const REFUSED_PAUSE = 5000; // `ready` again later

/** @type {Outcome} Of a job that nobody was asked for. */
const STANDS_STILL = {
  op: "error", fields: { class: "released", code: "busy", message: "the worker's loop stands still: a handler computes without a pause" },
};

/** @param {Lease} lease */
const nameOf = ([job, attempt]) => `${job} ${attempt}`;

/**
 * What the session knows of a lease. `phase`: running; dropped (its handler runs, and nobody wants its outcome); finished (its
 * outcome is not answered).
 */
class Held {
  /** @type {"running" | "dropped" | "finished"} */
  phase = "running";
  /** @type {Queue<Uint8Array>} Pieces that no window covered; bounded by the worker's gate. */
  kept = new Queue();
  first = 0; // the number of the first kept piece
  /** @type {Outcome | undefined} */
  outcome = undefined;
  /** @type {Fields | undefined} The last of its progress. */
  word = undefined;
  wordAt = 0; // when it was sent
  wordUnsent = false; // it came too soon behind the one before

  /** @param {Lease} lease */
  constructor(lease) {
    this.lease = lease;
  }

  get size() {
    return this.outcome?.body?.length ?? 0;
  }
}

/**
 * @typedef {object} Offer
 * @property {string[]} services 1 to 256.
 * @property {number} capacity 1 to 1024.
 * @property {string[]} [lanes]
 * @property {string} [name]
 * @property {string} [version]
 * @property {string} [process]
 */

/** See the file. */
export class WorkerSession {
  #services;
  #capacity;
  #bodyBytesMax;
  /** @type {Fields} */
  #ready;
  /** @type {Map<string, Held>} Those that have finished in the order of their ends, as they are put in anew. */
  #held = new Map();
  #outcomes = 0;
  #outcomeBytes = 0;
  #dropped = 0;
  running = 0;
  /** @type {Effect[]} In order. */
  effects = [];
  /** @type {Queue<{ op: string, fields: Fields, body: Uint8Array }>} */
  #outbox = new Queue();
  #batchMax = 0;
  /** @type {"greeting" | "serving" | "parting" | "left"} */
  #state = "greeting";
  /** @type {string | undefined} */
  #session = undefined;
  #heartbeat = FIRST_HEARTBEAT;
  #metBefore = false;
  #leaving = false;
  #still = false; // the program's loop begins no job
  #toldToDrain = false;
  #partedAgain = false;
  #heardAt = 0;
  #saidHeartbeatAt = 0;
  #heardHeartbeatAt = -Infinity;
  #drainDeadline = Infinity;
  #partingUntil = Infinity;
  #wordsDue = Infinity;
  /** @type {number | undefined} */
  #reopenAt = undefined;
  #unmet = false; // as a client's session
  #lost = 0;
  #rounds;
  #connected = false;
  #heardHere = false; // a word on this connection
  outcomesDropped = 0;
  stale = 0;
  undecodable = 0;

  /**
   * @param {Offer} offer
   * @param {number} now
   * @param {{ bodyBytesMax?: number, endpoints?: number }} [how] `endpoints`: how many there are.
   */
  constructor({ services, capacity, lanes = [], name, version, process }, now, { bodyBytesMax = BODY_BYTES_MAX, endpoints = 1 } = {}) {
    this.#rounds = new Rounds(endpoints);
    this.#services = services;
    this.#capacity = capacity;
    this.#bodyBytesMax = bodyBytesMax;
    this.#ready = { services, resumes: true };
    if (lanes.length > 0) this.#ready.lanes = lanes;
    for (const [field, value] of Object.entries({ name, version, process })) if (value) this.#ready[field] = value;
    if (capacity > 1) this.#ready.batch = BATCH_MAX;
    this.#greet(now);
  }

  // ---- what the worker does ------------------------------------------------------------------------------

  /**
   * A piece of a streamed answer. Ignored for a lease that nobody wants any more.
   * @param {Lease} lease
   * @param {Uint8Array} body
   * @param {number} now
   */
  piece(lease, body, now) {
    const held = this.#held.get(nameOf(lease));
    if (held?.phase !== "running") return;
    if (body.length > this.#bodyBytesMax) {
      const message = `a piece of the answer has ${body.length} bytes, over body_bytes_max ${this.#bodyBytesMax}; send smaller ones`;
      return this.#breakOff(held, "too_large", message, now);
    }
    held.kept.push(body);
    this.#sayPiece(held, held.first + held.kept.size - 1, body);
  }

  /**
   * How far a job is. Ignored for a lease that nobody wants any more.
   * @param {Lease} lease
   * @param {Fields} word
   * @param {number} now
   */
  progress(lease, word, now) {
    const held = this.#held.get(nameOf(lease));
    if (held?.phase !== "running") return;
    const first = held.word === undefined;
    held.word = word;
    if (first || now >= held.wordAt + PROGRESS_EVERY) return this.#sayWord(held, word, now);
    held.wordUnsent = true;
    this.#wordsDue = Math.min(this.#wordsDue, held.wordAt + PROGRESS_EVERY);
  }

  /**
   * A handler is done; its outcome goes behind its pieces.
   * @param {Lease} lease
   * @param {Outcome} outcome
   * @param {number} now
   */
  finish(lease, outcome, now) {
    const held = this.#held.get(nameOf(lease));
    if (!held || held.phase === "finished") return;
    if (held.phase === "dropped") {
      this.#dropped -= 1;
      this.#held.delete(nameOf(lease));
      return;
    }
    this.running -= 1;
    const size = outcome.body?.length ?? 0;
    if (size > this.#bodyBytesMax) {
      const message =
        `the answer has ${size} bytes, over body_bytes_max ${this.#bodyBytesMax}; ask for less or raise the limit of the broker`;
      outcome = { op: "error", fields: { class: "permanent", code: "too_large", message } };
    }
    // Before the outcome, so that the broker does not fill the freed place again.
    if (this.#state === "serving" && (this.#still || (this.#leaving && this.running > 0))) this.#sayReady(this.running);
    this.#keep(held, outcome);
    this.#sayOutcome(held, outcome); // behind a greeting that is under way, too: its inventory lists the job
    this.#partIfDone(now);
  }

  /**
   * The program's loop stands still. It was not asked for these, which are handed back, and takes no other one until it goes on.
   * @param {Lease[]} leases
   * @param {number} now
   */
  standStill(leases, now) {
    this.#still = true;
    const back = [];
    for (const lease of leases) {
      const held = this.#held.get(nameOf(lease));
      if (held?.phase === "running") back.push(held);
      else if (held?.phase === "dropped") this.finish(lease, STANDS_STILL, now);
    }
    this.running -= back.length;
    if (this.#state === "serving") this.#sayReady(this.running);
    for (const held of back) {
      this.#keep(held, STANDS_STILL);
      this.#sayOutcome(held, STANDS_STILL);
    }
    this.#partIfDone(now);
  }

  /** The program's loop answers again. */
  goOn() {
    this.#still = false;
    if (this.#state === "serving" && !this.#leaving) this.#sayReady(this.#capacity);
  }

  /** @param {number} now */
  #partIfDone(now) {
    if (this.#leaving && this.running === 0 && this.#state === "serving") this.#part(now);
  }

  /**
   * Takes no more jobs; leaves when the last one is over, at `deadline` in any case.
   * @param {number} deadline
   * @param {number} now
   */
  drain(deadline, now) {
    if (this.#leaving || this.#state === "left") return;
    this.#leaving = true;
    this.#drainDeadline = deadline;
    if (this.running === 0) this.#part(now);
    else if (this.#state === "serving") this.#sayReady(this.running);
  }

  /** Leaves now; the broker gives what runs to other workers. */
  leave() {
    if (this.#state === "left") return;
    this.#leaving = true;
    for (const held of this.#held.values()) if (held.phase !== "finished") this.#cancel(held);
    if (this.#state !== "parting") this.#say("bye", {});
    this.#depart();
  }

  /** @param {number} now */
  #part(now) {
    this.#say("bye", {});
    if (this.#outcomes === 0) return this.#depart();
    this.#state = "parting";
    this.#partingUntil = now + Math.min(this.#heartbeat, PARTING_MAX);
  }

  #depart() {
    this.#state = "left";
    this.effects.push({ what: "left", finished: this.running === 0 });
  }

  // ---- the connection ------------------------------------------------------------------------------------

  /** As a client's session. */
  connected() {
    if (this.#unmet) this.#reopenAt = undefined;
    this.#unmet = false;
    this.#connected = true; // the greeting waits in the socket
  }

  /** @param {number} now */
  foundNobody(now) {
    if (this.#rounds.endpoints > 1 && !this.#connected && this.#reopenAt === undefined) this.#reopenAt = this.#rounds.foundNobody(now);
  }

  /** @param {number} now */
  disconnected(now) {
    if (this.#reopenAt !== undefined) return;
    this.#unmet = !this.#connected;
    this.#connected = false;
    this.#lost += 1;
    this.#reopenAt = now + reopenPause(this.#lost);
  }

  /**
   * The broker does not take this worker's key: it asks again later, by a new connection.
   * @param {string} message
   * @param {number} now
   */
  refused(message, now) {
    this.effects.push({ what: "refused", message, ever: false });
    this.#unmet = false;
    this.#reopenAt = now + REFUSED_PAUSE;
  }

  /**
   * As a client's session.
   * @param {number} endpoints
   */
  goRound(endpoints) {
    this.#rounds.endpoints = endpoints;
  }

  /** As a client's session. No broker tells a worker that does not ask. @returns {string[]} */
  takeTold() {
    return [];
  }

  /** @param {number} now */
  takeReopen(now) {
    if (this.#reopenAt === undefined || this.#reopenAt > now) return false;
    this.#reopenAt = undefined;
    this.#connected = this.#heardHere = this.#unmet = false;
    this.#greet(now);
    return true;
  }

  /** @param {number} now */
  reopenFailed(now) {
    this.#reopenAt = now + REOPEN_FAILED_PAUSE;
  }

  /**
   * This thread stood still: what the broker said meanwhile has been read, and its silence counts from now on.
   * @param {number} now
   */
  stoodStill(now) {
    this.#heardAt = now;
  }

  /** @param {number} now */
  #greet(now) {
    this.#state = "greeting";
    this.#toldToDrain = false;
    this.#heardAt = this.#saidHeartbeatAt = now;
    this.#outbox.clear();
    this.#batchMax = 0; // until the broker says that it takes them
    this.#sayReady(this.#leaving ? Math.max(this.running, 1) : this.#still ? this.running : this.#capacity);
    if (!this.#metBefore) return;
    this.#sayInventory(now);
    for (const held of this.#held.values()) {
      if (held.phase === "running" && held.word) this.#sayWord(held, held.word, now);
      const kept = held.kept.drain();
      kept.forEach((body, index) => {
        held.kept.push(body);
        this.#sayPiece(held, held.first + index, body);
      });
      if (held.outcome) this.#sayOutcome(held, held.outcome);
    }
  }

  // ---- time ----------------------------------------------------------------------------------------------

  /** @param {number} now */
  advance(now) {
    if (this.#state === "left") return;
    if (this.#state === "parting") {
      if (this.#outcomes === 0 || now >= this.#partingUntil) this.#depart();
      return;
    }
    if (this.#leaving && now >= this.#drainDeadline) return this.leave();
    if (this.#reopenAt === undefined && now >= this.#silentAt()) this.#reopenAt = now;
    if (now >= this.#wordsDue) this.#sayWordsDue(now);
    if (this.#state === "serving" && now >= this.#heartbeatDue()) this.#sayInventory(now);
  }

  /** @returns {number | undefined} */
  nextWakeup() {
    if (this.#state === "left") return undefined;
    if (this.#state === "parting") return this.#partingUntil;
    let due = this.#reopenAt ?? this.#silentAt();
    if (this.#state === "serving") due = Math.min(due, this.#heartbeatDue());
    due = Math.min(due, this.#wordsDue);
    return this.#leaving ? Math.min(due, this.#drainDeadline) : due;
  }

  #silentAt() {
    const first = !this.#heardHere && (this.#rounds.endpoints > 1 || !this.#metBefore);
    return this.#heardAt + (first ? WORKER_FIRST_WORD_WITHIN : SILENT_INTERVALS * this.#heartbeat);
  }

  #heartbeatDue() {
    // It leaves that to a broker that sends heartbeats, and answers them: two inventories close together could both miss a job
    // on its way, and the broker would take it for lost.
    return Math.max(this.#saidHeartbeatAt + this.#heartbeat, this.#heardHeartbeatAt + this.#heartbeat * 1.25);
  }

  // ---- what to send --------------------------------------------------------------------------------------

  /** @returns {Uint8Array[] | undefined} */
  nextMessage() {
    if (this.#reopenAt !== undefined) return undefined;
    const first = this.#outbox.shift();
    if (!first) return undefined;
    const { op, fields, body } = first;
    if (this.#batchMax < 2 || (op !== "result" && op !== "error") || body.length > INLINE_BYTES_MAX) {
      return wire.encode(op, fields, body);
    }
    const maps = [fields];
    const bodies = [body];
    let header = wire.packedBytes(fields);
    let total = body.length;
    for (let next; (next = this.#outbox.first) && maps.length < this.#batchMax; ) {
      if (next.op !== op || next.body.length > INLINE_BYTES_MAX) break;
      const said = { ...wire.differences(fields, next.fields), job: next.fields.job };
      header += wire.packedBytes(said);
      total += next.body.length;
      if (header + 64 > HEADER_BYTES_MAX || header + total > BATCH_BYTES_MAX) break;
      this.#outbox.shift();
      maps.push(said);
      bodies.push(next.body);
    }
    return maps.length === 1 ? wire.encode(op, fields, body) : wire.encodeBatch(op, maps, bodies);
  }

  /**
   * @param {string} op
   * @param {Fields} fields
   * @param {Uint8Array} [body]
   */
  #say(op, fields, body = wire.NO_BODY) {
    this.#outbox.push({ op, fields, body });
  }

  /** @param {number} capacity */
  #sayReady(capacity) {
    this.#say("ready", { ...this.#ready, capacity, ...(this.#session !== undefined && { session: this.#session }) });
  }

  /**
   * What runs, and the newest outcomes, as far as they fit.
   * @param {number} now
   */
  #sayInventory(now) {
    const held = [...this.#held.values()];
    const running = held.filter(({ phase }) => phase === "running");
    const finished = held.filter(({ phase }) => phase === "finished").reverse();
    const jobs = [...running, ...finished].slice(0, INVENTORY_MAX).map(({ lease }) => lease);
    this.#say("heartbeat", jobs.length > 0 ? { jobs } : {});
    this.#saidHeartbeatAt = now;
  }

  /**
   * @param {Held} held
   * @param {Fields} word
   * @param {number} now
   */
  #sayWord(held, word, now) {
    held.wordUnsent = false;
    held.wordAt = now;
    this.#say("progress", { job: held.lease[0], attempt: held.lease[1], ...word });
  }

  /**
   * Sends the words that came too soon before. A job that is over says none.
   * @param {number} now
   */
  #sayWordsDue(now) {
    this.#wordsDue = Infinity;
    for (const held of this.#held.values()) {
      if (held.phase !== "running" || !held.wordUnsent || !held.word) continue;
      if (now >= held.wordAt + PROGRESS_EVERY) this.#sayWord(held, held.word, now);
      else this.#wordsDue = Math.min(this.#wordsDue, held.wordAt + PROGRESS_EVERY);
    }
  }

  /**
   * @param {Held} held
   * @param {number} seq
   * @param {Uint8Array} body
   */
  #sayPiece({ lease: [job, attempt] }, seq, body) {
    this.#say("chunk", { job, attempt, seq }, body);
  }

  /**
   * @param {Held} held
   * @param {Outcome} outcome
   */
  #sayOutcome({ lease: [job, attempt] }, { op, fields, body }) {
    this.#say(op, { job, attempt, ...fields }, body);
  }

  // ---- what the broker says ------------------------------------------------------------------------------

  /**
   * @param {Buffer[]} frames
   * @param {number} now
   */
  received(frames, now) {
    this.#heardAt = now;
    this.#heardHere = true;
    this.#lost = 0;
    if (this.#state === "left") return;
    let message;
    try {
      message = decode(frames);
    } catch (error) {
      return this.#notRead(error);
    }
    for (const item of message.items) {
      try {
        this.#hear(message.op, item, now);
      } catch (error) {
        this.#notRead(error);
      }
    }
  }

  /** @param {unknown} error */
  #notRead(error) {
    if (!(error instanceof wire.MalformedError)) throw error;
    this.undecodable += 1;
  }

  /**
   * @param {string} op
   * @param {import("./unpacking.js").Item} item
   * @param {number} now
   */
  #hear(op, item, now) {
    const { fields } = item;
    switch (op) {
      case "job":
        return this.#onJob(leaseOf(fields), item);
      case "acked":
        for (const lease of wire.list(fields, "jobs")) if (Array.isArray(lease)) this.#forgetOutcome(/** @type {Lease} */ (lease));
        return this.#partIfSettled();
      case "heartbeat":
        this.#heardHeartbeatAt = now;
        if (this.#state === "serving") this.#sayInventory(now);
        return;
      case "window":
        return this.#onWindow(leaseOf(fields), wire.int(fields, "seq"));
      case "cancel": {
        const held = this.#held.get(nameOf(leaseOf(fields)));
        if (held?.phase === "running") this.#cancel(held);
        return;
      }
      case "welcome":
        return this.#onWelcome(fields, now);
      case "drain":
        this.#toldToDrain = true;
        return;
      case "bye":
        if (this.#state === "parting") return this.#depart();
        this.#reopenAt = now + this.#heartbeat;
        return;
      case "error":
        return this.#onError(fields, now);
    }
  }

  /**
   * @param {Fields} fields
   * @param {number} now
   */
  #onWelcome(fields, now) {
    this.#heartbeat = Math.min(Math.max(wire.int(fields, "heartbeat_ms"), HEARTBEAT_MIN), HEARTBEAT_MAX);
    this.#session = wire.optionalText(fields, "session") ?? this.#session;
    this.#toldToDrain = false;
    this.#bodyBytesMax = Math.min(this.#bodyBytesMax, wire.int(fields, "body_bytes_max", 0) || this.#bodyBytesMax);
    this.#batchMax = Math.min(wire.int(fields, "batch", 0), BATCH_MAX);
    if (this.#state !== "greeting") return;
    this.#state = "serving";
    this.#metBefore = true;
    this.#saidHeartbeatAt = now;
    this.#heardHeartbeatAt = -Infinity;
    this.effects.push({ what: "welcomed" });
    this.#partIfDone(now);
  }

  /**
   * @param {Lease} lease
   * @param {import("./unpacking.js").Item} item
   */
  #onJob(lease, item) {
    if (this.#state === "parting") return; // the `bye` gives it back
    const known = this.#held.get(nameOf(lease));
    if (known) {
      // The broker offers again what it has had the outcome of: that was lost.
      if (known.outcome) this.#sayOutcome(known, known.outcome);
      return;
    }
    this.#dropOlder(lease);
    const service = wire.text(item.fields, "service", this.#services[0]);
    const held = new Held(lease);
    this.#held.set(nameOf(lease), held);
    const refusal = this.#whyNot(service, item);
    if (refusal) {
      /** @type {Outcome} */
      const outcome = { op: "error", fields: refusal };
      this.#keep(held, outcome);
      return this.#sayOutcome(held, outcome);
    }
    this.running += 1;
    this.effects.push({ what: "start", lease, fields: { ...item.fields, service }, body: item.body });
  }

  /**
   * @param {string} service
   * @param {import("./unpacking.js").Item} item
   * @returns {Fields | undefined}
   */
  #whyNot(service, { unread }) {
    if (this.#leaving || this.#toldToDrain) return { class: "released", code: "draining", message: "the worker takes no more jobs" };
    if (this.#still) return STANDS_STILL.fields;
    if (this.running >= this.#capacity || this.#dropped >= this.#capacity) {
      const message =
        `the worker holds ${this.running} jobs, and ${this.#dropped} that do not end though they are cancelled ` +
        `(capacity ${this.#capacity})`;
      return { class: "released", code: "full", message };
    }
    for (const [name, why] of unread ?? []) return ofFault(new BadJob(`${name} cannot be read: ${why}`)).fields;
    if (this.#services.includes(service)) return undefined;
    return { class: "permanent", code: "unknown_service", message: `the worker does not serve ${JSON.stringify(service.slice(0, 64))}` };
  }

  /**
   * A newer attempt came: older ones of the job that run here are over.
   * @param {Lease} lease
   */
  #dropOlder([job, attempt]) {
    for (const held of this.#held.values()) {
      if (held.lease[0] === job && held.lease[1] < attempt && held.phase === "running") this.#drop(held);
    }
  }

  /** @param {Held} held */
  #drop(held) {
    held.phase = "dropped";
    held.kept.clear();
    this.running -= 1;
    this.#dropped += 1;
    this.#cancel(held);
  }

  /** @param {Held} held */
  #cancel({ lease }) {
    this.effects.push({ what: "cancel", lease });
  }

  /**
   * @param {Lease} lease
   * @param {number} seq
   */
  #onWindow(lease, seq) {
    const held = this.#held.get(nameOf(lease));
    if (!held) return;
    let [count, size] = [0, 0];
    for (; held.kept.size > 0 && held.first <= seq; ++held.first) {
      size += /** @type {Uint8Array} */ (held.kept.shift()).length;
      count += 1;
    }
    if (count > 0) this.effects.push({ what: "taken", lease, count, size });
  }

  /**
   * @param {Fields} fields
   * @param {number} now
   */
  #onError(fields, now) {
    const code = wire.text(fields, "code");
    const message = `${code}: ${wire.text(fields, "message", "")}`;
    const job = wire.optionalInt(fields, "job");
    const held = job === undefined ? undefined : this.#held.get(nameOf([job, wire.int(fields, "attempt", 1)]));
    if (code === "stale") {
      if (held) this.stale += 1;
      if (held?.phase === "running") this.#drop(held);
      else if (held) this.#forgetOutcome(held.lease);
      this.#partIfSettled();
    } else if (code === "unknown_session") {
      // A greeting under way covers all earlier messages, each of which causes one of these.
      if (this.#state === "serving") this.#greet(now);
      else if (this.#state === "parting" && !this.#partedAgain && this.#outcomes > 0) {
        this.#partedAgain = true;
        this.#greet(now);
        this.#part(now);
      }
    } else if (job === undefined) {
      this.effects.push({ what: "refused", message, ever: code === "bad_request" && this.#state === "greeting" });
      if (this.#state === "greeting") this.#reopenAt = now + REFUSED_PAUSE;
    } else if (held?.phase === "running") {
      this.#breakOff(held, "chunk_refused", message, now); // a piece was not taken, so all that follows would leave a hole
    } else if (held?.outcome && (code === "bad_request" || code === "too_large")) {
      this.#sayOtherwise(held, held.outcome, `the broker cannot read the outcome: ${message}`);
    }
  }

  /**
   * A stream cannot go on.
   * @param {Held} held
   * @param {string} code
   * @param {string} message
   * @param {number} now
   */
  #breakOff(held, code, message, now) {
    this.#cancel(held);
    this.finish(held.lease, { op: "error", fields: { class: "permanent", code, message: cut(message) } }, now);
  }

  // ---- outcomes ------------------------------------------------------------------------------------------

  /**
   * The broker cannot read an outcome, and says of which job: it hears what any broker reads, once.
   * @param {Held} held
   * @param {Outcome} outcome
   * @param {string} problem
   */
  #sayOtherwise(held, outcome, problem) {
    if (isBad(outcome)) return this.#forgetOutcome(held.lease);
    this.#outcomeBytes -= held.size;
    held.outcome = unreadable(problem);
    this.#sayOutcome(held, held.outcome);
  }

  /**
   * @param {Held} held
   * @param {Outcome} outcome
   */
  #keep(held, outcome) {
    held.phase = "finished";
    held.outcome = outcome;
    this.#held.delete(nameOf(held.lease));
    this.#held.set(nameOf(held.lease), held); // behind those that ended before
    this.#outcomes += 1;
    this.#outcomeBytes += held.size;
    // Beyond this the oldest is dropped: the broker then misses the job in the inventory and runs it again, so nothing is lost.
    while (this.#outcomes > OUTCOMES_MAX || (this.#outcomeBytes > OUTCOME_BYTES_MAX && this.#outcomes > 1)) {
      const oldest = [...this.#held.values()].find(({ phase }) => phase === "finished");
      this.outcomesDropped += 1;
      this.#forgetOutcome(/** @type {Held} */ (oldest).lease);
    }
  }

  /** @param {Lease} lease */
  #forgetOutcome(lease) {
    const held = this.#held.get(nameOf(lease));
    if (held?.phase !== "finished") return;
    this.#outcomes -= 1;
    this.#outcomeBytes -= held.size;
    this.#held.delete(nameOf(lease));
  }

  #partIfSettled() {
    if (this.#state === "parting" && this.#outcomes === 0) this.#depart();
  }
}

/**
 * @param {Fields} fields
 * @returns {Lease}
 */
const leaseOf = (fields) => [wire.int(fields, "job"), wire.int(fields, "attempt")];
