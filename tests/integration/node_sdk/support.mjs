// SPDX-License-Identifier: Apache-2.0
// Real processes for the tests of the Node package: a broker on free ports, programs that use the package, and what stands between.
// LANEMQ_BIN names the folder of the programs, LANEMQ_TEST_PATIENCE the seconds that anything may take.
import { strict as assert } from "node:assert";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client, Worker } from "../../../client/node/lib/index.js";
import { fixedEndpoints, freeEndpoint } from "../ports.mjs";
import { PATIENCE, until } from "../until.mjs";

export { PATIENCE, fixedEndpoints, freeEndpoint, until };
const PROGRAMS = process.env.LANEMQ_BIN ?? fileURLToPath(new URL("../../../build/bin", import.meta.url));
const PACKAGE = new URL("../../../client/node/lib/index.js", import.meta.url).href;
export const STEADY = ["--set", "heartbeat=10s"];
export const CANCELLED_WITHIN = PATIENCE; // from Ctrl-C until the broker has no job of it any more; uncancelled they would stay for minutes

export const program = (name) => join(PROGRAMS, name);
const withPackage = (text) => String(text).replaceAll(`"lanemq"`, JSON.stringify(PACKAGE));

/** A child that is killed at the end of the test, and whose stderr is shown when it fails. */
export class Child {
  constructor(room, command, words, options = {}) {
    this.process = spawn(command, words, { stdio: "pipe", ...options });
    this.errors = "";
    this.process.stderr.on("data", (data) => (this.errors += data));
    this.ended = new Promise((resolve) => {
      this.process.on("exit", (code, signal) => resolve(signal ?? code));
      this.process.on("error", (error) => { // there is no such program
        this.errors += error.message;
        resolve(error.code);
      });
    });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    room.after(() => this.kill());
  }

  async line() {
    const { done, value } = await this.lines.next();
    if (done) throw new Error(`it has ended: ${this.errors}`);
    return value;
  }

  signal(name) {
    this.process.kill(name);
  }

  /** Its exit code, or the signal that ended it. */
  async wait(patience = PATIENCE) {
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`it goes on: ${this.errors}`)), patience).unref());
    return Promise.race([this.ended, late]);
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }
}

/** What a test has started; it ends in the other order. */
export class Room {
  #ends = [];
  env = {}; // of its programs, beside the environment

  constructor(t) {
    t.after(async () => {
      for (const end of this.#ends.reverse()) await end();
    });
  }

  after(end) {
    this.#ends.push(end);
  }

  /** A broker, and in `broker` where it is. */
  async start(...words) {
    const at = this.broker ?? (await fixedEndpoints());
    const endpoints = Object.entries(at).flatMap(([name, endpoint]) => [`--${name}`, endpoint]);
    if (!words.includes("--store")) words.push("--store", "memory");
    this.words = words;
    this.child = new Child(this, program("lanemq-broker"), [...endpoints, ...words]);
    const line = await this.child.line();
    this.broker = Object.fromEntries(line.split(" ").slice(1).map((word) => word.split("=")));
    assert(line.startsWith("ready "), line);
    return this;
  }

  /** Kills the broker, and starts it again at the same place. */
  async restart() {
    await this.child.kill();
    await this.start(...this.words);
  }

  connect(options = {}) {
    const client = new Client({ broker: this.broker.clients, ...options });
    this.after(() => client.close());
    return client;
  }

  async serve(services, { welcome = true, ...options } = {}) {
    const worker = new Worker(services, { broker: this.broker.workers, capacity: 4, drainTimeoutMs: 100, ...options });
    worker.start();
    this.after(async () => {
      worker.leave();
      await worker.wait().catch(() => {});
    });
    if (welcome) await worker.welcomed();
    return worker;
  }

  folder() {
    const path = mkdtempSync(join(tmpdir(), "lanemq-"));
    this.after(() => rmSync(path, { recursive: true }));
    return path;
  }

  /** A program that uses the package, in a process of its own. */
  script(text, ...words) {
    const path = join(this.folder(), "program.mjs");
    writeFileSync(path, withPackage(text));
    return this.node(path, ...words);
  }

  /** Node with these arguments, in which the package has its name. */
  node(...words) {
    const env = { ...process.env, LANEMQ_BROKER: this.broker.clients, LANEMQ_WORKER_BROKER: this.broker.workers, ...this.env };
    return new Child(this, process.execPath, words.map(withPackage), { env });
  }

  /** What `lanemq COMMAND --json` says. */
  async asked(...words) {
    const child = new Child({ after() {} }, program("lanemq"), ["--admin", this.broker.admin, ...words, "--json"]);
    let text = "";
    for await (const line of child.lines) text += line;
    assert.equal(await child.wait(), 0, child.errors);
    return JSON.parse(text);
  }

  stats() {
    return this.asked("stats");
  }

  async jobs() {
    return (await this.asked("jobs")).jobs;
  }

  async noJobsWithin(patience = CANCELLED_WITHIN) {
    await until(async () => (await this.jobs()).length === 0, "an empty list of jobs", patience);
  }

  async running(count) {
    await until(async () => (await this.stats()).lanes.normal.running === count, `${count} running jobs`);
  }
}

export const room = (t, ...words) => new Room(t).start(...(words.length > 0 ? words : STEADY));

/** A handler whose calls wait until they are released; it tells who came, and who was cancelled. */
export function held() {
  const [came, cancelled] = [[], []];
  let go;
  const released = new Promise((resolve) => (go = resolve));
  const handler = async (job) => {
    came.push(job.id);
    await Promise.race([released, new Promise((resolve) => job.signal.addEventListener("abort", resolve))]);
    if (job.cancelled) cancelled.push(job.id);
    return job.body;
  };
  return Object.assign(handler, { came, cancelled, go });
}

/** An endpoint where somebody takes connections and says nothing. */
export async function listener(room, port = 0, host = "127.0.0.1") {
  const open = new Set();
  const server = createServer((socket) => open.add(socket.on("error", () => {})));
  await new Promise((resolve) => server.listen(port, host, resolve));
  room.after(() => {
    server.close();
    open.forEach((one) => one.destroy());
  });
  return `tcp://${host}:${server.address().port}`;
}

/** Passes bytes on until it is told to cut all connections, or to close as well. */
export async function proxy(room, endpoint, nearPort = 0, nearHost = "127.0.0.1") {
  const [host, port] = endpoint.slice("tcp://".length).split(":");
  const open = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one.setNoDelay());
      one.pipe(other).on("error", () => {});
      one.on("close", () => open.delete(one) && other.destroy());
    }
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(nearPort, nearHost, resolve));
  const cut = () => open.forEach((one) => one.destroy());
  const close = () => {
    server.close();
    cut();
  };
  room.after(close);
  return { endpoint: `tcp://${nearHost}:${server.address().port}`, cut, close };
}

export const run = (name, words, options) => spawnSync(program(name), words, { encoding: "utf8", timeout: PATIENCE, ...options });

/** What a call takes, in ms. */
export async function timed(call) {
  const begun = performance.now();
  await call();
  return performance.now() - begun;
}

/** All that an asynchronous iterator yields. */
export async function all(iterator) {
  const found = [];
  for await (const each of iterator) found.push(each);
  return found;
}

export const texts = (bodies) => bodies.map((body) => body.toString());
