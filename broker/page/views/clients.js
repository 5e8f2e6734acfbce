// SPDX-License-Identifier: Apache-2.0
// Who asks: their share, weight, and what waits.
import { Table, chip, fill, h, meter } from '../dom.js';
import { pause_or_resume } from '../actions.js';
import { rows } from '../broker.js';
import { count, duration, many, percent } from '../words.js';

export function clients_view(room) {
  let total = 0, by_tokens = false;
  const more = h('p', { class: 'note' });
  const size_of = (client) => (by_tokens ? client.tokens : client.running);
  const table = new Table({
    name: 'Clients', key: (client) => client.name, empty: 'No client has, or lately had, a job.',
    columns: [
      { head: 'Client', cell: (client) => [h('span', { class: 'name' }, client.name || '(no name)'), client.paused ? chip('pause', 'paused') : null], same: (client) => client.paused === true },
      { head: 'Share', cell: (client) => {
        const share = total ? size_of(client) / total : 0;
        return [meter(share, `Share of ${client.name}`, percent(share)), h('span', { class: 'words' }, percent(share))];
      } },
      { head: 'Weight', number: true, cell: (client) => count(client.weight) },
      { head: 'Waiting', number: true, cell: (client) => bounded(client.waiting, client.depth_max) },
      { head: 'Running', number: true, cell: (client) => bounded(client.running, client.in_flight_max) },
      { head: 'Tokens', number: true, cell: (client) => (client.tokens === undefined ? '–' : count(client.tokens)) },
      { head: 'Waits p50', number: true, cell: (client) => waits(client, 'p50') },
      { head: 'p99', number: true, cell: (client) => waits(client, 'p99') },
      { head: 'Do', cell: (client) => [h('a', { href: `#jobs/?client=${encodeURIComponent(client.name)}` }, 'Jobs'), client.name ? pause_or_resume('client', client.name, client.paused === true, room.refresh) : null], same: (client) => client.paused === true },
    ],
  });
  return {
    element: h('div', { class: 'view' }, h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Clients'), more), table.element)),
    async lists() {
      const { list, more: others } = await rows('clients');
      by_tokens = list.some((client) => client.tokens > 0);
      total = list.reduce((sum, client) => sum + (size_of(client) ?? 0), 0);
      table.update(list.sort((one, other) => (size_of(other) ?? 0) - (size_of(one) ?? 0) || other.waiting - one.waiting || one.name.localeCompare(other.name)));
      fill(more, `${many(list.length, 'client')}${others ? ' and more' : ''}; shares are of ${by_tokens ? 'tokens' : 'the jobs that run'}.`);
    },
  };
}

function bounded(value, most) {
  return most ? `${count(value)} of ${count(most)}` : count(value);
}

// Of the last minute; where none was handed over there is nothing to say.
function waits(client, of) {
  return client.wait_ms?.minute.count ? duration(client.wait_ms.minute[of]) : '–';
}
