// SPDX-License-Identifier: Apache-2.0
// A row a lane, the places, the store and the memory: what is looked at all the time.
import { Table, chip, fill, h, meter, say, spark } from '../dom.js';
import { Chart } from '../charts.js';
import { pause_or_resume } from '../actions.js';
import { bytes, count, duration, many, percent, rate } from '../words.js';

const kSpans = [['15m', '15 minutes'], ['24h', '24 hours']];
const kSparkPoints = 60;

export function now_view(room) {
  let paused = new Set();
  let recent = {};
  const view = { span: '15m' };

  const figure = (name) => ({ figure: (lane) => `lanes.${lane.name}.${name}`, value: (lane) => lane[name] });
  const table = new Table({
    name: 'Lanes', key: (lane) => lane.name, empty: 'No lane is configured.',
    columns: [
      { head: 'Lane', cell: (lane) => [h('span', { class: 'name' }, lane.name), paused.has(`lane ${lane.name}`) ? chip('pause', 'paused') : null],
        same: (lane) => paused.has(`lane ${lane.name}`) },
      { head: 'Waiting', number: true, cell: (lane) => count(lane.queued), ...figure('queued') },
      { head: '15 minutes', cell: (lane) => spark(recent[lane.name] ?? [], `Waiting in ${lane.name}, the last 15 minutes`),
        same: (lane) => (recent[lane.name] ?? []).join() },
      { head: 'Oldest', number: true, cell: (lane) => (lane.queued ? duration(lane.oldest_ms) : '–') },
      { head: 'Running', number: true, cell: (lane) => count(lane.running), ...figure('running') },
      { head: 'Wait p50', number: true, cell: (lane) => wait_of(lane, 'minute', 'p50') },
      { head: 'Wait p99', number: true, cell: (lane) => wait_of(lane, 'minute', 'p99') },
      { head: 'p99, 10 min', number: true, cell: (lane) => wait_of(lane, 'ten_minutes', 'p99') },
      { head: 'Done /s', number: true, cell: (lane) => rate(lane.per_second.succeeded), figure: (lane) => `lanes.${lane.name}.succeeded`, value: (lane) => lane.succeeded },
      { head: 'Failed /s', number: true, cell: (lane) => hot(lane.per_second.failed), figure: (lane) => `lanes.${lane.name}.failed`, value: (lane) => lane.failed },
      { head: 'Refused /s', number: true, cell: (lane) => hot(lane.per_second.refused), figure: (lane) => `lanes.${lane.name}.refused`, value: (lane) => lane.refused },
      { head: 'Do', cell: (lane) => pause_or_resume('lane', lane.name, paused.has(`lane ${lane.name}`), room.refresh),
        same: (lane) => paused.has(`lane ${lane.name}`) },
    ],
    row: (element, lane) => element.classList.toggle('idle', lane.queued + lane.running + lane.delayed === 0),
  });

  const ended = (group) => group.succeeded + group.failed + group.cancelled + group.expired;
  const groups = new Table({
    name: 'Groups', key: (group) => group.name, empty: 'No group is under way.',
    columns: [
      { head: 'Group', cell: (group) => h('span', { class: 'name' }, group.name) },
      { head: 'Over', cell: (group) => meter(ended(group) / group.size, group.name, percent(ended(group) / group.size)), same: ended },
      { head: 'Done', number: true, cell: (group) => `${count(group.succeeded)} of ${count(group.size)}` },
      { head: 'Failed', number: true, cell: (group) => count(ended(group) - group.succeeded) },
      { head: 'Open', number: true, cell: (group) => count(group.open) },
      { head: 'Over in', number: true, cell: (group) => (group.left_ms === undefined ? '–' : duration(group.left_ms)) },
    ],
  });
  const under_way = h('section', { class: 'panel', hidden: true }, h('header', null, h('h2', null, 'Groups under way'),
    h('p', { class: 'note' }, 'Those that said how many jobs they have. When they are over is told from their pace so far.')), groups.element);

  const tiles = Object.fromEntries([['waiting', 'Jobs waiting'], ['running', 'Jobs running'], ['done', 'Done a second'], ['places', 'Places taken'], ['memory', 'Memory'], ['store', 'Store'], ['dead', 'Dead jobs']]
    .map(([name, title]) => {
      const value = h('b'), below = h('small'), bar = h('div');
      return [name, { value, below, bar, element: h('div', { class: 'tile' }, h('span', null, title), value, bar, below) }];
    }));
  const put = (name, value, below, share) => {
    say(tiles[name].value, value);
    say(tiles[name].below, below);
    if (share !== undefined) fill(tiles[name].bar, meter(share, name, percent(share)));
  };

  const charts = {
    queued: new Chart({ title: 'Waiting, by lane', show: count, empty: 'No history yet: it grows by a point a second.' }),
    wait: new Chart({ title: 'Wait by lane: p99, or the oldest that waits', show: duration }),
    done: new Chart({ title: 'Done a second, by lane', show: rate }),
    trouble: new Chart({ title: 'Failed and refused a second', show: rate, empty: 'None failed, none was refused.' }),
  };
  const spans = h('div', { class: 'spans', role: 'group', 'aria-label': 'How far back' }, kSpans.map(([span, title]) =>
    h('button', { type: 'button', 'aria-pressed': String(span === view.span), data: { span }, onclick: (event) => {
      view.span = span;
      for (const button of spans.children) button.setAttribute('aria-pressed', button.dataset.span === span);
      event.currentTarget.focus();
      room.redraw();
    } }, title)));

  view.element = h('div', { class: 'view' },
    h('div', { class: 'tiles' }, Object.values(tiles).map((tile) => tile.element)),
    h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Lanes'), h('p', { class: 'note' }, 'Rates are of the last 10 seconds, waits of the last minute, and of the last ten.')), table.element),
    under_way,
    h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Over time'), spans),
      h('div', { class: 'charts' }, Object.values(charts).map((chart) => chart.element))));

  view.sample = ({ stats }) => {
    paused = new Set(stats.paused);
    const lanes = Object.entries(stats.lanes).map(([name, lane]) => ({
      ...lane, name,
      per_second: Object.fromEntries(['succeeded', 'failed', 'refused'].map((field) => [field, room.rate((one) => one.lanes[name]?.[field])])),
    }));
    table.update(lanes);
    const going = Object.entries(stats.groups ?? {}).map(([name, group]) => ({ ...group, name }));
    under_way.hidden = going.length === 0;
    groups.update(going);
    const sum = (of) => lanes.reduce((total, lane) => total + (of(lane) ?? 0), 0);
    const oldest = Math.max(0, ...lanes.map((lane) => lane.oldest_ms));
    put('waiting', count(sum((lane) => lane.queued)), sum((lane) => lane.queued) ? `the oldest for ${duration(oldest)}` : `${count(sum((lane) => lane.delayed))} come later`);
    put('running', count(sum((lane) => lane.running)), `at ${many(stats.workers.connected, 'worker')}`);
    put('done', rate(sum((lane) => lane.per_second.succeeded)), `${rate(sum((lane) => lane.per_second.failed))} fail`);
    const { running, capacity } = stats.workers;
    put('places', capacity ? percent(running / capacity) : '–', capacity ? `${count(running)} of ${count(capacity)}` : 'no worker is connected', capacity ? running / capacity : 0);
    put('memory', bytes(stats.memory_bytes), `of ${bytes(stats.memory_max)}; process ${bytes(stats.resident_bytes)}`, stats.memory_bytes / stats.memory_max);
    const { store } = stats;
    put('store', store.state, store.kind === 'memory' ? 'in memory alone' : `${bytes(store.file_bytes)}${store.disk_free_bytes === undefined ? '' : `, ${bytes(store.disk_free_bytes)} free`}`);
    put('dead', count(stats.results.dead), stats.results.dead ? 'see Dead' : 'none');
  };

  view.charts = async () => {
    const part = await room.history(view.span, 'lane.');
    const lanes = Object.keys(room.latest()?.stats.lanes ?? {});
    const lines = (field) => lanes.map((name) => ({ name, values: part.series[`lane.${name}.${field}`] ?? [] }));
    const moves = (line) => line.values.some((value) => value > 0);
    const moving = (field) => lines(field).filter(moves);
    for (const field of ['queued', 'done']) charts[field].update(part.at_ms, moving(field));
    charts.wait.update(part.at_ms, longer(lines('wait_p99_ms'), lines('oldest_ms')).filter(moves));
    charts.trouble.update(part.at_ms, ['failed', 'refused'].flatMap((field) => moving(field).map((line) => ({ ...line, name: `${line.name} ${field}` }))));
    if (view.span === '15m') recent = Object.fromEntries(lines('queued').map((line) => [line.name, thinned(line.values)]));
  };
  view.redraw = () => Object.values(charts).forEach((chart) => chart.redraw());
  view.close = () => Object.values(charts).forEach((chart) => chart.drop());
  return view;
}

function wait_of(lane, window, part) {
  const of = lane.wait_ms[window];
  return of.count > 0 ? duration(of[part]) : '–';
}

function hot(value) {
  return value > 0 ? h('span', { class: 'hot' }, rate(value)) : rate(value);
}

/** The larger value of each point. A p99 is of jobs that were handed over: of a lane that stands still it says nothing. */
function longer(lines, others) {
  return lines.map((line, at) => ({ ...line, values: line.values.map((value, point) => {
    const other = others[at].values[point] ?? null;
    return value === null || other === null ? value ?? other : Math.max(value, other);
  }) }));
}

/** The highest of each piece: a peak must not vanish. */
function thinned(values) {
  const size = Math.ceil(values.length / kSparkPoints) || 1;
  const pieces = [];
  for (let at = 0; at < values.length; at += size) {
    const there = values.slice(at, at + size).filter((value) => value !== null);
    pieces.push(there.length ? Math.max(...there) : null);
  }
  return pieces;
}
