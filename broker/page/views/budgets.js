// SPDX-License-Identifier: Apache-2.0
// What upstreams allow: used against limit, pauses, keys, and who waits for it.
import { Table, chip, fill, h, meter, say } from '../dom.js';
import { Chart } from '../charts.js';
import { pause_or_resume } from '../actions.js';
import { get, rows } from '../broker.js';
import { count, duration, many, name_of_limit, percent } from '../words.js';

/** So many waiting jobs are asked what they wait for. */
const kAskedMax = 12;

export function budgets_view(room) {
  const cards = new Map();
  const list = h('div', { class: 'cards' });
  const empty = h('p', { class: 'empty', hidden: true }, 'No budget is configured: nothing limits what is handed over but the places of workers. ',
    h('code', null, '[[budget]]'), ' in the configuration adds one.');
  const view = { span: '15m', element: h('div', { class: 'view' }, list, empty) };

  view.sample = ({ stats }) => {
    for (const [name, budget] of Object.entries(stats.budgets)) {
      if (!cards.has(name)) {
        cards.set(name, card(name, room));
        list.append(cards.get(name).element);
      }
      cards.get(name).show(budget, stats.keys?.[name] ?? {}, stats.paused);
    }
    for (const [name, one] of cards)
      if (!(name in stats.budgets)) { one.close(); one.element.remove(); cards.delete(name); }
    empty.hidden = cards.size > 0;
  };
  view.lists = async () => {
    const { list: all } = await rows('budgets');
    for (const row of all) if (row.key === undefined) cards.get(row.name)?.match(row);
  };
  view.charts = async () => {
    const part = await room.history(view.span, 'budget.');
    for (const one of cards.values()) one.chart(part);
  };
  view.redraw = () => cards.forEach((one) => one.redraw());
  view.close = () => cards.forEach((one) => one.close());
  return view;
}

/** Limits of a budget or key: what has a level. */
function limits_of(budget) {
  return Object.entries(budget).filter(([, one]) => typeof one === 'object' && one !== null && 'level' in one);
}

function card(name, room) {
  const state = h('span'), matches = h('p', { class: 'note' }), buttons = h('div', { class: 'buttons' });
  const limits = h('dl', { class: 'limits' }), waits = h('div', { class: 'waits' });
  let row = null, said = '';
  const chart = new Chart({ title: 'Used of each limit', show: percent, most: 1.05 });
  const keys = new Table({
    name: `Keys of ${name}`, key: (one) => one.name, empty: '',
    columns: [
      { head: 'Key', cell: (one) => h('span', { class: 'name' }, one.name), same: () => 0 },
      { head: 'State', cell: (one) => chip({ active: 'good', draining: 'notice', spent: 'bad' }[one.state] ?? 'notice', one.state) },
      { head: 'Running', number: true, cell: (one) => count(one.running) },
      { head: 'Jobs so far', number: true, cell: (one) => count(one.jobs) },
      { head: 'Used', number: true, cell: (one) => limits_of(one).map(([limit, now]) => `${name_of_limit(limit)} ${percent(used_of(now))}`).join(', ') || '–' },
      { head: 'Pause', number: true, cell: (one) => (one.paused_ms ? duration(one.paused_ms) : '–') },
    ],
  });
  const ask = h('button', { type: 'button', onclick: () => who_waits() }, 'Who waits for it?');
  const element = h('section', { class: 'panel card' }, h('header', null, h('h2', null, name), state, buttons), matches, limits, chart.element, keys.element, ask, waits);

  async function who_waits() {
    fill(waits, h('p', null, 'Asking …'));
    const filter = Object.fromEntries(['service', 'client', 'model', 'lane'].filter((field) => row?.[field] && !/[*?[]/.test(row[field])).map((field) => [field, row[field]]));
    try {
      const { list } = await rows('jobs', { ...filter, state: 'queued', limit: kAskedMax }, 3);
      const jobs = (await Promise.all(list.slice(0, kAskedMax).map((job) => get(`jobs/${encodeURIComponent(job.id)}`).catch(() => null))))
        .filter((job) => job?.blocked_by && new RegExp(`^(budget|reserve|paused budget) ${escaped(name)}( |:|$)`).test(job.blocked_by));
      fill(waits, jobs.length ? [h('p', null, `Of ${many(Math.min(list.length, kAskedMax), 'waiting job')} looked at, ${count(jobs.length)} wait for it:`),
        h('ul', null, jobs.map((job) => h('li', null, h('a', { href: `#jobs/${encodeURIComponent(job.id)}` }, job.id), ` of ${job.client}, lane ${job.lane}: ${job.blocked_by}`)))]
        : h('p', { class: 'note' }, list.length ? `None of ${many(Math.min(list.length, kAskedMax), 'waiting job')} looked at waits for it.` : 'No job that it is for waits.'));
    } catch (error) {
      fill(waits, h('p', null, error.message));
    }
  }

  return {
    element,
    show(budget, own, paused) {
      const by_operator = paused.includes(`budget ${name}`);
      fill(state, by_operator ? chip('pause', 'paused by an operator') : null,
        budget.paused_ms ? chip('warning', `its upstream pauses it: ${duration(budget.paused_ms)} left${budget.probed_ms ? `, tried in ${duration(budget.probed_ms)}` : ''}`) : null,
        !by_operator && !budget.paused_ms ? chip('good', 'open') : null);
      if (said !== String(by_operator)) {
        said = String(by_operator);
        fill(buttons, pause_or_resume('budget', name, by_operator, room.refresh));
      }
      fill(limits, limits_of(budget).map(([limit, now]) => {
        const words = `${count(now.capacity - now.level)} of ${count(now.capacity)} used`;
        const more = now.effective !== undefined ? `; the upstream allows ${count(now.effective)} of the ${count(now.limit)} configured, as ${now.learnt_from === 'words' ? 'it said' : 'refusals showed'} ${duration(now.learnt_ms)} ago` : now.capacity !== now.limit ? `; limit ${count(now.limit)}` : '';
        return h('div', null, h('dt', null, name_of_limit(limit)), h('dd', null, meter(used_of(now), `${name} ${limit}`, words), h('span', { class: 'words', data: { figure: `budgets.${name}.${limit}.limit`, value: now.limit } }, words + more)));
      }));
      if (!limits.children.length) say(limits, 'It has no limit of its own.');
      const list = Object.entries(own).map(([key, one]) => ({ ...one, name: key }));
      keys.element.hidden = list.length === 0;
      keys.update(list);
    },
    match(found) {
      row = found;
      const of = ['service', 'model', 'client', 'lane'].filter((field) => found[field]).map((field) => `${field} ${found[field]}`);
      const models = Object.entries(found.paused_models_ms ?? {}).map(([model, ms]) => `${model} for ${duration(ms)}`);
      say(matches, `For ${of.length ? of.join(', ') : 'all jobs'}; ${found.window === 'sliding' ? 'a sliding window' : 'a bucket'}.${reserved(found)}${models.length ? ` Paused models: ${models.join(', ')}.` : ''}`);
    },
    chart(part) {
      const prefix = `budget.${name}.`;
      chart.update(part.at_ms, Object.entries(part.series).filter(([series]) => series.startsWith(prefix) && series.slice(prefix.length).split('.').length === 2)
        .map(([series, values]) => ({ name: name_of_limit(series.slice(prefix.length, -'.used'.length)), values })));
    },
    redraw: () => chart.redraw(),
    close: () => chart.drop(),
  };
}

function used_of(limit) {
  return limit.capacity > 0 ? Math.max(0, 1 - limit.level / limit.capacity) : 0;
}

function reserved(row) {
  const all = Object.entries(row.reserve ?? {});
  return all.length ? ` Kept for higher lanes: ${all.map(([limit, share]) => `${name_of_limit(limit)} ${share}`).join(', ')}.` : '';
}

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
