// SPDX-License-Identifier: Apache-2.0
// Whether the program's loop takes up the jobs that its worker's thread gives it: a thread that lives says nothing about that.
import { Queue } from "./queue.js";

/** @typedef {import("./worker_session.js").Lease} Lease */
/** @typedef {{ lease: Lease, place: number, turn: number, at: number }} Given */

/** A loop that has not taken up a job within this time stands still. */
export const TAKEN_UP_WITHIN_MS = 2000;
// Later than it was to look: the whole process stood still, and the loop with it.
const STILL_MS = 500;

/** It is told times, in milliseconds of one monotonic clock, and sets none itself. */
export class LoopWatch {
  #places;
  /** @type {Queue<Given>} In the order of their times; some are taken up. */
  #given = new Queue();
  #due = Infinity;
  /** Since when the loop stands still, as far as is known. @type {number | undefined} */
  stillSince = undefined;

  /** @param {import("./places.js").Places} places */
  constructor(places) {
    this.#places = places;
  }

  /** @param {Given} given */
  gave(given) {
    this.#given.push(given);
  }

  /** When to `look` next; undefined: there is nothing to look for. */
  get due() {
    this.#dropTakenUp();
    const first = this.#given.first;
    this.#due = first === undefined ? Infinity : first.at + TAKEN_UP_WITHIN_MS;
    return first === undefined ? undefined : this.#due;
  }

  /**
   * The jobs that are taken back, as the loop stands still. To be called when it is due, or later.
   * @param {number} now
   * @returns {Given[]}
   */
  look(now) {
    this.#dropTakenUp();
    const first = this.#given.first;
    if (first === undefined || now < first.at + TAKEN_UP_WITHIN_MS) return [];
    const waiting = this.#given.drain();
    if (now > this.#due + STILL_MS) {
      for (const given of waiting) this.#given.push({ ...given, at: now });
      return [];
    }
    const back = waiting.filter(({ place, turn }) => this.#places.takeBack(place, turn));
    if (back.length > 0) this.stillSince ??= first.at;
    return back;
  }

  #dropTakenUp() {
    for (let first; (first = this.#given.first) && !this.#places.waits(first.place, first.turn); ) this.#given.shift();
  }
}
