// SPDX-License-Identifier: Apache-2.0
// A page of another origin, in a real browser, tries every door and port of an installation, with keys and without: nothing happens.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createServer as create_http } from 'node:http';
import { connect, createServer as create_tcp } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { join } from 'node:path';
import { freePort } from '../ports.mjs';
import { Room, browser, kPatienceMs, until } from './support.mjs';

// Chromium by itself asks before a page of the internet reaches this machine, or refuses. Others do not, and it did not for long: here
// all that is off, so that each try arrives. The name stands for one whose owner has let it lead here (DNS rebinding).
const kName = 'rebound.example';
const kFlags = [
  `--host-resolver-rules=MAP ${kName} 127.0.0.1`,
  '--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessRespectPreflightResults,PrivateNetworkAccessSendPreflights,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,IsolateSandboxedIframes',
  '--disable-site-isolation-trials', '--process-per-site', '--renderer-process-limit=1',  // else each frame is a process
];
// A form of text/plain joins a name and a value by "=": whatever has one can be a body of its.
const kWorker = 'own=1', kWaits = 'waits=1', kCopies = 'copy=1', kSaid = 'from=a-page';
const kHttpKey = 'an-operator-0123456789abcdef', kGatewayKey = 'a-caller-0123456789abcdef', kScraperKey = 'a-scraper-0123456789abcdef';
const kDoors = ['clients', 'workers', 'admin'];

// What a page can say to one who takes ZMTP 1.

const kFills = 256;  // bytes that the last frame of a request's head may still lack
const kFrameMax = 255;

/** MessagePack of texts, small numbers, and lists and maps of them. */
function packed(value) {
  if (Array.isArray(value)) return Buffer.concat([Buffer.of(0x90 | value.length), ...value.map(packed)]);
  if (typeof value === 'number') return Buffer.of(value);
  if (typeof value === 'string') return Buffer.concat([value.length < 32 ? Buffer.of(0xa0 | value.length) : Buffer.of(0xd9, value.length), Buffer.from(value)]);
  return Buffer.concat([Buffer.of(0x80 | Object.keys(value).length), ...Object.entries(value).flat().map(packed)]);
}

function frame(message) {
  assert.ok(message.length + 1 < kFrameMax);
  return Buffer.concat([Buffer.of(message.length + 1, 0), message]);
}

/** Bodies that are a message wherever in a frame the head ends: one of so many, all of one length, so that their heads are, too. */
function filled(message) {
  const told = frame(message);
  return Array.from({ length: kFills }, (_, fill) => Buffer.concat([Buffer.alloc(fill, 'A'), told, Buffer.alloc(kFills - fill, 'A')]));
}

/** The same in one body: frames of two bytes, a 1 (the length) and a 1 (more follow), then one of three for whoever stands on the one
    foot, which is the end of one and another for whoever stands on the other. */
const slid = (message) => Buffer.concat([Buffer.alloc(2 * kFills, 1), Buffer.of(2, 1, 1), frame(message)]);

/** Whether one who takes ZMTP 1 finds that message in those bytes. */
function holds(bytes, message) {
  for (let at = 0; at + 1 < bytes.length && bytes[at] > 0 && bytes[at] < kFrameMax; at += 1 + bytes[at])
    if (bytes.subarray(at + 2, at + 1 + bytes[at]).equals(message)) return true;
  return false;
}

const kMessages = (folder) => ({
  clients: [['submit', { service: 'openai', id: kSaid, reply: 'accepted' }]],
  workers: [['ready', { services: ['openai'], capacity: 1, name: kSaid }]],
  admin: [['admin', { do: 'pause', what: 'lane', name: 'normal', ref: 1 }], ['admin', { do: 'backup', path: join(folder, `${kCopies}-zmtp`), ref: 1 }]],
});

/** Says that message by ZMTP 3, and returns when the broker has answered. */
function say(endpoint, message) {
  return new Promise((resolve, reject) => {
    const greeting = Buffer.alloc(64);
    greeting.set([0xff]);
    greeting.set([0x7f, 3, 0, ...Buffer.from('NULL')], 9);
    const ready = Buffer.from('\x05READY\x0bSocket-Type\0\0\0\x06DEALER', 'latin1');
    const socket = connect(Number(new URL(endpoint).port), '127.0.0.1');
    let heard = '', is_said = false;
    socket.on('data', (piece) => {
      heard += piece.toString('latin1');
      if (heard.includes('LMQ1')) socket.destroy();
      if (!is_said && heard.includes('READY')) socket.write(Buffer.of(0, message.length, ...message));
      is_said ||= heard.includes('READY');
    });
    socket.on('error', reject).on('close', () => (heard.includes('LMQ1') ? resolve() : reject(new Error('no answer'))));
    socket.write(Buffer.concat([greeting, Buffer.of(4, ready.length), ready]));
  });
}

// What runs in a page.

/** Goes every way to an address, and returns what the page learned by each: nothing, that something came back, or a status.
    `WAY` in an address is the way's name. */
async function go_all_ways({ post, get, events, bytes, more, is_first }) {
  const place = document.body.appendChild(document.createElement('div'));
  place.hidden = true;
  const number = globalThis.places = (globalThis.places ?? 0) + 1;
  const body = Uint8Array.from(bytes), text = new TextDecoder('windows-1252').decode(body);  // which has a letter for each byte
  const of_type = (type) => new Blob([body], { type });
  const fetched = (url, options) => fetch(url, options).then((answer) => {
    answer.body?.cancel();
    return answer.type === 'opaque' ? 'opaque' : answer.status;
  }, () => 'nothing');
  const posted = (options) => (url) => fetched(url, { method: 'POST', ...options });
  const loaded = (tag) => (url) => new Promise((resolve) => {
    const one = place.appendChild(document.createElement(tag));
    one.onload = one.onerror = () => resolve('nothing');
    one.src = url;
  });
  const form = (type) => (url) => new Promise((resolve) => {
    const frame = document.createElement('iframe');
    const one = place.appendChild(document.createElement('form'));
    frame.name = one.target = `${type} ${number}`;
    place.append(frame);
    frame.onload = () => resolve('nothing');
    Object.assign(one, { action: url, method: 'POST', enctype: type, acceptCharset: 'windows-1252' });
    const field = (kind, name) => Object.assign(one.appendChild(document.createElement('input')), { type: kind, name });
    if (type === 'multipart/form-data') {
      for (const [name, value] of Object.entries(more)) field('hidden', name).value = value;
      const files = new DataTransfer();
      files.items.add(new File([body], 'lines.jsonl'));
      field('file', 'file').files = files.files;
    } else {
      const cut = text.indexOf('=');
      const area = one.appendChild(document.createElement('textarea'));
      Object.assign(area, { name: cut < 0 ? 'x' : text.slice(0, cut), value: text.slice(cut + 1) });
    }
    one.submit();
  });
  const opened = (kind) => (url) => new Promise((resolve) => {
    const one = new kind(url);
    const ends = (how) => () => { resolve(how); one.close(); };
    Object.assign(one, { onopen: ends('open'), onerror: ends('nothing'), onclose: ends('nothing') });
  });
  const sandboxed = (url) => new Promise((resolve) => {  // its origin is "null"
    const frame = document.createElement('iframe');
    frame.sandbox = 'allow-scripts';
    frame.srcdoc = `<script>fetch(${JSON.stringify(url)}, { method: 'POST', mode: 'no-cors', body: new Blob([Uint8Array.from(${JSON.stringify(bytes)})]) }).then(() => 'opaque', () => 'nothing').then((how) => parent.postMessage(how, '*'))</script>`;
    addEventListener('message', ({ source, data }) => { if (source === frame.contentWindow) resolve(data); });
    place.append(frame);
  });
  const ways = {
    'cors': [post, posted({ body: of_type('text/plain') })],
    'no-cors': [post, posted({ mode: 'no-cors', body: of_type('') })],
    'json': [post, posted({ headers: { 'content-type': 'application/json' }, body })],
    'put': [post, (url) => fetched(url, { method: 'PUT', body })],
    'delete': [post, (url) => fetched(url, { method: 'DELETE', body })],
    'form-text': [post, form('text/plain')],
    'form-multipart': [post, form('multipart/form-data')],
    'beacon': [post, async (url) => { if (!navigator.sendBeacon(url, of_type('text/plain'))) throw new Error('no beacon'); return 'nothing'; }],
    'beacon-blob': [post, async (url) => { if (!navigator.sendBeacon(url, of_type(''))) throw new Error('no beacon'); return 'nothing'; }],
    'get': [get, (url) => fetched(url)],
    'eventsource': [events, opened(EventSource)],
  };
  // These once a door: what they say is no other, and frames cost a browser time. Sockets of a page whose others failed it delays, by seconds.
  const once = {
    'websocket': [events.replace('http:', 'ws:'), opened(WebSocket)],
    'sandboxed': [post, sandboxed],
    'form-urlencoded': [post, form('application/x-www-form-urlencoded')],
    'get-no-cors': [get, (url) => fetched(url, { mode: 'no-cors' })],
    'img': [get, loaded('img')],
    'script': [get, loaded('script')],
    'iframe': [get, loaded('iframe')],
  };
  if (is_first) Object.assign(ways, once);
  const learned = await Promise.all(Object.entries(ways).map(async ([name, [url, way]]) => [name, await way(url.replace('WAY', name))]));
  place.remove();
  return Object.fromEntries(learned);
}

/** Posts each of those bodies. */
async function post_all({ url, bodies }) {
  for (let at = 0; at < bodies.length; at += 64)
    await Promise.all(bodies.slice(at, at + 64).map((one) => fetch(url, { method: 'POST', mode: 'no-cors', body: new Blob([Uint8Array.from(atob(one), (letter) => letter.charCodeAt(0))]) }).catch(() => {})));
}

// The page.

let chrome, page, foreign, control;
let beacons = 0;  // that are under way

/** A new page is at that address then, made by the test, whoever listens there. */
async function visit(url) {
  await page?.close();
  page = await chrome.newPage();
  // Beacons tell nobody how they end: the browser does.
  const counts = (by) => (request) => { if (request.resourceType() === 'ping') beacons += by; };
  page.on('request', counts(1)).on('requestfinished', counts(-1)).on('requestfailed', counts(-1));
  const made = (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><body>' });
  await page.route(url, made);
  await page.goto(url);
  await page.unroute(url, made);
}

/** Every way from the page to what `targets` name of the door at `to`; returns what the page learned, by path and way. */
async function try_all(to, targets) {
  const learned = [];
  for (const [at, { post, get = post, events = post, more = {}, bytes }] of targets.entries())
    for (const [way, what] of Object.entries(await page.evaluate(go_all_ways, { is_first: at === 0,  post: to + post, get: to + get, events: to + events, more, bytes: [...bytes] })))
      learned.push({ path: post, way, what });
  await until(() => beacons === 0, 'the ends of all beacons');
  return learned;
}

const try_bodies = (to, bodies) => page.evaluate(post_all, { url: `${to}/`, bodies: bodies.map((one) => one.toString('base64')) });

/** Where pages are, and what they call the doors at those ports. One of a door's own name and port is what DNS rebinding makes. */
const kFrom = 'another port';
const kKinds = {
  [kFrom]: (ports) => [{ from: foreign('127.0.0.1'), to: '127.0.0.1', ports }],
  'another name': (ports) => [{ from: foreign(kName), to: '127.0.0.1', ports }],
  'a name that leads here': (ports) => ports.map((port) => ({ from: `http://${kName}:${port}/made-by-the-test`, to: kName, ports: [port] })),
};

// The test's own server, where each way has to arrive. It keeps what came, byte for byte, and answers as HTTP.

class Control {
  constructor() {
    this.heard = [];  // of each connection
    this.server = create_tcp((socket) => {
      let bytes = Buffer.alloc(0), told = false;
      this.heard.push(() => bytes);
      socket.on('error', () => {}).on('data', (piece) => {
        bytes = Buffer.concat([bytes, piece]);
        const head = bytes.indexOf('\r\n\r\n');
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(bytes.subarray(0, Math.max(head, 0)).toString('latin1'))?.[1] ?? 0);
        if (told || head < 0 || bytes.length < head + 4 + length) return;
        told = true;
        socket.end('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok');
      });
    });
  }

  get port() { return this.server.address().port; }
  get streams() { return this.heard.map((bytes) => bytes()); }
  listen() { return new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve)); }
  close() { this.server.close(); }

  /** By which methods each way came. */
  ways() {
    const all = {};
    for (const [, method, way] of this.streams.map((bytes) => /^([A-Z]+) \/to\/(\S+)/.exec(bytes.toString('latin1')) ?? []))
      if (way && !(all[way] ??= []).includes(method)) all[way].push(method);
    return all;
  }
}

// Installations.

class Installation extends Room {
  constructor(has_keys) {
    super();
    this.has_keys = has_keys;
    this.as_client = [];
  }

  start(program, args) {
    const child = super.start(program, args);
    child.log = '';
    child.stderr.on('data', (piece) => { child.log += piece; });
    return child;
  }

  lanemq(...args) { return super.lanemq(...this.as_client, ...args); }
  async list(verb, ...more) { return JSON.parse(await this.lanemq(verb, '--json', ...more))[verb]; }
  port_of(door) { return new URL(this[door]).port; }

  secret(name, text) {
    const path = this.file(name, text);
    chmodSync(path, 0o600);
    return `file:${path}`;
  }

  /** Makes a key, and returns the options of who has it. */
  async key_of(name, role) {
    const path = join(this.folder, `${name}.key`);
    this.file(`keys.d/${name}.toml`, await this.lanemq('keygen', name, '--role', role, '--out', path));
    return ['--broker-key', this.public_key, '--secret-key', `file:${path}`];
  }

  async open() {
    Object.assign(this, await fixed());
    this.ran = join(this.folder, 'ran');
    const program = this.file('program', `#!/bin/sh\necho ran >> '${this.ran}'\ncat\n`);
    chmodSync(program, 0o755);
    let worker = [], gateway = [], keys = '';
    this.as_operator = this.as_caller = {};
    if (this.has_keys) {
      mkdirSync(join(this.folder, 'keys.d'));
      const path = join(this.folder, 'broker.key');
      this.public_key = (await this.lanemq('keygen', '--broker', '--out', path)).trim();
      worker = [...await this.key_of('worker-1', 'worker'), '--metrics-key', this.secret('scraper', kScraperKey)];
      gateway = await this.key_of('gateway-1', 'gateway');
      this.as_client = await this.key_of('alice', 'gateway');  // which may see the figures, too
      keys = `secret_key = "file:${path}"\nkeys_folder = "${join(this.folder, 'keys.d')}"\n`;
      this.as_operator = { authorization: `Bearer ${kHttpKey}` };
      this.as_caller = { authorization: `Bearer ${kGatewayKey}` };
    }
    const hash = createHash('sha256').update(kHttpKey).digest('hex');
    this.file('broker.toml', `${keys}drain_timeout = "1s"\n[[lane]]\nname = "normal"\ndefault = true\n${keys && `[[http_key]]\nname = "operator"\nsha256 = "${hash}"\nrole = "operator"\n`}`);
    this.file('gateway.toml', keys && `[[key]]\nname = "caller"\nsecret = "${this.secret('caller', kGatewayKey)}"\nservices = ["openai"]\n`);
    await this.start_broker();
    this.worker = this.start('lanemq-worker', ['--broker', this.workers, '--name', kWorker, '--service', `openai=exec:${program}`, '--metrics', new URL(this.metrics).host, ...worker]);
    this.gate = this.start('lanemq-gateway', ['--config', join(this.folder, 'gateway.toml'), '--broker', this.clients, '--listen', new URL(this.gateway).host, '--lanes', 'normal', '--state', join(this.folder, 'gateway'), ...gateway]);
    await this.submit('nobody', kWaits);
    await until(async () => (await this.list('workers')).length === 1, 'the worker');
    for (const url of [`${this.gateway}/readyz`, `${this.metrics}/readyz`])
      await until(async () => (await fetch(url).catch(() => undefined))?.ok, url);
    this.at_first = await this.state();
  }

  /** All that a page could have changed. */
  async state() {
    const jobs = {};
    for (const state of ['queued', 'delayed', 'running', 'succeeded', 'failed', 'cancelled', 'expired'])
      for (const { id } of await this.list('jobs', '--state', state)) jobs[id] = state;
    const { lanes, counters, workers, paused } = await this.stats();
    const told = await (await fetch(`${this.gateway}/metrics`, { headers: this.as_caller })).text();
    return {
      jobs,
      paused, pauses: await this.list('pauses'), dead: await this.list('dead'), changes: await this.list('changes'),
      workers: (await this.list('workers')).map(({ name, state, services }) => ({ name, state, services })),
      lost: workers.lost, returned: counters.workers_returned,
      accepted: lanes.normal.accepted, duplicates: lanes.normal.duplicates,
      gateway: told.split('\n').filter((line) => /^lanemq_gateway_(jobs_total|batches|batch_lines_\w+|files|file_bytes|upload_bytes)\b/.test(line)),
      files: readdirSync(this.folder, { recursive: true }).filter((name) => !/\.db-(wal|shm|journal)$/.test(name)).sort(),
      alive: this.processes.every((one) => one.exitCode === null && one.signalCode === null),
    };
  }

  /** What a page would like to say, by door. */
  targets() {
    const all = { url: [], gateway: [], metrics: [] };
    for (const [door, messages] of Object.entries(kMessages(this.folder)))
      all[door] = messages.map((message) => ({ post: '/', bytes: slid(packedAs(message)) }));
    const says = (door, post, fields, more) => all[door].push({ post, fields, bytes: Buffer.from(JSON.stringify(fields)), ...more });
    const query = (path, fields) => `${path}?${new URLSearchParams(fields)}`;
    const verb = (name, fields) => says('url', `/v1/${name}`, fields, { get: query(`/v1/${name}`, fields), events: query('/v1/watch', { id: kWaits }) });
    verb('pause', { what: 'lane', name: 'normal', reason: kSaid });
    verb('backup', { path: join(this.folder, `${kCopies}-http`) });
    verb('drain', { name: kWorker });
    verb('cancel', { id: kWaits });
    const asked = { model: 'gpt-x', messages: [{ role: 'user', content: kSaid }] };
    says('gateway', '/v1/chat/completions', asked, { get: '/v1/models' });
    says('gateway', '/v1/jobs', { id: 'from-a-page', service: 'openai', body: { text: kSaid } }, { get: '/v1/jobs/from-a-page', events: '/v1/jobs/from-a-page/events' });
    says('gateway', '/v1/files', { custom_id: kSaid, method: 'POST', url: '/v1/chat/completions', body: asked }, { more: { purpose: 'batch' } });
    says('gateway', '/v1/batches', { input_file_id: 'file-x', endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { said: kSaid } });
    says('metrics', '/metrics', { said: kSaid });
    return all;
  }
}

const packedAs = ([op, fields]) => packed(['LMQ1', op, fields]);

async function fixed() {
  const url = async () => `http://127.0.0.1:${await freePort()}`;
  const endpoint = async () => `tcp://127.0.0.1:${await freePort()}`;
  return { clients: await endpoint(), workers: await endpoint(), admin: await endpoint(), url: await url(), gateway: await url(), metrics: await url() };
}

let pages;

before(async () => {
  pages = create_http((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><body>'));
  await new Promise((resolve) => pages.listen(0, '127.0.0.1', resolve));
  foreign = (host) => `http://${host}:${pages.address().port}/`;
  control = new Control();
  await control.listen();
  chrome = await browser(...kFlags);
}, { timeout: 12 * kPatienceMs });

after(async () => {
  await chrome?.close();
  control?.close();
  pages?.close();
});

test('each way arrives, at a server of the test\'s own', async () => {
  const message = packedAs(kMessages('/tmp').admin[0]);
  const posts = ['cors', 'no-cors', 'sandboxed', 'form-text', 'form-multipart', 'form-urlencoded', 'beacon', 'beacon-blob'];
  const gets = ['get', 'get-no-cors', 'img', 'script', 'iframe', 'websocket', 'eventsource'];
  for (const [kind, where] of Object.entries(kKinds)) {
    control.heard = [];
    const [{ from, to }] = where([control.port]);
    await visit(from);
    await try_all(`http://${to}:${control.port}`, [{ post: '/to/WAY', bytes: slid(message) }]);
    // These a browser sends to another origin only where that says yes; that question is what arrives.
    const asks = from.includes(`:${control.port}/`) ? { json: ['POST'], put: ['PUT'], delete: ['DELETE'] } : { json: ['OPTIONS'], put: ['OPTIONS'], delete: ['OPTIONS'] };
    assert.deepEqual(control.ways(), { ...Object.fromEntries(posts.map((way) => [way, ['POST']])), ...Object.fromEntries(gets.map((way) => [way, ['GET']])), ...asks }, kind);
    // And to one who takes ZMTP 1 they say what was meant.
    const saying = new Set(control.streams.filter((bytes) => holds(bytes, message)).map((bytes) => /\/to\/(\S+)/.exec(bytes.toString('latin1'))[1]));
    for (const way of posts.filter((one) => one !== 'form-urlencoded')) assert.ok(saying.has(way), `${kind}: ${way} in ${[...saying]}`);
  }
  control.heard = [];
  await visit(foreign('127.0.0.1'));
  await try_bodies(`http://127.0.0.1:${control.port}`, filled(message));
  assert.ok(control.streams.length >= kFills, `${control.streams.length}`);
  assert.ok(control.streams.some((bytes) => holds(bytes, message)));
});

for (const has_keys of [false, true])
  describe(has_keys ? 'with keys' : 'without keys', () => {
    const it = new Installation(has_keys);
    let seconds;

    before(() => it.open(), { timeout: 12 * kPatienceMs });
    after(() => it.close());

    test('a page of another origin reads nothing', async () => {
      const since = performance.now();
      const read = [];
      const doors = Object.entries(it.targets()).map(([door, targets]) => ({ door, targets, port: it.port_of(door) }));
      for (const [kind, where] of Object.entries(kKinds))
        for (const { from, to, ports } of where(doors.map(({ port }) => port))) {
          await visit(from);
          await Promise.all(doors.filter(({ port }) => ports.includes(port)).map(async ({ door, targets, port }) => {
            const may_see = from.includes(`:${port}/`) ? (what) => what >= 400 : () => false;  // its own origin's refusals
            for (const { path, way, what } of await try_all(`http://${to}:${port}`, targets))
              if (!['nothing', 'opaque'].includes(what) && !may_see(what)) read.push(`${kind}, ${door}${path}, ${way}: ${what}`);
          }));
        }
      // For a page that does not know what its browser says before its body.
      await visit(foreign('127.0.0.1'));
      await Promise.all(Object.entries(kMessages(it.folder)).map(([door, [message]]) => try_bodies(`http://127.0.0.1:${it.port_of(door)}`, filled(packedAs(message)))));
      seconds = (performance.now() - since) / 1000;
      assert.deepEqual(read, []);
    });

    test('and nothing has happened', async () => {
      assert.deepEqual(await it.state(), it.at_first);
      assert.deepEqual(it.at_first.jobs, { [kWaits]: 'queued' });
      assert.equal(it.at_first.accepted, 1);
      assert.deepEqual(it.at_first.workers, [{ name: kWorker, state: 'ready', services: ['openai'] }]);
      assert.ok(!existsSync(it.ran));
      assert.doesNotMatch(it.broker.log, / admin\./);
    });

    test('the log tells of it, for each door of ZeroMQ, and not for each try', () => {
      for (const door of kDoors) {
        const names = door === 'admin' ? /\bdoor=(admin|operators)\b/ : RegExp(`\\bdoor=${door}\\b`);
        const lines = it.broker.log.split('\n').filter((line) => names.test(line));
        assert.ok(lines.length >= 1, `nothing of ${door}: ${it.broker.log}`);
        assert.ok(lines.length <= seconds + 2, `${lines.length} lines of ${door} in ${seconds} s`);
      }
    });

    test('who may gets all that', async () => {
      assert.equal((await it.lanemq('submit', '--service', 'openai', '--id', 'honest', '{}')).trim(), '{}');
      assert.ok(existsSync(it.ran));
      const post = async (url, headers, fields) => (await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(fields) })).status;
      const { url, gateway } = it.targets();
      for (const { post: path, fields } of url) assert.equal(await post(it.url + path, it.as_operator, fields), 200, path);
      assert.ok(await post(`${it.gateway}/v1/jobs`, it.as_caller, gateway.find(({ post }) => post === '/v1/jobs').fields) < 300);
      assert.equal((await it.list('jobs', '--state', 'cancelled'))[0].id, kWaits);
      assert.ok(existsSync(join(it.folder, `${kCopies}-http`)));
      assert.ok((await it.list('changes')).some(({ verb }) => verb === 'pause'));
      await it.lanemq('resume', 'lane', 'normal');
      // The very messages that the page had, of one who speaks ZMTP 3.
      for (const [door, messages] of Object.entries(kMessages(it.folder)))
        for (const message of messages.map(packedAs)) {
          if (has_keys && door !== 'admin') await assert.rejects(say(it[door], message));
          else await say(it[door], message);
        }
      assert.equal((await it.list('pauses')).length, 1);
      assert.ok(existsSync(join(it.folder, `${kCopies}-zmtp`)));
      if (!has_keys) assert.match(await it.lanemq('status', kSaid), /queued/);
    });
  });
