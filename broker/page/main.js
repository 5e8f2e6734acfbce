// SPDX-License-Identifier: Apache-2.0
// The frame: which view is shown, the sentence on top, the connection, the key and the colours.
import { h, fill, icon, say } from './dom.js';
import { Samples, get, key } from './broker.js';
import { set_role, tell } from './actions.js';
import { verdict_of } from './verdict.js';
import { clock, duration, many } from './words.js';
import { now_view } from './views/now.js';
import { budgets_view } from './views/budgets.js';
import { workers_view } from './views/workers.js';
import { clients_view } from './views/clients.js';
import { jobs_view } from './views/jobs.js';
import { dead_view } from './views/dead.js';
import { system_view } from './views/system.js';

const kViews = [
  ['now', 'Now', now_view], ['budgets', 'Budgets', budgets_view], ['workers', 'Workers', workers_view],
  ['clients', 'Clients', clients_view], ['jobs', 'Jobs', jobs_view], ['dead', 'Dead', dead_view], ['system', 'System', system_view],
];
const kThemePlace = 'lanemq.theme';
/** A view asks for its lists so often. */
const kListEveryMs = 2000;
const kHistoryEveryMs = { '15m': 5000, '24h': 60000 };
/** Rates are of the last so many samples. */
const kSamplesKept = 11;

const place = (id) => document.getElementById(id);
const state = { samples: [], view: null, name: '', rest: '', link: 'waiting', parts: {}, lost_at: 0, locked: false };

/** What views are given. */
const room = {
  latest: () => state.samples.at(-1),
  /** How much a counter grows in a second, lately. `of(stats)`: the counter. */
  rate(of) {
    const first = state.samples[0], last = state.samples.at(-1);
    if (!last || first === last) return undefined;
    const grown = of(last.stats) - of(first.stats);
    return Number.isFinite(grown) ? Math.max(0, grown) / ((last.at_ms - first.at_ms) / 1000) : undefined;
  },
  history: (span, prefix) => get('history', { span, prefix }),
  go(hash) { location.hash = hash; },
  refresh: () => lists(),
};

function take_sample(sample) {
  const before = state.samples.at(-1);
  // Another life of the broker: its counters began anew.
  if (before && sample.stats.uptime_ms < before.stats.uptime_ms) state.samples = [];
  state.samples.push(sample);
  if (state.samples.length > kSamplesKept) state.samples.shift();
  if (state.link !== 'live') came_back(state.link);
  state.locked = false;
  show_verdict();
  state.view?.sample?.(sample);
  fill(place('foot'), `LaneMQ ${sample.stats.version} · up ${duration(sample.stats.uptime_ms)} · as of ${clock(sample.at_ms)}`);
}

function came_back(from) {
  state.link = 'live';
  document.body.classList.remove('lost');
  fill(place('link'), icon('good'), 'live');
  if (from === 'lost') tell('The broker is back.');
  learn_role();
  look_back();
  lists();
}

function lost(error) {
  if (error.status === 401 || error.status === 403) return locked(error);
  if (state.link !== 'lost') state.lost_at = Date.now();
  state.link = 'lost';
  document.body.classList.add('lost');
  fill(place('link'), icon('bad'), 'lost');
  const since = state.samples.length ? `; the figures are of ${clock(state.samples.at(-1).at_ms)}` : '';
  put_verdict('bad', `${error.message}, since ${clock(state.lost_at)}${since}`.replace(/^the/, 'The'),
    'This page tries again every second and goes on by itself. Is the broker running?', 'lanemq check');
}

function locked(error) {
  if (state.locked) return;
  state.locked = true;
  state.link = 'locked';
  fill(place('link'), icon('warning'), 'locked');
  put_verdict('warning', error.status === 401 ? 'A key is needed to look' : error.message, 'Say one with “Key”; it is forgotten when this tab is closed.');
  if (key.get()) tell(error.message, true);
  ask_key();
}

async function learn_role() {
  try {
    const me = await get('me');
    set_role(me.role === 'operator', `${me.who} may look and change nothing (role viewer)`);
    say(place('key'), me.keys ? (me.role === 'operator' ? 'Key: operator' : 'Key: viewer') : 'Key');
    place('key').hidden = !me.keys;
  } catch { set_role(false, 'the broker does not say who you are'); }
}

function put_verdict(level, what, help, command, more) {
  const box = place('verdict');
  const said = [level, what, help, command, more?.hash, more?.text].join('\n');
  if (box.dataset.said === said) return;
  box.dataset.said = said;
  box.className = `verdict ${level}`;
  fill(box, icon(level), h('div', null, h('p', { class: 'what' }, what),
    help ? h('p', { class: 'help' }, help, command ? [' ', h('code', null, command)] : null) : null),
  more ? h('a', { href: more.hash }, more.text) : null);
}

function show_verdict() {
  const { stats, at_ms: now } = room.latest();
  const verdict = verdict_of(stats, [state.parts['15m'], state.parts['24h']], now);
  if (verdict.level === 'good') { document.title = 'LaneMQ'; return put_verdict('good', verdict.what); }
  document.title = `${verdict.level === 'notice' ? '·' : '!'} LaneMQ`;
  const since = verdict.since === null ? ', for more than the history goes back' : `, since ${clock(verdict.since)}`;
  const others = verdict.others.length ? ` (And ${many(verdict.others.length, 'more matter')}: ${verdict.others[0].what}.)` : '';
  put_verdict(verdict.level, `${verdict.what}${since}.`, verdict.help + others, undefined,
    verdict.view === state.name ? undefined : { hash: `#${verdict.view}`, text: `Show ${verdict.view}` });
}

/** What the verdict needs of the history. */
async function look_back() {
  for (const span of ['15m', '24h'])
    try {
      state.parts[span] = await room.history(span, 'broker.');
    } catch { /* the samples tell of a lost broker */ }
}

let looking = false;
/** The lists of the view that is shown. */
async function lists() {
  if (looking || document.hidden || state.link !== 'live' || !state.view?.lists) return;
  looking = true;
  const mine = state.view;
  try {
    await mine.lists();
  } catch (error) {
    if (mine === state.view && error.status) tell(error.message, true);
  } finally {
    looking = false;
  }
  if (mine !== state.view) lists();
}

function show_view() {
  const [name, rest = ''] = decodeURIComponent(location.hash.slice(1)).split(/\/(.*)/s);
  const [known, title, make] = kViews.find(([one]) => one === name) ?? kViews[0];
  if (state.view && state.name === known && state.view.open) { state.view.open(rest); return lists(); }
  state.view?.close?.();
  state.name = known;
  state.view = make(room);
  fill(place('main'), h('h1', { class: 'hidden' }, title), state.view.element);
  for (const link of place('views').querySelectorAll('a')) {
    if (link.dataset.view === known) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  state.view.open?.(rest);
  if (room.latest()) { state.view.sample?.(room.latest()); if (state.link === 'live') show_verdict(); }
  charts(true);
  lists();
}

let drawn_at = 0;
/** The charts of the view, as often as their span asks for. */
async function charts(now = false) {
  if (!state.view?.charts || document.hidden || state.link !== 'live') return;
  const every = kHistoryEveryMs[state.view.span ?? '15m'];
  if (!now && Date.now() - drawn_at < every) return;
  drawn_at = Date.now();
  try { await state.view.charts(); } catch { /* as above */ }
}
room.redraw = () => charts(true);

const kThemes = ['system', 'dark', 'light'];
function theme(next) {
  const current = localStorage.getItem(kThemePlace) ?? 'system';
  const chosen = next ? kThemes[(kThemes.indexOf(current) + 1) % kThemes.length] : current;
  localStorage.setItem(kThemePlace, chosen);
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  say(place('theme'), `Colours: ${chosen}`);
  state.view?.redraw?.();
}

function ask_key() {
  const dialog = place('ask');
  if (dialog.open) return;
  const input = h('input', { type: 'password', name: 'key', autocomplete: 'off', 'aria-describedby': 'key-help' });
  fill(dialog, h('form', { method: 'dialog', onsubmit: () => { key.set(input.value.trim()); state.locked = false; samples.again(); } },
    h('h2', { id: 'ask-title' }, 'Which key?'),
    h('label', null, h('span', null, 'Key of an [[http_key]]'), input),
    h('p', { id: 'key-help' }, 'A viewer’s key looks, an operator’s also changes. It is kept in this tab alone.'),
    h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Not now'),
      h('button', { type: 'submit', class: 'primary' }, 'Use it'))));
  dialog.onclose = () => place('key').focus();
  dialog.showModal();
  input.focus();
}

/** g and a view's first letter goes there; ? says so. */
function keyboard(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return;
  const view = kViews[Number(event.key) - 1];
  if (view) location.hash = view[0];
  if (event.key === '/') { event.preventDefault(); document.querySelector('main input')?.focus(); }
}

fill(place('views'), kViews.map(([name, title], at) =>
  h('li', null, h('a', { href: `#${name}`, data: { view: name }, title: `Key ${at + 1}` }, title))));
place('theme').addEventListener('click', () => theme(true));
place('key').addEventListener('click', ask_key);
place('key').textContent = 'Key';
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => state.view?.redraw?.());
addEventListener('hashchange', show_view);
addEventListener('keydown', keyboard);
document.addEventListener('visibilitychange', () => { lists(); charts(true); });
theme(false);
set_role(false, 'not known yet who you are');
fill(place('link'), icon('notice'), 'connecting');
put_verdict('notice', 'Asking the broker …');
show_view();
const samples = new Samples({ sample: take_sample, lost });
setInterval(lists, kListEveryMs);
setInterval(charts, 1000);
setInterval(() => { if (state.link === 'live') look_back(); }, kHistoryEveryMs['24h']);
