// SPDX-License-Identifier: Apache-2.0
// Programs and a browser for the tests of the page.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync, chmodSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

import { fixedEndpoints, freePort } from '../ports.mjs';
import { PATIENCE as kPatienceMs, until } from '../until.mjs';

export { kPatienceMs, until };

const kPrograms = process.env.LANEMQ_BIN ?? join(import.meta.dirname ?? '.', '../../../build/bin');
const run = promisify(execFile);

const kConfiguration = `
drain_timeout = "1s"
[[lane]]
name = "critical"
[[lane]]
name = "normal"
default = true
[[lane]]
name = "batch"
[[budget]]
name = "openai"
match = { service = "chat" }
limits = { requests_per_minute = 60, concurrency = 4 }
capacity = { requests_per_minute = 4 }
`;
/** What an upstream might say, if it wanted to. */
export const kHtml = '<img src=x onerror=window.hurt=1>';

/** A broker on ports of its own, that may be started again, and who works and asks. */
export class Room {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'lanemq-page-'));
    this.processes = [];
  }

  async open() {
    Object.assign(this, await fixedEndpoints(), { url: `http://127.0.0.1:${await freePort()}` });
    this.file('broker.toml', kConfiguration);
    chmodSync(this.file('fails', `#!/bin/sh\necho '${kHtml}' >&2\nexit 3\n`), 0o755);
    await this.start_broker();
    this.start('lanemq-worker', ['--broker', this.workers, '--name', `gpu-1${kHtml}`.slice(0, 40), '--capacity', '4', '--service', 'chat=echo', '--service', 'long=echo:1h', '--service', `bad=exec:${join(this.folder, 'fails')}`]);
    await until(async () => (await this.stats()).workers.connected === 1, 'the worker');
  }

  file(name, text) {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  start(program, args) {
    const child = spawn(join(kPrograms, program), args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, XDG_STATE_HOME: this.folder } });
    child.stderr.resume();
    this.processes.push(child);
    return child;
  }

  async start_broker() {
    this.broker = this.start('lanemq-broker', ['--config', join(this.folder, 'broker.toml'), '--clients', this.clients, '--workers', this.workers, '--admin', this.admin, '--http', this.url.slice('http://'.length), '--store', `sqlite:${join(this.folder, 'broker.db')}`]);
    await new Promise((resolve, reject) => {
      this.broker.stdout.once('data', resolve);
      this.broker.once('exit', (code) => reject(new Error(`the broker ended with ${code}`)));
    });
  }

  async stop_broker() {
    const ended = new Promise((resolve) => this.broker.once('exit', resolve));
    this.broker.kill('SIGKILL');
    await ended;
  }

  async lanemq(...args) {
    return (await run(join(kPrograms, 'lanemq'), args, { env: { ...process.env, LANEMQ_BROKER: this.clients, LANEMQ_ADMIN: this.admin, LANEMQ_CONNECT_TIMEOUT: `${kPatienceMs}ms` } })).stdout;
  }

  submit(service, id, ...more) {
    return this.lanemq('submit', '--service', service, '--id', id, '--no-wait', '--durable', ...more, '{}');
  }

  async stats() {
    return JSON.parse(await this.lanemq('stats', '--json'));
  }

  close() {
    for (const child of this.processes) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function browser(...more) {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--js-flags=--expose-gc', ...more] });
}
