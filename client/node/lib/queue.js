// SPDX-License-Identifier: Apache-2.0
// What JavaScript's arrays lack: a queue, and a heap of times.

/**
 * First in, first out, in constant time.
 * @template T
 */
export class Queue {
  /** @type {T[]} */
  #items = [];
  #head = 0;

  get size() {
    return this.#items.length - this.#head;
  }

  /** @param {T} item */
  push(item) {
    this.#items.push(item);
  }

  /** @returns {T | undefined} The first one, which stays. */
  get first() {
    return this.#items[this.#head];
  }

  /** @returns {T | undefined} */
  shift() {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = /** @type {any} */ (undefined);
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** @returns {T[]} All, which are taken out. */
  drain() {
    const items = this.#items.slice(this.#head);
    this.clear();
    return items;
  }

  clear() {
    this.#items = [];
    this.#head = 0;
  }
}

/** @typedef {{ when: number, ref: number, which: string }} Timer */

/** Times, the earliest first. */
export class TimerHeap {
  /** @type {Timer[]} */
  #heap = [];

  get size() {
    return this.#heap.length;
  }

  /** @returns {Timer | undefined} */
  get first() {
    return this.#heap[0];
  }

  /** @param {Timer} timer */
  push(timer) {
    const heap = this.#heap;
    let at = heap.push(timer) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent].when <= timer.when) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = timer;
  }

  /** @returns {Timer | undefined} */
  pop() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1].when < heap[child].when) ++child;
      if (heap[child].when >= last.when) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
    return first;
  }

  /** Keeps those for which `wanted` holds. @param {(timer: Timer) => boolean} wanted */
  keep(wanted) {
    const kept = this.#heap.filter(wanted);
    this.#heap = [];
    for (const timer of kept) this.push(timer);
  }
}
