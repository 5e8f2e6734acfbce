// SPDX-License-Identifier: Apache-2.0
// Where the requests of one client go: to the home session, at the endpoints that were given, or to that of another shard.
//
// A client learns of shards as it meets them: a broker that does not take a job names the shard that does, and where it is; and where
// a broker does not know a job it is asked which shards there are, and these are asked for the job. Without shards there is the home
// session and nothing more. All times are milliseconds of one monotonic clock.
import { DeadlineError, LaneMQError, NotOwnerError, UnavailableError } from "./errors.js";
import { ABOUT_JOBS, Request } from "./session.js";
import { ENDPOINTS_MAX } from "./settings.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./session.js").Tell} Tell */
/** @typedef {import("./types.js").Pong} Pong */
/** @typedef {{ endpoint: string, endpoints: string[], goRound(endpoints: string[]): void }} Place Where a session is connected to, and may be. */
/**
 * A request about a job while shards are asked for it.
 * @typedef {object} Search
 * @property {Request} request
 * @property {any} answer Of the first, who does not know the job; undefined: nobody was asked yet.
 * @property {number} open
 * @property {string[]} silent
 * @property {boolean} inVain One of them cannot be asked again.
 */

const HOME = ""; // the shard of the home session, where its name is not known
// How often brokers may send one job on. Rules that are changed broker by broker may point in a circle.
const MOVES_MAX = 4;
const SHARDS_MAX = 64;
// Services and clients that brokers have sent on; beyond that all of them begin anew.
const SENT_ON_MAX = 4096;
// Jobs whose shards are remembered; the older half goes.
const REMEMBERED_MAX = 131_072;
// How long brokers are waited for that are asked whether they know a job.
const SEARCH_TIMEOUT = 5000;
const RULES_RETRY_AFTER = 1000;

/** See the file. */
export class Shards {
  #home;
  #connect;
  #wake;
  /** @type {string | undefined} Of its shard; undefined: not known. */
  #homeName = undefined;
  #homeLives = 0;
  /** @type {Map<string, Session>} */
  #others = new Map();
  /** @type {Map<string, string>} Shards by service and client. */
  #sentOn = new Map();
  /** @type {Map<string, string>} Shards by jobs' ids. */
  #young = new Map();
  /** @type {Map<string, string>} */
  #old = new Map();
  /** @type {Set<Request>} Those that no session has. */
  #aside = new Set();
  /** @type {Search[]} Until the home broker has said which shards there are. */
  #asking = [];
  #place;
  #given;

  /**
   * @param {Session} home
   * @param {(endpoints: readonly string[]) => Session} connect A running session at the endpoints of another shard; throws an Error.
   * @param {(session: Session) => void} wake Has a session's turn come soon.
   * @param {Place} place Where the home session is.
   */
  constructor(home, connect, wake, place) {
    this.#home = home;
    this.#place = place;
    this.#given = place.endpoints;
    home.asksRules = this.#given.length > 1;
    this.#wake = wake;
    this.#connect = connect;
  }

  /** @returns {Session[]} */
  get sessions() {
    return [this.#home, ...this.#others.values()];
  }

  /**
   * @param {Request} request
   * @param {number} now
   */
  begin(request, now) {
    /** @type {string | undefined} */
    let shard = HOME;
    if (request.submit) {
      if (this.#others.size > 0) {
        shard = this.#sentOn.get(kindOf(request)) ?? HOME;
        this.#remember(request.id, shard);
      }
    } else if (ABOUT_JOBS.has(request.kind)) {
      shard = this.#young.get(request.id) ?? this.#old.get(request.id);
      if (shard === undefined && this.#others.size > 0) {
        request.begin(now);
        this.#aside.add(request);
        return this.#seek(searchOf(request), {}, now);
      }
    }
    this.#sessionOf(shard ?? HOME).begin(request, now);
  }

  /**
   * As Session's.
   * @param {Request} request
   * @param {number} now
   * @param {Tell} tell
   */
  abandon(request, now, tell) {
    if (this.#aside.has(request)) {
      request.tell = undefined;
      this.#finish(request, undefined);
      return false;
    }
    return this.sessions.some((session) => session.abandon(request, now, tell));
  }

  /**
   * @param {number} now
   * @param {(id: string) => LaneMQError} error
   * @param {boolean} told
   */
  abandonAll(now, error, told) {
    for (const session of this.sessions) session.abandonAll(now, told);
    for (const request of [...this.#aside]) {
      if (!told) request.tell = undefined;
      this.#finish(request, error(request.id));
    }
  }

  /** @param {(id: string) => LaneMQError} error */
  endAll(error) {
    for (const session of this.sessions) session.endAll(error);
    for (const request of [...this.#aside]) this.#finish(request, error(request.id));
  }

  /**
   * Takes up what sessions have put aside. To be called behind each turn.
   * @param {number} now
   */
  settle(now) {
    const { reconnected } = this.#home.counters;
    if (this.#home.heardHere && reconnected !== this.#homeLives) {
      // Its broker may have other rules now, or be of another shard. While it is away what was learned counts.
      this.#homeLives = reconnected;
      this.#homeName = this.#home.shard;
      this.#sentOn.clear();
    }
    if (this.#home.rules) this.#stay(this.#home.rules);
    this.#home.rules = undefined;
    for (const session of this.sessions) {
      for (const [request, shard, endpoints] of session.moved.splice(0)) {
        this.#aside.add(request);
        this.#move(request, shard, endpoints, now);
      }
      for (const [request, answer] of session.unknown.splice(0)) {
        this.#aside.add(request);
        this.#askForShards(searchOf(request, answer), now);
      }
    }
  }

  // ---- sessions ------------------------------------------------------------------------------------------

  /**
   * The home session goes on at brokers of its own shard alone: the others do not have what is open at it.
   * @param {Pong} rules
   */
  #stay(rules) {
    this.#homeName = this.#home.shard;
    this.#place.goRound(endpointsOfShard(this.#home.shard, rules, this.#given, this.#place.endpoint));
    this.#home.goRound(this.#place.endpoints.length);
  }

  /** @param {string} shard */
  #sessionOf(shard) {
    return this.#others.get(shard) ?? this.#home;
  }

  /**
   * The session of a shard, made where there is none; undefined: it cannot be made.
   * @param {string} shard
   * @param {readonly string[]} endpoints
   */
  #open(shard, endpoints) {
    if (shard === HOME || shard === this.#homeName) return this.#home;
    if (!this.#others.has(shard) && this.#others.size < SHARDS_MAX) {
      try {
        this.#others.set(shard, this.#connect(endpoints));
      } catch {
        return undefined;
      }
    }
    return this.#others.get(shard);
  }

  /** @param {string} id @param {string} shard */
  #remember(id, shard) {
    if (this.#young.size >= REMEMBERED_MAX / 2) [this.#old, this.#young] = [this.#young, new Map()];
    this.#young.set(id, shard);
  }

  /** @param {Request} request @param {Session} session @param {number} now */
  #handOn(request, session, now) {
    if (!this.#aside.delete(request)) return;
    session.adopt(request, now);
    this.#wake(session);
  }

  /** @param {Request} request @param {any} outcome */
  #finish(request, outcome) {
    if (!this.#aside.delete(request)) return;
    this.#home.finish(request, outcome);
    this.#wake(this.#home);
  }

  // ---- jobs that another shard takes ---------------------------------------------------------------------

  /**
   * @param {Request} request
   * @param {string} shard
   * @param {readonly string[]} endpoints
   * @param {number} now
   */
  #move(request, shard, endpoints, now) {
    const { id } = request;
    request.moves += 1;
    if (request.moves > MOVES_MAX) {
      const message =
        `no shard takes the job: brokers have sent it on ${MOVES_MAX} times, at last to shard ${JSON.stringify(shard)}; their rules ` +
        "(shard) differ, so submit it again once they are the same";
      return this.#finish(request, new NotOwnerError(message, { id, retryAfterMs: RULES_RETRY_AFTER, local: true }));
    }
    const session = this.#open(shard, endpoints);
    if (!session) {
      const message =
        `shard ${JSON.stringify(shard)} cannot be reached: the broker tells of no endpoint of it, or it cannot be connected to`;
      return this.#finish(request, new UnavailableError(message, { id, local: true }));
    }
    if (this.#sentOn.size >= SENT_ON_MAX) this.#sentOn.clear();
    this.#sentOn.set(kindOf(request), shard);
    this.#remember(id, shard);
    this.#handOn(request, session, now);
  }

  // ---- jobs that a broker does not know ------------------------------------------------------------------

  /**
   * @param {Session} session
   * @param {Request} question
   * @param {number} now
   */
  #ask(session, question, now) {
    question.sought = true;
    session.begin(question, now);
    session.freed -= 1; // it is nobody's request
    this.#wake(session);
  }

  /** @param {Search} search @param {number} now */
  #askForShards(search, now) {
    search.request.sought = true;
    if (this.#asking.push(search) > 1) return;
    const tell = (/** @type {any} */ pong, /** @type {number} */ at) => this.#toldOfShards(pong, at);
    this.#ask(this.#home, new Request("ping", { filter: { cluster: true }, timeoutMs: SEARCH_TIMEOUT, tell }), now);
  }

  /** @param {any} pong @param {number} now */
  #toldOfShards(pong, now) {
    const failed = pong instanceof LaneMQError;
    if (!failed) this.#homeName = pong.shard;
    for (const search of this.#asking.splice(0)) {
      if (!failed || this.#others.size > 0) this.#seek(search, failed ? {} : pong.shards, now);
      else {
        // It was lost: asked anew, also for the job.
        search.request.sought = false;
        this.#handOn(search.request, this.#home, now);
      }
    }
  }

  /**
   * Asks all shards for the job's state; also those that have left the rules, which may have it still.
   * @param {Search} search
   * @param {Record<string, string[]>} shards
   * @param {number} now
   */
  #seek(search, shards, now) {
    if (Object.keys(shards).length + this.#others.size === 0) return this.#finish(search.request, search.answer);
    const names = [...new Set([this.#homeName ?? HOME, ...Object.keys(shards), ...this.#others.keys()])];
    this.#question(search, names, shards, now);
  }

  /**
   * @param {Search} search
   * @param {string[]} names
   * @param {Record<string, string[]>} shards
   * @param {number} now
   */
  #question(search, names, shards, now) {
    const { id } = search.request;
    search.open = names.length;
    search.silent = [];
    for (const name of names) {
      const session = this.#open(name, shards[name] ?? []);
      const tell = (/** @type {any} */ said, /** @type {number} */ at) => this.#heard(search, name, said, at);
      if (session) this.#ask(session, new Request("status", { id, timeoutMs: SEARCH_TIMEOUT, tell }), now);
      else tell(new UnavailableError("", {}), now);
    }
  }

  /**
   * A shard has answered, or its time is over.
   * @param {Search} search
   * @param {string} name
   * @param {any} said
   * @param {number} now
   */
  #heard(search, name, said, now) {
    const { request, answer, silent } = search;
    search.open -= 1;
    if (said instanceof LaneMQError) {
      silent.push(name);
      search.inVain ||= !(said instanceof DeadlineError);
    } else if (said.state !== "unknown") {
      this.#remember(request.id, name);
      return this.#handOn(request, this.#sessionOf(name), now);
    }
    if (search.open > 0) return;
    if (silent.length > 0 && !search.inVain && waitsForEnd(request, now)) {
      if (this.#aside.has(request)) this.#question(search, silent, {}, now); // else its caller has gone
      return;
    }
    const where = silent.map((one) => (one ? `shard ${JSON.stringify(one)}` : `the broker at ${this.#place.endpoint}`));
    const message =
      `no answer from ${where.join(", ")} within ${Math.round(now - request.asked)} ms, and no other one knows the job; ask again later`;
    if (silent.length > 0) this.#finish(request, new DeadlineError(message, { id: request.id, local: true }));
    else if (answer !== undefined) this.#finish(request, answer);
    else this.#handOn(request, this.#home, now); // the home broker knows of other shards, or says what all would
  }
}

/** @param {Request} request @param {any} [answer] @returns {Search} */
const searchOf = (request, answer) => ({ request, answer, open: 0, silent: [], inVain: false });

/**
 * Whether its caller waits for the job's end, and so for a shard that is away; for how far it is nobody does.
 * @param {Request} request
 * @param {number} now
 */
const waitsForEnd = ({ kind, waitUntil }, now) => (kind === "fetch" || kind === "follow") && now < (waitUntil ?? Infinity);

/**
 * What was given, without what the rules name for other shards, and what they name for this one.
 * @param {string | undefined} shard
 * @param {Pong} rules
 * @param {string[]} given
 * @param {string} here Where they were said.
 */
function endpointsOfShard(shard, { shards, shard: said }, given, here) {
  if (Object.keys(shards).length === 0) return given;
  const own = shards[shard ?? ""] ?? [];
  const foreign = new Set(Object.values(shards).flat().filter((endpoint) => !own.includes(endpoint)));
  if (said !== shard) foreign.add(here);
  const endpoints = [...new Set([...given.filter((endpoint) => !foreign.has(endpoint)), ...own])];
  return endpoints.length > 0 ? endpoints.slice(0, ENDPOINTS_MAX) : [here];
}

/** What the shard of a job follows from, as far as a client knows it. @param {Request} request */
const kindOf = ({ submit }) => `${submit?.fields.service}\0${submit?.fields.client ?? ""}`;
