// SPDX-License-Identifier: Apache-2.0
// The addresses of the names in endpoints. libzmq would look a name up on the one thread that has all its input and output, and
// Node on one of the few threads that its files share with it: where a name's server does not answer, either would stand still, and
// the process would not end before. So a process of its own looks up what the machine's table of hosts does not have.
import { spawn } from "node:child_process";
import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { basename, dirname } from "node:path";

/** @typedef {{ addresses: string[], why?: string }} Found Without an address: why. */
/** @typedef {{ found: Promise<Found>, begun: number, freshUntil: number, child?: import("node:child_process").ChildProcess }} LookUp */

// An answer is good for this long, and for some times as long as it took: one that comes after an endpoint's turn is there in its next.
const FRESH_MS = 2000;
const FRESH_FACTOR = 10;
const LOOK_UP_MAX = 30_000; // then it is given up
// One that takes longer has another beside it: the server that does not answer may answer the next question at once.
const AGAIN_AFTER = 6000;
// Processes at once. The oldest gives way: the names that have an answer have it long before.
const PROCESSES_MAX = 4;
const HOSTS_FILE = "/etc/hosts";
// An application with Node inside (Electron, a single executable) would begin itself anew.
const IS_NODE = /^node(js)?[-.\d]*(\.exe)?$/.test(basename(process.execPath)) && !process.versions.electron;
const PROGRAM = `require("node:dns").lookup(process.argv[1], { all: true }, (error, found) =>
  process.stdout.write(JSON.stringify(error ? { addresses: [], why: error.code } : { addresses: found.map(({ address }) => address) })))`;

/** @type {Map<string, LookUp>} By name: those under way, one each, and the answers that are fresh. */
const lookUps = new Map();

/** One endpoint, as one of an address for each of its name's. */
export class Addresses {
  /** @type {string[]} Of the last answer, those that were not tried. */
  #left = [];
  #before;
  #behind;

  /** @param {string} before @param {string} name @param {string} behind */
  constructor(before, name, behind) {
    this.#before = before;
    this.name = name;
    this.#behind = behind;
  }

  /**
   * Of an endpoint with a name; undefined: of any other, with which libzmq has nothing to look up.
   * @param {string} endpoint
   */
  static of(endpoint) {
    const [, before = "", name = "", behind = ""] = /^(tcp:\/\/(?:[^;]*;)?)([A-Za-z0-9][A-Za-z0-9._-]*)(:[0-9]+)$/.exec(endpoint) ?? [];
    return name && isIP(name) === 0 ? new Addresses(before, name, behind) : undefined;
  }

  /** Whether there is one that was not tried since the last answer. */
  get more() {
    return this.#left.length > 0;
  }

  /**
   * Looks the name up where all were tried, `withinMs` at most. Returns why there is none; undefined: there is one.
   * @param {number | undefined} withinMs
   * @returns {Promise<string | undefined>}
   */
  async find(withinMs) {
    if (this.more) return undefined;
    const { addresses, why } = await inTime(found(this.name), withinMs);
    this.#left = addresses.map((address) => `${this.#before}${isIP(address) === 6 ? `[${address}]` : address}${this.#behind}`);
    return why;
  }

  /** The next one's turn. */
  take() {
    return this.#left.shift();
  }

  /** It is reached: the next time its name is looked up anew. */
  reached() {
    this.#left = [];
  }
}

/** Ends all look-ups, which nobody waits for any more. @returns {Promise<unknown>} Until their processes are gone. */
export function endLookUps() {
  const ended = [...lookUps.values()].filter(({ child }) => child?.kill("SIGKILL"));
  return Promise.all(ended.map(({ found }) => found));
}

process.on("exit", endLookUps);

/**
 * @param {Promise<Found>} answer
 * @param {number | undefined} ms
 */
async function inTime(answer, ms) {
  if (ms === undefined) return answer;
  let timer;
  /** @type {Promise<Found>} */
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ addresses: [], why: `no answer within ${ms} ms` }), ms);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The addresses of a name, as its look-up says that is under way, or whose answer is fresh; else as a new one says.
 * @param {string} name
 */
function found(name) {
  const begun = performance.now();
  for (const [each, { freshUntil }] of lookUps) if (freshUntil <= begun) lookUps.delete(each);
  const known = lookUps.get(name);
  const isSlow = known && known.freshUntil === Infinity && begun - known.begun > AGAIN_AFTER;
  if (known && !isSlow) return known.found;
  const addresses = inHostsFile(name);
  /** @type {LookUp} */
  const lookUp = { begun, freshUntil: Infinity, ...(addresses.length > 0 ? { found: Promise.resolve({ addresses }) } : byProcess(name)) };
  if (known) lookUp.found = firstOf(known.found, lookUp.found);
  lookUps.set(name, lookUp);
  lookUp.found.then(({ addresses: those }) => {
    const ended = performance.now();
    // That there was no answer is no answer to keep.
    lookUp.freshUntil = ended + FRESH_MS + (those.length > 0 ? FRESH_FACTOR * (ended - begun) : 0);
  });
  return lookUp.found;
}

/** The first of two that has an address. @param {Promise<Found>} one @param {Promise<Found>} other @returns {Promise<Found>} */
function firstOf(one, other) {
  const orTheOther = (/** @type {Found} */ found, /** @type {Promise<Found>} */ rest) => (found.addresses.length > 0 ? found : rest);
  return Promise.race([one.then((found) => orTheOther(found, other)), other.then((found) => orTheOther(found, one))]);
}

/** @param {string} name @returns {string[]} */
function inHostsFile(name) {
  let text = "";
  try {
    text = readFileSync(HOSTS_FILE, "utf8");
  } catch {
    // There is none where this system has it.
  }
  const rows = text.split("\n").map((line) => line.toLowerCase().split("#")[0].trim().split(/\s+/));
  return rows.filter(([address, ...names]) => isIP(address) !== 0 && names.includes(name.toLowerCase())).map(([address]) => address);
}

/** @param {string} name @returns {Pick<LookUp, "found" | "child">} */
function byProcess(name) {
  if (!IS_NODE) return { found: inThisProcess(name) };
  const all = [...lookUps.values()].filter(({ freshUntil, child }) => child && freshUntil === Infinity);
  if (all.length >= PROCESSES_MAX) all[0].child?.kill("SIGKILL");
  let child;
  try {
    const env = { ...process.env, NODE_OPTIONS: "" }; // what the program is run with is none of its business
    const cwd = dirname(process.execPath); // which is there
    child = spawn(process.execPath, ["-e", PROGRAM, name], { env, cwd, stdio: ["ignore", "pipe", "ignore"], windowsHide: true });
  } catch {
    return { found: inThisProcess(name) }; // it may begin none
  }
  return { found: answerOf(child, name), child };
}

/** @param {import("node:child_process").ChildProcessByStdio<null, import("node:stream").Readable, null>} child @param {string} name */
function answerOf(child, name) {
  child.unref();
  /** @type {import("node:net").Socket} */ (child.stdout).unref();
  const timer = setTimeout(() => child.kill("SIGKILL"), LOOK_UP_MAX).unref();
  return /** @type {Promise<Found>} */ (new Promise((resolve) => {
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (said += text));
    child.on("error", () => resolve(inThisProcess(name))); // it could not begin
    child.on("close", () => {
      clearTimeout(timer);
      resolve(said ? JSON.parse(said) : { addresses: [], why: "its look-up was given up" });
    });
  }));
}

/** @param {string} name @returns {Promise<Found>} */
const inThisProcess = (name) =>
  lookup(name, { all: true }).then(
    (all) => ({ addresses: all.map(({ address }) => address) }), ({ code }) => ({ addresses: [], why: code }));
