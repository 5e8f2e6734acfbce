// SPDX-License-Identifier: Apache-2.0
// A socket that drives a session: the input and output of clients and of workers.
import { Dealer } from "zeromq";

import { Addresses } from "./names.js";
import { Rounds } from "./session.js";
import { ENDPOINTS_MAX, checkPort } from "./settings.js";

/** @typedef {import("./settings.js").Peer} Peer */
/** @typedef {"info" | "warning" | "error"} Level */
/** @typedef {(level: Level, message: string) => void} Log Where what is for people goes. */
/**
 * What a driver needs of a session; session.js and worker_session.js say what each means.
 * @typedef {object} DrivenSession
 * @property {() => void} connected
 * @property {(now: number) => void} disconnected
 * @property {(now: number) => void} foundNobody
 * @property {(message: string, now: number) => void} refused
 * @property {(frames: Buffer[], now: number) => void} received
 * @property {(now: number) => void} advance
 * @property {() => number | undefined} nextWakeup
 * @property {(now: number) => Uint8Array[] | undefined} nextMessage
 * @property {() => string[]} takeTold
 * @property {(endpoints: number) => void} goRound
 * @property {(now: number) => boolean} takeReopen
 * @property {(now: number) => void} reopenFailed
 * @property {(now: number) => void} stoodStill
 */

// In messages: what one side may queue while the other is busy. The bounds of the sessions count requests and bytes.
const QUEUE_MESSAGES_MAX = 1000;
const RECEIVED_PER_TURN = 1000; // so that sending does not wait for all of them
const RECONNECT_MS = 100;
const HANDSHAKE_MS = 5000;
const FRAME_SLACK_BYTES = 1024 * 1024;
const LONGEST_SLEEP = 60_000;
const STILL_MS = 500; // later than it was to be: the program computed
// A name without an answer for so long counts as nobody there, where there are several endpoints.
const LOOKED_UP_WITHIN_MS = 1000;
const OPEN_TRIES_MAX = 64;
const NOBODY = "tcp://127.0.0.1:9"; // the port for what is thrown away; whether somebody is there does not matter
const LAST_LINGER_MS = 500; // of a process that ends with something under way
const OUT_OF_DESCRIPTORS = new Set(["EMFILE", "ENFILE", "ENOMEM"]);

export const now = () => performance.now();

const nothing = () => {};

/**
 * Writes what is for people. That nobody reads it any more, which Node has end the process, ends nothing.
 * @param {NodeJS.WriteStream} stream
 * @param {string} text
 */
export function say(stream, text) {
  if (!stream.listeners("error").includes(nothing)) stream.on("error", nothing);
  stream.write(text, () => setImmediate(() => stream.off("error", nothing))); // the event comes behind this
}

/**
 * Warnings and errors to stderr.
 * @type {Log}
 */
export const logToStderr = (level, message) => {
  if (level !== "info") say(process.stderr, `lanemq: ${message}\n`);
};

/**
 * A DEALER socket that connects. Throws an Error that says what is wrong with the endpoint, or what the machine lacks.
 * @param {Peer} peer
 * @param {string | undefined} endpoint One of the peer's; undefined: its name is to be looked up first.
 * @param {number} bodyBytesMax
 */
function openSocket(peer, endpoint, bodyBytesMax) {
  const failed = []; // kept until there is one
  for (;;) {
    const socket = new Dealer({
      linger: 0, sendHighWaterMark: QUEUE_MESSAGES_MAX, receiveHighWaterMark: QUEUE_MESSAGES_MAX,
      maxMessageSize: bodyBytesMax + FRAME_SLACK_BYTES, reconnectInterval: RECONNECT_MS, handshakeInterval: HANDSHAKE_MS,
      tcpKeepalive: 1, ipv6: true,
      ...(peer.brokerKey && { curveServerKey: peer.brokerKey, curvePublicKey: peer.publicKey, curveSecretKey: peer.secretKey }),
    });
    try {
      socket.events; // its monitor begins before the connection
      if (endpoint !== undefined) socket.connect(endpoint);
      return socket;
    } catch (error) {
      socket.close();
      const { code = "", message } = /** @type {NodeJS.ErrnoException} */ (error);
      // The binding names a monitor after its place in memory, where one may have been that is not all gone.
      if (code === "EADDRINUSE" && failed.push(socket) < OPEN_TRIES_MAX) continue;
      if (OUT_OF_DESCRIPTORS.has(code)) throw new Error(`cannot make a socket (${code}); raise the limit of open files`);
      throw endpoint === undefined ? error : noEndpoint(endpoint, message);
    }
  }
}

/** @param {string} endpoint @param {string} why */
const noEndpoint = (endpoint, why) =>
  new TypeError(`${endpoint} is no endpoint to connect to (${why}); give one such as tcp://127.0.0.1:5570`);

/** Throws a TypeError: a slip in one that is not connected to yet would show only when it is needed. @param {string[]} endpoints */
function checkEndpoints(endpoints) {
  if (endpoints.length === 0) return;
  const probe = new Dealer({ linger: 0 });
  try {
    for (const endpoint of endpoints) {
      try {
        if (!Addresses.of(endpoint)) probe.connect(endpoint); // else it is one, and would be looked up
      } catch (error) {
        throw noEndpoint(endpoint, /** @type {Error} */ (error).message);
      }
    }
  } finally {
    probe.close();
  }
}

/** @param {string} text */
function isEndpoint(text) {
  try {
    checkPort(text);
    checkEndpoints([text]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Until libzmq's input and output thread has ended what it is in the midst of. It tells the socket that a connection is over before it
 * gives back the messages that are left of it; the first event of a connection that begins later comes behind that.
 */
async function inputOutputTurn() {
  const socket = new Dealer({ linger: 0 });
  const events = socket.events;
  socket.connect(NOBODY);
  await events.receive();
  socket.close();
  while ((await events.receive()).type !== "end");
}

/** Runs a session on this thread's loop. Whoever has told the session something calls `wake()`. */
export class Driver {
  #peer;
  #session;
  #bodyBytesMax;
  #log;
  #afterTurn;
  /** @type {Dealer} */
  #socket;
  /** Of the endpoint's name, where it has one. @type {Addresses | undefined} */
  #addresses;
  /** Those of all endpoints with names. @type {Map<string, Addresses | undefined>} */
  #names = new Map();
  /** To a name's addresses nothing is said before one of them has answered, so that another one can take its place. */
  #maySay = false;
  #toldWhy = false; // why a name has no address, since the last word
  #namePauses = new Rounds(1);
  /** @type {NodeJS.Timeout | undefined} */
  #later;
  #sending = false;
  /** Until all that there was to say is said. @type {Promise<void>} */
  #sent = Promise.resolve();
  /** @type {NodeJS.Immediate | undefined} */
  #turn;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #due = Infinity;
  #reopened = 0; // since the last word
  /** What the socket is connected to. @type {string | undefined} */
  #place;
  #there = false; // a connection whose handshake has succeeded
  #lost = false; // such a one, and what it has brought may not all be read
  #ended = false;
  /** For each socket that is not all gone. @type {Set<Promise<void>>} */
  #watches = new Set();
  /** What ended it, where it was no end(): a mistake of this package. @type {unknown} */
  fault = undefined;

  /**
   * Throws an Error for an endpoint that is none.
   * @param {Peer} peer
   * @param {DrivenSession} session
   * @param {number} bodyBytesMax
   * @param {Log} log
   * @param {() => void} afterTurn Called at the end of each turn.
   */
  constructor(peer, session, bodyBytesMax, log, afterTurn) {
    this.#peer = peer;
    /** Where its socket may be. */
    this.endpoints = peer.endpoints;
    /** Where it is, or is about to be. */
    this.endpoint = peer.endpoints[0];
    this.#session = session;
    this.#bodyBytesMax = bodyBytesMax;
    this.#log = log;
    this.#afterTurn = afterTurn;
    checkEndpoints(peer.endpoints.slice(1));
    this.#socket = this.#open();
  }

  /**
   * Later connections are to these. What is no endpoint is left out; where none is left all stays as it is.
   * @param {string[]} endpoints
   */
  goRound(endpoints) {
    if (endpoints.join() === this.endpoints.join()) return;
    const good = endpoints.filter(isEndpoint);
    if (good.length > 0) this.endpoints = good;
  }

  /** Adds what a broker has told. @param {string[]} told */
  #learn(told) {
    if (told.length === 0) return;
    this.goRound([...new Set([...this.endpoints, ...told])].slice(0, ENDPOINTS_MAX));
    this.#session.goRound(this.endpoints.length);
  }

  get ended() {
    return this.#ended;
  }

  /** Has a turn soon: behind what can be read now. What callers want meanwhile travels together. */
  wake() {
    if (!this.#turn && !this.#ended) this.#turn = setImmediate(() => this.#takeTurn());
  }

  /** Sends what there is, without waiting, since the process ends. */
  sendAtOnce() {
    try {
      this.#socket.linger = LAST_LINGER_MS;
      for (let message; (message = this.#nextMessage()); ) this.#socket.send(/** @type {any} */ (message)).catch(() => {});
    } catch {
      // It sends already, and the queue is full.
    }
  }

  /**
   * Ends it when all that there was to say is said, after `lingerMs` in any case.
   * @param {number} lingerMs
   */
  async leave(lingerMs) {
    let timer;
    await Promise.race([this.#sent, new Promise((resolve) => (timer = setTimeout(resolve, lingerMs)))]);
    clearTimeout(timer);
    this.end(lingerMs);
  }

  /**
   * Until libzmq holds nothing of its sockets any more; requires that it is ended. A thread that ends earlier corrupts the process's
   * heap: libzmq gives back the messages it drops to the binding of the thread that sent them, which is gone then.
   * @returns {Promise<void>}
   */
  async gone() {
    await Promise.all(this.#watches);
    await inputOutputTurn();
  }

  /**
   * Ends it; messages that were sent have `lingerMs` to leave.
   * @param {number} lingerMs
   */
  end(lingerMs) {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#later);
    clearImmediate(this.#turn);
    if (this.#socket.closed) return; // no other one could be made
    this.#socket.linger = lingerMs;
    this.#socket.close();
  }

  // ---- its turns -----------------------------------------------------------------------------------------

  #takeTurn() {
    this.#turn = undefined;
    if (this.#ended) return;
    try {
      const at = now();
      if (at > this.#due + STILL_MS) this.#session.stoodStill(at);
      if (this.#lost) this.#letGo();
      this.#session.advance(at);
      this.#learn(this.#session.takeTold());
      if (this.#session.takeReopen(at)) this.#reopen(at);
      if (!this.#sending) this.#sent = this.#send();
      this.#afterTurn();
      this.#sleep();
    } catch (error) {
      this.#fail(error);
    }
  }

  #sleep() {
    clearTimeout(this.#timer);
    const due = this.#session.nextWakeup();
    this.#due = due ?? Infinity;
    if (this.#ended || due === undefined) return;
    this.#timer = setTimeout(() => this.wake(), Math.ceil(Math.min(Math.max(0, due - now()), LONGEST_SLEEP)));
  }

  async #send() {
    this.#sending = true;
    try {
      for (let message; (message = this.#nextMessage()); ) {
        const socket = this.#socket;
        try {
          await socket.send(/** @type {any} */ (message));
        } catch (error) {
          if (!socket.closed) throw error; // else there is another one, which says all again
        }
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#sending = false;
    }
  }

  #nextMessage() {
    return this.#ended || !this.#maySay ? undefined : this.#session.nextMessage(now());
  }

  /** @param {Dealer} socket */
  #serve(socket) {
    /** @param {unknown} error */
    const failed = (error) => {
      if (!socket.closed) this.#fail(error);
    };
    this.#receive(socket).catch(failed);
    const watch = this.#watch(socket).catch(failed).finally(() => this.#watches.delete(watch));
    this.#watches.add(watch);
  }

  /** @param {Dealer} socket */
  async #receive(socket) {
    for (let count = 1; !socket.closed; ++count) {
      const frames = await socket.receive();
      if (socket !== this.#socket || this.#ended) return;
      this.#session.received(frames, now());
      if (this.#reopened >= this.endpoints.length) this.#log("info", `the broker at ${this.endpoint} answers again`);
      this.#reopened = 0;
      this.#toldWhy = false;
      this.wake();
      if (count % RECEIVED_PER_TURN === 0) await new Promise(setImmediate);
    }
  }

  /** Until all that the socket held is freed, some time after it was closed. @param {Dealer} socket */
  async #watch(socket) {
    const events = socket.events;
    const { brokerKey } = this.#peer;
    const endpoint = this.endpoint; // of this socket
    for (;;) {
      const event = await events.receive();
      if (event.type === "end") return;
      if (socket !== this.#socket || this.#ended) continue;
      if (event.type === "handshake") this.#reached();
      else if (event.type === "disconnect") {
        this.#lost ||= this.#there;
        this.#there = false;
        this.#session.disconnected(now());
      }
      else if (event.type === "connect:retry") this.#foundNobody();
      else if (event.type === "handshake:error:auth") {
        this.#session.refused(
          `the broker at ${endpoint} does not take this key; its operator puts the public key into the broker's keys_folder`, now());
      } else if (event.type === "handshake:error:protocol" && event.error.code === "ERR_ZMTP_MECHANISM_MISMATCH") {
        this.#session.refused(
          brokerKey
            ? `the broker at ${endpoint} asks for no keys, and this peer shows one; leave the keys out`
            : `the broker at ${endpoint} asks for keys; give brokerKey, the broker's public key, and secretKey, a key of one's own`,
          now());
      } else continue;
      this.wake();
    }
  }

  /**
   * libzmq would make a new connection, on which it says what the old one had not said; the session makes its own, and the broker would
   * hear all of that twice. Where there was no handshake nothing was said, and libzmq goes on trying: the session takes what it comes to.
   */
  #letGo() {
    this.#lost = false;
    if (this.#place !== undefined && !this.#socket.closed) this.#socket.disconnect(this.#place);
    this.#place = undefined;
  }

  /** The session's next connection. @param {number} at */
  #reopen(at) {
    const { endpoints } = this;
    this.#reopened += 1;
    if (this.#reopened === endpoints.length) {
      // Each of them was tried.
      this.#log("warning", `no word from the broker at ${endpoints.join(", ")}: connecting again`);
    }
    this.endpoint = endpoints[(endpoints.indexOf(this.endpoint) + 1) % endpoints.length];
    this.#openAnew(at);
  }

  /** @param {number} at */
  #openAnew(at) {
    clearTimeout(this.#later);
    this.#later = undefined;
    this.#socket.close();
    try {
      this.#socket = this.#open();
    } catch (error) {
      this.#log("error", String(/** @type {Error} */ (error).message));
      this.#session.reopenFailed(at);
    }
  }

  // ---- its connections -----------------------------------------------------------------------------------

  /** A socket for the endpoint whose turn it is. Throws an Error. */
  #open() {
    const { endpoint } = this;
    if (!this.#names.has(endpoint)) this.#names.set(endpoint, Addresses.of(endpoint));
    this.#addresses = this.#names.get(endpoint);
    this.#maySay = !this.#addresses;
    this.#lost = this.#there = false;
    this.#place = this.#addresses ? undefined : endpoint;
    const socket = openSocket(this.#peer, this.#place, this.#bodyBytesMax);
    this.#serve(socket);
    if (this.#addresses) this.#connect(socket, this.#addresses).catch((error) => this.#fail(error));
    return socket;
  }

  /** @param {Dealer} socket @param {Addresses} addresses */
  async #connect(socket, addresses) {
    const why = await addresses.find(this.endpoints.length > 1 ? LOOKED_UP_WITHIN_MS : undefined);
    if (socket !== this.#socket || this.#ended) return;
    const address = addresses.take();
    if (address !== undefined) return socket.connect((this.#place = address));
    if (!this.#toldWhy) this.#log("warning", `the broker's name ${addresses.name} has no address: ${why}`);
    this.#toldWhy = true;
    this.#foundNobody();
  }

  #reached() {
    this.#addresses?.reached();
    this.#maySay = this.#there = true;
    this.#session.connected();
  }

  /** Nobody listens there: the next address of its name, or the next endpoint. */
  #foundNobody() {
    if (!this.#addresses || this.#maySay) return this.#session.foundNobody(now());
    if (this.#addresses.more) return this.#openAnew(now());
    this.#session.foundNobody(now());
    this.wake();
    if (this.endpoints.length > 1 || this.#later) return; // libzmq tells of each of its own tries
    const at = now();
    this.#later = setTimeout(() => this.#openAnew(now()), this.#namePauses.foundNobody(at) - at);
  }

  /** @param {unknown} error A mistake of this package: nobody may wait for ever. */
  #fail(error) {
    if (this.#ended) return;
    this.fault = error;
    this.#log("error", `the input and output of LaneMQ failed: ${error instanceof Error ? error.stack : error}`);
    this.end(0);
    this.#afterTurn();
  }
}
