// SPDX-License-Identifier: Apache-2.0
// What runs here: the configuration and where it was set, pauses, changes and by whom, counters.
import { Table, chip, fill, h, say } from '../dom.js';
import { action, resume } from '../actions.js';
import { post, rows } from '../broker.js';
import { bytes, clock, count, duration, many } from '../words.js';

const kOptionPages = 50;

export function system_view(room) {
  const view = {};
  let options = [];
  const pauses = new Table({
    name: 'Pauses', key: (pause) => `${pause.what} ${pause.name}`, empty: 'Nothing is paused.',
    columns: [
      { head: 'What', cell: (pause) => [pause.what, ' ', h('span', { class: 'name' }, pause.name)], same: () => 0 },
      { head: 'For', number: true, cell: (pause) => duration(pause.for_ms) },
      { head: 'Reason', cell: (pause) => pause.reason || '–' },
      { head: 'Do', cell: (pause) => resume(pause.what, pause.name, room.refresh), same: () => 0 },
    ],
  });
  const changes = new Table({
    name: 'Changes', key: (change) => change.number, empty: 'Nobody has changed anything since the broker’s start.',
    columns: [
      { head: 'When', cell: (change) => h('time', null, clock(Date.now() - change.ago_ms)), same: () => 0 },
      { head: 'What', cell: (change) => [h('span', { class: 'name' }, change.verb), ` ${change.what} ${change.name}`], same: () => 0 },
      { head: 'How', cell: (change) => change.how || '–', same: () => 0 },
      { head: 'By', cell: (change) => change.by || '–', same: () => 0 },
    ],
  });
  const find = h('input', { placeholder: 'lane.batch, memory …', autocomplete: 'off', oninput: () => show_options() });
  const set_only = h('input', { type: 'checkbox', checked: true, onchange: () => show_options() });
  const config = new Table({
    name: 'Configuration', key: (option) => option.key, empty: 'No option is like that.',
    columns: [
      { head: 'Option', cell: (option) => h('code', null, option.key), same: () => 0 },
      { head: 'Value', cell: (option) => h('code', null, option.value === '' ? '(empty)' : option.value), same: (option) => option.value },
      { head: 'Set by', cell: (option) => (option.from === 'operator' ? chip('notice', 'operator') : option.from), same: (option) => option.from },
    ],
  });
  const counters = new Table({
    name: 'Counters', key: (counter) => counter.name, empty: 'All counters are 0.',
    columns: [
      { head: 'Counter', cell: (counter) => counter.name.replaceAll('_', ' '), same: () => 0 },
      { head: 'Value', number: true, cell: (counter) => (counter.name.endsWith('_bytes') ? bytes(counter.value) : count(counter.value)), figure: (counter) => `counters.${counter.name}`, value: (counter) => counter.value },
    ],
  });
  const facts = h('dl', { class: 'facts' }), of_config = h('p', { class: 'note' });
  const panel = (title, note, ...rest) => h('section', { class: 'panel' }, h('header', null, h('h2', null, title), note), rest);
  view.element = h('div', { class: 'view' },
    panel('The broker', h('div', { class: 'buttons' }, reload(room)), facts),
    h('div', { class: 'halves' }, panel('Pauses', null, pauses.element), panel('Changes', h('p', { class: 'note' }, 'the last 200, the newest first'), changes.element)),
    panel('Configuration', of_config, h('div', { class: 'filters' }, h('label', null, h('span', null, 'find'), find), h('label', { class: 'check' }, set_only, h('span', null, 'only what was set'))), config.element),
    panel('Counters', h('p', { class: 'note' }, 'since the broker’s start; those that are 0 are left out'), counters.element));

  function show_options() {
    const asked = find.value.trim().toLowerCase();
    const chosen = options.filter((option) => (!set_only.checked || option.from !== 'default') && (!asked || option.key.toLowerCase().includes(asked)));
    config.update(chosen);
    say(of_config, `${many(chosen.length, 'option')} of ${count(options.length)}`);
  }

  view.sample = ({ stats }) => {
    const { store, turn_ms: turn, descriptors, results } = stats;
    const told = [
      ['Version', stats.version], ['Up', duration(stats.uptime_ms)], ['Store', `${store.kind}, ${store.state}`],
      ['On disk', store.file_bytes === undefined ? '–' : `${bytes(store.file_bytes)}, ${bytes(store.disk_free_bytes)} free`],
      ['Jobs and answers in memory', `${bytes(stats.memory_bytes)} of ${bytes(stats.memory_max)}`], ['Process', bytes(stats.resident_bytes)],
      ['Longest turn', `${duration(turn.last_minute)} in the last minute, ${duration(turn.max)} ever`],
      ['Descriptors', `${count(descriptors.used)} of ${count(descriptors.limit)}`], ['Answers kept', `${count(results.kept)}, ${count(results.dead)} of them of dead jobs`],
      ['An id means its job for', duration(results.ids_good_ms)],
    ];
    fill(facts, told.map(([title, value]) => h('div', null, h('dt', null, title), h('dd', null, value))));
    counters.update(Object.entries(stats.counters).filter(([, value]) => value !== 0).map(([name, value]) => ({ name, value })));
  };
  view.lists = async () => {
    const [paused, changed, all] = await Promise.all([rows('pauses'), rows('changes'), rows('config', {}, kOptionPages)]);
    pauses.update(paused.list);
    changes.update(changed.list);
    options = all.list;
    show_options();
  };
  return view;
}

function reload(room) {
  return action({
    label: 'Reload', name: 'Reload the configuration', verb: 'reload', fields: {}, what: 'Read the configuration again?', then: room.refresh,
    why: 'What operators have changed with limit and lane goes back to the configuration.',
    preview: async () => {
      const { reload: list, more = 0 } = await post('reload', { dry_run: true });
      const all = list.length + more;
      return all ? `It changes ${many(all, 'thing')}: ${list.slice(0, 6).map((row) => row.what).join(', ')}${all > 6 ? ' …' : ''}.` : 'It changes nothing.';
    },
    command: () => 'lanemq reload', done: (answer) => `Read again: ${many(answer.reload.length + (answer.more ?? 0), 'change')}.`,
  });
}
