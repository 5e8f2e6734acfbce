// SPDX-License-Identifier: Apache-2.0
// One client's side of the protocol, without a socket, a clock or a timer.
//
// A session is told requests, messages and what happens to the connection; it says what to send, when to connect anew, and
// which requests have ended. It keeps requests until they end, and sends them again, under the same ids, on each new connection.
// All times are milliseconds of one monotonic clock.
import {
  CancelledError, DeadlineError, GoneError, InternalError, NotFoundError, NotOverError, REFUSALS, TooLargeError, UnauthorizedError, errorOf,
} from "./errors.js";
import { Queue, TimerHeap } from "./queue.js";
import {
  BATCH_BYTES_MAX, BATCH_INHERITED_BYTES_MAX, BATCH_ITEMS_MAX, ENDS_WITHOUT_PIECES_MAX, FETCH_PAUSE, FETCH_WAIT_MAX,
  FIRST_PING_AFTER, FIRST_WORD_WITHIN, FRUITLESS_MAX, HEADER_BYTES_MAX, INLINE_BYTES_MAX, MAP_ENTRIES_MAX, NOT_OWNER_PAUSE,
  PING_AFTER, PROBED_AT_ONCE, PROBE_AFTER, PROBE_EVERY, PROBE_TURN, RENEW_EVERY, REOPEN_AFTER, REOPEN_FAILED_PAUSE, REOPEN_PAUSE,
  REOPEN_PAUSE_MAX, ROUND_FORGOTTEN_AFTER, ROUND_PAUSE, ROUND_PAUSE_MAX, SEEN_AFTER, STREAM_BYTES_MAX, STREAM_CHUNKS_MAX,
} from "./tables.js";
import { Answer, statusOf } from "./types.js";
import { decode } from "./unpacking.js";
import { Following } from "./watching.js";
import * as wire from "./wire.js";

/** @typedef {import("./types.js").Submit} Submit */
/** @typedef {import("./wire.js").Fields} Fields */
/** @typedef {import("./errors.js").LaneMQError} LaneMQError */
/** @typedef {"submit" | "stream" | "leave" | "fetch" | "follow" | "status" | "cancel" | "ping" | "watch"} Kind */
/** @typedef {(outcome: any, now: number) => void} Tell Hears what comes of a request: pieces, and in the end a value or a LaneMQError. */

// What a reader has taken is said at a quarter of a window.
const SEEN_CHUNKS = STREAM_CHUNKS_MAX / 4;
const SEEN_BYTES = STREAM_BYTES_MAX / 4;
/** How long beyond a job's own deadline, or a fetch's wait, the broker's word of it is awaited. */
export const GRACE = 5000;
export const CONTROL_TIMEOUT = 10_000; // of ping, status, cancel and leave
// Before a refused job is sent again, where the broker does not say when (`retry_after_ms`); doubles with each refusal.
const REFUSED_PAUSE = 250;
const REFUSED_SPREAD_MAX = 1000; // so that those who were refused together do not come together
const CANCELS_MAX = 64; // ids of the largest size that fit a header

const OWN_REF = 0; // of the session's pings
const PROBE_REF = 2 ** 53 - 1; // of its probes; refs of requests count from 1
const RULES_REF = PROBE_REF - 1; // of its questions which shards there are
export const MARK_REF = PROBE_REF - 2; // of its pings between messages of which one may be broken
const NOBODY = -1; // no request has this ref

/** @type {Record<Kind, string>} */
const OPS = {
  submit: "submit", stream: "submit", leave: "submit", fetch: "fetch", follow: "fetch", status: "status", cancel: "cancel",
  ping: "ping", watch: "watch",
};

/** Paces who goes from endpoint to endpoint and finds nobody: at once to the next one, with a pause behind each round. */
export class Rounds {
  #inARow = 0;
  #lastAt = 0;

  /** @param {number} endpoints */
  constructor(endpoints) {
    this.endpoints = endpoints;
  }

  /**
   * Returns when the next one's turn is.
   * @param {number} now
   */
  foundNobody(now) {
    if (now - this.#lastAt > ROUND_FORGOTTEN_AFTER) this.#inARow = 0;
    this.#lastAt = now;
    this.#inARow += 1;
    if (this.#inARow % this.endpoints !== 0) return now;
    return now + Math.min(ROUND_PAUSE * 2 ** Math.min(this.#inARow / this.endpoints - 1, 8), ROUND_PAUSE_MAX);
  }
}

/** Kinds of requests that go where the job is. */
export const ABOUT_JOBS = new Set(["status", "cancel", "fetch", "follow"]);

/** A piece of a streamed answer. Its reader then says `seen(ref, seq)`. */
export class Piece {
  /**
   * @param {number} ref
   * @param {number} seq
   * @param {Buffer} body
   */
  constructor(ref, seq, body) {
    this.ref = ref;
    this.seq = seq;
    this.body = body;
  }
}

/** How far a stream has been read. All numbers are of pieces. */
class Reading {
  /**
   * @param {number} first
   * @param {boolean} byFetch
   */
  constructor(first, byFetch) {
    this.first = this.next = first; // the first one wanted, and the next to come
    this.taken = this.said = first; // the reader has all before `taken`; the broker knows of those before `said`
    /** @type {number[]} Bytes of each piece from `said` on. */
    this.sizes = [];
    this.unsaidBytes = 0;
    this.byFetch = byFetch; // asked for by fetch, not by its submit
    this.seenDue = false;
    /** @type {number | undefined} */
    this.seenAt = undefined;
    /** @type {number | undefined} */
    this.fetchAt = undefined;
    /** @type {number | undefined} */
    this.heardAt = undefined;
    this.endsWithoutPieces = 0;
  }
}

/**
 * What a request is about.
 * @typedef {object} RequestParts
 * @property {string} [id]
 * @property {Submit} [submit]
 * @property {Buffer} [body]
 * @property {Tell} [tell]
 * @property {number} [fromSeq]
 * @property {number} [timeoutMs]
 * @property {Fields} [filter] Of a watch: whose changes; of a ping: what else it asks.
 */

/** A request of a caller's; a session has it until it ends. */
export class Request {
  /**
   * @param {Kind} kind
   * @param {RequestParts} [parts]
   */
  constructor(kind, { id = "", submit, body = wire.NO_BODY, tell, fromSeq = 0, timeoutMs, filter } = {}) {
    this.ref = 0;
    this.kind = kind;
    this.op = OPS[kind];
    this.id = id;
    this.submit = submit;
    this.body = body;
    this.bodyBytes = body.length; // as counted by the client's bounds
    this.tell = tell;
    this.asked = 0;
    /** When it ends by this client's clock; of a fetch how long to wait. Until it begins: after how long. */
    this.deadline = timeoutMs;
    /** @type {number | undefined} */
    this.waitUntil = undefined;
    /** @type {number | undefined} */
    this.sentAt = undefined;
    this.probedAt = 0; // when its state was asked for
    /** @type {number | undefined} When it is sent again. */
    this.refusedAt = undefined;
    this.refusals = 0;
    this.reading = kind === "stream" || kind === "follow" ? new Reading(fromSeq, kind === "follow") : undefined;
    this.filter = filter;
    this.moves = 0; // how often its job was sent on to another shard
    this.sought = false; // all shards were asked for its job, or need not be
    this.following = kind === "watch" ? new Following() : undefined;
    this.begun = false;
    // The numbers of the messages of this connection that said it last, and first; 0: none.
    this.message = this.firstMessage = 0;
  }

  /**
   * From now on its time counts. Once, whatever sessions have it.
   * @param {number} now
   */
  begin(now) {
    if (this.begun) return;
    this.begun = true;
    this.asked = now;
    if (this.deadline === undefined) return;
    this.deadline += now;
    if (this.kind !== "fetch") return;
    this.waitUntil = this.deadline;
    this.deadline += GRACE;
  }
}

/** What a client counts since it was made. `droppedAnswers`: answers to no pending request: to a repetition, or late. */
const COUNTERS = {
  sent: 0, resent: 0, answered: 0, expired: 0, droppedAnswers: 0, undecodable: 0, reconnected: 0, messages: 0,
};

/** See the file. */
export class Session {
  /** @type {Map<number, Request>} */
  #pending = new Map();
  /** @type {Queue<number>} Refs; those that are not pending are skipped. */
  #toSend = new Queue();
  /** @type {Queue<Uint8Array[]>} Messages of the session's own: at most one ping, one probe, the ends of watches, and marks. */
  #own = new Queue();
  /** @type {Queue<number>} Refs of streams and watches. */
  #seens = new Queue();
  // The numbers of the last message with requests, and of the last that the broker has read.
  #message = 0;
  #readUpTo = 0;
  /** @type {Queue<number>} Refs of what is sent alone, since the broker could not read a message. */
  #suspects = new Queue();
  /** @type {Queue<[message: number, ref: number]>} Pings without an answer: the last message before them, its ref where it is a suspect's. */
  #marks = new Queue();
  #timers = new TimerHeap(); // some are out of date
  #follows;
  #refs;
  #saidBatch = false; // on this connection
  #quietSince;
  #pinged;
  #probeAt;
  /** @type {Map<string, Set<number>>} The ids of those asked for, with their refs; some have ended. */
  #probes = new Map();
  /** @type {number | undefined} */
  #reopenAt = undefined;
  /** @type {string[]} */
  #told = [];
  #unmet = false; // that is because of a connection that ended before the handshake: libzmq tries, too
  #connected = false;
  #fruitless = 0;
  #lost = 0;
  #random;
  #batchMax;
  #rounds;
  #heardHere = false; // a word on this connection
  #askedRules = false; // likewise
  #astray = false; // likewise: its broker is of another shard
  /**
   * Whether it asks the broker of each connection, before all else, which shards there are. It stays with the shard of the first one
   * that says its own, and leaves a broker of another one.
   */
  asksRules = false;
  /** @type {string | undefined} With which it stays. */
  shard = undefined;
  /** @type {import("./types.js").Pong | undefined} The last answer, until it is taken from here. */
  rules = undefined;
  counters = { ...COUNTERS };
  /** @type {[Tell, any][]} What came of requests, in order: the driver takes it after each turn. */
  events = [];
  /** Requests, and bytes of their bodies, that have ended since the driver took these. */
  freed = 0;
  freedBytes = 0;
  /** @type {[Request, string, string[]][]} Put aside: jobs that belong to another shard, its name and its endpoints. */
  moved = [];
  /** @type {[Request, any][]} Put aside: questions about jobs that the broker does not know, and its answers. */
  unknown = [];

  /**
   * @param {number} now
   * @param {() => number} random Numbers from 0 to 1, which spread what is sent again.
   * @param {{ batchMax?: number, endpoints?: number, refs?: { next: number } }} [how] `endpoints`: how many there are; each new
   *   connection goes to the next one. `refs`: of the sessions of one client, which then puts aside what others may do (`moved`, `unknown`).
   */
  constructor(now, random, { batchMax = BATCH_ITEMS_MAX, endpoints = 1, refs } = {}) {
    this.#random = random;
    this.#follows = refs !== undefined;
    this.#refs = refs ?? { next: 1 };
    this.#rounds = new Rounds(endpoints);
    this.#batchMax = Math.max(1, Math.min(batchMax, BATCH_ITEMS_MAX));
    this.#quietSince = this.#pinged = now;
    this.#probeAt = now + PROBE_AFTER;
  }

  get pending() {
    return this.#pending.size;
  }

  /** Whether a broker of its shard has spoken on this connection. */
  get heardHere() {
    return this.#heardHere && !this.#astray;
  }

  /**
   * So many endpoints there are from now on.
   * @param {number} endpoints
   */
  goRound(endpoints) {
    this.#rounds.endpoints = endpoints;
  }

  /** How many times it keeps; bounded by what is pending. */
  get timers() {
    return this.#timers.size;
  }

  // ---- what callers want ---------------------------------------------------------------------------------

  /**
   * @param {Request} request
   * @param {number} now
   */
  begin(request, now) {
    request.begin(now);
    this.#take(request, now);
  }

  /**
   * Goes on with a request that another session has put aside.
   * @param {Request} request
   * @param {number} now
   */
  adopt(request, now) {
    request.sentAt = request.refusedAt = undefined;
    request.message = request.firstMessage = 0;
    this.#take(request, now);
  }

  /**
   * Ends a request that was put aside.
   * @param {Request} request
   * @param {any} outcome
   */
  finish(request, outcome) {
    this.#end(request, outcome);
  }

  /**
   * @param {Request} request
   * @param {number} now
   */
  #take(request, now) {
    if (this.#pending.size === 0) {
      // From now on silence counts.
      this.#quietSince = Math.max(this.#quietSince, now);
      this.#probeAt = Math.max(this.#probeAt, now + PROBE_AFTER);
    }
    request.ref = this.#refs.next++;
    if (request.deadline !== undefined) this.#at(request.deadline, request.ref, "deadline");
    if (request.following) this.#at(now + RENEW_EVERY, request.ref, "renew");
    this.#pending.set(request.ref, request);
    this.#toSend.push(request.ref);
  }

  /**
   * The caller has gone: no word about this request any more. True: its job is cancelled, since the broker may have it, and
   * `tell` hears how that went.
   * @param {Request} gone
   * @param {number} now
   * @param {Tell} [tell]
   */
  abandon(gone, now, tell) {
    const request = this.#pending.get(gone.ref);
    if (request !== gone) return false;
    this.#forget(request);
    if (request.following && request.sentAt !== undefined) this.#own.push(wire.encode("watch", { stop: true, ref: request.ref }));
    if (request.op !== "submit" || request.sentAt === undefined) return false;
    this.begin(new Request("cancel", { id: request.id, timeoutMs: CONTROL_TIMEOUT, tell }), now);
    this.freed -= 1; // it has the place of the one that it cancels
    return true;
  }

  /**
   * The client is closed: jobs that the broker may have are cancelled, and `told` says whether callers hear so.
   * @param {number} now
   * @param {boolean} told
   */
  abandonAll(now, told) {
    for (const request of [...this.#pending.values()]) {
      if (request.op === "cancel") continue;
      this.abandon(request, now);
      if (request.tell && told) this.events.push([request.tell, closedError(request.id)]);
    }
  }

  /**
   * A stream's reader has taken all pieces up to `seq`. Ignored for streams that have ended.
   * @param {number} ref
   * @param {number} seq
   * @param {number} now
   */
  seen(ref, seq, now) {
    const reading = this.#pending.get(ref)?.reading;
    if (!reading) return;
    for (; reading.taken <= Math.min(seq, reading.next - 1); ++reading.taken) {
      reading.unsaidBytes += reading.sizes[reading.taken - reading.said];
    }
    if (reading.taken === reading.said || reading.seenDue) return;
    if (reading.taken - reading.said >= SEEN_CHUNKS || reading.unsaidBytes >= SEEN_BYTES) {
      reading.seenDue = true;
      this.#seens.push(ref);
    } else if (reading.seenAt === undefined) {
      reading.seenAt = now + SEEN_AFTER;
      this.#at(reading.seenAt, ref, "seen");
    }
  }

  /**
   * The reader of a watch has taken an event, and with it all before. Ignored for watches that have ended.
   * @param {Request} reader
   * @param {import("./watching.js").Change} change
   */
  took(reader, change) {
    const request = this.#pending.get(reader.ref);
    if (request !== reader || !request.following) return;
    request.following.took(change);
    if (request.following.seenDue) this.#seens.push(request.ref);
  }

  /**
   * Ends all requests, each with an error for its id.
   * @param {(id: string) => LaneMQError} error
   */
  endAll(error) {
    for (const request of [...this.#pending.values()]) this.#end(request, error(request.id));
  }

  // ---- the connection ------------------------------------------------------------------------------------

  /**
   * A handshake has succeeded. Where the last connection had ended before its handshake this is libzmq's next try on the same socket:
   * it is the new one that was due.
   */
  connected() {
    if (this.#unmet) this.#reopenAt = undefined;
    this.#unmet = false;
    this.#connected = true;
  }

  /**
   * The connection is gone. A new one is due at once, or after a pause where the last ones were fruitless.
   * @param {number} now
   */
  disconnected(now) {
    if (this.#reopenAt !== undefined) return;
    this.#unmet = !this.#connected;
    if (this.#connected) this.#fruitless += 1;
    this.#connected = false;
    this.#lost += 1;
    if (this.#fruitless >= FRUITLESS_MAX) {
      this.#fruitless = 0;
      if (this.#blameLargestBody()) this.#lost = 0;
    }
    this.#reopenAt = now + reopenPause(this.#lost);
  }

  /**
   * Nobody listens at the endpoint: the next one's turn, where there are several.
   * @param {number} now
   */
  foundNobody(now) {
    if (this.#rounds.endpoints > 1 && !this.#connected && this.#reopenAt === undefined) this.#reopenAt = this.#rounds.foundNobody(now);
  }

  /**
   * The broker does not take this client's key.
   * @param {string} message
   */
  refused(message) {
    this.endAll((id) => new UnauthorizedError(message, { id: id || undefined, local: true }));
  }

  /**
   * True, once per decision: replace the connection now. All that is pending is then sent on it, in its order.
   * @param {number} now
   */
  takeReopen(now) {
    if (this.#reopenAt === undefined || this.#reopenAt > now) return false;
    this.#reopenAt = undefined;
    this.#connected = this.#unmet = this.#saidBatch = this.#heardHere = this.#askedRules = this.#astray = false;
    this.#quietSince = this.#pinged = now;
    this.#probeAt = now + PROBE_AFTER;
    this.#own.clear();
    this.#probes.clear();
    this.#seens.clear(); // the fetches say it
    this.#suspects.clear();
    this.#marks.clear();
    this.counters.reconnected += 1;
    this.#toSend.clear();
    for (const [ref, request] of this.#pending) {
      this.#toSend.push(ref);
      request.refusedAt = undefined;
      request.message = request.firstMessage = 0;
      request.following?.beginAnew();
      const reading = request.reading;
      if (!reading) continue;
      // A job without any piece may be unknown to the broker, so it is submitted again.
      reading.byFetch = request.kind === "follow" || reading.next > reading.first;
      reading.seenDue = false;
      reading.seenAt = reading.fetchAt = undefined;
    }
    return true;
  }

  /** @param {number} now */
  reopenFailed(now) {
    this.#reopenAt = now + REOPEN_FAILED_PAUSE;
  }

  /**
   * The program stood still: what the broker said meanwhile has been read, and its silence counts from now on.
   * @param {number} now
   */
  stoodStill(now) {
    this.#quietSince = now;
  }

  #blameLargestBody() {
    /** @type {Request | undefined} */
    let largest;
    for (const each of this.#pending.values()) {
      if (each.body.length > (largest?.body.length ?? INLINE_BYTES_MAX)) largest = each;
    }
    if (!largest) return false;
    const message =
      `the broker cut the connection ${FRUITLESS_MAX} times without a word; a body of ${largest.body.length} bytes is probably ` +
      "over its body_bytes_max: send less or raise it";
    this.#end(largest, new TooLargeError(message, { id: largest.id, local: true }));
    return true;
  }

  // ---- time ----------------------------------------------------------------------------------------------

  /**
   * Does what is due.
   * @param {number} now
   */
  advance(now) {
    for (let timer; (timer = this.#timers.first) && timer.when <= now; ) {
      this.#timers.pop();
      const request = this.#pending.get(timer.ref);
      if (request) this.#ring(request, timer.which, timer.when, now);
    }
    if (this.#pending.size === 0 || this.#reopenAt !== undefined) return;
    const { pingAt, silentAt } = this.#silence();
    if (now >= silentAt) {
      this.#reopenAt = now;
    } else if (now >= pingAt) {
      this.#pinged = now;
      this.#own.push(wire.encode("ping", { ref: OWN_REF }));
    } else if (now >= this.#probeAt) this.#probe(now);
  }

  /** @returns {number | undefined} When advance() has work at the latest; undefined: nothing is pending. */
  nextWakeup() {
    if (this.#pending.size === 0) return this.#reopenAt;
    const { pingAt, silentAt } = this.#silence();
    return Math.min(this.#reopenAt ?? Math.min(pingAt, silentAt, this.#probeAt), this.#timers.first?.when ?? Infinity);
  }

  /** When the broker is asked for a word, and when it is given up. */
  #silence() {
    const first = this.#rounds.endpoints > 1 && !this.#heardHere;
    return {
      pingAt: Math.max(this.#quietSince, this.#pinged) + (first ? FIRST_PING_AFTER : PING_AFTER),
      silentAt: this.#quietSince + (first ? FIRST_WORD_WITHIN : REOPEN_AFTER),
    };
  }

  /**
   * @param {number} when
   * @param {number} ref
   * @param {string} which
   */
  #at(when, ref, which) {
    // Most are of requests that have ended.
    if (this.#timers.size > 4 * this.#pending.size + 1024) this.#timers.keep((timer) => this.#pending.has(timer.ref));
    this.#timers.push({ when, ref, which });
  }

  /**
   * @param {Request} request
   * @param {string} which
   * @param {number} when
   * @param {number} now
   */
  #ring(request, which, when, now) {
    const reading = request.reading;
    if (which === "deadline" && request.deadline === when) {
      this.counters.expired += 1;
      const waited = Math.floor(when - request.asked);
      this.#end(request, new DeadlineError(`no answer from the broker within ${waited} ms`, { id: request.id || undefined, local: true }));
    } else if (which === "refused" && request.refusedAt === when) {
      request.refusedAt = undefined;
      this.#toSend.push(request.ref);
    } else if (which === "seen" && reading && reading.seenAt === when) {
      reading.seenAt = undefined;
      if (!reading.seenDue) {
        reading.seenDue = true;
        this.#seens.push(request.ref);
      }
    } else if (which === "renew") {
      this.#at(now + RENEW_EVERY, request.ref, "renew");
      this.#toSend.push(request.ref);
    } else if (which === "fetch" && reading && reading.fetchAt === when) this.#fetch(request, reading);
  }

  /**
   * Asks for the states of jobs that were sent long ago, those first whose turn came first: a broker drops what a slow reader leaves
   * unread. A job that is over is sent again, which brings its answer.
   * @param {number} now
   */
  #probe(now) {
    const waiting = [...this.#pending.values()].filter((request) => waitsLong(request, now));
    const due = waiting
      .map((request) => ({ at: Math.max(waitsSince(request) + PROBE_AFTER, request.probedAt + PROBE_EVERY), request }))
      .filter(({ at }) => at <= now)
      .sort((one, other) => one.at - other.at || one.request.ref - other.request.ref);
    const turn = Math.max(PROBED_AT_ONCE, Math.ceil((waiting.length * PROBE_TURN) / PROBE_EVERY));
    this.#probeAt = now + (due.length > turn ? PROBE_TURN : PROBE_EVERY);
    this.#forgetProbes();
    const asked = due.slice(0, turn).map(({ request }) => request);
    for (const request of asked) {
      request.probedAt = now;
      this.#probes.set(request.id, (this.#probes.get(request.id) ?? new Set()).add(request.ref));
    }
    for (let at = 0; at < asked.length; at += PROBED_AT_ONCE) {
      const ids = asked.slice(at, at + PROBED_AT_ONCE).map(({ id }) => id);
      this.#own.push(wire.encode("status", { ids, ref: PROBE_REF }));
    }
  }

  /** Most are of questions that were not answered. */
  #forgetProbes() {
    if (this.#probes.size <= 2 * this.#pending.size + 1024) return;
    for (const [id, refs] of this.#probes) if (![...refs].some((ref) => this.#pending.has(ref))) this.#probes.delete(id);
  }

  /**
   * @param {Fields} fields
   * @param {number} now
   */
  #onProbed(fields, now) {
    for (const job of wire.list(fields, "jobs")) {
      const refs = this.#probes.get(job?.id) ?? [];
      this.#probes.delete(job?.id);
      for (const ref of refs) {
        const request = this.#pending.get(ref);
        if (!request || (["queued", "delayed", "running"].includes(job.state) && request.kind !== "leave")) continue;
        this.#toSend.push(ref);
        request.sentAt = now; // not probed while the answer is on its way
        this.#probeAt = now; // where one answer was lost others may be
      }
    }
  }

  // ---- what to send --------------------------------------------------------------------------------------

  /**
   * The next message, which counts as sent; undefined: there is none.
   * @param {number} now
   * @returns {Uint8Array[] | undefined}
   */
  nextMessage(now) {
    if (this.#reopenAt !== undefined) return undefined; // the old connection is given up
    if (this.asksRules && !this.#askedRules && this.#own.size + this.#toSend.size > 0) {
      this.#askedRules = true; // the first message: no answer about a job is believed before it is known whose it is
      return wire.encode("ping", { cluster: true, ref: RULES_REF });
    }
    const own = this.#own.shift();
    if (own) return own;
    while (this.#seens.size > 0) {
      const request = this.#pending.get(/** @type {number} */ (this.#seens.shift()));
      if (request?.following?.seenDue) return wire.encode("seen", { seq: request.following.sayTaken(), ref: request.ref });
      if (request?.reading?.seenDue) {
        saidAll(request.reading);
        return wire.encode("seen", { seq: request.reading.taken - 1, ref: request.ref });
      }
    }
    while (this.#suspects.size > 0) {
      const request = this.#pending.get(/** @type {number} */ (this.#suspects.shift()));
      if (!request || request.refusedAt !== undefined) continue;
      const message = this.#messageOf(request, now, true);
      this.#mark(request.ref);
      return message;
    }
    while (this.#toSend.size > 0) {
      const request = this.#pending.get(/** @type {number} */ (this.#toSend.shift()));
      if (request && request.refusedAt === undefined) return this.#messageOf(request, now);
    }
    return undefined;
  }

  /**
   * @param {Request} request
   * @param {number} now
   * @param {boolean} [alone]
   */
  #messageOf(request, now, alone = false) {
    const { id, ref, reading, submit } = request;
    this.#message += 1;
    if (submit && !reading?.byFetch) return this.#submits(request, submit, now, alone);
    this.#markSent(request, now);
    if (request.op === "cancel" && this.#saidBatch && !alone) return this.#cancels(request, now);
    if (request.kind === "fetch") {
      const left = request.waitUntil === undefined ? FETCH_WAIT_MAX : Math.max(0, Math.floor(request.waitUntil - now));
      return wire.encode("fetch", { id, wait_ms: Math.min(left, FETCH_WAIT_MAX), ref });
    }
    if (reading) {
      // From what the reader has taken, not from what has come: so the broker knows how far it may send ahead.
      saidAll(reading);
      return wire.encode("fetch", { id, wait_ms: FETCH_WAIT_MAX, from_seq: reading.taken, ref });
    }
    if (request.following) return wire.encode("watch", { ...request.filter, ...this.#batch(), ref });
    return wire.encode(request.op, { ...request.filter, ...(id && { id }), ref });
  }

  /** Said once a connection: that it takes batches. */
  #batch() {
    if (this.#saidBatch || this.#batchMax <= 1) return {};
    this.#saidBatch = true;
    return { batch: this.#batchMax };
  }

  /**
   * This job, and jobs behind it that join its batch.
   * @param {Request} first
   * @param {Submit} shared
   * @param {number} now
   * @param {boolean} alone
   */
  #submits(first, shared, now, alone) {
    this.#markSent(first, now);
    /** @type {Fields} First what an error names: the broker reads no further than to what is broken. */
    const fields = { ref: first.ref, id: first.id, ...shared.fields, ...this.#batch() };
    if (alone || first.body.length > INLINE_BYTES_MAX) return wire.encode("submit", fields, first.body);
    const maps = [fields];
    const bodies = [first.body];
    let header = shared.size + Buffer.byteLength(first.id) + 64;
    let total = first.body.length;
    while (this.#toSend.size > 0 && maps.length < this.#batchMax) {
      const request = this.#pending.get(/** @type {number} */ (this.#toSend.first));
      if (!request || request.refusedAt !== undefined) {
        this.#toSend.shift();
        continue;
      }
      const submit = request.submit;
      if (!submit || request.body.length > INLINE_BYTES_MAX || request.reading?.byFetch) break;
      const said = submit === shared ? {} : wire.differences(shared.fields, submit.fields);
      header += Buffer.byteLength(request.id) + 24 + (submit === shared ? 0 : wire.packedBytes(said));
      total += request.body.length;
      if (header > HEADER_BYTES_MAX || header + total > BATCH_BYTES_MAX) break;
      if (Object.keys(said).length + 2 > MAP_ENTRIES_MAX) break;
      if ((maps.length + 1) * (shared.size + 16) > BATCH_INHERITED_BYTES_MAX) break;
      this.#toSend.shift();
      this.#markSent(request, now);
      maps.push({ ...said, id: request.id, ref: request.ref });
      bodies.push(request.body);
    }
    return maps.length === 1 ? wire.encode("submit", fields, first.body) : wire.encodeBatch("submit", maps, bodies);
  }

  /**
   * @param {Request} first
   * @param {number} now
   */
  #cancels(first, now) {
    const maps = [{ id: first.id, ref: first.ref }];
    while (this.#toSend.size > 0 && maps.length < Math.min(this.#batchMax, CANCELS_MAX)) {
      const request = this.#pending.get(/** @type {number} */ (this.#toSend.first));
      if (request && request.op !== "cancel") break;
      this.#toSend.shift();
      if (!request) continue;
      this.#markSent(request, now);
      maps.push({ id: request.id, ref: request.ref });
    }
    return maps.length === 1 ? wire.encode("cancel", maps[0]) : wire.encodeBatch("cancel", maps, []);
  }

  /**
   * @param {Request} request
   * @param {number} now
   */
  #markSent(request, now) {
    this.counters.sent += 1;
    if (request.sentAt !== undefined) this.counters.resent += 1;
    request.sentAt = now;
    request.message = this.#message;
    request.firstMessage ||= this.#message;
  }

  // ---- what the broker says ------------------------------------------------------------------------------

  /**
   * A message. One that cannot be read proves nothing: the peer may be no broker.
   * @param {Buffer[]} frames
   * @param {number} now
   */
  received(frames, now) {
    this.counters.messages += 1;
    let message;
    try {
      message = decode(frames);
    } catch (error) {
      return this.#notRead(error);
    }
    this.#quietSince = now;
    this.#heardHere = true;
    this.#fruitless = this.#lost = 0;
    for (const { fields, body, unread } of message.items) {
      try {
        if (unread?.has("body")) throw new wire.MalformedError(`the body: ${unread.get("body")}`);
        this.#hear(message.op, fields, body, now);
      } catch (error) {
        const { message } = this.#notRead(error);
        const request = this.#requestOf(fields);
        if (!request) continue;
        const why = `what the broker says of it cannot be read: ${message}`;
        this.#answer(request, new InternalError(why, { id: request.id || undefined, local: true }));
      }
    }
  }

  /** @param {unknown} error */
  #notRead(error) {
    if (!(error instanceof wire.MalformedError)) throw error;
    this.counters.undecodable += 1;
    return error;
  }

  /**
   * @param {string} op
   * @param {Fields} fields
   * @param {Buffer} body
   * @param {number} now
   */
  #hear(op, fields, body, now) {
    const ref = fields.ref;
    if (this.#astray) return;
    if (op === "error" && fields.code === "not_owner" && !wire.optionalText(fields, "shard") && this.#looksForOwner(fields, now)) return;
    if (ref === RULES_REF) {
      if (op === "pong") this.#onRules(pongOf(fields, 0), now);
      return;
    }
    if (ref === OWN_REF || ref === PROBE_REF) {
      if (op === "status") this.#onProbed(fields, now);
      return;
    }
    if (ref === MARK_REF) {
      this.#readUpTo = this.#marks.shift()?.[0] ?? this.#readUpTo;
      return;
    }
    const request = this.#requestOf(fields);
    if (!request) {
      this.counters.droppedAnswers += 1;
      if (op === "error" && ref == null && fields.id == null) this.#onErrorOfNobody(fields);
      return;
    }
    this.#readUpTo = Math.max(this.#readUpTo, request.firstMessage);
    if (op === "result") {
      if (["submit", "stream", "follow", "fetch"].includes(request.kind) && !this.#lacksPieces(request, fields)) {
        this.#answer(request, new Answer(request.id, body, fields));
      }
    } else if (op === "watching" || op === "event") this.#onWatch(request, op, fields);
    else if (op === "chunk") this.#onChunk(request, fields, body, now);
    else if (op === "error") this.#onError(request, fields, body, now);
    else if (op === "status") this.#onStatus(request, fields, now);
    else if (op === "accepted" && request.kind === "leave") this.#answer(request, acceptedOf(request, fields));
    else if (op === "pong" && request.kind === "ping") this.#answer(request, pongOf(fields, now - request.asked));
    else this.counters.droppedAnswers += 1;
  }

  /**
   * Nothing was taken, and the owner takes it: all that is open waits for another connection. False: there is no other broker to go
   * to, and whoever wants the job would rather hear so.
   * @param {Fields} fields
   * @param {number} now
   */
  #looksForOwner(fields, now) {
    const endpoints = wire.texts(fields, "endpoints");
    const places = Math.max(this.#rounds.endpoints, endpoints.length, endpoints.length > 0 ? 2 : 1);
    const submit = this.#requestOf(fields)?.submit;
    if (places < 2 && submit && !submit.waitsWhenFull) return false;
    if (this.#reopenAt !== undefined) return true; // said of an earlier request
    if (endpoints.length > 0) {
      this.#told = [...endpoints];
      this.#rounds.endpoints = places;
      this.asksRules = true;
    }
    const aloneAt = now + (wire.optionalInt(fields, "retry_after_ms") ?? NOT_OWNER_PAUSE);
    this.#reopenAt = places > 1 ? this.#rounds.foundNobody(now) : aloneAt;
    return true;
  }

  /** Where other brokers are, as one has said since the last call. */
  takeTold() {
    return this.#told.splice(0);
  }

  /**
   * @param {import("./types.js").Pong} pong
   * @param {number} now
   */
  #onRules(pong, now) {
    this.rules = pong;
    if (this.shard !== undefined && Object.hasOwn(pong.shards, this.shard) && pong.shard !== this.shard) {
      this.#astray = true;
      this.#reopenAt = this.#rounds.foundNobody(now);
    } else this.shard = pong.shard;
  }

  /** @param {Fields} fields */
  #requestOf({ ref, id }) {
    if (ref != null) return this.#pending.get(ref);
    // Each request has a ref, so the peer has lost it: rare enough for a search.
    if (typeof id !== "string" || id === "") return undefined;
    for (const request of this.#pending.values()) if (request.id === id) return request;
    return undefined;
  }

  /**
   * An error without ref and id.
   * @param {Fields} fields
   */
  #onErrorOfNobody(fields) {
    const code = wire.text(fields, "code", "internal");
    const message = wire.text(fields, "message", "");
    if (code === "unauthorized") return this.refused(message); // the key was taken back
    if (code !== "bad_request" && code !== "too_large") return;
    const mark = this.#marks.first;
    if (mark) {
      // It is about what was said before the first of them.
      const request = this.#pending.get(mark[1]);
      if (request) this.#answer(request, errorOf(code, message, { id: request.id || undefined }));
      return;
    }
    // One of these messages could not be read, and nobody knows which: all that they say is said again one by one.
    for (const request of this.#pending.values()) if (request.message > this.#readUpTo) this.#suspects.push(request.ref);
    if (this.#suspects.size > 0) this.#mark(NOBODY);
  }

  /**
   * A ping right behind what is sent now: what is said before its answer is about nothing that is sent later.
   * @param {number} ref
   */
  #mark(ref) {
    this.#marks.push([this.#message, ref]);
    this.#own.push(wire.encode("ping", { ref: MARK_REF }));
  }

  /**
   * @param {Request} request
   * @param {Fields} fields
   * @param {Buffer} body
   * @param {number} now
   */
  #onError(request, fields, body, now) {
    const code = wire.text(fields, "code", "internal");
    const retryAfterMs = wire.optionalInt(fields, "retry_after_ms");
    const shard = wire.optionalText(fields, "shard");
    if (this.#follows && code === "not_owner" && shard && request.submit && !request.reading?.byFetch) {
      this.#pending.delete(request.ref);
      this.moved.push([request, shard, wire.texts(fields, "endpoints")]);
      return;
    }
    if (REFUSALS.has(code) && request.submit?.waitsWhenFull && !request.reading?.byFetch) {
      const unsaid = REFUSED_PAUSE * 2 ** Math.min(request.refusals, 10);
      const pause = retryAfterMs === undefined ? unsaid : Math.max(retryAfterMs, REFUSED_PAUSE / 10);
      request.refusals += 1;
      request.refusedAt = now + pause + Math.min(pause / 2, REFUSED_SPREAD_MAX) * this.#random();
      this.#at(request.refusedAt, request.ref, "refused");
      return;
    }
    if (request.following && code === "slow_reader") {
      request.following.beginAnew(); // the broker has let go of it
      this.#toSend.push(request.ref);
      return;
    }
    if (code !== "gone" && this.#lacksPieces(request, fields)) return;
    const status = wire.int(fields, "upstream_status", 0);
    const error = errorOf(code, wire.text(fields, "message", ""), {
      id: wire.optionalText(fields, "id") || request.id || undefined,
      retryAfterMs,
      attempts: wire.int(fields, "attempts", 1),
      queuedMs: wire.int(fields, "queued_ms", 0),
      limiter: wire.optionalText(fields, "limiter"),
      chunks: Math.max(wire.int(fields, "chunks", 0), request.reading?.next ?? 0),
      upstreamStatus: status >= wire.UPSTREAM_STATUS_MIN && status <= wire.UPSTREAM_STATUS_MAX ? status : undefined,
      body,
    });
    this.#answer(request, error);
  }

  /**
   * @param {Request} request
   * @param {Fields} fields
   * @param {number} now
   */
  #onStatus(request, fields, now) {
    if (request.reading) return this.#fetchLater(request, request.reading, now); // its fetch is over
    if (request.kind === "status" || request.kind === "cancel") return this.#answer(request, statusOf(fields));
    if (request.kind !== "fetch") {
      this.counters.droppedAnswers += 1;
    } else if (request.waitUntil === undefined || now < request.waitUntil) {
      this.#toSend.push(request.ref);
    } else {
      const state = wire.text(fields, "state", "unknown");
      this.#answer(request, new NotOverError(`the job is ${state}; its answer did not come in time`, state, { id: request.id }));
    }
  }

  // ---- watches -------------------------------------------------------------------------------------------

  /**
   * @param {Request} request
   * @param {"watching" | "event"} op
   * @param {Fields} fields
   */
  #onWatch({ ref, tell, following }, op, fields) {
    const change = op === "event" ? following?.event(fields) : following?.watching(wire.int(fields, "seq"));
    if (!following || change === "stale") this.counters.droppedAnswers += 1;
    else if (change && tell) this.events.push([tell, change]);
    if (following?.seenDue) this.#seens.push(ref);
  }

  // ---- streams -------------------------------------------------------------------------------------------

  /**
   * @param {Request} request
   * @param {Fields} fields
   * @param {Buffer} body
   * @param {number} now
   */
  #onChunk(request, fields, body, now) {
    const reading = request.reading;
    const seq = reading ? wire.int(fields, "seq") : 0;
    if (!reading || seq < reading.next) {
      this.counters.droppedAnswers += 1;
      return;
    }
    reading.heardAt = now;
    if (seq > reading.next) {
      // The broker had no room for a piece in between.
      this.counters.droppedAnswers += 1;
      return this.#fetchLater(request, reading, now);
    }
    reading.fetchAt = undefined;
    reading.endsWithoutPieces = 0;
    if (reading.next === reading.first) {
      // From now on it is asked for with a fetch.
      reading.byFetch = true;
      this.freedBytes += request.bodyBytes;
      request.body = wire.NO_BODY;
      request.bodyBytes = 0;
    }
    reading.next += 1;
    reading.sizes.push(body.length);
    if (request.tell) this.events.push([request.tell, new Piece(request.ref, seq, body)]);
  }

  /**
   * @param {Request} request
   * @param {Reading} reading
   */
  #fetch(request, reading) {
    reading.fetchAt = undefined;
    reading.byFetch = true;
    this.#toSend.push(request.ref);
  }

  /**
   * Asks for the pieces from the next one on, but not while the answer to the last fetch may be on its way.
   * @param {Request} request
   * @param {Reading} reading
   * @param {number} now
   */
  #fetchLater(request, reading, now) {
    if (reading.fetchAt !== undefined) return;
    if (request.sentAt === undefined || now >= request.sentAt + FETCH_PAUSE) {
      request.sentAt = now;
      return this.#fetch(request, reading);
    }
    reading.fetchAt = now + FETCH_PAUSE;
    this.#at(reading.fetchAt, request.ref, "fetch");
  }

  /**
   * Whether a stream's end came without the pieces before it; asks for these and the end again.
   * @param {Request} request
   * @param {Fields} fields
   */
  #lacksPieces(request, fields) {
    const reading = request.reading;
    const chunks = wire.int(fields, "chunks", 0);
    if (!reading || chunks <= reading.next) return false;
    reading.endsWithoutPieces += 1;
    if (reading.endsWithoutPieces < ENDS_WITHOUT_PIECES_MAX) this.#fetch(request, reading);
    else {
      const message = `pieces ${reading.next} to ${chunks - 1} of the answer were lost, and the broker sends only its end`;
      this.#end(request, new GoneError(message, { id: request.id, chunks, local: true }));
    }
    return true;
  }

  // ---- ends ----------------------------------------------------------------------------------------------

  /**
   * @param {Request} request
   * @param {any} outcome
   */
  #answer(request, outcome) {
    this.counters.answered += 1;
    if (this.#follows && ABOUT_JOBS.has(request.kind) && !request.sought && isUnknown(outcome)) {
      this.#pending.delete(request.ref);
      this.unknown.push([request, outcome]);
    } else this.#end(request, outcome);
  }

  /**
   * @param {Request} request
   * @param {any} outcome
   */
  #end(request, outcome) {
    this.#forget(request);
    if (request.tell) this.events.push([request.tell, outcome]);
  }

  /** @param {Request} request */
  #forget(request) {
    this.#pending.delete(request.ref);
    this.freed += 1;
    this.freedBytes += request.bodyBytes;
  }
}

/**
 * What the reader has taken is now known to the broker, or on its way there.
 * @param {Reading} reading
 */
function saidAll(reading) {
  reading.sizes.splice(0, reading.taken - reading.said);
  reading.said = reading.taken;
  reading.unsaidBytes = 0;
  reading.seenDue = false;
  reading.seenAt = undefined;
}

/**
 * @param {Request} request
 * @param {Fields} fields
 * @returns {import("./types.js").Accepted}
 */
function acceptedOf(request, fields) {
  return {
    id: request.id,
    lane: wire.optionalText(fields, "lane"),
    durable: fields.durable === true,
    duplicate: fields.duplicate === true,
    position: wire.int(fields, "position", 0),
    ignored: wire.texts(fields, "ignored"),
  };
}

/**
 * @param {Fields} fields
 * @param {number} roundTripMs
 * @returns {import("./types.js").Pong}
 */
function pongOf(fields, roundTripMs) {
  const shards = wire.list(fields, "shards").filter((each) => wire.isMap(each) && wire.optionalText(each, "name"));
  return {
    roundTripMs,
    shard: wire.optionalText(fields, "shard"),
    shards: Object.fromEntries(shards.map((each) => [each.name, wire.texts(each, "endpoints")])),
    version: wire.optionalText(fields, "version"),
    defaultLane: wire.optionalText(fields, "default_lane"),
    brokerTime: new Date(wire.int(fields, "now_ms", 0)),
  };
}

/**
 * How long to wait before the next connection, where so many in a row were lost without a message.
 * @param {number} lost
 */
export const reopenPause = (lost) => (lost > 1 ? Math.min(REOPEN_PAUSE * 2 ** Math.min(lost - 2, 10), REOPEN_PAUSE_MAX) : 0);

/**
 * Since when nothing was heard of it; requires that it was sent.
 * @param {Request} request
 */
const waitsSince = ({ sentAt = 0, reading }) => Math.max(sentAt, reading?.heardAt ?? 0);

/**
 * @param {Request} request
 * @param {number} now
 */
const waitsLong = (request, now) =>
  ["submit", "stream", "follow", "leave"].includes(request.kind) && request.sentAt !== undefined && request.refusedAt === undefined &&
  now - waitsSince(request) >= PROBE_AFTER;

/** @param {any} outcome */
const isUnknown = (outcome) => (outcome instanceof Error ? outcome instanceof NotFoundError : outcome.state === "unknown");

/** @param {string} id */
export const closedError = (id) => new CancelledError("the client was closed before the answer came", { id: id || undefined, local: true });
