// SPDX-License-Identifier: Apache-2.0
// The transcripts of tests/ends for clients, played against this package's session.
import assert from "node:assert/strict";

import { itemsOf, milliseconds, plays, textOf, wakeups } from "./ends.mjs";
import { PACKAGE, decode, tell } from "./support.mjs";

const { MARK_REF, Piece, Request, Session } = await import(`${PACKAGE}/lib/session.js`);
const { Change } = await import(`${PACKAGE}/lib/watching.js`);
const { Answer, Submit } = await import(`${PACKAGE}/lib/types.js`);

const REPLIES = { stream: { stream: true }, leave: { reply: "accepted" } };

class Client {
  now = 0;
  lives = false;
  requests = new Map();

  constructor({ words, fields }) {
    const batchMax = words.includes("batches") ? 256 : 1;
    this.session = new Session(0, () => 0, { batchMax, endpoints: Number(fields.endpoints ?? 1) });
    if (!words.includes("unconnected")) this.session.connected();
  }

  happens(lines) {
    [this.said, this.told] = [[], []];
    for (const line of lines) (this[line.words[0]] ?? this.ask).call(this, line);
    this.turn(false);
    return [this.said, this.told];
  }

  // ---- time ----

  advance({ words }) {
    for (this.now of wakeups(this.session, this.now, this.now + milliseconds(words[1]))) this.turn(true);
  }

  turn(timed) {
    this.session.advance(this.now);
    const endpoints = this.session.takeTold();
    if (endpoints.length > 0) this.told.push(["told endpoints", ...endpoints].join(" "));
    if (this.session.takeReopen(this.now)) this.said.push("reconnect");
    this.drain(timed);
  }

  drain(timed) {
    for (let frames; (frames = this.session.nextMessage(this.now)); ) {
      const [, op, fields, inside] = decode(frames[0]);
      const items = itemsOf(fields, inside ?? frames[1]);
      items.forEach(([map, body], at) => this.hearOf(op, map, body, timed, items.length > 1 ? `${at + 1}/${items.length} ` : ""));
    }
    let again = false;
    for (const [told, value] of this.session.events.splice(0)) {
      this.told.push(`told ${told.called} ${this.words(value)}`);
      if (!(value instanceof Change)) continue;
      this.session.took(this.requests.get(told.called), value);
      again = true;
    }
    if (again) this.drain(timed);
  }

  hearOf(op, fields, body, timed, mark) {
    const { ref } = fields;
    if (op === "ping" && (ref === 0 || ref >= MARK_REF)) {
      if (timed && this.lives) tell(this.session, "pong", { ref }, undefined, this.now);
      else if (timed && ref === 0) this.said.push("ping");
    } else if (fields.ids) {
      this.asked = ref;
      this.said.push(["status", ...fields.ids].join(" "));
    } else {
      const unnamed = op === "cancel" ? fields.id : "nobody"; // of what its session cancels itself
      const name = [...this.requests].find(([, request]) => request.ref === ref)?.[0] ?? unnamed;
      assert.equal(fields.id ?? name, name, `${op} has the ref of ${name}`);
      const { from_seq, seq, stop, stream, reply } = fields;
      const text = body.length > 0 && body.length < 100 ? Buffer.from(body).toString() : undefined;
      this.said.push(textOf([mark + op, name], { from_seq, seq, stop, stream, reply, body: text }));
    }
  }

  words(value) {
    if (value instanceof Piece) return `piece seq=${value.seq}`;
    if (value instanceof Change) {
      const { what, seq, gap, leftOut } = value.event;
      return textOf([what], { seq, ...(gap && { gap, left_out: leftOut }) });
    }
    if (value instanceof Answer) return textOf(["answer"], { body: value.body.toString() || undefined });
    if (value instanceof Error) {
      return textOf(["error"], { code: value.code, local: value.local || undefined, chunks: value.chunks || undefined });
    }
    if ("roundTripMs" in value) return "pong";
    return "state" in value ? `status state=${value.state}` : "accepted";
  }

  // ---- what the application does ----

  ask({ words: [kind, name, ...flags], fields }) {
    const submit = ["submit", "stream", "leave"].includes(kind)
      ? new Submit("s", { whenFull: flags.includes("waits") ? "wait" : "throw" }, REPLIES[kind])
      : undefined;
    const tell = () => {};
    tell.called = name;
    const request = new Request(kind, {
      id: ["watch", "ping"].includes(kind) ? "" : name, submit, tell, body: bodyOf(fields), fromSeq: Number(fields.from_seq ?? 0),
      timeoutMs: fields.timeout && milliseconds(fields.timeout),
    });
    this.requests.set(name, request);
    this.session.begin(request, this.now);
  }

  took({ words }) {
    this.session.seen(this.requests.get(words[1]).ref, Number(words[2]), this.now);
  }

  abandon({ words }) {
    this.session.abandon(this.requests.get(words[1]), this.now);
  }

  close() {
    this.session.abandonAll(this.now, true);
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

  broker({ words: [, op, ...names], fields }) {
    const say = (said, body) => tell(this.session, op === "states" ? "status" : op, said, body, this.now);
    if (op === "lives" || op === "silent") this.lives = op === "lives";
    else if (op === "noise") this.session.received([Buffer.from([0xff])], this.now);
    else if (op === "states") {
      const jobs = names.map((name) => ({ id: name.split(":")[0], state: name.split(":")[1] }));
      say({ ref: this.asked, jobs });
    } else {
      const { body, body_bytes, endpoints, ...rest } = fields;
      const said = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, typed(value)]));
      if (endpoints) said.endpoints = endpoints.split(",");
      if (names.length > 0) said.ref = names[0] === "question" ? this.asked : this.requests.get(names[0]).ref;
      else if (op === "pong") said.ref = 0;
      say(said, body || body_bytes ? bodyOf(fields) : undefined);
    }
  }
}

/** @param {string} value */
const typed = (value) => (/^\d+$/.test(value) ? Number(value) : value === "true" ? true : value);
const bodyOf = ({ body = "", body_bytes }) => Buffer.from(body_bytes ? "x".repeat(Number(body_bytes)) : body);

plays("client", (of) => new Client(of));
