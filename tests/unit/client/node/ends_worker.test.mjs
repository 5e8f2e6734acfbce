// SPDX-License-Identifier: Apache-2.0
// The transcripts of tests/ends for workers, played against this package's session.
import assert from "node:assert/strict";

import { itemsOf, milliseconds, plays, textOf, wakeups } from "./ends.mjs";
import { ExtData, PACKAGE, decode, encode, tell } from "./support.mjs";

const { WorkerSession } = await import(`${PACKAGE}/lib/worker_session.js`);

const SHOWN = { ready: ["capacity", "session", "lanes"], error: ["class", "code"], chunk: ["seq"], progress: ["pct", "note"] };
const UNREADABLE = [Buffer.from(encode(new ExtData(5, new Uint8Array()))), Buffer.from([0x81, 5, 1])];

/** @param {string} word */
const leaseOf = (word) => [Number(word.split("/")[0]), Number(word.split("/")[1] ?? 1)];
const nameOf = ([job, attempt]) => (attempt === 1 ? `${job}` : `${job}/${attempt}`);
const bodyOf = ({ body = "", body_bytes }) => Buffer.from(body_bytes ? "x".repeat(Number(body_bytes)) : body);

class Worker {
  now = 0;
  lives = false;

  constructor({ words, fields: { services = "s", capacity = "2", lanes, endpoints = "1" } }) {
    const offer = { services: services.split(","), capacity: Number(capacity), lanes: lanes?.split(",") };
    this.session = new WorkerSession(offer, 0, { endpoints: Number(endpoints) });
    if (!words.includes("unconnected")) this.session.connected();
  }

  happens(lines) {
    [this.said, this.told] = [[], []];
    for (const line of lines) this[line.words[0]](line);
    this.turn();
    return [this.said, this.told];
  }

  start() {} // it greets by itself

  advance({ words }) {
    for (this.now of wakeups(this.session, this.now, this.now + milliseconds(words[1]))) this.turn();
  }

  turn() {
    this.session.advance(this.now);
    if (this.session.takeReopen(this.now)) this.said.push("reconnect");
    for (let frames; (frames = this.session.nextMessage()); ) {
      const [, op, fields, inside] = decode(frames[0]);
      const items = itemsOf(fields, inside ?? frames[1]);
      items.forEach(([map, body], at) => this.hearOf(op, map, body, items.length > 1 ? `${at + 1}/${items.length} ` : ""));
    }
    for (const { what, lease, ever } of this.session.effects.splice(0)) {
      if (what === "taken") continue;
      this.told.push(textOf(["told", what === "cancel" ? "stop" : what, ...(lease ? [nameOf(lease)] : [])], { ever: ever || undefined }));
    }
  }

  hearOf(op, fields, body, mark) {
    if (op === "heartbeat") {
      this.said.push(["heartbeat", ...(fields.jobs ?? []).map(nameOf)].join(" "));
      if (this.lives) this.session.received([Buffer.from([0xff])], this.now);
      return;
    }
    assert(op !== "ready" || fields.resumes === true);
    const shown = Object.fromEntries((SHOWN[op] ?? []).map((key) => [key, fields[key]]));
    if (body.length > 0 && body.length < 100) shown.body = Buffer.from(body).toString();
    this.said.push(textOf([mark + op, ...("job" in fields ? [nameOf([fields.job, fields.attempt])] : [])], shown));
  }

  // ---- what its handlers and its operator do ----

  done({ words, fields }) {
    this.session.finish(leaseOf(words[1]), { op: "result", fields: {}, body: bodyOf(fields) }, this.now);
  }

  fail({ words, fields }) {
    this.session.finish(leaseOf(words[1]), { op: "error", fields }, this.now);
  }

  piece({ words, fields }) {
    for (let count = Number(fields.count ?? 1); count > 0; --count) this.session.piece(leaseOf(words[1]), bodyOf(fields), this.now);
  }

  progress({ words, fields: { pct, note } }) {
    this.session.progress(leaseOf(words[1]), { pct: Number(pct), ...(note && { note }) }, this.now);
  }

  drain({ words }) {
    this.session.drain(this.now + milliseconds(words[1]), this.now);
  }

  leave() {
    this.session.leave();
  }

  // ---- what the network and the broker do ----

  connected() {
    this.session.connected();
  }

  disconnected() {
    this.session.disconnected(this.now);
  }

  nobody() {
    this.session.foundNobody(this.now);
  }

  broker({ words: [, op, ...names], fields: said }) {
    const noise = () => this.session.received([Buffer.from([0xff])], this.now);
    if (op === "lives" || op === "silent") return (this.lives = op === "lives");
    if (op === "noise") return noise();
    const typed = Object.entries(said).map(([key, value]) => [key, /^\d+$/.test(value) ? Number(value) : value === "true" || value]);
    const fields = Object.fromEntries(typed);
    if (op === "acked") fields.jobs = names.map(leaseOf);
    else if (names.length > 0) [fields.job, fields.attempt] = leaseOf(names[0]);
    if (op === "unreadable") {
      // A job with a field that is none.
      const frame = Buffer.from(encode(["LMQ1", "job", { ...fields, model: new ExtData(5, new Uint8Array()) }, Buffer.from("body")]));
      const at = frame.indexOf(UNREADABLE[0]);
      UNREADABLE[1].copy(frame, at);
      return this.session.received([frame], this.now);
    }
    const whole = op === "welcome" ? { session: "s", heartbeat_ms: 1000, body_bytes_max: 1_000_000, ...fields } : fields;
    return tell(this.session, op, whole, op === "job" ? "body" : undefined, this.now);
  }
}

plays("worker", (of) => new Worker(of));
