// SPDX-License-Identifier: Apache-2.0
// The broker's page in a real browser: what it shows, what it does, and what it survives.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { AxeBuilder } from '@axe-core/playwright';
import { Room, browser, kHtml, until, kPatienceMs } from './support.mjs';

const kViews = ['now', 'budgets', 'workers', 'clients', 'jobs', 'dead', 'system'];
const kShots = process.env.LANEMQ_SHOTS;  // a folder; without it nothing is drawn
const kHeapSeconds = Number(process.env.LANEMQ_HEAP_SECONDS ?? 10);
const kHeapGrowsMax = 10 * 1024 * 1024;
const kBytesMax = 320 * 1024, kZippedMax = 110 * 1024;

const room = new Room();
let chrome, page, foreign;
const errors = [];

/** A page whose errors count, and whose requests go nowhere else. */
async function opened(options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'dark', ...options });
  const one = await context.newPage();
  one.on('pageerror', (error) => errors.push(`${error}`));
  one.on('console', (message) => { if (message.type() === 'error' && !/net::ERR_/.test(message.text())) errors.push(message.text()); });
  one.on('request', (request) => { if (!request.url().startsWith(room.url)) foreign.push(request.url()); });
  await one.goto(`${room.url}/`);
  await one.getByText('live', { exact: true }).waitFor();
  return one;
}

async function show(view, one = page) {
  await one.evaluate((hash) => { location.hash = hash; }, `#${view}`);
  await one.locator(`#views a[data-view="${view.split('/')[0]}"][aria-current]`).waitFor();
}

before(async () => {
  foreign = [];
  await room.open();
  for (let at = 0; at < 4; ++at) await room.submit('bad', `bad-${at}`, '--attempts-max', '1', '--client', 'team-a');
  await room.submit('chat', 'chat-0', '--client', `team-b${kHtml}`);
  await room.submit('long', 'long-0', '--client', 'team-a');
  await until(async () => { const { results, lanes } = await room.stats(); return results.dead === 4 && lanes.normal.running === 1; }, 'four dead jobs, and one that runs');
  await room.submit(`nobody${kHtml}`, 'nobody-0', '--lane', 'batch', '--timeout', '1h', '--client', 'team-a');
  await room.lanemq('pause', 'lane', 'batch', '--reason', kHtml);
  chrome = await browser();
  page = await opened();
}, { timeout: 12 * kPatienceMs });

after(async () => {
  await chrome?.close();
  room.close();
});

test('all files together stay within their bounds, zipped and not', async () => {
  const names = await page.evaluate(() => performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname).filter((path) => path.startsWith('/page/')));
  let plain = 0, zipped = 0;
  for (const path of new Set(['/', ...names])) {
    const answer = await fetch(room.url + path, { headers: { 'accept-encoding': 'identity' } });
    assert.match(answer.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'; style-src 'self'/);
    plain += (await answer.arrayBuffer()).byteLength;
    const packed = await new Promise((resolve, reject) => import('node:http').then(({ get }) => get(room.url + path, { headers: { 'accept-encoding': 'gzip' } }, (one) => {
      const pieces = [];
      one.on('data', (piece) => pieces.push(piece)).on('end', () => resolve(Buffer.concat(pieces))).on('error', reject);
    })));
    gunzipSync(packed);
    zipped += packed.length;
  }
  console.log(`the page: ${plain} bytes, ${zipped} zipped`);
  assert.ok(names.length > 10 && plain <= kBytesMax && zipped <= kZippedMax, `${names.length} files, ${plain} bytes, ${zipped} zipped`);
});

test('its figures are those of lanemq stats --json', async () => {
  for (const view of ['now', 'budgets', 'system']) {
    await show(view);
    await page.locator('[data-figure]').first().waitFor();
    await until(async () => {
      const stats = await room.stats();
      const shown = await page.$$eval('[data-figure]', (all) => all.map((one) => [one.dataset.figure, Number(one.dataset.value)]));
      const still = ['frames_refused', 'connections', 'connections_silent'];  // each look connects anew
      return shown.length > 0 && shown.every(([name, value]) => {
        const found = name.startsWith('counters.') ? stats.counters[name.slice(9)] : name.split('.').reduce((at, part) => at?.[part], stats);
        return still.includes(name.slice(9)) || found === value;
      });
    }, `the figures of ${view}`);
  }
});

test('names, reasons and errors that hold HTML stay text', async () => {
  for (const [view, text] of [['clients', `team-b${kHtml}`], ['workers', `nobody${kHtml}`], ['dead', kHtml], ['system', kHtml], ['jobs/nobody-0', `nobody${kHtml}`]]) {
    await show(view);
    await page.locator('main').getByText(text).first().waitFor();
  }
  assert.equal(await page.evaluate(() => window.hurt), undefined);
  assert.equal(await page.locator('img').count(), 0);
});

test('the sentence says what is wrong, since when and what to do', async () => {
  await show('now');
  const said = await until(async () => { const text = await page.locator('#verdict').innerText(); return /No worker serves/.test(text) && text; }, 'the sentence');
  assert.match(said, /1 job waits, (since \d\d:\d\d:\d\d|for more than)/);
  assert.match(said, /lanemq-worker --service/);
});

test('a job has a timeline and the sentence of lanemq explain', async () => {
  await show('jobs/bad-0');
  // The page also knows the lane of a job that is over.
  const explained = (await room.lanemq('explain', 'bad-0')).trim().split('\n')[0].replace('Job bad-0 ', 'Job bad-0 of lane "normal" ');
  await page.locator('.explain').waitFor();
  assert.ok((await page.locator('.explain').innerText()).includes(explained), explained);
  assert.match(await page.locator('.timeline').innerText(), /Accepted into lane normal[\s\S]*Attempt 1 ended[\s\S]*Ended: failed/);
});

/** Goes to a button with the Tab key, presses it, and says yes. */
async function press(name, reason) {
  const button = page.getByRole('button', { name, exact: true });
  await button.waitFor();
  await until(async () => {
    if (await button.evaluate((one) => one === document.activeElement).catch(() => false)) return true;
    await page.keyboard.press('Tab');
    return false;
  }, `the way to ${name} by the Tab key`);
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  if (reason) await page.keyboard.type(reason);
  const command = await page.locator('dialog .command').innerText();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  return command;
}

test('pause, drain and redrive go by the keyboard alone, and name their commands', async () => {
  await page.keyboard.press('1');
  assert.equal(await press('Pause lane critical', 'tidying up'), "lanemq pause lane critical --reason 'tidying up'");
  await until(async () => (await room.stats()).paused.includes('lane critical'), 'the pause');
  assert.equal(await press('Resume lane critical'), 'lanemq resume lane critical');
  await until(async () => !(await room.stats()).paused.includes('lane critical'), 'its end');

  await page.keyboard.press('6');
  await show('dead');
  const group = page.getByRole('button', { name: /^Redrive the 4 jobs/ });
  await group.waitFor();
  await press(await group.getAttribute('aria-label'));
  await until(async () => (await room.stats()).counters.jobs_redriven === 4, 'the redrive');

  await page.keyboard.press('3');
  await show('workers');
  const drain = page.getByRole('button', { name: /^Drain worker/ });
  await drain.waitFor();
  assert.match(await press(await drain.getAttribute('aria-label')), /^lanemq drain [0-9a-f]+$/);
  await until(async () => JSON.parse(await room.lanemq('workers', '--json')).workers?.[0]?.state !== 'ready', 'the drain');
  await page.getByRole('button', { name: /^Resume worker/ }).click();
  await page.keyboard.press('Enter');

  await show('system');
  for (const verb of ['pause', 'resume', 'redrive', 'drain'])
    await page.getByRole('region', { name: 'Changes' }).getByText(verb, { exact: true }).first().waitFor();
});

test('nothing serious for those who hear, enlarge or see colours otherwise', { timeout: 120_000 }, async () => {
  if (kShots) mkdirSync(kShots, { recursive: true });
  for (const colorScheme of ['dark', 'light'])
    for (const width of [1440, 360]) {
      const one = await opened({ viewport: { width, height: width === 360 ? 740 : 900 }, colorScheme });
      for (const view of [...kViews, 'jobs/long-0']) {
        await show(view, one);
        await one.locator('main .panel:not([hidden])').first().waitFor();
        await one.waitForFunction(() => !/Asking/.test(document.querySelector('main').innerText));
        const { violations } = await new AxeBuilder({ page: one }).analyze();
        const serious = violations.filter((found) => ['serious', 'critical'].includes(found.impact));
        assert.deepEqual(serious.map((found) => `${colorScheme} ${width} ${view}: ${found.id} ${found.nodes[0].html}`), []);
        assert.ok(await one.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is wider than ${width}`);
        const file = view.replace('jobs/long-0', 'job');
        if (kShots && colorScheme === 'dark' && width === 1440) await one.screenshot({ path: join(kShots, `${file}.png`) });
        if (kShots && view === 'now' && (colorScheme === 'light') !== (width === 360)) await one.screenshot({ path: join(kShots, `now-${colorScheme}-${width}.png`) });
      }
      await one.context().close();
    }
});

test('its memory does not grow', { timeout: 1000 * kHeapSeconds + 60_000 }, async () => {
  await show('now');
  const heap = () => page.evaluate(() => { globalThis.gc(); return performance.memory.usedJSHeapSize; });
  for (const view of kViews) await show(view);
  const before = await heap();
  const end = Date.now() + 1000 * kHeapSeconds;
  for (let at = 0; Date.now() < end; ++at) {
    await show(kViews[at % kViews.length]);
    await page.waitForTimeout(500);
  }
  await show('now');
  const grown = (await heap()) - before;
  console.log(`the heap grew by ${grown} bytes in ${kHeapSeconds} s`);
  assert.ok(grown <= kHeapGrowsMax, `${grown} bytes`);
});

test('a broker that is gone is told, and one that is back is shown by itself', async () => {
  await show('now');
  await room.stop_broker();
  await page.locator('body.lost').waitFor();
  assert.match(await page.locator('#verdict').innerText(), /does not answer|closed the connection/);
  await room.start_broker();
  await page.locator('body:not(.lost)').waitFor();
  await until(async () => (await page.locator('[data-figure="lanes.batch.queued"]').getAttribute('data-value')) === '1', 'the job that waits on disk');
});

test('there was no error, and no request to anybody else', () => {
  assert.deepEqual(errors, []);
  assert.deepEqual(foreign, []);
  for (const file of readdirSync(join(import.meta.dirname, '../../../broker/page'), { recursive: true }))
    if (/\.(js|html|css)$/.test(file)) assert.doesNotMatch(readFileSync(join(import.meta.dirname, '../../../broker/page', file), 'utf8'), /innerHTML|insertAdjacentHTML|document\.write|https?:\/\/(?!www\.w3\.org)/, file);
});
