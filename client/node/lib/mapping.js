// SPDX-License-Identifier: Apache-2.0
// The logic of `map`, without waiting: which item goes next, and which answer is handed out next.
import { say } from "./drive.js";
import { LaneMQError } from "./errors.js";
import { Queue } from "./queue.js";
import { GRACE, Request } from "./session.js";
import { Job, Submit, bodyBytes } from "./types.js";
import { checkName } from "./wire.js";

/** @typedef {import("./types.js").Body} Body */
/** @typedef {import("./types.js").JobOptions} JobOptions */
/** @typedef {import("./types.js").Answer | LaneMQError} Outcome */

/** Jobs of one `map` that the broker has at once. */
export const WINDOW = 256;
/** Answers that wait for an earlier one, for each job of the window: then nothing new is begun. */
export const AHEAD = 4;

/** One `map`. While it `wants()` input, `add()` makes an item a request; `take()` is told what came, `ready()` hands out. */
export class MapRun {
  #service;
  #options;
  #shared;
  #makeId;
  #tell;
  #ordered;
  #window;
  #returnsErrors;
  #begun = 0;
  #given = 0;
  /** @type {Map<number, Request>} */
  #underWay = new Map();
  /** @type {Map<number, Outcome>} Of an ordered one: by index. */
  #waiting = new Map();
  /** @type {Queue<Outcome>} */
  #ready = new Queue();
  done = 0;
  failed = 0;
  /** Whether the input has ended. */
  exhausted = false;

  /**
   * @param {string} service
   * @param {number | undefined} total
   * @param {JobOptions} options
   * @param {() => string} makeId
   * @param {(index: number, outcome: Outcome) => void} tell Hears what comes of each.
   * @param {{ ordered: boolean, window: number, returnsErrors: boolean }} how
   */
  constructor(service, total, options, makeId, tell, { ordered, window, returnsErrors }) {
    if (!Number.isInteger(window) || window < 1) throw new RangeError(`window is ${window}; at least one job is under way`);
    this.#service = service;
    this.#options = options;
    this.#shared = new Submit(service, options);
    this.#makeId = makeId;
    this.#tell = tell;
    this.#ordered = ordered;
    this.#window = window;
    this.#returnsErrors = returnsErrors;
    this.total = total;
  }

  /** Whether the window has room for another item. */
  wants() {
    return !this.exhausted && this.#underWay.size < this.#window && this.#begun - this.#given < AHEAD * this.#window;
  }

  /**
   * @param {Body | Job} item
   * @returns {Request}
   */
  add(item) {
    const job = item instanceof Job ? item : new Job(item);
    const own = Object.keys(job.options).length > 0;
    const submit = own ? new Submit(this.#service, { ...this.#options, ...job.options }) : this.#shared;
    const index = this.#begun;
    const request = new Request("submit", {
      id: job.id === undefined ? this.#makeId() : checkName("id", job.id),
      submit,
      body: bodyBytes(job.body),
      tell: (outcome) => this.#tell(index, outcome),
      timeoutMs: submit.patienceMs === undefined ? undefined : submit.patienceMs + GRACE,
    });
    this.#underWay.set(index, request);
    this.#begun += 1;
    return request;
  }

  /**
   * What came of a job. Throws the first error, where errors are not returned.
   * @param {number} index
   * @param {Outcome} outcome
   */
  take(index, outcome) {
    this.#underWay.delete(index);
    outcome.index = index;
    this.done += 1;
    if (outcome instanceof LaneMQError) {
      this.failed += 1;
      if (!this.#returnsErrors) throw outcome;
    }
    if (!this.#ordered) return this.#ready.push(outcome);
    this.#waiting.set(index, outcome);
    for (let next; (next = this.#waiting.get(this.#given + this.#ready.size)); ) {
      this.#waiting.delete(/** @type {number} */ (next.index));
      this.#ready.push(next);
    }
  }

  /** @returns {Outcome | undefined} The next answer; undefined: none is there yet. */
  ready() {
    const outcome = this.#ready.shift();
    if (outcome) this.#given += 1;
    return outcome;
  }

  get over() {
    return this.exhausted && this.#underWay.size === 0 && this.#ready.size === 0;
  }

  /** @returns {Request[]} */
  underWay() {
    return [...this.#underWay.values()];
  }
}

const DRAWN_EVERY_MS = 100;
const BAR_CHARS = 30;

/** A line on a terminal that says how far a `map` is, at most ten times a second. */
export class Progress {
  #run;
  #out;
  #on;
  #begun = performance.now();
  #drawn = -Infinity;

  /**
   * @param {MapRun} run
   * @param {boolean | undefined} wanted Undefined: where `out` is a terminal.
   * @param {NodeJS.WriteStream} [out]
   */
  constructor(run, wanted, out = process.stderr) {
    this.#run = run;
    this.#out = out;
    this.#on = wanted ?? Boolean(out.isTTY);
  }

  /** @param {boolean} [last] */
  draw(last = false) {
    const now = performance.now();
    if (!this.#on || (!last && now - this.#drawn < DRAWN_EVERY_MS)) return;
    this.#drawn = now;
    say(this.#out, `\r\x1b[K${this.text((now - this.#begun) / 1000)}${last ? "\n" : ""}`);
  }

  /** @param {number} seconds */
  text(seconds) {
    const { done, failed, total } = this.#run;
    const rate = seconds > 0 ? done / seconds : 0;
    const tail = `${done}${total === undefined ? "" : `/${total}`} done, ${failed} failed, ${rate.toFixed(0)}/s`;
    if (!total) return tail;
    const full = Math.floor((BAR_CHARS * done) / total);
    const left = rate > 0 && done < total ? `, ${((total - done) / rate).toFixed(0)} s left` : "";
    return `[${"#".repeat(full)}${" ".repeat(BAR_CHARS - full)}] ${tail}${left}`;
  }
}
