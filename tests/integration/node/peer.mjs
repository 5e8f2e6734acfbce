// SPDX-License-Identifier: Apache-2.0
// A peer of the broker, by nothing but msgpack and ZeroMQ.
import assert from "node:assert/strict";

import { decode, encode } from "@msgpack/msgpack";

/** All sockets that were made, for who closes them. */
export const open = [];

/** The options of a socket that shows a pair of keys, "PUBLIC SECRET", to the broker with that key. */
function keysOf(pair, curveServerKey) {
  if (!pair) return {};
  const [curvePublicKey, curveSecretKey] = pair.split(" ");
  return { curveServerKey, curvePublicKey, curveSecretKey };
}

/** A connection on which one message is sent at a time and messages are received one by one. */
export class Peer {
  constructor(Kind, endpoint, pair, { broker = process.env.LANEMQ_BROKER_KEY, patience = 20000 } = {}) {
    this.socket = new Kind({ linger: 0, receiveTimeout: patience, ...keysOf(pair, broker) });
    this.socket.connect(endpoint);
    this.sent = Promise.resolve();
    open.push(this.socket);
  }
  say(op, fields, body, { inside = true } = {}) {
    const header = ["LMQ1", op, fields];
    const frames = [];
    if (body !== undefined) (inside ? header : frames).push(body);
    this.sent = this.sent.then(() => this.socket.send([encode(header), ...frames]));
    return this.sent;
  }
  async hear(expected) {
    const [header, ...rest] = await this.socket.receive();
    const [name, op, fields, inside] = decode(header);
    assert.equal(name, "LMQ1");
    if (expected !== undefined) assert.equal(op, expected, JSON.stringify(fields));
    return { op, fields, body: Buffer.from(inside ?? rest[0] ?? []), inside: inside !== undefined };
  }
  async ask(op, fields, body, how) {
    await this.say(op, fields, body, how);
    return this.hear();
  }
  /** Whether nothing but heartbeats comes for so long. */
  async hearsNothing(ms) {
    const patience = this.socket.receiveTimeout;
    const end = Date.now() + ms;
    try {
      while (Date.now() < end) {
        this.socket.receiveTimeout = Math.max(1, end - Date.now());
        if ((await this.hear()).op !== "heartbeat") return false;
      }
      return true;
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      return true;
    } finally {
      this.socket.receiveTimeout = patience;
    }
  }
}
