// SPDX-License-Identifier: Apache-2.0
// Serves `echo` and `words` until TERM or Ctrl-C.   worker.mjs [ENDPOINT]
import process from "node:process";

import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const [endpoint = "tcp://127.0.0.1:5571"] = process.argv.slice(2);
const { LANEMQ_BROKER_KEY, LANEMQ_PUBLIC_KEY, LANEMQ_SECRET_KEY } = process.env;
const keys = LANEMQ_BROKER_KEY && {
  curveServerKey: LANEMQ_BROKER_KEY, curvePublicKey: LANEMQ_PUBLIC_KEY, curveSecretKey: LANEMQ_SECRET_KEY,
};
const ready = { services: ["echo", "words"], capacity: 4, resumes: true };
const jobs = new Map(); // "job attempt" -> what is held until the broker has answered its outcome
let worker, timer;
let interval = 800; // until `welcome` says another
let terminated = false, drained = false; // by a signal; by an operator
let heard, introduced, welcomed; // when something was heard, when `ready` was said, and whether that was answered
let sent = Promise.resolve(); // a socket sends one message at a time

function say(op, fields, ...body) {
  const [socket, message] = [worker, encode(["LMQ1", op, fields, ...body])];
  sent = sent.then(() => socket.closed || socket.send(message));
  return sent;
}

/** What a broker hears first, and again when it does not know this worker: who it is, and all that it holds. */
function introduce() {
  introduced = performance.now();
  welcomed = false;
  say("ready", ready);
  beat();
  for (const job of jobs.values()) {
    job.sent = job.taken;
    goOn(job);
  }
}

function beat() {
  say("heartbeat", { jobs: [...jobs.values()].map(({ lease }) => [lease.job, lease.attempt]) });
  clearTimeout(timer);
  timer = setTimeout(tick, interval);
}

function tick() {
  if (performance.now() > heard + 3 * interval) {
    console.error("the broker is silent");
    connect();
  } else if (welcomed) beat();
  else introduce();
}

/** Says the pieces that the window has room for, and behind the last one the outcome. */
function goOn(job) {
  for (; job.sent < job.pieces.length; ++job.sent) {
    const underWay = job.pieces.slice(job.taken, job.sent);
    if (underWay.length >= 64 || underWay.reduce((sum, piece) => sum + piece.length, 0) >= 262144) return;
    say("chunk", { ...job.lease, seq: job.sent }, job.pieces[job.sent]);
  }
  const [op, fields, body] = job.outcome;
  say(op, { ...job.lease, ...fields }, body);
}

function piecesOf(service, body) {
  const pieces = Buffer.from(body).toString("latin1").match(service === "words" ? /[^ \t\r\n]+/g : /[^\n]*\n|[^\n]+/g) ?? [];
  return pieces.map((piece) => Buffer.from(piece, "latin1"));
}

function hear(op, fields, body) {
  const { job: number, attempt } = fields;
  const name = `${number} ${attempt}`;
  const job = jobs.get(name);
  const goingOn = job !== undefined && job.sent < job.pieces.length;
  if (op === "welcome") {
    ready.session = fields.session;
    interval = fields.heartbeat_ms;
    welcomed = true;
    drained = false;
    beat();
  } else if (op === "job" && !job) {
    for (const older of jobs.keys()) if (older.startsWith(`${number} `)) jobs.delete(older); // its attempt is over
    const taken = { lease: { job: number, attempt }, pieces: [], sent: 0, taken: 0, outcome: ["result", {}, body] };
    if (terminated || drained) taken.outcome = ["error", { class: "released" }, new Uint8Array()];
    else if (fields.stream) {
      taken.pieces = piecesOf(fields.service, body);
      taken.outcome = ["result", {}, new Uint8Array()];
    }
    jobs.set(name, taken);
    goOn(taken);
  } else if (op === "window" && job) {
    job.taken = Math.max(job.taken, fields.seq + 1);
    if (goingOn) goOn(job);
  } else if (op === "cancel" && goingOn) {
    job.pieces.length = job.sent;
    job.outcome = ["error", { class: "retry", code: "cancelled" }, new Uint8Array()];
    goOn(job);
  } else if (op === "drain") {
    drained = true;
  } else if (op === "bye") {
    connect();
  } else if (op === "acked") {
    for (const [job, attempt] of fields.jobs) jobs.delete(`${job} ${attempt}`);
  } else if (op === "error" && fields.code === "stale") {
    jobs.delete(name);
  } else if (op === "error" && fields.code === "unknown_session") {
    if (welcomed || performance.now() > introduced + interval) introduce(); // else the answer to `ready` is on its way
  } else if (op === "error") {
    console.error(`${fields.code}: ${fields.message ?? ""}`);
  }
}

/** Talks to the broker by a new connection, until there is a newer one. */
async function connect() {
  worker?.close();
  const mine = (worker = new Dealer({ linger: 1000, ...keys }));
  worker.connect(endpoint);
  heard = performance.now();
  introduce();
  for await (const [header, ...rest] of mine) {
    heard = performance.now();
    try {
      const [, op, fields, inside] = decode(header);
      hear(op, fields, inside ?? rest[0] ?? new Uint8Array());
    } catch {
      continue; // a sign of life that a later version may understand
    }
    if (terminated && jobs.size === 0) return leave();
  }
}

async function leave() {
  clearTimeout(timer);
  await say("bye", {});
  worker.close();
}

for (const name of ["SIGTERM", "SIGINT"]) {
  process.once(name, () => { // a second one ends it at once
    terminated = true;
    if (jobs.size === 0) leave();
  });
}
connect();
