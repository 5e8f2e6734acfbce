// SPDX-License-Identifier: Apache-2.0
// The places of a worker's jobs, in memory that its thread and the program's loop share: what neither may hear of too late.

/**
 * A place is given to a job for a turn, whose number only this job has. Either the loop takes the job up, or the thread takes it back;
 * never both.
 */
export class Places {
  #cancelled;
  #turns;

  /** @param {SharedArrayBuffer} memory As `memoryFor` makes it. */
  constructor(memory) {
    this.memory = memory;
    this.count = memory.byteLength / 2 / Int32Array.BYTES_PER_ELEMENT;
    this.#cancelled = new Int32Array(memory, 0, this.count);
    this.#turns = new Int32Array(memory, memory.byteLength / 2, this.count);
  }

  /** @param {number} count */
  static memoryFor(count) {
    return new SharedArrayBuffer(2 * count * Int32Array.BYTES_PER_ELEMENT);
  }

  /** @param {number} place @param {number} turn Above 0. */
  give(place, turn) {
    Atomics.store(this.#cancelled, place, 0);
    Atomics.store(this.#turns, place, turn);
  }

  /** Whether the loop may begin the job: nobody has taken it back. @param {number} place @param {number} turn */
  takeUp(place, turn) {
    return Atomics.compareExchange(this.#turns, place, turn, -turn) === turn;
  }

  /** Whether the loop will not begin the job: it has not taken it up. @param {number} place @param {number} turn */
  takeBack(place, turn) {
    return Atomics.compareExchange(this.#turns, place, turn, 0) === turn;
  }

  /** Whether the job is neither taken up nor taken back. @param {number} place @param {number} turn */
  waits(place, turn) {
    return Atomics.load(this.#turns, place) === turn;
  }

  /** @param {number} place */
  cancel(place) {
    Atomics.store(this.#cancelled, place, 1);
  }

  /** @param {number} place */
  isCancelled(place) {
    return Atomics.load(this.#cancelled, place) === 1;
  }
}
